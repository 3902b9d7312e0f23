/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Copy-in-copy-out: one large message through a ring of slots in memory that both processes map.
 *
 * The message is cut into units of a slot, which are numbered from message to message. Unit u goes through slot u modulo the slots:
 * the sender fills it, the receiver drains it. Whose turn a slot is tells its `turn`, which both count up: even, to be filled;
 * odd, to be drained. So any thread of the sender can fill the next unit and any of the receiver drain it, without a lock: it
 * takes the unit's number first, by one compare-and-swap in its own process.
 *
 * What the other process writes here is not relied on: the length that a receiver learns from the ring is checked against its
 * buffer, and all else that it uses is its own. The other can spoil the message, which is its own, and nothing else.
 *
 * Pure; bytes. Threads: any, in both processes, but for the owner's functions and spec_cico_begin. */
#ifndef SPEC_CICO_H
#define SPEC_CICO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A ring has up to so many slots, of so many bytes. */
enum { SPEC_CICO_SLOTS = 32, SPEC_CICO_SLOT = 32768 };

/* How many of them are used, by the bytes of the cache that a processor has for itself (its second); 0: not known. A line that is
 * still in that cache of either processor when its turn comes again is dearer to write than one that has gone to the cache which they
 * share: so all slots together are as large as that cache, within bounds, and larger ones do not gain.
 *
 * Gain: compare --mode parity --btl none --rows pingpong,sendrecv,bandwidth. */
static inline uint32_t spec_cico_slots(uint64_t cache)
{
    const uint64_t n = 0 == cache ? SPEC_CICO_SLOTS : cache / SPEC_CICO_SLOT;
    return (uint32_t) (n < 8 ? 8 : n > SPEC_CICO_SLOTS ? SPEC_CICO_SLOTS : n);
}

typedef struct spec_cico_turn {
    _Alignas(64) uint64_t n;
} spec_cico_turn_t;

/* Shared. What begins anew with each message is in one line of the caches. */
typedef struct spec_cico_ring {
    uint64_t
        base; /* the owner's: number of the message's first unit, among those of all messages */
    uint64_t message; /* the sender's: bytes of the message, and 1; 0: not known yet */
    uint64_t other;   /* of the process that came second: its name, or 0 */
    uint32_t
        use; /* the owner's: messages so far, so that a late packet does not take this one for its own */
    uint32_t drained; /* the receiver's: units */
    uint32_t slots;   /* the owner's: how many are used, always the same */
    spec_cico_turn_t turn[SPEC_CICO_SLOTS];
    _Alignas(4096) char slot[SPEC_CICO_SLOTS][SPEC_CICO_SLOT];
} spec_cico_ring_t;

/* A ring, or the process that has it, as packets tell of it. */
typedef union spec_cico_name {
    struct {
        uint32_t pid; /* never 0 */
        uint16_t fd;  /* of the memory, among the open files of that process */
        uint8_t ring;
        uint8_t use; /* its lowest bits */
    };
    uint64_t word;
} spec_cico_name_t;
_Static_assert(sizeof(spec_cico_name_t) == 8, "a name is a word of a packet");

enum { SPEC_CICO_UNKNOWN = 0 };

/* What one process has of it. */
typedef struct spec_cico_end {
    spec_cico_ring_t *ring;
    char *data;    /* the message, or where it goes */
    uint64_t room; /* bytes of that: what is behind them in a longer message is dropped */
    bool fills;    /* the sender */
    uint32_t use;  /* of the ring, as base */
    uint64_t base;
    uint32_t slots;
    uint64_t message; /* as in the ring; the receiver may not know it when it begins */
    uint32_t next;    /* unit that no thread has taken yet */
    uint32_t done;    /* units that are copied */
} spec_cico_end_t;

/* The owner, of memory that is zero, or after a message that did not go through the whole of it: nobody uses it. */
static inline void spec_cico_reset(spec_cico_ring_t *ring)
{
    ring->base = 0;
    for (unsigned i = 0; i < SPEC_CICO_SLOTS; ++i) {
        __atomic_store_n(&ring->turn[i].n, 0, __ATOMIC_RELEASE);
    }
}

/* The owner: it is for another message. */
static inline void spec_cico_renew(spec_cico_ring_t *ring, uint32_t slots)
{
    __atomic_store_n(&ring->slots, slots, __ATOMIC_RELAXED);
    /* Before the count: see spec_cico_is_drained. */
    __atomic_store_n(&ring->use, ring->use + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->drained, 0, __ATOMIC_RELEASE);
    ring->message = SPEC_CICO_UNKNOWN;
    ring->other = 0;
}

/* message: its bytes and 1, or SPEC_CICO_UNKNOWN. Other threads know of the end after that. */
static inline void spec_cico_begin(spec_cico_end_t *end, spec_cico_ring_t *ring, char *data,
                                   uint64_t room, bool fills, uint64_t message)
{
    const uint32_t slots = __atomic_load_n(&ring->slots, __ATOMIC_RELAXED);
    *end = (spec_cico_end_t){.ring = ring,
                             .slots = 0 < slots && slots <= SPEC_CICO_SLOTS ? slots : 1,
                             .data = data,
                             .room = room,
                             .fills = fills,
                             .use = __atomic_load_n(&ring->use, __ATOMIC_RELAXED),
                             .base = ring->base,
                             .message = message};
    if (fills) {
        __atomic_store_n(&ring->message, message, __ATOMIC_RELEASE);
    }
}

