/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The scalable mode over adapters that are not there: datagrams that get lost, come twice and overtake each other,
 * changing over to connections in the middle of traffic, limits, and what it costs in memory. */
#include "hybrid_world.h"

#include "vb_internal.h"

/* ---- datagrams ---- */

static void messages_go_by_datagrams(void **state)
{
    (void) state;
    begin(2, NEVER, 8);
    assert_true(vb_port_abilities(process[0].port)->datagrams);
    want(0, 1, 500);
    want(1, 0, 300);
    run();
    assert_int_equal(way(0, 1), VB_SWITCH_DATAGRAM);
    assert_int_equal(fake.queue_pairs, 2);
    assert_int_equal(vb_port_counters(process[0].port)->connected, 0);
}

static void datagrams_have_their_class(void **state)
{
    (void) state;
    for (unsigned i = 0; i < 2; ++i) {
        process_t *p = add(NEVER, 8);
        p->config.service_level = 5;
        p->config.traffic_class = 106;
        start(p);
    }
    meet(&process[0], &process[1], true);
    meet(&process[1], &process[0], true);
    want(0, 1, 10);
    run();
    assert_int_equal(fake.service_level, 5);
    assert_int_equal(fake.traffic_class, 106);
}

/* As by connections: what comes after it was asked for is told. */
static void datagrams_are_told(void **state)
{
    (void) state;
    (void) add(NEVER, 8);
    (void) add(NEVER, 8);
    for (unsigned i = 0; i < 2; ++i) {
        process[i].config.notices = VB_ON;
        start(&process[i]);
    }
    meet(&process[0], &process[1], true);
    meet(&process[1], &process[0], true);
    vb_port_lock(process[1].port);
    struct pollfd fd = {.fd = vb_port_arm(process[1].port), .events = POLLIN};
    vb_port_unlock(process[1].port);
    assert_int_equal(poll(&fd, 1, 0), 0);
    want(0, 1, 1);
    progress(&process[0]);
    assert_int_equal(poll(&fd, 1, 0), 1);
    run();
}

static void lost_late_and_twice(void **state)
{
    (void) state;
    fake.lost = 5, fake.twice = 5, fake.late = 10;
    begin(2, NEVER, 8);
    process[1].length = 1500; /* two datagrams */
    want(0, 1, 400);
    want(1, 0, 200);
    run();
}

static void nobody_has_a_buffer(void **state)
{
    (void) state;
    begin(3, NEVER, 8);
    process[2].holds = true;
    want(0, 2, 2000);
    want(1, 2, 2000);
    settle(5);
    assert_true(fake.unheard > 0);
    process[2].holds = false;
    run();
    assert_true(vb_port_counters(process[2].port)->registered_most > 0);
}

static void the_window_follows_demand(void **state)
{
    vb_datagram_use_t use;
    (void) state;
    begin(2, NEVER, 8);
    vb_port_datagram_use(process[1].port, &use);
    const uint32_t initial = use.window;
    for (unsigned i = 0; i < 20; ++i) {
        want(0, 1, 200);
        process[1].holds = true;
        settle(1);
        process[1].holds = false;
        run();
    }
    vb_port_datagram_use(process[1].port, &use);
    assert_true(use.window > initial);
    assert_true(use.starved > 0);
}

/* The window is as wide as it may get, and most of it is with who delivers: a poll ends all the same, and
 * the rest comes when buffers do. */
static void most_buffers_are_being_delivered(void **state)
{
    (void) state;
    for (unsigned i = 0; i < 2; ++i) {
        process_t *p = add(NEVER, 8);
        p->config.window_max = 8;
        start(p);
    }
    meet(&process[0], &process[1], true);
    meet(&process[1], &process[0], true);
    process_t *q = &process[1];
    vb_received_t held[8];
    int n = 0, events;
    want(0, 1, 100);
    q->holds = true; /* takes them here */
    const uint64_t end = spec_now() + UINT64_C(60000000000);
    while (n < 7 && spec_now() < end) {
        progress(&process[0]);
        vb_port_lock(q->port);
        n += vb_port_poll(q->port, held + n, 7 - n, &events);
        vb_port_unlock(q->port);
    }
    assert_int_equal(n, 7);
    for (unsigned i = 0; i < 100; ++i) { /* with one buffer left */
        progress(&process[0]);
        vb_port_lock(q->port);
        assert_int_equal(vb_port_poll(q->port, held + n, 0, &events), 0);
        vb_port_unlock(q->port);
    }
    vb_port_lock(q->port);
    for (int i = 0; i < n; ++i) {
        assert_int_equal(*(uint32_t *) held[i].data, i);
    }
    vb_port_return(q->port, held, n);
    vb_port_unlock(q->port);
    q->got[0] = (uint32_t) n;
    q->holds = false;
    run();
}

