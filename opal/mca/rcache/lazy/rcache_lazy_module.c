/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A module is one registration cache of one network adapter: the functions that Open MPI calls, in terms of the core. */
#include "rcache_lazy.h"

#include "core/lazy_limits.h"

#include "opal/include/spec/explain.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define HELP_FILE "help-mpi-rcache-lazy.txt"

#define VERBOSE(level, ...)                                                                        \
    SPEC_TELL(level, opal_rcache_base_framework.framework_output, "rcache/lazy: " __VA_ARGS__)

/* Flags that make a registration another one: with them set it serves those without them, not the
 * other way around. The core treats them as rights. */
#define KIND                                                                                       \
    (MCA_RCACHE_FLAGS_SO_MEM | MCA_RCACHE_LAZY_FOREIGN | MCA_RCACHE_FLAGS_RESV0                    \
     | MCA_RCACHE_FLAGS_RESV1 | MCA_RCACHE_FLAGS_RESV2 | MCA_RCACHE_FLAGS_RESV3)
#define KIND_SHIFT 8
_Static_assert(0 == (KIND >> (32 - KIND_SHIFT)) && MCA_RCACHE_ACCESS_ANY < 1 << KIND_SHIFT,
               "kind and rights fit beside each other");

/* Flags with which a registration is of one user only. */
#define ALONE (MCA_RCACHE_FLAGS_CACHE_BYPASS | MCA_RCACHE_FLAGS_PERSIST | MCA_RCACHE_LAZY_FOREIGN)

/* A buffer that overlaps registered memory is registered together with it if that makes the registration at most so much larger.
 * Per cent. */
enum { MERGE = 100 };

/* ---- for the core ---- */

static mca_rcache_base_registration_t *registration_of(lazy_entry_t *e)
{
    return (mca_rcache_base_registration_t *) (void *) e->data;
}

static lazy_status_t make(void *context, lazy_entry_t *e)
{
    mca_rcache_lazy_module_t *module = context;
    mca_rcache_base_registration_t *reg = registration_of(e);
    const uint32_t access = lazy_access(e);
    const size_t size = lazy_size(e);
    if (NULL == ((opal_object_t *) reg)->obj_class) { /* never used before */
        OBJ_CONSTRUCT(reg, mca_rcache_base_registration_t);
    }
    reg->rcache = &module->super;
    reg->base = (unsigned char *) lazy_base(e);
    reg->alloc_base = reg->base;
    reg->bound = reg->base + size - 1;
    reg->ref_count = 1; /* the core counts */
    reg->flags = access >> KIND_SHIFT;
    reg->access_flags = (int32_t) (access & MCA_RCACHE_ACCESS_ANY);
    reg->rcache_context = e;
    const int rc = module->resources.register_mem(module->resources.reg_data, reg->base, size, reg);
    if (OPAL_LIKELY(OPAL_SUCCESS == rc)) {
        return LAZY_OK;
    }
    atomic_store_explicit(&module->refused, rc, memory_order_relaxed);
    return OPAL_ERR_OUT_OF_RESOURCE == rc ? LAZY_NO_RESOURCES : LAZY_FAILED;
}

static void end(void *context, lazy_entry_t *e)
{
    mca_rcache_lazy_module_t *module = context;
    const int rc = module->resources.deregister_mem(module->resources.reg_data, registration_of(e));
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        VERBOSE(1, "%s: [%p, %p) could not be deregistered: %s", module->name,
                (void *) lazy_base(e), (void *) lazy_bound(e), opal_strerror(rc));
    }
}

static void tell(void *context, lazy_event_t event, uintptr_t base, uintptr_t bound)
{
    mca_rcache_lazy_module_t *module = context;
    switch (event) {
    case LAZY_LOST_IN_USE:
        VERBOSE(1,
                "%s: memory in [%p, %p) was given back to the system while its registration was in "
                "use; no other use gets it, and it ends with its last use",
                module->name, (void *) base, (void *) bound);
        break;
    case LAZY_EXHAUSTED:
        VERBOSE(
            1,
            "%s: [%p, %p) cannot be registered for lack of resources, and nothing is left to evict",
            module->name, (void *) base, (void *) bound);
        spec_explain(HELP_FILE, "no resources", "", mca_rcache_lazy_host(), (int) getpid(), module->name,
                     (unsigned long) (bound - base));
        break;
    }
}

static int code_of(mca_rcache_lazy_module_t *module, lazy_status_t status)
{
    const int rc = atomic_load_explicit(&module->refused, memory_order_relaxed);
    return LAZY_OK == status             ? OPAL_SUCCESS
           : LAZY_NO_RESOURCES == status ? OPAL_ERR_OUT_OF_RESOURCE
           : OPAL_SUCCESS == rc          ? OPAL_ERROR
                                         : rc;
}

/* ---- for the framework ---- */

