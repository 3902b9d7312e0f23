/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Credit for unexpected messages: how much memory they may take, and when a sender is given more. */
#include "spec_flow.h"

#define LIMIT_LEAST (UINT64_C(64) * SPEC_FLOW_LEAST)

uint64_t spec_flow_limit(uint64_t memory, uint32_t processes)
{
    const uint64_t part = memory / 4 / (processes > 0 ? processes : 1);
    return part < LIMIT_LEAST ? LIMIT_LEAST : part;
}

uint32_t spec_flow_window(uint64_t limit, uint32_t senders)
{
    const uint64_t part = limit / (senders > 0 ? senders : 1);
    return 0 == limit || part > SPEC_FLOW_MOST ? SPEC_FLOW_MOST
           : part < SPEC_FLOW_LEAST            ? SPEC_FLOW_LEAST
                                               : (uint32_t) part;
}

/* By how much the sender may be ahead now. */
static uint32_t ahead(const spec_store_t *store, const spec_flow_in_t *in, bool waits)
{
    if (waits || 0 == store->limit || store->bytes <= store->limit) {
        return store->window;
    }
    return in->bytes < store->window ? store->window - (uint32_t) in->bytes : 0;
}

bool spec_flow_give(const spec_store_t *store, spec_flow_in_t *in, bool waits)
{
    if (!spec_flow_arrived(in, 0)) {
        return false;
    }
    const uint32_t more = ahead(store, in, waits);
    in->is_low = more < 2 * SPEC_FLOW_STEP;
    if (in->is_low) {
        return false;
    }
    in->told = in->arrived + more;
    in->due = in->arrived + more / 4;
    return true;
}
