/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* iw_reach.h: two ends decide in time whether they reach each other, and come to the same, whatever the network drops, copies,
 * changes and delays, whenever either begins, and however long it is stopped. */
#include "iw_pair.h"
#include "iw_reach.h"

#define PROMISE (10 * MS)
/* All questions that silence gets, and a scheduler's slack. */
#define SILENCE                                                                                    \
    ((IW_REACH_SILENT + IW_REACH_TRIPS * PROMISE / IW_ASK_EVERY + 1) * IW_ASK_EVERY + 100 * MS)
#define LONGEST (SILENCE + (IW_REACH_HEARD - IW_REACH_SILENT) * IW_ASK_EVERY)

typedef struct end {
    iw_peer_t *peer;
    iw_reach_net_t net;
    iw_reach_host_t host;
    iw_reach_verdict_t verdict;
    uint64_t begins;  /* UINT64_MAX: it never wants to know */
    uint64_t uses;    /* when it wants to know, if that is later than it asks first */
    uint64_t decided; /* when */
} end_t;

/* The peer speaks first: known from now on, as far as it was not given up. */
static end_t ends[2];
static link_t *world;

static iw_peer_t *meet(void *context, iw_engine_t *engine, uint64_t identity)
{
    const unsigned me = engine == world->engine[1];
    (void) context;
    (void) identity;
    if (IW_REACH_NO != ends[me].verdict && NULL == ends[me].peer) {
        ends[me].peer = link_peer(world, me, !me, NULL);
    }
    return ends[me].peer;
}

static void tune(iw_config_t *c)
{
    c->unknown = meet;
}

static void begin(link_t *l, const iw_fault_rates_t *rates, uint64_t seed)
{
    link_tune = tune;
    link_init(l, 2, rates, seed);
    link_tune = NULL;
    world = l;
    memset(ends, 0, sizeof(ends));
    ends[0].begins = ends[1].begins = l->now;
}

/* What the user of the engine does when it has time. */
static void step(link_t *l, unsigned i)
{
    end_t *e = &ends[i];
    if (l->now < e->begins || l->asleep[i] > l->now || IW_REACH_YES <= e->verdict) {
        return;
    }
    if (NULL == e->peer) {
        e->peer = link_peer(l, i, !i, NULL);
    }
    e->verdict = IW_REACH_ASKS;
    const iw_contact_t contact = iw_peer_contact(e->peer);
    const uint32_t patience = iw_reach_patience(&e->net, &e->host, contact, PROMISE);
    if (l->now < e->uses) {
        iw_peer_ask(e->peer, iw_reach_patience(&e->net, &e->host, IW_CONTACT_NONE, PROMISE) + 1);
        return;
    }
    e->verdict = iw_reach_judge(contact, iw_peer_asked(e->peer), patience);
    iw_peer_ask(e->peer, patience + 1);
    if (IW_REACH_ASKS != e->verdict) {
        e->decided = l->now;
    }
    if (IW_REACH_NO == e->verdict) {
        iw_peer_refuse(e->peer);
    }
}

static bool is_open(unsigned i)
{
    return UINT64_MAX != ends[i].begins && ends[i].verdict < IW_REACH_YES;
}

static void run(link_t *l)
{
    const uint64_t until = l->now + 60 * S;
    while (is_open(0) || is_open(1)) {
        assert_true(l->now < until);
        step(l, 0);
        step(l, 1);
        link_run(l, l->now + MS);
    }
}

static void both_directions_work(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 1);
    const uint64_t began = l.now;
    run(&l);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(ends[i].verdict, IW_REACH_YES);
        assert_true(ends[i].decided <= began + 2 * MS);
    }
    /* The connection is the one that data takes. */
    uint8_t buffer[8];
    iw_completion_t c;
    post_one(&l, 1, buffer, sizeof(buffer));
    assert_int_equal(send_bytes(ends[0].peer, "hello", 6, IW_INLINE), IW_OK);
    expect(&l, 1, IW_RECEIVED, IW_OK, &c);
    assert_int_equal(c.length, 6);
    expect(&l, 0, IW_SENT, IW_OK, &c);
    link_fini(&l);
}

