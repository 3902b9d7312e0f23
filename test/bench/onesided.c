/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* One-sided operations between ranks 0 and 1, each followed by MPI_Win_fence (000, fig. 5.7 and 5.8).
 *
 * --reuse full      one local buffer for all operations (fig. 5.7)
 * --reuse spectrum  buffers 1 to --buffers, on pages of their own; buffer i is used i times, in an order drawn from a seed
 *                   (fig. 5.8)
 *
 * A line per operation and size:  onesided op= reuse= size= us= repetitions= noisy= errors=
 * us = one operation with its fence: median over the repetitions of the mean within one. The fence alone is op=fence, size 0. */
#include "bench.h"

static const char *const ops[] = {"put", "get", "fence", NULL};
static const char *const reuses[] = {"full", "spectrum", NULL};
enum { PUT, GET, FENCE, OPS };
enum { FULL, SPECTRUM };
enum { WARM = 2, FULL_USES = 200, PAGE = 4096 };

static MPI_Win win;
static char *target, *local;
static size_t place;
static int *order, uses;

/* Which buffer each operation has. */
static void make_order(int reuse, int buffers)
{
    uses = FULL == reuse ? FULL_USES : buffers * (buffers + 1) / 2;
    order = calloc((size_t) uses, sizeof(int));
    if (FULL == reuse) {
        return;
    }
    int n = 0;
    for (int i = 0; i < buffers; ++i) {
        for (int k = 0; k <= i; ++k) {
            order[n++] = i;
        }
    }
    uint64_t seed = 1;
    for (int i = n - 1; i > 0; --i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int j = (int) ((seed >> 33) % (uint64_t) (i + 1)), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

static double operations(int op, size_t size, uint64_t key)
{
    char *last = local + (size_t) order[uses - 1] * place;
    if (0 == bench.rank) {
        bench_clear(last, size);
        if (PUT == op) {
            bench_fill(last, size, key);
        }
    } else if (PUT == op) {
        bench_clear(target, size);
    } else {
        bench_fill(target, size, key);
    }
    MPI_Barrier(bench.ctl);
    MPI_Win_fence(0, win);
    const double start = bench_now();
    for (int i = 0; i < uses; ++i) {
        char *buffer = local + (size_t) order[i] * place;
        if (0 == bench.rank && PUT == op) {
            MPI_Put(buffer, (int) size, MPI_BYTE, 1, 0, (int) size, MPI_BYTE, win);
        } else if (0 == bench.rank && GET == op) {
            MPI_Get(buffer, (int) size, MPI_BYTE, 1, 0, (int) size, MPI_BYTE, win);
        }
        MPI_Win_fence(0, win);
    }
    const double us = (bench_now() - start) / uses;
    if (FENCE != op && (PUT == op) == (1 == bench.rank)) {
        bench_verify(PUT == op ? target : last, size, key);
    }
    return us;
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, true);
    size_t sizes[BENCH_SIZES], largest = 0;
    const int n = bench_sizes("--sizes", "128,512,1K,2K,4K,8K", sizes);
    const int reuse = bench_choice("--reuse", FULL, reuses);
    const int buffers = (int) bench_number("--buffers", 40, 1);
    const int repetitions = (int) bench_number("--repetitions", 15, 1);
    bench_options_end();
    for (int i = 0; i < n; ++i) {
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    make_order(reuse, buffers);
    place = (largest + 2 * PAGE - 1) / PAGE * PAGE;
    local = bench_buffer(place * (size_t) (FULL == reuse ? 1 : buffers));
    target = bench_buffer(largest);
    MPI_Win_create(target, (MPI_Aint) largest, 1, MPI_INFO_NULL, bench.comm, &win);
    double *us = calloc((size_t) repetitions, sizeof(double));
    int *disturbed = calloc((size_t) repetitions, sizeof(int)), noisy;
    for (int op = PUT; op < OPS; ++op) {
        for (int i = 0; i < (FENCE == op ? 1 : n); ++i) {
            const size_t size = FENCE == op ? 0 : sizes[i];
            for (int r = -WARM; r < repetitions; ++r) {
                const long preemptions = bench_preemptions();
                const double t = operations(
                    op, size, ((uint64_t) (op * BENCH_SIZES + i) << 32) + (uint64_t) (r + WARM));
                if (r >= 0) {
                    us[r] = t;
                    disturbed[r] = bench_preemptions() != preemptions;
                }
            }
            const size_t kept = bench_undisturbed(us, disturbed, (size_t) repetitions, &noisy);
            const long errors = bench_errors();
            if (0 == bench.rank) {
                printf("onesided op=%s reuse=%s size=%zu us=%.3f repetitions=%zu noisy=%d "
                       "errors=%ld\n",
                       ops[op], reuses[reuse], size, stat_median(us, kept), kept, noisy, errors);
                fflush(stdout);
            }
        }
    }
    free(disturbed);
    free(us);
    MPI_Win_free(&win);
    free(target);
    free(local);
    free(order);
    return bench_finish();
}
