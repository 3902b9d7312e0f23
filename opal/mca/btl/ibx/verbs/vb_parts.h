/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Work requests cut into parts, each of which the other end answers when it has done it, in their order (vb_failover.c).
 *
 * Pure. */
#ifndef VB_PARTS_H
#define VB_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#define VB_PARTS_MOST 32u /* without an answer, at most */

/* A part of the work request of this number. */
typedef struct vb_piece {
    uint32_t request, length;
    uint64_t offset;
    bool is_last;
} vb_piece_t;

typedef struct vb_parts {
    uint32_t sent, answered; /* parts */
    uint32_t heard;          /* of the other end's */
    uint32_t request;        /* that is cut now */
    uint64_t offset;         /* of it; what is before has been sent */
    vb_piece_t under_way[VB_PARTS_MOST];
} vb_parts_t;

/* most: without an answer, not above VB_PARTS_MOST. */
static inline bool vb_parts_have_room(const vb_parts_t *p, uint32_t most)
{
    return p->sent - p->answered < most;
}

/* The next part of the request, which has `total` bytes (none: one part without); at most `most`. There is room. */
static inline const vb_piece_t *vb_parts_cut(vb_parts_t *p, uint64_t total, uint32_t most)
{
    vb_piece_t *piece = &p->under_way[p->sent++ % VB_PARTS_MOST];
    const uint64_t left = total - p->offset;
    *piece = (vb_piece_t){.request = p->request,
                          .length = left < most ? (uint32_t) left : most,
                          .offset = p->offset,
                          .is_last = left <= most};
    p->offset = piece->is_last ? 0 : p->offset + piece->length;
    p->request += piece->is_last;
    return piece;
}

/* The part of this number is done. NULL: that cannot be. */
static inline const vb_piece_t *vb_parts_answered(vb_parts_t *p, uint32_t number)
{
    return number != p->answered || p->answered == p->sent ? 0 : &p->under_way[p->answered++ % VB_PARTS_MOST];
}

/* A part of the other end's. False: it is not the next. */
static inline bool vb_parts_heard(vb_parts_t *p, uint32_t number)
{
    const bool is_next = number == p->heard;
    p->heard += is_next;
    return is_next;
}

#endif
