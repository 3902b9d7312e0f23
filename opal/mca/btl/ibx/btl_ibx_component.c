/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component: its parameters, which transports make modules, start and end. */
#include "btl_ibx.h"

#include "btl_ibx_fault.h"
#include "btl_ibx_sleep.h"
#include "iwarp/iw_auth.h"
#include "udp/btl_ibx_udp.h"
#include "udp/btl_ibx_udp_agent.h"
#include "verbs/btl_ibx_verbs.h"
#include "window/ibx_window.h"

#include "opal/include/spec/component.h"
#include "opal/include/spec/parameters.h"
#include "opal/runtime/opal_params.h"

/* ---- parameters ---- */

static mca_btl_base_module_t standard; /* the standard parameters of a BTL are kept here */
static pid_t opener;                   /* the process of the modules, and not one that it forked */

static bool is_transport(const char *word, size_t length)
{
    return (5 == length && 0 == strncmp(word, "verbs", length)) || (8 == length && 0 == strncmp(word, "iwarp_ud", length));
}

static const char *refuse_transports(const char *list)
{
    const char *word;
    size_t length;
    bool is_wrong = '\0' == *list;
    while (!is_wrong && mca_btl_ibx_next_word(&list, &word, &length)) {
        is_wrong = !is_transport(word, length);
    }
    return is_wrong ? "a list, separated by commas, of verbs and iwarp_ud" : NULL;
}

static bool is_wanted(const char *transport)
{
    return mca_btl_ibx_names(mca_btl_ibx_component.transport, transport);
}

/* The N of fixed:N; 0: adaptive; -1: it cannot be understood. */
static long fixed_window(const char *text)
{
    char *end = NULL;
    if (NULL == text || 0 == strcmp(text, "adaptive")) {
        return 0;
    }
    const long n = 0 == strncmp(text, "fixed:", 6) ? strtol(text + 6, &end, 10) : 0;
    return n < 2 || n > 65536 || NULL == end || '\0' != *end ? -1 : n;
}

static const char *refuse_window(const char *text)
{
    return fixed_window(text) < 0 ? "adaptive, or fixed:N with N from 2 to 65536" : NULL;
}

/* Whether there is one of this name is seen only where it is asked for. */
static const char *refuse_cache(const char *text)
{
    return '\0' == *text ? MCA_BTL_IBX_CACHES : NULL;
}

static const mca_base_var_enum_value_t auths[] = {
    {IW_AUTH_TAG, "tag"}, {IW_AUTH_OFF, "off"}, {0, NULL}};
static const mca_base_var_enum_value_t asyncs[] = {{MCA_BTL_IBX_ASYNC_AUTO, "auto"},
                                                   {MCA_BTL_IBX_ASYNC_ON, "on"},
                                                   {MCA_BTL_IBX_ASYNC_BACKUP, "backup"},
                                                   {MCA_BTL_IBX_ASYNC_OFF, "off"},
                                                   {0, NULL}};

#define C(field) &mca_btl_ibx_component.field

