/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A process dies and the others go on (User-Level Failure Mitigation, Open MPI 5.0 with
 * --with-ft ulfm): whoever waits for it - in a receive, a large send, a probe, a collective call -
 * gets an error instead of waiting for ever; the rest makes a communicator without it and uses it.
 *
 *   --how receive|send|rendezvous|wildcard|probe|match   what the others do when it happens */
#include "testlib.h"

#if OMPI_MAJOR_VERSION < 5

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "survive", 60);
    tl_skip("this Open MPI cannot go on without a process");
    return tl_finish();
}

#else

#    include <mpi-ext.h>

enum { LARGE = 4 << 20 };

static const char *how(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; ++i) {
        if (0 == strcmp(argv[i], "--how")) {
            return argv[i + 1];
        }
    }
    return "receive";
}

/* What rank `dead` leaves unanswered; the class of the error that it ends with. */
static int waiting(const char *what, int dead, MPI_Comm comm)
{
    static char buf[LARGE], second[LARGE];
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status[2];
    int rc = MPI_SUCCESS;
    if (0 == strcmp(what, "receive")) {
        /* Its buffer is offered, and the offer can no more be taken back. */
        MPI_Irecv(buf, LARGE, MPI_BYTE, dead, 1, comm, &request[0]);
        MPI_Irecv(second, 8, MPI_BYTE, dead, 2, comm, &request[1]);
    } else if (0 == strcmp(what, "send") || 0 == strcmp(what, "rendezvous")) {
        MPI_Isend(buf, LARGE, MPI_BYTE, dead, 1, comm, &request[0]);
        MPI_Issend(second, 8, MPI_BYTE, dead, 2, comm, &request[1]);
    } else if (0 == strcmp(what, "wildcard")) {
        rc = MPI_Recv(buf, LARGE, MPI_BYTE, MPI_ANY_SOURCE, 1, comm, &status[0]);
    } else {
        rc = MPI_Probe(dead, 1, comm, &status[0]);
    }
    if (MPI_REQUEST_NULL != request[0]) {
        rc = MPI_Wait(&request[0], &status[0]);
        const int also = MPI_Wait(&request[1], &status[1]);
        CHECK(MPI_SUCCESS != also, "the second request ended without an error");
    }
    return tl_class(rc);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "survive", 60);
    const char *what = how(argc, argv);
    const int dead = tl.size - 1;
    int sum = 0;
    MPI_Comm rest;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* Everybody has talked to everybody. */
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, (char[1024]){0}, 8, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (dead == tl.rank) {
        usleep(300 * 1000);
        raise(SIGKILL);
    }
    tl_step("waiting for rank %d: %s", dead, what);
    const int error = waiting(what, dead, MPI_COMM_WORLD);
    CHECK(MPIX_ERR_PROC_FAILED == error || MPIX_ERR_PROC_FAILED_PENDING == error
              || MPIX_ERR_REVOKED == error,
          "the error is of class %d", error);
    tl_step("revoke");
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    CHECK(MPIX_ERR_REVOKED == tl_class(MPI_Send(&sum, 1, MPI_INT, 0, 3, MPI_COMM_WORLD)),
          "a revoked communicator takes a message");
    tl_step("shrink");
    MPIX_Comm_shrink(MPI_COMM_WORLD, &rest);
    int size;
    MPI_Comm_size(rest, &size);
    CHECK(tl.size - 1 == size, "%d processes are left", size);
    tl_step("work of the rest");
    static char large[LARGE];
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, rest);
    CHECK(size == sum, "the sum of %d ones is %d", size, sum);
    MPI_Bcast(large, LARGE, MPI_BYTE, 0, rest);
    MPI_Allreduce(&tl.errors, &sum, 1, MPI_INT, MPI_SUM, rest);
    if (0 == tl.rank) {
        printf("%s\n", 0 == sum ? "No errors" : "errors");
        fflush(stdout);
    }
    MPI_Barrier(rest);
    MPI_Comm_free(&rest);
    MPI_Finalize();
    return 0 != sum;
}

#endif
