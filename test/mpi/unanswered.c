/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Atomic operations of btl/ibx whose target is out of memory for the answers: each is reported once, all the same. The MPI
 * calls between go another way (--mca btl self,vader,ibx).
 *
 *   --fail N     so many times the target has no memory for what it sends (40)
 *   --asks N     operations under way at a time (600) */
#define _GNU_SOURCE /* dladdr */
#include "ompi_config.h"

#include "find_btl.h"
#include "testlib.h"

#include "opal/class/opal_bitmap.h"
#include "ompi/communicator/communicator.h"
#include "ompi/proc/proc.h"

#include <dlfcn.h>
#include <errno.h>

enum { MOST = 20000, LARGE = 512 };

_Alignas(4096) static uint64_t words[2][512]; /* operated on; results */

/* From the first operation on memory by the piece of LARGE bytes or more for libopen-pal, whose lists the descriptors are
 * from, is out so many times more: of this thread while it is in the transport's progress. */
static __thread int out;
static int failed;

static bool fails(size_t size, const void *caller)
{
    Dl_info of;
    if (out <= 0 || size < LARGE || 0 == words[0][0] || 0 == dladdr(caller, &of)
        || NULL == strstr(of.dli_fname, "libopen-pal")) {
        return false;
    }
    --out;
    ++failed;
    errno = ENOMEM;
    return true;
}

/* Called by the libraries, too. */
#define OF_ALL __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

OF_ALL void *malloc(size_t size)
{
    return fails(size, __builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

OF_ALL void *calloc(size_t n, size_t size)
{
    return fails(n * size, __builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

OF_ALL int posix_memalign(void **at, size_t alignment, size_t size)
{
    *at = fails(size, __builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
    return NULL == *at ? ENOMEM : 0;
}

static mca_btl_base_module_t *btl;
static int reported[MOST], good, bad, lost;

static void done(mca_btl_base_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                 void *local, mca_btl_base_registration_handle_t *handle, void *context,
                 void *cbdata, int status)
{
    (void) module, (void) endpoint, (void) local, (void) handle, (void) cbdata;
    ++*(int *) context;
    good += OPAL_SUCCESS == status;
    bad += OPAL_SUCCESS != status;
}

/* In place of the PML's, which ends the job. */
static void on_lost(mca_btl_base_module_t *module, int32_t flags, opal_proc_t *proc, char *info)
{
    (void) module, (void) flags, (void) proc, (void) info;
    ++lost;
}

/* During which the transport under test goes on, which MPI itself does not use here. */
static void barrier(void)
{
    MPI_Request req;
    int all = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &req);
    while (!all) {
        (void) btl->btl_component->btl_progress();
        MPI_Test(&req, &all, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "unanswered", 60);
    const int asks = (int) tl_option("--asks", 600), fail = (int) tl_option("--fail", 40);
    char theirs[256] = {0};
    uint64_t there = (uint64_t) (uintptr_t) words[0];
    btl = find_btl("ibx");
    CHECK(NULL != btl && asks <= MOST, "btl/ibx is not there");
    btl->btl_register_error(btl, on_lost);
    mca_btl_base_registration_handle_t *mine =
        btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, words, sizeof(words),
                              MCA_BTL_REG_FLAG_ACCESS_ANY | MCA_BTL_REG_FLAG_REMOTE_ATOMIC);
    CHECK(NULL != mine, "not registered");
    MPI_Sendrecv(mine, (int) btl->btl_registration_handle_size, MPI_BYTE, 1 - tl.rank, 0, theirs,
                 sizeof(theirs), MPI_BYTE, 1 - tl.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(&there, 1, MPI_UINT64_T, 1 - tl.rank, 0, 1 - tl.rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    opal_proc_t *proc = &ompi_comm_peer_lookup(MPI_COMM_WORLD, 1 - tl.rank)->super;
    struct mca_btl_base_endpoint_t *endpoint = NULL;
    opal_bitmap_t reachable;
    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    opal_bitmap_init(&reachable, 1);
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &proc, &endpoint, &reachable)
              && NULL != endpoint,
          "no endpoint");

    int accepted = 0, asked = 0;
    const double end = MPI_Wtime() + 20;
    if (1 == tl.rank) {
        /* MPI's own progress would find memory. */
        while (failed < fail && 0 == lost && MPI_Wtime() < end) {
            out = fail - failed;
            (void) btl->btl_component->btl_progress();
            out = 0;
        }
        CHECK(failed > 0, "memory was never out");
        CHECK(fail <= asks ? failed == fail && 0 == lost : lost > 0,
              "%d times out of memory, %d times given up", failed, lost);
        barrier();
        CHECK(fail > asks || words[0][0] == (uint64_t) asks, "%llu operations done",
              (unsigned long long) words[0][0]);
        return tl_finish();
    }
    while ((asked < asks || good + bad < accepted) && MPI_Wtime() < end) {
        if (asked < asks) {
            const int rc = btl->btl_atomic_fop(
                btl, endpoint, words[1], there, mine, (mca_btl_base_registration_handle_t *) theirs,
                MCA_BTL_ATOMIC_ADD, 1, 0, MCA_BTL_NO_ORDER, done, &reported[asked], NULL);
            accepted += OPAL_SUCCESS == rc;
            asked += OPAL_SUCCESS == rc || OPAL_ERR_UNREACH == rc;
        }
        (void) btl->btl_component->btl_progress();
    }
    CHECK(asked == asks, "%d of %d asked", asked, asks);
    CHECK(good + bad == accepted, "%d accepted, %d done, %d failed: the others wait for ever",
          accepted, good, bad);
    for (int i = 0; i < asks; ++i) {
        CHECK(reported[i] <= 1, "operation %d was reported %d times", i, reported[i]);
    }
    CHECK(fail > asks ? bad > 0 : 0 == bad && good == asks, "%d done, %d failed", good, bad);
    barrier();
    return tl_finish();
}
