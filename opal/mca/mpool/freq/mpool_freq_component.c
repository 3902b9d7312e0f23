/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component as Open MPI loads it: its parameters, its start and end, and which requests for memory it answers. */
#include "mpool_freq.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define K ((size_t) 1 << 10)
#define M ((size_t) 1 << 20)
#define G ((size_t) 1 << 30)

static const struct parameter {
    const char *name;
    mca_base_var_type_t type;
    int level;
    size_t at;             /* in the component */
    long long least, most; /* of numbers */
    const char *help;
} parameters[] = {
#define AT(field) offsetof(mca_mpool_freq_component_t, field)
    {"default", MCA_BASE_VAR_TYPE_BOOL, 1, AT(is_default), 0, 1,
     "Whether every MPI_Alloc_mem that asks for no other pool gets registered memory. With 0 only "
     "those do that have mpool=freq, must_be_shared or must_be_aligned in their hints. 0 or 1, "
     "default 0."},
    {"summary", MCA_BASE_VAR_TYPE_INT, 1, AT(summary), 0, 2,
     "Whether to print, at the end of the job, what was allocated and registered, and every number "
     "that decides about small buffers. 0: no; 1: by rank 0 of the job; 2: by every process. No "
     "unit, range 0 to 2, default 0."},
    {"pool_size", MCA_BASE_VAR_TYPE_SIZE_T, 4, AT(pool_size), 64 * K, 64 * G,
     "Size of the segments by which the pool of registered memory grows. Where so much cannot be "
     "registered it grows by smaller ones. Unit: bytes, range 64K to 64G, default 16M."},
    {"huge_pages", MCA_BASE_VAR_TYPE_BOOL, 5, AT(huge_pages), 0, 1,
     "Whether segments of 2 MiB or more use huge pages: those that the administrator has set aside "
     "if there are enough, else transparent ones. 0 or 1, default 1."},
    {"budget", MCA_BASE_VAR_TYPE_UNSIGNED_INT, 5, AT(budget), 1, 1000,
     "How much searching for small buffers and registering them may cost, beyond what was gained "
     "by it, as a share of the time that copying all small messages takes. Unit: per mille, range "
     "1 to 1000, default 2."},
    {"cost_dir", MCA_BASE_VAR_TYPE_STRING, 6, AT(cost_dir), 0, 0,
     "Directory in which the measured costs of copying and registering are kept for later jobs, "
     "one file for each host and transport. Default: the session directory of the job, which is "
     "removed with it."},
    {"priority", MCA_BASE_VAR_TYPE_INT, 9, AT(priority), 0, INT_MAX,
     "Priority of this pool for requests that ask for none, with mpool_freq_default 1, against "
     "mpool_base_default_priority (50) and other pools. No unit, at least 0, default 60."},
    {"segment_min", MCA_BASE_VAR_TYPE_SIZE_T, 9, AT(segment_min), 4 * K, 64 * G,
     "Size from which on a request gets a segment of its own, which goes back to the system when "
     "it is freed. Smaller requests share the pool. Unit: bytes, range 4K to 64G, default 1M."},
    {"share", MCA_BASE_VAR_TYPE_UNSIGNED_INT, 9, AT(share), 1, 1000,
     "After which share of the uses that repay it a small buffer is registered, in the hope of "
     "more uses. A smaller share registers earlier, and more often in vain. Unit: percent, range 1 "
     "to 1000, default 25."},
    {"fixed_uses", MCA_BASE_VAR_TYPE_INT, 9, AT(fixed_uses), -1, INT_MAX,
     "For tests: after how many uses a small buffer is registered, whatever its size; 0 for never, "
     "-1 for what the measured costs say. Unit: uses, at least -1, default -1."},
    {"measure_time", MCA_BASE_VAR_TYPE_UNSIGNED_INT, 9, AT(measure_ms), 1, 1000,
     "How long the first process on a host may take to measure the costs of a transport. Unit: "
     "milliseconds, range 1 to 1000, default 5."},
#undef AT
};
enum { PARAMETERS = sizeof(parameters) / sizeof(*parameters) };

static void *value_of(const struct parameter *p)
{
    return (char *) &mca_mpool_freq_component + p->at;
}

static int freq_register(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    opal_show_help_add_dir(SPEC_HELP_DIR);
    c->is_default = false;
    c->priority = 60;
    c->segment_min = M;
    c->pool_size = 16 * M;
    c->huge_pages = true;
    c->share = 25;
    c->budget = FREQ_PERMILLE;
    c->fixed_uses = -1;
    c->measure_ms = 5;
    c->cost_dir = NULL;
    c->summary = 0;
    for (size_t i = 0; i < PARAMETERS; ++i) {
        const struct parameter *p = &parameters[i];
        (void) mca_base_component_var_register(
            &c->super.super.mpool_version, p->name, p->help, p->type, NULL, 0, 0,
            (mca_base_var_info_lvl_t) (p->level - 1), MCA_BASE_VAR_SCOPE_READONLY, value_of(p));
    }
    return OPAL_SUCCESS;
}

/* A number outside its range is an error with a text, not a surprise later. */
static bool is_in_range(const struct parameter *p)
{
    const void *at = value_of(p);
    long long value;
    switch (p->type) {
    case MCA_BASE_VAR_TYPE_SIZE_T: {
        const size_t size = *(const size_t *) at;
        value = size > LLONG_MAX ? LLONG_MAX : (long long) size;
        break;
    }
    case MCA_BASE_VAR_TYPE_UNSIGNED_INT:
        value = *(const unsigned *) at;
        break;
    case MCA_BASE_VAR_TYPE_INT:
        value = *(const int *) at;
        break;
    default: /* no number */
        return true;
    }
    if (value >= p->least && value <= p->most) {
        return true;
    }
    opal_show_help(MCA_MPOOL_FREQ_HELP, "parameter out of range", true, p->name, value, p->least,
                   p->most);
    return false;
}

static int freq_open(void)
{
    mca_mpool_freq_component_t *c = &mca_mpool_freq_component;
    for (size_t i = 0; i < PARAMETERS; ++i) {
        if (!is_in_range(&parameters[i])) {
            c->summary = 0;
            return OPAL_ERR_NOT_AVAILABLE;
        }
    }
    mca_mpool_freq_modules_init();
    mca_mpool_freq_report_register();
    c->super.service = &mca_mpool_freq_the_service;
    return OPAL_SUCCESS;
}

/* The code stays in memory (it is linked with nodelete) and so do segments that are in use: what was
 * allocated here may be freed after this. */
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
