/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How much of a transfer is hidden behind a computation between the nonblocking call and the wait.
 *
 * Rank 0 sends, rank 1 receives. For each size, both orders of arrival and both sides, three things are timed in turn on
 * the measured side: the transfer alone (call, wait), the computation alone, and both (call, compute, wait). The other
 * side calls and waits at once. The computation is a fixed amount of work, at least 1.5 times as long as the transfer
 * alone, so that the other side can finish the transfer within it. Every message is checked.
 *
 * A line per case:  overlap size= order= side= comm_us= compute_us= total_us= wait_us= overlap= raw= q1= q3=
 *                   iterations= omitted= errors=
 * overlap = (comm + compute - total) / comm of the medians, within 0..1; raw = the same as it is; q1, q3 = quartiles of
 * raw over the iterations; wait_us = time in the wait after the computation; omitted = measurements (three to an
 * iteration) left out because a process lost its processor meanwhile. */
#include "bench.h"

static const char *const orders[] = {"receiver-first", "sender-first", "both", NULL};
static const char *const sides[] = {"receive", "send", "both", NULL};
enum { RECEIVER_FIRST, SENDER_FIRST };
enum { SIDE_RECEIVE, SIDE_SEND };
enum { TAG = 7, ATTEMPTS = 3, WARM = 10, WARM_PAIRS = 3, FEWEST = 5 };
static const double enough = 1.5, shortest_us = 20.0;

struct one_case {
    size_t size;
    int order, side;
    char *buffer;
    uint64_t key;     /* of the next message */
    bool early, measured;
};

struct times {
    double total, wait;
    bool disturbed; /* this side lost its processor meanwhile */
};

/* One message, with the computation on the measured side. */
static struct times transfer(struct one_case *c, uint64_t steps)
{
    struct times t;
    MPI_Request request;
    uint64_t key = c->key++;
    if (0 == bench.rank) {
        bench_fill(c->buffer, c->size, key);
    } else {
        bench_clear(c->buffer, c->size);
    }
    MPI_Barrier(bench.ctl);
    if (!c->early) {
        bench_await();
    }
    long preemptions = bench_preemptions();
    double start = bench_now();
    if (0 == bench.rank) {
        MPI_Isend(c->buffer, (int) c->size, MPI_BYTE, 1, TAG, bench.comm, &request);
    } else {
        MPI_Irecv(c->buffer, (int) c->size, MPI_BYTE, 0, TAG, bench.comm, &request);
    }
    if (c->early) {
        bench_tell();
    }
    if (c->measured) {
        bench_compute(steps);
    }
    double computed = bench_now();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double end = bench_now();
    t.total = end - start;
    t.wait = end - computed;
    t.disturbed = bench_preemptions() != preemptions;
    if (1 == bench.rank) {
        bench_verify(c->buffer, c->size, key);
    }
    return t;
}

/* The computation alone, while the other side polls in the next barrier. */
static struct times computation(struct one_case *c, uint64_t steps)
{
    struct times t = {.disturbed = false};
    MPI_Barrier(bench.ctl);
    if (c->measured) {
        long preemptions = bench_preemptions();
        double start = bench_now();
        bench_compute(steps);
        t.total = bench_now() - start;
        t.disturbed = bench_preemptions() != preemptions;
    }
    return t;
}

/* What is timed in turn, and its results. */
enum { COMM, COMPUTE, TOTAL, KINDS };

struct series {
    double *us, *wait;
    int *disturbed; /* on either side */
    size_t n;
};

static void series_add(struct series *s, struct times t)
{
    s->us[s->n] = t.total;
    s->wait[s->n] = t.wait;
    s->disturbed[s->n++] = t.disturbed;
}

/* Keeps what no side was disturbed in, unless that is too little; returns how many were left out. */
static size_t series_clean(struct series *s)
{
    size_t kept = 0, before = s->n;
    MPI_Allreduce(MPI_IN_PLACE, s->disturbed, (int) s->n, MPI_INT, MPI_MAX, bench.ctl);
    for (size_t i = 0; i < s->n; ++i) {
        kept += !s->disturbed[i];
    }
    if (kept < FEWEST) {
        return 0;
    }
    s->n = 0;
    for (size_t i = 0; i < before; ++i) {
        if (!s->disturbed[i]) {
            s->us[s->n] = s->us[i];
            s->wait[s->n++] = s->wait[i];
        }
    }
    return before - s->n;
}

/* Whether the measured side wants another round; both sides ask at the same time. */
static bool agreed(int measured_rank, bool more)
{
    int go = more;
    MPI_Bcast(&go, 1, MPI_INT, measured_rank, bench.ctl);
    return go;
}

