/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Streams (core/spec_stream.h): items in any order go in, and come out in the order of numbers. */
#include "spec_unit.h"

#include "spec_stream.h"

#define ITEMS 1000u

typedef struct thing {
    int before;
    spec_item_t item;
    int after;
} thing_t;

/* An arrival as the component does it: what is next is processed at once, the rest is held. */
static bool arrive(spec_stream_t *s, spec_item_t *item, uint32_t *expected)
{
    if (item->no == s->nxt) {
        assert_int_equal(item->no, *expected);
        ++s->nxt;
        ++*expected;
    } else if (!spec_stream_keep(s, item)) {
        return false;
    }
    spec_item_t *next;
    while (NULL != (next = spec_stream_take(s))) {
        assert_int_equal(next->no, *expected);
        assert_false(spec_node_is_queued(&next->node));
        ++*expected;
    }
    return true;
}

/* Nothing is kept any more; buckets may be. */
static void end(spec_stream_t *s)
{
    spec_node_t left;
    spec_list_init(&left);
    assert_true(spec_stream_is_empty(s));
    spec_stream_drain(s, &left);
    assert_null(s->bucket);
}

static void permute(uint32_t first, bool use_fast_path, uint64_t seed)
{
    static thing_t things[ITEMS];
    uint32_t order[ITEMS], expected = first;
    rng_t rng = {seed};
    spec_stream_t s;
    spec_stream_init(&s);
    s.nxt = first;
    memset(things, 0, sizeof(things));
    for (uint32_t i = 0; i < ITEMS; ++i) {
        order[i] = i;
        things[i].item.no = first + i;
    }
    rng_shuffle(&rng, order, ITEMS);
    for (uint32_t i = 0; i < ITEMS; ++i) {
        spec_item_t *item = &things[order[i]].item;
        if (use_fast_path) {
            assert_true(arrive(&s, item, &expected));
        } else {
            assert_true(spec_stream_keep(&s, item));
            while (NULL != (item = spec_stream_take(&s))) {
                assert_int_equal(item->no, expected);
                ++expected;
            }
        }
    }
    assert_int_equal(expected, first + ITEMS);
    assert_int_equal(s.nxt, first + ITEMS);
    assert_true(spec_stream_is_empty(&s));
    assert_null(s.bucket);
}

static void any_order_comes_out_in_order(void **state)
{
    (void) state;
    for (uint64_t seed = 0; seed < 50; ++seed) {
        permute(0, true, seed);
        permute(0, false, seed);
    }
}

static void goes_on_at_the_wrap(void **state)
{
    (void) state;
    for (uint64_t seed = 0; seed < 50; ++seed) {
        permute(UINT32_MAX - ITEMS / 2, true, seed);
        permute(UINT32_MAX - ITEMS / 2, false, seed);
        permute(UINT32_C(0x80000000) - ITEMS / 2, true, seed);
    }
}

static void nothing_comes_before_its_turn(void **state)
{
    (void) state;
    spec_stream_t s;
    spec_item_t one = {.no = 1}, zero = {.no = 0};
    spec_stream_init(&s);
    assert_null(spec_stream_take(&s));
    assert_true(spec_stream_keep(&s, &one));
    assert_null(spec_stream_take(&s));
    assert_int_equal(s.nxt, 0);
    assert_true(spec_stream_keep(&s, &zero));
    assert_ptr_equal(spec_stream_take(&s), &zero);
    assert_ptr_equal(spec_stream_take(&s), &one);
    assert_null(spec_stream_take(&s));
}

static void duplicates_are_refused(void **state)
{
    (void) state;
    const uint32_t firsts[] = {0, 100, UINT32_MAX - 2, UINT32_C(0x7ffffffd)};
    for (size_t f = 0; f < sizeof(firsts) / sizeof(firsts[0]); ++f) {
        thing_t a[6] = {{0}}, b[6] = {{0}};
        spec_stream_t s;
        spec_stream_init(&s);
        s.nxt = firsts[f];
        for (uint32_t i = 0; i < 6; ++i) {
            a[i].item.no = b[i].item.no = firsts[f] + i;
        }
        /* Held: first, middle and last of those that wait. */
        for (uint32_t i = 2; i < 6; ++i) {
            assert_true(spec_stream_keep(&s, &a[i].item));
        }
        for (uint32_t i = 2; i < 6; ++i) {
            assert_false(spec_stream_keep(&s, &b[i].item));
            assert_false(spec_node_is_queued(&b[i].item.node)); /* it stays the caller's */
        }
        /* Processed, by either way. */
        ++s.nxt;
        assert_false(spec_stream_keep(&s, &b[0].item));
        assert_true(spec_stream_keep(&s, &a[1].item));
        for (uint32_t i = 1; i < 6; ++i) {
            assert_ptr_equal(spec_stream_take(&s), &a[i].item);
        }
        for (uint32_t i = 0; i < 6; ++i) {
            assert_false(spec_stream_keep(&s, &b[i].item));
        }
        end(&s);
    }
}

