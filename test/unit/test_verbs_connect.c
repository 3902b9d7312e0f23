/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How a port of the verbs transport opens, and how its connections begin and end, over adapters that are not there
 * (fake_verbs.h): asked for by one or by both, refused, out of reach, lost, cut, and ended by a goodbye. */
#include "verbs_processes.h"

#include <string.h>

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

static unsigned under_way(const process_t *p)
{
    unsigned n = 0;
    for (unsigned b = 1; b <= FAKE_NODES; ++b) {
        n += NULL != p->peer[b] && vb_conn_is_first_attempt(vb_peer_connection(p->peer[b]));
    }
    return n;
}

static unsigned most_under_way; /* of any process */

static void trace_attempts(void *context, const vb_peer_t *peer, vb_conn_state_t from,
                           vb_conn_event_t event, const char *why)
{
    (void) peer, (void) from, (void) event, (void) why;
    const unsigned n = under_way(context);
    most_under_way = n > most_under_way ? n : most_under_way;
}

/* Starts all processes; so many attempts of each at a time. */
static void connections_have_their_class(void **state)
{
    (void) state;
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.traffic_class = 106;
        assert_true(start(i, &c, NULL));
    }
    open_up(1, 2);
    assert_int_equal(fake.traffic_class, 106);
}

static void begin_with_attempts(uint32_t attempts)
{
    most_under_way = 0;
    for (unsigned i = 1; i <= FAKE_NODES; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.attempts = attempts;
        c.trace = trace_attempts;
        assert_true(start(i, &c, NULL));
    }
}

static void attempts_wait_for_their_turn(void **state)
{
    (void) state;
    begin_with_attempts(1);
    for (unsigned b = 2; b <= FAKE_NODES; ++b) {
        meet(1, b);
        (void) say(1, b, 0);
        (void) say(1, b, 0); /* in the queue once */
    }
    assert_int_equal(under_way(&process[1]), 1);
    assert_int_equal(vb_port_counters(process[1].port)->queued, FAKE_NODES - 1 - 1);
    for (unsigned b = 2; b <= FAKE_NODES; ++b) {
        until(1, b, VB_OPEN);
    }
    assert_int_equal(most_under_way, 1);
    assert_int_equal(vb_port_counters(process[1].port)->asked, FAKE_NODES - 1);
    assert_int_equal(fake.queue_pairs, 2 * (FAKE_NODES - 1));
}

/* Whose turn has not come is asked by the peer itself: no attempt is needed. */
static void who_waits_for_its_turn_may_be_asked(void **state)
{
    (void) state;
    begin_with_attempts(1);
    meet(1, 2);
    meet(1, 3);
    (void) say(1, 2, 0);
    (void) say(1, 3, 0);
    (void) say(3, 1, 0);
    until(3, 1, VB_OPEN);
    until(1, 2, VB_OPEN);
    assert_int_equal(say(3, 1, 7), VB_OK); /* who asked says the first word */
    settle();
    until(1, 3, VB_OPEN);
    assert_int_equal(fake.queue_pairs, 4);
    assert_true(vb_port_counters(process[1].port)->queued > 0);
}

/* One that fails for good makes room for the next. */
static void who_is_out_of_reach_keeps_nobody_waiting(void **state)
{
    (void) state;
    begin_with_attempts(1);
    const struct sockaddr_in nowhere = fake_address(2, 1);
    process[1].peer[2] = vb_peer_add(process[1].port, process[2].name, &nowhere, 0, &process[1]);
    meet(1, 3);
    (void) say(1, 2, 0);
    (void) say(1, 3, 0);
    assert_int_equal(under_way(&process[1]) + vb_port_counters(process[1].port)->queued, 2);
    until(1, 3, VB_OPEN);
}

/* Who was asked does not hear the first word, as siw does not at times: it is said again, so that who was asked may send
 * in its turn; but only where that happens. */
