/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* core/spec_policy.h: what the heuristics say together before a message is sent or received, and where what was observed goes. */
#include "spec_policy.h"
#include "spec_unit.h"

enum { LARGE = 1 << 20, SMALL = 8192, NOW = 1000000 };

static void a_receive_polls_unless_it_has_nothing_to_save(void **state)
{
    (void) state;
    spec_before_recv_t recv = {.capacity = LARGE, .waits = true, .wins = true};
    spec_recv_plan_t plan = spec_policy_before_recv(&recv);
    /* Adaptation has stopped it, and the call waits next. */
    assert_true(!plan.poll && !plan.offers && plan.watches);
    recv.offers = true;
    plan = spec_policy_before_recv(&recv);
    assert_true(plan.poll && plan.offers && !plan.watches);
    recv.waits = false;
    assert_true(spec_policy_before_recv(&recv).poll);
    recv.offers = false;
    assert_true(spec_policy_before_recv(&recv).poll);
    recv.capacity = SMALL;
    assert_false(spec_policy_before_recv(&recv).poll);
    recv.offers = true;
    assert_true(spec_policy_before_recv(&recv).poll);
}

static void a_receive_that_cannot_win_offers_nothing(void **state)
{
    (void) state;
    spec_before_recv_t recv = {.capacity = LARGE, .waits = true, .offers = true};
    spec_recv_plan_t plan = spec_policy_before_recv(&recv);
    assert_true(!plan.poll && !plan.offers && !plan.watches);
    recv.offers = false;
    plan = spec_policy_before_recv(&recv);
    assert_true(!plan.poll && !plan.offers && !plan.watches);
}

static void patience_of_each_way_learns_its_own(void **state)
{
    (void) state;
    spec_policy_t p = {.burst = {0}};
    spec_policy_observed(&p, SPEC_SAW_MOVED, LARGE, NOW);
    assert_true(p.for_rtr.ps_per_byte > 0 && p.for_rts.ps_per_byte == p.for_rtr.ps_per_byte);
    spec_policy_observed(&p, SPEC_SAW_CROSSING, LARGE, 0);
    assert_true(p.for_rtr.wait > 0 && 0 == p.for_rts.wait);
    spec_policy_observed(&p, SPEC_SAW_LATE_RTS, LARGE, 0);
    assert_true(p.for_rts.wait > 0);
}

static void a_burst_gathers(void **state)
{
    (void) state;
    spec_policy_t p = {.burst = {0}};
    for (int i = 0; i < SPEC_BURST_ALONE; ++i) {
        assert_false(spec_policy_gathers(&p, 1, 8, 32));
    }
    assert_true(spec_policy_gathers(&p, 1, 8, 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_polls_unless_it_has_nothing_to_save),
        cmocka_unit_test(a_receive_that_cannot_win_offers_nothing),
        cmocka_unit_test(patience_of_each_way_learns_its_own),
        cmocka_unit_test(a_burst_gathers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
