/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Of the interface of the CUDA driver (version 10), by its documentation, what Open MPI 4.1 is compiled with and what the tests'
 * own driver (cuda_driver.c) has: names and numbers. Programs for real devices need the real header. */
#ifndef CUDA_H
#define CUDA_H

#include <stddef.h>

#define CUDA_VERSION 10000

typedef enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_ALREADY_MAPPED = 208,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801
} CUresult;

typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

typedef enum {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEMORYTYPE_ARRAY = 3,
    CU_MEMORYTYPE_UNIFIED = 4
} CUmemorytype;

typedef enum {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
} CUpointer_attribute;

#define CU_EVENT_DISABLE_TIMING            2
#define CU_EVENT_INTERPROCESS              4
#define CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS 1

typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

typedef struct CUipcEventHandle_st {
    char reserved[64];
} CUipcEventHandle;

CUresult cuInit(unsigned flags);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice one, CUdevice other);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuMemAlloc(CUdeviceptr *p, size_t n);
CUresult cuMemFree(CUdeviceptr p);
CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr p);
CUresult cuMemHostRegister(void *p, size_t n, unsigned flags);
CUresult cuMemHostUnregister(void *p);
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr p);
CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr p);
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr p);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamDestroy(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventDestroy(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr p);
CUresult cuIpcOpenMemHandle(CUdeviceptr *p, CUipcMemHandle handle, unsigned flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr p);
CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event);
CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle);

#endif
