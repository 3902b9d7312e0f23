/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See lazy_index.h: a skip list (Pugh, CACM 33(6), 1990) with one writer, whose links readers follow at any time. */
#include "lazy_index.h"

#include "lazy_random.h"

typedef lazy_entry_t *_Atomic *links_t;

lazy_entry_t *lazy_index_floor(const lazy_index_t *index, uintptr_t address)
{
    lazy_entry_t *const _Atomic *links = index->head;
    lazy_entry_t *at = NULL;
    uintptr_t reached = 0;
    for (unsigned level = atomic_load_explicit(&index->levels, memory_order_relaxed);
         level-- > 0;) {
        for (;;) {
            lazy_entry_t *e = atomic_load_explicit(&links[level], memory_order_acquire);
            if (NULL == e) {
                break;
            }
            const uintptr_t base = lazy_base(e);
            /* Not ascending: e ended and became another entry on the way here. */
            if (base > address || (NULL != at && base <= reached)) {
                break;
            }
            at = e;
            reached = base;
            links = e->next;
        }
    }
    return at;
}

/* The links that lead past `base` on every level. */
static void find_links(lazy_index_t *index, uintptr_t base, links_t found[LAZY_LEVELS])
{
    links_t links = index->head;
    for (unsigned level = LAZY_LEVELS; level-- > 0;) {
        lazy_entry_t *e;
        while (NULL != (e = atomic_load_explicit(&links[level], memory_order_relaxed))
               && lazy_base(e) < base) {
            links = e->next;
        }
        found[level] = &links[level];
    }
}

void lazy_index_insert(lazy_index_t *index, lazy_entry_t *e)
{
    links_t found[LAZY_LEVELS];
    find_links(index, lazy_base(e), found);
    e->levels = 1;
    for (uint64_t r = lazy_random(&index->random); e->levels < LAZY_LEVELS && 0 == (r & 3);
         r >>= 2) {
        ++e->levels;
    }
    if (e->levels > atomic_load_explicit(&index->levels, memory_order_relaxed)) {
        atomic_store_explicit(&index->levels, e->levels, memory_order_relaxed);
    }
    /* From below, and each link only when the entry's own is right: a reader never loses its way. */
    for (unsigned level = 0; level < e->levels; ++level) {
        lazy_entry_t *next = atomic_load_explicit(found[level], memory_order_relaxed);
        atomic_store_explicit(&e->next[level], next, memory_order_release);
        atomic_store_explicit(found[level], e, memory_order_release);
    }
}

void lazy_index_remove(lazy_index_t *index, lazy_entry_t *e)
{
    links_t found[LAZY_LEVELS];
    find_links(index, lazy_base(e), found);
    for (unsigned level = e->levels; level-- > 0;) {
        lazy_entry_t *next = atomic_load_explicit(&e->next[level], memory_order_relaxed);
        atomic_store_explicit(found[level], next, memory_order_release);
    }
}
