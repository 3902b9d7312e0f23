/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The BTL interface of btl/ibx by itself: whatever fails, each descriptor that was accepted and each put and get is
 * reported exactly once. The MPI calls between go another way (btl_once.pl).
 *
 * --fail none      nothing does
 *        refused   one put goes to memory that the peer does not offer, which ends the connection
 *        dead      the peer falls silent (btl_ibx_iwarp_silent_timeout should be short)
 *        unsent    the peer is deleted while all of it waits for a connection that does not come about (fakeverbs.c)
 *        deleted   the peer is deleted while the second half is under way: the peer is stopped before it, so that
 *                  none of it can be done already
 *        reused    nothing; one descriptor that is not the BTL's is written to and sent again and again, from its
 *                  callback as Open MPI 5.0's active-message RDMA does it, or later
 *        stranger  nothing; the peer does not know who sends, and asks the runtime: not under a lock of the BTL, since that may
 *                  take long */
#define _GNU_SOURCE /* pthread_timedjoin_np */
#include "ompi_config.h"

#include "find_btl.h"
#include "testlib.h"

#include <pthread.h>

#include "opal/class/opal_bitmap.h"
#include "opal/util/proc.h"
#include "ompi/communicator/communicator.h"
#include "ompi/mca/pml/spec/objects/pml_spec_compat.h"
#include "ompi/proc/proc.h"

enum { MANY = 6000, ROOM = 1 << 20, TAG = MCA_BTL_TAG_USR };

typedef struct operation {
    int accepted, reported, good;
} operation_t;

static mca_btl_base_module_t *btl;
static operation_t operation[MANY];
static int arrived;
static bool unsent; /* --fail unsent: an adapter reads only memory that was registered */

static void reported(operation_t *o, int status)
{
    ++o->reported;
    o->good += OPAL_SUCCESS == status;
}

static void sent(mca_btl_base_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                 mca_btl_base_descriptor_t *des, int status)
{
    (void) module, (void) endpoint;
    reported(des->des_cbdata, status);
}

static void moved(mca_btl_base_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                  void *local, mca_btl_base_registration_handle_t *handle, void *context,
                  void *cbdata, int status)
{
    (void) module, (void) endpoint, (void) local, (void) handle, (void) cbdata;
    reported(context, status);
}

SPEC_AM_DECLARE(came);
MCA_PML_SPEC_AM_CALLBACK(came)
{
    (void) btl, (void) seg, (void) nseg;
    ++arrived;
}

enum { AGAIN = MCA_BTL_TAG_USR + 1, TIMES = 1500, BYTES = 4000 };

/* The one that is sent again and again. */
static struct {
    struct mca_btl_base_endpoint_t *endpoint;
    mca_btl_base_descriptor_t *des;
    int sent, back;
} reused;

static void send_again(void)
{
    char *to = reused.des->des_segments[0].seg_addr.pval;
    tl_fill(to, BYTES, (uint64_t) reused.sent++);
    CHECK(0 <= btl->btl_send(btl, reused.endpoint, reused.des, AGAIN), "not accepted");
}

static void is_back(mca_btl_base_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                    mca_btl_base_descriptor_t *des, int status)
{
    (void) module, (void) endpoint;
    CHECK(OPAL_SUCCESS == status && des == reused.des, "status %d", status);
    ++reused.back;
    if (reused.sent < TIMES && reused.sent % 2 == 0) {
        send_again();
    }
}

SPEC_AM_DECLARE(came_again);
MCA_PML_SPEC_AM_CALLBACK(came_again)
{
    (void) btl, (void) nseg;
    CHECK(BYTES == seg->seg_len, "%zu bytes", (size_t) seg->seg_len);
    VERIFY(seg->seg_addr.pval, BYTES, (uint64_t) arrived);
    ++arrived;
}

static void progress_for(double seconds)
{
    const double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end) {
        (void) btl->btl_component->btl_progress();
    }
}

/* Until each that was accepted is reported, and a little longer for what might be reported twice. */
static void progress_all(void)
{
    const double end = MPI_Wtime() + 30;
    for (int i = 0; i < MANY && MPI_Wtime() < end;) {
        if (operation[i].reported < operation[i].accepted) {
            (void) btl->btl_component->btl_progress();
        } else {
            ++i;
        }
    }
    progress_for(0.5);
}

/* A barrier during which the transport under test goes on, which MPI itself does not use here. */
static void barrier(void)
{
    MPI_Request req;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &req);
    while (!done) {
        (void) btl->btl_component->btl_progress();
        MPI_Test(&req, &done, MPI_STATUS_IGNORE);
    }
}

