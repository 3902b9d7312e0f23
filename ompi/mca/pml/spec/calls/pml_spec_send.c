/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A send begins: it gets credit and its number, a protocol is chosen, and that starts it. */
#include "pml_spec_calls.h"

#include "../objects/pml_spec_agent.h"
#include "../objects/pml_spec_cico.h"
#include "../objects/pml_spec_complete.h"
#include "../objects/pml_spec_device.h"
#include "../objects/pml_spec_stage.h"
#include "../objects/pml_spec_upward.h"
#include "../protocols/pml_spec_protocols.h"
#include "../services/pml_spec_adapt.h"
#include "../services/pml_spec_costs.h"
#include "../services/pml_spec_flow.h"
#include "../services/pml_spec_patience.h"
#include "../services/pml_spec_slots.h"
#include "../services/pml_spec_why.h"

#include "opal/include/spec/promises.h"

/* It begins, with its number. */
static void send_begin(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr)
{
#define START(name)                                                                                \
    if (mca_pml_spec_proto_##name.probe(sendreq, NULL != rtr)) {                                   \
        mca_pml_spec_proto_##name.start(sendreq, rtr);                                             \
        return;                                                                                    \
    }
    MCA_PML_SPEC_PROTOCOLS(START)
#undef START
}

/* How much of the message's data goes out with its first packet. */
static size_t first_data(const mca_pml_spec_send_request_t *sendreq, bool uses_rtr)
{
#define BRINGS(name)                                                                               \
    if (mca_pml_spec_proto_##name.probe(sendreq, uses_rtr)) {                                      \
        return mca_pml_spec_proto_##name.brings(sendreq);                                          \
    }
    MCA_PML_SPEC_PROTOCOLS(BRINGS)
#undef BRINGS
    return 0;
}

/* Is the message fit to be put into an offered buffer? */
static bool can_put(const mca_pml_spec_send_request_t *sendreq)
{
    const mca_pml_spec_peer_t *peer = sendreq->peer;
    return !sendreq->fits && sendreq->is_flat
           && ((peer->endpoint->btl_flags_or & MCA_BTL_FLAGS_PUT)
               || mca_pml_spec_cico_may(peer, sendreq->req_send.req_bytes_packed));
}

/* What giving a message its number settled. */
typedef struct issue {
    spec_ctl_t *ctl;      /* the RTR that named it, or NULL */
    spec_rtr_fate_t fate; /* of that RTR */
    uint32_t given_back;  /* credit that was set apart and is not needed */
} issue_t;

/* A message whose credit is set apart gets its number, under the peer's send_lock. */
static issue_t number(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const size_t length = sendreq->req_send.req_bytes_packed;
    const int32_t tag = sendreq->req_send.req_base.req_tag;
    issue_t issue = {.fate = SPEC_RTR_KEPT};

    sendreq->seq =
        spec_send_issue(&peer->send, tag, length, can_put(sendreq), &issue.ctl, &issue.fate);
    if (NULL != issue.ctl && SPEC_RTR_USED == issue.fate) {
        issue.fate = spec_send_take(issue.ctl);
    }
    const bool uses = NULL != issue.ctl && SPEC_RTR_USED == issue.fate;
    if (uses) {
        sendreq->r = SPEC_ENTRY(issue.ctl, mca_pml_spec_rtr_t, ctl)->r;
        spec_list_append(&peer->unnoticed, &sendreq->unnoticed);
        (void) mca_pml_spec_add32(&peer->unnoticed_n, 1);
    }
    if (mca_pml_spec_goes_unasked(sendreq, uses)) {
        mca_pml_spec_count_eager(peer, length);
    }
    sendreq->first = first_data(sendreq, uses);
    sendreq->gathers = MCA_PML_SPEC_BY_ISEND == by && NULL != peer->polls
                       && sendreq->first == length && sendreq->fits
                       && MCA_PML_BASE_SEND_BUFFERED != sendreq->req_send.req_send_mode
                       && spec_policy_gathers(&peer->policy, mca_pml_spec_polls(peer), length,
                                              (uint32_t) mca_pml_spec.gather);
    issue.given_back = sendreq->set_apart - spec_flow_cost(sendreq->first);
    peer->flow_out.spent -= issue.given_back;
    return issue;
}

/* A large message was announced. Does the program go on, and a receive has left its poll to this send? */
static bool follows(mca_pml_spec_peer_t *peer, mca_pml_spec_by_t by)
{
    return OPAL_UNLIKELY(spec_policy_is_followed(&peer->policy))
           && spec_policy_announced(&peer->policy, spec_now()) && MCA_PML_SPEC_BY_ISEND == by;
}

