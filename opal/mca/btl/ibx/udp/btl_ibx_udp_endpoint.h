/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Endpoints of the UDP transport: the engine's peer of each. Nothing is sent before the first message; a peer that never
 * talks costs one endpoint if the PML asked for it, and nothing in the engine. */
#ifndef BTL_IBX_UDP_ENDPOINT_H
#define BTL_IBX_UDP_ENDPOINT_H

#include "udp/btl_ibx_udp_module.h"

/* The transport's endpoint_new, meet, part and describe (btl_ibx_module.h). */
mca_btl_base_endpoint_t *mca_btl_ibx_udp_endpoint_new(mca_btl_ibx_module_t *module, opal_proc_t *proc, bool is_self);
void mca_btl_ibx_udp_meet(mca_btl_base_endpoint_t *endpoint, const uint8_t *data, size_t length);
void mca_btl_ibx_udp_part(mca_btl_base_endpoint_t *endpoint);
void mca_btl_ibx_udp_describe(const mca_btl_base_endpoint_t *endpoint, char *text, size_t size);

/* The engine's `unknown`: another process talks to us first. lock is held. */
iw_peer_t *mca_btl_ibx_udp_unknown(void *context, iw_engine_t *engine, uint64_t identity);

/* Slow path of the next. */
iw_peer_t *mca_btl_ibx_udp_connect(mca_btl_ibx_udp_endpoint_t *endpoint);

/* The engine's peer of an endpoint, NULL when memory is out or the peer is dead. lock is held. */
static inline iw_peer_t *mca_btl_ibx_udp_peer(mca_btl_base_endpoint_t *base)
{
    mca_btl_ibx_udp_endpoint_t *endpoint = (mca_btl_ibx_udp_endpoint_t *) base;
    return OPAL_LIKELY(NULL != endpoint->peer) ? endpoint->peer : mca_btl_ibx_udp_connect(endpoint);
}

/* It does not answer for so long, and is asked on: says so. lock is not held. */
void mca_btl_ibx_udp_silent(const mca_btl_base_endpoint_t *endpoint, unsigned seconds);

/* The connection ended by itself: what waits for its answers fails. endpoint may be NULL. lock is not held. */
void mca_btl_ibx_udp_lost(mca_btl_base_endpoint_t *endpoint, iw_status_t status);

#endif
