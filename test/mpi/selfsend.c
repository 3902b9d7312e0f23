/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages to oneself: all sizes, both orders, on MPI_COMM_WORLD and MPI_COMM_SELF, probes, cancel,
 * replace, buffered and synchronous sends, truncation. */
#include "testlib.h"

static void both_orders(MPI_Comm comm, int me, size_t n)
{
    char *in = tl_buf(n), *out = tl_buf(n);
    MPI_Request request[2];
    MPI_Status status[2];
    for (int order = 0; order < 6; ++order) {
        uint64_t key = tl_key(70, me, me, order, n);
        tl_step("to self, %zu bytes, order %d", n, order);
        tl_fill(out, n, key);
        tl_poison(in, n);
        if (0 == order % 2) {
            MPI_Irecv(in, (int) n, MPI_BYTE, order % 3 ? me : MPI_ANY_SOURCE, order, comm, &request[0]);
        }
        if (order < 4) {
            MPI_Isend(out, (int) n, MPI_BYTE, me, order, comm, &request[1]);
        } else {
            MPI_Issend(out, (int) n, MPI_BYTE, me, order, comm, &request[1]);
        }
        if (5 == order) {
            int flag;
            MPI_Test(&request[1], &flag, MPI_STATUS_IGNORE);
            CHECK(!flag, "synchronous to self complete without a receive");
        }
        if (0 != order % 2) {
            MPI_Probe(me, MPI_ANY_TAG, comm, &status[0]);
            CHECK_STATUS(status[0], me, order, n);
            MPI_Irecv(in, (int) n, MPI_BYTE, me, order, comm, &request[0]);
        }
        MPI_Waitall(2, request, status);
        CHECK_STATUS(status[0], me, order, n);
        VERIFY(in, n, key);
    }
    tl_step("sendrecv to self, %zu bytes", n);
    tl_poison(in, n);
    MPI_Sendrecv(out, (int) n, MPI_BYTE, me, 7, in, (int) n, MPI_BYTE, me, 7, comm, status);
    CHECK_STATUS(status[0], me, 7, n);
    VERIFY(in, n, tl_key(70, me, me, 5, n));
    MPI_Sendrecv_replace(in, (int) n, MPI_BYTE, me, 8, me, 8, comm, status);
    CHECK_STATUS(status[0], me, 8, n);
    VERIFY(in, n, tl_key(70, me, me, 5, n));
    FREE(in);
    FREE(out);
}

