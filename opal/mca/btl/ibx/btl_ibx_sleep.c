/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_sleep.h. */
#define _GNU_SOURCE /* ppoll */
#include "btl_ibx_sleep.h"

#include "btl_ibx.h"
#include "verbs/btl_ibx_verbs.h"

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define RUNS 4 /* of which the fastest counts */

ibx_rest_t mca_btl_ibx_rest_state;
static atomic_flag asleep = ATOMIC_FLAG_INIT;

void mca_btl_ibx_rest_open(int microseconds)
{
    ibx_rest_t *rest = &mca_btl_ibx_rest_state;
    rest->after = microseconds >= 0                 ? (uint64_t) microseconds * UINT64_C(1000)
                  : mca_btl_ibx_verbs_is_software() ? IBX_REST_AFTER
                                                    : 0;
    rest->pace = 0;
    ibx_rest_over(rest);
}

/* What comes through another BTL, as shared memory, would not wake us. */
static bool are_others(void)
{
    const mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        const char *name = selected->btl_component->btl_version.mca_component_name;
        if (0 != strcmp(name, "ibx") && 0 != strcmp(name, "self")) {
            return true;
        }
    }
    return false;
}

static int sockets(struct pollfd *fd)
{
    int n = 0;
    for (uint32_t i = 0; i < mca_btl_ibx_component.modules_n; ++i) {
        fd[n++] = (struct pollfd){.fd = iw_port_socket(mca_btl_ibx_component.modules[i]->port),
                                  .events = POLLIN};
    }
    return n;
}

/* Polls as one who waits does, with what Open MPI may do in between (mpi_yield_when_idle). Returns what came. */
static int measure_pace(ibx_rest_t *rest, int (*poll_all)(void))
{
    uint64_t best = UINT64_MAX;
    for (unsigned run = 0; run < RUNS; ++run) {
        const uint64_t begin = iw_port_now();
        for (unsigned i = 0; i < IBX_REST_LOOK; ++i) {
            const int events = poll_all();
            if (events > 0) {
                return events;
            }
            (void) sched_yield();
        }
        const uint64_t time = iw_port_now() - begin;
        best = time < best ? time : best;
    }
    rest->pace = best;
    return 0;
}

/* The processor is others' until something comes, or for `time`. Returns what had come before. */
static int sleep_until_told(ibx_rest_t *rest, uint64_t time, int (*poll_all)(void))
{
    struct pollfd fd[2 * MCA_BTL_IBX_INTERFACES];
    const int n = sockets(fd), adapters = mca_btl_ibx_verbs_arm(&fd[n], MCA_BTL_IBX_INTERFACES);
    if (adapters < 0) {
        return 0;
    }
    const int events = poll_all(); /* what came before the adapters knew that they shall tell */
    if (0 == events) {
        (void) ppoll(fd, (nfds_t) (n + adapters), &(struct timespec){.tv_nsec = (long) time}, NULL);
        ibx_rest_woke(rest, iw_port_now());
    }
    return events;
}

int mca_btl_ibx_rest_now(int (*poll_all)(void))
{
    ibx_rest_t *rest = &mca_btl_ibx_rest_state;
    const uint64_t time = ibx_rest_time(rest, iw_port_now());
    if (0 == time) {
        return 0;
    }
    if (are_others()) {
        ibx_rest_over(rest);
        return 0;
    }
    if (atomic_flag_test_and_set(&asleep)) {
        return 0; /* another thread sleeps; this one polls for both */
    }
    const int events =
        0 == rest->pace ? measure_pace(rest, poll_all) : sleep_until_told(rest, time, poll_all);
    if (events > 0) {
        ibx_rest_over(rest);
    }
    atomic_flag_clear(&asleep);
    return events;
}
