/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A cancelled receive ends whatever its sender does.
 *
 * After MPI_Cancel the receiver waits for the receive, or tests it until it is complete, or frees it - and only then tells the
 * sender, by a file and not by MPI, that it may call MPI again. Until then the sender does not. If the wait needs the sender the
 * program hangs, and is ended by the watchdog.
 *
 * Of the receives that were cancelled before a message was sent all are cancelled; a receive whose message the sender has
 * begun to send may end either way. In both cases the messages go to the receives that are left, in order, with the right bytes,
 * and the buffers of cancelled receives, which are given to something else at once, stay as they are. */
#include "testlib.h"

enum { MOST = 200, TAG = 3 };

/* ---- a receive, and how it ends ---- */

typedef enum { WAIT, TEST, WAITALL, WAITANY, FREES, WAYS } way_t;
static const char *const way_names[WAYS] = {"wait", "test", "waitall", "waitany", "free"};

/* Every `gap`th block of a derived type is left out: then no buffer is offered, and the same must hold. */
static MPI_Datatype type_of(size_t n, bool gaps)
{
    MPI_Datatype type;
    if (gaps) {
        MPI_Type_vector((int) (n / 8), 4, 8, MPI_BYTE, &type); /* n / 2 bytes of n */
    } else {
        MPI_Type_contiguous((int) n, MPI_BYTE, &type);
    }
    MPI_Type_commit(&type);
    return type;
}

/* What the receive has freed cannot tell how it ended: it was cancelled, since nothing was sent. */
static bool ends_cancelled(MPI_Request *request, way_t way)
{
    MPI_Status status;
    int flag = 0;
    switch (way) {
    case WAIT:
        MPI_Wait(request, &status);
        break;
    case TEST:
        while (!flag) {
            MPI_Test(request, &flag, &status);
        }
        break;
    case WAITALL:
        MPI_Waitall(1, request, &status);
        break;
    case WAITANY:
        MPI_Waitany(1, request, &flag, &status);
        break;
    default:
        MPI_Request_free(request);
        return true;
    }
    MPI_Test_cancelled(&status, &flag);
    return flag;
}

typedef struct {
    size_t n;
    int count;    /* receives posted */
    int left;     /* of them, those that are not cancelled */
    bool gaps;    /* the receives' buffers have */
    bool reached; /* the sender has heard of them before it leaves MPI */
    way_t way;
} case_t;

/* Receives `left` + `count` messages, in order: the first go to those that were not cancelled. */
static void take(const case_t *c, MPI_Request *request, char **buf, int first, uint64_t key)
{
    MPI_Datatype type = type_of(c->n, false);
    for (int i = 0; i < c->left; ++i) {
        MPI_Wait(&request[i], MPI_STATUS_IGNORE);
        if (!c->gaps) {
            VERIFY(buf[i], c->n, key + (uint64_t) i);
        }
    }
    char *into = tl_buf(c->n);
    for (int i = first; i < c->count; ++i) {
        MPI_Status status;
        const size_t bytes = c->gaps ? c->n / 2 : c->n;
        MPI_Recv(into, 1, type, 0, TAG, MPI_COMM_WORLD, &status);
        CHECK_STATUS(status, 0, TAG, bytes);
        VERIFY(into, bytes, key + (uint64_t) i);
    }
    FREE(into);
    MPI_Type_free(&type);
}

