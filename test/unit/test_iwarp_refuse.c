/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A peer that has the key and still sends what cannot be: refused, and no byte of memory changes.
 * Datagrams are made by hand here; engine 0 is the victim, engine 1 only lends its name. */
#include "iw_wicked.h"

static void messages_too_long(void **state)
{
    (void) state;
    static const struct {
        uint32_t mo[2];
        size_t length[2];
        bool early; /* the second part comes first */
    } cases[] = {
        {{0, 0}, {0, SIZE + 1}, true},         {{0, SIZE}, {SIZE, 1}, false},
        {{0, SIZE - 1}, {SIZE - 1, 2}, false}, {{0, UINT32_MAX}, {8, 8}, false},
        {{0, UINT32_MAX - 7}, {8, 8}, false},  {{0, SIZE}, {8, 1}, true},
        {{0, 100000}, {8, 8}, true},           {{0, 8}, {8, SIZE}, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        wicked_t w;
        wicked_init(&w);
        if (!cases[i].early) {
            send_part(&w, 0, 1, cases[i].mo[0], false, cases[i].length[0]);
        }
        send_part(&w, cases[i].early ? 3 : 1, 1, cases[i].mo[1], true, cases[i].length[1]);
        expect_end(&w, IW_TERM_DDP_TOO_LONG, 0);
        wicked_fini(&w);
    }
    wicked_t w; /* all at once, in order */
    wicked_init(&w);
    send_part(&w, 0, 1, 0, true, SIZE);
    send_part(&w, 1, 2, 0, true, SIZE + 1);
    expect_end(&w, IW_TERM_DDP_TOO_LONG, 1);
    wicked_fini(&w);
}

static void parts_that_do_not_fit_together(void **state)
{
    (void) state;
    wicked_t w;
    wicked_init(&w); /* the same part twice: one is missing at the end */
    send_part(&w, 0, 1, 0, false, 8);
    send_part(&w, 1, 1, 0, false, 8);
    send_part(&w, 2, 1, 24, true, 8);
    expect_end(&w, IW_TERM_DDP_MO, 0);
    wicked_fini(&w);
    wicked_init(&w); /* a hole */
    send_part(&w, 0, 1, 0, false, 8);
    send_part(&w, 1, 1, 16, true, 8);
    expect_end(&w, IW_TERM_DDP_MO, 0);
    wicked_fini(&w);
    wicked_init(&w); /* beyond the last part, and two last parts */
    send_part(&w, 1, 1, 8, true, 8);
    send_part(&w, 2, 1, 16, false, 8);
    expect_end(&w, IW_TERM_DDP_MO, 0);
    wicked_fini(&w);
    wicked_init(&w);
    send_part(&w, 1, 1, 8, true, 8);
    send_part(&w, 2, 1, 16, true, 8);
    expect_end(&w, IW_TERM_DDP_MO, 0);
    wicked_fini(&w);
    wicked_init(&w); /* a last part before what is there */
    send_part(&w, 1, 1, 32, false, 8);
    send_part(&w, 2, 1, 0, true, 4);
    expect_end(&w, IW_TERM_DDP_MO, 0);
    wicked_fini(&w);
}

static void message_numbers(void **state)
{
    (void) state;
    const uint32_t wrong[] = {0, 2, UINT32_MAX, 0x80000000, 1 + IW_SSN_WINDOW};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        wicked_t w;
        wicked_init(&w);
        send_part(&w, 0, wrong[i], 0, true, 8); /* 2: its turn comes before that of 1 */
        expect_end(&w, IW_TERM_DDP_MSN, 0);
        wicked_fini(&w);
    }
    for (uint32_t msn = 0; msn < 3; msn += 2) {
        wicked_t w;
        wicked_init(&w);
        read_request(&w, 0, msn, 8);
        expect_end(&w, IW_TERM_DDP_MSN, 0);
        wicked_fini(&w);
    }
}

