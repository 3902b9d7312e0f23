/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Threads that share a processor hand it over to each other (MPI_THREAD_MULTIPLE):
 *
 *   - a thread that sleeps in its wait and is woken because its request is complete need not wait for the one that woke
 *     it: what Open MPI's wait spins for has been said when pml/spec signals (pml_spec_complete.h). To one that polls it is
 *     said last, for that may leave its stack frame then;
 *   - a thread that waits for a message yields (pml_spec_yield.h), with --yields 0 it does not.
 *
 * Both are seen by functions of libc that this program puts before the real ones. */
#define _GNU_SOURCE /* RTLD_NEXT, dladdr */
#include "ompi_config.h"

#include "testlib.h"

#include "ompi/request/request.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, WINDOW = 16, ROUNDS = 1000, TAG_LATE = 100 };

static int woken, too_late, too_early, yields;
static bool over;

static bool is_component(const void *caller)
{
    Dl_info info;
    return 0 != dladdr(caller, &info) && NULL != strstr(info.dli_fname, "/mca_pml_spec");
}

/* A thread may signal its own wait, which lies in its stack: nobody sleeps there. */
static bool is_own(const void *object)
{
    const uintptr_t here = (uintptr_t) __builtin_frame_address(0);
    return (uintptr_t) object > here && (uintptr_t) object - here < 65536;
}

/* What the threads wait for, asleep or awake again and in need of the lock. */
static const pthread_cond_t *awaited[64];

static bool is_awaited(const pthread_cond_t *condition)
{
    for (size_t i = 0; i < TL_N(awaited); ++i) {
        if (condition == __atomic_load_n(&awaited[i], __ATOMIC_ACQUIRE)) {
            return true;
        }
    }
    return false;
}

__attribute__((visibility("default"))) int pthread_cond_wait(pthread_cond_t *condition,
                                                             pthread_mutex_t *lock)
{
    int (*real)(pthread_cond_t *, pthread_mutex_t *) =
        (int (*)(pthread_cond_t *, pthread_mutex_t *))(uintptr_t) dlsym(RTLD_NEXT,
                                                                        "pthread_cond_wait");
    const pthread_cond_t *none = NULL;
    size_t i = 0;
    while (!__atomic_compare_exchange_n(&awaited[i], &none, condition, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
        none = NULL;
        i = (i + 1) % TL_N(awaited);
    }
    const int rc = real(condition, lock);
    __atomic_store_n(&awaited[i], NULL, __ATOMIC_RELEASE);
    return rc;
}

__attribute__((visibility("default"))) int pthread_cond_signal(pthread_cond_t *condition)
{
    int (*real)(pthread_cond_t *) =
        (int (*)(pthread_cond_t *))(uintptr_t) dlsym(RTLD_NEXT, "pthread_cond_signal");
    if (is_component(__builtin_return_address(0)) && !is_own(condition)) {
        const ompi_wait_sync_t *wait =
            (const void *) ((const char *) condition - offsetof(ompi_wait_sync_t, condition));
        const bool sleeps = condition->__data.__wrefs >> 3 > 0;
        __atomic_add_fetch(&woken, sleeps, __ATOMIC_RELAXED);
        __atomic_add_fetch(&too_late, sleeps && wait->signaling, __ATOMIC_RELAXED);
        __atomic_add_fetch(&too_early, !is_awaited(condition) && !wait->signaling,
                           __ATOMIC_RELAXED);
    }
    return real(condition);
}

__attribute__((visibility("default"))) int sched_yield(void)
{
    int (*real)(void) = (int (*)(void))(uintptr_t) dlsym(RTLD_NEXT, "sched_yield");
    if (is_component(__builtin_return_address(0))) {
        __atomic_add_fetch(&yields, 1, __ATOMIC_RELAXED);
    }
    return real();
}

static void *exchange(void *argument)
{
    const int tag = (int) (intptr_t) argument, peer = 1 - tl.rank;
    int32_t data[WINDOW];
    MPI_Request request[WINDOW];
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < WINDOW; ++i) {
            if (0 == tl.rank) {
                data[i] = round * WINDOW + i;
                MPI_Isend(&data[i], 1, MPI_INT32_T, peer, tag, MPI_COMM_WORLD, &request[i]);
            } else {
                MPI_Irecv(&data[i], 1, MPI_INT32_T, peer, tag, MPI_COMM_WORLD, &request[i]);
            }
        }
        MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
        if (0 == tl.rank) {
            MPI_Recv(NULL, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            continue;
        }
        for (int i = 0; i < WINDOW; ++i) {
            CHECK(round * WINDOW + i == data[i], "thread %d round %d: message %d is %d", tag, round,
                  i, data[i]);
        }
        MPI_Send(NULL, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
    }
    return NULL;
}

/* The scheduler may run the threads one after the other, and then none of them sleeps: again, until one was woken in each
 * process. */
static void wait_for_each_other(void)
{
    pthread_t thread[THREADS];
    int least = 0;
    for (int time = 0; 0 == least && time < 100; ++time) {
        tl_step("threads that wait for each other");
        for (intptr_t i = 0; i < THREADS; ++i) {
            pthread_create(&thread[i], NULL, exchange, (void *) i);
        }
        for (int i = 0; i < THREADS; ++i) {
            pthread_join(thread[i], NULL);
        }
        MPI_Allreduce(&woken, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
}

static void *probe(void *argument)
{
    int flag;
    (void) argument;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        MPI_Iprobe(1 - tl.rank, TAG_LATE, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    return NULL;
}

/* A thread that waits and one that only probes: both poll, and the second completes what the first waits for. */
static void wait_beside_probe(void)
{
    pthread_t thread;
    const int peer = 1 - tl.rank;
    tl_step("a thread that probes beside one that waits");
    pthread_create(&thread, NULL, probe, NULL);
    for (int i = 0; i < 4 * ROUNDS; ++i) {
        MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, 0, NULL, 0, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

/* One thread waits for a message that comes late: nothing else can make the component yield. */
static void wait_for_late(bool may_yield)
{
    const int before = yields;
    tl_step("a message that comes late");
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == tl.rank) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_LATE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(may_yield == (yields > before), "%d yields", yields - before);
    } else {
        usleep(300000);
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_LATE, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    if (MPI_THREAD_MULTIPLE
        != tl_start_thread(&argc, &argv, "handover", 120, MPI_THREAD_MULTIPLE)) {
        tl_skip("this Open MPI does not provide MPI_THREAD_MULTIPLE");
        return tl_finish();
    }
    const bool may_yield = 0 != tl_option("--yields", 1);
    if (tl_under_ob1()) {
        tl_skip("another PML wakes threads as it likes");
        return tl_finish();
    }
    wait_for_late(may_yield);
    wait_for_each_other();
    wait_beside_probe();
    CHECK(woken > 0, "no thread was woken");
    CHECK(0 == too_late, "%d of %d threads were woken before they could go", too_late, woken);
    CHECK(0 == too_early, "%d threads that poll could go too early", too_early);
    return tl_finish();
}
