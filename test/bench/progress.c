/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Whether a message arrives while a process computes: its latency over the delay inserted between the nonblocking call and
 * the wait. Flat: it arrives by itself. Rising with the delay: it waits for the wait.
 *
 * Rank 0 sends, rank 1 receives; the latency is taken at the receiver, from its call until the data are there.
 * side=send: the sender has the delay, the receiver blocks. side=receive: the receiver has it, the sender blocks; within
 * the delay the receiver reads its buffer (last word first) without calling MPI.
 *
 * A line per case:  progress size= order= side= delay_us= us= min_us= independent= left= iterations= noisy= errors=
 * us, min_us = median and least over the iterations in which no process lost its processor; independent = 1 if the delay
 * does not change the latency, 0 if it adds to it in full; left = share of the undelayed latency that is left when the
 * delay is over (both nan unless a delay of 0 was measured before).
 *
 * Section 3.6.2 and fig. 4.14 of the thesis (test/bench/README.md), with these departures: the order of arrival is forced by
 * a token, see bench.h (section 4.4.1 says that it is forced, not how); the sender needs no answer of the receiver, the
 * barrier of the next iteration is one; the receiver waits for all data of the message, not for one value. */
#include "bench.h"

static const char *const orders[] = {"receiver-first", "sender-first", "both", NULL};
static const char *const sides[] = {"receive", "send", "both", NULL};
enum { RECEIVER_FIRST, SENDER_FIRST };
enum { SIDE_RECEIVE, SIDE_SEND };
enum { TAG = 7, WARM = 5, STRIDE = 512, MIN_SIZE = 8 };
static const double read_every_us = 1.0;

struct one_case {
    size_t size;
    int order, side;
    char *buffer;
    uint64_t key; /* of the next message */
};

/* The last word, then one of each page. */
static bool all_there(const void *buffer, size_t size, uint64_t key)
{
    const volatile uint64_t *words = buffer;
    size_t n = size / 8;
    if (words[n - 1] != bench_word(key, n - 1)) {
        return false;
    }
    for (size_t i = 0; i < n; i += STRIDE) {
        if (words[i] != bench_word(key, i)) {
            return false;
        }
    }
    return true;
}

/* Computes in pieces and reads the buffer; the time when the data were seen, or 0. */
static double compute_and_read(const struct one_case *c, uint64_t key, double us)
{
    uint64_t steps = bench_steps(us), piece = bench_steps(read_every_us);
    double seen = 0;
    while (steps > 0) {
        uint64_t now = steps < piece ? steps : piece;
        bench_compute(now);
        steps -= now;
        if (0 == seen && all_there(c->buffer, c->size, key)) {
            seen = bench_now();
        }
    }
    return seen;
}

static double latency(struct one_case *c, double delay_us, int *disturbed)
{
    uint64_t key = c->key++;
    bool sender = 0 == bench.rank, early = (SENDER_FIRST == c->order) == sender;
    MPI_Request request;
    double seen = 0;
    if (sender) {
        bench_fill(c->buffer, c->size, key);
    } else {
        bench_clear(c->buffer, c->size);
    }
    long preemptions = bench_preemptions();
    MPI_Barrier(bench.ctl);
    if (!early) {
        bench_await();
    }
    double start = bench_now();
    if (sender) {
        MPI_Isend(c->buffer, (int) c->size, MPI_BYTE, 1, TAG, bench.comm, &request);
    } else {
        MPI_Irecv(c->buffer, (int) c->size, MPI_BYTE, 0, TAG, bench.comm, &request);
    }
    if (early) {
        bench_tell();
    }
    if (sender && SIDE_SEND == c->side) {
        bench_compute(bench_steps(delay_us));
    } else if (!sender && SIDE_RECEIVE == c->side) {
        seen = compute_and_read(c, key, delay_us);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double end = seen > 0 ? seen : bench_now();
    *disturbed = bench_preemptions() != preemptions;
    if (!sender) {
        bench_verify(c->buffer, c->size, key);
    }
    return end - start;
}

/* undelayed: latency without a delay, or NAN. Returns the latency with this one; both count at rank 0 only. */
static double run_case(struct one_case *c, long delay_us, double undelayed, int iterations)
{
    size_t n = (size_t) iterations;
    double *us = calloc(n, sizeof(us[0]));
    int *disturbed = calloc(n, sizeof(disturbed[0]));
    int noisy;
    for (int i = -WARM; i < iterations; ++i) {
        size_t at = i < 0 ? 0 : (size_t) i;
        us[at] = latency(c, (double) delay_us, &disturbed[at]);
    }
    size_t kept = bench_undisturbed(us, disturbed, n, &noisy);
    double result[2];
    result[0] = stat_median(us, kept);
    result[1] = us[0]; /* sorted by now */
    bench_to_rank0(1, result, 2);
    long errors = bench_errors();
    if (0 == bench.rank) {
        undelayed = 0 == delay_us ? result[0] : undelayed;
        printf("progress size=%zu order=%s side=%s delay_us=%ld us=%.2f min_us=%.2f "
               "independent=%.3f left=%.3f "
               "iterations=%zu noisy=%d errors=%ld\n",
               c->size, orders[c->order], sides[c->side], delay_us, result[0], result[1],
               progress_independent(undelayed, (double) delay_us, result[0]),
               progress_left(undelayed, (double) delay_us, result[0]), kept, noisy, errors);
        fflush(stdout);
    }
    free(disturbed);
    free(us);
    return result[0];
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, true);
    size_t sizes[BENCH_SIZES], delays[BENCH_SIZES];
    int n = bench_sizes("--sizes", "8K,1M", sizes);
    int d = bench_sizes("--delays", "0,50,100,200,400,800", delays); /* us */
    int order = bench_choice("--order", 2, orders), side = bench_choice("--side", 2, sides);
    int iterations = (int) bench_number("--iterations", 40, 1);
    bench_options_end();

    struct one_case c = {.key = 1};
    for (int i = 0; i < n; ++i) {
        c.size = sizes[i];
        if (c.size < MIN_SIZE) {
            bench_usage("--sizes begin at %d bytes", MIN_SIZE);
        }
        c.buffer = bench_buffer(c.size);
        for (c.side = SIDE_RECEIVE; c.side <= SIDE_SEND; ++c.side) {
            for (c.order = RECEIVER_FIRST; c.order <= SENDER_FIRST; ++c.order) {
                double undelayed = NAN;
                for (int j = 0; j < d; ++j) {
                    if ((2 == side || c.side == side) && (2 == order || c.order == order)) {
                        double us = run_case(&c, (long) delays[j], undelayed, iterations);
                        undelayed = 0 == delays[j] ? us : undelayed;
                    }
                }
            }
        }
        free(c.buffer);
    }
    return bench_finish();
}
