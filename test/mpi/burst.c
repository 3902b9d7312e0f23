/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Many small nonblocking sends to one process: over btl/ibx they wait for each other (pml_spec_gather), over other
 * transports they do not, and nobody must be able to tell. Between pairs of ranks.
 *
 *   --gathers 1|0   some must have waited, none may have
 *   --largest N     bytes of a message at most (3000)
 *   --outside 0     no burst that the sender follows with something that is not MPI: that needs a thread of the transport's */
#include "testlib.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { MOST = 100, SIZE = 40000, ROUNDS = 20, TAG = 5 };

static char *out[MOST], *in[MOST];
static MPI_Request request[MOST];
static int peer;
static size_t largest; /* that every transport sends without a receive that waits for it */

static size_t size_of(uint64_t key)
{
    const size_t limit[] = {1, 64, 512, 2048, largest};
    const size_t drawn = limit[tl_mix(key + 1) % 5];
    return tl_mix(key) % ((drawn < largest ? drawn : largest) + 1);
}

static uint64_t key_of(int from, int to, uint64_t round, int i)
{
    return tl_key(80, from, to, TAG, round << 20 | (uint64_t) i);
}

static void fill(uint64_t round, int n)
{
    for (int i = 0; i < n; ++i) {
        tl_fill(out[i], largest, key_of(tl.rank, peer, round, i));
    }
}

static void start(uint64_t round, int from, int n)
{
    for (int i = from; i < n; ++i) {
        MPI_Isend(out[i], (int) size_of(key_of(tl.rank, peer, round, i)), MPI_BYTE, peer, TAG, MPI_COMM_WORLD,
                  &request[i]);
    }
}

/* They come in their order, each whole. */
static void take(uint64_t round, int from, int n)
{
    for (int i = from; i < n; ++i) {
        MPI_Status status;
        const uint64_t key = key_of(peer, tl.rank, round, i);
        tl_poison(in[i], largest);
        MPI_Recv(in[i], SIZE, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &status);
        CHECK_STATUS(status, peer, TAG, size_of(key));
        VERIFY(in[i], size_of(key), key);
    }
}

static void waited_for(void)
{
    for (uint64_t round = 0; round < ROUNDS; ++round) {
        const int n = 1 + (int) (tl_mix(round) % MOST);
        tl_step("round %d: %d sends", (int) round, n);
        fill(round, n);
        start(round, 0, n);
        if (0 == round % 2) {
            MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
            take(round, 0, n);
        } else {
            take(round, 0, n);
            MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
        }
    }
}

static void tested(void)
{
    tl_step("tested until complete, then nothing");
    fill(100, MOST);
    if (tl.rank < peer) {
        start(100, 0, MOST);
        for (int i = MOST - 1; i >= 0; --i) {
            int flag = 0;
            while (!flag) {
                MPI_Test(&request[i], &flag, MPI_STATUS_IGNORE);
            }
        }
    } else {
        take(100, 0, MOST);
    }
    MPI_Barrier(tl.ctl);
}

static void freed(void)
{
    tl_step("freed at once");
    fill(200, MOST);
    start(200, 0, MOST);
    for (int i = 0; i < MOST; ++i) {
        MPI_Request_free(&request[i]);
    }
    take(200, 0, MOST);
    MPI_Barrier(tl.ctl); /* the last ones have left, too */
}