static void more_reads_than_agreed(void **state)
{
    (void) state;
    wicked_t w;
    wicked_init(&w);
    read_request(&w, 0, 1, MEMORY);
    read_request(&w, 1, 2, MEMORY);
    assert_int_equal(w.peer->state, IW_ACTIVE);
    read_request(&w, 2, 3, MEMORY);
    expect_end(&w, IW_TERM_READS, 0);
    wicked_fini(&w);
}

static void tagged_data_without_right(void **state)
{
    (void) state;
    wicked_t w;
    wicked_init(&w);
    tagged(&w, 0, IW_OP_WRITE, w.stag, MEMORY - 4, 8);
    expect_end(&w, IW_TERM_BOUNDS, 0);
    wicked_fini(&w);
    wicked_init(&w); /* memory that may be written is no sink of a read */
    tagged(&w, 0, IW_OP_READ_RESPONSE, w.stag, 0, 8);
    expect_end(&w, IW_TERM_RIGHTS, 0);
    for (int i = 0; i < MEMORY; ++i) {
        assert_int_equal(w.memory[i], 0x5a);
    }
    wicked_fini(&w);
    /* And a sink cannot be written, nor used when its read is over. */
    for (int over = 0; over < 2; ++over) {
        uint8_t sink[16];
        wicked_init(&w);
        memset(sink, 0x5a, sizeof(sink));
        send_part(&w, 0, 1, 0, true, 1);
        assert_int_equal(iw_post_read(w.peer, sink, 8, 5, 0, 0, NULL), IW_OK);
        uint32_t stag = SPEC_ENTRY(w.peer->tx.requests.next, iw_request_t, all)->local_stag;
        if (over) {
            iw_completion_t c;
            link_drain(&w.link);
            tagged(&w, 1, IW_OP_READ_RESPONSE, stag, 0, 8);
            assert_int_equal(sink[0], 0x77);
            memset(sink, 0x5a, sizeof(sink));
            tagged(&w, 2, IW_OP_READ_RESPONSE, stag, 0, 8);
            assert_int_equal(iw_engine_poll(w.victim, &c, 1), 1);
        } else {
            tagged(&w, 1, IW_OP_WRITE, stag, 0, 8);
        }
        expect_end(&w, over ? IW_TERM_STAG : IW_TERM_RIGHTS, 1);
        for (size_t i = 0; i < sizeof(sink); ++i) {
            assert_int_equal(sink[i], 0x5a);
        }
        wicked_fini(&w);
    }
}

typedef struct said {
    uint32_t largest, next;
    uint16_t ranges;
    uint16_t range[3][2];
} said_t;

static void acknowledge(wicked_t *w, const said_t *s)
{
    uint8_t data[256];
    size_t n = start(w, data, IW_CONTROL, IW_F_ACK);
    iw_ack_t a = {.largest = iw_be32(s->largest),
                  .next = iw_be32(s->next),
                  .window = iw_be32(100000),
                  .ranges = (uint8_t) s->ranges};
    memcpy(data + n, &a, sizeof(a));
    n += sizeof(a);
    for (unsigned i = 0; i < s->ranges; ++i) {
        iw_range_t r = {iw_be16(s->range[i][0]), iw_be16(s->range[i][1])};
        memcpy(data + n, &r, sizeof(r));
        n += sizeof(r);
    }
    give(w, data, n);
}

