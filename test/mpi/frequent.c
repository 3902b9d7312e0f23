/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Small messages, puts and gets from buffers that are used again and again: what arrives is what was
 * there when the call was made, though every buffer is overwritten as soon as MPI says that it may be.
 * With --placed 1 (a transport that asks mpool/freq) none of them is copied by the transport once the
 * buffer is known to be frequently used. */
#include "testlib.h"

#include <sys/mman.h>

enum { BUFFERS = 12, LENGTH = 8192, ROUNDS = 20, WARM = 8 };

static const size_t sizes[] = {300, 1000, 2048, 4096, 7000, 8000, 8192};
static bool is_placed;
static MPI_Win window;
static char *target; /* of the window: LENGTH for each buffer */

typedef struct {
    long long copies, bytes_copied, in_place, bytes_in_place;
} traffic_t;

static traffic_t traffic(void)
{
    return (traffic_t){tl_pvar("mpool_freq_sent_copies"), tl_pvar("mpool_freq_sent_bytes_copied"),
                       tl_pvar("mpool_freq_sent_in_place"),
                       tl_pvar("mpool_freq_sent_bytes_in_place")};
}

/* The transport's eager limit is 8192: that many bytes are put or got, by one end or the other. */
static bool is_rendezvous(size_t size)
{
    return size >= 8192;
}

/* Since `before`, `n` payloads of `size` bytes were left in place and none was copied. */
static void check_traffic(const traffic_t *before, int n, size_t size)
{
    const traffic_t now = traffic();
    CHECK(!is_placed || now.bytes_copied == before->bytes_copied, "%lld bytes were copied in %lld payloads",
          now.bytes_copied - before->bytes_copied, now.copies - before->copies);
    if (is_rendezvous(size)) {
        return;
    }
    CHECK(!is_placed || now.in_place - before->in_place == n, "%lld of %d in place",
          now.in_place - before->in_place, n);
    CHECK(!is_placed || now.bytes_in_place - before->bytes_in_place == (long long) (n * size),
          "%lld bytes in place", now.bytes_in_place - before->bytes_in_place);
}

static char *pages(void)
{
    char *memory = mmap(NULL, BUFFERS * LENGTH, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == memory) {
        abort();
    }
    return memory;
}

static void messages(size_t size, int peer)
{
    char *out = pages(), *in = pages();
    MPI_Request receive[BUFFERS], send[BUFFERS];
    traffic_t before = {0};
    tl_step("messages of %zu bytes", size);
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < BUFFERS; ++i) {
            MPI_Irecv(in + i * LENGTH, (int) size, MPI_BYTE, peer, i, MPI_COMM_WORLD, &receive[i]);
            tl_fill(out + i * LENGTH, size, tl_key(80, tl.rank, peer, i, (uint64_t) round));
        }
        MPI_Barrier(tl.ctl); /* nothing is unexpected */
        if (WARM == round) {
            before = traffic();
        }
        for (int i = 0; i < BUFFERS; ++i) {
            MPI_Isend(out + i * LENGTH, (int) size, MPI_BYTE, peer, i, MPI_COMM_WORLD, &send[i]);
        }
        for (int left = BUFFERS; left > 0; --left) {
            int i;
            MPI_Waitany(BUFFERS, send, &i, MPI_STATUS_IGNORE);
            memset(out + i * LENGTH, 0xee, size); /* at once */
        }
        MPI_Waitall(BUFFERS, receive, MPI_STATUSES_IGNORE);
        for (int i = 0; i < BUFFERS; ++i) {
            VERIFY(in + i * LENGTH, size, tl_key(80, peer, tl.rank, i, (uint64_t) round));
        }
    }
    check_traffic(&before, BUFFERS * (ROUNDS - WARM), size);
    munmap(out, BUFFERS * LENGTH);
    munmap(in, BUFFERS * LENGTH);
}

/* Open MPI 5.0 makes messages of puts and gets if the device does not say when a put is in the target's memory, as
 * those of iWARP: the laboratory's siw, as rank 0 knows it. Elsewhere they must not be. */
static bool are_messages(void)
{
    const char *device = getenv("LAB_KIND");
    int is = OMPI_MAJOR_VERSION >= 5 && NULL != device && 0 == strcmp("siw", device);
    MPI_Bcast(&is, 1, MPI_INT, 0, tl.ctl);
    return is;
}

static void put_and_get(size_t size, int peer)
{
    char *out = pages(), *in = pages();
    traffic_t before = {0};
    tl_step("puts and gets of %zu bytes", size);
    for (int round = 0; round < ROUNDS; ++round) {
        MPI_Win_fence(0, window);
        if (WARM == round) {
            before = traffic();
        }
        MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, window);
        for (int i = 0; i < BUFFERS; ++i) {
            char *buffer = out + i * LENGTH;
            tl_fill(buffer, size, tl_key(81, tl.rank, peer, i, (uint64_t) round));
            MPI_Put(buffer, (int) size, MPI_BYTE, peer, i * LENGTH, (int) size, MPI_BYTE, window);
            if (i & 1) {
                MPI_Win_flush_local(peer, window);
                memset(buffer, 0xee, size);
            }
        }
        MPI_Win_flush(peer, window);
        memset(out, 0xdd, BUFFERS * LENGTH);
        for (int i = 0; i < BUFFERS; ++i) {
            MPI_Get(in + i * LENGTH, (int) size, MPI_BYTE, peer, i * LENGTH, (int) size, MPI_BYTE, window);
        }
        MPI_Win_unlock(peer, window);
        for (int i = 0; i < BUFFERS; ++i) {
            VERIFY(in + i * LENGTH, size, tl_key(81, tl.rank, peer, i, (uint64_t) round));
        }
        MPI_Win_fence(0, window);
        for (int i = 0; i < BUFFERS; ++i) {
            VERIFY(target + i * LENGTH, size, tl_key(81, peer, tl.rank, i, (uint64_t) round));
        }
    }
    if (!are_messages()) {
        check_traffic(&before, 2 * BUFFERS * (ROUNDS - WARM), size);
    }
    munmap(out, BUFFERS * LENGTH);
    munmap(in, BUFFERS * LENGTH);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "frequent", 120);
    is_placed = 0 != tl_option("--placed", 0);
    const int peer = tl.rank ^ 1;
    CHECK(!is_placed || traffic().copies >= 0, "mpool/freq is not there");
    if (is_placed) {
        (void) traffic();
    }
    for (size_t i = 0; i < TL_N(sizes); ++i) {
        messages(sizes[i], peer);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_SUCCESS
        != MPI_Win_allocate(BUFFERS * LENGTH, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &target, &window)) {
        CHECK(!tl_option("--onesided", 0), "no one-sided component works with this transport");
        return tl_finish();
    }
    for (size_t i = 0; i < TL_N(sizes); ++i) {
        put_and_get(sizes[i], peer);
    }
    MPI_Win_free(&window);
    return tl_finish();
}
