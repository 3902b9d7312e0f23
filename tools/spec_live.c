/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A live view of a running job: prints, each second, what the process has done since the last line, from the performance
 * variables of pml/spec, btl/ibx and rcache/lazy (MPI_T). Nothing in the program changes: it is preloaded,
 *
 *     mpirun -np 4 -x LD_PRELOAD=.../spec_live.so --mca pml spec ./my_program
 *
 * or linked (put it before the MPI library). It begins with MPI_Init and ends with MPI_Finalize, by the profiling interface
 * of C; a program in Fortran may not call these, and is then not watched.
 *
 * In the environment:
 *     SPEC_LIVE_RANKS     which ranks of MPI_COMM_WORLD print: numbers with commas, or all (default 0)
 *     SPEC_LIVE_SECONDS   seconds between two lines, 0.1 to 3600 (default 1)
 *
 * Threads: one of its own, which calls nothing of MPI but MPI_T. It reads only counters that a thread may read at any time;
 * so messages that went with their data at once are not counted here (pml_spec_sent_eager). */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEAD_EVERY = 20, WIDTH = 9, RANK_WIDTH = 10 /* of "1234 total" */ };

/* The columns. */
static struct column {
    const char *name, *head;
    double unit;   /* how much is 1 */
    bool is_level; /* shown as it is, not what came since the last line */
    MPI_T_pvar_handle handle;
    bool is_here;
    unsigned long long last, first;
} column[] = {
    {.name = "pml_spec_sent_rtr", .head = "advance", .unit = 1},
    {.name = "pml_spec_sent_rts", .head = "announced", .unit = 1},
    {.name = "pml_spec_rts_unexpected", .head = "late", .unit = 1},
    {.name = "pml_spec_bytes_put", .head = "put MB", .unit = 1e6},
    {.name = "pml_spec_bytes_get", .head = "got MB", .unit = 1e6},
    {.name = "pml_spec_bytes_copied", .head = "copied MB", .unit = 1e6},
    {.name = "pml_spec_queued", .head = "queued", .unit = 1},
    {.name = "btl_ibx_segments_resent", .head = "resent", .unit = 1},
    {.name = "rcache_lazy_bytes", .head = "kept MB", .unit = 1e6, .is_level = true},
};
enum { COLUMNS = sizeof(column) / sizeof(column[0]) };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_t thread;
static bool runs, stops;
static int rank;
static double seconds = 1;
static MPI_T_pvar_session session;

static void tell(const char *what)
{
    fprintf(stderr, "spec_live: %s\n", what);
}

/* ---- settings ---- */

static bool rank_is_wanted(void)
{
    const char *at = getenv("SPEC_LIVE_RANKS");
    if (NULL == at || '\0' == *at) {
        return 0 == rank;
    }
    if (0 == strcmp(at, "all")) {
        return true;
    }
    bool found = false;
    for (char *end;; at = end + 1) {
        const long wanted = strtol(at, &end, 10);
        if (end == at || wanted < 0 || ('\0' != *end && ',' != *end)) {
            if (0 == rank) {
                tell("SPEC_LIVE_RANKS is a list of numbers with commas, or all; nothing is shown");
            }
            return false;
        }
        found |= wanted == rank;
        if ('\0' == *end) {
            return found;
        }
    }
}

static void read_seconds(void)
{
    const char *text = getenv("SPEC_LIVE_SECONDS");
    if (NULL == text || '\0' == *text) {
        return;
    }
    char *end;
    const double value = strtod(text, &end);
    if (end == text || '\0' != *end || !(value >= 0.1 && value <= 3600)) {
        tell("SPEC_LIVE_SECONDS is a number from 0.1 to 3600; 1 is used");
    } else {
        seconds = value;
    }
}

/* ---- counters ---- */

static unsigned long long value_of(const struct column *c)
{
    unsigned long long value = 0;
    return MPI_SUCCESS == MPI_T_pvar_read(session, c->handle, &value) ? value : c->last;
}

