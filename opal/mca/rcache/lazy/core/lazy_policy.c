/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See lazy_policy.h: all replacement policies, and the list of them. To add one, write its functions above the list and its
 * descriptor in it. */
#include "lazy_policy.h"

#include "lazy_random.h"

static uint64_t lru_rank(uint64_t age, uint32_t uses, uint64_t used)
{
    (void) age, (void) uses;
    return used;
}

/* With ageing (LFU-DA: Arlitt et al., ACM SIGMETRICS PER 27(4), 2000): what was popular long ago does not stay for ever, because
 * new entries start at the rank of the last one that was evicted. */
static uint64_t lfu_rank(uint64_t age, uint32_t uses, uint64_t used)
{
    (void) used;
    return age + uses + 1;
}

/* Is evicting `size` bytes better than evicting `other`, when `need` are wanted? Large registrations are the costly ones, so a
 * small need must not evict one. */
static bool is_better(size_t size, size_t other, size_t need)
{
    if ((size < need) != (other < need)) {
        return other < need;
    }
    return size < need ? size > other : size < other;
}

static size_t best_fit_pick(const lazy_heap_t *heap, size_t need, uint64_t *random)
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

static size_t random_pick(const lazy_heap_t *heap, size_t need, uint64_t *random)
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

static const lazy_policy_t policies[] = {
    {.name = "lru", .help = "the one used longest ago", .keeps = true, .rank = lru_rank},
    {.name = "lfu", .help = "the one used least often", .keeps = true, .rank = lfu_rank},
    {.name = "best_fit",
     .help = "the smallest that frees enough, else the largest",
     .keeps = true,
     .pick = best_fit_pick},
    {.name = "random", .help = "any one", .keeps = true, .pick = random_pick},
    /* What caching saves can be measured against this. */
    {.name = "immediate", .help = "each one with its last use", .keeps = false},
};

const lazy_policy_t *lazy_policy_at(unsigned i)
{
    return i < sizeof(policies) / sizeof(*policies) ? &policies[i] : NULL;
}
