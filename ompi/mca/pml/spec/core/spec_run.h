/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: in a run of large messages through shared memory the sender copies one and the receiver the next, so that both
 * processors copy at the same time; in a run of medium ones each goes out with its data (core/spec_costs.h).
 *
 * With an RTR for each of them one processor would copy everything while the receiver, if it waits,
 * has nothing to do. So in a run every other message is left to the receiver: both copy at the same
 * time. A run is told by the gap between the end of a put and the next send, with no receive from the
 * same process between; a run of medium ones by the gap between the beginnings of sends.
 *
 * Pure; times in nanoseconds. Threads: any; an update that another undoes costs a turn, no more. */
#ifndef SPEC_RUN_H
#define SPEC_RUN_H

#include <stdbool.h>
#include <stdint.h>

#define SPEC_RUN_GAP_NS UINT64_C(5000)
/* Medium messages that go by themselves before the next is taken for one of a run. */
#define SPEC_RUN_SURE 2
/* Shorter messages, bytes, are not worth an RTS. */
#define SPEC_RUN_LEAST UINT64_C(65536)

typedef struct spec_run {
    uint64_t copied_at; /* when the last put ended that was a copy; 0: none, or the run is broken */
    uint64_t sent_at;   /* when the last medium send began; 0: as above */
    uint32_t sent;      /* medium ones in the run, up to SPEC_RUN_SURE */
} spec_run_t;

static inline void spec_run_break(spec_run_t *r)
{
    __atomic_store_n(&r->copied_at, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&r->sent_at, 0, __ATOMIC_RELAXED);
}

/* A medium send begins. True: it is one of a run. */
static inline bool spec_run_brings(spec_run_t *r, uint64_t now)
{
    const uint64_t last = __atomic_load_n(&r->sent_at, __ATOMIC_RELAXED);
    const bool goes_on = 0 != last && now - last < SPEC_RUN_GAP_NS;
    const uint32_t sent = goes_on ? __atomic_load_n(&r->sent, __ATOMIC_RELAXED) : 0;
    __atomic_store_n(&r->sent_at, now, __ATOMIC_RELAXED);
    __atomic_store_n(&r->sent, sent < SPEC_RUN_SURE ? sent + 1 : sent, __ATOMIC_RELAXED);
    return sent >= SPEC_RUN_SURE;
}

static inline void spec_run_copied(spec_run_t *r, uint64_t now)
{
    __atomic_store_n(&r->copied_at, now, __ATOMIC_RELAXED);
}

/* Could a message of this length be left to the receiver (does the answer depend on the time)? */
static inline bool spec_run_is_on(const spec_run_t *r, uint64_t length)
{
    return length >= SPEC_RUN_LEAST && 0 != __atomic_load_n(&r->copied_at, __ATOMIC_RELAXED);
}

/* Is it? The next one is the sender's again. */
static inline bool spec_run_leaves(spec_run_t *r, uint64_t length, uint64_t now)
{
    const uint64_t since = __atomic_load_n(&r->copied_at, __ATOMIC_RELAXED);
    const bool leaves = 0 != since && length >= SPEC_RUN_LEAST && now - since < SPEC_RUN_GAP_NS;
    __atomic_store_n(&r->copied_at, 0, __ATOMIC_RELAXED);
    return leaves;
}

#endif
