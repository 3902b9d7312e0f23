/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A small hash table from numbers to pointers: queue pairs, peers, ids. Linear probing, at most half
 * full; a removed entry is closed by moving the next ones up, so that lookups stay short. */
#ifndef VB_MAP_H
#define VB_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct vb_map {
    struct vb_map_slot {
        uint64_t key;
        void *value; /* NULL: free */
    } * slot;
    uint32_t mask, used;
} vb_map_t;

static inline uint32_t vb_map_home(const vb_map_t *map, uint64_t key)
{
    return (uint32_t) ((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & map->mask;
}

/* Where the key is, or belongs. */
static inline uint32_t vb_map_find(const vb_map_t *map, uint64_t key)
{
    uint32_t i = vb_map_home(map, key);
    while (NULL != map->slot[i].value && map->slot[i].key != key) {
        i = (i + 1) & map->mask;
    }
    return i;
}

static inline void *vb_map_get(const vb_map_t *map, uint64_t key)
{
    return NULL == map->slot ? NULL : map->slot[vb_map_find(map, key)].value;
}

static inline void vb_map_slot(vb_map_t *map, uint64_t key, void *value)
{
    struct vb_map_slot *slot = &map->slot[vb_map_find(map, key)];
    map->used += NULL == slot->value;
    *slot = (struct vb_map_slot){key, value};
}

/* value is not NULL. False: out of memory. */
static inline bool vb_map_put(vb_map_t *map, uint64_t key, void *value)
{
    if (NULL == map->slot || 2 * (map->used + 1) > map->mask + 1) {
        vb_map_t larger = {.mask = NULL == map->slot ? 15 : 2 * map->mask + 1};
        larger.slot = calloc((size_t) larger.mask + 1, sizeof(*larger.slot));
        if (NULL == larger.slot) {
            return false;
        }
        for (uint32_t i = 0; NULL != map->slot && i <= map->mask; ++i) {
            if (NULL != map->slot[i].value) {
                vb_map_slot(&larger, map->slot[i].key, map->slot[i].value);
            }
        }
        free(map->slot);
        *map = larger;
    }
    vb_map_slot(map, key, value);
    return true;
}

static inline void vb_map_remove(vb_map_t *map, uint64_t key)
{
    if (NULL == vb_map_get(map, key)) {
        return;
    }
    uint32_t i = vb_map_find(map, key);
    --map->used;
    for (uint32_t j = (i + 1) & map->mask; NULL != map->slot[j].value; j = (j + 1) & map->mask) {
        /* May j's entry move to i? Not if its home lies behind i on the way to j. */
        if (((j - vb_map_home(map, map->slot[j].key)) & map->mask) >= ((j - i) & map->mask)) {
            map->slot[i] = map->slot[j];
            i = j;
        }
    }
    map->slot[i].value = NULL;
}

static inline void vb_map_free(vb_map_t *map)
{
    free(map->slot);
    *map = (vb_map_t){.slot = NULL};
}

#endif
