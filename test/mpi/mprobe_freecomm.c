/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A matched message outlives its communicator: found with MPI_Mprobe or MPI_Improbe, the communicator freed, its memory perhaps another
 * one's by then, and received with MPI_Mrecv or MPI_Imrecv, in another order than found. Each size of protocol, eager and not; with
 * --threads 1 another thread is in MPI meanwhile. The sender frees the communicator with its sends under way. */
#include "testlib.h"

#include <pthread.h>

enum { MESSAGES = 6, TAG = 7, NEVER = 77, ROUNDS = 6 };

static int stopped; /* atomic */

static void *poll(void *arg)
{
    (void) arg;
    while (0 == __atomic_load_n(&stopped, __ATOMIC_ACQUIRE)) {
        int flag;
        MPI_Iprobe(tl.rank ^ 1, NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    return NULL;
}

/* What becomes of the memory of a freed communicator: nothing, another one's and freed again, or another one's, with a message of its
 * own; by the round, the same at both. */
static void reuse(int round, MPI_Comm *comm)
{
    int mine = tl.rank, theirs = -1;
    *comm = MPI_COMM_NULL;
    if (0 == round / 2 % 3) {
        return;
    }
    if (1 == round / 2 % 3) {
        MPI_Comm_dup(MPI_COMM_SELF, comm);
        MPI_Comm_free(comm);
        return;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, comm);
    MPI_Sendrecv(&mine, 1, MPI_INT, tl.rank ^ 1, TAG, &theirs, 1, MPI_INT, tl.rank ^ 1, TAG, *comm,
                 MPI_STATUS_IGNORE);
    CHECK(theirs == (tl.rank ^ 1), "got %d", theirs);
}

static void send_all(size_t n, int round)
{
    MPI_Comm comm, next;
    MPI_Request request[MESSAGES];
    char *buf[MESSAGES];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < MESSAGES; ++i) {
        buf[i] = tl_buf(n);
        tl_fill(buf[i], n, tl_key(19, round, i, TAG, n));
        MPI_Isend(buf[i], (int) n, MPI_BYTE, tl.rank ^ 1, TAG + i, comm, &request[i]);
    }
    MPI_Comm_free(&comm);
    reuse(round, &next);
    MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
    if (MPI_COMM_NULL != next) {
        MPI_Comm_free(&next);
    }
    for (int i = 0; i < MESSAGES; ++i) {
        FREE(buf[i]);
    }
}

static void find(int i, MPI_Comm comm, MPI_Message *message, size_t n)
{
    MPI_Status status;
    const int source = i & 1 ? MPI_ANY_SOURCE : tl.rank ^ 1;
    if (i & 2) {
        MPI_Mprobe(source, TAG + i, comm, message, &status);
    } else {
        for (int found = 0; !found;) {
            MPI_Improbe(source, TAG + i, comm, &found, message, &status);
        }
    }
    CHECK_STATUS(status, tl.rank ^ 1, TAG + i, n);
}

static void receive_all(size_t n, int round)
{
    MPI_Comm comm, next;
    MPI_Message message[MESSAGES];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < MESSAGES; ++i) {
        find(i, comm, &message[i], n);
    }
    MPI_Comm_free(&comm);
    reuse(round, &next);
    for (int k = 0; k < MESSAGES; ++k) {
        const int i = (k * 5 + round) % MESSAGES;
        char *buf = tl_buf(n);
        MPI_Status status;
        MPI_Request request;
        if ((i + round) & 1) {
            MPI_Mrecv(buf, (int) n, MPI_BYTE, &message[i], &status);
        } else {
            MPI_Imrecv(buf, (int) n, MPI_BYTE, &message[i], &request);
            MPI_Wait(&request, &status);
        }
        CHECK_STATUS(status, tl.rank ^ 1, TAG + i, n);
        VERIFY(buf, n, tl_key(19, round, i, TAG, n));
        FREE(buf);
    }
    if (MPI_COMM_NULL != next) {
        MPI_Comm_free(&next);
    }
}

int main(int argc, char **argv)
{
    const int provided = tl_start_thread(&argc, &argv, "mprobe_freecomm", 60, MPI_THREAD_MULTIPLE);
    const bool threads = tl_option("--threads", 0) > 0 && MPI_THREAD_MULTIPLE == provided;
    pthread_t poller;
    if (0 != tl.size % 2) {
        tl_skip("ranks work in pairs");
        return tl_finish();
    }
    if (threads) {
        pthread_create(&poller, NULL, poll, NULL);
    }
    for (size_t s = 0; s < TL_N(tl_few); ++s) {
        for (int round = 0; round < ROUNDS; ++round) {
            tl_step("%d messages of %zu bytes, round %d", MESSAGES, tl_few[s], round);
            if ((round ^ tl.rank) & 1) {
                send_all(tl_few[s], round);
            } else {
                receive_all(tl_few[s], round);
            }
        }
    }
    if (threads) {
        __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
        pthread_join(poller, NULL);
    }
    return tl_finish();
}
