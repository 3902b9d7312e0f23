/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The life of a send request, whatever its protocol. */
#include "../services/pml_spec_adapt.h"
#include "pml_spec_complete.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_lost.h"
#include "../services/pml_spec_patience.h"
#include "../protocols/pml_spec_proto.h"
#include "pml_spec_request.h"
#include "../services/pml_spec_why.h"

static const mca_pml_spec_protocol_t unstarted = {
    .name = "unstarted", .description = "no protocol chosen yet", .stage = {"new"}};

static void send_return(mca_pml_spec_send_request_t *sendreq)
{
    if (OPAL_UNLIKELY(NULL != sendreq->hold)) {
        mca_pml_spec_hold_free(sendreq->hold);
        sendreq->hold = NULL;
        sendreq->announced = false;
    }
    MCA_PML_BASE_SEND_REQUEST_FINI(&sendreq->req_send);
    mca_pml_spec_put_back(&mca_pml_base_send_requests, &sendreq->req_send.req_base.req_ompi.super);
}

static int send_free(ompi_request_t **request)
{
    mca_pml_spec_send_request_t *sendreq = MCA_PML_SPEC_SENDREQ(*request);
    *request = MPI_REQUEST_NULL;
    mca_pml_spec_await_signals();
    sendreq->req_send.req_base.req_free_called = true;
    if (mca_pml_spec_set_bits(&sendreq->life, MCA_PML_SPEC_FREED) & MCA_PML_SPEC_DONE) {
        send_return(sendreq);
    }
    return OMPI_SUCCESS;
}

static int send_cancel(ompi_request_t *request, int flag)
{
    mca_pml_spec_send_request_t *sendreq = MCA_PML_SPEC_SENDREQ(request);
    const mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    (void) flag;
    /* A send cannot be taken back once its number is given; MPI allows that it then just completes.
     * To a process that is lost it may never do so; the caller has put the reason into the status. */
    if (OMPI_REQUEST_ACTIVE == request->req_state
        && mca_pml_spec_is_lost(base->req_comm, base->req_peer, base->req_tag)
        && !(mca_pml_spec_set_bits(&sendreq->life, MCA_PML_SPEC_LOST)
             & (MCA_PML_SPEC_LOST | MCA_PML_SPEC_DONE))) {
        mca_pml_spec_complete(request);
    }
    return OMPI_SUCCESS;
}

static void send_construct(mca_pml_spec_send_request_t *sendreq)
{
    ompi_request_t *request = &sendreq->req_send.req_base.req_ompi;
    sendreq->req_send.req_base.req_type = MCA_PML_REQUEST_SEND;
    request->req_start = mca_pml_spec_start;
    request->req_free = send_free;
    request->req_cancel = send_cancel;
    sendreq->proto = &unstarted;
    sendreq->stage = 0;
    sendreq->handle = 0;
    sendreq->key = NULL;
    sendreq->hold = NULL;
    sendreq->announced = false;
    sendreq->in_flight = 0;
    sendreq->scheduling = 0;
    spec_list_init(&sendreq->ranges);
    OBJ_CONSTRUCT(&sendreq->range_lock, opal_mutex_t);
}

static void send_destruct(mca_pml_spec_send_request_t *sendreq)
{
    OBJ_DESTRUCT(&sendreq->range_lock);
}

OBJ_CLASS_INSTANCE(mca_pml_spec_send_request_t, mca_pml_base_send_request_t, send_construct,
                   send_destruct);
OBJ_CLASS_INSTANCE(mca_pml_spec_range_t, opal_free_list_item_t, NULL, NULL);

