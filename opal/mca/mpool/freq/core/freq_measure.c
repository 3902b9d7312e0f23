/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
#include "freq_measure.h"

#include "freq_usage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* The pages: those that are registered once, each time in an aligned block of their own, with which a cache may register them
 * (rcache/lazy); those that V holds registered; one of the largest size to copy to. The first of them are copied from. */
enum {
    PAGE = 4096,
    BLOCK = FREQ_SIZE_MAX / PAGE,
    SAMPLES = 11,
    LOOKS = 512,
    RARE = 32, /* copies between looks that are rare */
    HELD = 64,
    HELD_STRIDE = 3, /* pages */
    HELD_AT = SAMPLES * 2 * BLOCK,
    BOUNCE_AT = HELD_AT + HELD * HELD_STRIDE,
    PAGES = BOUNCE_AT + FREQ_SIZE_MAX / PAGE,
    LINES = 4096,
    COPIES = 32,
    V_PERCENT = 40 /* of the time */
};
_Static_assert(LOOKS <= BOUNCE_AT, "each look is of a page of its own");

typedef struct {
    const freq_probe_t *probe;
    double start, ns;
    char *area; /* begins a block */
    freq_usage_t usage;
    freq_release_t release;
    freq_gate_t gate;
    void *held[HELD];
    uint32_t holds;
} bench_t;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static bool is_over(const bench_t *b, double part)
{
    return now_ns() - b->start > part * b->ns;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* The mean without what was disturbed: a clock may tick more slowly than what is timed, so that no sample by itself says it.
 * Of few samples the middle ones alone. */
static double typical(double *samples, uint32_t n)
{
    double sum = 0;
    const uint32_t from = n < 100 ? n / 3 : n / 10, to = n - from;
    qsort(samples, n, sizeof(*samples), by_value);
    for (uint32_t i = from; i < to; ++i) {
        sum += samples[i];
    }
    return sum / (to - from);
}

static char *page(const bench_t *b, uint32_t n)
{
    return b->area + (size_t) n * PAGE;
}

static void copy(const bench_t *b, const char *from, size_t size)
{
    char *bounce = page(b, BOUNCE_AT);
    memcpy(bounce, from, size);
    __asm__ volatile("" : : "r"(bounce) : "memory");
}

/* ---- V ---- */

static bool take_again(const bench_t *b, uint32_t i)
{
    const freq_probe_t *p = b->probe;
    char *base = page(b, HELD_AT + i * HELD_STRIDE);
    if (NULL != p->again) {
        return p->again(p->context, b->held[i], base, PAGE);
    }
    void *registration;
    if (!p->take(p->context, base, PAGE, &registration)) {
        return false;
    }
    p->give(p->context, registration);
    return true;
}

typedef enum { NOTHING, LOOK, LOOK_AND_TAKE } what_t;

/* ns: of so many pages, from one on, each timed by itself with so many copies of a page before it. Negative: a registration
 * was not to be had. */
static double between_copies(bench_t *b, what_t what, uint32_t first, uint32_t n, uint32_t copies)
{
    double took[LOOKS];
    for (uint32_t i = 0, from = 0; i < n; ++i) {
        for (uint32_t k = 0; k < copies; ++k) {
            copy(b, page(b, from++ % LOOKS), PAGE);
        }
        bool ok = true;
        freq_note_t *note;
        const double start = now_ns();
        if (NOTHING != what && freq_usage_find(&b->usage, page(b, first + i), PAGE, &note)
            && LOOK_AND_TAKE == what) {
            ok = take_again(b, i % b->holds);
        }
        took[i] = now_ns() - start;
        if (!ok) {
            return -1;
        }
    }
    return typical(took, n);
}

static double at_least(double least, double value)
{
    return value > least ? value : least;
}

/* Whatever the samples say, neither is free. */
enum { LEAST_NS = 5, LEAST_GATE_NS = 1 };

/* What a message that may be looked up and passes (freq_gate.h) takes longer than one while nothing is looked up; in a row,
 * since it takes less than the clock. In a row the processor does several at once and guesses all of them right: GATE_TIMES is
 * what it took between copies beside this, with test/bench/spectrum. */
enum { GATE_TIMES = 2 };

static double passing(const bench_t *b, freq_gate_t gate)
{
    const double start = now_ns();
    for (uint32_t i = 0; i < LOOKS; ++i) {
        const bool passes = freq_gate_passes(&gate, page(b, i));
        freq_gate_copied(&gate, PAGE);
        __asm__ volatile("" : : "r"(&gate), "r"(passes) : "memory");
    }
    return (now_ns() - start) / LOOKS;
}

static double gate_once(const bench_t *b)
{
    const double rests = passing(b, (freq_gate_t){.rest = UINT64_MAX});
    return passing(b, (freq_gate_t){.next = UINT64_MAX, .sample = FREQ_SAMPLE_MAX}) - rests;
}

static bool measure_v(bench_t *b, freq_costs_t *costs)
{
    double clock[SAMPLES], look[SAMPLES], rare[SAMPLES], use[SAMPLES], gate[SAMPLES];
    uint32_t n = 0;
    (void) between_copies(b, NOTHING, 0, LOOKS, 1);
    /* None is known; where many are not, few are looked at. */
    const double add = between_copies(b, LOOK, 0, LOOKS / RARE, RARE);
    (void) between_copies(b, LOOK, LOOKS / RARE, LOOKS - LOOKS / RARE, 1);
    for (; n < SAMPLES && (0 == n || !is_over(b, V_PERCENT / 100.0)); ++n) {
        clock[n] = between_copies(b, NOTHING, 0, LOOKS / 2, 1);
        look[n] = between_copies(b, LOOK, 0, LOOKS, 1) - clock[n];
        use[n] = between_copies(b, LOOK_AND_TAKE, 0, LOOKS, 1);
        if (use[n] < 0) {
            return false;
        }
        use[n] -= clock[n];
        gate[n] = GATE_TIMES * gate_once(b);
        rare[n] = between_copies(b, LOOK, 0, LOOKS / RARE, RARE) - clock[n];
    }
    costs->clock = typical(clock, n);
    costs->gate = at_least(LEAST_GATE_NS, typical(gate, n));
    costs->look = at_least(LEAST_NS, typical(look, n));
    costs->rare = at_least(costs->look, typical(rare, n));
    costs->add = at_least(costs->rare, add - costs->clock);
    costs->v = at_least(costs->look, typical(use, n));
    return true;
}

static bool hold(bench_t *b)
{
    while (b->holds < HELD && !(b->holds > 0 && is_over(b, V_PERCENT / 200.0))
           && b->probe->take(b->probe->context, page(b, HELD_AT + b->holds * HELD_STRIDE), PAGE,
                             &b->held[b->holds])) {
        ++b->holds;
    }
    return b->holds > 0;
}

static void let_go(bench_t *b)
{
    while (b->holds > 0) {
        b->probe->give(b->probe->context, b->held[--b->holds]);
    }
}

/* ---- R and C ---- */

static double copy_once(const bench_t *b, size_t size)
{
    const double start = now_ns();
    for (uint32_t i = 0; i < COPIES; ++i) {
        copy(b, page(b, (i & 7) * BLOCK), size);
    }
    return (now_ns() - start) / COPIES;
}

/* What now_ns itself takes is in R: tens of ns in a microsecond. Negative: refused. */
static double register_once(const bench_t *b, char *buffer, size_t size)
{
    void *registration;
    const double start = now_ns();
    if (!b->probe->take(b->probe->context, buffer, size, &registration)) {
        return -1;
    }
    const double cost = now_ns() - start;
    b->probe->give(b->probe->context, registration);
    return cost;
}

/* Of a page and of a block; what is between them is on the line. */
static bool measure_r_and_c(bench_t *b, freq_costs_t *costs)
{
    double r[2][SAMPLES], c[FREQ_POINTS][SAMPLES];
    uint32_t n = 0;
    for (; n < SAMPLES && (0 == n || !is_over(b, 1)); ++n) {
        for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
            c[i][n] = copy_once(b, (size_t) FREQ_SIZE_MIN << i);
        }
        for (uint32_t i = 0; i < 2; ++i) {
            r[i][n] = register_once(b, page(b, (2 * n + i) * BLOCK), 0 == i ? PAGE : FREQ_SIZE_MAX);
            if (r[i][n] < 0 || is_over(b, 4)) {
                return false;
            }
        }
    }
    const double one = typical(r[0], n), all = typical(r[1], n);
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        const double size = (double) ((size_t) FREQ_SIZE_MIN << i);
        const double pages = size > PAGE ? size / PAGE : 1;
        costs->r[i] = one + (all > one ? all - one : 0) * (pages - 1) / (BLOCK - 1);
        costs->c[i] = typical(c[i], n);
    }
    /* More bytes do not take less time: what disturbed a sample of the smaller ones is left out. A C that
     * is too high would be taken for gains. */
    for (uint32_t i = FREQ_POINTS - 1; i > 0; --i) {
        costs->c[i - 1] = costs->c[i - 1] < costs->c[i] ? costs->c[i - 1] : costs->c[i];
    }
    return true;
}

