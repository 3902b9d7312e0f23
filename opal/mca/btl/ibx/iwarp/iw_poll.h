/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How often a transport that is polled all the time asks the kernel whether a datagram has come.
 *
 * Asking costs a call of the kernel, several times what a message through shared memory takes; and a process that waits for such a
 * message pays it with each poll. So the longer nothing has come or gone here, the rarer the kernel is asked. A datagram lies
 * there for at most an IW_POLL_SHARE-th of the time that was spent polling in vain before it, so a process that did wait for it loses no
 * larger share of the wait, and never more than IW_POLL_MOST. The time in which nobody called - the application computed, or
 * had no processor - is no part of the wait. Without any connection there is nothing but a peer's first word to come, and
 * that can wait.
 *
 * Gain: test/bench/port-parts, part poll, and test/bench/lab-neighbours.
 *
 * Pure: the caller gives the time. Threads: the port's lock for all but iw_poll_is_at_once and iw_poll_is_due. */
#ifndef IW_POLL_H
#define IW_POLL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define IW_POLL_SHARE 32
/* ns. Asking takes about the least, so that less is not worth reading the clock, and is a small share of the most. */
#define IW_POLL_LEAST UINT64_C(1000)
#define IW_POLL_MOST  UINT64_C(16000)

typedef struct iw_poll {
    atomic_uint_least64_t next; /* 0: at once */
    uint64_t since; /* the wait began, pauses left out; 0: it begins with the next poll */
    uint64_t last;  /* poll */
} iw_poll_t;

/* At once, whatever the time: it need not be known. */
static inline bool iw_poll_is_at_once(const iw_poll_t *l)
{
    return 0 == atomic_load_explicit(&l->next, memory_order_relaxed);
}

static inline bool iw_poll_is_due(const iw_poll_t *l, uint64_t now)
{
    return now >= atomic_load_explicit(&l->next, memory_order_relaxed);
}

/* Something came, or left. */
static inline void iw_poll_begin(iw_poll_t *l)
{
    l->since = 0;
    atomic_store_explicit(&l->next, 0, memory_order_relaxed);
}

/* How long the kernel need not be asked after a poll that found nothing, ns; 0: ask again at once. */
static inline uint64_t iw_poll_gap(iw_poll_t *l, uint64_t now, bool is_connected)
{
    const uint64_t next = atomic_load_explicit(&l->next, memory_order_relaxed);
    const uint64_t due = next > l->last ? next : l->last;
    l->last = now;
    if (!is_connected) {
        return IW_POLL_MOST;
    }
    if (0 == l->since) {
        l->since = now;
    } else if (now > due + IW_POLL_MOST) {
        l->since += now - due;
    }
    const uint64_t gap = (now - l->since) / IW_POLL_SHARE;
    return gap < IW_POLL_LEAST ? 0 : gap < IW_POLL_MOST ? gap : IW_POLL_MOST;
}

/* Not before then. */
static inline void iw_poll_at(iw_poll_t *l, uint64_t at)
{
    atomic_store_explicit(&l->next, at, memory_order_relaxed);
}

#endif
