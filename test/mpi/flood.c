/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* More small messages than their receiver wants: all ranks flood rank 0, which polls the transports
 * and receives nothing until it has had enough (a sender was given no more credit), then seldom. Its
 * unexpected messages must not take more than the limit and the credit of all senders; nothing may be
 * lost or change its place; and a message that is waited for must come, however many are before it.
 *
 *   --messages N    of each sender in the flood (1000000)
 *   --behind N      outstanding before the one that is waited for (20000)
 *   --size BYTES    of each, at least 8 (8)
 *   --lag N         polls between two receives (6)
 *   --takes KIB     the most that unexpected messages may take at rank 0; 0: not checked (0)
 *   --all-ways 1    everybody floods everybody before anybody receives anything (0) */
#include "testlib.h"

enum { FLOOD = 1, WANTED = 2, ROUNDS = 3 };

static uint64_t messages, behind, lag;
static size_t size;

/* The most memory this process ever had, bytes. */
static long long high_water(void)
{
    char line[256];
    long long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (NULL != status && NULL != fgets(line, sizeof(line), status)) {
        if (1 == sscanf(line, "VmHWM: %lld", &kib)) {
            break;
        }
    }
    if (NULL != status) {
        fclose(status);
    }
    return kib < 0 ? -1 : kib * 1024;
}

static void poll_times(uint64_t times)
{
    for (uint64_t i = 0; i < times; ++i) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, tl.ctl, &flag, MPI_STATUS_IGNORE);
    }
}

static void fill(char *buf, int src, int tag, uint64_t number)
{
    memcpy(buf, &number, sizeof(number));
    tl_fill(buf + sizeof(number), size - sizeof(number), tl_key(91, src, 0, tag, number));
}

static void check(const char *buf, int src, int tag, uint64_t number)
{
    uint64_t seen;
    memcpy(&seen, buf, sizeof(seen));
    CHECK(seen == number, "from rank %d, tag %d: expected message %llu, got %llu", src, tag,
          (unsigned long long) number, (unsigned long long) seen);
    VERIFY(buf + sizeof(seen), size - sizeof(seen), tl_key(91, src, 0, tag, number));
}

