/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The verbs transport over adapters that are not there (fake_verbs.h): connecting, messages with a shared queue
 * and with credits, the window, put and get, and everything that can fail. */
#include "spec_unit.h"

#include <stdlib.h>
#include <string.h>

#include "verbs_processes.h"

/* ---- connecting ---- */

static void a_message_makes_the_connection(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    assert_true(process[1].ready > 0 && process[2].ready > 0);
    assert_true(fake.last_private <= 56);
    assert_int_equal(say(1, 2, 42), VB_OK);
    assert_int_equal(say(2, 1, 43), VB_OK);
    settle();
    assert_int_equal(process[2].received, 1);
    assert_int_equal(process[2].got[0], 42);
    assert_int_equal(process[1].got[0], 43);
    assert_int_equal(vb_port_counters(process[1].port)->asked, 1);
    assert_int_equal(vb_port_counters(process[2].port)->asked, 0);
}

static void both_at_once_make_one_connection(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    assert_int_equal(say(1, 2, 1), VB_AGAIN);
    assert_int_equal(say(2, 1, 2), VB_AGAIN);
    until(1, 2, VB_OPEN);
    until(2, 1, VB_OPEN);
    assert_int_equal(fake.queue_pairs, 2);
    assert_int_equal(say(1, 2, 1), VB_OK);
    assert_int_equal(say(2, 1, 2), VB_OK);
    settle();
    assert_int_equal(process[1].received + process[2].received, 2);
}

static void all_pairs_at_once(void **state)
{
    (void) state;
    begin(FAKE_NODES);
    for (unsigned a = 1; a <= FAKE_NODES; ++a) {
        for (unsigned b = a + 1; b <= FAKE_NODES; ++b) {
            meet(a, b);
            (void) say(a, b, 0);
            (void) say(b, a, 0);
        }
    }
    for (unsigned a = 1; a <= FAKE_NODES; ++a) {
        for (unsigned b = 1; b <= FAKE_NODES; ++b) {
            if (a != b) {
                until(a, b, VB_OPEN);
            }
        }
    }
    assert_int_equal(fake.queue_pairs, FAKE_NODES * (FAKE_NODES - 1));
}

/* Whoever is connected to is told first by a process that nobody here has met. */
static void an_unknown_peer_may_connect(void **state)
{
    (void) state;
    begin(2);
    const struct sockaddr_in address = fake_address(2, vb_port_number(process[2].port));
    process[1].peer[2] = vb_peer_add(process[1].port, process[2].name, &address, 1002, &process[1]);
    (void) say(1, 2, 0);
    until(1, 2, VB_OPEN);
    assert_int_equal(say(1, 2, 5), VB_OK);
    settle();
    assert_int_equal(process[2].received, 1);
}

static void strangers_are_refused(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    const struct sockaddr_in address = fake_address(2, vb_port_number(process[2].port));
    (void) vb_peer_add(process[1].port, process[2].name, &address, 4711,
                       &process[1]); /* another key */
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].lost, 1);
    assert_int_equal(vb_port_counters(process[2].port)->strangers, 1);
    assert_int_equal(say(1, 2, 0), VB_LOST);
}

static void other_sizes_are_refused(void **state)
{
    (void) state;
    vb_config_t c = config_of(&process[2]);
    begin(1);
    c.buffer_size = 2 * SIZE;
    assert_true(start(2, &c, NULL));
    meet(1, 2);
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].lost, 1);
}

/* Who answers at the address is another process than expected. */
static void an_impostor_is_found_out(void **state)
{
    (void) state;
    begin(2);
    const struct sockaddr_in address = fake_address(2, vb_port_number(process[2].port));
    process[1].peer[2] = vb_peer_add(process[1].port, NOBODY, &address, 1002, &process[1]);
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].lost, 1);
}

static void failed(const char *what)
{
    assert_int_equal(process[1].lost, 1);
    assert_int_equal(say(1, 2, 0), VB_LOST);
    assert_true(strlen(process[1].why) > 0);
    if (NULL != what) {
        assert_non_null(strstr(process[1].why, what));
    }
}
static void nobody_listens(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    stop(2);
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    failed("nobody listens");
    assert_int_equal(vb_port_counters(process[1].port)->asked, 3);
}
static void no_address(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    fake.no_address = true;
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    failed(NULL);
}
static void no_route(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    fake.no_route = true;
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    failed(NULL);
}
static void unreachable(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    fake.no_connect = true;
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    failed("unreachable");
}
static void silence_ends(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    fake.silent = true;
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    failed("no answer");
    assert_int_equal(vb_port_counters(process[1].port)->timed_out, 3);
}
static void no_queue_pair(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    fake.queue_pairs_left = 0;
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    failed("queue pair");
}
/* The other side cannot accept; later it can. */
static void a_failure_that_passes_is_survived(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    fake.queue_pairs_left = 1; /* mine */
    (void) say(1, 2, 0);
    /* Refused at least once, but not so often that it is given up: on a busy machine time passes here, too. */
    for (unsigned i = 0; i < 10 && vb_peer_connection(process[1].peer[2])->tries < 2; ++i) {
        settle();
    }
    fake.queue_pairs_left = -1;
    until(1, 2, VB_OPEN);
    until(2, 1, VB_OPEN);
    assert_int_equal(process[1].lost, 0);
}

/* ---- messages ---- */

