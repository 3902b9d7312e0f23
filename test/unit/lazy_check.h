/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Do the parts of a registration cache agree with each other? */
#ifndef LAZY_CHECK_H
#define LAZY_CHECK_H

#include "lazy_cache.h"

#include <string.h>

/* The policy of that name. */
static inline const lazy_policy_t *lazy_policy_of(const char *name)
{
    unsigned i = 0;
    while (0 != strcmp(lazy_policy_at(i)->name, name)) {
        ++i;
    }
    return lazy_policy_at(i);
}

/* The entries of the index from the last to the first. */
static inline const char *lazy_check_index(const lazy_cache_t *cache, size_t *n, size_t *bytes)
{
    uintptr_t base = UINTPTR_MAX, bound = UINTPTR_MAX;
    for (lazy_entry_t *e = lazy_index_floor(&cache->index, UINTPTR_MAX - 1); NULL != e;
         e = lazy_index_before(&cache->index, e)) {
        if (lazy_base(e) >= base || lazy_bound(e) >= bound || lazy_base(e) >= lazy_bound(e)) {
            return "the index is out of order, or an entry covers another";
        }
        base = lazy_base(e);
        bound = lazy_bound(e);
        if (0 == (atomic_load(&e->state) & LAZY_LIVE)
            || 0 != (atomic_load(&e->state) & LAZY_LOST)) {
            return "an entry of the index is not live";
        }
        if (e->at >= cache->heap.n || cache->heap.slot[e->at].entry != e) {
            return "an entry of the index is not in the heap";
        }
        ++*n;
        *bytes += bound - base;
    }
    return NULL;
}

/* Takes out what hooks posted, then checks index, heap, lists and counters against each other. NULL: all is well; else what is
 * not. No other thread may be inside. */
static inline const char *lazy_check(lazy_cache_t *cache)
{
    lazy_counters_t now;
    lazy_count(cache, &now);
    const lazy_counters_t *n = &cache->n;
    size_t indexed = 0, bytes = 0, lost = 0, privates = 0, idle = 0;
    const char *wrong = lazy_check_index(cache, &indexed, &bytes);
    if (NULL != wrong) {
        return wrong;
    }
    for (size_t i = 1; i < cache->heap.n; ++i) {
        if (cache->heap.slot[(i - 1) / 2].rank > cache->heap.slot[i].rank) {
            return "the heap is out of order";
        }
    }
    for (size_t i = 0; i < cache->heap.n; ++i) {
        idle += lazy_is_idle(cache->heap.slot[i].entry);
    }
    SPEC_LIST_EACH (link, &cache->lost) {
        const lazy_entry_t *e = SPEC_ENTRY(link, lazy_entry_t, link);
        ++lost;
        if (lazy_is_idle(e) || LAZY_LOST != (atomic_load(&e->state) & (LAZY_LOST | LAZY_LIVE))) {
            return "an entry is quarantined and not in use, or still to be had";
        }
        bytes += lazy_size(e);
    }
    if (bytes != cache->kept_bytes) {
        return "kept_bytes";
    }
    SPEC_LIST_EACH (link, &cache->privates) {
        ++privates;
        bytes += lazy_size(SPEC_ENTRY(link, lazy_entry_t, link));
    }
    if (indexed != cache->heap.n || indexed != n->entries || lost != n->quarantined
        || privates != n->privates_now || bytes != n->bytes) {
        return "levels";
    }
    if (n->misses != n->registrations - n->privates + n->failures + n->exhausted) {
        return "misses";
    }
    if (n->registrations != n->deregistrations + n->entries + n->quarantined + n->privates_now) {
        return "registrations";
    }
    if (n->deregistrations
        != n->evicted_bytes + n->evicted_entries + n->evicted_resources + n->evicted_asked
               + n->evicted_unused + n->replaced + n->invalidated + n->ended) {
        return "deregistrations";
    }
    if (!cache->config.policy->keeps && 0 != idle) {
        return "something idle is kept";
    }
    if ((cache->kept_bytes > cache->config.max_bytes
         || n->entries + n->quarantined > cache->config.max_entries)
        && 0 != idle) {
        return "over the limit, and something is idle";
    }
    return NULL;
}

#endif
