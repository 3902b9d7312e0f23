/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which way datagrams take (iw_failover.h): its rules one by one, then two engines whose network fails in one direction or in both
 * while they talk, and comes back. */
#include "iw_exchange.h"
#include "iw_internal.h"

/* ---- the rules ---- */

/* So many probe timeouts `every` ns, from `at` on; the number of the first datagram that leaves behind the first is 100. */
static uint64_t timeouts(iw_failover_t *r, unsigned n, uint64_t at, uint64_t every)
{
    for (unsigned i = 0; i < n; ++i) {
        assert_false(iw_failover_timeout(r, 100 + i, at + i * every, IW_FAILOVER_AFTER));
    }
    return at + n * every;
}

static iw_failover_t failed_over(uint64_t *now)
{
    iw_failover_t r = {.has_alternate = true};
    *now = timeouts(&r, 10, S, 100 * MS);
    assert_true(iw_failover_timeout(&r, 110, *now, IW_FAILOVER_AFTER));
    assert_true(r.is_alternate);
    return r;
}

static void it_is_left_after_a_while_in_vain(void **state)
{
    (void) state;
    iw_failover_t r = {.has_alternate = true};
    uint64_t now = timeouts(&r, 4, S, 1000 * MS);
    assert_true(iw_failover_timeout(&r, 104, now, IW_FAILOVER_AFTER)); /* the fifth, and late enough */
    r = (iw_failover_t){.has_alternate = true};
    now = timeouts(&r, 100, S, 9 * MS); /* many, and not late */
    iw_failover_progress(&r, now);
    now = timeouts(&r, 4, now, 1000 * MS); /* counted from the last answer */
    assert_true(iw_failover_timeout(&r, 200, now, IW_FAILOVER_AFTER));
    assert_false(iw_failover_timeout(&r, 201, now + S, IW_FAILOVER_AFTER)); /* once */
    r = (iw_failover_t){.has_alternate = false};
    (void) timeouts(&r, 100, S, 1000 * MS);
    assert_false(r.is_alternate);
}

static void an_answer_to_what_went_directly_ends_it(void **state)
{
    (void) state;
    uint64_t now;
    iw_failover_t r = failed_over(&now), was = r;
    /* What left before the trouble, and what took the alternate path, says nothing. */
    assert_false(iw_failover_acknowledged(&r, 1, 99, now));
    assert_false(iw_failover_acknowledged(&r, 110, 200, now));
    assert_true(r.is_alternate);
    assert_true(iw_failover_acknowledged(&r, 109, 109, now));
    assert_false(r.is_alternate);
    r = was;
    assert_true(iw_failover_acknowledged(&r, 90, 100, now));
    r = was;
    iw_failover_tried(&r, 150, now);
    assert_false(iw_failover_acknowledged(&r, 110, 149, now));
    assert_false(iw_failover_acknowledged(&r, 151, 160, now));
    assert_true(iw_failover_acknowledged(&r, 150, 150, now));
    assert_false(iw_failover_acknowledged(&r, 150, 150, now)); /* there is nothing to end */
    /* It takes as much as at first to leave it again. */
    for (unsigned i = 0; i < 10; ++i) {
        assert_false(iw_failover_timeout(&r, 200 + i, now + i * 100 * MS, IW_FAILOVER_AFTER));
    }
    assert_true(iw_failover_timeout(&r, 210, now + S, IW_FAILOVER_AFTER));
    assert_false(iw_failover_acknowledged(&r, 150, 150, now + S)); /* that try is of before */
}

static void it_is_tried_now_and_then(void **state)
{
    (void) state;
    uint64_t now;
    iw_failover_t r = failed_over(&now);
    assert_false(iw_failover_tries(&r, now + S - 1));
    for (unsigned i = 0; i < 20; ++i) {
        now += S;
        assert_int_equal(iw_failover_is_blocked(&r), i > 12); /* so many are in vain then */
        assert_true(iw_failover_tries(&r, now));
        iw_failover_tried(&r, 200 + 2 * i, now);
        assert_false(iw_failover_tries(&r, now + S - 1));
        /* A peer that acknowledges nothing later is busy, or stopped. */
        const uint64_t pn = i % 4 < IW_FAILOVER_SURE ? 199 : 201 + 2 * i;
        assert_false(iw_failover_acknowledged(&r, pn, pn, now));
    }
    assert_true(iw_failover_acknowledged(&r, 238, 238, now));
    assert_false(iw_failover_tries(&r, now + 10 * S));
    assert_false(iw_failover_is_blocked(&r));
}

