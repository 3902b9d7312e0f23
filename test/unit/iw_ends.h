/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Two ends of a connection over real sockets of the loopback interface, for tests of the port. */
#ifndef IW_ENDS_H
#define IW_ENDS_H

#include "spec_unit.h"

#include "iw_agent.h"
#include "iw_memory.h"
#include "iw_port.h"

#define S UINT64_C(1000000000)

enum { RECEIVES = 64, LENGTH = 4096 };

typedef struct end {
    iw_port_t *port;
    iw_engine_t *engine;
    iw_peer_t *peer;
    iw_key_t key;
    uint8_t buffer[RECEIVES][LENGTH];
} end_t;

/* Changes the configuration of every port opened from now on; may be NULL. */
static void (*end_tune)(iw_port_config_t *config);

static inline void end_open(end_t *e, unsigned i, bool segment, uint64_t timeout)
{
    iw_port_config_t pc;
    iw_config_t c;
    iw_port_config_default(&pc);
    pc.segment = segment;
    if (NULL != end_tune) {
        end_tune(&pc);
    }
    e->port = iw_port_open(&pc);
    assert_non_null(e->port);
    assert_true(iw_port_space(e->port) >= 65536);
    assert_true(0 != iw_port_address(e->port)->v4.sin_port);
    iw_config_default(&c);
    c.identity = i;
    c.seed = i;
    c.start = iw_port_now();
    c.datagram_max = IW_DATAGRAM_MAX;
    c.datagram_min = iw_port_least(e->port);
    c.receive_space = iw_port_space(e->port);
    c.peer_timeout_ns = timeout;
    c.silent_timeout_ns = 600 * S; /* longer than any test: who dies is known to be gone */
    iw_key_make(&c.key);
    e->key = c.key;
    e->engine = iw_engine_create(&c);
    assert_non_null(e->engine);
    for (int b = 0; b < RECEIVES; ++b) {
        iw_post_receive(e->engine, e->buffer[b], LENGTH, e->buffer[b]);
    }
}

static inline end_t *ends_open(bool segment, uint64_t timeout)
{
    end_t *e = must_alloc(2 * sizeof(*e));
    for (unsigned i = 0; i < 2; ++i) {
        end_open(&e[i], i, segment, timeout);
    }
    for (unsigned i = 0; i < 2; ++i) {
        e[i].peer =
            iw_peer_add(e[i].engine, 1 - i, iw_port_address(e[1 - i].port), &e[1 - i].key, NULL);
        iw_peer_expect(e[i].peer, UINT64_C(2000000)); /* of one host */
    }
    return e;
}

static inline void ends_close(end_t *e)
{
    for (unsigned i = 0; i < 2; ++i) {
        iw_engine_destroy(e[i].engine);
        iw_port_close(e[i].port);
    }
    free(e);
}

static inline void progress(end_t *e)
{
    iw_port_progress(e[0].port, e[0].engine);
    iw_port_progress(e[1].port, e[1].engine);
}

/* Progress of an application beside its agent; 0 if the agent's thread is at it. */
static inline unsigned agent_progress(iw_agent_t *agent, end_t *e)
{
    if (!iw_agent_enter(agent)) {
        return 0;
    }
    const unsigned n = iw_port_progress(e->port, e->engine);
    iw_agent_unlock(agent);
    return n;
}

/* A bound against hanging, not a measure. */
static inline void expect(end_t *e, unsigned i, iw_what_t what, iw_completion_t *c)
{
    uint64_t until = iw_port_now() + 120 * S;
    while (0 == iw_engine_poll(e[i].engine, c, 1)) {
        assert_true(iw_port_now() < until);
        progress(e);
    }
    assert_int_equal(c->status, IW_OK);
    assert_int_equal(c->what, what);
}

/* The next completion of end 0, while end 1 does nothing. */
static inline void alone(end_t *e, iw_completion_t *c)
{
    const uint64_t until = iw_port_now() + 30 * S; /* a bound against hanging, not a measure */
    while (0 == iw_engine_poll(e[0].engine, c, 1)) {
        assert_true(iw_port_now() < until);
        iw_port_progress(e[0].port, e[0].engine);
        iw_port_wait(e[0].port, iw_port_deadline(e[0].engine), -1, S);
    }
}

static inline void transfer(end_t *e, size_t size, uint32_t rounds)
{
    uint8_t *source = must_alloc(size), *target = must_alloc(size), *back = must_alloc(size);
    uint32_t stag = iw_register(e[1].engine, target, size, IW_REMOTE_WRITE | IW_REMOTE_READ, NULL);
    for (uint32_t round = 0; round < rounds; ++round) {
        rng_t rng = {round};
        iw_completion_t c;
        for (size_t i = 0; i < size; ++i) {
            source[i] = (uint8_t) rng_next(&rng);
        }
        struct iovec piece = {source, size};
        assert_int_equal(iw_post_write(e[0].peer, &piece, 1, stag, 0, IW_QUIET, NULL), IW_OK);
        piece = (struct iovec){source, LENGTH};
        assert_int_equal(iw_post_send(e[0].peer, &piece, 1, IW_QUIET, NULL), IW_OK);
        iw_port_flush(e[0].port, e[0].engine);
        expect(e, 1, IW_RECEIVED, &c);
        assert_int_equal(c.length, LENGTH);
        assert_memory_equal(c.context, source, LENGTH);
        assert_memory_equal(target, source, size);
        assert_int_equal(iw_post_receive(e[1].engine, c.context, LENGTH, c.context), IW_OK);
        memset(back, 0, size);
        assert_int_equal(iw_post_read(e[0].peer, back, (uint32_t) size, stag, 0, 0, NULL), IW_OK);
        expect(e, 0, IW_READ, &c);
        assert_memory_equal(back, source, size);
    }
    iw_deregister(e[1].engine, stag);
    free(source);
    free(target);
    free(back);
}

#endif