/* Memory of an accelerator: it stays registered as long as the block of memory is the same; where the accelerator does not
 * tell that, until its use ends. */
static lazy_status_t register_device(mca_rcache_lazy_module_t *module, void *address, size_t size,
                                     uint32_t access, bool alone, lazy_entry_t **e)
{
    void *base;
    size_t bytes;
    uint64_t id;
    if (alone || !mca_rcache_lazy_block(address, &base, &bytes, &id)) {
        return lazy_acquire_private(module->device, (uintptr_t) address, size, access, e);
    }
    pthread_mutex_lock(&module->ids_lock);
    lazy_ids_use(&module->ids, module->device, id, (uintptr_t) base, bytes);
    pthread_mutex_unlock(&module->ids_lock);
    return lazy_acquire(module->device, (uintptr_t) address, size, access, mca_rcache_lazy_now(), e);
}

/* Is it in the cache of device memory? */
static bool is_devices(const mca_rcache_lazy_module_t *module, uint32_t flags)
{
    return OPAL_UNLIKELY(0 != (flags & MCA_RCACHE_LAZY_FOREIGN)) && NULL != module->device;
}

static int lazy_register(mca_rcache_base_module_t *rcache, void *address, size_t size,
                         uint32_t flags, int32_t access_flags, mca_rcache_base_registration_t **reg)
{
    mca_rcache_lazy_module_t *module = (mca_rcache_lazy_module_t *) rcache;
    const uint32_t access = (uint32_t) access_flags | (flags & KIND) << KIND_SHIFT;
    lazy_entry_t *e;
    const lazy_status_t status =
        is_devices(module, flags)
            ? register_device(module, address, size, access, 0 != (flags & ALONE & ~(uint32_t) MCA_RCACHE_LAZY_FOREIGN), &e)
        : OPAL_LIKELY(module->shares && 0 == (flags & ALONE))
            ? lazy_acquire(module->cache, (uintptr_t) address, size, access, mca_rcache_lazy_now(), &e)
            : lazy_acquire_private(module->cache, (uintptr_t) address, size, access, &e);
    *reg = NULL == e ? NULL : registration_of(e);
    return OPAL_LIKELY(LAZY_OK == status) ? OPAL_SUCCESS : code_of(module, status);
}

static bool again(mca_rcache_base_module_t *rcache, mca_rcache_base_registration_t *reg, void *base,
                  size_t size, int32_t access)
{
    mca_rcache_lazy_module_t *module = (mca_rcache_lazy_module_t *) rcache;
    /* A registration is at the same offset in its entry, whatever has become of both. */
    lazy_entry_t *e = (lazy_entry_t *) (void *) ((char *) reg - offsetof(lazy_entry_t, data));
    return OPAL_LIKELY(module->shares)
           && lazy_again(module->cache, e, (uintptr_t) base, size, (uint32_t) access,
                         mca_rcache_lazy_now());
}

const mca_rcache_lazy_service_t mca_rcache_lazy_the_service = {
    .version = MCA_RCACHE_LAZY_SERVICE_VERSION,
    .size = sizeof(mca_rcache_lazy_service_t),
    .again = again,
};

static int lazy_deregister(mca_rcache_base_module_t *rcache, mca_rcache_base_registration_t *reg)
{
    mca_rcache_lazy_module_t *module = (mca_rcache_lazy_module_t *) rcache;
    lazy_entry_t *e = reg->rcache_context;
    lazy_release(is_devices(module, lazy_access(e) >> KIND_SHIFT) ? module->device : module->cache, e);
    return OPAL_SUCCESS;
}

static int find(mca_rcache_base_module_t *rcache, void *address, size_t size,
                mca_rcache_base_registration_t **reg)
{
    mca_rcache_lazy_module_t *module = (mca_rcache_lazy_module_t *) rcache;
    lazy_entry_t *e = lazy_find(module->cache, (uintptr_t) address, size, 0, mca_rcache_lazy_now());
    *reg = NULL == e ? NULL : registration_of(e);
    return OPAL_SUCCESS;
}

/* From a memory hook, which ends the process if this fails. It does not. */
static int invalidate_range(mca_rcache_base_module_t *rcache, void *address, size_t size)
{
    mca_rcache_lazy_module_t *module = (mca_rcache_lazy_module_t *) rcache;
    lazy_invalidate(module->cache, (uintptr_t) address, size);
    if (OPAL_UNLIKELY(NULL != module->device)) {
        lazy_invalidate(module->device, (uintptr_t) address, size);
    }
    return OPAL_SUCCESS;
}

static bool evict(mca_rcache_base_module_t *rcache)
{
    mca_rcache_lazy_module_t *module = (mca_rcache_lazy_module_t *) rcache;
    return lazy_evict(module->cache) || (NULL != module->device && lazy_evict(module->device));
}

