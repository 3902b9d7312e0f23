/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Moves pieces of messages that both ends move: in each call of progress one single copy, or as many fragments as there is room
 * for. */
#include "pml_spec_joint.h"

#include "../objects/pml_spec_agent.h"
#include "pml_spec_control.h"
#include "pml_spec_copy.h"
#include "pml_spec_costs.h"
#include "pml_spec_transfer.h"

/* Where pieces to get and to put wait for a call of progress: those of the oldest message first; in `stack` those of the newest. */
static const char queues[2], stack;
/* How many messages this process gets and puts pieces of. Those that it gets go first: so of an exchange each end moves one
 * message, into its own memory. */
static volatile int32_t joints[2];
/* How many are in `stack`, and when the first of them began. */
static volatile int32_t stacked;
static uint64_t stacked_since;

void mca_pml_spec_joint_init(void)
{
    joints[false] = joints[true] = stacked = 0;
}

/* When this process last sent a fragment. */
static uint64_t idle_since;
/* Of this thread's calls of progress that come to messages to be got, and to be put. */
static _Thread_local spec_pace_t pace[2];

/* An agent that has no processor of its own leaves all pieces to the ends for so long, nanoseconds: if none waits till then, both
 * compute. */
#define LEAVE_AGENT_NS UINT64_C(1000000)

/* core/spec_joint.h */
static bool leaves_put(mca_pml_spec_joint_t *joint)
{
    const bool gets = MCA_PML_SPEC_SEEN(joints[false]) > 0;
    const bool offers = MCA_PML_SPEC_SEEN(mca_pml_spec.offers) > 0;
    if (!gets && !offers) {
        return false;
    }
    const uint64_t now = spec_now();
    joint->left_since = 0 == joint->left_since ? now : joint->left_since;
    return spec_joint_leaves(
        gets, offers, joint->left_since,
        SPEC_COSTS_FAR * spec_costs_single_ns(&mca_pml_spec.costs, joint->length), now);
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
static bool can_join(mca_pml_spec_peer_t *peer)
{
    return peer->is_near && !peer->is_self && !mca_pml_spec_outlives() && NULL != btl_of(peer);
}

/* May it go in fragments, while both ends wait? Not where a unit of what is taken is more than one. */
static bool may_pipeline(mca_pml_spec_peer_t *peer, uint64_t length)
{
    return length <= mca_pml_spec_ends(peer)->pipeline
           && spec_claim_unit(length) <= mca_pml_spec_copy_most(peer);
}

bool mca_pml_spec_joint_sends(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const uint64_t length = sendreq->req_send.req_bytes_packed;
    const bool alone = sendreq->blocks && 0 == MCA_PML_SPEC_SEEN(mca_pml_spec.offers)
                       && 0 == MCA_PML_SPEC_SEEN(joints[false]);
    return may_pipeline(peer, length)
           && (mca_pml_spec.pipeline_max >= 0
               || spec_far_pipelines(&peer->far, &mca_pml_spec.costs, alone, peer->eager_most))
           && can_join(peer);
}

bool mca_pml_spec_joint_may(mca_pml_spec_peer_t *peer, uint64_t length, bool waits, bool fragments)
{
    const bool pays = (fragments && may_pipeline(peer, length))
                      || (length >= SPEC_CLAIM_LEAST && length >= mca_pml_spec_ends(peer)->either
                          && !(waits
                               && (length < mca_pml_spec_ends(peer)->split
                                   || MCA_PML_SPEC_SEEN(mca_pml_spec.announced) > 0)));
    return pays && can_join(peer);
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
        mca_pml_spec_control_send(endpoint, args->btl, &fin, MCA_PML_SPEC_FIN_SUM);
    }
}

