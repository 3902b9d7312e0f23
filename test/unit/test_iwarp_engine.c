/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Two and more engines on a simulated network (iw_engine.h): exactly once, in order, whatever the
 * network does; bounded memory and time; errors instead of hangs. */
#include "spec_unit.h"

#include "iw_link.h"
#include "iw_rtt.h"
#include "iw_memory.h"

#include <sys/mman.h>

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

/* What message i looks like, in length and bytes. */
static uint32_t length_of(uint32_t i, uint32_t max)
{
    rng_t rng = {i};
    uint32_t kind = rng_below(&rng, 4);
    return kind == 0   ? rng_below(&rng, 16)
           : kind == 1 ? rng_below(&rng, 300)
                       : rng_below(&rng, max + 1);
}

static uint8_t byte_of(uint32_t i, uint32_t at)
{
    return (uint8_t) (i * 7 + at * 13 + (at >> 8));
}

static void fill(uint8_t *buffer, uint32_t i, uint32_t length)
{
    for (uint32_t at = 0; at < length; ++at) {
        buffer[at] = byte_of(i, at);
    }
}

static bool filled(const uint8_t *buffer, uint32_t i, uint32_t length)
{
    for (uint32_t at = 0; at < length; ++at) {
        if (buffer[at] != byte_of(i, at)) {
            return false;
        }
    }
    return true;
}

enum { BUFFER = 20000, BUFFERS = 32 };

typedef struct side {
    uint8_t receive[BUFFERS][BUFFER];
    uint8_t *send; /* of message under way, by number modulo window */
    uint32_t posted, completed, received;
    uint32_t errors;
    iw_status_t down;
} side_t;

enum { AHEAD = 24 };

static void post_receives(link_t *l, unsigned i, side_t *s)
{
    for (int b = 0; b < BUFFERS; ++b) {
        assert_int_equal(iw_post_receive(l->engine[i], s->receive[b], BUFFER, s->receive[b]),
                         IW_OK);
    }
}

/* Both ends send `count` messages to each other, checked on arrival. Returns when it was done. */
static void (*disturb)(link_t *l); /* before each step, if not NULL */

static void exchange(link_t *l, iw_peer_t *peer[2], side_t *side[2], uint32_t count, uint64_t until)
{
    while (l->now < until) {
        bool done = true;
        for (unsigned i = 0; i < 2; ++i) {
            side_t *s = side[i];
            iw_completion_t c[16];
            unsigned n;
            while ((n = iw_engine_poll(l->engine[i], c, 16)) > 0) {
                for (unsigned j = 0; j < n; ++j) {
                    assert_int_equal(c[j].status, IW_OK);
                    if (IW_SENT == c[j].what) {
                        ++s->completed;
                    } else {
                        assert_int_equal(c[j].what, IW_RECEIVED);
                        assert_int_equal(c[j].length, length_of(s->received, BUFFER));
                        assert_true(filled(c[j].context, s->received, c[j].length));
                        ++s->received;
                        assert_int_equal(
                            iw_post_receive(l->engine[i], c[j].context, BUFFER, c[j].context),
                            IW_OK);
                    }
                }
            }
            /* Completions come in any order, so the window is on all of them. */
            while (s->posted < count && s->posted - s->completed < AHEAD) {
                uint32_t length = length_of(s->posted, BUFFER);
                uint8_t *data = s->send + (size_t) s->posted * BUFFER;
                fill(data, s->posted, length);
                struct iovec piece[2] = {{data, length / 3},
                                         {data + length / 3, length - length / 3}};
                unsigned flags = length <= IW_INLINE_MAX ? IW_INLINE : 0;
                assert_int_equal(iw_post_send(peer[i], piece, 2, flags, NULL), IW_OK);
                if (flags) {
                    memset(data, 0xee, length); /* it has been copied */
                }
                ++s->posted;
            }
            done &= s->completed == count && s->received == count;
        }
        if (done) {
            return;
        }
        if (NULL != disturb) {
            disturb(l);
        }
        if (!link_step(l, until)) {
            break;
        }
    }
    fail_msg("not done in time: %u and %u of %u received", side[0]->received, side[1]->received,
             count);
}

static void run_exchange(const iw_fault_rates_t *rates, uint64_t seed, uint32_t count,
                         uint64_t time, link_t *l)
{
    side_t *side[2] = {must_alloc(sizeof(side_t)), must_alloc(sizeof(side_t))};
    link_init(l, 2, rates, seed);
    iw_peer_t *peer[2] = {link_peer(l, 0, 1, NULL), link_peer(l, 1, 0, NULL)};
    for (unsigned i = 0; i < 2; ++i) {
        side[i]->send = must_alloc((size_t) count * BUFFER);
        post_receives(l, i, side[i]);
    }
    exchange(l, peer, side, count, l->now + time);
    for (unsigned i = 0; i < 2; ++i) {
        assert_true(iw_engine_memory(l->engine[i]) < 600 * 1024);
        free(side[i]->send);
        free(side[i]);
    }
}

static void everything_arrives_in_order(void **state)
{
    (void) state;
    link_t l;
    run_exchange(NULL, 1, 400, S, &l);
    const iw_counters_t *c = iw_engine_counters(l.engine[0]);
    assert_int_equal(c->segments_resent, 0);
    assert_int_equal(c->refused_tag, 0);
    assert_int_equal(c->messages_in, 400);
    assert_int_equal(c->messages_out, 400);
    link_fini(&l);
}

