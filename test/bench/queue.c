/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Ping-pong of 8 bytes while N other receives are posted, or N other messages unexpected, at rank 1.
 *
 * The N entries never match the ping: they have other tags, or (sources=many) come in turn from every rank, rank 1
 * itself included. The receive of the ping is posted after them and before the ping can arrive; it names source and
 * tag (exact), or is a wildcard (any-source; any-tag). Afterwards the N are matched and their contents checked, so that
 * each depth starts from an empty queue. Depths take turns in every round.
 *
 * A line per case:  queue kind= receive= sources= depth= us= min_us= ratio= rounds= noisy= errors=
 * us = half a round trip, median over the rounds in which no process lost its processor (noisy=1: over all of them); ratio = us / us of the first depth of the same case (0). */
#include "bench.h"

enum { TAG_PING = 1, TAG_PONG = 2, TAG_FIRST = 1000, CASES = 6 };

enum kind { POSTED, UNEXPECTED };
enum receive { EXACT, ANY_SOURCE, ANY_TAG };
static const char *const kinds[] = {"posted", "unexpected", "both", NULL};
static const char *const receives[] = {"exact", "any-source", "any-tag"};

static const struct queue_case {
    enum kind kind;
    enum receive receive;
    bool many; /* sources */
} cases[CASES] = {
    {POSTED, EXACT, false},       {POSTED, EXACT, true},       {POSTED, ANY_SOURCE, false},
    {POSTED, ANY_TAG, false},     {UNEXPECTED, EXACT, false}, {UNEXPECTED, ANY_SOURCE, false},
};

static int deepest;
static MPI_Request *requests;
static uint64_t *values;

static int source_of(const struct queue_case *c, int i)
{
    return c->many ? i % bench.size : 0;
}

static uint64_t content(int i)
{
    return bench_word(4711, (size_t) i);
}

static void post(const struct queue_case *c, int depth)
{
    for (int i = 0; i < depth; ++i) {
        values[i] = 0;
        MPI_Irecv(&values[i], 8, MPI_BYTE, source_of(c, i), TAG_FIRST + i, bench.comm, &requests[i]);
    }
}

static void send_all(const struct queue_case *c, int depth)
{
    for (int i = 0; i < depth; ++i) {
        if (source_of(c, i) == bench.rank) {
            uint64_t value = content(i);
            MPI_Send(&value, 8, MPI_BYTE, 1, TAG_FIRST + i, bench.comm);
        }
    }
}

static void build(const struct queue_case *c, int depth)
{
    if (POSTED == c->kind) {
        if (1 == bench.rank) {
            post(c, depth);
        }
    } else if (depth > 0) {
        send_all(c, depth);
        if (1 == bench.rank) {
            /* Messages of one source are taken in order: with the last one, all are in the queue. */
            MPI_Probe(0, TAG_FIRST + depth - 1, bench.comm, MPI_STATUS_IGNORE);
        }
    }
    MPI_Barrier(bench.ctl);
}

static void take_down(const struct queue_case *c, int depth)
{
    MPI_Barrier(bench.ctl);
    if (POSTED == c->kind) {
        send_all(c, depth);
    } else if (1 == bench.rank) {
        post(c, depth);
    }
    if (1 == bench.rank) {
        MPI_Waitall(depth, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < depth; ++i) {
            bench.errors += values[i] != content(i);
        }
    }
}

static void post_ping(const struct queue_case *c, uint64_t *ping, MPI_Request *request)
{
    MPI_Irecv(ping, 8, MPI_BYTE, ANY_SOURCE == c->receive ? MPI_ANY_SOURCE : 0,
              ANY_TAG == c->receive ? MPI_ANY_TAG : TAG_PING, bench.comm, request);
}

static double half_round_trip(const struct queue_case *c, int times)
{
    uint64_t ping = 0, pong = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    if (1 == bench.rank) {
        post_ping(c, &ping, &request);
    }
    MPI_Barrier(bench.ctl);
    double start = bench_now();
    for (int i = 0; i < times && bench.rank < 2; ++i) {
        if (0 == bench.rank) {
            ping = content(i);
            MPI_Send(&ping, 8, MPI_BYTE, 1, TAG_PING, bench.comm);
            MPI_Recv(&pong, 8, MPI_BYTE, 1, TAG_PONG, bench.comm, MPI_STATUS_IGNORE);
            bench.errors += pong != content(i) + 1;
        } else {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            pong = ping + 1;
            if (i + 1 < times) {
                post_ping(c, &ping, &request);
            }
            MPI_Send(&pong, 8, MPI_BYTE, 0, TAG_PONG, bench.comm);
        }
    }
    return (bench_now() - start) / (2.0 * times);
}

static void run_case(const struct queue_case *c, int rounds, int times, const size_t *depths, int n)
{
    size_t all = (size_t) rounds;
    double *us = calloc((size_t) n * all, sizeof(double));
    int *disturbed = calloc((size_t) n * all, sizeof(int));
    for (int r = -1; r < rounds; ++r) { /* the first one is the warm-up */
        for (int d = 0; d < n; ++d) {
            build(c, (int) depths[d]);
            half_round_trip(c, times / 10 + 1);
            long preemptions = bench_preemptions();
            double t = half_round_trip(c, times);
            bool lost = bench_preemptions() != preemptions;
            take_down(c, (int) depths[d]);
            if (r >= 0) {
                us[(size_t) d * all + (size_t) r] = t;
                disturbed[(size_t) d * all + (size_t) r] = lost;
            }
        }
    }
    long errors = bench_errors();
    double empty = 0;
    for (int d = 0; d < n; ++d) {
        int noisy;
        double *mine = us + (size_t) d * all;
        size_t kept = bench_undisturbed(mine, disturbed + (size_t) d * all, all, &noisy);
        double median = stat_median(mine, kept);
        empty = 0 == d ? median : empty;
        if (0 == bench.rank) {
            printf("queue kind=%s receive=%s sources=%s depth=%zu us=%.4f min_us=%.4f ratio=%.3f rounds=%zu noisy=%d "
                   "errors=%ld\n",
                   kinds[c->kind], receives[c->receive], c->many ? "many" : "one", depths[d], median, mine[0],
                   median / empty, kept, noisy, errors);
            fflush(stdout);
        }
    }
    free(disturbed);
    free(us);
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, false);
    size_t depths[BENCH_SIZES];
    int n = bench_sizes("--depths", "0,1000,10000", depths);
    int kind = bench_choice("--kind", 2, kinds);
    int rounds = (int) bench_number("--rounds", 15, 1);
    int times = (int) bench_number("--round-trips", 100, 1);
    bench_options_end();
    for (int i = 0; i < n; ++i) {
        deepest = (int) depths[i] > deepest ? (int) depths[i] : deepest;
    }
    requests = calloc((size_t) deepest + 1, sizeof(requests[0]));
    values = calloc((size_t) deepest + 1, sizeof(values[0]));
    for (int i = 0; i < CASES; ++i) {
        if (2 == kind || cases[i].kind == (enum kind) kind) {
            run_case(&cases[i], rounds, times, depths, n);
        }
    }
    free(values);
    free(requests);
    return bench_finish();
}
