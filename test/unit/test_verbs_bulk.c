/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The second connection to a process, for large transfers: what takes it (vb_bulk.h), and two connections between the same
 * processes over adapters that are not there. */
#include "verbs_mailboxes.h"

#include "vb_bulk.h"

/* ---- what takes it ---- */

#define MIN  UINT64_C(1000)
#define LONG (MIN * VB_BULK_WAITS)

static const bool not_ordered = false, ordered = true, not_open = false, is_open = true;

static vb_bulk_t wanted(void)
{
    vb_bulk_t bulk = {.state = VB_BULK_NONE};
    assert_true(vb_bulk_wants(&bulk, MIN, MIN));
    return bulk;
}

/* A transfer begins: does it take the second connection? */
static bool takes(vb_bulk_t *bulk, uint64_t bytes, bool open, uint32_t others, uint64_t now)
{
    if (vb_bulk_may_change(bulk, bytes)) {
        vb_bulk_changes(bulk, MIN, bytes, open, others, now);
    }
    return vb_bulk_takes(bulk, bytes, not_ordered);
}

static void it_is_wanted_for_a_large_transfer_once(void **state)
{
    (void) state;
    vb_bulk_t bulk = {.state = VB_BULK_NONE};
    assert_false(vb_bulk_wants(&bulk, MIN, MIN - 1));
    assert_false(vb_bulk_wants(&bulk, 0, UINT64_MAX));
    assert_false(takes(&bulk, MIN - 1, is_open, 0, 0));
    assert_true(vb_bulk_wants(&bulk, MIN, MIN));
    assert_false(vb_bulk_wants(&bulk, MIN, MIN));
}

static void transfers_change_over_when_it_is_there(void **state)
{
    (void) state;
    vb_bulk_t bulk = wanted();
    assert_false(takes(&bulk, LONG - 1, not_open, 0, 0));
    assert_false(vb_bulk_may_change(&bulk, 0));     /* by a message */
    assert_false(vb_bulk_takes(&bulk, 0, ordered)); /* behind those by the first */
    assert_true(takes(&bulk, 1, is_open, 0, 0));
    assert_false(vb_bulk_may_change(&bulk, LONG)); /* for good */
    assert_true(takes(&bulk, 1, is_open, 7, 0));
    assert_true(vb_bulk_takes(&bulk, 0, ordered));
    assert_false(vb_bulk_takes(&bulk, 0, not_ordered));
}

/* What is ordered would pass those of the first. */
static void none_changes_over_while_others_are_under_way(void **state)
{
    (void) state;
    vb_bulk_t bulk = wanted();
    assert_false(takes(&bulk, LONG, is_open, 1, 0));
    assert_false(vb_bulk_takes(&bulk, 0, ordered));
}

static void a_long_one_waits_for_it(void **state)
{
    (void) state;
    vb_bulk_t bulk = wanted();
    assert_true(takes(&bulk, LONG, not_open, 0, 5));
    assert_true(vb_bulk_takes(&bulk, 0, ordered));
    assert_false(vb_bulk_gives_up(&bulk, false, false, 5 + VB_BULK_PATIENCE));
    assert_false(vb_bulk_gives_up(&bulk, false, true, 6 + VB_BULK_PATIENCE));
    assert_true(vb_bulk_gives_up(&bulk, false, false, 6 + VB_BULK_PATIENCE));
    assert_false(vb_bulk_gives_up(&bulk, true, false, 0)); /* once */
    assert_false(takes(&bulk, LONG, is_open, 0, 0));
    assert_false(vb_bulk_takes(&bulk, 0, ordered));
    assert_false(vb_bulk_wants(&bulk, MIN, MIN));
}

static void one_that_cannot_be_made_is_given_up(void **state)
{
    (void) state;
    vb_bulk_t bulk = wanted();
    assert_false(vb_bulk_gives_up(&bulk, false, false, UINT64_MAX)); /* nothing waits for it */
    assert_true(vb_bulk_gives_up(&bulk, true, false, 0));
    assert_false(takes(&bulk, LONG, is_open, 0, 0));
}

