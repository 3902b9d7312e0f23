/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Best fit: the smallest that frees enough, else the largest. Large registrations are the costly
 * ones, so a small need must not end one. */
#include "lazy_policy.h"

/* Whether ending `size` bytes is better than ending `other`, when `need` are wanted. */
static bool is_better(size_t size, size_t other, size_t need)
{
    if ((size < need) != (other < need)) {
        return other < need;
    }
    return size < need ? size > other : size < other;
}

static size_t pick(const lazy_heap_t *heap, size_t need, uint64_t *random)
{
    size_t best = LAZY_NONE;
    (void) random;
    for (size_t i = 0; i < heap->n; ++i) {
        const lazy_slot_t *slot = &heap->slot[i];
        if ((LAZY_NONE == best || is_better(slot->size, heap->slot[best].size, need))
            && lazy_is_idle(slot->entry)) {
            best = i;
        }
    }
    return best;
}

const lazy_policy_t lazy_policy_best_fit = {
    .name = "best_fit",
    .help = "the smallest that frees enough, else the largest",
    .keeps = true,
    .pick = pick,
};
