/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* iw_direct.h: payloads that are received where they probably belong. The simulated network of all other tests of the engine
 * (iw_link.h) does that too, and writes over every guess before each datagram. */
#include "iw_pair.h"

#include "iw_memory.h"

enum { ROOM = 600, SLOT_SIZE = 4096, CANARY = 64 };

/* ---- a datagram in three pieces ---- */

typedef struct sample {
    uint8_t flat[SLOT_SIZE];
    size_t prefix, length;
    uint32_t stag;
    uint64_t to;
    bool is_response;
} sample_t;

static void make(sample_t *s, rng_t *rng)
{
    const unsigned ranges = 1 + rng_below(rng, IW_RANGES_PIGGYBACK);
    const bool acks = rng_percent(rng, 50), refuses = acks && rng_percent(rng, 20);
    for (size_t i = 0; i < sizeof(s->flat); ++i) {
        s->flat[i] = (uint8_t) rng_next(rng);
    }
    iw_head_t head = {.version_type = IW_VERSION << 4 | IW_SEGMENT};
    head.flags = (uint8_t) ((acks ? IW_F_ACK : 0) | (refuses ? IW_F_RNR : 0)
                            | (rng_percent(rng, 20) ? IW_F_NOW : 0));
    memcpy(s->flat, &head, sizeof(head));
    s->prefix = sizeof(head);
    if (acks) {
        iw_ack_t ack = {.ranges = (uint8_t) ranges};
        memcpy(s->flat + s->prefix, &ack, sizeof(ack));
        s->prefix += sizeof(ack) + ranges * sizeof(iw_range_t) + (refuses ? sizeof(iw_rnr_t) : 0);
    }
    s->prefix += sizeof(iw_seq_t);
    s->is_response = rng_percent(rng, 80);
    s->stag = rng_below(rng, 3);
    s->to = rng_below(rng, 3);
    const iw_tagged_t tagged = {.ddp = IW_DDP_TAGGED | IW_DDP_VERSION,
                                .rdmap = IW_RDMAP_VERSION
                                         | (s->is_response ? IW_OP_READ_RESPONSE : IW_OP_WRITE),
                                .stag = iw_be32(s->stag),
                                .to = iw_be64(s->to)};
    memcpy(s->flat + s->prefix, &tagged, sizeof(tagged));
    s->prefix += sizeof(tagged);
    s->length = s->prefix + rng_below(rng, ROOM + 100);
    switch (rng_below(rng, 10)) {
    case 0: /* cut short: less than it says */
        s->length = rng_below(rng, (uint32_t) s->prefix);
        break;
    case 1:
        s->flat[0] = (uint8_t) rng_next(rng);
        break;
    case 2:
        s->flat[1] |= IW_F_HELLO;
        break;
    default:
        break;
    }
}

/* Whatever comes, it is in its place, or as it came; and nothing else is touched. */
static void in_its_place_or_as_it_came(void **state)
{
    (void) state;
    static sample_t s;
    static uint8_t slot[SLOT_SIZE], room[ROOM + CANARY];
    unsigned settled = 0, shifted = 0;
    rng_t rng = {5};
    for (unsigned round = 0; round < 200000; ++round) {
        make(&s, &rng);
        const size_t cut = 44 + rng_below(&rng, 4) * 8;
        const iw_direct_t g = {room, 1 + rng_below(&rng, ROOM), rng_below(&rng, 3),
                              rng_below(&rng, 3)};
        const size_t first = s.length < cut ? s.length : cut;
        const size_t there = s.length - first < g.room ? s.length - first : g.room;
        memset(slot, 0xaa, sizeof(slot));
        memset(room, 0xbb, sizeof(room));
        memcpy(slot, s.flat, first);
        memcpy(room, s.flat + first, there);
        if (s.length > cut + g.room) {
            memcpy(slot + cut + g.room, s.flat + cut + g.room, s.length - cut - g.room);
        }
        const bool is_whole = IW_VERSION << 4 == (s.flat[0] & 0xf0)
                              && IW_SEGMENT == (s.flat[0] & 0x0f) && !(s.flat[1] & IW_F_HELLO)
                              && s.length >= s.prefix;
        const bool belongs = is_whole && s.is_response && s.stag == g.stag && s.to == g.to
                             && s.length - s.prefix <= g.room && s.prefix <= cut + g.room;
        const size_t prefix = iw_direct_settle(&g, slot, cut, s.length);
        assert_int_equal(prefix, belongs ? s.prefix : 0);
        if (belongs) {
            ++settled;
            shifted += prefix != cut;
            assert_memory_equal(slot, s.flat, prefix);
            assert_memory_equal(room, s.flat + prefix, s.length - prefix);
        } else { /* and can be put together */
            assert_memory_equal(slot, s.flat, first);
            assert_memory_equal(room, s.flat + first, there);
            memcpy(slot + first, room, there);
            assert_memory_equal(slot, s.flat, s.length);
        }
        for (size_t i = g.room; i < sizeof(room); ++i) {
            assert_int_equal(room[i], 0xbb);
        }
    }
    assert_true(shifted > 1000 && settled > shifted + 500);
}

