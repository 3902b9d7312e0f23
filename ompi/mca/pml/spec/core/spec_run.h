/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: in a run of medium messages through shared memory each goes out with its data, so that both processors copy at the same
 * time (core/spec_costs.h). A run is told by the gap between the beginnings of sends, with no receive from the same process between.
 *
 * Pure; times in nanoseconds. Threads: any; an update that another undoes costs a turn, no more. */
#ifndef SPEC_RUN_H
#define SPEC_RUN_H

#include <stdbool.h>
#include <stdint.h>

#define SPEC_RUN_GAP_NS UINT64_C(5000)
/* Messages that go by themselves before the next is taken for one of a run. */
#define SPEC_RUN_SURE 2

typedef struct spec_run {
    uint64_t sent_at; /* when the last medium send began; 0: none, or the run is broken */
    uint32_t sent;    /* in the run, up to SPEC_RUN_SURE */
} spec_run_t;

static inline void spec_run_break(spec_run_t *r)
{
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

#endif
