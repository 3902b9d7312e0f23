/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_async.h. */
#include "btl_ibx_async.h"

#include "btl_ibx.h"

#include <pthread.h>
#include <signal.h>

/* The processors that this process may use; the caller frees. NULL: not known. */
static hwloc_bitmap_t allowed(void)
{
    if (OPAL_SUCCESS != opal_hwloc_base_get_topology() || NULL == opal_hwloc_topology) {
        return NULL;
    }
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    if (NULL != mine
        && 0 != hwloc_get_cpubind(opal_hwloc_topology, mine, HWLOC_CPUBIND_PROCESS)) {
        hwloc_bitmap_free(mine);
        mine = NULL;
    }
    return mine;
}

mca_btl_ibx_async_t mca_btl_ibx_async_choose(mca_btl_ibx_async_t wanted)
{
    if (MCA_BTL_IBX_ASYNC_AUTO != wanted) {
        return wanted;
    }
    hwloc_bitmap_t mine = allowed();
    if (NULL == mine) {
        return MCA_BTL_IBX_ASYNC_BACKUP;
    }
    const int n = hwloc_bitmap_weight(mine);
    const int all = hwloc_get_nbobjs_by_type(opal_hwloc_topology, HWLOC_OBJ_PU);
    hwloc_bitmap_free(mine);
    /* Not bound: all processes of the host share all processors. Bound: the set is this process's. */
    const int sharers = n < all ? 1 : (int) mca_btl_ibx_local_ranks();
    return n >= 2 * sharers ? MCA_BTL_IBX_ASYNC_ON : MCA_BTL_IBX_ASYNC_BACKUP;
}

void mca_btl_ibx_async_place(void *context)
{
    (void) context;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}
