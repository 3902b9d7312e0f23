/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The replacement policies of rcache/lazy: which registration each of them evicts. */
#include "rcache_fake.h"

/* Which page of those in the array went when one more had to. */
static unsigned evicted_page(fake_t *fake)
{
    assert_true(lazy_evict(fake->cache));
    counted(fake);
    return page_of(fake->last_ended_base);
}

static void lru_takes_the_oldest(void **state)
{
    (void) state;
    enum { N = 40 };
    fake_t *fake = cache_of("lru", SIZE_MAX / 2, FAKE_MAX);
    rng_t rng = {3};
    uint64_t used[N] = {0};
    lazy_entry_t *in_use[N] = {NULL};
    for (uint64_t now = 1; now < 20000; ++now) {
        const unsigned i = rng_below(&rng, N);
        if (NULL != in_use[i]) {
            fake_done(fake, in_use[i]);
            in_use[i] = NULL;
        } else if (rng_percent(&rng, 70)) {
            lazy_entry_t *e = use_pages(fake, 3 * i, 3 * i + 1, now);
            used[i] = now;
            if (rng_percent(&rng, 20)) {
                in_use[i] = e;
            } else {
                fake_done(fake, e);
            }
        } else {
            unsigned oldest = N;
            for (unsigned j = 0; j < N; ++j) {
                if (0 != used[j] && NULL == in_use[j] && (N == oldest || used[j] < used[oldest])) {
                    oldest = j;
                }
            }
            if (N == oldest) {
                assert_false(lazy_evict(fake->cache));
            } else {
                assert_int_equal(evicted_page(fake), 3 * oldest);
                used[oldest] = 0;
            }
        }
    }
    for (unsigned i = 0; i < N; ++i) {
        if (NULL != in_use[i]) {
            fake_done(fake, in_use[i]);
        }
    }
    fake_free(fake);
}

static void lfu_takes_the_least_used(void **state)
{
    (void) state;
    for (unsigned least = 0; least < 10; ++least) {
        fake_t *fake = cache_of("lfu", SIZE_MAX / 2, FAKE_MAX);
        for (unsigned i = 0; i < 10; ++i) {
            for (unsigned n = 0; n < (i == least ? 2 : 3 + i); ++n) {
                touch_pages(fake, 3 * i, 3 * i + 1, 100 - i);
            }
        }
        assert_int_equal(evicted_page(fake), 3 * least);
        fake_free(fake);
    }
}

/* Popular once is not popular for ever, but for a while. */
static void lfu_ages(void **state)
{
    (void) state;
    fake_t *fake = cache_of("lfu", SIZE_MAX / 2, 4);
    for (unsigned i = 0; i < 50; ++i) {
        touch_pages(fake, 0, 1, i);
    }
    unsigned lived = 0;
    for (unsigned i = 0; i < 1000 && is_there(fake, 0); ++i, ++lived) {
        /* (is_there counts as a use) so check only now and then */
        for (unsigned k = 0; k < 300; ++k) {
            touch_pages(fake, 2 + 2 * (k % 100), 3 + 2 * (k % 100), 100 + i);
        }
    }
    assert_int_equal(lived, 1);
    fake_free(fake);
    fake = cache_of("lfu", SIZE_MAX / 2, 4);
    for (unsigned i = 0; i < 50; ++i) {
        touch_pages(fake, 0, 1, i);
    }
    for (unsigned k = 0; k < 40; ++k) {
        touch_pages(fake, 2 + 2 * k, 3 + 2 * k, 100 + k);
    }
    assert_true(is_there(fake, 0));
    fake_free(fake);
}

