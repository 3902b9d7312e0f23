/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The receiver's side towards one sender in one communicator: when a receive offers its buffer (RTR), and how the offer is taken
 * back. The rules, and why they hold: docs/design/protocol.md, "RTR: which message it is for" and "Taking a receive back".
 *
 * An exchange of REVOKE and REVOKED is of a bin: until it ends nothing new speculates there. RTR and REVOKE are numbered per
 * stream, so that at the sender no REVOKE overtakes an RTR.
 *
 * Threads: none here; the lock of the communicator's matching covers it. */
#ifndef SPEC_RECV_H
#define SPEC_RECV_H

#include "spec_match.h"
#include "spec_stream.h"

typedef struct spec_recv {
    spec_stream_t msgs;  /* messages of this sender; msgs.nxt is E */
    uint32_t ctl_no;     /* number of my next RTR or REVOKE to this sender */
    spec_node_t revokes; /* spec_revoke_t under way */
    uint8_t epoch;       /* the sender's epoch of this communicator, as far as known */
    bool
        epoch_is_known; /* else `epoch` is assumed to be 0: see docs/design/protocol.md, "Epochs" */
    spec_node_t unsorted; /* messages that came before the epoch was known: spec_recv_keep */
    bool given_up;      /* receives may have ended whose RTR it has used: spec_recv_answer_all */
} spec_recv_t;

/* What an RTR tells the sender. */
typedef struct spec_offer {
    uint32_t no; /* number on the control stream */
    uint32_t e;  /* E */
    uint32_t k;
} spec_offer_t;

/* A REVOKE under way: allocated by the caller, given back by spec_recv_revoke_done. */
typedef struct spec_revoke {
    spec_node_t node;
    spec_bin_t *bin;
    uint32_t no; /* its number on the control stream */
    bool answered;
    uint32_t s; /* of the answer */
} spec_revoke_t;

typedef enum spec_cancel {
    SPEC_CANCEL_TOO_LATE, /* it has its message (or was cancelled) already */
    SPEC_CANCEL_DONE,     /* out of the queue, nobody writes: complete it as cancelled */
    SPEC_CANCEL_DONE_ASK, /* the same; and send REVOKE(revoke->no, tag) */
    SPEC_CANCEL_ASK,      /* send REVOKE(revoke->no, tag); the cancel completes later */
    SPEC_CANCEL_WAIT,     /* a REVOKE for the bin is under way: the cancel completes later */
} spec_cancel_t;

void spec_recv_init(spec_recv_t *r);

/* The epoch of the n-th communicator, from 0, that has an id in this process. 0 is the first one's alone: a receiver that
 * knows better of none assumes it, and a packet under that assumption must not come true for a later one, which it would
 * after 256 of them. Others repeat after 255. */
static inline uint8_t spec_recv_epoch_of(uint32_t n)
{
    return 0 == n ? 0 : (uint8_t) (1 + (n - 1) % 255);
}

/* The sender's epoch became known from a message of its. Numbering of RTRs starts anew if the
 * assumption was wrong, since all that went out under it is dropped there. */
void spec_recv_learn_epoch(spec_recv_t *r, uint8_t epoch);

/* Can a message of this epoch be of this communicator, as far as is known? Else it was sent in an earlier one that had the same
 * id. */
static inline bool spec_recv_can_be_of(const spec_recv_t *r, uint8_t epoch)
{
    return !r->epoch_is_known || epoch == r->epoch;
}

/* Keep a message that came too early. False: one of its number was processed or is kept, the caller keeps it. As long as the epoch is
 * not known none is refused: one of an earlier communicator could stand in the way of the one that is meant. */
static inline bool spec_recv_keep(spec_recv_t *r, spec_item_t *item)
{
    if (r->epoch_is_known) {
        return spec_stream_keep(&r->msgs, item);
    }
    spec_list_append(&r->unsorted, &item->node);
    return true;
}

/* When the epoch has become known: the next of those that were kept before, to be kept again or refused by its own epoch; NULL:
 * there are no more. */
static inline spec_item_t *spec_recv_next_unsorted(spec_recv_t *r)
{
    spec_node_t *n = spec_list_pop(&r->unsorted);
    return NULL == n ? NULL : SPEC_ENTRY(n, spec_item_t, node);
}

/* All messages that are kept go to the end of a list, in no order: the communicator ends. */
void spec_recv_drain(spec_recv_t *r, spec_node_t *left);

