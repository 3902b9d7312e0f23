/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Two processes that exchange, Irecv, Isend, compute, Wait, and whose RTRs may cross the RTS: sends that wait a moment for
 * an RTR get it; or Isend, Irecv, compute, Wait, where receives that wait for an RTS get it. Every byte at its place in any case.
 *   --meets 1   they wait, and are met (of data that moves by itself)
 *   --meets 0   they never wait
 *   --sends-first 1   Isend, Irecv
 *   --polls 1   nothing of that, but what crosses all the same: an Isend that found an RTR and so need not poll for one
 *               polls once if an RTR of its own process is out, and fetches the RTS that lies there (on one host) */
#include "testlib.h"

#include <sched.h>
#include <stdatomic.h>

enum {
    POLLS = 20,
    LENGTH = 1 << 20,
    LEAST = 100,
    MOST = 20000, /* of about a millisecond each */
    CROSSINGS = 20,
    SECONDS = 8, /* where nothing has to be met */
    COMPUTE_US = 500
};

static void compute(void)
{
    const double end = MPI_Wtime() + COMPUTE_US * 1e-6;
    while (MPI_Wtime() < end) {}
}

static long long both(const char *counter)
{
    long long n = tl_pvar(counter), sum;
    MPI_Allreduce(&n, &sum, 1, MPI_LONG_LONG, MPI_SUM, tl.ctl);
    return sum;
}

/* Without a call of MPI, which would poll; but the other may wait for something that is sent by such a call only. */
static void await(const atomic_int *flag, int value)
{
    const double patience = MPI_Wtime() + 0.1;
    int ignored;
    while (atomic_load(flag) < value) {
        sched_yield();
        if (MPI_Wtime() > patience) {
            MPI_Iprobe(1, 0, tl.ctl, &ignored, MPI_STATUS_IGNORE);
        }
    }
}

/* Rank 1's RTS of tag 7 comes to rank 0 after its Irecv of tag 5 and before its Isend of tag 6. */
static void polls(void)
{
    enum { MEETS = 5, GOES = 6, CROSSES = 7 };
    const bool counts = tl_pvar("pml_spec_unexpected") >= 0;
    const int other = tl.rank ^ 1, mine = 0 == tl.rank ? GOES : MEETS, its = mine ^ GOES ^ MEETS;
    char *in = tl_buf(LENGTH), *out = tl_buf(LENGTH), *third = tl_buf(LENGTH);
    atomic_int *flag = NULL;
    MPI_Win win;
    MPI_Aint size;
    int unit, fetched = 0;
    MPI_Win_allocate_shared(0 == tl.rank ? 64 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &flag, &win);
    MPI_Win_shared_query(win, 0, &size, &unit, &flag);
    for (int i = 1; i <= POLLS; ++i) {
        MPI_Request request[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        tl_step("poll %d", i);
        tl_fill(out, LENGTH, tl_key(151, tl.rank, other, mine, (uint64_t) i));
        MPI_Irecv(in, LENGTH, MPI_BYTE, other, its, MPI_COMM_WORLD, &request[0]);
        MPI_Barrier(tl.ctl); /* both RTRs are there */
        if (1 == tl.rank) {
            tl_fill(third, LENGTH, tl_key(151, 1, 0, CROSSES, (uint64_t) i));
            MPI_Isend(third, LENGTH, MPI_BYTE, 0, CROSSES, MPI_COMM_WORLD, &request[2]);
            atomic_store(flag, i);
        } else {
            await(flag, i);
            const long long before = tl_pvar("pml_spec_unexpected");
            MPI_Isend(out, LENGTH, MPI_BYTE, 1, mine, MPI_COMM_WORLD, &request[1]);
            fetched += tl_pvar("pml_spec_unexpected") > before;
            MPI_Irecv(third, LENGTH, MPI_BYTE, 1, CROSSES, MPI_COMM_WORLD, &request[2]);
        }
        if (1 == tl.rank) {
            MPI_Isend(out, LENGTH, MPI_BYTE, 0, mine, MPI_COMM_WORLD, &request[1]);
        }
        MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
        VERIFY(in, LENGTH, tl_key(151, other, tl.rank, its, (uint64_t) i));
        VERIFY(third, LENGTH, tl_key(151, 1, 0, CROSSES, (uint64_t) i));
    }
    if (counts && 0 == tl.rank) {
        printf("fetched by the send: %d of %d\n", fetched, POLLS);
        /* Acknowledgements may lie before the RTS: a poll does not end with them. */
        CHECK(fetched >= POLLS / 2, "%d sends of %d polled", fetched, POLLS);
        if (fetched < POLLS / 2) {
            tl_print_counters("pml_spec_");
            tl_print_counters("btl_ibx_");
        }
    }
    MPI_Win_free(&win);
    FREE(in);
    FREE(out);
    FREE(third);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "patience", 60);
    if (0 != tl_option("--polls", 0)) {
        polls();
        return tl_finish();
    }
    const int meets = (int) tl_option("--meets", -1), other = tl.rank ^ 1;
    const bool sends_first = 0 != tl_option("--sends-first", 0);
    char *in = tl_buf(LENGTH), *out = tl_buf(LENGTH);
    const double end = MPI_Wtime() + SECONDS;
    const bool counts = tl_pvar("pml_spec_patience_waits") >= 0;
    int go_on = tl.size == 2;
    long long crossed = 0, waits = 0, met = 0;
    for (int i = 0; go_on; ++i) {
        MPI_Request request[2];
        tl_step("round %d", i);
        tl_fill(out, LENGTH, tl_key(150, tl.rank, other, 0, (uint64_t) i));
        MPI_Barrier(tl.ctl);
        for (int call = 0; call < 2; ++call) {
            if (sends_first == (0 == call)) {
                MPI_Isend(out, LENGTH, MPI_BYTE, other, 5, MPI_COMM_WORLD, &request[call]);
            } else {
                MPI_Irecv(in, LENGTH, MPI_BYTE, other, 5, MPI_COMM_WORLD, &request[call]);
            }
        }
        compute();
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        VERIFY(in, LENGTH, tl_key(150, other, tl.rank, 0, (uint64_t) i));
        if (counts) {
            crossed = both("pml_spec_rtr_crossed");
            waits = both("pml_spec_patience_waits");
            met = both("pml_spec_patience_met");
        }
        const bool is_seen =
            !counts || (1 == meets ? met > 0 : crossed >= CROSSINGS || sends_first);
        go_on = i < LEAST || (i < MOST && !is_seen && (1 == meets || MPI_Wtime() < end));
        MPI_Bcast(&go_on, 1, MPI_INT, 0, tl.ctl);
    }
    if (counts) {
        /* Speculation stops where too many cross; then no send waits any more. */
        CHECK(1 != meets || (!sends_first && crossed < CROSSINGS) || met > 0,
              "%lld RTRs crossed, %lld requests waited, none was met", crossed, waits);
        CHECK(0 != meets || 0 == waits, "%lld requests waited", waits);
    }
    FREE(in);
    FREE(out);
    return tl_finish();
}
