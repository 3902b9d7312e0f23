/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registered memory of a device (GPU): its driver gives out a file (dma-buf) for a piece of it, which the adapter's driver takes
 * (ibv_reg_dmabuf_mr(3), rdma-core 34). Then the adapter reads and writes the device by itself.
 *
 * Threads: any. */
#ifndef VB_DMABUF_H
#define VB_DMABUF_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file for [base, base + size) of device memory, which the caller closes, and where in it that begins. -1: the device
 * gives none. */
typedef int (*vb_export_t)(void *base, size_t size, uint64_t *offset);

/* Does the adapter take such files? No memory is needed to find out: it is asked with a file that there is not. why: not, an
 * errno. */
bool vb_takes_dmabufs(struct ibv_pd *pd, int *why);

/* Registers [base, base + size), which peers and work requests name by its addresses. NULL, with errno: EFAULT, the device
 * gives no file; else as ibv_reg_dmabuf_mr. Ended by ibv_dereg_mr. */
struct ibv_mr *vb_register_device(struct ibv_pd *pd, vb_export_t export, void *base, size_t size, int access);

#endif
