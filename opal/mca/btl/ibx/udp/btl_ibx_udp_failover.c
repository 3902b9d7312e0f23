/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Datagrams that the network does not carry to a process (iwarp/iw_failover.h) go to it as messages of another transport. As it
 * is the engine's datagrams that do, nothing is lost or doubled, and whoever uses the BTL notices nothing but the time. */
#include "udp/btl_ibx_udp_module.h"

#include "btl_ibx_endpoint.h"
#include "btl_ibx_relay.h"

#include <signal.h>

#define ROOM    ((size_t) 4 << 20) /* bytes that may wait in a module; the engine sends again what finds none */
#define AT_ONCE 64                 /* datagrams given away by one call */

enum { TAG = MCA_BTL_TAG_BTL + 10 };

struct mca_btl_ibx_udp_carried {
    struct mca_btl_ibx_udp_carried *next;
    mca_btl_ibx_udp_endpoint_t *endpoint;
    size_t length;
    uint8_t data[];
};
typedef struct mca_btl_ibx_udp_carried carried_t;

/* Another transport, and a process there. */
typedef struct carrier {
    mca_btl_base_module_t *btl;
    mca_btl_base_endpoint_t *endpoint; /* NULL: there is none */
} carrier_t;

static bool is_open;
static opal_mutex_t giving;         /* one thread at a time, and none within itself */
static opal_hash_table_t carriers;  /* carrier_t of BTLs, by the process's name; while `giving` is held */

/* ---- transports that carry ---- */

/* Does it take a datagram of so many bytes, behind a header of 8? */
static bool takes(const mca_btl_base_module_t *btl, size_t length)
{
    return btl->btl_max_send_size >= length + 8;
}

/* The same process by another interface, to which the network carries datagrams. */
static carrier_t other_interface(const mca_btl_ibx_udp_endpoint_t *endpoint, size_t length)
{
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i];
        mca_btl_base_endpoint_t *other =
            &module->base == endpoint->base.module ? NULL : mca_btl_ibx_endpoint_of(&module->base, endpoint->base.proc);
        if (NULL == other || !takes(&module->base.super, length)) {
            continue;
        }
        mca_btl_ibx_udp_lock(module);
        const iw_peer_t *peer = ((mca_btl_ibx_udp_endpoint_t *) other)->peer;
        const bool is_good = !other->is_dead && (NULL == peer || !iw_peer_is_alternate(peer));
        mca_btl_ibx_udp_unlock(module);
        if (is_good) {
            return (carrier_t){&module->base.super, other};
        }
    }
    return (carrier_t){NULL, NULL};
}

/* Of those that the PML does not use for the process, as it prefers this BTL: their endpoints are made and ended here. Only
 * Open MPI's events may have to call it: another one's progress is not called while no PML uses it. */
static bool is_carrier(const mca_btl_base_selected_module_t *selected, const mca_btl_ibx_udp_endpoint_t *endpoint)
{
    const mca_btl_base_module_t *btl = selected->btl_module;
    return !mca_btl_ibx_names(MCA_BTL_IBX_UDP_NEAR, selected->btl_component->btl_version.mca_component_name)
           && 0 != (btl->btl_flags & MCA_BTL_FLAGS_SEND) && NULL == selected->btl_component->btl_progress
           && btl->btl_exclusivity < endpoint->base.module->super.btl_exclusivity;
}

static carrier_t other_transport(const mca_btl_ibx_udp_endpoint_t *endpoint, size_t length)
{
    mca_btl_base_selected_module_t *selected;
    carrier_t carrier = {NULL, NULL};
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t) {
        opal_proc_t *proc = endpoint->base.proc;
        opal_bitmap_t reached;
        OBJ_CONSTRUCT(&reached, opal_bitmap_t);
        if (NULL == carrier.endpoint && is_carrier(selected, endpoint) && takes(selected->btl_module, length)
            && OPAL_SUCCESS == opal_bitmap_init(&reached, 1)) {
            carrier.btl = selected->btl_module;
            (void) carrier.btl->btl_add_procs(carrier.btl, 1, &proc, &carrier.endpoint, &reached);
        }
        OBJ_DESTRUCT(&reached);
    }
    return carrier;
}

