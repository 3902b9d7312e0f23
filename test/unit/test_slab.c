/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Slabs (core/spec_slab.h): every part is one's own, fits, and goes back to the system when it is quiet. */
#include "spec_unit.h"

#include "spec_slab.h"

enum { HELD = 600 };

static unsigned mapped, room;

static void *map(void)
{
    if (mapped == room) {
        return NULL;
    }
    ++mapped;
    void *slab = aligned_alloc(SPEC_SLAB_SIZE, SPEC_SLAB_SIZE);
    memset(slab, 0xa5, SPEC_SLAB_SIZE); /* nothing is zero by luck */
    return slab;
}

static void unmap(void *slab)
{
    --mapped;
    free(slab);
}

static int setup(void **state)
{
    static spec_slabs_t slabs;
    mapped = 0;
    room = 1000;
    spec_slabs_init(&slabs, map, unmap);
    *state = &slabs;
    return 0;
}

static int teardown(void **state)
{
    spec_slabs_give_back(*state);
    return 0 == mapped ? 0 : -1;
}

/* How many of a size one slab holds. */
static unsigned fill(spec_slabs_t *s, size_t size, char **at)
{
    unsigned n = 0;
    const unsigned before = mapped;
    do {
        at[n++] = spec_slab_take(s, size);
    } while (mapped <= before + 1 && n < 1200);
    spec_slab_put(s, at[--n], size);
    return n;
}

static void parts_of_a_size(void **state)
{
    static char *at[1200];
    const struct {
        size_t size;
        unsigned parts;
    } row[] = {{1, 960},   {128, 960}, {129, 896},        {208, 576}, {4160, 30},
               {4352, 30}, {4353, 28}, {8256, 15},        {20000, 6}, {65536, 1},
               {65472, 2}, {66048, 1}, {SPEC_SLAB_MAX, 1}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); ++i) {
        const unsigned n = fill(*state, row[i].size, at);
        assert_int_equal(n, row[i].parts);
        for (unsigned k = 0; k < n; ++k) {
            spec_slab_put(*state, at[k], row[i].size);
        }
        assert_false(spec_slabs_quiet(*state) && spec_slabs_quiet(*state));
        assert_int_equal(mapped, 0);
    }
}

/* What the flow of unexpected messages reckons with (pml_spec_flow.c), and what the header promises. */
static void a_part_is_not_much_larger(void **state)
{
    for (size_t size = 1; size <= SPEC_SLAB_MAX; size += 1 + size / 300) {
        char *a = spec_slab_take(*state, size), *b = spec_slab_take(*state, size);
        const size_t apart = (size_t) (b - a);
        assert_int_equal((uintptr_t) a % 16, 0);
        if (size <= SPEC_SLAB_MAX / 2 - 16) {
            assert_true(apart >= size);
            assert_true(apart <= 2 * (size + 16) || apart <= SPEC_SLAB_MIN + 16);
            assert_true(size < 256 || size > SPEC_SLAB_MAX / 9 || apart * 8 < size * 9 + 160);
        }
        spec_slab_put(*state, b, size);
        spec_slab_put(*state, a, size);
    }
}

static void what_came_back_last_is_given_out_first(void **state)
{
    char *a = spec_slab_take(*state, 500), *b = spec_slab_take(*state, 500),
         *c = spec_slab_take(*state, 500);
    spec_slab_put(*state, a, 500);
    spec_slab_put(*state, b, 500);
    assert_ptr_equal(spec_slab_take(*state, 500), b);
    assert_ptr_equal(spec_slab_take(*state, 500), a);
    spec_slab_put(*state, a, 500);
    spec_slab_put(*state, b, 500);
    spec_slab_put(*state, c, 500);
}

/* A part that was never given out is not written to: its page takes no memory. */
static void the_rest_is_not_touched(void **state)
{
    char *a = spec_slab_take(*state, 4000);
    char *b = spec_slab_take(*state, 4000);
    spec_slab_put(*state, a, 4000);
    spec_slab_put(*state, b, 4000);
    a = spec_slab_take(*state, 4000);
    for (const char *p = b + (b - a); p < a + SPEC_SLAB_SIZE - SPEC_SLAB_HEADER; ++p) {
        assert_int_equal(*p, (char) 0xa5);
    }
    spec_slab_put(*state, a, 4000);
}

