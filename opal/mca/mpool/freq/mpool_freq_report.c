/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a user sees of mpool/freq: its performance variables (MPI_T), and the summary that mpool_freq_summary prints at the end. */
#include "mpool_freq.h"

/* ---- numbers ---- */

/* Of the pool; of a table; counted by the transport of a table. */
typedef enum source { POOL, TABLE, GATE, TRAFFIC } source_t;

static const struct {
    const char *name, *text;
    size_t offset;
    int class;
    source_t source;
} numbers[] = {
#define ROW(name, type, field, text, class, source)                                                \
    {                                                                                              \
        name, text, offsetof(type, field), MCA_BASE_PVAR_CLASS_##class, source                     \
    }
#define COUNT(name, text)              ROW(#name, mca_mpool_freq_counters_t, name, text, COUNTER, POOL),
#define BYTES(name, text, class)       ROW(#name, mca_mpool_freq_counters_t, name, text, class, POOL)
#define USES(name, field, text, class) ROW(name, freq_counts_t, field, text, class, TABLE)
#define SENT(name, type, text, source) ROW("sent_" #name, type, name, text, COUNTER, source)
    MCA_MPOOL_FREQ_COUNTERS(COUNT) BYTES(bytes_mapped, "bytes of all segments now", LEVEL),
    BYTES(bytes_mapped_most, "bytes of all segments at most", HIGHWATERMARK),
    BYTES(bytes_registered, "bytes of the segments that are registered with a transport now",
          LEVEL),
    BYTES(bytes_registered_most,
          "bytes of the segments that were registered with a transport at most", HIGHWATERMARK),
    BYTES(bytes_used, "bytes that are allocated now, as the pool counts them", LEVEL),
    USES("table_buffers", buffers, "buffers in the tables of uses now", LEVEL),
    USES("table_capacity", most, "buffers that the tables of uses have room for", LEVEL),
    USES("table_frequent", frequent, "buffers in the tables that are sent in place", LEVEL),
    USES("table_added", added, "buffers added to the tables of uses", COUNTER),
    USES("table_replaced", replaced, "buffers that made room for others in the tables", COUNTER),
    USES("table_refused", refused, "frequently used buffers that could not be registered", COUNTER),
    USES("table_searches", searched, "small messages that were searched for in the tables",
         COUNTER),
    USES("copies_avoided", copies_avoided, "small messages that the tables said to send in place",
         COUNTER),
    SENT(copies, freq_gate_t, "payloads of small messages, puts and gets that the transport copied",
         GATE),
    SENT(bytes_copied, freq_gate_t, "bytes of small payloads that the transport copied", GATE),
    SENT(in_place, mca_mpool_freq_traffic_t, "payloads that the transport left where they are",
         TRAFFIC),
    SENT(bytes_in_place, mca_mpool_freq_traffic_t,
         "bytes of payloads that the transport left where they are", TRAFFIC),
    SENT(notes_used, mca_mpool_freq_traffic_t,
         "payloads left where they are whose registration was found without a search in the cache",
         TRAFFIC),
};
enum {
    NUMBERS = sizeof(numbers) / sizeof(*numbers),
    OF_POOL = sizeof(mca_mpool_freq_counters_t) / sizeof(uint64_t), /* the first */
    TABLE_LINES = 3 /* and these the summary has in a line of their own */
};

/* The counts of a table, or of what is left of it. The lock is held. */
static freq_counts_t counts_of(mca_mpool_freq_own_t *table)
{
    freq_counts_t counts = table->last;
    if (table->is_open) {
        freq_table_count(&table->core, MCA_MPOOL_FREQ_TABLE_LINES, &counts);
    }
    return counts;
}

/* `table`: unless it is a number of the pool. The lock is held. */
static uint64_t number_of(size_t i, mca_mpool_freq_own_t *table)
{
    const freq_counts_t counts = TABLE == numbers[i].source ? counts_of(table) : (freq_counts_t){0};
    const void *const from[] = {&mca_mpool_freq_component.counters, &counts,
                                NULL == table ? NULL : table->gate,
                                NULL == table ? NULL : &table->traffic};
    const char *at = (const char *) from[numbers[i].source] + numbers[i].offset;
    return atomic_load_explicit((const _Atomic uint64_t *) at, memory_order_relaxed);
}

/* ---- performance variables ---- */

static int read_number(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    const size_t i = (uintptr_t) pvar->ctx;
    pthread_mutex_lock(&c->lock);
    unsigned long long sum = POOL == numbers[i].source ? number_of(i, NULL) : 0;
    for (uint32_t k = 0;
         POOL != numbers[i].source && k < MCA_MPOOL_FREQ_TABLES && NULL != c->table[k]; ++k) {
        sum += number_of(i, c->table[k]);
    }
    pthread_mutex_unlock(&c->lock);
    *(unsigned long long *) value = sum;
    return OPAL_SUCCESS;
}

void mca_mpool_freq_report_register(void)
{
    for (uintptr_t i = 0; i < NUMBERS; ++i) {
        (void) mca_base_component_pvar_register(
            &mca_mpool_freq_component.super.super.mpool_version, numbers[i].name, numbers[i].text,
            OPAL_INFO_LVL_4, numbers[i].class, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
            MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_number, NULL, NULL,
            (void *) i);
    }
}

/* ---- the summary ---- */

static void print_costs(FILE *out, const mca_mpool_freq_own_t *table)
{
    const freq_table_t *core = &table->core;
    const freq_scale_t *scale = freq_table_scale(core);
    fprintf(out, "\n  small buffers, %s: costs %s; in place after %u %% of n uses\n", table->name,
            table->costs_from, FREQ_SHARE);
    fprintf(out, "    V, to search for a buffer: %.1f ns; where most are copied %.1f ns\n",
            table->costs.v, table->costs.search);
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

static void print_numbers(FILE *out, size_t from, size_t end, mca_mpool_freq_own_t *table)
{
    for (size_t i = from; i < end; ++i) {
        fprintf(out, "    %-24s %16llu\n", numbers[i].name,
                (unsigned long long) number_of(i, table));
    }
}

static void print_table(FILE *out, mca_mpool_freq_own_t *table)
{
    const freq_counts_t counts = counts_of(table);
    print_costs(out, table);
    fprintf(out, "    buffers in the table: %llu of %llu, frequently used %llu (%.1f %%)\n",
            (unsigned long long) counts.buffers, (unsigned long long) counts.most,
            (unsigned long long) counts.frequent,
            counts.buffers > 0 ? 100.0 * (double) counts.frequent / (double) counts.buffers : 0.0);
    print_numbers(out, OF_POOL + TABLE_LINES, NUMBERS, table);
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
    print_numbers(out, 0, OF_POOL, NULL);
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
