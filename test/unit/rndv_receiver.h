/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The receiver of test_rndv_random.c: its matches are compared with mpi_model.h, its offers with the model's lists. */
#ifndef RNDV_RECEIVER_H
#define RNDV_RECEIVER_H

#include "rndv_world.h"

static bool is_alive(const receive_t *r)
{
    return PENDING == r->state || MATCHED == r->state;
}

static void maybe_complete(world_t *w, receive_t *r)
{
    if (MATCHED == r->state && (!r->matched->is_match || r->fin)) {
        r->state = COMPLETE;
        if (r->matched->is_match) {
            CHECK(r->writer == r->matched); /* the data is there */
        }
        CHECK(r == spec_handle_close(&w->handles, r->handle));
    }
}

static void matched(world_t *w, receive_t *r, message_t *msg)
{
    CHECK(PENDING == r->state);
    CHECK(NULL == msg->receiver); /* each message once */
    CHECK(NULL == r->writer || r->writer == msg);
    CHECK(!msg->is_match || r->handle == msg->r);
    r->state = MATCHED;
    r->matched = msg;
    msg->receiver = r;
    if (r->cancel_asked) {
        ++matched_meanwhile;
        --w->open_cancels;
    }
    maybe_complete(w, r);
}

static void cancelled(world_t *w, receive_t *r)
{
    CHECK(PENDING == r->state);
    CHECK(NULL == r->writer);
    CHECK(NULL == r->posted.bin);
    CHECK(model_remove(&w->model.receives, r));
    CHECK(r == spec_handle_close(&w->handles, r->handle));
    r->state = CANCELLED;
}

static void process(world_t *w, sender_t *s, message_t *msg);

static void send_revoke(sender_t *s, const spec_revoke_t *revoke)
{
    rtr_t *ctl = must_alloc(sizeof(*ctl));
    CHECK(revoke->no == s->ctl.n);
    ctl->ctl = (spec_ctl_t){.item = {.no = revoke->no}, .is_revoke = true, .tag = revoke->bin->tag};
    array_add(&s->ctl, ctl);
    put_in(&s->up, (packet_t){.kind = TO_SENDER, .ctl = ctl});
}

static void process_kept(world_t *w, sender_t *s)
{
    spec_item_t *item;
    while (NULL != (item = spec_stream_take(&s->recv.msgs))) {
        process(w, s, SPEC_ENTRY(item, message_t, item));
    }
}

/* The second sender has sent; its messages are kept until this is over. */
static void widen(world_t *w)
{
    spec_widen_t outcome;
    spec_revoke_t *fresh;
    const bool is_first = NARROWS == w->narrows;
    w->narrows = WIDENS;
    while (SPEC_WIDEN_ASK
           == (outcome = spec_recv_widen(&w->sender[0].recv, &w->match, 0,
                                         fresh = must_alloc(sizeof(*fresh))))) {
        send_revoke(&w->sender[0], fresh);
    }
    free(fresh);
    CHECK(SPEC_WIDEN_NO_MEMORY != outcome);
    if (SPEC_WIDEN_DONE == outcome) {
        ++*(is_first ? &widened_at_once : &widened_later);
        for (size_t i = 0; i < w->receives.n; ++i) {
            const receive_t *r = w->receives.item[i];
            CHECK(NULL == r->posted.bin || (!r->posted.narrowed && r->posted.src == r->src));
        }
        w->narrows = WIDE;
        process_kept(w, &w->sender[1]);
    }
}

static void finish_revokes(world_t *w, sender_t *s)
{
    spec_revoke_t *revoke;
    spec_node_t gone, *n;
    spec_list_init(&gone);
    while (NULL != (revoke = spec_recv_revoke_done(&s->recv, &w->match, &gone))) {
        CHECK(0 == revoke->bin->revoking);
        CHECK(0 == revoke->bin->rtr_n);
        free(revoke);
        while (NULL != (n = spec_list_pop(&gone))) {
            receive_t *r = SPEC_ENTRY(n, receive_t, posted.node);
            CHECK(r->cancel_asked);
            --w->open_cancels;
            ++revoked_away;
            cancelled(w, r);
        }
    }
    if (WIDENS == w->narrows) {
        widen(w);
    }
}

