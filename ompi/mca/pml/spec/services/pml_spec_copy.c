/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends and receives messages in fragments through the transports' buffers.
 *
 * One caller at a time is in the loop that turns ranges into fragments (docs/design/threads.md).
 * A caller that may be in the loop while the last byte is accounted takes a guard: one byte more in
 * `left`, so that the request cannot end below the loop. */
#include "pml_spec_copy.h"

#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_explain.h"
#include "pml_spec_control.h"

static void guard(mca_pml_spec_send_request_t *sendreq)
{
    (void) mca_pml_spec_add64(&sendreq->left, 1);
}

static void unguard(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_send_account(sendreq, 1, OMPI_SUCCESS);
}

static void schedule(mca_pml_spec_send_request_t *sendreq);

static void fragment_sent(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                          mca_btl_base_descriptor_t *des, int status)
{
    (void) btl, (void) ep;
    mca_pml_spec_send_request_t *sendreq = des->des_cbdata;
    const uint64_t bytes = mca_pml_spec_seg_bytes(des->des_segments, des->des_segment_count)
                           - sizeof(mca_pml_spec_frag_hdr_t);
    guard(sendreq);
    (void) mca_pml_spec_add32(&sendreq->in_flight, -1);
    mca_pml_spec_send_account(sendreq, bytes, status);
    schedule(sendreq);
    unguard(sendreq);
}

static mca_pml_spec_range_t *first_range(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_lock(&sendreq->range_lock);
    spec_node_t *n = spec_list_first(&sendreq->ranges);
    mca_pml_spec_unlock(&sendreq->range_lock);
    return NULL == n ? NULL : SPEC_ENTRY(n, mca_pml_spec_range_t, node);
}

/* n bytes of the range are on their way (only the loop changes ranges that are in the list). */
static void advance(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_range_t *range, uint64_t n)
{
    range->offset += n;
    range->length -= n;
    if (0 == range->length) {
        mca_pml_spec_lock(&sendreq->range_lock);
        spec_list_remove(&range->node);
        mca_pml_spec_unlock(&sendreq->range_lock);
        mca_pml_spec_put_back(&mca_pml_spec.ranges, &range->super);
    }
}

#define FRAGMENT_FLAGS (MCA_BTL_DES_FLAGS_BTL_OWNERSHIP | MCA_BTL_DES_SEND_ALWAYS_CALLBACK)

mca_btl_base_descriptor_t *mca_pml_spec_pack(mca_pml_spec_send_request_t *sendreq,
                                             mca_bml_base_btl_t *bml_btl, const void *hdr,
                                             size_t header, size_t position, size_t *size,
                                             uint32_t flags)
{
    opal_convertor_t *convertor = &sendreq->req_send.req_base.req_convertor;
    const size_t wanted = *size;
    mca_btl_base_descriptor_t *des = NULL;
    mca_bml_base_alloc(bml_btl, &des, MCA_BTL_NO_ORDER, header + wanted, flags);
    if (OPAL_UNLIKELY(NULL == des)) {
        return NULL;
    }
    if (OPAL_UNLIKELY(!mca_pml_spec_use(&sendreq->life))) {
        mca_bml_base_free(bml_btl, des);
        return NULL;
    }
    char *to = des->des_segments[0].seg_addr.pval;
    memcpy(to, hdr, header);
    if (wanted > 0) {
        struct iovec iov = {.iov_base = to + header, .iov_len = wanted};
        uint32_t iovs = 1;
        opal_convertor_set_position(convertor, &position);
        opal_convertor_pack(convertor, &iov, &iovs, size);
    }
    mca_pml_spec_send_leave(sendreq);
    if (OPAL_UNLIKELY(*size < wanted)) {
        mca_btl_base_descriptor_t *loose = des;
        des = NULL;
        mca_bml_base_alloc(bml_btl, &des, MCA_BTL_NO_ORDER, header + *size, flags);
        if (OPAL_LIKELY(NULL != des)) {
            memcpy(des->des_segments[0].seg_addr.pval, to, header + *size);
        }
        mca_bml_base_free(bml_btl, loose);
    }
    if (OPAL_LIKELY(NULL != des)) {
        des->des_segments[0].seg_len = header + *size;
    }
    return des;
}

/* Its data is on a device, and could not be read; or the program has its memory back. */
static bool is_unreadable(const mca_pml_spec_send_request_t *sendreq)
{
    return (OPAL_UNLIKELY(sendreq->status < 0) && sendreq->on_device)
           || OPAL_UNLIKELY(mca_pml_spec_send_is_lost(sendreq));
}

