/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How much of a transfer is hidden behind a computation between the nonblocking call and the wait.
 *
 * Rank 0 sends, rank 1 receives. For each size, both orders of arrival and both sides, three things are timed in turn on
 * the measured side: the transfer alone (call, wait), the computation alone, and both (call, compute, wait). The other
 * side calls and waits at once. The computation is a fixed amount of work, at least 1.5 times as long as the transfer
 * alone, so that the other side can finish the transfer within it, and with --compute-least US,... at least so long, for each of
 * the sizes: so two runs whose transfers take different times are asked the same. Every message is checked.
 *
 * With '--by sleep' the measured side sleeps instead of computing: nothing then competes for its processor, as if there were
 * another for the threads of the library.
 *
 * --kind exact, any-source, any-tag   how the receive names its message
 *        gaps-receive, gaps-send      that side's data is in blocks of 4 KiB with gaps between them
 *        ibcast, iallreduce, ialltoall, iallgather   a collective operation, of so many bytes at each rank in all, on any number
 *                                     of ranks; all are measured, and the slowest rank's times are shown
 *
 * A line per case:  overlap kind= size= order= side= comm_us= compute_us= total_us= call_us= wait_us= overlap= raw= q1= q3=
 *                   threads_us= account= iterations= disturbed= noisy= errors=
 * overlap = (comm + compute - total) / comm of the medians, within 0..1; raw = the same as it is; q1, q3 = quartiles of
 * raw over the iterations; call_us = time in the nonblocking call, and wait_us in the wait, of those with a computation; threads_us = processor time of the process's other threads;
 * account = 1 - (wait + threads) / comm, which other programs do not disturb; iterations = how many the
 * result comes from; disturbed = further ones, in which a process lost its processor to another (used only if there are
 * hardly any others: then noisy=1, and the result means little). */
#include "bench.h"

static const char *const orders[] = {"receiver-first", "sender-first", "both", NULL};
static const char *const sides[] = {"receive", "send", "both", NULL};
static const char *const ways[] = {"compute", "sleep", NULL};
static const char *const kinds[] = {"exact",  "any-source", "any-tag",   "gaps-receive", "gaps-send",
                                    "ibcast", "iallreduce", "ialltoall", "iallgather",   NULL};
enum { EXACT, ANY_SOURCE, ANY_TAG, GAPS_RECEIVE, GAPS_SEND, IBCAST, IALLREDUCE, IALLTOALL, IALLGATHER };
enum { RECEIVER_FIRST, SENDER_FIRST };
enum { SIDE_RECEIVE, SIDE_SEND };
enum { BY_COMPUTING, BY_SLEEPING };
enum { TAG = 7, ATTEMPTS = 2, WARM = 10, WARM_PAIRS = 3, PATIENCE = 2, ROOM = 8, BLOCK = 4096 };
static const double enough = 1.5, shortest_us = 20.0;

struct one_case {
    size_t size;
    int kind, order, side;
    char *buffer;         /* the message, or what a collective operation gives */
    char *out;            /* what it takes */
    MPI_Datatype type;    /* of this side's data, `count` of them */
    int count;
    uint64_t key;     /* of the next message */
    bool early, measured;
    int way;
};

struct times {
    double total, wait;
    double call; /* of the nonblocking call */
    double
        own; /* processor time of this thread less the time of the computation: about that in call and wait */
    double threads; /* processor time of the other threads of this process, which move data */
    bool disturbed; /* this side lost its processor meanwhile */
};

/* What comes between call and wait. */
static void pass_time(const struct one_case *c, uint64_t steps)
{
    if (BY_SLEEPING == c->way && steps > 0) {
        double us = (double) steps / bench.steps_per_us;
        struct timespec t = {.tv_sec = (time_t) (us / 1e6), .tv_nsec = (long) ((us - 1e6 * (long) (us / 1e6)) * 1e3)};
        nanosleep(&t, NULL);
    } else {
        bench_compute(steps);
    }
}

static double cpu_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static double threads_us(void)
{
    return cpu_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_us(CLOCK_THREAD_CPUTIME_ID);
}

