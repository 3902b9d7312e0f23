/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The table of uses of small buffers (freq_table.h): its counts beside a list of everything, and its budget in worlds where
 * everything takes a known time. */
#include "spec_unit.h"

#include "freq_table.h"

enum { LINES = 256, AFTER = 4, SIZE = 4096, PERMILLE = 5 };

typedef struct {
    freq_table_t table;
    freq_gate_t gate;
    uint32_t lines;
    freq_line_t *memory;
} counted_t;

static void *zeroed(size_t size)
{
    size = (size + 63) & ~(size_t) 63;
    void *memory = aligned_alloc(64, size);
    assert_non_null(memory);
    return memset(memory, 0, size);
}

static counted_t *counted_new(uint32_t lines, uint32_t after)
{
    counted_t *t = zeroed(sizeof(*t));
    t->lines = lines;
    t->memory = zeroed(lines * sizeof(freq_line_t));
    freq_table_init(&t->table, t->memory, lines, after, &t->gate);
    return t;
}

static void counted_free(counted_t *t)
{
    free(t->memory);
    free(t);
}

static freq_counts_t counts_of(counted_t *t)
{
    freq_counts_t counts;
    freq_table_count(&t->table, t->lines, &counts);
    return counts;
}

static bool use_at(counted_t *t, uint64_t address, size_t size)
{
    freq_note_t *note;
    return freq_table_find(&t->table, (const void *) (uintptr_t) address, size, &note);
}

/* Another buffer each time, on pages of its own. */
static uint64_t next(rng_t *rng)
{
    return UINT64_C(0x7f0000000000) + ((rng_next(rng) >> 24) & ~UINT64_C(8191));
}

/* ---- the gate ---- */

static void until_the_next_count_all_pass(void **state)
{
    (void) state;
    freq_gate_t gate = {.copies = 100, .due = 103, .sample = UINT32_MAX};
    const size_t size[] = {1000, 1, 2000};
    for (int i = 0; i < 3; ++i) {
        assert_true(freq_gate_passes(&gate, (void *) 0x12345000));
        assert_int_equal(gate.copies, 100 + i); /* it is not copied yet */
        freq_gate_copied(&gate, size[i]);
    }
    assert_int_equal(gate.copies, 103);
    assert_int_equal(gate.bytes_copied, 3001);
    assert_false(freq_gate_passes(&gate, (void *) 0x12345000));
}

static void a_sample_of_the_blocks_does_not_pass(void **state)
{
    (void) state;
    for (uint32_t bits = 0; bits <= 6; ++bits) {
        freq_gate_t gate = {.due = 1, .sample = (1u << bits) - 1};
        unsigned asked = 0;
        for (uintptr_t i = 1; i <= 64 * 1000; ++i) {
            const char *buffer = (const char *) (i * FREQ_BLOCK);
            const bool passes = freq_gate_passes(&gate, buffer);
            assert_int_equal(passes, freq_gate_passes(&gate, buffer + FREQ_BLOCK - 1));
            asked += !passes;
        }
        assert_in_range(asked, (64000 >> bits) * 9 / 10, (64000 >> bits) * 11 / 10);
        gate.copies = 1; /* something is due, whatever the buffer */
        assert_false(freq_gate_passes(&gate, (void *) 0x12345000));
    }
}

/* ---- counts ---- */

static void in_place_after_the_share(void **state)
{
    (void) state;
    counted_t *t = counted_new(LINES, AFTER);
    for (uint32_t n = 1; n <= 20; ++n) {
        assert_int_equal(use_at(t, 0x10000, 4096), n > AFTER);
        assert_int_equal(counts_of(t).frequent, n > AFTER);
        assert_int_equal(counts_of(t).copies_avoided, n > AFTER ? n - AFTER : 0);
        assert_int_equal(counts_of(t).searched, n);
    }
    /* another class of lengths is another buffer, a length of the same class is not */
    assert_false(use_at(t, 0x10000, 2048));
    assert_true(use_at(t, 0x10000, 4097));
    assert_false(use_at(t, 0x10001, 4096));
    assert_int_equal(counts_of(t).buffers, 3);
    counted_free(t);
}

