/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* An eager message that is longer than a packet: it comes in parts, each behind the one before, without being asked for.
 *
 * The first part has the match header, and is matched like any message. The others name it by its sequence number. They follow
 * it by the same transport, which keeps their order: what comes in another order is none of an honest sender.
 *
 * Pure; bytes. Threads: under the lock of the receiver's communicator. */
#ifndef SPEC_PARTS_H
#define SPEC_PARTS_H

#include "spec_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One that is not whole yet; embedded in what it goes into. */
typedef struct spec_parts {
    spec_node_t node; /* among those of its sender */
    uint32_t seq;
    uint32_t length; /* of the message */
    uint32_t nxt;    /* the next byte that is to come */
    uint8_t epoch;   /* of the sender, as in its packets */
    bool
        is_kept; /* it goes into memory of the library, since no receive has matched its first part */
} spec_parts_t;

/* In how many parts a message goes, of `most` bytes at most: two or more, so that the receiver copies one while the sender copies
 * the next. */
static inline uint32_t spec_parts_count(uint64_t length, uint64_t most)
{
    const uint64_t n = (length + most - 1) / most;
    return n < 2 ? 2 : (uint32_t) n;
}

/* Bytes of each part but the last, which has what is left: about as many, for short packets may overtake long ones. */
static inline uint64_t spec_parts_size(uint64_t length, uint64_t most)
{
    const uint32_t n = spec_parts_count(length, most);
    return (length + n - 1) / n;
}

/* What is wrong with a first part of so many bytes; NULL: nothing. */
static inline const char *spec_parts_check(uint64_t length, uint64_t first, uint64_t least,
                                           uint64_t most)
{
    return length < least ? "so short a message has no parts"
           : 0 == first || length > most || first > length
               ? "it has more data than it says, or may have"
               : NULL;
}

/* The first part is here, and is not all of it. */
static inline void spec_parts_begin(spec_parts_t *p, spec_node_t *list, uint32_t seq, uint8_t epoch,
                                    uint32_t length, uint32_t first)
{
    p->seq = seq;
    p->epoch = epoch;
    p->length = length;
    p->nxt = first;
    spec_list_append(list, &p->node);
}

static inline bool spec_parts_is_whole(const spec_parts_t *p)
{
    return p->nxt == p->length;
}

/* Another part came. Its message, which counts it now, and is in the list no more if it is whole; or NULL, and why it
 * is refused. */
static inline spec_parts_t *spec_parts_take(spec_node_t *list, uint32_t seq, uint8_t epoch,
                                            uint32_t offset, size_t bytes, const char **wrong)
{
    SPEC_LIST_EACH (n, list) {
        spec_parts_t *p = SPEC_ENTRY(n, spec_parts_t, node);
        if (p->seq != seq || p->epoch != epoch) {
            continue;
        }
        if (offset != p->nxt || 0 == bytes || bytes > p->length - p->nxt) {
            *wrong = "it is not the next part of its message";
            return NULL;
        }
        p->nxt += (uint32_t) bytes;
        if (spec_parts_is_whole(p)) {
            spec_list_remove(&p->node);
        }
        return p;
    }
    *wrong = "no message that is not whole has its number";
    return NULL;
}

/* It was taken out of the list, so that nothing more of it comes. The bytes that nobody has taken, for which the caller accounts; whoever
 * has taken others does for those, when they are in their place. So the last of them ends it. */
static inline uint32_t spec_parts_left(const spec_parts_t *p)
{
    return p->length - p->nxt;
}

#endif
