/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Modules of the verbs transport: parameters, start and end, what is published. */
#include "verbs/btl_ibx_verbs.h"

#include "btl_ibx_atomic.h"
#include "verbs/btl_ibx_verbs_device.h"
#include "verbs/btl_ibx_verbs_inplace.h"
#include "verbs/vb_after.h"
#include "verbs/vb_atomics.h"

#include "opal/include/spec/parameters.h"

#include <inttypes.h>
#include <sys/random.h>
#include <time.h>

#define MS UINT64_C(1000000)

/* How long finalize waits for goodbyes to go out. */
#define LINGER_NS UINT64_C(1000000000)

_Static_assert(sizeof(mca_btl_ibx_verbs_modex_t) <= MCA_BTL_IBX_VERBS_OFFER_MAX, "what is published has room");

mca_btl_ibx_verbs_params_t mca_btl_ibx_verbs_params;
uint32_t mca_btl_ibx_verbs_modules_n;
mca_btl_ibx_verbs_module_t *mca_btl_ibx_verbs_modules[MCA_BTL_IBX_INTERFACES];

/* ---- parameters ---- */

static const mca_base_var_enum_value_t choices[] = {{VB_AUTO, "auto"}, {VB_OFF, "off"}, {0, NULL}};
static const mca_base_var_enum_value_t atomics[] = {
    {VB_ATOMICS_AUTO, "auto"}, {VB_ATOMICS_ADAPTER, "adapter"}, {VB_ATOMICS_MESSAGES, "messages"}, {0, NULL}};
static const mca_base_var_enum_value_t ways[] = {
    {VB_CONNECT_AUTO, "auto"}, {VB_CONNECT_CM, "cm"}, {VB_CONNECT_DATAGRAMS, "datagrams"}, {0, NULL}};

#define P(field) &mca_btl_ibx_verbs_params.field

static const char *refuse_after(const char *text)
{
    uint32_t after;
    return vb_after_read(text, 0, &after) ? NULL : "auto, or a number from 0 to 4294967295";
}

