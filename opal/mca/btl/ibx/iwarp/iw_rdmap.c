/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* RDMAP over DDP: what a segment from a peer does. Everything is checked before anything changes.
 *
 * The LLP has verified the datagram and found it new. A tagged segment's data is placed as it comes,
 * in any order (RFC 5041, 5.3). An untagged segment's data goes to the receive buffer of its message,
 * which is taken from the shared queue when the first segment of that message arrives. What a message
 * means - deliver it, serve a read, do an atomic operation - happens in the order of the segments. */
#include "iw_internal.h"

/* What remains to be done when the segment's turn comes. */
typedef struct turn {
    enum iw_delivery delivery;
    iw_message_t *message;
    const void *word; /* what it says, of the kind that `delivery` has (iw_word_t) */
    uint32_t msn;
} turn_t;

void iw_rdmap_terminate(iw_peer_t *p, int term, uint32_t ssn)
{
    p->term.code = (uint16_t) term;
    p->term.ssn = ssn;
    p->term.pending = true;
    p->term.ours = true;
    iw_peer_down(p, IW_PROTOCOL, NULL);
    iw_ready(p);
}

static iw_verdict_t refuse(iw_peer_t *p, int term, uint32_t ssn)
{
    if (IW_TERM_STAG == term || IW_TERM_BOUNDS == term || IW_TERM_RIGHTS == term) {
        ++p->engine->count.refused_access;
    } else {
        ++p->engine->count.refused_header;
    }
    iw_rdmap_terminate(p, term, ssn);
    return IW_TERMINATED;
}

static int term_of(iw_access_t access)
{
    static const int terms[] = {[IW_ACCESS_OK] = IW_TERM_NONE,
                                [IW_ACCESS_STAG] = IW_TERM_STAG,
                                [IW_ACCESS_RIGHTS] = IW_TERM_RIGHTS,
                                [IW_ACCESS_BOUNDS] = IW_TERM_BOUNDS};
    return terms[access];
}

/* ---- tagged ---- */

static int place(iw_peer_t *p, const iw_ddp_t *d, unsigned rights, const iw_region_t **region)
{
    uint8_t *at;
    int term = term_of(
        iw_memory_check(&p->engine->memory, d->stag, p, rights, d->to, d->length, &at, region));
    const uint8_t *from = NULL == p->engine->apart ? d->payload : p->engine->apart;
    if (IW_TERM_NONE == term && d->length > 0 && at != from) {
        memmove(at, from, d->length);
    }
    return term;
}

/* What we asked for is here. */
static void asked_done(iw_request_t *r)
{
    iw_peer_t *p = r->peer;
    --p->tx.reads_out;
    iw_request_report(r, IW_OK);
    iw_request_release(r);
    iw_ready(p); /* another one or a fenced send may follow */
}

static int read_response(iw_peer_t *p, const iw_ddp_t *d)
{
    const iw_region_t *region;
    int term = place(p, d, IW_READ_SINK, &region);
    if (IW_TERM_NONE != term) {
        return term;
    }
    iw_request_t *r = region->owner;
    r->got += d->length;
    r->last_got |= d->last;
    iw_direct_note(p->engine, r, d);
    if (r->last_got && r->got >= r->length) {
        asked_done(r);
    }
    return IW_TERM_NONE;
}

/* ---- untagged ---- */

static iw_message_t *message_find(const iw_peer_t *p, uint32_t msn)
{
    for (spec_node_t *l = p->rx.messages.next; l != &p->rx.messages; l = l->next) {
        iw_message_t *m = SPEC_ENTRY(l, iw_message_t, link);
        if (m->msn == msn) {
            return m;
        }
    }
    return NULL;
}

