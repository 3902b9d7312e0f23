/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_THREAD_MULTIPLE: requests are freed while they are active, by one thread, as another one completes them. A request that both
 * give back, or neither, is soon another message's too, or memory grows: all data must be right, and the lists of requests stay small.
 * Receives and sends of each protocol, started once or persistent; some are waited for, in between.
 *
 *   --rounds N     of WINDOW messages each way (400) */
#include "testlib.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { WINDOW = 24, TAG = 3, NEVER = 77 };

static const int sizes[] = {8, 700, 8, 70000, 8, 300000}; /* of the messages, in turns */
static int stopped;                                      /* atomic */

static void *poll(void *arg)
{
    (void) arg;
    while (0 == __atomic_load_n(&stopped, __ATOMIC_ACQUIRE)) {
        int flag;
        MPI_Iprobe(tl.rank ^ 1, NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        sched_yield();
    }
    return NULL;
}

static int size_of(int i)
{
    return sizes[i % (int) TL_N(sizes)];
}

static uint64_t key_of(int from, int i, long long round)
{
    return tl_key(23, from, i, TAG, (uint64_t) round);
}

/* Started, and freed at once, a moment later or not at all (then it is left for the wait). */
static void leave(MPI_Request *request, bool persistent, tl_rng_t *rng)
{
    if (persistent) {
        MPI_Start(request);
    }
    const uint64_t what = tl_below(rng, 4);
    if (3 == what) {
        return;
    }
    volatile unsigned spin = 2 == what ? 0 : (unsigned) tl_below(rng, 3000);
    while (spin > 0) {
        --spin;
    }
    MPI_Request_free(request);
}

/* What was waited for is given back here. */
static void finish(MPI_Request *request)
{
    MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < WINDOW; ++i) {
        if (MPI_REQUEST_NULL != request[i]) { /* persistent */
            MPI_Request_free(&request[i]);
        }
    }
}

static void exchange(char *in[], char *out[], long long round, tl_rng_t *rng)
{
    MPI_Request receive[WINDOW], send[WINDOW];
    const int peer = tl.rank ^ 1;
    const bool receives_first = tl_below(rng, 2);
    for (int pass = 0; pass < 2; ++pass) {
        for (int i = 0; i < WINDOW; ++i) {
            const bool persistent = 0 == tl_below(rng, 3);
            if ((0 == pass) == receives_first) {
                tl_poison(in[i], (size_t) size_of(i));
                (persistent ? MPI_Recv_init : MPI_Irecv)(in[i], size_of(i), MPI_BYTE, peer, TAG + i,
                                                         MPI_COMM_WORLD, &receive[i]);
                leave(&receive[i], persistent, rng);
            } else {
                tl_fill(out[i], (size_t) size_of(i), key_of(tl.rank, i, round));
                (persistent ? MPI_Send_init : MPI_Isend)(out[i], size_of(i), MPI_BYTE, peer, TAG + i,
                                                         MPI_COMM_WORLD, &send[i]);
                leave(&send[i], persistent, rng);
            }
        }
    }
    finish(receive);
    finish(send);
    /* Nothing but its data tells that a freed receive is complete. */
    for (int i = 0; i < WINDOW; ++i) {
        while (tl_differs(in[i], (size_t) size_of(i), key_of(peer, i, round)) < (size_t) size_of(i)) {
            int flag;
            MPI_Iprobe(peer, NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            sched_yield();
        }
    }
    MPI_Barrier(tl.ctl); /* until then the other one's data may be read from here */
}

/* Resident memory, KiB; -1 where the system does not say. */
static long resident(void)
{
    long pages = -1, all;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (NULL != statm) {
        if (2 != fscanf(statm, "%ld %ld", &all, &pages)) {
            pages = -1;
        }
        fclose(statm);
    }
    return pages < 0 ? -1 : pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    if (MPI_THREAD_MULTIPLE
        != tl_start_thread(&argc, &argv, "freed", 120, MPI_THREAD_MULTIPLE)) {
        tl_skip("this Open MPI does not provide MPI_THREAD_MULTIPLE");
        return tl_finish();
    }
    if (2 != tl.size) {
        tl_skip("two ranks are needed");
        return tl_finish();
    }
    const long long rounds = tl_option("--rounds", 400);
    tl_rng_t rng = {.state = 71u + (unsigned) tl.rank};
    pthread_t poller;
    char *in[WINDOW], *out[WINDOW];
    for (int i = 0; i < WINDOW; ++i) {
        in[i] = tl_buf((size_t) size_of(i));
        out[i] = tl_buf((size_t) size_of(i));
    }
    pthread_create(&poller, NULL, poll, NULL);
    /* Twice, if it has grown: what is kept for the next use grows once, what leaks grows again. */
    const long room = 2048 + (long) rounds; /* each of the requests takes about 1 KiB */
    long grown = 0;
    int again = 1;
    for (int turn = 0; turn < 2 && again; ++turn) {
        long before = -1;
        for (long long round = 0; round < rounds; ++round) {
            tl_step("round %lld of %lld, turn %d", round, rounds, turn);
            exchange(in, out, round, &rng);
            before = rounds / 4 == round ? resident() : before;
        }
        grown = before < 0 ? 0 : resident() - before;
        const int mine = grown >= room;
        MPI_Allreduce(&mine, &again, 1, MPI_INT, MPI_MAX, tl.ctl);
    }
    __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
    pthread_join(poller, NULL);
    const char *loaded = getenv("LD_PRELOAD"); /* a sanitizer keeps what is freed */
    CHECK((NULL != loaded && NULL != strstr(loaded, "san")) || grown < room, "%ld KiB more than after a quarter of the rounds", grown);
    for (int i = 0; i < WINDOW; ++i) {
        FREE(in[i]);
        FREE(out[i]);
    }
    return tl_finish();
}
