/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Adaptation (core/spec_adapt.h) and the clock that it judges by (core/spec_clock.h). */
#include "spec_unit.h"

#include "spec_adapt.h"
#include "spec_clock.h"

enum { WINDOW = 16, STOP_BELOW = 80 };

static const spec_envelope_t env = {.ctx = 3, .peer = 5, .tag = 7};

static spec_adapt_t table(uint32_t entries)
{
    spec_adapt_t a;
    spec_adapt_init(&a, entries,
                    (spec_adapt_policy_t){.window = WINDOW,
                                          .stop_below = STOP_BELOW,
                                          .resume_at = spec_adapt_resume_at(STOP_BELOW)});
    return a;
}

static void sender_stops_when_the_share_is_out_of_reach(void **state)
{
    (void) state;
    spec_adapt_t a = table(64);
    /* 3 of 16 unused is 81 percent used: fine, for ever */
    for (int i = 0; i < 1000 * WINDOW; ++i) {
        assert_false(spec_adapt_out_settled(&a, env, i % WINDOW >= 3));
    }
    /* the fourth in a window is one too many, whatever follows */
    for (int i = 0; i < 3; ++i) {
        assert_false(spec_adapt_out_settled(&a, env, false));
    }
    assert_false(spec_adapt_out_say(&a, env, 1));
    assert_true(spec_adapt_out_settled(&a, env, false));
    assert_false(spec_adapt_is_stopped(&a, env));
    assert_true(spec_adapt_out_say(&a, env, 100));
    assert_true(spec_adapt_is_stopped(&a, env));
    assert_false(spec_adapt_out_say(&a, env, 101)); /* said once */
    spec_adapt_fini(&a);
}

static void sender_tells_old_rtrs_from_a_resume(void **state)
{
    (void) state;
    spec_adapt_t a = table(64);
    for (int i = 0; i < WINDOW; ++i) {
        (void) spec_adapt_out_settled(&a, env, false);
    }
    assert_true(spec_adapt_out_say(&a, env, UINT32_MAX)); /* numbers wrap */
    assert_false(spec_adapt_out_arrived(&a, env, UINT32_MAX - 5));
    assert_false(spec_adapt_out_arrived(&a, env, UINT32_MAX)); /* sent before it was processed */
    for (int i = 0; i < 10 * WINDOW; ++i) {
        assert_false(spec_adapt_out_settled(&a, env, false)); /* these say nothing new */
    }
    assert_true(spec_adapt_is_stopped(&a, env));
    assert_true(spec_adapt_out_arrived(&a, env, 0));
    assert_false(spec_adapt_is_stopped(&a, env));
    assert_false(spec_adapt_out_arrived(&a, env, 1));
    for (int i = 0; i < 3; ++i) {
        assert_false(spec_adapt_out_settled(&a, env, false));
    }
    assert_true(spec_adapt_out_settled(&a, env, false)); /* counting began anew */
    spec_adapt_fini(&a);
}

static void receiver_resumes_when_receives_would_be_in_time(void **state)
{
    (void) state;
    spec_adapt_t a = table(64);
    assert_true(spec_adapt_in_may(&a, env));
    assert_int_equal(spec_adapt_in_judge(&a, env, true), SPEC_ADAPT_GO_ON); /* nobody asked */
    assert_non_null(spec_adapt_in_stop(&a, env));
    assert_null(spec_adapt_in_stop(&a, env));
    assert_false(spec_adapt_in_may(&a, env));
    /* 2 of 16 late is 87 percent: enough to go on, not enough to begin again */
    for (int i = 0; i < WINDOW; ++i) {
        assert_int_equal(spec_adapt_in_judge(&a, env, i >= 2),
                         i + 1 < WINDOW ? SPEC_ADAPT_GO_ON : SPEC_ADAPT_WINDOW);
    }
    assert_false(spec_adapt_in_may(&a, env));
    for (int i = 0; i < WINDOW; ++i) {
        assert_int_equal(spec_adapt_in_judge(&a, env, i >= 1),
                         i + 1 < WINDOW ? SPEC_ADAPT_GO_ON : SPEC_ADAPT_RESUME);
    }
    assert_true(spec_adapt_in_may(&a, env));
    spec_adapt_fini(&a);
}

