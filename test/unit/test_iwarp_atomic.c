/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Atomic operations of the engine (RFC 7306): each is done once, in order, on the right word, by the processor, whatever the
 * network does; what a peer may not ask for ends its connection and changes nothing. */
#include "iw_pair.h"
#include "iw_wicked.h"

#include <pthread.h>

#define RIGHTS (IW_REMOTE_READ | IW_REMOTE_WRITE)

/* ---- the operations themselves (iw_atomic.h) ---- */

static void each_operation(void **state)
{
    (void) state;
    static const struct {
        iw_atomic_op_t op;
        bool is_32;
        uint64_t word, operand, compare, after;
    } of[] = {
        {IW_ATOMIC_ADD, false, 5, UINT64_MAX, 0, 4},
        {IW_ATOMIC_ADD, true, UINT32_MAX, 3, 0, 2},
        {IW_ATOMIC_SWAP, false, 5, 9, 0, 9},
        {IW_ATOMIC_CSWAP, false, 5, 9, 5, 9},
        {IW_ATOMIC_CSWAP, false, 5, 9, 6, 5},
        {IW_ATOMIC_CSWAP, true, 5, 9, UINT64_C(0x700000005), 9}, /* of 32 bits only these count */
        {IW_ATOMIC_AND, false, 0xff, 0x3c, 0, 0x3c},
        {IW_ATOMIC_OR, false, 0xf0, 0x3c, 0, 0xfc},
        {IW_ATOMIC_XOR, true, 0xf0, 0x3c, 0, 0xcc},
    };
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); ++i) {
        uint64_t words[2] = {of[i].word, UINT64_C(0x5a5a5a5a5a5a5a5a)};
        uint32_t halves[2] = {(uint32_t) of[i].word, 0x5a5a5a5a};
        void *at = of[i].is_32 ? (void *) halves : words;
        const uint64_t before = iw_atomic_do(of[i].op, of[i].is_32, at, of[i].operand, of[i].compare);
        assert_true(before == of[i].word);
        assert_true((of[i].is_32 ? halves[0] : words[0]) == of[i].after);
        assert_int_equal(halves[1], 0x5a5a5a5a);
    }
}

enum { THREADS = 3, TIMES = 200000 };
static uint64_t shared;

static void *add_to_it(void *from)
{
    for (int i = 0; i < TIMES; ++i) {
        if (NULL == from) { /* as the program does it */
            __atomic_fetch_add(&shared, 1, __ATOMIC_RELAXED);
        } else {
            (void) iw_atomic_do(IW_ATOMIC_ADD, false, &shared, 1, 0);
        }
    }
    return NULL;
}

static void atomic_with_the_processors_own(void **state)
{
    (void) state;
    pthread_t thread[THREADS];
    shared = 0;
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_create(&thread[i], NULL, add_to_it, 0 == i ? NULL : &shared), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(thread[i], NULL);
    }
    assert_true(shared == (uint64_t) THREADS * TIMES);
}

/* ---- between engines ---- */

typedef struct scene {
    pair_t pair;
    uint64_t *word; /* eight, of engine 1 */
    uint32_t stag;
} scene_t;

static void scene_init(scene_t *s, const iw_fault_rates_t *rates, uint64_t seed)
{
    pair_init(&s->pair, rates, seed);
    s->word = must_alloc(8 * sizeof(*s->word));
    memset(s->word, 0, 8 * sizeof(*s->word));
    s->stag = iw_register(s->pair.link.engine[1], s->word, 8 * sizeof(*s->word), RIGHTS, NULL);
}

static void scene_fini(scene_t *s)
{
    link_fini(&s->pair.link);
    free(s->word);
}

/* Many more than are served at a time, both widths, mixed with reads and long writes, on a network that loses, doubles and
 * reorders: each adds once, and sees all before it. */
