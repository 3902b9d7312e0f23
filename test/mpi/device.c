/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages from and to the memory of the test accelerator (test/accel), which the processor cannot touch, and what becomes of
 * them when the device's copies fail. With --faults the device fails, with --fault once; device.pl runs all.
 *
 * The other programs, run with device.so, show that such buffers are like any other. Here is what only this shows: that a touch is
 * seen; that the data goes through the device's copies, each byte once; that a process goes on while the device copies; that a fault
 * ends the send and the receive in an error, and nothing else.
 *
 *   --staged 1   messages of the transport are staged   --streams 0   the device has no streams   --rate N   its engine has N MB/s */
#include "testlib.h"

enum { TAG = 5, NOWHERE = 0, SENDER = 1, RECEIVER = 2 };

static struct {
    void *(*take)(size_t);
    bool (*give)(void *);
    void *(*address)(const void *);
    void (*fail)(unsigned long long);
    void (*fail_at)(const void *);
    unsigned long long (*copies)(void);
    unsigned long long (*streamed)(void);
    void (*hold)(bool);
    bool (*begin)(void *, const void *, size_t);
    int (*query)(void);
} device;

static bool find_device(void)
{
    *(void **) &device.take = dlsym(NULL, "test_accelerator_take");
    *(void **) &device.give = dlsym(NULL, "test_accelerator_give");
    *(void **) &device.address = dlsym(NULL, "test_accelerator_address");
    *(void **) &device.fail = dlsym(NULL, "test_accelerator_fail");
    *(void **) &device.fail_at = dlsym(NULL, "test_accelerator_fail_at");
    *(void **) &device.copies = dlsym(NULL, "test_accelerator_copies");
    *(void **) &device.streamed = dlsym(NULL, "test_accelerator_streamed");
    *(void **) &device.hold = dlsym(NULL, "test_accelerator_pause");
    *(void **) &device.begin = dlsym(NULL, "test_accelerator_begin");
    *(void **) &device.query = dlsym(NULL, "test_accelerator_query");
    return NULL != device.begin && NULL != device.query && NULL != device.take
           && NULL != device.give && NULL != device.address && NULL != device.fail
           && NULL != device.fail_at && NULL != device.copies && NULL != device.streamed
           && NULL != device.hold;
}

/* A buffer: `see` is where the program finds the bytes, `mpi` is what MPI gets. */
typedef struct {
    char *see, *mpi;
    bool on_device;
} buffer_t;

static buffer_t buffer(size_t n, bool on_device)
{
    buffer_t b = {.on_device = on_device};
    b.see = on_device ? device.take(n) : malloc(n);
    if (NULL == b.see) {
        printf("no memory of the device for %zu bytes\n", n);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    b.mpi = on_device ? device.address(b.see) : b.see;
    tl_poison(b.see, n);
    return b;
}

static void buffer_free(buffer_t *b)
{
    if (b->on_device) {
        CHECK(device.give(b->see), "device memory was not taken back");
    } else {
        free(b->see);
    }
}

/* What all this is worth: who touches the memory ends, and the kernel refuses it. */
static void a_touch_is_seen(void)
{
    tl_step("a touch of device memory");
    buffer_t b = buffer(64, true);
    const pid_t pid = fork();
    if (0 == pid) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *) b.mpi = 1;
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) && SIGSEGV == WTERMSIG(status), "the processor could write there");
    int ends[2] = {-1, -1};
    CHECK(0 == pipe(ends) && write(ends[1], b.mpi, 8) < 0, "the kernel could read there");
    close(ends[0]);
    close(ends[1]);
    buffer_free(&b);
}

/* A copy on a stream is not done when it has been asked for, but when its event has been queried often enough. */
static void a_stream_is_late(void)
{
    char host[64];
    buffer_t b = buffer(sizeof(host), true);
    tl_step("a copy on a stream");
    tl_fill(b.see, sizeof(host), 1);
    for (int fails = 0; fails < 2; ++fails) {
        tl_poison(host, sizeof(host));
        device.fail((unsigned) fails);
        CHECK(device.begin(host, b.mpi, sizeof(host)), "it did not begin");
        UNTOUCHED(host, 0, sizeof(host));
        CHECK(1 == device.query(), "it was done at the first query");
        CHECK(1 == device.query(), "it was done at the second query");
        UNTOUCHED(host, 0, sizeof(host));
        CHECK((fails ? -1 : 0) == device.query(), "the third query told otherwise");
        if (fails) {
            UNTOUCHED(host, 0, sizeof(host));
        } else {
            VERIFY(host, sizeof(host), 1);
        }
    }
    device.fail(0);
    buffer_free(&b);
}

