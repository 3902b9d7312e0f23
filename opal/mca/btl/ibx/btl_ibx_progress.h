/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Progress of one module: polls the transport, gives what came to the PML, gives the memory of it back. The same for both
 * transports, which include it and give it their own table of functions, so that the compiler sees through them.
 *
 * A callback of the PML may call progress again, and other threads do at the same time; ibx_delivery.h says which call tells what. */
#ifndef BTL_IBX_PROGRESS_H
#define BTL_IBX_PROGRESS_H

#include "btl_ibx_atomic.h"
#include "btl_ibx_endpoint.h"

/* One event, of a transport's type, that is to be told; there is room for it. Between ibx_told_lock and ibx_told_unlock. */
static inline void mca_btl_ibx_take_event(mca_btl_ibx_module_t *module, const void *event, size_t size)
{
    memcpy(&module->to_tell[ibx_told_add(&module->told)], event, size);
}

static inline bool mca_btl_ibx_next_event(mca_btl_ibx_module_t *module, mca_btl_ibx_event_t *event)
{
    ibx_told_lock(&module->told);
    const int at = ibx_told_next(&module->told);
    if (at >= 0) {
        *event = module->to_tell[at];
    }
    ibx_told_unlock(&module->told);
    return at >= 0;
}

/* The memory of messages that have been told. The lock is held. (By itself, so that callbacks do not have its array on the
 * stack.) */
__attribute__((noinline)) static void mca_btl_ibx_give_back(mca_btl_ibx_module_t *module, const mca_btl_ibx_transport_t *p)
{
    mca_btl_ibx_event_t event[IBX_TOLD_MOST];
    ibx_told_lock(&module->told);
    const uint32_t n = ibx_told_give_back(&module->told);
    memcpy(event, module->to_give_back, n * sizeof(*event));
    ibx_told_unlock(&module->told);
    p->give_back(module, event, n);
}

/* A message has been told. The lock is not held. */
static inline void mca_btl_ibx_told_event(mca_btl_ibx_module_t *module, const mca_btl_ibx_transport_t *p,
                                          const mca_btl_ibx_event_t *event)
{
    ibx_told_lock(&module->told);
    const int at = ibx_told_end(&module->told);
    if (at >= 0) {
        module->to_give_back[at] = *event;
    }
    ibx_told_unlock(&module->told);
    if (OPAL_UNLIKELY(at < 0)) {
        p->lock(module);
        mca_btl_ibx_give_back(module, p);
        p->give_back(module, event, 1);
        p->unlock(module);
    }
}

/* The lock is not held. Returns how many. */
static inline unsigned mca_btl_ibx_tell(mca_btl_ibx_module_t *module, const mca_btl_ibx_transport_t *p)
{
    mca_btl_ibx_event_t event;
    unsigned n = 0;
    if (0 == ibx_told_waits(&module->told) || !ibx_told_begin(&module->told)) {
        return 0;
    }
    for (; n < IBX_TOLD_MOST && mca_btl_ibx_next_event(module, &event); ++n) {
        if (p->tell(module, &event)) {
            mca_btl_ibx_told_event(module, p, &event);
        }
    }
    ibx_told_finish(&module->told);
    return n;
}

/* Returns how much happened. */
static inline __attribute__((always_inline)) int mca_btl_ibx_module_progress(mca_btl_ibx_module_t *module,
                                                                             const mca_btl_ibx_transport_t *p)
{
    unsigned n = 0;
    int events = 0, others = 0;
    bool polls = false;
    mca_btl_ibx_meet_strangers(module);
    if ((NULL == p->is_due || p->is_due(module)) && p->trylock(module)) {
        polls = true;
        if (OPAL_UNLIKELY(0 != ibx_told_ended(&module->told))) { /* a sender may wait for the memory, and a callback for it */
            mca_btl_ibx_give_back(module, p);
        }
        n = p->poll(module, &others);
        const bool some_wait = p->some_wait(module);
        p->unlock(module);
        if (OPAL_LIKELY(!some_wait && 0 == ibx_told_waits(&module->told))) {
            mca_btl_ibx_meet_strangers(module);
            return others;
        }
    } else if (OPAL_LIKELY(0 == ibx_told_waits(&module->told))) {
        return 0; /* nobody waits for what only another caller could tell */
    }
    do {
        events += (int) (n + mca_btl_ibx_tell(module, p));
        if (polls) {
            p->lock(module);
        } else if (0 == events || !p->trylock(module)) {
            break; /* the next call that polls gives back and flushes */
        }
        mca_btl_ibx_give_back(module, p);
        if (OPAL_UNLIKELY(p->some_wait(module))) {
            p->retry(module);
        }
        n = IBX_TOLD_MOST == n ? p->take(module) : 0;
        if (0 == n && NULL != p->flush) {
            p->flush(module);
        }
        p->unlock(module);
    } while (n > 0);
    return events + others;
}

#endif
