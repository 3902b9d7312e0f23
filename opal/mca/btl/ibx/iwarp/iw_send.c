/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Cuts requests into segments and sends those that the windows allow, as new packets or again. */
#include "iw_build.h"

void iw_segment_free(iw_segment_t *s)
{
    if (spec_node_is_queued(&s->link)) {
        spec_list_remove(&s->link);
    }
    iw_pool_put(&s->peer->engine->segments, s);
}

/* ---- cutting ---- */

static iw_request_t *first_of(const spec_node_t *list)
{
    return spec_list_is_empty(list) ? NULL : SPEC_ENTRY(list->next, iw_request_t, queue);
}

static iw_request_t *first_send(const iw_peer_t *p)
{
    const uint32_t reads =
        p->tx.peer_reads < p->engine->config.reads ? p->tx.peer_reads : p->engine->config.reads;
    const bool may_ask = p->tx.reads_out < reads; /* else some are out, for which a fence waits, too */
    if (may_ask && !spec_list_is_empty(&p->tx.asks)) {
        return first_of(&p->tx.asks);
    }
    iw_request_t *r = first_of(&p->tx.sends);
    const bool blocked = NULL != r
                         && (((r->flags & IW_FENCE) && p->tx.reads_out > 0)
                             || (iw_request_asks(r) && !may_ask));
    return blocked ? NULL : r;
}

static bool is_send(const iw_request_t *r)
{
    return NULL != r && IW_DO_SEND == r->operation;
}

/* Bytes that may be in flight. A peer that serves others takes what is small all the same. */
static uint32_t window_of(const iw_peer_t *p)
{
    const uint32_t least = iw_build_least(p->engine);
    return p->tx.window > least ? p->tx.window : least;
}

/* It serves others (iw_share.h), and will tell when it is our turn; what tells so may be lost, so it is asked now and then. */
static bool is_told_to_wait(const iw_peer_t *p, uint64_t now)
{
    return 0 == p->tx.window && now - p->tx.window_at < IW_PERSIST;
}

/* What is left of it goes in one datagram, whatever the path carries. */
static bool is_small(const iw_peer_t *p, const iw_request_t *r)
{
    return iw_request_asks(r) || r->length - r->cut <= p->engine->config.datagram_min / 2;
}

/* NULL: there is none, or none that may be sent now, and then *waits. */
static iw_request_t *next_request(iw_peer_t *p, uint64_t now, bool *waits)
{
    iw_request_t *first[IW_QUEUES] = {
        [IW_QUEUE_SENDS] = first_send(p),
        [IW_QUEUE_BULK] = first_of(&p->tx.bulk),
        [IW_QUEUE_RESPONSES] = first_of(&p->tx.responses),
    };
    /* No message begins between the segments of another. */
    const iw_request_t *send = first_of(&p->tx.sends), *behind = first[IW_QUEUE_BULK];
    if (is_send(behind) && is_send(send) && send->cut > 0) {
        first[IW_QUEUE_BULK] = NULL;
    } else if (is_send(behind) && behind->cut > 0 && is_send(first[IW_QUEUE_SENDS])) {
        first[IW_QUEUE_SENDS] = NULL;
    }
    *waits = false;
    for (unsigned i = 0; i < IW_QUEUES && is_told_to_wait(p, now); ++i) {
        if (NULL != first[i] && !is_small(p, first[i])) {
            first[i] = NULL;
            *waits = true;
        }
    }
    for (unsigned i = 1; i <= IW_QUEUES; ++i) {
        const unsigned queue = (p->tx.turn + i) % IW_QUEUES;
        if (NULL != first[queue]) {
            p->tx.turn = (uint8_t) queue;
            return first[queue];
        }
    }
    return NULL;
}

/* Its message, if it is an untagged one, is the next of its queue (RFC 5041, 5.2). */
static void number(iw_peer_t *p, iw_request_t *r)
{
    if (IW_DO_SEND == r->operation) {
        r->msn = p->tx.send_msn++;
    } else if (iw_request_asks(r)) {
        r->msn = p->tx.read_msn++;
    } else if (IW_DO_ANSWER == r->operation) {
        r->msn = p->tx.answer_msn++;
    }
}

/* Of the memory that it is served from. */
static uint32_t uses_ended(const iw_segment_t *s)
{
    return iw_memory_ended(&s->peer->engine->memory, s->request->local_stag);
}

