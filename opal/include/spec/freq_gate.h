/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The few words that a transport and mpool/freq share for small messages: the transport counts its copies there, and
 * mpool/freq says there of which messages it need not be asked whether they are better sent in place. Plain C.
 *
 * A message that passes costs a few instructions.
 *
 * Threads: any number. Of two threads that count at once one may be lost. */
#ifndef FREQ_GATE_H
#define FREQ_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec_now.h"

/* The transport's, zeroed at first. Best beside what it reads for each message anyway: a cache line more may cost more than
 * all that is done with it. */
typedef struct freq_gate {
    _Atomic uint64_t copies, bytes_copied;
    _Atomic uint64_t due; /* before so many copies the table is asked of a sample only: */
    /* The last copy that was timed: ns << 32 | bytes; 0: none since it was read. */
    _Atomic uint64_t timed;
    _Atomic uint32_t sample; /* 2^k - 1; buffers whose hash has none of these bits */
} freq_gate_t;

enum {
    FREQ_TIMED_APART = 1024, /* one copy in so many is timed */
    /* Bytes: buffers so near are in the sample together, since they may share a registration. */
    FREQ_BLOCK = 65536
};

static inline bool freq_gate_has(uint32_t sample, const void *base)
{
    const uint64_t hash = (uint64_t) (uintptr_t) base / FREQ_BLOCK * UINT64_C(0x9e3779b97f4a7c15);
    return 0 == ((uint32_t) (hash >> 32) & sample);
}

/* A message was copied. Called beside the copy's own stores, where it costs nothing that can be measured. */
static inline void freq_gate_copied(freq_gate_t *gate, size_t size)
{
    const uint64_t copies = atomic_load_explicit(&gate->copies, memory_order_relaxed);
    const uint64_t bytes = atomic_load_explicit(&gate->bytes_copied, memory_order_relaxed);
    atomic_store_explicit(&gate->copies, copies + 1, memory_order_relaxed);
    atomic_store_explicit(&gate->bytes_copied, bytes + size, memory_order_relaxed);
}

/* Asked first for each message. True: copy it; false: ask the table. */
static inline bool freq_gate_passes(const freq_gate_t *gate, const void *base)
{
    freq_gate_t *g = (freq_gate_t *) gate; /* C11 loads from what is not const only */
    const uint64_t copies = atomic_load_explicit(&g->copies, memory_order_relaxed);
    return copies < atomic_load_explicit(&g->due, memory_order_relaxed)
           && !freq_gate_has(atomic_load_explicit(&g->sample, memory_order_relaxed), base);
}

/* Around each copy; gate NULL: the table is never asked of such messages. What starts gives is for ends: 0, or the time at which a
 * copy that is timed begins. When memcpy returns its last stores are only on their way, and what comes next waits for them: so
 * there is a fence at both ends. */
static inline uint64_t freq_gate_copy_starts(const freq_gate_t *gate)
{
    freq_gate_t *g = (freq_gate_t *) gate;
    if (__builtin_expect(
            NULL == g
                || 0 != atomic_load_explicit(&g->copies, memory_order_relaxed) % FREQ_TIMED_APART,
            1)) {
        return 0;
    }
    atomic_thread_fence(memory_order_seq_cst);
    return spec_now();
}

/* ns since then, with what the clock takes. */
static inline uint64_t freq_gate_took(uint64_t start)
{
    atomic_thread_fence(memory_order_seq_cst);
    return spec_now() - start;
}

static inline void freq_gate_copy_ends(freq_gate_t *gate, uint64_t start, size_t size)
{
    if (NULL == gate) {
        return;
    }
    freq_gate_copied(gate, size);
    if (__builtin_expect(0 != start, 0)) {
        const uint64_t ns = freq_gate_took(start);
        atomic_store_explicit(&gate->timed,
                              (ns < UINT32_MAX ? ns : UINT32_MAX) << 32 | (uint32_t) size,
                              memory_order_relaxed);
    }
}

#endif
