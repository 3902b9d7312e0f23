/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* rcache/lazy, rule by rule: reuse, memory that goes away, growth, limits, refusals, fork. */
#include "rcache_fake.h"

#include "lazy_inbox.h"
#include "lazy_limits.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- reuse ---- */

static void one_registration_per_buffer(void **state)
{
    (void) state;
    fake_t *fake = cache();
    for (uint64_t i = 0; i < 1000; ++i) {
        assert_int_equal(touch_pages(fake, 10, 20, i), 1);
        assert_int_equal(touch_pages(fake, 12, 15, i), 1); /* a part of it */
        assert_int_equal(touch_pages(fake, 30, 31, i), 2);
    }
    const lazy_counters_t n = counted(fake);
    assert_int_equal(n.registrations, 2);
    assert_int_equal(n.hits, 2998);
    assert_int_equal(n.misses, 2);
    assert_int_equal(n.bytes, 11 * PAGE);
    fake_free(fake);
}

static void bytes_become_pages(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_status_t status;
    lazy_entry_t *e = fake_use(fake, FIRST + 3 * PAGE + 4095, 2, READ, 0, &status);
    assert_int_equal(lazy_base(e), FIRST + 3 * PAGE);
    assert_int_equal(lazy_bound(e), FIRST + 5 * PAGE);
    fake_done(fake, e);
    e = fake_use(fake, FIRST + 9 * PAGE, 0, READ, 0, &status); /* nothing is somewhere */
    assert_int_equal(lazy_bound(e) - lazy_base(e), PAGE);
    fake_done(fake, e);
    /* Beyond the end of all addresses. */
    static const struct {
        uintptr_t address;
        size_t size;
    } bad[] = {{UINTPTR_MAX, 1}, {UINTPTR_MAX - 4096, 8192}, {FIRST, SIZE_MAX}, {0, SIZE_MAX}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); ++i) {
        assert_int_equal(lazy_acquire(fake->cache, bad[i].address, bad[i].size, READ, 0, &e),
                         LAZY_FAILED);
        assert_null(e);
        assert_null(lazy_find(fake->cache, bad[i].address, bad[i].size, READ, 0));
    }
    counted(fake);
    fake_free(fake);
}

static void find_makes_nothing(void **state)
{
    (void) state;
    fake_t *fake = cache();
    assert_null(lazy_find(fake->cache, FIRST, PAGE, READ, 0));
    touch_pages(fake, 0, 4, 0);
    lazy_entry_t *e = lazy_find(fake->cache, FIRST + PAGE, PAGE, READ, 0);
    assert_non_null(e);
    assert_false(lazy_evict(fake->cache)); /* in use */
    lazy_release(fake->cache, e);
    assert_true(lazy_evict(fake->cache));
    assert_null(lazy_find(fake->cache, FIRST + PAGE, PAGE, READ, 0));
    assert_int_equal(counted(fake).registrations, 1);
    fake_free(fake);
}

/* A registration that was given out once is taken again for as long as it serves, and only then. */
static void again_only_what_serves(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_status_t status;
    lazy_entry_t *e = fake_use(fake, FIRST, PAGE, READ, 0, &status);
    fake_done(fake, e);
    assert_true(lazy_again(fake->cache, e, FIRST + 100, 200, READ, 1));
    assert_false(lazy_evict(fake->cache)); /* in use */
    lazy_release(fake->cache, e);
    assert_int_equal(counted(fake).hits, 1);
    assert_false(lazy_again(fake->cache, e, FIRST + PAGE - 1, 2, READ, 1));
    assert_false(lazy_again(fake->cache, e, FIRST, PAGE, READ | WRITE, 1));
    assert_false(lazy_again(fake->cache, e, UINTPTR_MAX, 2, READ, 1));
    lazy_invalidate(fake->cache, FIRST, PAGE);
    assert_false(lazy_again(fake->cache, e, FIRST, PAGE, READ, 1)); /* before anybody drained it */
    lazy_entry_t *other = fake_use(fake, FIRST + 7 * PAGE, PAGE, READ, 0, &status);
    fake_done(fake, other);
    assert_false(lazy_again(fake->cache, e, FIRST, PAGE, READ, 1));
    assert_true(lazy_again(fake->cache, other, FIRST + 7 * PAGE, PAGE, READ, 1));
    lazy_release(fake->cache, other);
    assert_true(lazy_evict(fake->cache));
    assert_false(lazy_again(fake->cache, other, FIRST + 7 * PAGE, PAGE, READ, 1));
    fake_free(fake);
}

