/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Tries again, from opal_progress, what a transport had no room for. The callback is registered and unregistered under
 * the lock that covers the count that decides it (opal_progress takes its own lock inside and calls nothing); and stays registered
 * for some calls without anything to do, since both take longer than these. */
#include "pml_spec_pending.h"

#include "opal/include/spec/promises.h"

#include <stdatomic.h>

/* A pass goes on for so long, nanoseconds, or to the end of the item it is at: what it moves are large messages, too, and the
 * transports, whose progress waits meanwhile, may have acknowledgements that let more of them go. */
#define PASS_NS UINT64_C(20000)

/* After so many calls without anything to do the callback is unregistered. */
#define IDLE_CALLS 1000u

static bool is_registered;
static atomic_uint idle_calls; /* one after the other */

static _Atomic(mca_btl_base_module_t *) gathered; /* the transport; NULL: none has */

void mca_pml_spec_flush_later(mca_btl_base_module_t *btl)
{
    if (mca_btl_ibx_promises(btl) & MCA_BTL_IBX_GATHERS) {
        mca_btl_base_module_t *other = atomic_exchange(&gathered, btl);
        if (NULL != other && btl != other) {
            mca_btl_ibx_flush(other);
        }
    }
}

void mca_pml_spec_flush(void)
{
    if (NULL != atomic_load_explicit(&gathered, memory_order_relaxed)) {
        mca_btl_base_module_t *btl = atomic_exchange(&gathered, NULL);
        if (NULL != btl) {
            mca_btl_ibx_flush(btl);
        }
    }
}

static void be_idle(void)
{
    if (IDLE_CALLS != atomic_fetch_add_explicit(&idle_calls, 1, memory_order_relaxed)) {
        return;
    }
    mca_pml_spec_lock(&mca_pml_spec.lock);
    if (is_registered && 0 == mca_pml_spec.retry.n) {
        opal_progress_unregister(mca_pml_spec_progress);
        is_registered = false;
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
}

void mca_pml_spec_pending_close(void)
{
    if (is_registered) {
        opal_progress_unregister(mca_pml_spec_progress);
        is_registered = false;
    }
}

SPEC_HOT int mca_pml_spec_progress(void)
{
    int events = 0;
    bool goes_on = true;
    spec_retry_item_t *item;

    if (0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.retry.n)) {
        be_idle();
        return 0;
    }
    uint64_t end = 0;
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const uint64_t pass = spec_retry_pass(&mca_pml_spec.retry);
    while (goes_on && NULL != (item = spec_retry_take(&mca_pml_spec.retry, pass))) {
        mca_pml_spec_pending_t *pending = SPEC_ENTRY(item, mca_pml_spec_pending_t, item);
        spec_retry_queue_t *queue = item->queue;
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        const bool done = pending->retry(pending);
        mca_pml_spec_lock(&mca_pml_spec.lock);
        const uint64_t now = spec_now();
        end = 0 == end ? now + PASS_NS : end; /* the clock is not read before the first */
        goes_on = now < end;
        if (!done) { /* perhaps after it has moved a piece */
            spec_retry_refused(&mca_pml_spec.retry, item);
            continue;
        }
        ++events;
        if (!goes_on) {
            spec_retry_leave(&mca_pml_spec.retry, queue);
        }
        spec_retry_done(&mca_pml_spec.retry, queue);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    mca_pml_spec_flush();
    return events;
}

void mca_pml_spec_pend(mca_pml_spec_pending_t *pending, const void *resource)
{
    MCA_PML_SPEC_COUNT(pending);
    mca_pml_spec_poll_for(pending, resource);
}

static void add(mca_pml_spec_pending_t *pending, const void *resource, bool first)
{
    mca_pml_spec_lock(&mca_pml_spec.lock);
    spec_retry_add(&mca_pml_spec.retry, &pending->item, resource, first);
    atomic_store_explicit(&idle_calls, 0, memory_order_relaxed);
    if (OPAL_UNLIKELY(!is_registered)) {
        opal_progress_register(mca_pml_spec_progress);
        is_registered = true;
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
}

void mca_pml_spec_poll_for(mca_pml_spec_pending_t *pending, const void *resource)
{
    add(pending, resource, false);
}

void mca_pml_spec_poll_first(mca_pml_spec_pending_t *pending, const void *resource)
{
    add(pending, resource, true);
}

bool mca_pml_spec_is_crowded(const void *resource)
{
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.retry.n))) {
        return false;
    }
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const bool waits = spec_retry_waits(&mca_pml_spec.retry, resource);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    return waits;
}
