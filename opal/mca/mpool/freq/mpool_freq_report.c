/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a user sees of mpool/freq: its performance variables (MPI_T), and the summary that mpool_freq_summary prints at the end. */
#include "mpool_freq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static const struct {
    const char *name, *text;
    size_t offset;
    int class;
} counters[] = {
#define ROW(name, text)                                                                            \
    {#name, text, offsetof(mca_mpool_freq_counters_t, name), MCA_BASE_PVAR_CLASS_COUNTER},
    MCA_MPOOL_FREQ_COUNTERS(ROW)
#undef ROW
        {"bytes_mapped", "bytes of all segments now",
         offsetof(mca_mpool_freq_counters_t, bytes_mapped), MCA_BASE_PVAR_CLASS_LEVEL},
    {"bytes_mapped_most", "bytes of all segments at most",
     offsetof(mca_mpool_freq_counters_t, bytes_mapped_most), MCA_BASE_PVAR_CLASS_HIGHWATERMARK},
    {"bytes_registered", "bytes of the segments that are registered with a transport now",
     offsetof(mca_mpool_freq_counters_t, bytes_registered), MCA_BASE_PVAR_CLASS_LEVEL},
    {"bytes_registered_most", "bytes of the segments that were registered with a transport at most",
     offsetof(mca_mpool_freq_counters_t, bytes_registered_most), MCA_BASE_PVAR_CLASS_HIGHWATERMARK},
    {"bytes_used", "bytes that are allocated now, as the pool counts them",
     offsetof(mca_mpool_freq_counters_t, bytes_used), MCA_BASE_PVAR_CLASS_LEVEL},
};

static const struct {
    const char *name, *text;
    size_t offset;
    int class;
} table_counts[] = {
#define ROW(name, field, text, class)                                                              \
    {                                                                                              \
        name, text, offsetof(freq_counts_t, field), MCA_BASE_PVAR_CLASS_##class                    \
    }
    ROW("table_buffers", buffers, "buffers in the tables of uses now", LEVEL),
    ROW("table_capacity", most, "buffers that the tables of uses have room for", LEVEL),
    ROW("table_frequent", frequent, "buffers in the tables that are sent in place", LEVEL),
    ROW("table_added", added, "buffers added to the tables of uses", COUNTER),
    ROW("table_replaced", replaced, "buffers that made room for others in the tables", COUNTER),
    ROW("table_refused", refused, "frequently used buffers that could not be registered", COUNTER),
    ROW("table_searches", searched, "small messages that were searched for in the tables", COUNTER),
    ROW("copies_avoided", copies_avoided, "small messages that the tables said to send in place",
        COUNTER),
#undef ROW
};

/* Counted by the transports. */
static const struct {
    const char *name, *text;
    size_t offset;
    bool is_gate;
} traffic[] = {
#define ROW(type, name, text, is_gate)                                                             \
    {                                                                                              \
        "sent_" #name, text, offsetof(type, name), is_gate                                         \
    }
    ROW(freq_gate_t, copies, "payloads of small messages, puts and gets that the transport copied",
        true),
    ROW(freq_gate_t, bytes_copied, "bytes of small payloads that the transport copied", true),
    ROW(mca_mpool_freq_traffic_t, in_place, "payloads that the transport left where they are",
        false),
    ROW(mca_mpool_freq_traffic_t, bytes_in_place,
        "bytes of payloads that the transport left where they are", false),
    ROW(mca_mpool_freq_traffic_t, notes_used,
        "payloads left where they are whose registration was found without a search in the cache",
        false),
#undef ROW
};
enum { TRAFFIC = sizeof(traffic) / sizeof(*traffic) };

enum { COUNTERS = sizeof(counters) / sizeof(*counters) };
enum { TABLE_COUNTS = sizeof(table_counts) / sizeof(*table_counts) };

static uint64_t counter(size_t i)
{
    return atomic_load((const _Atomic uint64_t *) ((const char *) &mca_mpool_freq_component.counters
                                                   + counters[i].offset));
}

/* The counts of a table, or of what is left of it. The lock is held. */
static freq_counts_t counts_of(mca_mpool_freq_table_t *table)
{
    freq_counts_t counts = table->last;
    if (table->is_open) {
        freq_table_count(&table->core, MCA_MPOOL_FREQ_TABLE_LINES, &counts);
    }
    return counts;
}

static uint64_t field(const freq_counts_t *counts, size_t offset)
{
    return *(const uint64_t *) ((const char *) counts + offset);
}

/* ---- performance variables ---- */

static int read_counter(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    *(unsigned long long *) value = counter((uintptr_t) pvar->ctx);
    return OPAL_SUCCESS;
}

static int read_table_count(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    unsigned long long sum = 0;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < MCA_MPOOL_FREQ_TABLES && NULL != c->table[i]; ++i) {
        const freq_counts_t counts = counts_of(c->table[i]);
        sum += field(&counts, table_counts[(uintptr_t) pvar->ctx].offset);
    }
    pthread_mutex_unlock(&c->lock);
    *(unsigned long long *) value = sum;
    return OPAL_SUCCESS;
}

