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

#include "../core/spec_life.h"
#include "pml_spec.h"
#include "pml_spec_agent.h"
#include "pml_spec_comm.h"

#include "ompi/request/request.h"

#include <pthread.h>
#include <sched.h>

/* Threads that are signalling another one's wait. */
extern volatile int32_t mca_pml_spec_signalling;

/* Is it in a frame of the calling thread's stack that is still there? False where that is not known. */
bool mca_pml_spec_is_mine(const void *object);

/* Where a request says whether it is complete: REQUEST_PENDING, REQUEST_COMPLETED, or what is to be signalled. For atomic
 * operations only; its type differs between releases of Open MPI, whose own exchanges order nothing. */
static inline void **mca_pml_spec_completion_at(const ompi_request_t *request)
{
    return (void **) (uintptr_t) &request->req_complete;
}

static inline void *mca_pml_spec_completion(const ompi_request_t *request)
{
    return __atomic_load_n(mca_pml_spec_completion_at(request), __ATOMIC_ACQUIRE);
}

/* The request is complete, and there is a callback: it may do anything, and the object is not touched before it returns. */
void mca_pml_spec_complete_call(ompi_request_t *request);

/* It is complete, there is none, and callbacks may come in several threads. */
void mca_pml_spec_complete_threaded(ompi_request_t *request);

/* It is complete, and there is none. */
static inline void mca_pml_spec_complete_plain(ompi_request_t *request)
{
    if (OPAL_UNLIKELY(mca_pml_spec.threaded)) {
        mca_pml_spec_complete_threaded(request);
    } else if (OPAL_UNLIKELY(MPI_SUCCESS != request->req_status.MPI_ERROR)) {
        ompi_request_complete(request, true);
    } else { /* what that does, without its atomic operations */
        void **at = mca_pml_spec_completion_at(request);
        void *waiter = *at;
        *at = REQUEST_COMPLETED;
        if (REQUEST_PENDING != waiter) {
            wait_sync_update(waiter, 1, MPI_SUCCESS);
        }
    }
}

/* The request is complete; its status has been written. */
static inline void mca_pml_spec_complete(ompi_request_t *request)
{
    (OPAL_UNLIKELY(NULL != request->req_complete_cb) ? mca_pml_spec_complete_call
                                                     : mca_pml_spec_complete_plain)(request);
}

/* Until no thread signals that may have the address of the caller's stack. */
static inline void mca_pml_spec_await_signals(void)
{
    while (OPAL_UNLIKELY(mca_pml_spec.threaded)
           && 0 != __atomic_load_n(&mca_pml_spec_signalling, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
}

/* A request has failed. Ends the job if it was freed, so that nobody can be told; but not where the job may outlive a process or
 * a communicator, of which the program hears by other requests. what: "send to", "receive from". peer may be NULL. */
void mca_pml_spec_failed_freed(const char *what, const mca_pml_base_request_t *base,
                               const volatile int32_t *life, const mca_pml_spec_peer_t *peer,
                               int status);

/* The next, of a request that has been completed for MPI before, or has a callback. */
bool mca_pml_spec_end_over(ompi_request_t *request, volatile int32_t *life, bool told);

/* The PML is done with the request, whose status has been written; its bits are at `life`. told: it has been completed for
 * MPI before. True: the caller gives it back; else the caller touches it no more.
 *
 * DONE comes first, so that a thread that finds it complete needs no atomic operation to know that it is its alone; but
 * last where the completion runs a callback, which may free the request, start it again, or wait. */
static inline bool mca_pml_spec_end(ompi_request_t *request, volatile int32_t *life, bool told)
{
    if (OPAL_UNLIKELY(told || NULL != request->req_complete_cb)) {
        return mca_pml_spec_end_over(request, life, told);
    }
    const int32_t before = mca_pml_spec_set_bits(life, SPEC_LIFE_DONE);
    if (OPAL_UNLIKELY(0 != before)) {
        if (before & SPEC_LIFE_WATCHED) {
            mca_pml_spec_agent_ended();
        }
        const spec_life_next_t next = spec_life_ended(before, false);
        if (SPEC_LIFE_COMPLETE != next) {
            return SPEC_LIFE_RETURN == next;
        }
    }
    mca_pml_spec_complete_plain(request);
    return false;
}

/* Is nothing but its owner left, which frees it? */
static inline bool mca_pml_spec_is_alone(const ompi_request_t *request,
                                         const volatile int32_t *life)
{
    const bool complete = REQUEST_COMPLETED == mca_pml_spec_completion(request);
    return OPAL_LIKELY(spec_life_is_mine(MCA_PML_SPEC_SEEN(*life), complete));
}

/* The next, if that is not so. */
bool mca_pml_spec_let_go_early(ompi_request_t *request, volatile int32_t *life);

/* Its owner frees it. True: the caller gives it back; else the last that works on it does. */
static inline bool mca_pml_spec_let_go(ompi_request_t *request, volatile int32_t *life)
{
    return mca_pml_spec_is_alone(request, life) || mca_pml_spec_let_go_early(request, life);
}

/* The calling thread copies from or to the memory of the request with these bits, which something that it will account for keeps. False:
 * it was given up, and has none. Else until mca_pml_spec_send_leave or _recv_leave. */
static inline bool mca_pml_spec_use(volatile int32_t *life)
{
    if (OPAL_UNLIKELY(!mca_pml_spec_enter())) {
        return spec_life_use(life);
    }
    const bool may = spec_life_may_use(*life);
    *life += may ? SPEC_LIFE_USER : 0;
    mca_pml_spec_leave();
    return may;
}

/* True: the caller tells that the request is lost. */
static inline bool mca_pml_spec_unuse(volatile int32_t *life)
{
    if (OPAL_UNLIKELY(!mca_pml_spec_enter())) {
        return spec_life_leave(life);
    }
    const int32_t after = *life -= SPEC_LIFE_USER;
    mca_pml_spec_leave();
    return OPAL_UNLIKELY(spec_life_is_last(after));
}

/* The reason is in its status. completes: it has not been complete before (a buffered send has). True: the caller gives it back; else
 * the caller touches it no more. */
static inline bool mca_pml_spec_tell_lost(ompi_request_t *request, volatile int32_t *life,
                                          bool completes)
{
    if (completes) {
        mca_pml_spec_complete(request);
    }
    return SPEC_LIFE_RETURN == spec_life_told(mca_pml_spec_set_bits(life, SPEC_LIFE_TOLD));
}

#endif