static void each_is_done_once_and_in_order(void **state)
{
    (void) state;
    enum { COUNT = 300, LONG = 40000 };
    const iw_fault_rates_t rates = {.drop = 80000, .duplicate = 80000, .reorder = 200000, .delay_ns = MS};
    static uint8_t data[LONG];
    for (uint64_t seed = 0; seed < 8; ++seed) {
        scene_t s;
        uint64_t before[COUNT];
        uint32_t before_32[COUNT], answers = 0;
        uint8_t *target = must_alloc(LONG);
        scene_init(&s, &rates, seed);
        const uint32_t bulk = iw_register(s.pair.link.engine[1], target, LONG, RIGHTS, NULL);
        uint64_t seen[COUNT];
        for (uint32_t i = 0; i < COUNT; ++i) {
            const struct iovec piece = {data, LONG};
            fill(data, 1, LONG);
            assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_ADD, false, s.stag, 8, 3, 0, &before[i], 0, NULL), IW_OK);
            assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_ADD, true, s.stag, 20, 5, 0, &before_32[i], 0, NULL), IW_OK);
            if (0 == i % 10) {
                assert_int_equal(iw_post_write(s.pair.a, &piece, 1, bulk, 0, IW_QUIET | IW_BULK, NULL), IW_OK);
            }
            assert_int_equal(iw_post_read(s.pair.a, &seen[i], 8, s.stag, 8, IW_QUIET, NULL), IW_OK);
            while (answers + 40 < 2 * (i + 1)) {
                iw_completion_t c;
                expect(&s.pair.link, 0, IW_ATOMIC, IW_OK, &c);
                ++answers;
            }
        }
        while (answers < 2 * COUNT) {
            iw_completion_t c;
            expect(&s.pair.link, 0, IW_ATOMIC, IW_OK, &c);
            ++answers;
        }
        link_run(&s.pair.link, s.pair.link.now + 10 * S);
        for (uint32_t i = 0; i < COUNT; ++i) {
            assert_true(before[i] == 3 * (uint64_t) i);
            assert_int_equal(before_32[i], 5 * i);
            assert_true(seen[i] >= 3 * (uint64_t) (i + 1)); /* read behind it, and perhaps behind later ones */
        }
        assert_true(s.word[1] == 3 * COUNT);
        assert_true(s.word[2] == (uint64_t) 5 * COUNT << 32);
        assert_true(0 == s.word[0] && 0 == s.word[3]);
        assert_true(filled(target, 1, LONG));
        assert_int_equal(iw_engine_counters(s.pair.link.engine[1])->atomics_in, 2 * COUNT);
        assert_int_equal(s.pair.a->tx.reads_out, 0);
        assert_int_equal(s.pair.b->rx.serving, 0);
        scene_fini(&s);
        free(target);
    }
}

/* The result may be wanted by nobody, and a quiet one is not told of. */
static void without_a_result(void **state)
{
    (void) state;
    scene_t s;
    iw_completion_t c;
    scene_init(&s, NULL, 1);
    assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_OR, false, s.stag, 0, 6, 0, NULL, IW_QUIET, NULL), IW_OK);
    assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_CSWAP, false, s.stag, 0, 9, 6, NULL, 0, s.word), IW_OK);
    expect(&s.pair.link, 0, IW_ATOMIC, IW_OK, &c);
    assert_ptr_equal(c.context, s.word);
    assert_int_equal(c.length, 8);
    assert_true(9 == s.word[0]);
    assert_int_equal(iw_engine_poll(s.pair.link.engine[0], &c, 1), 0);
    scene_fini(&s);
}

/* Behind a fence, and in the order of the calls there, too; reads before it are waited for. */
static void none_overtakes_a_fence_or_another(void **state)
{
    (void) state;
    enum { LONG = 30000, COUNT = 40 /* more than are served at a time */ };
    scene_t s;
    iw_completion_t c;
    uint64_t before[COUNT + 1];
    uint8_t note[8], *source = must_alloc(LONG), *sink = must_alloc(LONG);
    scene_init(&s, NULL, 2);
    const uint32_t stag = iw_register(s.pair.link.engine[1], source, LONG, RIGHTS, NULL);
    post_one(&s.pair.link, 1, note, sizeof(note));
    assert_int_equal(iw_post_read(s.pair.a, sink, LONG, stag, 0, IW_QUIET, NULL), IW_OK);
    assert_int_equal(send_bytes(s.pair.a, "note", 5, IW_INLINE | IW_FENCE | IW_QUIET), IW_OK);
    for (int i = 0; i < COUNT; ++i) {
        assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_ADD, false, s.stag, 0, 1, 0, &before[i], IW_QUIET, NULL), IW_OK);
    }
    while (s.pair.a->tx.send_msn < 2) { /* until the fenced one leaves, and as many behind it as may */
        assert_true(0 == s.word[0]);
        assert_true(link_step(&s.pair.link, S));
    }
    assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_ADD, false, s.stag, 0, 1, 0, &before[COUNT], 0, NULL), IW_OK);
    expect(&s.pair.link, 0, IW_ATOMIC, IW_OK, &c);
    for (uint64_t i = 0; i <= COUNT; ++i) {
        assert_true(before[i] == i);
    }
    assert_int_equal(s.pair.a->tx.fences, 0);
    scene_fini(&s);
    free(source);
    free(sink);
}