void mca_pml_spec_send_done(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    const bool buffered = MCA_PML_BASE_SEND_BUFFERED == sendreq->req_send.req_send_mode;

    if (sendreq->announced) {
        sendreq->announced = false;
        (void) mca_pml_spec_add32(&sendreq->peer->announced, -1);
    }
    if (0 != sendreq->handle) {
        mca_pml_spec_lock(&mca_pml_spec.lock);
        spec_handle_close(&mca_pml_spec.send_handles, sendreq->handle);
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        sendreq->handle = 0;
    }
    if (NULL != sendreq->key) {
        mca_bml_base_deregister_mem(sendreq->key_btl, sendreq->key);
        sendreq->key = NULL;
    }
    if (buffered && sendreq->req_send.req_addr != base->req_addr) {
        mca_pml_base_bsend_request_fini(&base->req_ompi);
    }
    const bool told = buffered || (mca_pml_spec_bits(&sendreq->life) & MCA_PML_SPEC_LOST);
    if (!told) {
        base->req_ompi.req_status.MPI_SOURCE = sendreq->peer->comm->my_rank;
        base->req_ompi.req_status.MPI_TAG = base->req_tag;
        base->req_ompi.req_status.MPI_ERROR = mca_pml_spec_mpi_error(sendreq->status);
        base->req_ompi.req_status._ucount = sendreq->req_send.req_bytes_packed;
    }
    base->req_pml_complete = true;
    if (OPAL_UNLIKELY(OMPI_SUCCESS != sendreq->status
                      && (mca_pml_spec_bits(&sendreq->life) & MCA_PML_SPEC_FREED))
        && !(mca_pml_spec_bits(&sendreq->life) & MCA_PML_SPEC_LOST)
        && !mca_pml_spec_lost(sendreq->peer)) {
        mca_pml_spec_abort(sendreq->status,
                           "pml/spec: a send to rank %d failed (error %d) after its request "
                           "was freed, so that nobody can be told",
                           base->req_peer, sendreq->status);
    }
    if (!told) {
        mca_pml_spec_complete(&base->req_ompi);
    }
    if (mca_pml_spec_set_bits(&sendreq->life, MCA_PML_SPEC_DONE) & MCA_PML_SPEC_FREED) {
        send_return(sendreq);
    }
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
    bool late = false;
    mca_pml_spec_lock(&mca_pml_spec.lock);
    mca_pml_spec_send_request_t *sendreq = spec_handle_find(&mca_pml_spec.send_handles, handle);
    if (OPAL_LIKELY(NULL != sendreq)) {
        late = mca_pml_spec_bits(&sendreq->life)
               & MCA_PML_SPEC_LOST; /* the program has its memory back */
        wrong = late ? "its send has ended: the process was given up" : take(sendreq, packet);
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    if (OPAL_LIKELY(NULL == wrong)) {
        return sendreq;
    }
    (late ? mca_pml_spec_refuse_late : mca_pml_spec_refuse)(what, wrong);
    return NULL;
}

/* Does its data go out with its header, unless an RTR is used? */
static bool is_eager(const mca_pml_spec_send_request_t *sendreq)
{
    return sendreq->req_send.req_bytes_packed <= sendreq->peer->eager_limit
           && MCA_PML_BASE_SEND_SYNCHRONOUS != sendreq->req_send.req_send_mode;
}

void mca_pml_spec_send_begin(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr)
{
    if (NULL != rtr) {
        sendreq->proto = &mca_pml_spec_proto_rtr;
        mca_pml_spec_rtr_use(sendreq, rtr);
    } else if (is_eager(sendreq)) {
        sendreq->proto = &mca_pml_spec_proto_eager;
        mca_pml_spec_eager_send(sendreq);
    } else {
        sendreq->proto = &mca_pml_spec_proto_rts;
        mca_pml_spec_rts_send(sendreq);
    }
}

bool mca_pml_spec_rtr_is_here(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_spec_lock(&peer->send_lock);
    const bool is_here = spec_send_has_rtr(&peer->send, sendreq->req_send.req_base.req_tag);
    mca_pml_spec_unlock(&peer->send_lock);
    return is_here;
}

/* How much of the message's data goes out with its first packet. */
static size_t first_data(const mca_pml_spec_send_request_t *sendreq, bool uses_rtr)
{
    if (uses_rtr) {
        return 0;
    }
    return is_eager(sendreq) ? sendreq->req_send.req_bytes_packed : mca_pml_spec_rts_data(sendreq);
}

/* Is the message fit to be put into an offered buffer? */
static bool can_put(const mca_pml_spec_send_request_t *sendreq)
{
    const mca_pml_spec_peer_t *peer = sendreq->peer;
    return sendreq->req_send.req_bytes_packed > peer->eager_limit && sendreq->is_flat
           && (peer->endpoint->btl_flags_or & MCA_BTL_FLAGS_PUT);
}

/* An RTR that has arrived is used at once. But no poll for one where none was ever seen, or one is here already:
 * the poll may meet an RTS and copy that message before ours has been announced. */
static void poll_for_rtr(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by)
{
    if (MCA_PML_SPEC_SPECULATION_OFF != mca_pml_spec.speculation && mca_pml_spec_may_poll()
        && !mca_pml_spec_rtr_is_here(sendreq)) {
        (void) mca_pml_spec_poll(sendreq->peer);
        if (MCA_PML_SPEC_BY_ISEND == by) {
            mca_pml_spec_patience_for_rtr(sendreq);
        }
    }
}

mca_pml_spec_issue_t mca_pml_spec_send_number(mca_pml_spec_send_request_t *sendreq,
                                              mca_pml_spec_by_t by, bool announce)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const size_t length = sendreq->req_send.req_bytes_packed;
    const int32_t tag = sendreq->req_send.req_base.req_tag;
    mca_pml_spec_issue_t issue = {.fate = SPEC_RTR_KEPT};

    sendreq->seq =
        spec_send_issue(&peer->send, tag, length, can_put(sendreq), &issue.ctl, &issue.fate);
    if (NULL != issue.ctl && SPEC_RTR_USED == issue.fate
        && (announce
            || (spec_run_is_on(&peer->run, length)
                && spec_run_leaves(&peer->run, length, mca_pml_spec_now_ns())))) {
        issue.fate = SPEC_RTR_SHARED;
    }
    const bool uses = NULL != issue.ctl && SPEC_RTR_USED == issue.fate;
    if (uses) {
        sendreq->r = SPEC_ENTRY(issue.ctl, mca_pml_spec_rtr_t, ctl)->r;
        spec_list_append(&peer->unnoticed, &sendreq->unnoticed);
        (void) mca_pml_spec_add32(&peer->unnoticed_n, 1);
    }
    if (!uses && is_eager(sendreq)) {
        mca_pml_spec_count_eager(peer, length);
    }
    sendreq->first = first_data(sendreq, uses);
    sendreq->gathers = MCA_PML_SPEC_BY_ISEND == by && NULL != peer->looks
                       && sendreq->first == length && length <= peer->eager_limit
                       && MCA_PML_BASE_SEND_BUFFERED != sendreq->req_send.req_send_mode
                       && spec_burst_waits(&peer->burst, mca_pml_spec_look(peer), length,
                                           (uint32_t) mca_pml_spec.gather);
    issue.given_back = sendreq->set_apart - spec_flow_cost(sendreq->first);
    peer->flow_out.spent -= issue.given_back;
    return issue;
}

