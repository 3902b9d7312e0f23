/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_endpoint.h. */
#include "btl_ibx_endpoint.h"

#include "btl_ibx_message.h"
#include "btl_ibx_rdma.h"

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

/* The endpoint of a process, made if need be; NULL: it is not to be reached by this module. lock is
 * held. */
static mca_btl_ibx_endpoint_t *endpoint_of(mca_btl_ibx_module_t *module, opal_proc_t *proc)
{
    const uint64_t name = mca_btl_ibx_name_of(proc);
    void *known;
    if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(&module->by_name, name, &known)) {
        return known;
    }
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
        endpoint->name = name;
        endpoint->is_self = self;
        endpoint->address = address;
        memcpy(endpoint->key.b, modex->offer[pair].key, sizeof(endpoint->key.b));
        if (OPAL_SUCCESS
            != opal_hash_table_set_value_uint64(&module->by_name, name, endpoint)) {
            OBJ_RELEASE(endpoint);
            endpoint = NULL;
        } else {
            opal_list_append(&module->endpoints, &endpoint->super);
        }
    }
    free(modex);
    return endpoint;
}

int mca_btl_ibx_add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                          mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    mca_btl_ibx_module_t *module = (mca_btl_ibx_module_t *) btl;
    for (size_t i = 0; i < n; ++i) {
        mca_btl_ibx_lock(module);
        endpoints[i] = endpoint_of(module, procs[i]);
        mca_btl_ibx_unlock(module);
        if (NULL != endpoints[i] && NULL != reachable) {
            int rc = opal_bitmap_set_bit(reachable, (int) i);
            if (OPAL_SUCCESS != rc) {
                return rc;
            }
        }
    }
    return OPAL_SUCCESS;
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
            const bool talked = NULL != endpoint->peer;
            if (talked) {
                iw_peer_remove(endpoint->peer);
                endpoint->peer = NULL;
                mca_btl_ibx_flush(module); /* says goodbye */
            }
            mca_btl_ibx_drop_jobs(module, endpoint);
            mca_btl_ibx_drop_frags(module, endpoint);
            if (talked) {
                endpoint->is_dead = true; /* what is under way still names it */
                opal_list_append(&module->gone, &endpoint->super);
            } else {
                OBJ_RELEASE(endpoint);
            }
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
    }
    return endpoint->peer;
}

iw_peer_t *mca_btl_ibx_unknown(void *context, iw_engine_t *engine, uint64_t identity)
{
    mca_btl_ibx_module_t *module = context;
    (void) engine;
    opal_proc_t *proc = opal_proc_for_name(mca_btl_ibx_name(identity));
    mca_btl_ibx_endpoint_t *endpoint = NULL == proc ? NULL : endpoint_of(module, proc);
    return NULL == endpoint || endpoint->is_self ? NULL : mca_btl_ibx_connect(endpoint);
}

void mca_btl_ibx_lost(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                      iw_status_t status)
{
    char text[96];
    /* A peer that closed is done with us, mostly because it is in MPI_Finalize. */
    if (NULL == endpoint || endpoint->is_dead || IW_CLOSED == status) {
        return;
    }
    endpoint->is_dead = true;
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