/* 0 to 30 % of everything that can happen to a datagram; the same result each time. */
static void faults_of_every_rate(void **state)
{
    (void) state;
    for (uint32_t percent = 0; percent <= 30; percent += 5) {
        const uint32_t rate = percent * 10000;
        const iw_fault_rates_t kinds[] = {
            {.drop = rate},
            {.duplicate = rate},
            {.reorder = rate, .delay_ns = MS},
            {.delay = rate, .delay_ns = 3 * MS},
            {.corrupt = rate},
            {.truncate = rate},
            {.drop = rate / 2,
             .duplicate = rate / 2,
             .reorder = rate,
             .corrupt = rate / 8,
             .truncate = rate / 8,
             .delay = rate / 4,
             .delay_ns = MS},
        };
        for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); ++k) {
            link_t l;
            /* Virtual time: bounded, whatever is lost. */
            run_exchange(&kinds[k], 1000 * k + percent, 150, 60 * S, &l);
            for (unsigned i = 0; i < 2; ++i) {
                const iw_counters_t *c = iw_engine_counters(l.engine[i]);
                assert_int_equal(c->messages_in, 150);
                assert_int_equal(c->peers_down, 0);
                assert_int_equal(c->refused_header, 0);
                assert_true(0 == kinds[k].corrupt || 0 == percent
                            || c->refused_tag + c->refused_version + c->refused_length
                                       + c->refused_connection
                                   > 0);
                /* What was sent again is in proportion to what was lost. */
                if (0 == percent) {
                    assert_int_equal(c->segments_resent, 0);
                }
            }
            link_fini(&l);
        }
    }
}

/* Hardly any memory: what comes ahead of its turn must not take what the one whose turn it is needs. */
static uint32_t hardly_any = 1;

static void next_to_nothing(iw_config_t *c)
{
    c->early_max = hardly_any;
    c->quota = 2 + 6 * (hardly_any / 2);
    c->requests_max = 24;
}

static void faults_with_hardly_any_memory(void **state)
{
    (void) state;
    const iw_fault_rates_t rates = {
        .drop = 100000, .duplicate = 50000, .reorder = 200000, .delay_ns = MS};
    link_tune = next_to_nothing;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        link_t l;
        hardly_any = 1 + seed % 3;
        run_exchange(&rates, seed, 60, 60 * S, &l);
        link_fini(&l);
    }
    link_tune = NULL;
}

typedef struct pair {
    link_t link;
    iw_peer_t *a, *b; /* a: engine 0's peer 1; b: engine 1's peer 0 */
} pair_t;

static void pair_init(pair_t *t, const iw_fault_rates_t *rates, uint64_t seed)
{
    link_init(&t->link, 2, rates, seed);
    t->a = link_peer(&t->link, 0, 1, NULL);
    t->b = link_peer(&t->link, 1, 0, NULL);
    assert_non_null(t->a);
    assert_non_null(t->b);
}

/* The next completion of an engine, if there is one by then. */
static bool wait_completion(link_t *l, unsigned i, iw_completion_t *c, uint64_t time)
{
    uint64_t until = l->now + time;
    while (0 == iw_engine_poll(l->engine[i], c, 1)) {
        if (!link_step(l, until)) {
            return false;
        }
    }
    return true;
}

static void post_one(link_t *l, unsigned i, void *buffer, uint32_t length)
{
    assert_int_equal(iw_post_receive(l->engine[i], buffer, length, buffer), IW_OK);
}

static iw_status_t send_bytes(iw_peer_t *p, const void *data, size_t length, unsigned flags)
{
    struct iovec piece = {(void *) (uintptr_t) data, length};
    return iw_post_send(p, &piece, 1, flags, NULL);
}

static void expect(link_t *l, unsigned i, iw_what_t what, iw_status_t status, iw_completion_t *c)
{
    assert_true(wait_completion(l, i, c, 60 * S));
    assert_int_equal(c->what, what);
    assert_int_equal(c->status, status);
}

static void longest_datagrams(iw_config_t *c)
{
    c->datagram_max = IW_DATAGRAM_MAX;
}

/* Who leaves room before a message for the headers gets them there, in one piece if it is short, and nothing
 * before that room is touched, however often it is sent. */
static void headers_before_the_data(void **state)
{
    (void) state;
    enum { ROOM = 64 + IW_HEADROOM_SIZE };
    static const uint32_t lengths[] = {1, 300, 5000, 16384, 16385, 20000};
    const iw_fault_rates_t rates = {.drop = 300000};
    static uint8_t in[32768], out[ROOM + 32768];
    link_t l;
    link_tune = longest_datagrams;
    link_init(&l, 2, &rates, 11);
    link_tune = NULL;
    iw_peer_t *p = link_peer(&l, 0, 1, NULL);
    link_peer(&l, 1, 0, NULL);
    for (unsigned i = 0; i < 6 * sizeof(lengths) / sizeof(lengths[0]); ++i) {
        const uint32_t length = lengths[i / 6];
        struct iovec piece = {out + ROOM, length};
        iw_completion_t c;
        memset(out, 0xee, ROOM);
        fill(out + ROOM, i, length);
        memset(in, 0, sizeof(in));
        assert_int_equal(iw_post_receive(l.engine[1], in, sizeof(in), in), IW_OK);
        assert_int_equal(iw_post_send(p, &piece, 1, IW_HEADROOM, NULL), IW_OK);
        expect(&l, 1, IW_RECEIVED, IW_OK, &c);
        expect(&l, 0, IW_SENT, IW_OK, &c);
        assert_true(filled(in, i, length));
        assert_true(filled(out + ROOM, i, length));
        for (unsigned k = 0; k < 64; ++k) {
            assert_int_equal(out[k], 0xee);
        }
    }
    static iw_packet_t k[4];
    for (uint32_t length = 16383; length <= 16385; ++length) {
        struct iovec piece = {out + ROOM, length};
        assert_int_equal(iw_post_receive(l.engine[1], in, sizeof(in), in), IW_OK);
        assert_int_equal(iw_post_send(p, &piece, 1, IW_HEADROOM, NULL), IW_OK);
        assert_true(iw_engine_output(l.engine[0], l.now, k, 4) >= 1);
        assert_int_equal(k[0].count, length <= 16384 ? 1 : 2);
        iw_engine_unsent(l.engine[0], k, 1);
        iw_completion_t c;
        expect(&l, 1, IW_RECEIVED, IW_OK, &c);
        expect(&l, 0, IW_SENT, IW_OK, &c);
    }
    link_fini(&l);
}

