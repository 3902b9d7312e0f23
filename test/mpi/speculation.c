/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which protocol was taken, told by the counters of pml/spec (without them - another PML - only the
 * data is checked). Expectations are given as arguments, because they depend on the transport:
 *   --rtr 1   a receive that comes first is written by the sender
 *   --rtr 0   nothing is (speculation off, or no RDMA) */
#include "testlib.h"

enum { LARGE = 1 << 20, MIDDLE = 200000, ROUNDS = 20 };

static long long rtr_sent, rtr_used, crossed, mispredicted, too_short, rts;

static void remember(void)
{
    rtr_sent = tl_pvar("pml_spec_rtr_sent");
    rtr_used = tl_pvar("pml_spec_rtr_used");
    crossed = tl_pvar("pml_spec_rtr_crossed");
    mispredicted = tl_pvar("pml_spec_rtr_mispredicted");
    too_short = tl_pvar("pml_spec_rtr_too_short");
    rts = tl_pvar("pml_spec_sent_rts");
}

#define GREW(counter, name, n)                                                                     \
    CHECK(tl_pvar("pml_spec_" name) - (counter) == (n), "%s: expected %lld more, got %lld", name,   \
          (long long) (n), tl_pvar("pml_spec_" name) - (counter))

static void receiver_first(bool counted, bool rtr)
{
    char *buf = tl_buf(LARGE);
    tl_step("receiver first");
    tl_tell((tl.rank + 1) % 2);
    tl_hear((tl.rank + 1) % 2);
    remember();
    for (int i = 0; i < ROUNDS; ++i) {
        MPI_Request request;
        if (1 == tl.rank) {
            MPI_Irecv(buf, LARGE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request);
            tl_tell(0);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            VERIFY(buf, LARGE, tl_key(1, 0, 1, 3, (uint64_t) i));
            tl_tell(0);
        } else {
            tl_fill(buf, LARGE, tl_key(1, 0, 1, 3, (uint64_t) i));
            tl_hear(1);
            MPI_Send(buf, LARGE, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
            tl_hear(1);
        }
    }
    if (counted && 0 == tl.rank) {
        GREW(rtr_used, "rtr_used", rtr ? ROUNDS : 0);
        GREW(rts, "sent_rts", rtr ? 0 : ROUNDS);
    } else if (counted) {
        GREW(rtr_sent, "rtr_sent", rtr ? ROUNDS : 0);
    }
    FREE(buf);
}

static void sender_first(bool counted)
{
    char *buf = tl_buf(LARGE);
    tl_step("sender first");
    remember();
    for (int i = 0; i < ROUNDS; ++i) {
        MPI_Request request;
        if (0 == tl.rank) {
            tl_fill(buf, LARGE, tl_key(2, 0, 1, 3, (uint64_t) i));
            MPI_Isend(buf, LARGE, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request);
            tl_tell(1);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            tl_hear(0);
            tl_await(0, 3, MPI_COMM_WORLD);
            MPI_Recv(buf, LARGE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            VERIFY(buf, LARGE, tl_key(2, 0, 1, 3, (uint64_t) i));
        }
    }
    if (counted) {
        GREW(rtr_sent, "rtr_sent", 0);
        GREW(rtr_used, "rtr_used", 0);
        GREW(rts, "sent_rts", 0 == tl.rank ? ROUNDS : 0);
    }
    FREE(buf);
}

/* A large buffer, a small message: the RTR must go with that message and not serve the next. */
static void mispredicted_ones(bool counted, bool rtr)
{
    char *buf = tl_buf(LARGE);
    tl_step("mispredicted");
    tl_tell((tl.rank + 1) % 2);
    tl_hear((tl.rank + 1) % 2);
    remember();
    for (int i = 0; i < ROUNDS; ++i) {
        if (1 == tl.rank) {
            MPI_Request request[2];
            MPI_Status status[2];
            char *second = tl_buf(LARGE);
            tl_poison(buf, LARGE);
            MPI_Irecv(buf, LARGE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request[0]);
            MPI_Irecv(second, LARGE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request[1]);
            tl_tell(0);
            MPI_Waitall(2, request, status);
            CHECK_STATUS(status[0], 0, 3, (size_t) 10);
            CHECK_STATUS(status[1], 0, 3, (size_t) MIDDLE);
            VERIFY(buf, 10, tl_key(3, 0, 1, 3, (uint64_t) i));
            VERIFY(second, MIDDLE, tl_key(4, 0, 1, 3, (uint64_t) i));
            UNTOUCHED(buf, 10, LARGE);
            UNTOUCHED(second, MIDDLE, LARGE);
            FREE(second);
            tl_tell(0);
        } else {
            tl_hear(1);
            tl_fill(buf, 10, tl_key(3, 0, 1, 3, (uint64_t) i));
            MPI_Send(buf, 10, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
            tl_fill(buf, MIDDLE, tl_key(4, 0, 1, 3, (uint64_t) i));
            MPI_Send(buf, MIDDLE, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
            tl_hear(1);
        }
    }
    if (counted && 0 == tl.rank) {
        GREW(mispredicted, "rtr_mispredicted", rtr ? ROUNDS : 0);
        GREW(rtr_used, "rtr_used", rtr ? ROUNDS : 0);
    }
    FREE(buf);
}

/* An earlier wildcard receive forbids the RTR: it could take the message. It has an RTR itself if only one process can send, and a
 * receive from any source is then as good as one from that one. selfish: such a receive has got a message of its own process. */
static void behind_a_wildcard(bool counted, bool rtr, bool selfish)
{
    char *wild = tl_buf(LARGE), *exact = tl_buf(LARGE);
    MPI_Comm comm;
    tl_step("behind a wildcard, selfish: %d", selfish);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (selfish) {
        MPI_Sendrecv(NULL, 0, MPI_BYTE, tl.rank, 9, NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 9, comm,
                     MPI_STATUS_IGNORE);
    }
    tl_tell((tl.rank + 1) % 2);
    tl_hear((tl.rank + 1) % 2);
    remember();
    for (int i = 0; i < ROUNDS; ++i) {
        if (1 == tl.rank) {
            MPI_Request request[2];
            MPI_Irecv(wild, LARGE, MPI_BYTE, MPI_ANY_SOURCE, i & 1 ? 3 : MPI_ANY_TAG, comm,
                      &request[0]);
            MPI_Irecv(exact, LARGE, MPI_BYTE, 0, 3, comm, &request[1]);
            tl_tell(0);
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
            VERIFY(wild, LARGE, tl_key(5, 0, 1, 3, (uint64_t) i));
            VERIFY(exact, LARGE, tl_key(6, 0, 1, 3, (uint64_t) i));
            tl_tell(0);
        } else {
            tl_hear(1);
            tl_fill(wild, LARGE, tl_key(5, 0, 1, 3, (uint64_t) i));
            tl_fill(exact, LARGE, tl_key(6, 0, 1, 3, (uint64_t) i));
            MPI_Send(wild, LARGE, MPI_BYTE, 1, 3, comm);
            MPI_Send(exact, LARGE, MPI_BYTE, 1, 3, comm);
            tl_hear(1);
        }
    }
    if (counted && 1 == tl.rank) {
        GREW(rtr_sent, "rtr_sent", rtr && !selfish ? ROUNDS + ROUNDS / 2 : 0);
    }
    MPI_Comm_free(&comm);
    FREE(wild);
    FREE(exact);
}

/* A message longer than the buffer: reported as truncated, whatever was offered. */
static void longer_than_offered(bool counted, bool rtr)
{
    char *buf = tl_buf(LARGE);
    tl_step("longer than offered");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    tl_tell((tl.rank + 1) % 2);
    tl_hear((tl.rank + 1) % 2);
    remember();
    for (int i = 0; i < ROUNDS; ++i) {
        if (1 == tl.rank) {
            MPI_Request request;
            tl_poison(buf, LARGE);
            MPI_Irecv(buf, MIDDLE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request);
            tl_tell(0);
            CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
            UNTOUCHED(buf, MIDDLE, LARGE);
            tl_tell(0);
        } else {
            tl_hear(1);
            tl_fill(buf, LARGE, tl_key(7, 0, 1, 3, (uint64_t) i));
            MPI_Send(buf, LARGE, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
            tl_hear(1);
        }
    }
    if (counted && 0 == tl.rank) {
        GREW(too_short, "rtr_too_short", rtr ? ROUNDS : 0);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    FREE(buf);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "speculation", 60);
    if (2 != tl.size) {
        tl_skip("speculation is for two processes");
        return tl_finish();
    }
    const bool counted = tl_pvar("pml_spec_rtr_sent") >= 0 && tl_option("--rtr", -1) >= 0;
    const bool rtr = tl_option("--rtr", 0) > 0;
    receiver_first(counted, rtr);
    sender_first(counted);
    mispredicted_ones(counted, rtr);
    behind_a_wildcard(counted, rtr, false);
    behind_a_wildcard(counted, rtr, true);
    longer_than_offered(counted, rtr);
    return tl_finish();
}
