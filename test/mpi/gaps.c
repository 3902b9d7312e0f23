/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Large nonblocking messages from and into memory with gaps, whose receive comes first: each end with gaps or without, elements
 * that no border of a piece divides, messages that are longer or shorter than the receive, cancelled receives, persistent requests.
 *
 * And sends that are complete, whose program calls MPI no more.
 *
 *   --staged 1     and they go through host memory of one block (pml_spec_staged) */
#include "testlib.h"

#include <sched.h>
#include <stdatomic.h>

enum { TAG = 3, TYPES = 2 };
static const size_t sizes[] = {70000, 262269, 1000001, 3 << 20};

/* 0: a char and a double, 9 bytes of 16; 1: 512 bytes of each 1024. */
static MPI_Datatype type[TYPES];
static const size_t bytes[TYPES] = {9, 512};

static void make_types(void)
{
    int lengths[] = {1, 1};
    MPI_Aint at[] = {0, 8};
    MPI_Datatype parts[] = {MPI_CHAR, MPI_DOUBLE}, block;
    MPI_Type_create_struct(2, lengths, at, parts, &type[0]);
    MPI_Type_contiguous(512, MPI_BYTE, &block);
    MPI_Type_create_resized(block, 0, 1024, &type[1]);
    MPI_Type_free(&block);
    MPI_Type_commit(&type[0]);
    MPI_Type_commit(&type[1]);
}

/* One end's buffer: count elements of a type, or as many bytes in one block. */
typedef struct {
    char *buf;
    int count;
    MPI_Datatype type;
    size_t packed;
} end_t;

static end_t open_end(int kind, bool gaps, size_t count)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type[kind], &lb, &extent);
    const size_t packed = count * bytes[kind];
    return (end_t){.buf = tl_buf(gaps ? count * (size_t) extent : packed),
                   .count = (int) (gaps ? count : packed),
                   .type = gaps ? type[kind] : MPI_BYTE,
                   .packed = packed};
}

static void give(const end_t *e, uint64_t key)
{
    char *flat = tl_buf(e->packed);
    int at = 0;
    tl_fill(flat, e->packed, key);
    MPI_Unpack(flat, (int) e->packed, &at, e->buf, e->count, e->type, MPI_COMM_SELF);
    FREE(flat);
}

/* The first `got` bytes came. */
static void check(const end_t *e, size_t got, uint64_t key)
{
    char *flat = tl_buf(e->packed);
    int at = 0;
    MPI_Pack(e->buf, e->count, e->type, flat, (int) e->packed, &at, MPI_COMM_SELF);
    VERIFY(flat, got, key);
    FREE(flat);
}

