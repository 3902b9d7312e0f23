/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* MPI_Cancel of receives, above all of large ones whose buffers the sender may have been offered.
 *
 * What holds whatever the timing: of several receives of one envelope, those that were not cancelled
 * get the messages in order; those that were are as if they had never been; after MPI_Wait a
 * cancelled buffer belongs to the user, who fills it at once with something that must stay. */
#include "testlib.h"

enum { MAX_RECEIVES = 12, KEPT_BUFFERS = 64 };

/* Buffers of cancelled receives, refilled by us; checked again much later. */
static struct {
    char *buf;
    size_t n;
    uint64_t key;
} kept[KEPT_BUFFERS];
static int kept_next;

static void check_kept(int k)
{
    if (NULL != kept[k].buf) {
        VERIFY(kept[k].buf, kept[k].n, kept[k].key);
        FREE(kept[k].buf);
        kept[k].buf = NULL;
    }
}

static void keep(char *buf, size_t n)
{
    check_kept(kept_next);
    kept[kept_next].buf = buf;
    kept[kept_next].n = n;
    kept[kept_next].key = tl_key(30, tl.rank, kept_next, 0, (uintptr_t) buf);
    tl_fill(buf, n, kept[kept_next].key);
    kept_next = (kept_next + 1) % KEPT_BUFFERS;
}

/* Cancel and wait; true if it was cancelled and not received. */
static bool cancelled(MPI_Request *request, int way, MPI_Status *status)
{
    int flag = 0;
    MPI_Cancel(request);
    switch (way % 4) {
    case 0:
        MPI_Wait(request, status);
        break;
    case 1:
        while (!flag) {
            MPI_Test(request, &flag, status);
        }
        break;
    case 2:
        MPI_Waitall(1, request, status);
        break;
    default:
        MPI_Waitany(1, request, &flag, status);
    }
    CHECK(MPI_REQUEST_NULL == *request, "the request must be null when complete");
    MPI_Test_cancelled(status, &flag);
    return flag;
}

/* Posted, never sent to. */
static void never_matched(size_t n, int src, int dst, bool wild)
{
    tl_step("never matched, %zu bytes from %d to %d%s", n, src, dst, wild ? ", wildcards" : "");
    if (tl.rank == dst) {
        for (int way = 0; way < 4; ++way) {
            MPI_Request request;
            MPI_Status status;
            char *buf = tl_buf(n);
            MPI_Irecv(buf, (int) n, MPI_BYTE, wild && way & 1 ? MPI_ANY_SOURCE : src,
                      wild && way < 2 ? MPI_ANY_TAG : 1, MPI_COMM_WORLD, &request);
            CHECK(cancelled(&request, way, &status), "a receive nobody sends to was not cancelled");
            UNTOUCHED(buf, 0, n);
            keep(buf, n);
        }
        tl_tell(src);
    } else if (tl.rank == src) {
        tl_hear(dst);
    }
}

/* `receives` receives of the same envelope; those in the mask are cancelled before any message is
 * sent (the sender has heard of them), then the messages must go to the others in order. */
static void some_of_many(size_t n, int receives, unsigned mask, int src, int dst, bool any_source)
{
    tl_step("%d receives of %zu bytes, cancelled 0x%x, from %d to %d%s", receives, n, mask, src, dst,
            any_source ? ", any source" : "");
    int left = receives - __builtin_popcount(mask);
    if (tl.rank == dst) {
        char *buf[MAX_RECEIVES];
        MPI_Request request[MAX_RECEIVES];
        MPI_Status status;
        for (int i = 0; i < receives; ++i) {
            buf[i] = tl_buf(n);
            MPI_Irecv(buf[i], (int) n, MPI_BYTE, any_source && i & 1 ? MPI_ANY_SOURCE : src, 2,
                      MPI_COMM_WORLD, &request[i]);
        }
        tl_tell(src);
        tl_hear(src); /* everything that was to be told about the receives is there now */
        for (int i = 0; i < receives; ++i) {
            if (mask >> i & 1) {
                CHECK(cancelled(&request[i], i, &status), "receive %d was not cancelled", i);
                UNTOUCHED(buf[i], 0, n);
                keep(buf[i], n);
            }
        }
        tl_tell(src);
        int message = 0;
        for (int i = 0; i < receives; ++i) {
            if (!(mask >> i & 1)) {
                MPI_Wait(&request[i], &status);
                int flag;
                MPI_Test_cancelled(&status, &flag);
                CHECK(!flag, "receive %d says cancelled, but was not", i);
                CHECK_STATUS(status, src, 2, n);
                VERIFY(buf[i], n, tl_key(31, src, dst, receives, (uint64_t) message));
                FREE(buf[i]);
                ++message;
            }
        }
    } else if (tl.rank == src) {
        char *buf = tl_buf(n);
        tl_hear(dst);
        tl_tell(dst);
        tl_hear(dst);
        for (int i = 0; i < left; ++i) {
            tl_fill(buf, n, tl_key(31, src, dst, receives, (uint64_t) i));
            MPI_Send(buf, (int) n, MPI_BYTE, dst, 2, MPI_COMM_WORLD);
        }
        FREE(buf);
    }
}

