/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The protocols' entry points, and the RDMA transfers that they share. */
#ifndef PML_SPEC_PROTO_H
#define PML_SPEC_PROTO_H

#include "pml_spec_counters.h"
#include "pml_spec_request.h"

#include "opal/include/spec/promises.h"

/* ---- eager: pml_spec_proto_eager.c ---- */

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
    (MCA_PML_SPEC_EAGER_FLAGS | ((sendreq)->gathers ? MCA_BTL_IBX_MORE : 0u))

/* Send a flat message of at most MCA_PML_SPEC_TINY bytes by the transport's send-immediate. False:
 * it has none or no room now; else the message needs nothing more of this process. Inline, because
 * every small message goes this way. */
static inline bool mca_pml_spec_eager_tiny(mca_pml_spec_peer_t *peer, mca_bml_base_btl_t *bml_btl,
                                           const void *data, size_t length, int32_t tag,
                                           uint32_t seq)
{
    struct {
        mca_pml_spec_match_hdr_t match;
        char data[MCA_PML_SPEC_TINY_COPY];
    } packet;
    int rc;

    if (length > MCA_PML_SPEC_TINY || NULL == bml_btl->btl->btl_sendi) {
        return false;
    }
    packet.match = mca_pml_spec_match_hdr(MCA_PML_SPEC_EAGER, peer, tag, seq);
    if (length <= sizeof(packet.data)) {
        /* Header and data in one piece: no convertor for the transport to look at. */
        if (length > 0) {
            memcpy(packet.data, data, length);
        }
        rc = mca_bml_base_sendi(bml_btl, NULL, &packet, sizeof(packet.match) + length, 0,
                                MCA_BTL_NO_ORDER, MCA_PML_SPEC_EAGER_FLAGS, MCA_PML_SPEC_EAGER, NULL);
    } else if (!mca_pml_spec.threaded) {
        mca_pml_spec_bytes_convertor_set(&mca_pml_spec.bytes, data, length);
        rc = mca_bml_base_sendi(bml_btl, &mca_pml_spec.bytes, &packet.match, sizeof(packet.match),
                                length, MCA_BTL_NO_ORDER, MCA_PML_SPEC_EAGER_FLAGS, MCA_PML_SPEC_EAGER, NULL);
    } else {
        return false;
    }
    if (OPAL_UNLIKELY(0 > rc)) {
        return false;
    }
    return true;
}

/* Send a flat message through the transport's buffer. The user's is free afterwards in any case,
 * but a send call that returns while the message is UNDER_WAY leaves it lying there until the next
 * MPI call - for ever, if this process then waits for something else (MPI_Comm_spawn does). The
 * callback is called only if UNDER_WAY is returned. */
mca_pml_spec_sent_t mca_pml_spec_eager_copy(mca_pml_spec_peer_t *peer, mca_bml_base_btl_t *bml_btl,
                                            const void *data, size_t length, int32_t tag,
                                            uint32_t seq, uint32_t flags,
                                            mca_btl_base_completion_fn_t callback, void *cbdata);
void mca_pml_spec_eager_send(mca_pml_spec_send_request_t *sendreq);
/* The message of an EAGER packet was matched to recvreq. */
static inline void mca_pml_spec_eager_deliver(mca_pml_spec_recv_request_t *recvreq,
                                              const mca_pml_spec_packet_t *packet)
{
    const size_t skip = sizeof(mca_pml_spec_match_hdr_t);
    const size_t length = packet->size - skip;
    mca_pml_spec_recv_matched(recvreq, mca_pml_spec_packet_hdr(packet), length);
    mca_pml_spec_recv_place(recvreq, packet, skip, 0, length);
    mca_pml_spec_recv_done(recvreq);
}

/* ---- sender first: pml_spec_proto_rts.c ---- */

void mca_pml_spec_rts_send(mca_pml_spec_send_request_t *sendreq);
/* How much of the message's data its RTS carries. */
size_t mca_pml_spec_rts_data(const mca_pml_spec_send_request_t *sendreq);
void mca_pml_spec_rts_deliver(mca_pml_spec_recv_request_t *recvreq,
                              const mca_pml_spec_packet_t *packet);

/* ---- receiver first: pml_spec_proto_rtr.c ---- */

/* An RTR or REVOKE at the sender, from its arrival until it is used or dropped. */
typedef struct mca_pml_spec_rtr {
    opal_free_list_item_t super;
    spec_ctl_t ctl;
    mca_btl_base_module_t *btl; /* by which it came */
    uint64_t r;
    uint64_t addr;
    uint16_t key_len;
    char key[MCA_PML_SPEC_KEY_MAX];
} mca_pml_spec_rtr_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_rtr_t);

/* An RTR as it goes out. */
typedef struct mca_pml_spec_rtr_packet {
    mca_pml_spec_rtr_hdr_t hdr;
    char key[MCA_PML_SPEC_KEY_MAX];
    mca_bml_base_btl_t *btl;
} mca_pml_spec_rtr_packet_t;

/* Is it worth to speculate for this receive (size, transport, parameter)? */
bool mca_pml_spec_rtr_predicts(mca_pml_spec_recv_request_t *recvreq);

