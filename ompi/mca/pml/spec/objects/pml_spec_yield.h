/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Threads that wait in MPI give way to others: the processor, each time they have polled pml_spec_yield_polls times.
 *
 * A thread that leaves its wait wakes the next one, which polls in its stead (Open MPI, ompi_sync_wait_mt). Where both have one
 * processor, as the threads of a bound process do, the woken thread takes it at once and polls, for a time slice, for
 * messages that only the other one's next call can bring about. Nothing is yielded without MPI_THREAD_MULTIPLE or an agent, which needs
 * a processor only for what is under way. */
#ifndef PML_SPEC_YIELD_H
#define PML_SPEC_YIELD_H

/* From now on opal_progress yields; nothing if pml_spec_yield_polls is 0. */
void mca_pml_spec_yield_begin(void);

/* No more. Not begun: nothing. */
void mca_pml_spec_yield_end(void);

#endif