static uint64_t traffic_of(const mca_mpool_freq_table_t *table, size_t i)
{
    const char *from =
        traffic[i].is_gate ? (const char *) table->gate : (const char *) &table->traffic;
    return atomic_load_explicit((const _Atomic uint64_t *) (from + traffic[i].offset),
                                memory_order_relaxed);
}

static int read_traffic(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    unsigned long long sum = 0;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < MCA_MPOOL_FREQ_TABLES && NULL != c->table[i]; ++i) {
        sum += traffic_of(c->table[i], (uintptr_t) pvar->ctx);
    }
    pthread_mutex_unlock(&c->lock);
    *(unsigned long long *) value = sum;
    return OPAL_SUCCESS;
}

/* Costs have a value per size, of the first transport that asked for a table. */
enum { COST_R, COST_C, COST_V, COST_P, COST_N, COST_AFTER, COSTS };

static uint32_t cost_values(uintptr_t which)
{
    return COST_V == which || COST_P == which ? 1 : FREQ_POINTS;
}

static int cost_elements(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                         int *count)
{
    (void) object;
    if (MCA_BASE_PVAR_HANDLE_BIND == event) {
        *count = (int) cost_values((uintptr_t) pvar->ctx);
    }
    return OPAL_SUCCESS;
}

static double cost(const mca_mpool_freq_table_t *table, uintptr_t which, uint32_t point)
{
    const uint32_t class = 4 * point;
    switch (which) {
    case COST_R:
        return table->costs.r[point];
    case COST_C:
        return table->costs.c[point];
    case COST_V:
        return table->costs.v;
    case COST_P:
        return table->costs.p;
    case COST_N:
        return freq_table_scale(&table->core)->rule.n[class];
    default:
        return freq_table_scale(&table->core)->rule.after[class];
    }
}

static int read_cost(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    const uintptr_t which = (uintptr_t) pvar->ctx;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < cost_values(which); ++i) {
        ((double *) value)[i] = NULL == c->table[0] ? 0 : cost(c->table[0], which, i);
    }
    pthread_mutex_unlock(&c->lock);
    return OPAL_SUCCESS;
}

static void add(const char *name, const char *text, int class, mca_base_var_type_t type,
                mca_base_get_value_fn_t read, mca_base_notify_fn_t notify, uintptr_t context)
{
    (void) mca_base_component_pvar_register(
        &mca_mpool_freq_component.super.super.mpool_version, name, text, OPAL_INFO_LVL_4, class,
        type, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read, NULL, notify,
        (void *) context);
}

void mca_mpool_freq_report_register(void)
{
    static const struct {
        const char *name, *text;
    } costs[COSTS] = {
        {"cost_register", "R: ns to register 128, 256, ... 65536 bytes with the first transport"},
        {"cost_copy", "C: ns to copy 128, 256, ... 65536 bytes"},
        {"cost_find",
         "V: ns to search for a buffer in the table and for its registration in the cache"},
        {"cost_in_place", "P: ns that sending in place costs the transport beyond sending a copy"},
        {"break_even", "n: uses of a buffer of 128, 256, ... 65536 bytes that repay its "
                       "registration; 0: none do"},
        {"registered_after",
         "uses after which a buffer of 128, 256, ... 65536 bytes is sent in place; 0: never"},
    };
    for (size_t i = 0; i < COUNTERS; ++i) {
        add(counters[i].name, counters[i].text, counters[i].class,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, read_counter, NULL, i);
    }
    for (size_t i = 0; i < TABLE_COUNTS; ++i) {
        add(table_counts[i].name, table_counts[i].text, table_counts[i].class,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, read_table_count, NULL, i);
    }
    for (size_t i = 0; i < TRAFFIC; ++i) {
        add(traffic[i].name, traffic[i].text, MCA_BASE_PVAR_CLASS_COUNTER,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, read_traffic, NULL, i);
    }
    for (uintptr_t i = 0; i < COSTS; ++i) {
        add(costs[i].name, costs[i].text, MCA_BASE_PVAR_CLASS_LEVEL, MCA_BASE_VAR_TYPE_DOUBLE,
            read_cost, cost_elements, i);
    }
}

