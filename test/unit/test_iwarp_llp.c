/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The parts of the reliable protocol by themselves: numbers received (iw_seen.h), round-trip time
 * (iw_rtt.h), congestion window and pacing (iw_cc.h), datagram size (iw_path.h). */
#include "spec_unit.h"

#include "iw_cc.h"
#include "iw_path.h"
#include "iw_seen.h"

/* ---- numbers received ---- */

static void numbers_are_taken_once(void **state)
{
    (void) state;
    iw_seen_t s = {0};
    assert_int_equal(iw_seen_check(&s, 5, 1), IW_SEEN_NEW);
    assert_int_equal(iw_seen_check(&s, 5, 1), IW_SEEN_NEW); /* asking changes nothing */
    assert_int_equal(iw_seen_missing(&s, 5), 0); /* the first that is heard of */
    assert_false(iw_seen_add(&s, 5, 1));
    assert_int_equal(iw_seen_missing(&s, 5), 4);
    assert_int_equal(iw_seen_missing(&s, 6), 4);
    assert_int_equal(iw_seen_missing(&s, 8), 6);
    assert_int_equal(iw_seen_check(&s, 5, 1), IW_SEEN_TWICE);
    assert_int_equal(iw_seen_check(&s, 4, 1), IW_SEEN_NEW);
    assert_int_equal(iw_seen_check(&s, 6, 7), IW_SEEN_FAR); /* a floor above itself */
    assert_true(iw_seen_add(&s, 6, 6));
    assert_int_equal(iw_seen_check(&s, 4, 1), IW_SEEN_TWICE); /* below the floor now */
    assert_int_equal(iw_seen_check(&s, 6 + IW_SEEN - 1, 6), IW_SEEN_NEW);
    assert_int_equal(iw_seen_check(&s, 6 + IW_SEEN, 6), IW_SEEN_FAR);
    assert_int_equal(iw_seen_check(&s, 6 + IW_SEEN, 7), IW_SEEN_NEW);
    assert_int_equal(iw_seen_check(&s, UINT64_MAX, UINT64_MAX), IW_SEEN_NEW);
}

/* Against a plain array: random arrivals, gaps and floors, far enough to go around the ring often. */
static void ranges_say_what_was_received(void **state)
{
    (void) state;
    enum { NUMBERS = 40000 };
    for (uint32_t loss = 0; loss <= 90; loss += 15) {
        iw_seen_t s = {0};
        bool *got = must_alloc(NUMBERS);
        rng_t rng = {loss};
        uint64_t floor = 0, next = 0;
        while (next < NUMBERS - 10) {
            /* A little out of order, some never, the floor behind. */
            uint64_t pn = next + rng_below(&rng, 8);
            next += 1 + rng_below(&rng, 3);
            if (rng_percent(&rng, 2) && next > 100) {
                floor = next - 100 + rng_below(&rng, 100);
            } else if (next - floor > IW_SEEN - 200) {
                floor = next - rng_below(&rng, IW_SEEN / 2);
            }
            uint64_t its_floor = floor < pn ? floor : pn;
            iw_seen_verdict_t v = iw_seen_check(&s, pn, its_floor);
            bool below = pn < s.base;
            assert_int_equal(v, below || got[pn] ? IW_SEEN_TWICE : IW_SEEN_NEW);
            if (rng_percent(&rng, loss) || IW_SEEN_NEW != v) {
                continue;
            }
            uint32_t missing = 0;
            for (uint64_t k = s.base; k < its_floor && 0 != s.end; ++k) {
                missing += !got[k];
            }
            assert_int_equal(iw_seen_missing(&s, its_floor), missing < IW_SEEN ? missing : IW_SEEN);
            iw_seen_add(&s, pn, its_floor);
            got[pn] = true;
            iw_range_t range[IW_RANGES_MAX];
            uint64_t largest, at;
            unsigned n = iw_seen_ranges(&s, range, IW_RANGES_MAX, &largest);
            assert_true(n > 0);
            assert_int_equal(iw_get16(range[0].gap), 0);
            assert_int_equal(largest + 1, s.end);
            at = largest;
            for (unsigned i = 0; i < n; ++i) {
                for (unsigned k = iw_get16(range[i].gap); k > 0; --k) {
                    assert_false(got[at--]);
                }
                for (unsigned k = iw_get16(range[i].run); k > 0; --k) {
                    assert_true(got[at--]);
                }
            }
            /* Either it was all, or the list is full. */
            for (; n < IW_RANGES_MAX && at + 1 > s.base; --at) {
                assert_false(got[at]);
            }
        }
        free(got);
    }
}

