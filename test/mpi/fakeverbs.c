/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Loaded before a program: an RDMA adapter that is not there (test/unit/fake_verbs.h) in place of libibverbs and librdmacm, of
 * every address of the host (FAKE_NO_ADDRESSES: without any, so that datagrams connect; FAKE_NO_RDMA_CM: and without rdma_cm), from
 * which nobody is ever reached. Messages and puts wait for their connection. */
#define _GNU_SOURCE
#include "fake_verbs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OF_ALL __attribute__((visibility("default")))

__attribute__((constructor)) static void begin(void)
{
    fake_reset();
    fake.any_address = true;
    fake.silent = true;
    fake.no_addresses = NULL != getenv("FAKE_NO_ADDRESSES");
    fake.no_rdma_cm = NULL != getenv("FAKE_NO_RDMA_CM");
}

/* It searches adapters there. */
OF_ALL int access(const char *path, int mode)
{
    return 0 == strcmp(path, "/sys/class/infiniband") ? 0 : (int) syscall(SYS_faccessat, AT_FDCWD, path, mode);
}
