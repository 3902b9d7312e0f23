/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registered memory of the user, kept by a component of Open MPI's rcache framework. */
#ifndef BTL_IBX_UDP_RCACHE_H
#define BTL_IBX_UDP_RCACHE_H

#include "udp/btl_ibx_udp_module.h"

/* Give the module the cache that btl_ibx_rcache names. Without one (none is wanted, or to be had:
 * told) module->base.rcache stays NULL, and each use of memory is registered by itself. */
void mca_btl_ibx_udp_rcache_open(mca_btl_ibx_udp_module_t *module);
/* Ends all registrations: before the engine. */
void mca_btl_ibx_udp_rcache_close(mca_btl_ibx_udp_module_t *module);

#endif
