/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What an engine (iw_engine.h) guards against: memory is reached by whom it was granted, and only while it is; a datagram
 * counts once, and as it was sent. */
#include "iw_memory.h"
#include "iw_pair.h"

#include <sys/mman.h>

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
        uint32_t stag = iw_register(t.link.engine[1], memory, sizeof(memory), cases[i].rights, NULL);
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
    uint32_t stag = iw_register(t.link.engine[1], source, SIZE, IW_REMOTE_READ, NULL);
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
    iw_uses_t uses;
    enum { SIZE = 30000, READS = 300 };
    iw_uses_init(&uses, 0);
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
            stag = iw_register(t.link.engine[1], source, SIZE, IW_REMOTE_READ, guarded ? &uses : NULL);
        }
        iw_use_begins(&uses);
        assert_int_equal(iw_post_read(t.a, sink, SIZE, stag, 0, 0, sink), IW_OK);
        expect(&t.link, 0, IW_READ, IW_OK, &c);
        assert_true(filled(sink, i, SIZE));
        if (guarded) {
            iw_use_ends(&uses);
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

/* Two reads of one region, each of a half. The one that is complete first gives its half back, while the other keeps the region in use: what
 * was lost of the first is not sent again, what was lost of the other is, although the region alone does not tell which is which.
 * `always`: other uses end all the time, many within a round trip. */
static void halves_of_a_region(bool always)
{
    enum { HALF = 65536, ROUNDS = 150 };
    const iw_fault_rates_t rates = {.drop = 150000, .reorder = 100000, .delay_ns = MS};
    pair_t t;
    iw_uses_t uses;
    iw_uses_init(&uses, 0);
    uint8_t *source = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            *sink = must_alloc(2 * HALF), note[8];
    assert_true(MAP_FAILED != (void *) source);
    pair_init(&t, &rates, 12);
    const uint32_t stag = iw_register(t.link.engine[1], source, 2 * HALF, IW_REMOTE_READ, &uses);
    iw_completion_t c;
    for (uint32_t i = 0; i < ROUNDS; ++i) {
        fill(source, i, HALF);
        fill(source + HALF, i + 1, HALF);
        for (unsigned half = 0; half < 2; ++half) {
            iw_use_begins(&uses);
            assert_int_equal(iw_post_read(t.a, sink + half * HALF, HALF, stag, half * HALF, 0, sink + half * HALF), IW_OK);
        }
        for (unsigned done = 0, steps = 0; done < 2;) {
            const uint64_t until = t.link.now + 60 * S;
            while (0 == iw_engine_poll(t.link.engine[0], &c, 1)) {
                assert_true(link_step(&t.link, until));
                if (always && 0 == ++steps % 2) {
                    iw_use_begins(&uses);
                    iw_use_ends(&uses);
                }
            }
            assert_int_equal(c.what, IW_READ);
            assert_int_equal(c.status, IW_OK);
            const size_t half = c.context == sink ? 0 : 1;
            assert_true(filled(c.context, i + (uint32_t) half, HALF));
            iw_use_ends(&uses);
            assert_int_equal(mprotect(source + half * HALF, HALF, PROT_NONE), 0); /* whoever touches it now has had it */
            ++done;
        }
        iw_use_begins(&uses); /* a third one: the region stays in use, and what is read of it is gone */
        link_run(&t.link, t.link.now + i % 4 * 10 * MS);
        iw_use_ends(&uses);
        assert_int_equal(mprotect(source, 2 * HALF, PROT_READ | PROT_WRITE), 0);
    }
    post_one(&t.link, 1, note, sizeof(note));
    assert_int_equal(send_bytes(t.a, "alive", 6, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    assert_true(iw_engine_counters(t.link.engine[1])->probes_out > 0); /* it did come to that */
    link_fini(&t.link);
    munmap(source, 2 * HALF);
    free(sink);
}

static void a_half_that_was_read(void **state)
{
    (void) state;
    halves_of_a_region(false);
}

static void a_half_while_uses_end(void **state)
{
    (void) state;
    halves_of_a_region(true);
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
    uint32_t stag = iw_register(t.link.engine[1], target, sizeof(target), IW_REMOTE_WRITE, NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_access_ends_the_connection),
        cmocka_unit_test(memory_taken_back_during_a_read),
        cmocka_unit_test(memory_taken_back_after_a_read),
        cmocka_unit_test(memory_at_rest_after_a_read),
        cmocka_unit_test(a_half_that_was_read),
        cmocka_unit_test(a_half_while_uses_end),
        cmocka_unit_test(replays_do_nothing),
        cmocka_unit_test(every_changed_bit_is_noticed),
    };
    return cmocka_run_group_tests_name("iwarp_guard", tests, NULL, NULL);
}
