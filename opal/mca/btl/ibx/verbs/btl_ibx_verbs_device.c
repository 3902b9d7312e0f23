/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See btl_ibx_verbs_device.h. */
#include "verbs/btl_ibx_verbs_device.h"

#include <dlfcn.h>

/* The CUDA driver (11.7 and later): whole pages of the host; 0: done. HANDLE: CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD. */
typedef int (*cuda_export_t)(void *handle, unsigned long long address, size_t size, int type, unsigned long long flags);
enum { CUDA_DMABUF = 1 };
/* HSA (ROCm 5.6 and later): any bytes, and where they begin in the file; 0: done. */
typedef int (*hsa_export_t)(const void *address, size_t size, int *file, uint64_t *offset);

static cuda_export_t cuda;
static hsa_export_t hsa;

static int export_cuda(void *base, size_t size, uint64_t *offset)
{
    int file = -1;
    *offset = 0;
    return 0 == cuda(&file, (unsigned long long) (uintptr_t) base, size, CUDA_DMABUF, 0) ? file : -1;
}

static int export_hsa(void *base, size_t size, uint64_t *offset)
{
    int file = -1;
    return 0 == hsa(base, size, &file, offset) ? file : -1;
}

/* A function of a library that the process has loaded, or NULL. */
static void *function_of(const char *library, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    void *handle = NULL == found ? dlopen(library, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (NULL != handle) {
        found = dlsym(handle, name);
        (void) dlclose(handle); /* the component keeps it loaded */
    }
    return found;
}

/* Of the accelerator whose component this is; NULL: none is known. */
static vb_export_t exporter_of(const char *component)
{
    if (0 == strcmp(component, "rocm")) {
        *(void **) &hsa = function_of("libhsa-runtime64.so.1", "hsa_amd_portable_export_dmabuf");
        return NULL == hsa ? NULL : export_hsa;
    }
    *(void **) &cuda = function_of("libcuda.so.1", "cuMemGetHandleForAddressRange");
    return NULL == cuda ? NULL : export_cuda;
}

/* NULL: it can; else why not. */
static const char *why_not(mca_btl_ibx_verbs_module_t *module)
{
    const char *component = mca_btl_ibx_device_component();
    int error = 0;
    if (VB_OFF == mca_btl_ibx_verbs_params.dmabuf) {
        return "btl_ibx_verbs_dmabuf is off";
    } else if (NULL == component) {
        return "Open MPI has no accelerator";
    } else if (vb_port_abilities(module->port)->datagrams) {
        return "peers are reached by datagrams, which a processor puts into memory";
    } else if (!vb_takes_dmabufs(vb_port_pd(module->port), &error)) {
        return strerror(error);
    }
    module->export = exporter_of(component);
    return NULL == module->export ? "the accelerator's library gives out no dma-bufs" : NULL;
}

void mca_btl_ibx_verbs_device_open(mca_btl_ibx_verbs_module_t *module)
{
    const char *why = why_not(module);
    if (NULL == why) {
        module->base.super.btl_flags |= MCA_BTL_IBX_FLAG_DEVICES;
    }
    SPEC_TELL(20, opal_btl_base_framework.framework_output, "btl/ibx: %s: memory of accelerators is reached: %s%s%s",
              module->base.interface.name, NULL == why ? "yes" : "no (", NULL == why ? "" : why, NULL == why ? "" : ")");
}