static iw_verdict_t not_ready(iw_peer_t *p, const iw_frame_t *f)
{
    ++p->engine->count.rnr_out;
    /* A number that is not acknowledged can come again, from anybody: it is told once. */
    if (!p->rx.rnr || f->pn > p->rx.rnr_refused) {
        p->rx.rnr_refused = f->pn;
        p->rx.ack_now = true;
    }
    p->rx.rnr = true;
    if (!spec_node_is_queued(&p->rx.waiting)) {
        spec_list_append(&p->engine->rnr_peers, &p->rx.waiting);
    }
    iw_ready(p);
    return IW_NOT_READY;
}

static iw_verdict_t message_new(iw_peer_t *p, const iw_frame_t *f, uint32_t msn,
                                iw_message_t **message)
{
    iw_pool_t *pool = &p->engine->messages;
    uint32_t ahead = msn - p->rx.expected_msn;
    /* As with the buffers: the last one is for a message whose turn it is. */
    iw_message_t *m = ahead > 0 && pool->in_use + 1 >= pool->max ? NULL : iw_pool_get(pool);
    if (NULL == m) {
        ++p->engine->count.refused_memory;
        return IW_REFUSED;
    }
    if (!iw_receive_take(p->engine, p, 0 == ahead ? 0 : ahead + 1, &m->receive)) {
        iw_pool_put(&p->engine->messages, m);
        return not_ready(p, f);
    }
    m->msn = msn;
    m->got = 0;
    m->total = UINT32_MAX;
    spec_list_append(&p->rx.messages, &m->link);
    *message = m;
    return IW_ACCEPTED;
}

/* Does the segment belong into this message? */
static int message_check(const iw_message_t *m, const iw_ddp_t *d)
{
    uint64_t end = (uint64_t) d->mo + d->length;
    if (end > m->receive.length) {
        return IW_TERM_DDP_TOO_LONG;
    }
    if (m->total != UINT32_MAX && (end > m->total || d->last)) {
        return IW_TERM_DDP_MO;
    }
    uint64_t limit = d->last ? end : m->total;
    if (limit < m->got || d->length > limit - m->got) {
        return IW_TERM_DDP_MO; /* they overlap */
    }
    return IW_TERM_NONE;
}

static iw_verdict_t send_segment(iw_peer_t *p, const iw_frame_t *f, const iw_ddp_t *d, turn_t *turn)
{
    iw_engine_t *e = p->engine;
    int32_t ahead = spec_seq_diff(d->msn, p->rx.expected_msn);
    if (ahead < 0 || ahead >= (int32_t) IW_SSN_WINDOW) {
        return refuse(p, IW_TERM_DDP_MSN, f->ssn);
    }
    /* The usual case: all of the next message. */
    if (f->ssn == p->rx.expected && d->last && 0 == d->mo && 0 == ahead
        && spec_list_is_empty(&p->rx.messages)) {
        iw_receive_t receive;
        if (!iw_receive_take(e, p, 0, &receive)) {
            return not_ready(p, f);
        }
        if (d->length > receive.length) {
            iw_receive_put_back(e, p, &receive);
            return refuse(p, IW_TERM_DDP_TOO_LONG, f->ssn);
        }
        if (d->length > 0) {
            memcpy(receive.buffer, d->payload, d->length);
        }
        ++p->rx.expected_msn;
        ++e->count.messages_in;
        iw_complete(e, receive.context, p, IW_RECEIVED, IW_OK, d->length);
        return IW_ACCEPTED;
    }
    iw_message_t *m = message_find(p, d->msn);
    if (NULL == m) {
        iw_verdict_t verdict = message_new(p, f, d->msn, &m);
        if (IW_ACCEPTED != verdict) {
            return verdict;
        }
    }
    int term = message_check(m, d);
    if (IW_TERM_NONE != term) {
        return refuse(p, term, f->ssn);
    }
    if (d->length > 0) {
        memcpy((uint8_t *) m->receive.buffer + d->mo, d->payload, d->length);
    }
    m->got += d->length;
    if (d->last) {
        m->total = d->mo + d->length;
        *turn = (turn_t){.delivery = IW_DELIVER_MESSAGE, .message = m};
    }
    return IW_ACCEPTED;
}

