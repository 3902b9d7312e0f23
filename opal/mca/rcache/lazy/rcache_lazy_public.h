/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a cache of rcache/lazy offers beyond rcache.h, to an owner that remembers registrations: to
 * take one again without a search. Nothing is linked; the service is found by the name and the
 * version of the cache's component. */
#ifndef RCACHE_LAZY_PUBLIC_H
#define RCACHE_LAZY_PUBLIC_H

#include "opal_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"

#define MCA_RCACHE_LAZY_SERVICE_VERSION 1

typedef struct mca_rcache_lazy_service {
    uint32_t version; /* MCA_RCACHE_LAZY_SERVICE_VERSION */
    uint32_t size;    /* of this struct */
    /* As rcache_register without flags, but only if `reg`, which this cache gave to the caller some
     * time before, still serves: else false, and nothing is taken. Any thread; no lock, no search. */
    bool (*again)(mca_rcache_base_module_t *rcache, mca_rcache_base_registration_t *reg, void *base,
                  size_t size, int32_t access);
} mca_rcache_lazy_service_t;

/* The component as others see it. */
typedef struct mca_rcache_lazy_public {
    mca_rcache_base_component_t super;
    const mca_rcache_lazy_service_t *service;
} mca_rcache_lazy_public_t;

/* The service of a cache; NULL: it is another component's, or another version's. */
static inline const mca_rcache_lazy_service_t *
mca_rcache_lazy_service(const mca_rcache_base_module_t *rcache)
{
    const mca_base_component_t *version = &rcache->rcache_component->rcache_version;
    if (0 != strcmp("lazy", version->mca_component_name)
        || SPEC_VERSION_MAJOR != version->mca_component_major_version
        || SPEC_VERSION_MINOR != version->mca_component_minor_version
        || SPEC_VERSION_RELEASE != version->mca_component_release_version) {
        return NULL;
    }
    const mca_rcache_lazy_service_t *service =
        ((const mca_rcache_lazy_public_t *) rcache->rcache_component)->service;
    return NULL != service && MCA_RCACHE_LAZY_SERVICE_VERSION == service->version
                   && service->size >= sizeof(*service)
               ? service
               : NULL;
}

#endif