static const spec_parameter_t parameters[] = {
    SPEC_WORDS(
        "rc_after", 4, P(rc_after), "0", .refuse = refuse_after,
        .help = "A peer over InfiniBand or RoCE is reached by datagrams, which need no memory of "
                "its own, until "
                "this many messages, puts and gets have gone there; then it gets a connection. 0 "
                "means connections "
                "from the first message on, and no datagrams, which are slower and not yet proven "
                "on real "
                "adapters; 4294967295 means datagrams only; auto means 64 in jobs of so many "
                "processes that connections "
                "to all would take more than 128 MB of each, at 256 KB a connection, and else 0. "
                "Must be the same in "
                "the whole job. Unit: messages, auto or a number from 0 to 4294967295, default 0."),
    SPEC_NUMBER("max_rc", 4, P(max_rc), VB_CONNECTIONS_MOST, 0, 65536,
                .help = "A process has at most this many connections on one port; peers that come "
                        "later stay with "
                        "datagrams. The parameter has no effect if btl_ibx_rc_after is 0. Unit: "
                        "connections, range 0 to "
                        "65536, default 64."),
    SPEC_CHOICE("connect", 9, P(connect), VB_CONNECT_AUTO, ways,
                .help = "Two ports of adapters are connected by datagrams, which exist on "
                        "InfiniBand and RoCE, or by rdma_cm, "
                        "which needs an IPv4 address on both: auto, by datagrams but for iWARP, "
                        "and ports without an IPv4 address "
                        "are used if no port of the host has one or if btl_ibx_if_include names "
                        "them; datagrams, the same, and such "
                        "ports are always used; cm, by rdma_cm, and such ports are not used. Must "
                        "be the same in the whole job. "
                        "No unit, one of auto, cm, datagrams, default auto."),
    SPEC_NUMBER(
        "service_level", 9, P(service_level), 0, 0, 15,
        .help = "Datagrams of an adapter (btl_ibx_rc_after), and connections that datagrams make "
                "(btl_ibx_connect), "
                "have this service level. That of connections by rdma_cm the subnet's manager "
                "tells, which "
                "InfiniBand asks with btl_ibx_traffic_class. No unit, range 0 to 15, default 0."),
    SPEC_NUMBER(
        "traffic_class", 4, P(traffic_class), 0, 0, 255,
        .help =
            "Packets of an adapter have this traffic class, over RoCE the byte of IP with DSCP and "
            "ECN: 106 "
            "is DSCP 26, by which many networks know RoCE. No unit, range 0 to 255, default 0."),
    SPEC_NUMBER("verbs_max_send_size", 9, P(max_send_size), 8192, 1024, 1 << 20,
                .help = "The registered buffers for an adapter have this size, which is that of "
                        "the longest fragment of a "
                        "message and of the longest message that is sent without being announced, "
                        "and must be the same in "
                        "the whole job (for UDP: btl_ibx_max_send_size and btl_ibx_eager_limit). "
                        "Unit: bytes, range 1K to "
                        "1M, default 8K."),
    SPEC_NUMBER("verbs_ack_timeout", 9, P(ack_timeout), VB_ACK_TIMEOUT, 0, 31,
                .help = "An adapter sends a packet again that has not been acknowledged for 4.096 "
                        "us * 2^n, where n is this "
                        "parameter (InfiniBand and RoCE): 17 means 0.54 s; 0 means the time of the "
                        "driver. Unit: exponent, "
                        "range 0 to 31, default 17."),
    SPEC_NUMBER("verbs_retries", 9, P(retries), VB_RETRIES, 0, 7,
                .help = "An adapter sends a packet that is not acknowledged this many times again "
                        "(InfiniBand and RoCE); "
                        "then the connection breaks. Unit: times, range 0 to 7, default 7."),
    SPEC_NUMBER(
        "verbs_resume_timeout", 9, P(resume_timeout_ms), 0, 0, INT_MAX,
        .help =
            "A connection that breaks in use is made again, and goes on where it was; a peer that "
            "has given no "
            "answer for this time then counts as lost, and so does one whose connections break "
            "nine times in a row, each "
            "sooner than that. 0 means that a peer is lost when its connection breaks. 30000 is a "
            "good value to try. Not over iWARP, and not with btl_ibx_rc_after: there a peer whose "
            "connection breaks is lost. Must be 0, or not 0, in the whole job. Unit: milliseconds, "
            "range 0 to "
            "2147483647, default 0."),
    SPEC_SWITCH("verbs_failover", 9, P(failover), true,
                .help = "A connection that breaks in use goes on by another port (adapter) of the "
                        "process that reaches the peer, as "
                        "messages there, until its own network carries again, which is tried from "
                        "time to time. The parameter has no effect if "
                        "btl_ibx_verbs_resume_timeout is 0. Must be the same in the whole job. No "
                        "unit, 0 or 1, default 1."),
    SPEC_CHOICE("verbs_dmabuf", 9, P(dmabuf), VB_OFF, choices,
                .help = "An adapter reads and writes the memory of an accelerator (GPU) by itself "
                        "if the accelerator's library "
                        "gives out dma-bufs (CUDA, ROCm) and adapter and kernel take them, with "
                        "Open MPI 5.0 and 6.0. It was "
                        "never tried with a real accelerator: auto uses it if it can, off never. "
                        "No unit, one of auto, off, "
                        "default off."),
    SPEC_CHOICE("verbs_relaxed_ordering", 9, P(relaxed), VB_OFF, choices,
                .help = "An adapter may write messages, and the memory of puts and gets that is no "
                        "window of MPI, in any order "
                        "(relaxed ordering of PCI Express), which some processors need for the "
                        "full bandwidth. It was never "
                        "measured on a real adapter: auto, where adapter and kernel can; off, "
                        "never. No unit, one of auto, off, "
                        "default off."),
    SPEC_CHOICE("verbs_atomics_by", 9, P(atomics), VB_ATOMICS_AUTO, atomics,
                .help = "Atomic operations on the memory of this process are done by its adapter, "
                        "and it need not call MPI for "
                        "them; or they are messages, which it answers when it calls MPI: auto, by "
                        "the adapter if it can, if all "
                        "peers are reached by connections, and if this process uses one device "
                        "only or the adapter's are atomic "
                        "with the processor's; adapter, also with several devices, of which no two "
                        "may be used for one word; "
                        "messages. Each process "
                        "chooses for its own memory, and others obey. No unit, one of auto, "
                        "adapter, messages, default auto."),
    SPEC_NUMBER("verbs_bulk_min", 9, P(bulk_min), 1 << 20, 0, UINT32_MAX,
                .help = "A process to which a put or get of at least this size goes over "
                        "InfiniBand or RoCE gets a second "
                        "connection, which takes all puts and gets from then on, so that small "
                        "messages do not wait behind "
                        "them. The first transfer of sixteen times this size waits until that is "
                        "there, a second at most. 0 means one "
                        "connection for all. It has no effect with btl_ibx_rc_after. Unit: bytes, "
                        "range 0 to 4294967295, default "
                        "1M."),
    SPEC_CHOICE("verbs_srq", 9, P(shared_queue), VB_AUTO, choices,
                .help = "All connections of a port share one receive queue: auto, if the device "
                        "can do that and the fabric "
                        "repeats messages that find no buffer (not iWARP); off, each connection "
                        "has its own queue, with "
                        "credits. No unit, one of auto, off, default auto."),
    SPEC_NUMBER("verbs_link_window_max", 9, P(link_window_max), VB_LINK_WINDOW_MAX, 8, 16384,
                .help = "A connection has at most this many receive buffers where connections have "
                        "a queue of their own "
                        "(btl_ibx_verbs_srq). Unit: buffers, range 8 to 16384, default 512."),
    SPEC_NUMBER("verbs_inline", 9, P(inline_max), VB_INLINE_MAX, 0, 512,
                .help = "Messages up to this size, a header of 8 bytes included, are copied into "
                        "the work request. The "
                        "device may allow less. Unit: bytes, range 0 to 512, default 256."),
    SPEC_NUMBER("rnr_timer", 9, P(rnr_timer), VB_RNR_TIMER, 0, 31,
                .help = "A sender whose message found no receive buffer at the peer waits this "
                        "long before it sends the "
                        "message again. The value is the code of the InfiniBand specification: 1 "
                        "is 0.01 ms, 12 is 0.64 "
                        "ms, 31 is 491.52 ms, 0 is 655.36 ms. A longer time saves bandwidth, a "
                        "shorter one saves time when "
                        "receivers are late. Unit: code, range 0 to 31, default 12."),
};

