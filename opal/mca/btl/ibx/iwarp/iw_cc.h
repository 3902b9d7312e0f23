/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Congestion window and pacing: RFC 9002 section 7 (NewReno), with the initial window of a cluster. A loss that
 * turns out to have been none is taken back (RFC 4015: the window of before, and its growth goes on).
 *
 * Bytes are bytes of datagrams. datagram is the present size of the largest one. */
#ifndef IW_CC_H
#define IW_CC_H

#include "iw_rtt.h"

#include <stdbool.h>
#include <stdint.h>

#define IW_CC_INITIAL UINT64_C(262144) /* a switch's share of buffer; more is found by slow start */
#define IW_CC_MAX     UINT64_C(1 << 30)
#define IW_CC_BURST   UINT64_C(262144) /* what may leave at once, whatever the pace */
#define IW_CC_LEFT    UINT64_C(16384) /* so little left of it is not worth a call of the kernel */

typedef struct iw_cc {
    uint64_t window;
    uint64_t threshold; /* slow start ends here */
    uint64_t in_flight;
    uint64_t recovery_start; /* packets sent before are part of the loss already answered */
    int64_t tokens;          /* of the pacer, bytes */
    uint64_t refilled;       /* when */
    uint64_t grown;          /* bytes acknowledged towards the next step of avoidance */
    /* What is taken back if all that the latest recovery, or collapse, is for has arrived. */
    uint64_t before_window;
    uint64_t before_threshold;
    uint64_t before_start;
    uint64_t collapsed; /* when it did; 0: not, or a recovery came after it */
    uint32_t recovery;  /* number of the latest one; 0: none yet */
    uint32_t lost;      /* packets declared lost in it that have not been heard of since */
} iw_cc_t;

static inline void iw_cc_init(iw_cc_t *c, uint64_t now)
{
    *c = (iw_cc_t){.window = IW_CC_INITIAL,
                   .threshold = UINT64_MAX,
                   .tokens = (int64_t) IW_CC_BURST,
                   .refilled = now};
}

static inline uint64_t iw_cc_min(uint64_t datagram)
{
    return 2 * datagram; /* RFC 9002, 7.2 */
}

/* sent_at: when the packet that is now acknowledged left. limited: the window was what kept the
 * sender from sending more; otherwise its size says nothing (RFC 9002, 7.8). has_queue: iw_rtt_has_queue; then the window
 * is large enough, and when all of one says so slow start is over (RFC 9406). */
static inline void iw_cc_acked(iw_cc_t *c, uint64_t bytes, uint64_t sent_at, uint64_t datagram,
                               bool limited, bool has_queue)
{
    c->in_flight -= bytes;
    if (sent_at <= c->recovery_start || !limited) {
        return;
    }
    if (c->window < c->threshold && !has_queue) {
        c->window += bytes;
        c->grown = 0;
    } else {
        c->grown += bytes;
        if (c->grown >= c->window) {
            c->grown -= c->window;
            c->window += datagram;
            c->threshold = c->window;
        }
    }
    if (c->window > IW_CC_MAX) {
        c->window = IW_CC_MAX;
    }
}

static inline void iw_cc_remember(iw_cc_t *c)
{
    c->before_window = c->window;
    c->before_threshold = c->threshold;
    c->before_start = c->recovery_start;
    c->collapsed = 0;
    c->lost = 0;
    c->recovery += UINT32_MAX == c->recovery ? 2 : 1; /* not 0 */
}

/* A packet sent at sent_at is lost: halve, once for each round trip. Returns the number of the recovery it
 * belongs to. */
static inline uint32_t iw_cc_lost(iw_cc_t *c, uint64_t sent_at, uint64_t datagram, uint64_t now)
{
    if (sent_at > c->recovery_start) {
        iw_cc_remember(c);
        c->recovery_start = now;
        c->window /= 2;
        c->grown = 0;
        if (c->window < iw_cc_min(datagram)) {
            c->window = iw_cc_min(datagram);
        }
        c->threshold = c->window;
    }
    ++c->lost;
    return c->recovery;
}

