/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What copying, registering and finding out cost on this machine with a transport. Medians of as
 * many samples as fit the time that is allowed; kept in a file for the other processes of this
 * host.
 *
 * R is the registration of a buffer that the cache does not have, on a page that is in memory. V is
 * the use of a table and finding a registration in the cache. C is memcpy into a buffer that is
 * warm, as a fragment from a free list is. P is the transport's own to measure. */
#include "mpool_freq.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- measuring ---- */

enum { SAMPLES = 15, COPIES = 32, BUFFERS = 64 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

typedef struct {
    const mca_mpool_freq_transport_t *transport;
    double until, give_up;
    char *area; /* BUFFERS times FREQ_SIZE_MAX, and a page between them */
    size_t stride;
    char *bounce;
    uint32_t next; /* buffer */
} bench_t;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double *samples, uint32_t n)
{
    qsort(samples, n, sizeof(*samples), by_value);
    return samples[n / 2];
}

static double copy_once(const bench_t *b, size_t size)
{
    const double start = now_ns();
    for (uint32_t i = 0; i < COPIES; ++i) {
        memcpy(b->bounce, b->area + (i & 7) * b->stride, size);
        __asm__ volatile("" : : "r"(b->bounce) : "memory");
    }
    return (now_ns() - start) / COPIES;
}

/* What now_ns itself takes is in R: tens of ns in a microsecond. Negative: the transport refused.
 * */
static double register_once(bench_t *b, size_t size, double *again)
{
    const mca_mpool_freq_transport_t *t = b->transport;
    char *buffer = b->area + (b->next++ % BUFFERS) * b->stride;
    void *first, *second;
    const double start = now_ns();
    if (OPAL_SUCCESS != t->register_mem(t->context, buffer, size, &first)) {
        return -1;
    }
    const double cost = now_ns() - start;
    /* found in the cache, given back to it */
    enum { FINDS = 8 };
    uint32_t found = 0;
    const double from = now_ns();
    for (; NULL != t->again && found < FINDS && t->again(t->context, first, buffer, size);
         ++found) {}
    for (; NULL == t->again && found < FINDS
           && OPAL_SUCCESS == t->register_mem(t->context, buffer, size, &second);
         ++found) {
        t->deregister_mem(t->context, second);
    }
    *again = (now_ns() - from) / FINDS;
    t->deregister_mem(t->context, first);
    return FINDS == found ? cost : -1;
}

/* A use of a table of the usual size that knows a thousand buffers, so that it does not come from
 * the nearest cache, and what it took to make it know them, each. The addresses are looked up only. */
static double look_once(double *add)
{
    enum { LINES = 4096, LOOKS = 1024, ROUNDS = 4 };
    freq_usage_t usage;
    freq_rule_t rule;
    void *memory;
    if (0 != posix_memalign(&memory, 64, freq_usage_bytes(LINES))) {
        return -1;
    }
    memset(memory, 0, freq_usage_bytes(LINES));
    freq_rule_fixed(&rule, 1);
    freq_usage_init(&usage, memory, LINES, &rule, mca_mpool_freq_component.release);
    uint32_t in_place = 0;
    double start = 0;
    for (uint32_t round = 0; round < 2 + ROUNDS; ++round) {
        if (1 == round) {
            *add = (now_ns() - start) / LOOKS;
        }
        if (round != 1 && round < 3) {
            start = now_ns();
        }
        /* Which buffer is next depends on the answer (always true by now): the time of a use is wanted,
         * not of uses that the processor overlaps. */
        for (uint32_t i = 0, next = 0; i < LOOKS; ++i) {
            const uintptr_t page = (next * UINT32_C(2654435761)) >> 12;
            const bool answer = freq_usage_look(&usage, (void *) ((page + 1) * 4096), 4096);
            next = round < 2 ? i + 1 : next + answer;
            in_place += answer;
        }
    }
    const double cost = (now_ns() - start) / (ROUNDS * LOOKS);
    __asm__ volatile("" : : "r"(in_place));
    free(memory);
    return cost;
}

static bool measure_in(bench_t *b, freq_costs_t *costs)
{
    double r[FREQ_POINTS][SAMPLES], c[FREQ_POINTS][SAMPLES], again[FREQ_POINTS * SAMPLES];
    uint32_t rounds = 0, n = 0;
    double add = 0;
    const double look = look_once(&add);
    while (rounds < SAMPLES && (0 == rounds || now_ns() < b->until)) {
        for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
            const size_t size = (size_t) FREQ_SIZE_MIN << i;
            c[i][rounds] = copy_once(b, size);
            r[i][rounds] = register_once(b, size, &again[n++]);
            if (r[i][rounds] < 0 || now_ns() > b->give_up) {
                return false;
            }
        }
        ++rounds;
    }
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        costs->r[i] = median(r[i], rounds);
        costs->c[i] = median(c[i], rounds);
    }
    /* More bytes do not take less time: what disturbed a sample of the smaller ones is left out. A C that
     * is too high would be taken for gains. */
    for (uint32_t i = FREQ_POINTS - 1; i > 0; --i) {
        costs->c[i - 1] = costs->c[i - 1] < costs->c[i] ? costs->c[i - 1] : costs->c[i];
    }
    costs->look = look;
    costs->add = add > look ? add : look;
    costs->v = look + median(again, n);
    const double place =
        NULL == b->transport->place ? 0 : b->transport->place(b->transport->context);
    costs->p = place > 0 ? place : 0;
    return look >= 0 && freq_costs_are_sane(costs);
}

