/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Puts and gets by the kernel, between processes of one host. */
#define _GNU_SOURCE /* process_vm_readv */
#include "iw_cma.h"

#include <string.h>
#include <sys/uio.h>

/* A call copies less than 2 GiB. */
#define PART_MAX ((size_t) 1 << 30)

static void *address(uint64_t at)
{
    return (void *) (uintptr_t) at;
}

/* Does the process have the key? With `length` more bytes of it that are copied here by the same call. */
static bool read_with_key(const iw_cma_t *peer, void *local, uint64_t remote, size_t length)
{
    uint8_t key[IW_CMA_KEY];
    const struct iovec here[] = {{key, sizeof(key)}, {local, length}};
    const struct iovec there[] = {{address(peer->key_at), sizeof(key)}, {address(remote), length}};
    const unsigned count = 0 == length ? 1 : 2;
    return (ssize_t) (sizeof(key) + length) == process_vm_readv(peer->pid, here, count, there, count, 0)
           && 0 == memcmp(key, peer->key, sizeof(key));
}

void iw_cma_meet(iw_cma_t *peer)
{
    if (0 != peer->pid && !read_with_key(peer, NULL, 0, 0)) {
        peer->pid = 0;
    }
}

bool iw_cma_get(const iw_cma_t *peer, void *local, uint64_t remote, size_t length)
{
    for (size_t done = 0; done < length;) {
        const size_t n = length - done < PART_MAX ? length - done : PART_MAX;
        if (!read_with_key(peer, (char *) local + done, remote + done, n)) {
            return false;
        }
        done += n;
    }
    return true;
}

bool iw_cma_put(const iw_cma_t *peer, const void *local, uint64_t remote, size_t length)
{
    if (!read_with_key(peer, NULL, 0, 0)) {
        return false;
    }
    for (size_t done = 0; done < length;) {
        const size_t n = length - done < PART_MAX ? length - done : PART_MAX;
        const struct iovec here = {(char *) (uintptr_t) local + done, n}, there = {address(remote + done), n};
        const ssize_t copied = process_vm_writev(peer->pid, &here, 1, &there, 1, 0);
        if (copied <= 0) {
            return false;
        }
        done += (size_t) copied;
    }
    return true;
}
