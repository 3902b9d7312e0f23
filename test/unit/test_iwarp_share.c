/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What senders of large messages may have in flight at the same time (iw_share.h). */
#include "spec_unit.h"

#include "iw_share.h"

enum { SENDERS = 8, SPACE = 1000, LEAST = 10, WHOLE = 1250 };
#define MS UINT64_C(1000000)

static iw_share_t share;
static iw_sender_t sender[SENDERS];

static void begin(void)
{
    iw_share_init(&share);
    memset(sender, 0, sizeof(sender));
}

static uint32_t window(unsigned i)
{
    return iw_share_window(&share, &sender[i], SPACE, WHOLE, LEAST);
}

static iw_sender_t *heard(unsigned i, uint32_t bytes, uint64_t now)
{
    return iw_share_heard(&share, &sender[i], bytes, LEAST, 2, now);
}

static void alone_it_has_all(void **state)
{
    (void) state;
    begin();
    assert_int_equal(iw_share_crowd(&share), 1);
    assert_null(heard(0, 100, 0));
    assert_int_equal(window(0), SPACE);
    assert_null(iw_share_leave(&share, &sender[0], 2, 0));
    assert_null(iw_share_leave(&share, &sender[0], 2, 0)); /* it is gone */
    assert_int_equal(share.told, 0);
}

static void others_wait_for_the_end_of_a_message(void **state)
{
    (void) state;
    begin();
    for (unsigned i = 0; i < 4; ++i) {
        assert_null(heard(i, 100, 0));
    }
    assert_int_equal(window(0), SPACE / 2);
    assert_int_equal(window(1), SPACE / 2);
    assert_int_equal(window(2), 0);
    assert_int_equal(window(3), 0);
    assert_ptr_equal(iw_share_leave(&share, &sender[1], 2, 0), &sender[2]);
    assert_int_equal(window(2), SPACE / 2);
    assert_int_equal(window(3), 0);
    /* One that waits can leave, too. */
    assert_null(iw_share_leave(&share, &sender[3], 2, 0));
    assert_null(iw_share_leave(&share, &sender[0], 2, 0));
    assert_int_equal(window(2), SPACE);
}

/* What the first was told is still with it when the second comes. */
static void no_more_than_the_whole_is_told(void **state)
{
    (void) state;
    begin();
    assert_null(heard(0, 100, 0));
    assert_int_equal(window(0), SPACE);
    assert_null(heard(1, 100, 0));
    assert_int_equal(window(1), WHOLE - SPACE);
    assert_int_equal(window(0), SPACE / 2);
    assert_int_equal(window(1), SPACE / 2);
    begin();
    assert_null(iw_share_heard(&share, &sender[0], 100, WHOLE, 2, 0));
    assert_null(heard(1, 100, 0));
    assert_int_equal(window(1), LEAST);
}

static void a_long_message_gives_way(void **state)
{
    (void) state;
    begin();
    for (unsigned i = 0; i < 3; ++i) {
        assert_null(heard(i, 100, 0));
    }
    assert_null(heard(0, IW_SHARE_TURN - 101 - 100, 0));
    assert_int_equal(window(0), SPACE / 2);
    assert_ptr_equal(heard(0, 101, 0), &sender[2]);
    assert_int_equal(window(0), 0);
    assert_int_equal(window(2), SPACE / 2);
    /* Without another one there is no reason. */
    assert_ptr_equal(iw_share_leave(&share, &sender[1], 2, 0), &sender[0]);
    assert_null(heard(0, 10 * IW_SHARE_TURN, 0));
    assert_int_equal(sender[0].state, IW_SHARE_SERVED);
}

static void a_silent_one_loses_its_turn(void **state)
{
    (void) state;
    begin();
    for (unsigned i = 0; i < 2; ++i) {
        assert_null(heard(i, 100, 0));
        (void) window(i);
    }
    assert_null(heard(1, 100, IW_SHARE_SILENT)); /* nobody waits */
    assert_null(heard(2, 100, IW_SHARE_SILENT)); /* not yet */
    assert_int_equal(sender[2].state, IW_SHARE_WAITS);
    assert_null(heard(2, 100, IW_SHARE_SILENT + 1)); /* it knows itself */
    assert_int_equal(sender[2].state, IW_SHARE_SERVED);
    assert_int_equal(sender[0].state, IW_SHARE_WAITS);
    assert_int_equal(window(2), SPACE / 2);
    assert_int_equal(window(0), 0);
}

