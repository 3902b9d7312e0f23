/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Receiver first: a large receive that finds no message offers its buffer by RTR; the send that it was meant for writes the data
 * there (docs/design/protocol.md, "Receiver first"). Which RTR belongs to which message: core/spec_send.h and core/spec_recv.h. */
#include "pml_spec_rtr.h"

#include "../objects/pml_spec_cico.h"
#include "../objects/pml_spec_explain.h"
#include "../objects/pml_spec_stage.h"
#include "../services/pml_spec_adapt.h"
#include "../services/pml_spec_claims.h"
#include "../services/pml_spec_control.h"
#include "../services/pml_spec_copy.h"
#include "../services/pml_spec_costs.h"
#include "../services/pml_spec_hello.h"
#include "../services/pml_spec_joint.h"
#include "../services/pml_spec_keys.h"
#include "../services/pml_spec_pipe.h"
#include "pml_spec_rts.h"

#include "opal/include/spec/promises.h"

enum { NEW, WRITING, COPYING };

/* For an RTR or REVOKE that arrived; memory is out: the job ends. */
static mca_pml_spec_rtr_t *rtr_new(void)
{
    mca_pml_spec_rtr_t *rtr = (mca_pml_spec_rtr_t *) mca_pml_spec_get(&mca_pml_spec.rtrs);
    if (OPAL_UNLIKELY(NULL == rtr)) {
        mca_pml_spec_no_memory("the offer of a receive buffer (RTR)", sizeof(*rtr));
    }
    return rtr;
}

static void rtr_free(mca_pml_spec_rtr_t *rtr)
{
    mca_pml_spec_put_back(&mca_pml_spec.rtrs, &rtr->super);
}

/* ---- receiver: RTR goes out ---- */

/* The transport that an RTR for this peer names: the first that can put. */
static mca_bml_base_btl_t *putting_btl(mca_bml_base_endpoint_t *endpoint)
{
    mca_bml_base_btl_t *btl[MCA_PML_SPEC_STRIPES];
    size_t n = mca_pml_spec_rdma_btls(endpoint, btl);
    for (size_t i = 0; i < n; ++i) {
        if (mca_pml_spec_can_put(btl[i])) {
            return btl[i];
        }
    }
    return NULL;
}

mca_pml_spec_no_rtr_t mca_pml_spec_rtr_why_not(mca_pml_spec_recv_request_t *recvreq)
{
    if (MCA_PML_SPEC_SPECULATION_OFF == mca_pml_spec.speculation) {
        return MCA_PML_SPEC_RTR_OFF;
    }
    if (NULL == recvreq->peer) {
        return MCA_PML_SPEC_RTR_ANY_SOURCE;
    }
    mca_bml_base_endpoint_t *endpoint = mca_pml_spec_endpoint(recvreq->peer);
    if (NULL == endpoint) {
        return MCA_PML_SPEC_RTR_NO_WAY;
    }
    if (!MCA_PML_SPEC_SEEN(recvreq->peer->ctx_known)) {
        return MCA_PML_SPEC_RTR_NO_NUMBER;
    }
    if (mca_pml_spec_ends_fit(recvreq->peer, recvreq->capacity, true)) {
        return MCA_PML_SPEC_RTR_SMALL;
    }
    if (MCA_PML_SPEC_SPECULATION_AUTO == mca_pml_spec.speculation
        && recvreq->capacity < mca_pml_spec_ends(recvreq->peer)->either) {
        return MCA_PML_SPEC_RTR_SHORT;
    }
    /* A ring, where no transport can put. (Not for a buffer with gaps, which is staged for transports that can.) */
    const bool by_ring = mca_pml_spec_cico_may(recvreq->peer, recvreq->capacity);
    if (!(endpoint->btl_flags_or & MCA_BTL_FLAGS_PUT) && !by_ring) {
        return MCA_PML_SPEC_RTR_NO_PUT;
    }
    if (!recvreq->is_flat && !mca_pml_spec_recv_stages(recvreq)) {
        return recvreq->on_device ? MCA_PML_SPEC_RTR_DEVICE : MCA_PML_SPEC_RTR_GAPS;
    }
    /* Where a packet waits for room already the sender is not in MPI: an RTR more would wait behind it. */
    const mca_bml_base_btl_t *bml_btl =
        by_ring ? &endpoint->btl_send.bml_btls[0] : putting_btl(endpoint);
    return NULL == bml_btl ? MCA_PML_SPEC_RTR_NO_PUT
           : mca_pml_spec_is_crowded(MCA_PML_SPEC_RES_CONTROL(bml_btl))
               ? MCA_PML_SPEC_RTR_CROWD
           : mca_pml_spec_claims_serve(recvreq->peer) ? MCA_PML_SPEC_RTR_GOES
                                                      : MCA_PML_SPEC_RTR_NO_MEMORY;
}

