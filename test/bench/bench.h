/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What every benchmark program shares: options, clock, computation, data, order of arrival, end.
 *
 * Words: ctl = a communicator of its own for hand-shakes, so that they meet no queue of the messages measured;
 * step = unit of computation; key = what the content of a message is made from.
 * Contract: results are lines 'NAME key=value ...' of rank 0 on standard output, between two lines 'machine ...' that
 * tell how near the processors of ranks 0 and 1 were to each other; the exit code is 0 only if every rank found its data
 * right. All times are microseconds.
 * Not here: statistics (overlap_math.h), counters of the PML (bench_counters.h), starting programs and comparing
 * (BenchRun.pm, BenchPairs.pm, compare, papers, overlap-table). */
#ifndef BENCH_H
#define BENCH_H

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* RUSAGE_THREAD */
#endif

#include <dlfcn.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench_machine.h"
#include "overlap_math.h"

enum { BENCH_SIZES = 64, BENCH_TOKEN = 1, BENCH_RESULT = 2, BENCH_POLLS = 4, BENCH_FEWEST = 5 };

static struct {
    int rank, size;
    MPI_Comm ctl, comm;
    int argc;
    char **argv;
    bool *used;            /* which words of the command line were taken */
    double steps_per_us;
    long errors;           /* words found wrong on this rank */
    bool same_host;        /* ranks 0 and 1 share memory, and a clock */
} bench;

/* ---- command line ---- */

__attribute__((format(printf, 1, 2), noreturn)) static inline void bench_usage(const char *format, ...)
{
    if (0 == bench.rank) {
        va_list args;
        va_start(args, format);
        fprintf(stderr, "%s: ", bench.argv[0]);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
    }
    MPI_Finalize();
    exit(2);
}

/* Value of '--name VALUE', or what is given here. */
static inline const char *bench_option(const char *name, const char *otherwise)
{
    for (int i = 1; i < bench.argc; ++i) {
        if (0 == strcmp(bench.argv[i], name)) {
            if (i + 1 >= bench.argc) {
                bench_usage("%s needs a value", name);
            }
            bench.used[i] = bench.used[i + 1] = true;
            return bench.argv[i + 1];
        }
    }
    return otherwise;
}

static inline long bench_number(const char *name, long otherwise, long least)
{
    const char *text = bench_option(name, NULL);
    if (NULL == text) {
        return otherwise;
    }
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || '\0' != *end || value < least) {
        bench_usage("%s: '%s' is no number from %ld", name, text, least);
    }
    return value;
}

/* '0,64K,1M' into sizes; returns how many, or -1. */
static inline int bench_parse_sizes(const char *text, size_t *sizes)
{
    int n = 0;
    for (const char *at = text; n < BENCH_SIZES;) {
        char *end;
        unsigned long long value = strtoull(at, &end, 10);
        if (end == at) {
            break;
        }
        if ('K' == *end || 'k' == *end) {
            value <<= 10;
            ++end;
        } else if ('M' == *end || 'm' == *end) {
            value <<= 20;
            ++end;
        }
        if (value > INT32_MAX) {
            break;
        }
        sizes[n++] = value;
        if ('\0' == *end) {
            return n;
        }
        if (',' != *end) {
            break;
        }
        at = end + 1;
    }
    return -1;
}

/* The same of '--name LIST'. */
static inline int bench_sizes(const char *name, const char *otherwise, size_t *sizes)
{
    const char *text = bench_option(name, otherwise);
    const int n = bench_parse_sizes(text, sizes);
    if (n < 0) {
        bench_usage("%s: '%s' is no list of sizes such as 0,64K,1M", name, text);
    }
    return n;
}

/* Number of the word in a list that ends with NULL. */
static inline int bench_choice(const char *name, int otherwise, const char *const *words)
{
    const char *text = bench_option(name, words[otherwise]);
    for (int i = 0; NULL != words[i]; ++i) {
        if (0 == strcmp(text, words[i])) {
            return i;
        }
    }
    bench_usage("%s: '%s' is not known", name, text);
}

