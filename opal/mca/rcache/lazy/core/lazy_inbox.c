/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See lazy_inbox.h: slots that are taken, filled and emptied by bits of atomic words. */
#include "lazy_inbox.h"

/* A slot for the caller alone, or LAZY_INBOX_SIZE. */
static unsigned take_slot(lazy_inbox_t *inbox)
{
    for (unsigned word = 0; word < LAZY_INBOX_WORDS; ++word) {
        uint64_t taken = atomic_load_explicit(&inbox->taken[word], memory_order_relaxed);
        while (UINT64_MAX != taken) {
            const unsigned bit = (unsigned) __builtin_ctzll(~taken);
            /* acquire: the slot was read before it was given back */
            if (atomic_compare_exchange_weak_explicit(&inbox->taken[word], &taken,
                                                      taken | UINT64_C(1) << bit,
                                                      memory_order_acquire, memory_order_relaxed)) {
                return 64 * word + bit;
            }
        }
    }
    return LAZY_INBOX_SIZE;
}

void lazy_inbox_post(lazy_inbox_t *inbox, uintptr_t base, uintptr_t bound)
{
    const unsigned slot = take_slot(inbox);
    if (LAZY_INBOX_SIZE == slot) {
        lazy_inbox_post_all(inbox);
        return;
    }
    inbox->range[slot] = (lazy_range_t){.base = base, .bound = bound};
    atomic_fetch_or_explicit(&inbox->full[slot / 64], UINT64_C(1) << slot % 64,
                             memory_order_release);
    atomic_fetch_add_explicit(&inbox->posted, 1, memory_order_release);
}

void lazy_inbox_post_all(lazy_inbox_t *inbox)
{
    atomic_store_explicit(&inbox->overflowed, true, memory_order_release);
    atomic_fetch_add_explicit(&inbox->posted, 1, memory_order_release);
}

bool lazy_inbox_drain(lazy_inbox_t *inbox,
                      void (*take)(void *context, uintptr_t base, uintptr_t bound), void *context)
{
    const bool overflowed =
        atomic_exchange_explicit(&inbox->overflowed, false, memory_order_acquire);
    for (unsigned word = 0; word < LAZY_INBOX_WORDS; ++word) {
        const uint64_t full = atomic_exchange_explicit(&inbox->full[word], 0, memory_order_acquire);
        for (uint64_t left = full; 0 != left; left &= left - 1) {
            const lazy_range_t *r = &inbox->range[64 * word + (unsigned) __builtin_ctzll(left)];
            take(context, r->base, r->bound);
        }
        if (0 != full) {
            atomic_fetch_and_explicit(&inbox->taken[word], ~full, memory_order_release);
        }
    }
    return overflowed;
}
