/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Round-trip time and the timeouts made of it: RFC 6298 section 2, RFC 9002 sections 5 and 6.
 *
 * Times in nanoseconds. The floors are those of a cluster: RFC 6298's second would be a thousand
 * round trips, but a timeout shorter than the time for which an operating system keeps the peer
 * from running only resends what is already there. The ceiling is, too: a sample is also long because the peer
 * computed, and says nothing of the path then; so it follows the shortest sample, not the average. */
#ifndef IW_RTT_H
#define IW_RTT_H

#include <stdbool.h>
#include <stdint.h>

#define IW_US UINT64_C(1000)
#define IW_MS UINT64_C(1000000)
#define IW_S  UINT64_C(1000000000)

#define IW_RTT_INITIAL (333 * IW_MS) /* before the first sample: RFC 9002, 6.2.2 */
#define IW_PTO_EARLY   (1 * IW_MS)   /* the first probe timeout in a row is not below this */
#define IW_PTO_FLOOR   (4 * IW_MS)   /* nor the others below a scheduler's time slice */
#define IW_PTO_GRAIN   (1 * IW_MS)   /* 4 var at least, or an eighth of srtt: RFC 9002, 6.1.2 */
#define IW_PTO_LEVEL   2             /* probe timeouts in a row until they begin to double */
#define IW_PTO_CEILING (500 * IW_MS) /* backed off no further, */
#define IW_PTO_TRIPS   4             /* unless this many round trips take longer; */
#define IW_PTO_MOST    (2 * IW_S)    /* and never further: a peer is away, no path is so long */
#define IW_RTT_FORGET  8             /* each longer round trip takes that share off the shortest */
#define IW_RTT_QUEUE   (8 * IW_MS)   /* a round trip is not longer by so much because somebody had no processor, as a rule */
#define IW_LOSS_FLOOR  (200 * IW_US) /* reordering within less is not taken for loss by time */

typedef struct iw_rtt {
    uint64_t srtt; /* 0: no sample yet */
    uint64_t var;
    uint64_t min; /* about: a path can become longer */
    uint64_t latest;
    union {
        uint64_t initial; /* before the first sample: taken for srtt; 0: IW_RTT_INITIAL */
        uint64_t forgot;  /* then: when `min` was made longer last */
    };
} iw_rtt_t;

/* As far as known. */
static inline uint64_t iw_rtt_smoothed(const iw_rtt_t *r)
{
    return 0 != r->srtt ? r->srtt : 0 != r->initial ? r->initial : IW_RTT_INITIAL;
}

/* A sample, of which the peer says that it kept it back for delay. */
static inline void iw_rtt_sample(iw_rtt_t *r, uint64_t rtt, uint64_t delay)
{
    rtt = 0 == rtt ? 1 : rtt;
    if (0 == r->srtt) {
        r->srtt = r->min = r->latest = rtt;
        r->var = rtt / 2;
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

/* A path can become longer: samples of a whole round trip that were show it. */
static inline void iw_rtt_forget(iw_rtt_t *r, uint64_t now)
{
    if (now - r->forgot >= r->latest) {
        r->min += (r->latest - r->min) / IW_RTT_FORGET;
        r->forgot = now;
    }
}

static inline uint64_t iw_rtt_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* No probe timeout is longer. */
static inline uint64_t iw_rtt_pto_most(const iw_rtt_t *r)
{
    const uint64_t trips = IW_PTO_TRIPS * (0 != r->srtt ? r->min : iw_rtt_smoothed(r));
    return trips < IW_PTO_CEILING ? IW_PTO_CEILING : iw_rtt_least(trips, IW_PTO_MOST);
}

/* Probe timeout (RFC 9002, 6.2.1): srtt + 4 var + how long the peer may keep an acknowledgement
 * back, `before` probe timeouts having passed without an answer. The first comes early, as a tail loss
 * probe (RFC 8985, 7.2): in a cluster what gets lost is mostly the last of a message, and a probe costs
 * little. It doubles only when two more had no answer: a network that loses a third of all still answers
 * one in three, and one that is congested has by then been left alone for a hundred round trips. Before the first
 * sample it doubles each time: what is taken for the round trip may be far too short. */
static inline uint64_t iw_rtt_pto(const iw_rtt_t *r, uint64_t peer_delay, unsigned before)
{
    const uint64_t floor = 0 == before ? IW_PTO_EARLY : IW_PTO_FLOOR;
    const uint64_t most = iw_rtt_pto_most(r), trip = iw_rtt_smoothed(r);
    const uint64_t grain = iw_rtt_least(trip / 8, IW_PTO_GRAIN);
    const unsigned level = 0 == r->srtt ? 0 : IW_PTO_LEVEL;
    const uint64_t spread = 0 == r->srtt ? 2 * trip : 4 * r->var;
    uint64_t pto = trip + (spread > grain ? spread : grain) + peer_delay;
    if (pto < floor) {
        pto = floor;
    }
    for (; before > level && pto < most; --before) {
        pto *= 2;
    }
    return iw_rtt_least(pto, most);
}

/* Does an answer after so long say that a queue on the way holds as much as the path itself, and more than a process that is
 * late would make of it? Then a window that is so large fills the path (RFC 9406, 4.2). */
static inline bool iw_rtt_has_queue(const iw_rtt_t *r, uint64_t rtt)
{
    return 0 != r->srtt && rtt > 2 * r->min + IW_RTT_QUEUE;
}

/* How long after a later packet was acknowledged an earlier one may still be on its way (RFC 9002,
 * 6.1.2: 9/8 of the round trip). */
static inline uint64_t iw_rtt_loss_delay(const iw_rtt_t *r)
{
    uint64_t rtt = iw_rtt_smoothed(r);
    rtt = rtt > r->latest ? rtt : r->latest;
    rtt += rtt / 8;
    return rtt > IW_LOSS_FLOOR ? rtt : IW_LOSS_FLOOR;
}

#endif
