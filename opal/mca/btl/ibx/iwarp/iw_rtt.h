/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Round-trip time and the timeouts made of it: RFC 6298 section 2, RFC 9002 sections 5 and 6.
 *
 * Times in nanoseconds. The floors are those of a cluster: RFC 6298's second would be a thousand
 * round trips, but a timeout shorter than the time for which an operating system keeps the peer
 * from running only resends what is already there. */
#ifndef IW_RTT_H
#define IW_RTT_H

#include <stdint.h>

#define IW_US UINT64_C(1000)
#define IW_MS UINT64_C(1000000)
#define IW_S  UINT64_C(1000000000)

#define IW_RTT_INITIAL (2 * IW_MS)   /* before the first sample */
#define IW_PTO_EARLY   (1 * IW_MS)   /* the first probe timeout in a row is not below this */
#define IW_PTO_FLOOR   (4 * IW_MS)   /* nor the others below a scheduler's time slice */
#define IW_PTO_LEVEL   2             /* probe timeouts in a row until they begin to double */
#define IW_PTO_CEILING (500 * IW_MS) /* backed off no further */
#define IW_LOSS_FLOOR  (200 * IW_US) /* reordering within less is not taken for loss by time */

typedef struct iw_rtt {
    uint64_t srtt; /* 0: no sample yet */
    uint64_t var;
    uint64_t min;
    uint64_t latest;
} iw_rtt_t;

/* A sample, of which the peer says that it kept it back for delay. */
static inline void iw_rtt_sample(iw_rtt_t *r, uint64_t rtt, uint64_t delay)
{
    rtt = 0 == rtt ? 1 : rtt;
    if (0 == r->srtt) {
        *r = (iw_rtt_t){.srtt = rtt, .var = rtt / 2, .min = rtt, .latest = rtt};
        return;
    }
    if (rtt < r->min) {
        r->min = rtt;
    }
    /* RFC 9002, 5.3: what the peer says must not make it less than the least ever seen. */
    if (rtt >= r->min + delay) {
        rtt -= delay;
    }
    r->latest = rtt;
    uint64_t off = rtt > r->srtt ? rtt - r->srtt : r->srtt - rtt;
    r->var = (3 * r->var + off) / 4;
    r->srtt = (7 * r->srtt + rtt) / 8;
}

/* Probe timeout (RFC 9002, 6.2.1): srtt + 4 var + how long the peer may keep an acknowledgement
 * back, `before` probe timeouts having passed without an answer. The first comes early, as a tail loss
 * probe (RFC 8985, 7.2): in a cluster what gets lost is mostly the last of a message, and a probe costs
 * little. It doubles only when two more had no answer: a network that loses a third of all still answers
 * one in three, and one that is congested has by then been left alone for a hundred round trips. */
static inline uint64_t iw_rtt_pto(const iw_rtt_t *r, uint64_t peer_delay, unsigned before)
{
    const uint64_t floor = 0 == before ? IW_PTO_EARLY : IW_PTO_FLOOR;
    uint64_t pto = 0 == r->srtt ? 3 * IW_RTT_INITIAL : r->srtt + 4 * r->var;
    pto += peer_delay;
    if (pto < floor) {
        pto = floor;
    }
    for (; before > IW_PTO_LEVEL && pto < IW_PTO_CEILING; --before) {
        pto *= 2;
    }
    return pto < IW_PTO_CEILING ? pto : IW_PTO_CEILING;
}

/* How long after a later packet was acknowledged an earlier one may still be on its way (RFC 9002,
 * 6.1.2: 9/8 of the round trip). */
static inline uint64_t iw_rtt_loss_delay(const iw_rtt_t *r)
{
    uint64_t rtt = r->srtt > r->latest ? r->srtt : r->latest;
    rtt = 0 == rtt ? IW_RTT_INITIAL : rtt;
    rtt += rtt / 8;
    return rtt > IW_LOSS_FLOOR ? rtt : IW_LOSS_FLOOR;
}

#endif
