/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Whether datagrams to a peer and its datagrams arrive, decided before anything depends on it.
 *
 * A peer is reached when it has answered: something from here arrived there, and something from there here. Both directions
 * are in that, so a path of which one direction fails is reached by neither end, and one that works by both. What is left is
 * time: an end that gave up while the other was about to ask takes nothing more from it (its user sees to that), so the other
 * gives up too; an end that has heard the peer, but is not answered yet, waits a little longer; and one that is answered
 * says so at once.
 *
 * A peer is asked again each IW_REACH_EVERY, because a datagram may be lost: of 25 questions one is answered, even if every
 * fifth datagram is lost, but for one peer of 10^10. An end that had no processor itself gives up no one before it has asked
 * IW_REACH_ASKED times.
 *
 * Pure: the caller gives the time, and what the engine knows of the peer. Threads: none. */
#ifndef IW_REACH_H
#define IW_REACH_H

#include "iw_engine.h"

#include <stdbool.h>
#include <stdint.h>

#define IW_REACH_EVERY   UINT64_C(20000000)   /* ns between two questions */
#define IW_REACH_SILENT  UINT64_C(1500000000) /* ns without a word: it is not reached */
#define IW_REACH_LONGEST UINT64_C(1900000000) /* ns, if there was a word, and no answer */
#define IW_REACH_ASKED   12u                  /* questions, at least */

typedef enum iw_reach_verdict {
    IW_REACH_NONE, /* it has not been asked for */
    IW_REACH_ASKS, /* not decided */
    IW_REACH_YES,
    IW_REACH_NO,
} iw_reach_verdict_t;

/* All zero: IW_REACH_NONE. */
typedef struct iw_reach {
    uint64_t began;
    uint64_t next; /* question */
    uint32_t asked;
    uint8_t verdict; /* iw_reach_verdict_t */
} iw_reach_t;

static inline void iw_reach_begin(iw_reach_t *r, uint64_t now)
{
    *r = (iw_reach_t){.began = now, .next = now, .verdict = IW_REACH_ASKS};
}

static inline bool iw_reach_is_over(const iw_reach_t *r, uint64_t now, iw_contact_t contact)
{
    const uint64_t most = IW_CONTACT_HEARD == contact ? IW_REACH_LONGEST : IW_REACH_SILENT;
    return IW_CONTACT_ENDED == contact || (now - r->began >= most && r->asked >= IW_REACH_ASKED);
}

/* Some time has passed, or something came. True: ask the peer now (iw_peer_ask). */
static inline bool iw_reach_step(iw_reach_t *r, uint64_t now, iw_contact_t contact)
{
    if (IW_REACH_ASKS != r->verdict) {
        return false;
    }
    if (IW_CONTACT_ANSWERED == contact) {
        r->verdict = IW_REACH_YES;
        return true; /* whoever takes this in has its answer */
    }
    if (iw_reach_is_over(r, now, contact)) {
        r->verdict = IW_REACH_NO;
        return false;
    }
    if (now < r->next) {
        return false;
    }
    r->next = now + IW_REACH_EVERY;
    ++r->asked;
    return true;
}

#endif
