/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* rcache/lazy against an adapter that knows every registration (rcache_fake.h): millions of random
 * uses, returns, evictions, and memory that goes away and comes again. RCACHE_SEED and RCACHE_ROUNDS
 * in the environment. */
#include "rcache_fake.h"

#define IN_USE_MAX 48

typedef struct held {
    lazy_entry_t *e;
    bool private;
} held_t;

typedef struct setup {
    const char *policy;
    size_t max_bytes, max_entries;
    unsigned merge;
    size_t capacity;
    bool read_only; /* some pages are: what is merged may be refused */
} setup_t;

static bool is_scarce(const setup_t *setup)
{
    return setup->capacity < SIZE_MAX / 2;
}

/* Where larger registrations are refused, smaller ones take the place of what is in use, and it is not foretold which is found;
 * that it serves is checked all the same (fake_use). */
static void check_hit(const setup_t *setup, bool expected, bool hit)
{
    if (!setup->read_only && !is_scarce(setup)) {
        assert_int_equal(expected, hit);
    }
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return NULL == text ? otherwise : strtoull(text, NULL, 0);
}

static void one_use(fake_t *fake, const setup_t *setup, rng_t *rng, held_t *held, unsigned *n,
                    uint64_t now)
{
    /* Mostly the same few buffers, as applications have, at any byte. */
    const bool known = rng_percent(rng, 60);
    const unsigned first = known ? 16 * rng_below(rng, 12) : rng_below(rng, PAGES - 40);
    const unsigned pages = known ? 8 : 1 + rng_below(rng, rng_percent(rng, 20) ? 40 : 6);
    const uintptr_t address = FIRST + first * PAGE + (known ? 0 : rng_below(rng, PAGE - 40));
    const size_t size = pages * PAGE - (address - FIRST) % PAGE - (known ? 0 : rng_below(rng, 40));
    const uint32_t access = 1u << rng_below(rng, rng_percent(rng, 30) ? 3 : 1);
    const unsigned last = page_of(address + size - 1) + 1;
    lazy_status_t status;
    if (rng_percent(rng, 5)) {
        const bool has = fake_has(fake, first, last, access);
        lazy_entry_t *e = lazy_find(fake->cache, address, size, access, now);
        check_hit(setup, has, NULL != e);
        if (NULL != e) {
            assert_true(reg_of(e)->alive && !reg_of(e)->stale);
            lazy_release(fake->cache, e);
        }
        return;
    }
    if (rng_percent(rng, 3)) {
        lazy_entry_t *e;
        fake->private = true;
        status = lazy_acquire_private(fake->cache, address, size, READ, &e);
        fake->private = false;
        if (LAZY_OK == status) {
            ++reg_of(e)->users;
            held[(*n)++] = (held_t){e, true};
        }
        return;
    }
    const bool has = fake_has(fake, first, last, access);
    const uint32_t made = fake->made;
    lazy_entry_t *e = fake_use(fake, address, size, access, now, &status);
    check_hit(setup, has, made == fake->made && LAZY_OK == status);
    if (NULL == e) {
        assert_true(setup->read_only || LAZY_NO_RESOURCES == status);
        return;
    }
    held[(*n)++] = (held_t){e, false};
}

static void rounds(const setup_t *setup, uint64_t seed, uint64_t count)
{
    fake_t *fake = fake_new();
    lazy_config_t config = fake_config(fake, setup->policy);
    rng_t rng = {seed};
    held_t held[IN_USE_MAX];
    unsigned n = 0;
    config.max_bytes = setup->max_bytes;
    config.max_entries = setup->max_entries;
    config.merge = setup->merge;
    fake->capacity = setup->capacity;
    for (unsigned p = 0; setup->read_only && p < PAGES; ++p) {
        fake->read_only[p] = p / 8 % 3 == 0;
    }
    fake->cache = lazy_create(&config);
    assert_non_null(fake->cache);
    for (uint64_t i = 0; i < count; ++i) {
        const uint32_t dice = rng_below(&rng, 100);
        if (dice < 50 && n < IN_USE_MAX) {
            one_use(fake, setup, &rng, held, &n, i);
        } else if (dice < 94) {
            if (n > 0) {
                const unsigned at = rng_below(&rng, n);
                fake_done(fake, held[at].e);
                held[at] = held[--n];
            }
        } else if (dice < 98) {
            const unsigned first = rng_below(&rng, PAGES);
            const unsigned pages = 1 + rng_below(&rng, rng_percent(&rng, 90) ? 4 : 60);
            fake_remap(fake, first, first + pages < PAGES ? first + pages : PAGES);
        } else if (dice < 99) {
            fake_ok(fake); /* takes out what is stale, which would end too */
            const uint32_t ended = fake->ended;
            const bool evicted = lazy_evict(fake->cache);
            assert_int_equal(fake->ended, ended + evicted);
        }
        if (0 == i % 64) {
            fake_ok(fake);
        }
    }
    while (n > 0) {
        fake_done(fake, held[--n].e);
    }
    fake_ok(fake);
    lazy_counters_t c;
    lazy_count(fake->cache, &c);
    assert_int_equal(c.quarantined, 0);
    assert_int_equal(c.privates_now, 0);
    /* The rounds have been where they should. */
    if (count > 10000) {
        assert_true(c.hits > 0 && c.misses > 0 && c.lost_in_use > 0 && c.invalidated > 0);
        assert_true(0 == setup->merge || c.merges > 0);
        assert_true(!setup->read_only || c.merges_undone > 0);
        assert_true(!is_scarce(setup) || c.evicted_resources > 0 || !config.policy->keeps);
    }
    fake_free(fake);
}

static void against_the_oracle(void **state)
{
    static const setup_t setups[] = {
        {"lru", SIZE_MAX / 2, FAKE_MAX, 100, SIZE_MAX / 2, false},
        {"lru", 64 * PAGE, 12, 100, SIZE_MAX / 2, false},
        {"lru", SIZE_MAX / 2, 5, 0, SIZE_MAX / 2, false},
        {"lfu", 80 * PAGE, FAKE_MAX, 100, SIZE_MAX / 2, false},
        {"lfu", SIZE_MAX / 2, FAKE_MAX, 400, 120 * PAGE, false},
        {"best_fit", 64 * PAGE, FAKE_MAX, 100, SIZE_MAX / 2, false},
        {"best_fit", SIZE_MAX / 2, 20, 50, 90 * PAGE, true},
        {"random", 100 * PAGE, 20, 100, 130 * PAGE, true},
        {"immediate", SIZE_MAX / 2, FAKE_MAX, 100, SIZE_MAX / 2, false},
        {"immediate", 32 * PAGE, 4, 100, 64 * PAGE, true},
        {"lru", PAGE, 1, 100, SIZE_MAX / 2, false},
    };
    (void) state;
    const uint64_t seed = number("RCACHE_SEED", 1);
    const size_t n = sizeof(setups) / sizeof(*setups);
    const uint64_t count = number("RCACHE_ROUNDS", 4400000) / n;
    print_message("seed %llu\n", (unsigned long long) seed);
    for (size_t i = 0; i < n; ++i) {
        rounds(&setups[i], seed + i, count);
    }
    for (unsigned i = 0; NULL != lazy_policy_at(i); ++i) {
        const setup_t setup = {lazy_policy_at(i)->name, 64 * PAGE, 12, 100, SIZE_MAX / 2, false};
        rounds(&setup, seed + n + i, count / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_the_oracle),
    };
    return cmocka_run_group_tests_name("rcache_oracle", tests, NULL, NULL);
}
