/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Pseudo-random numbers (Steele, Lea and Flood, SplitMix64, OOPSLA 2014). The state is the
 * caller's; the same state gives the same numbers. */
#ifndef LAZY_RANDOM_H
#define LAZY_RANDOM_H

#include <stdint.h>

static inline uint64_t lazy_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif
