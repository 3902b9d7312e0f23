/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See freq_table.h: the counts of uses of small buffers, and the balance of time that searching and registering them are
 * paid from. */
#include "freq_table.h"

#include <string.h>

static inline uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit((_Atomic uint64_t *) word, memory_order_relaxed);
}

static inline void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* Fibonacci hashing (Knuth, TAOCP 3, 6.4). */
static inline uint64_t hash(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15);
}

/* An address has at most 57 bits, a class 6. */
static inline uint64_t key_of(const void *base, uint32_t class)
{
    return (uint64_t) (uintptr_t) base << 6 | class;
}

static inline freq_line_t *line_of(const freq_table_t *t, uint64_t key)
{
    return &t->line[hash(key) >> t->shift];
}

void freq_table_init(freq_table_t *table, freq_line_t *memory, uint32_t lines, uint32_t after,
                     freq_gate_t *gate)
{
    *table = (freq_table_t){.gate = gate,
                            .line = memory,
                            .shift = 64 - (uint32_t) __builtin_ctz(lines),
                            .least = FREQ_NEVER == after ? 0 : FREQ_SIZE_MIN,
                            .settling = ATOMIC_FLAG_INIT,
                            .adding = ATOMIC_FLAG_INIT};
    for (uint32_t i = 0; i < FREQ_SCALES; ++i) {
        table->by[i].times = 1;
        freq_rule_fixed(&table->by[i].rule, after);
    }
}

/* ---- the balance ---- */

/* Not added to atomically: of threads at the same moment one may not be counted. */
static inline void add(freq_table_t *t, int64_t ps)
{
    const int64_t sum = atomic_load_explicit(&t->balance, memory_order_relaxed) + ps;
    atomic_store_explicit(&t->balance, sum < t->most ? sum : t->most, memory_order_relaxed);
}

static inline bool has(const freq_table_t *t, int64_t ps)
{
    return !t->is_bounded
           || atomic_load_explicit((_Atomic int64_t *) &t->balance, memory_order_relaxed) >= ps;
}

static int64_t ps_of(double ns)
{
    return (int64_t) (ns * 1000);
}

/* The rule for copies that take scale->times as long as those that were measured. */
static void make_scale(freq_scale_t *scale, freq_costs_t costs, uint32_t share, uint32_t permille)
{
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        costs.c[i] *= scale->times;
    }
    freq_rule_make(&scale->rule, &costs, share);
    for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
        const size_t size = freq_class_size(class);
        scale->earns[class] = 1 + (int64_t) (freq_cost_at(costs.c, size) * permille);
        scale->gains[class] = ps_of(freq_gain_at(&costs, size) * FREQ_COUNTED / 100);
    }
}

void freq_table_by_costs(freq_table_t *table, const freq_costs_t *costs, uint32_t share,
                         uint32_t permille)
{
    for (uint32_t i = 0; i < FREQ_SCALES; ++i) {
        table->by[i].times = 0 == i ? 1 : table->by[i - 1].times * FREQ_SCALE;
        make_scale(&table->by[i], *costs, share, permille);
    }
    table->is_bounded = permille > 0;
    table->least = 0;
    table->most = 0;
    table->search = ps_of(costs->search);
    memcpy(table->c, costs->c, sizeof(table->c));
    for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
        const int64_t gain = table->by[FREQ_SCALES - 1].gains[class] * 100 / FREQ_COUNTED;
        table->price[class] = ps_of(freq_cost_at(costs->r, freq_class_size(class)));
        if (FREQ_MOST * table->price[class] > table->most) {
            table->most = FREQ_MOST * table->price[class];
        }
        /* What gains less than a search costs makes no program faster, whatever its copies take. */
        if (0 == table->least && gain > 0 && (0 == permille || gain >= table->search)) {
            table->least = freq_class_size(class);
        }
    }
    table->balance = FREQ_START * table->price[freq_class_of(FREQ_PRICED)];
    store(&table->gate->due, table->is_bounded ? FREQ_SETTLE : 0);
    atomic_store_explicit(&table->gate->sample, table->is_bounded ? FREQ_SAMPLE_START : 0,
                          memory_order_relaxed);
}

/* A copy was timed: ns << 32 | bytes. */
static void rescale(freq_table_t *t, uint64_t timed)
{
    const uint64_t clock = freq_gate_took(spec_now());
    const double c = freq_cost_at(t->c, (uint32_t) timed);
    t->took[t->timed++ % FREQ_TIMED] = c > 0 ? ((double) (timed >> 32) - (double) clock) / c : 0;
    double least = t->took[0];
    for (uint32_t i = 1; i < FREQ_TIMED; ++i) {
        least = t->took[i] < least ? t->took[i] : least;
    }
    uint32_t scale = 0;
    while (scale + 1 < FREQ_SCALES && least >= t->by[scale + 1].times) {
        ++scale;
    }
    atomic_store_explicit(&t->scale, scale, memory_order_relaxed);
}

