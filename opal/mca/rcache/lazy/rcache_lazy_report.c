/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a user sees of rcache/lazy: performance variables (MPI_T), and the summary that rcache_lazy_summary prints when a cache
 * ends. */
#include "rcache_lazy.h"

#include <stdlib.h>
#include <unistd.h>

static const struct {
    const char *name, *text;
    size_t offset;
    int class;
} table[] = {
#define ROW(name, text, class) {#name, text, offsetof(lazy_counters_t, name), MCA_BASE_PVAR_CLASS_##class},
#define COUNT(name, text)     ROW(name, text, COUNTER)
#define LEVEL(name, text)     ROW(name, text, LEVEL)
#define MOST(name, text)      ROW(name, text, HIGHWATERMARK)
    LAZY_COUNTERS(COUNT, LEVEL, MOST)
};
#define ROWS (sizeof(table) / sizeof(*table))

static uint64_t value_of(const lazy_counters_t *n, size_t row)
{
    return *(const uint64_t *) ((const char *) n + table[row].offset);
}

static int read_pvar(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    lazy_counters_t n;
    mca_rcache_lazy_modules_count(&n);
    *(unsigned long long *) value = value_of(&n, (size_t) (uintptr_t) pvar->ctx);
    return OPAL_SUCCESS;
}

void mca_rcache_lazy_pvars_register(void)
{
    for (size_t i = 0; i < ROWS; ++i) {
        (void) mca_base_component_pvar_register(
            &mca_rcache_lazy_component.public.super.rcache_version, table[i].name, table[i].text,
            OPAL_INFO_LVL_4, table[i].class, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_pvar, NULL, NULL,
            (void *) (uintptr_t) i);
    }
}

void mca_rcache_lazy_summarise(const mca_rcache_lazy_module_t *module, const lazy_counters_t *n)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (NULL == out) {
        return;
    }
    const char *policy = lazy_policy_at((unsigned) mca_rcache_lazy_component.policy)->name;
    fprintf(out, "rcache/lazy: %s of process %d on %s, policy %s%s\n", module->name, (int) getpid(),
            mca_rcache_lazy_host(), policy,
            module->shares ? "" : ", nothing kept (no memory hooks or mpi_leave_pinned 0)");
    for (size_t i = 0; i < ROWS; ++i) {
        if (0 != value_of(n, i)) {
            fprintf(out, "  %-20s %16llu\n", table[i].name, (unsigned long long) value_of(n, i));
        }
    }
    const uint64_t uses = n->hits + n->misses;
    fprintf(out, "  hits: %.1f %% of %llu uses\n",
            0 == uses ? 0 : 100.0 * (double) n->hits / (double) uses, (unsigned long long) uses);
    fclose(out);
    fputs(text, stderr); /* in one piece: other processes write too */
    free(text);
}
