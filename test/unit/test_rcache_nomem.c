/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The registration cache when memory for itself is out: a use is refused as for lack of resources, nothing is registered
 * or lost by that, and the next one is served when there is memory again. */
#include "faulty.h"
#include "rcache_fake.h"

#include <stdlib.h>

FAULTY(void *, aligned_alloc, NULL, (size_t alignment, size_t size), (alignment, size))
FAULTY(void *, calloc, NULL, (size_t n, size_t size), (n, size))
FAULTY(void *, malloc, NULL, (size_t size), (size))
FAULTY(void *, realloc, NULL, (void *p, size_t size), (p, size))

static faulty_t *const all[] = {&faulty_aligned_alloc, &faulty_calloc, &faulty_malloc,
                                &faulty_realloc};

static int setup(void **state)
{
    (void) state;
    for (unsigned i = 0; i < 4; ++i) {
        *all[i] = (faulty_t){.error = ENOMEM};
    }
    return 0;
}

static fake_t *begin(void)
{
    fake_t *fake = fake_new();
    const lazy_config_t config = fake_config(fake, "lru");
    fake->cache = lazy_create(&config);
    assert_non_null(fake->cache);
    return fake;
}

/* Pages of every other place, so that none is merged with another. */
static lazy_status_t try_page(fake_t *fake, unsigned page, lazy_entry_t **e)
{
    lazy_status_t status;
    *e = fake_use(fake, FIRST + page * PAGE, PAGE, READ, page, &status);
    return status;
}

static void no_cache(void **state)
{
    (void) state;
    fake_t *fake = fake_new();
    const lazy_config_t config = fake_config(fake, "lru");
    faulty_aligned_alloc.times = 1;
    assert_null(lazy_create(&config));
    assert_int_equal(faulty_aligned_alloc.hits, 1);
    fake->cache = lazy_create(&config);
    assert_non_null(fake->cache);
    fake_free(fake);
}

/* The first use: each allocation in turn cannot be had. */
static void no_first_entry(void **state)
{
    (void) state;
    faulty_t *const first[] = {&faulty_malloc, &faulty_calloc, &faulty_realloc};
    for (unsigned i = 0; i < 3; ++i) {
        fake_t *fake = begin();
        lazy_entry_t *e;
        first[i]->times = 2;
        for (unsigned n = 1; n <= 2; ++n) {
            assert_int_equal(try_page(fake, 3, &e), LAZY_NO_RESOURCES);
            assert_int_equal(first[i]->hits, n);
            assert_int_equal(counted(fake).exhausted, n);
            fake_ok(fake);
        }
        assert_int_equal(fake->made, 0);
        assert_int_equal(try_page(fake, 3, &e), LAZY_OK);
        fake_done(fake, e);
        fake_ok(fake);
        fake_free(fake);
        first[i]->hits = 0;
    }
}

/* A cache in use meets the end of memory: what is there is found as before, also while it is in use. */
static void no_more_entries(void **state)
{
    (void) state;
    faulty_t *const more[] = {&faulty_malloc, &faulty_calloc, &faulty_realloc};
    for (unsigned i = 0; i < 3; ++i) {
        fake_t *fake = begin();
        lazy_entry_t *e = NULL, *held[PAGES];
        unsigned n = 0;
        more[i]->skip = 1; /* of the first use */
        more[i]->times = UINT32_MAX;
        while (2 * n < PAGES && LAZY_OK == try_page(fake, 2 * n, &held[n])) {
            ++n;
        }
        assert_true(n > 0 && 2 * n < PAGES);
        assert_true(more[i]->hits > 0);
        assert_int_equal(fake->made, n);
        fake_ok(fake);
        for (unsigned k = 0; k < n; ++k) {
            assert_int_equal(try_page(fake, 2 * k, &e), LAZY_OK);
            assert_ptr_equal(e, held[k]);
            fake_done(fake, e);
        }
        assert_int_equal(fake->made, n);
        /* A private one needs an entry, too; the heap has no part in it. */
        fake->private = true;
        lazy_entry_t *alone = NULL;
        const lazy_status_t status =
            lazy_acquire_private(fake->cache, FIRST + 250 * PAGE, PAGE, READ, &alone);
        assert_int_equal(status, NULL == alone ? LAZY_NO_RESOURCES : LAZY_OK);
        assert_true((2 == i) == (NULL != alone)); /* only realloc is the heap's */
        if (NULL != alone) {
            lazy_release(fake->cache, alone);
        }
        fake->private = false;
        fake_ok(fake);
        more[i]->times = 0; /* there is memory again */
        assert_int_equal(try_page(fake, 2 * n, &e), LAZY_OK);
        fake_done(fake, e);
        for (unsigned k = 0; k < n; ++k) {
            fake_done(fake, held[k]);
        }
        fake_ok(fake);
        fake_free(fake);
        more[i]->hits = 0;
    }
}

/* Memory goes and comes at random under random uses. RCACHE_SEED: another course. */
static void now_and_then(void **state)
{
    (void) state;
    const char *seed = getenv("RCACHE_SEED");
    rng_t rng = {NULL == seed ? 1 : strtoull(seed, NULL, 0)};
    fake_t *fake = begin();
    unsigned refused = 0, served = 0;
    for (unsigned round = 0; round < 20000; ++round) {
        lazy_entry_t *held[8];
        unsigned n = 0;
        for (unsigned i = 0; i < 4; ++i) {
            all[i]->times = 0 == rng_below(&rng, 3) ? 1 : 0;
        }
        const unsigned wanted = 1 + rng_below(&rng, 8);
        for (unsigned i = 0; i < wanted; ++i) {
            const unsigned page = rng_below(&rng, PAGES - 4), pages = 1 + rng_below(&rng, 4);
            lazy_status_t status;
            held[n] = fake_use(fake, FIRST + page * PAGE, pages * PAGE, READ, round, &status);
            assert_true(LAZY_OK == status || LAZY_NO_RESOURCES == status);
            refused += LAZY_OK != status;
            served += LAZY_OK == status;
            n += NULL != held[n];
        }
        if (0 == rng_below(&rng, 50)) { /* a new cache: its tables are small again */
            while (n > 0) {
                fake_done(fake, held[--n]);
            }
            fake_ok(fake);
            for (unsigned i = 0; i < 4; ++i) {
                all[i]->times = 0;
            }
            fake_free(fake);
            fake = begin();
        }
        while (n > 0) {
            fake_done(fake, held[--n]);
        }
    }
    for (unsigned i = 0; i < 4; ++i) {
        all[i]->times = 0;
    }
    fake_ok(fake);
    fake_free(fake);
    assert_true(refused > 0 && served > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_cache, setup),
        cmocka_unit_test_setup(no_first_entry, setup),
        cmocka_unit_test_setup(no_more_entries, setup),
        cmocka_unit_test_setup(now_and_then, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
