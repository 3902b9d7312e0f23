/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What differs between the Open MPI releases that rcache/lazy is built for. Nothing else in this
 * component tests the version. */
#ifndef RCACHE_LAZY_COMPAT_H
#define RCACHE_LAZY_COMPAT_H

#include "opal_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "opal/class/opal_object.h"
#include "opal/include/spec/release.h"
#include "opal/include/spec/spec_now.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/memoryhooks/memory.h"
#include "opal/runtime/opal_params.h"
#include "opal/sys/timer.h"
#include "opal/util/error.h"
#include "opal/util/output.h"

/* MCA_RCACHE_LAZY_FOREIGN: memory of an accelerator; no memory hook tells when it goes away.
 * mca_rcache_lazy_has_devices: may there be such memory?
 * mca_rcache_lazy_block: the block of it that an address is in, and a number that no other block ever has. False: that is not
 * known. */
#if OPAL_MAJOR_VERSION < 5
#    define mca_rcache_base_module_init(module) OBJ_CONSTRUCT(&(module)->lock, opal_mutex_t)
#    define mca_rcache_base_module_fini(module) OBJ_DESTRUCT(&(module)->lock)
#    define MCA_RCACHE_LAZY_FOREIGN                                                                \
        (MCA_RCACHE_FLAGS_CUDA_GPU_MEM | MCA_RCACHE_FLAGS_CUDA_REGISTER_MEM)
static inline bool mca_rcache_lazy_has_devices(void)
{
    return false;
}
static inline bool mca_rcache_lazy_block(void *address, void **base, size_t *size, uint64_t *id)
{
    (void) address, (void) base, (void) size, (void) id;
    return false;
}
#else /* 5.0, 6.0 */
#    define MCA_RCACHE_LAZY_FOREIGN                                                                \
        (MCA_RCACHE_FLAGS_ACCELERATOR_MEM | MCA_RCACHE_FLAGS_ACCELERATOR_REGISTER_MEM)
#    include "opal/mca/accelerator/base/base.h"
static inline bool mca_rcache_lazy_has_devices(void)
{
    return NULL != opal_accelerator.check_addr
           && 0 != strcmp(opal_accelerator_base_selected_component.base_version.mca_component_name, "null");
}
static inline bool mca_rcache_lazy_block(void *address, void **base, size_t *size, uint64_t *id)
{
    int device = MCA_ACCELERATOR_NO_DEVICE_ID;
    uint64_t flags = 0;
    opal_accelerator_buffer_id_t number = 0;
    *base = NULL;
    const bool known = opal_accelerator.check_addr(address, &device, &flags) > 0
                       && OPAL_SUCCESS == opal_accelerator.get_address_range(device, address, base, size)
                       && OPAL_SUCCESS == opal_accelerator.get_buffer_id(device, address, &number);
    *id = number;
    return known && NULL != *base && 0 != number; /* rocm has 0 where HIP does not tell */
}
#endif

_Static_assert(3 == RCACHE_MAJOR_VERSION && 0 == RCACHE_MINOR_VERSION,
               "rcache/lazy is written for rcache 3.0");

static inline const char *mca_rcache_lazy_host(void)
{
    return NULL == opal_process_info.nodename ? "unknown" : opal_process_info.nodename;
}

/* When a use happened, in a unit that only has to grow. */
static inline uint64_t mca_rcache_lazy_now(void)
{
#if OPAL_HAVE_SYS_TIMER_GET_CYCLES
    return (uint64_t) opal_sys_timer_get_cycles();
#else
    return spec_now();
#endif
}

#endif