static void small_and_hopeless_sizes_are_not_counted(void **state)
{
    (void) state;
    counted_t *t = counted_new(LINES, 1), *never = counted_new(LINES, FREQ_NEVER);
    for (uint32_t n = 0; n < 100; ++n) {
        assert_false(use_at(t, 0x10000, 127));
        assert_false(use_at(t, 0x10000, 0));
        assert_false(use_at(t, 0x10000, FREQ_SIZE_MAX + 1));
        assert_false(use_at(never, 0x10000, 8192));
    }
    assert_int_equal(counts_of(t).added + counts_of(never).added, 0);
    assert_int_equal(t->table.least, FREQ_SIZE_MIN);
    assert_int_equal(never->table.least, 0);
    counted_free(t);
    counted_free(never);
}

static void a_refused_buffer_is_counted_anew(void **state)
{
    (void) state;
    counted_t *t = counted_new(LINES, AFTER);
    for (uint32_t round = 0; round < 5; ++round) {
        for (uint32_t n = 0; n < AFTER; ++n) {
            assert_false(use_at(t, 0x10000, 4096));
        }
        assert_true(use_at(t, 0x10000, 4096));
        freq_table_refused(&t->table, (void *) 0x10000, 4096);
        assert_int_equal(counts_of(t).frequent, 0);
    }
    assert_int_equal(counts_of(t).refused, 5);
    assert_int_equal(counts_of(t).copies_avoided, 0);
    freq_table_refused(&t->table, (void *) 0x10000, 4096); /* it is not frequent */
    freq_table_refused(&t->table, (void *) 0x999, 4096);   /* unknown */
    freq_table_refused(&t->table, (void *) 0x999, 1);
    assert_int_equal(counts_of(t).copies_avoided, 0);
    assert_int_equal(counts_of(t).buffers, 1);
    counted_free(t);
}

static void a_full_count_is_enough(void **state)
{
    (void) state;
    counted_t *t = counted_new(4, UINT32_MAX);
    (void) use_at(t, 0x10000, 4096);
    for (uint32_t l = 0; l < 4; ++l) {
        if (0 != t->memory[l].key[0]) {
            t->memory[l].state[0] += FREQ_COUNT_MAX - 2;
        }
    }
    assert_false(use_at(t, 0x10000, 4096));
    assert_true(use_at(t, 0x10000, 4096));
    assert_int_equal(counts_of(t).frequent, 1);
    counted_free(t);
}

/* In a table with room for all of them, buffers are what a list of everything says. */
static void as_the_list(void **state)
{
    (void) state;
    enum { BUFFERS = 300 };
    rng_t rng = {7};
    for (uint32_t round = 0; round < 20; ++round) {
        counted_t *t = counted_new(65536, AFTER);
        uint64_t address[BUFFERS], avoided = 0, frequent = 0, known = 0;
        uint32_t size[BUFFERS], count[BUFFERS] = {0};
        for (uint32_t i = 0; i < BUFFERS; ++i) {
            size[i] = (uint32_t) freq_class_size(rng_below(&rng, freq_class_of(8192)));
            address[i] = next(&rng) + i * 8;
        }
        for (uint32_t n = 0; n < 20000; ++n) {
            const uint32_t i = rng_below(&rng, BUFFERS);
            const bool expected = ++count[i] > AFTER;
            avoided += expected;
            assert_int_equal(use_at(t, address[i], size[i]), expected);
        }
        for (uint32_t i = 0; i < BUFFERS; ++i) {
            known += count[i] > 0;
            frequent += count[i] > AFTER;
        }
        assert_int_equal(counts_of(t).copies_avoided, avoided);
        assert_int_equal(counts_of(t).buffers, known);
        assert_int_equal(counts_of(t).added, known);
        assert_int_equal(counts_of(t).frequent, frequent);
        assert_int_equal(counts_of(t).replaced, 0);
        counted_free(t);
    }
}

