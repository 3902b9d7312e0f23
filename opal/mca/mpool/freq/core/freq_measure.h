/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Measures what copying, registering and searching cost on this machine with a transport's own functions, for the
 * break-even rule (freq_rule.h).
 *
 *   R   registering a buffer that the cache does not have, on pages that are in memory
 *   C   memcpy, each until its last store is done, into a buffer that is in a near cache, as a fragment of a free list is
 *   V   a use of a table, and taking and giving back a registration that it notes, after a copy of 4 KiB: a table is not
 *       asked in a row but between messages, which take it out of the nearest caches
 *   search   of a buffer that the table takes in, after many such copies
 *
 * Of as many samples as fit the time that is allowed, the mean of the middle ones. */
#ifndef FREQ_MEASURE_H
#define FREQ_MEASURE_H

#include "freq_rule.h"

/* What is measured. Called by the thread that measures. */
typedef struct freq_probe {
    /* Register, in the cache that is used later. 0, or: refused, nothing is known then. */
    int (*take)(void *context, void *base, size_t size, void **registration);
    void (*give)(void *context, void *registration);
    /* Take and give back what take gave for base and size, as by a note; or NULL: by take and give. */
    bool (*again)(void *context, void *registration, void *base, size_t size);
    void *context;
} freq_probe_t;

/* ns: to be spent; it may be four times as much. False: the costs are not known, since there is no memory,
 * a registration was refused or one round takes too long. Allocates, and frees, some 3 MiB. */
bool freq_measure(const freq_probe_t *probe, double ns, freq_costs_t *costs);

#endif
