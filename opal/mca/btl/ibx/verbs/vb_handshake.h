/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Requests for a connection, and their answers, by datagrams that may be lost, doubled and late: what one that has arrived
 * means, and when a request is said again. What rdma_cm's protocol does for its users (InfiniBand specification, 12.9).
 *
 * Words
 *   attempt   has a number, which the requesting side counts upwards; a connection is named by that of the attempt it came of
 *   message      a datagram about an attempt (vb_wire.h): the request, its answer, that the welcome has been heard, or that it
 *                is gone
 *
 * Rules
 *   1. A request is said again until it is answered, and answered as often as it comes, the same each time. A welcome is
 *      said again, too, until its hearer says that it is ready: the first message may lie for long in a queue that a
 *      program takes from when it is done computing, and the attempt has a deadline.
 *   2. One that is older than the newest of its process is nobody's any more: no word.
 *   3. An answer counts if it is to the attempt under way, the first time.
 *   4. A welcome to an attempt that has been given up is answered: gone. Else the other side would wait. So is the word that a
 *      connection is ready if it is not there any more.
 *   5. Gone ends the attempt or connection of its number, and no other. One that overtakes its request ends that, too.
 *
 * Pure: time is a parameter (nanoseconds). */
#ifndef VB_HANDSHAKE_H
#define VB_HANDSHAKE_H

#include "vb_wire.h"

/* With one peer. */
typedef struct vb_handshake {
    uint64_t theirs;    /* number of its newest request; 0: none */
    vb_answer_t answer; /* to that */
} vb_handshake_t;

/* My attempt, or the peer's that I have welcomed; number 0: there is none. */
typedef struct vb_attempt {
    uint64_t number;
    bool is_mine;
    bool is_answered; /* mine; the peer's: it is ready there */
    uint64_t again;   /* until then the request, or the welcome, is said again at this time */
    uint64_t pause;   /* and after this the next time */
} vb_attempt_t;

typedef enum vb_verdict {
    VB_NOTHING,  /* late, or heard before */
    VB_IS_ASKED, /* a request: to be decided on, and vb_handshake_t.answer to be set */
    VB_IS_REPEATED, /* the request that was last decided on: vb_handshake_t.answer is to be said again */
    VB_IS_ANSWERED, /* my request */
    VB_IS_UNHEARD,  /* my request, again: VB_READY is to be said again */
    VB_IS_READY,    /* the peer's attempt that I welcomed */
    VB_IS_IN_VAIN,  /* the peer welcomed an attempt that I have given up, or is ready for one: VB_GONE is to be said */
    VB_IS_ENDED,    /* the connection, by the peer; or the attempt of its own that I welcomed */
} vb_verdict_t;

/* A message has arrived whose sender and key are right. attempt: the one with this peer that is under way or a connection. */
vb_verdict_t vb_handshake_hear(vb_handshake_t *handshake, vb_attempt_t *attempt,
                               const vb_cm_message_t *message);

/* A request of mine, or the welcome to one of the peer's, is said for the first time. */
void vb_attempt_begin(vb_attempt_t *attempt, uint64_t number, bool is_mine, uint64_t now);
/* Is it time to say it again? True at most once for each time. */
bool vb_attempt_is_due(vb_attempt_t *attempt, uint64_t now);

#endif
