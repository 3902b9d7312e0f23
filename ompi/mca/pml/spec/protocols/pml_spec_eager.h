/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The protocol 'eager': a small message goes out with its data behind its header.
 * What every small message runs through is inline. */
#ifndef PML_SPEC_EAGER_H
#define PML_SPEC_EAGER_H

#include "../services/pml_spec_adapt.h"
#include "../services/pml_spec_costs.h"
#include "pml_spec_protocol.h"

#include "opal/include/spec/promises.h"

/* What the transport did with a message. */
typedef enum mca_pml_spec_sent {
    MCA_PML_SPEC_NO_ROOM,   /* nothing; try again later */
    MCA_PML_SPEC_SENT,      /* it is on its way and needs nothing more of this process */
    MCA_PML_SPEC_UNDER_WAY, /* it needs progress here (a connection that is being made, a full
                             * socket); the callback tells when that is over */
} mca_pml_spec_sent_t;

#define MCA_PML_SPEC_EAGER_FLAGS                                                                   \
    (MCA_BTL_DES_FLAGS_PRIORITY | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP | MCA_BTL_DES_FLAGS_SIGNAL)

/* The same for a message of a request. */
#define MCA_PML_SPEC_EAGER_FLAGS_OF(sendreq)                                                       \
    (MCA_PML_SPEC_EAGER_FLAGS | ((sendreq)->gathers ? MCA_BTL_IBX_MORE : 0u)                       \
     | ((sendreq)->blocks ? MCA_BTL_IBX_BLOCKS : 0u))

/* Send a flat message of at most MCA_PML_SPEC_TINY bytes by the transport's send-immediate, copied behind its header. False: it
 * has no room now. */
bool mca_pml_spec_eager_in_one(mca_bml_base_btl_t *bml_btl, const mca_pml_spec_match_hdr_t *match,
                               const void *data, size_t length, uint32_t flags);

/* May a flat message go by the transport's send-immediate, if it has one? Where processors copy, longer ones may, too: their
 * sender does not wait until the receiver has given the packet back, and needs no request. Not where there are threads, which cannot
 * use one convertor at once. */
static inline bool mca_pml_spec_eager_immediate(const mca_pml_spec_peer_t *peer, size_t length)
{
    return length <= MCA_PML_SPEC_TINY
           || (length <= peer->eager_limit && SPEC_BY_RDMA != peer->mover
               && !mca_pml_spec.threaded);
}

/* A transport gets its packets back when it is polled, and has more made if it lacks some, which takes memory from longer ones. After
 * so many of those longer messages it is polled: more often costs more than it brings (compare --mode parity --rows rate). */
#define MCA_PML_SPEC_COLLECT 64u

/* Before such a message, or one that goes by a slot, gets its number: a callback below the poll must not wait for what is behind it.
 * A program that only sends, and never waits, serves others' requests thus, too. */
static inline void mca_pml_spec_eager_collect(mca_pml_spec_peer_t *peer, size_t length,
                                              bool by_slot)
{
    if (length <= MCA_PML_SPEC_TINY || !(by_slot || mca_pml_spec_eager_immediate(peer, length))) {
        return;
    }
    const uint32_t n = OPAL_UNLIKELY(mca_pml_spec.threaded)
                           ? __atomic_add_fetch(&mca_pml_spec.immediate, 1, __ATOMIC_RELAXED)
                           : ++mca_pml_spec.immediate;
    if (OPAL_UNLIKELY(0 == n % MCA_PML_SPEC_COLLECT)) {
        (void) mca_pml_spec_poll(peer);
    }
}

/* Send a flat message by the transport's send-immediate. False: it may not go so, or there is no room now; else the message needs
 * nothing more of this process. blocks: the caller waits for it (MCA_BTL_IBX_BLOCKS). Inline, because every small message goes this
 * way. */
static inline bool mca_pml_spec_eager_now(mca_pml_spec_peer_t *peer, mca_bml_base_btl_t *bml_btl,
                                          const void *data, size_t length, int32_t tag,
                                          uint32_t seq, bool blocks)
{
    const uint32_t flags = MCA_PML_SPEC_EAGER_FLAGS | (blocks ? MCA_BTL_IBX_BLOCKS : 0u);
    struct {
        mca_pml_spec_match_hdr_t match;
        char data[MCA_PML_SPEC_TINY_COPY];
    } packet;
    int rc;

    if (!mca_pml_spec_eager_immediate(peer, length) || NULL == bml_btl->btl->btl_sendi) {
        return false;
    }
    packet.match = mca_pml_spec_match_hdr(MCA_PML_SPEC_EAGER, peer, tag, seq);
    if (length <= sizeof(packet.data)) {
        /* Header and data in one piece: no convertor for the transport. */
        if (length > 0) {
            memcpy(packet.data, data, length);
        }
        rc = mca_bml_base_sendi(bml_btl, NULL, &packet, sizeof(packet.match) + length, 0,
                                MCA_BTL_NO_ORDER, flags, MCA_PML_SPEC_EAGER, NULL);
    } else if (!mca_pml_spec.threaded) {
        mca_pml_spec_bytes_convertor_set(&mca_pml_spec.bytes, data, length);
        rc = mca_bml_base_sendi(bml_btl, &mca_pml_spec.bytes, &packet.match, sizeof(packet.match),
                                length, MCA_BTL_NO_ORDER, flags, MCA_PML_SPEC_EAGER, NULL);
    } else {
        return mca_pml_spec_eager_in_one(bml_btl, &packet.match, data, length, flags);
    }
    return OPAL_LIKELY(rc >= 0);
}

