/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Moves pieces of messages that both ends move: in each call of progress one single copy, or as many fragments as there is room
 * for. */
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

/* When this process last sent a fragment. */
static uint64_t idle_since;

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

/* Data of a fragment. */
static uint64_t fragment_most(const mca_pml_spec_peer_t *peer)
{
    return peer->eager_most + sizeof(mca_pml_spec_match_hdr_t) - sizeof(mca_pml_spec_frag_hdr_t);
}

/* In fragments, while both ends are there? Not where a unit of what is taken is more than one. */
static bool pipelines(mca_pml_spec_peer_t *peer, uint64_t length)
{
    return length <= mca_pml_spec_ends(peer)->pipeline
           && spec_claim_unit(length) <= fragment_most(peer);
}

/* A job that outlives processes gives memory back that another one may still read or write. */
bool mca_pml_spec_joint_may(mca_pml_spec_peer_t *peer, uint64_t length, bool waits)
{
    if (!peer->is_near || peer->is_self || mca_pml_spec_outlives() || NULL == btl_of(peer)) {
        return false;
    }
    return pipelines(peer, length)
           || (length >= SPEC_CLAIM_LEAST
               && !(waits
                    && (length < mca_pml_spec_ends(peer)->split
                        || MCA_PML_SPEC_SEEN(mca_pml_spec.announced) > 0)));
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

/* core/spec_joint.h */
static int64_t open_of(const mca_pml_spec_joint_t *joint)
{
    return joint->is_put
               ? MCA_PML_SPEC_SEEN(joint->peer->fragments)
               : MCA_PML_SPEC_SEEN(((mca_pml_spec_recv_request_t *) joint->request)->missing);
}

/* A piece that this end copies by itself; false: none is left. */
static bool move_single(mca_pml_spec_joint_t *joint, mca_bml_base_btl_t *btl)
{
    uint64_t at;
    /* By fragments the other end can do much of what is left when it comes. */
    const uint64_t split = mca_pml_spec_ends(joint->peer)->split / (joint->pipelined ? 4 : 1);
    const bool busy = MCA_PML_SPEC_SEEN(joints[false]) + MCA_PML_SPEC_SEEN(joints[true]) > 1
                      || (!joint->is_put && MCA_PML_SPEC_SEEN(mca_pml_spec.announced) > 0);
    const uint64_t bytes =
        spec_claim_next(&joint->claim, joint->is_put, joint->length, busy, split, UINT64_MAX, &at);
    if (0 == bytes || !mca_pml_spec_take_owed(joint->owed, bytes)) {
        return false;
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
    spec_joint_moved(&joint->seen, open_of(joint));
    return true;
}

/* The sender's; false: none is left, or for now there is no room. */
static bool send_fragment(mca_pml_spec_joint_t *joint)
{
    mca_pml_spec_send_request_t *sendreq = joint->request;
    const uint64_t most = sendreq->has_ahead ? sendreq->ahead.length
                                             : spec_joint_piece(joint->seen.met, joint->length,
                                                                fragment_most(joint->peer));
    uint64_t at;
    const uint64_t bytes = spec_claim_next(&joint->claim, true, joint->length, true, 0, most, &at);
    if (0 == bytes || !mca_pml_spec_take_owed(joint->owed, bytes)) {
        return false;
    }
    const bool had_room = mca_pml_spec_copy_fragment(sendreq, joint->offset + at, bytes);
    spec_joint_moved(&joint->seen, open_of(joint));
    __atomic_store_n(&idle_since, spec_now(), __ATOMIC_RELAXED);
    return had_room;
}

/* Does another piece of the message remain to be taken? */
static bool is_left(const mca_pml_spec_joint_t *joint)
{
    return spec_claim_is_left(&joint->claim, joint->length);
}

/* Moves a piece, or several; false: none is left. */
static bool move_pieces(mca_pml_spec_joint_t *joint, mca_bml_base_btl_t *btl)
{
    if (!joint->pipelined) {
        return (joint->is_put && leaves_put(joint)) || move_single(joint, btl);
    }
    for (;;) {
        if (joint->is_put
            && MCA_PML_SPEC_SEEN(((mca_pml_spec_send_request_t *) joint->request)->waiting)) {
            return is_left(joint); /* the transport has no room for the last fragment */
        }
        switch (spec_joint_next(
            &joint->seen, open_of(joint), joint->is_put ? mca_pml_spec.pipeline_depth : 0,
            mca_pml_spec_ends(joint->peer)->patience, MCA_PML_SPEC_SEEN(idle_since), spec_now())) {
        case SPEC_JOINT_FRAGMENT:
            if (!send_fragment(joint)) {
                return is_left(joint);
            }
            break;
        case SPEC_JOINT_SINGLE:
            return move_single(joint, btl);
        default:
            /* The receiver reads the word as little as may be: the sender writes it. */
            return joint->is_put ? is_left(joint) : open_of(joint) > 1;
        }
    }
}

/* true: no piece is left */
static bool turn(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_joint_t *joint = SPEC_ENTRY(pending, mca_pml_spec_joint_t, pending);
    mca_bml_base_btl_t *btl = mca_pml_spec_lost(joint->peer) ? NULL : btl_of(joint->peer);
    if (NULL != btl && move_pieces(joint, btl)) {
        return false;
    }
    leave(joint);
    return true;
}

static void start(mca_pml_spec_joint_t *joint, bool met, bool at_once)
{
    joint->left_since = 0;
    joint->pipelined = pipelines(joint->peer, joint->length);
    spec_joint_begin(&joint->seen, open_of(joint), met, spec_now());
    joint->pending.retry = turn;
    MCA_PML_SPEC_COUNT(joint);
    (void) mca_pml_spec_add32(&joints[joint->is_put], 1);
    if (!at_once || !turn(&joint->pending)) {
        mca_pml_spec_pend(&joint->pending, &queues[joint->is_put]);
    }
}

void mca_pml_spec_joint_ahead(mca_pml_spec_send_request_t *sendreq)
{
    const uint64_t length = sendreq->req_send.req_bytes_packed;
    mca_pml_spec_peer_t *peer = sendreq->peer;
    if (mca_pml_spec_joint_may(peer, length, false) && pipelines(peer, length)) {
        const uint64_t piece =
            spec_claim_last(length, spec_joint_piece(true, length, fragment_most(peer)));
        mca_pml_spec_copy_ahead(sendreq, length - piece, piece);
    }
}

void mca_pml_spec_joint_send(mca_pml_spec_send_request_t *sendreq, bool met)
{
    mca_pml_spec_joint_t *joint = &sendreq->joint;
    joint->is_put = true;
    joint->request = sendreq;
    joint->peer = sendreq->peer;
    joint->other = sendreq->r;
    joint->local = sendreq->flat;
    joint->owed = &sendreq->owed;
    joint->by_copy = mca_pml_spec_copy_send;
    start(joint, met, met && sendreq->blocks);
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
    start(joint, true, false);
}
