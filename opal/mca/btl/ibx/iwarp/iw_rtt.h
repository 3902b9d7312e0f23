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
#define IW_PTO_FLOOR   (4 * IW_MS)   /* a scheduler's time slice */
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
 * back, doubled for each one in a row without an answer. */
static inline uint64_t iw_rtt_pto(const iw_rtt_t *r, uint64_t peer_delay, unsigned backoff)
{
    uint64_t pto = 0 == r->srtt ? 3 * IW_RTT_INITIAL : r->srtt + 4 * r->var;
    pto += peer_delay;
    if (pto < IW_PTO_FLOOR) {
        pto = IW_PTO_FLOOR;
    }
    for (; backoff > 0 && pto < IW_PTO_CEILING; --backoff) {
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
