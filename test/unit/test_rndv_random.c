/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The rendezvous core as a whole, in random schedules.
 *
 * One or two senders (spec_send_t each) and one receiver (spec_match_t, a spec_recv_t per sender),
 * with a channel per direction that delivers in order or in any order. At random: a send, a
 * receive, a cancel, the delivery of a packet, a step of a transfer. A send that uses an RTR
 * writes into the buffer of the receive, at once or at some time before its FIN, and sends MATCH.
 *
 * Nobody believes the core. At the receiver every match is compared with mpi_model.h, and what is
 * offered, with the model's lists. At the sender the RTR that a message gets is compared with the
 * rule itself, counted through the log of all messages. A write may only go to the receive that
 * the message ends up in, and only while that is neither complete nor cancelled. After draining,
 * nothing may be left over anywhere, and the counters must add up.
 *
 * SPEC_SEED=n SPEC_ROUNDS=n: each schedule has the seed n, n+1, ...; a failure tells the one to
 * start with. */
#include "mpi_model.h"

#include "spec_handle.h"
#include "spec_recv.h"
#include "spec_send.h"

#include <time.h>

#define ANY         SPEC_ANY
#define SENDERS     2
#define EAGER_LIMIT 8u
/* Steps of a short and of a long schedule. */
#define SHORT_STEPS 400u
#define LONG_STEPS  6000u

static const int32_t tags[] = {5, 7, -17}; /* the last one is not for the tag wildcard */
#define TAGS (sizeof(tags) / sizeof(tags[0]))

typedef struct message message_t;

typedef enum { PENDING, MATCHED, COMPLETE, CANCELLED } recv_state_t;

typedef struct receive {
    spec_posted_t posted;
    recv_state_t state;
    int32_t src, tag;
    uint64_t capacity;
    uint64_t handle; /* 0 when closed */
    bool cancel_asked;
    uint64_t word;            /* if its offer can be withdrawn */
    const message_t *writer;  /* whose data is in the buffer */
    const message_t *matched; /* what it got by MPI's rules */
    bool fin;
} receive_t;

struct message {
    spec_item_t item;
    spec_unexp_t unexp;
    int src;
    int32_t tag;
    uint64_t length;
    bool is_match;       /* a MATCH: its data goes by RDMA */
    uint64_t r;          /* of a MATCH: the receive it was written to */
    receive_t *receiver; /* who got it */
};

/* Keeping an RTR apart from what the core says about it. */
typedef struct rtr {
    spec_ctl_t ctl; /* also a REVOKE */
    uint64_t r;
    uint32_t first; /* index of message E in the log */
    bool is_kept;
} rtr_t;

typedef enum { TO_RECEIVER_MESSAGE, TO_RECEIVER_FIN, TO_RECEIVER_REVOKED, TO_SENDER } packet_kind_t;

typedef struct packet {
    packet_kind_t kind;
    union {
        message_t *message;
        uint64_t r; /* FIN */
        rtr_t *ctl; /* RTR, REVOKE */
        struct {
            uint32_t no, s;
            int32_t tag;
        } revoked;
    };
} packet_t;

typedef struct channel {
    packet_t *packet;
    size_t n, room;
} channel_t;

/* Pointers in an array. */
typedef struct array {
    void **item;
    size_t n, room;
} array_t;

typedef struct sender {
    spec_send_t send;
    uint32_t start;  /* first sequence number */
    size_t opened;   /* messages sent before the ledger was opened */
    array_t log;     /* all messages, in order */
    array_t ctl;     /* all RTRs and REVOKEs that the receiver made */
    array_t kept;    /* RTRs that were admitted and not settled */
    array_t writing; /* messages that use an RTR and have no FIN yet */
    channel_t down, up;
    spec_recv_t recv; /* at the receiver */
} sender_t;

typedef struct world {
    rng_t rng;
    unsigned senders;
    bool fifo, write_late;
    bool words, all_words; /* offers that can be withdrawn: any, all */
    sender_t sender[SENDERS];
    spec_match_t match;
    spec_handle_table_t handles;
    model_t model;
    array_t receives;
    uint32_t open_cancels;
    uint32_t weight_send, weight_post, weight_cancel, weight_down, weight_up, weight_write;
    uint32_t ahead, pending; /* how far sends and receives get ahead of each other, at most */
    uint32_t percent_speculate, percent_wildcard, percent_large;
} world_t;

