/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Whose is an offered buffer: the sender's, which is about to write into it, or the receiver's, which takes it back? One word
 * for each offer, in memory that both processes reach (docs/design/protocol.md, "Taking a receive back"). Of the sender, which
 * takes right before it writes, and the receiver, which withdraws, only the first succeeds, and neither waits for the other.
 *
 * The word tells which offer it is of, so that a late RTR takes nothing but its own. The peer can write what it likes
 * there: the receiver then takes nothing back, and waits for REVOKED.
 *
 * Threads: any, in both processes. */
#ifndef SPEC_CLAIM_H
#define SPEC_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shorter messages, bytes, are not moved by both ends. */
#define SPEC_CLAIM_LEAST (UINT64_C(64) << 10)

enum { SPEC_CLAIM_OFFERED = 1, SPEC_CLAIM_TAKEN, SPEC_CLAIM_WITHDRAWN };

/* An offer and where its word is; at NULL: nowhere. */
typedef struct spec_claim {
    uint64_t *at;
    uint32_t no; /* of the offer; another one each time the word is used */
} spec_claim_t;

static inline uint64_t spec_claim_word(uint32_t no, unsigned state)
{
    return (uint64_t) no << 2 | state;
}

/* The receiver, whose word it is: nobody knows of the offer yet. */
static inline void spec_claim_offer(const spec_claim_t *claim)
{
    __atomic_store_n(claim->at, spec_claim_word(claim->no, SPEC_CLAIM_OFFERED), __ATOMIC_RELEASE);
}

