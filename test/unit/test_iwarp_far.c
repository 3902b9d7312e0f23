/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Long paths, and short ones that become long or were taken for such, in virtual time: nothing is sent again that was not
 * lost, as much leaves as the window allows, and what a wrong conclusion did is taken back (RFC 9002, RFC 4015). */
#include "iw_pair.h"

#include "iw_internal.h"

enum { ETHERNET = 1472, SPACE = 4 << 20, BULK = 20000000 };

static const uint64_t round_trip_ms[] = {1, 2, 5, 10, 20, 50, 100, 140, 150, 200, 240, 400, 800};

#define TRIPS (sizeof(round_trip_ms) / sizeof(round_trip_ms[0]))

static void ethernet(iw_config_t *c)
{
    c->datagram_max = ETHERNET;
    c->receive_space = SPACE;
}

/* A path of this round trip, taken for one of `guess` ns; 0: for nothing. */
static void far_init(pair_t *t, uint64_t round_trip, uint64_t guess)
{
    link_tune = ethernet;
    pair_init(t, NULL, 1);
    link_tune = NULL;
    t->link.latency = round_trip / 2;
    if (0 != guess) {
        iw_peer_expect(t->a, guess);
        iw_peer_expect(t->b, guess);
    }
}

/* A message and its answer. */
static void ping_pong(pair_t *t, unsigned times)
{
    static uint8_t buffer[2][64];
    for (unsigned i = 0; i < times; ++i) {
        for (unsigned to = 1; to < 2; --to) {
            iw_completion_t c;
            post_one(&t->link, to, buffer[to], sizeof(buffer[to]));
            assert_int_equal(send_bytes(0 == to ? t->b : t->a, "hello", 5, IW_INLINE | IW_QUIET),
                             IW_OK);
            expect(&t->link, to, IW_RECEIVED, IW_OK, &c);
        }
    }
}

/* `size` bytes, written. Returns how long that took. */
static uint64_t bulk(pair_t *t, size_t size)
{
    uint8_t *source = must_alloc(size), *target = must_alloc(size);
    const uint32_t stag = iw_register(t->link.engine[1], target, size, IW_REMOTE_WRITE, NULL);
    const struct iovec piece = {source, size};
    const uint64_t begin = t->link.now;
    iw_completion_t c;
    assert_int_equal(iw_post_write(t->a, &piece, 1, stag, 0, 0, NULL), IW_OK);
    expect(&t->link, 0, IW_WRITTEN, IW_OK, &c);
    iw_deregister(t->link.engine[1], stag);
    free(source);
    free(target);
    return t->link.now - begin;
}

/* The time of a sender that begins with the same window, doubles it each round trip, and has at most as much under way. */
static uint64_t ideal(const pair_t *t, size_t size, uint64_t round_trip)
{
    const uint64_t payload = ETHERNET - sizeof(iw_head_t) - sizeof(iw_seq_t) - sizeof(iw_tagged_t);
    uint64_t left = (size + payload - 1) / payload, most = SPACE / (ETHERNET + IW_OVERHEAD);
    uint64_t window = IW_CC_INITIAL / (ETHERNET + IW_OVERHEAD), time = 0;
    most = most < IW_SSN_WINDOW ? most : IW_SSN_WINDOW;
    while (left > 0) {
        window = window < most ? window : most;
        left -= left < window ? left : window;
        window *= 2;
        time += round_trip;
    }
    return time + size / 1024 * t->link.ns_for_kib;
}

static void messages_are_sent_once(void **state)
{
    (void) state;
    enum { TIMES = 50 };
    for (unsigned i = 0; i < TRIPS; ++i) {
        pair_t t;
        far_init(&t, round_trip_ms[i] * MS, 0);
        ping_pong(&t, TIMES);
        assert_true(10 * iw_engine_counters(t.link.engine[0])->packets_out <= 11 * TIMES);
        assert_int_equal(iw_engine_counters(t.link.engine[0])->segments_resent, 0);
        assert_in_range(t.a->path.rtt.srtt, round_trip_ms[i] * MS, round_trip_ms[i] * MS + MS / 100);
        link_fini(&t.link);
    }
}

static void bulk_takes_what_the_window_allows(void **state)
{
    (void) state;
    static const uint64_t guess[] = {0, 10 * MS, MS / 20};
    for (unsigned i = 0; i < TRIPS; ++i) {
        for (unsigned g = 0; g < sizeof(guess) / sizeof(guess[0]); ++g) {
            pair_t t;
            const uint64_t trip = round_trip_ms[i] * MS;
            far_init(&t, trip, guess[g]);
            assert_true(10 * bulk(&t, BULK) <= 11 * ideal(&t, BULK, trip));
            assert_true(iw_engine_counters(t.link.engine[0])->segments_resent <= 5 * g);
            assert_true(iw_engine_counters(t.link.engine[0])->bytes_out < BULK / 100 * 105);
            link_fini(&t.link);
        }
    }
}