static void no_more_ranges_than_asked_for(void **state)
{
    (void) state;
    iw_seen_t s = {0};
    iw_range_t range[3];
    uint64_t largest;
    assert_int_equal(iw_seen_ranges(&s, range, 3, &largest), 0);
    for (uint64_t pn = 2; pn < 200; pn += 2) {
        iw_seen_add(&s, pn, 1);
    }
    assert_int_equal(iw_seen_ranges(&s, range, 3, &largest), 3);
    assert_int_equal(largest, 198);
    assert_int_equal(iw_get16(range[2].gap), 1);
    assert_int_equal(iw_get16(range[2].run), 1);
}

/* ---- round trip ---- */

static void rtt_follows_rfc_6298(void **state)
{
    (void) state;
    iw_rtt_t r = {0};
    assert_int_equal(iw_rtt_pto(&r, 0, 0), 3 * IW_RTT_INITIAL);
    iw_rtt_sample(&r, 8000000, 0);
    assert_int_equal(r.srtt, 8000000);
    assert_int_equal(r.var, 4000000);
    assert_int_equal(iw_rtt_pto(&r, 1000, 0), 8000000 + 16000000 + 1000);
    iw_rtt_sample(&r, 16000000, 0);
    assert_int_equal(r.var, (3 * 4000000 + 8000000) / 4);
    assert_int_equal(r.srtt, (7 * 8000000 + 16000000) / 8);
    iw_rtt_sample(&r, 10000000, 1500000); /* what the peer kept it back counts not */
    assert_int_equal(r.latest, 8500000);
    iw_rtt_sample(&r, 8500000, 100000000); /* but cannot make it shorter than ever seen */
    assert_int_equal(r.latest, 8500000);
    assert_in_range(r.min, 8000000, 8000000 + 9000000 / IW_RTT_FORGET);
}

static void timeouts_have_floor_and_ceiling(void **state)
{
    (void) state;
    iw_rtt_t r = {0};
    for (int i = 0; i < 100; ++i) {
        iw_rtt_sample(&r, 10000, 0);
    }
    const uint64_t in_a_row[] = {1, 4, 4, 8, 16, 32, 64, 128, 256, 500, 500};
    for (unsigned i = 0; i < sizeof(in_a_row) / sizeof(in_a_row[0]); ++i) {
        assert_int_equal(iw_rtt_pto(&r, 0, i), in_a_row[i] * IW_MS);
    }
    assert_int_equal(iw_rtt_pto(&r, 0, 255), IW_PTO_CEILING);
    assert_int_equal(iw_rtt_loss_delay(&r), IW_LOSS_FLOOR);
    r.srtt = r.latest = 800000;
    assert_int_equal(iw_rtt_loss_delay(&r), 900000);
}

/* Never below the round trip, however long that is, and backed off from there. */
static void timeouts_of_long_paths(void **state)
{
    (void) state;
    for (uint64_t trip = 1; trip <= 800; ++trip) {
        iw_rtt_t r = {0};
        for (int i = 0; i < 100; ++i) {
            iw_rtt_sample(&r, trip * IW_MS, 0);
            assert_true(iw_rtt_pto(&r, 0, 0) > trip * IW_MS);
        }
        const uint64_t least = trip * IW_MS + (trip < 8 ? trip * IW_MS / 8 : IW_PTO_GRAIN);
        assert_in_range(iw_rtt_pto(&r, 0, 0), least, least + trip);
        assert_true(iw_rtt_pto(&r, 0, 9) >= 2 * iw_rtt_pto(&r, 0, 0));
        assert_true(iw_rtt_pto(&r, 0, 255) <= IW_PTO_MOST);
    }
}

