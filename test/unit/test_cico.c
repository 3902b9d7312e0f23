/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Copy-in-copy-out through a ring (core/spec_cico.h): whose turn a slot is, messages longer and shorter than the ring and than the
 * buffer, what a dishonest sender may write there, and several threads at each end. */
#include "spec_unit.h"

#include "spec_cico.h"

#include <pthread.h>
#include <sched.h>

enum { SLOTS = 16, RING = SLOTS * SPEC_CICO_SLOT, MOST = 3 * RING + 1000 };

static spec_cico_ring_t ring;
static char from[MOST + 1], to[MOST + 1];

static int setup(void **state)
{
    (void) state;
    spec_cico_reset(&ring);
    spec_cico_renew(&ring, SLOTS);
    for (size_t i = 0; i < sizeof(from); ++i) {
        from[i] = (char) (i * 7 + (i >> 8) * 13 + (i >> 15));
    }
    memset(to, 0x55, sizeof(to));
    return 0;
}

static spec_cico_end_t sender(uint64_t length)
{
    spec_cico_end_t end;
    spec_cico_begin(&end, &ring, from, length, true, length + 1);
    return end;
}

static spec_cico_end_t receiver(uint64_t room, uint64_t message)
{
    spec_cico_end_t end;
    spec_cico_begin(&end, &ring, to, room, false, message);
    return end;
}

static unsigned steps(spec_cico_end_t *end)
{
    unsigned n = 0;
    while (spec_cico_step(end)) {
        ++n;
    }
    return n;
}

static void nothing_is_drained_that_was_not_filled(void **state)
{
    (void) state;
    spec_cico_end_t s = sender(MOST), r = receiver(MOST, MOST + 1);
    assert_int_equal(steps(&r), 0);
    assert_int_equal(steps(&s), SLOTS); /* and nothing is filled that was not drained */
    assert_true(spec_cico_step(&r));
    assert_memory_equal(from, to, SPEC_CICO_SLOT);
    assert_int_equal(to[SPEC_CICO_SLOT], 0x55);
    assert_int_equal(steps(&s), 1);
    assert_int_equal(steps(&r), SLOTS);
    assert_false(spec_cico_is_done(&s) || spec_cico_is_done(&r));
}

static void messages_of_all_lengths(void **state)
{
    (void) state;
    static const uint64_t lengths[] = {
        0,        1,   SPEC_CICO_SLOT - 1, SPEC_CICO_SLOT, SPEC_CICO_SLOT + 1, RING, RING + 1,
        2 * RING, MOST};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); ++i) {
        (void) setup(NULL);
        spec_cico_end_t s = sender(lengths[i]), r = receiver(lengths[i], SPEC_CICO_UNKNOWN);
        while (steps(&s) + steps(&r) > 0) {}
        assert_int_equal(spec_cico_message(&r), lengths[i] + 1);
        assert_true(spec_cico_is_done(&s) && spec_cico_is_done(&r));
        assert_true(spec_cico_is_drained(&s));
        assert_memory_equal(from, to, lengths[i]);
        assert_int_equal(to[lengths[i]], 0x55);
    }
}

static void what_has_no_room_is_dropped(void **state)
{
    (void) state;
    for (uint64_t room = 0; room < MOST; room += SPEC_CICO_SLOT / 2 + 1) {
        (void) setup(NULL);
        spec_cico_end_t s = sender(MOST), r = receiver(room, MOST + 1);
        while (steps(&s) + steps(&r) > 0) {}
        assert_true(spec_cico_is_done(&s) && spec_cico_is_done(&r));
        assert_memory_equal(from, to, room);
        assert_int_equal(to[room], 0x55);
    }
}

static void a_sender_is_done_when_all_is_drained(void **state)
{
    (void) state;
    for (uint64_t units = 1; units < 2 * SLOTS + 2; ++units) {
        (void) setup(NULL);
        const uint64_t length = units * SPEC_CICO_SLOT - 3;
        spec_cico_end_t s = sender(length), r = receiver(length, length + 1);
        for (uint64_t i = 0; i < units; ++i) {
            (void) steps(&s);
            assert_false(spec_cico_is_drained(&s));
            assert_true(spec_cico_step(&r));
        }
        assert_true(spec_cico_is_drained(&s));
    }
}

static void a_ring_that_is_used_again_was_drained(void **state)
{
    (void) state;
    spec_cico_end_t s = sender(RING), r = receiver(RING, RING + 1);
    (void) steps(&s);
    assert_false(spec_cico_is_drained(&s));
    (void) steps(&r);
    spec_cico_used(&r);
    spec_cico_renew(&ring, SLOTS);
    assert_true(spec_cico_is_drained(&s));
    s = sender(RING);
    (void) steps(&s);
    assert_false(spec_cico_is_drained(&s));
}

static void a_length_that_cannot_be_is_not_believed(void **state)
{
    (void) state;
    spec_cico_end_t s = sender(1000), r = receiver(999, SPEC_CICO_UNKNOWN);
    assert_int_equal(steps(&s), 1);
    assert_int_equal(steps(&r), 0);
    assert_int_equal(spec_cico_message(&r), SPEC_CICO_UNKNOWN);
    assert_false(spec_cico_is_done(&r));
    ring.message = UINT64_MAX;
    assert_int_equal(steps(&r), 0);
    ring.message = 501;
    assert_int_equal(steps(&r), 1);
    ring.message = 1000; /* too late */
    assert_int_equal(spec_cico_message(&r), 501);
    assert_true(spec_cico_is_done(&r));
    assert_int_equal(to[500], 0x55);
}

