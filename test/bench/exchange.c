/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The core of many simulations: produce data, exchange them with one or two neighbours in a ring, consume what came
 * (fig. 4.15 and 4.16 of the thesis, test/bench/README.md).
 *
 * model 1: receive, pack, send, produce the next, wait, consume. Receives are posted before the sends.
 * model 2: pack, send, consume the previous, receive, produce the next, wait. Sends come before the receives.
 * The time of the exchange alone is measured first (no computation); produce and consume then take the same time each, so
 * that exchange : computation = comm_percent : 100 (0: no computation). '--comm-us LIST' gives that time for each size, so
 * that programs which are compared compute the same. Computing is work in registers; packing copies for real.
 *
 * A line per case:  exchange model= neighbours= size= comm_percent= iteration_us= min_us= wait_us= comm_us= compute_us=
 *                   repetitions= noisy= errors=
 * iteration_us = time of an iteration, wait_us = of it in MPI_Wait for sends and receives: medians over the repetitions
 * of the mean over processes and iterations; comm_us = an iteration without computation, of the same model.
 * Departures from the thesis: its figure leaves open whether packing counts as communication, here it does. The ratio there
 * is to the communication time of each protocol's own run or of one of them (it does not say); the driver gives one. */
#include "bench.h"

enum { TAG_UP = 1, TAG_DOWN = 2, MOST = 2, STRIDE = 512, WARM = 2, ATTEMPTS = 2 };

/* Of a repetition's time the hypervisor may give this part to others, else it is disturbed. A thread of the transport's that
 * takes the processor from the computation is no disturbance: it is of what is compared. */
static const double STOLEN_MOST = 0.02;

struct ring {
    int neighbours, to[MOST], send_tag[MOST], receive_tag[MOST];
    size_t size;
    char *made, *out[MOST], *in[MOST];
};

struct times {
    double iteration, wait;
};

/* What makes one iteration's data recognisable: a word in each page; the rest is checked at the end. */
static void mark(char *data, size_t size, uint64_t key)
{
    uint64_t *words = (uint64_t *) data;
    for (size_t i = 0; i < size / 8; i += STRIDE) {
        words[i] = bench_word(key, i);
    }
}

static void check_marks(const char *data, size_t size, uint64_t key)
{
    const uint64_t *words = (const uint64_t *) data;
    for (size_t i = 0; i < size / 8; i += STRIDE) {
        bench.errors += words[i] != bench_word(key, i);
    }
}

static uint64_t key_of(int rank, int iteration)
{
    return ((uint64_t) rank << 32) + (uint64_t) iteration;
}

static void produce(struct ring *r, int iteration, uint64_t steps)
{
    bench_compute(steps);
    mark(r->made, r->size, key_of(bench.rank, iteration));
}

static void consume(struct ring *r, int iteration, uint64_t steps)
{
    for (int i = 0; i < r->neighbours; ++i) {
        check_marks(r->in[i], r->size, key_of(r->to[i], iteration));
    }
    bench_compute(steps);
}

static void receive(struct ring *r, MPI_Request *requests)
{
    for (int i = 0; i < r->neighbours; ++i) {
        MPI_Irecv(r->in[i], (int) r->size, MPI_BYTE, r->to[i], r->receive_tag[i], bench.comm,
                  &requests[i]);
    }
}

static void pack(struct ring *r)
{
    for (int i = 0; i < r->neighbours; ++i) {
        memcpy(r->out[i], r->made, r->size);
    }
}

static void send(struct ring *r, MPI_Request *requests)
{
    for (int i = 0; i < r->neighbours; ++i) {
        MPI_Isend(r->out[i], (int) r->size, MPI_BYTE, r->to[i], r->send_tag[i], bench.comm,
                  &requests[i]);
    }
}

static double wait_for(struct ring *r, MPI_Request *sends, MPI_Request *receives)
{
    double start = bench_now();
    MPI_Waitall(r->neighbours, sends, MPI_STATUSES_IGNORE);
    MPI_Waitall(r->neighbours, receives, MPI_STATUSES_IGNORE);
    return bench_now() - start;
}

static struct times run_model(struct ring *r, int model, int iterations, uint64_t steps,
                              int *disturbed)
{
    MPI_Request sends[MOST], receives[MOST];
    struct times t = {.wait = 0};
    for (int i = 0; i < r->neighbours; ++i) {
        bench_clear(r->in[i], r->size);
    }
    bench_fill(r->made, r->size, 99);
    const double stolen = bench_stolen_us();
    /* What the first iteration sends is not of it: each produces for the next one. */
    produce(r, 0, steps);
    MPI_Barrier(bench.ctl);
    double start = bench_now();
    for (int i = 0; i < iterations; ++i) {
        if (1 == model) {
            receive(r, receives);
            pack(r);
            send(r, sends);
            produce(r, i + 1, steps);
            t.wait += wait_for(r, sends, receives);
            consume(r, i, steps);
        } else {
            pack(r);
            send(r, sends);
            if (i > 0) {
                consume(r, i - 1, steps);
            }
            receive(r, receives);
            produce(r, i + 1, steps);
            t.wait += wait_for(r, sends, receives);
        }
    }
    if (2 == model) {
        consume(r, iterations - 1, steps);
    }
    t.iteration = (bench_now() - start) / iterations;
    t.wait /= iterations;
    *disturbed = bench_stolen_us() - stolen > STOLEN_MOST * t.iteration * iterations;
    /* Every word of the last message. */
    for (int i = 0; i < r->neighbours; ++i) {
        bench_fill(r->out[i], r->size, 99);
        mark(r->out[i], r->size, key_of(r->to[i], iterations - 1));
        bench.errors += 0 != memcmp(r->out[i], r->in[i], r->size);
    }
    double mean[2] = {t.iteration / bench.size, t.wait / bench.size};
    MPI_Allreduce(MPI_IN_PLACE, mean, 2, MPI_DOUBLE, MPI_SUM, bench.ctl);
    return (struct times){.iteration = mean[0], .wait = mean[1]};
}