static void private_is_nobody_elses(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_entry_t *e, *f;
    fake->private = true;
    assert_int_equal(lazy_acquire_private(fake->cache, FIRST, PAGE, READ, &e), LAZY_OK);
    assert_int_equal(lazy_acquire_private(fake->cache, FIRST, PAGE, READ, &f), LAZY_OK);
    fake->private = false;
    assert_ptr_not_equal(e, f);
    assert_int_equal(touch_pages(fake, 0, 1, 0), 3);
    lazy_invalidate(fake->cache, FIRST, PAGE); /* what it is of is its user's business */
    assert_int_equal(counted(fake).privates_now, 2);
    lazy_release(fake->cache, e);
    lazy_release(fake->cache, f);
    const lazy_counters_t n = counted(fake);
    assert_int_equal(n.privates_now, 0);
    assert_int_equal(n.ended, 2);
    assert_int_equal(n.bytes, 0);
    fake_free(fake);
}

/* ---- memory that goes away ---- */

static void other_memory_at_the_same_address(void **state)
{
    (void) state;
    fake_t *fake = cache();
    const uint32_t first = touch_pages(fake, 5, 9, 0);
    fake_remap(fake, 5, 9);
    assert_int_not_equal(touch_pages(fake, 5, 9, 1), first); /* fake_use checks which memory */
    const lazy_counters_t n = counted(fake);
    assert_int_equal(n.invalidated, 1);
    assert_int_equal(n.lost_in_use, 0);
    assert_int_equal(n.entries, 1);
    fake_free(fake);
}

static void one_page_of_it_goes(void **state)
{
    (void) state;
    for (unsigned page = 4; page < 11; ++page) {
        fake_t *fake = cache();
        const uint32_t left = touch_pages(fake, 0, 5, 0);
        const uint32_t middle = touch_pages(fake, 5, 10, 0);
        const uint32_t right = touch_pages(fake, 10, 15, 0);
        fake_remap(fake, page, page + 1);
        assert_int_equal(touch_pages(fake, 0, 5, 1) == left, page != 4);
        assert_int_equal(touch_pages(fake, 5, 10, 1) == middle, page < 5 || page > 9);
        assert_int_equal(touch_pages(fake, 10, 15, 1) == right, page != 10);
        counted(fake);
        fake_free(fake);
    }
}

/* The hook comes before the munmap of pages 0 to 3, and another thread uses memory beside them in between: away
 * from any registration, or overlapping one that they are in. No hook will tell of them again. */
static void nothing_is_registered_that_is_about_to_go(void **state)
{
    (void) state;
    for (unsigned was_registered = 0; was_registered < 2; ++was_registered) {
        fake_t *fake = cache();
        if (was_registered) {
            touch_pages(fake, 0, 10, 0);
        }
        lazy_invalidate(fake->cache, FIRST, 4 * PAGE);
        lazy_entry_t *e = use_pages(fake, 8, 12, 1);
        assert_int_equal(lazy_base(e), FIRST + 8 * PAGE);
        assert_int_equal(lazy_bound(e), FIRST + 12 * PAGE);
        fake_done(fake, e);
        for (unsigned p = 0; p < 4; ++p) {
            ++fake->life[p]; /* the system call, and other memory */
        }
        touch_pages(fake, 0, 4, 2); /* fake_use checks which memory */
        counted(fake);
        fake_free(fake);
    }
}

