/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The break-even rule for small buffers: after how many uses is registering a buffer with the network adapter cheaper
 * than copying each message (000 section 5.3.3)?
 *
 *   C(m)   copying m bytes, each time
 *   R(m)   registering m bytes, once
 *   V      finding a buffer in the table and its registration in the cache, each time
 *   n(m)   R(m) / (C(m) - V), inequality (5.3): as many uses repay the registration
 *   class  sizes that are treated alike: four to each power of two from 128 bytes to 64 KiB
 *
 * Where C does not exceed V by FREQ_MARGIN percent of C there is no n (docs/design/mpool.md). All costs are in nanoseconds. */
#ifndef FREQ_RULE_H
#define FREQ_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FREQ_SIZE_MIN = 128,
    FREQ_SIZE_MAX = 65536,
    FREQ_POINTS = 10,                         /* sizes that are measured: 128, 256, ... 65536 */
    FREQ_CLASSES = 4 * (FREQ_POINTS - 1) + 1, /* the last is 65536 alone */
    FREQ_MARGIN = 25
};
#define FREQ_NEVER 0

typedef struct freq_costs {
    double r[FREQ_POINTS], c[FREQ_POINTS]; /* of 128 << i bytes */
    double v;
    double search; /* the table's part of v where most are copied, so that no cache has it */
} freq_costs_t;

typedef struct freq_rule {
    uint32_t n[FREQ_CLASSES];     /* break-even count; FREQ_NEVER: there is none */
    uint32_t after[FREQ_CLASSES]; /* copied uses before registration; FREQ_NEVER: always copied */
} freq_rule_t;

/* The class of a size; FREQ_CLASSES: of none, too small or too large. */
static inline uint32_t freq_class_of(size_t size)
{
    if (size - FREQ_SIZE_MIN > FREQ_SIZE_MAX - FREQ_SIZE_MIN) {
        return FREQ_CLASSES;
    }
    const uint32_t log = 31u - (uint32_t) __builtin_clz((uint32_t) size);
    return (log - 7) * 4 + (((uint32_t) size >> (log - 2)) & 3);
}

/* The smallest size of a class. */
static inline size_t freq_class_size(uint32_t class)
{
    return ((size_t) 4 + class % 4) << (5 + class / 4);
}

/* Cost of a size (r or c of freq_costs_t), between the measured ones on the line from one to the next. */
double freq_cost_at(const double points[FREQ_POINTS], size_t size);

/* Inequality (5.3): the least whole n above r / gain; FREQ_NEVER if nothing is gained, or n is beyond all reason (2^30). */
uint32_t freq_break_even(double r, double gain);

/* What a message of the size gains in place, ns; 0: it is to be copied. */
double freq_gain_at(const freq_costs_t *costs, size_t size);

/* Are these costs (finite, not negative, at most a second)? They may come from a file. */
bool freq_costs_are_sane(const freq_costs_t *costs);

/* The rule from costs. `share` of n, in percent and at least one use, comes before the registration. */
void freq_rule_make(freq_rule_t *rule, const freq_costs_t *costs, uint32_t share);

/* A rule without costs, for tests: every size is registered after so many uses. */
void freq_rule_fixed(freq_rule_t *rule, uint32_t after);

#endif
