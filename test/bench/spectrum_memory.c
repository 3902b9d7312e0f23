/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See spectrum_wire.h: a ring of work requests that nobody carries out. */
#include "freq_rule.h"
#include "spectrum_wire.h"

#include <string.h>

enum { RING = 64 };

long spectrum_memory_post_ns;

static volatile struct {
    const void *piece[2];
    size_t length[2];
} queue[RING];
static uint32_t posted;
static _Alignas(64) char ring[RING][FREQ_SIZE_MAX + SPECTRUM_HEADER];

static const char *open_wire(spectrum_op_t op)
{
    memset(ring, 1, sizeof(ring));
    return SPECTRUM_SEND == op ? NULL : "put and get need --wire verbs";
}

static size_t inline_max(void)
{
    return 0;
}

static void post(const void *a, size_t na, const void *b, size_t nb)
{
    const uint32_t i = posted++ % RING;
    queue[i].piece[0] = a;
    queue[i].length[0] = na;
    queue[i].piece[1] = b;
    queue[i].length[1] = nb;
    spectrum_spend(spectrum_memory_post_ns);
}

static void copied(char *buffer, size_t size, freq_gate_t *gate)
{
    char *fragment = ring[posted % RING];
    spectrum_copy(fragment + SPECTRUM_HEADER, buffer, size, gate);
    post(fragment, SPECTRUM_HEADER + size, NULL, 0);
}

static void in_place(char *buffer, size_t size, lazy_entry_t *e)
{
    post(ring[posted % RING], SPECTRUM_HEADER, buffer, size);
    spectrum_complete(e);
}

static void others(void)
{
}

const spectrum_wire_t spectrum_memory = {.name = "memory",
                                         .open = open_wire,
                                         .inline_max = inline_max,
                                         .copied = copied,
                                         .in_place = in_place,
                                         .others = others};
