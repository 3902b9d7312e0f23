/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* libcuda.so.1 for tests: what Open MPI 4.1 asks of the CUDA driver, of a device without hardware, whose memory (arena.h) the
 * processor may not touch. It is strict where a driver is:
 *   - a thread needs a context for a copy, and a new one has none (CUDA_ERROR_INVALID_CONTEXT);
 *   - a copy on a stream between the device and registered host memory is done when the stream or an event behind it is waited
 *     for, or at the third query of that event, no earlier; with other host memory it is done at once;
 *   - the n-th copy can be made to fail, or those of one byte.
 * What no device allows, a copy from or to memory that was freed, ends the process with a message. Nothing is shared with
 * other processes (CUDA_ERROR_NOT_SUPPORTED).
 *
 * A program gets its context, as by the run-time library, with its first memory. Test programs reach this by the
 * functions test_accelerator_*, which dlsym finds (device.c). */
#include "arena.h"
#include "cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default) /* components are compiled without */

enum { DEVICE = 0, QUERIES = 3 };
#define ARENA ((size_t) 1 << 32)

struct CUctx_st {
    int device;
};

typedef struct late {
    struct late *next;
    void *to;
    const void *from;
    size_t n;
    bool fails;
} late_t;

/* Copies are numbered from 1 in the order in which a stream gets them. */
struct CUstream_st {
    struct CUstream_st *next;
    late_t *first, **last;
    unsigned long long given, done;
    unsigned long long failed;   /* the last that did */
    unsigned long long reported; /* failures up to this one */
};

struct CUevent_st {
    struct CUstream_st *stream; /* NULL: it was never recorded */
    unsigned long long to;      /* it is behind this copy */
    unsigned queries;
};

typedef struct range {
    struct range *next;
    char *p;
    size_t n;
} range_t;

static struct CUctx_st the_context = {.device = DEVICE};
static _Thread_local CUcontext current;

static struct {
    pthread_mutex_t lock; /* covers all of these, and streams and events */
    bool begun;
    unsigned long long fails, copies, streamed;
    bool is_held;
    const char *bad; /* a byte whose copies fail, or NULL */
    struct CUstream_st own, *streams; /* `own`: of those that name none */
    range_t *registered;
} test = {.lock = PTHREAD_MUTEX_INITIALIZER, .own.last = &test.own.first};

static void lock(void)
{
    (void) pthread_mutex_lock(&test.lock);
}

static void unlock(void)
{
    (void) pthread_mutex_unlock(&test.lock);
}

static void *pointer(CUdeviceptr p)
{
    return (void *) (uintptr_t) p;
}

/* ---- contexts ---- */

CUresult cuInit(unsigned flags)
{
    lock();
    const bool good = 0 == flags && (test.begun || arena_open(ARENA));
    test.begun = test.begun || good;
    unlock();
    return good ? CUDA_SUCCESS : 0 == flags ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}