/* A send posted after writes is delivered when the data is there, whatever overtakes what. */
static void writes_are_in_place_before_the_send(void **state)
{
    (void) state;
    enum { SIZE = 100000, ROUNDS = 20 };
    const iw_fault_rates_t rates = {.drop = 50000, .reorder = 200000, .delay_ns = MS};
    pair_t t;
    uint8_t *source = must_alloc(SIZE), *target = must_alloc(SIZE), note[8];
    pair_init(&t, &rates, 3);
    uint32_t stag = iw_register(t.link.engine[1], target, SIZE, IW_REMOTE_WRITE);
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        struct iovec piece[3] = {
            {source, 10000}, {source + 10000, 0}, {source + 10000, SIZE - 10000}};
        iw_completion_t c;
        fill(source, round, SIZE);
        post_one(&t.link, 1, note, sizeof(note));
        assert_int_equal(iw_post_write(t.a, piece, 3, stag, 0, IW_QUIET, NULL), IW_OK);
        assert_int_equal(send_bytes(t.a, &round, sizeof(round), IW_INLINE | IW_QUIET), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        assert_int_equal(c.length, sizeof(round));
        assert_memory_equal(note, &round, sizeof(round));
        assert_true(filled(target, round, SIZE));
    }
    assert_true(iw_engine_counters(t.link.engine[0])->segments_resent > 0);
    link_fini(&t.link);
    free(source);
    free(target);
}

static void reads_bring_data_and_hold_back_fenced_sends(void **state)
{
    (void) state;
    enum { SIZE = 60000, READS = 40 };
    const iw_fault_rates_t rates = {.drop = 50000, .reorder = 200000, .delay_ns = MS};
    pair_t t;
    uint8_t *source = must_alloc(SIZE * READS), *sink = must_alloc(SIZE * READS), note[8];
    pair_init(&t, &rates, 4);
    uint32_t stag = iw_register(t.link.engine[1], source, SIZE * READS, IW_REMOTE_READ);
    for (uint32_t i = 0; i < READS; ++i) {
        fill(source + i * SIZE, i, SIZE);
    }
    post_one(&t.link, 1, note, sizeof(note));
    for (uint32_t i = 0; i < READS; ++i) { /* more than are served at a time */
        assert_int_equal(iw_post_read(t.a, sink + i * SIZE, SIZE, stag, i * SIZE, IW_QUIET, NULL),
                         IW_OK);
    }
    assert_int_equal(iw_post_read(t.a, NULL, 0, stag, 0, 0, source), IW_OK);
    assert_int_equal(send_bytes(t.a, "done", 5, IW_INLINE | IW_FENCE | IW_QUIET), IW_OK);
    iw_completion_t c;
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    assert_string_equal((char *) note, "done");
    for (uint32_t i = 0; i < READS; ++i) {
        assert_true(filled(sink + i * SIZE, i, SIZE));
    }
    expect(&t.link, 0, IW_READ, IW_OK, &c);
    assert_ptr_equal(c.context, source);
    link_fini(&t.link);
    free(source);
    free(sink);
}

/* A read does not wait for the writes before it to leave; but it waits for what is fenced, which waits for earlier reads
 * and no later ones. */
static void reads_overtake_writes_and_no_fence(void **state)
{
    (void) state;
    enum { SIZE = 4000000, WRITE = 1, READ, LATE };
    static char name[4];
    const iw_fault_rates_t rates = {.delay_ns = MS};
    pair_t t;
    uint8_t *source = must_alloc(SIZE), *sink = must_alloc(SIZE), word[2][8], note[8];
    pair_init(&t, &rates, 4);
    const uint32_t stag =
        iw_register(t.link.engine[1], sink, SIZE, IW_REMOTE_READ | IW_REMOTE_WRITE);
    const struct iovec piece = {source, SIZE};
    iw_completion_t c;
    post_one(&t.link, 1, note, sizeof(note));
    fill(sink, 7, 16);
    fill(source, 8, SIZE);
    assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, 0, &name[WRITE]), IW_OK);
    assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, IW_QUIET, NULL), IW_OK);
    assert_int_equal(iw_post_read(t.a, word[0], 8, stag, SIZE - 8, 0, &name[READ]), IW_OK);
    assert_int_equal(send_bytes(t.a, "done", 5, IW_INLINE | IW_FENCE | IW_QUIET), IW_OK);
    assert_int_equal(iw_post_read(t.a, word[1], 8, stag, 8, 0, &name[LATE]), IW_OK);
    expect(&t.link, 0, IW_READ, IW_OK, &c);
    assert_ptr_equal(c.context, &name[READ]);
    expect(&t.link, 0, IW_WRITTEN, IW_OK, &c);
    assert_ptr_equal(c.context, &name[WRITE]);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    assert_string_equal((char *) note, "done");
    expect(&t.link, 0, IW_READ, IW_OK, &c);
    assert_ptr_equal(c.context, &name[LATE]);
    assert_memory_equal(word[1], source + 8, 8);
    /* The fence is gone. */
    assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, 0, NULL), IW_OK);
    assert_int_equal(iw_post_read(t.a, word[0], 8, stag, 0, 0, NULL), IW_OK);
    expect(&t.link, 0, IW_READ, IW_OK, &c);
    expect(&t.link, 0, IW_WRITTEN, IW_OK, &c);
    link_fini(&t.link);
    free(source);
    free(sink);
}