static const spec_parameter_t parameters[] = {
    SPEC_WORDS("if_include", 1, C(if_include), NULL, .refuse = mca_btl_ibx_refuse_list,
               .help = "Only the interfaces of this list are used: names of interfaces, networks, RDMA devices or their "
                       "ports, separated by commas (eth0,192.0.2.0/24,rxe0,rxe1:1). Without it all interfaces that are up "
                       "are used, and the loopback interface only if there is no other. No unit, names that this host has "
                       "and networks, default none."),
    SPEC_WORDS("if_exclude", 1, C(if_exclude), NULL, .refuse = mca_btl_ibx_refuse_list,
               .help = "The interfaces of this list are not used: names of interfaces, networks, RDMA devices or their "
                       "ports, separated by commas. It cannot be given together with btl_ibx_if_include. No unit, names "
                       "that this host has and networks, default none."),
    SPEC_WORDS("transport", 2, C(transport), "verbs,iwarp_ud", .refuse = refuse_transports,
               .help = "The transports of this list are used, the first one preferred: verbs, an RDMA adapter (InfiniBand, "
                       "RoCE, iWARP); iwarp_ud, datagram iWARP over UDP, which needs no adapter. No unit, a list of both "
                       "or one of them, default verbs,iwarp_ud."),
    SPEC_CHOICE("iwarp_auth", 2, C(auth), IW_AUTH_TAG, auths,
                .help = "Datagrams are protected by this: tag, a keyed tag that nobody outside of the job can make; off, "
                        "nothing but the checksum of UDP. All processes of the job need the same value. No unit, one of "
                        "tag, off, default tag."),
    SPEC_CHOICE("iwarp_async", 2, C(async), MCA_BTL_IBX_ASYNC_AUTO, asyncs,
                .help = "A thread moves data while the application computes: on, it takes every datagram as it comes; "
                        "backup, it works only while the application does not call MPI; off, there is no thread, and lost "
                        "datagrams are sent again only in MPI calls; auto, on if there is a processor to spare for each "
                        "process of the host, or pml/spec's progress agent has one, else backup. No unit, one of auto, on, "
                        "backup, off, default auto."),
    SPEC_NUMBER("iwarp_port_min", 2, C(port_min), 0, 0, UINT16_MAX,
                .help = "A process receives at UDP ports from this one on: for a firewall, which must let datagrams to them "
                        "pass between all hosts of a job (the ports they come from may be any). A process takes the first "
                        "free port for each interface. 0 means any port. No unit, range 0 to 65535, default 0."),
    SPEC_NUMBER("iwarp_port_range", 2, C(port_range), 0, 0, UINT16_MAX,
                .help = "This many UDP ports are used from btl_ibx_iwarp_port_min on: at least as many as the processes of "
                        "all jobs on a host. The parameter has no effect if btl_ibx_iwarp_port_min is 0. 0 means up to port "
                        "65535. Unit: ports, range 0 to 65535, default 0."),
    SPEC_NUMBER("iwarp_dscp", 3, C(dscp), 0, 0, 63,
                .help = "All datagrams carry this differentiated services code point, by which a network may give them a "
                        "class of their own. No unit, range 0 to 63, default 0."),
    SPEC_SWITCH("summary", 3, C(summary), false,
                .help = "Each process prints at the end what was counted, for both transports. No unit, 0 or 1, default 0."),
    SPEC_NUMBER("iwarp_peer_timeout", 4, C(peer_timeout_ms), 30000, 100, INT_MAX,
                .help = "A process that does not answer for this long is given up if its host says that it is not there, or "
                        "the network that the host is not. If nothing is said it may be stopped, as by a debugger, and is "
                        "waited for. This is told once; for a process that never answered, after a sixth of the time. Unit: "
                        "milliseconds, range 100 to 2147483647, default 30000."),
    SPEC_NUMBER("iwarp_silent_timeout", 4, C(silent_timeout_ms), 3600000, 0, INT_MAX,
                .help = "A process is given up if neither it nor the network says anything for this long. A debugger or a "
                        "paused container needs a long time; a host that may vanish without a word a shorter one. A value "
                        "below btl_ibx_iwarp_peer_timeout counts as that. Unit: milliseconds, range 0 to 2147483647, "
                        "default 3600000."),
    SPEC_WORDS("window", 4, C(window), "adaptive", .refuse = refuse_window,
               .help = "An interface has this many receive buffers: adaptive, as many as the traffic asks for, from 8 to "
                       "btl_ibx_window_max; fixed:N, always N, from 2 to 65536. No unit, adaptive or fixed:N, default "
                       "adaptive."),
    SPEC_WORDS("rcache", 4, C(rcache), "auto", .refuse = refuse_cache,
               .help = "User memory is kept registered by this component of the framework rcache: lazy, grdma or another; "
                       "auto, lazy if it is installed, else grdma; none, UDP registers memory for each use, and RDMA "
                       "adapters do as with auto. No unit, the name of a component, default auto."),
    SPEC_NUMBER("iwarp_socket_buffer", 5, C(socket_buffer), 4 << 20, 4096, 1 << 30,
                .help = "The kernel is asked to buffer this much in each direction of an interface's socket; it may give "
                        "less (net.core.rmem_max). Unit: bytes, range 4K to 1G, default 4M."),
    SPEC_NUMBER("window_max", 5, C(window_max), IBX_WINDOW_MAX, 2, 65536,
                .help = "An interface has at most this many receive buffers, of btl_ibx_max_send_size over UDP and of "
                        "btl_ibx_verbs_max_send_size over adapters. Unit: buffers, range 2 to 65536, default 4096."),
    SPEC_NUMBER("sleep_after", 5, C(sleep_after), -1, -1, 1000000, .was = "rest",
                .help = "A process that has waited this long in MPI, with nothing else to do, sleeps until something comes, "
                        "up to 1 ms at a time, instead of polling. The processor is then free for others, or for an "
                        "adapter that is a thread of the kernel (siw, rxe). The parameter has no effect while other BTLs "
                        "than ibx and self are in use. 0 means never; -1 means 1000 if all adapters are such threads, else "
                        "0. Unit: microseconds, range -1 to 1000000, default -1."),
    SPEC_NUMBER("window_quiet", 9, C(window_quiet_ms), 2000, 0, INT_MAX,
                .help = "The receive buffers of an interface are reduced each time this long has passed: to as many as were "
                        "in use at once meanwhile and an eighth more, but not below half. Over adapters the time is at "
                        "least four times that of btl_ibx_rnr_timer. 0 means never. Unit: milliseconds, range 0 to "
                        "2147483647, default 2000."),
    SPEC_SWITCH("iwarp_segment", 9, C(segment), true,
                .help = "The kernel or the adapter cuts and joins runs of datagrams (UDP_SEGMENT, UDP_GRO), if it can. No "
                        "unit, 0 or 1, default 1."),
    SPEC_SWITCH("iwarp_ecn", 9, C(ecn), true,
                .help = "The network is asked to mark datagrams when it is congested instead of dropping them, and senders "
                        "answer marks as they answer losses (ECN, RFC 3168). No unit, 0 or 1, default 1."),
    SPEC_SWITCH("iwarp_direct", 9, C(direct), true, .was = "iwarp_place",
                .help = "The kernel writes large payloads that answer an RDMA Read to where they belong, before they are "
                        "verified there, instead of into a buffer from which they are copied. Until the read completes "
                        "other bytes may be there. No unit, 0 or 1, default 1."),
    SPEC_SWITCH("single_copy", 9, C(single_copy), true,
                .help = "Puts and gets between processes of one host are done by the kernel in one copy (cross memory attach), "
                        "if it allows them to reach each other's memory; otherwise, and between hosts, by datagrams. No "
                        "unit, 0 or 1, default 1."),
    SPEC_SWITCH("iwarp_failover", 9, C(failover), true,
                .help = "Datagrams that the network stops carrying to a process go by another interface or another transport, "
                        "such as tcp, until it carries them again. No unit, 0 or 1, default 1."),
    SPEC_WORDS("fault_register", 9, C(fault_register), NULL, .refuse = mca_btl_ibx_fault_refuse,
               .help = "This share of the registrations of user memory fails on purpose as for lack of resources, over "
                       "every transport: for tests. No unit, a number from 0 to 1, default none."),
    SPEC_NUMBER("fault_seed", 9, C(fault_seed), 0, 0, LLONG_MAX,
                .help = "The faults on purpose are drawn from this number: for tests. 0 means a number by chance, which is "
                        "printed. No unit, range 0 to 9223372036854775807, default 0."),
};
/* Open MPI knows the words of its own parameters, but goes on with others. NULL: these are right. */
static const char *refuse_as_open_mpi(const char *name, const char *text)
{
    const mca_base_var_t *var = NULL;
    int value;
    const int index = mca_base_var_find("opal", "btl", "ibx", name);
    return index < 0 || OPAL_SUCCESS != mca_base_var_get(index, &var) || NULL == var->mbv_enumerator
                   || OPAL_SUCCESS == var->mbv_enumerator->value_from_string(var->mbv_enumerator, text, &value)
               ? NULL
               : "words that ompi_info shows for it, separated by commas, or the sum of their numbers";
}