/* Both sides at their own pace: receives are posted and some cancelled while the messages come. As
 * many messages as receives; what the cancelled ones did not take is received afterwards. */
static void race(int round, int src, int dst)
{
    tl_rng_t common = {.state = tl_mix((uint64_t) round * 2 + 1)};
    tl_rng_t own = {.state = tl_mix((uint64_t) round * 100 + (uint64_t) tl.rank)};
    static const size_t sizes[] = {100, 5000, 70000, 200000, 1 << 20};
    size_t n = sizes[tl_below(&common, TL_N(sizes))];
    int receives = 1 + (int) tl_below(&common, MAX_RECEIVES);
    bool small_ones = 0 == tl_below(&common, 3), early = tl_below(&common, 2);
    tl_step("race %d: %d receives of %zu bytes from %d to %d", round, receives, n, src, dst);

    if (tl.rank == src) {
        char *buf = tl_buf(n);
        if (early) {
            tl_hear(dst);
        }
        for (int i = 0; i < receives; ++i) {
            size_t size = small_ones && i % 3 == 1 ? 60 : n;
            tl_fill(buf, size, tl_key(32, src, dst, round, (uint64_t) i));
            tl_dither(&own);
            MPI_Send(buf, (int) size, MPI_BYTE, dst, 3, MPI_COMM_WORLD);
        }
        FREE(buf);
        return;
    }
    if (tl.rank != dst) {
        return;
    }
    char *buf[MAX_RECEIVES];
    MPI_Request request[MAX_RECEIVES];
    MPI_Status status;
    bool gone[MAX_RECEIVES] = {false}, received[MAX_RECEIVES] = {false};
    for (int i = 0; i < receives; ++i) {
        buf[i] = tl_buf(n);
        MPI_Irecv(buf[i], (int) n, MPI_BYTE, 0 == tl_below(&own, 5) ? MPI_ANY_SOURCE : src,
                  0 == tl_below(&own, 6) ? MPI_ANY_TAG : 3, MPI_COMM_WORLD, &request[i]);
        if (i == receives / 2 && early) {
            tl_tell(src);
        }
        if (0 == tl_below(&own, 3)) { /* one of those that are there already */
            int victim = (int) tl_below(&own, (uint64_t) i + 1);
            tl_dither(&own);
            if (MPI_REQUEST_NULL != request[victim]) {
                gone[victim] = cancelled(&request[victim], round, &status);
                received[victim] = !gone[victim];
                if (gone[victim]) {
                    keep(buf[victim], n);
                }
            }
        }
    }
    int order[MAX_RECEIVES], matched = 0;
    for (int i = 0; i < receives; ++i) {
        if (!gone[i]) {
            if (!received[i]) {
                MPI_Wait(&request[i], MPI_STATUS_IGNORE);
            }
            order[matched++] = i;
        }
    }
    for (int m = 0; m < receives; ++m) {
        size_t size = small_ones && m % 3 == 1 ? 60 : n;
        char *into = m < matched ? buf[order[m]] : tl_buf(n);
        if (m >= matched) {
            MPI_Recv(into, (int) n, MPI_BYTE, src, 3, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, src, 3, size);
        }
        VERIFY(into, size, tl_key(32, src, dst, round, (uint64_t) m));
        UNTOUCHED(into, size, n);
        FREE(into);
    }
}

/* Of two receives with equal envelopes, cancel and repost at once: the new one is the last in line. */
static void repost(size_t n, int src, int dst)
{
    enum { TIMES = 40 };
    tl_step("cancel and repost, %zu bytes from %d to %d", n, src, dst);
    char *a = tl_buf(n), *b = tl_buf(n);
    for (int i = 0; i < TIMES; ++i) {
        uint64_t first = tl_key(33, src, dst, i, 0), second = tl_key(33, src, dst, i, 1);
        if (tl.rank == dst) {
            MPI_Request ra, rb;
            MPI_Status status;
            MPI_Irecv(a, (int) n, MPI_BYTE, src, 4, MPI_COMM_WORLD, &ra);
            MPI_Irecv(b, (int) n, MPI_BYTE, src, 4, MPI_COMM_WORLD, &rb);
            CHECK(cancelled(&ra, i, &status), "not cancelled, and nothing was sent");
            MPI_Irecv(a, (int) n, MPI_BYTE, src, 4, MPI_COMM_WORLD, &ra);
            tl_tell(src);
            MPI_Wait(&rb, MPI_STATUS_IGNORE);
            MPI_Wait(&ra, MPI_STATUS_IGNORE);
            VERIFY(b, n, first);
            VERIFY(a, n, second);
        } else if (tl.rank == src) {
            MPI_Request request[2];
            tl_fill(a, n, first);
            tl_fill(b, n, second);
            tl_hear(dst);
            MPI_Isend(a, (int) n, MPI_BYTE, dst, 4, MPI_COMM_WORLD, &request[0]);
            MPI_Isend(b, (int) n, MPI_BYTE, dst, 4, MPI_COMM_WORLD, &request[1]);
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        }
    }
    FREE(a);
    FREE(b);
}