static void messages_keep_their_order_and_bytes(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    unsigned sent = 0;
    while (sent < 1000) {
        while (
            sent < 1000
            && VB_OK
                   == send_flags(1, 2, (uint8_t) sent, 1 + sent % 200, sent % 3 ? 0 : VB_INLINE)) {
            ++sent;
        }
        progress(1);
        progress(2);
    }
    settle();
    assert_int_equal(process[2].received, 1000);
    for (unsigned i = 0; i < 1000; ++i) {
        assert_int_equal(process[2].got[i], (uint8_t) i);
    }
    assert_true(fake.signalled < fake.posted / 4); /* few ask for a completion */
}

static void a_send_queue_that_is_full_waits(void **state)
{
    (void) state;
    vb_config_t c = config_of(&process[1]);
    c.send_depth = 8;
    assert_true(start(1, &c, NULL));
    c = config_of(&process[2]);
    assert_true(start(2, &c, NULL));
    open_up(1, 2);
    unsigned sent = 0;
    while (VB_OK == say(1, 2, 1)) {
        ++sent;
    }
    assert_true(sent <= 8);
    assert_true(vb_port_counters(process[1].port)->no_room > 0);
    const unsigned before = process[1].ready;
    settle();
    assert_true(process[1].ready > before);
    assert_int_equal(say(1, 2, 1), VB_OK);
}

static void entries_of_the_completion_queue_are_counted(void **state)
{
    (void) state;
    fake.max_cqe = 80; /* 64 of them can be receives */
    begin(2);
    open_up(1, 2);
    for (unsigned i = 0; i < 2000; ++i) {
        (void) say(1, 2, 1);
        if (0 == i % 37) {
            progress(1);
            progress(2);
        }
    }
    settle();
    assert_int_equal(process[1].lost + process[2].lost, 0); /* and nothing overflowed: teardown */
}

static void a_starved_shared_queue_grows(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    const ibx_window_t *w = vb_port_window(process[2].port);
    assert_int_equal(w->current, 8);
    process[2].holds = true;
    for (unsigned i = 0; i < 40; ++i) {
        assert_int_equal(say(1, 2, (uint8_t) i), VB_OK);
        progress(1);
        vb_port_events(process[2].port, 0); /* the thread grows it though nobody polls */
    }
    assert_true(w->current >= 32);
    assert_true(vb_port_counters(process[2].port)->starved >= 2);
    for (unsigned i = 0; i < 100 && process[2].received < 40; ++i) {
        settle();
    }
    assert_int_equal(process[2].received, 40);
    vb_port_lock(process[2].port);
    vb_port_return(process[2].port, process[2].held, (int) process[2].held_n);
    vb_port_unlock(process[2].port);
}

static void a_full_window_makes_senders_wait(void **state)
{
    (void) state;
    vb_config_t c = config_of(&process[2]);
    begin(1);
    c.window_initial = c.window_max = 8; /* fixed:8 */
    assert_true(start(2, &c, NULL));
    open_up(1, 2);
    process[2].holds = true;
    for (unsigned i = 0; i < 20; ++i) {
        assert_int_equal(say(1, 2, (uint8_t) i), VB_OK);
    }
    settle();
    assert_true(fake.rnr > 0);
    assert_int_equal(process[2].received, 8);
    process[2].holds = false;
    vb_port_lock(process[2].port);
    vb_port_return(process[2].port, process[2].held, (int) process[2].held_n);
    vb_port_unlock(process[2].port);
    settle();
    assert_int_equal(process[2].received, 20);
    assert_int_equal(vb_port_window(process[2].port)->current, 8);
}

/* The receiver's timer says when a message that found no buffer is sent again. */
static void a_full_window_makes_senders_wait_for_the_timer(void **state)
{
    (void) state;
    fake.is_timed = true;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.window_initial = c.window_max = 8;
        c.rnr_timer = 1 == i ? 14 : 6; /* 1.28 and 0.08 ms */
        assert_true(start(i, &c, NULL));
    }
    open_up(1, 2);
    process[2].holds = true;
    for (uint8_t i = 0; i < 10; ++i) {
        assert_int_equal(say(1, 2, i), VB_OK);
        progress(2);
    }
    settle();
    assert_int_equal(process[2].received, 8);
    assert_int_equal(fake.rnr, 1);
    assert_true(fake_is_waiting(1) && !fake_is_waiting(2));
    assert_int_equal(fake_next_repeat(), 80000);
    process[2].holds = false;
    vb_port_lock(process[2].port);
    vb_port_return(process[2].port, process[2].held, (int) process[2].held_n);
    vb_port_unlock(process[2].port);
    fake.now = 79999;
    fake_repeat();
    settle();
    assert_int_equal(process[2].received, 8); /* though there are buffers again */
    fake.now = 80000;
    fake_repeat();
    settle();
    assert_int_equal(process[2].received, 10);
    assert_int_equal(process[2].got[9], 9);
    assert_int_equal(fake_next_repeat(), UINT64_MAX);
}

/* The shared queue is empty for ten seconds, and whoever should fill it does not even fetch the event of its limit: two
 * senders are told again and again that there is no buffer, and none is given up. Later everything is there, in order. */
