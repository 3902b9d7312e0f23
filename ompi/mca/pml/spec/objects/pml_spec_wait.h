/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How the program's threads wait for requests, where Open MPI's own way is wrong or needlessly dear.
 *
 * A program has one thread in MPI and there is a progress agent: with threads Open MPI makes an object of each wait, with a
 * mutex and a condition, by which the thread that polls wakes the others. There are no others. So the program polls until the
 * request is complete.
 *
 * Open MPI 4.1, with threads: MPI_Waitall for a request that had failed before ends in a loop; it does not wait for what is
 * pending, and yet for the signal that only this would give. So the requests are waited for one after the other, and the
 * function of Open MPI is asked only if none has failed. Requests behind one that has failed may be pending when it returns,
 * as MPI allows.
 *
 * Both take the place of functions that Open MPI has a table for. */
#ifndef PML_SPEC_WAIT_H
#define PML_SPEC_WAIT_H

#include "pml_spec_complete.h"

/* From now on; from mca_pml_spec_enable, if there are threads, when it is known whether there will be an agent. */
void mca_pml_spec_wait_begin(void);

/* No more. Not begun: nothing. */
void mca_pml_spec_wait_end(void);

/* Returns when the request is complete. */
static inline void mca_pml_spec_wait(ompi_request_t *request)
{
    if (OPAL_LIKELY(!mca_pml_spec.waits_alone)) {
        ompi_request_wait_completion(request);
        return;
    }
    while (REQUEST_COMPLETED != mca_pml_spec_completion(request)) {
        opal_progress();
    }
}

#endif
