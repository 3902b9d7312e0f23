/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The replacement policies of the cache: which registration is evicted when room is needed (paper 004, section III.D). A policy
 * is a descriptor in the list of lazy_policy.c, and nothing else has to know of it. */
#ifndef LAZY_POLICY_H
#define LAZY_POLICY_H

#include "lazy_heap.h"

typedef struct lazy_policy {
    const char *name;
    const char *help; /* goes into the help of the parameter */
    /* False: a registration ends with its last use. */
    bool keeps;
    /* The rank of an entry that has just been used: hits so far, and when. `age` is the rank of the
     * last entry that was evicted. Never lower than the rank before. NULL: there is no rank. */
    uint64_t (*rank)(uint64_t age, uint32_t uses, uint64_t used);
    /* The index in the heap of the entry to evict so that `need` bytes become free; it must be
     * idle. LAZY_NONE: there is none. NULL: the one with the lowest rank. */
    size_t (*pick)(const lazy_heap_t *heap, size_t need, uint64_t *random);
} lazy_policy_t;

/* The policy with that number, from 0, or NULL. The first is the default. */
const lazy_policy_t *lazy_policy_at(unsigned i);

#endif
