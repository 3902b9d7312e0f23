/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Best fit: the smallest that frees enough, else the largest. Large registrations are the costly
 * ones, so a small need must not end one. */
#include "lazy_policy.h"

static size_t pick(const lazy_heap_t *heap, size_t need, uint64_t *random)
{
    size_t best = LAZY_NONE;
    (void) random;
    for (size_t i = 0; i < heap->n; ++i) {
        const size_t size = heap->slot[i].size;
        if (LAZY_NONE != best) {
            const size_t other = heap->slot[best].size;
            if ((size >= need) != (other >= need) ? size < need
                : size >= need                    ? size >= other
                                                  : size <= other) {
                continue;
            }
        }
        if (lazy_is_idle(heap->slot[i].entry)) {
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
