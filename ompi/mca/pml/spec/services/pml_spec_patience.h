/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Waiting a moment for the other half of an exchange of large messages: core/spec_patience.h bound to the transports. A process
 * whose own half is out polls for the peer's before it goes on; where nothing of ours is out nobody waits.
 *
 * Threads: any; the peer's send_lock covers its state. */
#ifndef PML_SPEC_PATIENCE_H
#define PML_SPEC_PATIENCE_H

#include "../objects/pml_spec_request.h"

/* The transfer is about to start: when it does, in nanoseconds; 0: it is not worth reading the clock. */
static inline uint64_t mca_pml_spec_patience_begins(uint64_t length)
{
    return length < SPEC_PATIENCE_LEAST || MCA_PML_SPEC_SPECULATION_OFF == mca_pml_spec.speculation
                   || 0 == mca_pml_spec.patience_max
               ? 0
               : spec_now();
}

/* A transfer with this peer is done that began at `started` (as of the last). Takes send_lock. */
void mca_pml_spec_patience_moved(mca_pml_spec_peer_t *peer, uint64_t length, uint64_t started);

/* Is the RTR here that names the next message with its tag? Takes send_lock. */
bool mca_pml_spec_rtr_is_here(mca_pml_spec_send_request_t *sendreq);

/* A nonblocking send of a large message has polled once and found no RTR: polls on, for as long as is
 * worth it, if an RTR of ours is out to the same peer. Takes send_lock, calls the transports. */
void mca_pml_spec_patience_for_rtr(mca_pml_spec_send_request_t *sendreq);

/* A nonblocking send of this length has found the RTR it wanted, so that it has not polled, and an RTR of ours is out
 * to the same peer: poll once when the data is on its way? An RTS that crossed that RTR has come by now if the peer
 * was a little earlier, and nothing would poll for it before the wait. */
static inline bool mca_pml_spec_patience_polls(const mca_pml_spec_peer_t *peer, uint64_t length)
{
    return length >= SPEC_PATIENCE_LEAST && MCA_PML_SPEC_GLANCE(peer->offers) > 0
           && MCA_PML_SPEC_GLANCE(peer->policy.for_rtr.ps_per_byte) > 0;
}

/* A nonblocking receive of a large message from one peer has polled once and is not posted yet: polls on, for as
 * long as is worth it, if an RTS of ours is out to the same peer. Takes the communicator's lock and
 * send_lock, calls the transports. */
void mca_pml_spec_patience_for_rts(mca_pml_spec_recv_request_t *recvreq);

/* A receive that hoped was posted without its RTS, of a message of this length, which came later. Takes send_lock. */
void mca_pml_spec_patience_missed(mca_pml_spec_recv_request_t *recvreq, uint64_t length);

#endif
