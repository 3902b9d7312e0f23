/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See lazy_ids.h. A number has one slot, and is forgotten when another one takes it. */
#include "lazy_ids.h"

void lazy_ids_use(lazy_ids_t *ids, lazy_cache_t *cache, uint64_t id, uintptr_t base, size_t size)
{
    uint64_t *known = &ids->known[id % LAZY_IDS];
    if (*known != id) {
        lazy_invalidate(cache, base, size);
        *known = id;
    }
}
