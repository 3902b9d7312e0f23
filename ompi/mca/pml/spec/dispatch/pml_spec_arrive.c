/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages arrive: the packets with a sequence number, one type for each protocol. Every packet is checked before anything is
 * changed. Processing a message means to match it under the communicator's lock, and to act on the match after that.
 *
 * What every small message goes through is inlined into the callback of its type, so that the protocol
 * is a constant there and a small message pays for no other. */
#include "pml_spec_arrive.h"

#include "../objects/pml_spec_explain.h"
#include "../protocols/pml_spec_protocols.h"
#include "../services/pml_spec_cancel.h"
#include "../services/pml_spec_copy.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_hello.h"
#include "../services/pml_spec_keys.h"
#include "../services/pml_spec_slots.h"

#define INLINED static inline __attribute__((always_inline))

/* NULL if the packet makes sense as one of this type, else what is wrong with it. */
INLINED const char *check(const mca_pml_spec_packet_t *packet, const mca_pml_spec_protocol_t *proto)
{
    const size_t have = packet->nseg > 0 ? packet->seg[0].seg_len : 0;
    if (have < sizeof(mca_pml_spec_match_hdr_t)) {
        return "it is shorter than its header";
    }
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    if (hdr->type != proto->message) {
        return "its type is not that of the channel it came by";
    }
    return NULL == proto->check ? NULL : proto->check(packet);
}

/* The protocol of a checked packet. */
static const mca_pml_spec_protocol_t *protocol_of(int type)
{
#define IS_ITS(name)                                                                               \
    if (type == mca_pml_spec_proto_##name.message) {                                               \
        return &mca_pml_spec_proto_##name;                                                         \
    }
    MCA_PML_SPEC_PROTOCOLS(IS_ITS)
#undef IS_ITS
    return NULL;
}

size_t mca_pml_spec_message_length(const mca_pml_spec_frag_t *frag)
{
    const mca_pml_spec_packet_t packet = mca_pml_spec_frag_view(frag);
    return protocol_of(mca_pml_spec_frag_hdr(frag)->type)->length(&packet);
}

INLINED void deliver(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_peer_t *peer,
                     const mca_pml_spec_packet_t *packet, const mca_pml_spec_protocol_t *proto)
{
    /* A cancel meanwhile reads it, and finds it taken. */
    __atomic_store_n(&recvreq->peer, peer, __ATOMIC_RELEASE);
    proto->deliver(recvreq, packet);
}

void mca_pml_spec_deliver_frag(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_frag_t *frag)
{
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(recvreq->req_recv.req_base.req_comm);
    mca_pml_spec_packet_t packet = mca_pml_spec_frag_view(frag);
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_frag_hdr(frag);
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(comm, hdr->src);
    const mca_pml_spec_protocol_t *proto = protocol_of(hdr->type);
    if (OPAL_UNLIKELY(NULL != proto->deliver_kept)) {
        __atomic_store_n(&recvreq->peer, peer, __ATOMIC_RELEASE);
        proto->deliver_kept(recvreq, frag);
        return;
    }
    deliver(recvreq, peer, &packet, proto);
    mca_pml_spec_frag_free(frag);
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

/* A MATCH whose receive is gone, like its sender. The lock is held and is released. */
static void drop(mca_pml_spec_comm_t *comm, mca_pml_spec_frag_t *frag)
{
    mca_pml_spec_unlock(&comm->slot->lock);
    mca_pml_spec_refuse_late("MATCH", "its receive ended when the sender was given up");
    if (NULL != frag) {
        mca_pml_spec_frag_free(frag);
    }
}

/* The lock is held. */
INLINED mca_pml_spec_frag_t *keep(mca_pml_spec_peer_t *peer, const mca_pml_spec_packet_t *packet,
                                  const mca_pml_spec_protocol_t *proto)
{
    return NULL == proto->keep ? mca_pml_spec_frag_keep(packet) : proto->keep(peer, packet);
}

/* Into the queue of unexpected messages. The lock is held. */
INLINED void keep_unexpected(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer,
                             mca_pml_spec_frag_t *frag, uint32_t cost)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_frag_hdr(frag);
    frag->unexp.src = hdr->src;
    frag->unexp.tag = hdr->tag;
    MCA_PML_SPEC_COUNT(unexpected);
    MCA_PML_SPEC_COUNT_N(rts_unexpected, MCA_PML_SPEC_RTS == hdr->type);
    if (OPAL_UNLIKELY(0 != spec_match_add_unexp(&comm->match, &frag->unexp))) {
        mca_pml_spec_no_memory("the queue of messages that no receive has asked for",
                               sizeof(frag->unexp));
    }
    mca_pml_spec_unexp_added(peer, frag, cost);
}

