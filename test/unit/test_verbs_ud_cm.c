/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections that datagrams make (vb_ud_cm.c), over adapters that are not there: ports without an address, datagrams that are
 * lost, doubled and late, which way connections are made, and how they end. */
#include "verbs_mailboxes.h"

/* ---- connecting ---- */

static void ports_without_an_address(void **state)
{
    (void) state;
    open_ports(2);
    assert_true(vb_port_abilities(process[1].port)->by_datagrams);
    assert_int_equal(vb_port_number(process[1].port), 0);
    connect_two(1, 2);
    assert_int_equal(fake.ids, 0);
    assert_int_equal(fake.queue_pairs, 4);
    assert_true(fake.datagrams >= 3); /* request, welcome, ready */
    assert_int_equal(fake.rnr_retry, 7);
    assert_int_equal(fake.reads_asked, 16);
    assert_int_equal(fake.reads_answered, 16);
    assert_int_equal(fake.service_level, 3);
    assert_int_equal(fake.traffic_class, 106);
    assert_int_equal(counters_of(1)->asked, 1);
    assert_int_equal(counters_of(2)->accepted, 1);
    assert_int_equal(counters_of(1)->strangers + counters_of(2)->strangers, 0);
}

/* Whom nobody has introduced is answered at the address that it gives. */
static void who_asks_need_not_be_known(void **state)
{
    (void) state;
    open_ports(2);
    knows(1, 2);
    assert_int_equal(say(1, 2, 0), VB_AGAIN);
    wait_for(1, 2, VB_OPEN);
    assert_int_equal(say(1, 2, 7), VB_OK);
    settle();
    assert_int_equal(process[2].got[0], 7);
}

static void both_at_once(void **state)
{
    (void) state;
    open_ports(2);
    know_each_other(1, 2);
    assert_int_equal(say(1, 2, 1), VB_AGAIN);
    assert_int_equal(say(2, 1, 2), VB_AGAIN);
    progress(2); /* before it hears that 1 gives way */
    connected(1, 2);
    assert_int_equal(fake.queue_pairs, 4);
    assert_int_equal(counters_of(2)->crossed, 1); /* of the smaller name */
}

static void all_at_once(void)
{
    for (unsigned a = 1; a <= FAKE_NODES; ++a) {
        for (unsigned b = a + 1; b <= FAKE_NODES; ++b) {
            know_each_other(a, b);
            (void) say(a, b, 0);
            (void) say(b, a, 0);
        }
    }
    for (unsigned a = 1; a <= FAKE_NODES; ++a) {
        for (unsigned b = a + 1; b <= FAKE_NODES; ++b) {
            connected(a, b);
        }
    }
}

static void all_pairs(void **state)
{
    (void) state;
    open_ports(FAKE_NODES);
    all_at_once();
    assert_int_equal(fake.queue_pairs, FAKE_NODES * FAKE_NODES);
}

static void datagrams_that_are_lost_doubled_and_late(void **state)
{
    (void) state;
    for (fake.seed = 1; fake.seed <= 3; ++fake.seed) {
        fake.lost = 30;
        fake.twice = fake.late = 20;
        open_ports(FAKE_NODES);
        all_at_once();
        uint64_t again = 0;
        for (unsigned i = 1; i <= FAKE_NODES; ++i) {
            again += counters_of(i)->asked_again;
        }
        assert_true(again > 0);
        assert_int_equal(process[1].lost, 0);
        const unsigned seed = fake.seed;
        assert_int_equal(teardown_all(state), 0);
        (void) setup(state);
        fake.seed = seed;
    }
}

/* A welcome that is said again has the credits of the first, which count once. */
static void queues_of_their_own(void **state)
{
    (void) state;
    fake.has_srq = false;
    fake.lost = 40;
    open_ports(2);
    know_each_other(1, 2);
    (void) say(1, 2, 0);
    connected(1, 2);
    fake.lost = 0;
    for (unsigned i = 0; i < 500; ++i) {
        while (VB_AGAIN == say(1, 2, 5) || VB_AGAIN == say(2, 1, 6)) {
            settle();
        }
    }
    settle();
    assert_int_equal(fake.rnr, 0);
    assert_int_equal(counters_of(1)->bad_messages + counters_of(2)->bad_messages, 0);
}

