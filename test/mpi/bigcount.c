/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* One message beyond 2 GiB (with --gib 4: beyond 4 GiB), receiver first and sender first: sizes must
 * not be cut to 32 bits anywhere.
 *
 * usage: bigcount [--gib N] */
#include "testlib.h"

int main(int argc, char **argv)
{
    enum { CHUNK = 1 << 20 };
    tl_start(&argc, &argv, "bigcount", 280);
    long long gib = tl_option("--gib", 2);
    int chunks = (int) (gib << 10), tail = 12345, enough;
    size_t n = (size_t) chunks * CHUNK + (size_t) tail;
    /* A buffer on each of two ranks, and some peace for everybody else. */
    enough = tl_available() > (long long) (2 * n / 1024) + (3 << 20) && tl.size >= 2;
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!enough) {
        char text[128];
        snprintf(text, sizeof(text), "two ranks with %lld GiB each and 3 GiB to spare are needed", gib);
        tl_skip(text);
        return tl_finish();
    }
    MPI_Datatype chunk, type;
    MPI_Type_contiguous(CHUNK, MPI_BYTE, &chunk);
    int length[] = {chunks, tail};
    MPI_Aint at[] = {0, (MPI_Aint) chunks * CHUNK};
    MPI_Datatype of[] = {chunk, MPI_BYTE};
    MPI_Type_create_struct(2, length, at, of, &type);
    MPI_Type_commit(&type);

    char *buf = tl.rank < 2 ? tl_buf(n) : NULL;
    if (0 == tl.rank) {
        tl_fill(buf, n, tl_key(100, 0, 1, 0, n));
    }
    for (int order = 0; order < 2; ++order) {
        tl_step("%zu bytes, %s first", n, order ? "sender" : "receiver");
        if (0 == tl.rank) {
            MPI_Request request;
            if (!order) {
                tl_hear(1);
            }
            MPI_Isend(buf, 1, type, 1, order, MPI_COMM_WORLD, &request);
            if (order) {
                tl_tell(1);
            }
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (1 == tl.rank) {
            MPI_Request request;
            MPI_Status status;
            MPI_Count bytes;
            int count;
            tl_poison(buf, n);
            if (order) {
                tl_hear(0);
                MPI_Probe(0, order, MPI_COMM_WORLD, &status);
                MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
                CHECK(bytes == (MPI_Count) n, "probe: expected %zu bytes, got %lld", n,
                      (long long) bytes);
            }
            MPI_Irecv(buf, 1, type, 0, order, MPI_COMM_WORLD, &request);
            if (!order) {
                tl_tell(0);
            }
            MPI_Wait(&request, &status);
            MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
            CHECK(bytes == (MPI_Count) n, "expected %zu bytes, got %lld", n, (long long) bytes);
            MPI_Get_count(&status, type, &count);
            CHECK(1 == count, "expected one element, got %d", count);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK(MPI_UNDEFINED == count, "%zu bytes do not fit an int, but the count is %d", n, count);
            VERIFY(buf, n, tl_key(100, 0, 1, 0, n));
        }
    }
    if (NULL != buf) {
        FREE(buf);
    }
    MPI_Type_free(&chunk);
    MPI_Type_free(&type);
    return tl_finish();
}
