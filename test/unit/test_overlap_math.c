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

static void efficiency_is_that_of_table_3(void **state)
{
    (void) state;
    /* 004, table 3: busy, msg, both (ms) and the efficiency printed there, with three digits. */
    static const double rows[][4] = {
        {0.965, 0.490, 1.170, 0.581}, {0.965, 0.572, 1.512, 0.043},  {1.931, 1.300, 2.132, 0.845},
        {1.931, 1.895, 3.856, -0.015}, {1.000, 0.738, 1.047, 0.936}, {1.000, 0.567, 1.551, 0.028},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        assert_true(fabs(overlap_efficiency(rows[i][0], rows[i][1], rows[i][2]) - rows[i][3]) < 0.0011);
        NEAR(overlap_efficiency(rows[i][0], rows[i][1], rows[i][2]), overlap_ratio(rows[i][1], rows[i][0], rows[i][2]));
    }
    assert_true(isnan(overlap_efficiency(1.0, 0.0, 1.0)));
}

static void a_round_trip_has_two_halves(void **state)
{
    (void) state;
    NEAR(us_per_half_trip(600.0, 100.0), 3.0);
    NEAR(mb_per_s(1048576.0, 200.0), 5242.88);
    assert_true(isnan(mb_per_s(1.0, 0.0)));
    /* Eight pairs that do not disturb each other: an eighth each. Eight that wait for each other: as one alone. */
    NEAR(latency_per_connection(4.0, 8.0), 0.5);
    NEAR(latency_per_connection(8.0 * 4.0, 8.0), 4.0);
    assert_true(isnan(latency_per_connection(1.0, 0.0)));
}

static void is_messages_have_the_sizes_of_table_4(void **state)
{
    (void) state;
    assert_int_equal(is_message_bytes(20, 4), 256 * 1024);      /* class W */
    assert_int_equal(is_message_bytes(23, 4), 2 * 1024 * 1024); /* class A */
    for (size_t p = 2; p <= 8; p += 2) {
        for (size_t from = 0; from < p; ++from) {
            size_t sum = 0, least = SIZE_MAX;
            for (size_t to = 0; to < p; ++to) {
                size_t bytes = is_uneven_bytes(262144, from, to, p, 10);
                assert_int_equal(bytes % 4, 0);
                assert_true(bytes <= 262144 + 26215 && bytes >= 262144 - 26219);
                least = bytes < least ? bytes : least;
                sum += bytes;
            }
            assert_true(least < 262144 - 26200);
            assert_true(sum + 8 * p >= p * 262144 && sum <= p * 262144);
        }
    }
    assert_int_equal(is_uneven_bytes(262144, 1, 2, 3, 10), 262144); /* an odd number cannot be balanced so */
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
        cmocka_unit_test(efficiency_is_that_of_table_3),
        cmocka_unit_test(a_round_trip_has_two_halves),
        cmocka_unit_test(is_messages_have_the_sizes_of_table_4),
        cmocka_unit_test(finds_the_median_of_odd_and_even_numbers),
        cmocka_unit_test(one_outlier_does_not_move_the_median),
        cmocka_unit_test(finds_quantiles_between_neighbours_and_sorts),
    };
    return cmocka_run_group_tests_name("overlap_math", tests, NULL, NULL);
}
