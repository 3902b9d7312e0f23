/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See lazy_cache.h: hits without a lock, misses under one, eviction within limits, and memory that is given back to the
 * system. */
#include "lazy_cache.h"

#include "lazy_random.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 64u /* entries that are allocated together */

/* Why a thread must take the lock. */
enum { NOTHING_IS_KEPT = 1, OVER_LIMIT = 2, DISOWNED = 4 };

/* ---- entries ---- */

static lazy_entry_t *entry_of(spec_node_t *link)
{
    return NULL == link ? NULL : SPEC_ENTRY(link, lazy_entry_t, link);
}

static bool more_entries(lazy_cache_t *cache)
{
    lazy_chunk_t *chunk = malloc(sizeof(*chunk));
    if (NULL == chunk) {
        return false;
    }
    chunk->memory = calloc(1, CHUNK * cache->stride + 63);
    if (NULL == chunk->memory) {
        free(chunk);
        return false;
    }
    chunk->entries = (unsigned char *) (((uintptr_t) chunk->memory + 63) & ~(uintptr_t) 63);
    chunk->next = cache->chunks;
    cache->chunks = chunk;
    for (size_t i = 0; i < CHUNK; ++i) {
        lazy_entry_t *e = (lazy_entry_t *) (void *) (chunk->entries + i * cache->stride);
        spec_list_insert_after(&cache->free, &e->link);
    }
    return true;
}

static lazy_entry_t *entry_new(lazy_cache_t *cache)
{
    if (spec_list_is_empty(&cache->free) && !more_entries(cache)) {
        return NULL;
    }
    lazy_entry_t *e = entry_of(spec_list_pop(&cache->free));
    e->seen = 0;
    e->at = LAZY_NONE;
    return e;
}

static void raise_to(uint64_t *most, uint64_t value)
{
    if (*most < value) {
        *most = value;
    }
}

/* The registration of an entry that is in no list ends. There is no reference, and none can be taken. */
static void end(lazy_cache_t *cache, lazy_entry_t *e, uint64_t *why)
{
    cache->config.end(cache->config.context, e);
    cache->n.hits += lazy_uses(e);
    cache->n.bytes -= lazy_size(e);
    ++cache->n.deregistrations;
    ++*why;
    spec_list_insert_after(&cache->free, &e->link);
}

