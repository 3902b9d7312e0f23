/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The life of a request: decides when it goes back to its free list, and which thread returns it. Threads set bits with one
 * atomic operation each; each decision is about what was set before.
 *
 * It needs: the PML is done with it (DONE), its owner has freed it (FREED) and, if it was given up because its peer is
 * lost (LOST), it has been completed as that (TOLD). The last of these returns it. Whatever is not lost is completed
 * by its end, behind DONE; or before that (OVER), where the completion is earlier or runs a callback. */
#ifndef SPEC_LIFE_H
#define SPEC_LIFE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SPEC_LIFE_DONE = 1,
    SPEC_LIFE_FREED = 2,
    SPEC_LIFE_LOST = 4,
    SPEC_LIFE_TOLD = 8,
    SPEC_LIFE_OVER = 16,
    SPEC_LIFE_WATCHED = 32, /* the progress agent counts it, until DONE; decides nothing here */
    SPEC_LIFE_USER = 64,    /* the bits from here on count the users of the program's memory */
};

typedef enum {
    SPEC_LIFE_LEAVE,    /* another one is to return it: hands off */
    SPEC_LIFE_COMPLETE, /* complete it, then hands off */
    SPEC_LIFE_RETURN,
    SPEC_LIFE_AWAIT, /* it is about to be completed; then return it */
} spec_life_next_t;

/* Is nothing but its owner left? */
static inline bool spec_life_is_done(int32_t life)
{
    return (life & SPEC_LIFE_DONE) && (!(life & SPEC_LIFE_LOST) || (life & SPEC_LIFE_TOLD));
}

/* Its end has set DONE, or with OVER both. */
static inline spec_life_next_t spec_life_ended(int32_t before, bool over)
{
    if (before & SPEC_LIFE_FREED) {
        return spec_life_is_done(before | SPEC_LIFE_DONE) ? SPEC_LIFE_RETURN : SPEC_LIFE_LEAVE;
    }
    return over || (before & SPEC_LIFE_LOST) ? SPEC_LIFE_LEAVE : SPEC_LIFE_COMPLETE;
}

/* May its owner, which sees these bits after it saw whether it is complete, return it without a word? */
static inline bool spec_life_is_mine(int32_t life, bool complete)
{
    return complete && spec_life_is_done(life);
}

/* Its owner has set FREED. */
static inline spec_life_next_t spec_life_freed(int32_t before)
{
    if (!spec_life_is_done(before)) {
        return SPEC_LIFE_LEAVE;
    }
    return before & (SPEC_LIFE_OVER | SPEC_LIFE_LOST) ? SPEC_LIFE_RETURN : SPEC_LIFE_AWAIT;
}

/* Its peer is lost. May LOST be set and the caller be a user, in one step with this question? */
static inline bool spec_life_may_be_lost(int32_t life)
{
    return !(life & (SPEC_LIFE_LOST | SPEC_LIFE_DONE));
}

/* What completed it, as lost, has set TOLD. */
static inline spec_life_next_t spec_life_told(int32_t before)
{
    return (before & SPEC_LIFE_DONE) && (before & SPEC_LIFE_FREED) ? SPEC_LIFE_RETURN
                                                                  : SPEC_LIFE_LEAVE;
}

/* ---- the program's memory ----
 *
 * A request that is given up is complete for MPI while packets of its message may be in other threads' hands. A thread that copies
 * from or to the program's memory is a user of it meanwhile, and so is the one that gives the request up, until the status says why.
 * There are no new users then, and the last one completes it: nobody is at the memory any more, and nobody has waited.
 *
 * A user must have something to account for that keeps the object, and leaves before it does. */

/* May a thread become a user, in one step with this question? */
static inline bool spec_life_may_use(int32_t life)
{
    return !(life & SPEC_LIFE_LOST);
}

/* A user has left. Is it to complete the request, and to set TOLD? */
static inline bool spec_life_is_last(int32_t after)
{
    return (after & SPEC_LIFE_LOST) && after < SPEC_LIFE_USER;
}

/* The same with the bits that threads share. */

/* False: it is given up, and its memory is not the library's. Else until spec_life_leave. */
static inline bool spec_life_use(volatile int32_t *life)
{
    int32_t seen = __atomic_load_n(life, __ATOMIC_ACQUIRE);
    do {
        if (!spec_life_may_use(seen)) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(life, &seen, seen + SPEC_LIFE_USER, true,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

/* True: the caller gives it up, and is a user. */
static inline bool spec_life_lose(volatile int32_t *life)
{
    int32_t seen = __atomic_load_n(life, __ATOMIC_ACQUIRE);
    do {
        if (!spec_life_may_be_lost(seen)) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(life, &seen, (seen | SPEC_LIFE_LOST) + SPEC_LIFE_USER,
                                          true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

/* True: the caller completes it, and sets TOLD. */
static inline bool spec_life_leave(volatile int32_t *life)
{
    return spec_life_is_last(__atomic_sub_fetch(life, SPEC_LIFE_USER, __ATOMIC_ACQ_REL));
}

#endif
