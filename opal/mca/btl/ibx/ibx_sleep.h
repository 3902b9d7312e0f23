/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* When a process that waits stops polling and sleeps until the kernel says that something came.
 *
 * A process that has polled in vain for `after` sleeps, for at most IBX_SLEEP_MOST at a time, because not all that it
 * waits for can wake it. A program that computes and calls MPI_Test in between must not sleep: it is slower to come back
 * than one that does nothing else, whose `pace` is measured. (docs/design/verbs.md, Sleeping instead of polling)
 *
 * Pure: the caller gives the time. Threads: any; one at a time may sleep, which is the caller's to see to. */
#ifndef IBX_SLEEP_H
#define IBX_SLEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define IBX_SLEEP_AFTER UINT64_C(1000000) /* ns; a good choice where sleeping is one */
#define IBX_SLEEP_MOST  UINT64_C(1000000) /* ns */
#define IBX_SLEEP_CHECK 8u  /* polls between two readings of the clock, perhaps by the kernel */
#define IBX_SLEEP_FIRST 64u /* so many come before the first one: short waits do not pay for it */
/* MPI does more between two polls than the measurement of the pace, but not so many times as much. */
#define IBX_SLEEP_SLACK 3u

typedef struct ibx_sleep {
    uint64_t after;             /* ns; 0: never */
    atomic_uint_fast64_t pace;  /* ns of IBX_SLEEP_CHECK polls in a row; 0: to be measured */
    atomic_uint polls;          /* in vain, since something came */
    atomic_uint_fast64_t since; /* ns; the wait began; 0: with the next check */
    atomic_uint_fast64_t last;  /* ns; check */
} ibx_sleep_t;

/* Something came. */
static inline void ibx_sleep_over(ibx_sleep_t *r)
{
    atomic_store_explicit(&r->polls, 0, memory_order_relaxed);
    atomic_store_explicit(&r->since, 0, memory_order_relaxed);
}

/* A poll was in vain. True: tell the time (ibx_sleep_time). */
static inline bool ibx_sleep_checks(ibx_sleep_t *r)
{
    const unsigned n = atomic_load_explicit(&r->polls, memory_order_relaxed) + 1;
    atomic_store_explicit(&r->polls, n, memory_order_relaxed);
    return n >= IBX_SLEEP_FIRST && 0 == n % IBX_SLEEP_CHECK;
}

/* How long to sleep now, ns; 0: poll. If it is not 0 and the pace is not known, measure that instead. */
static inline uint64_t ibx_sleep_time(ibx_sleep_t *r, uint64_t now)
{
    const uint64_t since = atomic_load_explicit(&r->since, memory_order_relaxed);
    const uint64_t last = atomic_load_explicit(&r->last, memory_order_relaxed);
    atomic_store_explicit(&r->last, now, memory_order_relaxed);
    if (0 == since) {
        atomic_store_explicit(&r->since, now, memory_order_relaxed);
        return 0;
    }
    /* A caller that is late once may have lost the processor, and shows that it waits the next time. */
    const uint64_t pace = atomic_load_explicit(&r->pace, memory_order_relaxed);
    const bool is_late = 0 != pace && now - last > IBX_SLEEP_SLACK * pace;
    return !is_late && now - since >= r->after ? IBX_SLEEP_MOST : 0;
}

/* Awake again: the time asleep is no pause of the caller's. */
static inline void ibx_sleep_woke(ibx_sleep_t *r, uint64_t now)
{
    atomic_store_explicit(&r->last, now, memory_order_relaxed);
}

#endif
