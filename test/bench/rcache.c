/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registration caches side by side: the modules of rcache/lazy and rcache/grdma in one process, called
 * as a BTL calls them, in alternating pairs. One process; registering costs what --register_ns and
 * --register_ns_page say (spent computing), so that the caches are measured and not an adapter.
 *
 * --mode hit      register and deregister again one of --buffers buffers, in turn; ns each. Also with
 *                 --threads threads, each with buffers of its own.
 * --mode cost     register memory that is not cached, and end it (paper 000, fig. 3.10), by size, without
 *                 anything added
 * --mode policy   a working set above the limit, on access patterns made for lru, lfu and best_fit: the
 *                 time and bytes that registering again costs, of each policy (lazy alone has them)
 * A line per row:
 *     hit    buffers= threads= lazy_ns= grdma_ns= ratio=        medians; ratio: of pairs, lazy to grdma
 *     cost   size= lazy_us= grdma_us= ratio=
 *     policy pattern= policy= uses= hits= hit_percent= registered_mb= us=  */
#include "rcache_modules.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { LAZY, GRDMA, CACHES, PAIRS = 31 };
static const char *const names[CACHES] = {"lazy", "grdma"};

static char *memory;
static const size_t place = (size_t) 1 << 20;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double *a, size_t n)
{
    qsort(a, n, sizeof(*a), by_value);
    return n % 2 ? a[n / 2] : (a[n / 2 - 1] + a[n / 2]) / 2;
}

/* ---- hits ---- */

typedef struct worker {
    pthread_t thread;
    rcache_module_t *module;
    char *first;
    size_t buffers, uses;
} worker_t;

static void *use_buffers(void *argument)
{
    worker_t *w = argument;
    for (size_t i = 0, at = 0; i < w->uses; ++i, at = at + 1 == w->buffers ? 0 : at + 1) {
        void *registration = rcache_module_register(w->module, w->first + at * place, 65536);
        if (NULL == registration) {
            fprintf(stderr, "rcache: a registration was refused\n");
            exit(1);
        }
        rcache_module_deregister(w->module, registration);
    }
    return NULL;
}

static double hit_ns(rcache_module_t *module, size_t buffers, size_t threads, size_t uses)
{
    worker_t w[16];
    const double start = now_ns();
    for (size_t t = 0; t < threads; ++t) {
        w[t] = (worker_t){0, module, memory + t * buffers * place, buffers, uses};
        if (1 == threads) {
            use_buffers(&w[t]);
        } else {
            pthread_create(&w[t].thread, NULL, use_buffers, &w[t]);
        }
    }
    for (size_t t = 0; 1 < threads && t < threads; ++t) {
        pthread_join(w[t].thread, NULL);
    }
    return (now_ns() - start) / (double) uses;
}

static void hits(rcache_module_t *const module[CACHES])
{
    static const size_t rows[][2] = {{1, 1}, {16, 1}, {256, 1}, {1024, 1}, {16, 2}, {256, 2}};
    printf("# register + deregister of cached memory\n");
    for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); ++r) {
        double ns[CACHES][PAIRS], ratio[PAIRS];
        for (int c = 0; c < CACHES; ++c) {
            (void) hit_ns(module[c], rows[r][0], rows[r][1], 2 * rows[r][0]); /* the first time */
        }
        for (int p = 0; p < PAIRS; ++p) {
            for (int k = 0; k < CACHES; ++k) {
                const int c = (p + k) % CACHES;
                ns[c][p] = hit_ns(module[c], rows[r][0], rows[r][1], 20000);
            }
            ratio[p] = ns[LAZY][p] / ns[GRDMA][p];
        }
        printf("hit buffers=%zu threads=%zu lazy_ns=%.1f grdma_ns=%.1f ratio=%.2f\n", rows[r][0],
               rows[r][1], median(ns[LAZY], PAIRS), median(ns[GRDMA], PAIRS), median(ratio, PAIRS));
    }
}

/* ---- misses ---- */

