/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The spectrum of buffer reuse (000 section 5.5.1, figures 5.6 and 5.8): buffers 1 to COUNT of one
 * size, buffer i is sent i times, in an order drawn from a seed; allocated back to back, or each on
 * pages of its own; then such buffers among twice as many messages of buffers that are never used again (mixed). Then
 * every reuse count by itself, with as many buffers as it takes: what a
 * program gains or loses that reuses its buffers just so often, and one that never does, in --sends
 * messages. Finding that out has a price, once for a process: few messages show it, many what comes after.
 *
 * No MPI. What is compared is what the processor does per message at its sender:
 *
 *   copy      memcpy into a fragment, as always
 *   freq      ask the table (core/freq_table.h); in place: take the registration that is noted there
 *             (rcache/lazy, core/lazy_cache.h), post two pieces and give it back; else memcpy
 *
 * over a wire (spectrum_wire.h): --wire memory writes a descriptor and waits --post ns; --wire verbs is the verbs
 * transport of btl/ibx over adapters that are not there and, as adapters, do not touch the data with the processor.
 * --op put and get (verbs) are the one-sided operations of figure 5.7.
 *
 * Registering is mlock of the pages (its real cost here), or --register ns. --notes 0 searches each
 * registration up in the cache. R, C and V are measured before, in --measure ms, with what the component
 * measures with (core/freq_measure.h). Both ways go through the work in slices by turns, --pairs times from the
 * start; times and ratios are medians over these, with the quartiles of the ratio. --budget 0: without bounds, the thesis' rule alone.
 *
 * usage: spectrum [--sizes 128,...] [--count 1000] [--pairs 5] [--share 25] [--register NS] [--notes 1|0]
 *                 [--budget 2] [--wire memory|verbs] [--op send|put|get] [--post NS] [--each 1|0]
 *                 [--sends 2000000] [--measure 20]
 *
 * Output: a table to read, and a line 'spectrum key=value ...' for each row, 'costs size= ...' for each size. */
#define _GNU_SOURCE
#include "freq_measure.h"
#include "freq_rule.h"
#include "freq_table.h"
#include "spectrum_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, SIZES_MAX = 16, PAIRS_MAX = 201 };

static struct {
    size_t size[SIZES_MAX];
    int sizes;
    long count, pairs, share, register_ns, notes, budget, each, sends, measure;
    spectrum_op_t op;
    const spectrum_wire_t *wire;
} opt = {.count = 1000,
         .pairs = 5,
         .share = 25,
         .register_ns = -1,
         .notes = 1,
         .budget = FREQ_PERMILLE,
         .each = 1,
         .sends = 2000000,
         .measure = 20,
         .wire = &spectrum_memory};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static double clock_ns; /* what now_ns takes: spending less is not possible */

void spectrum_spend(long ns)
{
    if (ns > 0) {
        const double until = now_ns() + (double) ns - clock_ns;
        while (now_ns() < until) {}
    }
}

/* ---- the device ---- */

static struct {
    lazy_cache_t *cache;
    unsigned long registered, failed;
    uint64_t now;
} device;

static lazy_status_t pin(void *context, lazy_entry_t *e)
{
    (void) context;
    if (opt.register_ns < 0 && 0 != mlock((void *) lazy_base(e), lazy_size(e))) {
        ++device.failed;
        (void) munlock((void *) lazy_base(e), lazy_size(e));
        return LAZY_NO_RESOURCES;
    }
    if (NULL != opt.wire->enter && !opt.wire->enter(e)) {
        ++device.failed;
        return LAZY_NO_RESOURCES;
    }
    ++device.registered;
    spectrum_spend(opt.register_ns);
    return LAZY_OK;
}

static void unpin(void *context, lazy_entry_t *e)
{
    (void) context;
    if (NULL != opt.wire->leave) {
        opt.wire->leave(e);
    }
    if (opt.register_ns < 0) {
        (void) munlock((void *) lazy_base(e), lazy_size(e));
    }
}