/* An access that was not granted changes nothing and ends this connection, at both ends. */
static void refused_access_ends_the_connection(void **state)
{
    (void) state;
    static const struct {
        unsigned rights;
        bool read, remove;
        uint64_t to;
        uint32_t length;
    } cases[] = {
        {IW_REMOTE_READ, false, false, 0, 8},
        {IW_REMOTE_WRITE, true, false, 0, 8},
        {IW_REMOTE_WRITE, false, false, 57, 8},
        {IW_REMOTE_READ, true, false, 57, 8},
        {IW_REMOTE_WRITE, false, false, -UINT64_C(4), 8},
        {IW_REMOTE_READ, true, false, -UINT64_C(4), 8},
        {IW_REMOTE_WRITE, false, true, 0, 8},
        {IW_REMOTE_READ, true, true, 0, 8},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        pair_t t;
        uint8_t memory[64], mine[8] = "change", note[8];
        memset(memory, 0x5a, sizeof(memory));
        pair_init(&t, NULL, 5);
        uint32_t stag = iw_register(t.link.engine[1], memory, sizeof(memory), cases[i].rights);
        assert_true(0 != stag);
        if (cases[i].remove) {
            assert_true(iw_deregister(t.link.engine[1], stag));
            assert_false(iw_deregister(t.link.engine[1], stag));
        }
        post_one(&t.link, 1, note, sizeof(note));
        struct iovec piece = {mine, cases[i].length};
        if (cases[i].read) {
            assert_int_equal(iw_post_read(t.a, mine, cases[i].length, stag, cases[i].to, 0, mine),
                             IW_OK);
        } else {
            assert_int_equal(iw_post_write(t.a, &piece, 1, stag, cases[i].to, 0, mine), IW_OK);
        }
        assert_int_equal(send_bytes(t.a, "x", 1, 0), IW_OK);
        iw_completion_t c;
        expect(&t.link, 1, IW_PEER_DOWN, IW_PROTOCOL, &c);
        assert_ptr_equal(c.peer, t.b);
        assert_true(wait_completion(&t.link, 0, &c, S));
        assert_ptr_equal(c.context, mine);
        assert_int_equal(c.status, IW_REMOTE_ACCESS);
        expect(&t.link, 0, IW_SENT, IW_FLUSHED, &c);
        expect(&t.link, 0, IW_PEER_DOWN, IW_REMOTE_ACCESS, &c);
        assert_int_equal(iw_engine_counters(t.link.engine[1])->refused_access, 1);
        assert_int_equal(iw_receives_free(t.link.engine[1]), 1);
        for (unsigned at = 0; at < sizeof(memory); ++at) {
            assert_int_equal(memory[at], 0x5a);
        }
        assert_memory_equal(mine, "change", 6);
        assert_int_equal(send_bytes(t.a, "x", 1, 0), IW_REMOTE_ACCESS);
        link_fini(&t.link);
    }
}

/* Memory that is taken back while it is being read is not touched again. */
static void memory_taken_back_during_a_read(void **state)
{
    (void) state;
    enum { SIZE = 3000000 };
    pair_t t;
    uint8_t *source = must_alloc(SIZE), *sink = must_alloc(SIZE);
    pair_init(&t, NULL, 6);
    uint32_t stag = iw_register(t.link.engine[1], source, SIZE, IW_REMOTE_READ);
    assert_int_equal(iw_post_read(t.a, sink, SIZE, stag, 0, 0, sink), IW_OK);
    iw_completion_t c;
    for (int i = 0; i < 20; ++i) {
        assert_true(link_step(&t.link, t.link.now + S));
    }
    assert_int_equal(iw_engine_counters(t.link.engine[1])->reads_in, 1);
    assert_true(iw_deregister(t.link.engine[1], stag));
    free(source); /* the sanitizers watch */
    expect(&t.link, 1, IW_PEER_DOWN, IW_PROTOCOL, &c);
    assert_true(wait_completion(&t.link, 0, &c, S));
    assert_int_equal(c.what, IW_READ);
    assert_true(IW_OK != c.status);
    link_fini(&t.link);
    free(sink);
}

/* The reader has all and says so above us; the owner takes the memory back while acknowledgements are
 * still missing. What was lost is not sent again then, and the connection goes on. */
