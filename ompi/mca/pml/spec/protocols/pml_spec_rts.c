/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sender first: RTS announces the message; the receiver fetches it when a receive has matched (docs/design/protocol.md,
 * "Sender first").
 *
 * Bookkeeping: the sender's `left` begins with the length of the message; each answer of the
 * receiver takes its share: FIN its bytes, CTS its range (when that was delivered) and its waive:
 * what came inside the RTS and what the receive has no room for. */
#include "pml_spec_rts.h"

#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_cico.h"
#include "../objects/pml_spec_stage.h"
#include "../objects/pml_spec_upward.h"
#include "../services/pml_spec_adapt.h"
#include "../services/pml_spec_claims.h"
#include "../services/pml_spec_control.h"
#include "../services/pml_spec_copy.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_joint.h"
#include "../services/pml_spec_patience.h"
#include "../services/pml_spec_pipe.h"

enum { NEW, ANNOUNCED, ANSWERED };

/* May the receiver read the message by itself? Not where a communicator can be revoked: a sender that gives up has its memory back
 * at once, and a get asks nobody. A CTS is refused by then (refuse_cts). */
static bool may_get(void)
{
    return !mca_pml_spec_outlives();
}

/* ---- sender ---- */

/* Register the data with the transport that carries the RTS, if it needs that for a get. */
static void offer_key(mca_pml_spec_send_request_t *sendreq, mca_bml_base_btl_t *bml_btl)
{
    if (may_get() && !sendreq->staged && (bml_btl->btl_flags & MCA_BTL_FLAGS_GET)
        && NULL != bml_btl->btl->btl_register_mem && NULL == sendreq->key) {
        mca_bml_base_register_mem(bml_btl, sendreq->flat, sendreq->req_send.req_bytes_packed,
                                  MCA_BTL_REG_FLAG_REMOTE_READ, &sendreq->key);
        sendreq->key_btl = bml_btl;
    }
}

/* May RDMA carry the message at all? If so the RTS carries no data. */
static bool rdma_is_possible(const mca_pml_spec_send_request_t *sendreq)
{
    return sendreq->is_flat && !sendreq->fits
           && (sendreq->peer->endpoint->btl_flags_or & (MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET));
}

/* May it go through a ring? Then RDMA is not possible, and the RTS carries no data either. */
static bool ring_is_possible(const mca_pml_spec_send_request_t *sendreq)
{
    return sendreq->is_flat && !sendreq->fits
           && mca_pml_spec_cico_may(sendreq->peer, sendreq->req_send.req_bytes_packed);
}

size_t mca_pml_spec_rts_brings(const mca_pml_spec_send_request_t *sendreq)
{
    if (rdma_is_possible(sendreq) || ring_is_possible(sendreq)) {
        return 0;
    }
    const size_t length = sendreq->req_send.req_bytes_packed;
    const size_t room = sendreq->peer->eager_limit + sizeof(mca_pml_spec_match_hdr_t)
                        - sizeof(mca_pml_spec_rts_hdr_t);
    return length < room ? length : room;
}

/* An RTS with the first data behind it. False: the transport has no room now. The data may be less than there is room for:
 * then the credit for the difference comes back, for the receiver counts what it gets; another send may wait for that. */
static bool send_with_data(mca_pml_spec_send_request_t *sendreq, mca_bml_base_btl_t *bml_btl,
                           const mca_pml_spec_rts_hdr_t *hdr)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_spec_comm_t *comm = peer->comm;
    size_t data = sendreq->first;
    mca_btl_base_descriptor_t *des = mca_pml_spec_pack(
        sendreq, bml_btl, hdr, sizeof(*hdr), 0, &data,
        MCA_BTL_DES_FLAGS_PRIORITY | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP | MCA_BTL_DES_FLAGS_SIGNAL);
    if (OPAL_UNLIKELY(NULL == des)) {
        return false;
    }
    if (OPAL_UNLIKELY(sendreq->status < 0)) {
        mca_bml_base_free(bml_btl, des);
        mca_pml_spec_send_faulty(sendreq);
        return true;
    }
    (void) mca_pml_spec_handle_tell(&sendreq->handle);
    const bool is_less = data < sendreq->first;
    if (OPAL_UNLIKELY(is_less)) {
        mca_pml_spec_flow_brings(peer, sendreq->first, data);
        sendreq->first = data;
        mca_pml_spec_comm_retain(comm); /* this message may be what keeps it */
    }
    des->des_cbfunc = mca_pml_spec_sent_cb;
    mca_pml_spec_agent_asks(peer->proc);
    const bool is_sent = 0 <= mca_pml_spec_packet_send(bml_btl, des, MCA_PML_SPEC_RTS);
    if (OPAL_LIKELY(is_sent)) {
        MCA_PML_SPEC_COUNT_N(bytes_eager, data);
    }
    if (OPAL_UNLIKELY(is_less)) {
        if (MCA_PML_SPEC_SEEN(peer->shut)) {
            mca_pml_spec_upward.turns(peer);
        }
        mca_pml_spec_comm_put(comm);
    }
    return is_sent;
}

