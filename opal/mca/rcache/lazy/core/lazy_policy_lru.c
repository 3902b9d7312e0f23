/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Least recently used. */
#include "lazy_policy.h"

static uint64_t rank(uint64_t age, uint32_t uses, uint64_t used)
{
    (void) age, (void) uses;
    return used;
}

const lazy_policy_t lazy_policy_lru = {
    .name = "lru",
    .help = "the one used longest ago",
    .keeps = true,
    .rank = rank,
};
