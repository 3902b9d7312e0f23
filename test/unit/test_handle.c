/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Handles (core/spec_handle.h): only a handle that is open finds something. */
#include "spec_unit.h"

#include "spec_handle.h"

static int objects[8];

static uint64_t make(uint32_t generation, uint32_t index)
{
    return (uint64_t) generation << 32 | index;
}

static uint32_t open_in(const spec_handle_table_t *t)
{
    uint32_t cursor = 0, n = 0;
    while (NULL != spec_handle_next(t, &cursor)) {
        ++n;
    }
    return n;
}

static void finds_its_object_until_closed(void **state)
{
    (void) state;
    spec_handle_table_t t = {0};
    uint64_t a = spec_handle_open(&t, &objects[0]), b = spec_handle_open(&t, &objects[1]);
    assert_true(0 != a && 0 != b && a != b);
    assert_int_equal(open_in(&t), 2);
    assert_ptr_equal(spec_handle_find(&t, a), &objects[0]);
    assert_ptr_equal(spec_handle_find(&t, b), &objects[1]);
    assert_ptr_equal(spec_handle_close(&t, a), &objects[0]);
    assert_null(spec_handle_find(&t, a));
    assert_null(spec_handle_close(&t, a));
    assert_ptr_equal(spec_handle_find(&t, b), &objects[1]);
    assert_int_equal(open_in(&t), 1);
    assert_ptr_equal(spec_handle_close(&t, b), &objects[1]);
    assert_int_equal(open_in(&t), 0);
    spec_handle_fini(&t);
}

static void nothing_is_found_in_an_empty_table(void **state)
{
    (void) state;
    spec_handle_table_t t = {0};
    const uint64_t forged[] = {0, 1, make(1, 0), make(1, UINT32_MAX), UINT64_MAX, make(0, 5)};
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); ++i) {
        assert_null(spec_handle_find(&t, forged[i]));
        assert_null(spec_handle_close(&t, forged[i]));
    }
    spec_handle_fini(&t);
    assert_int_equal(t.chunks, 0);
}

static void forged_handles_find_nothing(void **state)
{
    (void) state;
    spec_handle_table_t t = {0};
    uint64_t h = spec_handle_open(&t, &objects[0]);
    uint32_t index = (uint32_t) h, generation = (uint32_t) (h >> 32);
    assert_null(spec_handle_find(&t, 0));
    assert_null(spec_handle_close(&t, 0));
    /* Another generation: all that differ by one bit. */
    for (unsigned bit = 0; bit < 32; ++bit) {
        assert_null(spec_handle_find(&t, make(generation ^ UINT32_C(1) << bit, index)));
        assert_null(spec_handle_close(&t, make(generation ^ UINT32_C(1) << bit, index)));
    }
    assert_null(spec_handle_find(&t, make(0, index)));
    /* A slot that is free, the first behind the table, and far away. */
    const uint32_t indexes[] = {index + 1,
                                SPEC_HANDLE_CHUNK - 1,
                                SPEC_HANDLE_CHUNK,
                                2 * SPEC_HANDLE_CHUNK,
                                UINT32_C(0x7fffffff),
                                UINT32_C(0x80000000),
                                UINT32_MAX};
    for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); ++i) {
        for (uint32_t g = 0; g < 3; ++g) {
            assert_null(spec_handle_find(&t, make(g, indexes[i])));
            assert_null(spec_handle_close(&t, make(g, indexes[i])));
        }
    }
    assert_ptr_equal(spec_handle_find(&t, h), &objects[0]);
    assert_int_equal(open_in(&t), 1);
    spec_handle_fini(&t);
}

static void a_stale_handle_does_not_find_the_next_user(void **state)
{
    (void) state;
    enum { USES = 1000 };
    spec_handle_table_t t = {0};
    uint64_t old[USES];
    for (int i = 0; i < USES; ++i) {
        uint64_t h = old[i] = spec_handle_open(&t, &objects[i % 8]);
        for (int j = 0; j < i; ++j) {
            assert_true(old[j] != h);
            assert_null(spec_handle_find(&t, old[j]));
            assert_null(spec_handle_close(&t, old[j]));
        }
        assert_ptr_equal(spec_handle_find(&t, h), &objects[i % 8]);
        assert_ptr_equal(spec_handle_close(&t, h), &objects[i % 8]);
    }
    assert_int_equal(t.chunks, 1); /* slots were used again */
    spec_handle_fini(&t);
}

