/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages arrive: EAGER, RTS and MATCH, the packets with a sequence number.
 *
 * Every packet is checked before anything is changed. Then messages of one sender are processed in
 * the order of their numbers, whatever the order of arrival; processing one means to match it
 * under the communicator's lock, and to act on the match after the lock is released.
 *
 * What every small message goes through is inlined into the callback of its type, so that the type
 * is a constant there and a small message pays for no other. */
#include "pml_spec_arrive.h"

#include "../services/pml_spec_adapt.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_hello.h"
#include "../services/pml_spec_keys.h"
#include "../protocols/pml_spec_proto.h"

#define INLINED static inline __attribute__((always_inline))

/* NULL if the packet makes sense as one of this type, else what is wrong with it. */
INLINED const char *check(const mca_pml_spec_packet_t *packet, int type)
{
    const size_t have = packet->nseg > 0 ? packet->seg[0].seg_len : 0;
    if (have < sizeof(mca_pml_spec_match_hdr_t)) {
        return "it is shorter than its header";
    }
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    if (hdr->type != type) {
        return "its type is not that of the channel it came by";
    }
    if (MCA_PML_SPEC_RTS == type) {
        const mca_pml_spec_rts_hdr_t *rts = mca_pml_spec_packet_hdr(packet);
        if (have < sizeof(*rts) || have - sizeof(*rts) < rts->key_len
            || rts->key_len > MCA_PML_SPEC_KEY_MAX) {
            return "it is shorter than its header and key";
        }
        if (packet->size - sizeof(*rts) - rts->key_len > rts->length) {
            return "it carries more data than the message has";
        }
    } else if (MCA_PML_SPEC_MATCH == type) {
        const mca_pml_spec_match_notice_t *match = mca_pml_spec_packet_hdr(packet);
        if (have < sizeof(*match)) {
            return "it is shorter than its header";
        }
        if (match->bytes > match->length || 0 == match->length) {
            return "its lengths contradict each other";
        }
    }
    return NULL;
}

size_t mca_pml_spec_message_length(const mca_pml_spec_frag_t *frag)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_frag_hdr(frag);
    return MCA_PML_SPEC_RTS == hdr->type ? ((const mca_pml_spec_rts_hdr_t *) hdr)->length
                                         : frag->seg.seg_len - sizeof(*hdr);
}

INLINED void deliver(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_peer_t *peer,
                     const mca_pml_spec_packet_t *packet, int type)
{
    /* Who cancels it meanwhile may look, and finds it taken. */
    __atomic_store_n(&recvreq->peer, peer, __ATOMIC_RELEASE);
    switch (type) {
    case MCA_PML_SPEC_EAGER:
        mca_pml_spec_eager_deliver(recvreq, packet);
        break;
    case MCA_PML_SPEC_RTS:
        mca_pml_spec_rts_deliver(recvreq, packet);
        break;
    default:
        mca_pml_spec_match_deliver(recvreq, packet);
        break;
    }
}

void mca_pml_spec_deliver_frag(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_frag_t *frag)
{
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(recvreq->req_recv.req_base.req_comm);
    mca_pml_spec_packet_t packet = mca_pml_spec_frag_view(frag);
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_frag_hdr(frag);
    deliver(recvreq, mca_pml_spec_peer(comm, hdr->src), &packet, hdr->type);
    mca_pml_spec_frag_free(frag);
}

static mca_pml_spec_frag_t *must_keep(const mca_pml_spec_packet_t *packet)
{
    mca_pml_spec_frag_t *frag = mca_pml_spec_frag_keep(packet);
    if (OPAL_UNLIKELY(NULL == frag)) {
        mca_pml_spec_abort(OMPI_ERR_OUT_OF_RESOURCE,
                           "pml/spec: out of memory for an unexpected message of %zu bytes; "
                           "receive messages earlier, or send fewer before they are received",
                           packet->size);
    }
    return frag;
}

/* A MATCH must find the receive whose RTR was used: by the rule of RTRs it is the one that matching
 * finds too. Anything else means that sender and receiver disagree about MPI's order; going on
 * would deliver wrong data. */
