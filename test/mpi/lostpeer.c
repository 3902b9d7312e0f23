/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A process falls silent (it is stopped; with --how kill it is killed, and mpirun is told to let the others go on) while
 * others have all kinds of requests with it: each of them ends in an error in bounded time, requests between the others
 * are not concerned, and what is asked of it later fails at once. For transports that notice a silent process; the driver
 * is deadpeer.pl. The last line of each process that lives is 'rank N: as it should be'. */
#include "testlib.h"

enum { LARGE = 1 << 20, MIDDLE = 200000, SMALL = 8, REQUESTS = 9 };

/* Every code but success is an error here: which class, MPI leaves open. */
static void expect_error(int code, const char *what)
{
    CHECK(MPI_SUCCESS != code, "%s succeeded with a process that is silent", what);
}

static void between_the_living(int other, char *buf)
{
    for (int i = 0; i < 20; ++i) {
        const int size = i % 2 ? LARGE : SMALL;
        MPI_Status status;
        int code = MPI_Sendrecv(buf, size, MPI_BYTE, other, 50, buf + LARGE, LARGE, MPI_BYTE, other, 50,
                                MPI_COMM_WORLD, &status);
        CHECK(MPI_SUCCESS == code, "an exchange of %d bytes between processes that live ended with %d", size, code);
    }
}

int main(int argc, char **argv)
{
    const bool is_killed = argc > 2 && 0 == strcmp(argv[1], "--how") && 0 == strcmp(argv[2], "kill");
    tl_start(&argc, &argv, "lostpeer", 60);
    char *buf = tl_buf(2 * LARGE);
    const int silent = 2;
    if (3 != tl.size) {
        tl_skip("lostpeer is for three processes");
        return tl_finish();
    }
    memset(buf, 0, 2 * LARGE);
    long pid = (long) getpid();
    MPI_Bcast(&pid, 1, MPI_LONG, silent, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm pair; /* without the process that falls silent */
    MPI_Comm_split(MPI_COMM_WORLD, tl.rank == silent, 0, &pair);
    MPI_Barrier(MPI_COMM_WORLD);
    if (silent == tl.rank) {
        alarm(0);
        raise(is_killed ? SIGKILL : SIGSTOP);
        _exit(0);
    }

    tl_step("requests that wait for the silent process");
    MPI_Request request[REQUESTS], apart;
    static const char *const what[REQUESTS] = {"a large receive",
                                               "a small receive",
                                               "a receive from any source",
                                               "a large send",
                                               "a synchronous send of nothing",
                                               "a synchronous send of a type with gaps",
                                               "a persistent receive",
                                               "a receive with any tag",
                                               "a large synchronous send"};
    MPI_Datatype gaps;
    MPI_Type_vector(MIDDLE / 2, 1, 2, MPI_BYTE, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Irecv(buf, LARGE, MPI_BYTE, silent, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Irecv(buf, SMALL, MPI_BYTE, silent, 2, MPI_COMM_WORLD, &request[1]);
    MPI_Irecv(buf, SMALL, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &request[2]);
    MPI_Isend(buf, LARGE, MPI_BYTE, silent, 4, MPI_COMM_WORLD, &request[3]);
    MPI_Issend(buf, 0, MPI_BYTE, silent, 5, MPI_COMM_WORLD, &request[4]);
    MPI_Issend(buf, 1, gaps, silent, 6, MPI_COMM_WORLD,
               &request[5]); /* another may be packed, and is complete then */
    MPI_Recv_init(buf, MIDDLE, MPI_BYTE, silent, 7, MPI_COMM_WORLD, &request[6]);
    MPI_Start(&request[6]);
    MPI_Irecv(buf, LARGE, MPI_BYTE, silent, MPI_ANY_TAG, MPI_COMM_WORLD, &request[7]);
    MPI_Issend(buf, LARGE, MPI_BYTE, silent, 8, MPI_COMM_WORLD, &request[8]);
    MPI_Irecv(buf + LARGE, SMALL, MPI_BYTE, MPI_ANY_SOURCE, 9, pair, &apart);
    for (int i = 0; i < REQUESTS; ++i) {
        tl_step("waiting for %s", what[i]);
        expect_error(MPI_Wait(&request[i], MPI_STATUS_IGNORE), what[i]);
    }

    tl_step("later requests");
    expect_error(MPI_Send(buf, LARGE, MPI_BYTE, silent, 11, MPI_COMM_WORLD), "a later large send");
    expect_error(MPI_Send(buf, SMALL, MPI_BYTE, silent, 11, MPI_COMM_WORLD), "a later small send");
    expect_error(MPI_Recv(buf, LARGE, MPI_BYTE, silent, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "a later receive");
    expect_error(MPI_Probe(silent, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "a probe");
    expect_error(MPI_Start(&request[6]) + MPI_Wait(&request[6], MPI_STATUS_IGNORE), "a persistent receive once more");
    MPI_Request_free(&request[6]);
    MPI_Request freed;
    if (MPI_SUCCESS == MPI_Irecv(buf, LARGE, MPI_BYTE, silent, 14, MPI_COMM_WORLD, &freed)) {
        MPI_Request_free(&freed); /* nobody to be told: the job goes on */
    }

    tl_step("between the living");
    between_the_living(1 - tl.rank, buf);
    MPI_Request out;
    MPI_Isend(buf, SMALL, MPI_BYTE, 1 - tl.rank, 9, pair, &out);
    CHECK(MPI_SUCCESS == MPI_Wait(&apart, MPI_STATUS_IGNORE), "a receive from any source was ended in a communicator "
          "that the silent process is no member of");
    MPI_Wait(&out, MPI_STATUS_IGNORE);
    int sum = 0, one = 1;
    CHECK(MPI_SUCCESS == MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, pair) && 2 == sum, "a reduction: %d", sum);

    if (0 == tl.errors) {
        printf("rank %d: as it should be\n", tl.rank);
        fflush(stdout);
    }
    MPI_Barrier(pair);
    if (0 == tl.rank && !is_killed) {
        kill((pid_t) pid, SIGKILL);
    }
    _exit(tl.errors > 0); /* the runtime's own end would wait for the silent process */
}