/* Process the message whose turn it is: it is in `packet`, or kept already in `frag`. The lock is
 * held and is released. */
INLINED void process(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer,
                     const mca_pml_spec_packet_t *packet, mca_pml_spec_frag_t *frag,
                     const mca_pml_spec_protocol_t *proto)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    spec_posted_t *posted = spec_match_find_posted(&comm->match, hdr->src, hdr->tag);
    if (NULL != proto->expect && OPAL_UNLIKELY(!proto->expect(peer, packet, posted))) {
        drop(comm, frag);
        return;
    }
    const uint32_t cost = proto->cost(packet);
    const bool is_low = spec_flow_arrived(&peer->flow_in, cost);
    bool skips = false;
    spec_node_t cancelled; /* if it skips: completed when the lock is released */
    if (NULL == proto->expect && OPAL_UNLIKELY(NULL != posted && posted->cancel_wanted)) {
        skips = true;
        spec_list_init(&cancelled);
        posted = skip_cancelled(comm, hdr, posted, &cancelled);
    }
    if (NULL != posted) {
        spec_match_remove_posted(&comm->match, posted);
    } else {
        keep_unexpected(comm, peer, NULL == frag ? keep(peer, packet, proto) : frag, cost);
    }
    if (OPAL_UNLIKELY(is_low)) {
        mca_pml_spec_flow_low(comm, peer, false);
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    if (OPAL_LIKELY(NULL != posted)) {
        mca_pml_spec_recv_request_t *recvreq =
            SPEC_ENTRY(posted, mca_pml_spec_recv_request_t, posted);
        if (OPAL_LIKELY(NULL == frag)) {
            deliver(recvreq, peer, packet, proto);
        } else {
            mca_pml_spec_deliver_frag(recvreq, frag);
        }
    }
    if (OPAL_UNLIKELY(skips)) { /* last: a callback may wait for what follows the message */
        mca_pml_spec_recvs_cancelled(&cancelled);
    }
}

/* Messages that were kept because they came too early, as far as it is their turn now. */
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
        process(comm, peer, &packet, frag, protocol_of(mca_pml_spec_frag_hdr(frag)->type));
    }
}

/* It is not wanted. The lock is held. */
static void forget(mca_pml_spec_frag_t *frag)
{
    const mca_pml_spec_protocol_t *proto = protocol_of(mca_pml_spec_frag_hdr(frag)->type);
    if (NULL != proto->forget) {
        proto->forget(frag);
    }
    mca_pml_spec_frag_free(frag);
}

static void refuse_freed(void)
{
    mca_pml_spec_refuse_late("a message", "it was sent in an earlier communicator of this id");
}

/* The lock is held. */
static void keep_frag(mca_pml_spec_peer_t *peer, mca_pml_spec_frag_t *frag)
{
    if (!spec_recv_keep(&peer->recv, &frag->item)) {
        forget(frag);
        mca_pml_spec_refuse("a message", "its sequence number was used before");
    }
}

/* The lock is held. */
static void keep_early(mca_pml_spec_peer_t *peer, const mca_pml_spec_packet_t *packet,
                       const mca_pml_spec_protocol_t *proto)
{
    mca_pml_spec_frag_t *frag = keep(peer, packet, proto);
    frag->item.no = mca_pml_spec_frag_hdr(frag)->seq;
    MCA_PML_SPEC_COUNT(early);
    keep_frag(peer, frag);
}

/* By the first message that is in its turn; and which of those that came before it belong to it. The lock is held. */
static void learn_epoch(mca_pml_spec_peer_t *peer, uint8_t epoch)
{
    spec_item_t *item;
    spec_recv_learn_epoch(&peer->recv, epoch);
    while (NULL != (item = spec_recv_next_unsorted(&peer->recv))) {
        mca_pml_spec_frag_t *frag = SPEC_ENTRY(item, mca_pml_spec_frag_t, item);
        if (spec_recv_can_be_of(&peer->recv, mca_pml_spec_frag_hdr(frag)->epoch)) {
            keep_frag(peer, frag);
        } else {
            forget(frag);
            refuse_freed();
        }
    }
}

