/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See spec_flow.h. */
#include "spec_flow.h"

/* By how much the sender may be ahead now. */
static uint32_t window(const spec_store_t *store, const spec_flow_in_t *in, bool waits)
{
    if (waits || 0 == store->limit || store->bytes <= store->limit) {
        return SPEC_FLOW_CREDIT;
    }
    return in->bytes < SPEC_FLOW_CREDIT ? SPEC_FLOW_CREDIT - (uint32_t) in->bytes : 0;
}

bool spec_flow_give(const spec_store_t *store, spec_flow_in_t *in, bool waits)
{
    if (!spec_flow_arrived(in, 0)) {
        return false;
    }
    const uint32_t ahead = window(store, in, waits);
    in->is_low = ahead < SPEC_FLOW_STEP;
    if (in->is_low) {
        return false;
    }
    in->told = in->arrived + ahead - SPEC_FLOW_CREDIT;
    return true;
}
