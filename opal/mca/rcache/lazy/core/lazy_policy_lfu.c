/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Least frequently used, with ageing (LFU-DA: Arlitt et al., ACM SIGMETRICS PER 27(4), 2000): what
 * was popular long ago does not stay for ever, because newcomers start at the rank of the last that
 * had to go. */
#include "lazy_policy.h"

static uint64_t rank(uint64_t age, uint32_t uses, uint64_t used)
{
    (void) used;
    return age + uses + 1;
}

const lazy_policy_t lazy_policy_lfu = {
    .name = "lfu",
    .help = "the one used least often",
    .keeps = true,
    .rank = rank,
};