/* Messages of `sent` elements into receives of `room`; with cancel there is a receive before, which is taken back. */
static void messages(int kind, bool send_gaps, bool recv_gaps, size_t sent, size_t room,
                     bool cancel, MPI_Comm comm)
{
    const int peer = 1 - tl.rank;
    const bool persists = 0 == tl.rank || sent <= room; /* Open MPI frees a request that fails */
    MPI_Request request = MPI_REQUEST_NULL, first;
    end_t e = 0 == tl.rank ? open_end(kind, send_gaps, sent) : open_end(kind, recv_gaps, room);
    tl_step("type %d, gaps %d %d, %zu into %zu%s", kind, send_gaps, recv_gaps, sent, room,
            cancel ? ", cancelled before" : "");
    if (0 == tl.rank) {
        MPI_Send_init(e.buf, e.count, e.type, peer, TAG, comm, &request);
    } else if (persists) {
        MPI_Recv_init(e.buf, e.count, e.type, peer, TAG, comm, &request);
    }
    for (uint64_t i = 0; i < 3; ++i) {
        MPI_Status status;
        const uint64_t key = tl_key(i, 0, 1, TAG, sent);
        if (0 == tl.rank) {
            give(&e, key);
            tl_hear(peer);
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            tl_hear(peer);
            continue;
        }
        if (cancel) {
            int flag = 0;
            MPI_Irecv(e.buf, e.count, e.type, peer, TAG, comm, &first);
            MPI_Cancel(&first);
            MPI_Wait(&first, &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(flag, "a receive without a message could not be cancelled");
        }
        if (persists) {
            MPI_Start(&request);
        } else {
            MPI_Irecv(e.buf, e.count, e.type, peer, TAG, comm, &request);
        }
        tl_tell(peer);
        const int rc = MPI_Wait(&request, &status);
        CHECK((sent > room ? MPI_ERR_TRUNCATE : MPI_SUCCESS) == tl_class(rc), "the wait gave %d",
              tl_class(rc));
        if (sent <= room) {
            check(&e, sent * bytes[kind], key);
        }
        tl_tell(peer);
    }
    if (persists) {
        MPI_Request_free(&request);
    }
    FREE(e.buf);
}

/* A send that was waited for needs its sender no more: it goes on until the message has come, and calls nothing of MPI. Its memory is
 * the program's again. by_rtr: the receive is posted before; else while the sender waits, or later. */
static void left_alone(size_t n, bool by_rtr, MPI_Comm comm)
{
    enum { PATIENCE = 20 }; /* seconds, after which it has been waiting for this process */
    const int peer = 1 - tl.rank;
    const uint64_t key = tl_key(7, 0, 1, TAG, n);
    atomic_int *came = NULL;
    MPI_Aint size;
    MPI_Win win;
    MPI_Request request;
    int unit;
    end_t e = open_end(1, true, n / bytes[1]);
    tl_step("left alone, %zu bytes, by RTR: %d", n, by_rtr);
    MPI_Win_allocate_shared(0 == tl.rank ? 64 : 0, 1, MPI_INFO_NULL, comm, &came, &win);
    MPI_Win_shared_query(win, 0, &size, &unit, &came);
    if (0 == tl.rank) {
        atomic_store(came, 0);
        give(&e, key);
    }
    if (1 == tl.rank && by_rtr) {
        MPI_Irecv(e.buf, e.count, e.type, peer, TAG, comm, &request);
    }
    MPI_Barrier(tl.ctl);
    if (0 == tl.rank) {
        MPI_Isend(e.buf, e.count, e.type, peer, TAG, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        give(&e, key + 1);
        const double end = MPI_Wtime() + PATIENCE;
        while (!atomic_load(came) && MPI_Wtime() < end) {
            sched_yield();
        }
        CHECK(atomic_load(came), "the message waits for its sender");
    } else {
        if (!by_rtr) {
            usleep(20000); /* the send is complete, if it can be without its receive */
            MPI_Irecv(e.buf, e.count, e.type, peer, TAG, comm, &request);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        atomic_store(came, 1);
        check(&e, e.packed, key);
    }
    MPI_Barrier(tl.ctl);
    MPI_Win_free(&win);
    FREE(e.buf);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "gaps", 90);
    const bool staged = 0 != tl_option("--staged", 0);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    make_types();
    const long long before = tl_pvar("pml_spec_staged");
    for (int kind = 0; kind < TYPES; ++kind) {
        for (int gaps = 1; gaps < 4; ++gaps) {
            for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); ++s) {
                const size_t n = sizes[s] / bytes[kind];
                messages(kind, gaps & 1, gaps & 2, n, n, false, comm);
                messages(kind, gaps & 1, gaps & 2, n, n + n / 3, false, comm);
                messages(kind, gaps & 1, gaps & 2, n + n / 3, n, false, comm);
                messages(kind, gaps & 1, gaps & 2, 10, n, false, comm);
                messages(kind, gaps & 1, gaps & 2, n, n, true, comm);
            }
        }
    }
    for (int i = 0; i < 8; ++i) {
        left_alone(70000u << i % 4 * 2, i & 1, comm);
    }
    if (staged) {
        CHECK(tl_pvar("pml_spec_staged") - before >= 40, "only %lld messages were staged",
              tl_pvar("pml_spec_staged") - before);
    }
    MPI_Type_free(&type[0]);
    MPI_Type_free(&type[1]);
    MPI_Comm_free(&comm);
    return tl_finish();
}