/* The answer to the first of several transmissions is one: it tells the round trip, and ends the asking. */
static void a_path_that_is_longer_than_promised(void **state)
{
    (void) state;
    for (unsigned i = 0; i < TRIPS; ++i) {
        pair_t t;
        const uint64_t trip = round_trip_ms[i] * MS;
        far_init(&t, trip, 2 * MS);
        ping_pong(&t, 1);
        const iw_counters_t *k = iw_engine_counters(t.link.engine[0]);
        const uint64_t resent = k->segments_resent;
        assert_in_range(t.a->path.rtt.srtt, trip, trip + MS / 100);
        assert_int_equal(k->lost_spurious > 0, resent > 0);
        uint64_t most = 0; /* each waits twice as long */
        for (uint64_t at = 6 * MS; at < trip; at = 2 * at + 6 * MS) {
            ++most;
        }
        assert_in_range(resent, most > 0 ? most - 1 : 0, most);
        link_run(&t.link, t.link.now + 2 * trip); /* the answers to the others */
        assert_in_range(t.a->path.rtt.srtt, trip, trip + MS / 100);
        ping_pong(&t, 20);
        assert_int_equal(k->segments_resent, resent);
        link_fini(&t.link);
    }
}

/* The first answers are lost, and those that come are to transmissions that are not remembered: the message has arrived,
 * but how long that took nobody knows. So the next one is not asked about any sooner. */
static unsigned answers_lost;

static void lose_answers(void *context, unsigned from, const uint8_t *data, size_t length)
{
    link_t *l = context;
    (void) data;
    (void) length;
    l->cut[1] = 1 == from && answers_lost > 0;
    answers_lost -= l->cut[1];
}

static void no_sample_no_haste(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[2][64];
    const uint64_t trip = 180 * MS;
    far_init(&t, trip, 2 * MS);
    t.link.tap = lose_answers;
    t.link.tap_context = &t.link;
    answers_lost = 2;
    for (unsigned i = 0; i < 2; ++i) {
        post_one(&t.link, 1, buffer[i], sizeof(buffer[i]));
    }
    assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    link_drain(&t.link);
    while (!spec_list_is_empty(&t.a->tx.requests)) {
        assert_true(link_step(&t.link, t.link.now + trip));
    }
    const iw_counters_t *k = iw_engine_counters(t.link.engine[0]);
    assert_int_equal(k->probe_timeouts, 5);
    assert_int_equal(k->packets_out, 1 + 5); /* one datagram each */
    assert_int_equal(t.a->path.rtt.srtt, 0);
    assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    link_run(&t.link, t.link.now + trip + MS);
    assert_int_equal(k->probe_timeouts, 5);
    assert_true(spec_list_is_empty(&t.a->loss.in_flight));
    assert_in_range(t.a->path.rtt.srtt, trip, trip + MS);
    link_fini(&t.link);
}

/* An acknowledgement whose highest number is of a datagram that needs none, and is not remembered: before the first
 * sample the time of another one that it names will do. */
