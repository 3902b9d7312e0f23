/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_Waitall that returns from requests which had failed before, with threads.
 *
 * That of Open MPI 4.1 ends in a loop then: it does not wait for what is pending, and yet for the signal that only this would
 * give. Every program is concerned in which more than one thread completes requests, with the progress agent any program. So
 * there the requests are waited for one after the other, and the function of Open MPI is asked only if none has failed.
 * Requests behind one that has failed may be pending when it returns, as MPI allows. Other releases: nothing is done. */
#ifndef PML_SPEC_WAITALL_H
#define PML_SPEC_WAITALL_H

/* From now on; from mca_pml_spec_enable, if there are threads. */
void mca_pml_spec_waitall_begin(void);

/* No more. Not begun: nothing. */
void mca_pml_spec_waitall_end(void);

#endif
