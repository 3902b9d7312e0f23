/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Modules of the UDP transport: opened for each network interface that is wanted, closed at the end. */
#include "udp/btl_ibx_udp.h"

#include "btl_ibx_atomic.h"
#include "btl_ibx_endpoint.h"
#include "udp/btl_ibx_udp_agent.h"
#include "udp/btl_ibx_udp_endpoint.h"
#include "udp/btl_ibx_udp_message.h"

#include "opal/mca/rcache/base/base.h"

#include <poll.h>
#include <sys/random.h>
#include <time.h>

#define MS UINT64_C(1000000)

uint32_t mca_btl_ibx_udp_modules_n;
mca_btl_ibx_udp_module_t *mca_btl_ibx_udp_modules[MCA_BTL_IBX_INTERFACES];

/* ---- the end ---- */

static void module_free(mca_btl_ibx_udp_module_t *module)
{
    mca_btl_base_endpoint_t *endpoint;
    if (NULL != module->base.rcache) { /* ends all registrations: before the engine */
        (void) mca_rcache_base_module_destroy(module->base.rcache);
    }
    mca_btl_ibx_udp_stats_keep(module);
    if (NULL != module->agent) { /* from here on nobody else is at the engine */
        iw_agent_destroy(module->agent);
        module->agent = NULL;
    }
    OPAL_LIST_FOREACH (endpoint, &module->base.endpoints, mca_btl_base_endpoint_t) {
        if (NULL != ((mca_btl_ibx_udp_endpoint_t *) endpoint)->peer) {
            iw_peer_remove(((mca_btl_ibx_udp_endpoint_t *) endpoint)->peer);
        }
    }
    if (NULL != module->engine) {
        iw_port_flush(module->port, module->engine); /* goodbyes */
        iw_engine_destroy(module->engine);
    }
    if (NULL != module->port) {
        iw_port_close(module->port);
    }
    mca_btl_ibx_udp_failover_close(module);
    mca_btl_ibx_udp_receives_free(module);
    mca_btl_ibx_udp_buffers_fini(&module->frags);
    mca_btl_ibx_udp_buffers_fini(&module->smalls);
    mca_btl_ibx_udp_buffers_fini(&module->headers);
    mca_btl_ibx_udp_reach_close(module);
    OBJ_DESTRUCT(&module->gathered);
    OBJ_DESTRUCT(&module->waiting);
    mca_btl_ibx_module_destruct(&module->base);
}

static int module_finalize(mca_btl_base_module_t *btl)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        if (mca_btl_ibx_udp_modules[i] == module) {
            mca_btl_ibx_udp_modules[i] = mca_btl_ibx_udp_modules[--mca_btl_ibx_udp_modules_n];
            break;
        }
    }
    module_free(module);
    return OPAL_SUCCESS;
}

void mca_btl_ibx_udp_leave(void)
{
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i];
        if (NULL != module->agent) {
            iw_agent_destroy(module->agent);
            module->agent = NULL;
        }
        iw_engine_leave(module->engine);
        iw_port_flush(module->port, module->engine);
    }
}

/* ---- the beginning ---- */

/* Messages of 64 KiB, which are frequent, with the headers of the PML. */
#define EAGER_LIMIT (65536 + 512)