bool mca_pml_spec_rtr_prepare(mca_pml_spec_recv_request_t *recvreq)
{
    mca_bml_base_btl_t *bml_btl = putting_btl(recvreq->peer->endpoint);
    if (!recvreq->is_flat && !mca_pml_spec_stage_recv(recvreq)) {
        return false;
    }
    recvreq->owed = (int64_t) recvreq->capacity;
    (void) mca_pml_spec_recv_handle(recvreq);
    if (OPAL_UNLIKELY(!mca_pml_spec_claims_offer(recvreq))) {
        return false;
    }
    recvreq->rtr_btl = bml_btl;
    if (NULL == bml_btl) {
        return mca_pml_spec_cico_has_room(
            recvreq); /* it is taken when it is needed: the message may be here already */
    }
    if (NULL != bml_btl->btl->btl_register_mem
        && NULL != mca_pml_spec_recv_register(recvreq, bml_btl, 0, recvreq->capacity)) {
        mca_pml_spec_keys_offer(recvreq);
    }
    return true;
}

void mca_pml_spec_rtr_build(mca_pml_spec_recv_request_t *recvreq, const spec_offer_t *offer,
                            mca_pml_spec_rtr_packet_t *packet)
{
    const mca_pml_spec_peer_t *peer = recvreq->peer;
    const bool is_ring = NULL == recvreq->rtr_btl;
    const uint64_t ring = is_ring ? mca_pml_spec_cico_offer_recv(recvreq) : 0;
    const bool needs_key = !is_ring && NULL != recvreq->rtr_btl->btl->btl_register_mem;
    packet->btl = recvreq->rtr_btl;
    packet->hdr = (mca_pml_spec_rtr_hdr_t){
        .type = is_ring           ? MCA_PML_SPEC_RTR_RING
                : recvreq->staged ? MCA_PML_SPEC_RTR_STAGED
                                  : MCA_PML_SPEC_RTR,
        .epoch = peer->recv.epoch,
        .ctx = peer->ctx,
        .src = peer->comm->my_rank,
        .tag = recvreq->req_recv.req_base.req_tag,
        .no = offer->no,
        .e = offer->e,
        .k = offer->k,
        .r = MCA_PML_SPEC_GLANCE(recvreq->handle),
        /* Without a registration or a ring the offer is empty: its number must go out all the same. */
        .length =
            (needs_key && 0 == recvreq->keys) || (is_ring && 0 == ring) ? 0 : recvreq->capacity,
        .addr = is_ring ? ring : (uint64_t) (uintptr_t) recvreq->flat,
        .name = mca_pml_spec.my_name,
    };
    if (needs_key && recvreq->keys > 0) {
        packet->hdr.key_len = (uint16_t) recvreq->rtr_btl->btl->btl_registration_handle_size;
        memcpy(packet->key, recvreq->key[0].handle, packet->hdr.key_len);
    }
    mca_pml_spec_claims_tell(recvreq, &packet->hdr.page_pid, &packet->hdr.page_fd);
}

void mca_pml_spec_rtr_send(mca_pml_spec_peer_t *peer, const mca_pml_spec_rtr_packet_t *packet)
{
    MCA_PML_SPEC_COUNT(rtr_sent);
    MCA_PML_SPEC_VERBOSE(30, "RTR to rank %d: tag %d, E %u, k %u, %zu bytes", peer->rank,
                         packet->hdr.tag, packet->hdr.e, packet->hdr.k,
                         (size_t) packet->hdr.length);
    mca_pml_spec_control_send(peer->endpoint, packet->btl, packet,
                              sizeof(packet->hdr) + packet->hdr.key_len);
}