static bool is_collective(const struct one_case *c)
{
    return c->kind >= IBCAST;
}

/* ---- data ---- */

/* In how many pieces, each with a key of its own, the bytes are of which this rank has `buffer` or `out`. */
static size_t pieces(const struct one_case *c)
{
    return IALLTOALL == c->kind || IALLGATHER == c->kind        ? (size_t) bench.size
           : GAPS_RECEIVE == c->kind || GAPS_SEND == c->kind ? c->size / BLOCK
                                                                : 1;
}

/* Where the i-th is. */
static char *piece(const struct one_case *c, char *data, size_t i)
{
    const size_t bytes = c->size / pieces(c);
    return data + i * bytes * (MPI_BYTE == c->type ? 1 : 2);
}

static uint64_t key_of(uint64_t key, int from, size_t i)
{
    return key * 4096 + (uint64_t) from * 64 + i;
}

static void fill_sum(const struct one_case *c)
{
    uint64_t *words = (uint64_t *) (void *) c->out;
    for (size_t i = 0; i < c->size / 8; ++i) {
        words[i] = c->key + i + (uint64_t) bench.rank;
    }
}

static void verify_sum(const struct one_case *c)
{
    const uint64_t *words = (const uint64_t *) (const void *) c->buffer, n = (uint64_t) bench.size;
    for (size_t i = 0; i < c->size / 8; ++i) {
        bench.errors += words[i] != n * (c->key + i) + n * (n - 1) / 2;
    }
}

/* What this rank gives. */
static void fill(const struct one_case *c)
{
    const size_t n = pieces(c), bytes = c->size / n;
    if (IALLREDUCE == c->kind) {
        fill_sum(c);
    } else if (IALLGATHER == c->kind) {
        bench_fill(c->out, bytes, key_of(c->key, bench.rank, 0));
    } else if (IALLTOALL == c->kind || 0 == bench.rank) {
        char *data = IALLTOALL == c->kind ? c->out : c->buffer;
        for (size_t i = 0; i < n; ++i) {
            bench_fill(piece(c, data, i), bytes, key_of(c->key, bench.rank, i));
        }
    }
    if (0 != bench.rank || c->kind > IBCAST) {
        bench_clear(c->buffer, c->size * (MPI_BYTE == c->type ? 1 : 2));
    }
}

/* What it gets. */
static void verify(const struct one_case *c)
{
    const size_t n = pieces(c), bytes = c->size / n;
    if (IALLREDUCE == c->kind) {
        verify_sum(c);
    } else if (IALLTOALL == c->kind || IALLGATHER == c->kind) {
        for (size_t i = 0; i < n; ++i) {
            bench_verify(piece(c, c->buffer, i), bytes,
                         key_of(c->key, (int) i, IALLTOALL == c->kind ? (size_t) bench.rank : 0));
        }
    } else if (0 != bench.rank) {
        for (size_t i = 0; i < n; ++i) {
            bench_verify(piece(c, c->buffer, i), bytes, key_of(c->key, 0, i));
        }
    }
}

static void begin_collective(const struct one_case *c, MPI_Request *request)
{
    const int n = (int) c->size, part = n / bench.size;
    if (IBCAST == c->kind) {
        MPI_Ibcast(c->buffer, n, MPI_BYTE, 0, bench.comm, request);
    } else if (IALLREDUCE == c->kind) {
        MPI_Iallreduce(c->out, c->buffer, n / 8, MPI_UINT64_T, MPI_SUM, bench.comm, request);
    } else if (IALLTOALL == c->kind) {
        MPI_Ialltoall(c->out, part, MPI_BYTE, c->buffer, part, MPI_BYTE, bench.comm, request);
    } else {
        MPI_Iallgather(c->out, part, MPI_BYTE, c->buffer, part, MPI_BYTE, bench.comm, request);
    }
}

