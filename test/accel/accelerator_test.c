/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A component of Open MPI's accelerator framework (5.0, 6.0) for tests: a device without hardware, whose memory (arena.h) the
 * processor may not touch. Copies on a stream are done when an event behind them has been queried several times, no earlier, and
 * with a rate when a copy engine of that rate would be through with them; the n-th copy can be made to fail. A thread needs a context.
 * What is asked of it that no device allows - a copy from or to memory that was freed -
 * ends the process with a message.
 *
 * Test programs reach it by the functions test_accelerator_*, which dlsym finds (device.c). */
#include "opal_config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arena.h"

#include "opal/mca/accelerator/accelerator.h"
#include "opal/mca/base/mca_base_var.h"

enum { DEVICE = 0 };

static struct {
    unsigned queries; /* until an event is complete */
    unsigned mb_s;    /* of the engine of each stream; 0: it takes no time */
    unsigned long long fails, copies;
    const char *bad;             /* a byte whose copies fail, or NULL */
    bool is_held;                /* streams copy nothing for now */
    unsigned long long streamed; /* copies that streams were given */
    unsigned refused;            /* so many events are not recorded */
    bool streams;                /* or none can be made */
    bool moves; /* copies on streams bring the bytes; or they only take their time */
    size_t size;
    pthread_mutex_t lock; /* of the streams, and the copies that are counted */
} test = {.lock = PTHREAD_MUTEX_INITIALIZER};

extern opal_accelerator_base_component_t mca_accelerator_test_component;

/* A thread needs a context of the driver for all but to ask for an address, which gives it one; so does its first memory. */
static _Thread_local bool has_context;

/* ---- copies ---- */

static void must_be_whole(const void *p, size_t n, const char *what)
{
    if (arena_is_device(p) && !arena_block(p, n, NULL, NULL, NULL)) {
        (void) fprintf(stderr,
                       "test accelerator: a copy of %zu bytes %s %p, where no device memory is\n",
                       n, what, p);
        abort();
    }
}

static bool is_in(const char *byte, const void *p, size_t n)
{
    return (uintptr_t) byte - (uintptr_t) p < n;
}

/* Is this one that fails? The lock is held. */
static bool fails(const void *to, const void *from, size_t n)
{
    const bool is_bad = NULL != test.bad && (is_in(test.bad, to, n) || is_in(test.bad, from, n));
    return ++test.copies == test.fails || is_bad;
}

static void copy_now(void *to, const void *from, size_t n)
{
    must_be_whole(from, n, "from");
    must_be_whole(to, n, "to");
    memmove(arena_shadow(to), arena_shadow(from), n);
}

/* Of a stream. */
static void engine_copies(void *to, const void *from, size_t n)
{
    if (test.moves) {
        copy_now(to, from, n);
    }
}