/* The worst case: observation always says yes, speculation never works. */
static void flapping_dies_down(void **state)
{
    (void) state;
    spec_adapt_t in = table(64), out = table(64);
    uint32_t rtrs = 0, stops = 0, seq = 0;
    const uint32_t messages = 200000;
    for (; seq < messages; ++seq) {
        if (spec_adapt_in_may(&in, env)) {
            ++rtrs;
            (void) spec_adapt_out_arrived(&out, env, seq);
            (void) spec_adapt_out_settled(&out, env, false);
        } else {
            (void) spec_adapt_in_judge(&in, env, true);
        }
        if (spec_adapt_out_say(&out, env, seq)) {
            stops += NULL != spec_adapt_in_stop(&in, env);
        }
    }
    /* each round costs 4 RTRs and, in the end, 16 << 6 messages of silence */
    assert_true(stops >= 10);
    assert_true(stops < messages / (WINDOW << SPEC_ADAPT_BACKOFF_MAX) + 20);
    assert_true(rtrs * 100 < messages);
    assert_int_equal(spec_adapt_find(&in, env)->backoff, SPEC_ADAPT_BACKOFF_MAX);

    /* A resume that lasts is trusted again. */
    while (!spec_adapt_in_may(&in, env)) {
        (void) spec_adapt_in_judge(&in, env, true);
    }
    for (uint32_t i = 0; i < SPEC_ADAPT_LASTING * WINDOW; ++i) {
        assert_true(spec_adapt_in_may(&in, env));
    }
    assert_non_null(spec_adapt_in_stop(&in, env));
    assert_int_equal(spec_adapt_find(&in, env)->backoff, 0);
    spec_adapt_fini(&in);
    spec_adapt_fini(&out);
}

static void limits_of_the_policy(void **state)
{
    (void) state;
    spec_adapt_t a;
    spec_adapt_init(&a, 4, (spec_adapt_policy_t){.window = 1, .stop_below = 0, .resume_at = 50});
    for (int i = 0; i < 1000; ++i) {
        assert_false(spec_adapt_out_settled(&a, env, false)); /* 0 percent: never stops */
    }
    spec_adapt_fini(&a);
    spec_adapt_init(&a, 4, (spec_adapt_policy_t){.window = 8, .stop_below = 100, .resume_at = 100});
    for (int i = 0; i < 1000; ++i) {
        assert_false(spec_adapt_out_settled(&a, env, true));
    }
    assert_true(spec_adapt_out_settled(&a, env, false)); /* 100 percent: the first one */
    spec_adapt_fini(&a);
}

static void table_is_bounded_and_forgets_the_cheap_ones(void **state)
{
    (void) state;
    spec_adapt_t a = table(30); /* becomes 32 */
    rng_t rng = {.state = 1};
    assert_null(a.entry); /* nothing before the first */
    assert_false(spec_adapt_is_stopped(&a, env));
    assert_non_null(spec_adapt_in_stop(&a, env));
    for (int i = 0; i < 100000; ++i) {
        spec_envelope_t other = {.ctx = rng_below(&rng, 5),
                                 .peer = (int32_t) rng_below(&rng, 100),
                                 .tag = (int32_t) rng_next(&rng)};
        (void) spec_adapt_out_settled(&a, other, true);
        assert_true(a.n <= 32);
    }
    assert_int_equal(a.n, 32);
    assert_true(spec_adapt_is_stopped(&a, env)); /* 100000 OPEN ones did not push it out */
    for (int i = 0; i < 10000; ++i) {
        spec_envelope_t other = {.ctx = 9, .peer = i, .tag = (int32_t) rng_next(&rng)};
        (void) spec_adapt_in_stop(&a, other);
    }
    assert_false(spec_adapt_is_stopped(&a, env)); /* others that are stopped did: it was the oldest */
    assert_int_equal(a.n, 32);
    spec_adapt_fini(&a);
}

