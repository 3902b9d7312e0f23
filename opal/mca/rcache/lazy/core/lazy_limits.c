/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See lazy_limits.h: the arithmetic of the default limits. */
#include "lazy_limits.h"

lazy_limits_t lazy_limits_default(uint64_t memlock, uint64_t physical, uint32_t processes)
{
    const uint64_t share = physical / 2 / (0 == processes ? 1 : processes);
    const uint64_t lockable = memlock - memlock / 4;
    const uint64_t bytes = UINT64_MAX != memlock && lockable < share ? lockable : share;
    uint64_t entries = bytes / LAZY_TYPICAL;
    entries = entries < LAZY_ENTRIES_MIN ? LAZY_ENTRIES_MIN : entries;
    entries = entries > LAZY_ENTRIES_MAX ? LAZY_ENTRIES_MAX : entries;
    return (lazy_limits_t){.bytes = (size_t) bytes, .entries = (size_t) entries};
}
