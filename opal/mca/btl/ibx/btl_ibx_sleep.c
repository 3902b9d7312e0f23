/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Puts a process that has polled in vain for long to sleep, on the descriptors of all modules. */
#define _GNU_SOURCE /* ppoll */
#include "btl_ibx_sleep.h"

#include "btl_ibx_module.h"

#include "iwarp/iw_port.h"
#include "udp/btl_ibx_udp.h"
#include "verbs/btl_ibx_verbs.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#define RUNS 4 /* of which the fastest counts */

ibx_sleep_t mca_btl_ibx_sleep_state;
static atomic_flag asleep = ATOMIC_FLAG_INIT;

void mca_btl_ibx_sleep_open(int microseconds)
{
    ibx_sleep_t *sleep_state = &mca_btl_ibx_sleep_state;
    sleep_state->after = microseconds >= 0                 ? (uint64_t) microseconds * UINT64_C(1000)
                  : mca_btl_ibx_verbs_is_software() ? IBX_SLEEP_AFTER
                                                    : 0;
    sleep_state->pace = 0;
    ibx_sleep_over(sleep_state);
}

/* Polls as a process that waits does, with what Open MPI may do in between (mpi_yield_when_idle). Returns what came. */
static int measure_pace(ibx_sleep_t *sleep_state, int (*poll_all)(void))
{
    uint64_t best = UINT64_MAX;
    for (unsigned run = 0; run < RUNS; ++run) {
        const uint64_t begin = iw_port_now();
        for (unsigned i = 0; i < IBX_SLEEP_CHECK; ++i) {
            const int events = poll_all();
            if (events > 0) {
                return events;
            }
            (void) sched_yield();
        }
        const uint64_t time = iw_port_now() - begin;
        best = time < best ? time : best;
    }
    sleep_state->pace = best;
    return 0;
}

/* The processor is others' until something comes, or for `time`. Returns what had come before. */
static int sleep_until_told(ibx_sleep_t *sleep_state, uint64_t time, int (*poll_all)(void))
{
    struct pollfd fd[2 * MCA_BTL_IBX_INTERFACES];
    const int n = mca_btl_ibx_udp_sockets(fd), adapters = mca_btl_ibx_verbs_arm(&fd[n]);
    if (adapters < 0) {
        return 0;
    }
    const int events = poll_all(); /* what came before the adapters knew that they shall tell */
    if (0 == events) {
        (void) ppoll(fd, (nfds_t) n + (nfds_t) adapters, &(struct timespec){.tv_nsec = (long) time}, NULL);
        ibx_sleep_woke(sleep_state, iw_port_now());
    }
    return events;
}

int mca_btl_ibx_sleep_now(int (*poll_all)(void))
{
    ibx_sleep_t *sleep_state = &mca_btl_ibx_sleep_state;
    const uint64_t time = ibx_sleep_time(sleep_state, iw_port_now());
    if (0 == time) {
        return 0;
    }
    if (mca_btl_ibx_has_others("ibx,self", 0)) { /* what comes through shared memory would not wake us */
        ibx_sleep_over(sleep_state);
        return 0;
    }
    if (atomic_flag_test_and_set(&asleep)) {
        return 0; /* another thread sleeps; this one polls for both */
    }
    const int events =
        0 == sleep_state->pace ? measure_pace(sleep_state, poll_all) : sleep_until_told(sleep_state, time, poll_all);
    if (events > 0) {
        ibx_sleep_over(sleep_state);
    }
    atomic_flag_clear(&asleep);
    return events;
}