static bool measure(const mca_mpool_freq_transport_t *transport, freq_costs_t *costs)
{
    const double budget = mca_mpool_freq_component.measure_ms * 1e6;
    bench_t b = {.transport = transport,
                 .until = now_ns() + budget,
                 .give_up = now_ns() + 4 * budget,
                 .stride = FREQ_SIZE_MAX + 4096 + 64};
    /* Not from malloc: pages of our own, so that no registration of somebody else covers them. */
    const size_t size = (BUFFERS + 1) * b.stride;
    b.area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == b.area) {
        return false;
    }
    b.bounce = b.area + BUFFERS * b.stride;
    /* Touched before it is measured; the large part of each buffer only where it is used. */
    for (size_t at = 0; at < size; at += 4096) {
        b.area[at] = 1;
    }
    const bool ok = measure_in(&b, costs);
    (void) munmap(b.area, size);
    return ok;
}

/* ---- the file ---- */

enum { PATH = 1024 };

static bool path_of(char *path, const char *name)
{
    const char *dir = mca_mpool_freq_component.cost_dir;
    char host[256] = "";
    if (NULL == dir || '\0' == *dir) {
        dir = mca_mpool_freq_job_dir();
    }
    if (NULL == dir || 0 != gethostname(host, sizeof(host) - 1)) {
        return false;
    }
    const int length = snprintf(path, PATH, "%s/mpool-freq-%s-%s", dir, host, name);
    for (char *at = path + strlen(dir) + 1; length > 0 && length < PATH && '\0' != *at; ++at) {
        *at = '/' == *at || ' ' == *at ? '_' : *at;
    }
    return length > 0 && length < PATH;
}

#define FORMAT "mpool/freq costs 4"

static bool parse(FILE *file, const char *name, freq_costs_t *costs)
{
    char line[128], want[128];
    (void) snprintf(want, sizeof(want), FORMAT " %s\n", name);
    if (NULL == fgets(line, sizeof(line), file) || 0 != strcmp(line, want)) {
        return false;
    }
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        if (2 != fscanf(file, "%lf %lf", &costs->r[i], &costs->c[i])) {
            return false;
        }
    }
    char end[8];
    return 5
               == fscanf(file, "%lf %lf %lf %lf %7s", &costs->v, &costs->look, &costs->add,
                         &costs->p, end)
           && 0 == strcmp(end, "end") && freq_costs_are_sane(costs);
}

/* Only a file of ours that nobody else can write to is believed. */
static bool read_file(const char *path, const char *name, freq_costs_t *costs)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return false;
    }
    if (0 != fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()
        || 0 != (st.st_mode & (S_IWGRP | S_IWOTH))) {
        (void) close(fd);
        return false;
    }
    FILE *file = fdopen(fd, "r");
    if (NULL == file) {
        (void) close(fd);
        return false;
    }
    const bool ok = parse(file, name, costs);
    (void) fclose(file);
    return ok;
}

/* Whole or not at all: others may be reading. A file that cannot be written is no loss. */
static void write_file(const char *path, const char *name, const freq_costs_t *costs)
{
    char fresh[PATH + 32];
    (void) snprintf(fresh, sizeof(fresh), "%s.%ld", path, (long) getpid());
    const int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (NULL == file) {
        if (fd >= 0) {
            (void) close(fd);
            (void) unlink(fresh);
        }
        return;
    }
    (void) fprintf(file, FORMAT " %s\n", name);
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        (void) fprintf(file, "%.3f %.3f\n", costs->r[i], costs->c[i]);
    }
    const bool ok =
        fprintf(file, "%.3f %.3f %.3f %.3f end\n", costs->v, costs->look, costs->add, costs->p) > 0;
    if (0 != fclose(file) || !ok || 0 != rename(fresh, path)) {
        (void) unlink(fresh);
    }
}

bool mca_mpool_freq_costs(const mca_mpool_freq_transport_t *transport, freq_costs_t *costs,
                          const char **from)
{
    char path[PATH];
    const bool has_path = path_of(path, transport->name);
    if (has_path && read_file(path, transport->name, costs)) {
        *from = "found in the file of an earlier measurement";
        return true;
    }
    if (!measure(transport, costs)) {
        *costs = (freq_costs_t){.v = 0};
        *from = "not measured: the transport refused or was too slow; everything is copied";
        return false;
    }
    *from = "measured by this process";
    if (has_path) {
        write_file(path, transport->name, costs);
    }
    return true;
}
