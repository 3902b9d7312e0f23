/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Rule: after how many uses a buffer of a size is worth registering (000 section 5.3.3).
 *
 * Words
 *   C(m)   what copying m bytes costs
 *   R(m)   what registering m bytes costs, once
 *   V      what finding out costs, each time: the table and the cache of registrations
 *   P      what sending in place costs the transport beyond sending a copy, each time: a second piece
 *          in the work request, a completion of its own
 *   n(m)   break-even count R(m) / (C(m) - V - P), inequality (5.3) with P in its V: as many uses repay
 *          the registration
 *   class  sizes that are treated alike: four to each power of two from 128 bytes to 64 KiB
 *
 * A buffer is registered after a share of n uses, in the hope that it goes on being used. Where C
 * does not exceed V + P by FREQ_MARGIN percent of C there is no n, and nothing is ever registered: so
 * little could as well be a loss, since all of these were measured in passing. Nor below 128 bytes. All
 * costs are in nanoseconds. */
#ifndef FREQ_RULE_H
#define FREQ_RULE_H

#include <stdatomic.h>
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
    double r[FREQ_POINTS]; /* ns, of a message of 128 << i bytes */
    double c[FREQ_POINTS];
    double v;
    double look; /* part of v: the table */
    double rare; /* the table's part where few messages are looked up, so that no cache has it */
    double add;  /* the table's part where it does not know the buffer, and takes it in */
    double p;
    double gate;  /* what is done for a message that may be looked up (freq_gate.h) */
    double clock; /* that much more is seen of what is timed */
} freq_costs_t;

/* May be made anew while others read it. */
typedef struct freq_rule {
    _Atomic uint32_t n[FREQ_CLASSES]; /* break-even count, FREQ_NEVER: there is none */
    /* copied uses before a buffer is registered, FREQ_NEVER: always copied */
    _Atomic uint32_t after[FREQ_CLASSES];
} freq_rule_t;

static inline uint32_t freq_rule_after(const freq_rule_t *rule, uint32_t class)
{
    return atomic_load_explicit((_Atomic uint32_t *) &rule->after[class], memory_order_relaxed);
}

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

/* Cost of a size between the measured ones (r or c of freq_costs_t), on the line between its
 * neighbours. */
double freq_cost_at(const double points[FREQ_POINTS], size_t size);

/* Inequality (5.3) for one size: the least whole n above R / gain; FREQ_NEVER if nothing is
 * gained, or n is beyond all reason (2^30). */
uint32_t freq_break_even(double r, double gain);

/* What a message of the size gains in place, ns; at most 0: it is to be copied. */
double freq_gain_at(const freq_costs_t *costs, size_t size);

/* Are these costs (finite, not negative, at most a second)? They may come from a file. */
bool freq_costs_are_sane(const freq_costs_t *costs);

/* The rule from costs. `share` of n, in percent, is used up before the buffer is registered; at
 * least one use is. */
void freq_rule_make(freq_rule_t *rule, const freq_costs_t *costs, uint32_t share);

/* The least size that is ever registered, of which a transport need ask; 0: none is. */
size_t freq_rule_least(const freq_rule_t *rule);

/* A rule without costs, for tests: every size is registered after so many uses. */
void freq_rule_fixed(freq_rule_t *rule, uint32_t after);

#endif
