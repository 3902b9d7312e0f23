/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI's send calls. */
#include "pml_spec_calls.h"

#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_device.h"
#include "../objects/pml_spec_explain.h"
#include "../objects/pml_spec_wait.h"
#include "../protocols/pml_spec_eager.h"
#include "../protocols/pml_spec_rtr.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_pin.h"
#include "../services/pml_spec_slots.h"

#include "opal/include/spec/promises.h"

static mca_pml_spec_send_request_t *
request_new(const void *buf, size_t count, ompi_datatype_t *dtype, int dst, int tag,
            mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, mca_pml_spec_peer_t *peer,
            bool on_device, bool persistent)
{
    mca_pml_spec_send_request_t *sendreq =
        (mca_pml_spec_send_request_t *) mca_pml_spec_get(&mca_pml_base_send_requests);
    if (OPAL_UNLIKELY(NULL == sendreq)) {
        return NULL;
    }
    sendreq->peer = peer;
    sendreq->req_send.req_base.req_proc = peer->proc;
    sendreq->on_device = on_device;
    sendreq->life = 0; /* as its last use has left it, it would be taken for one that is counted */
    MCA_PML_BASE_SEND_REQUEST_INIT(&sendreq->req_send, buf, count, dtype, dst, tag, comm, mode,
                                   persistent, mca_pml_spec_convertor_flags(on_device));
    if (OPAL_UNLIKELY(on_device)) {
        mca_pml_spec_device_convertor(&sendreq->req_send.req_base);
    }
    return sendreq;
}

/* One, reset, for a message that is copied from one block: its convertor, which it does not need, is not prepared. */
static inline mca_pml_spec_send_request_t *request_for_copy(const void *buf, size_t count,
                                                            ompi_datatype_t *dtype, int dst,
                                                            int tag, mca_pml_base_send_mode_t mode,
                                                            ompi_communicator_t *comm,
                                                            mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_send_request_t *sendreq =
        request_new(buf, 0, dtype, dst, tag, mode, comm, peer, false, false);
    if (OPAL_UNLIKELY(NULL == sendreq)) {
        return NULL;
    }
    mca_pml_spec_send_reset(sendreq); /* while it is empty: else this sets the convertor back */
    if (count > 0) {
        OMPI_DATATYPE_RETAIN(dtype);
        sendreq->req_send.req_base.req_count = count;
        sendreq->req_send.req_bytes_packed = count * dtype->super.size;
        sendreq->left = (int64_t) sendreq->req_send.req_bytes_packed;
    }
    sendreq->is_flat = true;
    return sendreq;
}

/* How far a message came without a request. */
typedef enum {
    NEEDS_REQUEST, /* nothing was done */
    NUMBERED,      /* it has its number and transport, and needs a request to hear of its end */
    GONE,          /* sent */
} direct_t;

/* What a message has then. */
typedef struct {
    uint32_t seq;
    mca_bml_base_btl_t *bml_btl;
} numbered_t;

static void mark_sent(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                      mca_btl_base_descriptor_t *des, int status)
{
    (void) btl, (void) ep, (void) status;
    volatile bool *sent = des->des_cbdata;
    opal_atomic_wmb();
    *sent = true;
}

/* Is the message small enough, one block of memory, and in a mode that asks for nothing special? */
static inline bool is_plain(size_t length, size_t most, size_t count, const ompi_datatype_t *dtype,
                            mca_pml_base_send_mode_t mode)
{
    return length <= most && MCA_PML_BASE_SEND_SYNCHRONOUS != mode
           && MCA_PML_BASE_SEND_BUFFERED != mode
           && (0 == length || mca_pml_spec_is_flat(dtype, count));
}

