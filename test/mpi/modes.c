/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The four send modes, blocking and not, in both orders of arrival, at every size where a protocol
 * ends. What each mode promises: a synchronous send is not complete before its receive; a buffered
 * one needs no receive and leaves the user's buffer at once; detaching waits for delivery. */
#include "testlib.h"

enum { STANDARD, SYNCHRONOUS, BUFFERED, READY, MODES };
static const char *mode_name[] = {"send", "ssend", "bsend", "rsend"};

static void send_in(int mode, const void *buf, size_t n, int dst, int tag)
{
    static int (*const call[])(const void *, int, MPI_Datatype, int, int,
                               MPI_Comm) = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
    call[mode](buf, (int) n, MPI_BYTE, dst, tag, MPI_COMM_WORLD);
}

static void isend_in(int mode, const void *buf, size_t n, int dst, int tag, MPI_Request *request)
{
    static int (*const call[])(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                               MPI_Request *) = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
    call[mode](buf, (int) n, MPI_BYTE, dst, tag, MPI_COMM_WORLD, request);
}

static void sender(int mode, bool blocking, bool receiver_first, size_t n, int dst, char *buf)
{
    int tag = mode * 4 + blocking * 2 + receiver_first;
    uint64_t key = tl_key(1, tl.rank, dst, tag, n);
    tl_fill(buf, n, key);
    if (receiver_first) {
        tl_hear(dst);
    }
    if (blocking) {
        send_in(mode, buf, n, dst, tag);
    } else {
        MPI_Request request;
        int flag;
        isend_in(mode, buf, n, dst, tag, &request);
        for (int i = 0; SYNCHRONOUS == mode && !receiver_first && i < 50; ++i) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            CHECK(!flag, "a synchronous send of %zu bytes completed without a receive", n);
        }
        if (!receiver_first) {
            tl_tell(dst);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(MPI_REQUEST_NULL == request, "the request must be null after MPI_Wait");
    }
    tl_fill(buf, n, ~key); /* the buffer is ours again: what the peer gets must not change */
}

static void receiver(int mode, bool blocking, bool receiver_first, size_t n, int src, char *buf)
{
    int tag = mode * 4 + blocking * 2 + receiver_first;
    MPI_Status status;
    tl_poison(buf, n);
    if (receiver_first) {
        MPI_Request request;
        MPI_Irecv(buf, (int) n, MPI_BYTE, src, tag, MPI_COMM_WORLD, &request);
        tl_tell(src);
        MPI_Wait(&request, &status);
    } else {
        if (blocking) {
            tl_await(src, tag, MPI_COMM_WORLD);
        } else {
            tl_hear(src);
        }
        MPI_Recv(buf, (int) n, MPI_BYTE, src, tag, MPI_COMM_WORLD, &status);
    }
    CHECK_STATUS(status, src, tag, n);
    VERIFY(buf, n, tl_key(1, src, tl.rank, tag, n));
}

static void exchange(int mode, bool blocking, bool receiver_first, size_t n, int src, int dst)
{
    if (tl.rank != src && tl.rank != dst) {
        return;
    }
    char *buf = tl_buf(n);
    tl_step("%s%s of %zu bytes from %d to %d, %s first", blocking ? "" : "i", mode_name[mode], n,
            src, dst, receiver_first ? "receiver" : "sender");
    if (tl.rank == src) {
        sender(mode, blocking, receiver_first, n, dst, buf);
    } else {
        receiver(mode, blocking, receiver_first, n, src, buf);
    }
    FREE(buf);
}

/* Several buffered sends share the buffer; the receiver starts only when the sender is done with
 * them, and detach returns only when all are delivered. */
