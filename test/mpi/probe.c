/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Probes: they tell the truth about the next message without taking it; matched probes take it away
 * from everybody else. Blocking and not, exact and with wildcards, at every size. */
#include "testlib.h"

enum { NEXT, SAME }; /* tags */

static void check_probe(MPI_Status *status, int src, int tag, size_t n)
{
    MPI_Count count;
    int cancelled;
    MPI_Get_elements_x(status, MPI_BYTE, &count);
    MPI_Test_cancelled(status, &cancelled);
    CHECK(status->MPI_SOURCE == src && status->MPI_TAG == tag && count == (MPI_Count) n,
          "probe: expected source %d tag %d bytes %zu, got %d, %d, %lld", src, tag, n,
          status->MPI_SOURCE, status->MPI_TAG, (long long) count);
    CHECK(!cancelled, "probe: the status says cancelled");
}

/* One message per way of asking: k is the number of the way. */
enum { WAYS = 9 };

static void way_of_receiving(int k, size_t n, int src, int tag, char *buf)
{
    int any_s = MPI_ANY_SOURCE, any_t = MPI_ANY_TAG, flag = 0;
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Status s, r;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request;
    switch (k) {
    case 0:
        MPI_Probe(src, tag, w, &s);
        check_probe(&s, src, tag, n);
        MPI_Probe(any_s, any_t, w, &s); /* it is there still */
        check_probe(&s, src, tag, n);
        MPI_Recv(buf, (int) n, MPI_BYTE, src, tag, w, &r);
        break;
    case 1:
        while (!flag) {
            MPI_Iprobe(any_s, tag, w, &flag, &s);
        }
        check_probe(&s, src, tag, n);
        MPI_Recv(buf, (int) n, MPI_BYTE, s.MPI_SOURCE, s.MPI_TAG, w, &r);
        break;
    case 2:
        while (!flag) {
            MPI_Iprobe(src, any_t, w, &flag, &s);
        }
        check_probe(&s, src, tag, n);
        MPI_Irecv(buf, (int) n, MPI_BYTE, s.MPI_SOURCE, s.MPI_TAG, w, &request);
        MPI_Wait(&request, &r);
        break;
    case 3:
        MPI_Mprobe(src, tag, w, &message, &s);
        check_probe(&s, src, tag, n);
        MPI_Mrecv(buf, (int) n, MPI_BYTE, &message, &r);
        break;
    case 4:
        MPI_Mprobe(any_s, any_t, w, &message, &s);
        check_probe(&s, src, tag, n);
        MPI_Iprobe(src, tag, w, &flag, &r); /* taken away by the matched probe */
        CHECK(!flag, "a message taken by MPI_Mprobe is seen by MPI_Iprobe");
        MPI_Imrecv(buf, (int) n, MPI_BYTE, &message, &request);
        MPI_Wait(&request, &r);
        break;
    case 5:
        while (!flag) {
            MPI_Improbe(any_s, tag, w, &flag, &message, &s);
        }
        check_probe(&s, src, tag, n);
        MPI_Imrecv(buf, (int) n, MPI_BYTE, &message, &request);
        while (flag) {
            int done;
            MPI_Test(&request, &done, &r);
            flag = !done;
        }
        break;
    case 6:
        while (!flag) {
            MPI_Improbe(src, any_t, w, &flag, &message, &s);
        }
        check_probe(&s, src, tag, n);
        MPI_Mrecv(buf, (int) n, MPI_BYTE, &message, &r);
        break;
    case 7: /* status ignored */
        MPI_Mprobe(src, tag, w, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(buf, (int) n, MPI_BYTE, &message, &r);
        break;
    default: /* a probe of another tag sees nothing, and does not eat anything */
        MPI_Iprobe(src, tag + 1, w, &flag, &s);
        CHECK(!flag, "a probe of tag %d saw tag %d", tag + 1, s.MPI_TAG);
        MPI_Improbe(any_s, tag + 1, w, &flag, &message, &s);
        CHECK(!flag, "a matched probe of tag %d saw tag %d", tag + 1, s.MPI_TAG);
        MPI_Recv(buf, (int) n, MPI_BYTE, any_s, any_t, w, &r);
    }
    CHECK(MPI_MESSAGE_NULL == message, "the message handle must be null when received");
    CHECK_STATUS(r, src, tag, n);
}

static void one_size(size_t n, int src, int dst)
{
    for (int k = 0; k < WAYS; ++k) {
        int tag = 10 * k;
        tl_step("way %d, %zu bytes from %d to %d", k, n, src, dst);
        uint64_t key = tl_key(20, src, dst, tag, n);
        if (tl.rank == src) {
            char *buf = tl_buf(n);
            tl_fill(buf, n, key);
            if (k & 1) {
                MPI_Ssend(buf, (int) n, MPI_BYTE, dst, tag, MPI_COMM_WORLD);
            } else {
                MPI_Send(buf, (int) n, MPI_BYTE, dst, tag, MPI_COMM_WORLD);
            }
            FREE(buf);
        } else if (tl.rank == dst) {
            char *buf = tl_buf(n);
            way_of_receiving(k, n, src, tag, buf);
            VERIFY(buf, n, key);
            FREE(buf);
        }
    }
}

/* Several messages are held by matched probes while others of the same envelope pass. They are
 * received afterwards in reverse; early receives of the same envelope are posted meanwhile. */
static void held(size_t n, int src, int dst)
{
    enum { MESSAGES = 8, HELD = 3 };
    tl_step("%d of %d messages held, %zu bytes from %d to %d", HELD, MESSAGES, n, src, dst);
    char *buf[MESSAGES];
    for (int i = 0; i < MESSAGES; ++i) {
        buf[i] = tl_buf(n);
    }
    if (tl.rank == src) {
        MPI_Request request[MESSAGES];
        for (int i = 0; i < MESSAGES; ++i) {
            tl_fill(buf[i], n, tl_key(21, src, dst, SAME, (uint64_t) i));
            MPI_Isend(buf[i], (int) n, MPI_BYTE, dst, SAME, MPI_COMM_WORLD, &request[i]);
            if (HELD - 1 == i) {
                tl_hear(dst); /* the rest only when the first ones are held */
            }
        }
        MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
    } else if (tl.rank == dst) {
        MPI_Message message[HELD];
        MPI_Request request[MESSAGES];
        MPI_Status status;
        for (int i = 0; i < HELD; ++i) {
            MPI_Mprobe(i & 1 ? MPI_ANY_SOURCE : src, i & 2 ? MPI_ANY_TAG : SAME, MPI_COMM_WORLD,
                       &message[i], &status);
            check_probe(&status, src, SAME, n);
        }
        for (int i = HELD; i < MESSAGES; ++i) {
            MPI_Irecv(buf[i], (int) n, MPI_BYTE, src, SAME, MPI_COMM_WORLD, &request[i]);
        }
        tl_tell(src);
        MPI_Waitall(MESSAGES - HELD - 1, &request[HELD], MPI_STATUSES_IGNORE);
        for (int i = HELD - 1; i >= 0; --i) {
            MPI_Mrecv(buf[i], (int) n, MPI_BYTE, &message[i], &status);
            CHECK_STATUS(status, src, SAME, n);
        }
        MPI_Wait(&request[MESSAGES - 1], &status);
        for (int i = 0; i < MESSAGES; ++i) {
            VERIFY(buf[i], n, tl_key(21, src, dst, SAME, (uint64_t) i));
        }
    }
    for (int i = 0; i < MESSAGES; ++i) {
        FREE(buf[i]);
    }
}

/* A probe must not see a message that a posted receive has taken or will take; of a mixture of sizes
 * it reports the next one each time. */
static void next_one(int src, int dst)
{
    enum { MESSAGES = 60 };
    tl_step("the next one of %d messages, from %d to %d", MESSAGES, src, dst);
    char *buf = tl_buf(TL_LARGEST);
    if (tl.rank == src) {
        for (int i = 0; i < MESSAGES; ++i) {
            size_t n = tl_few[(size_t) i % TL_N(tl_few)];
            tl_fill(buf, n, tl_key(22, src, dst, NEXT, (uint64_t) i));
            MPI_Send(buf, (int) n, MPI_BYTE, dst, NEXT, MPI_COMM_WORLD);
        }
    } else if (tl.rank == dst) {
        char *early = tl_buf(TL_LARGEST);
        for (int i = 0; i < MESSAGES; i += 2) {
            MPI_Request request;
            MPI_Status status, probed;
            int n;
            size_t first = tl_few[(size_t) i % TL_N(tl_few)], second = tl_few[(size_t) (i + 1) % TL_N(tl_few)];
            MPI_Irecv(early, TL_LARGEST, MPI_BYTE, src, NEXT, MPI_COMM_WORLD, &request);
            MPI_Probe(src, NEXT, MPI_COMM_WORLD, &probed);
            check_probe(&probed, src, NEXT, second);
            MPI_Get_count(&probed, MPI_BYTE, &n);
            MPI_Recv(buf, n, MPI_BYTE, src, NEXT, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, src, NEXT, second);
            VERIFY(buf, second, tl_key(22, src, dst, NEXT, (uint64_t) i + 1));
            MPI_Wait(&request, &status);
            CHECK_STATUS(status, src, NEXT, first);
            VERIFY(early, first, tl_key(22, src, dst, NEXT, (uint64_t) i));
        }
        FREE(early);
    }
    FREE(buf);
}

/* Count in elements of a type, and what cannot be expressed in it. */
static void counts(int src, int dst)
{
    tl_step("counts of the status");
    if (tl.rank == src) {
        char bytes[10] = "123456789";
        MPI_Send(bytes, 10, MPI_BYTE, dst, 5, MPI_COMM_WORLD);
        MPI_Send(bytes, 8, MPI_BYTE, dst, 6, MPI_COMM_WORLD);
        MPI_Send(NULL, 0, MPI_BYTE, dst, 7, MPI_COMM_WORLD);
    } else if (tl.rank == dst) {
        MPI_Status status;
        int n, buf[3];
        MPI_Probe(src, 5, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &n);
        CHECK(MPI_UNDEFINED == n, "10 bytes are no count of ints, got %d", n);
        MPI_Recv(buf, 12, MPI_BYTE, src, 5, MPI_COMM_WORLD, &status);
        MPI_Probe(src, 6, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &n);
        CHECK(2 == n, "8 bytes are 2 ints, got %d", n);
        MPI_Recv(buf, 3, MPI_INT, src, 6, MPI_COMM_WORLD, &status);
        MPI_Probe(src, 7, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &n);
        CHECK(0 == n, "nothing is 0 ints, got %d", n);
        MPI_Recv(buf, 3, MPI_INT, src, 7, MPI_COMM_WORLD, &status);
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "probe", 120);
    size_t sizes[TL_MAX_EDGES];
    int n_sizes = tl_edges(sizes);
    for (int src = 0; src < tl.size && tl.size > 1; ++src) {
        int dst = (src + 1) % tl.size;
        MPI_Barrier(tl.ctl);
        for (int i = 0; i < n_sizes; ++i) {
            one_size(sizes[i], src, dst);
        }
        for (size_t i = 0; i < TL_N(tl_few); ++i) {
            held(tl_few[i], src, dst);
        }
        next_one(src, dst);
        counts(src, dst);
    }
    return tl_finish();
}
