/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Usage: which small buffers are used so often that registering them pays (000 section 5.3.3 and
 * 5.3.4).
 *
 * Words
 *   buffer    an address and a class of lengths (freq_rule.h)
 *   line      four entries in one cache line; a buffer's hash names its home line
 *   chain     a buffer whose home line is full goes to one of the lines behind it
 *   frequent  used more often than the rule asks for: to be sent in place
 *   closed    no buffer is added any more
 *
 * Growth (5.3.4): when the table has begun to chain and less than a fifth of its buffers are
 * frequent it is closed; also when it is full. While it is closed a sketch of the buffers it did
 * not take is kept; when a fifth of those come again, the program has changed its ways: the table
 * opens, and forgets the buffers that are not frequent. If nothing in a closed table is used
 * either, only one use in 64 is looked at, so that a program which never reuses a buffer does not
 * pay for the table.
 *
 * Looking and registering are paid from a budget (freq_budget.h); what it has no room for is copied.
 * When there is not enough to look at every use, part of the buffers is looked at, each time: a sample
 * of the uses would take as much longer to find the first buffer that is frequent. What these gain pays
 * for a larger part.
 *
 * Prices are what things take now (freq_scale.h): copies, findings and looks are timed now and then, all registrations.
 *
 * Entries are dropped when their memory goes away (freq_release.h) and when their registration is
 * refused.
 *
 * Threads: any number in all functions. A buffer is looked up and counted without a lock; two
 * threads that use one buffer at the same moment may be counted once. Adding is for one thread at a
 * time, and a second one does not wait: its buffer is added at a later use. Errors: none; in doubt
 * the answer is to copy. */
#ifndef FREQ_USAGE_H
#define FREQ_USAGE_H

#include "freq_budget.h"
#include "freq_gate.h"
#include "freq_release.h"
#include "freq_rule.h"
#include "freq_scale.h"

enum {
    FREQ_LINE_ENTRIES = 4,
    FREQ_CHAIN_LINES = 4,    /* home line included */
    FREQ_OPEN_PERCENT = 20,  /* 000 section 5.3.4: "a typical value" */
    FREQ_JUDGE_FRACTION = 8, /* growth is judged again when the table has grown by this part, */
    FREQ_JUDGE_LINES = 256,  /* by so many of its lines: on them are some hundred buffers */
    FREQ_SKETCH_WINDOW = 1024,
    FREQ_SLEEP_WINDOWS = 8, /* so many windows without a use of the table: asleep */
    FREQ_ASLEEP_STRIDE = 64,
    FREQ_SAMPLE_START = 15, /* one buffer in 16 */
    /* In place a message is to gain so many times what the gate costs, or the table is not asked of its size. */
    FREQ_WORTH = 80
};

/* What is known of a buffer: when it was added (time of freq_release.h), how often it was used since, and
 * whether it is frequent: its registration was paid. From then on uses are not counted. */
#define FREQ_COUNT_BITS 28
#define FREQ_PAID       (UINT64_C(1) << (FREQ_COUNT_BITS - 1))
#define FREQ_COUNT_MAX  (FREQ_PAID - 1)

typedef struct freq_entry {
    _Atomic uint64_t key;   /* 0: none; a key is replaced but never taken back */
    _Atomic uint64_t state; /* time << FREQ_COUNT_BITS | paid | count */
} freq_entry_t;

typedef struct freq_line {
    _Alignas(64) freq_entry_t entry[FREQ_LINE_ENTRIES];
} freq_line_t;
_Static_assert(sizeof(freq_line_t) == 64, "one cache line");

/* What the user of the table wants to find with a buffer; the table does not look at it. */
typedef _Atomic(void *) freq_note_t;

