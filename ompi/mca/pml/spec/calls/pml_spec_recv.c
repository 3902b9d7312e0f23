/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A receive begins: it takes the unexpected message that it wants, or is posted, with or without an RTR to the sender. */
#include "pml_spec_calls.h"

#include "../dispatch/pml_spec_arrive.h"
#include "../objects/pml_spec_agent.h"
#include "../protocols/pml_spec_rtr.h"
#include "../services/pml_spec_adapt.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_patience.h"
#include "../services/pml_spec_why.h"

/* What a receive does, and why it sends no RTR. */
typedef struct plan {
    spec_recv_plan_t does;
    mca_pml_spec_no_rtr_t why;
} plan_t;

static bool predicts(mca_pml_spec_recv_request_t *recvreq)
{
    return MCA_PML_SPEC_RTR_GOES == mca_pml_spec_rtr_why_not(recvreq);
}

static plan_t before_recv(mca_pml_spec_recv_request_t *recvreq, bool blocking)
{
    mca_pml_spec_peer_t *peer = recvreq->peer;
    const int32_t tag = recvreq->req_recv.req_base.req_tag;
    plan_t plan = {.why = MCA_PML_SPEC_RTR_SMALL};
    if (recvreq->capacity <= mca_pml_spec.eager_min || NULL == peer
        || recvreq->capacity <= MCA_PML_SPEC_GLANCE(peer->eager_limit)) {
        return plan;
    }
    const bool stopped = mca_pml_spec_adapt_recalls(peer, tag);
    if (!stopped && MCA_PML_SPEC_RTR_GOES != (plan.why = mca_pml_spec_rtr_why_not(recvreq))) {
        return plan;
    }
    const bool wins = spec_costs_offers(MCA_PML_SPEC_GLANCE(peer->mover), blocking);
    const spec_before_recv_t before = {.capacity = recvreq->capacity,
                                       .waits = blocking,
                                       .offers =
                                           !stopped && wins && mca_pml_spec_adapt_may(peer, tag),
                                       .wins = wins};
    plan.does = spec_policy_before_recv(&before);
    plan.why = !wins              ? MCA_PML_SPEC_RTR_WAITS
               : !plan.does.offers ? MCA_PML_SPEC_RTR_STOPPED
                                   : MCA_PML_SPEC_RTR_GOES;
    if (plan.does.poll && (plan.does.offers || spec_policy_polls(&peer->policy, spec_now()))) {
        (void) mca_pml_spec_poll(peer);
        if (!blocking) {
            mca_pml_spec_patience_for_rts(recvreq);
        }
    }
    if (OPAL_LIKELY(plan.does.offers) && !mca_pml_spec_rtr_prepare(recvreq)) {
        plan.does.offers = false;
        plan.why = MCA_PML_SPEC_RTR_NO_MEMORY;
    }
    return plan;
}

/* Give it the unexpected message that it wants. The communicator's lock is held, and is released if there is one. */
static bool take_unexpected(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_comm_t *comm,
                            const plan_t *plan)
{
    const mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    spec_unexp_t *unexp = 0 == comm->match.unexp_n
                              ? NULL
                              : spec_match_find_unexp(&comm->match, base->req_peer, base->req_tag);
    if (NULL == unexp) {
        return false;
    }
    mca_pml_spec_frag_t *frag = SPEC_ENTRY(unexp, mca_pml_spec_frag_t, unexp);
    mca_pml_spec_unexp_take(comm, frag);
    mca_pml_spec_unlock(&comm->slot->lock);
    recvreq->awaits_rts = false;
    if (plan->does.watches && predicts(recvreq)) { /* the sender was first */
        mca_pml_spec_adapt_judge(recvreq, mca_pml_spec_frag_hdr(frag)->seq,
                                 mca_pml_spec_message_length(frag), false, 0);
    }
    mca_pml_spec_deliver_frag(recvreq, frag);
    return true;
}

/* It is posted, and its RTR goes out. The communicator's lock is held and is released: under it the packet is only
 * built, since without it the message may arrive in another thread and end the request. */
