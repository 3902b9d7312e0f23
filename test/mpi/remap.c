/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Buffers that are given back to the system and come again, between messages and during them, in
 * every way there is: a registration that outlives its memory would send or receive the wrong bytes.
 * With a cache that counts (rcache/lazy, --counted 1): a buffer that is used again is registered once.
 *
 * Two ranks; the same program with any transport, most of it means something only with RDMA. */
#define _GNU_SOURCE /* mremap */
#include "testlib.h"

#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

enum { PAGE = 4096, SIZE = 1 << 20 };

static char *map_at(void *address, size_t n)
{
    char *p = mmap(address, n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (NULL == address ? 0 : MAP_FIXED_NOREPLACE), -1, 0);
    if (MAP_FAILED == p) {
        perror("mmap");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

/* n bytes from rank 0 at `out` to rank 1 at `in`, or the other way round. */
static void message(int from, char *buf, size_t n, int number)
{
    const uint64_t key = tl_key(7, from, 1 - from, 3, (uint64_t) number);
    if (tl.rank == from) {
        tl_fill(buf, n, key);
        MPI_Send(buf, (int) n, MPI_BYTE, 1 - from, 3, MPI_COMM_WORLD);
    } else {
        memset(buf, 0x5a, n);
        MPI_Recv(buf, (int) n, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        tl_verify(__FILE__, __LINE__, buf, n, key);
    }
}

static void there_and_back(char *buf, size_t n, int number)
{
    message(0, buf, n, 2 * number);
    message(1, buf, n, 2 * number + 1);
}

/* -1: nobody counts, or the transport does not ask who counts. */
static long long registrations(void)
{
    return tl_option("--counted", 0) ? tl_pvar("rcache_lazy_registrations") : -1;
}

/* How many are quarantined now; -1: nobody counts. */
static long long quarantined(void)
{
    static MPI_T_pvar_handle handle;
    unsigned long long value;
    int index, count;
    if (registrations() < 0) { /* (it begins the session, too) */
        return -1;
    }
    if (NULL == handle
        && (MPI_SUCCESS
                != MPI_T_pvar_get_index("rcache_lazy_quarantined", MPI_T_PVAR_CLASS_LEVEL, &index)
            || MPI_SUCCESS != MPI_T_pvar_handle_alloc(tl.session, index, NULL, &handle, &count))) {
        return -1;
    }
    return MPI_SUCCESS == MPI_T_pvar_read(tl.session, handle, &value) ? (long long) value : -1;
}

/* Expects that many registrations since `before`, if there is somebody who counts. Only a sender that
 * never finds an RTR always registers; where receivers speculate it depends on who comes first which
 * of the two does, so that there may be fewer (--fewer 1). */
static void check_registrations(long long before, long long wanted)
{
    const long long now = registrations();
    const bool fewer = tl_option("--fewer", 0);
    CHECK(before < 0 || now - before == wanted || (fewer && now - before < wanted),
          "expected %s%lld registrations, there were %lld", fewer ? "at most " : "", wanted,
          now - before);
}

static void reused(void)
{
    tl_step("buffers that stay");
    char *buf[4];
    for (int i = 0; i < 4; ++i) {
        buf[i] = map_at(NULL, SIZE + PAGE); /* a page apart: not one interval */
    }
    const long long before = registrations();
    for (int i = 0; i < 200; ++i) {
        there_and_back(buf[i % 4], SIZE - (size_t) (i / 4) * 64, i);
    }
    check_registrations(before, 4);
    for (int i = 0; i < 4; ++i) {
        munmap(buf[i], SIZE + PAGE);
    }
}

static void same_address(void)
{
    tl_step("other memory at the same address");
    char *at = map_at(NULL, SIZE);
    const long long before = registrations();
    for (int i = 0; i < 50; ++i) {
        there_and_back(at, SIZE, i);
        munmap(at, SIZE);
        map_at(at, SIZE);
    }
    check_registrations(before, 50);
    munmap(at, SIZE);
}

/* The heap shrinks and grows again. (UCX, where it has hooks, does this without Open MPI's.) */
static void end_of_the_heap(void)
{
    tl_step("the end of the heap");
    const long long before = registrations();
    bool alone = true;
    for (int i = 0; i < 50; ++i) {
        char *top = sbrk(SIZE);
        const bool has = (void *) -1 != (void *) top;
        there_and_back(has ? top : map_at(NULL, SIZE), SIZE, i);
        if (has && top + SIZE == (char *) sbrk(0)) {
            sbrk(-SIZE);
        } else {
            alone = false; /* somebody else took some */
        }
    }
    if (alone) {
        check_registrations(before, 50);
    }
}

/* One page in the middle is another one now; the rest is what it was. */
static void one_page(void)
{
    tl_step("one page of it");
    char *at = map_at(NULL, SIZE);
    for (int i = 0; i < 50; ++i) {
        there_and_back(at, SIZE, i);
        char *page = at + (size_t) (i * 5) * PAGE;
        munmap(page, PAGE);
        there_and_back(at + SIZE / 2 + (i * 5 < 128 ? 0 : -SIZE / 2), SIZE / 4, 100 + i);
        map_at(page, PAGE);
    }
    munmap(at, SIZE);
}

static void every_way(void)
{
    char *at = map_at(NULL, SIZE);
    for (int i = 0; i < 20; ++i) {
        tl_step("madvise, %d", i);
        there_and_back(at, SIZE, i);
        madvise(at, SIZE, MADV_DONTNEED);
        tl_step("mremap, %d", i);
        there_and_back(at, SIZE, i);
        char *more = mremap(at, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
        CHECK(MAP_FAILED != (void *) more, "mremap");
        there_and_back(more, 2 * SIZE, i);
        at = mremap(more, 2 * SIZE, SIZE, MREMAP_MAYMOVE);
        tl_step("mmap over it, %d", i);
        there_and_back(at, SIZE, i);
        (void) mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        there_and_back(at, SIZE, i);
        tl_step("shmdt, %d", i);
        const int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
        char *shm = shmat(id, NULL, 0);
        shmctl(id, IPC_RMID, NULL);
        there_and_back(shm, SIZE, i);
        shmdt(shm);
        tl_step("sbrk, %d", i);
        char *top = sbrk(SIZE);
        if ((void *) -1 != (void *) top) {
            there_and_back(top, SIZE, i);
            if (top + SIZE == (char *) sbrk(0)) { /* nobody else took some */
                sbrk(-SIZE);
            }
        }
        tl_step("malloc and free, %d", i);
        char *heap = malloc((size_t) (i + 1) * 64 * 1024);
        there_and_back(heap, (size_t) (i + 1) * 64 * 1024, i);
        heap = realloc(heap, (size_t) (i + 2) * 100 * 1024);
        there_and_back(heap, (size_t) (i + 2) * 100 * 1024, i);
        free(heap);
    }
    munmap(at, SIZE);
}

/* Half of a registration goes while a message from the other half waits for its receiver. */
static void during_a_message(void)
{
    const long long before = tl_pvar("rcache_lazy_lost_in_use"); /* -1: no such cache */
    for (int i = 0; i < 20; ++i) {
        tl_step("unmapped during a message, %d", i);
        char *at = map_at(NULL, 2 * SIZE), *other = map_at(NULL, SIZE);
        there_and_back(at, 2 * SIZE, i); /* registered as a whole */
        const uint64_t key = tl_key(8, 0, 1, 4, (uint64_t) i);
        if (0 == tl.rank) {
            MPI_Request request;
            tl_fill(at, SIZE, key);
            MPI_Isend(at, SIZE, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &request);
            munmap(at + SIZE, SIZE);
            message(0, other, SIZE, i);
            map_at(at + SIZE, SIZE);
            message(0, at + SIZE, SIZE, i);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            message(0, other, SIZE, i);
            message(0, at + SIZE, SIZE, i);
            memset(at, 0, SIZE);
            MPI_Recv(at, SIZE, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            tl_verify(__FILE__, __LINE__, at, SIZE, key);
        }
        there_and_back(at, 2 * SIZE, i);
        munmap(at, 2 * SIZE);
        munmap(other, SIZE);
    }
    tl_step("unmapped during messages");
    /* Where the sender always registers, the cache is asked for `other` while `at` is in use and hears
     * then that half of it is gone. A speculating receiver would have `other` written without that. */
    const long long lost = tl_pvar("rcache_lazy_lost_in_use") - before;
    CHECK(!tl_option("--lost", 0) || 0 != tl.rank || lost == 20,
          "expected 20 registrations to be lost in use, saw %lld", lost);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(quarantined() <= 0, "nothing is in use, but %lld are quarantined", quarantined());
}

static void forked(void)
{
    char *at = map_at(NULL, SIZE);
    for (int i = 0; i < 10; ++i) {
        tl_step("fork, %d", i);
        there_and_back(at, SIZE, i);
        const pid_t child = fork();
        if (0 == child) {
            memset(at, 0x77, SIZE); /* its own */
            munmap(at, SIZE);
            free(malloc(1 << 20));
            _exit(0);
        }
        const long long before = registrations();
        there_and_back(at, SIZE, 100 + i);
        there_and_back(at, SIZE, 200 + i);
        check_registrations(before, 1);
        int status = 0;
        CHECK(child > 0 && child == waitpid(child, &status, 0) && 0 == status,
              "the child of a fork ended with %d", status);
    }
    munmap(at, SIZE);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "remap", 120);
    if (2 != tl.size) {
        return tl_finish();
    }
    if (tl_option("--counted", 0)) {
        CHECK(registrations() >= 0, "expected a registration cache that counts");
    }
    reused();
    same_address();
    end_of_the_heap();
    one_page();
    every_way();
    during_a_message();
    forked();
    return tl_finish();
}
