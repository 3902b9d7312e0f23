/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component as Open MPI loads it: its parameters, and a registration cache for each owner (a BTL, for one adapter) that
 * asks for one. */
#include "rcache_lazy.h"

#include "opal/include/spec/component.h"
#include "opal/include/spec/parameters.h"

#define POLICIES_MAX 16
#define TIB          (1LL << 40)

static mca_base_var_enum_value_t policies[POLICIES_MAX + 1];
static char policy_help[SPEC_PARAMETER_TEXT];

static const spec_parameter_t parameters[] = {
    SPEC_SWITCH("summary", 3, &mca_rcache_lazy_component.summary, false,
                .help = "Each registration cache prints on the standard error what it counted, "
                        "when it ends. No unit, 0 or 1, default 0."),
    SPEC_NUMBER("max_bytes", 4, &mca_rcache_lazy_component.max_bytes, 0, 0, TIB,
                .help = "A registration cache, of which each network interface has one, keeps up "
                        "to this much memory registered. Memory in use is registered even beyond "
                        "that, until its use ends. 0 means three quarters of the limit of locked "
                        "memory (ulimit -l), but not more than this process's share of half of "
                        "the memory of the host. Unit: bytes, range 0 to 1024G, default 0."),
    SPEC_NUMBER("max_entries", 5, &mca_rcache_lazy_component.max_entries, 0, 0, 1 << 30,
                .help = "A registration cache keeps up to this many registrations. 0 means one "
                        "for every 64 KiB of rcache_lazy_max_bytes, but at least 64 and at most "
                        "16384. Unit: registrations, range 0 to 1G, default 0."),
    SPEC_CHOICE("policy", 4, &mca_rcache_lazy_component.policy, 0, policies, .help = policy_help),
    SPEC_SWITCH("fork_flush", 6, &mca_rcache_lazy_component.fork_flush, true,
                .help = "All registrations end when the process forks. Adapters need that on "
                        "Linux before 5.12, where a page that is written after a fork is no more "
                        "the page that was registered. No unit, 0 or 1, default 1."),
};

/* What the policies say of themselves is the help of the parameter. */
static void list_policies(void)
{
    const lazy_policy_t *policy;
    size_t n = (size_t) snprintf(policy_help, sizeof(policy_help),
                                 "The policy chooses the registration that is evicted when room is "
                                 "needed. One of ");
    for (int i = 0; i < POLICIES_MAX && NULL != (policy = lazy_policy_at((unsigned) i)); ++i) {
        policies[i] = (mca_base_var_enum_value_t){i, policy->name};
        n += (size_t) snprintf(policy_help + n, sizeof(policy_help) - n, "%s%s (%s)",
                               0 == i ? "" : ", ", policy->name, policy->help);
    }
    snprintf(policy_help + n, sizeof(policy_help) - n, ". No unit, default %s.",
             policies[0].string);
}

static int lazy_register_parameters(void)
{
    if (!SPEC_FITS) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    opal_show_help_add_dir(SPEC_HELP_DIR);
    list_policies();
    spec_parameters_register(&mca_rcache_lazy_component.public.super.rcache_version,
                             SPEC_PARAMETERS(parameters));
    mca_rcache_lazy_pvars_register();
    return OPAL_SUCCESS;
}

static int lazy_open(void)
{
    const mca_base_component_t *component = &mca_rcache_lazy_component.public.super.rcache_version;
    spec_parameters_check(component, SPEC_PARAMETERS(parameters));
    spec_parameters_check_names(component);
    return OPAL_SUCCESS;
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
                    .mca_open_component = lazy_open,
                    .mca_close_component = lazy_close,
                    .mca_register_component_params = lazy_register_parameters,
                },
            .rcache_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
            .rcache_init = mca_rcache_lazy_module_new,
        },
    .public.service = &mca_rcache_lazy_the_service,
};
SPEC_COMPONENT_POINTER(opal, rcache, lazy)
