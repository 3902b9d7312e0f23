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
#include "rndv_sender.h"

#include <time.h>

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
    const bool rarely = NARROWS == w->narrows && rng_percent(&w->rng, 97);
    send(w, rarely ? 0 : rng_below(&w->rng, w->senders), tags[rng_below(&w->rng, TAGS)], length,
         rng_percent(&w->rng, 90));
}

static void random_post(world_t *w)
{
    int32_t src = (int32_t) rng_below(&w->rng, w->senders), tag = tags[rng_below(&w->rng, TAGS)];
    uint64_t capacity =
        EAGER_LIMIT * (rng_percent(&w->rng, w->percent_large) ? 2 + rng_below(&w->rng, 4) : 1);
    if (rng_percent(&w->rng, w->percent_wildcard)) {
        uint32_t which = 0 != w->wildcards ? w->wildcards : 1 + rng_below(&w->rng, 3);
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
    CHECK(WIDENS != w->narrows);
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
    CHECK(NULL == spec_handle_next(&w->handles, &(uint32_t){0}));
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
    if (rng_percent(&w.rng, 30)) {
        w.wildcards = 1 + rng_below(&w.rng, 3);
        w.percent_wildcard = 70 + rng_below(&w.rng, 31);
    }
    w.narrows = 2 == w.senders && rng_percent(&w.rng, 40) ? NARROWS : WIDE;
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
        spec_stream_drain(&s->recv.msgs, &left);
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
        print_message("SKIP: so few rounds (SPEC_ROUNDS) need not have the hard cases\n");
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
    assert_true(any_tag_used > rounds / 100);
    assert_true(any_source_used > rounds / 200);
    assert_true(widened_at_once > rounds / 100);
    assert_true(widened_later > rounds / 500);
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
    printf(
        "\n# cancels at once %llu, with a REVOKE %llu, asked %llu, waited %llu, too late %llu; "
        "revoked away %llu, "
        "matched meanwhile %llu; past the ring %llu; used for any tag %llu, for any source %llu; "
        "widened at once %llu, later %llu\n",
        (unsigned long long) cancels[SPEC_CANCEL_DONE],
        (unsigned long long) cancels[SPEC_CANCEL_DONE_ASK],
        (unsigned long long) cancels[SPEC_CANCEL_ASK],
        (unsigned long long) cancels[SPEC_CANCEL_WAIT],
        (unsigned long long) cancels[SPEC_CANCEL_TOO_LATE], (unsigned long long) revoked_away,
        (unsigned long long) matched_meanwhile, (unsigned long long) past_ring,
        (unsigned long long) any_tag_used, (unsigned long long) any_source_used,
        (unsigned long long) widened_at_once, (unsigned long long) widened_later);
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
