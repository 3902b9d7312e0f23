/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Eager messages whose data goes through memory that both processes map (SLOT packets): every length and alignment, receives that come
 * first or late, more messages than that memory holds, several in a queue, buffers with gaps and short ones.
 *
 *   --without N  N: 2: there is another transport, too; else process N can open no file when it first needs that memory, so that it has none of its own (0, the sender), or
 *                does not reach the other's (1): the messages go another way
 *   --any        it may be that none goes so
 *   --served     an agent gives memory back while the receiver is outside MPI: all may go so
 */
#include "testlib.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TAG = 7, DEEP = 200, MOST = 65536, SLACK = 128, FILES = 8, LINE = 64 };

static char *out, *in;

/* No file can be opened from now on; or some can again. */
static void allow_files(bool allowed)
{
    static struct rlimit before;
    if (allowed) {
        (void) setrlimit(RLIMIT_NOFILE, &before);
        return;
    }
    (void) getrlimit(RLIMIT_NOFILE, &before);
    while (open("/dev/null", O_RDONLY) < FILES) { /* these stay open, whatever else is closed */
    }
    const struct rlimit none = {.rlim_cur = FILES, .rlim_max = before.rlim_max};
    (void) setrlimit(RLIMIT_NOFILE, &none);
}

static void send_one(size_t n, size_t skip, uint64_t number, MPI_Request *request)
{
    tl_fill(out + skip, n, tl_key(70, 0, 1, TAG, number));
    if (NULL == request) {
        MPI_Send(out + skip, (int) n, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else {
        MPI_Isend(out + skip, (int) n, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, request);
    }
}

static void verify(const char *at, size_t n, uint64_t number)
{
    VERIFY(at, n, tl_key(70, 0, 1, TAG, number));
}

/* One process tells the other, by a message of its own, and that one waits for it. */
static void other_is_there(int teller)
{
    if (teller == tl.rank) {
        tl_tell(1 - tl.rank);
    } else {
        tl_hear(1 - tl.rank);
    }
}

static void lengths_and_places(void)
{
    static const size_t length[] = {1,    256,  2047, 2048,  2049,  4079,  4080,  4081, 4096,
                                    8191, 8192, 9000, 32751, 32752, 32753, 65535, MOST, MOST + 1};
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof(length) / sizeof(*length); ++i) {
        for (size_t skip = 0; skip < SLACK; skip += 1 + skip / 2) {
            const bool is_late = (i + skip) % 3 == 0;
            if (0 == tl.rank) {
                MPI_Request request;
                other_is_there(is_late ? 0 : 1);
                send_one(length[i], skip, number, 1 == skip % 2 ? &request : NULL);
                if (1 == skip % 2) {
                    MPI_Wait(&request, MPI_STATUS_IGNORE);
                }
            } else {
                MPI_Request request;
                if (is_late) {
                    other_is_there(0);
                }
                MPI_Irecv(in + SLACK - skip, MOST + 1, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
                if (!is_late) {
                    other_is_there(1);
                }
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                verify(in + SLACK - skip, length[i], number);
            }
            ++number;
        }
    }
}

/* More than there is room for, in the packets of the transport or in the memory, while the receiver is outside MPI: in the order in which
 * they were sent. Then all go by slots again. */
static void flood(size_t n, bool counts)
{
    static MPI_Request request[DEEP];
    const long long before = tl_pvar("pml_spec_slots");
    char *memory = tl_memory((DEEP + 1) * (n / LINE + 2) * LINE), *each[DEEP];
    /* Each begins elsewhere in its line than the one before, and ends in another. */
    for (int i = 0; i < DEEP; ++i) {
        each[i] = memory + LINE - (uintptr_t) memory % LINE + (size_t) i * ((n / LINE + 2) * LINE)
                  + (i % 2 == 0 ? 48 : 0);
    }
    if (0 == tl.rank) {
        for (int i = 0; i < DEEP; ++i) {
            tl_fill(each[i], n, tl_key(70, 0, 1, TAG, (uint64_t) i));
        }
        tl_hear(1); /* from now on it calls nothing */
        for (int i = 0; i < DEEP; ++i) {
            MPI_Isend(each[i], (int) n, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request[i]);
        }
        const long long by_slots = tl_pvar("pml_spec_slots") - before;
        CHECK(!counts || (0 < by_slots && (by_slots < DEEP || tl_flag("--served"))),
              "%lld of %d messages of %zu bytes went by slots", by_slots, DEEP, n);
        tl_outside_tell();
        MPI_Waitall(DEEP, request, MPI_STATUSES_IGNORE);
    } else {
        tl_tell(0);
        tl_outside_await();
        for (int i = 0; i < DEEP; ++i) {
            MPI_Recv(in, (int) n, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            verify(in, n, (uint64_t) i);
        }
    }
    tl_memory_free(memory);
}

/* The memory is whole: none of it was lost by what was refused, had no room, or was cut off. */
static void all_again(int many, bool counts)
{
    const long long before = tl_pvar("pml_spec_slots");
    for (uint64_t i = 0; i < (uint64_t) many; ++i) {
        if (0 == tl.rank) {
            send_one(30000, i % SLACK, i, NULL);
            tl_hear(1);
        } else {
            MPI_Recv(in, MOST, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            verify(in, 30000, i);
            tl_tell(0);
        }
    }
    const long long by_slots = tl_pvar("pml_spec_slots") - before;
    CHECK(!counts || 0 != tl.rank || by_slots >= many - 40, "%lld of %d messages went by slots",
          by_slots, many);
}

/* One is not received for long, while others go round. */
static void one_stays(void)
{
    enum { OTHER = TAG + 1, ROUNDS = 3000 };
    if (0 == tl.rank) {
        MPI_Request request;
        char *other = tl_memory(9000);
        send_one(20000, 3, 1, &request);
        for (uint64_t i = 0; i < ROUNDS; ++i) {
            tl_fill(other, 9000, tl_key(70, 0, 1, OTHER, i));
            MPI_Send(other, 9000, MPI_BYTE, 1, OTHER, MPI_COMM_WORLD);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        tl_memory_free(other);
    } else {
        for (uint64_t i = 0; i < ROUNDS; ++i) {
            MPI_Recv(in, MOST, MPI_BYTE, 0, OTHER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            VERIFY(in, 9000, tl_key(70, 0, 1, OTHER, i));
        }
        MPI_Recv(in, MOST, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify(in, 20000, 1);
    }
}

/* The receiver takes it apart, or has room for less of it. */
static void other_buffers(void)
{
    enum { BLOCKS = 1000, BLOCK = 8 };
    MPI_Datatype gaps;
    MPI_Status status;
    MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps);
    MPI_Type_commit(&gaps);
    for (int late = 0; late < 2; ++late) {
        if (0 == tl.rank) {
            MPI_Request request[2];
            send_one(BLOCKS * BLOCK, 0, 2, &request[0]);
            send_one(30000, MOST - 30000, 3, &request[1]);
            other_is_there(0);
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        } else {
            if (late) {
                other_is_there(0);
            }
            MPI_Recv(in, 1, gaps, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < BLOCKS; ++i) {
                memmove(in + i * BLOCK, in + 2 * i * BLOCK, BLOCK);
            }
            verify(in, BLOCKS * BLOCK, 2);
            memset(in, 0x5a, MOST);
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            const int rc = MPI_Recv(in, 10000, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
            CHECK(MPI_ERR_TRUNCATE == tl_class(rc), "error class %d, not MPI_ERR_TRUNCATE",
                  tl_class(rc));
            CHECK(0x5a == in[10000], "a byte behind the buffer was written");
            if (!late) {
                other_is_there(0);
            }
        }
    }
    MPI_Type_free(&gaps);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "slots", 60);
    const int without = (int) tl_option("--without", -1);
    const long long before = tl_pvar("pml_spec_slots");
    const bool must = !tl_flag("--any") && before >= 0;
    tl_outside_start();
    out = tl_memory(MOST + 2 * SLACK);
    in = tl_memory(MOST + 2 * SLACK);
    if (tl.rank < 2) {
        if (without == tl.rank) {
            allow_files(false);
        }
        other_is_there(1);
        /* The first asks, the others find the answer. */
        for (uint64_t i = 0; i < 20 && without >= 0; ++i) {
            if (0 == tl.rank) {
                send_one(5000, 0, i, NULL);
                tl_hear(1);
            } else {
                MPI_Recv(in, MOST, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                verify(in, 5000, i);
                tl_tell(0);
            }
        }
        if (without == tl.rank) {
            allow_files(true);
        }
        lengths_and_places();
        flood(2 * 4096, must && without < 0);
        all_again(100, must && without < 0);
        flood(3000, must && without < 0);
        all_again(100, must && without < 0);
        flood(MOST, must && without < 0);
        one_stays();
        for (int i = 0; i < 300; ++i) {
            other_buffers();
        }
        all_again(1000, must && without < 0);
    }
    const long long n = tl_pvar("pml_spec_slots") - before;
    if (0 == tl.rank && before >= 0) {
        CHECK(without >= 0 ? 0 == n : n > 1000 || !must, "%lld messages went by slots", n);
    }
    tl_memory_free(in);
    tl_memory_free(out);
    return tl_finish();
}
