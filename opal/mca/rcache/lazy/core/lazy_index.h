/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The index of the cache: which registration covers an interval of memory. A skip list ordered by base address, read without
 * a lock.
 *
 * Invariant: no entry covers another. Ordered by base they are then ordered by bound as well, so of
 * all entries that begin at or before an address the last one reaches furthest, and one search for
 * it answers both which entry covers [a, b) and whether any touches it. Intervals may overlap.
 *
 * Threads: one writer at a time, which excludes others by itself; any number of readers
 * beside it. What a reader finds may just be ending (it takes a reference and checks again), and
 * beside a writer it may miss an entry; it never crashes or runs for ever: entries are never
 * returned to the system, and each step goes to a greater base. */
#ifndef LAZY_INDEX_H
#define LAZY_INDEX_H

#include "lazy_entry.h"

/* Empty: all zero, but for `random`. */
typedef struct lazy_index {
    lazy_entry_t *_Atomic head[LAZY_LEVELS];
    _Atomic unsigned levels; /* above these there has never been anything */
    uint64_t random;
} lazy_index_t;

/* The entry with the greatest base that is at most address, or NULL. */
lazy_entry_t *lazy_index_floor(const lazy_index_t *index, uintptr_t address);

/* The last of the entries that have a byte in [base, bound), or NULL. */
static inline lazy_entry_t *lazy_index_touching(const lazy_index_t *index, uintptr_t base,
                                                uintptr_t bound)
{
    lazy_entry_t *e = lazy_index_floor(index, bound - 1);
    return NULL != e && lazy_bound(e) > base ? e : NULL;
}

/* The entry before e, or NULL. Writer only. */
static inline lazy_entry_t *lazy_index_before(const lazy_index_t *index, const lazy_entry_t *e)
{
    const uintptr_t base = lazy_base(e);
    return 0 == base ? NULL : lazy_index_floor(index, base - 1);
}

/* Put in and take out. Writer only; e covers no entry of the index and is covered by none. */
void lazy_index_insert(lazy_index_t *index, lazy_entry_t *e);
void lazy_index_remove(lazy_index_t *index, lazy_entry_t *e);

#endif
