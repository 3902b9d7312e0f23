/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A peer is given up while a thread copies to the memory of a receive from it, or from that of a send to it: the request
 * is not complete before the thread is through, and nobody is at its memory after that.
 *
 * The copy meets memory that may not be touched. In its signal handler, where the copy stands still, the peer is given up, and progress
 * is called, as another thread would. The process sends to itself.
 *
 *   --sends 1    the send's memory (else the receive's) */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "ompi_config.h"

#include "testlib.h"

#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/ibx/btl_ibx_module.h"
#include "opal/runtime/opal_progress.h"
#include "ompi/request/request.h"

#include <signal.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20, TAG = 3 };

static char *buffer; /* 2 * SIZE, which the first packet fills in part; what lies behind SIZE / 2 is guarded */
static MPI_Request request;
static mca_btl_base_module_t *self, *ibx;
static volatile int faults, early;

static void guard(int protection)
{
    if (0 != mprotect(buffer + SIZE / 2, 2 * SIZE - SIZE / 2, protection)) {
        _exit(2);
    }
}

static void copy_stands_still(int number, siginfo_t *info, void *context)
{
    const char *at = info->si_addr;
    (void) context;
    if (at < buffer || at >= buffer + 2 * SIZE || ++faults > 1) {
        static const char what[] = "given_up: memory was touched that is the program's\n";
        (void) !write(STDERR_FILENO, what, sizeof(what) - 1);
        (void) signal(number, SIG_DFL);
        return;
    }
    ((mca_btl_ibx_module_t *) ibx)->error(self, 0, opal_proc_local_get(), "the test gives it up");
    for (int i = 0; i < 100; ++i) {
        opal_progress();
    }
    early = REQUEST_COMPLETE(request);
    guard(PROT_READ | PROT_WRITE);
}

static void find_btls(void)
{
    mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH (selected, &mca_btl_base_modules_initialized,
                       mca_btl_base_selected_module_t) {
        const char *name = selected->btl_component->btl_version.mca_component_name;
        self = 0 == strcmp("self", name) ? selected->btl_module : self;
        ibx = 0 == strcmp("ibx", name) ? selected->btl_module : ibx;
    }
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "given_up", 60);
    const bool sends = 0 != tl_option("--sends", 0);
    char *plain = tl_buf(2 * SIZE);
    MPI_Datatype gaps;
    MPI_Request other;
    find_btls();
    CHECK(NULL != self && NULL != ibx, "the transports are not there");
    buffer = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(MAP_FAILED != buffer, "no memory");
    guard(PROT_NONE);
    struct sigaction action = {.sa_sigaction = copy_stands_still, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Type_vector(SIZE / 8, 8, 16, MPI_BYTE, &gaps); /* goes by copy */
    MPI_Type_commit(&gaps);

    tl_step(sends ? "a send" : "a receive");
    if (sends) {
        MPI_Irecv(plain, SIZE, MPI_BYTE, 0, TAG, MPI_COMM_SELF, &other);
        MPI_Send_init(buffer, 1, gaps, 0, TAG, MPI_COMM_SELF, &request);
        MPI_Start(&request);
    } else {
        MPI_Irecv(buffer, SIZE, MPI_BYTE, 0, TAG, MPI_COMM_SELF, &request);
        MPI_Isend(plain, 1, gaps, 0, TAG, MPI_COMM_SELF, &other);
    }
    const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    guard(PROT_NONE);
    CHECK(1 == faults, "the copy did not meet the memory");
    CHECK(!early, "the request was complete while its memory was used");
    CHECK(MPI_SUCCESS != code, "a request with a peer that was given up succeeded");
    (void) MPI_Wait(&other, MPI_STATUS_IGNORE);
    for (int i = 0; i < 1000; ++i) {
        opal_progress();
    }
    MPI_Type_free(&gaps);
    return tl_finish();
}
