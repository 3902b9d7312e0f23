/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The registration cache (paper 004, section III.D; paper 000, section 3.5): memory that was registered with a network adapter
 * stays so after its use, so that the next use need not register it. Plain C: the caller registers, and has the clock.
 *
 * Words
 *   registration  memory known to the adapter, as the caller's callback makes it
 *   entry         a registration of the cache
 *   idle          not in use; it stays, in the hope of being used again
 *   stale         its memory was given back to the system since; never handed out
 *   quarantined   it was in use when it became stale; no search finds it, and it ends with its last use
 *
 * The path of a use: lazy_acquire searches for the interval without a lock and takes a reference. A miss,
 * and anything to be done first (memory went away), goes under the lock: intervals posted by hooks
 * are taken out, room is made, the memory is registered. lazy_release gives the reference back and
 * leaves the registration, unless the limits are exceeded or the policy keeps nothing.
 *
 * Threads: every function may be called by any thread at any time, except create and destroy.
 *   The lock covers the writing of index, heap, lists and counters and is held while the callbacks
 *   run; so registrations are made one after the other, two threads that miss the same buffer make
 *   one, and the callbacks must not call back. It is taken by nothing that a memory hook calls:
 *   lazy_invalidate takes no lock and allocates nothing, and a callback may therefore allocate, free
 *   and unmap memory. Order: the cache's lock, then whatever the callbacks lock. */
#ifndef LAZY_CACHE_H
#define LAZY_CACHE_H

#include "lazy_counters.h"
#include "lazy_entry.h"
#include "lazy_heap.h"
#include "lazy_inbox.h"
#include "lazy_index.h"
#include "lazy_policy.h"

#include <pthread.h>

typedef struct lazy_cache lazy_cache_t;

typedef enum lazy_status {
    LAZY_OK,
    LAZY_NO_RESOURCES, /* cannot be registered now; less might be, or later */
    LAZY_FAILED,       /* cannot be registered */
} lazy_status_t;

typedef enum lazy_event {
    LAZY_LOST_IN_USE, /* memory was given back while in use: [base, bound) is quarantined */
    LAZY_EXHAUSTED,   /* [base, bound) was not registered, and nothing is left to evict */
} lazy_event_t;

typedef struct lazy_config {
    /* The memory at e->data (data_size bytes, zero when first seen, then as the last user of that
     * entry left it) is the callbacks'. base and bound are in e already. Called under the lock. */
    lazy_status_t (*make)(void *context, lazy_entry_t *e);
    void (*end)(void *context, lazy_entry_t *e);
    void (*tell)(void *context, lazy_event_t event, uintptr_t base, uintptr_t bound); /* or NULL */
    void *context;
    size_t data_size;
    const lazy_policy_t *policy;
    size_t max_bytes, max_entries; /* of what is kept; what is in use is never refused for it */
    size_t page;    /* registrations begin and end at multiples of it; a power of two */
    unsigned merge; /* a registration may become larger than asked for by this share. Per cent */
    uint64_t seed; /* of the policy `random` and of the index */
} lazy_config_t;

/* A cache, or NULL: no memory. */
lazy_cache_t *lazy_create(const lazy_config_t *config);
/* Ends all registrations, those in use too (returns how many) and frees the cache. */
size_t lazy_destroy(lazy_cache_t *cache);

/* A registration of at least [address, address + size) with at least the rights of `access` (bits
 * whose meaning is the callbacks'), until lazy_release. `now` orders uses in time (unit: any). */
lazy_status_t lazy_acquire(lazy_cache_t *cache, uintptr_t address, size_t size, uint32_t access,
                           uint64_t now, lazy_entry_t **entry);
/* The same, but only if there is one already: else NULL. */
lazy_entry_t *lazy_find(lazy_cache_t *cache, uintptr_t address, size_t size, uint32_t access,
                        uint64_t now);
/* A hit without a search: takes `hint`, an entry that this cache gave out at any time before, if it
 * still serves (it may be of other memory by now, or of none). False: nothing was taken. */
bool lazy_again(lazy_cache_t *cache, lazy_entry_t *hint, uintptr_t address, size_t size,
                uint32_t access, uint64_t now);
/* As lazy_acquire, but a registration that no other use gets, and that ends with lazy_release. */
lazy_status_t lazy_acquire_private(lazy_cache_t *cache, uintptr_t address, size_t size,
                                   uint32_t access, lazy_entry_t **entry);
void lazy_release(lazy_cache_t *cache, lazy_entry_t *entry);

/* [address, address + size) is no more, or is about to go. From a memory hook: no lock, no memory,
 * no callback, any thread. No lazy_acquire that begins later returns a registration of it as it is
 * now, also where the system call comes only after that: nothing is registered that was not asked for. */
void lazy_invalidate(lazy_cache_t *cache, uintptr_t address, size_t size);
/* The same of all memory. Also for fork: see lazy_disown. */
void lazy_invalidate_all(lazy_cache_t *cache);

/* In the child of a fork: the registrations are the parent's. From now on nothing is registered or
 * deregistered, all requests fail, and no lock is taken (its owner may not exist here). */
void lazy_disown(lazy_cache_t *cache);

/* End one idle registration. False: there is none. */
bool lazy_evict(lazy_cache_t *cache);

/* The counters as they are now. */
void lazy_count(lazy_cache_t *cache, lazy_counters_t *counters);

/* ---- what it is made of: for lazy_cache.c, and for tests that compare its parts ---- */

typedef struct lazy_chunk {
    struct lazy_chunk *next;
    unsigned char *entries; /* on a cache line */
    void *memory;
} lazy_chunk_t;

struct lazy_cache {
    /* Read on every use, written rarely. */
    _Alignas(64) _Atomic uint64_t drained; /* inbox.posted, up to where it was taken out */
    _Atomic unsigned attention;
    size_t page;
    lazy_index_t index;
    /* Odd while a writer is at work: then the index says nothing about what is not in it. */
    _Alignas(64) _Atomic uint64_t version;
    lazy_inbox_t inbox;

    pthread_mutex_t lock;
    lazy_config_t config;
    lazy_heap_t heap;
    spec_node_t free, lost, privates;
    lazy_chunk_t *chunks;
    size_t stride;
    size_t kept_bytes; /* indexed and lost: what the limit is for */
    uint64_t age;      /* rank of the last that was evicted */
    uint64_t random;
    lazy_counters_t n; /* hits: of entries that have ended */
};

#endif
