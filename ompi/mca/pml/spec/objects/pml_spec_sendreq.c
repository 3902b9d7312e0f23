/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The life of a send request, whatever its protocol. */
#include "pml_spec_cico.h"
#include "pml_spec_complete.h"
#include "pml_spec_request.h"
#include "pml_spec_stage.h"
#include "pml_spec_upward.h"

#include "opal/include/spec/class.h"

static inline __attribute__((always_inline)) void send_return(mca_pml_spec_send_request_t *sendreq)
{
    if (OPAL_UNLIKELY(NULL != sendreq->pin)) {
        mca_pml_spec_upward.unpin(sendreq->pin);
        sendreq->pin = NULL;
    }
    MCA_PML_BASE_SEND_REQUEST_FINI(&sendreq->req_send);
    mca_pml_spec_put_back(&mca_pml_base_send_requests, &sendreq->req_send.req_base.req_ompi.super);
}

static void uncount(mca_pml_spec_send_request_t *sendreq)
{
    if (mca_pml_spec_uncounts(&sendreq->announced)) {
        (void) mca_pml_spec_add32(&sendreq->peer->announced, -1);
        (void) mca_pml_spec_add32(&mca_pml_spec.announced, -1);
    }
}

void mca_pml_spec_send_lost(mca_pml_spec_send_request_t *sendreq)
{
    if (NULL != sendreq->cico) {
        mca_pml_spec_cico_stop(sendreq->cico);
    }
    mca_pml_spec_send_leave(sendreq);
}

void mca_pml_spec_send_tell(mca_pml_spec_send_request_t *sendreq)
{
    uncount(sendreq); /* it may never be done */
    if (mca_pml_spec_tell_lost(&sendreq->req_send.req_base.req_ompi, &sendreq->life,
                               !sendreq->told)) {
        send_return(sendreq);
    }
}

void mca_pml_spec_send_pack(mca_pml_spec_send_request_t *sendreq, char *to)
{
    size_t length = sendreq->req_send.req_bytes_packed;
    struct iovec iov = {.iov_base = to, .iov_len = length};
    uint32_t iovs = 1;
    opal_convertor_pack(&sendreq->req_send.req_base.req_convertor, &iov, &iovs, &length);
}

void mca_pml_spec_send_packed(mca_pml_spec_send_request_t *sendreq, char *flat)
{
    opal_convertor_copy_and_prepare_for_send(
        sendreq->peer->proc->super.proc_convertor, &ompi_mpi_packed.dt.super,
        sendreq->req_send.req_bytes_packed, flat, 0, &sendreq->req_send.req_base.req_convertor);
    sendreq->is_flat = true;
    sendreq->flat = flat;
}

void mca_pml_spec_send_unpacked(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    opal_convertor_copy_and_prepare_for_send(
        sendreq->peer->proc->super.proc_convertor, &base->req_datatype->super, base->req_count,
        base->req_addr, mca_pml_spec_convertor_flags(sendreq->on_device), &base->req_convertor);
}

static int send_free(ompi_request_t **request)
{
    mca_pml_spec_send_request_t *sendreq = MCA_PML_SPEC_SENDREQ(*request);
    *request = MPI_REQUEST_NULL;
    mca_pml_spec_await_signals();
    sendreq->req_send.req_base.req_free_called = true;
    if (mca_pml_spec_let_go(&sendreq->req_send.req_base.req_ompi, &sendreq->life)) {
        send_return(sendreq);
    }
    return OMPI_SUCCESS;
}

static int send_cancel(ompi_request_t *request, int flag)
{
    mca_pml_spec_send_request_t *sendreq = MCA_PML_SPEC_SENDREQ(request);
    const mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    bool ends = false;
    (void) flag;
    /* A send cannot be taken back once its number is given; MPI allows that it then just completes.
     * To a process that is lost, or over a revoked communicator, it may never do so; the caller has put the reason into the
     * status. But what a living receiver has a buffer for is delivered: the lock keeps its CTS from coming just now. */
    if (OMPI_REQUEST_ACTIVE == request->req_state
        && mca_pml_spec_is_lost(base->req_comm, base->req_peer, base->req_tag)) {
        mca_pml_spec_lock(&mca_pml_spec.lock);
        ends = (0 == sendreq->r || mca_pml_spec_is_gone(base->req_comm, base->req_peer))
               && spec_life_lose(&sendreq->life);
        mca_pml_spec_unlock(&mca_pml_spec.lock);
    }
    if (ends) {
        mca_pml_spec_send_lost(sendreq);
    }
    return OMPI_SUCCESS;
}

