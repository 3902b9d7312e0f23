/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A transport that carries nothing leaves the others alone: while messages go through shared memory, btl/ibx over UDP, which
 * is there too and has no connection, asks the kernel no more often than iw_poll.h says. Polls are counted, per time, so a
 * slow machine changes nothing: with each call of the library there would be at least two for a message. */
#include "testlib.h"

#include "iw_poll.h"

enum { TRIPS = 50000, TAKE_OVERS = 200 };

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "idlewire", 60);
    const double gap = 1e-9 * (double) IW_POLL_MOST;
    const int peer = tl.rank ^ 1;
    CHECK(0 == tl.size % 2, "pairs");
    CHECK(tl_pvar("btl_ibx_receive_calls") >= 0, "btl/ibx is not there");

    tl_step("ping-pong");
    MPI_Barrier(tl.ctl);
    const long long before = tl_pvar("btl_ibx_receive_calls");
    const double start = MPI_Wtime();
    for (int i = 0; i < TRIPS; ++i) {
        char out = (char) i, in = (char) ~i;
        if (0 == tl.rank % 2) {
            MPI_Send(&out, 1, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
            MPI_Recv(&in, 1, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&in, 1, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&out, 1, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        }
        CHECK(in == out, "message %d", i);
    }
    const double seconds = MPI_Wtime() - start;
    const long long polls = tl_pvar("btl_ibx_receive_calls") - before;
    printf("rank %d: %lld polls in %.0f us, %d messages\n", tl.rank, polls, 1e6 * seconds,
           2 * TRIPS);
    /* The agent's thread polls as well when the process got no processor for a while. */
    CHECK((double) polls <= seconds / gap + TAKE_OVERS, "%lld polls in %.0f us", polls,
          1e6 * seconds);
    return tl_finish();
}