/* One line of it, beside the rule in the plainest form. */
static void a_full_line_is_as_the_rule_says(void **state)
{
    (void) state;
    enum { BUFFERS = 8 };
    rng_t rng = {8};
    for (uint32_t round = 0; round < 200; ++round) {
        counted_t *t = counted_new(4, 20);
        uint64_t buffer[BUFFERS];
        struct {
            uint64_t address;
            uint32_t count;
            bool is_frequent;
        } way[FREQ_WAYS] = {{0, 0, false}};
        for (uint32_t i = 0; i < BUFFERS;) { /* of the same line */
            counted_t *probe = counted_new(4, 20);
            buffer[i] = next(&rng);
            (void) use_at(probe, buffer[i], SIZE);
            i += 0 != probe->memory[2].key[0];
            counted_free(probe);
        }
        for (uint32_t n = 0; n < 2000; ++n) {
            const uint64_t b = buffer[rng_percent(&rng, 70) ? 0 : rng_below(&rng, BUFFERS)];
            bool expected = false;
            uint32_t at = 0;
            while (at < FREQ_WAYS && b != way[at].address) {
                ++at;
            }
            if (at < FREQ_WAYS) {
                expected = way[at].is_frequent || way[at].count >= 20;
                way[at].is_frequent = expected;
                way[at].count = expected ? FREQ_STAY : way[at].count + 1;
            } else {
                for (at = 0; at < FREQ_WAYS && 0 != way[at].count; ++at) {}
                if (at < FREQ_WAYS) {
                    way[at].address = b;
                    way[at].count = 1;
                    way[at].is_frequent = false;
                }
                for (uint32_t i = 0; FREQ_WAYS == at && i < FREQ_WAYS; ++i) {
                    --way[i].count;
                }
            }
            assert_int_equal(use_at(t, b, SIZE), expected);
        }
        assert_true(counts_of(t).replaced > 0);
        counted_free(t);
    }
}

/* What is used stays, whatever comes by; what is not goes, and its note with it. */
static void who_is_used_stays(void **state)
{
    (void) state;
    counted_t *t = counted_new(LINES, AFTER);
    rng_t rng = {11};
    freq_note_t *note = NULL;
    for (uint32_t n = 0; n < 20 * 10; ++n) {
        if (freq_table_find(&t->table, (void *) (uintptr_t) (0x10000 + 8192 * (n % 20)), SIZE,
                            &note)) {
            atomic_store(note, t);
        }
    }
    for (uint32_t round = 0; round < 20000; ++round) {
        assert_true(use_at(t, 0x10000 + 8192 * (round % 20), SIZE));
        (void) use_at(t, next(&rng), SIZE);
    }
    assert_int_equal(counts_of(t).frequent, 20);
    for (uint32_t i = 0; i < 1000 * LINES; ++i) {
        (void) use_at(t, next(&rng), SIZE);
    }
    assert_int_equal(counts_of(t).frequent, 0);
    for (uint32_t l = 0; l < LINES; ++l) {
        for (uint32_t i = 0; i < FREQ_WAYS; ++i) {
            assert_null(atomic_load(&t->memory[l].note[i]));
        }
    }
    /* and the table serves what comes next */
    for (uint32_t n = 0; n < 20 * 50; ++n) {
        (void) use_at(t, 0x900000 + 8192 * (n % 20), SIZE);
    }
    assert_int_equal(counts_of(t).frequent, 20);
    counted_free(t);
}

/* ---- the budget ---- */

typedef struct {
    counted_t *t;
    freq_costs_t costs;
    double took;    /* ns: by a registration */
    double copying; /* ns, if all were copied */
    double spent;   /* ns, with the table */
    unsigned registered, in_place, sends;
} world_t;

/* C, R and what a search takes are the same for every size. */
static world_t world_new(double r, double c, double v, double search)
{
    world_t w = {.t = counted_new(1024, FREQ_NEVER), .took = r};
    w.costs = (freq_costs_t){.v = v, .search = search};
    for (int i = 0; i < FREQ_POINTS; ++i) {
        w.costs.r[i] = r;
        w.costs.c[i] = c;
    }
    freq_table_by_costs(&w.t->table, &w.costs, 25, PERMILLE);
    return w;
}

static void world_free(world_t *w)
{
    counted_free(w->t);
}