/* What the copies since the last time earn, n of this class. More buffers are counted if what is in place gains what twice as
 * many searches cost, and what would be found could be registered; fewer if it does not gain what searches cost, and the balance
 * is used up. */
static void settle_copies(freq_table_t *t, int64_t n, uint32_t class)
{
    const freq_scale_t *scale = freq_table_scale(t);
    const uint64_t in_vain = load(&t->in_vain), avoided = load(&t->avoided);
    const int64_t searches = (int64_t) (in_vain - t->in_vain_before) * t->search;
    const int64_t gained = (int64_t) (avoided - t->avoided_before) * scale->gains[class];
    uint32_t sample = atomic_load_explicit(&t->gate->sample, memory_order_relaxed);
    if (gained >= 2 * searches && has(t, FREQ_MORE * t->price[class])) {
        sample = sample / 2;
    } else if (gained <= searches && sample < FREQ_SAMPLE_MOST && !has(t, 0)) {
        sample = 2 * sample + 1;
    }
    atomic_store_explicit(&t->gate->sample, sample, memory_order_relaxed);
    t->in_vain_before = in_vain;
    t->avoided_before = avoided;
    add(t, n * scale->earns[class]);
}

/* As so many copies of their mean size: C is all but linear. */
static void settle(freq_table_t *t)
{
    if (atomic_flag_test_and_set_explicit(&t->settling, memory_order_acquire)) {
        return;
    }
    const uint64_t copies = load(&t->gate->copies), bytes = load(&t->gate->bytes_copied);
    const uint64_t n = copies - load(&t->settled);
    if (n >= FREQ_SETTLE) {
        const uint32_t class = freq_class_of((bytes - t->bytes_settled) / n);
        const uint64_t timed = load(&t->gate->timed);
        store(&t->settled, copies);
        store(&t->gate->due, copies + FREQ_SETTLE);
        t->bytes_settled = bytes;
        if (0 != timed) {
            store(&t->gate->timed, 0);
            rescale(t, timed);
        }
        if (FREQ_CLASSES != class && t->is_bounded) {
            settle_copies(t, (int64_t) n, class);
        }
    }
    atomic_flag_clear_explicit(&t->settling, memory_order_release);
}

/* ---- counts ---- */

