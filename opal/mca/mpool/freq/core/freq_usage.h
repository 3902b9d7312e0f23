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
#include "freq_release.h"
#include "freq_rule.h"

enum {
    FREQ_LINE_ENTRIES = 4,
    FREQ_CHAIN_LINES = 4,    /* home line included */
    FREQ_OPEN_PERCENT = 20,  /* 000 section 5.3.4: "a typical value" */
    FREQ_JUDGE_FRACTION = 8, /* growth is judged again when the table has grown by this part */
    FREQ_SKETCH_WINDOW = 1024,
    FREQ_SLEEP_WINDOWS = 8, /* so many windows without a use of the table: asleep */
    FREQ_ASLEEP_STRIDE = 64,
    FREQ_SAMPLE_MAX = 63, /* one buffer in 64 */
    FREQ_SETTLE = 64      /* messages of a class that earn together: the others only count */
};

/* What is known of a buffer: when it was added (time of freq_release.h), and how often it was used
 * since. */
#define FREQ_COUNT_BITS 28
#define FREQ_COUNT_MAX  ((UINT64_C(1) << FREQ_COUNT_BITS) - 1)

typedef struct freq_entry {
    _Atomic uint64_t key;   /* 0: none; a key is replaced but never taken back */
    _Atomic uint64_t state; /* time << FREQ_COUNT_BITS | count */
} freq_entry_t;

typedef struct freq_line {
    _Alignas(64) freq_entry_t entry[FREQ_LINE_ENTRIES];
} freq_line_t;
_Static_assert(sizeof(freq_line_t) == 64, "one cache line");

/* What the user of the table wants to find with a buffer; the table does not look at it. */
typedef _Atomic(void *) freq_note_t;

typedef struct freq_usage {
    /* read by every use */
    freq_line_t *line;
    freq_note_t *note; /* one for each entry; zero when the entry changes hands */
    uint32_t mask;  /* lines - 1 */
    uint32_t shift; /* of the hash */
    freq_release_t *release;
    freq_rule_t rule;
    freq_budget_t budget; /* without bounds unless it is made */
    /* Bits of a buffer's hash, 2^k - 1: only buffers that have none of them are looked up. */
    _Atomic uint32_t sample;
    _Atomic bool closed, asleep;
    _Atomic uint32_t messages[FREQ_CLASSES]; /* that came, and could have been looked up */
    /* Entries that are not frequent and were added before this are forgotten. */
    _Atomic uint64_t forget;

    /* written by uses of buffers that are not in the table */
    _Alignas(64) atomic_flag adding; /* covers the next two; nobody waits for it */
    uint64_t judged_at;              /* `added` when growth was judged last, 0: never */
    uint64_t used_before; /* uses counted by the table when it was last asked whether to sleep */
    _Atomic bool chained; /* some buffer is not in its home line */
    _Atomic uint64_t added, dropped, no_room, refused, closings, openings;
    _Atomic uint64_t folded;           /* copies avoided that no entry counts any more */
    _Atomic uint32_t skipped;          /* uses since the last that was looked at, asleep */
    _Atomic uint32_t *sketch;          /* while closed: the last buffer not taken, per home line */
    _Atomic uint32_t missed, repeated; /* in this window */
    _Atomic uint32_t windows;
} freq_usage_t;

typedef struct freq_usage_counts {
    uint64_t buffers;  /* in the table now */
    uint64_t frequent; /* of them */
    uint64_t places;   /* in the table at most */
    uint64_t copies_avoided;
    uint64_t added, dropped, no_room, refused, closings, openings;
    bool closed, asleep;
} freq_usage_counts_t;

/* Bytes for a table of so many lines (a power of two from 4 to 2^20). */
size_t freq_usage_bytes(uint32_t lines);

/* `memory`: zeroed, aligned to 64 bytes, freq_usage_bytes(lines) of it; stays the caller's, as does
 * release. */
void freq_usage_init(freq_usage_t *usage, void *memory, uint32_t lines, const freq_rule_t *rule,
                     freq_release_t *release);

/* Another rule (for example measured later). Not while others use the table. */
void freq_usage_set_rule(freq_usage_t *usage, const freq_rule_t *rule);