static uint64_t in_vain(const world_t *w)
{
    return w->t->table.in_vain;
}

/* As a transport does it. What is spent is counted by what the table says that it did. */
static void use(world_t *w, uintptr_t address)
{
    static char registration;
    const double c = w->costs.c[0];
    freq_gate_t *gate = &w->t->gate;
    w->copying += c;
    ++w->sends;
    freq_note_t *note;
    const uint64_t before = in_vain(w);
    if (!freq_gate_passes(gate, (void *) address)
        && freq_table_find(&w->t->table, (void *) address, SIZE, &note)) {
        ++w->in_place;
        w->spent += w->costs.v;
        if (NULL == atomic_load(note)) {
            ++w->registered;
            w->spent += w->took;
            freq_table_registered(&w->t->table, SIZE, (uint64_t) w->took);
            atomic_store(note, &registration);
        }
    } else {
        freq_gate_copied(gate, SIZE);
        w->spent += c;
    }
    w->spent += w->costs.search * (double) (in_vain(w) - before);
}

/* The bound, at every moment: one search and one registration may be ahead of their pay, and a picosecond is earned by each
 * copy whatever it costs. */
static void check(const world_t *w)
{
    const double ahead = w->costs.search + w->took + 1;
    assert_true(w->spent <= w->copying * (1 + PERMILLE / 1000.0)
                                + (FREQ_START + FREQ_BELOW) * w->costs.r[0] + ahead
                                + 1e-3 * w->sends);
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
                world_t w = world_new(prices[p], 150, 60, 60);
                uintptr_t address = 0x100000;
                while (w.sends < 60000) {
                    for (unsigned n = 0; n < uses[u]; ++n) {
                        for (unsigned i = 0; i < turns[t]; ++i) {
                            use(&w, address + i * 8192);
                        }
                        check(&w);
                    }
                    address += turns[t] * 8192;
                }
                world_free(&w);
            }
        }
    }
}

/* Good for long, then as bad as can be: what was gained is not all lost again. */
static void a_good_time_does_not_pay_for_a_bad_one(void **state)
{
    (void) state;
    world_t w = world_new(3000, 150, 60, 60);
    for (unsigned i = 0; i < 300000; ++i) {
        use(&w, 0x100000 + i % 20 * 8192);
    }
    assert_int_equal(w.registered, 20);
    assert_int_equal(w.t->table.balance, (int64_t) FREQ_MOST * 3000 * 1000);
    const double gained = w.copying - w.spent;
    assert_true(gained > 0.5 * w.copying);
    const unsigned after = freq_table_scale(&w.t->table)->rule.after[freq_class_of(SIZE)] + 1;
    for (uintptr_t address = 0x10000000; w.sends < 600000; address += 8192) {
        for (unsigned i = 0; i < after; ++i) { /* once in place, and never again */
            use(&w, address);
        }
    }
    assert_true(gained - (w.copying - w.spent)
                <= 3000.0 * (FREQ_MOST + FREQ_BELOW + 1) + 300000 * 150 * PERMILLE / 1000.0 + 1000);
    world_free(&w);
}

/* The budget is no excuse for doing nothing: buffers that are reused are nearly all in place in the end. */
static void reuse_pays(void **state)
{
    (void) state;
    world_t w = world_new(3000, 150, 60, 60);
    for (unsigned i = 0; i < 500000; ++i) {
        use(&w, 0x100000 + i % 500 * 8192);
    }
    check(&w);
    assert_int_equal(w.registered, 500);
    assert_true(w.in_place > 300000);
    assert_true(w.spent < 0.8 * w.copying);
    world_free(&w);
}

/* A dear adapter: a buffer must be used many times before it is worth it. Not every use of 100 buffers can be searched for so
 * often; uses of some of them can. */
static void a_part_of_the_buffers_is_counted_often_enough(void **state)
{
    (void) state;
    world_t w = world_new(20000, 150, 60, 60);
    while (0 == w.registered && w.sends < 200000) {
        use(&w, 0x100000 + w.sends % 100 * 8192);
    }
    assert_in_range(w.sends, 100, 10000);
    while (w.sends < 2000000) {
        use(&w, 0x100000 + w.sends % 100 * 8192);
    }
    check(&w);
    assert_int_equal(w.registered, 100);
    assert_true(w.in_place > 1500000);
    world_free(&w);
}

