/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Persistent requests of all modes, started again and again, one by one and all together, met by
 * plain requests and probes, and freed while inactive or active. */
#include "testlib.h"

enum { STANDARD, SYNCHRONOUS, BUFFERED, READY, MODES };

static void send_init(int mode, const void *buf, size_t n, int dst, int tag, MPI_Request *request)
{
    static int (*const call[])(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                               MPI_Request *) = {MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init,
                                                 MPI_Rsend_init};
    if (BUFFERED == mode && tl_under_ob1()) {
        mode = STANDARD; /* ob1 sends what it buffered at the first start again and again */
    }
    call[mode](buf, (int) n, MPI_BYTE, dst, tag, MPI_COMM_WORLD, request);
}

/* Inactive requests are complete with nothing in their status. */
static void check_inactive(MPI_Request *request)
{
    MPI_Status status;
    int flag = 0, count = -1;
    MPI_Request before = *request;
    MPI_Wait(request, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(*request == before, "waiting for an inactive request must leave it alone");
    CHECK(MPI_ANY_SOURCE == status.MPI_SOURCE && MPI_ANY_TAG == status.MPI_TAG && 0 == count,
          "inactive: expected an empty status, got source %d tag %d count %d", status.MPI_SOURCE,
          status.MPI_TAG, count);
    MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    CHECK(flag, "an inactive request must test as complete");
}

/* Both directions, all modes, restarted many times; completed in different ways. */
static void restarted(size_t n, int rounds)
{
    enum { REQUESTS = 2 * MODES };
    int next = (tl.rank + 1) % tl.size, prev = (tl.rank + tl.size - 1) % tl.size;
    MPI_Request request[REQUESTS];
    MPI_Status status[REQUESTS];
    char *in[MODES], *out[MODES];
    tl_step("restarted, %zu bytes", n);
    for (int m = 0; m < MODES; ++m) {
        in[m] = tl_buf(n);
        out[m] = tl_buf(n);
        MPI_Recv_init(in[m], (int) n, MPI_BYTE, m & 1 ? MPI_ANY_SOURCE : prev, m, MPI_COMM_WORLD,
                      &request[m]);
        send_init(m, out[m], n, next, m, &request[MODES + m]);
        check_inactive(&request[m]);
        check_inactive(&request[MODES + m]);
    }
    for (int round = 0; round < rounds; ++round) {
        for (int m = 0; m < MODES; ++m) {
            tl_poison(in[m], n);
            tl_fill(out[m], n, tl_key(50, tl.rank, next, m, (uint64_t) round));
        }
        tl_step("restarted, %zu bytes, round %d", n, round);
        if (round % 3 == 2) {
            MPI_Startall(MODES - 1, &request[MODES]); /* all but ready: before their receives */
            MPI_Startall(MODES, request);
        } else {
            MPI_Startall(MODES, request);
            if (round % 3) {
                MPI_Startall(MODES - 1, &request[MODES]);
            } else {
                for (int m = 0; m < READY; ++m) {
                    MPI_Start(&request[MODES + m]);
                }
            }
        }
        MPI_Barrier(tl.ctl);
        MPI_Start(&request[MODES + READY]);
        int left = REQUESTS, index, flag, indices[REQUESTS];
        switch (round % 4) {
        case 0:
            MPI_Waitall(REQUESTS, request, status);
            for (int m = 0; m < MODES; ++m) {
                CHECK_STATUS(status[m], prev, m, n);
            }
            break;
        case 1:
            while (left > 0) {
                MPI_Waitany(REQUESTS, request, &index, status);
                CHECK(MPI_UNDEFINED != index, "waitany: no active request, %d expected", left);
                --left;
            }
            break;
        case 2:
            while (left > 0) {
                int count;
                MPI_Testsome(REQUESTS, request, &count, indices, status);
                CHECK(MPI_UNDEFINED != count, "testsome: no active request, %d expected", left);
                left -= MPI_UNDEFINED == count ? left : count;
            }
            break;
        default:
            do {
                MPI_Testall(REQUESTS, request, &flag, status);
            } while (!flag);
        }
        MPI_Waitany(REQUESTS, request, &index, status);
        CHECK(MPI_UNDEFINED == index, "all are inactive, but waitany says %d", index);
        for (int m = 0; m < MODES; ++m) {
            VERIFY(in[m], n, tl_key(50, prev, tl.rank, m, (uint64_t) round));
        }
        MPI_Barrier(tl.ctl); /* the ready sends of the next round */
    }
    for (int m = 0; m < MODES; ++m) {
        check_inactive(&request[m]);
        MPI_Request_free(&request[m]);
        MPI_Request_free(&request[MODES + m]);
        CHECK(MPI_REQUEST_NULL == request[m], "a freed request must be null");
        FREE(in[m]);
        FREE(out[m]);
    }
}

/* Persistent sends meet plain receives and matched probes; plain sends meet persistent receives. */
static void met_by_plain(size_t n, int src, int dst)
{
    enum { ROUNDS = 12 };
    tl_step("persistent and plain, %zu bytes from %d to %d", n, src, dst);
    char *buf = tl_buf(n);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    if (tl.rank == src) {
        MPI_Ssend_init(buf, (int) n, MPI_BYTE, dst, 10, MPI_COMM_WORLD, &request);
    } else if (tl.rank == dst) {
        MPI_Recv_init(buf, (int) n, MPI_BYTE, src, 11, MPI_COMM_WORLD, &request);
    }
    for (int round = 0; round < ROUNDS; ++round) {
        uint64_t key = tl_key(51, src, dst, 0, (uint64_t) round);
        if (tl.rank == src) {
            tl_fill(buf, n, key);
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Send(buf, (int) n, MPI_BYTE, dst, 11, MPI_COMM_WORLD);
        } else if (tl.rank == dst) {
            tl_poison(buf, n);
            if (round & 1) {
                MPI_Message message;
                MPI_Mprobe(src, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
                CHECK_STATUS(status, src, 10, n);
                MPI_Mrecv(buf, (int) n, MPI_BYTE, &message, &status);
            } else {
                MPI_Recv(buf, (int) n, MPI_BYTE, src, 10, MPI_COMM_WORLD, &status);
            }
            CHECK_STATUS(status, src, 10, n);
            VERIFY(buf, n, key);
            tl_poison(buf, n);
            MPI_Start(&request);
            MPI_Wait(&request, &status);
            CHECK_STATUS(status, src, 11, n);
            VERIFY(buf, n, key);
        }
    }
    if (MPI_REQUEST_NULL != request) {
        MPI_Request_free(&request);
    }
    FREE(buf);
}

/* Freed while active: the transfer happens nevertheless. The receiver polls the end of its buffer;
 * the sender keeps its buffer until the receiver has told it. */
static void freed_active(size_t n, int src, int dst)
{
    if (0 == n) {
        return;
    }
    tl_step("freed while active, %zu bytes from %d to %d", n, src, dst);
    char *buf = tl_buf(n);
    uint64_t key = tl_key(52, src, dst, 0, n);
    MPI_Request request;
    if (tl.rank == src) {
        tl_fill(buf, n, key);
        MPI_Send_init(buf, (int) n, MPI_BYTE, dst, 12, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Request_free(&request);
        CHECK(MPI_REQUEST_NULL == request, "a freed request must be null");
        tl_hear(dst);
    } else if (tl.rank == dst) {
        MPI_Recv_init(buf, (int) n, MPI_BYTE, src, 12, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Request_free(&request);
        CHECK(MPI_REQUEST_NULL == request, "a freed request must be null");
        int flag;
        while (tl_differs(buf, n, key) < n) {
            MPI_Iprobe(src, 99, tl.ctl, &flag, MPI_STATUS_IGNORE);
            __asm__ volatile("" ::: "memory");
        }
        tl_tell(src);
    }
    FREE(buf);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "persistent", 120);
    int room = 2 * (TL_LARGEST + MPI_BSEND_OVERHEAD), size;
    char *store = tl_buf((size_t) room);
    void *detached;
    MPI_Buffer_attach(store, room);
    for (size_t i = 0; i < TL_N(tl_few); ++i) {
        restarted(tl_few[i], tl_few[i] < 1000000 ? 60 : 12);
    }
    MPI_Buffer_detach(&detached, &size);
    FREE(store);
    for (int src = 0; src < tl.size && tl.size > 1; ++src) {
        MPI_Barrier(tl.ctl);
        for (size_t i = 0; i < TL_N(tl_few); ++i) {
            met_by_plain(tl_few[i], src, (src + 1) % tl.size);
            freed_active(tl_few[i], src, (src + 1) % tl.size);
        }
    }
    return tl_finish();
}
