/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Peers of an engine (iw_engine.h): those that die are told of in time, those that are only silent, stopped, or have
 * another clock are not given up; who comes back, who was never added, and what each costs. */
#include "iw_exchange.h"
#include "iw_internal.h"

static char told[512];

static void remember(void *context, const iw_peer_t *peer, const char *from, const char *to, iw_status_t why)
{
    const size_t length = strlen(told);
    (void) context;
    snprintf(told + length, sizeof(told) - length, "%u:%s>%s(%s) ", (unsigned) iw_peer_identity(peer), from, to,
             IW_OK == why ? "" : iw_status_name(why));
}

static void remember_changes(iw_config_t *c)
{
    c->trace = remember;
}

/* Each change of a connection's state is told, with the reason of its end. */
static void changes_of_state_are_told(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[8];
    iw_completion_t c;
    char expected[256];
    told[0] = '\0';
    link_tune = remember_changes;
    pair_init(&t, NULL, 10);
    link_tune = NULL;
    post_one(&t.link, 1, buffer, 8);
    assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    expect(&t.link, 0, IW_SENT, IW_OK, &c);
    assert_string_equal(told, "101:idle>active() 100:idle>active() ");
    told[0] = '\0';
    iw_peer_remove(t.a);
    expect(&t.link, 1, IW_PEER_DOWN, IW_CLOSED, &c);
    snprintf(expected, sizeof(expected), "101:active>closing() 100:active>down(%s) ", iw_status_name(IW_CLOSED));
    assert_string_equal(told, expected);
    link_fini(&t.link);
}

static void a_dead_peer_becomes_an_error_in_time(void **state)
{
    (void) state;
    for (int fenced = 0; fenced < 2; ++fenced) {
        pair_t t;
        uint8_t buffer[8], *memory = must_alloc(1 << 20), *sink = must_alloc(1 << 20);
        iw_completion_t c;
        pair_init(&t, NULL, 10);
        post_one(&t.link, 1, buffer, 8);
        uint32_t stag = iw_register(t.link.engine[1], memory, 1 << 20, IW_REMOTE_READ, NULL);
        assert_int_equal(send_bytes(t.a, "hello", 6, IW_INLINE), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        expect(&t.link, 0, IW_SENT, IW_OK, &c);
        if (fenced) {
            /* Only an answer is due: the request itself has been acknowledged. */
            assert_int_equal(iw_post_read(t.a, sink, 1 << 20, stag, 0, 0, NULL), IW_OK);
            while (0 == iw_engine_counters(t.link.engine[0])->segments_in) {
                assert_true(link_step(&t.link, t.link.now + S));
            }
        } else {
            assert_int_equal(send_bytes(t.a, "lost", 5, IW_INLINE), IW_OK);
        }
        uint64_t died = t.link.now;
        t.link.cut[1] = true;
        assert_true(wait_completion(&t.link, 0, &c, 60 * S));
        assert_int_equal(c.status, IW_DEAD);
        expect(&t.link, 0, IW_PEER_DOWN, IW_DEAD, &c);
        assert_int_equal(iw_peer_identity(c.peer), 101);
        /* Ten seconds by the configuration; a datagram under way at the cut may have been heard. */
        assert_true(t.link.now >= died + 10 * S - MS && t.link.now < died + 11 * S);
        assert_int_equal(send_bytes(t.a, "x", 1, 0), IW_DEAD);
        assert_int_equal(iw_engine_deadline(t.link.engine[0]), UINT64_MAX);
        link_fini(&t.link);
        free(memory);
        free(sink);
    }
}

/* Whatever a request was waiting for when its peer died - to be cut, an acknowledgement, an answer -
 * it ends with an error, once; what is posted later is refused at once. */
static void everything_for_a_dead_peer_ends_once(void **state)
{
    (void) state;
    enum { REQUESTS = 90, SIZE = 200000 };
    pair_t t;
    iw_completion_t c;
    uint8_t *memory = must_alloc(SIZE), *sink = must_alloc(SIZE);
    unsigned ended[REQUESTS] = {0}, failed = 0, down = 0;
    pair_init(&t, NULL, 31);
    uint32_t stag = iw_register(t.link.engine[1], memory, SIZE, IW_REMOTE_READ | IW_REMOTE_WRITE, NULL);
    for (unsigned i = 0; i < REQUESTS; ++i) {
        struct iovec piece = {memory, i % 2 ? SIZE : 100};
        void *context = &ended[i];
        iw_status_t status =
            0 == i % 3   ? iw_post_send(t.a, &piece, 1, 0, context)
            : 1 == i % 3 ? iw_post_write(t.a, &piece, 1, stag, 0, 0, context)
                         : iw_post_read(t.a, sink, (uint32_t) piece.iov_len, stag, 0, 0, context);
        assert_int_equal(status, IW_OK);
    }
    for (int i = 0; i < 40; ++i) {
        link_step(&t.link, t.link.now + S);
    }
    t.link.cut[1] = true;
    while (wait_completion(&t.link, 0, &c, 60 * S)) {
        if (IW_PEER_DOWN == c.what) {
            assert_int_equal(c.status, IW_DEAD);
            ++down;
        } else {
            ++*(unsigned *) c.context;
            failed += IW_DEAD == c.status;
        }
    }
    assert_int_equal(down, 1);
    assert_true(failed > REQUESTS / 2);
    for (unsigned i = 0; i < REQUESTS; ++i) {
        assert_int_equal(ended[i], 1);
    }
    struct iovec piece = {memory, 1};
    assert_int_equal(iw_post_send(t.a, &piece, 1, 0, NULL), IW_DEAD);
    assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, 0, NULL), IW_DEAD);
    assert_int_equal(iw_post_read(t.a, sink, 1, stag, 0, 0, NULL), IW_DEAD);
    link_fini(&t.link);
    free(memory);
    free(sink);
}

