/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory that a program writes while it is sent: allowed for windows in MPI's unified memory model. A datagram is made -
 * the tag of what was in memory - and before the kernel has copied it, memory is another. */
#include "iw_pair.h"

#include "iw_memory.h"

typedef enum kind { GET, PUT, SEND, KINDS } kind_t;

typedef struct stores {
    uint8_t *memory;
    uint32_t length;
    uint32_t step; /* from one byte that is written to the next; 0: one in the middle */
} stores_t;

static void store(void *context)
{
    stores_t *s = context;
    for (uint32_t at = 0 == s->step ? s->length / 2 : 0; at < s->length; at += 0 == s->step ? s->length : s->step) {
        ++s->memory[at];
    }
}

static iw_status_t post(pair_t *t, kind_t kind, uint8_t *from, uint8_t *to, uint32_t length, const uint32_t stag[2])
{
    struct iovec piece = {from, length};
    switch (kind) {
    case GET:
        return iw_post_read(t->a, to, length, stag[1], 0, 0, NULL);
    case PUT:
        return iw_post_write(t->b, &piece, 1, stag[0], 0, 0, NULL);
    default:
        post_one(&t->link, 0, to, length);
        return iw_post_send(t->b, &piece, 1, 0, NULL);
    }
}

/* `length` bytes of engine 1's memory get to engine 0. Those that nobody writes are right. */
static void transfer(pair_t *t, kind_t kind, stores_t *stores, uint8_t *to)
{
    const uint32_t stag[2] = {iw_register(t->link.engine[0], to, stores->length, IW_REMOTE_WRITE, NULL),
                              iw_register(t->link.engine[1], stores->memory, stores->length, IW_REMOTE_READ, NULL)};
    iw_completion_t c;
    fill(stores->memory, 1, stores->length);
    memset(to, 0, stores->length);
    assert_int_equal(post(t, kind, stores->memory, to, stores->length, stag), IW_OK);
    switch (kind) {
    case GET:
        expect(&t->link, 0, IW_READ, IW_OK, &c);
        break;
    case PUT:
        expect(&t->link, 1, IW_WRITTEN, IW_OK, &c);
        break;
    default:
        expect(&t->link, 0, IW_RECEIVED, IW_OK, &c);
        expect(&t->link, 1, IW_SENT, IW_OK, &c);
        break;
    }
    for (uint32_t at = 0; at < stores->length; ++at) {
        const bool is_written = 0 == stores->step ? at == stores->length / 2 : 0 == at % stores->step;
        assert_true(is_written || to[at] == byte_of(1, at));
    }
    iw_deregister(t->link.engine[0], stag[0]);
    iw_deregister(t->link.engine[1], stag[1]);
}

static uint64_t resent(const pair_t *t)
{
    return iw_engine_counters(t->link.engine[1])->segments_resent;
}

static uint64_t refused(const pair_t *t)
{
    return iw_engine_counters(t->link.engine[0])->refused_tag;
}

static void largest_datagrams(iw_config_t *c)
{
    c->datagram_max = IW_DATAGRAM_MAX;
}

/* A short message is what its tag says; of a long one the part that was refused is, the second time. */
static void nothing_is_refused_twice(void **state)
{
    (void) state;
    enum { MAX = 1 << 20 };
    static const uint32_t lengths[] = {1, 8, 4096, 8192, 8193, 65536, MAX};
    void (*const tunes[])(iw_config_t *) = {NULL, largest_datagrams};
    uint8_t *memory = must_alloc(MAX), *to = must_alloc(MAX);
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]) * KINDS * 2; ++i) {
        const kind_t kind = i % KINDS;
        stores_t stores = {memory, lengths[i / KINDS / 2], 0};
        pair_t t;
        link_tune = tunes[i / KINDS % 2];
        pair_init(&t, NULL, 70 + i);
        for (int warm = 0; warm < 3; ++warm) { /* the connection is there, and what the path carries is known */
            transfer(&t, kind, &stores, to);
        }
        const uint64_t before = resent(&t), began = t.link.now;
        t.link.meanwhile = store;
        t.link.meanwhile_context = &stores;
        transfer(&t, kind, &stores, to);
        if (stores.length <= 8192) {
            assert_int_equal(refused(&t), 0);
            assert_int_equal(resent(&t), before);
        }
        assert_in_range(resent(&t) - before, 0, 3);
        assert_true(t.link.now - began < 2 * MS);
        link_fini(&t.link);
        link_tune = NULL;
    }
    free(memory);
    free(to);
}

/* All of it is written all the time. */
static void each_part_is_refused_once(void **state)
{
    (void) state;
    enum { LENGTH = 300000, STEP = 64 };
    uint8_t *memory = must_alloc(LENGTH), *to = must_alloc(LENGTH);
    for (kind_t kind = GET; kind < KINDS; ++kind) {
        stores_t stores = {memory, LENGTH, STEP};
        pair_t t;
        pair_init(&t, NULL, 80);
        for (int warm = 0; warm < 3; ++warm) {
            transfer(&t, kind, &stores, to);
        }
        const iw_counters_t *count = iw_engine_counters(t.link.engine[1]);
        const uint64_t before = count->segments_out;
        t.link.meanwhile = store;
        t.link.meanwhile_context = &stores;
        transfer(&t, kind, &stores, to);
        assert_in_range(refused(&t), 1, count->segments_out - before);
        link_fini(&t.link);
    }
    free(memory);
    free(to);
}

static unsigned spoiled;

static void spoil(uint8_t *at, size_t length)
{
    ++at[length / 2];
    ++spoiled;
}

/* The reader's memory is what is written, each time that something was received there. */
static void what_is_read_comes_although_its_place_is_written(void **state)
{
    (void) state;
    enum { LENGTH = 300000, READS = 5 };
    uint8_t *memory = must_alloc(LENGTH), *to = must_alloc(LENGTH);
    stores_t stores = {memory, LENGTH, 0};
    pair_t t;
    pair_init(&t, NULL, 90);
    for (int warm = 0; warm < 3; ++warm) {
        transfer(&t, GET, &stores, to);
    }
    t.link.spoil = spoil;
    spoiled = 0;
    for (int i = 0; i < READS; ++i) {
        const uint64_t before = resent(&t), began = t.link.now;
        transfer(&t, GET, &stores, to);
        assert_in_range(resent(&t) - before, 0, 3);
        assert_true(t.link.now - began < 3 * MS);
    }
    assert_in_range(spoiled, 1, READS);
    assert_int_equal(refused(&t), spoiled);
    link_fini(&t.link);
    free(memory);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_comes_although_its_place_is_written),
        cmocka_unit_test(nothing_is_refused_twice),
        cmocka_unit_test(each_part_is_refused_once),
    };
    return cmocka_run_group_tests_name("iwarp_stores", tests, NULL, NULL);
}
