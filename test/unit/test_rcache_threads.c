/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* rcache/lazy with many threads: buffers of each thread's own that come and go, buffers that all use
 * at once, hooks for memory of others, evictions, limits. test/unit/races runs it under
 * ThreadSanitizer. RCACHE_ROUNDS in the environment.
 *
 * Nothing of cmocka is called by the threads: it is not made for them. */
#include "spec_unit.h"

#include "lazy_check.h"

#include <pthread.h>

#define PAGE     UINT64_C(4096)
#define FIRST    UINT64_C(0x10000000)
#define THREADS  4u
#define OWN      64u             /* pages of each thread */
#define COMMON   (THREADS * OWN) /* first of the pages that are everybody's */
#define PAGES    (COMMON + 64)
#define HELD_MAX 8

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Which memory is at a page. Written by its owner alone. */
static uint32_t life[PAGES];

typedef struct reg {
    bool alive;
    _Atomic int users;
    uintptr_t base, bound;
    uint32_t life[PAGES];
} reg_t;

static _Atomic uint64_t made, ended, used_bytes;
static uint64_t capacity;

static reg_t *reg_of(lazy_entry_t *e)
{
    return (reg_t *) (void *) e->data;
}

static unsigned page_of(uintptr_t address)
{
    return (unsigned) ((address - FIRST) / PAGE);
}

static lazy_status_t make(void *context, lazy_entry_t *e)
{
    reg_t *reg = reg_of(e);
    (void) context;
    CHECK(!reg->alive);
    if (lazy_size(e) > capacity - used_bytes) {
        return LAZY_NO_RESOURCES;
    }
    used_bytes += lazy_size(e);
    reg->alive = true;
    reg->base = lazy_base(e);
    reg->bound = lazy_bound(e);
    for (unsigned p = page_of(reg->base); p < page_of(reg->bound); ++p) {
        reg->life[p] = life[p];
    }
    ++made;
    return LAZY_OK;
}

static void end(void *context, lazy_entry_t *e)
{
    reg_t *reg = reg_of(e);
    (void) context;
    CHECK(reg->alive);
    CHECK(0 == reg->users);
    CHECK(reg->base == lazy_base(e) && reg->bound == lazy_bound(e));
    used_bytes -= reg->bound - reg->base;
    reg->alive = false;
    ++ended;
}

typedef struct worker {
    pthread_t thread;
    lazy_cache_t *cache;
    unsigned number;
    uint64_t rounds;
    lazy_entry_t *held[HELD_MAX];
    unsigned n;
} worker_t;

static void use(worker_t *w, rng_t *rng, uint64_t now)
{
    const bool common = rng_percent(rng, 50);
    const unsigned from = common ? COMMON : w->number * OWN;
    const unsigned first = from + 8 * rng_below(rng, 7) + rng_below(rng, 3);
    const unsigned pages = 1 + rng_below(rng, 6);
    lazy_entry_t *e;
    const lazy_status_t status = lazy_acquire(w->cache, FIRST + first * PAGE, pages * PAGE,
                                              1u << rng_below(rng, 2), now, &e);
    if (LAZY_OK != status) {
        CHECK(LAZY_NO_RESOURCES == status && NULL == e);
        return;
    }
    reg_t *reg = reg_of(e);
    CHECK(reg->alive);
    CHECK(reg->base <= FIRST + first * PAGE && FIRST + (first + pages) * PAGE <= reg->bound);
    for (unsigned p = first; p < first + pages; ++p) {
        CHECK(reg->life[p] == life[p]); /* not stale */
    }
    ++reg->users;
    w->held[w->n++] = e;
}

static void *work(void *argument)
{
    worker_t *w = argument;
    rng_t rng = {w->number + 1};
    for (uint64_t i = 0; i < w->rounds; ++i) {
        const uint32_t dice = rng_below(&rng, 1000);
        if (dice < 500 && w->n < HELD_MAX) {
            use(w, &rng, i);
        } else if (dice < 960) {
            if (w->n > 0) {
                const unsigned at = rng_below(&rng, w->n);
                lazy_entry_t *e = w->held[at];
                --reg_of(e)->users;
                lazy_release(w->cache, e);
                w->held[at] = w->held[--w->n];
            }
        } else if (dice < 985) { /* mine goes, and other memory comes */
            const unsigned first = w->number * OWN + rng_below(&rng, OWN - 4);
            lazy_invalidate(w->cache, FIRST + first * PAGE, 4 * PAGE);
            for (unsigned p = first; p < first + 4; ++p) {
                ++life[p];
            }
        } else if (dice < 994) { /* a hook for memory that others use */
            lazy_invalidate(w->cache, FIRST + rng_below(&rng, PAGES) * PAGE, 2 * PAGE);
        } else if (dice < 997) {
            (void) lazy_evict(w->cache);
        } else if (dice < 998) {
            lazy_counters_t n;
            lazy_count(w->cache, &n);
            CHECK(n.registrations <= made);
        } else {
            lazy_entry_t *e;
            if (LAZY_OK
                == lazy_acquire_private(w->cache, FIRST + w->number * OWN * PAGE, PAGE, 1, &e)) {
                lazy_release(w->cache, e);
            }
        }
    }
    while (w->n > 0) {
        lazy_entry_t *e = w->held[--w->n];
        --reg_of(e)->users;
        lazy_release(w->cache, e);
    }
    return NULL;
}

static void together(const char *policy, size_t max_bytes, uint64_t can)
{
    const char *text = getenv("RCACHE_ROUNDS");
    const uint64_t rounds = NULL == text ? 60000 : strtoull(text, NULL, 0);
    const lazy_config_t config = {.make = make,
                                  .end = end,
                                  .data_size = sizeof(reg_t),
                                  .policy = lazy_policy_of(policy),
                                  .max_bytes = max_bytes,
                                  .max_entries = 64,
                                  .page = PAGE,
                                  .merge = 100,
                                  .seed = 1};
    lazy_cache_t *cache = lazy_create(&config);
    worker_t workers[THREADS];
    assert_non_null(cache);
    capacity = can;
    made = ended = used_bytes = 0;
    for (unsigned i = 0; i < THREADS; ++i) {
        workers[i] = (worker_t){.cache = cache, .number = i, .rounds = rounds};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; ++i) {
        pthread_join(workers[i].thread, NULL);
    }
    const char *wrong = lazy_check(cache);
    if (NULL != wrong) {
        fail_msg("%s", wrong);
    }
    lazy_counters_t n;
    lazy_count(cache, &n);
    assert_int_equal(n.registrations, made);
    assert_int_equal(n.deregistrations, ended);
    assert_int_equal(n.quarantined, 0);
    assert_int_equal(n.bytes, used_bytes);
    assert_true(n.hits > 0 && n.invalidated > 0);
    assert_true(n.bytes <= max_bytes);
    assert_int_equal(lazy_destroy(cache), 0);
    assert_int_equal(made, ended);
}

static void without_limits(void **state)
{
    (void) state;
    together("lru", SIZE_MAX / 2, UINT64_MAX / 2);
}

static void under_limits(void **state)
{
    (void) state;
    for (unsigned i = 0; NULL != lazy_policy_at(i); ++i) {
        together(lazy_policy_at(i)->name, 40 * PAGE, UINT64_MAX / 2);
    }
}

static void with_refusals(void **state)
{
    (void) state;
    together("lfu", SIZE_MAX / 2, 60 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_limits),
        cmocka_unit_test(under_limits),
        cmocka_unit_test(with_refusals),
    };
    return cmocka_run_group_tests_name("rcache_threads", tests, NULL, NULL);
}
