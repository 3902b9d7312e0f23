/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Performance variables and the summary of both transports' counters. */
#include "btl_ibx_stats.h"

static int read_number(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const mca_btl_ibx_stat_t *row = pvar->ctx;
    const size_t i = (size_t) (row - row->of->row);
    uint64_t sum[MCA_BTL_IBX_STATS_MOST] = {0};
    (void) object;
    for (uint32_t module = 0; module < *row->of->modules; ++module) {
        row->of->add(sum, module);
    }
    *(unsigned long long *) value = sum[i] + (row->is_level ? 0 : row->of->kept[i]);
    return OPAL_SUCCESS;
}

void mca_btl_ibx_stats_register(const mca_btl_ibx_stats_t *stats, const mca_base_component_t *version)
{
    for (const mca_btl_ibx_stat_t *row = stats->row; row < stats->row + stats->rows; ++row) {
        (void) mca_base_component_pvar_register(
            version, row->name, row->text, OPAL_INFO_LVL_4,
            row->is_level ? MCA_BASE_PVAR_CLASS_LEVEL : MCA_BASE_PVAR_CLASS_COUNTER,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_number, NULL, NULL,
            (void *) (uintptr_t) row);
    }
}

void mca_btl_ibx_stats_print(const mca_btl_ibx_stats_t *stats, const uint64_t *number, const char *title)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (NULL == out) {
        return;
    }
    fprintf(out, "btl/ibx: summary of process %u%s\n", (unsigned) OPAL_PROC_MY_NAME.vpid, title);
    for (size_t i = 0; i < stats->rows; ++i) {
        if (number[i] > 0) {
            fprintf(out, "  %-24s %16llu  %s\n", stats->row[i].name, (unsigned long long) number[i], stats->row[i].text);
        }
    }
    fclose(out);
    fputs(text, stderr); /* in one piece: other processes write too */
    free(text);
}