/* ---- in order ---- */

/* May the peer ask for one more read or atomic operation, and is it the next? */
static int may_ask(const iw_peer_t *p, const turn_t *t)
{
    if (t->msn != p->rx.expected_read) {
        return IW_TERM_DDP_MSN;
    }
    return p->rx.serving >= p->engine->config.reads ? IW_TERM_READS : IW_TERM_NONE;
}

static int serve_read(iw_peer_t *p, const turn_t *t)
{
    const iw_read_request_t *ask = t->word;
    uint8_t *at;
    int term = may_ask(p, t);
    if (IW_TERM_NONE == term) {
        term = term_of(iw_memory_check(&p->engine->memory, iw_get32(ask->source_stag), p, IW_REMOTE_READ,
                                       iw_get64(ask->source_to), iw_get32(ask->length), &at, NULL));
    }
    if (IW_TERM_NONE == term && !iw_request_serve(p, ask)) {
        term = IW_TERM_LOCAL;
    }
    if (IW_TERM_NONE == term) {
        ++p->rx.expected_read;
        ++p->engine->count.reads_in;
    }
    return term;
}

/* The word that the peer asks to change, if it may. */
static int word_of(const iw_peer_t *p, const iw_atomic_request_t *ask, uint8_t **at)
{
    if (ask->op >= IW_ATOMIC_OPS || ask->is_32 > 1 || 0 != ask->reserved[0] || 0 != ask->reserved[1]) {
        return IW_TERM_OPCODE;
    }
    const int term =
        term_of(iw_memory_check(&p->engine->memory, iw_get32(ask->stag), p, IW_REMOTE_READ | IW_REMOTE_WRITE,
                                iw_get64(ask->to), ask->is_32 ? sizeof(uint32_t) : sizeof(uint64_t), at, NULL));
    return IW_TERM_NONE != term || iw_atomic_is_aligned(*at, 0 != ask->is_32) ? term : IW_TERM_BOUNDS;
}

static int serve_atomic(iw_peer_t *p, const turn_t *t)
{
    const iw_atomic_request_t *ask = t->word;
    uint8_t *at = NULL;
    int term = may_ask(p, t);
    if (IW_TERM_NONE == term) {
        term = word_of(p, ask, &at);
    }
    if (IW_TERM_NONE == term && !iw_request_serve_atomic(p, ask, at)) {
        term = IW_TERM_LOCAL;
    }
    if (IW_TERM_NONE == term) {
        ++p->rx.expected_read;
        ++p->engine->count.atomics_in;
    }
    return term;
}

/* The peer answers the first of our atomic operations that it has not answered, as it does them in their order. */
static int answered(iw_peer_t *p, const turn_t *t)
{
    const iw_atomic_response_t *answer = t->word;
    if (t->msn != p->rx.expected_answer || spec_list_is_empty(&p->tx.atomics)) {
        return IW_TERM_DDP_MSN;
    }
    iw_request_t *r = SPEC_ENTRY(p->tx.atomics.next, iw_request_t, queue);
    if (r->msn != iw_get32(answer->number)) {
        return IW_TERM_DDP_MSN;
    }
    ++p->rx.expected_answer;
    const uint64_t before = iw_get64(answer->before);
    const uint32_t before_32 = (uint32_t) before;
    if (NULL != r->atomic.before) {
        memcpy(r->atomic.before, sizeof(before) == r->length ? (const void *) &before : &before_32, r->length);
    }
    asked_done(r);
    return IW_TERM_NONE;
}