/* Nor is one that ends before it is used, as by a process that has all it needs and goes. */
static void one_that_is_not_used_loses_nobody(void **state)
{
    (void) state;
    vb_bulk_t bulk = wanted();
    assert_false(vb_bulk_is_in_use(&bulk, true));
    assert_true(vb_bulk_gives_up(&bulk, true, true, 0));
    bulk = (vb_bulk_t){.state = VB_BULK_NONE}; /* the other process has made it */
    assert_false(vb_bulk_is_in_use(&bulk, true));
    assert_true(vb_bulk_gives_up(&bulk, true, true, 0));
    bulk = wanted();
    assert_true(takes(&bulk, 1, is_open, 0, 0));
    assert_true(vb_bulk_is_in_use(&bulk, true));
    assert_false(vb_bulk_gives_up(&bulk, true, true, 0)); /* the process is lost */
    assert_false(vb_bulk_is_in_use(&bulk, false));        /* a long one waits for it */
}

/* ---- two connections ---- */

static vb_peer_t *second[FAKE_NODES + 1][FAKE_NODES + 1];

static vb_peer_t *add_second(unsigned from, unsigned to)
{
    process_t *p = &process[from];
    vb_port_lock(p->port);
    second[from][to] = vb_peer_add_bulk(p->peer[to], p);
    if (NULL != second[from][to]) {
        vb_peer_connect(second[from][to]);
    }
    vb_port_unlock(p->port);
    return second[from][to];
}

/* What follows is by the second connection, until this is called again. */
static void swap(unsigned from, unsigned to)
{
    vb_peer_t *peer = process[from].peer[to];
    process[from].peer[to] = second[from][to];
    second[from][to] = peer;
}

static void until_second(unsigned from, unsigned to, vb_conn_state_t state)
{
    swap(from, to);
    wait_for(from, to, state);
    swap(from, to);
}

static vb_status_t say_second(unsigned from, unsigned to, uint8_t first)
{
    swap(from, to);
    const vb_status_t status = say(from, to, first);
    swap(from, to);
    return status;
}

/* Both connections carry messages, each its own. */
static void both_are_of_use(unsigned a, unsigned b)
{
    process[b].received = 0;
    assert_int_equal(say(a, b, 1), VB_OK);
    assert_int_equal(say_second(a, b, 2), VB_OK);
    settle();
    assert_int_equal(process[b].received, 2);
    assert_int_equal(process[b].got[0] + process[b].got[1], 3);
}

static void a_process_has_two_connections(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    assert_non_null(add_second(1, 2));
    until_second(1, 2, VB_OPEN);
    assert_int_equal(fake.queue_pairs, 4);
    both_are_of_use(1, 2);
    assert_int_equal(vb_peer_name(second[1][2]), process[2].name);
    assert_true(vb_peer_is_bulk(second[1][2]));
    assert_false(vb_peer_is_bulk(process[1].peer[2]));
    assert_true(vb_peer_was_open(second[1][2]));
    assert_int_equal(counters_of(1)->bulk, 1);
    /* The other end uses it without another. */
    assert_non_null(add_second(2, 1));
    assert_string_equal(vb_conn_state_name(vb_peer_connection(second[2][1])->state), "OPEN");
    both_are_of_use(2, 1);
    assert_int_equal(fake.queue_pairs, 4);
    assert_int_equal(counters_of(1)->lost + counters_of(2)->lost, 0);
}

static void both_ask_for_both_at_once(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    assert_int_equal(say(1, 2, 0), VB_AGAIN);
    assert_int_equal(say(2, 1, 0), VB_AGAIN);
    assert_non_null(add_second(1, 2));
    assert_non_null(add_second(2, 1));
    until(1, 2, VB_OPEN);
    until(2, 1, VB_OPEN);
    until_second(1, 2, VB_OPEN);
    until_second(2, 1, VB_OPEN);
    assert_int_equal(fake.queue_pairs, 4);
    both_are_of_use(1, 2);
    both_are_of_use(2, 1);
}