/* Open MPI's tcp, now or from an event of its own, may write to a process that has ended: an error, for which nobody shall die. A
 * program that handles the signal itself goes on doing so. */
static void survive_broken_pipes(void)
{
    struct sigaction now;
    if (0 == sigaction(SIGPIPE, NULL, &now) && 0 == (now.sa_flags & SA_SIGINFO) && SIG_DFL == now.sa_handler) {
        (void) signal(SIGPIPE, SIG_IGN);
    }
}

/* It may be one that was found for a shorter datagram. */
static carrier_t carrier_of(const mca_btl_ibx_udp_endpoint_t *endpoint, size_t length)
{
    void *known = NULL;
    const carrier_t other = other_interface(endpoint, length);
    if (NULL != other.endpoint) {
        return other;
    }
    if (OPAL_SUCCESS != opal_hash_table_get_value_uint64(&carriers, endpoint->base.name, &known)) {
        known = malloc(sizeof(carrier_t));
        if (NULL == known || OPAL_SUCCESS != opal_hash_table_set_value_uint64(&carriers, endpoint->base.name, known)) {
            free(known);
            return other;
        }
        *(carrier_t *) known = other_transport(endpoint, length);
        if (NULL != ((carrier_t *) known)->endpoint) {
            survive_broken_pipes();
        }
    }
    return *(carrier_t *) known;
}

/* `giving` is held. */
static void leave(mca_btl_base_endpoint_t *endpoint)
{
    void *known = NULL;
    if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(&carriers, endpoint->name, &known)) {
        carrier_t carrier = *(carrier_t *) known;
        (void) opal_hash_table_remove_value_uint64(&carriers, endpoint->name);
        free(known);
        if (NULL != carrier.endpoint) {
            (void) carrier.btl->btl_del_procs(carrier.btl, 1, &endpoint->proc, &carrier.endpoint);
        }
    }
}

/* One that takes so many bytes. */
static carrier_t carrier_for(mca_btl_ibx_udp_endpoint_t *endpoint, size_t length)
{
    const carrier_t carrier = carrier_of(endpoint, length);
    if (NULL == carrier.endpoint || takes(carrier.btl, length)) {
        return carrier;
    }
    leave(&endpoint->base);
    return carrier_of(endpoint, length);
}

void mca_btl_ibx_udp_failover_part(mca_btl_base_endpoint_t *endpoint)
{
    if (is_open) {
        opal_mutex_lock(&giving);
        leave(endpoint);
        opal_mutex_unlock(&giving);
    }
}

/* ---- giving ---- */

/* Nothing for a process that only spoke: when the PML wants it, it ends the endpoints of transports that it does not use, also one
 * that carries. */
static bool take(void *context, const iw_packet_t *packet)
{
    mca_btl_ibx_udp_module_t *module = context;
    mca_btl_ibx_udp_endpoint_t *endpoint = iw_peer_user(packet->peer);
    const size_t bytes = atomic_load_explicit(&module->failover.bytes, memory_order_relaxed);
    carried_t *item = !endpoint->base.is_given || bytes + packet->length > ROOM ? NULL : malloc(sizeof(*item) + packet->length);
    if (NULL == item) {
        return false;
    }
    *item = (carried_t){.endpoint = endpoint};
    for (unsigned i = 0; i < packet->count; ++i) {
        memcpy(item->data + item->length, packet->piece[i].iov_base, packet->piece[i].iov_len);
        item->length += packet->piece[i].iov_len;
    }
    *(NULL == module->failover.first ? &module->failover.first : &module->failover.last->next) = item;
    module->failover.last = item;
    atomic_store_explicit(&module->failover.bytes, bytes + item->length, memory_order_relaxed);
    return true;
}

/* The first that waits, without an endpoint if that is dead; NULL: none waits. *is_blocked: it is sure that the network does not
 * carry it. */
