/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The life of a request: decides when it goes back to its free list, and which thread returns it. Threads set bits with one
 * atomic operation each; each decision is about what was set before.
 *
 * It needs: the PML is done with it (DONE), its owner has freed it (FREED) and, if it was given up because its peer is
 * lost (LOST), what gave it up has completed it (TOLD). The last of these returns it. Whatever is not lost is completed
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

/* Its peer is lost. May LOST be set, in one step with this question? Then the caller completes it, and sets TOLD. */
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

#endif