static void check_match(const mca_pml_spec_match_notice_t *match, const spec_posted_t *posted)
{
    if (OPAL_LIKELY(NULL != posted)) {
        const mca_pml_spec_recv_request_t *recvreq =
            SPEC_ENTRY(posted, mca_pml_spec_recv_request_t, posted);
        if (OPAL_LIKELY(recvreq->handle == match->r && match->length <= recvreq->capacity)) {
            return;
        }
    }
    mca_pml_spec_abort(OMPI_ERR_FATAL,
                       "pml/spec: rank %d wrote message %u (tag %d) into a receive that is not "
                       "the one the message belongs to: the two processes disagree about the "
                       "protocol. Are all processes of the job using the same build?",
                       match->match.src, match->match.seq, match->match.tag);
}

/* Receives that are being cancelled and that the message, which uses no RTR, need not go to: out of
 * the queue, into `cancelled`. Returns the receive that it is for. The lock is held. */
static spec_posted_t *skip_cancelled(mca_pml_spec_comm_t *comm, const mca_pml_spec_match_hdr_t *hdr,
                                     spec_posted_t *posted, spec_node_t *cancelled)
{
    while (NULL != posted && spec_recv_yields(posted)) {
        spec_match_remove_posted(&comm->match, posted);
        spec_list_append(cancelled, &posted->node);
        posted = spec_match_find_posted(&comm->match, hdr->src, hdr->tag);
    }
    return posted;
}

/* What the message costs its receiver while it is unexpected. */
INLINED uint32_t cost_of(const mca_pml_spec_packet_t *packet, int type)
{
    switch (type) {
    case MCA_PML_SPEC_EAGER:
        return spec_flow_cost(packet->size - sizeof(mca_pml_spec_match_hdr_t));
    case MCA_PML_SPEC_RTS: {
        const mca_pml_spec_rts_hdr_t *rts = mca_pml_spec_packet_hdr(packet);
        return spec_flow_cost(packet->size - sizeof(*rts) - rts->key_len);
    }
    default:
        return spec_flow_cost(0);
    }
}

/* Process the message whose turn it is: it is in `packet`, or kept already in `frag`. The lock is
 * held and is released. */
INLINED void process(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer,
                     const mca_pml_spec_packet_t *packet, mca_pml_spec_frag_t *frag, int type)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    if (OPAL_UNLIKELY(!peer->recv.epoch_is_known)) {
        spec_recv_learn_epoch(&peer->recv, hdr->epoch);
    }
    spec_posted_t *posted = spec_match_find_posted(&comm->match, hdr->src, hdr->tag);
    if (MCA_PML_SPEC_MATCH == type) {
        check_match((const mca_pml_spec_match_notice_t *) hdr, posted);
    }
    const uint32_t cost = cost_of(packet, type);
    const bool is_low = spec_flow_arrived(&peer->flow_in, cost);
    bool skips = false;
    spec_node_t cancelled; /* if it skips: completed when the lock is released */
    if (MCA_PML_SPEC_MATCH != type && OPAL_UNLIKELY(NULL != posted && posted->cancel_wanted)) {
        skips = true;
        spec_list_init(&cancelled);
        posted = skip_cancelled(comm, hdr, posted, &cancelled);
    }
    if (NULL != posted) {
        spec_match_remove_posted(&comm->match, posted);
        if (OPAL_UNLIKELY(is_low)) {
            mca_pml_spec_flow_low(comm, peer);
        }
        mca_pml_spec_unlock(&comm->slot->lock);
        if (OPAL_UNLIKELY(skips)) {
            mca_pml_spec_recvs_cancelled(&cancelled);
        }
        deliver(SPEC_ENTRY(posted, mca_pml_spec_recv_request_t, posted), peer, packet, type);
        if (NULL != frag) {
            mca_pml_spec_frag_free(frag);
        }
        return;
    }
    if (NULL == frag) {
        frag = must_keep(packet);
    }
    frag->unexp.src = hdr->src;
    frag->unexp.tag = hdr->tag;
    MCA_PML_SPEC_COUNT(unexpected);
    if (OPAL_UNLIKELY(0 != spec_match_add_unexp(&comm->match, &frag->unexp))) {
        mca_pml_spec_abort(OMPI_ERR_OUT_OF_RESOURCE,
                           "pml/spec: out of memory for the queue of unexpected messages");
    }
    mca_pml_spec_unexp_added(peer, frag, cost);
    if (OPAL_UNLIKELY(is_low)) {
        mca_pml_spec_flow_low(comm, peer);
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    if (OPAL_UNLIKELY(skips)) {
        mca_pml_spec_recvs_cancelled(&cancelled);
    }
}