static void envelopes_do_not_share_entries(void **state)
{
    (void) state;
    spec_adapt_t a = table(4096);
    for (int ctx = 0; ctx < 4; ++ctx) {
        for (int peer = 0; peer < 8; ++peer) {
            for (int tag = 0; tag < 8; ++tag) {
                spec_adapt_entry_t *e = spec_adapt_open(
                    &a, (spec_envelope_t){.ctx = (uint32_t) ctx, .peer = peer, .tag = tag});
                assert_non_null(e);
                e->cookie = (uint64_t) (ctx * 64 + peer * 8 + tag);
            }
        }
    }
    assert_int_equal(a.n, 4 * 8 * 8);
    for (int i = 0; i < 256; ++i) {
        spec_adapt_entry_t *e = spec_adapt_find(
            &a, (spec_envelope_t){.ctx = (uint32_t) i / 64, .peer = i / 8 % 8, .tag = i % 8});
        assert_non_null(e);
        assert_int_equal(e->cookie, i);
    }
    spec_adapt_fini(&a);

    a = table(SPEC_ADAPT_WAYS); /* one set: nothing but the comparison tells them apart */
    assert_non_null(spec_adapt_in_stop(&a, env));
    assert_false(spec_adapt_is_stopped(&a, (spec_envelope_t){env.ctx + 1, env.peer, env.tag}));
    assert_false(spec_adapt_is_stopped(&a, (spec_envelope_t){env.ctx, env.peer + 1, env.tag}));
    assert_false(spec_adapt_is_stopped(&a, (spec_envelope_t){env.ctx, env.peer, env.tag + 1}));
    spec_adapt_fini(&a);
}

/* What is remembered outside of the table holds until any state changes or an entry is forgotten. */
static void memos_do_not_outlive_a_change(void **state)
{
    (void) state;
    spec_adapt_t a = table(1);
    spec_adapt_memo_t memo = {0};
    assert_false(spec_adapt_recalls(&a, &memo, 0)); /* a new memo knows nothing */
    assert_non_null(spec_adapt_in_stop(&a, env));
    spec_adapt_note(&a, &memo, env.tag);
    assert_true(spec_adapt_recalls(&a, &memo, env.tag));
    assert_false(spec_adapt_recalls(&a, &memo, env.tag + 1));
    for (int i = 0; i < WINDOW; ++i) {
        assert_true(spec_adapt_recalls(&a, &memo, env.tag)); /* judging is no change */
        (void) spec_adapt_in_judge(&a, env, true);
    }
    assert_false(spec_adapt_recalls(&a, &memo, env.tag)); /* resumed */

    assert_non_null(spec_adapt_in_stop(&a, env));
    spec_envelope_t other = env;
    for (uint32_t i = 1; i < SPEC_ADAPT_WAYS; ++i) {
        ++other.tag;
        spec_adapt_out_preset(&a, other);
    }
    spec_adapt_note(&a, &memo, env.tag);
    assert_true(spec_adapt_recalls(&a, &memo, env.tag));
    ++other.tag;
    (void) spec_adapt_open(&a, other); /* takes the place of env */
    assert_null(spec_adapt_find(&a, env));
    assert_false(spec_adapt_recalls(&a, &memo, env.tag)); /* forgotten */
    spec_adapt_fini(&a);
}

/* One message in four, whatever regular share of the messages an envelope has; long ones all. */
static void samples_meet_every_pattern(void **state)
{
    (void) state;
    for (uint32_t stride = 1; stride <= 64; ++stride) {
        uint32_t seen = 0;
        for (uint32_t i = 0; i < 4000; ++i) {
            seen += spec_adapt_samples(UINT32_MAX - 1000 + i * stride, SPEC_ADAPT_LONG - 1);
            assert_true(spec_adapt_samples(i * stride, SPEC_ADAPT_LONG));
        }
        assert_in_range(seen, 900, 1100);
    }
}