bool mca_pml_spec_rts_again(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_bml_base_endpoint_t *endpoint = peer->endpoint;
    mca_bml_base_btl_t *bml_btl = mca_pml_spec_next_btl(&endpoint->btl_eager);
    const size_t length = sendreq->req_send.req_bytes_packed;
    struct {
        mca_pml_spec_rts_hdr_t hdr;
        char key[MCA_PML_SPEC_KEY_MAX];
    } packet = {
        .hdr = {.match = mca_pml_spec_match_hdr(MCA_PML_SPEC_RTS, peer,
                                                sendreq->req_send.req_base.req_tag, sendreq->seq),
                .length = length,
                .s = MCA_PML_SPEC_GLANCE(sendreq->handle),
                .flags = sendreq->rts_flags,
                .sent_at = sendreq->sent_at}};
    size_t size = sizeof(packet.hdr);

    if (rdma_is_possible(sendreq)) {
        packet.hdr.flags |= MCA_PML_SPEC_RTS_FLAT | (sendreq->staged ? MCA_PML_SPEC_RTS_PUT : 0)
                            | (sendreq->sends_fragments ? MCA_PML_SPEC_RTS_FRAGMENTS : 0);
        packet.hdr.addr = (uint64_t) (uintptr_t) sendreq->flat;
        offer_key(sendreq, bml_btl);
        if (NULL != sendreq->key && sendreq->key_btl == bml_btl) {
            packet.hdr.flags |= MCA_PML_SPEC_RTS_KEY;
            packet.hdr.key_len = (uint16_t) bml_btl->btl->btl_registration_handle_size;
            memcpy(packet.key, sendreq->key, packet.hdr.key_len);
            size += packet.hdr.key_len;
        }
        packet.hdr.s = mca_pml_spec_handle_tell(&sendreq->handle);
        mca_pml_spec_control_send(endpoint, bml_btl, &packet, size);
        return true;
    }
    if (0 != sendreq->ring) {
        packet.hdr.flags |= MCA_PML_SPEC_RTS_RING;
        packet.hdr.addr = sendreq->ring;
        packet.hdr.s = mca_pml_spec_handle_tell(&sendreq->handle);
        mca_pml_spec_control_send(endpoint, bml_btl, &packet, size);
        return true;
    }
    return send_with_data(sendreq, bml_btl, &packet.hdr);
}

/* So much of `owed` stands for these bytes: a message without data is answered for once, too. */
static uint64_t to_be_answered(const mca_pml_spec_send_request_t *sendreq, uint64_t bytes)
{
    return 0 == sendreq->req_send.req_bytes_packed ? 1 : bytes;
}

