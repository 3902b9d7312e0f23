/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* core/spec_patience.h: how long a send polls for the RTR that may be on its way. */
#include "spec_patience.h"
#include "spec_unit.h"

#define MIB (UINT64_C(1) << 20)
#define MS  UINT64_C(1000000)
/* What 1 MiB takes at 100 Mbit/s, with what goes with it. */
#define LONG (88 * MS)

static spec_patience_t new_patience(void)
{
    spec_patience_t p = {0};
    spec_patience_moved(&p, MIB, LONG);
    return p;
}

static void nobody_waits_before_an_rtr_has_crossed(void **state)
{
    (void) state;
    spec_patience_t p = new_patience();
    assert_int_equal(spec_patience_of(&p), 0);
    spec_patience_crossed(&p, MIB);
    assert_int_equal(spec_patience_of(&p), SPEC_PATIENCE_FIRST_NS);
}

/* Copies by this processor are never reported as moved. */
static void nobody_waits_where_nothing_moves_by_itself(void **state)
{
    (void) state;
    spec_patience_t p = {0};
    for (int i = 0; i < 1000; ++i) {
        spec_patience_crossed(&p, MIB);
        assert_int_equal(spec_patience_of(&p), 0);
    }
}

/* Waits in vain that are followed by a crossing were too short; others were one too many. */
static void the_wait_follows_the_crossings(void **state)
{
    (void) state;
    spec_patience_t p = new_patience();
    spec_patience_crossed(&p, MIB);
    spec_patience_crossed(&p, MIB); /* of another message, without a wait between */
    p.balance = SPEC_PATIENCE_MOST_NS;
    assert_int_equal(spec_patience_of(&p), SPEC_PATIENCE_FIRST_NS);
    for (uint32_t ns = 2 * SPEC_PATIENCE_FIRST_NS; ns <= SPEC_PATIENCE_MOST_NS; ns *= 2) {
        spec_patience_waited(&p, MIB, 0, false);
        spec_patience_crossed(&p, MIB);
        p.balance = SPEC_PATIENCE_MOST_NS;
        assert_int_equal(spec_patience_of(&p), ns);
    }
    for (int i = 0; i < 3; ++i) {
        spec_patience_waited(&p, MIB, 0, false);
        spec_patience_crossed(&p, MIB);
    }
    p.balance = UINT32_MAX;
    uint32_t before = spec_patience_of(&p);
    assert_int_equal(before, SPEC_PATIENCE_MOST_NS);
    spec_patience_waited(&p, MIB, 0, true);
    p.balance = UINT32_MAX;
    assert_int_equal(spec_patience_of(&p), before); /* it was of use */
    for (; before >= 2 * SPEC_PATIENCE_LEAST_NS; before /= 2) {
        spec_patience_waited(&p, MIB, 0, false);
        p.balance = UINT32_MAX;
        assert_int_equal(spec_patience_of(&p), before / 2);
        assert_int_equal(spec_patience_of(&p), before / 2); /* once for each wait */
    }
    spec_patience_waited(&p, MIB, 0, false);
    assert_int_equal(spec_patience_of(&p), 0);
    spec_patience_crossed(&p, MIB);
    assert_int_equal(spec_patience_of(&p), SPEC_PATIENCE_FIRST_NS); /* from the beginning */
}

/* Whatever comes, waiting in vain takes no more than its share of what the messages take. */
static void waiting_in_vain_is_bounded(void **state)
{
    (void) state;
    for (int seed = 1; seed <= 50; ++seed) {
        rng_t rng = {(uint64_t) seed};
        spec_patience_t p = new_patience();
        uint64_t waited = 0, moved = 0;
        for (int i = 0; i < 20000; ++i) {
            const uint64_t length = SPEC_PATIENCE_LEAST << rng_next(&rng) % 6;
            if (rng_next(&rng) % 8 < (uint64_t) seed % 8) {
                spec_patience_crossed(&p, length);
            }
            const uint32_t ns = spec_patience_of(&p);
            assert_true(ns <= p.balance);
            if (ns > 0) {
                waited += ns;
                spec_patience_waited(&p, length, ns, false);
            }
            moved += spec_patience_worth(&p, length);
            assert_true(waited <= moved / SPEC_PATIENCE_TRY + SPEC_PATIENCE_MOST_NS);
        }
    }
}

/* The first crossing of which it is known what it cost pays for as long a wait as any; it does so once. */
static void the_first_wait_is_on_credit(void **state)
{
    (void) state;
    spec_patience_t p = {0};
    spec_patience_crossed(&p, MIB);
    spec_patience_moved(&p, MIB, 400000);
    assert_int_equal(p.balance, 0);
    spec_patience_crossed(&p, MIB);
    const uint64_t worth = spec_patience_worth(&p, MIB);
    assert_int_equal(p.balance, worth / SPEC_PATIENCE_KEEP);
    spec_patience_waited(&p, MIB, p.balance, false);
    for (unsigned i = 1; i < 10; ++i) {
        spec_patience_crossed(&p, MIB);
        assert_int_equal(p.balance, i * (worth / SPEC_PATIENCE_TRY));
    }
}

