/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Host memory that messages from and to devices go through, and in which pieces. */
#include "spec_stage.h"

void spec_stage_init(spec_stage_t *s, size_t most, size_t keep, void *(*map)(size_t size),
                     void (*unmap)(void *memory, size_t size))
{
    *s = (spec_stage_t){.most = most, .keep = keep, .map = map, .unmap = unmap};
}

/* The kind that holds size bytes; SPEC_STAGE_KINDS: none does. */
static size_t kind_of(size_t size)
{
    size_t kind = 0;
    while (kind < SPEC_STAGE_KINDS && SPEC_STAGE_LEAST << kind < size) {
        ++kind;
    }
    return kind;
}

void *spec_stage_take(spec_stage_t *s, size_t size)
{
    const size_t kind = kind_of(size);
    if (kind == SPEC_STAGE_KINDS) {
        return NULL;
    }
    const size_t bytes = SPEC_STAGE_LEAST << kind;
    if (bytes > s->most || s->in_use > s->most - bytes) {
        return NULL;
    }
    void *memory = s->unused[kind];
    if (NULL != memory) {
        s->unused[kind] = *(void **) memory;
        s->kept -= bytes;
    } else {
        memory = s->map(bytes);
    }
    if (NULL != memory) {
        s->in_use += bytes;
    }
    return memory;
}

void spec_stage_put(spec_stage_t *s, void *memory, size_t size)
{
    const size_t kind = kind_of(size), bytes = SPEC_STAGE_LEAST << kind;
    s->in_use -= bytes;
    if (bytes > s->keep || s->kept > s->keep - bytes) {
        s->unmap(memory, bytes);
        return;
    }
    *(void **) memory = s->unused[kind];
    s->unused[kind] = memory;
    s->kept += bytes;
}

void spec_stage_give_back(spec_stage_t *s)
{
    for (size_t kind = 0; kind < SPEC_STAGE_KINDS; ++kind) {
        void *memory;
        while (NULL != (memory = s->unused[kind])) {
            s->unused[kind] = *(void **) memory;
            s->kept -= SPEC_STAGE_LEAST << kind;
            s->unmap(memory, SPEC_STAGE_LEAST << kind);
        }
    }
}

spec_stage_costs_t spec_stage_costs(uint64_t little_ns, uint64_t much_ns, size_t bytes)
{
    const uint64_t more = much_ns > little_ns ? much_ns - little_ns : 0;
    const uint64_t ps = more * 1000 / bytes;
    return (spec_stage_costs_t){.known = true,
                                .call_ns = little_ns,
                                .ps = ps > 0 ? ps < UINT32_MAX ? (uint32_t) ps : UINT32_MAX : 1};
}

/* The least piece, and what is taken where nothing is known. */
#define PIECE_LEAST ((size_t) 16 * 1024)
#define PIECE_USUAL ((size_t) 256 * 1024)

/* What a message takes in such pieces, picoseconds. */
static double takes(const spec_stage_costs_t *c, uint32_t wire_ps, size_t length, size_t piece)
{
    const double pieces = (double) length / (double) piece;
    const double copy = 1000.0 * (double) c->call_ns + (double) piece * c->ps;
    const double put = 1000.0 * SPEC_STAGE_PACKET_NS + (double) piece * wire_ps;
    /* They wait for each other now and then. */
    const double each = put > copy ? put + copy / 4 : copy + put / 4;
    return pieces * each + 2 * copy;
}

size_t spec_stage_piece(const spec_stage_costs_t *costs, uint32_t wire_ps, size_t length)
{
    if (!costs->known) {
        return PIECE_USUAL < length ? PIECE_USUAL : length;
    }
    wire_ps = 0 == wire_ps ? costs->ps : wire_ps;
    size_t best = length;
    for (size_t piece = PIECE_LEAST; piece < length; piece *= 2) {
        best = takes(costs, wire_ps, length, piece) < takes(costs, wire_ps, length, best) ? piece
                                                                                          : best;
    }
    return best;
}
