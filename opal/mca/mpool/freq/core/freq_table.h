/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The table of buffer uses: counts how often each small buffer is sent, and says from which use on it is to be
 * registered and sent in place instead of being copied (000 section 5.3).
 * docs/design/mpool.md says how uses are counted, what pays for it (the budget), and why copies are timed.
 *
 * Words
 *   buffer    an address and a class of lengths (freq_rule.h)
 *   line      three buffers in one cache line, with their notes; a buffer's hash names its line
 *   frequent  used as often as the rule asks for: sent in place
 *   note      what the transport keeps beside a buffer, for example its registration
 *
 * Threads: any number, in all functions but those that set up. No lock is waited for, and two threads that use one buffer at the
 * same moment may be counted once. Errors: none; in doubt the answer is to copy. */
#ifndef FREQ_TABLE_H
#define FREQ_TABLE_H

#include "freq_gate.h"
#include "freq_rule.h"

enum {
    FREQ_WAYS = 3, /* buffers in a line */
    FREQ_STAY = 64,
    FREQ_SAMPLE_START = 15, /* one block in 16 */
    FREQ_SAMPLE_MOST = 63,
    FREQ_SETTLE = 1024, /* so many copies are added to the balance together */
    FREQ_PERMILLE = 2,
    FREQ_SHARE = 25,   /* percent of the uses that repay it, after which a buffer is registered in the hope of more */
    FREQ_COUNTED = 80, /* percent of a gain, since costs vary */
    /* registrations, of FREQ_PRICED bytes for the first: */
    FREQ_START = 28,
    FREQ_PRICED = 8192,
    FREQ_BELOW = 3,
    FREQ_AHEAD = 2, /* before one is made */
    FREQ_MORE = 8,  /* before more buffers are counted */
    FREQ_MOST = 64,
    FREQ_DEAREST = 4,         /* what took longer was something else at the same time */
    FREQ_TIMED = 4,
    FREQ_SCALES = 5
};
#define FREQ_SCALE 1.25 /* so much longer are copies of a scale than of the one before */

/* The state of an entry: a generation, which changes with the buffer; is it frequent; its count. */
#define FREQ_FREQUENT  (UINT32_C(1) << 22)
#define FREQ_COUNT_MAX (FREQ_FREQUENT - 1)

typedef _Atomic(void *) freq_note_t;

typedef struct freq_line {
    _Alignas(64) _Atomic uint64_t key[FREQ_WAYS]; /* 0: empty */
    freq_note_t note[FREQ_WAYS];                  /* NULL when the entry changes hands */
    _Atomic uint32_t state[FREQ_WAYS];
} freq_line_t;
_Static_assert(sizeof(freq_line_t) == 64, "one cache line");

typedef struct freq_scale {
    double times; /* C of the start */
    freq_rule_t rule;
    int64_t earns[FREQ_CLASSES], gains[FREQ_CLASSES]; /* ps; 0 in all: without a budget */
} freq_scale_t;

typedef struct freq_table {
    freq_gate_t *gate; /* the transport's */
    freq_line_t *line;
    uint32_t shift; /* of the hash, down to the number of a line */
    _Atomic uint32_t scale;
    freq_scale_t by[FREQ_SCALES];
    size_t least;
    _Atomic uint64_t avoided, in_vain; /* searches: in place; not */

    /* ps; 0 in all: without a budget */
    bool is_bounded;
    _Atomic int64_t balance;
    int64_t most, search;
    int64_t price[FREQ_CLASSES];
    double c[FREQ_POINTS]; /* ns; of the first scale */

    _Alignas(64) atomic_flag settling; /* covers the next five */
    uint64_t in_vain_before, avoided_before, bytes_settled;
    uint64_t timed;
    double took[FREQ_TIMED];  /* of the last copies that were timed, times c */
    _Atomic uint64_t settled; /* copies; */
    atomic_flag adding;       /* never waited for */
    _Atomic uint64_t added, replaced, refused;
} freq_table_t;

typedef struct freq_counts {
    uint64_t buffers, frequent, most; /* in the table: now; of these; at most */
    uint64_t searched, copies_avoided, added, replaced, refused;
} freq_counts_t;

/* `memory`: zeroed, aligned to 64 bytes, a freq_line_t for each of `lines` (a power of two from 4 to 2^20). It stays the caller's,
 * as does the gate, which is zeroed. Every buffer is in place after so many uses, FREQ_NEVER: none; there is no budget. */
void freq_table_init(freq_table_t *table, freq_line_t *memory, uint32_t lines, uint32_t after,
                     freq_gate_t *gate);

/* From now on by costs: `share` (percent) is the rule's; permille 0: without a budget. Not while others use the table. */
void freq_table_by_costs(freq_table_t *table, const freq_costs_t *costs, uint32_t share,
                         uint32_t permille);

/* The buffer is about to be sent (or put, or fetched into), and did not pass the gate. True: in place, and *note is the
 * buffer's. False: by copy, which is counted at the gate where it is made. */
bool freq_table_find(freq_table_t *table, const void *base, size_t size, freq_note_t **note);

/* freq_table_find said true, but the registration that was noted does not serve. True: it may be registered again. */
bool freq_table_may_renew(freq_table_t *table, size_t size);

/* It was registered, or found registered already; that took so long, ns. */
void freq_table_registered(freq_table_t *table, size_t size, uint64_t ns);

/* It could not be registered: it has to be used as often once more. */
void freq_table_refused(freq_table_t *table, const void *base, size_t size);

/* The rule of now. */
static inline const freq_scale_t *freq_table_scale(const freq_table_t *table)
{
    return &table->by[atomic_load_explicit((_Atomic uint32_t *) &table->scale,
                                           memory_order_relaxed)];
}

/* Goes through the whole table. */
void freq_table_count(freq_table_t *table, uint32_t lines, freq_counts_t *counts);

#endif
