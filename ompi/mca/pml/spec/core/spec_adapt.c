/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The tables that remember, for each communicator, peer and tag, whether receivers should offer their buffers. */
#include "spec_adapt.h"

#include "spec_seq.h"

#include <stdlib.h>
#include <string.h>

void spec_adapt_init(spec_adapt_t *a, uint32_t entries, spec_adapt_policy_t policy)
{
    memset(a, 0, sizeof(*a));
    a->policy = policy;
    a->sets = 1;
    a->changes = 1;
    while (a->sets < UINT32_C(1) << 24 && a->sets * SPEC_ADAPT_WAYS < entries) {
        a->sets *= 2;
    }
}

void spec_adapt_fini(spec_adapt_t *a)
{
    free(a->entry);
    a->entry = a->last = NULL;
    a->n = 0;
}

static spec_adapt_entry_t *set_of(const spec_adapt_t *a, spec_envelope_t v)
{
    uint64_t h = ((uint64_t) v.ctx << 32 | (uint32_t) v.peer) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32 ^ (uint32_t) v.tag) * UINT64_C(0xd6e8feb86659fd93);
    return a->entry + ((h >> 32) & (a->sets - 1)) * SPEC_ADAPT_WAYS;
}

spec_adapt_entry_t *spec_adapt_search(spec_adapt_t *a, spec_envelope_t envelope)
{
    if (NULL == a->entry) {
        return NULL;
    }
    spec_adapt_entry_t *set = set_of(a, envelope);
    for (unsigned i = 0; i < SPEC_ADAPT_WAYS; ++i) {
        if (set[i].in_use && spec_envelope_is(set[i].envelope, envelope)) {
            set[i].touched = ++a->clock;
            return a->last = &set[i];
        }
    }
    return NULL;
}

/* Is x the better one to be forgotten? Free before used, OPEN before others, old before young. */
static bool is_cheaper(const spec_adapt_entry_t *x, const spec_adapt_entry_t *y)
{
    if (x->in_use != y->in_use) {
        return !x->in_use;
    }
    const bool x_open = SPEC_ADAPT_OPEN == x->state, y_open = SPEC_ADAPT_OPEN == y->state;
    return x_open != y_open ? x_open : spec_seq_before(x->touched, y->touched);
}

spec_adapt_entry_t *spec_adapt_open(spec_adapt_t *a, spec_envelope_t envelope)
{
    spec_adapt_entry_t *entry = spec_adapt_find(a, envelope);
    if (NULL != entry) {
        return entry;
    }
    if (NULL == a->entry
        && NULL == (a->entry = calloc((size_t) a->sets * SPEC_ADAPT_WAYS, sizeof(*a->entry)))) {
        return NULL;
    }
    spec_adapt_entry_t *set = set_of(a, envelope);
    entry = set;
    for (unsigned i = 1; i < SPEC_ADAPT_WAYS; ++i) {
        if (is_cheaper(&set[i], entry)) {
            entry = &set[i];
        }
    }
    if (entry->in_use) {
        ++a->changes;
    } else {
        __atomic_store_n(&a->n, a->n + 1, __ATOMIC_RELAXED);
    }
    *entry = (spec_adapt_entry_t){.envelope = envelope, .in_use = true, .touched = ++a->clock};
    return entry;
}

/* All changes of state: the counts begin anew. */
static void enter(spec_adapt_t *a, spec_adapt_entry_t *entry, spec_adapt_state_t state)
{
    a->changes += entry->state != state;
    entry->state = (uint8_t) state;
    entry->seen = entry->good = 0;
}

bool spec_adapt_out_settled(spec_adapt_t *a, spec_envelope_t envelope, bool used)
{
    spec_adapt_entry_t *entry = spec_adapt_open(a, envelope);
    if (NULL == entry || SPEC_ADAPT_OPEN != entry->state) {
        return false; /* sent before the receiver heard STOP: old news */
    }
    ++entry->seen;
    entry->good += used;
    /* No need to wait for the end of a window that cannot become good any more. */
    const uint64_t bad = entry->seen - entry->good;
    if (bad * 100 > (uint64_t) a->policy.window * (100 - a->policy.stop_below)) {
        enter(a, entry, SPEC_ADAPT_STOPPING);
        return true;
    }
    if (entry->seen >= a->policy.window) {
        enter(a, entry, SPEC_ADAPT_OPEN);
    }
    return false;
}

bool spec_adapt_out_say(spec_adapt_t *a, spec_envelope_t envelope, uint32_t seq)
{
    spec_adapt_entry_t *entry = spec_adapt_find(a, envelope);
    if (NULL == entry || SPEC_ADAPT_STOPPING != entry->state) {
        return false;
    }
    enter(a, entry, SPEC_ADAPT_STOPPED);
    entry->mark = seq;
    return true;
}

bool spec_adapt_out_arrived(spec_adapt_t *a, spec_envelope_t envelope, uint32_t e)
{
    spec_adapt_entry_t *entry = spec_adapt_find(a, envelope);
    if (NULL == entry || SPEC_ADAPT_STOPPED != entry->state || !spec_seq_before(entry->mark, e)) {
        return false;
    }
    enter(a, entry, SPEC_ADAPT_OPEN);
    return true;
}

void spec_adapt_out_preset(spec_adapt_t *a, spec_envelope_t envelope)
{
    spec_adapt_entry_t *entry = spec_adapt_open(a, envelope);
    if (NULL != entry) {
        enter(a, entry, SPEC_ADAPT_STOPPED);
        entry->mark = UINT32_MAX;
    }
}

spec_adapt_entry_t *spec_adapt_in_stop(spec_adapt_t *a, spec_envelope_t envelope)
{
    spec_adapt_entry_t *known = spec_adapt_find(a, envelope);
    spec_adapt_entry_t *entry = NULL != known ? known : spec_adapt_open(a, envelope);
    if (NULL == entry || SPEC_ADAPT_STOPPED == entry->state) {
        return NULL;
    }
    if (NULL == known || entry->mark >= SPEC_ADAPT_LASTING * a->policy.window) {
        entry->backoff = 0;
    } else if (entry->backoff < SPEC_ADAPT_BACKOFF_MAX) {
        ++entry->backoff;
    }
    enter(a, entry, SPEC_ADAPT_STOPPED);
    return entry;
}

bool spec_adapt_in_may(spec_adapt_t *a, spec_envelope_t envelope)
{
    spec_adapt_entry_t *entry = spec_adapt_find(a, envelope);
    if (NULL == entry) {
        return true;
    }
    if (SPEC_ADAPT_STOPPED == entry->state) {
        return false;
    }
    entry->mark += entry->mark < UINT32_MAX;
    return true;
}

spec_adapt_verdict_t spec_adapt_in_judge(spec_adapt_t *a, spec_envelope_t envelope, bool in_time)
{
    spec_adapt_entry_t *entry = spec_adapt_find(a, envelope);
    if (NULL == entry || SPEC_ADAPT_STOPPED != entry->state) {
        return SPEC_ADAPT_GO_ON;
    }
    ++entry->seen;
    entry->good += in_time;
    if (entry->seen < a->policy.window << entry->backoff) {
        return SPEC_ADAPT_GO_ON;
    }
    if ((uint64_t) entry->good * 100 < (uint64_t) entry->seen * a->policy.resume_at) {
        enter(a, entry, SPEC_ADAPT_STOPPED);
        return SPEC_ADAPT_WINDOW;
    }
    enter(a, entry, SPEC_ADAPT_OPEN);
    entry->mark = 0;
    return SPEC_ADAPT_RESUME;
}
