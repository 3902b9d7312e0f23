/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The time of everything that programs do between ranks 0 and 1, many kinds in one run, so that two PMLs can be compared in all
 * of them.
 *
 *   first      the first message to a peer and its answer, 8 bytes, after MPI_Init; once, so take many runs
 *   pingpong   half a round trip of blocking calls
 *   ready      the same, the receive posted before its sender sends: half of MPI_Irecv, send, wait on both sides
 *   sendrecv   MPI_Sendrecv of both at once
 *   isend      both at once: MPI_Isend, MPI_Recv, MPI_Wait
 *   irecv      both at once: MPI_Irecv, MPI_Isend, MPI_Waitall
 *   bandwidth  one message of a window of 16, one way, answered by an empty message
 *   rate       one of a window of 64 small ones
 *   vector     as irecv, of a type that has 512 bytes of each 1024; column: 8 bytes
 *   put        MPI_Put and MPI_Win_fence
 *   lock       MPI_Accumulate of 8 integers to a window that is locked, and MPI_Win_flush
 *   init       nothing: MPI_Init and MPI_Finalize, for whom the driver takes the time
 *
 * --rows LIST    which kinds (all but init); --sizes LIST: of their sizes only these; --ms N: time for each line (60)
 * A line for each:  parity row= size= us= repetitions= noisy= errors=
 * us = median of the repetitions. Data is checked after each line.
 * init prints  parity row=init size=0 kb= errors=0: the most memory that the largest of the processes had, in KiB. */
#include "bench.h"

enum {
    TAG = 3,
    TAG_DONE = 4,
    MOST = 4000,
    WINDOW = 64,
    DEEP = 16,
    BLOCK = 512,
    STRIDE = 1024,
    WARM = 8 /* either end may move a page: in some virtual machines the first time is dear for each */
};

struct run {
    size_t size;
    int count, peer;
    char *out, *in;
    MPI_Datatype type;
    MPI_Win win;
    char *target;
};

/* One repetition: microseconds of what the line is about. */
typedef double (*row_t)(struct run *r);

static double since(double start)
{
    return bench_now() - start;
}

static double pingpong(struct run *r)
{
    const double start = bench_now();
    for (int turn = 0; turn < 2; ++turn) {
        if (turn == bench.rank) {
            MPI_Send(r->out, r->count, r->type, r->peer, TAG, bench.comm);
        } else {
            MPI_Recv(r->in, r->count, r->type, r->peer, TAG, bench.comm, MPI_STATUS_IGNORE);
        }
    }
    return since(start) / 2;
}

