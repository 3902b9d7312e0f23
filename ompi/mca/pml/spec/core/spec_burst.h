/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: which of many small nonblocking sends to one peer wait for each other, to leave in one call of the system:
 * docs/design/protocol.md, "Bursts".
 *
 * Pure; `polls` counts the polls of the transport. Threads: any; an update that another undoes costs a
 * message the wait, or spares it. */
#ifndef SPEC_BURST_H
#define SPEC_BURST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages that leave at once: an exchange with a neighbour in each direction, or a few fields of one, is none the later. */
#define SPEC_BURST_ALONE 4
/* Bytes of a batch: beyond that copying is what takes the time, and the peer shall begin with it. */
#define SPEC_BURST_BYTES (64u << 10)

typedef struct spec_burst {
    uint32_t polls;
    uint32_t posted; /* since then, up to SPEC_BURST_ALONE */
    uint32_t wait;   /* messages of the batch */
    uint32_t bytes;  /* of theirs */
} spec_burst_t;

/* Have so many been sent that others wait? Changes nothing. */
static inline bool spec_burst_is_on(const spec_burst_t *b, uint32_t polls)
{
    return __atomic_load_n(&b->posted, __ATOMIC_RELAXED) >= SPEC_BURST_ALONE
           && polls == __atomic_load_n(&b->polls, __ATOMIC_RELAXED);
}

/* A message is sent. True: it waits for others, at most `most` of them with the one that takes them along. */
static inline bool spec_burst_waits(spec_burst_t *b, uint32_t polls, size_t length, uint32_t most)
{
    if (!spec_burst_is_on(b, polls)) {
        const bool goes_on = polls == __atomic_load_n(&b->polls, __ATOMIC_RELAXED);
        const uint32_t posted = goes_on ? __atomic_load_n(&b->posted, __ATOMIC_RELAXED) : 0;
        __atomic_store_n(&b->polls, polls, __ATOMIC_RELAXED);
        __atomic_store_n(&b->posted, posted + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&b->wait, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&b->bytes, 0, __ATOMIC_RELAXED);
        return false;
    }
    const uint32_t wait = __atomic_load_n(&b->wait, __ATOMIC_RELAXED) + 1;
    const uint64_t bytes = __atomic_load_n(&b->bytes, __ATOMIC_RELAXED) + (uint64_t) length;
    const bool waits = wait < most && bytes < SPEC_BURST_BYTES;
    __atomic_store_n(&b->wait, waits ? wait : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&b->bytes, waits ? (uint32_t) bytes : 0, __ATOMIC_RELAXED);
    return waits;
}

#endif
