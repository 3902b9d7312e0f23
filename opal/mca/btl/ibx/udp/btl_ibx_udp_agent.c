/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Finds a processor to spare for the helper thread, from what the system lets this process use and the number of processes on
 * the host; starts the thread. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "udp/btl_ibx_udp_agent.h"

#include "udp/btl_ibx_udp_module.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROCESSORS 8192 /* as many as Linux knows of; with fewer it gives none */

typedef struct processors {
    _Alignas(cpu_set_t) char set[CPU_ALLOC_SIZE(PROCESSORS)];
} processors_t;

/* Those that a process may use (0: this one). Returns how many, 0: not known. Not from hwloc: to discover the whole machine
 * for it made MPI_Init a third slower. */
static int allowed(pid_t process, processors_t *processors)
{
    cpu_set_t *set = (cpu_set_t *) (void *) processors->set;
    memset(processors, 0, sizeof(*processors));
    return 0 == sched_getaffinity(process, sizeof(processors->set), set) ? CPU_COUNT_S(sizeof(processors->set), set) : 0;
}

/* The processors for the threads, as one that begins or moves finds them; none: the system decides. */
static struct {
    pthread_mutex_t lock;
    processors_t set;
    size_t size;
} chosen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void choose(const void *set, size_t size)
{
    pthread_mutex_lock(&chosen.lock);
    chosen.size = size < sizeof(chosen.set.set) ? size : sizeof(chosen.set.set);
    if (chosen.size > 0) {
        memcpy(chosen.set.set, set, chosen.size);
    }
    pthread_mutex_unlock(&chosen.lock);
}

/* Of the processors that several processes share, the thread of number `me` gets one from the upper half:
 * processes that are not bound are put on the lower ones first. */
static void choose_processor(const processors_t *mine, uint32_t me)
{
    const cpu_set_t *set = (const cpu_set_t *) (const void *) mine->set;
    for (int i = PROCESSORS; i-- > 0;) {
        if (CPU_ISSET_S(i, sizeof(mine->set), set) && 0 == me--) {
            processors_t one;
            cpu_set_t *only = (cpu_set_t *) (void *) one.set;
            CPU_ZERO_S(sizeof(one.set), only);
            CPU_SET_S((size_t) i, sizeof(one.set), only);
            choose(only, sizeof(one.set));
            return;
        }
    }
}

static void tell(mca_btl_ibx_async_t what, const char *why)
{
    static const char *const names[] = {
        [MCA_BTL_IBX_ASYNC_OFF] = "off", [MCA_BTL_IBX_ASYNC_ON] = "on", [MCA_BTL_IBX_ASYNC_BACKUP] = "backup"};
    opal_output_verbose(10, opal_btl_base_framework.framework_output, "btl/ibx: btl_ibx_iwarp_async: %s (%s)", names[what],
                        why);
}

mca_btl_ibx_async_t mca_btl_ibx_udp_agent_choose(mca_btl_ibx_async_t wanted)
{
    processors_t mine, launcher;
    choose(NULL, 0); /* what an earlier session was given */
    const int n = MCA_BTL_IBX_ASYNC_OFF == wanted ? 0 : allowed(0, &mine);
    char why[80] = "as asked for";
    /* Bound: the launcher, its parent, may use more of them, and the set is this process's. Else all processes of the host
     * share it. */
    const int sharers = n > 0 && n < allowed(getppid(), &launcher) ? 1 : (int) spec_local_ranks();
    const bool spare = n >= 2 * sharers;
    if (MCA_BTL_IBX_ASYNC_AUTO == wanted) {
        wanted = spare ? MCA_BTL_IBX_ASYNC_ON : MCA_BTL_IBX_ASYNC_BACKUP;
        snprintf(why, sizeof(why),
                 n > 0 ? "processors: %d, processes: %d"
                       : "which processors it may use is not known",
                 n, sharers);
    }
    if (MCA_BTL_IBX_ASYNC_ON == wanted && spare) {
        choose_processor(&mine, 1 == sharers ? 0 : (uint32_t) opal_process_info.my_local_rank);
    }
    tell(wanted, why);
    return wanted;
}

void mca_btl_ibx_udp_agent_bind(void *context)
{
    (void) context;
    pthread_mutex_lock(&chosen.lock);
    if (chosen.size > 0) {
        (void) sched_setaffinity(0, chosen.size, (const cpu_set_t *) (const void *) chosen.set.set);
    }
    pthread_mutex_unlock(&chosen.lock);
}

bool mca_btl_ibx_udp_agent_has_processor(void)
{
    return chosen.size > 0;
}

void mca_btl_ibx_udp_agent_settle(mca_btl_ibx_udp_module_t *module, const void *processors, size_t size)
{
    choose(processors, size);
    iw_agent_offload(module->agent);
    tell(MCA_BTL_IBX_ASYNC_ON, "beside the PML's progress agent");
}

/* Open MPI lets in one thread at a time that asks for processes. */
static bool ends_in_time;

static void end_now(void *unused)
{
    (void) unused;
    for (uint32_t i = 0; i < mca_btl_ibx_udp_modules_n; ++i) {
        iw_agent_stop(mca_btl_ibx_udp_modules[i]->agent);
        mca_btl_ibx_udp_modules[i]->base.is_ending = true;
    }
    ends_in_time = false;
}

void mca_btl_ibx_udp_agent_end_in_time(void)
{
    if (!ends_in_time) {
        ends_in_time = true;
        MCA_BTL_IBX_BEFORE_PMIX_ENDS(end_now);
    }
}

void mca_btl_ibx_udp_agent_start(mca_btl_ibx_udp_module_t *module)
{
    if (module->has_no_thread || iw_agent_start(module->agent) || module->is_alone) {
        return;
    }
    module->is_alone = true;
    mca_btl_ibx_explain("no thread", "", strerror(errno));
}
