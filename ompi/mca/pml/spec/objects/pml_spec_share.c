/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Makes and maps sealed memory files (memfd_create), and unmaps those of processes that nobody has to do with any more. */
#include "pml_spec_compat.h" /* first: it asks for GNU's functions */

#include "pml_spec_share.h"

#include "pml_spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void *map(int fd, const mca_pml_spec_share_t *share)
{
    void *at = mmap(NULL, share->size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | (share->populates ? MAP_POPULATE : 0), fd, 0);
    return MAP_FAILED == at ? NULL : at;
}

/* ---- of this process ---- */

/* Its pages are there from now on. A signal that comes in between undoes what one call has done: so it is asked for in pieces. */
static bool reserve(int fd, size_t size)
{
    enum { PIECE = 1 << 16, SIGNALS = 100 };
    int rc = 0;
    unsigned signals = 0;
    for (size_t at = 0; at < size && 0 == rc; at += PIECE) {
        do {
            rc = posix_fallocate(fd, (off_t) at, (off_t) (size - at < PIECE ? size - at : PIECE));
        } while (EINTR == rc && ++signals < SIGNALS);
    }
    return 0 == rc;
}

static void *make(const mca_pml_spec_share_t *share, int *fd)
{
    void *at = NULL;
    *fd = memfd_create(share->what, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0) {
        return NULL;
    }
    if (*fd <= UINT16_MAX && reserve(*fd, share->size)
        && 0 == fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        at = map(*fd, share);
    }
    if (NULL == at) {
        (void) close(*fd);
        *fd = -1;
    }
    return at;
}

void *mca_pml_spec_share_make(mca_pml_spec_share_t *share)
{
    (void) pthread_mutex_lock(&share->lock);
    if (!share->has_tried) {
        share->has_tried = true;
        mca_pml_spec_share_head_t *head = make(share, &share->fd);
        if (NULL != head) {
            *head = (mca_pml_spec_share_head_t){.magic = share->magic, .name = mca_pml_spec.my_name};
            share->pid = (uint32_t) getpid();
        }
        __atomic_store_n(&share->mine, head, __ATOMIC_RELEASE);
    }
    void *mine = share->mine;
    (void) pthread_mutex_unlock(&share->lock);
    return mine;
}

/* ---- of others ---- */

static bool is_one(const struct stat *status, size_t size)
{
    return S_ISREG(status->st_mode) && (off_t) size == status->st_size;
}

/* Only a file that cannot shrink, of the right size, is touched; and no other is opened, for to open a device does something. */
static void *reach(uint32_t pid, uint16_t fd_there, const mca_pml_spec_share_t *share)
{
    const size_t size = share->size;
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
        at = map(fd, share);
    }
    (void) close(fd);
    return at;
}

/* Is it that of this process, as it says? */
static void *reach_named(const mca_pml_spec_share_t *share, uint64_t name, uint32_t pid,
                         uint16_t fd)
{
    const mca_pml_spec_share_head_t *head = reach(pid, fd, share);
    if (NULL != head && (share->magic != head->magic || name != head->name)) {
        (void) munmap((void *) (uintptr_t) head, share->size);
        head = NULL;
    }
    return (void *) (uintptr_t) head;
}

static void forget(const mca_pml_spec_share_t *share, mca_pml_spec_share_of_t *of)
{
    if (NULL != of->at) {
        (void) munmap(of->at, share->size);
    }
    free(of);
}

mca_pml_spec_share_of_t *mca_pml_spec_share_find(mca_pml_spec_share_t *share,
                                                 mca_pml_spec_share_of_t **at, uint64_t name,
                                                 uint32_t pid, uint16_t fd)
{
    (void) pthread_mutex_lock(&share->lock);
    mca_pml_spec_share_of_t *of = *at;
    if (NULL == of) {
        of = share->others;
        while (NULL != of && of->name != name) {
            of = of->next;
        }
        if (NULL == of && NULL != (of = malloc(sizeof(*of)))) {
            *of = (mca_pml_spec_share_of_t){.next = share->others,
                                            .name = name,
                                            .at = reach_named(share, name, pid, fd),
                                            .pid = pid};
            share->others = of;
            MCA_PML_SPEC_VERBOSE(10, "%s of process %llx: %s", share->what,
                                 (unsigned long long) name,
                                 NULL == of->at ? "not reached, and not used" : "found");
        }
        if (NULL != of) {
            ++of->users;
        }
        __atomic_store_n(at, of, __ATOMIC_RELEASE);
    }
    (void) pthread_mutex_unlock(&share->lock);
    return of;
}

void mca_pml_spec_share_leave(mca_pml_spec_share_t *share, mca_pml_spec_share_of_t **at)
{
    (void) pthread_mutex_lock(&share->lock);
    mca_pml_spec_share_of_t *of = *at;
    *at = NULL;
    if (NULL != of && 0 == --of->users && of->name >> 32 != mca_pml_spec_job_id()) {
        mca_pml_spec_share_of_t **link = &share->others;
        while (*link != of) {
            link = &(*link)->next;
        }
        *link = of->next;
        forget(share, of);
    }
    (void) pthread_mutex_unlock(&share->lock);
}

void mca_pml_spec_share_fini(mca_pml_spec_share_t *share)
{
    while (NULL != share->others) {
        mca_pml_spec_share_of_t *of = share->others;
        share->others = of->next;
        forget(share, of);
    }
    if (NULL != share->mine) {
        (void) munmap(share->mine, share->size);
        (void) close(share->fd);
    }
    share->mine = NULL;
    share->fd = -1;
    share->has_tried = false;
}
