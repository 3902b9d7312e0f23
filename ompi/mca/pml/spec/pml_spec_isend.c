/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI's send calls. */
#include "pml_spec_proto.h"
#include "pml_spec_request.h"

static mca_pml_spec_send_request_t *request_new(const void *buf, size_t count,
                                                ompi_datatype_t *dtype, int dst, int tag,
                                                mca_pml_base_send_mode_t mode,
                                                ompi_communicator_t *comm,
                                                mca_pml_spec_peer_t *peer, bool persistent)
{
    mca_pml_spec_send_request_t *sendreq =
        (mca_pml_spec_send_request_t *) mca_pml_spec_get(&mca_pml_base_send_requests);
    if (OPAL_UNLIKELY(NULL == sendreq)) {
        return NULL;
    }
    sendreq->peer = peer;
    sendreq->req_send.req_base.req_proc = peer->proc;
    MCA_PML_BASE_SEND_REQUEST_INIT(&sendreq->req_send, buf, count, dtype, dst, tag, comm, mode,
                                   persistent, 0);
    return sendreq;
}

/* A small message from one block of memory, in a mode that asks for nothing special: sent without
 * a request. False: it needs one; *seq is its number if *numbered. */
static inline bool send_directly(mca_pml_spec_peer_t *peer, const void *buf, size_t count,
                                 const ompi_datatype_t *dtype, int tag,
                                 mca_pml_base_send_mode_t mode, uint32_t *seq, bool *numbered)
{
    const size_t length = count * dtype->super.size;
    *numbered = false;
    if (length > mca_pml_spec.copy_limit || MCA_PML_BASE_SEND_SYNCHRONOUS == mode
        || MCA_PML_BASE_SEND_BUFFERED == mode
        || (length > 0 && !mca_pml_spec_is_flat(dtype, count))) {
        return false;
    }
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(peer);
    if (OPAL_UNLIKELY(NULL == endpoint) || length > peer->eager_limit) {
        return false;
    }
    if (OPAL_UNLIKELY(peer->unnoticed_n > 0)) {
        mca_pml_spec_rtr_notice(peer);
    }
    spec_ctl_t *ctl;
    spec_rtr_fate_t fate = SPEC_RTR_KEPT;
    mca_pml_spec_lock(&peer->send_lock);
    *seq = spec_send_issue(&peer->send, tag, length, false, &ctl, &fate);
    mca_pml_spec_unlock(&peer->send_lock);
    if (OPAL_UNLIKELY(NULL != ctl)) {
        mca_pml_spec_rtr_drop(SPEC_ENTRY(ctl, mca_pml_spec_rtr_t, ctl), fate);
    }
    *numbered = true;
    return mca_pml_spec_eager_copy(peer, endpoint, mca_pml_spec_flat_base(buf, dtype), length, tag,
                                   *seq);
}

/* A message that send_directly() numbered and found no room for. */
static void send_later(mca_pml_spec_send_request_t *sendreq, uint32_t seq)
{
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    MCA_PML_BASE_SEND_START(&sendreq->req_send);
    base->req_free_called = false;
    sendreq->life = 0;
    sendreq->status = OMPI_SUCCESS;
    sendreq->left = (int64_t) sendreq->req_send.req_bytes_packed;
    sendreq->is_flat = true;
    sendreq->flat = mca_pml_spec_flat_base(base->req_addr, base->req_datatype);
    sendreq->seq = seq;
    mca_pml_spec_send_begin(sendreq, NULL);
}

int mca_pml_spec_isend_init(const void *buf, size_t count, ompi_datatype_t *dtype, int dst, int tag,
                            mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                            ompi_request_t **request)
{
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(mca_pml_spec_comm_of(comm), dst);
    mca_pml_spec_send_request_t *sendreq =
        NULL == peer ? NULL : request_new(buf, count, dtype, dst, tag, mode, comm, peer, true);
    if (NULL == sendreq) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    /* Like one that has run and is complete: start() can use it. */
    sendreq->life = MCA_PML_SPEC_DONE;
    sendreq->req_send.req_base.req_pml_complete = true;
    *request = &sendreq->req_send.req_base.req_ompi;
    return OMPI_SUCCESS;
}

int mca_pml_spec_isend(const void *buf, size_t count, ompi_datatype_t *dtype, int dst, int tag,
                       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                       ompi_request_t **request)
{
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(mca_pml_spec_comm_of(comm), dst);
    uint32_t seq;
    bool numbered;
    if (OPAL_UNLIKELY(NULL == peer)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (send_directly(peer, buf, count, dtype, tag, mode, &seq, &numbered)) {
        *request = &ompi_request_empty;
        return OMPI_SUCCESS;
    }
    mca_pml_spec_send_request_t *sendreq =
        request_new(buf, count, dtype, dst, tag, mode, comm, peer, false);
    if (OPAL_UNLIKELY(NULL == sendreq)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *request = &sendreq->req_send.req_base.req_ompi;
    if (OPAL_UNLIKELY(numbered)) {
        send_later(sendreq, seq);
        return OMPI_SUCCESS;
    }
    int rc = mca_pml_spec_send_start(sendreq);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        sendreq->life = MCA_PML_SPEC_DONE;
        sendreq->req_send.req_base.req_ompi.req_complete = REQUEST_COMPLETED;
        ompi_request_free(request);
    }
    return rc;
}

int mca_pml_spec_send(const void *buf, size_t count, ompi_datatype_t *dtype, int dst, int tag,
                      mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(mca_pml_spec_comm_of(comm), dst);
    ompi_request_t *request;
    uint32_t seq;
    bool numbered;
    if (OPAL_UNLIKELY(NULL == peer)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (send_directly(peer, buf, count, dtype, tag, mode, &seq, &numbered)) {
        return OMPI_SUCCESS;
    }
    mca_pml_spec_send_request_t *sendreq =
        request_new(buf, count, dtype, dst, tag, mode, comm, peer, false);
    if (OPAL_UNLIKELY(NULL == sendreq)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    request = &sendreq->req_send.req_base.req_ompi;
    int rc = OMPI_SUCCESS;
    if (OPAL_UNLIKELY(numbered)) {
        send_later(sendreq, seq);
    } else {
        rc = mca_pml_spec_send_start(sendreq);
        if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
            sendreq->life = MCA_PML_SPEC_DONE;
            request->req_complete = REQUEST_COMPLETED;
        }
    }
    if (OMPI_SUCCESS == rc) {
        ompi_request_wait_completion(request);
        rc = request->req_status.MPI_ERROR;
    }
    ompi_request_free(&request);
    return rc;
}
