/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See rcache_modules.h. */
#include "opal_config.h"

#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"

#include "rcache_modules.h"

#include <mpi.h>
#include <stdlib.h>
#include <time.h>

double rcache_register_ns, rcache_register_ns_page;

struct rcache_module {
    mca_rcache_base_module_t *super;
    rcache_module_count_t count;
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static int make(void *context, void *base, size_t size, mca_rcache_base_registration_t *reg)
{
    rcache_module_t *module = context;
    const double ns = rcache_register_ns + rcache_register_ns_page * (double) (size / 4096);
    (void) base, (void) reg;
    ++module->count.made;
    module->count.bytes += size;
    if (ns > 0) {
        const double until = now_ns() + ns;
        while (now_ns() < until) {
        }
    }
    return OPAL_SUCCESS;
}

static int end(void *context, mca_rcache_base_registration_t *reg)
{
    (void) context, (void) reg;
    return OPAL_SUCCESS;
}

int rcache_modules_start(int *argc, char ***argv)
{
    int provided;
    return MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
}

void rcache_modules_end(void)
{
    MPI_Finalize();
}

rcache_module_t *rcache_module_new(const char *component)
{
    rcache_module_t *module = calloc(1, sizeof(*module));
    char name[] = "unpinned.bench";
    mca_rcache_base_resources_t resources = {.cache_name = name,
                                             .reg_data = module,
                                             .sizeof_reg = sizeof(mca_rcache_base_registration_t),
                                             .register_mem = make,
                                             .deregister_mem = end};
    if (NULL != module) {
        module->super = mca_rcache_base_module_create(component, module, &resources);
        if (NULL == module->super) {
            free(module);
            return NULL;
        }
    }
    return module;
}

void rcache_module_delete(rcache_module_t *module)
{
    if (NULL != module) {
        (void) mca_rcache_base_module_destroy(module->super);
        free(module);
    }
}

void *rcache_module_register(rcache_module_t *module, void *address, size_t size)
{
    mca_rcache_base_registration_t *reg = NULL;
    return OPAL_SUCCESS
                   == module->super->rcache_register(module->super, address, size, 0,
                                                     MCA_RCACHE_ACCESS_ANY, &reg)
               ? reg
               : NULL;
}

void rcache_module_deregister(rcache_module_t *module, void *registration)
{
    (void) module->super->rcache_deregister(module->super, registration);
}

bool rcache_module_evict(rcache_module_t *module)
{
    return module->super->rcache_evict(module->super);
}

rcache_module_count_t rcache_module_count(const rcache_module_t *module)
{
    return module->count;
}
