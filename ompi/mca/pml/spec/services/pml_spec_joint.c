/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Moves pieces of messages that both ends move, one in each call of progress. */
#include "pml_spec_joint.h"

#include "pml_spec_control.h"
#include "pml_spec_copy.h"
#include "pml_spec_costs.h"
#include "pml_spec_transfer.h"

/* Where pieces to get and to put wait for a call of progress: those of the oldest message first. */
static const char queues[2];
/* How many messages this process gets and puts pieces of. Those that it gets go first: so of an exchange each end moves one
 * message, into its own memory. */
static volatile int32_t joints[2];

/* A process that waits for large messages leaves those that it sends to their receivers for so long, nanoseconds: in an exchange
 * the other one is about to come; and while it gets pieces: for ever would be too long below a callback of such a piece. */
#define LEAVE_NS      UINT64_C(2000)
#define LEAVE_GETS_NS UINT64_C(1000000)

static bool leaves_put(mca_pml_spec_joint_t *joint)
{
    const bool gets = MCA_PML_SPEC_SEEN(joints[false]) > 0;
    if (!gets && 0 == MCA_PML_SPEC_SEEN(mca_pml_spec.offers)) {
        return false;
    }
    const uint64_t now = spec_now();
    joint->left_since = 0 == joint->left_since ? now : joint->left_since;
    return now - joint->left_since < (gets ? LEAVE_GETS_NS : LEAVE_NS);
}

/* By which pieces are moved; NULL: not by a processor, or there are several, or one that cannot put and get any piece. */
static mca_bml_base_btl_t *btl_of(mca_pml_spec_peer_t *peer)
{
    mca_bml_base_btl_t *btl[MCA_PML_SPEC_STRIPES];
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(peer);
    return NULL != endpoint && SPEC_BY_SINGLE == peer->mover
                   && 1 == mca_pml_spec_rdma_btls(endpoint, btl)
                   && mca_pml_spec_can_rdma(btl[0], true, 1, 1, 1, false)
                   && mca_pml_spec_can_rdma(btl[0], false, 1, 1, 1, false)
               ? btl[0]
               : NULL;
}

/* A job that outlives processes gives memory back that another one may still read or write. */
bool mca_pml_spec_joint_may(mca_pml_spec_peer_t *peer, uint64_t length, bool waits)
{
    return length >= SPEC_CLAIM_LEAST && peer->is_near && !peer->is_self && !mca_pml_spec_outlives()
           && NULL != btl_of(peer)
           && !(waits
                && (length < mca_pml_spec_ends(peer)->split
                    || MCA_PML_SPEC_SEEN(mca_pml_spec.announced) > 0));
}

/* A piece is in its place. The other end hears of it at once, since this one may compute next. */
static void tell(mca_pml_spec_transfer_t *transfer)
{
    const mca_pml_spec_transfer_args_t *args = &transfer->args;
    const mca_pml_spec_joint_t *joint =
        args->is_put ? &((const mca_pml_spec_send_request_t *) args->request)->joint
                     : &((const mca_pml_spec_recv_request_t *) args->request)->joint;
    const mca_pml_spec_fin_hdr_t fin = {.type = MCA_PML_SPEC_FIN,
                                        .to_sender = !args->is_put,
                                        .joint = 1,
                                        .handle = joint->other,
                                        .bytes = args->length};
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(joint->peer);
    if (OPAL_LIKELY(NULL != endpoint)) {
        mca_pml_spec_control_send(endpoint, args->btl, &fin, sizeof(fin));
    }
}

/* No piece is left. The request may be gone after this. */
static void leave(mca_pml_spec_joint_t *joint)
{
    (void) mca_pml_spec_add32(&joints[joint->is_put], -1);
    if (joint->is_put) {
        mca_pml_spec_send_account(joint->request, 1, OMPI_SUCCESS);
    } else {
        mca_pml_spec_recv_account(joint->request, 1, OMPI_SUCCESS);
    }
}

/* Moves the next piece; true: there is none. */
static bool move_piece(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_joint_t *joint = SPEC_ENTRY(pending, mca_pml_spec_joint_t, pending);
    mca_bml_base_btl_t *btl = mca_pml_spec_lost(joint->peer) ? NULL : btl_of(joint->peer);
    uint64_t at, bytes = 0;
    if (joint->is_put && leaves_put(joint)) {
        return false;
    }
    const bool busy = MCA_PML_SPEC_SEEN(joints[false]) + MCA_PML_SPEC_SEEN(joints[true]) > 1
                      || (!joint->is_put && MCA_PML_SPEC_SEEN(mca_pml_spec.announced) > 0);
    if (NULL != btl) {
        bytes = spec_claim_next(&joint->claim, joint->is_put, joint->length, busy,
                                mca_pml_spec_ends(joint->peer)->split, &at);
    }
    if (0 == bytes || !mca_pml_spec_take_owed(joint->owed, bytes)) {
        leave(joint);
        return true;
    }
    const mca_pml_spec_transfer_args_t args = {.is_put = joint->is_put,
                                               .btl = btl,
                                               .local = joint->local + joint->offset + at,
                                               .remote = joint->remote + at,
                                               .offset = joint->offset + at,
                                               .length = bytes,
                                               .key = "", /* none is needed */
                                               .request = joint->request,
                                               .tell = tell,
                                               .by_copy = joint->by_copy};
    mca_pml_spec_transfer_start(&args);
    return false;
}

static void start(mca_pml_spec_joint_t *joint)
{
    joint->left_since = 0;
    joint->pending.retry = move_piece;
    MCA_PML_SPEC_COUNT(joint);
    (void) mca_pml_spec_add32(&joints[joint->is_put], 1);
    mca_pml_spec_pend(&joint->pending, &queues[joint->is_put]);
}

void mca_pml_spec_joint_send(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_joint_t *joint = &sendreq->joint;
    joint->is_put = true;
    joint->request = sendreq;
    joint->peer = sendreq->peer;
    joint->other = sendreq->r;
    joint->local = sendreq->flat;
    joint->owed = &sendreq->owed;
    joint->by_copy = mca_pml_spec_copy_send;
    start(joint);
}

void mca_pml_spec_joint_recv(mca_pml_spec_recv_request_t *recvreq,
                             void (*by_copy)(void *recvreq, uint64_t offset, uint64_t length))
{
    mca_pml_spec_joint_t *joint = &recvreq->joint;
    joint->is_put = false;
    joint->request = recvreq;
    joint->peer = recvreq->peer;
    joint->other = recvreq->s;
    joint->local = recvreq->flat;
    joint->owed = &recvreq->owed;
    joint->by_copy = by_copy;
    start(joint);
}
