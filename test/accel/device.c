/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Loaded before a test program (LD_PRELOAD), it puts the program's message buffers into the memory of the test accelerator
 * (accelerator_test.c) without a change to the program: testlib.h takes a buffer from device_take, which returns an address
 * that the program may touch, and the point-to-point calls of MPI are wrapped here and give MPI the other address of the same
 * memory, which nobody may touch but the device.
 *
 * DEVICE=all: each buffer; some: two of three, so that messages also go between a device and a host. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *(*take)(size_t);
static bool (*give)(void *);
static void *(*address)(const void *);

/* The component comes with MPI_Init. */
static bool is_here(void)
{
    if (NULL == address) {
        *(void **) &take = dlsym(RTLD_DEFAULT, "test_accelerator_take");
        *(void **) &give = dlsym(RTLD_DEFAULT, "test_accelerator_give");
        *(void **) &address = dlsym(RTLD_DEFAULT, "test_accelerator_address");
    }
    return NULL != take && NULL != give && NULL != address;
}

/* As malloc and free; NULL and false: not of the device. */
void *device_take(size_t n);
void *device_take(size_t n)
{
    static unsigned taken;
    const char *which = getenv("DEVICE");
    const bool some = NULL != which && 0 == strcmp(which, "some");
    if (!is_here() || (some && 0 == __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED) % 3)) {
        return NULL;
    }
    return take(n);
}

bool device_give(void *p);
bool device_give(void *p)
{
    return is_here() && give(p);
}

static void *on_device(const void *p)
{
    return is_here() ? address(p) : (void *) (size_t) p;
}

#define SENDS(name)                                                                                \
    int MPI_##name(const void *buf, int n, MPI_Datatype type, int dst, int tag, MPI_Comm comm)     \
    {                                                                                              \
        return PMPI_##name(on_device(buf), n, type, dst, tag, comm);                               \
    }
SENDS(Send)
SENDS(Ssend)
SENDS(Bsend)
SENDS(Rsend)

#define STARTS(name)                                                                               \
    int MPI_##name(const void *buf, int n, MPI_Datatype type, int dst, int tag, MPI_Comm comm,     \
                   MPI_Request *request)                                                           \
    {                                                                                              \
        return PMPI_##name(on_device(buf), n, type, dst, tag, comm, request);                      \
    }
STARTS(Isend)
STARTS(Issend)
STARTS(Ibsend)
STARTS(Irsend)
STARTS(Send_init)
STARTS(Ssend_init)
STARTS(Bsend_init)
STARTS(Rsend_init)

int MPI_Recv(void *buf, int n, MPI_Datatype type, int src, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    return PMPI_Recv(on_device(buf), n, type, src, tag, comm, status);
}

int MPI_Irecv(void *buf, int n, MPI_Datatype type, int src, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return PMPI_Irecv(on_device(buf), n, type, src, tag, comm, request);
}

int MPI_Recv_init(void *buf, int n, MPI_Datatype type, int src, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    return PMPI_Recv_init(on_device(buf), n, type, src, tag, comm, request);
}

int MPI_Mrecv(void *buf, int n, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    return PMPI_Mrecv(on_device(buf), n, type, message, status);
}

int MPI_Imrecv(void *buf, int n, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    return PMPI_Imrecv(on_device(buf), n, type, message, request);
}

int MPI_Sendrecv(const void *out, int out_n, MPI_Datatype out_type, int dst, int out_tag, void *in,
                 int in_n, MPI_Datatype in_type, int src, int in_tag, MPI_Comm comm,
                 MPI_Status *status)
{
    return PMPI_Sendrecv(on_device(out), out_n, out_type, dst, out_tag, on_device(in), in_n,
                         in_type, src, in_tag, comm, status);
}