/* Opens those of the columns that this job has. False: none. */
static bool open_counters(void)
{
    int n = 0, provided, count;
    bool some = false;
    if (MPI_SUCCESS != MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided)) {
        return false;
    }
    if (MPI_SUCCESS != MPI_T_pvar_session_create(&session)
        || MPI_SUCCESS != MPI_T_pvar_get_num(&n)) {
        MPI_T_finalize();
        return false;
    }
    for (int i = 0; i < n; ++i) {
        char name[256];
        int length = sizeof(name), verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum choices;
        if (MPI_SUCCESS
            != MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, &choices, NULL,
                                   NULL, &bind, &readonly, &continuous, &atomic)) {
            continue;
        }
        for (struct column *c = column; c < column + COLUMNS; ++c) {
            if (0 == strcmp(c->name, name)
                && MPI_SUCCESS == MPI_T_pvar_handle_alloc(session, i, NULL, &c->handle, &count)) {
                c->is_here = some = true;
                c->last = c->first = value_of(c);
            }
        }
    }
    if (!some) {
        MPI_T_pvar_session_free(&session);
        MPI_T_finalize();
    }
    return some;
}

/* ---- lines ---- */

static void head(FILE *out)
{
    fprintf(out, "%*s", RANK_WIDTH, "rank");
    for (const struct column *c = column; c < column + COLUMNS; ++c) {
        fprintf(out, " %*s", WIDTH, c->head);
    }
    fputs("\n", out);
}

/* What came since the last line; at the end, since the first. */
static void line(bool is_total, bool with_head)
{
    char text[512];
    FILE *out = fmemopen(text, sizeof(text), "w");
    if (NULL == out) {
        return;
    }
    if (with_head) {
        head(out);
    }
    char first[32];
    snprintf(first, sizeof(first), "%d%s", rank, !is_total ? "" : rank < 10000 ? " total" : " sum");
    fprintf(out, "%*s", RANK_WIDTH, first);
    for (struct column *c = column; c < column + COLUMNS; ++c) {
        if (!c->is_here) {
            fprintf(out, " %*s", WIDTH, "-");
            continue;
        }
        const unsigned long long now = value_of(c), before = c->is_level ? 0
                                                             : is_total  ? c->first
                                                                         : c->last;
        fprintf(out, " %*.*f", WIDTH, c->unit > 1, (double) (now - before) / c->unit);
        c->last = now;
    }
    fputs("\n", out);
    fclose(out);
    fputs(text, stderr); /* in one piece: other processes write too */
}

static void *watch(void *unused)
{
    struct timespec next;
    (void) unused;
    clock_gettime(CLOCK_MONOTONIC, &next);
    pthread_mutex_lock(&lock);
    for (unsigned n = 0; !stops; ++n) {
        next.tv_sec += (time_t) seconds;
        next.tv_nsec += (long) ((seconds - (double) (time_t) seconds) * 1e9);
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            ++next.tv_sec;
        }
        while (!stops && ETIMEDOUT != pthread_cond_timedwait(&changed, &lock, &next)) {}
        if (!stops) {
            line(false, 0 == n % HEAD_EVERY);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- MPI's calls ---- */

static void begin(void)
{
    pthread_condattr_t attr;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!rank_is_wanted()) {
        return;
    }
    read_seconds();
    if (!open_counters()) {
        tell("no counter of pml/spec, btl/ibx or rcache/lazy is in this job: is it run with --mca "
             "pml spec?");
        return;
    }
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
    runs = 0 == pthread_create(&thread, NULL, watch, NULL);
    if (!runs) {
        tell("no thread can be started (ulimit -u)");
    }
}

/* Before MPI_Finalize: afterwards the counters are gone. */
static void end(void)
{
    if (!runs) {
        return;
    }
    pthread_mutex_lock(&lock);
    stops = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    runs = false;
    line(true, true);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

int MPI_Init(int *argc, char ***argv)
{
    const int rc = PMPI_Init(argc, argv);
    if (MPI_SUCCESS == rc) {
        begin();
    }
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int rc = PMPI_Init_thread(argc, argv, required, provided);
    if (MPI_SUCCESS == rc) {
        begin();
    }
    return rc;
}

int MPI_Finalize(void)
{
    end();
    return PMPI_Finalize();
}