void mca_btl_ibx_verbs_register(const mca_base_component_t *version)
{
    spec_parameters_register(version, SPEC_PARAMETERS(parameters));
    mca_btl_ibx_verbs_stats_register(version);
}

void mca_btl_ibx_verbs_check(const mca_base_component_t *version)
{
    spec_parameters_check(version, SPEC_PARAMETERS(parameters));
}

/* ---- modules ---- */

/* A connection, or the way to a peer, went from a state to another. */
static void tell_change(const mca_btl_ibx_verbs_module_t *module, const char *what, const vb_peer_t *peer, const char *event,
                        const char *from, const char *to, const char *why)
{
    const uint64_t name = vb_peer_name(peer);
    spec_tell(opal_btl_base_framework.framework_output, "btl/ibx: %s%s to process %u.%u: %s, %s: %s%s%s",
              vb_port_abilities(module->port)->device, what, (unsigned) (name >> 32), (unsigned) name, event, from, to,
              '\0' != *why ? "; " : "", why);
}

static void trace(void *context, const vb_peer_t *peer, vb_conn_state_t from, vb_conn_event_t event,
                  const char *why)
{
    tell_change(context, "", peer, vb_conn_event_name(event), vb_conn_state_name(from),
                vb_conn_state_name(vb_peer_connection(peer)->state), why);
}

