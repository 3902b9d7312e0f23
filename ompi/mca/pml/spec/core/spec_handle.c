/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The table of handles: numbers that stand for requests on the wire, and are checked when they come back. */
#include "spec_handle.h"

#include <stdlib.h>
#include <string.h>

static spec_handle_slot_t *slot_at(const spec_handle_table_t *t, uint32_t index)
{
    return &t->chunk[index / SPEC_HANDLE_CHUNK][index % SPEC_HANDLE_CHUNK];
}

static int grow(spec_handle_table_t *t)
{
    spec_handle_slot_t **chunk = realloc(t->chunk, (t->chunks + 1) * sizeof(*chunk));
    if (NULL == chunk) {
        return -1;
    }
    t->chunk = chunk;
    chunk[t->chunks] = calloc(SPEC_HANDLE_CHUNK, sizeof(**chunk));
    if (NULL == chunk[t->chunks]) {
        return -1;
    }
    uint32_t first = t->chunks++ * SPEC_HANDLE_CHUNK;
    for (uint32_t i = SPEC_HANDLE_CHUNK; i-- > 0;) {
        spec_handle_slot_t *slot = slot_at(t, first + i);
        slot->generation = 1;
        slot->next_free = t->free_head;
        t->free_head = first + i + 1;
    }
    return 0;
}

uint64_t spec_handle_open(spec_handle_table_t *t, void *object)
{
    if (0 == t->free_head && 0 != grow(t)) {
        return 0;
    }
    uint32_t index = t->free_head - 1;
    spec_handle_slot_t *slot = slot_at(t, index);
    t->free_head = slot->next_free;
    slot->object = object;
    return (uint64_t) slot->generation << 32 | index;
}

static spec_handle_slot_t *slot_of(const spec_handle_table_t *t, uint64_t handle)
{
    uint32_t index = (uint32_t) handle;
    if (index / SPEC_HANDLE_CHUNK >= t->chunks) {
        return NULL;
    }
    spec_handle_slot_t *slot = slot_at(t, index);
    return NULL == slot->object || slot->generation != handle >> 32 ? NULL : slot;
}

void *spec_handle_find(const spec_handle_table_t *t, uint64_t handle)
{
    spec_handle_slot_t *slot = slot_of(t, handle);
    return NULL == slot ? NULL : slot->object;
}

void *spec_handle_close(spec_handle_table_t *t, uint64_t handle)
{
    spec_handle_slot_t *slot = slot_of(t, handle);
    if (NULL == slot) {
        return NULL;
    }
    void *object = slot->object;
    slot->object = NULL;
    if (0 == ++slot->generation) {
        slot->generation = 1; /* 0 with index 0 would be the handle 0 */
    }
    slot->next_free = t->free_head;
    t->free_head = (uint32_t) handle + 1;
    return object;
}

void *spec_handle_next(const spec_handle_table_t *t, uint32_t *cursor)
{
    while (*cursor < t->chunks * SPEC_HANDLE_CHUNK) {
        void *object = slot_at(t, (*cursor)++)->object;
        if (NULL != object) {
            return object;
        }
    }
    return NULL;
}

void spec_handle_fini(spec_handle_table_t *t)
{
    for (uint32_t i = 0; i < t->chunks; ++i) {
        free(t->chunk[i]);
    }
    free(t->chunk);
    memset(t, 0, sizeof(*t));
}