/* What a process of another job sends is dropped by the adapter or by the tag. */
static void another_key_is_refused(void **state)
{
    vb_dgram_address_t there;
    uint8_t key[16];
    (void) state;
    begin(1, NEVER, 8);
    for (unsigned i = 0; i < 2; ++i) {
        process_t *p = add(NEVER, 8);
        start(p);
        const struct sockaddr_in address = fake_address(1, vb_port_number(process[0].port));
        assert_true(vb_port_datagrams(process[0].port, &there, key));
        there.qkey += 0 == i;
        key[3] ^= 1 == i;
        vb_port_lock(p->port);
        p->peer[0] = vb_peer_add(p->port, process[0].name, &address, 5000, p);
        assert_true(vb_peer_add_datagrams(p->peer[0], &there, key));
        assert_int_equal(post(p, 0), true);
        vb_port_unlock(p->port);
        settle(5);
        assert_int_equal(process[0].got[p->index], 0);
        assert_int_equal(process[0].strangers, 0);
        assert_true(fake.refused > 0);
        stop_process(p);
    }
}

static void a_stranger_is_heard_once_known(void **state)
{
    (void) state;
    begin(1, NEVER, 8);
    start(add(NEVER, 8));
    meet(&process[1], &process[0], true);
    want(1, 0, 3);
    settle(1);
    assert_int_equal(process[0].got[1], 0);
    assert_true(process[0].strangers > 0);
    assert_int_equal(process[0].stranger, process[1].name);
    meet(&process[0], &process[1], true);
    vb_port_lock(process[0].port);
    vb_port_hear(process[0].port, process[0].said, process[0].said_length);
    vb_port_unlock(process[0].port);
    progress(&process[0]);
    assert_true(process[0].got[1] > 0); /* and not only when it is said again */
    run();
}

static void reads_and_writes(void **state)
{
    (void) state;
    fake.lost = 3, fake.late = 5;
    begin(2, NEVER, 8);
    process_t *p = &process[0], *q = &process[1];
    for (unsigned i = 0; i < 3000; ++i) {
        p->memory[i] = (char) (i * 7);
    }
    struct ibv_sge piece = {.addr = (uintptr_t) p->memory, .length = 3000};
    vb_port_lock(p->port);
    assert_int_equal(vb_post_datagram_rdma(p->peer[1], &piece, q->stag, 4000, VB_SIGNAL, p),
                     VB_OK);
    vb_port_unlock(p->port);
    want(0, 1, 1);
    run();
    assert_memory_equal(q->memory + 4000, p->memory, 3000); /* before its message */
    piece.addr += 8000;
    vb_port_lock(p->port);
    assert_int_equal(vb_post_datagram_rdma(p->peer[1], &piece, q->stag, 4000, VB_SIGNAL | VB_READ, p), VB_OK);
    vb_port_unlock(p->port);
    for (unsigned i = 0; i < 60000 && p->done < 2; ++i) {
        settle(1);
    }
    assert_int_equal(p->done, 2);
    assert_int_equal(p->failed, 0);
    assert_memory_equal(p->memory + 8000, p->memory, 3000);
    vb_port_lock(p->port); /* beyond the end */
    (void) vb_post_datagram_rdma(p->peer[1], &piece, q->stag, MEMORY - 100, VB_SIGNAL, p);
    vb_port_unlock(p->port);
    for (unsigned i = 0; i < 60000 && 0 == p->lost; ++i) {
        settle(1);
    }
    assert_int_equal(p->failed, 1);
    assert_int_equal(p->lost, 1);
}

/* Registered, but nobody uses it at the moment: it may have been given back to the system. */
static void memory_at_rest_is_not_touched(void **state)
{
    (void) state;
    begin(2, NEVER, 8);
    process_t *p = &process[0], *q = &process[1];
    struct ibv_sge piece = {.addr = (uintptr_t) p->memory, .length = 100};
    memset(p->memory, 1, 100);
    for (unsigned uses = 2; uses-- > 0;) {
        memset(q->memory, 0, 100);
        atomic_store(&q->uses.count, uses);
        const unsigned before = p->done;
        vb_port_lock(p->port);
        assert_int_equal(vb_post_datagram_rdma(p->peer[1], &piece, q->stag, 0, VB_SIGNAL, p),
                         VB_OK);
        vb_port_unlock(p->port);
        for (unsigned i = 0; i < 60000 && before == p->done; ++i) {
            settle(1);
        }
        assert_int_equal(p->failed, 0 == uses);
        assert_int_equal(q->memory[99], uses);
    }
    assert_int_equal(p->lost, 1);
}