/* ---- receiver: the message arrives ---- */

const char *mca_pml_spec_match_check(const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_match_notice_t *match = mca_pml_spec_packet_hdr(packet);
    return packet->seg[0].seg_len < sizeof(*match) ? "it is shorter than its header"
           : match->bytes > match->length || 0 == match->length
               ? "its lengths contradict each other"
               : NULL;
}

size_t mca_pml_spec_match_length(const mca_pml_spec_packet_t *packet)
{
    return ((const mca_pml_spec_match_notice_t *) mca_pml_spec_packet_hdr(packet))->length;
}

uint32_t mca_pml_spec_match_cost(const mca_pml_spec_packet_t *packet)
{
    (void) packet;
    return spec_flow_cost(0);
}

/* A MATCH must find the receive whose RTR was used: by the rule of RTRs it is the one that matching
 * finds too. Anything else means that sender and receiver disagree about MPI's order; going on
 * would deliver wrong data. Only of a process that was given up the receives have been ended. */
bool mca_pml_spec_match_expect(const mca_pml_spec_peer_t *peer, const mca_pml_spec_packet_t *packet,
                               const spec_posted_t *posted)
{
    const mca_pml_spec_match_notice_t *match = mca_pml_spec_packet_hdr(packet);
    if (OPAL_LIKELY(NULL != posted)) {
        const mca_pml_spec_recv_request_t *recvreq =
            SPEC_ENTRY(posted, mca_pml_spec_recv_request_t, posted);
        if (OPAL_LIKELY(recvreq->offered && MCA_PML_SPEC_GLANCE(recvreq->handle) == match->r
                        && match->length <= recvreq->capacity)) {
            return true;
        }
    }
    if (peer->recv.given_up) {
        return false;
    }
    mca_pml_spec_explain_surely("wrong receive", "", match->match.src, (unsigned) peer->comm->cid,
                                match->match.seq, match->match.tag, mca_pml_spec_my_rank(),
                                spec_host_of(&ompi_proc_local()->super));
    mca_pml_spec_abort(OMPI_ERR_FATAL);
}

void mca_pml_spec_match_deliver(mca_pml_spec_recv_request_t *recvreq,
                                const mca_pml_spec_packet_t *packet)
{
    const mca_pml_spec_match_notice_t *match = mca_pml_spec_packet_hdr(packet);
    const bool joins =
        0 != match->s && NULL != recvreq->posted.claim.at
        && mca_pml_spec_joint_may(recvreq->peer, match->length, false,
                                  spec_claim_sends(&recvreq->posted.claim, match->length));
    mca_pml_spec_recv_matched(recvreq, &match->match, match->length);
    mca_pml_spec_recv_placed(recvreq);
    /* FINs of parts of the data may have come before. */
    if (0
        == mca_pml_spec_add64(&recvreq->missing,
                              (int64_t) (match->length - match->bytes) + joins)) {
        mca_pml_spec_recv_done(recvreq);
    } else if (joins) {
        recvreq->s = match->s;
        recvreq->joint.claim = recvreq->posted.claim;
        recvreq->joint.offset = 0;
        recvreq->joint.length = match->length;
        recvreq->joint.remote = match->addr;
        mca_pml_spec_joint_recv(recvreq, mca_pml_spec_rts_ask_copy);
    }
}

/* ---- sender: RTR and REVOKE arrive ---- */

/* What is counted for an RTR that was not used, and whether it tells that the receiver need not have bothered. */
static const struct {
    uint64_t *counter;
    bool is_miss;
} ends[SPEC_RTR_FATES] = {
    [SPEC_RTR_KEPT] = {&mca_pml_spec.counters.rtr_abandoned, false}, /* its communicator ends */
    [SPEC_RTR_CROSSED] = {&mca_pml_spec.counters.rtr_crossed, true},
    [SPEC_RTR_TOO_OLD] = {&mca_pml_spec.counters.rtr_too_old, true},
    [SPEC_RTR_MISPREDICTED] = {&mca_pml_spec.counters.rtr_mispredicted, true},
    [SPEC_RTR_TOO_SHORT] = {&mca_pml_spec.counters.rtr_too_short, true},
    [SPEC_RTR_FULL] = {&mca_pml_spec.counters.rtr_full, true},
    [SPEC_RTR_REVOKED] = {&mca_pml_spec.counters.rtr_revoked, false},
};