/* From indexed to ended or, if it is in use, to lost. Returns whether it ended. */
static bool unindex(lazy_cache_t *cache, lazy_entry_t *e, uint64_t *why)
{
    lazy_index_remove(&cache->index, e);
    lazy_heap_remove(&cache->heap, e);
    --cache->n.entries;
    uint64_t state = atomic_load_explicit(&e->state, memory_order_relaxed);
    uint64_t next;
    do {
        next = state & ~LAZY_LIVE;
        next |= 0 != (state & LAZY_REFS) ? LAZY_LOST : 0;
    } while (!atomic_compare_exchange_weak_explicit(&e->state, &state, next, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (0 != (next & LAZY_LOST)) {
        e->why = why;
        spec_list_append(&cache->lost, &e->link);
        raise_to(&cache->n.quarantined_most, ++cache->n.quarantined);
        return false;
    }
    cache->kept_bytes -= lazy_size(e);
    end(cache, e, why);
    return true;
}

/* The last reference to a lost entry was given back. */
static void end_lost(lazy_cache_t *cache, lazy_entry_t *e)
{
    spec_list_remove(&e->link);
    --cache->n.quarantined;
    cache->kept_bytes -= lazy_size(e);
    end(cache, e, e->why);
}

/* ---- eviction ---- */

static void make_candidate(lazy_cache_t *cache, lazy_entry_t *e, uint32_t uses, uint64_t used)
{
    const lazy_policy_t *policy = cache->config.policy;
    lazy_heap_add(&cache->heap, e, NULL == policy->rank ? 0 : policy->rank(cache->age, uses, used), used);
}

/* The lowest in rank of those that are idle, or LAZY_NONE. */
static size_t lowest(lazy_cache_t *cache)
{
    const lazy_policy_t *policy = cache->config.policy;
    lazy_heap_t *heap = &cache->heap;
    spec_node_t aside;
    lazy_entry_t *victim = NULL, *e;
    spec_list_init(&aside);
    while (NULL == victim && heap->n > 0) {
        e = heap->slot[0].entry;
        const uint32_t uses = lazy_uses(e);
        const uint64_t used = atomic_load_explicit(&e->used, memory_order_relaxed);
        if (NULL != policy->rank && e->seen != uses) {
            e->seen = uses;
            lazy_heap_sink_top(heap, policy->rank(cache->age, uses, used), used);
        } else if (lazy_is_idle(e)) {
            victim = e;
        } else { /* in use: out of the way for now, then ranked as used now */
            lazy_heap_remove(heap, e);
            spec_list_insert_after(&aside, &e->link);
        }
    }
    while (NULL != (e = entry_of(spec_list_pop(&aside)))) {
        make_candidate(cache, e, e->seen, atomic_load_explicit(&e->used, memory_order_relaxed));
    }
    return NULL == victim ? LAZY_NONE : victim->at;
}

/* End the idle entry that the policy names. False: there is none. */
static bool evict(lazy_cache_t *cache, size_t need, uint64_t *why)
{
    const lazy_policy_t *policy = cache->config.policy;
    /* A hit may come in between: then it is another one's turn. */
    for (size_t tries = 0; tries <= 2 * cache->heap.n + 8; ++tries) {
        const size_t at =
            NULL == policy->pick ? lowest(cache) : policy->pick(&cache->heap, need, &cache->random);
        if (LAZY_NONE == at) {
            return false;
        }
        lazy_entry_t *e = cache->heap.slot[at].entry;
        uint64_t state = atomic_load_explicit(&e->state, memory_order_relaxed);
        if (0 == (state & LAZY_REFS)
            && atomic_compare_exchange_strong_explicit(&e->state, &state, state & ~LAZY_LIVE,
                                                       memory_order_acq_rel,
                                                       memory_order_relaxed)) {
            if (cache->age < cache->heap.slot[at].rank) {
                cache->age = cache->heap.slot[at].rank;
            }
            (void) unindex(cache, e, why);
            return true;
        }
    }
    return false;
}

/* Evict until `size` more bytes and `entries` more entries are within the limits. */
static void make_room(lazy_cache_t *cache, size_t size, size_t entries)
{
    const lazy_config_t *config = &cache->config;
    for (;;) {
        bool evicted;
        if (size > config->max_bytes || cache->kept_bytes > config->max_bytes - size) {
            evicted =
                evict(cache, cache->kept_bytes + size - config->max_bytes, &cache->n.evicted_bytes);
        } else if (cache->n.entries + cache->n.quarantined + entries > config->max_entries) {
            evicted = evict(cache, 1, &cache->n.evicted_entries);
        } else {
            break;
        }
        if (!evicted) { /* all in use: what is too much ends when it is not used any more */
            atomic_fetch_or_explicit(&cache->attention, OVER_LIMIT, memory_order_relaxed);
            return;
        }
    }
    if (0 == entries) {
        atomic_fetch_and_explicit(&cache->attention, ~(unsigned) OVER_LIMIT, memory_order_relaxed);
    }
}

/* ---- memory that went away ---- */

static void forget(void *context, uintptr_t base, uintptr_t bound)
{
    lazy_cache_t *cache = context;
    lazy_entry_t *e;
    while (NULL != (e = lazy_index_touching(&cache->index, base, bound))) {
        const uintptr_t e_base = lazy_base(e), e_bound = lazy_bound(e);
        if (!unindex(cache, e, &cache->n.invalidated)) {
            ++cache->n.lost_in_use;
            if (NULL != cache->config.tell) {
                cache->config.tell(cache->config.context, LAZY_LOST_IN_USE, e_base, e_bound);
            }
        }
    }
}

/* Take out what hooks posted. */
static void drain(lazy_cache_t *cache)
{
    /* Read first: what is posted meanwhile may be taken out too, and is then searched for in vain. */
    const uint64_t posted = atomic_load_explicit(&cache->inbox.posted, memory_order_acquire);
    if (posted == atomic_load_explicit(&cache->drained, memory_order_relaxed)) {
        return;
    }
    if (lazy_inbox_drain(&cache->inbox, forget, cache)) {
        ++cache->n.inbox_overflows;
        forget(cache, 0, UINTPTR_MAX);
    }
    /* Last: a thread that sees it sees the entries gone. */
    atomic_store_explicit(&cache->drained, posted, memory_order_release);
}

static void enter(lazy_cache_t *cache)
{
    pthread_mutex_lock(&cache->lock);
    /* seq_cst: no change of the index is seen before it. */
    atomic_fetch_add_explicit(&cache->version, 1, memory_order_seq_cst);
    drain(cache);
}

static void leave(lazy_cache_t *cache)
{
    atomic_fetch_add_explicit(&cache->version, 1, memory_order_release);
    pthread_mutex_unlock(&cache->lock);
}

void lazy_invalidate(lazy_cache_t *cache, uintptr_t address, size_t size)
{
    if (0 == size) {
        return;
    }
    const uintptr_t base = address & ~(uintptr_t) (cache->page - 1);
    const uintptr_t bound = size > UINTPTR_MAX - address ? UINTPTR_MAX : address + size;
    /* Most memory that is given back was never registered; posting it would send the next use
     * through the lock for nothing. The index is believed only if no writer was there: one that is
     * may be about to put in a registration of this memory. seq_cst: a writer that comes later sees
     * the pending unmap. */
    const uint64_t version = atomic_load_explicit(&cache->version, memory_order_seq_cst);
    if (0 == (version & 1) && NULL == lazy_index_touching(&cache->index, base, bound)
        && version == atomic_load_explicit(&cache->version, memory_order_acquire)) {
        return;
    }
    lazy_inbox_post(&cache->inbox, base, bound);
}

void lazy_invalidate_all(lazy_cache_t *cache)
{
    lazy_inbox_post_all(&cache->inbox);
}

/* ---- use ---- */

/* Give a reference back when more may have to be done than that. */
static void give_back_under_lock(lazy_cache_t *cache, lazy_entry_t *e, uint64_t take)
{
    enter(cache);
    const uint64_t state = atomic_fetch_sub_explicit(&e->state, take, memory_order_acq_rel) - take;
    if (0 == (state & LAZY_REFS)) {
        if (0 != (state & LAZY_LOST)) {
            end_lost(cache, e);
        } else if (0 == (state & LAZY_LIVE)) {
            spec_list_remove(&e->link);
            --cache->n.privates_now;
            end(cache, e, &cache->n.ended);
        } else if (!cache->config.policy->keeps) {
            /* Unless a hit comes in between: then it ends with that. */
            (void) unindex(cache, e, &cache->n.evicted_unused);
        }
    }
    make_room(cache, 0, 0);
    leave(cache);
}

/* Give a reference back. `take` is LAZY_REF, and LAZY_USE if the use did not come about. */
static void give_back(lazy_cache_t *cache, lazy_entry_t *e, uint64_t take)
{
    /* With the reference in hand it can be told what kind of an entry it is. */
    if (__builtin_expect(0 != atomic_load_explicit(&cache->attention, memory_order_relaxed)
                             || 0
                                    == (atomic_load_explicit(&e->state, memory_order_relaxed)
                                        & (LAZY_LIVE | LAZY_LOST)),
                         0)) {
        give_back_under_lock(cache, e, take);
        return;
    }
    const uint64_t state = atomic_fetch_sub_explicit(&e->state, take, memory_order_acq_rel) - take;
    if (__builtin_expect(0 != (state & LAZY_LOST) && 0 == (state & LAZY_REFS), 0)) {
        /* It is in no index, so no other thread can see this. */
        enter(cache);
        end_lost(cache, e);
        leave(cache);
    }
}

/* A reference to this entry if it serves, else NULL. */
static lazy_entry_t *take(lazy_cache_t *cache, lazy_entry_t *e, uintptr_t base, uintptr_t bound,
                          uint32_t access, uint64_t now)
{
    if (!lazy_serves(e, base, bound, access)) {
        return NULL;
    }
    uint64_t state = atomic_load_explicit(&e->state, memory_order_relaxed);
    do {
        if (0 == (state & LAZY_LIVE)) {
            return NULL;
        }
    } while (!atomic_compare_exchange_weak_explicit(&e->state, &state, state + LAZY_REF + LAZY_USE,
                                                    memory_order_acq_rel, memory_order_relaxed));
    /* It may have become another entry before the reference was taken; not any more after. */
    if (__builtin_expect(!lazy_serves(e, base, bound, access), 0)) {
        give_back(cache, e, LAZY_REF + LAZY_USE);
        return NULL;
    }
    atomic_store_explicit(&e->used, now, memory_order_relaxed);
    return e;
}

/* A reference to a registration that serves, or NULL: perhaps there is one: search under the lock. */
static lazy_entry_t *search(lazy_cache_t *cache, uintptr_t base, uintptr_t bound, uint32_t access,
                            uint64_t now)
{
    lazy_entry_t *e = lazy_index_floor(&cache->index, base);
    return NULL == e ? NULL : take(cache, e, base, bound, access, now);
}

static bool needs_attention(const lazy_cache_t *cache)
{
    return atomic_load_explicit(&cache->inbox.posted, memory_order_acquire)
           != atomic_load_explicit(&cache->drained, memory_order_acquire);
}

static bool is_disowned(const lazy_cache_t *cache)
{
    return 0 != (atomic_load_explicit(&cache->attention, memory_order_relaxed) & DISOWNED);
}

typedef struct request {
    uintptr_t base, bound;
    uint32_t access;
} request_t;

/* The pages of [address, address + size). False: there is no such interval. */
static bool request_of(const lazy_cache_t *cache, uintptr_t address, size_t size, uint32_t access,
                       request_t *request)
{
    const uintptr_t mask = cache->page - 1;
    if (0 == size) {
        size = 1;
    }
    if (address > UINTPTR_MAX - mask || size > UINTPTR_MAX - mask - address) {
        return false;
    }
    *request = (request_t){address & ~mask, (address + size + mask) & ~mask, access};
    return true;
}

/* Whether a registration of `larger` instead of `request` is worth it. */
static bool may_grow(const lazy_cache_t *cache, const request_t *request, uintptr_t base,
                     uintptr_t bound)
{
    const size_t size = request->bound - request->base;
    const size_t more = bound - base - size;
    return more <= size / 100 * cache->config.merge + size % 100 * cache->config.merge / 100
           && bound - base <= cache->config.max_bytes;
}

/* Also what overlaps the request, if that is not much larger. */
static void join_overlaps(const lazy_cache_t *cache, const request_t *request, request_t *plan)
{
    lazy_entry_t *e = lazy_index_floor(&cache->index, request->base);
    for (; NULL != e && lazy_bound(e) > request->base; e = lazy_index_before(&cache->index, e)) {
        if (!may_grow(cache, request, lazy_base(e), plan->bound)) {
            break;
        }
        plan->base = lazy_base(e);
        plan->access |= lazy_access(e);
    }
    /* From the last to the first: the first that may is the one that reaches furthest. */
    for (e = lazy_index_touching(&cache->index, request->base, request->bound);
         NULL != e && lazy_base(e) > request->base && lazy_bound(e) > request->bound;
         e = lazy_index_before(&cache->index, e)) {
        if (may_grow(cache, request, plan->base, lazy_bound(e))) {
            plan->bound = lazy_bound(e);
            break;
        }
    }
}

/* What to register for a request: that and, if it is not much larger, what overlaps it, so that the
 * next use of either finds one registration of both. */
static request_t with_overlaps(const lazy_cache_t *cache, const request_t *request)
{
    request_t plan = *request;
    lazy_entry_t *e = lazy_index_floor(&cache->index, request->base);
    if (NULL != e && lazy_bound(e) >= request->bound) {
        /* Only the rights are missing. The users of both would otherwise end each other's. */
        return (request_t){lazy_base(e), lazy_bound(e), request->access | lazy_access(e)};
    }
    join_overlaps(cache, request, &plan);
    /* Everything inside will be replaced: let it serve the same users. */
    for (e = lazy_index_touching(&cache->index, plan.base, plan.bound);
         NULL != e && lazy_base(e) >= plan.base; e = lazy_index_before(&cache->index, e)) {
        if (lazy_bound(e) <= plan.bound) {
            plan.access |= lazy_access(e);
        }
    }
    return plan;
}

/* No entry may cover another: those inside the request go, and those that cover it (with too few
 * rights). `which` says whether an entry may go now. */
static void replace(lazy_cache_t *cache, const request_t *request,
                    bool (*which)(const lazy_entry_t *e))
{
    lazy_entry_t *e;
    while (NULL != (e = lazy_index_floor(&cache->index, request->base))
           && lazy_bound(e) >= request->bound && which(e)) {
        (void) unindex(cache, e, &cache->n.replaced);
    }
    uintptr_t last = request->bound - 1;
    while (NULL != (e = lazy_index_floor(&cache->index, last)) && lazy_base(e) >= request->base) {
        if (lazy_bound(e) <= request->bound && which(e)) {
            (void) unindex(cache, e, &cache->n.replaced);
        } else if (0 == lazy_base(e)) {
            break;
        } else {
            last = lazy_base(e) - 1;
        }
    }
}

static bool any(const lazy_entry_t *e)
{
    (void) e;
    return true;
}

/* Register, evicting what is idle for as long as that is refused for lack of resources. */
static lazy_status_t make(lazy_cache_t *cache, lazy_entry_t *e, const request_t *request,
                          bool persevere)
{
    atomic_store_explicit(&e->base, request->base, memory_order_release);
    atomic_store_explicit(&e->bound, request->bound, memory_order_release);
    atomic_store_explicit(&e->access, request->access, memory_order_release);
    lazy_status_t status;
    do {
        status = cache->config.make(cache->config.context, e);
    } while (LAZY_NO_RESOURCES == status && persevere
             && evict(cache, request->bound - request->base, &cache->n.evicted_resources));
    if (LAZY_OK == status) {
        ++cache->n.registrations;
        cache->n.bytes += lazy_size(e);
        raise_to(&cache->n.bytes_most, cache->n.bytes);
    }
    return status;
}

/* The request cannot be met; e: an entry that was to be its registration, or NULL. */
static lazy_status_t refuse(lazy_cache_t *cache, lazy_entry_t *e, lazy_status_t status, const request_t *request)
{
    if (NULL != e) {
        spec_list_insert_after(&cache->free, &e->link);
    }
    if (LAZY_NO_RESOURCES == status) {
        ++cache->n.exhausted;
        if (NULL != cache->config.tell) {
            cache->config.tell(cache->config.context, LAZY_EXHAUSTED, request->base,
                               request->bound);
        }
    } else {
        ++cache->n.failures;
    }
    return status;
}

/* A new entry in the index, with a reference. The lock is held. */
static lazy_status_t add(lazy_cache_t *cache, const request_t *request, uint64_t now,
                         lazy_entry_t **entry)
{
    ++cache->n.misses;
    lazy_entry_t *e = entry_new(cache);
    if (NULL == e || !lazy_heap_reserve(&cache->heap)) {
        return refuse(cache, e, LAZY_NO_RESOURCES, request);
    }
    request_t larger = with_overlaps(cache, request);
    const bool grown = larger.base != request->base || larger.bound != request->bound
                       || larger.access != request->access;
    lazy_status_t status = LAZY_FAILED;
    if (grown) {
        replace(cache, &larger, lazy_is_idle);
        make_room(cache, larger.bound - larger.base, 1);
        /* What was cached may have rights that do not go together in one. */
        status = make(cache, e, &larger, false);
        cache->n.merges += LAZY_OK == status;
        cache->n.merges_undone += LAZY_OK != status;
    }
    if (LAZY_OK != status) {
        larger = *request;
        replace(cache, request, lazy_is_idle);
        make_room(cache, request->bound - request->base, 1);
        status = make(cache, e, request, true);
    }
    if (LAZY_OK != status) {
        return refuse(cache, e, status, request);
    }
    /* What is idle made room; what is in use is given up only for something better. */
    replace(cache, &larger, any);
    cache->kept_bytes += lazy_size(e);
    raise_to(&cache->n.entries_most, ++cache->n.entries);
    atomic_store_explicit(&e->used, now, memory_order_relaxed);
    /* release: a thread that takes a reference sees what was registered. */
    atomic_store_explicit(&e->state, LAZY_LIVE + LAZY_REF, memory_order_release);
    make_candidate(cache, e, 0, now);
    lazy_index_insert(&cache->index, e);
    *entry = e;
    return LAZY_OK;
}

/* What there is, or what is added then if that may be. */
static inline lazy_status_t look_up(lazy_cache_t *cache, uintptr_t address, size_t size, uint32_t access,
                                    uint64_t now, bool adds, lazy_entry_t **entry)
{
    request_t request;
    *entry = NULL;
    if (!request_of(cache, address, size, access, &request) || is_disowned(cache)) {
        return LAZY_FAILED;
    }
    if (__builtin_expect(!needs_attention(cache), 1)
        && NULL != (*entry = search(cache, request.base, request.bound, access, now))) {
        return LAZY_OK;
    }
    enter(cache);
    lazy_status_t status = LAZY_OK;
    *entry = search(cache, request.base, request.bound, access, now);
    if (NULL == *entry && adds) {
        status = add(cache, &request, now, entry);
    }
    leave(cache);
    return status;
}

lazy_status_t lazy_acquire(lazy_cache_t *cache, uintptr_t address, size_t size, uint32_t access,
                           uint64_t now, lazy_entry_t **entry)
{
    return look_up(cache, address, size, access, now, true, entry);
}

lazy_entry_t *lazy_find(lazy_cache_t *cache, uintptr_t address, size_t size, uint32_t access,
                        uint64_t now)
{
    lazy_entry_t *e;
    (void) look_up(cache, address, size, access, now, false, &e);
    return e;
}

bool lazy_again(lazy_cache_t *cache, lazy_entry_t *hint, uintptr_t address, size_t size,
                uint32_t access, uint64_t now)
{
    request_t request;
    return request_of(cache, address, size, access, &request) && !is_disowned(cache)
           && !needs_attention(cache)
           && NULL != take(cache, hint, request.base, request.bound, access, now);
}

lazy_status_t lazy_acquire_private(lazy_cache_t *cache, uintptr_t address, size_t size,
                                   uint32_t access, lazy_entry_t **entry)
{
    request_t request;
    *entry = NULL;
    if (!request_of(cache, address, size, access, &request) || is_disowned(cache)) {
        return LAZY_FAILED;
    }
    enter(cache);
    lazy_entry_t *e = entry_new(cache);
    const lazy_status_t status = NULL == e ? LAZY_NO_RESOURCES : make(cache, e, &request, true);
    if (LAZY_OK == status) {
        ++cache->n.privates;
        ++cache->n.privates_now;
        atomic_store_explicit(&e->state, LAZY_REF, memory_order_release);
        spec_list_append(&cache->privates, &e->link);
        *entry = e;
    } else {
        ++cache->n.misses;
        refuse(cache, e, status, &request);
    }
    leave(cache);
    return status;
}

void lazy_release(lazy_cache_t *cache, lazy_entry_t *e)
{
    if (__builtin_expect(!is_disowned(cache), 1)) {
        give_back(cache, e, LAZY_REF);
    }
}

bool lazy_evict(lazy_cache_t *cache)
{
    if (is_disowned(cache)) {
        return false;
    }
    enter(cache);
    const bool evicted = evict(cache, 1, &cache->n.evicted_asked);
    leave(cache);
    return evicted;
}

/* ---- beginning and end ---- */

lazy_cache_t *lazy_create(const lazy_config_t *config)
{
    lazy_cache_t *cache = aligned_alloc(64, (sizeof(*cache) + 63) & ~(size_t) 63);
    if (NULL == cache) {
        return NULL;
    }
    memset(cache, 0, sizeof(*cache));
    pthread_mutex_init(&cache->lock, NULL);
    cache->config = *config;
    cache->page = config->page;
    cache->random = config->seed;
    cache->stride = (sizeof(lazy_entry_t) + config->data_size + 63) & ~(size_t) 63;
    cache->index.random = lazy_random(&cache->random);
    spec_list_init(&cache->free);
    spec_list_init(&cache->lost);
    spec_list_init(&cache->privates);
    atomic_init(&cache->attention, config->policy->keeps ? 0 : NOTHING_IS_KEPT);
    return cache;
}

static size_t end_all(lazy_cache_t *cache, const spec_node_t *list)
{
    size_t n = 0;
    SPEC_LIST_EACH (link, list) {
        cache->config.end(cache->config.context, entry_of(link));
        ++n;
    }
    return n;
}

size_t lazy_destroy(lazy_cache_t *cache)
{
    size_t in_use = 0;
    if (!is_disowned(cache)) {
        for (size_t i = 0; i < cache->heap.n; ++i) {
            in_use += !lazy_is_idle(cache->heap.slot[i].entry);
            cache->config.end(cache->config.context, cache->heap.slot[i].entry);
        }
        in_use += end_all(cache, &cache->lost) + end_all(cache, &cache->privates);
    }
    while (NULL != cache->chunks) {
        lazy_chunk_t *chunk = cache->chunks;
        cache->chunks = chunk->next;
        free(chunk->memory);
        free(chunk);
    }
    free(cache->heap.slot);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
    return in_use;
}

void lazy_disown(lazy_cache_t *cache)
{
    atomic_fetch_or_explicit(&cache->attention, DISOWNED, memory_order_relaxed);
}

/* ---- counters ---- */

void lazy_count(lazy_cache_t *cache, lazy_counters_t *counters)
{
    const bool mine = !is_disowned(cache);
    if (mine) {
        enter(cache);
    }
    *counters = cache->n;
    for (size_t i = 0; i < cache->heap.n; ++i) {
        counters->hits += lazy_uses(cache->heap.slot[i].entry);
    }
    SPEC_LIST_EACH (link, &cache->lost) {
        counters->hits += lazy_uses(entry_of(link));
    }
    if (mine) {
        leave(cache);
    }
}
