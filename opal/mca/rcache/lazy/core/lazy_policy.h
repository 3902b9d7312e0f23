/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which registration ends when room is needed (paper 004, section III.D). A policy is a const
 * descriptor in a file of its own, named in lazy_policy_list.h. */
#ifndef LAZY_POLICY_H
#define LAZY_POLICY_H

#include "lazy_heap.h"

typedef struct lazy_policy {
    const char *name;
    const char *help; /* goes into the help of the parameter */
    /* False: a registration ends when nobody uses it any more. */
    bool keeps;
    /* The rank of an entry that has just been used: hits so far, and when. `age` is the rank of the
     * last entry that was evicted. Never lower than the one before. NULL: there is no rank. */
    uint64_t (*rank)(uint64_t age, uint32_t uses, uint64_t used);
    /* The place in the heap of the entry that is to end so that `need` bytes become free; it must be
     * idle. LAZY_NONE: there is none. NULL: the one with the lowest rank. */
    size_t (*pick)(const lazy_heap_t *heap, size_t need, uint64_t *random);
} lazy_policy_t;

/* The policy of that name, or NULL. */
const lazy_policy_t *lazy_policy_find(const char *name);
/* The policy with that number, from 0, or NULL. */
const lazy_policy_t *lazy_policy_at(unsigned i);

#endif
