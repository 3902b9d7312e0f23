/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
#include "freq_release.h"

/* Two releases may be here at once, and the earlier must not hide the later. */
static void note(_Atomic uint64_t *place, uint64_t time)
{
    uint64_t was = atomic_load_explicit(place, memory_order_relaxed);
    while (was < time
           && !atomic_compare_exchange_weak_explicit(place, &was, time, memory_order_relaxed,
                                                     memory_order_relaxed)) {}
}

static void note_pages(freq_release_t *release, uintptr_t from, uintptr_t to, uint64_t time)
{
    for (uintptr_t p = from; p < to; ++p) {
        note(&release->page[freq_release_place(p, FREQ_PAGE_PLACES)], time);
    }
}

void freq_release_memory(freq_release_t *release, uintptr_t base, size_t size)
{
    if (0 == size) {
        return;
    }
    const uint64_t time = 1 + atomic_fetch_add_explicit(&release->now, 1, memory_order_relaxed);
    const uintptr_t last = base + size - 1 < base ? UINTPTR_MAX : base + size - 1;
    enum { PER_BLOCK = FREQ_BLOCK_BITS - FREQ_PAGE_BITS };
    /* Pages and blocks from here up to there. Only blocks that are given back as a whole are noted
     * as such. */
    const uintptr_t page = base >> FREQ_PAGE_BITS, page_end = (last >> FREQ_PAGE_BITS) + 1;
    const uintptr_t block = (page + ((uintptr_t) 1 << PER_BLOCK) - 1) >> PER_BLOCK;
    const uintptr_t block_end = page_end >> PER_BLOCK;
    if (block >= block_end) {
        note_pages(release, page, page_end, time);
        return;
    }
    if (block_end - block > FREQ_BLOCK_PLACES) {
        note(&release->everything, time);
        return;
    }
    note_pages(release, page, block << PER_BLOCK, time);
    for (uintptr_t b = block; b < block_end; ++b) {
        note(&release->block[freq_release_place(b, FREQ_BLOCK_PLACES)], time);
    }
    note_pages(release, block_end << PER_BLOCK, page_end, time);
}
