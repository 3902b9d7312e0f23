/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What every small message pays (freq_gate.h), and what is made of what some of them took (freq_scale.h, freq_usage.h). */
#include "spec_unit.h"

#include "freq_usage.h"

enum { LINES = 256, SIZE = 4096 };

/* ---- the gate ---- */

static void while_it_rests_all_pass(void **state)
{
    (void) state;
    freq_gate_t gate = {.copies = 100, .rest = 103, .next = 103, .sample = 0};
    const void *buffer = (const void *) 0x12345000;
    const size_t size[] = {1000, 1, 2000};
    for (int i = 0; i < 3; ++i) {
        assert_true(freq_gate_passes(&gate, buffer));
        assert_int_equal(gate.copies, 100 + i); /* it is not copied yet */
        freq_gate_copy_ends(&gate, freq_gate_copy_starts(&gate), size[i]);
    }
    assert_int_equal(gate.copies, 103);
    assert_int_equal(gate.bytes_copied, 3001);
    assert_false(freq_gate_passes(&gate, buffer));
    assert_int_equal(gate.copies, 103);
    /* What the table is not asked of is not counted. */
    assert_int_equal(freq_gate_copy_starts(NULL), 0);
    freq_gate_copy_ends(NULL, 0, 500);
}

static void a_sample_of_the_buffers_does_not_pass(void **state)
{
    (void) state;
    for (uint32_t bits = 0; bits <= 6; ++bits) {
        freq_gate_t gate = {.next = UINT64_MAX, .sample = (1u << bits) - 1};
        unsigned asked = 0;
        for (uintptr_t i = 1; i <= 64 * 1000; ++i) {
            const char *buffer = (const char *) (i * FREQ_GATE_BLOCK);
            const bool passes = freq_gate_passes(&gate, buffer);
            assert_int_equal(passes, freq_gate_passes(&gate, buffer)); /* always the same ones */
            /* And their neighbours. */
            assert_int_equal(passes, freq_gate_passes(&gate, buffer + FREQ_GATE_BLOCK - SIZE));
            asked += !passes;
        }
        const unsigned expected = 64 * 1000 >> bits;
        assert_in_range(asked, expected - expected / 5, expected + expected / 5);
    }
}

static void few_copies_are_timed(void **state)
{
    (void) state;
    freq_gate_t gate = {.times = FREQ_GATE_TIMES};
    unsigned timed = 0;
    for (unsigned i = 0; i < 100 * FREQ_GATE_APART; ++i) {
        const uint64_t start = freq_gate_copy_starts(&gate);
        timed += 0 != start;
        assert_true(0 == start || 0 == i % FREQ_GATE_APART);
        freq_gate_copy_ends(&gate, start, SIZE);
    }
    assert_int_equal(timed, FREQ_GATE_TIMES);
    assert_int_equal(gate.times, 0);
    for (int i = 0; i < FREQ_GATE_TIMES; ++i) {
        assert_int_equal(gate.timed[i] & UINT32_MAX, SIZE);
    }
    /* A time that another thread did not want any more. */
    freq_gate_copy_ends(&gate, freq_gate_now(), SIZE);
    assert_int_equal(gate.times, 0);
}

static void one_place_is_timed(void **state)
{
    (void) state;
    freq_gate_t gate = {.times_place = true};
    const uint64_t start = freq_gate_place_starts(&gate);
    assert_true(0 != start);
    freq_gate_place_ends(&gate, start - 12345);
    assert_true(gate.timed_place >= 12345);
    assert_false(gate.times_place);
    assert_int_equal(freq_gate_place_starts(&gate), 0);
    const uint32_t before = gate.timed_place;
    freq_gate_place_ends(&gate, 0);
    assert_int_equal(gate.timed_place, before);
}

/* ---- scale ---- */

static bool add(freq_scale_t *scale, const double *ns, double expected)
{
    bool is_new = false;
    for (int i = 0; i < FREQ_SCALE_SAMPLES; ++i) {
        assert_false(is_new);
        is_new = freq_scale_add(scale, ns[i], expected);
    }
    return is_new;
}