static void by_datagrams_as_well(void **state)
{
    (void) state;
    open_ports(2);
    know_each_other(1, 2);
    connect_two(1, 2);
    assert_non_null(add_second(1, 2));
    assert_non_null(add_second(2, 1));
    progress(
        1); /* it hears of the other's before its own is answered, and gives way to the smaller name */
    until_second(1, 2, VB_OPEN);
    until_second(2, 1, VB_OPEN);
    assert_int_equal(counters_of(1)->crossed, 0);
    both_are_of_use(1, 2);
    both_are_of_use(2, 1);
    assert_int_equal(counters_of(1)->strangers + counters_of(2)->strangers, 0);
}

static unsigned asked_for_second;

static void on_second(void *context, vb_peer_t *first)
{
    assert_int_equal(vb_peer_is_bulk(first), false);
    assert_non_null(vb_peer_add_bulk(first, context));
    ++asked_for_second;
}

/* The process that is asked need not have met the other, by whichever connection. */
static void it_may_be_the_first(void **state)
{
    (void) state;
    begin(2);
    process_t *p = &process[1], *q = &process[2];
    const struct sockaddr_in address = fake_address(2, vb_port_number(q->port));
    q->port->config.second = on_second;
    asked_for_second = 0;
    p->peer[2] = vb_peer_add(p->port, q->name, &address, 1002, p);
    assert_non_null(add_second(1, 2));
    until_second(1, 2, VB_OPEN);
    assert_int_equal(say_second(1, 2, 9), VB_OK);
    settle();
    assert_int_equal(q->received, 1);
    assert_int_equal(vb_peer_connection(p->peer[2])->state, VB_IDLE);
    assert_int_equal(asked_for_second, 0);
}

static void the_end_of_one_is_not_that_of_the_other(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    assert_non_null(add_second(1, 2));
    assert_non_null(add_second(2, 1));
    until_second(1, 2, VB_OPEN);
    until_second(2, 1, VB_OPEN);
    vb_port_lock(process[1].port);
    vb_peer_close(second[1][2]);
    vb_port_unlock(process[1].port);
    until_second(2, 1, VB_CLOSED);
    assert_int_equal(say(1, 2, 5), VB_OK);
    assert_int_equal(say(2, 1, 6), VB_OK);
    settle();
    assert_int_equal(process[1].received, 1);
    assert_int_equal(process[2].received, 1);
    assert_int_equal(process[1].lost + process[2].lost, 0);
}

static void lose(unsigned from, vb_peer_t *peer)
{
    vb_port_lock(process[from].port);
    vb_peer_lose(peer, "as the other");
    vb_port_unlock(process[from].port);
}

/* A process that is lost by one is lost by both, at both ends. */
static void a_process_is_lost_by_both(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    assert_non_null(add_second(1, 2));
    assert_non_null(add_second(2, 1));
    until_second(1, 2, VB_OPEN);
    until_second(2, 1, VB_OPEN);
    lose(1, second[1][2]);
    until_second(2, 1, VB_DEAD);
    lose(1, process[1].peer[2]);
    until(2, 1, VB_DEAD);
    for (unsigned i = 0; i < 2; ++i) {
        lose(1, second[1][2]); /* no more */
    }
    settle();
    assert_int_equal(process[1].lost, 2);
    assert_int_equal(process[2].lost, 2);
    assert_int_equal(counters_of(1)->lost, 1);
    assert_int_equal(say_second(1, 2, 5), VB_LOST);
    assert_int_equal(fake.queue_pairs, 0);
}

/* Whatever its connection is at. */
static void what_is_only_being_made_ends_too(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    lose(1, process[1].peer[2]);
    assert_int_equal(vb_peer_connection(process[1].peer[2])->state, VB_CLOSED);
    meet(2, 1);
    assert_non_null(add_second(2, 1));
    lose(2, second[2][1]);
    assert_int_equal(vb_peer_connection(second[2][1])->state, VB_DEAD);
    settle();
    assert_int_equal(fake.queue_pairs, 0);
}