/* Is it this process's own, and could a receive take it that waits for the only other one? */
static bool must_wait(mca_pml_spec_comm_t *comm, const mca_pml_spec_peer_t *peer, int32_t tag)
{
    return OPAL_UNLIKELY(peer->is_self) && MCA_PML_SPEC_NARROWS == comm->narrows
           && spec_recv_narrowed_waits(&comm->match, comm->only, tag);
}

/* One that is not simply the next of its peer: the first ever, or too early, or others or a cancel wait for it. The lock is held
 * and is released. */
static SPEC_HOT __attribute__((noinline)) void arrive_slowly(mca_pml_spec_comm_t *comm,
                                                             const mca_pml_spec_packet_t *packet,
                                                             const mca_pml_spec_protocol_t *proto)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_comm_retain(comm);
    mca_pml_spec_peer_t *peer = comm->peers[hdr->src];
    if (NULL == peer) {
        mca_pml_spec_unlock(&comm->slot->lock); /* while memory is got */
        peer = mca_pml_spec_peer(comm, hdr->src);
        if (OPAL_UNLIKELY(NULL == peer)) {
            mca_pml_spec_no_memory("a process that sends its first message", sizeof(*peer));
        }
        mca_pml_spec_lock(&comm->slot->lock);
    }
    if (OPAL_UNLIKELY(!spec_recv_can_be_of(&peer->recv, hdr->epoch))) {
        mca_pml_spec_unlock(&comm->slot->lock);
        refuse_freed();
    } else if (hdr->seq != peer->recv.msgs.nxt) {
        keep_early(peer, packet, proto);
        mca_pml_spec_unlock(&comm->slot->lock);
    } else {
        if (!peer->recv.epoch_is_known) {
            learn_epoch(peer, hdr->epoch);
        }
        if (must_wait(comm, peer, hdr->tag)) {
            keep_early(peer, packet, proto);
            mca_pml_spec_widen(comm);
            mca_pml_spec_comm_put(comm);
            return;
        }
        peer->is_plain = !peer->is_self || MCA_PML_SPEC_WIDE == comm->narrows;
        ++peer->recv.msgs.nxt;
        process(comm, peer, packet, NULL, proto);
        process_early(comm, peer);
        mca_pml_spec_revokes_finish(peer);
    }
    mca_pml_spec_comm_put(comm);
}

void mca_pml_spec_arrive_kept(mca_pml_spec_peer_t *peer)
{
    process_early(peer->comm, peer);
    mca_pml_spec_revokes_finish(peer);
}

/* A checked packet. The communicator's lock is held and is released. */
INLINED void arrive(mca_pml_spec_comm_t *comm, const mca_pml_spec_packet_t *packet,
                    const mca_pml_spec_protocol_t *proto)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    if (OPAL_UNLIKELY((uint32_t) hdr->src >= comm->size)) {
        mca_pml_spec_unlock(&comm->slot->lock);
        mca_pml_spec_refuse("a message", "its source is not in the communicator");
        return;
    }
    mca_pml_spec_peer_t *peer = comm->peers[hdr->src];
    if (OPAL_UNLIKELY(NULL == peer) || OPAL_UNLIKELY(hdr->seq != peer->recv.msgs.nxt)
        || OPAL_UNLIKELY(hdr->epoch != peer->recv.epoch) || OPAL_UNLIKELY(!peer->is_plain)
        || OPAL_UNLIKELY(!spec_stream_is_empty(&peer->recv.msgs))
        || OPAL_UNLIKELY(!spec_list_is_empty(&peer->recv.revokes))) {
        arrive_slowly(comm, packet, proto);
        return;
    }
    ++peer->recv.msgs.nxt;
    process(comm, peer, packet, NULL, proto);
}

INLINED void message(mca_btl_base_module_t *btl, const mca_btl_base_segment_t *seg, size_t nseg,
                     const mca_pml_spec_protocol_t *proto)
{
    mca_pml_spec_packet_t packet = mca_pml_spec_packet_view(btl, seg, nseg);
    const char *wrong = check(&packet, proto);
    if (OPAL_UNLIKELY(NULL != wrong)) {
        mca_pml_spec_refuse("a message", wrong);
        return;
    }
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(&packet);
    mca_pml_spec_comm_t *comm;
    while (OPAL_UNLIKELY(NULL == (comm = mca_pml_spec_comm_lock(hdr->ctx)))) {
        if (mca_pml_spec_park(hdr->ctx, &packet, false)) {
            return;
        }
    }
    arrive(comm, &packet, proto);
}