/* A reference to a registration of the buffer. False: the limit of locked memory is reached. */
static bool device_register(const char *base, size_t size, lazy_entry_t **e)
{
    return LAZY_OK == lazy_acquire(device.cache, (uintptr_t) base, size, 0, ++device.now, e);
}

/* As a transport does: by what is noted, else by the cache. NULL: not to be had. */
static lazy_entry_t *device_find(freq_table_t *table, const char *base, size_t size,
                                 freq_note_t *note)
{
    lazy_entry_t *e = opt.notes ? atomic_load_explicit(note, memory_order_acquire) : NULL;
    if (NULL != e) {
        if (lazy_again(device.cache, e, (uintptr_t) base, size, 0, ++device.now)) {
            return e;
        }
        if (!freq_table_may_renew(table, size)) {
            return NULL;
        }
    }
    const uint64_t before = spec_now();
    if (!device_register(base, size, &e)) {
        freq_table_refused(table, base, size);
        return NULL;
    }
    freq_table_registered(table, size, spec_now() - before);
    atomic_store_explicit(note, e, memory_order_release);
    return e;
}

/* A cache that is empty. */
static void device_forget(void)
{
    const lazy_config_t config = {.make = pin,
                                  .end = unpin,
                                  .data_size = SPECTRUM_MEMORY,
                                  .policy = lazy_policy_at(0),
                                  .max_bytes = SIZE_MAX / 2,
                                  .max_entries = 1 << 20,
                                  .page = PAGE,
                                  .merge = 100,
                                  .seed = 1};
    if (NULL != device.cache) {
        (void) lazy_destroy(device.cache);
    }
    device.cache = lazy_create(&config);
    if (NULL == device.cache) {
        exit(1);
    }
}

void spectrum_complete(lazy_entry_t *e)
{
    lazy_release(device.cache, e);
}

static freq_table_t table;

static size_t least; /* of the rule: smaller messages are not asked of */

/* What is read for each message, as in a BTL's module. */
static _Alignas(64) struct {
    size_t asks; /* least, or SIZE_MAX: as a transport without a table */
    const spectrum_wire_t *wire;
    freq_gate_t gate;
} hot;
_Static_assert(sizeof(freq_gate_t) + 16 <= 64, "one cache line");
static _Atomic uint64_t placed; /* as the component counts them */

/* As mca_btl_ibx_verbs_place does. */
static __attribute__((noinline)) void message_asked(char *buffer, size_t size)
{
    freq_note_t *note;
    if (freq_table_find(&table, buffer, size, &note)) {
        lazy_entry_t *e = device_find(&table, buffer, size, note);
        if (NULL != e) {
            atomic_store_explicit(&placed, atomic_load_explicit(&placed, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
            hot.wire->in_place(buffer, size, e);
            return;
        }
    }
    hot.wire->copied(buffer, size, &hot.gate);
}

/* The same code for both ways: where the compiler puts a function makes differences of more than one per cent by itself. */
static void message(char *buffer, size_t size)
{
    if (size <= hot.wire->inline_max() || size < hot.asks) {
        hot.wire->copied(buffer, size, NULL);
    } else if (freq_gate_passes(&hot.gate, buffer)) {
        hot.wire->copied(buffer, size, &hot.gate);
    } else {
        message_asked(buffer, size);
    }
}

/* ---- costs ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double *a, int n)
{
    qsort(a, (size_t) n, sizeof(*a), by_value);
    return n % 2 ? a[n / 2] : (a[n / 2 - 1] + a[n / 2]) / 2;
}

static int probe_take(void *context, void *base, size_t size, void **registration)
{
    (void) context;
    return device_register(base, size, (lazy_entry_t **) registration) ? 0 : -1;
}

static void probe_give(void *context, void *registration)
{
    (void) context;
    lazy_release(device.cache, registration);
}

static bool probe_again(void *context, void *registration, void *base, size_t size)
{
    (void) context;
    const bool ok = lazy_again(device.cache, registration, (uintptr_t) base, size, 0, ++device.now);
    if (ok) {
        lazy_release(device.cache, registration);
    }
    return ok;
}

static freq_costs_t measure(void)
{
    const freq_probe_t probe = {
        .take = probe_take, .give = probe_give, .again = opt.notes ? probe_again : NULL};
    freq_costs_t costs;
    if (!freq_measure(&probe, (double) opt.measure * 1e6, &costs)) {
        fprintf(stderr, "spectrum: the costs could not be measured (ulimit -l?)\n");
        exit(1);
    }
    device_forget();
    return costs;
}

/* ---- runs ---- */

enum { LINES = 4096 };

static freq_costs_t costs;

static void new_table(void)
{
    static freq_line_t memory[LINES];
    memset(memory, 0, sizeof(memory));
    hot.gate = (freq_gate_t){.due = 0};
    freq_table_init(&table, memory, LINES, FREQ_NEVER, &hot.gate);
    freq_table_by_costs(&table, &costs, (uint32_t) opt.share, (uint32_t) opt.budget);
    least = 0 == table.least ? SIZE_MAX : table.least;
}

typedef struct {
    uint32_t *order; /* which buffer each send is of */
    size_t n;
    size_t stride;
    size_t size;
    char *area;
    size_t area_size;
} work_t;

static uint64_t rng = 1;
static uint32_t below(uint32_t n)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t) ((rng >> 32) * n >> 32);
}