/* Stops a process of this host, and returns when it stands still. */
static void stop(int pid)
{
    char name[64], state = '?';
    snprintf(name, sizeof(name), "/proc/%d/stat", pid);
    CHECK(0 == kill(pid, SIGSTOP), "process %d cannot be stopped", pid);
    for (int tries = 0; 'T' != state && tries < 5000; ++tries) {
        FILE *stat = fopen(name, "r");
        CHECK(NULL != stat && 1 == fscanf(stat, "%*d (%*[^)]) %c", &state), "no %s", name);
        if (NULL != stat) {
            fclose(stat);
        }
        usleep(1000);
    }
    CHECK('T' == state, "process %d does not stop (%c)", pid, state);
}

/* In place of the PML's, which ends the job. */
static void lost(mca_btl_base_module_t *module, int32_t flags, opal_proc_t *proc, char *info)
{
    (void) module, (void) flags, (void) proc, (void) info;
}

/* One operation of each kind in turn; every third message is sent from memory that is not the descriptor's. */
static void start(struct mca_btl_base_endpoint_t *endpoint, unsigned i, char *memory,
                  mca_btl_base_registration_handle_t *mine, uint64_t there,
                  mca_btl_base_registration_handle_t *theirs)
{
    operation_t *o = &operation[i];
    const size_t size = 1 + i * 37 % 5000;
    int rc;
    if (i % 3 == 0) {
        mca_btl_base_descriptor_t *des =
            btl->btl_alloc(btl, endpoint, MCA_BTL_NO_ORDER, 16,
                           MCA_BTL_DES_FLAGS_BTL_OWNERSHIP | MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
        CHECK(NULL != des, "no descriptor");
        memset(des->des_segments[0].seg_addr.pval, 7, 16);
        if (i % 9 == 0 && !unsent) {
            des->des_segments[1].seg_addr.pval = memory;
            des->des_segments[1].seg_len = size % 2000;
            des->des_segment_count = 2;
        }
        des->des_cbfunc = sent;
        des->des_cbdata = o;
        rc = btl->btl_send(btl, endpoint, des, TAG);
        o->accepted = rc >= 0;
        return;
    }
    rc = (i % 3 == 1 ? btl->btl_put : btl->btl_get)(btl, endpoint, memory + i % 64 * 5000, there,
                                                    mine, theirs, size, 0, MCA_BTL_NO_ORDER, moved,
                                                    o, NULL);
    o->accepted = OPAL_SUCCESS == rc;
}

static opal_proc_t *(*real_proc_for_name)(const opal_process_name_t name);
static mca_btl_base_descriptor_t *spare;
static int asked, locked;

static void *free_spare(void *argument)
{
    (void) argument;
    btl->btl_free(btl, spare);
    return NULL;
}

/* In place of the runtime's: does another thread get the BTL's lock meanwhile? */
static opal_proc_t *slow_proc_for_name(const opal_process_name_t name)
{
    struct timespec until;
    pthread_t other;
    if (1 == ++asked && 0 == pthread_create(&other, NULL, free_spare, NULL)) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 3;
        locked = 0 != pthread_timedjoin_np(other, NULL, &until);
    }
    return real_proc_for_name(name);
}

/* The peer forgets who is going to talk to it. */
static void forget(opal_proc_t *proc, struct mca_btl_base_endpoint_t *endpoint)
{
    spare = btl->btl_alloc(btl, endpoint, MCA_BTL_NO_ORDER, 16, 0);
    CHECK(NULL != spare, "no descriptor");
    CHECK(OPAL_SUCCESS == btl->btl_del_procs(btl, 1, &proc, &endpoint), "not deleted");
    real_proc_for_name = opal_proc_for_name;
    opal_proc_for_name = slow_proc_for_name;
}