/* The other end never asks by itself, and knows as much: it has nothing to wait for when it wants to know. */
static void one_end_asks(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 2);
    ends[1].begins = UINT64_MAX;
    run(&l);
    assert_int_equal(ends[0].verdict, IW_REACH_YES);
    link_run(&l, l.now + 10 * MS);
    assert_int_equal(iw_peer_contact(ends[1].peer), IW_CONTACT_ANSWERED);
    ends[1].begins = l.now;
    step(&l, 1);
    step(&l, 1);
    assert_int_equal(ends[1].verdict, IW_REACH_YES);
    assert_int_equal(ends[1].decided, l.now);
    link_fini(&l);
}

/* Whoever asks: in less than a second the answer is no, at both ends if both ask. An end that is heard says goodbye. */
static void a_direction_is_blocked(void **state)
{
    (void) state;
    for (unsigned blocked = 1; blocked < 4; ++blocked) {
        for (unsigned asks = 1; asks < 4; ++asks) {
            link_t l;
            begin(&l, NULL, 3);
            const uint64_t began = l.now;
            for (unsigned i = 0; i < 2; ++i) {
                l.deaf[i] = 0 != (blocked >> i & 1);
                ends[i].begins = asks >> i & 1 ? l.now : UINT64_MAX;
            }
            run(&l);
            for (unsigned i = 0; i < 2; ++i) {
                if (asks >> i & 1) {
                    assert_int_equal(ends[i].verdict, IW_REACH_NO);
                    assert_true(ends[i].decided <= began + SILENCE);
                    assert_true(ends[i].decided < began + S);
                }
            }
            link_fini(&l);
        }
    }
}

/* An end that has been given up is not taken, although the path would carry by now; and it comes to the same. */
static void who_was_given_up_gives_up(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 4);
    ends[1].begins = l.now + 3 * S;
    l.asleep[1] = l.now + 2 * S;
    const uint64_t began = l.now;
    run(&l);
    assert_int_equal(ends[0].verdict, IW_REACH_NO);
    assert_true(ends[0].decided < began + LONGEST);
    assert_int_equal(ends[1].verdict, IW_REACH_NO);
    assert_true(ends[1].decided < ends[1].begins + LONGEST);
    link_fini(&l);
}

/* Its port is there, it will read from it in a moment. */
static void a_peer_that_is_late(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 5);
    ends[1].begins = l.now + 3 * S;
    l.asleep[1] = l.now + 450 * MS;
    run(&l);
    assert_int_equal(ends[0].verdict, IW_REACH_YES);
    assert_int_equal(ends[1].verdict, IW_REACH_YES);
    link_fini(&l);
}

/* Its host had no processor for the one that asks: the time alone gives up nobody. */
static void who_was_stopped_itself_asks_first(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 6);
    ends[1].begins = UINT64_MAX;
    l.latency = 30 * MS;
    step(&l, 0);
    link_run(&l, l.now + MS);
    l.asleep[0] = l.now + 5 * S; /* the answer waits */
    l.asleep[1] = l.now + 5 * S + 30 * MS;
    run(&l);
    assert_int_equal(ends[0].verdict, IW_REACH_YES);
    link_fini(&l);
}

/* The questions of before count when somebody wants to know: nobody waits then, even if the other end does not want to know and
 * says no goodbye. */
static void what_was_asked_before_counts(void **state)
{
    (void) state;
    for (unsigned blocked = 0; blocked < 4; ++blocked) {
        for (unsigned wants = 0; wants < 2; ++wants) {
            link_t l;
            begin(&l, NULL, 10);
            const uint64_t began = l.now;
            for (unsigned i = 0; i < 2; ++i) {
                l.deaf[i] = 0 != (blocked >> i & 1);
                ends[i].uses = l.now + (i == wants ? 2 : 3) * S;
            }
            run(&l);
            for (unsigned i = 0; i < 2; ++i) {
                assert_int_equal(ends[i].verdict, 0 == blocked ? IW_REACH_YES : IW_REACH_NO);
                assert_true(ends[i].decided <= began + (i == wants ? 2 : 3) * S + MS);
            }
            assert_true(l.sent < 4 * IW_REACH_SILENT); /* and it does not ask for ever */
            link_fini(&l);
        }
    }
}

/* The end that hears comes to it no later than the one that does not, also if that one does not want to know. */
static void who_asks_no_more_has_not_heard(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 12);
    const uint64_t began = l.now;
    l.deaf[1] = true;
    ends[1].uses = l.now + 3 * S;
    run(&l);
    assert_int_equal(ends[0].verdict, IW_REACH_NO);
    assert_true(ends[0].decided <= began + SILENCE + IW_ASK_FADES);
    link_fini(&l);
}