static void buffered(size_t n)
{
    enum { MESSAGES = 3 };
    tl_step("buffered to self, %zu bytes", n);
    int room = MESSAGES * ((int) n + MPI_BSEND_OVERHEAD), size;
    char *store = tl_buf((size_t) room), *buf = tl_buf(n);
    void *detached;
    MPI_Status status;
    MPI_Buffer_attach(store, room);
    for (int i = 0; i < MESSAGES; ++i) {
        tl_fill(buf, n, tl_key(71, tl.rank, tl.rank, i, n));
        MPI_Bsend(buf, (int) n, MPI_BYTE, tl.rank, 20 + i, MPI_COMM_WORLD);
    }
    for (int i = MESSAGES - 1; i >= 0; --i) {
        MPI_Message message;
        tl_poison(buf, n);
        MPI_Mprobe(MPI_ANY_SOURCE, 20 + i, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(buf, (int) n, MPI_BYTE, &message, &status);
        CHECK_STATUS(status, tl.rank, 20 + i, n);
        VERIFY(buf, n, tl_key(71, tl.rank, tl.rank, i, n));
    }
    MPI_Buffer_detach(&detached, &size);
    FREE(store);
    FREE(buf);
}

static void cancelled(size_t n)
{
    enum { RECEIVES = 5 };
    tl_step("cancel to self, %zu bytes", n);
    char *buf[RECEIVES], *out = tl_buf(n);
    MPI_Request request[RECEIVES];
    MPI_Status status;
    int flag;
    for (int i = 0; i < RECEIVES; ++i) {
        buf[i] = tl_buf(n);
        MPI_Irecv(buf[i], (int) n, MPI_BYTE, tl.rank, 30, MPI_COMM_WORLD, &request[i]);
    }
    for (int i = 0; i < RECEIVES; i += 2) {
        MPI_Cancel(&request[i]);
        MPI_Wait(&request[i], &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(flag, "receive %d from self was not cancelled", i);
    }
    for (int i = 1; i < RECEIVES; i += 2) {
        tl_fill(out, n, tl_key(72, tl.rank, tl.rank, i, n));
        MPI_Send(out, (int) n, MPI_BYTE, tl.rank, 30, MPI_COMM_WORLD);
        MPI_Wait(&request[i], &status);
        CHECK_STATUS(status, tl.rank, 30, n);
        VERIFY(buf[i], n, tl_key(72, tl.rank, tl.rank, i, n));
    }
    for (int i = 0; i < RECEIVES; ++i) {
        if (0 == i % 2) {
            UNTOUCHED(buf[i], 0, n);
        }
        FREE(buf[i]);
    }
    FREE(out);
}

/* Many at once in another order than sent, and between types with and without gaps. */
static void many(size_t n)
{
    enum { MESSAGES = 50 };
    tl_step("%d to self at once, %zu bytes", MESSAGES, n);
    MPI_Request request[2 * MESSAGES];
    char *in[MESSAGES], *out[MESSAGES];
    for (int i = 0; i < MESSAGES; ++i) {
        out[i] = tl_buf(n);
        tl_fill(out[i], n, tl_key(73, tl.rank, tl.rank, i, n));
        MPI_Isend(out[i], (int) n, MPI_BYTE, tl.rank, i, MPI_COMM_WORLD, &request[i]);
    }
    for (int i = MESSAGES - 1; i >= 0; --i) {
        in[i] = tl_buf(n);
        MPI_Irecv(in[i], (int) n, MPI_BYTE, tl.rank, i, MPI_COMM_WORLD, &request[MESSAGES + i]);
    }
    MPI_Waitall(2 * MESSAGES, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; ++i) {
        VERIFY(in[i], n, tl_key(73, tl.rank, tl.rank, i, n));
        FREE(in[i]);
        FREE(out[i]);
    }
}

static void types(int count)
{
    tl_step("types to self, %d ints", count);
    int *in = tl_buf((size_t) count * 2 * sizeof(int)), *out = tl_buf((size_t) count * sizeof(int));
    MPI_Datatype vector;
    MPI_Type_vector(count, 1, 2, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    for (int i = 0; i < count; ++i) {
        out[i] = i * 7;
    }
    for (int order = 0; order < 2; ++order) {
        MPI_Request request[2];
        tl_poison(in, (size_t) count * 2 * sizeof(int));
        if (order) {
            MPI_Isend(out, count, MPI_INT, tl.rank, 40, MPI_COMM_WORLD, &request[0]);
        }
        MPI_Irecv(in, 1, vector, tl.rank, 40, MPI_COMM_WORLD, &request[1]);
        if (!order) {
            MPI_Isend(out, count, MPI_INT, tl.rank, 40, MPI_COMM_WORLD, &request[0]);
        }
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; ++i) {
            if (!CHECK(in[2 * i] == i * 7, "element %d: expected %d, got %d", i, i * 7, in[2 * i])) {
                break;
            }
            if (i + 1 < count) {
                UNTOUCHED(&in[2 * i + 1], 0, sizeof(int));
            }
        }
    }
    MPI_Type_free(&vector);
    FREE(in);
    FREE(out);
}

static void truncated(size_t n, size_t room)
{
    tl_step("%zu bytes to self into %zu", n, room);
    MPI_Comm comm;
    MPI_Request request;
    char *out = tl_buf(n), *in = tl_buf(room), *whole = tl_buf(n);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    tl_fill(out, n, tl_key(74, 0, 0, 0, n));
    for (int order = 0; order < 2; ++order) {
        MPI_Request out_request;
        if (order) {
            MPI_Isend(out, (int) n, MPI_BYTE, 0, 0, comm, &out_request);
        }
        MPI_Irecv(in, (int) room, MPI_BYTE, 0, 0, comm, &request);
        if (!order) {
            MPI_Isend(out, (int) n, MPI_BYTE, 0, 0, comm, &out_request);
        }
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        CHECK_CLASS(MPI_Wait(&out_request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        GUARDS(in);
        tl_poison(whole, n);
        MPI_Irecv(whole, (int) n, MPI_BYTE, 0, 0, comm, &request);
        MPI_Send(out, (int) n, MPI_BYTE, 0, 0, comm);
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        VERIFY(whole, n, tl_key(74, 0, 0, 0, n));
    }
    MPI_Comm_free(&comm);
    FREE(out);
    FREE(in);
    FREE(whole);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "selfsend", 60);
    size_t sizes[TL_MAX_EDGES];
    int n_sizes = tl_edges(sizes);
    for (int i = 0; i < n_sizes; ++i) {
        both_orders(MPI_COMM_WORLD, tl.rank, sizes[i]);
        both_orders(MPI_COMM_SELF, 0, sizes[i]);
    }
    for (size_t i = 0; i < TL_N(tl_few); ++i) {
        buffered(tl_few[i]);
        cancelled(tl_few[i]);
        if (tl_few[i] <= 1 << 20) {
            many(tl_few[i]);
        }
    }
    types(10);
    types(1000);
    types(100000);
    /* ob1 reports no error for the small one, and reads all of a large one beyond the buffer's end. */
    if (!tl_under_ob1()) {
        truncated(100, 50);
        truncated(1 << 20, 100);
        truncated(1 << 20, 500000);
    }
    return tl_finish();
}
