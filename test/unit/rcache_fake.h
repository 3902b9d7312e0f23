/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* An adapter for the tests of rcache/lazy: memory of PAGES pages that can be given back and come
 * again, registrations that remember which memory they are of, and refusals. It knows all
 * registrations there are, so it can be asked what the cache should have found. */
#ifndef RCACHE_FAKE_H
#define RCACHE_FAKE_H

#include "spec_unit.h"

#include "lazy_check.h"

#define PAGE  UINT64_C(4096)
#define PAGES 256u
#define FIRST UINT64_C(0x10000000) /* address of page 0 */

enum { READ = 1, WRITE = 2, ATOMIC = 4 };

typedef struct fake_reg {
    bool alive, stale, private;
    bool replaced; /* by one that covers it */
    uint32_t id;
    uint32_t life[PAGES]; /* of each page it covers, when it was made */
    uintptr_t base, bound;
    uint32_t access;
    int users;
} fake_reg_t;

#define FAKE_MAX 4096

typedef struct fake {
    lazy_cache_t *cache;
    uint32_t life[PAGES];      /* which memory is at that page now */
    bool read_only[PAGES];     /* WRITE and ATOMIC are refused */
    size_t capacity, used;     /* bytes that can be registered */
    fake_reg_t *all[FAKE_MAX]; /* alive */
    size_t n;
    bool private; /* the next one made is */
    uint32_t made, ended, last_ended;
    uintptr_t last_ended_base;
    unsigned told[2];
} fake_t;

static inline unsigned page_of(uintptr_t address)
{
    return (unsigned) ((address - FIRST) / PAGE);
}

static inline fake_reg_t *reg_of(lazy_entry_t *e)
{
    return (fake_reg_t *) (void *) e->data;
}

static lazy_status_t fake_make(void *context, lazy_entry_t *e)
{
    fake_t *fake = context;
    const uintptr_t base = lazy_base(e), bound = lazy_bound(e);
    assert_true(base % PAGE == 0 && bound % PAGE == 0 && base < bound);
    if (bound - base > fake->capacity - fake->used) {
        return LAZY_NO_RESOURCES;
    }
    for (unsigned p = page_of(base); p < page_of(bound); ++p) {
        if (fake->read_only[p] && 0 != (lazy_access(e) & (WRITE | ATOMIC))) {
            return LAZY_FAILED;
        }
    }
    fake_reg_t *reg = reg_of(e);
    assert_false(reg->alive);
    *reg = (fake_reg_t){.alive = true,
                        .private = fake->private,
                        .id = ++fake->made,
                        .base = base,
                        .bound = bound,
                        .access = lazy_access(e)};
    memcpy(reg->life, fake->life, sizeof(reg->life));
    fake->used += bound - base;
    for (size_t i = 0; i < fake->n && !fake->private; ++i) {
        fake_reg_t *r = fake->all[i];
        r->replaced |= base <= r->base && r->bound <= bound;
    }
    assert_true(fake->n < FAKE_MAX);
    fake->all[fake->n++] = reg;
    return LAZY_OK;
}

static void fake_end(void *context, lazy_entry_t *e)
{
    fake_t *fake = context;
    fake_reg_t *reg = reg_of(e);
    assert_true(reg->alive);
    assert_int_equal(reg->users, 0); /* never while somebody uses it */
    assert_int_equal(reg->base, lazy_base(e));
    assert_int_equal(reg->bound, lazy_bound(e));
    reg->alive = false;
    fake->used -= reg->bound - reg->base;
    ++fake->ended;
    fake->last_ended = reg->id;
    fake->last_ended_base = reg->base;
    for (size_t i = 0; i < fake->n; ++i) {
        if (fake->all[i] == reg) {
            fake->all[i] = fake->all[--fake->n];
            return;
        }
    }
    fail_msg("a registration ended that there is not");
}

static void fake_tell(void *context, lazy_event_t event, uintptr_t base, uintptr_t bound)
{
    fake_t *fake = context;
    assert_true(base < bound);
    ++fake->told[event];
}

static inline lazy_config_t fake_config(fake_t *fake, const char *policy)
{
    return (lazy_config_t){.make = fake_make,
                           .end = fake_end,
                           .tell = fake_tell,
                           .context = fake,
                           .data_size = sizeof(fake_reg_t),
                           .policy = lazy_policy_of(policy),
                           .max_bytes = SIZE_MAX / 2,
                           .max_entries = FAKE_MAX,
                           .page = PAGE,
                           .merge = 100,
                           .seed = 1};
}

static inline fake_t *fake_new(void)
{
    fake_t *fake = must_alloc(sizeof(*fake));
    fake->capacity = SIZE_MAX / 2;
    return fake;
}

