/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A datagram comes in. Checks in this order, each before anything changes: length, version, connection,
 * tag, packet number; then its blocks; then its segment. */
#include "iw_internal.h"

/* Counts a refusal. Returns false. */
static bool refuse(uint64_t *counter)
{
    ++*counter;
    return false;
}

/* The peer that a datagram says it is from; NULL: none that is known, and counted. */
static iw_peer_t *find_peer(iw_engine_t *e, const iw_frame_t *f)
{
    uint32_t conn = iw_get32(f->head->conn), at = conn & IW_CONN_INDEX_MASK;
    if (0 == conn && NULL != f->hello) {
        iw_known_t *k = iw_known_find(e, iw_get64(f->hello->identity));
        return NULL == k ? NULL : k->peer;
    }
    if (0 == conn || at >= e->conns || NULL == e->conn[at] || e->conn[at]->conn != conn) {
        (void) refuse(&e->count.refused_connection);
        return NULL;
    }
    return e->conn[at];
}

/* `apart`: what is behind the first `prefix` bytes, if it is elsewhere. A hello says itself which connection it is for. */
static bool tag_is_right(const iw_engine_t *e, const iw_peer_t *p, const iw_frame_t *f,
                         size_t prefix, size_t length, const uint8_t *apart)
{
    const struct iovec piece[] = {{(void *) (uintptr_t) f->head, prefix},
                                  {(void *) (uintptr_t) apart, length - prefix}};
    return iw_auth_tag(&e->auth, NULL == f->hello ? p->generation : 0, piece,
                       length > prefix ? 2 : 1)
           == iw_get64(f->head->tag);
}

/* The peer says which process it is. False: refused, and counted. */
static bool hello_in(iw_engine_t *e, iw_peer_t **peer, const iw_hello_t *h, uint64_t now)
{
    uint64_t identity = iw_get64(h->identity), generation = iw_get64(h->generation);
    uint64_t answers = iw_get64(h->answers);
    uint16_t datagram = iw_get16(h->datagram);
    iw_peer_t *p = *peer;
    if (NULL == p && NULL != e->config.unknown) {
        iw_known_t *known = iw_known_find(e, identity);
        /* Of a connection that we ended: not a reason to begin another. */
        if (NULL == known || generation > known->generation) {
            p = *peer = e->config.unknown(e->config.context, e, identity);
        }
    }
    if (NULL == p || p->identity != identity) {
        return refuse(&e->count.refused_unknown);
    }
    if (0 == generation || 0 == iw_get32(h->conn) || datagram < e->config.datagram_min
        || (0 != answers && (IW_IDLE == p->state || answers != p->generation))) {
        return refuse(&e->count.refused_stale);
    }
    if (p->remote_generation == generation) {
        return true;
    }
    iw_known_t *k = iw_known_find(e, identity);
    if (NULL == k || generation <= k->generation) {
        return refuse(&e->count.refused_stale);
    }
    if (0 != p->remote_generation) {
        /* A later process, or a later connection of the same: what we sent to the one before is void. */
        iw_peer_down(p, IW_RESTARTED, NULL);
        return refuse(&e->count.refused_stale);
    }
    if (IW_IDLE == p->state && !iw_peer_activate(p, now)) {
        return refuse(&e->count.refused_memory);
    }
    if (IW_ACTIVE != p->state && IW_GIVEN_UP != p->state) {
        return refuse(&e->count.refused_down);
    }
    k->generation = generation;
    p->remote_generation = generation;
    p->remote_conn = iw_get32(h->conn);
    p->tx.peer_reads = 0 == h->reads ? 1 : h->reads;
    iw_path_init(&p->path.mtu, e->config.datagram_min,
                 datagram < e->config.datagram_max ? datagram : e->config.datagram_max);
    return true;
}

