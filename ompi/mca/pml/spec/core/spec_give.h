/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* When a thread that polls in vain gives its processor away (sched_yield) to a thread of another process that needs it: an agent, or one
 * that copies while its program computes. Such a thread gives it back soon. What does not was another program; where one is about each
 * time costs a slice of the scheduler's, so the thread keeps its processor for some time then.
 *
 * Pure; nanoseconds. Threads: any; of two that write what they know at once either may be right. */
#ifndef SPEC_GIVE_H
#define SPEC_GIVE_H

#include <stdbool.h>
#include <stdint.h>

/* Within this time it is back. */
#define SPEC_GIVE_MOST UINT64_C(1000000)

/* So many times as long as it was away it is kept: for an agent; and for a copier, since in that time a message could be moved many
 * times. */
#define SPEC_GIVE_AGENT  1u
#define SPEC_GIVE_COPIER 32u

/* May it be given away now? again: 0 at first, then what spec_give_back says. */
static inline bool spec_give_may(uint64_t again, uint64_t now)
{
    return now >= again;
}

/* It was given away, and is back. When may it be given away again? */
static inline uint64_t spec_give_back(uint64_t again, uint64_t from, uint64_t now, uint32_t keeps)
{
    return now - from > SPEC_GIVE_MOST ? now + keeps * (now - from) : again;
}

#endif