static const char *refuse_flags(const char *text)
{
    return refuse_as_open_mpi("flags", text);
}

static const char *refuse_atomic_flags(const char *text)
{
    return refuse_as_open_mpi("atomic_flags", text);
}

/* Open MPI registers them for each BTL. Here only what each can be counts. */
#define STANDARD(name, least, most) SPEC_NUMBER(name, 4, &standard.btl_max_send_size, 0, least, most)
static const spec_parameter_t standards[] = {
    SPEC_WORDS("flags", 4, (char **) NULL, NULL, .refuse = refuse_flags),
    SPEC_WORDS("atomic_flags", 4, (char **) NULL, NULL, .refuse = refuse_atomic_flags),
    STANDARD("max_send_size", 1024, 1 << 20),
    STANDARD("eager_limit", 1, 1 << 20),
    STANDARD("rndv_eager_limit", 0, LLONG_MAX),
    STANDARD("put_limit", 0, LLONG_MAX),
    STANDARD("put_alignment", 0, LLONG_MAX),
    STANDARD("get_limit", 0, LLONG_MAX),
    STANDARD("get_alignment", 0, LLONG_MAX),
    STANDARD("min_rdma_pipeline_size", 0, LLONG_MAX),
    STANDARD("rdma_pipeline_send_length", 0, LLONG_MAX),
    STANDARD("rdma_pipeline_frag_size", 1, LLONG_MAX),
    STANDARD("accelerator_max_send_size", 0, LLONG_MAX), /* since 5.0 */
    STANDARD("exclusivity", 0, INT_MAX),
    STANDARD("latency", 0, INT_MAX),
    STANDARD("bandwidth", 0, INT_MAX),
};