static inline void bench_options_end(void)
{
    for (int i = 1; i < bench.argc; ++i) {
        if (!bench.used[i]) {
            bench_usage("'%s' is not known", bench.argv[i]);
        }
    }
}

/* ---- clock and computation ---- */

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec * 1e-3;
}

/* How often this thread lost its processor to others. What was measured meanwhile says little. */
static inline long bench_preemptions(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/* A fixed amount of work in registers: no MPI call, no memory, no clock. A processor taken away meanwhile
 * makes it last longer, as with real computation. */
__attribute__((noinline, unused)) static void bench_compute(uint64_t steps)
{
    uint64_t x = steps;
    for (uint64_t i = 0; i < steps; ++i) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
}

static inline uint64_t bench_steps(double us)
{
    return us > 0.0 ? (uint64_t) (us * bench.steps_per_us) : 0;
}

static inline void bench_calibrate(void)
{
    enum { TIMES = 15 };
    const uint64_t steps = 200000;
    double us[TIMES];
    for (int i = 0; i < TIMES; ++i) {
        double start = bench_now();
        bench_compute(steps);
        us[i] = bench_now() - start;
    }
    bench.steps_per_us = (double) steps / stat_median(us, TIMES);
}

/* ---- data ---- */

static inline void *bench_buffer(size_t size)
{
    void *buffer = NULL;
    if (0 != posix_memalign(&buffer, 4096, size + 8)) {
        fprintf(stderr, "%s: no memory for %zu bytes\n", bench.argv[0], size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(buffer, 0x5a, size + 8);
    return buffer;
}

/* The same, but in an accelerator where device.so is loaded (test/accel), which then has MPI take it for that. */
static inline void *bench_message(size_t size)
{
    void *(*take)(size_t);
    *(void **) &take = dlsym(RTLD_DEFAULT, "device_take");
    void *device = NULL == take ? NULL : take(size + 8);
    return NULL == device ? bench_buffer(size) : device;
}

static inline void bench_message_free(void *buffer)
{
    bool (*give)(void *);
    *(void **) &give = dlsym(RTLD_DEFAULT, "device_give");
    if (NULL == give || !give(buffer)) {
        free(buffer);
    }
}

static inline uint64_t bench_word(uint64_t key, size_t i)
{
    return (key + 1) * 0x9e3779b97f4a7c15u + i * 0xd1b54a32d192ed03u;
}

static inline void bench_fill(void *buffer, size_t size, uint64_t key)
{
    uint64_t *words = buffer;
    size_t n = size / 8;
    for (size_t i = 0; i < n; ++i) {
        words[i] = bench_word(key, i);
    }
    uint64_t last = bench_word(key, n);
    memcpy(words + n, &last, size % 8);
}

/* Before a receive: nothing of an earlier message may pass for the one to come. */
static inline void bench_clear(void *buffer, size_t size)
{
    memset(buffer, 0xee, size);
}

static inline void bench_verify(const void *buffer, size_t size, uint64_t key)
{
    const uint64_t *words = buffer;
    size_t n = size / 8;
    long wrong = 0;
    for (size_t i = 0; i < n; ++i) {
        wrong += words[i] != bench_word(key, i);
    }
    uint64_t last = bench_word(key, n);
    wrong += 0 != memcmp(words + n, &last, size % 8);
    if (wrong > 0 && 0 == bench.errors) {
        fprintf(stderr, "%s: rank %d: %ld words of a message of %zu bytes are wrong\n", bench.argv[0], bench.rank,
                wrong, size);
    }
    bench.errors += wrong;
}

/* ---- order of arrival, between ranks 0 and 1 ----
 * The early side makes its nonblocking call, then bench_tell; the late side is in bench_await before its own. The
 * token is empty and goes over ctl. Sending it gives the early side nothing to progress, for the late side has not
 * made its call. Receiving it lets the late side read what the early side announced (RTS or RTR), as any MPI call
 * of an application would; a transport may keep announcement and token in different queues, hence some more polls. */

static inline void bench_tell(void)
{
    MPI_Send(NULL, 0, MPI_BYTE, 1 - bench.rank, BENCH_TOKEN, bench.ctl);
}

static inline void bench_poll(int times)
{
    for (int i = 0; i < times; ++i) {
        int there;
        MPI_Iprobe(1 - bench.rank, BENCH_RESULT, bench.ctl, &there, MPI_STATUS_IGNORE);
    }
}

static inline void bench_await(void)
{
    MPI_Recv(NULL, 0, MPI_BYTE, 1 - bench.rank, BENCH_TOKEN, bench.ctl, MPI_STATUS_IGNORE);
    bench_poll(BENCH_POLLS);
}

/* ---- start and end ---- */

/* A line 'machine when= core_ns=': the drivers compare runs only if the processors were equally near to each other. */
static inline void bench_print_machine(const char *when)
{
    double ns = bench.size > 1 ? bench_core_ns(bench.rank, bench.ctl, &bench.same_host) : 0;
    if (0 == bench.rank) {
        printf("machine when=%s core_ns=%.1f\n", when, ns);
        fflush(stdout);
    }
}

/* ranks: how many are needed at least; exactly as many if exact. A program may have called MPI_Init itself. */
static inline void bench_init(int *argc, char ***argv, int ranks, bool exact)
{
    int begun;
    MPI_Initialized(&begun);
    if (!begun) {
        MPI_Init(argc, argv);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.size);
    bench.argc = *argc;
    bench.argv = *argv;
    bench.used = calloc((size_t) *argc + 1, sizeof(bool));
    if (bench.size < ranks || (exact && bench.size != ranks)) {
        bench_usage("needs %s%d processes", exact ? "" : "at least ", ranks);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &bench.ctl);
    MPI_Comm_dup(MPI_COMM_WORLD, &bench.comm);
    bench_calibrate();
    bench_print_machine("start");
}

/* Values that rank 'from' (0 or 1) has, at rank 0. */
static inline void bench_to_rank0(int from, double *values, int n)
{
    if (0 == from) {
        return;
    }
    if (bench.rank == from) {
        MPI_Send(values, n, MPI_DOUBLE, 0, BENCH_RESULT, bench.ctl);
    } else if (0 == bench.rank) {
        MPI_Recv(values, n, MPI_DOUBLE, from, BENCH_RESULT, bench.ctl, MPI_STATUS_IGNORE);
    }
}

/* Leaves out the values during which any rank lost its processor (disturbed), unless fewer than BENCH_FEWEST remain:
 * then *noisy is set and all stay. Returns how many remain, in front. Collective, the same n on every rank. */
static inline size_t bench_undisturbed(double *values, int *disturbed, size_t n, int *noisy)
{
    size_t kept = 0;
    MPI_Allreduce(MPI_IN_PLACE, disturbed, (int) n, MPI_INT, MPI_MAX, bench.ctl);
    for (size_t i = 0; i < n; ++i) {
        kept += 0 == disturbed[i];
    }
    *noisy = kept < BENCH_FEWEST && kept < n;
    if (*noisy) {
        return n;
    }
    kept = 0;
    for (size_t i = 0; i < n; ++i) {
        if (0 == disturbed[i]) {
            values[kept++] = values[i];
        }
    }
    return kept;
}

/* Errors of all ranks so far; collective. */
static inline long bench_errors(void)
{
    long all;
    MPI_Allreduce(&bench.errors, &all, 1, MPI_LONG, MPI_SUM, bench.ctl);
    return all;
}

/* Exit code of the program. */
static inline int bench_finish(void)
{
    long errors = bench_errors();
    bench_print_machine("end");
    if (errors > 0 && 0 == bench.rank) {
        fprintf(stderr, "%s: DATA CORRUPTED: %ld words\n", bench.argv[0], errors);
    }
    fflush(stdout);
    MPI_Comm_free(&bench.comm);
    MPI_Comm_free(&bench.ctl);
    MPI_Finalize();
    free(bench.used);
    return errors > 0 ? 1 : 0;
}

#endif