void mca_pml_spec_rts_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr)
{
    (void) rtr;
    sendreq->owed = (int64_t) to_be_answered(sendreq, sendreq->req_send.req_bytes_packed);
    sendreq->joined = sendreq->awaits_cts = false;
    (void) mca_pml_spec_handle_open(&mca_pml_spec.send_handles, sendreq, &sendreq->handle);
    if (mca_pml_spec_lost(sendreq->peer)) { /* perhaps it was before the handle could be found */
        mca_pml_spec_send_unreachable(sendreq);
        return;
    }
    MCA_PML_SPEC_COUNT(sent_rts);
    sendreq->waiting = 0;
    if (sendreq->req_send.req_bytes_packed >= SPEC_PATIENCE_LEAST) {
        sendreq->announced = true;
        (void) mca_pml_spec_add32(&sendreq->peer->announced, 1);
        (void) mca_pml_spec_add32(&mca_pml_spec.announced, 1);
    }
    mca_pml_spec_adapt_announce(sendreq);
    mca_pml_spec_stage(sendreq, &mca_pml_spec_proto_rts, ANNOUNCED);
    /* From the moment the RTS leaves the request may end at any time, in another thread too: with threads nothing is copied
     * ahead, for the answer may be served while it is. */
    const bool by_copy = !rdma_is_possible(sendreq);
    sendreq->ring = ring_is_possible(sendreq) ? mca_pml_spec_cico_offer_send(sendreq) : 0;
    sendreq->sends_fragments =
        !by_copy && SPEC_BY_SINGLE == sendreq->peer->mover && mca_pml_spec_joint_sends(sendreq);
    const bool ahead = sendreq->blocks && sendreq->is_flat && sendreq->peer->is_near
                       && !mca_pml_spec.threaded && SPEC_BY_RDMA != sendreq->peer->mover
                       && sendreq->first < sendreq->req_send.req_bytes_packed
                       && (by_copy || sendreq->sends_fragments);
    if (ahead) {
        (void) mca_pml_spec_add64(&sendreq->left, 1);
    }
    if (OPAL_UNLIKELY(!mca_pml_spec_rts_again(sendreq))) {
        mca_pml_spec_send_later(sendreq);
    }
    if (ahead) {
        (0 != sendreq->ring ? mca_pml_spec_cico_ahead
         : by_copy          ? mca_pml_spec_copy_begins
                            : mca_pml_spec_joint_ahead)(sendreq);
        mca_pml_spec_send_account(sendreq, 1, OMPI_SUCCESS);
    }
}

/* By the transport of the data, so that it follows the data. */
void mca_pml_spec_put_tell(mca_pml_spec_transfer_t *transfer)
{
    const mca_pml_spec_send_request_t *sendreq = transfer->args.request;
    const mca_pml_spec_fin_hdr_t fin = {.type = MCA_PML_SPEC_FIN,
                                        .handle = sendreq->r,
                                        .bytes = transfer->args.length,
                                        .offset = transfer->args.offset};
    mca_pml_spec_transfer_told(transfer, &fin, sizeof(fin));
}

/* A CTS: its range and what it waives. The module's lock is held: another thread may have another CTS of this message, and
 * only the first changes what all of them read. */
static const char *cts_take(mca_pml_spec_send_request_t *sendreq, const void *packet)
{
    const mca_pml_spec_cts_hdr_t *cts = packet;
    const uint64_t total = sendreq->req_send.req_bytes_packed;
    if (cts->offset > total || cts->length > total - cts->offset || cts->waive > total) {
        return "its range lies outside the message";
    }
    if ((cts->flags & MCA_PML_SPEC_CTS_PUT) && !sendreq->is_flat) {
        return "it asks to put what is not one block";
    }
    if (0 == cts->length + cts->waive) {
        return "it asks for nothing";
    }
    const bool joint = cts->flags & MCA_PML_SPEC_CTS_JOINT;
    const bool overtaken = joint && sendreq->awaits_cts;
    if (joint && (0 == cts->length || sendreq->joined || !sendreq->is_flat)) {
        return "it asks to move together what is not one block, or moves already";
    }
    /* Of a joint one each piece is taken off by the end that moves it; what is left keeps the request. */
    if ((joint && !overtaken && 0 == MCA_PML_SPEC_SEEN(sendreq->owed))
        || !mca_pml_spec_take_owed(&sendreq->owed, cts->waive + (joint ? 0 : cts->length))) {
        return "it asks for more than is left of the message";
    }
    /* Until the packet has been dealt with; a FIN that overtook it has done that already. */
    if (OPAL_LIKELY(!overtaken)) {
        (void) mca_pml_spec_add64(&sendreq->left, 1);
    }
    sendreq->joined |= joint;
    sendreq->awaits_cts &= !joint;
    if (ANSWERED != sendreq->stage) {
        mca_pml_spec_stage(sendreq, &mca_pml_spec_proto_rts, ANSWERED);
        sendreq->r = cts->r;
    }
    return NULL;
}

