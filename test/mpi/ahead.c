/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends that are far ahead of their receives, as programs do that were never blocked: to a receiver that sleeps or computes and makes no
 * call, with its receives posted before, posted late, or none; and of all ranks to each other before any receives (--unsafe). Everything
 * must arrive, in its order, and where memory for it is limited it must not take more.
 * Also many large receives that are posted to a sender that makes no call.
 *
 *   --messages N    of each step (4000)
 *   --size BYTES    of each, at least 8 (8)
 *   --sleep MS      how long the receiver makes no call (100)
 *   --unsafe N      blocking sends of everybody before the first receive (0: not tried; a limit may make them wait for ever)
 *   --flight N      sends that are kept in flight to a receiver that makes no call until no more of them become complete, or 100
 *                   times --messages were sent (0: not tried)
 *   --keeps KIB     the most that the sender may grow by then (0: not checked)
 *   --unheard N     blocking sends to a receiver that makes no call until all have returned (0: not tried; MPI promises it of none)
 *   --receives N    posted to a sender that makes no call (2000)
 *   --takes KIB     the most that unexpected messages may take (0: not checked) */
#include "testlib.h"

enum { TAG = 3, LARGE = 8192 };
enum { BLOCKING, NONBLOCKING, PERSISTENT, SENDS };
enum { NONE_POSTED, ALL_POSTED, SOME_POSTED, RECEIVERS };

static int messages, peer;
static size_t size;
static char *area;
static MPI_Request *request;

static char *place(int number)
{
    return area + (size_t) number * size;
}

static void write_message(char *buf, int number)
{
    tl_fill(buf, size, tl_key(23, tl.rank, peer, TAG, (uint64_t) number));
}

static void verify(const char *buf, int number)
{
    VERIFY(buf, size, tl_key(23, peer, tl.rank, TAG, (uint64_t) number));
}

static void make_no_call(void)
{
    const useconds_t us = (useconds_t) (tl_option("--sleep", 100) * 1000);
    usleep(us);
}