/* The next segment of a request; NULL: out of memory. */
static iw_segment_t *cut(iw_peer_t *p, iw_request_t *r)
{
    iw_segment_t *s = iw_pool_get(&p->engine->segments);
    if (NULL == s) {
        return NULL;
    }
    uint32_t left = iw_request_asks(r) ? 0 : r->length - r->cut;
    *s = (iw_segment_t){.peer = p,
                        .request = r,
                        .ssn = p->tx.next_ssn++,
                        .offset = r->cut,
                        .length = (uint16_t) iw_build_payload(p, r, left)};
    if (0 == r->cut) {
        number(p, r);
    }
    s->ended = IW_DO_RESPONSE == r->operation ? uses_ended(s) : 0;
    r->cut += s->length;
    s->last = s->length == left;
    ++r->out;
    if (!s->last) {
        p->tx.large = true;
        return s;
    }
    iw_request_dequeue(r);
    if (iw_request_asks(r)) {
        ++p->tx.reads_out;
    } else if (iw_request_serves(r)) {
        --p->rx.serving;
    }
    if (IW_DO_ATOMIC == r->operation) {
        spec_list_append(&p->tx.atomics, &r->queue);
    }
    return s;
}

/* The number of a question about a segment is not one of the segment. */
static void remember(iw_segment_t *s)
{
    if (0 != s->pn && s->asked < 2) {
        s->earliers -= IW_EARLIER == s->earliers;
        s->earlier[s->earliers++] = (iw_sent_t){s->pn, s->sent, s->recovery, s->overtaken};
    }
    s->recovery = 0;
    s->overtaken = false;
}

static void in_flight(iw_peer_t *p, iw_segment_t *s, const iw_packet_t *k, uint64_t pn,
                      uint64_t now)
{
    remember(s);
    s->pn = pn;
    s->sent = now;
    s->wire = (uint16_t) k->length;
    s->cost = k->length + IW_OVERHEAD;
    s->times += s->times < UINT8_MAX;
    spec_list_append(&p->loss.in_flight, &s->link);
    iw_cc_sent(&p->path.cc, s->cost);
    if (0 == p->alive.waiting_since && !spec_list_is_empty(&p->tx.requests)) {
        p->alive.waiting_since = now;
    }
}

static bool is_awaited(const iw_segment_t *s)
{
    return s->last && (s->request->flags & IW_PROMPT);
}

/* The sender waits for it: somebody wants to know, or the window will be full soon. */
static bool wants_ack(const iw_peer_t *p, const iw_segment_t *s, uint32_t bytes)
{
    return (s->resent && !(s->unmade && 0 == s->times)) || (is_awaited(s) && IW_DO_SEND != s->request->operation)
           || !iw_cc_room(&p->path.cc, window_of(p), bytes + iw_build_datagram_room(p) + 2 * IW_OVERHEAD);
}

static void emit_probe(iw_peer_t *p, iw_segment_t *s, iw_packet_t *k, size_t size, uint64_t now)
{
    static const uint8_t zeros[IW_DATAGRAM_MAX];
    uint64_t pn = p->tx.next_pn;
    iw_build_begin(p, k, IW_PROBE);
    iw_build_piggyback(p, k, now);
    k->head[offsetof(iw_head_t, flags)] |= IW_F_NOW;
    if (size > k->piece[0].iov_len) {
        k->piece[k->count++] =
            (struct iovec){(void *) (uintptr_t) zeros, size - k->piece[0].iov_len};
    }
    iw_build_finish(p, k);
    k->segment = s;
    k->probe = k->length > p->path.mtu.size;
    in_flight(p, s, k, pn, now);
    ++p->engine->count.probes_out;
}

bool iw_segment_has_memory(const iw_segment_t *s)
{
    const iw_request_t *r = s->request;
    uint8_t *at;
    return IW_ACCESS_OK
           == iw_memory_check(&r->peer->engine->memory, r->local_stag, r->peer, IW_REMOTE_READ, r->local_to + s->offset, s->length,
                              &at, NULL);
}

/* May the memory of a read that we serve have been given back, as the peer has it? A use of it has ended since it left, perhaps the one
 * that this was for; or nobody uses it. */
