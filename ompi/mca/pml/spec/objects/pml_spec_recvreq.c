/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The life of a receive request, whatever its protocol. */
#include "pml_spec_cico.h"
#include "pml_spec_complete.h"
#include "pml_spec_device.h"
#include "pml_spec_explain.h"
#include "pml_spec_request.h"
#include "pml_spec_stage.h"
#include "pml_spec_upward.h"

#include "opal/include/spec/class.h"

static inline __attribute__((always_inline)) void recv_return(mca_pml_spec_recv_request_t *recvreq)
{
    if (OPAL_UNLIKELY(NULL != recvreq->pin)) {
        mca_pml_spec_upward.unpin(recvreq->pin);
        recvreq->pin = NULL;
    }
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    OMPI_REQUEST_FINI(&base->req_ompi);
    OBJ_RELEASE(base->req_comm);
    OMPI_DATATYPE_RELEASE(base->req_datatype);
    mca_pml_spec_recv_unprepare(recvreq);
    mca_pml_spec_put_back(&mca_pml_base_recv_requests, &recvreq->req_recv.req_base.req_ompi.super);
}

/* Its end comes after its owner has freed it. */
static __attribute__((noinline)) void return_late(mca_pml_spec_recv_request_t *recvreq)
{
    recv_return(recvreq);
}

/* Its owner frees it before its end. */
static __attribute__((noinline)) void release_early(mca_pml_spec_recv_request_t *recvreq)
{
    recvreq->req_recv.req_base.req_free_called = true;
    if (mca_pml_spec_let_go(&recvreq->req_recv.req_base.req_ompi, &recvreq->life)) {
        recv_return(recvreq);
    }
}

SPEC_HOT void mca_pml_spec_recv_release(mca_pml_spec_recv_request_t *recvreq)
{
    if (mca_pml_spec_is_alone(&recvreq->req_recv.req_base.req_ompi, &recvreq->life)) {
        recv_return(recvreq);
    } else {
        release_early(recvreq);
    }
}

/* A receive that is being cancelled and then freed has nobody left to tell whether a message took it
 * after all. So that this does not happen to a message which the program asks for next, freeing waits for the end of
 * the cancel: as long as a peer that is in MPI takes to answer, and not at all for one that owes an older answer,
 * since that computes. */
#define CANCEL_NS UINT64_C(1000000)

static bool owes_older_answer(mca_pml_spec_comm_t *comm, mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_lock(&comm->slot->lock);
    const bool owes = spec_recv_awaits_several(&peer->recv);
    mca_pml_spec_unlock(&comm->slot->lock);
    return owes;
}

static void await_cancel(mca_pml_spec_recv_request_t *recvreq)
{
    mca_pml_spec_peer_t *peer = MCA_PML_SPEC_SEEN(recvreq->peer);
    if (NULL == peer || owes_older_answer(peer->comm, peer)) {
        return;
    }
    const uint64_t end = spec_now() + CANCEL_NS;
    while (!(MCA_PML_SPEC_SEEN(recvreq->life) & SPEC_LIFE_DONE) && spec_now() < end) {
        opal_progress();
    }
}

static __attribute__((noinline)) void free_early(mca_pml_spec_recv_request_t *recvreq)
{
    if (!(MCA_PML_SPEC_SEEN(recvreq->life) & SPEC_LIFE_DONE) && recvreq->posted.cancel_wanted) {
        await_cancel(recvreq);
    }
    release_early(recvreq);
}

static SPEC_HOT int recv_free(ompi_request_t **request)
{
    mca_pml_spec_recv_request_t *recvreq = MCA_PML_SPEC_RECVREQ(*request);
    *request = MPI_REQUEST_NULL;
    mca_pml_spec_await_signals();
    if (mca_pml_spec_is_alone(&recvreq->req_recv.req_base.req_ompi, &recvreq->life)) {
        recv_return(recvreq);
    } else {
        free_early(recvreq);
    }
    return OMPI_SUCCESS;
}

static void recv_construct(mca_pml_spec_recv_request_t *recvreq)
{
    ompi_request_t *request = &recvreq->req_recv.req_base.req_ompi;
    recvreq->req_recv.req_base.req_type = MCA_PML_REQUEST_RECV;
    request->req_start = mca_pml_spec_upward.start;
    request->req_free = recv_free;
    request->req_cancel = mca_pml_spec_upward.cancel;
    spec_list_init(&recvreq->early);
    recvreq->converts = false;
    OBJ_CONSTRUCT(&recvreq->convert_lock, opal_mutex_t);
}

static void recv_destruct(mca_pml_spec_recv_request_t *recvreq)
{
    OBJ_DESTRUCT(&recvreq->convert_lock);
}

SPEC_CLASS(mca_pml_spec_recv_request_t, mca_pml_base_recv_request_t, recv_construct, recv_destruct);

