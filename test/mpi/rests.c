/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a burst took goes back to the system when nothing comes or goes for a while, and nothing that is still wanted
 * with it: bursts of messages that nobody has asked for yet, of sizes that are kept and copied in different ways, with
 * pauses between them. Under pml/spec the memory of such messages must have gone back after the last one.
 *
 * usage: rests [--fragments 1] [--threads 1]
 *   --fragments 1  btl/ibx carries the messages: its fragments must have given their buffers back, too
 *   --threads 1    two threads do it at once, each over a communicator of its own */
#include "testlib.h"

#include <pthread.h>

enum { ROUNDS = 4, MESSAGES = 60, SIZES = 5, KEPT = 3, PATIENCE_MS = 20000 };

static const size_t sizes[SIZES] = {1500, 100, 4096, 30000, 60000};

typedef struct lane {
    MPI_Comm comm;
    int number;
} lane_t;

/* The first lie in a slab while they are kept, the second do not, the largest come last. */
static size_t size_of(int i)
{
    return sizes[i / (MESSAGES / SIZES)];
}

static uint64_t key_of(const lane_t *lane, int from, int round, int i)
{
    return tl_key(90 + (uint64_t) lane->number, from, 0, i, (uint64_t) round);
}

/* Nothing is asked for, but MPI is called. */
static void idle(int ms)
{
    for (int i = 0; i < ms; ++i) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, MESSAGES, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
}

/* To the next process, before it wants any. */
static void burst(const lane_t *lane, int round)
{
    MPI_Request request[MESSAGES];
    char *out[MESSAGES];
    const int next = (tl.rank + 1) % tl.size, previous = (tl.rank + tl.size - 1) % tl.size;
    for (int i = 0; i < MESSAGES; ++i) {
        const size_t size = size_of(i);
        out[i] = tl_buf(size);
        tl_fill(out[i], size, key_of(lane, tl.rank, round, i));
        MPI_Isend(out[i], (int) size, MPI_BYTE, next, i, lane->comm, &request[i]);
    }
    idle(20);                                    /* what may come unasked is here */
    for (int i = MESSAGES - 1; i >= KEPT; --i) { /* not in their order */
        const size_t size = size_of(i);
        char *in = tl_buf(size);
        tl_poison(in, size);
        MPI_Recv(in, (int) size, MPI_BYTE, previous, i, lane->comm, MPI_STATUS_IGNORE);
        VERIFY(in, size, key_of(lane, previous, round, i));
        FREE(in);
    }
    idle(120 * round); /* some are still kept when others' memory goes back */
    for (int i = 0; i < KEPT; ++i) {
        char *in = tl_buf(sizes[0]);
        MPI_Recv(in, (int) sizes[0], MPI_BYTE, previous, i, lane->comm, MPI_STATUS_IGNORE);
        VERIFY(in, sizes[0], key_of(lane, previous, round, i));
        FREE(in);
    }
    MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; ++i) {
        FREE(out[i]);
    }
}

static void *bursts(void *argument)
{
    for (int round = 0; round < ROUNDS; ++round) {
        tl_step("burst %d", round);
        burst(argument, round);
    }
    return NULL;
}

/* What came before the counters were first read is given back now, and not counted. */
static bool goes_back(bool fragments, long long rests)
{
    const bool kept = !tl_under_ob1();
    for (int ms = 0; ms < PATIENCE_MS; ms += 2) {
        idle(2);
        const long long unmapped = tl_pvar("pml_spec_slabs_unmapped");
        if ((!kept || (unmapped > 0 && unmapped >= tl_pvar("pml_spec_slabs_mapped")))
            && (!fragments || tl_pvar("btl_ibx_idle_returns") > rests)) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    bool threads = false;
    for (int i = 1; i < argc; ++i) {
        threads |= 0 == strcmp(argv[i], "--threads");
    }
    const int provided = tl_start_thread(&argc, &argv, "rests", 60,
                                         threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    const bool fragments = tl_option("--fragments", 0) > 0;
    tl_pvar("pml_spec_slabs_mapped"); /* counted from the first reading on */
    tl_pvar("pml_spec_slabs_unmapped");
    lane_t lane[2] = {{.comm = MPI_COMM_WORLD}, {.comm = MPI_COMM_NULL, .number = 1}};
    pthread_t thread;
    if (threads && MPI_THREAD_MULTIPLE != provided) {
        tl_skip("no MPI_THREAD_MULTIPLE");
        return tl_finish();
    }
    if (threads) {
        MPI_Comm_dup(MPI_COMM_WORLD, &lane[1].comm);
        pthread_create(&thread, NULL, bursts, &lane[1]);
    }
    bursts(&lane[0]);
    if (threads) {
        pthread_join(thread, NULL);
        MPI_Comm_free(&lane[1].comm);
    }
    tl_step("quiet");
    MPI_Barrier(MPI_COMM_WORLD);
    const long long rests = tl_pvar("btl_ibx_idle_returns");
    CHECK(goes_back(fragments, rests),
          "%lld slabs mapped, %lld given back; fragments rested %lld times, %lld before",
          tl_pvar("pml_spec_slabs_mapped"), tl_pvar("pml_spec_slabs_unmapped"),
          tl_pvar("btl_ibx_idle_returns"), rests);
    return tl_finish();
}