static void what_comes_by_the_alternate_path_is_answered_there(void **state)
{
    (void) state;
    uint64_t now = 100 * S;
    iw_failover_t r = {.has_alternate = true};
    assert_true(iw_failover_came(&r, 50, now));
    assert_true(r.is_alternate);
    assert_false(iw_failover_came(&r, 51, now));
    assert_true(iw_failover_tries(&r, now)); /* at once: it may be that only the other direction fails */
    assert_false(iw_failover_acknowledged(&r, 1, 60, now));
    iw_failover_tried(&r, 60, now);
    assert_true(iw_failover_acknowledged(&r, 60, 60, now));
    /* It works, so what comes by the alternate path says no more for a while. */
    assert_false(iw_failover_came(&r, 61, now + IW_FAILOVER_AFTER - 1));
    iw_failover_progress(&r, now + IW_FAILOVER_AFTER);
    assert_false(iw_failover_came(&r, 61, now + 2 * IW_FAILOVER_AFTER - 1));
    assert_true(iw_failover_came(&r, 61, now + 2 * IW_FAILOVER_AFTER));
    iw_failover_progress(&r, now + 3 * IW_FAILOVER_AFTER); /* by the alternate path: nothing is known of the direct way */
    assert_int_equal(r.worked_at, now + IW_FAILOVER_AFTER);
    r = (iw_failover_t){.has_alternate = false};
    assert_false(iw_failover_came(&r, 50, now));
}

/* ---- two engines ---- */

static iw_peer_t *peers[2];
static uint64_t fails_at, mends_at;
static bool fails_to[2];      /* the direction to this one */
static unsigned changes[2];   /* times that an end took the alternate path, or left it */
static bool was[2], was_sure[2];

static void fail_and_mend(link_t *l)
{
    for (unsigned i = 0; i < 2; ++i) {
        l->deaf[i] = fails_to[i] && l->now >= fails_at && l->now < mends_at;
        changes[i] += was[i] != iw_peer_is_alternate(peers[i]);
        was[i] = iw_peer_is_alternate(peers[i]);
        was_sure[i] |= iw_peer_is_blocked(peers[i]);
    }
}

enum { COUNT = 3000 };

static void talk(link_t *l, uint64_t seed, side_t *side[2])
{
    static const iw_fault_rates_t rates = {.drop = 20000, .duplicate = 20000, .reorder = 20000};
    link_init(l, 2, &rates, seed);
    l->alternate = 40000;
    for (unsigned i = 0; i < 2; ++i) {
        peers[i] = link_peer(l, i, 1 - i, NULL);
        iw_peer_set_alternate(peers[i], true);
        side[i] = must_alloc(sizeof(side_t));
        side[i]->send = must_alloc((size_t) COUNT * BUFFER);
        post_receives(l, i, side[i]);
        changes[i] = 0;
        was[i] = was_sure[i] = false;
    }
    disturb = fail_and_mend;
    exchange(l, peers, side, COUNT, l->now + 120 * S);
}

static void end_talk(link_t *l, side_t *side[2])
{
    disturb = NULL;
    for (unsigned i = 0; i < 2; ++i) {
        free(side[i]->send);
        free(side[i]);
    }
    link_fini(l);
}