void mca_pml_spec_rtr_drop(mca_pml_spec_peer_t *peer, mca_pml_spec_rtr_t *rtr, spec_rtr_fate_t fate)
{
    MCA_PML_SPEC_VERBOSE(30, "RTR for tag %d dropped: %s", rtr->ctl.tag,
                         mca_pml_spec_why_fate(fate));
    if (SPEC_RTR_REFUSED == fate) {
        mca_pml_spec_refuse("RTR", "it contradicts what was sent");
    } else if (!rtr->ctl.is_revoke) {
        mca_pml_spec_count(ends[fate].counter, 1);
    }
    if (ends[fate].is_miss) {
        mca_pml_spec_adapt_settled(peer, rtr->ctl.tag, false);
    }
    rtr_free(rtr);
}

static void answer_revoke(mca_bml_base_endpoint_t *endpoint, const mca_pml_spec_rtr_t *revoke,
                          uint16_t ctx, int32_t me, uint32_t s)
{
    const mca_pml_spec_revoked_hdr_t hdr = {.type = MCA_PML_SPEC_REVOKED,
                                            .epoch = revoke->back_epoch,
                                            .ctx = ctx,
                                            .src = me,
                                            .tag = revoke->ctl.tag,
                                            .no = revoke->ctl.item.no,
                                            .s = s};
    mca_pml_spec_control_send(endpoint, NULL, &hdr, sizeof(hdr));
}

/* One item of the receiver's control stream, in its turn. send_lock is held; it is released while
 * packets are sent. */
static void control_turn(mca_pml_spec_peer_t *peer, mca_pml_spec_rtr_t *ctl)
{
    if (!ctl->ctl.is_revoke) {
        mca_pml_spec_adapt_arrived(peer, ctl->ctl.tag, ctl->ctl.e);
        spec_rtr_fate_t fate = spec_send_admit(&peer->send, &ctl->ctl);
        if (SPEC_RTR_CROSSED == fate) {
            spec_policy_observed(&peer->policy, SPEC_SAW_CROSSING, ctl->ctl.length, 0);
        }
        if (SPEC_RTR_KEPT != fate) {
            mca_pml_spec_rtr_drop(peer, ctl, fate);
        }
        return;
    }
    spec_node_t dropped, *n;
    spec_list_init(&dropped);
    uint32_t s = spec_send_revoke(&peer->send, ctl->ctl.tag, &dropped);
    mca_pml_spec_unlock(&peer->send_lock);
    while (NULL != (n = spec_list_pop(&dropped))) {
        mca_pml_spec_rtr_drop(peer, SPEC_ENTRY(n, mca_pml_spec_rtr_t, ctl.item.node),
                              SPEC_RTR_REVOKED);
    }
    if (NULL != mca_pml_spec_endpoint(peer)) {
        mca_pml_spec_rtr_notice(peer); /* else the cancel would wait until the puts end */
        answer_revoke(peer->endpoint, ctl, peer->ctx, peer->comm->my_rank, s);
    }
    rtr_free(ctl);
    mca_pml_spec_lock(&peer->send_lock);
}

/* An RTR or REVOKE (ctl, consumed) of a peer of an existing communicator, of the right epoch. */
static void control_arrived(mca_pml_spec_peer_t *peer, mca_pml_spec_rtr_t *ctl)
{
    mca_pml_spec_lock(&peer->send_lock);
    if (NULL == peer->send.ledger && 0 != spec_send_open_ledger(&peer->send)) {
        mca_pml_spec_unlock(&peer->send_lock);
        mca_pml_spec_no_memory("the list of a process's offers (RTRs)", 0);
    }
    spec_stream_t *stream = spec_send_ctl(&peer->send);
    if (!spec_stream_keep(stream, &ctl->ctl.item)) {
        mca_pml_spec_unlock(&peer->send_lock);
        rtr_free(ctl);
        mca_pml_spec_refuse("RTR or REVOKE", "its number was used before");
        return;
    }
    spec_item_t *item;
    while (NULL != (item = spec_stream_take(stream))) {
        control_turn(peer, SPEC_ENTRY(item, mca_pml_spec_rtr_t, ctl.item));
    }
    mca_pml_spec_unlock(&peer->send_lock);
}