/* Others overtake none of them: a blocking send, a synchronous one, a large one, a buffered one. */
static void among_others(void)
{
    static char large[1 << 20], buffer[SIZE + MPI_BSEND_OVERHEAD];
    MPI_Request big;
    char word = 0;
    tl_step("among others");
    fill(300, MOST);
    if (tl.rank < peer) {
        tl_fill(large, sizeof(large), key_of(tl.rank, peer, 301, 0));
        start(300, 0, 20);
        MPI_Send(&word, 1, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
        start(300, 20, 40);
        MPI_Ssend(&word, 1, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
        start(300, 40, 60);
        MPI_Isend(large, sizeof(large), MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &big);
        start(300, 60, 80);
        MPI_Buffer_attach(buffer, sizeof(buffer));
        MPI_Bsend(&word, 1, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
        start(300, 80, MOST);
        MPI_Waitall(MOST, request, MPI_STATUSES_IGNORE);
        MPI_Wait(&big, MPI_STATUS_IGNORE);
        void *address;
        int size;
        MPI_Buffer_detach(&address, &size);
    } else {
        for (int at = 0; at < MOST; at += 20) {
            take(300, at, at + 20);
            const bool is_large = 40 == at;
            if (at < 80) {
                MPI_Status status;
                MPI_Recv(large, sizeof(large), MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &status);
                CHECK_STATUS(status, peer, TAG, is_large ? sizeof(large) : 1);
            }
            if (is_large) {
                VERIFY(large, sizeof(large), key_of(peer, tl.rank, 301, 0));
            }
        }
    }
    MPI_Barrier(tl.ctl);
}

static void persistent(void)
{
    tl_step("persistent");
    for (int i = 0; i < MOST; ++i) {
        MPI_Send_init(out[i], (int) size_of(key_of(tl.rank, peer, 400, i)), MPI_BYTE, peer, TAG, MPI_COMM_WORLD,
                      &request[i]);
    }
    fill(400, MOST);
    for (int round = 0; round < 3; ++round) {
        MPI_Startall(MOST, request);
        take(400, 0, MOST);
        MPI_Waitall(MOST, request, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < MOST; ++i) {
        MPI_Request_free(&request[i]);
    }
}

/* Who has spent its credit waits for more, and takes it only when it calls MPI (docs/design/protocol.md, "Too many unexpected
 * messages"). So a round costs less than a quarter of it, what is left between rounds at least, and no CREDIT is on its way
 * when they begin. */
enum { OUTSIDE = 1000, SETTLED = 3 };

/* The sender does something else, and goes on when the receiver has everything: by a file, not by a message. */
static void outside(void)
{
    const int n = MOST - 7; /* not whole batches */
    largest = largest < OUTSIDE ? largest : OUTSIDE;
    char name[256];
    if (tl.rank < peer) {
        snprintf(name, sizeof(name), "%s/burst.%d.XXXXXX", NULL == getenv("TMPDIR") ? "/tmp" : getenv("TMPDIR"),
                 tl.rank);
        const int fd = mkstemp(name);
        CHECK(fd >= 0, "no file %s", name);
        close(fd);
        MPI_Send(name, sizeof(name), MPI_CHAR, peer, TAG + 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(name, sizeof(name), MPI_CHAR, peer, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < SETTLED; ++i) {
        MPI_Barrier(tl.ctl);
    }
    for (uint64_t round = 500; round < 503; ++round) {
        tl_step("round %d, followed by something else", (int) round);
        fill(round, MOST);
        MPI_Barrier(tl.ctl);
        if (tl.rank < peer) {
            struct stat status = {0};
            const off_t before = (off_t) (round - 500);
            start(round, 0, n);
            while (0 == stat(name, &status) && status.st_size == before) {
                usleep(100);
            }
            MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
        } else {
            take(round, 0, n);
            const int fd = open(name, O_WRONLY | O_APPEND);
            CHECK(fd >= 0 && 1 == write(fd, "x", 1), "cannot write to %s", name);
            close(fd);
        }
    }
    MPI_Barrier(tl.ctl);
    if (tl.rank < peer) {
        unlink(name);
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "burst", 100);
    CHECK(0 == tl.size % 2, "an even number of ranks is needed");
    peer = tl.rank ^ 1;
    largest = (size_t) tl_option("--largest", 3000);
    CHECK(largest <= SIZE, "there is room for %d bytes", SIZE);
    tl_pvar("pml_spec_gathered");
    for (int i = 0; i < MOST; ++i) {
        out[i] = tl_buf(SIZE);
        in[i] = tl_buf(SIZE);
    }
    waited_for();
    tested();
    freed();
    among_others();
    persistent();
    if (tl_option("--outside", 1)) {
        outside();
    }
    const long long wanted = tl_option("--gathers", -1), gathered = tl_pvar("pml_spec_gathered");
    CHECK(wanted < 0 || (0 == wanted ? 0 == gathered : gathered > MOST), "%lld messages waited for others", gathered);
    for (int i = 0; i < MOST; ++i) {
        FREE(out[i]);
        FREE(in[i]);
    }
    return tl_finish();
}