static bool is_in_doubt(const iw_segment_t *s)
{
    return IW_DO_RESPONSE == s->request->operation
           && ((s->times > 0 && ((s->asked > 0 && !s->lacked) || uses_ended(s) != s->ended)) || !iw_segment_has_memory(s));
}

/* A datagram of a segment that is in no list. False: the connection ended over it. */
static bool emit(iw_peer_t *p, iw_segment_t *s, iw_packet_t *k, uint64_t now)
{
    uint64_t pn = p->tx.next_pn;
    /* Whoever read the memory says above us that it has all, and the memory is taken back, while the
     * acknowledgement of this segment was lost. So do not send again, but ask: an answer that counts
     * the segment as arrived is the acknowledgement, and one that does not says that it is still to be sent. */
    if (s->resent && is_in_doubt(s)) {
        s->asked += s->asked < UINT8_MAX;
        s->lacked = false;
        s->ended = uses_ended(s);
        emit_probe(p, s, k, 0, now);
        ++p->loss.resent_out;
        return true;
    }
    s->asked = 0;
    s->lacked = false;
    iw_build_begin(p, k, IW_SEGMENT);
    if (!s->resent || iw_build_ack_fits(p, s)) {
        iw_build_piggyback(p, k, now);
    }
    iw_seq_t *seq = iw_build_put(k, sizeof(*seq));
    size_t before = k->piece[0].iov_len;
    if (!iw_build_segment(k, s)) {
        iw_segment_free(s);
        iw_rdmap_terminate(p, IW_TERM_STAG, 0);
        return false;
    }
    seq->ssn = iw_be32(s->ssn);
    uint32_t length = iw_build_length(k);
    seq->ulpdu.length = iw_be16((uint16_t) (length - before));
    if (wants_ack(p, s, length)) {
        k->head[offsetof(iw_head_t, flags)] |= IW_F_NOW;
    } else if (is_awaited(s)) {
        k->head[offsetof(iw_head_t, flags)] |= IW_F_SOON;
    }
    iw_build_join(p->engine, k, s->request, s->times > 0);
    iw_build_finish(p, k);
    k->segment = s;
    k->may_fragment = k->length > p->path.mtu.size;
    in_flight(p, s, k, pn, now);
    p->loss.resent_out += s->resent;
    p->engine->count.segments_resent += s->times > 1; /* one that was given back has not been sent */
    p->engine->count.segments_out += !s->resent;
    return true;
}

/* ---- choosing ---- */

/* May a datagram of about this size leave now? If only the time is missing, sets when. */
static bool may_leave(iw_peer_t *p, uint32_t bytes, uint64_t now)
{
    /* After a pause for want of a receive buffer one datagram asks whether there is one again, when nothing is in flight,
     * or what is may be lost. */
    if (p->tx.rnr_until > now
        || (p->tx.rnr_count > 0 && p->path.cc.in_flight > 0 && 0 == p->tx.allowance)) {
        return false;
    }
    if (p->tx.allowance > 0) {
        return true;
    }
    if (p->failover.is_alternate) { /* what carries it has a congestion control of its own */
        p->tx.limited = p->path.cc.in_flight > 0 && p->path.cc.in_flight + bytes > window_of(p);
        return !p->tx.limited;
    }
    if (!iw_cc_room(&p->path.cc, window_of(p), bytes + IW_OVERHEAD)) {
        p->tx.limited = true;
        return false;
    }
    iw_cc_refill(&p->path.cc, &p->path.rtt, now);
    uint64_t at = iw_cc_pace(&p->path.cc, &p->path.rtt);
    if (at > now && p->path.cc.in_flight > 0) {
        p->tx.limited = true;
        p->tx.pace_at = at;
        return false;
    }
    p->tx.pace_at = 0;
    return true;
}

/* Numbers in flight must stay within what the receiver remembers. The oldest may only have to wait
 * for an acknowledgement that is late: it is sent again, which is always right. */
static void keep_within(iw_peer_t *p)
{
    while (!spec_list_is_empty(&p->loss.in_flight)) {
        iw_segment_t *s = SPEC_ENTRY(p->loss.in_flight.next, iw_segment_t, link);
        if (p->tx.next_pn - s->pn < IW_SEEN - 1) {
            break;
        }
        iw_loss_take_back(p, s);
    }
}