static carried_t *next(mca_btl_ibx_udp_module_t *module, bool *is_blocked)
{
    mca_btl_ibx_udp_lock(module);
    carried_t *item = module->failover.first;
    if (NULL != item) {
        const iw_peer_t *peer = item->endpoint->peer;
        *is_blocked = NULL != peer && iw_peer_is_blocked(peer);
        item->endpoint = item->endpoint->base.is_dead ? NULL : item->endpoint;
        module->failover.first = item->next;
        atomic_fetch_sub_explicit(&module->failover.bytes, item->length, memory_order_relaxed);
    }
    mca_btl_ibx_udp_unlock(module);
    return item;
}

static void tell(mca_btl_ibx_udp_endpoint_t *endpoint, const mca_btl_base_module_t *carrier)
{
    const mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(endpoint->base.module);
    const char *host = spec_host_of(endpoint->base.proc);
    char path[256], from[96], to[96];
    if (endpoint->is_told) {
        return;
    }
    endpoint->is_told = true; /* by this process; which processes of the host have is a file */
    snprintf(path, sizeof(path), "failover %s %s", module->base.interface.name, host);
    if (spec_tell_once(path)) {
        (void) mca_btl_ibx_address_text(iw_port_address(module->port), from, sizeof(from));
        (void) mca_btl_ibx_address_text(&endpoint->address, to, sizeof(to));
        spec_explain_now("help-mpi-btl-ibx.txt", "path fails", mca_btl_ibx_host(), host, from, to,
                         carrier->btl_component->btl_version.mca_component_name);
    }
}

/* There is no transport that carries it; if there is one that is for shorter ones only, says so. */
static void cannot(mca_btl_ibx_udp_endpoint_t *endpoint, size_t length)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(endpoint->base.module);
    leave(&endpoint->base);
    const carrier_t other = carrier_of(endpoint, 0);
    if (NULL != other.endpoint) {
        char bytes[32], longest[32], path[256];
        const char *host = spec_host_of(endpoint->base.proc);
        snprintf(bytes, sizeof(bytes), "%zu bytes", length);
        snprintf(longest, sizeof(longest), "%zu bytes", other.btl->btl_max_send_size);
        snprintf(path, sizeof(path), "too long %s %s", module->base.interface.name, host);
        if (spec_tell_once(path)) {
            spec_explain_now("help-mpi-btl-ibx.txt", "datagrams too long", mca_btl_ibx_host(), host, bytes,
                             other.btl->btl_component->btl_version.mca_component_name, longest);
        }
    }
    mca_btl_ibx_udp_lock(module);
    if (NULL != endpoint->peer) {
        iw_peer_set_alternate(endpoint->peer, false);
    }
    mca_btl_ibx_udp_unlock(module);
}

/* False: it is not on its way. */
static bool give_to(carrier_t carrier, const carried_t *item)
{
    const struct iovec bytes = {.iov_base = (void *) item->data, .iov_len = item->length};
    const int rc = mca_btl_ibx_relay_send(carrier.btl, carrier.endpoint, TAG, item->endpoint->pair, &bytes, 1);
    if (OPAL_ERR_UNREACH == rc) {
        leave(&item->endpoint->base); /* the other end may have closed it; the next datagram begins anew */
    }
    return OPAL_SUCCESS == rc;
}

/* Also the first one, which may be chosen long after the network was given up. */
static void carried_by(mca_btl_ibx_udp_endpoint_t *endpoint, const mca_btl_base_module_t *carrier)
{
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_of(endpoint->base.module);
    if (endpoint->carrier == carrier) {
        return;
    }
    endpoint->carrier = carrier;
    mca_btl_ibx_udp_lock(module);
    if (NULL != endpoint->peer) {
        iw_peer_alternate_changed(endpoint->peer, iw_port_now());
    }
    mca_btl_ibx_udp_unlock(module);
}

static void give(carried_t *item, bool is_blocked)
{
    mca_btl_ibx_udp_endpoint_t *endpoint = item->endpoint;
    if (NULL == endpoint) {
        return;
    }
    const carrier_t carrier = carrier_for(endpoint, item->length);
    if (NULL == carrier.endpoint) {
        cannot(endpoint, item->length);
        return;
    }
    carried_by(endpoint, carrier.btl);
    if (give_to(carrier, item) && is_blocked) {
        tell(endpoint, carrier.btl);
    }
}