static void best_fit_takes_what_frees_enough(void **state)
{
    (void) state;
    rng_t rng = {5};
    for (unsigned round = 0; round < 300; ++round) {
        fake_t *fake = cache();
        lazy_destroy(fake->cache);
        lazy_config_t config = fake_config(fake, "best_fit");
        unsigned size[10], total = 0;
        for (unsigned i = 0; i < 10; ++i) {
            total += size[i] = 1 + rng_below(&rng, 15);
        }
        config.max_bytes = total * PAGE;
        fake->cache = lazy_create(&config);
        lazy_entry_t *busy = NULL;
        const unsigned busy_one = rng_below(&rng, 10);
        for (unsigned i = 0; i < 10; ++i) {
            lazy_entry_t *e = use_pages(fake, 20 * i, 20 * i + size[i], i);
            if (i == busy_one) {
                busy = e;
            } else {
                fake_done(fake, e);
            }
        }
        const unsigned need = 1 + rng_below(&rng, 18);
        unsigned best = 10;
        for (unsigned i = 0; i < 10; ++i) {
            if (i == busy_one) {
                continue;
            }
            if (10 == best || (size[i] >= need && (size[best] < need || size[i] < size[best]))
                || (size[i] < need && size[best] < need && size[i] > size[best])) {
                best = i;
            }
        }
        touch_pages(fake, 220, 220 + need, 11);
        lazy_counters_t n = counted(fake);
        bool gone = false;
        for (unsigned i = 0; i < 10; ++i) {
            if (size[i] == size[best] && i != busy_one) {
                gone |= !is_there(fake, 20 * i);
            }
        }
        assert_true(gone);
        if (size[best] >= need) {
            assert_int_equal(n.evicted_bytes, 1);
        }
        fake_done(fake, busy);
        fake_free(fake);
    }
}

static void random_takes_each_in_turn(void **state)
{
    (void) state;
    enum { N = 16, ROUNDS = 4000 };
    unsigned taken[N] = {0};
    fake_t *fake = cache_of("random", SIZE_MAX / 2, FAKE_MAX);
    lazy_entry_t *busy = use_pages(fake, 0, 1, 0);
    for (unsigned i = 1; i < N; ++i) {
        touch_pages(fake, 2 * i, 2 * i + 1, 0);
    }
    for (unsigned round = 0; round < ROUNDS; ++round) {
        const unsigned i = evicted_page(fake) / 2;
        ++taken[i];
        touch_pages(fake, 2 * i, 2 * i + 1, round);
    }
    assert_int_equal(taken[0], 0);
    for (unsigned i = 1; i < N; ++i) {
        assert_in_range(taken[i], ROUNDS / N / 2, 3 * ROUNDS / N);
    }
    fake_done(fake, busy);
    fake_free(fake);
}

static void immediate_keeps_nothing(void **state)
{
    (void) state;
    fake_t *fake = cache_of("immediate", SIZE_MAX / 2, FAKE_MAX);
    for (unsigned i = 0; i < 10; ++i) {
        assert_int_equal(touch_pages(fake, 0, 4, i), i + 1);
        assert_int_equal(counted(fake).bytes, 0);
    }
    lazy_entry_t *e = use_pages(fake, 0, 4, 10); /* but what is in use is shared */
    assert_int_equal(touch_pages(fake, 1, 2, 11), 11);
    fake_done(fake, e);
    const lazy_counters_t n = counted(fake);
    assert_int_equal(n.evicted_unused, 11);
    assert_int_equal(n.hits, 1);
    fake_free(fake);
}

static void policies_have_names(void **state)
{
    (void) state;
    assert_string_equal(lazy_policy_at(0)->name, "lru"); /* the default */
    for (unsigned i = 0; NULL != lazy_policy_at(i); ++i) {
        assert_true(strlen(lazy_policy_at(i)->help) > 4);
        for (unsigned k = 0; k < i; ++k) {
            assert_string_not_equal(lazy_policy_at(k)->name, lazy_policy_at(i)->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lru_takes_the_oldest),
        cmocka_unit_test(lfu_takes_the_least_used),
        cmocka_unit_test(lfu_ages),
        cmocka_unit_test(best_fit_takes_what_frees_enough),
        cmocka_unit_test(random_takes_each_in_turn),
        cmocka_unit_test(immediate_keeps_nothing),
        cmocka_unit_test(policies_have_names),
    };
    return cmocka_run_group_tests_name("rcache_policies", tests, NULL, NULL);
}
