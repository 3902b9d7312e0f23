/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends and receives that are made from inside progress, with so many under way that every limit is met: one-sided operations (a
 * component on top of the PML answers from its receive callbacks: --mca osc pt2pt), nonblocking collectives, which go on with their next
 * step when one is done, and nonblocking collective MPI-IO; alone, and all beside messages of the program's own.
 *
 *   --gets N       gets and accumulates of an epoch (60)
 *   --words N      of each, ints (10000)
 *   --rounds N     (3)
 *   --sided 0      no one-sided operations (1) */
#include "testlib.h"

enum { COMMS = 4, EACH = 6, FILES = 3, TAG = 9, MESSAGES = 300, MESSAGE = 3000 };
enum { BCAST, ALLREDUCE, ALLTOALL, ALLGATHER, REDUCE_SCATTER, BARRIER, KINDS };
enum { OPERATIONS = COMMS * EACH };

static long long gets, words, rounds;
static int next, prev;

/* ---- one-sided ---- */

typedef struct {
    MPI_Win window;
    int *memory, *local;
    bool present;
} sided_t;

static void sided_open(sided_t *s)
{
    tl_step("a window");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    s->present = tl_option("--sided", 1) > 0
                 && MPI_SUCCESS
                        == MPI_Win_allocate((MPI_Aint) words * (MPI_Aint) sizeof(int), sizeof(int),
                                            MPI_INFO_NULL, MPI_COMM_WORLD, &s->memory, &s->window);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (!s->present && tl_option("--sided", 1) > 0) {
        tl_skip("Open MPI has no one-sided component for these transports");
    }
    s->local = s->present ? tl_buf((size_t) (gets * words) * sizeof(int)) : NULL;
}

static int word_of(int rank, long long i)
{
    return rank * 1000003 + (int) i;
}

/* Between two fences; `during` is what else goes on. */
static void get_all(sided_t *s, void (*during)(void))
{
    for (long long i = 0; i < words; ++i) {
        s->memory[i] = word_of(tl.rank, i);
    }
    MPI_Win_fence(0, s->window);
    for (long long k = 0; k < gets; ++k) {
        MPI_Get(s->local + k * words, (int) words, MPI_INT, next, 0, (int) words, MPI_INT,
                s->window);
    }
    during();
    MPI_Win_fence(0, s->window);
    for (long long i = 0; i < gets * words; ++i) {
        if (!CHECK(s->local[i] == word_of(next, i % words), "get %lld, word %lld: %d", i / words,
                   i % words, s->local[i])) {
            break;
        }
    }
}

static void accumulate_all(sided_t *s, void (*during)(void))
{
    for (long long i = 0; i < words; ++i) {
        s->memory[i] = (int) i;
    }
    for (long long i = 0; i < gets * words; ++i) {
        s->local[i] = 1 + (int) (i / words % 3);
    }
    MPI_Win_fence(0, s->window);
    int sum = 0;
    for (long long k = 0; k < gets; ++k) {
        MPI_Accumulate(s->local + k * words, (int) words, MPI_INT, next, 0, (int) words, MPI_INT,
                       MPI_SUM, s->window);
        sum += 1 + (int) (k % 3);
    }
    during();
    MPI_Win_fence(0, s->window);
    for (long long i = 0; i < words; ++i) {
        if (!CHECK(s->memory[i] == (int) i + sum, "accumulate, word %lld: expected %d, got %d", i,
                   (int) i + sum, s->memory[i])) {
            break;
        }
    }
}

/* Everybody counts at everybody, each operation with an answer. */
static void fetch_all(sided_t *s)
{
    long long old_sum = 0, total = 0;
    const int one = 1;
    int old[64];
    s->memory[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, s->window);
    for (long long k = 0; k < gets; k += (long long) TL_N(old)) {
        for (size_t i = 0; i < TL_N(old); ++i) {
            MPI_Fetch_and_op(&one, &old[i], MPI_INT, 0, 0, MPI_SUM, s->window);
        }
        MPI_Win_flush(0, s->window);
        for (size_t i = 0; i < TL_N(old); ++i) {
            old_sum += old[i];
        }
        total += (long long) TL_N(old);
    }
    MPI_Win_unlock_all(s->window);
    long long mine[2] = {old_sum, total}, all[2];
    MPI_Allreduce(mine, all, 2, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all[0] == all[1] * (all[1] - 1) / 2,
          "%lld times one was added, and the old values are %lld in all", all[1], all[0]);
}