typedef struct freq_usage {
    freq_gate_t *gate; /* the transport's */

    /* every FREQ_SETTLE copies */
    _Atomic uint64_t settled; /* copies; the others are for who moves it on */
    uint64_t bytes_settled;
    _Atomic uint64_t rested; /* of the copies since */
    _Atomic bool settling;
    const freq_costs_t *costs; /* C as measured; NULL: none are known, and there are no bounds */
    uint32_t share, permille;
    freq_scale_t of_copies, of_places; /* C and V now, beside what was measured; R: */
    freq_mean_t of_registrations;
    freq_scale_t of_looks,
        of_adds;              /* looks where few are made, at buffers that were known or not */
    uint64_t placed;          /* `avoided` when it was settled last */
    uint64_t (*now)(void);    /* what looks are timed by, ns: freq_gate_now, or that of a test */
    uint32_t unplaced;        /* settlings since the last finding was timed */
    _Atomic uint64_t used;    /* looks at buffers that the table knew */
    _Atomic uint64_t avoided; /* of these, said to go in place */

    /* read by every use that is looked at */
    freq_line_t *line;
    freq_note_t *note; /* one for each entry; zero when the entry changes hands */
    uint32_t mask;     /* lines - 1 */
    uint32_t shift;    /* of the hash */
    freq_release_t *release;
    freq_rule_t rule;
    freq_budget_t budget; /* without bounds unless it is made */
    _Atomic bool closed, asleep;
    _Atomic uint16_t times_looks; /* so many are to be timed */
    /* Entries that are not frequent and were added before this are forgotten. */
    _Atomic uint64_t forget;

    /* written by uses of buffers that are not in the table */
    _Alignas(64) atomic_flag adding; /* covers the next two; nobody waits for it */
    uint64_t judged_at;              /* `added` when growth was judged last, 0: never */
    uint64_t used_before;            /* `used` when it was last asked whether to sleep */
    _Atomic bool chained;            /* some buffer is not in its home line */
    _Atomic uint64_t unknown;        /* looks at buffers that the table did not know */
    _Atomic uint64_t added, dropped, no_room, refused, closings, openings;
    _Atomic uint32_t skipped;          /* uses since the last that was looked at, asleep */
    _Atomic uint32_t *sketch;          /* while closed: the last buffer not taken, per home line */
    _Atomic uint32_t missed, repeated; /* in this window */
    _Atomic uint32_t windows;
} freq_usage_t;

typedef struct freq_usage_counts {
    uint64_t buffers;  /* in the table now */
    uint64_t frequent; /* of them */
    uint64_t places;   /* in the table at most */
    uint64_t looked, copies_avoided;
    uint64_t added, dropped, no_room, refused, closings, openings;
    bool closed, asleep;
} freq_usage_counts_t;

/* Bytes for a table of so many lines (a power of two from 4 to 2^20). */
size_t freq_usage_bytes(uint32_t lines);

/* `memory`: zeroed, aligned to 64 bytes, freq_usage_bytes(lines) of it; stays the caller's, as do
 * release and gate, which is zeroed. */
void freq_usage_init(freq_usage_t *usage, void *memory, uint32_t lines, const freq_rule_t *rule,
                     freq_release_t *release, freq_gate_t *gate);

/* From now on by costs: `share` (percent) is the rule's, `permille` the budget's, 0: without bounds. Both are made anew when
 * copies turn out to take another time than costs say, which stay the caller's. Not while others use the
 * table. */
void freq_usage_by_costs(freq_usage_t *usage, const freq_costs_t *costs, uint32_t share,
                         uint32_t permille);

/* The least size of which the table is to be asked; 0: none is. */
size_t freq_usage_least(const freq_usage_t *usage);

/* The buffer is about to be sent (or put, or fetched into), and did not pass the gate. True: in
 * place, and *note is the buffer's; false: by copy, which is counted at the gate where it is made. Settles what is due. */
bool freq_usage_find(freq_usage_t *usage, const void *base, size_t size, freq_note_t **note);

/* The same for those who keep no notes. */
static inline bool freq_usage_look(freq_usage_t *usage, const void *base, size_t size)
{
    freq_note_t *note;
    return freq_usage_find(usage, base, size, &note);
}

