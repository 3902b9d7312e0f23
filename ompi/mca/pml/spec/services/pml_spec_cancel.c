/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_Cancel of a receive, also of one into whose buffer the sender may be writing; and the same for receives for any source when a
 * second source sends. */
#include "pml_spec_cancel.h"

#include "../objects/pml_spec_explain.h"
#include "../objects/pml_spec_upward.h"
#include "pml_spec_control.h"

#include <stdlib.h>

static void complete_cancelled(mca_pml_spec_recv_request_t *recvreq)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    base->req_ompi.req_status._cancelled = true;
    recvreq->req_recv.req_bytes_packed = 0;
    if (OPAL_UNLIKELY(mca_pml_spec_is_lost(base->req_comm, base->req_peer, base->req_tag))
        && spec_life_lose(&recvreq->life)) {
        mca_pml_spec_recv_lost(recvreq); /* stays: it is not DONE */
    }
    mca_pml_spec_recv_unmatched(recvreq);
}

void mca_pml_spec_recvs_cancelled(spec_node_t *list)
{
    spec_node_t *n;
    while (NULL != (n = spec_list_pop(list))) {
        complete_cancelled(SPEC_ENTRY(n, mca_pml_spec_recv_request_t, posted.node));
    }
}

/* The packet for a REVOKE that has its number. The communicator's lock is held. */
static mca_pml_spec_revoke_hdr_t revoke_of(const mca_pml_spec_peer_t *peer,
                                           const spec_revoke_t *revoke)
{
    (void) mca_pml_spec_add32(&mca_pml_spec.revokes, 1);
    return (mca_pml_spec_revoke_hdr_t){
        .type = MCA_PML_SPEC_REVOKE,
        .epoch = peer->recv.epoch,
        .ctx = peer->ctx,
        .src = peer->comm->my_rank,
        .tag = revoke->bin->tag,
        .no = revoke->no,
        .name = mca_pml_spec.my_name,
        .e = peer->recv.msgs.nxt,
        .dst = peer->rank,
        .back = peer->comm->cid,
        .back_epoch = peer->comm->epoch,
    };
}

/* No lock is held. An RTR has gone there, so there is a way. */
static void send_revoke(const mca_pml_spec_peer_t *peer, const mca_pml_spec_revoke_hdr_t *hdr)
{
    MCA_PML_SPEC_COUNT(revokes_sent);
    mca_pml_spec_control_send(peer->endpoint, NULL, hdr, sizeof(*hdr));
}

/* Nobody will answer, and nobody writes any more. (That the communicator is revoked does not mean that: its processes
 * live, and use RTRs that they had before they learn of it.) */
static bool is_gone(const mca_pml_base_request_t *base, const mca_pml_spec_peer_t *peer)
{
    return NULL != peer
           && (mca_pml_spec_lost(peer) || mca_pml_spec_is_gone(base->req_comm, peer->rank));
}

/* Another thread may be copying what came with the match, which takes no longer than that. */
static void await_placed(const mca_pml_spec_recv_request_t *recvreq)
{
    while (MCA_PML_SPEC_SEEN(recvreq->stage) < MCA_PML_SPEC_MATCHED
           && !(MCA_PML_SPEC_SEEN(recvreq->life) & SPEC_LIFE_DONE)) {
        (void) sched_yield();
    }
}

static void end_gone(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_peer_t *peer,
                     spec_cancel_t outcome)
{
    if (SPEC_CANCEL_DONE_ASK == outcome) {
        mca_pml_spec_revokes_finish(peer);
    }
    if (spec_cancel_is_done(outcome)) {
        complete_cancelled(recvreq);
    } else if (SPEC_CANCEL_TOO_LATE == outcome) {
        await_placed(recvreq);
        if (spec_life_lose(&recvreq->life)) {
            mca_pml_spec_recv_lost(recvreq);
        }
    } else {
        mca_pml_spec_revokes_finish(peer);
    }
}

