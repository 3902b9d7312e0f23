/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See lazy_doubt.h. All that a hook and a reader share is accessed in one order (seq_cst): a hook that a reader's
 * `version` did not see yet has its note seen by that reader. */
#include "lazy_doubt.h"

/* The thread's place, or LAZY_DOUBT_THREADS. A thread that has ended leaves its place to whichever gets its number. */
static unsigned place_of(lazy_doubts_t *doubts, uintptr_t thread)
{
    for (unsigned i = 0; i < LAZY_DOUBT_THREADS; ++i) {
        uintptr_t found = atomic_load(&doubts->of[i].thread);
        if (found == thread
            || (0 == found
                && (atomic_compare_exchange_strong(&doubts->of[i].thread, &found, thread)
                    || found == thread))) {
            return i;
        }
    }
    return LAZY_DOUBT_THREADS;
}

void lazy_doubts_note(lazy_doubts_t *doubts, uintptr_t thread, uintptr_t base, uintptr_t bound)
{
    const unsigned place = place_of(doubts, thread);
    if (LAZY_DOUBT_THREADS == place) {
        atomic_store(&doubts->too_many, true);
        return;
    }
    const uint64_t number = atomic_fetch_add(&doubts->of[place].calls, 1) + 1;
    lazy_doubt_t *doubt = &doubts->of[place].last[number % LAZY_DOUBT_CALLS];
    atomic_store(&doubt->number, 0);
    atomic_store(&doubt->base, base);
    atomic_store(&doubt->bound, bound);
    atomic_store(&doubt->number, number);
}

/* Whether it may be still to come, and which memory it takes. One that is being written is not: its hook is running. */
static bool is_open(const lazy_doubt_t *doubt, uint64_t *number, uintptr_t *base, uintptr_t *bound)
{
    *number = atomic_load(&doubt->number);
    *base = atomic_load(&doubt->base);
    *bound = atomic_load(&doubt->bound);
    return 0 != *number && doubt->over != *number && atomic_load(&doubt->number) == *number;
}

void lazy_doubts_asked(lazy_doubts_t *doubts, uintptr_t base, uintptr_t bound)
{
    for (unsigned i = 0; i < LAZY_DOUBT_THREADS && 0 != atomic_load(&doubts->of[i].thread); ++i) {
        for (unsigned k = 0; k < LAZY_DOUBT_CALLS; ++k) {
            lazy_doubt_t *doubt = &doubts->of[i].last[k];
            uint64_t number;
            uintptr_t goes, to;
            if (is_open(doubt, &number, &goes, &to) && goes < bound && base < to) {
                doubt->over = number;
            }
        }
    }
}

bool lazy_doubts_clip(const lazy_doubts_t *doubts, uintptr_t asked_base, uintptr_t asked_bound,
                      uintptr_t *base, uintptr_t *bound)
{
    const uintptr_t wished = *bound - *base;
    if (atomic_load(&doubts->too_many)) {
        *base = asked_base;
        *bound = asked_bound;
    }
    for (unsigned i = 0; i < LAZY_DOUBT_THREADS && 0 != atomic_load(&doubts->of[i].thread); ++i) {
        for (unsigned k = 0; k < LAZY_DOUBT_CALLS; ++k) {
            uint64_t number;
            uintptr_t goes, to;
            if (!is_open(&doubts->of[i].last[k], &number, &goes, &to)) {
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
    return *bound - *base != wished;
}