/* An account is not overdrawn, by a process that did not run for a while either, nor is much saved. */
static void the_account_has_limits(void **state)
{
    (void) state;
    spec_patience_t p = new_patience();
    spec_patience_crossed(&p, MIB);
    spec_patience_waited(&p, MIB, 1000 * MS, false);
    assert_int_equal(p.balance, 0);
    assert_int_equal(spec_patience_of(&p), 0);
    spec_patience_crossed(&p, MIB);
    assert_in_range(p.balance, LONG / SPEC_PATIENCE_TRY - 100, LONG / SPEC_PATIENCE_TRY);
    spec_patience_waited(&p, MIB, 1000, true);
    assert_int_equal(p.balance, SPEC_PATIENCE_MOST_NS); /* an eighth of 88 ms is more */
    spec_patience_waited(&p, MIB, 1000 * MS, false);
    for (int i = 0; i < 100; ++i) {
        spec_patience_crossed(&p, SPEC_PATIENCE_LEAST);
    }
    const uint32_t small = p.balance; /* what is kept goes by the size of the messages */
    assert_in_range(small, LONG / 16 / SPEC_PATIENCE_KEEP - 100, LONG / 16 / SPEC_PATIENCE_KEEP);
    spec_patience_crossed(&p, MIB);
    assert_true(p.balance > small);
    const uint32_t large = p.balance;
    spec_patience_crossed(&p, SPEC_PATIENCE_LEAST);
    assert_int_equal(p.balance, large);    /* a small one takes nothing away */
    spec_patience_crossed(&p, UINT64_MAX); /* nonsense of a peer */
    assert_int_equal(spec_patience_worth(&p, UINT64_MAX),
                     spec_patience_worth(&p, UINT64_C(1) << 31));
    assert_in_range(p.balance, large, SPEC_PATIENCE_MOST_NS);
}

/* The fastest transfer counts; slower ones are believed in the end. */
static void the_time_of_a_transfer_is_the_fastest_lately(void **state)
{
    (void) state;
    spec_patience_t p = {0};
    spec_patience_moved(&p, SPEC_PATIENCE_LEAST - 1, 5); /* too short to tell */
    assert_int_equal(p.ps_per_byte, 0);
    spec_patience_moved(&p, MIB, 0);
    assert_int_equal(p.ps_per_byte, 0);
    spec_patience_moved(&p, MIB, LONG);
    const uint64_t worth = spec_patience_worth(&p, MIB);
    assert_in_range(worth, LONG - LONG / 100, LONG);
    spec_patience_moved(&p, MIB, 2 * LONG);
    assert_in_range(spec_patience_worth(&p, MIB), worth, worth + worth / 20);
    spec_patience_moved(&p, MIB, LONG / 10);
    assert_in_range(spec_patience_worth(&p, MIB), worth / 10 - worth / 100, worth / 10);
    for (int i = 0; i < 500; ++i) {
        spec_patience_moved(&p, MIB, LONG);
    }
    assert_in_range(spec_patience_worth(&p, MIB), worth - worth / 50, worth);
    spec_patience_moved(&p, SPEC_PATIENCE_LEAST, UINT64_MAX / 2000);
    assert_true(p.ps_per_byte > 0);
}

/* ---- two processes that exchange ---- */

typedef struct {
    uint64_t packet, between; /* one way; between a receive and its send */
    unsigned crossed, met, missed;
    uint64_t waited;
} pair_t;

/* One exchange as the process sees it whose partner comes `late` ns after it (before, if negative). */
static void exchange(pair_t *pair, spec_patience_t *p, int64_t late)
{
    const int64_t packet = (int64_t) pair->packet, send = (int64_t) pair->between;
    const int64_t rtr = late + packet; /* the partner's RTR is here, by my clock */
    if (rtr <= send) {
        ++pair->met;
        return;
    }
    const int64_t wait = spec_patience_of(p);
    const int64_t rts = rtr <= send + wait ? rtr : send + wait;
    pair->waited += (uint64_t) (rts - send);
    if (wait > 0) {
        spec_patience_waited(p, MIB, (uint64_t) (rts - send), rtr <= send + wait);
    }
    if (rtr <= send + wait) {
        ++pair->met;
    } else if (late + send <= rts + packet) { /* its calls are over when the RTS comes */
        ++pair->crossed;
        spec_patience_crossed(p, MIB);
    } else {
        ++pair->missed; /* it found the RTS */
    }
}

static void two_that_cross_soon_meet(void **state)
{
    (void) state;
    for (uint64_t packet = 5000; packet <= 500000; packet *= 3) {
        pair_t pair = {.packet = packet, .between = packet / 2};
        spec_patience_t p = new_patience();
        rng_t rng = {packet};
        for (int i = 0; i < 2000; ++i) {
            const int64_t late = (int64_t) (rng_next(&rng) % (4 * packet)) - (int64_t) (2 * packet);
            exchange(&pair, &p, late);
        }
        /* Of those that come within a packet's time, a quarter, all would cross without patience. */
        assert_true(pair.crossed < 60);
        assert_true(pair.waited < 2000 * LONG / 50);
    }
}

/* One that always comes long after is hardly waited for. */
static void one_that_is_late_is_not_waited_for(void **state)
{
    (void) state;
    pair_t pair = {.packet = 50000, .between = 1000};
    spec_patience_t p = new_patience();
    exchange(&pair, &p, 0); /* they crossed once */
    assert_int_equal(pair.crossed, 1);
    for (int i = 0; i < 1000; ++i) {
        exchange(&pair, &p, 10 * (int64_t) MS);
    }
    assert_int_equal(pair.missed, 1000);
    assert_true(pair.waited <= 2 * SPEC_PATIENCE_FIRST_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_waits_before_an_rtr_has_crossed),
        cmocka_unit_test(nobody_waits_where_nothing_moves_by_itself),
        cmocka_unit_test(the_wait_follows_the_crossings),
        cmocka_unit_test(waiting_in_vain_is_bounded),
        cmocka_unit_test(the_first_wait_is_on_credit),
        cmocka_unit_test(the_account_has_limits),
        cmocka_unit_test(the_time_of_a_transfer_is_the_fastest_lately),
        cmocka_unit_test(two_that_cross_soon_meet),
        cmocka_unit_test(one_that_is_late_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
