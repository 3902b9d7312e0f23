/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Whether datagrams to a peer and its datagrams arrive, decided before anything depends on it.
 *
 * A peer is reached when each has answered the other: then both directions work, and neither gives up the other any more. How
 * long an answer is waited for is counted in questions (iw_peer_ask), so that an end that has no processor, or is stopped, gives up
 * nobody meanwhile. A path that carries nothing and a process that is slow are the same silence, but mostly there is more to go by:
 * what is heard of the peer, and what others took to answer (docs/design/wire.md, Is it reached?).
 *
 * Of 40 questions one is answered, if a third of all datagrams are lost, but for one peer of 10^10.
 *
 * Pure: the caller gives what the engine knows. Threads: none. */
#ifndef IW_REACH_H
#define IW_REACH_H

#include "iw_engine.h"
#include "iw_rtt.h"

#include <stdbool.h>
#include <stdint.h>

/* Questions, and those that fit into a few round trips besides. */
#define IW_REACH_SILENT 40u /* nothing is known of the host: 0.8 s */
#define IW_REACH_HEARD 75u /* the peer is heard, but does not answer; or some of its host do, and some did not */
#define IW_REACH_SLOW  500u /* those of its host have answered so far */
#define IW_REACH_HALF  (UINT16_MAX - 1u) /* it has answered, and will say how it decides */
#define IW_REACH_TRIPS 4u   /* round trips that the network promises */
#define IW_REACH_MOST  100u /* of what the slowest answer took, this much counts */

typedef enum iw_reach_verdict {
    IW_REACH_NONE, /* it has not been asked for */
    IW_REACH_ASKS, /* not decided */
    IW_REACH_YES,
    IW_REACH_NO,
} iw_reach_verdict_t;

/* The other processes of a host, by one interface. All zero: nothing is known. */
typedef struct iw_reach_host {
    bool has_answered;
    bool is_given_up;
} iw_reach_host_t;

/* All hosts, by one interface. All zero: nothing is known. */
typedef struct iw_reach_net {
    uint32_t slowest;  /* questions that an answer took */
    uint32_t answered; /* peers */
    uint32_t given_up; /* hosts */
} iw_reach_net_t;

/* An answer came, after so many questions. */
static inline void iw_reach_answered(iw_reach_net_t *net, iw_reach_host_t *host, uint32_t asked)
{
    ++net->answered;
    host->has_answered = true;
    net->slowest = asked > net->slowest ? asked : net->slowest;
}

static inline void iw_reach_given_up(iw_reach_net_t *net, iw_reach_host_t *host)
{
    net->given_up += !host->is_given_up;
    host->is_given_up = true;
}

/* Not worth a question: its host was asked in vain; or, where all of a network is closed, several hosts were and none answers. */
static inline bool iw_reach_in_vain(const iw_reach_net_t *net, const iw_reach_host_t *host,
                                    iw_contact_t contact)
{
    return IW_CONTACT_NONE == contact && !host->has_answered
           && (host->is_given_up || (net->given_up >= 2 && 0 == net->answered));
}

/* So many questions in vain are enough. trip: what the network promises for a round trip, ns; 0: nothing. */
static inline uint32_t iw_reach_patience(const iw_reach_net_t *net, const iw_reach_host_t *host,
                                         iw_contact_t contact, uint64_t trip)
{
    const uint32_t trips =
        (uint32_t) (IW_REACH_TRIPS * (0 == trip ? IW_RTT_INITIAL : trip) / IW_ASK_EVERY);
    const uint32_t slow = net->slowest < IW_REACH_MOST ? net->slowest : IW_REACH_MOST;
    const bool is_slow = host->has_answered && !host->is_given_up;
    const bool is_there = IW_CONTACT_HEARD == contact || host->has_answered;
    const uint32_t least = is_slow ? IW_REACH_SLOW : is_there ? IW_REACH_HEARD : IW_REACH_SILENT;
    return IW_CONTACT_HALF == contact ? IW_REACH_HALF : least + trips + 2 * slow;
}

/* asked: so often in vain. The last question has its time for an answer, too. */
static inline iw_reach_verdict_t iw_reach_judge(iw_contact_t contact, uint32_t asked,
                                                uint32_t patience)
{
    const bool is_over = IW_CONTACT_ENDED == contact || IW_CONTACT_LEFT == contact;
    return IW_CONTACT_ANSWERED == contact ? IW_REACH_YES
           : is_over || asked > patience  ? IW_REACH_NO
                                          : IW_REACH_ASKS;
}

/* The i-th process of a job of n that process `me` asks at once: those at distances that are powers of two, to which collective
 * operations talk first. Mutual, so that both ends ask at the same time. UINT32_MAX: there are no more. */
static inline uint32_t iw_reach_partner(uint32_t me, uint32_t n, unsigned i)
{
    const uint64_t distance = UINT64_C(1) << i / 2;
    return distance >= n ? UINT32_MAX
                         : (uint32_t) ((0 == i % 2 ? me + distance : me + n - distance) % n);
}

#endif