static void the_median_counts(void **state)
{
    (void) state;
    freq_scale_t scale = {0};
    assert_int_equal(freq_scale_now(&scale), FREQ_SCALE_ONE);
    /* Most took twice as long; what was interrupted, or not timed well, does not matter. */
    assert_true(add(&scale, (double[]){200, 9e6, 200, 1, 9e9, 200, -5, 200, 200}, 100));
    assert_int_equal(freq_scale_now(&scale), 2 * FREQ_SCALE_ONE);
    /* Little is nothing. */
    assert_false(add(&scale, (double[]){210, 210, 210, 210, 210, 210, 210, 210, 210}, 100));
    assert_int_equal(freq_scale_now(&scale), 2 * FREQ_SCALE_ONE);
    assert_true(add(&scale, (double[]){100, 100, 100, 100, 100, 100, 100, 100, 100}, 100));
    assert_int_equal(freq_scale_now(&scale), FREQ_SCALE_ONE);
    /* Bounds, and what nothing can be said of. */
    assert_true(add(&scale, (double[]){1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9}, 1));
    assert_int_equal(freq_scale_now(&scale), FREQ_SCALE_MOST);
    assert_true(add(&scale, (double[]){0, 0, 0, 0, 0, 0, 0, 0, 0}, 100));
    assert_int_equal(freq_scale_now(&scale), FREQ_SCALE_LEAST);
    for (int i = 0; i < 100; ++i) {
        assert_false(freq_scale_add(&scale, 100, 0));
    }
}

/* Of what is dear once and cheap many times the mean counts, whatever the order. */
static void the_mean_counts(void **state)
{
    (void) state;
    freq_mean_t mean = {0};
    assert_int_equal(freq_mean_now(&mean), FREQ_SCALE_ONE);
    freq_mean_add(&mean, 4000, 4000);
    for (int i = 1; i < FREQ_MEAN_SAMPLES; ++i) {
        assert_false(freq_mean_settle(&mean));
        freq_mean_add(&mean, 0, 4000);
    }
    assert_true(freq_mean_settle(&mean));
    assert_int_equal(freq_mean_now(&mean), FREQ_SCALE_ONE / FREQ_MEAN_SAMPLES);
    assert_false(freq_mean_settle(&mean)); /* each counts once */
    /* What was interrupted counts as so many, nothing as nothing; little change is none. */
    for (int i = 0; i < FREQ_MEAN_SAMPLES; ++i) {
        freq_mean_add(&mean, 1e12, 4000);
        freq_mean_add(&mean, 4000, 0);
    }
    assert_true(freq_mean_settle(&mean));
    assert_int_equal(freq_mean_now(&mean), FREQ_MEAN_MOST);
    for (int i = 0; i < FREQ_MEAN_SAMPLES; ++i) {
        freq_mean_add(&mean, 4000 * 3.9, 4000);
    }
    assert_false(freq_mean_settle(&mean));
    for (int i = 0; i < FREQ_MEAN_SAMPLES; ++i) {
        freq_mean_add(&mean, -20, 4000);
    }
    assert_true(freq_mean_settle(&mean));
    assert_int_equal(freq_mean_now(&mean), FREQ_MEAN_LEAST);
}

/* ---- a table whose costs change ---- */

typedef struct {
    freq_usage_t usage;
    freq_release_t release;
    freq_gate_t gate;
    freq_costs_t costs;
    void *memory;
} table_t;

/* C is 100 ns for any size, V 50, R 4000, and the clock takes 20. */
static table_t *table_new(uint32_t permille)
{
    table_t *t = aligned_alloc(64, (sizeof(*t) + 63) & ~(size_t) 63);
    assert_non_null(t);
    memset(t, 0, sizeof(*t));
    t->memory = aligned_alloc(64, (freq_usage_bytes(LINES) + 63) & ~(size_t) 63);
    assert_non_null(t->memory);
    memset(t->memory, 0, freq_usage_bytes(LINES));
    t->costs = (freq_costs_t){.v = 50, .look = 10, .rare = 20, .add = 100, .gate = 4, .clock = 20};
    for (int i = 0; i < FREQ_POINTS; ++i) {
        t->costs.c[i] = 100;
        t->costs.r[i] = 4000;
    }
    freq_rule_t rule;
    freq_rule_fixed(&rule, FREQ_NEVER);
    freq_usage_init(&t->usage, t->memory, LINES, &rule, &t->release, &t->gate);
    freq_usage_by_costs(&t->usage, &t->costs, 25, permille);
    return t;
}

