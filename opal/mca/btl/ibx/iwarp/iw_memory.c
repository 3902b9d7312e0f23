/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Registers memory under random STags, and checks bounds and rights of each access. */
#include "iw_memory.h"

#include "iw_random.h"

#include <stdlib.h>

#define KEY_BITS 12
#define KEY_MASK ((1u << KEY_BITS) - 1)
#define PLACES   (1u << (32 - KEY_BITS))

void iw_memory_init(iw_memory_t *m, uint64_t seed)
{
    *m = (iw_memory_t){.random = seed};
}

void iw_memory_fini(iw_memory_t *m)
{
    for (uint32_t i = 0; i < m->chunks; ++i) {
        free(m->chunk[i]);
    }
    free(m->chunk);
    *m = (iw_memory_t){0};
}

static iw_region_t *region_at(const iw_memory_t *m, uint32_t index)
{
    return &m->chunk[index / IW_REGION_CHUNK][index % IW_REGION_CHUNK];
}

static bool grow(iw_memory_t *m)
{
    uint32_t first = m->chunks * IW_REGION_CHUNK;
    if (first >= PLACES) {
        return false;
    }
    iw_region_t **chunk = realloc(m->chunk, (m->chunks + 1) * sizeof(*chunk));
    if (NULL == chunk) {
        return false;
    }
    m->chunk = chunk;
    chunk[m->chunks] = calloc(IW_REGION_CHUNK, sizeof(**chunk));
    if (NULL == chunk[m->chunks]) {
        return false;
    }
    ++m->chunks;
    for (uint32_t i = IW_REGION_CHUNK; i-- > 0;) {
        region_at(m, first + i)->next_free = m->free_head;
        m->free_head = first + i + 1;
    }
    return true;
}

uint32_t iw_memory_add(iw_memory_t *m, void *base, uint64_t length, unsigned rights, void *peer,
                       void *owner, const iw_uses_t *uses)
{
    if (0 == m->free_head && !grow(m)) {
        return 0;
    }
    uint32_t index = m->free_head - 1;
    iw_region_t *r = region_at(m, index);
    m->free_head = r->next_free;
    /* Not the last one again, and not 0: then no STag is 0. (Guessing it still needs the key of the datagrams.) */
    uint16_t last = r->key;
    do {
        r->key = (uint16_t) (iw_random_next(&m->random) & KEY_MASK);
    } while (r->key == last || 0 == r->key);
    r->base = base;
    r->length = length;
    r->rights = (uint8_t) rights;
    r->peer = peer;
    r->owner = owner;
    r->uses = uses;
    ++m->in_use;
    return index << KEY_BITS | r->key;
}

static iw_region_t *find(const iw_memory_t *m, uint32_t stag)
{
    uint32_t index = stag >> KEY_BITS;
    if (index / IW_REGION_CHUNK >= m->chunks) {
        return NULL;
    }
    iw_region_t *r = region_at(m, index);
    return NULL == r->base || r->key != (stag & KEY_MASK) ? NULL : r;
}

bool iw_memory_remove(iw_memory_t *m, uint32_t stag)
{
    iw_region_t *r = find(m, stag);
    if (NULL == r) {
        return false;
    }
    r->base = NULL;
    r->next_free = m->free_head;
    m->free_head = (stag >> KEY_BITS) + 1;
    --m->in_use;
    return true;
}

uint32_t iw_memory_ended(const iw_memory_t *m, uint32_t stag)
{
    const iw_region_t *r = find(m, stag);
    return NULL == r || NULL == r->uses ? 0 : atomic_load(&r->uses->ended);
}

iw_access_t iw_memory_check(const iw_memory_t *m, uint32_t stag, const void *peer, unsigned rights,
                            uint64_t to, uint64_t length, uint8_t **at, const iw_region_t **region)
{
    const iw_region_t *r = find(m, stag);
    if (NULL == r || (NULL != r->peer && peer != r->peer)
        || (NULL != r->uses && 0 == atomic_load(&r->uses->count))) {
        return IW_ACCESS_STAG;
    }
    if (rights != (r->rights & rights)) {
        return IW_ACCESS_RIGHTS;
    }
    /* In this form nothing can overflow. */
    if (to > r->length || length > r->length - to) {
        return IW_ACCESS_BOUNDS;
    }
    *at = r->base + to;
    if (NULL != region) {
        *region = r;
    }
    return IW_ACCESS_OK;
}
