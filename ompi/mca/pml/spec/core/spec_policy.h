/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policies: what to do before a message is sent to or received from a peer, so that both processors and the network are
 * used well. The one door to the heuristics; MPI's rules do not depend on any answer of theirs. Which of them decides what, and
 * what it gains: docs/design/policies.md. (Of spec_adapt.h the answer is an argument here.)
 *
 * Pure; times in nanoseconds, lengths in bytes. Threads: the caller's lock, but for what says otherwise. */
#ifndef SPEC_POLICY_H
#define SPEC_POLICY_H

#include "spec_burst.h"
#include "spec_follow.h"
#include "spec_costs.h"
#include "spec_patience.h"

/* Of one peer. */
typedef struct spec_policy {
    spec_burst_t burst;
    spec_patience_t for_rtr; /* of sends */
    spec_patience_t for_rts; /* of receives */
    spec_follow_t follow;
} spec_policy_t;

/* ---- before a message is sent ---- */

/* A small nonblocking send. Does it wait for others? Without the lock. */
static inline bool spec_policy_gathers(spec_policy_t *p, uint32_t polls, size_t length,
                                       uint32_t most)
{
    return spec_burst_waits(&p->burst, polls, length, most);
}

/* ---- before a large receive from an exact source ---- */

typedef struct spec_before_recv {
    uint64_t capacity;
    bool waits;  /* MPI_Recv */
    bool offers; /* it is to send an RTR, adaptation lets it; else it would, but for adaptation */
    bool wins;   /* receiver first may win: spec_costs_offers */
} spec_before_recv_t;

typedef struct spec_recv_plan {
    bool poll;    /* first, for the RTS */
    bool offers;  /* an RTR is sent, if the rule of RTRs allows it */
    bool watches; /* adaptation has stopped that: would it have been of use? */
} spec_recv_plan_t;

/* From this many bytes on, a receive that does not wait polls for its RTS though it sends no RTR. */
#define SPEC_POLL_LEAST UINT64_C(65536)

/* An RTS that has arrived is answered at once. Without an RTR to save, a call that waits next sees it soon enough, and what is
 * not large is soon copied then. */
static inline spec_recv_plan_t spec_policy_before_recv(const spec_before_recv_t *recv)
{
    const bool offers = recv->offers && recv->wins;
    return (spec_recv_plan_t){.poll = offers || (!recv->waits && recv->capacity >= SPEC_POLL_LEAST),
                              .offers = offers,
                              .watches = !recv->offers && recv->wins};
}

/* A receive that is to poll, though it sends no RTR. Does it, or the send that follows? Without the lock. */
static inline bool spec_policy_polls(spec_policy_t *p, uint64_t now)
{
    return spec_follow_polls(&p->follow, now);
}

/* Are sends asked the next? */
static inline bool spec_policy_is_followed(const spec_policy_t *p)
{
    return spec_follow_waits(&p->follow);
}

/* A large send was announced. Does it poll for what a receive has left to it? Without the lock. */
static inline bool spec_policy_announced(spec_policy_t *p, uint64_t now)
{
    return spec_follow_sent(&p->follow, now);
}

/* ---- what happened ---- */

typedef enum spec_saw {
    SPEC_SAW_CROSSING, /* an RTR of the peer met our RTS on its way; length */
    SPEC_SAW_LATE_RTS, /* an RTS came just after its receive was posted; length */
    SPEC_SAW_MOVED,    /* a transfer that no processor here did took ns; length */
} spec_saw_t;

static inline void spec_policy_observed(spec_policy_t *p, spec_saw_t what, uint64_t length,
                                        uint64_t ns)
{
    switch (what) {
    case SPEC_SAW_CROSSING:
        spec_patience_crossed(&p->for_rtr, length);
        break;
    case SPEC_SAW_LATE_RTS:
        spec_patience_crossed(&p->for_rts, length);
        break;
    case SPEC_SAW_MOVED:
        spec_patience_moved(&p->for_rtr, length, ns);
        spec_patience_moved(&p->for_rts, length, ns);
        break;
    }
}

#endif
