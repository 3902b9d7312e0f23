/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a transport counts, shown to people and tools: MPI_T performance variables btl_ibx_<name>, and a table at the end.
 *
 * Values are those of this process, all modules of the transport together, since it began; what is a level and not a count is of
 * now, and in the table of the end. */
#ifndef BTL_IBX_STATS_H
#define BTL_IBX_STATS_H

#include "btl_ibx.h"

#define MCA_BTL_IBX_STATS_MOST 160

typedef struct mca_btl_ibx_stat {
    const char *name, *text;
    bool is_level;
    const struct mca_btl_ibx_stats *of;
} mca_btl_ibx_stat_t;

/* One row for each number, in the same order. */
typedef struct mca_btl_ibx_stats {
    const mca_btl_ibx_stat_t *row;
    size_t rows;    /* at most MCA_BTL_IBX_STATS_MOST */
    uint64_t *kept; /* of modules that are gone */
    const uint32_t *modules;
    /* Adds the numbers of one of so many modules. */
    void (*add)(uint64_t *number, uint32_t module);
} mca_btl_ibx_stats_t;

/* For a transport's lists of X(name, where it is, text): the fields of a struct, and their values. */
#define MCA_BTL_IBX_FIELD(name, where, text) uint64_t name;
#define MCA_BTL_IBX_VALUE(name, where, text) .name = where,

/* Once, with the parameters. */
void mca_btl_ibx_stats_register(const mca_btl_ibx_stats_t *stats, const mca_base_component_t *version);

/* The numbers that are not 0, to the standard error, below the process and what else the title says. */
void mca_btl_ibx_stats_print(const mca_btl_ibx_stats_t *stats, const uint64_t *number, const char *title);

#endif
