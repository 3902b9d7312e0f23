/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Serial numbers (core/spec_seq.h). */
#include "spec_unit.h"

#include "spec_seq.h"

static const uint32_t places[] = {0,          1,          2,          255,
                                  256,        0x7ffffffe, 0x7fffffff, 0x80000000,
                                  0x80000001, 0xfffffffe, 0xffffffff, 0x12345678};

#define PLACES (sizeof(places) / sizeof(places[0]))

static void differs_by_the_distance_walked(void **state)
{
    (void) state;
    for (size_t i = 0; i < PLACES; ++i) {
        for (int32_t d = -70000; d <= 70000; ++d) {
            uint32_t there = places[i] + (uint32_t) d;
            assert_int_equal(spec_seq_diff(there, places[i]), d);
            assert_int_equal(spec_seq_before(there, places[i]), d < 0);
            assert_int_equal(spec_seq_before(places[i], there), d > 0);
        }
    }
}

static void holds_up_to_half_of_the_circle(void **state)
{
    (void) state;
    for (size_t i = 0; i < PLACES; ++i) {
        uint32_t far = places[i] + 0x7fffffff;
        assert_true(spec_seq_before(places[i], far));
        assert_false(spec_seq_before(far, places[i]));
        assert_int_equal(spec_seq_diff(far, places[i]), INT32_MAX);
        assert_int_equal(spec_seq_diff(places[i], far), -INT32_MAX);
    }
}

static void goes_on_at_the_wrap(void **state)
{
    (void) state;
    assert_true(spec_seq_before(0xffffffff, 0));
    assert_false(spec_seq_before(0, 0xffffffff));
    assert_int_equal(spec_seq_diff(0, 0xffffffff), 1);
    assert_int_equal(spec_seq_diff(5, 0xfffffffb), 10);
    assert_false(spec_seq_before(7, 7));
    assert_int_equal(spec_seq_diff(7, 7), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differs_by_the_distance_walked),
        cmocka_unit_test(holds_up_to_half_of_the_circle),
        cmocka_unit_test(goes_on_at_the_wrap),
    };
    return cmocka_run_group_tests_name("spec_seq", tests, NULL, NULL);
}
