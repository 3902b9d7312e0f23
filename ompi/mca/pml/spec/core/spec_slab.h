/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Slabs: memory for packets that have to be kept, of any size, in any order, for a short time.
 *
 * A slab is a piece of memory of SPEC_SLAB_SIZE bytes, aligned to as much, cut into equal parts. Of how many
 * parts depends on the size asked for, so that little more than an eighth is lost to rounding for all but the largest: a
 * packet of 4 KiB and its header take 4.3 KiB and not 8. Parts that were never given out have never been touched,
 * so what is left of a slab takes no memory. A part that comes back is the next to be given out, while it is in the cache.
 *
 * A slab of which nothing is in use waits for its next use, of whatever size. If nothing was taken between two
 * calls of spec_slabs_quiet, such slabs are given back: a burst costs memory as long as it lasts, and a while. A slab with
 * one packet in it keeps all that was ever used of it.
 *
 * Larger than SPEC_SLAB_MAX: from malloc.
 *
 * Pure: the caller maps, and says when time has passed. Threads: the caller's lock. */
#ifndef SPEC_SLAB_H
#define SPEC_SLAB_H

#include "spec_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPEC_SLAB_SIZE   ((size_t) 128 * 1024)
#define SPEC_SLAB_HEADER ((size_t) 64) /* bytes of a slab that are its own */
#define SPEC_SLAB_MAX    (SPEC_SLAB_SIZE - SPEC_SLAB_HEADER)
#define SPEC_SLAB_MIN    ((size_t) 128) /* bytes of the smallest part */
#define SPEC_SLAB_KINDS  63 /* numbers of parts: the four highest bits of it, up to 1023 */

typedef struct spec_slabs {
    spec_node_t some[SPEC_SLAB_KINDS]; /* slabs of a kind with a part in use and one that is free */
    spec_node_t unused;                /* slabs, of no kind now */
    void *(*map)(void);                /* a new slab's memory, or NULL */
    void (*unmap)(void *slab);
    bool taken; /* since the last spec_slabs_quiet */
} spec_slabs_t;

void spec_slabs_init(spec_slabs_t *s, void *(*map)(void), void (*unmap)(void *slab));

/* Memory of size bytes, aligned to 16, until spec_slab_put; NULL if there is none. */
void *spec_slab_take(spec_slabs_t *s, size_t size);

/* Back. size: as it was taken. */
void spec_slab_put(spec_slabs_t *s, void *memory, size_t size);

/* Is there anything to give back? */
static inline bool spec_slabs_idle(const spec_slabs_t *s)
{
    return !spec_list_is_empty(&s->unused);
}

/* Time has passed. True: it was not quiet, ask again later; else what was not used has been given back. */
bool spec_slabs_quiet(spec_slabs_t *s);

/* What is not used, at once. */
void spec_slabs_give_back(spec_slabs_t *s);

#endif
