/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which packet numbers of a peer have been received: refuses what comes twice, and makes the ranges
 * of an acknowledgement.
 *
 * A ring of IW_SEEN bits from base on. The sender says in every head below which number it no
 * longer waits (floor); base follows that, so numbers lost for good cost nothing. The sender keeps
 * its numbers within IW_SEEN of its floor. */
#ifndef IW_SEEN_H
#define IW_SEEN_H

#include "iw_wire.h"

#include <stdbool.h>
#include <stdint.h>

#define IW_SEEN 2048u /* numbers; 256 bytes */

typedef struct iw_seen {
    uint64_t base; /* lower numbers are refused */
    uint64_t end;  /* one above the highest received */
    uint64_t bits[IW_SEEN / 64];
} iw_seen_t;

typedef enum iw_seen_verdict {
    IW_SEEN_NEW,
    IW_SEEN_TWICE, /* received before, or so old that it may have been */
    IW_SEEN_FAR,   /* beyond what a correct sender uses */
} iw_seen_verdict_t;

/* Would pn with this floor be new? Changes nothing: the packet may still be refused for another
 * reason. */
iw_seen_verdict_t iw_seen_check(const iw_seen_t *s, uint64_t pn, uint64_t floor);

/* So many numbers below this floor were never received: the sender has given them up. Nothing is known before the first. Changes
 * nothing. Only after iw_seen_check said IW_SEEN_NEW. */
uint32_t iw_seen_missing(const iw_seen_t *s, uint64_t floor);

/* Received. Only after iw_seen_check said IW_SEEN_NEW. True: it is the highest and directly
 * follows the one before (nothing was lost or overtaken). */
bool iw_seen_add(iw_seen_t *s, uint64_t pn, uint64_t floor);

/* The ranges of what has been received, from the highest down, at most max of them (the newest).
 * *largest is the highest number. Returns how many; 0: nothing is to be said. */
unsigned iw_seen_ranges(const iw_seen_t *s, iw_range_t *range, unsigned max, uint64_t *largest);

#endif