/* The answer does not wait for a long read that the same peer is served. */
static void an_answer_goes_before_what_is_read(void **state)
{
    (void) state;
    enum { LONG = 3000000 };
    scene_t s;
    iw_completion_t c;
    uint8_t *source = must_alloc(LONG), *sink = must_alloc(LONG);
    uint64_t before[2];
    scene_init(&s, NULL, 3);
    const uint32_t stag = iw_register(s.pair.link.engine[1], source, LONG, RIGHTS, NULL);
    assert_int_equal(iw_post_read(s.pair.a, sink, LONG, stag, 0, 0, NULL), IW_OK);
    assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_ADD, false, s.stag, 0, 1, 0, &before[0], 0, NULL), IW_OK);
    assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_ADD, false, s.stag, 0, 1, 0, &before[1], 0, NULL), IW_OK);
    expect(&s.pair.link, 0, IW_ATOMIC, IW_OK, &c);
    expect(&s.pair.link, 0, IW_ATOMIC, IW_OK, &c);
    assert_true(0 == before[0] && 1 == before[1]);
    expect(&s.pair.link, 0, IW_READ, IW_OK, &c);
    scene_fini(&s);
    free(source);
    free(sink);
}

/* Those under way when the connection ends complete with an error, once. */
static void the_end_of_the_connection(void **state)
{
    (void) state;
    enum { COUNT = 30 };
    scene_t s;
    iw_completion_t c;
    uint64_t before[COUNT];
    unsigned failed = 0;
    scene_init(&s, NULL, 4);
    for (int i = 0; i < COUNT; ++i) { /* some have left, others wait */
        assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_ADD, false, s.stag, 0, 1, 0, &before[i], 0, &before[i]), IW_OK);
    }
    s.pair.link.cut[1] = true; /* no answer comes back */
    link_run(&s.pair.link, s.pair.link.now + 5 * MS);
    iw_peer_remove(s.pair.a);
    while (1 == iw_engine_poll(s.pair.link.engine[0], &c, 1)) {
        failed += IW_ATOMIC == c.what && IW_FLUSHED == c.status;
    }
    assert_int_equal(failed, COUNT);
    scene_fini(&s);
}

/* What we may not do there is refused, and the one that asked for it is told. */
static void refused_by_the_peer(void **state)
{
    (void) state;
    static const struct {
        uint64_t to;
        bool is_32, is_stale;
    } wrong[] = {{64, false, false}, {60, false, false}, {4, false, false}, {2, true, false}, {0, false, true}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        scene_t s;
        iw_completion_t c;
        uint64_t before = 77;
        bool told = false;
        scene_init(&s, NULL, 5);
        if (wrong[i].is_stale) {
            assert_true(iw_deregister(s.pair.link.engine[1], s.stag));
        }
        assert_int_equal(iw_post_atomic(s.pair.a, IW_ATOMIC_ADD, wrong[i].is_32, s.stag, wrong[i].to, 1, 0, &before, 0, &s),
                         IW_OK);
        link_run(&s.pair.link, s.pair.link.now + S);
        while (1 == iw_engine_poll(s.pair.link.engine[0], &c, 1)) {
            told |= IW_ATOMIC == c.what && IW_REMOTE_ACCESS == c.status && &s == c.context;
        }
        assert_true(told);
        assert_true(77 == before);
        for (int k = 0; k < 8; ++k) {
            assert_true(0 == s.word[k]);
        }
        scene_fini(&s);
    }
}

