/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The protocol 'parts': eager, for a message from one block that is longer than a packet (core/spec_parts.h). Between processes of a
 * host whose processors copy the data: there a handshake takes as long as a copy of many KiB. */
#ifndef PML_SPEC_PARTS_H
#define PML_SPEC_PARTS_H

#include "pml_spec_eager.h"

void mca_pml_spec_parts_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr);
bool mca_pml_spec_parts_again(mca_pml_spec_send_request_t *sendreq);

const char *mca_pml_spec_parts_check(const mca_pml_spec_packet_t *packet);

static inline size_t mca_pml_spec_parts_length(const mca_pml_spec_packet_t *packet)
{
    return ((const mca_pml_spec_parts_hdr_t *) mca_pml_spec_packet_hdr(packet))->length;
}

static inline uint32_t mca_pml_spec_parts_cost(const mca_pml_spec_packet_t *packet)
{
    return spec_flow_cost(mca_pml_spec_parts_length(packet));
}

/* Keeps the first part, in memory for all of them. The communicator's lock is held. */
mca_pml_spec_frag_t *mca_pml_spec_parts_keep(mca_pml_spec_peer_t *peer,
                                             const mca_pml_spec_packet_t *packet);

/* No part of it is taken any more. The same. */
void mca_pml_spec_parts_forget(mca_pml_spec_frag_t *frag);

void mca_pml_spec_parts_deliver(mca_pml_spec_recv_request_t *recvreq,
                                const mca_pml_spec_packet_t *packet);

/* A receive, whose peer is set, gets a message that was kept: at once what has come of it, and what is still to come as it comes. Ends the
 * frag. */
void mca_pml_spec_parts_deliver_kept(mca_pml_spec_recv_request_t *recvreq,
                                     mca_pml_spec_frag_t *frag);

extern const mca_pml_spec_packet_type_t mca_pml_spec_parts_packets[];

static const mca_pml_spec_protocol_t mca_pml_spec_proto_parts = {
    .name = "parts",
    .probe =
        mca_pml_spec_goes_unasked, /* eager, which is asked first, takes what is to go in a packet */
    .brings = mca_pml_spec_eager_brings,
    .start = mca_pml_spec_parts_start,
    .again = mca_pml_spec_parts_again,
    .stage = {"new", "sending", "waiting for the transport"},
    .message = MCA_PML_SPEC_PARTS,
    .check = mca_pml_spec_parts_check,
    .length = mca_pml_spec_parts_length,
    .cost = mca_pml_spec_parts_cost,
    .keep = mca_pml_spec_parts_keep,
    .forget = mca_pml_spec_parts_forget,
    .deliver = mca_pml_spec_parts_deliver,
    .deliver_kept = mca_pml_spec_parts_deliver_kept,
    .packets = mca_pml_spec_parts_packets,
};

#endif
