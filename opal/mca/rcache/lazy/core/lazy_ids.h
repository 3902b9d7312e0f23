/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registrations of device memory. No memory hook tells when it goes; but its allocator gives each block a number that no other
 * block ever has, so whoever asks for it before each use finds out that another block is at that address by now.
 *
 * Of the blocks that were used the last ones are known by their numbers. A block that is not known may be where others were:
 * what the cache has there is stale, whatever it is, and goes before anything is found. A block that was forgotten is
 * registered once more.
 *
 * Pure, but for the cache. Threads: the caller's lock. */
#ifndef LAZY_IDS_H
#define LAZY_IDS_H

#include "lazy_cache.h"

#define LAZY_IDS 256

typedef struct lazy_ids {
    uint64_t known[LAZY_IDS]; /* 0: none */
} lazy_ids_t;

/* Before [base, base + size) of a cache of device memory is used, a block with this number, which is not 0: registrations there
 * of blocks before it are invalidated. */
void lazy_ids_use(lazy_ids_t *ids, lazy_cache_t *cache, uint64_t id, uintptr_t base, size_t size);

#endif
