/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Handles: what stands on the wire instead of a pointer.
 *
 * A handle is (generation << 32 | index). The generation of a slot changes each time it is freed,
 * so that a late or forged handle finds nothing instead of another request. Slots live in chunks
 * that never move. 0 is never a handle.
 *
 * Threads: the caller's lock. Memory: grows to the largest number of handles in use at once. */
#ifndef SPEC_HANDLE_H
#define SPEC_HANDLE_H

#include <stdint.h>

#define SPEC_HANDLE_CHUNK 256u

typedef struct spec_handle_slot {
    void *object; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
} spec_handle_slot_t;

typedef struct spec_handle_table {
    spec_handle_slot_t **chunk;
    uint32_t chunks;
    uint32_t free_head; /* index + 1 of the first free slot, 0 for none */
} spec_handle_table_t;

/* A handle for object (not NULL), or 0 when memory is out. A zeroed table is an empty one. */
uint64_t spec_handle_open(spec_handle_table_t *t, void *object);

/* The object, or NULL when the handle is stale or never was. */
void *spec_handle_find(const spec_handle_table_t *t, uint64_t handle);

/* End a handle. Returns its object, or NULL when there was none. */
void *spec_handle_close(spec_handle_table_t *t, uint64_t handle);

/* The object of the first open handle from *cursor on, which moves behind it; NULL: no more. */
void *spec_handle_next(const spec_handle_table_t *t, uint32_t *cursor);

void spec_handle_fini(spec_handle_table_t *t);

#endif
