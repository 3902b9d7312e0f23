/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: how the next piece of a message that both ends move is moved.
 *
 * Where copies are cheap beside the kernel's single copy (core/spec_costs.h, `pipeline`), two ends that both wait for a message
 * move it soonest by fragments: the sender copies into memory that both have, the receiver out of it. If one of them computes,
 * or computes between calls that only test, the other has to move the message by single copies, which it can do alone; a
 * fragment that it had sent would wait for the next call.
 *
 * A receiver that waits says so (core/spec_claim.h). Whether a sender sends fragments is seen. An end that waits and sees
 * nothing of the other does so for as long as the single copy of one fragment takes, half of that if it never saw anything, so
 * that it loses little if the other one computes; then it moves pieces alone until it sees something again.
 *
 * Pure; bytes and nanoseconds. Threads: one at a time, whose turn it is to move a piece. */
#ifndef SPEC_JOINT_H
#define SPEC_JOINT_H

#include <stdbool.h>
#include <stdint.h>

/* A message goes in so many fragments at least, so that the receiver copies while the sender does, unless they would be shorter
 * than this. */
#define SPEC_JOINT_PIECES 2u
#define SPEC_JOINT_LEAST  (UINT64_C(8) << 10)

/* Fragments that this process has under way to receivers that have not given them back, in all: a transport has some dozens, and
 * other messages need some. */
#define SPEC_JOINT_FRAGMENTS 32

/* For so long, times the patience, the other end is waited for at most while this one sends other messages. */
#define SPEC_JOINT_PATIENCES 4u

/* ---- does this process wait, or does it only test between computations? ----
 *
 * Neither is said to us. A process that waits calls its progress again at once, one that tests after it has computed. The first
 * call after a while may begin a wait: it is taken for one unless the last such call was not followed by another. */

/* Calls that are further apart than so many times the patience are not of one wait. */
#define SPEC_PACE_PATIENCES 2u

typedef struct spec_pace {
    uint64_t ended; /* the last call */
    bool was_late;  /* it came after a while */
    bool tests;     /* and what came after a while before was no wait */
} spec_pace_t;

static inline bool spec_pace_is_late(const spec_pace_t *p, uint64_t patience, uint64_t idle_since,
                                     uint64_t now)
{
    const uint64_t since = idle_since > p->ended ? idle_since : p->ended;
    return now - since >= SPEC_PACE_PATIENCES * patience;
}

/* Has this process called so lately that it waits, as far as it is known? */
static inline bool spec_pace_is_quick(const spec_pace_t *p, uint64_t patience, uint64_t now)
{
    return !p->tests && !spec_pace_is_late(p, patience, 0, now);
}

/* A call begins: is it of a wait? spec_pace_end() follows. idle_since: as below. */
static inline bool spec_pace_waits(spec_pace_t *p, uint64_t patience, uint64_t idle_since,
                                   uint64_t now)
{
    const bool is_late = spec_pace_is_late(p, patience, idle_since, now);
    p->tests = is_late && (p->tests || p->was_late);
    p->was_late = is_late;
    return !p->tests;
}

static inline void spec_pace_end(spec_pace_t *p, uint64_t now)
{
    p->ended = now;
}

/* ---- the next piece ---- */

typedef enum spec_joint_how {
    SPEC_JOINT_WAIT,     /* the other end is at it */
    SPEC_JOINT_SINGLE,   /* this end copies a piece alone */
    SPEC_JOINT_FRAGMENT, /* the sender sends one */
} spec_joint_how_t;

/* What an end has seen of the other. `open` is what the other one makes less: at the sender the fragments that the receiver has
 * not given back, at the receiver the bytes that are missing. */
typedef struct spec_joint {
    int64_t open;   /* when this end last moved a piece or asked */
    uint64_t since; /* when it became less, or this end sent a fragment */
    bool has_seen;  /* it became less once: the other end has been there */
} spec_joint_t;

static inline void spec_joint_begin(spec_joint_t *j, int64_t open, uint64_t now)
{
    *j = (spec_joint_t){.open = open, .since = now};
}

/* This end has moved a piece itself. */
static inline void spec_joint_moved(spec_joint_t *j, int64_t open)
{
    j->open = open;
}

/* waits: this process does. sends: it is the sender, the receiver waits, and there is room for a fragment. idle_since: when this
 * process last sent a fragment of any message; what came meanwhile it could not see. */
static inline spec_joint_how_t spec_joint_next(spec_joint_t *j, bool waits, bool sends,
                                               int64_t open, uint64_t patience, uint64_t idle_since,
                                               uint64_t now)
{
    const bool has_seen = open < j->open;
    j->open = open;
    j->has_seen = j->has_seen || has_seen;
    patience = j->has_seen ? patience : patience / 2;
    if (!waits) {
        return SPEC_JOINT_SINGLE;
    }
    if (sends || has_seen) {
        j->since = now;
    }
    const uint64_t since = idle_since > j->since ? idle_since : j->since;
    return sends ? SPEC_JOINT_FRAGMENT
           : now - since < patience && now - j->since < SPEC_JOINT_PATIENCES * patience
               ? SPEC_JOINT_WAIT
               : SPEC_JOINT_SINGLE;
}

/* ---- is a message left to its receiver? ----
 *
 * A process that waits for large messages leaves those that it sends to their receivers for a while: in an exchange each end is
 * about to come, and moves one message, into its own memory. When is not known; so this end waits no longer than the copy itself
 * takes, and loses at most as much as it could have gained. While it gets pieces it has other things to do. For ever would be too
 * long below a callback of such a piece.
 *
 * Gain: test/bench/kernels --kernel lu, time blocked. */
#define SPEC_JOINT_LEAVE_MOST UINT64_C(1000000)

/* gets: this process moves pieces to itself; offers: it has offered buffers for large messages. since: when it could first have
 * moved the message; single: what a copy of it takes. Nanoseconds. */
static inline bool spec_joint_leaves(bool gets, bool offers, uint64_t since, uint64_t single,
                                     uint64_t now)
{
    const uint64_t most = gets || single > SPEC_JOINT_LEAVE_MOST ? SPEC_JOINT_LEAVE_MOST : single;
    return (gets || offers) && now - since < most;
}

/* ---- which message is moved next ---- */

/* Of messages to be put, too, the receiver moves the first and the sender the last: so each moves the same again, where buffers are
 * used again, and has them in its caches. Not what goes in fragments, which are to arrive in the order in which they are waited for; and
 * not in an exchange, where each end is to find those moved that the other one came to. What begins later than this after the first of
 * them, nanoseconds, is behind them: none is overtaken for ever.
 *
 * Gain: test/bench/compare --mode parity --btl vader --rows bandwidth. */
#define SPEC_JOINT_STACKS UINT64_C(1000000)

/* Is this message, which begins now, moved before those that began before it, since `since`? */
static inline bool spec_joint_stacks(bool is_put, bool pipelined, bool exchanges, uint64_t since,
                                     uint64_t now)
{
    return is_put && !pipelined && !exchanges && now - since < SPEC_JOINT_STACKS;
}

/* Bytes of a fragment, of a message of so many. */
static inline uint64_t spec_joint_piece(uint64_t length, uint64_t most)
{
    uint64_t piece = length / SPEC_JOINT_PIECES;
    piece = piece > SPEC_JOINT_LEAST ? piece : SPEC_JOINT_LEAST;
    return piece < most ? piece : most;
}

#endif
