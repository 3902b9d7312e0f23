/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Flow control for unexpected messages (core/spec_flow.h), and the sends that wait for their turn.
 *
 * As the receiver. What the core wants to be told is sent from opal_progress, as HOLD of the latest state:
 * the events come under the communicator's lock, where no transport may be called.
 *
 * As the sender. A send waits, before it has a number, while
 *   - the peer's number of the communicator is not known (pml_spec_hello.h),
 *   - the peer has asked to hold back, and all that it lets is announced,
 *   - a transport had no room for a message before it: so at most one message per thread waits for the
 *     transport with a number and a protocol that cannot be changed any more, whatever the number of sends,
 *   - an earlier one waits.
 * peer->shut is not 0 while anything of this is so, or the peer is held: the one thing that a small
 * message has to look at. */
#ifndef PML_SPEC_FLOW_H
#define PML_SPEC_FLOW_H

#include "pml_spec_comm.h"
#include "pml_spec_packet.h"
#include "pml_spec_request.h"

/* ---- the receiver's side; comm->lock is held ---- */

/* A message went into the queue of unexpected messages. */
void mca_pml_spec_unexp_added(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer,
                              const mca_pml_spec_frag_t *frag);
/* Take it out. */
void mca_pml_spec_unexp_take(mca_pml_spec_comm_t *comm, mca_pml_spec_frag_t *frag);

/* Slow path of the next two. */
void mca_pml_spec_flow_matched(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer);
void mca_pml_spec_flow_search(mca_pml_spec_comm_t *comm, int32_t src);

/* A message of the peer found its receive. */
static inline void mca_pml_spec_flow_found(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer)
{
    if (OPAL_UNLIKELY(peer->flow_in.is_held)) {
        mca_pml_spec_flow_matched(comm, peer);
    }
}

/* A receive that was posted, or a probe, waits for a message of src (or any). */
static inline void mca_pml_spec_flow_wants(mca_pml_spec_comm_t *comm, int32_t src)
{
    if (OPAL_UNLIKELY(comm->held_n > 0)) {
        mca_pml_spec_flow_search(comm, src);
    }
}

/* The communicator's peer ends: nothing of it is in the queue any more. */
void mca_pml_spec_flow_end(mca_pml_spec_peer_t *peer);

/* ---- the sender's side ---- */

/* Must the send wait for its turn? Then it has been put into the queue. */
bool mca_pml_spec_send_waits(mca_pml_spec_send_request_t *sendreq);

/* Something that sends to the peer waited for has happened: issue those whose turn it is. Takes no lock
 * of the caller's; keeps the communicator until it returns. */
void mca_pml_spec_send_turns(mca_pml_spec_peer_t *peer);

/* A transport had no room for a message to the peer; now it had. */
void mca_pml_spec_send_stuck(mca_pml_spec_peer_t *peer);
void mca_pml_spec_send_unstuck(mca_pml_spec_peer_t *peer);

/* Is the peer to be sent no data that it has not asked for? */
static inline bool mca_pml_spec_is_held(const mca_pml_spec_peer_t *peer)
{
    return OPAL_UNLIKELY(0 != (peer->shut & MCA_PML_SPEC_SHUT_HELD));
}

MCA_PML_SPEC_AM_DECLARE(mca_pml_spec_recv_hold);

#endif
