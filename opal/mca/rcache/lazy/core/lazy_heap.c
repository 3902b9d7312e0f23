/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The heap of registrations that may be evicted from the cache (lazy_heap.h): a binary heap whose entries know their index. */
#include "lazy_heap.h"

#include <stdlib.h>

bool lazy_heap_reserve(lazy_heap_t *heap)
{
    if (heap->n < heap->room) {
        return true;
    }
    const size_t room = 0 == heap->room ? 64 : 2 * heap->room;
    lazy_slot_t *slot = realloc(heap->slot, room * sizeof(*slot));
    if (NULL == slot) {
        return false;
    }
    heap->slot = slot;
    heap->room = room;
    return true;
}

static bool goes_first(const lazy_slot_t *a, const lazy_slot_t *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->used < b->used;
}

static void put(lazy_heap_t *heap, size_t at, const lazy_slot_t *slot)
{
    heap->slot[at] = *slot;
    slot->entry->at = at;
}

static void rise(lazy_heap_t *heap, size_t at, lazy_slot_t slot)
{
    while (at > 0 && goes_first(&slot, &heap->slot[(at - 1) / 2])) {
        put(heap, at, &heap->slot[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(heap, at, &slot);
}

static void sink(lazy_heap_t *heap, size_t at, lazy_slot_t slot)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->n) {
            break;
        }
        if (child + 1 < heap->n && goes_first(&heap->slot[child + 1], &heap->slot[child])) {
            ++child;
        }
        if (!goes_first(&heap->slot[child], &slot)) {
            break;
        }
        put(heap, at, &heap->slot[child]);
        at = child;
    }
    put(heap, at, &slot);
}

void lazy_heap_add(lazy_heap_t *heap, lazy_entry_t *e, uint64_t rank, uint64_t used)
{
    rise(heap, heap->n++,
         (lazy_slot_t){.rank = rank, .used = used, .size = lazy_size(e), .entry = e});
}

void lazy_heap_remove(lazy_heap_t *heap, lazy_entry_t *e)
{
    const size_t at = e->at;
    const lazy_slot_t last = heap->slot[--heap->n];
    e->at = LAZY_NONE;
    if (last.entry == e) {
        return;
    }
    if (at > 0 && goes_first(&last, &heap->slot[(at - 1) / 2])) {
        rise(heap, at, last);
    } else {
        sink(heap, at, last);
    }
}

void lazy_heap_sink_top(lazy_heap_t *heap, uint64_t rank, uint64_t used)
{
    lazy_slot_t slot = heap->slot[0];
    slot.rank = rank;
    slot.used = used;
    sink(heap, 0, slot);
}
