/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* rcache/lazy between a memory hook and its system call: what is registered there must not be handed out afterwards. */
#include "rcache_fake.h"

#include "lazy_unmap.h"

#include <pthread.h>
#include <sched.h>

/* ---- pending unmaps alone ---- */

static void clips_to(lazy_unmaps_t *unmaps, uintptr_t asked, uintptr_t asked_bound, uintptr_t base,
                     uintptr_t bound)
{
    uintptr_t b = 0, e = 100;
    assert_int_equal(lazy_unmaps_clip(unmaps, asked, asked_bound, &b, &e),
                     0 != base || 100 != bound);
    assert_int_equal(b, base);
    assert_int_equal(e, bound);
}

static void neighbours_end_where_a_pending_unmap_begins(void **state)
{
    (void) state;
    lazy_unmaps_t *unmaps = must_alloc(sizeof(*unmaps));
    clips_to(unmaps, 40, 50, 0, 100);
    lazy_unmaps_note(unmaps, 1, 20, 30);
    clips_to(unmaps, 40, 50, 30, 100);
    lazy_unmaps_note(unmaps, 2, 60, 61);
    clips_to(unmaps, 40, 50, 30, 60);
    lazy_unmaps_note(unmaps, 3, 50, 200);
    clips_to(unmaps, 40, 50, 30, 50);
    lazy_unmaps_note(unmaps, 4, 0, 45); /* of what was asked for nothing is left out */
    clips_to(unmaps, 40, 50, 40, 50);
    free(unmaps);
}

static void a_thread_is_in_one_call(void **state)
{
    (void) state;
    lazy_unmaps_t *unmaps = must_alloc(sizeof(*unmaps));
    lazy_unmaps_note(unmaps, 1, 20, 30);
    lazy_unmaps_note(unmaps, 1, 60, 70); /* a signal's handler, perhaps */
    clips_to(unmaps, 40, 50, 30, 60);
    for (uintptr_t i = 0; i < 1000; ++i) {
        lazy_unmaps_note(unmaps, 1, 200 + i, 201 + i);
    }
    clips_to(unmaps, 40, 50, 0, 100);
    free(unmaps);
}

static void what_is_asked_for_is_there(void **state)
{
    (void) state;
    lazy_unmaps_t *unmaps = must_alloc(sizeof(*unmaps));
    lazy_unmaps_note(unmaps, 1, 20, 30);
    lazy_unmaps_note(unmaps, 2, 20, 30);
    lazy_unmaps_end(unmaps, 30, 40);
    lazy_unmaps_end(unmaps, 10, 20);
    clips_to(unmaps, 40, 50, 30, 100);
    lazy_unmaps_end(unmaps, 29, 31);
    clips_to(unmaps, 40, 50, 0, 100);
    lazy_unmaps_note(unmaps, 2, 20, 30); /* the same again */
    clips_to(unmaps, 40, 50, 30, 100);
    free(unmaps);
}

static void more_threads_than_places(void **state)
{
    (void) state;
    lazy_unmaps_t *unmaps = must_alloc(sizeof(*unmaps));
    for (uintptr_t i = 1; i <= LAZY_UNMAP_THREADS; ++i) {
        lazy_unmaps_note(unmaps, i, 200, 201);
        lazy_unmaps_note(unmaps, i, 200, 201);
    }
    clips_to(unmaps, 40, 50, 0, 100);
    lazy_unmaps_note(unmaps, LAZY_UNMAP_THREADS, 60, 70);
    clips_to(unmaps, 40, 50, 0, 60);
    lazy_unmaps_note(unmaps, LAZY_UNMAP_THREADS + 1, 200, 201);
    clips_to(unmaps, 40, 50, 40, 50);
    free(unmaps);
}

/* ---- the cache ---- */

#define BLOCK 8u
#define CALLS 3u /* threads that give memory back */

static fake_t *cache_with_blocks(lazy_status_t (*make)(void *, lazy_entry_t *))
{
    fake_t *fake = fake_new();
    lazy_config_t config = fake_config(fake, "lru");
    config.make = make;
    config.around = BLOCK * PAGE;
    config.apart = ATOMIC;
    fake->cache = lazy_create(&config);
    assert_non_null(fake->cache);
    return fake;
}

/* Threads between hook and system call; pages from first, 0 pages: none. */
typedef struct world {
    fake_t *fake;
    struct {
        unsigned first, pages;
    } open[CALLS];
    uint64_t now;
} world_t;

static world_t world;

static bool is_going(unsigned first, unsigned pages)
{
    for (unsigned t = 0; t < CALLS; ++t) {
        if (0 != world.open[t].pages && world.open[t].first < first + pages
            && first < world.open[t].first + world.open[t].pages) {
            return true;
        }
    }
    return false;
}

