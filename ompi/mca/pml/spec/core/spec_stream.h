/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A reorder buffer: items with sequence numbers arrive in any order, and are processed in the order of the numbers.
 *
 * nxt is the number to be processed next (RFC 793 would say RCV.NXT). An item that arrives too
 * early is kept here; one that was processed or is kept already is refused. Used twice: for the
 * messages of a sender at the receiver, and for RTR and REVOKE of a receiver at the sender. Open
 * MPI's transports promise delivery but not order, within one and across several.
 *
 * Cost: nothing for the item that is next; keeping is a walk from the far end, because items come
 * nearly in order. */
#ifndef SPEC_STREAM_H
#define SPEC_STREAM_H

#include "spec_list.h"
#include "spec_seq.h"

typedef struct spec_stream {
    uint32_t nxt;
    spec_node_t early; /* kept items, by number */
} spec_stream_t;

/* Embedded in what is kept. */
typedef struct spec_item {
    spec_node_t node;
    uint32_t no;
} spec_item_t;

static inline void spec_stream_init(spec_stream_t *s)
{
    s->nxt = 0;
    spec_list_init(&s->early);
}

/* Keep an item until its turn. False: a duplicate, the caller keeps it. */
static inline bool spec_stream_keep(spec_stream_t *s, spec_item_t *item)
{
    if (spec_seq_before(item->no, s->nxt)) {
        return false;
    }
    spec_node_t *at = s->early.prev;
    while (at != &s->early) {
        int32_t ahead = spec_seq_diff(item->no, SPEC_ENTRY(at, spec_item_t, node)->no);
        if (0 == ahead) {
            return false;
        }
        if (ahead > 0) {
            break;
        }
        at = at->prev;
    }
    spec_list_insert_after(at, &item->node);
    return true;
}

/* Take the kept item whose turn it is, or NULL; counts as processed. */
static inline spec_item_t *spec_stream_take(spec_stream_t *s)
{
    spec_node_t *n = spec_list_first(&s->early);
    if (NULL == n || SPEC_ENTRY(n, spec_item_t, node)->no != s->nxt) {
        return NULL;
    }
    spec_list_remove(n);
    ++s->nxt;
    return SPEC_ENTRY(n, spec_item_t, node);
}

#endif