static void read_and_take_back(bool guarded)
{
    atomic_uint uses = 1;
    enum { SIZE = 30000, READS = 300 };
    const iw_fault_rates_t rates = {.drop = 150000, .reorder = 100000, .delay_ns = MS};
    pair_t t;
    uint8_t *source = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            *sink = must_alloc(SIZE), note[8];
    assert_true(MAP_FAILED != (void *) source);
    pair_init(&t, &rates, 11);
    uint32_t stag = 0;
    for (uint32_t i = 0; i < READS; ++i) {
        iw_completion_t c;
        fill(source, i, SIZE);
        if (0 == i || !guarded) {
            stag = iw_register(t.link.engine[1], source, SIZE, IW_REMOTE_READ);
            assert_true(!guarded || iw_guard(t.link.engine[1], stag, &uses));
        }
        uses = 1;
        assert_int_equal(iw_post_read(t.a, sink, SIZE, stag, 0, 0, sink), IW_OK);
        expect(&t.link, 0, IW_READ, IW_OK, &c);
        assert_true(filled(sink, i, SIZE));
        if (guarded) {
            uses = 0;
        } else {
            assert_true(iw_deregister(t.link.engine[1], stag));
        }
        assert_int_equal(mprotect(source, SIZE, PROT_NONE), 0); /* who touches it now has had it */
        link_run(&t.link, t.link.now + i % 4 * 10 * MS);
        assert_int_equal(mprotect(source, SIZE, PROT_READ | PROT_WRITE), 0);
    }
    iw_completion_t c;
    post_one(&t.link, 1, note, sizeof(note));
    assert_int_equal(send_bytes(t.a, "alive", 6, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    assert_true(iw_engine_counters(t.link.engine[1])->probes_out > 0); /* it did come to that */
    link_fini(&t.link);
    munmap(source, SIZE);
    free(sink);
}

static void memory_taken_back_after_a_read(void **state)
{
    (void) state;
    read_and_take_back(false);
}

/* As a registration cache does: the name stays, the memory is not to be touched until it is used again. */
static void memory_at_rest_after_a_read(void **state)
{
    (void) state;
    read_and_take_back(true);
}

/* No receive buffer: the sender waits, loses nothing and takes it for no congestion. */
static void waits_for_receive_buffers(void **state)
{
    (void) state;
    enum { MANY = 200, SIZE = 3000 };
    pair_t t;
    uint8_t *data = must_alloc(SIZE), *buffer = must_alloc(SIZE);
    pair_init(&t, NULL, 7);
    for (int i = 0; i < MANY; ++i) {
        assert_int_equal(send_bytes(t.a, data, SIZE, IW_QUIET), IW_OK);
    }
    link_run(&t.link, t.link.now + 50 * MS);
    const iw_counters_t *c0 = iw_engine_counters(t.link.engine[0]);
    const iw_counters_t *c1 = iw_engine_counters(t.link.engine[1]);
    assert_int_equal(c1->messages_in, 0);
    assert_true(c0->rnr_in > 0 && c1->rnr_out > 0);
    assert_true(c0->rnr_in < 200); /* it does not ask all the time */
    for (int i = 0; i < MANY; ++i) {
        iw_completion_t c;
        post_one(&t.link, 1, buffer, SIZE);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        assert_int_equal(c.length, SIZE);
    }
    assert_int_equal(c1->messages_in, MANY);
    assert_int_equal(c0->lost_by_number + c0->lost_by_time, 0);
    link_fini(&t.link);
    free(data);
    free(buffer);
}

/* One peer cannot take all of the shared receive buffers. */
static void quota_leaves_buffers_for_others(void **state)
{
    (void) state;
    enum { BUFFERS_OF_ALL = 16, QUOTA = 5 };
    link_t l;
    uint8_t buffer[BUFFERS_OF_ALL][64];
    link_init(&l, 3, NULL, 8);
    iw_engine_destroy(l.engine[0]);
    iw_config_t config;
    link_config(0, &config);
    config.quota = QUOTA;
    l.engine[0] = iw_engine_create(&config);
    assert_non_null(link_peer(&l, 0, 1, NULL));
    assert_non_null(link_peer(&l, 0, 2, NULL));
    iw_peer_t *greedy = link_peer(&l, 1, 0, NULL), *modest = link_peer(&l, 2, 0, NULL);
    for (int i = 0; i < BUFFERS_OF_ALL; ++i) {
        post_one(&l, 0, buffer[i], sizeof(buffer[i]));
    }
    for (int i = 0; i < 100; ++i) {
        assert_int_equal(send_bytes(greedy, "greedy", 7, IW_INLINE | IW_QUIET), IW_OK);
    }
    link_run(&l, l.now + 20 * MS);
    assert_int_equal(iw_receives_free(l.engine[0]), BUFFERS_OF_ALL - QUOTA);
    assert_int_equal(send_bytes(modest, "modest", 7, IW_INLINE | IW_QUIET), IW_OK);
    link_run(&l, l.now + 20 * MS);
    assert_int_equal(iw_receives_free(l.engine[0]), BUFFERS_OF_ALL - QUOTA - 1);
    int got = 0;
    for (iw_completion_t c; wait_completion(&l, 0, &c, S); ++got) {
        assert_int_equal(c.what, IW_RECEIVED);
        post_one(&l, 0, c.context, sizeof(buffer[0]));
    }
    assert_int_equal(got, 101);
    link_fini(&l);
}

static void limit_event_comes_once_for_each_arming(void **state)
{
    (void) state;
    pair_t t;
    uint8_t buffer[10][8];
    iw_completion_t c;
    pair_init(&t, NULL, 9);
    for (int i = 0; i < 10; ++i) {
        post_one(&t.link, 1, buffer[i], 8);
    }
    iw_arm_limit(t.link.engine[1], 7);
    for (int i = 0; i < 6;
         ++i) { /* ten posted, limit seven, six sent: one event, after the fourth */
        assert_int_equal(send_bytes(t.a, "x", 1, IW_INLINE | IW_QUIET), IW_OK);
    }
    for (int i = 0; i < 3; ++i) {
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    }
    bool event = false;
    for (int i = 0; i < 4; ++i) {
        assert_true(wait_completion(&t.link, 1, &c, S));
        if (IW_LIMIT_REACHED == c.what) {
            assert_false(event);
            event = true;
        }
    }
    assert_true(event);
    assert_false(wait_completion(&t.link, 1, &c, S));
    iw_arm_limit(t.link.engine[1], 5); /* four are left: at once */
    expect(&t.link, 1, IW_LIMIT_REACHED, IW_OK, &c);
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
        uint32_t stag = iw_register(t.link.engine[1], memory, 1 << 20, IW_REMOTE_READ);
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
    uint32_t stag = iw_register(t.link.engine[1], memory, SIZE, IW_REMOTE_READ | IW_REMOTE_WRITE);
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

/* The last datagram of a message is lost, and nothing comes after it: the early probe finds that out. */
static void a_lost_tail_is_found_soon(void **state)
{
    (void) state;
    for (int large = 0; large < 2; ++large) {
        pair_t t;
        iw_completion_t c;
        uint8_t *data = must_alloc(8000), *buffer = must_alloc(8000);
        pair_init(&t, NULL, 40);
        for (int i = 0; i < 20; ++i) { /* round trip and size of the path become known */
            post_one(&t.link, 1, buffer, 8000);
            assert_int_equal(send_bytes(t.a, data, 8000, 0), IW_OK);
            expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
            expect(&t.link, 0, IW_SENT, IW_OK, &c);
        }
        post_one(&t.link, 1, buffer, 8000);
        const uint64_t start = t.link.now;
        t.link.cut[1] = true;
        assert_int_equal(send_bytes(t.a, data, large ? 8000 : 100, 0), IW_OK);
        link_drain(&t.link);
        t.link.cut[1] = false;
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        assert_true(t.link.now - start < IW_PTO_EARLY + 2 * IW_LOSS_FLOOR + MS / 2);
        link_fini(&t.link);
        free(data);
        free(buffer);
    }
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

/* Its ring of buffers is empty for much longer than a peer may be silent: the sender waits, asks now and then, and
 * resumes; another sender is as patient; nothing is lost or out of order. */
static void buffers_come_after_minutes(void **state)
{
    (void) state;
    enum { MANY = 300, SIZE = 2000, WAIT = 120 };
    link_t l;
    link_init(&l, 3, NULL, 12);
    assert_non_null(link_peer(&l, 0, 1, NULL));
    assert_non_null(link_peer(&l, 0, 2, NULL));
    iw_peer_t *from[2] = {link_peer(&l, 1, 0, NULL), link_peer(&l, 2, 0, NULL)};
    uint8_t *data = must_alloc(2 * MANY * SIZE), *buffer = must_alloc(SIZE);
    uint32_t seen[2] = {0, 0};
    for (uint32_t i = 0; i < 2 * MANY; ++i) {
        fill(data + (size_t) i * SIZE, i, SIZE);
        data[(size_t) i * SIZE] = (uint8_t) (i % 2); /* who */
        struct iovec piece = {data + (size_t) i * SIZE, SIZE};
        assert_int_equal(iw_post_send(from[i % 2], &piece, 1, IW_QUIET, NULL), IW_OK);
    }
    for (unsigned round = 0; round < 3;
         ++round) { /* three times empty: at first, and twice in between */
        const uint64_t before = iw_engine_counters(l.engine[0])->rnr_out, sent = l.sent;
        link_run(&l, l.now + WAIT * S);
        assert_true(iw_engine_counters(l.engine[0])->rnr_out > before);
        assert_true(l.sent - sent < 2 * WAIT * 500); /* patient, too */
        for (unsigned n = 0; n < 2 * MANY / 3; ++n) {
            iw_completion_t c;
            post_one(&l, 0, buffer, SIZE);
            expect(&l, 0, IW_RECEIVED, IW_OK, &c);
            const unsigned who = buffer[0];
            const uint32_t i = 2 * seen[who]++ + who;
            assert_true(who < 2 && i < 2 * MANY);
            assert_memory_equal(buffer, data + (size_t) i * SIZE, SIZE);
        }
    }
    assert_int_equal(seen[0] + seen[1], 2 * MANY);
    for (unsigned i = 1; i < 3; ++i) {
        iw_completion_t c;
        assert_true(iw_engine_counters(l.engine[i])->rnr_in > 0);
        assert_false(wait_completion(&l, i, &c, S)); /* nobody was given up */
    }
    link_fini(&l);
    free(data);
    free(buffer);
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

static void path_carries(size_t mtu, uint64_t least, uint64_t most)
{
    enum { SIZE = 4000000 };
    pair_t t;
    uint8_t *source = must_alloc(SIZE), *target = must_alloc(SIZE);
    iw_completion_t c;
    pair_init(&t, NULL, 13);
    t.link.mtu = mtu;
    fill(source, 2, SIZE);
    uint32_t stag = iw_register(t.link.engine[1], target, SIZE, IW_REMOTE_WRITE);
    struct iovec piece = {source, SIZE};
    assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, 0, NULL), IW_OK);
    expect(&t.link, 0, IW_WRITTEN, IW_OK, &c);
    uint64_t before = t.link.sent;
    assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, 0, NULL), IW_OK);
    expect(&t.link, 0, IW_WRITTEN, IW_OK, &c);
    assert_true(filled(target, 2, SIZE));
    uint64_t segments = t.link.sent - before;
    assert_in_range(SIZE / segments, least, most);
    assert_int_equal(iw_engine_counters(t.link.engine[0])->segments_resent, 0);
    link_fini(&t.link);
    free(source);
    free(target);
}

/* Datagrams become as large as the path carries; counted are acknowledgements too. */
static void datagrams_grow_to_what_the_path_carries(void **state)
{
    (void) state;
    path_carries(0, 7000, 8950);
    path_carries(4072, 2600, 4000);
    path_carries(1472, 1000, 1430);
}

/* The path carries less than it did. */
static void a_black_hole_is_found(void **state)
{
    (void) state;
    enum { SIZE = 1000000 };
    pair_t t;
    uint8_t *source = must_alloc(SIZE), *target = must_alloc(SIZE);
    iw_completion_t c;
    pair_init(&t, NULL, 14);
    fill(source, 3, SIZE);
    uint32_t stag = iw_register(t.link.engine[1], target, SIZE, IW_REMOTE_WRITE);
    struct iovec piece = {source, SIZE};
    assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, 0, NULL), IW_OK);
    expect(&t.link, 0, IW_WRITTEN, IW_OK, &c);
    memset(target, 0, SIZE);
    t.link.mtu = 1472;
    assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, 0, NULL), IW_OK);
    expect(&t.link, 0, IW_WRITTEN, IW_OK, &c);
    assert_true(filled(target, 3, SIZE));
    link_fini(&t.link);
    free(source);
    free(target);
}