/* Its host has answered: it is the process that is slow, or stopped. */
static void a_host_that_answers_is_trusted(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 11);
    ends[1].begins = UINT64_MAX;
    l.asleep[1] = l.now + 8 * S;
    iw_reach_answered(&ends[0].net, &ends[0].host, 1);
    run(&l);
    assert_int_equal(ends[0].verdict, IW_REACH_YES);
    link_fini(&l);
}

/* Some of its ports are closed: the next one is not waited for as long as the first. */
static void a_host_that_answers_in_part(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 13);
    ends[1].begins = UINT64_MAX;
    l.cut[1] = true;
    const uint64_t began = l.now;
    iw_reach_answered(&ends[0].net, &ends[0].host, 1);
    iw_reach_given_up(&ends[0].net, &ends[0].host);
    run(&l);
    assert_int_equal(ends[0].verdict, IW_REACH_NO);
    assert_true(ends[0].decided >= began + S && ends[0].decided < began + LONGEST);
    link_fini(&l);
}

/* A long way, and every third datagram is lost: both ends ask at the same time and hear each other before they give up. */
static void a_long_way(void **state)
{
    iw_fault_rates_t rates;
    (void) state;
    assert_true(iw_fault_parse(&rates, "drop=0.3"));
    for (uint64_t seed = 0; seed < 1000; ++seed) {
        link_t l;
        rng_t rng = {seed};
        begin(&l, &rates, seed);
        l.latency = 400 * MS;
        ends[1].begins += rng_below(&rng, 300) * MS;
        run(&l);
        assert_int_equal(ends[0].verdict, IW_REACH_YES);
        assert_int_equal(ends[1].verdict, IW_REACH_YES);
        link_fini(&l);
    }
}

/* What one answer took is what the next one, from another host, may take that nobody there asks for. */
static void a_long_way_is_known_then(void **state)
{
    iw_fault_rates_t rates;
    (void) state;
    assert_true(iw_fault_parse(&rates, "drop=0.3"));
    for (uint64_t seed = 0; seed < 1000; ++seed) {
        link_t l;
        iw_reach_host_t other = {false, false};
        begin(&l, &rates, seed);
        l.latency = 400 * MS;
        ends[1].begins = UINT64_MAX;
        iw_reach_answered(&ends[0].net, &other, 42);
        run(&l);
        assert_int_equal(ends[0].verdict, IW_REACH_YES);
        link_fini(&l);
    }
}

/* Where a host, or all of a network, was asked in vain, nobody else waits; but a process that speaks, or of whose host one does, is
 * asked. */
static void in_vain(void **state)
{
    iw_reach_net_t net = {0, 0, 0};
    iw_reach_host_t a = {false, false}, b = a, c = a;
    (void) state;
    assert_false(iw_reach_in_vain(&net, &a, IW_CONTACT_NONE));
    iw_reach_given_up(&net, &a);
    iw_reach_given_up(&net, &a); /* another process of it */
    assert_true(iw_reach_in_vain(&net, &a, IW_CONTACT_NONE));
    assert_false(iw_reach_in_vain(&net, &a, IW_CONTACT_HEARD));
    assert_false(iw_reach_in_vain(&net, &c, IW_CONTACT_NONE));
    iw_reach_given_up(&net, &b);
    assert_true(iw_reach_in_vain(&net, &c, IW_CONTACT_NONE));
    assert_false(iw_reach_in_vain(&net, &c, IW_CONTACT_ANSWERED));
    iw_reach_answered(&net, &b, 3);
    assert_false(iw_reach_in_vain(&net, &c, IW_CONTACT_NONE));
    assert_false(iw_reach_in_vain(&net, &b, IW_CONTACT_NONE));
    assert_true(iw_reach_in_vain(&net, &a, IW_CONTACT_NONE));
}

