/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Moves a range of a staged message in pieces, some at a time. */
#include "pml_spec_pipe.h"

#include "../objects/pml_spec_device.h"
#include "../objects/pml_spec_stage.h"

#include "opal/include/spec/class.h"

/* Pieces of a message with gaps have at least so many bytes: a FIN each is little beside them. */
#define PACKED UINT64_C(131072)

static void pipe_construct(mca_pml_spec_pipe_t *p)
{
    OBJ_CONSTRUCT(&p->convertor, opal_convertor_t);
}

static void pipe_destruct(mca_pml_spec_pipe_t *p)
{
    OBJ_DESTRUCT(&p->convertor);
}

SPEC_CLASS(mca_pml_spec_pipe_t, opal_free_list_item_t, pipe_construct, pipe_destruct);

/* Is each piece copied to its slot first? */
static bool is_copied(const mca_pml_spec_transfer_args_t *args)
{
    return args->is_put && ((const mca_pml_spec_send_request_t *) args->request)->staged;
}

/* Likewise, and packed? */
static bool has_gaps(const mca_pml_spec_transfer_args_t *args)
{
    return is_copied(args) && ((const mca_pml_spec_send_request_t *) args->request)->packs;
}

static void end(mca_pml_spec_pipe_t *p)
{
    if (NULL != p->peer) {
        if (p->began > 0) {
            spec_stage_gaps_moved(&p->peer->gaps, p->args.length, spec_now() - p->began);
        }
        mca_pml_spec_comm_put(p->peer->comm);
    }
    opal_convertor_cleanup(&p->convertor);
    if (NULL != p->key) {
        mca_bml_base_deregister_mem(p->args.btl, p->key);
    }
    if (NULL != p->memory) {
        mca_pml_spec_stage_put(p->memory, p->size);
    }
    mca_pml_spec_put_back(&mca_pml_spec.pipes, &p->super);
}

static void drive(mca_pml_spec_pipe_t *p);

static void piece_ended(void *pipe, uint32_t slot)
{
    mca_pml_spec_pipe_t *p = pipe;
    switch (spec_pipe_done(&p->pipe, slot)) {
    case SPEC_PIPE_DRIVE:
        drive(p);
        break;
    case SPEC_PIPE_OVER:
        end(p);
        break;
    default:
        break;
    }
}

/* A piece is where the transport finds it; false: it will not be, and goes by copy, which tells the other end why. */
static void pass_on(mca_pml_spec_pipe_t *p, const spec_pipe_piece_t *piece, bool is_there)
{
    mca_pml_spec_transfer_args_t args = p->args;
    args.local =
        NULL == p->memory ? args.local + piece->offset : p->memory + piece->slot * p->pipe.piece;
    args.remote += piece->offset;
    args.offset += piece->offset;
    args.length = piece->length;
    args.is_timed &= 0 == piece->offset && 0 == p->began; /* others wait for those before them */
    args.slot = piece->slot;
    spec_pipe_brought(&p->pipe, piece->slot);
    if (OPAL_LIKELY(is_there)) {
        mca_pml_spec_transfer_start(&args);
        return;
    }
    p->began = 0; /* it says nothing of the transport */
    mca_pml_spec_fall_back(&args);
    piece_ended(p, piece->slot);
}

static void brought(const mca_pml_spec_device_job_t *job, bool is_there)
{
    mca_pml_spec_pipe_t *p = job->object;
    const spec_pipe_piece_t piece = {.offset = job->offset, .length = job->n, .slot = job->slot};
    mca_pml_spec_send_leave(p->args.request);
    pass_on(p, &piece, is_there);
}

/* From a buffer with gaps; one driver at a time. The send is in use. Whole elements are packed only. */
static void pack(mca_pml_spec_pipe_t *p, spec_pipe_piece_t *piece)
{
    struct iovec iov = {.iov_base = p->memory + piece->slot * p->pipe.piece,
                        .iov_len = piece->length};
    uint32_t iovs = 1;
    size_t position = p->args.offset + piece->offset, n = piece->length;
    const uint64_t start = spec_now();
    opal_convertor_set_position(&p->convertor, &position);
    opal_convertor_pack(&p->convertor, &iov, &iovs, &n);
    spec_stage_gaps_packed(&p->peer->gaps, n, spec_now() - start);
    spec_pipe_shorten(&p->pipe, piece, n);
}

/* A send's piece is copied to its slot, unless it cannot be read, or the program may have its memory back: then what follows cannot
 * either. */
