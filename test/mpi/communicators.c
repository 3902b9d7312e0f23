/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Communicators: made and freed in a loop with messages under way, messages that arrive before the
 * receiver has made the communicator, receives that outlive MPI_Comm_free, inter-communicators,
 * communicator ids that are used again (RTRs of the old one must not serve the new one). */
#include "testlib.h"

enum { LARGE = 150000, SMALL = 100 };

static void exchange(MPI_Comm comm, int rank, int to, int from, size_t n, int tag, uint64_t number)
{
    char *out = tl_buf(n), *in = tl_buf(LARGE);
    MPI_Request request[2];
    MPI_Status status[2];
    tl_fill(out, n, tl_key(3, rank, to, tag, number));
    MPI_Irecv(in, LARGE, MPI_BYTE, from, tag, comm, &request[0]);
    MPI_Isend(out, (int) n, MPI_BYTE, to, tag, comm, &request[1]);
    MPI_Waitall(2, request, status);
    CHECK_STATUS(status[0], from, tag, n);
    VERIFY(in, n, tl_key(3, from, rank, tag, number));
    FREE(out);
    FREE(in);
}

static void ring(MPI_Comm comm, size_t n, uint64_t number)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    exchange(comm, rank, (rank + 1) % size, (rank + size - 1) % size, n, 5, number);
}

/* dup, split and free, each time with messages on the old and the new one. */
static void loop(int rounds)
{
    for (int i = 0; i < rounds; ++i) {
        MPI_Comm dup, split;
        tl_step("dup and split, round %d", i);
        MPI_Comm_dup(MPI_COMM_WORLD, &dup);
        MPI_Comm_split(dup, tl.rank & 1, -tl.rank, &split);
        ring(dup, i & 1 ? LARGE : SMALL, (uint64_t) i);
        ring(split, i & 1 ? SMALL : LARGE, (uint64_t) i);
        MPI_Comm_free(&dup);
        ring(split, LARGE, (uint64_t) i + 1000);
        ring(MPI_COMM_WORLD, LARGE, (uint64_t) i);
        MPI_Comm_free(&split);
    }
}

/* Large receives that are posted early and satisfied by small messages, or cancelled, right before
 * the communicator is freed and its id used again: their RTRs travel when nobody wants them. */
static void reused_ids(int rounds)
{
    const int next = (tl.rank + 1) % tl.size, prev = (tl.rank + tl.size - 1) % tl.size;
    char *early = tl_buf(LARGE), *never = tl_buf(LARGE), small[SMALL];
    tl_rng_t rng = {.state = 5u + (unsigned) tl.rank};
    for (int i = 0; i < rounds; ++i) {
        MPI_Comm comm;
        MPI_Request request[2];
        MPI_Status status;
        int cancelled;
        tl_step("communicator id used again, round %d", i);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        tl_poison(early, LARGE);
        MPI_Irecv(early, LARGE, MPI_BYTE, prev, 5, comm, &request[0]);
        MPI_Irecv(never, LARGE, MPI_BYTE, prev, 6, comm, &request[1]);
        tl_dither(&rng);
        memset(small, i, sizeof(small));
        MPI_Send(small, SMALL, MPI_BYTE, next, 5, comm);
        MPI_Wait(&request[0], &status);
        CHECK_STATUS(status, prev, 5, (size_t) SMALL);
        UNTOUCHED(early, SMALL, LARGE);
        MPI_Cancel(&request[1]);
        MPI_Wait(&request[1], &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled, "a receive nobody sends to must be cancelled");
        MPI_Comm_free(&comm);
        UNTOUCHED(never, 0, LARGE);
    }
    FREE(early);
    FREE(never);
}

