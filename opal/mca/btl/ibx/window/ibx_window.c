/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Grows the number of receive buffers when half are in use, and shrinks it after a quiet period. */
#include "ibx_window.h"

void ibx_window_init(ibx_window_t *w, uint32_t initial, uint32_t max, uint64_t quiet_ns,
                     uint64_t now)
{
    *w = (ibx_window_t){.initial = initial,
                        .max = max,
                        .current = initial,
                        .limit = initial / 2,
                        .most = initial,
                        .lowest = initial,
                        .quiet_ns = quiet_ns,
                        .quiet_since = now};
}

static void start_over(ibx_window_t *w, uint64_t now)
{
    w->lowest = w->current;
    w->quiet_since = now;
}

uint32_t ibx_window_limit_reached(ibx_window_t *w, uint64_t now)
{
    if (w->current < w->max) {
        w->current = w->current > w->max / 2 ? w->max : 2 * w->current;
        w->limit = w->current / 2;
        ++w->grown;
        if (w->current > w->most) {
            w->most = w->current;
        }
    }
    start_over(w, now);
    return w->current;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A period is over in which `used` buffers were in use at a time. */
static void fit(ibx_window_t *w, uint32_t used)
{
    const uint32_t room = larger(used / 8, 1);
    const uint32_t wanted = larger(larger(used + room, w->current / 2), w->initial);
    if (wanted < w->current) {
        w->current = wanted;
        ++w->shrunk;
    }
    /* At least one, or a window that is too small is never found out. */
    w->limit = smaller(w->current / 2, larger((w->current - smaller(used, w->current)) / 2, 1));
}

uint32_t ibx_window_check(ibx_window_t *w, uint32_t free_buffers, uint64_t now)
{
    w->lowest = smaller(w->lowest, free_buffers);
    if (0 != w->quiet_ns && now - w->quiet_since >= w->quiet_ns) {
        if (w->current > w->initial) {
            fit(w, w->current - w->lowest);
        }
        start_over(w, now);
    }
    return w->current;
}
