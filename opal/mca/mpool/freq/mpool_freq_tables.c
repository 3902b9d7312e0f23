/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Counts how often a transport sends from each small buffer, and tells it which are worth registering: a table of core/freq_table.h
 * for each transport, offered through opal/include/spec/promises.h. */
#include "mpool_freq.h"

static void free_table(mca_mpool_freq_own_t *table)
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

static mca_mpool_freq_own_t *new_table(const mca_mpool_freq_transport_t *transport)
{
    const mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    mca_mpool_freq_own_t *table = zeroed(sizeof(*table));
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
    mca_mpool_freq_own_t *table = NULL;
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
    return NULL == table ? NULL : &table->core;
}

static mca_mpool_freq_own_t *own_of(mca_mpool_freq_table_t *core)
{
    return (mca_mpool_freq_own_t *) (void *) core; /* its first member */
}

static void table_close(mca_mpool_freq_table_t *core)
{
    mca_mpool_freq_own_t *table = own_of(core);
    if (NULL == table) {
        return;
    }
    pthread_mutex_lock(&mca_mpool_freq_component.lock);
    if (table->is_open) {
        freq_table_count(core, MCA_MPOOL_FREQ_TABLE_LINES, &table->last);
        table->last_gate.copies = atomic_load(&table->gate->copies);
        table->last_gate.bytes_copied = atomic_load(&table->gate->bytes_copied);
        table->gate = &table->last_gate;
        table->is_open = false;
        free(table->lines);
        table->lines = NULL;
    }
    pthread_mutex_unlock(&mca_mpool_freq_component.lock);
}

static void counts(const mca_mpool_freq_table_t *table, size_t size, uint32_t *n, uint32_t *after)
{
    const uint32_t class = freq_class_of(size);
    *n = FREQ_CLASSES == class ? FREQ_NEVER : freq_table_scale(table)->rule.n[class];
    *after = FREQ_CLASSES == class ? FREQ_NEVER : freq_table_scale(table)->rule.after[class];
}

static size_t least(const mca_mpool_freq_table_t *table)
{
    return table->least;
}

static mca_mpool_freq_traffic_t *traffic(mca_mpool_freq_table_t *table)
{
    return &own_of(table)->traffic;
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
    .is_frequent = freq_table_find,
    .may_renew = freq_table_may_renew,
    .registered = freq_table_registered,
    .refused = freq_table_refused,
    .counts = counts,
    .least = least,
    .traffic = traffic,
};
