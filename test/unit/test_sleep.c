/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* ibx_sleep.h: when a process that waits sleeps. */
#include "spec_unit.h"

#include "ibx_sleep.h"

#define US    UINT64_C(1000)
#define AFTER (1000 * US)
#define PACE  (IBX_REST_LOOK * US) /* a poll in 1 us */

/* Polls in vain, one in so many ns, from a time on, until it is to sleep or the time is over. Returns when. */
static uint64_t poll_in_vain(ibx_rest_t *r, uint64_t from, uint64_t to, uint64_t step)
{
    for (uint64_t now = from; now < to; now += step) {
        if (ibx_rest_looks(r) && 0 != ibx_rest_time(r, now)) {
            return now;
        }
    }
    return to;
}

static void long_wait_sleeps(void **state)
{
    (void) state;
    ibx_rest_t r = {.after = AFTER, .pace = PACE};
    const uint64_t at = poll_in_vain(&r, 5 * US, 100000 * US, US);
    assert_in_range(at, AFTER, AFTER + (IBX_REST_FIRST + 2 * IBX_REST_LOOK) * US);
    /* And again, as soon as it is clear that nothing came. */
    ibx_rest_woke(&r, at + IBX_REST_MOST);
    const uint64_t again = poll_in_vain(&r, at + IBX_REST_MOST, 100000 * US, US);
    assert_in_range(again, at + IBX_REST_MOST, at + IBX_REST_MOST + IBX_REST_LOOK * US);
}

static void what_comes_ends_the_wait(void **state)
{
    (void) state;
    ibx_rest_t r = {.after = AFTER, .pace = PACE};
    uint64_t now = US;
    for (unsigned i = 0; i < 100; ++i, now += AFTER - 50 * US) {
        assert_int_equal(now + AFTER - 50 * US, poll_in_vain(&r, now, now + AFTER - 50 * US, US));
        ibx_rest_over(&r);
    }
}

static void sleep_is_bounded(void **state)
{
    (void) state;
    ibx_rest_t r = {.after = AFTER};
    assert_int_equal(0, ibx_rest_time(&r, 1));
    assert_int_equal(0, ibx_rest_time(&r, AFTER));
    assert_int_equal(IBX_REST_MOST, ibx_rest_time(&r, AFTER + 1)); /* or the pace is measured */
    ibx_rest_woke(&r, AFTER + IBX_REST_MOST);
    r.pace = PACE;
    assert_int_equal(0, ibx_rest_time(&r, AFTER + IBX_REST_MOST + IBX_REST_SLACK * PACE + 1));
    assert_int_equal(IBX_REST_MOST,
                     ibx_rest_time(&r, AFTER + IBX_REST_MOST + 2 * IBX_REST_SLACK * PACE + 1));
}

/* Who computes between two calls of MPI_Test does not wait. */
static void who_does_something_else_does_not_sleep(void **state)
{
    (void) state;
    ibx_rest_t r = {.after = AFTER, .pace = PACE};
    const uint64_t step = IBX_REST_SLACK * US + 1;
    assert_int_equal(1000 * AFTER, poll_in_vain(&r, US, 1000 * AFTER, step));
    /* One who begins to wait does. */
    assert_true(poll_in_vain(&r, 1000 * AFTER, 1003 * AFTER, US) < 1001 * AFTER);
}

/* The processor was lost once: no reason to poll for ever. */
static void lost_turn_is_no_computation(void **state)
{
    (void) state;
    ibx_rest_t r = {.after = AFTER, .pace = PACE};
    const uint64_t at = poll_in_vain(&r, 5 * US, AFTER - 100 * US, US) + 5000 * US;
    const uint64_t sleeps = poll_in_vain(&r, at, at + 1000 * AFTER, US);
    assert_in_range(sleeps, at, at + 3 * IBX_REST_LOOK * US);
}

static void short_wait_does_not_read_the_clock(void **state)
{
    (void) state;
    ibx_rest_t r = {.after = AFTER};
    unsigned looks = 0;
    for (unsigned i = 0; i < 100; ++i) {
        for (unsigned j = 1; j < IBX_REST_FIRST; ++j) {
            assert_false(ibx_rest_looks(&r));
        }
        ibx_rest_over(&r);
    }
    for (unsigned i = 0; i < IBX_REST_FIRST + 9 * IBX_REST_LOOK; ++i) {
        looks += ibx_rest_looks(&r);
    }
    assert_int_equal(10, looks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_wait_sleeps),
        cmocka_unit_test(what_comes_ends_the_wait),
        cmocka_unit_test(sleep_is_bounded),
        cmocka_unit_test(who_does_something_else_does_not_sleep),
        cmocka_unit_test(lost_turn_is_no_computation),
        cmocka_unit_test(short_wait_does_not_read_the_clock),
    };
    return cmocka_run_group_tests_name("rest", tests, NULL, NULL);
}
