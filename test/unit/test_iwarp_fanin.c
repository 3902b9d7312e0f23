/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Many send to one through a switch whose port is slow, in virtual time: the queue there is filled and not overfilled, and
 * what only waits in it is not sent again. A switch that marks keeps it short, and the port busy. */
#include "iw_fan.h"

#include "iw_pair.h"

#include <inttypes.h>

/* The time is that of the link. A queue that has room for all first windows loses nothing at all. */
static void the_queue_is_filled_once(void **state)
{
    (void) state;
    static const unsigned mbit[] = {20, 100, 1000};
    static const uint64_t queue_ms[] = {1000, 500, 100, 20};
    for (unsigned k = 0; k < 3 * 4; ++k) {
        fan_plan_t plan = fan_plan;
        fan_result_t r;
        plan.mbit = mbit[k / 4];
        plan.queue_ns = queue_ms[k % 4] * MS;
        plan.first = 8;
        assert_true(fan_run(&plan, &r));
        const fan_events_t *e = &r.events;
        print_message("%u Mbit/s, %" PRIu64 " ms: %.3f of the ideal time, %" PRIu64 " segments, %" PRIu64 " again, %" PRIu64
                      " dropped, %" PRIu64 " needless (%" PRIu64 " known), %" PRIu64 " timeouts\n",
                      mbit[k / 4], queue_ms[k % 4], (double) r.ns / (double) r.ideal_ns, e->segments, e->resent, e->dropped, e->needless,
                      e->known, e->timeouts);
        assert_true(100 * r.ns <= 110 * r.ideal_ns);
        if (queue_ms[k % 4] >= 100 && mbit[k / 4] * queue_ms[k % 4] >= 8000 * 2) { /* 2 MB */
            assert_int_equal(e->dropped, 0);
            assert_true(100 * e->resent <= e->segments);
        }
    }
}

/* From some bursts on the queue is as long as the switch wants it, and never empty. */
static void marks_keep_the_queue_short(void **state)
{
    (void) state;
    static const unsigned mbit[] = {100, 1000};
    for (unsigned k = 0; k < 4; ++k) {
        fan_plan_t plan = fan_plan;
        fan_result_t r;
        plan.mbit = mbit[k / 2];
        plan.queue_ns = 200 * MS;
        plan.mark_ns = k % 2 ? 10 * MS : 0;
        plan.warm = 3;
        plan.bursts = 6;
        assert_true(fan_run(&plan, &r));
        const fan_events_t *e = &r.events;
        print_message("%u Mbit/s, marks from %" PRIu64 " ms on: %.3f of the ideal time, round trip %.1f ms, %" PRIu64 " again, %" PRIu64
                      " dropped, %" PRIu64 " marked\n",
                      plan.mbit, plan.mark_ns / MS, (double) r.ns / (double) r.ideal_ns, (double) r.trip_ns / MS, e->resent, e->dropped,
                      e->marked);
        assert_true(100 * r.ns <= 106 * r.ideal_ns);
        if (k % 2) {
            assert_int_equal(e->dropped, 0);
            assert_true(500 * e->resent <= e->segments);
            assert_true(r.trip_ns < 30 * MS);
            assert_true(r.marked_in >= e->marked); /* some are not told any more */
            assert_true(e->marked > 0);
        } else {
            assert_int_equal(e->marked, 0);
        }
    }
}

/* A mark is told at once, once, and costs half a window and nothing else. */
static void a_mark_is_told_at_once(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[4][64];
    iw_completion_t c;
    pair_init(&t, NULL, 1);
    for (unsigned i = 0; i < 4; ++i) {
        post_one(&t.link, 1, buffer[i], sizeof(buffer[i]));
        t.link.queue_ns_for_kib = 1;
        t.link.mark_ns = 1 == i;
        t.link.queue_ns = S;
        t.link.queue_free_at[1] = t.link.now + (1 == i ? MS / 10 : 0);
        const uint64_t window = t.a->path.cc.window;
        const iw_counters_t *k = iw_engine_counters(t.link.engine[0]);
        assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        if (1 == i) {
            link_run(&t.link, t.link.now + MS / 50); /* sooner than an acknowledgement that nobody waits for */
            assert_int_equal(t.a->path.cc.window, window / 2);
        } else {
            link_run(&t.link, t.link.now + 10 * MS);
            assert_true(0 == i || t.a->path.cc.window == window);
        }
        assert_int_equal(k->marked_out, i > 0);
        assert_int_equal(k->segments_resent, 0);
    }
    assert_int_equal(iw_engine_counters(t.link.engine[1])->marked_in, 1);
    /* Told with nothing that says when the marked one left: it counts with the next that does. */
    const uint64_t window = t.a->path.cc.window;
    ++t.b->rx.marks;
    t.b->rx.ack_now = true;
    iw_ready(t.b);
    link_run(&t.link, t.link.now + MS);
    assert_int_equal(t.a->path.cc.window, window);
    post_one(&t.link, 1, buffer[0], sizeof(buffer[0]));
    assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    link_run(&t.link, t.link.now + 10 * MS);
    assert_int_equal(t.a->path.cc.window, window / 2);
    link_fini(&t.link);
}

/* The number of marks is told modulo 256, and acknowledgements can come late: what is less was told before. */
static void marks_are_counted_on(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    uint8_t buffer[64];
    pair_init(&t, NULL, 1);
    for (unsigned i = 0; i < 300; ++i) {
        post_one(&t.link, 1, buffer, sizeof(buffer));
        iw_engine_marked(t.link.engine[1], false);
        t.link.queue_ns_for_kib = t.link.mark_ns = 1;
        t.link.queue_ns = S;
        t.link.queue_free_at[1] = t.link.now + MS / 10;
        assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        link_run(&t.link, t.link.now + 10 * MS);
    }
    assert_int_equal(iw_engine_counters(t.link.engine[0])->marked_out, iw_engine_counters(t.link.engine[1])->marked_in);
    assert_true(iw_engine_counters(t.link.engine[0])->marked_out >= 300);
    assert_int_equal(t.a->path.cc.window, iw_cc_min(t.a->path.mtu.size));
    t.a->tx.marks = (uint8_t) (t.a->tx.marks + 1); /* as if a later one had been here before */
    const uint64_t marked = iw_engine_counters(t.link.engine[0])->marked_out;
    t.link.mark_ns = 0;
    post_one(&t.link, 1, buffer, sizeof(buffer));
    assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    link_run(&t.link, t.link.now + 10 * MS);
    assert_int_equal(iw_engine_counters(t.link.engine[0])->marked_out, marked);
    link_fini(&t.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_is_filled_once),
        cmocka_unit_test(marks_keep_the_queue_short),
        cmocka_unit_test(a_mark_is_told_at_once),
        cmocka_unit_test(marks_are_counted_on),
    };
    return cmocka_run_group_tests_name("iwarp_fanin", tests, NULL, NULL);
}