/* Half of a registration goes while the other half is in use: the user goes on, nobody else joins. */
static void memory_goes_while_in_use(void **state)
{
    (void) state;
    fake_t *fake = cache();
    touch_pages(fake, 0, 8, 0);
    lazy_entry_t *in_use = use_pages(fake, 0, 4, 1);
    fake_remap(fake, 4, 8);
    lazy_entry_t *other = use_pages(fake, 0, 4, 2);
    assert_ptr_not_equal(in_use, other);
    lazy_counters_t n = counted(fake);
    assert_int_equal(n.lost_in_use, 1);
    assert_int_equal(n.quarantined, 1);
    assert_int_equal(fake->told[LAZY_LOST_IN_USE], 1);
    assert_int_equal(n.deregistrations, 0);
    assert_true(reg_of(in_use)->alive);
    assert_false(lazy_evict(fake->cache)); /* both are in use */
    fake_done(fake, in_use);
    assert_int_equal(fake->last_ended, 1);
    n = counted(fake);
    assert_int_equal(n.quarantined, 0);
    assert_int_equal(n.quarantined_most, 1);
    assert_int_equal(n.invalidated, 1);
    fake_done(fake, other);
    assert_int_equal(counted(fake).entries, 1);
    fake_free(fake);
}

static void the_last_of_many_users_ends_it(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_entry_t *e[10];
    for (unsigned i = 0; i < 10; ++i) {
        e[i] = use_pages(fake, 0, 4, i);
    }
    fake_remap(fake, 3, 4);
    touch_pages(fake, 3, 4, 11);
    for (unsigned i = 0; i < 10; ++i) {
        assert_int_equal(counted(fake).quarantined, 1);
        assert_int_equal(fake->ended, 0);
        fake_done(fake, e[i]);
    }
    assert_int_equal(fake->ended, 1);
    assert_int_equal(counted(fake).hits, 9);
    fake_free(fake);
}

/* Memory that nobody registered may come and go without filling the inbox. */
static void hooks_pass_by_what_is_not_registered(void **state)
{
    (void) state;
    fake_t *fake = cache();
    const uint32_t id = touch_pages(fake, 50, 60, 0);
    for (unsigned i = 0; i < 5 * LAZY_INBOX_SIZE; ++i) {
        lazy_invalidate(fake->cache, FIRST, 50 * PAGE);
        lazy_invalidate(fake->cache, FIRST + 60 * PAGE, 100 * PAGE);
        lazy_invalidate(fake->cache, FIRST + 55 * PAGE, 0);
    }
    assert_int_equal(touch_pages(fake, 50, 60, 1), id);
    assert_int_equal(counted(fake).inbox_overflows, 0);
    lazy_invalidate(fake->cache, FIRST + 60 * PAGE - 1, 1);
    assert_int_not_equal(touch_pages(fake, 50, 60, 1), id);
    lazy_invalidate(fake->cache, 1, UINTPTR_MAX); /* all there is */
    assert_int_equal(counted(fake).entries, 0);
    fake_free(fake);
}

static void more_goes_than_can_be_noted(void **state)
{
    (void) state;
    fake_t *fake = cache();
    touch_pages(fake, 0, 1, 0);
    const uint32_t kept = touch_pages(fake, 7, 8, 0);
    for (unsigned i = 0; i < LAZY_INBOX_SIZE; ++i) {
        lazy_invalidate(fake->cache, FIRST, PAGE);
    }
    assert_int_equal(touch_pages(fake, 7, 8, 1), kept);
    touch_pages(fake, 0, 1, 2);
    lazy_entry_t *in_use = use_pages(fake, 9, 10, 3);
    for (unsigned i = 0; i < LAZY_INBOX_SIZE + 1; ++i) {
        lazy_invalidate(fake->cache, FIRST, PAGE);
    }
    fake->life[7] = 99; /* this might have been the one that was lost */
    assert_int_not_equal(touch_pages(fake, 7, 8, 4), kept);
    const lazy_counters_t n = counted(fake);
    assert_int_equal(n.inbox_overflows, 1);
    assert_int_equal(n.quarantined, 1);
    fake_done(fake, in_use);
    counted(fake);
    fake_free(fake);
}

