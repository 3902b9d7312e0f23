/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Flow control of unexpected messages: gives senders credit, and lets sends without credit wait in order. */
#include "pml_spec_flow.h"

#include "../objects/pml_spec_explain.h"
#include "pml_spec_control.h"
#include "pml_spec_hello.h"
#include "../objects/pml_spec_upward.h"
#include "../objects/pml_spec_memory.h"

/* ---- the receiver's side ---- */

_Static_assert(sizeof(mca_pml_spec_frag_t) <= SPEC_FLOW_MESSAGE,
               "a kept message takes more than it costs");
_Static_assert(SPEC_FLOW_INSIDE + sizeof(mca_pml_spec_rts_hdr_t) <= MCA_PML_SPEC_FRAG_INLINE,
               "a message that should cost only its object does not fit it");

/* Send the latest state. */
static bool tell(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_peer_t *peer = SPEC_ENTRY(pending, mca_pml_spec_peer_t, flow_pending);
    mca_pml_spec_comm_t *comm = peer->comm;

    mca_pml_spec_lock(&comm->slot->lock);
    peer->flow_pends = false;
    const mca_pml_spec_credit_hdr_t hdr = {.type = MCA_PML_SPEC_CREDIT,
                                           .epoch = peer->recv.epoch,
                                           .ctx = peer->ctx,
                                           .src = comm->my_rank,
                                           .told = peer->flow_in.told};
    mca_pml_spec_unlock(&comm->slot->lock);

    /* Of one that the program has freed the process at the other end may be disconnected. */
    mca_bml_base_endpoint_t *endpoint =
        MCA_PML_SPEC_SEEN(comm->is_ended) ? NULL : mca_pml_spec_endpoint(peer);
    if (NULL != endpoint) {
        MCA_PML_SPEC_COUNT(credits);
        mca_pml_spec_control_send(endpoint, NULL, &hdr, sizeof(hdr));
    }
    mca_pml_spec_comm_put(comm); /* perhaps the last: peer is gone then */
    return true;
}

static void tell_later(mca_pml_spec_peer_t *peer)
{
    if (!peer->flow_pends) {
        peer->flow_pends = true;
        peer->flow_pending.retry = tell;
        mca_pml_spec_comm_retain(peer->comm);
        mca_pml_spec_pend(&peer->flow_pending, MCA_PML_SPEC_RES_NONE);
    }
}

/* The first time that a sender gets no more credit, for the user: told from progress, since a lock is held. */
static struct {
    mca_pml_spec_pending_t pending;
    bool is_told;
    int32_t rank, me;
    unsigned cid;
    uint64_t bytes;
} shortage;

static bool explain(mca_pml_spec_pending_t *pending)
{
    (void) pending;
    mca_pml_spec_explain("unexpected messages", shortage.me, shortage.rank, shortage.cid,
                         spec_host_of(&ompi_proc_local()->super),
                         (unsigned long long) shortage.bytes,
                         (unsigned long long) mca_pml_spec.store.limit);
    return true;
}

static void explain_later(const mca_pml_spec_peer_t *peer)
{
    if (__atomic_exchange_n(&shortage.is_told, true, __ATOMIC_RELAXED)) {
        return;
    }
    shortage.rank = peer->rank;
    shortage.me = peer->comm->my_rank;
    shortage.cid = peer->comm->cid;
    shortage.bytes = mca_pml_spec.store.bytes;
    shortage.pending.retry = explain;
    mca_pml_spec_pend(&shortage.pending, MCA_PML_SPEC_RES_NONE);
}

void mca_pml_spec_flow_init(void)
{
    const uint64_t limit = mca_pml_spec.unexpected_max >= 0
                               ? (uint64_t) mca_pml_spec.unexpected_max
                               : spec_flow_limit(mca_pml_spec_memory_of_host(), spec_local_ranks());
    const uint32_t processes = mca_pml_spec_job_size();
    mca_pml_spec.store = (spec_store_t){
        .limit = limit, .window = spec_flow_window(limit, processes > 1 ? processes - 1 : 1)};
    shortage.is_told = false;
}

static bool give(mca_pml_spec_peer_t *peer, bool waits)
{
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const bool given = spec_flow_give(&mca_pml_spec.store, &peer->flow_in, waits);
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    return given;
}

