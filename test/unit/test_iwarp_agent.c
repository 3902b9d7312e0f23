/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The agent of a port (iw_agent.h): what its thread does while the application is silent, as a backup and with a processor of its own. */
#define _GNU_SOURCE /* lossy.h */
#include "spec_unit.h"

#include "iw_agent.h"
#include "iw_internal.h"
#include "iw_lossy_ends.h"
#include "iw_port_internal.h"

#include <time.h>

/* The application of one end posts, and then never calls again: its agent does everything. */
static void the_agent_answers_for_a_silent_application(void **state)
{
    (void) state;
    enum { SIZE = 3000000 };
    for (int mode = IW_AGENT_BACKUP; mode <= IW_AGENT_OFFLOAD; ++mode) {
        end_t *e = lossy_ends_open("drop=0.02");
        uint8_t *source = must_alloc(SIZE), *target = must_alloc(SIZE), *back = must_alloc(SIZE);
        iw_agent_config_t config;
        iw_completion_t c;
        memset(source, 7, SIZE);
        uint32_t stag = iw_register(e[1].engine, target, SIZE, IW_REMOTE_WRITE | IW_REMOTE_READ, NULL);
        iw_agent_config_default(&config);
        config.mode = (iw_agent_mode_t) mode;
        iw_agent_t *agent = iw_agent_create(&config, e[1].port, e[1].engine);
        assert_true(NULL != agent && iw_agent_start(agent));
        for (int i = 0; i < 10; ++i) {
            agent_progress(agent, &e[1]);
        }
        struct iovec piece = {source, SIZE}, note = {source, 100};
        iw_agent_lock(agent);
        assert_int_equal(iw_post_send(e[1].peer, &note, 1, IW_INLINE, NULL), IW_OK);
        iw_agent_flush(agent);
        iw_agent_unlock(agent);
        assert_int_equal(iw_post_write(e[0].peer, &piece, 1, stag, 0, 0, NULL), IW_OK);
        uint64_t until = iw_port_now() + 120 * S;
        int received = 0, written = 0, read = 0;
        while (received + written + read < 3) {
            assert_true(iw_port_now() < until);
            iw_port_progress(e[0].port, e[0].engine);
            if (1 == iw_engine_poll(e[0].engine, &c, 1)) {
                assert_int_equal(c.status, IW_OK);
                received += IW_RECEIVED == c.what;
                written += IW_WRITTEN == c.what;
                read += IW_READ == c.what;
                if (IW_WRITTEN == c.what) {
                    assert_int_equal(iw_post_read(e[0].peer, back, SIZE, stag, 0, 0, NULL), IW_OK);
                }
            }
        }
        assert_true(received == 1 && written == 1 && read == 1);
        assert_true(iw_agent_takeovers(agent) >= 1);
        iw_agent_destroy(agent);
        assert_memory_equal(back, source, SIZE);
        assert_memory_equal(target, source, SIZE);
        expect(e, 1, IW_SENT, &c);
        lossy_ends_close(e);
        free(source);
        free(target);
        free(back);
    }
}

/* Nor if the application does not poll again: the agent's thread sends them, and is told where it sleeps until something
 * else is due, for a second: a hundred of these are more than the time there is. */