/* ---- changing over ---- */

static void in_the_middle(void **state)
{
    (void) state;
    change_over(0, 50, 1);
}

static void in_the_middle_with_loss(void **state)
{
    (void) state;
    for (unsigned seed = 1; seed <= 12; ++seed) {
        change_over(1 + seed, 1 + seed * 13, seed);
        assert_int_equal(teardown(state), 0);
        (void) setup(state);
    }
}

/* Without a shared queue, and with a device that has no inline data. */
static void with_credits(void **state)
{
    (void) state;
    fake.has_srq = false;
    change_over(2, 20, 3);
}

/* Every message finds the data of the write before it, whichever way either went. */
static void check_write(process_t *to, process_t *from, uint32_t number)
{
    uint32_t there;
    (void) from;
    memcpy(&there, to->memory + 3000 + 4 * number, sizeof(there));
    assert_int_equal(there, number + 1);
}

static void writes_stay_ahead(void **state)
{
    (void) state;
    fake.lost = 4, fake.late = 8;
    begin(2, 30, 8);
    on_message = check_write;
    process_t *p = &process[0], *q = &process[1];
    uint32_t *word = (uint32_t *) (void *) (p->memory + 8192);
    for (uint32_t i = 0; i < 200; ++i) {
        struct ibv_sge piece = {
            .addr = (uintptr_t) &word[i], .length = sizeof(*word), .lkey = p->mr->lkey};
        vb_status_t status = VB_AGAIN;
        word[i] = i + 1;
        while (VB_AGAIN == status) {
            settle(0);
            progress(p);
            progress(q);
            vb_port_lock(p->port);
            if (0 == p->wanted[1] - p->sent[1]) {
                status =
                    vb_peer_is_by_datagrams(p->peer[1])
                        ? vb_post_datagram_rdma(p->peer[1], &piece, q->stag, 3000 + 4 * i, 0, p)
                        : vb_post_rdma(p->peer[1], &piece, (uintptr_t) q->memory + 3000 + 4 * i,
                                        q->mr->rkey, VB_SIGNAL, p);
            }
            vb_port_unlock(p->port);
        }
        assert_int_equal(status, VB_OK);
        want(0, 1, 1);
    }
    run();
    until_way(0, 1, VB_SWITCH_CONNECTED);
    assert_int_equal(p->failed, 0);
}

static void no_more_connections_than_allowed(void **state)
{
    (void) state;
    begin(6, 10, 2);
    for (unsigned round = 0; round < 4; ++round) {
        for (unsigned a = 0; a < 6; ++a) {
            for (unsigned b = 0; b < 6; ++b) {
                want(a, b, a == b ? 0 : 40);
            }
        }
        run();
        settle(10);
    }
    unsigned connected = 0;
    for (unsigned a = 0; a < 6; ++a) {
        assert_true(process[a].most <= 2);
        assert_int_equal(process[a].lost, 0);
        connected += (unsigned) vb_port_counters(process[a].port)->switched;
    }
    assert_true(connected > 0);
}

static void connections_that_cannot_be_had(void **state)
{
    (void) state;
    fake.no_connect = true;
    begin(2, 10, 8);
    want(0, 1, 100);
    run();
    until_way(0, 1, VB_SWITCH_STAYING);
    want(0, 1, 100);
    run();
    assert_int_equal(process[0].lost, 0);
    /* The other one may still make one. */
    fake.no_connect = false;
    want(1, 0, 100);
    run();
    until_way(0, 1, VB_SWITCH_CONNECTED);
    want(0, 1, 100);
    run();
}

static void a_peer_without_datagrams(void **state)
{
    (void) state;
    start(add(10, 8));
    start(add(0, 8));
    meet(&process[1], &process[0], true);
    want(1, 0, 20);
    settle(1);
    assert_true(process[0].strangers > 0); /* asked before it is known how to talk to it */
    meet(&process[0], &process[1], true);
    want(0, 1, 20);
    run();
    assert_null(vb_peer_switch(process[0].peer[1]));
}