/* ---- a peer that is stopped ---- */

static void patient(iw_config_t *c)
{
    c->silent_timeout_ns = 1000 * S;
}

/* Connected, and `length` bytes that the peer does not acknowledge. */
static void silence_begins(pair_t *t, uint8_t *data, uint8_t *buffer, uint32_t length)
{
    iw_completion_t c;
    link_tune = patient;
    pair_init(t, NULL, 50);
    link_tune = NULL;
    post_one(&t->link, 1, buffer, length);
    assert_int_equal(send_bytes(t->a, "hi", 3, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t->link, 1, IW_RECEIVED, IW_OK, &c);
    link_run(&t->link, t->link.now + 10 * MS);
    post_one(&t->link, 1, buffer, length);
    fill(data, 1, length);
    t->link.cut[1] = true;
    assert_int_equal(send_bytes(t->a, data, length, 0), IW_OK);
}

/* Its host answers for it - there is no error - and it goes on: it was told once, and everything arrives; again and again. */
static void a_stopped_peer_stays_connected(void **state)
{
    (void) state;
    enum { LENGTH = 50000, TIMES = 3 };
    pair_t t;
    uint8_t *data = must_alloc(LENGTH), *buffer = must_alloc(LENGTH);
    iw_completion_t c;
    silence_begins(&t, data, buffer, LENGTH);
    for (unsigned time = 1; time <= TIMES; ++time) {
        const uint64_t began = t.link.now;
        expect(&t.link, 0, IW_PEER_SILENT, IW_OK, &c);
        assert_int_equal(iw_peer_identity(c.peer), 101);
        assert_in_range(c.length, 9, 11); /* seconds */
        assert_true(t.link.now - began >= 10 * S - MS && t.link.now - began < 11 * S);
        const uint64_t sent = t.link.sent;
        assert_false(wait_completion(&t.link, 0, &c, 900 * S));
        assert_in_range(t.link.sent - sent, 90, 9000); /* it is asked, and not flooded */
        t.link.cut[1] = false;
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        assert_int_equal(c.length, LENGTH);
        assert_true(filled(buffer, 1, LENGTH));
        expect(&t.link, 0, IW_SENT, IW_OK, &c);
        assert_int_equal(iw_engine_counters(t.link.engine[0])->peers_silent, time);
        link_run(&t.link, t.link.now + 10 * MS);
        post_one(&t.link, 1, buffer, LENGTH);
        t.link.cut[1] = true;
        assert_int_equal(send_bytes(t.a, data, LENGTH, 0), IW_OK);
    }
    assert_int_equal(iw_engine_counters(t.link.engine[0])->peers_down, 0);
    link_fini(&t.link);
    free(data);
    free(buffer);
}

/* One that has never answered is told of sooner, as a firewall may stand between; it is waited for as long as any other, and
 * given up in the usual time if the network says that nobody is there. */
static void a_peer_that_never_answered_is_told_of_soon(void **state)
{
    (void) state;
    for (unsigned gone = 0; gone < 2; ++gone) {
        pair_t t;
        iw_completion_t c;
        link_tune = patient;
        pair_init(&t, NULL, 51);
        link_tune = NULL;
        const uint64_t began = t.link.now, least = 10 * S / IW_FIRST_SHARE;
        t.link.cut[1] = true;
        t.link.gone[1] = gone;
        assert_int_equal(send_bytes(t.a, "hi", 3, IW_INLINE | IW_QUIET), IW_OK);
        if (!gone) {
            expect(&t.link, 0, IW_PEER_SILENT, IW_OK, &c);
            assert_in_range(t.link.now - began, least, 3 * least);
            assert_int_equal(c.length, (t.link.now - began) / S);
            assert_int_equal(iw_peer_contact(t.a), IW_CONTACT_NONE);
            assert_false(wait_completion(&t.link, 0, &c, 900 * S));
        }
        assert_true(wait_completion(&t.link, 0, &c, 2000 * S));
        assert_int_equal(c.status, IW_DEAD);
        expect(&t.link, 0, IW_PEER_DOWN, IW_DEAD, &c);
        assert_in_range(t.link.now - began, (gone ? 10 : 1000) * S, (gone ? 13 : 1001) * S);
        assert_int_equal(iw_peer_contact(t.a), IW_CONTACT_ENDED);
        link_fini(&t.link);
    }
}

/* Only so long. */
static void a_silent_peer_is_dead_in_the_end(void **state)
{
    (void) state;
    pair_t t;
    uint8_t data[8], buffer[8];
    iw_completion_t c;
    silence_begins(&t, data, buffer, 8);
    const uint64_t began = t.link.now;
    expect(&t.link, 0, IW_PEER_SILENT, IW_OK, &c);
    assert_true(wait_completion(&t.link, 0, &c, 2000 * S));
    assert_int_equal(c.status, IW_DEAD);
    expect(&t.link, 0, IW_PEER_DOWN, IW_DEAD, &c);
    assert_true(t.link.now - began >= 1000 * S - MS && t.link.now - began < 1001 * S);
    link_fini(&t.link);
}

/* The network says that nobody is there: at the first time that is waited for, or at once after it. */
static void a_peer_that_is_gone_is_dead_at_once(void **state)
{
    (void) state;
    for (unsigned late = 0; late < 2; ++late) {
        pair_t t;
        uint8_t data[8], buffer[8];
        iw_completion_t c;
        silence_begins(&t, data, buffer, 8);
        if (late) {
            expect(&t.link, 0, IW_PEER_SILENT, IW_OK, &c);
            link_run(&t.link, t.link.now + 100 * S);
        }
        const uint64_t began = t.link.now;
        t.link.gone[1] = true;
        assert_true(wait_completion(&t.link, 0, &c, 2000 * S));
        assert_int_equal(c.status, IW_DEAD);
        assert_true(t.link.now - began < (late ? 2 : 11) * S);
        assert_true(late || t.link.now - began >= 10 * S - MS);
        link_fini(&t.link);
    }
}

/* What the network says - whoever speaks in its name - counts for nobody who answers, nor once it says it no more. */
static void the_network_may_be_wrong(void **state)
{
    (void) state;
    pair_t t;
    uint8_t data[8], buffer[8];
    iw_completion_t c;
    iw_address_t address;
    link_address(1, &address);
    silence_begins(&t, data, buffer, 8);
    iw_engine_unreachable(t.link.engine[0], &address); /* it was heard just before */
    t.link.gone[1] = true;
    link_run(&t.link, t.link.now + 5 * S);
    assert_true(t.a->alive.unreachable);
    t.link.gone[1] = false; /* the way is there again, the peer stopped all the same */
    expect(&t.link, 0, IW_PEER_SILENT, IW_OK, &c);
    t.link.cut[1] = false;
    expect(&t.link, 0, IW_SENT, IW_OK, &c);
    assert_int_equal(t.a->alive.quiet, IW_HEARD);
    iw_engine_unreachable(t.link.engine[0], &address);
    assert_false(t.a->alive.unreachable);
    link_fini(&t.link);
}

/* Time in which this process did not run is not held against the peer. */
static void being_stopped_kills_nobody(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[8];
    iw_completion_t c;
    pair_init(&t, NULL, 22);
    post_one(&t.link, 1, buffer, 8);
    assert_int_equal(send_bytes(t.a, "x", 1, IW_INLINE), IW_OK);
    link_drain(&t.link);
    t.link.now += 100 * S;
    iw_engine_timers(t.link.engine[0], t.link.now);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    expect(&t.link, 0, IW_SENT, IW_OK, &c);
    link_fini(&t.link);
}

/* The clock of either end goes forward by an hour between two calls (a virtual machine was asleep, a timer call came
 * late), or back by some milliseconds or an hour, again and again during traffic over a network with losses. */
static rng_t jump_rng;
static unsigned jumps;

static void jump_the_clock(link_t *l)
{
    if (0 == rng_below(&jump_rng, 100)) {
        int64_t *skew = &l->skew[rng_below(&jump_rng, 2)];
        const int64_t hour = 3600 * (int64_t) S;
        switch (rng_below(&jump_rng, 3)) {
        case 0:
            *skew -= 1 + rng_below(&jump_rng, 50 * MS);
            break;
        case 1:
            *skew -= *skew >= 2 * hour ? hour : 0;
            break;
        default:
            *skew += hour;
            break;
        }
        ++jumps;
    }
}

static void a_clock_that_jumps_kills_nobody(void **state)
{
    (void) state;
    const iw_fault_rates_t rates = {.drop = 20000, .duplicate = 10000, .reorder = 20000};
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        link_t l;
        jump_rng = (rng_t){seed};
        disturb = jump_the_clock;
        run_exchange(seed % 2 ? &rates : NULL, seed, 300, 300 * S, &l);
        disturb = NULL;
        link_fini(&l);
    }
    assert_true(jumps > 50);
}

