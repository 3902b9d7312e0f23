/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Polls for a moment for the peer's half of an exchange, and measures how long transfers take. */
#include "pml_spec_patience.h"

#include <sched.h>

void mca_pml_spec_patience_moved(mca_pml_spec_peer_t *peer, uint64_t length, uint64_t started)
{
    if (0 != started) {
        const uint64_t took = spec_now() - started;
        mca_pml_spec_lock(&peer->send_lock);
        spec_policy_observed(&peer->policy, SPEC_SAW_MOVED, length, took);
        mca_pml_spec_unlock(&peer->send_lock);
    }
}

bool mca_pml_spec_rtr_is_here(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_spec_lock(&peer->send_lock);
    const bool is_here = spec_send_has_rtr(&peer->send, sendreq->req_send.req_base.req_tag);
    mca_pml_spec_unlock(&peer->send_lock);
    return is_here;
}

static bool rtr_is_here(void *request)
{
    return mca_pml_spec_rtr_is_here(request);
}

static bool message_is_here(void *request)
{
    const mca_pml_base_request_t *base = request;
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(base->req_comm);
    if (0 == MCA_PML_SPEC_GLANCE(comm->match.unexp_n)) {
        return false;
    }
    mca_pml_spec_lock(&comm->slot->lock);
    const bool is_here = NULL != spec_match_find_unexp(&comm->match, base->req_peer, base->req_tag);
    mca_pml_spec_unlock(&comm->slot->lock);
    return is_here;
}

/* Polls until what the request wants is here, for as long as it is worth it. */
static void wait_for(mca_pml_spec_peer_t *peer, spec_patience_t *patience, uint64_t length,
                     bool (*is_here)(void *request), void *request)
{
    mca_pml_spec_lock(&peer->send_lock);
    uint64_t most = spec_patience_of(patience);
    mca_pml_spec_unlock(&peer->send_lock);
    if (most / 1000 >= mca_pml_spec.patience_max) {
        most = mca_pml_spec.patience_max * 1000;
    }
    if (OPAL_LIKELY(0 == most)) {
        return;
    }
    const uint64_t start = spec_now();
    uint64_t took = 0;
    bool came = false;
    do {
        if (0 == mca_pml_spec_poll(peer)) {
            sched_yield(); /* it may be the other one's processor */
        }
        took = spec_now() - start;
        came = is_here(request);
    } while (!came && took < most);
    mca_pml_spec_lock(&peer->send_lock);
    spec_patience_waited(patience, length, took, came);
    mca_pml_spec_unlock(&peer->send_lock);
    MCA_PML_SPEC_COUNT(patience_waits);
    MCA_PML_SPEC_COUNT_N(patience_met, came);
    MCA_PML_SPEC_COUNT_N(patience_us, took / 1000);
}

void mca_pml_spec_patience_for_rtr(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const uint64_t length = sendreq->req_send.req_bytes_packed;
    if (OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(peer->policy.for_rtr.wait)) || !mca_pml_spec_may_poll()
        || length < SPEC_PATIENCE_LEAST || 0 == MCA_PML_SPEC_GLANCE(peer->offers)
        || rtr_is_here(sendreq)) {
        return;
    }
    wait_for(peer, &peer->policy.for_rtr, length, rtr_is_here, sendreq);
}

void mca_pml_spec_patience_for_rts(mca_pml_spec_recv_request_t *recvreq)
{
    mca_pml_spec_peer_t *peer = recvreq->peer;
    if (recvreq->capacity < SPEC_PATIENCE_LEAST
        || OPAL_LIKELY(0 == MCA_PML_SPEC_GLANCE(peer->announced))
        || 0 == MCA_PML_SPEC_GLANCE(peer->policy.for_rts.ps_per_byte)) { /* a processor moves it */
        return;
    }
    recvreq->awaits_rts = true;
    if (0 == MCA_PML_SPEC_GLANCE(peer->policy.for_rts.wait) || !mca_pml_spec_may_poll()
        || message_is_here(recvreq)) {
        return;
    }
    wait_for(peer, &peer->policy.for_rts, recvreq->capacity, message_is_here, recvreq);
}

void mca_pml_spec_patience_missed(mca_pml_spec_recv_request_t *recvreq, uint64_t length)
{
    mca_pml_spec_peer_t *peer = recvreq->peer;
    recvreq->awaits_rts = false;
    mca_pml_spec_lock(&peer->send_lock);
    spec_policy_observed(&peer->policy, SPEC_SAW_LATE_RTS, length, 0);
    mca_pml_spec_unlock(&peer->send_lock);
}