/* Nothing is sent before the receives are cancelled. */
static void before(const case_t *c)
{
    const uint64_t key = tl_key(40, 0, 1, c->count, c->n + (uint64_t) c->way);
    const size_t bytes = c->gaps ? c->n / 2 : c->n;
    tl_step("%d receives of %zu bytes%s, all but %d cancelled, %s, %s", c->count, c->n,
            c->gaps ? " with gaps" : "", c->left, way_names[c->way],
            c->reached ? "known to the sender" : "on their way");
    char *buf[MOST];
    if (0 == tl.rank) {
        buf[0] = tl_buf(c->n);
        tl_hear(1);
        if (c->reached) {
            tl_tell(1);
        }
        tl_outside_await();
        for (int i = 0; i < c->count; ++i) {
            tl_fill(buf[0], bytes, key + (uint64_t) i);
            MPI_Send(buf[0], (int) bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        }
        FREE(buf[0]);
    } else if (1 == tl.rank) {
        MPI_Datatype type = type_of(c->n, c->gaps);
        MPI_Request request[MOST];
        if (!c->reached) {
            tl_tell(0); /* it is on its way out of MPI */
        }
        for (int i = 0; i < c->count; ++i) {
            buf[i] = tl_buf(c->n);
            MPI_Irecv(buf[i], 1, type, 0, TAG, MPI_COMM_WORLD, &request[i]);
        }
        if (c->reached) {
            tl_tell(0);
            tl_hear(0);
        }
        for (int i = c->left; i < c->count; ++i) {
            MPI_Cancel(&request[i]);
        }
        for (int i = c->left; i < c->count; ++i) {
            CHECK(ends_cancelled(&request[i], c->way), "receive %d was not cancelled", i);
            UNTOUCHED(buf[i], 0, c->n);
            tl_fill(buf[i], c->n, key + 1000 + (uint64_t) i);
        }
        tl_outside_tell();
        take(c, request, buf, c->left, key);
        for (int i = 0; i < c->count; ++i) {
            if (i >= c->left) {
                VERIFY(buf[i], c->n, key + 1000 + (uint64_t) i);
            }
            FREE(buf[i]);
        }
        MPI_Type_free(&type);
    }
    MPI_Barrier(tl.ctl);
}

/* The sender has begun to send when the receives are cancelled, and is not in MPI: what it has begun goes on without it, or the
 * receive is cancelled. */
static void after(size_t n, int count, way_t way)
{
    const uint64_t key = tl_key(41, 0, 1, count, n + (uint64_t) way);
    tl_step("%d receives of %zu bytes, cancelled when the messages are on their way, %s", count, n,
            way_names[way]);
    char *buf[MOST];
    MPI_Request request[MOST];
    for (int i = 0; i < count; ++i) {
        buf[i] = tl_buf(n);
    }
    if (0 == tl.rank) {
        tl_hear(1);
        for (int i = 0; i < count; ++i) {
            tl_fill(buf[i], n, key + (uint64_t) i);
            MPI_Isend(buf[i], (int) n, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request[i]);
        }
        tl_outside_tell();
        tl_outside_await();
        MPI_Waitall(count, request, MPI_STATUSES_IGNORE);
    } else if (1 == tl.rank) {
        int taken = 0;
        for (int i = 0; i < count; ++i) {
            MPI_Irecv(buf[i], (int) n, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request[i]);
        }
        tl_tell(0);
        tl_outside_await();
        for (int i = 0; i < count; ++i) {
            MPI_Cancel(&request[i]);
        }
        for (int i = 0; i < count; ++i) {
            if (ends_cancelled(&request[i], way)) {
                tl_fill(buf[i], n, key + 1000 + (uint64_t) i);
            } else {
                VERIFY(buf[i], n, key + (uint64_t) taken);
                ++taken;
            }
        }
        tl_outside_tell();
        const case_t rest = {.n = n, .count = count};
        take(&rest, NULL, NULL, taken, key);
    }
    for (int i = 0; i < count; ++i) {
        FREE(buf[i]);
    }
    MPI_Barrier(tl.ctl);
}

/* As before, of a persistent receive, again and again: what is left of one offer is in nobody's way. */
static void again(size_t n)
{
    enum { ROUNDS = 30 };
    const uint64_t key = tl_key(42, 0, 1, 0, n);
    tl_step("a persistent receive of %zu bytes, cancelled %d times", n, ROUNDS);
    char *buf = tl_buf(n);
    if (0 == tl.rank) {
        tl_hear(1);
        tl_outside_await();
        tl_fill(buf, n, key);
        MPI_Send(buf, (int) n, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else if (1 == tl.rank) {
        MPI_Request request;
        MPI_Recv_init(buf, (int) n, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
        tl_tell(0);
        for (int i = 0; i < ROUNDS; ++i) {
            MPI_Status status;
            int flag;
            MPI_Start(&request);
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(flag, "round %d: not cancelled", i);
            UNTOUCHED(buf, 0, n);
        }
        MPI_Start(&request);
        tl_outside_tell();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        VERIFY(buf, n, key);
        MPI_Request_free(&request);
    }
    FREE(buf);
    MPI_Barrier(tl.ctl);
}

/* The communicator is freed, and its id used again, while what was said about the cancelled receives is on its way. */
static void freed(size_t n)
{
    enum { ROUNDS = 20 };
    tl_step("a receive of %zu bytes, cancelled before its communicator is freed, %d times", n,
            ROUNDS);
    char *buf = tl_buf(n);
    for (int i = 0; i < ROUNDS; ++i) {
        MPI_Comm comm;
        const uint64_t key = tl_key(43, 0, 1, i, n);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (0 == tl.rank) {
            tl_fill(buf, n, key);
            MPI_Send(buf, (int) n, MPI_BYTE, 1, TAG, comm);
        } else if (1 == tl.rank) {
            MPI_Request request[2];
            char *gone = tl_buf(n);
            MPI_Irecv(buf, (int) n, MPI_BYTE, 0, TAG, comm, &request[0]);
            MPI_Irecv(gone, (int) n, MPI_BYTE, 0, TAG + 1, comm, &request[1]);
            MPI_Wait(&request[0], MPI_STATUS_IGNORE);
            VERIFY(buf, n, key);
            MPI_Cancel(&request[1]);
            CHECK(ends_cancelled(&request[1], (way_t) (i % FREES)), "it was not cancelled");
            UNTOUCHED(gone, 0, n);
            FREE(gone);
        }
        MPI_Comm_free(&comm);
    }
    FREE(buf);
    MPI_Barrier(tl.ctl);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "cancel_local", 120);
    /* Up to this size messages that have begun end without the sender. Over tcp one that is longer than a packet leaves, or asks to be
     * fetched, in the sender's next call of progress, under ob1 too. */
    const size_t begun = (size_t) tl_option("--begun", 300000);
    static const size_t sizes[] = {64, 5000, 70000, 300000, 2 << 20};
    if (tl.size < 2) {
        printf("SKIP: two processes are needed\n");
        return tl_finish();
    }
    tl_outside_start();
    for (size_t i = 0; i < TL_N(sizes); ++i) {
        for (way_t way = WAIT; way < WAYS; ++way) {
            for (int k = 0; k < 4; ++k) {
                const case_t one = {
                    .n = sizes[i], .count = 1, .gaps = k & 1, .reached = k & 2, .way = way};
                before(&one);
            }
            const case_t some = {.n = sizes[i], .count = 5, .left = 2, .reached = true, .way = way};
            before(&some);
            if (sizes[i] <= begun && FREES != way) {
                after(sizes[i], 1, way);
                after(sizes[i], 4, way);
            }
        }
        const case_t many = {.n = sizes[i],
                             .count = sizes[i] > 300000 ? 20 : MOST,
                             .reached = i & 1,
                             .way = WAITALL};
        before(&many);
        again(sizes[i]);
        freed(sizes[i]);
    }
    return tl_finish();
}
