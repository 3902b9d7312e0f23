/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The communication of four applications - CG, BT and LU of the NAS benchmarks, and RADIX - as
 * fig. 4.18 of the thesis has it (test/bench/README.md), and how long they wait in it (fig. 4.17,
 * 4.19 (b)). The order of the calls is that of the figure (of fig. 18 of the article where the
 * thesis' is shorter); what they compute is work in registers, and every message is made and
 * checked in full.
 *
 * kernel  messages        calls of one iteration
 * cg      300000 bytes    produce; for each neighbour: Irecv, Send, Wait; consume
 * bt      245760 bytes    Irecv, produce, Wait (send before), Wait (receive), consume, Isend
 * lu      163840 bytes    for each neighbour: Irecv (any source), produce, Send, Wait, consume
 * radix   262144 bytes    receiving: 4 times 4 Irecv and a Waitall; sending: 16 Send; of a pair
 *                         one begins with the one, the other with the other
 * The sizes are those of the applications on four processes: CG.B a vector of 75000 / 2 numbers,
 * BT.A 30 numbers for each of 32 x 32 points, LU.A 10 for each of 32 x 64 points. RADIX has no given
 * size but that its messages are above the thesis' eager limit of 128 KiB.
 *
 * A line:  kernel name= np= size= compute_us= imbalance= iteration_us= wait_us= blocked_us= mpi_us=
 *          repetitions= noisy= rtr_sent= ... rtr_usage= control_percent= extra_percent= errors=
 * iteration_us = time of an iteration; of it wait_us in MPI_Wait and MPI_Waitall (what the thesis
 * calls wait time), blocked_us in these and in MPI_Send, mpi_us in all MPI calls: median over the
 * repetitions of the mean over processes and iterations. A blocking send may do what a wait would
 * have done later, or leave it to that wait; where there is one, blocked_us is the time to compare.
 * The counters are of the whole run with warm-up, so that a 'stop' in it is seen. rtr_usage = RTRs
 * used of those that arrived. control_percent = all protocol bytes without data in percent of the
 * messages' bytes; extra_percent = of them what there is because of speculation, as the thesis counts.
 *
 * Departures from the applications: neighbours are those of a hypercube (cg, radix: the number of
 * processes is a power of two) or of a ring (bt, lu), so that two processes suffice; each process
 * computes a little more or less than the others in each phase (imbalance percent), which the figure
 * does not show but every application does. */
#include "bench.h"
#include "bench_counters.h"

enum {
    TAG = 11,
    TAG_BACK = 12,
    RADIX_GROUPS = 4,
    RADIX_GROUP = 4,
    RADIX_BLOCKS = RADIX_GROUPS * RADIX_GROUP
};
enum { BUFFERS = RADIX_BLOCKS, WARM = 3, BIT_LIMIT = 30 };

struct app {
    size_t size;
    double compute_us;
    int imbalance; /* percent */
    char *in[BUFFERS], *out[BUFFERS];
    double wait_us, blocked_us, mpi_us;
    double messages; /* sent by this process since its start */
};

/* ---- MPI calls and their time ---- */

static void app_irecv(struct app *a, int buffer, int from, int tag, MPI_Request *request)
{
    double start = bench_now();
    MPI_Irecv(a->in[buffer], (int) a->size, MPI_BYTE, from, tag, bench.comm, request);
    a->mpi_us += bench_now() - start;
}

static void app_isend(struct app *a, int buffer, int to, MPI_Request *request)
{
    double start = bench_now();
    MPI_Isend(a->out[buffer], (int) a->size, MPI_BYTE, to, TAG, bench.comm, request);
    a->mpi_us += bench_now() - start;
    ++a->messages;
}

static void app_send(struct app *a, int buffer, int to, int tag)
{
    double start = bench_now();
    MPI_Send(a->out[buffer], (int) a->size, MPI_BYTE, to, tag, bench.comm);
    double us = bench_now() - start;
    a->mpi_us += us;
    a->blocked_us += us;
    ++a->messages;
}

static void app_wait(struct app *a, MPI_Request *request)
{
    double start = bench_now();
    MPI_Wait(request, MPI_STATUS_IGNORE);
    double us = bench_now() - start;
    a->mpi_us += us;
    a->blocked_us += us;
    a->wait_us += us;
}

static void app_waitall(struct app *a, int n, MPI_Request *requests)
{
    double start = bench_now();
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    double us = bench_now() - start;
    a->mpi_us += us;
    a->blocked_us += us;
    a->wait_us += us;
}

/* ---- data and computation ---- */

static uint64_t key_of(int rank, int iteration, int part)
{
    return ((uint64_t) rank << 40) + ((uint64_t) iteration << 8) + (uint64_t) part;
}

/* As long as asked for, more or less by the imbalance: the same in every run, another one for each process and phase. */
static void compute(const struct app *a, uint64_t phase)
{
    uint64_t x = (phase + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    double share = (double) (x >> 11) / (double) (UINT64_C(1) << 53) * 2.0 - 1.0;
    bench_compute(bench_steps(a->compute_us * (1.0 + share * a->imbalance / 100.0)));
}

static void produce(struct app *a, int buffer, int iteration, int part)
{
    compute(a, key_of(bench.rank, iteration, 2 * part));
    bench_fill(a->out[buffer], a->size, key_of(bench.rank, iteration, part));
}

static void consume(struct app *a, int buffer, int from, int iteration, int part)
{
    bench_verify(a->in[buffer], a->size, key_of(from, iteration, part));
    compute(a, key_of(bench.rank, iteration, 2 * part + 1));
}

/* ---- the kernels: a number of iterations, beginning with number 'first'; the time of what is measured ---- */

static double run_cg(struct app *a, int first, int iterations)
{
    double start = bench_now();
    for (int i = first; i < first + iterations; ++i) {
        MPI_Request receive;
        produce(a, 0, i, 0);
        for (int bit = 0; 1 << bit < bench.size; ++bit) {
            int neighbour = bench.rank ^ 1 << bit;
            app_irecv(a, bit, neighbour, TAG, &receive);
            app_send(a, 0, neighbour, TAG);
            app_wait(a, &receive);
        }
        for (int bit = 0; 1 << bit < bench.size; ++bit) {
            consume(a, bit, bench.rank ^ 1 << bit, i, 0);
        }
    }
    return bench_now() - start;
}

static double run_bt(struct app *a, int first, int iterations)
{
    int to = (bench.rank + 1) % bench.size, from = (bench.rank + bench.size - 1) % bench.size;
    MPI_Request send, receive;
    double start = bench_now();
    produce(a, 0, first, 0);
    app_isend(a, 0, to, &send);
    for (int i = 1; i <= iterations; ++i) {
        app_irecv(a, 0, from, TAG, &receive);
        produce(a, i % 2, first + i, 0);
        app_wait(a, &send);
        app_wait(a, &receive);
        consume(a, 0, from, first + i - 1, 0);
        app_isend(a, i % 2, to, &send);
    }
    double us = bench_now() - start;
    /* The figure leaves the last message open. */
    MPI_Recv(a->in[0], (int) a->size, MPI_BYTE, from, TAG, bench.comm, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    bench_verify(a->in[0], a->size, key_of(from, first + iterations, 0));
    return us;
}

static double run_lu(struct app *a, int first, int iterations)
{
    const int next = (bench.rank + 1) % bench.size,
              last = (bench.rank + bench.size - 1) % bench.size;
    const int to[] = {next, last}, from[] = {last, next}, tags[] = {TAG, TAG_BACK};
    double start = bench_now();
    for (int i = first; i < first + iterations; ++i) {
        for (int j = 0; j < 2; ++j) {
            MPI_Request receive;
            app_irecv(a, 0, MPI_ANY_SOURCE, tags[j], &receive);
            produce(a, 0, i, j);
            app_send(a, 0, to[j], tags[j]);
            app_wait(a, &receive);
            consume(a, 0, from[j], i, j);
        }
    }
    return bench_now() - start;
}

static void radix_receive(struct app *a, int from)
{
    MPI_Request receives[RADIX_GROUP];
    for (int g = 0; g < RADIX_GROUPS; ++g) {
        for (int j = 0; j < RADIX_GROUP; ++j) {
            app_irecv(a, g * RADIX_GROUP + j, from, TAG, &receives[j]);
        }
        app_waitall(a, RADIX_GROUP, receives);
    }
}

static void radix_send(struct app *a, int to)
{
    for (int j = 0; j < RADIX_BLOCKS; ++j) {
        app_send(a, j, to, TAG);
    }
}

static double run_radix(struct app *a, int first, int iterations)
{
    double start = bench_now();
    for (int i = first; i < first + iterations; ++i) {
        compute(a, key_of(bench.rank, i, 0));
        for (int j = 0; j < RADIX_BLOCKS; ++j) {
            bench_fill(a->out[j], a->size, key_of(bench.rank, i, j));
        }
        for (int d = 1; d < bench.size; ++d) {
            int partner = bench.rank ^ d;
            /* They take turns in who begins with sending. */
            if ((bench.rank < partner) == (0 == i % 2)) {
                radix_send(a, partner);
                radix_receive(a, partner);
            } else {
                radix_receive(a, partner);
                radix_send(a, partner);
            }
            for (int j = 0; j < RADIX_BLOCKS; ++j) {
                bench_verify(a->in[j], a->size, key_of(partner, i, j));
            }
        }
        compute(a, key_of(bench.rank, i, 1));
    }
    return bench_now() - start;
}

static const char *const names[] = {"cg", "bt", "lu", "radix", NULL};
static const struct kernel {
    double (*run)(struct app *a, int first, int iterations);
    size_t size;
    int in, out,
        iterations; /* buffers; iterations of a repetition, which is short to be rarely disturbed */
    bool hypercube;
} kernels[] = {
    {run_cg, 300000, 0, 1, 4, true}, /* in: one per neighbour */
    {run_bt, 245760, 1, 2, 4, false},
    {run_lu, 163840, 1, 1, 2, false},
    {run_radix, 262144, RADIX_BLOCKS, RADIX_BLOCKS, 1, true},
};

static const char *const counter_names[] = {"rtr_sent",
                                            "rtr_arrived",
                                            "rtr_used",
                                            "rtr_crossed",
                                            "rtr_mispredicted",
                                            "bytes_control",
                                            "control_bytes",
                                            "data_bytes",
                                            "stops",
                                            "resumes",
                                            NULL};

static void print_shares(const struct app *a, double messages,
                         const struct bench_counters *counters)
{
    double arrived = bench_counter(counters, "rtr_arrived"),
           used = bench_counter(counters, "rtr_used");
    double control = bench_counter(counters, "control_bytes"), bytes = messages * (double) a->size;
    bool known = arrived >= 0 && used >= 0;
    control = control < 0 ? bench_counter(counters, "bytes_control") : control;
    bench_print_or_absent("rtr_usage", !known ? -1 : rtr_usage(arrived, used), 3);
    bench_print_or_absent("control_percent", control < 0 ? -1 : 100 * control / bytes, 4);
    bench_print_or_absent("extra_percent",
                          !known ? -1 : 100 * speculation_bytes(arrived, used) / bytes, 4);
}

/* Mean over the processes; collective. */
static double everywhere(double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, bench.ctl);
    return value / bench.size;
}

static void measure(const struct kernel *kernel, struct app *a, const char *name, int iterations,
                    int repetitions, struct bench_counters *counters)
{
    enum { ITERATION, WAIT, BLOCKED, IN_MPI, VALUES };
    size_t n = (size_t) repetitions, kept = 0;
    double *us[VALUES];
    int *disturbed[VALUES], noisy = 0, next = 0;
    for (int v = 0; v < VALUES; ++v) {
        us[v] = calloc(n, sizeof(double));
        disturbed[v] = calloc(n, sizeof(int));
    }
    bench_counters_begin(counters);
    /* An odd step: radix' processes change roles with it. One more than the iterations at least: bt sends one more. */
    for (int r = -WARM; r < repetitions; ++r, next += (iterations + 1) | 1) {
        a->wait_us = a->blocked_us = a->mpi_us = 0;
        long preemptions = bench_preemptions();
        MPI_Barrier(bench.ctl);
        double all = kernel->run(a, next, iterations);
        int lost = bench_preemptions() != preemptions;
        double values[VALUES] = {[ITERATION] = all,
                                 [WAIT] = a->wait_us,
                                 [BLOCKED] = a->blocked_us,
                                 [IN_MPI] = a->mpi_us};
        for (int v = 0; v < VALUES; ++v) {
            double mean = everywhere(values[v]) / iterations;
            if (r >= 0) {
                us[v][r] = mean;
                disturbed[v][r] = lost;
            }
        }
    }
    bench_counters_end(counters);

    double middle[VALUES], messages = everywhere(a->messages) * bench.size;
    for (int v = 0; v < VALUES; ++v) {
        kept = bench_undisturbed(us[v], disturbed[v], n, &noisy);
        middle[v] = stat_median(us[v], kept);
    }
    long errors = bench_errors();
    if (0 == bench.rank) {
        printf("kernel name=%s np=%d size=%zu compute_us=%.0f imbalance=%d iteration_us=%.2f "
               "wait_us=%.3f "
               "blocked_us=%.3f mpi_us=%.2f repetitions=%zu noisy=%d",
               name, bench.size, a->size, a->compute_us, a->imbalance, middle[ITERATION],
               middle[WAIT], middle[BLOCKED], middle[IN_MPI], kept, noisy);
        bench_counters_print(counters);
        print_shares(a, messages, counters);
        printf(" errors=%ld\n", errors);
        fflush(stdout);
    }
    for (int v = 0; v < VALUES; ++v) {
        free(us[v]);
        free(disturbed[v]);
    }
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, false);
    size_t sizes[BENCH_SIZES];
    int chosen = bench_choice("--kernel", 0, names);
    const struct kernel *kernel = &kernels[chosen];
    struct app a = {.size = 0};
    if (bench_sizes("--sizes", "0", sizes) != 1) {
        bench_usage("--sizes takes one size (0: the application's)");
    }
    a.size = sizes[0] > 0 ? sizes[0] : kernel->size;
    a.compute_us = (double) bench_number("--compute-us", 100, 0); /* of each produce and consume */
    a.imbalance = (int) bench_number("--imbalance", 10, 0);
    int iterations = (int) bench_number("--iterations", kernel->iterations, 1);
    int repetitions = (int) bench_number("--repetitions", 200, 1);
    bench_options_end();
    if (kernel->hypercube && 0 != (bench.size & (bench.size - 1))) {
        bench_usage("--kernel %s needs a power of two of processes", names[chosen]);
    }
    int in = kernel->in;
    for (int bit = 0; 0 == kernel->in && bit < BIT_LIMIT && 1 << bit < bench.size; ++bit) {
        ++in;
    }
    if (in > BUFFERS) {
        bench_usage("--kernel %s: too many processes", names[chosen]);
    }
    for (int i = 0; i < in; ++i) {
        a.in[i] = bench_buffer(a.size);
    }
    for (int i = 0; i < kernel->out; ++i) {
        a.out[i] = bench_buffer(a.size);
    }
    struct bench_counters counters;
    bench_counters_open(&counters, counter_names);
    measure(kernel, &a, names[chosen], iterations, repetitions, &counters);
    bench_counters_close(&counters);
    for (int i = 0; i < BUFFERS; ++i) {
        free(a.in[i]);
        free(a.out[i]);
    }
    return bench_finish();
}