/* A thread begins to give pages back, or makes the call that it was at. */
static void step_of(unsigned thread, unsigned first, unsigned pages)
{
    if (0 != world.open[thread].pages) {
        for (unsigned p = world.open[thread].first;
             p < world.open[thread].first + world.open[thread].pages; ++p) {
            ++world.fake->life[p];
        }
        world.open[thread].pages = 0;
    } else if (!is_going(first, pages)) {
        lazy_invalidate_by(world.fake->cache, 1 + thread, FIRST + first * PAGE, pages * PAGE);
        world.open[thread].first = first;
        world.open[thread].pages = pages;
    }
}

/* What is handed out must be of the memory that is there, all of it: life[] of what is about to go is compared as well. */
static void use(unsigned first, unsigned pages, uint32_t access)
{
    lazy_status_t status;
    if (!is_going(first, pages)) {
        fake_done(world.fake, fake_use(world.fake, FIRST + first * PAGE, pages * PAGE, access,
                                       ++world.now, &status));
        assert_int_equal(status, LAZY_OK);
    }
}

/* All orders of a few steps: two threads that give back one of three ranges, and uses of four pages. */
static void each_order(void **state)
{
    (void) state;
    static const struct {
        unsigned first, pages;
    } ranges[] = {{0, 2}, {2, 1}, {5, 3}};
    enum { RANGES = 3, USES = 4, CHOICES = 2 * RANGES + USES, DEPTH = 5 };
    for (unsigned long order = 0; order < 100000ul /* CHOICES to the power of DEPTH */; ++order) {
        world = (world_t){.fake = cache_with_blocks(fake_make)};
        unsigned long digits = order;
        for (unsigned i = 0; i < DEPTH; ++i, digits /= CHOICES) {
            const unsigned choice = (unsigned) (digits % CHOICES);
            if (choice < 2 * RANGES) {
                step_of(choice / RANGES, ranges[choice % RANGES].first,
                        ranges[choice % RANGES].pages);
            } else {
                use(2 * (choice - 2 * RANGES), 1, READ);
            }
        }
        for (unsigned p = 0; p < BLOCK; ++p) {
            use(p, 1, READ);
        }
        for (unsigned t = 0; t < 2; ++t) { /* the calls come now */
            if (0 != world.open[t].pages) {
                step_of(t, 0, 0);
            }
        }
        for (unsigned p = 0; p < BLOCK; ++p) {
            use(p, 1, READ);
        }
        fake_free(world.fake);
    }
}

static rng_t random_hooks;

/* While an adapter registers, hooks run as well. */
static lazy_status_t make_beside_hooks(void *context, lazy_entry_t *e)
{
    const unsigned from = page_of(lazy_base(e)) & ~(BLOCK - 1);
    if (rng_percent(&random_hooks, 30)) {
        const unsigned first = from + rng_below(&random_hooks, BLOCK);
        const unsigned to = page_of(lazy_bound(e));
        /* of what nobody asked for; that this may be the page being asked for is an error of the program */
        if (first >= to || rng_percent(&random_hooks, 50)) {
            step_of(rng_below(&random_hooks, CALLS), (first + BLOCK) % PAGES, 1);
        }
    }
    return fake_make(context, e);
}

static void long_walks(void **state)
{
    (void) state;
    rng_t rng = {11};
    random_hooks.state = 12;
    world = (world_t){.fake = cache_with_blocks(make_beside_hooks)};
    for (unsigned i = 0; i < 400000; ++i) {
        const unsigned first = rng_below(&rng, 6 * BLOCK), pages = 1 + rng_below(&rng, 3);
        if (rng_percent(&rng, 60)) {
            use(first, pages, rng_percent(&rng, 5) ? ATOMIC : 1u << rng_below(&rng, 2));
        } else {
            step_of(rng_below(&rng, CALLS), first, pages);
        }
    }
    lazy_counters_t n;
    fake_ok(world.fake);
    lazy_count(world.fake->cache, &n);
    assert_true(n.hits > 50000 && n.merges > 1000 && n.clipped > 1000);
    fake_free(world.fake);
}

