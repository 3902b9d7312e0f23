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
    spec_list_init(&r->queues);
    spec_list_init(&r->common.items);
}

static void free_chain(spec_retry_queue_t *queue)
{
    while (NULL != queue) {
        spec_retry_queue_t *next = queue->chain;
        free(queue);
        queue = next;
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

static spec_retry_queue_t *find(const spec_retry_t *r, const void *key)
{
    spec_retry_queue_t *queue = r->bucket[bucket_of(key)];
    while (NULL != queue && queue->key != key) {
        queue = queue->chain;
    }
    return queue;
}

static spec_retry_queue_t *create(spec_retry_t *r, const void *key)
{
    spec_retry_queue_t *queue = r->spare;
    if (NULL != queue) {
        r->spare = queue->chain;
    } else if (NULL == (queue = malloc(sizeof(*queue)))) {
        return &r->common;
    }
    spec_retry_queue_t **head = &r->bucket[bucket_of(key)];
    *queue = (spec_retry_queue_t){.chain = *head, .key = key};
    spec_list_init(&queue->items);
    *head = queue;
    return queue;
}

/* Nothing is in the queue nor in hands. */
static void retire(spec_retry_t *r, spec_retry_queue_t *queue)
{
    if (&r->common == queue) {
        return;
    }
    spec_retry_queue_t **link = &r->bucket[bucket_of(queue->key)];
    while (*link != queue) {
        link = &(*link)->chain;
    }
    *link = queue->chain;
    queue->chain = r->spare;
    r->spare = queue;
}

/* Others read it without the lock. */
static void count(spec_retry_t *r, uint32_t n)
{
    __atomic_store_n(&r->n, n, __ATOMIC_RELAXED);
}

/* The queue was refused now: to the end of the queues. */
static void mark_refused(spec_retry_t *r, spec_retry_queue_t *queue)
{
    if (spec_node_is_queued(&queue->node)) {
        spec_list_remove(&queue->node);
    }
    queue->refused_at = ++r->clock;
    spec_list_append(&r->queues, &queue->node);
}

void spec_retry_add(spec_retry_t *r, spec_retry_item_t *item, const void *key, bool first)
{
    spec_retry_queue_t *queue = find(r, key);
    if (NULL == queue) {
        queue = create(r, key);
    }
    item->queue = queue;
    if (first) {
        item->no = --r->first;
        spec_list_insert_after(&queue->items, &item->node);
    } else {
        item->no = r->last++;
        spec_list_append(&queue->items, &item->node);
    }
    ++queue->n;
    mark_refused(r, queue);
    count(r, r->n + 1);
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
    spec_node_t *n = spec_list_first(&r->queues);
    spec_retry_queue_t *queue = NULL == n ? NULL : SPEC_ENTRY(n, spec_retry_queue_t, node);
    if (NULL == queue || queue->refused_at > pass) {
        return NULL;
    }
    spec_retry_item_t *item = SPEC_ENTRY(spec_list_pop(&queue->items), spec_retry_item_t, node);
    if (spec_list_is_empty(&queue->items)) {
        spec_list_remove(&queue->node);
    }
    return item;
}

void spec_retry_refused(spec_retry_t *r, spec_retry_item_t *item)
{
    spec_retry_queue_t *queue = item->queue;
    spec_node_t *before = &queue->items;
    for (spec_node_t *n = spec_list_first(before);
         NULL != n && SPEC_ENTRY(n, spec_retry_item_t, node)->no < item->no;
         n = spec_list_next(&queue->items, n)) {
        before = n;
    }
    spec_list_insert_after(before, &item->node);
    mark_refused(r, queue);
}

void spec_retry_leave(spec_retry_t *r, spec_retry_queue_t *queue)
{
    if (spec_node_is_queued(&queue->node)) {
        mark_refused(r, queue);
    }
}

void spec_retry_done(spec_retry_t *r, spec_retry_queue_t *queue)
{
    if (0 == --queue->n) {
        retire(r, queue);
    }
    count(r, r->n - 1);
}
