/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How far away another process is, and what its clock shows: measured by a question and its answer
 * (PING, PONG). Of several answers the one that took least counts, since the others lay waiting for
 * the process to call MPI; so the error of the offset is at most half of that time.
 *
 * Times are nanoseconds of the process's own monotonic clock. Threads: the caller's lock. */
#ifndef SPEC_CLOCK_H
#define SPEC_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct spec_clock {
    uint64_t asked;  /* when the open question was asked; 0: none is open */
    uint64_t rtt;    /* least time from question to answer; 0: never answered */
    uint64_t rtt_at; /* when that was */
    int64_t offset;  /* their clock minus mine */
    uint32_t late;   /* questions given up whose answer may still come */
} spec_clock_t;

/* A better answer is preferred only this long: clocks drift apart. */
#define SPEC_CLOCK_FRESH UINT64_C(10000000000)
/* An unanswered question is given up after this (the communicator may be gone there, or the process computes and answers
 * later). */
#define SPEC_CLOCK_PATIENCE UINT64_C(1000000000)

/* May a question be asked now? Then note that it was. */
static inline bool spec_clock_ask(spec_clock_t *c, uint64_t now)
{
    if (0 != c->asked && now - c->asked < SPEC_CLOCK_PATIENCE) {
        return false;
    }
    c->late += 0 != c->asked;
    c->asked = now;
    return true;
}

/* The answer to the question asked at `asked`: their clock showed `theirs`. False: not asked. An answer to a question
 * that was given up says nothing: it lay somewhere. */
static inline bool spec_clock_answer(spec_clock_t *c, uint64_t asked, uint64_t theirs, uint64_t now)
{
    if (now < asked) {
        return false;
    }
    if (0 == c->asked || asked != c->asked) {
        const bool was_asked = c->late > 0;
        c->late -= was_asked;
        return was_asked;
    }
    const uint64_t rtt = now - asked > 0 ? now - asked : 1;
    c->asked = 0;
    if (0 == c->rtt || rtt <= c->rtt || now - c->rtt_at > SPEC_CLOCK_FRESH) {
        c->rtt = rtt;
        c->rtt_at = now;
        c->offset = (int64_t) (theirs - (asked + rtt / 2));
    }
    return true;
}

static inline bool spec_clock_is_known(const spec_clock_t *c)
{
    return c->rtt > 0;
}

/* One way, nanoseconds. */
static inline uint64_t spec_clock_one_way(const spec_clock_t *c)
{
    return c->rtt / 2;
}

/* What their clock shows when something that leaves me at `mine` reaches them. */
static inline uint64_t spec_clock_arrival(const spec_clock_t *c, uint64_t mine)
{
    return mine + (uint64_t) c->offset + spec_clock_one_way(c);
}

/* Stamps on the wire: 32 bits in units of 2^SPEC_STAMP_SHIFT ns. 0 means none. */
#define SPEC_STAMP_SHIFT 8

static inline uint32_t spec_stamp(uint64_t ns)
{
    const uint32_t stamp = (uint32_t) (ns >> SPEC_STAMP_SHIFT);
    return 0 == stamp ? 1 : stamp;
}

/* Is stamp a after b, if they are less than 9 minutes apart? */
static inline bool spec_stamp_after(uint32_t a, uint32_t b)
{
    return (int32_t) (a - b) > 0;
}

#endif
