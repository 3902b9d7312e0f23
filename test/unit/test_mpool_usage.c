/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The table of buffer usage (freq_usage.h) and memory that goes away (freq_release.h), beside lists
 * of everything. */
#include "spec_unit.h"

#include "freq_usage.h"

enum { LINES = 256, AFTER = 4 };

typedef struct {
    freq_usage_t usage;
    freq_release_t release;
    freq_gate_t gate;
    void *memory;
} table_t;

static table_t *table_new(uint32_t lines, uint32_t after)
{
    table_t *t = aligned_alloc(64, (sizeof(*t) + 63) & ~(size_t) 63);
    assert_non_null(t);
    memset(t, 0, sizeof(*t));
    t->memory = aligned_alloc(64, (freq_usage_bytes(lines) + 63) & ~(size_t) 63);
    assert_non_null(t->memory);
    memset(t->memory, 0, freq_usage_bytes(lines));
    freq_rule_t rule;
    freq_rule_fixed(&rule, after);
    freq_usage_init(&t->usage, t->memory, lines, &rule, &t->release, &t->gate);
    return t;
}

static void table_free(table_t *t)
{
    free(t->memory);
    free(t);
}

static freq_usage_counts_t counts_of(table_t *t)
{
    freq_usage_counts_t counts;
    freq_usage_count(&t->usage, &counts);
    return counts;
}

/* Another buffer each time, on pages of its own. */
static uint64_t next(rng_t *rng)
{
    return UINT64_C(0x7f0000000000) + ((rng_next(rng) >> 24) & ~UINT64_C(8191));
}

static const char *at(uint64_t address)
{
    return (const char *) (uintptr_t) address;
}

/* ---- counting ---- */

static void in_place_after_the_share(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, AFTER);
    for (uint32_t use = 1; use <= 20; ++use) {
        assert_int_equal(freq_usage_look(&t->usage, at(0x10000), 4096), use > AFTER);
        assert_int_equal(counts_of(t).frequent, use > AFTER);
        assert_int_equal(counts_of(t).copies_avoided, use > AFTER ? use - AFTER : 0);
    }
    /* another class of lengths is another buffer, a length of the same class is not */
    assert_false(freq_usage_look(&t->usage, at(0x10000), 2048));
    assert_true(freq_usage_look(&t->usage, at(0x10000), 4097));
    assert_false(freq_usage_look(&t->usage, at(0x10001), 4096));
    assert_int_equal(counts_of(t).buffers, 3);
    table_free(t);
}

static void small_and_hopeless_sizes_are_not_looked_at(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, 1);
    for (uint32_t use = 0; use < 100; ++use) {
        assert_false(freq_usage_look(&t->usage, at(0x10000), 127));
        assert_false(freq_usage_look(&t->usage, at(0x10000), 0));
        assert_false(freq_usage_look(&t->usage, at(0x10000), FREQ_SIZE_MAX + 1));
    }
    assert_int_equal(counts_of(t).added, 0);
    freq_rule_t rule;
    freq_rule_fixed(&rule, FREQ_NEVER);
    t->usage.rule = rule;
    for (uint32_t use = 0; use < 100; ++use) {
        assert_false(freq_usage_look(&t->usage, at(0x10000), 8192));
    }
    assert_int_equal(counts_of(t).added, 0);
    table_free(t);
}

static void refusal_has_to_be_earned_off(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, AFTER);
    for (uint32_t round = 0; round < 5; ++round) {
        for (uint32_t use = 0; use < AFTER; ++use) {
            assert_false(freq_usage_look(&t->usage, at(0x10000), 4096));
        }
        assert_true(freq_usage_look(&t->usage, at(0x10000), 4096));
        freq_usage_refused(&t->usage, at(0x10000), 4096);
    }
    assert_int_equal(counts_of(t).refused, 5);
    assert_int_equal(counts_of(t).copies_avoided, 0);
    freq_usage_refused(&t->usage, at(0x999), 4096); /* unknown */
    freq_usage_refused(&t->usage, at(0x999), 1);
    assert_int_equal(counts_of(t).buffers, 1);
    table_free(t);
}

