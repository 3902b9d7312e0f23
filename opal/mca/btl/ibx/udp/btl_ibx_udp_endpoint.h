/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Endpoints: other processes. Nothing is sent before the first message; a peer that never talks
 * costs one endpoint if the PML asked for it, and nothing in the engine. */
#ifndef BTL_IBX_ENDPOINT_H
#define BTL_IBX_ENDPOINT_H

#include "btl_ibx.h"

int mca_btl_ibx_add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                          mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable);
int mca_btl_ibx_del_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs,
                          mca_btl_base_endpoint_t **endpoints);

/* The engine's `unknown`: another process talks to us first. lock is held. */
iw_peer_t *mca_btl_ibx_unknown(void *context, iw_engine_t *engine, uint64_t identity);
/* Looks up those whom that did not know, and takes what they said. lock is not held; any thread. */
void mca_btl_ibx_meet_strangers(mca_btl_ibx_module_t *module);

/* Slow path of the next. */
iw_peer_t *mca_btl_ibx_connect(mca_btl_ibx_endpoint_t *endpoint);

/* The engine's peer of an endpoint, NULL when memory is out or the peer is dead. lock is held. */
static inline iw_peer_t *mca_btl_ibx_peer(mca_btl_ibx_endpoint_t *endpoint)
{
    return OPAL_LIKELY(NULL != endpoint->peer) ? endpoint->peer : mca_btl_ibx_connect(endpoint);
}

/* It does not answer for so long, and is asked on: says so. lock is not held. */
void mca_btl_ibx_silent(const mca_btl_ibx_endpoint_t *endpoint, unsigned seconds);

/* The connection ended by itself: what waits for its answers fails. endpoint may be NULL. lock is not held. */
void mca_btl_ibx_lost(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint,
                      iw_status_t status);

/* The connection ends by us, who cannot go on: an error at both ends. lock is not held. */
void mca_btl_ibx_give_up(mca_btl_ibx_module_t *module, mca_btl_ibx_endpoint_t *endpoint, iw_status_t why);

/* What a request that ended like this (not IW_OK, not IW_AGAIN) is for the PML. */
static inline int mca_btl_ibx_error(iw_status_t status)
{
    return IW_DEAD == status || IW_CLOSED == status || IW_RESTARTED == status || IW_FLUSHED == status
               ? OPAL_ERR_UNREACH
               : OPAL_ERROR;
}

#endif
