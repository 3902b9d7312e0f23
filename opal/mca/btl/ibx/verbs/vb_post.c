/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Posts work requests to the send queue: is there room, is there credit, and which requests ask for a completion. */
#include "vb_connect.h"
#include "vb_hybrid.h"

#include <errno.h>

/* Slots of a send queue that data leaves for control messages. */
#define CONTROL_SLOTS 2u

void vb_peer_wait(vb_peer_t *peer)
{
    if (!peer->is_waiting) {
        peer->is_waiting = true;
        peer->next_waiting = peer->port->waiting;
        peer->port->waiting = peer;
    }
}

/* May data be posted to this peer? */
static vb_status_t check(vb_peer_t *peer)
{
    vb_port_t *port = peer->port;
    if (vb_peer_is_by_datagrams(peer)) {
        return VB_AGAIN; /* its turn is later */
    }
    if (VB_OPEN != peer->conn.state) {
        if (vb_conn_is_over(&peer->conn)) {
            return VB_DEAD == peer->conn.state ? VB_LOST : VB_ENDED;
        }
        vb_peer_wants(peer);
        if (VB_OPEN != peer->conn.state) { /* a port is connected to itself at once */
            return VB_DEAD == peer->conn.state ? VB_LOST : VB_AGAIN;
        }
    }
    if (peer->is_cut) {
        return VB_AGAIN; /* until its end is told */
    }
    if (NULL != peer->kept) {
        vb_peer_wait(peer);
        return VB_AGAIN; /* what was posted to the connection that broke goes first */
    }
    if (!vb_sendq_has_room(&peer->link->sendq, 1, CONTROL_SLOTS) || !vb_entries_take(&port->entries, 1)) {
        ++port->counters.no_room;
        vb_peer_wait(peer);
        return VB_AGAIN;
    }
    return VB_OK;
}

/* Is it more than is copied? The way to the peer may have changed since it was decided. */
static bool is_too_long(const vb_link_t *link, const struct ibv_send_wr *wr)
{
    uint64_t bytes = 0;
    for (int i = 0; i < wr->num_sge; ++i) {
        bytes += wr->sg_list[i].length;
    }
    return bytes > link->inline_max;
}

/* Posts it. One entry of the completion queue has been taken for it, which is given back on failure. */
static vb_status_t post(vb_link_t *link, struct ibv_send_wr *wr, unsigned flags, void *user, vb_sent_t sent)
{
    vb_peer_t *peer = link->peer;
    vb_port_t *port = peer->port;
    const uint32_t interval =
        vb_sendq_interval(link->sendq.depth, port->links, port->entries.limit);
    const bool signal = 0 != (flags & VB_SIGNAL) || vb_sendq_must_signal(&link->sendq, interval);
    struct ibv_send_wr *bad = NULL;
    if (flags & VB_INLINE && __builtin_expect(is_too_long(link, wr), 0)) {
        vb_entries_give(&port->entries, 1);
        return VB_FAULT;
    }
    wr->wr_id = vb_wr_id(false, link->generation, link->sendq.nxt);
    wr->send_flags |= signal ? IBV_SEND_SIGNALED : 0;
    wr->send_flags |= flags & VB_INLINE ? IBV_SEND_INLINE : 0;
    const bool fence = flags & VB_FENCE && link->reads > 0 && port->able.fences;
    wr->send_flags |= fence ? IBV_SEND_FENCE : 0;
    const int rc = NULL == link->qp ? 0 : ibv_post_send(link->qp, wr, &bad);
    if (0 != rc) {
        vb_entries_give(&port->entries, 1);
        if (ENOMEM == rc && vb_sendq_outstanding(&link->sendq) > 0) {
            ++port->counters.no_room;
            vb_peer_wait(peer);
            return VB_AGAIN;
        }
        if (EOPNOTSUPP == rc
            || (EINVAL == rc && IBV_WR_SEND != wr->opcode && IBV_WR_RDMA_WRITE != wr->opcode
                && IBV_WR_RDMA_READ != wr->opcode)) {
            return VB_FAULT;
        }
        (void) vb_peer_why(peer, "a work request cannot be posted: %s", strerror(rc));
        vb_peer_cut(peer);
        return VB_AGAIN; /* the connection's end is told in order, with what has arrived before */
    }
    const uint32_t number = vb_sendq_post(&link->sendq, signal);
    vb_request_t *request = &link->requests[number % link->sendq.depth];
    request->user = user;
    request->sent = sent;
    request->is_signalled = signal;
    request->is_done = false;
    link->reads += VB_SENT_READ == sent.kind;
    if (NULL != link->copies) {
        vb_link_note(link, number, wr, flags);
    }
    if (__builtin_expect(NULL == link->qp, 0)) {
        link->by->pump(link);
    }
    return VB_OK;
}

