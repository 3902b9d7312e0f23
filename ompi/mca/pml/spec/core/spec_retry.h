/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Queues of packets and transfers that a transport had no room for, from which progress tries them again.
 *
 * Words
 *   item   one thing that was refused: a packet, a message, a transfer
 *   queue   the items that wait for the same resource, oldest first unless they were added before others; named by its key
 *   pass   one visit to all queues, made from progress
 *
 * An item is in its queue, or in the hands of one pass. Several passes run at a time: other threads', and those
 * inside this one, because what a try completes may call back and wait for progress itself (docs/design/threads.md). `n`
 * counts items in hands too, and only its way from 0 and to 0 registers and unregisters with progress. An item that is refused
 * again goes back to its position, and the pass leaves that queue: the others in it want the same resource.
 *
 * Two passes at a time may hand the items of a queue to the transport out of order; the receiver puts that right.
 *
 * Pure. Threads: the caller's lock covers every call; a try is made without it. Items are the caller's; an item
 * in hand may be gone, or be in a queue again, when its try returns. */
#ifndef SPEC_RETRY_H
#define SPEC_RETRY_H

#include "spec_list.h"

#include <stdint.h>

/* Queues are found by a hash of this many buckets. */
#define SPEC_RETRY_BUCKETS 128u

typedef struct spec_retry_queue {
    spec_node_t node;               /* in spec_retry_t.queues while it has items, else in no list */
    struct spec_retry_queue *chain; /* next of the bucket, or next spare queue */
    const void *key;
    spec_node_t items;
    uint64_t refused_at; /* by spec_retry_t.clock */
    uint32_t n;          /* items in it and in hands */
} spec_retry_queue_t;

typedef struct spec_retry_item {
    spec_node_t node;
    spec_retry_queue_t *queue;
    int64_t no; /* its position in the queue */
} spec_retry_item_t;

typedef struct spec_retry {
    spec_node_t queues; /* those with items, the one that was refused longest ago first */
    spec_retry_queue_t *bucket[SPEC_RETRY_BUCKETS];
    spec_retry_queue_t *spare;
    spec_retry_queue_t common; /* for all keys that there is no memory for */
    uint64_t clock;            /* counts refusals and passes */
    int64_t first, last;       /* positions that items were given: from first to last - 1 */
    uint32_t
        n; /* items in queues and in hands; written atomically: as a hint it may be read without the lock */
} spec_retry_t;

void spec_retry_init(spec_retry_t *r);

/* Frees the queues. Items that are left are the caller's. */
void spec_retry_fini(spec_retry_t *r);

/* The item was refused; key: by what. It goes behind all others of its queue, or before them (first). */
void spec_retry_add(spec_retry_t *r, spec_retry_item_t *item, const void *key, bool first);

/* Does anything wait for this resource? Then another try would most likely be refused, too. */
bool spec_retry_waits(const spec_retry_t *r, const void *key);

/* A pass begins. */
uint64_t spec_retry_pass(spec_retry_t *r);

/* The next item that the pass is to try, in its hands now; NULL: the pass is over. */
spec_retry_item_t *spec_retry_take(spec_retry_t *r, uint64_t pass);

/* The item in hand was refused again. */
void spec_retry_refused(spec_retry_t *r, spec_retry_item_t *item);

/* The pass ends with the item in hand, which was not refused: the next one begins with the other queues. Before spec_retry_done. */
void spec_retry_leave(spec_retry_t *r, spec_retry_queue_t *queue);

/* The item in hand needs no more tries; queue: as the item said when it was taken. */
void spec_retry_done(spec_retry_t *r, spec_retry_queue_t *queue);

#endif
