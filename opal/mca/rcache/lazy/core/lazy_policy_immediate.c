/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Nothing is kept: what caching saves can be measured against this. */
#include "lazy_policy.h"

const lazy_policy_t lazy_policy_immediate = {
    .name = "immediate",
    .help = "each one as soon as nobody uses it",
    .keeps = false,
};