/* Messages that were held because they came too early, as far as it is their turn now. */
static void process_early(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer)
{
    for (;;) {
        mca_pml_spec_lock(&comm->slot->lock);
        spec_item_t *item = spec_stream_take(&peer->recv.msgs);
        if (NULL == item) {
            mca_pml_spec_unlock(&comm->slot->lock);
            return;
        }
        mca_pml_spec_frag_t *frag = SPEC_ENTRY(item, mca_pml_spec_frag_t, item);
        mca_pml_spec_packet_t packet = mca_pml_spec_frag_view(frag);
        process(comm, peer, &packet, frag, mca_pml_spec_frag_hdr(frag)->type);
    }
}

static void hold_early(mca_pml_spec_peer_t *peer, const mca_pml_spec_packet_t *packet)
{
    mca_pml_spec_frag_t *frag = must_keep(packet);
    frag->item.no = mca_pml_spec_frag_hdr(frag)->seq;
    if (!spec_stream_hold(&peer->recv.msgs, &frag->item)) {
        mca_pml_spec_frag_free(frag);
        mca_pml_spec_refuse("a message", "its sequence number was used before");
        return;
    }
    MCA_PML_SPEC_COUNT(early);
}

/* The first packet of a peer: makes it. The lock is held, and is not while memory is got; the caller holds the communicator. */
static mca_pml_spec_peer_t *first_heard(mca_pml_spec_comm_t *comm, int32_t rank)
{
    mca_pml_spec_unlock(&comm->slot->lock);
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(comm, rank);
    if (OPAL_UNLIKELY(NULL == peer)) {
        mca_pml_spec_abort(OMPI_ERR_OUT_OF_RESOURCE, "pml/spec: out of memory for a new peer");
    }
    mca_pml_spec_lock(&comm->slot->lock);
    return peer;
}

/* One that is not simply the next of its peer: the first ever, or too early, or others or a cancel wait for it. The lock is held
 * and is released. */
static __attribute__((noinline)) void arrive_slowly(mca_pml_spec_comm_t *comm,
                                                    const mca_pml_spec_packet_t *packet, int type)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_comm_hold(comm);
    mca_pml_spec_peer_t *peer = comm->peers[hdr->src];
    if (NULL == peer) {
        peer = first_heard(comm, hdr->src);
    }
    if (NULL == peer) {
        mca_pml_spec_unlock(&comm->slot->lock); /* the job ends */
    } else if (hdr->seq != peer->recv.msgs.nxt) {
        hold_early(peer, packet);
        mca_pml_spec_unlock(&comm->slot->lock);
    } else {
        ++peer->recv.msgs.nxt;
        process(comm, peer, packet, NULL, type);
        process_early(comm, peer);
        mca_pml_spec_revokes_finish(peer);
    }
    mca_pml_spec_comm_put(comm);
}

/* A checked packet. The communicator's lock is held and is released. */
INLINED void arrive(mca_pml_spec_comm_t *comm, const mca_pml_spec_packet_t *packet, int type)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    if (OPAL_UNLIKELY((uint32_t) hdr->src >= comm->size)) {
        mca_pml_spec_unlock(&comm->slot->lock);
        mca_pml_spec_refuse("a message", "its source is not in the communicator");
        return;
    }
    mca_pml_spec_peer_t *peer = comm->peers[hdr->src];
    if (OPAL_UNLIKELY(NULL == peer) || OPAL_UNLIKELY(hdr->seq != peer->recv.msgs.nxt)
        || OPAL_UNLIKELY(!spec_list_is_empty(&peer->recv.msgs.early))
        || OPAL_UNLIKELY(!spec_list_is_empty(&peer->recv.revokes))) {
        arrive_slowly(comm, packet, type);
        return;
    }
    ++peer->recv.msgs.nxt;
    process(comm, peer, packet, NULL, type);
}

