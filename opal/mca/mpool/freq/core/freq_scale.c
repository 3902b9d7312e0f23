/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
#include "freq_scale.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
    return (x > y) - (x < y);
}

static uint32_t bounded(double scale, uint32_t least, uint32_t most)
{
    return scale > most ? most : scale < least ? least : (uint32_t) scale;
}

static bool moved(uint32_t *now, uint32_t before, uint32_t value)
{
    const uint32_t change = value > before ? value - before : before - value;
    if (change < before / FREQ_SCALE_STEP || 0 == change) {
        return false;
    }
    *now = value;
    return true;
}

bool freq_scale_add(freq_scale_t *scale, double ns, double expected)
{
    if (!(expected > 0)) {
        return false;
    }
    scale->sample[scale->n++] =
        bounded(ns / expected * FREQ_SCALE_ONE, FREQ_SCALE_LEAST, FREQ_SCALE_MOST);
    if (scale->n < FREQ_SCALE_SAMPLES) {
        return false;
    }
    scale->n = 0;
    qsort(scale->sample, FREQ_SCALE_SAMPLES, sizeof(*scale->sample), by_value);
    return moved(&scale->now, freq_scale_now(scale), scale->sample[FREQ_SCALE_SAMPLES / 2]);
}

bool freq_scale_forget(freq_scale_t *scale)
{
    const bool was_known = FREQ_SCALE_ONE != freq_scale_now(scale);
    *scale = (freq_scale_t){0};
    return was_known;
}

void freq_mean_add(freq_mean_t *mean, double ns, double expected)
{
    if (expected > 0) {
        (void) atomic_fetch_add_explicit(&mean->sum,
                                         bounded(ns / expected * FREQ_SCALE_ONE, 0, FREQ_MEAN_MOST),
                                         memory_order_relaxed);
        (void) atomic_fetch_add_explicit(&mean->n, 1, memory_order_relaxed);
    }
}

bool freq_mean_settle(freq_mean_t *mean)
{
    const uint32_t n = atomic_load_explicit(&mean->n, memory_order_relaxed);
    if (n < FREQ_MEAN_SAMPLES) {
        return false;
    }
    /* What is added between the two is of the next. */
    const uint64_t sum = atomic_exchange_explicit(&mean->sum, 0, memory_order_relaxed);
    (void) atomic_fetch_sub_explicit(&mean->n, n, memory_order_relaxed);
    return moved(&mean->now, freq_mean_now(mean),
                 bounded((double) sum / n, FREQ_MEAN_LEAST, FREQ_MEAN_MOST));
}