static void sided_close(sided_t *s)
{
    if (s->present) {
        MPI_Win_free(&s->window);
        FREE(s->local);
    }
}

/* ---- nonblocking collectives ---- */

static MPI_Comm comms[COMMS];
static const int counts[] = {1, 700, 9000, 40000}; /* ints for each process */

typedef struct {
    int *in, *out;
    int kind, count;
    MPI_Request request;
} operation_t;

static operation_t operations[OPERATIONS];

static int value_of(int rank, int number, int i)
{
    return rank * 7919 + number * 101 + i;
}

static void collective_start(operation_t *o, int number, MPI_Comm comm)
{
    const int n = o->count, all = n * tl.size;
    o->in = tl_buf((size_t) all * sizeof(int));
    o->out = tl_buf((size_t) all * sizeof(int));
    for (int i = 0; i < all; ++i) {
        o->in[i] = value_of(tl.rank, number, i);
    }
    switch (o->kind) {
    case BCAST:
        MPI_Ibcast(0 == tl.rank ? o->in : o->out, all, MPI_INT, 0, comm, &o->request);
        break;
    case ALLREDUCE:
        MPI_Iallreduce(o->in, o->out, all, MPI_INT, MPI_SUM, comm, &o->request);
        break;
    case ALLTOALL:
        MPI_Ialltoall(o->in, n, MPI_INT, o->out, n, MPI_INT, comm, &o->request);
        break;
    case ALLGATHER:
        MPI_Iallgather(o->in, n, MPI_INT, o->out, n, MPI_INT, comm, &o->request);
        break;
    case REDUCE_SCATTER:
        MPI_Ireduce_scatter_block(o->in, o->out, n, MPI_INT, MPI_SUM, comm, &o->request);
        break;
    default:
        MPI_Ibarrier(comm, &o->request);
    }
}

/* What must stand at place i of the result. */
static int result_of(const operation_t *o, int number, int i)
{
    const int n = o->count;
    int sum = 0;
    switch (o->kind) {
    case BCAST:
        return value_of(0, number, i);
    case ALLTOALL:
        return value_of(i / n, number, tl.rank * n + i % n);
    case ALLGATHER:
        return value_of(i / n, number, i % n);
    case REDUCE_SCATTER:
        i += tl.rank * n;
        break;
    default:
        break;
    }
    for (int r = 0; r < tl.size; ++r) {
        sum += value_of(r, number, i);
    }
    return sum;
}

static void collective_check(operation_t *o, int number)
{
    static const char *const names[] = {"bcast",     "allreduce",      "alltoall",
                                        "allgather", "reduce_scatter", "barrier"};
    const bool has_result = BARRIER != o->kind && !(BCAST == o->kind && 0 == tl.rank);
    const int n = REDUCE_SCATTER == o->kind ? o->count : o->count * tl.size;
    for (int i = 0; has_result && i < n; ++i) {
        if (!CHECK(o->out[i] == result_of(o, number, i),
                   "operation %d, %s of %d: %d at %d, expected %d", number, names[o->kind],
                   o->count, o->out[i], i, result_of(o, number, i))) {
            break;
        }
    }
    FREE(o->in);
    FREE(o->out);
}

static void collectives_start(void)
{
    for (int i = 0; i < OPERATIONS; ++i) {
        operations[i].kind = (i / COMMS + i) % KINDS;
        operations[i].count = counts[(i * 5 + i / COMMS) % (int) TL_N(counts)];
        collective_start(&operations[i], i, comms[i % COMMS]);
    }
}

static void collectives_end(void)
{
    MPI_Request request[OPERATIONS];
    for (int i = 0; i < OPERATIONS; ++i) {
        request[i] = operations[i].request;
    }
    MPI_Waitall(OPERATIONS, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < OPERATIONS; ++i) {
        collective_check(&operations[i], i);
    }
}

static void collectives_all(void)
{
    collectives_start();
    collectives_end();
}

/* ---- files ---- */

enum { BLOCK = 5000, BLOCKS = 40, BYTES = BLOCK * BLOCKS };

typedef struct {
    MPI_File file;
    char *out, *in;
    bool open;
} file_t;

static file_t files[FILES];
static char file_name[64];

