/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: how the next piece of a message that both ends move is moved.
 *
 * Where copies are cheap beside the kernel's single copy (core/spec_costs.h, `pipeline`), two ends that are both in MPI move most in
 * the same time by fragments: the sender copies into memory that both have, the receiver out of it. Of two ends one of
 * which computes the other has to move the message alone, by single copies, which it can.
 *
 * Whether the other end is there is told by what it does: a receiver gives fragments back, a sender sends them. An end that
 * sees nothing of that waits for as long as the single copy of one fragment takes, so that it loses little if the other computes,
 * and then moves pieces alone until it sees something again.
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

/* For so long, times the patience, the other end is waited for at most while this one sends other messages. */
#define SPEC_JOINT_PATIENCES 4u

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
    bool met;       /* the other end is in MPI, or was */
} spec_joint_t;

/* met: the other end has said that it waits for the message. */
static inline void spec_joint_begin(spec_joint_t *j, int64_t open, bool met, uint64_t now)
{
    *j = (spec_joint_t){.open = open, .since = now, .met = met};
}

/* This end has moved a piece itself. */
static inline void spec_joint_moved(spec_joint_t *j, int64_t open)
{
    j->open = open;
}

/* depth: fragments that may be under way; 0: this is the receiver. One that computes has to copy them when it comes, so until it
 * is met there is only one. idle_since: when this process last sent a fragment of any message; what came meanwhile it could
 * not see. */
static inline spec_joint_how_t spec_joint_next(spec_joint_t *j, int64_t open, int64_t depth,
                                               uint64_t patience, uint64_t idle_since, uint64_t now)
{
    const bool has_seen = open < j->open;
    j->met = j->met || has_seen;
    j->open = open;
    const bool has_room = open < depth && (j->met || 0 == open);
    if (has_room || has_seen) {
        j->since = now;
    }
    const uint64_t since = idle_since > j->since ? idle_since : j->since;
    return has_room ? SPEC_JOINT_FRAGMENT
           : now - since < patience && now - j->since < SPEC_JOINT_PATIENCES * patience
               ? SPEC_JOINT_WAIT
               : SPEC_JOINT_SINGLE;
}

/* Bytes of the next fragment, of a message of so many. */
static inline uint64_t spec_joint_piece(bool met, uint64_t length, uint64_t most)
{
    uint64_t piece = met ? length / SPEC_JOINT_PIECES : 0;
    piece = piece > SPEC_JOINT_LEAST ? piece : SPEC_JOINT_LEAST;
    return piece < most ? piece : most;
}

#endif
