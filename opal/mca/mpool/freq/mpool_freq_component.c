/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component: parameters, start and end, and which requests it answers. */
#include "mpool_freq.h"

#include <stdlib.h>
#include <string.h>

static void add(const char *name, const char *help, mca_base_var_type_t type, int level,
                void *storage)
{
    (void) mca_base_component_var_register(
        &mca_mpool_freq_component.super.super.mpool_version, name, help, type, NULL, 0, 0,
        (mca_base_var_info_lvl_t) level, MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static int freq_register(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    opal_show_help_add_dir(SPEC_HELP_DIR);
    c->is_default = false;
    add("default",
        "Serve every MPI_Alloc_mem that asks for no other pool from registered memory. 0: only "
        "those "
        "with mpool=freq, must_be_shared or must_be_aligned in their hints. 0 or 1; default 0",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_1, &c->is_default);
    c->priority = 60;
    add("priority",
        "Priority for such requests (mpool_freq_default), against mpool_base_default_priority (50) "
        "and other pools. No unit; default 60",
        MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_9, &c->priority);
    c->min_size = 1024;
    add("min_size",
        "With mpool_freq_default: smaller requests are left to malloc, since messages of that size "
        "are copied anyway. Unit: bytes, range 0 to 1G; default 1K",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_4, &c->min_size);
    c->segment_min = (size_t) 1 << 20;
    add("segment_min",
        "A request of this size or more gets a segment of its own, which goes back to the system "
        "when it is freed; smaller ones share the pool. Unit: bytes, range 4K to 64G; default 1M",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_4, &c->segment_min);
    c->pool_size = (size_t) 16 << 20;
    add("pool_size",
        "The pool grows by segments of this size, or smaller ones if no more can be registered. "
        "Unit: bytes, range 64K to 64G; default 16M",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_4, &c->pool_size);
    c->huge_pages = true;
    add("huge_pages",
        "Use huge pages for segments of 2 MiB or more: those set aside by the administrator if "
        "there "
        "are enough, else transparent ones. 0 or 1; default 1",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_5, &c->huge_pages);
    c->numa = true;
    add("numa",
        "Put segments on the NUMA node of the process if it is bound to one of several. 0 or 1; "
        "default 1",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_5, &c->numa);
    c->share = 25;
    add("share",
        "A small buffer is registered after this share of the uses that repay it, in the hope of "
        "more. Smaller: earlier, and more often in vain. Unit: percent, range 1 to 1000; default "
        "25",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, OPAL_INFO_LVL_4, &c->share);
    c->budget = FREQ_BUDGET_PERMILLE;
    add("budget",
        "What looking buffers up and registering them may cost beyond what was gained by it: this "
        "share of the time that copying all small messages takes. Unit: per mille, range 1 to "
        "1000; "
        "default 2",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, OPAL_INFO_LVL_5, &c->budget);
    c->table_lines = 4096;
    add("table_lines",
        "Size of the table of buffer usage of a transport: cache lines with four buffers each, "
        "rounded up to a power of two. Unit: cache lines, range 64 to 1048576; default 4096, that "
        "is "
        "16384 buffers in 256 KiB",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, OPAL_INFO_LVL_6, &c->table_lines);
    c->fixed_uses = -1;
    add("fixed_uses",
        "For tests: a buffer is registered after so many uses whatever its size, 0 for never; -1: "
        "by measured costs. Unit: uses, at least -1; default -1",
        MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_9, &c->fixed_uses);
    c->measure_ms = 5;
    add("measure_time",
        "Time that a process may take to measure the costs of a transport; the first one on a host "
        "does it. Unit: milliseconds, range 1 to 1000; default 5",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, OPAL_INFO_LVL_6, &c->measure_ms);
    c->cost_dir = NULL;
    add("cost_dir",
        "Directory in which measured costs are kept, one file per host and transport. Default: the "
        "session directory of the job, which goes with it",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_6, &c->cost_dir);
    c->summary = 0;
    add("summary",
        "Print at the end what was allocated and registered, and every number that decides about "
        "small buffers. 0: no, 1: by rank 0 of the job, 2: by every process. No unit; default 0",
        MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_1, &c->summary);
    return OPAL_SUCCESS;
}

/* What is out of range is told and put right. */
static bool in_range(const char *name, size_t *value, size_t least, size_t most)
{
    if (*value >= least && *value <= most) {
        return true;
    }
    const size_t given = *value;
    *value = given < least ? least : most;
    opal_show_help(MCA_MPOOL_FREQ_HELP, "out of range", true, name, given, least, most, *value);
    return false;
}

static void check_parameters(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    const size_t giga = (size_t) 1 << 30;
    size_t budget = c->budget;
    size_t share = c->share, lines = c->table_lines, ms = c->measure_ms;
    (void) in_range("mpool_freq_min_size", &c->min_size, 0, giga);
    (void) in_range("mpool_freq_segment_min", &c->segment_min, 4096, 64 * giga);
    (void) in_range("mpool_freq_pool_size", &c->pool_size, 65536, 64 * giga);
    (void) in_range("mpool_freq_share", &share, 1, 1000);
    (void) in_range("mpool_freq_table_lines", &lines, 64, 1 << 20);
    (void) in_range("mpool_freq_measure_time", &ms, 1, 1000);
    (void) in_range("mpool_freq_budget", &budget, 1, 1000);
    c->budget = (unsigned) budget;
    c->share = (unsigned) share;
    c->measure_ms = (unsigned) ms;
    for (c->table_lines = 64; c->table_lines < lines; c->table_lines *= 2) {}
}

static int freq_open(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    check_parameters();
    mca_mpool_freq_modules_init();
    mca_mpool_freq_report_register();
    c->super.service = &mca_mpool_freq_the_service;
    return OPAL_SUCCESS;
}

/* The code stays in memory (it is linked with nodelete) and so do segments that are in use: whoever
 * allocated here may free after this. */
static int freq_close(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    c->super.service = NULL;
    mca_mpool_freq_report_print();
    mca_mpool_freq_tables_end();
    return OPAL_SUCCESS;
}

static int freq_query(const char *text, int *priority, mca_mpool_base_module_t **module)
{
    freq_hints_t hints;
    if (!freq_hints_parse(&hints, text, "freq")) {
        opal_show_help(MCA_MPOOL_FREQ_HELP, "bad hints", true, text);
        return OPAL_ERR_BAD_PARAM;
    }
    const bool is_asked = hints.is_named || hints.must_be_shared || hints.must_be_aligned;
    if (hints.is_other || (!is_asked && hints.has_unknown)
        || (!is_asked && !mca_mpool_freq_component.is_default)) {
        return OPAL_ERR_NOT_FOUND;
    }
    *module = mca_mpool_freq_module_for(&hints);
    *priority = is_asked ? 100 : mca_mpool_freq_component.priority;
    return OPAL_SUCCESS;
}

__attribute__((visibility("default"))) mca_mpool_freq_component_t mca_mpool_freq_component = {
    .super = {.super = {.mpool_version = {MCA_MPOOL_FREQ_BASE_VERSION, .mca_component_name = "freq",
                                          MCA_BASE_MAKE_VERSION(component, SPEC_VERSION_MAJOR,
                                                                SPEC_VERSION_MINOR,
                                                                SPEC_VERSION_RELEASE),
                                          .mca_open_component = freq_open,
                                          .mca_close_component = freq_close,
                                          .mca_register_component_params = freq_register},
                        .mpool_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
                        .mpool_query = freq_query}},
    .lock = PTHREAD_MUTEX_INITIALIZER,
};