static void files_open(void)
{
    MPI_Datatype view;
    tl_step("files");
    if (0 == tl.rank) {
        snprintf(file_name, sizeof(file_name), "/tmp/spec-nested-%d", (int) getpid());
    }
    MPI_Bcast(file_name, sizeof(file_name), MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Type_vector(BLOCKS, BLOCK, BLOCK * tl.size, MPI_BYTE, &view);
    MPI_Type_commit(&view);
    for (int i = 0; i < FILES; ++i) {
        char name[80];
        snprintf(name, sizeof(name), "%s.%d", file_name, i);
        files[i].open =
            CHECK(MPI_SUCCESS
                      == MPI_File_open(comms[i], name,
                                       MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                                       MPI_INFO_NULL, &files[i].file),
                  "cannot open %s", name);
        if (files[i].open) {
            MPI_File_set_view(files[i].file, (MPI_Offset) tl.rank * BLOCK, MPI_BYTE, view, "native",
                              MPI_INFO_NULL);
        }
        files[i].out = tl_buf(BYTES);
        files[i].in = tl_buf(BYTES);
    }
    MPI_Type_free(&view);
}

/* Interleaved blocks of all, which two-phase I/O exchanges; all files at once. */
static void files_all(void)
{
    MPI_Request request[FILES];
    for (int reads = 0; reads < 2; ++reads) {
        for (int i = 0; i < FILES; ++i) {
            request[i] = MPI_REQUEST_NULL;
            if (!files[i].open) {
                continue;
            }
            if (reads) {
                tl_poison(files[i].in, BYTES);
                MPI_File_iread_at_all(files[i].file, 0, files[i].in, BYTES, MPI_BYTE, &request[i]);
            } else {
                tl_fill(files[i].out, BYTES, tl_key(31, tl.rank, i, 0, 0));
                MPI_File_iwrite_at_all(files[i].file, 0, files[i].out, BYTES, MPI_BYTE,
                                       &request[i]);
            }
        }
        MPI_Waitall(FILES, request, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < FILES; ++i) {
        if (files[i].open) {
            VERIFY(files[i].in, BYTES, tl_key(31, tl.rank, i, 0, 0));
        }
    }
}

static void files_close(void)
{
    for (int i = 0; i < FILES; ++i) {
        if (files[i].open) {
            MPI_File_close(&files[i].file);
        }
        FREE(files[i].out);
        FREE(files[i].in);
    }
}

/* ---- beside each other ---- */

static void nothing(void)
{
}

/* Messages of the program's own, collectives and files, all under way at once. */
static void everything(void)
{
    static char out[MESSAGES][MESSAGE], in[MESSAGES][MESSAGE];
    MPI_Request request[2 * MESSAGES];
    for (int i = 0; i < MESSAGES; ++i) {
        tl_fill(out[i], MESSAGE, tl_key(37, tl.rank, next, TAG, (uint64_t) i));
        MPI_Isend(out[i], MESSAGE, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &request[i]);
    }
    collectives_start();
    files_all();
    for (int i = 0; i < MESSAGES; ++i) {
        MPI_Irecv(in[i], MESSAGE, MPI_BYTE, prev, TAG, MPI_COMM_WORLD, &request[MESSAGES + i]);
    }
    collectives_end();
    MPI_Waitall(2 * MESSAGES, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; ++i) {
        VERIFY(in[i], MESSAGE, tl_key(37, prev, tl.rank, TAG, (uint64_t) i));
    }
}

int main(int argc, char **argv)
{
    sided_t sided;
    tl_start(&argc, &argv, "nested", 120);
    gets = tl_option("--gets", 60);
    words = tl_option("--words", 10000);
    rounds = tl_option("--rounds", 3);
    next = (tl.rank + 1) % tl.size;
    prev = (tl.rank + tl.size - 1) % tl.size;
    for (int i = 0; i < COMMS; ++i) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    files_open();
    sided_open(&sided);
    for (long long round = 0; round < rounds; ++round) {
        tl_step("nonblocking collectives, round %lld", round);
        collectives_all();
        tl_step("files, round %lld", round);
        files_all();
        if (sided.present) {
            tl_step("%lld gets of %lld words, round %lld", gets, words, round);
            get_all(&sided, nothing);
            tl_step("%lld accumulates, round %lld", gets, round);
            accumulate_all(&sided, nothing);
            tl_step("operations with answers, round %lld", round);
            fetch_all(&sided);
            tl_step("gets beside everything, round %lld", round);
            get_all(&sided, everything);
            tl_step("accumulates beside everything, round %lld", round);
            accumulate_all(&sided, everything);
        }
        tl_step("everything, round %lld", round);
        everything();
    }
    tl_step("closing");
    sided_close(&sided);
    files_close();
    for (int i = 0; i < COMMS; ++i) {
        MPI_Comm_free(&comms[i]);
    }
    return tl_finish();
}