static void the_agent_sends_what_waits(void **state)
{
    (void) state;
    for (int mode = IW_AGENT_BACKUP; mode <= IW_AGENT_OFFLOAD; ++mode) {
        end_t *e = ends_open(true, 60 * S);
        iw_agent_config_t config;
        iw_completion_t c;
        iw_agent_config_default(&config);
        config.mode = (iw_agent_mode_t) mode;
        iw_agent_t *agent = iw_agent_create(&config, e[1].port, e[1].engine);
        assert_true(NULL != agent && iw_agent_start(agent));
        agent_progress(agent, &e[1]); /* for the last time */
        const uint64_t until = iw_port_now() + 60 * S;
        for (uint32_t number = 0; number < 100; ++number) {
            struct iovec piece = {&number, sizeof(number)};
            iw_agent_lock(agent);
            assert_int_equal(iw_post_send(e[1].peer, &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
            iw_agent_gather(agent);
            iw_agent_unlock(agent);
            while (0 == iw_engine_poll(e[0].engine, &c, 1)) {
                assert_true(iw_port_now() < until);
                iw_port_progress(e[0].port, e[0].engine);
            }
            assert_int_equal(c.what, IW_RECEIVED);
            assert_memory_equal(c.context, &number, sizeof(number));
            iw_post_receive(e[0].engine, c.context, LENGTH, c.context);
            for (int i = 0; i < 4; ++i) { /* until it was acknowledged, the thread has rested, and nothing is due any more */
                const struct timespec a_while = {.tv_nsec = 4000000};
                iw_port_progress(e[0].port, e[0].engine);
                (void) nanosleep(&a_while, NULL);
            }
        }
        iw_agent_destroy(agent);
        ends_close(e);
    }
}

/* A large write: a thread with a processor of its own sends all of it, and the application's call nothing. Else the call
 * sends what it can. */
static void a_large_write_is_left_to_the_thread(void **state)
{
    (void) state;
    enum { SIZE = 300000 };
    for (int mode = IW_AGENT_BACKUP; mode <= IW_AGENT_OFFLOAD; ++mode) {
        end_t *e = ends_open(true, 60 * S);
        uint8_t *source = must_alloc(SIZE), *target = must_alloc(SIZE);
        struct iovec piece = {source, SIZE};
        iw_agent_config_t config;
        iw_completion_t c;
        memset(source, 7, SIZE);
        const uint32_t stag = iw_register(e[0].engine, target, SIZE, IW_REMOTE_WRITE, NULL);
        iw_agent_config_default(&config);
        config.mode = (iw_agent_mode_t) mode;
        config.owns = IW_AGENT_OFFLOAD == mode;
        iw_agent_t *agent = iw_agent_create(&config, e[1].port, e[1].engine);
        assert_true(NULL != agent && iw_agent_start(agent));
        iw_agent_lock(agent);
        const uint64_t before = iw_engine_counters(e[1].engine)->bytes_out;
        assert_int_equal(iw_post_write(e[1].peer, &piece, 1, stag, 0, IW_BULK, NULL), IW_OK);
        iw_agent_leave(agent);
        iw_agent_flush(agent);
        assert_int_equal(before == iw_engine_counters(e[1].engine)->bytes_out, IW_AGENT_OFFLOAD == mode);
        iw_agent_unlock(agent);
        const uint64_t until = iw_port_now() + 60 * S;
        unsigned written = 0;
        while (0 == written) {
            assert_true(iw_port_now() < until);
            iw_port_progress(e[0].port, e[0].engine);
            iw_agent_lock(agent);
            written = iw_engine_poll(e[1].engine, &c, 1);
            iw_agent_unlock(agent);
        }
        assert_true(IW_WRITTEN == c.what && IW_OK == c.status);
        iw_agent_lock(agent); /* nothing is left: the next is sent at once */
        const uint64_t then = iw_engine_counters(e[1].engine)->bytes_out;
        piece.iov_len = 100;
        assert_int_equal(iw_post_send(e[1].peer, &piece, 1, IW_INLINE, NULL), IW_OK);
        iw_agent_flush(agent);
        assert_true(iw_engine_counters(e[1].engine)->bytes_out > then);
        iw_agent_unlock(agent);
        iw_agent_destroy(agent);
        assert_memory_equal(target, source, SIZE);
        ends_close(e);
        free(source);
        free(target);
    }
}

static atomic_uint moves, arrivals;

static void moved(void *context)
{
    (void) context;
    atomic_fetch_add(&moves, 1);
}

static void has_arrived(void *context)
{
    (void) context;
    atomic_fetch_add(&arrivals, 1);
}

/* The application never calls, and is told what has come for it; the thread finds out that it has a processor, goes there, and
 * sends a large write itself. */
static void a_thread_gets_a_processor(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 60 * S);
    uint8_t data[100000] = {1};
    const uint32_t stag = iw_register(e[0].engine, data, sizeof(data), IW_REMOTE_WRITE, NULL);
    struct iovec piece = {data, 100};
    iw_agent_config_t config;
    iw_agent_config_default(&config);
    config.started = moved;
    config.arrived = has_arrived;
    iw_agent_t *agent = iw_agent_create(&config, e[1].port, e[1].engine);
    assert_true(NULL != agent && iw_agent_start(agent));
    const uint64_t until = iw_port_now() + 60 * S;
    assert_int_equal(iw_post_send(e[0].peer, &piece, 1, IW_INLINE, NULL), IW_OK);
    while (0 == atomic_load(&arrivals)) {
        assert_true(iw_port_now() < until);
        iw_port_progress(e[0].port, e[0].engine);
    }
    assert_int_equal(atomic_load(&moves), 1);
    assert_false(iw_agent_offloads(agent));
    iw_agent_lock(agent);
    iw_agent_offload(agent);
    iw_agent_unlock(agent);
    assert_true(iw_agent_offloads(agent));
    while (1 == atomic_load(&moves)) {
        assert_true(iw_port_now() < until);
    }
    iw_agent_lock(agent);
    const uint64_t before = iw_engine_counters(e[1].engine)->bytes_out;
    piece.iov_len = sizeof(data);
    assert_int_equal(iw_post_write(e[1].peer, &piece, 1, stag, 0, IW_BULK, NULL), IW_OK);
    iw_agent_leave(agent);
    iw_agent_flush(agent);
    assert_true(before == iw_engine_counters(e[1].engine)->bytes_out);
    assert_false(e[1].port->is_brief);
    iw_agent_unlock(agent);
    while (!iw_agent_enter(agent)) {} /* a caller that only polls sends little beside it */
    assert_true(e[1].port->is_brief);
    iw_agent_unlock(agent);
    iw_agent_lock(agent); /* and the next one, who may have posted something, all */
    assert_false(e[1].port->is_brief);
    iw_agent_unlock(agent);
    iw_agent_stop(
        agent); /* perhaps before it has: what is posted now is not left, and all of it goes at once */
    const uint64_t then = iw_engine_counters(e[1].engine)->packets_out;
    iw_agent_lock(agent);
    piece.iov_len = 100;
    assert_int_equal(iw_post_send(e[1].peer, &piece, 1, IW_INLINE, NULL), IW_OK);
    iw_agent_leave(agent);
    iw_agent_flush(agent);
    assert_true(iw_engine_counters(e[1].engine)->packets_out > then);
    iw_agent_unlock(agent);
    assert_true(iw_agent_enter(agent));
    assert_false(e[1].port->is_brief);
    iw_agent_unlock(agent);
    iw_agent_destroy(agent);
    ends_close(e);
}

/* However patient the agent is: told of bulk it wakes, and takes over soon. */
static void the_agent_is_impatient_for_bulk(void **state)
{
    (void) state;
    enum { SIZE = 300000 };
    end_t *e = ends_open(true, 60 * S);
    uint8_t *source = must_alloc(SIZE), *target = must_alloc(SIZE);
    iw_agent_config_t config;
    iw_completion_t c;
    struct iovec piece = {source, SIZE};
    memset(source, 7, SIZE);
    uint32_t stag = iw_register(e[1].engine, target, SIZE, IW_REMOTE_WRITE, NULL);
    iw_agent_config_default(&config);
    config.patience_ns = 3600 * S;
    iw_agent_t *agent = iw_agent_create(&config, e[1].port, e[1].engine);
    assert_true(NULL != agent && iw_agent_start(agent));
    const struct timespec a_while = {.tv_nsec = 1000000};
    for (int i = 0; i < 50; ++i) { /* the application is there, and the agent has seen that */
        agent_progress(agent, &e[1]);
        iw_agent_lock(agent);
        iw_agent_flush(agent);
        iw_agent_unlock(agent);
        (void) nanosleep(&a_while, NULL);
    }
    const uint64_t before = iw_agent_takeovers(agent);
    iw_agent_expect_bulk(agent);
    assert_int_equal(iw_post_write(e[0].peer, &piece, 1, stag, 0, 0, NULL), IW_OK);
    const uint64_t until = iw_port_now() + 60 * S;
    while (0 == iw_engine_poll(e[0].engine, &c, 1)) {
        assert_true(iw_port_now() < until);
        iw_port_progress(e[0].port, e[0].engine);
    }
    assert_true(IW_WRITTEN == c.what && IW_OK == c.status);
    assert_int_equal(iw_agent_takeovers(agent), before + 1);
    iw_agent_destroy(agent);
    assert_memory_equal(target, source, SIZE);
    ends_close(e);
    free(source);
    free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_agent_answers_for_a_silent_application),
        cmocka_unit_test(the_agent_sends_what_waits),
        cmocka_unit_test(a_large_write_is_left_to_the_thread),
        cmocka_unit_test(a_thread_gets_a_processor),
        cmocka_unit_test(the_agent_is_impatient_for_bulk),
    };
    return cmocka_run_group_tests_name("iw_agent", tests, NULL, NULL);
}