/* False: the connection ended over it. */
static bool deliver(iw_peer_t *p, const turn_t *t, uint32_t ssn)
{
    iw_engine_t *e = p->engine;
    iw_message_t *m = t->message;
    int term = IW_TERM_NONE;
    switch (t->delivery) {
    case IW_DELIVER_MESSAGE:
        /* All segments before have arrived, so all of the message has; if not, they overlapped. */
        if (m->msn != p->rx.expected_msn || m->got != m->total) {
            refuse(p, m->msn != p->rx.expected_msn ? IW_TERM_DDP_MSN : IW_TERM_DDP_MO, ssn);
            return false;
        }
        ++p->rx.expected_msn;
        ++e->count.messages_in;
        iw_complete(e, m->receive.context, p, IW_RECEIVED, IW_OK, m->total);
        spec_list_remove(&m->link);
        iw_pool_put(&e->messages, m);
        return true;
    case IW_DELIVER_READ:
        term = serve_read(p, t);
        break;
    case IW_DELIVER_ATOMIC:
        term = serve_atomic(p, t);
        break;
    case IW_DELIVER_ANSWER:
        term = answered(p, t);
        break;
    default:
        break;
    }
    if (IW_TERM_NONE != term) {
        refuse(p, term, ssn);
    }
    return IW_TERM_NONE == term;
}

/* Segments that were waiting for the one that has just been delivered. */
static bool deliver_early(iw_peer_t *p)
{
    while (!spec_list_is_empty(&p->rx.early)) {
        iw_early_t *early = SPEC_ENTRY(p->rx.early.next, iw_early_t, link);
        if (early->ssn != p->rx.expected) {
            break;
        }
        iw_early_t copy = *early;
        turn_t turn = {(enum iw_delivery) copy.delivery, copy.message, &copy.word, copy.msn};
        spec_list_remove(&early->link);
        iw_pool_put(&p->engine->early, early);
        if (!deliver(p, &turn, p->rx.expected)) {
            return false;
        }
        ++p->rx.expected;
    }
    return true;
}

/* Where in the list of early segments ssn belongs: behind *at. False: it is there already. What is
 * sent again fills holes near the front, what is new comes to the end: search from the nearer side. */
static bool early_position(iw_peer_t *p, uint32_t ssn, spec_node_t **at)
{
    spec_node_t *l = p->rx.early.prev;
    if (l != &p->rx.early) {
        uint32_t last = SPEC_ENTRY(l, iw_early_t, link)->ssn;
        if (spec_seq_diff(last, ssn) > spec_seq_diff(ssn, p->rx.expected)) {
            l = p->rx.early.next;
            while (l != &p->rx.early && spec_seq_before(SPEC_ENTRY(l, iw_early_t, link)->ssn, ssn)) {
                l = l->next;
            }
            *at = l->prev;
            return l == &p->rx.early || SPEC_ENTRY(l, iw_early_t, link)->ssn != ssn;
        }
    }
    while (l != &p->rx.early && spec_seq_before(ssn, SPEC_ENTRY(l, iw_early_t, link)->ssn)) {
        l = l->prev;
    }
    *at = l;
    return l == &p->rx.early || SPEC_ENTRY(l, iw_early_t, link)->ssn != ssn;
}

/* Placement, by operation. */
static iw_verdict_t act(iw_peer_t *p, const iw_frame_t *f, const iw_ddp_t *d, turn_t *turn)
{
    int term = IW_TERM_NONE;
    switch (d->opcode) {
    case IW_OP_SEND:
        return send_segment(p, f, d, turn);
    case IW_OP_WRITE:
        term = place(p, d, IW_REMOTE_WRITE, NULL);
        break;
    case IW_OP_READ_RESPONSE:
        term = read_response(p, d);
        break;
    case IW_OP_READ_REQUEST:
        *turn = (turn_t){.delivery = IW_DELIVER_READ, .word = d->payload, .msn = d->msn};
        break;
    case IW_OP_ATOMIC_REQUEST:
        *turn = (turn_t){.delivery = IW_DELIVER_ATOMIC, .word = d->payload, .msn = d->msn};
        break;
    case IW_OP_ATOMIC_RESPONSE:
        *turn = (turn_t){.delivery = IW_DELIVER_ANSWER, .word = d->payload, .msn = d->msn};
        break;
    default:
        term = IW_TERM_OPCODE;
        break;
    }
    return IW_TERM_NONE == term ? IW_ACCEPTED : refuse(p, term, f->ssn);
}

