/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Clocks that jump, for a program that this library is loaded before (LD_PRELOAD): the time of day by hours in either
 * direction, drawn by a seed, twice a second; with JUMP_FORWARD the clocks that only go forward by that many seconds, once
 * a second, at another moment in each process. JUMP_SEED: another course. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define S INT64_C(1000000000)

static int64_t number(const char *name)
{
    const char *text = getenv(name);
    return NULL == text ? 0 : strtoll(text, NULL, 0);
}

static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int64_t real(clockid_t clock)
{
    struct timespec t = {0};
    (void) syscall(SYS_clock_gettime, clock, &t);
    return t.tv_sec * S + t.tv_nsec;
}

static int64_t shown(clockid_t clock)
{
    static int64_t start, forward, seed;
    const int64_t now = real(CLOCK_MONOTONIC);
    if (0 == start) { /* before there are threads: whoever loads a program asks for the time */
        forward = number("JUMP_FORWARD");
        seed = number("JUMP_SEED") + getpid();
        start = now - (int64_t) (mix((uint64_t) seed) % (uint64_t) S);
    }
    const int64_t since = now - start;
    if (CLOCK_REALTIME == clock || CLOCK_REALTIME_COARSE == clock) {
        const uint64_t r = mix((uint64_t) (seed + since / (S / 2)));
        return real(clock) + ((int64_t) (r % (12 * 3600)) - 6 * 3600) * S;
    }
    if (CLOCK_MONOTONIC == clock || CLOCK_MONOTONIC_RAW == clock || CLOCK_MONOTONIC_COARSE == clock
        || CLOCK_BOOTTIME == clock) {
        return real(clock) + since / S * forward * S;
    }
    return real(clock);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const int64_t now = shown(clock);
    *t = (struct timespec){.tv_sec = now / S, .tv_nsec = now % S};
    return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    const int64_t now = shown(CLOCK_REALTIME);
    (void) zone;
    *t = (struct timeval){.tv_sec = now / S, .tv_usec = now % S / 1000};
    return 0;
}

time_t time(time_t *t)
{
    const time_t now = shown(CLOCK_REALTIME) / S;
    if (NULL != t) {
        *t = now;
    }
    return now;
}
