/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Tells an application that computes or sleeps, and so does not call progress, from one that waits for its turn on a
 * processor: only the first needs a helper thread (iw_agent.h).
 *
 * The backup of iw_agent.h checks now and then whether the application still calls, and takes over from one that does not.
 * Where there are more processes than processors all of them poll and yield, and one that is silent for milliseconds is
 * just not running: to check each of them, or to take over, takes the processors from those that would call next. So
 *   - the limit counts time that the application has a processor, or does not want one: it grows as that share of the
 *     time shrinks;
 *   - a silence is doubted while the thread that called last is ready to run and has had no turn since.
 *
 * Gain: test/bench/port-parts, part silence.
 *
 * Pure: the caller gives the time and what the kernel says. Threads: the agent's alone. */
#ifndef IW_IDLE_H
#define IW_IDLE_H

#include <stdbool.h>
#include <stdint.h>

/* ns. Longest time between two checks, unless the patience itself is longer. */
#define IW_IDLE_CHECK_MOST UINT64_C(50000000)
/* ns. After this no reason counts: peers wait, and a processor that others compute on for so long is a slow one. */
#define IW_IDLE_MOST UINT64_C(100000000)
/* ns that a thread runs, at least, if it had a turn and did not call. A turn to poll takes less, and ends in a call. */
#define IW_IDLE_TURN UINT64_C(20000)
/* ns. How long the application waited for a processor is not asked more often. */
#define IW_IDLE_MEASURE UINT64_C(2000000)
/* The share of the time for which the application did not wait for a processor is counted in parts of this. */
#define IW_IDLE_ALL 1024u

/* The thread that called last, as the kernel sees it. */
typedef struct iw_caller {
    int thread;
    bool
        is_ready; /* to run, or running; false: asleep, ended or unknown. Only iw_idle_goes_on asks */
    uint64_t ran_ns;    /* its processor time; 0: unknown */
    uint64_t waited_ns; /* for a processor, in all; 0: unknown */
} iw_caller_t;

typedef struct iw_idle {
    uint64_t since;     /* the latest check that found calls */
    uint64_t measured;  /* when `share` was made last */
    iw_caller_t
        caller; /* its turn as it was at the latest check, its waits as they were measured */
    uint64_t patience;
    unsigned share; /* not waited, of IW_IDLE_ALL; an average. 0: not known yet */
} iw_idle_t;

/* The application waits for a processor most of the time: to check on it takes one from others that would call. */
static inline bool iw_idle_is_crowded(const iw_idle_t *s)
{
    return 0 != s->share && s->share < IW_IDLE_ALL / 2;
}

static inline uint64_t iw_idle_sleep(const iw_idle_t *s)
{
    const uint64_t most = s->patience > IW_IDLE_CHECK_MOST ? s->patience : IW_IDLE_CHECK_MOST;
    const uint64_t wait = s->patience * IW_IDLE_ALL / s->share;
    return wait < most ? wait : most;
}

/* Did the caller run without a call? Then nothing else need be known of it. */
static inline bool iw_idle_had_turn(const iw_idle_t *s, const iw_caller_t *caller)
{
    return 0 == s->caller.ran_ns || caller->thread != s->caller.thread
           || caller->ran_ns < s->caller.ran_ns
           || caller->ran_ns - s->caller.ran_ns >= IW_IDLE_TURN;
}

/* Is it time to ask how long this thread waited? The answer takes the kernel longer than all else of a check. */
static inline bool iw_idle_measures(const iw_idle_t *s, uint64_t now, int thread)
{
    return 0 == s->share || thread != s->caller.thread || now - s->measured >= IW_IDLE_MEASURE;
}

static inline void iw_idle_measure(iw_idle_t *s, uint64_t now, const iw_caller_t *caller)
{
    /* What another thread waited before is no wait now. */
    if (0 != s->share && caller->thread == s->caller.thread) {
        const uint64_t time = now - s->measured, before = s->caller.waited_ns;
        const uint64_t waited = caller->waited_ns > before ? caller->waited_ns - before : 0;
        const uint64_t share = waited >= time ? 0 : (time - waited) * IW_IDLE_ALL / time;
        /* One long wait is an accident. */
        s->share = (unsigned) ((3 * s->share + share) / 4);
        s->share = 0 == s->share ? 1 : s->share;
    } else if (0 == s->share) {
        s->share = IW_IDLE_ALL;
    }
    s->measured = now;
    s->caller.waited_ns = caller->waited_ns;
}

/* A check found that the application has called. Returns the time until the next check, at least `patience`. The caller's waited_ns
 * is read if iw_idle_measures. */
static inline uint64_t iw_idle_broken(iw_idle_t *s, uint64_t now, const iw_caller_t *caller,
                                      uint64_t patience)
{
    if (iw_idle_measures(s, now, caller->thread)) {
        iw_idle_measure(s, now, caller);
    }
    s->caller.thread = caller->thread;
    s->caller.ran_ns = caller->ran_ns;
    s->since = now;
    s->patience = patience;
    return iw_idle_sleep(s);
}

/* A check found no call since the one before. 0: the application is away; else the time until the next check. */
static inline uint64_t iw_idle_goes_on(iw_idle_t *s, uint64_t now, const iw_caller_t *caller)
{
    if (0 == s->share || !caller->is_ready || iw_idle_had_turn(s, caller)
        || now - s->since >= IW_IDLE_MOST) {
        return 0;
    }
    return iw_idle_sleep(s);
}

#endif