static void any_answer_is_a_first_sample(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[4][64];
    const uint64_t trip = 100 * MS;
    far_init(&t, trip, 0);
    for (unsigned i = 0; i < 4; ++i) {
        post_one(&t.link, 0 == i, buffer[i], sizeof(buffer[i]));
    }
    assert_int_equal(send_bytes(t.b, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    link_run(&t.link, t.link.now + 2 * trip);
    const uint64_t begin = t.link.now;
    assert_int_equal(send_bytes(t.b, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    link_run(&t.link, begin + MS / 25);
    assert_int_equal(send_bytes(t.b, "hello", 5, IW_INLINE | IW_QUIET | IW_PROMPT), IW_OK);
    link_run(&t.link, begin + trip / 2 + MS / 50);
    assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    link_drain(&t.link);
    assert_int_equal(t.a->path.rtt.srtt, 0);
    const uint64_t number = t.a->tx.next_pn;
    link_run(&t.link, begin + 2 * trip); /* another one follows, which is only an acknowledgement */
    assert_int_equal(t.a->loss.largest_acked, number);
    assert_true(spec_list_is_empty(&t.a->loss.in_flight));
    assert_in_range(t.a->path.rtt.srtt, trip, trip + MS);
    link_fini(&t.link);
}

/* A datagram lost before any was answered: who promised a short path need not wait for a second. */
static void the_first_one_lost_on_a_short_path(void **state)
{
    (void) state;
    for (unsigned is_promised = 0; is_promised < 2; ++is_promised) {
        pair_t t;
        uint8_t buffer[64];
        iw_completion_t c;
        far_init(&t, MS / 10, is_promised ? 2 * MS : 0);
        post_one(&t.link, 1, buffer, sizeof(buffer));
        t.link.cut[1] = true;
        assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
        link_drain(&t.link);
        t.link.cut[1] = false;
        const uint64_t begin = t.link.now;
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        const uint64_t most = (is_promised ? 3 * 2 * MS : 3 * IW_RTT_INITIAL) + MS;
        assert_in_range(t.link.now - begin, most - 2 * MS, most);
        link_fini(&t.link);
    }
}

/* The path becomes longer, by a thousand times, while its window is full: what was concluded from the silence is taken
 * back when the answers come, which are to what was sent first. */
static void a_path_that_becomes_longer(void **state)
{
    (void) state;
    for (uint64_t trip = 50 * MS; trip <= 400 * MS; trip *= 2) {
        pair_t t;
        far_init(&t, MS / 20, 0);
        bulk(&t, BULK);
        const iw_counters_t *k = iw_engine_counters(t.link.engine[0]);
        const uint64_t window = t.a->path.cc.window, threshold = t.a->path.cc.threshold, sent = k->bytes_out;
        assert_int_equal(k->segments_resent, 0);
        t.link.latency = trip / 2;
        assert_true(10 * bulk(&t, BULK) <= 11 * (ideal(&t, BULK, trip) + 2 * trip));
        assert_true(t.a->path.cc.window >= window);
        assert_int_equal(t.a->path.cc.threshold, threshold);
        assert_true(k->bytes_out - sent < BULK / 100 * 112);
        assert_int_equal(k->lost_by_number, 0);
        link_fini(&t.link);
    }
}

/* The first datagram of some is overtaken by all others, and taken for lost. */
static void what_was_only_overtaken_costs_no_window(void **state)
{
    (void) state;
    for (unsigned is_lost = 0; is_lost < 2; ++is_lost) {
        pair_t t;
        uint8_t buffer[16][64];
        const uint64_t trip = 10 * MS;
        far_init(&t, trip, 0);
        ping_pong(&t, 5);
        const uint64_t window = t.a->path.cc.window;
        for (unsigned i = 0; i < 16; ++i) {
            post_one(&t.link, 1, buffer[i], sizeof(buffer[i]));
        }
        for (unsigned i = 0; i < 8; ++i) {
            t.link.latency = 0 == i ? trip / 2 + 3 * MS : trip / 2;
            t.link.cut[1] = is_lost && 0 == i;
            assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
            link_drain(&t.link);
        }
        link_run(&t.link, t.link.now + trip + MS); /* the acknowledgement of the others is here */
        const iw_counters_t *k = iw_engine_counters(t.link.engine[0]);
        assert_int_equal(k->lost_by_number, 1);
        assert_int_equal(t.a->path.cc.window, window / 2);
        assert_int_equal(k->segments_resent, 1);
        link_run(&t.link, t.link.now + 3 * trip);
        assert_int_equal(k->lost_spurious, is_lost ? 0 : 1);
        assert_int_equal(t.a->path.cc.window, is_lost ? window / 2 : window);
        assert_int_equal(t.a->loss.reorder, is_lost ? IW_REORDER_MIN : 2 * IW_REORDER_MIN);
        assert_true(spec_list_is_empty(&t.a->loss.in_flight) && spec_list_is_empty(&t.a->loss.lost));
        link_fini(&t.link);
    }
}

/* Of a peer that has never answered nothing is known of the path (RFC 9002, 7.6.2): it may have begun later. */
static void silence_before_the_first_answer_costs_no_window(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    uint8_t buffer[64];
    far_init(&t, MS, 0);
    post_one(&t.link, 1, buffer, sizeof(buffer));
    t.link.deaf[1] = true;
    assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    link_run(&t.link, t.link.now + MS);
    const uint64_t window = t.a->path.cc.window;
    while (t.a->loss.ptos <= IW_PERSISTENT_PTO) {
        assert_true(link_step(&t.link, t.link.now + 10 * S));
        assert_int_equal(t.a->path.cc.window, window);
    }
    t.link.deaf[1] = false;
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    link_fini(&t.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_sent_once),
        cmocka_unit_test(bulk_takes_what_the_window_allows),
        cmocka_unit_test(a_path_that_is_longer_than_promised),
        cmocka_unit_test(no_sample_no_haste),
        cmocka_unit_test(any_answer_is_a_first_sample),
        cmocka_unit_test(the_first_one_lost_on_a_short_path),
        cmocka_unit_test(a_path_that_becomes_longer),
        cmocka_unit_test(what_was_only_overtaken_costs_no_window),
        cmocka_unit_test(silence_before_the_first_answer_costs_no_window),
    };
    return cmocka_run_group_tests_name("iw_far", tests, NULL, NULL);
}