/* Of a send that has ended in an error nothing more is sent, and its receiver would wait for that for ever. */
static void refuse_cts(mca_pml_spec_send_request_t *sendreq, const mca_pml_spec_cts_hdr_t *cts)
{
    const mca_pml_spec_fin_hdr_t fin = {.type = MCA_PML_SPEC_FIN,
                                        .status = MCA_PML_SPEC_ERR_REVOKED,
                                        .handle = cts->r,
                                        .bytes = cts->length};
    if (cts->length > 0) {
        mca_pml_spec_control_send(sendreq->peer->endpoint, NULL, &fin, MCA_PML_SPEC_FIN_SUM);
    }
    mca_pml_spec_send_account(sendreq, cts->length + cts->waive + 1, OMPI_ERR_UNREACH);
}

/* The receiver has begun to get pieces; without its word they are all its own, or it has taken them all. */
static void answer_jointly(mca_pml_spec_send_request_t *sendreq, const mca_pml_spec_cts_hdr_t *cts)
{
    mca_pml_spec_joint_t *joint = &sendreq->joint;
    if (0 == cts->page_pid
        || !mca_pml_spec_claims_find(sendreq->peer, cts->r, cts->page_pid, cts->page_fd,
                                     &joint->claim)
        || !spec_claim_is_left(&joint->claim, cts->length)
        || !mca_pml_spec_joint_may(sendreq->peer, cts->length, false, sendreq->sends_fragments)) {
        return;
    }
    joint->offset = cts->offset;
    joint->length = cts->length;
    joint->remote = cts->addr;
    (void) mca_pml_spec_add64(&sendreq->left, 1);
    mca_pml_spec_joint_send(sendreq);
}

/* bml_btl: the transport that the CTS came by; NULL: it has none for the peer. */
static void answer_by_put(mca_pml_spec_send_request_t *sendreq, mca_bml_base_btl_t *bml_btl,
                          const mca_pml_spec_cts_hdr_t *cts)
{
    const mca_pml_spec_transfer_args_t args = {
        .is_put = true,
        .in_pieces = sendreq->staged || (cts->flags & MCA_PML_SPEC_CTS_STAGED),
        .btl = bml_btl,
        .local = mca_pml_spec_send_at(sendreq, cts->offset),
        .remote = cts->addr,
        .offset = cts->offset,
        .length = cts->length,
        .key = cts + 1,
        .key_len = cts->key_len,
        .request = sendreq,
        .tell = mca_pml_spec_put_tell,
        .by_copy = mca_pml_spec_copy_send};
    if (NULL != bml_btl
        && mca_pml_spec_can_rdma(bml_btl, true, (uintptr_t) args.local, cts->addr, cts->length,
                                 cts->key_len > 0)) {
        mca_pml_spec_pipe_start(&args);
    } else {
        mca_pml_spec_fall_back(&args);
    }
}

MCA_PML_SPEC_KEY_PACKET(cts, "CTS", mca_pml_spec_cts_hdr_t, false)
{
    const mca_pml_spec_cts_hdr_t *cts = mca_pml_spec_packet_hdr(packet);
    mca_pml_spec_send_request_t *sendreq = mca_pml_spec_send_claim(cts->s, "CTS", cts, cts_take);
    if (NULL == sendreq) {
        return;
    }
    if (OPAL_UNLIKELY(MCA_PML_SPEC_SEEN(sendreq->life) & SPEC_LIFE_LOST)) {
        refuse_cts(sendreq, cts);
        return;
    }
    const uint64_t waive = cts->waive;

    if (OPAL_UNLIKELY(NULL != sendreq->cico)) { /* the receiver has no use for the ring */
        mca_pml_spec_cico_drop(&sendreq->cico);
        if (cts->flags & MCA_PML_SPEC_CTS_NO_RING) {
            mca_pml_spec_cico_shun(sendreq->peer);
        }
    }
    if (cts->flags & MCA_PML_SPEC_CTS_JOINT) {
        answer_jointly(sendreq, cts);
    } else if (cts->length > 0 && (cts->flags & MCA_PML_SPEC_CTS_PUT)) {
        answer_by_put(sendreq, mca_pml_spec_find_btl(sendreq->peer->endpoint, packet->btl), cts);
    } else if (cts->length > 0) {
        mca_pml_spec_copy_send(sendreq, cts->offset, cts->length);
    }
    mca_pml_spec_send_account(sendreq, waive + 1, OMPI_SUCCESS);
}

