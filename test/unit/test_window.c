/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The adaptive receive window (ibx_window.h). */
#include "spec_unit.h"

#include "ibx_window.h"

/* The paper's section 3: min(2^nlimit * initial, max), limit half of it. */
static void grows_by_the_rule(void **state)
{
    (void) state;
    ibx_window_t w;
    ibx_window_init(&w, IBX_WINDOW_INITIAL, IBX_WINDOW_MAX, 0, 0);
    for (uint32_t n = 0; n < 20; ++n) {
        uint32_t expected = n < 9 ? 8u << n : 4096;
        assert_int_equal(w.current, expected);
        assert_int_equal(ibx_window_limit(&w), expected / 2);
        assert_int_equal(ibx_window_bytes(&w, 2048), expected * 2048);
        assert_int_equal(ibx_window_limit_reached(&w, n), expected < 2048 ? 2 * expected : 4096);
    }
    assert_int_equal(w.grown, 9);
    ibx_window_init(&w, 3, 10, 0, 0); /* not powers of two */
    assert_int_equal(ibx_window_limit_reached(&w, 0), 6);
    assert_int_equal(ibx_window_limit_reached(&w, 0), 10);
    assert_int_equal(w.most, 10);
}

static ibx_window_t grown_to_256(uint64_t now)
{
    ibx_window_t w;
    ibx_window_init(&w, 8, 4096, 1000, 0);
    for (int i = 0; i < 5; ++i) {
        ibx_window_limit_reached(&w, now);
    }
    assert_int_equal(w.current, 256);
    return w;
}

static void shrinks_after_a_quiet_time(void **state)
{
    (void) state;
    ibx_window_t w = grown_to_256(100);
    assert_int_equal(ibx_window_check(&w, 250, 1099), 256);
    assert_int_equal(ibx_window_check(&w, 250, 1100), 128); /* not by more than half */
    assert_int_equal(ibx_window_check(&w, 128, 2099), 128); /* the time begins anew */
    assert_int_equal(ibx_window_check(&w, 128, 2100), 64);
    uint64_t now = 2100;
    for (int i = 0; i < 10; ++i) {
        ibx_window_check(&w, w.current, now += 1000);
    }
    assert_int_equal(w.current, 8); /* not below the first */
    assert_int_equal(ibx_window_check_at(&w), UINT64_MAX);
    assert_int_equal(w.most, 256);
    assert_int_equal(w.shrunk, 5);
    ibx_window_init(&w, 8, 4096, 0, 0); /* as in the paper: never */
    ibx_window_limit_reached(&w, 0);
    assert_int_equal(ibx_window_check(&w, 16, UINT64_MAX), 16);
}

/* To what was in use at a time, an eighth more, and with a limit in what nobody used. */
static void fits_what_was_used(void **state)
{
    (void) state;
    ibx_window_t w = grown_to_256(0);
    assert_int_equal(ibx_window_check(&w, 256 - 160, 500),
                     256); /* the most counts, whenever it was */
    assert_int_equal(ibx_window_check(&w, 256, 1000), 180);
    assert_int_equal(ibx_window_limit(&w), 10);
    assert_int_equal(ibx_window_check_at(&w), 2000);
    assert_int_equal(ibx_window_check(&w, 20, 2000), 180); /* again as many: all as it was */
    assert_int_equal(ibx_window_limit(&w), 10);
    assert_int_equal(w.shrunk, 1);
    assert_int_equal(ibx_window_limit_reached(&w, 2500), 360); /* more: the rule of the paper */
    assert_int_equal(ibx_window_limit(&w), 180);
    assert_int_equal(ibx_window_check(&w, 360 - 170, 3499), 360); /* a period since then */
    assert_int_equal(ibx_window_check(&w, 360, 3500), 191);
    assert_int_equal(ibx_window_check(&w, 0, 4500), 191); /* all in use */
    assert_int_equal(ibx_window_limit(&w), 1);
    assert_int_equal(w.shrunk, 2);
}

/* A window that shrank is not grown again by the load it shrank under. */
static void does_not_flap(void **state)
{
    (void) state;
    for (uint32_t in_use = 0; in_use < 200; ++in_use) {
        ibx_window_t w;
        ibx_window_init(&w, 8, 4096, 10, 0);
        uint64_t grown = 0;
        for (uint64_t now = 0; now < 1000; ++now) {
            uint32_t left = w.current > in_use ? w.current - in_use : 0;
            if (left < ibx_window_limit(&w)) {
                ibx_window_limit_reached(&w, now);
            }
            ibx_window_check(&w, left, now);
            if (500 == now) {
                grown = w.grown;
            }
        }
        assert_int_equal(w.grown, grown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_by_the_rule),
        cmocka_unit_test(shrinks_after_a_quiet_time),
        cmocka_unit_test(fits_what_was_used),
        cmocka_unit_test(does_not_flap),
    };
    return cmocka_run_group_tests_name("ibx_window", tests, NULL, NULL);
}