/* One buffer, whose block is not in the sample at first. */
static void a_single_buffer_is_found(void **state)
{
    (void) state;
    uintptr_t address = FREQ_BLOCK;
    while (freq_gate_has(FREQ_SAMPLE_START, (void *) address)) {
        address += FREQ_BLOCK;
    }
    world_t w = world_new(3000, 150, 60, 60);
    for (unsigned i = 0; i < 20000; ++i) {
        use(&w, address);
    }
    assert_int_equal(w.registered, 1);
    assert_true(w.in_place > 10000);
    world_free(&w);
}

/* Nothing is reused: next to nothing is searched for. */
static void no_reuse_no_searches(void **state)
{
    (void) state;
    world_t w = world_new(3000, 150, 60, 60);
    for (uintptr_t i = 0; i < 100000; ++i) {
        use(&w, 0x100000 + i * 8192);
    }
    assert_int_equal(w.in_place, 0);
    check(&w);
    assert_true(w.spent > w.copying);
    assert_true(in_vain(&w) > 100);
    assert_int_equal(w.t->gate.sample, FREQ_SAMPLE_MOST);
    /* Only what copies earn is searched for. */
    const uint64_t searched = in_vain(&w);
    for (uintptr_t i = 0; i < 2000000; ++i) {
        use(&w, 0x100000 + (100000 + i) * 8192);
    }
    check(&w);
    assert_in_range(in_vain(&w) - searched, 1, 2000000 * 150 / 1000 * PERMILLE / 60 + FREQ_SETTLE);
    world_free(&w);
}

/* The cache ends what the table takes for registered: that is paid again, or copied, and gains nothing. */
static void lost_registrations_are_paid(void **state)
{
    (void) state;
    world_t w = world_new(3000, 150, 60, 60);
    unsigned renewed = 0, sends = 0;
    for (; sends < 200000; ++sends) {
        freq_note_t *note;
        if (!freq_gate_passes(&w.t->gate, (void *) 0x100000)
            && freq_table_find(&w.t->table, (void *) 0x100000, SIZE, &note)
            && freq_table_may_renew(&w.t->table, SIZE)) {
            freq_table_registered(&w.t->table, SIZE, 3000);
            ++renewed;
        } else {
            freq_gate_copied(&w.t->gate, SIZE);
        }
    }
    assert_in_range(renewed, 1, FREQ_START + (unsigned) (sends * 150 * PERMILLE / 1000 / 2910) + 1);
    assert_false(freq_table_may_renew(&w.t->table, 64));
    const int64_t enough = FREQ_AHEAD * (int64_t) 3000 * 1000
                           + freq_table_scale(&w.t->table)->gains[freq_class_of(SIZE)];
    w.t->table.balance = enough - 1;
    assert_false(freq_table_may_renew(&w.t->table, SIZE));
    w.t->table.balance = enough;
    assert_true(freq_table_may_renew(&w.t->table, SIZE));
    world_free(&w);
}

/* A registration is paid when it was made, as what it took: but not for what the machine did meanwhile. */
static void what_a_registration_took_is_paid(void **state)
{
    (void) state;
    world_t w = world_new(4000, 150, 60, 60);
    freq_table_t *t = &w.t->table;
    const int64_t before = t->balance;
    freq_table_registered(t, SIZE, 1000);
    assert_int_equal(t->balance, before - 1000 * 1000);
    freq_table_registered(t, SIZE, UINT64_MAX / 2);
    assert_int_equal(t->balance, before - 1000 * 1000 - (int64_t) FREQ_DEAREST * 4000 * 1000);
    freq_table_registered(t, 64, 1); /* of no class */
    assert_int_equal(t->balance, before - 1000 * 1000 - (int64_t) FREQ_DEAREST * 4000 * 1000);

    /* None is made without two in the balance, and the buffer asks again at its next use. */
    t->balance = 0;
    w.t->gate.sample = 0;
    for (unsigned i = 0; i < 200; ++i) {
        t->balance = FREQ_AHEAD * 4000 * 1000 - 1;
        assert_false(use_at(w.t, 0x10000, SIZE));
    }
    t->balance = FREQ_AHEAD * 4000 * 1000;
    assert_true(use_at(w.t, 0x10000, SIZE));
    world_free(&w);
}

