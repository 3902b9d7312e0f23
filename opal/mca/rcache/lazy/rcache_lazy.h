/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* rcache/lazy, a registration cache of Open MPI: it keeps memory registered with the network between its uses. What all files
 * of the component share; core/ is the cache itself, in plain C.
 *
 * A module is one cache of one owner (a BTL, for one adapter). The framework's memory hooks call
 * every module's rcache_invalidate_range; where they are not installed nothing is shared and nothing
 * kept: each use is registered and deregistered by itself. */
#ifndef RCACHE_LAZY_H
#define RCACHE_LAZY_H

#include "rcache_lazy_compat.h"

#include "core/lazy_cache.h"
#include "core/lazy_ids.h"
#include "opal/include/spec/promises.h"
#include "opal/include/spec/tell.h"

#include <pthread.h>

typedef struct mca_rcache_lazy_module {
    mca_rcache_base_module_t super;
    mca_rcache_base_resources_t resources;
    char *name;
    lazy_cache_t *cache;
    lazy_cache_t *device; /* of device memory, where registrations are kept; NULL: there is none, or nothing is kept */
    lazy_ids_t ids;       /* of `device` */
    pthread_mutex_t ids_lock;
    bool shares;         /* there are hooks: uses share registrations, and those stay */
    _Atomic int refused; /* what the owner's function said last when it did not register */
    struct mca_rcache_lazy_module *next;
} mca_rcache_lazy_module_t;

/* Calls function(cache) for each cache of the module. */
#define MCA_RCACHE_LAZY_EACH(module, function)                                                     \
    do {                                                                                           \
        function((module)->cache);                                                                 \
        if (NULL != (module)->device) {                                                            \
            function((module)->device);                                                            \
        }                                                                                          \
    } while (0)

typedef struct mca_rcache_lazy_component {
    mca_rcache_lazy_public_t public;
    /* parameters */
    int policy; /* number for lazy_policy_at */
    size_t max_bytes, max_entries;
    bool fork_flush;
    bool summary;
} mca_rcache_lazy_component_t;

extern mca_rcache_lazy_component_t mca_rcache_lazy_component;

/* A new module for the owner of `resources`, or NULL (told). */
mca_rcache_base_module_t *mca_rcache_lazy_module_new(mca_rcache_base_resources_t *resources);

extern const mca_rcache_lazy_service_t mca_rcache_lazy_the_service;

/* ---- all modules of the process (rcache_lazy_modules.c) ---- */

/* From now on the module hears of forks and is counted, until it is taken out again. */
void mca_rcache_lazy_modules_add(mca_rcache_lazy_module_t *module);
void mca_rcache_lazy_modules_remove(mca_rcache_lazy_module_t *module);
/* What all modules have counted, those that are gone too. */
void mca_rcache_lazy_modules_count(lazy_counters_t *sum);

/* ---- UCX (rcache_lazy_ucx.c) ---- */

/* From now on Open MPI's caches hear of memory that UCX sees go away, if UCX is in the process. A second call does
 * nothing. For one thread at a time, as components are opened and modules made. */
void mca_rcache_lazy_ucx_listen(void);
void mca_rcache_lazy_ucx_close(void);

/* ---- telling (rcache_lazy_report.c) ---- */

void mca_rcache_lazy_pvars_register(void);
/* The counters of a module that ends, on the standard error. */
void mca_rcache_lazy_summarise(const mca_rcache_lazy_module_t *module, const lazy_counters_t *n);

#endif
