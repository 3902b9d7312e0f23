/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* mpool/freq, a memory pool of Open MPI: memory for MPI_Alloc_mem that is registered with the network before it is used,
 * and a table that tells a transport which small buffers to send in place. What all its files share.
 *
 *   segment   memory from the kernel, registered as a whole with every transport that registers
 *   pool      segments that many allocations share; an allocation from segment_min on has its own
 *   default   MPI_Alloc_mem calls that ask for no particular pool
 *   table     counts of uses of small buffers, one for each transport that asked (opal/include/spec/promises.h)
 *
 * core/ is plain C: what is decided. These files do it.
 *
 * Threads: one lock (mca_mpool_freq_component.lock) covers the segments. A segment is registered under it, so that that
 * happens once; BTLs do not allocate from here while they register. Counters are atomic. */
#ifndef MPOOL_FREQ_H
#define MPOOL_FREQ_H

#include "mpool_freq_compat.h"

#include "opal/include/spec/explain.h"
#include "opal/include/spec/promises.h"
#include "opal/include/spec/tell.h"

#include "core/freq_hints.h"
#include "core/freq_rule.h"
#include "core/freq_space.h"
#include "core/freq_table.h"

#include <pthread.h>

#define MCA_MPOOL_FREQ_HELP "help-mpi-mpool-freq.txt"

enum {
    MCA_MPOOL_FREQ_UNIT = 256, /* bytes: what the pool is cut into, and its alignment */
    MCA_MPOOL_FREQ_UNIT_LOG = 8,
    MCA_MPOOL_FREQ_TABLES = 8,         /* transports */
    MCA_MPOOL_FREQ_TABLE_LINES = 4096, /* 12288 buffers in 256 KiB */
    MCA_MPOOL_FREQ_DEFAULT_MIN = 1024, /* bytes: smaller messages are copied anyway */
    MCA_MPOOL_FREQ_ALIGNMENTS = 32
};

/* ---- counters (mpool_freq_report.c shows them) ---- */

#define MCA_MPOOL_FREQ_COUNTERS(X)                                                                 \
    X(pool_allocations, "allocations served from the pool")                                        \
    X(own_allocations, "allocations served with a segment of their own")                           \
    X(left_to_malloc, "default allocations too small for the pool, left to malloc")                \
    X(failed_allocations, "allocations that failed; Open MPI 4.1 then uses malloc")                \
    X(frees, "allocations given back")                                                             \
    X(frees_refused, "frees of memory that was not allocated here, ignored")                       \
    X(segments, "segments mapped")                                                                 \
    X(segments_huge, "segments on huge pages (MAP_HUGETLB)")                                       \
    X(registrations, "registrations of segments with a transport")                                 \
    X(registrations_failed, "registrations of segments that a transport refused")                  \
    X(deregistrations, "registrations of segments given back")

typedef struct mca_mpool_freq_counters {
#define FIELD(name, text) _Atomic uint64_t name;
    MCA_MPOOL_FREQ_COUNTERS(FIELD)
#undef FIELD
    _Atomic uint64_t bytes_mapped, bytes_mapped_most, bytes_registered, bytes_registered_most;
    _Atomic uint64_t bytes_used;
} mca_mpool_freq_counters_t;

static inline void mca_mpool_freq_count(_Atomic uint64_t *counter)
{
    (void) atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- tables ---- */

_Static_assert((int) MCA_MPOOL_FREQ_SIZE_MAX == (int) FREQ_SIZE_MAX, "what is published is so");

/* A table as the service gives it out, with what is kept beside it. */
typedef struct mca_mpool_freq_own {
    freq_table_t core; /* first: aligned */
    char name[64];
    bool is_open;
    freq_line_t *lines;
    freq_costs_t costs;
    const char *costs_from; /* "measured", ... */
    freq_counts_t last;     /* when it was closed */
    freq_gate_t *gate;      /* the transport's, or, when it was closed, the next */
    freq_gate_t last_gate;
    mca_mpool_freq_traffic_t traffic;
} mca_mpool_freq_own_t;

/* ---- the pool's modules ---- */

/* The interface hands no hints to the allocation itself, so that each kind of request has a module of its own, with which a
 * query is answered. */
typedef struct mca_mpool_freq_module {
    mca_mpool_base_module_t super;
    bool is_default; /* small allocations are left to malloc */
    bool must_be_shared;
    size_t alignment; /* bytes */
} mca_mpool_freq_module_t;

typedef struct mca_mpool_freq_component {
    mca_mpool_freq_public_t super;
    /* parameters */
    bool is_default;
    size_t segment_min, pool_size;
    bool huge_pages;
    unsigned budget; /* permille */
    int fixed_uses;  /* -1: measure */
    unsigned measure_ms;
    char *cost_dir;
    int summary;
    /* state */
    pthread_mutex_t lock;
    mca_mpool_freq_counters_t counters;
    mca_mpool_freq_own_t *table[MCA_MPOOL_FREQ_TABLES];
} mca_mpool_freq_component_t;

extern mca_mpool_freq_component_t mca_mpool_freq_component;
extern const mca_mpool_freq_service_t mca_mpool_freq_the_service;

/* ---- mpool_freq_module.c ---- */

/* The module that serves what the hints ask for. */
mca_mpool_base_module_t *mca_mpool_freq_module_for(const freq_hints_t *hints);

/* Bytes as asked of the pool: a multiple of `alignment` (a power of two, 1: any). NULL: not to be
 * had; with must_be_shared also if some transport does not register it. */
void *mca_mpool_freq_alloc(size_t size, size_t alignment, bool must_be_shared);

/* Gives back the registrations of all segments, which stay. Takes the lock. */
void mca_mpool_freq_deregister_all(void);

/* False (and counted): nothing that begins there is allocated here. */
bool mca_mpool_freq_free(void *base);

/* Bytes from base to the end of its allocation; 0: it is not from here. is_registered: with every
 * transport that registers. */
size_t mca_mpool_freq_size(const void *base, bool *is_registered);

void mca_mpool_freq_modules_init(void);

/* ---- mpool_freq_pmpi.c ---- */

/* This thread is in our MPI_Alloc_mem, which returns an error where Open MPI's would not. */
extern _Thread_local bool mca_mpool_freq_is_wrapped;

/* ---- mpool_freq_tables.c ---- */

void mca_mpool_freq_tables_end(void);

/* ---- mpool_freq_measure.c ---- */

/* Costs with a transport: from the file of an earlier measurement on this host, or measured now
 * within the time of the parameter. False: neither. *from tells which, for the summary. */
bool mca_mpool_freq_costs(const mca_mpool_freq_transport_t *transport, freq_costs_t *costs,
                          const char **from);

/* ---- mpool_freq_report.c ---- */

void mca_mpool_freq_report_register(void);
void mca_mpool_freq_report_print(void);

#endif