static unsigned taken_out[LAZY_INBOX_SIZE];

static void take_out(void *context, uintptr_t base, uintptr_t bound)
{
    ++*(unsigned *) context;
    assert_int_equal(bound, base + 5);
    ++taken_out[base / 10];
}

static void the_inbox_gives_back_what_was_put_in(void **state)
{
    (void) state;
    static lazy_inbox_t inbox;
    for (unsigned n = 0; n <= LAZY_INBOX_SIZE; n += 77) {
        unsigned found = 0;
        memset(taken_out, 0, sizeof(taken_out));
        for (unsigned i = 0; i < n; ++i) {
            lazy_inbox_post(&inbox, 10 * i, 10 * i + 5);
        }
        assert_false(lazy_inbox_drain(&inbox, take_out, &found));
        assert_int_equal(found, n);
        for (unsigned i = 0; i < n; ++i) {
            assert_int_equal(taken_out[i], 1);
        }
    }
}

/* ---- growth ---- */

static void overlap_becomes_one(void **state)
{
    (void) state;
    fake_t *fake = cache();
    touch_pages(fake, 0, 10, 0);
    touch_pages(fake, 5, 15, 1);
    lazy_entry_t *e = use_pages(fake, 0, 15, 2);
    lazy_counters_t n = counted(fake);
    assert_int_equal(n.registrations, 2);
    assert_int_equal(n.merges, 1);
    assert_int_equal(n.replaced, 1);
    assert_int_equal(n.entries, 1);
    assert_int_equal(n.bytes, 15 * PAGE);
    fake_done(fake, e);
    /* To both sides at once. */
    touch_pages(fake, 30, 34, 3);
    touch_pages(fake, 36, 40, 3);
    touch_pages(fake, 33, 38, 4);
    assert_int_equal(touch_pages(fake, 30, 40, 5), 5);
    n = counted(fake);
    assert_int_equal(n.entries, 2);
    fake_free(fake);
}

static void growth_is_bounded(void **state)
{
    (void) state;
    fake_t *fake = cache();
    touch_pages(fake, 0, 20, 0);
    touch_pages(fake, 19, 21, 1); /* 21 pages for 2: not worth it */
    lazy_counters_t n = counted(fake);
    assert_int_equal(n.merges, 0);
    assert_int_equal(n.entries, 2);
    assert_int_equal(n.bytes, 22 * PAGE);
    assert_int_equal(touch_pages(fake, 0, 20, 2), 1); /* and neither disturbs the other */
    assert_int_equal(touch_pages(fake, 19, 21, 2), 2);
    /* Neighbours stay apart: a row of buffers would else be registered again and again. */
    for (unsigned i = 0; i < 20; ++i) {
        touch_pages(fake, 40 + 4 * i, 44 + 4 * i, 3);
    }
    n = counted(fake);
    assert_int_equal(n.merges, 0);
    assert_int_equal(n.registrations, 22);
    fake_free(fake);
}

static void the_larger_replaces_the_smaller(void **state)
{
    (void) state;
    fake_t *fake = cache();
    for (unsigned i = 0; i < 10; ++i) {
        touch_pages(fake, 10 * i, 10 * i + 5, i);
    }
    lazy_entry_t *in_use = use_pages(fake, 50, 55, 10);
    touch_pages(fake, 0, 100, 11);
    lazy_counters_t n = counted(fake);
    assert_int_equal(n.entries, 1);
    assert_int_equal(n.replaced, 9);
    assert_int_equal(n.quarantined, 1); /* until it is not used any more */
    assert_int_equal(n.lost_in_use, 0);
    fake_done(fake, in_use);
    n = counted(fake);
    assert_int_equal(n.replaced, 10);
    assert_int_equal(touch_pages(fake, 50, 55, 12), 11);
    fake_free(fake);
}