/* Nobody waits for its turn, but its share is missed. */
static void one_that_is_gone_loses_its_share(void **state)
{
    (void) state;
    begin();
    for (unsigned i = 0; i < 2; ++i) {
        assert_null(heard(i, 100, 0));
        (void) window(i);
    }
    assert_null(heard(1, 100, IW_SHARE_GONE));
    assert_int_equal(window(1), WHOLE - SPACE);
    assert_null(heard(1, 100, IW_SHARE_GONE + 1));
    assert_int_equal(sender[0].state, IW_SHARE_NONE);
    assert_int_equal(window(1), SPACE);
    assert_int_equal(share.told, SPACE);
    /* It is heard again, and begins as any other. */
    assert_null(heard(0, 100, IW_SHARE_GONE + 2));
    assert_int_equal(share.members, 2);
    /* Alone it is not gone, however long it was not heard. */
    (void) iw_share_leave(&share, &sender[1], 2, IW_SHARE_GONE + 2);
    assert_null(heard(0, 100, 3 * IW_SHARE_GONE));
    assert_int_equal(sender[0].state, IW_SHARE_SERVED);
}

/* Of those served the one that was not heard for longest. */
static void who_is_heard_keeps_its_turn(void **state)
{
    (void) state;
    begin();
    assert_null(heard(0, 100, 0));
    assert_null(heard(1, 100, 1));
    assert_null(heard(0, 100, IW_SHARE_SILENT));
    assert_null(heard(2, 100, IW_SHARE_SILENT + 2));
    assert_int_equal(sender[0].state, IW_SHARE_SERVED);
    assert_int_equal(sender[1].state, IW_SHARE_WAITS);
}

/* What was, will be: who begins gets the part of as many as sent at the same time lately. */
static void a_crowd_is_remembered_for_a_while(void **state)
{
    (void) state;
    begin();
    for (unsigned i = 0; i < 5; ++i) {
        (void) heard(i, 100, IW_SHARE_MEMORY);
    }
    assert_int_equal(iw_share_crowd(&share), 6);
    for (unsigned i = 0; i < 5; ++i) {
        (void) iw_share_leave(&share, &sender[i], 2, IW_SHARE_MEMORY);
    }
    assert_int_equal(iw_share_crowd(&share), 5);
    (void) heard(0, 100, 2 * IW_SHARE_MEMORY);
    (void) iw_share_leave(&share, &sender[0], 2, 2 * IW_SHARE_MEMORY);
    assert_int_equal(iw_share_crowd(&share), 5);
    (void) heard(0, 100, 3 * IW_SHARE_MEMORY);
    (void) iw_share_leave(&share, &sender[0], 2, 3 * IW_SHARE_MEMORY);
    assert_int_equal(iw_share_crowd(&share), 1);
}

/* Whatever happens: no more are served than may be, none waits while there is room, the sum is right, and each that waits
 * is served in time. */
static void anything_may_happen(void **state)
{
    (void) state;
    uint64_t random = 1, waits[SENDERS] = {0};
    begin();
    for (uint64_t now = 0; now < 200000; ++now) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const unsigned i = (unsigned) (random >> 33) % SENDERS, what = (unsigned) (random >> 50) % 8;
        const bool may_send = IW_SHARE_WAITS != sender[i].state || 0 == what;
        if (1 == what) {
            (void) iw_share_leave(&share, &sender[i], 2, now);
        } else if (may_send) {
            (void) heard(i, IW_SHARE_TURN / 8, now);
        }
        (void) window(i);
        uint64_t told = 0;
        uint32_t served = 0, members = 0;
        for (unsigned k = 0; k < SENDERS; ++k) {
            told += sender[k].told;
            served += IW_SHARE_SERVED == sender[k].state;
            members += IW_SHARE_NONE != sender[k].state;
            assert_int_equal(spec_node_is_queued(&sender[k].link), IW_SHARE_NONE != sender[k].state);
            waits[k] = IW_SHARE_WAITS == sender[k].state ? waits[k] + 1 : 0;
            assert_true(waits[k] < 2000);
        }
        assert_int_equal(told, share.told);
        assert_int_equal(served, share.count);
        assert_int_equal(members, share.members);
        assert_in_range(served, members < 2 ? members : 2, 2);
        assert_in_range(told, 0, WHOLE + SENDERS * LEAST);
    }
}

