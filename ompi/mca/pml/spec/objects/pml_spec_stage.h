/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Staging: a large message from or to one block of device memory, over a transport that moves data by itself, goes through host
 * memory that stands in for the buffer (docs/design/protocol.md, "Buffers in an accelerator"): it is what is registered, offered,
 * put and got. `flat` of a request that is staged points there, and `is_flat` is true.
 *
 * Threads: the memory, any; a request's, as the request's. */
#ifndef PML_SPEC_STAGE_H
#define PML_SPEC_STAGE_H

#include "pml_spec_request.h"

/* What is kept for the next message, at most: bytes. */
#define MCA_PML_SPEC_STAGE_KEEP ((size_t) 64 << 20)

void mca_pml_spec_stage_init(void);
void mca_pml_spec_stage_fini(void);

/* Could a message of so many bytes between the peer and this buffer, which is on a device, be staged? The peer's transports are
 * known. */
static inline bool mca_pml_spec_stages(const mca_pml_spec_peer_t *peer,
                                       const ompi_datatype_t *dtype, size_t count, size_t length)
{
    return length >= SPEC_STAGE_LEAST && length <= mca_pml_spec.staging_max
           && SPEC_BY_RDMA == peer->mover && !peer->is_self && mca_pml_spec_is_flat(dtype, count);
}

static inline bool mca_pml_spec_recv_stages(const mca_pml_spec_recv_request_t *recvreq)
{
    const mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    return recvreq->on_device
           && mca_pml_spec_stages(recvreq->peer, base->req_datatype, base->req_count,
                                  recvreq->capacity);
}

/* Staging for a send or receive that could have it, unless it has it already. False: there is no memory for it, and nothing
 * has changed. */
bool mca_pml_spec_stage_send(mca_pml_spec_send_request_t *sendreq);
bool mca_pml_spec_stage_recv(mca_pml_spec_recv_request_t *recvreq);

/* How many bytes of a staged send are brought at a time. */
size_t mca_pml_spec_stage_piece(const mca_pml_spec_send_request_t *sendreq);

/* Bytes of a staged send are brought: from now on they can be put. False: the device failed, as the request's status says. */
bool mca_pml_spec_stage_bring(mca_pml_spec_send_request_t *sendreq, uint64_t offset, size_t n);

/* A staged receive is over, and no transport uses its memory: length bytes of it go to the device (a failure is noted
 * in the request's status), and the memory goes back. */
void mca_pml_spec_stage_deliver(mca_pml_spec_recv_request_t *recvreq, size_t length);

/* The memory of a staged send goes back. */
void mca_pml_spec_stage_end(mca_pml_spec_send_request_t *sendreq);

#endif
