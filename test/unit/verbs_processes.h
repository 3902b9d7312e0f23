/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Processes over adapters that are not there (fake_verbs.h), for tests of the verbs transport: each has a port, and
 * notes what it is told. */
#ifndef VERBS_PROCESSES_H
#define VERBS_PROCESSES_H

#include "spec_unit.h"

#include "fake_verbs.h"
#include "vb_internal.h"
#include "vb_port.h"
#include "vb_rx.h"

#include <time.h>

/* The shared queue's window; NULL: each link has its own. */
static inline const ibx_window_t *vb_port_window(const vb_port_t *port)
{
    return NULL == port->rx ? NULL : &port->rx->window;
}

#define SIZE   256u
#define NOBODY UINT64_C(77)

/* One process: its port, and what its callbacks noted. */
typedef struct {
    unsigned node;
    uint64_t name;
    vb_port_t *port;
    vb_peer_t *peer[FAKE_NODES + 1]; /* by node */
    unsigned done, failed, lost, ready;
    vb_status_t last;
    char why[160];
    unsigned received;
    uint8_t got[4096]; /* first byte of each message */
    bool holds;        /* does not give buffers back */
    vb_received_t held[256];
    unsigned held_n;
    _Alignas(64) char memory[65536]; /* registered: messages leave from here */
    struct ibv_mr *mr;
} process_t;

static process_t process[FAKE_NODES + 1];

static inline void on_done(void *context, vb_peer_t *peer, void *request, vb_status_t status)
{
    process_t *p = context;
    (void) peer, (void) request;
    ++p->done;
    p->failed += VB_OK != status;
    p->last = status;
}
static inline void on_ready(void *context, vb_peer_t *peer)
{
    (void) peer;
    ++((process_t *) context)->ready;
}
static inline void on_down(void *context, vb_peer_t *peer, const char *why)
{
    process_t *p = context;
    (void) peer;
    ++p->lost;
    snprintf(p->why, sizeof(p->why), "%s", why);
}

static inline vb_config_t config_of(process_t *p)
{
    vb_config_t c;
    vb_config_default(&c);
    c.address = fake_address(p->node, 0);
    c.name = p->name;
    c.key = 1000 + p->node;
    c.buffer_size = SIZE;
    c.window_initial = 8;
    c.window_max = 64;
    c.link_window_max = 64;
    c.window_quiet_ns = 0;
    c.rules = (vb_conn_rules_t){.attempt_ns = 20000000, .backoff_ns = 1000000, .tries = 3};
    c.thread = false;
    c.context = p;
    c.done = on_done;
    c.ready = on_ready;
    c.down = on_down;
    return c;
}

static inline bool start(unsigned node, const vb_config_t *config, char *why)
{
    process_t *p = &process[node];
    char buffer[256];
    p->port = vb_port_open(config, NULL == why ? buffer : why, 256);
    if (NULL != p->port) {
        p->mr = ibv_reg_mr(vb_port_pd(p->port), p->memory, sizeof(p->memory),
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
                               | IBV_ACCESS_REMOTE_ATOMIC);
    }
    return NULL != p->port;
}

static inline void stop_process(unsigned node)
{
    process_t *p = &process[node];
    if (NULL != p->port) {
        vb_port_quiesce(p->port, 1000000);
        (void) ibv_dereg_mr(p->mr);
        vb_port_close(p->port);
        p->port = NULL;
    }
}

/* The adapters are iWARP: a message without a buffer ends the stream, and there are no atomics. */
static inline void iwarp(void)
{
    fake.is_iwarp = true;
    fake.has_atomics = false;
}

/* The node's adapter. */
static inline struct ibv_context *context_of(unsigned node)
{
    return vb_port_pd(process[node].port)->context;
}

/* Names against the order of the nodes, so that the tie rule is not the order of the tests. */
static inline int setup(void **state)
{
    (void) state;
    fake_reset();
    memset(process, 0, sizeof(process));
    for (unsigned i = 1; i <= FAKE_NODES; ++i) {
        process[i].node = i;
        process[i].name = 100 - i;
    }
    return 0;
}

