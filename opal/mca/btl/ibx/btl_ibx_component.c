/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The component: its parameters, which transports make modules, start and end. */
#include "btl_ibx.h"
#include "btl_ibx_asked.h"

#include "btl_ibx_fault.h"
#include "btl_ibx_sleep.h"
#include "iwarp/iw_auth.h"
#include "iwarp/iw_zerocopy_cost.h"
#include "udp/btl_ibx_udp.h"
#include "udp/btl_ibx_udp_agent.h"
#include "udp/btl_ibx_udp_stats.h"
#include "verbs/btl_ibx_verbs.h"
#include "window/ibx_window.h"

#include "opal/runtime/opal_params.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELP_FILE "help-mpi-btl-ibx.txt"
#define MS UINT64_C(1000000)

/* ---- parameters ---- */

static void add(const char *name, const char *help, mca_base_var_type_t type, int level,
                mca_base_var_enum_t *values, void *storage)
{
    (void) mca_base_component_var_register(&mca_btl_ibx_component.super.btl_version, name, help, type,
                                           values, 0, 0, (mca_base_var_info_lvl_t) level,
                                           MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static void add_choice(const char *name, const char *help, int level,
                       const mca_base_var_enum_value_t *choice, int *storage)
{
    mca_base_var_enum_t *values = NULL;
    if (OPAL_SUCCESS == mca_base_var_enum_create(name, choice, &values)) {
        add(name, help, MCA_BASE_VAR_TYPE_INT, level, values, storage);
        OBJ_RELEASE(values);
    }
}

static mca_btl_base_module_t standard; /* the standard parameters of a BTL are kept here */
static pid_t opener;                   /* the process of the modules, and not one that it forked */

static int ibx_register(void)
{
    static const mca_base_var_enum_value_t auths[] = {
        {IW_AUTH_TAG, "tag"}, {IW_AUTH_CRC, "crc"}, {IW_AUTH_OFF, "off"}, {0, NULL}};
    static const mca_base_var_enum_value_t lends[] = {
        {IW_ZEROCOPY_OFF, "off"}, {IW_ZEROCOPY_ON, "on"}, {IW_ZEROCOPY_AUTO, "auto"}, {0, NULL}};
    static const mca_base_var_enum_value_t asyncs[] = {{MCA_BTL_IBX_ASYNC_AUTO, "auto"},
                                                       {MCA_BTL_IBX_ASYNC_ON, "on"},
                                                       {MCA_BTL_IBX_ASYNC_BACKUP, "backup"},
                                                       {MCA_BTL_IBX_ASYNC_OFF, "off"},
                                                       {0, NULL}};
    mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    opal_show_help_add_dir(IBX_HELP_DIR);

    c->transport = "verbs,iwarp_ud";
    add("transport",
        "Transports to use, the preferred one first: verbs, an RDMA adapter (InfiniBand, RoCE, iWARP); "
        "iwarp_ud, datagram iWARP over UDP, which needs none. Default verbs,iwarp_ud",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_2, NULL, &c->transport);
    c->if_include = NULL;
    add("if_include",
        "Use only these: interfaces, networks, RDMA devices or ports of such, separated by commas "
        "(eth0,192.0.2.0/24,rxe0,rxe1:1). Default: all that are up; loopback only if nothing else is",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_1, NULL, &c->if_include);
    c->if_exclude = NULL;
    add("if_exclude",
        "Do not use these: interfaces, networks, RDMA devices or ports of such, separated by commas. "
        "Default: none. Not together with if_include",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_1, NULL, &c->if_exclude);
    c->auth = IW_AUTH_TAG;
    add_choice("iwarp_auth",
               "What protects a datagram: tag, a keyed tag that nobody outside the job can make; crc, "
               "a checksum against accidents; off, nothing but UDP's own. The same in the whole job. "
               "Default tag",
               OPAL_INFO_LVL_2, auths, &c->auth);
    c->async = MCA_BTL_IBX_ASYNC_AUTO;
    add_choice("iwarp_async",
               "A thread that moves data while the application computes: on, takes every datagram as it "
               "comes; backup, only while the application does not call MPI; off, none (what gets lost "
               "is then sent again only in MPI calls); auto: on if there is a processor to spare for "
               "each process of the host, else backup. Default auto",
               OPAL_INFO_LVL_2, asyncs, &c->async);
    c->peer_timeout_ms = 30000;
    add("iwarp_peer_timeout",
        "A process that does not answer for this long is given up if its host says that it is not "
        "there, or the network "
        "that the host is not; else it may be stopped, as by a debugger, and is asked on, which is "
        "told once. Unit: "
        "milliseconds, at least 100; default 30000",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_4, NULL, &c->peer_timeout_ms);
    c->silent_timeout_ms = 3600000;
    add("iwarp_silent_timeout",
        "A process of which neither itself nor the network says anything is given up after this "
        "long: more than a debugger or "
        "a paused container needs; less where a host may vanish without a word and the job is to "
        "end soon. Unit: "
        "milliseconds; less than btl_ibx_iwarp_peer_timeout is the same as that; default 3600000, "
        "an hour",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_4, NULL, &c->silent_timeout_ms);
    c->socket_buffer = 4u << 20;
    add("iwarp_socket_buffer",
        "What the kernel is asked to buffer in each direction of an interface's socket; it may give "
        "less (net.core.rmem_max). Unit: bytes; default 4M",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, NULL, &c->socket_buffer);
    c->port_min = 0;
    add("iwarp_port_min",
        "The UDP ports at which this process may be reached begin with this one: for a firewall, which must let datagrams to "
        "them pass between all hosts of a job (what is sent may come from any port). A process takes one for each "
        "interface, the first that is free. No unit, range 0 to 65535, 0: any port; default 0",
        MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_2, NULL, &c->port_min);
    c->port_range = 0;
    add("iwarp_port_range",
        "How many ports there are from btl_ibx_iwarp_port_min on: at least as many as processes of all jobs on a host. Without "
        "effect while that is 0. Unit: ports, 0: up to 65535; default 0",
        MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_2, NULL, &c->port_range);
    c->segment = true;
    add("iwarp_segment",
        "Let the kernel or the adapter cut and join runs of datagrams (UDP_SEGMENT, UDP_GRO), if it "
        "can. 0 or 1; default 1",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_6, NULL, &c->segment);
    c->lend = IW_ZEROCOPY_AUTO;
    add_choice("iwarp_lend",
               "Give large payloads to the kernel by reference (splice) instead of letting it copy them, "
               "if it can: on, always; off, never; auto, where that takes less time, as is measured while "
               "the program runs. Default auto",
               OPAL_INFO_LVL_6, lends, &c->lend);
    c->place = true;
    add("iwarp_place",
        "Let the kernel write large payloads that answer an RDMA Read to where they belong, before they are verified there, "
        "instead of copying them after. Until the read completes other bytes may be there. 0 or 1; default 1",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_6, NULL, &c->place);
    c->window = "adaptive";
    add("window",
        "Receive buffers of an interface: adaptive, as many as the traffic asks for, from "
        "btl_ibx_window_initial to btl_ibx_window_max; fixed:N, always N. Default adaptive",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_4, NULL, &c->window);
    c->window_initial = IBX_WINDOW_INITIAL;
    add("window_initial",
        "Receive buffers of an interface in the beginning. Doubled whenever half are in use. Unit: "
        "buffers of btl_ibx_max_send_size or btl_ibx_verbs_max_send_size, range 2 to window_max; default 8",
        MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5, NULL, &c->window_initial);
    c->window_max = IBX_WINDOW_MAX;
    add("window_max", "Most receive buffers of an interface. Unit: buffers, up to 65536; default 4096",
        MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5, NULL, &c->window_max);
    c->window_quiet_ms = 2000;
    add("window_quiet",
        "Each time so long has passed, the receive buffers of an interface become as many as were "
        "in use at a time meanwhile, and an eighth more; at least half of what they were. At least "
        "four times btl_ibx_rnr_timer over verbs. Unit: milliseconds, 0: never; default 2000",
        MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, NULL, &c->window_quiet_ms);
    c->rcache = NULL;
    add("rcache",
        "Which component of the framework rcache keeps user memory registered: lazy, grdma or another; "
        "none: memory is registered for each use. Default: lazy if it is there, else grdma",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_4, NULL, &c->rcache);
    c->fault_in = c->fault_out = c->fault_register = NULL;
    add("fault_in",
        "For tests: damage what arrives, as drop=0.01,duplicate=0.01,reorder=0.05,delay=0.01:3ms,"
        "corrupt=0.001,truncate=0.001. Default none",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_9, NULL, &c->fault_in);
    add("fault_out", "For tests: damage what leaves, as fault_in. Default none",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_9, NULL, &c->fault_out);
    add("fault_register",
        "For tests: the share of registrations of user memory that fail as for lack of resources, "
        "0 to 1, over every transport. Default none",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_9, NULL, &c->fault_register);
    c->fault_seed = 0;
    add("fault_seed", "For tests: number that the faults are drawn from; 0: by chance, and printed. "
        "No unit; default 0",
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, OPAL_INFO_LVL_9, NULL, &c->fault_seed);

    c->rest = -1;
    add("rest",
        "A process that has waited for so long, and does nothing else, sleeps until something comes, up to 1 ms at a "
        "time, instead of polling: the processor is free for an adapter that is a thread of the kernel (siw, "
        "rxe), or for others. Without effect while other BTLs than ibx and self are in use. Unit: "
        "microseconds; 0: never; -1: 1000 if all adapters are such threads, else 0; default -1",
        MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5, NULL, &c->rest);

    c->always = false;
    add("always",
        "Use ibx in every job. By itself it is used only in jobs that ask for it: those whose parameter btl names ibx or "
        "whose parameter pml names spec. 0 or 1; default 0",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_2, NULL, &c->always);
    c->summary = false;
    add("summary", "Print what was counted at the end, each process for itself. 0 or 1; default 0",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_3, NULL, &c->summary);
    mca_btl_ibx_udp_stats_register();
    mca_btl_ibx_verbs_register(&c->super.btl_version);

    mca_btl_ibx_udp_defaults(&standard);
    return mca_btl_base_param_register(&c->super.btl_version, &standard);
}

static int ibx_open(void)
{
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
static int publish(void)
{
    struct {
        mca_btl_ibx_modex_t modex;
        char verbs[MCA_BTL_IBX_VERBS_OFFER_MAX];
    } all = {.modex = {.version = MCA_BTL_IBX_MODEX_VERSION,
                       .auth = (uint8_t) mca_btl_ibx_component.auth}};
    mca_btl_ibx_udp_offer(&all.modex);
    size_t size = mca_btl_ibx_modex_size(all.modex.count);
    size += mca_btl_ibx_verbs_offer((char *) &all + size, MCA_BTL_IBX_VERBS_OFFER_MAX);
    return mca_btl_ibx_modex_send(&mca_btl_ibx_component.super.btl_version, &all, size);
}

/* The rank of a transport in the parameter's list, from 1; 0: not in it; -1: the list is wrong. */
static int rank_of(const char *transport)
{
    int rank = 0, n = 0;
    for (const char *word = mca_btl_ibx_component.transport; NULL != word && '\0' != *word;) {
        const size_t length = strcspn(word, ",");
        if (!(5 == length && 0 == strncmp(word, "verbs", 5))
            && !(8 == length && 0 == strncmp(word, "iwarp_ud", 8))) {
            return -1;
        }
        ++n;
        if (0 == rank && strlen(transport) == length && 0 == strncmp(word, transport, length)) {
            rank = n;
        }
        word += length;
        word += ',' == *word;
    }
    return rank;
}

/* btl_ibx_window. False: it cannot be understood. */
static bool parse_window(void)
{
    mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    if (NULL == c->window || '\0' == *c->window || 0 == strcmp(c->window, "adaptive")) {
        return true;
    }
    char *end = NULL;
    const long n = 0 == strncmp(c->window, "fixed:", 6) ? strtol(c->window + 6, &end, 10) : 0;
    if (n < 2 || n > 65536 || NULL == end || '\0' != *end) {
        return false;
    }
    c->window_initial = c->window_max = (int) n;
    return true;
}

/* Parameters that contradict themselves. False: told. */
static bool check_parameters(void)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    const char *wrong = NULL;
    if (rank_of("verbs") < 0 || 0 == rank_of("verbs") + rank_of("iwarp_ud")) {
        wrong = "btl_ibx_transport is a list of verbs and iwarp_ud";
    } else if (!parse_window()) {
        wrong = "btl_ibx_window is adaptive or fixed:N with N from 2 to 65536";
    } else if (NULL != c->if_include && '\0' != *c->if_include && NULL != c->if_exclude
        && '\0' != *c->if_exclude) {
        wrong = "btl_ibx_if_include and btl_ibx_if_exclude cannot both be given";
    } else if (c->window_initial < 2 || c->window_max < c->window_initial || c->window_max > 65536) {
        wrong = "btl_ibx_window_initial must be at least 2 and at most btl_ibx_window_max, and that "
                "at most 65536";
    } else if (c->rest < -1) {
        wrong = "btl_ibx_rest must be a number of microseconds, or -1";
    } else if (c->port_min < 0 || c->port_min > UINT16_MAX) {
        wrong = "btl_ibx_iwarp_port_min must be a port, 1 to 65535, or 0";
    } else if (c->port_range < 0 || c->port_range > UINT16_MAX + 1 - c->port_min) {
        wrong = "btl_ibx_iwarp_port_range must not be negative, nor go beyond port 65535";
    } else if (c->peer_timeout_ms < 100) {
        wrong = "btl_ibx_iwarp_peer_timeout must be at least 100 milliseconds";
    } else if (standard.btl_max_send_size < 1024 || standard.btl_max_send_size > 1u << 20
               || standard.btl_eager_limit > standard.btl_max_send_size) {
        wrong = "btl_ibx_max_send_size must be 1024 to 1048576 bytes and not less than "
                "btl_ibx_eager_limit";
    } else if (!mca_btl_ibx_fault_open()) {
        wrong = "btl_ibx_fault_register must be a number from 0 to 1";
    }
    if (NULL != wrong) {
        opal_show_help(HELP_FILE, "bad parameters", true, wrong);
    }
    return NULL == wrong;
}

/* Modules of the verbs transport, if wanted. */
static int open_verbs(mca_btl_base_module_t **modules)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    const int rank = rank_of("verbs"), other = rank_of("iwarp_ud");
    const mca_btl_ibx_verbs_options_t options = {
        .standard = &standard,
        .if_include = c->if_include,
        .if_exclude = c->if_exclude,
        .window_initial = (uint32_t) c->window_initial,
        .window_max = (uint32_t) c->window_max,
        .window_quiet_ns = c->window_quiet_ms * MS,
        .exclusivity = standard.btl_exclusivity + (0 == other || rank < other ? 1 : -1u),
        .is_only = 0 == other,
        .auth = (uint8_t) c->auth,
        .peer_timeout_ns = c->peer_timeout_ms * MS,
        .rest = c->rest,
    };
    return rank > 0 ? mca_btl_ibx_verbs_open(&options, modules, MCA_BTL_IBX_INTERFACES) : 0;
}

/* Interfaces for datagram iWARP. -1: none, and that is told. */
static int find_interfaces(mca_btl_ibx_interface_t *found, bool is_only)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    const char *wrong;
    if (rank_of("iwarp_ud") <= 0) {
        return 0;
    }
    const int n = mca_btl_ibx_interfaces(found, c->if_include, c->if_exclude, &wrong);
    if (n < 0) {
        opal_show_help(HELP_FILE, "bad interfaces", true, wrong);
    } else if (0 == n && is_only && NULL != c->if_include && '\0' != *c->if_include) {
        opal_show_help(HELP_FILE, "no interface", true, c->if_include);
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
    if (!mca_btl_ibx_asked()) {
        opal_output_verbose(20, opal_btl_base_framework.framework_output,
                            "btl/ibx: not used: btl does not name ibx, pml does not name spec, btl_ibx_always is not set");
        return NULL;
    }
    if (!check_parameters()) {
        return NULL;
    }
    mca_btl_base_module_t **modules = calloc(2 * MCA_BTL_IBX_INTERFACES, sizeof(*modules));
    if (NULL == modules) {
        return NULL;
    }
    c->locked = mpi_threads || opal_using_threads();
    const int verbs = open_verbs(modules);
    mca_btl_ibx_sleep_open(c->rest);
    const int interfaces = find_interfaces(found, 0 == verbs);
    const int all = verbs + mca_btl_ibx_udp_open(&standard, found, interfaces, modules + verbs);
    if (0 == all || OPAL_SUCCESS != publish()) {
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
            MCA_BTL_DEFAULT_VERSION("ibx"),
            .mca_open_component = ibx_open,
            .mca_close_component = ibx_close,
            .mca_register_component_params = ibx_register,
        },
        .btl_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
        .btl_init = ibx_init,
        .btl_progress = progress,
    },
};
