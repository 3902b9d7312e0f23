/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Many send to one through a switch whose port is slow, in virtual time: the queue there is filled and not overfilled, and
 * what only waits in it is not sent again. A switch that marks keeps it short, and the port busy. */
#include "iw_pair.h"

#include "iw_internal.h"

#include <inttypes.h>

enum { SENDERS = 8, SIZE = 1500000, BURSTS = 2, ETHERNET = 1472 };

static uint32_t space;

static void ethernet(iw_config_t *c)
{
    c->datagram_max = ETHERNET;
    c->receive_space = space;
}

typedef struct fan {
    link_t link;
    iw_peer_t *peer[SENDERS];
    uint8_t *memory;
    uint32_t stag;
} fan_t;

/* A port of so many Mbit/s that keeps what it sends in so much time. */
static void fan_init(fan_t *f, unsigned mbit, uint64_t queue_ns)
{
    *f = (fan_t){.memory = must_alloc(SIZE)};
    space = 4 << 20;
    link_tune = ethernet;
    link_init(&f->link, 1 + SENDERS, NULL, 1);
    link_tune = NULL;
    f->link.latency = MS / 20;
    f->link.queue_ns_for_kib = 8192000 / mbit;
    f->link.ns_for_kib = f->link.queue_ns_for_kib;
    f->link.queue_ns = queue_ns;
    f->stag = iw_register(f->link.engine[0], f->memory, SIZE, IW_REMOTE_WRITE, NULL);
    for (unsigned i = 0; i < SENDERS; ++i) {
        f->peer[i] = link_peer(&f->link, 1 + i, 0, NULL);
        iw_peer_expect(f->peer[i], 10 * MS);
        iw_peer_expect(link_peer(&f->link, 0, 1 + i, NULL), 10 * MS);
    }
}

static void fan_fini(fan_t *f)
{
    link_fini(&f->link);
    free(f->memory);
}

/* All send a word, or all of their memory, and wait until it is there. */
static void burst(fan_t *f, uint32_t size)
{
    iw_completion_t done;
    unsigned left = SENDERS;
    for (unsigned i = 0; i < SENDERS; ++i) {
        const struct iovec piece = {f->memory, size};
        assert_int_equal(iw_post_write(f->peer[i], &piece, 1, f->stag, 0, IW_BULK, NULL), IW_OK);
    }
    while (left > 0) {
        assert_true(link_step(&f->link, UINT64_MAX - 1));
        for (unsigned i = 0; i < SENDERS; ++i) {
            while (1 == iw_engine_poll(f->link.engine[1 + i], &done, 1)) {
                assert_int_equal(done.status, IW_OK);
                --left;
            }
        }
    }
}

static iw_counters_t senders_counters(const fan_t *f)
{
    iw_counters_t sum = {0};
    for (unsigned i = 0; i < SENDERS; ++i) {
        const uint64_t *c = (const uint64_t *) iw_engine_counters(f->link.engine[1 + i]);
        for (unsigned at = 0; at < sizeof(sum) / sizeof(uint64_t); ++at) {
            ((uint64_t *) &sum)[at] += c[at];
        }
    }
    return sum;
}

/* The time is that of the link. A queue that has room for all first windows loses nothing at all. */
static void the_queue_is_filled_once(void **state)
{
    (void) state;
    static const unsigned mbit[] = {20, 100, 1000};
    static const uint64_t queue_ms[] = {1000, 500, 100, 20};
    for (unsigned k = 0; k < 3 * 4; ++k) {
        fan_t f;
        fan_init(&f, mbit[k / 4], queue_ms[k % 4] * MS);
        burst(&f, 8);
        const uint64_t begin = f.link.now;
        for (unsigned i = 0; i < BURSTS; ++i) {
            burst(&f, SIZE);
        }
        const uint64_t ideal = (uint64_t) BURSTS * SENDERS * SIZE / 1024 * f.link.queue_ns_for_kib;
        const iw_counters_t sum = senders_counters(&f);
        print_message("%u Mbit/s, %" PRIu64 " ms: %.3f of the ideal time, %" PRIu64 " segments, %" PRIu64 " again, %" PRIu64
                      " dropped, %" PRIu64 " needless, %" PRIu64 " timeouts\n",
                      mbit[k / 4], queue_ms[k % 4], (double) (f.link.now - begin) / (double) ideal, sum.segments_out,
                      sum.segments_resent, f.link.dropped, sum.lost_spurious, sum.probe_timeouts);
        assert_true(100 * (f.link.now - begin) <= 110 * ideal);
        if (queue_ms[k % 4] >= 100 && mbit[k / 4] * queue_ms[k % 4] >= 8000 * 2) { /* 2 MB */
            assert_int_equal(f.link.dropped, 0);
            assert_true(100 * sum.segments_resent <= sum.segments_out);
        }
        fan_fini(&f);
    }
}

/* From some bursts on the queue is as long as the switch wants it, and never empty. */
static void marks_keep_the_queue_short(void **state)
{
    (void) state;
    static const unsigned mbit[] = {100, 1000};
    for (unsigned k = 0; k < 4; ++k) {
        fan_t f;
        fan_init(&f, mbit[k / 2], 200 * MS);
        f.link.mark_ns = k % 2 ? 10 * MS : 0;
        for (unsigned i = 0; i < 3; ++i) {
            burst(&f, SIZE);
        }
        const uint64_t begin = f.link.now, dropped = f.link.dropped;
        const iw_counters_t before = senders_counters(&f);
        for (unsigned i = 0; i < 6; ++i) {
            burst(&f, SIZE);
        }
        const uint64_t ideal = (uint64_t) 6 * SENDERS * SIZE / 1024 * f.link.queue_ns_for_kib;
        const iw_counters_t sum = senders_counters(&f);
        uint64_t trip = 0;
        for (unsigned i = 0; i < SENDERS; ++i) {
            trip += f.peer[i]->path.rtt.srtt / SENDERS;
        }
        print_message("%u Mbit/s, marks from %" PRIu64 " ms on: %.3f of the ideal time, round trip %.1f ms, %" PRIu64 " again, %" PRIu64
                      " dropped, %" PRIu64 " marked\n",
                      mbit[k / 2], f.link.mark_ns / MS, (double) (f.link.now - begin) / (double) ideal, (double) trip / MS,
                      sum.segments_resent - before.segments_resent, f.link.dropped - dropped, sum.marked_out - before.marked_out);
        assert_true(100 * (f.link.now - begin) <= 106 * ideal);
        if (k % 2) {
            assert_int_equal(f.link.dropped, dropped);
            assert_true(500 * (sum.segments_resent - before.segments_resent) <= sum.segments_out - before.segments_out);
            assert_true(trip < 30 * MS);
            assert_true(iw_engine_counters(f.link.engine[0])->marked_in >= sum.marked_out); /* some are not told any more */
            assert_true(sum.marked_out > 0);
        } else {
            assert_int_equal(sum.marked_out, 0);
        }
        fan_fini(&f);
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
