/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which port of another process an adapter's port talks to; what waits for a connection, and what becomes of it. */
#include "verbs/btl_ibx_verbs_module.h"

#include "btl_ibx_atomic.h"
#include "btl_ibx_endpoint.h"
#include "verbs/vb_atomics.h"

#include "opal/include/spec/class.h"

static void endpoint_construct(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    OBJ_CONSTRUCT(&endpoint->pending, opal_list_t);
    OBJ_CONSTRUCT(&endpoint->bulk_pending, opal_list_t);
}

static void endpoint_destruct(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    OBJ_DESTRUCT(&endpoint->bulk_pending);
    OBJ_DESTRUCT(&endpoint->pending);
}

SPEC_CLASS(mca_btl_ibx_verbs_endpoint_t, mca_btl_ibx_endpoint_t, endpoint_construct, endpoint_destruct);

/* The verbs part of what a process published, copied. False: it has none. */
static bool published(const opal_proc_t *proc, mca_btl_ibx_verbs_modex_t *verbs)
{
    size_t size;
    mca_btl_ibx_modex_t *iwarp = mca_btl_ibx_modex_recv(&mca_btl_ibx_component.super.btl_version, proc, &size);
    bool is_good = false;
    if (NULL == iwarp) {
        return false;
    }
    memset(verbs, 0, sizeof(*verbs));
    if (size >= mca_btl_ibx_modex_size(0) && MCA_BTL_IBX_MODEX_VERSION == iwarp->version
        && iwarp->count <= MCA_BTL_IBX_INTERFACES) {
        const size_t at = mca_btl_ibx_modex_size(iwarp->count);
        const size_t fixed = offsetof(mca_btl_ibx_verbs_modex_t, offer);
        if (size >= at + fixed && size - at <= sizeof(*verbs)) {
            memcpy(verbs, (const char *) iwarp + at, size - at);
            is_good = MCA_BTL_IBX_VERBS_MODEX_VERSION == verbs->version
                      && verbs->count <= MCA_BTL_IBX_INTERFACES
                      && size - at >= fixed + verbs->count * sizeof(verbs->offer[0]);
        }
    }
    free(iwarp);
    return is_good;
}

/* Ports of mine and of the process, of one kind of fabric, that are known by the same kind of address. */
typedef struct pairing {
    mca_btl_ibx_interface_t mine[MCA_BTL_IBX_INTERFACES];
    uint32_t module_of[MCA_BTL_IBX_INTERFACES]; /* indices of what is paired */
    unsigned n;
    mca_btl_ibx_offer_t theirs[MCA_BTL_IBX_INTERFACES];
    unsigned offer_of[MCA_BTL_IBX_INTERFACES];
    unsigned offers;
    int partner[MCA_BTL_IBX_INTERFACES]; /* by module: index of its offer, or -1 */
} pairing_t;

static void pair_all(pairing_t *p, bool same_host)
{
    for (unsigned i = 0; i < p->n; ++i) {
        const int found = mca_btl_ibx_pair(p->mine, p->n, i, p->theirs, p->offers, same_host);
        p->partner[p->module_of[i]] = found < 0 ? -1 : (int) p->offer_of[found];
    }
}

/* By IPv4 address. */
static void pair_addresses(pairing_t *p, vb_fabric_t fabric, const mca_btl_ibx_verbs_modex_t *modex, bool same_host)
{
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        const mca_btl_ibx_verbs_module_t *one = mca_btl_ibx_verbs_modules[i];
        p->partner[i] = -1;
        if (fabric == vb_port_abilities(one->port)->fabric && AF_INET == one->base.interface.address.any.sa_family) {
            p->module_of[p->n] = i;
            p->mine[p->n++] = one->base.interface;
        }
    }
    for (unsigned i = 0; i < modex->count; ++i) {
        if (fabric == (vb_fabric_t) modex->offer[i].fabric && 4 == modex->offer[i].ip.family) {
            p->offer_of[p->offers] = i;
            p->theirs[p->offers++] = modex->offer[i].ip;
        }
    }
    pair_all(p, same_host);
}