static void a_queue_that_is_empty_for_seconds(void **state)
{
    (void) state;
    enum { MANY = 30 };
    fake.is_timed = true;
    begin(3);
    open_up(1, 2);
    open_up(3, 2);
    for (uint8_t i = 0; i < MANY; ++i) {
        for (unsigned from = 1; from <= 3; from += 2) {
            assert_int_equal(say(from, 2, (uint8_t) (i + 100 * (3 == from))), VB_OK);
            progress(from);
        }
    }
    unsigned told = fake.rnr, asked = 0;
    const unsigned had = process[2].received;
    assert_true(told > 0 && fake_is_waiting(1) && fake_is_waiting(3));
    while (fake_next_repeat() < UINT64_C(10000000000) && asked < 200000) {
        fake.now = fake_next_repeat();
        fake_repeat();
        progress(1);
        progress(3);
        ++asked;
    }
    assert_true(fake.now > UINT64_C(9000000000));
    assert_true(fake.rnr - told >= asked);
    assert_int_equal(process[2].received, had);
    assert_int_equal(process[1].lost + process[3].lost, 0);
    for (unsigned i = 0; i < 1000 && process[2].received < 2 * MANY; ++i) {
        settle();
        if (UINT64_MAX != fake_next_repeat()) {
            fake.now = fake_next_repeat();
            fake_repeat();
        }
    }
    assert_int_equal(process[2].received, 2 * MANY);
    unsigned next[2] = {0, 0};
    for (unsigned i = 0; i < 2 * MANY; ++i) {
        const unsigned from = process[2].got[i] / 100;
        assert_int_equal(process[2].got[i] % 100, next[from]++);
    }
    assert_true(vb_port_counters(process[2].port)->starved > 0);
    assert_true(vb_port_window(process[2].port)->current > 8);
    assert_int_equal(process[1].lost + process[2].lost + process[3].lost, 0);
}

static void a_quiet_window_shrinks(void **state)
{
    (void) state;
    vb_config_t c = config_of(&process[2]);
    begin(1);
    c.window_quiet_ns = 1000;
    c.rnr_timer = 1; /* the time is at least four times that */
    assert_true(start(2, &c, NULL));
    open_up(1, 2);
    process[2].holds = true;
    for (unsigned i = 0; i < 60; ++i) {
        (void) say(1, 2, 0);
        settle();
    }
    process[2].holds = false;
    vb_port_lock(process[2].port);
    vb_port_return(process[2].port, process[2].held, (int) process[2].held_n);
    vb_port_unlock(process[2].port);
    const uint64_t most = vb_port_counters(process[2].port)->registered;
    assert_true(vb_port_window(process[2].port)->current > 8);
    uint64_t now = vb_now();
    for (unsigned i = 0; i < 400; ++i) {
        (void) say(1, 2, 0);
        settle();
        vb_port_lock(process[2].port);
        vb_port_look(process[2].port, now += 10000);
        vb_port_unlock(process[2].port);
        assert_true(i >= 2 || vb_port_window(process[2].port)->current == 64);
    }
    assert_int_equal(vb_port_window(process[2].port)->current, 8);
    assert_true(vb_port_counters(process[2].port)->registered < most);
}

/* Bursts of 64 once doubled the window to 128: what they do not use goes, and they do not bring it back. */
static void a_window_fits_what_comes(void **state)
{
    (void) state;
    vb_config_t c = config_of(&process[2]);
    begin(1);
    c.window_max = 4096;
    c.window_quiet_ns = UINT64_C(1000000000);
    assert_true(start(2, &c, NULL));
    open_up(1, 2);
    uint64_t now = vb_now(), grown = 0, most = 0;
    process[2].received = 0;
    for (unsigned round = 0; round < 200; ++round) {
        for (unsigned i = 0; i < 64; ++i) { /* all are there before the first is taken */
            assert_int_equal(say(1, 2, 0), VB_OK);
            vb_port_events(process[2].port, 0);
        }
        settle();
        assert_int_equal(process[2].received, 64);
        process[2].received = 0;
        if (10 == round) {
            assert_int_equal(vb_port_window(process[2].port)->current, 128);
            grown = vb_port_counters(process[2].port)->grown;
            most = vb_port_counters(process[2].port)->registered;
        }
        vb_port_lock(process[2].port);
        vb_port_look(process[2].port, now += c.window_quiet_ns / 20);
        vb_port_unlock(process[2].port);
    }
    assert_in_range(vb_port_window(process[2].port)->current, 65, 80);
    assert_int_equal(vb_port_counters(process[2].port)->grown, grown);
    assert_in_range(vb_port_counters(process[2].port)->registered, 65 * SIZE, most * 3 / 4);
    assert_int_equal(fake.overflows, 0);
}

/* The specification of InfiniBand, table of the RNR NAK timer. */
static void the_timer_is_what_it_says(void **state)
{
    (void) state;
    for (unsigned code = 0; code < 32; ++code) {
        assert_int_equal(vb_rnr_ns((uint8_t) code), fake_rnr_ns((uint8_t) code));
    }
}

/* ---- credits: no shared queue, and a fabric where a message without a buffer ends the stream ---- */

static void iwarp(void)
{
    fake.is_iwarp = true;
    fake.has_atomics = false;
}

static void iwarp_never_sends_without_a_buffer(void **state)
{
    (void) state;
    iwarp();
    begin(2);
    assert_null(vb_port_window(process[1].port));
    assert_false(vb_port_abilities(process[1].port)->shared_queue);
    open_up(1, 2);
    srand(5);
    unsigned sent[3] = {0};
    for (unsigned i = 0; i < 30000 && sent[1] + sent[2] < 4000; ++i) {
        const unsigned me = 1 + (unsigned) (rand() & 1);
        if (rand() % 4) {
            sent[me] += sent[me] < 4000 && VB_OK == say(me, 3 - me, (uint8_t) sent[me]);
        } else {
            progress(me);
        }
    }
    settle();
    assert_int_equal(process[2].received, sent[1]);
    assert_int_equal(process[1].received, sent[2]);
    assert_int_equal(process[1].lost + process[2].lost, 0);
    assert_true(vb_port_counters(process[1].port)->no_credit > 0);
}