/* Bytes of the next fragment of the message, of which so many are left. Where both ends' processors copy, the message goes in two at
 * least, so that they do at the same time. */
static size_t fragment_size(const mca_pml_spec_send_request_t *sendreq,
                            const mca_bml_base_btl_t *bml_btl, uint64_t left)
{
    uint64_t size = bml_btl->btl->btl_max_send_size - sizeof(mca_pml_spec_frag_hdr_t);
    if (SPEC_BY_FRAGMENTS == sendreq->peer->mover) {
        size = spec_joint_piece(sendreq->req_send.req_bytes_packed, size);
    }
    return (size_t) (size < left ? size : left);
}

/* The fragment that was copied ahead, if it begins at offset and has so many bytes; else des is NULL, and it is gone. */
static mca_pml_spec_ahead_t take_ahead(mca_pml_spec_send_request_t *sendreq, uint64_t offset,
                                       uint64_t least, uint64_t most)
{
    const mca_pml_spec_ahead_t ahead = sendreq->ahead;
    if (ahead.offset != offset || ahead.length < least || ahead.length > most) {
        mca_pml_spec_ahead_drop(sendreq);
        return (mca_pml_spec_ahead_t){.des = NULL};
    }
    sendreq->has_ahead = false;
    return ahead;
}

/* Send one fragment of the range. False: the transport has no room now, or the data cannot be read. */
static bool send_one(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_range_t *range)
{
    mca_bml_base_endpoint_t *endpoint = sendreq->peer->endpoint;
    mca_bml_base_btl_t *bml_btl = mca_pml_spec_next_btl(&endpoint->btl_send);
    mca_btl_base_descriptor_t *des = NULL;
    size_t size = fragment_size(sendreq, bml_btl, range->length), position = range->offset;
    opal_convertor_t *convertor = &sendreq->req_send.req_base.req_convertor;
    const mca_pml_spec_frag_hdr_t hdr = {
        .type = MCA_PML_SPEC_FRAG, .r = sendreq->r, .offset = range->offset};

    if (OPAL_UNLIKELY(sendreq->has_ahead)) {
        const mca_pml_spec_ahead_t ahead = take_ahead(sendreq, range->offset, 1, range->length);
        des = ahead.des;
        bml_btl = NULL == des ? bml_btl : ahead.btl;
        size = NULL == des ? size : ahead.length;
    }
    /* A transport may take a buffer on a device for one that it can send from: it does not see that. */
    if (OPAL_UNLIKELY(sendreq->on_device) && mca_pml_spec_convertor_is_device(convertor)) {
        des =
            mca_pml_spec_pack(sendreq, bml_btl, &hdr, sizeof(hdr), position, &size, FRAGMENT_FLAGS);
    } else if (NULL == des && OPAL_LIKELY(mca_pml_spec_use(&sendreq->life))) {
        opal_convertor_set_position(convertor, &position);
        mca_bml_base_prepare_src(bml_btl, convertor, MCA_BTL_NO_ORDER, sizeof(hdr), &size,
                                 FRAGMENT_FLAGS, &des);
        mca_pml_spec_send_leave(sendreq);
    }
    if (NULL == des) {
        return false;
    }
    if (OPAL_UNLIKELY(0 == size) || is_unreadable(sendreq)) {
        mca_bml_base_free(bml_btl, des);
        return false;
    }
    memcpy(des->des_segments[0].seg_addr.pval, &hdr, sizeof(hdr));
    des->des_cbfunc = fragment_sent;
    des->des_cbdata = sendreq;
    (void) mca_pml_spec_add32(&sendreq->in_flight, 1);
    mca_pml_spec_agent_asks(sendreq->peer->proc);
    if (OPAL_UNLIKELY(0 > mca_pml_spec_packet_send(bml_btl, des, MCA_PML_SPEC_FRAG))) {
        (void) mca_pml_spec_add32(&sendreq->in_flight, -1);
        return false;
    }
    MCA_PML_SPEC_COUNT_N(bytes_copied, size);
    advance(sendreq, range, size);
    return true;
}

/* To a process that is lost, or from a buffer that cannot be read: what was not sent is given up, and a receiver that lives is
 * told. The caller holds a guard. */
