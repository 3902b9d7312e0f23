/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The tables of uses of small buffers, one for each transport that asks: the service that opal/include/spec/promises.h
 * describes, on top of core/freq_table.h. */
#include "mpool_freq.h"

#include <stdlib.h>
#include <string.h>

static void free_table(mca_mpool_freq_table_t *table)
{
    if (NULL != table) {
        free(table->lines);
        free(table);
    }
}

/* Zeroed, on a cache line. NULL: no memory. */
static void *zeroed(size_t size)
{
    void *memory = NULL;
    return 0 == posix_memalign(&memory, 64, size) ? memset(memory, 0, size) : NULL;
}

static mca_mpool_freq_table_t *new_table(const mca_mpool_freq_transport_t *transport)
{
    const mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    mca_mpool_freq_table_t *table = zeroed(sizeof(*table));
    if (NULL == table
        || NULL == (table->lines = zeroed(MCA_MPOOL_FREQ_TABLE_LINES * sizeof(freq_line_t)))) {
        free_table(table);
        return NULL;
    }
    (void) strncpy(table->name, transport->name, sizeof(table->name) - 1);
    table->gate = transport->gate;
    table->is_open = true;
    table->costs_from = "not measured: mpool_freq_fixed_uses is given";
    freq_table_init(&table->core, table->lines, MCA_MPOOL_FREQ_TABLE_LINES,
                    c->fixed_uses < 0 ? FREQ_NEVER : (uint32_t) c->fixed_uses, transport->gate);
    if (c->fixed_uses < 0 && mca_mpool_freq_costs(transport, &table->costs, &table->costs_from)) {
        freq_table_by_costs(&table->core, &table->costs, FREQ_SHARE, c->budget);
    }
    return table;
}

static mca_mpool_freq_table_t *table_open(const mca_mpool_freq_transport_t *transport)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    mca_mpool_freq_table_t *table = NULL;
    if (NULL == transport->gate) {
        return NULL;
    }
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < MCA_MPOOL_FREQ_TABLES; ++i) {
        if (NULL == c->table[i]) {
            table = c->table[i] = new_table(transport);
            break;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return table;
}

static void table_close(mca_mpool_freq_table_t *table)
{
    if (NULL == table) {
        return;
    }
    pthread_mutex_lock(&mca_mpool_freq_component.lock);
    if (table->is_open) {
        freq_table_count(&table->core, MCA_MPOOL_FREQ_TABLE_LINES, &table->last);
        table->last_gate.copies = atomic_load(&table->gate->copies);
        table->last_gate.bytes_copied = atomic_load(&table->gate->bytes_copied);
        table->gate = &table->last_gate;
        table->is_open = false;
        free(table->lines);
        table->lines = NULL;
    }
    pthread_mutex_unlock(&mca_mpool_freq_component.lock);
}

static bool is_frequent(mca_mpool_freq_table_t *table, const void *base, size_t size,
                        mca_mpool_freq_note_t **note)
{
    return freq_table_find(&table->core, base, size, note);
}

static bool may_renew(mca_mpool_freq_table_t *table, size_t size)
{
    return freq_table_may_renew(&table->core, size);
}

static void registered(mca_mpool_freq_table_t *table, size_t size, uint64_t ns)
{
    freq_table_registered(&table->core, size, ns);
}

static void refused(mca_mpool_freq_table_t *table, const void *base, size_t size)
{
    freq_table_refused(&table->core, base, size);
}

static void counts(const mca_mpool_freq_table_t *table, size_t size, uint32_t *n, uint32_t *after)
{
    const uint32_t class = freq_class_of(size);
    *n = FREQ_CLASSES == class ? FREQ_NEVER : freq_table_scale(&table->core)->rule.n[class];
    *after = FREQ_CLASSES == class ? FREQ_NEVER : freq_table_scale(&table->core)->rule.after[class];
}

static size_t least(const mca_mpool_freq_table_t *table)
{
    return table->core.least;
}

static mca_mpool_freq_traffic_t *traffic(mca_mpool_freq_table_t *table)
{
    return &table->traffic;
}

void mca_mpool_freq_tables_end(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    for (uint32_t i = 0; i < MCA_MPOOL_FREQ_TABLES; ++i) {
        free_table(c->table[i]);
        c->table[i] = NULL;
    }
}

const mca_mpool_freq_service_t mca_mpool_freq_the_service = {
    .version = MCA_MPOOL_FREQ_SERVICE_VERSION,
    .size = sizeof(mca_mpool_freq_service_t),
    .open = table_open,
    .close = table_close,
    .is_frequent = is_frequent,
    .may_renew = may_renew,
    .registered = registered,
    .refused = refused,
    .counts = counts,
    .least = least,
    .traffic = traffic,
};