/* Everything that was ever on the wire, to be sent again. */
typedef struct tape {
    link_packet_t packet[4096];
    unsigned count;
} tape_t;

static void record(void *context, unsigned from, const uint8_t *data, size_t length)
{
    tape_t *tape = context;
    if (tape->count < 4096) {
        link_packet_t *k = &tape->packet[tape->count++];
        *k = (link_packet_t){.to = 1 - from, .length = length, .data = must_alloc(length)};
        memcpy(k->data, data, length);
    }
}

static void replay(tape_t *tape, link_t *l, unsigned to)
{
    for (unsigned i = 0; i < tape->count; ++i) {
        if (tape->packet[i].to == to) {
            iw_engine_input(l->engine[to], l->now, tape->packet[i].data, tape->packet[i].length);
        }
    }
}

/* Replaying all there was - to the same connection, after it ended, to the next one, to another
 * process, to the sender itself - does nothing. */
static void replays_do_nothing(void **state)
{
    (void) state;
    pair_t t;
    tape_t *tape = must_alloc(sizeof(*tape));
    uint8_t target[16] = "", buffer[32][8];
    iw_completion_t c;
    pair_init(&t, NULL, 15);
    t.link.tap = record;
    t.link.tap_context = tape;
    for (int i = 0; i < 32; ++i) {
        post_one(&t.link, 1, buffer[i], 8);
    }
    uint32_t stag = iw_register(t.link.engine[1], target, sizeof(target), IW_REMOTE_WRITE);
    struct iovec piece = {"written", 8};
    for (int i = 0; i < 5; ++i) {
        assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, IW_QUIET, NULL), IW_OK);
        assert_int_equal(send_bytes(t.a, "x", 1, IW_INLINE | IW_QUIET), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    }
    link_run(&t.link, t.link.now + 10 * MS);
    t.link.tap = NULL;
    memset(target, 0, sizeof(target));
    const iw_counters_t *count = iw_engine_counters(t.link.engine[1]);
    for (int stage = 0; stage < 4; ++stage) {
        uint64_t segments = count->segments_in;
        replay(tape, &t.link, 1);
        replay(tape, &t.link, 0);
        /* To the wrong process. */
        for (unsigned i = 0; i < tape->count; ++i) {
            iw_engine_input(t.link.engine[1 - tape->packet[i].to], t.link.now, tape->packet[i].data,
                            tape->packet[i].length);
        }
        assert_int_equal(count->segments_in, segments);
        assert_int_equal(target[0], 0);
        assert_int_equal(iw_engine_poll(t.link.engine[1], &c, 1), 0);
        link_run(&t.link, t.link.now + 10 * MS);
        if (0 == stage) {
            iw_peer_remove(t.a);
            link_run(&t.link, t.link.now + 10 * MS);
            expect(&t.link, 1, IW_PEER_DOWN, IW_CLOSED, &c);
        } else if (1 == stage) {
            iw_peer_remove(t.b);
            t.b = link_peer(&t.link, 1, 0, NULL);
        } else if (2 == stage) {
            /* And the next connection works. */
            t.a = link_peer(&t.link, 0, 1, NULL);
            assert_int_equal(send_bytes(t.a, "x", 1, IW_INLINE | IW_QUIET), IW_OK);
            expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
            link_run(&t.link, t.link.now + 10 * MS);
        }
    }
    for (unsigned i = 0; i < tape->count; ++i) {
        free(tape->packet[i].data);
    }
    free(tape);
    link_fini(&t.link);
}

