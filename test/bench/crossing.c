/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What speculation costs where it cannot help: latency of a message whose send and receive are called at the same moment,
 * so that RTS and RTR cross and the RTR is dropped (fig. 4.19 (a) of the thesis, test/bench/README.md).
 *
 * Ranks 0 and 1 agree on a moment a little ahead, wait for it without calling MPI, and then one calls MPI_Send, the other
 * MPI_Recv; then the other way round. Latency = from the moment to the receiver's return. Two hosts have two clocks:
 * their difference is measured, and what is left of it cancels in the mean of the two directions.
 * Whether they really crossed is not assumed but printed: counters of the PML.
 *
 * A line per size:  crossing size= us= q1= q3= min_us= iterations= noisy= late= rtr_sent= rtr_crossed= rtr_used= stops=
 *                   resumes= crossed= control_percent= errors=
 * us = mean of both directions' medians; q1, q3, min_us likewise; late = iterations in which a side missed the moment (left
 * out); the counters are of all iterations and processes, also warm-up, so that a 'stop' in it is seen;
 * crossed = share of all messages whose RTR was dropped because it crossed; control_percent = protocol bytes in percent of
 * the bytes of the messages.
 *
 * Departure from the thesis: it says that its ping-pong has 'a timing' at which all RTRs cross, not how; a ping-pong of
 * back-to-back calls crosses or not as the machine pleases. */
#include "bench.h"
#include "bench_counters.h"

enum { TAG = 5, TAG_CLOCK = 6, WARM = 40, CLOCK_TRIES = 300, DIRECTIONS = 2, LEAD_TRIPS = 4 };
static const double least_lead_us = 10.0;

static const char *const counter_names[] = {"rtr_sent", "rtr_crossed",   "rtr_used",      "stops",
                                            "resumes",  "bytes_control", "control_bytes", NULL};

static double clock_ahead_us; /* rank 0's clock minus this process's */
static double lead_us;        /* from the agreement to the moment */

/* Asks rank 0 for its time; the answer with the shortest round trip is the best. Both learn that round trip. */
static void compare_clocks(void)
{
    double shortest = INFINITY;
    for (int i = 0; i < CLOCK_TRIES; ++i) {
        double theirs;
        if (0 == bench.rank) {
            MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_CLOCK, bench.ctl, MPI_STATUS_IGNORE);
            theirs = bench_now();
            MPI_Send(&theirs, 1, MPI_DOUBLE, 1, TAG_CLOCK, bench.ctl);
            continue;
        }
        double asked = bench_now();
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_CLOCK, bench.ctl);
        MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, TAG_CLOCK, bench.ctl, MPI_STATUS_IGNORE);
        double trip = bench_now() - asked;
        if (trip < shortest) {
            shortest = trip;
            clock_ahead_us = theirs - (asked + trip / 2);
        }
    }
    if (bench.same_host) {
        clock_ahead_us = 0;
    }
    MPI_Bcast(&shortest, 1, MPI_DOUBLE, 1, bench.ctl);
    lead_us = fmax(least_lead_us, LEAD_TRIPS * shortest);
}

/* Returns at the agreed moment: its time by this process's clock. *late: it was over already. */
static double meet(int *late)
{
    double moment = bench_now() + lead_us;
    if (0 == bench.rank) {
        MPI_Send(&moment, 1, MPI_DOUBLE, 1, TAG_CLOCK, bench.ctl);
    } else {
        MPI_Recv(&moment, 1, MPI_DOUBLE, 0, TAG_CLOCK, bench.ctl, MPI_STATUS_IGNORE);
        moment -= clock_ahead_us;
    }
    *late = bench_now() >= moment;
    while (bench_now() < moment) {}
    return moment;
}

/* One message; the latency at the receiver, 0 at the sender. */
static double cross(char *buffer, size_t size, bool sends, double stagger_us, uint64_t key,
                    int *late)
{
    if (sends) {
        bench_fill(buffer, size, key);
    } else {
        bench_clear(buffer, size);
    }
    MPI_Barrier(bench.ctl);
    double moment = meet(late);
    if (sends) {
        MPI_Send(buffer, (int) size, MPI_BYTE, 1 - bench.rank, TAG, bench.comm);
        return 0;
    }
    while (stagger_us > 0 && bench_now() < moment + stagger_us) {}
    MPI_Recv(buffer, (int) size, MPI_BYTE, 1 - bench.rank, TAG, bench.comm, MPI_STATUS_IGNORE);
    double us = bench_now() - moment;
    bench_verify(buffer, size, key);
    return us;
}