/* More buffers are counted while that pays, and what is found could be registered; fewer where it does not, and the balance is
 * used up. */
static void more_are_counted_where_it_pays(void **state)
{
    (void) state;
    static const struct {
        int balance; /* thousandths of a registration */
        unsigned in_place, in_vain;
        uint32_t sample;
    } cases[] = {{FREQ_MORE * 1000, 0, 0, FREQ_SAMPLE_START / 2},
                 {FREQ_MORE * 1000 - 1, 0, 0, FREQ_SAMPLE_START},
                 {FREQ_MORE * 1000, 100, 60, FREQ_SAMPLE_START / 2}, /* gains 72, a search 60 */
                 {FREQ_MORE * 1000, 100, 61, FREQ_SAMPLE_START},
                 {FREQ_MORE * 1000, 0, 1, FREQ_SAMPLE_START},
                 {0, 0, 1, FREQ_SAMPLE_START},
                 {-1, 0, 1, 2 * FREQ_SAMPLE_START + 1},
                 {-1, 100, 119, FREQ_SAMPLE_START},
                 {-1, 100, 121, 2 * FREQ_SAMPLE_START + 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
        world_t w = world_new(3000, 150, 60, 60);
        freq_table_t *t = &w.t->table;
        t->balance = cases[i].balance * (int64_t) 3000;
        t->avoided = cases[i].in_place;
        t->in_vain = cases[i].in_vain;
        for (unsigned k = 0; k < FREQ_SETTLE; ++k) {
            freq_gate_copied(&w.t->gate, SIZE);
        }
        (void) use_at(w.t, 0x10000, SIZE);
        assert_int_equal(w.t->gate.sample, cases[i].sample);
        assert_int_equal(w.t->gate.due, 2 * FREQ_SETTLE);
        world_free(&w);
    }
}

/* What is frequent stays in place while the balance is a little below zero; then nothing is searched for. */
static void a_little_credit_is_given(void **state)
{
    (void) state;
    world_t w = world_new(3000, 150, 60, 60);
    freq_table_t *t = &w.t->table;
    w.t->gate.sample = 0;
    while (!use_at(w.t, 0x10000, SIZE)) {}
    t->balance = -FREQ_BELOW * (int64_t) 3000 * 1000;
    assert_true(use_at(w.t, 0x10000, SIZE));
    const uint64_t searched = in_vain(&w);
    t->balance = -FREQ_BELOW * (int64_t) 3000 * 1000 - 1;
    assert_false(use_at(w.t, 0x10000, SIZE));
    assert_false(use_at(w.t, 0x20000, SIZE));
    assert_int_equal(in_vain(&w), searched);
    world_free(&w);
}

/* What gains too little is not asked of at all. */
static void the_least_size_gains_a_search(void **state)
{
    (void) state;
    world_t w = world_new(4000, 150, 50, 10);
    freq_table_t *t = &w.t->table;
    for (int i = 0; i < FREQ_POINTS; ++i) {
        w.costs.c[i] =
            10 << i; /* 80 ns at 1024 bytes, 160 at 2048; copies may take 2.44 times as long */
    }
    freq_table_by_costs(t, &w.costs, 25, PERMILLE);
    assert_int_equal(t->least, 384); /* 73 ns: a quarter of it above 50 */
    assert_int_equal(freq_table_scale(t)->rule.after[freq_class_of(768)], FREQ_NEVER);
    w.costs.search = 90;
    freq_table_by_costs(t, &w.costs, 25, PERMILLE);
    assert_int_equal(t->least, 768);         /* 146 ns */
    freq_table_by_costs(t, &w.costs, 25, 0); /* the rule alone */
    assert_int_equal(t->least, 384);
    assert_false(t->is_bounded);
    w.costs.v = 1e6;
    freq_table_by_costs(t, &w.costs, 25, PERMILLE);
    assert_int_equal(t->least, 0);
    world_free(&w);
}

/* The rule is that of the shortest of the last few copies that were timed. */
static void copies_are_timed(void **state)
{
    (void) state;
    world_t w = world_new(4000, 1e6, 50, 10); /* ns: more than the clock takes */
    freq_table_t *t = &w.t->table;
    freq_gate_t *gate = &w.t->gate;
    static const struct {
        double times;
        uint32_t scale;
    } copies[] = {{9, 0}, {9, 0},   {9, 0},   {9, 4}, {1.3, 1}, {2.1, 1}, {1.7, 1},
                  {9, 1}, {2.1, 2}, {2.1, 2}, {9, 3}, {9, 3},   {0.5, 0}, {9, 0}};
    for (size_t i = 0; i < sizeof(copies) / sizeof(*copies); ++i) {
        gate->timed = (uint64_t) (copies[i].times * 1e6) << 32 | SIZE;
        gate->copies += FREQ_SETTLE;
        gate->bytes_copied += FREQ_SETTLE * SIZE;
        (void) use_at(w.t, 0x10000, SIZE);
        assert_int_equal(t->scale, copies[i].scale);
        assert_int_equal(gate->timed, 0);
    }
    const uint32_t class = freq_class_of(SIZE);
    for (uint32_t i = 1; i < FREQ_SCALES; ++i) {
        assert_true(t->by[i].rule.n[class] <= t->by[i - 1].rule.n[class]);
        assert_true(t->by[i].gains[class] > t->by[i - 1].gains[class]);
        assert_true(t->by[i].earns[class] > t->by[i - 1].earns[class]);
    }
    world_free(&w);
}

/* One copy in so many is timed, of those that the table is asked of. */
static void few_copies_are_timed(void **state)
{
    (void) state;
    freq_gate_t gate = {.due = UINT64_MAX};
    unsigned timed = 0;
    for (unsigned i = 0; i < 4 * FREQ_TIMED_APART; ++i) {
        const uint64_t start = freq_gate_copy_starts(&gate);
        freq_gate_copy_ends(&gate, start, SIZE);
        timed += 0 != gate.timed;
        assert_true(0 == gate.timed || SIZE == (uint32_t) gate.timed);
        gate.timed = 0;
    }
    assert_int_equal(timed, 4);
    assert_int_equal(gate.copies, 4 * FREQ_TIMED_APART);
    assert_int_equal(freq_gate_copy_starts(NULL), 0);
    freq_gate_copy_ends(NULL, 0, SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_the_next_count_all_pass),
        cmocka_unit_test(few_copies_are_timed),
        cmocka_unit_test(copies_are_timed),
        cmocka_unit_test(a_sample_of_the_blocks_does_not_pass),
        cmocka_unit_test(in_place_after_the_share),
        cmocka_unit_test(small_and_hopeless_sizes_are_not_counted),
        cmocka_unit_test(a_refused_buffer_is_counted_anew),
        cmocka_unit_test(a_full_count_is_enough),
        cmocka_unit_test(as_the_list),
        cmocka_unit_test(a_full_line_is_as_the_rule_says),
        cmocka_unit_test(who_is_used_stays),
        cmocka_unit_test(no_count_of_reuse_costs_more),
        cmocka_unit_test(a_good_time_does_not_pay_for_a_bad_one),
        cmocka_unit_test(reuse_pays),
        cmocka_unit_test(a_part_of_the_buffers_is_counted_often_enough),
        cmocka_unit_test(a_single_buffer_is_found),
        cmocka_unit_test(no_reuse_no_searches),
        cmocka_unit_test(lost_registrations_are_paid),
        cmocka_unit_test(what_a_registration_took_is_paid),
        cmocka_unit_test(a_little_credit_is_given),
        cmocka_unit_test(more_are_counted_where_it_pays),
        cmocka_unit_test(the_least_size_gains_a_search),
    };
    return cmocka_run_group_tests_name("freq_table", tests, NULL, NULL);
}
