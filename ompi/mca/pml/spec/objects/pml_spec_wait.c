/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_Wait and MPI_Waitall. */
#include "pml_spec_wait.h"

static ompi_request_fns_t theirs;

static int wait_one(ompi_request_t **request, ompi_status_public_t *status)
{
    mca_pml_spec_wait(*request);
    return theirs.req_wait(request, status);
}

/* Waits for one after the other. False: one has failed, and those behind it were not waited for. */
static bool succeed(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; ++i) {
        mca_pml_spec_wait(requests[i]);
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
        const bool complete = REQUEST_COMPLETED == mca_pml_spec_completion(requests[i]);
        const int error = complete ? theirs.req_wait(&requests[i], status) : MPI_ERR_PENDING;
        if (NULL != status) {
            status->MPI_ERROR = error;
        }
    }
}

static int wait_all(size_t count, ompi_request_t **requests, ompi_status_public_t *statuses)
{
    if (OPAL_LIKELY(succeed(count, requests)) || !MCA_PML_SPEC_WAITALL_LOOPS) {
        return theirs.req_wait_all(count, requests, statuses);
    }
    end_each(count, requests, statuses);
    return MPI_ERR_IN_STATUS;
}

void mca_pml_spec_wait_begin(void)
{
    theirs = ompi_request_functions;
    /* Where MPI goes on after failures a wait may end before its request does. */
    mca_pml_spec.waits_alone =
        mca_pml_spec.has_agent && !ompi_mpi_thread_multiple && !mca_pml_spec_outlives();
    if (mca_pml_spec.waits_alone) {
        ompi_request_functions.req_wait = wait_one;
    }
    if (mca_pml_spec.waits_alone || MCA_PML_SPEC_WAITALL_LOOPS) {
        ompi_request_functions.req_wait_all = wait_all;
    }
}

void mca_pml_spec_wait_end(void)
{
    mca_pml_spec.waits_alone = false;
    if (wait_one == ompi_request_functions.req_wait) {
        ompi_request_functions.req_wait = theirs.req_wait;
    }
    if (wait_all == ompi_request_functions.req_wait_all) {
        ompi_request_functions.req_wait_all = theirs.req_wait_all;
    }
}