void mca_pml_spec_flow_low(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer, bool waits)
{
    const bool was_low = peer->flow_in.is_low;
    /* Nothing could receive what a process sends itself while it waits. */
    bool given = give(peer, waits || peer->is_self);
    if (!given && !was_low && peer->flow_in.is_low) {
        given = spec_match_waits_for(&comm->match, peer->rank) && give(peer, true);
    }
    comm->low_n += (uint32_t) peer->flow_in.is_low - (uint32_t) was_low;
    if (given) {
        tell_later(peer);
    } else if (!was_low && peer->flow_in.is_low) {
        MCA_PML_SPEC_COUNT(withheld);
        explain_later(peer);
        MCA_PML_SPEC_VERBOSE(
            10, "flow: rank %d gets no more credit for now: %llu bytes of it are unexpected",
            peer->rank, (unsigned long long) peer->flow_in.bytes);
    }
}

void mca_pml_spec_flow_search(mca_pml_spec_comm_t *comm, int32_t src)
{
    const uint32_t first = SPEC_ANY == src ? 0 : (uint32_t) src;
    const uint32_t end = SPEC_ANY == src ? comm->size : first + 1;
    for (uint32_t i = first; i < end; ++i) {
        mca_pml_spec_peer_t *peer = comm->peers[i];
        if (NULL != peer && peer->flow_in.is_low) {
            mca_pml_spec_flow_low(comm, peer, true);
        }
    }
}

/* ---- the sender's side ---- */

void mca_pml_spec_flow_changed(mca_pml_spec_peer_t *peer)
{
    const bool shut = !peer->ctx_known || !spec_list_is_empty(&peer->waiting);
    __atomic_store_n(&peer->shut, shut, __ATOMIC_RELEASE);
}

/* The most that the first packet of a message can cost. */
static bool spend_for(mca_pml_spec_send_request_t *sendreq)
{
    const mca_pml_spec_peer_t *peer = sendreq->peer;
    const size_t length = sendreq->req_send.req_bytes_packed;
    sendreq->set_apart =
        spec_flow_cost(sendreq->fits || length <= peer->eager_most ? length : peer->eager_limit);
    return mca_pml_spec_flow_spend(sendreq->peer, sendreq->set_apart);
}

bool mca_pml_spec_send_may_go(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_spec_lock(&peer->send_lock);
    bool goes = spend_for(sendreq);
    mca_pml_spec_unlock(&peer->send_lock);
    if (OPAL_LIKELY(goes)) {
        return true;
    }
    (void) mca_pml_spec_poll(peer); /* perhaps the credit is here already */
    mca_pml_spec_lock(&peer->send_lock);
    goes = spend_for(sendreq);
    const bool greet = !peer->ctx_known && !peer->greeted;
    const bool lost = !goes && NULL == peer->open; /* nothing empties the queue any more */
    if (!goes && !lost) {
        spec_list_append(&peer->waiting, &sendreq->unnoticed);
        peer->greeted |= greet;
        mca_pml_spec_flow_changed(peer);
        MCA_PML_SPEC_COUNT(queued);
    }
    mca_pml_spec_unlock(&peer->send_lock);
    if (lost) {
        mca_pml_spec_send_unreachable(sendreq);
    } else if (greet) {
        mca_pml_spec_hello_say(peer, false);
    }
    return goes;
}

mca_pml_spec_send_request_t *mca_pml_spec_flow_next(mca_pml_spec_peer_t *peer)
{
    if (!peer->ctx_known || spec_list_is_empty(&peer->waiting)) {
        return NULL;
    }
    mca_pml_spec_send_request_t *sendreq =
        SPEC_ENTRY(spec_list_first(&peer->waiting), mca_pml_spec_send_request_t, unnoticed);
    if (!spec_flow_lets(&peer->flow_out, sendreq->set_apart)) {
        return NULL;
    }
    peer->flow_out.spent += sendreq->set_apart;
    spec_list_remove(&sendreq->unnoticed);
    mca_pml_spec_flow_changed(peer);
    return sendreq;
}

MCA_PML_SPEC_PACKET(credit, "CREDIT", mca_pml_spec_credit_hdr_t)
{
    const mca_pml_spec_credit_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_get_epoch(hdr->ctx, hdr->epoch);
    if (NULL == comm) {
        return; /* freed meanwhile: all that was sent in it has left */
    }
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer_known(comm, hdr->src);
    if (NULL == peer) {
        mca_pml_spec_refuse("CREDIT", "nothing was sent to the process that gives it");
    } else {
        mca_pml_spec_lock(&peer->send_lock);
        const bool news = spec_flow_learn(&peer->flow_out, hdr->told);
        mca_pml_spec_unlock(&peer->send_lock);
        if (news && MCA_PML_SPEC_SEEN(peer->shut)) {
            mca_pml_spec_upward.turns(peer);
        }
    }
    mca_pml_spec_comm_put(comm);
}