static void give_up(mca_pml_spec_send_request_t *sendreq)
{
    const bool lost = mca_pml_spec_lost(sendreq->peer);
    const int32_t status =
        mca_pml_spec_send_is_lost(sendreq) ? MCA_PML_SPEC_ERR_REVOKED : OMPI_ERROR;
    mca_pml_spec_range_t *range;
    while (NULL != (range = first_range(sendreq))) {
        const uint64_t length = range->length;
        const mca_pml_spec_fin_hdr_t fin = {
            .type = MCA_PML_SPEC_FIN, .status = status, .handle = sendreq->r, .bytes = length};
        advance(sendreq, range, length);
        if (!lost) {
            mca_pml_spec_control_send(sendreq->peer->endpoint, NULL, &fin, MCA_PML_SPEC_FIN_SUM);
        }
        mca_pml_spec_send_account(sendreq, length, lost ? OMPI_ERR_UNREACH : OMPI_ERROR);
    }
}

/* The loop. True: there is something to send, the transport has no room, and no fragment is under
 * way whose completion would bring us back here. */
static bool run(mca_pml_spec_send_request_t *sendreq)
{
    bool starved = false;
    if (mca_pml_spec_add32(&sendreq->scheduling, 1) > 1) {
        return false;
    }
    int32_t seen;
    do {
        mca_pml_spec_range_t *range;
        seen = MCA_PML_SPEC_SEEN(sendreq->scheduling);
        starved = false;
        if (mca_pml_spec_lost(sendreq->peer) || is_unreadable(sendreq)) {
            give_up(sendreq);
        }
        while (MCA_PML_SPEC_SEEN(sendreq->in_flight) < mca_pml_spec.pipeline_depth
               && NULL != (range = first_range(sendreq))) {
            if (send_one(sendreq, range)) {
                continue;
            }
            if (!is_unreadable(sendreq)) {
                starved = 0 == MCA_PML_SPEC_SEEN(sendreq->in_flight);
                break;
            }
            give_up(sendreq);
        }
    } while (mca_pml_spec_add32(&sendreq->scheduling, -seen) > 0);
    return starved;
}

/* The guard of schedule is held, so that the request is still there: a second range may have taken the first one along
 * meanwhile. */
static bool retry(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_send_request_t *sendreq =
        SPEC_ENTRY(pending, mca_pml_spec_send_request_t, pending);
    sendreq->waiting = 0;
    const bool again = run(sendreq) && 0 == mca_pml_spec_set_bits(&sendreq->waiting, 1);
    if (!again) {
        unguard(sendreq);
    }
    return !again;
}

/* The caller holds a guard. */
static void schedule(mca_pml_spec_send_request_t *sendreq)
{
    if (OPAL_UNLIKELY(run(sendreq)) && 0 == mca_pml_spec_set_bits(&sendreq->waiting, 1)) {
        guard(sendreq);
        sendreq->pending.retry = retry;
        mca_pml_spec_pend(&sendreq->pending, MCA_PML_SPEC_RES_FRAG(sendreq->peer->endpoint));
    }
}

void mca_pml_spec_copy_send(void *request, uint64_t offset, uint64_t length)
{
    mca_pml_spec_send_request_t *sendreq = request;
    mca_pml_spec_range_t *range = (mca_pml_spec_range_t *) mca_pml_spec_get(&mca_pml_spec.ranges);
    if (OPAL_UNLIKELY(NULL == range)) {
        mca_pml_spec_no_memory("a part of a message to be sent", sizeof(*range));
    }
    range->offset = offset;
    range->length = length;
    guard(sendreq);
    mca_pml_spec_lock(&sendreq->range_lock);
    spec_list_append(&sendreq->ranges, &range->node);
    mca_pml_spec_unlock(&sendreq->range_lock);
    schedule(sendreq);
    unguard(sendreq);
}

/* ---- fragments of one block ---- */

/* Of all peers. */
static volatile int32_t fragments;

void mca_pml_spec_copy_init(void)
{
    fragments = 0;
}

static void under_way(mca_pml_spec_peer_t *peer, int32_t n)
{
    (void) mca_pml_spec_add32(&peer->fragments, n);
    (void) mca_pml_spec_add32(&fragments, n);
}

bool mca_pml_spec_copy_has_room(const mca_pml_spec_peer_t *peer, int32_t n)
{
    return MCA_PML_SPEC_SEEN(peer->fragments) + n <= mca_pml_spec.pipeline_depth
           && MCA_PML_SPEC_SEEN(fragments) + n <= SPEC_JOINT_FRAGMENTS;
}

static void fragment_returned(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                              mca_btl_base_descriptor_t *des, int status)
{
    (void) btl, (void) ep, (void) status; /* what cannot arrive has lost the peer */
    mca_pml_spec_peer_t *peer = des->des_cbdata;
    under_way(peer, -1);
    mca_pml_spec_comm_put(peer->comm);
}