/* Whom one asks asks, too; none asks itself, and few ask many. */
static void partners_are_mutual(void **state)
{
    (void) state;
    for (uint32_t n = 0; n < 70; ++n) {
        bool asks[70][70] = {{false}};
        for (uint32_t me = 0; me < n; ++me) {
            unsigned i = 0;
            for (uint32_t other; UINT32_MAX != (other = iw_reach_partner(me, n, i)); ++i) {
                assert_true(other < n && other != me);
                asks[me][other] = true;
            }
            assert_true(i <= 14 && (n < 2 || asks[me][(me + 1) % n]));
        }
        for (uint32_t me = 0; me < n; ++me) {
            for (uint32_t other = 0; other < n; ++other) {
                assert_true(asks[me][other] == asks[other][me]);
            }
        }
    }
    assert_int_equal(iw_reach_partner(UINT32_MAX - 2, UINT32_MAX, 62), 2147483646);
    assert_int_equal(iw_reach_partner(UINT32_MAX - 2, UINT32_MAX, 64), UINT32_MAX);
}

/* Who is heard is there: its answers are waited for a little longer. */
static void who_is_heard_is_waited_for(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 9);
    const uint64_t until = l.now + SILENCE; /* more than one has that nobody hears */
    ends[1].begins = l.now + 300 * MS;
    l.deaf[1] = true;
    while (is_open(0) || is_open(1)) {
        assert_true(l.now < until + 60 * S);
        l.deaf[1] = l.now < until;
        step(&l, 0);
        step(&l, 1);
        link_run(&l, l.now + MS);
    }
    assert_int_equal(ends[0].verdict, IW_REACH_YES);
    assert_int_equal(ends[1].verdict, IW_REACH_YES);
    link_fini(&l);
}

static void a_lossy_path_is_one(void **state)
{
    iw_fault_rates_t rates;
    (void) state;
    assert_true(
        iw_fault_parse(&rates, "drop=0.2,duplicate=0.2,reorder=0.2,corrupt=0.05,truncate=0.05"));
    for (uint64_t seed = 0; seed < 2000; ++seed) {
        link_t l;
        begin(&l, &rates, seed);
        rng_t rng = {seed};
        ends[1].begins += rng_below(&rng, 1000) * MS;
        run(&l);
        assert_int_equal(ends[0].verdict, IW_REACH_YES);
        assert_int_equal(ends[1].verdict, IW_REACH_YES);
        link_fini(&l);
    }
}

/* Whatever happens, both ends come to the same: one that sends what the other does not answer would wait for long. */
static void both_come_to_the_same(void **state)
{
    iw_fault_rates_t rates;
    unsigned yes = 0, no = 0;
    (void) state;
    assert_true(iw_fault_parse(&rates, "drop=0.1,duplicate=0.1,reorder=0.1"));
    for (uint64_t seed = 0; seed < 4000; ++seed) {
        link_t l;
        rng_t rng = {seed};
        begin(&l, &rates, seed);
        for (unsigned i = 0; i < 2; ++i) {
            l.asleep[i] = l.now + rng_below(&rng, 1200) * MS;
            ends[i].begins = l.now + rng_below(&rng, 1500) * MS;
            l.deaf[i] = 0 == rng_below(&rng, 6);
        }
        run(&l);
        assert_int_equal(ends[0].verdict, ends[1].verdict);
        ++*(IW_REACH_YES == ends[0].verdict ? &yes : &no);
        link_fini(&l);
    }
    print_message("%u reached, %u not\n", yes, no);
    assert_true(yes > 500 && no > 500);
}

/* Likewise where one end has no processor for seconds, now and then, and its socket fills up meanwhile: what waited there may be an
 * answer of the other, which has given up since and whose goodbye found no room. */
static void an_old_answer_is_none(void **state)
{
    unsigned yes = 0, no = 0;
    (void) state;
    for (uint64_t seed = 0; seed < 1000; ++seed) {
        link_t l;
        rng_t rng = {seed};
        begin(&l, NULL, seed);
        l.latency = MS;
        l.space = 20 * LINK_COST;
        ends[1].begins += rng_below(&rng, 10) * MS;
        const uint64_t until = l.now + 60 * S;
        while (is_open(0) || is_open(1)) {
            assert_true(l.now < until);
            if (l.now >= l.asleep[0] && 0 == rng_below(&rng, 3)) {
                l.asleep[0] = l.now + rng_below(&rng, 4000) * MS;
            }
            step(&l, 0);
            step(&l, 1);
            link_run(&l, l.now + MS);
        }
        assert_int_equal(ends[0].verdict, ends[1].verdict);
        ++*(IW_REACH_YES == ends[0].verdict ? &yes : &no);
        link_fini(&l);
    }
    print_message("%u reached, %u not\n", yes, no);
    assert_true(yes > 50 && no > 50);
}