static void switch_trace(void *context, const vb_peer_t *peer, vb_switch_state_t from, vb_switch_event_t event)
{
    tell_change(context, ", way", peer, vb_switch_event_name(event), vb_switch_state_name(from),
                vb_switch_state_name(vb_peer_switch(peer)->state), "");
}

static uint32_t messages_before_connection(void)
{
    const uint32_t processes = mca_btl_ibx_job_size();
    uint32_t after = 0;
    (void) vb_after_read(mca_btl_ibx_verbs_params.rc_after, processes, &after);
    SPEC_TELL(20, opal_btl_base_framework.framework_output,
              "btl/ibx: btl_ibx_rc_after %s: %u (%u processes, of each %" PRIu64 " MB for connections to all, at most %" PRIu64
              " MB are sensible)",
              mca_btl_ibx_verbs_params.rc_after, after, processes, processes * VB_CONNECTION_BYTES >> 20,
              VB_CONNECTIONS_BYTES >> 20);
    return after;
}

static bool configure_datagrams(vb_config_t *config)
{
    struct vb_datagram_config *d = &config->datagram;
    d->after = messages_before_connection();
    d->max_connections = mca_btl_ibx_verbs_params.max_rc;
    d->auth = (uint8_t) mca_btl_ibx_component.auth;
    d->peer_timeout_ns = mca_btl_ibx_component.peer_timeout_ms * MS;
    d->start = spec_ns(CLOCK_REALTIME);
    return sizeof(d->qkey) == getrandom(&d->qkey, sizeof(d->qkey), 0)
           && sizeof(d->key) == getrandom(d->key, sizeof(d->key), 0)
           && sizeof(d->seed) == getrandom(&d->seed, sizeof(d->seed), 0);
}

/* able: the device and the port. */
static void configure_port(vb_config_t *config, mca_btl_ibx_verbs_module_t *module, const vb_abilities_t *able)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    const mca_btl_ibx_verbs_params_t *p = &mca_btl_ibx_verbs_params;
    vb_config_default(config);
    if (AF_INET == module->base.interface.address.any.sa_family) {
        config->address = module->base.interface.address.v4;
        config->address.sin_port = 0;
    }
    snprintf(config->device, sizeof(config->device), "%s", able->device);
    config->port = able->port;
    config->connect = (vb_connect_t) p->connect;
    config->name = spec_name_of(opal_proc_local_get());
    config->key = module->key;
    config->shared_queue = (vb_choice_t) p->shared_queue;
    config->window_initial = (uint32_t) c->window_initial;
    config->window_max = (uint32_t) c->window_max;
    config->window_quiet_ns = c->window_quiet_ms * MS;
    config->link_window_max = p->link_window_max;
    config->buffer_size = (uint32_t) (p->max_send_size + sizeof(vb_hdr_t) + 63) & ~63u;
    config->inline_max = p->inline_max;
    config->relaxed = VB_OFF != p->relaxed;
    config->notices = c->sleep_after < 0 ? VB_AUTO : 0 == c->sleep_after ? VB_OFF : VB_ON;
    config->rnr_timer = (uint8_t) p->rnr_timer;
    config->ack_timeout = (uint8_t) p->ack_timeout;
    config->retries = (uint8_t) p->retries;
    config->rules.resume_ns = p->resume_timeout_ms * MS;
    config->part_max = mca_btl_ibx_verbs_part_max();
    config->copy = mca_btl_ibx_verbs_copy;
    config->service_level = (uint8_t) p->service_level;
    config->traffic_class = (uint8_t) p->traffic_class;
    config->context = module;
    config->done = mca_btl_ibx_verbs_done;
    config->ready = mca_btl_ibx_verbs_ready;
    config->down = mca_btl_ibx_verbs_down;
    config->stranger = mca_btl_ibx_verbs_stranger;
    config->second = mca_btl_ibx_verbs_asked_for_second;
    if (opal_output_get_verbosity(opal_btl_base_framework.framework_output) >= 40) {
        config->trace = trace;
        config->switch_trace = switch_trace;
    }
}