/* The window has shrunk while the other side still has credits for more: buffers of control messages are not
 * kept back with those of messages, or the sum of credits would be more than there are buffers. */
static void credits_fit_a_window_that_shrank(void **state)
{
    (void) state;
    iwarp();
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.window_quiet_ns = 1000;
        assert_true(start(i, &c, NULL));
    }
    open_up(1, 2);
    uint64_t now = vb_now();
    for (unsigned round = 0; round < 20; ++round) {
        for (unsigned i = 0; i < 12; ++i) { /* 1 to 2 in bursts: 2's window grows */
            while (VB_OK == say(1, 2, 1)) {}
            progress(2);
            progress(2);
            progress(1);
        }
        settle();
        for (unsigned i = 0; i < 40;
             ++i) { /* 2 to 1: control messages come to 2, whose window shrinks */
            vb_port_lock(process[2].port);
            vb_port_look(process[2].port, now += 10000);
            vb_port_unlock(process[2].port);
            while (VB_OK == say(2, 1, 1)) {}
            settle();
        }
        while (VB_OK == say(1, 2, 1)) { /* all credits at once */
        }
        assert_int_equal(fake.torn, 0);
        settle();
        process[1].received = process[2].received = 0;
    }
    assert_int_equal(process[1].lost + process[2].lost, 0);
}

/* One direction only: control messages bring the credits, and the window grows and shrinks meanwhile. */
static void one_way_traffic_goes_on(void **state)
{
    (void) state;
    iwarp();
    vb_config_t c = config_of(&process[2]);
    begin(1);
    c.window_quiet_ns = 1000;
    assert_true(start(2, &c, NULL));
    open_up(1, 2);
    unsigned sent = 0;
    uint64_t now = vb_now();
    srand(11);
    while (sent < 4000) {
        unsigned burst = (unsigned) rand() % 100;
        while (sent < 4000 && burst-- > 0 && VB_OK == say(1, 2, (uint8_t) sent)) {
            ++sent;
        }
        progress(2);
        progress(1);
        vb_port_lock(process[2].port);
        vb_port_look(process[2].port, now += (uint64_t) rand() % 3000);
        vb_port_unlock(process[2].port);
    }
    settle();
    assert_int_equal(process[2].received, 4000);
    assert_int_equal(process[1].lost + process[2].lost, 0);
    assert_true(vb_port_counters(process[2].port)->starved > 0);
    assert_true(vb_port_counters(process[2].port)->credit_messages > 10);
}

static void without_shared_queue_where_there_is_none(void **state)
{
    (void) state;
    fake.has_srq = false;
    begin(2);
    assert_non_null(strstr(vb_port_abilities(process[1].port)->shared_queue_why, "has none"));
    open_up(1, 2);
    unsigned sent = 0;
    for (unsigned i = 0; i < 5000 && sent < 500; ++i) {
        sent += VB_OK == say(1, 2, (uint8_t) sent);
        progress(1 + i % 2);
    }
    settle();
    assert_int_equal(process[2].received, 500);
    assert_int_equal(fake.rnr, 0);
}

static void switched_off_by_parameter(void **state)
{
    (void) state;
    vb_config_t c = config_of(&process[1]);
    c.shared_queue = VB_OFF;
    assert_true(start(1, &c, NULL));
    assert_false(vb_port_abilities(process[1].port)->shared_queue);
    /* One side with, one without: credits one way. */
    c = config_of(&process[2]);
    assert_true(start(2, &c, NULL));
    open_up(1, 2);
    unsigned sent = 0;
    for (unsigned i = 0; i < 3000 && sent < 300; ++i) {
        sent += VB_OK == say(2, 1, (uint8_t) sent);
        (void) say(1, 2, 1);
        progress(1 + i % 2);
    }
    settle();
    assert_int_equal(process[1].received, 300);
}

static void no_inline_data(void **state)
{
    (void) state;
    fake.max_inline = 0;
    iwarp();
    begin(2);
    open_up(1, 2);
    assert_int_equal(vb_inline_max(process[1].peer[2]), 0);
    for (unsigned i = 0; i < 200; ++i) {
        while (VB_OK != say(1, 2, (uint8_t) i)) {
            settle();
        }
    }
    settle();
    assert_int_equal(process[2].received, 200);
    assert_int_equal(fake.inlined, 0);
}

/* ---- put, get, atomics ---- */

static vb_status_t transfer(unsigned from, unsigned to, bool is_write, size_t here, size_t there,
                            uint32_t size, uint32_t rkey)
{
    process_t *p = &process[from];
    struct ibv_sge piece = {
        .addr = (uintptr_t) (p->memory + here), .length = size, .lkey = p->mr->lkey};
    const uint64_t remote = (uintptr_t) (process[to].memory + there);
    vb_port_lock(p->port);
    const vb_status_t status = is_write
                                   ? vb_post_write(p->peer[to], &piece, remote, rkey, VB_SIGNAL, p)
                                   : vb_post_read(p->peer[to], &piece, remote, rkey, VB_SIGNAL, p);
    vb_port_unlock(p->port);
    return status;
}

