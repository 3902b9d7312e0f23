/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* iw_zerocopy_cost.h: whether large payloads are lent to the kernel or copied by it. */
#include "spec_unit.h"

#include "iw_zerocopy_cost.h"

#define BATCH 200000 /* bytes */

typedef struct machine {
    uint64_t copying, lending; /* ns for a batch */
} machine_t;

/* One batch. Returns whether it was lent. */
static bool send_batch(iw_zerocopy_cost_t *p, const machine_t *m)
{
    const bool zerocopies = iw_zerocopy_cost_choose(p);
    iw_zerocopy_cost_took(p, BATCH, zerocopies ? m->lending : m->copying);
    return zerocopies;
}

/* So many of the batches are lent. */
static unsigned lent(iw_zerocopy_cost_t *p, const machine_t *m, unsigned batches)
{
    unsigned n = 0;
    for (unsigned i = 0; i < batches; ++i) {
        n += send_batch(p, m);
    }
    return n;
}

/* Both are known after so many batches. */
enum { KNOWN = 2 * IW_COST_FIRST, LONG = 100 * IW_COST_AGAIN };

static void both_are_tried_first(void **state)
{
    (void) state;
    const machine_t m = {20000, 10000};
    iw_zerocopy_cost_t p = {IW_ZEROCOPY_AUTO};
    assert_int_equal(lent(&p, &m, KNOWN), IW_COST_FIRST);
}

static void the_cheaper_one_is_used(void **state)
{
    (void) state;
    const machine_t lends = {20000, 10000}, copies = {10000, 20000};
    iw_zerocopy_cost_t p = {IW_ZEROCOPY_AUTO};
    lent(&p, &lends, KNOWN);
    assert_int_equal(lent(&p, &lends, LONG), LONG - LONG / IW_COST_AGAIN);
    p = (iw_zerocopy_cost_t){IW_ZEROCOPY_AUTO};
    lent(&p, &copies, KNOWN);
    assert_int_equal(lent(&p, &copies, LONG), LONG / IW_COST_AGAIN);
}

static void lending_is_clearly_cheaper_or_not_used(void **state)
{
    (void) state;
    const machine_t m = {20000, 19000};
    iw_zerocopy_cost_t p = {IW_ZEROCOPY_AUTO};
    lent(&p, &m, KNOWN);
    assert_int_equal(lent(&p, &m, LONG), LONG / IW_COST_AGAIN);
}

/* What comes first touches memory for the first time. */
static void the_first_samples_mislead_nobody(void **state)
{
    (void) state;
    const machine_t slow = {500000, 400000}, then = {10000, 30000};
    iw_zerocopy_cost_t p = {IW_ZEROCOPY_AUTO};
    lent(&p, &slow, KNOWN - 2);
    lent(&p, &then, 2);
    assert_false(send_batch(&p, &then));
    p = (iw_zerocopy_cost_t){IW_ZEROCOPY_AUTO};
    lent(&p, &then, 2);
    lent(&p, &slow, KNOWN - 2);
    assert_false(send_batch(&p, &then));
}

/* The machine changes: what is used became dear, or what is not used cheap. */
static void what_changes_is_noticed(void **state)
{
    (void) state;
    const machine_t copies = {10000, 15000}, lends = {20000, 15000}, cheap = {10000, 5000};
    iw_zerocopy_cost_t p = {IW_ZEROCOPY_AUTO};
    lent(&p, &copies, LONG);
    assert_true(lent(&p, &lends, 100) >= 80); /* within a few batches */
    lent(&p, &copies, LONG);
    assert_int_equal(lent(&p, &copies, IW_COST_AGAIN), 1);
    lent(&p, &cheap, 20 * IW_COST_AGAIN); /* one try in IW_COST_AGAIN */
    assert_int_equal(lent(&p, &cheap, IW_COST_AGAIN), IW_COST_AGAIN - 1);
}

/* Another program had the processor for a while. */
static void an_interruption_changes_nothing(void **state)
{
    (void) state;
    const machine_t m = {10000, 15000}, interrupted = {10000000, 15000};
    iw_zerocopy_cost_t p = {IW_ZEROCOPY_AUTO};
    lent(&p, &m, KNOWN);
    for (unsigned i = 0; i < 100; ++i) {
        send_batch(&p, &interrupted);
        assert_true(lent(&p, &m, 20) <= 1);
    }
}

/* A kernel that takes nothing by reference: there is no sample of it, and copying is what happens. */
static void what_is_not_known_is_tried_again(void **state)
{
    (void) state;
    iw_zerocopy_cost_t p = {IW_ZEROCOPY_AUTO};
    for (unsigned i = 0; i < 1000; ++i) {
        assert_true(iw_zerocopy_cost_choose(&p));
    }
}

static void sizes_of_batches_do_not_matter(void **state)
{
    (void) state;
    iw_zerocopy_cost_t p = {IW_ZEROCOPY_AUTO};
    for (unsigned i = 0; i < LONG; ++i) {
        const uint64_t bytes = 57344 * (1 + i % 3);
        const bool zerocopies = iw_zerocopy_cost_choose(&p);
        iw_zerocopy_cost_took(&p, bytes, bytes / (zerocopies ? 8 : 5));
        assert_true(i < KNOWN || 0 == p.batches || zerocopies);
    }
    iw_zerocopy_cost_took(&p, 0, 100); /* no batch, and no division by it */
}

static void who_has_decided_is_not_asked(void **state)
{
    (void) state;
    const machine_t lends = {20000, 10000}, copies = {10000, 20000};
    iw_zerocopy_cost_t never = {IW_ZEROCOPY_OFF}, always = {IW_ZEROCOPY_ON};
    assert_int_equal(lent(&never, &lends, LONG), 0);
    assert_int_equal(lent(&always, &copies, LONG), LONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_are_tried_first),
        cmocka_unit_test(the_cheaper_one_is_used),
        cmocka_unit_test(lending_is_clearly_cheaper_or_not_used),
        cmocka_unit_test(the_first_samples_mislead_nobody),
        cmocka_unit_test(what_changes_is_noticed),
        cmocka_unit_test(an_interruption_changes_nothing),
        cmocka_unit_test(what_is_not_known_is_tried_again),
        cmocka_unit_test(sizes_of_batches_do_not_matter),
        cmocka_unit_test(who_has_decided_is_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