static void table_free(table_t *t)
{
    free(t->memory);
    free(t);
}

static bool look(table_t *t, uintptr_t at)
{
    if (!freq_gate_passes(&t->gate, (void *) at) && freq_usage_look(&t->usage, (void *) at, SIZE)) {
        return true;
    }
    freq_gate_copied(&t->gate, SIZE);
    return false;
}

/* Every buffer is looked at. */
static void watch_all(table_t *t)
{
    t->gate.sample = 0;
}

/* Every FREQ_SETTLE copies, whatever the buffers; when there is nothing left for looks, as soon as there may be. */
static void now_and_then_the_table_is_asked(void **state)
{
    (void) state;
    table_t *t = table_new(5);
    t->gate.sample = UINT32_MAX;
    for (uint64_t i = 1; i <= 10; ++i) {
        t->usage.budget.spent = INT32_MAX; /* no reason to look at more */
        for (unsigned k = 0; k < FREQ_SETTLE; ++k) {
            assert_true(freq_gate_passes(&t->gate, (void *) 0x12345000));
            freq_gate_copied(&t->gate, SIZE);
        }
        assert_int_equal(t->gate.copies, i * FREQ_SETTLE);
        assert_int_equal(t->usage.settled, (i - 1) * FREQ_SETTLE);
        t->gate.sample = UINT32_MAX;
        assert_false(freq_gate_passes(&t->gate, (void *) 0x12345000));
        assert_false(freq_usage_look(&t->usage, (void *) 0x12345000, SIZE));
        assert_int_equal(t->usage.settled, i * FREQ_SETTLE);
        assert_int_equal(t->gate.next, (i + 1) * FREQ_SETTLE);
    }
    watch_all(t);
    t->usage.budget.looks = -1;
    assert_false(look(t, 0x10000));
    assert_int_equal(t->gate.sample, 1);
    const uint64_t until = t->gate.rest;
    assert_true(until >= t->gate.copies - 1 + FREQ_SETTLE);
    while (t->gate.copies < until) {
        assert_true(freq_gate_passes(&t->gate, (void *) 0x10000));
        freq_gate_copied(&t->gate, SIZE);
    }
    assert_false(look(t, 0x10000));
    assert_true(t->gate.rest <= t->gate.copies && t->gate.next > t->gate.copies);
    assert_true(t->gate.sample <= 1);
    table_free(t);
}

/* Copies of buffers that are used once, each of which takes so long, and findings; until all were taken notice of. */
static void take(table_t *t, double copy, double place)
{
    static uintptr_t at = 0x100000000;
    const freq_costs_t *c = &t->costs;
    for (int i = 0; i < 3 * FREQ_SCALE_SAMPLES; ++i) {
        for (int k = 0; k < FREQ_SETTLE; ++k) {
            (void) look(t, at += 8192);
        }
        t->gate.timed[0] = (uint64_t) (copy + c->clock) << 32 | SIZE;
        t->gate.timed_place = (uint32_t) (place + c->clock);
    }
}

static uint32_t after(const table_t *t)
{
    return freq_rule_after(&t->usage.rule, freq_class_of(SIZE));
}

static void the_rule_follows_what_copies_take(void **state)
{
    (void) state;
    table_t *t = table_new(0);
    assert_int_equal(after(t), (4000 / 50 + 1) * 25 / 100 + 1); /* n = 81 */
    take(t, 250, 50);
    assert_int_equal(after(t), (4000 / 200 + 1 + 3) / 4); /* n = 21 */
    take(t, 60, 50);                                      /* less than a quarter is gained */
    assert_int_equal(after(t), FREQ_NEVER);
    take(t, 250, 50);
    assert_int_equal(after(t), (4000 / 200 + 1 + 3) / 4);
    take(t, 250, 190);
    assert_int_equal(after(t), FREQ_NEVER);
    table_free(t);
}

