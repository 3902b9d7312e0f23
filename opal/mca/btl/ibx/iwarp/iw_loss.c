/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What became of what was sent: acknowledgements, loss, timeouts (RFC 9002), a dead peer. */
#include "iw_internal.h"

/* Numbers received, lowest first. */
typedef struct span {
    uint64_t low, high;
} span_t;

/* Upwards through the spans of an acknowledgement. */
typedef struct acked {
    span_t span[IW_RANGES_MAX];
    unsigned count;
    unsigned at;
    uint32_t next;   /* ssn: everything before has arrived */
    uint64_t newest; /* the highest number that it names of what is not acknowledged yet; 0: none */
    uint64_t newest_at; /* when that left */
} acked_t;

/* False: it says what cannot be. */
static bool read_ack(const iw_peer_t *p, const iw_frame_t *f, uint64_t largest, acked_t *a)
{
    const unsigned n = f->ack->ranges;
    uint64_t next = largest + 1; /* lowest number of the range before */
    a->count = n;
    a->at = 0;
    a->newest = a->newest_at = 0;
    a->next = iw_get32(f->ack->next);
    if (largest >= p->tx.next_pn || spec_seq_before(p->tx.next_ssn, a->next)) {
        return false;
    }
    for (unsigned i = 0; i < n; ++i) {
        uint64_t gap = iw_get16(f->range[i].gap), run = iw_get16(f->range[i].run);
        if (0 == run || (0 == i) != (0 == gap) || next < gap + run) {
            return false;
        }
        span_t *s = &a->span[n - 1 - i];
        s->high = next - gap - 1;
        s->low = s->high - run + 1;
        next = s->low;
    }
    return true;
}

static bool covers(acked_t *a, uint64_t pn)
{
    while (a->at < a->count && pn > a->span[a->at].high) {
        ++a->at;
    }
    return a->at < a->count && pn >= a->span[a->at].low;
}

static bool names(acked_t *a, uint64_t pn, uint64_t at)
{
    if (!covers(a, pn)) {
        return false;
    }
    if (pn > a->newest) {
        a->newest = pn;
        a->newest_at = at;
    }
    return true;
}

/* A transmission that was followed by another one, or was about to be, has arrived: neither it was lost nor what was
 * concluded from that is right. Packets overtake each other by more than was thought, if that was the reason. */
static void needless(iw_peer_t *p, const iw_sent_t *t)
{
    ++p->engine->count.lost_spurious;
    if (t->overtaken) {
        p->loss.reorder =
            p->loss.reorder < IW_REORDER_MAX / 2 ? (uint8_t) (2 * p->loss.reorder) : (uint8_t) IW_REORDER_MAX;
    }
    iw_cc_found(&p->path.cc, t->recovery, t->at);
}

/* By its number, or by one it had before. The number of one that was asked about was that of the question, and the answer
 * says nothing of it but how long it took. */
static bool arrived(iw_peer_t *p, acked_t *a, const iw_segment_t *s)
{
    bool is_named = names(a, s->pn, s->sent) && 0 == s->asked;
    const unsigned at = a->at;
    for (unsigned i = 0; i < s->earliers; ++i) {
        a->at = 0;
        if (names(a, s->earlier[i].pn, s->earlier[i].at)) {
            needless(p, &s->earlier[i]);
            is_named = true;
        }
    }
    a->at = at;
    return is_named || (NULL != s->request && spec_seq_before(s->ssn, a->next));
}

static void request_acked(iw_request_t *r)
{
    --r->out;
    /* What asks is complete when the answer is here; a request whose segments are not all cut is still
     * in its queue. */
    if (0 == r->out && !iw_request_asks(r) && !spec_node_is_queued(&r->queue)) {
        iw_request_report(r, IW_OK);
    }
    iw_request_release(r);
}

/* s, in no list, is done. */
static void segment_done(iw_segment_t *s)
{
    iw_request_t *r = s->request;
    iw_segment_free(s);
    if (NULL != r) {
        request_acked(r);
    }
}

static void out_of_flight(iw_peer_t *p, iw_segment_t *s)
{
    spec_list_remove(&s->link);
    p->loss.resent_out -= s->resent;
}

