/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Several connections that are busy at the same time (000, section 3.4 and fig. 3.5 to 3.9, 6.5).
 *
 * --shape pairs   ranks 0 and 1, 2 and 3, ... exchange: each pair is a connection
 * --shape star    rank 0 exchanges with each of the others: one process with many connections
 * --mode lat      ping-pong on all connections at once
 * --mode both     both sides post a window of receives, then a window of sends, on all connections
 * --mode opposite (pairs) the first pair sends one way, the second the other way, ... (fig. 6.5)
 *
 * A line per size:  pairs shape= mode= connections= size= us= normalized_us= mb_s= repetitions= noisy= errors=
 * lat: us = half a round trip, mean over the connections; normalized_us = that divided by their number. In a star the
 * center goes round them, so that us = half the time of one round on all. both, opposite: us = time of a window on all
 * connections, mb_s = all their bytes in that time, by the slowest process. Medians over the repetitions. With more
 * processes than processors every value is 'noisy'. */
#include "bench.h"

static const char *const shapes[] = {"pairs", "star", NULL};
static const char *const modes[] = {"lat", "both", "opposite", NULL};
enum { PAIRS, STAR };
enum { LAT, BOTH, OPPOSITE };
enum { TAG = 3, WARM = 3 };

struct side {
    int mode, window, peers;
    int *peer;
    bool first; /* begins a ping-pong; sends, where only one does */
    size_t place;
    char *out, *in; /* in: peers * window places */
    MPI_Request *requests;
    int pending;
};

static void side_init(struct side *s, int shape)
{
    s->peers = STAR == shape && 0 == bench.rank ? bench.size - 1 : 1;
    s->peer = calloc((size_t) s->peers, sizeof(int));
    for (int i = 0; i < s->peers; ++i) {
        s->peer[i] = PAIRS == shape ? bench.rank ^ 1 : 0 == bench.rank ? i + 1 : 0;
    }
    s->first = PAIRS == shape ? 0 == bench.rank % 2 : 0 == bench.rank;
    if (OPPOSITE == s->mode && 1 == bench.rank / 2 % 2) {
        s->first = !s->first;
    }
}

/* A message's content: who sent it, and in which repetition. */
static uint64_t key_of(int rank, uint64_t round)
{
    return ((uint64_t) rank << 40) + round;
}

static bool sends(const struct side *s)
{
    return OPPOSITE != s->mode || s->first;
}
static bool receives(const struct side *s)
{
    return OPPOSITE != s->mode || !s->first;
}

static void post_receives(struct side *s, size_t size)
{
    for (int p = 0; p < s->peers; ++p) {
        for (int w = 0; w < s->window; ++w) {
            MPI_Irecv(s->in + (size_t) (p * s->window + w) * s->place, (int) size, MPI_BYTE,
                      s->peer[p], TAG, bench.comm, &s->requests[s->pending++]);
        }
    }
}

static void post_sends(struct side *s, size_t size)
{
    for (int w = 0; w < s->window; ++w) {
        for (int p = 0; p < s->peers; ++p) {
            MPI_Isend(s->out, (int) size, MPI_BYTE, s->peer[p], TAG, bench.comm,
                      &s->requests[s->pending++]);
        }
    }
}

static void wait_all(struct side *s)
{
    MPI_Waitall(s->pending, s->requests, MPI_STATUSES_IGNORE);
    s->pending = 0;
}

/* Time of so many rounds: of ping-pongs, or of windows. */
static double rounds(struct side *s, size_t size, int n, uint64_t key)
{
    bench_fill(s->out, size, key_of(bench.rank, key));
    bench_clear(s->in, s->place * (size_t) (s->peers * s->window));
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    for (int i = 0; i < n; ++i) {
        if (LAT != s->mode || s->first) {
            if (receives(s)) {
                post_receives(s, size);
            }
            if (sends(s)) {
                post_sends(s, size);
            }
            wait_all(s);
        } else {
            post_receives(s, size);
            wait_all(s);
            post_sends(s, size);
            wait_all(s);
        }
    }
    const double us = bench_now() - start;
    for (int i = 0; receives(s) && i < s->peers * s->window; ++i) {
        bench_verify(s->in + (size_t) i * s->place, size, key_of(s->peer[i / s->window], key));
    }
    return us;
}

