/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Takes the place of Open MPI's function for MPI_Waitall, which it has a table for. */
#include "pml_spec_waitall.h"

#include "pml_spec_compat.h"

#if MCA_PML_SPEC_WAITALL_LOOPS

static ompi_request_wait_all_fn_t theirs;

/* Waits for one after the other. False: one has failed, and those behind it were not waited for. */
static bool succeed(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; ++i) {
        ompi_request_wait_completion(requests[i]);
        if (OPAL_UNLIKELY(OMPI_REQUEST_INACTIVE != requests[i]->req_state
                          && MPI_SUCCESS != requests[i]->req_status.MPI_ERROR)) {
            return false;
        }
    }
    return true;
}

/* One of them has failed. Requests that failed are left to the error handler, which is asked next and frees them. */
static void end_each(size_t count, ompi_request_t **requests, ompi_status_public_t *statuses)
{
    for (size_t i = 0; i < count; ++i) {
        ompi_status_public_t *status = MPI_STATUSES_IGNORE == statuses ? NULL : &statuses[i];
        const int error = REQUEST_COMPLETE(requests[i])
                              ? ompi_request_wait(&requests[i], status)
                              : MPI_ERR_PENDING;
        if (NULL != status) {
            status->MPI_ERROR = error;
        }
    }
}

static int wait_all(size_t count, ompi_request_t **requests, ompi_status_public_t *statuses)
{
    if (OPAL_LIKELY(succeed(count, requests))) {
        return theirs(count, requests, statuses);
    }
    end_each(count, requests, statuses);
    return MPI_ERR_IN_STATUS;
}

void mca_pml_spec_waitall_begin(void)
{
    theirs = ompi_request_functions.req_wait_all;
    ompi_request_functions.req_wait_all = wait_all;
}

void mca_pml_spec_waitall_end(void)
{
    if (wait_all == ompi_request_functions.req_wait_all) {
        ompi_request_functions.req_wait_all = theirs;
    }
}

#else

void mca_pml_spec_waitall_begin(void) {}
void mca_pml_spec_waitall_end(void) {}

#endif