static bool is_large(const iw_segment_t *s)
{
    return NULL != s->request && s->wire > s->peer->engine->config.datagram_min;
}

/* Small datagrams may still pass when those that did no longer do (RFC 8899, 4.3). */
static void check_black_hole(iw_peer_t *p, const iw_segment_t *s)
{
    if (!is_large(s) || !s->resent || ++p->loss.large_lost < IW_BLACK_HOLE) {
        return;
    }
    p->loss.large_lost = 0;
    p->tx.large |= iw_path_black_hole(&p->path.mtu, p->engine->config.datagram_min);
}

static void acked_in_flight(iw_peer_t *p, iw_segment_t *s, uint64_t now)
{
    if (is_large(s)) {
        p->loss.large_lost = 0;
    }
    out_of_flight(p, s);
    iw_cc_acked(&p->path.cc, s->cost, s->sent, p->path.mtu.size, p->tx.limited, iw_rtt_has_queue(&p->path.rtt, now - s->sent));
    if (NULL == s->request) {
        iw_path_acked(&p->path.mtu, (uint16_t) s->offset);
    }
    segment_done(s);
}

/* To the segments to be sent again, which are kept in the order of their numbers. */
static void into_lost(iw_peer_t *p, iw_segment_t *s)
{
    spec_node_t *at = p->loss.lost.prev;
    while (at != &p->loss.lost && spec_seq_before(s->ssn, SPEC_ENTRY(at, iw_segment_t, link)->ssn)) {
        at = at->prev;
    }
    spec_list_insert_after(at, &s->link);
}

void iw_loss_take_back(iw_peer_t *p, iw_segment_t *s)
{
    out_of_flight(p, s);
    iw_cc_gone(&p->path.cc, s->cost);
    if (NULL == s->request) {
        iw_path_lost(&p->path.mtu, (uint16_t) s->offset);
        segment_done(s);
    } else {
        into_lost(p, s);
    }
}

static void segment_lost(iw_peer_t *p, iw_segment_t *s, bool overtaken, uint64_t now)
{
    s->overtaken = overtaken;
    /* A probe larger than the path says nothing about congestion (RFC 8899, 3). */
    if (NULL != s->request && 0 == s->asked && 0 == p->tx.rnr_until) {
        s->recovery = iw_cc_lost(&p->path.cc, s->sent, p->path.mtu.size, now);
    }
    check_black_hole(p, s);
    iw_loss_take_back(p, s);
}

/* RFC 9002, 6.1: a packet is lost when one sent enough packets or long enough after it has been
 * acknowledged. */
static void detect_loss(iw_peer_t *p, uint64_t now)
{
    uint64_t delay = iw_rtt_loss_delay(&p->path.rtt);
    p->loss.at = 0;
    while (p->loss.acked_any && !spec_list_is_empty(&p->loss.in_flight)) {
        iw_segment_t *s = SPEC_ENTRY(p->loss.in_flight.next, iw_segment_t, link);
        if (s->pn >= p->loss.largest_acked) {
            break;
        }
        const bool overtaken = p->loss.largest_acked - s->pn >= p->loss.reorder;
        if (overtaken) {
            ++p->engine->count.lost_by_number;
        } else if (s->sent + delay <= now) {
            ++p->engine->count.lost_by_time;
        } else {
            p->loss.at = s->sent + delay;
            break;
        }
        segment_lost(p, s, overtaken, now);
    }
}

/* What was taken for lost and is acknowledged after all. True: some was. */
static bool spare_lost(iw_peer_t *p, acked_t *a)
{
    bool progress = false;
    for (spec_node_t *next, *l = p->loss.lost.next; l != &p->loss.lost; l = next) {
        iw_segment_t *s = SPEC_ENTRY(l, iw_segment_t, link);
        next = l->next;
        a->at = 0;
        if (!arrived(p, a, s)) {
            continue;
        }
        a->at = 0;
        if (0 != s->pn && 0 == s->asked && (0 == s->earliers || covers(a, s->pn))) {
            needless(p, &(iw_sent_t){s->pn, s->sent, s->recovery, s->overtaken});
        }
        spec_list_remove(&s->link);
        segment_done(s);
        progress = true;
    }
    return progress;
}

