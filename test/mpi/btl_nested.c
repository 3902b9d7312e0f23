/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The BTL interface of btl/ibx by itself: a callback may wait for what came together with that for which it was called, by
 * calling progress, or by waiting for another thread that does. Messages that arrive, messages that have been acknowledged,
 * messages that waited for others, and puts; MPI itself goes another way.
 *
 *   --threads 1   the last one, too: what waits is taken by a thread, and told by another */
#include "ompi_config.h"

#include "find_btl.h"
#include "testlib.h"

#include "opal/class/opal_bitmap.h"
#include "opal/include/spec/promises.h"
#include "opal/util/proc.h"
#include "ompi/communicator/communicator.h"
#include "ompi/mca/pml/spec/objects/pml_spec_compat.h"
#include "ompi/proc/proc.h"

#include <pthread.h>
#include <stdatomic.h>

/* EVENTS: more than progress takes at a time, as deep as callbacks get here. PATIENCE: seconds. */
enum { EVENTS = 80, BYTES = 16, PATIENCE = 20, TAG = MCA_BTL_TAG_USR };

/* The first callback waits for all others; each for the next; the first for the others, which another thread is to tell. */
typedef enum { FIRST, EACH, OTHER, HOWS } how_t;
static const char *const hows[HOWS] = {"the first waits for all", "each waits for the next", "another thread tells the rest"};

typedef enum { ARRIVED, SENT, GATHERED, PUT, WHATS } what_t;
static const char *const whats[WHATS] = {"messages that arrive", "messages acknowledged", "messages that waited", "puts"};

static mca_btl_base_module_t *btl;
static struct mca_btl_base_endpoint_t *endpoint;
static char *memory;
static mca_btl_base_registration_handle_t *mine, *theirs;
static uint64_t there;
static how_t how;
static atomic_int begun, told; /* callbacks of this round */

static void poll_once(void)
{
    (void) btl->btl_component->btl_progress();
}

/* Until so many callbacks have begun. */
static bool wait_for(int wanted, bool polls)
{
    const double end = MPI_Wtime() + PATIENCE;
    while (atomic_load(&begun) < wanted && 0 == tl.errors && MPI_Wtime() < end) {
        if (polls) {
            poll_once();
        } else {
            usleep(100);
        }
    }
    return atomic_load(&begun) >= wanted;
}

static void happens(void)
{
    const int number = atomic_fetch_add(&begun, 1);
    const int wanted = EACH == how ? number + 2 : 0 == number ? EVENTS : 0;
    const int until = wanted < EVENTS ? wanted : EVENTS;
    if (number < EVENTS) {
        CHECK(wait_for(until, OTHER != how), "callback %d waits for %d, and only %d came", number, until,
              atomic_load(&begun));
    }
    atomic_fetch_add(&told, 1);
}

SPEC_AM_DECLARE(came);
MCA_PML_SPEC_AM_CALLBACK(came)
{
    (void) btl, (void) nseg;
    CHECK(BYTES == seg->seg_len, "%zu bytes", (size_t) seg->seg_len);
    happens();
}

static void sent(mca_btl_base_module_t *module, struct mca_btl_base_endpoint_t *to, mca_btl_base_descriptor_t *des, int status)
{
    (void) module, (void) to, (void) des;
    CHECK(OPAL_SUCCESS == status, "status %d", status);
    happens();
}

static void moved(mca_btl_base_module_t *module, struct mca_btl_base_endpoint_t *to, void *local,
                  mca_btl_base_registration_handle_t *handle, void *context, void *cbdata, int status)
{
    (void) module, (void) to, (void) local, (void) handle, (void) context, (void) cbdata;
    CHECK(OPAL_SUCCESS == status, "status %d", status);
    happens();
}

static mca_btl_base_descriptor_t *message(uint32_t flags)
{
    mca_btl_base_descriptor_t *des =
        btl->btl_alloc(btl, endpoint, MCA_BTL_NO_ORDER, BYTES, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP | flags);
    CHECK(NULL != des, "no descriptor");
    memset(des->des_segments[0].seg_addr.pval, 7, BYTES);
    return des;
}