void mca_pml_spec_send_issued(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by,
                              const mca_pml_spec_issue_t *issue)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const size_t length = sendreq->req_send.req_bytes_packed;
    const int32_t tag = sendreq->req_send.req_base.req_tag;
    mca_pml_spec_rtr_t *rtr = NULL;

    if (sendreq->gathers) {
        MCA_PML_SPEC_COUNT(gathered);
    }
    if (NULL != issue->ctl) {
        rtr = SPEC_ENTRY(issue->ctl, mca_pml_spec_rtr_t, ctl);
        if (SPEC_RTR_USED != issue->fate) {
            mca_pml_spec_rtr_drop(peer, rtr, issue->fate);
            if (length <= peer->eager_limit) {
                mca_pml_spec_adapt_say(peer, tag, sendreq->seq);
            }
            rtr = NULL;
        }
    }
    sendreq->stopped = (length > peer->eager_limit
                        || MCA_PML_BASE_SEND_SYNCHRONOUS == sendreq->req_send.req_send_mode)
                       && mca_pml_spec_adapt_is_stopped(peer, tag);
    if (OPAL_UNLIKELY(mca_pml_spec.verbose >= MCA_PML_SPEC_WHY)) {
        mca_pml_spec_why_send(sendreq, NULL != rtr, issue->fate);
    }
    const bool looks =
        NULL != rtr && MCA_PML_SPEC_BY_ISEND == by && mca_pml_spec_patience_looks(peer, length);
    mca_pml_spec_send_begin(sendreq, rtr);
    if (looks) {
        (void) mca_pml_spec_poll(peer);
    }
}

/* What comes before a message that may be put: does its RTR stay unused (core/spec_exchange.h)? If not, look whether there
 * is one. Before credit is set apart: a callback below the poll may wait for another send, which would lack it. */
static bool before_send(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    bool announce = false;
    if (OPAL_LIKELY(!can_put(sendreq))) {
        return false;
    }
    if (OPAL_UNLIKELY(spec_exchange_is_open(&peer->exchange))
        && sendreq->req_send.req_bytes_packed >= SPEC_EXCHANGE_LEAST) {
        mca_pml_spec_lock(&peer->send_lock);
        announce =
            spec_exchange_send(&peer->exchange, MCA_PML_SPEC_BY_SEND == by, mca_pml_spec_now_ns());
        mca_pml_spec_unlock(&peer->send_lock);
    }
    if (!announce && NULL != MCA_PML_SPEC_SEEN(peer->send.ledger)
        && !mca_pml_spec_adapt_is_stopped(peer, sendreq->req_send.req_base.req_tag)) {
        poll_for_rtr(sendreq, by);
    }
    return announce;
}

