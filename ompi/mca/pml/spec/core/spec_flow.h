/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Flow control for messages that nobody has asked for yet: credit.
 *
 * An unexpected message occupies memory of its receiver, and nothing in MPI limits their number. So a
 * sender may be ahead of its receiver by SPEC_FLOW_CREDIT only (docs/protocol.md, "Too many unexpected
 * messages"). Both count what the sender's messages cost, from the first one on:
 *
 *   sender: spent     receiver: arrived (processed in their order)     told: what CREDIT(told) says
 *   Invariant: spent <= told + SPEC_FLOW_CREDIT; told only grows.
 *
 * The receiver tells more when less than half of the credit is left, one packet in hundreds of messages:
 *   - the full credit, as long as all its unexpected messages take no more than the limit,
 *   - beyond that so much that this sender's take no more than one credit,
 *   - the full credit if a receive or a probe waits that the sender could satisfy: MPI demands that it
 *     finds its message, even behind any number of others.
 * In numbers: unless a receive waits so, unexpected <= limit + senders * SPEC_FLOW_CREDIT. Proof: of the
 * senders of whom more than one credit is held take the one that got its full credit last. At that
 * time all were within the limit, and none of them can have sent more than one credit since.
 * No deadlock: if a receive waits and all that was sent is processed, at least half of the credit is left or
 * on its way, and no message costs more.
 *
 * Pure. Threads: `in` and `out` under the caller's lock each, the store under another. */
#ifndef SPEC_FLOW_H
#define SPEC_FLOW_H

#include "spec_seq.h"

#include <stdbool.h>
#include <stdint.h>

/* Bytes of memory of the receiver. Part of the protocol: both sides must use the same. */
#define SPEC_FLOW_CREDIT (1u << 20)
#define SPEC_FLOW_STEP   (SPEC_FLOW_CREDIT / 2)
/* What it takes to keep a message, at most: this, and twice the data that came with it. */
#define SPEC_FLOW_MESSAGE 576u
/* More data than this comes only when it is asked for. */
#define SPEC_FLOW_DATA_MAX ((SPEC_FLOW_STEP - SPEC_FLOW_MESSAGE) / 2)

/* What a message costs whose first packet carries so many bytes of data. */
static inline uint32_t spec_flow_cost(uint64_t data)
{
    return SPEC_FLOW_MESSAGE + 2 * (uint32_t) data;
}

/* What a process holds of all senders. */
typedef struct spec_store {
    uint64_t limit; /* bytes; 0: no limit */
    uint64_t bytes;
    uint64_t most; /* the largest `bytes` so far */
} spec_store_t;

/* What it holds of one sender, and what that was told. Zero is the start. */
typedef struct spec_flow_in {
    uint64_t bytes;
    uint32_t arrived;
    uint32_t told;
    bool is_low; /* less than half of the credit is left, and no more is given for now */
} spec_flow_in_t;

/* What a sender knows. Zero is the start. */
typedef struct spec_flow_out {
    uint32_t told;
    uint32_t spent;
} spec_flow_out_t;

/* ---- at the receiver ---- */

/* A message was processed. True: its sender needs more credit (spec_flow_give). */
static inline bool spec_flow_arrived(spec_flow_in_t *in, uint32_t cost)
{
    in->arrived += cost;
    return (int32_t) (in->told + SPEC_FLOW_CREDIT - in->arrived) < (int32_t) SPEC_FLOW_STEP;
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
    return (int32_t) (out->told + SPEC_FLOW_CREDIT - out->spent) >= (int32_t) cost;
}

/* CREDIT(told) came. False: it says less than is known already. */
static inline bool spec_flow_heed(spec_flow_out_t *out, uint32_t told)
{
    if (!spec_seq_before(out->told, told)) {
        return false;
    }
    out->told = told;
    return true;
}

#endif
