/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See freq_rule.h: from the costs of copying, registering and searching to counts of uses. */
#include "freq_rule.h"

#define COUNT_MAX (UINT32_C(1) << 30)
#define COST_MAX  1e9 /* ns */

double freq_cost_at(const double points[FREQ_POINTS], size_t size)
{
    if (size <= FREQ_SIZE_MIN) {
        return points[0];
    }
    if (size >= FREQ_SIZE_MAX) {
        return points[FREQ_POINTS - 1];
    }
    const uint32_t i = 31u - (uint32_t) __builtin_clz((uint32_t) size) - 7;
    const double low = (double) ((size_t) FREQ_SIZE_MIN << i);
    return points[i] + (points[i + 1] - points[i]) * ((double) size - low) / low;
}

uint32_t freq_break_even(double r, double gain)
{
    if (!(gain > 0)) {
        return FREQ_NEVER;
    }
    const double n = r / gain;
    return n < (double) COUNT_MAX ? (uint32_t) n + 1 : FREQ_NEVER;
}

static bool is_cost(double cost)
{
    return cost >= 0 && cost <= COST_MAX; /* false for what is no number */
}

bool freq_costs_are_sane(const freq_costs_t *costs)
{
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        if (!is_cost(costs->r[i]) || !is_cost(costs->c[i])) {
            return false;
        }
    }
    return is_cost(costs->v) && is_cost(costs->search);
}

double freq_gain_at(const freq_costs_t *costs, size_t size)
{
    const double c = freq_cost_at(costs->c, size), gain = c - costs->v;
    return gain * 100 > c * FREQ_MARGIN ? gain : 0;
}

void freq_rule_make(freq_rule_t *rule, const freq_costs_t *costs, uint32_t share)
{
    for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
        const size_t size = freq_class_size(class);
        const uint32_t n = freq_break_even(freq_cost_at(costs->r, size), freq_gain_at(costs, size));
        const uint64_t part = ((uint64_t) n * share + 99) / 100;
        const uint64_t after = part < UINT32_MAX ? part : UINT32_MAX;
        rule->n[class] = n;
        rule->after[class] = FREQ_NEVER == n ? FREQ_NEVER : after > 0 ? (uint32_t) after : 1;
    }
}

void freq_rule_fixed(freq_rule_t *rule, uint32_t after)
{
    for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
        rule->n[class] = rule->after[class] = after;
    }
}