/* Every message arrives once and in order, whatever fails, and when it works again so does the direct way. */
static void a_network_that_fails_is_left_and_taken_again(void **state)
{
    (void) state;
    for (unsigned fails = 1; fails < 4; ++fails) {
        link_t l;
        side_t *side[2];
        fails_at = 20 * MS;
        mends_at = UINT64_MAX;
        fails_to[0] = fails & 1;
        fails_to[1] = fails & 2;
        talk(&l, 77 + fails, side);
        for (unsigned i = 0; i < 2; ++i) {
            const iw_counters_t *k = iw_engine_counters(l.engine[i]);
            assert_int_equal(side[i]->received, COUNT);
            assert_int_equal(k->peers_down, 0);
            assert_int_equal(k->peers_silent, 0);
            /* An end whose datagrams arrive need not take the alternate path; one whose do not stays there. */
            assert_true(!fails_to[1 - i] || iw_peer_is_alternate(peers[i]));
        }
        /* What they say some seconds later goes directly again. */
        fails_at = UINT64_MAX;
        fail_and_mend(&l);
        for (unsigned n = 0; n < 4; ++n) {
            iw_completion_t c;
            link_run(&l, l.now + 2 * S);
            for (unsigned i = 0; i < 2; ++i) {
                assert_int_equal(send_bytes(peers[i], "again", 5, IW_INLINE), IW_OK);
            }
            for (unsigned i = 0; i < 4; ++i) { /* sent and received, of both */
                assert_true(wait_completion(&l, i % 2, &c, 10 * S));
                assert_int_equal(c.status, IW_OK);
            }
        }
        assert_false(iw_peer_is_alternate(peers[0]));
        assert_false(iw_peer_is_alternate(peers[1]));
        end_talk(&l, side);
    }
}

/* Where nothing fails nothing leaves the network, though datagrams get lost. */
static void loss_is_not_failure(void **state)
{
    (void) state;
    link_t l;
    side_t *side[2];
    fails_to[0] = fails_to[1] = false;
    talk(&l, 5, side);
    assert_int_equal(iw_engine_counters(l.engine[0])->failovers, 0);
    assert_int_equal(iw_engine_counters(l.engine[1])->failovers, 0);
    assert_int_equal(iw_engine_counters(l.engine[0])->alternate_in, 0);
    end_talk(&l, side);
}

/* Two that know each other, and have an alternate path. */
static void pair_with_alternate(pair_t *t)
{
    pair_init(t, NULL, 10);
    t->link.alternate = 40000;
    iw_peer_set_alternate(t->a, true);
    iw_peer_set_alternate(t->b, true);
}

/* A peer that is busy answers what went directly, and nobody takes the network for broken. */
static void a_busy_peer_is_not_a_broken_network(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    uint8_t buffer[2][8];
    pair_with_alternate(&t);
    for (unsigned i = 0; i < 2; ++i) {
        post_one(&t.link, 1, buffer[i], 8);
        t.link.asleep[1] = 0 == i ? 0 : t.link.now + 8 * S;
        assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
        if (1 == i) {
            link_run(&t.link, t.link.now + 7 * S);
            assert_true(iw_peer_is_alternate(t.a));
        }
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        expect(&t.link, 0, IW_SENT, IW_OK, &c);
        assert_false(iw_peer_is_alternate(t.a));
    }
    link_fini(&t.link);
}

/* Two that know each other; then the network carries nothing. A peer that is silent for `patience` is given up. */
static void pair_whose_network_fails(pair_t *t, uint8_t buffer[8], uint64_t *patience)
{
    iw_completion_t c;
    pair_with_alternate(t);
    *patience = t->a->engine->config.peer_timeout_ns;
    t->a->engine->config.silent_timeout_ns = *patience;
    post_one(&t->link, 1, buffer, 8);
    assert_int_equal(send_bytes(t->a, "hello", 6, IW_INLINE), IW_OK);
    expect(&t->link, 1, IW_RECEIVED, IW_OK, &c);
    expect(&t->link, 0, IW_SENT, IW_OK, &c);
    t->link.deaf[0] = t->link.deaf[1] = true;
    post_one(&t->link, 1, buffer, 8);
}

static void arrives_within(pair_t *t, uint64_t ns)
{
    iw_completion_t c;
    assert_true(wait_completion(&t->link, 1, &c, ns));
    assert_int_equal(c.what, IW_RECEIVED);
    assert_true(wait_completion(&t->link, 0, &c, ns));
    assert_int_equal(c.what, IW_SENT);
    assert_int_equal(c.status, IW_OK);
}

/* What has gone by the alternate path is waited for as long as what goes by the network. */
static void the_alternate_path_has_its_time(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[8];
    uint64_t patience;
    pair_whose_network_fails(&t, buffer, &patience);
    t.link.alternate = patience / 2 - IW_FAILOVER_AFTER / 4; /* there and back, and the time until it is taken */
    assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
    arrives_within(&t, 2 * patience);
    link_fini(&t.link);
}

