/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Matching: posted receives against arrived messages of one communicator.
 *
 * Words
 *   posted      a receive that waits for its message
 *   unexpected  a message that arrived before a receive wanted it
 *   pattern     (source, tag) as a receive gives them, either may be SPEC_ANY
 *   bin         all that is queued under one pattern, in order; found by hash
 *
 * A posted receive sits in exactly one bin, that of its own pattern. An arriving message (s, t)
 * can therefore be wanted only by the heads of four bins - (s,t) (s,*) (*,t) (*,*) - and takes the
 * one posted first. An unexpected message sits in the bin of its exact (s,t) and, as soon as
 * a receive or probe has asked with a wildcard pattern of that shape, also in the bins of those patterns
 * (the three wildcard indexes are built at their first use, so that programs without wildcards do
 * not pay for them). So neither direction ever walks a queue: the cost of a match does not depend
 * on how much is queued.
 *
 * SPEC_ANY as a tag matches tags >= 0 only: negative tags belong to the library's own traffic
 * (collectives), as Open MPI defines it.
 *
 * Memory: bins come from slabs that the engine keeps until fini; queued objects are embedded in
 * the caller's objects (requests, fragments). Threads: none here, the caller holds one lock per
 * communicator. Nothing here does I/O or knows Open MPI. */
#ifndef SPEC_MATCH_H
#define SPEC_MATCH_H

#include "spec_claim.h"
#include "spec_hot.h"
#include "spec_list.h"

#include <stdint.h>

/* Wildcard for source or tag. Equal to MPI_ANY_SOURCE and MPI_ANY_TAG of Open MPI. */
#define SPEC_ANY (-1)

/* Bins of one (source, tag) pattern. */
typedef struct spec_bin {
    struct spec_bin *chain; /* next bin of the same hash bucket, or next free bin */
    int32_t src, tag;
    uint32_t posted_n; /* receives in `posted` */
    uint32_t rtr_n;    /* of those, how many have an RTR out (spec_recv.h) */
    uint32_t revoking; /* REVOKE exchanges under way: no new RTR meanwhile (spec_recv.h) */
    uint64_t
        last_in_use; /* meanwhile, if rtr_n > 0: `order` of the last receive that may be written to */
    spec_node_t posted;
    spec_node_t unexp;
} spec_bin_t;

/* Embedded in a receive request. Places: in no queue (bin == NULL) or in one bin. */
typedef struct spec_posted {
    spec_node_t node;
    spec_bin_t *bin;
    uint64_t order; /* position in the order of posting, over all bins */
    /* In this order: the request that they come from has them in the other, and both copied at once, which a compiler does where it
     * can, would wait until the two single stores before have left the processor's store buffer. */
    int32_t tag, src;
    bool has_rtr;       /* an RTR for it was sent, and not withdrawn or revoked */
    bool narrowed;      /* it is for any source, and queued under the only one (spec_recv.h) */
    bool cancel_wanted; /* MPI_Cancel waits for REVOKED */
    spec_claim_t claim; /* with has_rtr: which end may have the buffer (spec_recv.h) */
} spec_posted_t;

/* The shapes of pattern under which an unexpected message can be found. */
enum { SPEC_BY_EXACT, SPEC_BY_SRC, SPEC_BY_TAG, SPEC_BY_ANY, SPEC_SHAPES };

/* Embedded in the stored message. Places: in no queue (exact bin == NULL), or in `arrival` and the
 * bins of the indexes that exist. */
typedef struct spec_unexp {
    spec_node_t arrival;
    spec_node_t node[SPEC_SHAPES];
    spec_bin_t *bin[SPEC_SHAPES];
    int32_t src, tag;
} spec_unexp_t;

/* Bins that a communicator has from the beginning: most communicators need no more patterns, and then no slab. */
#define SPEC_MATCH_OWN_BINS 2u

/* Must not be moved or copied: lists point into it. */
typedef struct spec_match {
    spec_bin_t *recent;  /* found last: the next is most likely the same; NULL: none */
    spec_bin_t **bucket; /* power of two many */
    uint32_t mask;
    uint32_t bins;      /* in the table */
    uint32_t idle_bins; /* of those, how many have become empty (an upper estimate) */
    spec_bin_t *free_bins;
    struct spec_slab *slabs;
    uint64_t next_order;
    uint32_t posted_n;              /* receives posted, all patterns */
    uint32_t wild_n;                /* of those, with a wildcard */
    uint32_t unexp_n;               /* unexpected messages; read without the lock, too */
    uint32_t posted_max, unexp_max; /* longest each has been */
    bool indexed[SPEC_SHAPES];      /* which indexes of unexpected messages exist */
    spec_node_t arrival;            /* all unexpected messages, oldest first */
    spec_bin_t own[SPEC_MATCH_OWN_BINS];
} spec_match_t;

/* 0, or -1 when memory is out. */
int spec_match_init(spec_match_t *m);

/* Frees the engine's own memory. What is still queued is the caller's. */
void spec_match_fini(spec_match_t *m);

/* ---- the hot paths, inline ---- */

static inline uint32_t spec_match_hash(int32_t src, int32_t tag)
{
    uint64_t key = ((uint64_t) (uint32_t) src << 32) | (uint32_t) tag;
    key *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio: spreads neighbouring keys */
    key ^= key >> 32; /* and again: else sources in steps of 2^n leave n lower bits alike */
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t) (key >> 32);
}

