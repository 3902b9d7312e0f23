/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Serial numbers: 32-bit sequence numbers that wrap (RFC 1982 arithmetic).
 *
 * Every message of a (communicator, sender -> receiver) pair carries one. Nothing else in this
 * project compares sequence numbers: a plain `<` on them is wrong at the wrap. The relations hold
 * for numbers less than 2^31 apart; what bounds the distance here is memory (an entry per message
 * under way), which ends long before. */
#ifndef SPEC_SEQ_H
#define SPEC_SEQ_H

#include <stdbool.h>
#include <stdint.h>

/* a - b as a signed distance: positive when a is the later number. */
static inline int32_t spec_seq_diff(uint32_t a, uint32_t b)
{
    return (int32_t) (a - b);
}

static inline bool spec_seq_before(uint32_t a, uint32_t b)
{
    return spec_seq_diff(a, b) < 0;
}

#endif