void mca_btl_ibx_udp_defaults(mca_btl_base_module_t *standard)
{
    *standard = (mca_btl_base_module_t){
        .btl_component = &mca_btl_ibx_component.super,
        /* At 64 KiB a rendezvous takes up to two times as long as the copy at the receiver that it spares. Buffers that
         * are not filled cost address space, not memory. */
        .btl_eager_limit = EAGER_LIMIT,
        .btl_rndv_eager_limit = EAGER_LIMIT,
        .btl_max_send_size = EAGER_LIMIT,
        .btl_rdma_pipeline_frag_size = 4u << 20,
        .btl_exclusivity = MCA_BTL_EXCLUSIVITY_LOW + 512, /* above tcp, below vader */
        .btl_latency = 15,
        .btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_RDMA
                     | MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS
                     | MCA_BTL_IBX_FLAG_REMOTE_COMPLETION,
        .btl_atomic_flags = MCA_BTL_IBX_ATOMICS,
        .btl_registration_handle_size = MCA_BTL_IBX_HANDLE_SIZE,
        .btl_get_local_registration_threshold = SIZE_MAX,
        .btl_put_local_registration_threshold = SIZE_MAX,
        .btl_add_procs = mca_btl_ibx_add_procs,
        .btl_del_procs = mca_btl_ibx_del_procs,
        .btl_finalize = module_finalize,
        .btl_alloc = mca_btl_ibx_udp_alloc,
        .btl_free = mca_btl_ibx_frag_free,
        .btl_prepare_src = mca_btl_ibx_udp_prepare_src,
        .btl_send = mca_btl_ibx_udp_send,
        .btl_sendi = mca_btl_ibx_udp_sendi,
        .btl_put = mca_btl_ibx_put,
        .btl_get = mca_btl_ibx_get,
        .btl_dump = mca_btl_base_dump,
        .btl_atomic_op = mca_btl_ibx_atomic_op,
        .btl_atomic_fop = mca_btl_ibx_atomic_fop,
        .btl_atomic_cswap = mca_btl_ibx_atomic_cswap,
        .btl_register_mem = mca_btl_ibx_udp_register_mem,
        .btl_deregister_mem = mca_btl_ibx_udp_deregister_mem,
        .btl_register_error = mca_btl_ibx_register_error,
        MCA_BTL_IBX_MODULE_EXTRAS,
    };
}

/* All of them, whatever fails: module_free takes all down. */
static bool open_lists(mca_btl_ibx_udp_module_t *module)
{
    int failed = mca_btl_ibx_udp_buffers_init(&module->frags, module->base.super.btl_max_send_size);
    failed |= mca_btl_ibx_udp_buffers_init(&module->smalls, MCA_BTL_IBX_UDP_SMALL_ROOM);
    failed |= mca_btl_ibx_udp_buffers_init(&module->headers, MCA_BTL_IBX_UDP_HEADER_ROOM);
    failed |= mca_btl_ibx_module_jobs(&module->base, sizeof(mca_btl_ibx_udp_job_t), OBJ_CLASS(mca_btl_ibx_udp_job_t));
    if (OPAL_SUCCESS != failed) {
        mca_btl_ibx_no_memory(module->base.interface.name, "the lists of buffers to send from", 0);
    }
    return OPAL_SUCCESS == failed;
}

/* From btl_ibx_iwarp_port_min on; 0: any will do. */
static uint32_t ports(void)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    const uint32_t all = UINT16_MAX + 1u - (uint32_t) c->port_min;
    return 0 == c->port_min ? 0 : 0 == c->port_range ? all : (uint32_t) c->port_range;
}

/* errno says why. */
static void tell_no_port(const mca_btl_ibx_interface_t *interface)
{
    const int why = errno, first = mca_btl_ibx_component.port_min;
    if (EADDRINUSE != why || 0 == first) {
        mca_btl_ibx_explain("no socket", interface->name, interface->name, strerror(why));
        return;
    }
    char text[96];
    mca_btl_ibx_explain("all ports taken", interface->name, interface->name,
                        mca_btl_ibx_address_text(&interface->address, text, sizeof(text)), first,
                        first + (int) ports() - 1);
}

/* False: not possible (told). */
static bool open_port(mca_btl_ibx_udp_module_t *module)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    const mca_btl_ibx_interface_t *interface = &module->base.interface;
    iw_port_config_t port;
    iw_port_config_default(&port);
    port.address = interface->address;
    port.address.v4.sin_port = htons((uint16_t) c->port_min); /* at the same place in both families */
    port.ports = ports();
    port.buffer = (uint32_t) c->socket_buffer;
    port.dscp = (uint8_t) c->dscp;
    port.ecn = c->ecn && !interface->is_loopback; /* which nothing marks, and hearing costs a little */
    port.segment = c->segment;
    port.direct = c->direct;
    module->port = iw_port_open(&port);
    if (NULL == module->port) {
        tell_no_port(interface);
    }
    return NULL != module->port;
}

static void trace(void *context, const iw_peer_t *peer, const char *from, const char *to, iw_status_t why)
{
    const mca_btl_ibx_udp_module_t *module = context;
    const uint64_t name = iw_peer_identity(peer);
    spec_tell(opal_btl_base_framework.framework_output, "btl/ibx: %s to process %u.%u: %s -> %s%s%s",
                module->base.interface.name, (unsigned) (name >> 32), (unsigned) name, from, to,
                IW_OK == why ? "" : "; ", IW_OK == why ? "" : iw_status_name(why));
}

