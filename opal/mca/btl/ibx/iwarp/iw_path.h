/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How large a datagram the path to a peer carries: RFC 8899 (DPLPMTUD) with packets of padding.
 *
 * Begins with what every path carries, tries the largest size both ends can take, and if that gets
 * lost searches between what passed and what did not. A path that stops carrying what it did is
 * noticed by the probe timeouts it causes and goes back to the smallest size.
 *
 * Pure: the caller sends the probes and says what became of them. */
#ifndef IW_PATH_H
#define IW_PATH_H

#include <stdbool.h>
#include <stdint.h>

#define IW_PATH_TRIES 3  /* losses of one size until it is taken for too large */
#define IW_PATH_CLOSE 64 /* bytes: a better answer is not worth a probe */

typedef struct iw_path {
    uint16_t size;    /* known to pass */
    uint16_t ceiling; /* may pass; equal to size when the search is over */
    uint16_t probe;   /* size on its way, 0 for none */
    uint8_t lost;     /* times it was */
    bool searching;   /* the largest size failed: halve */
} iw_path_t;

void iw_path_init(iw_path_t *p, uint16_t base, uint16_t ceiling);

/* The size of the probe to send now, or 0. Counts as sent. */
uint16_t iw_path_next(iw_path_t *p);

void iw_path_acked(iw_path_t *p, uint16_t probe);
void iw_path_lost(iw_path_t *p, uint16_t probe);
/* It never left, so it says nothing: iw_path_next may name its size again. */
void iw_path_unsent(iw_path_t *p, uint16_t probe);

/* The local interface does not take datagrams of this size, but those of limit bytes; 0, or one that is not smaller: it
 * does not say of which. */
void iw_path_too_big(iw_path_t *p, uint16_t size, uint16_t limit);

/* What passed seems to pass no more, or the peer was away: back to base, and search again. True if
 * that changes anything. */
bool iw_path_black_hole(iw_path_t *p, uint16_t base);

#endif
