/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI's matching of messages and receives by hash: what is not on the path of every message. */
#include "spec_match.h"

#include <stdlib.h>
#include <string.h>

/* Bins are carved from slabs of this many. */
#define SLAB_BINS 32u
/* Buckets of a new table; it doubles when there are as many bins as buckets. */
#define FIRST_BUCKETS 32u
/* Empty bins stay in the table, because the next receive will most likely use the same pattern;
 * past half of the table they are swept, because collectives use a new tag each. */
#define IDLE_SHARE 2u

/* In a larger table nobody searches every bucket for one answer. */
#define SEARCHED 1024u

typedef struct spec_slab {
    struct spec_slab *next;
    spec_bin_t bin[SLAB_BINS];
} spec_slab_t;

static bool bin_is_idle(const spec_bin_t *bin)
{
    return spec_list_is_empty(&bin->posted) && spec_list_is_empty(&bin->unexp)
           && 0 == bin->revoking;
}

/* Take idle bins out of the table. It visits every bucket, and runs only after at least half as many
 * removals as there are buckets: constant per operation. */
static void sweep(spec_match_t *m)
{
    for (uint32_t i = 0; i <= m->mask; ++i) {
        spec_bin_t **link = &m->bucket[i];
        while (NULL != *link) {
            spec_bin_t *bin = *link;
            if (bin_is_idle(bin)) {
                *link = bin->chain;
                bin->chain = m->free_bins;
                m->free_bins = bin;
                --m->bins;
            } else {
                link = &bin->chain;
            }
        }
    }
    m->idle_bins = 0;
    m->recent = NULL; /* it may be one of them */
}

static void grow(spec_match_t *m)
{
    uint32_t buckets = 2 * (m->mask + 1);
    spec_bin_t **table = calloc(buckets, sizeof(*table));
    if (NULL == table) {
        return; /* longer chains are slower, not wrong */
    }
    for (uint32_t i = 0; i <= m->mask; ++i) {
        spec_bin_t *bin = m->bucket[i];
        while (NULL != bin) {
            spec_bin_t *next = bin->chain;
            spec_bin_t **head = &table[spec_match_hash(bin->src, bin->tag) & (buckets - 1)];
            bin->chain = *head;
            *head = bin;
            bin = next;
        }
    }
    free(m->bucket);
    m->bucket = table;
    m->mask = buckets - 1;
}

static void add_free(spec_match_t *m, spec_bin_t *bin, unsigned n)
{
    for (unsigned i = 0; i < n; ++i) {
        bin[i].chain = m->free_bins;
        m->free_bins = &bin[i];
    }
}

SPEC_HOT spec_bin_t *spec_match_bin_create(spec_match_t *m, int32_t src, int32_t tag)
{
    if (m->bins > m->mask && m->idle_bins > m->mask / IDLE_SHARE) {
        sweep(m);
    }
    if (m->bins > m->mask) {
        grow(m);
    }
    if (NULL == m->free_bins) {
        spec_slab_t *slab = malloc(sizeof(*slab));
        if (NULL == slab) {
            return NULL;
        }
        slab->next = m->slabs;
        m->slabs = slab;
        add_free(m, slab->bin, SLAB_BINS);
    }
    spec_bin_t *bin = m->free_bins;
    m->free_bins = bin->chain;

    spec_bin_t **head = &m->bucket[spec_match_hash(src, tag) & m->mask];
    *bin = (spec_bin_t){.chain = *head, .src = src, .tag = tag};
    spec_list_init(&bin->posted);
    spec_list_init(&bin->unexp);
    *head = bin;
    ++m->bins;
    return bin;
}

int spec_match_init(spec_match_t *m)
{
    memset(m, 0, sizeof(*m));
    m->bucket = calloc(FIRST_BUCKETS, sizeof(*m->bucket));
    if (NULL == m->bucket) {
        return -1;
    }
    m->mask = FIRST_BUCKETS - 1;
    m->indexed[SPEC_BY_EXACT] = true;
    spec_list_init(&m->arrival);
    add_free(m, m->own, SPEC_MATCH_OWN_BINS);
    return 0;
}

void spec_match_fini(spec_match_t *m)
{
    while (NULL != m->slabs) {
        spec_slab_t *slab = m->slabs;
        m->slabs = slab->next;
        free(slab);
    }
    free(m->bucket);
    memset(m, 0, sizeof(*m));
}

static inline void pattern_of(const spec_unexp_t *u, int shape, int32_t *src, int32_t *tag)
{
    *src = SPEC_BY_EXACT == shape || SPEC_BY_SRC == shape ? u->src : SPEC_ANY;
    *tag = SPEC_BY_EXACT == shape || SPEC_BY_TAG == shape ? u->tag : SPEC_ANY;
}

/* Enter u under one shape of pattern. 0, or -1 when memory is out. */
static int index_unexp(spec_match_t *m, spec_unexp_t *u, int shape)
{
    int32_t src, tag;
    pattern_of(u, shape, &src, &tag);
    if (SPEC_ANY == tag && u->tag < 0) {
        return 0; /* the tag wildcard does not match the library's own tags */
    }
    spec_bin_t *bin = spec_match_bin_get(m, src, tag);
    if (NULL == bin) {
        return -1;
    }
    u->bin[shape] = bin;
    spec_list_append(&bin->unexp, &u->node[shape]);
    return 0;
}

static void unindex_unexp(spec_match_t *m, spec_unexp_t *u, int shape)
{
    if (NULL != u->bin[shape]) {
        spec_list_remove(&u->node[shape]);
        m->idle_bins += spec_list_is_empty(&u->bin[shape]->unexp);
        u->bin[shape] = NULL;
    }
}