/* Send a flat message through the transport's buffer. The user's is free afterwards in any case,
 * but a send call that returns while the message is UNDER_WAY leaves it lying there until the next
 * MPI call - for ever, if this process then waits for something else (MPI_Comm_spawn does). The
 * callback is called only if UNDER_WAY is returned. */
mca_pml_spec_sent_t mca_pml_spec_eager_copy(mca_pml_spec_peer_t *peer, mca_bml_base_btl_t *bml_btl,
                                            const void *data, size_t length, int32_t tag,
                                            uint32_t seq, uint32_t flags,
                                            mca_btl_base_completion_fn_t callback, void *cbdata);
/* The message of an EAGER packet was matched to recvreq. */
static inline __attribute__((always_inline)) void
mca_pml_spec_eager_deliver(mca_pml_spec_recv_request_t *recvreq,
                           const mca_pml_spec_packet_t *packet)
{
    const size_t skip = sizeof(mca_pml_spec_match_hdr_t);
    const size_t length = packet->size - skip;
    mca_pml_spec_recv_matched(recvreq, mca_pml_spec_packet_hdr(packet), length);
    mca_pml_spec_peer_t *peer = recvreq->peer;
    const uint64_t begin = recvreq->is_flat && length <= recvreq->capacity
                               ? mca_pml_spec_costs_begin(peer, &peer->far.out, length)
                               : 0;
    mca_pml_spec_recv_store(recvreq, packet, skip, 0, length);
    mca_pml_spec_costs_end(peer, &peer->far.out, begin, length);
    mca_pml_spec_recv_placed(recvreq);
    if (OPAL_UNLIKELY(0 != recvreq->watched_since)) { /* its RTR would be lost */
        mca_pml_spec_adapt_judge(recvreq, (uint32_t) recvreq->req_recv.req_base.req_sequence, 0,
                                 false, 0);
    }
    mca_pml_spec_recv_done(recvreq);
}

/* Does all of its data go out, before anybody has asked for it? */
static inline bool mca_pml_spec_goes_unasked(const mca_pml_spec_send_request_t *sendreq,
                                             bool has_rtr)
{
    return !has_rtr && sendreq->fits
           && MCA_PML_BASE_SEND_SYNCHRONOUS != sendreq->req_send.req_send_mode;
}

static inline bool mca_pml_spec_eager_probe(const mca_pml_spec_send_request_t *sendreq,
                                            bool has_rtr)
{
    return mca_pml_spec_goes_unasked(sendreq, has_rtr)
           && sendreq->req_send.req_bytes_packed <= sendreq->peer->eager_most;
}

static inline size_t mca_pml_spec_eager_brings(const mca_pml_spec_send_request_t *sendreq)
{
    return sendreq->req_send.req_bytes_packed;
}

/* One that is to go by a slot, and has its number. False: there is no room; it goes in packets. It may end the request. */
bool mca_pml_spec_eager_by_slot(mca_pml_spec_send_request_t *sendreq);

void mca_pml_spec_eager_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr);
/* The same of a numbered message that `copies`, by the transport that the caller has chosen. */
void mca_pml_spec_eager_start_copy(mca_pml_spec_send_request_t *sendreq,
                                   mca_bml_base_btl_t *bml_btl);
bool mca_pml_spec_eager_again(mca_pml_spec_send_request_t *sendreq);

static inline size_t mca_pml_spec_eager_length(const mca_pml_spec_packet_t *packet)
{
    return packet->size - sizeof(mca_pml_spec_match_hdr_t);
}

static inline SPEC_HOT uint32_t mca_pml_spec_eager_cost(const mca_pml_spec_packet_t *packet)
{
    return spec_flow_cost(mca_pml_spec_eager_length(packet));
}

static const mca_pml_spec_protocol_t mca_pml_spec_proto_eager = {
    .name = "eager",
    .probe = mca_pml_spec_eager_probe,
    .brings = mca_pml_spec_eager_brings,
    .start = mca_pml_spec_eager_start,
    .again = mca_pml_spec_eager_again,
    .stage = {"new", "sending", "waiting for the transport"},
    .message = MCA_PML_SPEC_EAGER,
    .length = mca_pml_spec_eager_length,
    .cost = mca_pml_spec_eager_cost,
    .deliver = mca_pml_spec_eager_deliver,
};

#endif