/* One of them, whose callback is `sent` or `moved`, or nothing's. */
static void start(what_t what)
{
    if (PUT == what) {
        CHECK(OPAL_SUCCESS
                  == btl->btl_put(btl, endpoint, memory, there, mine, theirs, 64, 0, MCA_BTL_NO_ORDER, moved, NULL, NULL),
              "no put");
        return;
    }
    mca_btl_base_descriptor_t *des = message(ARRIVED == what ? 0 : MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
    des->des_cbfunc = ARRIVED == what ? NULL : sent;
    if (GATHERED == what) {
        des->des_flags |= MCA_BTL_IBX_MORE;
    } else if (SENT == what) { /* memory of ours: the callback waits for the acknowledgement */
        des->des_segments[0].seg_len = BYTES / 2;
        des->des_segments[1].seg_addr.pval = memory;
        des->des_segments[1].seg_len = BYTES / 2;
        des->des_segment_count = 2;
    }
    CHECK(0 <= btl->btl_send(btl, endpoint, des, TAG), "not sent");
}

static void *other(void *unused)
{
    (void) unused;
    CHECK(wait_for(EVENTS, true), "only %d came", atomic_load(&begun));
    return NULL;
}

/* Rank 0 has the callbacks that wait. False: one waited in vain. */
static bool round_of(what_t what)
{
    tl_step("%s, %s", whats[what], hows[how]);
    atomic_store(&begun, tl.rank * EVENTS);
    atomic_store(&told, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if ((ARRIVED == what) == (1 == tl.rank)) {
        usleep(1 == tl.rank ? 30000 : 0); /* until the other one is out of the barrier, and does not poll */
        for (int i = 0; i < EVENTS; ++i) {
            start(what);
        }
    }
    if (0 == tl.rank) {
        usleep(GATHERED == what ? 0 : 100000); /* for the agent: all that is to come has come, and lies there at once */
        pthread_t thread;
        if (OTHER == how) {
            pthread_create(&thread, NULL, other, NULL);
        }
        while (atomic_load(&told) < EVENTS && 0 == tl.errors) {
            poll_once();
        }
        if (OTHER == how) {
            pthread_join(thread, NULL);
        }
        CHECK(EVENTS == atomic_load(&told), "%d callbacks of %d", atomic_load(&told), EVENTS);
    }
    MPI_Request req;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &req);
    while (!done) {
        poll_once();
        MPI_Test(&req, &done, MPI_STATUS_IGNORE);
    }
    int errors = tl.errors;
    MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return 0 == errors;
}

int main(int argc, char **argv)
{
    bool threads = false;
    for (int i = 1; i < argc; ++i) {
        threads |= 0 == strcmp(argv[i], "--threads");
    }
    const int provided =
        tl_start_thread(&argc, &argv, "btl_nested", 120, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    threads = threads && MPI_THREAD_MULTIPLE == provided;
    char handle[256] = {0};
    enum { ROOM = 4096 };
    memory = tl_buf(ROOM);
    there = (uint64_t) (uintptr_t) memory;
    btl = find_btl("ibx");
    if (!CHECK(NULL != btl, "btl/ibx is not there")) {
        return tl_finish();
    }
    mca_btl_base_active_message_trigger[TAG].cbfunc = came;
    mine = btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, memory, ROOM, MCA_BTL_REG_FLAG_ACCESS_ANY);
    CHECK(NULL != mine, "not registered");
    MPI_Sendrecv(mine, (int) btl->btl_registration_handle_size, MPI_BYTE, 1 - tl.rank, 0, handle, sizeof(handle), MPI_BYTE,
                 1 - tl.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(&there, 1, MPI_UINT64_T, 1 - tl.rank, 0, 1 - tl.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    theirs = (mca_btl_base_registration_handle_t *) handle;
    ompi_proc_t *ompi = ompi_comm_peer_lookup(MPI_COMM_WORLD, 1 - tl.rank);
    opal_proc_t *proc = &ompi->super;
    opal_bitmap_t reachable;
    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    opal_bitmap_init(&reachable, 1);
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &proc, &endpoint, &reachable) && NULL != endpoint, "no endpoint");
    bool good = true;
    for (how = FIRST; how < (threads ? HOWS : OTHER) && good; ++how) {
        for (what_t what = ARRIVED; what < WHATS && good; ++what) {
            good = round_of(what);
        }
    }
    (void) btl->btl_deregister_mem(btl, mine);
    FREE(memory);
    return tl_finish();
}
