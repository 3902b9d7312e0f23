/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Faults on purpose, for tests: loss, duplicates, reordering, delay and damage. What happens to a datagram is decided by rates
 * and a seed, so that a run can be repeated. */
#ifndef IW_FAULT_H
#define IW_FAULT_H

#include "iw_random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define IW_FAULT_ALL 1000000u

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
    bool corrupt;      /* flip bit flip */
    size_t flip;       /* bit number */
    size_t length;     /* new length; the old one if not truncated */
    uint64_t delay_ns; /* keep it for so long first; 0: not */
} iw_fate_t;

static inline void iw_fault_init(iw_fault_t *f, const iw_fault_rates_t *rates, uint64_t seed)
{
    *f = (iw_fault_t){.rates = *rates, .random = seed};
}

static inline bool iw_fault_active(const iw_fault_t *f)
{
    const iw_fault_rates_t *r = &f->rates;
    return 0 != (r->drop | r->duplicate | r->reorder | r->delay | r->corrupt | r->truncate);
}

static inline uint64_t iw_fault_draw(iw_fault_t *f)
{
    return iw_random_next(&f->random);
}

static inline bool iw_fault_happens(iw_fault_t *f, uint32_t rate, uint64_t *count)
{
    if (0 == rate || iw_fault_draw(f) % IW_FAULT_ALL >= rate) {
        return false;
    }
    ++*count;
    return true;
}

static inline iw_fate_t iw_fault_decide(iw_fault_t *f, size_t length)
{
    iw_fate_t fate = {.length = length};
    if (iw_fault_happens(f, f->rates.drop, &f->dropped)) {
        fate.drop = true;
        return fate;
    }
    fate.twice = iw_fault_happens(f, f->rates.duplicate, &f->duplicated);
    if (iw_fault_happens(f, f->rates.truncate, &f->truncated) && length > 0) {
        fate.length = iw_fault_draw(f) % length;
    }
    if (fate.length > 0 && iw_fault_happens(f, f->rates.corrupt, &f->corrupted)) {
        fate.corrupt = true;
        fate.flip = iw_fault_draw(f) % (fate.length * 8);
    }
    uint64_t longest = 0 == f->rates.delay_ns ? 1000000 : f->rates.delay_ns;
    if (iw_fault_happens(f, f->rates.delay, &f->delayed)) {
        fate.delay_ns = 1 + iw_fault_draw(f) % longest;
    } else if (iw_fault_happens(f, f->rates.reorder, &f->reordered)) {
        fate.delay_ns = 1 + iw_fault_draw(f) % (1 + longest / 16);
    }
    return fate;
}

static inline bool iw_fault_parse_rate(const char *text, char **end, uint32_t *rate)
{
    double share = strtod(text, end);
    if (*end == text || !(share >= 0.0 && share <= 1.0)) {
        return false;
    }
    *rate = (uint32_t) (share * IW_FAULT_ALL + 0.5);
    return true;
}

static inline bool iw_fault_parse_time(const char *text, char **end, uint64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double value = strtod(text, end);
    if (*end == text || !(value >= 0.0 && value <= 1e6)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); ++i) {
        size_t n = strlen(units[i].name);
        if (0 == strncmp(*end, units[i].name, n)) {
            *end += n;
            *ns = (uint64_t) (value * units[i].ns);
            return true;
        }
    }
    return false;
}

/* "drop=0.01,duplicate=0.005,reorder=0.1,delay=0.02:3ms,corrupt=0.001,truncate=0.001" to rates.
 * False: not understood, and *rates is as before. */
static inline bool iw_fault_parse(iw_fault_rates_t *rates, const char *text)
{
    iw_fault_rates_t r = {0};
    const struct {
        const char *name;
        uint32_t *rate;
    } words[] = {{"drop=", &r.drop},   {"duplicate=", &r.duplicate}, {"reorder=", &r.reorder},
                 {"delay=", &r.delay}, {"corrupt=", &r.corrupt},     {"truncate=", &r.truncate}};
    while ('\0' != *text) {
        uint32_t *rate = NULL;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); ++i) {
            size_t n = strlen(words[i].name);
            if (0 == strncmp(text, words[i].name, n)) {
                rate = words[i].rate;
                text += n;
                break;
            }
        }
        char *end;
        if (NULL == rate || !iw_fault_parse_rate(text, &end, rate)) {
            return false;
        }
        if (':' == *end && (rate != &r.delay || !iw_fault_parse_time(end + 1, &end, &r.delay_ns))) {
            return false;
        }
        if (',' == *end) {
            ++end;
        } else if ('\0' != *end) {
            return false;
        }
        text = end;
    }
    *rates = r;
    return true;
}

#endif
