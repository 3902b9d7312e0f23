/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What every MPI test program shares.
 *
 * Words: key = what a message's content is generated from (seed, source, destination, tag, number);
 * step = what the program is doing, named when a check fails or the watchdog ends a hang;
 * buffer = memory from tl_buf, with guard bytes on both sides that tl_buf_free checks.
 * Contract: rank 0's last line is 'No errors' and the exit code 0 only if no rank had an error. A
 * line 'SKIP: reason' before it means that there was nothing this machine could show.
 * Not here: running programs and judging them (run), which parameters with (testlist). */
#ifndef TESTLIB_H
#define TESTLIB_H

#include <dlfcn.h>
#include <execinfo.h>
#include <mpi.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TL_GUARD = 128, TL_MAX_REPORTS = 8, TL_STEP_CHARS = 256, TL_PVARS = 32, TL_COUNTERS = 256 };

static struct {
    int rank, size;
    const char *program;
    char step[TL_STEP_CHARS];
    bool tells_steps;
    int errors;   /* counted on every rank, reduced by tl_finish */
    MPI_Comm ctl; /* for the tests' own hand-shakes, so that they disturb no queue of MPI_COMM_WORLD */
    int argc;
    char **argv;
    bool tool_ready;
    MPI_T_pvar_session session;
    int pvars;
    struct {
        char name[64];
        MPI_T_pvar_handle handle;
        bool present;
    } pvar[TL_PVARS];
    int counters;
    struct {
        char name[64];
        MPI_T_pvar_handle handle;
    } counter[TL_COUNTERS];
} tl = {.program = "?", .step = "start", .ctl = MPI_COMM_NULL};

/* ---- what is checked ---- */

__attribute__((format(printf, 1, 2))) static inline void tl_step(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(tl.step, sizeof(tl.step), format, args);
    va_end(args);
    if (tl.tells_steps && 0 == tl.rank) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        fprintf(stderr, "%9.3f %s\n", (double) now.tv_sec + 1e-9 * (double) now.tv_nsec, tl.step);
    }
}

__attribute__((format(printf, 3, 4))) static inline void tl_failed(const char *file, int line,
                                                                   const char *format, ...)
{
    int before = __atomic_fetch_add(&tl.errors, 1, __ATOMIC_RELAXED);
    if (before >= TL_MAX_REPORTS) {
        return;
    }
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    printf("%s:%d: rank %d, %s: %s%s\n", file, line, tl.rank, tl.step, text,
           before + 1 == TL_MAX_REPORTS ? " (further errors of this rank are only counted)" : "");
    fflush(stdout);
}

/* CHECK(condition, "what was expected, and what was seen: %d", x) */
#define CHECK(condition, ...)                                                                      \
    ((condition) ? true : (tl_failed(__FILE__, __LINE__, __VA_ARGS__), false))

/* The error class that a call returned. */
static inline int tl_class(int code)
{
    int class = code;
    if (MPI_SUCCESS != code) {
        MPI_Error_class(code, &class);
    }
    return class;
}