static void a_slab_serves_another_size_when_nothing_is_in_it(void **state)
{
    char *a = spec_slab_take(*state, 4000);
    spec_slab_put(*state, a, 4000);
    char *b = spec_slab_take(*state, 300);
    assert_int_equal(mapped, 1);
    char *c = spec_slab_take(*state, 4000); /* not in it: it is in use */
    assert_int_equal(mapped, 2);
    spec_slab_put(*state, c, 4000);
    spec_slab_put(*state, b, 300);
}

static void given_back_when_it_is_quiet(void **state)
{
    spec_slabs_t *s = *state;
    static char *at[HELD];
    for (unsigned round = 0; round < 2; ++round) {
        for (unsigned i = 0; i < HELD; ++i) {
            at[i] = spec_slab_take(s, 4160);
        }
        assert_int_equal(mapped, HELD / 30);
        assert_false(spec_slabs_idle(s));
        assert_true(spec_slabs_quiet(s));
        assert_false(spec_slabs_quiet(s)); /* quiet, and all is in use */
        assert_int_equal(mapped, HELD / 30);
        for (unsigned i = 0; i < HELD; ++i) {
            spec_slab_put(s, at[i], 4160);
        }
        assert_true(spec_slabs_idle(s));
        assert_int_equal(mapped, HELD / 30);
        spec_slab_put(s, spec_slab_take(s, 200), 200);
        assert_true(spec_slabs_quiet(s)); /* something was taken since */
        assert_int_equal(mapped, HELD / 30);
        assert_false(spec_slabs_quiet(s));
        assert_int_equal(mapped, 0);
        assert_false(spec_slabs_idle(s));
    }
}

static void no_memory(void **state)
{
    room = 1;
    char *a = spec_slab_take(*state, 100000);
    assert_non_null(a);
    assert_null(spec_slab_take(*state, 100000));
    assert_null(spec_slab_take(*state, 1000));
    room = 2;
    char *b = spec_slab_take(*state, 1000);
    assert_non_null(b);
    spec_slab_put(*state, a, 100000);
    char *c = spec_slab_take(*state, 90000); /* another size, its slab is free again */
    assert_ptr_equal(c, a);
    spec_slab_put(*state, b, 1000);
    spec_slab_put(*state, c, 90000);
}

static void larger_than_a_slab(void **state)
{
    char *a = spec_slab_take(*state, SPEC_SLAB_MAX + 1);
    memset(a, 1, SPEC_SLAB_MAX + 1);
    assert_int_equal(mapped, 0);
    spec_slab_put(*state, a, SPEC_SLAB_MAX + 1);
}

/* Any order: what is held keeps its bytes, so no two overlap and nobody else writes there. */
static void at_random(void **state)
{
    static struct {
        unsigned char *at;
        size_t size;
        unsigned char fill;
    } held[HELD];
    rng_t rng = {7};
    memset(held, 0, sizeof(held));
    for (unsigned step = 0; step < 60000; ++step) {
        const uint32_t i = rng_below(&rng, HELD);
        if (NULL != held[i].at) {
            for (size_t k = 0; k < held[i].size; k += k < 32 || k + 32 > held[i].size ? 1 : 61) {
                assert_int_equal(held[i].at[k], held[i].fill);
            }
            spec_slab_put(*state, held[i].at, held[i].size);
            held[i].at = NULL;
        } else if (rng_percent(&rng, step / 10000 % 2 ? 30 : 90)) {
            const uint32_t most = UINT32_C(1) << (6 + rng_below(&rng, 12));
            held[i].size = 1 + rng_below(&rng, most);
            held[i].fill = (unsigned char) rng_next(&rng);
            held[i].at = spec_slab_take(*state, held[i].size);
            memset(held[i].at, held[i].fill, held[i].size);
        }
        if (0 == step % 1000) {
            (void) spec_slabs_quiet(*state);
        }
    }
    for (unsigned i = 0; i < HELD; ++i) {
        if (NULL != held[i].at) {
            spec_slab_put(*state, held[i].at, held[i].size);
        }
    }
    (void) spec_slabs_quiet(*state);
    (void) spec_slabs_quiet(*state);
    assert_int_equal(mapped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_of_a_size, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_is_not_much_larger, setup, teardown),
        cmocka_unit_test_setup_teardown(what_came_back_last_is_given_out_first, setup, teardown),
        cmocka_unit_test_setup_teardown(the_rest_is_not_touched, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slab_serves_another_size_when_nothing_is_in_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(given_back_when_it_is_quiet, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(larger_than_a_slab, setup, teardown),
        cmocka_unit_test_setup_teardown(at_random, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