/* Two that refuse each other at the same time: a goodbye is not answered by another. */
static void refusals_end(void **state)
{
    pair_t t;
    (void) state;
    pair_init(&t, NULL, 15);
    t.link.latency = 30 * MS;
    iw_peer_ask(t.a, 1);
    iw_peer_ask(t.b, 1);
    link_run(&t.link, t.link.now + 200 * MS);
    assert_int_equal(iw_peer_contact(t.a), IW_CONTACT_ANSWERED);
    const uint64_t sent = t.link.sent;
    iw_peer_refuse(t.a);
    iw_peer_refuse(t.b);
    link_run(&t.link, t.link.now + S);
    assert_int_equal(t.link.sent - sent, 2);
    assert_int_equal(iw_peer_contact(t.a), IW_CONTACT_LEFT);
    iw_peer_remove(t.a);
    link_run(&t.link, t.link.now + S);
    assert_int_equal(t.link.sent - sent, 2);
    link_fini(&t.link);
}

/* Datagrams that nobody of the job has made decide nothing. */
static void strangers_bytes(void **state)
{
    link_t l;
    (void) state;
    begin(&l, NULL, 7);
    ends[1].begins = UINT64_MAX;
    l.cut[1] = true;
    rng_t rng = {7};
    const uint64_t until = l.now + 60 * S;
    while (is_open(0)) {
        assert_true(l.now < until);
        uint8_t data[128];
        const size_t length = rng_below(&rng, sizeof(data));
        for (size_t i = 0; i < length; ++i) {
            data[i] = (uint8_t) rng_next(&rng);
        }
        if (length > 2) { /* as far as an outsider can make it look right */
            data[0] = (uint8_t) (0x20 | (1 + rng_below(&rng, 6)));
            data[1] = (uint8_t) rng_below(&rng, 16);
        }
        iw_engine_input(l.engine[0], l.now, data, length);
        step(&l, 0);
        link_run(&l, l.now + MS);
    }
    assert_int_equal(ends[0].verdict, IW_REACH_NO);
    link_fini(&l);
}

/* A peer that ends the connection is not waited for. */
static void a_goodbye_is_an_answer(void **state)
{
    (void) state;
    assert_int_equal(iw_reach_judge(IW_CONTACT_NONE, 0, 40), IW_REACH_ASKS);
    assert_int_equal(iw_reach_judge(IW_CONTACT_HEARD, 40, 40),
                     IW_REACH_ASKS); /* the last one may yet be answered */
    assert_int_equal(iw_reach_judge(IW_CONTACT_HEARD, 41, 40), IW_REACH_NO);
    assert_int_equal(iw_reach_judge(IW_CONTACT_ENDED, 1, 40), IW_REACH_NO);
    assert_int_equal(iw_reach_judge(IW_CONTACT_LEFT, 1, 40), IW_REACH_NO);
    assert_int_equal(iw_reach_judge(IW_CONTACT_HALF, 41, 100), IW_REACH_ASKS);
    assert_int_equal(iw_reach_judge(IW_CONTACT_ANSWERED, 41, 40), IW_REACH_YES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_directions_work),
        cmocka_unit_test(one_end_asks),
        cmocka_unit_test(a_direction_is_blocked),
        cmocka_unit_test(who_was_given_up_gives_up),
        cmocka_unit_test(a_peer_that_is_late),
        cmocka_unit_test(who_was_stopped_itself_asks_first),
        cmocka_unit_test(what_was_asked_before_counts),
        cmocka_unit_test(who_asks_no_more_has_not_heard),
        cmocka_unit_test(a_host_that_answers_is_trusted),
        cmocka_unit_test(a_host_that_answers_in_part),
        cmocka_unit_test(a_long_way),
        cmocka_unit_test(a_long_way_is_known_then),
        cmocka_unit_test(in_vain),
        cmocka_unit_test(partners_are_mutual),
        cmocka_unit_test(who_is_heard_is_waited_for),
        cmocka_unit_test(a_lossy_path_is_one),
        cmocka_unit_test(both_come_to_the_same),
        cmocka_unit_test(an_old_answer_is_none),
        cmocka_unit_test(refusals_end),
        cmocka_unit_test(strangers_bytes),
        cmocka_unit_test(a_goodbye_is_an_answer),
    };
    return cmocka_run_group_tests_name("iwarp_reach", tests, NULL, NULL);
}