#define CHECK_CLASS(call, wanted)                                                                  \
    do {                                                                                           \
        int tl_code_ = (call);                                                                     \
        CHECK(tl_class(tl_code_) == (wanted), "%s: expected error class %s (%d), got %d", #call,   \
              #wanted, (wanted), tl_class(tl_code_));                                              \
    } while (0)

#define CHECK_STATUS(status, source, tag, bytes)                                                   \
    tl_check_status(__FILE__, __LINE__, &(status), source, tag, bytes)

static inline void tl_check_status(const char *file, int line, MPI_Status *status, int source,
                                   int tag, size_t bytes)
{
    MPI_Count count = -1;
    MPI_Get_elements_x(status, MPI_BYTE, &count);
    if (status->MPI_SOURCE != source || status->MPI_TAG != tag || count != (MPI_Count) bytes) {
        tl_failed(file, line, "expected source %d tag %d bytes %zu, got source %d tag %d bytes %lld",
                  source, tag, bytes, status->MPI_SOURCE, status->MPI_TAG, (long long) count);
    }
}

/* ---- content ---- */

static inline uint64_t tl_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t tl_key(uint64_t seed, int src, int dst, int tag, uint64_t number)
{
    uint64_t k = tl_mix(seed + 0x51ed27u);
    k = tl_mix(k ^ (uint32_t) src);
    k = tl_mix(k ^ ((uint64_t) (uint32_t) dst << 20));
    k = tl_mix(k ^ ((uint64_t) (uint32_t) tag << 32));
    return tl_mix(k ^ number);
}

static inline uint64_t tl_word(uint64_t key, uint64_t index)
{
    uint64_t x = key + index * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

static inline unsigned char tl_byte(uint64_t key, uint64_t offset)
{
    return (unsigned char) (tl_word(key, offset >> 3) >> (8 * (offset & 7)));
}

/* Bytes `from` to `from + n` of the content of `key`. */
static inline void tl_fill_from(void *buf, size_t n, uint64_t key, uint64_t from)
{
    unsigned char *p = buf;
    size_t i = 0;
    for (; i < n && 0 != ((from + i) & 7); ++i) {
        p[i] = tl_byte(key, from + i);
    }
    for (; i + 8 <= n; i += 8) {
        uint64_t w = tl_word(key, (from + i) >> 3);
        for (int b = 0; b < 8; ++b) {
            p[i + b] = (unsigned char) (w >> (8 * b));
        }
    }
    for (; i < n; ++i) {
        p[i] = tl_byte(key, from + i);
    }
}

static inline void tl_fill(void *buf, size_t n, uint64_t key)
{
    tl_fill_from(buf, n, key, 0);
}

/* Index of the first byte that is not as tl_fill_from would have it; n if all are. */
static inline size_t tl_differs_from(const void *buf, size_t n, uint64_t key, uint64_t from)
{
    const unsigned char *p = buf;
    size_t i = 0;
    unsigned char block[512];
    while (i < n) {
        size_t part = n - i < sizeof(block) ? n - i : sizeof(block);
        tl_fill_from(block, part, key, from + i);
        if (0 != memcmp(block, p + i, part)) {
            for (size_t b = 0; b < part; ++b) {
                if (block[b] != p[i + b]) {
                    return i + b;
                }
            }
        }
        i += part;
    }
    return n;
}

static inline size_t tl_differs(const void *buf, size_t n, uint64_t key)
{
    return tl_differs_from(buf, n, key, 0);
}

#define VERIFY(buf, n, key) tl_verify(__FILE__, __LINE__, buf, n, key)

static inline bool tl_verify(const char *file, int line, const void *buf, size_t n, uint64_t key)
{
    size_t at = tl_differs(buf, n, key);
    if (at < n) {
        tl_failed(file, line, "byte %zu of %zu: expected 0x%02x, got 0x%02x", at, n,
                  tl_byte(key, at), ((const unsigned char *) buf)[at]);
    }
    return at >= n;
}

/* ---- buffers ---- */

#define TL_POISON 0xA5

/* Memory of an accelerator where device.so is loaded (test/accel), which then has MPI take it for that; else of the host. */
static inline void *tl_memory(size_t n)
{
    void *(*take)(size_t);
    *(void **) &take = dlsym(NULL, "device_take");
    void *device = NULL == take ? NULL : take(n);
    return NULL == device ? malloc(n) : device;
}

static inline void tl_memory_free(void *p)
{
    bool (*give)(void *);
    *(void **) &give = dlsym(NULL, "device_give");
    if (NULL == give || !give(p)) {
        free(p);
    }
}

/* n bytes, poisoned, between guards. */
static inline void *tl_buf(size_t n)
{
    unsigned char *base = tl_memory(n + 2 * TL_GUARD);
    if (NULL == base) {
        printf("rank %d: no memory for %zu bytes\n", tl.rank, n);
        MPI_Abort(MPI_COMM_WORLD, 1);
        abort();
    }
    memset(base, 0x5A, TL_GUARD);
    memcpy(base, &n, sizeof(n));
    memset(base + TL_GUARD, TL_POISON, n);
    memset(base + TL_GUARD + n, 0x5A, TL_GUARD);
    return base + TL_GUARD;
}

static inline void tl_poison(void *buf, size_t n)
{
    memset(buf, TL_POISON, n);
}

#define UNTOUCHED(buf, from, to) tl_untouched(__FILE__, __LINE__, buf, from, to)

/* The bytes from..to must be poison still. */
static inline void tl_untouched(const char *file, int line, const void *buf, size_t from, size_t to)
{
    const unsigned char *p = buf;
    for (size_t i = from; i < to; ++i) {
        if (TL_POISON != p[i]) {
            tl_failed(file, line, "byte %zu must not be written, but is 0x%02x", i, p[i]);
            return;
        }
    }
}

#define GUARDS(buf) tl_guards(__FILE__, __LINE__, buf)

static inline void tl_guards(const char *file, int line, const void *buf)
{
    const unsigned char *base = (const unsigned char *) buf - TL_GUARD;
    size_t n;
    memcpy(&n, base, sizeof(n));
    for (size_t i = sizeof(n); i < TL_GUARD; ++i) {
        if (0x5A != base[i]) {
            tl_failed(file, line, "byte %zd before a buffer of %zu was written", TL_GUARD - i, n);
            return;
        }
    }
    for (size_t i = 0; i < TL_GUARD; ++i) {
        if (0x5A != base[TL_GUARD + n + i]) {
            tl_failed(file, line, "byte %zu behind a buffer of %zu was written", i, n);
            return;
        }
    }
}

#define FREE(buf) tl_buf_free(__FILE__, __LINE__, buf)

static inline void tl_buf_free(const char *file, int line, void *buf)
{
    tl_guards(file, line, buf);
    tl_memory_free((unsigned char *) buf - TL_GUARD);
}

/* ---- sizes ---- */

/* A few sizes of each protocol. */
static const size_t tl_few[] = {0,     1,      8,      257,    4000,   4096,    4097,       32768 + 5,
                                65400, 65536, 66001, 131072 + 5, 1u << 20, (4u << 20) + 3};
#define TL_N(array) (sizeof(array) / sizeof((array)[0]))

/* Every size at which one of the protocols may take over from another, headers of up to 128 bytes
 * allowed for. Returns how many; at most TL_MAX_EDGES. */
enum { TL_MAX_EDGES = 256 };

static inline int tl_edges(size_t *sizes)
{
    static const struct {
        size_t from, to, step;
    } range[] = {{0, 2, 1},           {7, 9, 1},           {63, 65, 1},         {120, 136, 8},
                 {184, 200, 8},       {248, 264, 4},       {255, 257, 1},       {448, 520, 8},
                 {1023, 1025, 1},     {4095 - 127, 4095 + 65, 8},               {32768 - 64, 32768 + 64, 16},
                 {65400, 65600, 8},   {131072 - 128, 131072 + 64, 16},          {1u << 20, 1u << 20, 1},
                 {(4u << 20) + 3, (4u << 20) + 3, 1}};
    int n = 0;
    for (size_t r = 0; r < TL_N(range); ++r) {
        for (size_t s = range[r].from; s <= range[r].to; s += range[r].step) {
            sizes[n++] = s;
            if (range[r].step >= 8 && s < range[r].to) {
                sizes[n++] = s + 1; /* headers are multiples of 8: the edge is between s and s + 1 */
            }
        }
    }
    return n;
}

enum { TL_LARGEST = (4 << 20) + 3 };

/* ---- random numbers ---- */

typedef struct {
    uint64_t state;
} tl_rng_t;

static inline uint64_t tl_random(tl_rng_t *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    return tl_mix(rng->state);
}

static inline uint64_t tl_below(tl_rng_t *rng, uint64_t limit)
{
    return tl_random(rng) % limit;
}

/* Spend an unpredictable moment: some computation, some progress, or nothing. */
static inline void tl_dither(tl_rng_t *rng)
{
    uint64_t what = tl_below(rng, 4);
    if (1 == what) {
        volatile unsigned spin = (unsigned) tl_below(rng, 20000);
        while (spin > 0) {
            --spin;
        }
    } else if (2 == what) {
        int flag;
        for (uint64_t i = tl_below(rng, 8); i > 0; --i) {
            MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
            MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        }
    } else if (3 == what) {
        usleep((useconds_t) tl_below(rng, 200));
    }
}

/* ---- hand-shakes ---- */

static inline void tl_tell(int peer)
{
    MPI_Send(NULL, 0, MPI_BYTE, peer, 1, tl.ctl);
}

static inline void tl_hear(int peer)
{
    MPI_Recv(NULL, 0, MPI_BYTE, peer, 1, tl.ctl, MPI_STATUS_IGNORE);
}

/* Return when such a message has arrived and is unexpected. */
static inline void tl_await(int source, int tag, MPI_Comm comm)
{
    int flag = 0;
    while (!flag) {
        MPI_Iprobe(source, tag, comm, &flag, MPI_STATUS_IGNORE);
    }
}

/* ---- what is said beside MPI: by a file that both processes see ---- */

static struct {
    char path[256];
    int signals; /* said or heard so far; both sides count alike */
} tl_outside;

/* Collective, before the others. */
static inline void tl_outside_start(void)
{
    if (0 == tl.rank) {
        const char *dir = getenv("TMPDIR");
        (void) snprintf(tl_outside.path, sizeof(tl_outside.path), "%s/%s.%ld",
                        NULL != dir ? dir : "/tmp", tl.program, (long) getpid());
    }
    MPI_Bcast(tl_outside.path, sizeof(tl_outside.path), MPI_CHAR, 0, MPI_COMM_WORLD);
}

static inline void tl_outside_name(char *name, size_t size)
{
    (void) snprintf(name, size, "%s.%d", tl_outside.path, tl_outside.signals++);
}

static inline void tl_outside_tell(void)
{
    char name[300];
    tl_outside_name(name, sizeof(name));
    FILE *file = fopen(name, "w");
    CHECK(NULL != file, "the file %s was not made", name);
    if (NULL != file) {
        (void) fclose(file);
    }
}

/* Calls nothing of MPI. */
static inline void tl_outside_await(void)
{
    char name[300];
    tl_outside_name(name, sizeof(name));
    while (0 != access(name, F_OK)) {
        (void) usleep(100);
    }
    (void) unlink(name);
}

/* ---- performance variables ---- */

/* False: there is no interface for tools. It is open until tl_finish. */
static inline bool tl_tools(void)
{
    int provided;
    if (!tl.tool_ready && MPI_SUCCESS == MPI_T_init_thread(MPI_THREAD_SINGLE, &provided)) {
        tl.tool_ready = MPI_SUCCESS == MPI_T_pvar_session_create(&tl.session);
    }
    return tl.tool_ready;
}

/* The counter of that name, -1 if there is none. Only differences mean something: it is counted
 * from the first call with its name on. */
static inline long long tl_pvar(const char *name)
{
    if (!tl_tools()) {
        return -1;
    }
    int slot = 0;
    while (slot < tl.pvars && 0 != strcmp(tl.pvar[slot].name, name)) {
        ++slot;
    }
    if (slot == TL_PVARS) {
        return -1;
    }
    if (slot == tl.pvars) {
        ++tl.pvars;
        snprintf(tl.pvar[slot].name, sizeof(tl.pvar[slot].name), "%s", name);
        int index, count = 0;
        tl.pvar[slot].present =
            (MPI_SUCCESS == MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index)
             || MPI_SUCCESS == MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_HIGHWATERMARK, &index))
            && MPI_SUCCESS
                   == MPI_T_pvar_handle_alloc(tl.session, index, NULL, &tl.pvar[slot].handle, &count)
            && 1 == count;
        if (tl.pvar[slot].present) {
            MPI_T_pvar_start(tl.session, tl.pvar[slot].handle);
        }
    }
    unsigned long long value = 0;
    if (!tl.pvar[slot].present
        || MPI_SUCCESS != MPI_T_pvar_read(tl.session, tl.pvar[slot].handle, &value)) {
        return -1;
    }
    return (long long) value;
}