bool mca_pml_spec_park(uint16_t cid, const mca_pml_spec_packet_t *packet)
{
    mca_pml_spec_cid_slot_t *slot = mca_pml_spec_cid_slot(cid);
    mca_pml_spec_frag_t *frag = must_keep(packet);
    if (NULL == slot || NULL == frag) {
        mca_pml_spec_abort(OMPI_ERR_OUT_OF_RESOURCE,
                           "pml/spec: out of memory for a message whose communicator does not "
                           "exist yet");
        return true;
    }
    mca_pml_spec_lock(&mca_pml_spec.lock);
    const bool exists = NULL != slot->comm;
    if (!exists) {
        spec_list_append(&slot->parked, &frag->item.node);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (exists) {
        mca_pml_spec_frag_free(frag);
    }
    return !exists;
}

INLINED void message(mca_btl_base_module_t *btl, const mca_btl_base_segment_t *seg, size_t nseg,
                     int type)
{
    mca_pml_spec_packet_t packet = mca_pml_spec_packet_view(btl, seg, nseg);
    const char *wrong = check(&packet, type);
    if (OPAL_UNLIKELY(NULL != wrong)) {
        mca_pml_spec_refuse("a message", wrong);
        return;
    }
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(&packet);
    mca_pml_spec_comm_t *comm;
    while (OPAL_UNLIKELY(NULL == (comm = mca_pml_spec_comm_lock(hdr->ctx)))) {
        if (mca_pml_spec_park(hdr->ctx, &packet)) {
            return;
        }
    }
    arrive(comm, &packet, type);
}

void mca_pml_spec_arrive_again(const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_comm_t *comm;
    switch (hdr->type) {
    case MCA_PML_SPEC_RTR:
        mca_pml_spec_rtr_arrived(packet);
        break;
    case MCA_PML_SPEC_REVOKE:
        mca_pml_spec_revoke_arrived(packet);
        break;
    default:
        comm = mca_pml_spec_comm_lock(hdr->ctx);
        if (NULL != comm) { /* always: it is being added */
            arrive(comm, packet, hdr->type);
        }
        break;
    }
}

MCA_PML_SPEC_AM_CALLBACK(recv_eager)
{
    message(btl, seg, nseg, MCA_PML_SPEC_EAGER);
}

MCA_PML_SPEC_AM_CALLBACK(recv_rts)
{
    message(btl, seg, nseg, MCA_PML_SPEC_RTS);
}

MCA_PML_SPEC_AM_CALLBACK(recv_match)
{
    message(btl, seg, nseg, MCA_PML_SPEC_MATCH);
}

int mca_pml_spec_arrive_register(void)
{
    static const struct {
        int type;
        mca_btl_base_module_recv_cb_fn_t callback;
    } table[] = {
        {MCA_PML_SPEC_EAGER, recv_eager},
        {MCA_PML_SPEC_RTS, recv_rts},
        {MCA_PML_SPEC_MATCH, recv_match},
        {MCA_PML_SPEC_RTR, mca_pml_spec_recv_rtr},
        {MCA_PML_SPEC_REVOKE, mca_pml_spec_recv_revoke},
        {MCA_PML_SPEC_REVOKED, mca_pml_spec_recv_revoked},
        {MCA_PML_SPEC_CTS, mca_pml_spec_recv_cts},
        {MCA_PML_SPEC_FRAG, mca_pml_spec_recv_frag},
        {MCA_PML_SPEC_FIN, mca_pml_spec_recv_fin},
        {MCA_PML_SPEC_STOP, mca_pml_spec_recv_stop},
        {MCA_PML_SPEC_PING, mca_pml_spec_recv_ping},
        {MCA_PML_SPEC_PONG, mca_pml_spec_recv_pong},
        {MCA_PML_SPEC_KEY, mca_pml_spec_recv_key},
        {MCA_PML_SPEC_HELLO, mca_pml_spec_recv_hello},
        {MCA_PML_SPEC_CREDIT, mca_pml_spec_recv_credit},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); ++i) {
        int rc = mca_bml.bml_register((mca_btl_base_tag_t) table[i].type, table[i].callback, NULL);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    return OMPI_SUCCESS;
}