/* Jumps while nothing but an answer is awaited: a process that does not call MPI for a while. */
static void a_clock_that_jumps_while_waiting(void **state)
{
    (void) state;
    for (unsigned who = 0; who < 2; ++who) {
        for (int back = 0; back < 2; ++back) {
            pair_t t;
            uint8_t buffer[8];
            iw_completion_t c;
            pair_init(&t, NULL, 23 + who);
            assert_int_equal(send_bytes(t.a, "x", 1, IW_INLINE), IW_OK);
            link_run(&t.link,
                     t.link.now + 3 * S); /* nobody has posted a buffer: asked again and again */
            assert_true(iw_engine_counters(t.link.engine[0])->rnr_in > 0);
            for (int n = 0; n < 20; ++n) {
                t.link.skew[who] += back ? -(int64_t) (40 * MS) : (int64_t) (3600 * S);
                link_run(&t.link, t.link.now + 200 * MS);
            }
            post_one(&t.link, 1, buffer, 8);
            expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
            expect(&t.link, 0, IW_SENT, IW_OK, &c);
            link_fini(&t.link);
        }
    }
}

/* Or while a peer has been silent for half of its time, and was asked often enough. */
static void a_clock_that_jumps_during_a_silence(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[8];
    iw_completion_t c;
    pair_init(&t, NULL, 29);
    t.link.cut[1] = true;
    assert_int_equal(send_bytes(t.a, "x", 1, IW_INLINE), IW_OK);
    link_run(&t.link, t.link.now + 5 * S);
    assert_true(t.a->alive.asked >= IW_DEAD_ASKED);
    t.link.skew[0] += 3600 * (int64_t) S;
    link_run(&t.link, t.link.now + 200 * MS);
    t.link.cut[1] = false;
    post_one(&t.link, 1, buffer, 8);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    expect(&t.link, 0, IW_SENT, IW_OK, &c);
    link_fini(&t.link);
}