/* The communicator that an RTR or REVOKE is for, to be put back. NULL with *parked: there is none yet, the packet is
 * kept for the next with this id; NULL without: it was for one that is gone. */
static mca_pml_spec_comm_t *comm_for(const mca_pml_spec_packet_t *packet, uint16_t cid,
                                     uint8_t epoch, bool *parked)
{
    const mca_pml_spec_cid_slot_t *slot = mca_pml_spec_cid_slot(cid);
    mca_pml_spec_comm_t *comm;
    *parked = false;
    while (NULL == (comm = mca_pml_spec_comm_get(cid)) && NULL != slot && !*parked) {
        mca_pml_spec_lock(&mca_pml_spec.lock);
        const bool is_old = NULL == slot->comm && epoch != spec_recv_epoch_of(slot->incarnations);
        mca_pml_spec_unlock(&mca_pml_spec.lock);
        if (is_old) {
            return NULL;
        }
        *parked = mca_pml_spec_park(cid, packet, false);
    }
    return mca_pml_spec_comm_in_epoch(comm, epoch);
}

MCA_PML_SPEC_KEY_PACKET(rtr, "RTR", mca_pml_spec_rtr_hdr_t, false)
{
    const mca_pml_spec_rtr_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    bool parked;
    mca_pml_spec_comm_t *comm = comm_for(packet, hdr->ctx, hdr->epoch, &parked);
    if (NULL == comm) {
        if (!parked) {
            MCA_PML_SPEC_COUNT(rtr_arrived);
            MCA_PML_SPEC_COUNT(rtr_stale);
        }
        return;
    }
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer_named(comm, hdr->src, hdr->name, "RTR");
    if (NULL != peer) {
        mca_pml_spec_rtr_t *rtr = rtr_new();
        rtr->ctl = (spec_ctl_t){.item = {.no = hdr->no},
                                .tag = hdr->tag,
                                .e = hdr->e,
                                .k = hdr->k,
                                .length = hdr->length};
        rtr->btl = packet->btl;
        rtr->r = hdr->r;
        rtr->addr = hdr->addr;
        rtr->is_ring = MCA_PML_SPEC_RTR_RING == hdr->type;
        rtr->is_staged = MCA_PML_SPEC_RTR_STAGED == hdr->type;
        rtr->key_len = hdr->key_len;
        memcpy(rtr->key, hdr + 1, hdr->key_len);
        if (OPAL_UNLIKELY(!mca_pml_spec_claims_find(peer, hdr->r, hdr->page_pid, hdr->page_fd,
                                                    &rtr->ctl.claim))) {
            rtr->ctl.length = 0; /* no message fits, but its number counts */
        }
        if (rtr->is_ring && !mca_pml_spec_cico_reaches(peer, rtr->addr)) {
            rtr->ctl.length = 0;
        }
        MCA_PML_SPEC_COUNT(rtr_arrived);
        control_arrived(peer, rtr);
    }
    mca_pml_spec_comm_put(comm);
}

/* A REVOKE for a communicator that is gone here, or for RTRs that were dropped as stale: nothing
 * is kept. What was sent before the communicator was freed is in its list of last numbers; a process that never
 * had an RTR of this communicator used none, so the asker may go by its own count (e). */