static int open_lists(mca_btl_ibx_verbs_module_t *module)
{
    OBJ_CONSTRUCT(&module->frags, opal_free_list_t);
    module->has_lists = true;
    int rc = opal_free_list_init(&module->frags, sizeof(mca_btl_ibx_verbs_frag_t),
                                 opal_cache_line_size, OBJ_CLASS(mca_btl_ibx_verbs_frag_t),
                                 sizeof(vb_hdr_t) + module->base.super.btl_max_send_size, 64, 16, -1, 32,
                                 NULL, 0, module->base.rcache, NULL, NULL);
    if (OPAL_SUCCESS == rc) {
        rc = mca_btl_ibx_module_jobs(&module->base, sizeof(mca_btl_ibx_verbs_job_t), OBJ_CLASS(mca_btl_ibx_verbs_job_t));
    }
    return rc;
}

/* Before the memory of fragments and jobs goes. */
static void forget_pending(opal_list_t *endpoints)
{
    mca_btl_base_endpoint_t *endpoint;
    OPAL_LIST_FOREACH (endpoint, endpoints, mca_btl_base_endpoint_t) {
        while (NULL != opal_list_remove_first(&((mca_btl_ibx_verbs_endpoint_t *) endpoint)->pending)) {}
        while (
            NULL
            != opal_list_remove_first(&((mca_btl_ibx_verbs_endpoint_t *) endpoint)->bulk_pending)) {
        }
    }
}

static void module_free(mca_btl_ibx_verbs_module_t *module)
{
    if (NULL != module->port) {
        if (module->has_lists) {
            mca_btl_ibx_verbs_stats_keep(module);
        }
        vb_port_quiesce(module->port, LINGER_NS);
    }
    forget_pending(&module->base.endpoints);
    forget_pending(&module->base.gone);
    while (NULL != opal_list_remove_first(&module->base.ended)) {}
    mca_btl_ibx_verbs_inplace_close(module);
    if (module->has_lists) {
        OBJ_DESTRUCT(&module->frags);
    }
    if (NULL != module->base.rcache) {
        (void) mca_rcache_base_module_destroy(module->base.rcache);
    }
    if (NULL != module->port) {
        vb_port_close(module->port);
    }
    vb_map_free(&module->keys);
    mca_btl_ibx_module_destruct(&module->base);
}

static int finalize(mca_btl_base_module_t *btl)
{
    mca_btl_ibx_verbs_module_t *module = (mca_btl_ibx_verbs_module_t *) btl;
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        if (mca_btl_ibx_verbs_modules[i] == module) {
            mca_btl_ibx_verbs_modules[i] = mca_btl_ibx_verbs_modules[--mca_btl_ibx_verbs_modules_n];
            break;
        }
    }
    mca_btl_ibx_verbs_failover_listen();
    module_free(module);
    return OPAL_SUCCESS;
}

void mca_btl_ibx_verbs_leave(void)
{
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        vb_port_leave(mca_btl_ibx_verbs_modules[i]->port, LINGER_NS);
    }
}

static unsigned devices(void)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        const char *name = vb_port_abilities(mca_btl_ibx_verbs_modules[i]->port)->device;
        uint32_t first = 0;
        while (0 != strcmp(name, vb_port_abilities(mca_btl_ibx_verbs_modules[first]->port)->device)) {
            ++first;
        }
        n += i == first;
    }
    return n;
}

