/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory that UCX sees go away: where UCX is in the process its hooks may hide from Open MPI that memory was given back,
 * so that this component listens to UCX as well.
 *
 * Its sbrk makes the system call by itself, and Open MPI never hears of a heap that shrinks. UCX tells its listeners, so
 * this becomes one and passes on to all caches of Open MPI what it hears. Nothing is installed for it: where UCX has no
 * hooks, or was told UCX_MEM_EVENTS=n, it never calls, and Open MPI's own hooks are heard.
 *
 * To the caches and to nobody else: among the listeners of Open MPI's hooks may be one that tells UCX (opal/common/ucx, as
 * soon as a component that uses UCX is open), which would tell us again, without end.
 *
 * The interface is that of libucm.so.0 (ucm/api/ucm.h), found at run time: UCX is not needed. */
#include "rcache_lazy.h"

#include <dlfcn.h>

enum {
    MEMORY_GOES = 1 << 17,    /* UCM_EVENT_VM_UNMAPPED: before it goes, in any way */
    INSTALL_NOTHING = 1 << 24 /* UCM_EVENT_FLAG_NO_INSTALL */
};

typedef struct interval {
    void *address;
    size_t size;
} interval_t; /* ucm_event_t.vm_unmapped */

typedef void listener_t(int what, void *event, void *context);
typedef int listen_t(int what, int priority, listener_t *listener, void *context);
typedef void listen_no_more_t(int what, listener_t *listener, void *context);

static void *library;

/* In the middle of free, munmap and the like, so by the rules of Open MPI's hooks: nothing is allocated. */
static void memory_goes(int what, void *event, void *context)
{
    const interval_t *interval = event;
    mca_rcache_base_selected_module_t *each;
    (void) what, (void) context;
    if (0 == interval->size) {
        return;
    }
    OPAL_LIST_FOREACH (each, &mca_rcache_base_modules, mca_rcache_base_selected_module_t) {
        mca_rcache_base_module_t *cache = each->rcache_module;
        if (NULL != cache->rcache_invalidate_range) {
            (void) cache->rcache_invalidate_range(cache, interval->address, interval->size);
        }
    }
}

void mca_rcache_lazy_ucx_listen(void)
{
    void *ucm = NULL == library ? dlopen("libucm.so.0", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (NULL == ucm) {
        return;
    }
    listen_t *listen = (listen_t *) (uintptr_t) dlsym(ucm, "ucm_set_event_handler");
    if (NULL != listen && NULL != dlsym(ucm, "ucm_unset_event_handler")
        && 0 == listen(MEMORY_GOES | INSTALL_NOTHING, -1, memory_goes, NULL)) {
        library = ucm;
        SPEC_TELL(10, opal_rcache_base_framework.framework_output,
                            "rcache/lazy: UCX tells of memory that goes away, too");
        return;
    }
    dlclose(ucm);
}

void mca_rcache_lazy_ucx_close(void)
{
    if (NULL != library) {
        listen_no_more_t *no_more =
            (listen_no_more_t *) (uintptr_t) dlsym(library, "ucm_unset_event_handler");
        no_more(MEMORY_GOES | INSTALL_NOTHING, memory_goes, NULL);
        dlclose(library);
        library = NULL;
    }
}
