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

/* The number of marks is told modulo 256. */
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
    link_fini(&t.link);
}

/* Datagrams of one engine, to be given to the other by hand. */
enum { TAPE = 300 };
typedef struct tape {
    unsigned from, count;
    size_t length[TAPE];
    uint8_t data[TAPE][512];
} tape_t;

static void record(void *context, unsigned from, const uint8_t *data, size_t length)
{
    tape_t *tape = context;
    if (from == tape->from && tape->count < TAPE) {
        assert_in_range(length, 1, sizeof(tape->data[0]));
        memcpy(tape->data[tape->count], data, length);
        tape->length[tape->count++] = length;
    }
}

/* Two ends that know each other, the first with a region of the second; what comes from `from` is recorded and does not arrive. */
static uint32_t pair_with_tape(pair_t *t, tape_t *tape, unsigned from, uint8_t *target, size_t size)
{
    uint8_t buffer[8];
    iw_completion_t c;
    pair_init(t, NULL, 1);
    const uint32_t stag = iw_register(t->link.engine[1], target, size, IW_REMOTE_WRITE, NULL);
    post_one(&t->link, 1, buffer, sizeof(buffer));
    assert_int_equal(send_bytes(t->a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t->link, 1, IW_RECEIVED, IW_OK, &c);
    link_run(&t->link, t->link.now + 10 * MS);
    *tape = (tape_t){.from = from};
    t->link.deaf[1 - from] = true;
    t->link.tap = record;
    t->link.tap_context = tape;
    return stag;
}

/* So many come marked before the receiver says anything, as a thread that takes all that is there at once has it. */
static void many_marks_in_one_acknowledgement(void **state)
{
    (void) state;
    static tape_t tape;
    static const struct {
        unsigned marked, told;
    } cases[] = {{127, 127}, {128, 128}, {150, 150}, {255, 255}, {256, 255}, {300, 255}};
    for (unsigned k = 0; k < sizeof(cases) / sizeof(cases[0]); ++k) {
        pair_t t;
        uint8_t target[8];
        const uint32_t stag = pair_with_tape(&t, &tape, 0, target, sizeof(target));
        const uint64_t window = t.a->path.cc.window;
        const struct iovec piece = {target, 1};
        for (unsigned i = 0; i < cases[k].marked; ++i) {
            assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, IW_INLINE | IW_QUIET, NULL), IW_OK);
            link_drain(&t.link);
        }
        assert_int_equal(tape.count, cases[k].marked);
        t.link.tap = NULL;
        iw_engine_marked(t.link.engine[1], true);
        for (unsigned i = 0; i < tape.count; ++i) {
            iw_engine_input(t.link.engine[1], t.link.now, tape.data[i], tape.length[i]);
        }
        t.link.deaf[1] = false;
        link_run(&t.link, t.link.now + MS / 10);
        assert_int_equal(iw_engine_counters(t.link.engine[0])->marked_out, cases[k].told);
        assert_int_equal(t.a->path.cc.window, window / 2);
        link_fini(&t.link);
    }
}

/* Of two acknowledgements the one that was sent later tells the window, whichever comes first. */
static void the_later_word_counts(void **state)
{
    (void) state;
    static tape_t tape;
    for (unsigned exchanged = 0; exchanged < 2; ++exchanged) {
        pair_t t;
        uint8_t target[8];
        (void) pair_with_tape(&t, &tape, 1, target, sizeof(target));
        /* Is under way still, so that what comes behind its number is taken. */
        assert_int_equal(send_bytes(t.b, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
        link_drain(&t.link);
        assert_int_equal(tape.count, 1);
        for (unsigned i = 0; i < 2; ++i) {
            iw_set_receive_space(t.link.engine[1], i > 0 ? 500000 : 1000000);
            t.b->rx.ack_now = true;
            iw_ready(t.b);
            link_drain(&t.link);
        }
        assert_int_equal(tape.count, 3);
        for (unsigned i = 0; i < 2; ++i) {
            const unsigned which = 1 + (exchanged > 0 ? 1 - i : i);
            iw_engine_input(t.link.engine[0], t.link.now + i + 1, tape.data[which], tape.length[which]);
            assert_int_equal(t.a->tx.window, 0 == exchanged + i ? 1000000 : 500000);
        }
        assert_int_equal(t.a->tx.window_at, t.link.now + (exchanged > 0 ? 1 : 2));
        link_fini(&t.link);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_is_filled_once),
        cmocka_unit_test(marks_keep_the_queue_short),
        cmocka_unit_test(a_mark_is_told_at_once),
        cmocka_unit_test(marks_are_counted_on),
        cmocka_unit_test(many_marks_in_one_acknowledgement),
        cmocka_unit_test(the_later_word_counts),
    };
    return cmocka_run_group_tests_name("iwarp_fanin", tests, NULL, NULL);
}