/* Five segments are out, numbers 1 to 5. */
static void acknowledgements_of_what_was_never_sent(void **state)
{
    (void) state;
    const said_t wrong[] = {
        {6, 0, 1, {{0, 1}}},          {0xffffffff, 0, 1, {{0, 1}}},
        {0x80000000, 0, 1, {{0, 1}}}, {5, 6, 1, {{0, 1}}},
        {5, 100, 1, {{0, 1}}},        {5, 0, 1, {{0, 0}}},
        {5, 0, 1, {{1, 1}}},          {5, 0, 1, {{0, 7}}},
        {5, 0, 2, {{0, 1}, {0, 1}}},  {5, 0, 2, {{0, 1}, {5, 1}}},
        {5, 0, 2, {{0, 1}, {2, 4}}},  {5, 0, 2, {{0, 1}, {65535, 65535}}},
    };
    wicked_t w;
    wicked_init(&w);
    send_part(&w, 0, 1, 0, true, 1);
    for (int i = 0; i < 5; ++i) {
        struct iovec piece = {w.memory, 8};
        assert_int_equal(iw_post_send(w.peer, &piece, 1, 0, NULL), IW_OK);
    }
    link_drain(&w.link);
    uint64_t before = w.peer->path.cc.in_flight;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        acknowledge(&w, &wrong[i]);
        assert_int_equal(iw_engine_counters(w.victim)->refused_ack, i + 1);
        assert_true(w.peer->path.cc.in_flight == before);
        assert_int_equal(w.peer->tx.una_ssn, 0);
    }
    const said_t right = {5, 5, 2, {{0, 1}, {2, 2}}};
    acknowledge(&w, &right);
    assert_int_equal(w.peer->tx.una_ssn, 5);
    assert_true(0 == w.peer->path.cc.in_flight);
    wicked_fini(&w);
}

/* Numbers far ahead, of packets and of segments. */
static void numbers_beyond_the_window(void **state)
{
    (void) state;
    wicked_t w;
    wicked_init(&w);
    send_part(&w, 0, 1, 0, true, 1);
    send_part(&w, IW_SSN_WINDOW + 1, 2, 0, true, 1);
    send_part(&w, 0x80000000, 2, 0, true, 1);
    assert_int_equal(iw_engine_counters(w.victim)->segments_in, 1);
    w.pn = w.lag = IW_SEEN + 10; /* it still waits for number 11 */
    send_part(&w, 1, 2, 0, true, 1);
    w.pn = 3;
    w.lag = 5; /* and for a number before the first */
    send_part(&w, 1, 2, 0, true, 1);
    assert_int_equal(iw_engine_counters(w.victim)->segments_in, 1);
    assert_int_equal(iw_engine_counters(w.victim)->refused_far, 4);
    w.pn = IW_SEEN;
    w.lag = IW_SEEN - 1;
    send_part(&w, 1, 2, 0, true, 1);
    assert_int_equal(iw_engine_counters(w.victim)->segments_in, 2);
    assert_int_equal(w.peer->state, IW_ACTIVE);
    wicked_fini(&w);
}

static iw_peer_t *anybody(void *context, iw_engine_t *engine, uint64_t identity)
{
    iw_address_t a;
    iw_key_t key;
    unsigned *asked = context;
    ++*asked;
    link_address(1, &a);
    link_key(1, &key);
    return iw_peer_add(engine, identity, &a, &key, NULL);
}

/* A hello of a connection that has been ended does not bring the peer back. */
static void an_old_hello_does_not_come_back(void **state)
{
    (void) state;
    wicked_t w;
    uint8_t data[256], buffer[8];
    unsigned asked = 0;
    iw_config_t config;
    wicked_init(&w);
    iw_engine_destroy(w.link.engine[0]);
    link_config(0, &config);
    config.unknown = anybody;
    config.context = &asked;
    w.victim = w.link.engine[0] = iw_engine_create(&config);
    iw_post_receive(w.victim, buffer, sizeof(buffer), NULL);
    struct iw_peer nobody = {.conn = 0};
    w.peer = &nobody;
    size_t n = start(&w, data, IW_CONTROL, 0);
    give(&w, data, n);
    assert_int_equal(asked, 1);
    iw_known_t *k = iw_known_find(w.victim, 101);
    assert_non_null(k->peer);
    iw_peer_remove(k->peer);
    link_drain(&w.link);
    give(&w, data, n);
    assert_int_equal(asked, 1);
    assert_null(iw_known_find(w.victim, 101)->peer);
    wicked_fini(&w);
}

