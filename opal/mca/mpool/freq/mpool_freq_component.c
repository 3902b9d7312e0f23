/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component as Open MPI loads it: its parameters, its start and end, and which requests for memory it answers. */
#include "mpool_freq.h"

#include "opal/include/spec/component.h"
#include "opal/include/spec/parameters.h"

#include <sys/stat.h>

#define K (1LL << 10)
#define M (1LL << 20)
#define G (1LL << 30)

static const char *refuse_directory(const char *name)
{
    struct stat file;
    return 0 == stat(name, &file) && S_ISDIR(file.st_mode) ? NULL
                                                           : "the name of a directory that exists";
}

static const spec_parameter_t parameters[] = {
    SPEC_SWITCH("default", 1, &mca_mpool_freq_component.is_default, false,
                .help = "Every MPI_Alloc_mem that asks for no other pool gets registered memory. "
                        "With 0 only those calls get it that have mpool=freq, must_be_shared or "
                        "must_be_aligned in their hints. No unit, 0 or 1, default 0."),
    SPEC_NUMBER("summary", 1, &mca_mpool_freq_component.summary, 0, 0, 2,
                .help = "A process prints, at the end of the job, what was allocated and "
                        "registered, and every number that decides about small buffers. 0: no "
                        "process does; 1: rank 0 does; 2: every process does. No unit, range 0 "
                        "to 2, default 0."),
    SPEC_NUMBER("pool_size", 4, &mca_mpool_freq_component.pool_size, 16 * M, 64 * K, 64 * G,
                .help = "The pool of registered memory grows by segments of this size, or by "
                        "smaller ones where so much cannot be registered. Unit: bytes, range 64K "
                        "to 64G, default 16M."),
    SPEC_SWITCH("huge_pages", 5, &mca_mpool_freq_component.huge_pages, true,
                .help = "Segments of 2 MiB or more use huge pages: those that the administrator "
                        "has set aside if there are enough, else transparent ones. No unit, 0 or "
                        "1, default 1."),
    SPEC_WORDS("cost_dir", 6, &mca_mpool_freq_component.cost_dir, NULL, .refuse = refuse_directory,
               .help = "The measured costs of copying and registering are kept for later jobs in "
                       "this directory, one file for each host and transport. Without it they "
                       "are kept in the session directory of the job, which is removed with the "
                       "job. No unit, the name of a directory, default none."),
    SPEC_NUMBER("budget", 9, &mca_mpool_freq_component.budget, FREQ_PERMILLE, 1, 1000,
                .help = "Searching for small buffers and registering them may cost this share of "
                        "the time that copying all small messages takes, beyond what was gained "
                        "by it. Unit: per mille, range 1 to 1000, default 2."),
    SPEC_NUMBER("segment_min", 9, &mca_mpool_freq_component.segment_min, M, 4 * K, 64 * G,
                .help = "A request of this size or more gets a segment of its own, which goes "
                        "back to the system when it is freed. Smaller requests share the pool. "
                        "Unit: bytes, range 4K to 64G, default 1M."),
    SPEC_NUMBER("fixed_uses", 9, &mca_mpool_freq_component.fixed_uses, -1, -1, INT_MAX,
                .help = "A small buffer is registered after this many uses, whatever its size: "
                        "for tests. 0 means never, -1 what the measured costs say. Unit: uses, "
                        "range -1 to 2147483647, default -1."),
    SPEC_NUMBER("measure_time", 9, &mca_mpool_freq_component.measure_ms, 5, 1, 1000,
                .help = "The first process on a host may take this long to measure the costs of "
                        "a transport. Unit: milliseconds, range 1 to 1000, default 5."),
};

static int freq_register(void)
{
    opal_show_help_add_dir(SPEC_HELP_DIR);
    spec_parameters_register(&mca_mpool_freq_component.super.super.mpool_version,
                             SPEC_PARAMETERS(parameters));
    mca_mpool_freq_report_register();
    return OPAL_SUCCESS;
}

static int freq_open(void)
{
    const mca_base_component_t *component = &mca_mpool_freq_component.super.super.mpool_version;
    spec_parameters_check(component, SPEC_PARAMETERS(parameters));
    spec_parameters_check_names(component);
    mca_mpool_freq_modules_init();
    mca_mpool_freq_component.super.service = &mca_mpool_freq_the_service;
    return OPAL_SUCCESS;
}

/* The code stays in memory (it is linked with nodelete) and so do segments that are in use: what was
 * allocated here may be freed after this. */
static int freq_close(void)
{
    mca_mpool_freq_component.super.service = NULL;
    mca_mpool_freq_report_print();
    mca_mpool_freq_tables_end();
    return OPAL_SUCCESS;
}

static int freq_query(const char *text, int *priority, mca_mpool_base_module_t **module)
{
    freq_hints_t hints;
    if (!freq_hints_parse(&hints, text, "freq")) {
        spec_explain(MCA_MPOOL_FREQ_HELP, "bad hints", "", text, opal_process_info.nodename);
        return OPAL_ERR_BAD_PARAM;
    }
    const bool is_asked = hints.is_named || hints.must_be_shared || hints.must_be_aligned;
    if (hints.is_other || (!is_asked && hints.has_unknown)
        || (!is_asked && !mca_mpool_freq_component.is_default)) {
        return OPAL_ERR_NOT_FOUND;
    }
    *module = mca_mpool_freq_module_for(&hints);
    *priority = is_asked ? 100 : 60; /* above mpool_base_default_priority, 50 */
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
SPEC_COMPONENT_POINTER(opal, mpool, freq)
