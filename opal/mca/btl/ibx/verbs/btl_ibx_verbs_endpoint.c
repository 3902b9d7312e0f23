/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Other processes, as seen by a module of the verbs transport. */
#include "verbs/btl_ibx_verbs_module.h"

#include <stdlib.h>
#include <string.h>

static void endpoint_construct(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    OBJ_CONSTRUCT(&endpoint->pending, opal_list_t);
    endpoint->module = NULL;
    endpoint->proc = NULL;
    endpoint->peer = NULL;
    endpoint->why = NULL;
    endpoint->datagrams.number = 0;
    endpoint->is_self = false;
    endpoint->is_dead = false;
}

static void endpoint_destruct(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    OBJ_DESTRUCT(&endpoint->pending);
}

OBJ_CLASS_INSTANCE(mca_btl_ibx_verbs_endpoint_t, opal_list_item_t, endpoint_construct,
                   endpoint_destruct);

/* The verbs part of what a process published, copied. False: it has none. */
static bool published(const opal_proc_t *proc, mca_btl_ibx_verbs_modex_t *verbs)
{
    void *data = NULL;
    size_t size = 0;
    if (OPAL_SUCCESS
            != mca_btl_ibx_modex_recv(&mca_btl_ibx_component.super.btl_version, proc, &data, &size)
        || NULL == data) {
        return false;
    }
    const mca_btl_ibx_modex_t *iwarp = data;
    bool is_good = false;
    memset(verbs, 0, sizeof(*verbs));
    if (size >= mca_btl_ibx_modex_size(0) && MCA_BTL_IBX_MODEX_VERSION == iwarp->version
        && iwarp->count <= MCA_BTL_IBX_INTERFACES) {
        const size_t at = mca_btl_ibx_modex_size(iwarp->count);
        const size_t fixed = offsetof(mca_btl_ibx_verbs_modex_t, offer);
        if (size >= at + fixed && size - at <= sizeof(*verbs)) {
            memcpy(verbs, (const char *) data + at, size - at);
            is_good = MCA_BTL_IBX_VERBS_MODEX_VERSION == verbs->version
                      && verbs->count <= MCA_BTL_IBX_INTERFACES
                      && size - at >= fixed + verbs->count * sizeof(verbs->offer[0]);
        }
    }
    free(data);
    return is_good;
}

/* Which of the process's ports do I talk to? Only ports of one kind of fabric come together. -1: none. */
static int pair(const mca_btl_ibx_verbs_module_t *module, const mca_btl_ibx_verbs_modex_t *modex,
                bool same_host)
{
    mca_btl_ibx_interface_t all[MCA_BTL_IBX_INTERFACES];
    mca_btl_ibx_offer_t offer[MCA_BTL_IBX_INTERFACES];
    int place[MCA_BTL_IBX_INTERFACES];
    const vb_fabric_t fabric = vb_port_abilities(module->port)->fabric;
    unsigned n = 0, mine = 0, offers = 0;
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        const mca_btl_ibx_verbs_module_t *one = mca_btl_ibx_verbs_modules[i];
        if (fabric == vb_port_abilities(one->port)->fabric) {
            mine = one == module ? n : mine;
            all[n++] = one->interface;
        }
    }
    for (unsigned i = 0; i < modex->count; ++i) {
        if (fabric == (vb_fabric_t) modex->offer[i].fabric && 4 == modex->offer[i].ip.family) {
            place[offers] = (int) i;
            offer[offers++] = modex->offer[i].ip;
        }
    }
    const int found = mca_btl_ibx_pair(all, n, mine, offer, offers, same_host);
    return found < 0 ? -1 : place[found];
}

static void copy_datagrams(mca_btl_ibx_verbs_endpoint_t *endpoint,
                           const mca_btl_ibx_verbs_offer_t *offer)
{
    vb_dgram_address_t *there = &endpoint->datagrams;
    uint16_t lid;
    memcpy(&lid, offer->lid, sizeof(lid));
    memcpy(&there->number, offer->number, sizeof(there->number));
    memcpy(&there->qkey, offer->qkey, sizeof(there->qkey));
    memcpy(there->gid, offer->gid, sizeof(there->gid));
    memcpy(endpoint->datagram_key, offer->datagram_key, sizeof(endpoint->datagram_key));
    there->lid = ntohs(lid);
    there->number = ntohl(there->number);
    there->qkey = ntohl(there->qkey);
}

/* The endpoint of a process, made if need be; NULL: it is not to be reached by this module. lock is
 * not held. */
