/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The benchmarks' arithmetic (test/bench/overlap_math.h) on made-up timings with a known answer. */
#include "spec_unit.h"

#include "../bench/overlap_math.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-12)

/* Time of both when a share of the transfer happens during the computation. */
static double total_of(double comm, double compute, double share)
{
    return compute + (1.0 - share) * comm;
}

static void gives_back_the_share_that_was_hidden(void **state)
{
    (void) state;
    static const double comms[] = {0.5, 12.0, 600.0}, factors[] = {1.0, 1.5, 2.0, 10.0};
    for (size_t i = 0; i < sizeof(comms) / sizeof(comms[0]); ++i) {
        for (size_t j = 0; j < sizeof(factors) / sizeof(factors[0]); ++j) {
            for (int percent = 0; percent <= 100; percent += 5) {
                double compute = comms[i] * factors[j], share = percent / 100.0;
                NEAR(overlap_ratio(comms[i], compute, total_of(comms[i], compute, share)), share);
            }
        }
    }
}

static void is_one_when_the_computation_is_all(void **state)
{
    (void) state;
    NEAR(overlap_ratio(100.0, 200.0, 200.0), 1.0);
}

static void is_nothing_when_the_times_add_up(void **state)
{
    (void) state;
    NEAR(overlap_ratio(100.0, 200.0, 300.0), 0.0);
}

static void tells_noise_as_it_is_and_shows_it_within_bounds(void **state)
{
    (void) state;
    NEAR(overlap_ratio(100.0, 200.0, 310.0), -0.1);
    NEAR(overlap_ratio(100.0, 200.0, 190.0), 1.1);
    NEAR(overlap_shown(-0.1), 0.0);
    NEAR(overlap_shown(1.1), 1.0);
    NEAR(overlap_shown(0.0), 0.0);
    NEAR(overlap_shown(1.0), 1.0);
    NEAR(overlap_shown(0.37), 0.37);
}

static void does_not_depend_on_the_unit(void **state)
{
    (void) state;
    NEAR(overlap_ratio(40.0, 80.0, 90.0), overlap_ratio(0.04, 0.08, 0.09));
}

static void too_little_computation_hides_at_most_itself(void **state)
{
    (void) state;
    /* Everything hidden that can be: the transfer goes on for the rest of its time. */
    NEAR(overlap_ratio(100.0, 25.0, 100.0), 0.25);
}

static void has_no_answer_without_a_transfer(void **state)
{
    (void) state;
    assert_true(isnan(overlap_ratio(0.0, 10.0, 10.0)));
    assert_true(isnan(overlap_ratio(-1.0, 10.0, 10.0)));
    assert_true(isnan(overlap_ratio(NAN, 10.0, 10.0)));
    assert_true(isnan(overlap_shown(NAN)));
}

static void a_message_that_arrives_by_itself_is_independent_of_the_delay(void **state)
{
    (void) state;
    NEAR(progress_independent(150.0, 800.0, 150.0), 1.0);
    NEAR(progress_left(150.0, 800.0, 150.0), 0.0);
}

static void a_message_that_waits_for_the_wait_is_shifted_by_the_delay(void **state)
{
    (void) state;
    NEAR(progress_independent(150.0, 800.0, 950.0), 0.0);
    NEAR(progress_left(150.0, 800.0, 950.0), 1.0);
}

static void what_was_done_during_the_delay_is_not_left(void **state)
{
    (void) state;
    /* Section 4.4.1 of the thesis: the latency looks shifted by the delay, but only 10 % of the work comes after it. */
    NEAR(progress_left(100.0, 400.0, 410.0), 0.1);
    NEAR(progress_independent(100.0, 400.0, 410.0), 1.0 - 310.0 / 400.0);
    /* A short delay leaves the rest of the transfer. */
    NEAR(progress_left(100.0, 25.0, 100.0), 0.75);
}

static void progress_has_no_answer_without_delay_or_latency(void **state)
{
    (void) state;
    assert_true(isnan(progress_independent(100.0, 0.0, 100.0)));
    assert_true(isnan(progress_left(0.0, 10.0, 20.0)));
    assert_true(isnan(progress_left(NAN, 10.0, 20.0)));
}

