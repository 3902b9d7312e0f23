/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See vb_dmabuf.h. */
#include "vb_dmabuf.h"

#include <errno.h>
#include <unistd.h>

#ifndef SPEC_NO_DMABUF

bool vb_takes_dmabufs(struct ibv_pd *pd, int *why)
{
    enum { NO_FILE = -1, BYTES = 4096 };
    errno = 0;
    struct ibv_mr *none = ibv_reg_dmabuf_mr(pd, 0, BYTES, 0, NO_FILE, IBV_ACCESS_LOCAL_WRITE);
    if (NULL != none) {
        (void) ibv_dereg_mr(none); /* of what? Whoever takes this is not to be trusted with more. */
        errno = EINVAL;
    }
    *why = errno;
    return EBADF == errno; /* it would have, but for the file */
}

struct ibv_mr *vb_register_device(struct ibv_pd *pd, vb_export_t export, void *base, size_t size, int access)
{
    uint64_t offset = 0;
    const int file = export(base, size, &offset);
    if (file < 0) {
        errno = EFAULT;
        return NULL;
    }
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, offset, size, (uint64_t) (uintptr_t) base, file, access);
    const int error = errno;
    (void) close(file); /* the registration holds the memory */
    errno = error;
    return mr;
}

#else /* an older libibverbs */

bool vb_takes_dmabufs(struct ibv_pd *pd, int *why)
{
    (void) pd;
    *why = ENOSYS;
    return false;
}

struct ibv_mr *vb_register_device(struct ibv_pd *pd, vb_export_t export, void *base, size_t size, int access)
{
    (void) pd, (void) export, (void) base, (void) size, (void) access;
    errno = ENOSYS;
    return NULL;
}

#endif
