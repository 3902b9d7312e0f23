/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The rules of a connection that may go by its own network or by another port (vb_conn.h), and of requests that are cut into parts
 * (vb_parts.h): nothing but states, events and times. */
#include "spec_unit.h"

#include "vb_conn.h"
#include "vb_parts.h"

static void requests_are_cut(void **state)
{
    vb_parts_t p = {.sent = 0};
    (void) state;
    const vb_piece_t *piece = vb_parts_cut(&p, 25, 10);
    assert_true(0 == piece->offset && 10 == piece->length && !piece->is_last && 0 == piece->request);
    piece = vb_parts_cut(&p, 25, 10);
    assert_true(10 == piece->offset && 10 == piece->length && !piece->is_last);
    piece = vb_parts_cut(&p, 25, 10);
    assert_true(20 == piece->offset && 5 == piece->length && piece->is_last && 0 == piece->request);
    piece = vb_parts_cut(&p, 0, 10);
    assert_true(0 == piece->length && piece->is_last && 1 == piece->request);
    piece = vb_parts_cut(&p, 10, 10);
    assert_true(10 == piece->length && piece->is_last && 2 == piece->request);
    assert_null(vb_parts_answered(&p, 1));
    for (uint32_t i = 0; i < 5; ++i) {
        piece = vb_parts_answered(&p, i);
        assert_non_null(piece);
        assert_int_equal(piece->request, i < 3 ? 0 : i - 2);
    }
    assert_null(vb_parts_answered(&p, 5));
    for (uint32_t i = 0; i < VB_PARTS_MOST; ++i) {
        assert_true(vb_parts_have_room(&p, VB_PARTS_MOST));
        (void) vb_parts_cut(&p, 1, 10);
    }
    assert_false(vb_parts_have_room(&p, VB_PARTS_MOST));
    assert_non_null(vb_parts_answered(&p, 5));
    assert_true(vb_parts_have_room(&p, VB_PARTS_MOST));
    assert_true(vb_parts_heard(&p, 0) && vb_parts_heard(&p, 1));
    assert_false(vb_parts_heard(&p, 1));
    assert_false(vb_parts_heard(&p, 3));
    assert_true(vb_parts_heard(&p, 2));
}

static const vb_conn_rules_t rules = {.attempt_ns = 100000,
                                      .backoff_ns = 10,
                                      .tries = 3,
                                      .resume_ns = 1000000,
                                      .breaks = 2,
                                      .trial_ns = 1000,
                                      .return_ns = 4000};

static unsigned on(vb_conn_t *c, vb_conn_event_t event, uint64_t now)
{
    return vb_conn_step(c, event, now, &rules);
}

static void connect_at(vb_conn_t *c, uint64_t now)
{
    (void) on(c, VB_ON_ADDRESS, now);
    (void) on(c, VB_ON_ROUTE, now);
    assert_int_equal(on(c, VB_ON_ESTABLISHED, now), VB_DO_FIRST | VB_DO_READY);
}

/* Of the smaller name if stands. Open by the own network since 3, and broken at 10. */
static void broken(vb_conn_t *c, bool stands)
{
    vb_conn_init(c, stands ? 1 : 2, stands ? 2 : 1);
    c->has_elsewhere = true;
    (void) on(c, VB_ON_WANTED, 1);
    assert_false(c->is_elsewhere);
    connect_at(c, 3);
    assert_int_equal(c->deadline, 0);
    assert_int_equal(on(c, VB_ON_FAILED, 10), VB_DO_BREAK);
}

static void ways_take_turns(void **state)
{
    vb_conn_t c;
    (void) state;
    broken(&c, true);
    (void) on(&c, VB_ON_STILL, 20);
    assert_int_equal(c.deadline, 20); /* at once */
    for (unsigned i = 0; i < 6; ++i) {
        const uint64_t now = c.deadline;
        assert_int_equal(on(&c, VB_ON_TIMEOUT, now), VB_DO_RESOLVE);
        assert_int_equal(c.is_elsewhere, 0 == i % 2);
        assert_int_equal(c.deadline, now + rules.trial_ns);
        assert_int_equal(on(&c, VB_ON_TIMEOUT, c.deadline), VB_DO_DROP);
    }
    vb_conn_t computes = c;
    for (unsigned i = 0; i < 10000; ++i) { /* it gives none, but what it is asked arrives */
        (void) on(&computes, VB_ON_TIMEOUT, computes.deadline);
        if (computes.is_elsewhere) {
            (void) on(&computes, VB_ON_CARRIED, computes.deadline - 1);
        }
        (void) on(&computes, VB_ON_TIMEOUT, computes.deadline);
    }
    assert_int_equal(computes.state, VB_WAITING);
    for (unsigned i = 0; i < 3; ++i) { /* busy is an answer: that way works */
        (void) on(&c, VB_ON_TIMEOUT, c.deadline);
        assert_true(c.is_elsewhere);
        (void) on(&c, VB_ON_REJECTED, c.deadline);
    }
    (void) on(&c, VB_ON_TIMEOUT, c.deadline);
    (void) on(&c, VB_ON_FAILED, c.deadline);
    for (unsigned i = 0; i < 3; ++i) {
        (void) on(&c, VB_ON_TIMEOUT, c.deadline);
        assert_false(c.is_elsewhere);
        (void) on(&c, VB_ON_REJECTED, c.deadline);
    }
}

