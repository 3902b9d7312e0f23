/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends small messages with their data: by copy, in place, or packed from a buffer with gaps. */
#include "pml_spec_eager.h"

#include "../objects/pml_spec_agent.h"
#include "../services/pml_spec_slots.h"

enum { NEW, SENDING, WAITING };

bool mca_pml_spec_eager_in_one(mca_bml_base_btl_t *bml_btl, const mca_pml_spec_match_hdr_t *match,
                               const void *data, size_t length, uint32_t flags)
{
    struct {
        mca_pml_spec_match_hdr_t match;
        char data[MCA_PML_SPEC_TINY];
    } packet;
    packet.match = *match;
    memcpy(packet.data, data, length);
    return mca_bml_base_sendi(bml_btl, NULL, &packet, sizeof(packet.match) + length, 0,
                              MCA_BTL_NO_ORDER, flags, MCA_PML_SPEC_EAGER, NULL)
           >= 0;
}

/* A packet with the message; NULL: there is no room. */
static inline mca_btl_base_descriptor_t *copied(mca_pml_spec_peer_t *peer,
                                                mca_bml_base_btl_t *bml_btl, const void *data,
                                                size_t length, int32_t tag, uint32_t seq,
                                                uint32_t flags)
{
    const mca_pml_spec_match_hdr_t match =
        mca_pml_spec_match_hdr(MCA_PML_SPEC_EAGER, peer, tag, seq);
    mca_btl_base_descriptor_t *des = NULL;

    mca_bml_base_alloc(bml_btl, &des, MCA_BTL_NO_ORDER, sizeof(match) + length, flags);
    if (OPAL_UNLIKELY(NULL == des)) {
        return NULL;
    }
    char *to = des->des_segments[0].seg_addr.pval;
    memcpy(to, &match, sizeof(match));
    if (length > 0) {
        const uint64_t begin = mca_pml_spec_costs_begin(peer, &peer->far.in, length);
        memcpy(to + sizeof(match), data, length);
        mca_pml_spec_costs_end(peer, &peer->far.in, begin, length);
    }
    des->des_segments[0].seg_len = sizeof(match) + length;
    return des;
}

/* des NULL: there was no room for it. */
static inline mca_pml_spec_sent_t send_copied(mca_bml_base_btl_t *bml_btl,
                                              mca_btl_base_descriptor_t *des,
                                              mca_btl_base_completion_fn_t callback, void *cbdata)
{
    if (OPAL_UNLIKELY(NULL == des)) {
        return MCA_PML_SPEC_NO_ROOM;
    }
    des->des_cbfunc = callback;
    des->des_cbdata = cbdata;
    const int rc = mca_pml_spec_packet_send(bml_btl, des, MCA_PML_SPEC_EAGER);
    return OPAL_UNLIKELY(rc < 0) ? MCA_PML_SPEC_NO_ROOM
           : 1 == rc             ? MCA_PML_SPEC_SENT
                                 : MCA_PML_SPEC_UNDER_WAY;
}

mca_pml_spec_sent_t mca_pml_spec_eager_copy(mca_pml_spec_peer_t *peer, mca_bml_base_btl_t *bml_btl,
                                            const void *data, size_t length, int32_t tag,
                                            uint32_t seq, uint32_t flags,
                                            mca_btl_base_completion_fn_t callback, void *cbdata)
{
    return send_copied(bml_btl, copied(peer, bml_btl, data, length, tag, seq, flags), callback,
                       cbdata);
}

/* The transport is done with a message that a request stands for. */
static void request_sent(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                         mca_btl_base_descriptor_t *des, int status)
{
    (void) btl, (void) ep;
    mca_pml_spec_send_request_t *sendreq = des->des_cbdata;
    if (OPAL_UNLIKELY(status < 0)) {
        sendreq->status = status;
    }
    mca_pml_spec_send_done(sendreq);
}

/* From the user's buffer, without a copy where the transport can do that. */
static bool send_in_place(mca_pml_spec_send_request_t *sendreq, mca_bml_base_btl_t *bml_btl,
                          const mca_pml_spec_match_hdr_t *match)
{
    size_t size = sendreq->req_send.req_bytes_packed, position = 0;
    mca_btl_base_descriptor_t *des = NULL;
    if (OPAL_LIKELY(mca_pml_spec_use(&sendreq->life))) {
        /* A try that the transport refused may have moved it. */
        opal_convertor_set_position(&sendreq->req_send.req_base.req_convertor, &position);
        mca_bml_base_prepare_src(
            bml_btl, &sendreq->req_send.req_base.req_convertor, MCA_BTL_NO_ORDER, sizeof(*match),
            &size, MCA_PML_SPEC_EAGER_FLAGS_OF(sendreq) | MCA_BTL_DES_SEND_ALWAYS_CALLBACK, &des);
        mca_pml_spec_send_leave(sendreq);
    }
    if (NULL == des) {
        return false;
    }
    if (OPAL_UNLIKELY(size != sendreq->req_send.req_bytes_packed)) {
        mca_bml_base_free(bml_btl, des);
        return false;
    }
    memcpy(des->des_segments[0].seg_addr.pval, match, sizeof(*match));
    des->des_cbfunc = request_sent;
    des->des_cbdata = sendreq;
    /* The callback may end the request within. */
    return 0 <= mca_pml_spec_packet_send(bml_btl, des, MCA_PML_SPEC_EAGER);
}

