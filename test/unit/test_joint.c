/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* core/spec_joint.h: how the next piece of a message is moved, by what an end has seen of the other and of itself. */
#include "spec_joint.h"
#include "spec_unit.h"

enum { PATIENCE = 3000, LATE = SPEC_PACE_PATIENCES * PATIENCE, START = 1000000 };

static spec_joint_how_t next(spec_joint_t *j, bool sends, int64_t open, uint64_t now)
{
    return spec_joint_next(j, true, sends, open, PATIENCE, 0, now);
}

static void two_that_wait_move_fragments(void **state)
{
    (void) state;
    spec_joint_t j;
    spec_joint_begin(&j, 0, START);
    for (int n = 0; n < 4; ++n) {
        assert_int_equal(next(&j, true, n, START + 1), SPEC_JOINT_FRAGMENT);
        spec_joint_moved(&j, n + 1);
    }
    assert_int_equal(next(&j, false, 4, START + 2), SPEC_JOINT_WAIT);
    assert_int_equal(next(&j, true, 3, START + 3), SPEC_JOINT_FRAGMENT);
}

static void one_that_does_not_wait_moves_alone(void **state)
{
    (void) state;
    spec_joint_t j;
    spec_joint_begin(&j, 0, START);
    assert_int_equal(spec_joint_next(&j, false, true, 0, PATIENCE, 0, START), SPEC_JOINT_SINGLE);
    assert_int_equal(spec_joint_next(&j, false, false, 0, PATIENCE, 0, START), SPEC_JOINT_SINGLE);
}

static void an_end_that_sees_nothing_moves_alone(void **state)
{
    (void) state;
    spec_joint_t j;
    spec_joint_begin(&j, 0, START);
    assert_int_equal(next(&j, true, 0, START + 5), SPEC_JOINT_FRAGMENT);
    spec_joint_moved(&j, 1);
    assert_int_equal(next(&j, false, 1, START + PATIENCE / 2 + 4), SPEC_JOINT_WAIT);
    assert_int_equal(next(&j, false, 1, START + PATIENCE / 2 + 5), SPEC_JOINT_SINGLE);
    spec_joint_moved(&j, 1);
    /* Until it sees something. */
    assert_int_equal(next(&j, false, 1, START + PATIENCE + 6), SPEC_JOINT_SINGLE);
    assert_int_equal(next(&j, false, 0, START + PATIENCE + 7), SPEC_JOINT_WAIT);

    spec_joint_begin(&j, 100000, START);
    assert_int_equal(next(&j, false, 100000, START + PATIENCE / 2 - 1), SPEC_JOINT_WAIT);
    assert_int_equal(next(&j, false, 100000, START + PATIENCE / 2), SPEC_JOINT_SINGLE);
    spec_joint_moved(&j, 60000); /* its own doing is nothing that it sees of the other */
    assert_int_equal(next(&j, false, 60000, START + PATIENCE + 1), SPEC_JOINT_SINGLE);
    assert_int_equal(next(&j, false, 50000, START + PATIENCE + 2), SPEC_JOINT_WAIT);
    assert_int_equal(next(&j, false, 50000, START + 2 * PATIENCE + 1), SPEC_JOINT_WAIT);
    assert_int_equal(next(&j, false, 50000, START + 2 * PATIENCE + 2), SPEC_JOINT_SINGLE);
}

static void the_time_of_own_fragments_is_not_counted(void **state)
{
    (void) state;
    spec_joint_t j;
    const uint64_t idle = START + 2000, end = START + SPEC_JOINT_PATIENCES * PATIENCE;
    spec_joint_begin(&j, 100001, START);
    assert_int_equal(next(&j, false, 100000, START), SPEC_JOINT_WAIT);
    assert_int_equal(spec_joint_next(&j, true, false, 100000, PATIENCE, idle, START + PATIENCE),
                     SPEC_JOINT_WAIT);
    assert_int_equal(spec_joint_next(&j, true, false, 100000, PATIENCE, idle, idle + PATIENCE),
                     SPEC_JOINT_SINGLE);
    /* But not for ever. */
    spec_joint_begin(&j, 100001, START);
    assert_int_equal(next(&j, false, 100000, START), SPEC_JOINT_WAIT);
    assert_int_equal(spec_joint_next(&j, true, false, 100000, PATIENCE, end - 1, end - 1),
                     SPEC_JOINT_WAIT);
    assert_int_equal(spec_joint_next(&j, true, false, 100000, PATIENCE, end, end),
                     SPEC_JOINT_SINGLE);
}