/* Nothing is left, and nothing has overflowed. */
static inline int teardown(void **state)
{
    (void) state;
    for (unsigned i = 1; i <= FAKE_NODES; ++i) {
        stop_process(i);
    }
    assert_int_equal(fake.overflows, 0);
    assert_int_equal(fake.not_acknowledged, 0);
    assert_int_equal(fake.torn, 0);
    assert_int_equal(fake.memory_regions, 0);
    assert_int_equal(fake.queue_pairs, 0);
    assert_int_equal(fake.ids, 0);
    return 0;
}

static inline void begin(unsigned n)
{
    for (unsigned i = 1; i <= n; ++i) {
        const vb_config_t c = config_of(&process[i]);
        assert_true(start(i, &c, NULL));
    }
}

/* Each knows how to reach the other. */
static inline void meet(unsigned a, unsigned b)
{
    const unsigned both[2] = {a, b};
    for (int i = 0; i < 2; ++i) {
        process_t *p = &process[both[i]], *q = &process[both[1 - i]];
        const struct sockaddr_in address = fake_address(q->node, vb_port_number(q->port));
        vb_port_lock(p->port);
        p->peer[q->node] = vb_peer_add(p->port, q->name, &address, 1000 + q->node, p);
        vb_port_unlock(p->port);
    }
}

static inline void progress(unsigned node)
{
    process_t *p = &process[node];
    vb_received_t r[16];
    int events;
    if (NULL == p->port) {
        return;
    }
    vb_port_events(p->port, 0);
    vb_port_lock(p->port);
    const int n = vb_port_poll(p->port, r, 16, &events);
    for (int i = 0; i < n; ++i) {
        assert_true(p->received < sizeof(p->got));
        p->got[p->received++] = r[i].length > 0 ? *(uint8_t *) r[i].data : 0;
        for (uint32_t byte = 1; byte < r[i].length; ++byte) {
            assert_int_equal(((uint8_t *) r[i].data)[byte], *(uint8_t *) r[i].data);
        }
        if (p->holds) {
            p->held[p->held_n++] = r[i];
        } else {
            vb_port_return(p->port, &r[i], 1);
        }
    }
    vb_port_unlock(p->port);
}

static inline void settle(void)
{
    for (unsigned i = 0; i < 40; ++i) {
        for (unsigned node = 1; node <= FAKE_NODES; ++node) {
            progress(node);
        }
    }
}

/* Until the peer is in this state; time passes. */
static inline void until(unsigned node, unsigned other, vb_conn_state_t state)
{
    for (unsigned i = 0; i < 2000 && state != vb_peer_connection(process[node].peer[other])->state;
         ++i) {
        struct timespec t = {.tv_nsec = 50000};
        settle();
        nanosleep(&t, NULL);
    }
    assert_string_equal(vb_conn_state_name(vb_peer_connection(process[node].peer[other])->state),
                        vb_conn_state_name(state));
}

static inline vb_status_t send_flags(unsigned from, unsigned to, uint8_t first, uint32_t size,
                                     unsigned flags)
{
    process_t *p = &process[from];
    static unsigned slot;
    char *at = p->memory + (slot++ % 64) * SIZE;
    struct ibv_sge piece = {
        .addr = (uintptr_t) at, .length = (uint32_t) sizeof(vb_hdr_t) + size, .lkey = p->mr->lkey};
    memset(at, first, SIZE);
    vb_port_lock(p->port);
    const vb_status_t status = vb_post_send(p->peer[to], (vb_hdr_t *) at, 9, &piece, 1, flags,
                                            flags & VB_SIGNAL ? p : NULL);
    vb_port_unlock(p->port);
    return status;
}
static inline vb_status_t say(unsigned from, unsigned to, uint8_t first)
{
    return send_flags(from, to, first, 64, 0);
}

static inline void open_up(unsigned a, unsigned b)
{
    meet(a, b);
    assert_int_equal(say(a, b, 0), VB_AGAIN); /* begins to connect */
    until(a, b, VB_OPEN);
    until(b, a, VB_OPEN);
}

#endif