static void a_full_count_goes_on(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, 1);
    assert_false(freq_usage_look(&t->usage, at(0x10000), 4096));
    freq_entry_t *entry = NULL;
    for (uint32_t l = 0; l < LINES; ++l) {
        if (0 != t->usage.line[l].entry[0].key) {
            entry = &t->usage.line[l].entry[0];
        }
    }
    assert_non_null(entry);
    entry->state = (entry->state & ~FREQ_COUNT_MAX) | (FREQ_COUNT_MAX - 2);
    const uint64_t avoided = counts_of(t).copies_avoided;
    for (uint32_t use = 1; use < 10; ++use) {
        assert_true(freq_usage_look(&t->usage, at(0x10000), 4096));
        assert_int_equal(counts_of(t).copies_avoided, avoided + use);
        assert_int_equal(counts_of(t).buffers, 1);
    }
    table_free(t);
}

/* ---- beside a list of everything ---- */

enum { BUFFERS = 300, PAGES = 64 };

typedef struct {
    uint64_t address;
    size_t size;
    uint32_t count;
} buffer_t;

/* Pages with places of their own, so that the table may drop nothing but what was given back. */
static void choose_pages(rng_t *rng, uint64_t *page)
{
    bool taken[FREQ_PAGE_PLACES] = {false}, block_taken[FREQ_BLOCK_PLACES] = {false};
    for (uint32_t i = 0; i < PAGES;) {
        const uint64_t p = (UINT64_C(0x7f0000000) + rng_below(rng, 1 << 30)) & ~UINT64_C(3);
        bool is_free = true;
        for (uint64_t b = p >> 9; b < (p >> 9) + 3; ++b) {
            is_free = is_free && !block_taken[freq_release_place(b, FREQ_BLOCK_PLACES)];
        }
        for (uint64_t q = p; q < p + 4; ++q) { /* buffers reach into the next ones */
            is_free = is_free && !taken[freq_release_place(q, FREQ_PAGE_PLACES)];
        }
        if (!is_free || (p & 511) > 500) {
            continue;
        }
        for (uint64_t q = p; q < p + 4; ++q) {
            taken[freq_release_place(q, FREQ_PAGE_PLACES)] = true;
        }
        for (uint64_t b = p >> 9; b < (p >> 9) + 3; ++b) {
            block_taken[freq_release_place(b, FREQ_BLOCK_PLACES)] = true;
        }
        page[i++] = p;
    }
}

static void as_the_list(void **state)
{
    (void) state;
    rng_t rng = {7};
    for (uint32_t round = 0; round < 20; ++round) {
        table_t *t = table_new(4096, AFTER);
        uint64_t page[PAGES], avoided = 0;
        buffer_t buffer[BUFFERS] = {{0, 0, 0}};
        choose_pages(&rng, page);
        for (uint32_t i = 0; i < BUFFERS; ++i) {
            buffer[i].size = freq_class_size(rng_below(&rng, freq_class_of(8192)));
            /* different ones: the address says the number */
            buffer[i].address = (page[rng_below(&rng, PAGES)] << 12) + i * 8;
        }
        for (uint32_t use = 0; use < 100000; ++use) {
            buffer_t *b = &buffer[rng_below(&rng, BUFFERS)];
            if (rng_percent(&rng, 1)) {
                /* some memory goes away: a few pages, or a block, or nothing */
                uint64_t base = page[rng_below(&rng, PAGES)] << 12;
                size_t size = rng_below(&rng, 3 << 12);
                if (rng_percent(&rng, 10)) {
                    base &= ~UINT64_C(0x1fffff);
                    size = (size_t) (1 + rng_below(&rng, 3)) << 21;
                }
                freq_release_memory(&t->release, base, size);
                for (uint32_t i = 0; i < BUFFERS && size > 0; ++i) {
                    const uint64_t first = buffer[i].address >> 12;
                    const uint64_t last = (buffer[i].address + buffer[i].size - 1) >> 12;
                    if (first <= (base + size - 1) >> 12 && base >> 12 <= last) {
                        buffer[i].count = 0;
                    }
                }
            }
            const bool expected = ++b->count > AFTER;
            avoided += expected;
            assert_int_equal(freq_usage_look(&t->usage, at(b->address), b->size), expected);
        }
        assert_int_equal(counts_of(t).copies_avoided, avoided);
        uint64_t frequent = 0, known = 0;
        for (uint32_t i = 0; i < BUFFERS; ++i) {
            known += buffer[i].count > 0;
            frequent += buffer[i].count > AFTER;
        }
        assert_int_equal(counts_of(t).buffers, known);
        assert_int_equal(counts_of(t).frequent, frequent);
        assert_int_equal(counts_of(t).closings, 0);
        table_free(t);
    }
}