/* Memory that is registered and not in use is not touched (iw_memory_add). */
static void memory_that_is_not_in_use(void **state)
{
    (void) state;
    pair_t t;
    iw_completion_t c;
    uint64_t word = 0;
    iw_uses_t uses;
    iw_uses_init(&uses, 0);
    pair_init(&t, NULL, 6);
    const uint32_t stag = iw_register(t.link.engine[1], &word, sizeof(word), RIGHTS, &uses);
    assert_int_equal(iw_post_atomic(t.a, IW_ATOMIC_ADD, false, stag, 0, 1, 0, NULL, 0, NULL), IW_OK);
    link_run(&t.link, t.link.now + S);
    bool told = false;
    while (1 == iw_engine_poll(t.link.engine[0], &c, 1)) {
        told |= IW_ATOMIC == c.what && IW_REMOTE_ACCESS == c.status;
    }
    assert_true(told && 0 == word);
    link_fini(&t.link);
}

/* ---- a peer that sends what it likes ---- */

static void request(wicked_t *w, uint32_t ssn, uint32_t msn, const iw_atomic_request_t *ask)
{
    uint8_t both[sizeof(iw_untagged_t) + sizeof(*ask)];
    const iw_untagged_t h = {.ddp = IW_DDP_VERSION | IW_DDP_LAST,
                             .rdmap = IW_RDMAP_VERSION | IW_OP_ATOMIC_REQUEST,
                             .qn = iw_be32(IW_QN_READ),
                             .msn = iw_be32(msn)};
    memcpy(both, &h, sizeof(h));
    memcpy(both + sizeof(h), ask, sizeof(*ask));
    segment(w, ssn, both, sizeof(both), 0);
}

static void answer(wicked_t *w, uint32_t ssn, uint32_t msn, uint32_t number)
{
    uint8_t both[sizeof(iw_untagged_t) + sizeof(iw_atomic_response_t)];
    const iw_untagged_t h = {.ddp = IW_DDP_VERSION | IW_DDP_LAST,
                             .rdmap = IW_RDMAP_VERSION | IW_OP_ATOMIC_RESPONSE,
                             .qn = iw_be32(IW_QN_ATOMIC),
                             .msn = iw_be32(msn)};
    const iw_atomic_response_t r = {.number = iw_be32(number), .before = iw_be64(UINT64_C(0x1122334455667788))};
    memcpy(both, &h, sizeof(h));
    memcpy(both + sizeof(h), &r, sizeof(r));
    segment(w, ssn, both, sizeof(both), 0);
}

static void requests_that_cannot_be(void **state)
{
    (void) state;
    static const struct {
        iw_atomic_request_t ask;
        uint32_t msn;
        int term;
    } wrong[] = {
        {{.op = IW_ATOMIC_XOR + 1}, 1, IW_TERM_OPCODE},
        {{.op = UINT8_MAX}, 1, IW_TERM_OPCODE},
        {{.is_32 = 2}, 1, IW_TERM_OPCODE},
        {{.reserved = {1, 0}}, 1, IW_TERM_OPCODE},
        {{.reserved = {0, 1}}, 1, IW_TERM_OPCODE},
        {{.op = IW_ATOMIC_ADD}, 0, IW_TERM_DDP_MSN},
        {{.op = IW_ATOMIC_ADD}, 2, IW_TERM_DDP_MSN},
        {{.to = {{0, 0, 0, 0, 0, 0, 0, MEMORY}}}, 1, IW_TERM_BOUNDS},
        {{.to = {{0, 0, 0, 0, 0, 0, 0, MEMORY - 4}}}, 1, IW_TERM_BOUNDS},
        {{.to = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8}}}, 1, IW_TERM_BOUNDS},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        wicked_t w;
        wicked_init(&w);
        iw_atomic_request_t ask = wrong[i].ask;
        ask.stag = iw_be32(w.stag);
        ask.operand = iw_be64(1);
        request(&w, 0, wrong[i].msn, &ask);
        expect_end(&w, wrong[i].term, 0);
        for (int k = 0; k < MEMORY; ++k) {
            assert_int_equal(w.memory[k], 0x5a);
        }
        wicked_fini(&w);
    }
}

