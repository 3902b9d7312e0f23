/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages of some KiB, about where eager ends: by themselves, in runs, with gaps, before and after their receive, probed,
 * synchronous, too long. Ranks 0 and 1, in turns.
 *
 *   --eager N   a message of N bytes that comes by itself is eager, one of N + 1 is not
 *   --gaps N    the same of one that is not one block, of N and 2 N bytes */
#include "testlib.h"

enum { TAG = 5, MOST = 70000, RUN = 24, BLOCK = 16 };

static const size_t sizes[] = {1,     4079,  4080,  4081,  4097,  8192,  16384, 16385, 20000, 22000,
                               32751, 32752, 32753, 32769, 48000, 65520, 65521, 65536, 65537, MOST};
static char *out, *in[RUN];

static uint64_t key_of(size_t size, int i)
{
    return tl_key(36, 0, 1, TAG, (uint64_t) size << 8 | (uint64_t) i);
}

static void turn(int sender, size_t size, MPI_Request *request)
{
    if (sender == tl.rank) {
        MPI_Isend(out, (int) size, MPI_BYTE, 1 - sender, TAG, MPI_COMM_WORLD, request);
    } else {
        tl_poison(in[0], MOST);
        MPI_Irecv(in[0], MOST, MPI_BYTE, sender, TAG, MPI_COMM_WORLD, request);
    }
}

/* How many eager messages a send of mine is: -1 not known. */
static long long alone(int sender, size_t size)
{
    MPI_Request request;
    tl_fill(out, size, key_of(size, 0));
    MPI_Barrier(tl.ctl);
    const long long before = tl_pvar("pml_spec_sent_eager");
    turn(sender, size, &request);
    const long long eager = before < 0 ? -1 : tl_pvar("pml_spec_sent_eager") - before;
    MPI_Status status;
    MPI_Wait(&request, &status);
    if (sender != tl.rank) {
        CHECK_STATUS(status, sender, TAG, size);
        VERIFY(in[0], size, key_of(size, 0));
    }
    return sender == tl.rank ? eager : -1;
}

static void where_it_ends(size_t end)
{
    tl_step("eager up to %zu", end);
    for (int sender = 0; sender < 2; ++sender) {
        const long long last = alone(sender, end), next = alone(sender, end + 1);
        CHECK(last < 0 || 1 == last, "%zu bytes are %lld eager messages", end, last);
        CHECK(next < 0 || 0 == next, "%zu bytes are %lld eager messages", end + 1, next);
    }
}

