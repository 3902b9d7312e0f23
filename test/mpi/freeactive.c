/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_Request_free of active requests: the operation completes all the same, in order with those
 * whose requests were kept, and what it used can be reused afterwards. */
#include "testlib.h"

enum { MESSAGES = 20 };

/* Every other send is freed at once. Sender's buffers stay until the receiver has everything. */
static void sends(size_t n, bool receiver_first, int src, int dst)
{
    tl_step("freed sends of %zu bytes from %d to %d, %s first", n, src, dst,
            receiver_first ? "receiver" : "sender");
    char *buf[MESSAGES];
    MPI_Request request[MESSAGES];
    for (int i = 0; i < MESSAGES; ++i) {
        buf[i] = tl_buf(n);
    }
    if (tl.rank == src) {
        if (receiver_first) {
            tl_hear(dst);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            tl_fill(buf[i], n, tl_key(60, src, dst, 0, (uint64_t) i));
            if (i % 4 == 1) {
                MPI_Issend(buf[i], (int) n, MPI_BYTE, dst, 0, MPI_COMM_WORLD, &request[i]);
            } else {
                MPI_Isend(buf[i], (int) n, MPI_BYTE, dst, 0, MPI_COMM_WORLD, &request[i]);
            }
            if (i & 1) {
                MPI_Request_free(&request[i]);
                CHECK(MPI_REQUEST_NULL == request[i], "a freed request must be null");
            }
        }
        MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
        tl_hear(dst);
    } else if (tl.rank == dst) {
        if (!receiver_first) {
            tl_await(src, 0, MPI_COMM_WORLD);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            MPI_Irecv(buf[i], (int) n, MPI_BYTE, src, 0, MPI_COMM_WORLD, &request[i]);
        }
        if (receiver_first) {
            tl_tell(src);
        }
        MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MESSAGES; ++i) {
            VERIFY(buf[i], n, tl_key(60, src, dst, 0, (uint64_t) i));
        }
        tl_tell(src);
    }
    for (int i = 0; i < MESSAGES; ++i) {
        FREE(buf[i]);
    }
}

/* Every other receive is freed at once; its arrival can only be seen in the buffer. */
static void receives(size_t n, bool receiver_first, int src, int dst)
{
    tl_step("freed receives of %zu bytes from %d to %d, %s first", n, src, dst,
            receiver_first ? "receiver" : "sender");
    char *buf[MESSAGES];
    MPI_Request request[MESSAGES];
    int flag;
    for (int i = 0; i < MESSAGES; ++i) {
        buf[i] = tl_buf(n);
    }
    if (tl.rank == src) {
        if (receiver_first) {
            tl_hear(dst);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            tl_fill(buf[i], n, tl_key(61, src, dst, 0, (uint64_t) i));
            MPI_Isend(buf[i], (int) n, MPI_BYTE, dst, 1, MPI_COMM_WORLD, &request[i]);
        }
        MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
        tl_hear(dst);
    } else if (tl.rank == dst) {
        if (!receiver_first) {
            tl_await(src, 1, MPI_COMM_WORLD);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            MPI_Irecv(buf[i], (int) n, MPI_BYTE, i % 3 ? src : MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                      &request[i]);
            if (i & 1) {
                MPI_Request_free(&request[i]);
                CHECK(MPI_REQUEST_NULL == request[i], "a freed request must be null");
            }
        }
        if (receiver_first) {
            tl_tell(src);
        }
        MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MESSAGES; ++i) {
            while (i & 1 && tl_differs(buf[i], n, tl_key(61, src, dst, 0, (uint64_t) i)) < n) {
                MPI_Iprobe(src, 99, tl.ctl, &flag, MPI_STATUS_IGNORE);
                __asm__ volatile("" ::: "memory");
            }
            VERIFY(buf[i], n, tl_key(61, src, dst, 0, (uint64_t) i));
        }
        tl_tell(src);
    }
    for (int i = 0; i < MESSAGES; ++i) {
        FREE(buf[i]);
    }
}

/* The type and the communicator of a freed request may be freed, too. */
static void with_everything(int src, int dst)
{
    enum { COUNT = 40000 };
    tl_step("request, type and communicator freed while active, from %d to %d", src, dst);
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Request request;
    int *buf = tl_buf(2 * COUNT * sizeof(int)), flag;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_vector(COUNT, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    if (tl.rank == src) {
        for (int i = 0; i < COUNT; ++i) {
            buf[2 * i] = i * 3 + src;
        }
        MPI_Isend(buf, 1, type, dst, 0, comm, &request);
        MPI_Request_free(&request);
    } else if (tl.rank == dst) {
        MPI_Irecv(buf, 1, type, src, 0, comm, &request);
        MPI_Request_free(&request);
    }
    MPI_Type_free(&type);
    if (tl.rank == dst) {
        for (int i = 0; i < COUNT; ++i) {
            while (((volatile int *) buf)[2 * i] != i * 3 + src) {
                MPI_Iprobe(src, 99, tl.ctl, &flag, MPI_STATUS_IGNORE);
            }
            UNTOUCHED(&buf[2 * i + 1], 0, sizeof(int));
        }
        tl_tell(src);
    } else if (tl.rank == src) {
        tl_hear(dst);
    }
    MPI_Comm_free(&comm);
    FREE(buf);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "freeactive", 60);
    for (int src = 0; src < tl.size && tl.size > 1; ++src) {
        int dst = (src + 1) % tl.size;
        for (size_t i = 0; i < TL_N(tl_few) - 1; ++i) {
            for (int order = 0; order < 2; ++order) {
                sends(tl_few[i], order, src, dst);
                receives(tl_few[i], order, src, dst);
            }
        }
    }
    for (int i = 0; i < 3 * tl.size && tl.size > 1; ++i) {
        with_everything(i % tl.size, (i + 1) % tl.size);
    }
    return tl_finish();
}
