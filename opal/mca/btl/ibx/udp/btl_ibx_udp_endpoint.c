/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which address another process is reached at over UDP; what becomes of its connection. */
#include "udp/btl_ibx_udp_endpoint.h"

#include "btl_ibx_endpoint.h"
#include "udp/btl_ibx_udp_agent.h"
#include "udp/btl_ibx_udp_message.h"

#include "opal/include/spec/class.h"

_Static_assert(0 == IW_REACH_NONE, "nothing is known of a new endpoint");

SPEC_CLASS(mca_btl_ibx_udp_endpoint_t, mca_btl_ibx_endpoint_t, NULL, NULL);

/* What the process published, if it makes sense; the caller frees. NULL: it does not use this BTL. */
static mca_btl_ibx_modex_t *published(const opal_proc_t *proc)
{
    size_t size;
    mca_btl_ibx_modex_t *modex = mca_btl_ibx_modex_recv(&mca_btl_ibx_component.super.btl_version, proc, &size);
    if (NULL == modex) {
        return NULL;
    }
    const bool is_known = size >= mca_btl_ibx_modex_size(0) && MCA_BTL_IBX_MODEX_VERSION == modex->version
                          && modex->count <= MCA_BTL_IBX_INTERFACES && size >= mca_btl_ibx_modex_size(modex->count);
    if (is_known && modex->auth == (uint8_t) mca_btl_ibx_component.auth) {
        return modex;
    }
    mca_btl_ibx_explain(is_known ? "another auth" : "another version", spec_host_of(proc), spec_host_of(proc));
    free(modex);
    return NULL;
}

mca_btl_base_endpoint_t *mca_btl_ibx_udp_endpoint_new(mca_btl_ibx_module_t *module, opal_proc_t *proc, bool is_self)
{
    mca_btl_ibx_modex_t *modex = published(proc);
    if (NULL == modex) {
        return NULL;
    }
    mca_btl_ibx_interface_t all[MCA_BTL_IBX_INTERFACES];
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        all[i] = mca_btl_ibx_udp_modules[i]->base.interface;
    }
    const int pair = is_self ? (int) module->index
                             : mca_btl_ibx_pair(all, mca_btl_ibx_udp_modules_n, module->index, modex->offer,
                                                modex->count, OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags));
    iw_address_t address;
    if (pair >= 0) {
        mca_btl_ibx_offer_address(&modex->offer[pair], &address);
    }
    const bool reached = pair >= 0 && (is_self || mca_btl_ibx_has_route(&module->interface.address, &address));
    mca_btl_ibx_udp_endpoint_t *endpoint = reached ? OBJ_NEW(mca_btl_ibx_udp_endpoint_t) : NULL;
    if (NULL != endpoint) {
        endpoint->base.atomics = MCA_BTL_IBX_ATOMICS_BY_TRANSPORT;
        endpoint->is_remote = !OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags);
        endpoint->address = address;
        endpoint->pair = (uint8_t) pair;
        memcpy(endpoint->key.b, modex->offer[pair].key, sizeof(endpoint->key.b));
        if (endpoint->is_remote) {
            /* It may be first to send, while the program computes here. A process of this host has faster ways. */
            mca_btl_ibx_lock(module);
            mca_btl_ibx_udp_agent_start(mca_btl_ibx_udp_of(module));
            mca_btl_ibx_unlock(module);
        } else if (mca_btl_ibx_component.single_copy) {
            endpoint->memory = (iw_cma_t){.pid = (pid_t) modex->pid, .key_at = modex->key_at};
            memcpy(endpoint->memory.key, modex->offer[0].key, sizeof(endpoint->memory.key));
            iw_cma_meet(&endpoint->memory);
        }
    }
    free(modex);
    return (mca_btl_base_endpoint_t *) endpoint;
}

