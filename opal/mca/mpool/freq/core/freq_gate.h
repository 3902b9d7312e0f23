/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Gate: what every small message pays for the table of buffer usage, and all that most messages pay
 * which it is of no use to. Read and counted by the transport itself: a message that passes is copied,
 * every other is one to ask the table of (freq_usage_find).
 *
 * Passing is a few instructions, and fewer while nothing is asked of any buffer. They count: what being watched
 * costs every message is to be earned by the buffers that are in place, of which there are few at first.
 *
 * Copies are counted here, since the budget earns by them (freq_budget.h); what one of many takes is
 * noted for freq_scale.h. They are counted where they are made: beside a copy's stores the two of a count cost nothing that
 * can be measured. Where a message passes they are in the way of what comes next, the posting of a work request, whose
 * lock waits for all stores before it: 0.6 % of a get of 8 KiB (test/bench/spectrum).
 *
 * Threads: any number. Of threads that count at once one may be lost. */
#ifndef FREQ_GATE_H
#define FREQ_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
    FREQ_SAMPLE_MAX = 63, /* one buffer in 64 */
    FREQ_GATE_BLOCK =
        65536, /* bytes: buffers so near are looked up together, since they may be registered together */
    FREQ_SETTLE = 1024,  /* so many copies earn together, and one of them is timed */
    FREQ_GATE_TIMES = 9, /* of the first */
    FREQ_GATE_APART = 32 /* one in so many */
};

/* Zeroed at first. Best where a transport has what it reads for each message anyway: a cache line of its
 * own may cost more than all that is done with it. */
typedef struct freq_gate {
    _Atomic uint64_t copies, bytes_copied;
    _Atomic uint64_t rest; /* no buffer is asked of before so many copies */
    _Atomic uint64_t
        next; /* after so many the table has something to do, whatever the buffer; not before rest */
    /* Bits of a buffer's hash, 2^k - 1: only buffers that have none of them are looked up. */
    _Atomic uint32_t sample;
    _Atomic uint16_t times;   /* so many copies are to be timed */
    _Atomic bool times_place; /* and what finding the next registration takes */
    /* Until here for each message. */
    _Atomic uint32_t timed_place;            /* ns; 0: not since it was read */
    _Atomic uint64_t timed[FREQ_GATE_TIMES]; /* ns << 32 | bytes; 0 */
} freq_gate_t;

static inline bool freq_gate_has(uint32_t sample, const void *base)
{
    return 0
           == (((uint64_t) (uintptr_t) base / FREQ_GATE_BLOCK * UINT64_C(0x9e3779b97f4a7c15) >> 32)
               & sample);
}

/* A message was copied. */
static inline void freq_gate_copied(freq_gate_t *gate, size_t size)
{
    atomic_store_explicit(&gate->copies,
                          atomic_load_explicit(&gate->copies, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&gate->bytes_copied,
                          atomic_load_explicit(&gate->bytes_copied, memory_order_relaxed) + size,
                          memory_order_relaxed);
}

/* By each message, first. True: it is to be copied; false: ask the table. */
static inline bool freq_gate_passes(const freq_gate_t *gate, const void *base)
{
    freq_gate_t *g = (freq_gate_t *) gate; /* C11 loads from what is not const only */
    const uint64_t copies = atomic_load_explicit(&g->copies, memory_order_relaxed);
    return copies < atomic_load_explicit(&g->rest, memory_order_relaxed)
           || (copies < atomic_load_explicit(&g->next, memory_order_relaxed)
               && !freq_gate_has(atomic_load_explicit(&g->sample, memory_order_relaxed), base));
}

static inline uint64_t freq_gate_now(void)
{
    struct timespec t;
    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

/* Around the copying itself, of what passed and of what the table was asked of and is copied all the same; gate NULL: of
 * what it is never asked of. What starts gives is for ends, 0 nearly always; ends counts the copy. The last stores of a copy are only on their
 * way when memcpy returns, and what comes after waits for them; where a copy goes to memory that is in no near cache, that
 * is half of what it takes. So what is timed has a fence at both ends. */
static inline uint64_t freq_gate_copy_starts(const freq_gate_t *gate)
{
    if (NULL == gate
        || __builtin_expect(
            0 == atomic_load_explicit((_Atomic uint16_t *) &gate->times, memory_order_relaxed), 1)
        || 0
               != atomic_load_explicit((_Atomic uint64_t *) &gate->copies, memory_order_relaxed)
                      % FREQ_GATE_APART) {
        return 0;
    }
    atomic_thread_fence(memory_order_seq_cst);
    return freq_gate_now();
}

static inline void freq_gate_copy_ends(freq_gate_t *gate, uint64_t start, size_t size)
{
    if (NULL == gate) {
        return;
    }
    freq_gate_copied(gate, size);
    if (__builtin_expect(0 != start, 0)) {
        atomic_thread_fence(memory_order_seq_cst);
        const uint64_t ns = freq_gate_now() - start;
        const uint16_t times = atomic_load_explicit(&gate->times, memory_order_relaxed);
        if (times > 0 && times <= FREQ_GATE_TIMES && ns < UINT32_MAX && size < UINT32_MAX) {
            atomic_store_explicit(&gate->times, (uint16_t) (times - 1), memory_order_relaxed);
            atomic_store_explicit(&gate->timed[times - 1], ns << 32 | size, memory_order_relaxed);
        }
    }
}

/* The same around asking the table and finding the registration that it notes; ends only if what was noted served. */
static inline uint64_t freq_gate_place_starts(const freq_gate_t *gate)
{
    const bool times =
        atomic_load_explicit((_Atomic bool *) &gate->times_place, memory_order_relaxed);
    return __builtin_expect(times, 0) ? freq_gate_now() : 0;
}

static inline void freq_gate_place_ends(freq_gate_t *gate, uint64_t start)
{
    if (__builtin_expect(0 != start, 0)) {
        const uint64_t ns = freq_gate_now() - start;
        atomic_store_explicit(&gate->times_place, false, memory_order_relaxed);
        atomic_store_explicit(&gate->timed_place, ns < UINT32_MAX ? (uint32_t) ns : UINT32_MAX,
                              memory_order_relaxed);
    }
}

#endif
