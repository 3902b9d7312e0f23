/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Faults on purpose (iw_fault.h). */
#include "spec_unit.h"

#include "iw_fault.h"

static void words_are_understood(void **state)
{
    (void) state;
    iw_fault_rates_t r = {.drop = 7};
    assert_true(iw_fault_parse(&r, ""));
    assert_int_equal(r.drop, 0);
    assert_true(iw_fault_parse(
        &r, "drop=0.01,duplicate=0.005,reorder=0.1,delay=0.02:3ms,corrupt=1e-3,truncate=1"));
    assert_int_equal(r.drop, 10000);
    assert_int_equal(r.duplicate, 5000);
    assert_int_equal(r.reorder, 100000);
    assert_int_equal(r.delay, 20000);
    assert_int_equal(r.delay_ns, 3000000);
    assert_int_equal(r.corrupt, 1000);
    assert_int_equal(r.truncate, 1000000);
    const char *const wrong[] = {"drop",        "drop=",      "drop=2",         "drop=-1",
                                 "drop=nan",    "lose=0.1",   "drop=0.1;",      "drop=0.1:3ms",
                                 "delay=0.1:3", "delay=0.1:", "delay=0.1:-1ms", "drop=0.1x"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        assert_false(iw_fault_parse(&r, wrong[i]));
        assert_int_equal(r.drop, 10000);
    }
}

static void rates_are_kept_and_seeds_repeat(void **state)
{
    (void) state;
    enum { MANY = 100000 };
    const iw_fault_rates_t rates = {100000, 50000, 20000, 10000, 5000, 2000, 1000000};
    iw_fault_t a, b, c;
    unsigned same = 0;
    iw_fault_init(&a, &rates, 1);
    iw_fault_init(&b, &rates, 1);
    iw_fault_init(&c, &rates, 2);
    assert_true(iw_fault_active(&a));
    for (int i = 0; i < MANY; ++i) {
        size_t length = (size_t) i % 2000;
        iw_fate_t f = iw_fault_decide(&a, length), g = iw_fault_decide(&b, length);
        assert_int_equal(f.drop, g.drop);
        assert_int_equal(f.delay_ns, g.delay_ns);
        assert_int_equal(f.length, g.length);
        assert_true(f.length <= length);
        assert_true(!f.corrupt || f.flip < 8 * f.length);
        assert_true(f.delay_ns <= 1000000);
        same += f.drop == iw_fault_decide(&c, length).drop;
    }
    assert_true(same < MANY);
    assert_in_range(a.dropped, MANY / 10 * 9 / 10, MANY / 10 * 11 / 10);
    assert_in_range(a.duplicated, MANY / 20 * 8 / 10, MANY / 20 * 11 / 10);
    assert_in_range(a.corrupted, MANY / 200 * 7 / 10, MANY / 200 * 12 / 10);
    assert_in_range(a.truncated, MANY / 500 * 6 / 10, MANY / 500 * 13 / 10);
    const iw_fault_rates_t none = {.delay_ns = 5};
    iw_fault_init(&a, &none, 1);
    assert_false(iw_fault_active(&a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_understood),
        cmocka_unit_test(rates_are_kept_and_seeds_repeat),
    };
    return cmocka_run_group_tests_name("iw_fault", tests, NULL, NULL);
}