static iw_segment_t *next_segment(iw_peer_t *p, uint64_t now)
{
    if (!spec_list_is_empty(&p->loss.lost)) {
        iw_segment_t *s = SPEC_ENTRY(p->loss.lost.next, iw_segment_t, link);
        if (!may_leave(p, s->wire, now)) {
            return NULL;
        }
        spec_list_remove(&s->link);
        s->resent = true;
        return s;
    }
    if (spec_seq_diff(p->tx.next_ssn, p->tx.una_ssn) >= (int32_t) IW_SSN_WINDOW) {
        p->tx.limited = true;
        return NULL;
    }
    bool waits;
    iw_request_t *r = next_request(p, now, &waits);
    if (NULL == r) {
        p->tx.limited = waits;
        p->tx.pace_at = waits ? p->tx.window_at + IW_PERSIST : p->tx.pace_at;
        return NULL;
    }
    const uint32_t left = r->length - r->cut, room = iw_build_datagram_room(p);
    if (!may_leave(p, left < room ? left : room, now)) {
        return NULL;
    }
    iw_segment_t *s = cut(p, r);
    if (NULL == s) {
        p->tx.pace_at = now + IW_MEMORY_PAUSE; /* nothing may be in flight whose end would bring us back */
    }
    return s;
}

static unsigned output_probes(iw_peer_t *p, uint64_t now, iw_packet_t *packet, unsigned max)
{
    uint16_t size = 0;
    const bool tries = iw_failover_tries(&p->failover, now);
    p->tx.ping_pending |= tries;
    if (0 == max || (!p->tx.ping_pending && !p->tx.large)) {
        return 0;
    }
    /* Before a large message is cut into small pieces, see whether the path carries more. */
    if (p->tx.large && p->confirmed && !p->failover.is_alternate) {
        size = iw_path_next(&p->path.mtu);
    }
    if (0 == size && !p->tx.ping_pending) {
        return 0;
    }
    iw_segment_t *s = iw_pool_get(&p->engine->segments);
    if (NULL == s) {
        iw_path_unsent(&p->path.mtu, size);
        return 0;
    }
    *s = (iw_segment_t){.peer = p, .offset = size};
    p->tx.ping_pending = false;
    p->tx.large = false;
    emit_probe(p, s, packet, size, now);
    if (tries) {
        packet->alternate = false;
        iw_failover_tried(&p->failover, s->pn, now);
    }
    return 1;
}

/* One of the questions whether it is there (iw_peer_ask) may be due. */
static void ask_again(iw_peer_t *p, uint64_t now)
{
    if (iw_peer_question_at(p) <= now) {
        ++p->alive.questions;
        p->alive.pinged = now;
        p->tx.ping_pending = true;
    }
}

static unsigned output_active(iw_peer_t *p, uint64_t now, iw_packet_t *packet, unsigned max,
                              size_t *bytes)
{
    ask_again(p, now);
    unsigned n = output_probes(p, now, packet, max);
    while (n < max && *bytes < IW_CACHE) {
        keep_within(p);
        iw_segment_t *s = next_segment(p, now);
        if (NULL == s) {
            break;
        }
        p->tx.allowance -= p->tx.allowance > 0;
        if (!emit(p, s, &packet[n], now)) {
            return n;
        }
        *bytes += packet[n++].length;
    }
    if (p->rx.ack_now && n < max) {
        iw_build_begin(p, &packet[n], IW_CONTROL);
        iw_build_ack(p, &packet[n], IW_RANGES_MAX, now);
        iw_build_finish(p, &packet[n++]);
        ++p->engine->count.acks_alone;
    }
    return n;
}

static unsigned output_peer(iw_peer_t *p, uint64_t now, iw_packet_t *packet, unsigned max,
                            size_t *bytes)
{
    unsigned n = 0;
    if (IW_IDLE == p->state && !iw_peer_activate(p, now)) {
        iw_peer_down(p, IW_NO_MEMORY, NULL);
        return 0;
    }
    switch (p->state) {
    case IW_ACTIVE:
        n = output_active(p, now, packet, max, bytes);
        if (IW_ACTIVE == p->state) {
            iw_timer_set(p);
        }
        break;
    case IW_DOWN:
        if (p->term.pending) {
            p->term.pending = false;
            iw_build_terminate(p, &packet[n++]);
        }
        break;
    default: /* IW_CLOSING, IW_GIVEN_UP */
        iw_build_begin(p, &packet[n], IW_CLOSE);
        if (p->rx.ack_now) {
            iw_build_ack(p, &packet[n], IW_RANGES_MAX, now);
        }
        iw_build_finish(p, &packet[n]);
        packet[n].alternate = false; /* there the process may have ended before it comes */
        packet[n++].peer = NULL;
        if (IW_CLOSING == p->state) {
            iw_peer_free(p);
        }
        break;
    }
    return n;
}

