/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Address space is out (RLIMIT_AS, set here and taken back): MPI_Alloc_mem says MPI_ERR_NO_MEM and goes on when there is
 * some again; what was allocated keeps its content; messages go on meanwhile.
 *
 *   --room MIB      address space that is left (96)
 *   --messages N    while there is hardly any: from each rank, 0: none (500)
 *   --spare KIB     address space that is left for these (16384: those that are sent, those that are kept, and over btl/ibx
 *                   some fifty receive buffers of 64 KiB) */
#include "testlib.h"

#include <sys/resource.h>

enum { MOST = 200000 };

typedef struct {
    char *base;
    size_t size;
} piece_t;

static piece_t piece[MOST];
static struct rlimit before;

static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *in = fopen("/proc/self/statm", "r");
    if (NULL == in || 1 != fscanf(in, "%lu", &pages)) {
        pages = 0;
    }
    if (NULL != in) {
        fclose(in);
    }
    return pages * (size_t) sysconf(_SC_PAGESIZE);
}

static void limit(size_t room)
{
    struct rlimit now = before;
    now.rlim_cur = address_space() + room;
    CHECK(0 == setrlimit(RLIMIT_AS, &now), "RLIMIT_AS cannot be set");
}

static void unlimit(void)
{
    CHECK(0 == setrlimit(RLIMIT_AS, &before), "RLIMIT_AS cannot be set back");
}

static MPI_Info hints(const char *text)
{
    MPI_Info info = MPI_INFO_NULL;
    if ('\0' != *text) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpool_hints", text);
    }
    return info;
}

static size_t is(int n)
{
    return tl_differs(piece[n].base, piece[n].size, tl_key(5, tl.rank, 0, 0, (uint64_t) n));
}

/* Until there is no more. Returns how many pieces. */
static int take(size_t size, MPI_Info info)
{
    for (int n = 0; n < MOST; ++n) {
        void *base = NULL;
        const int class = tl_class(MPI_Alloc_mem((MPI_Aint) size, info, &base));
        if (MPI_SUCCESS != class) {
            CHECK(MPI_ERR_NO_MEM == class, "expected MPI_ERR_NO_MEM (%d), got %d", MPI_ERR_NO_MEM,
                  class);
            return n;
        }
        piece[n] = (piece_t){base, size};
        tl_fill(base, size, tl_key(5, tl.rank, 0, 0, (uint64_t) n));
    }
    tl_failed(__FILE__, __LINE__, "no end of memory after %d pieces of %zu bytes", MOST, size);
    return MOST;
}

static void give_all(int n)
{
    for (int i = 0; i < n; ++i) {
        CHECK(is(i) >= piece[i].size, "piece %d of %d was changed", i, n);
        MPI_Free_mem(piece[i].base);
    }
}

static void until_it_is_out(const char *text, size_t size, size_t room)
{
    tl_step("pieces of %zu bytes with '%s'", size, text);
    MPI_Info info = hints(text);
    void *base = NULL;
    limit(room);
    CHECK_CLASS(MPI_Alloc_mem((MPI_Aint) (2 * room), info, &base), MPI_ERR_NO_MEM);
    const int n = take(size, info);
    CHECK(n > 0, "nothing was to be had");
    give_all(n);
    const int again = take(size, info);
    CHECK(2 * again >= n, "%d pieces, and after all were freed %d", n, again);
    give_all(again);
    unlimit();
    CHECK_CLASS(MPI_Alloc_mem((MPI_Aint) (2 * room), info, &base), MPI_SUCCESS);
    MPI_Free_mem(base);
    if (MPI_INFO_NULL != info) {
        MPI_Info_free(&info);
    }
}

/* The pool has room and nobody else has much: Open MPI notes each piece, in memory for 128 of them at a time. One that is not
 * noted must not be given, since MPI_Free_mem would take it for malloc's. */
static void unnoted(void)
{
    enum { LEAST = 8192, SIZE = 256, FIRST = 110 };
    struct taken {
        struct taken *next;
    } *all = NULL, *t;
    void *first[FIRST];
    tl_step("the pool has room, the heap has hardly any");
    MPI_Info info = hints("mpool=freq");
    for (int i = 0; i < FIRST; ++i) {
        CHECK_CLASS(MPI_Alloc_mem(SIZE, info, &first[i]), MPI_SUCCESS);
    }
    limit(0);
    for (size_t size = 1 << 20; size >= LEAST; size /= 2) {
        while (NULL != (t = malloc(size))) {
            t->next = all;
            all = t;
        }
    }
    const int n = take(SIZE, info);
    while (NULL != (t = all)) {
        all = t->next;
        free(t);
    }
    give_all(n);
    unlimit();
    for (int i = 0; i < FIRST; ++i) {
        MPI_Free_mem(first[i]);
    }
    MPI_Info_free(&info);
}

/* Each rank sends to its neighbour, which wants nothing until it has no memory to keep it with. */
static void messages(int count)
{
    enum { SIZE = 3000 };
    tl_step("messages without memory");
    const int next = (tl.rank + 1) % tl.size, prev = (tl.rank + tl.size - 1) % tl.size;
    MPI_Request *request = malloc((size_t) count * sizeof(*request));
    char *out = tl_buf((size_t) count * SIZE), *in = tl_buf(SIZE);
    for (int n = 0; n < count; ++n) {
        tl_fill(out + (size_t) n * SIZE, SIZE, tl_key(6, tl.rank, 0, 0, (uint64_t) n));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    limit((size_t) tl_option("--spare", 16384) << 10);
    for (int n = 0; n < count; ++n) {
        const int rc = MPI_Isend(out + (size_t) n * SIZE, SIZE, MPI_BYTE, next, 1, MPI_COMM_WORLD,
                                 &request[n]);
        if (MPI_SUCCESS != rc) { /* not for the caller to mend: the job ends, with a word */
            printf("MPI_Isend said that it is out of memory: class %d\n", tl_class(rc));
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    }
    for (int i = 0; i < 20000; ++i) {
        int flag;
        MPI_Iprobe(prev, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    for (int n = 0; n < count; ++n) {
        MPI_Recv(in, SIZE, MPI_BYTE, prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        VERIFY(in, SIZE, tl_key(6, prev, 0, 0, (uint64_t) n));
    }
    MPI_Waitall(count, request, MPI_STATUSES_IGNORE);
    unlimit();
    free(request);
    FREE(out);
    FREE(in);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "nomem", 120);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const size_t room = (size_t) tl_option("--room", 96) << 20;
    const int count = (int) tl_option("--messages", 500);
    getrlimit(RLIMIT_AS, &before);
    MPI_Barrier(MPI_COMM_WORLD);
    if (tl_pvar("mpool_freq_segments") >= 0) {
        unnoted(); /* first: notes are kept for the next */
    }
    until_it_is_out("", 4 << 20, room);
    if (tl_pvar("mpool_freq_segments") >= 0) {
        until_it_is_out("mpool=freq", 4 << 20, room);
        until_it_is_out("mpool=freq", 5000, room);
        until_it_is_out("must_be_aligned=64K", 100000, room);
    }
    if (count > 0 && tl.size > 1) {
        messages(count);
    }
    return tl_finish();
}
