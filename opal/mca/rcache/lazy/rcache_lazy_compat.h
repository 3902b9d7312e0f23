/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What differs between the Open MPI releases that rcache/lazy is built for. Nothing else in this
 * component tests the version. */
#ifndef RCACHE_LAZY_COMPAT_H
#define RCACHE_LAZY_COMPAT_H

#include "opal_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "opal/class/opal_object.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/memoryhooks/memory.h"
#include "opal/runtime/opal_params.h"
#include "opal/sys/timer.h"
#include "opal/util/error.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"

#if !defined(SPEC_UNTESTED_OPENMPI) && !(OPAL_MAJOR_VERSION == 4 && OPAL_MINOR_VERSION == 1)       \
    && !(OPAL_MAJOR_VERSION == 5 && OPAL_MINOR_VERSION == 0)                                       \
    && !(OPAL_MAJOR_VERSION == 6 && OPAL_MINOR_VERSION == 0)
#    error "rcache/lazy: supported are Open MPI 4.1, 5.0 and 6.0 (others: -DSPEC_UNTESTED_OPENMPI)"
#endif

#if OPAL_MAJOR_VERSION < 5

/* Whether the application or another component asked for registrations to stay (and whether the
 * framework had its chance to install the hooks), as it stands now. */
static inline bool mca_rcache_lazy_pinning(void)
{
    return 1 == opal_leave_pinned || opal_leave_pinned_pipeline;
}

static inline void mca_rcache_lazy_super_init(mca_rcache_base_module_t *module)
{
    OBJ_CONSTRUCT(&module->lock, opal_mutex_t);
}

static inline void mca_rcache_lazy_super_fini(mca_rcache_base_module_t *module)
{
    OBJ_DESTRUCT(&module->lock);
}

/* How many processes of the job run on this host, this one included. */
static inline uint32_t mca_rcache_lazy_local_ranks(void)
{
    return (uint32_t) opal_process_info.num_local_peers + 1;
}

static inline const char *mca_rcache_lazy_host(void)
{
    return NULL == opal_process_info.nodename ? "unknown" : opal_process_info.nodename;
}

/* Memory of an accelerator: no memory hook tells when it goes away. */
#    define MCA_RCACHE_LAZY_FOREIGN                                                                \
        (MCA_RCACHE_FLAGS_CUDA_GPU_MEM | MCA_RCACHE_FLAGS_CUDA_REGISTER_MEM)

#else /* 5.0, 6.0 */

/* 6.0 knows no help texts but those of its own tree. */
#    ifdef SPEC_HELP_COMPILED
#        include "help/show_help.h"
#    endif

static inline bool mca_rcache_lazy_pinning(void)
{
    return 1 == opal_leave_pinned || opal_leave_pinned_pipeline;
}

static inline void mca_rcache_lazy_super_init(mca_rcache_base_module_t *module)
{
    mca_rcache_base_module_init(module);
}

static inline void mca_rcache_lazy_super_fini(mca_rcache_base_module_t *module)
{
    mca_rcache_base_module_fini(module);
}

static inline uint32_t mca_rcache_lazy_local_ranks(void)
{
    return opal_process_info.num_local_peers + 1;
}

static inline const char *mca_rcache_lazy_host(void)
{
    return NULL == opal_process_info.nodename ? "unknown" : opal_process_info.nodename;
}

#    define MCA_RCACHE_LAZY_FOREIGN                                                                \
        (MCA_RCACHE_FLAGS_ACCELERATOR_MEM | MCA_RCACHE_FLAGS_ACCELERATOR_REGISTER_MEM)

#endif

_Static_assert(3 == RCACHE_MAJOR_VERSION && 0 == RCACHE_MINOR_VERSION,
               "rcache/lazy is written for rcache 3.0");

/* When a use happened, in a unit that only has to grow. */
static inline uint64_t mca_rcache_lazy_now(void)
{
#if OPAL_HAVE_SYS_TIMER_GET_CYCLES
    return (uint64_t) opal_sys_timer_get_cycles();
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
#endif
}

#endif