/* A fragment whose header is still to be written; des NULL: there is no room, or the send was given up. */
static mca_pml_spec_ahead_t copied(mca_pml_spec_send_request_t *sendreq,
                                   mca_bml_base_btl_t *bml_btl, uint64_t offset, uint64_t length)
{
    mca_pml_spec_ahead_t made = {.btl = bml_btl, .offset = offset, .length = length};
    mca_bml_base_alloc(made.btl, &made.des, MCA_BTL_NO_ORDER,
                       sizeof(mca_pml_spec_frag_hdr_t) + length, FRAGMENT_FLAGS);
    if (OPAL_UNLIKELY(NULL == made.des)) {
        return made;
    }
    if (OPAL_UNLIKELY(!mca_pml_spec_use(&sendreq->life))) {
        mca_bml_base_free(bml_btl, made.des);
        made.des = NULL;
        return made;
    }
    mca_btl_base_segment_t *seg = made.des->des_segments;
    memcpy((char *) seg->seg_addr.pval + sizeof(mca_pml_spec_frag_hdr_t), sendreq->flat + offset,
           length);
    seg->seg_len = sizeof(mca_pml_spec_frag_hdr_t) + length;
    mca_pml_spec_send_leave(sendreq);
    return made;
}

static mca_bml_base_btl_t *next_btl(const mca_pml_spec_send_request_t *sendreq)
{
    return mca_pml_spec_next_btl(&sendreq->peer->endpoint->btl_send);
}

static void keep_ahead(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_ahead_t ahead)
{
    sendreq->ahead = ahead;
    sendreq->has_ahead = NULL != ahead.des;
}

void mca_pml_spec_copy_ahead(mca_pml_spec_send_request_t *sendreq, uint64_t offset, uint64_t length)
{
    keep_ahead(sendreq, copied(sendreq, next_btl(sendreq), offset, length));
}

void mca_pml_spec_copy_begins(mca_pml_spec_send_request_t *sendreq)
{
    const uint64_t left = sendreq->req_send.req_bytes_packed - sendreq->first;
    mca_bml_base_btl_t *bml_btl = next_btl(sendreq);
    keep_ahead(sendreq,
               copied(sendreq, bml_btl, sendreq->first, fragment_size(sendreq, bml_btl, left)));
}

/* A fragment that is ready but for its header. False: the transport refuses it, and it is gone. */
static bool hand_over(mca_pml_spec_peer_t *peer, const mca_pml_spec_ahead_t *made, uint8_t type,
                      const void *hdr)
{
    mca_btl_base_descriptor_t *des = made->des;
    memcpy(des->des_segments[0].seg_addr.pval, hdr, MCA_PML_SPEC_COPY_HEADER);
    des->des_cbfunc = fragment_returned;
    des->des_cbdata = peer;
    mca_pml_spec_comm_retain(peer->comm);
    under_way(peer, 1);
    if (OPAL_LIKELY(0 <= mca_pml_spec_packet_send(made->btl, des, type))) {
        return true;
    }
    under_way(peer, -1);
    mca_pml_spec_comm_put(peer->comm);
    return false;
}

bool mca_pml_spec_copy_packet(mca_pml_spec_send_request_t *sendreq, uint8_t type, const void *hdr,
                              uint64_t offset, uint64_t length)
{
    const mca_pml_spec_ahead_t made = copied(sendreq, next_btl(sendreq), offset, length);
    return NULL != made.des && hand_over(sendreq->peer, &made, type, hdr);
}

bool mca_pml_spec_copy_fragment(mca_pml_spec_send_request_t *sendreq, uint64_t offset,
                                uint64_t length)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_spec_ahead_t fragment = {.des = NULL};
    uint64_t start = 0; /* of the copy, if it is made here */
    if (OPAL_UNLIKELY(sendreq->has_ahead)) {
        fragment = take_ahead(sendreq, offset, length, length);
    }
    if (NULL == fragment.des) {
        start = spec_now();
        fragment = copied(sendreq, next_btl(sendreq), offset, length);
    }
    const mca_pml_spec_frag_hdr_t hdr = {
        .type = MCA_PML_SPEC_FRAG, .r = sendreq->r, .offset = offset};
    if (OPAL_UNLIKELY(NULL == fragment.des)
        || OPAL_UNLIKELY(!hand_over(peer, &fragment, MCA_PML_SPEC_FRAG, &hdr))) {
        return false;
    }
    MCA_PML_SPEC_COUNT_N(bytes_copied, length);
    if (start > 0 && length >= SPEC_JOINT_LEAST) {
        spec_copies_saw(&peer->far.in, &mca_pml_spec.costs, length, spec_now() - start);
    }
    mca_pml_spec_send_account(sendreq, length, OMPI_SUCCESS);
    return true;
}