enum { GID_PREFIX = 64 /* bits: subnet of InfiniBand, network of IPv6 */ };

static bool is_taken(const pairing_t *p, unsigned offer)
{
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        if (p->partner[i] == (int) offer) {
            return true;
        }
    }
    return false;
}

/* Is there a way between two GIDs? Routers, of RoCE alone, know global ones. */
static bool leads(vb_fabric_t fabric, const uint8_t *mine, const uint8_t *theirs)
{
    const bool is_global = VB_ROCE == fabric && 0x20 == (mine[0] & 0xe0) && 0x20 == (theirs[0] & 0xe0);
    return is_global || 0 == memcmp(mine, theirs, GID_PREFIX / 8);
}

/* Those left over, by GID, as if it were an address of IPv6, which it is on RoCE. */
static void pair_gids(pairing_t *all, vb_fabric_t fabric, const mca_btl_ibx_verbs_modex_t *modex, bool same_host)
{
    pairing_t p = {.n = 0};
    for (uint32_t i = 0; i < mca_btl_ibx_verbs_modules_n; ++i) {
        const mca_btl_ibx_verbs_module_t *one = mca_btl_ibx_verbs_modules[i];
        vb_dgram_address_t own;
        p.partner[i] = -1;
        if (all->partner[i] < 0 && fabric == vb_port_abilities(one->port)->fabric && vb_port_mailbox(one->port, &own)) {
            mca_btl_ibx_interface_t *mine = &p.mine[p.n];
            p.module_of[p.n++] = i;
            *mine = (mca_btl_ibx_interface_t){.address.v6.sin6_family = AF_INET6, .prefix = GID_PREFIX};
            memcpy(&mine->address.v6.sin6_addr, own.gid, sizeof(own.gid));
        }
    }
    for (unsigned i = 0; i < modex->count; ++i) {
        const mca_btl_ibx_verbs_offer_t *offer = &modex->offer[i];
        if (fabric == (vb_fabric_t) offer->fabric && vb_is_pair_number(iw_get32(offer->mailbox)) && !is_taken(all, i)) {
            mca_btl_ibx_offer_t *theirs = &p.theirs[p.offers];
            p.offer_of[p.offers++] = i;
            *theirs = (mca_btl_ibx_offer_t){.family = 6, .prefix = GID_PREFIX};
            memcpy(theirs->address, offer->gid, sizeof(offer->gid));
        }
    }
    pair_all(&p, same_host);
    for (unsigned i = 0; i < p.n; ++i) {
        const uint32_t at = p.module_of[i];
        const int found = p.partner[at];
        if (found >= 0 && leads(fabric, p.mine[i].address.v6.sin6_addr.s6_addr, modex->offer[found].gid)) {
            all->partner[at] = found;
        }
    }
}

/* Which of the process's ports do I talk to? Only ports of one kind of fabric come together. -1: none. */
static int pair(const mca_btl_ibx_verbs_module_t *module, const mca_btl_ibx_verbs_modex_t *modex,
                bool same_host)
{
    pairing_t p = {.n = 0};
    const vb_fabric_t fabric = vb_port_abilities(module->port)->fabric;
    uint32_t at = 0;
    while (at < mca_btl_ibx_verbs_modules_n && module != mca_btl_ibx_verbs_modules[at]) {
        ++at;
    }
    pair_addresses(&p, fabric, modex, same_host);
    pair_gids(&p, fabric, modex, same_host);
    return p.partner[at];
}

