/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages longer than the receive's buffer: MPI_ERR_TRUNCATE on that receive and on nothing else.
 * The guards around the buffer stay, messages before and after are unharmed, the sender notices
 * nothing. In both orders of arrival, for every pair of protocols that message and buffer suggest.
 *
 *   --threads 1    with MPI_THREAD_MULTIPLE */
#include "testlib.h"

enum { RECV, WAIT, TEST, WAITALL, MRECV, SENDRECV, WAYS };
static const char *way_name[] = {"recv", "wait", "test", "waitall", "mrecv", "sendrecv"};
static MPI_Comm comm; /* returns errors */
static bool helped;   /* another thread may end requests: the progress agent */

/* Receive one message that does not fit; returns the error class that the call gave. */
static int receive(int way, char *buf, size_t room, int src, MPI_Status *status, bool tell)
{
    MPI_Request request;
    MPI_Message message;
    int rc, flag = 0;
    switch (way) {
    case RECV:
        if (tell) {
            tl_tell(src);
        }
        return tl_class(MPI_Recv(buf, (int) room, MPI_BYTE, src, 1, comm, status));
    case SENDRECV:
        if (tell) {
            tl_tell(src);
        }
        return tl_class(MPI_Sendrecv(NULL, 0, MPI_BYTE, src, 9, buf, (int) room, MPI_BYTE, src, 1,
                                     comm, status));
    case MRECV:
        if (tell) {
            tl_tell(src);
        }
        MPI_Mprobe(src, 1, comm, &message, MPI_STATUS_IGNORE);
        return tl_class(MPI_Mrecv(buf, (int) room, MPI_BYTE, &message, status));
    default:
        break;
    }
    MPI_Irecv(buf, (int) room, MPI_BYTE, src, 1, comm, &request);
    if (tell) {
        tl_tell(src);
    }
    if (WAITALL == way) {
        rc = MPI_Waitall(1, &request, status);
        CHECK(MPI_ERR_IN_STATUS == tl_class(rc), "waitall: expected MPI_ERR_IN_STATUS, got %d",
              tl_class(rc));
        rc = status->MPI_ERROR;
    } else if (WAIT == way) {
        rc = MPI_Wait(&request, status);
    } else {
        do {
            rc = MPI_Test(&request, &flag, status);
        } while (MPI_SUCCESS == rc && !flag);
    }
    CHECK(MPI_REQUEST_NULL == request, "a failed request is done, too");
    return tl_class(rc);
}

/* Three messages: one that fits, the one that does not, one that fits. */
static void one_case(int way, size_t n, size_t room, bool receiver_first, bool synchronous, int src,
                     int dst)
{
    tl_step("%s: %zu bytes into %zu, %s first%s, from %d to %d", way_name[way], n, room,
            receiver_first ? "receiver" : "sender", synchronous ? ", synchronous" : "", src, dst);
    if (tl.rank == src) {
        char *buf = tl_buf(n), small[32];
        MPI_Request request;
        tl_fill(small, sizeof(small), tl_key(40, src, dst, 0, n));
        tl_fill(buf, n, tl_key(41, src, dst, 0, n));
        if (receiver_first) {
            tl_hear(dst);
        }
        CHECK_CLASS(MPI_Send(small, 32, MPI_BYTE, dst, 0, comm), MPI_SUCCESS);
        if (synchronous) {
            MPI_Issend(buf, (int) n, MPI_BYTE, dst, 1, comm, &request);
        } else {
            MPI_Isend(buf, (int) n, MPI_BYTE, dst, 1, comm, &request);
        }
        if (!receiver_first) {
            tl_tell(dst);
        }
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_CLASS(MPI_Send(buf, (int) n, MPI_BYTE, dst, 1, comm), MPI_SUCCESS);
        if (SENDRECV == way) {
            MPI_Recv(NULL, 0, MPI_BYTE, dst, 9, comm, MPI_STATUS_IGNORE);
        }
        FREE(buf);
    } else if (tl.rank == dst) {
        char *buf = tl_buf(room), *next = tl_buf(n), small[32];
        MPI_Request before, after;
        MPI_Status status;
        if (!receiver_first) {
            tl_hear(src);
        }
        MPI_Irecv(small, 32, MPI_BYTE, src, 0, comm, &before);
        int class = receive(way, buf, room, src, &status, receiver_first);
        CHECK(MPI_ERR_TRUNCATE == class, "expected MPI_ERR_TRUNCATE, got class %d", class);
        CHECK(status.MPI_SOURCE == src && status.MPI_TAG == 1, "status: source %d tag %d",
              status.MPI_SOURCE, status.MPI_TAG);
        GUARDS(buf);
        MPI_Irecv(next, (int) n, MPI_BYTE, src, 1, comm, &after);
        CHECK_CLASS(MPI_Wait(&after, &status), MPI_SUCCESS);
        CHECK_STATUS(status, src, 1, n);
        VERIFY(next, n, tl_key(41, src, dst, 0, n));
        CHECK_CLASS(MPI_Wait(&before, MPI_STATUS_IGNORE), MPI_SUCCESS);
        VERIFY(small, sizeof(small), tl_key(40, src, dst, 0, n));
        FREE(buf);
        FREE(next);
    }
}

