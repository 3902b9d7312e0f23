/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The inbox: intervals of memory that was given back to the system, from memory hooks to the next use of the cache, without
 * a lock or an allocation.
 *
 * A hook runs inside munmap or brk, perhaps called by malloc with its locks held, on any thread and
 * at any point of it, so putting something in neither allocates nor waits: it takes a slot by
 * setting a bit. Without a free slot the inbox only remembers that something was lost, which
 * stands for all of memory.
 *
 * `posted` counts what was put in and is advanced last; a reader that saw it before it took out
 * everything knows up to where it is done. */
#ifndef LAZY_INBOX_H
#define LAZY_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LAZY_INBOX_WORDS 16u
#define LAZY_INBOX_SIZE  (64u * LAZY_INBOX_WORDS)

typedef struct lazy_range {
    uintptr_t base, bound;
} lazy_range_t;

typedef struct lazy_inbox {
    _Alignas(64) _Atomic uint64_t posted;
    _Atomic bool overflowed;
    _Atomic uint64_t taken[LAZY_INBOX_WORDS]; /* slots in use */
    _Atomic uint64_t full[LAZY_INBOX_WORDS];  /* and written */
    lazy_range_t range[LAZY_INBOX_SIZE];
} lazy_inbox_t;

/* From a hook. Any thread. */
void lazy_inbox_post(lazy_inbox_t *inbox, uintptr_t base, uintptr_t bound);
/* As if everything had been posted. Any thread. */
void lazy_inbox_post_all(lazy_inbox_t *inbox);

/* Take out all that is in it: `take` is called for each. True: something was lost, and all memory
 * counts as gone. One thread at a time. */
bool lazy_inbox_drain(lazy_inbox_t *inbox,
                      void (*take)(void *context, uintptr_t base, uintptr_t bound), void *context);

#endif
