/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Bursts of small messages to a process that comes late: what the receive window of btl/ibx is for (003, fig. 2 and 3).
 *
 * Ranks 1, 2, ... each send --messages messages at once to rank 0, which computes for --late-us first, then receives all of
 * them and answers with an empty message. The receives are posted only then, so that the transport's own buffers have to take
 * what arrives, or make the senders wait and repeat.
 *
 * A line per size:  burst senders= messages= size= late_us= us= msg_s= window_size= window_most= window_bytes= limit_events=
 *                   rnr_in= rnr_out= segments_out= segments_resent= lost_by_number= lost_by_time=
 *                   lost_spurious= probe_timeouts= marked_out= repetitions= noisy= errors=
 * us = median time of a burst, from the common start to rank 0's last receive, without the computation; msg_s = messages per
 * second in that time. The counters are btl/ibx's, over UDP, summed over the processes since the start: window_size, _bytes
 * at the end, _most the largest it was ('absent' over other transports).
 * --warm: bursts before those that are measured; 0: the first is made over paths of which nothing is known. */
#define COUNTERS_PREFIX "btl_ibx_"
#include "bench.h"
#include "bench_counters.h"

enum { TAG = 9, TAG_DONE = 10 };

static const char *const counter_names[] = {"window_size",     "window_most", "window_bytes",
                                            "limit_events",    "rnr_in",      "rnr_out",
                                            "segments_out",    "segments_resent",
                                            "lost_by_number",  "lost_by_time",
                                            "lost_spurious",   "probe_timeouts",
                                            "marked_out",      NULL};

struct burst {
    size_t size, place;
    int messages;
    uint64_t late;
    char *buffers; /* rank 0: messages of each sender; others: one */
    MPI_Request *requests;
};

static uint64_t key_of(int from, int message, uint64_t round)
{
    return ((uint64_t) from << 48) + ((uint64_t) message << 24) + round;
}

static void give(struct burst *b, uint64_t round)
{
    for (int i = 0; i < b->messages; ++i) {
        bench_fill(b->buffers + (size_t) i * b->place, b->size, key_of(bench.rank, i, round));
    }
    MPI_Barrier(bench.ctl);
    for (int i = 0; i < b->messages; ++i) {
        MPI_Isend(b->buffers + (size_t) i * b->place, (int) b->size, MPI_BYTE, 0, TAG, bench.comm,
                  &b->requests[i]);
    }
    MPI_Waitall(b->messages, b->requests, MPI_STATUSES_IGNORE);
    MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_DONE, bench.comm, MPI_STATUS_IGNORE);
}

/* Time from the start to the last receive. */
static double take(struct burst *b, uint64_t round)
{
    const int all = b->messages * (bench.size - 1);
    bench_clear(b->buffers, (size_t) all * b->place);
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    bench_compute(b->late);
    for (int i = 0; i < all; ++i) {
        MPI_Irecv(b->buffers + (size_t) i * b->place, (int) b->size, MPI_BYTE,
                  1 + i % (bench.size - 1), TAG, bench.comm, &b->requests[i]);
    }
    MPI_Waitall(all, b->requests, MPI_STATUSES_IGNORE);
    const double us = bench_now() - start;
    for (int r = 1; r < bench.size; ++r) {
        MPI_Send(NULL, 0, MPI_BYTE, r, TAG_DONE, bench.comm);
    }
    for (int i = 0; i < all; ++i) {
        bench_verify(b->buffers + (size_t) i * b->place, b->size,
                     key_of(1 + i % (bench.size - 1), i / (bench.size - 1), round));
    }
    return us;
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, false);
    size_t sizes[BENCH_SIZES];
    struct burst b = {.messages = 0};
    const int n = bench_sizes("--sizes", "1K", sizes);
    const int repetitions = (int) bench_number("--repetitions", 20, 1);
    const int warm = (int) bench_number("--warm", 2, 0);
    const double late_us = (double) bench_number("--late-us", 1000, 0);
    b.messages = (int) bench_number("--messages", 256, 1);
    bench_options_end();
    struct bench_counters counters;
    bench_counters_open(&counters, counter_names);
    b.late = bench_steps(late_us);
    double *us = calloc((size_t) repetitions, sizeof(double));
    int *disturbed = calloc((size_t) repetitions, sizeof(int)), noisy;
    const int all = b.messages * (bench.size - 1);
    b.requests = calloc((size_t) all, sizeof(MPI_Request));
    bench_counters_begin(&counters);
    for (int i = 0; i < n; ++i) {
        b.size = sizes[i];
        b.place = (sizes[i] + 15) / 8 * 8;
        b.buffers = bench_buffer((size_t) (0 == bench.rank ? all : b.messages) * b.place);
        for (int r = -warm; r < repetitions; ++r) {
            const long preemptions = bench_preemptions();
            double t = 0;
            if (0 == bench.rank) {
                t = take(&b, (uint64_t) (r + warm)) - late_us;
            } else {
                give(&b, (uint64_t) (r + warm));
            }
            if (r >= 0) {
                us[r] = t;
                disturbed[r] = bench_preemptions() != preemptions;
            }
        }
        const size_t kept = bench_undisturbed(us, disturbed, (size_t) repetitions, &noisy);
        const double median = stat_median(us, kept);
        const long errors = bench_errors();
        bench_counters_end(&counters);
        if (0 == bench.rank) {
            printf("burst senders=%d messages=%d size=%zu late_us=%.0f us=%.2f msg_s=%.0f",
                   bench.size - 1, b.messages, b.size, late_us, median,
                   1e6 * mb_per_s(all, median));
            bench_counters_print(&counters);
            printf(" repetitions=%zu noisy=%d errors=%ld\n", kept, noisy, errors);
            fflush(stdout);
        }
        free(b.buffers);
    }
    free(b.requests);
    free(disturbed);
    free(us);
    return bench_finish();
}
