/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Processes in the scalable mode of a port (vb_hybrid.h), over adapters that are not there: each has what it wants to send to
 * the others, and time is virtual. */
#ifndef HYBRID_WORLD_H
#define HYBRID_WORLD_H

#include "spec_unit.h"

#include <poll.h>
#include <time.h>

#include "fake_verbs.h"
#include "vb_dgram.h"
#include "vb_port.h"

#define MOST   65u   /* processes */
#define SIZE   2112u /* bytes of a message, header included: three datagrams */
#define NEVER  UINT32_MAX
#define MEMORY 16384u

/* One process. Message k to a peer has k in its first bytes; what it has to send waits as in the BTL. */
typedef struct {
    unsigned node, index;
    uint64_t name;
    vb_config_t config;
    vb_port_t *port;
    vb_peer_t *peer[MOST];
    uint32_t wanted[MOST], sent[MOST], got[MOST];
    uint32_t length; /* of messages */
    uint32_t most;   /* connections there ever were */
    unsigned done, failed, lost, strangers;
    uint64_t stranger;
    uint8_t said[4096]; /* by it, first */
    size_t said_length;
    bool holds; /* takes nothing */
    char why[160];
    char *memory;
    struct ibv_mr *mr;
    uint32_t stag;
    iw_uses_t uses; /* of the memory */
} process_t;

static process_t process[MOST];
static unsigned processes;
/* If set, asked for each message that arrives. */
static void (*on_message)(process_t *to, process_t *from, uint32_t number);

static inline void on_done(void *context, vb_peer_t *peer, void *request, vb_status_t status)
{
    process_t *p = context;
    (void) peer, (void) request;
    ++p->done;
    p->failed += VB_OK != status;
}
static inline void on_ready(void *context, vb_peer_t *peer)
{
    (void) context, (void) peer;
}
static inline void on_down(void *context, vb_peer_t *peer, const char *why)
{
    process_t *p = context;
    (void) peer;
    ++p->lost;
    snprintf(p->why, sizeof(p->why), "%s", why);
}
static inline void on_stranger(void *context, uint64_t name, const uint8_t *data, size_t length)
{
    process_t *p = context;
    ++p->strangers;
    p->stranger = name;
    assert_true(length <= sizeof(p->said));
    if (NULL != data && 0 == p->said_length) {
        memcpy(p->said, data, length);
        p->said_length = length;
    }
}

static inline process_t *add(uint32_t after, uint32_t most)
{
    process_t *p = &process[processes];
    p->index = processes++;
    p->node = 1 + p->index % FAKE_NODES;
    p->name = 1000 - p->index;
    p->length = 64;
    vb_config_t *c = &p->config;
    vb_config_default(c);
    c->address = fake_address(p->node, 0);
    c->name = p->name;
    c->key = 5000 + p->index;
    c->buffer_size = SIZE;
    c->window_initial = 4;
    c->window_max = 256;
    c->window_quiet_ns = 0;
    c->rules = (vb_conn_rules_t){.attempt_ns = 20000000, .backoff_ns = 1000000, .tries = 3};
    c->thread = false;
    c->context = p;
    c->done = on_done;
    c->ready = on_ready;
    c->down = on_down;
    c->stranger = on_stranger;
    c->datagram.after = after;
    c->datagram.max_connections = most;
    c->datagram.qkey = 77 + p->index;
    c->datagram.seed = 99 + p->index;
    c->datagram.start = 1 + p->index;
    memset(c->datagram.key, 1 + (int) p->index, sizeof(c->datagram.key));
    return p;
}

