/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The adaptive receive window: how many buffers a shared receive queue holds.
 *
 * Sur, Koop, Panda, *Adaptive Receiver Window Scaling*, 2006, section 3: the window is
 * min(2^nlimit * initial, max), where nlimit counts the times the queue fell below its limit, and
 * the limit is half the window.
 *
 * Beyond the paper, which never shrinks, it does after each quiet period (docs/design/verbs.md, Receive window).
 *
 * Pure: the caller posts buffers, arms the limit event and gives the time. */
#ifndef IBX_WINDOW_H
#define IBX_WINDOW_H

#include <stdint.h>

#define IBX_WINDOW_INITIAL 8u
#define IBX_WINDOW_MAX     4096u

typedef struct ibx_window {
    uint32_t initial;
    uint32_t max;
    uint32_t current;
    uint32_t limit;
    uint32_t most;        /* the largest there has been */
    uint32_t lowest;      /* fewest buffers free since the last check */
    uint64_t quiet_ns;    /* 0: never shrinks */
    uint64_t quiet_since; /* the period began */
    uint64_t grown, shrunk;
} ibx_window_t;

/* initial and max count buffers, 1 <= initial <= max. */
void ibx_window_init(ibx_window_t *w, uint32_t initial, uint32_t max, uint64_t quiet_ns,
                     uint64_t now);

/* Below how many buffers the queue shall say that its limit is reached; 0: never (the window is one
 * buffer). */
static inline uint32_t ibx_window_limit(const ibx_window_t *w)
{
    return w->limit;
}

/* The limit was reached. Returns the window from now on: post up to it and arm ibx_window_limit. */
uint32_t ibx_window_limit_reached(ibx_window_t *w, uint64_t now);

/* When to check next, or UINT64_MAX: it has nothing to give back. */
static inline uint64_t ibx_window_check_at(const ibx_window_t *w)
{
    return 0 == w->quiet_ns || w->current <= w->initial ? UINT64_MAX : w->quiet_since + w->quiet_ns;
}

/* Then, or more often, with the fewest buffers that were free since the last check: shrinks at the end of a quiet
 * period. Returns the window: buffers above it are taken back, and not posted again; the limit may be another even if
 * the window is the same. */
uint32_t ibx_window_check(ibx_window_t *w, uint32_t free_buffers, uint64_t now);

/* Bytes held for it. */
static inline uint64_t ibx_window_bytes(const ibx_window_t *w, uint64_t buffer_size)
{
    return w->current * buffer_size;
}

#endif