static void elsewhere_is_preferred(void **state)
{
    (void) state;
    for (int stands = 0; stands < 2; ++stands) {
        vb_conn_t c, own;
        broken(&c, stands);
        assert_int_equal(on(&c, VB_ON_ASKED_ELSEWHERE, 11), VB_DO_BUSY);
        (void) on(&c, VB_ON_STILL, 20);
        own = c;
        assert_int_equal(on(&own, VB_ON_ASKED_ELSEWHERE, 21), VB_DO_ACCEPT);
        assert_true(own.is_elsewhere);
        assert_int_equal(own.deadline, 21 + rules.trial_ns);
        (void) on(&c, VB_ON_TIMEOUT, c.deadline); /* mine by the other port */
        own = c;
        assert_int_equal(on(&own, VB_ON_ASKED_AGAIN, 22), VB_DO_CROSSED);
        assert_int_equal(on(&own, VB_ON_ASKED_ELSEWHERE, 22), stands ? VB_DO_CROSSED : VB_DO_DROP | VB_DO_ACCEPT);
        (void) on(&c, VB_ON_FAILED, 30);
        (void) on(&c, VB_ON_TIMEOUT, c.deadline); /* mine by the own network */
        assert_false(c.is_elsewhere);
        own = c;
        assert_int_equal(on(&own, VB_ON_ASKED_AGAIN, 40), stands ? VB_DO_CROSSED : VB_DO_DROP | VB_DO_ACCEPT);
        assert_false(own.is_elsewhere);
        assert_int_equal(on(&c, VB_ON_ASKED_ELSEWHERE, 40), VB_DO_DROP | VB_DO_ACCEPT);
        assert_int_equal(on(&c, VB_ON_ARRIVED, 41), VB_DO_READY);
        assert_int_equal(c.deadline, stands ? 41 + rules.return_ns : 0);
        assert_int_equal(on(&c, VB_ON_ARRIVED, 42), 0);
        assert_int_equal(c.deadline, stands ? 41 + rules.return_ns : 0);
        assert_int_equal(on(&c, VB_ON_ASKED_ELSEWHERE, 50), VB_DO_BREAK | VB_DO_BUSY);
    }
}

/* Open elsewhere from now on. */
static void go_elsewhere(vb_conn_t *c)
{
    (void) on(c, VB_ON_TIMEOUT, c->deadline);
    assert_true(c->is_elsewhere);
    connect_at(c, c->deadline - rules.trial_ns);
}

static void the_own_network_is_tried(void **state)
{
    vb_conn_t c;
    (void) state;
    broken(&c, true);
    (void) on(&c, VB_ON_STILL, 20);
    for (unsigned i = 0; i < 7; ++i) {
        go_elsewhere(&c);
        assert_int_equal(c.deadline - c.opened_at, rules.return_ns << (i < 4 ? i : 4));
        const uint64_t now = c.deadline;
        assert_int_equal(on(&c, VB_ON_TIMEOUT, now), VB_DO_BREAK);
        assert_int_equal(on(&c, VB_ON_STILL, now), VB_DO_DROP);
        assert_int_equal(c.deadline, now);
        assert_int_equal(on(&c, VB_ON_TIMEOUT, now), VB_DO_RESOLVE);
        assert_false(c.is_elsewhere);
        assert_int_equal(on(&c, VB_ON_TIMEOUT, now + rules.trial_ns), VB_DO_DROP);
    }
    go_elsewhere(&c);
    (void) on(&c, VB_ON_TIMEOUT, c.deadline);
    (void) on(&c, VB_ON_STILL, c.opened_at);
    (void) on(&c, VB_ON_TIMEOUT, c.deadline);
    const uint64_t home = c.deadline;
    connect_at(&c, home);
    assert_int_equal(c.deadline, 0);
    vb_conn_t soon = c;
    (void) on(&c, VB_ON_FAILED, home + rules.resume_ns); /* it lasted */
    (void) on(&c, VB_ON_STILL, home + rules.resume_ns);
    go_elsewhere(&c);
    assert_int_equal(c.deadline - c.opened_at, rules.return_ns);
    (void) on(&soon, VB_ON_FAILED, home + 1); /* it did not, for the second time */
    (void) on(&soon, VB_ON_STILL, home + 1);
    go_elsewhere(&soon);
    assert_int_equal(soon.deadline - soon.opened_at, rules.return_ns << 4);
}