/* Packet numbers run ahead of one that is not acknowledged: what the receiver remembers is enough. */
static void numbers_stay_within_the_window(void **state)
{
    (void) state;
    enum { MANY = 3 * IW_SEEN };
    wicked_t w;
    struct iovec piece = {"x", 1};
    wicked_init(&w);
    iw_peer_t *other = link_peer(&w.link, 1, 0, NULL);
    assert_int_equal(iw_post_send(w.peer, &piece, 1, IW_INLINE, NULL), IW_OK);
    uint8_t buffer[16][8];
    for (int i = 0; i < 16; ++i) {
        iw_post_receive(w.link.engine[1], buffer[i], 8, buffer[i]);
    }
    link_run(&w.link, w.link.now + MS);
    w.link.cut[1] = true; /* this one is lost */
    assert_int_equal(iw_post_send(w.peer, &piece, 1, IW_INLINE, NULL), IW_OK);
    link_drain(&w.link);
    w.link.cut[1] = false;
    for (int i = 0; i < MANY; ++i) {
        w.peer->tx.ping_pending = true;
        iw_ready(w.peer);
        link_drain(&w.link);
        while (w.link.count > 0) {
            link_packet_t k = link_pop(&w.link);
            iw_engine_input(w.link.engine[k.to], w.link.now, k.data, k.length);
            free(k.data);
        }
    }
    assert_non_null(other);
    assert_true(w.peer->tx.next_pn > MANY);
    assert_int_equal(iw_engine_counters(w.link.engine[1])->refused_far, 0);
    wicked_fini(&w);
}

/* The same datagram once more. How many does the victim send for it? */
static uint64_t answers_to_a_copy(wicked_t *w, uint32_t ssn, uint32_t msn, size_t length)
{
    const iw_counters_t *c = iw_engine_counters(w->victim);
    const uint64_t before = c->packets_out;
    --w->pn;
    send_part(w, ssn, msn, 0, true, length);
    link_drain(&w->link);
    return c->packets_out - before;
}

/* What is recorded and sent again brings an answer once at most, even where its number was not accepted: for want of a
 * buffer, or because the connection had ended. A new one from the peer is answered as ever. */
static void copies_are_not_answered(void **state)
{
    (void) state;
    wicked_t w;
    const iw_counters_t *c;
    wicked_init(&w);
    c = iw_engine_counters(w.victim);
    for (uint32_t i = 0; i < BUFFERS; ++i) {
        send_part(&w, i, 1 + i, 0, true, 8);
    }
    send_part(&w, BUFFERS, 1 + BUFFERS, 0, true, 8);
    link_drain(&w.link);
    assert_int_equal(c->rnr_out, 1);
    for (int i = 0; i < 100; ++i) {
        assert_int_equal(answers_to_a_copy(&w, BUFFERS, 1 + BUFFERS, 8), 0);
    }
    uint64_t before = c->packets_out;
    send_part(&w, BUFFERS, 1 + BUFFERS, 0, true, 8);
    link_drain(&w.link);
    assert_int_equal(c->packets_out, before + 1);
    wicked_fini(&w);
    wicked_init(&w);
    c = iw_engine_counters(w.victim);
    send_part(&w, 0, 1, 0, true, SIZE + 1);
    link_drain(&w.link);
    assert_int_equal(w.peer->state, IW_DOWN);
    send_part(&w, 1, 2, 0, true, 8);
    link_drain(&w.link);
    before = c->packets_out;
    for (int i = 0; i < 100; ++i) {
        assert_int_equal(answers_to_a_copy(&w, 1, 2, 8), 0);
    }
    send_part(&w, 1, 2, 0, true, 8);
    link_drain(&w.link);
    assert_int_equal(c->packets_out, before + 1);
    assert_int_equal(c->refused_down, 102);
    wicked_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_too_long),
        cmocka_unit_test(parts_that_do_not_fit_together),
        cmocka_unit_test(message_numbers),
        cmocka_unit_test(more_reads_than_agreed),
        cmocka_unit_test(tagged_data_without_right),
        cmocka_unit_test(acknowledgements_of_what_was_never_sent),
        cmocka_unit_test(numbers_beyond_the_window),
        cmocka_unit_test(an_old_hello_does_not_come_back),
        cmocka_unit_test(numbers_stay_within_the_window),
        cmocka_unit_test(copies_are_not_answered),
    };
    return cmocka_run_group_tests_name("iw_refuse", tests, NULL, NULL);
}