/* What a job asks for ibx by, besides btl and pml. */
static const spec_parameter_t asks[] = {
    SPEC_SWITCH("always", 2, C(always), false,
                .help = "Every job uses ibx. Otherwise only those jobs do whose parameter btl names ibx or whose parameter "
                        "pml names spec. No unit, 0 or 1, default 0."),
};

static int ibx_register(void)
{
    mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    if (!SPEC_FITS) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    opal_show_help_add_dir(IBX_HELP_DIR);
    spec_parameters_register(&c->super.btl_version, SPEC_PARAMETERS(asks));
    spec_parameters_register(&c->super.btl_version, SPEC_PARAMETERS(parameters));
    mca_btl_ibx_udp_stats_register();
    mca_btl_ibx_verbs_register(&c->super.btl_version);
    mca_btl_ibx_udp_defaults(&standard);
    return mca_btl_base_param_register(&c->super.btl_version, &standard);
}

/* Parameters that contradict each other end the job, as a wrong one does. */
static void check_together(const mca_btl_ibx_component_t *c)
{
    const mca_base_component_t *version = &c->super.btl_version;
    char value[32], allowed[96];
    if (mca_btl_ibx_is_given(c->if_include) && mca_btl_ibx_is_given(c->if_exclude)) {
        spec_parameter_refuse(version, "if_exclude", c->if_exclude,
                              "nothing, since btl_ibx_if_include is given");
    }
    if (c->port_range > UINT16_MAX + 1 - c->port_min) {
        snprintf(value, sizeof(value), "%d", c->port_range);
        snprintf(allowed, sizeof(allowed), "up to %d, since btl_ibx_iwarp_port_min is %d",
                 UINT16_MAX + 1 - c->port_min, c->port_min);
        spec_parameter_refuse(version, "iwarp_port_range", value, allowed);
    }
    if (standard.btl_eager_limit > standard.btl_max_send_size) {
        snprintf(value, sizeof(value), "%zu", standard.btl_eager_limit);
        snprintf(allowed, sizeof(allowed), "up to btl_ibx_max_send_size, which is %zu",
                 standard.btl_max_send_size);
        spec_parameter_refuse(version, "eager_limit", value, allowed);
    }
}

