/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Notes the memory that each thread is about to give back to the system (lazy_unmap.h). All that a hook and a reader share is
 * accessed in one order (seq_cst): a hook that a reader's `version` did not see yet has its note seen by that reader. */
#include "lazy_unmap.h"

/* The thread's slot, or LAZY_UNMAP_THREADS. When a thread has ended, the next one with its number takes its slot. */
static unsigned slot_of(lazy_unmaps_t *unmaps, uintptr_t thread)
{
    for (unsigned i = 0; i < LAZY_UNMAP_THREADS; ++i) {
        uintptr_t found = atomic_load(&unmaps->of[i].thread);
        if (found == thread
            || (0 == found
                && (atomic_compare_exchange_strong(&unmaps->of[i].thread, &found, thread)
                    || found == thread))) {
            return i;
        }
    }
    return LAZY_UNMAP_THREADS;
}

void lazy_unmaps_note(lazy_unmaps_t *unmaps, uintptr_t thread, uintptr_t base, uintptr_t bound)
{
    const unsigned slot = slot_of(unmaps, thread);
    if (LAZY_UNMAP_THREADS == slot) {
        atomic_store(&unmaps->too_many, true);
        return;
    }
    const uint64_t number = atomic_fetch_add(&unmaps->of[slot].calls, 1) + 1;
    lazy_unmap_t *unmap = &unmaps->of[slot].last[number % LAZY_UNMAP_CALLS];
    atomic_store(&unmap->number, 0);
    atomic_store(&unmap->base, base);
    atomic_store(&unmap->bound, bound);
    atomic_store(&unmap->number, number);
}

/* Whether it may be still to come, and which memory it takes. One that is being written is not: its hook is running. */
static bool is_open(const lazy_unmap_t *unmap, uint64_t *number, uintptr_t *base, uintptr_t *bound)
{
    *number = atomic_load(&unmap->number);
    *base = atomic_load(&unmap->base);
    *bound = atomic_load(&unmap->bound);
    return 0 != *number && unmap->over != *number && atomic_load(&unmap->number) == *number;
}

void lazy_unmaps_end(lazy_unmaps_t *unmaps, uintptr_t base, uintptr_t bound)
{
    for (unsigned i = 0; i < LAZY_UNMAP_THREADS && 0 != atomic_load(&unmaps->of[i].thread); ++i) {
        for (unsigned k = 0; k < LAZY_UNMAP_CALLS; ++k) {
            lazy_unmap_t *unmap = &unmaps->of[i].last[k];
            uint64_t number;
            uintptr_t goes, to;
            if (is_open(unmap, &number, &goes, &to) && goes < bound && base < to) {
                unmap->over = number;
            }
        }
    }
}

bool lazy_unmaps_clip(const lazy_unmaps_t *unmaps, uintptr_t asked_base, uintptr_t asked_bound,
                      uintptr_t *base, uintptr_t *bound)
{
    const uintptr_t requested = *bound - *base;
    if (atomic_load(&unmaps->too_many)) {
        *base = asked_base;
        *bound = asked_bound;
    }
    for (unsigned i = 0; i < LAZY_UNMAP_THREADS && 0 != atomic_load(&unmaps->of[i].thread); ++i) {
        for (unsigned k = 0; k < LAZY_UNMAP_CALLS; ++k) {
            uint64_t number;
            uintptr_t goes, to;
            if (!is_open(&unmaps->of[i].last[k], &number, &goes, &to)) {
                continue;
            }
            if (to > *base && goes < asked_base) {
                *base = to < asked_base ? to : asked_base;
            }
            if (goes < *bound && to > asked_bound) {
                *bound = goes > asked_bound ? goes : asked_bound;
            }
        }
    }
    return *bound - *base != requested;
}
