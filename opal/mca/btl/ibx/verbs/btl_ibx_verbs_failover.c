/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections that go on by another port (vb_failover.c): their parcels are messages of another module that reaches the process. */
#include "verbs/btl_ibx_verbs_module.h"

#include "btl_ibx_atomic.h"
#include "btl_ibx_endpoint.h"
#include "btl_ibx_relay.h"

#define AT_ONCE 64 /* parcels given away by one call */

enum { TAG = MCA_BTL_TAG_BTL + 11 };

enum { OVERHEAD = 16 /* in front of a parcel: the relay's header, and the name of the sender, of 64 bits */ };

static opal_mutex_t giving = OPAL_MUTEX_STATIC_INIT; /* one thread at a time, and none within itself: parcels stay in order */

uint32_t mca_btl_ibx_verbs_part_max(void)
{
    /* The processor copies parts, and may not touch memory of an accelerator, which the adapter may reach. */
    const bool has_devices = VB_OFF != mca_btl_ibx_verbs_params.dmabuf && NULL != mca_btl_ibx_device_component();
    return mca_btl_ibx_verbs_has_failover() && !has_devices
               ? (uint32_t) (mca_btl_ibx_verbs_params.max_send_size - OVERHEAD)
               : 0;
}

/* ---- memory ---- */

bool mca_btl_ibx_verbs_copy(void *context, uint32_t rkey, uint64_t remote, void *data, uint32_t size, bool is_write)
{
    mca_btl_ibx_verbs_module_t *module = context;
    const int32_t access = is_write ? MCA_RCACHE_ACCESS_REMOTE_WRITE : MCA_RCACHE_ACCESS_REMOTE_READ;
    /* A registration that is about to go waits for this lock, and memory that is about to be nobody's for the port's. */
    mca_btl_ibx_atomic_lock();
    const mca_btl_ibx_verbs_reg_t *reg = vb_map_get(&module->keys, rkey);
    bool may = NULL != reg && 0 != (reg->super.base.access_flags & access) && atomic_load(&reg->super.uses.count) > 0;
    if (may) {
        const uint64_t offset = remote - (uint64_t) (uintptr_t) reg->super.base.base;
        const uint64_t length = (uint64_t) (reg->super.base.bound - reg->super.base.base) + 1;
        may = offset <= length && length - offset >= size;
    }
    if (may) {
        void *memory = (void *) (uintptr_t) remote;
        memcpy(is_write ? memory : data, is_write ? data : memory, size);
    }
    mca_btl_ibx_atomic_unlock();
    return may;
}

/* ---- giving ---- */

/* The process by another port, whose connection works; one that was never made is made for the next time. *some: there are such
 * ports, whatever their state. */
static mca_btl_base_endpoint_t *carrier_of(const mca_btl_ibx_verbs_endpoint_t *endpoint, bool *some)
{
    mca_btl_base_endpoint_t *carrier = NULL;
    *some = false;
    for (uint32_t i = 0; NULL == carrier && i < mca_btl_ibx_verbs_modules_n; ++i) {
        mca_btl_ibx_verbs_module_t *module = mca_btl_ibx_verbs_modules[i];
        mca_btl_base_endpoint_t *other = &module->base == endpoint->base.module
                                             ? NULL
                                             : mca_btl_ibx_endpoint_of(&module->base, endpoint->base.proc);
        if (NULL != other) {
            vb_port_lock(module->port);
            vb_peer_t *peer = other->is_dead ? NULL : mca_btl_ibx_verbs_peer((mca_btl_ibx_verbs_endpoint_t *) other);
            *some |= !other->is_dead;
            carrier = NULL != peer && vb_peer_carries(peer) ? other : NULL;
            vb_port_unlock(module->port);
        }
    }
    return carrier;
}

static void tell(const mca_btl_ibx_verbs_endpoint_t *endpoint, const mca_btl_base_endpoint_t *carrier)
{
    char path[256], from[96], by[96];
    const char *host = spec_host_of(endpoint->base.proc);
    mca_btl_ibx_verbs_describe(&endpoint->base, from, sizeof(from));
    mca_btl_ibx_verbs_describe(carrier, by, sizeof(by));
    snprintf(path, sizeof(path), "elsewhere %s %s", from, host);
    if (spec_tell_once(path)) {
        spec_explain_now("help-mpi-btl-ibx.txt", "port fails", mca_btl_ibx_host(), host, from, by);
    }
}