static void revoke_without_comm(const mca_pml_spec_revoke_hdr_t *hdr,
                                const mca_pml_spec_rtr_t *revoke)
{
    const mca_pml_spec_cid_slot_t *slot = mca_pml_spec_cid_slot(hdr->ctx);
    uint32_t s = hdr->e;
    mca_pml_spec_lock(&mca_pml_spec.lock);
    for (uint32_t i = 0; NULL != slot && hdr->epoch == spec_recv_epoch_of(slot->incarnations - 1)
                         && i < slot->last_seqs_n;
         ++i) {
        if (slot->last_seqs[i].name == hdr->name) {
            s = slot->last_seqs[i].s;
        }
    }
    mca_pml_spec_unlock(&mca_pml_spec.lock);
    opal_process_name_t name = {.jobid = (uint32_t) (hdr->name >> 32),
                                .vpid = (uint32_t) hdr->name};
    ompi_proc_t *proc = (ompi_proc_t *) ompi_proc_for_name(name);
    mca_bml_base_endpoint_t *endpoint = NULL == proc ? NULL : mca_bml_base_get_endpoint(proc);
    if (NULL == endpoint) {
        mca_pml_spec_refuse("REVOKE", "there is no way to the process that sent it");
        return;
    }
    answer_revoke(endpoint, revoke, hdr->back, hdr->dst, s);
}

MCA_PML_SPEC_PACKET(revoke, "REVOKE", mca_pml_spec_revoke_hdr_t)
{
    const mca_pml_spec_revoke_hdr_t *hdr = mca_pml_spec_packet_hdr(packet);
    bool parked;
    mca_pml_spec_comm_t *comm = comm_for(packet, hdr->ctx, hdr->epoch, &parked);
    if (parked) {
        return;
    }
    mca_pml_spec_rtr_t *revoke = rtr_new();
    revoke->ctl = (spec_ctl_t){.item = {.no = hdr->no}, .is_revoke = true, .tag = hdr->tag};
    revoke->back_epoch = hdr->back_epoch;
    if (NULL == comm) {
        revoke_without_comm(hdr, revoke);
        rtr_free(revoke);
        return;
    }
    mca_pml_spec_peer_t *peer = mca_pml_spec_peer_named(comm, hdr->src, hdr->name, "REVOKE");
    if (NULL == peer) {
        rtr_free(revoke);
    } else {
        mca_pml_spec_hello_learn(peer, hdr->back);
        control_arrived(peer, revoke);
    }
    mca_pml_spec_comm_put(comm);
}

/* ---- sender: using an RTR ---- */

/* The MATCH of a send whose use of an RTR is not told yet, which the caller now does. send_lock is held. */
static mca_pml_spec_match_notice_t notice_of(mca_pml_spec_send_request_t *sendreq, uint64_t bytes)
{
    sendreq->noticed = true;
    spec_list_remove(&sendreq->unnoticed);
    (void) mca_pml_spec_add32(&sendreq->peer->unnoticed_n, -1);
    return (mca_pml_spec_match_notice_t){
        .match = mca_pml_spec_match_hdr(MCA_PML_SPEC_MATCH, sendreq->peer,
                                        sendreq->req_send.req_base.req_tag, sendreq->seq),
        .r = sendreq->r,
        .length = sendreq->req_send.req_bytes_packed,
        .bytes = bytes};
}

/* Take the duty to tell the receiver which message used its RTR; false: it is told already. */
static bool take_notice(mca_pml_spec_send_request_t *sendreq, uint64_t bytes,
                        mca_pml_spec_match_notice_t *match)
{
    mca_pml_spec_peer_t *peer = sendreq->peer;
    mca_pml_spec_lock(&peer->send_lock);
    const bool mine = !sendreq->noticed;
    if (mine) {
        *match = notice_of(sendreq, bytes);
    }
    mca_pml_spec_unlock(&peer->send_lock);
    return mine;
}

void mca_pml_spec_rtr_notice(mca_pml_spec_peer_t *peer)
{
    for (;;) {
        mca_pml_spec_match_notice_t match;
        mca_pml_spec_lock(&peer->send_lock);
        spec_node_t *n = spec_list_first(&peer->unnoticed);
        if (NULL != n) {
            match = notice_of(SPEC_ENTRY(n, mca_pml_spec_send_request_t, unnoticed), 0);
        }
        mca_pml_spec_unlock(&peer->send_lock);
        if (NULL == n) {
            return;
        }
        MCA_PML_SPEC_COUNT(match_notices);
        mca_pml_spec_control_send(peer->endpoint, NULL, &match, sizeof(match));
    }
}