static void put_and_get(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    memset(process[1].memory + 20000, 'a', 1000);
    memset(process[2].memory + 40000, 'b', 1000);
    assert_int_equal(transfer(1, 2, true, 20000, 30000, 1000, process[2].mr->rkey), VB_OK);
    assert_int_equal(transfer(1, 2, false, 50000, 40000, 1000, process[2].mr->rkey), VB_OK);
    settle();
    assert_int_equal(process[1].done, 2);
    assert_int_equal(process[1].failed, 0);
    assert_int_equal(process[2].memory[30999], 'a');
    assert_int_equal(process[1].memory[50999], 'b');
}

/* The lane: a message with VB_FENCE behind a read is fenced, one behind a write is not. */
static void a_message_behind_a_read_is_fenced(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    assert_int_equal(transfer(1, 2, true, 0, 0, 8, process[2].mr->rkey), VB_OK);
    assert_int_equal(send_flags(1, 2, 1, 8, VB_FENCE), VB_OK);
    assert_int_equal(fake.fences, 0);
    assert_int_equal(transfer(1, 2, false, 0, 0, 8, process[2].mr->rkey), VB_OK);
    assert_int_equal(send_flags(1, 2, 1, 8, 0), VB_OK);
    assert_int_equal(fake.fences, 0);
    assert_int_equal(send_flags(1, 2, 1, 8, VB_FENCE), VB_OK);
    assert_int_equal(fake.fences, 1);
    settle(); /* the read is done */
    assert_int_equal(send_flags(1, 2, 1, 8, VB_FENCE), VB_OK);
    assert_int_equal(fake.fences, 1);
}

/* Where a fence can block a queue for ever, none is asked for. */
static void no_fence_from(uint32_t vendor)
{
    fake.vendor = vendor;
    begin(2);
    assert_false(vb_port_abilities(process[1].port)->fences);
    open_up(1, 2);
    assert_int_equal(transfer(1, 2, false, 0, 0, 8, process[2].mr->rkey), VB_OK);
    assert_int_equal(send_flags(1, 2, 1, 8, VB_FENCE), VB_OK);
    assert_int_equal(fake.fences, 0);
}

static void siw_is_not_asked_to_fence(void **state)
{
    (void) state;
    no_fence_from(0x626d74);
}

static void rxe_is_not_asked_to_fence(void **state)
{
    (void) state;
    no_fence_from(0xffffff);
}

/* Messages posted behind a read are done before it: its data is not there yet. */
static void a_read_is_done_when_it_says_so(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    fake.late_reads = true;
    process[1].memory[50000] = 0;
    process[2].memory[40000] = 'b';
    assert_int_equal(transfer(1, 2, false, 50000, 40000, 8, process[2].mr->rkey), VB_OK);
    assert_int_equal(send_flags(1, 2, 1, 8, VB_SIGNAL), VB_OK);
    settle();
    assert_int_equal(process[1].done, 1); /* the message */
    assert_int_equal(process[1].memory[50000], 0);
    fake_finish_reads();
    settle();
    assert_int_equal(process[1].done, 2);
    assert_int_equal(process[1].memory[50000], 'b');
}

static void a_bad_key_ends_the_connection(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    assert_int_equal(transfer(1, 2, true, 0, 0, 8, 0xdead), VB_OK);
    assert_int_equal(transfer(1, 2, true, 0, 0, 8, process[2].mr->rkey), VB_OK);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].done, 2);
    assert_int_equal(process[1].failed, 2);
    assert_int_equal(process[1].last, VB_LOST);
    until(2, 1, VB_DEAD);
    assert_int_equal(process[2].lost, 1);
}

static void atomics(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    process_t *p = &process[1];
    uint64_t word = 40, swap = 7, before;
    memcpy(process[2].memory + 8, &word, 8);
    struct ibv_sge piece = {.addr = (uintptr_t) (p->memory + 16), .length = 8, .lkey = p->mr->lkey};
    const uint64_t remote = (uintptr_t) (process[2].memory + 8);
    vb_port_lock(p->port);
    assert_int_equal(
        vb_post_atomic(p->peer[2], &piece, remote, process[2].mr->rkey, 2, NULL, VB_SIGNAL, p),
        VB_OK);
    memcpy(&before, p->memory + 16, 8);
    assert_int_equal(before, 40);
    assert_int_equal(
        vb_post_atomic(p->peer[2], &piece, remote, process[2].mr->rkey, 42, &swap, VB_SIGNAL, p),
        VB_OK);
    assert_int_equal(vb_post_atomic(p->peer[2], &piece, remote + 4, process[2].mr->rkey, 42, &swap,
                                    VB_SIGNAL, p),
                     VB_FAULT);
    vb_port_unlock(p->port);
    settle();
    memcpy(&word, process[2].memory + 8, 8);
    assert_int_equal(word, 7);
    assert_int_equal(p->done, 2);
}

static void no_atomics_where_there_are_none(void **state)
{
    (void) state;
    fake.has_atomics = false;
    begin(2);
    open_up(1, 2);
    assert_false(vb_port_abilities(process[1].port)->atomics);
    struct ibv_sge piece = {.length = 8};
    vb_port_lock(process[1].port);
    assert_int_equal(vb_post_atomic(process[1].peer[2], &piece, 0, 0, 2, NULL, VB_SIGNAL, NULL),
                     VB_FAULT);
    vb_port_unlock(process[1].port);
}