iw_verdict_t iw_rdmap_segment(iw_peer_t *p, const iw_frame_t *f)
{
    iw_engine_t *e = p->engine;
    int32_t ahead = spec_seq_diff(f->ssn, p->rx.expected);
    spec_node_t *at = NULL;
    iw_ddp_t d;
    turn_t turn = {IW_DELIVER_NOTHING, NULL, NULL, 0};
    if (ahead >= (int32_t) IW_SSN_WINDOW) {
        ++e->count.refused_far;
        return IW_REFUSED;
    }
    if (ahead < 0 || (ahead > 0 && !early_position(p, f->ssn, &at))) {
        ++e->count.segments_twice;
        p->rx.ack_now = true; /* the sender does not know yet */
        return IW_ACCEPTED;
    }
    int term = iw_ddp_check(f->body, f->body_length, &d);
    if (IW_TERM_NONE != term) {
        return refuse(p, term, f->ssn);
    }
    iw_early_t *early = NULL;
    if (ahead > 0 && NULL == (early = iw_pool_get(&e->early))) {
        ++e->count.refused_memory;
        return IW_REFUSED;
    }
    iw_verdict_t verdict = act(p, f, &d, &turn);
    if (IW_ACCEPTED != verdict) {
        if (NULL != early) {
            iw_pool_put(&e->early, early);
        }
        return verdict;
    }
    ++e->count.segments_in;
    e->goes_on = !d.last;
    if (d.tagged || !d.last || 0 != d.mo) { /* a message in one segment is nothing of the one that it passes */
        const bool is_newest = NULL == early ? spec_list_is_empty(&p->rx.early) : at == p->rx.early.prev;
        iw_receive_part(p, is_newest, d.last, d.length, e->time);
    }
    if (NULL != early) {
        ++e->count.segments_early;
        *early = (iw_early_t){.message = turn.message,
                              .ssn = f->ssn,
                              .msn = turn.msn,
                              .delivery = (uint8_t) turn.delivery};
        if (NULL != turn.word) {
            memcpy(&early->word, turn.word, d.length);
        }
        spec_list_insert_after(at, &early->link);
        return IW_ACCEPTED;
    }
    if (!deliver(p, &turn, f->ssn)) {
        return IW_TERMINATED;
    }
    ++p->rx.expected;
    return deliver_early(p) ? IW_ACCEPTED : IW_TERMINATED;
}

/* The request that the peer's Terminate is about, as far as it can be told. */
static const iw_request_t *culprit(const iw_peer_t *p, uint32_t ssn)
{
    const spec_node_t *lists[] = {&p->loss.in_flight, &p->loss.lost};
    for (unsigned i = 0; i < 2; ++i) {
        for (const spec_node_t *l = lists[i]->next; l != lists[i]; l = l->next) {
            const iw_segment_t *s = SPEC_ENTRY(l, iw_segment_t, link);
            if (NULL != s->request && s->ssn == ssn) {
                return s->request;
            }
        }
    }
    return NULL;
}

void iw_rdmap_terminated(iw_peer_t *p, const iw_frame_t *f)
{
    iw_ddp_t d;
    if (IW_TERM_NONE != iw_ddp_check(f->body, f->body_length, &d) || IW_OP_TERMINATE != d.opcode) {
        ++p->engine->count.refused_header;
        return;
    }
    const iw_terminate_t *t = (const iw_terminate_t *) d.payload;
    unsigned term = (unsigned) t->layer_type << 8 | t->code;
    bool access = IW_TERM_STAG == term || IW_TERM_BOUNDS == term || IW_TERM_RIGHTS == term;
    iw_peer_down(p, access ? IW_REMOTE_ACCESS : IW_REMOTE_ERROR, culprit(p, iw_get32(t->ssn)));
}