static void bring(mca_pml_spec_pipe_t *p, spec_pipe_piece_t *piece)
{
    mca_pml_spec_send_request_t *sendreq = p->args.request; /* if there are slots */
    if (NULL == p->memory) {
        pass_on(p, piece, true);
        return;
    }
    if (OPAL_UNLIKELY(sendreq->status < 0) || mca_pml_spec_lost(sendreq->peer)
        || !mca_pml_spec_use(&sendreq->life)) {
        spec_pipe_divert(&p->pipe, piece);
        pass_on(p, piece, false);
        return;
    }
    if (sendreq->packs) {
        pack(p, piece);
        mca_pml_spec_send_leave(sendreq);
        pass_on(p, piece, true);
        return;
    }
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    mca_pml_spec_device_begin(&(mca_pml_spec_device_job_t){
        .base = base,
        .to = p->memory + piece->slot * p->pipe.piece,
        .from = mca_pml_spec_device_at(base) + p->args.offset + piece->offset,
        .n = piece->length,
        .ended = brought,
        .object = p,
        .offset = piece->offset,
        .slot = piece->slot});
}

static void drive(mca_pml_spec_pipe_t *p)
{
    spec_pipe_piece_t piece;
    spec_pipe_step_t step;
    while (SPEC_PIPE_PIECE == (step = spec_pipe_next(&p->pipe, &piece))) {
        if (NULL != p->memory && !has_gaps(&p->args)) {
            mca_pml_spec_stage_learn(p->pipe.slots);
        }
        bring(p, &piece);
        mca_pml_spec_flush(); /* what was moved within the call is told before the next is */
    }
    if (SPEC_PIPE_OVER == step) {
        end(p);
    }
}

/* Memory for the slots of a send, and the registration of what the transfers use. False: there is none. */
static bool prepare(mca_pml_spec_pipe_t *p)
{
    const mca_pml_spec_transfer_args_t *args = &p->args;
    mca_pml_spec_transfer_args_t local = *args;
    p->memory = NULL;
    p->key = NULL;
    p->began = 0;
    p->peer = NULL;
    if (is_copied(args)) {
        const uint64_t pieces = (args->length + p->pipe.piece - 1) / p->pipe.piece;
        p->size = p->pipe.piece * (pieces < SPEC_PIPE_MOST ? pieces : SPEC_PIPE_MOST);
        p->memory = mca_pml_spec_stage_take(args->request, p->size);
        if (NULL == p->memory) {
            return false;
        }
        if (has_gaps(args)) {
            const mca_pml_spec_send_request_t *sendreq = args->request;
            const mca_pml_base_request_t *base = &sendreq->req_send.req_base;
            opal_convertor_copy_and_prepare_for_send(
                sendreq->peer->proc->super.proc_convertor, &base->req_datatype->super,
                base->req_count, base->req_addr, mca_pml_spec_convertor_flags(false),
                &p->convertor);
        }
        local.local = p->memory;
        local.length = p->size;
    }
    return mca_pml_spec_transfer_register(&local, &p->key);
}

void mca_pml_spec_pipe_begin(const mca_pml_spec_transfer_args_t *args)
{
    mca_pml_spec_pipe_t *p = (mca_pml_spec_pipe_t *) mca_pml_spec_get(&mca_pml_spec.pipes);
    if (OPAL_UNLIKELY(NULL == p)) {
        mca_pml_spec_fall_back(args);
        return;
    }
    const mca_pml_spec_stage_plan_t plan = mca_pml_spec_stage_plan(
        args->length,
        MCA_PML_SPEC_GLANCE(mca_pml_spec_transfer_peer(args)->policy.for_rtr.ps_per_byte));
    if (has_gaps(args)) {
        const uint64_t piece = spec_pipe_at_once(args->length, PACKED);
        const uint64_t pieces = (args->length + piece - 1) / piece;
        /* One more, if all were shortened, waits for a slot. */
        spec_pipe_init(&p->pipe, args->length, piece,
                       pieces < SPEC_PIPE_MOST ? (uint32_t) pieces : SPEC_PIPE_MOST);
    } else if (is_copied(args)) {
        spec_pipe_init(&p->pipe, args->length, plan.piece, plan.slots);
    } else {
        spec_pipe_init(&p->pipe, args->length, spec_pipe_at_once(args->length, plan.piece),
                       SPEC_PIPE_MOST);
    }
    p->args = *args;
    memcpy(p->remote_key.bytes, args->key, args->key_len);
    p->args.key = p->remote_key.bytes;
    if (!prepare(p)) {
        end(p);
        mca_pml_spec_fall_back(args);
        return;
    }
    p->args.ended = piece_ended;
    p->args.pipe = p;
    p->args.local_key = p->key;
    if (has_gaps(args)) {
        p->began = spec_now();
        p->peer = mca_pml_spec_transfer_peer(args);
        mca_pml_spec_comm_retain(
            p->peer->comm); /* the request may be gone when the last piece has ended */
    }
    drive(p);
}