/* The peer was asked whether it has a segment, had the question, and did not have the segment: its delivery waits for just that one, or
 * none of the numbers that it left under is among those that arrived, which reach back further. */
static bool is_lacked(acked_t *a, const iw_segment_t *s)
{
    a->at = 0;
    return s->asked > 0 && 0 != s->pn && covers(a, s->pn)
           && (s->ssn == a->next
               || (s->earliers > 0 && s->earliers < IW_EARLIER && s->earlier[0].pn > a->span[0].low));
}

/* So it is still to be sent: what the peer lacks it has not read, and the memory has not been given back, unless a use has ended since
 * the question. Where one always does it is enough that nothing that the peer said after its answer has come: that it has read all. False:
 * the memory is gone. */
static bool send_lacked(iw_peer_t *p, iw_segment_t *s, bool is_newest)
{
    if (!iw_segment_has_memory(s)) {
        return false;
    }
    s->lacked = true;
    s->pn = 0; /* of the question */
    if (is_newest && s->asked >= IW_ASKED_MAX / 2) {
        s->ended = iw_memory_ended(&p->engine->memory, s->request->local_stag);
    }
    iw_loss_take_back(p, s);
    return true;
}

/* *lacks: the peer waits for data that is gone. is_newest: nothing that it said later has come. */
static bool acknowledge(iw_peer_t *p, acked_t *a, uint64_t largest, bool is_newest, uint64_t now, bool *lacks)
{
    bool progress = false;
    for (spec_node_t *next, *l = p->loss.in_flight.next; l != &p->loss.in_flight; l = next) {
        iw_segment_t *s = SPEC_ENTRY(l, iw_segment_t, link);
        next = l->next;
        /* Beyond the highest number only what was sent before under another one can be meant. */
        if (s->pn > largest && 0 == p->loss.resent_out) {
            break;
        }
        if (!arrived(p, a, s)) {
            const unsigned at = a->at;
            *lacks |= is_lacked(a, s) && !send_lacked(p, s, is_newest) && s->asked >= IW_ASKED_MAX && s->ssn == a->next;
            a->at = at;
            continue;
        }
        acked_in_flight(p, s, now);
        progress = true;
    }
    return progress;
}

/* What an acknowledgement says of the time. A sample is of the highest number, and only if that is new (RFC 9002,
 * 5.1). It may be one that needs no acknowledgement and is not remembered: then another one's time is too long a
 * sample, which before the first is better than none. Until there is one the probe timeout stays backed off (RFC 6298, 5.7):
 * what it is made of would only ask again too early. */
static void heard_of(iw_peer_t *p, const acked_t *a, uint64_t largest, bool progress, uint64_t now,
                     uint64_t delay)
{
    const bool is_new = !p->loss.acked_any || largest > p->loss.largest_acked, is_it = a->newest == largest;
    if (is_new) {
        p->loss.largest_acked = largest;
        p->loss.acked_any = true;
    }
    if (0 != a->newest && ((is_it && is_new) || 0 == p->path.rtt.srtt)) {
        iw_rtt_sample(&p->path.rtt, now - a->newest_at, is_it ? delay : 0);
        iw_rtt_forget(&p->path.rtt, now);
    }
    if (progress) {
        iw_failover_progress(&p->failover, now);
        p->tx.allowance = 0;
        p->loss.ptos = 0 == p->path.rtt.srtt ? p->loss.ptos : 0;
    }
}

/* The peer tells how many datagrams came marked: the network is about to drop some, and those of a round trip are one
 * warning (RFC 9002, 7.1). */
static void heard_of_marks(iw_peer_t *p, uint8_t marks, const acked_t *a, uint64_t now)
{
    const uint8_t more = (uint8_t) (marks - p->tx.marks);
    if (more > 0 && 0 != a->newest) {
        p->tx.marks = marks;
        p->engine->count.marked_out += more;
        iw_cc_marked(&p->path.cc, a->newest_at, p->path.mtu.size, now);
    }
}