static void rights_add_up(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_status_t status;
    fake_done(fake, fake_use(fake, FIRST, 10 * PAGE, READ, 0, &status));
    fake_done(fake, fake_use(fake, FIRST + PAGE, PAGE, WRITE, 1, &status)); /* a part, for more */
    for (unsigned i = 0; i < 10; ++i) {
        fake_done(fake, fake_use(fake, FIRST, 10 * PAGE, i & 1 ? READ : WRITE, i, &status));
    }
    const lazy_counters_t n = counted(fake);
    assert_int_equal(n.registrations, 2);
    assert_int_equal(n.entries, 1);
    fake_free(fake);
}

static void a_refused_merge_is_undone(void **state)
{
    (void) state;
    fake_t *fake = cache();
    lazy_status_t status;
    fake->read_only[3] = true;
    fake_done(fake, fake_use(fake, FIRST, 4 * PAGE, READ, 0, &status));
    lazy_entry_t *e = fake_use(fake, FIRST + PAGE, PAGE, WRITE, 1, &status); /* not with page 3 */
    assert_int_equal(status, LAZY_OK);
    assert_int_equal(lazy_bound(e) - lazy_base(e), PAGE);
    fake_done(fake, e);
    const lazy_counters_t n = counted(fake);
    assert_int_equal(n.merges_undone, 1);
    assert_int_equal(n.failures, 0);
    fake_use(fake, FIRST + 3 * PAGE, PAGE, WRITE, 2, &status);
    assert_int_equal(status, LAZY_FAILED);
    assert_int_equal(counted(fake).failures, 1);
    fake_free(fake);
}

/* ---- limits ---- */

static void fresh_buffers_stay_under_the_limit(void **state)
{
    (void) state;
    for (unsigned p = 0; NULL != lazy_policy_at(p); ++p) {
        const lazy_policy_t *policy = lazy_policy_at(p);
        fake_t *fake = cache_of(policy->name, 20 * PAGE, FAKE_MAX);
        for (unsigned i = 0; i < 5000; ++i) {
            const unsigned first = i * 7 % 240;
            touch_pages(fake, first, first + 1 + i % 5, i);
            if (0 == i % 16) {
                assert_true(counted(fake).bytes <= 20 * PAGE);
            }
        }
        lazy_counters_t n = counted(fake);
        assert_true(n.bytes_most <= 20 * PAGE);
        assert_true(policy->keeps ? n.evicted_bytes > 0 : n.evicted_unused > 0 && 0 == n.bytes);
        fake_free(fake);

        fake = cache_of(policy->name, SIZE_MAX / 2, 7);
        for (unsigned i = 0; i < 5000; ++i) {
            touch_pages(fake, 2 * i % 250, 2 * i % 250 + 1, i);
        }
        n = counted(fake);
        assert_true(n.entries_most <= 7);
        assert_true(!policy->keeps || n.evicted_entries > 0);
        fake_free(fake);
    }
}

/* What is in use is registered even beyond the limit, and does not stay. */
static void use_is_not_refused(void **state)
{
    (void) state;
    fake_t *fake = cache_of("lru", 10 * PAGE, 4);
    lazy_entry_t *e[8];
    for (unsigned i = 0; i < 8; ++i) {
        e[i] = use_pages(fake, 5 * i, 5 * i + 4, i);
    }
    lazy_counters_t n = counted(fake);
    assert_int_equal(n.bytes, 32 * PAGE);
    for (unsigned i = 0; i < 8; ++i) {
        fake_done(fake, e[i]);
        counted(fake); /* lazy_check: nothing idle while it is too much */
    }
    n = counted(fake);
    assert_true(n.bytes <= 10 * PAGE && n.bytes > 0 && n.entries <= 4);
    touch_pages(fake, 100, 150, 9); /* larger than the limit all by itself */
    n = counted(fake);
    assert_true(n.bytes <= 10 * PAGE);
    fake_free(fake);
}

