/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory that other processes of this host map: a file without a name in any file system, so that nothing of it outlives the
 * process, found among the open files of its process below /proc. It cannot shrink, and its pages are there: so no access to it
 * fails later. A process of another user, or of a container with processes of its own, does not reach it.
 *
 * There are several kinds of such memory; a process has one of each, made when it is first asked for, and maps those of others once.
 * Peers are counted that use it. That of a process of another job, which may be disconnected from this one and end, is unmapped with
 * the last of them; of this job's there are no more than its processes, and they stay.
 *
 * Threads: any, but for fini. Nothing of MPI is called under the lock of a kind. */
#ifndef PML_SPEC_SHARE_H
#define PML_SPEC_SHARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What each begins with. */
typedef struct mca_pml_spec_share_head {
    uint64_t magic;
    uint64_t name; /* of the process */
} mca_pml_spec_share_head_t;

/* Another process's. */
typedef struct mca_pml_spec_share_of {
    struct mca_pml_spec_share_of *next;
    uint64_t name;
    void *at; /* begins with a head. What is in it the other process may change at any time. NULL: it is not reached */
    uint32_t users;
    uint32_t pid;
    uint32_t thread; /* of that process: pml_spec_rings.c; 0: not seen yet */
} mca_pml_spec_share_of_t;

typedef struct mca_pml_spec_share {
    const char *what; /* the file's name, as it stands in /proc/.../maps */
    uint64_t magic;
    size_t size;
    bool populates;       /* all of it is in the process's page table from the beginning */
    pthread_mutex_t lock; /* covers what follows; `mine` is read without */
    bool has_tried;
    void *mine;
    int fd; /* its file, as others find it; and this process, to them */
    uint32_t pid;
    mca_pml_spec_share_of_t *others;
} mca_pml_spec_share_t;

/* For a static one. */
#define MCA_PML_SPEC_SHARE(what_, magic_, size_, populates_)                                       \
    {                                                                                              \
        .what = (what_), .magic = (magic_), .size = (size_), .populates = (populates_),            \
        .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1                                                \
    }

/* Slow path of the next. */
void *mca_pml_spec_share_make(mca_pml_spec_share_t *share);

/* This process's, zeroed behind its head when it is made. NULL: there is none to be had. */
static inline void *mca_pml_spec_share_mine(mca_pml_spec_share_t *share)
{
    void *mine = __atomic_load_n(&share->mine, __ATOMIC_ACQUIRE);
    return __builtin_expect(NULL != mine, 1) ? mine : mca_pml_spec_share_make(share);
}

/* That of the process of this name, into *at, which is a user of it from then on; or what is there already. Where it is found a packet has
 * said. NULL: memory is out. */
mca_pml_spec_share_of_t *mca_pml_spec_share_find(mca_pml_spec_share_t *share,
                                                 mca_pml_spec_share_of_t **at, uint64_t name,
                                                 uint32_t pid, uint16_t fd);

/* *at, which may be NULL, is no user any more. */
void mca_pml_spec_share_leave(mca_pml_spec_share_t *share, mca_pml_spec_share_of_t **at);

void mca_pml_spec_share_fini(mca_pml_spec_share_t *share);

#endif
