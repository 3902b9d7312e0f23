/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Speculation that adapts, told by the counters of pml/spec: it stops for an envelope whose RTRs are
 * of no use, stays silent, and begins again in the same run when the receives come first again;
 * other envelopes are not concerned.
 *   --adapts 1   pml_spec_speculation auto (without the counters only the data is checked)
 *   --adapts 0   on: it never stops
 *   --misses N   only N messages for which an RTR is of no use (for report.pl) */
#include "testlib.h"

enum { LARGE = 300000, TAG = 3, OTHER = 4, ROUNDS = 400 };

static char *buf;
static uint64_t key;

/* One message that the receiver (rank 1) waits for before it is sent; `gap` seconds earlier. */
static void receiver_first(int tag, int size, double gap)
{
    ++key;
    if (1 == tl.rank) {
        MPI_Request request;
        MPI_Irecv(buf, LARGE, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
        tl_tell(0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        VERIFY(buf, (size_t) size, tl_key(1, 0, 1, tag, key));
        tl_tell(0);
    } else {
        tl_fill(buf, (size_t) size, tl_key(1, 0, 1, tag, key));
        tl_hear(1);
        for (double end = MPI_Wtime() + gap; MPI_Wtime() < end;) {}
        MPI_Send(buf, size, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
        tl_hear(1);
    }
}

/* The sender is long there when the receive is posted. */
static void sender_first(int tag, int size)
{
    ++key;
    if (1 == tl.rank) {
        tl_hear(0);
        tl_await(0, tag, MPI_COMM_WORLD);
        MPI_Recv(buf, LARGE, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        VERIFY(buf, (size_t) size, tl_key(1, 0, 1, tag, key));
    } else {
        MPI_Request request;
        tl_fill(buf, (size_t) size, tl_key(1, 0, 1, tag, key));
        MPI_Isend(buf, size, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request);
        tl_tell(1);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static long long sent, used, stops, resumes;

static void remember(const char *step)
{
    tl_step("%s", step);
    tl_tell((tl.rank + 1) % 2);
    tl_hear((tl.rank + 1) % 2);
    sent = tl_pvar("pml_spec_rtr_sent");
    used = tl_pvar("pml_spec_rtr_used");
    stops = tl_pvar("pml_spec_stops");
    resumes = tl_pvar("pml_spec_resumes");
}

/* Seconds there and back, the longest of some: in an emulated machine it is milliseconds. */
static double round_trip(void)
{
    double longest = 0;
    for (int i = 0; i < 20; ++i) {
        const double start = MPI_Wtime();
        if (0 == tl.rank) {
            tl_tell(1);
            tl_hear(1);
        } else {
            tl_hear(0);
            tl_tell(0);
        }
        const double took = MPI_Wtime() - start;
        longest = took > longest ? took : longest;
    }
    return longest;
}

static long long more(const char *name, long long before)
{
    return tl_pvar(name) - before;
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "adaptation", 60);
    if (2 != tl.size) {
        tl_skip("adaptation is for two processes");
        return tl_finish();
    }
    const bool counted = tl_pvar("pml_spec_rtr_sent") >= 0;
    const bool adapts = tl_option("--adapts", 1) > 0;
    buf = tl_buf(LARGE);

    const long long misses = tl_option("--misses", 0);
    if (misses > 0) {
        for (long long i = 0; i < misses; ++i) {
            receiver_first(TAG, 10, 0);
        }
        FREE(buf);
        return tl_finish();
    }

    remember("receives come first");
    for (int i = 0; i < ROUNDS; ++i) {
        receiver_first(TAG, LARGE, 0);
    }
    if (counted && 1 == tl.rank) {
        CHECK(more("pml_spec_rtr_sent", sent) == ROUNDS, "RTRs sent: %lld",
              more("pml_spec_rtr_sent", sent));
        CHECK(more("pml_spec_stops", stops) == 0, "it stopped though every RTR was of use");
    }

    remember("small messages into large buffers");
    for (int i = 0; i < ROUNDS; ++i) {
        receiver_first(TAG, 10, 0);
    }
    if (counted && 1 == tl.rank) {
        const long long rtrs = more("pml_spec_rtr_sent", sent);
        CHECK(adapts ? rtrs < 20 : rtrs == ROUNDS, "RTRs sent: %lld", rtrs);
        CHECK(more("pml_spec_stops", stops) == adapts, "stops: %lld",
              more("pml_spec_stops", stops));
    }

    remember("another tag goes on");
    for (int i = 0; i < 50; ++i) {
        receiver_first(OTHER, LARGE, 0);
    }
    if (counted && 1 == tl.rank) {
        CHECK(more("pml_spec_rtr_sent", sent) == 50, "RTRs sent: %lld",
              more("pml_spec_rtr_sent", sent));
    }

    remember("still stopped: the sender comes first");
    for (int i = 0; i < 100; ++i) {
        sender_first(TAG, LARGE);
    }
    if (counted && 1 == tl.rank) {
        CHECK(more("pml_spec_rtr_sent", sent) == 0, "RTRs sent: %lld",
              more("pml_spec_rtr_sent", sent));
        CHECK(more("pml_spec_resumes", resumes) == 0, "it resumed though no receive was in time");
    }

    /* The gap makes it certain that the receive was posted in time, even on a busy machine. */
    remember("receives come first again");
    const double there_and_back = round_trip();
    const double gap = there_and_back > 100e-6 ? there_and_back : 100e-6;
    for (int i = 0; i < ROUNDS; ++i) {
        receiver_first(TAG, LARGE, gap);
    }
    if (counted && 1 == tl.rank) {
        const long long rtrs = more("pml_spec_rtr_sent", sent);
        CHECK(more("pml_spec_resumes", resumes) == adapts, "resumes: %lld",
              more("pml_spec_resumes", resumes));
        CHECK(adapts ? rtrs >= ROUNDS / 2 : rtrs == ROUNDS, "RTRs sent: %lld", rtrs);
    } else if (counted) {
        CHECK(more("pml_spec_rtr_used", used) >= ROUNDS / 2, "RTRs used: %lld",
              more("pml_spec_rtr_used", used));
    }
    FREE(buf);
    return tl_finish();
}