static void limits_follow_the_machine(void **state)
{
    (void) state;
    const uint64_t G = UINT64_C(1) << 30, M = UINT64_C(1) << 20;
    static const uint64_t any = UINT64_MAX;
    assert_int_equal(lazy_limits_default(any, 64 * G, 1).bytes, 32 * G);
    assert_int_equal(lazy_limits_default(any, 64 * G, 8).bytes, 4 * G);
    assert_int_equal(lazy_limits_default(any, 64 * G, 0).bytes, 32 * G);
    assert_int_equal(lazy_limits_default(8 * M, 64 * G, 8).bytes, 6 * M);
    assert_int_equal(lazy_limits_default(64 * G, 64 * G, 8).bytes, 4 * G);
    assert_int_equal(lazy_limits_default(0, 64 * G, 8).bytes, 0);
    assert_int_equal(lazy_limits_default(8 * M, 64 * G, 8).entries, 96);
    assert_int_equal(lazy_limits_default(0, 64 * G, 8).entries, LAZY_ENTRIES_MIN);
    assert_int_equal(lazy_limits_default(any, 64 * G, 1).entries, LAZY_ENTRIES_MAX);
}

/* ---- refusals ---- */

static void evicts_and_tries_again(void **state)
{
    (void) state;
    fake_t *fake = cache();
    fake->capacity = 10 * PAGE;
    for (unsigned i = 0; i < 5; ++i) {
        touch_pages(fake, 10 * i, 10 * i + 2, i);
    }
    touch_pages(fake, 100, 105, 5); /* three of them must go, the oldest first */
    lazy_counters_t n = counted(fake);
    assert_int_equal(n.evicted_resources, 3);
    assert_int_equal(n.entries, 3);
    assert_int_equal(n.exhausted, 0);
    assert_int_equal(touch_pages(fake, 40, 42, 6), 5);
    fake_free(fake);
}

static void says_so_when_nothing_is_left(void **state)
{
    (void) state;
    fake_t *fake = cache();
    fake->capacity = 4 * PAGE;
    lazy_entry_t *e = use_pages(fake, 0, 3, 0);
    touch_pages(fake, 10, 11, 1);
    lazy_status_t status;
    assert_null(fake_use(fake, FIRST + 20 * PAGE, 2 * PAGE, READ, 2, &status));
    assert_int_equal(status, LAZY_NO_RESOURCES);
    lazy_counters_t n = counted(fake);
    assert_int_equal(n.exhausted, 1);
    assert_int_equal(n.evicted_resources, 1);
    assert_int_equal(fake->told[LAZY_EXHAUSTED], 1);
    fake_done(fake, e);
    touch_pages(fake, 20, 22, 3); /* and then it works */
    lazy_entry_t *p;
    assert_int_equal(lazy_acquire_private(fake->cache, FIRST, 5 * PAGE, READ, &p),
                     LAZY_NO_RESOURCES);
    assert_int_equal(counted(fake).exhausted, 2);
    fake_free(fake);
}

/* ---- hooks and callbacks ---- */

static fake_t *unmapping;

/* Registering makes the system's library free memory, of this cache even. */
static lazy_status_t make_and_unmap(void *context, lazy_entry_t *e)
{
    fake_remap(unmapping, 100, 110);
    return fake_make(context, e);
}

static void a_callback_may_unmap(void **state)
{
    (void) state;
    fake_t *fake = fake_new();
    lazy_config_t config = fake_config(fake, "lru");
    config.make = make_and_unmap;
    fake->cache = lazy_create(&config);
    unmapping = fake;
    touch_pages(fake, 0, 4, 0);
    touch_pages(fake, 100, 104, 1);
    touch_pages(fake, 10, 14, 2); /* the one before goes */
    assert_false(is_there(fake, 100));
    assert_true(is_there(fake, 0));
    counted(fake);
    fake_free(fake);
}