/* A packet that must be acknowledged has been accepted. */
static void ack_due(iw_peer_t *p, const iw_frame_t *f, size_t length, bool in_order, uint64_t now)
{
    ++p->rx.unacked;
    p->rx.unacked_bytes += (uint32_t) length;
    /* Out of order: the sender's loss detection waits for it (RFC 9000, 13.2.1). */
    if ((f->flags & (IW_F_NOW | IW_F_HELLO)) || !in_order || p->rx.unacked >= IW_ACK_PACKETS
        || p->rx.unacked_bytes >= IW_ACK_BYTES
        || p->rx.unacked_bytes >= p->engine->config.receive_space / IW_ACK_SHARE || p->engine->is_marked) {
        p->rx.ack_now = true;
    }
    if (p->rx.ack_now) {
        iw_ready(p);
        return;
    }
    if (f->flags & IW_F_SOON) {
        p->rx.ack_at = now + IW_ACK_SOON;
    } else if (0 == p->rx.ack_at) {
        p->rx.ack_at = now + p->engine->config.ack_delay_ns;
    }
}

/* Does it carry something that its sender wants acknowledged? */
static iw_verdict_t body_in(iw_peer_t *p, const iw_frame_t *f, bool *eliciting)
{
    *eliciting = IW_SEGMENT == f->type || IW_PROBE == f->type
                 || IW_F_HELLO == (f->flags & (IW_F_HELLO | IW_F_ACK));
    switch (f->type) {
    case IW_SEGMENT:
        return iw_rdmap_segment(p, f);
    case IW_TERMINATE:
        iw_rdmap_terminated(p, f);
        return IW_TERMINATED;
    case IW_CLOSE:
        iw_peer_down(p, IW_CLOSED, NULL);
        return IW_TERMINATED;
    default:
        return IW_ACCEPTED;
    }
}

static bool number_is_new(iw_engine_t *e, const iw_peer_t *p, const iw_frame_t *f)
{
    const iw_seen_verdict_t verdict = iw_seen_check(&p->rx.seen, f->pn, f->floor);
    return IW_SEEN_NEW == verdict
           || refuse(IW_SEEN_TWICE == verdict ? &e->count.refused_twice : &e->count.refused_far);
}

static bool frame_is_right(iw_engine_t *e, const uint8_t *data, size_t length, iw_frame_t *f)
{
    const iw_frame_verdict_t verdict = iw_frame_check(data, length, f);
    return IW_FRAME_OK == verdict
           || refuse(IW_FRAME_LENGTH == verdict ? &e->count.refused_length : &e->count.refused_version);
}

/* The peer that a datagram is from, which a member of the job has made; it may still be old, or make no sense. NULL: refused. */
static iw_peer_t *sender_of(iw_engine_t *e, const iw_frame_t *f, uint64_t now, const uint8_t *data, size_t prefix,
                            size_t length)
{
    iw_peer_t *p = find_peer(e, f);
    if (NULL == p && (NULL == f->hello || 0 != iw_get32(f->head->conn))) {
        return NULL;
    }
    if (!tag_is_right(e, p, f, prefix, length, e->apart)) {
        (void) refuse(&e->count.refused_tag);
        if (NULL != e->apart && NULL != p) {
            iw_direct_spoiled(e, p, data, prefix);
        }
        return NULL;
    }
    if (NULL != f->hello) {
        e->hello = NULL == e->apart ? data : NULL;
        e->hello_length = length;
        const bool known = hello_in(e, &p, f->hello, now);
        e->hello = NULL;
        return known ? p : NULL;
    }
    if (0 == p->remote_generation) {
        (void) refuse(&e->count.refused_stale); /* it has not said for which connection of its own */
        return NULL;
    }
    return p;
}

/* A datagram for a connection that has ended. The peer has not heard; but what is sent again by somebody else, or ends it, too, is
 * not answered. */
static void answer_late(iw_engine_t *e, iw_peer_t *p, const iw_frame_t *f)
{
    (void) refuse(&e->count.refused_down);
    if ((IW_GIVEN_UP == p->state || (IW_DOWN == p->state && p->term.ours)) && IW_TERMINATE != f->type && IW_CLOSE != f->type
        && IW_SEEN_NEW == iw_seen_check(&p->rx.seen, f->pn, f->floor)) {
        (void) iw_seen_add(&p->rx.seen, f->pn, f->floor);
        p->term.pending = true;
        iw_ready(p);
    }
}

