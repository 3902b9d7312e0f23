/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Hints: what MPI_Alloc_mem asks of a memory pool, as words separated by commas. Open MPI hands
 * over the info key mpool_hints in this form; the keys of 004 section III.C.2 are words of it.
 *
 *   mpool=NAME          this pool and no other
 *   must_be_shared      memory that is registered with every transport, or none
 *   must_be_aligned=N   at a multiple of N, a power of two; 0: what suits this library
 *
 * must_be_shared may have a value: 0, false and no stand for the word not being there. */
#ifndef FREQ_HINTS_H
#define FREQ_HINTS_H

#include <stdbool.h>
#include <stddef.h>

#define FREQ_ALIGNMENT_MAX ((size_t) 1 << 30)

typedef struct freq_hints {
    bool is_named;    /* mpool= names the pool asked about */
    bool is_other;    /* mpool= names another pool */
    bool has_unknown; /* words that are none of these */
    bool must_be_shared;
    bool must_be_aligned;
    size_t alignment; /* what must_be_aligned says, 0 included */
} freq_hints_t;

/* False: a word is wrong, `hints` then has no meaning. NULL has no words. */
bool freq_hints_parse(freq_hints_t *hints, const char *text, const char *name);

/* Value of the info key must_be_shared: false for 0, false and no. */
bool freq_hints_is_true(const char *value, size_t length);

/* Value of the info key must_be_aligned: digits, perhaps with a K, M or G. */
bool freq_hints_alignment(const char *value, size_t length, size_t *alignment);

#endif
