/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* btl/ibx asks what a process published in one thread at a time, and each process once: of two threads that ask PMIx for the
 * same process at once one may never be answered (btl_ibx_endpoint.c). Threads want the same process together, as the program
 * and the helper thread do when it speaks first. That is seen by PMIx_Get, which this program puts before the real one. MPI
 * itself goes another way (--mca btl self,vader,ibx). */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "ompi_config.h"

#include "find_btl.h"
#include "testlib.h"

#include "ompi/communicator/communicator.h"
#include "ompi/proc/proc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 5, LONG_US = 20000 };

static mca_btl_base_module_t *btl;
static opal_proc_t *proc;
static pthread_barrier_t start;
static atomic_int asks, inside, together;

typedef int get_t(const void *process, const char *key, const void *info, size_t n, void **value);

/* Under a name of its own, as headers may declare it with PMIx's types. */
__attribute__((visibility("default"))) get_t pmix_get __asm__("PMIx_Get");
int pmix_get(const void *process, const char *key, const void *info, size_t n, void **value)
{
    get_t *real = (get_t *) (uintptr_t) dlsym(dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD), "PMIx_Get");
    const bool is_ours = NULL != key && 0 == strncmp("btl.ibx", key, 7);
    if (is_ours) {
        atomic_fetch_add(&asks, 1);
        atomic_fetch_add(&together, atomic_fetch_add(&inside, 1));
        usleep(LONG_US); /* the others are there, too */
    }
    const int rc = real(process, key, info, n, value);
    atomic_fetch_sub(&inside, is_ours);
    return rc;
}

static void *want(void *found)
{
    (void) pthread_barrier_wait(&start);
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &proc, found, NULL), "no endpoint");
    return NULL;
}

static void round_of(void)
{
    struct mca_btl_base_endpoint_t *found[THREADS] = {NULL};
    pthread_t thread[THREADS];
    (void) btl->btl_del_procs(btl, 1, &proc, found);
    const int before = atomic_load(&asks);
    for (int i = 0; i < THREADS; ++i) {
        pthread_create(&thread[i], NULL, want, &found[i]);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(thread[i], NULL);
        CHECK(NULL != found[i] && found[0] == found[i], "thread %d has another endpoint", i);
    }
    CHECK(before + 1 == atomic_load(&asks), "%d threads asked", atomic_load(&asks) - before);
}

int main(int argc, char **argv)
{
    tl_start_thread(&argc, &argv, "btl_asks", 60, MPI_THREAD_MULTIPLE);
    btl = find_btl("ibx");
    if (0 == atomic_load(&asks)) {
        if (0 == tl.rank) {
            printf("SKIP: this Open MPI has a PMIx of its own\n");
        }
    } else if (CHECK(NULL != btl, "btl/ibx is not there")) {
        ompi_proc_t *ompi = ompi_comm_peer_lookup(MPI_COMM_WORLD, 1 - tl.rank);
        proc = &ompi->super;
        pthread_barrier_init(&start, NULL, THREADS);
        for (int i = 0; i < ROUNDS; ++i) {
            tl_step("round %d", i);
            round_of();
        }
        CHECK(0 == atomic_load(&together), "threads asked at once");
    }
    return tl_finish();
}
