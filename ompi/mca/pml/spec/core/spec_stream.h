/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A reorder buffer: items with sequence numbers arrive in any order, and are processed in the order of the numbers.
 *
 * nxt is the number to be processed next (RFC 793 would say RCV.NXT). An item that arrives too
 * early is kept here; one that was processed or is kept already is refused. Used twice: for the
 * messages of a sender at the receiver, and for RTR and REVOKE of a receiver at the sender. Open
 * MPI's transports promise delivery but not order, within one and across several.
 *
 * Cost: nothing for the item that is next. Kept items are found by a hash of their number, not by a walk in their
 * order: tens of thousands may be ahead of one that a transport had no room for. The numbers lie close together, so
 * their lowest bits spread them evenly. Without memory for more buckets it is only slower. A few buckets stay when nothing is
 * kept, until the stream is drained: with two transports messages overtake each other again and again.
 *
 * Threads: none here; the caller's lock covers each. */
#ifndef SPEC_STREAM_H
#define SPEC_STREAM_H

#include "spec_list.h"
#include "spec_seq.h"

/* Items of a bucket, on average, before there are more buckets. */
#define SPEC_STREAM_SHARE 4u

/* Buckets that stay: 1 KiB. */
#define SPEC_STREAM_STAY 64u

typedef struct spec_stream {
    uint32_t nxt;
    uint32_t n;          /* kept items */
    uint32_t mask;       /* buckets - 1; a power of two minus one */
    spec_node_t one;     /* the only bucket while there are few */
    spec_node_t *bucket; /* NULL: `one` */
} spec_stream_t;

/* Embedded in what is kept. */
typedef struct spec_item {
    spec_node_t node;
    uint32_t no;
} spec_item_t;

static inline void spec_stream_init(spec_stream_t *s)
{
    *s = (spec_stream_t){.nxt = 0};
    spec_list_init(&s->one);
}

static inline bool spec_stream_is_empty(const spec_stream_t *s)
{
    return 0 == s->n;
}

static inline spec_node_t *spec_stream_bucket(spec_stream_t *s, uint32_t no)
{
    return NULL == s->bucket ? &s->one : &s->bucket[no & s->mask];
}

/* The kept item of this number, or NULL. */
static inline spec_item_t *spec_stream_find(spec_stream_t *s, uint32_t no)
{
    const spec_node_t *head = spec_stream_bucket(s, no);
    SPEC_LIST_EACH (n, head) {
        if (no == SPEC_ENTRY(n, spec_item_t, node)->no) {
            return SPEC_ENTRY(n, spec_item_t, node);
        }
    }
    return NULL;
}

/* Keep an item until its turn. False: a duplicate, the caller keeps it. */
bool spec_stream_keep(spec_stream_t *s, spec_item_t *item);

/* Nothing is kept: the memory for it goes. Of the functions here. */
void spec_stream_shrink(spec_stream_t *s);

/* Take the kept item whose turn it is, or NULL; counts as processed. */
static inline spec_item_t *spec_stream_take(spec_stream_t *s)
{
    spec_item_t *item = spec_stream_is_empty(s) ? NULL : spec_stream_find(s, s->nxt);
    if (NULL != item) {
        spec_list_remove(&item->node);
        ++s->nxt;
        if (0 == --s->n && s->mask >= SPEC_STREAM_STAY) {
            spec_stream_shrink(s);
        }
    }
    return item;
}

/* All that is kept goes to the end of a list, in no order: the stream ends. */
void spec_stream_drain(spec_stream_t *s, spec_node_t *left);

#endif
