/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What all unit tests share: cmocka with what it wants included before it, and random numbers that
 * are the same on every machine. */
#ifndef SPEC_UNIT_H
#define SPEC_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Numbers from a seed (splitmix64). */
typedef struct rng {
    uint64_t state;
} rng_t;

static inline uint64_t rng_next(rng_t *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* One of 0 .. n-1. */
static inline uint32_t rng_below(rng_t *rng, uint32_t n)
{
    return (uint32_t) ((rng_next(rng) >> 32) * n >> 32);
}

static inline bool rng_percent(rng_t *rng, uint32_t percent)
{
    return rng_below(rng, 100) < percent;
}

/* Random order for an array of numbers. */
static inline void rng_shuffle(rng_t *rng, uint32_t *a, uint32_t n)
{
    for (uint32_t i = n; i > 1; --i) {
        uint32_t j = rng_below(rng, i), t = a[i - 1];
        a[i - 1] = a[j];
        a[j] = t;
    }
}

static inline void *must_alloc(size_t size)
{
    void *p = calloc(1, size);
    if (NULL == p) {
        fprintf(stderr, "the test is out of memory\n");
        abort();
    }
    return p;
}

#endif