static double ready(struct run *r)
{
    MPI_Request request;
    MPI_Irecv(r->in, r->count, r->type, r->peer, TAG, bench.comm, &request);
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    if (0 == bench.rank) {
        MPI_Send(r->out, r->count, r->type, r->peer, TAG, bench.comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(r->out, r->count, r->type, r->peer, TAG, bench.comm);
    }
    return since(start) / 2;
}

static double sendrecv(struct run *r)
{
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    MPI_Sendrecv(r->out, r->count, r->type, r->peer, TAG, r->in, r->count, r->type, r->peer, TAG,
                 bench.comm, MPI_STATUS_IGNORE);
    return since(start);
}

static double isend(struct run *r)
{
    MPI_Request request;
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    MPI_Isend(r->out, r->count, r->type, r->peer, TAG, bench.comm, &request);
    MPI_Recv(r->in, r->count, r->type, r->peer, TAG, bench.comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return since(start);
}

static double irecv(struct run *r)
{
    MPI_Request request[2];
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    MPI_Irecv(r->in, r->count, r->type, r->peer, TAG, bench.comm, &request[0]);
    MPI_Isend(r->out, r->count, r->type, r->peer, TAG, bench.comm, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    return since(start);
}

/* One way, from rank 0; both hold the data of the last message in the end. */
static double stream(struct run *r, int window)
{
    MPI_Request request[WINDOW];
    const double start = bench_now();
    for (int i = 0; i < window; ++i) {
        if (0 == bench.rank) {
            MPI_Isend(r->out, r->count, r->type, r->peer, TAG, bench.comm, &request[i]);
        } else {
            MPI_Irecv(r->in + (size_t) i * r->size, r->count, r->type, r->peer, TAG, bench.comm,
                      &request[i]);
        }
    }
    MPI_Waitall(window, request, MPI_STATUSES_IGNORE);
    if (0 == bench.rank) {
        MPI_Recv(NULL, 0, MPI_BYTE, r->peer, TAG_DONE, bench.comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, r->peer, TAG_DONE, bench.comm);
    }
    return since(start) / window;
}

static double bandwidth(struct run *r)
{
    return stream(r, DEEP);
}

static double rate(struct run *r)
{
    return stream(r, WINDOW);
}

static double put(struct run *r)
{
    MPI_Barrier(bench.ctl);
    const double start = bench_now();
    MPI_Put(r->out, r->count, r->type, r->peer, 0, r->count, r->type, r->win);
    MPI_Win_fence(0, r->win);
    return since(start);
}

static double lock(struct run *r)
{
    const double start = bench_now();
    MPI_Accumulate(r->out, 8, MPI_INT, r->peer, 0, 8, MPI_INT, MPI_REPLACE, r->win);
    MPI_Win_flush(r->peer, r->win);
    return since(start);
}

static const struct kind {
    const char *name;
    row_t row;
    const char *sizes;
    int places;   /* for messages that arrive */
    size_t block; /* of a type with gaps; 0: bytes */
    enum { NO_WINDOW, FENCED, LOCKED } window;
    bool one_way;
} kinds[] = {
    {"pingpong", pingpong, "0,8,256,1K,4K,8K,16K,32K,64K,128K,256K,1M,4M", 1, 0, NO_WINDOW, false},
    {"ready", ready, "16K,64K,256K,1M,4M", 1, 0, NO_WINDOW, false},
    {"sendrecv", sendrecv, "8K,64K,256K,1M,4M", 1, 0, NO_WINDOW, false},
    {"isend", isend, "64K,256K,1M,4M", 1, 0, NO_WINDOW, false},
    {"irecv", irecv, "8K,64K,256K,1M,4M", 1, 0, NO_WINDOW, false},
    {"bandwidth", bandwidth, "8K,64K,256K,1M,4M", DEEP, 0, NO_WINDOW, true},
    {"rate", rate, "8,1K,4K", WINDOW, 0, NO_WINDOW, true},
    {"vector", irecv, "4K,64K,1M", STRIDE / BLOCK, BLOCK, NO_WINDOW, false},
    {"column", irecv, "4K,16K,64K", STRIDE / 8, 8, NO_WINDOW, false},
    {"put", put, "8,64K,1M", 1, 0, FENCED, false},
    {"lock", lock, "32", 1, 0, LOCKED, false},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- one line ---- */

static size_t extent(const struct kind *kind, size_t size)
{
    return (size + 8) * (size_t) kind->places;
}

/* A type of blocks with gaps in the place of bytes. */
static void set_type(struct run *r, const struct kind *kind)
{
    r->type = MPI_BYTE;
    r->count = (int) r->size;
    if (kind->block > 0) {
        MPI_Type_vector((int) (r->size / kind->block), (int) kind->block, STRIDE, MPI_BYTE,
                        &r->type);
        MPI_Type_commit(&r->type);
        r->count = 1;
    }
}

static void open_window(struct run *r, const struct kind *kind)
{
    if (NO_WINDOW != kind->window) {
        MPI_Win_allocate((MPI_Aint) (r->size + 8), 1, MPI_INFO_NULL, bench.comm, &r->target,
                         &r->win);
    }
    if (FENCED == kind->window) {
        MPI_Win_fence(0, r->win);
    } else if (LOCKED == kind->window) {
        MPI_Win_lock_all(0, r->win);
    }
}

static void close_window(struct run *r, const struct kind *kind)
{
    if (NO_WINDOW == kind->window) {
        return;
    }
    if (LOCKED == kind->window) {
        MPI_Win_flush_all(r->win);
        MPI_Win_unlock_all(r->win);
    }
    MPI_Barrier(bench.ctl);
    memcpy(r->in, r->target, r->size);
    MPI_Win_free(&r->win);
}

/* The data of the other one, packed. */
static void verify(struct run *r, const struct kind *kind, uint64_t key)
{
    if (kind->one_way && 0 == bench.rank) {
        return;
    }
    if (0 == kind->block) {
        bench_verify(r->in, r->size, key + (uint64_t) r->peer);
        return;
    }
    char *packed = bench_buffer(r->size), *expected = bench_buffer(extent(kind, r->size));
    int at = 0;
    bench_fill(expected, extent(kind, r->size), key + (uint64_t) r->peer);
    MPI_Pack(r->in, 1, r->type, packed, (int) r->size, &at, bench.comm);
    at = 0;
    MPI_Unpack(packed, (int) r->size, &at, r->in, 1, r->type, bench.comm);
    char *other = bench_buffer(r->size);
    at = 0;
    MPI_Pack(expected, 1, r->type, other, (int) r->size, &at, bench.comm);
    bench.errors += 0 != memcmp(packed, other, r->size);
    free(other);
    free(expected);
    free(packed);
}

/* Both ranks go on for the same number of repetitions: rank 0 says when the time is over, seldom. */
static int measure(struct run *r, const struct kind *kind, double ms, double *us, int *disturbed)
{
    for (int i = 0; i < WARM; ++i) {
        (void) kind->row(r);
    }
    const double one = kind->row(r) + 0.1;
    int n = (int) (ms * 1e3 / (one * (kind->one_way ? kind->places : 2)));
    n = n < 8 ? 8 : n > MOST ? MOST : n;
    MPI_Bcast(&n, 1, MPI_INT, 0, bench.ctl);
    for (int i = 0; i < n; ++i) {
        const long preemptions = bench_preemptions();
        us[i] = kind->row(r);
        disturbed[i] = bench_preemptions() != preemptions;
    }
    return n;
}

static void line(const struct kind *kind, size_t size, double ms)
{
    static double us[MOST];
    static int disturbed[MOST];
    static uint64_t key;
    struct run r = {.size = size, .peer = 1 - bench.rank};
    key += 2;
    r.out = bench_buffer(extent(kind, size));
    r.in = bench_buffer(extent(kind, size));
    bench_fill(r.out, 0 == kind->block ? size : extent(kind, size), key + (uint64_t) bench.rank);
    bench_clear(r.in, extent(kind, size));
    set_type(&r, kind);
    open_window(&r, kind);
    MPI_Barrier(bench.ctl);
    const int n = measure(&r, kind, ms, us, disturbed);
    close_window(&r, kind);
    verify(&r, kind, key);
    int noisy;
    const size_t kept = bench_undisturbed(us, disturbed, (size_t) n, &noisy);
    const double median = stat_median(us, kept);
    const long errors = bench_errors();
    if (0 == bench.rank) {
        printf("parity row=%s size=%zu us=%.4f repetitions=%zu noisy=%d errors=%ld\n", kind->name,
               size, median, kept, noisy, errors);
        fflush(stdout);
    }
    if (kind->block > 0) {
        MPI_Type_free(&r.type);
    }
    free(r.in);
    free(r.out);
}

/* ---- the first message ---- */

/* Both begin at once, without a message: at the next quarter of a second, by the host's clock. */
static double first(void)
{
    const double quarter = 0.25e9;
    struct timespec t;
    char token[8] = "first";
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    clock_gettime(CLOCK_REALTIME, &t);
    const long slot = (long) ((double) t.tv_nsec / quarter) + 2;
    const time_t second = t.tv_sec + slot / 4;
    const long ns = slot % 4 * (long) quarter;
    do {
        clock_gettime(CLOCK_REALTIME, &t);
    } while (t.tv_sec < second || (t.tv_sec == second && t.tv_nsec < ns));
    const double start = core_clock_us();
    for (int turn = 0; turn < 2; ++turn) {
        if (turn == rank) {
            MPI_Send(token, sizeof(token), MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD);
        } else {
            MPI_Recv(token, sizeof(token), MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
    return core_clock_us() - start;
}

static bool is_in(const char *name, const char *list)
{
    const size_t n = strlen(name);
    for (const char *at = list; NULL != (at = strstr(at, name)); at += n) {
        if ((at == list || ',' == at[-1]) && ('\0' == at[n] || ',' == at[n])) {
            return true;
        }
    }
    return false;
}

/* What MPI costs a program that does nothing with it. */
static int init_only(int argc, char **argv)
{
    struct rusage usage;
    long kb, most;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    getrusage(RUSAGE_SELF, &usage);
    kb = usage.ru_maxrss;
    MPI_Reduce(&kb, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        printf("parity row=init size=0 kb=%ld errors=0\n", most);
    }
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    const char
        *all = "first,pingpong,ready,sendrecv,isend,irecv,bandwidth,rate,vector,column,put,lock",
        *rows = all;
    for (int i = 1; i + 1 < argc; ++i) {
        rows = 0 == strcmp(argv[i], "--rows") ? argv[i + 1] : rows;
    }
    if (is_in("init", rows)) {
        return init_only(argc, argv);
    }
    double us = -1;
    if (is_in("first", rows)) {
        MPI_Init(&argc, &argv);
        us = first();
    }
    bench_init(&argc, &argv, 2, true);
    rows = bench_option("--rows", all);
    size_t wanted[BENCH_SIZES], list[BENCH_SIZES];
    const char *only = bench_option("--sizes", NULL);
    const int wanted_n = NULL == only ? 0 : bench_sizes("--sizes", only, wanted);
    const double ms = (double) bench_number("--ms", 60, 1);
    bench_options_end();
    if (us >= 0 && 0 == bench.rank) {
        printf("parity row=first size=8 us=%.3f repetitions=1 noisy=0 errors=0\n", us);
    }
    for (int k = 0; k < KINDS; ++k) {
        const int n = is_in(kinds[k].name, rows) ? bench_parse_sizes(kinds[k].sizes, list) : 0;
        for (int i = 0; i < n; ++i) {
            bool is_wanted = NULL == only;
            for (int w = 0; w < wanted_n; ++w) {
                is_wanted |= wanted[w] == list[i];
            }
            if (is_wanted) {
                line(&kinds[k], list[i], ms);
            }
        }
    }
    return bench_finish();
}
