/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See pml_spec_flow.h. */
#include "pml_spec_flow.h"

#include "pml_spec_hello.h"

/* ---- the receiver's side ---- */

/* What a message takes while it is unexpected: the allocator rounds up to a power of two. */
static uint64_t charge(const mca_pml_spec_frag_t *frag)
{
    uint64_t data = 0;
    if (frag->seg.seg_len > sizeof(frag->space)) {
        for (data = sizeof(frag->space); data < frag->seg.seg_len; data *= 2) {
        }
    }
    return sizeof(*frag) + data;
}

/* Send the latest state. */
static bool tell(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_peer_t *peer = SPEC_ENTRY(pending, mca_pml_spec_peer_t, flow_pending);
    mca_pml_spec_comm_t *comm = peer->comm;
    ompi_communicator_t *keep = comm->ompi_comm;

    mca_pml_spec_lock(&comm->lock);
    peer->flow_pends = false;
    const spec_flow_out_t told = spec_flow_tell(&peer->flow_in);
    const mca_pml_spec_hold_hdr_t hdr = {.type = MCA_PML_SPEC_HOLD,
                                         .epoch = peer->recv.epoch,
                                         .ctx = peer->ctx,
                                         .src = comm->my_rank,
                                         .no = told.no,
                                         .until = told.until,
                                         .is_held = told.is_held};
    const bool knows = peer->ctx_known;
    mca_pml_spec_unlock(&comm->lock);

    mca_bml_base_endpoint_t *endpoint = knows ? mca_pml_spec_endpoint(peer) : NULL;
    if (NULL != endpoint) {
        MCA_PML_SPEC_VERBOSE(10, "hold: rank %d %s, until %u; processed so far: %u", peer->rank,
                             told.is_held ? "is asked to hold back" : "may go on", told.until,
                             peer->recv.msgs.nxt);
        mca_pml_spec_control_send(endpoint, NULL, &hdr, sizeof(hdr));
    }
    OBJ_RELEASE(keep); /* perhaps the last: peer is gone then */
    return true;
}

static void tell_later(mca_pml_spec_peer_t *peer)
{
    if (!peer->flow_pends) {
        peer->flow_pends = true;
        peer->flow_pending.retry = tell;
        OBJ_RETAIN(peer->comm->ompi_comm);
        mca_pml_spec_pend(&peer->flow_pending);
    }
}

/* It has announced all that it may. Is there a receive that waits for more? */
static void look_for_waiting(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer)
{
    const uint32_t nxt = peer->recv.msgs.nxt;
    if (!spec_seq_before(nxt, peer->flow_in.until) && spec_match_waits_for(&comm->match, peer->rank)
        && spec_flow_wanted(&peer->flow_in, nxt)) {
        tell_later(peer);
    }
}

void mca_pml_spec_unexp_added(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer,
                              const mca_pml_spec_frag_t *frag)
{
    if (peer->proc == ompi_proc_local()) {
        return; /* who could receive what it waits for? */
    }
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const bool begins = spec_flow_added(&mca_pml_spec.store, &peer->flow_in, peer->recv.msgs.nxt, charge(frag));
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (OPAL_UNLIKELY(begins)) {
        ++comm->held_n;
        MCA_PML_SPEC_COUNT(holds);
        tell_later(peer);
    }
    if (OPAL_UNLIKELY(peer->flow_in.is_held)) {
        look_for_waiting(comm, peer);
    }
}

static void taken(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer, uint64_t bytes)
{
    const bool was_held = peer->flow_in.is_held;
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const bool news = spec_flow_taken(&mca_pml_spec.store, &peer->flow_in, peer->recv.msgs.nxt, bytes);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (OPAL_UNLIKELY(news)) {
        comm->held_n -= was_held && !peer->flow_in.is_held;
        tell_later(peer);
    }
}

void mca_pml_spec_unexp_take(mca_pml_spec_comm_t *comm, mca_pml_spec_frag_t *frag)
{
    mca_pml_spec_peer_t *peer = comm->peers[frag->unexp.src]; /* whose message it is: so there is one */
    spec_match_remove_unexp(&comm->match, &frag->unexp);
    if (peer->proc != ompi_proc_local()) {
        taken(comm, peer, charge(frag));
    }
}

void mca_pml_spec_flow_matched(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer)
{
    taken(comm, peer, 0);
    if (peer->flow_in.is_held) {
        look_for_waiting(comm, peer);
    }
}

void mca_pml_spec_flow_search(mca_pml_spec_comm_t *comm, int32_t src)
{
    const uint32_t first = SPEC_ANY == src ? 0 : (uint32_t) src;
    const uint32_t end = SPEC_ANY == src ? comm->size : first + 1;
    for (uint32_t i = first; i < end; ++i) {
        mca_pml_spec_peer_t *peer = comm->peers[i];
        if (NULL != peer && spec_flow_wanted(&peer->flow_in, peer->recv.msgs.nxt)) {
            tell_later(peer);
        }
    }
}