/* Told once: nothing of mine is connected to the process's for no other reason than how that is done. */
static void tell_no_common_way(const mca_btl_ibx_verbs_module_t *module, const mca_btl_ibx_verbs_modex_t *modex,
                               const opal_proc_t *proc)
{
    vb_dgram_address_t own;
    const vb_abilities_t *able = vb_port_abilities(module->port);
    const bool is_mine = able->by_datagrams, has_mailbox = vb_port_mailbox(module->port, &own);
    const bool is_addressed = AF_INET == module->base.interface.address.any.sa_family;
    bool differs = false;
    for (unsigned i = 0; i < modex->count; ++i) {
        const mca_btl_ibx_verbs_offer_t *offer = &modex->offer[i];
        const bool is_theirs = 1 == offer->by_datagrams, takes = 0 != iw_get32(offer->mailbox);
        if (able->fabric == (vb_fabric_t) offer->fabric) {
            /* With an IPv4 address the GID is one of another kind. */
            const bool are_alike = VB_ROCE != able->fabric || is_addressed == (4 == offer->ip.family);
            if (are_alike && (is_mine == is_theirs || (is_mine ? takes : has_mailbox))) {
                return;
            }
            differs = true;
        }
    }
    if (differs) {
        mca_btl_ibx_explain("no common way", "", spec_host_of(proc), able->device);
    }
}

/* How to connect: both sides come to the same. False: one side wants datagrams, and the other takes none. */
static bool choose_way(mca_btl_ibx_verbs_endpoint_t *endpoint, const mca_btl_ibx_verbs_module_t *module,
                       const mca_btl_ibx_verbs_offer_t *offer)
{
    vb_dgram_address_t own;
    const bool by_datagrams = vb_port_abilities(module->port)->by_datagrams || 1 == offer->by_datagrams;
    if (!by_datagrams) {
        return true;
    }
    endpoint->mailbox = (vb_dgram_address_t){.number = iw_get32(offer->mailbox),
                                             .qkey = iw_get32(offer->qkey),
                                             .lid = iw_get16(offer->lid)};
    memcpy(endpoint->mailbox.gid, offer->gid, sizeof(offer->gid));
    return vb_is_pair_number(endpoint->mailbox.number) && vb_port_mailbox(module->port, &own);
}

static void copy_datagrams(mca_btl_ibx_verbs_endpoint_t *endpoint,
                           const mca_btl_ibx_verbs_offer_t *offer)
{
    endpoint->datagrams = (vb_dgram_address_t){.number = iw_get32(offer->number),
                                               .qkey = iw_get32(offer->qkey),
                                               .lid = iw_get16(offer->lid)};
    memcpy(endpoint->datagrams.gid, offer->gid, sizeof(offer->gid));
    memcpy(endpoint->datagram_key, offer->datagram_key, sizeof(endpoint->datagram_key));
}

_Static_assert(VB_BY_MESSAGES == (int) MCA_BTL_IBX_ATOMICS_BY_MESSAGES && VB_BY_ADAPTER == (int) MCA_BTL_IBX_ATOMICS_BY_TRANSPORT
                   && VB_IN_NO_WAY == (int) MCA_BTL_IBX_ATOMICS_IN_NO_WAY,
               "ways of atomic operations have the same numbers in both");

mca_btl_base_endpoint_t *mca_btl_ibx_verbs_endpoint_new(mca_btl_ibx_module_t *module, opal_proc_t *proc, bool is_self)
{
    mca_btl_ibx_verbs_modex_t modex;
    int found = -1;
    if (!is_self) {
        if (!published(proc, &modex)) {
            return NULL;
        }
        found = pair(mca_btl_ibx_verbs_of(module), &modex, OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags));
        if (found < 0) {
            tell_no_common_way(mca_btl_ibx_verbs_of(module), &modex, proc);
            return NULL;
        }
    }
    mca_btl_ibx_verbs_endpoint_t *endpoint = OBJ_NEW(mca_btl_ibx_verbs_endpoint_t);
    if (NULL != endpoint && is_self && module->has_atomics) {
        endpoint->base.atomics = MCA_BTL_IBX_ATOMICS_BY_TRANSPORT;
    }
    if (NULL != endpoint && !is_self) {
        iw_address_t address;
        mca_btl_ibx_offer_address(&modex.offer[found].ip, &address);
        endpoint->address = address.v4;
        memcpy(&endpoint->key, modex.offer[found].ip.key, sizeof(endpoint->key));
        endpoint->pair = (uint8_t) found;
        endpoint->base.atomics = (uint8_t) vb_atomics_of(modex.offer[found].atomics,
                                                         vb_port_abilities(mca_btl_ibx_verbs_of(module)->port)->atomics);
        copy_datagrams(endpoint, &modex.offer[found]);
        if (!choose_way(endpoint, mca_btl_ibx_verbs_of(module), &modex.offer[found])) {
            tell_no_common_way(mca_btl_ibx_verbs_of(module), &modex, proc);
            OBJ_RELEASE(endpoint);
            return NULL;
        }
    }
    return (mca_btl_base_endpoint_t *) endpoint;
}