static void settle(table_t *t, int times)
{
    static uintptr_t at = 0x200000000;
    for (int i = 0; i < times; ++i) {
        for (int k = 0; k < FREQ_SETTLE; ++k) {
            (void) look(t, at += 8192);
        }
    }
}

/* What the few that were in place took says nothing any more when there have been none for long. */
static void no_finding_stays_dear_unseen(void **state)
{
    (void) state;
    table_t *t = table_new(0);
    take(t, 250, 190);
    assert_int_equal(after(t), FREQ_NEVER);
    settle(t, FREQ_SCALE_SAMPLES + 1);
    assert_int_equal(after(t), (4000 / 200 + 1 + 3) / 4); /* C stays */
    table_free(t);
}

/* A registration is paid before, at the price of most; then what it took. */
static void what_a_registration_took_is_paid(void **state)
{
    (void) state;
    table_t *t = table_new(5);
    freq_budget_t *b = &t->usage.budget;
    const uint32_t class = freq_class_of(SIZE);
    const int64_t price = b->price[class], clock = 20;
    assert_int_equal(price, 4000 * FREQ_BUDGET_UNIT);
    b->saved = 5 * price;
    freq_usage_registered(&t->usage, SIZE, 4000 + clock);
    assert_int_equal(b->saved, 5 * price);
    freq_usage_registered(&t->usage, SIZE, clock);
    assert_int_equal(b->saved, 6 * price);
    freq_usage_registered(&t->usage, SIZE, 1000 + clock);
    assert_int_equal(b->saved, 6 * price + price * 3 / 4);
    freq_usage_registered(&t->usage, SIZE, UINT64_MAX / 2); /* stopped meanwhile */
    assert_int_equal(b->saved, 7 * price + price * 3 / 4 - FREQ_BUDGET_DEAREST * price);
    freq_usage_registered(&t->usage, 64, 1); /* of no class */
    table_free(t);

    /* Most is found registered with a neighbour: soon it is worth it. */
    t = table_new(5);
    assert_int_equal(after(t), (4000 / 50 + 1) * 25 / 100 + 1);
    for (int i = 0; i < 2 * FREQ_MEAN_SAMPLES; ++i) {
        freq_usage_registered(&t->usage, SIZE, 0 == i % 8 ? 4000 + clock : clock);
    }
    settle(t, 2);
    assert_int_equal(after(t), (500 / 50 + 1 + 3) / 4);
    assert_int_equal(t->usage.budget.price[class], price / 8);
    table_free(t);
}

/* V is timed where most messages are in place, and nowhere else: where most are copied it is no V. */
static void findings_are_timed_where_most_are_in_place(void **state)
{
    (void) state;
    table_t *t = table_new(5);
    settle(t, 3);
    assert_false(t->gate.times_place);
    t->usage.avoided += FREQ_SETTLE / 2;
    settle(t, 1);
    assert_false(t->gate.times_place);
    t->usage.avoided += 2 * FREQ_SETTLE;
    settle(t, 1);
    assert_true(t->gate.times_place);
    settle(t, 1);
    assert_false(t->gate.times_place);
    table_free(t);
}

/* A clock by which each look takes so long. */
static uint64_t clock_ns, look_ns;
static uint64_t look_clock(void)
{
    return clock_ns += look_ns;
}

/* Past the gate, whatever it says, with as much as there can be for looks and nothing for registrations. */
static void look_at(table_t *t, uintptr_t at)
{
    t->usage.budget.looks = t->usage.budget.most;
    t->usage.budget.saved = 0;
    assert_false(freq_usage_look(&t->usage, (void *) at, SIZE));
}

/* Looks cost what they take where few are made: some are timed, of buffers that were known and of others, but not the first
 * after a pause. */