/* Through the transport's buffer; wait until it has left. */
static direct_t send_copied(mca_pml_spec_peer_t *peer, mca_bml_base_btl_t *bml_btl,
                            const void *data, size_t length, int32_t tag, uint32_t seq)
{
    volatile bool sent = false;
    const mca_pml_spec_sent_t how = mca_pml_spec_eager_copy(
        peer, bml_btl, data, length, tag, seq, MCA_PML_SPEC_EAGER_FLAGS | MCA_BTL_IBX_BLOCKS,
        mark_sent, (void *) (uintptr_t) &sent);
    while (MCA_PML_SPEC_UNDER_WAY == how && !sent) {
        opal_progress();
    }
    return MCA_PML_SPEC_NO_ROOM == how ? NUMBERED : GONE;
}

/* A small message from one block of memory, in a mode that asks for nothing special: sent without
 * a request if the transport's send-immediate takes it. With `wait`, also if not; it has then
 * left when this returns. `numbered` is written unless NEEDS_REQUEST. */
static inline SPEC_HOT direct_t send_directly(mca_pml_spec_peer_t *peer, const void *buf,
                                              size_t count, const ompi_datatype_t *dtype, int tag,
                                              mca_pml_base_send_mode_t mode, bool wait,
                                              numbered_t *numbered)
{
    const size_t length = count * dtype->super.size;
    const bool gathers = !wait && NULL != MCA_PML_SPEC_GLANCE(peer->polls);
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(peer);
    if (OPAL_UNLIKELY(NULL == endpoint)) {
        return NEEDS_REQUEST;
    }
    const size_t most = gathers           ? MCA_PML_SPEC_TINY
                        : peer->one_queue ? peer->eager_most
                                          : mca_pml_spec.copy_limit;
    if (!is_plain(length, most, count, dtype, mode) || !mca_pml_spec_fits_packet(peer, length)) {
        return NEEDS_REQUEST;
    }
    const bool by_slot = length > MCA_PML_SPEC_TINY && mca_pml_spec_slots_serve(peer, length)
                         && mca_pml_spec.verbose < MCA_PML_SPEC_WHY;
    if (!by_slot && length > mca_pml_spec.copy_limit) {
        return NEEDS_REQUEST;
    }
    if (gathers && spec_burst_is_on(&peer->policy.burst, mca_pml_spec_polls(peer))) {
        return NEEDS_REQUEST; /* which is complete when others have taken it along */
    }
    mca_bml_base_btl_t *bml_btl = mca_pml_spec_next_btl(&endpoint->btl_eager);
    if ((gathers && NULL == bml_btl->btl->btl_sendi)
        || (length > MCA_PML_SPEC_TINY && mca_btl_ibx_sends_in_place(bml_btl->btl, length))) {
        return NEEDS_REQUEST;
    }
    mca_pml_spec_eager_collect(peer, length, by_slot);
    if (OPAL_UNLIKELY(opal_lifo_is_empty(&mca_pml_base_send_requests.super))) {
        return NEEDS_REQUEST; /* which may be refused: MPI returns an error as long as no number is taken */
    }
    uint32_t seq;
    if (OPAL_UNLIKELY(!mca_pml_spec_small_number(peer, length, tag, &seq))) {
        return NEEDS_REQUEST;
    }
    *numbered = (numbered_t){.seq = seq, .bml_btl = bml_btl};
    const char *flat = mca_pml_spec_flat_base(buf, dtype);
    if (by_slot ? mca_pml_spec_slots_send(peer, flat, length, tag, seq)
                : mca_pml_spec_eager_now(peer, bml_btl, flat, length, tag, seq, wait)) {
        if (gathers) {
            (void) spec_policy_gathers(&peer->policy, mca_pml_spec_polls(peer), length,
                                       (uint32_t) mca_pml_spec.gather);
        }
        return GONE;
    }
    return wait ? send_copied(peer, bml_btl, flat, length, tag, seq) : NUMBERED;
}