static void send_rtr(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_comm_t *comm,
                     const spec_offer_t *offer)
{
    mca_pml_spec_peer_t *peer = recvreq->peer;
    mca_pml_spec_rtr_packet_t packet;
    mca_pml_spec_recv_enter(recvreq, MCA_PML_SPEC_OFFERED);
    recvreq->offered = true;
    recvreq->offered_to = peer;
    (void) mca_pml_spec_add32(&peer->offers, 1);
    (void) mca_pml_spec_add32(&mca_pml_spec.offers, 1);
    mca_pml_spec_rtr_build(recvreq, offer, &packet);
    if (OPAL_UNLIKELY(mca_pml_spec.verbose >= MCA_PML_SPEC_WHY)) {
        mca_pml_spec_why_recv(recvreq, MCA_PML_SPEC_RTR_GOES);
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    mca_pml_spec_rtr_send(peer, &packet);
}

/* It is posted without an RTR. The communicator's lock is held. */
static void wait_silently(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_comm_t *comm,
                          const plan_t *plan)
{
    /* Would it have sent an RTR, and is it likely to get a message that is sampled? */
    if (plan->does.watches
        && spec_adapt_samples(spec_recv_likely_seq(&recvreq->peer->recv, &recvreq->posted),
                              recvreq->capacity)
        && spec_recv_may_speculate(&comm->match, &recvreq->posted)
        && predicts(recvreq)) {
        recvreq->watched_since = spec_now();
    }
    if (OPAL_UNLIKELY(mca_pml_spec.verbose >= MCA_PML_SPEC_WHY) && NULL != recvreq->peer) {
        mca_pml_spec_why_recv(recvreq, MCA_PML_SPEC_RTR_GOES == plan->why ? MCA_PML_SPEC_RTR_BEHIND
                                                                          : plan->why);
    }
}

/* The source under which the receive will be queued. */
static int32_t source_of(const mca_pml_base_request_t *base, const mca_pml_spec_comm_t *comm)
{
    return OMPI_ANY_SOURCE == base->req_peer
                   && MCA_PML_SPEC_NARROWS == MCA_PML_SPEC_GLANCE(comm->narrows)
               ? comm->only
               : base->req_peer;
}

/* It is about to be posted. Can a second source send by now, or not even the first? The lock is held. */
static bool must_widen(const mca_pml_spec_recv_request_t *recvreq, const mca_pml_spec_comm_t *comm)
{
    return recvreq->posted.narrowed
           && (MCA_PML_SPEC_NARROWS != comm->narrows || mca_pml_spec_lost(recvreq->peer));
}

/* A receive from this process itself stands behind those for any source, wherever they are queued. */
static bool may_offer(const mca_pml_spec_peer_t *peer, const mca_pml_spec_comm_t *comm)
{
    return !peer->is_self || MCA_PML_SPEC_WIDE == comm->narrows;
}

SPEC_HOT int mca_pml_spec_recv_start(mca_pml_spec_recv_request_t *recvreq, bool blocking)
{
    const mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(base->req_comm);
    mca_pml_spec_peer_t *peer = NULL;
    spec_offer_t offer;

    mca_pml_spec_recv_reset(recvreq);
    recvreq->posted.src = source_of(base, comm);
    recvreq->posted.tag = base->req_tag;
    recvreq->posted.narrowed = recvreq->posted.src != base->req_peer;
    if (OMPI_ANY_SOURCE != recvreq->posted.src) {
        recvreq->peer = peer = mca_pml_spec_peer(comm, recvreq->posted.src);
        if (OPAL_UNLIKELY(NULL == peer)) {
            return OMPI_ERR_OUT_OF_RESOURCE;
        }
    }
    recvreq->blocks = blocking;
    recvreq->starts = true;
    mca_pml_spec_agent_watch(&recvreq->life, blocking, recvreq->capacity,
                             recvreq->req_recv.req_base.req_tag);
    plan_t plan = before_recv(recvreq, blocking);
    mca_pml_spec_lock(&comm->slot->lock);
    if (take_unexpected(recvreq, comm, &plan)) {
        return OMPI_SUCCESS;
    }
    if (OPAL_UNLIKELY(must_widen(recvreq, comm))) {
        recvreq->posted.src = SPEC_ANY;
        recvreq->posted.narrowed = false;
        recvreq->peer = NULL;
        plan = (plan_t){
            .why = MCA_PML_SPEC_RTR_ANY_SOURCE}; /* what was prepared goes with the request */
    } else if (NULL != peer && mca_pml_spec_lost(peer)) {
        mca_pml_spec_unlock(&comm->slot->lock);
        mca_pml_spec_recv_fail(recvreq, OMPI_ERR_UNREACH);
        return OMPI_SUCCESS;
    }
    if (OPAL_UNLIKELY(0 != spec_match_post(&comm->match, &recvreq->posted))) {
        mca_pml_spec_unlock(&comm->slot->lock);
        mca_pml_spec_recv_fail(recvreq, OMPI_ERR_OUT_OF_RESOURCE); /* what was to be offered goes with it */
        return OMPI_SUCCESS;
    }
    recvreq->starts = false;
    mca_pml_spec_flow_wants(comm, base->req_peer);
    if (plan.does.offers && may_offer(peer, comm)
        && spec_recv_speculate(&peer->recv, &comm->match, &recvreq->posted, &offer)) {
        send_rtr(recvreq, comm, &offer);
    } else {
        wait_silently(recvreq, comm, &plan);
        mca_pml_spec_unlock(&comm->slot->lock);
    }
    return OMPI_SUCCESS;
}
