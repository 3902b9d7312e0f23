/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Doubts: memory that may be about to go.
 *
 * A memory hook runs before its system call. Whatever is registered between the two and covers that memory is stale as
 * soon as the call is made, and no second hook tells of it. Who asks for memory answers for its being there: a program
 * must not send from what it unmaps meanwhile. But what is registered unasked, since it is a neighbour, must keep clear
 * of every call that may still be to come:
 *   - A thread is in one system call at a time. With its next hook the one before is over, so that of each thread the
 *     last counts. Two are kept: a signal's handler may come between a hook and its call and make one of its own.
 *   - Memory that somebody asks for is there. A call that was to take it is over.
 * When a call ends, nobody says; neither rule needs to know.
 *
 * Threads: lazy_doubts_note from hooks, any thread, no lock, no memory. The other functions by one thread at a time, and
 * it must see to it that a hook whose note they missed is heard in another way (lazy_cache.c: `version`). */
#ifndef LAZY_DOUBT_H
#define LAZY_DOUBT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LAZY_DOUBT_THREADS 128u /* more than these ever: all memory is doubtful from then on */
#define LAZY_DOUBT_CALLS   2u

typedef struct lazy_doubt {
    _Atomic uint64_t
        number; /* of the calls of its thread, from 1; 0: none, or it is being written */
    _Atomic uintptr_t base, bound;
    uint64_t over; /* the number of one that is known to be over */
} lazy_doubt_t;

typedef struct lazy_doubts {
    _Atomic bool too_many;
    struct {
        _Atomic uintptr_t thread; /* 0: this place and those behind it are not used yet */
        _Atomic uint64_t calls;
        lazy_doubt_t last[LAZY_DOUBT_CALLS];
    } of[LAZY_DOUBT_THREADS];
} lazy_doubts_t;

/* This thread (any number but 0 that no other one has while it lives) is about to give [base, bound) back. */
void lazy_doubts_note(lazy_doubts_t *doubts, uintptr_t thread, uintptr_t base, uintptr_t bound);

/* Somebody asked for [base, bound). */
void lazy_doubts_asked(lazy_doubts_t *doubts, uintptr_t base, uintptr_t bound);

/* Makes *base larger and *bound smaller, down to what was asked for, until [*base, *bound) has nothing doubtful beside
 * that. Returns whether it had. */
bool lazy_doubts_clip(const lazy_doubts_t *doubts, uintptr_t asked_base, uintptr_t asked_bound,
                      uintptr_t *base, uintptr_t *bound);

#endif