/* A message is found by a probe, which may be before all of it is there, and then received into blocks with gaps. */
static void probed(size_t size, bool matched)
{
    const size_t blocks = (size + BLOCK - 1) / BLOCK;
    tl_step("probed, %zu", size);
    MPI_Datatype type;
    MPI_Type_vector((int) blocks, BLOCK, 2 * BLOCK, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    if (0 == tl.rank) {
        tl_fill(out, size, key_of(size, 5));
        MPI_Send(out, (int) size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else if (1 == tl.rank) {
        char *wide = tl_buf(2 * blocks * BLOCK), *packed = tl_buf(blocks * BLOCK);
        MPI_Message message;
        MPI_Status status;
        int at = 0;
        if (matched) {
            MPI_Mprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
            CHECK_STATUS(status, 0, TAG, size);
            MPI_Mrecv(wide, 1, type, &message, &status);
        } else {
            MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, 0, TAG, size);
            MPI_Recv(wide, 1, type, 0, TAG, MPI_COMM_WORLD, &status);
        }
        CHECK_STATUS(status, 0, TAG, size);
        MPI_Pack(wide, 1, type, packed, (int) (blocks * BLOCK), &at, MPI_COMM_WORLD);
        VERIFY(packed, size, key_of(size, 5));
        tl_buf_free(__FILE__, __LINE__, packed);
        tl_buf_free(__FILE__, __LINE__, wide);
    }
    MPI_Type_free(&type);
}

/* Blocks of BLOCK bytes with gaps as long. */
static void with_gaps(size_t size, bool is_checked, bool is_eager)
{
    MPI_Datatype type;
    tl_step("gaps, %zu", size);
    MPI_Type_vector((int) (size / BLOCK), BLOCK, 2 * BLOCK, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    char *wide = tl_buf(2 * size), *packed = tl_buf(size);
    for (int sender = 0; sender < 2; ++sender) {
        MPI_Barrier(tl.ctl);
        if (sender == tl.rank) {
            int at = 0;
            tl_fill(packed, size, key_of(size, 1));
            MPI_Unpack(packed, (int) size, &at, wide, 1, type, MPI_COMM_WORLD);
            MPI_Request request;
            const long long before = tl_pvar("pml_spec_sent_eager");
            MPI_Isend(wide, 1, type, 1 - sender, TAG, MPI_COMM_WORLD, &request);
            const long long eager = before < 0 ? -1 : tl_pvar("pml_spec_sent_eager") - before;
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            CHECK(!is_checked || eager < 0 || is_eager == eager,
                  "%zu bytes with gaps are %lld eager messages", size, eager);
        } else {
            tl_poison(packed, size);
            MPI_Recv(packed, (int) size, MPI_BYTE, sender, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            VERIFY(packed, size, key_of(size, 1));
        }
    }
    tl_buf_free(__FILE__, __LINE__, packed);
    tl_buf_free(__FILE__, __LINE__, wide);
    MPI_Type_free(&type);
}

/* Many in a row, received early or late; a large one among them keeps its place. */
static void run(size_t size, bool early, bool waits)
{
    MPI_Request request[RUN];
    tl_step("run of %zu, receives %s, %s", size, early ? "early" : "late",
            waits ? "blocking" : "nonblocking");
    for (int sender = 0; sender < 2; ++sender) {
        if (sender != tl.rank) {
            for (int i = 0; i < RUN; ++i) {
                tl_poison(in[i], MOST);
                if (early) {
                    MPI_Irecv(in[i], MOST, MPI_BYTE, sender, TAG, MPI_COMM_WORLD, &request[i]);
                }
            }
        }
        MPI_Barrier(tl.ctl);
        for (int i = 0; i < RUN; ++i) {
            const size_t length = RUN / 2 == i ? MOST : size;
            const uint64_t key = key_of(length, 2);
            if (sender != tl.rank) {
                MPI_Status status;
                if (early) {
                    MPI_Wait(&request[i], &status);
                } else {
                    MPI_Recv(in[i], MOST, MPI_BYTE, sender, TAG, MPI_COMM_WORLD, &status);
                }
                CHECK_STATUS(status, sender, TAG, length);
                VERIFY(in[i], length, key);
                continue;
            }
            if (waits) {
                tl_fill(out, length, key);
                MPI_Send(out, (int) length, MPI_BYTE, 1 - sender, TAG, MPI_COMM_WORLD);
            } else {
                tl_fill(in[i], length, key);
                MPI_Isend(in[i], (int) length, MPI_BYTE, 1 - sender, TAG, MPI_COMM_WORLD,
                          &request[i]);
            }
        }
        if (sender == tl.rank && !waits) {
            MPI_Waitall(RUN, request, MPI_STATUSES_IGNORE);
        }
    }
}

/* A synchronous send ends when its receive is there, and not before, whatever it brings. */
static void synchronous(size_t size)
{
    tl_step("synchronous, %zu", size);
    MPI_Request request;
    int done = 0;
    if (0 == tl.rank) {
        tl_fill(out, size, key_of(size, 3));
        MPI_Issend(out, (int) size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 200; ++i) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            CHECK(!done, "a synchronous send of %zu bytes is done without a receive", size);
        }
        tl_tell(1);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (1 == tl.rank) {
        tl_hear(0);
        MPI_Recv(in[0], MOST, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        VERIFY(in[0], size, key_of(size, 3));
    }
}

/* It has room for half of the message; what is behind the buffer stays. */
static void too_long(size_t size)
{
    tl_step("too long, %zu", size);
    MPI_Barrier(tl.ctl);
    if (0 == tl.rank) {
        tl_fill(out, size, key_of(size, 4));
        MPI_Send(out, (int) size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else {
        tl_poison(in[0], MOST);
        CHECK_CLASS(
            MPI_Recv(in[0], (int) (size / 2), MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            MPI_ERR_TRUNCATE);
        tl_untouched(__FILE__, __LINE__, in[0], size / 2, MOST);
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "medium", 60);
    const size_t eager = (size_t) tl_option("--eager", 0), gaps = (size_t) tl_option("--gaps", 0);
    out = tl_buf(MOST);
    for (int i = 0; i < RUN; ++i) {
        in[i] = tl_buf(MOST);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (eager > 0) {
        where_it_ends(eager);
    }
    if (gaps > 0) {
        with_gaps(gaps, true, true);
        with_gaps(2 * gaps, true, false);
    }
    for (size_t i = 0; i < TL_N(sizes); ++i) {
        (void) alone(0, sizes[i]);
        (void) alone(1, sizes[i]);
        for (int how = 0; how < 4; ++how) {
            run(sizes[i], how & 1, how & 2);
        }
        for (int n = 0; n < 20; ++n) {
            probed(sizes[i], n & 1);
        }
        synchronous(sizes[i]);
        too_long(sizes[i]);
    }
    with_gaps(4096, false, false);
    for (int i = 0; i < RUN; ++i) {
        tl_buf_free(__FILE__, __LINE__, in[i]);
    }
    tl_buf_free(__FILE__, __LINE__, out);
    return tl_finish();
}