/* ---- memory that goes away ---- */

static void released_is_void(void **state)
{
    (void) state;
    rng_t rng = {9};
    freq_release_t *release = must_alloc(sizeof(*release));
    for (uint32_t round = 0; round < 100000; ++round) {
        const uintptr_t base = rng_next(&rng) >> 20 & ~(uintptr_t) 63;
        const uint32_t log = rng_below(&rng, 34);
        const size_t size = 1 + (rng_next(&rng) & ((UINT64_C(1) << log) - 1));
        const uint64_t before = freq_release_now(release);
        freq_release_memory(release, base, size);
        /* any buffer that touches it: in the middle, over its edges */
        const uintptr_t inside = base + rng_next(&rng) % size;
        assert_true(freq_release_is_void(release, inside, 1, before));
        assert_true(freq_release_is_void(release, base - 100, 101, before));
        assert_true(freq_release_is_void(release, base + size - 1, 8192, before));
        assert_false(freq_release_is_void(release, inside, 1, freq_release_now(release)));
    }
    freq_release_memory(release, UINTPTR_MAX - 4095, SIZE_MAX); /* beyond the end */
    freq_release_memory(release, 0x1000, 0);
    free(release);
}

static void little_else_is_void(void **state)
{
    (void) state;
    rng_t rng = {10};
    freq_release_t *release = must_alloc(sizeof(*release));
    uint32_t wrong = 0;
    for (uint32_t round = 0; round < 10000; ++round) {
        const uintptr_t base = (rng_next(&rng) >> 20) & ~(uintptr_t) 4095;
        const uint64_t before = freq_release_now(release);
        freq_release_memory(release, base, 64 << 12);
        wrong += freq_release_is_void(release, base - (1 + rng_below(&rng, 1 << 20)) * 4096ul, 64,
                                      before);
        wrong += freq_release_is_void(release, base + (64 + rng_below(&rng, 1 << 20)) * 4096ul, 64,
                                      before);
    }
    /* 64 of 8192 places were noted: about 0.8 % */
    assert_in_range(wrong, 0, 20000 * 2 / 100);
    free(release);
}

/* ---- growth ---- */

static void closes_when_nothing_is_reused(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, AFTER);
    rng_t rng = {11};
    uint32_t uses = 0;
    while (!counts_of(t).closed) {
        assert_false(freq_usage_look(&t->usage, at(next(&rng)), 4096));
        assert_in_range(++uses, 1, LINES * FREQ_LINE_ENTRIES);
    }
    /* not before it chained: some home line is full, and none has a buffer of another */
    uint32_t full = 0;
    for (uint32_t l = 0; l < LINES; ++l) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < FREQ_LINE_ENTRIES; ++i) {
            const uint64_t key = t->usage.line[l].entry[i].key;
            n += 0 != key;
            assert_true(0 == key || freq_usage_home(&t->usage, key) == l);
        }
        full += FREQ_LINE_ENTRIES == n;
    }
    assert_true(full > 0);
    const uint64_t added = counts_of(t).added;
    assert_int_equal(added, uses - 1);
    for (uint32_t i = 0; i < 100000; ++i) {
        assert_false(freq_usage_look(&t->usage, at(next(&rng)), 4096));
    }
    assert_int_equal(counts_of(t).added, added);
    assert_true(counts_of(t).asleep);
    assert_int_equal(counts_of(t).closings, 1);
    assert_int_equal(counts_of(t).openings, 0);
    table_free(t);
}

/* A quarter of the buffers is frequent: condition (1) is not met, the table chains and grows until
 * it is full. */
static void grows_while_a_fifth_is_frequent(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, 1);
    rng_t rng = {11};
    bool chained = false;
    for (uint32_t i = 0; i < 2 * LINES; ++i) {
        const uint64_t address = next(&rng);
        for (uint32_t use = 0; use < (i % 4 ? 1 : 5); ++use) {
            assert_int_equal(freq_usage_look(&t->usage, at(address), 4096), use > 0);
        }
        chained = chained || t->usage.chained;
        assert_false(counts_of(t).closed);
    }
    assert_true(chained);
    assert_int_equal(counts_of(t).buffers, 2 * LINES);
    table_free(t);
}

