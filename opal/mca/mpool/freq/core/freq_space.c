/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See freq_space.h: blocks with their size at both ends, and a bin of free blocks for each range of sizes. */
#include "freq_space.h"

enum { SUB_BITS = 3 };
_Static_assert(1 << SUB_BITS == FREQ_SPACE_SUBS, "eight to a power of two");

typedef struct {
    uint32_t level, sub;
} bin_t;

static uint32_t log2_of(uint32_t n)
{
    return 31u - (uint32_t) __builtin_clz(n);
}

/* The bin of a free block: level 0 has the sizes 1 to 7, level l the sizes from 2^(l+2). */
static bin_t bin_of(uint32_t size)
{
    if (size < FREQ_SPACE_SUBS) {
        return (bin_t){0, size};
    }
    const uint32_t log = log2_of(size);
    return (bin_t){log - SUB_BITS + 1, (size >> (log - SUB_BITS)) & (FREQ_SPACE_SUBS - 1)};
}

/* The smallest bin all of whose blocks have that size. */
static bin_t bin_above(uint32_t size)
{
    if (size >= FREQ_SPACE_SUBS) {
        size += (UINT32_C(1) << (log2_of(size) - SUB_BITS)) - 1;
    }
    return bin_of(size);
}

static void bin_add(freq_space_t *space, uint32_t first)
{
    freq_space_record_t *record = &space->record[first];
    const bin_t bin = bin_of(record->size);
    uint32_t *head = &space->bin[bin.level][bin.sub];
    record->prev = FREQ_SPACE_NONE;
    record->next = *head;
    if (FREQ_SPACE_NONE != *head) {
        space->record[*head].prev = first;
    }
    *head = first;
    space->subs[bin.level] |= (uint8_t) (1u << bin.sub);
    space->levels |= UINT32_C(1) << bin.level;
}

static void bin_remove(freq_space_t *space, uint32_t first)
{
    const freq_space_record_t *record = &space->record[first];
    const bin_t bin = bin_of(record->size);
    if (FREQ_SPACE_NONE != record->next) {
        space->record[record->next].prev = record->prev;
    }
    if (FREQ_SPACE_NONE != record->prev) {
        space->record[record->prev].next = record->next;
        return;
    }
    space->bin[bin.level][bin.sub] = record->next;
    if (FREQ_SPACE_NONE == record->next) {
        space->subs[bin.level] &= (uint8_t) ~(1u << bin.sub);
        if (0 == space->subs[bin.level]) {
            space->levels &= ~(UINT32_C(1) << bin.level);
        }
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
    *space = (freq_space_t){.units = units, .record = record};
    for (uint32_t level = 0; level < FREQ_SPACE_LEVELS; ++level) {
        for (uint32_t sub = 0; sub < FREQ_SPACE_SUBS; ++sub) {
            space->bin[level][sub] = FREQ_SPACE_NONE;
        }
    }
    record[0].before = 0;
    set_block(space, 0, units, false);
    bin_add(space, 0);
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

/* The first bin from `from` on that has a block. False: there is none. */
static bool bin_next(const freq_space_t *space, bin_t *from)
{
    from->level += from->sub / FREQ_SPACE_SUBS;
    from->sub %= FREQ_SPACE_SUBS;
    if (from->level >= FREQ_SPACE_LEVELS) {
        return false;
    }
    uint32_t subs = space->subs[from->level] & (UINT32_MAX << from->sub);
    if (0 == subs) {
        const uint32_t levels = space->levels & ((UINT32_MAX << from->level) << 1);
        if (0 == levels) {
            return false;
        }
        from->level = (uint32_t) __builtin_ctz(levels);
        subs = space->subs[from->level];
    }
    from->sub = (uint32_t) __builtin_ctz(subs);
    return true;
}

/* A block in the bins that are known to suffice. Without an alignment to keep its first block does.
 * */
static uint32_t find_good(const freq_space_t *space, uint32_t units, uint64_t alignment,
                          uint64_t origin)
{
    bin_t bin = bin_above(units);
    while (bin_next(space, &bin)) {
        const uint32_t first = space->bin[bin.level][bin.sub];
        if (fits(space, first, units, alignment, origin)) {
            return first;
        }
        ++bin.sub;
    }
    return FREQ_SPACE_NONE;
}

/* Any block at all. */
static uint32_t find_any(const freq_space_t *space, uint32_t units, uint64_t alignment,
                         uint64_t origin)
{
    bin_t bin = bin_of(units);
    while (bin_next(space, &bin)) {
        for (uint32_t first = space->bin[bin.level][bin.sub]; FREQ_SPACE_NONE != first;
             first = space->record[first].next) {
            if (fits(space, first, units, alignment, origin)) {
                return first;
            }
        }
        ++bin.sub;
    }
    return FREQ_SPACE_NONE;
}

uint32_t freq_space_take(freq_space_t *space, uint32_t units, uint64_t alignment, uint64_t origin)
{
    if (0 == units || units > space->units) {
        return FREQ_SPACE_NONE;
    }
    uint32_t first = find_good(space, units, alignment, origin);
    if (FREQ_SPACE_NONE == first) {
        first = find_any(space, units, alignment, origin);
    }
    if (FREQ_SPACE_NONE == first) {
        return FREQ_SPACE_NONE;
    }
    uint32_t size = space->record[first].size;
    const uint32_t gap = (uint32_t) gap_of(first, alignment, origin);
    bin_remove(space, first);
    if (gap > 0) {
        set_block(space, first, gap, false);
        bin_add(space, first);
        first += gap;
        size -= gap;
    }
    if (size > units) {
        set_block(space, first + units, size - units, false);
        bin_add(space, first + units);
    }
    set_block(space, first, units, true);
    space->used += units;
    ++space->blocks;
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
    --space->blocks;
    const uint32_t behind = first + size;
    if (behind < space->units && !space->record[behind].used) {
        bin_remove(space, behind);
        size += space->record[behind].size;
        space->record[behind].size = 0;
    }
    space->record[first].used = 0;
    const uint32_t before = first > 0 ? first - space->record[first].before : first;
    if (before != first && !space->record[before].used) {
        bin_remove(space, before);
        size += space->record[before].size;
        space->record[first].size = 0;
        first = before;
    }
    set_block(space, first, size, false);
    bin_add(space, first);
    return true;
}