/* The same memory of WINDOW bytes at all addresses: more buffers than there is memory for. */
static char *map_often(size_t size)
{
    enum { WINDOW = 32 << 20 };
    const int fd = memfd_create("spectrum", MFD_CLOEXEC);
    char *area =
        fd < 0 || 0 != ftruncate(fd, WINDOW)
            ? MAP_FAILED
            : mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t at = 0; MAP_FAILED != area && at < size; at += WINDOW) {
        const size_t part = size - at < WINDOW ? size - at : WINDOW;
        if (MAP_FAILED
            == mmap(area + at, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                    fd, 0)) {
            munmap(area, size);
            area = MAP_FAILED;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return area;
}

static char *map(size_t size)
{
    enum { OFTEN = 64 << 20 };
    return size > OFTEN
               ? map_often(size)
               : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void new_work(work_t *w, uint32_t buffers, size_t size, size_t stride)
{
    w->size = size;
    w->stride = stride;
    w->area_size = (buffers * stride + size + PAGE - 1) / PAGE * PAGE;
    w->area = map(w->area_size);
    w->order = malloc(w->n * sizeof(*w->order));
    if (MAP_FAILED == w->area || NULL == w->order) {
        perror("spectrum: memory");
        exit(1);
    }
    memset(w->area, 1, w->area_size);
}

static void free_work(work_t *w)
{
    munmap(w->area, w->area_size);
    free(w->order);
}

/* Of buffers each on pages of its own. */
static size_t apart(size_t size)
{
    return (size + 2 * PAGE - 1) / PAGE * PAGE;
}

/* A slice of messages from `at` on, which goes round at the end. ns. */
static double slice(const work_t *w, size_t at, size_t n, bool freq)
{
    double taken = 0;
    hot.asks = freq ? least : SIZE_MAX;
    for (size_t i = 0; i < n;) {
        const size_t end = n - i < SPECTRUM_BATCH ? n : i + SPECTRUM_BATCH;
        const double start = now_ns();
        for (; i < end; ++i) {
            char *buffer = w->area + w->order[(at + i) % w->n] * w->stride;
            message(buffer, w->size);
        }
        taken += now_ns() - start;
        opt.wire->others();
    }
    return taken;
}

typedef struct {
    double copy, freq;          /* ns per send */
    double ratio, lower, upper; /* freq / copy: median and quartiles of the pairs */
} times_t;

static double quartile(const double *sorted, int n, int quarter)
{
    return sorted[(n - 1) * quarter / 4];
}

/* Both ways once through the work, in slices by turns: what the machine is at does not last longer than some slices, or is
 * there for both. Copies are half the work ahead, so that no side finds in the cache what the other has just read there.
 * A turn in which either was interrupted counts for neither. */
static void once(const work_t *w, double *copy, double *freq)
{
    enum { SLICE = 256 };
    const size_t turns = (w->n + SLICE - 1) / SLICE;
    double *took[2] = {malloc(turns * sizeof(double)), malloc(turns * sizeof(double))};
    double *sorted = malloc(turns * sizeof(double));
    if (NULL == took[0] || NULL == took[1] || NULL == sorted) {
        exit(1);
    }
    device_forget();
    new_table();
    device.registered = 0;
    for (size_t k = 0; k < turns; ++k) {
        const size_t at = k * SLICE, n = w->n - at < SLICE ? w->n - at : SLICE;
        for (size_t half = 0; half < 2; ++half) {
            const bool is_freq = (k + half) % 2;
            took[is_freq][k] = slice(w, at + (is_freq ? 0 : w->n / 2), n, is_freq) / (double) n;
        }
    }
    double limit[2], sum[2] = {0, 0};
    for (int way = 0; way < 2; ++way) {
        memcpy(sorted, took[way], turns * sizeof(*sorted));
        /* Registrations are no interruption. */
        limit[way] = 3 * median(sorted, (int) turns) + 32 * freq_cost_at(costs.r, w->size) / SLICE;
    }
    size_t counted = 0;
    for (size_t k = 0; k < turns; ++k) {
        if (took[0][k] <= limit[0] && took[1][k] <= limit[1]) {
            sum[0] += took[0][k];
            sum[1] += took[1][k];
            ++counted;
        }
    }
    *copy = sum[0] / (double) counted;
    *freq = sum[1] / (double) counted;
    free(took[0]);
    free(took[1]);
    free(sorted);
}

static void compare(const work_t *w, times_t *t)
{
    double c[PAIRS_MAX], f[PAIRS_MAX], r[PAIRS_MAX];
    const int n = (int) opt.pairs;
    (void) slice(w, 0, w->n, false); /* warm */
    for (int p = 0; p < n; ++p) {
        once(w, &c[p], &f[p]);
        r[p] = f[p] / c[p];
    }
    device_forget();
    t->copy = median(c, n);
    t->freq = median(f, n);
    t->ratio = median(r, n);
    t->lower = quartile(r, n, 1);
    t->upper = quartile(r, n, 3);
}

static void row(const char *what, size_t size, long uses, const work_t *w)
{
    times_t t;
    compare(w, &t);
    freq_counts_t counts;
    freq_table_count(&table, LINES, &counts);
    const double avoided = 100.0 * (double) counts.copies_avoided / (double) w->n;
    printf("  %-14s %6zu %6ld %10.1f %10.1f %8.3f %6.3f to %5.3f %7.1f %% %10lu\n", what, size,
           uses, t.copy, t.freq, t.ratio, t.lower, t.upper, avoided, device.registered);
    printf("spectrum scheme=%s size=%zu uses=%ld copy_ns=%.1f freq_ns=%.1f ratio=%.4f lower=%.4f "
           "upper=%.4f "
           "gain=%.2f avoided=%.1f registered=%lu wire=%s\n",
           what, size, uses, t.copy, t.freq, t.ratio, t.lower, t.upper, 100 * (1 - t.ratio),
           avoided, device.registered, opt.wire->name);
    fflush(stdout);
}

/* Buffer i is used i + 1 times. */
static void spectrum(size_t size, bool is_apart)
{
    work_t w = {.n = (size_t) opt.count * (size_t) (opt.count + 1) / 2};
    new_work(&w, (uint32_t) opt.count, size, is_apart ? apart(size) : (size + 63) / 64 * 64);
    size_t n = 0;
    for (uint32_t i = 0; i < opt.count; ++i) {
        for (uint32_t use = 0; use <= i; ++use) {
            w.order[n++] = i;
        }
    }
    for (size_t i = w.n; i > 1; --i) {
        const uint32_t j = below((uint32_t) i), t = w.order[i - 1];
        w.order[i - 1] = w.order[j];
        w.order[j] = t;
    }
    row(is_apart ? "pages-apart" : "back-to-back", size, -1, &w);
    free_work(&w);
}

/* Every buffer is used so often, in turns of 100 buffers. */
static void each(size_t size, uint32_t uses)
{
    enum { TURN = 100 };
    uint32_t buffers = (uint32_t) opt.sends / uses / TURN * TURN;
    buffers = buffers < TURN ? TURN : buffers;
    work_t w = {.n = (size_t) buffers * uses};
    new_work(&w, buffers, size, apart(size));
    size_t n = 0;
    for (uint32_t turn = 0; turn < buffers; turn += TURN) {
        for (uint32_t use = 0; use < uses; ++use) {
            for (uint32_t i = 0; i < TURN; ++i) {
                w.order[n++] = turn + i;
            }
        }
    }
    row("each", size, uses, &w);
    free_work(&w);
}

/* No buffer is used twice: what the table costs a program that has no use for it. */
static void fresh(size_t size)
{
    enum { STEP = 64 };
    work_t w = {.n = (size_t) opt.sends};
    new_work(&w, (uint32_t) w.n, size, STEP);
    for (uint32_t i = 0; i < w.n; ++i) {
        w.order[i] = i;
    }
    row("never-again", size, 1, &w);
    free_work(&w);
}

/* Two of three messages are of buffers that are never used again, the third is of one of --count that are: what those are
 * found by is in no cache when it is needed, and most messages are copied all the same. */
static void mixed(size_t size)
{
    enum { STEP = 64 };
    work_t w = {.n = (size_t) opt.sends};
    new_work(&w, (uint32_t) (w.n + (size_t) opt.count * apart(size) / STEP), size, STEP);
    for (uint32_t i = 0; i < w.n; ++i) {
        w.order[i] =
            i % 3 ? i : (uint32_t) (w.n + below((uint32_t) opt.count) * (apart(size) / STEP));
    }
    row("mixed", size, -1, &w);
    free_work(&w);
}

/* ---- options ---- */

static void usage_error(const char *what)
{
    fprintf(stderr, "spectrum: %s; see the head of spectrum.c\n", what);
    exit(2);
}

static const spectrum_wire_t *wire_named(const char *name)
{
    static const spectrum_wire_t *const wires[] = {
        &spectrum_memory,
#ifdef SPECTRUM_VERBS
        &spectrum_verbs,
#endif
    };
    for (size_t i = 0; i < sizeof(wires) / sizeof(*wires); ++i) {
        if (0 == strcmp(name, wires[i]->name)) {
            return wires[i];
        }
    }
    usage_error("--wire: memory or, if it was built with libibverbs, verbs");
    return NULL;
}

static spectrum_op_t op_named(const char *name)
{
    static const char *const ops[] = {"send", "put", "get"};
    for (int i = 0; i < 3; ++i) {
        if (0 == strcmp(name, ops[i])) {
            return (spectrum_op_t) i;
        }
    }
    usage_error("--op: send, put or get");
    return SPECTRUM_SEND;
}

static void options(int argc, char **argv)
{
    static const struct {
        const char *name;
        long *value, least, most;
    } numbers[] = {{"--count", &opt.count, 1, 10000},
                   {"--pairs", &opt.pairs, 1, PAIRS_MAX},
                   {"--share", &opt.share, 1, 1000},
                   {"--register", &opt.register_ns, 0, 100000000},
                   {"--notes", &opt.notes, 0, 1},
                   {"--budget", &opt.budget, 0, 1000},
                   {"--post", &spectrum_memory_post_ns, 0, 100000000},
                   {"--each", &opt.each, 0, 1},
                   {"--sends", &opt.sends, 1, 10000000},
                   {"--measure", &opt.measure, 1, 1000}};
    const char *sizes = "128,256,512,1024,2048,4096,8192";
    for (int i = 1; i < argc; i += 2) {
        bool known = i + 1 < argc;
        if (known && 0 == strcmp("--sizes", argv[i])) {
            sizes = argv[i + 1];
            continue;
        }
        if (known && 0 == strcmp("--wire", argv[i])) {
            opt.wire = wire_named(argv[i + 1]);
            continue;
        }
        if (known && 0 == strcmp("--op", argv[i])) {
            opt.op = op_named(argv[i + 1]);
            continue;
        }
        size_t k = 0;
        while (k < sizeof(numbers) / sizeof(*numbers) && 0 != strcmp(numbers[k].name, argv[i])) {
            ++k;
        }
        if (!known || k == sizeof(numbers) / sizeof(*numbers)) {
            usage_error(argv[i]);
        }
        char *end;
        *numbers[k].value = strtol(argv[i + 1], &end, 10);
        if ('\0' != *end || *numbers[k].value < numbers[k].least
            || *numbers[k].value > numbers[k].most) {
            usage_error(argv[i]);
        }
    }
    while ('\0' != *sizes && opt.sizes < SIZES_MAX) {
        char *end;
        const unsigned long size = strtoul(sizes, &end, 10);
        if (end == sizes || size < 1 || size > FREQ_SIZE_MAX || (',' != *end && '\0' != *end)) {
            usage_error("--sizes");
        }
        opt.size[opt.sizes++] = size;
        sizes = ',' == *end ? end + 1 : end;
    }
}

int main(int argc, char **argv)
{
    options(argc, argv);
    double start = now_ns();
    for (int i = 0; i < 1000; ++i) {
        clock_ns = now_ns();
    }
    clock_ns = (clock_ns - start) / 1000;

    hot.wire = opt.wire;
    const char *missing = opt.wire->open(opt.op);
    if (NULL != missing) {
        usage_error(missing);
    }
    device_forget();
    costs = measure();
    freq_rule_t rule;
    freq_rule_make(&rule, &costs, (uint32_t) opt.share);
    printf("V %.1f ns, a search where most are copied %.1f ns; budget %ld per mille; R %s; "
           "share %ld %%; %s over %s\n",
           costs.v, costs.search, opt.budget, opt.register_ns < 0 ? "by mlock" : "given", opt.share,
           SPECTRUM_PUT == opt.op   ? "puts"
           : SPECTRUM_GET == opt.op ? "gets"
                                    : "messages",
           opt.wire->name);
    printf("  %6s %12s %10s %10s %10s\n", "bytes", "R, ns", "C, ns", "n", "after");
    for (int s = 0; s < opt.sizes; ++s) {
        const uint32_t class = freq_class_of(opt.size[s]);
        printf("  %6zu %12.1f %10.1f %10u %10u\n", opt.size[s], freq_cost_at(costs.r, opt.size[s]),
               freq_cost_at(costs.c, opt.size[s]), FREQ_CLASSES == class ? 0 : rule.n[class],
               FREQ_CLASSES == class ? 0 : rule.after[class]);
        printf("costs size=%zu register_us=%.4f copy_us=%.4f lookup_us=%.4f n=%u\n", opt.size[s],
               freq_cost_at(costs.r, opt.size[s]) / 1e3, freq_cost_at(costs.c, opt.size[s]) / 1e3,
               costs.v / 1e3, FREQ_CLASSES == class ? 0 : rule.n[class]);
    }
    printf("  %-14s %6s %6s %10s %10s %8s %15s %9s %10s\n", "scheme", "bytes", "uses", "copy, ns",
           "freq, ns", "ratio", "quartiles", "avoided", "registered");
    for (int s = 0; s < opt.sizes; ++s) {
        spectrum(opt.size[s], false);
        spectrum(opt.size[s], true);
        fresh(opt.size[s]);
        mixed(opt.size[s]);
    }
    static const uint32_t uses[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
    for (int s = 0; opt.each && s < opt.sizes; ++s) {
        for (size_t u = 0; u < sizeof(uses) / sizeof(*uses); ++u) {
            each(opt.size[s], uses[u]);
        }
    }
    if (device.failed > 0) {
        printf("registering failed %lu times: the limit of locked memory (ulimit -l)\n",
               device.failed);
    }
    return 0;
}