static uint64_t now_ns(void)
{
    struct timespec t;
    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* What the engine takes for n bytes. */
static uint64_t engine_ns(size_t n)
{
    return 0 == test.mb_s ? 0 : (uint64_t) n * 1000 / test.mb_s;
}

static void wait_until(uint64_t ns)
{
    while (test.mb_s > 0 && now_ns() < ns) {}
}

static int copy(int to_device, int from_device, void *to, const void *from, size_t n,
                opal_accelerator_transfer_type_t type)
{
    (void) to_device, (void) from_device, (void) type;
    const uint64_t ends = now_ns() + engine_ns(n);
    (void) pthread_mutex_lock(&test.lock);
    const bool failed = fails(to, from, n) || !has_context;
    (void) pthread_mutex_unlock(&test.lock);
    if (failed) {
        return OPAL_ERROR;
    }
    copy_now(to, from, n);
    wait_until(ends);
    return OPAL_SUCCESS;
}

/* ---- streams and events ---- */

typedef struct late {
    struct late *next;
    void *to;
    const void *from;
    size_t n, moved;
    uint64_t begins, ends; /* ns: when the engine has it */
    bool fails;
} late_t;

/* Copies are numbered from 1 in the order in which a stream gets them. */
typedef struct test_stream {
    opal_accelerator_stream_t super;
    late_t *first, **last;
    uint64_t given, done;
    uint64_t recorded; /* copies before the last event */
    uint64_t failed;   /* the last that did */
    uint64_t ends;     /* when the engine is through with all that it was given */
} test_stream_t;

typedef struct test_event {
    opal_accelerator_event_t super;
    test_stream_t *stream;
    uint64_t from,
        to; /* of the copies before it those that no event was behind: from + 1 to `to` */
    unsigned queries;
    uint64_t ends; /* of those before it */
} test_event_t;

/* The engine moves the bytes one after the other; but a processor has to, which is the one that asks. So that this takes no time
 * of its own at the end of a copy, as much of it is moved with each question as the engine has by then. The lock is held. */
static void move_due(const test_stream_t *stream, uint64_t now)
{
    for (late_t *late = stream->first; NULL != late && now > late->begins; late = late->next) {
        const size_t due = late->fails ? 0
                           : now >= late->ends
                               ? late->n
                               : (size_t) ((double) late->n * (double) (now - late->begins)
                                           / (double) (late->ends - late->begins));
        if (due == late->moved) {
            continue;
        }
        engine_copies((char *) late->to + late->moved, (const char *) late->from + late->moved,
                      due - late->moved);
        late->moved = due;
    }
}

/* The lock is held. */
static void run(test_stream_t *stream, uint64_t until)
{
    while (stream->done < until) {
        late_t *late = stream->first;
        stream->first = late->next;
        if (NULL == stream->first) {
            stream->last = &stream->first;
        }
        ++stream->done;
        if (late->fails) {
            stream->failed = stream->done;
        } else if (
            late->moved
            < late->n) { /* a program may see its bytes, and free the memory, before that is asked */
            engine_copies((char *) late->to + late->moved, (const char *) late->from + late->moved,
                          late->n - late->moved);
        }
        free(late);
    }
}

static void stream_construct(test_stream_t *stream)
{
    stream->first = NULL;
    stream->last = &stream->first;
    stream->given = stream->done = stream->recorded = stream->failed = stream->ends = 0;
    stream->super.stream = stream;
}

/* A device would go on with them: into memory that is somebody else's. */
static void stream_destruct(test_stream_t *stream)
{
    if (stream->done < stream->given) {
        (void) fprintf(stderr, "test accelerator: a stream was freed with copies under way\n");
        abort();
    }
}

static OBJ_CLASS_INSTANCE(test_stream_t, opal_accelerator_stream_t, stream_construct,
                          stream_destruct);
static OBJ_CLASS_INSTANCE(test_event_t, opal_accelerator_event_t, NULL, NULL);

/* The stream of those who name none. */
static test_stream_t *stream_of(opal_accelerator_stream_t *named)
{
    static test_stream_t *own;
    if ((uintptr_t) named > 4096) {
        return (test_stream_t *) named;
    }
    (void) pthread_mutex_lock(&test.lock);
    if (NULL == own) {
        own = OBJ_NEW(test_stream_t);
    }
    (void) pthread_mutex_unlock(&test.lock);
    return own;
}

static int create_stream(int device, opal_accelerator_stream_t **stream)
{
    (void) device;
    if (!test.streams || !has_context) {
        return test.streams ? OPAL_ERROR : OPAL_ERR_NOT_SUPPORTED;
    }
    *stream = (opal_accelerator_stream_t *) OBJ_NEW(test_stream_t);
    return NULL == *stream ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_SUCCESS;
}

static int copy_late(int to_device, int from_device, void *to, const void *from, size_t n,
                     opal_accelerator_stream_t *named, opal_accelerator_transfer_type_t type)
{
    (void) to_device, (void) from_device, (void) type;
    test_stream_t *stream = stream_of(named);
    late_t *late = has_context ? malloc(sizeof(*late)) : NULL;
    if (NULL == late || NULL == stream) {
        free(late);
        return has_context ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERROR;
    }
    const uint64_t now = now_ns();
    (void) pthread_mutex_lock(&test.lock);
    *late =
        (late_t){.to = to, .from = from, .n = n, .begins = stream->ends > now ? stream->ends : now};
    late->ends = stream->ends = late->begins + engine_ns(n);
    late->fails = fails(to, from, n);
    *stream->last = late;
    stream->last = &late->next;
    ++stream->given;
    ++test.streamed;
    (void) pthread_mutex_unlock(&test.lock);
    return OPAL_SUCCESS;
}

static int new_event(opal_accelerator_event_t **event)
{
    test_event_t *fresh = has_context ? OBJ_NEW(test_event_t) : NULL;
    if (NULL == fresh) {
        return has_context ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERROR;
    }
    fresh->stream = NULL;
    fresh->ends = 0;
    fresh->super.event = fresh;
    *event = &fresh->super;
    return OPAL_SUCCESS;
}

static int record_event(int device, opal_accelerator_event_t *named, opal_accelerator_stream_t *on)
{
    (void) device;
    test_event_t *event = (test_event_t *) named;
    test_stream_t *stream = stream_of(on);
    if (NULL == stream) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    (void) pthread_mutex_lock(&test.lock);
    if (!has_context || test.refused > 0) {
        test.refused -= test.refused > 0;
        (void) pthread_mutex_unlock(&test.lock);
        return OPAL_ERROR;
    }
    event->stream = stream;
    event->from = stream->recorded;
    event->to = stream->recorded = stream->given;
    event->queries = 0;
    event->ends = stream->ends;
    (void) pthread_mutex_unlock(&test.lock);
    return OPAL_SUCCESS;
}

static int query_event(int device, opal_accelerator_event_t *named)
{
    (void) device;
    test_event_t *event = (test_event_t *) named;
    int rc = OPAL_SUCCESS;
    if (NULL == event->stream || !has_context) {
        return has_context ? OPAL_SUCCESS : OPAL_ERROR;
    }
    (void) pthread_mutex_lock(&test.lock);
    const uint64_t now = test.mb_s > 0 ? now_ns() : UINT64_MAX;
    if (event->stream->done < event->to
        && (++event->queries < test.queries || now < event->ends || test.is_held)) {
        rc = OPAL_ERR_RESOURCE_BUSY;
        if (test.mb_s > 0 && !test.is_held) {
            move_due(event->stream, now);
        }
    } else {
        run(event->stream, event->to);
        rc = event->stream->failed > event->from && event->stream->failed <= event->to
                 ? OPAL_ERROR
                 : OPAL_SUCCESS;
    }
    (void) pthread_mutex_unlock(&test.lock);
    return rc;
}

/* ---- memory ---- */

static int check_addr(const void *p, int *device, uint64_t *flags)
{
    *device = DEVICE;
    *flags = 0;
    has_context |= arena_is_device(p);
    return arena_is_device(p) ? 1 : 0;
}

static int mem_alloc(int device, void **p, size_t size)
{
    (void) device;
    *p = arena_take(size);
    return NULL == *p ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_SUCCESS;
}

static int mem_release(int device, void *p)
{
    (void) device;
    arena_give(p);
    return OPAL_SUCCESS;
}

static int get_address_range(int device, const void *p, void **base, size_t *size)
{
    (void) device;
    return arena_block(p, 1, base, size, NULL) ? OPAL_SUCCESS : OPAL_ERR_NOT_FOUND;
}

static int get_buffer_id(int device, const void *p, opal_accelerator_buffer_id_t *id)
{
    uint64_t number = 0;
    (void) device;
    if (!arena_block(p, 1, NULL, NULL, &number)) {
        return OPAL_ERR_NOT_FOUND;
    }
    *id = number;
    return OPAL_SUCCESS;
}

static int host_register(int device, void *p, size_t size)
{
    (void) device, (void) p, (void) size;
    return OPAL_SUCCESS;
}

static int host_unregister(int device, void *p)
{
    (void) device, (void) p;
    return OPAL_SUCCESS;
}

/* ---- the device ---- */

static int get_device(int *device)
{
    *device = DEVICE;
    return OPAL_SUCCESS;
}

static int can_access_peer(int *access, int one, int other)
{
    *access = one == other;
    return OPAL_SUCCESS;
}

#if OPAL_MAJOR_VERSION < 6

static int create_event(int device, opal_accelerator_event_t **event)
{
    (void) device;
    return new_event(event);
}

#    define EXTRAS .create_event = create_event

#else /* 6.0 */

static int create_event(int device, opal_accelerator_event_t **event, bool ipc)
{
    (void) device;
    return ipc ? OPAL_ERR_NOT_SUPPORTED : new_event(event);
}

static int sync_stream(opal_accelerator_stream_t *named)
{
    test_stream_t *stream = stream_of(named);
    wait_until(stream->ends);
    (void) pthread_mutex_lock(&test.lock);
    run(stream, stream->given);
    (void) pthread_mutex_unlock(&test.lock);
    return OPAL_SUCCESS;
}

/* What other streams get from here on is done behind the event: so it is now. */
static int wait_event(int device, opal_accelerator_event_t *named, opal_accelerator_stream_t *on)
{
    test_event_t *event = (test_event_t *) named;
    (void) device, (void) on;
    wait_until(event->ends);
    (void) pthread_mutex_lock(&test.lock);
    if (NULL != event->stream) {
        run(event->stream, event->to);
    }
    (void) pthread_mutex_unlock(&test.lock);
    return OPAL_SUCCESS;
}

static int mem_alloc_stream(int device, void **p, size_t size, opal_accelerator_stream_t *stream)
{
    (void) stream;
    return mem_alloc(device, p, size);
}

static int mem_release_stream(int device, void *p, opal_accelerator_stream_t *stream)
{
    (void) sync_stream(stream);
    return mem_release(device, p);
}

static bool is_ipc_enabled(void)
{
    return false;
}

static int get_ipc_handle(int device, void *p, opal_accelerator_ipc_handle_t *handle)
{
    (void) device, (void) p, (void) handle;
    return OPAL_ERR_NOT_SUPPORTED;
}

static int import_ipc_handle(int device, uint8_t bytes[IPC_MAX_HANDLE_SIZE],
                             opal_accelerator_ipc_handle_t *handle)
{
    (void) device, (void) bytes, (void) handle;
    return OPAL_ERR_NOT_SUPPORTED;
}

static int open_ipc_handle(int device, opal_accelerator_ipc_handle_t *handle, void **p)
{
    (void) device, (void) handle, (void) p;
    return OPAL_ERR_NOT_SUPPORTED;
}

static int compare_ipc_handles(uint8_t one[IPC_MAX_HANDLE_SIZE], uint8_t other[IPC_MAX_HANDLE_SIZE])
{
    return memcmp(one, other, IPC_MAX_HANDLE_SIZE);
}

static int get_ipc_event_handle(opal_accelerator_event_t *event,
                                opal_accelerator_ipc_event_handle_t *handle)
{
    (void) event, (void) handle;
    return OPAL_ERR_NOT_SUPPORTED;
}

static int import_ipc_event_handle(uint8_t bytes[IPC_MAX_HANDLE_SIZE],
                                   opal_accelerator_ipc_event_handle_t *handle)
{
    (void) bytes, (void) handle;
    return OPAL_ERR_NOT_SUPPORTED;
}

static int open_ipc_event_handle(opal_accelerator_ipc_event_handle_t *handle,
                                 opal_accelerator_event_t *event)
{
    (void) handle, (void) event;
    return OPAL_ERR_NOT_SUPPORTED;
}

static int get_device_pci_attr(int device, opal_accelerator_pci_attr_t *attributes)
{
    (void) device, (void) attributes;
    return OPAL_ERR_NOT_SUPPORTED;
}

static int num_devices(int *n)
{
    *n = 1;
    return OPAL_SUCCESS;
}

static int get_mem_bw(int device, float *bandwidth)
{
    (void) device;
    *bandwidth = 10;
    return OPAL_SUCCESS;
}

static void get_memkind(ompi_memkind_t *kind)
{
    kind->im_name = strdup("test");
    kind->im_no_restrictors = true;
    kind->im_num_restrictors = 0;
}

#    define EXTRAS                                                                                 \
        .create_event = create_event, .sync_stream = sync_stream, .wait_event = wait_event,        \
        .mem_move_async = copy_late, .mem_alloc_stream = mem_alloc_stream,                         \
        .mem_release_stream = mem_release_stream, .is_ipc_enabled = is_ipc_enabled,                \
        .get_ipc_handle = get_ipc_handle, .import_ipc_handle = import_ipc_handle,                  \
        .open_ipc_handle = open_ipc_handle, .compare_ipc_handles = compare_ipc_handles,            \
        .get_ipc_event_handle = get_ipc_event_handle,                                              \
        .import_ipc_event_handle = import_ipc_event_handle,                                        \
        .open_ipc_event_handle = open_ipc_event_handle,                                            \
        .get_device_pci_attr = get_device_pci_attr, .num_devices = num_devices,                    \
        .get_mem_bw = get_mem_bw, .get_memkind = get_memkind

#endif

static opal_accelerator_base_module_t module = {
    .check_addr = check_addr,
    .create_stream = create_stream,
    .record_event = record_event,
    .query_event = query_event,
    .mem_copy_async = copy_late,
    .mem_copy = copy,
    .mem_move = copy,
    .mem_alloc = mem_alloc,
    .mem_release = mem_release,
    .get_address_range = get_address_range,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .get_device = get_device,
    .device_can_access_peer = can_access_peer,
    .get_buffer_id = get_buffer_id,
    EXTRAS,
};

/* ---- for test programs: found by dlsym ---- */

#define PUBLIC __attribute__((visibility("default")))

/* The n-th copy from now on fails; 0: none does. */
PUBLIC void test_accelerator_fail(unsigned long long n);
void test_accelerator_fail(unsigned long long n)
{
    (void) pthread_mutex_lock(&test.lock);
    test.fails = 0 == n ? 0 : test.copies + n;
    (void) pthread_mutex_unlock(&test.lock);
}

/* Each copy from or to this byte of the device fails; NULL: none does. */
PUBLIC void test_accelerator_fail_at(const void *byte);
void test_accelerator_fail_at(const void *byte)
{
    (void) pthread_mutex_lock(&test.lock);
    test.bad = byte;
    (void) pthread_mutex_unlock(&test.lock);
}

/* Copies so far, of all kinds. */
PUBLIC unsigned long long test_accelerator_copies(void);
unsigned long long test_accelerator_copies(void)
{
    (void) pthread_mutex_lock(&test.lock);
    const unsigned long long copies = test.copies;
    (void) pthread_mutex_unlock(&test.lock);
    return copies;
}

/* Copies so far that streams were given. */
PUBLIC unsigned long long test_accelerator_streamed(void);
unsigned long long test_accelerator_streamed(void)
{
    (void) pthread_mutex_lock(&test.lock);
    const unsigned long long copies = test.streamed;
    (void) pthread_mutex_unlock(&test.lock);
    return copies;
}

/* While it is held no copy on a stream comes to an end, and none is made. */
PUBLIC void test_accelerator_pause(bool is_held);
void test_accelerator_pause(bool is_held)
{
    (void) pthread_mutex_lock(&test.lock);
    test.is_held = is_held;
    (void) pthread_mutex_unlock(&test.lock);
}

/* The next n events are not recorded. */
PUBLIC void test_accelerator_refuse(unsigned n);
void test_accelerator_refuse(unsigned n)
{
    (void) pthread_mutex_lock(&test.lock);
    test.refused = n;
    (void) pthread_mutex_unlock(&test.lock);
}

static opal_accelerator_stream_t *late_stream;
static opal_accelerator_event_t *late_event;

/* Begins one copy on a stream, of any memory; and asks the event behind it: 1: not yet, 0: done, -1: it has failed. */
PUBLIC bool test_accelerator_begin(void *to, const void *from, size_t n);
bool test_accelerator_begin(void *to, const void *from, size_t n)
{
    return (NULL != late_stream || OPAL_SUCCESS == create_stream(DEVICE, &late_stream))
           && (NULL != late_event || OPAL_SUCCESS == new_event(&late_event))
           && OPAL_SUCCESS
                  == copy_late(DEVICE, DEVICE, to, from, n, late_stream,
                               MCA_ACCELERATOR_TRANSFER_UNSPEC)
           && OPAL_SUCCESS == record_event(DEVICE, late_event, late_stream);
}

PUBLIC int test_accelerator_query(void);
int test_accelerator_query(void)
{
    const int rc = query_event(DEVICE, late_event);
    return OPAL_ERR_RESOURCE_BUSY == rc ? 1 : OPAL_SUCCESS == rc ? 0 : -1;
}

/* Device memory, by the address at which the program may touch it (arena.h); NULL: there is none. */
PUBLIC void *test_accelerator_take(size_t n);
void *test_accelerator_take(size_t n)
{
    void *device = arena_take(n);
    has_context = true;
    return NULL == device ? NULL : arena_shadow(device);
}

/* Gives back what the last returned. False: it is not of the device. */
PUBLIC bool test_accelerator_give(void *shadow);
bool test_accelerator_give(void *shadow)
{
    void *device = arena_device(shadow);
    if (!arena_is_device(device)) {
        return false;
    }
    arena_give(device);
    return true;
}

/* The address of these bytes that only the device may use; of other memory the address that it has. */
PUBLIC void *test_accelerator_address(const void *shadow);
void *test_accelerator_address(const void *shadow)
{
    return arena_device(shadow);
}

/* As arena_file. */
PUBLIC int test_accelerator_file(const void *p);
int test_accelerator_file(const void *p)
{
    return arena_file(p);
}

/* ---- the component ---- */

static int register_parameters(void)
{
    const mca_base_component_t *version = &mca_accelerator_test_component.base_version;
    test.queries = 3;
    (void) mca_base_component_var_register(
        version, "queries", "An event is complete when it has been queried so often. Default 3",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY,
        &test.queries);
    test.mb_s = 0;
    (void) mca_base_component_var_register(
        version, "mb_s",
        "What the copy engine moves, and a copy on no stream. Unit: MB/s; default 0: it takes no "
        "time",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY,
        &test.mb_s);
    test.streams = true;
    (void) mca_base_component_var_register(version, "streams", "Can streams be made? Default on",
                                           MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_9,
                                           MCA_BASE_VAR_SCOPE_READONLY, &test.streams);
    test.moves = true;
    (void) mca_base_component_var_register(
        version, "moves",
        "Off: copies on streams take their time but move nothing, as if an engine did it that "
        "needs no "
        "processor. For benchmarks: what arrives is wrong. Default on",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY,
        &test.moves);
    test.fails = 0;
    (void) mca_base_component_var_register(
        version, "fail", "The copy that fails, counted from 1 in each process. Default 0: none",
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, 0, 0, OPAL_INFO_LVL_9,
        MCA_BASE_VAR_SCOPE_READONLY, &test.fails);
    test.size = (size_t) 1 << 32;
    (void) mca_base_component_var_register(
        version, "size", "Memory of the device. Unit: bytes, default 4G", MCA_BASE_VAR_TYPE_SIZE_T,
        NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY, &test.size);
    return OPAL_SUCCESS;
}

/* Programs keep device memory beyond MPI_Finalize, and find us by dlsym: this library is global and stays. */
static bool stay(void)
{
    Dl_info self;
    return 0 != dladdr(&module, &self)
           && NULL != dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL | RTLD_NODELETE);
}

static opal_accelerator_base_module_t *begin(void)
{
    return arena_open(test.size) && stay() ? &module : NULL;
}

static void end(opal_accelerator_base_module_t *ours)
{
    (void) ours;
}

PUBLIC opal_accelerator_base_component_t mca_accelerator_test_component = {
    .base_version = {OPAL_ACCELERATOR_BASE_VERSION_1_0_0, .mca_component_name = "test",
                     .mca_component_major_version = OPAL_MAJOR_VERSION,
                     .mca_component_minor_version = OPAL_MINOR_VERSION,
                     .mca_component_release_version = OPAL_RELEASE_VERSION,
                     .mca_register_component_params = register_parameters},
    .base_data = {MCA_BASE_METADATA_PARAM_NONE},
    .accelerator_init = begin,
    .accelerator_finalize = end,
};
