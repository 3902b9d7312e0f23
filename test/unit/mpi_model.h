/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI's matching rules as plainly as they can be written: two lists, walked from the beginning. The
 * tests compare the real thing with it. */
#ifndef MPI_MODEL_H
#define MPI_MODEL_H

#include "spec_unit.h"

#define MODEL_ANY (-1)

typedef struct model_entry {
    int32_t src, tag;
    void *what; /* the test's receive or message */
} model_entry_t;

typedef struct model_list {
    model_entry_t *entry;
    size_t n, room;
} model_list_t;

typedef struct model {
    model_list_t receives, messages; /* pending ones, oldest first */
} model_t;

static inline void model_fini(model_t *m)
{
    free(m->receives.entry);
    free(m->messages.entry);
    memset(m, 0, sizeof(*m));
}

static inline void model_append(model_list_t *l, int32_t src, int32_t tag, void *what)
{
    if (l->n == l->room) {
        model_entry_t *more = must_alloc((l->room = 2 * l->room + 8) * sizeof(*more));
        if (l->n > 0) {
            memcpy(more, l->entry, l->n * sizeof(*more));
        }
        free(l->entry);
        l->entry = more;
    }
    l->entry[l->n++] = (model_entry_t){src, tag, what};
}

static inline void *model_take(model_list_t *l, size_t i)
{
    void *what = l->entry[i].what;
    memmove(&l->entry[i], &l->entry[i + 1], (l->n - i - 1) * sizeof(l->entry[i]));
    --l->n;
    return what;
}

static inline bool model_fits(int32_t want_src, int32_t want_tag, int32_t src, int32_t tag)
{
    if (MODEL_ANY != want_src && want_src != src) {
        return false;
    }
    return MODEL_ANY == want_tag ? tag >= 0 : want_tag == tag;
}

/* A receive is posted: the message that it takes; NULL when it waits. */
static inline void *model_post(model_t *m, int32_t src, int32_t tag, void *receive)
{
    for (size_t i = 0; i < m->messages.n; ++i) {
        const model_entry_t *msg = &m->messages.entry[i];
        if (model_fits(src, tag, msg->src, msg->tag)) {
            return model_take(&m->messages, i);
        }
    }
    model_append(&m->receives, src, tag, receive);
    return NULL;
}

/* A message arrives in order: the receive that it goes to; NULL when it waits. */
static inline void *model_arrive(model_t *m, int32_t src, int32_t tag, void *message)
{
    for (size_t i = 0; i < m->receives.n; ++i) {
        const model_entry_t *r = &m->receives.entry[i];
        if (model_fits(r->src, r->tag, src, tag)) {
            return model_take(&m->receives, i);
        }
    }
    model_append(&m->messages, src, tag, message);
    return NULL;
}

/* Take something out by force; false if it is not there. */
static inline bool model_remove(model_list_t *l, const void *what)
{
    for (size_t i = 0; i < l->n; ++i) {
        if (l->entry[i].what == what) {
            (void) model_take(l, i);
            return true;
        }
    }
    return false;
}

/* What the rule of RTRs asks about a receive that would be posted now: how many pending ones are
 * for exactly (src, tag), and could a pending wildcard take a message of (src, tag)? */
static inline uint32_t model_pending_exact(const model_t *m, int32_t src, int32_t tag)
{
    uint32_t n = 0;
    for (size_t i = 0; i < m->receives.n; ++i) {
        n += m->receives.entry[i].src == src && m->receives.entry[i].tag == tag;
    }
    return n;
}

static inline bool model_wildcard_waits(const model_t *m, int32_t src, int32_t tag)
{
    for (size_t i = 0; i < m->receives.n; ++i) {
        const model_entry_t *r = &m->receives.entry[i];
        if ((MODEL_ANY == r->src || MODEL_ANY == r->tag) && model_fits(r->src, r->tag, src, tag)) {
            return true;
        }
    }
    return false;
}

#endif
