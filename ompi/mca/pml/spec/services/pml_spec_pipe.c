/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Moves a range of a staged message in pieces, some at a time. */
#include "pml_spec_pipe.h"

#include "../objects/pml_spec_device.h"
#include "../objects/pml_spec_stage.h"

#include "opal/include/spec/class.h"

SPEC_CLASS(mca_pml_spec_pipe_t, opal_free_list_item_t, NULL, NULL);

/* Is each piece copied to its slot first? */
static bool is_copied(const mca_pml_spec_transfer_args_t *args)
{
    return args->is_put && ((const mca_pml_spec_send_request_t *) args->request)->staged;
}

static void end(mca_pml_spec_pipe_t *p)
{
    if (NULL != p->key) {
        mca_bml_base_deregister_mem(p->args.btl, p->key);
    }
    if (NULL != p->memory) {
        mca_pml_spec_stage_put(p->memory, p->size);
    }
    const bool pins = p->pins, is_put = p->args.is_put;
    void *request = p->args.request;
    mca_pml_spec_put_back(&mca_pml_spec.pipes, &p->super);
    if (pins && is_put) {
        mca_pml_spec_send_account(request, 1, OMPI_SUCCESS);
    } else if (pins) {
        mca_pml_spec_recv_account(request, 1, OMPI_SUCCESS);
    }
}

/* Until the registration is gone the request keeps the memory that it is of. */
static void pin_request(mca_pml_spec_pipe_t *p)
{
    p->pins = true;
    (void) mca_pml_spec_add64(p->args.is_put
                                  ? &((mca_pml_spec_send_request_t *) p->args.request)->left
                                  : &((mca_pml_spec_recv_request_t *) p->args.request)->missing,
                              1);
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
    args.is_timed &= 0 == piece->offset; /* others wait for those before them */
    args.slot = piece->slot;
    spec_pipe_brought(&p->pipe, piece->slot);
    if (OPAL_LIKELY(is_there)) {
        mca_pml_spec_transfer_start(&args);
        return;
    }
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
        if (NULL != p->memory) {
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
    if (is_copied(args)) {
        const uint64_t pieces = (args->length + p->pipe.piece - 1) / p->pipe.piece;
        p->size = p->pipe.piece * (pieces < SPEC_PIPE_MOST ? pieces : SPEC_PIPE_MOST);
        p->memory = mca_pml_spec_stage_take(args->request, p->size);
        if (NULL == p->memory) {
            return false;
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
    if (is_copied(args)) {
        spec_pipe_init(&p->pipe, args->length, plan.piece, plan.slots);
    } else {
        spec_pipe_init(&p->pipe, args->length, spec_pipe_at_once(args->length, plan.piece),
                       SPEC_PIPE_MOST);
    }
    p->args = *args;
    p->pins = false;
    memcpy(p->remote_key.bytes, args->key, args->key_len);
    p->args.key = p->remote_key.bytes;
    if (!prepare(p)) {
        end(p);
        mca_pml_spec_fall_back(args);
        return;
    }
    pin_request(p);
    p->args.ended = piece_ended;
    p->args.pipe = p;
    p->args.local_key = p->key;
    drive(p);
}