static void the_first_word_is_overlooked(void **state)
{
    (void) state;
    for (unsigned deaf = 0; deaf <= 3; ++deaf) {
        fake.is_iwarp = true;
        fake.has_srq = false;
        fake.deaf = deaf;
        for (unsigned i = 1; i <= 2; ++i) {
            vb_config_t c = config_of(&process[i]);
            c.rules.word_ns = 3000000;
            c.rules.words = 2;
            assert_true(start(i, &c, NULL));
        }
        meet(1, 2);
        assert_int_equal(say(1, 2, 0), VB_AGAIN);
        until(1, 2, VB_OPEN);
        until(2, 1, deaf <= 2 ? VB_OPEN : VB_ACCEPTING);
        const vb_conn_t *conn = vb_peer_connection(process[1].peer[2]);
        for (int i = 0; i < 2000 && 0 != conn->deadline; ++i) {
            const struct timespec t = {.tv_nsec = 50000};
            nanosleep(&t, NULL);
            settle();
        }
        assert_int_equal(vb_port_counters(process[1].port)->repeated,
                         2); /* nothing has come back */
        assert_int_equal(conn->deadline, 0);
        assert_int_equal(vb_port_counters(process[1].port)->timed_out, 0);
        if (deaf <= 1) {
            assert_int_equal(say(2, 1, 7), VB_OK);
            assert_int_equal(say(2, 1, 8), VB_OK);
            settle();
            assert_int_equal(process[1].got[0], 7);
        }
        (void) teardown(state);
        (void) setup(state);
    }
    vb_config_t c = config_of(&process[1]); /* RoCE */
    c.rules.word_ns = 3000000;
    c.rules.words = 2;
    assert_true(start(1, &c, NULL));
    c = config_of(&process[2]);
    assert_true(start(2, &c, NULL));
    meet(1, 2);
    assert_int_equal(say(1, 2, 0), VB_AGAIN);
    until(1, 2, VB_OPEN);
    assert_int_equal(vb_peer_connection(process[1].peer[2])->deadline, 0);
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
    stop_process(2);
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
    /* Refused at least once, but not so often that it is given up: on a busy machine time passes here, too, so it is asked after each
     * step. */
    for (unsigned i = 0; i < 10000 && vb_peer_connection(process[1].peer[2])->tries < 2; ++i) {
        progress(1 + i % FAKE_NODES);
    }
    fake.queue_pairs_left = -1;
    until(1, 2, VB_OPEN);
    until(2, 1, VB_OPEN);
    assert_int_equal(process[1].lost, 0);
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

/* It was asked for a connection, and dies before it has polled. */
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
    stop_process(1);
    settle();
    assert_int_equal(process[2].received, 5);
    assert_int_equal(process[2].lost, 0);
    assert_true(vb_conn_is_over(vb_peer_connection(process[2].peer[1])));
    assert_int_equal(say(2, 1, 1), VB_ENDED);
}

