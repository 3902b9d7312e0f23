/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_udp_endpoint.h. */
#include "udp/btl_ibx_udp_endpoint.h"

#include "udp/btl_ibx_udp_message.h"
#include "udp/btl_ibx_udp_rdma.h"

#include "opal/util/proc.h"

#include <stdlib.h>
#include <string.h>

static void endpoint_construct(mca_btl_ibx_endpoint_t *endpoint)
{
    endpoint->module = NULL;
    endpoint->proc = NULL;
    endpoint->peer = NULL;
    endpoint->is_self = false;
    endpoint->is_dead = false;
}

OBJ_CLASS_INSTANCE(mca_btl_ibx_endpoint_t, opal_list_item_t, endpoint_construct, NULL);

/* What the process published, if it makes sense; the caller frees. NULL: it does not use this BTL. */
static mca_btl_ibx_modex_t *published(const opal_proc_t *proc)
{
    void *data = NULL;
    size_t size = 0;
    if (OPAL_SUCCESS
            != mca_btl_ibx_modex_recv(&mca_btl_ibx_component.super.btl_version, proc, &data, &size)
        || NULL == data) {
        return NULL;
    }
    mca_btl_ibx_modex_t *modex = data;
    if (size < mca_btl_ibx_modex_size(0) || MCA_BTL_IBX_MODEX_VERSION != modex->version
        || modex->count > MCA_BTL_IBX_INTERFACES || size < mca_btl_ibx_modex_size(modex->count)) {
        BTL_ERROR(("btl/ibx: the process on host %s published addresses that make no sense here "
                   "(another version?); it is not reached by ibx", mca_btl_ibx_host_of(proc)));
        free(data);
        return NULL;
    }
    if (modex->auth != (uint8_t) mca_btl_ibx_component.auth) {
        BTL_ERROR(("btl/ibx: btl_ibx_iwarp_auth is not the same here and on host %s; the process "
                   "there is not reached by ibx. Set it for all processes alike",
                   mca_btl_ibx_host_of(proc)));
        free(data);
        return NULL;
    }
    return modex;
}

static bool is_same_host(const opal_proc_t *proc)
{
    return OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags);
}

/* A new endpoint for a process as it published itself, in no list. NULL: it is not to be reached by this module. Asks the
 * runtime: lock is not held. */
static mca_btl_ibx_endpoint_t *endpoint_new(mca_btl_ibx_module_t *module, opal_proc_t *proc)
{
    mca_btl_ibx_modex_t *modex = published(proc);
    if (NULL == modex) {
        return NULL;
    }
    mca_btl_ibx_interface_t all[MCA_BTL_IBX_INTERFACES];
    for (uint32_t i = 0; i < mca_btl_ibx_component.modules_n; ++i) {
        all[i] = mca_btl_ibx_component.modules[i]->interface;
    }
    const bool self = proc == opal_proc_local_get();
    const int pair = self ? (int) module->index
                          : mca_btl_ibx_pair(all, mca_btl_ibx_component.modules_n, module->index,
                                             modex->offer, modex->count, is_same_host(proc));
    iw_address_t address;
    if (pair >= 0) {
        mca_btl_ibx_offer_address(&modex->offer[pair], &address);
    }
    const bool reached = pair >= 0
                         && (self || mca_btl_ibx_has_route(&module->interface.address, &address));
    mca_btl_ibx_endpoint_t *endpoint = reached ? OBJ_NEW(mca_btl_ibx_endpoint_t) : NULL;
    if (NULL != endpoint) {
        endpoint->module = module;
        endpoint->proc = proc;
        endpoint->name = mca_btl_ibx_name_of(proc);
        endpoint->is_self = self;
        endpoint->address = address;
        memcpy(endpoint->key.b, modex->offer[pair].key, sizeof(endpoint->key.b));
    }
    free(modex);
    return endpoint;
}

/* The endpoint of a process, made if need be; NULL: it is not to be reached by this module. lock is
 * not held. */
