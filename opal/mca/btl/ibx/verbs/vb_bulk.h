/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: which of two connections to a process something takes, so that small messages do not wait behind large puts and gets.
 *
 * A queue pair does its requests in their order, and its other end answers reads in theirs. So a process to which large transfers go
 * gets a second connection. From then on all puts and gets take that one, and what is ordered behind them (promises.h); other
 * messages and atomic operations stay with the first. All transfers change over at once, when none is under way by the first: else what is
 * ordered could pass one.
 *
 * Pure. Threads: one at a time (the port's lock). */
#ifndef VB_BULK_H
#define VB_BULK_H

#include <stdbool.h>
#include <stdint.h>

/* A transfer of so many times the size from which a second connection is wanted waits for it, since that takes a small part of
 * its time; shorter ones take the first meanwhile. */
#define VB_BULK_WAITS UINT64_C(16)
/* So long, nanoseconds; then the second connection is not used any more. */
#define VB_BULK_PATIENCE UINT64_C(1000000000)

typedef enum vb_bulk_state {
    VB_BULK_NONE,     /* nothing large yet */
    VB_BULK_WANTED,   /* the second connection is being made, or cannot be used yet */
    VB_BULK_USED,     /* all transfers take it, or wait for it */
    VB_BULK_GIVEN_UP, /* it could not be made */
} vb_bulk_state_t;

typedef struct vb_bulk {
    vb_bulk_state_t state;
    uint64_t since; /* when the first transfer began to wait for the connection; ns */
} vb_bulk_t;

/* Does something that begins take the second connection? bytes: of a transfer; 0: it is something else. is_ordered: behind the
 * transfers before it. */
static inline bool vb_bulk_takes(const vb_bulk_t *bulk, uint64_t bytes, bool is_ordered)
{
    return VB_BULK_USED == bulk->state && (0 != bytes || is_ordered);
}

/* May that be about to change? Then vb_bulk_wants and vb_bulk_changes come before it. */
static inline bool vb_bulk_may_change(const vb_bulk_t *bulk, uint64_t bytes)
{
    return 0 != bytes && bulk->state <= VB_BULK_WANTED;
}

/* A transfer of so many bytes begins. True: the second connection is to be made now. min: bytes from which one is wanted; 0: none
 * ever. */
static inline bool vb_bulk_wants(vb_bulk_t *bulk, uint64_t min, uint64_t bytes)
{
    const bool wants = VB_BULK_NONE == bulk->state && 0 != min && bytes >= min;
    bulk->state = wants ? VB_BULK_WANTED : bulk->state;
    return wants;
}

/* It was wanted, and a transfer begins: all transfers change over, if they can. is_open: the second connection; others: transfers
 * under way by the first. */
static inline void vb_bulk_changes(vb_bulk_t *bulk, uint64_t min, uint64_t bytes, bool is_open,
                                   uint32_t others, uint64_t now)
{
    if (VB_BULK_WANTED == bulk->state && 0 == others && (is_open || bytes / VB_BULK_WAITS >= min)) {
        *bulk = (vb_bulk_t){.state = VB_BULK_USED, .since = now};
    }
}

/* Is the second connection in use, so that its end is the loss of the process, as that of the first is? was_open: it was there. The
 * other process may use one that this one does not. */
static inline bool vb_bulk_is_in_use(const vb_bulk_t *bulk, bool was_open)
{
    return VB_BULK_USED == bulk->state && was_open;
}

/* has_failed: the second connection ended. True: what waits for it is to take the first, and all that follows. */
static inline bool vb_bulk_gives_up(vb_bulk_t *bulk, bool has_failed, bool was_open, uint64_t now)
{
    const bool is_late = VB_BULK_USED == bulk->state && now - bulk->since > VB_BULK_PATIENCE;
    if (vb_bulk_is_in_use(bulk, was_open) || VB_BULK_GIVEN_UP == bulk->state
        || (!has_failed && !is_late)) {
        return false;
    }
    bulk->state = VB_BULK_GIVEN_UP;
    return true;
}

#endif