/* It has a connection and uses it, while datagrams may still be under way. */
static void a_message_before_its_turn(void **state)
{
    (void) state;
    start(add(10, 8));
    start(add(0, 8)); /* knows nothing of leave and arrived */
    vb_dgram_address_t there = {.number = 12345, .qkey = 1};
    uint8_t key[16] = {0};
    meet(&process[0], &process[1], false);
    vb_port_lock(process[0].port);
    assert_true(vb_peer_add_datagrams(process[0].peer[1], &there, key));
    vb_port_unlock(process[0].port);
    meet(&process[1], &process[0], false);
    want(1, 0, 5);
    settle(20);
    assert_int_equal(process[0].got[1], 0);
    assert_true(vb_port_counters(process[0].port)->bad_messages > 0);
}

static void a_killed_peer_is_told_of(void **state)
{
    (void) state;
    begin(2, 10, 8);
    want(0, 1, 50);
    run();
    until_way(0, 1, VB_SWITCH_CONNECTED);
    want(0, 1, 1); /* in use */
    run();
    fake_kill(2);
    settle(10);
    assert_int_equal(process[0].lost, 1);
    assert_int_equal(way(0, 1), VB_SWITCH_BROKEN);
}

static void goodbye_is_no_error(void **state)
{
    (void) state;
    begin(3, 10, 8);
    want(0, 1, 50); /* by connection */
    want(0, 2, 5);  /* by datagrams */
    run();
    until_way(0, 1, VB_SWITCH_CONNECTED);
    until_way(1, 0, VB_SWITCH_CONNECTED);
    stop_process(&process[1]);
    stop_process(&process[2]);
    settle(10);
    assert_int_equal(process[0].lost, 0);
    vb_port_lock(process[0].port);
    for (unsigned i = 1; i < 3; ++i) {
        vb_hdr_t hdr;
        struct ibv_sge piece = {.addr = (uintptr_t) &hdr, .length = sizeof(hdr)};
        assert_int_equal(vb_post_send(process[0].peer[i], &hdr, 9, &piece, 1, VB_INLINE, NULL),
                         VB_ENDED);
    }
    vb_port_unlock(process[0].port);
}

/* While the way to the peer is between both, and its goodbye by datagrams is lost. */
static void goodbye_by_connection_is_enough(void **state)
{
    (void) state;
    begin(2, 10, 8);
    want(0, 1, 50);
    for (unsigned i = 0; VB_SWITCH_LEAVING != way(0, 1); ++i) {
        assert_true(i < 100000);
        progress(&process[0]);
        fake.lost = VB_SWITCH_ASKED == way(0, 1) ? 100 : 0;
        progress(&process[1]);
    }
    fake.lost = 100;
    stop_process(&process[1]);
    vb_hdr_t hdr;
    struct ibv_sge piece = {.addr = (uintptr_t) &hdr, .length = sizeof(hdr)};
    vb_status_t status = VB_AGAIN;
    process[0].wanted[1] = process[0].sent[1];
    for (unsigned i = 0; VB_AGAIN == status && i < 100; ++i) {
        progress(&process[0]);
        vb_port_lock(process[0].port);
        status = vb_post_send(process[0].peer[1], &hdr, 9, &piece, 1, VB_INLINE, NULL);
        vb_port_unlock(process[0].port);
    }
    assert_int_equal(status, VB_ENDED);
    assert_int_equal(process[0].lost, 0);
}

static void end_connection(unsigned from, unsigned to)
{
    vb_port_lock(process[from].port);
    const vb_link_t *link = process[from].peer[to]->link;
    assert_non_null(link);
    assert_int_equal(rdma_disconnect(link->id), 0);
    vb_port_unlock(process[from].port);
}

/* Between leaving the datagrams and the first message by connection: they go by datagrams again. */
static void a_connection_ends_before_its_use(void **state)
{
    (void) state;
    begin(2, 10, 8);
    want(0, 1, 10);
    run();
    until_way(0, 1, VB_SWITCH_CONNECTED);
    until_way(1, 0, VB_SWITCH_CONNECTED);
    assert_int_equal(vb_inline_max(process[0].peer[1]), VB_INLINE_MAX);
    end_connection(0, 1);
    until_way(0, 1, VB_SWITCH_STAYING);
    until_way(1, 0, VB_SWITCH_STAYING);
    assert_true(vb_inline_max(process[0].peer[1]) > 0);
    assert_int_equal(vb_inline_put_max(process[0].peer[1]), 0);
    want(0, 1, 50);
    want(1, 0, 50);
    run();
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(process[i].lost, 0);
        assert_int_equal(vb_port_counters(process[i].port)->stayed, 1);
        assert_int_equal(vb_port_counters(process[i].port)->bad_messages, 0);
    }
}

