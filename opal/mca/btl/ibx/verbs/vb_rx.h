/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Receive buffers of one queue: a shared one, or a queue pair's own.
 *
 * Words
 *   slab      buffers that are registered together
 *   posted    with the adapter
 *   taken     holds a message that is being delivered
 *   idle      neither
 * A buffer is in exactly one of these lists. The window says how many are wanted; a queue pair's own
 * queue has `spare` more for control messages (vb_credit.h).
 *
 * The window shrinks as buffers come back: those of the newest slab stay idle, and a slab that is idle
 * as a whole is given back. What is posted cannot be taken back before a message comes into it. */
#ifndef VB_RX_H
#define VB_RX_H

#include "vb_port.h"
#include "vb_sendq.h"

/* A slab is a sixteenth of the window when it is made, so that a window can shrink by little. So many are never there: growing
 * from one buffer to as many as there can be makes nine at most for each doubling, and what is between two doublings goes when the
 * window shrinks. */
#define VB_SLABS 256

/* Work completions taken from the adapter at a time. */
#define VB_BATCH 32

typedef struct vb_slab {
    char *memory;
    struct ibv_mr *mr;
    uint32_t first, n; /* buffers first to first + n - 1 */
    uint32_t idle;     /* in its list */
    uint32_t free;     /* head of it: number of a buffer, or UINT32_MAX */
    uint32_t *next;
} vb_slab_t;

typedef struct vb_rx {
    vb_port_t *port;
    struct ibv_srq *srq; /* or */
    struct ibv_qp *qp;
    uint32_t generation; /* in the wr_id */
    uint32_t spare;
    uint32_t size;      /* bytes of a buffer */
    vb_entries_t *pool; /* of the completion queue it completes to */
    uint32_t posted, taken;
    /* The most buffers in use at a time: how many messages wait in the completion queue is not known, but at most those that come
     * out before it is found empty the next time (drains counts that), besides those that were taken then. */
    const uint32_t *drains;
    uint32_t drain, taken_then, since, most;
    uint32_t missing; /* spare buffers that could not be posted again */
    uint32_t entries; /* of the completion queue that are held */
    ibx_window_t window;
    bool is_armed;
    uint32_t buffers; /* of all slabs */
    uint32_t lowest;  /* no slab below has an idle buffer */
    vb_slab_t slab[VB_SLABS];
} vb_rx_t;

/* limit: buffers that the queue can hold. drains: counts how often its completion queue was found empty. */
void vb_rx_init(vb_rx_t *rx, vb_port_t *port, const uint32_t *drains, uint32_t generation,
                uint32_t spare, uint32_t limit, uint32_t initial, uint32_t max, uint64_t now);

/* Frees all; the queue must be gone. */
void vb_rx_destroy(vb_rx_t *rx);

/* Post buffers until those posted and those taken are the window. Returns how many, without those that make up for a
 * missing spare one; fewer than wanted if memory, or entries of the completion queue, are out. */
uint32_t vb_rx_fill(vb_rx_t *rx);

/* The adapter put something into a buffer. NULL: there is no such buffer with it. */
void *vb_rx_take(vb_rx_t *rx, uint32_t buffer);

/* It is free again (not posted yet: vb_rx_fill). */
void vb_rx_return(vb_rx_t *rx, uint32_t buffer);

/* It is free and posted again, whatever the window: a spare buffer, that the peer counts on. If that cannot be, the
 * next vb_rx_fill does it. */
void vb_rx_repost(vb_rx_t *rx, uint32_t buffer);

/* The limit was reached: the window grows. */
void vb_rx_starved(vb_rx_t *rx, uint64_t now);

/* Now and then. */
void vb_rx_check(vb_rx_t *rx, uint64_t now);

/* Buffers for messages that are there, posted or taken: fewer than the window if memory, or entries of the completion queue,
 * are out. */
static inline uint32_t vb_rx_given(const vb_rx_t *rx)
{
    const uint32_t all = rx->posted + rx->taken, given = all > rx->spare ? all - rx->spare : 0;
    return given < rx->window.current ? given : rx->window.current;
}

/* Buffers for messages that are posted. */
static inline uint32_t vb_rx_free(const vb_rx_t *rx)
{
    return rx->posted > rx->spare ? rx->posted - rx->spare : 0;
}

#endif
