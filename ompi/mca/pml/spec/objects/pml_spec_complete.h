/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Completing a request for MPI while another thread may wait for it.
 *
 * MPI_Waitany and MPI_Waitsome put the address of an object on their stack into every request. The thread that completes
 * a request takes the address out, and then counts down and signals there. If two threads complete two of the requests at a time,
 * the waiter goes when the first has signalled, while the second still has to count: by then somebody else's stack,
 * often that of the thread's next wait, which ends with nothing complete and reports a request that is none any more
 * (Open MPI 4.1 and 5.0, ompi/request/req_wait.c). So threads between these two steps are counted here, and a request is
 * given back, which those two calls do before they return, when nobody is. Persistent requests are not given back
 * there: docs/known-issues.md.
 *
 * Threads: any. Nothing but MPI_THREAD_MULTIPLE pays for it, and there only a thread that finds a waiter. */
#ifndef PML_SPEC_COMPLETE_H
#define PML_SPEC_COMPLETE_H

#include "pml_spec.h"

#include "ompi/request/request.h"

#include <sched.h>

/* Threads that are signalling a waiter. */
extern volatile int32_t mca_pml_spec_signalling;

/* The request is complete; its status has been written. */
static inline void mca_pml_spec_complete(ompi_request_t *request)
{
    void *pending = REQUEST_PENDING;
    /* A callback may do anything, and the object is not touched before it returns. */
    if (OPAL_UNLIKELY(NULL != request->req_complete_cb)) {
        ++mca_pml_spec_depth;
        ompi_request_complete(request, true);
        --mca_pml_spec_depth;
        return;
    }
    if (OPAL_LIKELY(!mca_pml_spec.threaded)) {
        ompi_request_complete(request, true);
        return;
    }
    /* A thread that finds it complete may give it back. */
    ompi_communicator_t *comm = request->req_mpi_object.comm;
    const int error = request->req_status.MPI_ERROR;
    if (OPAL_ATOMIC_COMPARE_EXCHANGE_STRONG_PTR(&request->req_complete, &pending,
                                                REQUEST_COMPLETED)) {
        if (OPAL_UNLIKELY(MPI_SUCCESS != error)) {
            mca_pml_spec_failed_unseen(comm, error);
        }
        return;
    }
    (void) mca_pml_spec_add32(&mca_pml_spec_signalling, 1);
    ompi_request_complete(request, true);
    (void) mca_pml_spec_add32(&mca_pml_spec_signalling, -1);
}

/* Until no thread signals that may have the address of the caller's stack. */
static inline void mca_pml_spec_await_signals(void)
{
    while (OPAL_UNLIKELY(mca_pml_spec.threaded)
           && 0 != __atomic_load_n(&mca_pml_spec_signalling, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
}

#endif