/* A program that frees often keeps its hits, and its blocks. */
static void who_frees_often_keeps_blocks(void **state)
{
    (void) state;
    world = (world_t){.fake = cache_with_blocks(fake_make)};
    for (unsigned i = 0; i < 1000; ++i) {
        for (unsigned t = 0; t < CALLS; ++t) {
            step_of(t, 8 * BLOCK + 2 * t, 2); /* hook, and call */
            step_of(t, 0, 0);
        }
        for (unsigned p = 0; p < 4 * BLOCK; ++p) {
            use(p, 1, READ);
        }
    }
    lazy_counters_t n;
    lazy_count(world.fake->cache, &n);
    assert_int_equal(n.misses, 4);
    assert_int_equal(n.clipped, 0);
    /* What came back is used: no unmap of it is pending any more. */
    for (unsigned p = 0; p < BLOCK; p += 2) {
        use(8 * BLOCK + p, 1, READ);
    }
    lazy_entry_t *e = use_pages(world.fake, 9 * BLOCK - 1, 9 * BLOCK, 0);
    assert_int_equal(lazy_size(e), BLOCK * PAGE);
    fake_done(world.fake, e);
    fake_free(world.fake);
}

/* The break of the heap is within a page, which stays and may be asked for. */
static void a_page_that_stays_says_nothing(void **state)
{
    (void) state;
    world = (world_t){.fake = cache_with_blocks(fake_make)};
    lazy_invalidate_by(world.fake->cache, 1, FIRST + 2 * PAGE + 100, PAGE);
    for (unsigned p = 2; p < 8; ++p) {
        if (3 != p) {
            lazy_entry_t *e = use_pages(world.fake, p, p + 1, p);
            assert_true(page_of(lazy_bound(e)) <= 3 || page_of(lazy_base(e)) >= 4);
            fake_done(world.fake, e);
        }
    }
    fake_free(world.fake);
}

/* ---- with threads ---- */

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static _Atomic uint32_t lives[BLOCK]; /* an owner alone changes those of its pages */

static lazy_status_t make_beside_threads(void *context, lazy_entry_t *e)
{
    uint32_t *was = (uint32_t *) (void *) e->data;
    (void) context;
    for (unsigned p = page_of(lazy_base(e)); p < page_of(lazy_bound(e)); ++p) {
        was[p] = atomic_load(&lives[p]);
    }
    return LAZY_OK;
}

static void end_nothing(void *context, lazy_entry_t *e)
{
    (void) context, (void) e;
}

typedef struct owner {
    pthread_t thread;
    lazy_cache_t *cache;
    unsigned number;
} owner_t;

/* Of every second page an owner gives one back now and then, and uses those that it has: all in one block. */
static void *own(void *argument)
{
    owner_t *o = argument;
    rng_t rng = {o->number + 1};
    for (unsigned i = 0; i < 100000; ++i) {
        const unsigned page = o->number + 2 * rng_below(&rng, BLOCK / 2);
        lazy_entry_t *e;
        if (rng_percent(&rng, 20)) {
            lazy_invalidate(o->cache, FIRST + page * PAGE, PAGE);
            if (rng_percent(&rng, 10)) {
                sched_yield();
            }
            atomic_fetch_add(&lives[page], 1);
        }
        CHECK(LAZY_OK == lazy_acquire(o->cache, FIRST + page * PAGE, PAGE, READ, i, &e));
        CHECK(((uint32_t *) (void *) e->data)[page] == atomic_load(&lives[page]));
        lazy_release(o->cache, e);
    }
    return NULL;
}

static void neighbours_of_another_thread(void **state)
{
    (void) state;
    const lazy_config_t config = {.make = make_beside_threads,
                                  .end = end_nothing,
                                  .data_size = BLOCK * sizeof(uint32_t),
                                  .policy = lazy_policy_of("lru"),
                                  .max_bytes = SIZE_MAX / 2,
                                  .max_entries = 64,
                                  .page = PAGE,
                                  .around = BLOCK * PAGE,
                                  .merge = 100};
    owner_t owners[2];
    lazy_cache_t *cache = lazy_create(&config);
    assert_non_null(cache);
    for (unsigned i = 0; i < 2; ++i) {
        owners[i] = (owner_t){.cache = cache, .number = i};
        assert_int_equal(pthread_create(&owners[i].thread, NULL, own, &owners[i]), 0);
    }
    for (unsigned i = 0; i < 2; ++i) {
        pthread_join(owners[i].thread, NULL);
    }
    lazy_counters_t n;
    lazy_count(cache, &n);
    assert_null(lazy_check(cache));
    assert_true(n.merges > 0);
    (void) lazy_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_end_where_a_pending_unmap_begins),
        cmocka_unit_test(a_thread_is_in_one_call),
        cmocka_unit_test(what_is_asked_for_is_there),
        cmocka_unit_test(more_threads_than_places),
        cmocka_unit_test(each_order),
        cmocka_unit_test(long_walks),
        cmocka_unit_test(who_frees_often_keeps_blocks),
        cmocka_unit_test(a_page_that_stays_says_nothing),
        cmocka_unit_test(neighbours_of_another_thread),
    };
    return cmocka_run_group_tests_name("rcache_unmap", tests, NULL, NULL);
}