void mca_pml_spec_recv_enter(mca_pml_spec_recv_request_t *recvreq, mca_pml_spec_recv_stage_t stage)
{
    static const char *const names[] = {"posted", "offered", "matched", "fetching"};
    MCA_PML_SPEC_VERBOSE(50, "receive %p: %s -> %s", (void *) recvreq, names[recvreq->stage],
                         names[stage]);
    __atomic_store_n(&recvreq->stage, stage, __ATOMIC_RELEASE);
}

uint64_t mca_pml_spec_handle_open(spec_handle_table_t *table, void *request, uint64_t *handle)
{
    mca_pml_spec_lock(&mca_pml_spec.lock);
    if (0 == *handle) {
        *handle = spec_handle_open(table, request);
    }
    const uint64_t opened = *handle;
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (OPAL_UNLIKELY(0 == opened)) {
        mca_pml_spec_no_memory("the handle of a request", sizeof(spec_handle_slot_t));
    }
    return opened;
}

void mca_pml_spec_handle_end(spec_handle_table_t *table, uint64_t *handle)
{
    mca_pml_spec_lock(&mca_pml_spec.lock);
    spec_handle_close(table, MCA_PML_SPEC_GLANCE(*handle));
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    __atomic_store_n(handle, 0, __ATOMIC_RELAXED);
}

/* NULL, or what is wrong with a packet for this receive; if nothing is, its bytes are taken. */
static const char *take(mca_pml_spec_recv_request_t *recvreq, uint64_t offset, uint64_t bytes)
{
    if (offset > recvreq->capacity || bytes > recvreq->capacity - offset) {
        return "its data lies beyond the receive's buffer";
    }
    return bytes > 0 && mca_pml_spec_take_owed(&recvreq->owed, bytes)
               ? NULL
               : "it tells of bytes that were not asked for";
}

mca_pml_spec_recv_request_t *mca_pml_spec_recv_claim(uint64_t handle, const char *what,
                                                     uint64_t offset, uint64_t bytes)
{
    const char *wrong = "no receive has this handle";
    bool late = false;
    mca_pml_spec_lock(&mca_pml_spec.lock);
    mca_pml_spec_recv_request_t *recvreq = spec_handle_find(&mca_pml_spec.recv_handles, handle);
    if (OPAL_LIKELY(NULL != recvreq)) {
        late =
            MCA_PML_SPEC_SEEN(recvreq->life) & SPEC_LIFE_LOST; /* the program has its memory back */
        wrong =
            late ? "its receive has ended: the process was given up" : take(recvreq, offset, bytes);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (OPAL_LIKELY(NULL == wrong)) {
        return recvreq;
    }
    (late ? mca_pml_spec_refuse_late : mca_pml_spec_refuse)(what, wrong);
    return NULL;
}

void mca_pml_spec_recv_unpack(mca_pml_spec_recv_request_t *recvreq,
                              const mca_pml_spec_packet_t *packet, size_t skip, size_t offset,
                              size_t length)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    opal_convertor_t *convertor = &base->req_convertor;

    if (!recvreq->converts) {
        opal_convertor_copy_and_prepare_for_recv(
            recvreq->peer->proc->super.proc_convertor, &base->req_datatype->super, base->req_count,
            base->req_addr, mca_pml_spec_convertor_flags(recvreq->on_device), convertor);
        if (recvreq->on_device) {
            mca_pml_spec_device_convertor(base);
        }
        recvreq->converts = true;
    }
    opal_convertor_set_position(convertor, &offset);
    for (size_t i = 0; i < packet->nseg && length > 0; ++i) {
        size_t len = packet->seg[i].seg_len;
        if (skip >= len) {
            skip -= len;
            continue;
        }
        size_t n = len - skip < length ? len - skip : length;
        struct iovec iov = {.iov_base = (char *) packet->seg[i].seg_addr.pval + skip, .iov_len = n};
        uint32_t iovs = 1;
        size_t max = n;
        opal_convertor_unpack(convertor, &iov, &iovs, &max);
        length -= n;
        skip = 0;
    }
}

/* A sender whose communicator was revoked has nothing better to tell than that the data will not come. */
static __attribute__((noinline)) int error_of(const mca_pml_spec_recv_request_t *recvreq)
{
    const mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    const int known = mca_pml_spec_probe_error(
        base->req_comm, NULL == recvreq->peer ? base->req_peer : recvreq->peer->rank,
        base->req_tag);
    return MPI_SUCCESS != known ? known : mca_pml_spec_mpi_error(recvreq->status);
}

static void set_result(mca_pml_spec_recv_request_t *recvreq)
{
    ompi_status_public_t *status = &recvreq->req_recv.req_base.req_ompi.req_status;
    const size_t length = recvreq->req_recv.req_bytes_packed;
    status->_ucount = length;
    status->MPI_ERROR = recvreq->status < 0          ? error_of(recvreq)
                        : length > recvreq->capacity ? MPI_ERR_TRUNCATE
                                                     : MPI_SUCCESS;
}

