/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A registration in the cache, and the word that decides atomically between a new use of it and its end.
 *
 * An entry is always in one of these states:
 *   free      in the list of the unused; no reference
 *   indexed   LIVE: found by searches, in the index and in the heap of candidates for eviction
 *   lost      LOST: its memory went away or it was replaced while it was in use; no search finds it,
 *             and the thread that releases the last reference deregisters it
 *   private   neither: of one user only, deregistered when that one is done
 *
 * The state is one word, so that a use cannot begin while the registration ends: a
 * reference is taken only from a LIVE state, an entry ends only from a state without references.
 * An entry's memory stays an entry for as long as the cache exists, so a thread that reads one
 * that has just ended sees at worst another registration, and that is checked with the reference in
 * hand. */
#ifndef LAZY_ENTRY_H
#define LAZY_ENTRY_H

#include "spec_list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAZY_REF  UINT64_C(1)
#define LAZY_REFS UINT64_C(0x3fffffff)
#define LAZY_LIVE (UINT64_C(1) << 30)
#define LAZY_LOST (UINT64_C(1) << 31)
#define LAZY_USE  (UINT64_C(1) << 32) /* the upper half counts hits; exact until 2^32 of one entry */

#define LAZY_LEVELS 12 /* of the index; every entry above has a quarter of those below */

typedef struct lazy_entry {
    /* read by searches, which hold no lock */
    _Atomic uintptr_t base, bound; /* [base, bound) */
    _Atomic uint64_t state;
    _Atomic uint64_t used; /* when it was last asked for, in the caller's unit */
    _Atomic uint32_t access;
    uint32_t levels;
    struct lazy_entry *_Atomic next[LAZY_LEVELS];
    /* under the cache's lock */
    size_t at;                         /* in the heap */
    uint32_t seen;                     /* hits when it was last ranked */
    uint64_t *why;                     /* lost: the counter of the reason */
    spec_node_t link;                  /* free, lost or private: in that list */
    _Alignas(64) unsigned char data[]; /* the caller's */
} lazy_entry_t;

static inline bool lazy_is_idle(const lazy_entry_t *e)
{
    return 0 == (atomic_load_explicit(&e->state, memory_order_relaxed) & LAZY_REFS);
}

static inline uint32_t lazy_uses(const lazy_entry_t *e)
{
    return (uint32_t) (atomic_load_explicit(&e->state, memory_order_relaxed) / LAZY_USE);
}

static inline uintptr_t lazy_base(const lazy_entry_t *e)
{
    return atomic_load_explicit(&e->base, memory_order_acquire);
}

static inline uintptr_t lazy_bound(const lazy_entry_t *e)
{
    return atomic_load_explicit(&e->bound, memory_order_acquire);
}

static inline size_t lazy_size(const lazy_entry_t *e)
{
    return lazy_bound(e) - lazy_base(e);
}

static inline uint32_t lazy_access(const lazy_entry_t *e)
{
    return atomic_load_explicit(&e->access, memory_order_acquire);
}

/* Whether it serves a use of [base, bound) with these rights. */
static inline bool lazy_serves(const lazy_entry_t *e, uintptr_t base, uintptr_t bound,
                               uint32_t access)
{
    return lazy_base(e) <= base && bound <= lazy_bound(e) && 0 == (access & ~lazy_access(e));
}

#endif
