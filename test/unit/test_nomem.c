/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The cores of pml/spec when memory is out: each says so, changes nothing that was there, and goes on when there is
 * some again. Linked with --wrap for calloc, malloc and realloc. */
#include "spec_unit.h"

#include "spec_adapt.h"
#include "spec_handle.h"
#include "spec_match.h"
#include "spec_send.h"

static bool is_out;
static uint32_t refused;
static uint32_t spare; /* so many succeed although memory is out */

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool fails(void)
{
    if (is_out && spare > 0) {
        --spare;
        return false;
    }
    refused += is_out;
    return is_out;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

static int setup(void **state)
{
    (void) state;
    is_out = false;
    refused = spare = 0;
    return 0;
}

static void handles(void **state)
{
    (void) state;
    spec_handle_table_t table = {0};
    int object[2000];
    is_out = true;
    assert_int_equal(spec_handle_open(&table, &object[0]), 0);
    assert_true(refused > 0);
    spare = 1; /* for the list of chunks, not for a chunk */
    assert_int_equal(spec_handle_open(&table, &object[0]), 0);
    is_out = false;
    uint64_t handle[2000], n = 0;
    handle[n] = spec_handle_open(&table, &object[n]);
    ++n;
    is_out = true; /* until the table is full */
    while (n < 2000 && 0 != (handle[n] = spec_handle_open(&table, &object[n]))) {
        ++n;
    }
    assert_true(n < 2000);
    for (uint64_t i = 0; i < n; ++i) {
        assert_ptr_equal(spec_handle_find(&table, handle[i]), &object[i]);
    }
    is_out = false;
    assert_int_not_equal(spec_handle_open(&table, &object[n]), 0);
    spec_handle_fini(&table);
}

static void adaptation(void **state)
{
    (void) state;
    spec_adapt_t a;
    const spec_envelope_t envelope = {.peer = 1, .tag = 7};
    spec_adapt_init(&a, 16, (spec_adapt_policy_t){.window = 16, .stop_below = 1});
    is_out = true;
    assert_null(spec_adapt_open(&a, envelope));
    is_out = false;
    assert_non_null(spec_adapt_open(&a, envelope));
    spec_adapt_fini(&a);
}

static void matching_begins(void **state)
{
    (void) state;
    spec_match_t m;
    is_out = true;
    assert_int_equal(spec_match_init(&m), -1);
    is_out = false;
    assert_int_equal(spec_match_init(&m), 0);
    spec_match_fini(&m);
}

/* As many patterns as it takes until one would need memory. */
static void posting(void **state)
{
    (void) state;
    enum { MANY = 5000 };
    spec_match_t m;
    assert_int_equal(spec_match_init(&m), 0);
    spec_posted_t *p = must_alloc(MANY * sizeof(*p));
    int32_t n = 0;
    is_out = true;
    for (;; ++n) {
        assert_true(n < MANY);
        p[n].src = 1;
        p[n].tag = n;
        if (0 != spec_match_post(&m, &p[n])) {
            break;
        }
    }
    assert_int_equal(m.posted_n, n);
    assert_int_equal(n, SPEC_MATCH_OWN_BINS); /* patterns that need no memory */
    spec_unexp_t u = {.src = 2, .tag = n};
    assert_int_equal(spec_match_add_unexp(&m, &u), -1);
    assert_int_equal(m.unexp_n, 0);
    assert_null(spec_match_find_unexp(&m, 2, n));
    is_out = false;
    assert_int_equal(spec_match_post(&m, &p[n]), 0);
    assert_int_equal(spec_match_add_unexp(&m, &u), 0);
    for (int32_t i = 0; i <= n; ++i) {
        assert_ptr_equal(spec_match_find_posted(&m, 1, i), &p[i]);
        spec_match_remove_posted(&m, &p[i]);
    }
    spec_match_remove_unexp(&m, &u);
    spec_match_fini(&m);
    free(p);
}

/* The hash table cannot grow: chains become longer. */
static void growing(void **state)
{
    (void) state;
    enum { MANY = 3000 };
    spec_match_t m;
    assert_int_equal(spec_match_init(&m), 0);
    spec_posted_t *p = must_alloc(MANY * sizeof(*p));
    for (int32_t i = 0; i < MANY; ++i) {
        p[i].src = 1;
        p[i].tag = i;
        is_out = true;
        if (0 != spec_match_post(&m, &p[i])) {
            is_out = false; /* for the bin; the table was refused before if it was its turn */
            assert_int_equal(spec_match_post(&m, &p[i]), 0);
        }
    }
    is_out = false;
    for (int32_t i = 0; i < MANY; ++i) {
        assert_ptr_equal(spec_match_find_posted(&m, 1, i), &p[i]);
        spec_match_remove_posted(&m, &p[i]);
    }
    spec_match_fini(&m);
    free(p);
}

/* A wildcard's index cannot be made: messages are found by a walk, in the right order. */
static void walking(void **state)
{
    (void) state;
    enum { MANY = 3000 };
    spec_match_t m;
    assert_int_equal(spec_match_init(&m), 0);
    spec_unexp_t *u = must_alloc(MANY * sizeof(*u));
    for (int32_t i = 0; i < MANY; ++i) {
        u[i].src = i; /* of as many sources, so that the index by source needs as many bins */
        u[i].tag = 7;
        assert_int_equal(spec_match_add_unexp(&m, &u[i]), 0);
    }
    is_out = true;
    assert_ptr_equal(spec_match_find_unexp(&m, 42, SPEC_ANY), &u[42]);
    assert_true(refused > 0);
    assert_null(spec_match_find_unexp(&m, MANY, SPEC_ANY));
    is_out = false;
    assert_ptr_equal(spec_match_find_unexp(&m, 43, SPEC_ANY), &u[43]);
    for (int32_t i = 0; i < MANY; ++i) {
        assert_ptr_equal(spec_match_find_unexp(&m, i, SPEC_ANY), &u[i]);
        spec_match_remove_unexp(&m, &u[i]);
    }
    assert_null(spec_match_find_unexp(&m, 43, SPEC_ANY));
    spec_match_fini(&m);
    free(u);
}

/* With an index: a message that needs a bin there, too, is put nowhere if there is none. */
static void all_or_nothing(void **state)
{
    (void) state;
    enum { MANY = 3000 };
    spec_match_t m;
    assert_int_equal(spec_match_init(&m), 0);
    spec_unexp_t *u = must_alloc(MANY * sizeof(*u));
    u[0].src = u[0].tag = 0;
    assert_int_equal(spec_match_add_unexp(&m, &u[0]), 0);
    assert_ptr_equal(spec_match_find_unexp(&m, 0, SPEC_ANY), &u[0]);
    assert_ptr_equal(spec_match_find_unexp(&m, SPEC_ANY, 0), &u[0]);
    for (int32_t i = 1; i < MANY; ++i) {
        u[i].src = u[i].tag = i;
        is_out = true;
        if (0 != spec_match_add_unexp(&m, &u[i])) {
            assert_int_equal(m.unexp_n, i);
            assert_null(spec_match_find_unexp(&m, i, i));
            assert_null(spec_match_find_unexp(&m, i, SPEC_ANY));
            assert_null(spec_match_find_unexp(&m, SPEC_ANY, i));
            is_out = false;
            assert_int_equal(spec_match_add_unexp(&m, &u[i]), 0);
        }
    }
    is_out = false;
    assert_true(refused > 0);
    for (int32_t i = 0; i < MANY; ++i) {
        assert_ptr_equal(spec_match_find_unexp(&m, SPEC_ANY, i), &u[i]);
        spec_match_remove_unexp(&m, &u[i]);
    }
    spec_match_fini(&m);
    free(u);
}

static void ledger(void **state)
{
    (void) state;
    spec_send_t s = {0};
    spec_node_t left;
    spec_list_init(&left);
    is_out = true;
    assert_int_equal(spec_send_open_ledger(&s), -1);
    assert_null(s.ledger);
    is_out = false;
    assert_int_equal(spec_send_open_ledger(&s), 0);
    /* No bin for its tag: it is dropped, as any RTR may be. */
    spec_ctl_t rtr = {.tag = 1, .length = 100};
    is_out = true;
    assert_int_equal(spec_send_admit(&s, &rtr), SPEC_RTR_FULL);
    assert_int_equal(spec_send_kept(&s), 0);
    is_out = false;
    assert_int_equal(spec_send_admit(&s, &rtr), SPEC_RTR_KEPT);
    spec_send_close_ledger(&s, &left);
    assert_ptr_equal(spec_list_pop(&left), &rtr.item.node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(handles, setup),         cmocka_unit_test_setup(adaptation, setup),
        cmocka_unit_test_setup(matching_begins, setup), cmocka_unit_test_setup(posting, setup),
        cmocka_unit_test_setup(growing, setup),         cmocka_unit_test_setup(walking, setup),
        cmocka_unit_test_setup(all_or_nothing, setup),  cmocka_unit_test_setup(ledger, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
