/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Time of one collective operation, each followed by a barrier: MPI_Bcast and MPI_Scatter (000, fig. 5.9), and the
 * MPI_Alltoallv of the bucket sort NAS IS (004, tables 4 and 5), MPI_Alltoall.
 *
 * --op bcast|scatter   --sizes: bytes that each process gets
 * --op alltoall        --sizes: bytes that each process sends to each
 * --op alltoallv       --classes S,W,A: bytes that each process sends to each, from the number of keys (overlap_math.h);
 *                      --uneven PERCENT: buckets differ by up to so much (5)
 *
 * A line per size:  collective op= np= class= size= us= slowest_us= repetitions= noisy= errors=
 * us = median over the repetitions of the mean over the processes; slowest_us = of the slowest process. The barrier is not
 * in it. Every byte that arrives is checked, in each repetition. */
#include "bench.h"

static const char *const ops[] = {"bcast", "scatter", "alltoallv", "alltoall", NULL};
enum { BCAST, SCATTER, ALLTOALLV, ALLTOALL };
enum { WARM = 3 };

/* NAS IS: numbers of keys. */
static const struct is_class {
    char name;
    unsigned log2_keys;
} classes[] = {{'S', 16}, {'W', 20}, {'A', 23}, {'B', 25}};

struct collective {
    int op, *counts_out, *places_out, *counts_in, *places_in;
    size_t size, in_bytes;
    unsigned uneven;
    char *out, *in;
};

static uint64_t key_of(int from, int to, uint64_t round)
{
    return ((uint64_t) from << 48) + ((uint64_t) to << 32) + round;
}

/* Each process sends to each. */
static bool is_exchange(const struct collective *c)
{
    return c->op >= ALLTOALLV;
}

static size_t bytes_between(const struct collective *c, int from, int to)
{
    return ALLTOALLV != c->op ? c->size
                              : is_uneven_bytes(c->size, (size_t) from, (size_t) to,
                                                (size_t) bench.size, c->uneven);
}

static void layout(struct collective *c)
{
    size_t out = 0, in = 0;
    for (int i = 0; i < bench.size; ++i) {
        const size_t to = bytes_between(c, bench.rank, i), from = bytes_between(c, i, bench.rank);
        c->counts_out[i] = (int) to;
        c->counts_in[i] = (int) from;
        c->places_out[i] = (int) out;
        c->places_in[i] = (int) in;
        out += ALLTOALL == c->op ? to : (to + 7) / 8 * 8;
        in += ALLTOALL == c->op ? from : (from + 7) / 8 * 8;
    }
    c->in_bytes = is_exchange(c) ? in : c->size;
    c->out = bench_buffer(out);
    c->in = bench_buffer(in);
}

static void prepare(struct collective *c, uint64_t round)
{
    bench_clear(c->in, c->in_bytes);
    for (int i = 0; i < bench.size; ++i) {
        if (is_exchange(c) || (SCATTER == c->op && 0 == bench.rank)) {
            bench_fill(c->out + c->places_out[i], (size_t) c->counts_out[i],
                       key_of(bench.rank, i, round));
        }
    }
    if (BCAST == c->op && 0 == bench.rank) {
        bench_fill(c->in, c->size, key_of(0, 0, round));
    }
}

static void verify(const struct collective *c, uint64_t round)
{
    if (!is_exchange(c)) {
        bench_verify(c->in, c->size, key_of(0, BCAST == c->op ? 0 : bench.rank, round));
        return;
    }
    for (int i = 0; i < bench.size; ++i) {
        bench_verify(c->in + c->places_in[i], (size_t) c->counts_in[i],
                     key_of(i, bench.rank, round));
    }
}

static double once(struct collective *c, uint64_t round)
{
    const int size = (int) c->size;
    prepare(c, round);
    MPI_Barrier(bench.comm);
    const double start = bench_now();
    if (BCAST == c->op) {
        MPI_Bcast(c->in, size, MPI_BYTE, 0, bench.comm);
    } else if (SCATTER == c->op) {
        MPI_Scatter(c->out, size, MPI_BYTE, c->in, size, MPI_BYTE, 0, bench.comm);
    } else if (ALLTOALL == c->op) {
        MPI_Alltoall(c->out, size, MPI_BYTE, c->in, size, MPI_BYTE, bench.comm);
    } else {
        MPI_Alltoallv(c->out, c->counts_out, c->places_out, MPI_BYTE, c->in, c->counts_in,
                      c->places_in, MPI_BYTE, bench.comm);
    }
    const double us = bench_now() - start;
    MPI_Barrier(bench.comm);
    verify(c, round);
    return us;
}

static void measure(struct collective *c, char class, int repetitions)
{
    double *mean = calloc((size_t) repetitions, sizeof(double)),
           *most = calloc((size_t) repetitions, sizeof(double));
    int *disturbed = calloc((size_t) repetitions, sizeof(int)),
        *again = calloc((size_t) repetitions, sizeof(int)), noisy;
    layout(c);
    for (int r = -WARM; r < repetitions; ++r) {
        const long preemptions = bench_preemptions();
        const double us = once(c, (uint64_t) (r + WARM));
        double sum, slowest;
        MPI_Allreduce(&us, &sum, 1, MPI_DOUBLE, MPI_SUM, bench.ctl);
        MPI_Allreduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, bench.ctl);
        if (r >= 0) {
            mean[r] = sum / bench.size;
            most[r] = slowest;
            disturbed[r] = again[r] = bench_preemptions() != preemptions;
        }
    }
    const size_t kept = bench_undisturbed(mean, disturbed, (size_t) repetitions, &noisy);
    bench_undisturbed(most, again, (size_t) repetitions, &noisy);
    const long errors = bench_errors();
    if (0 == bench.rank) {
        printf("collective op=%s np=%d class=%c size=%zu us=%.3f slowest_us=%.3f repetitions=%zu "
               "noisy=%d errors=%ld\n",
               ops[c->op], bench.size, class, c->size, stat_median(mean, kept),
               stat_median(most, kept), kept, noisy, errors);
        fflush(stdout);
    }
    free(c->in);
    free(c->out);
    free(again);
    free(disturbed);
    free(most);
    free(mean);
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, false);
    struct collective c = {.op = bench_choice("--op", BCAST, ops)};
    size_t sizes[BENCH_SIZES];
    const int n = bench_sizes("--sizes", "128,512,1K,2K,4K,8K", sizes);
    const char *wanted = bench_option("--classes", "W,A");
    const int repetitions = (int) bench_number("--repetitions", 40, 1);
    c.uneven = (unsigned) bench_number("--uneven", 5, 0);
    bench_options_end();
    int *counts = calloc(4 * (size_t) bench.size, sizeof(int));
    c.counts_out = counts;
    c.places_out = counts + bench.size;
    c.counts_in = counts + 2 * bench.size;
    c.places_in = counts + 3 * bench.size;
    for (int i = 0; ALLTOALLV != c.op && i < n; ++i) {
        c.size = sizes[i];
        measure(&c, '-', repetitions);
    }
    for (size_t i = 0; ALLTOALLV == c.op && i < sizeof(classes) / sizeof(classes[0]); ++i) {
        if (NULL != strchr(wanted, classes[i].name)) {
            c.size = is_message_bytes(classes[i].log2_keys, (size_t) bench.size);
            measure(&c, classes[i].name, repetitions);
        }
    }
    free(counts);
    return bench_finish();
}
