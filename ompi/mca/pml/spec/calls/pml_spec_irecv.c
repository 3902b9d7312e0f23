/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI's receive calls. */
#include "pml_spec_calls.h"

#include "../dispatch/pml_spec_arrive.h"
#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_device.h"
#include "../objects/pml_spec_wait.h"
#include "../services/pml_spec_pin.h"

static int request_new(void *buf, size_t count, ompi_datatype_t *dtype, int src, int tag,
                       ompi_communicator_t *comm, bool persistent,
                       mca_pml_spec_recv_request_t **fresh)
{
    mca_pml_spec_recv_request_t *recvreq =
        (mca_pml_spec_recv_request_t *) mca_pml_spec_get(&mca_pml_base_recv_requests);
    if (OPAL_UNLIKELY(NULL == recvreq)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    recvreq->on_device = mca_pml_spec_is_device(buf, dtype, count);
    MCA_PML_BASE_RECV_REQUEST_INIT(&recvreq->req_recv, buf, count, dtype, src, tag, comm,
                                   persistent);
    *fresh = recvreq;
    return OMPI_SUCCESS;
}

/* Wait for a receive, hand out its status and free it. */
static SPEC_HOT int finish(mca_pml_spec_recv_request_t *recvreq, ompi_status_public_t *status)
{
    ompi_request_t *request = &recvreq->req_recv.req_base.req_ompi;
    mca_pml_spec_wait(request);
    if (MPI_STATUS_IGNORE != status) {
        OMPI_COPY_STATUS(status, request->req_status, false);
    }
    int rc = request->req_status.MPI_ERROR;
    mca_pml_spec_recv_release(recvreq);
    return rc;
}

int mca_pml_spec_irecv_init(void *buf, size_t count, ompi_datatype_t *dtype, int src, int tag,
                            ompi_communicator_t *comm, ompi_request_t **request)
{
    mca_pml_spec_recv_request_t *recvreq;
    int rc = request_new(buf, count, dtype, src, tag, comm, true, &recvreq);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    mca_pml_spec_peer_t *peer =
        OMPI_ANY_SOURCE == src ? NULL : mca_pml_spec_peer(mca_pml_spec_comm_of(comm), src);
    if (NULL != peer && !recvreq->on_device && mca_pml_spec_is_flat(dtype, count)) {
        recvreq->pin = mca_pml_spec_pin_new(
            peer, mca_pml_spec_flat_base(buf, dtype), count * dtype->super.size,
            MCA_BTL_REG_FLAG_LOCAL_WRITE | MCA_BTL_REG_FLAG_REMOTE_WRITE);
    }
    recvreq->life = SPEC_LIFE_DONE;
    recvreq->req_recv.req_base.req_pml_complete = true;
    *request = &recvreq->req_recv.req_base.req_ompi;
    return OMPI_SUCCESS;
}

/* A receive that has begun. One that never started is freed as if it were complete. */
static inline __attribute__((always_inline)) int begin(void *buf, size_t count,
                                                       ompi_datatype_t *dtype, int src, int tag,
                                                       ompi_communicator_t *comm, bool blocking,
                                                       mca_pml_spec_recv_request_t **recvreq)
{
    int rc = request_new(buf, count, dtype, src, tag, comm, false, recvreq);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    rc = mca_pml_spec_recv_start(*recvreq, blocking);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        ompi_request_t *request = &(*recvreq)->req_recv.req_base.req_ompi;
        mca_pml_spec_agent_unwatch(&(*recvreq)->life);
        request->req_complete = REQUEST_COMPLETED;
        ompi_request_free(&request);
    }
    return rc;
}

SPEC_HOT int mca_pml_spec_irecv(void *buf, size_t count, ompi_datatype_t *dtype, int src, int tag,
                                ompi_communicator_t *comm, ompi_request_t **request)
{
    mca_pml_spec_recv_request_t *recvreq;
    const int rc = begin(buf, count, dtype, src, tag, comm, false, &recvreq);
    if (OPAL_LIKELY(OMPI_SUCCESS == rc)) {
        *request = &recvreq->req_recv.req_base.req_ompi;
    }
    return rc;
}

SPEC_HOT int mca_pml_spec_recv(void *buf, size_t count, ompi_datatype_t *dtype, int src, int tag,
                               ompi_communicator_t *comm, ompi_status_public_t *status)
{
    mca_pml_spec_recv_request_t *recvreq;
    const int rc = begin(buf, count, dtype, src, tag, comm, true, &recvreq);
    return OPAL_LIKELY(OMPI_SUCCESS == rc) ? finish(recvreq, status) : rc;
}

/* A request for the message that a matched probe took out of the queue. */
static int receive_probed(void *buf, size_t count, ompi_datatype_t *dtype, ompi_message_t **message,
                          bool waits, mca_pml_spec_recv_request_t **recvreq)
{
    mca_pml_spec_frag_t *frag = (*message)->req_ptr;
    ompi_communicator_t *comm = (*message)->comm;
    int rc = request_new(buf, count, dtype, (*message)->peer, mca_pml_spec_frag_hdr(frag)->tag,
                         comm, false, recvreq);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    ompi_message_return(*message);
    *message = MPI_MESSAGE_NULL;
    OBJ_RELEASE(comm); /* the probe's; the request has its own */
    mca_pml_spec_recv_reset(*recvreq);
    (*recvreq)->blocks = waits;
    (*recvreq)->starts = true;
    mca_pml_spec_agent_watch(&(*recvreq)->life, waits, (*recvreq)->capacity,
                             (*recvreq)->req_recv.req_base.req_tag);
    mca_pml_spec_deliver_frag(*recvreq, frag);
    return OMPI_SUCCESS;
}

int mca_pml_spec_imrecv(void *buf, size_t count, ompi_datatype_t *dtype, ompi_message_t **message,
                        ompi_request_t **request)
{
    mca_pml_spec_recv_request_t *recvreq;
    int rc = receive_probed(buf, count, dtype, message, false, &recvreq);
    if (OMPI_SUCCESS == rc) {
        *request = &recvreq->req_recv.req_base.req_ompi;
    }
    return rc;
}

int mca_pml_spec_mrecv(void *buf, size_t count, ompi_datatype_t *dtype, ompi_message_t **message,
                       ompi_status_public_t *status)
{
    mca_pml_spec_recv_request_t *recvreq;
    int rc = receive_probed(buf, count, dtype, message, true, &recvreq);
    return OMPI_SUCCESS == rc ? finish(recvreq, status) : rc;
}