static void duplicates_amid_a_random_order(void **state)
{
    (void) state;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        static spec_item_t items[3 * ITEMS];
        uint32_t order[3 * ITEMS], expected = 0, taken = 0;
        rng_t rng = {seed};
        spec_stream_t s;
        spec_stream_init(&s);
        memset(items, 0, sizeof(items));
        for (uint32_t i = 0; i < 3 * ITEMS; ++i) {
            order[i] = i;
            items[i].no = i % ITEMS;
        }
        rng_shuffle(&rng, order, 3 * ITEMS);
        for (uint32_t i = 0; i < 3 * ITEMS; ++i) {
            taken += arrive(&s, &items[order[i]], &expected);
        }
        assert_int_equal(taken, ITEMS);
        assert_int_equal(expected, ITEMS);
        end(&s);
    }
}

/* The most items of a bucket. */
static uint32_t longest(spec_stream_t *s)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i <= s->mask; ++i) {
        uint32_t n = 0;
        const spec_node_t *head = spec_stream_bucket(s, i);
        for (spec_node_t *at = spec_list_first(head); NULL != at; at = spec_list_next(head, at)) {
            ++n;
        }
        most = n > most ? n : most;
    }
    return most;
}

/* Two transports: every second message goes by one that has no room for long, so that its messages come when all of the
 * other one's are here - and of these, too, every second one late. However many are kept, no search is long. */
static void finds_one_among_many(void **state)
{
    (void) state;
    enum { MANY = 60000 };
    static spec_item_t items[MANY];
    spec_stream_t s;
    uint32_t expected = 0;
    spec_stream_init(&s);
    memset(items, 0, sizeof(items));
    for (uint32_t i = 0; i < MANY; ++i) {
        items[i].no = i;
    }
    for (uint32_t i = 1; i < MANY; i += 2) {
        assert_true(arrive(&s, &items[i], &expected));
        if (1 == i % 1000) {
            assert_true(longest(&s) <= 2 * SPEC_STREAM_SHARE);
        }
    }
    assert_int_equal(s.n, MANY / 2);
    assert_true(longest(&s) <= 2 * SPEC_STREAM_SHARE);
    for (uint32_t i = 0; i < MANY; i += 4) {
        assert_true(arrive(&s, &items[i + 2], &expected));
        assert_true(arrive(&s, &items[i], &expected));
    }
    assert_int_equal(expected, MANY);
    assert_true(spec_stream_is_empty(&s));
    assert_null(s.bucket);
}

/* The memory for a few is there the next time. */
static void keeps_a_few_buckets(void **state)
{
    (void) state;
    enum { FEW = 20 };
    spec_item_t items[FEW];
    spec_stream_t s;
    const spec_node_t *bucket = NULL;
    uint32_t expected = 0;
    spec_stream_init(&s);
    for (uint32_t round = 0; round < 3; ++round) {
        memset(items, 0, sizeof(items));
        for (uint32_t i = FEW; i-- > 0;) {
            items[i].no = round * FEW + i;
            assert_true(arrive(&s, &items[i], &expected));
        }
        assert_true(spec_stream_is_empty(&s));
        assert_non_null(s.bucket);
        assert_true(NULL == bucket || bucket == s.bucket);
        bucket = s.bucket;
    }
    end(&s);
}

static void the_end_gives_all_back(void **state)
{
    (void) state;
    for (uint32_t n = 0; n <= ITEMS; n += 1 + n / 2) {
        static spec_item_t items[ITEMS];
        spec_stream_t s;
        spec_node_t left;
        uint32_t back = 0;
        spec_stream_init(&s);
        spec_list_init(&left);
        memset(items, 0, sizeof(items));
        for (uint32_t i = 0; i < n; ++i) {
            items[i].no = 3 * i + 1;
            assert_true(spec_stream_keep(&s, &items[i]));
        }
        spec_stream_drain(&s, &left);
        while (NULL != spec_list_pop(&left)) {
            ++back;
        }
        assert_int_equal(back, n);
        assert_true(spec_stream_is_empty(&s));
        assert_null(spec_stream_take(&s));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_comes_before_its_turn),
        cmocka_unit_test(any_order_comes_out_in_order),
        cmocka_unit_test(goes_on_at_the_wrap),
        cmocka_unit_test(duplicates_are_refused),
        cmocka_unit_test(duplicates_amid_a_random_order),
        cmocka_unit_test(finds_one_among_many),
        cmocka_unit_test(keeps_a_few_buckets),
        cmocka_unit_test(the_end_gives_all_back),
    };
    return cmocka_run_group_tests_name("spec_stream", tests, NULL, NULL);
}