/* Nor earlier than its engine would be through, however often. */
static void an_engine_takes_time(int mb_s)
{
    const size_t n = 1 << 20;
    char *host = malloc(n);
    buffer_t b = buffer(n, true);
    struct timespec begun, over;
    tl_step("a copy of an engine");
    tl_fill(b.see, n, 2);
    tl_poison(host, n);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    CHECK(device.begin(host, b.mpi, n), "it did not begin");
    while (1 == device.query()) {}
    clock_gettime(CLOCK_MONOTONIC, &over);
    const double us =
        (double) (over.tv_sec - begun.tv_sec) * 1e6 + (double) (over.tv_nsec - begun.tv_nsec) / 1e3;
    CHECK(us * mb_s >= (double) n, "%zu bytes took %.0f us", n, us);
    VERIFY(host, n, 2);
    buffer_free(&b);
    free(host);
}

/* Messages that are staged, where any are. */
#define STAGED_LEAST ((size_t) 64 << 10)

static bool is_staged(size_t n, bool on_device)
{
    return on_device && n >= STAGED_LEAST && tl_option("--staged", 0);
}

static const size_t sizes[] = {1, 64, 65, 256, 257, 4000, 33000, 70000, 300001, 3 << 20};

/* One message; the receive is posted before it is sent, or after it has been announced. */
static void one(size_t n, bool from_device, bool to_device, bool early)
{
    const uint64_t key = tl_key(50, 0, 1, (int) early, n);
    tl_step("%zu bytes from %s to %s, receive %s", n, from_device ? "device" : "host",
            to_device ? "device" : "host", early ? "first" : "last");
    const bool on_device = 0 == tl.rank ? from_device : to_device;
    buffer_t b = buffer(n, on_device);
    const long long before = tl_pvar("pml_spec_bytes_device");
    const long long pieces = tl_pvar("pml_spec_staged_pieces");
    const unsigned long long streamed = device.streamed();
    if (0 == tl.rank) {
        tl_fill(b.see, n, key);
        if (early) {
            tl_hear(1);
        }
        MPI_Send(b.mpi, (int) n, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else if (1 == tl.rank) {
        MPI_Request request;
        if (!early) {
            tl_await(0, TAG, MPI_COMM_WORLD);
        }
        MPI_Irecv(b.mpi, (int) n, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
        if (early) {
            tl_tell(0);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        VERIFY(b.see, n, key);
    }
    const long long copied = tl_pvar("pml_spec_bytes_device") - before;
    if (before >= 0 && tl.rank < 2) {
        CHECK(copied == (on_device ? (long long) n : 0), "%lld bytes went through the device",
              copied);
        const bool staged = is_staged(n, on_device), arrives = staged && 1 == tl.rank;
        CHECK((tl_pvar("pml_spec_staged_pieces") > pieces) == arrives,
              "%s piece went on to the device when it arrived", arrives ? "no" : "a");
        CHECK((device.streamed() > streamed) == (staged && tl_option("--streams", 1)),
              "%llu copies were made on a stream", device.streamed() - streamed);
    }
    buffer_free(&b);
}

/* The copies of one end stand still: both processes go on, and the message has not arrived before they do, too. */
static void held(int where, bool early)
{
    const size_t n = 3 << 20;
    const uint64_t key = tl_key(52, 0, 1, where, early);
    const bool is_here = where == tl.rank + 1;
    tl_step("copies under way at the %s, receive %s", SENDER == where ? "sender" : "receiver",
            early ? "first" : "last");
    buffer_t b = buffer(n, true);
    MPI_Request request = MPI_REQUEST_NULL;
    device.hold(is_here);
    const unsigned long long before = device.streamed();
    int over = 0;
    if (0 == tl.rank) {
        tl_fill(b.see, n, key);
        if (early) {
            tl_hear(1);
        }
        MPI_Isend(b.mpi, (int) n, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
    } else if (1 == tl.rank) {
        if (!early) {
            tl_await(0, TAG, MPI_COMM_WORLD);
        }
        MPI_Irecv(b.mpi, (int) n, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
        if (early) {
            tl_tell(0);
        }
    }
    while (is_here && !over && device.streamed() == before) {
        MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(tl.ctl);
    for (int i = 0; i < 100 && !over && MPI_REQUEST_NULL != request; ++i) {
        MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    }
    CHECK(!over || !(is_here || 1 == tl.rank), "the message was there before its copies were");
    if (1 == tl.rank) {
        UNTOUCHED(b.see, 0, n);
    }
    MPI_Barrier(tl.ctl);
    device.hold(false);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (1 == tl.rank) {
        VERIFY(b.see, n, key);
    }
    MPI_Barrier(tl.ctl);
    buffer_free(&b);
}

/* A receive that was freed is over when MPI is: begun here, checked after MPI_Finalize. */
static buffer_t freed;
enum { FREED = 3 << 20 };

static void begin_freed(void)
{
    tl_step("copies under way at MPI_Finalize");
    freed = buffer(FREED, true);
    if (0 == tl.rank) {
        tl_fill(freed.see, FREED, 9);
        tl_hear(1);
        MPI_Ssend(freed.mpi, FREED, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        tl_tell(1);
    } else if (1 == tl.rank) {
        MPI_Request request;
        MPI_Irecv(freed.mpi, FREED, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        tl_tell(0);
        tl_hear(0);
    }
}

static int end_freed(int code)
{
    if (1 == tl.rank && tl_differs(freed.see, FREED, 9) < FREED) {
        printf("a receive that was freed was not over when MPI_Finalize was\n");
        return 1;
    }
    return code;
}

/* ---- faults ---- */

typedef enum { SEND, ISEND, SSEND, BSEND, START, WAYS } way_t;
static const char *const way_names[WAYS] = {"MPI_Send", "MPI_Isend", "MPI_Ssend", "MPI_Bsend",
                                            "MPI_Start"};

/* Sends and returns the error that the program sees. */
static int send_by(way_t way, const void *buf, size_t n, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int rc = MPI_SUCCESS;
    switch (way) {
    case SEND:
        return MPI_Send(buf, (int) n, MPI_BYTE, 1, TAG, comm);
    case SSEND:
        return MPI_Ssend(buf, (int) n, MPI_BYTE, 1, TAG, comm);
    case BSEND:
        return MPI_Bsend(buf, (int) n, MPI_BYTE, 1, TAG, comm);
    case ISEND:
        rc = MPI_Isend(buf, (int) n, MPI_BYTE, 1, TAG, comm, &request);
        break;
    default:
        MPI_Send_init(buf, (int) n, MPI_BYTE, 1, TAG, comm, &request);
        rc = MPI_Start(&request);
    }
    if (MPI_SUCCESS == rc) {
        rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (MPI_REQUEST_NULL != request) {
        MPI_Request_free(&request);
    }
    return rc;
}

/* A message that nothing happens to: it takes copies. */
static void good(MPI_Comm comm, const buffer_t *b, size_t n, bool early)
{
    const unsigned long long before = device.copies();
    if (0 == tl.rank) {
        if (early) {
            tl_hear(1);
        }
        CHECK_CLASS(send_by(SEND, b->mpi, n, comm), MPI_SUCCESS);
    } else if (1 == tl.rank) {
        MPI_Request request;
        if (!early) {
            tl_await(0, TAG, comm);
        }
        MPI_Irecv(b->mpi, (int) n, MPI_BYTE, 0, TAG, comm, &request);
        if (early) {
            tl_tell(0);
        }
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    CHECK(device.copies() > before || tl.rank > 1, "no copy was seen");
}

/* The copy of a message's first byte fails at one end, or of its last. In how many copies it is cut depends on what they cost. */
static void fault(MPI_Comm comm, size_t n, way_t way, int where, bool last, bool early)
{
    const uint64_t key = tl_key(51, 0, 1, where, n);
    tl_step("%s of %zu bytes, receive %s, the %s copy fails at the %s", way_names[way], n,
            early ? "first" : "last", last ? "last" : "first",
            SENDER == where ? "sender" : "receiver");
    buffer_t b = buffer(n, true);
    const bool is_here = where == tl.rank + 1;
    const void *bad = is_here ? (char *) b.mpi + (last ? n - 1 : 0) : NULL;
    good(comm, &b, n, early);
    if (0 == tl.rank) {
        tl_fill(b.see, n, key);
        if (early) {
            tl_hear(1);
        }
        device.fail_at(bad);
        CHECK_CLASS(send_by(way, b.mpi, n, comm), is_here ? MPI_ERR_OTHER : MPI_SUCCESS);
        device.fail_at(NULL);
        if (BSEND == way && is_here) { /* nothing was sent */
            CHECK_CLASS(send_by(way, b.mpi, n, comm), MPI_SUCCESS);
        }
        CHECK_CLASS(send_by(SEND, b.mpi, n, comm), MPI_SUCCESS);
    } else if (1 == tl.rank) {
        MPI_Request request;
        const bool wrong = BSEND != way || is_here;
        if (!early) {
            tl_await(0, TAG, comm);
        }
        device.fail_at(bad);
        MPI_Irecv(b.mpi, (int) n, MPI_BYTE, 0, TAG, comm, &request);
        if (early) {
            tl_tell(0);
        }
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), wrong ? MPI_ERR_OTHER : MPI_SUCCESS);
        device.fail_at(NULL);
        /* The next one is as it should be. */
        tl_poison(b.see, n);
        CHECK_CLASS(MPI_Recv(b.mpi, (int) n, MPI_BYTE, 0, TAG, comm, MPI_STATUS_IGNORE),
                    MPI_SUCCESS);
        VERIFY(b.see, n, key);
    }
    MPI_Barrier(tl.ctl);
    buffer_free(&b);
}

static void faults(void)
{
    static const size_t of[] = {8, 3000, 70000, 1 << 20};
    const int room = (2 << 20) + 2 * MPI_BSEND_OVERHEAD;
    void *store = malloc((size_t) room);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Buffer_attach(store, room);
    const long long before = tl_pvar("pml_spec_device_faults");
    for (size_t i = 0; i < TL_N(of); ++i) {
        for (way_t way = SEND; way < WAYS; ++way) {
            for (int where = SENDER; where <= RECEIVER; ++where) {
                for (int kind = 0; kind < 4; ++kind) {
                    fault(comm, of[i], way, where, kind & 1, kind & 2);
                }
            }
        }
    }
    const long long counted = tl_pvar("pml_spec_device_faults") - before;
    CHECK(before < 0 || tl.rank > 1 || counted > 0, "no fault was counted");
    MPI_Buffer_detach(&store, &(int){0});
    free(store);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    tl_start(&argc, &argv, "device", 120);
    if (!find_device()) {
        tl_skip("there is no test accelerator");
        return tl_finish();
    }
    if (tl_flag("--faults")) {
        faults();
        return tl_finish();
    }
    if (tl_flag("--fault")) {
        fault(MPI_COMM_WORLD, 3000, SEND, SENDER, false, false);
        return tl_finish();
    }
    tl_pvar("pml_spec_staged");
    a_touch_is_seen();
    const int rate = (int) tl_option("--rate", 0);
    if (tl_option("--streams", 1)) {
        if (0 == rate) {
            a_stream_is_late();
        } else {
            an_engine_takes_time(rate);
        }
    }
    for (size_t i = 0; i < TL_N(sizes); ++i) {
        for (int kind = 0; kind < 8; ++kind) {
            one(sizes[i], kind & 1, kind & 2, kind & 4);
        }
    }
    for (int kind = 0; kind < 4 && is_staged(STAGED_LEAST, true) && tl_option("--streams", 1);
         ++kind) {
        held(kind & 1 ? SENDER : RECEIVER, kind & 2);
    }
    if (tl.rank < 2 && tl_pvar("pml_spec_staged") >= 0) {
        CHECK((tl_pvar("pml_spec_staged") > 0) == (tl_option("--staged", 0) > 0),
              "%lld messages were staged", tl_pvar("pml_spec_staged"));
    }
    begin_freed();
    return end_freed(tl_finish());
}