/* What is not control: with it the connection is in use. */
static vb_status_t post_data(vb_peer_t *peer, struct ibv_send_wr *wr, unsigned flags, void *user, vb_sent_kind_t kind)
{
    const vb_sent_t sent = vb_sent(kind, peer->messages_sent);
    const vb_status_t status = post(peer->link, wr, flags, user, sent);
    if (VB_OK == status) {
        vb_hybrid_used(peer);
        peer->messages_sent = VB_SENT_MESSAGE == kind ? sent.mark : peer->messages_sent;
    }
    return status;
}

static vb_status_t check_and_post(vb_peer_t *peer, struct ibv_send_wr *wr, unsigned flags, void *user, vb_sent_kind_t kind)
{
    const vb_status_t status = check(peer);
    return VB_OK == status ? post_data(peer, wr, flags, user, kind) : status;
}

/* Returns the credits that the header tells of, to be taken back if it is not sent after all. */
static uint16_t tell(vb_link_t *link, vb_hdr_t *hdr, vb_type_t type, uint8_t tag)
{
    const uint16_t credits = vb_credit_tell(&link->credit);
    vb_hdr_write(hdr, type, tag, credits, link->credit.control_got);
    return credits;
}

vb_status_t vb_post_send(vb_peer_t *peer, vb_hdr_t *hdr, uint8_t tag, struct ibv_sge *piece,
                         int pieces, unsigned flags, void *request)
{
    vb_port_t *port = peer->port;
    if (vb_peer_is_by_datagrams(peer)) {
        return vb_hybrid_send(peer, hdr, tag, piece, pieces, flags, request);
    }
    if (VB_OPEN == peer->conn.state && !vb_credit_may_send(&peer->link->credit)) {
        ++port->counters.no_credit;
        vb_peer_wait(peer);
        return VB_AGAIN;
    }
    vb_status_t status = check(peer);
    if (VB_OK != status) {
        return status;
    }
    vb_link_t *link = peer->link;
    const uint16_t told = tell(link, hdr, VB_MESSAGE, tag);
    struct ibv_send_wr wr = {.sg_list = piece, .num_sge = pieces, .opcode = IBV_WR_SEND};
    status = post_data(peer, &wr, flags, request, VB_SENT_MESSAGE);
    if (VB_OK != status) {
        vb_credit_untell(&link->credit, told);
        return status;
    }
    vb_credit_sent(&link->credit, false);
    ++port->counters.sent;
    port->counters.inlined += 0 != (flags & VB_INLINE);
    return VB_OK;
}

bool vb_post_control(vb_link_t *link, vb_type_t type)
{
    vb_port_t *port = link->peer->port;
    vb_hdr_t control;
    if (!vb_credit_may_control(&link->credit) || !vb_sendq_has_room(&link->sendq, 1, 0)
        || !vb_entries_take(&port->entries, 1)) {
        return false;
    }
    const uint16_t told = tell(link, &control, type, 0);
    struct ibv_sge piece = {.addr = (uintptr_t) &control, .length = sizeof(control)};
    unsigned flags = VB_BYE == type ? VB_SIGNAL | VB_INLINE : VB_INLINE;
    if (NULL != link->controls) {
        vb_hdr_t *there = &link->controls[link->sendq.nxt % link->sendq.depth];
        *there = control;
        piece.addr = (uintptr_t) there;
        piece.lkey = link->controls_mr->lkey;
        flags &= ~(unsigned) VB_INLINE;
    }
    struct ibv_send_wr wr = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND};
    if (VB_OK != post(link, &wr, flags, NULL, vb_sent(VB_SENT_CONTROL, 0))) {
        vb_credit_untell(&link->credit, told);
        return false;
    }
    vb_credit_sent(&link->credit, true);
    port->counters.credit_messages += VB_CREDIT == type;
    return true;
}

vb_status_t vb_post_rdma(vb_peer_t *peer, struct ibv_sge *piece, uint64_t remote, uint32_t rkey,
                         unsigned flags, void *request)
{
    const bool reads = 0 != (flags & VB_READ);
    vb_counters_t *counters = &peer->port->counters;
    struct ibv_send_wr wr = {.sg_list = piece,
                             .num_sge = 1,
                             .opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                             .wr.rdma = {.remote_addr = remote, .rkey = rkey}};
    const vb_status_t status = check_and_post(peer, &wr, flags, request, reads ? VB_SENT_READ : VB_SENT_WRITE);
    *(reads ? &counters->read : &counters->written) += VB_OK == status ? piece->length : 0;
    return status;
}