/* The process that is asked knows it as the other's before a message comes by it. */
static void the_process_that_is_asked_is_told(void **state)
{
    (void) state;
    asked_for_second = 0;
    begin(2);
    open_up(1, 2);
    process[2].port->config.second = on_second;
    assert_false(vb_peer_has_second(process[2].peer[1]));
    assert_non_null(add_second(1, 2));
    until_second(1, 2, VB_OPEN);
    assert_int_equal(asked_for_second, 1);
    assert_true(vb_peer_has_second(process[2].peer[1]));
    lose(1, second[1][2]);
    settle();
    assert_int_equal(process[2].lost, 1);
}

static void one_that_cannot_be_made_loses_nobody(void **state)
{
    (void) state;
    begin(2);
    const struct sockaddr_in nowhere = fake_address(2, 1);
    process[1].peer[2] = vb_peer_add(process[1].port, process[2].name, &nowhere, 1002, &process[1]);
    assert_non_null(add_second(1, 2));
    until_second(1, 2, VB_DEAD);
    assert_false(vb_peer_was_open(second[1][2]));
    assert_int_equal(counters_of(1)->lost, 0);
}

/* Nor is one asked for in the name of this process, or by one that has taken another's name for a second connection. */
static void none_leads_to_the_process_itself(void **state)
{
    (void) state;
    vb_config_t c = config_of(&process[1]);
    assert_true(start(1, &c, NULL));
    vb_port_lock(process[1].port);
    vb_peer_t *self = vb_peer_add(process[1].port, process[1].name, NULL, 0, NULL);
    assert_null(vb_peer_add_bulk(self, NULL));
    vb_port_unlock(process[1].port);
    process[2].name = process[1].name | VB_BULK_NAME;
    c = config_of(&process[2]);
    assert_true(start(2, &c, NULL));
    const struct sockaddr_in address = fake_address(1, vb_port_number(process[1].port));
    process[2].peer[1] = vb_peer_add(process[2].port, process[1].name, &address, 1001, &process[2]);
    (void) say(2, 1, 0);
    until(2, 1, VB_DEAD);
    assert_true(counters_of(1)->strangers > 0);
    /* A process with such a name makes none. */
    assert_null(vb_peer_add_bulk(vb_peer_add(process[2].port, NOBODY, &address, 1001, NULL), NULL));
}

static void a_second_has_no_second(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    assert_non_null(add_second(1, 2));
    assert_null(vb_peer_add_bulk(second[1][2], NULL));
}

/* A port that has datagrams makes none, and refuses one. */
static void none_beside_datagrams(void **state)
{
    (void) state;
    fake.no_addresses = true;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = without_address(&process[i]);
        c.datagram.after = 1 == i ? 0 : 50;
        assert_true(start(i, &c, NULL));
    }
    assert_true(vb_port_abilities(process[2].port)->datagrams);
    know_each_other(1, 2);
    assert_null(add_second(2, 1));
    assert_non_null(add_second(1, 2));
    until_second(1, 2, VB_DEAD);
    assert_true(counters_of(2)->strangers > 0);
    assert_int_equal(counters_of(1)->lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_wanted_for_a_large_transfer_once),
        cmocka_unit_test(transfers_change_over_when_it_is_there),
        cmocka_unit_test(none_changes_over_while_others_are_under_way),
        cmocka_unit_test(a_long_one_waits_for_it),
        cmocka_unit_test(one_that_cannot_be_made_is_given_up),
        cmocka_unit_test(one_that_is_not_used_loses_nobody),
        cmocka_unit_test_setup_teardown(a_process_has_two_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(both_ask_for_both_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(by_datagrams_as_well, setup, teardown),
        cmocka_unit_test_setup_teardown(it_may_be_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_one_is_not_that_of_the_other, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_is_lost_by_both, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_only_being_made_ends_too, setup, teardown),
        cmocka_unit_test_setup_teardown(the_process_that_is_asked_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_made_loses_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(none_leads_to_the_process_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_has_no_second, setup, teardown),
        cmocka_unit_test_setup_teardown(none_beside_datagrams, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
