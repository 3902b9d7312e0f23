/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* An allocator for packets of any size that are kept for a short time: slabs, and when they may go back. */
#include "spec_slab.h"

#include <stdlib.h>

/* What is free is a list through the parts themselves. */
typedef struct part {
    struct part *next;
} part_t;

typedef struct slab {
    spec_node_t node; /* some[kind] or unused, or in no list: full */
    part_t *free;     /* came back */
    uint32_t kind;
    uint32_t size; /* bytes of a part */
    uint32_t parts;
    uint32_t touched; /* parts given out at least once: the first ones */
    uint32_t used;
} slab_t;

_Static_assert(sizeof(slab_t) <= SPEC_SLAB_HEADER,
               "a slab's own bytes do not hold what it has to remember");
_Static_assert(SPEC_SLAB_MAX / SPEC_SLAB_MIN <= 1023, "there are not kinds enough");

/* Of n parts only the four highest bits count; the kinds are numbered from 0. */
static uint32_t kind_of(uint32_t n, uint32_t *parts)
{
    uint32_t shift = 0;
    while (n >> shift > 15) {
        ++shift;
    }
    *parts = n >> shift << shift;
    return 0 == shift ? n - 1 : 15 + 8 * (shift - 1) + (n >> shift) - 8;
}

static size_t rounded(size_t size)
{
    return size < SPEC_SLAB_MIN ? SPEC_SLAB_MIN : (size + 15) & ~(size_t) 15;
}

void spec_slabs_init(spec_slabs_t *s, void *(*map)(void), void (*unmap)(void *slab))
{
    *s = (spec_slabs_t){.map = map, .unmap = unmap};
    for (size_t i = 0; i < SPEC_SLAB_KINDS; ++i) {
        spec_list_init(&s->some[i]);
    }
    spec_list_init(&s->unused);
}

static slab_t *slab_of_kind(spec_slabs_t *s, uint32_t kind, uint32_t parts)
{
    spec_node_t *node = spec_list_first(&s->some[kind]);
    if (NULL != node) {
        return SPEC_ENTRY(node, slab_t, node);
    }
    node = spec_list_pop(&s->unused);
    slab_t *slab = NULL == node ? s->map() : SPEC_ENTRY(node, slab_t, node);
    if (NULL == slab) {
        return NULL;
    }
    *slab = (slab_t){
        .kind = kind, .parts = parts, .size = (uint32_t) (SPEC_SLAB_MAX / parts) & ~UINT32_C(15)};
    spec_list_append(&s->some[kind], &slab->node);
    return slab;
}

void *spec_slab_take(spec_slabs_t *s, size_t size)
{
    if (size > SPEC_SLAB_MAX) {
        return malloc(size);
    }
    uint32_t parts;
    const uint32_t kind = kind_of((uint32_t) SPEC_SLAB_MAX / (uint32_t) rounded(size), &parts);
    slab_t *slab = slab_of_kind(s, kind, parts);
    if (NULL == slab) {
        return NULL;
    }
    s->taken = true;
    part_t *part = slab->free;
    if (NULL != part) {
        slab->free = part->next;
    } else {
        part = (part_t *) (void *) ((char *) slab + SPEC_SLAB_HEADER
                                    + (size_t) slab->touched++ * slab->size);
    }
    if (++slab->used == slab->parts) {
        spec_list_remove(&slab->node);
    }
    return part;
}

void spec_slab_put(spec_slabs_t *s, void *memory, size_t size)
{
    if (size > SPEC_SLAB_MAX) {
        free(memory);
        return;
    }
    slab_t *slab = (slab_t *) ((uintptr_t) memory & ~(uintptr_t) (SPEC_SLAB_SIZE - 1));
    part_t *part = memory;
    part->next = slab->free;
    slab->free = part;
    if (slab->used-- == slab->parts) {
        spec_list_insert_after(&s->some[slab->kind], &slab->node);
    }
    if (0 == slab->used) {
        spec_list_remove(&slab->node);
        spec_list_insert_after(&s->unused, &slab->node);
    }
}

void spec_slabs_give_back(spec_slabs_t *s)
{
    spec_node_t *node;
    while (NULL != (node = spec_list_pop(&s->unused))) {
        s->unmap(SPEC_ENTRY(node, slab_t, node));
    }
}

bool spec_slabs_quiet(spec_slabs_t *s)
{
    if (s->taken) {
        s->taken = false;
        return true;
    }
    spec_slabs_give_back(s);
    return false;
}