/* The last rank makes each communicator late; the others have sent to it long before. */
static void early_messages(void)
{
    enum { N = 6 };
    const int late = tl.size - 1;
    tl_step("messages before their communicator");
    for (int i = 0; i < N; ++i) {
        MPI_Comm comm;
        if (tl.rank == late) {
            usleep(20000);
        }
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (tl.rank == late) {
            usleep(1000);
        }
        const size_t n = i & 1 ? LARGE : SMALL;
        if (tl.rank != late) {
            char *out = tl_buf(n);
            tl_fill(out, n, tl_key(4, tl.rank, late, i, 0));
            MPI_Send(out, (int) n, MPI_BYTE, late, i, comm);
            FREE(out);
        } else {
            char *in = tl_buf(n);
            for (int src = 0; src < late; ++src) {
                MPI_Recv(in, (int) n, MPI_BYTE, src, i, comm, MPI_STATUS_IGNORE);
                VERIFY(in, n, tl_key(4, src, late, i, 0));
            }
            FREE(in);
        }
        MPI_Comm_free(&comm);
    }
}

/* MPI_Comm_free with receives pending: they complete as if it had not been called. */
static void free_while_pending(void)
{
    tl_step("receives that outlive MPI_Comm_free");
    const int next = (tl.rank + 1) % tl.size, prev = (tl.rank + tl.size - 1) % tl.size;
    for (int i = 0; i < 10; ++i) {
        MPI_Comm comm;
        MPI_Request request[2];
        char *in = tl_buf(LARGE), *out = tl_buf(LARGE);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        tl_fill(out, LARGE, tl_key(5, tl.rank, next, 0, (uint64_t) i));
        MPI_Irecv(in, LARGE, MPI_BYTE, prev, 0, comm, &request[0]);
        if (i & 1) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Isend(out, LARGE, MPI_BYTE, next, 0, comm, &request[1]);
        MPI_Comm_free(&comm);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        VERIFY(in, LARGE, tl_key(5, prev, tl.rank, 0, (uint64_t) i));
        FREE(in);
        FREE(out);
    }
}

static void inter(void)
{
    MPI_Comm half, between, merged;
    const int color = tl.rank & 1;
    int rank, remote;
    if (tl.size < 2) {
        return;
    }
    tl_step("inter-communicator");
    MPI_Comm_split(MPI_COMM_WORLD, color, tl.rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 9, &between);
    MPI_Comm_rank(between, &rank);
    MPI_Comm_remote_size(between, &remote);
    /* Ranks that both sides have, both directions, small and large. */
    for (int i = 0; i < 8 && rank < remote; ++i) {
        const size_t n = i & 1 ? LARGE : SMALL;
        char *out = tl_buf(n), *in = tl_buf(LARGE);
        MPI_Request request[2];
        MPI_Status status[2];
        tl_fill(out, n, tl_key(3, rank, color, i, 0));
        MPI_Irecv(in, LARGE, MPI_BYTE, i & 2 ? MPI_ANY_SOURCE : rank, i, between, &request[0]);
        MPI_Isend(out, (int) n, MPI_BYTE, rank, i, between, &request[1]);
        MPI_Waitall(2, request, status);
        CHECK_STATUS(status[0], rank, i, n);
        VERIFY(in, n, tl_key(3, rank, 1 - color, i, 0));
        FREE(out);
        FREE(in);
    }
    MPI_Intercomm_merge(between, color, &merged);
    ring(merged, LARGE, 77);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

static void from_group(void)
{
    MPI_Group world, part;
    MPI_Comm comm;
    int range[1][3] = {{0, tl.size - 1, 2}};
    tl_step("MPI_Comm_create_group");
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &part);
    if (0 == tl.rank % 2) {
        MPI_Comm_create_group(MPI_COMM_WORLD, part, 3, &comm);
        ring(comm, LARGE, 8);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&part);
    MPI_Group_free(&world);
}

/* Assertions that the PML may use, and must not need. */
static void with_hints(void)
{
    MPI_Info info;
    MPI_Comm comm;
    tl_step("mpi_assert_allow_overtaking, mpi_assert_no_any_source");
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
    MPI_Info_set(info, "mpi_assert_no_any_source", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    for (int i = 0; i < 20; ++i) {
        ring(comm, i % 3 ? LARGE : SMALL, (uint64_t) i);
    }
    MPI_Comm_free(&comm);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "communicators", 120);
    const int rounds = (int) tl_option("--rounds", 60);
    loop(rounds);
    reused_ids(rounds);
    early_messages();
    free_while_pending();
    inter();
    from_group();
    with_hints();
    return tl_finish();
}