/* No piece is left. The request may be gone after this. */
static void leave(mca_pml_spec_joint_t *joint)
{
    (void) mca_pml_spec_add32(&joints[joint->is_put], -1);
    if (joint->is_stacked) {
        (void) mca_pml_spec_add32(&stacked, -1);
    }
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

/* A range that this end has taken, by itself. */
static void move_range(mca_pml_spec_joint_t *joint, mca_bml_base_btl_t *btl, uint64_t at,
                       uint64_t bytes)
{
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
}

/* Takes a piece of `most` bytes at most; 0: none is left. */
static uint64_t take(mca_pml_spec_joint_t *joint, bool busy, uint64_t split, uint64_t most,
                     uint64_t *at)
{
    const uint64_t bytes =
        spec_claim_next(&joint->claim, joint->is_put, joint->length, busy, split, most, at);
    return bytes > 0 && mca_pml_spec_take_owed(joint->owed, bytes) ? bytes : 0;
}

/* False: none is left. */
static bool move_single(mca_pml_spec_joint_t *joint, mca_bml_base_btl_t *btl)
{
    uint64_t at;
    /* By fragments the other end can do much of what is left when it comes. */
    const uint64_t split = mca_pml_spec_ends(joint->peer)->split / (joint->pipelined ? 4 : 1);
    const bool busy = MCA_PML_SPEC_SEEN(joints[false]) + MCA_PML_SPEC_SEEN(joints[true]) > 1
                      || (!joint->is_put && MCA_PML_SPEC_SEEN(mca_pml_spec.announced) > 0);
    const uint64_t bytes = take(joint, busy, split, UINT64_MAX, &at);
    if (bytes > 0) {
        move_range(joint, btl, at, bytes);
    }
    return bytes > 0;
}

/* False: none is left, or the transport has no room, which is not waited for: a receiver that computes may have what it lacks. */
static bool move_fragment(mca_pml_spec_joint_t *joint, mca_bml_base_btl_t *btl)
{
    mca_pml_spec_send_request_t *sendreq = joint->request;
    uint64_t at;
    const uint64_t most =
        sendreq->has_ahead ? sendreq->ahead.length
                           : spec_joint_piece(joint->length, mca_pml_spec_copy_most(joint->peer));
    const uint64_t bytes = take(joint, true, 0, most, &at);
    const bool goes = bytes > 0 && mca_pml_spec_copy_fragment(sendreq, joint->offset + at, bytes);
    if (bytes > 0 && !goes) {
        move_range(joint, btl, at, bytes);
    }
    if (MCA_PML_SPEC_SEEN(joints[false]) > 0) {
        spec_far_exchanges(&joint->peer->far);
    }
    spec_joint_moved(&joint->seen, open_of(joint));
    __atomic_store_n(&idle_since, spec_now(), __ATOMIC_RELAXED);
    return goes;
}

/* This process waits for the message: its receiver says it. */
static void tell_wait(mca_pml_spec_joint_t *joint)
{
    if (!joint->is_put && !joint->told) {
        joint->told = true;
        spec_claim_wait(&joint->claim);
    }
}

/* Does it? */
static bool waits(mca_pml_spec_joint_t *joint, uint64_t patience)
{
    const bool is_so =
        spec_pace_waits(&pace[joint->is_put], patience, MCA_PML_SPEC_SEEN(idle_since), spec_now());
    if (is_so || joint->blocks) {
        tell_wait(joint);
    }
    return is_so || joint->blocks;
}

static bool is_left(const mca_pml_spec_joint_t *joint)
{
    return spec_claim_is_left(&joint->claim, joint->length);
}

/* Moves a piece, or several; false: none is left. */
static bool move_pieces(mca_pml_spec_joint_t *joint, mca_bml_base_btl_t *btl)
{
    if (!joint->pipelined) {
        return (joint->is_put && is_left(joint) && leaves_put(joint)) || move_single(joint, btl);
    }
    const uint64_t patience = mca_pml_spec_ends(joint->peer)->patience;
    const bool is_waiting = !mca_pml_spec_agent_is_here() && waits(joint, patience);
    for (;;) {
        const bool sends = joint->is_put && mca_pml_spec_copy_has_room(joint->peer, 1)
                           && spec_claim_is_awaited(&joint->claim, joint->length);
        switch (spec_joint_next(&joint->seen, is_waiting, sends, open_of(joint), patience,
                                MCA_PML_SPEC_SEEN(idle_since), spec_now())) {
        case SPEC_JOINT_FRAGMENT:
            if (!move_fragment(joint, btl)) {
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

/* Is this an agent on somebody else's processor? Then an end that waits is about to come. */
static bool is_left_to_waiters(mca_pml_spec_joint_t *joint)
{
    if (!mca_pml_spec_agent_leaves_pieces()) {
        return false;
    }
    const uint64_t now = spec_now();
    joint->seen_by_agent = 0 == joint->seen_by_agent ? now : joint->seen_by_agent;
    return now - joint->seen_by_agent < LEAVE_AGENT_NS;
}

/* true: no piece is left */
static bool turn(mca_pml_spec_pending_t *pending)
{
    mca_pml_spec_joint_t *joint = SPEC_ENTRY(pending, mca_pml_spec_joint_t, pending);
    if (OPAL_UNLIKELY(mca_pml_spec.has_agent) && is_left_to_waiters(joint)) {
        return false;
    }
    mca_bml_base_btl_t *btl = mca_pml_spec_lost(joint->peer) ? NULL : btl_of(joint->peer);
    const bool is_put = joint->is_put;
    const bool goes_on = NULL != btl && move_pieces(joint, btl);
    if (!goes_on) {
        leave(joint);
    }
    spec_pace_end(&pace[is_put], spec_now());
    return !goes_on;
}

/* Until no piece is left. */
static void keep(mca_pml_spec_joint_t *joint, uint64_t now)
{
    const uint64_t since = 0 == MCA_PML_SPEC_SEEN(stacked) ? now : MCA_PML_SPEC_SEEN(stacked_since);
    const bool exchanges =
        MCA_PML_SPEC_SEEN(joints[false]) > 0 || MCA_PML_SPEC_SEEN(mca_pml_spec.offers) > 0;
    joint->is_stacked = spec_joint_stacks(joint->is_put, joint->pipelined, exchanges, since, now);
    if (joint->is_stacked) {
        __atomic_store_n(&stacked_since, since, __ATOMIC_RELAXED);
        (void) mca_pml_spec_add32(&stacked, 1);
        mca_pml_spec_poll_first(&joint->pending, &stack);
    } else {
        mca_pml_spec_poll_for(&joint->pending, &queues[joint->is_put]);
    }
}

/* begins: the message was met by a call that begins its receive: that returns, unless it blocks. */
static void start(mca_pml_spec_joint_t *joint, bool blocks, bool begins)
{
    joint->left_since = joint->seen_by_agent = 0;
    joint->is_stacked = false;
    joint->blocks = blocks;
    joint->told = false;
    joint->pipelined =
        spec_claim_sends(&joint->claim, joint->length) && may_pipeline(joint->peer, joint->length);
    const uint64_t now = spec_now();
    spec_joint_begin(&joint->seen, open_of(joint), now);
    if (joint->pipelined && !begins && !mca_pml_spec_agent_is_here()
        && spec_pace_is_quick(&pace[joint->is_put], mca_pml_spec_ends(joint->peer)->patience,
                              now)) {
        tell_wait(joint); /* its turn may be behind others' */
    }
    joint->pending.retry = turn;
    MCA_PML_SPEC_COUNT(joint);
    (void) mca_pml_spec_add32(&joints[joint->is_put], 1);
    if (!blocks || !joint->is_put || !joint->pipelined || !turn(&joint->pending)) {
        keep(joint, now);
    }
}

void mca_pml_spec_joint_ahead(mca_pml_spec_send_request_t *sendreq)
{
    const uint64_t length = sendreq->req_send.req_bytes_packed;
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const uint64_t piece =
        spec_claim_last(length, spec_joint_piece(length, mca_pml_spec_copy_most(peer)));
    mca_pml_spec_copy_ahead(sendreq, length - piece, piece);
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
    start(joint, sendreq->blocks, false);
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
    start(joint, recvreq->blocks, recvreq->starts);
}
