/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What sits on the PML: collectives, blocking and not, small and large, on MPI_COMM_WORLD and on
 * parts of it, with point-to-point traffic of the same processes under way. */
#include "testlib.h"

static void one_size(MPI_Comm comm, int n)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int *a = tl_buf(sizeof(int) * (size_t) n * (size_t) size);
    int *b = tl_buf(sizeof(int) * (size_t) n * (size_t) size);
    MPI_Request request[4];
    tl_step("collectives of %d ints among %d", n, size);

    for (int i = 0; i < n; ++i) {
        a[i] = rank + i;
    }
    MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; ++i) {
        CHECK(b[i] == size * i + size * (size - 1) / 2, "allreduce at %d: %d", i, b[i]);
    }
    MPI_Reduce(a, b, n, MPI_INT, MPI_MAX, size - 1, comm);
    CHECK(rank != size - 1 || b[n - 1] == rank + n - 1, "reduce: %d", b[n - 1]);
    MPI_Bcast(a, n, MPI_INT, size - 1, comm);
    CHECK(a[n - 1] == size - 1 + n - 1, "bcast: %d", a[n - 1]);
    for (int i = 0; i < n; ++i) {
        a[i] = rank * 7 + i;
    }
    MPI_Allgather(a, n, MPI_INT, b, n, MPI_INT, comm);
    for (int i = 0; i < n * size; ++i) {
        CHECK(b[i] == i / n * 7 + i % n, "allgather at %d: %d", i, b[i]);
    }
    for (int i = 0; i < n * size; ++i) {
        a[i] = rank * 1000 + i / n;
    }
    MPI_Alltoall(a, n, MPI_INT, b, n, MPI_INT, comm);
    for (int i = 0; i < n * size; ++i) {
        CHECK(b[i] == i / n * 1000 + rank, "alltoall at %d: %d", i, b[i]);
    }
    MPI_Scan(a, b, 1, MPI_INT, MPI_SUM, comm);
    CHECK(b[0] == 1000 * rank * (rank + 1) / 2, "scan: %d", b[0]);
    MPI_Gather(a, n, MPI_INT, b, n, MPI_INT, 0, comm);
    MPI_Scatter(b, n, MPI_INT, a, n, MPI_INT, 0, comm);
    CHECK(a[0] == rank * 1000, "gather and scatter: %d", a[0]);

    /* Several at once, waited for in another order. */
    int *c = tl_buf(sizeof(int) * (size_t) n * (size_t) size);
    for (int i = 0; i < n * size; ++i) {
        a[i] = rank + i;
    }
    MPI_Ialltoall(a, n, MPI_INT, b, n, MPI_INT, comm, &request[0]);
    MPI_Iallreduce(MPI_IN_PLACE, c, 0, MPI_INT, MPI_SUM, comm, &request[1]);
    MPI_Iallgather(a, n, MPI_INT, c, n, MPI_INT, comm, &request[2]);
    MPI_Ibarrier(comm, &request[3]);
    MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n * size; ++i) {
        CHECK(b[i] == i / n + rank * n + i % n, "ialltoall at %d: %d", i, b[i]);
        CHECK(c[i] == i / n + i % n, "iallgather at %d: %d", i, c[i]);
    }
    FREE(a);
    FREE(b);
    FREE(c);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 3, 100, 1500, 20000, 100000};
    tl_start(&argc, &argv, "collectives", 600);
    const int next = (tl.rank + 1) % tl.size, prev = (tl.rank + tl.size - 1) % tl.size;
    for (size_t i = 0; i < TL_N(counts); ++i) {
        MPI_Comm part;
        MPI_Request request[2];
        enum { BYTES = 100000 };
        char *out = tl_buf(BYTES), *in = tl_buf(BYTES);
        tl_fill(out, BYTES, tl_key(9, tl.rank, next, 0, i));
        MPI_Irecv(in, BYTES, MPI_BYTE, prev, 0, MPI_COMM_WORLD, &request[0]);
        one_size(MPI_COMM_WORLD, counts[i]);
        MPI_Comm_split(MPI_COMM_WORLD, tl.rank % 2, tl.rank, &part);
        MPI_Isend(out, BYTES, MPI_BYTE, next, 0, MPI_COMM_WORLD, &request[1]);
        one_size(part, counts[i]);
        MPI_Comm_free(&part);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        VERIFY(in, BYTES, tl_key(9, prev, tl.rank, 0, i));
        FREE(in);
        FREE(out);
    }
    return tl_finish();
}
