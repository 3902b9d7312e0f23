/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The protocol 'receiver first': a receive offers its buffer by RTR, and the send that it was meant for writes there. */
#ifndef PML_SPEC_RTR_H
#define PML_SPEC_RTR_H

#include "../services/pml_spec_why.h"
#include "pml_spec_protocol.h"

/* An RTR as it goes out. */
typedef struct mca_pml_spec_rtr_packet {
    mca_pml_spec_rtr_hdr_t hdr;
    char key[MCA_PML_SPEC_KEY_MAX];
    mca_bml_base_btl_t *btl;
} mca_pml_spec_rtr_packet_t;

/* Is it worth to speculate for this receive (size, transport, parameter)? Why not; MCA_PML_SPEC_RTR_GOES: it is. */
mca_pml_spec_no_rtr_t mca_pml_spec_rtr_why_not(mca_pml_spec_recv_request_t *recvreq);

/* Get the handle, the word and the registration that an RTR needs. False: it must not be offered. */
bool mca_pml_spec_rtr_prepare(mca_pml_spec_recv_request_t *recvreq);
/* Offer recvreq's buffer to its source: build the packet (under the communicator's lock), send. */
void mca_pml_spec_rtr_build(mca_pml_spec_recv_request_t *recvreq, const spec_offer_t *offer,
                            mca_pml_spec_rtr_packet_t *packet);
void mca_pml_spec_rtr_send(mca_pml_spec_peer_t *peer, const mca_pml_spec_rtr_packet_t *packet);
/* Tell the peer which messages use RTRs, ahead of another packet. */
void mca_pml_spec_rtr_notice(mca_pml_spec_peer_t *peer);
/* The RTR of peer was dropped: count why and free it. */
void mca_pml_spec_rtr_drop(mca_pml_spec_peer_t *peer, mca_pml_spec_rtr_t *rtr,
                           spec_rtr_fate_t fate);

static inline bool mca_pml_spec_rtr_probe(const mca_pml_spec_send_request_t *sendreq, bool has_rtr)
{
    (void) sendreq;
    return has_rtr;
}

static inline size_t mca_pml_spec_rtr_brings(const mca_pml_spec_send_request_t *sendreq)
{
    (void) sendreq;
    return 0;
}

/* Write the message into the buffer that rtr offers (consumed). */
void mca_pml_spec_rtr_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr);

/* Of MATCH. */
const char *mca_pml_spec_match_check(const mca_pml_spec_packet_t *packet);
size_t mca_pml_spec_match_length(const mca_pml_spec_packet_t *packet);
uint32_t mca_pml_spec_match_cost(const mca_pml_spec_packet_t *packet);
bool mca_pml_spec_match_expect(const mca_pml_spec_peer_t *peer, const mca_pml_spec_packet_t *packet,
                               const spec_posted_t *posted);
void mca_pml_spec_match_deliver(mca_pml_spec_recv_request_t *recvreq,
                                const mca_pml_spec_packet_t *packet);
extern const mca_pml_spec_packet_type_t mca_pml_spec_rtr_packets[];

static const mca_pml_spec_protocol_t mca_pml_spec_proto_rtr = {
    .name = "rtr",
    .probe = mca_pml_spec_rtr_probe,
    .brings = mca_pml_spec_rtr_brings,
    .start = mca_pml_spec_rtr_start,
    .stage = {"new", "writing", "copying"},
    .message = MCA_PML_SPEC_MATCH,
    .check = mca_pml_spec_match_check,
    .length = mca_pml_spec_match_length,
    .cost = mca_pml_spec_match_cost,
    .expect = mca_pml_spec_match_expect,
    .deliver = mca_pml_spec_match_deliver,
    .packets = mca_pml_spec_rtr_packets,
};

#endif
