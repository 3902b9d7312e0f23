/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_Waitany and MPI_Waitsome in many threads at once, while messages complete two at a time in others: each call
 * reports requests that are complete, and each of them once. What Open MPI leaves to chance there pml/spec does not
 * (pml_spec_complete.h): with 300 us between the two steps told there, Waitany reported one in 40 rounds wrong without
 * what keeps them together, and none with it. Options: --seconds N, --threads N. */
#include "testlib.h"

#include <pthread.h>
#include <time.h>

enum { MESSAGES = 6, SIZE = 64, MOST = 16 };

static double end;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void report(int me, int index, bool *seen, const MPI_Status *status)
{
    const int peer = 1 - tl.rank;
    if (CHECK(index >= 0 && index < MESSAGES, "thread %d: index %d", me, index)) {
        CHECK(!seen[index], "thread %d: request %d is reported twice", me, index);
        CHECK(peer == status->MPI_SOURCE && me * MESSAGES + index == status->MPI_TAG,
              "thread %d: request %d: source %d tag %d", me, index, status->MPI_SOURCE, status->MPI_TAG);
        seen[index] = true;
    }
}

/* Both ends go on as long as both have time left. */
static void *work(void *arg)
{
    const int me = (int) (intptr_t) arg, peer = 1 - tl.rank;
    bool goes_on = true;
    for (unsigned round = 0; goes_on; ++round) {
        char out[SIZE] = {now() < end}, in[MESSAGES][SIZE];
        MPI_Request receive[MESSAGES], send[MESSAGES];
        MPI_Status status[MESSAGES];
        bool seen[MESSAGES] = {false};
        for (int i = 0; i < MESSAGES; ++i) {
            MPI_Irecv(in[i], SIZE, MPI_BYTE, peer, me * MESSAGES + i, MPI_COMM_WORLD, &receive[i]);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            MPI_Isend(out, SIZE, MPI_BYTE, peer, me * MESSAGES + i, MPI_COMM_WORLD, &send[i]);
        }
        for (int left = MESSAGES, done = 1; left > 0; left -= done) {
            int index[MESSAGES] = {-1};
            if (round % 4 < 3) {
                done = 1;
                MPI_Waitany(MESSAGES, receive, index, status);
            } else {
                MPI_Waitsome(MESSAGES, receive, &done, index, status);
            }
            for (int i = 0; i < done; ++i) {
                report(me, index[i], seen, &status[i]);
            }
            if (done <= 0 || 0 != tl.errors) {
                MPI_Abort(MPI_COMM_WORLD, 1); /* nothing that follows would be right */
            }
        }
        MPI_Waitall(MESSAGES, send, MPI_STATUSES_IGNORE);
        goes_on = out[0] && in[0][0];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (MPI_THREAD_MULTIPLE != tl_start_thread(&argc, &argv, "waitany", 150, MPI_THREAD_MULTIPLE)) {
        tl_skip("this Open MPI does not provide MPI_THREAD_MULTIPLE");
        return tl_finish();
    }
    int threads = (int) tl_option("--threads", 8);
    pthread_t thread[MOST];
    threads = threads > MOST ? MOST : threads;
    MPI_Barrier(MPI_COMM_WORLD);
    end = now() + (double) tl_option("--seconds", 5);
    for (int i = 0; i < threads; ++i) {
        pthread_create(&thread[i], NULL, work, (void *) (intptr_t) i);
    }
    for (int i = 0; i < threads; ++i) {
        pthread_join(thread[i], NULL);
    }
    return tl_finish();
}
