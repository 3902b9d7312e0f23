/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registers user memory with the UDP engine through a registration cache, so that repeated use costs a lookup. */
#include "udp/btl_ibx_udp_rcache.h"

#include "btl_ibx_fault.h"
#include "iwarp/iw_memory.h"

#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"

#include <stdio.h>
#include <string.h>

/* A registration as the cache keeps it, with what a peer is told of it.
 *
 * An adapter reaches memory that it has pinned, whatever becomes of the addresses. The protocol stack is this
 * process, and memory that nobody uses any more may have been given back to the system. It must not be
 * touched then, not even for a datagram that is sent again because its acknowledgement was lost. So
 * peers reach what is in use, and a pinned registration is not in use. */
typedef struct cached {
    mca_rcache_base_registration_t base;
    struct mca_btl_base_registration_handle_t handle;
    struct mca_btl_base_registration_handle_t pinned; /* for callers that only keep it: STag 0 */
    atomic_uint uses;
} cached_t;

static int make(void *context, void *base, size_t size, mca_rcache_base_registration_t *reg)
{
    mca_btl_ibx_udp_module_t *module = context;
    cached_t *cached = (cached_t *) reg;
    struct mca_btl_base_registration_handle_t *handle = &cached->handle;
    cached->pinned = (struct mca_btl_base_registration_handle_t){0};
    atomic_init(&cached->uses, 0);
    unsigned rights = 0;
    rights |= reg->access_flags & MCA_RCACHE_ACCESS_REMOTE_READ ? IW_REMOTE_READ : 0;
    rights |= reg->access_flags & MCA_RCACHE_ACCESS_REMOTE_WRITE ? IW_REMOTE_WRITE : 0;
    if (OPAL_UNLIKELY(mca_btl_ibx_fault_registration())) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    mca_btl_ibx_udp_lock(module);
    handle->stag = iw_register(module->engine, base, size, rights);
    (void) iw_guard(module->engine, handle->stag, &cached->uses);
    mca_btl_ibx_udp_unlock(module);
    handle->base = (uint64_t) (uintptr_t) base;
    handle->module = module->base.index;
    return 0 == handle->stag ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_SUCCESS;
}

static int end(void *context, mca_rcache_base_registration_t *reg)
{
    mca_btl_ibx_udp_module_t *module = context;
    mca_btl_ibx_udp_lock(module);
    (void) iw_deregister(module->engine, ((cached_t *) reg)->handle.stag);
    mca_btl_ibx_udp_unlock(module);
    return OPAL_SUCCESS;
}

void mca_btl_ibx_udp_rcache_open(mca_btl_ibx_udp_module_t *module)
{
    char name[64];
    /* The protocol stack is this process: its memory is reached, not pinned. */
    snprintf(name, sizeof(name), "unpinned.ibx.%s", module->base.interface.name);
    mca_rcache_base_resources_t resources = {.cache_name = name,
                                             .reg_data = module,
                                             .sizeof_reg = sizeof(cached_t),
                                             .register_mem = make,
                                             .deregister_mem = end};
    mca_btl_ibx_open_cache(&module->base, &resources);
    module->base.public.promises |= mca_btl_ibx_promises_of_cache(module->base.rcache);
}

void mca_btl_ibx_udp_rcache_close(mca_btl_ibx_udp_module_t *module)
{
    if (NULL != module->base.rcache) {
        (void) mca_rcache_base_module_destroy(module->base.rcache);
        module->base.rcache = NULL;
    }
}

mca_btl_base_registration_handle_t *
mca_btl_ibx_udp_rcache_register(mca_btl_ibx_udp_module_t *module, void *base, size_t size, uint32_t flags)
{
    mca_rcache_base_registration_t *reg = NULL;
    /* All rights at once: most buffers are sent from and received into in turn, and would be
     * registered a second time for the other direction. */
    const int rc =
        module->base.rcache->rcache_register(module->base.rcache, base, size, 0, MCA_RCACHE_ACCESS_ANY, &reg);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        return NULL;
    }
    cached_t *cached = (cached_t *) reg;
    if (0 != (flags & MCA_BTL_IBX_REG_PIN)) {
        return &cached->pinned;
    }
    atomic_fetch_add(&cached->uses, 1);
    return &cached->handle;
}

/* From now on nobody touches the memory for a peer, and nobody is at it. */
static void wait_until_unused(mca_btl_ibx_udp_module_t *module, cached_t *cached)
{
    if (1 == atomic_fetch_sub(&cached->uses, 1)) {
        mca_btl_ibx_udp_lock(module);
        mca_btl_ibx_udp_unlock(module);
    }
}

void mca_btl_ibx_udp_rcache_deregister(mca_btl_ibx_udp_module_t *module,
                                   mca_btl_base_registration_handle_t *handle)
{
    const bool is_pinned = 0 == handle->stag;
    cached_t *cached =
        (cached_t *) ((char *) handle
                      - (is_pinned ? offsetof(cached_t, pinned) : offsetof(cached_t, handle)));
    if (!is_pinned) {
        wait_until_unused(module, cached);
    }
    (void) module->base.rcache->rcache_deregister(module->base.rcache, &cached->base);
}
