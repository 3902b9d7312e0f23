/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Processes that a transport has given up.
 *
 * Every request with such a process ends in an error: receives that wait for a message of it (also
 * those from any source in a communicator that it belongs to, since they may wait for it), sends
 * that wait for its answer, what a transport had no room for, and all that is asked for later. What
 * it sent completely before can still be received. The job goes on if the program's error handler
 * lets it.
 *
 * A request whose data a transport may still hold is completed with an error for MPI all the same
 * (LOST, see pml_spec_request.h).
 *
 * Threads: any. A transport may tell from within any of its functions, so that the work is done from
 * opal_progress. */
#ifndef PML_SPEC_LOST_H
#define PML_SPEC_LOST_H

#include "../objects/pml_spec_comm.h"
#include "../objects/pml_spec_request.h"

/* A transport has given the process up. Once per process; a message is given. */
void mca_pml_spec_lost_report(opal_proc_t *proc, const char *transport, const char *why);

/* Forget all (at finalize). */
void mca_pml_spec_lost_fini(void);

#endif
