/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The time by the processor's counter, for who looks at the clock with each datagram and with each look for one.
 *
 * A look at the system's clock takes several times as long as one at the counter, all the more where it is that of a virtual
 * machine and a system call has just driven its code and data out. So for IW_CLOCK_SPAN after a look at the clock the time is
 * reckoned from the counter, whose speed is measured from look to look. Whatever a counter may do - jump, run backwards,
 * differ between processors, change its speed with the machine that a virtual one is moved to - makes an error of about
 * IW_CLOCK_SPAN, until the next look; and only a speed that was measured twice in a row is reckoned with. The time that is told
 * never runs backwards.
 *
 * Pure: the caller reads counter and clock. Threads: one at a time. */
#ifndef IW_CLOCK_H
#define IW_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* ns; the protocol's timers are as long or longer. */
#define IW_CLOCK_SPAN UINT64_C(1000000)
/* So many times in a row it is reckoned at most: a counter that stands still is noticed. */
#define IW_CLOCK_TIMES 20000
/* ns: after that nobody knows what the counter did meanwhile. */
#define IW_CLOCK_LOST UINT64_C(1000000000)

/* All zero: nothing is known. */
typedef struct iw_clock {
    uint64_t ticks, ns; /* at the last look at the clock; 0: none */
    uint64_t speed;     /* ns of a tick, times 2^32; 0: not known */
    uint64_t span;      /* ticks from then for which time is reckoned; 0: it is not */
    uint32_t times;     /* that it may still be */
    uint64_t told;      /* ns */
} iw_clock_t;

/* False: the clock is to be asked. */
static inline bool iw_clock_reckon(iw_clock_t *c, uint64_t ticks, uint64_t *ns)
{
    const uint64_t since = ticks - c->ticks;
    if (since >= c->span || 0 == c->times) {
        return false;
    }
    const uint64_t now = c->ns + (since * c->speed >> 32);
    --c->times;
    c->told = now > c->told ? now : c->told;
    *ns = c->told;
    return true;
}

static inline bool iw_clock_agree(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) < b / 8;
}

/* The clock said ns; the counter was `before` before it was asked, and `after` afterwards. Returns the time. */
static inline uint64_t iw_clock_asked(iw_clock_t *c, uint64_t before, uint64_t after, uint64_t ns)
{
    const uint64_t ticks = after - c->ticks, time = ns - c->ns;
    c->told = ns > c->told ? ns : c->told;
    if (0 != c->ns && 0 == c->span && after > c->ticks && time < IW_CLOCK_SPAN / 2) {
        return c->told; /* too short to tell the speed */
    }
    const bool tells = 0 != c->ns && after > c->ticks && time >= IW_CLOCK_SPAN / 2 && time < IW_CLOCK_LOST
                       && after - before < ticks / 64; /* else it was interrupted between the two */
    const uint64_t speed = tells ? (time << 32) / ticks : 0;
    c->span = tells && iw_clock_agree(speed, c->speed) ? (IW_CLOCK_SPAN << 32) / (speed + 1) : 0;
    c->times = IW_CLOCK_TIMES;
    c->speed = speed;
    c->ticks = after;
    c->ns = ns;
    return c->told;
}

#endif
