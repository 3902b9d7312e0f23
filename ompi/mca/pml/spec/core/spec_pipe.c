/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which piece of a range is brought and moved next, in which thread, and how many at a time. */
#include "spec_pipe.h"

enum {
    USED = (1u << SPEC_PIPE_MOST) - 1, /* the slots */
    COMING = USED << SPEC_PIPE_MOST,   /* of them, those whose piece is being brought */
    DRIVEN = 1u << 28,
    ALL = 1u << 29,  /* the last piece is taken */
    DRY = 1u << 30,  /* the transport had nothing */
    IDLE = 1u << 27, /* what brings had nothing */
    BOTH = DRY | IDLE,
};

/* The bits of a slot. */
static uint32_t used(uint32_t slot)
{
    return 1u << slot;
}

static uint32_t coming(uint32_t slot)
{
    return 1u << (slot + SPEC_PIPE_MOST);
}

/* Those whose piece the transport has. */
static uint32_t moving(uint32_t state)
{
    return state & USED & ~(state >> SPEC_PIPE_MOST);
}

void spec_pipe_init(spec_pipe_t *p, uint64_t length, uint64_t piece, uint32_t slots)
{
    *p = (spec_pipe_t){.length = length,
                       .piece = piece,
                       .slots = slots < SPEC_PIPE_MOST ? slots : SPEC_PIPE_MOST,
                       .state = DRIVEN};
}

/* Another thread may bring and free slots meanwhile: then *from is the state now. */
static bool change(spec_pipe_t *p, uint32_t *from, uint32_t to)
{
    return __atomic_compare_exchange_n(&p->state, from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

spec_pipe_step_t spec_pipe_next(spec_pipe_t *p, spec_pipe_piece_t *piece)
{
    uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
    for (;;) {
        if (p->nxt == p->length) {
            if (change(p, &state, (state & (USED | COMING)) | ALL)) {
                return 0 == (state & USED) ? SPEC_PIPE_OVER : SPEC_PIPE_LEAVE;
            }
            continue;
        }
        if (BOTH == (state & BOTH) && p->slots < SPEC_PIPE_MOST) {
            ++p->slots;
            state = __atomic_and_fetch(&p->state, ~(uint32_t) BOTH, __ATOMIC_ACQ_REL);
        }
        const uint32_t unused = ~state & ((1u << p->slots) - 1);
        if (0 == unused) {
            if (change(p, &state, state & ~(uint32_t) DRIVEN)) {
                return SPEC_PIPE_LEAVE;
            }
            continue;
        }
        const uint32_t slot = (uint32_t) __builtin_ctz(unused);
        if (change(p, &state, state | used(slot) | coming(slot))) {
            const uint64_t left = p->length - p->nxt;
            *piece = (spec_pipe_piece_t){
                .offset = p->nxt, .length = left < p->piece ? left : p->piece, .slot = slot};
            p->nxt += piece->length;
            return SPEC_PIPE_PIECE;
        }
    }
}

void spec_pipe_divert(spec_pipe_t *p, spec_pipe_piece_t *piece)
{
    piece->length = p->length - piece->offset;
    p->nxt = p->length;
}

void spec_pipe_brought(spec_pipe_t *p, uint32_t slot)
{
    uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE), to;
    do {
        to = state & ~coming(slot);
        to |= 0 == (to & COMING) ? (uint32_t) IDLE : 0;
    } while (!change(p, &state, to));
}

spec_pipe_step_t spec_pipe_done(spec_pipe_t *p, uint32_t slot)
{
    uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
    for (;;) {
        /* In one step: another thread may free the last slot, and then the pipeline, right behind it. */
        const uint32_t freed = state & ~(used(slot) | coming(slot));
        uint32_t to = freed;
        if (!(freed & ALL)) {
            to |= DRIVEN | (0 == moving(freed) ? (uint32_t) DRY : 0);
        }
        if (change(p, &state, to)) {
            return freed & ALL      ? 0 == (freed & USED) ? SPEC_PIPE_OVER : SPEC_PIPE_LEAVE
                   : freed & DRIVEN ? SPEC_PIPE_LEAVE
                                    : SPEC_PIPE_DRIVE;
        }
    }
}