/* Tells the receiver ahead of the data which message used its RTR. */
static void tell_match(mca_pml_spec_send_request_t *sendreq)
{
    mca_pml_spec_match_notice_t match;
    if (take_notice(sendreq, 0, &match)) {
        mca_pml_spec_control_send(sendreq->peer->endpoint, NULL, &match, sizeof(match));
    }
}

/* Both ends move the message: the receiver is told at once, and this end takes pieces when it waits. False: another thread has
 * told the receiver of this message, so that it takes none. */
static bool write_jointly(mca_pml_spec_send_request_t *sendreq, const mca_pml_spec_rtr_t *rtr)
{
    const uint64_t length = sendreq->req_send.req_bytes_packed;
    mca_pml_spec_match_notice_t match;
    if (!take_notice(sendreq, 0, &match)) {
        return false;
    }
    sendreq->owed = (int64_t) length;
    sendreq->joined = true;
    sendreq->awaits_cts = false;
    (void) mca_pml_spec_handle_open(&mca_pml_spec.send_handles, sendreq, &sendreq->handle);
    (void) mca_pml_spec_add64(&sendreq->left, 1);
    sendreq->joint.claim = rtr->ctl.claim;
    sendreq->joint.offset = 0;
    sendreq->joint.length = length;
    sendreq->joint.remote = rtr->addr;
    if (sendreq->sends_fragments) {
        spec_claim_send(&sendreq->joint.claim);
    }
    match.s = mca_pml_spec_handle_tell(&sendreq->handle);
    match.addr = (uint64_t) (uintptr_t) sendreq->flat;
    mca_pml_spec_control_send(sendreq->peer->endpoint, NULL, &match, sizeof(match));
    mca_pml_spec_joint_send(sendreq);
    return true;
}

/* Through the receiver's ring: it is told of the message at once, and takes the data itself. */
static bool write_to_ring(mca_pml_spec_send_request_t *sendreq, const mca_pml_spec_rtr_t *rtr)
{
    tell_match(sendreq);
    return mca_pml_spec_cico_join_send(sendreq, rtr->addr);
}

/* By copy, because RDMA is not to be had for this range. */
static void write_by_copy(void *sendreq, uint64_t offset, uint64_t length)
{
    tell_match(sendreq);
    mca_pml_spec_copy_send(sendreq, offset, length);
}

/* Data that takes so long that what is sent behind it passes it, where the transport lets it (promises.h). What passes is
 * matched in the order of the calls: the receiver must know of this message before. For less, a packet is saved. */
#define PASSED_LEAST (UINT64_C(128) << 10)

static bool is_passed(mca_bml_base_btl_t *const *btl, size_t n, uint64_t length)
{
    bool passed = false;
    for (size_t i = 0; i < n && length >= PASSED_LEAST; ++i) {
        passed |= 0 != (mca_btl_ibx_promises(btl[i]->btl) & MCA_BTL_IBX_ORDERED);
    }
    return passed;
}

/* By the transport of the data, so that it follows the data. */
static void put_tell(mca_pml_spec_transfer_t *transfer)
{
    mca_pml_spec_send_request_t *sendreq = transfer->args.request;
    mca_pml_spec_match_notice_t match;
    if (take_notice(sendreq, transfer->args.length, &match)) {
        mca_pml_spec_transfer_told(transfer, &match, sizeof(match));
    } else {
        mca_pml_spec_put_tell(transfer);
    }
}

/* What carries the registration for a transport: the RTR, a KEY, or NULL. */
static const mca_pml_spec_rtr_t *key_for(const mca_btl_base_module_t *btl,
                                         const mca_pml_spec_rtr_t *rtr, const spec_node_t *keys)
{
    return rtr->btl == btl && rtr->key_len > 0 ? rtr : mca_pml_spec_keys_find(keys, btl);
}

