/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Pseudo-random numbers (Steele, Lea and Flood, SplitMix64, OOPSLA 2014): the same state gives the
 * same numbers. Not for secrets: a few of them tell all others. */
#ifndef IW_RANDOM_H
#define IW_RANDOM_H

#include <stdint.h>

/* What the state grows by with each number. */
#define IW_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The number of a state. */
static inline uint64_t iw_random_of(uint64_t state)
{
    state = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    state = (state ^ state >> 27) * UINT64_C(0x94d049bb133111eb);
    return state ^ state >> 31;
}

/* The next number; the state is the caller's. */
static inline uint64_t iw_random_next(uint64_t *state)
{
    return iw_random_of(*state += IW_RANDOM_STEP);
}

#endif