static void send_one_often(struct mca_btl_base_endpoint_t *endpoint)
{
    const double end = MPI_Wtime() + 30;
    reused.endpoint = endpoint;
    reused.des =
        btl->btl_alloc(btl, endpoint, MCA_BTL_NO_ORDER, BYTES, MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
    CHECK(NULL != reused.des, "no descriptor");
    reused.des->des_cbfunc = is_back;
    while (reused.back < TIMES && MPI_Wtime() < end) {
        if (reused.back == reused.sent && reused.sent < TIMES) {
            send_again();
        }
        (void) btl->btl_component->btl_progress();
    }
    CHECK(TIMES == reused.back, "%d of %d sent, %d back", reused.sent, TIMES, reused.back);
    btl->btl_free(btl, reused.des);
    printf("btl_once reused: %d times, each reported once\n", reused.back);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "btl_once", 60);
    const char *fail = argc > 2 ? argv[2] : "none";
    char *memory = tl_buf(ROOM), theirs[256] = {0};
    uint64_t there = (uint64_t) (uintptr_t) memory;
    btl = find_btl("ibx");
    CHECK(NULL != btl, "btl/ibx is not there");
    mca_btl_base_active_message_trigger[TAG].cbfunc = came;
    mca_btl_base_active_message_trigger[AGAIN].cbfunc = came_again;

    btl->btl_register_error(btl, lost);
    mca_btl_base_registration_handle_t *mine =
        btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, memory, ROOM, MCA_BTL_REG_FLAG_ACCESS_ANY);
    CHECK(NULL != mine, "not registered");
    const int size = (int) btl->btl_registration_handle_size;
    MPI_Sendrecv(mine, size, MPI_BYTE, 1 - tl.rank, 0, theirs, sizeof(theirs), MPI_BYTE,
                 1 - tl.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(&there, 1, MPI_UINT64_T, 1 - tl.rank, 0, 1 - tl.rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    ompi_proc_t *ompi = ompi_comm_peer_lookup(MPI_COMM_WORLD, 1 - tl.rank);
    opal_proc_t *proc = &ompi->super;
    struct mca_btl_base_endpoint_t *endpoint = NULL;
    opal_bitmap_t reachable;
    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    opal_bitmap_init(&reachable, 1);
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &proc, &endpoint, &reachable)
              && NULL != endpoint,
          "no endpoint");
    unsent = 0 == strcmp(fail, "unsent");
    const bool strange = 0 == strcmp(fail, "stranger");
    if (strange && 1 == tl.rank) {
        forget(proc, endpoint);
    }
    int peer = (int) getpid();
    MPI_Sendrecv_replace(&peer, 1, MPI_INT, 1 - tl.rank, 0, 1 - tl.rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    if (1 == tl.rank) {
        if (0 == strcmp(fail, "dead")) {
            sleep(8);
        }
        barrier();
        CHECK(0 == strcmp(fail, "dead") || unsent || arrived > 0, "nothing arrived");
        CHECK(0 != strcmp(fail, "reused") || TIMES == arrived, "%d arrived", arrived);
        CHECK(!strange || (asked > 0 && !locked), "asked for a process %d times, under the lock: %d", asked, locked);
        return tl_finish();
    }

    if (0 == strcmp(fail, "reused")) {
        send_one_often(endpoint);
        barrier();
        return tl_finish();
    }
    mca_btl_base_registration_handle_t *target = (mca_btl_base_registration_handle_t *) theirs;
    const bool deleted = unsent || 0 == strcmp(fail, "deleted");
    for (unsigned i = 0; i < MANY; ++i) {
        if (MANY / 2 == i && deleted) {
            stop(peer);
        }
        if (MANY / 2 == i && 0 == strcmp(fail, "refused")) {
            /* Beyond the end of what is registered, and of its last page. */
            operation_t *o = &operation[i];
            o->accepted = OPAL_SUCCESS
                          == btl->btl_put(btl, endpoint, memory, there + 2 * ROOM, mine, target,
                                          100, 0, MCA_BTL_NO_ORDER, moved, o, NULL);
            continue;
        }
        start(endpoint, i, memory, mine, there, target);
    }
    if (deleted) {
        CHECK(OPAL_SUCCESS == btl->btl_del_procs(btl, 1, &proc, &endpoint), "not deleted");
        kill(peer, SIGCONT);
    }
    progress_all();
    int accepted = 0, good = 0, bad = 0;
    for (int i = 0; i < MANY; ++i) {
        const operation_t *o = &operation[i];
        CHECK(o->reported == o->accepted, "operation %d: accepted %d times, reported %d times", i,
              o->accepted, o->reported);
        accepted += o->accepted;
        good += o->good;
        bad += o->reported - o->good;
    }
    const bool none = 0 == strcmp(fail, "none") || strange;
    CHECK(accepted > MANY / 4 && (none ? 0 == bad && MANY == good : bad > 0),
          "%d accepted, %d good, %d bad", accepted, good, bad);
    printf("btl_once %s: %d accepted, %d without, %d with an error, each reported once\n", fail,
           accepted, good, bad);
    barrier();
    return tl_finish();
}