/* At any moment of the change: a peer is lost only if something went by the connection, and then both know. */
static void a_connection_ends_at_any_moment(void **state)
{
    unsigned survived = 0, lost = 0;
    for (unsigned moment = 0; moment < 30; ++moment) {
        begin(2, 10, 8);
        want(0, 1, 10);
        while (NULL == process[0].peer[1]->link) {
            progress(&process[0]);
            progress(&process[1]);
        }
        for (unsigned i = 0; i < moment; ++i) {
            want(i % 2, 1 - i % 2, moment % 3); /* each third time nothing goes by the connection */
            progress(&process[i % 2]);
        }
        const bool is_there = NULL != process[0].peer[1]->link && NULL != process[1].peer[0]->link;
        if (is_there && VB_OPEN == process[0].peer[1]->conn.state) {
            end_connection(moment % 2, 1 - moment % 2);
        }
        want(0, 1, 20);
        want(1, 0, 20);
        for (unsigned i = 0; i < 400 && !is_done() && 0 == process[0].lost + process[1].lost; ++i) {
            settle(1);
        }
        if (0 == process[0].lost + process[1].lost) {
            assert_true(is_done());
            ++survived;
        } else {
            assert_true(vb_peer_switch(process[0].peer[1])->is_used || vb_peer_switch(process[1].peer[0])->is_used);
            process[0].wanted[1] = process[0].sent[1];
            process[1].wanted[0] = process[1].sent[0];
            settle(5);
            assert_int_equal(process[0].lost, 1);
            assert_int_equal(process[1].lost, 1);
            ++lost;
        }
        assert_int_equal(teardown(state), 0);
        (void) setup(state);
    }
    assert_true(survived > 0 && lost > 0);
}

static unsigned readies;
static void count_ready(void *context, vb_peer_t *peer)
{
    (void) context, (void) peer;
    ++readies;
}

/* A process that said goodbye is met again: messages to it wait for a connection, and are told when it is there. */
static void met_again_by_connection(void **state)
{
    (void) state;
    process_t *p = add(10, 8), *q = add(10, 8);
    p->config.ready = count_ready;
    start(p);
    start(q);
    meet(p, q, true);
    meet(q, p, true);
    want(0, 1, 50);
    run();
    until_way(0, 1, VB_SWITCH_CONNECTED);
    until_way(1, 0, VB_SWITCH_CONNECTED);
    vb_port_lock(q->port);
    vb_peer_close(q->peer[0]);
    vb_port_unlock(q->port);
    for (unsigned i = 0; VB_CLOSED != vb_peer_connection(p->peer[1])->state; ++i) {
        assert_true(i < 1000);
        settle(1);
    }
    meet(q, p, true);
    meet(p, q, true);
    assert_int_equal(way(0, 1), VB_SWITCH_CONNECTED);
    vb_port_lock(p->port);
    assert_false(post(p, 1)); /* begins to connect */
    vb_port_unlock(p->port);
    readies = 0;
    for (unsigned i = 0; VB_OPEN != vb_peer_connection(p->peer[1])->state; ++i) {
        assert_true(i < 1000);
        settle(1);
    }
    assert_true(readies > 0);
    assert_true(vb_inline_max(p->peer[1]) > 0);
}

static void a_device_that_fails_is_told_of(void **state)
{
    (void) state;
    begin(2, NEVER, 8);
    want(0, 1, 5);
    run();
    fake_device_fatal(1);
    settle(5);
    assert_int_equal(process[0].lost, 1);
    assert_non_null(strstr(process[0].why, "fake1"));
}

/* ---- memory ---- */

typedef struct {
    uint64_t registered, most, engine, queues;
    unsigned connections;
} cost_t;

/* What process 0 holds when it has talked to n others, of which at most `most` by connection. queues: of its
 * queue pairs, as fake_verbs counts them. */