/* ---- ends ---- */

static void a_killed_peer_is_told_of(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    assert_int_equal(send_flags(1, 2, 1, 8, VB_SIGNAL), VB_OK);
    fake_kill(2);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].lost, 1);
    assert_int_equal(process[1].done, 1);
    assert_int_equal(say(1, 2, 1), VB_LOST);
    settle();
    assert_int_equal(process[1].lost, 1); /* once */
}

/* It was asked for a connection, and dies before it has looked. */
static void killed_before_it_answers(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    assert_int_equal(say(1, 2, 1), VB_AGAIN);
    for (unsigned i = 0; i < 40; ++i) { /* the question has left */
        progress(1);
    }
    assert_int_equal(process[1].lost, 0);
    fake_kill(2);
    vb_port_t *dead = process[2].port;
    process[2].port = NULL; /* it does nothing any more */
    until(1, 2, VB_DEAD);
    process[2].port = dead; /* and gives back what the test's adapter had for it */
    progress(2);
    assert_int_equal(process[1].lost, 1);
    assert_true('\0' != process[1].why[0]);
    assert_int_equal(say(1, 2, 1), VB_LOST);
    assert_int_equal(process[2].received, 0);
}

static void requests_without_a_completion_fail_too(void **state)
{
    (void) state;
    vb_config_t c = config_of(&process[2]);
    begin(1);
    c.window_initial = c.window_max = 2;
    assert_true(start(2, &c, NULL));
    open_up(1, 2);
    process[2].holds = true;
    for (unsigned i = 0; i < 10; ++i) { /* most wait for a buffer */
        assert_int_equal(send_flags(1, 2, 1, 8, VB_SIGNAL), VB_OK);
    }
    settle();
    fake_kill(2);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].done, 10);
    assert_int_equal(process[1].failed, 8);
}

static void a_broken_connection_fails_what_is_posted(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    fake_break(1);
    assert_int_equal(send_flags(1, 2, 1, 8, VB_SIGNAL), VB_OK);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].failed, 1);
    assert_int_equal(process[1].lost, 1);
}

static void goodbye_is_no_error_and_comes_last(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    for (unsigned i = 0; i < 5; ++i) {
        assert_int_equal(say(1, 2, (uint8_t) i), VB_OK);
    }
    stop(1);
    settle();
    assert_int_equal(process[2].received, 5);
    assert_int_equal(process[2].lost, 0);
    assert_true(vb_conn_is_over(vb_peer_connection(process[2].peer[1])));
    assert_int_equal(say(2, 1, 1), VB_ENDED);
}

/* Also when it was never told before that the connection is there: asked, sent to, and left alone. */
static void a_short_visit(void **state)
{
    (void) state;
    begin(2);
    meet(1, 2);
    (void) say(1, 2, 0);
    for (unsigned i = 0; i < 20; ++i) {
        progress(1);
        vb_port_events(process[2].port, 0); /* accepts, does not poll */
    }
    assert_int_equal(say(1, 2, 33), VB_OK);
    stop(1);
    settle();
    assert_int_equal(process[2].received, 1);
    assert_int_equal(process[2].got[0], 33);
    assert_int_equal(process[2].lost, 0);
}

static void a_device_that_fails_is_told_of(void **state)
{
    (void) state;
    begin(3);
    open_up(1, 2);
    open_up(1, 3);
    fake_device_fatal(1);
    until(1, 2, VB_DEAD);
    until(1, 3, VB_DEAD);
    assert_int_equal(process[1].lost, 2);
}

static void garbage_ends_the_connection(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    /* A message whose header says what no header may: written into the buffer of the sender after posting
     * would be too late, so one that is too short. */
    process_t *p = &process[1];
    vb_hdr_t hdr;
    struct ibv_sge piece = {.addr = (uintptr_t) &hdr, .length = 3};
    vb_port_lock(p->port);
    assert_int_equal(vb_post_send(p->peer[2], &hdr, 9, &piece, 1, VB_INLINE, NULL), VB_OK);
    vb_port_unlock(p->port);
    until(2, 1, VB_DEAD);
    assert_int_equal(vb_port_counters(process[2].port)->bad_messages, 1);
    assert_int_equal(process[2].lost, 1);
}

/* ---- opening ---- */

static void ports_that_cannot_be_had(void **state)
{
    (void) state;
    char why[256];
    vb_config_t c = config_of(&process[1]);
    c.address.sin_addr.s_addr = htonl(0x7f000001);
    assert_false(start(1, &c, why));
    assert_non_null(strstr(why, "bound"));
    c = config_of(&process[1]);
    fake.no_cq = true;
    assert_false(start(1, &c, why));
    assert_non_null(strstr(why, "completion queue"));
    fake_reset();
    fake.registrations_left = 0;
    assert_false(start(1, &c, why));
    assert_non_null(strstr(why, "ulimit"));
    fake_reset();
    fake.no_listen = true;
    assert_false(start(1, &c, why));
    assert_non_null(strstr(why, "rdma_listen"));
    fake_reset();
    fake.max_sge = 1;
    assert_false(start(1, &c, why));
    assert_non_null(strstr(why, "2 are needed"));
    fake_reset();
    fake.max_wr = 2;
    assert_false(start(1, &c, why));
    assert_non_null(strstr(why, "too short"));
    fake_reset();
}

