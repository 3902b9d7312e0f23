/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Whether large payloads go to the kernel by reference (iw_zerocopy.h) or are copied by it: whichever takes less time here.
 *
 * Zero copy costs three calls and a walk over every page, copying the memory's bandwidth, and which is more differs between
 * machines. So both are measured, in turns until each is known, then
 * the one that is not used once in IW_COST_AGAIN times, because a machine is not always equally fast. The receiver takes
 * such pages one by one, so zero copy has to be clearly the cheaper one. A sample that was interrupted counts for at most twice
 * what was known.
 *
 * Gain over zero copy always: test/bench/port-parts, part zerocopy-cost; on a machine whose kernel copies fast 64 messages of 128 KiB to
 * 4 MiB in flight took 0.77 to 0.86 of the time, on one where zero copy is quicker 1.00 to 1.03 (5 pairs).
 *
 * Pure: the caller measures. Threads: the port's lock. */
#ifndef IW_ZEROCOPY_COST_H
#define IW_ZEROCOPY_COST_H

#include <stdbool.h>
#include <stdint.h>

#define IW_COST_FIRST  4   /* samples of each until there is a choice */
#define IW_COST_AGAIN  128 /* batches until the other one is tried */
#define IW_COST_WEIGHT 8 /* a sample changes what is known by so small a part of the difference */

typedef enum iw_zerocopy_mode { IW_ZEROCOPY_OFF, IW_ZEROCOPY_ON, IW_ZEROCOPY_AUTO } iw_zerocopy_mode_t;

typedef struct iw_zerocopy_cost {
    iw_zerocopy_mode_t mode; /* never, always, or what is measured here */
    uint64_t price[2];   /* ps for each byte: of copying, of giving by reference; 0: not known */
    unsigned samples[2]; /* up to IW_COST_FIRST */
    unsigned batches;    /* since the other one was tried */
    bool zerocopies;          /* the batch that is being sent */
} iw_zerocopy_cost_t;

/* Which of the two costs less, as far as is known. */
static inline bool iw_zerocopy_cost_is_less(const iw_zerocopy_cost_t *p)
{
    return p->price[1] < p->price[0] - p->price[0] / IW_COST_WEIGHT;
}

/* The next batch, which has large payloads: by reference? */
static inline bool iw_zerocopy_cost_choose(iw_zerocopy_cost_t *p)
{
    if (IW_ZEROCOPY_AUTO != p->mode) {
        p->zerocopies = IW_ZEROCOPY_ON == p->mode;
        return p->zerocopies;
    }
    if (p->samples[0] < IW_COST_FIRST || p->samples[1] < IW_COST_FIRST) {
        p->zerocopies = p->samples[1] <= p->samples[0];
        return p->zerocopies;
    }
    p->zerocopies = iw_zerocopy_cost_is_less(p);
    if (++p->batches >= IW_COST_AGAIN) {
        p->batches = 0;
        p->zerocopies = !p->zerocopies;
    }
    return p->zerocopies;
}

/* The batch that was chosen for took so many ns for so many bytes, all of which left as chosen. */
static inline void iw_zerocopy_cost_took(iw_zerocopy_cost_t *p, uint64_t bytes, uint64_t ns)
{
    uint64_t *price = &p->price[p->zerocopies], sample = (ns * 1000 + bytes) / (bytes + 1);
    if (p->samples[p->zerocopies] < IW_COST_FIRST) {
        /* The least of the first ones: what touches memory or code for the first time says nothing. */
        *price = 0 == p->samples[p->zerocopies] || sample < *price ? sample : *price;
        ++p->samples[p->zerocopies];
        return;
    }
    if (sample > 2 * *price) {
        sample = 2 * *price;
    }
    *price = *price - *price / IW_COST_WEIGHT + sample / IW_COST_WEIGHT;
}

#endif
