/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Flow control for messages that nobody has asked for yet.
 *
 * An unexpected message occupies memory of its receiver, and nothing in MPI limits their number. So
 * a process that holds more than its limit asks whoever sends more of them to hold back
 * (docs/protocol.md, "Too many unexpected messages"):
 *
 *   HOLD(no, until)   send no data before it is asked for, and of messages with number `until` and
 *                     later send nothing at all
 *   HOLD(no, over)    as usual
 *
 * The one with the highest `no` counts, whatever the order of arrival.
 *
 * A sender that is held announces its messages by RTS without data. A blocking send then waits for its
 * receive, which is the throttle; nonblocking ones run into `until` and wait in the sender's memory.
 * MPI demands that a receive finds its message even behind any number of others. Therefore `until`
 * moves on not only with each message that is taken, but also whenever a receive or a probe waits for
 * this sender and it has announced all that it may:
 *
 *   is_held and nxt >= until  =>  nobody waits for a message of this sender
 *
 * Who is held: when the process has more than the limit, a sender with more than its share of a quarter of
 * it; until the process has less than half of the limit, or the sender less than half of its share.
 *
 * Pure. Threads: `in` and `out` under the caller's lock each, the store under another. */
#ifndef SPEC_FLOW_H
#define SPEC_FLOW_H

#include "spec_seq.h"

#include <stdbool.h>
#include <stdint.h>

/* Messages that a sender may announce beyond those that its receiver has seen; twice as many each time
 * that a receive waits for what is behind them. */
#define SPEC_FLOW_AHEAD 64u
#define SPEC_FLOW_AHEAD_MAX 65536u
/* HOLD is seen when the sender looks at its transports; one that sends without looking does so once
 * in so many messages, of up to so many bytes and longer ones. Powers of two. */
#define SPEC_FLOW_LOOK 256u
#define SPEC_FLOW_SMALL 256u
#define SPEC_FLOW_LOOK_LONG 32u

/* What a process holds of all senders. */
typedef struct spec_store {
    uint64_t limit;   /* bytes; 0: no limit */
    uint64_t bytes;
    uint64_t most;    /* the largest `bytes` so far */
    uint32_t senders; /* of whom something is held */
} spec_store_t;

/* What it holds of one sender, and what that was told. Zero is the start. */
typedef struct spec_flow_in {
    uint64_t bytes;
    uint32_t no;    /* of the latest HOLD */
    uint32_t until; /* as told, or about to be */
    uint32_t may;   /* `until` of the next */
    uint32_t ahead; /* by how much it moves on when a receive waits */
    bool is_held;
} spec_flow_in_t;

/* What a sender knows. Zero is the start. */
typedef struct spec_flow_out {
    uint32_t no;
    uint32_t until;
    bool is_held;
} spec_flow_out_t;

/* All of these at the receiver: nxt is the number of the message that it will process next. True: tell
 * the sender (spec_flow_tell). */

/* A message of so many bytes (with what it takes to keep it) was processed and is unexpected. */
bool spec_flow_added(spec_store_t *store, spec_flow_in_t *in, uint32_t nxt, uint64_t bytes);
/* It is not any more; or, with 0 bytes, one was processed that was waited for. */
bool spec_flow_taken(spec_store_t *store, spec_flow_in_t *in, uint32_t nxt, uint64_t bytes);
/* A receive or a probe that this sender could satisfy finds nothing. */
bool spec_flow_wanted(spec_flow_in_t *in, uint32_t nxt);

/* What to tell now; each call takes a number, so it must be sent. */
spec_flow_out_t spec_flow_tell(spec_flow_in_t *in);

/* At the sender: a HOLD arrived. False: an old one, or one again. */
bool spec_flow_heed(spec_flow_out_t *out, const spec_flow_out_t *told);

/* May the message with this number be sent or announced? */
static inline bool spec_flow_lets(const spec_flow_out_t *out, uint32_t seq)
{
    return !out->is_held || spec_seq_before(seq, out->until);
}

/* Is it time to look for a HOLD, before the message with this number and length? */
static inline bool spec_flow_look(uint32_t seq, uint64_t length)
{
    return 0 == (~seq & ((length <= SPEC_FLOW_SMALL ? SPEC_FLOW_LOOK : SPEC_FLOW_LOOK_LONG) - 1));
}

#endif
