/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The PML's own counters (MPI_T performance variables), read by name and summed over all processes.
 *
 * A counter that some process does not have is absent: it is printed as 'absent', never as 0.
 * Include after bench.h. */
#ifndef BENCH_COUNTERS_H
#define BENCH_COUNTERS_H

#include "bench.h"

enum { COUNTERS_MOST = 24 };

struct bench_counters {
    int n;
    const char *const *names; /* without the prefix */
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[COUNTERS_MOST];
    int present[COUNTERS_MOST];
    bool level[COUNTERS_MOST]; /* no count: what it is at the end */
    unsigned long long first[COUNTERS_MOST], sums[COUNTERS_MOST];
};

/* Whose counters: another component's, if that is defined before. */
#ifndef COUNTERS_PREFIX
#    define COUNTERS_PREFIX "pml_spec_"
#endif
static const char counters_prefix[] = COUNTERS_PREFIX;

/* A counter or level of one unsigned long long that belongs to no object; anything else is as good as absent. */
static inline bool counter_open(struct bench_counters *c, int i)
{
    char name[128];
    int index, verbosity, class, bind, readonly, continuous, atomic, count, name_len = 0,
                                                                            text_len = 0;
    MPI_Datatype type;
    MPI_T_enum values;
    snprintf(name, sizeof(name), "%s%s", counters_prefix, c->names[i]);
    c->level[i] = MPI_SUCCESS != MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index);
    if ((c->level[i] && MPI_SUCCESS != MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_LEVEL, &index))
        || MPI_SUCCESS
               != MPI_T_pvar_get_info(index, NULL, &name_len, &verbosity, &class, &type, &values,
                                      NULL, &text_len, &bind, &readonly, &continuous, &atomic)
        || MPI_T_BIND_NO_OBJECT != bind || MPI_UNSIGNED_LONG_LONG != type) {
        return false;
    }
    if (MPI_SUCCESS != MPI_T_pvar_handle_alloc(c->session, index, NULL, &c->handles[i], &count)) {
        return false;
    }
    if (!continuous) {
        MPI_T_pvar_start(c->session, c->handles[i]);
    }
    return 1 == count;
}

static inline unsigned long long counter_read(struct bench_counters *c, int i)
{
    unsigned long long value = 0;
    if (c->present[i]) {
        MPI_T_pvar_read(c->session, c->handles[i], &value);
    }
    return value;
}

/* names: ends with NULL, stays the caller's. Collective, as are the others. */
static inline void bench_counters_open(struct bench_counters *c, const char *const *names)
{
    int provided;
    c->names = names;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&c->session);
    for (c->n = 0; c->n < COUNTERS_MOST && NULL != names[c->n]; ++c->n) {
        c->present[c->n] = counter_open(c, c->n);
    }
    MPI_Allreduce(MPI_IN_PLACE, c->present, c->n, MPI_INT, MPI_MIN, bench.ctl);
}

/* From here on is counted. */
static inline void bench_counters_begin(struct bench_counters *c)
{
    MPI_Barrier(bench.ctl);
    for (int i = 0; i < c->n; ++i) {
        c->first[i] = c->level[i] ? 0 : counter_read(c, i);
    }
    MPI_Barrier(bench.ctl);
}

/* What was counted since, in sums. */
static inline void bench_counters_end(struct bench_counters *c)
{
    MPI_Barrier(bench.ctl);
    for (int i = 0; i < c->n; ++i) {
        c->sums[i] = counter_read(c, i) - c->first[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, c->sums, c->n, MPI_UNSIGNED_LONG_LONG, MPI_SUM, bench.ctl);
}

/* Sum of the counter, or -1 when it is absent. */
static inline double bench_counter(const struct bench_counters *c, const char *name)
{
    for (int i = 0; i < c->n; ++i) {
        if (0 == strcmp(name, c->names[i])) {
            return c->present[i] ? (double) c->sums[i] : -1.0;
        }
    }
    return -1.0;
}

/* ' key=value' or ' key=absent' for a value that a counter may be missing for. */
static inline void bench_print_or_absent(const char *key, double value, int digits)
{
    if (value < 0) {
        printf(" %s=absent", key);
    } else {
        printf(" %s=%.*f", key, digits, value);
    }
}

static inline void bench_counters_print(const struct bench_counters *c)
{
    for (int i = 0; i < c->n; ++i) {
        bench_print_or_absent(c->names[i], bench_counter(c, c->names[i]), 0);
    }
}

static inline void bench_counters_close(struct bench_counters *c)
{
    MPI_T_pvar_session_free(&c->session);
    MPI_T_finalize();
}

#endif
