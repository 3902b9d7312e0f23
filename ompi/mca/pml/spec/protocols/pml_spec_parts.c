/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends an eager message in several packets, and puts it together again. */
#include "pml_spec_parts.h"

#include "../objects/pml_spec_agent.h"
#include "../services/pml_spec_costs.h"

enum { NEW, SENDING, WAITING };

_Static_assert(sizeof(mca_pml_spec_parts_hdr_t) == MCA_PML_SPEC_COPY_HEADER
                   && sizeof(mca_pml_spec_part_hdr_t) == MCA_PML_SPEC_COPY_HEADER,
               "fragments have headers of one size");

/* ---- sender ---- */

/* Sends the next part. False: the transport has no room. */
static bool send_part(mca_pml_spec_send_request_t *sendreq, uint64_t offset, uint64_t bytes)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    if (0 == offset) {
        const mca_pml_spec_parts_hdr_t hdr = {
            .match = mca_pml_spec_match_hdr(MCA_PML_SPEC_PARTS, peer,
                                            sendreq->req_send.req_base.req_tag, sendreq->seq),
            .length = (uint32_t) sendreq->req_send.req_bytes_packed};
        return mca_pml_spec_copy_packet(sendreq, MCA_PML_SPEC_PARTS, &hdr, 0, bytes);
    }
    const mca_pml_spec_part_hdr_t hdr = {.type = MCA_PML_SPEC_PART,
                                         .epoch = peer->comm->epoch,
                                         .ctx = peer->ctx,
                                         .src = peer->comm->my_rank,
                                         .seq = sendreq->seq,
                                         .offset = (uint32_t) offset};
    return mca_pml_spec_copy_packet(sendreq, MCA_PML_SPEC_PART, &hdr, offset, bytes);
}

bool mca_pml_spec_parts_again(mca_pml_spec_send_request_t *sendreq)
{
    const uint64_t length = sendreq->req_send.req_bytes_packed;
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const uint64_t size = spec_parts_size(length, mca_pml_spec_copy_most(peer));
    uint64_t offset = sendreq->parts_sent;
    while (offset < length) {
        const uint64_t bytes = size < length - offset ? size : length - offset;
        const uint64_t begin = mca_pml_spec_costs_begin(peer, &peer->far.in, length);
        if (!send_part(sendreq, offset, bytes)) {
            return false;
        }
        mca_pml_spec_costs_end(peer, &peer->far.in, begin, bytes);
        offset += bytes;
        sendreq->parts_sent = offset;
        mca_pml_spec_send_account(sendreq, bytes, OMPI_SUCCESS); /* the last ends the request */
    }
    return true;
}

void mca_pml_spec_parts_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr)
{
    (void) rtr;
    sendreq->parts_sent = 0;
    mca_pml_spec_stage(sendreq, &mca_pml_spec_proto_parts, SENDING);
    if (sendreq->by_slot && mca_pml_spec_eager_by_slot(sendreq)) {
        return;
    }
    MCA_PML_SPEC_COUNT(sent_in_parts);
    mca_pml_spec_agent_asks(sendreq->peer->proc);
    if (OPAL_UNLIKELY(!mca_pml_spec_parts_again(sendreq))) {
        mca_pml_spec_stage(sendreq, &mca_pml_spec_proto_parts, WAITING);
        mca_pml_spec_send_later(sendreq);
    }
}

/* ---- receiver ---- */

const char *mca_pml_spec_parts_check(const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_parts_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    return packet->seg[0].seg_len < sizeof(*hdr)
               ? "it is shorter than its header"
               : spec_parts_check(hdr->length, packet->size - sizeof(*hdr),
                                  MCA_PML_SPEC_FRAG_INLINE, SPEC_COSTS_IN_PARTS);
}

/* More parts are to come. False: its sender is lost, and none will. The communicator's lock is held. */
static bool begin(spec_parts_t *parts, mca_pml_spec_peer_t *peer,
                  const mca_pml_spec_parts_hdr_t *hdr, size_t first)
{
    if (OPAL_UNLIKELY(mca_pml_spec_lost(peer))) {
        return false;
    }
    spec_parts_begin(parts, &peer->parts, hdr->match.seq, hdr->match.epoch, hdr->length,
                     (uint32_t) first);
    return true;
}