/* ---- start and end ---- */

/* Every counter of our components is counted from here on, for whoever asks when it hangs: a variable that is first read
 * then is zero. */
static inline void tl_open_counters(void)
{
    int n = 0;
    if (tl_tools()) {
        (void) MPI_T_pvar_get_num(&n);
    }
    for (int i = 0; i < n && tl.counters < TL_COUNTERS; ++i) {
        char text[8], *name = tl.counter[tl.counters].name;
        int length = sizeof(tl.counter[0].name), text_length = sizeof(text), verbosity, class;
        int bind, readonly, continuous, atomic, count = 0;
        MPI_Datatype type;
        MPI_T_enum values;
        if (MPI_SUCCESS
                == MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, &values, text,
                                       &text_length, &bind, &readonly, &continuous, &atomic)
            && MPI_T_BIND_NO_OBJECT == bind && MPI_UNSIGNED_LONG_LONG == type
            && (0 == strncmp(name, "pml_spec_", 9) || 0 == strncmp(name, "btl_ibx_", 8))
            && MPI_SUCCESS
                   == MPI_T_pvar_handle_alloc(tl.session, i, NULL, &tl.counter[tl.counters].handle,
                                              &count)
            && 1 == count) {
            ++tl.counters;
        }
    }
}

/* Those of a component that are not zero, to the standard output: what was under way. */
static inline void tl_print_counters(const char *component)
{
    int shown = 0;
    for (int i = 0; i < tl.counters; ++i) {
        unsigned long long value = 0;
        if (0 == strncmp(tl.counter[i].name, component, strlen(component))
            && MPI_SUCCESS == MPI_T_pvar_read(tl.session, tl.counter[i].handle, &value)
            && 0 != value) {
            if (0 == shown++) {
                printf("rank %d:", tl.rank);
            }
            printf(" %s %llu", tl.counter[i].name, value);
        }
    }
    printf(shown > 0 ? "\n" : "");
    fflush(stdout);
}