static inline void start(process_t *p)
{
    char why[256];
    p->port = vb_port_open(&p->config, why, sizeof(why));
    assert_non_null(p->port);
    p->memory = must_alloc(MEMORY);
    p->mr = ibv_reg_mr(vb_port_pd(p->port), p->memory, MEMORY,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    vb_port_lock(p->port);
    iw_uses_init(&p->uses, 1);
    p->stag = vb_port_expose(p->port, p->memory, MEMORY, true, true, &p->uses);
    vb_port_unlock(p->port);
}

static inline void stop_process(process_t *p)
{
    if (NULL != p->port) {
        (void) vb_port_trylock(p->port); /* a test that failed may hold it */
        vb_port_unlock(p->port);
        vb_port_quiesce(p->port, 20000000);
        (void) ibv_dereg_mr(p->mr);
        vb_port_close(p->port);
        p->port = NULL;
        free(p->memory);
    }
}

static inline void meet(process_t *p, process_t *q, bool by_datagrams)
{
    const struct sockaddr_in address = fake_address(q->node, vb_port_number(q->port));
    vb_dgram_address_t there;
    uint8_t key[16];
    vb_port_lock(p->port);
    p->peer[q->index] =
        vb_peer_add(p->port, q->name, &address, 5000 + q->index, &p->peer[q->index]);
    if (by_datagrams && vb_port_datagrams(q->port, &there, key)) {
        (void) vb_peer_add_datagrams(p->peer[q->index], &there, key);
    }
    vb_port_unlock(p->port);
}

static inline process_t *process_of(uint64_t name)
{
    return &process[1000 - name];
}

static inline int setup(void **state)
{
    (void) state;
    fake_reset();
    memset(process, 0, sizeof(process));
    processes = 0;
    on_message = NULL;
    return 0;
}

static inline int teardown(void **state)
{
    (void) state;
    for (unsigned i = 0; i < processes; ++i) {
        stop_process(&process[i]);
    }
    assert_int_equal(fake.overflows, 0);
    assert_int_equal(fake.not_acknowledged, 0);
    assert_int_equal(fake.too_long, 0);
    assert_int_equal(fake.memory_regions, 0);
    assert_int_equal(fake.queue_pairs, 0);
    assert_int_equal(fake.ids, 0);
    assert_int_equal(fake.address_handles, 0);
    return 0;
}

static inline void begin(unsigned n, uint32_t after, uint32_t most)
{
    for (unsigned i = 0; i < n; ++i) {
        start(add(after, most));
    }
    for (unsigned a = 0; a < n; ++a) {
        for (unsigned b = 0; b < n; ++b) {
            if (a != b && n <= 8) {
                meet(&process[a], &process[b], true);
            }
        }
    }
}

static inline bool post(process_t *p, unsigned to)
{
    union {
        vb_hdr_t hdr;
        char bytes[IW_INLINE_MAX];
    } packet;
    /* Long ones leave from registered memory, a place for each number. */
    const bool is_long = p->length > 200;
    const uint32_t size = (uint32_t) sizeof(vb_hdr_t) + p->length;
    char *at = is_long ? p->memory + 4096 + (p->sent[to] % 4) * 2304 : packet.bytes;
    memcpy(at + sizeof(vb_hdr_t), &p->sent[to], sizeof(uint32_t));
    if (is_long) {
        memcpy(at + size - sizeof(uint32_t), &p->sent[to], sizeof(uint32_t));
    }
    struct ibv_sge piece = {.addr = (uintptr_t) at, .length = size, .lkey = p->mr->lkey};
    if (!is_long && size > vb_inline_max(p->peer[to])) {
        (void) vb_post_send(p->peer[to], (vb_hdr_t *) at, 9, &piece, 1, 0, NULL); /* begins */
        return false;
    }
    const vb_status_t status = vb_post_send(p->peer[to], (vb_hdr_t *) at, 9, &piece, 1,
                                            is_long ? VB_SIGNAL : VB_INLINE, is_long ? p : NULL);
    assert_true(VB_OK == status || VB_AGAIN == status);
    return VB_OK == status;
}

static inline void progress(process_t *p)
{
    vb_received_t r[16];
    vb_datagram_use_t use;
    int events;
    if (NULL == p->port || p->holds) {
        return;
    }
    vb_port_events(p->port, 0);
    vb_port_lock(p->port);
    const int n = vb_port_poll(p->port, r, 16, &events);
    for (int i = 0; i < n; ++i) {
        uint32_t number, end;
        process_t *from = process_of(vb_peer_name(r[i].peer));
        memcpy(&number, r[i].data, sizeof(number));
        memcpy(&end, (char *) r[i].data + r[i].length - sizeof(end), sizeof(end));
        assert_int_equal(r[i].length, from->length);
        assert_int_equal(number, p->got[from->index]); /* in order, once, nothing missing */
        assert_true(from->length <= 200 || end == number);
        ++p->got[from->index];
        if (NULL != on_message) {
            on_message(p, from, number);
        }
        vb_port_return(p->port, &r[i], 1);
    }
    for (unsigned to = 0; to < processes; ++to) {
        /* At most three long ones under way: their places are used again. */
        while (p->sent[to] < p->wanted[to] && !vb_peer_is_over(p->peer[to])
               && (p->length <= 200 || p->sent[to] < process[to].got[p->index] + 3)
               && post(p, to)) {
            ++p->sent[to];
        }
    }
    if (vb_port_datagram_use(p->port, &use)) {
        p->most = use.connections > p->most ? use.connections : p->most;
    }
    vb_port_unlock(p->port);
}

static inline bool is_done(void)
{
    for (unsigned a = 0; a < processes; ++a) {
        for (unsigned b = 0; b < processes; ++b) {
            if (process[a].wanted[b] > process[b].got[a]) {
                return false;
            }
        }
    }
    return true;
}

/* Until all that is wanted has arrived. */
static inline void run(void)
{
    const uint64_t end = spec_now() + UINT64_C(60000000000);
    while (!is_done()) {
        for (unsigned i = 0; i < processes; ++i) {
            progress(&process[i]);
        }
        assert_true(spec_now() < end);
    }
}

/* So long, and at least so many rounds, on however busy a machine. */
static inline void settle(unsigned ms)
{
    const uint64_t end = spec_now() + ms * UINT64_C(1000000);
    for (unsigned round = 0; round < 50 || spec_now() < end; ++round) {
        for (unsigned i = 0; i < processes; ++i) {
            progress(&process[i]);
        }
    }
}

static inline void want(unsigned from, unsigned to, uint32_t more)
{
    process[from].wanted[to] += more;
}

static inline vb_switch_state_t way(unsigned from, unsigned to)
{
    return vb_peer_switch(process[from].peer[to])->state;
}

static inline void until_way(unsigned from, unsigned to, vb_switch_state_t state)
{
    const uint64_t end = spec_now() + UINT64_C(60000000000);
    while (state != way(from, to) && spec_now() < end) {
        settle(1);
    }
    assert_string_equal(vb_switch_state_name(way(from, to)), vb_switch_state_name(state));
}

static inline void change_over(unsigned lost, uint32_t after, unsigned seed)
{
    fake.lost = lost, fake.twice = lost, fake.late = 2 * lost, fake.seed = seed;
    begin(2, after, 8);
    want(0, 1, 600);
    want(1, 0, 400);
    run();
    for (unsigned i = 0; i < 2; ++i) {
        until_way(i, 1 - i, VB_SWITCH_CONNECTED);
        assert_int_equal(vb_port_counters(process[i].port)->switched, 1);
        assert_int_equal(vb_port_counters(process[i].port)->bad_messages, 0);
    }
    want(0, 1, 50);
    want(1, 0, 50);
    run();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
