/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Copies that the test accelerator (test/accel) makes beside the processor:
 *   - by a thread that never used the device, so that it has no context of its driver: it waits for a message in host memory, and
 *     makes the progress of another one, whose buffer is the device's;
 *   - although no event can be recorded where they are to be made, as if another device were current: the copy is made otherwise.
 * Both at the receiver, and at the sender. */
#include "testlib.h"

#include <pthread.h>

enum { SIZE = 1 << 20, LARGE = 3, SMALL = 4 };

static struct {
    void *(*take)(size_t);
    bool (*give)(void *);
    void *(*address)(const void *);
    void (*refuse)(unsigned);
} device;

static bool find_device(void)
{
    *(void **) &device.take = dlsym(NULL, "test_accelerator_take");
    *(void **) &device.give = dlsym(NULL, "test_accelerator_give");
    *(void **) &device.address = dlsym(NULL, "test_accelerator_address");
    *(void **) &device.refuse = dlsym(NULL, "test_accelerator_refuse");
    return NULL != device.take && NULL != device.give && NULL != device.address && NULL != device.refuse;
}

static void *receive_small(void *from)
{
    int word = 0;
    MPI_Recv(&word, 1, MPI_INT, *(int *) from, SMALL, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

/* A thread of this process makes all progress until the other process, which has its buffer in host memory, is through. */
static void by_a_thread(MPI_Request *request, bool is_here, int peer)
{
    if (is_here) {
        pthread_t thread;
        if (CHECK(0 == pthread_create(&thread, NULL, receive_small, &peer), "there is no thread")) {
            (void) pthread_join(thread, NULL);
        }
    }
    const int code = MPI_Wait(request, MPI_STATUS_IGNORE);
    CHECK(MPI_SUCCESS == code, "the message ended with code %d", code);
    if (!is_here) {
        MPI_Send(&(int){0}, 1, MPI_INT, peer, SMALL, MPI_COMM_WORLD);
    }
}

static void pass(bool sender_has_device, bool refuses, uint64_t key)
{
    const int peer = 1 - tl.rank;
    const bool sends = 0 == tl.rank, is_here = sends == sender_has_device;
    char *see = is_here ? device.take(SIZE) : malloc(SIZE), *buffer = is_here ? device.address(see) : see;
    MPI_Request request;
    tl_poison(see, SIZE);
    if (sends) {
        tl_fill(see, SIZE, key);
        MPI_Isend(buffer, SIZE, MPI_BYTE, peer, LARGE, MPI_COMM_WORLD, &request);
    } else {
        MPI_Irecv(buffer, SIZE, MPI_BYTE, peer, LARGE, MPI_COMM_WORLD, &request);
    }
    device.refuse(refuses && is_here ? 1 : 0);
    if (refuses) {
        const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(MPI_SUCCESS == code, "the message ended with code %d", code);
    } else {
        by_a_thread(&request, is_here, peer);
    }
    device.refuse(0);
    if (!sends) {
        VERIFY(see, SIZE, key);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_here) {
        CHECK(device.give(see), "device memory was not taken back");
    } else {
        free(see);
    }
}

int main(int argc, char **argv)
{
    const int level = tl_start_thread(&argc, &argv, "device_late", 60, MPI_THREAD_MULTIPLE);
    if (level < MPI_THREAD_MULTIPLE || !find_device()) {
        tl_skip(level < MPI_THREAD_MULTIPLE ? "there is no MPI_THREAD_MULTIPLE" : "there is no test accelerator");
        return tl_finish();
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 8; ++i) {
        tl_step(i & 2 ? "no event can be recorded" : "a thread without a context");
        pass(i & 1, i & 2, (uint64_t) i + 1);
    }
    return tl_finish();
}