/* ---- receiver ---- */

/* By this transport, behind the gets that it was given; NULL: nothing is under way. */
static void fin_to_sender(mca_pml_spec_recv_request_t *recvreq, mca_bml_base_btl_t *bml_btl,
                          uint64_t s, uint64_t bytes)
{
    const mca_pml_spec_fin_hdr_t fin = {
        .type = MCA_PML_SPEC_FIN, .to_sender = 1, .handle = s, .bytes = bytes};
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(recvreq->peer);
    const bool whole = bytes == recvreq->req_recv.req_bytes_packed;
    if (OPAL_LIKELY(NULL != endpoint)) {
        mca_pml_spec_control_send(endpoint, bml_btl, &fin,
                                  whole ? MCA_PML_SPEC_FIN_WHOLE : MCA_PML_SPEC_FIN_SUM);
    }
}

/* The bytes that the first answer takes off the sender's shoulders beyond its own range. */
static uint64_t take_waive(mca_pml_spec_recv_request_t *recvreq)
{
    if (OPAL_UNLIKELY(mca_pml_spec.threaded)) {
        return __atomic_exchange_n(&recvreq->waive, 0, __ATOMIC_ACQ_REL);
    }
    uint64_t waive = recvreq->waive;
    recvreq->waive = 0;
    return waive;
}

/* False: its sender is lost, and so are these bytes. Asked when its handle can be found: whoever gives up the sender later finds the
 * receive by that. */
static bool can_ask(mca_pml_spec_recv_request_t *recvreq, uint64_t length)
{
    (void) mca_pml_spec_recv_handle(recvreq);
    if (OPAL_UNLIKELY(mca_pml_spec_lost(recvreq->peer))) {
        mca_pml_spec_recv_account(recvreq, length, OMPI_ERR_UNREACH);
        return false;
    }
    return true;
}

void mca_pml_spec_rts_ask_copy(void *request, uint64_t offset, uint64_t length)
{
    mca_pml_spec_recv_request_t *recvreq = request;
    if (!can_ask(recvreq, length)) {
        return;
    }
    const mca_pml_spec_cts_hdr_t cts = {
        .type = MCA_PML_SPEC_CTS,
        .flags =
            (uint8_t) (MCA_PML_SPEC_CTS_COPY
                       | (MCA_PML_SPEC_GLANCE(recvreq->peer->ringless) ? MCA_PML_SPEC_CTS_NO_RING
                                                                       : 0)),
        .s = recvreq->s,
        .r = MCA_PML_SPEC_GLANCE(recvreq->handle),
        .offset = offset,
        .length = length,
        .waive = take_waive(recvreq)};
    (void) mca_pml_spec_add64(&recvreq->owed, (int64_t) length);
    mca_pml_spec_control_send(recvreq->peer->endpoint, NULL, &cts, sizeof(cts));
}

static void ask_put(mca_pml_spec_recv_request_t *recvreq, const mca_pml_spec_stripe_t *stripe)
{
    if (!can_ask(recvreq, stripe->length)) {
        return;
    }
    struct {
        mca_pml_spec_cts_hdr_t hdr;
        char key[MCA_PML_SPEC_KEY_MAX];
    } cts = {.hdr = {.type = MCA_PML_SPEC_CTS,
                     .flags = (uint8_t) (MCA_PML_SPEC_CTS_PUT
                                         | (recvreq->staged ? MCA_PML_SPEC_CTS_STAGED : 0)),
                     .s = recvreq->s,
                     .r = MCA_PML_SPEC_GLANCE(recvreq->handle),
                     .offset = stripe->offset,
                     .length = stripe->length,
                     .addr = (uint64_t) (uintptr_t) recvreq->flat + stripe->offset}};
    if (NULL != stripe->btl->btl->btl_register_mem) {
        const mca_btl_base_registration_handle_t *key =
            mca_pml_spec_recv_register(recvreq, stripe->btl, stripe->offset, stripe->length);
        if (NULL == key) {
            MCA_PML_SPEC_COUNT(fallbacks);
            mca_pml_spec_rts_ask_copy(recvreq, stripe->offset, stripe->length);
            return;
        }
        cts.hdr.key_len = (uint16_t) stripe->btl->btl->btl_registration_handle_size;
        memcpy(cts.key, key, cts.hdr.key_len);
    }
    cts.hdr.waive = take_waive(recvreq);
    (void) mca_pml_spec_add64(&recvreq->owed, (int64_t) stripe->length);
    mca_pml_spec_control_send(recvreq->peer->endpoint, stripe->btl, &cts,
                              sizeof(cts.hdr) + cts.hdr.key_len);
}