static mca_btl_ibx_endpoint_t *endpoint_of(mca_btl_ibx_module_t *module, opal_proc_t *proc)
{
    const uint64_t name = mca_btl_ibx_name_of(proc);
    void *known = NULL;
    mca_btl_ibx_lock(module);
    const int rc = opal_hash_table_get_value_uint64(&module->by_name, name, &known);
    mca_btl_ibx_unlock(module);
    if (OPAL_SUCCESS == rc) {
        return known;
    }
    mca_btl_ibx_endpoint_t *endpoint = endpoint_new(module, proc);
    if (NULL == endpoint) {
        return NULL;
    }
    mca_btl_ibx_lock(module);
    if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(&module->by_name, name, &known)) {
        OBJ_RELEASE(endpoint); /* another thread was faster */
        endpoint = known;
    } else if (OPAL_SUCCESS != opal_hash_table_set_value_uint64(&module->by_name, name, endpoint)) {
        OBJ_RELEASE(endpoint);
        endpoint = NULL;
    } else {
        opal_list_append(&module->endpoints, &endpoint->super);
    }
    mca_btl_ibx_unlock(module);
    return endpoint;
}

int mca_btl_ibx_add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                          mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    for (size_t i = 0; i < n; ++i) {
        endpoints[i] = endpoint_of(module, procs[i]);
        if (NULL != endpoints[i] && NULL != reachable) {
            int rc = opal_bitmap_set_bit(reachable, (int) i);
            if (OPAL_SUCCESS != rc) {
                return rc;
            }
        }
    }
    return OPAL_SUCCESS;
}

/* Nothing goes to the endpoint any more, and what waits for it has ended (mca_btl_ibx_tell_ended). lock is held. */
static void part(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint)
{
    endpoint->is_dead = true;
    if (NULL != endpoint->peer) {
        iw_peer_remove(endpoint->peer);
        endpoint->peer = NULL;
        mca_btl_ibx_flush(module); /* says goodbye */
    }
    mca_btl_ibx_drop_jobs(module, endpoint);
    mca_btl_ibx_drop_frags(module, endpoint);
}

int mca_btl_ibx_del_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                          mca_btl_base_endpoint_t **endpoints)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    (void) endpoints;
    for (size_t i = 0; i < n; ++i) {
        void *known;
        mca_btl_ibx_lock(module);
        const uint64_t name = mca_btl_ibx_name_of(procs[i]);
        if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(&module->by_name, name, &known)) {
            mca_btl_ibx_endpoint_t *endpoint = known;
            opal_hash_table_remove_value_uint64(&module->by_name, name);
            opal_list_remove_item(&module->endpoints, &endpoint->super);
            part(module, endpoint);
            opal_list_append(&module->gone, &endpoint->super); /* what is to be told still names it */
        }
        mca_btl_ibx_unlock(module);
    }
    mca_btl_ibx_lock(module);
    mca_btl_ibx_tell_ended(module);
    mca_btl_ibx_unlock(module);
    return OPAL_SUCCESS;
}

iw_peer_t *mca_btl_ibx_connect(mca_btl_ibx_endpoint_t *endpoint)
{
    if (!endpoint->is_dead) {
        endpoint->peer = iw_peer_add(endpoint->module->engine, endpoint->name, &endpoint->address,
                                     &endpoint->key, endpoint);
        if (NULL != endpoint->peer) {
            iw_peer_expect(endpoint->peer,
                           iw_port_promise(endpoint->module->port, &endpoint->address));
        }
    }
    return endpoint->peer;
}

/* Keeps what it said until it is known. lock is held. */
static void keep(mca_btl_ibx_module_t *module, uint64_t name, const uint8_t *data, size_t length)
{
    const uint32_t n = module->strangers_n;
    for (uint32_t i = 0; i < n; ++i) {
        if (module->strangers[i].name == name) {
            return;
        }
    }
    uint8_t *copy = n < MCA_BTL_IBX_STRANGERS && NULL != data ? malloc(length) : NULL;
    if (NULL != copy) {
        memcpy(copy, data, length);
        module->strangers[n].name = name;
        module->strangers[n].data = copy;
        module->strangers[n].length = length;
        __atomic_store_n(&module->strangers_n, n + 1, __ATOMIC_RELEASE);
    }
}

iw_peer_t *mca_btl_ibx_unknown(void *context, iw_engine_t *engine, uint64_t identity)
{
    mca_btl_ibx_module_t *module = context;
    void *known;
    if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(&module->by_name, identity, &known)) {
        mca_btl_ibx_endpoint_t *endpoint = known;
        return endpoint->is_self ? NULL : mca_btl_ibx_connect(endpoint);
    }
    size_t length;
    const uint8_t *data = iw_engine_hello(engine, &length);
    keep(module, identity, data, length);
    return NULL;
}

