/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* rcache/lazy: device memory, of which no hook tells that it goes. fake_use checks that what is found is of the memory that is there. */
#include "rcache_fake.h"

#include "lazy_ids.h"

#include <stdlib.h>

/* A block of device memory: pages [first, last). */
typedef struct block {
    uint64_t id; /* 0: none */
    unsigned first, last;
} block_t;

static uint64_t ids_given;

/* Other memory is there without a word to the cache. */
static block_t take(fake_t *fake, unsigned first, unsigned last)
{
    for (unsigned p = first; p < last; ++p) {
        ++fake->life[p];
    }
    return (block_t){.id = ++ids_given, .first = first, .last = last};
}

static lazy_entry_t *begin_use(fake_t *fake, lazy_ids_t *ids, const block_t *b, unsigned first, unsigned last)
{
    lazy_ids_use(ids, fake->cache, b->id, FIRST + b->first * PAGE, (b->last - b->first) * PAGE);
    return use_pages(fake, first, last, 0);
}

static uint32_t use(fake_t *fake, lazy_ids_t *ids, const block_t *b)
{
    lazy_entry_t *e = begin_use(fake, ids, b, b->first, b->last);
    const uint32_t made = reg_of(e)->id;
    fake_done(fake, e);
    return made;
}

static void a_block_stays_registered(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_ids_t ids = {0};
    const block_t one = take(fake, 10, 20), other = take(fake, 20, 30);
    for (int i = 0; i < 100; ++i) {
        assert_int_equal(use(fake, &ids, &one), 1);
        assert_int_equal(use(fake, &ids, &other), 2);
    }
    fake_free(fake);
}

static void another_at_the_same_address_is_registered(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_ids_t ids = {0};
    block_t b = take(fake, 10, 20);
    use(fake, &ids, &b);
    b = take(fake, 10, 20);
    assert_int_equal(use(fake, &ids, &b), 2);
    b = take(fake, 12, 14); /* inside, where the old one would serve */
    assert_int_equal(use(fake, &ids, &b), 3);
    b = take(fake, 5, 25); /* around, which must not be joined with the old one */
    assert_int_equal(use(fake, &ids, &b), 4);
    b = take(fake, 24, 30); /* its end only */
    assert_int_equal(use(fake, &ids, &b), 5);
    assert_int_equal(counted(fake).entries, 1); /* what is stale has ended */
    fake_free(fake);
}

static void a_registration_of_a_part_is_found_and_goes(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_ids_t ids = {0};
    block_t b = take(fake, 10, 20);
    fake_done(fake, begin_use(fake, &ids, &b, 17, 19));
    fake_done(fake, begin_use(fake, &ids, &b, 17, 19));
    assert_int_equal(counted(fake).registrations, 1);
    b = take(fake, 10, 20);
    fake_done(fake, begin_use(fake, &ids, &b, 11, 12)); /* the block is known from now on: all of it was checked */
    fake_done(fake, begin_use(fake, &ids, &b, 17, 19));
    assert_int_equal(counted(fake).registrations, 3);
    fake_free(fake);
}

static void freed_while_in_use_ends_with_the_use(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_ids_t ids = {0};
    block_t b = take(fake, 10, 20);
    lazy_entry_t *e = begin_use(fake, &ids, &b, 10, 20);
    b = take(fake, 10, 20);
    assert_int_equal(use(fake, &ids, &b), 2);
    assert_int_equal(counted(fake).quarantined, 1);
    fake_done(fake, e);
    assert_int_equal(counted(fake).quarantined, 0);
    fake_free(fake);
}

static void a_forgotten_block_is_registered_once_more(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_ids_t ids = {0};
    const block_t one = take(fake, 10, 20);
    block_t other = take(fake, 30, 40);
    other.id = one.id + LAZY_IDS;
    assert_int_equal(use(fake, &ids, &one), 1);
    assert_int_equal(use(fake, &ids, &other), 2);
    assert_int_equal(use(fake, &ids, &one), 3);
    fake_free(fake);
}

/* Blocks come and go; each use is of the memory that is there. */
static void whatever_comes_and_goes(void **state)
{
    enum { BLOCKS = 8, ROOM = PAGES / BLOCKS, STEPS = 20000 };
    (void) state;
    fake_t *fake = cache_of("lru", 64 * PAGE, 16);
    lazy_ids_t ids = {0};
    block_t block[BLOCKS] = {{0}};
    srand(1);
    for (int i = 0; i < STEPS; ++i) {
        const unsigned at = (unsigned) rand() % BLOCKS, where = at * ROOM;
        block_t *b = &block[at];
        if (0 == b->id || 0 == rand() % 4) {
            const unsigned first = where + (unsigned) rand() % (ROOM / 2);
            *b = take(fake, first, first + 1 + (unsigned) rand() % (ROOM / 2));
        }
        const unsigned first = b->first + (unsigned) rand() % (b->last - b->first);
        fake_done(fake, begin_use(fake, &ids, b, first, first + 1 + (unsigned) rand() % (b->last - first)));
    }
    assert_true(counted(fake).hits > 0);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_stays_registered),
        cmocka_unit_test(another_at_the_same_address_is_registered),
        cmocka_unit_test(a_registration_of_a_part_is_found_and_goes),
        cmocka_unit_test(freed_while_in_use_ends_with_the_use),
        cmocka_unit_test(a_forgotten_block_is_registered_once_more),
        cmocka_unit_test(whatever_comes_and_goes),
    };
    return cmocka_run_group_tests_name("rcache_ids", tests, NULL, NULL);
}