unsigned iw_engine_output(iw_engine_t *e, uint64_t now, iw_packet_t *packet, unsigned max)
{
    unsigned n = 0;
    size_t bytes = 0;
    e->copied = 0;
    now = iw_time(e, now);
    while (n < max && bytes < IW_CACHE && !spec_list_is_empty(&e->ready)) {
        iw_peer_t *p = SPEC_ENTRY(e->ready.next, iw_peer_t, ready);
        unsigned share = max - n < IW_DRAIN ? max - n : IW_DRAIN;
        spec_list_remove(&p->ready);
        unsigned made = output_peer(p, now, packet + n, share, &bytes);
        n += made;
        if ((made == share || bytes >= IW_CACHE) && made > 0
            && IW_CLOSE != (packet[n - 1].head[0] & 0x0f)) {
            iw_ready(p); /* there may be more; the others first */
        }
    }
    return n;
}

bool iw_engine_has_output(const iw_engine_t *e)
{
    return !spec_list_is_empty(&e->ready);
}

static void segment_unsent(iw_peer_t *p, iw_segment_t *s)
{
    --s->times;
    iw_failover_untried(&p->failover, s->pn);
    if (NULL == s->request && 0 != s->offset) { /* it says nothing of the path: once more */
        iw_path_unsent(&p->path.mtu, (uint16_t) s->offset);
        p->tx.large = true;
    }
    p->tx.ping_pending |= NULL == s->request;
    s->pn = 0;
    iw_loss_take_back(p, s);
}

/* A number that is not used counts as lost, here and at the receiver. */
static void number_unused(iw_peer_t *p, const iw_packet_t *k)
{
    const iw_head_t *h = (const iw_head_t *) k->head;
    p->tx.next_pn -= iw_get64(h->pn) + 1 == p->tx.next_pn;
}

/* From the last: each goes to the front of what is to be sent again. */
static void unsent(iw_engine_t *e, const iw_packet_t *packet, unsigned count, bool is_unused)
{
    for (unsigned i = count; i-- > 0;) {
        iw_peer_t *p = packet[i].peer;
        ++e->count.unsent;
        if (NULL == p || IW_ACTIVE != p->state) {
            continue;
        }
        iw_segment_t *s = packet[i].segment;
        if (NULL != s) {
            s->unmade = is_unused;
            if (is_unused) { /* else the pace keeps numbers from being used up */
                iw_cc_unsent(&p->path.cc, s->cost);
            }
            segment_unsent(p, s);
        }
        if (is_unused) {
            number_unused(p, &packet[i]);
        }
        p->rx.ack_now |= packet[i].had_ack;
        iw_ready(p);
    }
}

void iw_engine_unsent(iw_engine_t *e, const iw_packet_t *packet, unsigned count)
{
    unsent(e, packet, count, false);
}

void iw_engine_not_taken(iw_engine_t *e, const iw_packet_t *packet, unsigned count)
{
    unsent(e, packet, count, true);
}

void iw_engine_too_big(iw_engine_t *e, const iw_packet_t *packet, uint16_t limit)
{
    iw_peer_t *p = packet->peer;
    ++e->count.unsent;
    if (NULL == p || IW_ACTIVE != p->state || NULL == packet->segment) {
        return;
    }
    if (packet->length <= p->path.mtu.size) {
        iw_path_black_hole(&p->path.mtu, p->engine->config.datagram_min);
    }
    iw_path_too_big(&p->path.mtu, (uint16_t) packet->length, limit);
    --((iw_segment_t *) packet->segment)->times;
    ((iw_segment_t *) packet->segment)->pn = 0;
    iw_loss_take_back(p, packet->segment);
    p->tx.large = true;
    iw_ready(p);
}