void mca_pml_spec_arrive_again(const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_match_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    const mca_pml_spec_protocol_t *proto = protocol_of(hdr->type);
    if (NULL != proto) {
        mca_pml_spec_comm_t *comm = mca_pml_spec_comm_lock(hdr->ctx);
        if (NULL != comm) { /* always: it is being added */
            arrive(comm, packet, proto);
        }
        return;
    }
#define PARKED(name)                                                                               \
    for (const mca_pml_spec_packet_type_t *p = mca_pml_spec_proto_##name.packets;                  \
         NULL != p && 0 != p->type; ++p) {                                                         \
        if (hdr->type == p->type && NULL != p->parked) {                                           \
            p->parked(packet);                                                                     \
        }                                                                                          \
    }
    MCA_PML_SPEC_PROTOCOLS(PARKED)
#undef PARKED
}

/* An EAGER in two pieces. */
MCA_PML_SPEC_PACKET(slot, "SLOT", mca_pml_spec_slot_hdr_t)
{
    const mca_pml_spec_slot_hdr_t hdr =
        *(const mca_pml_spec_slot_hdr_t *) mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_slot_t slot;
    if (OPAL_UNLIKELY(MCA_PML_SPEC_SLOT_MESSAGE != hdr.what)) {
        mca_pml_spec_slots_told(&hdr);
    } else if (OPAL_LIKELY(mca_pml_spec_slots_find(&hdr, &slot))) {
        const mca_btl_base_segment_t seg[2] = {
            {.seg_addr.lval = (uintptr_t) &hdr.match, .seg_len = sizeof(hdr.match)},
            {.seg_addr.lval = (uintptr_t) slot.data, .seg_len = hdr.length}};
        message(packet->btl, seg, 2, &mca_pml_spec_proto_eager);
        spec_slots_give(slot.word);
    }
}

#define CALLBACK(name)                                                                             \
    MCA_PML_SPEC_AM_CALLBACK_OF(SPEC_HOT, mca_pml_spec_arrive_##name)                              \
    {                                                                                              \
        message(btl, seg, nseg, &mca_pml_spec_proto_##name);                                       \
    }
MCA_PML_SPEC_PROTOCOLS(CALLBACK)
#undef CALLBACK

static int subscribe(const mca_pml_spec_packet_type_t *list)
{
    int rc = OMPI_SUCCESS;
    for (; NULL != list && 0 != list->type && OMPI_SUCCESS == rc; ++list) {
        rc = mca_bml.bml_register((mca_btl_base_tag_t) list->type, list->arrived, NULL);
    }
    return rc;
}

int mca_pml_spec_arrive_register(void)
{
    static const mca_pml_spec_packet_type_t services[] = {
        {MCA_PML_SPEC_REVOKED, mca_pml_spec_recv_revoked, NULL},
        {MCA_PML_SPEC_FRAG, mca_pml_spec_recv_frag, NULL},
        {MCA_PML_SPEC_STOP, mca_pml_spec_recv_stop, NULL},
        {MCA_PML_SPEC_PING, mca_pml_spec_recv_ping, NULL},
        {MCA_PML_SPEC_PONG, mca_pml_spec_recv_pong, NULL},
        {MCA_PML_SPEC_KEY, mca_pml_spec_recv_key, NULL},
        {MCA_PML_SPEC_HELLO, mca_pml_spec_recv_hello, NULL},
        {MCA_PML_SPEC_CREDIT, mca_pml_spec_recv_credit, NULL},
        {MCA_PML_SPEC_SLOT, mca_pml_spec_recv_slot, NULL},
        {0, NULL, NULL},
    };
    int rc = subscribe(services);
#define SUBSCRIBE(name)                                                                            \
    if (OMPI_SUCCESS == rc) {                                                                      \
        const mca_pml_spec_packet_type_t first_##name[] = {                                        \
            {mca_pml_spec_proto_##name.message, mca_pml_spec_arrive_##name, NULL},                 \
            {0, NULL, NULL}};                                                                      \
        rc = subscribe(first_##name);                                                              \
    }                                                                                              \
    if (OMPI_SUCCESS == rc) {                                                                      \
        rc = subscribe(mca_pml_spec_proto_##name.packets);                                         \
    }
    MCA_PML_SPEC_PROTOCOLS(SUBSCRIBE)
#undef SUBSCRIBE
    return rc;
}