/* Whether the parameter that selects among a framework's components names one; a list with ^ in front names what is not wanted.
 * Open MPI 4.1 opens BTLs before the PML's framework is there: then the parameter is registered here, as the framework will do
 * again, just to be read. */
static bool selects(const char *project, const char *framework, const char *name)
{
    char *own = NULL, *const *list = NULL;
    int index, mine = -1;
    if (OPAL_SUCCESS != mca_base_var_find_by_name(framework, &index)) {
        index = mine = mca_base_var_register(project, framework, NULL, NULL, NULL, MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0,
                                             OPAL_INFO_LVL_2, MCA_BASE_VAR_SCOPE_ALL_EQ, &own);
    }
    const bool is_named =
        index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, &list, NULL, NULL)
        && NULL != list && NULL != *list && '^' != **list && mca_btl_ibx_names(*list, name);
    if (mine >= 0) {
        (void) mca_base_var_deregister(mine);
    }
    return is_named;
}

static int ibx_open(void)
{
    mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    /* To be installed changes nothing for jobs that do not ask for it. By the parameters as they were given, so that it does
     * not depend on which PML is chosen in the end. */
    spec_parameters_check(&c->super.btl_version, SPEC_PARAMETERS(asks));
    spec_parameters_check_names(&c->super.btl_version); /* perhaps one that was to ask */
    c->is_asked = c->always || selects("opal", "btl", "ibx") || selects("ompi", "pml", "spec");
    if (!c->is_asked) {
        return OPAL_SUCCESS; /* the values that a site gives are none of this job's business */
    }
    spec_parameters_check(&c->super.btl_version, SPEC_PARAMETERS(parameters));
    spec_parameters_check(&c->super.btl_version, SPEC_PARAMETERS(standards));
    mca_btl_ibx_verbs_check(&c->super.btl_version);
    check_together(c);
    const int fixed = (int) fixed_window(c->window), initial = (int) IBX_WINDOW_INITIAL;
    c->window_max = fixed > 0 ? fixed : c->window_max;
    c->window_initial = fixed > 0 ? fixed : c->window_max < initial ? c->window_max : initial;
    mca_btl_ibx_fault_open();
    return OPAL_SUCCESS;
}

static int ibx_close(void)
{
    mca_btl_ibx_udp_stats_print();
    mca_btl_ibx_fault_close();
    return OPAL_SUCCESS;
}

/* ---- start and end ---- */

/* Open MPI 4.1 does not finalize the modules of a spawned process: the BML, which would, is opened there once more than it
 * is closed. Without a goodbye the processes it has talked to would take its end for a failure, and ob1 ends their
 * job. A process that did not get through MPI_Finalize says nothing: its peers are to notice. */
__attribute__((destructor)) static void leave(void)
{
    if (0 == opal_initialized && getpid() == opener) {
        mca_btl_ibx_verbs_leave();
        mca_btl_ibx_udp_leave();
    }
}

/* Tell the others how each module is reached: first the part of this transport, then that of verbs. */
static bool publish(void)
{
    struct {
        mca_btl_ibx_modex_t modex;
        char verbs[MCA_BTL_IBX_VERBS_OFFER_MAX];
    } all = {.modex = {.version = MCA_BTL_IBX_MODEX_VERSION,
                       .auth = (uint8_t) mca_btl_ibx_component.auth}};
    mca_btl_ibx_udp_offer(&all.modex);
    size_t size = mca_btl_ibx_modex_size(all.modex.count);
    size += mca_btl_ibx_verbs_offer((char *) &all + size);
    return mca_btl_ibx_modex_send(&mca_btl_ibx_component.super.btl_version, &all, size);
}

