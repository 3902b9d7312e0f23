/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component as Open MPI loads it: its parameters, and a registration cache for each owner (a BTL, for one adapter) that
 * asks for one. */
#include "rcache_lazy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELP_FILE    "help-mpi-rcache-lazy.txt"
#define POLICIES_MAX 16

enum { TEXT = 1024, AROUND_MOST = 1 << 30 };

static const struct {
    const char *name;
    mca_base_var_type_t type;
    int level;
    size_t at; /* in the component */
    const char *help;
} parameters[] = {
#define AT(field) offsetof(mca_rcache_lazy_component_t, field)
    {"summary", MCA_BASE_VAR_TYPE_BOOL, 3, AT(summary),
     "Whether to print on the standard error, when a registration cache ends, what it counted. 0 "
     "or 1, default 0."},
    {"max_bytes", MCA_BASE_VAR_TYPE_SIZE_T, 4, AT(max_bytes),
     "How much memory a registration cache keeps registered; each network interface has a cache. "
     "Memory in use is registered even beyond that, until its use ends. Unit: bytes, any size, "
     "default 0: three quarters of the limit of locked memory (ulimit -l), but not more than this "
     "process's share of half of the memory of the host."},
    {"max_entries", MCA_BASE_VAR_TYPE_SIZE_T, 4, AT(max_entries),
     "How many registrations a registration cache keeps. Unit: registrations, any number, default "
     "0: one for every 64 KiB of rcache_lazy_max_bytes, between 64 and 16384."},
    {"fork_flush", MCA_BASE_VAR_TYPE_BOOL, 6, AT(fork_flush),
     "Whether all registrations are forgotten when the process forks. That is needed with adapters "
     "on Linux before 5.12, where a page that is written after a fork is not the page that was "
     "registered. 0 or 1, default 1."},
    {"around", MCA_BASE_VAR_TYPE_SIZE_T, 9, AT(around),
     "Size of the aligned block that is registered with a smaller buffer in it, so that the "
     "buffers beside it need not be: most of the cost of registering is by the call. Memory that "
     "peers may access is not, nor any where a fork takes registered memory away from the child "
     "(Linux before 5.12, RDMAV_FORK_SAFE). Unit: bytes, a power of two from the size of a page to "
     "1 GiB, or 0 for no more than was asked for, default 65536."},
#undef AT
};

static int add(const char *name, const char *help, mca_base_var_type_t type, int level,
               mca_base_var_enum_t *values, void *storage)
{
    return mca_base_component_var_register(
        &mca_rcache_lazy_component.public.super.rcache_version, name, help, type, values, 0, 0,
        (mca_base_var_info_lvl_t) (level - 1), MCA_BASE_VAR_SCOPE_READONLY, storage);
}

/* What all policies say of themselves: with `explain` as "lru (...), ...", else as "lru, ...". */
static void list_policies(char text[TEXT], bool explain)
{
    const lazy_policy_t *policy;
    size_t n = 0;
    for (unsigned i = 0; NULL != (policy = lazy_policy_at(i)) && n < TEXT; ++i) {
        n += (size_t) snprintf(text + n, TEXT - n, explain ? "%s%s (%s)" : "%s%s",
                               0 == i ? "" : ", ", policy->name, policy->help);
    }
}

static bool add_policy(void)
{
    mca_base_var_enum_value_t choice[POLICIES_MAX + 1] = {{0, NULL}};
    mca_base_var_enum_t *values = NULL;
    char list[TEXT], help[TEXT + 128];
    const lazy_policy_t *policy;
    for (int i = 0; i < POLICIES_MAX && NULL != (policy = lazy_policy_at((unsigned) i)); ++i) {
        choice[i] = (mca_base_var_enum_value_t){i, policy->name};
    }
    list_policies(list, true);
    snprintf(help, sizeof(help),
             "Which registration is evicted when room is needed. One of: %s. No unit, default %s.",
             list, choice[0].string);
    if (OPAL_SUCCESS != mca_base_var_enum_create("rcache_lazy_policies", choice, &values)) {
        return false;
    }
    mca_rcache_lazy_component.policy = 0;
    const int rc =
        add("policy", help, MCA_BASE_VAR_TYPE_INT, 4, values, &mca_rcache_lazy_component.policy);
    OBJ_RELEASE(values);
    return rc >= 0;
}

static int lazy_register_parameters(void)
{
    mca_rcache_lazy_component_t *c = &mca_rcache_lazy_component;
    opal_show_help_add_dir(SPEC_HELP_DIR);
    c->max_bytes = 0;
    c->max_entries = 0;
    c->around = 65536;
    c->fork_flush = true;
    c->summary = false;
    c->has_policy = add_policy();
    for (size_t i = 0; i < sizeof(parameters) / sizeof(*parameters); ++i) {
        (void) add(parameters[i].name, parameters[i].help, parameters[i].type, parameters[i].level,
                   NULL, (char *) c + parameters[i].at);
    }
    mca_rcache_lazy_pvars_register();
    return OPAL_SUCCESS;
}

/* A value that a parameter cannot have is an error with a text, not a surprise later. */
static bool are_parameters_valid(void)
{
    const mca_rcache_lazy_component_t *c = &mca_rcache_lazy_component;
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    const size_t around = c->around;
    char value[32], allowed[TEXT];
    if (!c->has_policy) {
        const char *given = getenv("OMPI_MCA_rcache_lazy_policy");
        list_policies(allowed, false);
        opal_show_help(HELP_FILE, "bad parameter", true, "rcache_lazy_policy",
                       NULL == given ? "(from a file)" : given, allowed);
        return false;
    }
    if (0 != around && (around < page || around > AROUND_MOST || 0 != (around & (around - 1)))) {
        snprintf(value, sizeof(value), "%zu", around);
        snprintf(allowed, sizeof(allowed), "0, or a power of two from %zu to %d", page,
                 AROUND_MOST);
        opal_show_help(HELP_FILE, "bad parameter", true, "rcache_lazy_around", value, allowed);
        return false;
    }
    return true;
}

static mca_rcache_base_module_t *lazy_init(mca_rcache_base_resources_t *resources)
{
    return are_parameters_valid() ? mca_rcache_lazy_module_new(resources) : NULL;
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