void mca_btl_ibx_udp_failover_give(mca_btl_ibx_udp_module_t *module)
{
    bool is_blocked = false;
    carried_t *item;
    if (0 != opal_mutex_trylock(&giving)) {
        return;
    }
    for (unsigned n = 0; n < AT_ONCE && NULL != (item = next(module, &is_blocked)); ++n) {
        give(item, is_blocked);
        free(item);
    }
    opal_mutex_unlock(&giving);
}

/* ---- taking ---- */

/* A message that is none of ours is a datagram without a byte, which the engine refuses and counts. */
static void datagram_in(const mca_btl_base_segment_t *segment, size_t n)
{
    uint8_t at;
    const uint8_t *data;
    const size_t length = mca_btl_ibx_relay_read(segment, n, mca_btl_ibx_udp_modules_n, &at, &data);
    mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[at];
    mca_btl_ibx_udp_lock(module);
    iw_engine_input_alternate(module->engine, iw_port_now(), data, length);
    iw_agent_flush(module->agent);
    mca_btl_ibx_udp_unlock(module);
    mca_btl_ibx_meet_strangers(&module->base);
}

MCA_BTL_IBX_RECEIVER(receive, datagram_in)

/* ---- life ---- */

void mca_btl_ibx_udp_failover_listen(void)
{
    mca_btl_base_active_message_trigger[TAG].cbfunc = mca_btl_ibx_udp_modules_n > 0 ? receive : NULL;
}

void mca_btl_ibx_udp_failover_open(void)
{
    const bool has_path =
        mca_btl_ibx_udp_modules_n > 1 || mca_btl_ibx_has_others(MCA_BTL_IBX_UDP_NEAR, MCA_BTL_FLAGS_SEND);
    if (is_open || !mca_btl_ibx_component.failover || !has_path) {
        return;
    }
    is_open = true;
    OBJ_CONSTRUCT(&giving, opal_mutex_t);
    OBJ_CONSTRUCT(&carriers, opal_hash_table_t);
    (void) opal_hash_table_init(&carriers, 16);
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        mca_btl_ibx_udp_module_t *module = mca_btl_ibx_udp_modules[i];
        mca_btl_ibx_udp_lock(module);
        iw_port_set_alternate(module->port, take, module);
        mca_btl_base_endpoint_t *early; /* processes that spoke first */
        OPAL_LIST_FOREACH (early, &module->base.endpoints, mca_btl_base_endpoint_t) {
            if (NULL != ((mca_btl_ibx_udp_endpoint_t *) early)->peer) {
                mca_btl_ibx_udp_failover_offer((mca_btl_ibx_udp_endpoint_t *) early);
            }
        }
        mca_btl_ibx_udp_unlock(module);
    }
}

/* Of processes that nobody has left: with their transports, which may have ended already, end their endpoints there. */
static void forget_carriers(void)
{
    uint64_t name;
    void *known, *node;
    while (OPAL_SUCCESS == opal_hash_table_get_first_key_uint64(&carriers, &name, &known, &node)) {
        (void) opal_hash_table_remove_value_uint64(&carriers, name);
        free(known);
    }
    OBJ_DESTRUCT(&carriers);
}

void mca_btl_ibx_udp_failover_close(mca_btl_ibx_udp_module_t *module)
{
    while (NULL != module->failover.first) {
        carried_t *item = module->failover.first;
        module->failover.first = item->next;
        free(item);
    }
    atomic_store(&module->failover.bytes, 0);
    mca_btl_ibx_udp_failover_listen();
    if (is_open && 0 == mca_btl_ibx_udp_modules_n) {
        is_open = false;
        forget_carriers();
        OBJ_DESTRUCT(&giving);
    }
}

void mca_btl_ibx_udp_failover_offer(mca_btl_ibx_udp_endpoint_t *endpoint)
{
    iw_peer_set_alternate(endpoint->peer, is_open && !endpoint->base.is_self);
}
