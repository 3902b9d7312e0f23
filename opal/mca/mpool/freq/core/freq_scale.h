/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Scale: what something takes now, beside what it took when the costs were measured (freq_rule.h).
 *
 * R, C, V and what a look takes are measured once, at start-up, with buffers of our own. The program's come from where it left
 * them: the memory, another core, the nearest cache; what finding a registration reads is in a cache or
 * not; and a machine is faster at one time than at another. So some copies and some findings are timed
 * while the program runs, and C (V, a look) is taken as so many times as high as the median of the last
 * FREQ_SCALE_SAMPLES was.
 *
 * Registering is another thing: most of it may be for nothing, since the cache has registered the neighbours of
 * a buffer with it, and then one takes a hundred times as long as the next. So all are timed, and R is taken by their
 * mean: what a buffer costs, some more, some less.
 *
 * Threads: one at a time; of the mean, any number add. Errors: none. */
#ifndef FREQ_SCALE_H
#define FREQ_SCALE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    FREQ_SCALE_ONE = 256, /* the unit */
    FREQ_SCALE_SAMPLES = 9,
    FREQ_SCALE_LEAST = FREQ_SCALE_ONE / 4,
    FREQ_SCALE_MOST = 16 * FREQ_SCALE_ONE,
    FREQ_SCALE_LIKELY = 2 * FREQ_SCALE_ONE, /* of copies: ours come from a cache */
    FREQ_SCALE_STEP = 4,                    /* a change of less than one part in so many is none */
    FREQ_MEAN_SAMPLES = 32, /* the first of each block takes longest, and they come first */
    FREQ_MEAN_LEAST = FREQ_SCALE_ONE / 64,
    FREQ_MEAN_MOST = 4 * FREQ_SCALE_ONE /* what took longer was something else */
};

typedef struct freq_scale {
    uint32_t sample[FREQ_SCALE_SAMPLES];
    uint32_t n;   /* samples since it was judged last */
    uint32_t now; /* FREQ_SCALE_ONE: as measured; 0 is taken for that */
} freq_scale_t;

static inline uint32_t freq_scale_now(const freq_scale_t *scale)
{
    return 0 == scale->now ? FREQ_SCALE_ONE : scale->now;
}

/* It took `ns` and was to take `expected`. True: `now` is another. */
bool freq_scale_add(freq_scale_t *scale, double ns, double expected);

/* None was timed for long: what was known of it is not known any more. True: `now` is another. */
bool freq_scale_forget(freq_scale_t *scale);

typedef struct freq_mean {
    _Atomic uint64_t sum; /* of n since it was settled; FREQ_SCALE_ONE: as expected */
    _Atomic uint32_t n;
    uint32_t now; /* as in freq_scale_t */
} freq_mean_t;

static inline uint32_t freq_mean_now(const freq_mean_t *mean)
{
    return 0 == mean->now ? FREQ_SCALE_ONE : mean->now;
}

/* As freq_scale_add; freq_mean_settle (one thread at a time) says whether `now` is another. */
void freq_mean_add(freq_mean_t *mean, double ns, double expected);
bool freq_mean_settle(freq_mean_t *mean);

#endif
