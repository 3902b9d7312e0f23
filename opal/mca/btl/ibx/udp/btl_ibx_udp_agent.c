/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Finds a processor to spare for the helper thread, from the processors that this process and the launcher may use and the number
 * of processes on the host.
 *
 * The kernel is asked, not hwloc: loading a topology takes tens of milliseconds and some MiB, of every process that
 * starts with this component there. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "udp/btl_ibx_udp_agent.h"

#include "udp/btl_ibx_udp_module.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Of a host with more processors nothing is known. */
#define PROCESSORS 8192

typedef struct processors {
    cpu_set_t set[PROCESSORS / CPU_SETSIZE];
} processors_t;

static bool has(const processors_t *p, int at)
{
    return CPU_ISSET_S((size_t) at, sizeof(*p), p->set);
}

/* Those that a process may use; how many, or 0: not known. */
static int allowed(pid_t pid, processors_t *p)
{
    return 0 == sched_getaffinity(pid, sizeof(*p), p->set) ? CPU_COUNT_S(sizeof(*p), p->set) : 0;
}

/* The processor for the agent's thread; -1: the system decides. */
static int place = -1;

/* Of the processors that several processes share, the agent of number `me` gets one from the upper half:
 * processes that are not bound are put on the lower ones first. */
static void choose_place(const processors_t *mine, unsigned me)
{
    int at = PROCESSORS - 1;
    for (unsigned passed = 0; at >= 0 && !(has(mine, at) && passed++ == me); --at) {}
    place = at >= 0 ? at : place;
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
    processors_t mine, others;
    const int n = MCA_BTL_IBX_ASYNC_OFF == wanted ? 0 : allowed(0, &mine);
    char why[160] = "btl_ibx_iwarp_async";
    if (0 == n) {
        if (MCA_BTL_IBX_ASYNC_AUTO == wanted) {
            wanted = MCA_BTL_IBX_ASYNC_BACKUP;
            snprintf(why, sizeof(why), "it is not known which processors this process may use");
        }
        tell(names[wanted], why);
        return wanted;
    }
    /* Not bound: all processes of the host share all processors, as the one that started them does. Bound: the set is this
     * process's. */
    const int all = allowed(getppid(), &others);
    const int sharers = n < all ? 1 : (int) mca_btl_ibx_local_ranks();
    const bool spare = n >= 2 * sharers;
    if (MCA_BTL_IBX_ASYNC_AUTO == wanted) {
        wanted = spare ? MCA_BTL_IBX_ASYNC_ON : MCA_BTL_IBX_ASYNC_BACKUP;
        snprintf(why, sizeof(why), "%d processors for %d processes: %s", n, sharers,
                 spare ? "one to spare for each" : "none to spare");
    }
    if (MCA_BTL_IBX_ASYNC_ON == wanted && spare) {
        choose_place(&mine, 1 == sharers ? 0 : mca_btl_ibx_local_rank());
    }
    tell(names[wanted], why);
    return wanted;
}

void mca_btl_ibx_udp_agent_bind(void *context)
{
    (void) context;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    if (place >= 0) {
        processors_t one;
        CPU_ZERO_S(sizeof(one), one.set);
        CPU_SET_S((size_t) place, sizeof(one), one.set);
        (void) sched_setaffinity(0, sizeof(one), one.set);
    }
}