struct result {
    double median, q1, q3, least;
    size_t kept;
    int noisy;
};

static struct result summarize(double *us, int *disturbed, size_t n)
{
    struct result r;
    r.kept = bench_undisturbed(us, disturbed, n, &r.noisy);
    r.median = stat_median(us, r.kept);
    r.q1 = stat_quantile(us, r.kept, 0.25);
    r.q3 = stat_quantile(us, r.kept, 0.75);
    r.least = us[0]; /* sorted by now */
    return r;
}

static void run_size(size_t size, int iterations, double stagger_us,
                     struct bench_counters *counters)
{
    size_t n = (size_t) iterations;
    char *buffer = bench_buffer(size);
    double *us[DIRECTIONS];
    int *disturbed[DIRECTIONS], all_late = 0;
    for (int d = 0; d < DIRECTIONS; ++d) {
        us[d] = calloc(n, sizeof(double));
        disturbed[d] = calloc(n, sizeof(int));
    }
    bench_counters_begin(counters);
    for (int i = -WARM; i < iterations; ++i) {
        for (int d = 0; d < DIRECTIONS; ++d) {
            int late;
            long preemptions = bench_preemptions();
            double t = cross(buffer, size, d == bench.rank, stagger_us,
                             (uint64_t) (i + WARM) * DIRECTIONS + (uint64_t) d, &late);
            if (i >= 0) {
                us[d][i] = t;
                disturbed[d][i] = late || bench_preemptions() != preemptions;
                all_late += late;
            }
        }
    }
    bench_counters_end(counters);

    struct result r[DIRECTIONS];
    for (int d = 0; d < DIRECTIONS; ++d) {
        MPI_Allreduce(MPI_IN_PLACE, us[d], iterations, MPI_DOUBLE, MPI_MAX, bench.ctl);
        r[d] = summarize(us[d], disturbed[d], n);
    }
    MPI_Allreduce(MPI_IN_PLACE, &all_late, 1, MPI_INT, MPI_SUM, bench.ctl);
    long errors = bench_errors();
    if (0 == bench.rank) {
        double messages = (double) DIRECTIONS * (WARM + iterations);
        double crossed = bench_counter(counters, "rtr_crossed"),
               control = bench_counter(counters, "control_bytes");
        control = control < 0 ? bench_counter(counters, "bytes_control") : control;
        printf(
            "crossing size=%zu us=%.3f q1=%.3f q3=%.3f min_us=%.3f iterations=%zu noisy=%d late=%d",
            size, (r[0].median + r[1].median) / 2, (r[0].q1 + r[1].q1) / 2, (r[0].q3 + r[1].q3) / 2,
            (r[0].least + r[1].least) / 2, (r[0].kept + r[1].kept) / 2, r[0].noisy || r[1].noisy,
            all_late);
        bench_counters_print(counters);
        bench_print_or_absent("crossed", crossed < 0 ? -1 : crossed / messages, 3);
        bench_print_or_absent(
            "control_percent",
            control < 0 || 0 == size ? -1 : 100 * control / (messages * (double) size), 4);
        printf(" errors=%ld\n", errors);
        fflush(stdout);
    }
    for (int d = 0; d < DIRECTIONS; ++d) {
        free(us[d]);
        free(disturbed[d]);
    }
    free(buffer);
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, true);
    size_t sizes[BENCH_SIZES];
    struct bench_counters counters;
    int n = bench_sizes("--sizes", "1K,16K,64K,128K,256K,1M", sizes);
    int iterations = (int) bench_number("--iterations", 300, 1);
    /* The receive is called later than the send by this; to try other timings. */
    double stagger_us = (double) bench_number("--stagger-ns", 0, 0) / 1e3;
    bench_options_end();
    bench_counters_open(&counters, counter_names);
    compare_clocks();
    for (int i = 0; i < n; ++i) {
        run_size(sizes[i], iterations, stagger_us, &counters);
    }
    bench_counters_close(&counters);
    return bench_finish();
}