static void run_case(struct one_case *c, int iterations, double factor, double seconds)
{
    int measured_rank = SIDE_SEND == c->side ? 0 : 1;
    c->measured = bench.rank == measured_rank;
    c->early = (SENDER_FIRST == c->order) == (0 == bench.rank);
    double warm[WARM], comm_us, compute_us, total_us, wait_us;
    size_t n, omitted;
    struct series series[KINDS];
    for (int k = 0; k < KINDS; ++k) {
        series[k].us = calloc((size_t) iterations, sizeof(double));
        series[k].wait = calloc((size_t) iterations, sizeof(double));
        series[k].disturbed = calloc((size_t) iterations, sizeof(int));
    }

    for (int i = 0; i < WARM; ++i) {
        warm[i] = transfer(c, 0).total;
    }
    double expected = stat_median(warm, WARM);
    int attempt = 0;
    do {
        uint64_t steps = bench_steps(factor * (expected > shortest_us ? expected : shortest_us));
        for (int i = 0; i < WARM_PAIRS; ++i) {
            transfer(c, steps);
        }
        double until = bench_now() + seconds * 1e6;
        series[COMM].n = series[COMPUTE].n = series[TOTAL].n = n = 0;
        do {
            series_add(&series[COMM], transfer(c, 0));
            series_add(&series[COMPUTE], computation(c, steps));
            series_add(&series[TOTAL], transfer(c, steps));
            ++n;
        } while (agreed(measured_rank, n < (size_t) iterations && (n < FEWEST || bench_now() < until)));
        omitted = series_clean(&series[COMM]) + series_clean(&series[COMPUTE]) + series_clean(&series[TOTAL]);
        comm_us = stat_median(series[COMM].us, series[COMM].n);
        compute_us = stat_median(series[COMPUTE].us, series[COMPUTE].n);
        total_us = stat_median(series[TOTAL].us, series[TOTAL].n);
        wait_us = stat_median(series[TOTAL].wait, series[TOTAL].n);
        /* The machine was faster or slower meanwhile. */
        expected = comm_us;
    } while (agreed(measured_rank, ++attempt < ATTEMPTS && compute_us < enough * comm_us && factor >= enough));

    double ratio = overlap_ratio(comm_us, compute_us, total_us);
    double *raw = series[TOTAL].us;
    for (size_t i = 0; i < series[TOTAL].n; ++i) {
        raw[i] = overlap_ratio(comm_us, compute_us, raw[i]);
    }
    double result[] = {comm_us, compute_us, total_us, wait_us, ratio, stat_quantile(raw, series[TOTAL].n, 0.25),
                       stat_quantile(raw, series[TOTAL].n, 0.75)};
    bench_to_rank0(measured_rank, result, 7);
    long errors = bench_errors();
    if (0 == bench.rank) {
        printf("overlap size=%zu order=%s side=%s comm_us=%.2f compute_us=%.2f total_us=%.2f wait_us=%.2f "
               "overlap=%.3f raw=%.3f q1=%.3f q3=%.3f iterations=%zu omitted=%zu errors=%ld\n",
               c->size, orders[c->order], sides[c->side], result[0], result[1], result[2], result[3],
               overlap_shown(result[4]), result[4], result[5], result[6], n, omitted, errors);
        fflush(stdout);
    }
    for (int k = 0; k < KINDS; ++k) {
        free(series[k].us);
        free(series[k].wait);
        free(series[k].disturbed);
    }
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, true);
    size_t sizes[BENCH_SIZES];
    int n = bench_sizes("--sizes", "64K,128K,256K,512K,1M,2M,4M", sizes);
    int order = bench_choice("--order", 2, orders), side = bench_choice("--side", 2, sides);
    int iterations = (int) bench_number("--iterations", 50, 1);
    double seconds = (double) bench_number("--milliseconds", 1500, 1) / 1000.0; /* of a case, on a busy machine */
    double factor = (double) bench_number("--compute-percent", 200, 1) / 100.0;
    bench_options_end();

    struct one_case c = {.key = 1};
    for (int i = 0; i < n; ++i) {
        c.size = sizes[i];
        c.buffer = bench_buffer(c.size);
        for (c.side = SIDE_RECEIVE; c.side <= SIDE_SEND; ++c.side) {
            for (c.order = RECEIVER_FIRST; c.order <= SENDER_FIRST; ++c.order) {
                if ((2 == side || c.side == side) && (2 == order || c.order == order)) {
                    run_case(&c, iterations, factor, seconds);
                }
            }
        }
        free(c.buffer);
    }
    return bench_finish();
}
