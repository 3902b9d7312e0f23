/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Flow control for unexpected messages (core/spec_flow.h), and the sends that wait for their turn: because the peer's number
 * of the communicator is not known (pml_spec_hello.h), there is no credit, or an earlier one waits.
 *
 * CREDIT is sent from opal_progress, with the latest state, because what makes it due happens under the communicator's lock,
 * where no transport may be called. A send is taken out of the queue and numbered in one step under send_lock, so that all leave
 * in their order and none waits for another's turn. One that may go has its credit set apart, as much as it can cost; what it
 * then does not need is given back when it gets its number. */
#ifndef PML_SPEC_FLOW_H
#define PML_SPEC_FLOW_H

#include "../objects/pml_spec_comm.h"
#include "../objects/pml_spec_packet.h"
#include "../objects/pml_spec_request.h"

/* Limit and window from the parameter and the memory that is there. */
void mca_pml_spec_flow_init(void);

/* ---- the receiver's side; comm->lock is held ---- */

/* The peer has little credit left, as spec_flow_arrived() says of a message that was processed; or it got none, and there may
 * be some now. waits: a receive waits for it; else that is searched when its credit becomes low, and afterwards each
 * receive that is posted says so. */
void mca_pml_spec_flow_low(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer, bool waits);

/* A message went into the queue of unexpected messages. */
static inline void mca_pml_spec_unexp_added(mca_pml_spec_peer_t *peer, mca_pml_spec_frag_t *frag,
                                            uint32_t cost)
{
    frag->cost = peer->is_self ? 0 : cost;
    mca_pml_spec_lock(&mca_pml_spec.lock);
    spec_flow_kept(&mca_pml_spec.store, &peer->flow_in, frag->cost);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
}

/* Take it out. */
static inline void mca_pml_spec_unexp_take(mca_pml_spec_comm_t *comm, mca_pml_spec_frag_t *frag)
{
    mca_pml_spec_peer_t *peer = comm->peers[frag->unexp.src]; /* its message is here: it exists */
    spec_match_remove_unexp(&comm->match, &frag->unexp);
    mca_pml_spec_lock(&mca_pml_spec.lock);
    spec_flow_taken(&mca_pml_spec.store, &peer->flow_in, frag->cost);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (OPAL_UNLIKELY(peer->flow_in.is_low)) {
        mca_pml_spec_flow_low(comm, peer, false);
    }
}

/* A receive that was posted, or a probe, waits for a message of src (or any). */
void mca_pml_spec_flow_search(mca_pml_spec_comm_t *comm, int32_t src);
static inline void mca_pml_spec_flow_wants(mca_pml_spec_comm_t *comm, int32_t src)
{
    if (OPAL_UNLIKELY(comm->low_n > 0)) {
        mca_pml_spec_flow_search(comm, src);
    }
}

/* ---- the sender's side ---- */

/* Spend, if there is enough and nobody waits. The caller holds send_lock. */
static inline bool mca_pml_spec_flow_spend(mca_pml_spec_peer_t *peer, uint32_t cost)
{
    if (OPAL_UNLIKELY(MCA_PML_SPEC_SEEN(peer->shut))
        || OPAL_UNLIKELY(!spec_flow_lets(&peer->flow_out, cost))) {
        return false;
    }
    peer->flow_out.spent += cost;
    return true;
}

/* The first packet of a message brings fewer bytes of data than its credit was spent for. Under no lock. */
static inline void mca_pml_spec_flow_brings(mca_pml_spec_peer_t *peer, size_t paid, size_t data)
{
    mca_pml_spec_lock(&peer->send_lock);
    peer->flow_out.spent -= spec_flow_cost(paid) - spec_flow_cost(data);
    mca_pml_spec_unlock(&peer->send_lock);
}

/* May the send be issued? Then its credit is set apart; else it was put into the queue, or has failed. */
bool mca_pml_spec_send_may_go(mca_pml_spec_send_request_t *sendreq);

/* The queue of those that wait has changed, or the peer's communicator id is known. The caller holds send_lock. */
void mca_pml_spec_flow_changed(mca_pml_spec_peer_t *peer);

/* The first that waits, if it may go now, out of the queue; its credit is set apart. The caller holds send_lock. */
mca_pml_spec_send_request_t *mca_pml_spec_flow_next(mca_pml_spec_peer_t *peer);

SPEC_AM_DECLARE(mca_pml_spec_recv_credit);

#endif