/* Any single bit of any datagram changed: refused, and not by luck. */
static void every_changed_bit_is_noticed(void **state)
{
    (void) state;
    pair_t t;
    tape_t *tape = must_alloc(sizeof(*tape));
    uint8_t data[600], buffer[4][1024];
    pair_init(&t, NULL, 16);
    t.link.tap = record;
    t.link.tap_context = tape;
    t.link.cut[0] = true; /* nothing arrives by itself */
    fill(data, 4, sizeof(data));
    for (int i = 0; i < 4; ++i) {
        post_one(&t.link, 1, buffer[i], 1024);
    }
    assert_int_equal(send_bytes(t.a, data, sizeof(data), IW_QUIET), IW_OK);
    link_drain(&t.link);
    assert_int_equal(tape->count, 1);
    link_packet_t *k = &tape->packet[0];
    const iw_counters_t *c = iw_engine_counters(t.link.engine[1]);
    for (size_t bit = 0; bit < 8 * k->length; ++bit) {
        k->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
        iw_engine_input(t.link.engine[1], t.link.now, k->data, k->length);
        k->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
    }
    for (size_t length = 0; length < k->length; ++length) {
        iw_engine_input(t.link.engine[1], t.link.now, k->data, length);
    }
    assert_int_equal(c->segments_in, 0);
    assert_int_equal(iw_receives_free(t.link.engine[1]), 4);
    assert_int_equal(c->packets_in, 9 * k->length);
    assert_int_equal(c->refused_length + c->refused_version + c->refused_connection + c->refused_tag
                         + c->refused_unknown,
                     9 * k->length);
    iw_engine_input(t.link.engine[1], t.link.now, k->data, k->length);
    assert_int_equal(c->segments_in, 1);
    free(k->data);
    free(tape);
    link_fini(&t.link);
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
    /* Told anew, the process can talk to it. */
    iw_peer_remove(t.b);
    t.b = link_peer(&t.link, 1, 0, NULL);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    assert_memory_equal(c.context, "second", 7);
    link_fini(&t.link);
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

static void unreliable_datagrams(void **state)
{
    (void) state;
    enum { MANY = 1000 };
    const iw_fault_rates_t rates = {.drop = 200000, .duplicate = 200000, .corrupt = 50000};
    pair_t t;
    uint8_t buffer[32][64], big[IW_DATAGRAM_MIN] = {0};
    iw_completion_t c;
    uint32_t got = 0, complete = 0;
    bool seen[MANY] = {false};
    pair_init(&t, &rates, 19);
    struct iovec too_long = {big, sizeof(big)};
    assert_int_equal(iw_post_datagram(t.a, &too_long, 1, 0, NULL), IW_TOO_LONG);
    for (int i = 0; i < 32; ++i) {
        post_one(&t.link, 1, buffer[i], 64);
    }
    for (uint32_t i = 0; i < MANY; ++i) {
        struct iovec piece = {&i, sizeof(i)};
        assert_int_equal(iw_post_datagram(t.a, &piece, 1, IW_INLINE, NULL), IW_OK);
        while (wait_completion(&t.link, 0, &c, 20000)) {
            complete += IW_SENT == c.what;
        }
        while (1 == iw_engine_poll(t.link.engine[1], &c, 1)) {
            uint32_t number;
            assert_int_equal(c.what, IW_RECEIVED_UD);
            memcpy(&number, c.context, sizeof(number));
            assert_true(number <= i && !seen[number]); /* at most once */
            seen[number] = true;
            ++got;
            post_one(&t.link, 1, c.context, 64);
        }
    }
    assert_int_equal(complete, MANY);
    assert_in_range(got, MANY / 2, MANY * 9 / 10);
    assert_int_equal(iw_engine_counters(t.link.engine[0])->segments_resent, 0);
    link_fini(&t.link);
}

/* Numbers that say what they must: everything sent is accounted for. */
static void counters_add_up(void **state)
{
    (void) state;
    const iw_fault_rates_t rates = {
        .drop = 100000, .duplicate = 100000, .reorder = 100000, .corrupt = 20000};
    link_t l;
    run_exchange(&rates, 20, 300, 60 * S, &l);
    link_run(&l, l.now + S);
    for (unsigned i = 0; i < 2; ++i) {
        const iw_counters_t *mine = iw_engine_counters(l.engine[i]);
        const iw_counters_t *its = iw_engine_counters(l.engine[1 - i]);
        assert_int_equal(mine->segments_out, its->segments_in);
        assert_true(its->segments_twice <= mine->segments_resent);
        assert_true(mine->acks_in <= its->acks_out);
    }
    link_fini(&l);
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
    assert_true(each <= 3200);
    link_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives_in_order),
        cmocka_unit_test(faults_of_every_rate),
        cmocka_unit_test(faults_with_hardly_any_memory),
        cmocka_unit_test(headers_before_the_data),
        cmocka_unit_test(writes_are_in_place_before_the_send),
        cmocka_unit_test(reads_bring_data_and_hold_back_fenced_sends),
        cmocka_unit_test(reads_overtake_writes_and_no_fence),
        cmocka_unit_test(refused_access_ends_the_connection),
        cmocka_unit_test(memory_taken_back_during_a_read),
        cmocka_unit_test(memory_taken_back_after_a_read),
        cmocka_unit_test(memory_at_rest_after_a_read),
        cmocka_unit_test(waits_for_receive_buffers),
        cmocka_unit_test(quota_leaves_buffers_for_others),
        cmocka_unit_test(limit_event_comes_once_for_each_arming),
        cmocka_unit_test(a_dead_peer_becomes_an_error_in_time),
        cmocka_unit_test(being_stopped_kills_nobody),
        cmocka_unit_test(a_clock_that_jumps_kills_nobody),
        cmocka_unit_test(a_clock_that_jumps_while_waiting),
        cmocka_unit_test(buffers_come_after_minutes),
        cmocka_unit_test(everything_for_a_dead_peer_ends_once),
        cmocka_unit_test(a_lost_tail_is_found_soon),
        cmocka_unit_test(nobody_there_is_dead_too),
        cmocka_unit_test(a_peer_that_comes_back),
        cmocka_unit_test(datagrams_grow_to_what_the_path_carries),
        cmocka_unit_test(a_black_hole_is_found),
        cmocka_unit_test(replays_do_nothing),
        cmocka_unit_test(every_changed_bit_is_noticed),
        cmocka_unit_test(a_restarted_process_is_another_one),
        cmocka_unit_test(unknown_peers_are_asked_for),
        cmocka_unit_test(unreliable_datagrams),
        cmocka_unit_test(counters_add_up),
        cmocka_unit_test(memory_of_a_peer),
        cmocka_unit_test(memory_of_a_peer_that_talked),
    };
    return cmocka_run_group_tests_name("iw_engine", tests, NULL, NULL);
}
