/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Serial numbers: 32-bit numbers that wrap (RFC 1982). Nothing else compares them, and a plain
 * `<` on one is an error. 64-bit packet numbers do not wrap; on the wire an acknowledgement has
 * their low half, which is expanded here. */
#ifndef IW_SEQ_H
#define IW_SEQ_H

#include <stdbool.h>
#include <stdint.h>

static inline int32_t iw_seq_diff(uint32_t a, uint32_t b)
{
    return (int32_t) (a - b);
}

static inline bool iw_seq_before(uint32_t a, uint32_t b)
{
    return iw_seq_diff(a, b) < 0;
}

/* The 64-bit number nearest to near whose low half is low. */
static inline uint64_t iw_pn_expand(uint64_t near, uint32_t low)
{
    return near + (uint64_t) (int64_t) iw_seq_diff(low, (uint32_t) near);
}

#endif
