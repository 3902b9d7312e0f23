/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Large messages through memory that two processes of a host share (core/spec_cico.h), where no process may copy from another's
 * memory: in containers that forbid it, or with btl_vader_single_copy_mechanism none.
 *
 * Each process has some rings. The end that comes first names one of its own to the other: the sender in its RTS, the receiver in
 * its RTR. From then on each end copies whenever it is in MPI. While its program computes, a thread of the process copies for
 * it, if the other end waits and calls it: it runs on the processor of the end that waits, which offers it. So a large message goes on
 * as long as one end waits (docs/design/protocol.md, "Copies through shared memory").
 *
 * The thread copies between buffers and rings, and does nothing else: it takes no lock, and calls nothing of Open MPI. It begins
 * with the first nonblocking request that uses a ring, and sleeps until it is called.
 *
 * Threads: any, but for the last function. */
#ifndef PML_SPEC_CICO_H
#define PML_SPEC_CICO_H

#include "pml_spec_request.h"

/* Do messages of so many bytes from or to this peer go this way, if there is a ring? */
bool mca_pml_spec_cico_may(const mca_pml_spec_peer_t *peer, uint64_t length);

/* Not any more, for as long as the communicator lives. */
static inline void mca_pml_spec_cico_shun(mca_pml_spec_peer_t *peer)
{
    __atomic_store_n(&peer->ringless, true, __ATOMIC_RELAXED);
}

/* Does this process reach the ring that the peer has named? If not it names none to the peer either. */
bool mca_pml_spec_cico_reaches(mca_pml_spec_peer_t *peer, uint64_t name);

/* Is a ring of this process free, as it may have been a moment ago? Called before one is offered under a lock: what is made once
 * for all of them is there then. */
bool mca_pml_spec_cico_has_room(const mca_pml_spec_recv_request_t *recvreq);

/* A ring of this process for the request. Returns its name; 0: none is free. It begins to wait for the other end. */
uint64_t mca_pml_spec_cico_offer_send(mca_pml_spec_send_request_t *sendreq);
uint64_t mca_pml_spec_cico_offer_recv(mca_pml_spec_recv_request_t *recvreq);

/* A send that has offered a ring and blocks: copies what has room there, while the receiver hears of it. */
void mca_pml_spec_cico_ahead(mca_pml_spec_send_request_t *sendreq);

/* The same by a ring that the peer has named. False: it cannot be reached, or is none. The receiver has set what is
 * missing to `want` of the message's `length` bytes. It may end the request. */
bool mca_pml_spec_cico_join_send(mca_pml_spec_send_request_t *sendreq, uint64_t name);
bool mca_pml_spec_cico_join_recv(mca_pml_spec_recv_request_t *recvreq, uint64_t name,
                                 uint64_t length, uint64_t want);

/* The request's message has come, or goes, another way: its ring is free when nobody uses it. */
void mca_pml_spec_cico_drop(struct mca_pml_spec_cico **job);

/* Nobody copies from or to the request's buffer any more. */
void mca_pml_spec_cico_stop(struct mca_pml_spec_cico *job);

/* There is no request left. */
void mca_pml_spec_cico_fini(void);

#endif
