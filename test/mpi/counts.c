/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The functions that count with MPI_Count (MPI 4, Open MPI 6.0): every way to send beside every way to receive, buffers of
 * a communicator and of a session, and with --gib N a message of more than 2^31 elements.
 *
 * usage: counts [--gib N] */
#include "testlib.h"

#if MPI_VERSION < 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 6)

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "counts", 120);
    tl_skip("this Open MPI has no functions that count with MPI_Count");
    return tl_finish();
}

#else

static int next, prev;

enum { SEND, SSEND, ISEND, ISSEND, BSEND, IBSEND, SEND_INIT, BSEND_INIT, SENDRECV, SENDS };
enum { RECV, IRECV, MRECV, IMRECV, RECV_INIT, RECVS };

/* Begins a send; what MPI_Wait gets. */
static MPI_Request begin_send(int how, const void *buf, MPI_Count n, int tag, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    switch (how) {
    case ISEND:
        MPI_Isend_c(buf, n, MPI_BYTE, next, tag, comm, &request);
        break;
    case ISSEND:
        MPI_Issend_c(buf, n, MPI_BYTE, next, tag, comm, &request);
        break;
    case BSEND:
        MPI_Bsend_c(buf, n, MPI_BYTE, next, tag, comm);
        break;
    case IBSEND:
        MPI_Ibsend_c(buf, n, MPI_BYTE, next, tag, comm, &request);
        break;
    case SEND_INIT:
        MPI_Send_init_c(buf, n, MPI_BYTE, next, tag, comm, &request);
        MPI_Start(&request);
        break;
    case BSEND_INIT:
        MPI_Bsend_init_c(buf, n, MPI_BYTE, next, tag, comm, &request);
        MPI_Start(&request);
        break;
    }
    return request;
}

static void end(MPI_Request *request, MPI_Status *status)
{
    const bool was_null = MPI_REQUEST_NULL == *request;
    MPI_Wait(request, status);
    if (!was_null && MPI_REQUEST_NULL != *request) { /* persistent */
        MPI_Request_free(request);
    }
}

