/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Break-even counts (freq_rule.h). */
#include "spec_unit.h"

#include <math.h>

#include "freq_rule.h"

static void classes_cover_the_sizes(void **state)
{
    (void) state;
    for (size_t size = 0; size < FREQ_SIZE_MIN; ++size) {
        assert_int_equal(freq_class_of(size), FREQ_CLASSES);
    }
    uint32_t before = 0;
    for (size_t size = FREQ_SIZE_MIN; size <= FREQ_SIZE_MAX; ++size) {
        const uint32_t class = freq_class_of(size);
        assert_in_range(class, before, FREQ_CLASSES - 1);
        assert_in_range(class, 0, before + 1);
        assert_in_range(freq_class_size(class), 1, size);
        if (class + 1 < FREQ_CLASSES) {
            assert_true(freq_class_size(class + 1) > size);
        }
        before = class;
    }
    assert_int_equal(before, FREQ_CLASSES - 1);
    assert_int_equal(freq_class_of(FREQ_SIZE_MAX + 1), FREQ_CLASSES);
    assert_int_equal(freq_class_of(SIZE_MAX), FREQ_CLASSES);
}

static void inequality_5_3(void **state)
{
    (void) state;
    rng_t rng = {1};
    for (int round = 0; round < 100000; ++round) {
        const double r = rng_below(&rng, 100000), c = rng_below(&rng, 2000),
                     v = rng_below(&rng, 500);
        const uint32_t n = freq_break_even(r, c - v);
        if (c <= v) {
            assert_int_equal(n, FREQ_NEVER); /* the thesis: n is negative, the method is disabled */
            continue;
        }
        assert_true(n * c > n * v + r);              /* T_n < T_c */
        assert_true((n - 1) * c <= (n - 1) * v + r); /* and not before */
    }
    assert_int_equal(freq_break_even(1e12, 9), FREQ_NEVER);
    assert_int_equal(freq_break_even(100, NAN), FREQ_NEVER);
    assert_int_equal(freq_break_even(NAN, 9), FREQ_NEVER);
}

static void between_the_points_on_a_line(void **state)
{
    (void) state;
    double points[FREQ_POINTS];
    for (int i = 0; i < FREQ_POINTS; ++i) {
        points[i] = 3.0 * (128 << i) + 7;
    }
    for (size_t size = 1; size < 70000; ++size) {
        const size_t within = size < 128 ? 128 : size > 65536 ? 65536 : size;
        assert_true(fabs(freq_cost_at(points, size) - (3.0 * (double) within + 7)) < 1e-6);
    }
}

/* Sending in place pays where a copy costs more than all it costs, by FREQ_MARGIN percent of the copy. */
static void what_sending_in_place_gains(void **state)
{
    (void) state;
    rng_t rng = {2};
    for (int round = 0; round < 100000; ++round) {
        freq_costs_t costs = {.v = rng_below(&rng, 400)};
        for (int i = 0; i < FREQ_POINTS; ++i) {
            costs.c[i] = rng_below(&rng, 1000);
        }
        const size_t size = 100 + rng_below(&rng, 70000);
        const double c = freq_cost_at(costs.c, size), rest = c - costs.v;
        if (fabs(rest - c / 4) < 1e-6) {
            continue; /* either way */
        }
        assert_true(freq_gain_at(&costs, size) == (rest > c / 4 ? rest : 0));
    }
}

static void share_of_n(void **state)
{
    (void) state;
    freq_costs_t costs = {.v = 20};
    for (int i = 0; i < FREQ_POINTS; ++i) {
        costs.r[i] = 1000;
        costs.c[i] = 10 << i; /* 128 bytes: 10 ns, less than V */
    }
    static const uint32_t shares[] = {0, 1, 25, 50, 100};
    for (uint32_t s = 0; s < sizeof(shares) / sizeof(*shares); ++s) {
        freq_rule_t rule;
        freq_rule_make(&rule, &costs, shares[s]);
        for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
            const double c = freq_cost_at(costs.c, freq_class_size(class));
            if (c - 20 <= c / 4) {
                assert_int_equal(rule.n[class], FREQ_NEVER);
                assert_int_equal(rule.after[class], FREQ_NEVER);
                continue;
            }
            assert_int_equal(rule.n[class], freq_break_even(1000, c - 20));
            const double exact = rule.n[class] * (double) shares[s] / 100;
            assert_true(rule.after[class] >= 1 && rule.after[class] >= exact);
            assert_true(rule.after[class] < exact + 1 || 1 == rule.after[class]);
        }
    }
    freq_rule_t rule;
    /* More than n can be asked for, more than can be counted cannot. */
    costs.r[FREQ_POINTS - 1] = 9e8;
    costs.c[FREQ_POINTS - 1] = 28;
    freq_rule_make(&rule, &costs, 200);
    assert_int_equal(rule.n[FREQ_CLASSES - 1], freq_break_even(9e8, 8));
    assert_int_equal(rule.after[FREQ_CLASSES - 1], 2 * rule.n[FREQ_CLASSES - 1]);
    freq_rule_make(&rule, &costs, 10000);
    assert_int_equal(rule.after[FREQ_CLASSES - 1], UINT32_MAX);

    freq_rule_fixed(&rule, 3);
    assert_int_equal(rule.after[0], 3);
    assert_int_equal(rule.after[FREQ_CLASSES - 1], 3);
}

static void costs_from_elsewhere(void **state)
{
    (void) state;
    freq_costs_t costs = {.v = 1};
    assert_true(freq_costs_are_sane(&costs));
    costs.c[3] = NAN;
    assert_false(freq_costs_are_sane(&costs));
    costs.c[3] = -1;
    assert_false(freq_costs_are_sane(&costs));
    costs.c[3] = 0;
    costs.r[9] = INFINITY;
    assert_false(freq_costs_are_sane(&costs));
    costs.r[9] = 2e9;
    assert_false(freq_costs_are_sane(&costs));
    costs.r[9] = 0;
    costs.v = NAN;
    assert_false(freq_costs_are_sane(&costs));
    costs.v = 1;
    assert_true(freq_costs_are_sane(&costs));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_cover_the_sizes),
        cmocka_unit_test(inequality_5_3),
        cmocka_unit_test(between_the_points_on_a_line),
        cmocka_unit_test(what_sending_in_place_gains),
        cmocka_unit_test(share_of_n),
        cmocka_unit_test(costs_from_elsewhere),
    };
    return cmocka_run_group_tests_name("freq_rule", tests, NULL, NULL);
}