static void nobody_there_is_dead_too(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    pair_init(&t, NULL, 11);
    t.link.cut[1] = true;
    assert_int_equal(send_bytes(t.a, "x", 1, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t.link, 0, IW_SENT, IW_DEAD, &c);
    expect(&t.link, 0, IW_PEER_DOWN, IW_DEAD, &c);
    /* Backed off: a peer that is merely slow to start is not flooded. */
    assert_true(t.link.sent < 100);
    link_fini(&t.link);
}

/* A long silence that ends in time costs nothing but time. */
static void a_peer_that_comes_back(void **state)
{
    (void) state;
    pair_t t;
    uint8_t *data = must_alloc(100000), *buffer = must_alloc(100000);
    iw_completion_t c;
    pair_init(&t, NULL, 12);
    fill(data, 1, 100000);
    for (int i = 0; i < 3; ++i) {
        post_one(&t.link, 1, buffer, 100000);
        assert_int_equal(send_bytes(t.a, data, 100000, IW_QUIET), IW_OK);
        for (int k = 0; k < 30; ++k) {
            link_step(&t.link, t.link.now + S);
        }
        t.link.cut[1] = true;
        link_run(&t.link, t.link.now + 9 * S);
        t.link.cut[1] = false;
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        assert_true(filled(buffer, 1, 100000));
    }
    link_fini(&t.link);
    free(data);
    free(buffer);
}

static void a_restarted_process_is_another_one(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[8][8];
    iw_completion_t c;
    pair_init(&t, NULL, 17);
    for (int i = 0; i < 8; ++i) {
        post_one(&t.link, 1, buffer[i], 8);
    }
    assert_int_equal(send_bytes(t.a, "first", 6, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    link_run(&t.link, t.link.now + 10 * MS);
    /* It dies without a word and starts again, later by its clock, with the same identity. */
    iw_engine_destroy(t.link.engine[0]);
    iw_config_t config;
    link_config(0, &config);
    config.start = 2000;
    t.link.engine[0] = iw_engine_create(&config);
    t.a = link_peer(&t.link, 0, 1, NULL);
    assert_int_equal(send_bytes(t.a, "second", 7, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t.link, 1, IW_PEER_DOWN, IW_RESTARTED, &c);
    assert_false(wait_completion(&t.link, 1, &c, S / 10)); /* once, however often it says hello */
    /* Told anew, the process can talk to it. */
    iw_peer_remove(t.b);
    t.b = link_peer(&t.link, 1, 0, NULL);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    assert_memory_equal(c.context, "second", 7);
    link_fini(&t.link);
}

/* Datagrams of a connection that another has replaced, to which chance gives the same number: what is in them would have
 * been next. */
typedef struct tape {
    uint8_t data[8][256];
    size_t length[8];
    unsigned count;
} tape_t;

static void record(void *context, unsigned from, const uint8_t *data, size_t length)
{
    tape_t *t = context;
    const iw_head_t *h = (const iw_head_t *) data;
    if (0 == from && !(h->flags & IW_F_HELLO) && t->count < 8 && length <= sizeof(t->data[0])) {
        memcpy(t->data[t->count], data, length);
        t->length[t->count++] = length;
    }
}

static void protect_by_nothing(iw_config_t *c)
{
    c->auth = IW_AUTH_OFF;
}

/* A message each way, so that both ends have confirmed the connection. */
static void greet(pair_t *t)
{
    iw_completion_t c;
    assert_int_equal(send_bytes(t->a, "hi", 3, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t->link, 1, IW_RECEIVED, IW_OK, &c);
    assert_int_equal(send_bytes(t->b, "ho", 3, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t->link, 0, IW_RECEIVED, IW_OK, &c);
    link_run(&t->link, t->link.now + 10 * MS);
}

static void nothing_of_an_earlier_connection(void **state)
{
    (void) state;
    void (*const modes[])(iw_config_t *) = {NULL, protect_by_nothing};
    for (unsigned mode = 0; mode < 2; ++mode) {
        pair_t t;
        tape_t tape = {.count = 0};
        uint8_t buffer[2][16][8];
        iw_completion_t c;
        link_tune = modes[mode];
        pair_init(&t, NULL, 60);
        const iw_counters_t *count = iw_engine_counters(t.link.engine[1]);
        for (unsigned i = 0; i < 32; ++i) {
            post_one(&t.link, i % 2, buffer[i % 2][i / 2], 8);
        }
        greet(&t);
        t.link.tap = record;
        t.link.tap_context = &tape;
        assert_int_equal(send_bytes(t.a, "old", 4, IW_INLINE | IW_QUIET), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        link_run(&t.link, t.link.now + 10 * MS);
        t.link.tap = NULL;
        assert_true(tape.count > 0);
        const uint32_t conn = t.b->conn;
        iw_peer_remove(t.a);
        iw_peer_remove(t.b);
        link_run(&t.link, t.link.now + 10 * MS);
        t.a = link_peer(&t.link, 0, 1, NULL);
        t.b = link_peer(&t.link, 1, 0, NULL);
        greet(&t);
        iw_peer_t **place = t.link.engine[1]->conn;
        place[t.b->conn & IW_CONN_INDEX_MASK] = NULL;
        place[conn & IW_CONN_INDEX_MASK] = t.b;
        t.b->conn = t.a->remote_conn = conn;
        for (unsigned i = 0; i < tape.count; ++i) {
            iw_engine_input(t.link.engine[1], t.link.now, tape.data[i], tape.length[i]);
        }
        assert_int_equal(count->refused_tag, tape.count);
        assert_int_equal(iw_engine_poll(t.link.engine[1], &c, 1), 0);
        assert_int_equal(send_bytes(t.a, "new", 4, IW_INLINE | IW_QUIET), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        assert_memory_equal(c.context, "new", 4);
        link_fini(&t.link);
        link_tune = NULL;
    }
}

/* What arrived just before the receiver leaves has arrived, though nobody has said so; what nobody will be given, as an
 * earlier message is missing, has not. */
static void who_leaves_says_what_it_took(void **state)
{
    (void) state;
    for (int lost = 0; lost < 2; ++lost) {
        pair_t t;
        uint8_t buffer[4][8];
        iw_completion_t c;
        pair_init(&t, NULL, 40);
        const iw_counters_t *count = iw_engine_counters(t.link.engine[1]);
        for (int i = 0; i < 4; ++i) {
            post_one(&t.link, 1, buffer[i], 8);
        }
        assert_int_equal(send_bytes(t.a, "first", 6, IW_INLINE), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        expect(&t.link, 0, IW_SENT, IW_OK, &c);
        link_run(&t.link, t.link.now + 10 * MS);
        if (lost) {
            t.link.cut[1] = true;
            assert_int_equal(send_bytes(t.a, "lost", 5, IW_INLINE), IW_OK);
            link_run(&t.link, t.link.now + 1);
            t.link.cut[1] = false;
        }
        const uint64_t before = count->segments_in;
        assert_int_equal(send_bytes(t.a, "last", 5, IW_INLINE), IW_OK);
        while (before == count->segments_in) {
            assert_true(link_step(&t.link, t.link.now + S));
        }
        assert_int_equal(iw_engine_poll(t.link.engine[0], &c, 1), 0);
        iw_engine_leave(t.link.engine[1]);
        for (int i = 0; i <= lost; ++i) {
            expect(&t.link, 0, IW_SENT, lost ? IW_CLOSED : IW_OK, &c);
        }
        expect(&t.link, 0, IW_PEER_DOWN, IW_CLOSED, &c);
        assert_int_equal(iw_engine_counters(t.link.engine[0])->peers_down, 0); /* that was no error */
        link_fini(&t.link);
    }
}

/* Nobody has to find out by himself. */
static void leaving_is_said_to_all(void **state)
{
    (void) state;
    enum { PEERS = 4 };
    link_t l;
    iw_peer_t *peer[PEERS];
    uint8_t buffer[8];
    iw_completion_t c;
    link_init(&l, PEERS + 1, NULL, 41);
    for (unsigned i = 0; i < PEERS; ++i) {
        peer[i] = link_peer(&l, i, PEERS, NULL);
        (void) link_peer(&l, PEERS, i, NULL);
        post_one(&l, PEERS, buffer, 8);
        assert_int_equal(send_bytes(peer[i], "x", 1, IW_INLINE | IW_QUIET), IW_OK);
        expect(&l, PEERS, IW_RECEIVED, IW_OK, &c);
    }
    link_run(&l, l.now + 10 * MS);
    iw_engine_leave(l.engine[PEERS]);
    for (unsigned i = 0; i < PEERS; ++i) {
        expect(&l, i, IW_PEER_DOWN, IW_CLOSED, &c);
    }
    assert_false(iw_engine_is_connected(l.engine[PEERS]));
    link_fini(&l);
}

static iw_peer_t *let_in(void *context, iw_engine_t *engine, uint64_t identity)
{
    link_t *l = context;
    (void) engine;
    return 101 == identity ? link_peer(l, 0, 1, NULL) : NULL;
}

/* Who was not added is asked for when it speaks. */
static void unknown_peers_are_asked_for(void **state)
{
    (void) state;
    link_t l;
    uint8_t buffer[8];
    iw_completion_t c;
    link_init(&l, 3, NULL, 18);
    post_one(&l, 0, buffer, 8);
    iw_peer_t *p = link_peer(&l, 1, 0, NULL), *stranger = link_peer(&l, 2, 0, NULL);
    assert_int_equal(send_bytes(p, "hi", 3, IW_INLINE | IW_QUIET), IW_OK);
    assert_int_equal(send_bytes(stranger, "hi", 3, IW_INLINE | IW_QUIET), IW_OK);
    assert_false(wait_completion(&l, 0, &c, S));
    assert_true(iw_engine_counters(l.engine[0])->refused_unknown >= 2);
    iw_engine_destroy(l.engine[0]);
    iw_config_t config;
    link_config(0, &config);
    config.unknown = let_in;
    config.context = &l;
    l.engine[0] = iw_engine_create(&config);
    post_one(&l, 0, buffer, 8);
    expect(&l, 0, IW_RECEIVED, IW_OK, &c);
    assert_int_equal(iw_peer_identity(c.peer), 101);
    assert_false(wait_completion(&l, 0, &c, S));
    link_fini(&l);
}

static struct {
    uint8_t data[2048];
    size_t length;
} said;

static iw_peer_t *note_what_it_said(void *context, iw_engine_t *engine, uint64_t identity)
{
    (void) context, (void) identity;
    const uint8_t *data = iw_engine_hello(engine, &said.length);
    assert_true(NULL != data && said.length <= sizeof(said.data));
    memcpy(said.data, data, said.length);
    return NULL;
}

/* Who cannot be looked up at once is heard when it is known, and need not speak again. */
static void what_a_stranger_said_can_wait(void **state)
{
    (void) state;
    link_t l;
    uint8_t buffer[8];
    size_t length;
    iw_completion_t c;
    iw_config_t config;
    link_init(&l, 2, NULL, 19);
    iw_engine_destroy(l.engine[0]);
    link_config(0, &config);
    config.unknown = note_what_it_said;
    l.engine[0] = iw_engine_create(&config);
    post_one(&l, 0, buffer, 8);
    iw_peer_t *p = link_peer(&l, 1, 0, NULL);
    assert_int_equal(send_bytes(p, "hi", 3, IW_INLINE | IW_QUIET), IW_OK);
    while (0 == said.length) {
        assert_true(link_step(&l, l.now + S));
    }
    assert_null(iw_engine_hello(l.engine[0], &length));
    assert_int_equal(length, 0);
    l.cut[1] = true;
    assert_non_null(link_peer(&l, 0, 1, NULL));
    iw_engine_input(l.engine[0], link_clock(&l, 0), said.data, said.length);
    assert_int_equal(iw_engine_poll(l.engine[0], &c, 1), 1);
    assert_int_equal(c.what, IW_RECEIVED);
    assert_memory_equal(buffer, "hi", 3);
    link_fini(&l);
}

/* What the port buffers may change, and is told with the next acknowledgement; what is posted is counted until it is done. */
static void room_and_what_takes_it(void **state)
{
    (void) state;
    pair_t t;
    uint8_t data[8] = "1234567", buffer[2][8];
    iw_completion_t c;
    pair_init(&t, NULL, 20);
    for (unsigned i = 0; i < 2; ++i) {
        const uint32_t space = 100000 * (i + 1);
        iw_set_receive_space(t.link.engine[1], space);
        post_one(&t.link, 1, buffer[i], 8);
        assert_int_equal(iw_engine_posted(t.link.engine[0]), 0);
        assert_int_equal(send_bytes(t.a, data, 8, 0), IW_OK);
        assert_true(iw_engine_posted(t.link.engine[0]) >= sizeof(iw_request_t));
        expect(&t.link, 0, IW_SENT, IW_OK, &c);
        assert_int_equal(iw_engine_posted(t.link.engine[0]), 0);
        assert_int_equal(t.a->tx.window, space);
    }
    link_fini(&t.link);
}

/* Growth is a decision. */
static void memory_of_a_peer(void **state)
{
    (void) state;
    link_t l;
    link_init(&l, 2, NULL, 21);
    size_t before = iw_engine_memory(l.engine[0]);
    iw_key_t key = {{0}};
    iw_address_t a;
    link_address(1, &a);
    for (uint64_t i = 0; i < 1000; ++i) {
        assert_non_null(iw_peer_add(l.engine[0], 1000 + i, &a, &key, NULL));
        assert_null(iw_peer_add(l.engine[0], 1000 + i, &a, &key, NULL));
    }
    size_t each = (iw_engine_memory(l.engine[0]) - before) / 1000;
    print_message("a peer that was added: %zu bytes\n", each);
    assert_true(each <= 1200);
    link_fini(&l);
}

/* What has talked and is silent holds its state and its part of the key, and nothing of what it sent; a
 * process that was never added, nothing. */
static void memory_of_a_peer_that_talked(void **state)
{
    (void) state;
    link_t l;
    uint8_t note[16], data[1000] = {0};
    size_t before = 0, untouched;
    link_init(&l, LINK_ENGINES, NULL, 22);
    const unsigned first = LINK_ENGINES / 2, count = LINK_ENGINES - first;
    untouched = iw_engine_memory(l.engine[0]);
    for (unsigned i = 1; i < LINK_ENGINES; ++i) {
        iw_completion_t c;
        if (first == i) {
            before = iw_engine_memory(l.engine[0]); /* pools have what one peer at a time needs */
        }
        assert_int_equal(iw_engine_memory(l.engine[i]), untouched);
        iw_peer_t *there = link_peer(&l, 0, i, NULL), *back = link_peer(&l, i, 0, NULL);
        post_one(&l, i, data, sizeof(data));
        assert_int_equal(send_bytes(there, data, sizeof(data), IW_QUIET), IW_OK);
        expect(&l, i, IW_RECEIVED, IW_OK, &c);
        post_one(&l, 0, note, sizeof(note));
        assert_int_equal(send_bytes(back, "answer", 6, IW_INLINE | IW_QUIET), IW_OK);
        expect(&l, 0, IW_RECEIVED, IW_OK, &c);
        link_run(&l, l.now + 50 * MS);
    }
    size_t each = (iw_engine_memory(l.engine[0]) - before) / count;
    print_message("a peer that talked: %zu bytes\n", each);
    assert_true(each <= 3432);
    link_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_state_are_told),
        cmocka_unit_test(a_dead_peer_becomes_an_error_in_time),
        cmocka_unit_test(a_stopped_peer_stays_connected),
        cmocka_unit_test(a_peer_that_never_answered_is_told_of_soon),
        cmocka_unit_test(a_silent_peer_is_dead_in_the_end),
        cmocka_unit_test(a_peer_that_is_gone_is_dead_at_once),
        cmocka_unit_test(the_network_may_be_wrong),
        cmocka_unit_test(being_stopped_kills_nobody),
        cmocka_unit_test(a_clock_that_jumps_kills_nobody),
        cmocka_unit_test(a_clock_that_jumps_while_waiting),
        cmocka_unit_test(a_clock_that_jumps_during_a_silence),
        cmocka_unit_test(everything_for_a_dead_peer_ends_once),
        cmocka_unit_test(nobody_there_is_dead_too),
        cmocka_unit_test(a_peer_that_comes_back),
        cmocka_unit_test(a_restarted_process_is_another_one),
        cmocka_unit_test(nothing_of_an_earlier_connection),
        cmocka_unit_test(who_leaves_says_what_it_took),
        cmocka_unit_test(leaving_is_said_to_all),
        cmocka_unit_test(unknown_peers_are_asked_for),
        cmocka_unit_test(what_a_stranger_said_can_wait),
        cmocka_unit_test(room_and_what_takes_it),
        cmocka_unit_test(memory_of_a_peer),
        cmocka_unit_test(memory_of_a_peer_that_talked),
    };
    return cmocka_run_group_tests_name("iwarp_peers", tests, NULL, NULL);
}