/* What happened, over all schedules: shows that the interesting cases were met. */
static uint64_t offered, fates[SPEC_RTR_FATES], cancels[SPEC_CANCEL_WAIT + 1], revoked_away,
    yielded, matched_meanwhile, past_ring, withdrawn;
static uint64_t seed_now;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("not so: %s; again with SPEC_SEED=%llu SPEC_ROUNDS=1", #condition,            \
                     (unsigned long long) seed_now);                                               \
        }                                                                                          \
    } while (0)

static void array_add(array_t *a, void *item)
{
    if (a->n == a->room) {
        void **more = must_alloc((a->room = 2 * a->room + 16) * sizeof(*more));
        if (a->n > 0) {
            memcpy(more, a->item, a->n * sizeof(*more));
        }
        free(a->item);
        a->item = more;
    }
    a->item[a->n++] = item;
}

static void array_drop(array_t *a, size_t i)
{
    a->item[i] = a->item[--a->n];
}

static void array_free(array_t *a, bool with_items)
{
    for (size_t i = 0; with_items && i < a->n; ++i) {
        free(a->item[i]);
    }
    free(a->item);
}

static void put_in(channel_t *c, packet_t packet)
{
    if (c->n == c->room) {
        packet_t *more = must_alloc((c->room = 2 * c->room + 16) * sizeof(*more));
        if (c->n > 0) {
            memcpy(more, c->packet, c->n * sizeof(*more));
        }
        free(c->packet);
        c->packet = more;
    }
    c->packet[c->n++] = packet;
}

static packet_t take_from(world_t *w, channel_t *c)
{
    size_t i = w->fifo ? 0 : rng_below(&w->rng, (uint32_t) c->n);
    packet_t packet = c->packet[i];
    if (w->fifo) {
        memmove(c->packet, c->packet + 1, (c->n - 1) * sizeof(*c->packet));
    } else {
        c->packet[i] = c->packet[c->n - 1];
    }
    --c->n;
    return packet;
}