static bool has_begun(void)
{
    lock();
    const bool begun = test.begun;
    unlock();
    return begun;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = DEVICE;
    return DEVICE == ordinal ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice one, CUdevice other)
{
    (void) one, (void) other;
    *can = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = current;
    return has_begun() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return has_begun() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = DEVICE;
    return NULL != current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- memory ---- */

CUresult cuMemAlloc(CUdeviceptr *p, size_t n)
{
    if (NULL == current) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    void *taken = arena_take(n);
    *p = (CUdeviceptr) (uintptr_t) taken;
    return NULL == taken ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr p)
{
    if (!arena_is_device(pointer(p))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    arena_give(pointer(p));
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
    void *begin = NULL;
    size_t length = 0;
    if (!arena_is_device(pointer(p)) || !arena_block(pointer(p), 1, &begin, &length, NULL)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL != base) {
        *base = (CUdeviceptr) (uintptr_t) begin;
    }
    if (NULL != size) {
        *size = length;
    }
    return CUDA_SUCCESS;
}

/* Of registered host memory, what has a byte of these. The lock is held. */
static range_t **registered(const char *p, size_t n)
{
    range_t **link = &test.registered;
    while (NULL != *link && !(p < (*link)->p + (*link)->n && (*link)->p < p + n)) {
        link = &(*link)->next;
    }
    return link;
}

CUresult cuMemHostRegister(void *p, size_t n, unsigned flags)
{
    (void) flags;
    if (NULL == current) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    range_t *range = malloc(sizeof(*range));
    if (NULL == range || 0 == n) {
        free(range);
        return NULL == range ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    lock();
    const bool fresh = NULL == *registered(p, n);
    if (fresh) {
        *range = (range_t){.next = test.registered, .p = p, .n = n};
        test.registered = range;
    }
    unlock();
    if (!fresh) {
        free(range);
    }
    return fresh ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void *p)
{
    range_t *gone = NULL;
    lock();
    range_t **link = registered(p, 1);
    if (NULL != *link && (*link)->p == p) {
        gone = *link;
        *link = gone->next;
    }
    unlock();
    free(gone);
    return NULL != gone ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static bool is_registered(const void *p, size_t n)
{
    lock();
    const bool is = NULL != *registered(p, n > 0 ? n : 1);
    unlock();
    return is;
}

/* Of an address that is none of CUDA's, `known` is false and all is 0. */
static CUresult attribute_of(void *value, CUpointer_attribute attribute, const void *p, bool *known)
{
    const bool device = arena_is_device(p) && arena_block(p, 1, NULL, NULL, NULL);
    uint64_t id = 0;
    *known = device || is_registered(p, 1);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *) value = *known ? &the_context : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *) value = device ? CU_MEMORYTYPE_DEVICE : *known ? CU_MEMORYTYPE_HOST : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *) value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *) value = *known ? DEVICE : -2;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        if (device) {
            (void) arena_block(p, 1, NULL, NULL, &id);
        }
        *(unsigned long long *) value = id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr p)
{
    bool known = false;
    if (!has_begun()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    const CUresult result = attribute_of(value, attribute, pointer(p), &known);
    return CUDA_SUCCESS == result && !known ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr p)
{
    CUresult result = has_begun() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    for (unsigned i = 0; i < n && CUDA_SUCCESS == result; ++i) {
        bool known;
        result = attribute_of(values[i], attributes[i], pointer(p), &known);
    }
    return result;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr p)
{
    (void) value;
    return CU_POINTER_ATTRIBUTE_SYNC_MEMOPS == attribute && arena_is_device(pointer(p))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

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

/* The lock is held. */
static void run(struct CUstream_st *stream, unsigned long long until)
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
        } else {
            copy_now(late->to, late->from, late->n);
        }
        free(late);
    }
}

/* The stream of those that name none waits for all others. */
static void run_all(void)
{
    run(&test.own, test.own.given);
    for (struct CUstream_st *each = test.streams; NULL != each; each = each->next) {
        run(each, each->given);
    }
}

static CUresult late(struct CUstream_st *stream, void *to, const void *from, size_t n)
{
    late_t *fresh = malloc(sizeof(*fresh));
    if (NULL == fresh) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *fresh = (late_t){.to = to, .from = from, .n = n};
    lock();
    fresh->fails = fails(to, from, n);
    *stream->last = fresh;
    stream->last = &fresh->next;
    ++stream->given;
    ++test.streamed;
    unlock();
    return CUDA_SUCCESS;
}

static CUresult at_once(struct CUstream_st *stream, void *to, const void *from, size_t n)
{
    lock();
    const bool failed = fails(to, from, n);
    if (stream == &test.own) {
        run_all();
    } else {
        run(stream, stream->given);
    }
    if (!failed) {
        copy_now(to, from, n);
    }
    unlock();
    return failed ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    return NULL == current ? CUDA_ERROR_INVALID_CONTEXT
                           : at_once(&test.own, pointer(to), pointer(from), n);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream)
{
    const bool to_device = arena_is_device(pointer(to)), from_device = arena_is_device(pointer(from));
    if (NULL == current) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    stream = NULL == stream ? &test.own : stream;
    if ((to_device && from_device) || (to_device && is_registered(pointer(from), n))
        || (from_device && is_registered(pointer(to), n))) {
        return late(stream, pointer(to), pointer(from), n);
    }
    return at_once(stream, pointer(to), pointer(from), n);
}

