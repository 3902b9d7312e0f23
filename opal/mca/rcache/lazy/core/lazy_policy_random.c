/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Any one. */
#include "lazy_policy.h"

#include "lazy_random.h"

static size_t pick(const lazy_heap_t *heap, size_t need, uint64_t *random)
{
    (void) need;
    const size_t first = 0 == heap->n ? 0 : lazy_random(random) % heap->n;
    for (size_t i = 0; i < heap->n; ++i) {
        const size_t at = (first + i) % heap->n;
        if (lazy_is_idle(heap->slot[at].entry)) {
            return at;
        }
    }
    return LAZY_NONE;
}

const lazy_policy_t lazy_policy_random = {
    .name = "random",
    .help = "any one",
    .keeps = true,
    .pick = pick,
};