static void clock_keeps_the_quickest_answer(void **state)
{
    (void) state;
    spec_clock_t c = {0};
    const uint64_t shift = 5000000; /* their clock is ahead of mine by this */
    assert_false(spec_clock_is_known(&c));
    assert_false(spec_clock_answer(&c, 0, 1, 2)); /* nobody asked */
    assert_true(spec_clock_ask(&c, 1000));
    assert_false(spec_clock_ask(&c, 1500)); /* one question at a time */
    assert_false(spec_clock_answer(&c, 999, 1, 2000));
    assert_false(spec_clock_answer(&c, 1000, 1, 999)); /* before it was asked */
    assert_true(spec_clock_answer(&c, 1000, 1000 + 9000 + shift, 1000 + 10000)); /* was busy */
    assert_int_equal(spec_clock_one_way(&c), 5000);
    assert_true(spec_clock_ask(&c, 20000));
    assert_true(spec_clock_answer(&c, 20000, 20000 + 200 + shift, 20000 + 400));
    assert_int_equal(spec_clock_one_way(&c), 200);
    assert_int_equal(c.offset, shift);
    assert_int_equal(spec_clock_arrival(&c, 50000), 50000 + 200 + shift);
    assert_true(spec_clock_ask(&c, 30000));
    assert_true(spec_clock_answer(&c, 30000, 30000 + 4000 + shift, 30000 + 8000)); /* worse */
    assert_int_equal(spec_clock_one_way(&c), 200);
    uint64_t later = 30000 + SPEC_CLOCK_FRESH;
    assert_true(spec_clock_ask(&c, later));
    assert_true(spec_clock_answer(&c, later, later + 300, later + 600)); /* worse, but fresh */
    assert_int_equal(spec_clock_one_way(&c), 300);
    assert_int_equal(c.offset, 0);
    assert_true(spec_clock_ask(&c, later + 1000));
    const uint64_t again = later + 1000 + SPEC_CLOCK_PATIENCE;
    assert_true(spec_clock_ask(&c, again));                             /* given up */
    assert_true(spec_clock_answer(&c, later + 1000, later, again + 1)); /* and answered after all */
    assert_false(spec_clock_answer(&c, later + 1000, later, again + 2)); /* but once */
    assert_int_equal(spec_clock_one_way(&c), 300);
    assert_int_equal(c.offset, 0);
    assert_false(spec_clock_ask(&c, again + 3)); /* the second is still open */
    assert_true(spec_clock_answer(&c, again, again + 100, again + 200));
    assert_int_equal(spec_clock_one_way(&c), 100);
    assert_false(spec_clock_answer(&c, again, again + 100, again + 200));
}

static void stamps_compare_across_the_wrap(void **state)
{
    (void) state;
    const uint64_t unit = UINT64_C(1) << SPEC_STAMP_SHIFT, wrap = unit << 32;
    assert_int_equal(spec_stamp(0), 1); /* 0 means none */
    assert_true(spec_stamp_after(spec_stamp(10 * unit), spec_stamp(9 * unit)));
    assert_false(spec_stamp_after(spec_stamp(9 * unit), spec_stamp(9 * unit)));
    assert_true(spec_stamp_after(spec_stamp(wrap + unit), spec_stamp(wrap - 2 * unit)));
    assert_false(spec_stamp_after(spec_stamp(wrap - 2 * unit), spec_stamp(wrap + unit)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sender_stops_when_the_share_is_out_of_reach),
        cmocka_unit_test(sender_tells_old_rtrs_from_a_resume),
        cmocka_unit_test(receiver_resumes_when_receives_would_be_in_time),
        cmocka_unit_test(flapping_dies_down),
        cmocka_unit_test(limits_of_the_policy),
        cmocka_unit_test(table_is_bounded_and_forgets_the_cheap_ones),
        cmocka_unit_test(envelopes_do_not_share_entries),
        cmocka_unit_test(memos_do_not_outlive_a_change),
        cmocka_unit_test(samples_meet_every_pattern),
        cmocka_unit_test(clock_keeps_the_quickest_answer),
        cmocka_unit_test(stamps_compare_across_the_wrap),
    };
    return cmocka_run_group_tests_name("spec_adapt", tests, NULL, NULL);
}
