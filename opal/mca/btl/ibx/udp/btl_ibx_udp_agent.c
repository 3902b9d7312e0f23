/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Finds a processor to spare for the helper thread, from hwloc's topology and the number of processes on the host. */
#include "udp/btl_ibx_udp_agent.h"

#include "udp/btl_ibx_udp_module.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

/* The processors that this process may use; the caller frees. NULL: not known. */
static hwloc_bitmap_t allowed(void)
{
    if (OPAL_SUCCESS != opal_hwloc_base_get_topology() || NULL == opal_hwloc_topology) {
        return NULL;
    }
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    if (NULL != mine && 0 != hwloc_get_cpubind(opal_hwloc_topology, mine, HWLOC_CPUBIND_PROCESS)) {
        hwloc_bitmap_free(mine);
        mine = NULL;
    }
    return mine;
}

/* The processor for the agent's thread; NULL: the system decides. */
static hwloc_bitmap_t place;

/* Of the processors that several processes share, the agent of number `me` gets one from the upper half:
 * processes that are not bound are put on the lower ones first. */
static void choose_place(hwloc_const_bitmap_t mine, unsigned me)
{
    int at = hwloc_bitmap_last(mine);
    for (unsigned i = 0; i < me && at >= 0; ++i) {
        do {
            --at;
        } while (at >= 0 && !hwloc_bitmap_isset(mine, (unsigned) at));
    }
    if (NULL == place && at >= 0) {
        place = hwloc_bitmap_alloc();
    }
    if (NULL != place && at >= 0) {
        hwloc_bitmap_only(place, (unsigned) at);
    }
}

static void tell(const char *what, const char *why)
{
    opal_output_verbose(10, opal_btl_base_framework.framework_output,
                        "btl/ibx: the agent's thread: %s (%s)", what, why);
}

mca_btl_ibx_async_t mca_btl_ibx_udp_agent_choose(mca_btl_ibx_async_t wanted)
{
    static const char *const names[] = {[MCA_BTL_IBX_ASYNC_OFF] = "none",
                                        [MCA_BTL_IBX_ASYNC_ON] = "takes every datagram",
                                        [MCA_BTL_IBX_ASYNC_BACKUP] =
                                            "only for a silent application"};
    hwloc_bitmap_t mine = MCA_BTL_IBX_ASYNC_OFF == wanted ? NULL : allowed();
    char why[160] = "btl_ibx_iwarp_async";
    if (NULL == mine) {
        if (MCA_BTL_IBX_ASYNC_AUTO == wanted) {
            wanted = MCA_BTL_IBX_ASYNC_BACKUP;
            snprintf(why, sizeof(why), "it is not known which processors this process may use");
        }
        tell(names[wanted], why);
        return wanted;
    }
    const int n = hwloc_bitmap_weight(mine);
    const int all = hwloc_get_nbobjs_by_type(opal_hwloc_topology, HWLOC_OBJ_PU);
    /* Not bound: all processes of the host share all processors. Bound: the set is this process's. */
    const int sharers = n < all ? 1 : (int) mca_btl_ibx_local_ranks();
    const bool spare = n >= 2 * sharers;
    if (MCA_BTL_IBX_ASYNC_AUTO == wanted) {
        wanted = spare ? MCA_BTL_IBX_ASYNC_ON : MCA_BTL_IBX_ASYNC_BACKUP;
        snprintf(why, sizeof(why), "%d processors for %d processes: %s", n, sharers,
                 spare ? "one to spare for each" : "none to spare");
    }
    if (MCA_BTL_IBX_ASYNC_ON == wanted && spare) {
        choose_place(mine, 1 == sharers ? 0 : mca_btl_ibx_local_rank());
    }
    hwloc_bitmap_free(mine);
    tell(names[wanted], why);
    return wanted;
}

void mca_btl_ibx_udp_agent_bind(void *context)
{
    (void) context;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    if (NULL != place) {
        (void) hwloc_set_cpubind(opal_hwloc_topology, place, HWLOC_CPUBIND_THREAD);
    }
}
