/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Serial numbers: 32-bit sequence numbers that wrap (RFC 1982 arithmetic), of messages of a (communicator, sender ->
 * receiver) pair and of segments of a connection. Nothing else in this project compares them: a plain `<` is wrong at the
 * wrap. The relations hold for numbers less than 2^31 apart; what bounds the distance is memory, or a window. */
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
