/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Queues of packets and transfers that a transport had no room for: in which order, and when, each is tried again. */
#include "spec_retry.h"

#include <stdlib.h>
#include <string.h>

static uint32_t bucket_of(const void *key)
{
    return (uint32_t) (((uintptr_t) key * UINT64_C(0x9e3779b97f4a7c15)) >> 57);
}
_Static_assert(SPEC_RETRY_BUCKETS == 128, "bucket_of takes the upper 7 bits of the hash");

void spec_retry_init(spec_retry_t *r)
{
    memset(r, 0, sizeof(*r));
    spec_list_init(&r->lanes);
    spec_list_init(&r->common.items);
}

static void free_chain(spec_retry_lane_t *lane)
{
    while (NULL != lane) {
        spec_retry_lane_t *next = lane->chain;
        free(lane);
        lane = next;
    }
}

void spec_retry_fini(spec_retry_t *r)
{
    for (uint32_t i = 0; i < SPEC_RETRY_BUCKETS; ++i) {
        free_chain(r->bucket[i]);
    }
    free_chain(r->spare);
    memset(r, 0, sizeof(*r));
}

static spec_retry_lane_t *find(const spec_retry_t *r, const void *key)
{
    spec_retry_lane_t *lane = r->bucket[bucket_of(key)];
    while (NULL != lane && lane->key != key) {
        lane = lane->chain;
    }
    return lane;
}

static spec_retry_lane_t *create(spec_retry_t *r, const void *key)
{
    spec_retry_lane_t *lane = r->spare;
    if (NULL != lane) {
        r->spare = lane->chain;
    } else if (NULL == (lane = malloc(sizeof(*lane)))) {
        return &r->common;
    }
    spec_retry_lane_t **head = &r->bucket[bucket_of(key)];
    *lane = (spec_retry_lane_t){.chain = *head, .key = key};
    spec_list_init(&lane->items);
    *head = lane;
    return lane;
}

/* Nothing is in the lane nor in hands. */
static void retire(spec_retry_t *r, spec_retry_lane_t *lane)
{
    if (&r->common == lane) {
        return;
    }
    spec_retry_lane_t **link = &r->bucket[bucket_of(lane->key)];
    while (*link != lane) {
        link = &(*link)->chain;
    }
    *link = lane->chain;
    lane->chain = r->spare;
    r->spare = lane;
}

/* Others read it without the lock. */
static void count(spec_retry_t *r, uint32_t n)
{
    __atomic_store_n(&r->n, n, __ATOMIC_RELAXED);
}

/* The lane was refused now: to the end of the lanes. */
static void mark_refused(spec_retry_t *r, spec_retry_lane_t *lane)
{
    if (spec_node_is_queued(&lane->node)) {
        spec_list_remove(&lane->node);
    }
    lane->refused_at = ++r->clock;
    spec_list_append(&r->lanes, &lane->node);
}

bool spec_retry_add(spec_retry_t *r, spec_retry_item_t *item, const void *key)
{
    spec_retry_lane_t *lane = find(r, key);
    if (NULL == lane) {
        lane = create(r, key);
    }
    item->lane = lane;
    item->no = r->next_no++;
    spec_list_append(&lane->items, &item->node);
    ++lane->n;
    mark_refused(r, lane);
    count(r, r->n + 1);
    return 1 == r->n;
}

bool spec_retry_waits(const spec_retry_t *r, const void *key)
{
    return r->n > 0 && (NULL != find(r, key) || r->common.n > 0);
}

uint64_t spec_retry_pass(spec_retry_t *r)
{
    return ++r->clock;
}

spec_retry_item_t *spec_retry_take(spec_retry_t *r, uint64_t pass)
{
    spec_node_t *n = spec_list_first(&r->lanes);
    spec_retry_lane_t *lane = NULL == n ? NULL : SPEC_ENTRY(n, spec_retry_lane_t, node);
    if (NULL == lane || lane->refused_at > pass) {
        return NULL;
    }
    spec_retry_item_t *item = SPEC_ENTRY(spec_list_pop(&lane->items), spec_retry_item_t, node);
    if (spec_list_is_empty(&lane->items)) {
        spec_list_remove(&lane->node);
    }
    return item;
}

void spec_retry_refused(spec_retry_t *r, spec_retry_item_t *item)
{
    spec_retry_lane_t *lane = item->lane;
    spec_node_t *before = &lane->items;
    for (spec_node_t *n = spec_list_first(before);
         NULL != n && SPEC_ENTRY(n, spec_retry_item_t, node)->no < item->no;
         n = spec_list_next(&lane->items, n)) {
        before = n;
    }
    spec_list_insert_after(before, &item->node);
    mark_refused(r, lane);
}

bool spec_retry_done(spec_retry_t *r, spec_retry_lane_t *lane)
{
    if (0 == --lane->n) {
        retire(r, lane);
    }
    count(r, r->n - 1);
    return 0 == r->n;
}