/* The stacks of all threads, by gdb, to the standard output; says so if there is no gdb. Also from a signal handler. */
static inline void tl_print_stacks(void)
{
    char command[320];
    char *const argv[] = {"sh", "-c", command, NULL};
    char *const no_words[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL}; /* no sanitizer's */
    pid_t pid;
    snprintf(command, sizeof(command),
             "command -v gdb >/dev/null || { echo 'rank %d: no gdb, no stacks'; exit; }; "
             "timeout 10 gdb -p %d -batch -nx -ex 'thread apply all backtrace 24' 2>&1 </dev/null "
             "| grep -E '^(#|Thread)' | sed 's/^/rank %d| /'",
             tl.rank, (int) getpid(), tl.rank);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* or only a parent may trace */
    if (0 == posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, no_words)) {
        waitpid(pid, NULL, 0);
    }
}

/* A hang ends here. Other ranks get the time to name their steps too before mpirun kills them; the counters come last,
 * with little time, since reading them may hang as well. */
static inline void tl_watchdog(int signal_number)
{
    (void) signal_number;
    char text[TL_STEP_CHARS + 128];
    int n = snprintf(text, sizeof(text), "watchdog: rank %d of %s hangs in step: %s\n", tl.rank,
                     tl.program, tl.step);
    ssize_t written = write(STDOUT_FILENO, text, (size_t) n);
    (void) written;
    void *frame[32];
    backtrace_symbols_fd(frame, backtrace(frame, 32), STDOUT_FILENO);
    if (tl.size <= 4) {
        tl_print_stacks(); /* of all threads; with many ranks it takes too long */
    }
    sigset_t alone;
    sigemptyset(&alone);
    sigaddset(&alone, SIGALRM); /* blocked while it is handled */
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &alone, NULL);
    alarm(6);
    tl_print_counters("pml_spec_");
    tl_print_counters(
        "btl_ibx_"); /* whose lock the process may have held when it was interrupted */
    sleep(3);
    _exit(3);
}