/* What follows from that, under no lock. */
static void issued(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by, const issue_t *issue)
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
            const int32_t wanted = issue->ctl->tag; /* any, or the message's */
            mca_pml_spec_rtr_drop(peer, rtr, issue->fate);
            if (sendreq->fits) {
                mca_pml_spec_adapt_say(peer, wanted, sendreq->seq);
            }
            rtr = NULL;
        }
    }
    sendreq->stopped =
        (!sendreq->fits || MCA_PML_BASE_SEND_SYNCHRONOUS == sendreq->req_send.req_send_mode)
        && mca_pml_spec_adapt_is_stopped(peer, tag);
    if (OPAL_UNLIKELY(mca_pml_spec.verbose >= MCA_PML_SPEC_WHY)) {
        mca_pml_spec_why_send(sendreq, NULL != rtr, issue->fate);
    }
    const bool polls =
        NULL != rtr && MCA_PML_SPEC_BY_ISEND == by && mca_pml_spec_patience_polls(peer, length);
    const bool is_announced = NULL == rtr && sendreq->first < length;
    send_begin(sendreq, rtr);
    if (polls || (is_announced && follows(peer, by))) {
        (void) mca_pml_spec_poll(peer);
    }
}

/* What comes before a message that may be put: an RTR that has arrived is used at once. Before credit is set apart: a callback
 * below the poll may wait for another send, which would lack it. But no poll if the RTR is here already, or none is to be expected. */
static void before_send(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    if (can_put(sendreq) && NULL != MCA_PML_SPEC_SEEN(peer->send.ledger)
        && MCA_PML_SPEC_SPECULATION_OFF != mca_pml_spec.speculation && mca_pml_spec_may_poll()
        && !mca_pml_spec_adapt_is_stopped(peer, sendreq->req_send.req_base.req_tag)
        && !mca_pml_spec_rtr_is_here(sendreq)) {
        (void) mca_pml_spec_poll(peer);
        if (MCA_PML_SPEC_BY_ISEND == by) {
            mca_pml_spec_patience_for_rtr(sendreq);
        }
    }
}

/* The message may go: from its number on. */
static void send_issue(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_spec_comm_t *comm = peer->comm;

    if (OPAL_UNLIKELY(MCA_PML_SPEC_GLANCE(peer->unnoticed_n) > 0)) {
        mca_pml_spec_rtr_notice(peer);
    }
    mca_pml_spec_lock(&peer->send_lock);
    const issue_t issue = number(sendreq, by);
    mca_pml_spec_unlock(&peer->send_lock);
    /* Credit that is given back may be what another send waits for. That one leaves behind this message, which has
     * its number: what a callback of it waits for could depend on this. And this may be what keeps the communicator. */
    const bool turns = OPAL_UNLIKELY(MCA_PML_SPEC_SEEN(peer->shut)) && issue.given_back > 0;
    if (turns) {
        mca_pml_spec_comm_retain(comm);
    }
    issued(sendreq, by, &issue);
    if (turns) {
        mca_pml_spec_upward.turns(peer);
        mca_pml_spec_comm_put(comm);
    }
}

void mca_pml_spec_send_turns(mca_pml_spec_peer_t *peer)
{
    mca_pml_spec_comm_t *comm = peer->comm;
    mca_pml_spec_send_request_t *sendreq;

    mca_pml_spec_comm_retain(comm); /* the last of them may be what keeps it */
    mca_pml_spec_lock(&peer->send_lock);
    mca_pml_spec_flow_changed(peer);
    while (NULL != (sendreq = mca_pml_spec_flow_next(peer))) {
        const issue_t issue = number(sendreq, MCA_PML_SPEC_BY_TURN);
        mca_pml_spec_unlock(&peer->send_lock);
        issued(sendreq, MCA_PML_SPEC_BY_TURN, &issue);
        mca_pml_spec_lock(&peer->send_lock);
    }
    mca_pml_spec_unlock(&peer->send_lock);
    mca_pml_spec_comm_put(comm);
}

/* Copy the message into the buffer that the program has attached; from then on it is sent from there. (Open MPI's function for
 * all of it counts what is in the buffer outside its lock, so that with several threads MPI_Buffer_detach may wait for ever.) */
static int buffer_message(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    const size_t length = sendreq->req_send.req_bytes_packed;
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
        mca_pml_spec_send_unpacked(sendreq);
        if (sendreq->on_device) {
            mca_pml_spec_device_convertor(base);
        }
        mca_pml_spec_send_pack(sendreq, copy);
        if (OPAL_UNLIKELY(sendreq->status < 0)) {
            mca_pml_base_bsend_request_fini(&base->req_ompi);
            return sendreq->status;
        }
    }
    mca_pml_spec_send_packed(sendreq, copy);
    return OMPI_SUCCESS;
}