static bool call(spec_pace_t *p, uint64_t *now, uint64_t after)
{
    *now += after;
    const bool waits = spec_pace_waits(p, PATIENCE, 0, *now);
    *now += 10;
    spec_pace_end(p, *now);
    return waits;
}

static void calls_that_follow_each_other_are_of_a_wait(void **state)
{
    (void) state;
    spec_pace_t pace = {.ended = 0};
    uint64_t now = START;
    assert_true(call(&pace, &now, LATE)); /* the first of a wait, perhaps */
    assert_true(call(&pace, &now, LATE - 1));
    assert_true(call(&pace, &now, 100));
    assert_true(call(&pace, &now, LATE)); /* computes, and waits again */
    assert_true(call(&pace, &now, 100));
    assert_true(call(&pace, &now, LATE));
    assert_false(call(&pace, &now, LATE)); /* the one before was a test */
    assert_false(spec_pace_is_quick(&pace, PATIENCE, now));
    assert_false(call(&pace, &now, LATE));
    assert_true(call(&pace, &now, LATE - 1)); /* a wait after all */
    assert_true(spec_pace_is_quick(&pace, PATIENCE, now + LATE - 1));
    assert_false(spec_pace_is_quick(&pace, PATIENCE, now + LATE));
    assert_true(call(&pace, &now, LATE));
    assert_false(call(&pace, &now, LATE));
    /* It was sending fragments meanwhile. */
    assert_true(spec_pace_waits(&pace, PATIENCE, now + 1, now + LATE));
}

static void pieces_let_both_ends_copy(void **state)
{
    (void) state;
    enum { MOST = 32752 };
    assert_int_equal(spec_joint_piece(40000, MOST), 40000 / SPEC_JOINT_PIECES);
    assert_int_equal(spec_joint_piece(1 << 20, MOST), MOST);
    assert_int_equal(spec_joint_piece(9000, MOST), SPEC_JOINT_LEAST);
    assert_int_equal(spec_joint_piece(9000, 4096), 4096);
}

/* Sends that begin together, outside an exchange, are moved from the last on; a later one, or of another kind, waits. */
static void the_last_of_those_that_begin_together_goes_first(void **state)
{
    (void) state;
    assert_true(spec_joint_stacks(true, false, false, START, START));
    assert_true(spec_joint_stacks(true, false, false, START, START + SPEC_JOINT_STACKS - 1));
    assert_false(spec_joint_stacks(true, false, false, START, START + SPEC_JOINT_STACKS));
    assert_false(spec_joint_stacks(false, false, false, START, START));
    assert_false(spec_joint_stacks(true, true, false, START, START));
    assert_false(spec_joint_stacks(true, false, true, START, START));
}

static void an_exchange_is_left_to_its_receivers(void **state)
{
    (void) state;
    const uint64_t copy = 5000, since = 100;
    /* Nothing comes from others: who waits moves it. */
    assert_false(spec_joint_leaves(false, false, since, copy, since));
    assert_true(spec_joint_leaves(false, true, since, copy, since + copy - 1));
    assert_false(spec_joint_leaves(false, true, since, copy, since + copy));
    /* It has enough to do. */
    assert_true(spec_joint_leaves(true, false, since, copy, since + SPEC_JOINT_LEAVE_MOST - 1));
    assert_false(spec_joint_leaves(true, true, since, copy, since + SPEC_JOINT_LEAVE_MOST));
    /* However large it is. */
    assert_false(spec_joint_leaves(false, true, since, UINT64_MAX, since + SPEC_JOINT_LEAVE_MOST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_wait_move_fragments),
        cmocka_unit_test(the_last_of_those_that_begin_together_goes_first),
        cmocka_unit_test(one_that_does_not_wait_moves_alone),
        cmocka_unit_test(an_end_that_sees_nothing_moves_alone),
        cmocka_unit_test(the_time_of_own_fragments_is_not_counted),
        cmocka_unit_test(calls_that_follow_each_other_are_of_a_wait),
        cmocka_unit_test(pieces_let_both_ends_copy),
        cmocka_unit_test(an_exchange_is_left_to_its_receivers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