static void the_least_mtu_of_both(void **state)
{
    (void) state;
    fake.no_addresses = true;
    fake.mtu = IBV_MTU_4096;
    open_port(1);
    fake.mtu = IBV_MTU_2048;
    open_port(2);
    connect_two(1, 2);
    assert_int_equal(fake.path_mtu, IBV_MTU_2048);
}

static void global_addresses_come_first(void **state)
{
    vb_dgram_address_t own;
    (void) state;
    fake.has_ipv6 = true;
    open_ports(2);
    assert_true(vb_port_mailbox(process[1].port, &own));
    assert_int_equal(own.gid[0], 0x20);
    assert_int_equal(own.qkey, 1); /* without its highest bit */
    connect_two(1, 2);
}

/* ---- which way ---- */

static void datagrams_although_there_is_an_address(void **state)
{
    (void) state;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.connect = VB_CONNECT_DATAGRAMS;
        c.rules.attempt_ns = 5000 * MS;
        assert_true(start(i, &c, NULL));
    }
    connect_two(1, 2);
    assert_int_equal(fake.ids, 2); /* which name the ports, and nobody listens */
    assert_int_equal(fake.last_private, 0);
}

static void datagrams_are_the_default(void **state)
{
    vb_dgram_address_t own;
    (void) state;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.connect = VB_CONNECT_AUTO;
        c.rules.attempt_ns = 5000 * MS;
        assert_true(start(i, &c, NULL));
        assert_true(vb_port_abilities(process[i].port)->by_datagrams);
        assert_true(vb_port_mailbox(process[i].port, &own));
    }
    connect_two(1, 2);
    assert_int_equal(fake.last_private, 0);
}

/* Where the port takes no datagrams an address helps, and else nothing does. */
static void by_rdma_cm_if_there_are_no_datagrams(void **state)
{
    vb_dgram_address_t own;
    char why[256];
    (void) state;
    fake.no_datagrams = true;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.connect = VB_CONNECT_AUTO;
        assert_true(start(i, &c, NULL));
        assert_false(vb_port_abilities(process[i].port)->by_datagrams);
        assert_false(vb_port_mailbox(process[i].port, &own));
    }
    open_up(1, 2);
    assert_int_equal(fake.datagrams, 0);
    assert_int_equal(fake.queue_pairs, 2);
    vb_config_t c = config_of(&process[3]);
    c.connect = VB_CONNECT_DATAGRAMS;
    assert_false(start(3, &c, why));
    assert_non_null(strstr(why, "nobody could connect"));
}

/* InfiniBand: 1 has an address, 2 has none, 3 has one. */
static void one_of_two_has_no_address(void **state)
{
    (void) state;
    fake.is_infiniband = true;
    for (unsigned i = 1; i <= 3; i += 2) {
        vb_config_t c = config_of(&process[i]);
        c.connect = VB_CONNECT_AUTO;
        c.rules.attempt_ns = 5000 * MS;
        assert_true(start(i, &c, NULL));
    }
    open_port(2);
    connect_two(2, 1);
    connect_two(3, 2);
    connect_two(1, 3);
    assert_int_equal(counters_of(1)->accepted, 1); /* that of 2 */
}

static void iwarp_has_no_datagrams(void **state)
{
    char why[256];
    (void) state;
    iwarp();
    vb_config_t c = without_address(&process[1]);
    assert_false(start(1, &c, why));
    assert_non_null(strstr(why, "iWARP"));
    for (unsigned i = 1; i <= 2; ++i) {
        c = config_of(&process[i]);
        c.connect = VB_CONNECT_DATAGRAMS;
        assert_true(start(i, &c, NULL));
    }
    open_up(1, 2);
    assert_int_equal(fake.datagrams, 0);
}

/* Not at first, or never. */
static void a_way_that_is_not_there(void **state)
{
    (void) state;
    vb_dgram_address_t there;
    open_ports(2);
    assert_true(vb_port_mailbox(process[2].port, &there));
    process[1].peer[2] = vb_peer_add(process[1].port, process[2].name, NULL, 1002, process + 1);
    fake.no_ways = true;
    assert_false(vb_peer_add_mailbox(process[1].peer[2], &there));
    (void) say(1, 2, 0);
    settle();
    fake.no_ways = false;
    process[1].peer[2] = NULL;
    know_each_other(1, 2);
    connected(1, 2);
    fake.no_ways = true;
    vb_peer_t *peer = process[1].peer[3] = vb_peer_add(process[1].port, 3, NULL, 0, process + 1);
    there.qkey += 1;
    assert_false(vb_peer_add_mailbox(peer, &there));
    (void) say(1, 3, 0);
    wait_for(1, 3, VB_DEAD);
    assert_non_null(strstr(process[1].why, "no way to its port"));
    fake.no_ways = false;
}