static mca_btl_ibx_verbs_endpoint_t *endpoint_of(mca_btl_ibx_verbs_module_t *module,
                                                 opal_proc_t *proc)
{
    const uint64_t name = mca_btl_ibx_name_of(proc);
    void *known = NULL;
    vb_port_lock(module->port);
    const int rc = opal_hash_table_get_value_uint64(&module->by_name, name, &known);
    vb_port_unlock(module->port);
    if (OPAL_SUCCESS == rc) {
        return known;
    }
    mca_btl_ibx_verbs_modex_t modex;
    const bool self = proc == opal_proc_local_get();
    int place = -1;
    if (!self) {
        place = published(proc, &modex)
                    ? pair(module, &modex, OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags))
                    : -1;
        if (place < 0) {
            return NULL;
        }
    }
    mca_btl_ibx_verbs_endpoint_t *endpoint = OBJ_NEW(mca_btl_ibx_verbs_endpoint_t);
    if (NULL == endpoint) {
        return NULL;
    }
    endpoint->module = module;
    endpoint->proc = proc;
    endpoint->name = name;
    endpoint->is_self = self;
    if (!self) {
        iw_address_t address;
        mca_btl_ibx_offer_address(&modex.offer[place].ip, &address);
        endpoint->address = address.v4;
        memcpy(&endpoint->key, modex.offer[place].ip.key, sizeof(endpoint->key));
        copy_datagrams(endpoint, &modex.offer[place]);
    }
    vb_port_lock(module->port);
    if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(&module->by_name, name, &known)) {
        OBJ_RELEASE(endpoint); /* another thread was faster */
        endpoint = known;
    } else if (OPAL_SUCCESS != opal_hash_table_set_value_uint64(&module->by_name, name, endpoint)) {
        OBJ_RELEASE(endpoint);
        endpoint = NULL;
    } else {
        opal_list_append(&module->endpoints, &endpoint->super);
    }
    vb_port_unlock(module->port);
    return endpoint;
}

int mca_btl_ibx_verbs_add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                                mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    mca_btl_ibx_verbs_module_t *module = (mca_btl_ibx_verbs_module_t *) btl;
    for (size_t i = 0; i < n; ++i) {
        endpoints[i] = (mca_btl_base_endpoint_t *) endpoint_of(module, procs[i]);
        if (NULL != endpoints[i] && NULL != reachable) {
            const int rc = opal_bitmap_set_bit(reachable, (int) i);
            if (OPAL_SUCCESS != rc) {
                return rc;
            }
        }
    }
    return OPAL_SUCCESS;
}

vb_peer_t *mca_btl_ibx_verbs_meet(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    if (!endpoint->is_dead && !endpoint->is_self) {
        endpoint->peer = vb_peer_add(endpoint->module->port, endpoint->name, &endpoint->address,
                                     endpoint->key, endpoint);
    }
    if (NULL != endpoint->peer && 0 != endpoint->datagrams.number) {
        (void) vb_peer_add_datagrams(endpoint->peer, &endpoint->datagrams, endpoint->datagram_key);
    }
    return endpoint->peer;
}

mca_btl_ibx_verbs_endpoint_t *mca_btl_ibx_verbs_sender(mca_btl_ibx_verbs_module_t *module,
                                                       vb_peer_t *peer)
{
    vb_port_lock(module->port);
    mca_btl_ibx_verbs_endpoint_t *endpoint = vb_peer_user(peer);
    vb_port_unlock(module->port);
    if (NULL != endpoint) {
        return endpoint; /* met meanwhile */
    }
    opal_proc_t *proc = opal_proc_for_name(mca_btl_ibx_name(vb_peer_name(peer)));
    endpoint = NULL == proc ? NULL : endpoint_of(module, proc);
    if (NULL != endpoint) {
        vb_port_lock(module->port);
        (void) mca_btl_ibx_verbs_peer(endpoint);
        vb_port_unlock(module->port);
    }
    return endpoint;
}

void mca_btl_ibx_verbs_stranger(void *context, uint64_t name)
{
    mca_btl_ibx_verbs_module_t *module = context;
    for (uint32_t i = 0; i < module->strangers_n; ++i) {
        if (module->strangers[i] == name) {
            return;
        }
    }
    if (module->strangers_n < MCA_BTL_IBX_VERBS_STRANGERS) {
        module->strangers[module->strangers_n++] = name;
    }
}

void mca_btl_ibx_verbs_meet_strangers(mca_btl_ibx_verbs_module_t *module)
{
    uint64_t names[MCA_BTL_IBX_VERBS_STRANGERS];
    vb_port_lock(module->port);
    const uint32_t n = module->strangers_n;
    memcpy(names, module->strangers, n * sizeof(*names));
    module->strangers_n = 0;
    vb_port_unlock(module->port);
    for (uint32_t i = 0; i < n; ++i) {
        opal_proc_t *proc = opal_proc_for_name(mca_btl_ibx_name(names[i]));
        mca_btl_ibx_verbs_endpoint_t *endpoint = NULL == proc ? NULL : endpoint_of(module, proc);
        if (NULL != endpoint) {
            vb_port_lock(module->port);
            (void) mca_btl_ibx_verbs_peer(endpoint);
            vb_port_unlock(module->port);
        }
    }
}

