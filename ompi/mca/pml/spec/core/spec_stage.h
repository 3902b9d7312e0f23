/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Staging: host memory through which a message goes whose buffer is on a device, so that a transport can put it.
 *
 * The sender copies a piece, puts it, and copies the next while the transport moves the last; the receiver copies a piece while
 * the transport brings the next (spec_pipe.h). How long a piece should be follows from what copies cost: each has its own
 * price, which long pieces share out; but the transport waits for the first, and the receiver copies the last when it is done.
 *
 * The memory comes in powers of two from SPEC_STAGE_LEAST on. What comes back waits for its next use, since it is registered
 * with the transports: as much as `keep` bytes, what is more goes back to the system. No more than `most` bytes are in use.
 *
 * Pure: the caller maps, and measures. Threads: the caller's lock. */
#ifndef SPEC_STAGE_H
#define SPEC_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shorter messages go in fragments: staging would save nothing. */
#define SPEC_STAGE_LEAST ((size_t) 64 * 1024)
#define SPEC_STAGE_KINDS 32

typedef struct spec_stage {
    void *unused[SPEC_STAGE_KINDS]; /* a list each, through the memory */
    size_t in_use, kept;            /* bytes */
    size_t most, keep;
    void *(*map)(size_t size); /* NULL: there is none */
    void (*unmap)(void *memory, size_t size);
} spec_stage_t;

void spec_stage_init(spec_stage_t *s, size_t most, size_t keep, void *(*map)(size_t size),
                     void (*unmap)(void *memory, size_t size));

/* At least size bytes until spec_stage_put; NULL: they would be more than `most`, or there is no memory. */
void *spec_stage_take(spec_stage_t *s, size_t size);

/* Back. size: as it was taken. */
void spec_stage_put(spec_stage_t *s, void *memory, size_t size);

/* What is not in use goes back to the system. */
void spec_stage_give_back(spec_stage_t *s);

/* What copies from a device cost. */
typedef struct spec_stage_costs {
    bool known;
    uint64_t call_ns; /* a copy of next to nothing */
    uint32_t ps;      /* each byte more */
} spec_stage_costs_t;

/* Two samples, in nanoseconds, of which the second copied `bytes` more. */
spec_stage_costs_t spec_stage_costs(uint64_t little_ns, uint64_t much_ns, size_t bytes);

/* What it takes the transport, beyond its bytes, that a piece is put and told by itself: the usual, over sockets. */
#define SPEC_STAGE_PACKET_NS 20000u

/* How long the pieces of a message should be, at most its length, if the transport takes wire_ps picoseconds for each byte; 0: that is
 * not known, and taken to be as much as the copies take. Powers of two, as the memory is.
 *
 * A piece comes out of the pipeline each time that the slower of copy and transport is through with one, and nothing else happens while
 * the first is copied from one device and the last to the other. So they are short where the copies take the time, and long where the
 * transport does, since each put has its price. */
size_t spec_stage_piece(const spec_stage_costs_t *costs, uint32_t wire_ps, size_t length);

#endif