static void put(mca_pml_spec_send_request_t *sendreq, const mca_pml_spec_rtr_t *rtr,
                const spec_node_t *keys, const mca_pml_spec_stripe_t *stripe)
{
    const mca_pml_spec_rtr_t *key = key_for(stripe->btl->btl, rtr, keys);
    const mca_pml_spec_transfer_args_t args = {.is_put = true,
                                               .is_timed = true,
                                               .in_pieces = sendreq->staged || rtr->is_staged,
                                               .btl = stripe->btl,
                                               .local =
                                                   mca_pml_spec_send_at(sendreq, stripe->offset),
                                               .remote = rtr->addr + stripe->offset,
                                               .offset = stripe->offset,
                                               .length = stripe->length,
                                               .key = NULL == key ? rtr->key : key->key,
                                               .key_len = NULL == key ? 0 : key->key_len,
                                               .request = sendreq,
                                               .tell = put_tell,
                                               .by_copy = write_by_copy};
    mca_pml_spec_pipe_start(&args);
}

void mca_pml_spec_rtr_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr)
{
    mca_bml_base_btl_t *candidate[MCA_PML_SPEC_STRIPES];
    mca_bml_base_btl_t *usable[MCA_PML_SPEC_STRIPES];
    mca_pml_spec_stripe_t stripe[MCA_PML_SPEC_STRIPES];
    const uint64_t length = sendreq->req_send.req_bytes_packed;
    const uint64_t local = (uint64_t) (uintptr_t) sendreq->flat;
    size_t n = 0;
    spec_node_t keys;
    spec_list_init(&keys);
    mca_pml_spec_keys_take(sendreq->peer, rtr->r, &keys);
    mca_pml_spec_adapt_settled(sendreq->peer, rtr->ctl.tag, true);
    MCA_PML_SPEC_COUNT(rtr_used);
    MCA_PML_SPEC_COUNT(sent_rtr);
    sendreq->waiting = 0;
    mca_pml_spec_stage(sendreq, &mca_pml_spec_proto_rtr, WRITING);
    const bool may_join = NULL != rtr->ctl.claim.at && !rtr->is_ring;
    sendreq->sends_fragments = may_join && mca_pml_spec_joint_sends(sendreq);
    if (may_join
        && mca_pml_spec_joint_may(sendreq->peer, length, sendreq->blocks, sendreq->sends_fragments)
        && write_jointly(sendreq, rtr)) {
        mca_pml_spec_keys_free(&keys);
        rtr_free(rtr);
        return;
    }
    if (rtr->is_ring && write_to_ring(sendreq, rtr)) {
        mca_pml_spec_keys_free(&keys);
        rtr_free(rtr);
        return;
    }
    const size_t candidates = mca_pml_spec_rdma_btls(sendreq->peer->endpoint, candidate);
    for (size_t i = 0; i < candidates; ++i) {
        const bool has_key = NULL != key_for(candidate[i]->btl, rtr, &keys);
        if (!rtr->is_ring
            && mca_pml_spec_can_rdma(candidate[i], true, local, rtr->addr, length, has_key)) {
            usable[n++] = candidate[i];
        }
    }
    if (0 == n) {
        mca_pml_spec_stage(sendreq, &mca_pml_spec_proto_rtr, COPYING);
        MCA_PML_SPEC_COUNT(fallbacks);
        write_by_copy(sendreq, 0, length);
        mca_pml_spec_keys_free(&keys);
        rtr_free(rtr);
        return;
    }
    /* A MATCH has no offset, so it tells of no piece. */
    if (sendreq->staged || rtr->is_staged || is_passed(usable, n, length)) {
        tell_match(sendreq);
    }
    const size_t stripes = mca_pml_spec_share(usable, n, length, stripe);
    for (size_t i = 0; i < stripes; ++i) {
        put(sendreq, rtr, &keys, &stripe[i]);
    }
    mca_pml_spec_keys_free(&keys);
    rtr_free(rtr);
}

const mca_pml_spec_packet_type_t mca_pml_spec_rtr_packets[] = {
    {MCA_PML_SPEC_RTR, mca_pml_spec_recv_rtr, rtr_arrived},
    {MCA_PML_SPEC_RTR_RING, mca_pml_spec_recv_rtr, rtr_arrived},
    {MCA_PML_SPEC_RTR_STAGED, mca_pml_spec_recv_rtr, rtr_arrived},
    {MCA_PML_SPEC_REVOKE, mca_pml_spec_recv_revoke, revoke_arrived},
    {0, NULL, NULL},
};
