/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Staging: a large message from or to one block of device memory, or host memory with gaps, over a transport that moves data by
 * itself, goes through host memory of one block (docs/design/protocol.md, "Buffers in an accelerator", "Buffers with gaps"): it is what
 * is registered, offered, put and got. A receive has as much as its buffer, and `flat` points there; a send from a device has some pieces of it
 * while it is put (services/pml_spec_pipe.h), and its `flat` is NULL. Of both `is_flat` is true. A send with gaps is packed as a whole, and is then
 * like one from one block. It is complete for MPI by then, unless it is synchronous, or its transport does not go on by itself: then the
 * program would leave a transfer that needs it.
 *
 * Threads: the memory, any; a request's, as the request's. */
#ifndef PML_SPEC_STAGE_H
#define PML_SPEC_STAGE_H

#include "pml_spec_request.h"

/* What is kept for the next message, at most: bytes. */
#define MCA_PML_SPEC_STAGE_KEEP ((size_t) 64 << 20)

void mca_pml_spec_stage_init(void);
void mca_pml_spec_stage_fini(void);

/* Could a message of so many bytes between the peer and this buffer be staged, as far as its length and the peer's transports, which
 * are known, say? */
static inline bool mca_pml_spec_may_stage(const mca_pml_spec_peer_t *peer, size_t length)
{
    return length >= SPEC_STAGE_LEAST && length <= mca_pml_spec.staging_max
           && SPEC_BY_RDMA == peer->mover && !peer->is_self;
}

/* Does what is put to this peer, or got by it, move while neither process calls MPI, however it is asked for? */
bool mca_pml_spec_moves_by_itself(const mca_pml_spec_peer_t *peer);

/* Is staging a message with gaps worth it? */
static inline bool mca_pml_spec_stages_gaps(mca_pml_spec_peer_t *peer, size_t length, bool sends)
{
    if (!mca_pml_spec_may_stage(peer, length)
        || MCA_PML_SPEC_SPECULATION_OFF == mca_pml_spec.stage_gaps) {
        return false;
    }
    if (MCA_PML_SPEC_SPECULATION_ON == mca_pml_spec.stage_gaps) {
        return true;
    }
    spec_stage_gaps_like(&peer->gaps, MCA_PML_SPEC_GLANCE(peer->policy.for_rtr.ps_per_byte));
    return (!sends || mca_pml_spec_moves_by_itself(peer))
           && spec_stage_gaps_pay(&peer->gaps, sends);
}

/* The same of a send from host memory with gaps. One that waits goes in fragments, and waits for the last to leave, not for its
 * acknowledgement. */
static inline bool mca_pml_spec_send_stages(const mca_pml_spec_send_request_t *sendreq)
{
    return !sendreq->is_flat && !sendreq->on_device && !sendreq->blocks
           && mca_pml_spec_stages_gaps(sendreq->peer, sendreq->req_send.req_bytes_packed, true);
}

/* The same of a send whose buffer is on a device. */
static inline bool mca_pml_spec_stages(const mca_pml_spec_peer_t *peer,
                                       const ompi_datatype_t *dtype, size_t count, size_t length)
{
    return mca_pml_spec_may_stage(peer, length) && mca_pml_spec_is_flat(dtype, count);
}

/* Of a receive that is on a device, of one block, or on the host, with gaps. In a call that waits each fragment is unpacked when it comes, and
 * nothing is to be gained. */
static inline bool mca_pml_spec_recv_stages(const mca_pml_spec_recv_request_t *recvreq)
{
    const mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    const bool has_gaps = !mca_pml_spec_is_flat(base->req_datatype, base->req_count);
    return recvreq->on_device
               ? !has_gaps && mca_pml_spec_may_stage(recvreq->peer, recvreq->capacity)
               : has_gaps && !recvreq->blocks
                     && mca_pml_spec_stages_gaps(recvreq->peer, recvreq->capacity, false);
}

/* Staging for a send that could have it. */
static inline void mca_pml_spec_stage_send(mca_pml_spec_send_request_t *sendreq)
{
    sendreq->staged = true;
    sendreq->is_flat = true;
    sendreq->flat = NULL;
    MCA_PML_SPEC_COUNT(staged);
}

/* Packs a send with gaps that could be staged: `flat` is its copy, until it is done, and it may be complete for MPI. Without memory for that,
 * of which such sends leave half to others, nothing has changed, and it goes in fragments. */
void mca_pml_spec_stage_pack(mca_pml_spec_send_request_t *sendreq);

/* It is done: the memory goes back. */
void mca_pml_spec_stage_unpack(mca_pml_spec_send_request_t *sendreq);

/* Staging for a receive that could have it, unless it has it already. False: there is no memory for it, and nothing
 * has changed. */
bool mca_pml_spec_stage_recv(mca_pml_spec_recv_request_t *recvreq);

/* The message of a receive comes by copy: into a buffer with gaps it needs no staging. Nothing of it has come yet, and an RTR of the receive is
 * not used. */
void mca_pml_spec_stage_undo(mca_pml_spec_recv_request_t *recvreq);

/* How the pieces of a staged message of so many bytes are moved by a transport that takes wire_ps picoseconds for each (0: that is not
 * known): pieces of the same length but the last, some at a time. */
typedef struct mca_pml_spec_stage_plan {
    size_t piece;
    uint32_t slots;
} mca_pml_spec_stage_plan_t;

mca_pml_spec_stage_plan_t mca_pml_spec_stage_plan(size_t length, uint32_t wire_ps);

/* So many pieces at a time were of use to the transport. */
void mca_pml_spec_stage_learn(uint32_t slots);

/* Memory for pieces of a staged send, until it goes back by the next with the same size. NULL: there is none. The
 * first time in a process that it is for a device the device's copies are measured with it. */
char *mca_pml_spec_stage_take(mca_pml_spec_send_request_t *sendreq, size_t size);
void mca_pml_spec_stage_put(char *memory, size_t size);

/* Slow path of the next. */
void mca_pml_spec_stage_copy_in(mca_pml_spec_recv_request_t *recvreq, uint64_t offset, uint64_t n);

/* Bytes of a receive, within its capacity, are in host memory for good, and are accounted for: if it is staged when they are in its
 * buffer, too (a failure is noted in the request's status), unless the program was told that the peer is lost, and may have its buffer
 * back. The caller touches it no more. Any thread. */
static inline void mca_pml_spec_stage_arrived(mca_pml_spec_recv_request_t *recvreq, uint64_t offset,
                                              uint64_t n)
{
    if (OPAL_UNLIKELY(recvreq->staged) && OPAL_LIKELY(mca_pml_spec_use(&recvreq->life))) {
        mca_pml_spec_stage_copy_in(recvreq, offset, n);
    } else {
        mca_pml_spec_recv_account(recvreq, n, OMPI_SUCCESS);
    }
}

/* A staged receive is over, and no transport uses its memory. Unless all of its length bytes have arrived as above they go to its
 * buffer now, to a device's all again; the memory goes back. */
void mca_pml_spec_stage_deliver(mca_pml_spec_recv_request_t *recvreq, size_t length);

#endif
