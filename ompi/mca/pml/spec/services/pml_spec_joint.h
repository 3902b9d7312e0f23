/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A large message that both ends move: where processors copy the data (shared memory), sender and receiver take pieces of it by a
 * word that both reach (core/spec_claim.h), the sender to put them or to send them in fragments, the receiver to get them
 * (core/spec_joint.h). Pieces are taken from opal_progress, and where a send that blocks hears of its receiver: so an end that
 * waits in MPI moves the message, one that computes moves nothing until it must, and if both wait both processors copy
 * (docs/design/protocol.md, "Both ends move the data").
 *
 * Each end accounts for the pieces that it has moved, and tells the other by FIN of each that it has put or got. An end that has no part in it - its system forbids it, the word cannot be reached - takes none, and the other moves all.
 *
 * Threads: any; a piece belongs to the thread that took it. */
#ifndef PML_SPEC_JOINT_H
#define PML_SPEC_JOINT_H

#include "../objects/pml_spec_request.h"

/* There is none. */
void mca_pml_spec_joint_init(void);

/* May both ends move a message of so many bytes from or to this peer? fragments: it goes in fragments while both wait. If not,
 * and waits: this end has nothing better to do than to move it, so that it must be worth two parts, and the other end has
 * nothing else to do: an exchange is not known. */
bool mca_pml_spec_joint_may(mca_pml_spec_peer_t *peer, uint64_t length, bool waits, bool fragments);

/* Does this message go in fragments while both ends wait? Asked once for each, and told with it: RTS, or the word of the offer. */
bool mca_pml_spec_joint_sends(mca_pml_spec_send_request_t *sendreq);

/* A send that blocks and has announced its message copies its first fragment while the receiver hears of it. The caller keeps the
 * request. */
void mca_pml_spec_joint_ahead(mca_pml_spec_send_request_t *sendreq);

/* This end takes part in moving joint.length bytes from joint.offset of the message on; the caller has set claim, remote, offset,
 * length, and added 1 to what the request waits for (left, missing), which is taken off when no piece is left. What the
 * other end may bring or ask for is in `owed`. It may call back, and end the request. */
void mca_pml_spec_joint_send(mca_pml_spec_send_request_t *sendreq);
/* by_copy: asks for a range that cannot be got. */
void mca_pml_spec_joint_recv(mca_pml_spec_recv_request_t *recvreq,
                             void (*by_copy)(void *recvreq, uint64_t offset, uint64_t length));

#endif