/* Memory that may only be read, or only written, is not changed by what does both. */
static void both_rights_are_needed(void **state)
{
    (void) state;
    for (unsigned rights = 0; rights < RIGHTS; ++rights) {
        wicked_t w;
        wicked_init(&w);
        uint64_t word = 7;
        iw_atomic_request_t ask = {.stag = iw_be32(iw_register(w.victim, &word, sizeof(word), rights, NULL)),
                                   .operand = iw_be64(1)};
        request(&w, 0, 1, &ask);
        expect_end(&w, IW_TERM_RIGHTS, 0);
        assert_true(7 == word);
        wicked_fini(&w);
    }
}

/* As many as agreed, then one more; the first come early, and are done when it is their turn. */
static void more_than_agreed(void **state)
{
    (void) state;
    wicked_t w;
    wicked_init(&w);
    memset(w.memory, 0, sizeof(w.memory));
    iw_atomic_request_t ask = {.stag = iw_be32(w.stag), .operand = iw_be64(1)};
    iw_atomic_request_t swap = {.op = IW_ATOMIC_CSWAP, .stag = ask.stag, .operand = iw_be64(5), .compare = iw_be64(1)};
    request(&w, 1, 2, &swap);
    assert_int_equal(w.memory[0], 0);
    request(&w, 0, 1, &ask);
    assert_int_equal(w.memory[0], 5);
    request(&w, 2, 3, &ask); /* wicked_init: two at a time */
    expect_end(&w, IW_TERM_READS, 0);
    assert_int_equal(w.memory[0], 5);
    wicked_fini(&w);
}

/* Answers that nobody asked for, or to another question, or twice. */
static void answers_that_cannot_be(void **state)
{
    (void) state;
    for (int kind = 0; kind < 4; ++kind) {
        wicked_t w;
        iw_completion_t c;
        uint64_t before[2] = {0, UINT64_C(0x5a5a5a5a5a5a5a5a)};
        wicked_init(&w);
        send_part(&w, 0, 1, 0, true, 1);
        if (kind > 0) {
            assert_int_equal(iw_post_atomic(w.peer, IW_ATOMIC_ADD, 3 == kind, 5, 0, 1, 0, before, 0, &w), IW_OK);
            link_drain(&w.link);
        }
        if (3 == kind) {
            answer(&w, 1, 1, 1);
            assert_true(UINT64_C(0x55667788) == before[0]); /* four bytes of it are ours */
            answer(&w, 2, 2, 1);
        } else {
            answer(&w, 1, 2 == kind ? 2 : 1, 1 == kind ? 2 : 1);
        }
        bool ended = false;
        unsigned told = 0;
        while (1 == iw_engine_poll(w.victim, &c, 1)) {
            ended |= IW_PEER_DOWN == c.what && IW_PROTOCOL == c.status;
            told += IW_ATOMIC == c.what;
        }
        assert_true(ended);
        assert_int_equal(told, kind > 0);
        assert_int_equal(w.peer->term.code, IW_TERM_DDP_MSN);
        assert_true(3 == kind || 0 == before[0]);
        assert_true(UINT64_C(0x5a5a5a5a5a5a5a5a) == before[1]);
        wicked_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation),
        cmocka_unit_test(atomic_with_the_processors_own),
        cmocka_unit_test(each_is_done_once_and_in_order),
        cmocka_unit_test(without_a_result),
        cmocka_unit_test(none_overtakes_a_fence_or_another),
        cmocka_unit_test(an_answer_goes_before_what_is_read),
        cmocka_unit_test(the_end_of_the_connection),
        cmocka_unit_test(refused_by_the_peer),
        cmocka_unit_test(memory_that_is_not_in_use),
        cmocka_unit_test(requests_that_cannot_be),
        cmocka_unit_test(both_rights_are_needed),
        cmocka_unit_test(more_than_agreed),
        cmocka_unit_test(answers_that_cannot_be),
    };
    return cmocka_run_group_tests_name("iw_atomic", tests, NULL, NULL);
}