int mca_pml_spec_isend_init(const void *buf, size_t count, ompi_datatype_t *dtype, int dst, int tag,
                            mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                            ompi_request_t **request)
{
    const bool on_device = mca_pml_spec_is_device(buf, dtype, count);
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(mca_pml_spec_comm_of(comm), dst);
    mca_pml_spec_send_request_t *sendreq =
        NULL == peer ? NULL
                     : request_new(buf, count, dtype, dst, tag, mode, comm, peer, on_device, true);
    if (NULL == sendreq) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (MCA_PML_BASE_SEND_BUFFERED != mode && !on_device && mca_pml_spec_is_flat(dtype, count)) {
        sendreq->pin =
            mca_pml_spec_pin_new(peer, mca_pml_spec_flat_base(buf, dtype),
                                 count * dtype->super.size, MCA_BTL_REG_FLAG_REMOTE_READ);
    }
    /* Like one that has run and is complete: start() can use it. */
    sendreq->life = SPEC_LIFE_DONE;
    sendreq->req_send.req_base.req_pml_complete = true;
    *request = &sendreq->req_send.req_base.req_ompi;
    return OMPI_SUCCESS;
}

/* MPI_Isend and MPI_Send up to where the caller waits or returns. *sendreq is NULL if the message went without a request, or
 * could not be started. */
static inline __attribute__((always_inline)) int begin(const void *buf, size_t count,
                                                       ompi_datatype_t *dtype, int dst, int tag,
                                                       mca_pml_base_send_mode_t mode,
                                                       ompi_communicator_t *comm, bool wait,
                                                       mca_pml_spec_send_request_t **sendreq)
{
    const bool on_device = mca_pml_spec_is_device(buf, dtype, count);
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer(mca_pml_spec_comm_of(comm), dst);
    numbered_t numbered;
    *sendreq = NULL;
    if (OPAL_UNLIKELY(NULL == peer)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    const direct_t direct = OPAL_UNLIKELY(on_device) ? NEEDS_REQUEST
                                                     : send_directly(peer, buf, count, dtype, tag,
                                                                     mode, wait, &numbered);
    if (GONE == direct) {
        return OMPI_SUCCESS;
    }
    *sendreq = NUMBERED == direct
                   ? request_for_copy(buf, count, dtype, dst, tag, mode, comm, peer)
                   : request_new(buf, count, dtype, dst, tag, mode, comm, peer, on_device, false);
    if (OPAL_UNLIKELY(NULL == *sendreq)) {
        if (NUMBERED == direct) { /* those behind it would wait for its number */
            mca_pml_spec_no_memory("the request of a send", sizeof(**sendreq));
        }
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (NUMBERED == direct) {
        mca_pml_spec_small_send(*sendreq, numbered.seq, numbered.bml_btl, wait);
        return OMPI_SUCCESS;
    }
    int rc = mca_pml_spec_send_start(*sendreq, wait && MCA_PML_BASE_SEND_BUFFERED != mode
                                                   ? MCA_PML_SPEC_BY_SEND
                                                   : MCA_PML_SPEC_BY_ISEND);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        ompi_request_t *request = &(*sendreq)->req_send.req_base.req_ompi;
        mca_pml_spec_agent_unwatch(&(*sendreq)->life);
        request->req_complete = REQUEST_COMPLETED;
        ompi_request_free(&request);
        *sendreq = NULL;
    }
    return rc;
}

SPEC_HOT int mca_pml_spec_isend(const void *buf, size_t count, ompi_datatype_t *dtype, int dst,
                                int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                                ompi_request_t **request)
{
    mca_pml_spec_send_request_t *sendreq;
    const int rc = begin(buf, count, dtype, dst, tag, mode, comm, false, &sendreq);
    *request = NULL != sendreq      ? &sendreq->req_send.req_base.req_ompi
               : OMPI_SUCCESS == rc ? &ompi_request_empty
                                    : MPI_REQUEST_NULL;
    return rc;
}

SPEC_HOT int mca_pml_spec_send(const void *buf, size_t count, ompi_datatype_t *dtype, int dst,
                               int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    mca_pml_spec_send_request_t *sendreq;
    int rc = begin(buf, count, dtype, dst, tag, mode, comm, true, &sendreq);
    if (NULL == sendreq) {
        return rc;
    }
    ompi_request_t *request = &sendreq->req_send.req_base.req_ompi;
    mca_pml_spec_wait(request);
    rc = request->req_status.MPI_ERROR;
    ompi_request_free(&request);
    return rc;
}
