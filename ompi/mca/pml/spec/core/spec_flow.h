/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Flow control for messages that nobody has asked for yet: credit. The rules, what they bound, and why nothing can wait for
 * ever: docs/design/protocol.md, "Too many unexpected messages".
 *
 *   sender: spent     receiver: arrived (processed in their order)     told: what CREDIT(told) says
 *   Invariant: spent <= told; told only grows; it begins with the sender's own window.
 *
 * Pure. Threads: `in` and `out` under the caller's lock each, the store under another. */
#ifndef SPEC_FLOW_H
#define SPEC_FLOW_H

#include "spec_seq.h"

#include <stdbool.h>
#include <stdint.h>

/* Bytes of memory of the receiver. Part of the protocol: both sides must use the same. */
#define SPEC_FLOW_LEAST (1u << 20) /* every window */
#define SPEC_FLOW_STEP  (SPEC_FLOW_LEAST / 4)
/* The largest window; far from where the counters wrap. */
#define SPEC_FLOW_MOST (1u << 30)
/* What it takes to keep a message that brings no data, at most. */
#define SPEC_FLOW_MESSAGE 448u
/* So much data comes along with that. */
#define SPEC_FLOW_INSIDE 128u
/* Beyond this, memory for the data (spec_slab.h) may be twice as large as the data. */
#define SPEC_FLOW_LARGE 16000u
/* More data than this comes only when it is asked for. */
#define SPEC_FLOW_DATA_MAX ((SPEC_FLOW_STEP - SPEC_FLOW_MESSAGE) / 2)

/* What a message costs whose first packet carries so many bytes of data: what it takes to keep it. */
static inline uint32_t spec_flow_cost(uint64_t data)
{
    return data <= SPEC_FLOW_INSIDE  ? SPEC_FLOW_MESSAGE
           : data <= SPEC_FLOW_LARGE ? SPEC_FLOW_MESSAGE + (uint32_t) (data + data / 8) + 128
                                     : SPEC_FLOW_MESSAGE + 2 * (uint32_t) data;
}

/* Unexpected messages of all senders. */
typedef struct spec_store {
    uint64_t limit;  /* bytes; 0: no limit */
    uint32_t window; /* of each sender: spec_flow_window */
    uint64_t bytes;
    uint64_t most; /* the largest `bytes` so far */
} spec_store_t;

/* Those of one sender, and the credit that it was told. */
typedef struct spec_flow_in {
    uint64_t bytes;
    uint32_t arrived;
    uint32_t told;
    uint32_t due; /* what has arrived when it is to be told again */
    bool is_low;  /* it needs more, and is given no more for now */
} spec_flow_in_t;

/* What a sender knows. */
typedef struct spec_flow_out {
    uint32_t told;
    uint32_t spent;
} spec_flow_out_t;

/* The limit for one process of a host with so many bytes of memory and so many processes: a quarter of its part, but
 * no less than 64 windows of the least size. */
uint64_t spec_flow_limit(uint64_t memory, uint32_t processes);

/* The window for each of so many senders: they share the limit. */
uint32_t spec_flow_window(uint64_t limit, uint32_t senders);

/* ---- at the receiver ---- */

/* Before the first message of a sender; what its window is it knows itself, the least or more. */
static inline void spec_flow_begin(spec_flow_in_t *in, uint32_t window)
{
    in->told = in->arrived + window;
    in->due = in->arrived + SPEC_FLOW_STEP;
}

/* A message was processed. True: its sender needs more credit (spec_flow_give). */
static inline bool spec_flow_arrived(spec_flow_in_t *in, uint32_t cost)
{
    in->arrived += cost;
    return (int32_t) (in->arrived - in->due) >= 0;
}

/* It is unexpected; then, it is not any more. */
static inline void spec_flow_kept(spec_store_t *store, spec_flow_in_t *in, uint32_t cost)
{
    in->bytes += cost;
    store->bytes += cost;
    if (store->bytes > store->most) {
        store->most = store->bytes;
    }
}

static inline void spec_flow_taken(spec_store_t *store, spec_flow_in_t *in, uint32_t cost)
{
    in->bytes -= cost;
    store->bytes -= cost;
}

/* Give more credit, if it is needed and may be. `waits`: a receive or a probe waits that this sender
 * could satisfy. True: send in->told to it. */
bool spec_flow_give(const spec_store_t *store, spec_flow_in_t *in, bool waits);

/* ---- at the sender ---- */

/* Is there credit for a message that costs so much? */
static inline bool spec_flow_lets(const spec_flow_out_t *out, uint32_t cost)
{
    return (int32_t) (out->told - out->spent) >= (int32_t) cost;
}

/* CREDIT(told) came. False: it says less than is known already. */
static inline bool spec_flow_learn(spec_flow_out_t *out, uint32_t told)
{
    if (!spec_seq_before(out->told, told)) {
        return false;
    }
    out->told = told;
    return true;
}

#endif
