/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Patience of sends whose RTR may be on its way: when core/spec_patience.h is asked and told.
 *
 * Threads: any; the peer's send_lock covers its state. */
#ifndef PML_SPEC_PATIENCE_H
#define PML_SPEC_PATIENCE_H

#include "pml_spec_proto.h"
#include "pml_spec_request.h"

/* The transfer is about to start: when it does, in nanoseconds; 0: it is not worth the look. */
static inline uint64_t mca_pml_spec_patience_begins(uint64_t length)
{
    return length < SPEC_PATIENCE_LEAST || MCA_PML_SPEC_SPECULATION_OFF == mca_pml_spec.speculation
                   || 0 == mca_pml_spec.patience_max
               ? 0
               : mca_pml_spec_now_ns();
}

/* A transfer with this peer is done. Takes send_lock. */
void mca_pml_spec_patience_moved(mca_pml_spec_peer_t *peer,
                                 const mca_pml_spec_transfer_t *transfer);

/* A nonblocking send of a large message has polled once and found no RTR: polls on, for as long as is
 * worth it, if a receive of ours waits for the same peer. Who sends before it receives has nothing of its own to
 * be met: the other's RTS is read as soon as the receive is posted. Takes send_lock, calls the transports. */
void mca_pml_spec_patience_wait(mca_pml_spec_send_request_t *sendreq);

#endif