/* The peer has no receive buffer: everything it refused is sent again, later. */
static void not_ready(iw_peer_t *p, const iw_frame_t *f, uint64_t now)
{
    uint64_t refused = iw_pn_expand(p->tx.next_pn, iw_get32(f->rnr->refused));
    unsigned doublings = p->tx.rnr_count < IW_RNR_DOUBLINGS ? p->tx.rnr_count : IW_RNR_DOUBLINGS;
    ++p->engine->count.rnr_in;
    p->tx.rnr_pn = f->pn;
    if (refused >= p->tx.next_pn) {
        return;
    }
    while (!spec_list_is_empty(&p->loss.in_flight)) {
        iw_segment_t *s = SPEC_ENTRY(p->loss.in_flight.next, iw_segment_t, link);
        if (s->pn > refused) {
            break;
        }
        iw_loss_take_back(p, s);
    }
    p->tx.rnr_until = now + (IW_RNR_DELAY << doublings);
    p->tx.rnr_count += p->tx.rnr_count < UINT8_MAX;
}

bool iw_loss_ack(iw_peer_t *p, const iw_frame_t *f, uint64_t now)
{
    acked_t a;
    uint64_t largest = iw_pn_expand(p->tx.next_pn, iw_get32(f->ack->largest));
    if (!read_ack(p, f, largest, &a)) {
        return false;
    }
    ++p->engine->count.acks_in;
    for (unsigned i = 0; i < a.count && p->failover.is_alternate; ++i) {
        (void) iw_failover_acknowledged(&p->failover, a.span[i].low, a.span[i].high, now);
    }
    bool lacks = false, progress = acknowledge(p, &a, largest, f->pn >= p->rx.seen.end, now, &lacks);
    if (!spec_list_is_empty(&p->loss.lost)) {
        progress |= spare_lost(p, &a);
    }
    heard_of(p, &a, largest, progress, now, iw_get16(f->ack->delay) * IW_US);
    const bool is_later = f->pn > p->tx.told_pn; /* acknowledgements overtake each other (RFC 9293, 3.10.7.4: SND.WL1) */
    if (is_later) {
        p->tx.told_pn = f->pn;
        heard_of_marks(p, f->ack->marks, &a, now);
    }
    if (spec_seq_before(p->tx.una_ssn, a.next)) {
        p->tx.una_ssn = a.next;
    }
    if (lacks) {
        iw_rdmap_terminate(p, IW_TERM_STAG, p->tx.una_ssn);
        return true;
    }
    if (is_later) {
        p->tx.window = iw_get32(f->ack->window);
        p->tx.window_at = now;
    }
    if (NULL != f->rnr) {
        not_ready(p, f, now);
    } else if (f->pn > p->tx.rnr_pn) {
        p->tx.rnr_until = 0;
        p->tx.rnr_count = 0;
    }
    detect_loss(p, now);
    if (iw_wants_out(p)) {
        iw_ready(p); /* not for nothing: this is on the way to whoever waits for the message */
    }
    return true;
}

/* The segment in flight that the peer's delivery waits for, or a probe if there is nothing else. */
static iw_segment_t *most_wanted(const iw_peer_t *p)
{
    iw_segment_t *best = NULL;
    for (spec_node_t *l = p->loss.in_flight.next; l != &p->loss.in_flight; l = l->next) {
        iw_segment_t *s = SPEC_ENTRY(l, iw_segment_t, link);
        if (NULL == best || NULL == best->request
            || (NULL != s->request && spec_seq_before(s->ssn, best->ssn))) {
            best = s;
        }
    }
    return best;
}

static uint64_t failover_patience(const iw_peer_t *p)
{
    return iw_rtt_least(IW_FAILOVER_AFTER, p->engine->config.peer_timeout_ns / 4);
}

static void failed_over(iw_peer_t *p, uint64_t now)
{
    ++p->engine->count.failovers;
    p->alive.waiting_since = now; /* the answer to what goes there may take as long as any other */
}

