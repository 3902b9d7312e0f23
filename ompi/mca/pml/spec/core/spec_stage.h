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

/* Messages with gaps are packed into host memory of one block, and unpacked from there, beside the transport. That is worth it where the transport
 * takes so long that the processor has time to spare meanwhile: at least so many times what packing takes, and what a processor takes at
 * the least for a byte that it hands to the kernel in datagrams. Else two ends that both wait would lose by it. */
#define SPEC_STAGE_GAPS    8u
#define SPEC_STAGE_HAND_PS 250u

/* What a peer's messages with gaps take, picoseconds for each byte; 0: not known yet. Any thread: an update that is lost costs nothing. */
typedef struct spec_stage_gaps {
    uint32_t pack; /* packing or unpacking, lately */
    uint32_t
        wire; /* all of a send, until its end is heard of: the fastest, which is forgotten slowly, since its receive may come late,
                    * and a process that computes hears of the end late */
    uint32_t refused;
    bool tried; /* the first send is under way */
} spec_stage_gaps_t;

/* Of those that are not staged, because it would not pay, one in so many is, to measure. */
#define SPEC_STAGE_TRY 256u

/* What messages from one block take, picoseconds for each byte; 0: that is not known. Until one with gaps was moved they are taken to take as
 * long. */
static inline void spec_stage_gaps_like(spec_stage_gaps_t *g, uint32_t wire)
{
    uint32_t unknown = 0;
    if (0 == __atomic_load_n(&g->wire, __ATOMIC_RELAXED) && wire > 0) {
        (void) __atomic_compare_exchange_n(&g->wire, &unknown, wire, false, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED);
    }
}

/* Is such a message staged? Asked of each that could be. While no times are known one send is, which finds out, and receives are: only
 * what is sent to them tells whether that is of use. */
static inline bool spec_stage_gaps_pay(spec_stage_gaps_t *g, bool sends)
{
    const uint32_t wire = __atomic_load_n(&g->wire, __ATOMIC_RELAXED);
    const uint32_t pack = __atomic_load_n(&g->pack, __ATOMIC_RELAXED);
    return (0 == wire && !(sends && __atomic_exchange_n(&g->tried, true, __ATOMIC_RELAXED)))
           || wire / SPEC_STAGE_GAPS >= (pack > SPEC_STAGE_HAND_PS ? pack : SPEC_STAGE_HAND_PS)
           || 0 == __atomic_add_fetch(&g->refused, 1, __ATOMIC_RELAXED) % SPEC_STAGE_TRY;
}

static inline uint32_t spec_stage_gaps_ps(uint64_t bytes, uint64_t ns)
{
    const uint64_t ps = 0 == bytes ? 0 : ns * 1000 / bytes;
    return 0 == ps ? 1 : ps < UINT32_MAX / 4 ? (uint32_t) ps : UINT32_MAX / 4;
}

/* So many bytes were packed in so long, ns. What disturbs that (a page touched first, another process's turn) counts for no more than twice. */
static inline void spec_stage_gaps_packed(spec_stage_gaps_t *g, uint64_t bytes, uint64_t ns)
{
    const uint32_t now = spec_stage_gaps_ps(bytes, ns);
    const uint64_t before = __atomic_load_n(&g->pack, __ATOMIC_RELAXED);
    const uint64_t most = 2 * before < now ? 2 * before : now;
    __atomic_store_n(&g->pack,
                     0 == before ? now < SPEC_STAGE_HAND_PS ? now : SPEC_STAGE_HAND_PS
                                 : (uint32_t) ((3 * before + most) / 4 + (most > before)),
                     __ATOMIC_RELAXED);
}

/* A message was moved. */
static inline void spec_stage_gaps_moved(spec_stage_gaps_t *g, uint64_t bytes, uint64_t ns)
{
    const uint32_t now = spec_stage_gaps_ps(bytes, ns);
    const uint32_t before = __atomic_load_n(&g->wire, __ATOMIC_RELAXED);
    __atomic_store_n(&g->wire, 0 == before || now < before ? now : before + (now - before) / 32,
                     __ATOMIC_RELAXED);
}

/* What was offered to the peer was of no use, since it did not stage its message. */
static inline void spec_stage_gaps_useless(spec_stage_gaps_t *g)
{
    spec_stage_gaps_like(g, 1);
}

#endif
