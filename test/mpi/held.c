/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Persistent requests register when they are made: no start registers, whatever else is registered in
 * between, and memory that goes away between two starts is survived. With --held 1 registrations are
 * counted, for transports with rcache/lazy; few entries must be allowed then
 * (rcache_lazy_max_entries), so that what is not held is evicted. */
#include "testlib.h"

#include <sys/mman.h>

enum { SIZE = 1 << 20, OTHERS = 8, STARTS = 6 };

static bool is_held; /* and so counted */

static long long registrations(void)
{
    return is_held ? tl_pvar("rcache_lazy_registrations") : 0;
}

static char *map(void *at)
{
    char *memory = mmap(at, SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (NULL == at ? 0 : MAP_FIXED), -1, 0);
    if (MAP_FAILED == memory) {
        perror("mmap");
        abort();
    }
    return memory;
}

/* One message each way. Registrations that the starts made. */
static long long round_trip(MPI_Request request[2], char *in, char *out, int peer, uint64_t number)
{
    tl_poison(in, SIZE);
    tl_fill(out, SIZE, tl_key(70, tl.rank, peer, 0, number));
    MPI_Barrier(tl.ctl);
    const long long before = registrations();
    MPI_Startall(2, request);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    const long long made = registrations() - before;
    VERIFY(in, SIZE, tl_key(70, peer, tl.rank, 0, number));
    return made;
}

static void make(MPI_Request request[2], char *in, char *out, int peer)
{
    MPI_Recv_init(in, SIZE, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request[0]);
    MPI_Send_init(out, SIZE, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request[1]);
}

/* Plain messages from and to other memory, more than the cache has entries. */
static void others(int peer)
{
    char *memory[2 * OTHERS];
    MPI_Request request[2 * OTHERS];
    for (int i = 0; i < 2 * OTHERS; ++i) {
        memory[i] = map(NULL);
    }
    for (int i = 0; i < OTHERS; ++i) {
        MPI_Irecv(memory[i], SIZE, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request[i]);
        MPI_Isend(memory[OTHERS + i], SIZE, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                  &request[OTHERS + i]);
    }
    MPI_Waitall(2 * OTHERS, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2 * OTHERS; ++i) {
        munmap(memory[i], SIZE);
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "held", 60);
    is_held = tl_option("--held", 0) && tl_pvar("rcache_lazy_registrations") >= 0;
    CHECK(is_held || !tl_option("--held", 0), "there is no rcache/lazy");
    const int peer = tl.rank ^ 1;
    MPI_Request request[2];
    char *in = map(NULL), *out = map(NULL);

    tl_step("starts");
    long long before = registrations();
    make(request, in, out, peer);
    CHECK(!is_held || registrations() - before == 2, "two buffers: %lld registrations",
          registrations() - before);
    for (uint64_t i = 0; i < STARTS; ++i) {
        const long long made = round_trip(request, in, out, peer, i);
        CHECK(0 == made, "start %d registered %lld times", (int) i, made);
    }
    tl_step("starts among other messages");
    for (uint64_t i = 0; i < STARTS; ++i) {
        others(peer);
        const long long made = round_trip(request, in, out, peer, 100 + i);
        CHECK(0 == made, "start %d registered %lld times", (int) i, made);
    }

    tl_step("memory that went away between two starts");
    munmap(in, SIZE);
    munmap(out, SIZE);
    CHECK(in == map(in) && out == map(out), "mapped somewhere else");
    long long made = round_trip(request, in, out, peer, 200);
    /* A put or get over datagrams needs one registration; at which end depends on who came first. */
    MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_LONG_LONG, MPI_SUM, tl.ctl);
    CHECK(!is_held || made >= 2, "new memory at the old place, two messages: %lld registrations",
          made);
    (void) round_trip(request, in, out, peer, 201);

    tl_step("memory that went away before the request was freed");
    munmap(in, SIZE);
    munmap(out, SIZE);
    others(peer);
    MPI_Request_free(&request[0]);
    MPI_Request_free(&request[1]);

    tl_step("new requests for new memory at the old place");
    CHECK(in == map(in) && out == map(out), "mapped somewhere else");
    make(request, in, out, peer);
    CHECK(0 == round_trip(request, in, out, peer, 300), "a start registered");
    tl_step("freed while active");
    tl_fill(out, SIZE, tl_key(70, tl.rank, peer, 0, 301));
    MPI_Barrier(tl.ctl);
    MPI_Startall(2, request);
    MPI_Request_free(&request[1]);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    VERIFY(in, SIZE, tl_key(70, peer, tl.rank, 0, 301));
    MPI_Request_free(&request[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    others(peer); /* the send that was freed is over, too */
    munmap(in, SIZE);
    munmap(out, SIZE);
    return tl_finish();
}