/* RFC 9002, 6.2.4: send something that must be answered, whatever the window. The first segment that
 * is missing does most good: the peer may have had no memory for later ones. With it goes a PROBE: its
 * acknowledgement tells what is missing if the segment gets lost again. The first, early one is only
 * that if the segment is large: perhaps the peer just has not come to it yet. */
static void probe_timeout(iw_peer_t *p, uint64_t now)
{
    iw_segment_t *s = most_wanted(p);
    const bool large = is_large(s), early = 0 == p->loss.ptos, is_assumed = 0 == p->path.rtt.srtt;
    ++p->engine->count.probe_timeouts;
    p->loss.ptos += p->loss.ptos < UINT8_MAX;
    p->alive.asked += p->alive.asked < UINT8_MAX;
    /* One that never answered may not be ready for another transport, either. */
    if (p->confirmed && iw_failover_timeout(&p->failover, p->tx.next_pn, now, failover_patience(p))) {
        failed_over(p, now);
    }
    /* A peer that has no receive buffer, or may only be further away than assumed, is asked with the segment alone. */
    p->tx.ping_pending = !spec_list_is_empty(&p->tx.requests) && 0 == p->tx.rnr_count && !is_assumed;
    if (early && large && p->tx.ping_pending) {
        return;
    }
    check_black_hole(p, s);
    iw_loss_take_back(p, s);
    if (IW_PERSISTENT_PTO == p->loss.ptos && !is_assumed) {
        /* Nothing of all that came through: start over, as RFC 9002, 7.6 and RFC 5681, 3.1. */
        iw_cc_collapse(&p->path.cc, p->path.mtu.size, now);
        p->tx.large |= large && iw_path_black_hole(&p->path.mtu, p->engine->config.datagram_min);
    }
    p->tx.allowance = spec_list_is_empty(&p->loss.lost) ? 0 : 2;
    p->tx.ping_pending |= spec_list_is_empty(&p->loss.lost) && !spec_list_is_empty(&p->tx.requests);
}

/* A peer that can be reached another way is not given up before that was tried: its round trips may be so long that there were too
 * few probe timeouts. */
static bool tries_alternate(iw_peer_t *p, uint64_t silence, uint64_t now)
{
    if (!p->confirmed || !iw_peer_is_due(p, silence)
        || !iw_failover_last(&p->failover, p->tx.next_pn, now)) {
        return false;
    }
    failed_over(p, now);
    if (spec_list_is_empty(&p->loss.in_flight)) {
        p->tx.ping_pending = true;
    } else {
        probe_timeout(p, now);
    }
    return true;
}

void iw_loss_timers(iw_peer_t *p, uint64_t now)
{
    const iw_config_t *c = &p->engine->config;
    if (0 != p->rx.ack_at && p->rx.ack_at <= now) {
        p->rx.ack_at = 0;
        p->rx.ack_now = true;
    }
    if (0 != p->alive.waiting_since) {
        uint64_t since = p->alive.heard > p->alive.waiting_since ? p->alive.heard : p->alive.waiting_since;
        if (tries_alternate(p, now - since, now)) {
            since = now;
        } else if (iw_peer_silence(p, now - since)) {
            return;
        }
        if (spec_list_is_empty(&p->loss.in_flight)
            && now - (p->alive.pinged > since ? p->alive.pinged : since) >= c->peer_timeout_ns / 8) {
            p->alive.pinged = now;
            p->alive.asked += p->alive.asked < UINT8_MAX;
            p->tx.ping_pending = true;
        }
    }
    if (0 != p->loss.at && p->loss.at <= now) {
        detect_loss(p, now);
    } else if (!spec_list_is_empty(&p->loss.in_flight)) {
        const iw_segment_t *newest = SPEC_ENTRY(p->loss.in_flight.prev, iw_segment_t, link);
        if (newest->sent + iw_rtt_pto(&p->path.rtt, c->ack_delay_ns, p->loss.ptos) <= now) {
            probe_timeout(p, now);
        }
    }
    if (p->tx.rnr_until <= now) {
        p->tx.rnr_until = 0;
    }
    if (p->tx.pace_at <= now) {
        p->tx.pace_at = 0;
    }
    iw_ready(p);
}
