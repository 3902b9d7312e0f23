/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* core/spec_follow.h: whether a receive polls, or leaves that to the send that follows. */
#include "spec_follow.h"
#include "spec_unit.h"

enum { NOW = 1000000, SOON = 1000, LATE = SPEC_FOLLOW_NS + 1 };

/* A receive, and a send so long after it. Returns whether the receive polled; the send does if not. */
static bool exchange(spec_follow_t *f, uint64_t *now, uint64_t gap)
{
    const bool polled = spec_follow_polls(f, *now += LATE);
    assert_true(spec_follow_waits(f));
    assert_true(polled != spec_follow_sent(f, *now += gap));
    assert_false(spec_follow_waits(f));
    return polled;
}

static void a_send_that_always_follows_gets_the_poll(void **state)
{
    (void) state;
    spec_follow_t f = {0};
    uint64_t now = NOW;
    for (unsigned i = 0; i < SPEC_FOLLOW_SURE; ++i) {
        assert_true(exchange(&f, &now, SPEC_FOLLOW_NS));
    }
    assert_false(exchange(&f, &now, SPEC_FOLLOW_NS));
    assert_false(exchange(&f, &now, SOON));
    /* It computed in between: once the poll came late. */
    assert_false(exchange(&f, &now, LATE));
    assert_true(exchange(&f, &now, SOON));
}

static void a_receive_that_no_send_follows_polls(void **state)
{
    (void) state;
    spec_follow_t f = {0};
    uint64_t now = NOW;
    for (unsigned i = 0; i < SPEC_FOLLOW_SURE; ++i) {
        assert_true(exchange(&f, &now, SOON));
    }
    assert_false(spec_follow_polls(&f, now += LATE));
    assert_true(spec_follow_polls(&f, now += LATE));
    assert_true(spec_follow_polls(&f, now += LATE));
    assert_false(spec_follow_sent(&f, now += SOON)); /* there is nothing to make up for */
}

static void several_receives_before_the_sends_are_like_one(void **state)
{
    (void) state;
    spec_follow_t f = {0};
    uint64_t now = NOW;
    for (unsigned i = 0; i < SPEC_FOLLOW_SURE + 1; ++i) {
        const bool first = spec_follow_polls(&f, now += LATE);
        assert_true(first == spec_follow_polls(&f, now += SOON));
        assert_true(first == (i < SPEC_FOLLOW_SURE));
        assert_true(first != spec_follow_sent(&f, now += SOON));
    }
    /* From the first of them on. */
    (void) spec_follow_polls(&f, now += LATE);
    (void) spec_follow_polls(&f, now += SPEC_FOLLOW_NS);
    (void) spec_follow_sent(&f, now += SOON);
    assert_true(spec_follow_polls(&f, now += LATE));
}

static void sends_by_themselves_say_nothing(void **state)
{
    (void) state;
    spec_follow_t f = {0};
    assert_false(spec_follow_waits(&f));
    assert_false(spec_follow_sent(&f, NOW));
    assert_true(spec_follow_polls(&f, NOW + SOON));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_send_that_always_follows_gets_the_poll),
        cmocka_unit_test(a_receive_that_no_send_follows_polls),
        cmocka_unit_test(several_receives_before_the_sends_are_like_one),
        cmocka_unit_test(sends_by_themselves_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