mca_pml_spec_frag_t *mca_pml_spec_parts_keep(mca_pml_spec_peer_t *peer,
                                             const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_parts_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_frag_t *frag = mca_pml_spec_frag_keep_for(packet, sizeof(*hdr) + hdr->length);
    const size_t first = packet->size - sizeof(*hdr);
    if (OPAL_LIKELY(first < hdr->length)) {
        frag->in_parts = true;
        frag->parts = (spec_parts_t){.is_kept = true};
        (void) begin(&frag->parts, peer, hdr, first); /* whoever wants it finds out */
    }
    return frag;
}

void mca_pml_spec_parts_forget(mca_pml_spec_frag_t *frag)
{
    if (frag->in_parts && spec_node_is_queued(&frag->parts.node)) {
        spec_list_remove(&frag->parts.node);
    }
}

/* Its message, of which nothing is in place yet. */
static void matched(mca_pml_spec_recv_request_t *recvreq, const mca_pml_spec_parts_hdr_t *hdr)
{
    mca_pml_spec_recv_matched(recvreq, &hdr->match, hdr->length);
    if (OPAL_UNLIKELY(0 != recvreq->watched_since)) { /* its RTR would be lost */
        mca_pml_spec_adapt_judge(recvreq, hdr->match.seq, 0, false, 0);
    }
    recvreq->owed = 0; /* of an RTR that was not used */
    recvreq->parts.is_kept = false;
}

void mca_pml_spec_parts_deliver(mca_pml_spec_recv_request_t *recvreq,
                                const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_parts_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    const size_t first = packet->size - sizeof(*hdr);
    mca_pml_spec_peer_t *peer = recvreq->peer;
    mca_pml_spec_comm_t *comm = peer->comm;
    matched(recvreq, hdr);
    mca_pml_spec_recv_store(recvreq, packet, sizeof(*hdr), 0, first);
    recvreq->missing = (int64_t) (hdr->length - first);
    mca_pml_spec_recv_placed(recvreq);
    if (first == hdr->length) {
        mca_pml_spec_recv_done(recvreq);
        return;
    }
    mca_pml_spec_lock(&comm->slot->lock);
    const bool comes = begin(&recvreq->parts, peer, hdr, first);
    mca_pml_spec_unlock(&comm->slot->lock);
    if (OPAL_UNLIKELY(!comes)) {
        mca_pml_spec_recv_give_up(recvreq, hdr->length - first);
    }
}

/* Under the lock while more is to come: the next part may come in another thread, and a convertor takes them in order. */
void mca_pml_spec_parts_deliver_kept(mca_pml_spec_recv_request_t *recvreq,
                                     mca_pml_spec_frag_t *frag)
{
    const mca_pml_spec_packet_t packet = mca_pml_spec_frag_view(frag);
    const mca_pml_spec_parts_hdr_t *hdr = mca_pml_spec_packet_hdr(&packet);
    mca_pml_spec_peer_t *peer = recvreq->peer;
    mca_pml_spec_comm_t *comm = peer->comm;
    if (!frag->in_parts) { /* its first part was all of it */
        mca_pml_spec_parts_deliver(recvreq, &packet);
        mca_pml_spec_frag_free(frag);
        return;
    }
    matched(recvreq, hdr);
    mca_pml_spec_lock(&comm->slot->lock);
    const uint32_t first = frag->parts.nxt;
    const bool is_whole = hdr->length == first;
    bool comes = spec_node_is_queued(&frag->parts.node);
    if (comes) {
        spec_list_remove(&frag->parts.node);
        comes = begin(&recvreq->parts, peer, hdr, first);
    }
    if (comes) {
        mca_pml_spec_recv_store(recvreq, &packet, sizeof(*hdr), 0, first);
        mca_pml_spec_recv_placed(recvreq);
    }
    recvreq->missing = (int64_t) (hdr->length - first);
    mca_pml_spec_unlock(&comm->slot->lock);
    if (is_whole) {
        mca_pml_spec_recv_store(recvreq, &packet, sizeof(*hdr), 0, first);
        mca_pml_spec_recv_placed(recvreq);
        mca_pml_spec_recv_done(recvreq);
    } else if (OPAL_UNLIKELY(!comes)) { /* its sender is lost */
        mca_pml_spec_recv_placed(recvreq);
        mca_pml_spec_recv_give_up(recvreq, hdr->length - first);
    }
    mca_pml_spec_frag_free(frag);
}