/* What waits for the endpoint, as far as it can go now; if it is dead all of it fails. lock is held. */
static void post_pending(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    while (!opal_list_is_empty(&endpoint->pending)) {
        opal_list_item_t *item = opal_list_get_first(&endpoint->pending);
        const bool is_job = mca_btl_ibx_verbs_is_job(item);
        const vb_status_t status =
            is_job ? mca_btl_ibx_verbs_issue((mca_btl_ibx_verbs_job_t *) item)
                   : mca_btl_ibx_verbs_post_frag((mca_btl_ibx_verbs_frag_t *) item);
        if (VB_AGAIN == status) {
            return;
        }
        (void) opal_list_remove_first(&endpoint->pending);
        if (is_job) {
            mca_btl_ibx_verbs_job_part_done(module, (mca_btl_ibx_verbs_job_t *) item, OPAL_SUCCESS);
        } else if (VB_OK != status) {
            ((mca_btl_ibx_verbs_frag_t *) item)->status = mca_btl_ibx_verbs_rc(status);
            opal_list_append(&module->ended, item);
        }
    }
}

void mca_btl_ibx_verbs_ready(void *context, vb_peer_t *peer)
{
    mca_btl_ibx_verbs_module_t *module = context;
    mca_btl_ibx_verbs_endpoint_t *endpoint = vb_peer_user(peer);
    if (NULL == endpoint) {
        return;
    }
    if (vb_peer_is_over(peer)) {
        mca_btl_ibx_verbs_fail_atomics(module, endpoint);
    }
    post_pending(module, endpoint);
}

/* Nothing goes to the endpoint any more: what waits fails, and progress tells. lock is held. */
static void part(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    endpoint->is_dead = true;
    if (NULL != endpoint->peer) {
        vb_peer_close(endpoint->peer);
        endpoint->peer = NULL;
    }
    mca_btl_ibx_verbs_fail_atomics(module, endpoint);
    post_pending(module, endpoint);
}

int mca_btl_ibx_verbs_del_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                                mca_btl_base_endpoint_t **endpoints)
{
    mca_btl_ibx_verbs_module_t *module = (mca_btl_ibx_verbs_module_t *) btl;
    (void) endpoints;
    for (size_t i = 0; i < n; ++i) {
        void *known;
        const uint64_t name = mca_btl_ibx_name_of(procs[i]);
        vb_port_lock(module->port);
        if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(&module->by_name, name, &known)) {
            opal_hash_table_remove_value_uint64(&module->by_name, name);
            part(module, known); /* freed with the module: completions may still name it */
        }
        vb_port_unlock(module->port);
    }
    return OPAL_SUCCESS;
}

void mca_btl_ibx_verbs_down(void *context, vb_peer_t *peer, const char *why)
{
    mca_btl_ibx_verbs_module_t *module = context;
    mca_btl_ibx_verbs_endpoint_t *endpoint = vb_peer_user(peer);
    if (NULL != endpoint) {
        endpoint->why = why;
        module->has_lost = true;
    }
}

static void tell(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_endpoint_t *endpoint,
                 const char *why)
{
    char *info = NULL;
    if (0 > asprintf(&info, "%s port %u: %s", vb_port_abilities(module->port)->device,
                     vb_port_abilities(module->port)->port, why)) {
        info = NULL;
    }
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl/ibx: the process on host %s is lost (%s)",
                        mca_btl_ibx_host_of(endpoint->proc), NULL == info ? why : info);
    if (NULL != module->error) {
        module->error(&module->super, MCA_BTL_ERROR_FLAGS_NONFATAL, endpoint->proc, info);
    }
    free(info);
}

void mca_btl_ibx_verbs_tell_lost(mca_btl_ibx_verbs_module_t *module)
{
    bool found = true;
    while (found) {
        mca_btl_ibx_verbs_endpoint_t *endpoint, *lost = NULL;
        const char *why = NULL;
        vb_port_lock(module->port);
        OPAL_LIST_FOREACH (endpoint, &module->endpoints, mca_btl_ibx_verbs_endpoint_t) {
            if (NULL != endpoint->why && !endpoint->is_dead) {
                lost = endpoint;
                why = endpoint->why;
                endpoint->is_dead = true;
                break;
            }
        }
        module->has_lost = found = NULL != lost;
        vb_port_unlock(module->port);
        if (found) {
            tell(module, lost, why);
        }
    }
}

void mca_btl_ibx_verbs_give_up(mca_btl_ibx_verbs_module_t *module, mca_btl_ibx_verbs_endpoint_t *endpoint, const char *why)
{
    vb_port_lock(module->port);
    const bool was_dead = endpoint->is_dead;
    part(module, endpoint);
    vb_port_unlock(module->port);
    if (!was_dead) {
        tell(module, endpoint, why);
    }
}