/* Datagrams of the length of the limit: each is checked by itself. */
static void came(bool is_marked, uint32_t lost)
{
    iw_share_came(&share, share.limit, is_marked, lost, UINT32_MAX, LEAST);
}

static void the_network_may_take_less(void **state)
{
    (void) state;
    begin();
    (void) heard(0, 100, 0);
    came(true, 3); /* of one alone: no business of the others */
    assert_int_equal(share.limit, IW_SHARE_FIRST);
    assert_int_equal(iw_share_space(&share, true, 1 << 20), 1 << 20);
    (void) heard(1, 100, 0);
    assert_int_equal(iw_share_space(&share, true, 1 << 20), IW_SHARE_FIRST);
    assert_int_equal(iw_share_whole(&share, true, 1 << 20), IW_SHARE_FIRST);
    assert_int_equal(iw_share_space(&share, false, 1 << 20), 1 << 20); /* there is none */
    assert_int_equal(iw_share_whole(&share, false, 1 << 20), (1 << 20) + (1 << 18));
    assert_int_equal(iw_share_space(&share, true, SPACE), SPACE); /* or the port less */
    assert_int_equal(iw_share_whole(&share, true, SPACE), WHOLE);
    came(false, 0);
    assert_int_equal(share.limit, IW_SHARE_FIRST / 4 * 5);
    came(false, 1); /* one of two */
    assert_int_equal(share.limit, IW_SHARE_FIRST / 16 * 15);
    came(false, 0); /* slowly now */
    assert_int_equal(share.limit, IW_SHARE_FIRST / 16 * 15 + LEAST);
    came(true, 0); /* all of one */
    assert_int_equal(share.limit, IW_SHARE_FIRST / 32 * 15 + LEAST / 2);
}

/* What counts is the share of all that came for as long as a limit lasts. */
static void a_limit_is_checked_when_so_much_came(void **state)
{
    (void) state;
    begin();
    (void) heard(0, 100, 0);
    (void) heard(1, 100, 0);
    for (unsigned i = 0; i < 8; ++i) {
        assert_int_equal(share.limit, IW_SHARE_FIRST);
        iw_share_came(&share, IW_SHARE_FIRST / 8, 0 == i, 0, UINT32_MAX, LEAST);
    }
    assert_int_equal(share.limit, IW_SHARE_FIRST / 16 * 15);
    for (unsigned i = 0; i < 100; ++i) {
        came(true, 100);
    }
    assert_int_equal(share.limit, IW_SHARE_LEAST * LEAST);
    iw_share_came(&share, share.limit, false, 0, share.limit, LEAST); /* the port has no more */
    assert_int_equal(share.limit, IW_SHARE_LEAST * LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_has_all),
        cmocka_unit_test(others_wait_for_the_end_of_a_message),
        cmocka_unit_test(no_more_than_the_whole_is_told),
        cmocka_unit_test(a_long_message_gives_way),
        cmocka_unit_test(a_silent_one_loses_its_turn),
        cmocka_unit_test(one_that_is_gone_loses_its_share),
        cmocka_unit_test(who_is_heard_keeps_its_turn),
        cmocka_unit_test(a_crowd_is_remembered_for_a_while),
        cmocka_unit_test(anything_may_happen),
        cmocka_unit_test(the_network_may_take_less),
        cmocka_unit_test(a_limit_is_checked_when_so_much_came),
    };
    return cmocka_run_group_tests_name("iwarp_share", tests, NULL, NULL);
}
