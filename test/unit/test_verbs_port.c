/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What goes over the connections of a port of the verbs transport, over adapters that are not there (fake_verbs.h):
 * messages, put, get and atomics; all of it, once, in order. */
#include "verbs_processes.h"

#include <poll.h>
#include <string.h>

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

static void more_inline_data_than_is_taken(void **state)
{
    (void) state;
    fake.max_inline = 64;
    begin(2);
    open_up(1, 2);
    assert_int_equal(vb_inline_max(process[1].peer[2]), 64);
    assert_int_equal(send_flags(1, 2, 1, 65 - sizeof(vb_hdr_t), VB_INLINE), VB_FAULT);
    assert_int_equal(send_flags(1, 2, 2, 64 - sizeof(vb_hdr_t), VB_INLINE), VB_OK);
    settle();
    assert_int_equal(process[2].got[process[2].received - 1], 2);
    assert_int_equal(process[1].lost, 0);
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
                                   ? vb_post_rdma(p->peer[to], &piece, remote, rkey, VB_SIGNAL, p)
                                   : vb_post_rdma(p->peer[to], &piece, remote, rkey, VB_SIGNAL | VB_READ, p);
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

static void say_until_said(unsigned from, unsigned to, uint8_t first, uint32_t size, unsigned flags)
{
    vb_status_t status;
    while (VB_OK != (status = send_flags(from, to, first, size, flags))) {
        assert_int_equal(status, VB_AGAIN);
        progress(from);
        progress(to);
    }
}

/* The connection ends while messages in its own receive buffers are being delivered. */
static void lent_buffers_outlive_their_link(void **state)
{
    (void) state;
    iwarp();
    begin(2);
    open_up(1, 2);
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

/* ---- notices ---- */

static int arm(unsigned node)
{
    vb_port_lock(process[node].port);
    const int fd = vb_port_arm(process[node].port);
    vb_port_unlock(process[node].port);
    return fd;
}

static bool is_told(int fd)
{
    struct pollfd of = {.fd = fd, .events = POLLIN};
    return 1 == poll(&of, 1, 0);
}

/* What comes after it was asked for is told, once for all; what was there before is not. */
static void completions_are_told(void **state)
{
    (void) state;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.notices = VB_ON;
        assert_true(start(i, &c, NULL));
    }
    open_up(1, 2);
    settle();
    const int fd = arm(2);
    assert_true(fd >= 0);
    assert_false(is_told(fd));
    assert_int_equal(say(1, 2, 1), VB_OK);
    assert_int_equal(say(1, 2, 2), VB_OK);
    assert_true(is_told(fd));
    assert_int_equal(arm(2), fd); /* two messages lie there */
    assert_false(is_told(fd));
    settle();
    assert_int_equal(process[2].received, 2);
    assert_int_equal(say(1, 2, 3), VB_OK);
    assert_true(is_told(fd));
    settle();
    assert_int_equal(arm(2), fd);
    assert_false(is_told(fd));
    /* What was sent is done: that is told, too. */
    assert_int_equal(send_flags(2, 1, 4, 100, VB_SIGNAL), VB_OK);
    assert_true(is_told(fd));
    fake.no_notices = true;
    assert_int_equal(arm(2), -1);
}

static void no_notices_if_not_wanted(void **state)
{
    (void) state;
    begin(2);
    open_up(1, 2);
    assert_int_equal(arm(1), -1);
}

/* VB_AUTO. */
static void notices_of_software_alone(void **state)
{
    static const uint32_t vendors[] = {0x626d74, 0xffffff, 0x15b3}; /* siw, rxe, an adapter */
    for (unsigned i = 0; i < 3; ++i) {
        fake.vendor = vendors[i];
        vb_config_t c = config_of(&process[1]);
        c.notices = VB_AUTO;
        assert_true(start(1, &c, NULL));
        assert_int_equal(i < 2, vb_port_abilities(process[1].port)->software);
        assert_int_equal(i < 2, arm(1) >= 0);
        (void) teardown(state);
        (void) setup(state);
    }
}

/* Nobody has asked for them: then it is done without. */
static void no_channel_is_no_reason(void **state)
{
    (void) state;
    fake.vendor = 0xffffff; /* rxe */
    fake.no_channel = true;
    vb_config_t c = config_of(&process[1]);
    c.notices = VB_AUTO;
    assert_true(start(1, &c, NULL));
    assert_true(vb_port_abilities(process[1].port)->software);
    assert_int_equal(arm(1), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_keep_their_order_and_bytes),
        TEST(a_send_queue_that_is_full_waits),
        TEST(entries_of_the_completion_queue_are_counted),
        TEST(more_inline_data_than_is_taken),
        TEST(no_inline_data),
        TEST(put_and_get),
        TEST(a_message_behind_a_read_is_fenced),
        TEST(siw_is_not_asked_to_fence),
        TEST(rxe_is_not_asked_to_fence),
        TEST(a_read_is_done_when_it_says_so),
        TEST(a_bad_key_ends_the_connection),
        TEST(atomics),
        TEST(no_atomics_where_there_are_none),
        TEST(lent_buffers_outlive_their_link),
        TEST(completions_are_told),
        TEST(no_notices_if_not_wanted),
        TEST(notices_of_software_alone),
        TEST(no_channel_is_no_reason),
    };
    return cmocka_run_group_tests_name("verbs_port", tests, NULL, NULL);
}