void mca_btl_ibx_silent(const mca_btl_ibx_endpoint_t *endpoint, unsigned seconds)
{
    const mca_btl_ibx_component_t *c = &mca_btl_ibx_component;
    char text[96];
    if (NULL == endpoint) {
        return;
    }
    mca_btl_ibx_lock(endpoint->module);
    const bool is_dead = endpoint->is_dead;
    mca_btl_ibx_unlock(endpoint->module);
    if (is_dead) {
        return;
    }
    mca_btl_ibx_address_text(&endpoint->address, text, sizeof(text));
    /* Not a help text: mpirun of Open MPI 4.1 was seen to lose one that came in the middle of a job. */
    opal_output(
        0,
        "btl/ibx: process %s on host %s (%s) is silent for %u s, and nothing says that it has "
        "ended: it may be "
        "stopped, or its host gone. It is given up after %zu s (btl_ibx_iwarp_silent_timeout).",
        OPAL_NAME_PRINT(endpoint->proc->proc_name), mca_btl_ibx_host_of(endpoint->proc), text,
        seconds, c->silent_timeout_ms / 1000);
}

void mca_btl_ibx_meet_strangers(mca_btl_ibx_module_t *module)
{
    while (0 != __atomic_load_n(&module->strangers_n, __ATOMIC_ACQUIRE)) {
        mca_btl_ibx_lock(module);
        const uint32_t n = module->strangers_n;
        if (0 == n) { /* another thread was faster */
            mca_btl_ibx_unlock(module);
            return;
        }
        const uint64_t name = module->strangers[n - 1].name;
        const size_t length = module->strangers[n - 1].length;
        uint8_t *data = module->strangers[n - 1].data;
        __atomic_store_n(&module->strangers_n, n - 1, __ATOMIC_RELAXED);
        mca_btl_ibx_unlock(module);

        opal_proc_t *proc = opal_proc_for_name(mca_btl_ibx_name(name));
        mca_btl_ibx_endpoint_t *endpoint = NULL == proc ? NULL : endpoint_of(module, proc);
        if (NULL != endpoint && !endpoint->is_self) {
            mca_btl_ibx_lock(module);
            iw_engine_input(module->engine, iw_port_now(), data, length);
            mca_btl_ibx_flush(module);
            mca_btl_ibx_unlock(module);
        }
        free(data);
    }
}

static void tell_lost(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint, iw_status_t status)
{
    char text[96];
    mca_btl_ibx_address_text(&endpoint->address, text, sizeof(text));
    char *info = NULL;
    if (0 > asprintf(&info, "%s: %s", text, iw_status_name(status))) {
        info = NULL;
    }
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl/ibx: the process on host %s is lost (%s)",
                        mca_btl_ibx_host_of(endpoint->proc), NULL == info ? text : info);
    if (NULL != module->error) {
        module->error(&module->super, MCA_BTL_ERROR_FLAGS_NONFATAL, endpoint->proc, info);
    }
    free(info);
}

void mca_btl_ibx_lost(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                      iw_status_t status)
{
    if (NULL == endpoint) {
        return;
    }
    mca_btl_ibx_lock(module);
    /* A peer that closed is done with us, mostly because it is in MPI_Finalize. */
    const bool is_news = !endpoint->is_dead && IW_CLOSED != status;
    endpoint->is_dead |= is_news; /* before its jobs end: no more of them begin */
    mca_btl_ibx_fail_atomics(module, endpoint);
    mca_btl_ibx_unlock(module);
    if (is_news) {
        tell_lost(module, endpoint, status);
    }
    mca_btl_ibx_lock(module);
    mca_btl_ibx_tell_ended(module);
    mca_btl_ibx_unlock(module);
}

void mca_btl_ibx_give_up(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint, iw_status_t why)
{
    mca_btl_ibx_lock(module);
    const bool was_dead = endpoint->is_dead;
    part(module, endpoint);
    mca_btl_ibx_tell_ended(module);
    mca_btl_ibx_unlock(module);
    if (!was_dead) {
        tell_lost(module, endpoint, why);
    }
}
