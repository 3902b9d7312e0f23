/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Makes and maps sealed memory files (memfd_create). */
#include "pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_share.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void *map(int fd, size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return MAP_FAILED == at ? NULL : at;
}

void *mca_pml_spec_share_make(const char *name, size_t size, int *fd)
{
    void *at = NULL;
    *fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0) {
        return NULL;
    }
    if (*fd <= UINT16_MAX && 0 == posix_fallocate(*fd, 0, (off_t) size)
        && 0 == fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        at = map(*fd, size);
    }
    if (NULL == at) {
        (void) close(*fd);
        *fd = -1;
    }
    return at;
}

static bool is_one(const struct stat *status, size_t size)
{
    return S_ISREG(status->st_mode) && (off_t) size == status->st_size;
}

/* Only a file that cannot shrink, of the right size, is touched; and no other is opened, for to open a device does something. */
void *mca_pml_spec_share_reach(uint32_t pid, uint16_t fd_there, size_t size)
{
    char path[64];
    struct stat status;
    void *at = NULL;
    (void) snprintf(path, sizeof(path), "/proc/%u/fd/%u", (unsigned) pid, (unsigned) fd_there);
    const int fd =
        0 == stat(path, &status) && is_one(&status, size) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) {
        return NULL;
    }
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals >= 0 && (seals & F_SEAL_SHRINK) && 0 == fstat(fd, &status) && is_one(&status, size)) {
        at = map(fd, size);
    }
    (void) close(fd);
    return at;
}