static void looks_cost_what_they_take(void **state)
{
    (void) state;
    enum { AT = 0x10000 }; /* a block of every sample has none of the bits: */
    table_t *t = table_new(5);
    freq_budget_t *b = &t->usage.budget;
    const int64_t rare = b->rare, add = b->add, keep = b->keep;
    uintptr_t block = AT;
    while (!freq_gate_has(FREQ_SAMPLE_MAX, (void *) block)) {
        block += FREQ_GATE_BLOCK;
    }
    assert_int_equal(rare, 20 * FREQ_BUDGET_UNIT);
    assert_int_equal(add, (100 - 20) * FREQ_BUDGET_UNIT);
    t->usage.now = look_clock;
    look_ns = 20 + 3 * 100; /* the clock's, and three times as long as taking one in was to take */
    unsigned looks = 0;
    uint64_t first = 0;
    for (; b->add == add && looks < 1000; ++looks) {
        look_at(t, block + looks);
        first = 0 == first && clock_ns > 0 ? looks + 1 : first;
    }
    assert_int_equal(first, 8);
    assert_int_equal(looks, 8 * FREQ_SCALE_SAMPLES);
    assert_int_equal(b->add, (3 * 100 - 20) * FREQ_BUDGET_UNIT);
    assert_int_equal(b->rare, rare);
    assert_true(b->keep > keep);
    look_ns = 20 + 5 * 20;
    for (looks = 0; b->rare == rare && looks < 1000; ++looks) {
        look_at(t, block);
    }
    assert_int_equal(looks, 8 * FREQ_SCALE_SAMPLES);
    assert_int_equal(b->rare, 5 * 20 * FREQ_BUDGET_UNIT);
    assert_int_equal(b->look,
                     10 * FREQ_BUDGET_UNIT); /* where most are looked at it is another thing */
    /* No more than was asked for until it settles again, and none where all are looked at. */
    const uint64_t before = clock_ns;
    for (unsigned i = 0; i < 100; ++i) {
        look_at(t, block);
    }
    assert_int_equal(clock_ns, before);
    t->usage.times_looks = 5;
    watch_all(t);
    for (unsigned i = 0; i < 100; ++i) {
        look_at(t, block);
    }
    assert_int_equal(clock_ns, before);
    t->usage.times_looks = 0;
    t->gate.sample = UINT32_MAX; /* none is looked at */
    settle(t, 2);
    assert_int_equal(t->usage.times_looks, 1);
    table_free(t);
}

/* What becomes frequent since the rule is another is paid like anything. */
static void none_is_frequent_that_is_not_paid(void **state)
{
    (void) state;
    table_t *t = table_new(5);
    watch_all(t);
    t->usage.budget.looks = t->usage.budget.most;
    const uint32_t uses = after(t);
    for (uint32_t i = 0; i + 1 < uses; ++i) {
        assert_false(look(t, 0x10000));
        assert_false(look(t, 0x20000));
    }
    for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
        t->usage.rule.after[class] = uses / 2;
    }
    t->usage.budget.saved = t->usage.budget.price[freq_class_of(SIZE)]; /* of one */
    assert_true(look(t, 0x10000));
    assert_false(look(t, 0x20000));
    for (int i = 0; i < 5; ++i) {
        t->usage.budget.saved = 0;
        t->usage.budget.looks = t->usage.budget.most;
        assert_true(look(t, 0x10000)); /* it is registered already */
        t->usage.budget.saved = 0;
        assert_false(look(t, 0x20000));
    }
    freq_usage_counts_t counts;
    freq_usage_count(&t->usage, &counts);
    assert_int_equal(counts.frequent, 1);
    assert_int_equal(counts.copies_avoided, 6);
    table_free(t);
}

/* A count that is full does not run over into what was paid, and no more uses are asked for. */
static void a_full_count_is_enough(void **state)
{
    (void) state;
    table_t *t = table_new(5);
    freq_rule_fixed(&t->usage.rule, UINT32_MAX);
    watch_all(t);
    assert_false(look(t, 0x10000));
    freq_entry_t *entry = NULL;
    for (uint32_t l = 0; l < LINES && NULL == entry; ++l) {
        entry = 0 != t->usage.line[l].entry[0].key ? &t->usage.line[l].entry[0] : NULL;
    }
    assert_non_null(entry);
    entry->state = (entry->state & ~FREQ_COUNT_MAX) | (FREQ_COUNT_MAX - 1);
    t->usage.budget.saved = 0;
    t->usage.budget.looks = t->usage.budget.most;
    for (int i = 0; i < 5; ++i) {
        assert_false(look(t, 0x10000)); /* nothing to pay it with */
        assert_int_equal(entry->state & FREQ_PAID, 0);
        assert_int_equal(entry->state & FREQ_COUNT_MAX, FREQ_COUNT_MAX);
    }
    t->usage.budget.saved = t->usage.budget.price[freq_class_of(SIZE)];
    assert_true(look(t, 0x10000));
    table_free(t);
}