/* The engine, and its receive buffers. False: not possible (told). */
static bool open_engine(mca_btl_ibx_udp_module_t *module)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    iw_config_t config;
    iw_config_default(&config);
    iw_key_make(&module->key);
    config.identity = spec_name_of(opal_proc_local_get());
    config.key = module->key;
    config.auth = (iw_auth_mode_t) c->auth;
    config.start = spec_ns(CLOCK_REALTIME);
    config.datagram_max = IW_DATAGRAM_MAX; /* each path is measured */
    config.datagram_min = iw_port_least(module->port);
    config.receive_space = iw_port_space(module->port);
    config.peer_timeout_ns = c->peer_timeout_ms * MS;
    config.silent_timeout_ns = c->silent_timeout_ms * MS;
    config.unknown = mca_btl_ibx_udp_unknown;
    config.alarm = mca_btl_ibx_udp_check_window;
    config.trace = opal_output_get_verbosity(opal_btl_base_framework.framework_output) >= 40 ? trace : NULL;
    config.context = module;
    if (sizeof(config.seed) == getrandom(&config.seed, sizeof(config.seed), 0)) {
        module->engine = iw_engine_create(&config);
    }
    if (NULL != module->engine) {
        ibx_window_init(&module->window, (uint32_t) c->window_initial, (uint32_t) c->window_max,
                        c->window_quiet_ms * MS, iw_port_now());
        if (OPAL_SUCCESS == mca_btl_ibx_udp_fill_window(module)) {
            return true;
        }
    }
    mca_btl_ibx_no_memory(module->base.interface.name, "the protocol and its receive buffers",
                          (size_t) c->window_initial * module->base.super.btl_max_send_size);
    return false;
}

static void meet_strangers(void *context)
{
    mca_btl_ibx_meet_strangers(context);
}

static void tell_of_arrivals(void *context)
{
    const mca_btl_ibx_udp_module_t *module = context;
    if (NULL != module->arrived) {
        module->arrived();
    }
}

static void flush(mca_btl_base_module_t *btl)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    mca_btl_ibx_udp_lock(module);
    iw_agent_flush(module->agent);
    mca_btl_ibx_udp_unlock_sent(module);
}

static void help(mca_btl_base_module_t *btl, const mca_btl_ibx_helper_t *helper)
{
    mca_btl_ibx_udp_module_t *module = (mca_btl_ibx_udp_module_t *) btl;
    mca_btl_ibx_udp_lock(module);
    module->arrived = NULL == helper ? NULL : helper->arrived;
    if (NULL != helper && MCA_BTL_IBX_ASYNC_AUTO == mca_btl_ibx_component.async && !iw_agent_offloads(module->agent)) {
        mca_btl_ibx_udp_agent_settle(module, helper->processors, helper->size);
    }
    mca_btl_ibx_udp_unlock(module);
}

/* Its thread begins with the first peer. False: not possible (told). */
static bool make_agent(mca_btl_ibx_udp_module_t *module, mca_btl_ibx_async_t async)
{
    iw_agent_config_t agent;
    module->has_no_thread = MCA_BTL_IBX_ASYNC_OFF == async;
    iw_agent_config_default(&agent);
    agent.mode = MCA_BTL_IBX_ASYNC_ON == async ? IW_AGENT_OFFLOAD : IW_AGENT_BACKUP;
    agent.owns = mca_btl_ibx_udp_agent_has_processor();
    agent.started = mca_btl_ibx_udp_agent_bind;
    agent.relieved = meet_strangers;
    agent.arrived = tell_of_arrivals;
    agent.context = module;
    module->agent = iw_agent_create(&agent, module->port, module->engine);
    if (NULL == module->agent) {
        mca_btl_ibx_explain("no thread", "", strerror(errno));
    }
    return NULL != module->agent;
}

