/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_thread.h. */
#include "btl_ibx_thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Longest sleep: only a safeguard, since sockets and timers wake the thread. */
#define NAP_MS 1000

/* Progress that was called so recently will be called again: the thread does not even listen. */
#define BUSY_NS UINT64_C(50000)

struct mca_btl_ibx_thread {
    pthread_t id;
    int wake;
    volatile bool stop;
};

bool mca_btl_ibx_thread_pays(void)
{
    if (OPAL_SUCCESS != opal_hwloc_base_get_topology() || NULL == opal_hwloc_topology) {
        return false;
    }
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    if (NULL == mine) {
        return false;
    }
    int n = 0;
    if (0 == hwloc_get_cpubind(opal_hwloc_topology, mine, HWLOC_CPUBIND_PROCESS)) {
        n = hwloc_bitmap_weight(mine);
    }
    hwloc_bitmap_free(mine);
    const int all = hwloc_get_nbobjs_by_type(opal_hwloc_topology, HWLOC_OBJ_PU);
    const uint32_t ranks = mca_btl_ibx_local_ranks();
    /* Bound: the set is mine, or shared with as many as it has room for. Not bound: all share all. */
    return n > 1 && all > 0 && (n < all ? n >= 2 : (uint32_t) all >= 2 * ranks);
}

/* Sleep until one of the sockets or timers has something. */
static void nap(const struct mca_btl_ibx_thread *thread)
{
    struct pollfd fd[1 + MCA_BTL_IBX_INTERFACES] = {{.fd = thread->wake, .events = POLLIN}};
    const uint32_t n = mca_btl_ibx_component.modules_n;
    uint64_t deadline = UINT64_MAX;
    for (uint32_t i = 0; i < n; ++i) {
        mca_btl_ibx_module_t *module = mca_btl_ibx_component.modules[i];
        opal_mutex_lock(&module->lock);
        const uint64_t due = iw_port_deadline(module->port, module->engine);
        opal_mutex_unlock(&module->lock);
        deadline = due < deadline ? due : deadline;
        fd[1 + i] = (struct pollfd){.fd = iw_port_socket(module->port), .events = POLLIN};
    }
    const uint64_t now = iw_port_now();
    const uint64_t since = now - __atomic_load_n(&mca_btl_ibx_component.progressed, __ATOMIC_RELAXED);
    if (since < BUSY_NS) {
        const struct timespec t = {.tv_nsec = (long) (BUSY_NS - since)};
        (void) ppoll(fd, 1, &t, NULL);
        return;
    }
    const uint64_t left = deadline <= now ? 0 : deadline - now;
    struct timespec t = {.tv_sec = NAP_MS / 1000, .tv_nsec = (NAP_MS % 1000) * 1000000L};
    if (left < NAP_MS * UINT64_C(1000000)) {
        t = (struct timespec){.tv_sec = (time_t) (left / 1000000000), .tv_nsec = (long) (left % 1000000000)};
    }
    (void) ppoll(fd, 1 + n, &t, NULL);
}

static void *run(void *argument)
{
    struct mca_btl_ibx_thread *thread = argument;
    while (!thread->stop) {
        nap(thread);
        for (uint32_t i = 0; i < mca_btl_ibx_component.modules_n && !thread->stop; ++i) {
            mca_btl_ibx_module_t *module = mca_btl_ibx_component.modules[i];
            opal_mutex_lock(&module->lock);
            (void) iw_port_progress(module->port, module->engine);
            opal_mutex_unlock(&module->lock);
        }
    }
    return NULL;
}

int mca_btl_ibx_thread_start(void)
{
    struct mca_btl_ibx_thread *thread = calloc(1, sizeof(*thread));
    sigset_t all, before;
    if (NULL == thread) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    thread->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->wake < 0) {
        free(thread);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    sigfillset(&all); /* signals are the application's */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int rc = pthread_create(&thread->id, NULL, run, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (0 != rc) {
        close(thread->wake);
        free(thread);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    mca_btl_ibx_component.thread = thread;
    return OPAL_SUCCESS;
}

void mca_btl_ibx_thread_stop(void)
{
    struct mca_btl_ibx_thread *thread = mca_btl_ibx_component.thread;
    if (NULL != thread) {
        const uint64_t one = 1;
        thread->stop = true;
        (void) !write(thread->wake, &one, sizeof(one));
        pthread_join(thread->id, NULL);
        close(thread->wake);
        free(thread);
        mca_btl_ibx_component.thread = NULL;
    }
}