static void frequent_ones_stay_while_closed(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, AFTER);
    rng_t rng = {11};
    for (uint32_t i = 0; i < 20; ++i) {
        for (uint32_t use = 0; use < 10; ++use) {
            (void) freq_usage_look(&t->usage, at(0x10000 + 8192 * i), 4096);
        }
    }
    while (!counts_of(t).closed) {
        (void) freq_usage_look(&t->usage, at(next(&rng)), 4096);
    }
    for (uint32_t round = 0; round < 10000; ++round) {
        assert_true(freq_usage_look(&t->usage, at(0x10000 + 8192 * (round % 20)), 4096));
        (void) freq_usage_look(&t->usage, at(next(&rng)), 4096);
    }
    assert_false(counts_of(t).asleep);
    assert_true(counts_of(t).closed);
    /* and if they were not used for long, they wake it */
    for (uint32_t i = 0; i < 100000; ++i) {
        (void) freq_usage_look(&t->usage, at(next(&rng)), 4096);
    }
    assert_true(counts_of(t).asleep);
    for (uint32_t i = 0; i < FREQ_ASLEEP_STRIDE; ++i) {
        (void) freq_usage_look(&t->usage, at(0x10000), 4096);
    }
    assert_false(counts_of(t).asleep);
    assert_true(freq_usage_look(&t->usage, at(0x10000), 4096));
    table_free(t);
}

static void opens_when_the_pattern_changes(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, AFTER);
    rng_t rng = {11};
    for (uint32_t phase = 0; phase < 4; ++phase) {
        for (uint32_t i = 0; i < 50000; ++i) {
            (void) freq_usage_look(&t->usage, at(next(&rng)), 4096);
        }
        assert_true(counts_of(t).closed);
        assert_int_equal(counts_of(t).openings, phase);
        const uint64_t reused = next(&rng);
        bool in_place = false;
        for (uint32_t i = 0; i < 100000; ++i) {
            in_place = freq_usage_look(&t->usage, at(reused + 8192 * (i % 50)), 4096);
        }
        assert_true(in_place);
        assert_int_equal(counts_of(t).openings, phase + 1);
        assert_false(counts_of(t).closed);
        assert_in_range(counts_of(t).frequent, 50, 50 * (phase + 1));
        assert_in_range(counts_of(t).buffers, 50, 50 * (phase + 1));
    }
    table_free(t);
}

/* Reuse below a fifth does not open it. */
static void stays_closed_with_little_reuse(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, AFTER);
    rng_t rng = {11};
    for (uint32_t i = 0; i < 5000; ++i) {
        (void) freq_usage_look(&t->usage, at(next(&rng)), 4096);
    }
    assert_true(counts_of(t).closed);
    for (uint32_t i = 0; i < 200000; ++i) {
        (void) freq_usage_look(&t->usage, at(rng_percent(&rng, 10) ? 0x10000 : next(&rng)), 4096);
    }
    assert_int_equal(counts_of(t).openings, 0);
    table_free(t);
}

/* What was dropped makes room: buffers on memory that comes and goes never fill the table. */
static void dropped_entries_make_room(void **state)
{
    (void) state;
    table_t *t = table_new(LINES, AFTER);
    rng_t rng = {11};
    for (uint32_t i = 0; i < 100 * LINES; ++i) {
        const uint64_t address = next(&rng);
        for (uint32_t use = 0; use <= AFTER; ++use) {
            assert_int_equal(freq_usage_look(&t->usage, at(address), 4096), use == AFTER);
        }
        freq_release_memory(&t->release, address, 4096);
    }
    assert_int_equal(counts_of(t).no_room, 0);
    assert_int_equal(counts_of(t).closings, 0);
    assert_int_equal(counts_of(t).copies_avoided, 100 * LINES);
    assert_int_equal(counts_of(t).buffers, 0);
    table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_place_after_the_share),
        cmocka_unit_test(small_and_hopeless_sizes_are_not_looked_at),
        cmocka_unit_test(refusal_has_to_be_earned_off),
        cmocka_unit_test(a_full_count_goes_on),
        cmocka_unit_test(as_the_list),
        cmocka_unit_test(released_is_void),
        cmocka_unit_test(little_else_is_void),
        cmocka_unit_test(closes_when_nothing_is_reused),
        cmocka_unit_test(grows_while_a_fifth_is_frequent),
        cmocka_unit_test(frequent_ones_stay_while_closed),
        cmocka_unit_test(opens_when_the_pattern_changes),
        cmocka_unit_test(stays_closed_with_little_reuse),
        cmocka_unit_test(dropped_entries_make_room),
    };
    return cmocka_run_group_tests_name("freq_usage", tests, NULL, NULL);
}
