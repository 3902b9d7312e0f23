/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* iw_intake.h: how many buffers a receive call offers, and when the kernel joins datagrams. */
#include "spec_unit.h"

#include "iw_intake.h"

#define SMALL 100

static iw_intake_t new_intake(void)
{
    return (iw_intake_t){.slots = 1};
}

/* As the port does: whatever is asked for happens. */
static iw_intake_do_t part_found(iw_intake_t *t, unsigned filled, unsigned datagrams, size_t bytes,
                                 bool goes_on)
{
    const iw_intake_do_t what = iw_intake_found(t, filled, datagrams, bytes, goes_on, false);
    if (IW_INTAKE_NOTHING != what) {
        iw_intake_told(t, IW_INTAKE_JOIN == what);
    }
    return what;
}

/* Messages that are one datagram each. */
static iw_intake_do_t found(iw_intake_t *t, unsigned filled, unsigned datagrams, size_t bytes)
{
    return part_found(t, filled, datagrams, bytes, false);
}

static iw_intake_do_t empty(iw_intake_t *t)
{
    const iw_intake_do_t what = iw_intake_empty(t);
    if (IW_INTAKE_NOTHING != what) {
        iw_intake_told(t, IW_INTAKE_JOIN == what);
    }
    return what;
}

/* Everything that is offered is filled, by as many datagrams. */
static void burst(iw_intake_t *t, unsigned calls, size_t bytes_each)
{
    while (calls-- > 0) {
        (void) found(t, t->slots, t->slots, t->slots * bytes_each);
    }
}

/* A ping-pong, with some messages in a row now and then. */
static void a_conversation_is_not_joined(void **state)
{
    (void) state;
    iw_intake_t t = new_intake();
    for (unsigned round = 0; round < 1000; ++round) {
        for (unsigned i = 0; i < 1 + round % 7; ++i) {
            assert_int_equal(found(&t, 1, 1, SMALL), IW_INTAKE_NOTHING);
        }
        assert_int_equal(empty(&t), IW_INTAKE_NOTHING);
        assert_int_equal(t.joining, IW_APART);
        assert_int_equal(t.slots, 1);
    }
}

static void a_burst_is_joined(void **state)
{
    (void) state;
    iw_intake_t t = new_intake();
    burst(&t, IW_INTAKE_STREAM - 1, SMALL);
    assert_int_equal(t.slots, 1);
    assert_int_equal(found(&t, 1, 1, SMALL), IW_INTAKE_NOTHING);
    assert_int_equal(t.slots, 2);
    assert_int_equal(found(&t, 2, 2, 2 * SMALL), IW_INTAKE_JOIN);
    assert_int_equal(t.joining, IW_JOINED);
    assert_int_equal(found(&t, 4, 4, 4 * SMALL), IW_INTAKE_NOTHING); /* it is known */
    assert_int_equal(t.slots, IW_INTAKE_SLOTS);
    burst(&t, 1, SMALL);
    assert_int_equal(t.slots, IW_INTAKE_SLOTS);
}

/* The kernel may refuse; it is asked again while it seems of use. */
static void who_is_refused_asks_again(void **state)
{
    (void) state;
    iw_intake_t t = new_intake();
    burst(&t, IW_INTAKE_STREAM, SMALL);
    for (int i = 0; i < 5; ++i) {
        assert_int_equal(iw_intake_found(&t, t.slots, t.slots, t.slots * SMALL, false, false),
                         IW_INTAKE_JOIN);
    }
}

static void large_ones_are_taken_by_two(void **state)
{
    (void) state;
    iw_intake_t t = new_intake();
    burst(&t, 20, IW_INTAKE_LARGE + 1);
    assert_int_equal(t.slots, 2);
    assert_int_equal(t.joining, IW_JOINED);
}

/* Those that are not copied fill the cache once only. */
static void placed_ones_are_taken_by_four(void **state)
{
    (void) state;
    iw_intake_t t = new_intake();
    for (unsigned i = 0; i < 20; ++i) {
        (void) iw_intake_found(&t, t.slots, t.slots, t.slots * (IW_INTAKE_LARGE + 1), false, true);
    }
    assert_int_equal(t.slots, IW_INTAKE_PLACED);
    for (unsigned i = 0; i < 20; ++i) {
        (void) iw_intake_found(&t, t.slots, t.slots, t.slots * (IW_INTAKE_LARGE + 1), false, false);
    }
    assert_int_equal(t.slots, 2);
}

