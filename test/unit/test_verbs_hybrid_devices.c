/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The scalable mode on the devices and fabrics that there are: what a port cannot do, and partitions, global headers and
 * subnets of InfiniBand. */
#include "hybrid_world.h"

static void goes_without(const char *why)
{
    process_t *p = add(10, 8);
    start(p);
    const vb_abilities_t *able = vb_port_abilities(p->port);
    assert_false(able->datagrams);
    assert_non_null(strstr(able->datagrams_why, why));
    stop_process(p);
    fake_reset();
    processes = 0;
}

static void devices_without_datagrams(void **state)
{
    (void) state;
    fake.is_iwarp = true;
    goes_without("iWARP");
    fake.no_gid = true;
    goes_without("GID");
    fake.mtu = IBV_MTU_512;
    goes_without("512 bytes");
    fake.no_datagrams = true;
    goes_without("no UD queue pair");
    fake.registrations_left = 1; /* the shared queue has its buffers */
    process_t *p = add(10, 8);
    char why[256];
    p->port = vb_port_open(&p->config, why, sizeof(why));
    assert_non_null(p->port);
    assert_false(vb_port_abilities(p->port)->datagrams);
    vb_port_quiesce(p->port, 0);
    vb_port_close(p->port);
    p->port = NULL;
}

static void infiniband(void **state)
{
    (void) state;
    fake.is_infiniband = true;
    fake.mtu = IBV_MTU_4096;
    change_over(2, 20, 5);
}

static void a_partition_of_the_interface(void **state)
{
    (void) state;
    fake.is_infiniband = true;
    fake.mtu = IBV_MTU_4096;
    fake.partition = 0x8001;
    begin(2, NEVER, 8);
    want(0, 1, 50);
    want(1, 0, 50);
    run();
    assert_int_equal(way(0, 1), VB_SWITCH_DATAGRAM);
    assert_int_equal(fake.astray, 0);
}

static void a_partition_that_the_port_is_not_in(void **state)
{
    (void) state;
    fake.is_infiniband = true;
    fake.partition = 0x8001;
    fake.no_partition = true;
    begin(1, NEVER, 8);
    assert_false(vb_port_abilities(process[0].port)->datagrams);
    assert_non_null(strstr(vb_port_abilities(process[0].port)->datagrams_why, "P_Key"));
}

static void a_port_that_wants_global_headers(void **state)
{
    (void) state;
    fake.is_infiniband = true;
    fake.needs_grh = true;
    begin(2, NEVER, 8);
    want(0, 1, 50);
    want(1, 0, 50);
    run();
    assert_int_equal(way(0, 1), VB_SWITCH_DATAGRAM);
    assert_int_equal(fake.astray, 0);
}

/* By connections only, whoever begins. */
static void another_subnet(void **state)
{
    (void) state;
    fake.is_infiniband = true;
    fake.subnets = true;
    begin(2, NEVER, 8);
    want(0, 1, 50);
    run();
    want(1, 0, 50);
    run();
    assert_null(vb_peer_switch(process[0].peer[1]));
    assert_null(vb_peer_switch(process[1].peer[0]));
    assert_int_equal(vb_port_counters(process[0].port)->connected, 1);
    assert_int_equal(fake.datagrams, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(devices_without_datagrams),
        TEST(infiniband),
        TEST(a_partition_of_the_interface),
        TEST(a_partition_that_the_port_is_not_in),
        TEST(a_port_that_wants_global_headers),
        TEST(another_subnet),
    };
    return cmocka_run_group_tests_name("verbs_hybrid_devices", tests, NULL, NULL);
}