mca_btl_base_registration_handle_t *mca_pml_spec_recv_register(mca_pml_spec_recv_request_t *recvreq,
                                                               mca_bml_base_btl_t *bml_btl,
                                                               uint64_t offset, uint64_t length)
{
    mca_btl_base_registration_handle_t *key = NULL;
    if (recvreq->keys < MCA_PML_SPEC_STRIPES) {
        mca_bml_base_register_mem(bml_btl, recvreq->flat + offset, length,
                                  MCA_BTL_REG_FLAG_LOCAL_WRITE | MCA_BTL_REG_FLAG_REMOTE_WRITE,
                                  &key);
    }
    if (NULL != key) {
        recvreq->key[recvreq->keys].handle = key;
        recvreq->key[recvreq->keys++].btl = bml_btl;
    }
    return key;
}

static __attribute__((noinline)) void uncount_now(mca_pml_spec_recv_request_t *recvreq)
{
    (void) mca_pml_spec_add32(&recvreq->offered_to->offers, -1);
    (void) mca_pml_spec_add32(&mca_pml_spec.offers, -1);
}

static void uncount(mca_pml_spec_recv_request_t *recvreq)
{
    if (mca_pml_spec_uncounts(&recvreq->offered)) {
        uncount_now(recvreq);
    }
}

__attribute__((noinline)) void mca_pml_spec_recv_drop_keys(mca_pml_spec_recv_request_t *recvreq)
{
    while (recvreq->keys > 0) {
        --recvreq->keys;
        mca_bml_base_deregister_mem(recvreq->key[recvreq->keys].btl,
                                    recvreq->key[recvreq->keys].handle);
    }
}

SPEC_HOT void mca_pml_spec_recv_done(mca_pml_spec_recv_request_t *recvreq)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;

    uncount(recvreq);
    if (OPAL_UNLIKELY(NULL != recvreq->cico)) {
        mca_pml_spec_cico_drop(&recvreq->cico);
    }
    mca_pml_spec_handle_close(&mca_pml_spec.recv_handles, &recvreq->handle);
    if (OPAL_UNLIKELY(recvreq->keys > 0)) {
        mca_pml_spec_recv_drop_keys(recvreq);
    }
    if (OPAL_UNLIKELY(recvreq->staged)) {
        mca_pml_spec_stage_deliver(recvreq, recvreq->status < 0 ? 0 : recvreq->req_recv.req_bytes_packed);
    }
    const bool told = MCA_PML_SPEC_SEEN(recvreq->life) & SPEC_LIFE_LOST;
    if (OPAL_UNLIKELY(told)) {
        recvreq->status = OMPI_SUCCESS;
    } else {
        set_result(recvreq);
    }
    base->req_pml_complete = true;
    if (OPAL_UNLIKELY(recvreq->status < 0)) {
        mca_pml_spec_failed_freed("receive from", base, &recvreq->life, recvreq->peer,
                                  recvreq->status);
    }
    if (mca_pml_spec_end(&base->req_ompi, &recvreq->life, told)) {
        return_late(recvreq);
    }
}

void mca_pml_spec_recv_fail(mca_pml_spec_recv_request_t *recvreq, int status)
{
    recvreq->status = status;
    recvreq->req_recv.req_bytes_packed = 0;
    mca_pml_spec_recv_unmatched(recvreq);
}

void mca_pml_spec_recv_give_up(mca_pml_spec_recv_request_t *recvreq, uint64_t bytes)
{
    recvreq->req_recv.req_bytes_packed = 0;
    mca_pml_spec_recv_account(recvreq, bytes, OMPI_ERR_UNREACH);
}

void mca_pml_spec_recv_unmatched(mca_pml_spec_recv_request_t *recvreq)
{
    int64_t claimed = 0;
    if (0 != MCA_PML_SPEC_GLANCE(recvreq->handle)) { /* it may have been offered, as a whole */
        mca_pml_spec_lock(&mca_pml_spec.lock);
        claimed = (int64_t) recvreq->capacity - recvreq->owed;
        recvreq->owed = 0;
        mca_pml_spec_unlock(&mca_pml_spec.lock);
    }
    if (0 == mca_pml_spec_add64(&recvreq->missing, claimed)) {
        mca_pml_spec_recv_done(recvreq);
    }
}

void mca_pml_spec_recv_lost(mca_pml_spec_recv_request_t *recvreq)
{
    if (NULL != recvreq->cico) {
        mca_pml_spec_cico_stop(recvreq->cico);
    }
    mca_pml_spec_recv_leave(recvreq);
}

void mca_pml_spec_recv_tell(mca_pml_spec_recv_request_t *recvreq)
{
    uncount(recvreq); /* it may never be done */
    if (mca_pml_spec_tell_lost(&recvreq->req_recv.req_base.req_ompi, &recvreq->life, true)) {
        return_late(recvreq);
    }
}

void mca_pml_spec_recv_account(mca_pml_spec_recv_request_t *recvreq, uint64_t bytes, int status)
{
    if (OPAL_UNLIKELY(status < 0)) {
        recvreq->status = status;
    }
    if (0 == mca_pml_spec_add64(&recvreq->missing, -(int64_t) bytes)) {
        mca_pml_spec_recv_done(recvreq);
    }
}