/* ---- streams and events ---- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void) flags;
    struct CUstream_st *fresh = NULL == current ? NULL : calloc(1, sizeof(*fresh));
    if (NULL == fresh) {
        return NULL == current ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_OUT_OF_MEMORY;
    }
    fresh->last = &fresh->first;
    lock();
    fresh->next = test.streams;
    test.streams = fresh;
    unlock();
    *stream = fresh;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    lock();
    run(stream, stream->given);
    struct CUstream_st **link = &test.streams;
    while (NULL != *link && *link != stream) {
        link = &(*link)->next;
    }
    if (NULL != *link) {
        *link = stream->next;
    }
    unlock();
    free(stream);
    return CUDA_SUCCESS;
}

/* A failure is told once. The lock is held. */
static CUresult outcome(struct CUstream_st *stream, unsigned long long until)
{
    const bool failed = stream->failed > stream->reported && stream->failed <= until;
    if (failed) {
        stream->reported = stream->failed;
    }
    return failed ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    if (NULL == current) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    stream = NULL == stream ? &test.own : stream;
    lock();
    if (stream == &test.own) {
        run_all();
    } else {
        run(stream, stream->given);
    }
    const CUresult result = outcome(stream, stream->given);
    unlock();
    return result;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void) flags;
    *event = NULL == current ? NULL : calloc(1, sizeof(**event));
    return NULL != *event   ? CUDA_SUCCESS
           : NULL == current ? CUDA_ERROR_INVALID_CONTEXT
                             : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventDestroy(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    if (NULL == current) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    lock();
    event->stream = NULL == stream ? &test.own : stream;
    event->to = event->stream->given;
    event->queries = 0;
    unlock();
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    CUresult result = CUDA_SUCCESS;
    lock();
    if (NULL != event->stream && event->stream->done < event->to && (++event->queries < QUERIES || test.is_held)) {
        result = CUDA_ERROR_NOT_READY;
    } else if (NULL != event->stream) {
        run(event->stream, event->to);
        result = outcome(event->stream, event->to);
    }
    unlock();
    return result;
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = CUDA_SUCCESS;
    lock();
    if (NULL != event->stream) {
        run(event->stream, event->to);
        result = outcome(event->stream, event->to);
    }
    unlock();
    return result;
}

/* What the stream gets from here on is done behind the event: so that is done now. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void) stream, (void) flags;
    lock();
    if (NULL != event->stream) {
        run(event->stream, event->to);
    }
    unlock();
    return CUDA_SUCCESS;
}

/* ---- nothing is shared ---- */

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr p)
{
    (void) handle, (void) p;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *p, CUipcMemHandle handle, unsigned flags)
{
    (void) p, (void) handle, (void) flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr p)
{
    (void) p;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    (void) handle, (void) event;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    (void) event, (void) handle;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- for test programs, as those of accelerator_test.c ---- */

void *test_accelerator_take(size_t n);
bool test_accelerator_give(void *shadow);
void *test_accelerator_address(const void *shadow);
int test_accelerator_file(const void *p);
void test_accelerator_fail(unsigned long long n);
void test_accelerator_fail_at(const void *byte);
unsigned long long test_accelerator_copies(void);
unsigned long long test_accelerator_streamed(void);
void test_accelerator_pause(bool is_held);
bool test_accelerator_begin(void *to, const void *from, size_t n);
int test_accelerator_query(void);

void *test_accelerator_take(size_t n)
{
    CUdeviceptr device = 0;
    if (CUDA_SUCCESS != cuInit(0)) {
        return NULL;
    }
    current = &the_context;
    return CUDA_SUCCESS == cuMemAlloc(&device, n) ? arena_shadow(pointer(device)) : NULL;
}

bool test_accelerator_give(void *shadow)
{
    return CUDA_SUCCESS == cuMemFree((CUdeviceptr) (uintptr_t) arena_device(shadow));
}

void *test_accelerator_address(const void *shadow)
{
    return arena_device(shadow);
}

int test_accelerator_file(const void *p)
{
    return arena_file(p);
}

void test_accelerator_fail(unsigned long long n)
{
    lock();
    test.fails = 0 == n ? 0 : test.copies + n;
    unlock();
}

void test_accelerator_fail_at(const void *byte)
{
    lock();
    test.bad = byte;
    unlock();
}

unsigned long long test_accelerator_copies(void)
{
    lock();
    const unsigned long long copies = test.copies;
    unlock();
    return copies;
}

unsigned long long test_accelerator_streamed(void)
{
    lock();
    const unsigned long long streamed = test.streamed;
    unlock();
    return streamed;
}

void test_accelerator_pause(bool is_held)
{
    lock();
    test.is_held = is_held;
    unlock();
}

static CUstream late_stream;
static CUevent late_event;

bool test_accelerator_begin(void *to, const void *from, size_t n)
{
    return (NULL != late_stream || CUDA_SUCCESS == cuStreamCreate(&late_stream, 0))
           && (NULL != late_event || CUDA_SUCCESS == cuEventCreate(&late_event, 0))
           && CUDA_SUCCESS == late(late_stream, to, from, n)
           && CUDA_SUCCESS == cuEventRecord(late_event, late_stream);
}

int test_accelerator_query(void)
{
    const CUresult result = cuEventQuery(late_event);
    return CUDA_ERROR_NOT_READY == result ? 1 : CUDA_SUCCESS == result ? 0 : -1;
}
