/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Measures what copying, registering and searching cost (freq_measure.h), by timed loops over pages of its own. */
#include "freq_measure.h"

#include "freq_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The pages: those that are registered once, each time in an aligned block of their own; those that stay registered for V; one of
 * the largest size to copy to. */
enum {
    PAGE = 4096,
    BLOCK = FREQ_SIZE_MAX / PAGE,
    SAMPLES = 11,
    BLOCKS = 2 * SAMPLES,
    USES = 512,
    APART = 32, /* copies between searches */
    PINNED = 64,
    PINNED_STRIDE = 3, /* pages */
    PINNED_AT = BLOCKS * BLOCK,
    BOUNCE_AT = PINNED_AT + PINNED * PINNED_STRIDE,
    PAGES = BOUNCE_AT + BLOCK,
    LINES = 4096,
    V_PERCENT = 40, /* of the time */
    LEAST_NS = 5    /* whatever the samples say, no search is free */
};
_Static_assert(USES <= BOUNCE_AT, "each use is of a page of its own");

typedef struct {
    const freq_probe_t *probe;
    double start, ns;
    char *area; /* begins a block */
    freq_table_t table;
    freq_gate_t gate;
    void *pin[PINNED];
    uint32_t pins;
} bench_t;

static double now_ns(void)
{
    return (double) spec_now();
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

static double at_least(double least, double value)
{
    return value > least ? value : least;
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
    char *base = page(b, PINNED_AT + i * PINNED_STRIDE);
    if (NULL != p->again) {
        return p->again(p->context, b->pin[i], base, PAGE);
    }
    void *registration;
    if (0 != p->take(p->context, base, PAGE, &registration)) {
        return false;
    }
    p->give(p->context, registration);
    return true;
}

/* ns: uses of n pages, each timed by itself with so many copies of a page before it; `at` in the page, which makes it another
 * buffer; negative: nothing is done. A registration is taken of what the table says is frequent. Negative: that was refused. */
static double uses(bench_t *b, int at, uint32_t n, uint32_t copies)
{
    double took[USES];
    for (uint32_t i = 0, from = 0; i < n; ++i) {
        for (uint32_t k = 0; k < copies; ++k) {
            copy(b, page(b, from++ % USES), PAGE);
        }
        bool ok = true;
        freq_note_t *note;
        const double start = now_ns();
        if (at >= 0 && freq_table_find(&b->table, page(b, i) + at, PAGE, &note)) {
            ok = take_again(b, i % b->pins);
        }
        took[i] = now_ns() - start;
        if (!ok) {
            return -1;
        }
    }
    return typical(took, n);
}

static bool measure_v(bench_t *b, freq_costs_t *costs)
{
    double search[SAMPLES], use[SAMPLES];
    uint32_t n = 0;
    (void) uses(b, 0, USES, 1); /* none is frequent yet */
    for (; n < SAMPLES && (0 == n || !is_over(b, V_PERCENT / 100.0)); ++n) {
        const double clock = uses(b, -1, USES / 2, 1);
        use[n] = uses(b, 0, USES, 1);
        if (use[n] < 0) {
            return false;
        }
        use[n] -= clock;
        search[n] = uses(b, 8 * (1 + (int) n), USES / APART, APART) - clock;
    }
    costs->v = at_least(LEAST_NS, typical(use, n));
    costs->search = at_least(LEAST_NS, typical(search, n));
    return true;
}

static bool pin(bench_t *b)
{
    while (b->pins < PINNED && !(b->pins > 0 && is_over(b, V_PERCENT / 200.0))
           && 0 == b->probe->take(b->probe->context, page(b, PINNED_AT + b->pins * PINNED_STRIDE), PAGE,
                                  &b->pin[b->pins])) {
        ++b->pins;
    }
    return b->pins > 0;
}

static void unpin(bench_t *b)
{
    while (b->pins > 0) {
        b->probe->give(b->probe->context, b->pin[--b->pins]);
    }
}

/* ---- R and C ---- */

/* Each by itself: the last stores of a copy are only on their way when memcpy returns, and in a program what comes next waits
 * for them. */
static double copy_once(const bench_t *b, size_t size)
{
    const double start = now_ns();
    for (uint32_t i = 0; i < BLOCKS; ++i) {
        copy(b, page(b, i * BLOCK), size);
        atomic_thread_fence(memory_order_seq_cst);
    }
    return (now_ns() - start) / BLOCKS;
}

/* What the clock itself takes is in R: tens of ns in a microsecond. Negative: refused. */
static double register_once(const bench_t *b, char *buffer, size_t size)
{
    void *registration;
    const double start = now_ns();
    if (0 != b->probe->take(b->probe->context, buffer, size, &registration)) {
        return -1;
    }
    const double cost = now_ns() - start;
    b->probe->give(b->probe->context, registration);
    return cost;
}

/* R of a page and of a block; what is between them is on the line. */
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
        const double pages = at_least(1, (double) (FREQ_SIZE_MIN << i) / PAGE);
        costs->r[i] = one + at_least(0, all - one) * (pages - 1) / (BLOCK - 1);
        costs->c[i] = typical(c[i], n);
    }
    /* More bytes do not take less time. A C that is too high would be taken for gains. */
    for (uint32_t i = FREQ_POINTS - 1; i > 0; --i) {
        costs->c[i - 1] = costs->c[i - 1] < costs->c[i] ? costs->c[i - 1] : costs->c[i];
    }
    return true;
}

/* ---- all ---- */

bool freq_measure(const freq_probe_t *probe, double ns, freq_costs_t *costs)
{
    bench_t *b = calloc(1, sizeof(*b));
    void *lines = NULL;
    if (NULL == b || 0 != posix_memalign(&lines, 64, LINES * sizeof(freq_line_t))) {
        free(b);
        return false;
    }
    b->probe = probe;
    b->ns = ns;
    /* Not from malloc: pages of our own, so that no other registration covers them. */
    const size_t mapped = (size_t) (PAGES + BLOCK) * PAGE;
    char *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool ok = MAP_FAILED != map;
    if (ok) {
        b->area = map + (-(uintptr_t) map & (FREQ_SIZE_MAX - 1));
        memset(b->area, 1, (size_t) PAGES * PAGE);
        memset(lines, 0, LINES * sizeof(freq_line_t));
        freq_table_init(&b->table, lines, LINES, 1, &b->gate);
        b->start = now_ns();
        ok = pin(b) && measure_v(b, costs);
        unpin(b);
        ok = ok && measure_r_and_c(b, costs) && freq_costs_are_sane(costs);
        (void) munmap(map, mapped);
    }
    free(lines);
    free(b);
    return ok;
}
