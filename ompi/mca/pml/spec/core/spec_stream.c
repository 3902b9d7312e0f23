/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The reorder buffer: where items that came too early are kept. */
#include "spec_stream.h"

#include <stdlib.h>

/* How much the buckets grow at a time. */
#define TIMES 8u

static void grow(spec_stream_t *s)
{
    spec_node_t *old = NULL == s->bucket ? &s->one : s->bucket;
    const uint32_t buckets = s->mask + 1, more = TIMES * buckets;
    spec_node_t *bucket = malloc(more * sizeof(*bucket));
    if (NULL == bucket) {
        return;
    }
    for (uint32_t i = 0; i < more; ++i) {
        spec_list_init(&bucket[i]);
    }
    s->bucket = bucket;
    s->mask = more - 1;
    for (uint32_t i = 0; i < buckets; ++i) {
        spec_node_t *n;
        while (NULL != (n = spec_list_pop(&old[i]))) {
            spec_list_append(spec_stream_bucket(s, SPEC_ENTRY(n, spec_item_t, node)->no), n);
        }
    }
    if (&s->one != old) {
        free(old);
    }
}

bool spec_stream_keep(spec_stream_t *s, spec_item_t *item)
{
    if (spec_seq_before(item->no, s->nxt) || NULL != spec_stream_find(s, item->no)) {
        return false;
    }
    if (++s->n > SPEC_STREAM_SHARE * (s->mask + 1)) {
        grow(s);
    }
    spec_list_append(spec_stream_bucket(s, item->no), &item->node);
    return true;
}

void spec_stream_shrink(spec_stream_t *s)
{
    free(s->bucket);
    s->bucket = NULL;
    s->mask = 0;
}

void spec_stream_drain(spec_stream_t *s, spec_node_t *left)
{
    for (uint32_t i = 0; i <= s->mask; ++i) {
        spec_node_t *n;
        while (NULL != (n = spec_list_pop(spec_stream_bucket(s, i)))) {
            spec_list_append(left, n);
        }
    }
    s->n = 0;
    spec_stream_shrink(s);
}