/* Packed into the transport's buffer; the request is done when it has left. */
static bool send_packed(mca_pml_spec_send_request_t *sendreq, mca_bml_base_btl_t *bml_btl,
                        const mca_pml_spec_match_hdr_t *match)
{
    size_t size = sendreq->req_send.req_bytes_packed;
    mca_btl_base_descriptor_t *des = mca_pml_spec_pack(sendreq, bml_btl, match, sizeof(*match), 0,
                                                       &size, MCA_PML_SPEC_EAGER_FLAGS_OF(sendreq));
    if (NULL == des) {
        return false;
    }
    if (OPAL_UNLIKELY(sendreq->status < 0)) {
        mca_bml_base_free(bml_btl, des);
        mca_pml_spec_send_faulty(sendreq);
        return true;
    }
    des->des_cbfunc = request_sent;
    des->des_cbdata = sendreq;
    const int rc = mca_pml_spec_packet_send(bml_btl, des, MCA_PML_SPEC_EAGER);
    if (1 == rc) {
        mca_pml_spec_send_done(sendreq);
    }
    return rc >= 0;
}

/* From one block, through the transport's buffer. is_new: its call has not returned, so that nobody can give it up. */
static bool send_copy(mca_pml_spec_send_request_t *sendreq, mca_bml_base_btl_t *bml_btl,
                      bool is_new)
{
    mca_btl_base_descriptor_t *des = NULL;
    if (is_new || OPAL_LIKELY(mca_pml_spec_use(&sendreq->life))) {
        des = copied(sendreq->peer, bml_btl, sendreq->flat, sendreq->req_send.req_bytes_packed,
                     sendreq->req_send.req_base.req_tag, sendreq->seq,
                     MCA_PML_SPEC_EAGER_FLAGS_OF(sendreq));
        if (!is_new) {
            mca_pml_spec_send_leave(sendreq);
        }
    }
    const mca_pml_spec_sent_t sent = send_copied(bml_btl, des, request_sent, sendreq);
    if (MCA_PML_SPEC_SENT == sent) {
        mca_pml_spec_send_done(sendreq);
    }
    return MCA_PML_SPEC_NO_ROOM != sent;
}

static bool is_copied(const mca_pml_spec_send_request_t *sendreq, const mca_bml_base_btl_t *bml_btl)
{
    const size_t length = sendreq->req_send.req_bytes_packed;
    return sendreq->copies || 0 == length
           || (sendreq->is_flat
               && (length <= mca_pml_spec.copy_limit || SPEC_BY_RDMA != sendreq->peer->mover)
               && !mca_btl_ibx_sends_in_place(bml_btl->btl, length));
}

bool mca_pml_spec_eager_again(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_bml_base_btl_t *bml_btl = mca_pml_spec_next_btl(&peer->endpoint->btl_eager);

    mca_pml_spec_agent_asks(peer->proc);
    if (is_copied(sendreq, bml_btl)) {
        return send_copy(sendreq, bml_btl, false);
    }
    mca_pml_spec_match_hdr_t match = mca_pml_spec_match_hdr(
        MCA_PML_SPEC_EAGER, peer, sendreq->req_send.req_base.req_tag, sendreq->seq);
    return sendreq->is_flat && (bml_btl->btl->btl_flags & MCA_BTL_FLAGS_SEND_INPLACE)
               ? send_in_place(sendreq, bml_btl, &match)
               : send_packed(sendreq, bml_btl, &match);
}

static void wait_for_room(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_stage(sendreq, &mca_pml_spec_proto_eager, WAITING);
    sendreq->gathers = false; /* it has waited */
    mca_pml_spec_send_later(sendreq);
}

bool mca_pml_spec_eager_by_slot(mca_pml_spec_send_request_t *sendreq)
{
    if (!mca_pml_spec_slots_send(sendreq->peer, sendreq->flat, sendreq->req_send.req_bytes_packed,
                                 sendreq->req_send.req_base.req_tag, sendreq->seq)) {
        return false;
    }
    mca_pml_spec_send_done(sendreq);
    return true;
}

SPEC_HOT void mca_pml_spec_eager_start(mca_pml_spec_send_request_t *sendreq,
                                       mca_pml_spec_rtr_t *rtr)
{
    (void) rtr;
    mca_pml_spec_stage(sendreq, &mca_pml_spec_proto_eager, SENDING);
    if (sendreq->by_slot && mca_pml_spec_eager_by_slot(sendreq)) {
        return;
    }
    if (OPAL_UNLIKELY(!mca_pml_spec_eager_again(sendreq))) {
        wait_for_room(sendreq);
    }
}

SPEC_HOT void mca_pml_spec_eager_start_copy(mca_pml_spec_send_request_t *sendreq,
                                            mca_bml_base_btl_t *bml_btl)
{
    mca_pml_spec_stage(sendreq, &mca_pml_spec_proto_eager, SENDING);
    if (OPAL_UNLIKELY(!send_copy(sendreq, bml_btl, true))) {
        wait_for_room(sendreq);
    }
}
