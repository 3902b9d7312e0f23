/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See spec_flow.h. */
#include "spec_flow.h"

static uint64_t share(const spec_store_t *store)
{
    return store->limit / 4 / (0 == store->senders ? 1 : store->senders);
}

bool spec_flow_added(spec_store_t *store, spec_flow_in_t *in, uint32_t nxt, uint64_t bytes)
{
    store->senders += 0 == in->bytes;
    in->bytes += bytes;
    store->bytes += bytes;
    if (store->bytes > store->most) {
        store->most = store->bytes;
    }
    if (in->is_held || 0 == store->limit || store->bytes <= store->limit || in->bytes <= share(store)) {
        return false;
    }
    in->is_held = true;
    in->ahead = SPEC_FLOW_AHEAD;
    in->until = in->may = nxt + in->ahead;
    return true;
}

bool spec_flow_taken(spec_store_t *store, spec_flow_in_t *in, uint32_t nxt, uint64_t bytes)
{
    if (bytes > 0) {
        in->bytes -= bytes;
        store->bytes -= bytes;
        store->senders -= 0 == in->bytes;
    }
    if (!in->is_held) {
        return false;
    }
    if (store->bytes <= store->limit / 2 || in->bytes <= share(store) / 2) {
        in->is_held = false;
        return true;
    }
    /* One came to an end, one more may come; told not one by one, and not while more than that are here
     * that were under way when the sender was asked. */
    ++in->may;
    if (!spec_seq_before(nxt, in->may) || in->may - in->until < SPEC_FLOW_AHEAD / 2) {
        return false;
    }
    in->until = in->may;
    return true;
}

bool spec_flow_wanted(spec_flow_in_t *in, uint32_t nxt)
{
    if (!in->is_held || spec_seq_before(nxt, in->until)) {
        return false;
    }
    if (in->ahead < SPEC_FLOW_AHEAD_MAX) {
        in->ahead *= 2;
    }
    in->until = in->may = nxt + in->ahead;
    return true;
}

spec_flow_out_t spec_flow_tell(spec_flow_in_t *in)
{
    return (spec_flow_out_t){.no = ++in->no, .until = in->until, .is_held = in->is_held};
}

bool spec_flow_heed(spec_flow_out_t *out, const spec_flow_out_t *told)
{
    if (!spec_seq_before(out->no, told->no)) {
        return false;
    }
    *out = *told;
    return true;
}