/* Of a process whose callbacks have nothing to work on any more. */
static void leaving_says_goodbye_and_calls_nobody(void **state)
{
    (void) state;
    begin(2);
    process_t *p = &process[1];
    open_up(1, 2);
    const unsigned done = p->done, ready = p->ready;
    unsigned sent = 1;
    assert_int_equal(send_flags(1, 2, 1, 8, VB_SIGNAL), VB_OK);
    while (VB_OK == say(1, 2, 0)) { /* until somebody would be called when there is room */
        ++sent;
    }
    for (unsigned i = 0; i < 200; ++i) {
        progress(2);
    }
    vb_port_leave(p->port, 1000000);
    assert_int_equal(p->done, done);
    assert_int_equal(p->ready, ready);
    assert_int_equal(p->lost, 0);
    (void) ibv_dereg_mr(p->mr);
    vb_port_close(p->port);
    p->port = NULL;
    settle();
    assert_int_equal(process[2].received, sent);
    assert_int_equal(process[2].lost, 0);
    assert_true(vb_conn_is_over(vb_peer_connection(process[2].peer[1])));
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
    stop_process(1);
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

/* ---- a queue pair of a shared queue that goes ---- */

/* Events of the node, and nothing taken out of its completion queue. */
static void events_only(unsigned node)
{
    for (unsigned i = 0; i < 8; ++i) {
        vb_port_events(process[node].port, 0);
    }
}

/* Node 1 has accepted 2, whose first message is in its completion queue when it closes the connection. */
static void close_with_a_message(void)
{
    meet(1, 2);
    (void) say(2, 1, 0);
    while (VB_OPEN != vb_peer_connection(process[2].peer[1])->state) {
        progress(2);
        events_only(1);
    }
    assert_int_equal(vb_peer_connection(process[1].peer[2])->state, VB_ACCEPTING);
    assert_int_equal(say(2, 1, 0x22), VB_OK);
    vb_port_lock(process[1].port);
    vb_peer_close(process[1].peer[2]);
    vb_port_unlock(process[1].port);
    assert_int_equal(vb_peer_connection(process[1].peer[2])->state, VB_CLOSED);
}

/* The next connection may get the same number: what 2 sent is not a message of 3. */
static void a_number_is_used_again(void **state)
{
    (void) state;
    fake.reuses_numbers = true;
    begin(3);
    close_with_a_message();
    events_only(1);
    meet(1, 3);
    (void) say(3, 1, 0);
    for (unsigned i = 0; i < 100 && VB_OPEN != vb_peer_connection(process[3].peer[1])->state; ++i) {
        progress(3);
        events_only(1);
    }
    assert_int_equal(vb_peer_connection(process[3].peer[1])->state, VB_OPEN);
    assert_int_equal(say(3, 1, 0x33), VB_OK);
    settle();
    assert_int_equal(process[1].received, 1);
    assert_int_equal(process[1].got[0], 0x33);
    assert_true(vb_port_counters(process[1].port)->stale > 0);
}

/* Buffers that the adapter has taken out of the queue come back before the queue pair goes. */
static void nothing_leaks_out_of_the_shared_queue(void **state)
{
    (void) state;
    fake.takes_ahead = true;
    begin(2);
    close_with_a_message();
    const unsigned pairs = fake.queue_pairs;
    for (unsigned i = 0; i < 20; ++i) {
        progress(1);
    }
    assert_int_equal(fake.queue_pairs, pairs);
    fake_finish_last();
    progress(1); /* event, and the buffer */
    progress(1);
    progress(1);
    progress(1);
    assert_int_equal(fake.queue_pairs, pairs - 1);
    assert_int_equal(fake.leaked, 0);
}

/* Not all adapters say that it was the last; what is closed goes all the same. */
static void an_adapter_that_does_not_say_which_is_the_last(void **state)
{
    (void) state;
    fake.no_last = true;
    begin(2);
    close_with_a_message();
    const unsigned pairs = fake.queue_pairs;
    for (unsigned i = 0; i < 2000 && pairs == fake.queue_pairs; ++i) {
        const struct timespec t = {.tv_nsec = 1000000};
        progress(1);
        nanosleep(&t, NULL);
    }
    assert_int_equal(fake.queue_pairs, pairs - 1);
    assert_int_equal(process[1].received, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_makes_the_connection),
        TEST(connections_have_their_class),
        TEST(both_at_once_make_one_connection),
        TEST(all_pairs_at_once),
        TEST(attempts_wait_for_their_turn),
        TEST(who_waits_for_its_turn_may_be_asked),
        TEST(who_is_out_of_reach_keeps_nobody_waiting),
        TEST(the_first_word_is_overlooked),
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
        TEST(a_killed_peer_is_told_of),
        TEST(killed_before_it_answers),
        TEST(requests_without_a_completion_fail_too),
        TEST(a_broken_connection_fails_what_is_posted),
        TEST(goodbye_is_no_error_and_comes_last),
        TEST(leaving_says_goodbye_and_calls_nobody),
        TEST(a_short_visit),
        TEST(a_device_that_fails_is_told_of),
        TEST(garbage_ends_the_connection),
        TEST(ports_that_cannot_be_had),
        TEST(no_memory_for_a_connection),
        TEST(a_number_is_used_again),
        TEST(nothing_leaks_out_of_the_shared_queue),
        TEST(an_adapter_that_does_not_say_which_is_the_last),
    };
    return cmocka_run_group_tests_name("verbs_connect", tests, NULL, NULL);
}
