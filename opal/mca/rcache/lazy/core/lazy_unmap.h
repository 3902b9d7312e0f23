/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Pending unmaps: memory that a thread is about to give back to the system, and that must not be registered unasked.
 *
 * A memory hook runs before its system call. Whatever is registered between the two and covers that memory is stale as
 * soon as the call is made, and no second hook tells of it. A program that asks for memory to be
 * registered answers for its being there: it must not send from what it unmaps meanwhile. But what is registered unasked, since
 * it is a neighbour, must keep clear of every call that may still be to come:
 *   - A thread is in one system call at a time. With its next hook the one before is over, so that of each thread the
 *     last counts. Two are kept: a signal's handler may come between a hook and its call and make one of its own.
 *   - Memory that is asked for is there. A call that was to take it is over.
 * Nothing tells when a call ends; neither rule needs to know.
 *
 * Threads: lazy_unmaps_note from hooks, any thread, no lock, no memory. The other functions by one thread at a time, and
 * it must see to it that a hook whose note they missed is heard in another way (lazy_cache.c: `version`). */
#ifndef LAZY_UNMAP_H
#define LAZY_UNMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LAZY_UNMAP_THREADS                                                                         \
    128u /* more than these ever: nothing is registered unasked from then on */
#define LAZY_UNMAP_CALLS 2u

typedef struct lazy_unmap {
    _Atomic uint64_t
        number; /* of the calls of its thread, from 1; 0: none, or it is being written */
    _Atomic uintptr_t base, bound;
    uint64_t over; /* the number of one that is known to be over */
} lazy_unmap_t;

typedef struct lazy_unmaps {
    _Atomic bool too_many;
    struct {
        _Atomic uintptr_t thread; /* 0: this slot and those behind it are not used yet */
        _Atomic uint64_t calls;
        lazy_unmap_t last[LAZY_UNMAP_CALLS];
    } of[LAZY_UNMAP_THREADS];
} lazy_unmaps_t;

/* This thread (any number but 0 that no other one has while it lives) is about to give [base, bound) back. */
void lazy_unmaps_note(lazy_unmaps_t *unmaps, uintptr_t thread, uintptr_t base, uintptr_t bound);

/* [base, bound) was asked for, so that it is there: calls that were to take it are over. */
void lazy_unmaps_end(lazy_unmaps_t *unmaps, uintptr_t base, uintptr_t bound);

/* Makes *base larger and *bound smaller, down to what was asked for, until [*base, *bound) has nothing that a pending call
 * takes beside that. Returns whether it had. */
bool lazy_unmaps_clip(const lazy_unmaps_t *unmaps, uintptr_t asked_base, uintptr_t asked_bound,
                      uintptr_t *base, uintptr_t *bound);

#endif
