/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Wrong arguments get MPI's error classes and do no harm; the outermost right ones work: the largest
 * tag, MPI_PROC_NULL, null requests, empty lists. */
#include "testlib.h"

static void wrong(MPI_Comm comm, int peer)
{
    char b[16] = {0};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    int flag, n = tl.size;
    tl_step("wrong arguments");
    CHECK_CLASS(MPI_Send(b, 1, MPI_BYTE, n, 0, comm), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Isend(b, 1, MPI_BYTE, -77, 0, comm, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(b, 1, MPI_BYTE, MPI_ANY_SOURCE, 0, comm), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv(b, 1, MPI_BYTE, n, 0, comm, &status), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Irecv(b, 1, MPI_BYTE, -77, 0, comm, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Iprobe(n, 0, comm, &flag, &status), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(b, -1, MPI_BYTE, peer, 0, comm), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Recv(b, -1, MPI_BYTE, peer, 0, comm, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Send(b, 1, MPI_BYTE, peer, -5, comm), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Send(b, 1, MPI_BYTE, peer, MPI_ANY_TAG, comm), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Recv(b, 1, MPI_BYTE, peer, -5, comm, &status), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Probe(peer, -5, comm, &status), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Send(b, 1, MPI_DATATYPE_NULL, peer, 0, comm), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Irecv(b, 1, MPI_DATATYPE_NULL, peer, 0, comm, &request), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Send_init(b, -1, MPI_BYTE, peer, 0, comm, &request), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Recv_init(b, 1, MPI_BYTE, n, 0, comm, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Improbe(n, 0, comm, &flag, &message, &status), MPI_ERR_RANK);
    MPI_Datatype raw;
    MPI_Type_contiguous(2, MPI_INT, &raw);
    CHECK_CLASS(MPI_Send(b, 1, raw, peer, 0, comm), MPI_ERR_TYPE); /* not committed */
    MPI_Type_free(&raw);
}

/* What follows goes wrong at MPI_COMM_WORLD, where calls without a communicator report. */
static void wrong_requests(int peer)
{
    char b[16] = {0};
    MPI_Request request = MPI_REQUEST_NULL, receive;
    MPI_Status status;
    tl_step("wrong requests");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Request_free(&request), MPI_ERR_REQUEST);
    MPI_Irecv(b, 1, MPI_BYTE, peer, 3, tl.ctl, &receive);
    CHECK_CLASS(MPI_Start(&receive), MPI_ERR_REQUEST); /* not persistent */
    MPI_Cancel(&receive);
    MPI_Wait(&receive, &status);
    CHECK_CLASS(MPI_Send(b, 1, MPI_BYTE, peer, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void nobody(void)
{
    char b[8] = "nobody";
    MPI_Request request[4];
    MPI_Status status;
    MPI_Message message;
    int flag, count;
    tl_step("MPI_PROC_NULL");
    MPI_Send(b, 8, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Ssend(b, 8, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(b, 8, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(MPI_PROC_NULL == status.MPI_SOURCE && MPI_ANY_TAG == status.MPI_TAG && 0 == count,
          "receive from nobody: source %d tag %d count %d", status.MPI_SOURCE, status.MPI_TAG, count);
    CHECK(0 == strcmp(b, "nobody"), "a receive from nobody wrote something");
    MPI_Irecv(b, 8, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(b, 8, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request[1]);
    MPI_Send_init(b, 8, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request[2]);
    MPI_Recv_init(b, 8, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request[3]);
    MPI_Startall(2, &request[2]);
    MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
    MPI_Request_free(&request[2]);
    MPI_Request_free(&request[3]);
    MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &status);
    CHECK(flag && MPI_PROC_NULL == status.MPI_SOURCE, "a probe of nobody must be true at once");
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
    CHECK(MPI_MESSAGE_NO_PROC == message, "a matched probe of nobody must say so");
    MPI_Mrecv(b, 8, MPI_BYTE, &message, &status);
    CHECK(MPI_MESSAGE_NULL == message && MPI_PROC_NULL == status.MPI_SOURCE,
          "receive of no message: source %d", status.MPI_SOURCE);
}

static void nothing(void)
{
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status[2];
    int flag = 0, index = 0, count = 7, indices[2];
    tl_step("null requests");
    MPI_Wait(&none[0], &status[0]);
    CHECK(MPI_ANY_SOURCE == status[0].MPI_SOURCE, "null request: source %d", status[0].MPI_SOURCE);
    MPI_Test(&none[0], &flag, status);
    CHECK(flag, "a null request is complete");
    MPI_Waitall(2, none, status);
    MPI_Waitany(2, none, &index, status);
    CHECK(MPI_UNDEFINED == index, "waitany on nothing: %d", index);
    MPI_Waitsome(2, none, &count, indices, status);
    CHECK(MPI_UNDEFINED == count, "waitsome on nothing: %d", count);
    MPI_Testall(2, none, &flag, status);
    CHECK(flag, "testall on nothing must be true");
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
}

/* The largest and the smallest tag are different and work. */
static void all_tags(int src, int dst)
{
    int *bound, found;
    tl_step("the largest tag, from %d to %d", src, dst);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
    if (!CHECK(found && *bound >= 32767, "MPI_TAG_UB is missing or too small")) {
        return;
    }
    int tags[] = {*bound, 0, *bound - 1, *bound / 2, 1, 65535, 65536, 32768};
    for (int k = 0; k < 2; ++k) {
        size_t n = k ? 100000 : 10;
        char *buf = tl_buf(n);
        MPI_Request request[TL_N(tags)];
        char *out[TL_N(tags)];
        for (size_t i = 0; i < TL_N(tags); ++i) {
            uint64_t key = tl_key(110, src, dst, tags[i], n);
            if (tl.rank == src) {
                out[i] = tl_buf(n);
                tl_fill(out[i], n, key);
                MPI_Isend(out[i], (int) n, MPI_BYTE, dst, tags[i], MPI_COMM_WORLD, &request[i]);
            }
        }
        for (size_t i = TL_N(tags); i-- > 0;) {
            MPI_Status status;
            if (tl.rank == dst) {
                MPI_Recv(buf, (int) n, MPI_BYTE, src, tags[i], MPI_COMM_WORLD, &status);
                CHECK_STATUS(status, src, tags[i], n);
                VERIFY(buf, n, tl_key(110, src, dst, tags[i], n));
            }
        }
        for (size_t i = 0; tl.rank == src && i < TL_N(tags); ++i) {
            MPI_Wait(&request[i], MPI_STATUS_IGNORE);
            FREE(out[i]);
        }
        FREE(buf);
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "errargs", 30);
    int peer = (tl.rank + 1) % tl.size;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; ++i) {
        wrong(comm, peer);
        wrong_requests(peer);
        nobody();
        nothing();
        for (int src = 0; src < tl.size && tl.size > 1; ++src) {
            all_tags(src, (src + 1) % tl.size);
        }
    }
    MPI_Comm_free(&comm);
    return tl_finish();
}
