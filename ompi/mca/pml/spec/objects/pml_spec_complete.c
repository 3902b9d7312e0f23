/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Where the calling thread's stack is, so that completing a request knows whether the waiter is this very thread. */
#include "pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_complete.h"
#include "pml_spec_explain.h"

#include <pthread.h>

/* Apart from what every call reads. */
volatile int32_t mca_pml_spec_signalling __attribute__((aligned(128)));

/* Of the calling thread; one byte where the system does not say where it is. */
static _Thread_local struct {
    uintptr_t low, high;
} stack;

static __attribute__((noinline)) void stack_find(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    stack.low = UINTPTR_MAX - 1;
    stack.high = UINTPTR_MAX;
    if (0 != pthread_getattr_np(pthread_self(), &attributes)) {
        return;
    }
    if (0 == pthread_attr_getstack(&attributes, &low, &size)) {
        stack.low = (uintptr_t) low;
        stack.high = (uintptr_t) low + size;
    }
    (void) pthread_attr_destroy(&attributes);
}

/* A wait is this far above what completes its request below it, bytes, unless callbacks are in between. */
#define NEAR 8192

/* A program may have left its thread's stack for another (a coroutine): then nothing is known. Nor is it beyond what is near: a
 * program may have given another thread a part of this one's stack. */
bool mca_pml_spec_is_mine(const void *object)
{
    const uintptr_t here = (uintptr_t) __builtin_frame_address(0), at = (uintptr_t) object;
    if (OPAL_UNLIKELY(0 == stack.high)) {
        stack_find();
    }
    return here >= stack.low && at > here && at < stack.high && at - here < NEAR;
}

/* Is the thread asleep on it? The lock that it sleeps with is held, so it then needs that to go on. False where the C library does
 * not tell. */
static bool sleeps_on(const pthread_cond_t *condition)
{
#ifdef __GLIBC__
    return __atomic_load_n(&condition->__data.__wrefs, __ATOMIC_RELAXED) >> 3 > 0;
#else
    (void) condition;
    return false;
#endif
}

static bool sleeps_on_other(const void *condition)
{
    (void) condition;
    return false;
}

/* Another thread waits: counts the wait down, and ends it.
 *
 * A thread that is woken on the processor of the one that wakes it runs at once. Open MPI (wait_sync_update) says that it
 * is through with the wait (`signaling`) after that, until when the woken thread spins: a time slice, 4 ms. A thread that is
 * asleep needs the wait's lock to go on, so there it is said while that is held. One that polls could leave the wait's stack
 * frame at that word: there it is said last. */
static void end_wait(ompi_wait_sync_t *wait, int error)
{
    volatile int32_t *count = (volatile int32_t *) (uintptr_t) &wait->count;
    if (OPAL_UNLIKELY(MPI_SUCCESS != error)) {
        wait->status = error;
        __atomic_store_n(count, 0, __ATOMIC_RELEASE);
    } else if (0 != __atomic_sub_fetch(count, 1, __ATOMIC_ACQ_REL)) {
        return;
    }
    MCA_PML_SPEC_WAIT_LOCK(wait);
    const bool sleeps = _Generic(&wait->condition, pthread_cond_t *
                                 : sleeps_on, default
                                 : sleeps_on_other)(&wait->condition);
    if (OPAL_LIKELY(sleeps)) {
        __atomic_store_n(&wait->signaling, false, __ATOMIC_RELEASE);
    }
    MCA_PML_SPEC_WAIT_WAKE(wait);
    MCA_PML_SPEC_WAIT_UNLOCK(wait);
    if (OPAL_UNLIKELY(!sleeps)) {
        __atomic_store_n(&wait->signaling, false, __ATOMIC_RELEASE);
    }
}

void mca_pml_spec_complete_call(ompi_request_t *request)
{
    int *const depth = mca_pml_spec_depth();
    ++*depth;
    ompi_request_complete(request, true);
    --*depth;
}

/* True: the agent pauses, and no object waits for the request. */
static inline bool complete_alone(ompi_request_t *request)
{
    void **at = mca_pml_spec_completion_at(request);
    if (!mca_pml_spec_enter()) {
        return false;
    }
    const bool is_plain = REQUEST_PENDING == __atomic_load_n(at, __ATOMIC_RELAXED);
    if (OPAL_LIKELY(is_plain)) {
        __atomic_store_n(at, REQUEST_COMPLETED, __ATOMIC_RELEASE);
    }
    mca_pml_spec_leave();
    return is_plain;
}

void mca_pml_spec_complete_threaded(ompi_request_t *request)
{
    if (OPAL_LIKELY(complete_alone(request))) {
        return;
    }
    /* A thread that finds it complete may give it back. */
    const int error = request->req_status.MPI_ERROR;
    void **at = mca_pml_spec_completion_at(request);
    void *waiter = mca_pml_spec_completion(request);
    if (REQUEST_PENDING == waiter
        && __atomic_compare_exchange_n(at, &waiter, REQUEST_COMPLETED, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE)) {
        return;
    }
    if (mca_pml_spec_is_mine(
            waiter)) { /* only its thread would change the pointer, and that is here */
        __atomic_store_n(at, REQUEST_COMPLETED, __ATOMIC_RELEASE);
        wait_sync_update(waiter, 1, error);
        return;
    }
    (void) mca_pml_spec_add32(&mca_pml_spec_signalling, 1);
    waiter = __atomic_exchange_n(at, REQUEST_COMPLETED, __ATOMIC_ACQ_REL);
    if (REQUEST_PENDING != waiter) { /* else it does not wait any more */
        end_wait(waiter, error);
    }
    (void) mca_pml_spec_add32(&mca_pml_spec_signalling, -1);
}

bool mca_pml_spec_end_over(ompi_request_t *request, volatile int32_t *life, bool told)
{
    if (!told) {
        mca_pml_spec_complete_call(request);
    }
    const int32_t before = mca_pml_spec_set_bits(life, SPEC_LIFE_DONE | SPEC_LIFE_OVER);
    if (OPAL_UNLIKELY(before & SPEC_LIFE_WATCHED)) {
        mca_pml_spec_agent_ended();
    }
    return SPEC_LIFE_RETURN == spec_life_ended(before, true);
}

bool mca_pml_spec_let_go_early(ompi_request_t *request, volatile int32_t *life)
{
    const spec_life_next_t next = spec_life_freed(mca_pml_spec_set_bits(life, SPEC_LIFE_FREED));
    while (SPEC_LIFE_AWAIT == next && REQUEST_COMPLETED != mca_pml_spec_completion(request)) {
        sched_yield();
    }
    return SPEC_LIFE_LEAVE != next;
}

void mca_pml_spec_failed_freed(const char *what, const mca_pml_base_request_t *base,
                               const volatile int32_t *life, const mca_pml_spec_peer_t *peer,
                               int status)
{
    if (SPEC_LIFE_FREED != (MCA_PML_SPEC_SEEN(*life) & (SPEC_LIFE_FREED | SPEC_LIFE_LOST))
        || NULL == peer || mca_pml_spec_lost(peer) || mca_pml_spec_outlives()) {
        return;
    }
    mca_pml_spec_explain_surely("freed request failed", "", what, base->req_peer,
                                (unsigned) peer->comm->cid, mca_pml_spec_my_rank(),
                                spec_host_of(&ompi_proc_local()->super), opal_strerror(status));
    mca_pml_spec_abort(status);
}