static void a_forked_child_owns_nothing(void **state)
{
    (void) state;
    fake_t *fake = cache();
    touch_pages(fake, 0, 4, 0);
    lazy_entry_t *in_use = use_pages(fake, 10, 14, 1);
    lazy_invalidate_all(fake->cache); /* as the component does before a fork */
    const pid_t child = fork();
    assert_true(child >= 0);
    if (0 == child) {
        lazy_entry_t *e;
        bool ok;
        lazy_disown(fake->cache);
        ok = LAZY_FAILED == lazy_acquire(fake->cache, FIRST, PAGE, READ, 2, &e) && NULL == e;
        ok &= LAZY_FAILED == lazy_acquire_private(fake->cache, FIRST, PAGE, READ, &e);
        ok &= NULL == lazy_find(fake->cache, FIRST, PAGE, READ, 2);
        ok &= !lazy_evict(fake->cache);
        lazy_invalidate(fake->cache, FIRST, 100 * PAGE);
        lazy_release(fake->cache, in_use);
        lazy_counters_t n;
        lazy_count(fake->cache, &n);
        ok &= 2 == n.registrations && 0 == n.deregistrations;
        (void) lazy_destroy(fake->cache);
        _exit(ok && 2 == fake->made && 0 == fake->ended ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && 0 == WEXITSTATUS(status));
    /* The parent registers anew, and what was in use ends with its use. */
    assert_int_equal(touch_pages(fake, 0, 4, 3), 3);
    assert_int_equal(counted(fake).quarantined, 1);
    fake_done(fake, in_use);
    assert_int_equal(counted(fake).quarantined, 0);
    fake_free(fake);
}

static void the_end_ends_all(void **state)
{
    (void) state;
    fake_t *fake = cache();
    touch_pages(fake, 0, 1, 0);
    use_pages(fake, 2, 3, 0);
    use_pages(fake, 4, 5, 0);
    fake_remap(fake, 4, 5);
    touch_pages(fake, 6, 7, 0);
    lazy_entry_t *e;
    assert_int_equal(lazy_acquire_private(fake->cache, FIRST, PAGE, READ, &e), LAZY_OK);
    for (size_t i = 0; i < fake->n; ++i) {
        fake->all[i]->users = 0;
    }
    assert_int_equal(lazy_destroy(fake->cache), 3);
    assert_int_equal(fake->n, 0);
    fake->cache = NULL;
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_registration_per_buffer),
        cmocka_unit_test(bytes_become_pages),
        cmocka_unit_test(find_makes_nothing),
        cmocka_unit_test(again_only_what_serves),
        cmocka_unit_test(private_is_nobody_elses),
        cmocka_unit_test(other_memory_at_the_same_address),
        cmocka_unit_test(one_page_of_it_goes),
        cmocka_unit_test(nothing_is_registered_that_is_about_to_go),
        cmocka_unit_test(memory_goes_while_in_use),
        cmocka_unit_test(the_last_of_many_users_ends_it),
        cmocka_unit_test(hooks_pass_by_what_is_not_registered),
        cmocka_unit_test(more_goes_than_can_be_noted),
        cmocka_unit_test(the_inbox_gives_back_what_was_put_in),
        cmocka_unit_test(overlap_becomes_one),
        cmocka_unit_test(growth_is_bounded),
        cmocka_unit_test(the_larger_replaces_the_smaller),
        cmocka_unit_test(rights_add_up),
        cmocka_unit_test(a_refused_merge_is_undone),
        cmocka_unit_test(fresh_buffers_stay_under_the_limit),
        cmocka_unit_test(use_is_not_refused),
        cmocka_unit_test(limits_follow_the_machine),
        cmocka_unit_test(evicts_and_tries_again),
        cmocka_unit_test(says_so_when_nothing_is_left),
        cmocka_unit_test(a_callback_may_unmap),
        cmocka_unit_test(a_forked_child_owns_nothing),
        cmocka_unit_test(the_end_ends_all),
    };
    return cmocka_run_group_tests_name("rcache_cache", tests, NULL, NULL);
}