/* Round trips may be so long that a peer is due to be given up before there were probe timeouts enough. */
static void a_long_round_trip_has_its_alternate_path(void **state)
{
    (void) state;
    for (unsigned turn = 0; turn < 2; ++turn) {
        pair_t t;
        uint8_t buffer[8];
        uint64_t patience;
        pair_whose_network_fails(&t, buffer, &patience);
        for (unsigned i = 0; i < 2; ++i) {
            iw_config_t *c = &t.link.engine[i]->config;
            c->peer_timeout_ns = c->silent_timeout_ns = patience = 2 * S;
        }
        t.a->path.rtt.srtt = t.a->path.rtt.min = 400 * MS;
        t.a->path.rtt.var = 25 * MS;
        t.link.alternate = 1 == turn ? 10 * patience : 40000;
        const uint64_t began = t.link.now;
        assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
        if (0 == turn) {
            arrives_within(&t, patience + S);
            assert_true(t.link.now - began >= patience);
        } else { /* and if it carries nothing either, the peer is given up after as long again */
            iw_completion_t c;
            assert_true(wait_completion(&t.link, 0, &c, 3 * patience));
            assert_int_not_equal(c.status, IW_OK);
            assert_true(t.link.now - began >= 2 * patience);
        }
        assert_int_equal(iw_engine_counters(t.link.engine[0])->failovers, 1);
        link_fini(&t.link);
    }
}

/* So has each of two transports, the first of which carries nothing either. */
static void another_alternate_path_has_its_time(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[8];
    uint64_t patience;
    pair_whose_network_fails(&t, buffer, &patience);
    t.link.alternate = 10 * patience;
    assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
    link_run(&t.link, t.link.now + patience);
    assert_true(iw_peer_is_alternate(t.a));
    iw_peer_alternate_changed(t.a, t.link.now);
    t.link.alternate = patience / 3;
    arrives_within(&t, 2 * patience);
    link_fini(&t.link);
}

/* A peer that never answered is not talked to another way: it may not be ready for that, either. */
static void a_connection_begins_by_the_network(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    uint8_t buffer[8];
    pair_with_alternate(&t);
    t.link.deaf[1] = true;
    t.a->engine->config.silent_timeout_ns = 3600 * S;
    iw_peer_expect(t.a, MS);
    post_one(&t.link, 1, buffer, 8);
    assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
    link_run(&t.link, t.link.now + 8 * S);
    expect(&t.link, 0, IW_PEER_SILENT, IW_OK, &c);
    assert_false(iw_peer_is_alternate(t.a));
    t.link.deaf[1] = false;
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    expect(&t.link, 0, IW_SENT, IW_OK, &c);
    link_fini(&t.link);
}