/* One value for all processes: the mean of the first sides' half round trips, or the slowest process' window. */
static double of_all(const struct side *s, double us, int n, int firsts)
{
    double all;
    if (LAT == s->mode) {
        us = s->first ? us_per_half_trip(us, n) / firsts : 0;
    } else {
        us /= n;
    }
    MPI_Allreduce(&us, &all, 1, MPI_DOUBLE, LAT == s->mode ? MPI_SUM : MPI_MAX, bench.ctl);
    return all;
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, false);
    size_t sizes[BENCH_SIZES], largest = 0;
    const int shape = bench_choice("--shape", PAIRS, shapes);
    struct side s = {.mode = bench_choice("--mode", LAT, modes)};
    const int n = bench_sizes("--sizes", LAT == s.mode ? "8,1K,4K" : "4K,64K,256K", sizes);
    const int repetitions = (int) bench_number("--repetitions", 20, 1);
    const int inner = (int) bench_number("--inner", LAT == s.mode ? 50 : 2, 1);
    s.window = LAT == s.mode ? 1 : (int) bench_number("--window", 16, 1);
    bench_options_end();
    if (PAIRS == shape && 0 != bench.size % 2) {
        bench_usage("pairs need an even number of processes");
    }
    if (OPPOSITE == s.mode && (PAIRS != shape || 0 != bench.size % 4)) {
        bench_usage("'opposite' needs pairs, and an even number of them");
    }
    const int connections = PAIRS == shape ? bench.size / 2 : bench.size - 1;
    for (int i = 0; i < n; ++i) {
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    side_init(&s, shape);
    s.place = (largest + 15) / 8 * 8;
    s.out = bench_buffer(largest);
    s.in = bench_buffer(s.place * (size_t) (s.peers * s.window));
    s.requests = calloc((size_t) (2 * s.peers * s.window), sizeof(MPI_Request));
    double *us = calloc((size_t) repetitions, sizeof(us[0]));
    int *disturbed = calloc((size_t) repetitions, sizeof(disturbed[0]));

    for (int i = 0; i < n; ++i) {
        for (int r = -WARM; r < repetitions; ++r) {
            const long preemptions = bench_preemptions();
            const double t = of_all(
                &s, rounds(&s, sizes[i], inner, ((uint64_t) i << 32) + (uint64_t) (r + WARM)),
                inner, PAIRS == shape ? connections : 1);
            if (r >= 0) {
                us[r] = t;
                disturbed[r] = bench_preemptions() != preemptions;
            }
        }
        int noisy;
        const size_t kept = bench_undisturbed(us, disturbed, (size_t) repetitions, &noisy);
        const double median = stat_median(us, kept);
        const long errors = bench_errors();
        if (0 == bench.rank) {
            printf("pairs shape=%s mode=%s connections=%d size=%zu us=%.4f ", shapes[shape],
                   modes[s.mode], connections, sizes[i], median);
            if (LAT == s.mode) {
                printf("normalized_us=%.4f ", latency_per_connection(median, connections));
            } else {
                const double messages = (double) connections * s.window * (BOTH == s.mode ? 2 : 1);
                printf("mb_s=%.1f ", mb_per_s(messages * (double) sizes[i], median));
            }
            printf("repetitions=%zu noisy=%d errors=%ld\n", kept, noisy, errors);
            fflush(stdout);
        }
    }
    free(disturbed);
    free(us);
    free(s.requests);
    free(s.in);
    free(s.out);
    free(s.peer);
    return bench_finish();
}
