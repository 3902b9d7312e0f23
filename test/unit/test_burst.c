/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* core/spec_burst.h: which of many small sends wait for others. */
#include "spec_burst.h"
#include "spec_unit.h"

#define MOST 8

/* A burst of which so many have left. */
static spec_burst_t after(unsigned n, uint32_t poll)
{
    spec_burst_t b = {0};
    for (unsigned i = 0; i < n; ++i) {
        assert_false(spec_burst_waits(&b, poll, 8, MOST));
    }
    return b;
}

static void the_first_leave_at_once(void **state)
{
    (void) state;
    spec_burst_t b = {0};
    for (unsigned i = 0; i < SPEC_BURST_ALONE; ++i) {
        assert_false(spec_burst_is_on(&b, 1));
        assert_false(spec_burst_waits(&b, 1, 8, MOST));
    }
    assert_true(spec_burst_is_on(&b, 1));
    assert_true(spec_burst_waits(&b, 1, 8, MOST));
}

/* Also if the first poll there ever was is number 0, as that of a new burst is. */
static void polls_may_have_any_number(void **state)
{
    (void) state;
    spec_burst_t b = after(SPEC_BURST_ALONE, 0);
    assert_true(spec_burst_waits(&b, 0, 8, MOST));
    b = after(SPEC_BURST_ALONE, UINT32_MAX);
    assert_true(spec_burst_waits(&b, UINT32_MAX, 8, MOST));
    assert_false(spec_burst_waits(&b, 0, 8, MOST)); /* it goes round */
}

static void a_poll_ends_the_burst(void **state)
{
    (void) state;
    spec_burst_t b = after(SPEC_BURST_ALONE, 1);
    assert_true(spec_burst_waits(&b, 1, 8, MOST));
    assert_false(spec_burst_is_on(&b, 2));
    for (unsigned i = 0; i < SPEC_BURST_ALONE; ++i) {
        assert_false(spec_burst_waits(&b, 2, 8, MOST));
    }
    /* The batch of the burst before does not count. */
    for (unsigned i = 1; i < MOST; ++i) {
        assert_true(spec_burst_waits(&b, 2, 8, MOST));
    }
    assert_false(spec_burst_waits(&b, 2, 8, MOST));
}

/* Sends with a poll between each of them never wait. */
static void a_ping_pong_is_no_burst(void **state)
{
    (void) state;
    spec_burst_t b = {0};
    for (uint32_t poll = 1; poll < 1000; ++poll) {
        assert_false(spec_burst_is_on(&b, poll));
        assert_false(spec_burst_waits(&b, poll, 8, MOST));
    }
}

static void one_takes_a_full_batch_along(void **state)
{
    (void) state;
    spec_burst_t b = after(SPEC_BURST_ALONE, 1);
    for (unsigned batch = 0; batch < 3; ++batch) {
        for (unsigned i = 1; i < MOST; ++i) {
            assert_true(spec_burst_waits(&b, 1, 8, MOST));
        }
        assert_false(spec_burst_waits(&b, 1, 8, MOST));
        assert_true(spec_burst_is_on(&b, 1));
    }
}

static void a_batch_of_many_bytes_is_full(void **state)
{
    (void) state;
    spec_burst_t b = after(SPEC_BURST_ALONE, 1);
    assert_true(spec_burst_waits(&b, 1, SPEC_BURST_BYTES / 2, MOST));
    assert_true(spec_burst_waits(&b, 1, SPEC_BURST_BYTES / 2 - 1, MOST));
    assert_false(spec_burst_waits(&b, 1, 1, MOST));
    assert_true(spec_burst_waits(&b, 1, 1, MOST)); /* the next one */
    assert_false(spec_burst_waits(&b, 1, SIZE_MAX / 2, MOST)); /* large ones wait for nobody */
    assert_false(spec_burst_waits(&b, 1, SPEC_BURST_BYTES, MOST));
}

static void batches_of_one_are_none(void **state)
{
    (void) state;
    spec_burst_t b = after(SPEC_BURST_ALONE, 1);
    for (unsigned i = 0; i < 100; ++i) {
        assert_false(spec_burst_waits(&b, 1, 8, 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_leave_at_once),     cmocka_unit_test(polls_may_have_any_number),
        cmocka_unit_test(a_poll_ends_the_burst),       cmocka_unit_test(a_ping_pong_is_no_burst),
        cmocka_unit_test(one_takes_a_full_batch_along), cmocka_unit_test(a_batch_of_many_bytes_is_full),
        cmocka_unit_test(batches_of_one_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
