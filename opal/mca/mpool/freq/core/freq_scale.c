/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
#include "freq_scale.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
    return (x > y) - (x < y);
}

static uint32_t bounded(double scale)
{
    return scale > FREQ_SCALE_MOST    ? FREQ_SCALE_MOST
           : scale < FREQ_SCALE_LEAST ? FREQ_SCALE_LEAST
                                      : (uint32_t) scale;
}

bool freq_scale_add(freq_scale_t *scale, double ns, double expected)
{
    if (!(expected > 0)) {
        return false;
    }
    scale->sample[scale->n++] = bounded(ns / expected * FREQ_SCALE_ONE);
    if (scale->n < FREQ_SCALE_SAMPLES) {
        return false;
    }
    scale->n = 0;
    qsort(scale->sample, FREQ_SCALE_SAMPLES, sizeof(*scale->sample), by_value);
    const uint32_t before = freq_scale_now(scale);
    const uint32_t median = scale->sample[FREQ_SCALE_SAMPLES / 2];
    const uint32_t change = median > before ? median - before : before - median;
    if (change < before / FREQ_SCALE_STEP) {
        return false;
    }
    scale->now = median;
    return true;
}
