/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A peer is given up while the test accelerator (test/accel) copies from the buffer of a send to it, or to that of a receive from it: the
 * request is not complete before the copy is over, and after that the device is not asked for a copy from or to the buffer, which would
 * end the process.
 *
 *   --sends 1    the send's buffer (else the receive's)
 *
 * The end that gives up says 'as it should be', and ends the job: its peer waits in vain (device.pl). */
#include "ompi_config.h"

#include "testlib.h"

#include "ompi/communicator/communicator.h"
#include "ompi/request/request.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/ibx/btl_ibx_module.h"
#include "opal/runtime/opal_progress.h"

enum { SIZE = 1 << 20, TAG = 3 };

static struct {
    void *(*take)(size_t);
    bool (*give)(void *);
    void *(*address)(const void *);
    unsigned long long (*streamed)(void);
    void (*hold)(bool);
} device;

static bool find_device(void)
{
    *(void **) &device.take = dlsym(NULL, "test_accelerator_take");
    *(void **) &device.give = dlsym(NULL, "test_accelerator_give");
    *(void **) &device.address = dlsym(NULL, "test_accelerator_address");
    *(void **) &device.streamed = dlsym(NULL, "test_accelerator_streamed");
    *(void **) &device.hold = dlsym(NULL, "test_accelerator_pause");
    return NULL != device.take && NULL != device.give && NULL != device.address
           && NULL != device.streamed && NULL != device.hold;
}

static mca_btl_base_module_t *find_ibx(void)
{
    mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        if (0 == strcmp("ibx", selected->btl_component->btl_version.mca_component_name)) {
            return selected->btl_module;
        }
    }
    return NULL;
}

static void progress(void)
{
    for (int i = 0; i < 1000; ++i) {
        opal_progress();
    }
}

static void give_up(int peer)
{
    mca_btl_base_module_t *ibx = find_ibx();
    if (!CHECK(NULL != ibx, "the transport is not there")) {
        return;
    }
    ((mca_btl_ibx_module_t *) ibx)
        ->error(ibx, 0, &ompi_comm_peer_lookup(&ompi_mpi_comm_world.comm, peer)->super,
                "the test gives it up");
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "given_up_late", 60);
    if (!find_device()) {
        tl_skip("there is no test accelerator");
        return tl_finish();
    }
    const bool is_here = tl.rank == (0 != tl_option("--sends", 0) ? 0 : 1);
    char *see = device.take(SIZE), *buffer = device.address(see);
    MPI_Request request;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    device.hold(is_here);
    if (0 == tl.rank) {
        MPI_Isend(buffer, SIZE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
    } else {
        MPI_Irecv(buffer, SIZE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
    }
    if (!is_here) {
        for (;;) {
            opal_progress();
        }
    }
    tl_step("a copy is under way");
    while (0 == device.streamed() && !REQUEST_COMPLETE(request)) {
        opal_progress();
    }
    give_up(1 - tl.rank);
    progress();
    CHECK(!REQUEST_COMPLETE(request), "the request was complete while its buffer was used");
    tl_step("it is over");
    device.hold(false);
    const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(MPI_SUCCESS != code, "a request with a peer that was given up succeeded");
    CHECK(device.give(see), "device memory was not taken back");
    progress();
    printf("%s\n", 0 == tl.errors ? "as it should be" : "errors");
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}