/* When all ports are known, and before anybody registers memory for others. */
static void choose_atomics(mca_btl_ibx_verbs_module_t *module)
{
    const vb_abilities_t *able = vb_port_abilities(module->port);
    const vb_atomics_facts_t facts = {.why_none = able->atomics_why,
                                      .are_coherent = able->atomics_coherent,
                                      .why_no_loop = '\0' == able->loop_why[0] ? NULL : able->loop_why,
                                      .by_datagrams = able->datagrams,
                                      .devices = devices()};
    const vb_atomics_t choice =
        vb_atomics_choose((vb_atomics_wish_t) mca_btl_ibx_verbs_params.atomics, &facts, &module->atomics_why);
    module->base.has_atomics = VB_BY_ADAPTER == choice;
    /* Where the device or the job leaves no choice. Elsewhere another process of this host may choose its adapter, and osc/rdma would
     * have the processor change its words if one of the others said that it may. */
    const bool is_settled = !able->atomics || able->datagrams;
    module->base.super.btl_atomic_flags = module->base.has_atomics ? MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP
                                          : is_settled             ? MCA_BTL_IBX_ATOMICS
                                                       : MCA_BTL_IBX_ATOMICS & ~(uint32_t) MCA_BTL_ATOMIC_SUPPORTS_GLOB;
}

/* What is in use of the device's abilities, and why not the others. */
static void tell_abilities(const mca_btl_ibx_verbs_module_t *module)
{
#define UNLESS(has, yes, no, why) (has) ? (yes) : (no), (has) ? "" : (why), (has) ? "" : ")"
    const vb_abilities_t *able = vb_port_abilities(module->port);
    SPEC_TELL(20, opal_btl_base_framework.framework_output,
              "btl/ibx: %s port %u on %s, %s, %u Mb/s, connected by %s (port %u), by datagrams too: %s%s%s; shared receive queue: %s%s%s; "
              "atomics: %s%s%s; fence: %s%s%s; send queue %u, inline up to %u bytes; datagrams: %s%s%s",
              able->device, able->port, module->base.interface.name, vb_fabric_name(able->fabric), able->mbps,
              able->by_datagrams ? "datagrams" : "rdma_cm", vb_port_number(module->port),
              UNLESS('\0' == able->mailbox_why[0], "yes", "no (", able->mailbox_why), UNLESS(able->shared_queue, "yes", "no (", able->shared_queue_why),
              UNLESS(module->base.has_atomics, "the device's", "messages (", module->atomics_why),
              UNLESS(able->fences, "yes", "no (", able->fences_why), able->queue_depth, able->inline_max,
              UNLESS(able->datagrams, "yes", "no (", able->datagrams_why));
#undef UNLESS
}

/* The module of a port, with sizes and flags, and nothing open yet. NULL: out of memory (told). */
static mca_btl_ibx_verbs_module_t *module_make(const mca_btl_ibx_verbs_options_t *options,
                                               const mca_btl_ibx_interface_t *interface, uint32_t index)
{
    mca_btl_ibx_verbs_module_t *module = calloc(1, sizeof(*module));
    if (NULL == module) {
        mca_btl_ibx_no_memory(interface->name, "a port of an RDMA adapter", sizeof(*module));
        return NULL;
    }
    mca_btl_base_module_t *super = &module->base.super;
    *super = *options->standard; /* flags, the sizes of a pipeline, and what is the same over UDP */
    module->base.public.magic = MCA_BTL_IBX_MAGIC;
    module->base.public.version = MCA_BTL_IBX_VERSION;
    module->base.public.promises = MCA_BTL_IBX_ORDERED | MCA_BTL_IBX_ASYNC;
    super->btl_latency = 3;
    super->btl_exclusivity = options->exclusivity;
    super->btl_eager_limit = super->btl_rndv_eager_limit = super->btl_max_send_size =
        mca_btl_ibx_verbs_params.max_send_size;
    super->btl_get_limit = super->btl_put_limit = SIZE_MAX;
    super->btl_get_local_registration_threshold = super->btl_put_local_registration_threshold = 0;
    super->btl_finalize = finalize;
    super->btl_alloc = mca_btl_ibx_verbs_alloc;
    super->btl_prepare_src = mca_btl_ibx_verbs_prepare_src;
    super->btl_send = mca_btl_ibx_verbs_send;
    super->btl_sendi = mca_btl_ibx_verbs_sendi;
    super->btl_register_mem = mca_btl_ibx_verbs_register_mem;
    super->btl_deregister_mem = mca_btl_ibx_deregister_mem;
    mca_btl_ibx_module_construct(&module->base, &mca_btl_ibx_verbs_transport, index, interface);
    return module;
}