static void zero_is_never_a_handle(void **state)
{
    (void) state;
    spec_handle_table_t t = {0};
    uint64_t h = spec_handle_open(&t, &objects[0]);
    assert_int_equal((uint32_t) h, 0);
    /* The generation of slot 0 is about to wrap. */
    t.chunk[0][0].generation = UINT32_MAX;
    h = make(UINT32_MAX, 0);
    assert_ptr_equal(spec_handle_close(&t, h), &objects[0]);
    h = spec_handle_open(&t, &objects[1]);
    assert_int_equal((uint32_t) h, 0);
    assert_true(0 != h);
    assert_null(spec_handle_find(&t, 0));
    assert_null(spec_handle_find(&t, make(UINT32_MAX, 0)));
    assert_ptr_equal(spec_handle_find(&t, h), &objects[1]);
    spec_handle_fini(&t);
}

static void many_at_once(void **state)
{
    (void) state;
    enum { MANY = 100000 };
    spec_handle_table_t t = {0};
    uint64_t *h = must_alloc(MANY * sizeof(*h));
    char *object = must_alloc(MANY);
    uint32_t *order = must_alloc(MANY * sizeof(*order));
    rng_t rng = {1};
    for (uint32_t i = 0; i < MANY; ++i) {
        h[i] = spec_handle_open(&t, &object[i]);
        assert_true(0 != h[i]);
        order[i] = i;
    }
    assert_int_equal(open_in(&t), MANY);
    uint32_t chunks = t.chunks;
    assert_int_equal(chunks, (MANY + SPEC_HANDLE_CHUNK - 1) / SPEC_HANDLE_CHUNK);
    rng_shuffle(&rng, order, MANY);
    /* Half of them end in any order and are opened again. */
    for (uint32_t i = 0; i < MANY / 2; ++i) {
        assert_ptr_equal(spec_handle_close(&t, h[order[i]]), &object[order[i]]);
    }
    for (uint32_t i = 0; i < MANY; ++i) {
        void *expected = i < MANY / 2 ? NULL : &object[order[i]];
        assert_ptr_equal(spec_handle_find(&t, h[order[i]]), expected);
    }
    for (uint32_t i = 0; i < MANY / 2; ++i) {
        uint64_t stale = h[order[i]];
        h[order[i]] = spec_handle_open(&t, &object[order[i]]);
        assert_true(h[order[i]] != stale);
        assert_null(spec_handle_find(&t, stale));
    }
    for (uint32_t i = 0; i < MANY; ++i) {
        assert_ptr_equal(spec_handle_find(&t, h[i]), &object[i]);
    }
    assert_int_equal(t.chunks, chunks);
    assert_int_equal(open_in(&t), MANY);
    spec_handle_fini(&t);
    free(order);
    free(object);
    free(h);
}

static void open_ones_are_visited(void **state)
{
    (void) state;
    enum { N = 2 * SPEC_HANDLE_CHUNK + 3 };
    static int object[N];
    uint64_t h[N];
    spec_handle_table_t t = {0};
    uint32_t cursor = 0;
    assert_null(spec_handle_next(&t, &cursor));
    for (int i = 0; i < N; ++i) {
        h[i] = spec_handle_open(&t, &object[i]);
    }
    for (int i = 0; i < N; i += 3) {
        assert_non_null(spec_handle_close(&t, h[i]));
    }
    int visited = 0, *o;
    cursor = 0;
    while (NULL != (o = spec_handle_next(&t, &cursor))) {
        assert_int_equal(*o, 0);
        *o = 1; /* once each */
        ++visited;
    }
    assert_int_equal(visited, N - (N + 2) / 3);
    assert_null(spec_handle_next(&t, &cursor));
    spec_handle_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_its_object_until_closed),
        cmocka_unit_test(nothing_is_found_in_an_empty_table),
        cmocka_unit_test(forged_handles_find_nothing),
        cmocka_unit_test(a_stale_handle_does_not_find_the_next_user),
        cmocka_unit_test(zero_is_never_a_handle),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(open_ones_are_visited),
    };
    return cmocka_run_group_tests_name("spec_handle", tests, NULL, NULL);
}