/* A peer that computed for seconds before it answered says nothing of the path: what is lost next is not waited for
 * so long. Unless it is no exception. */
static void a_late_answer_is_no_long_path(void **state)
{
    (void) state;
    iw_rtt_t r = {0};
    for (int i = 0; i < 100; ++i) {
        iw_rtt_sample(&r, 50 * IW_US, 0);
    }
    iw_rtt_sample(&r, 5 * IW_S, 0);
    assert_int_equal(iw_rtt_pto(&r, 0, 0), IW_PTO_CEILING);
    iw_rtt_sample(&r, 50 * IW_US, 0);
    assert_in_range(r.min, 0, 50 * IW_US);
    for (unsigned i = 0; i < 5 * IW_RTT_FORGET; ++i) {
        iw_rtt_sample(&r, 700 * IW_MS, 0);
        iw_rtt_forget(&r, 700 * IW_MS * (1 + i / 2)); /* once a round trip, however many samples are of one */
        assert_true(i >= 8 || r.min < 700 * IW_MS / 2);
    }
    assert_in_range(iw_rtt_pto(&r, 0, 0), 700 * IW_MS, 720 * IW_MS);
    r = (iw_rtt_t){0};
    iw_rtt_sample(&r, 60 * IW_S, 0);
    assert_int_equal(iw_rtt_pto(&r, 0, 0), IW_PTO_MOST);
}

/* Until there is a sample, what is promised counts, or RFC 9002's third of a second, and each timeout in vain doubles. */
static void before_the_first_sample(void **state)
{
    (void) state;
    iw_rtt_t r = {0};
    assert_int_equal(iw_rtt_smoothed(&r), 333 * IW_MS);
    assert_int_equal(iw_rtt_pto(&r, IW_MS, 0), 1000 * IW_MS);
    assert_int_equal(iw_rtt_pto(&r, 0, 1), 4 * IW_RTT_INITIAL);
    r.initial = 10 * IW_MS;
    const uint64_t in_a_row[] = {30, 60, 120, 240, 480, 500, 500};
    for (unsigned i = 0; i < sizeof(in_a_row) / sizeof(in_a_row[0]); ++i) {
        assert_int_equal(iw_rtt_pto(&r, 0, i), in_a_row[i] * IW_MS);
    }
    iw_rtt_sample(&r, 40 * IW_US, 0);
    assert_int_equal(iw_rtt_pto(&r, 0, 0), IW_PTO_EARLY);
}

/* ---- congestion ---- */

static void window_grows_and_halves(void **state)
{
    (void) state;
    iw_cc_t c;
    iw_cc_init(&c, 0);
    iw_cc_sent(&c, 10000);
    iw_cc_acked(&c, 10000, 1, 1000, true, false);
    assert_int_equal(c.window, IW_CC_INITIAL + 10000); /* slow start */
    assert_int_equal(c.in_flight, 0);
    iw_cc_sent(&c, 10000);
    iw_cc_acked(&c, 10000, 1, 1000, false, false); /* it was not the window that held back */
    assert_int_equal(c.window, IW_CC_INITIAL + 10000);
    iw_cc_lost(&c, 50, 1000, 100);
    uint64_t half = (IW_CC_INITIAL + 10000) / 2;
    assert_int_equal(c.window, half);
    iw_cc_lost(&c, 60, 1000, 110); /* sent before: the same loss */
    iw_cc_lost(&c, 100, 1000, 120);
    assert_int_equal(c.window, half);
    iw_cc_sent(&c, 1000);
    iw_cc_acked(&c, 1000, 90, 1000, true, false); /* sent before: no growth in recovery */
    assert_int_equal(c.window, half);
    for (uint64_t bytes = 0; bytes < half; bytes += 1000) { /* avoidance: one datagram a window */
        iw_cc_sent(&c, 1000);
        iw_cc_acked(&c, 1000, 200, 1000, true, false);
    }
    assert_in_range(c.window, half + 999, half + 1001);
    iw_cc_lost(&c, 300, 1000, 400);
    assert_in_range(c.window, half / 2, half / 2 + 1000);
    for (int i = 0; i < 20; ++i) {
        iw_cc_lost(&c, 500 + 100 * (uint64_t) i, 1000, 550 + 100 * (uint64_t) i);
    }
    assert_int_equal(c.window, iw_cc_min(1000));
}

