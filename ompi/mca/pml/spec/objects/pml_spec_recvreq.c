/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The life of a receive request, whatever its protocol. */
#include "../services/pml_spec_adapt.h"
#include "../dispatch/pml_spec_arrive.h"
#include "pml_spec_complete.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_lost.h"
#include "../services/pml_spec_patience.h"
#include "../protocols/pml_spec_proto.h"
#include "pml_spec_request.h"
#include "../services/pml_spec_why.h"

static void recv_return(mca_pml_spec_recv_request_t *recvreq)
{
    if (OPAL_UNLIKELY(NULL != recvreq->hold)) {
        mca_pml_spec_hold_free(recvreq->hold);
        recvreq->hold = NULL;
    }
    MCA_PML_BASE_RECV_REQUEST_FINI(&recvreq->req_recv);
    mca_pml_spec_put_back(&mca_pml_base_recv_requests, &recvreq->req_recv.req_base.req_ompi.super);
}

void mca_pml_spec_recv_release(mca_pml_spec_recv_request_t *recvreq)
{
    recvreq->req_recv.req_base.req_free_called = true;
    if (mca_pml_spec_set_bits(&recvreq->life, MCA_PML_SPEC_FREED) & MCA_PML_SPEC_DONE) {
        recv_return(recvreq);
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
    const uint64_t end = mca_pml_spec_now_ns() + CANCEL_NS;
    while (!(mca_pml_spec_bits(&recvreq->life) & MCA_PML_SPEC_DONE)
           && mca_pml_spec_now_ns() < end) {
        opal_progress();
    }
}

static int recv_free(ompi_request_t **request)
{
    mca_pml_spec_recv_request_t *recvreq = MCA_PML_SPEC_RECVREQ(*request);
    *request = MPI_REQUEST_NULL;
    mca_pml_spec_await_signals();
    if (OPAL_UNLIKELY(!(mca_pml_spec_bits(&recvreq->life) & MCA_PML_SPEC_DONE))
        && recvreq->posted.cancel_wanted) {
        await_cancel(recvreq);
    }
    mca_pml_spec_recv_release(recvreq);
    return OMPI_SUCCESS;
}

static void recv_construct(mca_pml_spec_recv_request_t *recvreq)
{
    ompi_request_t *request = &recvreq->req_recv.req_base.req_ompi;
    recvreq->req_recv.req_base.req_type = MCA_PML_REQUEST_RECV;
    request->req_start = mca_pml_spec_start;
    request->req_free = recv_free;
    request->req_cancel = mca_pml_spec_recv_cancel;
    recvreq->handle = 0;
    recvreq->keys = 0;
    recvreq->offered = false;
    recvreq->hold = NULL;
    recvreq->converts = false;
    recvreq->posted.bin = NULL;
    recvreq->early_bytes = 0;
    spec_list_init(&recvreq->early);
    OBJ_CONSTRUCT(&recvreq->convert_lock, opal_mutex_t);
}

static void recv_destruct(mca_pml_spec_recv_request_t *recvreq)
{
    OBJ_DESTRUCT(&recvreq->convert_lock);
}

OBJ_CLASS_INSTANCE(mca_pml_spec_recv_request_t, mca_pml_base_recv_request_t, recv_construct,
                   recv_destruct);

uint64_t mca_pml_spec_recv_handle(mca_pml_spec_recv_request_t *recvreq)
{
    if (0 == recvreq->handle) {
        mca_pml_spec_lock(&mca_pml_spec.lock);
        recvreq->handle = spec_handle_open(&mca_pml_spec.recv_handles, recvreq);
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        if (0 == recvreq->handle) {
            mca_pml_spec_abort(OMPI_ERR_OUT_OF_RESOURCE, "pml/spec: out of memory for a handle");
        }
    }
    return recvreq->handle;
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
        late = mca_pml_spec_bits(&recvreq->life)
               & MCA_PML_SPEC_LOST; /* the program has its memory back */
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
        opal_convertor_copy_and_prepare_for_recv(recvreq->peer->proc->super.proc_convertor,
                                                 &base->req_datatype->super, base->req_count,
                                                 base->req_addr, 0, convertor);
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

static void set_result(mca_pml_spec_recv_request_t *recvreq)
{
    ompi_status_public_t *status = &recvreq->req_recv.req_base.req_ompi.req_status;
    const size_t length = recvreq->req_recv.req_bytes_packed;
    status->_ucount = length;
    status->MPI_ERROR = recvreq->status < 0          ? mca_pml_spec_mpi_error(recvreq->status)
                        : length > recvreq->capacity ? MPI_ERR_TRUNCATE
                                                     : MPI_SUCCESS;
}

void mca_pml_spec_recv_done(mca_pml_spec_recv_request_t *recvreq)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;

    if (OPAL_UNLIKELY(0 != recvreq->watched_since) && recvreq->matched) {
        /* a small message: its RTR would be lost */
        mca_pml_spec_adapt_judge(recvreq, (uint32_t) base->req_sequence, 0, false, 0);
    }
    if (recvreq->offered) {
        recvreq->offered = false;
        (void) mca_pml_spec_add32(&recvreq->peer->offers, -1);
    }
    if (OPAL_UNLIKELY(0 != recvreq->handle)) {
        mca_pml_spec_lock(&mca_pml_spec.lock);
        spec_handle_close(&mca_pml_spec.recv_handles, recvreq->handle);
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        recvreq->handle = 0;
    }
    while (recvreq->keys > 0) {
        --recvreq->keys;
        mca_bml_base_deregister_mem(recvreq->key[recvreq->keys].btl,
                                    recvreq->key[recvreq->keys].handle);
    }
    if (OPAL_UNLIKELY(mca_pml_spec_bits(&recvreq->life) & MCA_PML_SPEC_LOST)) {
        recvreq->status = OMPI_SUCCESS; /* it has been told */
    } else {
        set_result(recvreq);
    }
    base->req_pml_complete = true;
    if (OPAL_UNLIKELY(recvreq->status < 0
                      && (mca_pml_spec_bits(&recvreq->life) & MCA_PML_SPEC_FREED))
        && NULL != recvreq->peer
        && !mca_pml_spec_lost(recvreq->peer)) { /* else a lost process: not the job's end */
        mca_pml_spec_abort(recvreq->status,
                           "pml/spec: a receive from rank %d failed (error %d) after its "
                           "request was freed, so that nobody can be told",
                           base->req_peer, recvreq->status);
    }
    if (OPAL_LIKELY(!(mca_pml_spec_bits(&recvreq->life) & MCA_PML_SPEC_LOST))) {
        mca_pml_spec_complete(&base->req_ompi);
    }
    if (mca_pml_spec_set_bits(&recvreq->life, MCA_PML_SPEC_DONE) & MCA_PML_SPEC_FREED) {
        recv_return(recvreq);
    }
}

void mca_pml_spec_recv_lost(mca_pml_spec_recv_request_t *recvreq)
{
    /* The caller has put the reason into the status. */
    if (!(mca_pml_spec_set_bits(&recvreq->life, MCA_PML_SPEC_LOST)
          & (MCA_PML_SPEC_LOST | MCA_PML_SPEC_DONE))) {
        mca_pml_spec_complete(&recvreq->req_recv.req_base.req_ompi);
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

void mca_pml_spec_recv_reset(mca_pml_spec_recv_request_t *recvreq)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    MCA_PML_BASE_RECV_START(&recvreq->req_recv);
    base->req_free_called = false;
    recvreq->life = 0;
    recvreq->status = OMPI_SUCCESS;
    recvreq->matched = false;
    recvreq->converts = false; /* a restart may have another peer */
    recvreq->missing = 0;
    recvreq->owed = 0;
    recvreq->waive = 0;
    recvreq->watched_since = 0;
    recvreq->hopes = false;
    recvreq->posted.cancel_wanted = false;
    recvreq->peer = NULL;
    recvreq->capacity = base->req_count * base->req_datatype->super.size;
    recvreq->is_flat = mca_pml_spec_is_flat(base->req_datatype, base->req_count);
    recvreq->flat = mca_pml_spec_flat_base(base->req_addr, base->req_datatype);
}

/* See core/spec_exchange.h. */
static bool exchange_leaves(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_lock(&peer->send_lock);
    const bool leaves = spec_exchange_leaves(&peer->exchange);
    mca_pml_spec_unlock(&peer->send_lock);
    return leaves;
}

static void exchange_received(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_lock(&peer->send_lock);
    spec_exchange_received(&peer->exchange, mca_pml_spec_now_ns());
    mca_pml_spec_unlock(&peer->send_lock);
}

/* A receive that blocks has nothing to do but look, and an RTR that leaves while the RTS is on its way
 * is work for nothing at both ends. Where processors move the data it gains the receiver nothing either to be
 * ahead of a sender by less than this, nanoseconds; one who comes later still finds the RTR. */
#define LOOK_NS UINT64_C(2000)

static void poll_for_rts(const mca_pml_spec_peer_t *peer, bool longer)
{
    const mca_pml_spec_comm_t *comm = peer->comm;
    const uint32_t before = MCA_PML_SPEC_GLANCE(comm->match.unexp_n);
    const uint64_t end = longer ? mca_pml_spec_now_ns() + LOOK_NS : 0;
    if (!mca_pml_spec_may_poll()) {
        return;
    }
    do {
        (void) mca_pml_spec_poll(peer);
    } while (longer && before == MCA_PML_SPEC_GLANCE(comm->match.unexp_n)
             && mca_pml_spec_now_ns() < end);
}

int mca_pml_spec_recv_start(mca_pml_spec_recv_request_t *recvreq, bool blocking)
{
    mca_pml_base_request_t *base = &recvreq->req_recv.req_base;
    mca_pml_spec_comm_t *comm = mca_pml_spec_comm_of(base->req_comm);
    spec_offer_t offer;

    mca_pml_spec_recv_reset(recvreq);
    if (OMPI_ANY_SOURCE != base->req_peer) {
        recvreq->peer = mca_pml_spec_peer(comm, base->req_peer);
        if (OPAL_UNLIKELY(NULL == recvreq->peer)) {
            return OMPI_ERR_OUT_OF_RESOURCE;
        }
        spec_run_break(&recvreq->peer->run);
    }
    const bool large = recvreq->capacity > mca_pml_spec.eager_min && NULL != recvreq->peer;
    const bool stopped = large && mca_pml_spec_adapt_recalls(recvreq->peer, base->req_tag);
    bool watches = false;
    bool predicts = large && (stopped || mca_pml_spec_rtr_predicts(recvreq));
    const bool exchanges = predicts && !blocking && recvreq->capacity >= SPEC_EXCHANGE_LEAST;
    const bool leaves = exchanges && exchange_leaves(recvreq->peer);
    if (predicts) {
        predicts = !stopped && mca_pml_spec_adapt_may(recvreq->peer, base->req_tag);
        watches = !predicts;
        /* An RTS that has arrived is answered at once; without an RTR to save, one who waits next
         * will see it soon enough. */
        if (!leaves && !(watches && blocking)) {
            poll_for_rts(recvreq->peer,
                         blocking && predicts && !mca_pml_spec_rtr_registers(recvreq));
            if (!blocking) {
                mca_pml_spec_patience_for_rts(recvreq);
            }
        }
        if (OPAL_LIKELY(predicts)) {
            mca_pml_spec_rtr_prepare(recvreq);
        }
    }

    recvreq->posted.src = base->req_peer;
    recvreq->posted.tag = base->req_tag;
    mca_pml_spec_lock(&comm->slot->lock);
    spec_unexp_t *unexp = NULL;
    if (comm->match.unexp_n > 0) {
        unexp = spec_match_find_unexp(&comm->match, base->req_peer, base->req_tag);
    }
    if (NULL != unexp) {
        mca_pml_spec_frag_t *frag = SPEC_ENTRY(unexp, mca_pml_spec_frag_t, unexp);
        mca_pml_spec_unexp_take(comm, frag);
        mca_pml_spec_unlock(&comm->slot->lock);
        recvreq->hopes = false;
        if (watches && mca_pml_spec_rtr_predicts(recvreq)) { /* the sender was first */
            mca_pml_spec_adapt_judge(recvreq, mca_pml_spec_frag_hdr(frag)->seq,
                                     mca_pml_spec_message_length(frag), false, 0);
        }
        mca_pml_spec_peer_t *peer = recvreq->peer;
        mca_pml_spec_deliver_frag(recvreq, frag);
        if (exchanges && (leaves || (mca_pml_spec_bits(&recvreq->life) & MCA_PML_SPEC_DONE))) {
            exchange_received(peer);
        }
        return OMPI_SUCCESS;
    }
    if (NULL != recvreq->peer && mca_pml_spec_lost(recvreq->peer)) {
        mca_pml_spec_unlock(&comm->slot->lock);
        recvreq->status = OMPI_ERR_UNREACH;
        recvreq->req_recv.req_bytes_packed = 0;
        mca_pml_spec_recv_done(recvreq);
        return OMPI_SUCCESS;
    }
    if (OPAL_UNLIKELY(0 != spec_match_post(&comm->match, &recvreq->posted))) {
        mca_pml_spec_unlock(&comm->slot->lock);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    mca_pml_spec_flow_wants(comm, base->req_peer);
    if (predicts
        && spec_recv_speculate(&recvreq->peer->recv, &comm->match, &recvreq->posted, &offer)) {
        /* Under the lock only the packet is built: as soon as it is released the message may
         * arrive in another thread and end the request. */
        mca_pml_spec_peer_t *peer = recvreq->peer;
        mca_pml_spec_rtr_packet_t packet;
        recvreq->offered = true;
        (void) mca_pml_spec_add32(&peer->offers, 1);
        mca_pml_spec_rtr_build(recvreq, &offer, &packet);
        if (OPAL_UNLIKELY(mca_pml_spec.verbose >= MCA_PML_SPEC_WHY)) {
            mca_pml_spec_why_recv(recvreq, true, true);
        }
        mca_pml_spec_unlock(&comm->slot->lock);
        mca_pml_spec_rtr_send(peer, &packet);
        if (leaves) {
            exchange_received(peer);
        }
        return OMPI_SUCCESS;
    }
    /* Would it have sent an RTR, and is it likely to get a message that will be looked at? */
    if (watches
        && spec_adapt_samples(spec_recv_guess(&recvreq->peer->recv, &recvreq->posted),
                              recvreq->capacity)
        && spec_recv_may_speculate(&comm->match, &recvreq->posted)
        && mca_pml_spec_rtr_predicts(recvreq)) {
        mca_pml_spec_adapt_watch(recvreq);
    }
    if (OPAL_UNLIKELY(mca_pml_spec.verbose >= MCA_PML_SPEC_WHY) && NULL != recvreq->peer) {
        mca_pml_spec_why_recv(recvreq, false,
                              spec_recv_may_speculate(&comm->match, &recvreq->posted));
    }
    mca_pml_spec_peer_t *peer = recvreq->peer;
    mca_pml_spec_unlock(&comm->slot->lock);
    if (leaves) {
        exchange_received(peer);
    }
    return OMPI_SUCCESS;
}