/* The bin of a pattern, or NULL if nothing was ever queued under it (or it was swept). */
static inline spec_bin_t *spec_match_bin(spec_match_t *m, int32_t src, int32_t tag)
{
    spec_bin_t *bin = m->recent;
    if (NULL != bin && bin->tag == tag && bin->src == src) {
        return bin;
    }
    bin = m->bucket[spec_match_hash(src, tag) & m->mask];
    while (NULL != bin && (bin->tag != tag || bin->src != src)) {
        bin = bin->chain;
    }
    if (NULL != bin) {
        m->recent = bin;
    }
    return bin;
}

/* Make a bin that does not exist yet; NULL when memory is out. */
spec_bin_t *spec_match_bin_create(spec_match_t *m, int32_t src, int32_t tag);

static inline spec_bin_t *spec_match_bin_get(spec_match_t *m, int32_t src, int32_t tag)
{
    spec_bin_t *bin = spec_match_bin(m, src, tag);
    return NULL != bin ? bin : spec_match_bin_create(m, src, tag);
}

/* Queue a receive behind all earlier ones; p->src and p->tag are set by the caller.
 * 0, or -1 when memory is out (nothing was queued). */
static inline int spec_match_post(spec_match_t *m, spec_posted_t *p)
{
    spec_bin_t *bin = spec_match_bin_get(m, p->src, p->tag);
    if (NULL == bin) {
        return -1;
    }
    p->bin = bin;
    p->order = m->next_order++;
    p->has_rtr = p->cancel_wanted = false;
    spec_list_append(&bin->posted, &p->node);
    ++bin->posted_n;
    if (SPEC_ANY == p->src || SPEC_ANY == p->tag) {
        ++m->wild_n;
    }
    if (++m->posted_n > m->posted_max) {
        m->posted_max = m->posted_n;
    }
    return 0;
}

static inline spec_posted_t *spec_bin_head(const spec_bin_t *bin)
{
    return NULL == bin || spec_list_is_empty(&bin->posted)
               ? NULL
               : SPEC_ENTRY(bin->posted.next, spec_posted_t, node);
}

static inline spec_posted_t *spec_posted_earlier(spec_posted_t *a, spec_posted_t *b)
{
    if (NULL == a || NULL == b) {
        return NULL == a ? b : a;
    }
    return a->order < b->order ? a : b;
}

/* The receive that a message (src, tag) belongs to by MPI's rules, still queued; NULL if none. */
static inline spec_posted_t *spec_match_find_posted(spec_match_t *m, int32_t src, int32_t tag)
{
    if (0 == m->posted_n) {
        return NULL;
    }
    spec_posted_t *p = spec_bin_head(spec_match_bin(m, src, tag));
    if (m->wild_n > 0) {
        p = spec_posted_earlier(p, spec_bin_head(spec_match_bin(m, SPEC_ANY, tag)));
        if (tag >= 0) {
            p = spec_posted_earlier(p, spec_bin_head(spec_match_bin(m, src, SPEC_ANY)));
            p = spec_posted_earlier(p, spec_bin_head(spec_match_bin(m, SPEC_ANY, SPEC_ANY)));
        }
    }
    return p;
}

/* Take a receive out of its queue. */
static inline void spec_match_remove_posted(spec_match_t *m, spec_posted_t *p)
{
    spec_bin_t *bin = p->bin;
    spec_list_remove(&p->node);
    p->bin = NULL;
    --bin->posted_n;
    bin->rtr_n -= p->has_rtr;
    --m->posted_n;
    if (m->wild_n > 0 && (SPEC_ANY == p->src || SPEC_ANY == p->tag)) {
        --m->wild_n;
    }
    m->idle_bins += 0 == bin->posted_n;
}

/* ---- the others ---- */

/* Queue a message that nobody wants yet; u->src and u->tag are set by the caller.
 * 0, or -1 when memory is out (nothing was queued). */
int spec_match_add_unexp(spec_match_t *m, spec_unexp_t *u);

/* The oldest unexpected message for the pattern, still queued; NULL if none. */
spec_unexp_t *spec_match_find_unexp(spec_match_t *m, int32_t src, int32_t tag);

/* Take an unexpected message out of all its queues. */
void spec_match_remove_unexp(spec_match_t *m, spec_unexp_t *u);

/* Take out every receive that could only or also be waiting for src: those for exactly src and those
 * for any source; appended to `taken` by their node. Slow: visits every bin. */
void spec_match_take_source(spec_match_t *m, int32_t src, spec_node_t *taken);

/* Does any pending receive wait for a message of src (and no matter which tag)? Slow: visits every bin. */
bool spec_match_waits_for(const spec_match_t *m, int32_t src);

/* Could a pending wildcard receive take a message (src, tag)? */
bool spec_match_wildcard_waits(spec_match_t *m, int32_t src, int32_t tag);

/* Could a pending receive that is not of this bin take a message of the bin's source with a tag >= 0? Slow: visits
 * every bin, and says yes if there are too many. */
bool spec_match_others_wait(const spec_match_t *m, const spec_bin_t *bin);

/* Queue a narrowed receive under any source, by its age. 0, or -1 when memory is out (nothing has changed). */
int spec_match_widen(spec_match_t *m, spec_posted_t *p);

#endif
