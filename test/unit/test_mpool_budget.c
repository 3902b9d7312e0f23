/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The budget (freq_budget.h): whatever a program does, the table costs it no more than its share. */
#include "spec_unit.h"

#include "freq_usage.h"

enum { LINES = 1024, SIZE = 4096, PERMILLE = 5, GATE = 4 };

typedef struct {
    freq_usage_t usage;
    freq_release_t release;
    freq_gate_t gate;
    freq_costs_t costs;
    void *memory;
    double c; /* what a copy takes, ns; what a registration does */
    double took;
    double dearer;  /* looks take so many times what was measured */
    double copying; /* ns, if all were copied */
    double spent;   /* ns, by the same costs, with the table; registered at first use in place */
    unsigned registered, in_place, rested, sends;
} world_t;

/* The world's clock: between two calls of it is a look. */
static const world_t *world;
static uint64_t world_now(void)
{
    static uint64_t now, unknown;
    const bool was_unknown = unknown != world->usage.unknown;
    unknown = world->usage.unknown;
    now += (uint64_t) (world->dearer * (was_unknown ? world->costs.add : world->costs.rare));
    return now;
}

static world_t *world_new(double r, double c, double v, double look, uint32_t share)
{
    void *storage = NULL, *memory = NULL;
    assert_int_equal(posix_memalign(&storage, 64, sizeof(world_t)), 0);
    world_t *w = memset(storage, 0, sizeof(*w));
    assert_int_equal(posix_memalign(&memory, 64, freq_usage_bytes(LINES)), 0);
    w->memory = memset(memory, 0, freq_usage_bytes(LINES));
    w->costs =
        (freq_costs_t){.v = v, .look = look, .rare = 2 * look, .add = 10 * look, .gate = GATE};
    for (int i = 0; i < FREQ_POINTS; ++i) {
        w->costs.r[i] = r;
        w->costs.c[i] = c;
    }
    freq_rule_t rule;
    freq_rule_fixed(&rule, FREQ_NEVER);
    freq_usage_init(&w->usage, w->memory, LINES, &rule, &w->release, &w->gate);
    freq_usage_by_costs(&w->usage, &w->costs, share, PERMILLE);
    w->c = c;
    w->took = r;
    w->dearer = 1;
    w->usage.now = world_now;
    world = w;
    return w;
}

static void world_free(world_t *w)
{
    free(w->memory);
    free(w);
}

/* As a transport does it. What is spent is counted by what the table says that it did. */
static void use(world_t *w, uintptr_t address)
{
    static char registration;
    freq_note_t *note;
    const freq_usage_t *u = &w->usage;
    void *const buffer = (void *) address;
    w->copying += w->c;
    ++w->sends;
    const bool rests = w->gate.copies < w->gate.rest;
    w->spent += rests ? 0 : w->costs.gate;
    if (freq_gate_passes(&w->gate, buffer)) {
        freq_gate_copied(&w->gate, SIZE);
        w->spent += w->c;
        w->rested += rests;
        return;
    }
    const uint64_t used = u->used, unknown = u->unknown;
    const bool is_rare = 0 != w->gate.sample;
    const bool is_place = freq_usage_find(&w->usage, buffer, SIZE, &note);
    w->spent += (double) (u->used + u->unknown - used - unknown)
                * (is_rare ? w->dearer * w->costs.rare : w->costs.look);
    w->spent +=
        (double) (u->unknown - unknown)
        * (is_rare ? w->dearer * (w->costs.add - w->costs.rare) : w->costs.add - w->costs.look);
    if (!is_place) {
        const uint64_t start = freq_gate_copy_starts(&w->gate);
        freq_gate_copy_ends(&w->gate, start, SIZE);
        if (0 != start) {
            w->gate.timed[w->gate.times] = (uint64_t) w->c << 32 | SIZE; /* by this world's clock */
        }
        w->spent += w->c;
        return;
    }
    ++w->in_place;
    w->spent += w->costs.v - w->costs.look;
    if (NULL == atomic_load(note)) {
        ++w->registered;
        w->spent += w->took;
        freq_usage_registered(&w->usage, SIZE, (uint64_t) w->took);
        atomic_store(note, &registration);
    }
}

/* What so many messages earn more, at first. */
static double young(const world_t *w, unsigned messages)
{
    return (messages < FREQ_BUDGET_YOUNG ? messages : FREQ_BUDGET_YOUNG)
           * (FREQ_BUDGET_YOUNG_TIMES - 1) * w->c * PERMILLE / 1000.0;
}

/* That looks take longer is known when some of either kind have been timed. */
static double not_known_yet(const world_t *w)
{
    return 2 * 8 * FREQ_SCALE_SAMPLES * (w->dearer - 1) * w->costs.add;
}

