/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Partitioned communication (MPI 4, Open MPI 5.0: part/persist, which sends each part as a message of its own): parts that
 * become ready in any order, tested one by one, by threads of the sender, started again and again, beside plain messages
 * with the same tag.
 *
 * usage: partitioned [--rounds N] [--threads N] */
#include "testlib.h"

#if MPI_VERSION < 4 && (!defined(OMPI_MAJOR_VERSION) || OMPI_MAJOR_VERSION < 5)

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "partitioned", 120);
    tl_skip("this Open MPI has no partitioned communication");
    return tl_finish();
}

#else

#    include <pthread.h>

enum { MOST_PARTS = 16, MOST_THREADS = 8 };

static int next, prev, threads;

/* A thread's share of the parts: every threads-th from its number on. */
typedef struct share {
    MPI_Request request;
    int parts, first;
    pthread_t thread;
} share_t;

static void *make_ready(void *data)
{
    const share_t *share = data;
    for (int i = share->first; i < share->parts; i += threads) {
        MPI_Pready(i, share->request);
    }
    return NULL;
}

/* All parts become ready: forwards, backwards, in ranges, listed, or by several threads. */
static void ready(int how, int parts, MPI_Request request)
{
    int list[MOST_PARTS];
    share_t share[MOST_THREADS];
    if (threads > 0) {
        for (int t = 0; t < threads; ++t) {
            share[t] = (share_t){.request = request, .parts = parts, .first = t};
            pthread_create(&share[t].thread, NULL, make_ready, &share[t]);
        }
        for (int t = 0; t < threads; ++t) {
            pthread_join(share[t].thread, NULL);
        }
        return;
    }
    switch (how % 4) {
    case 0:
        for (int i = 0; i < parts; ++i) {
            MPI_Pready(i, request);
        }
        break;
    case 1:
        for (int i = parts; i-- > 0;) {
            MPI_Pready(i, request);
        }
        break;
    case 2:
        MPI_Pready_range(parts / 2, parts - 1, request);
        if (parts > 1) {
            MPI_Pready_range(0, parts / 2 - 1, request);
        }
        break;
    case 3:
        for (int i = 0; i < parts; ++i) {
            list[i] = (i + 1) % parts;
        }
        MPI_Pready_list(parts, list, request);
        break;
    }
}

/* Around the ring, `parts` of `each` bytes, met by another number of parts. */
static void exchange(int parts, size_t each, int in_parts, int rounds)
{
    enum { TAG = 5, PLAIN = 300 };
    const size_t n = (size_t) parts * each, in_each = n / (size_t) in_parts;
    char *out = tl_buf(n), *in = tl_buf(n), plain_out[PLAIN], plain_in[PLAIN];
    MPI_Request sends, receives;
    MPI_Psend_init(out, parts, (MPI_Count) each, MPI_BYTE, next, TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &sends);
    MPI_Precv_init(in, in_parts, (MPI_Count) in_each, MPI_BYTE, prev, TAG, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &receives);
    for (int round = 0; round < rounds; ++round) {
        const uint64_t number = (uint64_t) round;
        tl_step("%d parts of %zu bytes to %d, round %d", parts, each, in_parts, round);
        tl_fill(out, n, tl_key(7, tl.rank, next, parts, number));
        tl_poison(in, n);
        MPI_Start(&receives);
        MPI_Start(&sends);
        tl_fill(plain_out, PLAIN, tl_key(8, tl.rank, next, parts, number));
        ready(round, parts, sends);
        MPI_Sendrecv(plain_out, PLAIN, MPI_BYTE, next, TAG, plain_in, PLAIN, MPI_BYTE, prev, TAG,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        VERIFY(plain_in, PLAIN, tl_key(8, prev, tl.rank, parts, number));
        /* A part that has arrived is whole, whatever the others do. (Where the numbers of parts differ MPI_Parrived of 5.0
         * and 6.0 tests others than those of the part, and beyond the last: part_persist.h.) */
        if ((round & 1) && parts == in_parts) {
            for (int i = in_parts; i-- > 0;) {
                int here = 0;
                while (!here) {
                    MPI_Parrived(receives, i, &here);
                }
                const size_t from = (size_t) i * in_each;
                const size_t differs = tl_differs_from(
                    in + from, in_each, tl_key(7, prev, tl.rank, parts, number), from);
                CHECK(in_each == differs, "part %d has come, but byte %zu of it is wrong", i,
                      differs);
            }
        }
        MPI_Wait(&sends, MPI_STATUS_IGNORE);
        MPI_Wait(&receives, MPI_STATUS_IGNORE);
        VERIFY(in, n, tl_key(7, prev, tl.rank, parts, number));
    }
    MPI_Request_free(&sends);
    MPI_Request_free(&receives);
    FREE(in);
    FREE(out);
}

int main(int argc, char **argv)
{
    tl_start_thread(&argc, &argv, "partitioned", 120, MPI_THREAD_MULTIPLE);
    const int rounds = (int) tl_option("--rounds", 8);
    threads = (int) tl_option("--threads", 0);
    next = (tl.rank + 1) % tl.size;
    prev = (tl.rank + tl.size - 1) % tl.size;
    static const size_t sizes[] = {8, 1000, 5000, 100000};
    for (size_t i = 0; i < TL_N(sizes); ++i) {
        exchange(1, sizes[i], 1, rounds);
        exchange(8, sizes[i], 8, rounds);
        exchange(16, sizes[i], 4, rounds);
        exchange(2, sizes[i], 8, rounds);
    }
    return tl_finish();
}

#endif
