/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* More small messages than their receiver wants: all ranks flood rank 0, which looks at the transports
 * often and receives seldom. Its memory must stay bounded, nothing may be lost or change its place, and a
 * message that is waited for must come, however many are before it.
 *
 *   --messages N    of each sender in the flood (1000000)
 *   --behind N      outstanding before the one that is waited for (20000)
 *   --size BYTES    of each, at least 8 (8)
 *   --lag N         looks between two receives (6)
 *   --grows MIB     by how much rank 0 may grow while it is flooded (48); 0: not looked at
 *   --held 1        some sender must have been asked to hold back */
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

static void look(uint64_t times)
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
            look(lag);
            MPI_Recv(buf, (int) size, MPI_BYTE, src, FLOOD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check(buf, src, FLOOD, n);
        }
    }
    FREE(buf);
}

/* Blocking sends of any number: the receiver's memory is the limit. */
static void flood(void)
{
    tl_step("a flood of %llu messages", (unsigned long long) messages);
    if (0 == tl.rank) {
        const long long grows = tl_option("--grows", 48) << 20, before = high_water();
        look(200000); /* a receiver that is quick enough would see no flood */
        drain(messages);
        const long long growth = high_water() - before;
        CHECK(0 == grows || (before >= 0 && growth <= grows), "rank 0 grew by %lld bytes", growth);
        printf("rank 0 grew by %lld KiB; it asked %lld times to hold back\n", growth / 1024, tl_pvar("pml_spec_flows"));
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
        look(1000);
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
    tl_start(&argc, &argv, "flood", 200);
    messages = (uint64_t) tl_option("--messages", 1000000);
    behind = (uint64_t) tl_option("--behind", 20000);
    lag = (uint64_t) tl_option("--lag", 6);
    size = (size_t) tl_option("--size", 8);
    if (tl.size > 1) {
        tl_pvar("pml_spec_flows");
        flood();
        for (int round = 0; behind > 0 && round < ROUNDS; ++round) {
            MPI_Barrier(MPI_COMM_WORLD);
            wanted(round);
        }
        if (0 == tl.rank && tl_option("--held", 0) > 0) {
            CHECK(tl_pvar("pml_spec_flows") > 0, "no sender was asked to hold back");
        }
    }
    return tl_finish();
}