int mca_pml_spec_recv_cancel(ompi_request_t *request, int flag)
{
    mca_pml_spec_recv_request_t *recvreq = MCA_PML_SPEC_RECVREQ(request);
    const mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(base->req_comm);
    if (!flag || OMPI_REQUEST_ACTIVE != request->req_state) {
        return OMPI_SUCCESS;
    }
    spec_revoke_t *fresh = malloc(sizeof(*fresh));
    if (NULL == fresh) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    mca_pml_spec_lock(&comm->slot->lock);
    /* A request in the queue has as peer its exact source, or the one that it was queued under; others have no business here. */
    mca_pml_spec_peer_t *peer = MCA_PML_SPEC_SEEN(recvreq->peer);
    const spec_cancel_t outcome =
        spec_recv_cancel(NULL == peer ? NULL : &peer->recv, &comm->match, &recvreq->posted, fresh);
    const bool asks = spec_cancel_asks(outcome);
    mca_pml_spec_revoke_hdr_t hdr;
    if (asks) {
        hdr = revoke_of(peer, fresh);
    }
    const bool gone = is_gone(base, peer);
    if (OPAL_UNLIKELY(gone)) {
        (void) mca_pml_spec_add32(&mca_pml_spec.revokes,
                                  -(int32_t) spec_recv_answer_all(&peer->recv));
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    if (!asks) {
        free(fresh);
    }
    if (OPAL_UNLIKELY(gone)) {
        end_gone(recvreq, peer, outcome);
        return OMPI_SUCCESS;
    }
    if (asks) {
        send_revoke(peer, &hdr);
    }
    if (spec_cancel_is_done(outcome)) {
        complete_cancelled(recvreq); /* which may be what keeps the communicator */
    }
    return OMPI_SUCCESS;
}

void mca_pml_spec_widen(mca_pml_spec_comm_t *comm)
{
    mca_pml_spec_peer_t *peer = comm->peers[comm->only]; /* NULL: no receive was for it yet */
    spec_widen_t outcome = SPEC_WIDEN_DONE;
    if (MCA_PML_SPEC_WIDE == comm->narrows) { /* another thread was faster */
        mca_pml_spec_unlock(&comm->slot->lock);
        return;
    }
    __atomic_store_n(&comm->narrows, MCA_PML_SPEC_WIDENS, __ATOMIC_RELAXED);
    while (NULL != peer) {
        spec_revoke_t *fresh = malloc(sizeof(*fresh));
        outcome = NULL == fresh ? SPEC_WIDEN_NO_MEMORY
                                : spec_recv_widen(&peer->recv, &comm->match, comm->only, fresh);
        if (SPEC_WIDEN_ASK != outcome) {
            free(fresh);
            break;
        }
        const mca_pml_spec_revoke_hdr_t hdr = revoke_of(peer, fresh);
        mca_pml_spec_unlock(&comm->slot->lock);
        send_revoke(peer, &hdr);
        mca_pml_spec_lock(&comm->slot->lock);
    }
    if (OPAL_UNLIKELY(SPEC_WIDEN_NO_MEMORY == outcome)) {
        mca_pml_spec_no_memory("receives for any source, which wait for two processes now",
                               sizeof(spec_revoke_t));
    }
    const bool is_done = SPEC_WIDEN_DONE == outcome && MCA_PML_SPEC_WIDENS == comm->narrows;
    if (is_done) {
        __atomic_store_n(&comm->narrows, MCA_PML_SPEC_WIDE, __ATOMIC_RELAXED);
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    if (is_done) {
        mca_pml_spec_upward.widened(comm->peers[comm->my_rank]);
    }
}

SPEC_HOT void mca_pml_spec_revokes_finish(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_comm_t *comm = peer->comm;
    spec_node_t cancelled;
    spec_revoke_t *revoke;
    spec_list_init(&cancelled);

    mca_pml_spec_lock(&comm->slot->lock);
    while (NULL != (revoke = spec_recv_revoke_done(&peer->recv, &comm->match, &cancelled))) {
        free(revoke);
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    mca_pml_spec_recvs_cancelled(&cancelled);
    if (OPAL_UNLIKELY(MCA_PML_SPEC_WIDENS == MCA_PML_SPEC_GLANCE(comm->narrows))) {
        mca_pml_spec_lock(&comm->slot->lock);
        mca_pml_spec_widen(comm);
    }
}

/* An answer for a communicator that is gone. False: none is missing. */
static bool take_late(void)
{
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const bool is_missing = MCA_PML_SPEC_SEEN(mca_pml_spec.late_revokes) > 0;
    if (is_missing) {
        (void) mca_pml_spec_add32(&mca_pml_spec.late_revokes, -1);
        (void) mca_pml_spec_add32(&mca_pml_spec.revokes, -1);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    return is_missing;
}

MCA_PML_SPEC_PACKET(revoked, "REVOKED", mca_pml_spec_revoked_hdr_t)
{
    const mca_pml_spec_revoked_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_get_epoch(hdr->ctx, hdr->epoch);
    mca_pml_spec_peer_t *peer = NULL == comm ? NULL : mca_pml_spec_peer_known(comm, hdr->src);
    bool expected = false;
    if (NULL != peer) {
        mca_pml_spec_lock(&comm->slot->lock);
        expected = spec_recv_revoked(&peer->recv, hdr->no, hdr->tag, hdr->s);
        mca_pml_spec_unlock(&comm->slot->lock);
    }
    if (expected) {
        (void) mca_pml_spec_add32(&mca_pml_spec.revokes, -1);
        mca_pml_spec_revokes_finish(peer);
    } else if ((NULL != comm && !comm->is_ended)
               || !take_late()) { /* it may end just now, in another thread */
        mca_pml_spec_refuse("REVOKED", "nothing was revoked");
    }
    if (NULL != comm) {
        mca_pml_spec_comm_put(comm);
    }
}
