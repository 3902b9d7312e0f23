/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The BTL interface of btl/ibx by itself: what may wait for more (MCA_BTL_IBX_MORE) waits, and leaves with what follows it without the
 * flag, or by a flush, with no other call. To be run without a thread of btl/ibx, which would send it, too. */
#include "ompi_config.h"

#include "find_btl.h"
#include "testlib.h"

#include "opal/class/opal_bitmap.h"
#include "opal/include/spec/promises.h"
#include "opal/util/proc.h"
#include "ompi/communicator/communicator.h"
#include "ompi/mca/pml/spec/objects/pml_spec_compat.h"
#include "ompi/proc/proc.h"

#include <stdatomic.h>

/* LONGEST: leaves without an acknowledgement. PATIENCE: seconds. QUIET: polls in which nothing comes. */
enum { LONGEST = 9000, BYTES = 16, PATIENCE = 20, QUIET = 20000, TAG = MCA_BTL_TAG_USR };

static const size_t lengths[] = {64, 4000, LONGEST};
enum { LENGTHS = sizeof(lengths) / sizeof(*lengths) };

typedef enum { BY_FLUSH, BY_MESSAGE, WAYS } way_t;
static const char *const ways[WAYS] = {"a flush", "a message"};

static mca_btl_base_module_t *btl;
static struct mca_btl_base_endpoint_t *endpoint;
static unsigned char *memory; /* the last byte of a put is its value */
static mca_btl_base_registration_handle_t *mine, *theirs;
static uint64_t there;
static atomic_int *seen; /* by rank 1, in memory of both */
static int messages;     /* that came */

static void poll_once(void)
{
    (void) btl->btl_component->btl_progress();
}

SPEC_AM_DECLARE(came);
MCA_PML_SPEC_AM_CALLBACK(came)
{
    (void) btl, (void) nseg;
    CHECK(BYTES == seg->seg_len, "%zu bytes", (size_t) seg->seg_len);
    ++messages;
}

static void moved(mca_btl_base_module_t *module, struct mca_btl_base_endpoint_t *to, void *local,
                  mca_btl_base_registration_handle_t *handle, void *context, void *cbdata,
                  int status)
{
    (void) module, (void) to, (void) local, (void) handle, (void) context;
    CHECK(OPAL_SUCCESS == status, "status %d", status);
    atomic_store((atomic_int *) cbdata, 1);
}

static void message(uint32_t flags)
{
    char header[BYTES] = {7};
    CHECK(0 <= btl->btl_sendi(btl, endpoint, NULL, header, BYTES, 0, MCA_BTL_IBX_ORDER,
                              MCA_BTL_DES_FLAGS_BTL_OWNERSHIP | flags, TAG, NULL),
          "not sent");
}

/* Waits without a call of MPI or of the BTL. */
static bool is_seen(int round)
{
    const double end = MPI_Wtime() + PATIENCE;
    while (atomic_load(seen) != round && MPI_Wtime() < end) {
        usleep(100);
    }
    return atomic_load(seen) == round;
}

static void send_round(size_t n, way_t way, int round)
{
    static atomic_int ended;
    memset(memory, round, n);
    atomic_store(&ended, 0);
    CHECK(OPAL_SUCCESS
              == btl->btl_put(btl, endpoint, memory, there, mine, theirs, n, (int) MCA_BTL_IBX_MORE,
                              MCA_BTL_NO_ORDER, moved, NULL, &ended),
          "no put");
    if (BY_FLUSH == way) {
        message(MCA_BTL_IBX_MORE);
    }
    atomic_store(seen, -round);
    CHECK(is_seen(1000 + round), "what may wait for more did not: %zu bytes", n);
    if (BY_FLUSH == way) {
        mca_btl_ibx_flush(btl);
    } else {
        message(0);
    }
    CHECK(is_seen(round), "%zu bytes did not leave by %s", n, ways[way]);
    while (0 == atomic_load(&ended) && 0 == tl.errors) {
        poll_once();
    }
}

static void receive_round(size_t n, int round)
{
    const double end = MPI_Wtime() + PATIENCE;
    const int before = messages;
    bool quiet = true;
    while (atomic_load(seen) != -round && MPI_Wtime() < end) {
        poll_once();
        quiet &= before == messages && round != memory[0];
    }
    for (int i = 0; i < QUIET; ++i) {
        poll_once();
        quiet &= before == messages && round != memory[0];
    }
    atomic_store(seen, quiet ? 1000 + round : 1);
    while (before == messages && MPI_Wtime() < end) {
        poll_once();
    }
    CHECK(before + 1 == messages, "%d messages", messages - before);
    CHECK(round == memory[0] && round == memory[n - 1], "the message is here before its data");
    if (before + 1 == messages) {
        atomic_store(seen, round);
    }
}

