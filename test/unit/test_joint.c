/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* core/spec_joint.h: how the next piece of a message is moved, by what an end has seen of the other. */
#include "spec_joint.h"
#include "spec_unit.h"

enum { DEPTH = 4, PATIENCE = 3000, START = 1000000 };

static spec_joint_how_t sender(spec_joint_t *j, int64_t under_way, uint64_t now)
{
    return spec_joint_next(j, under_way, DEPTH, PATIENCE, 0, now);
}

static spec_joint_how_t receiver(spec_joint_t *j, int64_t missing, uint64_t now)
{
    return spec_joint_next(j, missing, 0, PATIENCE, 0, now);
}

static void a_receiver_that_waits_gets_fragments(void **state)
{
    (void) state;
    spec_joint_t j;
    spec_joint_begin(&j, 0, true, START);
    for (int n = 0; n < DEPTH; ++n) {
        assert_int_equal(sender(&j, n, START + 1), SPEC_JOINT_FRAGMENT);
        spec_joint_moved(&j, n + 1);
    }
    assert_int_equal(sender(&j, DEPTH, START + 2), SPEC_JOINT_WAIT);
    assert_int_equal(sender(&j, DEPTH - 1, START + 3), SPEC_JOINT_FRAGMENT);
}

static void one_that_is_not_met_gets_one(void **state)
{
    (void) state;
    spec_joint_t j;
    spec_joint_begin(&j, 0, false, START);
    assert_int_equal(sender(&j, 0, START), SPEC_JOINT_FRAGMENT);
    spec_joint_moved(&j, 1);
    assert_int_equal(sender(&j, 1, START + 1), SPEC_JOINT_WAIT);
    /* It gives the fragment back: it is there. */
    assert_int_equal(sender(&j, 0, START + 2), SPEC_JOINT_FRAGMENT);
    spec_joint_moved(&j, 1);
    assert_int_equal(sender(&j, 1, START + 3), SPEC_JOINT_FRAGMENT);

    /* It has not given back one of another message: none. */
    spec_joint_begin(&j, 1, false, START);
    assert_int_equal(sender(&j, 1, START), SPEC_JOINT_WAIT);
    assert_int_equal(sender(&j, 1, START + PATIENCE), SPEC_JOINT_SINGLE);
    assert_int_equal(sender(&j, 0, START + PATIENCE + 1), SPEC_JOINT_FRAGMENT);
}

static void an_end_that_sees_nothing_moves_alone(void **state)
{
    (void) state;
    spec_joint_t j;
    spec_joint_begin(&j, 0, true, START);
    for (int n = 0; n < DEPTH; ++n) {
        assert_int_equal(sender(&j, n, START), SPEC_JOINT_FRAGMENT);
        spec_joint_moved(&j, n + 1);
    }
    assert_int_equal(sender(&j, DEPTH, START + PATIENCE - 1), SPEC_JOINT_WAIT);
    assert_int_equal(sender(&j, DEPTH, START + PATIENCE), SPEC_JOINT_SINGLE);
    spec_joint_moved(&j, DEPTH);
    /* Until it sees something. */
    assert_int_equal(sender(&j, DEPTH, START + PATIENCE + 1), SPEC_JOINT_SINGLE);
    assert_int_equal(sender(&j, DEPTH - 1, START + PATIENCE + 2), SPEC_JOINT_FRAGMENT);
    spec_joint_moved(&j, DEPTH);
    assert_int_equal(sender(&j, DEPTH, START + PATIENCE + 3), SPEC_JOINT_WAIT);

    spec_joint_begin(&j, 100000, true, START);
    assert_int_equal(receiver(&j, 100000, START + PATIENCE - 1), SPEC_JOINT_WAIT);
    assert_int_equal(receiver(&j, 100000, START + PATIENCE), SPEC_JOINT_SINGLE);
    spec_joint_moved(&j, 60000); /* its own doing is nothing that it sees of the other */
    assert_int_equal(receiver(&j, 60000, START + PATIENCE + 1), SPEC_JOINT_SINGLE);
    assert_int_equal(receiver(&j, 50000, START + PATIENCE + 2), SPEC_JOINT_WAIT);
    assert_int_equal(receiver(&j, 50000, START + 2 * PATIENCE + 1), SPEC_JOINT_WAIT);
    assert_int_equal(receiver(&j, 50000, START + 2 * PATIENCE + 2), SPEC_JOINT_SINGLE);
}

static void the_time_of_own_fragments_is_not_counted(void **state)
{
    (void) state;
    spec_joint_t j;
    spec_joint_begin(&j, 100000, true, START);
    const uint64_t idle_since = START + 2000;
    assert_int_equal(spec_joint_next(&j, 100000, 0, PATIENCE, idle_since, START + PATIENCE),
                     SPEC_JOINT_WAIT);
    assert_int_equal(spec_joint_next(&j, 100000, 0, PATIENCE, idle_since, idle_since + PATIENCE),
                     SPEC_JOINT_SINGLE);
    /* But not for ever. */
    spec_joint_begin(&j, 100000, true, START);
    const uint64_t end = START + SPEC_JOINT_PATIENCES * PATIENCE;
    assert_int_equal(spec_joint_next(&j, 100000, 0, PATIENCE, end - 1, end - 1), SPEC_JOINT_WAIT);
    assert_int_equal(spec_joint_next(&j, 100000, 0, PATIENCE, end, end), SPEC_JOINT_SINGLE);
}

static void pieces_let_both_ends_copy(void **state)
{
    (void) state;
    enum { MOST = 32752 };
    assert_int_equal(spec_joint_piece(true, 40000, MOST), 40000 / SPEC_JOINT_PIECES);
    assert_int_equal(spec_joint_piece(true, 1 << 20, MOST), MOST);
    assert_int_equal(spec_joint_piece(true, 9000, MOST), SPEC_JOINT_LEAST);
    assert_int_equal(spec_joint_piece(true, 9000, 4096), 4096);
    /* Of what it may have to copy after it has computed there is little. */
    assert_int_equal(spec_joint_piece(false, 1 << 20, MOST), SPEC_JOINT_LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receiver_that_waits_gets_fragments),
        cmocka_unit_test(one_that_is_not_met_gets_one),
        cmocka_unit_test(an_end_that_sees_nothing_moves_alone),
        cmocka_unit_test(the_time_of_own_fragments_is_not_counted),
        cmocka_unit_test(pieces_let_both_ends_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