/* The buffer is about to be sent (or put, or fetched into). True: in place, and *note is the buffer's;
 * false: by copy. */
static inline bool freq_usage_find(freq_usage_t *usage, const void *base, size_t size,
                                   freq_note_t **note);

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

/* The buffer could not be registered: it has to earn it once more. */
void freq_usage_refused(freq_usage_t *usage, const void *base, size_t size);

/* Goes through the whole table. */
void freq_usage_count(freq_usage_t *usage, freq_usage_counts_t *counts);

/* ---- the fast path ---- */

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

/* FREQ_SETTLE messages of the class have come since the last time. */
void freq_usage_settle(freq_usage_t *usage, uint32_t class);

/* Most messages that no table is of use to end here: as little as can be. */
static inline bool freq_usage_may_look(freq_usage_t *usage, uint64_t key, uint32_t class)
{
    const uint32_t sample = atomic_load_explicit(&usage->sample, memory_order_relaxed);
    const uint32_t messages =
        atomic_load_explicit(&usage->messages[class], memory_order_relaxed) + 1;
    atomic_store_explicit(&usage->messages[class], messages, memory_order_relaxed);
    if (__builtin_expect(0 == messages % FREQ_SETTLE, 0)) {
        freq_usage_settle(usage, class);
    }
    return 0 == ((freq_usage_hash(key) >> 32) & sample);
}

/* Uses of buffers that are not in their home line. */
bool freq_usage_look_on(freq_usage_t *usage, const void *base, size_t size, uint32_t class,
                        freq_note_t **note);

/* Uses while the table is asleep. */
bool freq_usage_look_asleep(freq_usage_t *usage, const void *base, size_t size, uint32_t class,
                            freq_note_t **note);

/* The entry is dropped, or its count full. */
bool freq_usage_renew(freq_usage_t *usage, freq_entry_t *entry, uint64_t state, bool is_dropped,
                      uint32_t after);

static inline bool freq_usage_is_dropped(freq_usage_t *usage, uint64_t state, const void *base,
                                         size_t size, uint32_t after)
{
    const uint64_t time = state >> FREQ_COUNT_BITS;
    return freq_release_is_void(usage->release, (uintptr_t) base, size, time)
           || ((state & FREQ_COUNT_MAX) <= after
               && time < atomic_load_explicit(&usage->forget, memory_order_relaxed));
}

/* The entry of the buffer is found. */
static inline bool freq_usage_use(freq_usage_t *usage, freq_entry_t *entry, const void *base,
                                  size_t size, uint32_t class, freq_note_t **note)
{
    const uint32_t after = usage->rule.after[class];
    *note = &usage->note[entry - usage->line[0].entry];
    const uint64_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    const bool is_dropped = freq_usage_is_dropped(usage, state, base, size, after);
    if (__builtin_expect(is_dropped || FREQ_COUNT_MAX == (state & FREQ_COUNT_MAX), 0)) {
        return freq_usage_renew(usage, entry, state, is_dropped, after);
    }
    const uint64_t count = state & FREQ_COUNT_MAX;
    if (count == after && !freq_budget_pay(&usage->budget, class)) {
        return false; /* asked again at its next use */
    }
    /* Not an atomic addition: two threads that use one buffer at once are rare, and being counted
     * once hurts nobody. */
    atomic_store_explicit(&entry->state, state + 1, memory_order_relaxed);
    if (count < after) {
        return false;
    }
    freq_budget_gain(&usage->budget, class);
    return true;
}

/* The buffer is looked up if that can be paid. Out of line: the many messages that are not looked up shall not carry what
 * those need that are. */
bool freq_usage_find_sampled(freq_usage_t *usage, const void *base, size_t size, uint32_t class,
                             freq_note_t **note);

static inline bool freq_usage_find(freq_usage_t *usage, const void *base, size_t size,
                                   freq_note_t **note)
{
    const uint32_t class = freq_class_of(size);
    return FREQ_CLASSES != class && FREQ_NEVER != usage->rule.after[class]
           && freq_usage_may_look(usage, freq_usage_key(base, class), class)
           && freq_usage_find_sampled(usage, base, size, class, note);
}

#endif