void mca_pml_spec_flow_end(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_lock(&mca_pml_spec.lock);
    if (peer->flow_pends) { /* only at the end of the process: else the communicator is kept */
        spec_list_remove(&peer->flow_pending.node);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
}

/* ---- the sender's side ---- */

/* The caller holds send_lock. */
static bool may_go(const mca_pml_spec_peer_t *peer)
{
    return peer->ctx_known && 0 == peer->stuck_n && spec_flow_lets(&peer->flow_out, peer->send.nxt);
}

static void set_shut(mca_pml_spec_peer_t *peer)
{
    const bool queued = peer->turning || !spec_list_is_empty(&peer->waiting);
    const uint32_t shut = (peer->flow_out.is_held ? MCA_PML_SPEC_SHUT_HELD : 0)
                          | (queued || !may_go(peer) ? MCA_PML_SPEC_SHUT_QUEUE : 0);
    __atomic_store_n(&peer->shut, shut, __ATOMIC_RELEASE);
}

bool mca_pml_spec_send_waits(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_spec_lock(&peer->send_lock);
    const bool waits = peer->turning || !spec_list_is_empty(&peer->waiting) || !may_go(peer);
    const bool greet = !peer->ctx_known && !peer->greeted;
    if (waits) {
        spec_list_append(&peer->waiting, &sendreq->unnoticed);
        peer->greeted |= greet;
        set_shut(peer);
        MCA_PML_SPEC_COUNT(queued);
    }
    mca_pml_spec_unlock(&peer->send_lock);
    if (greet) {
        mca_pml_spec_hello_say(peer);
    }
    return waits;
}

void mca_pml_spec_send_turns(mca_pml_spec_peer_t *peer)
{
    ompi_communicator_t *keep = peer->comm->ompi_comm;
    spec_node_t *n;

    OBJ_RETAIN(keep); /* the last of them may be what keeps it */
    mca_pml_spec_lock(&peer->send_lock);
    if (!peer->turning) { /* else who does it sees what has changed */
        peer->turning = true;
        while (may_go(peer) && NULL != (n = spec_list_pop(&peer->waiting))) {
            mca_pml_spec_unlock(&peer->send_lock);
            mca_pml_spec_send_issue(SPEC_ENTRY(n, mca_pml_spec_send_request_t, unnoticed), false);
            mca_pml_spec_lock(&peer->send_lock);
        }
        peer->turning = false;
        set_shut(peer);
    }
    mca_pml_spec_unlock(&peer->send_lock);
    OBJ_RELEASE(keep);
}

void mca_pml_spec_send_stuck(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_lock(&peer->send_lock);
    ++peer->stuck_n;
    set_shut(peer);
    mca_pml_spec_unlock(&peer->send_lock);
}

void mca_pml_spec_send_unstuck(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_lock(&peer->send_lock);
    --peer->stuck_n;
    mca_pml_spec_unlock(&peer->send_lock);
    mca_pml_spec_send_turns(peer);
}

MCA_PML_SPEC_AM_CALLBACK(mca_pml_spec_recv_hold)
{
    (void) btl;
    const mca_pml_spec_hold_hdr_t *hdr = 0 == nseg ? NULL : seg[0].seg_addr.pval;
    if (NULL == hdr || seg[0].seg_len < sizeof(*hdr)) {
        mca_pml_spec_refuse("HOLD", "it is shorter than its header");
        return;
    }
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_find(hdr->ctx);
    if (NULL == comm || hdr->epoch != comm->epoch) {
        return; /* freed meanwhile: all that was sent in it has left */
    }
    mca_pml_spec_peer_t *peer = (uint32_t) hdr->src < comm->size ? comm->peers[hdr->src] : NULL;
    if (NULL == peer || peer->proc == ompi_proc_local()) {
        mca_pml_spec_refuse("HOLD", "nothing was sent to who asks for it");
        return;
    }
    const spec_flow_out_t told = {.no = hdr->no, .until = hdr->until, .is_held = 0 != hdr->is_held};
    mca_pml_spec_lock(&peer->send_lock);
    const bool begins = !peer->flow_out.is_held && told.is_held;
    const bool news = spec_flow_heed(&peer->flow_out, &told);
    if (news) {
        set_shut(peer);
    }
    mca_pml_spec_unlock(&peer->send_lock);
    if (news) {
        MCA_PML_SPEC_VERBOSE(10, "hold: rank %d %s, until %u; sent so far: %u", peer->rank,
                             told.is_held ? "asks to hold back" : "lets go on", told.until, peer->send.nxt);
        if (begins) {
            MCA_PML_SPEC_COUNT(held);
        }
        mca_pml_spec_send_turns(peer);
    }
}
