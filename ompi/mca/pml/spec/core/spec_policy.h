/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policies: what to do before a message is sent to or received from a peer, so that both processors and the network are
 * used well. The one door to the heuristics; MPI's rules do not depend on any answer of theirs.
 *
 * Each is a file of its own; docs/design/policies.md tells which one decides what, and what it gains:
 *
 *   spec_adapt.h     per envelope: does the receiver send RTRs at all? (its answer is an argument here)
 *   spec_exchange.h  in a two-way exchange of copies, which side copies when
 *   spec_run.h       in a run of copies one way, which messages the receiver copies, and which bring their data
 *   spec_patience.h  how long to wait for an RTR or RTS that is about to come
 *   spec_burst.h     which small sends wait for others to leave with
 *   spec_costs.h     up to which size a message brings its data; whether receiver first can win on a transport
 *
 * Pure; times in nanoseconds, lengths in bytes. Threads: the caller's lock, but for what says otherwise. */
#ifndef SPEC_POLICY_H
#define SPEC_POLICY_H

#include "spec_burst.h"
#include "spec_costs.h"
#include "spec_exchange.h"
#include "spec_patience.h"
#include "spec_run.h"

/* Of one peer. */
typedef struct spec_policy {
    spec_burst_t burst;
    spec_run_t run;
    spec_exchange_t exchange;
    spec_patience_t for_rtr; /* of sends */
    spec_patience_t for_rts; /* of receives */
} spec_policy_t;

/* ---- before a message that may be put ---- */

typedef struct spec_before_send {
    uint64_t length;
    bool may_come; /* the receiver sends RTRs: it has sent one, and adaptation has not stopped it */
} spec_before_send_t;

typedef struct spec_send_plan {
    bool announce; /* leave an RTR unused: RTS, and the receiver copies */
    bool poll;     /* first, for the RTR */
} spec_send_plan_t;

/* Does the plan depend on the time? Without the lock. */
static inline bool spec_policy_times_send(const spec_policy_t *p, uint64_t length)
{
    return length >= SPEC_EXCHANGE_LEAST && spec_exchange_is_open(&p->exchange);
}

/* now, and the lock: only if spec_policy_times_send. */
static inline spec_send_plan_t spec_policy_before_send(spec_policy_t *p,
                                                       const spec_before_send_t *send, uint64_t now)
{
    const bool announce =
        spec_policy_times_send(p, send->length) && spec_exchange_send(&p->exchange, now);
    return (spec_send_plan_t){.announce = announce, .poll = !announce && send->may_come};
}

/* The RTR is here. Is the message left to the receiver all the same? Depends on the time if spec_run_is_on. */
static inline bool spec_policy_leaves_put(spec_policy_t *p, uint64_t length, uint64_t now)
{
    return spec_run_leaves(&p->run, length, now);
}

/* A message that goes out with its data if it is one of a run. Is it? Without the lock. */
static inline bool spec_policy_brings(spec_policy_t *p, uint64_t now)
{
    return spec_run_brings(&p->run, now);
}

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
    bool exchanges; /* SPEC_SAW_RETURN is to be told if it finds its message */
    bool leaves;    /* what may have arrived is left alone; SPEC_SAW_RETURN is to be told */
    bool poll;      /* first, for the RTS */
    bool offers;    /* an RTR is sent, if the rule of RTRs allows it */
    bool watches;   /* adaptation has stopped that: would it have been of use? */
} spec_recv_plan_t;

/* Does the plan change the policy (is the lock needed)? */
static inline bool spec_policy_notes_recv(const spec_before_recv_t *recv)
{
    return !recv->waits && recv->capacity >= SPEC_EXCHANGE_LEAST;
}

/* An RTS that has arrived is answered at once. Without an RTR to save, a call that waits next sees it soon enough, and what is
 * not large is soon copied then. */
static inline spec_recv_plan_t spec_policy_before_recv(spec_policy_t *p,
                                                       const spec_before_recv_t *recv)
{
    const bool exchanges = spec_policy_notes_recv(recv);
    const bool leaves = exchanges && spec_exchange_leaves(&p->exchange);
    const bool offers = recv->offers && recv->wins;
    return (spec_recv_plan_t){.exchanges = exchanges,
                              .leaves = leaves,
                              .poll = !leaves && (offers || exchanges),
                              .offers = offers,
                              .watches = !recv->offers && recv->wins};
}

/* ---- what happened ---- */

typedef enum spec_saw {
    SPEC_SAW_RECEIVE, /* a receive from the peer begins; without the lock */
    SPEC_SAW_COPIED, /* a put to it of SPEC_RUN_LEAST and more ended, which this processor did; now */
    SPEC_SAW_RETURN,   /* a receive that exchanges returns; now */
    SPEC_SAW_CROSSING, /* an RTR of the peer met our RTS on its way; length */
    SPEC_SAW_LATE_RTS, /* an RTS came just after its receive was posted; length */
    SPEC_SAW_MOVED,    /* a transfer that no processor here did took ns; length */
} spec_saw_t;

static inline void spec_policy_observed(spec_policy_t *p, spec_saw_t what, uint64_t length,
                                        uint64_t ns)
{
    switch (what) {
    case SPEC_SAW_RECEIVE:
        spec_run_break(&p->run);
        break;
    case SPEC_SAW_COPIED:
        spec_run_copied(&p->run, ns);
        break;
    case SPEC_SAW_RETURN:
        spec_exchange_received(&p->exchange, ns);
        break;
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