/* --name VALUE among the arguments, or the default. */
static inline long long tl_option(const char *name, long long otherwise)
{
    for (int i = 1; i + 1 < tl.argc; ++i) {
        if (0 == strcmp(tl.argv[i], name)) {
            return strtoll(tl.argv[i + 1], NULL, 0);
        }
    }
    return otherwise;
}

static inline bool tl_flag(const char *name)
{
    for (int i = 1; i < tl.argc; ++i) {
        if (0 == strcmp(tl.argv[i], name)) {
            return true;
        }
    }
    return false;
}

/* MPI_Init and all the rest. The watchdog's time is TEST_SECONDS, or the number given. With TEST_STEPS in the environment rank 0
 * tells each step, with the time: is what is not done in time slow, or does it hang? Returns the thread support that MPI provides. */
static inline int tl_start_thread(int *argc, char ***argv, const char *program, int seconds,
                                  int wanted)
{
    int provided = MPI_THREAD_SINGLE;
    void *frame[1];
    backtrace(frame, 1); /* loads what it needs now, not in the signal handler */
    tl.program = program;
    const char *limit = getenv("TEST_SECONDS");
    signal(SIGALRM, tl_watchdog);
    alarm(NULL != limit && atoi(limit) > 0 ? (unsigned) atoi(limit) : (unsigned) seconds);
    tl.tells_steps = NULL != getenv("TEST_STEPS");
    tl_step("MPI_Init");
    MPI_Init_thread(argc, argv, wanted, &provided);
    tl.argc = *argc;
    tl.argv = *argv;
    MPI_Comm_rank(MPI_COMM_WORLD, &tl.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &tl.size);
    tl_open_counters();
    MPI_Comm_dup(MPI_COMM_WORLD, &tl.ctl);
    tl_pvar("pml_spec_refused");
    return provided;
}

