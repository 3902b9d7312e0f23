/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Two processes that exchange, Irecv, Isend, compute, Wait, and whose RTRs may cross the RTS: sends that wait a moment for
 * an RTR get it; or Isend, Irecv, compute, Wait, where receives that wait for an RTS get it. Every byte at its place in any case.
 *   --meets 1   they wait, and are met (of data that moves by itself)
 *   --meets 0   they never wait
 *   --sends-first 1   Isend, Irecv */
#include "testlib.h"

enum { LENGTH = 1 << 20, LEAST = 100, MOST = 20000, CROSSINGS = 20, SECONDS = 8, COMPUTE_US = 500 };

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

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "patience", 60);
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
        go_on = i < LEAST || (i < MOST && !is_seen && MPI_Wtime() < end);
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