/* The port, and what is known of it. False: not possible; why: what is to be told, or empty. */
static bool module_open(mca_btl_ibx_verbs_module_t *module, const mca_btl_ibx_verbs_options_t *options,
                        const vb_abilities_t *able, char *why, size_t size)
{
    vb_config_t config;
    *why = '\0';
    if (sizeof(module->key) != getrandom(&module->key, sizeof(module->key), 0)) {
        return false;
    }
    configure_port(&config, module, able);
    if (!configure_datagrams(&config)) {
        return false;
    }
    /* Before the port's thread: the first cache of a process makes Open MPI write its hooks over the code of
     * munmap and its like, and a thread that is just in there dies of it. */
    if (OPAL_SUCCESS != mca_btl_ibx_verbs_open_cache(module)) {
        snprintf(why, size, "there is no registration cache (neither rcache/lazy nor grdma)");
        return false;
    }
    module->port = vb_port_open(&config, why, size);
    if (NULL == module->port) {
        return false;
    }
    const vb_abilities_t *real = vb_port_abilities(module->port);
    module->is_iwarp = VB_IWARP == real->fabric;
    if (module->is_iwarp) {
        /* A write is complete as soon as TCP has it (RFC 5040, 5.5). */
        module->base.super.btl_flags &= ~(uint32_t) MCA_BTL_IBX_FLAG_REMOTE_COMPLETION;
    }
    /* Over iWARP a FIN that is sent when its put is complete is behind the data only in the same connection. */
    module->bulk_min = module->is_iwarp ? 0 : mca_btl_ibx_verbs_params.bulk_min;
    module->base.public.promises |= real->fences ? MCA_BTL_IBX_FENCED : 0;
    mca_btl_ibx_verbs_device_open(module);
    module->rnr_before = vb_device_rnr(real);
    module->base.super.btl_bandwidth =
        0 != options->standard->btl_bandwidth ? options->standard->btl_bandwidth : real->mbps;
    if (OPAL_SUCCESS != open_lists(module)) {
        snprintf(why, size, "send buffers cannot be registered (ulimit -l is too low?)");
        return false;
    }
    module->base.public.promises |= mca_btl_ibx_promises_of_cache(module->base.rcache);
    return true;
}

/* NULL: the port cannot be used (told). able: its device and number. */
static mca_btl_ibx_verbs_module_t *module_new(const mca_btl_ibx_verbs_options_t *options,
                                              const mca_btl_ibx_interface_t *interface, const vb_abilities_t *able,
                                              uint32_t index)
{
    char why[256];
    mca_btl_ibx_verbs_module_t *module = module_make(options, interface, index);
    if (NULL == module) {
        return NULL;
    }
    if (!module_open(module, options, able, why, sizeof(why))) {
        if ('\0' != *why) {
            mca_btl_ibx_explain("no port", interface->name, able->device, (int) able->port, interface->name, why);
        }
        module_free(module);
        return NULL;
    }
    mca_btl_ibx_verbs_inplace_open(module);
    return module;
}

/* What the modules are made of, and where they go. */
typedef struct opening {
    const mca_btl_ibx_verbs_options_t *options;
    mca_btl_base_module_t **modules;
} opening_t;

