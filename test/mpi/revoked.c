/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A communicator is revoked (Open MPI 5.0 with --with-ft ulfm) while messages are on their way, and nobody dies: a receive
 * ends with its message or with the error, nothing is written into its buffer after that, and the job goes on.
 *
 *   --rounds N   default 60 */
#include "testlib.h"

#if OMPI_MAJOR_VERSION < 5

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "revoked", 60);
    tl_skip("this Open MPI cannot revoke a communicator");
    return tl_finish();
}

#else

#    include <mpi-ext.h>

enum { RECEIVES = 3, LARGE = 4 << 20 };

static char *buf[RECEIVES];
static int withdrawn, gave_up;
static tl_rng_t random_state;

static uint64_t key_of(int message, int round)
{
    return tl_key(44, 1, 0, message, (uint64_t) round);
}

/* Offers are out for some of the receives, in use for others, and taken back for the rest. */
static void receive(MPI_Comm comm, int round)
{
    MPI_Request request[RECEIVES];
    bool ended[RECEIVES];
    for (int i = 0; i < RECEIVES; ++i) {
        tl_poison(buf[i], LARGE);
        MPI_Irecv(buf[i], LARGE, MPI_BYTE, 1, 7, comm, &request[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double until = MPI_Wtime() + 1e-6 * (double) tl_below(&random_state, 3000);
    while (MPI_Wtime() < until) {
        int flag;
        if (round % 2) {
            MPI_Iprobe(1, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
    }
    MPIX_Comm_revoke(comm);
    for (int i = 0; i < RECEIVES; ++i) {
        const int class = tl_class(MPI_Wait(&request[i], MPI_STATUS_IGNORE));
        ended[i] = MPI_SUCCESS != class;
        if (ended[i]) {
            CHECK(MPIX_ERR_REVOKED == class, "the error is of class %d", class);
            tl_poison(buf[i], LARGE);
            ++withdrawn;
        }
    }
    tl_hear(1); /* who has sent what it could */
    int came = 0;
    for (int i = 0; i < RECEIVES; ++i) {
        if (ended[i]) {
            UNTOUCHED(buf[i], 0, LARGE);
        } else {
            /* The messages keep their order. One is missing if its receive, or the one in front of it, had ended. */
            while (came < i && tl_differs(buf[i], LARGE, key_of(came, round)) < LARGE) {
                ++came;
            }
            VERIFY(buf[i], LARGE, key_of(came++, round));
        }
    }
}

static void send(MPI_Comm comm, int round)
{
    MPI_Request request[RECEIVES];
    for (int i = 0; i < RECEIVES; ++i) {
        tl_fill(buf[i], LARGE, key_of(i, round));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    usleep((useconds_t) tl_below(&random_state, 300));
    for (int i = 0; i < RECEIVES; ++i) {
        if (MPI_SUCCESS != MPI_Isend(buf[i], LARGE, MPI_BYTE, 0, 7, comm, &request[i])) {
            request[i] = MPI_REQUEST_NULL; /* revoked already */
        }
    }
    for (int i = 0; i < RECEIVES; ++i) {
        (void) MPI_Wait(&request[i], MPI_STATUS_IGNORE);
    }
    tl_tell(0);
}

/* The sender revokes and gives up before the receive is posted, which then asks for data that does not come. Nobody waits for a
 * freed receive, so its error must not end the job. */
static void asks_late(MPI_Comm comm, int round)
{
    MPI_Request request;
    if (0 == tl.rank) {
        usleep(3000); /* the announcement of the message comes, and the revocation behind it */
        tl_poison(buf[0], LARGE);
        if (MPI_SUCCESS == MPI_Irecv(buf[0], LARGE, MPI_BYTE, 1, 8, comm, &request)) {
            if (round % 2) {
                MPI_Request_free(&request);
            } else {
                const int class = tl_class(MPI_Wait(&request, MPI_STATUS_IGNORE));
                CHECK(MPI_SUCCESS == class || MPIX_ERR_REVOKED == class, "the error is of class %d", class);
                if (MPI_SUCCESS == class) {
                    VERIFY(buf[0], LARGE, key_of(9, round));
                }
                gave_up += MPI_SUCCESS != class;
            }
        }
        tl_hear(1);
        return;
    }
    tl_fill(buf[0], LARGE, key_of(9, round));
    const int sent = MPI_Isend(buf[0], LARGE, MPI_BYTE, 0, 8, comm, &request);
    MPIX_Comm_revoke(comm);
    if (MPI_SUCCESS == sent) {
        (void) MPI_Wait(&request, MPI_STATUS_IGNORE);
        tl_poison(buf[0], LARGE); /* what was not sent is the program's again */
    }
    tl_tell(0);
}

/* Calls part with a communicator that is its alone. */
static void with_comm(void (*part)(MPI_Comm comm, int round), int round)
{
    MPI_Comm comm, rest;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    part(comm, round);
    MPIX_Comm_shrink(comm, &rest);
    MPI_Comm_free(&comm);
    MPI_Barrier(rest);
    MPI_Comm_free(&rest);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "revoked", 60);
    const int rounds = (int) tl_option("rounds", 60);
    random_state = (tl_rng_t){(uint64_t) tl.rank + 1};
    for (int i = 0; i < RECEIVES; ++i) {
        buf[i] = tl_buf(LARGE);
    }
    for (int round = 0; round < rounds; ++round) {
        tl_step("round %d", round);
        with_comm(0 == tl.rank ? receive : send, round);
        tl_step("a receive that asks late, round %d", round);
        with_comm(asks_late, round);
    }
    if (0 == tl.rank) {
        printf("%d of %d receives ended with the error, and %d of %d that asked late\n", withdrawn,
               rounds * RECEIVES, gave_up, (rounds + 1) / 2);
    }
    for (int i = 0; i < RECEIVES; ++i) {
        FREE(buf[i]);
    }
    return tl_finish();
}

#endif
