/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
#define _GNU_SOURCE
#include "arena.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT ((size_t) 256)

typedef struct block {
    struct block *next; /* by address */
    size_t at, size;    /* from the arena's beginning */
    uint64_t id;
} block_t;

static struct {
    pthread_mutex_t lock;
    char *device, *shadow;
    size_t size;
    int file;
    block_t *first;
    uint64_t blocks; /* so many there have been */
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool arena_open(size_t size)
{
    if (NULL != arena.device) {
        return true;
    }
    const int file = memfd_create("accelerator", MFD_CLOEXEC);
    if (file < 0 || 0 != ftruncate(file, (off_t) size)) {
        return false;
    }
    void *device = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    void *shadow = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (MAP_FAILED == device || MAP_FAILED == shadow) {
        return false;
    }
    arena.size = size;
    arena.file = file;
    arena.shadow = shadow;
    arena.device = device;
    return true;
}

void *arena_take(size_t n)
{
    block_t *block = malloc(sizeof(*block));
    const size_t size = (n > 0 ? n + ALIGNMENT - 1 : ALIGNMENT) & ~(ALIGNMENT - 1);
    size_t at = 0;
    void *taken = NULL;
    (void) pthread_mutex_lock(&arena.lock);
    block_t **link = &arena.first;
    while (NULL != *link && (*link)->at - at < size) {
        at = (*link)->at + (*link)->size;
        link = &(*link)->next;
    }
    if (NULL != block && arena.size >= size && at <= arena.size - size) {
        *block = (block_t){.next = *link, .at = at, .size = size, .id = ++arena.blocks};
        *link = block;
        taken = arena.device + at;
        block = NULL;
    }
    (void) pthread_mutex_unlock(&arena.lock);
    free(block);
    return taken;
}

void arena_give(void *device)
{
    const size_t at = (size_t) ((char *) device - arena.device);
    block_t *gone = NULL;
    (void) pthread_mutex_lock(&arena.lock);
    for (block_t **link = &arena.first; NULL != *link; link = &(*link)->next) {
        if ((*link)->at == at) {
            gone = *link;
            *link = gone->next;
            break;
        }
    }
    (void) pthread_mutex_unlock(&arena.lock);
    free(gone);
}

static bool is_within(const void *p, const char *base)
{
    return NULL != base && (uintptr_t) p - (uintptr_t) base < arena.size;
}

bool arena_is_device(const void *p)
{
    return is_within(p, arena.device);
}

int arena_file(const void *p)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", arena.file);
    const int file = arena_is_device(p) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    return file >= 0 && lseek(file, (const char *) p - arena.device, SEEK_SET) >= 0 ? file : -1;
}

void *arena_shadow(const void *p)
{
    return is_within(p, arena.device) ? arena.shadow + ((const char *) p - arena.device)
                                      : (void *) (uintptr_t) p;
}

void *arena_device(const void *p)
{
    return is_within(p, arena.shadow) ? arena.device + ((const char *) p - arena.shadow)
                                      : (void *) (uintptr_t) p;
}

bool arena_block(const void *p, size_t n, void **base, size_t *size, uint64_t *id)
{
    const size_t at = (size_t) ((const char *) p - arena.device);
    bool found = false;
    (void) pthread_mutex_lock(&arena.lock);
    for (const block_t *block = arena.first; NULL != block && block->at <= at && !found;
         block = block->next) {
        if (at - block->at <= block->size && n <= block->size - (at - block->at)) {
            found = true;
            if (NULL != base) {
                *base = arena.device + block->at;
            }
            if (NULL != size) {
                *size = block->size;
            }
            if (NULL != id) {
                *id = block->id;
            }
        }
    }
    (void) pthread_mutex_unlock(&arena.lock);
    return found;
}