/* A message whose turn it is. */
static void process(world_t *w, sender_t *s, message_t *msg)
{
    CHECK(s->recv.msgs.nxt == (uint32_t) (msg->item.no + 1));
    spec_posted_t *skipped;
    while (!msg->is_match
           && NULL != (skipped = spec_match_find_posted(&w->match, msg->src, msg->tag))
           && spec_recv_yields(skipped)) {
        receive_t *r = SPEC_ENTRY(skipped, receive_t, posted);
        spec_match_remove_posted(&w->match, skipped);
        CHECK(r->cancel_asked);
        --w->open_cancels;
        ++yielded;
        cancelled(w, r);
    }
    receive_t *expected = model_arrive(&w->model, msg->src, msg->tag, msg);
    spec_posted_t *p = spec_match_find_posted(&w->match, msg->src, msg->tag);
    CHECK(p == (NULL == expected ? NULL : &expected->posted));
    if (NULL != p) {
        spec_match_remove_posted(&w->match, p);
        matched(w, expected, msg);
    } else {
        CHECK(!msg->is_match); /* it named a receive */
        msg->unexp.src = msg->src;
        msg->unexp.tag = msg->tag;
        CHECK(0 == spec_match_add_unexp(&w->match, &msg->unexp));
    }
    finish_revokes(w, s);
}

static void message_arrives(world_t *w, sender_t *s, message_t *msg)
{
    if (msg->item.no != s->recv.msgs.nxt) {
        CHECK(spec_stream_keep(&s->recv.msgs, &msg->item));
    } else if (s == &w->sender[1] && WIDE != w->narrows) {
        CHECK(spec_stream_keep(&s->recv.msgs, &msg->item));
        widen(w);
    } else {
        ++s->recv.msgs.nxt;
        process(w, s, msg);
        process_kept(w, s);
    }
}

static void revoked_arrives(world_t *w, sender_t *s, const packet_t *packet)
{
    const uint32_t no = packet->revoked.no, answer = packet->revoked.s;
    CHECK(!spec_recv_revoked(&s->recv, no, packet->revoked.tag + 1, answer));
    CHECK(!spec_recv_revoked(&s->recv, no + 1000000, packet->revoked.tag, answer));
    CHECK(spec_recv_revoked(&s->recv, no, packet->revoked.tag, answer));
    CHECK(!spec_recv_revoked(&s->recv, no, packet->revoked.tag, answer));
    finish_revokes(w, s);
}

/* Is a cancel under way that speculation has to wait for? */
static bool is_on_hold(const sender_t *s, int32_t tag)
{
    for (const spec_node_t *n = spec_list_first(&s->recv.revokes); NULL != n;
         n = spec_list_next(&s->recv.revokes, n)) {
        if (SPEC_ENTRY(n, spec_revoke_t, node)->bin->tag == tag) {
            return true;
        }
    }
    return false;
}

/* May it take messages with this tag? */
static bool is_for(int32_t wanted, int32_t tag)
{
    return ANY == wanted ? tag >= 0 : wanted == tag;
}

/* By the rule. k: how many stand before it that it counts. */
static bool may_offer(const world_t *w, const receive_t *r, uint32_t *k)
{
    bool may = true;
    *k = 0;
    for (size_t i = 0; i < w->model.receives.n; ++i) {
        const receive_t *other = w->model.receives.entry[i].what;
        const bool same_source = other->posted.src == r->posted.src;
        if (other == r) {
            continue;
        }
        if (same_source && other->tag == r->tag) {
            ++*k;
        } else if (same_source || ANY == other->posted.src) {
            may &= ANY == r->tag
                       ? other->tag < 0 && ANY != other->tag
                       : (same_source && ANY != other->tag) || !is_for(other->tag, r->tag);
        }
    }
    return may;
}