/* Behind a put that waited an atomic operation leaves by itself. Done where the memory is, by the progress of rank 1. */
static void atomic_round(int round)
{
    static atomic_int ended;
    static uint64_t before;
    uint64_t *word = (uint64_t *) memory;
    MPI_Barrier(MPI_COMM_WORLD);
    if (1 == tl.rank) {
        *(volatile uint64_t *) word = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        const double end = MPI_Wtime() + PATIENCE;
        while (0 == *(volatile uint64_t *) word && MPI_Wtime() < end) {
            poll_once();
        }
        CHECK(7 == *word, "the word is %llu", (unsigned long long) *word);
        atomic_store(seen, round);
        return;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    atomic_store(&ended, 0);
    mca_btl_base_registration_handle_t *local =
        btl->btl_register_mem(btl, endpoint, &before, sizeof(before), MCA_BTL_REG_FLAG_ACCESS_ANY);
    const int rc =
        btl->btl_atomic_fop(btl, endpoint, &before, there, local, theirs, MCA_BTL_ATOMIC_ADD, 7, 0,
                            MCA_BTL_NO_ORDER, moved, NULL, &ended);
    CHECK(OPAL_SUCCESS == rc, "no atomic operation: %d", rc);
    CHECK(is_seen(round), "an atomic operation did not leave by itself");
    while (0 == atomic_load(&ended) && 0 == tl.errors) {
        poll_once();
    }
    (void) btl->btl_deregister_mem(btl, local);
}

/* Each has an acknowledgement of the other. */
static void connect_peers(void)
{
    MPI_Request barrier;
    int done = 0;
    message(0);
    while (0 == messages && 0 == tl.errors) {
        poll_once();
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    while (!done) {
        poll_once();
        MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "btl_flush", 300);
    char handle[256] = {0};
    memory = tl_buf(LONGEST);
    there = (uint64_t) (uintptr_t) memory;
    btl = find_btl("ibx");
    if (!CHECK(NULL != btl && (mca_btl_ibx_promises(btl) & MCA_BTL_IBX_GATHERS),
               "btl/ibx is not there, or does not gather")) {
        return tl_finish();
    }
    MPI_Win window;
    MPI_Aint size;
    int unit;
    MPI_Win_allocate_shared(sizeof(*seen), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &seen, &window);
    MPI_Win_shared_query(window, 0, &size, &unit, &seen);
    mca_btl_base_active_message_trigger[TAG].cbfunc = came;
    mine = btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, memory, LONGEST,
                                 MCA_BTL_REG_FLAG_ACCESS_ANY);
    CHECK(NULL != mine, "not registered");
    MPI_Sendrecv(mine, (int) btl->btl_registration_handle_size, MPI_BYTE, 1 - tl.rank, 0, handle,
                 sizeof(handle), MPI_BYTE, 1 - tl.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(&there, 1, MPI_UINT64_T, 1 - tl.rank, 0, 1 - tl.rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    theirs = (mca_btl_base_registration_handle_t *) handle;
    opal_proc_t *proc = &ompi_comm_peer_lookup(MPI_COMM_WORLD, 1 - tl.rank)->super;
    opal_bitmap_t reachable;
    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    opal_bitmap_init(&reachable, 1);
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &proc, &endpoint, &reachable)
              && NULL != endpoint,
          "no endpoint");
    connect_peers();
    int round = 0;
    for (size_t i = 0; i < LENGTHS; ++i) {
        for (way_t way = BY_FLUSH; way < WAYS; ++way) {
            ++round;
            tl_step("%zu bytes leave by %s", lengths[i], ways[way]);
            MPI_Barrier(MPI_COMM_WORLD);
            if (0 == tl.rank) {
                send_round(lengths[i], way, round);
            } else {
                receive_round(lengths[i], round);
            }
        }
    }
    tl_step("an atomic operation");
    atomic_round(++round);
    MPI_Barrier(MPI_COMM_WORLD);
    (void) btl->btl_deregister_mem(btl, mine);
    MPI_Win_free(&window);
    FREE(memory);
    return tl_finish();
}