static void open_port(void *context, const mca_btl_ibx_interface_t *interface, const vb_abilities_t *able)
{
    const opening_t *opening = context;
    mca_btl_ibx_verbs_module_t *module = module_new(opening->options, interface, able, mca_btl_ibx_verbs_modules_n);
    if (NULL != module) {
        opening->modules[mca_btl_ibx_verbs_modules_n] = &module->base.super;
        mca_btl_ibx_verbs_modules[mca_btl_ibx_verbs_modules_n++] = module;
    }
}

int mca_btl_ibx_verbs_open(const mca_btl_ibx_verbs_options_t *options, mca_btl_base_module_t **modules)
{
    opening_t opening = {.options = options, .modules = modules};
    mca_btl_ibx_verbs_modules_n = 0;
    const bool some = mca_btl_ibx_verbs_each_port(open_port, &opening);
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        choose_atomics(mca_btl_ibx_verbs_modules[i]);
        tell_abilities(mca_btl_ibx_verbs_modules[i]);
    }
    if (0 == mca_btl_ibx_verbs_modules_n) {
        const char *why = some ? "none of its ports is up, wanted and usable"
                               : "this host has none (or its driver is not loaded)";
        if (options->is_only) {
            const char *include = mca_btl_ibx_component.if_include;
            mca_btl_ibx_explain("no device", "", why, NULL == include ? "" : include);
        } else {
            SPEC_TELL(1, opal_btl_base_framework.framework_output,
                                "btl/ibx: no RDMA adapter is used: %s; datagrams over UDP instead", why);
        }
    }
    mca_btl_ibx_verbs_failover_listen();
    return (int) mca_btl_ibx_verbs_modules_n;
}

static void offer_address(mca_btl_ibx_verbs_offer_t *offer, const vb_dgram_address_t *own)
{
    offer->lid = iw_be16(own->lid);
    offer->qkey = iw_be32(own->qkey);
    memcpy(offer->gid, own->gid, sizeof(own->gid));
}

/* Both are at the same place, and have the same Q_Key. */
static void offer_datagrams(mca_btl_ibx_verbs_offer_t *offer,
                            const mca_btl_ibx_verbs_module_t *module)
{
    vb_dgram_address_t own;
    if (vb_port_datagrams(module->port, &own, offer->datagram_key)) {
        offer->number = iw_be32(own.number);
        offer_address(offer, &own);
    }
    if (vb_port_mailbox(module->port, &own)) {
        offer->mailbox = iw_be32(own.number);
        offer->by_datagrams = vb_port_abilities(module->port)->by_datagrams;
        offer_address(offer, &own);
    }
}

size_t mca_btl_ibx_verbs_offer(void *to)
{
    mca_btl_ibx_verbs_modex_t modex = {.version = MCA_BTL_IBX_VERBS_MODEX_VERSION,
                                       .count = (uint8_t) mca_btl_ibx_verbs_modules_n};
    const size_t size =
        offsetof(mca_btl_ibx_verbs_modex_t, offer) + modex.count * sizeof(modex.offer[0]);
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        const mca_btl_ibx_verbs_module_t *module = mca_btl_ibx_verbs_modules[i];
        iw_address_t bound = module->base.interface.address;
        iw_key_t key = {.b = {0}};
        bound.v4.sin_port = htons(vb_port_number(module->port));
        memcpy(key.b, &module->key, sizeof(module->key));
        mca_btl_ibx_offer_make(&modex.offer[i].ip, &module->base.interface, &bound, &key);
        if (AF_INET != bound.any.sa_family) {
            modex.offer[i].ip.family = 0;
        }
        modex.offer[i].fabric = (uint8_t) vb_port_abilities(module->port)->fabric;
        modex.offer[i].atomics = module->base.has_atomics ? VB_BY_ADAPTER : VB_BY_MESSAGES;
        offer_datagrams(&modex.offer[i], module);
    }
    memcpy(to, &modex, size);
    return size;
}