static void speculate(world_t *w, receive_t *r)
{
    sender_t *s = &w->sender[r->posted.src];
    uint32_t k;
    spec_offer_t offer;
    if (w->words && (w->all_words || rng_percent(&w->rng, 70))) {
        r->posted.claim = (spec_claim_t){.at = &r->word, .no = (uint32_t) (r->handle >> 32)};
        spec_claim_offer(&r->posted.claim);
    }
    /* The model has r as its last receive already. */
    bool expected = may_offer(w, r, &k) && !is_on_hold(s, r->tag);
    CHECK(expected == spec_recv_speculate(&s->recv, &w->match, &r->posted, &offer));
    if (!expected) {
        return;
    }
    CHECK(offer.e == s->recv.msgs.nxt);
    CHECK(offer.k == k);
    CHECK(offer.no == s->ctl.n);
    rtr_t *rtr = must_alloc(sizeof(*rtr));
    rtr->ctl = (spec_ctl_t){.item = {.no = offer.no},
                            .tag = r->tag,
                            .e = offer.e,
                            .k = offer.k,
                            .length = r->capacity,
                            .claim = r->posted.claim};
    rtr->r = r->handle;
    rtr->first = offer.e - s->start;
    array_add(&s->ctl, rtr);
    put_in(&s->up, (packet_t){.kind = TO_SENDER, .ctl = rtr});
    ++offered;
}

static void post(world_t *w, int32_t src, int32_t tag, uint64_t capacity, bool may_speculate)
{
    receive_t *r = must_alloc(sizeof(*r));
    array_add(&w->receives, r);
    r->src = r->posted.src = src;
    r->tag = r->posted.tag = tag;
    if (ANY == src && NARROWS == w->narrows) {
        r->posted.src = 0;
        r->posted.narrowed = true;
    }
    r->sender = r->posted.src;
    r->capacity = capacity;
    r->handle = spec_handle_open(&w->handles, r);
    CHECK(0 != r->handle);
    message_t *expected = model_post(&w->model, src, tag, r);
    spec_unexp_t *u = spec_match_find_unexp(&w->match, src, tag);
    CHECK(u == (NULL == expected ? NULL : &expected->unexp));
    if (NULL != u) {
        spec_match_remove_unexp(&w->match, u);
        matched(w, r, expected);
        return;
    }
    CHECK(0 == spec_match_post(&w->match, &r->posted));
    if (may_speculate && ANY != r->posted.src && capacity > EAGER_LIMIT
        && (WIDE == w->narrows || 0 == r->posted.src)) {
        speculate(w, r);
    }
}

/* How many messages with this tag, or any, from the given one on. */
static uint32_t sent_since(const sender_t *s, uint32_t first, int32_t tag)
{
    uint32_t n = 0;
    for (size_t i = first; i < s->log.n; ++i) {
        n += is_for(tag, ((const message_t *) s->log.item[i])->tag);
    }
    return n;
}

/* Has its message been sent, whichever way? If the receives before it get theirs. */
static bool is_sent(const sender_t *s, const receive_t *r)
{
    uint32_t before = 0;
    for (const spec_node_t *n = spec_list_first(&r->posted.bin->posted); n != &r->posted.node;
         n = spec_list_next(&r->posted.bin->posted, n)) {
        ++before;
    }
    return sent_since(s, s->recv.msgs.nxt - s->start, r->tag) > before;
}

static void cancel(world_t *w, receive_t *r)
{
    sender_t *s = ANY == r->sender ? NULL : &w->sender[r->sender];
    spec_revoke_t *fresh = must_alloc(sizeof(*fresh));
    spec_cancel_t outcome =
        spec_recv_cancel(NULL == s ? NULL : &s->recv, &w->match, &r->posted, fresh);
    ++cancels[outcome];
    CHECK((SPEC_CANCEL_TOO_LATE == outcome) == (PENDING != r->state));
    /* Nobody waits for a sender that need not do anything. */
    CHECK(!w->all_words || (SPEC_CANCEL_ASK != outcome && SPEC_CANCEL_WAIT != outcome)
          || is_sent(s, r));
    if (spec_cancel_asks(outcome)) {
        CHECK(NULL != s && fresh->bin->tag == r->posted.tag);
        send_revoke(s, fresh);
    } else {
        free(fresh);
    }
    if (spec_cancel_is_done(outcome)) {
        withdrawn += 0 != r->word;
        if (r->cancel_asked) {
            --w->open_cancels;
        }
        cancelled(w, r);
    } else if (PENDING == r->state && !r->cancel_asked) {
        r->cancel_asked = true;
        ++w->open_cancels;
    }
}

#endif
