/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Small messages pass a large one that is under way to the same process, receiver first and sender first, and find the
 * large one whole when it is complete. Between pairs of ranks.
 *
 *   --passes 1   in each order they must have passed at least once: btl/ibx over UDP */
#include "testlib.h"

enum { SIZE = 32 << 20, SMALLS = 20, ROUNDS = 6, LARGE_TAG = 1, SMALL_TAG, READY_TAG };

static char *large, small[1000];
static int peer;

static uint64_t key_of(int round, int number)
{
    return tl_key(81, tl.rank & ~1, tl.rank | 1, LARGE_TAG, (uint64_t) round << 32 | (uint32_t) number);
}

static void send_round(int round, bool receiver_first)
{
    MPI_Request request;
    tl_fill(large, SIZE, key_of(round, 0));
    if (receiver_first) { /* the offer is on its way before this message */
        MPI_Recv(NULL, 0, MPI_BYTE, peer, READY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Isend(large, SIZE, MPI_BYTE, peer, LARGE_TAG, MPI_COMM_WORLD, &request);
    for (int i = 1; i <= SMALLS; ++i) {
        tl_fill(small, sizeof(small), key_of(round, i));
        MPI_Send(small, sizeof(small), MPI_BYTE, peer, SMALL_TAG, MPI_COMM_WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Returns whether the first small message was here before the end of the large one. */
static bool receive_round(int round, bool receiver_first)
{
    MPI_Request request;
    MPI_Status status;
    bool passed = false;
    tl_poison(large, SIZE);
    if (receiver_first) {
        MPI_Irecv(large, SIZE, MPI_BYTE, peer, LARGE_TAG, MPI_COMM_WORLD, &request);
        MPI_Send(NULL, 0, MPI_BYTE, peer, READY_TAG, MPI_COMM_WORLD);
    } else {
        MPI_Probe(peer, LARGE_TAG, MPI_COMM_WORLD, &status);
        MPI_Irecv(large, SIZE, MPI_BYTE, peer, LARGE_TAG, MPI_COMM_WORLD, &request);
    }
    for (int i = 1; i <= SMALLS; ++i) {
        MPI_Recv(small, sizeof(small), MPI_BYTE, peer, SMALL_TAG, MPI_COMM_WORLD, &status);
        if (1 == i) {
            passed = 8 != tl_differs_from(large + SIZE - 8, 8, key_of(round, 0), SIZE - 8);
        }
        CHECK_STATUS(status, peer, SMALL_TAG, sizeof(small));
        VERIFY(small, sizeof(small), key_of(round, i));
    }
    MPI_Wait(&request, &status);
    CHECK_STATUS(status, peer, LARGE_TAG, SIZE);
    VERIFY(large, SIZE, key_of(round, 0));
    return passed;
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "passing", 120);
    const bool must_pass = 0 != tl_option("--passes", 0);
    peer = tl.rank ^ 1;
    if (peer < tl.size) {
        large = tl_buf(SIZE);
        for (int order = 0; order < 2; ++order) {
            int passed = 0;
            for (int round = 0; round < ROUNDS; ++round) {
                tl_step("%s first, round %d", 0 == order ? "receiver" : "sender", round);
                if (0 == tl.rank % 2) {
                    send_round(round, 0 == order);
                } else {
                    passed += receive_round(round, 0 == order);
                }
            }
            CHECK(!must_pass || 0 == tl.rank % 2 || passed > 0,
                  "no small message passed the large one in %d rounds", ROUNDS);
        }
        tl_buf_free(__FILE__, __LINE__, large);
    }
    return tl_finish();
}