/* Only a use that was counted as avoided is taken back. */
static void a_refusal_takes_back_what_was_counted(void **state)
{
    (void) state;
    table_t *t = table_new(0);
    freq_usage_counts_t counts;
    (void) look(t, 0x10000);
    freq_usage_refused(&t->usage, (void *) 0x10000, SIZE);
    freq_usage_count(&t->usage, &counts);
    assert_int_equal(counts.copies_avoided, 0);
    while (!look(t, 0x10000)) {}
    freq_usage_refused(&t->usage, (void *) 0x10000, SIZE);
    freq_usage_count(&t->usage, &counts);
    assert_int_equal(counts.copies_avoided, 0);
    table_free(t);
}

/* What is too small now may not be when copies take longer; what gains too little is not asked of at all. */
static void the_least_size_is_worth_the_gate(void **state)
{
    (void) state;
    table_t *t = table_new(5);
    for (int i = 0; i < FREQ_POINTS; ++i) {
        t->costs.c[i] = 10 << i; /* 40 ns at 512 bytes, 80 at 1024 */
    }
    t->costs.gate = 0;
    freq_usage_by_costs(&t->usage, &t->costs, 25, 5);
    assert_int_equal(freq_rule_after(&t->usage.rule, freq_class_of(512)), FREQ_NEVER);
    assert_int_equal(freq_usage_least(&t->usage),
                     448); /* 70 ns if C is twice that, a quarter of it above 50 */
    t->costs.gate = 40.0 / FREQ_WORTH;
    assert_int_equal(freq_usage_least(&t->usage), 640); /* 100 ns: more than 40 gained */
    t->costs.gate = 4000.0 / FREQ_WORTH;
    assert_int_equal(freq_usage_least(&t->usage), 28672); /* 4480 ns */
    t->costs.gate = 40000.0 / FREQ_WORTH;
    assert_int_equal(freq_usage_least(&t->usage), 0);
    freq_usage_by_costs(&t->usage, &t->costs, 25, 0); /* the rule alone */
    assert_int_equal(freq_usage_least(&t->usage), 448);
    freq_rule_t rule;
    freq_rule_fixed(&rule, 3);
    freq_usage_init(&t->usage, t->memory, LINES, &rule, &t->release, &t->gate);
    assert_int_equal(freq_usage_least(&t->usage), FREQ_SIZE_MIN);
    freq_rule_fixed(&t->usage.rule, FREQ_NEVER);
    assert_int_equal(freq_usage_least(&t->usage), 0);
    table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_it_rests_all_pass),
        cmocka_unit_test(a_sample_of_the_buffers_does_not_pass),
        cmocka_unit_test(now_and_then_the_table_is_asked),
        cmocka_unit_test(few_copies_are_timed),
        cmocka_unit_test(one_place_is_timed),
        cmocka_unit_test(the_median_counts),
        cmocka_unit_test(the_mean_counts),
        cmocka_unit_test(the_rule_follows_what_copies_take),
        cmocka_unit_test(no_finding_stays_dear_unseen),
        cmocka_unit_test(what_a_registration_took_is_paid),
        cmocka_unit_test(findings_are_timed_where_most_are_in_place),
        cmocka_unit_test(looks_cost_what_they_take),
        cmocka_unit_test(none_is_frequent_that_is_not_paid),
        cmocka_unit_test(a_full_count_is_enough),
        cmocka_unit_test(a_refusal_takes_back_what_was_counted),
        cmocka_unit_test(the_least_size_is_worth_the_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