static void send_all(int how, int n)
{
    for (int i = 0; i < n; ++i) {
        write_message(place(i), i);
        if (BLOCKING == how) {
            MPI_Send(place(i), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
        } else if (NONBLOCKING == how) {
            MPI_Isend(place(i), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request[i]);
        } else {
            MPI_Send_init(place(i), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request[i]);
        }
    }
    if (PERSISTENT == how) {
        MPI_Startall(n, request);
    }
    if (BLOCKING != how) {
        MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; PERSISTENT == how && i < n; ++i) {
        MPI_Request_free(&request[i]);
    }
}

static void receive_all(int how, int n)
{
    const int posted = NONE_POSTED == how ? 0 : ALL_POSTED == how ? n : n / 3;
    for (int i = 0; i < posted; ++i) {
        MPI_Irecv(place(i), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request[i]);
    }
    tl_tell(peer);
    make_no_call();
    MPI_Waitall(posted, request, MPI_STATUSES_IGNORE);
    for (int i = posted; i < n; ++i) {
        MPI_Status status;
        MPI_Recv(place(i), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &status);
        CHECK_STATUS(status, peer, TAG, size);
    }
    for (int i = 0; i < n; ++i) {
        verify(place(i), i);
    }
}

static void ahead(void)
{
    static const char *const sends[] = {"blocking", "nonblocking", "persistent"};
    static const char *const receivers[] = {"none", "all", "a third"};
    for (int s = 0; s < SENDS; ++s) {
        for (int r = 0; r < RECEIVERS; ++r) {
            tl_step("%d %s sends of %zu bytes ahead, %s of the receives posted", messages, sends[s],
                    size, receivers[r]);
            if ((s + r + tl.rank) & 1) {
                tl_hear(peer);
                send_all(s, messages);
            } else {
                receive_all(r, messages);
            }
        }
    }
}

/* Everybody sends all it has before it receives anything. */
static void unsafe(int n)
{
    char *buf = tl_buf(size);
    tl_step("%d blocking sends of %zu bytes of everybody before the first receive", n, size);
    MPI_Barrier(tl.ctl);
    for (int i = 0; i < n; ++i) {
        write_message(buf, i);
        MPI_Send(buf, (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
    }
    for (int i = 0; i < n; ++i) {
        MPI_Recv(buf, (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify(buf, i);
    }
    FREE(buf);
}

/* Resident memory of this process, bytes. */
static long long resident(void)
{
    long long pages = 0, all;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (NULL != statm) {
        if (2 != fscanf(statm, "%lld %lld", &all, &pages)) {
            pages = 0;
        }
        fclose(statm);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

/* Some sends in flight: one that is complete is followed by the next, until the receiver, which makes no call meanwhile,
 * has had `most`, or none is complete after many tests. Then the sender has grown by what waits in it for the receiver. */
static int keep_in_flight(int flight, int most)
{
    enum { TESTS = 200000 };
    int n = 0;
    for (; n < flight; ++n) {
        write_message(place(n), n);
        MPI_Isend(place(n), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request[n]);
    }
    for (int in_vain = 0; n < most && in_vain < TESTS; ++in_vain) {
        int at, done;
        MPI_Testany(flight, request, &at, &done, MPI_STATUS_IGNORE);
        if (done) {
            write_message(place(at), n++);
            MPI_Isend(place(at), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request[at]);
            in_vain = 0;
        }
    }
    return n;
}

static void in_flight(int flight, int most)
{
    tl_step("%d sends of %zu bytes in flight to a receiver that makes no call", flight, size);
    int n;
    if (tl.rank & 1) {
        tl_outside_await();
        MPI_Recv(&n, 1, MPI_INT, peer, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; ++i) {
            MPI_Recv(place(0), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            verify(place(0), i);
        }
        return;
    }
    const long long before = resident(), bar = tl_option("--keeps", 0) << 10;
    n = keep_in_flight(flight, most);
    const long long grown = resident() - before;
    CHECK(0 == bar || grown <= bar, "the sender grew by %lld KiB with %d messages", grown / 1024,
          n);
    tl_outside_tell();
    MPI_Send(&n, 1, MPI_INT, peer, TAG + 1, MPI_COMM_WORLD);
    MPI_Waitall(flight, request, MPI_STATUSES_IGNORE);
}

/* Blocking sends to a receiver that makes no call until all of them have returned. */
static void unheard(int n)
{
    tl_step("%d blocking sends of %zu bytes to a receiver that makes no call until they are over",
            n, size);
    if (tl.rank & 1) {
        tl_outside_await();
    }
    for (int i = 0; i < n; ++i) {
        if (tl.rank & 1) {
            MPI_Recv(place(0), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            verify(place(0), i);
        } else {
            write_message(place(0), i);
            MPI_Send(place(0), (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
        }
    }
    if (!(tl.rank & 1)) {
        tl_outside_tell();
    }
}

/* The sender makes no call until all are posted, and a while longer. */
static void many_receives(int n)
{
    char *large = tl_buf((size_t) n * LARGE);
    MPI_Request *all = malloc((size_t) n * sizeof(*all));
    tl_step("%d large receives posted to a sender that makes no call", n);
    MPI_Barrier(tl.ctl);
    if (tl.rank & 1) {
        for (int i = 0; i < n; ++i) {
            MPI_Irecv(large + (size_t) i * LARGE, LARGE, MPI_BYTE, peer, TAG + i % 2,
                      MPI_COMM_WORLD, &all[i]);
        }
    } else {
        make_no_call();
        for (int i = 0; i < n; ++i) {
            tl_fill(large + (size_t) i * LARGE, LARGE, tl_key(29, tl.rank, peer, 0, (uint64_t) i));
            MPI_Isend(large + (size_t) i * LARGE, LARGE, MPI_BYTE, peer, TAG + i % 2,
                      MPI_COMM_WORLD, &all[i]);
        }
    }
    MPI_Waitall(n, all, MPI_STATUSES_IGNORE);
    for (int i = 0; 1 == tl.rank % 2 && i < n; ++i) {
        VERIFY(large + (size_t) i * LARGE, LARGE, tl_key(29, peer, tl.rank, 0, (uint64_t) i));
    }
    free(all);
    FREE(large);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "ahead", 120);
    messages = (int) tl_option("--messages", 4000);
    size = (size_t) tl_option("--size", 8);
    size = size < 8 ? 8 : size;
    peer = tl.rank ^ 1;
    if (0 != tl.size % 2) {
        tl_skip("ranks work in pairs");
        return tl_finish();
    }
    tl_outside_start();
    area = tl_buf((size_t) messages * size);
    request = malloc((size_t) messages * sizeof(*request));
    ahead();
    if (tl_option("--unsafe", 0) > 0) {
        unsafe((int) tl_option("--unsafe", 0));
    }
    if (tl_option("--unheard", 0) > 0 && tl.rank < 2) {
        unheard((int) tl_option("--unheard", 0));
    }
    if (tl_option("--flight", 0) > 0 && tl.rank < 2) {
        in_flight((int) tl_option("--flight", 0), 100 * messages);
    }
    many_receives((int) tl_option("--receives", 2000));
    const long long bar = tl_option("--takes", 0) << 10,
                    took = tl_pvar("pml_spec_unexpected_bytes_most");
    CHECK(0 == bar || took <= bar, "unexpected messages took %lld bytes", took);
    free(request);
    FREE(area);
    return tl_finish();
}
