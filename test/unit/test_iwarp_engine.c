/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Transfers between engines on a simulated network (iw_engine.h): exactly once, in order, whatever the network does and
 * however long its datagrams may be; who finds no receive buffer waits. Bounded memory and time. */
#include "iw_exchange.h"
#include "iw_internal.h"
#include "iw_memory.h"
#include "iw_rtt.h"

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
        for (int time = 0; time < 3;
             ++time) { /* what did not leave was not refused: it needs no copy */
            const unsigned n = iw_engine_output(l.engine[0], l.now, k, 4);
            assert_true(n >= 1);
            assert_int_equal(k[0].count, length <= 16384 ? 1 : 2);
            iw_engine_unsent(l.engine[0], k, n);
        }
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
    uint32_t stag = iw_register(t.link.engine[1], target, SIZE, IW_REMOTE_WRITE, NULL);
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
    uint32_t stag = iw_register(t.link.engine[1], source, SIZE * READS, IW_REMOTE_READ, NULL);
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
        iw_register(t.link.engine[1], sink, SIZE, IW_REMOTE_READ | IW_REMOTE_WRITE, NULL);
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

/* Small messages pass a large write; what is to be behind it is, whatever is lost. */
static void messages_pass_a_bulk_write(void **state)
{
    (void) state;
    enum { SIZE = 4000000, NOTES = 4 };
    static char name;
    for (unsigned seed = 1; seed <= 8; ++seed) {
        const iw_fault_rates_t rates = {
            .drop = seed * 10000, .reorder = seed * 20000, .duplicate = 10000, .delay_ns = MS};
        pair_t t;
        uint8_t *source = must_alloc(SIZE), *sink = must_alloc(SIZE), note[NOTES][8] = {{0}};
        pair_init(&t, &rates, seed);
        const uint32_t stag = iw_register(t.link.engine[1], sink, SIZE, IW_REMOTE_WRITE, NULL);
        const struct iovec piece = {source, SIZE};
        iw_completion_t c;
        fill(source, seed, SIZE);
        for (unsigned i = 0; i < NOTES; ++i) {
            post_one(&t.link, 1, note[i], sizeof(note[i]));
        }
        assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, IW_BULK, &name), IW_OK);
        assert_int_equal(send_bytes(t.a, "behind", 7, IW_INLINE | IW_BEHIND | IW_QUIET), IW_OK);
        assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, IW_BULK | IW_QUIET, NULL), IW_OK);
        assert_int_equal(send_bytes(t.a, "one", 4, IW_INLINE | IW_QUIET), IW_OK);
        assert_int_equal(send_bytes(t.a, "two", 4, IW_INLINE | IW_QUIET), IW_OK);
        static const char *const order[] = {"one", "two", "behind"};
        for (unsigned i = 0; i < 3; ++i) {
            expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
            assert_string_equal(c.context, order[i]);
            assert_int_equal(filled(sink, seed, SIZE), 2 == i);
        }
        expect(&t.link, 0, IW_WRITTEN, IW_OK, &c);
        assert_ptr_equal(c.context, &name);
        /* The queue is empty in the end: nothing is left to be behind. */
        assert_int_equal(send_bytes(t.a, "last", 5, IW_INLINE | IW_BEHIND | IW_QUIET), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        assert_string_equal(c.context, "last");
        link_fini(&t.link);
        free(source);
        free(sink);
    }
}

/* Both queues have messages of several segments. */
static void no_message_between_segments(void **state)
{
    (void) state;
    enum { LONG = 9000, SENDS = 20, SIZE = SENDS * LONG };
    pair_t t;
    uint8_t *source = must_alloc(SIZE), *sink = must_alloc(SIZE), *notes = must_alloc(2 * SIZE);
    pair_init(&t, NULL, 5);
    const uint32_t stag = iw_register(t.link.engine[1], sink, SIZE, IW_REMOTE_WRITE, NULL);
    iw_completion_t c;
    fill(source, 1, SIZE);
    for (unsigned i = 0; i < 2 * SENDS; ++i) {
        post_one(&t.link, 1, notes + i * LONG, LONG);
    }
    for (unsigned i = 0; i < SENDS; ++i) {
        const struct iovec piece = {source, 100 + i * 700};
        const unsigned length = LONG - i * 300;
        assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, IW_BULK | IW_QUIET, NULL), IW_OK);
        assert_int_equal(send_bytes(t.a, source, length, IW_BEHIND | IW_QUIET), IW_OK);
        assert_int_equal(send_bytes(t.a, source, LONG, IW_QUIET), IW_OK);
    }
    unsigned behind = 0;
    for (unsigned i = 0; i < 2 * SENDS; ++i) {
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        assert_memory_equal(c.context, source, c.length);
        behind += behind < SENDS && LONG - behind * 300 == c.length;
    }
    assert_int_equal(behind, SENDS);
    link_fini(&t.link);
    free(source);
    free(sink);
    free(notes);
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