/* Modules of the verbs transport, if wanted. */
static int open_verbs(mca_btl_base_module_t **modules)
{
    if (!is_wanted("verbs")) {
        return 0;
    }
    const bool is_first = 0 == strncmp(mca_btl_ibx_component.transport, "verbs", 5);
    const mca_btl_ibx_verbs_options_t options = {
        .standard = &standard,
        .exclusivity = standard.btl_exclusivity + (is_first ? 1 : -1u),
        .is_only = !is_wanted("iwarp_ud"),
    };
    return mca_btl_ibx_verbs_open(&options, modules);
}

/* Interfaces for datagram iWARP. */
static int find_interfaces(mca_btl_ibx_interface_t *found, bool is_only)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    if (!is_wanted("iwarp_ud")) {
        return 0;
    }
    const int n = mca_btl_ibx_interfaces(found, c->if_include, c->if_exclude);
    if (0 == n && is_only && mca_btl_ibx_is_given(c->if_include)) {
        mca_btl_ibx_explain("no interface", "", c->if_include);
    }
    return n;
}

static mca_btl_base_module_t **ibx_init(int *n, bool progress_threads, bool mpi_threads)
{
    mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    mca_btl_ibx_interface_t found[MCA_BTL_IBX_INTERFACES];
    (void) progress_threads;
    *n = 0;
    opener = getpid();
    if (!c->is_asked) {
        SPEC_TELL(20, opal_btl_base_framework.framework_output,
                            "btl/ibx: not used: btl does not name ibx, pml does not name spec, btl_ibx_always is not set");
        return NULL;
    }
    mca_btl_base_module_t **modules = calloc(2 * MCA_BTL_IBX_INTERFACES, sizeof(*modules));
    if (NULL == modules) {
        mca_btl_ibx_no_memory("all", "the list of interfaces", 2 * MCA_BTL_IBX_INTERFACES * sizeof(*modules));
        return NULL;
    }
    c->locked = mpi_threads || opal_using_threads();
    const int verbs = open_verbs(modules);
    mca_btl_ibx_sleep_open(c->sleep_after);
    const int interfaces = find_interfaces(found, 0 == verbs);
    const int all = verbs + mca_btl_ibx_udp_open(&standard, found, interfaces, modules + verbs);
    if (0 == all || !publish()) {
        for (int i = all; i-- > 0;) {
            (void) modules[i]->btl_finalize(modules[i]);
        }
        free(modules);
        return NULL;
    }
    *n = all;
    return modules;
}

static int poll_all(void)
{
    return mca_btl_ibx_verbs_progress() + mca_btl_ibx_udp_progress();
}

static int progress(void)
{
    return mca_btl_ibx_sleep(poll_all(), poll_all);
}

__attribute__((visibility("default"))) mca_btl_ibx_component_t mca_btl_ibx_component = {
    .super = {
        .btl_version = {
            /* Not MCA_BTL_DEFAULT_VERSION, which says the version of Open MPI instead of this component's. */
            MCA_BTL_IBX_COMPONENT_VERSION,
            .mca_component_name = "ibx",
            MCA_BASE_MAKE_VERSION(component, SPEC_VERSION_MAJOR, SPEC_VERSION_MINOR, SPEC_VERSION_RELEASE),
            .mca_open_component = ibx_open,
            .mca_close_component = ibx_close,
            .mca_register_component_params = ibx_register,
        },
        .btl_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
        .btl_init = ibx_init,
        .btl_progress = progress,
    },
};
SPEC_COMPONENT_POINTER(opal, btl, ibx)
