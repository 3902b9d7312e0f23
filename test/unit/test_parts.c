/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Eager messages in parts (core/spec_parts.h): how they are cut, and how several of one sender are put together, whatever a dishonest
 * one says. */
#include "spec_unit.h"

#include "spec_parts.h"

enum { MOST = 32744, EPOCH = 3 };

static spec_node_t list;

static int setup(void **state)
{
    (void) state;
    spec_list_init(&list);
    return 0;
}

static void parts_are_about_equal(void **state)
{
    (void) state;
    for (uint64_t length = 2; length < 5 * MOST; length += 61) {
        const uint32_t n = spec_parts_count(length, MOST);
        const uint64_t size = spec_parts_size(length, MOST);
        assert_true(n >= 2 && size <= MOST);
        assert_true((n - 1) * size < length && length <= n * size);
        assert_true(n * size - length < n); /* the last is no shorter than this */
        assert_true(2 == n || (n - 1) * (uint64_t) MOST < length);
    }
}

static void a_first_part_is_checked(void **state)
{
    (void) state;
    assert_null(spec_parts_check(1000, 500, 192, 1000));
    assert_null(spec_parts_check(1000, 1000, 192, 1000));
    assert_null(spec_parts_check(192, 1, 192, 1000));
    assert_non_null(spec_parts_check(192, 0, 192, 1000));
    assert_non_null(spec_parts_check(1001, 500, 192, 1000));
    assert_non_null(spec_parts_check(999, 1000, 192, 1000));
    assert_non_null(spec_parts_check(191, 100, 192, 1000));
}

static void the_next_part_makes_it_whole(void **state)
{
    (void) state;
    spec_parts_t a;
    const char *wrong = NULL;
    spec_parts_begin(&a, &list, 7, EPOCH, 1000, 400);
    assert_false(spec_parts_is_whole(&a));
    assert_ptr_equal(spec_parts_take(&list, 7, EPOCH, 400, 400, &wrong), &a);
    assert_false(spec_parts_is_whole(&a));
    assert_ptr_equal(spec_parts_take(&list, 7, EPOCH, 800, 200, &wrong), &a);
    assert_true(spec_parts_is_whole(&a));
    assert_null(wrong);
    assert_true(spec_list_is_empty(&list));
    assert_null(spec_parts_take(&list, 7, EPOCH, 1000, 1, &wrong)); /* it is in the list no more */
    assert_non_null(wrong);
}

static void several_are_told_apart(void **state)
{
    (void) state;
    spec_parts_t a, b, c;
    const char *wrong = NULL;
    spec_parts_begin(&a, &list, UINT32_MAX, EPOCH, 1000, 500);
    spec_parts_begin(&b, &list, 0, EPOCH, 900, 600);
    spec_parts_begin(&c, &list, 0, EPOCH + 1, 800,
                     700); /* of the next communicator with this number */
    assert_ptr_equal(spec_parts_take(&list, 0, EPOCH, 600, 300, &wrong), &b);
    assert_ptr_equal(spec_parts_take(&list, 0, EPOCH + 1, 700, 100, &wrong), &c);
    assert_ptr_equal(spec_parts_take(&list, UINT32_MAX, EPOCH, 500, 500, &wrong), &a);
    assert_null(wrong);
    assert_true(spec_list_is_empty(&list));
}

static void refused(uint32_t seq, uint8_t epoch, uint32_t offset, size_t bytes)
{
    const char *wrong = NULL;
    assert_null(spec_parts_take(&list, seq, epoch, offset, bytes, &wrong));
    assert_non_null(wrong);
}

