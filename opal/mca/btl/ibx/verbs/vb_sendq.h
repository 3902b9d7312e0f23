/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Depth of a send queue and of the completion queue behind it, so that neither overflows; and which
 * work requests ask for a completion.
 *
 * Work requests of a queue pair complete in their order, so a completion of number n ends the silent ones
 * up to n. Requests are numbered with 32 bits; una is the oldest not known to be complete, nxt the next one.
 * Invariant: nxt - una <= depth.
 *
 * When a connection breaks, every request outstanding is flushed into the completion queue, those
 * too that asked for no completion: each takes one entry from the moment it is posted.
 *
 * Pure. */
#ifndef VB_SENDQ_H
#define VB_SENDQ_H

#include <stdbool.h>
#include <stdint.h>

/* ---- entries of a completion queue, shared by all that complete there ---- */

typedef struct vb_entries {
    uint32_t limit;
    uint32_t used;
} vb_entries_t;

static inline bool vb_entries_take(vb_entries_t *e, uint32_t n)
{
    if (n > e->limit - e->used) {
        return false;
    }
    e->used += n;
    return true;
}

static inline void vb_entries_give(vb_entries_t *e, uint32_t n)
{
    e->used -= n;
}

/* ---- one send queue ---- */

typedef struct vb_sendq {
    uint32_t una, nxt;
    uint32_t depth;
    uint32_t silent; /* posted since the last that asked for a completion */
} vb_sendq_t;

static inline void vb_sendq_init(vb_sendq_t *q, uint32_t depth)
{
    *q = (vb_sendq_t){.depth = depth};
}

static inline uint32_t vb_sendq_outstanding(const vb_sendq_t *q)
{
    return q->nxt - q->una;
}

/* Room for n, beside `spare` kept for others. */
static inline bool vb_sendq_has_room(const vb_sendq_t *q, uint32_t n, uint32_t spare)
{
    return vb_sendq_outstanding(q) + n + spare <= q->depth;
}

/* Must the next request ask for a completion? interval: at least every so many do. Without it a queue
 * full of silent requests would never be known to empty: interval <= depth / 2. */
static inline bool vb_sendq_must_signal(const vb_sendq_t *q, uint32_t interval)
{
    return q->silent + 1 >= interval;
}

/* Posted. Returns its number. */
static inline uint32_t vb_sendq_post(vb_sendq_t *q, bool is_signalled)
{
    q->silent = is_signalled ? 0 : q->silent + 1;
    return q->nxt++;
}

/* Is a completion of this number possible? A stale one is not. */
static inline bool vb_sendq_is_outstanding(const vb_sendq_t *q, uint32_t number)
{
    return number - q->una < vb_sendq_outstanding(q);
}

/* How often a queue asks for completions, if `queues` of them share a completion queue: silent
 * requests at the end of each may hold at most a quarter of its entries. */
static inline uint32_t vb_sendq_interval(uint32_t depth, uint32_t queues, uint32_t entries)
{
    const uint32_t most = depth / 4 < 16 ? depth / 4 : 16;
    return 0 == most || (uint64_t) queues * most * 4 > entries ? 1 : most;
}

#endif