static void another_subnet(void **state)
{
    vb_dgram_address_t there;
    (void) state;
    fake.is_infiniband = true;
    fake.subnets = true;
    open_ports(2);
    assert_true(vb_port_mailbox(process[2].port, &there));
    vb_peer_t *peer = vb_peer_add(process[1].port, process[2].name, NULL, 0, NULL);
    assert_false(vb_peer_add_mailbox(peer, &there));
    assert_true(vb_port_mailbox(process[1].port, &there));
    there.lid = 0xc000; /* of a group */
    assert_false(vb_peer_add_mailbox(peer, &there));
    there.lid = 0;
    assert_false(vb_peer_add_mailbox(peer, &there));
}

/* ---- the end ---- */

static void close_peer(unsigned a, unsigned b)
{
    vb_port_lock(process[a].port);
    vb_peer_close(process[a].peer[b]);
    vb_port_unlock(process[a].port);
}

static void a_goodbye_ends_both(void **state)
{
    (void) state;
    open_ports(2);
    connect_two(1, 2);
    close_peer(1, 2);
    wait_for(1, 2, VB_CLOSED);
    wait_for(2, 1, VB_CLOSED);
    assert_int_equal(process[1].lost + process[2].lost, 0);
    connect_two(1, 2); /* and again */
}

/* The other side never hears that the connection is gone, until it is asked for another. */
static void the_end_is_lost(void **state)
{
    (void) state;
    open_ports(2);
    connect_two(1, 2);
    fake.lost = 100;
    close_peer(1, 2);
    wait_for(1, 2, VB_CLOSED);
    wait_for(2, 1, VB_PARTED);
    settle();
    assert_int_equal(state_of(2, 1), VB_PARTED);
    fake.lost = 0;
    knows(1, 2);
    assert_int_equal(say(1, 2, 0), VB_AGAIN);
    wait_for(1, 2, VB_OPEN);
}

static void a_process_that_dies(void **state)
{
    (void) state;
    open_ports(2);
    connect_two(1, 2);
    fake_break(2);
    fake_mute(2);
    assert_int_equal(say(1, 2, 9), VB_OK);
    settle();
    assert_int_equal(state_of(1, 2), VB_DEAD);
    assert_int_equal(process[1].lost, 1);
    assert_int_equal(process[2].received, 1); /* what came before */
}

static void nobody_answers(void **state)
{
    (void) state;
    fake.no_addresses = true;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = without_address(&process[i]);
        c.rules.attempt_ns = 120 * MS;
        assert_true(start(i, &c, NULL));
    }
    fake_mute(2);
    know_each_other(1, 2);
    (void) say(1, 2, 0);
    wait_for(1, 2, VB_DEAD);
    assert_string_equal(process[1].why, "no answer");
    assert_int_equal(counters_of(1)->asked, 3);
    assert_int_equal(counters_of(1)->timed_out, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ports_without_an_address),
        TEST(who_asks_need_not_be_known),
        TEST(both_at_once),
        TEST(all_pairs),
        TEST(datagrams_that_are_lost_doubled_and_late),
        TEST(queues_of_their_own),
        TEST(the_least_mtu_of_both),
        TEST(global_addresses_come_first),
        TEST(datagrams_although_there_is_an_address),
        TEST(datagrams_are_the_default),
        TEST(by_rdma_cm_if_there_are_no_datagrams),
        TEST(one_of_two_has_no_address),
        TEST(iwarp_has_no_datagrams),
        TEST(a_way_that_is_not_there),
        TEST(another_subnet),
        TEST(a_goodbye_ends_both),
        TEST(the_end_is_lost),
        TEST(a_process_that_dies),
        TEST(nobody_answers),
    };
    return cmocka_run_group_tests_name("verbs_ud_cm", tests, NULL, NULL);
}