/* Both ends move the range: false: not this one. */
static bool fetch_jointly(mca_pml_spec_recv_request_t *recvreq, const mca_pml_spec_rts_hdr_t *rts,
                          uint64_t offset, uint64_t length)
{
    /* What has arrived in progress, and not in a call that begins something, is waited for. */
    const bool waits = recvreq->starts ? recvreq->blocks : mca_pml_spec_may_poll();
    mca_pml_spec_joint_t *joint = &recvreq->joint;
    const bool fragments = rts->flags & MCA_PML_SPEC_RTS_FRAGMENTS;
    if (!mca_pml_spec_joint_may(recvreq->peer, length, waits, fragments)
        || !mca_pml_spec_claims_share(recvreq, recvreq->blocks, fragments)) {
        return false;
    }
    joint->claim = recvreq->posted.claim;
    joint->offset = offset;
    joint->length = length;
    joint->remote = rts->addr + offset;
    mca_pml_spec_cts_hdr_t cts = {.type = MCA_PML_SPEC_CTS,
                                  .flags = MCA_PML_SPEC_CTS_JOINT,
                                  .s = recvreq->s,
                                  .r = MCA_PML_SPEC_GLANCE(recvreq->handle),
                                  .offset = offset,
                                  .length = length,
                                  .addr = (uint64_t) (uintptr_t) recvreq->flat + offset,
                                  .waive = take_waive(recvreq)};
    mca_pml_spec_claims_tell(recvreq, &cts.page_pid, &cts.page_fd);
    (void) mca_pml_spec_add64(&recvreq->owed, (int64_t) length);
    (void) mca_pml_spec_add64(&recvreq->missing, 1);
    mca_pml_spec_control_send(recvreq->peer->endpoint, NULL, &cts, sizeof(cts));
    mca_pml_spec_joint_recv(recvreq, mca_pml_spec_rts_ask_copy);
    return true;
}

static void get_tell(mca_pml_spec_transfer_t *transfer)
{
    mca_pml_spec_recv_request_t *recvreq = transfer->args.request;
    fin_to_sender(recvreq, transfer->args.btl, recvreq->s,
                  transfer->args.length + take_waive(recvreq));
}

/* Fetch [offset, offset + length) of a flat message into a flat buffer, by every transport that
 * can. False: none can. */
static bool fetch(mca_pml_spec_recv_request_t *recvreq, const mca_pml_spec_packet_t *packet,
                  const mca_pml_spec_rts_hdr_t *rts, uint64_t offset, uint64_t length)
{
    mca_bml_base_btl_t *candidate[MCA_PML_SPEC_STRIPES];
    mca_bml_base_btl_t *usable[MCA_PML_SPEC_STRIPES];
    bool gets[MCA_PML_SPEC_STRIPES];
    mca_pml_spec_stripe_t stripe[MCA_PML_SPEC_STRIPES];
    const uint64_t local = (uint64_t) (uintptr_t) recvreq->flat + offset;
    size_t n = 0, candidates = mca_pml_spec_rdma_btls(recvreq->peer->endpoint, candidate);

    for (size_t i = 0; i < candidates; ++i) {
        const bool has_key =
            (rts->flags & MCA_PML_SPEC_RTS_KEY) && candidate[i]->btl == packet->btl;
        gets[n] = may_get() && !(rts->flags & MCA_PML_SPEC_RTS_PUT)
                  && mca_pml_spec_can_rdma(candidate[i], false, local, rts->addr + offset, length,
                                           has_key);
        if (gets[n]
            || mca_pml_spec_can_rdma(candidate[i], true, rts->addr + offset, local, length, true)) {
            usable[n++] = candidate[i];
        }
    }
    if (0 == n) {
        return false;
    }
    if (1 == n && gets[0] && fetch_jointly(recvreq, rts, offset, length)) {
        return true;
    }
    const size_t stripes = mca_pml_spec_share(usable, n, length, stripe);
    /* The request cannot end before the last stripe is under way: each stripe has bytes to go. */
    for (size_t i = 0; i < stripes; ++i) {
        bool get = false;
        for (size_t j = 0; j < n; ++j) {
            get |= usable[j] == stripe[i].btl && gets[j];
        }
        const uint16_t key_len = stripe[i].btl->btl == packet->btl ? rts->key_len : 0;
        const uint64_t from = rts->addr + offset + stripe[i].offset;
        stripe[i].offset += offset;
        if (!get) {
            ask_put(recvreq, &stripe[i]);
            continue;
        }
        mca_pml_spec_pipe_start(
            &(mca_pml_spec_transfer_args_t){.is_timed = true,
                                            .in_pieces = recvreq->staged,
                                            .btl = stripe[i].btl,
                                            .local = recvreq->flat + stripe[i].offset,
                                            .remote = from,
                                            .offset = stripe[i].offset,
                                            .length = stripe[i].length,
                                            .key = rts + 1,
                                            .key_len = key_len,
                                            .request = recvreq,
                                            .tell = get_tell,
                                            .by_copy = mca_pml_spec_rts_ask_copy});
    }
    return true;
}