static void buffered(size_t n, int src, int dst)
{
    enum { MESSAGES = 5 };
    tl_step("%d buffered sends of %zu bytes from %d to %d", MESSAGES, n, src, dst);
    if (tl.rank == src) {
        int room = MESSAGES * ((int) n + MPI_BSEND_OVERHEAD), size;
        char *store = tl_buf((size_t) room), *buf = tl_buf(n);
        void *detached;
        MPI_Buffer_attach(store, room);
        for (int i = 0; i < MESSAGES; ++i) {
            MPI_Request request;
            tl_fill(buf, n, tl_key(2, src, dst, 40, i));
            if (i & 1) {
                MPI_Bsend(buf, (int) n, MPI_BYTE, dst, 40, MPI_COMM_WORLD);
            } else {
                MPI_Ibsend(buf, (int) n, MPI_BYTE, dst, 40, MPI_COMM_WORLD, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
            tl_poison(buf, n);
        }
        tl_tell(dst);
        MPI_Buffer_detach(&detached, &size);
        CHECK(detached == store && size == room, "detach: expected %p %d, got %p %d",
              (void *) store, room, detached, size);
        memset(store, 0xEE, (size_t) room); /* ours again: must not change what arrives */
        FREE(store);
        FREE(buf);
    } else if (tl.rank == dst) {
        char *buf = tl_buf(n);
        MPI_Status status;
        tl_hear(src);
        for (int i = 0; i < MESSAGES; ++i) {
            tl_poison(buf, n);
            MPI_Recv(buf, (int) n, MPI_BYTE, src, 40, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, src, 40, n);
            VERIFY(buf, n, tl_key(2, src, dst, 40, i));
        }
        FREE(buf);
    }
}

/* A buffered send that does not fit is refused and harms nothing. (A small one may be accepted
 * nevertheless: Open MPI copies it elsewhere.) Not so under ob1: there the refused message has used
 * up its sequence number, and nothing after it is ever received. */
static void buffer_too_small(int src, int dst)
{
    enum { TOO_LARGE = 300000 };
    MPI_Comm comm;
    tl_step("buffered send without room");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    char *buf = tl_buf(TOO_LARGE);
    if (tl.rank == src) {
        char store[4096 + MPI_BSEND_OVERHEAD];
        void *detached;
        int size;
        tl_fill(buf, TOO_LARGE, tl_key(3, src, dst, 41, 0));
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        CHECK_CLASS(MPI_Bsend(buf, TOO_LARGE, MPI_BYTE, dst, 42, comm), MPI_ERR_BUFFER);
        MPI_Buffer_attach(store, sizeof(store));
        CHECK_CLASS(MPI_Bsend(buf, TOO_LARGE, MPI_BYTE, dst, 42, comm), MPI_ERR_BUFFER);
        MPI_Bsend(buf, 2000, MPI_BYTE, dst, 41, tl_under_ob1() ? MPI_COMM_WORLD : comm);
        MPI_Buffer_detach(&detached, &size);
    } else if (tl.rank == dst) {
        MPI_Status status;
        MPI_Recv(buf, TOO_LARGE, MPI_BYTE, src, MPI_ANY_TAG, tl_under_ob1() ? MPI_COMM_WORLD : comm,
                 &status);
        CHECK_STATUS(status, src, 41, 2000);
        VERIFY(buf, 2000, tl_key(3, src, dst, 41, 0));
    }
    FREE(buf);
    MPI_Comm_free(&comm);
}

/* All modes under way at once between all pairs. */
static void all_at_once(size_t n)
{
    int peers = tl.size;
    MPI_Request *request = calloc((size_t) peers * MODES * 2, sizeof(*request));
    char **out = calloc((size_t) peers * MODES, sizeof(*out));
    char **in = calloc((size_t) peers * MODES, sizeof(*in));
    int count = 0;
    tl_step("all modes at once, %zu bytes", n);
    for (int p = 0; p < peers; ++p) {
        for (int m = 0; m < MODES; ++m) {
            in[p * MODES + m] = tl_buf(n);
            MPI_Irecv(in[p * MODES + m], (int) n, MPI_BYTE, p, 50 + m, MPI_COMM_WORLD,
                      &request[count++]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD); /* for the ready mode */
    for (int p = 0; p < peers; ++p) {
        for (int m = 0; m < MODES; ++m) {
            out[p * MODES + m] = tl_buf(n);
            tl_fill(out[p * MODES + m], n, tl_key(4, tl.rank, p, m, n));
            isend_in(m, out[p * MODES + m], n, p, 50 + m, &request[count++]);
        }
    }
    MPI_Waitall(count, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < peers * MODES; ++i) {
        VERIFY(in[i], n, tl_key(4, i / MODES, tl.rank, i % MODES, n));
        FREE(in[i]);
        FREE(out[i]);
    }
    free(request);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "modes", 120);
    size_t sizes[TL_MAX_EDGES];
    int n_sizes = tl_edges(sizes);
    int room = (TL_LARGEST + MPI_BSEND_OVERHEAD) * 16, size;
    char *store = tl_buf((size_t) room);
    void *detached;

    MPI_Buffer_attach(store, room);
    for (int i = 0; i < n_sizes; ++i) {
        for (int src = 0; src < tl.size && tl.size > 1; ++src) {
            for (int mode = 0; mode < MODES; ++mode) {
                for (int order = READY == mode ? 1 : 0; order < 2; ++order) {
                    exchange(mode, true, 1 == order, sizes[i], src, (src + 1) % tl.size);
                    exchange(mode, false, 1 == order, sizes[i], src, (src + 1) % tl.size);
                }
            }
        }
    }
    for (size_t i = 0; i < TL_N(tl_few); ++i) {
        all_at_once(tl_few[i]);
    }
    MPI_Buffer_detach(&detached, &size);
    CHECK(detached == store && size == room, "the attached buffer must come back");
    FREE(store);

    for (int src = 0; src < tl.size && tl.size > 1; ++src) {
        for (size_t i = 0; i < TL_N(tl_few); ++i) {
            buffered(tl_few[i], src, (src + 1) % tl.size);
        }
        buffer_too_small(src, (src + 1) % tl.size);
    }
    return tl_finish();
}