/* Into the memory that is kept for it. The communicator's lock is held. */
static void store_kept(mca_pml_spec_frag_t *frag, const mca_pml_spec_packet_t *packet,
                       size_t offset, size_t bytes)
{
    char *data = (char *) frag->seg.seg_addr.pval + sizeof(mca_pml_spec_parts_hdr_t);
    mca_pml_spec_packet_copy(packet, sizeof(mca_pml_spec_part_hdr_t), data + offset, bytes);
}

/* Into the buffer of a receive, whose missing bytes keep it; another thread may give it up meanwhile. No lock is held, but where there is
 * a convertor: a peer that has several ways to this process could be in two threads. */
static void store(mca_pml_spec_recv_request_t *recvreq, const mca_pml_spec_packet_t *packet,
                  size_t offset, size_t bytes)
{
    const size_t skip = sizeof(mca_pml_spec_part_hdr_t);
    if (OPAL_LIKELY(mca_pml_spec_use(&recvreq->life))) {
        if (OPAL_LIKELY(recvreq->is_flat)) {
            mca_pml_spec_peer_t *peer = recvreq->peer;
            const uint64_t begin =
                mca_pml_spec_costs_begin(peer, &peer->far.out, recvreq->req_recv.req_bytes_packed);
            mca_pml_spec_recv_store(recvreq, packet, skip, offset, bytes);
            mca_pml_spec_costs_end(peer, &peer->far.out, begin, bytes);
        } else {
            mca_pml_spec_lock(&recvreq->convert_lock);
            mca_pml_spec_recv_store(recvreq, packet, skip, offset, bytes);
            mca_pml_spec_unlock(&recvreq->convert_lock);
        }
        mca_pml_spec_recv_leave(recvreq);
    }
    mca_pml_spec_recv_account(recvreq, bytes, OMPI_SUCCESS);
}

/* A checked packet. The communicator's lock is held and is released. */
static void part(mca_pml_spec_comm_t *comm, const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_part_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    const size_t bytes = packet->size - sizeof(*hdr);
    const char *wrong = "its source is not in the communicator";
    mca_pml_spec_peer_t *peer = (uint32_t) hdr->src < comm->size ? comm->peers[hdr->src] : NULL;
    spec_parts_t *parts = NULL == peer ? NULL
                                       : spec_parts_take(&peer->parts, hdr->seq, hdr->epoch,
                                                         hdr->offset, bytes, &wrong);
    const bool late = NULL != peer && !spec_recv_can_be_of(&peer->recv, hdr->epoch);
    mca_pml_spec_recv_request_t *recvreq = NULL;
    if (NULL != parts && !parts->is_kept) {
        recvreq = SPEC_ENTRY(parts, mca_pml_spec_recv_request_t, parts);
    } else if (NULL != parts) {
        store_kept(SPEC_ENTRY(parts, mca_pml_spec_frag_t, parts), packet, hdr->offset, bytes);
    }
    mca_pml_spec_unlock(&comm->slot->lock);
    if (OPAL_UNLIKELY(NULL == parts)) {
        (late ? mca_pml_spec_refuse_late : mca_pml_spec_refuse)("PART", wrong);
    } else if (NULL != recvreq) {
        store(recvreq, packet, hdr->offset, bytes);
    }
}

MCA_PML_SPEC_PACKET(part, "PART", mca_pml_spec_part_hdr_t)
{
    const mca_pml_spec_part_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    for (;;) {
        mca_pml_spec_comm_t *comm = mca_pml_spec_comm_lock(hdr->ctx);
        if (OPAL_LIKELY(NULL != comm) && OPAL_LIKELY(!MCA_PML_SPEC_SEEN(comm->slot->replays))) {
            part(comm, packet);
            return;
        }
        if (NULL != comm) { /* its first part may be among those that arrive again */
            mca_pml_spec_unlock(&comm->slot->lock);
        }
        if (mca_pml_spec_park(hdr->ctx, packet, true)) {
            return;
        }
    }
}

static void part_parked(const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_part_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_lock(hdr->ctx);
    if (NULL != comm) { /* always: it is being added */
        part(comm, packet);
    }
}

const mca_pml_spec_packet_type_t mca_pml_spec_parts_packets[] = {
    {MCA_PML_SPEC_PART, mca_pml_spec_recv_part, part_parked},
    {0, NULL, NULL},
};
