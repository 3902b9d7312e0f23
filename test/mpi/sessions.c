/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sessions, and communicators that are made from groups: there each process has a number of its own
 * for the communicator. To make these numbers differ, some ranks make communicators of their own
 * first. All protocols, wildcards, cancelled offers, duplicates and splits of such communicators;
 * sessions that begin and end while others go on. Needs MPI 4's functions (Open MPI 5.0). */
#include "testlib.h"

#if OMPI_MAJOR_VERSION < 5

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "sessions", 120);
    tl_skip("this Open MPI has no sessions");
    return tl_finish();
}

#else

#    define LARGE (1 << 20)

static MPI_Comm from_group(MPI_Session session, const char *set, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, set, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    return comm;
}

/* Every rank of the communicator with every other: a ring at each distance, each size. */
static void exchange(MPI_Comm comm, int salt)
{
    static unsigned char out[LARGE], in[LARGE];
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int distance = 1; distance < size; ++distance) {
        const int to = (rank + distance) % size, from = (rank + size - distance) % size;
        for (int length = 1; length <= LARGE; length *= 32) {
            MPI_Request request[2];
            MPI_Status status;
            memset(out, rank * 16 + salt, (size_t) length);
            memset(in, 255, (size_t) length);
            MPI_Irecv(in, length, MPI_BYTE, length & 32 ? MPI_ANY_SOURCE : from, 7, comm, &request[0]);
            MPI_Barrier(comm); /* so that the receiver is first, in half of the cases */
            MPI_Isend(out, length, MPI_BYTE, to, 7, comm, &request[1]);
            MPI_Wait(&request[1], MPI_STATUS_IGNORE);
            MPI_Wait(&request[0], &status);
            CHECK(from == status.MPI_SOURCE, "distance %d, length %d: source %d instead of %d",
                     distance, length, status.MPI_SOURCE, from);
            CHECK((unsigned char) (from * 16 + salt) == in[0] && in[0] == in[length - 1],
                     "distance %d, length %d: wrong data", distance, length);
            MPI_Barrier(comm);
        }
    }
}

/* A receive whose buffer was offered is taken back. */
static void cancel(MPI_Comm comm)
{
    static char in[LARGE];
    int rank, size, was;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Irecv(in, LARGE, MPI_BYTE, (rank + 1) % size, 8, comm, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &was);
    CHECK(was, "a receive that nobody serves was not cancelled");
    /* The process that was offered the buffer must say that it will not write: making the next
     * communicator would be no progress for it. */
    MPI_Barrier(comm);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "sessions", 120);
    MPI_Session first, second;
    MPI_Comm own[8], a, b, c, half;
    const int extra = 3 * (tl.rank % 3);

    for (int i = 0; i < extra; ++i) {
        MPI_Comm_dup(MPI_COMM_SELF, &own[i]);
    }
    tl_step("sessions");
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &first);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second);
    tl_step("a communicator from a group");
    a = from_group(first, "mpi://WORLD", "one");
    exchange(a, 1);
    cancel(a);
    tl_step("another, by another session");
    b = from_group(second, "mpi://WORLD", "two");
    exchange(b, 2);
    exchange(a, 3);
    tl_step("a duplicate and a split of it");
    MPI_Comm_dup(b, &c);
    exchange(c, 4);
    MPI_Comm_split(b, tl.rank % 2, -tl.rank, &half);
    exchange(half, 5);
    MPI_Comm_free(&half);
    MPI_Comm_free(&b);
    MPI_Session_finalize(&second);
    tl_step("the others go on");
    exchange(c, 6);
    exchange(a, 7);
    cancel(c);
    exchange(MPI_COMM_WORLD, 8);
    MPI_Comm_free(&c);
    MPI_Comm_free(&a);
    MPI_Session_finalize(&first);
    for (int i = 0; i < extra; ++i) {
        MPI_Comm_free(&own[i]);
    }
    return tl_finish();
}

#endif