/* The short way of a small message. False: it takes the other. */
static bool start_small(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    const size_t length = sendreq->req_send.req_bytes_packed;
    uint32_t seq;
    if (length > mca_pml_spec.copy_limit || !mca_pml_spec_fits_packet(peer, length)
        || !(sendreq->is_flat || 0 == length)
        || MCA_PML_BASE_SEND_SYNCHRONOUS == sendreq->req_send.req_send_mode
        || MCA_PML_BASE_SEND_BUFFERED == sendreq->req_send.req_send_mode
        || (NULL != peer->polls && !sendreq->blocks) /* it may gather others */
        || mca_pml_spec_slots_serve(peer, length)
        || OPAL_UNLIKELY(mca_pml_spec.verbose >= MCA_PML_SPEC_WHY)) {
        return false;
    }
    mca_bml_base_btl_t *bml_btl = mca_pml_spec_next_btl(&peer->endpoint->btl_eager);
    if (length > MCA_PML_SPEC_TINY && mca_btl_ibx_sends_in_place(bml_btl->btl, length)) {
        return false;
    }
    mca_pml_spec_eager_collect(peer, length, false);
    if (!mca_pml_spec_small_number(peer, length, sendreq->req_send.req_base.req_tag, &seq)) {
        return false;
    }
    if (mca_pml_spec_eager_now(peer, bml_btl, sendreq->flat, length,
                               sendreq->req_send.req_base.req_tag, seq, sendreq->blocks)) {
        mca_pml_spec_send_done(sendreq);
    } else {
        mca_pml_spec_small_send(sendreq, seq, bml_btl, sendreq->blocks);
    }
    return true;
}

SPEC_HOT int mca_pml_spec_send_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_base_request_t *base = &sendreq->req_send.req_base;
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(peer);
    if (OPAL_UNLIKELY(NULL == endpoint)) {
        return OMPI_ERR_UNREACH;
    }
    mca_pml_spec_send_reset(sendreq);
    sendreq->blocks = MCA_PML_SPEC_BY_SEND == by;
    if (start_small(sendreq)) {
        return OMPI_SUCCESS;
    }
    sendreq->copies = false;

    const size_t length = sendreq->req_send.req_bytes_packed;
    mca_pml_spec_agent_watch(&sendreq->life, sendreq->blocks, length, base->req_tag);
    if (MCA_PML_BASE_SEND_BUFFERED == sendreq->req_send.req_send_mode) {
        int rc = buffer_message(sendreq);
        if (OMPI_SUCCESS != rc) {
            mca_pml_spec_agent_unwatch(&sendreq->life);
            base->req_pml_complete = true;
            base->req_ompi.req_state = OMPI_REQUEST_INACTIVE;
            base->req_ompi.req_complete = REQUEST_COMPLETED;
            return rc;
        }
        base->req_ompi.req_status._ucount = length;
        /* Complete for MPI before the transfer. */
        sendreq->told = true;
        mca_pml_spec_complete(&base->req_ompi);
    }
    /* One that is longer than a packet and synchronous does not go in parts. */
    sendreq->fits = mca_pml_spec_costs_fit(peer, length, sendreq->is_flat)
                    && !(length > peer->eager_most
                         && MCA_PML_BASE_SEND_SYNCHRONOUS == sendreq->req_send.req_send_mode);
    sendreq->by_slot = sendreq->fits && sendreq->is_flat
                       && MCA_PML_BASE_SEND_SYNCHRONOUS != sendreq->req_send.req_send_mode
                       && mca_pml_spec_slots_serve(peer, length);
    mca_pml_spec_eager_collect(peer, length, sendreq->by_slot);
    if (OPAL_UNLIKELY(sendreq->on_device) && !sendreq->is_flat && !sendreq->fits
        && mca_pml_spec_stages(peer, base->req_datatype, base->req_count, length)) {
        mca_pml_spec_stage_send(sendreq);
    }
    if (OPAL_UNLIKELY(!sendreq->is_flat) && !sendreq->fits && mca_pml_spec_send_stages(sendreq)) {
        mca_pml_spec_stage_pack(sendreq);
    }
    before_send(sendreq, by);
    if (OPAL_LIKELY(mca_pml_spec_send_may_go(sendreq))) {
        send_issue(sendreq, by);
    }
    return OMPI_SUCCESS;
}