/* Several requests in one MPI_Waitall, some truncated: each has its own error. */
static void mixture(size_t n, size_t room, bool receiver_first, int src, int dst)
{
    enum { REQUESTS = 9 };
    tl_step("mixture of %zu bytes into %zu, %s first, from %d to %d", n, room,
            receiver_first ? "receiver" : "sender", src, dst);
    char *buf[REQUESTS];
    MPI_Request request[REQUESTS];
    MPI_Status status[REQUESTS];
    for (int i = 0; i < REQUESTS; ++i) {
        buf[i] = tl_buf(tl.rank == dst && i % 3 == 1 ? room : n);
    }
    if (tl.rank == src) {
        if (receiver_first) {
            tl_hear(dst);
        }
        for (int i = 0; i < REQUESTS; ++i) {
            tl_fill(buf[i], n, tl_key(42, src, dst, i, n));
            MPI_Isend(buf[i], (int) n, MPI_BYTE, dst, 2, comm, &request[i]);
        }
        if (!receiver_first) {
            tl_tell(dst);
        }
        CHECK_CLASS(MPI_Waitall(REQUESTS, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    } else if (tl.rank == dst) {
        if (!receiver_first) {
            tl_hear(src);
        }
        for (int i = 0; i < REQUESTS; ++i) {
            MPI_Irecv(buf[i], (int) (i % 3 == 1 ? room : n), MPI_BYTE, src, 2, comm, &request[i]);
        }
        if (receiver_first) {
            tl_tell(src);
        }
        int left = REQUESTS;
        /* Requests may be pending when MPI_Waitall returns because of an error. */
        for (int turn = 0; turn < 1000000 && left > 0; ++turn) {
            int rc = MPI_Waitall(REQUESTS, request, status);
            if (0 == turn) {
                CHECK(MPI_ERR_IN_STATUS == tl_class(rc), "expected MPI_ERR_IN_STATUS, got %d",
                      tl_class(rc));
            }
            for (int i = 0; i < REQUESTS; ++i) {
                if (NULL == buf[i] || MPI_REQUEST_NULL != request[i]) {
                    continue;
                }
                int class = MPI_SUCCESS == rc ? MPI_SUCCESS : tl_class(status[i].MPI_ERROR);
                if (i % 3 == 1 && helped && MPI_ERR_PENDING == class) {
                    class = MPI_ERR_TRUNCATE; /* it failed after Open MPI had taken its status, and before it freed what has failed */
                }
                CHECK(class == (i % 3 == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS),
                      "request %d: error class %d", i, class);
                if (i % 3 != 1) {
                    VERIFY(buf[i], n, tl_key(42, src, dst, i, n));
                }
                FREE(buf[i]);
                buf[i] = NULL;
                --left;
            }
        }
        CHECK(0 == left, "%d requests never completed", left);
        return;
    }
    for (int i = 0; i < REQUESTS; ++i) {
        FREE(buf[i]);
    }
}

/* The receive's type has gaps. */
static void with_gaps(int blocks, int room_blocks, bool receiver_first, int src, int dst)
{
    tl_step("%d blocks into a vector of %d, %s first", blocks, room_blocks,
            receiver_first ? "receiver" : "sender");
    enum { BLOCK = 100, STRIDE = 150 };
    size_t n = (size_t) blocks * BLOCK;
    if (tl.rank == src) {
        char *buf = tl_buf(n);
        tl_fill(buf, n, tl_key(43, src, dst, blocks, 0));
        if (receiver_first) {
            tl_hear(dst);
        }
        MPI_Send(buf, (int) n, MPI_BYTE, dst, 3, comm);
        MPI_Send(buf, (int) n, MPI_BYTE, dst, 3, comm);
        FREE(buf);
    } else if (tl.rank == dst) {
        MPI_Datatype vector;
        MPI_Request request;
        size_t extent = (size_t) room_blocks * STRIDE;
        char *buf = tl_buf(extent), *next = tl_buf(n);
        MPI_Type_vector(room_blocks, BLOCK, STRIDE, MPI_BYTE, &vector);
        MPI_Type_commit(&vector);
        if (!receiver_first) {
            tl_await(src, 3, comm);
        }
        MPI_Irecv(buf, 1, vector, src, 3, comm, &request);
        if (receiver_first) {
            tl_tell(src);
        }
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        for (int b = 0; b < room_blocks; ++b) {
            UNTOUCHED(buf + b * STRIDE, BLOCK, STRIDE);
        }
        CHECK_CLASS(MPI_Recv(next, (int) n, MPI_BYTE, src, 3, comm, MPI_STATUS_IGNORE),
                    MPI_SUCCESS);
        VERIFY(next, n, tl_key(43, src, dst, blocks, 0));
        MPI_Type_free(&vector);
        FREE(buf);
        FREE(next);
    }
}

/* Errors are fatal when the message arrives, and returned when its receive is waited for: that decides. */
static void handler_comes_late(int n, int src, int dst)
{
    MPI_Comm strict;
    char *buf = tl_buf((size_t) n);
    char next;
    MPI_Comm_dup(MPI_COMM_WORLD, &strict);
    if (tl.rank == src) {
        tl_fill(buf, (size_t) n, tl_key(29, src, dst, 1, (uint64_t) n));
        MPI_Barrier(strict);
        MPI_Send(buf, n, MPI_BYTE, dst, 1, strict);
        MPI_Send(&next, 1, MPI_BYTE, dst, 2, strict);
    } else if (tl.rank == dst) {
        MPI_Request request;
        MPI_Status status;
        MPI_Irecv(buf, n / 2, MPI_BYTE, src, 1, strict, &request);
        MPI_Barrier(strict);
        MPI_Recv(&next, 1, MPI_BYTE, src, 2, strict,
                 MPI_STATUS_IGNORE); /* now the other is here, too */
        MPI_Comm_set_errhandler(strict, MPI_ERRORS_RETURN);
        const int class = tl_class(MPI_Wait(&request, &status));
        CHECK(MPI_ERR_TRUNCATE == class, "%d bytes: class %d", n, class);
    } else {
        MPI_Barrier(strict);
    }
    FREE(buf);
    MPI_Comm_free(&strict);
}

/* Sends that are pending beside the receive that fails: MPI_Waitany must not take their status, which says nothing yet, for
 * an error. (Their memory says something where the list of tests sets MALLOC_PERTURB_.) */
static void beside_pending_sends(int src, int dst)
{
    enum { PENDING = 300 };
    MPI_Request request[PENDING + 1];
    char small[32] = {0}, room[8];
    if (tl.rank == src) {
        MPI_Send(small, sizeof(small), MPI_BYTE, dst, 1, comm);
        tl_hear(dst);
        for (int i = 0; i < PENDING; ++i) {
            MPI_Recv(room, 1, MPI_BYTE, dst, 2, comm, MPI_STATUS_IGNORE);
        }
        return;
    }
    if (tl.rank != dst) {
        return;
    }
    tl_step("MPI_Waitany beside %d pending sends", PENDING);
    int which = -1, error;
    for (int i = 0; i < PENDING; ++i) {
        MPI_Issend(small, 1, MPI_BYTE, src, 2, comm, &request[i]);
    }
    MPI_Irecv(room, sizeof(room), MPI_BYTE, src, 1, comm, &request[PENDING]);
    const int rc = MPI_Waitany(PENDING + 1, request, &which, MPI_STATUS_IGNORE);
    if (CHECK(rc >= MPI_SUCCESS && rc <= MPI_ERR_LASTCODE, "an error that is none: %d", rc)) {
        MPI_Error_class(rc, &error);
        CHECK(MPI_ERR_TRUNCATE == error && PENDING == which, "class %d, request %d", error, which);
    }
    tl_tell(src);
    for (int i = 0; i < PENDING; ++i) {
        CHECK(MPI_REQUEST_NULL != request[i], "send %d is gone", i);
        CHECK_CLASS(MPI_Wait(&request[i], MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        size_t n, room;
    } cases[] = {{1, 0},
                 {100, 50},
                 {256, 255},
                 {4000, 10},
                 {5000, 100},
                 {5000, 4999},
                 {66000, 0},
                 {66000, 100},
                 {66000, 5000},
                 {300000, 299999},
                 {300000, 70000},
                 {1 << 20, 0},
                 {1 << 20, 64},
                 {1 << 20, 5000},
                 {4 << 20, (4 << 20) - 1},
                 {4 << 20, 1 << 20}};
    const char *agent = getenv("OMPI_MCA_pml_spec_progress"); /* as mpirun's --mca */
    helped = NULL != agent && 0 != strcmp(agent, "off");
    const bool threads = argc > 1 && 0 == strcmp(argv[1], "--threads");
    tl_start_thread(&argc, &argv, "truncate", 120,
                    threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int src = 0; src < tl.size && tl.size > 1; ++src) {
        int dst = (src + 1) % tl.size;
        MPI_Barrier(tl.ctl);
        for (size_t c = 0; c < TL_N(cases); ++c) {
            for (int order = 0; order < 2; ++order) {
                for (int way = 0; way < WAYS; ++way) {
                    one_case(way, cases[c].n, cases[c].room, order, false, src, dst);
                    one_case(way, cases[c].n, cases[c].room, order, true, src, dst);
                }
                mixture(cases[c].n, cases[c].room, order, src, dst);
            }
        }
        for (int order = 0; order < 2; ++order) {
            with_gaps(10, 5, order, src, dst);
            with_gaps(10, 1, order, src, dst);
            with_gaps(5000, 4999, order, src, dst);
            with_gaps(5000, 100, order, src, dst);
        }
    }
    if (tl.size > 1) {
        beside_pending_sends(0, 1);
        handler_comes_late(100, 0, 1);
        handler_comes_late(5000, 0, 1);
        handler_comes_late(300000, 0, 1);
    }
    MPI_Comm_free(&comm);
    return tl_finish();
}
