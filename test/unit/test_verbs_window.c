/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Receive buffers of the verbs transport, over adapters that are not there (fake_verbs.h): a shared queue with its window,
 * or credits where there is none; enough of them, not many more, and what comes when there are none. */
#include "fake_objects.h"
#include "verbs_processes.h"

#include <stdlib.h>
#include <string.h>

/* ---- the window of a shared queue ---- */

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

/* Relaxed ordering is for receive buffers, if it is wanted. */
static void buffers_written(bool relaxed)
{
    vb_config_t c = config_of(&process[2]);
    begin(1);
    c.relaxed = relaxed;
    assert_true(start(2, &c, NULL));
    open_up(1, 2);
    const vb_slab_t *slab = &process[2].port->rx->slab[0];
    const uintptr_t at = (uintptr_t) slab->memory;
    assert_true(fake_is_allowed(slab->mr->lkey, at, 64, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(fake_is_allowed(slab->mr->lkey, at, 64, IBV_ACCESS_RELAXED_ORDERING), relaxed);
    assert_int_equal(vb_port_relaxed(process[2].port, 0), relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0);
}

static void buffers_written_in_order(void **state)
{
    (void) state;
    buffers_written(false);
}

static void buffers_written_in_any_order(void **state)
{
    (void) state;
    buffers_written(true);
}

static void bandwidth_by_width_and_speed(void **state)
{
    (void) state;
    assert_int_equal(vb_mbps(2, 4), 40000);    /* QDR, 4 wide */
    assert_int_equal(vb_mbps(2, 64), 200000);  /* HDR */
    assert_int_equal(vb_mbps(2, 128), 400000); /* NDR */
    assert_int_equal(vb_mbps(2, 256), 800000); /* XDR */
    assert_int_equal(vb_mbps(16, 256), 400000);
    assert_int_equal(vb_mbps(1, 32), 25000);
    assert_int_equal(vb_mbps(0, 0), 2500);
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
    uint64_t now = spec_now();
    for (unsigned i = 0; i < 400; ++i) {
        (void) say(1, 2, 0);
        settle();
        vb_port_lock(process[2].port);
        vb_port_check(process[2].port, now += 10000);
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
    uint64_t now = spec_now(), grown = 0, most = 0;
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
        vb_port_check(process[2].port, now += c.window_quiet_ns / 20);
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

/* ---- credits: no shared queue, and a fabric where a message without a buffer ends the stream ---- */

/* Half of a window that has no buffers is never owed: credits come back by what there is. */
static void no_memory_to_grow_with_credits(void **state)
{
    (void) state;
    iwarp();
    begin(2);
    open_up(1, 2);
    fake.registrations_left = 0;
    for (unsigned i = 0; i < 500; ++i) {
        (void) say(1, 2, 1);
        progress(1 + (0 == i % 20));
    }
    settle();
    assert_true(vb_port_counters(process[2].port)->grown > 1);
    assert_int_equal(process[1].lost + process[2].lost, 0);
    const unsigned before = process[2].received;
    for (unsigned i = 0; i < 100; ++i) {
        (void) say(1, 2, 1);
        settle();
    }
    assert_int_equal(process[2].received, before + 100);
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

/* Each message is being delivered, by a callback that waits for the next one: none of the buffers comes back meanwhile. */
static void buffers_that_callbacks_have_stop_nobody(void **state)
{
    (void) state;
    iwarp();
    begin(2);
    open_up(1, 2);
    process[2].holds = true;
    unsigned sent = 0;
    for (unsigned i = 0; i < 1000 && process[2].received < 60; ++i) {
        sent += sent == process[2].received && VB_OK == say(1, 2, (uint8_t) sent);
        progress(1);
        progress(2);
    }
    assert_int_equal(process[2].received, 60);
    vb_port_lock(process[2].port);
    vb_port_return(process[2].port, process[2].held, (int) process[2].held_n);
    vb_port_unlock(process[2].port);
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
    uint64_t now = spec_now();
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
            vb_port_check(process[2].port, now += 10000);
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
    uint64_t now = spec_now();
    srand(11);
    while (sent < 4000) {
        unsigned burst = (unsigned) rand() % 100;
        while (sent < 4000 && burst-- > 0 && VB_OK == say(1, 2, (uint8_t) sent)) {
            ++sent;
        }
        progress(2);
        progress(1);
        vb_port_lock(process[2].port);
        vb_port_check(process[2].port, now += (uint64_t) rand() % 3000);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(buffers_written_in_order),
        TEST(buffers_written_in_any_order),
        TEST(bandwidth_by_width_and_speed),
        TEST(a_starved_shared_queue_grows),
        TEST(a_full_window_makes_senders_wait),
        TEST(a_full_window_makes_senders_wait_for_the_timer),
        TEST(a_queue_that_is_empty_for_seconds),
        TEST(a_quiet_window_shrinks),
        TEST(a_window_fits_what_comes),
        TEST(the_timer_is_what_it_says),
        TEST(iwarp_never_sends_without_a_buffer),
        TEST(buffers_that_callbacks_have_stop_nobody),
        TEST(credits_fit_a_window_that_shrank),
        TEST(one_way_traffic_goes_on),
        TEST(without_shared_queue_where_there_is_none),
        TEST(switched_off_by_parameter),
        TEST(no_memory_to_grow),
        TEST(no_memory_to_grow_with_credits),
    };
    return cmocka_run_group_tests_name("verbs_window", tests, NULL, NULL);
}