void mca_btl_ibx_udp_part(mca_btl_base_endpoint_t *base)
{
    mca_btl_ibx_udp_endpoint_t *endpoint = (mca_btl_ibx_udp_endpoint_t *) base;
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(base->module);
    if (NULL != endpoint->peer) {
        iw_peer_remove(endpoint->peer);
        endpoint->peer = NULL;
        iw_agent_flush(module->agent); /* says goodbye */
    }
    mca_btl_ibx_drop_waiting(base->module, &module->waiting, base);
}

void mca_btl_ibx_udp_describe(const mca_btl_base_endpoint_t *endpoint, char *text, size_t size)
{
    (void) mca_btl_ibx_address_text(&((const mca_btl_ibx_udp_endpoint_t *) endpoint)->address, text, size);
}

iw_peer_t *mca_btl_ibx_udp_connect(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(endpoint->base.module);
    if (!endpoint->base.is_dead) {
        mca_btl_ibx_udp_agent_start(module);
        endpoint->peer =
            iw_peer_add(module->engine, endpoint->base.name, &endpoint->address, &endpoint->key, endpoint);
        if (NULL != endpoint->peer) {
            iw_peer_expect(endpoint->peer, mca_btl_ibx_trip(&module->base.interface, &endpoint->address));
            mca_btl_ibx_udp_failover_offer(endpoint);
        }
    }
    return endpoint->peer;
}

iw_peer_t *mca_btl_ibx_udp_unknown(void *context, iw_engine_t *engine, uint64_t identity)
{
    mca_btl_ibx_module_t *module = context;
    void *known;
    if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(&module->by_name, identity, &known)) {
        mca_btl_ibx_udp_endpoint_t *endpoint = known;
        return endpoint->base.is_self ? NULL : mca_btl_ibx_udp_connect(endpoint);
    }
    size_t length;
    const uint8_t *data = iw_engine_hello(engine, &length);
    if (NULL != data) {
        mca_btl_ibx_stranger(module, identity, data, length);
    }
    return NULL;
}

void mca_btl_ibx_udp_meet(mca_btl_base_endpoint_t *endpoint, const uint8_t *data, size_t length)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(endpoint->module);
    iw_engine_input(module->engine, iw_port_now(), data, length);
    iw_agent_flush(module->agent);
}

void mca_btl_ibx_udp_silent(const mca_btl_base_endpoint_t *endpoint, unsigned seconds)
{
    char text[96];
    if (NULL == endpoint) {
        return;
    }
    mca_btl_ibx_lock(endpoint->module);
    const bool is_dead = endpoint->is_dead;
    mca_btl_ibx_unlock(endpoint->module);
    if (is_dead || mca_btl_ibx_udp_no_answer(endpoint, seconds)) {
        return;
    }
    mca_btl_ibx_udp_describe(endpoint, text, sizeof(text));
    char what[64];
    snprintf(what, sizeof(what), "silent %llx", (unsigned long long) endpoint->name);
    if (spec_tell_once(what)) {
        spec_explain_now("help-mpi-btl-ibx.txt", "silent", OPAL_NAME_PRINT(endpoint->proc->proc_name),
                         spec_host_of(endpoint->proc), text, seconds, mca_btl_ibx_component.silent_timeout_ms / 1000);
    }
}

void mca_btl_ibx_udp_lost(mca_btl_base_endpoint_t *endpoint, iw_status_t status)
{
    if (NULL == endpoint) {
        return;
    }
    mca_btl_ibx_lock(endpoint->module);
    /* A peer that closed is done with us, mostly because it is in MPI_Finalize. */
    const bool is_news = !endpoint->is_dead && IW_CLOSED != status;
    endpoint->is_dead |= is_news; /* before its jobs end: no more of them begin */
    mca_btl_ibx_unlock(endpoint->module);
    if (is_news) {
        if (IW_DEAD == status) {
            (void) mca_btl_ibx_udp_no_answer(endpoint, (uint32_t) (mca_btl_ibx_component.peer_timeout_ms / 1000));
        }
        mca_btl_ibx_report_lost(endpoint, iw_status_name(status));
    }
    mca_btl_ibx_lock(endpoint->module);
    mca_btl_ibx_tell_ended(endpoint->module);
    mca_btl_ibx_unlock(endpoint->module);
}
