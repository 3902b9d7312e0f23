/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The job that hostile.pl attacks. It does what the standard input of rank 0 says, a line each, and every rank or rank 0
 * answers with lines:
 *
 *   small SECONDS   messages of 8 bytes between neighbours, windows of them, all verified
 *   large SECONDS   the same with 64 KiB
 *                       traffic messages=N seconds=S errors=N
 *   counts          what btl/ibx has counted so far, when everything that was on its way has come
 *                       counts rank=N late=0|1 NAME=N...
 *   still SECONDS   nobody sends; odd ranks do not even call MPI: what is counted meanwhile
 *                       still rank=N late=0|1 NAME=N...
 *   (the end)       it ends
 *
 * late=1: this rank did not read in time, others may have gone on; to be asked again. */
#include <time.h>
#include "testlib.h"

enum {
    SMALL = 8,
    SMALL_WINDOW = 64,
    LARGE = 65536,
    LARGE_WINDOW = 8,
    NAME = 64,
    TAG = 5,
    TAG_GO = 6,
    TAG_NEVER = 7
};
static const double settle = 0.3; /* seconds: acknowledgements are late by far less */

static const char *const name[] = {
    "packets_in",      "packets_out",        "segments_resent", "peers_down",      "refused_length",
    "refused_version", "refused_connection", "refused_tag",     "refused_unknown", "refused_stale",
    "refused_twice",   "refused_far",        "refused_ack",     "refused_header",  "refused_access",
    "refused_memory",  "refused_down",       "port_errors",     "unsent"};
enum { NAMES = TL_N(name) };

typedef struct command {
    char what[8];
    double seconds;
    double at; /* of the clock that all processes of a host share */
} command_t;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void read_counters(long long *value)
{
    for (int i = 0; i < NAMES; ++i) {
        char full[NAME];
        snprintf(full, sizeof(full), "btl_ibx_%s", name[i]);
        value[i] = tl_pvar(full);
        CHECK(value[i] >= 0, "there is no performance variable %s", full);
    }
}

/* Until then, without a message. */
static void wait_until(double time, bool call)
{
    int flag;
    while (now() < time) {
        if (call) {
            MPI_Iprobe(MPI_ANY_SOURCE, TAG_NEVER, tl.ctl, &flag, MPI_STATUS_IGNORE);
        } else {
            usleep(1000);
        }
    }
}

static void print_counters(const char *what, bool late, const long long *value)
{
    char line[1024];
    int n = snprintf(line, sizeof(line), "%s rank=%d late=%d", what, tl.rank, late);
    for (int i = 0; i < NAMES; ++i) {
        n += snprintf(line + n, sizeof(line) - (size_t) n, " %s=%lld", name[i], value[i]);
    }
    puts(line);
    fflush(stdout);
}

static void counts(const command_t *c)
{
    long long value[NAMES];
    wait_until(c->at + settle, true);
    read_counters(value);
    const bool late = now() > c->at + 1.5 * settle;
    wait_until(c->at + 2 * settle, true);
    print_counters("counts", late, value);
}

static void be_still(const command_t *c)
{
    long long before[NAMES], after[NAMES];
    wait_until(c->at + settle, true);
    bool late = now() > c->at + 1.5 * settle;
    read_counters(before);
    wait_until(c->at + settle + c->seconds, 0 == tl.rank % 2);
    read_counters(after);
    late |= now() > c->at + 1.5 * settle + c->seconds;
    wait_until(c->at + 2 * settle + c->seconds, true);
    for (int i = 0; i < NAMES; ++i) {
        after[i] -= before[i];
    }
    print_counters("still", late, after);
}

static uint64_t key_of(int from, uint64_t round, int i)
{
    return tl_key(round, from, i, TAG, 0);
}

/* Windows in both directions until the lower rank says that it is enough. */
static void traffic(const command_t *c, size_t size, int window)
{
    static unsigned char out[LARGE_WINDOW * LARGE], in[LARGE_WINDOW * LARGE];
    MPI_Request request[2 * SMALL_WINDOW];
    const int peer = tl.rank ^ 1, before = tl.errors;
    double start = now();
    uint64_t round = 0;
    long long messages = 0, all = 0;
    int go_on = peer < tl.size, errors;
    while (go_on) {
        const int whole =
            (int) (round % (uint64_t) window); /* verifying all would take longer than sending */
        for (int i = 0; i < window; ++i) {
            const uint64_t key = key_of(tl.rank, round, i);
            tl_fill(out + (size_t) i * size, size <= SMALL || i == whole ? size : SMALL, key);
            memset(in + (size_t) i * size, TL_POISON, size <= SMALL || i == whole ? size : SMALL);
            MPI_Irecv(in + (size_t) i * size, (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD,
                      &request[2 * i]);
            MPI_Isend(out + (size_t) i * size, (int) size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD,
                      &request[2 * i + 1]);
        }
        MPI_Waitall(2 * window, request, MPI_STATUSES_IGNORE);
        for (int i = 0; i < window; ++i) {
            VERIFY(in + (size_t) i * size, size <= SMALL || i == whole ? size : SMALL,
                   key_of(peer, round, i));
        }
        messages += window;
        ++round;
        if (tl.rank < peer) {
            go_on = now() < start + c->seconds;
            MPI_Send(&go_on, 1, MPI_INT, peer, TAG_GO, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&go_on, 1, MPI_INT, peer, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    double seconds = now() - start;
    errors = tl.errors - before;
    MPI_Reduce(0 == tl.rank ? MPI_IN_PLACE : &errors, &errors, 1, MPI_INT, MPI_SUM, 0, tl.ctl);
    MPI_Reduce(&messages, &all, 1, MPI_LONG_LONG, MPI_SUM, 0, tl.ctl);
    if (0 == tl.rank) {
        printf("traffic messages=%lld seconds=%.3f errors=%d\n", all, seconds, errors);
        fflush(stdout);
    }
}

static void next_command(command_t *c)
{
    char line[128];
    memset(c, 0, sizeof(*c));
    if (0 == tl.rank && NULL != fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "%7s %lf", c->what, &c->seconds) < 1) {
            tl_failed(__FILE__, __LINE__, "cannot understand '%s'", line);
        }
        c->at = now();
    }
    MPI_Bcast(c, sizeof(*c), MPI_BYTE, 0, tl.ctl);
}

int main(int argc, char **argv)
{
    command_t c;
    long long value[NAMES];
    tl_start(&argc, &argv, "hostile", 600);
    read_counters(value); /* from now on */
    for (next_command(&c); '\0' != c.what[0]; next_command(&c)) {
        tl_step("%s", c.what);
        if (0 == strcmp(c.what, "small")) {
            traffic(&c, SMALL, SMALL_WINDOW);
        } else if (0 == strcmp(c.what, "large")) {
            traffic(&c, LARGE, LARGE_WINDOW);
        } else if (0 == strcmp(c.what, "counts")) {
            counts(&c);
        } else if (0 == strcmp(c.what, "still")) {
            be_still(&c);
        }
    }
    return tl_finish();
}
