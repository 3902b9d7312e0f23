/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Processes without an IP address, which are connected by datagrams (vb_ud_cm.c). */
#ifndef VERBS_MAILBOXES_H
#define VERBS_MAILBOXES_H

#include "verbs_processes.h"

#include <string.h>

#define MS UINT64_C(1000000)

static inline vb_config_t without_address(process_t *p)
{
    vb_config_t c = config_of(p);
    c.address = (struct sockaddr_in){.sin_family = 0};
    snprintf(c.device, sizeof(c.device), "fake%u", p->node);
    c.port = 1;
    c.connect = VB_CONNECT_AUTO;
    c.datagram.qkey = 0x80000000u + p->node;
    c.service_level = 3;
    c.traffic_class = 106;
    c.rules.attempt_ns = 5000 * MS;
    return c;
}

static inline void open_port(unsigned node)
{
    const vb_config_t c = without_address(&process[node]);
    assert_true(start(node, &c, NULL));
}

static inline void open_ports(unsigned n)
{
    fake.no_addresses = true;
    for (unsigned i = 1; i <= n; ++i) {
        open_port(i);
    }
}

static inline void knows(unsigned a, unsigned b)
{
    process_t *p = &process[a], *q = &process[b];
    const struct sockaddr_in nowhere = {.sin_family = 0};
    vb_dgram_address_t there;
    assert_true(vb_port_mailbox(q->port, &there));
    vb_port_lock(p->port);
    p->peer[b] = vb_peer_add(p->port, q->name, &nowhere, 1000 + b, p);
    assert_true(vb_peer_add_mailbox(p->peer[b], &there));
    vb_port_unlock(p->port);
}

static inline void know_each_other(unsigned a, unsigned b)
{
    knows(a, b);
    knows(b, a);
}

static inline vb_conn_state_t state_of(unsigned a, unsigned b)
{
    return vb_peer_connection(process[a].peer[b])->state;
}

static inline vb_counters_t *counters_of(unsigned node)
{
    return vb_port_counters(process[node].port);
}

/* In time for what is said again. */
static inline void wait_for(unsigned a, unsigned b, vb_conn_state_t state)
{
    const uint64_t end = spec_now() + 10000 * MS;
    while (state != state_of(a, b) && spec_now() < end) {
        settle();
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    }
    assert_string_equal(vb_conn_state_name(state_of(a, b)), vb_conn_state_name(state));
}

static inline void connected(unsigned a, unsigned b)
{
    wait_for(a, b, VB_OPEN);
    wait_for(b, a, VB_OPEN);
    const unsigned before[] = {process[a].received, process[b].received};
    assert_int_equal(say(a, b, 41), VB_OK);
    assert_int_equal(say(b, a, 42), VB_OK);
    settle();
    assert_int_equal(process[a].got[before[0]], 42);
    assert_int_equal(process[b].got[before[1]], 41);
}

static inline void connect_two(unsigned a, unsigned b)
{
    know_each_other(a, b);
    assert_int_equal(say(a, b, 0), VB_AGAIN);
    connected(a, b);
}

static inline int teardown_all(void **state)
{
    const int rc = teardown(state);
    assert_int_equal(fake.opened, 0);
    assert_int_equal(fake.address_handles, 0);
    return rc;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown_all)

#endif
