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