const char *mca_pml_spec_rts_check(const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_rts_hdr_t *rts = mca_pml_spec_packet_hdr(packet);
    const size_t have = packet->seg[0].seg_len;
    if (have < sizeof(*rts)) {
        return "it is shorter than its header";
    }
    const char *wrong = mca_pml_spec_key_check(packet, sizeof(*rts), rts->key_len,
                                               rts->flags & MCA_PML_SPEC_RTS_KEY);
    return NULL != wrong ? wrong
           : packet->size - sizeof(*rts) - rts->key_len > rts->length
               ? "it carries more data than the message has"
               : NULL;
}

size_t mca_pml_spec_rts_length(const mca_pml_spec_packet_t *packet)
{
    return ((const mca_pml_spec_rts_hdr_t *) mca_pml_spec_packet_hdr(packet))->length;
}

uint32_t mca_pml_spec_rts_cost(const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_rts_hdr_t *rts = mca_pml_spec_packet_hdr(packet);
    return spec_flow_cost(packet->size - sizeof(*rts) - rts->key_len);
}

void mca_pml_spec_rts_deliver(mca_pml_spec_recv_request_t *recvreq,
                              const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_rts_hdr_t *rts = mca_pml_spec_packet_hdr(packet);
    const size_t skip = sizeof(*rts) + rts->key_len;
    const uint64_t inside = packet->size - skip;
    const uint64_t want = rts->length < recvreq->capacity ? rts->length : recvreq->capacity;

    mca_pml_spec_recv_matched(recvreq, &rts->match, rts->length);
    if (recvreq->awaits_rts) {
        mca_pml_spec_patience_missed(recvreq, rts->length);
    }
    if (OPAL_UNLIKELY(0 != recvreq->watched_since)) {
        mca_pml_spec_adapt_judge(recvreq, rts->match.seq, rts->length, true, rts->sent_at);
    }
    if (OPAL_UNLIKELY(rts->flags & MCA_PML_SPEC_RTS_STOP)) {
        mca_pml_spec_adapt_stop(recvreq->peer, rts->match.tag);
    }
    if (OPAL_UNLIKELY(rts->flags & MCA_PML_SPEC_RTS_FAULT)) {
        recvreq->status = OMPI_ERROR;
        mca_pml_spec_recv_done(recvreq);
        return;
    }
    if (OPAL_UNLIKELY(recvreq->staged) && !(rts->flags & MCA_PML_SPEC_RTS_FLAT)) {
        mca_pml_spec_stage_undo(recvreq);
    }
    mca_pml_spec_recv_store(recvreq, packet, skip, 0, inside);
    recvreq->s = rts->s;
    if (inside >= want) {
        fin_to_sender(recvreq, NULL, rts->s, rts->length);
        mca_pml_spec_recv_done(recvreq);
        return;
    }
    recvreq->waive = rts->length - want + inside;
    recvreq->missing = (int64_t) (want - inside);
    recvreq->owed = 0; /* of an RTR that was not used, too */
    recvreq->nxt = inside;
    mca_pml_spec_recv_enter(recvreq, MCA_PML_SPEC_FETCHING); /* as mca_pml_spec_recv_placed */
    if (OPAL_UNLIKELY(NULL == mca_pml_spec_endpoint(recvreq->peer))) {
        recvreq->status = OMPI_ERR_UNREACH;
        mca_pml_spec_recv_done(recvreq);
        return;
    }
    if (NULL != recvreq->cico) {
        mca_pml_spec_cico_drop(&recvreq->cico); /* of an RTR that was not used */
    }
    if ((rts->flags & MCA_PML_SPEC_RTS_RING) && 0 == inside && recvreq->is_flat
        && mca_pml_spec_cico_join_recv(recvreq, rts->addr, rts->length, want)) {
        return;
    }
    /* What can be put is worth staging, if nothing of it is in the buffer yet. */
    if (!(rts->flags & MCA_PML_SPEC_RTS_FLAT)
        || !(recvreq->is_flat
             || (0 == inside && want >= recvreq->capacity / 4 && mca_pml_spec_recv_stages(recvreq)
                 && mca_pml_spec_stage_recv(recvreq)))
        || !fetch(recvreq, packet, rts, inside, want - inside)) {
        mca_pml_spec_rts_ask_copy(recvreq, inside, want - inside);
    }
}