/* ---- all ---- */

static bool measure_in(bench_t *b, freq_costs_t *costs)
{
    const bool has_v = hold(b) && measure_v(b, costs);
    let_go(b);
    if (!has_v || !measure_r_and_c(b, costs)) {
        return false;
    }
    const freq_probe_t *p = b->probe;
    costs->p = NULL == p->place ? 0 : at_least(0, p->place(p->context));
    return freq_costs_are_sane(costs);
}

bool freq_measure(const freq_probe_t *probe, double ns, freq_costs_t *costs)
{
    bench_t *b = calloc(1, sizeof(*b));
    void *lines = NULL;
    if (NULL == b || 0 != posix_memalign(&lines, 64, freq_usage_bytes(LINES))) {
        free(b);
        return false;
    }
    b->probe = probe;
    b->ns = ns;
    /* Not from malloc: pages of our own, so that no registration of somebody else covers them. */
    const size_t mapped = (size_t) (PAGES + BLOCK) * PAGE;
    char *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool ok = MAP_FAILED != map;
    if (ok) {
        b->area = map + (-(uintptr_t) map & (FREQ_SIZE_MAX - 1));
        memset(b->area, 1, (size_t) PAGES * PAGE);
        memset(lines, 0, freq_usage_bytes(LINES));
        freq_rule_t rule;
        freq_rule_fixed(&rule, 1);
        freq_usage_init(&b->usage, lines, LINES, &rule, &b->release, &b->gate);
        b->start = now_ns();
        ok = measure_in(b, costs);
        (void) munmap(map, mapped);
    }
    free(lines);
    free(b);
    return ok;
}