/* What comes back late because a queue is filled makes the window no larger, and a window of that ends slow start. */
static void a_queue_ends_slow_start(void **state)
{
    (void) state;
    iw_rtt_t r = {0};
    assert_false(iw_rtt_has_queue(&r, IW_S));
    iw_rtt_sample(&r, 50 * IW_MS, 0);
    assert_false(iw_rtt_has_queue(&r, 2 * 50 * IW_MS + IW_RTT_QUEUE));
    assert_true(iw_rtt_has_queue(&r, 2 * 50 * IW_MS + IW_RTT_QUEUE + 1));
    iw_cc_t c;
    iw_cc_init(&c, 0);
    for (unsigned k = 0; k < 2; ++k) {
        iw_cc_sent(&c, IW_CC_INITIAL - 1);
        iw_cc_acked(&c, IW_CC_INITIAL - 1, 1, 1000, true, true);
        assert_int_equal(c.window, IW_CC_INITIAL + 1000 * k);
        iw_cc_sent(&c, 1000);
        iw_cc_acked(&c, 1000, 1, 1000, true, false); /* one that was quick: slow start goes on */
        assert_int_equal(c.window, IW_CC_INITIAL + 1000 * (k + 1));
    }
    iw_cc_sent(&c, 2 * IW_CC_INITIAL);
    iw_cc_acked(&c, c.window, 1, 1000, true, true);
    assert_int_equal(c.threshold, c.window);
}

/* Once a round trip, and for good: also what is found to be no loss does not undo it. */
static void marks_halve_the_window(void **state)
{
    (void) state;
    iw_cc_t c;
    iw_cc_init(&c, 0);
    iw_cc_marked(&c, 50, 1000, 100);
    iw_cc_marked(&c, 60, 1000, 110);
    iw_cc_marked(&c, 100, 1000, 120);
    assert_int_equal(c.window, IW_CC_INITIAL / 2);
    assert_int_equal(c.threshold, IW_CC_INITIAL / 2);
    const uint32_t lost = iw_cc_lost(&c, 70, 1000, 130); /* of the same round trip */
    iw_cc_found(&c, lost, 70);
    assert_int_equal(c.window, IW_CC_INITIAL / 2);
    assert_int_equal(c.threshold, IW_CC_INITIAL / 2);
    iw_cc_marked(&c, 101, 1000, 200);
    assert_int_equal(c.window, IW_CC_INITIAL / 4);
}

static void one_packet_may_always_leave(void **state)
{
    (void) state;
    iw_cc_t c;
    iw_cc_init(&c, 0);
    c.window = 100;
    assert_true(iw_cc_room(&c, 0, 65000));
    iw_cc_sent(&c, 1);
    assert_false(iw_cc_room(&c, 1000000, 65000));
    c.window = 1000000;
    assert_true(iw_cc_room(&c, 1000000, 65000));
    assert_false(iw_cc_room(&c, 1000, 65000));
}

/* All that was taken for lost has arrived after all: the window, and how it grew, are as before. One of them that has not
 * is enough to leave it. */