vb_status_t vb_post_atomic(vb_peer_t *peer, struct ibv_sge *piece, uint64_t remote, uint32_t rkey,
                           uint64_t operand, const uint64_t *swap, unsigned flags, void *request)
{
    if (!peer->port->able.atomics || 8 != piece->length || 0 != (remote & 7)) {
        return VB_FAULT;
    }
    if (NULL != peer->link && !vb_link_has_pair(peer->link)) {
        return VB_AGAIN; /* the adapter does it, when its network carries again */
    }
    struct ibv_send_wr wr = {.sg_list = piece,
                             .num_sge = 1,
                             .opcode = NULL == swap ? IBV_WR_ATOMIC_FETCH_AND_ADD
                                                    : IBV_WR_ATOMIC_CMP_AND_SWP,
                             .wr.atomic = {.remote_addr = remote,
                                           .compare_add = operand,
                                           .swap = NULL == swap ? 0 : *swap,
                                           .rkey = rkey}};
    const vb_status_t status = check_and_post(peer, &wr, flags, request, VB_SENT_ATOMIC);
    peer->port->counters.atomics += VB_OK == status;
    return status;
}

vb_status_t vb_post_kept(vb_link_t *link, const vb_request_t *kept)
{
    const bool is_message = VB_SENT_MESSAGE == kept->sent.kind;
    struct ibv_sge piece[2] = {kept->piece[0], kept->piece[1]};
    vb_hdr_t *hdr = (vb_hdr_t *) (uintptr_t) piece[0].addr; /* of a message */
    struct ibv_send_wr wr = {.sg_list = piece,
                             .num_sge = kept->pieces,
                             .opcode = is_message                          ? IBV_WR_SEND
                                       : VB_SENT_READ == kept->sent.kind ? IBV_WR_RDMA_READ
                                                                         : IBV_WR_RDMA_WRITE,
                             .wr.rdma = {.remote_addr = kept->remote, .rkey = kept->rkey}};
    if ((is_message && !vb_credit_may_send(&link->credit)) || !vb_sendq_has_room(&link->sendq, 1, CONTROL_SLOTS)
        || !vb_entries_take(&link->peer->port->entries, 1)) {
        return VB_AGAIN;
    }
    const uint16_t told =
        is_message ? tell(link, hdr, VB_MESSAGE, hdr->tag) : 0;
    const vb_status_t status = post(link, &wr, kept->flags, kept->user, kept->sent);
    if (VB_OK != status) {
        vb_credit_untell(&link->credit, told);
    } else if (is_message) {
        vb_credit_sent(&link->credit, false);
    }
    return status;
}

static void end(vb_link_t *link, vb_request_t *request, vb_status_t status)
{
    vb_port_t *port = link->peer->port;
    void *user = request->user;
    request->is_done = true;
    request->user = NULL;
    link->reads -= VB_SENT_READ == request->sent.kind;
    if (NULL != user) {
        port->config.done(port->config.context, link->peer, user, status);
    }
}

/* Those done at the head of the queue give their slots back. */
static void advance(vb_link_t *link)
{
    while (vb_sendq_outstanding(&link->sendq) > 0
           && link->requests[link->sendq.una % link->sendq.depth].is_done) {
        ++link->sendq.una;
        vb_entries_give(&link->peer->port->entries, 1);
    }
}

/* A silent request is complete when a later one is. One with a completion of its own waits for that: the
 * answer to a read may come after messages that were posted behind it have gone (siw tells so, against
 * the order that verbs promise). */
void vb_link_retire(vb_link_t *link, uint32_t number)
{
    for (uint32_t i = link->sendq.una; i != number + 1; ++i) {
        vb_request_t *request = &link->requests[i % link->sendq.depth];
        if (!request->is_done && (i == number || !request->is_signalled)) {
            end(link, request, VB_OK);
        }
    }
    advance(link);
}

void vb_link_fail(vb_link_t *link, vb_status_t status)
{
    for (uint32_t i = link->sendq.una; i != link->sendq.nxt; ++i) {
        vb_request_t *request = &link->requests[i % link->sendq.depth];
        if (!request->is_done) {
            end(link, request, status);
        }
    }
    advance(link);
}
