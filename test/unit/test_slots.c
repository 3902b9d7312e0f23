/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Slots (core/spec_slots.h): pieces go round through all of the memory, none is given out twice, and those whose receivers do not come
 * are passed. */
#include "spec_unit.h"

#include "spec_slots.h"

enum { UNIT = SPEC_SLOTS_UNIT, ALL = SPEC_SLOTS_UNITS, NONE = SPEC_SLOTS_UNITS };

static spec_slots_word_t word[ALL];
static spec_slots_t slots;

static int setup(void **state)
{
    (void) state;
    memset(word, 0, sizeof(word));
    spec_slots_open(&slots, word, (uint64_t) ALL * UNIT / 2);
    return 0;
}

static uint32_t take(uint32_t units)
{
    return spec_slots_take(&slots, (uint64_t) units * UNIT);
}

static void twice_the_cache_and_within_bounds(void **state)
{
    (void) state;
    assert_int_equal(slots.units, ALL);
    spec_slots_open(&slots, word, (uint64_t) ALL * UNIT * 3 / 8);
    assert_int_equal(slots.units, ALL * 3 / 4);
    spec_slots_open(&slots, word, 0);
    assert_int_equal(slots.units, ALL / 2);
    spec_slots_open(&slots, word, UINT64_MAX / 4);
    assert_int_equal(slots.units, ALL);
}

static void a_piece_is_whole_units(void **state)
{
    (void) state;
    assert_int_equal(spec_slots_take(&slots, 1), 0);
    assert_int_equal(spec_slots_take(&slots, UNIT), 1);
    assert_int_equal(spec_slots_take(&slots, UNIT + 1), 2);
    assert_int_equal(spec_slots_take(&slots, 1), 4);
    assert_int_equal(spec_slots_take(&slots, 0), NONE);
    assert_int_equal(spec_slots_take(&slots, (uint64_t) ALL * UNIT + 1), NONE);
    assert_int_equal(spec_slots_take(&slots, UINT64_MAX - UNIT), NONE);
}

/* Given back at once, the same place does not come again before all others did. */
static void pieces_go_round(void **state)
{
    (void) state;
    for (unsigned round = 0; round < 3; ++round) {
        for (uint32_t i = 0; i < ALL / 8; ++i) {
            assert_int_equal(take(8), 8 * i);
            spec_slots_give(word + 8 * i);
        }
    }
}

static void what_is_in_use_is_not_given_out(void **state)
{
    (void) state;
    for (uint32_t i = 0; i < ALL; ++i) {
        assert_int_equal(take(1), i);
    }
    for (unsigned i = 0; i < ALL; ++i) {
        assert_int_equal(take(1), NONE);
    }
    spec_slots_give(word + 3);
    uint32_t found = NONE;
    for (unsigned i = 0; i <= ALL / SPEC_SLOTS_PASSED && NONE == found; ++i) {
        found = take(1);
    }
    assert_int_equal(found, 3);
}

static void those_that_are_not_fetched_are_passed(void **state)
{
    (void) state;
    assert_int_equal(take(3), 0);
    for (uint32_t at = 3; at + 5 <= ALL; at += 5) {
        assert_int_equal(take(5), at);
        spec_slots_give(word + at);
    }
    assert_int_equal(take(5), 3); /* not the first three, which are in use */
    spec_slots_give(word + 3);
    spec_slots_give(word + 0);
    for (uint32_t at = 8; at + 5 <= ALL; at += 5) {
        assert_int_equal(take(5), at);
        spec_slots_give(word + at);
    }
    assert_int_equal(take(5), 0);
}

/* There are so many in use that no piece of the size fits between them: not all of the memory is searched. */
static void not_all_are_searched(void **state)
{
    (void) state;
    for (uint32_t i = 0; i < ALL; ++i) {
        assert_int_equal(take(1), i);
    }
    for (uint32_t i = 1; i < ALL; i += i < 60 ? 2 : 1) {
        spec_slots_give(word + i);
    }
    assert_int_equal(take(2), NONE);
    assert_in_range(slots.next, SPEC_SLOTS_PASSED, 3 * SPEC_SLOTS_PASSED);
    uint32_t found = NONE; /* but each call begins where the last one ended */
    for (unsigned i = 0; i < 4 && NONE == found; ++i) {
        found = take(2);
    }
    assert_in_range(found, 58, 61);
}

static void a_place_is_where_its_peer_says_only_if_it_is_there(void **state)
{
    (void) state;
    const uint64_t end = (uint64_t) ALL * UNIT;
    assert_true(spec_slots_contains(0, end) && spec_slots_contains(end - 1, 1));
    assert_false(spec_slots_contains(0, end + 1) || spec_slots_contains(end, 0));
    assert_false(spec_slots_contains(end - 1, 2) || spec_slots_contains(UINT32_MAX, UINT32_MAX));
    assert_false(spec_slots_contains(UINT64_MAX, 2));
}

static void data_keeps_its_place_in_its_line(void **state)
{
    (void) state;
    for (uintptr_t at = 4096; at < 4096 + 200; ++at) {
        assert_true(spec_slots_skip((const void *) at) < 64);
        assert_int_equal((at - spec_slots_skip((const void *) at)) % 64, 0);
    }
}

/* Pieces of any size, given back in any order: none overlaps another that is in use. */
static void none_is_given_out_twice(void **state)
{
    (void) state;
    enum { PIECES = 60 };
    struct {
        uint32_t at, n;
    } piece[PIECES] = {{0}};
    bool used[ALL] = {false};
    uint32_t seed = 12345, taken = 0;
    for (unsigned i = 0; i < 200000; ++i) {
        seed = seed * 1664525u + 1013904223u;
        const unsigned p = (seed >> 8) % PIECES;
        if (piece[p].n > 0) {
            for (uint32_t k = 0; k < piece[p].n; ++k) {
                used[piece[p].at + k] = false;
            }
            spec_slots_give(word + piece[p].at);
            piece[p].n = 0;
            continue;
        }
        const uint32_t n = 1 + (seed >> 20) % 17, at = take(n);
        if (NONE == at) {
            continue;
        }
        ++taken;
        assert_true(at + n <= slots.units);
        for (uint32_t k = 0; k < n; ++k) {
            assert_false(used[at + k]);
            used[at + k] = true;
        }
        piece[p].at = at;
        piece[p].n = n;
    }
    assert_true(taken > 80000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(twice_the_cache_and_within_bounds, setup),
        cmocka_unit_test_setup(a_piece_is_whole_units, setup),
        cmocka_unit_test_setup(pieces_go_round, setup),
        cmocka_unit_test_setup(what_is_in_use_is_not_given_out, setup),
        cmocka_unit_test_setup(those_that_are_not_fetched_are_passed, setup),
        cmocka_unit_test_setup(not_all_are_searched, setup),
        cmocka_unit_test_setup(a_place_is_where_its_peer_says_only_if_it_is_there, setup),
        cmocka_unit_test(data_keeps_its_place_in_its_line),
        cmocka_unit_test_setup(none_is_given_out_twice, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
