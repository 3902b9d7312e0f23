/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* iw_poll.h: when the kernel is asked again. */
#include "spec_unit.h"

#include "iw_poll.h"

#define US UINT64_C(1000)

/* A poll at this time that finds nothing. Returns when the next one is due, as the port reckons it without timers. */
static uint64_t poll_once(iw_poll_t *l, uint64_t now, bool is_connected)
{
    const uint64_t gap = iw_poll_gap(l, now, is_connected);
    iw_poll_at(l, 0 == gap ? 0 : now + gap);
    return now + gap;
}

/* Polls whenever one is due, in steps of so many ns, from one time to another. Returns how many polls there were. */
static unsigned watch(iw_poll_t *l, uint64_t from, uint64_t to, uint64_t step)
{
    unsigned polls = 0;
    for (uint64_t now = from; now < to; now += step) {
        if (iw_poll_is_at_once(l) || iw_poll_is_due(l, now)) {
            poll_once(l, now, true);
            ++polls;
        }
    }
    return polls;
}

static void first_poll_is_at_once(void **state)
{
    (void) state;
    const iw_poll_t l = {.next = 0};
    assert_true(iw_poll_is_at_once(&l));
    assert_true(iw_poll_is_due(&l, 0));
}

static void young_wait_polls_each_time(void **state)
{
    (void) state;
    iw_poll_t l = {.next = 0};
    assert_int_equal(30, watch(&l, 100 * US, 130 * US, US));
    assert_true(iw_poll_is_at_once(&l)); /* without reading the clock */
}

/* Whenever a datagram comes, it has waited for no larger a share than promised, and never longer than the most. */
static void wait_is_a_share(void **state)
{
    (void) state;
    iw_poll_t l = {.next = 0};
    const uint64_t start = 100 * US;
    uint64_t before = start;
    for (uint64_t now = start; now < start + 2000 * US; now += 100) {
        if (!iw_poll_is_at_once(&l) && !iw_poll_is_due(&l, now)) {
            continue;
        }
        const uint64_t lay = now - before, waited = before - start;
        assert_true(lay <= waited / IW_POLL_SHARE + 100);
        assert_true(lay <= IW_POLL_MOST + 100);
        poll_once(&l, now, true);
        before = now;
    }
}

static void old_wait_polls_seldom(void **state)
{
    (void) state;
    iw_poll_t l = {.next = 0};
    (void) watch(&l, 0, 1000 * US, 100);
    assert_in_range(watch(&l, 1000 * US, 2600 * US, 100), 90, 100);
}

static void traffic_begins_anew(void **state)
{
    (void) state;
    iw_poll_t l = {.next = 0};
    (void) watch(&l, 0, 1000 * US, 100);
    assert_false(iw_poll_is_at_once(&l));
    iw_poll_begin(&l);
    assert_true(iw_poll_is_at_once(&l));
    assert_int_equal(30, watch(&l, 1000 * US, 1030 * US, US));
}

/* Who computes in between has not waited any longer for it. */
static void pause_is_not_waited(void **state)
{
    (void) state;
    iw_poll_t l = {.next = 0};
    assert_int_equal(20, watch(&l, US, 21 * US, US));
    assert_int_equal(12, watch(&l, 5000 * US, 5012 * US, US));
    /* Nor does he begin anew: nothing has come. */
    iw_poll_t m = {.next = 0};
    (void) watch(&m, US, 1000 * US, 100);
    assert_in_range(watch(&m, 5000 * US, 5160 * US, 100), 10, 11);
}

/* A little late, as a poll is that has to wait for another transport's. */
static void late_poll_is_no_pause(void **state)
{
    (void) state;
    iw_poll_t l = {.next = 300 * US, .since = 44 * US, .last = 292 * US};
    assert_int_equal((310 - 44) * US / IW_POLL_SHARE, iw_poll_gap(&l, 310 * US, true));
}

static void seldom_caller_polls_each_time(void **state)
{
    (void) state;
    iw_poll_t l = {.next = 0};
    assert_in_range(watch(&l, US, 100000 * US, 40 * US), 2490, 2500);
}

static void without_connection_it_can_wait(void **state)
{
    (void) state;
    iw_poll_t l = {.next = 0};
    assert_int_equal(100 * US + IW_POLL_MOST, poll_once(&l, 100 * US, false));
    assert_false(iw_poll_is_due(&l, 100 * US + IW_POLL_MOST - 1));
    assert_true(iw_poll_is_due(&l, 100 * US + IW_POLL_MOST));
    /* The connection's first datagram. */
    iw_poll_begin(&l);
    assert_int_equal(30, watch(&l, 120 * US, 150 * US, US));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_poll_is_at_once),
        cmocka_unit_test(young_wait_polls_each_time),
        cmocka_unit_test(wait_is_a_share),
        cmocka_unit_test(old_wait_polls_seldom),
        cmocka_unit_test(traffic_begins_anew),
        cmocka_unit_test(pause_is_not_waited),
        cmocka_unit_test(late_poll_is_no_pause),
        cmocka_unit_test(seldom_caller_polls_each_time),
        cmocka_unit_test(without_connection_it_can_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