/* Does its RTR need the buffer registered? If not, a processor writes into it. After rtr_predicts. */
bool mca_pml_spec_rtr_registers(const mca_pml_spec_recv_request_t *recvreq);
/* Get the handle and the registration that an RTR needs. */
void mca_pml_spec_rtr_prepare(mca_pml_spec_recv_request_t *recvreq);
/* Offer recvreq's buffer to its source: build the packet (under the communicator's lock), send. */
void mca_pml_spec_rtr_build(const mca_pml_spec_recv_request_t *recvreq, const spec_offer_t *offer,
                            mca_pml_spec_rtr_packet_t *packet);
void mca_pml_spec_rtr_send(mca_pml_spec_peer_t *peer, const mca_pml_spec_rtr_packet_t *packet);
/* Write the message into the buffer that rtr offers (consumed). */
void mca_pml_spec_rtr_use(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr);
/* Tell the peer which messages use RTRs, ahead of another packet. */
void mca_pml_spec_rtr_notice(mca_pml_spec_peer_t *peer);
/* The RTR of peer was dropped: count why and free it. */
void mca_pml_spec_rtr_drop(mca_pml_spec_peer_t *peer, mca_pml_spec_rtr_t *rtr,
                           spec_rtr_fate_t fate);
/* The message of a MATCH packet was matched to recvreq. */
void mca_pml_spec_match_deliver(mca_pml_spec_recv_request_t *recvreq,
                                const mca_pml_spec_packet_t *packet);
/* E advanced or REVOKED arrived: finish the cancels that waited for it. */
void mca_pml_spec_revokes_finish(mca_pml_spec_peer_t *peer);
int mca_pml_spec_recv_cancel(ompi_request_t *request, int flag);

/* ---- by copy: pml_spec_proto_frag.c ---- */

/* Send a range in fragments to receive sendreq->r. */
void mca_pml_spec_frag_send(mca_pml_spec_send_request_t *sendreq, uint64_t offset, uint64_t length);

/* Complete these receives, which have left the queue (linked by posted.node), as cancelled. No request of theirs can
 * be looked at by a transport. */
void mca_pml_spec_recvs_cancelled(spec_node_t *list);

/* ---- RDMA: pml_spec_transfer.c ----
 *
 * A transfer moves one range of a message with put or get of one transport, in as many operations
 * as the transport's limits ask for, and reports once. */
typedef struct mca_pml_spec_transfer {
    opal_free_list_item_t super;
    mca_pml_spec_pending_t pending;
    bool is_put;
    mca_bml_base_btl_t *btl;
    char *local;
    uint64_t remote;
    uint64_t offset; /* of the range in the message */
    uint64_t length;
    uint64_t issued;
    uint64_t started;      /* ns, or 0: not timed, or done by this processor */
    volatile int32_t refs; /* operations under way, and the issuer */
    volatile int32_t status;
    mca_btl_base_registration_handle_t *local_key;
    bool own_key; /* local_key is to be deregistered at the end */
    void *request;
    /* Tell the other side that the data is there: called once, unless the transfer fails. A transport
     * that promises to keep the order (design: completion without the CPU) is given that packet as
     * soon as it has been given the last operation, so that it leaves while both processes compute;
     * else it is sent when the operations are complete. */
    void (*tell)(struct mca_pml_spec_transfer *transfer);
    bool told;
    /* Called once, after tell; frees nothing itself but what belongs to the request. */
    void (*done)(struct mca_pml_spec_transfer *transfer, int status);
    uint16_t key_len;
    union {
        char bytes[MCA_PML_SPEC_KEY_MAX];
        uint64_t align;
    } remote_key;
} mca_pml_spec_transfer_t;
OBJ_CLASS_DECLARATION(mca_pml_spec_transfer_t);

/* Part of a message for one transport. */
typedef struct mca_pml_spec_stripe {
    mca_bml_base_btl_t *btl;
    uint64_t offset, length;
} mca_pml_spec_stripe_t;

/* May `btl` move length bytes between these addresses with put (or get)? has_key: the other side's
 * registration with this transport is known. */
bool mca_pml_spec_can_rdma(const mca_bml_base_btl_t *btl, bool put, uint64_t local, uint64_t remote,
                           uint64_t length, bool has_key);

/* Share length bytes among the candidates by their weight; none gets less than stripe_min unless
 * it is the only one. Returns the number of stripes. */
size_t mca_pml_spec_share(mca_bml_base_btl_t **candidate, size_t candidates, uint64_t length,
                          mca_pml_spec_stripe_t *stripe);

/* The transports that data for this endpoint may use for RDMA: those selected for sending too.
 * Returns how many (at most MCA_PML_SPEC_STRIPES). */
size_t mca_pml_spec_rdma_btls(mca_bml_base_endpoint_t *endpoint, mca_bml_base_btl_t **btl);

/* Start a transfer. Returns false when it could not be set up (no memory, registration refused):
 * nothing happened and `done` will not be called. */
bool mca_pml_spec_transfer_start(bool put, mca_bml_base_btl_t *btl, char *local, uint64_t remote,
                                 uint64_t offset, uint64_t length, const void *key,
                                 uint16_t key_len, mca_btl_base_registration_handle_t *local_key,
                                 void *request, void (*tell)(mca_pml_spec_transfer_t *transfer),
                                 void (*done)(mca_pml_spec_transfer_t *transfer, int status));

#endif