static void begin(const struct one_case *c, MPI_Request *request)
{
    if (is_collective(c)) {
        begin_collective(c, request);
    } else if (0 == bench.rank) {
        MPI_Isend(c->buffer, c->count, c->type, 1, TAG, bench.comm, request);
    } else {
        MPI_Irecv(c->buffer, c->count, c->type, ANY_SOURCE == c->kind ? MPI_ANY_SOURCE : 0,
                  ANY_TAG == c->kind ? MPI_ANY_TAG : TAG, bench.comm, request);
    }
}

/* Buffers and types of this rank for the kind and the size. */
static void case_open(struct one_case *c)
{
    const bool gaps = c->kind == (0 == bench.rank ? GAPS_SEND : GAPS_RECEIVE);
    if ((GAPS_RECEIVE == c->kind || GAPS_SEND == c->kind) && 0 != c->size % BLOCK) {
        bench_usage("with gaps sizes are multiples of %d", BLOCK);
    }
    if (is_collective(c)) {
        c->size = c->size / ((size_t) bench.size * 8) * (size_t) bench.size * 8;
    }
    c->type = MPI_BYTE;
    c->count = (int) c->size;
    if (gaps) {
        c->count = 1;
        MPI_Type_vector((int) (c->size / BLOCK), BLOCK, 2 * BLOCK, MPI_BYTE, &c->type);
        MPI_Type_commit(&c->type);
    }
    c->buffer = bench_message(gaps ? 2 * c->size : c->size);
    c->out = is_collective(c) ? bench_message(c->size) : NULL;
}

static void case_close(struct one_case *c)
{
    bench_message_free(c->buffer);
    if (NULL != c->out) {
        bench_message_free(c->out);
    }
    if (MPI_BYTE != c->type) {
        MPI_Type_free(&c->type);
    }
}

/* One message, with the computation on the measured side. What is timed are the two calls and the computation: neither system calls,
 * which the clocks of processor time are, nor the token to the other side. */
static struct times transfer(struct one_case *c, uint64_t steps)
{
    struct times t;
    MPI_Request request;
    fill(c);
    long preemptions = bench_preemptions(); /* one in the barrier makes the other side wait, too */
    MPI_Barrier(bench.ctl);
    if (!c->early && !is_collective(c)) {
        bench_await();
    }
    double threads = threads_us(), own = cpu_us(CLOCK_THREAD_CPUTIME_ID), start = bench_now();
    begin(c, &request);
    t.call = bench_now() - start;
    if (c->early && !is_collective(c)) {
        bench_tell();
    }
    double called = bench_now();
    if (c->measured) {
        pass_time(c, steps);
    }
    double computed = bench_now();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double end = bench_now();
    t.own =
        cpu_us(CLOCK_THREAD_CPUTIME_ID) - own - (BY_COMPUTING == c->way ? computed - called : 0);
    t.wait = end - computed;
    t.total = t.call + (computed - called) + t.wait;
    t.threads = threads_us() - threads;
    /* While the other side computes, the one that waits may give its processor to a thread of that one: this is no disturbance. */
    t.disturbed = (c->measured || 0 == steps) && bench_preemptions() != preemptions;
    verify(c);
    ++c->key;
    return t;
}

/* The computation alone, while the other side polls in the next barrier. */
static struct times computation(struct one_case *c, uint64_t steps)
{
    struct times t = {.disturbed = false};
    MPI_Barrier(bench.ctl);
    if (c->measured) {
        long preemptions = bench_preemptions();
        double start = bench_now();
        pass_time(c, steps);
        t.total = bench_now() - start;
        t.disturbed = bench_preemptions() != preemptions;
    }
    return t;
}

/* What is timed in turn. */
enum { COMM, COMPUTE, TOTAL, KINDS };

/* Results of one kind: the undisturbed ones from the front, the others from the back. */
struct series {
    struct times *times;
    size_t room, clean, disturbed;
};

static void series_add(struct series *s, struct times t, bool disturbed)
{
    if (disturbed) {
        s->times[s->room - ++s->disturbed] = t;
    } else {
        s->times[s->clean++] = t;
    }
}