static void cost(rcache_module_t *const module[CACHES])
{
    printf("# register + end of memory that is not cached\n");
    for (size_t size = 4096; size <= 256 * place; size *= 4) {
        double us[CACHES][PAIRS], ratio[PAIRS];
        for (int p = 0; p < PAIRS; ++p) {
            for (int k = 0; k < CACHES; ++k) {
                const int c = (p + k) % CACHES;
                while (rcache_module_evict(module[c])) {
                }
                const double start = now_ns();
                for (int i = 0; i < 100; ++i) {
                    rcache_module_deregister(module[c], rcache_module_register(module[c], memory, size));
                    rcache_module_evict(module[c]);
                }
                us[c][p] = (now_ns() - start) / 1e5;
            }
            ratio[p] = us[LAZY][p] / us[GRDMA][p];
        }
        printf("cost size=%zu lazy_us=%.3f grdma_us=%.3f ratio=%.2f\n", size, median(us[LAZY], PAIRS),
               median(us[GRDMA], PAIRS), median(ratio, PAIRS));
    }
}

/* ---- policies ---- */

/* Buffer number `use` of a pattern: where and how large. The limit is 32 MiB in 48 registrations. */
typedef struct buffer {
    size_t at, size;
} buffer_t;

static uint64_t random_state;

static size_t random_below(size_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t) (random_state >> 33) % n;
}

/* Most uses are of buffers used lately; all wander slowly. */
static buffer_t wandering(size_t use)
{
    return (buffer_t){(use / 40 + random_below(40)) % 256, 65536};
}

/* 24 buffers again and again, and between them a stream of others, longer than the limit. */
static buffer_t popular(size_t use)
{
    return (use / 64) % 2 ? (buffer_t){24 + use % 200, 65536} : (buffer_t){random_below(24), 65536};
}

/* Few large ones that cost much, at long intervals, and many small ones that cost little. */
static buffer_t sizes(size_t use)
{
    return 0 == use % 50 ? (buffer_t){64 * (use / 50 % 3), 8 * place}
                         : (buffer_t){192 + random_below(64), 65536};
}

static const struct pattern {
    const char *name;
    buffer_t (*next)(size_t use);
} patterns[] = {{"wandering", wandering}, {"popular", popular}, {"sizes", sizes}};

static void policy(const char *name)
{
    enum { USES = 40000 };
    rcache_module_t *module = rcache_module_new("lazy");
    for (size_t p = 0; NULL != module && p < sizeof(patterns) / sizeof(*patterns); ++p) {
        random_state = 1;
        while (rcache_module_evict(module)) {
        }
        const rcache_module_count_t before = rcache_module_count(module);
        const double start = now_ns();
        for (size_t i = 0; i < USES; ++i) {
            const buffer_t b = patterns[p].next(i);
            rcache_module_deregister(module,
                                     rcache_module_register(module, memory + b.at * place, b.size));
        }
        const double us = (now_ns() - start) / 1e3;
        const rcache_module_count_t after = rcache_module_count(module);
        const uint64_t made = after.made - before.made;
        printf("policy pattern=%s policy=%s uses=%d hits=%llu hit_percent=%.1f registered_mb=%.1f us=%.0f\n",
               patterns[p].name, name, USES, (unsigned long long) (USES - made),
               100.0 * (double) (USES - made) / USES, (double) (after.bytes - before.bytes) / 1e6, us);
    }
    rcache_module_delete(module);
}

int main(int argc, char **argv)
{
    const char *mode = "hit";
    const char *policy_name = "lru";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (0 == strcmp(argv[i], "--mode")) {
            mode = argv[i + 1];
        } else if (0 == strcmp(argv[i], "--policy")) {
            policy_name = argv[i + 1]; /* told to the component by the environment: see rcache-table */
        } else if (0 == strcmp(argv[i], "--register_ns")) {
            rcache_register_ns = strtod(argv[i + 1], NULL);
        } else if (0 == strcmp(argv[i], "--register_ns_page")) {
            rcache_register_ns_page = strtod(argv[i + 1], NULL);
        }
    }
    if (0 != rcache_modules_start(&argc, &argv)) {
        return 1;
    }
    memory = mmap(NULL, 1024 * place, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (MAP_FAILED == (void *) memory) {
        perror("mmap");
        return 1;
    }
    if (0 == strcmp(mode, "policy")) {
        policy(policy_name);
    } else {
        rcache_module_t *module[CACHES];
        for (int c = 0; c < CACHES; ++c) {
            module[c] = rcache_module_new(names[c]);
            if (NULL == module[c]) {
                fprintf(stderr, "rcache: there is no component %s\n", names[c]);
                return 1;
            }
        }
        (0 == strcmp(mode, "cost") ? cost : hits)(module);
        for (int c = 0; c < CACHES; ++c) {
            rcache_module_delete(module[c]);
        }
    }
    rcache_modules_end();
    return 0;
}
