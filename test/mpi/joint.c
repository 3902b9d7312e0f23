/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Through shared memory a large message is moved by the end that waits for it: all of it, if the other end computes, whichever of
 * the two was first, and by both if both wait. So by single copies (pml_spec_pipeline_max 0), and by fragments while both wait.
 *
 * The end that computes is told by a file, and not by MPI, that the other end is done, and calls nothing of MPI before. So a
 * message that needs the other end hangs, and is ended by the watchdog. That a nonblocking call has not moved the message at
 * once, in place of computing, is seen in the counters of bytes.
 *
 *   --rings 1    no process may copy from another's memory: so through memory that both map, by the thread of the end that
 *                computes
 *   --blocking 1 calls that wait are compared, too; where it is the same for each message whether both ends move it
 *   --mixed 1    the sender may copy from the memory of the receiver, which may not */
#include "testlib.h"

enum { TAG = 5, SENDER = 0, RECEIVER = 1 };

typedef struct {
    size_t n;
    bool receive_first;
    int computes; /* SENDER, RECEIVER, or -1: both wait */
    bool probes;  /* the receive is of a matched probe */
    size_t room;  /* of the receive's buffer */
} case_t;

static bool rings, mixed;

/* Bytes that this process has moved itself; -1: not known. */
static long long moved(void)
{
    if (rings || mixed) {
        return -1;
    }
    const long long once = tl_pvar(SENDER == tl.rank ? "pml_spec_bytes_put" : "pml_spec_bytes_get");
    return SENDER == tl.rank && once >= 0 ? once + tl_pvar("pml_spec_bytes_copied") : once;
}

/* Bytes in fragments, which the receiver has to copy. */
static long long in_fragments(void)
{
    return SENDER == tl.rank ? tl_pvar("pml_spec_bytes_copied") : 0;
}