vb_peer_t *mca_btl_ibx_verbs_connect(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    if (!endpoint->base.is_dead && endpoint->base.is_self) {
        endpoint->peer = vb_peer_add_self(mca_btl_ibx_verbs_of(endpoint->base.module)->port, endpoint);
    } else if (!endpoint->base.is_dead) {
        endpoint->peer = vb_peer_add(mca_btl_ibx_verbs_of(endpoint->base.module)->port, endpoint->base.name,
                                     &endpoint->address, endpoint->key, endpoint);
    }
    if (NULL != endpoint->peer && 0 != endpoint->mailbox.number) {
        (void) vb_peer_add_mailbox(endpoint->peer, &endpoint->mailbox);
    }
    if (NULL != endpoint->peer && 0 != endpoint->datagrams.number) {
        (void) vb_peer_add_datagrams(endpoint->peer, &endpoint->datagrams, endpoint->datagram_key);
    }
    if (NULL != endpoint->peer && !endpoint->base.is_self && mca_btl_ibx_verbs_modules_n > 1) {
        vb_peer_offer_elsewhere(endpoint->peer, true);
    }
    if (NULL != endpoint->peer && vb_peer_has_second(endpoint->peer)) {
        mca_btl_ibx_verbs_bulk_meet(endpoint);
    }
    return endpoint->peer;
}

void mca_btl_ibx_verbs_meet(mca_btl_base_endpoint_t *endpoint, const uint8_t *data, size_t length)
{
    (void) mca_btl_ibx_verbs_peer((mca_btl_ibx_verbs_endpoint_t *) endpoint);
    vb_port_hear(mca_btl_ibx_verbs_of(endpoint->module)->port, data, length);
}

void mca_btl_ibx_verbs_describe(const mca_btl_base_endpoint_t *endpoint, char *text, size_t size)
{
    const vb_abilities_t *able = vb_port_abilities(mca_btl_ibx_verbs_of(endpoint->module)->port);
    snprintf(text, size, "%s port %u", able->device, able->port);
}

mca_btl_base_endpoint_t *mca_btl_ibx_verbs_sender(mca_btl_ibx_verbs_module_t *module, vb_peer_t *peer)
{
    vb_port_lock(module->port);
    mca_btl_base_endpoint_t *endpoint = vb_peer_user(peer);
    vb_port_unlock(module->port);
    if (NULL != endpoint) {
        return endpoint; /* met meanwhile */
    }
    opal_proc_t *proc = opal_proc_for_name(mca_btl_ibx_name(vb_peer_name(peer)));
    endpoint = NULL == proc ? NULL : mca_btl_ibx_endpoint_of(&module->base, proc);
    if (NULL != endpoint) {
        vb_port_lock(module->port);
        mca_btl_ibx_verbs_meet(endpoint, NULL, 0);
        if (vb_peer_is_bulk(peer)) {
            mca_btl_ibx_verbs_bulk_meet((mca_btl_ibx_verbs_endpoint_t *) endpoint);
        }
        vb_port_unlock(module->port);
    }
    return endpoint;
}

