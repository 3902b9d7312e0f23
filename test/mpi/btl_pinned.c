/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A BTL for tests: it carries nothing, but registers memory, as one with an adapter does: through a
 * registration cache of Open MPI (--mca btl_pinned_rcache NAME), with a cost and a limit.
 *
 * Pinning is mlock where that is allowed, and time spent otherwise; what counts is the number. At
 * its end it says how much was pinned and that nothing is left. */
#include "opal_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "opal/class/opal_bitmap.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

struct mca_btl_base_registration_handle_t {
    uint64_t key;
};

typedef struct {
    mca_rcache_base_registration_t super;
    struct mca_btl_base_registration_handle_t handle;
} pinned_reg_t;

static struct {
    char *rcache;
    unsigned cost_ns;
    size_t limit;
    mca_rcache_base_module_t *cache;
    unsigned long long pins, unpins, bytes;
} pinned;

static void spend(unsigned ns)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < (long) ns);
}

static int pin(void *context, void *base, size_t size, mca_rcache_base_registration_t *reg)
{
    (void) context, (void) base;
    if (pinned.limit > 0 && pinned.bytes + size > pinned.limit) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    spend(pinned.cost_ns);
    pinned.bytes += size;
    ((pinned_reg_t *) reg)->handle.key = ++pinned.pins;
    return OPAL_SUCCESS;
}

static int unpin(void *context, mca_rcache_base_registration_t *reg)
{
    (void) context;
    ++pinned.unpins;
    pinned.bytes -= (size_t) (reg->bound - reg->base) + 1;
    return OPAL_SUCCESS;
}

static struct mca_btl_base_registration_handle_t *
register_mem(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, void *base,
             size_t size, uint32_t flags)
{
    mca_rcache_base_registration_t *reg = NULL;
    (void) btl, (void) endpoint;
    return OPAL_SUCCESS
                   == pinned.cache->rcache_register(pinned.cache, base, size, 0,
                                                    (int32_t) (flags & MCA_RCACHE_ACCESS_ANY), &reg)
               ? &((pinned_reg_t *) reg)->handle
               : NULL;
}

static int deregister_mem(mca_btl_base_module_t *btl,
                          struct mca_btl_base_registration_handle_t *handle)
{
    (void) btl;
    pinned_reg_t *reg = (pinned_reg_t *) ((char *) handle - offsetof(pinned_reg_t, handle));
    return pinned.cache->rcache_deregister(pinned.cache, &reg->super);
}

static int add_procs(mca_btl_base_module_t *btl, size_t n, struct opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    (void) btl, (void) n, (void) procs, (void) endpoints, (void) reachable;
    return OPAL_SUCCESS; /* reaches nobody */
}

static int del_procs(mca_btl_base_module_t *btl, size_t n, struct opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **endpoints)
{
    (void) btl, (void) n, (void) procs, (void) endpoints;
    return OPAL_SUCCESS;
}

static int finalize(mca_btl_base_module_t *btl)
{
    (void) btl;
    (void) mca_rcache_base_module_destroy(pinned.cache);
    opal_output(0, "pinned: %llu pins, %llu unpins, %llu bytes left", pinned.pins, pinned.unpins,
                pinned.bytes);
    return OPAL_SUCCESS;
}

static mca_btl_base_module_t module = {
    .btl_eager_limit = 4096,
    .btl_rndv_eager_limit = 4096,
    .btl_max_send_size = 8192,
    .btl_exclusivity = MCA_BTL_EXCLUSIVITY_LOW,
    .btl_flags = MCA_BTL_FLAGS_SEND,
    .btl_registration_handle_size = sizeof(struct mca_btl_base_registration_handle_t),
    .btl_add_procs = add_procs,
    .btl_del_procs = del_procs,
    .btl_finalize = finalize,
    .btl_register_mem = register_mem,
    .btl_deregister_mem = deregister_mem,
};

extern mca_btl_base_component_3_0_0_t mca_btl_pinned_component;

static int read_number(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) object;
    *(unsigned long long *) value = *(unsigned long long *) pvar->ctx;
    return OPAL_SUCCESS;
}

static int register_params(void)
{
    const mca_base_component_t *version = &mca_btl_pinned_component.btl_version;
    pinned.rcache = "grdma";
    (void) mca_base_component_var_register(version, "rcache", "Registration cache. Default grdma",
                                           MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_9,
                                           MCA_BASE_VAR_SCOPE_READONLY, &pinned.rcache);
    pinned.cost_ns = 20000;
    (void) mca_base_component_var_register(
        version, "cost", "Time to pin. Unit: ns; default 20000", MCA_BASE_VAR_TYPE_UNSIGNED_INT,
        NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY, &pinned.cost_ns);
    pinned.limit = 0;
    (void) mca_base_component_var_register(version, "limit",
                                           "What may be pinned. Unit: bytes, 0: all; default 0",
                                           MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0, OPAL_INFO_LVL_9,
                                           MCA_BASE_VAR_SCOPE_READONLY, &pinned.limit);
    (void) mca_base_component_pvar_register(
        version, "pins", "Regions that were pinned", OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_COUNTER,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_number, NULL, NULL,
        &pinned.pins);
    return OPAL_SUCCESS;
}

static mca_btl_base_module_t **init(int *n, bool progress_threads, bool mpi_threads)
{
    (void) progress_threads, (void) mpi_threads;
    mca_rcache_base_resources_t resources = {.cache_name = "pinned",
                                             .reg_data = &pinned,
                                             .sizeof_reg = sizeof(pinned_reg_t),
                                             .register_mem = pin,
                                             .deregister_mem = unpin};
    mca_btl_base_module_t **modules = malloc(sizeof(*modules));
    *n = 0;
    pinned.cache = mca_rcache_base_module_create(pinned.rcache, &pinned, &resources);
    if (NULL == modules || NULL == pinned.cache) {
        opal_output(0, "pinned: there is no rcache %s", pinned.rcache);
        free(modules);
        return NULL;
    }
    module.btl_component = &mca_btl_pinned_component;
    modules[(*n)++] = &module;
    return modules;
}

__attribute__((visibility("default"))) mca_btl_base_component_3_0_0_t mca_btl_pinned_component = {
    .btl_version = {MCA_BTL_DEFAULT_VERSION("pinned"),
                    .mca_register_component_params = register_params},
    .btl_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .btl_init = init,
};