/* Receive what is left of the floods, in turns. */
static void drain(uint64_t each)
{
    char *buf = tl_buf(size);
    for (uint64_t n = 0; n < each; ++n) {
        for (int src = 1; src < tl.size; ++src) {
            poll_times(lag);
            MPI_Recv(buf, (int) size, MPI_BYTE, src, FLOOD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check(buf, src, FLOOD, n);
        }
    }
    FREE(buf);
}

/* Receive nothing until a sender gets no more credit. Not a matter of time: a flood must come to that. */
static void have_enough(void)
{
    while (0 == tl_pvar("pml_spec_withheld")) {
        poll_times(1000);
    }
}

/* Everybody floods everybody before anybody receives; nonblocking, because MPI promises no buffering. */
static void all_ways(void)
{
    tl_step("floods of %llu messages in all directions", (unsigned long long) behind);
    const uint64_t all = behind * (uint64_t) (tl.size - 1);
    MPI_Request *request = malloc(all * sizeof(*request)), sync;
    char *buf = tl_buf(behind * size), *in = tl_buf(size);
    for (uint64_t n = 0, r = 0; n < behind; ++n) {
        fill(buf + n * size, tl.rank, FLOOD, n);
        for (int to = 0; to < tl.size; ++to) {
            if (to != tl.rank) {
                MPI_Isend(buf + n * size, (int) size, MPI_BYTE, to, FLOOD, MPI_COMM_WORLD,
                          &request[r++]);
            }
        }
    }
    /* Throttled or not, all else goes on. */
    MPI_Barrier(MPI_COMM_WORLD);
    const int right = (tl.rank + 1) % tl.size, left = (tl.rank + tl.size - 1) % tl.size;
    int token = tl.rank, seen = -1;
    MPI_Issend(&token, 1, MPI_INT, right, WANTED, tl.ctl, &sync);
    MPI_Recv(&seen, 1, MPI_INT, left, WANTED, tl.ctl, MPI_STATUS_IGNORE);
    MPI_Wait(&sync, MPI_STATUS_IGNORE);
    CHECK(left == seen, "expected the token of rank %d, got %d", left, seen);
    for (uint64_t n = 0; n < behind; ++n) {
        for (int src = 0; src < tl.size; ++src) {
            if (src != tl.rank) {
                MPI_Recv(in, (int) size, MPI_BYTE, src, FLOOD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                check(in, src, FLOOD, n);
            }
        }
    }
    MPI_Waitall((int) all, request, MPI_STATUSES_IGNORE);
    free(request);
    FREE(buf);
    FREE(in);
}

/* Blocking sends of any number: the receiver's memory is the limit. */
static void flood(void)
{
    tl_step("a flood of %llu messages", (unsigned long long) messages);
    if (0 == tl.rank) {
        const long long bar = tl_option("--takes", 0) << 10, before = high_water();
        have_enough();
        drain(messages);
        const long long growth = high_water() - before,
                        took = tl_pvar("pml_spec_unexpected_bytes_most");
        CHECK(0 == bar || (0 <= took && took <= bar), "unexpected messages took %lld bytes", took);
        printf("rank 0 grew by %lld KiB; unexpected messages took up to %lld KiB; credit was "
               "withheld %lld times\n",
               growth / 1024, took / 1024, tl_pvar("pml_spec_withheld"));
        return;
    }
    char *buf = tl_buf(size);
    for (uint64_t n = 0; n < messages; ++n) {
        fill(buf, tl.rank, FLOOD, n);
        MPI_Send(buf, (int) size, MPI_BYTE, 0, FLOOD, MPI_COMM_WORLD);
    }
    FREE(buf);
}

/* Nonblocking sends, then one that the receiver waits for before all others, in each way to wait. */
static void wanted(int round)
{
    static const char *const how[ROUNDS] = {"received", "received from any source", "probed for"};
    tl_step("a message %s, with %llu before it", how[round], (unsigned long long) behind);
    if (0 == tl.rank) {
        char *buf = tl_buf(size);
        poll_times(1000);
        for (int n = 1; n < tl.size; ++n) {
            int src = 0 == round ? n : MPI_ANY_SOURCE;
            MPI_Status status;
            if (2 == round) {
                MPI_Probe(src, WANTED, MPI_COMM_WORLD, &status);
                src = status.MPI_SOURCE;
            }
            MPI_Recv(buf, (int) size, MPI_BYTE, src, WANTED, MPI_COMM_WORLD, &status);
            check(buf, status.MPI_SOURCE, WANTED, behind);
        }
        FREE(buf);
        drain(behind);
        return;
    }
    MPI_Request *request = malloc((behind + 1) * sizeof(*request));
    char *buf = tl_buf((behind + 1) * size);
    for (uint64_t n = 0; n <= behind; ++n) {
        const int tag = n < behind ? FLOOD : WANTED;
        fill(buf + n * size, tl.rank, tag, n);
        MPI_Isend(buf + n * size, (int) size, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request[n]);
    }
    MPI_Waitall((int) behind + 1, request, MPI_STATUSES_IGNORE);
    free(request);
    FREE(buf);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "flood", 900);
    messages = (uint64_t) tl_option("--messages", 1000000);
    behind = (uint64_t) tl_option("--behind", 20000);
    lag = (uint64_t) tl_option("--lag", 6);
    size = (size_t) tl_option("--size", 8);
    if (tl.size > 1) {
        flood();
        if (tl_option("--all-ways", 0) > 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            all_ways();
        }
        for (int round = 0; behind > 0 && round < ROUNDS; ++round) {
            MPI_Barrier(MPI_COMM_WORLD);
            wanted(round);
        }
    }
    return tl_finish();
}