/* Joined until there were no trains for a while; then what may be on its way is waited for. */
static void trains_end(void **state)
{
    (void) state;
    iw_intake_t t = new_intake();
    burst(&t, IW_INTAKE_STREAM + 1, SMALL);
    for (unsigned i = 1; i < IW_INTAKE_IDLE; ++i) {
        assert_int_equal(empty(&t), IW_INTAKE_NOTHING);
    }
    assert_int_equal(found(&t, 1, 2, 2 * SMALL), IW_INTAKE_NOTHING); /* a train */
    for (unsigned i = 1; i < IW_INTAKE_IDLE; ++i) {
        (void) found(&t, 1, 1, SMALL); /* none */
        assert_int_equal(empty(&t), IW_INTAKE_NOTHING);
        assert_int_equal(t.joining, IW_JOINED);
    }
    assert_int_equal(empty(&t), IW_INTAKE_PART);
    for (unsigned i = 1; i < IW_INTAKE_LEAVE; ++i) {
        assert_int_equal(t.joining, IW_LEAVING);
        assert_int_equal(empty(&t), IW_INTAKE_NOTHING);
    }
    assert_int_equal(t.joining, IW_LEAVING);
    assert_int_equal(empty(&t), IW_INTAKE_NOTHING);
    assert_int_equal(t.joining, IW_APART);
    /* And again. */
    burst(&t, IW_INTAKE_STREAM + 1, SMALL);
    assert_int_equal(t.joining, IW_JOINED);
}

/* A ping-pong of messages that are cut in three. */
static void parts_of_a_message_are_joined(void **state)
{
    (void) state;
    iw_intake_t t = new_intake();
    assert_int_equal(part_found(&t, 1, 1, SMALL, true), IW_INTAKE_NOTHING);
    assert_int_equal(t.slots, IW_INTAKE_SLOTS);
    assert_int_equal(part_found(&t, 2, 2, 2 * SMALL, false), IW_INTAKE_JOIN);
    for (unsigned round = 0; round < 2 * IW_INTAKE_IDLE; ++round) {
        assert_int_equal(empty(&t), IW_INTAKE_NOTHING);
        assert_int_equal(t.slots, 1);
        assert_int_equal(part_found(&t, 1, 3, 3 * SMALL, false), IW_INTAKE_NOTHING);
        assert_int_equal(t.joining, IW_JOINED);
    }
    /* Parts that come one by one: nothing would be joined. */
    t = new_intake();
    for (unsigned round = 0; round < 10; ++round) {
        assert_int_equal(part_found(&t, 1, 1, SMALL, true), IW_INTAKE_NOTHING);
        assert_int_equal(empty(&t), IW_INTAKE_NOTHING);
        assert_int_equal(found(&t, 1, 1, SMALL), IW_INTAKE_NOTHING);
        assert_int_equal(empty(&t), IW_INTAKE_NOTHING);
    }
    /* A message of two parts: the second one was there already. */
    t = new_intake();
    assert_int_equal(part_found(&t, 1, 1, SMALL, true), IW_INTAKE_NOTHING);
    assert_int_equal(part_found(&t, 1, 1, SMALL, false), IW_INTAKE_JOIN);
    /* Two that belong to nothing. */
    t = new_intake();
    t.slots = IW_INTAKE_SLOTS;
    assert_int_equal(found(&t, 2, 2, 2 * SMALL), IW_INTAKE_NOTHING);
    /* Large parts fill the cache. */
    t = new_intake();
    assert_int_equal(part_found(&t, 1, 1, IW_INTAKE_LARGE + 1, true), IW_INTAKE_NOTHING);
    assert_int_equal(t.slots, 1);
}

static void who_takes_all_joins_what_waited(void **state)
{
    (void) state;
    iw_intake_t t = new_intake();
    assert_int_equal(iw_intake_all(&t, 1), IW_INTAKE_NOTHING);
    assert_int_equal(iw_intake_all(&t, 2), IW_INTAKE_JOIN);
    iw_intake_told(&t, true);
    t.idle = IW_INTAKE_IDLE - 1;
    assert_int_equal(iw_intake_all(&t, 2), IW_INTAKE_NOTHING);
    assert_int_equal(empty(&t), IW_INTAKE_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_is_not_joined),
        cmocka_unit_test(a_burst_is_joined),
        cmocka_unit_test(who_is_refused_asks_again),
        cmocka_unit_test(large_ones_are_taken_by_two),
        cmocka_unit_test(placed_ones_are_taken_by_four),
        cmocka_unit_test(trains_end),
        cmocka_unit_test(who_takes_all_joins_what_waited),
        cmocka_unit_test(parts_of_a_message_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