static void finalize(mca_rcache_base_module_t *rcache)
{
    mca_rcache_lazy_module_t *module = (mca_rcache_lazy_module_t *) rcache;
    mca_rcache_lazy_modules_remove(module);
    const size_t in_use = lazy_destroy(module->cache)
                          + (NULL == module->device ? 0 : lazy_destroy(module->device));
    pthread_mutex_destroy(&module->ids_lock);
    if (0 != in_use) {
        VERBOSE(1, "%s: %zu registrations were in use when the cache ended", module->name, in_use);
    }
    mca_rcache_base_module_fini(&module->super);
    free(module->name);
    free(module);
}

/* ---- a new one ---- */

/* Do the memory hooks tell of all memory that is given back? */
static bool has_hooks(const char *name)
{
    const int both = OPAL_MEMORY_FREE_SUPPORT | OPAL_MEMORY_MUNMAP_SUPPORT;
    const bool supported = both == (both & opal_mem_hooks_support_level());
    /* As it stands now: the framework has had its chance to install them. */
    if (supported && (1 == opal_leave_pinned || opal_leave_pinned_pipeline)) {
        return true;
    }
    if (0 == opal_leave_pinned && !opal_leave_pinned_pipeline) {
        VERBOSE(1, "%s: mpi_leave_pinned is 0, so no registration is kept", name);
    } else {
        spec_explain(HELP_FILE, "no hooks", "", mca_rcache_lazy_host(), (int) getpid(), name);
    }
    return false;
}

/* The name of a cache whose registrations do not lock memory begins with "unpinned.". */
static bool locks_memory(const char *name)
{
    static const char unpinned[] = "unpinned.";
    return 0 != strncmp(name, unpinned, sizeof(unpinned) - 1);
}

static lazy_limits_t limits(const char *name)
{
    struct rlimit lock;
    const bool limited = locks_memory(name) && 0 != geteuid() /* root's limit does not hold */
                         && 0 == getrlimit(RLIMIT_MEMLOCK, &lock) && RLIM_INFINITY != lock.rlim_cur;
    const uint64_t physical = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE);
    lazy_limits_t l = lazy_limits_default(limited ? lock.rlim_cur : UINT64_MAX, physical,
                                          spec_local_ranks());
    if (0 != mca_rcache_lazy_component.max_bytes) {
        l.bytes = mca_rcache_lazy_component.max_bytes;
    }
    if (0 != mca_rcache_lazy_component.max_entries) {
        l.entries = mca_rcache_lazy_component.max_entries;
    }
    return l;
}

static lazy_config_t config_of(mca_rcache_lazy_module_t *module, const char *name)
{
    const lazy_limits_t l = limits(name);
    return (lazy_config_t){
        .make = make,
        .end = end,
        .tell = tell,
        .context = module,
        .data_size = module->resources.sizeof_reg,
        .policy = lazy_policy_at((unsigned) mca_rcache_lazy_component.policy),
        .max_bytes = l.bytes,
        .max_entries = l.entries,
        .page = (size_t) sysconf(_SC_PAGESIZE),
        .merge = MERGE,
        .seed = 1,
    };
}

mca_rcache_base_module_t *mca_rcache_lazy_module_new(mca_rcache_base_resources_t *resources)
{
    mca_rcache_lazy_module_t *module = calloc(1, sizeof(*module));
    if (NULL == module) {
        return NULL;
    }
    module->name = strdup(NULL == resources->cache_name ? "?" : resources->cache_name);
    module->resources = *resources;
    module->resources.cache_name = module->name;
    const lazy_config_t config = config_of(module, NULL == module->name ? "" : module->name);
    module->cache = NULL == module->name ? NULL : lazy_create(&config);
    if (NULL == module->cache) {
        free(module->name);
        free(module);
        return NULL;
    }
    module->shares = has_hooks(module->name);
    pthread_mutex_init(&module->ids_lock, NULL);
    if (module->shares) {
        mca_rcache_lazy_ucx_listen();
        /* Without it device memory is registered for each use. */
        module->device = mca_rcache_lazy_has_devices() ? lazy_create(&config) : NULL;
    }
    mca_rcache_base_module_init(&module->super);
    module->super.rcache_component = &mca_rcache_lazy_component.public.super;
    module->super.rcache_register = lazy_register;
    module->super.rcache_deregister = lazy_deregister;
    module->super.rcache_find = find;
    module->super.rcache_invalidate_range = invalidate_range;
    module->super.rcache_finalize = finalize;
    module->super.rcache_evict = evict;
    mca_rcache_lazy_modules_add(module);
    VERBOSE(10, "%s: policy %s, at most %zu bytes in %zu registrations, %s", module->name,
            config.policy->name, config.max_bytes, config.max_entries,
            module->shares ? "kept" : "none kept");
    return &module->super;
}