/* The bound, at every moment. One look, and what one settling settles, may be ahead of its pay. */
static void check(const world_t *w)
{
    assert_true(w->spent <= w->copying * (1 + PERMILLE / 1000.0) + young(w, w->sends) + w->costs.add
                                + 1 + FREQ_SETTLE * w->costs.gate
                                + FREQ_BUDGET_START * w->costs.r[0]
                                + FREQ_BUDGET_START_LOOKS * w->costs.rare
                                + FREQ_BUDGET_START_WATCHED * w->costs.gate + not_known_yet(w));
}

/* Every number of uses of each buffer, in turns of so many; the rule of the thesis loses on many. */
static void no_count_of_reuse_costs_more(void **state)
{
    (void) state;
    static const unsigned uses[] = {1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 300, 1000};
    static const unsigned turns[] = {1, 7, 100};
    static const double prices[] = {500, 3000, 50000};
    for (size_t p = 0; p < 3; ++p) {
        for (size_t u = 0; u < sizeof(uses) / sizeof(*uses); ++u) {
            for (size_t t = 0; t < 3; ++t) {
                world_t *w = world_new(prices[p], 150, 60, 10, 25);
                uintptr_t address = 0x100000;
                while (w->sends < 60000) {
                    for (unsigned use_n = 0; use_n < uses[u]; ++use_n) {
                        for (unsigned i = 0; i < turns[t]; ++i) {
                            use(w, address + i * 8192);
                        }
                        check(w);
                    }
                    address += turns[t] * 8192;
                }
                world_free(w);
            }
        }
    }
}

/* So do looks that take longer than was measured: of buffers used once, and of some that are, between many that are not. */
static void dear_looks_cost_no_more(void **state)
{
    (void) state;
    for (unsigned every = 1; every <= 4; ++every) {
        world_t *w = world_new(3000, 150, 60, 10, 25);
        w->dearer = 8;
        uintptr_t address = 0x10000000;
        while (w->sends < 1000000) {
            const bool again = every > 1 && 0 == w->sends % every;
            use(w, again ? 0x100000 + w->sends / every % 200 * 8192 : (address += 8192));
            check(w);
        }
        assert_true(every > 1 || 0 == w->registered);
        world_free(w);
    }
}

/* Good for long, then as bad as can be: what was gained is not all lost again. */
static void a_good_time_does_not_pay_for_a_bad_one(void **state)
{
    (void) state;
    world_t *w = world_new(3000, 150, 60, 10, 25);
    for (unsigned i = 0; i < 300000; ++i) {
        use(w, 0x100000 + i % 20 * 8192);
    }
    assert_int_equal(w->registered, 20);
    const double gained = w->copying - w->spent;
    assert_true(gained > 0.5 * w->copying);
    const unsigned after = w->usage.rule.after[freq_class_of(SIZE)] + 1;
    for (uintptr_t address = 0x10000000; w->sends < 600000; address += 8192) {
        for (unsigned i = 0; i < after; ++i) { /* once in place, and never again */
            use(w, address);
        }
    }
    assert_true(gained - (w->copying - w->spent) <= 2 * 3000.0 * FREQ_BUDGET_REGISTRATIONS
                                                        + 300000 * 150 * PERMILLE / 1000.0
                                                        + young(w, FREQ_BUDGET_YOUNG) + 100);
    world_free(w);
}

/* It is no excuse for doing nothing: buffers that are reused are nearly all in place in the end. */
static void reuse_pays(void **state)
{
    (void) state;
    world_t *w = world_new(3000, 150, 60, 10, 25);
    for (unsigned i = 0; i < 500000; ++i) {
        use(w, 0x100000 + i % 500 * 8192);
    }
    check(w);
    assert_int_equal(w->registered, 500);
    assert_true(w->in_place > 300000);
    assert_true(w->spent < 0.7 * w->copying);
    world_free(w);
}

/* A dear adapter: a buffer must be seen many times before it is worth it. There is not enough to look at
 * every use of 100 buffers so often; of some it is. */
static void a_part_of_the_buffers_is_seen_often_enough(void **state)
{
    (void) state;
    world_t *w = world_new(20000, 150, 60, 10, 25);
    while (0 == w->registered && w->sends < 200000) {
        use(w, 0x100000 + w->sends % 100 * 8192);
    }
    assert_in_range(w->sends, 100, 10000);
    while (w->sends < 2000000) {
        use(w, 0x100000 + w->sends % 100 * 8192);
    }
    check(w);
    assert_int_equal(w->registered, 100);
    assert_true(w->in_place > 1500000);
    world_free(w);
}