/* ---- the receiver ---- */

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
    if (msg->item.no == s->recv.msgs.nxt) {
        ++s->recv.msgs.nxt;
        process(w, s, msg);
    } else {
        CHECK(spec_stream_keep(&s->recv.msgs, &msg->item));
    }
    spec_item_t *item;
    while (NULL != (item = spec_stream_take(&s->recv.msgs))) {
        process(w, s, SPEC_ENTRY(item, message_t, item));
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

static void speculate(world_t *w, receive_t *r)
{
    sender_t *s = &w->sender[r->src];
    spec_offer_t offer;
    if (w->words && (w->all_words || rng_percent(&w->rng, 70))) {
        r->posted.claim = (spec_claim_t){.at = &r->word, .no = (uint32_t) (r->handle >> 32)};
        spec_claim_offer(&r->posted.claim);
    }
    /* The model has r as its last receive already. */
    bool expected = !model_wildcard_waits(&w->model, r->src, r->tag) && !is_on_hold(s, r->tag);
    CHECK(expected == spec_recv_speculate(&s->recv, &w->match, &r->posted, &offer));
    if (!expected) {
        return;
    }
    CHECK(offer.e == s->recv.msgs.nxt);
    CHECK(offer.k == model_pending_exact(&w->model, r->src, r->tag) - 1);
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
    if (may_speculate && ANY != src && ANY != tag && capacity > EAGER_LIMIT) {
        speculate(w, r);
    }
}

/* How many messages with this tag, from the given one on. */
static uint32_t sent_since(const sender_t *s, uint32_t first, int32_t tag)
{
    uint32_t n = 0;
    for (size_t i = first; i < s->log.n; ++i) {
        n += ((const message_t *) s->log.item[i])->tag == tag;
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
    sender_t *s = ANY == r->src ? NULL : &w->sender[r->src];
    spec_revoke_t *fresh = must_alloc(sizeof(*fresh));
    spec_cancel_t outcome =
        spec_recv_cancel(NULL == s ? NULL : &s->recv, &w->match, &r->posted, fresh);
    ++cancels[outcome];
    CHECK((SPEC_CANCEL_TOO_LATE == outcome) == (PENDING != r->state));
    /* Nobody waits for a sender that need not do anything. */
    CHECK(!w->all_words || (SPEC_CANCEL_ASK != outcome && SPEC_CANCEL_WAIT != outcome)
          || is_sent(s, r));
    if (spec_cancel_asks(outcome)) {
        rtr_t *revoke = must_alloc(sizeof(*revoke));
        CHECK(NULL != s);
        CHECK(fresh->no == s->ctl.n);
        revoke->ctl =
            (spec_ctl_t){.item = {.no = fresh->no}, .is_revoke = true, .tag = r->posted.tag};
        array_add(&s->ctl, revoke);
        put_in(&s->up, (packet_t){.kind = TO_SENDER, .ctl = revoke});
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

/* ---- a sender ---- */

/* The RTR that names the message which is sent now, taken out of the list, or NULL. */
static rtr_t *named_by_the_rule(sender_t *s, int32_t tag)
{
    for (size_t i = 0; i < s->kept.n; ++i) {
        rtr_t *rtr = s->kept.item[i];
        if (rtr->ctl.tag == tag && sent_since(s, rtr->first, tag) == rtr->ctl.k) {
            array_drop(&s->kept, i);
            return rtr;
        }
    }
    return NULL;
}

static void write_data(world_t *w, message_t *msg)
{
    receive_t *r = spec_handle_find(&w->handles, msg->r);
    CHECK(NULL != r); /* nobody gave the buffer back */
    CHECK(is_alive(r));
    CHECK(NULL == r->writer);
    CHECK(PENDING == r->state || r->matched == msg);
    CHECK(r->src == msg->src && r->tag == msg->tag && msg->length <= r->capacity);
    r->writer = msg;
}

static void send(world_t *w, unsigned src, int32_t tag, uint64_t length, bool is_flat)
{
    sender_t *s = &w->sender[src];
    const bool can_put = is_flat && length > EAGER_LIMIT;
    rtr_t *expected = named_by_the_rule(s, tag);
    message_t *msg = must_alloc(sizeof(*msg));
    spec_ctl_t *ctl = NULL;
    spec_rtr_fate_t fate = SPEC_RTR_FATES;
    msg->src = (int) src;
    msg->tag = tag;
    msg->length = length;
    msg->item.no = spec_send_issue(&s->send, tag, length, can_put, &ctl, &fate);
    CHECK(msg->item.no == s->start + (uint32_t) s->log.n);
    array_add(&s->log, msg);
    CHECK(ctl == (NULL == expected ? NULL : &expected->ctl));
    if (NULL != ctl) {
        CHECK(fate
              == (!can_put               ? SPEC_RTR_MISPREDICTED
                  : length > ctl->length ? SPEC_RTR_TOO_SHORT
                                         : SPEC_RTR_USED));
        fate = SPEC_RTR_USED == fate ? spec_send_take(ctl) : fate;
        ++fates[fate];
        if (SPEC_RTR_USED == fate) {
            msg->is_match = true;
            msg->r = expected->r;
            array_add(&s->writing, msg);
            if (!w->write_late) {
                write_data(w, msg);
            }
        }
    }
    put_in(&s->down, (packet_t){.kind = TO_RECEIVER_MESSAGE, .message = msg});
}

/* A transfer ends. */
static void write_ends(world_t *w, sender_t *s)
{
    size_t i = rng_below(&w->rng, (uint32_t) s->writing.n);
    message_t *msg = s->writing.item[i];
    array_drop(&s->writing, i);
    if (w->write_late) {
        write_data(w, msg);
    }
    put_in(&s->down, (packet_t){.kind = TO_RECEIVER_FIN, .r = msg->r});
}

/* An RTR or REVOKE whose turn it is. */
static void control_turn(sender_t *s, rtr_t *rtr)
{
    if (!rtr->ctl.is_revoke) {
        const uint32_t n = sent_since(s, rtr->first, rtr->ctl.tag);
        const bool is_past_ring = s->log.n - rtr->first > SPEC_RING;
        const bool is_forgotten = rtr->first < s->opened || is_past_ring;
        spec_rtr_fate_t fate = spec_send_admit(&s->send, &rtr->ctl);
        CHECK(is_forgotten == (SPEC_RTR_TOO_OLD == fate));
        past_ring += is_past_ring;
        switch (fate) {
        case SPEC_RTR_KEPT:
            CHECK(n <= rtr->ctl.k);
            rtr->is_kept = true;
            array_add(&s->kept, rtr);
            return;
        case SPEC_RTR_CROSSED:
            CHECK(n > rtr->ctl.k);
            break;
        case SPEC_RTR_TOO_OLD:
            break;
        case SPEC_RTR_FULL:
            CHECK(s->kept.n >= SPEC_KEPT_MAX);
            break;
        default:
            CHECK(!"an honest RTR was refused");
        }
        ++fates[fate];
        return;
    }
    spec_node_t dropped, *node;
    spec_list_init(&dropped);
    uint32_t answer = spec_send_revoke(&s->send, rtr->ctl.tag, &dropped);
    CHECK(answer == s->send.nxt);
    while (NULL != (node = spec_list_pop(&dropped))) {
        rtr_t *gone = SPEC_ENTRY(node, rtr_t, ctl.item.node);
        size_t i = 0;
        while (i < s->kept.n && s->kept.item[i] != gone) {
            ++i;
        }
        CHECK(i < s->kept.n && gone->ctl.tag == rtr->ctl.tag);
        array_drop(&s->kept, i);
        ++fates[SPEC_RTR_REVOKED];
    }
    for (size_t i = 0; i < s->kept.n; ++i) {
        CHECK(((rtr_t *) s->kept.item[i])->ctl.tag != rtr->ctl.tag);
    }
    put_in(&s->down,
           (packet_t){.kind = TO_RECEIVER_REVOKED,
                      .revoked = {.no = rtr->ctl.item.no, .s = answer, .tag = rtr->ctl.tag}});
}

/* ---- the world ---- */

static void deliver_down(world_t *w, sender_t *s)
{
    packet_t packet = take_from(w, &s->down);
    receive_t *r;
    switch (packet.kind) {
    case TO_RECEIVER_MESSAGE:
        message_arrives(w, s, packet.message);
        break;
    case TO_RECEIVER_FIN:
        r = spec_handle_find(&w->handles, packet.r);
        CHECK(NULL != r && !r->fin);
        r->fin = true;
        maybe_complete(w, r);
        break;
    default:
        revoked_arrives(w, s, &packet);
        break;
    }
}

static void deliver_up(world_t *w, sender_t *s)
{
    rtr_t *rtr = take_from(w, &s->up).ctl;
    if (NULL == s->send.ledger) {
        CHECK(0 == spec_send_open_ledger(&s->send));
        s->opened = s->log.n;
    }
    spec_stream_t *stream = spec_send_ctl(&s->send);
    CHECK(spec_stream_keep(stream, &rtr->ctl.item));
    spec_item_t *item;
    while (NULL != (item = spec_stream_take(stream))) {
        control_turn(s, SPEC_ENTRY(item, rtr_t, ctl.item));
    }
    CHECK(spec_send_kept(&s->send) == s->kept.n);
}

static bool is_quiet(const world_t *w)
{
    for (unsigned i = 0; i < w->senders; ++i) {
        const sender_t *s = &w->sender[i];
        if (s->down.n + s->up.n + s->writing.n > 0) {
            return false;
        }
    }
    return true;
}

/* Deliver everything that is under way, in random order. */
static void drain(world_t *w)
{
    while (!is_quiet(w)) {
        sender_t *s = &w->sender[rng_below(&w->rng, w->senders)];
        uint32_t which = rng_below(&w->rng, 3);
        if (0 == which && s->down.n > 0) {
            deliver_down(w, s);
        } else if (1 == which && s->up.n > 0) {
            deliver_up(w, s);
        } else if (2 == which && s->writing.n > 0) {
            write_ends(w, s);
        }
    }
}

static void random_send(world_t *w)
{
    uint64_t length = 1
                      + (rng_percent(&w->rng, w->percent_large)
                             ? EAGER_LIMIT + rng_below(&w->rng, 3 * EAGER_LIMIT)
                             : rng_below(&w->rng, EAGER_LIMIT));
    send(w, rng_below(&w->rng, w->senders), tags[rng_below(&w->rng, TAGS)], length,
         rng_percent(&w->rng, 90));
}

static void random_post(world_t *w)
{
    int32_t src = (int32_t) rng_below(&w->rng, w->senders), tag = tags[rng_below(&w->rng, TAGS)];
    uint64_t capacity =
        EAGER_LIMIT * (rng_percent(&w->rng, w->percent_large) ? 2 + rng_below(&w->rng, 4) : 1);
    if (rng_percent(&w->rng, w->percent_wildcard)) {
        uint32_t which = 1 + rng_below(&w->rng, 3);
        src = which & 1 ? ANY : src;
        tag = which & 2 ? ANY : tag;
    }
    post(w, src, tag, capacity, rng_percent(&w->rng, w->percent_speculate));
}

static void random_cancel(world_t *w)
{
    if (0 == w->receives.n) {
        return;
    }
    /* Mostly young ones, which are pending more often. */
    size_t n = w->receives.n, back = rng_percent(&w->rng, 80) && n > 10 ? 10 : n;
    cancel(w, w->receives.item[n - 1 - rng_below(&w->rng, (uint32_t) back)]);
}

static void step(world_t *w)
{
    uint32_t sum = w->weight_send + w->weight_post + w->weight_cancel + w->weight_down
                   + w->weight_up + w->weight_write;
    uint32_t x = rng_below(&w->rng, sum);
    sender_t *s = &w->sender[rng_below(&w->rng, w->senders)];
    if (x < w->weight_send) {
        if (w->model.messages.n + s->down.n < w->ahead) {
            random_send(w);
        }
    } else if ((x -= w->weight_send) < w->weight_post) {
        if (w->model.receives.n < w->pending) {
            random_post(w);
        }
    } else if ((x -= w->weight_post) < w->weight_cancel) {
        random_cancel(w);
    } else if ((x -= w->weight_cancel) < w->weight_down) {
        if (s->down.n > 0) {
            deliver_down(w, s);
        }
    } else if (x - w->weight_down < w->weight_up) {
        if (s->up.n > 0) {
            deliver_up(w, s);
        }
    } else if (s->writing.n > 0) {
        write_ends(w, s);
    }
}

/* Nothing is under way: what is kept must belong to receives that are pending still. */
static void check_quiet(world_t *w)
{
    CHECK(0 == w->open_cancels);
    CHECK(w->match.posted_n == w->model.receives.n);
    CHECK(w->match.unexp_n == w->model.messages.n);
    for (unsigned i = 0; i < w->senders; ++i) {
        sender_t *s = &w->sender[i];
        CHECK(spec_list_is_empty(&s->recv.revokes));
        CHECK(spec_stream_is_empty(&s->recv.msgs));
        CHECK(s->recv.msgs.nxt == s->send.nxt);
        CHECK(s->kept.n == spec_send_kept(&s->send));
        CHECK(NULL == s->send.ledger
              || (spec_stream_is_empty(spec_send_ctl(&s->send))
                  && spec_send_ctl(&s->send)->nxt == s->ctl.n));
        for (size_t j = 0; j < s->kept.n; ++j) {
            receive_t *r = spec_handle_find(&w->handles, ((rtr_t *) s->kept.item[j])->r);
            CHECK(NULL != r && PENDING == r->state && r->posted.has_rtr);
        }
    }
    for (size_t i = 0; i < w->receives.n; ++i) {
        const receive_t *r = w->receives.item[i];
        CHECK(MATCHED != r->state);
        CHECK((PENDING == r->state) == (NULL != r->posted.bin));
    }
    for (uint32_t i = 0; i <= w->match.mask; ++i) {
        for (const spec_bin_t *bin = w->match.bucket[i]; NULL != bin; bin = bin->chain) {
            uint32_t posted = 0, rtrs = 0;
            for (const spec_node_t *n = spec_list_first(&bin->posted); NULL != n;
                 n = spec_list_next(&bin->posted, n)) {
                ++posted;
                rtrs += SPEC_ENTRY(n, spec_posted_t, node)->has_rtr;
            }
            CHECK(0 == bin->revoking && bin->posted_n == posted && bin->rtr_n == rtrs);
        }
    }
}

static void end(world_t *w)
{
    drain(w);
    check_quiet(w);
    for (size_t i = 0; i < w->receives.n; ++i) {
        receive_t *r = w->receives.item[i];
        if (PENDING == r->state) {
            cancel(w, r);
        }
    }
    drain(w);
    check_quiet(w);
    CHECK(0 == w->match.posted_n && 0 == w->match.wild_n);
    while (w->model.messages.n > 0) {
        const model_entry_t *oldest = &w->model.messages.entry[0];
        bool is_wild = oldest->tag >= 0 && rng_percent(&w->rng, 30);
        post(w, rng_percent(&w->rng, 30) ? ANY : oldest->src, is_wild ? ANY : oldest->tag,
             4 * EAGER_LIMIT, true);
    }
    check_quiet(w);
    CHECK(0 == w->match.unexp_n && 0 == w->match.posted_n);
    CHECK(0 == w->handles.in_use);
    for (unsigned i = 0; i < w->senders; ++i) {
        sender_t *s = &w->sender[i];
        CHECK(0 == spec_send_kept(&s->send));
        for (size_t j = 0; j < s->log.n; ++j) {
            const message_t *msg = s->log.item[j];
            CHECK(NULL != msg->receiver && msg->receiver->matched == msg);
        }
    }
    for (size_t i = 0; i < w->receives.n; ++i) {
        const receive_t *r = w->receives.item[i];
        CHECK(COMPLETE == r->state || CANCELLED == r->state);
        CHECK(NULL == r->writer || r->writer == r->matched);
    }
}

static void schedule(uint64_t seed, uint32_t steps)
{
    world_t w = {.rng = {seed}};
    uint64_t offered_before = offered, settled = 0, settled_before = 0;
    seed_now = seed;
    for (int i = 0; i < SPEC_RTR_FATES; ++i) {
        settled_before += fates[i];
    }
    CHECK(0 == spec_match_init(&w.match));
    w.senders = 1 + rng_below(&w.rng, SENDERS);
    w.fifo = rng_percent(&w.rng, 30);
    w.write_late = rng_percent(&w.rng, 50);
    w.words = rng_percent(&w.rng, 60);
    w.all_words = w.words && rng_percent(&w.rng, 60);
    /* Sometimes one side runs ahead, packets linger, or nobody cancels. */
    w.weight_send = 5 + rng_below(&w.rng, 20);
    w.weight_post = 5 + rng_below(&w.rng, 20);
    w.weight_cancel = rng_percent(&w.rng, 50) ? 0 : 1 + rng_below(&w.rng, 4);
    w.weight_down = rng_percent(&w.rng, 20) ? 2 : 10 + rng_below(&w.rng, 50);
    w.weight_up = rng_percent(&w.rng, 20) ? 2 : 10 + rng_below(&w.rng, 50);
    w.weight_write = 1 + rng_below(&w.rng, 20);
    w.ahead = 1 + rng_below(&w.rng, rng_percent(&w.rng, 50) ? 4 : 20);
    w.pending = 1 + rng_below(&w.rng, 20);
    if (rng_percent(&w.rng, steps > SHORT_STEPS + 10 ? 40 : 5)) { /* past the ledger's ring */
        w.ahead = 2 * SPEC_RING;
        w.weight_up = 1;
    }
    w.percent_speculate = 50 + rng_below(&w.rng, 51);
    w.percent_wildcard = rng_percent(&w.rng, 50) ? 0 : rng_below(&w.rng, 40);
    w.percent_large = 20 + rng_below(&w.rng, 80);
    for (unsigned i = 0; i < w.senders; ++i) {
        sender_t *s = &w.sender[i];
        spec_recv_init(&s->recv);
        s->start = rng_percent(&w.rng, 50) ? 0 : 0u - rng_below(&w.rng, steps / 4);
        s->send.nxt = s->recv.msgs.nxt = s->start;
        if (rng_percent(&w.rng, 70)) { /* as if there had been RTRs before */
            CHECK(0 == spec_send_open_ledger(&s->send));
        }
    }
    for (uint32_t i = 0; i < steps; ++i) {
        step(&w);
    }
    end(&w);
    for (int i = 0; i < SPEC_RTR_FATES; ++i) {
        settled += fates[i];
    }
    CHECK(offered - offered_before == settled - settled_before);

    for (unsigned i = 0; i < w.senders; ++i) {
        sender_t *s = &w.sender[i];
        spec_node_t left;
        spec_list_init(&left);
        spec_send_close_ledger(&s->send, &left);
        CHECK(spec_list_is_empty(&left));
        array_free(&s->log, true);
        array_free(&s->ctl, true);
        array_free(&s->kept, false);
        array_free(&s->writing, false);
        free(s->down.packet);
        free(s->up.packet);
    }
    array_free(&w.receives, true);
    model_fini(&w.model);
    spec_handle_fini(&w.handles);
    spec_match_fini(&w.match);
}

static uint64_t first_seed;
static uint64_t rounds = 20000;

static void short_schedules(void **state)
{
    (void) state;
    for (uint64_t i = 0; i < rounds; ++i) {
        schedule(first_seed + i, 10 + (uint32_t) ((first_seed + i) % SHORT_STEPS));
    }
}

static void long_schedules(void **state)
{
    (void) state;
    for (uint64_t i = 0; i < (rounds + 249) / 250; ++i) {
        schedule(first_seed + i, LONG_STEPS);
    }
}

/* A test that never meets the hard cases would prove nothing. */
static void the_hard_cases_were_met(void **state)
{
    (void) state;
    if (rounds < 10000) {
        skip();
    }
    assert_true(fates[SPEC_RTR_USED] > rounds / 4);
    assert_true(fates[SPEC_RTR_CROSSED] > rounds / 4);
    assert_true(fates[SPEC_RTR_MISPREDICTED] > rounds / 10);
    assert_true(fates[SPEC_RTR_TOO_SHORT] > rounds / 10);
    assert_true(fates[SPEC_RTR_REVOKED] > rounds / 10);
    assert_true(fates[SPEC_RTR_TOO_OLD] > rounds / 10);
    assert_true(cancels[SPEC_CANCEL_ASK] > rounds / 10);
    assert_true(cancels[SPEC_CANCEL_DONE_ASK] > rounds / 10);
    assert_true(withdrawn > rounds / 10);
    assert_true(cancels[SPEC_CANCEL_WAIT] > rounds / 10);
    assert_true(cancels[SPEC_CANCEL_DONE] > rounds / 10);
    assert_true(cancels[SPEC_CANCEL_TOO_LATE] > rounds / 10);
    assert_true(yielded > rounds / 100);
    assert_true(past_ring > 0);
    assert_true(revoked_away > rounds / 10);
    assert_true(matched_meanwhile > rounds / 100);
}

static int report(void **state)
{
    static const char *const name[SPEC_RTR_FATES] = {
        [SPEC_RTR_USED] = "used",           [SPEC_RTR_CROSSED] = "crossed",
        [SPEC_RTR_TOO_OLD] = "too old",     [SPEC_RTR_MISPREDICTED] = "mispredicted",
        [SPEC_RTR_TOO_SHORT] = "too short", [SPEC_RTR_FULL] = "full",
        [SPEC_RTR_REVOKED] = "revoked",
    };
    (void) state;
    printf("# RTRs sent %llu", (unsigned long long) offered);
    for (int i = 0; i < SPEC_RTR_FATES; ++i) {
        if (NULL != name[i]) {
            printf(", %s %llu", name[i], (unsigned long long) fates[i]);
        }
    }
    printf("\n# cancels at once %llu, with a REVOKE %llu, asked %llu, waited %llu, too late %llu; "
           "revoked away %llu, "
           "matched meanwhile %llu; past the ring %llu\n",
           (unsigned long long) cancels[SPEC_CANCEL_DONE],
           (unsigned long long) cancels[SPEC_CANCEL_DONE_ASK],
           (unsigned long long) cancels[SPEC_CANCEL_ASK],
           (unsigned long long) cancels[SPEC_CANCEL_WAIT],
           (unsigned long long) cancels[SPEC_CANCEL_TOO_LATE], (unsigned long long) revoked_away,
           (unsigned long long) matched_meanwhile, (unsigned long long) past_ring);
    fflush(stdout);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_schedules),
        cmocka_unit_test(long_schedules),
        cmocka_unit_test(the_hard_cases_were_met),
    };
    const char *seed = getenv("SPEC_SEED"), *count = getenv("SPEC_ROUNDS");
    first_seed = NULL == seed ? (uint64_t) time(NULL) * 1000003 : strtoull(seed, NULL, 0);
    rounds = NULL == count ? rounds : strtoull(count, NULL, 0);
    printf("# SPEC_SEED=%llu SPEC_ROUNDS=%llu\n", (unsigned long long) first_seed,
           (unsigned long long) rounds);
    fflush(stdout);
    return cmocka_run_group_tests_name("spec_rndv_random", tests, NULL, report);
}