static inline uint64_t spec_cico_units_of(uint64_t message)
{
    return (message - 1 + SPEC_CICO_SLOT - 1) / SPEC_CICO_SLOT;
}

/* Bytes of the message and 1; a receiver that was not told reads it in the ring, once. SPEC_CICO_UNKNOWN: it is not there, or cannot
 * be true. */
static inline uint64_t spec_cico_message(spec_cico_end_t *end)
{
    uint64_t known = __atomic_load_n(&end->message, __ATOMIC_ACQUIRE);
    if (SPEC_CICO_UNKNOWN == known) {
        const uint64_t told = __atomic_load_n(&end->ring->message, __ATOMIC_ACQUIRE);
        if (SPEC_CICO_UNKNOWN != told && told - 1 <= end->room
            && __atomic_compare_exchange_n(&end->message, &known, told, false, __ATOMIC_ACQ_REL,
                                           __ATOMIC_ACQUIRE)) {
            known = told;
        }
    }
    return known;
}

static inline spec_cico_turn_t *spec_cico_turn_of(const spec_cico_end_t *end, uint32_t unit)
{
    return &end->ring->turn[(end->base + unit) % end->slots];
}

/* What the turn must be for this end to copy the unit. */
static inline uint64_t spec_cico_turn_for(const spec_cico_end_t *end, uint32_t unit)
{
    return (end->base + unit) / end->slots * 2 + (end->fills ? 0 : 1);
}

static inline void spec_cico_copy(const spec_cico_end_t *end, uint64_t length, uint32_t unit)
{
    const uint64_t offset = (uint64_t) unit * SPEC_CICO_SLOT;
    uint64_t n = length - offset < SPEC_CICO_SLOT ? length - offset : SPEC_CICO_SLOT;
    char *slot = end->ring->slot[(end->base + unit) % end->slots];
    if (offset >= end->room) {
        return;
    }
    n = n < end->room - offset ? n : end->room - offset;
    if (end->fills) {
        memcpy(slot, end->data + offset, n);
    } else {
        memcpy(end->data + offset, slot, n);
    }
}

/* Copies the next unit. False: it is the other process's turn, or no unit is left. */
static inline bool spec_cico_step(spec_cico_end_t *end)
{
    const uint64_t message = spec_cico_message(end);
    uint32_t unit = __atomic_load_n(&end->next, __ATOMIC_RELAXED);
    spec_cico_turn_t *turn;
    do {
        turn = spec_cico_turn_of(end, unit);
        if (SPEC_CICO_UNKNOWN == message || unit >= spec_cico_units_of(message)
            || __atomic_load_n(&turn->n, __ATOMIC_ACQUIRE) != spec_cico_turn_for(end, unit)) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&end->next, &unit, unit + 1, true, __ATOMIC_ACQUIRE,
                                          __ATOMIC_RELAXED));
    spec_cico_copy(end, message - 1, unit);
    __atomic_store_n(&turn->n, spec_cico_turn_for(end, unit) + 1, __ATOMIC_RELEASE);
    if (!end->fills) {
        (void) __atomic_add_fetch(&end->ring->drained, 1, __ATOMIC_RELEASE);
    }
    (void) __atomic_add_fetch(&end->done, 1, __ATOMIC_RELEASE);
    return true;
}

/* Are all units copied by this end? */
static inline bool spec_cico_is_done(const spec_cico_end_t *end)
{
    const uint64_t message = __atomic_load_n(&end->message, __ATOMIC_RELAXED);
    return SPEC_CICO_UNKNOWN != message
           && __atomic_load_n(&end->done, __ATOMIC_ACQUIRE) == spec_cico_units_of(message);
}

/* The sender, which has filled all: has the receiver drained all? Until then the sender waits for it: it can call the other process's
 * thread, if that computes, and its own ring is free after that. A receiver that has its ring for another message had. */
static inline bool spec_cico_is_drained(const spec_cico_end_t *end)
{
    return __atomic_load_n(&end->ring->drained, __ATOMIC_ACQUIRE)
               == spec_cico_units_of(end->message)
           || __atomic_load_n(&end->ring->use, __ATOMIC_RELAXED) != end->use;
}

/* The owner: the message has gone through, from its sender to its receiver. */
static inline void spec_cico_used(spec_cico_end_t *end)
{
    end->ring->base = end->base + spec_cico_units_of(end->message);
}

/* ---- an end that waits and cannot go on ----
 *
 * The other process computes, or copies something else, which it says, or is about to go on. After a moment in which it did not
 * copy this one calls the thread of the other that copies while its program computes; and again later, for a call that comes while
 * the thread falls asleep may be lost. */

#define SPEC_CICO_PATIENCE UINT64_C(4000)    /* ns */
#define SPEC_CICO_AGAIN    UINT64_C(1000000) /* ns */

/* Returns since when it is stuck; stuck: what this returned before, or 0. */
static inline uint64_t spec_cico_stuck(uint64_t stuck, bool other_copies, uint64_t now)
{
    return 0 == stuck || other_copies ? now : stuck;
}

/* called: when it called last, or 0. Then it gives way with each poll, since the thread may need this processor (core/spec_give.h). */
static inline bool spec_cico_calls(uint64_t stuck, uint64_t called, uint64_t now)
{
    return now - stuck >= SPEC_CICO_PATIENCE && (called < stuck || now - called >= SPEC_CICO_AGAIN);
}

#endif