/* Whatever the alternate path carries, that says nothing of the network. */
static void sizes_are_not_learned_there(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    uint8_t *large = must_alloc(30000);
    struct iovec piece = {large, 20000};
    pair_with_alternate(&t);
    for (unsigned i = 0; i < 3; ++i) {
        post_one(&t.link, 1, large, 30000);
        assert_int_equal(i < 2 ? send_bytes(t.a, "hello", 6, IW_INLINE) : iw_post_send(t.a, &piece, 1, 0, NULL), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        expect(&t.link, 0, IW_SENT, IW_OK, &c);
        t.link.deaf[0] = t.link.deaf[1] = true;
    }
    link_run(&t.link, t.link.now + 100 * MS);
    assert_true(iw_peer_is_alternate(t.a));
    assert_int_equal(t.a->path.mtu.size, t.link.engine[0]->config.datagram_min);
    link_fini(&t.link);
    free(large);
}

/* What the network could not take does not hold back what is sent on the alternate path; what the peer can take does. */
static void only_the_peer_limits_the_alternate_path(void **state)
{
    (void) state;
    enum { LENGTH = 2000000 };
    pair_t t;
    iw_completion_t c;
    uint8_t buffer[8], *large = must_alloc(LENGTH);
    struct iovec piece = {large, LENGTH};
    pair_with_alternate(&t);
    post_one(&t.link, 1, buffer, 8);
    assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    expect(&t.link, 0, IW_SENT, IW_OK, &c);
    t.a->path.cc.window = 3000;
    t.a->tx.window = 100000;
    t.a->failover.is_alternate = true;
    assert_int_equal(iw_post_send(t.a, &piece, 1, 0, NULL), IW_OK);
    link_drain(&t.link);
    assert_true(t.a->path.cc.in_flight > 90000 && t.a->path.cc.in_flight <= 100000 + 9000);
    link_fini(&t.link);
    free(large);
}

/* The network is tried by a datagram that the kernel does not take: that says nothing of the network, and the next one tries it. */
static void a_try_that_never_left_is_none(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    uint8_t buffer[8];
    iw_packet_t k[8];
    pair_with_alternate(&t);
    iw_engine_t *e = t.link.engine[0];
    post_one(&t.link, 1, buffer, 8);
    assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    expect(&t.link, 0, IW_SENT, IW_OK, &c);
    t.a->failover.is_alternate = true;
    t.a->failover.first_pn = t.a->failover.alternate_pn = t.a->tx.next_pn;
    for (unsigned i = 0; i < 2 * IW_FAILOVER_SURE; ++i) {
        iw_ready(t.a);
        const unsigned n = iw_engine_output(e, t.link.now + 10 * S, k, 8);
        assert_int_equal(n, 1);
        assert_false(k[0].alternate);
        assert_true(0 != t.a->failover.try_pn);
        (i % 2 ? iw_engine_unsent : iw_engine_not_taken)(e, k, n);
        assert_int_equal(t.a->failover.try_pn, 0);
        /* Later ones are acknowledged, by the alternate path. */
        assert_false(iw_failover_acknowledged(&t.a->failover, t.a->tx.next_pn, t.a->tx.next_pn, t.link.now + 10 * S));
    }
    assert_false(iw_peer_is_blocked(t.a));
    link_fini(&t.link);
}

/* Nothing goes there any more when it is gone. */
static void an_alternate_path_that_is_gone_is_not_taken(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    uint8_t buffer[2][8];
    pair_with_alternate(&t);
    for (unsigned i = 0; i < 2; ++i) {
        post_one(&t.link, 1, buffer[i], 8);
        assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
        if (0 == i) {
            expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
            expect(&t.link, 0, IW_SENT, IW_OK, &c);
            t.link.asleep[1] = t.link.now + 60 * S;
            t.link.deaf[1] = true;
        }
    }
    link_run(&t.link, t.link.now + 3 * S);
    assert_true(iw_peer_is_alternate(t.a));
    iw_peer_set_alternate(t.a, false);
    assert_false(iw_peer_is_alternate(t.a));
    const uint64_t sent = t.link.sent;
    t.link.deaf[1] = false;
    link_run(&t.link, t.link.now + 3 * S);
    assert_true(t.link.sent > sent);
    assert_false(iw_peer_is_alternate(t.a));
    t.link.asleep[1] = 0;
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    link_fini(&t.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_left_after_a_while_in_vain),
        cmocka_unit_test(an_answer_to_what_went_directly_ends_it),
        cmocka_unit_test(it_is_tried_now_and_then),
        cmocka_unit_test(what_comes_by_the_alternate_path_is_answered_there),
        cmocka_unit_test(a_network_that_fails_is_left_and_taken_again),
        cmocka_unit_test(loss_is_not_failure),
        cmocka_unit_test(a_busy_peer_is_not_a_broken_network),
        cmocka_unit_test(the_alternate_path_has_its_time),
        cmocka_unit_test(a_long_round_trip_has_its_alternate_path),
        cmocka_unit_test(another_alternate_path_has_its_time),
        cmocka_unit_test(a_connection_begins_by_the_network),
        cmocka_unit_test(sizes_are_not_learned_there),
        cmocka_unit_test(only_the_peer_limits_the_alternate_path),
        cmocka_unit_test(a_try_that_never_left_is_none),
        cmocka_unit_test(an_alternate_path_that_is_gone_is_not_taken),
    };
    return cmocka_run_group_tests_name("iw_failover", tests, NULL, NULL);
}