static void no_memory_for_a_connection(void **state)
{
    (void) state;
    iwarp();
    begin(2);
    meet(1, 2);
    fake.registrations_left = 0;
    (void) say(1, 2, 0);
    until(1, 2, VB_DEAD);
    failed("ulimit");
}

static void no_memory_to_grow(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    fake.registrations_left = 0;
    for (unsigned i = 0; i < 500; ++i) {
        (void) say(1, 2, 1);
        progress(1 + i % 2);
    }
    settle();
    assert_int_equal(process[1].lost + process[2].lost, 0);
    assert_true(process[2].received > 100);
}

/* ---- rings ---- */

static void begin_with_rings(unsigned n, uint32_t peers)
{
    for (unsigned i = 1; i <= n; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.ring_after = 4;
        c.ring_peers = peers;
        c.ring_slots = 8;
        assert_true(start(i, &c, NULL));
    }
}

static void say_until_said(unsigned from, unsigned to, uint8_t first, uint32_t size, unsigned flags)
{
    vb_status_t status;
    while (VB_OK != (status = send_flags(from, to, first, size, flags))) {
        assert_string_equal(vb_status_name(status), vb_status_name(VB_AGAIN));
        progress(from);
        progress(to);
    }
}

/* Short ones go by the ring, long ones do not; neither overtakes the other. */
static void hot_peers_use_rings(void **state)
{
    (void) state;
    fake.torn_writes = true;
    begin_with_rings(2, 8);
    open_up(1, 2);
    for (unsigned i = 0; i < 1000; ++i) {
        const uint32_t size = 1 + i * 7 % 240;
        say_until_said(1, 2, (uint8_t) i, size, size <= 200 && i % 5 > 0 ? VB_INLINE : 0);
        say_until_said(2, 1, (uint8_t) (i + 1), 8, VB_INLINE);
        if (0 == i % 3) {
            progress(2);
            fake_finish_writes();
            progress(1);
        }
    }
    fake_finish_writes();
    settle();
    const vb_counters_t *mine = vb_port_counters(process[1].port),
                        *theirs = vb_port_counters(process[2].port);
    assert_int_equal(process[2].received, 1000);
    assert_int_equal(process[1].received, 1000);
    for (unsigned i = 0; i < 1000; ++i) {
        assert_int_equal(process[2].got[i], (uint8_t) i);
        assert_int_equal(process[1].got[i], (uint8_t) (i + 1));
    }
    assert_true(mine->ring_sent > 300 && mine->ring_sent < 1000);
    assert_int_equal(mine->ring_sent, theirs->ring_received);
    assert_int_equal(theirs->ring_sent, mine->ring_received);
    assert_true(theirs->ring_torn > 0);
    assert_int_equal(mine->bad_messages + theirs->bad_messages, 0);
}

/* Nothing goes back: control messages say which slots are free. The same where connections count credits. */
static void one_way_by_ring(void)
{
    begin_with_rings(2, 8);
    open_up(1, 2);
    for (unsigned i = 0; i < 2000; ++i) {
        say_until_said(1, 2, (uint8_t) i, 64, VB_INLINE);
        progress(2);
        progress(1);
    }
    settle();
    assert_int_equal(process[2].received, 2000);
    assert_true(vb_port_counters(process[1].port)->ring_sent > 1900);
    assert_true(vb_port_counters(process[2].port)->credit_messages >= 1900 / 8);
}
static void one_way_by_ring_uncounted(void **state)
{
    (void) state;
    one_way_by_ring();
}
static void one_way_by_ring_on_iwarp(void **state)
{
    (void) state;
    iwarp();
    one_way_by_ring();
}

/* A receiver that gives nothing back: the other way is taken, in order. */
static void a_full_ring_is_no_end(void **state)
{
    (void) state;
    begin_with_rings(2, 8);
    open_up(1, 2);
    for (unsigned i = 0; i < 10; ++i) {
        say_until_said(1, 2, (uint8_t) i, 64, VB_INLINE);
        settle();
    }
    process[2].holds = true;
    for (unsigned i = 10; i < 40; ++i) {
        say_until_said(1, 2, (uint8_t) i, 64, VB_INLINE);
        settle();
    }
    assert_int_equal(process[2].received, 40);
    assert_int_equal(process[2].held_n, 30);
    assert_true(vb_port_counters(process[1].port)->ring_full > 0);
    process[2].holds = false;
    for (unsigned i = 30; i-- > 0;) { /* the last first */
        vb_port_lock(process[2].port);
        vb_port_return(process[2].port, &process[2].held[i], 1);
        vb_port_unlock(process[2].port);
    }
    const uint64_t before = vb_port_counters(process[1].port)->ring_sent;
    settle();
    for (unsigned i = 40; i < 60; ++i) {
        say_until_said(1, 2, (uint8_t) i, 64, VB_INLINE);
        settle();
    }
    assert_int_equal(vb_port_counters(process[1].port)->ring_sent, before + 20);
    for (unsigned i = 0; i < 60; ++i) {
        assert_int_equal(process[2].got[i], i);
    }
}

