/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Arrival of packets: check, put in order, match, deliver. */
#ifndef PML_SPEC_ARRIVE_H
#define PML_SPEC_ARRIVE_H

#include "../objects/pml_spec_packet.h"
#include "../objects/pml_spec_request.h"

/* Register the callbacks of all packet types with the transports. */
int mca_pml_spec_arrive_register(void);

/* A packet that was parked for its communicator, which exists now. */
void mca_pml_spec_arrive_again(const mca_pml_spec_packet_t *packet);

/* Process the messages of a peer that are kept, as far as it is their turn. The communicator has another user, no lock is held. */
void mca_pml_spec_arrive_kept(mca_pml_spec_peer_t *peer);

/* Give a kept message to the receive that takes it; the fragment is consumed. The request's peer
 * is found from the message. */
void mca_pml_spec_deliver_frag(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_frag_t *frag);

/* Bytes of the message that a kept EAGER or RTS packet announces. */
size_t mca_pml_spec_message_length(const mca_pml_spec_frag_t *frag);

#endif