static void what_was_not_lost_is_taken_back(void **state)
{
    (void) state;
    iw_cc_t c;
    iw_cc_init(&c, 0);
    const uint32_t first = iw_cc_lost(&c, 50, 1000, 100);
    assert_int_equal(iw_cc_lost(&c, 60, 1000, 110), first);
    assert_int_equal(c.window, IW_CC_INITIAL / 2);
    iw_cc_found(&c, 0, 40); /* was only asked about */
    iw_cc_found(&c, first, 50);
    assert_int_equal(c.window, IW_CC_INITIAL / 2);
    iw_cc_found(&c, first, 60);
    assert_int_equal(c.window, IW_CC_INITIAL);
    assert_int_equal(c.threshold, UINT64_MAX);
    assert_int_equal(c.recovery_start, 0);
    iw_cc_found(&c, first, 60); /* once */
    const uint32_t second = iw_cc_lost(&c, 120, 1000, 130), third = iw_cc_lost(&c, 140, 1000, 150);
    assert_true(first != second && second != third);
    iw_cc_found(&c, second, 120); /* of one before, which is over */
    assert_int_equal(c.window, IW_CC_INITIAL / 4);
    iw_cc_found(&c, third, 140);
    assert_int_equal(c.window, IW_CC_INITIAL / 2);
    c.window = 3 * IW_CC_INITIAL; /* grown meanwhile */
    const uint32_t fourth = iw_cc_lost(&c, 160, 1000, 170);
    c.window = 4 * IW_CC_INITIAL;
    iw_cc_found(&c, fourth, 160);
    assert_int_equal(c.window, 4 * IW_CC_INITIAL);
}

/* After a collapse any answer to what was sent before it shows that it was wrong (RFC 9002, 7.6.2). */
static void an_answer_undoes_a_collapse(void **state)
{
    (void) state;
    iw_cc_t c;
    iw_cc_init(&c, 0);
    iw_cc_collapse(&c, 1000, 100);
    assert_int_equal(c.window, iw_cc_min(1000));
    iw_cc_found(&c, 0, 101);
    assert_int_equal(c.window, iw_cc_min(1000));
    iw_cc_found(&c, 0, 100);
    assert_int_equal(c.window, IW_CC_INITIAL);
    iw_cc_collapse(&c, 1000, 200);
    (void) iw_cc_lost(&c, 210, 1000, 220); /* and more was lost */
    iw_cc_found(&c, 0, 190);
    assert_int_equal(c.window, iw_cc_min(1000));
}

/* What leaves in a long time at the pace of the window. */
static void pace(void **state)
{
    (void) state;
    iw_cc_t c;
    iw_rtt_t r = {.srtt = IW_MS, .latest = IW_MS};
    iw_cc_init(&c, 0);
    c.window = 1000000; /* a window each millisecond */
    uint64_t now = 0, sent = 0;
    while (now < 100 * IW_MS) {
        iw_cc_refill(&c, &r, now);
        uint64_t at = iw_cc_pace(&c, &r);
        if (at > now) {
            now = at;
            continue;
        }
        iw_cc_sent(&c, 9000);
        sent += 9000;
    }
    assert_in_range(sent, 120 * 1000000, 130 * 1000000); /* 5/4 */
}

/* The kernel is not called for what little is left of a burst: it leaves with the next one. */
static void rest_of_a_burst_waits(void **state)
{
    (void) state;
    iw_rtt_t r = {.srtt = IW_MS, .latest = IW_MS};
    for (unsigned left = 0; left < 2; ++left) {
        iw_cc_t c;
        iw_cc_init(&c, 1);
        c.window = 1000000;
        iw_cc_sent(&c, IW_CC_BURST - IW_CC_LEFT - left);
        assert_int_equal(0 == iw_cc_pace(&c, &r), left > 0);
    }
}

/* ---- datagram size ---- */

/* A path that carries up to mtu: what is found, and with how many probes. */
static uint16_t search(iw_path_t *p, uint16_t mtu, unsigned *probes)
{
    *probes = 0;
    for (uint16_t size; 0 != (size = iw_path_next(p)); ++*probes) {
        assert_true(*probes < 100);
        assert_int_equal(iw_path_next(p), 0); /* one at a time */
        if (size <= mtu) {
            iw_path_acked(p, size);
        } else {
            iw_path_lost(p, size);
        }
    }
    return p->size;
}