/* The values to use: undisturbed ones, if there are enough, else all. Returns how many. */
static size_t series_values(const struct series *s, double *total, double *call, double *own, double *wait, double *threads)
{
    size_t n = 0;
    for (size_t i = 0; i < s->room; ++i) {
        bool used = s->clean >= BENCH_FEWEST ? i < s->clean : i < s->clean || i >= s->room - s->disturbed;
        if (used) {
            total[n] = s->times[i].total;
            call[n] = s->times[i].call;
            own[n] = s->times[i].own;
            threads[n] = s->times[i].threads;
            wait[n++] = s->times[i].wait;
        }
    }
    return n;
}

/* Both sides tell whether they were disturbed; the measured side says whether it wants more. */
struct verdict {
    int disturbed[KINDS], more;
};

static void agree(struct verdict *v)
{
    MPI_Allreduce(MPI_IN_PLACE, v, KINDS + 1, MPI_INT, MPI_MAX, bench.ctl);
}

/* One pass over all kinds until there are enough undisturbed iterations, or for too long. */
static void measure(struct one_case *c, struct series *series, uint64_t steps, size_t wanted, double us)
{
    double start = bench_now();
    bool more = true;
    for (size_t n = 1; more; ++n) {
        struct times t[KINDS];
        t[COMM] = transfer(c, 0);
        t[COMPUTE] = computation(c, steps);
        t[TOTAL] = transfer(c, steps);
        struct verdict v = {.more = 0};
        for (int k = 0; k < KINDS; ++k) {
            v.disturbed[k] = t[k].disturbed;
        }
        double spent = bench_now() - start;
        size_t clean = series[0].clean;
        for (int k = 1; k < KINDS; ++k) {
            clean = series[k].clean < clean ? series[k].clean : clean;
        }
        if (c->measured && n < series[0].room) {
            v.more = clean + 1 < wanted && (spent < us || (clean < BENCH_FEWEST && spent < PATIENCE * us));
        }
        agree(&v);
        for (int k = 0; k < KINDS; ++k) {
            series_add(&series[k], t[k], v.disturbed[k]);
        }
        more = v.more;
    }
}

/* least: microseconds of computation at least */
static void run_case(struct one_case *c, int iterations, double factor, double least, double seconds)
{
    int measured_rank = SIDE_SEND == c->side ? 0 : 1;
    c->measured = is_collective(c) || bench.rank == measured_rank;
    c->early = (SENDER_FIRST == c->order) == (0 == bench.rank);
    size_t room = (size_t) iterations * ROOM, n[KINDS];
    double warm[WARM], middle[KINDS], call_us = 0, own_us = 0, wait_us = 0, spent_us = 0;
    double *raw = calloc(room, sizeof(double)), *call = calloc(room, sizeof(double)), *own = calloc(room, sizeof(double)),
           *wait = calloc(room, sizeof(double)), *threads = calloc(room, sizeof(double));
    struct series series[KINDS];
    for (int k = 0; k < KINDS; ++k) {
        series[k] = (struct series){.times = calloc(room, sizeof(struct times)), .room = room};
    }

    for (int i = 0; i < WARM; ++i) {
        warm[i] = transfer(c, 0).total;
    }
    double expected = stat_quantile(warm, WARM, 0.1); /* the others may have been disturbed */
    struct verdict again = {.more = 0};
    int attempt = 0;
    do {
        const double us = factor * (expected > shortest_us ? expected : shortest_us);
        uint64_t steps = bench_steps(us > least ? us : least);
        for (int i = 0; i < WARM_PAIRS; ++i) {
            transfer(c, steps);
        }
        for (int k = 0; k < KINDS; ++k) {
            series[k].clean = series[k].disturbed = 0;
        }
        measure(c, series, steps, (size_t) iterations, seconds * 1e6);
        for (int k = 0; k < KINDS; ++k) {
            n[k] = series_values(&series[k], raw, call, own, wait, threads);
            middle[k] = stat_median(raw, n[k]);
            call_us = stat_median(call, n[k]);
            own_us = stat_median(own, n[k]);
            wait_us = stat_median(wait, n[k]);
            spent_us = stat_median(threads, n[k]);
        }
        /* The machine was faster or slower meanwhile. */
        expected = middle[COMM];
        again.more = c->measured && ++attempt < ATTEMPTS && middle[COMPUTE] < enough * expected && factor >= enough;
        agree(&again);
    } while (again.more);

    bool noisy = false;
    for (int k = 0; k < KINDS; ++k) {
        noisy = noisy || (series[k].clean < BENCH_FEWEST && series[k].disturbed > 0);
    }
    if (is_collective(c)) { /* all wait for the slowest */
        MPI_Allreduce(MPI_IN_PLACE, middle, KINDS, MPI_DOUBLE, MPI_MAX, bench.ctl);
    }
    double ratio = overlap_ratio(middle[COMM], middle[COMPUTE], middle[TOTAL]);
    for (size_t i = 0; i < n[TOTAL]; ++i) {
        raw[i] = overlap_ratio(middle[COMM], middle[COMPUTE], raw[i]);
    }
    double result[] = {middle[COMM], middle[COMPUTE], middle[TOTAL], wait_us, ratio,
                       stat_quantile(raw, n[TOTAL], 0.25), stat_quantile(raw, n[TOTAL], 0.75), spent_us,
                       call_us, own_us};
    bench_to_rank0(measured_rank, result, 10);
    long errors = bench_errors();
    if (0 == bench.rank) {
        printf("overlap kind=%s size=%zu order=%s side=%s comm_us=%.2f compute_us=%.2f total_us=%.2f call_us=%.2f wait_us=%.2f own_us=%.2f "
               "overlap=%.3f raw=%.3f q1=%.3f q3=%.3f threads_us=%.2f account=%.3f iterations=%zu disturbed=%zu noisy=%d "
               "errors=%ld\n",
               kinds[c->kind], c->size, orders[c->order], sides[c->side], result[0], result[1], result[2], result[8], result[3],
               result[9], overlap_shown(result[4]), result[4], result[5], result[6], result[7], 1.0 - (result[3] + result[7]) / result[0], n[TOTAL],
               series[TOTAL].disturbed, noisy, errors);
        fflush(stdout);
    }
    for (int k = 0; k < KINDS; ++k) {
        free(series[k].times);
    }
    free(threads);
    free(wait);
    free(own);
    free(call);
    free(raw);
}

