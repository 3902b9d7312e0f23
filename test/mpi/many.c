/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Ten thousand receives or messages waiting at once: distinct tags and equal ones, matched forwards,
 * backwards and at random, with some large ones in between. */
#include "testlib.h"

static int messages = 10000;

enum { FORWARDS, BACKWARDS, RANDOM, ORDERS };
static const char *order_name[] = {"forwards", "backwards", "at random"};

static void make_order(int *order, int kind)
{
    tl_rng_t rng = {.state = 80};
    for (int i = 0; i < messages; ++i) {
        order[i] = BACKWARDS == kind ? messages - 1 - i : i;
    }
    for (int i = messages - 1; RANDOM == kind && i > 0; --i) {
        int other = (int) tl_below(&rng, (uint64_t) i + 1), t = order[i];
        order[i] = order[other];
        order[other] = t;
    }
}

/* Message i: mostly small, each 500th takes a rendezvous. */
static size_t size_of(int i)
{
    return i % 500 == 250 ? 100000 : i % 500 == 100 ? 5000 : 8 + (size_t) (i % 3) * 8;
}

/* All receives are posted in order; messages of distinct tags are sent in another order, those of
 * equal tags (one in `shared` each) in the order of the numbers. */
static void posted(int kind, int shared, int src, int dst)
{
    int *order = malloc((size_t) messages * sizeof(int));
    make_order(order, shared > 1 ? FORWARDS : kind);
    tl_step("%d posted, sent %s, %d per tag, from %d to %d", messages, order_name[kind], shared, src,
            dst);
    if (tl.rank == dst) {
        MPI_Request *request = malloc((size_t) messages * sizeof(*request));
        char **buf = malloc((size_t) messages * sizeof(*buf));
        for (int i = 0; i < messages; ++i) {
            buf[i] = tl_buf(size_of(i));
            MPI_Irecv(buf[i], (int) size_of(i), MPI_BYTE, src, i / shared, MPI_COMM_WORLD, &request[i]);
        }
        tl_tell(src);
        MPI_Waitall(messages, request, MPI_STATUSES_IGNORE);
        for (int i = 0; i < messages; ++i) {
            VERIFY(buf[i], size_of(i), tl_key(81, src, dst, i / shared, (uint64_t) i));
            FREE(buf[i]);
        }
        free(request);
        free(buf);
    } else if (tl.rank == src) {
        char *buf = tl_buf(100000);
        tl_hear(dst);
        for (int k = 0; k < messages; ++k) {
            int i = order[k];
            tl_fill(buf, size_of(i), tl_key(81, src, dst, i / shared, (uint64_t) i));
            MPI_Send(buf, (int) size_of(i), MPI_BYTE, dst, i / shared, MPI_COMM_WORLD);
        }
        FREE(buf);
    }
    free(order);
}

/* All messages arrive before the first receive, then are received in another order of tags. */
static void unexpected(int kind, int shared, bool wild, int src, int dst)
{
    int *order = malloc((size_t) messages * sizeof(int));
    make_order(order, shared > 1 || wild ? FORWARDS : kind);
    tl_step("%d unexpected, received %s, %d per tag%s, from %d to %d", messages, order_name[kind],
            shared, wild ? ", any source, any tag" : "", src, dst);
    if (tl.rank == src) {
        MPI_Request *request = malloc((size_t) messages * sizeof(*request));
        char **buf = malloc((size_t) messages * sizeof(*buf));
        for (int i = 0; i < messages; ++i) {
            buf[i] = tl_buf(size_of(i));
            tl_fill(buf[i], size_of(i), tl_key(82, src, dst, i / shared, (uint64_t) i));
            MPI_Isend(buf[i], (int) size_of(i), MPI_BYTE, dst, i / shared, MPI_COMM_WORLD,
                      &request[i]);
        }
        MPI_Send(NULL, 0, MPI_BYTE, dst, messages, MPI_COMM_WORLD);
        MPI_Waitall(messages, request, MPI_STATUSES_IGNORE);
        for (int i = 0; i < messages; ++i) {
            FREE(buf[i]);
        }
        free(request);
        free(buf);
    } else if (tl.rank == dst) {
        char *buf = tl_buf(100000);
        MPI_Status status;
        MPI_Recv(NULL, 0, MPI_BYTE, src, messages, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int k = 0; k < messages; ++k) {
            int i = order[k];
            MPI_Recv(buf, 100000, MPI_BYTE, wild ? MPI_ANY_SOURCE : src,
                     wild ? MPI_ANY_TAG : i / shared, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, src, i / shared, size_of(i));
            VERIFY(buf, size_of(i), tl_key(82, src, dst, i / shared, (uint64_t) i));
        }
        FREE(buf);
    }
    free(order);
}

/* Receives that nothing matches stand in the queue while others pass; wildcards among them. */
static void crowd(int src, int dst)
{
    tl_step("traffic past %d receives of other tags, from %d to %d", messages, src, dst);
    enum { PASSING = 2000 };
    char *buf = tl_buf(100000);
    if (tl.rank == dst) {
        MPI_Request *request = malloc((size_t) messages * sizeof(*request));
        char *idle = tl_buf(8);
        for (int i = 0; i < messages; ++i) {
            MPI_Irecv(idle, 8, MPI_BYTE, i % 7 ? src : MPI_ANY_SOURCE, 20000 + i % 5000,
                      MPI_COMM_WORLD, &request[i]);
        }
        tl_tell(src);
        for (int i = 0; i < PASSING; ++i) {
            MPI_Recv(buf, 100000, MPI_BYTE, i % 3 ? src : MPI_ANY_SOURCE, i % 11, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            VERIFY(buf, size_of(i), tl_key(83, src, dst, i % 11, (uint64_t) i));
        }
        for (int i = 0; i < messages; ++i) {
            MPI_Status status;
            int flag;
            MPI_Cancel(&request[i]);
            MPI_Wait(&request[i], &status);
            MPI_Test_cancelled(&status, &flag);
            if (!CHECK(flag, "receive %d was not cancelled", i)) {
                break;
            }
        }
        UNTOUCHED(idle, 0, 8);
        FREE(idle);
        free(request);
    } else if (tl.rank == src) {
        tl_hear(dst);
        for (int i = 0; i < PASSING; ++i) {
            tl_fill(buf, size_of(i), tl_key(83, src, dst, i % 11, (uint64_t) i));
            MPI_Send(buf, (int) size_of(i), MPI_BYTE, dst, i % 11, MPI_COMM_WORLD);
        }
    }
    FREE(buf);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "many", 120);
    messages = (int) tl_option("--messages", messages);
    for (int pair = 0; pair < 2 && tl.size > 1; ++pair) {
        int src = pair ? tl.size - 1 : 0, dst = pair ? 0 : tl.size - 1;
        for (int kind = 0; kind < ORDERS; ++kind) {
            posted(kind, 1, src, dst);
            unexpected(kind, 1, false, src, dst);
        }
        posted(FORWARDS, 100, src, dst);
        posted(FORWARDS, messages, src, dst);
        unexpected(FORWARDS, 100, false, src, dst);
        unexpected(FORWARDS, messages, false, src, dst);
        unexpected(FORWARDS, 1, true, src, dst);
        crowd(src, dst);
    }
    return tl_finish();
}
