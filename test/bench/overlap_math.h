/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The arithmetic of the benchmarks: plain C, no MPI, no clock. Unit test: test/unit/test_overlap_math.c.
 *
 * Words: comm = time of the transfer alone, from the nonblocking call to the end of the wait;
 * compute = time of the inserted computation alone; total = time of both together. Any unit, the same for all. */
#ifndef OVERLAP_MATH_H
#define OVERLAP_MATH_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Share of the transfer that was hidden behind the computation: 1 = all of it (total == compute),
 * 0 = nothing (total == comm + compute). Below 0 when computing delayed the transfer beyond that, above 1
 * only by noise. Means something only for compute >= comm: less computation cannot hide a whole transfer.
 * NAN when comm is no positive time. */
static inline double overlap_ratio(double comm, double compute, double total)
{
    if (!(comm > 0.0)) {
        return NAN;
    }
    return (comm + compute - total) / comm;
}

/* The same for display: within 0..1. NAN stays NAN. */
static inline double overlap_shown(double ratio)
{
    if (ratio < 0.0) {
        return 0.0;
    }
    return ratio > 1.0 ? 1.0 : ratio;
}

static inline int stat_compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Quantile q (0..1) of n values, linear between neighbours; sorts the values. NAN when there are none. */
static inline double stat_quantile(double *values, size_t n, double q)
{
    if (0 == n) {
        return NAN;
    }
    qsort(values, n, sizeof(values[0]), stat_compare);
    double place = q * (double) (n - 1);
    size_t below = (size_t) place;
    if (below + 1 >= n) {
        return values[n - 1];
    }
    return values[below] + (place - (double) below) * (values[below + 1] - values[below]);
}

static inline double stat_median(double *values, size_t n)
{
    return stat_quantile(values, n, 0.5);
}

#endif