/* It knows our connection number. If it was asked for that it shall know that it was heard; without a hello it does. */
static void answered(iw_peer_t *p, bool is_mutual)
{
    if (!p->confirmed && p->alive.questions > 0) {
        p->tx.ping_pending = true;
        iw_ready(p);
    }
    p->confirmed = true;
    p->mutual = is_mutual;
}

/* Its number and its mark, and what these tell of the network. True: it follows the one before. */
static bool note(iw_engine_t *e, iw_peer_t *p, const iw_frame_t *f, size_t length)
{
    p->rx.marks += e->is_marked && (uint8_t) (p->rx.marks - p->rx.marks_told) < UINT8_MAX;
    e->count.marked_in += e->is_marked;
    iw_receive_came(p, f, length);
    return iw_seen_add(&p->rx.seen, f->pn, f->floor);
}

static void input(iw_engine_t *e, uint64_t now, const uint8_t *data, size_t prefix, size_t length)
{
    iw_frame_t f;
    bool eliciting;
    now = iw_time(e, now);
    e->goes_on = false;
    ++e->count.packets_in;
    e->count.bytes_in += length;
    if (!frame_is_right(e, data, length, &f)) {
        return;
    }
    iw_peer_t *p = sender_of(e, &f, now, data, prefix, length);
    if (NULL == p) {
        return;
    }
    if (IW_ACTIVE != p->state) {
        answer_late(e, p, &f);
        return;
    }
    if (!number_is_new(e, p, &f)) {
        return;
    }
    if (NULL != f.ack && !iw_loss_ack(p, &f, now)) {
        (void) refuse(&e->count.refused_ack);
        return;
    }
    if (IW_ACTIVE != p->state) {
        return; /* the acknowledgement ended the connection */
    }
    p->alive.heard = now;
    p->alive.asked = 0;
    p->alive.quiet = IW_HEARD;
    p->alive.unreachable = false;
    if (e->by_alternate) {
        e->count.failovers += iw_failover_came(&p->failover, p->tx.next_pn, now);
    }
    if (!p->mutual && 0 != iw_get32(f.head->conn)) {
        answered(p, NULL == f.hello);
    }
    iw_verdict_t verdict = body_in(p, &f, &eliciting);
    if (IW_TERMINATED == verdict) {
        return;
    }
    if (IW_REFUSED == verdict && eliciting) {
        p->rx.ack_now = true; /* what is missing, and that we are here */
        iw_ready(p);
    }
    if (IW_ACCEPTED == verdict) {
        bool in_order = note(e, p, &f, length);
        if (f.pn + 1 == p->rx.seen.end) {
            p->rx.largest_at = now;
        }
        if (eliciting) {
            ack_due(p, &f, length, in_order, now);
        }
    }
    iw_timer_set(p);
}

void iw_engine_input(iw_engine_t *e, uint64_t now, const uint8_t *data, size_t length)
{
    input(e, now, data, length, length);
}

void iw_engine_marked(iw_engine_t *e, bool is_marked)
{
    e->is_marked = is_marked;
}

void iw_engine_input_alternate(iw_engine_t *e, uint64_t now, const uint8_t *data, size_t length)
{
    ++e->count.alternate_in;
    e->is_marked = false;
    e->by_alternate = true;
    input(e, now, data, length, length);
    e->by_alternate = false;
}

void iw_engine_input_placed(iw_engine_t *e, uint64_t now, const uint8_t *data, size_t prefix, size_t length,
                            const uint8_t *at)
{
    e->apart = at;
    input(e, now, data, prefix, length);
    e->apart = NULL;
}

const uint8_t *iw_engine_hello(const iw_engine_t *e, size_t *length)
{
    *length = NULL == e->hello ? 0 : e->hello_length;
    return e->hello;
}

bool iw_engine_goes_on(const iw_engine_t *e)
{
    return e->goes_on;
}