/* False: it is not on its way. */
static bool give_to(mca_btl_base_endpoint_t *carrier, const mca_btl_ibx_verbs_endpoint_t *endpoint, const vb_parcel_t *parcel)
{
    iw_be64_t name = iw_be64(vb_peer_own_name(parcel->peer));
    const struct iovec bytes[] = {{.iov_base = &name, .iov_len = sizeof(name)},
                                  {.iov_base = (void *) parcel->data, .iov_len = parcel->length}};
    return OPAL_SUCCESS == mca_btl_ibx_relay_send(&carrier->module->super, carrier, TAG, endpoint->pair, bytes, 2);
}

/* endpoint NULL: the process was not met, or is parted from. */
static void give(mca_btl_ibx_verbs_module_t *module, vb_parcel_t *parcel, mca_btl_ibx_verbs_endpoint_t *endpoint, bool is_open)
{
    bool some = true;
    mca_btl_base_endpoint_t *carrier = NULL == endpoint ? NULL : carrier_of(endpoint, &some);
    const bool is_given = NULL != carrier && give_to(carrier, endpoint, parcel);
    vb_port_lock(module->port);
    if (is_given) {
        vb_peer_is_carried(parcel->peer);
    } else {
        if (!some) {
            vb_peer_offer_elsewhere(parcel->peer, false);
        }
        vb_peer_is_not_carried(parcel->peer);
    }
    vb_port_unlock(module->port);
    if (is_given && is_open) {
        tell(endpoint, carrier);
    }
}

void mca_btl_ibx_verbs_failover_give(mca_btl_ibx_verbs_module_t *module)
{
    if (0 != opal_mutex_trylock(&giving)) {
        return;
    }
    for (unsigned n = 0; n < AT_ONCE; ++n) {
        vb_port_lock(module->port);
        vb_parcel_t *parcel = vb_port_next_part(module->port);
        mca_btl_ibx_verbs_endpoint_t *endpoint = NULL == parcel ? NULL : vb_peer_user(parcel->peer);
        endpoint = NULL != endpoint && endpoint->base.is_dead ? NULL : endpoint; /* its process may be gone */
        const vb_conn_t *conn = NULL == parcel ? NULL : vb_peer_connection(parcel->peer);
        const bool is_open = NULL != conn && VB_OPEN == conn->state && conn->is_elsewhere;
        vb_port_unlock(module->port);
        if (NULL == parcel) {
            break;
        }
        give(module, parcel, endpoint, is_open);
        free(parcel);
    }
    opal_mutex_unlock(&giving);
}

/* ---- taking ---- */

/* A message that is none of ours is a part without a byte, which is refused and counted. */
static void parcel_in(const mca_btl_base_segment_t *segment, size_t n)
{
    uint8_t module;
    const uint8_t *data;
    iw_be64_t name = iw_be64(0);
    if (0 == mca_btl_ibx_verbs_modules_n) {
        return;
    }
    const size_t length = mca_btl_ibx_relay_read(segment, n, mca_btl_ibx_verbs_modules_n, &module, &data);
    const bool is_named = length > sizeof(name);
    if (is_named) {
        memcpy(&name, data, sizeof(name));
    }
    vb_port_t *port = mca_btl_ibx_verbs_modules[module]->port;
    vb_port_lock(port);
    vb_port_take_part(port, iw_get64(name), data + sizeof(name), is_named ? length - sizeof(name) : 0);
    vb_port_unlock(port);
}

MCA_BTL_IBX_RECEIVER(receive, parcel_in)

void mca_btl_ibx_verbs_failover_listen(void)
{
    const bool is_on = mca_btl_ibx_verbs_modules_n > 0 && mca_btl_ibx_verbs_has_failover();
    mca_btl_base_active_message_trigger[TAG].cbfunc = is_on ? receive : NULL;
}
