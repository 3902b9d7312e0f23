/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The text of a profile: for which envelopes the receiver had stopped speculating when a job ended,
 * so that the next run of the same program begins there ("static adaptation", paper 001 section
 * 3.6).
 *
 *     pml/spec profile 1
 *     ranks 4
 *     # receiver sender communicator.epoch receiver's-rank sender's-rank tag
 *     stop 1 0 0.0 1 0 7
 *     end 1
 *
 * Processes are named twice: by their rank in MPI_COMM_WORLD, which says whose line it is, and by
 * their rank in the communicator. `end` repeats the number of lines, so that a file that was cut
 * off is noticed. Lines that begin with # are for people.
 *
 * Threads: pure functions. */
#ifndef SPEC_PROFILE_H
#define SPEC_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#define SPEC_PROFILE_VERSION 1

typedef struct spec_profile_stop {
    uint32_t receiver, sender; /* ranks in MPI_COMM_WORLD */
    uint32_t cid, epoch;
    int32_t receiver_rank, sender_rank; /* ranks in the communicator */
    int32_t tag;
} spec_profile_stop_t;

/* Longest line, with its end. */
#define SPEC_PROFILE_LINE 128

/* The first lines, the line of one envelope, the last line. Return the number of bytes written (room
 * is at least 4 x SPEC_PROFILE_LINE, or SPEC_PROFILE_LINE). */
size_t spec_profile_begin(char *text, uint32_t ranks);
size_t spec_profile_stop(char *text, const spec_profile_stop_t *stop);
size_t spec_profile_end(char *text, size_t stops);

/* Read a whole profile (text ends with a 0). Calls `each` for every envelope, or not at all if each
 * is NULL (a check). NULL: it is fine; else what is wrong, and *number says where (counted from 1). */
const char *spec_profile_read(const char *text, uint32_t ranks, unsigned *number,
                              void (*each)(void *context, const spec_profile_stop_t *stop),
                              void *context);

#endif
