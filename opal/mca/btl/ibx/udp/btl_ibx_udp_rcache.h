/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registered memory of the user, kept by a component of Open MPI's rcache framework. */
#ifndef BTL_IBX_RCACHE_H
#define BTL_IBX_RCACHE_H

#include "btl_ibx.h"

/* Give the module the cache that btl_ibx_rcache names. Without one (none is wanted, or to be had:
 * told) module->rcache stays NULL, and each use of memory is registered by itself. */
void mca_btl_ibx_rcache_open(mca_btl_ibx_module_t *module);
/* Ends all registrations: before the engine. */
void mca_btl_ibx_rcache_close(mca_btl_ibx_module_t *module);

/* What can be promised of registrations (btl_ibx_public.h) that this cache keeps; NULL: none does. */
uint32_t mca_btl_ibx_rcache_promises(const mca_rcache_base_module_t *rcache);

/* As btl_register_mem and btl_deregister_mem, for a module with a cache. lock is not held. */
mca_btl_base_registration_handle_t *
mca_btl_ibx_rcache_register(mca_btl_ibx_module_t *module, void *base, size_t size, uint32_t flags);
void mca_btl_ibx_rcache_deregister(mca_btl_ibx_module_t *module,
                                   mca_btl_base_registration_handle_t *handle);

#endif
