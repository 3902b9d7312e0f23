/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: a large nonblocking receive polls for its RTS, so that the transfer begins before the program computes; but if a large send
 * to the same process follows at once, it leaves the poll to that send. For what is found first goes first: the transfer would
 * delay the RTS of the send, and one direction would follow the other where both can go at the same time.
 *
 * Whether a send follows is known from the receives before. A receive that was wrong about it has lost its poll, and the
 * next one polls.
 *
 * Pure; times in nanoseconds. Threads: any; an update that another undoes costs a poll at the wrong time, no more. */
#ifndef SPEC_FOLLOW_H
#define SPEC_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

/* At once: a program that posts some receives first and then sends needs no longer, one that computes does. */
#define SPEC_FOLLOW_NS UINT64_C(20000)
/* Sends that follow at once before the next is expected. */
#define SPEC_FOLLOW_SURE 2u

typedef struct spec_follow {
    uint64_t since; /* when the first receive began that no send has followed yet; 0: there is none */
    uint32_t times; /* in a row that one followed at once, up to SPEC_FOLLOW_SURE */
    bool owed;      /* a poll is left to the next send */
} spec_follow_t;

/* A receive that would poll begins. True: it polls; false: the next send does. */
static inline bool spec_follow_polls(spec_follow_t *f, uint64_t now)
{
    const uint64_t since = __atomic_load_n(&f->since, __ATOMIC_RELAXED);
    const bool goes_on = 0 != since && now - since <= SPEC_FOLLOW_NS;
    if (0 != since && !goes_on) { /* no send came */
        __atomic_store_n(&f->times, 0, __ATOMIC_RELAXED);
    }
    if (!goes_on) {
        __atomic_store_n(&f->since, now, __ATOMIC_RELAXED);
    }
    const bool leaves = __atomic_load_n(&f->times, __ATOMIC_RELAXED) >= SPEC_FOLLOW_SURE;
    __atomic_store_n(&f->owed, leaves, __ATOMIC_RELAXED);
    return !leaves;
}

/* Does a send have to say that it begins? */
static inline bool spec_follow_waits(const spec_follow_t *f)
{
    return 0 != __atomic_load_n(&f->since, __ATOMIC_RELAXED);
}

/* A send was announced. True: it polls now. */
static inline bool spec_follow_sent(spec_follow_t *f, uint64_t now)
{
    const uint64_t since = __atomic_load_n(&f->since, __ATOMIC_RELAXED);
    const uint32_t times = __atomic_load_n(&f->times, __ATOMIC_RELAXED);
    const bool followed = 0 != since && now - since <= SPEC_FOLLOW_NS;
    const uint32_t more = times < SPEC_FOLLOW_SURE ? times + 1 : times;
    __atomic_store_n(&f->times, followed ? more : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&f->since, 0, __ATOMIC_RELAXED);
    return __atomic_exchange_n(&f->owed, false, __ATOMIC_RELAXED);
}

#endif