/* A peer had no buffer for the first message, and what came behind that was lost: it is asked again all the same. */
static void no_buffer_and_then_loss(void **state)
{
    (void) state;
    enum { MANY = 25 };
    pair_t t;
    iw_completion_t c;
    static uint8_t buffer[MANY + 1][64];
    pair_init(&t, NULL, 21);
    t.link.latency = 5 * MS;
    post_one(&t.link, 1, buffer[0], sizeof(buffer[0]));
    assert_int_equal(send_bytes(t.a, "hello", 5, IW_INLINE | IW_QUIET), IW_OK);
    expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    link_run(&t.link, t.link.now + S);
    assert_int_equal(send_bytes(t.a, "first", 5, IW_INLINE | IW_QUIET), IW_OK);
    while (0 == iw_engine_counters(t.link.engine[1])->rnr_out) {
        assert_true(link_step(&t.link, t.link.now + S));
    }
    t.link.deaf[1] = true;
    for (unsigned i = 1; i < MANY; ++i) {
        assert_int_equal(send_bytes(t.a, "later", 5, IW_INLINE | IW_QUIET), IW_OK);
    }
    while (0 == iw_engine_counters(t.link.engine[0])->rnr_in) {
        assert_true(link_step(&t.link, t.link.now + S));
    }
    link_run(&t.link, t.link.now + 6 * MS);
    assert_true(t.a->path.cc.in_flight > MANY);
    t.link.deaf[1] = false;
    t.link.deaf[0] = true; /* nor does it hear that there are buffers */
    for (unsigned i = 0; i < MANY; ++i) {
        post_one(&t.link, 1, buffer[i], sizeof(buffer[i]));
    }
    link_run(&t.link, t.link.now + 6 * MS);
    t.link.deaf[0] = false;
    for (unsigned i = 0; i < MANY; ++i) {
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
    }
    assert_true(iw_engine_counters(t.link.engine[0])->probe_timeouts < 4); /* and not one for each */
    link_fini(&t.link);
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

/* An answer acknowledges the question; who has nothing more to say is not asked for datagrams, which would be on the way
 * to whoever waits for the answer. */
static void an_answer_asks_for_nothing(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    uint8_t data[64] = {0}, buffer[2][64];
    pair_init(&t, NULL, 40);
    for (int i = 0; i < 20; ++i) {
        for (unsigned to = 1; to < 2; --to) {
            post_one(&t.link, to, buffer[to], 64);
            assert_int_equal(send_bytes(0 == to ? t.b : t.a, data, 64, 0), IW_OK);
            link_drain(&t.link);
            while (0 == iw_engine_poll(t.link.engine[to], &c, 1)) {
                assert_true(link_step(&t.link, t.link.now + MS));
            }
            while (IW_RECEIVED != c.what) { /* its own send was acknowledged in the same datagram */
                assert_int_equal(c.what, IW_SENT);
                assert_int_equal(iw_engine_poll(t.link.engine[to], &c, 1), 1);
            }
            if (i >= 10) { /* the path and the round trip are known */
                assert_false(iw_engine_has_output(t.link.engine[to]));
            }
        }
    }
    link_fini(&t.link);
}

/* What leaves a pair of which every message is cut: datagrams of the path's size, or the last of a message. */
typedef struct sizes {
    unsigned full, others; /* since the last check, from engine 0 */
    size_t most;
} sizes_t;

#define ETHERNET 1472

static void ethernet(iw_config_t *c)
{
    c->datagram_max = ETHERNET;
}

static void note_size(void *context, unsigned from, const uint8_t *data, size_t length)
{
    sizes_t *s = context;
    (void) data;
    s->most = length > s->most ? length : s->most;
    if (0 == from && length == ETHERNET) {
        ++s->full;
    } else if (0 == from) {
        ++s->others;
    }
}

/* A message and its answer, each with the acknowledgement of the other, in datagrams of one size but the last: so that
 * they are one train for the kernel. */
static void what_is_cut_has_one_size(void **state)
{
    (void) state;
    enum { LENGTH = 4096, ROUNDS = 40, KNOWN = 20 };
    pair_t t;
    sizes_t sizes = {0};
    iw_completion_t c;
    uint8_t *data = must_alloc(LENGTH), *buffer[2] = {must_alloc(LENGTH), must_alloc(LENGTH)};
    link_tune = ethernet;
    pair_init(&t, NULL, 41);
    t.link.tap = note_size;
    t.link.tap_context = &sizes;
    for (int i = 0; i < ROUNDS; ++i) {
        sizes.full = sizes.others = 0;
        for (unsigned to = 1; to < 2; --to) {
            fill(data, (uint32_t) i, LENGTH);
            post_one(&t.link, to, buffer[to], LENGTH);
            assert_int_equal(send_bytes(0 == to ? t.b : t.a, data, LENGTH, 0), IW_OK);
            do {
                assert_true(wait_completion(&t.link, to, &c, S));
            } while (IW_RECEIVED != c.what);
            assert_true(filled(buffer[to], (uint32_t) i, LENGTH));
        }
        if (i >= KNOWN) {
            assert_int_equal(sizes.full, 2);
            assert_int_equal(sizes.others, 1);
        }
    }
    link_fini(&t.link);
    link_tune = NULL;
    free(data);
    free(buffer[0]);
    free(buffer[1]);
}

/* Who waits for the end of sends does not wait for an acknowledgement that the peer delays; one is enough for all that left
 * together, whatever left behind them. */
static void one_acknowledgement_for_those_who_wait(void **state)
{
    enum { SENDS = 4 };
    (void) state;
    for (unsigned behind = 0; behind < 2; ++behind) {
        pair_t t;
        uint8_t buffer[SENDS + 2][64], answer[64];
        iw_completion_t c;
        pair_init(&t, NULL, 44);
        for (unsigned i = 0; i < SENDS + 2; ++i) {
            post_one(&t.link, 1, buffer[i], sizeof(buffer[i]));
        }
        post_one(&t.link, 0, answer, sizeof(answer));
        assert_int_equal(send_bytes(t.a, "first", 5, IW_INLINE | IW_QUIET), IW_OK);
        expect(&t.link, 1, IW_RECEIVED, IW_OK, &c);
        assert_int_equal(send_bytes(t.b, "answer", 6, IW_INLINE | IW_QUIET), IW_OK);
        expect(&t.link, 0, IW_RECEIVED, IW_OK, &c);
        link_run(&t.link, t.link.now + 10 * MS);

        const uint64_t alone = iw_engine_counters(t.link.engine[1])->acks_alone;
        const uint64_t delay = t.link.engine[1]->config.ack_delay_ns, begin = t.link.now;
        for (unsigned i = 0; i < SENDS; ++i) {
            assert_int_equal(send_bytes(t.a, "awaited", 7, IW_PROMPT), IW_OK);
        }
        if (0 != behind) {
            assert_int_equal(send_bytes(t.a, "quiet", 5, IW_INLINE | IW_QUIET), IW_OK);
        }
        for (unsigned i = 0; i < SENDS; ++i) {
            expect(&t.link, 0, IW_SENT, IW_OK, &c);
        }
        assert_true(t.link.now - begin < delay);
        assert_int_equal(iw_engine_counters(t.link.engine[1])->acks_alone, alone + 1);
        link_fini(&t.link);
    }
}

/* What is sent again has the length that it was cut to, perhaps without an acknowledgement: one that does not fit any
 * more goes by itself. */
static void what_is_sent_again_fits(void **state)
{
    (void) state;
    enum { LENGTH = 40000, ROUNDS = 100 };
    iw_fault_rates_t lossy = {0};
    pair_t t;
    sizes_t sizes = {0};
    assert_true(iw_fault_parse(&lossy, "drop=0.2,reorder=0.1"));
    uint8_t *data = must_alloc(LENGTH), *buffer[2] = {must_alloc(LENGTH), must_alloc(LENGTH)};
    link_tune = ethernet;
    pair_init(&t, &lossy, 42);
    t.link.tap = note_size;
    t.link.tap_context = &sizes;
    for (int i = 0; i < ROUNDS; ++i) {
        /* Both at once: each has much to acknowledge; now and then one has no buffer, and says so. */
        const bool refuses = 0 == i % 4;
        assert_int_equal(send_bytes(t.b, data, LENGTH, IW_QUIET), IW_OK);
        if (refuses) {
            link_run(&t.link, t.link.now + MS / 10);
        } else {
            post_one(&t.link, 0, buffer[0], LENGTH);
        }
        post_one(&t.link, 1, buffer[1], LENGTH);
        assert_int_equal(send_bytes(t.a, data, LENGTH, IW_QUIET), IW_OK);
        if (refuses) {
            link_run(&t.link, t.link.now + MS);
            post_one(&t.link, 0, buffer[0], LENGTH);
        }
        for (unsigned to = 0; to < 2; ++to) {
            iw_completion_t c;
            expect(&t.link, to, IW_RECEIVED, IW_OK, &c);
        }
    }
    assert_true(iw_engine_counters(t.link.engine[0])->segments_resent > 100);
    assert_in_range(sizes.most, 1, ETHERNET);
    link_fini(&t.link);
    link_tune = NULL;
    free(data);
    free(buffer[0]);
    free(buffer[1]);
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

static void path_carries(size_t mtu, uint64_t least, uint64_t most)
{
    enum { SIZE = 4000000 };
    pair_t t;
    uint8_t *source = must_alloc(SIZE), *target = must_alloc(SIZE);
    iw_completion_t c;
    pair_init(&t, NULL, 13);
    t.link.mtu = mtu;
    fill(source, 2, SIZE);
    uint32_t stag = iw_register(t.link.engine[1], target, SIZE, IW_REMOTE_WRITE, NULL);
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
    uint32_t stag = iw_register(t.link.engine[1], target, SIZE, IW_REMOTE_WRITE, NULL);
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

/* Large datagrams are acknowledged by their bytes, more often where little can be in flight, others by their number. */
static uint32_t space;
static uint16_t longest;

static void tune_space(iw_config_t *c)
{
    c->datagram_max = longest;
    c->receive_space = space;
}

static uint64_t acks_for(uint16_t datagram, uint32_t bytes_buffered, uint32_t size)
{
    pair_t t;
    iw_completion_t c;
    uint8_t *from = must_alloc(size), *to = must_alloc(size);
    struct iovec piece = {from, size};
    space = bytes_buffered;
    longest = datagram;
    link_tune = tune_space;
    pair_init(&t, NULL, 1);
    link_tune = NULL;
    const uint32_t stag = iw_register(t.link.engine[1], to, size, IW_REMOTE_WRITE, NULL);
    uint64_t before = 0;
    for (int round = 0; round < 3; ++round) { /* after the first two the path is known */
        before = iw_engine_counters(t.link.engine[1])->acks_out;
        assert_int_equal(iw_post_write(t.a, &piece, 1, stag, 0, 0, NULL), IW_OK);
        expect(&t.link, 0, IW_WRITTEN, IW_OK, &c);
    }
    const uint64_t acks = iw_engine_counters(t.link.engine[1])->acks_out - before;
    link_fini(&t.link);
    free(from);
    free(to);
    return acks;
}

static void large_ones_are_acknowledged_by_bytes(void **state)
{
    (void) state;
    enum { SIZE = 8 << 20 };
    const uint64_t few = acks_for(IW_DATAGRAM_MAX, 16 << 20, SIZE);
    const uint64_t many = acks_for(IW_DATAGRAM_MAX, 400000, SIZE);
    assert_in_range(few, SIZE / (2 * IW_ACK_BYTES), 2 * SIZE / IW_ACK_BYTES);
    assert_true(many > 2 * few);
}

static void small_ones_are_acknowledged_by_number(void **state)
{
    (void) state;
    enum { SIZE = 8 << 20, DATAGRAM = 1472, PACKETS = SIZE / DATAGRAM };
    const uint64_t acks = acks_for(DATAGRAM, 16 << 20, SIZE);
    assert_in_range(acks, PACKETS / IW_ACK_PACKETS, 5 * PACKETS / (4 * IW_ACK_PACKETS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_ones_are_acknowledged_by_bytes),
        cmocka_unit_test(small_ones_are_acknowledged_by_number),
        cmocka_unit_test(everything_arrives_in_order),
        cmocka_unit_test(faults_of_every_rate),
        cmocka_unit_test(faults_with_hardly_any_memory),
        cmocka_unit_test(headers_before_the_data),
        cmocka_unit_test(writes_are_in_place_before_the_send),
        cmocka_unit_test(reads_bring_data_and_hold_back_fenced_sends),
        cmocka_unit_test(reads_overtake_writes_and_no_fence),
        cmocka_unit_test(messages_pass_a_bulk_write),
        cmocka_unit_test(no_message_between_segments),
        cmocka_unit_test(waits_for_receive_buffers),
        cmocka_unit_test(no_buffer_and_then_loss),
        cmocka_unit_test(quota_leaves_buffers_for_others),
        cmocka_unit_test(limit_event_comes_once_for_each_arming),
        cmocka_unit_test(buffers_come_after_minutes),
        cmocka_unit_test(a_lost_tail_is_found_soon),
        cmocka_unit_test(an_answer_asks_for_nothing),
        cmocka_unit_test(what_is_cut_has_one_size),
        cmocka_unit_test(one_acknowledgement_for_those_who_wait),
        cmocka_unit_test(what_is_sent_again_fits),
        cmocka_unit_test(datagrams_grow_to_what_the_path_carries),
        cmocka_unit_test(a_black_hole_is_found),
        cmocka_unit_test(counters_add_up),
    };
    return cmocka_run_group_tests_name("iw_engine", tests, NULL, NULL);
}
