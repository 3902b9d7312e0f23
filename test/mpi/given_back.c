/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A buffer belongs to the program as soon as its request is complete, and may be given back to the system at
 * once: whatever the transport still has to repeat, it must not touch that memory again. Who does dies
 * of it here, and only where acknowledgements are lost or late: run it with faults. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "testlib.h"

#include <sys/mman.h>

enum { SIZE = 200000, MESSAGES = 200 };

typedef enum kind { PLAIN, SYNCHRONOUS, EARLY_RECEIVER, PERSISTENT, KINDS } kind_t;

static const char *const names[] = {"standard", "synchronous", "receiver first", "persistent"};

static char *map_new(void)
{
    char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == p) {
        perror("mmap");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

static void send_one(kind_t kind, int to, uint64_t key)
{
    char *buf = map_new();
    MPI_Request request = MPI_REQUEST_NULL;
    tl_fill(buf, SIZE, key);
    if (PERSISTENT == kind) {
        MPI_Send_init(buf, SIZE, MPI_BYTE, to, 5, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (SYNCHRONOUS == kind) {
        MPI_Ssend(buf, SIZE, MPI_BYTE, to, 5, MPI_COMM_WORLD);
    } else {
        MPI_Send(buf, SIZE, MPI_BYTE, to, 5, MPI_COMM_WORLD);
    }
    munmap(buf, SIZE);
    if (PERSISTENT == kind) {
        MPI_Barrier(tl.ctl); /* inactive, without its buffer, while messages go */
        MPI_Request_free(&request);
    }
}

static void receive_one(kind_t kind, int from, uint64_t key)
{
    char *buf = map_new();
    MPI_Request request;
    if (PERSISTENT == kind) {
        MPI_Recv_init(buf, SIZE, MPI_BYTE, from, 5, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
    } else {
        MPI_Irecv(buf, SIZE, MPI_BYTE, from, 5, MPI_COMM_WORLD, &request);
    }
    if (EARLY_RECEIVER == kind) {
        MPI_Barrier(tl.ctl);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    tl_verify(__FILE__, __LINE__, buf, SIZE, key);
    munmap(buf, SIZE);
    if (PERSISTENT == kind) {
        MPI_Barrier(tl.ctl);
        MPI_Request_free(&request);
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "given_back", 120);
    const int messages = (int) tl_option("--messages", MESSAGES);
    for (int i = 0; i < messages && 2 == tl.size; ++i) {
        const kind_t kind = (kind_t) (i % KINDS);
        const int from = i / KINDS % 2;
        const uint64_t key = tl_key(11, from, 1 - from, 5, (uint64_t) i);
        tl_step("message %d, %s", i, names[kind]);
        if (tl.rank == from) {
            if (EARLY_RECEIVER == kind) {
                MPI_Barrier(tl.ctl);
            }
            send_one(kind, 1 - from, key);
        } else {
            receive_one(kind, from, key);
        }
    }
    return tl_finish();
}
