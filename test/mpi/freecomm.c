/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_THREAD_MULTIPLE: communicators are freed while other threads of both processes are in MPI and take packets for them. Large
 * receives are met by small messages, so that what the receiver offered (RTR) comes when its message is long over: before, while and
 * after the communicator of it is freed, and when its identifier has gone to the next. Meanwhile a thread polls and, with --reads 1, one
 * reads performance variables.
 * All data must be right, no packet may be refused, and each RTR that arrived has one end.
 *
 *   --rounds N     of making and freeing (500)
 *   --makers N     threads that do, each from a communicator of its own (1)
 *   --reads 1      performance variables are read all the time (0) */
#include "testlib.h"

#include <pthread.h>
#include <sched.h>

enum { COMMS = 8, MOST_MAKERS = 4, LARGE = 200000, SMALL = 24, TAG = 5, NEVER = 77 };
enum { OVER, PENDING, WHOLE, KINDS }; /* how a communicator is left */

static long long rounds;
static int stopped; /* atomic */
static MPI_Comm parent[MOST_MAKERS];

static bool is_stopped(void)
{
    return 0 != __atomic_load_n(&stopped, __ATOMIC_ACQUIRE);
}

static void *poll(void *arg)
{
    (void) arg;
    while (!is_stopped()) {
        int flag;
        MPI_Iprobe(tl.rank ^ 1, NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        sched_yield(); /* there may be more threads than processors */
    }
    return NULL;
}

static void *read_variables(void *arg)
{
    (void) arg;
    while (!is_stopped()) {
        const long long most = tl_pvar("pml_spec_posted_most");
        CHECK(most < 1 << 20, "%lld receives waiting at once", most);
        sched_yield();
    }
    return NULL;
}

/* One communicator: its receive or send. OVER: a large receive, a small message. PENDING: the same, and the communicator is freed
 * while it is under way. WHOLE: a message as large as the receive. */
static void start(int kind, bool receives, MPI_Comm comm, char *buf, uint64_t key,
                  MPI_Request *request)
{
    const int size = WHOLE == kind ? LARGE : SMALL;
    if (receives) {
        tl_poison(buf, LARGE);
        MPI_Irecv(buf, LARGE, MPI_BYTE, tl.rank ^ 1, TAG, comm, request);
    } else {
        tl_fill(buf, (size_t) size, key);
        MPI_Isend(buf, size, MPI_BYTE, tl.rank ^ 1, TAG, comm, request);
    }
}

/* Up to about 30 us. */
static void pause_a_moment(tl_rng_t *rng)
{
    volatile unsigned spin = (unsigned) tl_below(rng, 30000);
    while (spin > 0) {
        --spin;
    }
}

static void *make(void *arg)
{
    const int me = (int) (intptr_t) arg;
    tl_rng_t same = {.state = 31u + (unsigned) me}; /* of both processes */
    tl_rng_t own = {.state = 1000u * (unsigned) tl.rank + (unsigned) me};
    char *buf[COMMS];
    for (int i = 0; i < COMMS; ++i) {
        buf[i] = tl_buf(LARGE);
    }
    for (long long round = 0; round < rounds; ++round) {
        MPI_Comm comm[COMMS];
        MPI_Request request[COMMS];
        MPI_Status status[COMMS];
        int kind[COMMS];
        bool receives[COMMS];
        for (int i = 0; i < COMMS; ++i) {
            MPI_Comm_dup(parent[me], &comm[i]);
        }
        /* One of the two sends all, or it is drawn for each. Small messages are gone at once, and so is then their communicator,
         * while the receiver's offers travel. */
        const uint64_t way = tl_below(&same, 4);
        pause_a_moment(&own);
        for (int i = 0; i < COMMS; ++i) {
            const uint64_t drawn = tl_random(&same);
            kind[i] = (int) (drawn % KINDS);
            kind[i] = way < 2 && WHOLE == kind[i] ? OVER : kind[i];
            receives[i] = (way < 2 ? way : drawn >> 32 & 1) == (uint64_t) (tl.rank & 1);
            start(kind[i], receives[i], comm[i], buf[i], tl_key(17, me, i, 0, (uint64_t) round),
                  &request[i]);
            if (PENDING == kind[i]) {
                MPI_Comm_free(&comm[i]);
            }
        }
        MPI_Waitall(COMMS, request, status);
        for (int i = 0; i < COMMS; ++i) {
            const size_t size = WHOLE == kind[i] ? LARGE : SMALL;
            if (receives[i]) {
                CHECK_STATUS(status[i], tl.rank ^ 1, TAG, size);
                VERIFY(buf[i], size, tl_key(17, me, i, 0, (uint64_t) round));
                UNTOUCHED(buf[i], size, LARGE);
            }
        }
        pause_a_moment(&own);
        for (int i = 0; i < COMMS; ++i) {
            if (PENDING != kind[i]) {
                MPI_Comm_free(&comm[i]);
            }
        }
    }
    for (int i = 0; i < COMMS; ++i) {
        FREE(buf[i]);
    }
    return NULL;
}

/* Of all RTRs of the job; all communicators that had some are gone. */
static void check_ends(bool tells)
{
    static const char *const ends[] = {"pml_spec_rtr_used",         "pml_spec_rtr_crossed",
                                       "pml_spec_rtr_mispredicted", "pml_spec_rtr_revoked",
                                       "pml_spec_rtr_too_short",    "pml_spec_rtr_too_old",
                                       "pml_spec_rtr_full",         "pml_spec_rtr_stale",
                                       "pml_spec_rtr_abandoned"};
    long long count[2] = {tl_pvar("pml_spec_rtr_arrived"), 0}, sum[2];
    for (size_t i = 0; i < TL_N(ends); ++i) {
        count[1] += tl_pvar(ends[i]);
    }
    if (count[0] < 0) {
        return; /* another PML */
    }
    MPI_Allreduce(count, sum, 2, MPI_LONG_LONG, MPI_SUM, tl.ctl);
    CHECK(sum[0] == sum[1], "%lld RTRs arrived and %lld ended", sum[0], sum[1]);
    if (tells && 0 == tl.rank) {
        printf("RTRs: %lld arrived\n", sum[0]);
    }
}

int main(int argc, char **argv)
{
    if (MPI_THREAD_MULTIPLE
        != tl_start_thread(&argc, &argv, "freecomm", 120, MPI_THREAD_MULTIPLE)) {
        tl_skip("this Open MPI does not provide MPI_THREAD_MULTIPLE");
        return tl_finish();
    }
    if (0 != tl.size % 2) {
        tl_skip("ranks work in pairs");
        return tl_finish();
    }
    rounds = tl_option("--rounds", 500);
    int makers = (int) tl_option("--makers", 1);
    makers = makers > MOST_MAKERS ? MOST_MAKERS : makers;
    const bool reads = tl_option("--reads", 0) > 0 && tl_pvar("pml_spec_posted_most") >= 0;
    pthread_t poller, reader, maker[MOST_MAKERS];
    check_ends(false); /* counts from here on */
    tl_step("%lld rounds of %d communicators, %d makers", rounds, COMMS, makers);
    for (int i = 0; i < makers; ++i) {
        MPI_Comm_dup(MPI_COMM_WORLD, &parent[i]);
    }
    pthread_create(&poller, NULL, poll, NULL);
    if (reads) {
        pthread_create(&reader, NULL, read_variables, NULL);
    }
    for (intptr_t i = 0; i < makers; ++i) {
        pthread_create(&maker[i], NULL, make, (void *) i);
    }
    for (int i = 0; i < makers; ++i) {
        pthread_join(maker[i], NULL);
    }
    __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
    pthread_join(poller, NULL);
    if (reads) {
        pthread_join(reader, NULL);
    }
    for (int i = 0; i < makers; ++i) {
        MPI_Comm_free(&parent[i]);
    }
    tl_step("the ends of RTRs");
    MPI_Barrier(tl.ctl);
    check_ends(true);
    return tl_finish();
}