static void size_is_found(void **state)
{
    (void) state;
    unsigned probes;
    for (uint32_t mtu = 1200; mtu <= 65507; mtu += 13) {
        iw_path_t p;
        iw_path_init(&p, 1200, 65507);
        uint16_t size = search(&p, (uint16_t) mtu, &probes);
        assert_true(size <= mtu && (uint32_t) size + IW_PATH_CLOSE > mtu);
        assert_true(probes < 40);
    }
    iw_path_t p;
    iw_path_init(&p, 1200, 8972); /* the usual case: one probe */
    assert_int_equal(search(&p, 8972, &probes), 8972);
    assert_int_equal(probes, 1);
}

static void accidents_do_not_make_it_small(void **state)
{
    (void) state;
    iw_path_t p;
    iw_path_init(&p, 1200, 9000);
    for (int i = 0; i < IW_PATH_TRIES - 1; ++i) {
        iw_path_lost(&p, iw_path_next(&p));
    }
    iw_path_acked(&p, iw_path_next(&p));
    assert_int_equal(p.size, 9000);
    iw_path_acked(&p, 20000); /* nobody asked */
    iw_path_lost(&p, 9000);
    assert_int_equal(p.size, 9000);
}

static void the_interface_says_its_limit(void **state)
{
    (void) state;
    iw_path_t p;
    unsigned probes;
    iw_path_init(&p, 1200, 65507);
    uint16_t size = iw_path_next(&p);
    iw_path_too_big(&p, size, 1472);
    assert_int_equal(search(&p, 1472, &probes), 1472);
    assert_int_equal(probes, 1);
    assert_true(iw_path_black_hole(&p, 1200));
    assert_int_equal(p.size, 1200);
    assert_int_equal(search(&p, 1300, &probes) / 100, 12);
    assert_false(iw_path_black_hole(&p, 1300));
}

/* It refuses, and does not say what it takes: what is between is halved. */
static void the_interface_does_not_say(void **state)
{
    (void) state;
    for (unsigned mtu = 1200; mtu <= 65000; mtu += 77) {
        iw_path_t p;
        unsigned refused = 0;
        iw_path_init(&p, 1200, 65507);
        for (uint16_t size; 0 != (size = iw_path_next(&p));) {
            if (size <= mtu) {
                iw_path_acked(&p, size);
            } else {
                iw_path_too_big(&p, size, 0 == refused++ % 2 ? 0 : UINT16_MAX);
            }
        }
        assert_true(refused <= 11);
        assert_true(p.size <= mtu && mtu < (unsigned) p.size + IW_PATH_CLOSE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_taken_once),
        cmocka_unit_test(ranges_say_what_was_received),
        cmocka_unit_test(no_more_ranges_than_asked_for),
        cmocka_unit_test(rtt_follows_rfc_6298),
        cmocka_unit_test(timeouts_have_floor_and_ceiling),
        cmocka_unit_test(timeouts_of_long_paths),
        cmocka_unit_test(a_late_answer_is_no_long_path),
        cmocka_unit_test(before_the_first_sample),
        cmocka_unit_test(window_grows_and_halves),
        cmocka_unit_test(what_was_not_lost_is_taken_back),
        cmocka_unit_test(an_answer_undoes_a_collapse),
        cmocka_unit_test(a_queue_ends_slow_start),
        cmocka_unit_test(marks_halve_the_window),
        cmocka_unit_test(one_packet_may_always_leave),
        cmocka_unit_test(pace),
        cmocka_unit_test(rest_of_a_burst_waits),
        cmocka_unit_test(size_is_found),
        cmocka_unit_test(accidents_do_not_make_it_small),
        cmocka_unit_test(the_interface_says_its_limit),
        cmocka_unit_test(the_interface_does_not_say),
    };
    return cmocka_run_group_tests_name("iw_llp", tests, NULL, NULL);
}