/* A buffer that is frequent has lost its registration. True: it may be registered again, which is
 * paid; false: copy this time. */
static inline bool freq_usage_may_renew(freq_usage_t *usage, size_t size)
{
    const uint32_t class = freq_class_of(size);
    return FREQ_CLASSES != class && freq_budget_pay(&usage->budget, class);
}

/* The buffer was registered, or found registered already; that took so long, ns. */
void freq_usage_registered(freq_usage_t *usage, size_t size, uint64_t ns);

/* The buffer could not be registered: it has to earn it once more. */
void freq_usage_refused(freq_usage_t *usage, const void *base, size_t size);

/* Goes through the whole table. */
void freq_usage_count(freq_usage_t *usage, freq_usage_counts_t *counts);

/* ---- inside ---- */

/* An address has at most 57 bits, a class 6. */
static inline uint64_t freq_usage_key(const void *base, uint32_t class)
{
    return (uint64_t) (uintptr_t) base << 6 | class;
}

static inline uint64_t freq_usage_hash(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint32_t freq_usage_home(const freq_usage_t *usage, uint64_t key)
{
    return (uint32_t) (freq_usage_hash(key) >> usage->shift);
}

/* Are so few messages looked up that what a look reads is in no cache? */
static inline bool freq_usage_is_rare(const freq_usage_t *usage)
{
    return 0
           != atomic_load_explicit((_Atomic uint32_t *) &usage->gate->sample, memory_order_relaxed);
}

/* The message goes in place. */
static inline void freq_usage_avoided(freq_usage_t *usage, uint32_t class)
{
    atomic_store_explicit(&usage->avoided,
                          atomic_load_explicit(&usage->avoided, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    freq_budget_gain(&usage->budget, class, freq_usage_is_rare(usage));
}

/* Uses of buffers that are not in their home line. */
bool freq_usage_look_on(freq_usage_t *usage, const void *base, size_t size, uint32_t class,
                        freq_note_t **note);

/* Uses while the table is asleep. */
bool freq_usage_look_asleep(freq_usage_t *usage, const void *base, size_t size, uint32_t class,
                            freq_note_t **note);

/* The entry is dropped: it starts anew. */
void freq_usage_renew(freq_usage_t *usage, freq_entry_t *entry, uint64_t state);

static inline bool freq_usage_is_dropped(freq_usage_t *usage, uint64_t state, const void *base,
                                         size_t size)
{
    const uint64_t time = state >> FREQ_COUNT_BITS;
    return freq_release_is_void(usage->release, (uintptr_t) base, size, time)
           || (0 == (state & FREQ_PAID)
               && time < atomic_load_explicit(&usage->forget, memory_order_relaxed));
}

/* The entry of the buffer is found. Not an atomic addition: two threads that use one buffer at once are
 * rare, and being counted once hurts nobody. */
static inline bool freq_usage_use(freq_usage_t *usage, freq_entry_t *entry, const void *base,
                                  size_t size, uint32_t class, freq_note_t **note)
{
    *note = &usage->note[entry - usage->line[0].entry];
    const uint64_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    atomic_store_explicit(&usage->used,
                          atomic_load_explicit(&usage->used, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (__builtin_expect(freq_usage_is_dropped(usage, state, base, size), 0)) {
        freq_usage_renew(usage, entry, state);
        return false;
    }
    if (0 == (state & FREQ_PAID)) {
        /* What is full is enough: one more would be the bit of what was paid. */
        const uint64_t count = state & FREQ_COUNT_MAX;
        if (count < freq_rule_after(&usage->rule, class) && count < FREQ_COUNT_MAX) {
            atomic_store_explicit(&entry->state, state + 1, memory_order_relaxed);
            return false;
        }
        if (!freq_budget_pay(&usage->budget, class)) {
            return false; /* asked again at its next use */
        }
        atomic_store_explicit(&entry->state, state | FREQ_PAID, memory_order_relaxed);
    }
    freq_usage_avoided(usage, class);
    return true;
}

#endif