/* The connection ends while messages in its ring, or in its own receive buffers, are being delivered. */
static void lent_memory_outlives_its_link(void)
{
    begin_with_rings(2, 8);
    open_up(1, 2);
    for (unsigned i = 0; i < 20; ++i) {
        say_until_said(1, 2, 1, 64, VB_INLINE);
        settle();
    }
    process[2].holds = true;
    say_until_said(1, 2, 77, 64, VB_INLINE);
    say_until_said(1, 2, 77, 240, 0);
    settle();
    assert_int_equal(process[2].held_n, 2);
    fake_kill(1);
    until(2, 1, VB_DEAD);
    settle();
    const unsigned before = fake.queue_pairs;
    for (unsigned i = 0; i < 2; ++i) {
        const uint8_t *data = process[2].held[i].data;
        for (uint32_t byte = 0; byte < process[2].held[i].length; ++byte) {
            assert_int_equal(data[byte], 77);
        }
    }
    vb_port_lock(process[2].port);
    vb_port_return(process[2].port, process[2].held, 2);
    vb_port_unlock(process[2].port);
    settle();
    assert_int_equal(fake.queue_pairs, before - 1);
}
static void lent_slots_outlive_their_link(void **state)
{
    (void) state;
    lent_memory_outlives_its_link();
}
static void lent_buffers_outlive_their_link(void **state)
{
    (void) state;
    iwarp();
    lent_memory_outlives_its_link();
}

static void rings_are_few(void **state)
{
    (void) state;
    begin_with_rings(FAKE_NODES, 1);
    for (unsigned a = 2; a <= FAKE_NODES; ++a) {
        open_up(a, 1);
    }
    for (unsigned i = 0; i < 50; ++i) {
        for (unsigned a = 2; a <= FAKE_NODES; ++a) {
            say_until_said(a, 1, (uint8_t) i, 64, VB_INLINE);
            settle();
        }
    }
    unsigned with = 0;
    for (unsigned a = 2; a <= FAKE_NODES; ++a) {
        with += vb_port_counters(process[a].port)->ring_sent > 0;
    }
    assert_int_equal(with, 1);
    assert_int_equal(vb_port_counters(process[1].port)->rings, 1);
}

static void no_rings_if_not_wanted(void **state)
{
    (void) state;
    begin_with_rings(2, 0);
    open_up(1, 2);
    for (unsigned i = 0; i < 50; ++i) {
        say_until_said(1, 2, (uint8_t) i, 64, VB_INLINE);
        settle();
    }
    assert_int_equal(vb_port_counters(process[1].port)->ring_sent, 0);
}

/* No memory for a ring: messages go on as before. */
static void no_memory_for_a_ring(void **state)
{
    (void) state;
    begin_with_rings(2, 8);
    open_up(1, 2);
    fake.registrations_left = 0;
    for (unsigned i = 0; i < 50; ++i) {
        say_until_said(1, 2, (uint8_t) i, 64, VB_INLINE);
        settle();
    }
    assert_int_equal(process[2].received, 50);
    assert_int_equal(vb_port_counters(process[1].port)->ring_sent, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_makes_the_connection),
        TEST(both_at_once_make_one_connection),
        TEST(all_pairs_at_once),
        TEST(an_unknown_peer_may_connect),
        TEST(strangers_are_refused),
        TEST(other_sizes_are_refused),
        TEST(an_impostor_is_found_out),
        TEST(nobody_listens),
        TEST(no_address),
        TEST(no_route),
        TEST(unreachable),
        TEST(silence_ends),
        TEST(no_queue_pair),
        TEST(a_failure_that_passes_is_survived),
        TEST(messages_keep_their_order_and_bytes),
        TEST(a_send_queue_that_is_full_waits),
        TEST(entries_of_the_completion_queue_are_counted),
        TEST(a_starved_shared_queue_grows),
        TEST(a_full_window_makes_senders_wait),
        TEST(a_full_window_makes_senders_wait_for_the_timer),
        TEST(a_queue_that_is_empty_for_seconds),
        TEST(a_quiet_window_shrinks),
        TEST(a_window_fits_what_comes),
        TEST(the_timer_is_what_it_says),
        TEST(iwarp_never_sends_without_a_buffer),
        TEST(credits_fit_a_window_that_shrank),
        TEST(one_way_traffic_goes_on),
        TEST(without_shared_queue_where_there_is_none),
        TEST(switched_off_by_parameter),
        TEST(no_inline_data),
        TEST(put_and_get),
        TEST(a_message_behind_a_read_is_fenced),
        TEST(siw_is_not_asked_to_fence),
        TEST(rxe_is_not_asked_to_fence),
        TEST(a_read_is_done_when_it_says_so),
        TEST(a_bad_key_ends_the_connection),
        TEST(atomics),
        TEST(no_atomics_where_there_are_none),
        TEST(a_killed_peer_is_told_of),
        TEST(killed_before_it_answers),
        TEST(requests_without_a_completion_fail_too),
        TEST(a_broken_connection_fails_what_is_posted),
        TEST(goodbye_is_no_error_and_comes_last),
        TEST(a_short_visit),
        TEST(a_device_that_fails_is_told_of),
        TEST(garbage_ends_the_connection),
        TEST(ports_that_cannot_be_had),
        TEST(no_memory_for_a_connection),
        TEST(no_memory_to_grow),
        TEST(hot_peers_use_rings),
        TEST(one_way_by_ring_uncounted),
        TEST(one_way_by_ring_on_iwarp),
        TEST(a_full_ring_is_no_end),
        TEST(lent_slots_outlive_their_link),
        TEST(lent_buffers_outlive_their_link),
        TEST(rings_are_few),
        TEST(no_rings_if_not_wanted),
        TEST(no_memory_for_a_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
