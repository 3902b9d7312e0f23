/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The allocator of a segment (freq_space.h) beside a map of its units. */
#include "spec_unit.h"

#include "freq_space.h"

typedef struct {
    freq_space_t space;
    freq_space_record_t *record;
    uint32_t *owner; /* per unit: first unit of the block it belongs to + 1, 0: free */
    uint32_t units;
} both_t;

static void both_init(both_t *b, uint32_t units)
{
    b->units = units;
    b->record = must_alloc(units * sizeof(*b->record));
    b->owner = must_alloc(units * sizeof(*b->owner));
    freq_space_init(&b->space, b->record, units);
}

static void both_end(both_t *b)
{
    free(b->record);
    free(b->owner);
}

/* Would any place do? */
static bool oracle_fits(const both_t *b, uint32_t units, uint64_t alignment, uint64_t origin)
{
    uint32_t run = 0;
    for (uint32_t i = b->units; i-- > 0;) {
        run = 0 == b->owner[i] ? run + 1 : 0;
        if (run >= units && 0 == ((origin + i) & (alignment - 1))) {
            return true;
        }
    }
    return false;
}

static uint32_t both_take(both_t *b, uint32_t units, uint64_t alignment, uint64_t origin)
{
    const bool fits = units > 0 && oracle_fits(b, units, alignment, origin);
    const uint32_t first = freq_space_take(&b->space, units, alignment, origin);
    assert_int_equal(fits, FREQ_SPACE_NONE != first);
    if (!fits) {
        return first;
    }
    assert_true(first < b->units && units <= b->units - first);
    assert_int_equal((origin + first) & (alignment - 1), 0);
    for (uint32_t i = 0; i < units; ++i) {
        assert_int_equal(b->owner[first + i], 0);
        b->owner[first + i] = first + 1;
    }
    assert_int_equal(freq_space_size(&b->space, first), units);
    return first;
}

static void both_give(both_t *b, uint32_t first)
{
    const bool is_block = first < b->units && b->owner[first] == first + 1;
    assert_int_equal(freq_space_give(&b->space, first), is_block);
    for (uint32_t i = first; is_block && i < b->units && b->owner[i] == first + 1; ++i) {
        b->owner[i] = 0;
    }
}

/* How many the list of free blocks has; UINT64_MAX: something is wrong. */
static uint64_t length_of_list(const freq_space_t *space)
{
    uint64_t n = 0;
    uint32_t prev = FREQ_SPACE_NONE;
    for (uint32_t first = space->free; FREQ_SPACE_NONE != first; prev = first, first = space->record[first].next) {
        if (space->record[first].used || space->record[first].prev != prev) {
            return UINT64_MAX;
        }
        ++n;
    }
    return n;
}

/* The records: takes time in proportion to the space. */
static bool is_consistent(const freq_space_t *space)
{
    uint64_t used = 0, free_n = 0;
    uint32_t before = 0;
    bool free_before = false;
    for (uint32_t first = 0; first < space->units;) {
        const freq_space_record_t *record = &space->record[first];
        if (0 == record->size || record->size > space->units - first || record->before != before
            || (free_before && !record->used)) {
            return false;
        }
        for (uint32_t i = 1; i < record->size; ++i) {
            if (0 != record[i].size || record[i].used) {
                return false;
            }
        }
        used += record->used ? record->size : 0;
        free_n += !record->used;
        free_before = !record->used;
        before = record->size;
        first += record->size;
    }
    return used == space->used && free_n == length_of_list(space);
}

static void as_the_oracle(void **state)
{
    (void) state;
    rng_t rng = {1};
    static const uint32_t sizes[] = {1, 2, 7, 8, 9, 63, 100, 257, 1000};
    for (uint32_t s = 0; s < sizeof(sizes) / sizeof(*sizes); ++s) {
        both_t b;
        both_init(&b, sizes[s]);
        for (uint32_t round = 0; round < 20000; ++round) {
            /* by turns nearly full and nearly empty */
            if (rng_percent(&rng, round / 500 % 2 ? 65 : 35)) {
                const uint32_t most = rng_percent(&rng, 20) ? b.units + 2 : 1 + b.units / 10;
                const uint64_t alignment =
                    rng_percent(&rng, 70) ? 1 : UINT64_C(1) << rng_below(&rng, 8);
                (void) both_take(&b, rng_below(&rng, most + 1), alignment, rng_below(&rng, 300));
            } else {
                /* also what was never given out */
                both_give(&b, rng_below(&rng, b.units + 3));
            }
            if (0 == round % 64) {
                assert_true(is_consistent(&b.space));
            }
        }
        for (uint32_t i = 0; i < b.units; ++i) {
            both_give(&b, i);
        }
        assert_int_equal(b.space.used, 0);
        both_give(&b, both_take(&b, b.units, 1, 0)); /* all is one block again */
        assert_true(is_consistent(&b.space));
        both_end(&b);
    }
}

static void what_was_given_back_is_joined(void **state)
{
    (void) state;
    both_t b;
    both_init(&b, 1024);
    rng_t rng = {2};
    for (uint32_t round = 0; round < 50; ++round) {
        uint32_t first[64];
        for (uint32_t i = 0; i < 64; ++i) {
            first[i] = both_take(&b, 16, 1, 0);
        }
        assert_int_equal(both_take(&b, 1, 1, 0), FREQ_SPACE_NONE);
        rng_shuffle(&rng, first, 64);
        for (uint32_t i = 0; i < 64; ++i) {
            both_give(&b, first[i]);
        }
        both_give(&b, both_take(&b, 1024, 1, 0)); /* all is one block again */
    }
    both_end(&b);
}

static void twice_is_noticed(void **state)
{
    (void) state;
    both_t b;
    both_init(&b, 100);
    const uint32_t x = both_take(&b, 10, 1, 0), y = both_take(&b, 10, 1, 0);
    assert_true(freq_space_give(&b.space, x));
    assert_false(freq_space_give(&b.space, x));
    assert_false(freq_space_give(&b.space, y + 1));
    assert_true(freq_space_give(&b.space, y));
    assert_false(freq_space_give(&b.space, y)); /* joined with x: nothing begins there */
    assert_false(freq_space_give(&b.space, 100));
    assert_false(freq_space_give(&b.space, FREQ_SPACE_NONE));
    assert_true(is_consistent(&b.space));
    both_end(&b);
}

/* Fragmentation is bounded: with sizes of one to sixteen units, half of the space in use and new
 * ones coming for ever, a request of the largest size finds its place. */
static void fragmentation_stays_low(void **state)
{
    (void) state;
    both_t b;
    both_init(&b, 4096);
    rng_t rng = {3};
    uint32_t held[4096], n = 0;
    for (uint32_t round = 0; round < 200000; ++round) {
        if (b.space.used < 3072) {
            const uint32_t first = freq_space_take(&b.space, 1 + rng_below(&rng, 16), 1, 0);
            assert_int_not_equal(first, FREQ_SPACE_NONE);
            held[n++] = first;
        } else {
            const uint32_t i = rng_below(&rng, n);
            assert_true(freq_space_give(&b.space, held[i]));
            held[i] = held[--n];
        }
    }
    assert_true(is_consistent(&b.space));
    both_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_oracle),
        cmocka_unit_test(what_was_given_back_is_joined),
        cmocka_unit_test(twice_is_noticed),
        cmocka_unit_test(fragmentation_stays_low),
    };
    return cmocka_run_group_tests_name("freq_space", tests, NULL, NULL);
}
