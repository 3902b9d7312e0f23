/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections that break in use and are made again: nothing is lost, nothing comes twice, nothing is overtaken, whichever
 * request breaks them, and whether that was done or not. */
#include "verbs_talk.h"

/* again: after how many requests the next one breaks a connection; 0: none does. */
static void exchange(unsigned again)
{
    for (unsigned i = 0; i < 20000 && !is_done(); ++i) {
        speak(1, 2);
        speak(2, 1);
        hear(1);
        hear(2);
        if (again > 0 && fake.requests_left < 0) {
            fake.requests_left = (int) again;
            fake.is_unheard = !fake.is_unheard;
        }
        if (i > 200) {
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        }
    }
    check_talk();
}

static const kind_t kinds[] = {{.has_srq = true},
                               {.has_srq = false},
                               {.has_srq = true, .by_datagrams = true},
                               {.has_srq = false, .by_datagrams = true}};

static void each(void **state, void (*run)(const kind_t *))
{
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); ++k) {
        run(&kinds[k]);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

/* ---- tests ---- */

static void marks_say_what_is_there(void **state)
{
    (void) state;
    const vb_sent_t message = vb_sent(VB_SENT_MESSAGE, 9), write = vb_sent(VB_SENT_WRITE, 9);
    assert_int_equal(message.mark, 10);
    assert_false(vb_sent_has_arrived(message, 9));
    assert_true(vb_sent_has_arrived(message, 10));
    assert_false(vb_sent_has_arrived(write, 9)); /* none behind it */
    assert_true(vb_sent_has_arrived(write, 10));
    assert_false(vb_sent_has_arrived(vb_sent(VB_SENT_READ, 9), 10));
    assert_false(vb_sent_has_arrived(vb_sent(VB_SENT_ATOMIC, 9), 10));
    assert_false(vb_sent_has_arrived(vb_sent(VB_SENT_CONTROL, 9), 10));
    /* Around the wrap. */
    assert_false(vb_sent_has_arrived(vb_sent(VB_SENT_MESSAGE, 65535), 65535));
    assert_true(vb_sent_has_arrived(vb_sent(VB_SENT_MESSAGE, 65535), 0));
    assert_true(vb_sent_has_arrived(vb_sent(VB_SENT_MESSAGE, 65530), 5));
    assert_true(vb_sent_is_possible(7, 7, 0));
    assert_false(vb_sent_is_possible(8, 7, 0));
    assert_false(vb_sent_is_possible(6, 7, 0));
    assert_true(vb_sent_is_possible(6, 7, 1));
    assert_false(vb_sent_is_possible(5, 7, 1));
    assert_true(vb_sent_is_possible(65534, 1, 3));
    assert_false(vb_sent_is_possible(65533, 1, 3));
}

/* Once, at each request of the talk. */
static void break_at_each(const kind_t *kind)
{
    void *none = NULL;
    const unsigned all = 2 * (2 * MESSAGES + MESSAGES / 5);
    for (unsigned at = 0; at < all; at += at < 40 ? 1 : 3) {
        for (unsigned unheard = 0; unheard < 2; ++unheard) {
            begin_resumable(kind);
            fill_sources();
            fake.requests_left = (int) at;
            fake.is_unheard = unheard;
            exchange(0);
            assert_int_equal(process[1].port->counters.resumed + process[2].port->counters.resumed
                                 > 0,
                             fake.requests_left < 0);
            assert_int_equal(teardown(&none), 0);
            assert_int_equal(setup(&none), 0);
        }
    }
}

static void one_break_is_not_felt(void **state)
{
    each(state, break_at_each);
}

/* Again and again, also while what was kept is being posted. */
static void break_often(const kind_t *kind)
{
    void *none = NULL;
    for (unsigned every = 4; every < 24; ++every) {
        begin_resumable(kind);
        fill_sources();
        fake.requests_left = (int) every;
        exchange(every);
        assert_true(process[1].port->counters.posted_again > 0);
        assert_int_equal(teardown(&none), 0);
        assert_int_equal(setup(&none), 0);
    }
}

static void many_breaks_are_not_felt(void **state)
{
    each(state, break_often);
}

/* Six messages are kept, and the window of the next connection takes two of them: these have been posted. */
static void post_two_of_six(unsigned flags)
{
    static const kind_t queues = {.has_srq = false};
    begin_resumable(&queues);
    assert_int_equal(say(1, 2, 0), VB_AGAIN);
    until(1, 2, VB_OPEN);
    until(2, 1, VB_OPEN);
    settle();
    process[2].port->config.window_initial = 2;
    process[2].port->config.rules.backoff_ns = UINT64_C(1000000000000); /* the first asks */
    fake.requests_left = 0;
    for (uint8_t i = 1; i <= 6; ++i) {
        assert_int_equal(send_flags(1, 2, i, 64, flags), VB_OK);
    }
    for (unsigned i = 0; i < 20000 && 0 == process[1].port->counters.resumed; ++i) {
        progress(1);
        if (VB_ACCEPTING != process[2].peer[1]->conn.state) {
            progress(2);
        } else {
            vb_port_events(process[2].port, 0);
        }
    }
    assert_int_equal(process[1].port->counters.posted_again, 2);
}

/* While the other side computes it is asked again and again, and nobody polls: what is asked by is not kept. */
static void attempts_in_vain_are_not_kept(void **state)
{
    for (int by_datagrams = 0; by_datagrams < 2; ++by_datagrams) {
        const kind_t kind = {.has_srq = true, .by_datagrams = by_datagrams};
        begin_resumable(&kind);
        assert_int_equal(say(1, 2, 0), VB_AGAIN);
        until(1, 2, VB_OPEN);
        until(2, 1, VB_OPEN);
        const unsigned before = fake.queue_pairs;
        fake.requests_left = 0;
        assert_int_equal(say(1, 2, 1), VB_OK);
        for (unsigned i = 0; i < 1000 && VB_WAITING != process[1].peer[2]->conn.state; ++i) {
            progress(1);
        }
        for (unsigned i = 0; i < 100000 && process[2].port->counters.rejected < 50; ++i) {
            vb_port_events(process[1].port, 0);
            vb_port_events(process[2].port, 0);
            nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        }
        assert_true(process[2].port->counters.rejected >= 50);
        assert_true(fake.queue_pairs <= before + 3);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

/* The new connection has fewer credits than what was kept needs. */
static void what_was_kept_goes_first(void **state)
{
    (void) state;
    post_two_of_six(0);
    vb_port_lock(process[1].port);
    assert_int_equal(post_put(1, 2), VB_AGAIN);
    vb_port_unlock(process[1].port);
    settle();
    assert_int_equal(process[1].port->counters.posted_again, 6);
    assert_int_equal(process[2].received, 6);
    for (uint8_t i = 1; i <= 6; ++i) {
        assert_int_equal(process[2].got[i - 1], i);
    }
    assert_int_equal(fake.rnr, 0);
    vb_port_lock(process[1].port);
    assert_int_equal(post_put(1, 2), VB_OK);
    vb_port_unlock(process[1].port);
}

/* What was posted again arrives, then the credit is gone and the connection breaks again: the next hello counts these, and they have
 * ended already. */
static void what_was_posted_again_ends_once(void **state)
{
    (void) state;
    post_two_of_six(VB_SIGNAL);
    for (unsigned i = 0; i < 10; ++i) {
        progress(1);
    }
    assert_int_equal(process[1].done, 2);
    fake.requests_left = 0; /* the other side's next, which gives credit */
    for (unsigned i = 0; i < 20000 && process[1].port->counters.resumed < 2; ++i) {
        progress(2);
        progress(1);
    }
    settle();
    assert_int_equal(process[1].port->counters.resumed, 2);
    assert_int_equal(process[1].done, 6);
    assert_int_equal(process[2].received, 6);
}

/* ---- what cannot be resumed ---- */

static const kind_t plain = {.has_srq = true};

static void opened(void)
{
    begin_resumable(&plain);
    assert_int_equal(say(1, 2, 0), VB_AGAIN);
    until(1, 2, VB_OPEN);
    until(2, 1, VB_OPEN);
}

static vb_status_t add_one(void)
{
    struct ibv_sge piece = piece_of(1, source(1), WORD);
    vb_port_lock(process[1].port);
    const vb_status_t status = vb_post_atomic(process[1].peer[2], &piece, (uintptr_t) source(2),
                                              process[2].mr->rkey, 1, NULL, VB_SIGNAL, &process[1]);
    vb_port_unlock(process[1].port);
    return status;
}

/* Nobody knows whether it was done. */
static void atomics_are_not_done_twice(void **state)
{
    (void) state;
    opened();
    fake.requests_left = 0;
    fake.is_unheard = true;
    assert_int_equal(add_one(), VB_OK);
    until(1, 2, VB_DEAD);
    until(2, 1, VB_DEAD);
    assert_int_equal(process[1].lost, 1);
    assert_int_equal(process[2].lost, 1);
    assert_int_equal(process[1].last, VB_LOST);
    assert_int_equal(process[1].done, 1);
    assert_non_null(strstr(process[1].why, "atomic operations")); /* and not for what it would do in their place */
    assert_int_equal(vb_port_counters(process[1].port)->posted_again, 0);
    assert_int_equal(*(uint64_t *) (void *) source(2), 1);
}

/* Those that were heard of are no hindrance. */
static void atomics_that_are_done_are_done(void **state)
{
    (void) state;
    opened();
    assert_int_equal(add_one(), VB_OK);
    settle();
    assert_int_equal(process[1].done, 1);
    fake.requests_left = 0;
    assert_int_equal(say(1, 2, 5), VB_OK);
    settle();
    until(1, 2, VB_OPEN);
    settle();
    assert_int_equal(process[2].got[process[2].received - 1], 5);
    assert_int_equal(process[1].lost, 0);
    assert_int_equal(*(uint64_t *) (void *) source(2), 1);
}

/* A request that may not be is not made again and again. */
static void a_fault_of_the_program_is_final(void **state)
{
    (void) state;
    opened();
    struct ibv_sge piece = piece_of(1, source(1), WORD);
    vb_port_lock(process[1].port);
    assert_int_equal(vb_post_rdma(process[1].peer[2], &piece, (uintptr_t) source(2), 12345,
                                  VB_SIGNAL, &process[1]),
                     VB_OK);
    vb_port_unlock(process[1].port);
    until(1, 2, VB_DEAD);
    until(2, 1, VB_DEAD);
    assert_int_equal(process[1].last, VB_LOST);
    assert_int_equal(process[1].port->counters.resumed, 0);
}

/* Its port is no more: that is known at once, and what was posted fails. */
static void who_is_gone_is_not_waited_for(void **state)
{
    (void) state;
    opened();
    const uint64_t start_ns = spec_now();
    fake_kill(2);
    assert_int_equal(send_flags(1, 2, 5, 64, VB_SIGNAL), VB_OK);
    until(1, 2, VB_DEAD);
    assert_true(spec_now() - start_ns
                < UINT64_C(15000000000)); /* of the 20 that silence is waited for */
    assert_int_equal(process[1].lost, 1);
    assert_int_equal(process[1].failed, 1);
    assert_int_equal(process[1].done, 1);
    assert_null(process[1].peer[2]->kept);
}

/* Who said goodbye does not come back, and what was kept for it ends. */
static void goodbyes_are_heard_in_what_broke(void **state)
{
    (void) state;
    opened();
    vb_port_lock(process[2].port);
    vb_peer_close(process[2].peer[1]);
    vb_port_unlock(process[2].port);
    fake.requests_left = 0; /* with the goodbye in the queue */
    assert_int_equal(send_flags(1, 2, 5, 64, VB_SIGNAL), VB_OK);
    until(1, 2, VB_CLOSED);
    assert_int_equal(process[1].lost, 0);
    assert_int_equal(process[1].last, VB_ENDED);
}

/* What a peer says is not believed. */
static void counts_that_cannot_be_are_refused(void **state)
{
    (void) state;
    opened();
    process[2].peer[1]->messages_received += 3;
    fake.requests_left = 0;
    assert_int_equal(say(1, 2, 5), VB_OK);
    until(1, 2, VB_DEAD);
    assert_int_equal(process[1].lost, 1);
    assert_non_null(strstr(process[1].why, "what cannot be"));
}

/* The side that is asked refuses it, too, and asks no more. */
static void wrong_counts_of_who_asks_are_refused(void **state)
{
    static const kind_t kinds_of[] = {{.has_srq = true}, {.has_srq = true, .by_datagrams = true}};
    for (size_t k = 0; k < 2; ++k) {
        begin_resumable(&kinds_of[k]);
        assert_int_equal(say(1, 2, 0), VB_AGAIN);
        until(1, 2, VB_OPEN);
        until(2, 1, VB_OPEN);
        process[1].peer[2]->messages_received += 3;
        process[2].port->config.rules.backoff_ns = UINT64_C(1000000000000); /* only the other one asks */
        fake.requests_left = 0;
        assert_int_equal(say(1, 2, 5), VB_OK);
        until(2, 1, VB_DEAD);
        until(1, 2, VB_DEAD);
        assert_non_null(strstr(process[2].why, "what cannot be"));
        assert_int_equal(process[1].lost, 1);
        assert_int_equal(process[2].lost, 1);
        assert_true(process[1].port->counters.asked < 10);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

/* A network that was away takes all connections with it; they are made again one by one. */
static void many_that_break_take_turns(void **state)
{
    unsigned most = 0;
    (void) state;
    for (unsigned i = 1; i <= FAKE_NODES; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.rules.resume_ns = UINT64_C(20000000000);
        c.rules.breaks = 1000;
        c.rules.attempt_ns = UINT64_C(10000000);
        c.rules.backoff_ns = i > 1 ? UINT64_C(1000000000000) : 100000; /* only the first asks */
        c.resuming = 1;
        assert_true(start(i, &c, NULL));
    }
    for (unsigned i = 2; i <= FAKE_NODES; ++i) {
        open_up(1, i);
    }
    fake.silent = true;
    fake_break(1);
    for (unsigned i = 2; i <= FAKE_NODES; ++i) {
        assert_int_equal(send_flags(1, i, (uint8_t) i, 64, 0), VB_OK);
    }
    uint64_t asked_before = process[1].port->counters.asked;
    for (unsigned i = 0; i < 20000 && process[1].port->counters.resumed < FAKE_NODES - 1; ++i) {
        settle();
        most = process[1].port->resuming > most ? process[1].port->resuming : most;
        fake.silent = process[1].port->counters.asked < asked_before + 2 * (FAKE_NODES - 1);
        for (unsigned peer = 2; fake.silent && peer <= FAKE_NODES; ++peer) { /* all had a turn before any has its third */
            assert_true(process[1].peer[peer]->conn.tries <= 2);
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    settle();
    assert_int_equal(most, 1);
    for (unsigned i = 2; i <= FAKE_NODES; ++i) {
        assert_int_equal(process[i].got[process[i].received - 1], i);
        assert_int_equal(process[1].peer[i]->conn.state, VB_OPEN);
    }
    assert_int_equal(process[1].lost, 0);
}

/* It computes: nothing is taken, so nothing is made again, and nobody is lost for that. */
static void who_computes_is_waited_for(void **state)
{
    (void) state;
    begin_resumable(&plain);
    assert_int_equal(say(1, 2, 0), VB_AGAIN);
    until(1, 2, VB_OPEN);
    until(2, 1, VB_OPEN);
    fake.requests_left = 0;
    assert_int_equal(say(1, 2, 5), VB_OK);
    while (process[2].port->counters.rejected < 10) {
        progress(1);
        vb_port_events(process[2].port, 0); /* its thread only */
    }
    assert_int_equal(process[1].lost, 0);
    until(1, 2, VB_OPEN);
    until(2, 1, VB_OPEN);
    settle();
    assert_int_equal(process[2].got[process[2].received - 1], 5);
}

/* Without the parameter a break is the end, as ever; over iWARP and with datagrams in any case. */
static void who_does_not_resume_loses(void **state)
{
    for (int kind = 0; kind < 3; ++kind) {
        fake.is_iwarp = 1 == kind;
        fake.has_atomics = 1 != kind;
        for (unsigned i = 1; i <= 2; ++i) {
            vb_config_t c = config_of(&process[i]);
            c.rules.resume_ns = 0 == kind ? 0 : UINT64_C(20000000000);
            c.datagram.after = 2 == kind ? 1000 : 0;
            assert_true(start(i, &c, NULL));
            assert_false(vb_port_resumes(process[i].port));
        }
        if (2 != kind) {
            open_up(1, 2);
            fake_break(2);
            (void) say(1, 2, 1);
            until(1, 2, VB_DEAD);
            assert_int_equal(process[1].lost, 1);
        }
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_say_what_is_there),
        cmocka_unit_test_setup_teardown(one_break_is_not_felt, setup, teardown),
        cmocka_unit_test_setup_teardown(many_breaks_are_not_felt, setup, teardown),
        cmocka_unit_test_setup_teardown(attempts_in_vain_are_not_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_kept_goes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_posted_again_ends_once, setup, teardown),
        cmocka_unit_test_setup_teardown(atomics_are_not_done_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(atomics_that_are_done_are_done, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fault_of_the_program_is_final, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_gone_is_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(goodbyes_are_heard_in_what_broke, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_that_cannot_be_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_counts_of_who_asks_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(many_that_break_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(who_computes_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(who_does_not_resume_loses, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