struct result {
    double iteration, best, wait;
    size_t kept;
    int noisy;
};

static struct result repeat(struct ring *r, int model, int iterations, int repetitions,
                            uint64_t steps)
{
    size_t most = (size_t) (ATTEMPTS * repetitions), n = 0;
    double *us = calloc(most, sizeof(double)), *wait = calloc(most, sizeof(double));
    int *disturbed = calloc(most, sizeof(int)), *again = calloc(most, sizeof(int));
    for (int i = 0; i < WARM; ++i) {
        (void) run_model(r, model, iterations, steps, &disturbed[0]);
    }
    for (int good = 0; n < most && good < repetitions; ++n) {
        struct times t = run_model(r, model, iterations, steps, &disturbed[n]);
        us[n] = t.iteration;
        wait[n] = t.wait;
        MPI_Allreduce(MPI_IN_PLACE, &disturbed[n], 1, MPI_INT, MPI_MAX, bench.ctl);
        good += 0 == disturbed[n];
    }
    struct result result;
    memcpy(again, disturbed, n * sizeof(int));
    result.kept = bench_undisturbed(us, disturbed, n, &result.noisy);
    result.iteration = stat_median(us, result.kept);
    result.best = us[0];
    bench_undisturbed(wait, again, n, &result.noisy);
    result.wait = stat_median(wait, result.kept);
    free(again);
    free(disturbed);
    free(wait);
    free(us);
    return result;
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, false);
    size_t sizes[BENCH_SIZES], percents[BENCH_SIZES];
    int n = bench_sizes("--sizes", "128K,1M", sizes);
    int p = bench_sizes("--percent", "20,50,100,200", percents);
    size_t given[BENCH_SIZES];
    int g = bench_sizes("--comm-us", "0", given);
    int neighbours = (int) bench_number("--neighbours", bench.size > 2 ? 2 : 1, 1);
    int model_only = (int) bench_number("--model", 0, 0);
    int iterations = (int) bench_number("--iterations", 5, 1);
    int repetitions = (int) bench_number("--repetitions", 60, 1);
    bench_options_end();
    if (neighbours > MOST || model_only > 2 || (1 == neighbours && 0 != bench.size % 2)) {
        bench_usage("--neighbours is 1 (even number of processes) or 2, --model 1 or 2");
    }

    for (int i = 0; i < n; ++i) {
        struct ring r = {
            .neighbours = neighbours, .size = sizes[i], .made = bench_buffer(sizes[i])};
        for (int j = 0; j < neighbours; ++j) {
            r.out[j] = bench_buffer(r.size);
            r.in[j] = bench_buffer(r.size);
            r.send_tag[j] = 0 == j ? TAG_UP : TAG_DOWN;
            r.receive_tag[j] = 0 == j ? TAG_DOWN : TAG_UP;
        }
        if (1 == neighbours) {
            r.to[0] = bench.rank ^ 1;
            r.receive_tag[0] = r.send_tag[0];
        } else {
            r.to[0] = (bench.rank + 1) % bench.size;
            r.to[1] = (bench.rank + bench.size - 1) % bench.size;
        }
        for (int model = 1; model <= 2; ++model) {
            if (0 != model_only && model != model_only) {
                continue;
            }
            double comm = repeat(&r, model, iterations, repetitions, 0).iteration;
            MPI_Bcast(&comm, 1, MPI_DOUBLE, 0, bench.ctl);
            double basis = i < g && given[i] > 0 ? (double) given[i] : comm;
            for (int j = 0; j < p; ++j) {
                double compute = exchange_compute(basis, (double) percents[j]);
                struct result t =
                    repeat(&r, model, iterations, repetitions, bench_steps(compute / 2));
                long errors = bench_errors();
                if (0 == bench.rank) {
                    printf("exchange model=%d neighbours=%d size=%zu comm_percent=%zu "
                           "iteration_us=%.2f min_us=%.2f "
                           "wait_us=%.2f comm_us=%.2f compute_us=%.2f repetitions=%zu noisy=%d "
                           "errors=%ld\n",
                           model, neighbours, r.size, percents[j], t.iteration, t.best, t.wait,
                           comm, compute, t.kept, t.noisy, errors);
                    fflush(stdout);
                }
            }
        }
        for (int j = 0; j < neighbours; ++j) {
            free(r.out[j]);
            free(r.in[j]);
        }
        free(r.made);
    }
    return bench_finish();
}