static void send_construct(mca_pml_spec_send_request_t *sendreq)
{
    ompi_request_t *request = &sendreq->req_send.req_base.req_ompi;
    sendreq->req_send.req_base.req_type = MCA_PML_REQUEST_SEND;
    request->req_start = mca_pml_spec_upward.start;
    request->req_free = send_free;
    request->req_cancel = send_cancel;
    spec_list_init(&sendreq->ranges);
    OBJ_CONSTRUCT(&sendreq->range_lock, opal_mutex_t);
}

static void send_destruct(mca_pml_spec_send_request_t *sendreq)
{
    OBJ_DESTRUCT(&sendreq->range_lock);
}

SPEC_CLASS(mca_pml_spec_send_request_t, mca_pml_base_send_request_t, send_construct, send_destruct);
SPEC_CLASS(mca_pml_spec_range_t, opal_free_list_item_t, NULL, NULL);

/* The runtime may know better why it failed. */
static int error_of(const mca_pml_spec_send_request_t *sendreq)
{
    const mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    const int known = sendreq->status < 0 ? mca_pml_spec_probe_error(
                                                base->req_comm, sendreq->peer->rank, base->req_tag)
                                          : MPI_SUCCESS;
    return MPI_SUCCESS != known ? known : mca_pml_spec_mpi_error(sendreq->status);
}

SPEC_HOT void mca_pml_spec_send_done(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    const bool buffered = MCA_PML_BASE_SEND_BUFFERED == sendreq->req_send.req_send_mode;

    sendreq->r = 0;
    if (OPAL_UNLIKELY(NULL != sendreq->cico)) { /* its message went another way, or its receiver wants none of it */
        mca_pml_spec_cico_drop(&sendreq->cico);
    }
    uncount(sendreq);
    mca_pml_spec_handle_close(&mca_pml_spec.send_handles, &sendreq->handle);
    if (NULL != sendreq->key) {
        mca_bml_base_deregister_mem(sendreq->key_btl, sendreq->key);
        sendreq->key = NULL;
    }
    if (OPAL_UNLIKELY(sendreq->has_ahead)) {
        mca_pml_spec_ahead_drop(sendreq);
    }
    sendreq->staged = false;
    if (OPAL_UNLIKELY(NULL != sendreq->packed)) {
        mca_pml_spec_stage_unpack(sendreq);
    }
    if (buffered && sendreq->req_send.req_addr != base->req_addr) {
        mca_pml_base_bsend_request_fini(&base->req_ompi);
    }
    const bool told = sendreq->told || (MCA_PML_SPEC_SEEN(sendreq->life) & SPEC_LIFE_LOST);
    if (!told) {
        mca_pml_spec_send_set_status(sendreq, error_of(sendreq));
    }
    base->req_pml_complete = true;
    if (OPAL_UNLIKELY(sendreq->status < 0)) {
        mca_pml_spec_failed_freed("send to", base, &sendreq->life, sendreq->peer, sendreq->status);
    }
    if (mca_pml_spec_end(&base->req_ompi, &sendreq->life, told)) {
        send_return(sendreq);
    }
}

void mca_pml_spec_send_unreachable(mca_pml_spec_send_request_t *sendreq)
{
    sendreq->status = OMPI_ERR_UNREACH;
    mca_pml_spec_send_done(sendreq);
}

void mca_pml_spec_send_account(mca_pml_spec_send_request_t *sendreq, uint64_t bytes, int status)
{
    if (OPAL_UNLIKELY(status < 0)) {
        sendreq->status = status;
    }
    if (0 == mca_pml_spec_add64(&sendreq->left, -(int64_t) bytes)) {
        mca_pml_spec_send_done(sendreq);
    }
}

mca_pml_spec_send_request_t *mca_pml_spec_send_claim(uint64_t handle, const char *what,
                                                     const void *packet,
                                                     mca_pml_spec_send_take_t take)
{
    const char *wrong = "no send has this handle";
    mca_pml_spec_lock(&mca_pml_spec.lock);
    mca_pml_spec_send_request_t *sendreq = spec_handle_find(&mca_pml_spec.send_handles, handle);
    if (OPAL_LIKELY(NULL != sendreq)) {
        (void) MCA_PML_SPEC_SEEN(sendreq->handle); /* mca_pml_spec_handle_tell */
        wrong = take(sendreq, packet);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (OPAL_LIKELY(NULL == wrong)) {
        return sendreq;
    }
    mca_pml_spec_refuse(what, wrong);
    return NULL;
}
