/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Release: which memory the process gave back, and when. What is known of a buffer is void once its
 * memory was given back, even if the same address is in use again.
 *
 * Time is a count of releases. A release notes the time at the pages it touches (hashed: pages
 * share places), or at blocks of 2 MiB where it covers whole ones, or for everything if it is
 * enormous. A note made at time t is valid as long as no page of its buffer has a later one.
 * Sharing places can only void too much, never too little; what is void is learned anew.
 *
 * Threads: any number, in all functions, without a lock. freq_release_memory may run inside munmap
 * or free: it allocates nothing, waits for nobody and takes at most some 3000 steps. */
#ifndef FREQ_RELEASE_H
#define FREQ_RELEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FREQ_PAGE_BITS = 12,
    FREQ_BLOCK_BITS = 21,
    FREQ_PAGE_PLACES = 8192,
    FREQ_BLOCK_PLACES = 2048
};

typedef struct freq_release {
    _Atomic uint64_t now; /* releases until now */
    _Atomic uint64_t everything;
    _Atomic uint64_t page[FREQ_PAGE_PLACES];
    _Atomic uint64_t block[FREQ_BLOCK_PLACES];
} freq_release_t;

/* A zeroed freq_release_t is ready for use. */

void freq_release_memory(freq_release_t *release, uintptr_t base, size_t size);

static inline uint64_t freq_release_now(const freq_release_t *release)
{
    return atomic_load_explicit(&((freq_release_t *) release)->now, memory_order_relaxed);
}

/* Fibonacci hashing: near pages get places of their own. */
static inline uint32_t freq_release_place(uint64_t number, uint32_t places)
{
    return (uint32_t) ((number * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & (places - 1);
}

/* Is what was noted at `time` of a buffer void? size > 0. */
static inline bool freq_release_is_void(freq_release_t *release, uintptr_t base, size_t size,
                                        uint64_t time)
{
    const uintptr_t last = base + size - 1;
    uint64_t latest = atomic_load_explicit(&release->everything, memory_order_relaxed);
    for (uintptr_t b = base >> FREQ_BLOCK_BITS; b <= last >> FREQ_BLOCK_BITS; ++b) {
        const uint64_t t = atomic_load_explicit(
            &release->block[freq_release_place(b, FREQ_BLOCK_PLACES)], memory_order_relaxed);
        latest = t > latest ? t : latest;
    }
    for (uintptr_t p = base >> FREQ_PAGE_BITS; p <= last >> FREQ_PAGE_BITS; ++p) {
        const uint64_t t = atomic_load_explicit(
            &release->page[freq_release_place(p, FREQ_PAGE_PLACES)], memory_order_relaxed);
        latest = t > latest ? t : latest;
    }
    return latest > time;
}

#endif
