/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Time of a message and a computation together, over the length of the computation (004, fig. 7 and 8, table 3).
 *
 * One side makes its nonblocking call, is busy, and waits; the other calls and waits at once. busy: 'fixed' computes in
 * registers; 'daxpy' does y = a x + y on vectors as long as the message, and so needs the memory that the message needs.
 *
 * A line per case:  spin kind= side= size= busy_us= l_busy= l_msg= l_overlap= efficiency= saturated= iterations= noisy= errors=
 * busy_us = what was asked for; l_busy, l_overlap = medians of the computation alone and of both; l_msg = least time of the
 * message alone, as the paper has it; efficiency = its equation (3) ('nan' with nothing to compute); saturated = 1 if l_busy
 * exceeds l_msg, the case of table 3.
 *
 * Departures: the receive is always called before the send (a token, see bench.h), which the paper leaves to chance; the paper
 * has one side, the sender's; one thread is busy. */
#include "bench.h"

static const char *const kinds[] = {"fixed", "daxpy", NULL};
static const char *const sides[] = {"receive", "send", "both", NULL};
enum { FIXED, DAXPY };
enum { RECEIVE, SEND };
enum { TAG = 7, WARM = 5 };

static double *x, *y;
static size_t doubles;

/* So many DAXPY operations, from the beginning of the vectors again and again. */
__attribute__((noinline)) static void daxpy(uint64_t operations)
{
    const double a = 1.0 / 1024;
    for (uint64_t done = 0; done < operations;) {
        const uint64_t left = operations - done, now = left < doubles ? left : doubles;
        for (uint64_t i = 0; i < now; ++i) {
            y[i] = a * x[i] + y[i];
        }
        __asm__ volatile("" ::: "memory");
        done += now;
    }
}

struct one_case {
    size_t size;
    int kind, side;
    bool measured;
    char *buffer;
    uint64_t key, work; /* work: steps or operations */
};

static void be_busy(const struct one_case *c)
{
    if (DAXPY == c->kind) {
        daxpy(c->work);
    } else {
        bench_compute(c->work);
    }
}

static double transfer(struct one_case *c, bool busy)
{
    MPI_Request request;
    const uint64_t key = c->key++;
    if (0 == bench.rank) {
        bench_fill(c->buffer, c->size, key);
    } else {
        bench_clear(c->buffer, c->size);
    }
    MPI_Barrier(bench.ctl);
    if (0 == bench.rank) {
        bench_await();
    }
    const double start = bench_now();
    if (0 == bench.rank) {
        MPI_Isend(c->buffer, (int) c->size, MPI_BYTE, 1, TAG, bench.comm, &request);
    } else {
        MPI_Irecv(c->buffer, (int) c->size, MPI_BYTE, 0, TAG, bench.comm, &request);
        bench_tell();
    }
    if (busy && c->measured) {
        be_busy(c);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    const double us = bench_now() - start;
    if (1 == bench.rank) {
        bench_verify(c->buffer, c->size, key);
    }
    return us;
}

static double alone(struct one_case *c)
{
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    if (c->measured) {
        be_busy(c);
    }
    return bench_now() - start;
}

static double daxpy_per_us(void)
{
    enum { TIMES = 9 };
    double us[TIMES];
    for (int i = 0; i < TIMES; ++i) {
        const double start = bench_now();
        daxpy(4 * doubles);
        us[i] = bench_now() - start;
    }
    return 4.0 * (double) doubles / stat_median(us, TIMES);
}

static void run_case(struct one_case *c, double busy_us, double per_us, int iterations)
{
    enum { MSG, BUSY, BOTH, KINDS };
    const int measured_rank = SEND == c->side ? 0 : 1;
    double *us[KINDS], middle[KINDS];
    int *disturbed = calloc((size_t) iterations, sizeof(int)), noisy = 0;
    size_t kept = 0;
    c->measured = bench.rank == measured_rank;
    c->work = DAXPY == c->kind ? (uint64_t) (busy_us * per_us) : bench_steps(busy_us);
    for (int k = 0; k < KINDS; ++k) {
        us[k] = calloc((size_t) iterations, sizeof(double));
    }
    for (int i = -WARM; i < iterations; ++i) {
        const long preemptions = bench_preemptions();
        const double t[KINDS] = {
            [MSG] = transfer(c, false), [BUSY] = alone(c), [BOTH] = transfer(c, true)};
        for (int k = 0; i >= 0 && k < KINDS; ++k) {
            us[k][i] = t[k];
            disturbed[i] = bench_preemptions() != preemptions;
        }
    }
    for (int k = 0; k < KINDS; ++k) {
        int *mine = calloc((size_t) iterations, sizeof(int));
        memcpy(mine, disturbed, (size_t) iterations * sizeof(int));
        kept = bench_undisturbed(us[k], mine, (size_t) iterations, &noisy);
        middle[k] = stat_quantile(us[k], kept, MSG == k ? 0.0 : 0.5);
        free(mine);
        free(us[k]);
    }
    double result[] = {middle[BUSY], middle[MSG], middle[BOTH]};
    bench_to_rank0(measured_rank, result, 3);
    const long errors = bench_errors();
    if (0 == bench.rank) {
        printf("spin kind=%s side=%s size=%zu busy_us=%.0f l_busy=%.3f l_msg=%.3f l_overlap=%.3f "
               "efficiency=%.3f saturated=%d "
               "iterations=%zu noisy=%d errors=%ld\n",
               kinds[c->kind], sides[c->side], c->size, busy_us, result[0], result[1], result[2],
               busy_us > 0 ? overlap_efficiency(result[0], result[1], result[2]) : NAN,
               result[0] > result[1], kept, noisy, errors);
        fflush(stdout);
    }
    free(disturbed);
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, true);
    size_t sizes[BENCH_SIZES], busy[BENCH_SIZES];
    const int n = bench_sizes("--sizes", "64K,256K", sizes);
    const int b = bench_sizes("--busy", "0,10,20,40,80", busy); /* us */
    const int kind = bench_choice("--kind", FIXED, kinds), side = bench_choice("--side", 2, sides);
    const int iterations = (int) bench_number("--iterations", 40, 1);
    bench_options_end();
    for (int i = 0; i < n; ++i) {
        struct one_case c = {
            .size = sizes[i], .kind = kind, .buffer = bench_buffer(sizes[i]), .key = 1};
        doubles = sizes[i] / sizeof(double) + 1;
        x = bench_buffer(doubles * sizeof(double));
        y = bench_buffer(doubles * sizeof(double));
        memset(x, 0, doubles * sizeof(double));
        memset(y, 0, doubles * sizeof(double));
        const double per_us = daxpy_per_us();
        for (c.side = RECEIVE; c.side <= SEND; ++c.side) {
            for (int j = 0; (2 == side || c.side == side) && j < b; ++j) {
                run_case(&c, (double) busy[j], per_us, iterations);
            }
        }
        free(y);
        free(x);
        free(c.buffer);
    }
    return bench_finish();
}
