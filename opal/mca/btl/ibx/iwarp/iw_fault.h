/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Faults on purpose: what happens to a datagram is decided by rates and a seed, so that a run can
 * be repeated. Part of every build; off when all rates are 0. */
#ifndef IW_FAULT_H
#define IW_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rates in datagrams of a million. */
typedef struct iw_fault_rates {
    uint32_t drop;
    uint32_t duplicate;
    uint32_t reorder;  /* held back until a few later ones have passed */
    uint32_t delay;    /* held back for up to delay_ns */
    uint32_t corrupt;  /* one bit */
    uint32_t truncate; /* to any shorter length */
    uint64_t delay_ns;
} iw_fault_rates_t;

typedef struct iw_fault {
    iw_fault_rates_t rates;
    uint64_t random;
    uint64_t dropped, duplicated, reordered, delayed, corrupted, truncated;
} iw_fault_t;

/* What to do with one datagram. */
typedef struct iw_fate {
    bool drop;
    bool twice;
    bool corrupt;     /* flip bit flip */
    size_t flip;      /* bit number */
    size_t length;    /* new length; the old one if not truncated */
    uint64_t delay_ns; /* keep it for so long first; 0: not */
} iw_fate_t;

void iw_fault_init(iw_fault_t *f, const iw_fault_rates_t *rates, uint64_t seed);
bool iw_fault_active(const iw_fault_t *f);
iw_fate_t iw_fault_decide(iw_fault_t *f, size_t length);

/* "drop=0.01,duplicate=0.005,reorder=0.1,delay=0.02:3ms,corrupt=0.001,truncate=0.001" to rates.
 * False: not understood, and *rates is as before. */
bool iw_fault_parse(iw_fault_rates_t *rates, const char *text);

#endif
