/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A completion queue of an adapter that is not there: entries in a ring that is made once, as in an
 * adapter's memory, so that a completion costs what it costs there. What is too much for its size is
 * kept all the same, and told. */
#ifndef FAKE_CQ_H
#define FAKE_CQ_H

#include <infiniband/verbs.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    struct ibv_cq cq;
    struct ibv_wc *entry;
    unsigned size; /* entries that there is memory for, a power of two */
    unsigned limit;
    unsigned first, n;
    bool is_armed;      /* the next completion is told */
    unsigned taken, acknowledged; /* notices */
} fake_cq_t;

static inline fake_cq_t *fake_cq_new(struct ibv_context *context, unsigned limit)
{
    fake_cq_t *cq = calloc(1, sizeof(*cq));
    cq->cq.context = context;
    cq->limit = limit;
    for (cq->size = 1; cq->size < limit; cq->size *= 2) {}
    cq->entry = calloc(cq->size, sizeof(*cq->entry));
    return cq;
}

static inline void fake_cq_free(fake_cq_t *cq)
{
    free(cq->entry);
    free(cq);
}

/* False: there were as many already as it was made for. */
static inline bool fake_cq_put(fake_cq_t *cq, const struct ibv_wc *wc)
{
    if (cq->n == cq->size) {
        struct ibv_wc *more = calloc(2 * (size_t) cq->size, sizeof(*more));
        memcpy(more, cq->entry + cq->first, (cq->size - cq->first) * sizeof(*more));
        memcpy(more + cq->size - cq->first, cq->entry, cq->first * sizeof(*more));
        free(cq->entry);
        cq->entry = more;
        cq->first = 0;
        cq->size *= 2;
    }
    cq->entry[(cq->first + cq->n++) & (cq->size - 1)] = *wc;
    return cq->n <= cq->limit;
}

static inline int fake_cq_poll(fake_cq_t *cq, int most, struct ibv_wc *wc)
{
    int n = 0;
    for (; n < most && cq->n > 0; --cq->n) {
        wc[n++] = cq->entry[cq->first];
        cq->first = (cq->first + 1) & (cq->size - 1);
    }
    return n;
}

#endif