/* Connections by the own network that do not last do not lose a peer that is reached elsewhere: it stays there. */
static void a_network_that_breaks_again_is_left_for_good(void **state)
{
    vb_conn_t c;
    (void) state;
    broken(&c, true);
    for (unsigned i = 0; i < rules.breaks; ++i) {
        (void) on(&c, VB_ON_STILL, 100 * (i + 1));
        go_elsewhere(&c);
        (void) on(&c, VB_ON_TIMEOUT, c.deadline);
        (void) on(&c, VB_ON_STILL, c.opened_at);
        (void) on(&c, VB_ON_TIMEOUT, c.deadline);
        connect_at(&c, c.deadline);
        assert_int_equal(on(&c, VB_ON_FAILED, c.opened_at + 1), VB_DO_BREAK);
    }
    (void) on(&c, VB_ON_STILL, 1000);
    go_elsewhere(&c);
    assert_int_equal(c.deadline, 0);
}

/* Each time sooner than the own network would be tried. */
static void another_port_that_breaks_is_left_first(void **state)
{
    vb_conn_t c;
    (void) state;
    broken(&c, true);
    (void) on(&c, VB_ON_STILL, 20);
    for (unsigned i = 0; i < 5; ++i) {
        go_elsewhere(&c);
        assert_int_equal(on(&c, VB_ON_FAILED, c.opened_at + 1), VB_DO_BREAK);
        (void) on(&c, VB_ON_STILL, c.opened_at + 2);
        assert_int_equal(on(&c, VB_ON_TIMEOUT, c.deadline), VB_DO_RESOLVE);
        assert_false(c.is_elsewhere);
        (void) on(&c, VB_ON_TIMEOUT, c.deadline);
    }
    assert_int_equal(c.trials, 0);
}

/* Its own network is of no use any more. */
static void a_stranded_peer_stays_elsewhere(void **state)
{
    vb_conn_t c;
    (void) state;
    broken(&c, true);
    (void) on(&c, VB_ON_STILL, 20);
    c.is_stranded = true;
    for (unsigned i = 0; i < 4; ++i) {
        (void) on(&c, VB_ON_TIMEOUT, c.deadline);
        assert_true(c.is_elsewhere);
        (void) on(&c, VB_ON_FAILED, c.deadline);
    }
    c.is_stranded = false; /* it is open when the adapter fails */
    while (!c.is_elsewhere || VB_RESOLVING != c.state) {
        (void) on(&c, VB_ON_TIMEOUT, c.deadline);
    }
    connect_at(&c, c.deadline - rules.trial_ns);
    c.is_stranded = true;
    assert_int_not_equal(c.deadline, 0);
    assert_int_equal(on(&c, VB_ON_TIMEOUT, c.deadline), 0);
    assert_int_equal(c.state, VB_OPEN);
    assert_int_equal(c.deadline, 0);
}

static void the_other_end_waits_to_be_asked(void **state)
{
    vb_conn_t c;
    (void) state;
    broken(&c, false);
    (void) on(&c, VB_ON_STILL, 20);
    go_elsewhere(&c);
    assert_int_equal(c.deadline, 0);
    (void) on(&c, VB_ON_DISCONNECTED, 5000);
    (void) on(&c, VB_ON_STILL, 5001);
    assert_int_equal(c.deadline, 5001 + 2 * rules.trial_ns);
    assert_int_equal(on(&c, VB_ON_ASKED_AGAIN, 5002), VB_DO_ACCEPT);
    assert_false(c.is_elsewhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_cut),
        cmocka_unit_test(ways_take_turns),
        cmocka_unit_test(elsewhere_is_preferred),
        cmocka_unit_test(the_own_network_is_tried),
        cmocka_unit_test(a_network_that_breaks_again_is_left_for_good),
        cmocka_unit_test(another_port_that_breaks_is_left_first),
        cmocka_unit_test(a_stranded_peer_stays_elsewhere),
        cmocka_unit_test(the_other_end_waits_to_be_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
