/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What each engine of the simulated network has allocated: malloc, calloc, realloc and free of the program's own, linked in place
 * of the system's, count it; the network's own memory is the system's. */
#ifndef IW_COUNTED_H
#define IW_COUNTED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

/* The simulated network's memory is not counted. */
#define malloc  __real_malloc
#define calloc  __real_calloc
#define realloc __real_realloc
#define free    __real_free
#include "iw_fan.h"
#undef malloc
#undef calloc
#undef realloc
#undef free

/* Before each piece. */
typedef union counted_head {
    struct {
        size_t bytes;
        unsigned owner;
    };
    max_align_t aligned;
} counted_head_t;

static size_t counted_now[LINK_ENGINES], counted_most[LINK_ENGINES]; /* bytes of each engine's */

/* Forgets what was most. */
static inline void counted_reset(void)
{
    memcpy(counted_most, counted_now, sizeof(counted_most));
}

static void *counted_add(counted_head_t *h, size_t size)
{
    if (NULL == h) {
        return NULL;
    }
    *h = (counted_head_t){.bytes = size, .owner = link_acts};
    counted_now[h->owner] += size;
    if (counted_now[h->owner] > counted_most[h->owner]) {
        counted_most[h->owner] = counted_now[h->owner];
    }
    return h + 1;
}

void *__wrap_malloc(size_t size)
{
    return counted_add(__real_malloc(sizeof(counted_head_t) + size), size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return counted_add(__real_calloc(1, sizeof(counted_head_t) + n * size), n * size);
}

void __wrap_free(void *p)
{
    if (NULL != p) {
        counted_head_t *h = (counted_head_t *) p - 1;
        counted_now[h->owner] -= h->bytes;
        __real_free(h);
    }
}

/* Always moves, so that both are there for a moment. */
void *__wrap_realloc(void *p, size_t size)
{
    void *moved = __wrap_malloc(size);
    if (NULL != p && NULL != moved) {
        const size_t before = ((counted_head_t *) p - 1)->bytes;
        memcpy(moved, p, before < size ? before : size);
        __wrap_free(p);
    }
    return moved;
}

#endif
