/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Clocks of the system, in nanoseconds. Any thread. */
#ifndef SPEC_NOW_H
#define SPEC_NOW_H

#include <stdint.h>
#include <time.h>

/* 0: there is no such clock (any more: that of a thread). */
static inline uint64_t spec_ns(clockid_t clock)
{
    struct timespec t = {0};
    (void) clock_gettime(clock, &t);
    return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

static inline uint64_t spec_now(void)
{
    return spec_ns(CLOCK_MONOTONIC);
}

#endif