/* ---- both ---- */

#define WHOLE UINT64_MAX

/* What a FIN tells a sender. */
typedef struct fin {
    uint64_t bytes;
    bool joint;
} fin_t;

/* The bytes that a FIN to the sender covers. */
static uint64_t fin_covers(const mca_pml_spec_send_request_t *sendreq, uint64_t bytes)
{
    return WHOLE == bytes ? sendreq->req_send.req_bytes_packed : bytes;
}

static const char *fin_take(mca_pml_spec_send_request_t *sendreq, const void *packet)
{
    const fin_t *fin = packet;
    const uint64_t bytes = to_be_answered(sendreq, fin_covers(sendreq, fin->bytes));
    if (0 == bytes || !mca_pml_spec_take_owed(&sendreq->owed, bytes)) {
        return "it covers more than is left of the message";
    }
    /* It overtook its CTS, which would find no request. */
    if (OPAL_UNLIKELY(fin->joint && !sendreq->joined && !sendreq->awaits_cts)) {
        sendreq->awaits_cts = true;
        (void) mca_pml_spec_add64(&sendreq->left, 1);
    }
    return NULL;
}

MCA_PML_SPEC_AM_CALLBACK(mca_pml_spec_recv_fin)
{
    (void) btl;
    const mca_pml_spec_fin_hdr_t *fin = 0 == nseg ? NULL : seg[0].seg_addr.pval;
    if (NULL == fin || seg[0].seg_len < MCA_PML_SPEC_FIN_WHOLE
        || (seg[0].seg_len < MCA_PML_SPEC_FIN_SUM && !fin->to_sender)) {
        mca_pml_spec_refuse("FIN", "it is shorter than its header");
        return;
    }
    if (fin->to_sender) {
        const fin_t told = {.bytes = seg[0].seg_len < MCA_PML_SPEC_FIN_SUM ? WHOLE : fin->bytes,
                            .joint = fin->joint};
        mca_pml_spec_send_request_t *sendreq =
            mca_pml_spec_send_claim(fin->handle, "FIN", &told, fin_take);
        if (NULL != sendreq) {
            mca_pml_spec_send_account(sendreq, fin_covers(sendreq, told.bytes), fin->status);
        }
        return;
    }
    const bool has_offset = seg[0].seg_len >= sizeof(*fin);
    mca_pml_spec_recv_request_t *recvreq =
        mca_pml_spec_recv_claim(fin->handle, "FIN", has_offset ? fin->offset : 0, fin->bytes);
    if (NULL != recvreq) {
        if (has_offset && 0 == fin->status) {
            mca_pml_spec_stage_arrived(recvreq, fin->offset, fin->bytes);
        } else {
            mca_pml_spec_recv_account(recvreq, fin->bytes, fin->status);
        }
    }
}

const mca_pml_spec_packet_type_t mca_pml_spec_rts_packets[] = {
    {MCA_PML_SPEC_CTS, mca_pml_spec_recv_cts, NULL},
    {MCA_PML_SPEC_FIN, mca_pml_spec_recv_fin, NULL},
    {0, NULL, NULL},
};
