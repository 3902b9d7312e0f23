/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory of another process of this host, which the kernel copies from or to in one call (cross memory attach,
 * process_vm_readv(2)): a put or get of datagrams takes two copies, two tags and a call for each datagram instead.
 *
 * A number of a process means nothing in another container, and another process may have it later. So each transfer asks
 * whether the process is the one that is meant: it has the key, a secret of the job, at the address that it published.
 *
 * Plain C. Threads: any. */
#ifndef IW_CMA_H
#define IW_CMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IW_CMA_KEY 16 /* bytes */

typedef struct iw_cma {
    pid_t pid;       /* 0: not reached this way */
    uint64_t key_at; /* address there */
    uint8_t key[IW_CMA_KEY];
} iw_cma_t;

/* What a process says of itself is in *peer: may its memory be reached? If not, for whatever reason - another host or container,
 * no right, no such call - peer->pid is 0 afterwards. */
void iw_cma_meet(iw_cma_t *peer);

/* Copies `length` bytes from here to there, or from there to here. False: not all of it was copied, or the process is another
 * one; then nothing was written to it. */
bool iw_cma_put(const iw_cma_t *peer, const void *local, uint64_t remote, size_t length);
bool iw_cma_get(const iw_cma_t *peer, void *local, uint64_t remote, size_t length);

#endif
