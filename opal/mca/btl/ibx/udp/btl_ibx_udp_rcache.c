/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registers user memory with the UDP engine through a registration cache, so that repeated use costs a lookup. */
#include "udp/btl_ibx_udp_rcache.h"

#include "btl_ibx_fault.h"
#include "iwarp/iw_memory.h"

#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"

#include <stdio.h>

static int make(void *context, void *base, size_t size, mca_rcache_base_registration_t *reg)
{
    mca_btl_ibx_udp_module_t *module = context;
    mca_btl_ibx_reg_t *cached = (mca_btl_ibx_reg_t *) reg;
    cached->pinned = (struct mca_btl_base_registration_handle_t){0};
    cached->is_reached = true;
    atomic_init(&cached->uses, 0);
    unsigned rights = 0;
    rights |= reg->access_flags & MCA_RCACHE_ACCESS_REMOTE_READ ? IW_REMOTE_READ : 0;
    rights |= reg->access_flags & MCA_RCACHE_ACCESS_REMOTE_WRITE ? IW_REMOTE_WRITE : 0;
    if (OPAL_UNLIKELY(mca_btl_ibx_fault_registration())) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    mca_btl_ibx_udp_lock(module);
    const uint32_t stag = iw_register(module->engine, base, size, rights);
    (void) iw_guard(module->engine, stag, &cached->uses);
    mca_btl_ibx_udp_unlock(module);
    cached->handle = (struct mca_btl_base_registration_handle_t){.base = (uint64_t) (uintptr_t) base, .stag = stag};
    return 0 == stag ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_SUCCESS;
}

static int end(void *context, mca_rcache_base_registration_t *reg)
{
    mca_btl_ibx_udp_module_t *module = context;
    mca_btl_ibx_udp_lock(module);
    (void) iw_deregister(module->engine, ((mca_btl_ibx_reg_t *) reg)->handle.stag);
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
                                             .sizeof_reg = sizeof(mca_btl_ibx_reg_t),
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