static void begins(const case_t *c, char *buf, MPI_Request *request)
{
    if (SENDER == tl.rank) {
        MPI_Isend(buf, (int) c->n, MPI_BYTE, RECEIVER, TAG, MPI_COMM_WORLD, request);
    } else if (c->probes) {
        MPI_Message message;
        MPI_Mprobe(SENDER, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(buf, (int) c->room, MPI_BYTE, &message, request);
    } else {
        MPI_Irecv(buf, (int) c->room, MPI_BYTE, SENDER, TAG, MPI_COMM_WORLD, request);
    }
}

static void one(const case_t *c, uint64_t number)
{
    const uint64_t key = tl_key(50, SENDER, RECEIVER, TAG, number);
    const size_t bytes = c->n < c->room ? c->n : c->room;
    const bool is_first = (RECEIVER == tl.rank) == c->receive_first;
    tl_step("%zu bytes into %zu, the %s first, the %s%s", c->n, c->room,
            c->receive_first ? "receive" : "send",
            c->computes < 0         ? "two wait"
            : SENDER == c->computes ? "sender computes"
                                    : "receiver computes",
            c->probes ? ", by a matched probe" : "");
    char *buf = tl_buf(SENDER == tl.rank ? c->n : c->room);
    if (SENDER == tl.rank) {
        tl_fill(buf, c->n, key);
    }
    MPI_Barrier(tl.ctl);
    if (!is_first) {
        tl_hear(1 - tl.rank);
    }
    const long long before = moved(), fragments = in_fragments();
    MPI_Request request;
    MPI_Status status;
    begins(c, buf, &request);
    if (is_first) {
        tl_tell(1 - tl.rank);
    }
    if (tl.rank == c->computes) {
        tl_outside_await();
    }
    const int code = MPI_Wait(&request, &status);
    const long long own = moved() - before, copied = in_fragments() - fragments;
    if (c->computes >= 0 && tl.rank != c->computes) {
        tl_outside_tell();
    }
    if (RECEIVER == tl.rank) {
        CHECK_CLASS(code, c->n > c->room ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        VERIFY(buf, bytes, key);
    } else {
        CHECK_CLASS(code, MPI_SUCCESS);
    }
    if (before >= 0 && c->computes >= 0) {
        const long long expected = tl.rank == c->computes ? 0 : (long long) bytes;
        CHECK(own == expected, "this end moved %lld bytes, not %lld", own, expected);
        CHECK(0 == copied, "%lld bytes went in fragments, for which the other end must come",
              copied);
    }
    if (c->computes < 0) {
        long long sum, all[2];
        MPI_Allgather(&own, 1, MPI_LONG_LONG, all, 1, MPI_LONG_LONG, tl.ctl);
        sum = all[0] + all[1];
        CHECK(before < 0 || sum == (long long) bytes, "%lld bytes were moved, not %zu", sum, bytes);
    }
    FREE(buf);
}

/* A call that waits for one message that is here does with it what MPI_Recv does, though it is of a matched probe. */
static void calls_that_wait(size_t n)
{
    long long by_both[2];
    tl_step("%zu bytes, by MPI_Recv and by MPI_Mrecv", n);
    char *buf = tl_buf(n);
    for (int probes = 0; probes < 2; ++probes) {
        MPI_Message message;
        MPI_Barrier(tl.ctl);
        const long long before = tl_pvar("pml_spec_joint");
        if (SENDER == tl.rank) {
            MPI_Send(buf, (int) n, MPI_BYTE, RECEIVER, TAG, MPI_COMM_WORLD);
        } else if (probes) {
            MPI_Mprobe(SENDER, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(buf, (int) n, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        } else {
            MPI_Probe(SENDER, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(buf, (int) n, MPI_BYTE, SENDER, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        by_both[probes] = tl_pvar("pml_spec_joint") - before;
    }
    /* The sender has no part in it where the receiver was quick. */
    CHECK(SENDER == tl.rank || by_both[0] == by_both[1],
          "both ends moved %lld messages by MPI_Recv, %lld by MPI_Mrecv", by_both[0], by_both[1]);
    FREE(buf);
}

/* Before MPI_Init. */
static void mix(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    for (int i = 1; i < argc; ++i) {
        mixed |= 0 == strcmp("--mixed", argv[i]);
    }
    if (mixed && NULL != rank && 0 == strcmp("1", rank)) {
        (void) setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
        (void) setenv("OMPI_MCA_btl_sm_single_copy_mechanism", "none", 1);
        (void) setenv("OMPI_MCA_smsc", "^cma,knem,xpmem", 1);
    }
}

int main(int argc, char **argv)
{
    mix(argc, argv);
    tl_start(&argc, &argv, "joint", 60);
    static const size_t sizes[] = {150001, 300001, 2 << 20, 5000000};
    rings = tl_option("--rings", 0) > 0;
    uint64_t number = 0;
    if (2 != tl.size) {
        printf("SKIP: two processes are needed\n");
        return tl_finish();
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    tl_outside_start();
    (void) moved();
    const long long failed = tl_pvar("pml_spec_fallbacks");
    const long long through = tl_pvar("pml_spec_cico"), called = tl_pvar("pml_spec_cico_calls");
    for (int round = 0; round < 3; ++round) {
        for (size_t i = 0; i < TL_N(sizes) && tl_option("--blocking", 0) > 0; ++i) {
            calls_that_wait(sizes[i]);
        }
        for (size_t i = 0; i < TL_N(sizes); ++i) {
            for (int computes = -1; computes <= (mixed ? -1 : RECEIVER); ++computes) {
                const size_t n = rings && 0 == i ? 131072 : sizes[i];
                one(&(case_t){.n = n, .room = n, .computes = computes}, ++number);
                one(&(case_t){.n = n, .room = n, .computes = computes, .probes = true}, ++number);
                one(&(case_t){.n = 2 * n, .room = n, .computes = computes}, ++number);
                one(&(case_t){.n = n, .room = n, .computes = computes, .receive_first = true},
                    ++number);
                one(&(case_t){.n = n, .room = n + 99, .computes = computes, .receive_first = true},
                    ++number);
                if (rings) { /* nothing of it is wanted */
                    one(&(case_t){.n = n, .room = 0, .computes = computes}, ++number);
                }
            }
        }
    }
    if (mixed && failed >= 0 && SENDER == tl.rank) {
        CHECK(tl_pvar("pml_spec_fallbacks") == failed, "copies failed");
    }
    if (rings && through >= 0) {
        CHECK(tl_pvar("pml_spec_cico") > through, "no message went through a ring");
        CHECK(tl_pvar("pml_spec_cico_calls") > called, "no thread was called");
    }
    return tl_finish();
}