/* The state that was read becomes another, unless it is not the entry's any more. */
static inline bool become(_Atomic uint32_t *state, uint32_t was, uint32_t is)
{
    return atomic_compare_exchange_strong_explicit(state, &was, is, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Which entry of a line has this key; FREQ_WAYS: none. */
static inline uint32_t way_of(const freq_line_t *line, uint64_t key)
{
    uint32_t i = 0;
    while (i < FREQ_WAYS && key != load(&line->key[i])) {
        ++i;
    }
    return i;
}

/* A buffer that is not in its line. */
static void add_buffer(freq_table_t *t, freq_line_t *line, uint64_t key)
{
    if (atomic_flag_test_and_set_explicit(&t->adding, memory_order_acquire)) {
        return; /* at a later use */
    }
    uint32_t at = way_of(line, key);
    const bool is_new = FREQ_WAYS == at;
    for (uint32_t i = 0; is_new && FREQ_WAYS == at && i < FREQ_WAYS; ++i) {
        const uint32_t state = atomic_load_explicit(&line->state[i], memory_order_relaxed);
        at = 0 == load(&line->key[i]) || 0 == (state & FREQ_COUNT_MAX) ? i : at;
    }
    for (uint32_t i = 0; FREQ_WAYS == at && i < FREQ_WAYS; ++i) {
        const uint32_t state = atomic_load_explicit(&line->state[i], memory_order_relaxed);
        (void) become(&line->state[i], state, state - (0 != (state & FREQ_COUNT_MAX)));
    }
    if (is_new && FREQ_WAYS != at) {
        const uint32_t state = atomic_load_explicit(&line->state[at], memory_order_relaxed);
        const uint32_t generation = (state & ~(FREQ_FREQUENT | FREQ_COUNT_MAX)) + 2 * FREQ_FREQUENT;
        store(&t->replaced, load(&t->replaced) + (0 != load(&line->key[at])));
        store(&t->added, load(&t->added) + 1);
        atomic_store_explicit(&line->note[at], NULL, memory_order_relaxed);
        atomic_store_explicit(&line->state[at], generation | 1, memory_order_relaxed);
        atomic_store_explicit(&line->key[at], key, memory_order_release);
    }
    atomic_flag_clear_explicit(&t->adding, memory_order_release);
}

/* The buffer is known and is used. True: in place. */
static inline bool use(freq_table_t *t, _Atomic uint32_t *at, uint32_t class)
{
    const freq_scale_t *scale = freq_table_scale(t);
    const uint32_t state = atomic_load_explicit(at, memory_order_relaxed);
    const uint32_t count = state & FREQ_COUNT_MAX;
    if (0 == (state & FREQ_FREQUENT)) {
        if (count < scale->rule.after[class] && count < FREQ_COUNT_MAX) {
            (void) become(at, state, state + 1);
            return false;
        }
        if (FREQ_NEVER == scale->rule.after[class] || !has(t, FREQ_AHEAD * t->price[class])
            || !become(at, state, state - count + FREQ_FREQUENT + FREQ_STAY)) {
            return false; /* asked again at its next use */
        }
    } else if (FREQ_STAY != count) {
        (void) become(at, state, state - count + FREQ_STAY);
    }
    store(&t->avoided, load(&t->avoided) + 1);
    add(t, scale->gains[class]);
    return true;
}

bool freq_table_find(freq_table_t *table, const void *base, size_t size, freq_note_t **note)
{
    const uint32_t class = freq_class_of(size);
    if (FREQ_CLASSES == class || FREQ_NEVER == table->by[FREQ_SCALES - 1].rule.after[class]) {
        return false;
    }
    if (load(&table->gate->copies) - load(&table->settled) >= FREQ_SETTLE) {
        settle(table);
    }
    if (__builtin_expect(!has(table, -FREQ_BELOW * table->price[class]), 0)) {
        return false;
    }
    if (!freq_gate_has(atomic_load_explicit(&table->gate->sample, memory_order_relaxed), base)) {
        return false;
    }
    const uint64_t key = key_of(base, class);
    freq_line_t *line = line_of(table, key);
    const uint32_t at = way_of(line, key);
    if (FREQ_WAYS == at) {
        add_buffer(table, line, key);
    } else if (use(table, &line->state[at], class)) {
        *note = &line->note[at];
        return true;
    }
    store(&table->in_vain, load(&table->in_vain) + 1);
    add(table, -table->search);
    return false;
}

/* ---- registrations ---- */

bool freq_table_may_renew(freq_table_t *table, size_t size)
{
    const uint32_t class = freq_class_of(size);
    if (FREQ_CLASSES == class) {
        return false;
    }
    add(table, -freq_table_scale(table)->gains[class]); /* this use gains nothing */
    return has(table, FREQ_AHEAD * table->price[class]);
}

void freq_table_registered(freq_table_t *table, size_t size, uint64_t ns)
{
    const uint32_t class = freq_class_of(size);
    if (FREQ_CLASSES != class && table->is_bounded) {
        const int64_t most = FREQ_DEAREST * table->price[class];
        add(table, -(ns < (uint64_t) most / 1000 ? (int64_t) ns * 1000 : most));
    }
}

void freq_table_refused(freq_table_t *table, const void *base, size_t size)
{
    const uint32_t class = freq_class_of(size);
    (void) atomic_fetch_add_explicit(&table->refused, 1, memory_order_relaxed);
    if (FREQ_CLASSES == class) {
        return;
    }
    const uint64_t key = key_of(base, class);
    freq_line_t *line = line_of(table, key);
    const uint32_t at = way_of(line, key);
    const uint32_t state =
        FREQ_WAYS == at ? 0 : atomic_load_explicit(&line->state[at], memory_order_relaxed);
    if (0 != (state & FREQ_FREQUENT)
        && become(&line->state[at], state, state & ~(FREQ_FREQUENT | FREQ_COUNT_MAX))) {
        add(table, -freq_table_scale(table)->gains[class]);
        store(&table->avoided, load(&table->avoided) - 1);
    }
}

void freq_table_count(freq_table_t *table, uint32_t lines, freq_counts_t *counts)
{
    *counts = (freq_counts_t){
        .most = (uint64_t) lines * FREQ_WAYS,
        .searched = load(&table->in_vain) + load(&table->avoided),
        .copies_avoided = load(&table->avoided),
        .added = load(&table->added),
        .replaced = load(&table->replaced),
        .refused = load(&table->refused),
    };
    for (uint32_t l = 0; l < lines; ++l) {
        for (uint32_t i = 0; i < FREQ_WAYS; ++i) {
            const uint32_t state =
                atomic_load_explicit(&table->line[l].state[i], memory_order_relaxed);
            counts->buffers += 0 != load(&table->line[l].key[i]);
            counts->frequent += 0 != (state & FREQ_FREQUENT);
        }
    }
}
