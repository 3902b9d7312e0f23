/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See freq_space.h: blocks with their size at both ends, and a list of the free ones. */
#include "freq_space.h"

static void list_add(freq_space_t *space, uint32_t first)
{
    freq_space_record_t *record = &space->record[first];
    record->prev = FREQ_SPACE_NONE;
    record->next = space->free;
    if (FREQ_SPACE_NONE != space->free) {
        space->record[space->free].prev = first;
    }
    space->free = first;
}

static void list_remove(freq_space_t *space, uint32_t first)
{
    const freq_space_record_t *record = &space->record[first];
    if (FREQ_SPACE_NONE != record->next) {
        space->record[record->next].prev = record->prev;
    }
    if (FREQ_SPACE_NONE != record->prev) {
        space->record[record->prev].next = record->next;
    } else {
        space->free = record->next;
    }
}

/* A block of that size begins there; tells the block behind it. */
static void set_block(freq_space_t *space, uint32_t first, uint32_t size, bool used)
{
    freq_space_record_t *record = &space->record[first];
    record->size = size;
    record->used = used;
    if (first + size < space->units) {
        space->record[first + size].before = size;
    }
}

void freq_space_init(freq_space_t *space, freq_space_record_t *record, uint32_t units)
{
    *space = (freq_space_t){.units = units, .free = FREQ_SPACE_NONE, .record = record};
    record[0].before = 0;
    set_block(space, 0, units, false);
    list_add(space, 0);
}

/* Units to leave out at the front of a free block to be aligned. */
static uint64_t gap_of(uint32_t first, uint64_t alignment, uint64_t origin)
{
    return (0 - (origin + first)) & (alignment - 1);
}

static bool fits(const freq_space_t *space, uint32_t first, uint32_t units, uint64_t alignment,
                 uint64_t origin)
{
    return space->record[first].size >= units
           && gap_of(first, alignment, origin) <= space->record[first].size - units;
}

/* The smallest free block that suffices. */
static uint32_t find(const freq_space_t *space, uint32_t units, uint64_t alignment, uint64_t origin)
{
    uint32_t best = FREQ_SPACE_NONE;
    for (uint32_t first = space->free; FREQ_SPACE_NONE != first;
         first = space->record[first].next) {
        if (fits(space, first, units, alignment, origin)
            && (FREQ_SPACE_NONE == best || space->record[first].size < space->record[best].size)) {
            best = first;
        }
    }
    return best;
}

uint32_t freq_space_take(freq_space_t *space, uint32_t units, uint64_t alignment, uint64_t origin)
{
    uint32_t first = 0 == units ? FREQ_SPACE_NONE : find(space, units, alignment, origin);
    if (FREQ_SPACE_NONE == first) {
        return FREQ_SPACE_NONE;
    }
    uint32_t size = space->record[first].size;
    const uint32_t gap = (uint32_t) gap_of(first, alignment, origin);
    list_remove(space, first);
    if (gap > 0) {
        set_block(space, first, gap, false);
        list_add(space, first);
        first += gap;
        size -= gap;
    }
    if (size > units) {
        set_block(space, first + units, size - units, false);
        list_add(space, first + units);
    }
    set_block(space, first, units, true);
    space->used += units;
    return first;
}

uint32_t freq_space_size(const freq_space_t *space, uint32_t first)
{
    return first < space->units && space->record[first].used ? space->record[first].size : 0;
}

bool freq_space_give(freq_space_t *space, uint32_t first)
{
    uint32_t size = freq_space_size(space, first);
    if (0 == size) {
        return false;
    }
    space->used -= size;
    const uint32_t behind = first + size;
    if (behind < space->units && !space->record[behind].used) {
        list_remove(space, behind);
        size += space->record[behind].size;
        space->record[behind].size = 0;
    }
    space->record[first].used = 0;
    const uint32_t before = first > 0 ? first - space->record[first].before : first;
    if (before != first && !space->record[before].used) {
        list_remove(space, before);
        size += space->record[before].size;
        space->record[first].size = 0;
        first = before;
    }
    set_block(space, first, size, false);
    list_add(space, first);
    return true;
}