int spec_match_add_unexp(spec_match_t *m, spec_unexp_t *u)
{
    memset(u->bin, 0, sizeof(u->bin));
    for (int shape = 0; shape < SPEC_SHAPES; ++shape) {
        if (m->indexed[shape] && 0 != index_unexp(m, u, shape)) {
            while (shape-- > 0) {
                unindex_unexp(m, u, shape);
            }
            return -1;
        }
    }
    spec_list_append(&m->arrival, &u->arrival);
    __atomic_store_n(&m->unexp_n, m->unexp_n + 1, __ATOMIC_RELAXED);
    if (m->unexp_n > m->unexp_max) {
        m->unexp_max = m->unexp_n;
    }
    return 0;
}

void spec_match_remove_unexp(spec_match_t *m, spec_unexp_t *u)
{
    for (int shape = 0; shape < SPEC_SHAPES; ++shape) {
        unindex_unexp(m, u, shape);
    }
    spec_list_remove(&u->arrival);
    __atomic_store_n(&m->unexp_n, m->unexp_n - 1, __ATOMIC_RELAXED);
}

/* The first search with a wildcard of this shape. False when memory is out. */
static bool build_index(spec_match_t *m, int shape)
{
    SPEC_LIST_EACH (n, &m->arrival) {
        if (0 != index_unexp(m, SPEC_ENTRY(n, spec_unexp_t, arrival), shape)) {
            SPEC_LIST_EACH (entered, &m->arrival) {
                unindex_unexp(m, SPEC_ENTRY(entered, spec_unexp_t, arrival), shape);
            }
            return false;
        }
    }
    m->indexed[shape] = true;
    return true;
}

spec_unexp_t *spec_match_find_unexp(spec_match_t *m, int32_t src, int32_t tag)
{
    if (0 == m->unexp_n) {
        return NULL;
    }
    int shape = SPEC_ANY == src ? (SPEC_ANY == tag ? SPEC_BY_ANY : SPEC_BY_TAG)
                                : (SPEC_ANY == tag ? SPEC_BY_SRC : SPEC_BY_EXACT);
    if (!m->indexed[shape] && !build_index(m, shape)) {
        /* No memory for an index: fall back to the walk, which is slow and right. */
        SPEC_LIST_EACH (n, &m->arrival) {
            spec_unexp_t *u = SPEC_ENTRY(n, spec_unexp_t, arrival);
            if ((SPEC_ANY == src || u->src == src)
                && (SPEC_ANY == tag ? u->tag >= 0 : u->tag == tag)) {
                return u;
            }
        }
        return NULL;
    }
    spec_bin_t *bin = spec_match_bin(m, src, tag);
    spec_node_t *n = NULL == bin ? NULL : spec_list_first(&bin->unexp);
    return NULL == n ? NULL : SPEC_ENTRY(n - shape, spec_unexp_t, node);
}

static bool waits_in(spec_match_t *m, int32_t src, int32_t tag)
{
    return NULL != spec_bin_head(spec_match_bin(m, src, tag));
}

bool spec_match_wildcard_waits(spec_match_t *m, int32_t src, int32_t tag)
{
    if (0 == m->wild_n) {
        return false;
    }
    return waits_in(m, SPEC_ANY, tag)
           || (tag >= 0 && (waits_in(m, src, SPEC_ANY) || waits_in(m, SPEC_ANY, SPEC_ANY)));
}

bool spec_match_others_wait(const spec_match_t *m, const spec_bin_t *bin)
{
    if (m->posted_n == bin->posted_n) {
        return false;
    }
    if (m->mask >= SEARCHED) {
        return true;
    }
    for (uint32_t i = 0; i <= m->mask; ++i) {
        for (const spec_bin_t *b = m->bucket[i]; NULL != b; b = b->chain) {
            if (b != bin && b->posted_n > 0 && (b->src == bin->src || SPEC_ANY == b->src)
                && (b->tag >= 0 || SPEC_ANY == b->tag)) {
                return true;
            }
        }
    }
    return false;
}

int spec_match_widen(spec_match_t *m, spec_posted_t *p)
{
    spec_bin_t *bin = spec_match_bin_get(m, SPEC_ANY, p->tag);
    if (NULL == bin) {
        return -1;
    }
    spec_match_remove_posted(m, p);
    spec_node_t *at = bin->posted.prev;
    while (at != &bin->posted && SPEC_ENTRY(at, spec_posted_t, node)->order > p->order) {
        at = at->prev;
    }
    spec_list_insert_after(at, &p->node);
    p->src = SPEC_ANY;
    p->narrowed = false;
    p->bin = bin;
    ++bin->posted_n;
    ++m->posted_n;
    ++m->wild_n;
    return 0;
}

void spec_match_take_source(spec_match_t *m, int32_t src, spec_node_t *taken)
{
    for (uint32_t i = 0; i <= m->mask; ++i) {
        for (spec_bin_t *bin = m->bucket[i]; NULL != bin; bin = bin->chain) {
            spec_posted_t *p;
            while ((bin->src == src || SPEC_ANY == bin->src) && NULL != (p = spec_bin_head(bin))) {
                spec_match_remove_posted(m, p);
                spec_list_append(taken, &p->node);
            }
        }
    }
}

bool spec_match_waits_for(const spec_match_t *m, int32_t src)
{
    for (uint32_t i = 0; m->posted_n > 0 && i <= m->mask; ++i) {
        for (const spec_bin_t *bin = m->bucket[i]; NULL != bin; bin = bin->chain) {
            if (bin->posted_n > 0 && (src == bin->src || SPEC_ANY == bin->src)) {
                return true;
            }
        }
    }
    return false;
}