/* ---- receiver ---- */

/* Of a fragment in `early`. */
static uint64_t offset_of(spec_node_t *at)
{
    const mca_pml_spec_frag_t *frag = SPEC_ENTRY(at, mca_pml_spec_frag_t, item.node);
    return ((const mca_pml_spec_frag_hdr_t *) frag->seg.seg_addr.pval)->offset;
}

/* Keep a fragment that overtook others. NULL, or why not. convert_lock is held. */
static const char *keep_early(mca_pml_spec_recv_request_t *recvreq,
                              const mca_pml_spec_packet_t *packet, uint64_t offset, uint64_t length)
{
    spec_node_t *at = recvreq->early.prev;
    while (at != &recvreq->early && offset_of(at) > offset) {
        at = at->prev;
    }
    if (length > recvreq->capacity - recvreq->early_bytes
        || (at != &recvreq->early && offset_of(at) == offset)) {
        return "its data came before";
    }
    mca_pml_spec_frag_t *frag = mca_pml_spec_frag_keep(packet);
    spec_list_insert_after(at, &frag->item.node);
    recvreq->early_bytes += length;
    MCA_PML_SPEC_COUNT(early);
    return NULL;
}

/* Unpack the fragments whose turn has come; returns their bytes. convert_lock is held. */
static uint64_t store_early(mca_pml_spec_recv_request_t *recvreq)
{
    uint64_t bytes = 0;
    spec_node_t *n;
    while (NULL != (n = spec_list_first(&recvreq->early))) {
        mca_pml_spec_frag_t *frag = SPEC_ENTRY(n, mca_pml_spec_frag_t, item.node);
        const uint64_t offset = offset_of(n);
        const uint64_t length = frag->seg.seg_len - sizeof(mca_pml_spec_frag_hdr_t);
        if (offset > recvreq->nxt) {
            break;
        }
        spec_list_remove(n);
        recvreq->early_bytes -= length;
        if (OPAL_LIKELY(offset == recvreq->nxt)) {
            mca_pml_spec_packet_t packet = mca_pml_spec_frag_view(frag);
            mca_pml_spec_recv_store(recvreq, &packet, sizeof(mca_pml_spec_frag_hdr_t), offset,
                                    length);
            recvreq->nxt += length;
            bytes += length;
        } else {
            mca_pml_spec_refuse("FRAG", "it overlaps another");
        }
        mca_pml_spec_frag_free(frag);
    }
    return bytes;
}

/* A fragment for a buffer with gaps. Returns how many bytes are in at now that were not before,
 * of this one and of those that waited for it. */
static uint64_t store_in_order(mca_pml_spec_recv_request_t *recvreq,
                               const mca_pml_spec_packet_t *packet, uint64_t offset,
                               uint64_t length)
{
    const char *wrong = NULL;
    uint64_t bytes = 0;
    mca_pml_spec_lock(&recvreq->convert_lock);
    if (OPAL_LIKELY(offset == recvreq->nxt)) {
        mca_pml_spec_recv_store(recvreq, packet, sizeof(mca_pml_spec_frag_hdr_t), offset, length);
        recvreq->nxt += length;
        bytes = length + store_early(recvreq);
    } else if (offset < recvreq->nxt) {
        wrong = "its data came before";
    } else {
        wrong = keep_early(recvreq, packet, offset, length);
    }
    mca_pml_spec_unlock(&recvreq->convert_lock);
    if (OPAL_UNLIKELY(NULL != wrong)) {
        mca_pml_spec_refuse("FRAG", wrong);
    }
    return bytes;
}

MCA_PML_SPEC_PACKET(frag, "FRAG", mca_pml_spec_frag_hdr_t)
{
    const mca_pml_spec_frag_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    const size_t length = packet->size - sizeof(*hdr);
    mca_pml_spec_recv_request_t *recvreq =
        mca_pml_spec_recv_claim(hdr->r, "FRAG", hdr->offset, length);
    if (NULL == recvreq) {
        return;
    }
    uint64_t bytes = length;
    if (OPAL_LIKELY(mca_pml_spec_use(&recvreq->life))) { /* it was not given up since it was claimed */
        if (OPAL_LIKELY(recvreq->is_flat)) {
            mca_pml_spec_recv_store(recvreq, packet, sizeof(*hdr), hdr->offset, length);
        } else {
            bytes = store_in_order(recvreq, packet, hdr->offset, length);
        }
        mca_pml_spec_recv_leave(recvreq);
    }
    if (OPAL_LIKELY(bytes > 0)) {
        mca_pml_spec_recv_account(recvreq, bytes, OMPI_SUCCESS);
    }
}
