/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Loaded before a test program (LD_PRELOAD), it puts the program's message buffers into the memory of the test accelerator
 * (accelerator_test.c) without a change to the program: testlib.h takes a buffer from device_take, which returns an address
 * that the program may touch, and the point-to-point calls of MPI are wrapped here and give MPI the other address of the same
 * memory, which nobody may touch but the device.
 *
 * DEVICE=all: each buffer; some: two of three, so that messages also go between a device and a host. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* ---- dma-bufs: what the CUDA driver and a kernel whose adapter takes them would do ---- */

/* A file that begins with the address: its position says where that is. */
int cuMemGetHandleForAddressRange(void *handle, unsigned long long address, size_t size, int type, unsigned long long flags);
int cuMemGetHandleForAddressRange(void *handle, unsigned long long address, size_t size, int type, unsigned long long flags)
{
    int (*file)(const void *);
    *(void **) &file = dlsym(RTLD_DEFAULT, "test_accelerator_file");
    const int opened = NULL == file || 1 != type || 0 != flags || 0 != address % 4096 || 0 != size % 4096
                           ? -1
                           : file((const void *) (size_t) address);
    if (opened >= 0) {
        *(int *) handle = opened;
    }
    return opened >= 0 ? 0 : 1; /* CUDA_ERROR_INVALID_VALUE */
}

/* The adapter (rxe; siw takes no other addresses than the mapping's) registers a mapping of the file, by the device's addresses. The
 * mapping stays. */
void *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int file, int access);
void *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int file, int access)
{
    void *(*reg)(void *, void *, size_t, uint64_t, unsigned);
    const off_t begins = lseek(file, 0, SEEK_CUR);
    if (begins < 0) {
        errno = EBADF;
        return NULL;
    }
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *(void **) &reg = NULL == library ? NULL : dlsym(library, "ibv_reg_mr_iova2");
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, begins + (off_t) offset);
    if (NULL == reg || MAP_FAILED == memory) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    return reg(pd, memory, length, iova, (unsigned) access);
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
