/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A pipeline: a range of a message is moved in pieces, so that one is copied while the transport has others.
 *
 * One caller at a time drives it: takes piece after piece, each with a slot, until all slots are in use. Then it leaves, and whoever
 * completes a piece next drives on. In its slot a piece is first brought, by whatever copies it, and then moved by the transport. Pieces
 * may be brought and complete in any order, in any thread, and inside the call that started that.
 *
 * How many slots there are follows from what is seen. Where a piece completes and the transport has no other, although some are
 * left, it had nothing to do; where a piece is brought and no other is on its way to its slot, what copies had nothing to do. If both
 * had to wait, slots were missing, and the pipeline gets one more: if only one had, that is the faster one. (A processor that copies
 * within the call always waits.) The lowest free slot is taken, whose memory was used last; so slots that are not needed cost nothing.
 *
 * Pure. Threads: spec_pipe_brought and spec_pipe_done any, the others the one that drives. */
#ifndef SPEC_PIPE_H
#define SPEC_PIPE_H

#include <stdbool.h>
#include <stdint.h>

/* Slots at first, and at most. */
#define SPEC_PIPE_FEW  2u
#define SPEC_PIPE_MOST 8u

typedef struct spec_pipe {
    uint64_t length, piece; /* bytes; the last piece is what is left */
    uint64_t nxt;           /* the first byte that nobody has taken */
    uint32_t slots;
    uint32_t state; /* two bits for each slot, and some more: spec_pipe.c */
} spec_pipe_t;

typedef enum spec_pipe_step {
    SPEC_PIPE_PIECE, /* begin to bring this piece, then ask again */
    SPEC_PIPE_LEAVE, /* another drives, now or later: the pipeline is not to be touched again */
    SPEC_PIPE_DRIVE, /* the caller is the one that drives now */
    SPEC_PIPE_OVER,  /* all is moved, and nobody else has the pipeline */
} spec_pipe_step_t;

/* What is to be moved. */
typedef struct spec_pipe_piece {
    uint64_t offset, length; /* in the range */
    uint32_t slot;
} spec_pipe_piece_t;

/* All pieces may begin at once, so that the transport has them while the program computes: as many as there are slots, none shorter than `least`, none
 * longer than SPEC_PIPE_LONG, for what follows the last one cannot be hidden. Whole pages, for transports that want addresses aligned. */
#define SPEC_PIPE_LONG UINT64_C(1048576)
#define SPEC_PIPE_PAGE UINT64_C(4096)

static inline uint64_t spec_pipe_at_once(uint64_t length, uint64_t least)
{
    const uint64_t part = length / SPEC_PIPE_MOST + (0 != length % SPEC_PIPE_MOST);
    const uint64_t most = part < SPEC_PIPE_LONG ? part : SPEC_PIPE_LONG;
    const uint64_t piece = most > least ? most : least;
    return (piece + SPEC_PIPE_PAGE - 1) / SPEC_PIPE_PAGE * SPEC_PIPE_PAGE;
}

/* length and piece are not 0. The caller drives. */
void spec_pipe_init(spec_pipe_t *p, uint64_t length, uint64_t piece, uint32_t slots);

/* PIECE, LEAVE or OVER. */
spec_pipe_step_t spec_pipe_next(spec_pipe_t *p, spec_pipe_piece_t *piece);

/* The piece that was taken last goes another way, and so does all behind it: from now on it is as long as that. */
void spec_pipe_divert(spec_pipe_t *p, spec_pipe_piece_t *piece);

/* A piece is in its slot; the transport gets it next. */
void spec_pipe_brought(spec_pipe_t *p, uint32_t slot);

/* A piece is where it belongs, or has gone another way. LEAVE, DRIVE or OVER. */
spec_pipe_step_t spec_pipe_done(spec_pipe_t *p, uint32_t slot);

#endif