/* Does the rule allow an RTR for p, which was posted just now? Slow if p is for any tag. */
bool spec_recv_may_speculate(spec_match_t *m, const spec_posted_t *p);

/* The number of the message that p gets if all that are to come first have its tag. */
static inline uint32_t spec_recv_likely_seq(const spec_recv_t *r, const spec_posted_t *p)
{
    return r->msgs.nxt + p->bin->posted_n - 1;
}

/* May the receive just posted speculate? Call directly after spec_match_post, under the same lock.
 * On true, p is marked as having an RTR and *offer says what to send; it must then be sent, because
 * it holds a number of the control stream. p->claim is the caller's: its word offers already. */
bool spec_recv_speculate(spec_recv_t *r, spec_match_t *m, spec_posted_t *p, spec_offer_t *offer);

/* Is a REVOKE to be sent? */
static inline bool spec_cancel_asks(spec_cancel_t outcome)
{
    return SPEC_CANCEL_ASK == outcome || SPEC_CANCEL_DONE_ASK == outcome;
}

/* Is the receive cancelled? */
static inline bool spec_cancel_is_done(spec_cancel_t outcome)
{
    return SPEC_CANCEL_DONE == outcome || SPEC_CANCEL_DONE_ASK == outcome;
}

/* Cancel p. r is the stream of p's source, NULL for SPEC_ANY. `fresh` is memory for a REVOKE; it
 * is consumed only if spec_cancel_asks. */
spec_cancel_t spec_recv_cancel(spec_recv_t *r, spec_match_t *m, spec_posted_t *p,
                               spec_revoke_t *fresh);

/* A message that uses no RTR came for p. May p be completed as cancelled at once (the caller removes
 * it), and the message go to the next receive that it fits? If its cancel waits for REVOKED, and no
 * other receive of its bin has an RTR out: an RTR of p named this very message, so that nobody will
 * use it any more; those of receives behind p count p, and would be off by one without it. */
static inline bool spec_recv_yields(const spec_posted_t *p)
{
    return p->cancel_wanted && p->bin->rtr_n == (uint32_t) p->has_rtr;
}

/* REVOKED(tag, s) arrived. False: nobody asked for that (refuse the packet). */
bool spec_recv_revoked(spec_recv_t *r, uint32_t no, int32_t tag, uint32_t s);

/* ---- receives for any source where only one other can send ----
 *
 * They are narrowed: queued under that source, as if they were for it, and may send RTRs. Receives for the second source, which they stand
 * before, send none until then. When a message of a second source has come that one of them could take,
 * it waits, nothing is narrowed any more, and what is still posted is queued under any source, as soon as no RTR of it may be used. For
 * the first source a receive is gone then, as by a cancel: the rules are the same. */

typedef enum spec_widen {
    SPEC_WIDEN_DONE, /* nothing is narrowed any more */
    SPEC_WIDEN_ASK,  /* send REVOKE(revoke->no, revoke->bin->tag), and call again with another */
    SPEC_WIDEN_WAIT, /* call again when a REVOKE is done (spec_recv_revoke_done) */
    SPEC_WIDEN_NO_MEMORY, /* call again, or give up */
} spec_widen_t;

/* Could a narrowed receive take a message of the second source with this tag? src: the one that they are queued under. */
bool spec_recv_narrowed_waits(spec_match_t *m, int32_t src, int32_t tag);

/* r is the stream of the one source, src. `fresh` is memory for a REVOKE; it is consumed only by SPEC_WIDEN_ASK. */
spec_widen_t spec_recv_widen(spec_recv_t *r, spec_match_t *m, int32_t src, spec_revoke_t *fresh);

/* Are several REVOKEs without an answer? */
bool spec_recv_awaits_several(const spec_recv_t *r);

/* The peer is lost: no message of it needs to be awaited, so take every REVOKE to it as answered. What it has sent before may
 * still come, and miss its receive. Returns how many were not answered. */
uint32_t spec_recv_answer_all(spec_recv_t *r);

/* After E advanced or REVOKED arrived: the next REVOKE whose exchange is finished, out of the
 * list, or NULL. Its bin may have RTRs again and has none out; the receives in `cancelled`
 * (linked by their node) left the queue and are to be completed as cancelled. */
spec_revoke_t *spec_recv_revoke_done(spec_recv_t *r, spec_match_t *m, spec_node_t *cancelled);

#endif