/* Nothing is reused: next to no look is made. */
static void no_reuse_no_looks(void **state)
{
    (void) state;
    world_t *w = world_new(3000, 150, 60, 10, 25);
    for (uintptr_t i = 0; i < 100000; ++i) {
        use(w, 0x100000 + i * 8192);
    }
    freq_usage_counts_t counts;
    freq_usage_count(&w->usage, &counts);
    assert_int_equal(w->in_place, 0);
    check(w);
    assert_true(w->spent > w->copying);
    assert_true(counts.added > 100);
    /* Nearly all the time it rests, and comes back to look again. */
    assert_true(w->rested > w->sends / 2);
    const uint64_t looked = counts.looked;
    for (uintptr_t i = 0; i < 2000000; ++i) {
        use(w, 0x100000 + (100000 + i) * 8192);
    }
    check(w);
    freq_usage_count(&w->usage, &counts);
    assert_true(counts.looked > looked);
    assert_true(w->rested > w->sends / 10 * 9);
    world_free(w);
}

/* The cache ends what the table takes for registered: that is paid again, or copied. */
static void lost_registrations_are_paid(void **state)
{
    (void) state;
    world_t *w = world_new(3000, 150, 60, 10, 25);
    unsigned renewed = 0, sends = 0;
    for (; sends < 200000; ++sends) {
        freq_note_t *note;
        if (!freq_gate_passes(&w->gate, (void *) 0x100000)
            && freq_usage_find(&w->usage, (void *) 0x100000, SIZE, &note)) {
            renewed += freq_usage_may_renew(&w->usage, SIZE);
        } else {
            freq_gate_copied(&w->gate, SIZE);
        }
    }
    /* Each costs 3000; what is earned and (here wrongly) counted as gained is at most 0.9 * 90 for a send. */
    const unsigned most = sends * 81 / 3000 + FREQ_BUDGET_START;
    assert_in_range(renewed, 1, most + (unsigned) (young(w, FREQ_BUDGET_YOUNG) / 3000));
    assert_false(freq_usage_may_renew(&w->usage, 64));
    world_free(w);
}

/* What is gained keeps the looks going first, then pays for more. */
static void gains_go_where_they_are_needed(void **state)
{
    (void) state;
    world_t *w = world_new(3000, 150, 60, 10, 25);
    freq_budget_t *b = &w->usage.budget;
    const uint32_t class = freq_class_of(SIZE);
    b->looks = b->saved = 0;
    uint32_t gains = 0;
    for (; b->saved == 0; ++gains) {
        assert_in_range(gains, 0, 100000);
        freq_budget_gain(b, class, false);
    }
    assert_true(b->looks >= b->keep);
    /* Nine tenths of 90 ns, and the look that was paid. */
    const int64_t gained = 90 * FREQ_BUDGET_UNIT * 9 / 10, look = 10 * FREQ_BUDGET_UNIT;
    assert_int_equal(b->saved, gained);
    assert_int_equal(b->looks, (gains - 1) * (gained + look) + look);
    /* And where there is enough for registrations, for looks again. */
    const int64_t enough = FREQ_BUDGET_AHEAD * b->price[class], before = b->looks;
    b->saved = enough + 1;
    freq_budget_gain(b, class, false);
    assert_int_equal(b->saved, enough + 1);
    assert_int_equal(b->looks, before + gained + look);
    b->saved = enough;
    freq_budget_gain(b, class, false);
    assert_int_equal(b->saved, enough + gained);
    world_free(w);
}

/* More is looked at when it can be: looks are paid for, and what they find could be registered. */
static void who_is_rich(void **state)
{
    (void) state;
    world_t *w = world_new(3000, 150, 60, 10, 25);
    freq_budget_t *b = &w->usage.budget;
    const uint32_t class = freq_class_of(SIZE);
    const int64_t spent = 1000 * FREQ_BUDGET_UNIT;
    b->young = 0;
    b->saved = FREQ_BUDGET_AHEAD * b->price[class];
    b->looks = 2 * FREQ_BUDGET_RICH * spent;
    b->spent = spent;
    assert_true(freq_budget_is_rich(b, class));
    b->spent = spent + 1;
    assert_false(freq_budget_is_rich(b, class));
    assert_true(freq_budget_is_rich(b, class)); /* since then nothing was spent */
    /* What the first messages earn more is for finding out of those that are looked at. */
    b->spent = spent;
    b->young = 1;
    assert_false(freq_budget_is_rich(b, class));
    assert_true(freq_budget_is_rich(b, class)); /* of these there are none */
    b->saved -= 1;
    assert_false(freq_budget_is_rich(b, class));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_count_of_reuse_costs_more),
        cmocka_unit_test(dear_looks_cost_no_more),
        cmocka_unit_test(a_good_time_does_not_pay_for_a_bad_one),
        cmocka_unit_test(reuse_pays),
        cmocka_unit_test(a_part_of_the_buffers_is_seen_often_enough),
        cmocka_unit_test(no_reuse_no_looks),
        cmocka_unit_test(lost_registrations_are_paid),
        cmocka_unit_test(gains_go_where_they_are_needed),
        cmocka_unit_test(who_is_rich),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
