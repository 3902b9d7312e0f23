/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Pieces of a process's memory that other processes of its host map: data of eager packets, which is put there and taken out once.
 *
 * The owner gives out pieces in a circle through all of the memory, which is as large as a processor's own cache at least, within
 * bounds: a line comes round again when neither processor has it there any more, and is cheap to write then. (A transport gives its packets out again at once,
 * and each is written while it is still in the receiver's cache.)
 *
 * A piece is some units. Its first unit's word, which both processes see, says that it is in use; the receiver sets it back. What a
 * receiver writes there that is not true spoils data of the owner's messages, and nothing else.
 *
 * Pure; bytes. Threads: the owner's one at a time; receivers any. */
#ifndef SPEC_SLOTS_H
#define SPEC_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SPEC_SLOTS_UNIT = 4096,
    SPEC_SLOTS_UNITS = 512, /* at most */
    /* So many pieces that are still in use are passed before there is no room: their receivers may not come for long. */
    SPEC_SLOTS_PASSED = 16,
};

/* Shared; in a line of its own. */
typedef struct spec_slots_word {
    _Alignas(64) uint32_t is_used;
} spec_slots_word_t;

/* The owner's. */
typedef struct spec_slots {
    spec_slots_word_t *word; /* of SPEC_SLOTS_UNITS */
    uint32_t units;          /* in use of them; 0: not open */
    uint32_t next;
    uint16_t
        piece[SPEC_SLOTS_UNITS]; /* of which piece a unit is: its first one, and 1; 0: of none */
    uint16_t length[SPEC_SLOTS_UNITS]; /* in units, of the piece that begins here */
} spec_slots_t;

/* cache: bytes of the cache that a processor has for itself; 0: not known. Twice as many pay: what is in it belongs to the program's
 * own buffers, too. */
static inline void spec_slots_open(spec_slots_t *s, spec_slots_word_t *word, uint64_t cache)
{
    const uint64_t n = cache / SPEC_SLOTS_UNIT * 2;
    *s = (spec_slots_t){.word = word,
                        .units = n < SPEC_SLOTS_UNITS / 2 ? SPEC_SLOTS_UNITS / 2
                                 : n > SPEC_SLOTS_UNITS   ? SPEC_SLOTS_UNITS
                                                          : (uint32_t) n};
}

/* The first unit from `from` to `to` that is of a piece in use, whose first unit is returned; or `to`, and all are free. */
static inline uint32_t spec_slots_blocked(spec_slots_t *s, uint32_t from, uint32_t to)
{
    for (uint32_t u = from; u < to; ++u) {
        if (0 == s->piece[u]) {
            continue;
        }
        const uint32_t first = s->piece[u] - 1u;
        if (0 != __atomic_load_n(&s->word[first].is_used, __ATOMIC_ACQUIRE)) {
            return first;
        }
        for (uint32_t k = 0; k < s->length[first]; ++k) {
            s->piece[first + k] = 0;
        }
    }
    return to;
}

/* A piece of so many bytes. Returns its first unit; SPEC_SLOTS_UNITS: there is no room. */
static inline uint32_t spec_slots_take(spec_slots_t *s, uint64_t bytes)
{
    const uint64_t wanted = (bytes + SPEC_SLOTS_UNIT - 1) / SPEC_SLOTS_UNIT;
    if (0 == wanted || wanted > s->units) {
        return SPEC_SLOTS_UNITS;
    }
    const uint32_t n = (uint32_t) wanted;
    uint32_t at = s->next;
    for (unsigned passed = 0; passed < SPEC_SLOTS_PASSED; ++passed) {
        at = at + n > s->units ? 0 : at;
        const uint32_t blocked = spec_slots_blocked(s, at, at + n);
        if (blocked != at + n) {
            at = blocked + s->length[blocked];
            continue;
        }
        for (uint32_t u = at; u < at + n && u < SPEC_SLOTS_UNITS;
             ++u) { /* compilers know the bound */
            s->piece[u] = (uint16_t) (at + 1);
        }
        s->length[at] = (uint16_t) n;
        __atomic_store_n(&s->word[at].is_used, 1, __ATOMIC_RELAXED);
        s->next = at + n;
        return at;
    }
    s->next = at; /* the next call goes on behind these */
    return SPEC_SLOTS_UNITS;
}

/* The data is there. The receiver learns that from a packet; this is for the owner's next thread that writes there. */
static inline void spec_slots_filled(spec_slots_word_t *word)
{
    __atomic_store_n(&word->is_used, 1, __ATOMIC_RELEASE);
}

/* The receiver has taken the data out of the piece of this word; or the owner, which has told nobody of it. */
static inline void spec_slots_give(spec_slots_word_t *word)
{
    __atomic_store_n(&word->is_used, 0, __ATOMIC_RELEASE);
}

/* Where data from there goes in its piece: copies between addresses of which the lower digits differ by a few bytes are slow on some
 * processors, so it begins in its line where it did. */
static inline uint32_t spec_slots_skip(const void *data)
{
    return (uint32_t) ((uintptr_t) data & 63u);
}

/* What a peer says of a piece: does it lie in the memory? */
static inline bool spec_slots_contains(uint64_t at, uint64_t bytes)
{
    const uint64_t all = (uint64_t) SPEC_SLOTS_UNITS * SPEC_SLOTS_UNIT;
    return at < all && bytes <= all - at;
}

#endif
