/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Where the payload of the next datagram belongs, before it is there: the kernel can then write it there at once, which saves
 * a copy of each large one.
 *
 * Only what answers a read of ours is predicted. Its memory is ours to write until the read completes, and the prediction is
 * always behind everything of it that has arrived: whatever comes there by mistake - another datagram, a damaged or a forged
 * one - is written over by what belongs there before the read is complete. Only then may anybody read it. Each datagram
 * is verified where it lies, and a byte of a read that completed was verified.
 *
 * The prediction is that the next segment follows the one that came last and is as long.
 *
 * Gain: test/bench/port-parts, part direct. Over another interface than loopback no datagram is so long (IW_DIRECT_LEAST).
 *
 * Pure. */
#ifndef IW_DIRECT_H
#define IW_DIRECT_H

#include "iw_wire.h"

#include <stdint.h>

/* Bytes of a datagram: a shorter one is copied, which costs less than the longer call. */
#define IW_DIRECT_LEAST 16384u

/* Bytes of a payload that are predicted, at most. */
#define IW_DIRECT_MOST 61440u

typedef struct iw_direct {
    uint8_t *at;
    uint32_t
        room; /* bytes from there on for which nothing has come, and which one payload may fill */
    uint32_t stag;
    uint64_t to;
} iw_direct_t;

/* The bytes before the payload of a tagged segment that brings nothing else but perhaps an acknowledgement, by the first ones
 * of them; 0: it is something else. */
static inline size_t iw_direct_prefix(const uint8_t *data, size_t length)
{
    const size_t least = sizeof(iw_head_t) + sizeof(iw_seq_t) + sizeof(iw_tagged_t);
    const iw_head_t *head = (const iw_head_t *) data;
    if (length < least || (IW_VERSION << 4 | IW_SEGMENT) != head->version_type
        || (head->flags & IW_F_HELLO)) {
        return 0;
    }
    size_t prefix = least;
    if (head->flags & IW_F_ACK) {
        const unsigned ranges = ((const iw_ack_t *) (data + sizeof(*head)))->ranges;
        prefix += sizeof(iw_ack_t)
                  + (ranges < IW_RANGES_MAX ? ranges : IW_RANGES_MAX) * sizeof(iw_range_t)
                  + (head->flags & IW_F_RNR ? sizeof(iw_rnr_t) : 0);
    }
    return length < prefix ? 0 : prefix;
}

/* Is it a segment of a read? */
static inline const iw_tagged_t *iw_direct_response(const uint8_t *data, size_t prefix)
{
    const iw_tagged_t *tagged = (const iw_tagged_t *) (data + prefix - sizeof(*tagged));
    return 0 != prefix && (tagged->ddp & IW_DDP_TAGGED)
                   && IW_OP_READ_RESPONSE == (tagged->rdmap & IW_RDMAP_OPCODE)
               ? tagged
               : NULL;
}

/* A datagram of `length` bytes came in three pieces: the first `cut` bytes are in its slot, up to g->room more at g->at, and
 * those behind them in the slot where they would be if it were there as a whole. If the payload belongs there, it is there
 * afterwards, also if the prefix was of another length, and what is before it is in the slot: returns how much that is.
 * Else 0, and the pieces are as they came. */
static inline size_t iw_direct_settle(const iw_direct_t *g, uint8_t *slot, size_t cut, size_t length)
{
    const size_t prefix = iw_direct_prefix(slot, length);
    if (0 == prefix || prefix > cut + g->room || length - prefix > g->room) {
        return 0;
    }
    if (prefix > cut) {
        memcpy(slot + cut, g->at, prefix - cut);
    }
    const iw_tagged_t *tagged = iw_direct_response(slot, prefix);
    if (NULL == tagged || g->stag != iw_get32(tagged->stag) || g->to != iw_get64(tagged->to)) {
        return 0;
    }
    const size_t payload = length - prefix;
    if (prefix > cut) {
        const size_t more = prefix - cut,
                     there = payload < g->room - more ? payload : g->room - more;
        memmove(g->at, g->at + more, there);
        memcpy(g->at + there, slot + cut + g->room, payload - there);
    } else if (prefix < cut) {
        const size_t more = payload < cut - prefix ? payload : cut - prefix;
        memmove(g->at + more, g->at, payload - more);
        memcpy(g->at, slot + prefix, more);
    }
    return prefix;
}

#endif