/* A packet sent at sent_at came marked: as a loss (RFC 3168, 5), but nothing will show that it was none. */
static inline void iw_cc_marked(iw_cc_t *c, uint64_t sent_at, uint64_t datagram, uint64_t now)
{
    if (sent_at > c->recovery_start) {
        (void) iw_cc_lost(c, sent_at, datagram, now);
        c->lost = 0;
        c->before_window = c->window;
        c->before_threshold = c->threshold;
        c->before_start = c->recovery_start;
    }
}

/* Nothing came through for so long that what was known is void (RFC 9002, 7.6). */
static inline void iw_cc_collapse(iw_cc_t *c, uint64_t datagram, uint64_t now)
{
    iw_cc_remember(c);
    c->collapsed = now;
    c->window = iw_cc_min(datagram);
    c->grown = 0;
}

/* A packet sent at sent_at has arrived that had been declared lost in that recovery; 0: only asked about, or taken back
 * with all others. */
static inline void iw_cc_found(iw_cc_t *c, uint32_t recovery, uint64_t sent_at)
{
    const bool lost = 0 != recovery && recovery == c->recovery && c->lost > 0 && 0 == --c->lost;
    if (!lost && (0 == c->collapsed || sent_at > c->collapsed)) {
        return;
    }
    if (c->window < c->before_window) {
        c->window = c->before_window;
    }
    c->threshold = c->before_threshold;
    c->recovery_start = c->before_start;
    c->collapsed = 0;
    c->lost = 0;
}

/* A probe that never came back, or a packet that the peer refused: it has left the network. */
static inline void iw_cc_gone(iw_cc_t *c, uint64_t bytes)
{
    c->in_flight -= bytes;
}

/* It has not left: neither has what it took of the pace. */
static inline void iw_cc_unsent(iw_cc_t *c, uint64_t bytes)
{
    c->tokens += (int64_t) bytes;
    if (c->tokens > (int64_t) IW_CC_BURST) {
        c->tokens = (int64_t) IW_CC_BURST;
    }
}

/* Bytes each second: 5/4 of a window for each round trip, so that the window and not the pacer
 * decides (RFC 9002, 7.7). */
static inline uint64_t iw_cc_rate(const iw_cc_t *c, const iw_rtt_t *r)
{
    uint64_t rtt = iw_rtt_smoothed(r);
    rtt = rtt < IW_US ? IW_US : rtt;
    return c->window / 4 * 5 * IW_MS / rtt * 1000;
}

static inline void iw_cc_refill(iw_cc_t *c, const iw_rtt_t *r, uint64_t now)
{
    if (c->tokens > (int64_t) (IW_CC_BURST / 2)) {
        return; /* what has come since counts when they are needed: no division for a peer that is sent little */
    }
    uint64_t past = now - c->refilled;
    if (past > 10 * IW_MS) {
        c->tokens = (int64_t) IW_CC_BURST; /* also keeps the product below from overflowing */
    } else {
        c->tokens += (int64_t) (iw_cc_rate(c, r) / 1000 * past / IW_MS);
    }
    if (c->tokens > (int64_t) IW_CC_BURST) {
        c->tokens = (int64_t) IW_CC_BURST;
    }
    c->refilled = now;
}

/* When the pacer will let something leave; now or earlier: at once. */
static inline uint64_t iw_cc_pace(const iw_cc_t *c, const iw_rtt_t *r)
{
    if (c->tokens > (int64_t) IW_CC_LEFT) {
        return 0;
    }
    uint64_t need = (uint64_t) ((int64_t) (IW_CC_BURST / 4) - c->tokens), rate = iw_cc_rate(c, r);
    return c->refilled + need * IW_MS / (rate / 1000 + 1);
}

static inline void iw_cc_sent(iw_cc_t *c, uint64_t bytes)
{
    c->in_flight += bytes;
    c->tokens -= (int64_t) bytes;
}

/* Room for a packet of these bytes? At least one packet may always be in flight. */
static inline bool iw_cc_room(const iw_cc_t *c, uint64_t window, uint64_t bytes)
{
    uint64_t limit = c->window < window ? c->window : window;
    return 0 == c->in_flight || c->in_flight + bytes <= limit;
}

#endif
