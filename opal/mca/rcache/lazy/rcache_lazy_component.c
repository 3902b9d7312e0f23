/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component: parameters, and a module when one is asked for. */
#include "rcache_lazy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELP_FILE    "help-mpi-rcache-lazy.txt"
#define POLICIES_MAX 16

static int add(const char *name, const char *help, mca_base_var_type_t type, int level,
               mca_base_var_enum_t *values, void *storage)
{
    return mca_base_component_var_register(
        &mca_rcache_lazy_component.public.super.rcache_version, name, help, type, values, 0, 0,
        (mca_base_var_info_lvl_t) level, MCA_BASE_VAR_SCOPE_READONLY, storage);
}

/* The policies name and explain themselves. */
static int add_policy(void)
{
    mca_base_var_enum_value_t choice[POLICIES_MAX + 1] = {{0, NULL}};
    mca_base_var_enum_t *values = NULL;
    char help[1024];
    size_t n =
        (size_t) snprintf(help, sizeof(help), "Which registration ends when room is needed:");
    const lazy_policy_t *policy;
    for (int i = 0; i < POLICIES_MAX && NULL != (policy = lazy_policy_at((unsigned) i)); ++i) {
        choice[i] = (mca_base_var_enum_value_t){i, policy->name};
        n += (size_t) snprintf(help + n, n < sizeof(help) ? sizeof(help) - n : 0, "%s %s, %s",
                               0 == i ? "" : ";", policy->name, policy->help);
        n = n < sizeof(help) ? n : sizeof(help) - 1;
    }
    snprintf(help + n, sizeof(help) - n, ". No unit; default %s", choice[0].string);
    int rc = mca_base_var_enum_create("rcache_lazy_policies", choice, &values);
    if (OPAL_SUCCESS == rc) {
        mca_rcache_lazy_component.policy = 0;
        rc = add("policy", help, MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_4, values,
                 &mca_rcache_lazy_component.policy);
        OBJ_RELEASE(values);
    }
    return rc;
}

static int lazy_register_parameters(void)
{
    mca_rcache_lazy_component_t *c = &mca_rcache_lazy_component;
    opal_show_help_add_dir(SPEC_HELP_DIR);

    c->is_wrong = 0 > add_policy();
    c->max_bytes = 0;
    add("max_bytes",
        "How much memory a cache keeps registered; each network interface has one. What is in use "
        "is "
        "registered even beyond that, and ends with its use. Unit: bytes; default 0: three "
        "quarters of "
        "the limit of locked memory (ulimit -l), and not more than this process's share of half of "
        "the "
        "memory of the host",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_4, NULL, &c->max_bytes);
    c->max_entries = 0;
    add("max_entries",
        "How many registrations a cache keeps. Unit: registrations; default 0: one for every 64 "
        "KiB of "
        "max_bytes, 64 to 16384",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_4, NULL, &c->max_entries);
    c->merge = 100;
    add("merge",
        "A buffer that overlaps registered memory is registered together with it if that makes the "
        "registration larger by no more than this share. Unit: per cent of the buffer; 0: never; "
        "default 100",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, OPAL_INFO_LVL_6, NULL, &c->merge);
    c->around = 65536;
    add("around",
        "A buffer that is smaller is registered with the block of so many bytes that it lies in, "
        "if that can be, so that "
        "its neighbours need not be: registering is dear by the call. Not what others may reach, "
        "and nothing where a fork takes "
        "registered memory away from the child (Linux before 5.12, RDMAV_FORK_SAFE). Unit: bytes, "
        "a power of two, 0 or from a "
        "page to 1 GiB; 0: no more than was asked for; default 65536",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_6, NULL, &c->around);
    c->fork_flush = true;
    add("fork_flush",
        "Forget all registrations when the process forks. Needed with adapters on Linux before "
        "5.12, "
        "where a page that is written after a fork is not the one that was registered. 0 or 1; "
        "default 1",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_6, NULL, &c->fork_flush);
    c->summary = false;
    add("summary",
        "Print what was counted when a cache ends, on the standard error. 0 or 1; default 0",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_3, NULL, &c->summary);
    c->seed = 1;
    add("seed", "Number that the policy random draws from. No unit; default 1",
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, OPAL_INFO_LVL_9, NULL, &c->seed);
    mca_rcache_lazy_pvars_register();
    return OPAL_SUCCESS;
}

/* NULL: nothing. */
static const char *what_is_wrong(void)
{
    const mca_rcache_lazy_component_t *c = &mca_rcache_lazy_component;
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    if (c->is_wrong) {
        return "rcache_lazy_policy is not the name of a policy";
    }
    if (c->merge > 1000) {
        return "rcache_lazy_merge must not be more than 1000 per cent";
    }
    if (0 != c->around
        && (c->around < page || c->around > 1u << 30 || 0 != (c->around & (c->around - 1)))) {
        return "rcache_lazy_around must be 0 or a power of two from the size of a page to 1 GiB";
    }
    return NULL;
}

static mca_rcache_base_module_t *lazy_init(mca_rcache_base_resources_t *resources)
{
    const char *wrong = what_is_wrong();
    if (NULL != wrong) {
        opal_show_help(HELP_FILE, "bad parameters", true, wrong);
        return NULL;
    }
    return mca_rcache_lazy_module_new(resources);
}

/* Nothing of UCX may call into this component when it is gone. */
static int lazy_close(void)
{
    mca_rcache_lazy_ucx_close();
    return OPAL_SUCCESS;
}

__attribute__((visibility("default"))) mca_rcache_lazy_component_t mca_rcache_lazy_component = {
    .public.super =
        {
            .rcache_version =
                {
                    MCA_RCACHE_BASE_VERSION_3_0_0,
                    .mca_component_name = "lazy",
                    MCA_BASE_MAKE_VERSION(component, SPEC_VERSION_MAJOR, SPEC_VERSION_MINOR,
                                          SPEC_VERSION_RELEASE),
                    .mca_close_component = lazy_close,
                    .mca_register_component_params = lazy_register_parameters,
                },
            .rcache_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
            .rcache_init = lazy_init,
        },
    .public.service = &mca_rcache_lazy_the_service,
};