static inline void fake_free(fake_t *fake)
{
    if (NULL != fake->cache) {
        for (size_t i = 0; i < fake->n; ++i) {
            fake->all[i]->users = 0;
        }
        (void) lazy_destroy(fake->cache);
        assert_int_equal(fake->n, 0);
        assert_int_equal(fake->used, 0);
        assert_int_equal(fake->made, fake->ended);
    }
    free(fake);
}

static inline void fake_ok(fake_t *fake)
{
    const char *wrong = lazy_check(fake->cache);
    if (NULL != wrong) {
        fail_msg("%s", wrong);
    }
    lazy_counters_t n;
    lazy_count(fake->cache, &n);
    assert_int_equal(n.registrations, fake->made);
    assert_int_equal(n.deregistrations, fake->ended);
    assert_int_equal(n.bytes, fake->used);
    assert_int_equal(n.lost_in_use, fake->told[LAZY_LOST_IN_USE]);
    assert_int_equal(n.exhausted, fake->told[LAZY_EXHAUSTED]);
}

/* Whether a use of the pages [first, last) should find them registered: among those that cover them,
 * the one that begins last counts. If that one lacks rights it is made anew with more, although
 * another might have them, so that the next use finds one for all. */
static inline bool fake_has(const fake_t *fake, unsigned first, unsigned last, uint32_t access)
{
    const fake_reg_t *found = NULL;
    for (size_t i = 0; i < fake->n; ++i) {
        const fake_reg_t *r = fake->all[i];
        if (!r->stale && !r->private && !r->replaced && page_of(r->base) <= first
            && last <= page_of(r->bound) && (NULL == found || r->base > found->base)) {
            found = r;
        }
    }
    return NULL != found && 0 == (access & ~found->access);
}

/* Memory goes away (the hook is called before), and other memory comes to the same place. */
static inline void fake_remap(fake_t *fake, unsigned first, unsigned last)
{
    lazy_invalidate(fake->cache, FIRST + first * PAGE, (last - first) * PAGE);
    for (unsigned p = first; p < last; ++p) {
        ++fake->life[p];
    }
    for (size_t i = 0; i < fake->n; ++i) {
        fake_reg_t *r = fake->all[i];
        r->stale |= page_of(r->base) < last && first < page_of(r->bound);
    }
}

/* A use of [address, address + size): what comes back must be right. */
static inline lazy_entry_t *fake_use(fake_t *fake, uintptr_t address, size_t size, uint32_t access,
                                     uint64_t now, lazy_status_t *status)
{
    lazy_entry_t *e;
    *status = lazy_acquire(fake->cache, address, size, access, now, &e);
    assert_true((LAZY_OK == *status) == (NULL != e));
    if (NULL != e) {
        fake_reg_t *reg = reg_of(e);
        assert_true(reg->alive && !reg->stale && !reg->private);
        assert_true(reg->base <= address && address + size <= reg->bound);
        assert_int_equal(access & ~reg->access, 0);
        assert_memory_equal(&reg->life[page_of(reg->base)], &fake->life[page_of(reg->base)],
                            (page_of(reg->bound) - page_of(reg->base)) * sizeof(reg->life[0]));
        ++reg->users;
    }
    return e;
}

static inline void fake_done(fake_t *fake, lazy_entry_t *e)
{
    --reg_of(e)->users;
    lazy_release(fake->cache, e);
}

/* Pages [first, last), which must work. */
static inline lazy_entry_t *use_pages(fake_t *fake, unsigned first, unsigned last, uint64_t now)
{
    lazy_status_t status;
    lazy_entry_t *e =
        fake_use(fake, FIRST + first * PAGE, (last - first) * PAGE, READ, now, &status);
    assert_int_equal(status, LAZY_OK);
    return e;
}

static inline uint32_t touch_pages(fake_t *fake, unsigned first, unsigned last, uint64_t now)
{
    lazy_entry_t *e = use_pages(fake, first, last, now);
    const uint32_t id = reg_of(e)->id;
    fake_done(fake, e);
    return id;
}

/* ---- a cache with its limits ---- */

static inline fake_t *cache_of(const char *policy, size_t max_bytes, size_t max_entries)
{
    fake_t *fake = fake_new();
    lazy_config_t config = fake_config(fake, policy);
    config.max_bytes = max_bytes;
    config.max_entries = max_entries;
    fake->cache = lazy_create(&config);
    assert_non_null(fake->cache);
    return fake;
}

static inline fake_t *cache(void)
{
    return cache_of("lru", SIZE_MAX / 2, FAKE_MAX);
}

static inline lazy_counters_t counted(fake_t *fake)
{
    lazy_counters_t n;
    fake_ok(fake);
    lazy_count(fake->cache, &n);
    return n;
}

static inline bool is_there(fake_t *fake, unsigned page)
{
    lazy_entry_t *e = lazy_find(fake->cache, FIRST + page * PAGE, PAGE, READ, 0);
    if (NULL != e) {
        lazy_release(fake->cache, e);
    }
    return NULL != e;
}

#endif