static cost_t cost_of(unsigned n, uint32_t after, uint32_t most)
{
    cost_t cost;
    vb_datagram_use_t use = {.memory = 0};
    add(after, most)->config.window_quiet_ns = 100000;
    start(&process[0]);
    const unsigned own = fake.queue_bytes;
    for (unsigned i = 1; i <= n; ++i) {
        process_t *p = add(after, MOST);
        start(p);
        meet(p, &process[0], true);
        meet(&process[0], p, true);
    }
    for (unsigned round = 0; round < 4; ++round) {
        for (unsigned i = 1; i <= n; ++i) {
            want(0, i, 10);
            want(i, 0, 10);
        }
        run();
        settle(2);
    }
    /* Then little happens: windows shrink as messages come. */
    for (unsigned i = 0; i < 3000; ++i) {
        process_t *p = &process[1 + i % n];
        want(p->index, 0, 1);
        while (p->wanted[0] > process[0].got[p->index]) {
            progress(p);
            progress(&process[0]);
        }
        vb_port_lock(process[0].port);
        vb_port_check(process[0].port, spec_now());
        vb_port_unlock(process[0].port);
    }
    const vb_counters_t *c = vb_port_counters(process[0].port);
    (void) vb_port_datagram_use(process[0].port, &use);
    cost = (cost_t){.registered = c->registered,
                    .most = c->registered_most,
                    .engine = use.memory,
                    .connections = (unsigned) c->connected};
    const vb_config_t *config = &process[0].config;
    const uint64_t each = config->send_depth * (64 + config->inline_max)
                          + (fake.has_srq ? 0 : (config->link_window_max + 4) * 16);
    cost.queues = own + cost.connections * each;
    for (unsigned i = 0; i < processes; ++i) {
        stop_process(&process[i]);
    }
    memset(process, 0, sizeof(process));
    processes = 0;
    return cost;
}

static void show(const char *mode, unsigned n, const cost_t *c)
{
    printf("memory: %-28s peers %2u connections %2u: buffers %7.1f KB (%7.1f KB at most), queues "
           "%7.1f KB, "
           "datagram engine and sending %6.1f KB, in all %8.1f KB\n",
           mode, n, c->connections, (double) c->registered / 1024, (double) c->most / 1024,
           (double) c->queues / 1024, (double) c->engine / 1024,
           (double) (c->registered + c->queues + c->engine) / 1024);
}

/* Memory grows with the connections, not with the peers. */
static void memory(bool has_srq)
{
    static const unsigned sizes[] = {1, 8, 16, 32, 64};
    cost_t few = {0}, only = {0}, none = {0};
    fake.has_srq = has_srq;
    printf("memory: %s, messages of %u bytes\n",
           has_srq ? "shared receive queue" : "a receive queue for each connection", SIZE);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
        only = cost_of(sizes[i], 0, MOST);
        show("connections only", sizes[i], &only);
        few = cost_of(sizes[i], 5, 8);
        show("hybrid, at most 8", sizes[i], &few);
        none = cost_of(sizes[i], NEVER, 8);
        show("datagrams only", sizes[i], &none);
        assert_true(few.connections <= 8);
        assert_int_equal(only.connections, sizes[i]);
        assert_int_equal(none.connections, 0);
    }
    assert_true(few.queues - none.queues < only.queues / 4);
    assert_true(few.registered + few.queues + few.engine
                < only.registered + only.queues + only.engine);
}

static void memory_with_a_shared_queue(void **state)
{
    (void) state;
    memory(true);
}
static void memory_without(void **state)
{
    (void) state;
    memory(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_go_by_datagrams),
        TEST(datagrams_have_their_class),
        TEST(datagrams_are_told),
        TEST(lost_late_and_twice),
        TEST(nobody_has_a_buffer),
        TEST(the_window_follows_demand),
        TEST(most_buffers_are_being_delivered),
        TEST(another_key_is_refused),
        TEST(a_stranger_is_heard_once_known),
        TEST(reads_and_writes),
        TEST(memory_at_rest_is_not_touched),
        TEST(in_the_middle),
        TEST(in_the_middle_with_loss),
        TEST(with_credits),
        TEST(writes_stay_ahead),
        TEST(no_more_connections_than_allowed),
        TEST(connections_that_cannot_be_had),
        TEST(a_peer_without_datagrams),
        TEST(a_message_before_its_turn),
        TEST(a_killed_peer_is_told_of),
        TEST(goodbye_is_no_error),
        TEST(goodbye_by_connection_is_enough),
        TEST(a_connection_ends_before_its_use),
        TEST(a_connection_ends_at_any_moment),
        TEST(met_again_by_connection),
        TEST(a_device_that_fails_is_told_of),
        TEST(memory_with_a_shared_queue),
        TEST(memory_without),
    };
    if (NULL != getenv("TEST_ONLY")) {
        cmocka_set_test_filter(getenv("TEST_ONLY"));
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