static inline bool spec_claim_settle(const spec_claim_t *claim, unsigned state)
{
    uint64_t offered = spec_claim_word(claim->no, SPEC_CLAIM_OFFERED);
    return __atomic_compare_exchange_n(claim->at, &offered, spec_claim_word(claim->no, state),
                                       false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* The sender is about to take it: the word, which the receiver's processor wrote last, comes meanwhile. */
static inline void spec_claim_ahead(const spec_claim_t *claim)
{
    __builtin_prefetch(claim->at, 1);
}

/* The sender: may it write? Without a word it may, since the receiver then waits for it. */
static inline bool spec_claim_take(const spec_claim_t *claim)
{
    return NULL == claim->at || spec_claim_settle(claim, SPEC_CLAIM_TAKEN);
}

/* ---- a message that both ends move, in pieces ----
 *
 * Once the word is taken one bit says that the receiver waits for the message, one that the sender sends fragments of it while it
 * does, and its upper bits count what the receiver has taken to move, from the front, and the sender, from the
 * back: so the same part of a buffer that is used again is in the caches of the same processor again. Both in units. */

enum {
    SPEC_CLAIM_WAITS_AT = 34,
    SPEC_CLAIM_FRAGMENTS_AT = 35,
    SPEC_CLAIM_FRONT_AT = 36,
    SPEC_CLAIM_BACK_AT = 50,
    SPEC_CLAIM_COUNT_BITS = 14
};

/* The receiver, for a message that was announced: the sender may take pieces, and may not be withdrawn from. */
static inline void spec_claim_share(const spec_claim_t *claim, bool waits, bool fragments)
{
    __atomic_store_n(claim->at,
                     spec_claim_word(claim->no, SPEC_CLAIM_TAKEN)
                         | (uint64_t) waits << SPEC_CLAIM_WAITS_AT
                         | (uint64_t) fragments << SPEC_CLAIM_FRAGMENTS_AT,
                     __ATOMIC_RELEASE);
}

/* The sender, of an offer that it has taken and has told nobody of: it would send fragments. */
static inline void spec_claim_send(const spec_claim_t *claim)
{
    (void) __atomic_fetch_or(claim->at, UINT64_C(1) << SPEC_CLAIM_FRAGMENTS_AT, __ATOMIC_RELAXED);
}

/* The receiver, of a message that it still receives: it waits for it. */
static inline void spec_claim_wait(const spec_claim_t *claim)
{
    (void) __atomic_fetch_or(claim->at, UINT64_C(1) << SPEC_CLAIM_WAITS_AT, __ATOMIC_RELAXED);
}

/* Bytes of a unit, for a range of so many; the same at both ends, and the counts have room for all. */
static inline uint64_t spec_claim_unit(uint64_t length)
{
    return ((length >> (SPEC_CLAIM_COUNT_BITS - 1)) | UINT64_C(4095)) + 1;
}

/* What has been taken of it; false: the word is another offer's by now. */
typedef struct spec_claim_taken {
    uint64_t unit, units, front, back;
    bool waits;     /* the receiver, for the message */
    bool fragments; /* the sender sends some while it does */
} spec_claim_taken_t;

static inline bool spec_claim_read(const spec_claim_t *claim, uint64_t word, uint64_t length,
                                   spec_claim_taken_t *is)
{
    is->unit = spec_claim_unit(length);
    is->units = (length + is->unit - 1) / is->unit;
    is->front = word >> SPEC_CLAIM_FRONT_AT & ((UINT64_C(1) << SPEC_CLAIM_COUNT_BITS) - 1);
    is->back = word >> SPEC_CLAIM_BACK_AT;
    is->waits = word >> SPEC_CLAIM_WAITS_AT & 1;
    is->fragments = word >> SPEC_CLAIM_FRAGMENTS_AT & 1;
    return spec_claim_word(claim->no, SPEC_CLAIM_TAKEN)
           == (word & ((UINT64_C(1) << SPEC_CLAIM_WAITS_AT) - 1));
}

/* Is a part of a range of so many bytes still to be taken? */
static inline bool spec_claim_is_left(const spec_claim_t *claim, uint64_t length)
{
    spec_claim_taken_t is;
    return spec_claim_read(claim, __atomic_load_n(claim->at, __ATOMIC_RELAXED), length, &is)
           && is.front + is.back < is.units;
}

/* Does the sender send fragments while the receiver waits? */
static inline bool spec_claim_sends(const spec_claim_t *claim, uint64_t length)
{
    spec_claim_taken_t is;
    return spec_claim_read(claim, __atomic_load_n(claim->at, __ATOMIC_RELAXED), length, &is)
           && is.fragments;
}

/* Does the receiver wait for it, and is a part still to be taken? */
static inline bool spec_claim_is_awaited(const spec_claim_t *claim, uint64_t length)
{
    spec_claim_taken_t is;
    return spec_claim_read(claim, __atomic_load_n(claim->at, __ATOMIC_RELAXED), length, &is)
           && is.waits && is.front + is.back < is.units;
}

/* Either end takes its next piece of a range of so many bytes; *offset: where that begins. A piece is half of what is left, so
 * that the other end may come and move what remains; it is all of that if the other end is here already, if this one has other
 * messages to move meanwhile (busy), or if less than `split` bytes are left, which are not worth a piece more; and it is no more
 * than `most`, or one unit. Returns its bytes; 0: none is left, or the word is another offer's by now. */
static inline uint64_t spec_claim_next(const spec_claim_t *claim, bool is_sender, uint64_t length,
                                       bool busy, uint64_t split, uint64_t most, uint64_t *offset)
{
    const unsigned at = is_sender ? SPEC_CLAIM_BACK_AT : SPEC_CLAIM_FRONT_AT;
    uint64_t word = __atomic_load_n(claim->at, __ATOMIC_RELAXED), n;
    spec_claim_taken_t is;
    do {
        if (!spec_claim_read(claim, word, length, &is) || is.front + is.back >= is.units) {
            return 0;
        }
        n = is.units - is.front - is.back;
        if (!busy && 0 == (is_sender ? is.front : is.back) && n * is.unit >= split) {
            n = (n + 1) / 2;
        }
        if (n * is.unit > most) {
            n = most < is.unit ? 1 : most / is.unit;
        }
    } while (!__atomic_compare_exchange_n(claim->at, &word, word + (n << at), true,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    *offset = (is_sender ? is.units - is.back - n : is.front) * is.unit;
    return length - *offset < n * is.unit ? length - *offset : n * is.unit;
}

/* Bytes of the first piece that the sender takes, which ends the range, if it asks for no more than `most`. */
static inline uint64_t spec_claim_last(uint64_t length, uint64_t most)
{
    const uint64_t unit = spec_claim_unit(length), units = (length + unit - 1) / unit;
    const uint64_t n = most < unit ? 1 : most / unit;
    return n < units ? length - (units - n) * unit : length;
}

/* The receiver: is it certain that the sender never writes? Not without a word. */
static inline bool spec_claim_withdraw(const spec_claim_t *claim)
{
    return NULL != claim->at && spec_claim_settle(claim, SPEC_CLAIM_WITHDRAWN);
}

#endif