static void what_makes_no_sense_changes_nothing(void **state)
{
    (void) state;
    spec_parts_t a;
    refused(7, EPOCH, 400, 100); /* nothing has begun */
    spec_parts_begin(&a, &list, 7, EPOCH, 1000, 400);
    refused(8, EPOCH, 400, 100);
    refused(7, EPOCH + 1, 400, 100);
    refused(7, EPOCH, 399, 100); /* again, and overlapping */
    refused(7, EPOCH, 401, 100); /* a gap */
    refused(7, EPOCH, 400, 0);
    refused(7, EPOCH, 400, 601); /* beyond its end */
    refused(7, EPOCH, 400, SIZE_MAX);
    assert_int_equal(a.nxt, 400);
    const char *wrong = NULL;
    assert_ptr_equal(spec_parts_take(&list, 7, EPOCH, 400, 600, &wrong), &a);
    assert_true(spec_parts_is_whole(&a));
}

/* The threads of a message of three parts: two have taken one each, which they copy, then account for; a third gives it up, if it is in
 * the list. In all orders of what they do under the lock and after it the message ends once, and nobody copies then. */
enum { FIRST = 400, SECOND = 300, THIRD = 300, THREADS = 3, STEPS = 3 };

typedef struct message {
    spec_node_t list;
    spec_parts_t parts;
    int64_t missing;
    int ended;
    bool bad;
    uint32_t bytes[THREADS]; /* that it has to account for; of none: it has no part in it */
    int step[THREADS];
} message_t;

static void step_message(message_t *m, int thread)
{
    const char *wrong;
    switch (m->step[thread]++) {
    case 0: /* under the lock */
        if (2 == thread) {
            const spec_node_t *n = spec_list_pop(&m->list);
            m->bytes[thread] = NULL == n ? 0 : spec_parts_left(&m->parts);
            m->bad |= NULL != n && 0 == m->bytes[thread];
        } else {
            const uint32_t offset = 0 == thread ? FIRST : FIRST + SECOND;
            const size_t bytes = 0 == thread ? SECOND : THIRD;
            const bool takes = NULL != spec_parts_take(&m->list, 7, EPOCH, offset, bytes, &wrong);
            m->bytes[thread] = takes ? (uint32_t) bytes : 0;
        }
        break;
    case 1: /* a copy to the program's memory */
        m->bad |= 2 != thread && m->bytes[thread] > 0 && m->ended > 0;
        break;
    default:
        if (m->bytes[thread] > 0) {
            m->missing -= m->bytes[thread];
            m->ended += 0 == m->missing;
        }
        break;
    }
}

static void in_this_order(const int *order, int n)
{
    message_t m = {.missing = SECOND + THIRD};
    spec_list_init(&m.list);
    spec_parts_begin(&m.parts, &m.list, 7, EPOCH, FIRST + SECOND + THIRD, FIRST);
    for (int i = 0; i < n; ++i) {
        step_message(&m, order[i]);
    }
    assert_false(m.bad);
    assert_int_equal(m.ended, 1);
    assert_int_equal(m.missing, 0);
}

static unsigned all_orders(int *order, int at, int *left)
{
    unsigned n = 0;
    if (THREADS * STEPS == at) {
        in_this_order(order, at);
        return 1;
    }
    for (int thread = 0; thread < THREADS; ++thread) {
        /* The third part comes when the second was taken. */
        if (0 == left[thread] || (1 == thread && STEPS == left[0])) {
            continue;
        }
        --left[thread];
        order[at] = thread;
        n += all_orders(order, at + 1, left);
        ++left[thread];
    }
    return n;
}

static void one_that_is_given_up_ends_behind_its_copies(void **state)
{
    (void) state;
    int order[THREADS * STEPS], left[THREADS] = {STEPS, STEPS, STEPS};
    assert_true(all_orders(order, 0, left) > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(parts_are_about_equal, setup),
        cmocka_unit_test_setup(a_first_part_is_checked, setup),
        cmocka_unit_test_setup(the_next_part_makes_it_whole, setup),
        cmocka_unit_test_setup(several_are_told_apart, setup),
        cmocka_unit_test_setup(what_makes_no_sense_changes_nothing, setup),
        cmocka_unit_test(one_that_is_given_up_ends_behind_its_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