/* ---- the summary ---- */

static void print_costs(FILE *out, const mca_mpool_freq_table_t *table)
{
    const freq_table_t *core = &table->core;
    const freq_scale_t *scale = freq_table_scale(core);
    fprintf(out, "\n  small buffers, %s: costs %s; in place after %u %% of n uses\n", table->name,
            table->costs_from, FREQ_SHARE);
    fprintf(out,
            "    V, to search for a buffer: %.1f ns; where most are copied %.1f ns; P, to send in "
            "place: %.1f ns\n",
            table->costs.v, table->costs.search, table->costs.p);
    fprintf(out,
            "    budget: %u per mille of copying; left %.1f ns, at most %.1f ns; buffers in one "
            "block of %u are counted\n",
            mca_mpool_freq_component.budget,
            (double) atomic_load_explicit((_Atomic int64_t *) &core->balance, memory_order_relaxed)
                / 1000,
            (double) core->most / 1000,
            1 + atomic_load_explicit(&table->gate->sample, memory_order_relaxed));
    if (core->least > 0) {
        fprintf(out,
                "    messages from %zu bytes on may go in place: smaller ones would gain less than "
                "a search costs\n",
                core->least);
    } else {
        fprintf(out, "    no message may go in place: it would gain too little\n");
    }
    fprintf(out, "    n is for copies that take %.2f times C, as the last that were timed\n",
            scale->times);
    fprintf(out, "    %8s  %12s  %12s  %10s  %10s\n", "bytes", "R, ns", "C, ns", "n", "after");
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        char n[16], after[16];
        snprintf(n, sizeof(n), "%u", scale->rule.n[4 * i]);
        snprintf(after, sizeof(after), "%u", scale->rule.after[4 * i]);
        fprintf(out, "    %8u  %12.1f  %12.1f  %10s  %10s\n", (unsigned) FREQ_SIZE_MIN << i,
                table->costs.r[i], table->costs.c[i],
                FREQ_NEVER == scale->rule.n[4 * i] ? "none" : n,
                FREQ_NEVER == scale->rule.after[4 * i] ? "never" : after);
    }
}

static void print_table(FILE *out, mca_mpool_freq_table_t *table)
{
    const freq_counts_t counts = counts_of(table);
    print_costs(out, table);
    fprintf(out, "    buffers in the table: %llu of %llu, frequently used %llu (%.1f %%)\n",
            (unsigned long long) counts.buffers, (unsigned long long) counts.most,
            (unsigned long long) counts.frequent,
            counts.buffers > 0 ? 100.0 * (double) counts.frequent / (double) counts.buffers : 0.0);
    for (size_t i = 3; i < TABLE_COUNTS; ++i) {
        fprintf(out, "    %-24s %16llu\n", table_counts[i].name,
                (unsigned long long) field(&counts, table_counts[i].offset));
    }
    for (size_t i = 0; i < TRAFFIC; ++i) {
        fprintf(out, "    %-24s %16llu\n", traffic[i].name,
                (unsigned long long) traffic_of(table, i));
    }
}

void mca_mpool_freq_report_print(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    if (c->summary < 1 || (1 == c->summary && 0 != OPAL_PROC_MY_NAME.vpid)) {
        return;
    }
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (NULL == out) {
        return;
    }
    fprintf(out, "mpool/freq, rank %u\n", (unsigned) OPAL_PROC_MY_NAME.vpid);
    fprintf(out,
            "  registered memory: MPI_Alloc_mem by default %s, own segment from %zu bytes, pool by "
            "%zu bytes\n",
            c->is_default ? "yes" : "no", c->segment_min, c->pool_size);
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < COUNTERS; ++i) {
        fprintf(out, "    %-24s %16llu\n", counters[i].name, (unsigned long long) counter(i));
    }
    for (uint32_t i = 0; i < MCA_MPOOL_FREQ_TABLES && NULL != c->table[i]; ++i) {
        print_table(out, c->table[i]);
    }
    if (NULL == c->table[0]) {
        fprintf(out, "\n  small buffers: no transport asked for a table\n");
    }
    pthread_mutex_unlock(&c->lock);
    /* In one piece, so that processes do not mix. */
    if (0 == fclose(out)) {
        (void) fwrite(text, 1, size, stderr);
    }
    free(text);
}
