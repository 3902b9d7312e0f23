/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The candidates for eviction from the cache, in a binary heap with the lowest rank on top.
 *
 * A use does not move an entry in the heap: that would need a lock on every hit. Ranks only grow,
 * so it is enough to check the top: if it was used since it was ranked, it is ranked anew and
 * sinks; if not, it is the lowest of all, because the others' ranks are at least what is written
 * here.
 *
 * Threads: under the cache's lock. Memory: grows with the number of entries, in lazy_heap_reserve
 * alone, so that nothing has to be undone when there is none. */
#ifndef LAZY_HEAP_H
#define LAZY_HEAP_H

#include "lazy_entry.h"

#define LAZY_NONE SIZE_MAX

typedef struct lazy_slot {
    uint64_t rank;
    uint64_t used; /* equal ranks: the one used longest ago goes first */
    size_t size;
    lazy_entry_t *entry;
} lazy_slot_t;

typedef struct lazy_heap {
    lazy_slot_t *slot; /* allocated; the cache frees it */
    size_t n, room;
} lazy_heap_t;

/* Room for one more. False: no memory. */
bool lazy_heap_reserve(lazy_heap_t *heap);

void lazy_heap_add(lazy_heap_t *heap, lazy_entry_t *e, uint64_t rank, uint64_t used);
void lazy_heap_remove(lazy_heap_t *heap, lazy_entry_t *e);
/* The top has another rank now, not a lower one. */
void lazy_heap_sink_top(lazy_heap_t *heap, uint64_t rank, uint64_t used);

#endif