static void usage_is_of_the_rtrs_that_arrived(void **state)
{
    (void) state;
    NEAR(rtr_usage(200.0, 150.0), 0.75);
    NEAR(rtr_usage(10.0, 0.0), 0.0);
    NEAR(rtr_usage(10.0, 10.0), 1.0);
    assert_true(isnan(rtr_usage(0.0, 0.0)));
}

static void speculation_costs_dropped_rtrs_and_acknowledged_ones(void **state)
{
    (void) state;
    NEAR(speculation_bytes(0.0, 0.0), 0.0);
    NEAR(speculation_bytes(3.0, 0.0), 3.0 * 64);
    NEAR(speculation_bytes(3.0, 3.0), 3.0 * 40);
    NEAR(speculation_bytes(5.0, 3.0), 2.0 * 64 + 3.0 * 40);
}

static void computation_follows_from_the_ratio(void **state)
{
    (void) state;
    NEAR(exchange_compute(60.0, 100.0), 60.0);
    NEAR(exchange_compute(60.0, 20.0), 300.0);
    NEAR(exchange_compute(60.0, 200.0), 30.0);
    NEAR(exchange_compute(60.0, 0.0), 0.0);
}

static void finds_the_median_of_odd_and_even_numbers(void **state)
{
    (void) state;
    double one[] = {7.0}, two[] = {4.0, 1.0}, odd[] = {9.0, -3.0, 5.0}, even[] = {8.0, 2.0, 4.0, 100.0};
    NEAR(stat_median(one, 1), 7.0);
    NEAR(stat_median(two, 2), 2.5);
    NEAR(stat_median(odd, 3), 5.0);
    NEAR(stat_median(even, 4), 6.0);
    assert_true(isnan(stat_median(one, 0)));
}

static void one_outlier_does_not_move_the_median(void **state)
{
    (void) state;
    double values[101];
    for (size_t i = 0; i < 101; ++i) {
        values[i] = 10.0;
    }
    values[17] = 1e9;
    NEAR(stat_median(values, 101), 10.0);
}

static void finds_quantiles_between_neighbours_and_sorts(void **state)
{
    (void) state;
    double values[] = {40.0, 10.0, 30.0, 20.0, 50.0};
    NEAR(stat_quantile(values, 5, 0.0), 10.0);
    NEAR(stat_quantile(values, 5, 0.25), 20.0);
    NEAR(stat_quantile(values, 5, 0.75), 40.0);
    NEAR(stat_quantile(values, 5, 0.1), 14.0);
    NEAR(stat_quantile(values, 5, 1.0), 50.0);
    for (size_t i = 0; i + 1 < 5; ++i) {
        assert_true(values[i] < values[i + 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_the_share_that_was_hidden),
        cmocka_unit_test(is_one_when_the_computation_is_all),
        cmocka_unit_test(is_nothing_when_the_times_add_up),
        cmocka_unit_test(tells_noise_as_it_is_and_shows_it_within_bounds),
        cmocka_unit_test(does_not_depend_on_the_unit),
        cmocka_unit_test(too_little_computation_hides_at_most_itself),
        cmocka_unit_test(has_no_answer_without_a_transfer),
        cmocka_unit_test(a_message_that_arrives_by_itself_is_independent_of_the_delay),
        cmocka_unit_test(a_message_that_waits_for_the_wait_is_shifted_by_the_delay),
        cmocka_unit_test(what_was_done_during_the_delay_is_not_left),
        cmocka_unit_test(progress_has_no_answer_without_delay_or_latency),
        cmocka_unit_test(usage_is_of_the_rtrs_that_arrived),
        cmocka_unit_test(speculation_costs_dropped_rtrs_and_acknowledged_ones),
        cmocka_unit_test(computation_follows_from_the_ratio),
        cmocka_unit_test(finds_the_median_of_odd_and_even_numbers),
        cmocka_unit_test(one_outlier_does_not_move_the_median),
        cmocka_unit_test(finds_quantiles_between_neighbours_and_sorts),
    };
    return cmocka_run_group_tests_name("overlap_math", tests, NULL, NULL);
}
