/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* ibx_sleep.h: when a process that waits sleeps. */
#include "spec_unit.h"

#include "ibx_sleep.h"

#define US    UINT64_C(1000)
#define AFTER (1000 * US)
#define PACE  (IBX_SLEEP_CHECK * US) /* a poll in 1 us */

/* Polls in vain, one in so many ns, from a time on, until it is to sleep or the time is over. Returns when. */
static uint64_t poll_in_vain(ibx_sleep_t *r, uint64_t from, uint64_t to, uint64_t step)
{
    for (uint64_t now = from; now < to; now += step) {
        if (ibx_sleep_checks(r) && 0 != ibx_sleep_time(r, now)) {
            return now;
        }
    }
    return to;
}

static void long_wait_sleeps(void **state)
{
    (void) state;
    ibx_sleep_t r = {.after = AFTER, .pace = PACE};
    const uint64_t at = poll_in_vain(&r, 5 * US, 100000 * US, US);
    assert_in_range(at, AFTER, AFTER + (IBX_SLEEP_FIRST + 2 * IBX_SLEEP_CHECK) * US);
    /* And again, as soon as it is clear that nothing came. */
    ibx_sleep_woke(&r, at + IBX_SLEEP_MOST);
    const uint64_t again = poll_in_vain(&r, at + IBX_SLEEP_MOST, 100000 * US, US);
    assert_in_range(again, at + IBX_SLEEP_MOST, at + IBX_SLEEP_MOST + IBX_SLEEP_CHECK * US);
}

static void what_comes_ends_the_wait(void **state)
{
    (void) state;
    ibx_sleep_t r = {.after = AFTER, .pace = PACE};
    uint64_t now = US;
    for (unsigned i = 0; i < 100; ++i, now += AFTER - 50 * US) {
        assert_int_equal(now + AFTER - 50 * US, poll_in_vain(&r, now, now + AFTER - 50 * US, US));
        ibx_sleep_over(&r);
    }
}

static void sleep_is_bounded(void **state)
{
    (void) state;
    ibx_sleep_t r = {.after = AFTER};
    assert_int_equal(0, ibx_sleep_time(&r, 1));
    assert_int_equal(0, ibx_sleep_time(&r, AFTER));
    assert_int_equal(IBX_SLEEP_MOST, ibx_sleep_time(&r, AFTER + 1)); /* or the pace is measured */
    ibx_sleep_woke(&r, AFTER + IBX_SLEEP_MOST);
    r.pace = PACE;
    assert_int_equal(0, ibx_sleep_time(&r, AFTER + IBX_SLEEP_MOST + IBX_SLEEP_SLACK * PACE + 1));
    assert_int_equal(IBX_SLEEP_MOST,
                     ibx_sleep_time(&r, AFTER + IBX_SLEEP_MOST + 2 * IBX_SLEEP_SLACK * PACE + 1));
}

/* Who computes between two calls of MPI_Test does not wait. */
static void who_does_something_else_does_not_sleep(void **state)
{
    (void) state;
    ibx_sleep_t r = {.after = AFTER, .pace = PACE};
    const uint64_t step = IBX_SLEEP_SLACK * US + 1;
    assert_int_equal(1000 * AFTER, poll_in_vain(&r, US, 1000 * AFTER, step));
    /* One who begins to wait does. */
    assert_true(poll_in_vain(&r, 1000 * AFTER, 1003 * AFTER, US) < 1001 * AFTER);
}

/* The processor was lost once: no reason to poll for ever. */
static void lost_turn_is_no_computation(void **state)
{
    (void) state;
    ibx_sleep_t r = {.after = AFTER, .pace = PACE};
    const uint64_t at = poll_in_vain(&r, 5 * US, AFTER - 100 * US, US) + 5000 * US;
    const uint64_t sleeps = poll_in_vain(&r, at, at + 1000 * AFTER, US);
    assert_in_range(sleeps, at, at + 3 * IBX_SLEEP_CHECK * US);
}

static void short_wait_does_not_read_the_clock(void **state)
{
    (void) state;
    ibx_sleep_t r = {.after = AFTER};
    unsigned polls = 0;
    for (unsigned i = 0; i < 100; ++i) {
        for (unsigned j = 1; j < IBX_SLEEP_FIRST; ++j) {
            assert_false(ibx_sleep_checks(&r));
        }
        ibx_sleep_over(&r);
    }
    for (unsigned i = 0; i < IBX_SLEEP_FIRST + 9 * IBX_SLEEP_CHECK; ++i) {
        polls += ibx_sleep_checks(&r);
    }
    assert_int_equal(10, polls);
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
    return cmocka_run_group_tests_name("sleep", tests, NULL, NULL);
}