/* ---- what an engine guesses ---- */

enum { READS = 6, READ_SIZE = 60000 };

static uint8_t source[READ_SIZE], sink[READS][READ_SIZE];

static void post_reads(pair_t *t, uint32_t stag)
{
    for (unsigned i = 0; i < READS; ++i) {
        memset(sink[i], 0, READ_SIZE);
        assert_int_equal(iw_post_read(t->a, sink[i], READ_SIZE - 5000 * i, stag, 0, 0, sink[i]),
                         IW_OK);
    }
}

/* Reads are filled one after the other, and without loss every datagram but the first comes where it was guessed. */
static void follows_the_reads(void **state)
{
    (void) state;
    enum { ROUNDS = 5 };
    pair_t t;
    iw_completion_t c;
    iw_direct_t g[READS];
    pair_init(&t, NULL, 1);
    fill(source, 1, READ_SIZE);
    const uint32_t stag = iw_register(t.link.engine[1], source, READ_SIZE, IW_REMOTE_READ, NULL);
    assert_int_equal(iw_engine_direct(t.link.engine[0], g, READS), 0);
    for (int round = 0; round < ROUNDS; ++round) {
        const uint64_t before = iw_engine_counters(t.link.engine[0])->segments_in,
                       placed = t.link.placed;
        post_reads(&t, stag);
        for (unsigned i = 0; i < READS; ++i) {
            expect(&t.link, 0, IW_READ, IW_OK, &c);
            assert_ptr_equal(c.context, sink[i]);
            assert_true(filled(sink[i], 1, READ_SIZE - 5000 * i));
        }
        const uint64_t came = iw_engine_counters(t.link.engine[0])->segments_in - before;
        if (ROUNDS - 1 == round) { /* the path's size is known, and hello has been said */
            assert_int_equal(came, t.link.placed - placed + 1);
        }
        assert_true(came > READS);
        assert_int_equal(iw_engine_direct(t.link.engine[0], g, READS), 0);
    }
    link_fini(&t.link);
}

/* Several at a time: each where the one before it ends, within one read, and on into the next. */
static void reads_ahead(void **state)
{
    (void) state;
    enum { MOST = 100 };
    pair_t t;
    iw_direct_t g[MOST];
    pair_init(&t, NULL, 1);
    fill(source, 1, READ_SIZE);
    const uint32_t stag = iw_register(t.link.engine[1], source, READ_SIZE, IW_REMOTE_READ, NULL);
    post_reads(&t, stag);
    unsigned n = 0;
    for (unsigned step = 0; step < 1000 && 0 == n; ++step) {
        assert_true(link_step(&t.link, 60 * S));
        n = iw_engine_direct(t.link.engine[0], g, MOST);
    }
    assert_int_equal(n, MOST);
    unsigned read = 0;
    for (unsigned i = 0; i < n; ++i) {
        if (i > 0 && g[i].stag != g[i - 1].stag) {
            assert_ptr_equal(g[i - 1].at + g[i - 1].room, sink[read] + READ_SIZE - 5000 * read);
            ++read;
            assert_ptr_equal(g[i].at, sink[read]);
            assert_int_equal(g[i].to, 0);
        }
        assert_ptr_equal(g[i].at, sink[read] + g[i].to);
        assert_true(g[i].room > 0 && g[i].to + g[i].room <= READ_SIZE - 5000 * read);
    }
    assert_true(read > 0);
    /* Nothing is guessed for a peer that is lost. */
    t.link.cut[1] = true;
    iw_completion_t c;
    while (iw_engine_poll(t.link.engine[0], &c, 1) > 0 || wait_completion(&t.link, 0, &c, 60 * S)) {
        if (IW_READ == c.what && IW_OK != c.status) {
            break;
        }
    }
    assert_int_equal(iw_engine_direct(t.link.engine[0], g, MOST), 0);
    link_fini(&t.link);
}

/* Lost, doubled, overtaken and damaged: what is complete is right, although anything may have been there before. */
static void wrong_guesses_do_no_harm(void **state)
{
    (void) state;
    static const iw_fault_rates_t rates = {
        .drop = 100000, .duplicate = 100000, .reorder = 200000, .corrupt = 50000, .delay_ns = MS};
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        pair_t t;
        iw_completion_t c;
        pair_init(&t, &rates, seed);
        fill(source, 1, READ_SIZE);
        const uint32_t stag = iw_register(t.link.engine[1], source, READ_SIZE, IW_REMOTE_READ, NULL);
        for (int round = 0; round < 5; ++round) {
            post_reads(&t, stag);
            for (unsigned i = 0; i < READS; ++i) {
                expect(&t.link, 0, IW_READ, IW_OK, &c);
                const unsigned which = (unsigned) (((uint8_t *) c.context - sink[0]) / READ_SIZE);
                assert_true(filled(c.context, 1, READ_SIZE - 5000 * which));
            }
        }
        assert_true(t.link.placed > 0);
        link_fini(&t.link);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_its_place_or_as_it_came),
        cmocka_unit_test(follows_the_reads),
        cmocka_unit_test(reads_ahead),
        cmocka_unit_test(wrong_guesses_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