void mca_btl_ibx_verbs_stranger(void *context, uint64_t name, const uint8_t *data, size_t length)
{
    mca_btl_ibx_stranger(context, name, data, length);
}

void mca_btl_ibx_verbs_ready(void *context, vb_peer_t *peer)
{
    mca_btl_ibx_verbs_endpoint_t *endpoint = vb_peer_user(peer);
    if (NULL == endpoint) {
        return;
    }
    if (vb_peer_is_bulk(peer)) {
        if (!vb_peer_is_over(peer) || !mca_btl_ibx_verbs_bulk_failed(endpoint)) {
            mca_btl_ibx_post_waiting(context, &endpoint->bulk_pending);
        }
        return;
    }
    if (vb_peer_is_over(peer)) {
        mca_btl_ibx_fail_atomics(&endpoint->base);
    }
    mca_btl_ibx_post_waiting(context, &endpoint->pending);
}

void mca_btl_ibx_verbs_part(mca_btl_base_endpoint_t *base)
{
    mca_btl_ibx_verbs_endpoint_t *endpoint = (mca_btl_ibx_verbs_endpoint_t *) base;
    if (NULL != endpoint->peer) {
        vb_peer_close(endpoint->peer);
        endpoint->peer = NULL;
    }
    if (NULL != endpoint->bulk_peer) {
        vb_peer_close(endpoint->bulk_peer);
        endpoint->bulk_peer = NULL;
        endpoint->bulk = (vb_bulk_t){.state = VB_BULK_NONE};
    }
    mca_btl_ibx_fail_atomics(base);
    mca_btl_ibx_drop_waiting(base->module, &endpoint->pending, base);
    mca_btl_ibx_drop_waiting(base->module, &endpoint->bulk_pending, base);
}

void mca_btl_ibx_verbs_down(void *context, vb_peer_t *peer, const char *why)
{
    mca_btl_ibx_verbs_module_t *module = context;
    mca_btl_ibx_verbs_endpoint_t *endpoint = vb_peer_user(peer);
    const bool is_spare =
        NULL != endpoint && vb_peer_is_bulk(peer)
        && !vb_bulk_is_in_use(&endpoint->bulk, vb_peer_was_open(peer)); /* seen to by `ready` */
    if (NULL != endpoint && !is_spare) {
        endpoint->why = why;
        module->has_lost = true;
    }
}

/* It is lost by one of two connections. By the other the process hears so, and what was to go into its memory, or to come from it, does
 * not any more when that is told. */
static void end_both(mca_btl_ibx_verbs_endpoint_t *endpoint)
{
    if (NULL == endpoint->bulk_peer) {
        return;
    }
    if (NULL != endpoint->peer) {
        vb_peer_lose(endpoint->peer, endpoint->why);
    }
    vb_peer_lose(endpoint->bulk_peer, endpoint->why);
    mca_btl_ibx_post_waiting(endpoint->base.module, &endpoint->pending);
    mca_btl_ibx_post_waiting(endpoint->base.module, &endpoint->bulk_pending);
}

void mca_btl_ibx_verbs_tell_lost(mca_btl_ibx_verbs_module_t *module)
{
    mca_btl_base_endpoint_t *endpoint, *lost;
    do {
        const char *why = NULL;
        lost = NULL;
        vb_port_lock(module->port);
        OPAL_LIST_FOREACH (endpoint, &module->base.endpoints, mca_btl_base_endpoint_t) {
            why = ((mca_btl_ibx_verbs_endpoint_t *) endpoint)->why;
            if (NULL != why && !endpoint->is_dead) {
                lost = endpoint;
                lost->is_dead = true;
                end_both((mca_btl_ibx_verbs_endpoint_t *) lost);
                break;
            }
        }
        module->has_lost = NULL != lost;
        vb_port_unlock(module->port);
        if (NULL != lost) {
            mca_btl_ibx_report_lost(lost, why);
        }
    } while (NULL != lost);
}