/* Units are numbered on, so that no slot has to be set back. */
static void one_message_after_the_other(void **state)
{
    (void) state;
    for (uint64_t i = 1; i < 40; ++i) {
        const uint64_t length = i * 17 % 23 * SPEC_CICO_SLOT / 2 + i;
        const uint32_t use = ring.use;
        ring.other = 5;
        spec_cico_renew(&ring, SLOTS);
        assert_int_not_equal(ring.use, use);
        assert_int_equal(ring.other, 0);
        assert_int_equal(ring.message, SPEC_CICO_UNKNOWN);
        memset(to, 0x55, sizeof(to));
        spec_cico_end_t r = receiver(MOST, SPEC_CICO_UNKNOWN);
        assert_int_equal(steps(&r), 0);
        spec_cico_end_t s = sender(length);
        assert_false(spec_cico_is_drained(&s));
        while (steps(&s) + steps(&r) > 0) {}
        assert_true(spec_cico_is_done(&s) && spec_cico_is_done(&r) && spec_cico_is_drained(&s));
        assert_memory_equal(from, to, length);
        assert_int_equal(to[length], 0x55);
        spec_cico_used(&s);
    }
    assert_true(ring.base > 100);
}

static void after_a_message_that_was_given_up(void **state)
{
    (void) state;
    spec_cico_end_t s = sender(RING - 1), r = receiver(RING, RING);
    (void) steps(&s);
    (void) steps(&r);
    spec_cico_used(&s);
    spec_cico_renew(&ring, SLOTS);
    s = sender(2 * RING);
    assert_int_equal(steps(&s), SLOTS);
    spec_cico_reset(&ring);
    one_message_after_the_other(NULL);
}

static void slots_are_as_large_as_a_cache(void **state)
{
    (void) state;
    assert_int_equal(spec_cico_slots(1 << 20), 32);
    assert_int_equal(spec_cico_slots(0), 32); /* not known */
    assert_int_equal(spec_cico_slots(1 << 16), 8);
    assert_int_equal(spec_cico_slots(1 << 30), SPEC_CICO_SLOTS);
}

static void no_more_slots_than_there_are_are_believed(void **state)
{
    (void) state;
    static const uint32_t told[] = {0, SPEC_CICO_SLOTS + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof(told) / sizeof(*told); ++i) {
        (void) setup(NULL);
        ring.slots = told[i];
        ring.base = SPEC_CICO_SLOTS - 1;
        const spec_cico_end_t r = receiver(MOST, MOST + 1);
        assert_in_range(r.slots, 1, SPEC_CICO_SLOTS);
    }
    (void) setup(NULL);
    assert_int_equal(receiver(MOST, MOST + 1).slots, SLOTS);
}

static void who_is_stuck_calls_after_a_moment(void **state)
{
    (void) state;
    const uint64_t stuck = 5000000, p = SPEC_CICO_PATIENCE, again = SPEC_CICO_AGAIN;
    assert_false(spec_cico_calls(stuck, 0, stuck + p - 1));
    assert_true(spec_cico_calls(stuck, 0, stuck + p));
    assert_false(spec_cico_calls(stuck, stuck + p, stuck + p + 1)); /* it has called */
    assert_false(spec_cico_calls(stuck, stuck + p, stuck + p + again - 1));
    assert_true(spec_cico_calls(stuck, stuck + p, stuck + p + again));
    assert_true(spec_cico_calls(stuck, stuck - 1, stuck + p)); /* that was the last time */
}

/* ---- threads ---- */

static void *work(void *end)
{
    while (!spec_cico_is_done(end)) {
        if (!spec_cico_step(end)) {
            (void) sched_yield();
        }
    }
    return NULL;
}

static void several_threads_at_each_end(void **state)
{
    (void) state;
    for (int round = 0; round < 50; ++round) {
        (void) setup(NULL);
        pthread_t thread[4];
        spec_cico_end_t s = sender(MOST), r = receiver(MOST, SPEC_CICO_UNKNOWN);
        for (int i = 0; i < 4; ++i) {
            assert_int_equal(pthread_create(&thread[i], NULL, work, i < 2 ? &s : &r), 0);
        }
        for (int i = 0; i < 4; ++i) {
            assert_int_equal(pthread_join(thread[i], NULL), 0);
        }
        assert_memory_equal(from, to, MOST);
        assert_int_equal(to[MOST], 0x55);
        assert_int_equal(s.next, s.done);
        assert_int_equal(r.next, r.done);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_drained_that_was_not_filled, setup),
        cmocka_unit_test_setup(messages_of_all_lengths, setup),
        cmocka_unit_test_setup(what_has_no_room_is_dropped, setup),
        cmocka_unit_test_setup(a_sender_is_done_when_all_is_drained, setup),
        cmocka_unit_test_setup(a_ring_that_is_used_again_was_drained, setup),
        cmocka_unit_test_setup(a_length_that_cannot_be_is_not_believed, setup),
        cmocka_unit_test_setup(one_message_after_the_other, setup),
        cmocka_unit_test_setup(after_a_message_that_was_given_up, setup),
        cmocka_unit_test(slots_are_as_large_as_a_cache),
        cmocka_unit_test(no_more_slots_than_there_are_are_believed),
        cmocka_unit_test(who_is_stuck_calls_after_a_moment),
        cmocka_unit_test_setup(several_threads_at_each_end, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
