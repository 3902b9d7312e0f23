/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Measuring: what copying, registering and finding out cost on this machine with a transport
 * (freq_rule.h has the words).
 *
 *   R   a registration of a buffer that the cache does not have, on pages that are in memory
 *   C   memcpy into a buffer that is warm, as a fragment from a free list is
 *   V   a use of a table, and taking and giving back a registration that it notes; the table's part of
 *       it by itself, of a buffer that it knows, of one that it takes in, and where few messages are
 *       looked up. Each is timed between copies of 4 KiB: a table is not asked in a row but between
 *       messages, which take it out of the nearest caches, or out of all
 *   P   is the transport's own to measure
 *
 * Of as many samples as fit the time that is allowed, the mean of the middle half. */
#ifndef FREQ_MEASURE_H
#define FREQ_MEASURE_H

#include "freq_rule.h"

/* What is measured. Called by the thread that measures. */
typedef struct freq_probe {
    /* Register, in the cache that is used later. False: refused, nothing is known then. */
    bool (*take)(void *context, void *base, size_t size, void **registration);
    void (*give)(void *context, void *registration);
    /* Take and give back what take gave for base and size, as by a note; or NULL: by take and give. */
    bool (*again)(void *context, void *registration, void *base, size_t size);
    /* P, ns; or NULL: none. Negative: not known. */
    double (*place)(void *context);
    void *context;
} freq_probe_t;

/* ns: to be spent; it may be four times as much, P not included. False: the costs are not known, since there is no memory,
 * a registration was refused or one round takes too long. Allocates, and gives back, some 3 MiB. */
bool freq_measure(const freq_probe_t *probe, double ns, freq_costs_t *costs);

#endif