/* A socket and an engine for an interface. NULL: not possible (told). */
static mca_btl_ibx_udp_module_t *module_new(const mca_btl_base_module_t *standard,
                                            const mca_btl_ibx_interface_t *interface, uint32_t index,
                                            mca_btl_ibx_async_t async)
{
    mca_btl_ibx_udp_module_t *module = calloc(1, sizeof(*module));
    if (NULL == module) {
        mca_btl_ibx_no_memory(interface->name, "an interface", sizeof(*module));
        return NULL;
    }
    module->base.super = *standard;
    module->base.public.magic = MCA_BTL_IBX_MAGIC;
    module->base.public.version = MCA_BTL_IBX_VERSION;
    module->base.public.promises = MCA_BTL_IBX_ORDERED | MCA_BTL_IBX_GATHERS
                                   | (MCA_BTL_IBX_ASYNC_OFF == async ? 0 : MCA_BTL_IBX_ASYNC);
    module->base.public.polls = &mca_btl_ibx_component.polls;
    module->base.public.help = help;
    module->base.public.flush = flush;
    if (0 == module->base.super.btl_bandwidth) {
        module->base.super.btl_bandwidth = interface->mbps;
    }
    mca_btl_ibx_module_construct(&module->base, &mca_btl_ibx_udp_transport, index, interface);
    mca_btl_ibx_udp_reach_open(module);
    OBJ_CONSTRUCT(&module->gathered, opal_list_t);
    OBJ_CONSTRUCT(&module->waiting, opal_list_t);
    if (!open_lists(module) || !open_port(module) || !open_engine(module) || !make_agent(module, async)) {
        module_free(module);
        return NULL;
    }
    /* Before any thread: the first cache of a process makes Open MPI write its hooks over the code of munmap
     * and its like, and a thread that is just in there dies of it. */
    mca_btl_ibx_udp_rcache_open(module);
    return module;
}

/* Where a job has several hosts a process may be asked for as soon as it has published itself, while it does something else.
 * Without a cache Open MPI's hooks may yet be written over the code that a thread is in: it begins with the first peer. */
static void start_agents(void)
{
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n && mca_btl_ibx_job_size() > spec_local_ranks(); ++i) {
        mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i];
        if (NULL != module->base.rcache) {
            mca_btl_ibx_udp_lock(module);
            mca_btl_ibx_udp_agent_start(module);
            mca_btl_ibx_udp_unlock(module);
        }
    }
}

int mca_btl_ibx_udp_open(const mca_btl_base_module_t *standard, const mca_btl_ibx_interface_t *interface, int n,
                         mca_btl_base_module_t **modules)
{
    const mca_btl_ibx_async_t async = mca_btl_ibx_udp_agent_choose((mca_btl_ibx_async_t) mca_btl_ibx_component.async);
    mca_btl_ibx_udp_modules_n = 0;
    for (int i = 0; i < n; ++i) {
        const uint32_t index = mca_btl_ibx_udp_modules_n;
        mca_btl_ibx_udp_module_t *module = module_new(standard, &interface[i], index, async);
        char text[96];
        if (NULL == module) {
            continue;
        }
        modules[index] = &module->base.super;
        mca_btl_ibx_udp_modules[mca_btl_ibx_udp_modules_n++] = module;
        SPEC_TELL(20, opal_btl_base_framework.framework_output, "btl/ibx: module %u on %s, %s, %u Mb/s%s",
                            index, interface[i].name,
                            mca_btl_ibx_address_text(iw_port_address(module->port), text, sizeof(text)),
                            module->base.super.btl_bandwidth, MCA_BTL_IBX_ASYNC_ON == async ? ", with a thread" : "");
    }
    mca_btl_ibx_udp_failover_listen();
    start_agents();
    return (int) mca_btl_ibx_udp_modules_n;
}

void mca_btl_ibx_udp_offer(mca_btl_ibx_modex_t *modex)
{
    modex->count = (uint8_t) mca_btl_ibx_udp_modules_n;
    if (mca_btl_ibx_component.single_copy && modex->count > 0) {
        modex->pid = (uint32_t) getpid();
        modex->key_at = (uint64_t) (uintptr_t) &mca_btl_ibx_udp_modules[0]->key;
    }
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        const mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i];
        mca_btl_ibx_offer_make(&modex->offer[i], &module->base.interface, iw_port_address(module->port), &module->key);
    }
}

int mca_btl_ibx_udp_sockets(struct pollfd *fd)
{
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        fd[i] = (struct pollfd){.fd = iw_port_socket(mca_btl_ibx_udp_modules[i]->port), .events = POLLIN};
    }
    return (int) mca_btl_ibx_udp_modules_n;
}