static inline void tl_start(int *argc, char ***argv, const char *program, int seconds)
{
    tl_start_thread(argc, argv, program, seconds, MPI_THREAD_SINGLE);
}

/* True under Open MPI's own ob1: for the few things known to be broken there. */
static inline bool tl_under_ob1(void)
{
    const char *pml = getenv("OMPI_MCA_pml");
    return NULL == pml || 0 == strcmp(pml, "ob1");
}

/* Kilobytes that /proc/meminfo calls available; 0 if it cannot be read. */
static inline long long tl_available(void)
{
    char line[256];
    long long kib = 0;
    FILE *in = fopen("/proc/meminfo", "r");
    while (NULL != in && NULL != fgets(line, sizeof(line), in)) {
        sscanf(line, "MemAvailable: %lld", &kib);
    }
    if (NULL != in) {
        fclose(in);
    }
    return kib;
}

/* For rank 0 to say why (a part of) the program has nothing to show. */
static inline void tl_skip(const char *reason)
{
    if (0 == tl.rank) {
        printf("SKIP: %s\n", reason);
        fflush(stdout);
    }
}

/* The last word. The value is main's. */
static inline int tl_finish(void)
{
    int flag = 0, sum = 0, refused = (int) tl_pvar("pml_spec_refused");
    MPI_Status status;
    tl_step("the end");
    MPI_Barrier(tl.ctl);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
    CHECK(!flag, "a message nobody received is left: source %d tag %d", status.MPI_SOURCE,
          status.MPI_TAG);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, tl.ctl, &flag, &status);
    CHECK(!flag, "a hand-shake too many: from %d", status.MPI_SOURCE);
    CHECK(refused <= 0, "pml/spec refused %d packets", refused);
    MPI_Allreduce(&tl.errors, &sum, 1, MPI_INT, MPI_SUM, tl.ctl);
    MPI_Comm_free(&tl.ctl);
    if (tl.tool_ready) {
        MPI_T_pvar_session_free(&tl.session);
        MPI_T_finalize();
    }
    tl_step("MPI_Finalize");
    MPI_Finalize();
    if (0 == tl.rank) {
        if (0 == sum) {
            printf("No errors\n");
        } else {
            printf("%d errors in %s\n", sum, tl.program);
        }
    }
    return 0 == sum ? 0 : 1;
}

#endif