/* MPI_Request_free instead of waiting for the cancelled one; and cancel of what is complete. */
static void odd_ends(size_t n, int src, int dst)
{
    tl_step("cancel, then free; cancel of a complete receive; %zu bytes from %d to %d", n, src, dst);
    char *buf = tl_buf(n);
    uint64_t key = tl_key(34, src, dst, 0, n);
    if (tl.rank == dst) {
        MPI_Request request;
        MPI_Status status;
        int flag;
        char *freed = tl_buf(n);
        MPI_Irecv(freed, (int) n, MPI_BYTE, src, 5, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Request_free(&request);
        CHECK(MPI_REQUEST_NULL == request, "free must leave a null request");
        MPI_Irecv(buf, (int) n, MPI_BYTE, src, 5, MPI_COMM_WORLD, &request);
        tl_tell(src);
        tl_hear(src); /* the message is at least under way */
        do {
            MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
        } while (!flag);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(!flag, "a complete receive cannot be cancelled");
        CHECK_STATUS(status, src, 5, n);
        VERIFY(buf, n, key);
        UNTOUCHED(freed, 0, n);
        FREE(freed);
    } else if (tl.rank == src) {
        MPI_Request request;
        tl_hear(dst);
        tl_fill(buf, n, key);
        MPI_Isend(buf, (int) n, MPI_BYTE, dst, 5, MPI_COMM_WORLD, &request);
        tl_tell(dst);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    FREE(buf);
}

/* A persistent receive is cancelled, restarted, used. */
static void persistent(size_t n, int src, int dst)
{
    enum { ROUNDS = 20 };
    tl_step("persistent, %zu bytes from %d to %d", n, src, dst);
    char *buf = tl_buf(n);
    MPI_Request request;
    if (tl.rank == dst) {
        MPI_Recv_init(buf, (int) n, MPI_BYTE, src, 6, MPI_COMM_WORLD, &request);
    }
    for (int i = 0; i < ROUNDS; ++i) {
        if (tl.rank == dst) {
            MPI_Status status;
            int flag;
            MPI_Start(&request);
            if (i & 1) {
                tl_tell(src);
                tl_hear(src);
            }
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(flag, "round %d: not cancelled", i);
            CHECK(MPI_REQUEST_NULL != request, "a persistent request must survive");
            MPI_Start(&request);
            tl_tell(src);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(!flag, "round %d: cancelled, but was not", i);
            CHECK_STATUS(status, src, 6, n);
            VERIFY(buf, n, tl_key(35, src, dst, i, n));
        } else if (tl.rank == src) {
            if (i & 1) {
                tl_hear(dst);
                tl_tell(dst);
            }
            tl_hear(dst);
            tl_fill(buf, n, tl_key(35, src, dst, i, n));
            MPI_Send(buf, (int) n, MPI_BYTE, dst, 6, MPI_COMM_WORLD);
        }
    }
    if (tl.rank == dst) {
        MPI_Request_free(&request);
    }
    FREE(buf);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "cancel", 120);
    int rounds = (int) tl_option("--rounds", 300);
    static const size_t sizes[] = {0, 64, 5000, 70000, 300000, 2 << 20};
    static const unsigned masks[] = {0x1, 0x2, 0x4, 0x5, 0x3, 0x6, 0x7, 0x0};
    for (int src = 0; src < tl.size && tl.size > 1; ++src) {
        int dst = (src + 1) % tl.size;
        MPI_Barrier(tl.ctl);
        for (size_t i = 0; i < TL_N(sizes); ++i) {
            never_matched(sizes[i], src, dst, false);
            never_matched(sizes[i], src, dst, true);
            for (size_t m = 0; m < TL_N(masks); ++m) {
                some_of_many(sizes[i], 3, masks[m], src, dst, false);
                some_of_many(sizes[i], 3, masks[m], src, dst, true);
            }
            some_of_many(sizes[i], MAX_RECEIVES, 0x5a5, src, dst, false);
            some_of_many(sizes[i], MAX_RECEIVES, 0xffe, src, dst, true);
            repost(sizes[i], src, dst);
            odd_ends(sizes[i], src, dst);
            persistent(sizes[i], src, dst);
        }
        for (int round = 0; round < rounds; ++round) {
            race(round, src, dst);
        }
    }
    for (int k = 0; k < KEPT_BUFFERS; ++k) {
        check_kept(k);
    }
    return tl_finish();
}
