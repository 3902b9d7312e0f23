/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The message rate of several threads (MPI_THREAD_MULTIPLE): each sends windows of 64 nonblocking messages to a thread of the
 * other rank, which answers each window with a byte.
 *
 *   own   each pair of threads has a communicator of its own
 *   one   all use one communicator, with a tag for each pair
 *
 * --threads LIST (1,2,4); --size N: bytes (64); --windows N: for each line, over all threads (4000)
 * A line for each:  threads communicators= threads= msg_s= us= errors=
 * us = time / messages of all threads. Each window's messages carry its number, which is checked. */
#include "bench.h"

#include <pthread.h>

enum { WINDOW = 64, MOST = 16, TAG = 5, TAG_DONE = 100 };

static size_t size = 64;
static long windows;

typedef struct {
    pthread_t thread;
    MPI_Comm comm;
    int number;
    long errors;
    char *memory;
} worker_t;

static void stamp(char *message, long window, int i)
{
    const int64_t word = window * WINDOW + i;
    memcpy(message, &word, sizeof(word));
}

static void *exchange(void *context)
{
    worker_t *w = context;
    MPI_Request request[WINDOW];
    char expected[8], done = 0;
    for (long n = 0; n < windows; ++n) {
        for (int i = 0; i < WINDOW; ++i) {
            char *message = w->memory + (size_t) i * size;
            if (0 == bench.rank) {
                stamp(message, n, i);
                MPI_Isend(message, (int) size, MPI_BYTE, 1, TAG + w->number, w->comm, &request[i]);
            } else {
                MPI_Irecv(message, (int) size, MPI_BYTE, 0, TAG + w->number, w->comm, &request[i]);
            }
        }
        MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
        if (0 == bench.rank) {
            MPI_Recv(&done, 1, MPI_BYTE, 1, TAG_DONE + w->number, w->comm, MPI_STATUS_IGNORE);
            continue;
        }
        for (int i = 0; i < WINDOW; ++i) {
            stamp(expected, n, i);
            w->errors += 0 != memcmp(expected, w->memory + (size_t) i * size, sizeof(expected));
        }
        MPI_Send(&done, 1, MPI_BYTE, 0, TAG_DONE + w->number, w->comm);
    }
    return NULL;
}

static void line(bool own, int threads, long all, MPI_Comm *comms)
{
    worker_t worker[MOST] = {0};
    windows = all / threads;
    for (int i = 0; i < threads; ++i) {
        worker[i].comm = comms[own ? i : 0];
        worker[i].number = i;
        worker[i].memory = bench_buffer(WINDOW * size);
    }
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    for (int i = 1; i < threads; ++i) {
        if (0 != pthread_create(&worker[i].thread, NULL, exchange, &worker[i])) {
            fprintf(stderr, "%s: no thread\n", bench.argv[0]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    (void) exchange(&worker[0]);
    for (int i = 1; i < threads; ++i) {
        pthread_join(worker[i].thread, NULL);
    }
    const double us = (bench_now() - start) / ((double) windows * threads * WINDOW);
    for (int i = 0; i < threads; ++i) {
        bench.errors += worker[i].errors;
        free(worker[i].memory);
    }
    const long errors = bench_errors();
    if (0 == bench.rank) {
        printf("threads communicators=%s threads=%d msg_s=%.0f us=%.4f errors=%ld\n",
               own ? "own" : "one", threads, 1e6 / us, us, errors);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int provided;
    size_t threads[BENCH_SIZES];
    MPI_Comm comms[MOST];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    bench_init(&argc, &argv, 2, true);
    const int n = bench_sizes("--threads", "1,2,4", threads);
    size = (size_t) bench_number("--size", 64, 8);
    const long all = bench_number("--windows", 4000, 1);
    bench_options_end();
    if (MPI_THREAD_MULTIPLE != provided) {
        bench_usage("this MPI has no MPI_THREAD_MULTIPLE");
    }
    for (int i = 0; i < MOST; ++i) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    for (int i = 0; i < 2 * n; ++i) {
        if (threads[i / 2] < 1 || threads[i / 2] > MOST) {
            bench_usage("--threads: from 1 to %d", MOST);
        }
        line(0 == i % 2, (int) threads[i / 2], all, comms);
    }
    for (int i = 0; i < MOST; ++i) {
        MPI_Comm_free(&comms[i]);
    }
    return bench_finish();
}
