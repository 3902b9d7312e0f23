/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The bit ring of packet numbers received, and the ranges that an acknowledgement reports. */
#include "iw_seen.h"

static bool bit(const iw_seen_t *s, uint64_t pn)
{
    return s->bits[pn / 64 % (IW_SEEN / 64)] >> (pn % 64) & 1;
}

iw_seen_verdict_t iw_seen_check(const iw_seen_t *s, uint64_t pn, uint64_t floor)
{
    if (floor > pn || pn - floor >= IW_SEEN) {
        return IW_SEEN_FAR;
    }
    if (pn < s->base) {
        return IW_SEEN_TWICE;
    }
    return pn < s->end && bit(s, pn) ? IW_SEEN_TWICE : IW_SEEN_NEW;
}

/* What bits of a word are from this number on, and below `to`. */
static uint64_t mask_of(uint64_t from, uint64_t to)
{
    const uint64_t mask = ~UINT64_C(0) << (from % 64);
    return to < (from / 64 + 1) * 64 ? mask & ~(~UINT64_C(0) << (to % 64)) : mask;
}

uint32_t iw_seen_missing(const iw_seen_t *s, uint64_t floor)
{
    const uint64_t ring = s->base + IW_SEEN, known = floor < s->end ? floor : s->end;
    uint64_t missing = 0 != s->end && floor > s->end ? floor - s->end : 0;
    for (uint64_t from = s->base; from < known && from < ring; from = (from / 64 + 1) * 64) {
        const uint64_t word = s->bits[from / 64 % (IW_SEEN / 64)];
        missing += (uint64_t) __builtin_popcountll(~word & mask_of(from, known));
    }
    return missing < IW_SEEN ? (uint32_t) missing : IW_SEEN;
}

/* Clear the bits of [from, to), which are less than IW_SEEN apart. */
static void clear(iw_seen_t *s, uint64_t from, uint64_t to)
{
    while (from < to) {
        s->bits[from / 64 % (IW_SEEN / 64)] &= ~mask_of(from, to);
        from = (from / 64 + 1) * 64;
    }
}

bool iw_seen_add(iw_seen_t *s, uint64_t pn, uint64_t floor)
{
    if (floor > s->base) {
        /* What lies below the new base is used again for numbers a ring above it. */
        if (floor >= s->end || floor - s->base >= IW_SEEN) {
            for (unsigned i = 0; i < IW_SEEN / 64; ++i) {
                s->bits[i] = 0;
            }
        } else {
            clear(s, s->base, floor);
        }
        s->base = floor;
        if (s->end < floor) {
            s->end = floor;
        }
    }
    bool follows = pn == s->end;
    s->bits[pn / 64 % (IW_SEEN / 64)] |= UINT64_C(1) << (pn % 64);
    if (pn >= s->end) {
        s->end = pn + 1;
    }
    return follows;
}

/* The lowest number of the run of equal bits (set or not) that ends with pn. */
static uint64_t run_start(const iw_seen_t *s, uint64_t pn, bool set)
{
    for (;;) {
        uint64_t word = s->bits[pn / 64 % (IW_SEEN / 64)];
        unsigned shift = 63 - (unsigned) (pn % 64);
        /* Other bits below pn in this word, pn at the top. */
        uint64_t other = (set ? ~word : word) << shift;
        if (0 != other) {
            unsigned same = (unsigned) __builtin_clzll(other);
            uint64_t start = pn - same + 1;
            return start > s->base ? start : s->base;
        }
        if (pn / 64 * 64 <= s->base) {
            return s->base;
        }
        pn = pn / 64 * 64 - 1;
    }
}

unsigned iw_seen_ranges(const iw_seen_t *s, iw_range_t *range, unsigned max, uint64_t *largest)
{
    if (s->end == s->base) {
        return 0;
    }
    uint64_t at = s->end - 1; /* it is marked: base does not overtake it */
    unsigned n = 0;
    uint64_t gap = 0;
    *largest = at;
    while (n < max) {
        uint64_t start = run_start(s, at, true);
        range[n++] = (iw_range_t){iw_be16((uint16_t) gap), iw_be16((uint16_t) (at - start + 1))};
        if (start == s->base) {
            break;
        }
        uint64_t hole = run_start(s, start - 1, false);
        gap = start - hole;
        if (hole == s->base) {
            break;
        }
        at = hole - 1;
    }
    return n;
}