/* The k-th number of a list; 0: there is none. */
static double number_of(const char *list, int k)
{
    for (; NULL != list && k > 0; --k) {
        list = strchr(list, ',');
        list = NULL == list ? NULL : list + 1;
    }
    return NULL == list ? 0.0 : strtod(list, NULL);
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv, 2, false);
    int kind = bench_choice("--kind", EXACT, kinds);
    if (kind < IBCAST && 2 != bench.size) {
        bench_usage("needs 2 processes");
    }
    size_t sizes[BENCH_SIZES];
    int n = bench_sizes("--sizes", "64K,128K,256K,512K,1M,2M,4M", sizes);
    int order = bench_choice("--order", 2, orders), side = bench_choice("--side", 2, sides);
    int iterations = (int) bench_number("--iterations", 50, 1);
    double seconds = (double) bench_number("--milliseconds", 1000, 1) / 1000.0; /* of a case, on a busy machine */
    double factor = (double) bench_number("--compute-percent", 200, 1) / 100.0;
    const char *least = bench_option("--compute-least", NULL);
    int way = bench_choice("--by", BY_COMPUTING, ways);
    bench_options_end();

    struct one_case c = {.kind = kind, .key = 1, .way = way};
    if (is_collective(&c)) {
        side = SIDE_RECEIVE; /* no sides and no order: one case */
        order = RECEIVER_FIRST;
    }
    for (int i = 0; i < n; ++i) {
        c.size = sizes[i];
        case_open(&c);
        for (c.side = SIDE_RECEIVE; c.side <= SIDE_SEND; ++c.side) {
            for (c.order = RECEIVER_FIRST; c.order <= SENDER_FIRST; ++c.order) {
                if ((2 == side || c.side == side) && (2 == order || c.order == order)) {
                    run_case(&c, iterations, factor, number_of(least, i), seconds);
                }
            }
        }
        case_close(&c);
    }
    return bench_finish();
}