/* The message may go: from its number on. */
static void send_issue(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by, bool announce)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_spec_comm_t *comm = peer->comm;

    if (OPAL_UNLIKELY(MCA_PML_SPEC_GLANCE(peer->unnoticed_n) > 0)) {
        mca_pml_spec_rtr_notice(peer);
    }
    mca_pml_spec_lock(&peer->send_lock);
    const mca_pml_spec_issue_t issue = mca_pml_spec_send_number(sendreq, by, announce);
    mca_pml_spec_unlock(&peer->send_lock);
    /* Credit that is given back may be what another send waits for. That one leaves behind this message, which has
     * its number: what a callback of it waits for could depend on this. And this may be what keeps the communicator. */
    const bool turns = OPAL_UNLIKELY(MCA_PML_SPEC_SEEN(peer->shut)) && issue.given_back > 0;
    if (turns) {
        mca_pml_spec_comm_hold(comm);
    }
    mca_pml_spec_send_issued(sendreq, by, &issue);
    if (turns) {
        mca_pml_spec_send_turns(peer);
        mca_pml_spec_comm_put(comm);
    }
}

/* Copy the message into the buffer that the program has attached; from then on it is sent from there. (Open MPI's function for
 * all of it counts what is in the buffer outside its lock, so that with several threads MPI_Buffer_detach may wait for ever.) */
static int buffer_message(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    opal_convertor_t *convertor = &base->req_convertor;
    size_t length = sendreq->req_send.req_bytes_packed;
    if (0 == length) {
        return OMPI_SUCCESS;
    }
    int rc = mca_pml_base_bsend_request_alloc(&base->req_ompi);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    char *copy = (char *) (uintptr_t) sendreq->req_send.req_addr;
    if (sendreq->is_flat) {
        memcpy(copy, sendreq->flat, length);
    } else {
        /* The last start of a persistent request left the convertor on its copy. */
        opal_convertor_copy_and_prepare_for_send(sendreq->peer->proc->super.proc_convertor,
                                                 &base->req_datatype->super, base->req_count,
                                                 base->req_addr, 0, convertor);
        struct iovec iov = {.iov_base = copy, .iov_len = length};
        uint32_t iovs = 1;
        opal_convertor_pack(convertor, &iov, &iovs, &length);
    }
    opal_convertor_copy_and_prepare_for_send(
        sendreq->peer->proc->super.proc_convertor, &ompi_mpi_packed.dt.super,
        sendreq->req_send.req_bytes_packed, copy, 0, convertor);
    sendreq->is_flat = true;
    sendreq->flat = copy;
    return OMPI_SUCCESS;
}

int mca_pml_spec_send_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(peer);
    if (OPAL_UNLIKELY(NULL == endpoint)) {
        return OMPI_ERR_UNREACH;
    }
    MCA_PML_BASE_SEND_START(&sendreq->req_send);
    base->req_free_called = false;
    sendreq->life = 0;
    sendreq->status = OMPI_SUCCESS;
    sendreq->noticed = false;
    sendreq->proto = &unstarted;
    sendreq->stage = 0;
    sendreq->left = (int64_t) sendreq->req_send.req_bytes_packed;
    sendreq->is_flat = mca_pml_spec_is_flat(base->req_datatype, base->req_count);
    sendreq->flat = mca_pml_spec_flat_base(base->req_addr, base->req_datatype);

    const size_t length = sendreq->req_send.req_bytes_packed;
    if (MCA_PML_BASE_SEND_BUFFERED == sendreq->req_send.req_send_mode) {
        int rc = buffer_message(sendreq);
        if (OMPI_SUCCESS != rc) {
            sendreq->life = MCA_PML_SPEC_DONE;
            base->req_pml_complete = true;
            base->req_ompi.req_state = OMPI_REQUEST_INACTIVE;
            base->req_ompi.req_complete = REQUEST_COMPLETED;
            return rc;
        }
        base->req_ompi.req_status.MPI_ERROR = OMPI_SUCCESS;
        base->req_ompi.req_status._ucount = length;
        /* Complete for MPI before the transfer. */
        mca_pml_spec_complete(&base->req_ompi);
    }
    const bool announce = before_send(sendreq, by);
    if (OPAL_LIKELY(mca_pml_spec_send_may_go(sendreq))) {
        send_issue(sendreq, by, announce);
    }
    return OMPI_SUCCESS;
}