static void receive(int how, void *buf, MPI_Count n, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    switch (how) {
    case RECV:
        MPI_Recv_c(buf, n, MPI_BYTE, prev, tag, comm, status);
        return;
    case IRECV:
        MPI_Irecv_c(buf, n, MPI_BYTE, prev, tag, comm, &request);
        break;
    case MRECV:
        MPI_Mprobe(prev, tag, comm, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv_c(buf, n, MPI_BYTE, &message, status);
        return;
    case IMRECV:
        MPI_Mprobe(prev, tag, comm, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv_c(buf, n, MPI_BYTE, &message, &request);
        break;
    case RECV_INIT:
        MPI_Recv_init_c(buf, n, MPI_BYTE, prev, tag, comm, &request);
        MPI_Start(&request);
        break;
    }
    end(&request, status);
}

static void check_counts(MPI_Status *status, MPI_Count n)
{
    MPI_Count count = -1, elements = -1;
    MPI_Get_count_c(status, MPI_BYTE, &count);
    MPI_Get_elements_c(status, MPI_BYTE, &elements);
    CHECK(n == count && n == elements, "expected %lld bytes, got %lld, %lld", (long long) n,
          (long long) count, (long long) elements);
}

/* Around the ring; even ranks send first where a send may wait for its receive. */
static void exchange(int sends, int receives, size_t n, MPI_Comm comm)
{
    const int tag = sends * RECVS + receives;
    const uint64_t out_key = tl_key(n, tl.rank, next, tag, 0),
                   in_key = tl_key(n, prev, tl.rank, tag, 0);
    char *out = tl_buf(n), *in = tl_buf(n);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    tl_step("send %d, receive %d, %zu bytes", sends, receives, n);
    tl_fill(out, n, out_key);
    tl_poison(in, n);
    if (SENDRECV == sends) {
        MPI_Sendrecv_c(out, (MPI_Count) n, MPI_BYTE, next, tag, in, (MPI_Count) n, MPI_BYTE, prev,
                       tag, comm, &status);
    } else if (SEND == sends || SSEND == sends) {
        int (*const send)(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm) =
            SEND == sends ? MPI_Send_c : MPI_Ssend_c;
        if (tl.rank & 1) {
            receive(receives, in, (MPI_Count) n, tag, comm, &status);
            send(out, (MPI_Count) n, MPI_BYTE, next, tag, comm);
        } else {
            send(out, (MPI_Count) n, MPI_BYTE, next, tag, comm);
            receive(receives, in, (MPI_Count) n, tag, comm, &status);
        }
    } else {
        request = begin_send(sends, out, (MPI_Count) n, tag, comm);
        receive(receives, in, (MPI_Count) n, tag, comm, &status);
        end(&request, MPI_STATUS_IGNORE);
    }
    check_counts(&status, (MPI_Count) n);
    VERIFY(in, n, in_key);
    FREE(in);
    FREE(out);
}

static void all_ways(MPI_Comm comm)
{
    static const size_t sizes[] = {0, 1, 3000, 70000, 1 << 20};
    for (size_t i = 0; i < TL_N(sizes); ++i) {
        for (int sends = 0; sends < SENDS; ++sends) {
            for (int receives = 0; receives < RECVS; ++receives) {
                exchange(sends, receives, sizes[i], comm);
            }
        }
    }
}

/* Buffers that belong to a communicator, and flushes: what was sent from them has gone then. */
static void buffers_of_a_communicator(void)
{
    enum { N = 100000, MESSAGES = 4 };
    const MPI_Count room = MESSAGES * (N + MPI_BSEND_OVERHEAD);
    MPI_Comm comm;
    MPI_Request request;
    char *out = tl_buf(N), *in = tl_buf(N), *space = malloc((size_t) room);
    void *gone = NULL;
    MPI_Count gone_size = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_attach_buffer_c(comm, space, room);
    for (int round = 0; round < 3; ++round) {
        tl_step("buffer of a communicator, round %d", round);
        for (int i = 0; i < MESSAGES; ++i) {
            tl_fill(out, N, tl_key(1, tl.rank, next, i, (uint64_t) round));
            MPI_Bsend_c(out, N, MPI_BYTE, next, i, comm);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            MPI_Recv_c(in, N, MPI_BYTE, prev, i, comm, MPI_STATUS_IGNORE);
            VERIFY(in, N, tl_key(1, prev, tl.rank, i, (uint64_t) round));
        }
        if (2 == round) { /* (the one of 6.0.0rc2 waits: so here, behind the receives) */
            MPI_Comm_iflush_buffer(comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Comm_flush_buffer(comm);
        }
    }
    MPI_Comm_detach_buffer_c(comm, &gone, &gone_size);
    CHECK(gone == space && gone_size == room, "another buffer is given back: %p, %lld", gone,
          (long long) gone_size);
    MPI_Comm_free(&comm);
    free(space);
    FREE(in);
    FREE(out);
}

/* More elements than an int counts, from rank 0 to 1: receiver first, sender first. */
static void beyond_an_int(long long gib)
{
    const size_t n = ((size_t) gib << 30) + 12345;
    const uint64_t key = tl_key(100, 0, 1, 0, n);
    int enough = tl_available() > (long long) (2 * n / 1024) + (3 << 20) && tl.size >= 2;
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!enough) {
        tl_skip("two ranks with the memory for it, and 3 GiB to spare, are needed");
        return;
    }
    char *buf = tl.rank < 2 ? tl_buf(n) : NULL;
    for (int order = 0; order < 2 && NULL != buf; ++order) {
        tl_step("%zu bytes, %s first", n, order ? "sender" : "receiver");
        MPI_Request request;
        MPI_Status status;
        if (0 == tl.rank) {
            tl_fill(buf, n, key);
            if (!order) {
                tl_hear(1);
            }
            MPI_Isend_c(buf, (MPI_Count) n, MPI_BYTE, 1, order, MPI_COMM_WORLD, &request);
            if (order) {
                tl_tell(1);
            }
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            tl_poison(buf, n);
            if (order) {
                tl_hear(0);
                MPI_Probe(0, order, MPI_COMM_WORLD, &status);
                check_counts(&status, (MPI_Count) n);
            }
            MPI_Irecv_c(buf, (MPI_Count) n, MPI_BYTE, 0, order, MPI_COMM_WORLD, &request);
            if (!order) {
                tl_tell(0);
            }
            MPI_Wait(&request, &status);
            check_counts(&status, (MPI_Count) n);
            VERIFY(buf, n, key);
        }
    }
    if (NULL != buf) {
        FREE(buf);
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "counts", 280);
    const long long gib = tl_option("--gib", 0);
    next = (tl.rank + 1) % tl.size;
    prev = (tl.rank + tl.size - 1) % tl.size;
    if (gib > 0) {
        beyond_an_int(gib);
        return tl_finish();
    }
    const MPI_Count room = 4 << 20;
    char *space = malloc((size_t) room);
    void *gone;
    MPI_Count gone_size;
    MPI_Buffer_attach_c(space, room);
    all_ways(MPI_COMM_WORLD);
    MPI_Buffer_detach_c(&gone, &gone_size);
    CHECK(gone == space && gone_size == room, "another buffer is given back: %p, %lld", gone,
          (long long) gone_size);
    free(space);
    buffers_of_a_communicator();
    return tl_finish();
}

#endif
