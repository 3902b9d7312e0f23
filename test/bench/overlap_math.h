/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The arithmetic of the benchmarks: plain C, no MPI, no clock. Unit test: test/unit/test_overlap_math.c.
 * Sections and figures are those of the thesis, see test/bench/README.md.
 *
 * Words: comm = time of the transfer alone, from the nonblocking call to the end of the wait;
 * compute = time of the inserted computation alone; total = time of both together. Any unit, the same for all. */
#ifndef OVERLAP_MATH_H
#define OVERLAP_MATH_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Share of the transfer that was hidden behind the computation: 1 = all of it (total == compute),
 * 0 = nothing (total == comm + compute); equation 3.4. Below 0 when computing delayed the transfer beyond that, above 1
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

/* ---- progress: a delay is inserted between the nonblocking call and the wait (section 3.6.2, fig. 4.14) ----
 * undelayed, delayed = latency of the message at the receiver without and with the delay. */

/* How far the message progresses by itself: 1 = the delay does not change its latency, 0 = the latency grows by the
 * whole delay. Not clamped. NAN without a delay. */
static inline double progress_independent(double undelayed, double delay, double delayed)
{
    return delay > 0.0 ? 1.0 - (delayed - undelayed) / delay : NAN;
}

/* Share of the undelayed latency that is left to do when the delay is over: 1 = nothing was done meanwhile, 0 = all.
 * What the thesis quotes as '4-15 % of the whole communication latency remains after the inserted delay'.
 * NAN when undelayed is no positive time. */
static inline double progress_left(double undelayed, double delay, double delayed)
{
    if (!(undelayed > 0.0)) {
        return NAN;
    }
    return delayed > delay ? (delayed - delay) / undelayed : 0.0;
}

/* ---- speculation ---- */

/* RTR usage factor (section 4.2.6): share of the RTRs that arrived which a message used. NAN when none arrived. */
static inline double rtr_usage(double arrived, double used)
{
    return arrived > 0.0 ? used / arrived : NAN;
}

/* Bytes that exist only because of speculation, as the thesis counts them for fig. 4.19 (b): RTRs that no message used,
 * and the acknowledgements of those that were. An RTR is counted without the transport's key. */
enum { RTR_BYTES = 64, MATCH_BYTES = 40 }; /* docs/design/protocol.md, 'Packets' */

static inline double speculation_bytes(double arrived, double used)
{
    return (arrived - used) * RTR_BYTES + used * MATCH_BYTES;
}

/* ---- exchange (fig. 4.15) ---- */

/* Time to compute so that communication : computation is percent : 100; 0 percent means no computation. */
static inline double exchange_compute(double comm, double percent)
{
    return percent > 0.0 ? comm * 100.0 / percent : 0.0;
}

/* ---- 004, section IV.C, equation (3) and table 3 ----
 * busy = time of the computation alone, msg = least time of the message alone, both = time of both together. The same
 * number as overlap_ratio; 'saturated' when busy > msg. NAN when msg is no positive time. */
static inline double overlap_efficiency(double busy, double msg, double both)
{
    return msg > 0.0 ? 1.0 - (both - busy) / msg : NAN;
}

/* ---- latency and bandwidth ---- */

/* Half a round trip, of the time that so many round trips took. */
static inline double us_per_half_trip(double us, double round_trips)
{
    return us / (2.0 * round_trips);
}

/* MB/s (10^6 bytes), which is bytes per microsecond. */
static inline double mb_per_s(double bytes, double us)
{
    return us > 0.0 ? bytes / us : NAN;
}

/* Normalized latency of section 3.4: the mean half round trip of connections that are busy at the same time, divided by
 * their number: what a message costs if all of them share. */
static inline double latency_per_connection(double mean_half_round_trip, double connections)
{
    return connections > 0.0 ? mean_half_round_trip / connections : NAN;
}

/* ---- NAS IS: the all-to-all of a bucket sort (004, section IV.D) ---- */

/* Bytes that each of p processes sends to each: 2^log2_keys integers of 4 bytes, shared out twice. */
static inline size_t is_message_bytes(unsigned log2_keys, size_t p)
{
    return ((size_t) 4 << log2_keys) / (p * p);
}

/* The same for one pair of processes when the buckets are not equal: up to percent more or less, adding up to nothing over
 * the receivers of a sender (p even), and in whole integers. */
static inline size_t is_uneven_bytes(size_t bytes, size_t from, size_t to, size_t p, unsigned percent)
{
    const size_t place = (from + to) % p;
    const double swing = 0 == p % 2 ? (place % 2 ? 1.0 : -1.0) * (double) (1 + place / 2) / (double) (p / 2) : 0.0;
    return (size_t) ((double) bytes * (1.0 + swing * percent / 100.0)) / 4 * 4;
}

/* ---- statistics ---- */

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
