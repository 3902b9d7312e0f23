/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A pool of equal objects: allocated in chunks up to a bound, handed out and taken back without
 * malloc. The first word of a free object links it. Not threaded. */
#ifndef IW_POOL_H
#define IW_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct iw_pool {
    void *free;
    void *chunks;
    size_t size;
    uint32_t each; /* objects of a chunk */
    uint32_t max;
    uint32_t made;
    uint32_t in_use;
} iw_pool_t;

static inline void iw_pool_init(iw_pool_t *p, size_t size, uint32_t each, uint32_t max)
{
    *p = (iw_pool_t){.size = (size + 15) / 16 * 16, .each = each, .max = max};
}

static inline bool iw_pool_grow(iw_pool_t *p)
{
    uint32_t n = p->max - p->made < p->each ? p->max - p->made : p->each;
    if (0 == n) {
        return false;
    }
    char *chunk = malloc(16 + n * p->size);
    if (NULL == chunk) {
        return false;
    }
    *(void **) chunk = p->chunks;
    p->chunks = chunk;
    for (uint32_t i = n; i-- > 0;) {
        void **object = (void **) (chunk + 16 + i * p->size);
        *object = p->free;
        p->free = object;
    }
    p->made += n;
    return true;
}

static inline void *iw_pool_get(iw_pool_t *p)
{
    if (NULL == p->free && !iw_pool_grow(p)) {
        return NULL;
    }
    void **object = p->free;
    p->free = *object;
    ++p->in_use;
    return object;
}

static inline void iw_pool_put(iw_pool_t *p, void *object)
{
    *(void **) object = p->free;
    p->free = object;
    --p->in_use;
}

static inline void iw_pool_fini(iw_pool_t *p)
{
    for (void *next, *chunk = p->chunks; NULL != chunk; chunk = next) {
        next = *(void **) chunk;
        free(chunk);
    }
    *p = (iw_pool_t){0};
}

#endif
