/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The protocol 'sender first': RTS announces the message, the receiver fetches it. It takes what no other protocol takes. */
#ifndef PML_SPEC_RTS_H
#define PML_SPEC_RTS_H

#include "../services/pml_spec_transfer.h"
#include "pml_spec_protocol.h"

static inline bool mca_pml_spec_rts_probe(const mca_pml_spec_send_request_t *sendreq, bool has_rtr)
{
    (void) sendreq;
    return !has_rtr;
}

size_t mca_pml_spec_rts_brings(const mca_pml_spec_send_request_t *sendreq);
void mca_pml_spec_rts_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr);
bool mca_pml_spec_rts_again(mca_pml_spec_send_request_t *sendreq);
const char *mca_pml_spec_rts_check(const mca_pml_spec_packet_t *packet);
size_t mca_pml_spec_rts_length(const mca_pml_spec_packet_t *packet);
uint32_t mca_pml_spec_rts_cost(const mca_pml_spec_packet_t *packet);
void mca_pml_spec_rts_deliver(mca_pml_spec_recv_request_t *recvreq,
                              const mca_pml_spec_packet_t *packet);
/* Tells the receiver of a send's range that was put: FIN. */
void mca_pml_spec_put_tell(mca_pml_spec_transfer_t *transfer);
/* Asks the sender of a receive whose message is known for this range, by copy. */
void mca_pml_spec_rts_ask_copy(void *recvreq, uint64_t offset, uint64_t length);
extern const mca_pml_spec_packet_type_t mca_pml_spec_rts_packets[];

static const mca_pml_spec_protocol_t mca_pml_spec_proto_rts = {
    .name = "rts",
    .probe = mca_pml_spec_rts_probe,
    .brings = mca_pml_spec_rts_brings,
    .start = mca_pml_spec_rts_start,
    .again = mca_pml_spec_rts_again,
    .stage = {"new", "announced", "answered"},
    .message = MCA_PML_SPEC_RTS,
    .check = mca_pml_spec_rts_check,
    .length = mca_pml_spec_rts_length,
    .cost = mca_pml_spec_rts_cost,
    .deliver = mca_pml_spec_rts_deliver,
    .packets = mca_pml_spec_rts_packets,
};

#endif
