/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The tables of the transports: what mpool_freq_table.h promises. */
#include "mpool_freq.h"

#include <stdlib.h>
#include <string.h>

/* Inside munmap, madvise, brk and the like: no lock, no memory. */
static void memory_goes(void *base, size_t size, void *context, bool from_alloc)
{
    (void) from_alloc;
    freq_release_memory(context, (uintptr_t) base, size);
}

/* Ask to be told. Where that is impossible, or the user forbids it (mpi_leave_pinned 0), the table
 * works all the same: a new buffer at an old address may then be registered too early. */
static void watch_memory(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    if (c->has_hook || 0 == opal_leave_pinned
        || OPAL_SUCCESS != mca_base_framework_open(&opal_memory_base_framework, 0)) {
        return;
    }
    c->has_hook = OPAL_SUCCESS == opal_mem_hooks_register_release(memory_goes, c->release);
    if (!c->has_hook) {
        (void) mca_base_framework_close(&opal_memory_base_framework);
    }
}

static void unwatch_memory(void)
{
    if (mca_mpool_freq_component.has_hook) {
        (void) opal_mem_hooks_unregister_release(memory_goes);
        (void) mca_base_framework_close(&opal_memory_base_framework);
        mca_mpool_freq_component.has_hook = false;
    }
}

static void free_table(mca_mpool_freq_table_t *table)
{
    if (NULL != table) {
        free(table->memory);
        free(table);
    }
}

static mca_mpool_freq_table_t *new_table(const mca_mpool_freq_transport_t *transport)
{
    const mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    const size_t size = freq_usage_bytes(c->table_lines);
    void *memory = NULL, *storage = NULL;
    if (0 != posix_memalign(&storage, 64, sizeof(mca_mpool_freq_table_t))) {
        return NULL;
    }
    mca_mpool_freq_table_t *table = memset(storage, 0, sizeof(*table));
    if (0 != posix_memalign(&memory, 64, size)) {
        free_table(table);
        return NULL;
    }
    table->memory = memset(memory, 0, size);
    (void) strncpy(table->name, transport->name, sizeof(table->name) - 1);
    table->gate = transport->gate;
    table->is_open = true;

    freq_rule_t rule;
    if (c->fixed_uses >= 0) {
        table->costs_from = "not measured: mpool_freq_fixed_uses is given";
        freq_rule_fixed(&rule, (uint32_t) c->fixed_uses);
    } else {
        freq_rule_fixed(&rule, FREQ_NEVER);
    }
    freq_usage_init(&table->usage, table->memory, c->table_lines, &rule, c->release,
                    transport->gate);
    if (c->fixed_uses < 0 && mca_mpool_freq_costs(transport, &table->costs, &table->costs_from)) {
        freq_usage_by_costs(&table->usage, &table->costs, c->share, c->budget);
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
    if (NULL == c->release) {
        c->release = calloc(1, sizeof(*c->release));
    }
    for (uint32_t i = 0; NULL != c->release && i < MCA_MPOOL_FREQ_TABLES; ++i) {
        if (NULL == c->table[i]) {
            watch_memory();
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
        freq_usage_count(&table->usage, &table->last);
        table->last_gate.copies = atomic_load(&table->gate->copies);
        table->last_gate.bytes_copied = atomic_load(&table->gate->bytes_copied);
        table->last_gate.sample = atomic_load(&table->gate->sample);
        table->gate = &table->last_gate;
        table->is_open = false;
        free(table->memory);
        table->memory = NULL;
    }
    pthread_mutex_unlock(&mca_mpool_freq_component.lock);
}

static bool is_frequent(mca_mpool_freq_table_t *table, const void *base, size_t size,
                        mca_mpool_freq_note_t **note)
{
    return freq_usage_find(&table->usage, base, size, note);
}

static bool may_renew(mca_mpool_freq_table_t *table, size_t size)
{
    return freq_usage_may_renew(&table->usage, size);
}

static void registered(mca_mpool_freq_table_t *table, size_t size, uint64_t ns)
{
    freq_usage_registered(&table->usage, size, ns);
}

static void refused(mca_mpool_freq_table_t *table, const void *base, size_t size)
{
    freq_usage_refused(&table->usage, base, size);
}

static void counts(const mca_mpool_freq_table_t *table, size_t size, uint32_t *n, uint32_t *after)
{
    const uint32_t class = freq_class_of(size);
    *n = FREQ_CLASSES == class ? FREQ_NEVER : table->usage.rule.n[class];
    *after = FREQ_CLASSES == class ? FREQ_NEVER : table->usage.rule.after[class];
}

static size_t least(const mca_mpool_freq_table_t *table)
{
    return freq_usage_least(&table->usage);
}

static mca_mpool_freq_traffic_t *traffic(mca_mpool_freq_table_t *table)
{
    return &table->traffic;
}

void mca_mpool_freq_tables_end(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    unwatch_memory();
    for (uint32_t i = 0; i < MCA_MPOOL_FREQ_TABLES; ++i) {
        free_table(c->table[i]);
        c->table[i] = NULL;
    }
    free(c->release);
    c->release = NULL;
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
