/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See ibx_window.h. */
#include "ibx_window.h"

void ibx_window_init(ibx_window_t *w, uint32_t initial, uint32_t max, uint64_t quiet_ns,
                     uint64_t now)
{
    *w = (ibx_window_t){.initial = initial,
                        .max = max,
                        .current = initial,
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
        ++w->grown;
        if (w->current > w->most) {
            w->most = w->current;
        }
    }
    start_over(w, now);
    return w->current;
}

uint32_t ibx_window_look(ibx_window_t *w, uint32_t free_buffers, uint64_t now)
{
    if (free_buffers < w->lowest) {
        w->lowest = free_buffers;
    }
    /* In use at most were current - lowest. After halving, that many must still be less than what
     * reaches the limit, or the window would grow back at once. */
    if (w->current - w->lowest >= w->current / 4) {
        start_over(w, now);
    } else if (0 != w->quiet_ns && w->current > w->initial && now - w->quiet_since >= w->quiet_ns) {
        w->current = w->current / 2 > w->initial ? w->current / 2 : w->initial;
        ++w->shrunk;
        start_over(w, now);
    }
    return w->current;
}
