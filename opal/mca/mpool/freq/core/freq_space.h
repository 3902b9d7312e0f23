/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The allocator of the pool: hands out runs of units of a memory segment and takes them back, without touching the memory (004
 * section III.C.2: allocations below the second threshold come from one registered segment).
 *
 * Words
 *   unit   what the space is counted in; the caller knows how many bytes it stands for
 *   block  a run of units that is used or free; blocks touch each other and cover the space
 *
 * A request takes the smallest free block that suffices (best fit: Knuth, TAOCP 1, 2.5). What is left of the
 * block stays free at once, a block that is given back is joined with its free neighbours at once: two free
 * blocks never touch, so that they are few.
 *
 * The records are apart from the memory they speak of. What a program writes beyond its allocation
 * does not damage them, and the space can be tested without any memory. A unit that begins no block
 * has a record of size 0: giving back what was not given out is noticed.
 *
 * Threads: none of its own; the caller sees to it that one thread at a time is here. Errors:
 * FREQ_SPACE_NONE. */
#ifndef FREQ_SPACE_H
#define FREQ_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#define FREQ_SPACE_NONE UINT32_MAX

typedef struct freq_space_record {
    uint32_t size;        /* units, 0: no block begins here */
    uint32_t before : 31; /* size of the block before, 0: none */
    uint32_t used : 1;
    uint32_t next, prev; /* in the list of free blocks */
} freq_space_record_t;
_Static_assert(sizeof(freq_space_record_t) == 16, "the records are an overhead per unit");

typedef struct freq_space {
    uint32_t units, used;        /* of all blocks, of the used ones */
    uint32_t free;               /* the first in their list */
    freq_space_record_t *record; /* one per unit */
} freq_space_t;

/* Makes all of 1 to 2^30 units free. `record` has a zeroed record per unit, stays the
 * caller's and is used until the space is forgotten. */
void freq_space_init(freq_space_t *space, freq_space_record_t *record, uint32_t units);

/* First of `units` units whose number, counted from `origin`, is a multiple of `alignment` (a power
 * of two): origin + first is. FREQ_SPACE_NONE: no free block is large enough, or units is 0. */
uint32_t freq_space_take(freq_space_t *space, uint32_t units, uint64_t alignment, uint64_t origin);

/* Gives back what freq_space_take returned. False: nothing that begins there is given out. */
bool freq_space_give(freq_space_t *space, uint32_t first);

/* Size of the block that was given out there, 0: none. */
uint32_t freq_space_size(const freq_space_t *space, uint32_t first);

#endif
