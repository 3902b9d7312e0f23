/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
#include "freq_usage.h"

enum { LOOKS_APART = 8 }; /* one in so many may be timed */

static inline uint64_t load(_Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void bump(_Atomic uint64_t *counter, uint64_t by)
{
    (void) atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

size_t freq_usage_bytes(uint32_t lines)
{
    return (size_t) lines
           * (sizeof(freq_line_t) + FREQ_LINE_ENTRIES * sizeof(freq_note_t) + sizeof(uint32_t));
}

/* Buffers of this sample are looked up, and the next settling is due in its time. */
static void watch(freq_usage_t *usage, uint32_t sample)
{
    atomic_store_explicit(&usage->gate->next, load(&usage->gate->copies) + FREQ_SETTLE,
                          memory_order_relaxed);
    atomic_store_explicit(&usage->gate->sample, sample, memory_order_relaxed);
}

void freq_usage_init(freq_usage_t *usage, void *memory, uint32_t lines, const freq_rule_t *rule,
                     freq_release_t *release, freq_gate_t *gate)
{
    freq_note_t *note = (freq_note_t *) ((freq_line_t *) memory + lines);
    *usage = (freq_usage_t){.line = memory,
                            .note = note,
                            .mask = lines - 1,
                            .shift = 64 - (uint32_t) __builtin_ctz(lines),
                            .release = release,
                            .gate = gate,
                            .rule = *rule,
                            .adding = ATOMIC_FLAG_INIT,
                            .now = freq_gate_now,
                            .sketch = (_Atomic uint32_t *) (note + lines * FREQ_LINE_ENTRIES)};
    watch(usage, 0);
}

static double times(double cost, uint32_t scale)
{
    return cost * (double) scale / FREQ_SCALE_ONE;
}

/* What is known now of what was measured. */
static freq_costs_t costs_now(const freq_usage_t *usage)
{
    freq_costs_t c = *usage->costs;
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        c.r[i] = times(c.r[i], freq_mean_now(&usage->of_registrations));
        c.c[i] = times(c.c[i], freq_scale_now(&usage->of_copies));
    }
    c.v = times(c.v, freq_scale_now(&usage->of_places));
    c.rare = times(c.rare, freq_scale_now(&usage->of_looks));
    c.add = times(c.add, freq_scale_now(&usage->of_adds));
    return c;
}

static void by_costs_now(freq_usage_t *usage)
{
    const freq_costs_t costs = costs_now(usage);
    freq_rule_make(&usage->rule, &costs, usage->share);
    if (usage->permille > 0) {
        freq_budget_again(&usage->budget, &costs, usage->permille);
    }
}

void freq_usage_by_costs(freq_usage_t *usage, const freq_costs_t *costs, uint32_t share,
                         uint32_t permille)
{
    usage->costs = costs;
    usage->share = share;
    usage->permille = permille;
    atomic_store_explicit(&usage->gate->times, FREQ_GATE_TIMES, memory_order_relaxed);
    atomic_store_explicit(&usage->times_looks, 2 * FREQ_SCALE_SAMPLES, memory_order_relaxed);
    freq_rule_make(&usage->rule, costs, share);
    if (permille > 0) {
        freq_budget_make(&usage->budget, costs, permille);
        watch(usage, FREQ_SAMPLE_START);
    }
}

size_t freq_usage_least(const freq_usage_t *usage)
{
    if (NULL == usage->costs) {
        return freq_rule_least(&usage->rule);
    }
    /* What is too small now may not be later. But every message that is asked of pays for the gate, and what gains
     * less than a few of these when it is in place makes no program faster. */
    freq_costs_t likely = *usage->costs;
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        likely.c[i] = times(likely.c[i], FREQ_SCALE_LIKELY);
    }
    const double worth = 0 == usage->permille ? 0 : FREQ_WORTH * likely.gate;
    for (uint32_t class = 0; class < FREQ_CLASSES; ++class) {
        const double gain = freq_gain_at(&likely, freq_class_size(class));
        if (gain > 0 && gain >= worth) {
            return freq_class_size(class);
        }
    }
    return 0;
}

/* ---- entries ---- */

static uint64_t state_now(const freq_usage_t *usage, uint64_t count)
{
    return freq_release_now(usage->release) << FREQ_COUNT_BITS | count;
}

/* What was noted belongs to memory, or to a registration, that is gone. */
static void forget_note(freq_usage_t *usage, const freq_entry_t *entry)
{
    atomic_store_explicit(&usage->note[entry - usage->line[0].entry], NULL, memory_order_relaxed);
}

void freq_usage_renew(freq_usage_t *usage, freq_entry_t *entry, uint64_t state)
{
    if (atomic_compare_exchange_strong_explicit(&entry->state, &state, state_now(usage, 1),
                                                memory_order_relaxed, memory_order_relaxed)) {
        forget_note(usage, entry);
        bump(&usage->dropped, 1);
    }
}

static const void *base_of(uint64_t key)
{
    return (const void *) (uintptr_t) (key >> 6);
}

static uint32_t class_of(uint64_t key)
{
    return key & 63;
}

/* Is there nothing in the entry that is worth keeping? */
static bool is_dropped(freq_usage_t *usage, uint64_t key, uint64_t state)
{
    return freq_usage_is_dropped(usage, state, base_of(key), freq_class_size(class_of(key)));
}

/* The entry of a buffer in a line; NULL: it has none. */
static freq_entry_t *find_in(freq_line_t *line, uint64_t key)
{
    for (uint32_t i = 0; i < FREQ_LINE_ENTRIES; ++i) {
        if (key == load(&line->entry[i].key)) {
            return &line->entry[i];
        }
    }
    return NULL;
}

static freq_line_t *line_at(freq_usage_t *usage, uint32_t home, uint32_t step)
{
    return &usage->line[(home + step) & usage->mask];
}

static freq_entry_t *find(freq_usage_t *usage, uint64_t key)
{
    const uint32_t home = freq_usage_home(usage, key);
    const bool chained = atomic_load_explicit(&usage->chained, memory_order_relaxed);
    for (uint32_t step = 0; step < (chained ? FREQ_CHAIN_LINES : 1); ++step) {
        freq_entry_t *entry = find_in(line_at(usage, home, step), key);
        if (NULL != entry) {
            return entry;
        }
    }
    return NULL;
}

/* An entry for a new buffer in a line: unused or dropped. NULL: the line is full. */
static freq_entry_t *place_in(freq_usage_t *usage, freq_line_t *line)
{
    for (uint32_t i = 0; i < FREQ_LINE_ENTRIES; ++i) {
        freq_entry_t *entry = &line->entry[i];
        const uint64_t key = load(&entry->key);
        if (0 == key || is_dropped(usage, key, load(&entry->state))) {
            return entry;
        }
    }
    return NULL;
}

/* ---- growth ---- */

typedef struct {
    uint64_t buffers, frequent;
} census_t;

/* Of every line, or of one in so many. */
static census_t census(freq_usage_t *usage, uint32_t stride)
{
    census_t c = {0};
    for (uint32_t l = 0; l <= usage->mask; l += stride) {
        for (uint32_t i = 0; i < FREQ_LINE_ENTRIES; ++i) {
            const uint64_t key = load(&usage->line[l].entry[i].key);
            const uint64_t state = load(&usage->line[l].entry[i].state);
            if (0 == key) {
                continue;
            }
            if (!is_dropped(usage, key, state)) {
                ++c.buffers;
                c.frequent += 0 != (state & FREQ_PAID);
            }
        }
    }
    return c;
}

/* A home line is full, condition (2) of 5.3.4. Is condition (1) true as well? Asked when the table
 * has grown by a part, and of some of the lines, since a census takes its time. The lock is held. */
static bool is_to_close(freq_usage_t *usage)
{
    const uint64_t added = load(&usage->added);
    if (0 != usage->judged_at
        && added - usage->judged_at < 1 + usage->judged_at / FREQ_JUDGE_FRACTION) {
        return false;
    }
    usage->judged_at = added;
    const census_t c = census(usage, usage->mask / FREQ_JUDGE_LINES + 1);
    return c.frequent * 100 < c.buffers * FREQ_OPEN_PERCENT;
}

static void start_window(freq_usage_t *usage)
{
    atomic_store_explicit(&usage->missed, 0, memory_order_relaxed);
    atomic_store_explicit(&usage->repeated, 0, memory_order_relaxed);
}

static void close_table(freq_usage_t *usage)
{
    start_window(usage);
    atomic_store_explicit(&usage->windows, 0, memory_order_relaxed);
    usage->used_before = UINT64_MAX;
    bump(&usage->closings, 1);
    atomic_store_explicit(&usage->closed, true, memory_order_relaxed);
}

static void open_table(freq_usage_t *usage)
{
    const uint64_t now =
        1 + atomic_fetch_add_explicit(&usage->release->now, 1, memory_order_relaxed);
    atomic_store_explicit(&usage->forget, now, memory_order_relaxed);
    usage->judged_at = 0;
    bump(&usage->openings, 1);
    atomic_store_explicit(&usage->asleep, false, memory_order_relaxed);
    atomic_store_explicit(&usage->closed, false, memory_order_relaxed);
}

/* So many buffers came that a closed table did not take. */
static void end_window(freq_usage_t *usage, uint32_t missed)
{
    if (atomic_flag_test_and_set_explicit(&usage->adding, memory_order_acquire)) {
        return;
    }
    const uint32_t repeated = atomic_load_explicit(&usage->repeated, memory_order_relaxed);
    if (!atomic_load_explicit(&usage->closed, memory_order_relaxed)) {
        /* another thread opened it */
    } else if ((uint64_t) repeated * 100 >= (uint64_t) missed * FREQ_OPEN_PERCENT) {
        open_table(usage);
    } else {
        const uint32_t windows = 1 + atomic_load_explicit(&usage->windows, memory_order_relaxed);
        atomic_store_explicit(&usage->windows, windows, memory_order_relaxed);
        if (!atomic_load_explicit(&usage->asleep, memory_order_relaxed)
            && (1 == windows || 0 == windows % FREQ_SLEEP_WINDOWS)) {
            const uint64_t used = load(&usage->used);
            atomic_store_explicit(&usage->asleep, used == usage->used_before, memory_order_relaxed);
            usage->used_before = used;
        }
        start_window(usage);
    }
    atomic_flag_clear_explicit(&usage->adding, memory_order_release);
}

/* The closed table does not take this buffer. */
static void sketch(freq_usage_t *usage, uint64_t key)
{
    const uint32_t tag = (uint32_t) (key ^ key >> 32);
    _Atomic uint32_t *place = &usage->sketch[freq_usage_home(usage, key)];
    if (tag == atomic_load_explicit(place, memory_order_relaxed)) {
        atomic_store_explicit(&usage->repeated,
                              1 + atomic_load_explicit(&usage->repeated, memory_order_relaxed),
                              memory_order_relaxed);
    } else {
        atomic_store_explicit(place, tag, memory_order_relaxed);
    }
    const uint32_t missed = 1 + atomic_load_explicit(&usage->missed, memory_order_relaxed);
    atomic_store_explicit(&usage->missed, missed, memory_order_relaxed);
    if (missed >= FREQ_SKETCH_WINDOW) {
        end_window(usage, missed);
    }
}

static void put(freq_usage_t *usage, freq_entry_t *entry, uint64_t key)
{
    const uint64_t old = load(&entry->key);
    if (0 != old) {
        bump(&usage->dropped, 1);
    }
    forget_note(usage, entry);
    atomic_store_explicit(&entry->state, state_now(usage, 1), memory_order_relaxed);
    atomic_store_explicit(&entry->key, key, memory_order_release);
    bump(&usage->added, 1);
}

/* The lock is held. */
static void add_locked(freq_usage_t *usage, uint64_t key)
{
    if (NULL != find(usage, key)) {
        return; /* another thread was faster */
    }
    const uint32_t home = freq_usage_home(usage, key);
    freq_entry_t *entry = place_in(usage, line_at(usage, home, 0));
    if (NULL != entry) {
        put(usage, entry, key);
        return;
    }
    if (is_to_close(usage)) {
        close_table(usage);
        return;
    }
    for (uint32_t step = 1; step < FREQ_CHAIN_LINES; ++step) {
        entry = place_in(usage, line_at(usage, home, step));
        if (NULL != entry) {
            atomic_store_explicit(&usage->chained, true, memory_order_relaxed);
            put(usage, entry, key);
            return;
        }
    }
    /* Full: as good as closed, and cheaper. */
    bump(&usage->no_room, 1);
    close_table(usage);
}

bool freq_usage_look_on(freq_usage_t *usage, const void *base, size_t size, uint32_t class,
                        freq_note_t **note)
{
    const uint64_t key = freq_usage_key(base, class);
    freq_entry_t *entry = find(usage, key);
    if (NULL != entry) {
        return freq_usage_use(usage, entry, base, size, class, note);
    }
    freq_budget_added(&usage->budget);
    bump(&usage->unknown, 1);
    if (atomic_load_explicit(&usage->closed, memory_order_relaxed)) {
        sketch(usage, key);
    } else if (!atomic_flag_test_and_set_explicit(&usage->adding, memory_order_acquire)) {
        add_locked(usage, key);
        atomic_flag_clear_explicit(&usage->adding, memory_order_release);
    }
    return false;
}

bool freq_usage_look_asleep(freq_usage_t *usage, const void *base, size_t size, uint32_t class,
                            freq_note_t **note)
{
    const uint32_t skipped = 1 + atomic_load_explicit(&usage->skipped, memory_order_relaxed);
    if (skipped < FREQ_ASLEEP_STRIDE) {
        atomic_store_explicit(&usage->skipped, skipped, memory_order_relaxed);
        return false;
    }
    atomic_store_explicit(&usage->skipped, 0, memory_order_relaxed);
    if (NULL != find(usage, freq_usage_key(base, class))) {
        atomic_store_explicit(&usage->asleep, false, memory_order_relaxed);
    }
    return freq_usage_look_on(usage, base, size, class, note);
}

void freq_usage_registered(freq_usage_t *usage, size_t size, uint64_t ns)
{
    const uint32_t class = freq_class_of(size);
    if (NULL != usage->costs && FREQ_CLASSES != class) {
        const double took = (double) ns - usage->costs->clock;
        freq_mean_add(&usage->of_registrations, took, freq_cost_at(usage->costs->r, size));
        if (usage->permille > 0) {
            freq_budget_took(&usage->budget, class, took);
        }
    }
}

void freq_usage_refused(freq_usage_t *usage, const void *base, size_t size)
{
    const uint32_t class = freq_class_of(size);
    freq_entry_t *entry = FREQ_CLASSES == class ? NULL : find(usage, freq_usage_key(base, class));
    bump(&usage->refused, 1);
    if (NULL == entry) {
        return;
    }
    uint64_t state = load(&entry->state);
    if (atomic_compare_exchange_strong_explicit(&entry->state, &state, state_now(usage, 0),
                                                memory_order_relaxed, memory_order_relaxed)) {
        forget_note(usage, entry);
        const uint64_t avoided = load(&usage->avoided);
        if (0 != (state & FREQ_PAID) && avoided > 0) { /* this use was copied after all */
            atomic_store_explicit(&usage->avoided, avoided - 1, memory_order_relaxed);
        }
        bump(&usage->dropped, 1);
    }
}

void freq_usage_count(freq_usage_t *usage, freq_usage_counts_t *counts)
{
    const census_t c = census(usage, 1);
    *counts =
        (freq_usage_counts_t){.buffers = c.buffers,
                              .frequent = c.frequent,
                              .places = ((uint64_t) usage->mask + 1) * FREQ_LINE_ENTRIES,
                              .looked = load(&usage->used) + load(&usage->unknown),
                              .copies_avoided = load(&usage->avoided),
                              .added = load(&usage->added),
                              .dropped = load(&usage->dropped),
                              .no_room = load(&usage->no_room),
                              .refused = load(&usage->refused),
                              .closings = load(&usage->closings),
                              .openings = load(&usage->openings),
                              .closed = atomic_load_explicit(&usage->closed, memory_order_relaxed),
                              .asleep = atomic_load_explicit(&usage->asleep, memory_order_relaxed)};
}

/* ---- looking up ---- */

/* With what was timed since the last time. The rule is made anew if that is another. */
static void rescale(freq_usage_t *usage)
{
    const freq_costs_t *m = usage->costs;
    bool is_new = false;
    for (uint32_t i = 0; i < FREQ_GATE_TIMES; ++i) {
        const uint64_t copy = load(&usage->gate->timed[i]);
        if (0 != copy) {
            atomic_store_explicit(&usage->gate->timed[i], 0, memory_order_relaxed);
            is_new |= freq_scale_add(&usage->of_copies, (double) (copy >> 32) - m->clock,
                                     freq_cost_at(m->c, copy & UINT32_MAX));
        }
    }
    const uint32_t place = atomic_load_explicit(&usage->gate->timed_place, memory_order_relaxed);
    if (0 != place) {
        atomic_store_explicit(&usage->gate->timed_place, 0, memory_order_relaxed);
        is_new |= freq_scale_add(&usage->of_places, (double) place - m->clock, m->v);
        usage->unplaced = 0;
    } else if (++usage->unplaced >= FREQ_SCALE_SAMPLES) {
        /* The few that were in place found their registration in no cache, and now that there are none it is not said
         * that more would not pay. */
        is_new |= freq_scale_forget(&usage->of_places);
        usage->unplaced = 0;
    }
    is_new |= freq_mean_settle(&usage->of_registrations);
    if (is_new) {
        by_costs_now(usage);
    }
}

/* Nothing is left for looks: of every message as little is done as can be, until there is. */
static void rest(freq_usage_t *usage, uint32_t class)
{
    const uint64_t messages = freq_budget_rest(&usage->budget, class);
    const uint64_t until = load(&usage->gate->copies) + messages;
    const uint32_t sample = atomic_load_explicit(&usage->gate->sample, memory_order_relaxed);
    if (sample < FREQ_SAMPLE_MAX) {
        atomic_store_explicit(&usage->gate->sample, 2 * sample + 1, memory_order_relaxed);
    }
    atomic_store_explicit(&usage->rested, messages, memory_order_relaxed);
    atomic_store_explicit(&usage->gate->next, until, memory_order_relaxed);
    atomic_store_explicit(&usage->gate->rest, until, memory_order_relaxed);
}

/* The copies since the last time earn, as so many of their mean size: C is all but linear. */
static void settle_locked(freq_usage_t *usage)
{
    const uint64_t copies = load(&usage->gate->copies), bytes = load(&usage->gate->bytes_copied);
    const uint64_t n = copies - load(&usage->settled);
    if (n < FREQ_SETTLE) {
        return; /* another thread has done it */
    }
    const uint32_t class = freq_class_of((bytes - usage->bytes_settled) / n);
    const uint64_t rested = atomic_exchange_explicit(&usage->rested, 0, memory_order_relaxed);
    atomic_store_explicit(&usage->settled, copies, memory_order_relaxed);
    usage->bytes_settled = bytes;
    const uint32_t sample = atomic_load_explicit(&usage->gate->sample, memory_order_relaxed);
    if (NULL == usage->costs || FREQ_CLASSES == class) {
        watch(usage, sample);
        return;
    }
    freq_budget_earn(&usage->budget, class, n < UINT32_MAX ? (uint32_t) n : UINT32_MAX);
    freq_budget_watched(&usage->budget, n > rested ? n - rested : 0);
    rescale(usage);
    atomic_store_explicit(&usage->gate->times, 1, memory_order_relaxed);
    if (0 == atomic_load_explicit(&usage->times_looks, memory_order_relaxed)) {
        atomic_store_explicit(&usage->times_looks, 1, memory_order_relaxed);
    }
    /* What finding takes while most are copied is no V: what is read for it has left the caches by the next time, because of
     * the copies. Looks are as dear then (of_looks), and that is counted. */
    const uint64_t avoided = load(&usage->avoided);
    atomic_store_explicit(&usage->gate->times_place, avoided - usage->placed >= n,
                          memory_order_relaxed);
    usage->placed = avoided;
    if (freq_budget_is_out(&usage->budget)) {
        rest(usage, class);
    } else {
        watch(usage, freq_budget_is_rich(&usage->budget, class) ? sample / 2 : sample);
    }
}

static void settle(freq_usage_t *usage)
{
    if (!atomic_exchange_explicit(&usage->settling, true, memory_order_acquire)) {
        settle_locked(usage);
        atomic_store_explicit(&usage->settling, false, memory_order_release);
    }
}

/* A look that is to be timed is over. Two at once: one is not counted. */
static void looked(freq_usage_t *usage, uint64_t start, bool was_known)
{
    const double ns = (double) (usage->now() - start) - usage->costs->clock;
    const uint16_t left = atomic_load_explicit(&usage->times_looks, memory_order_relaxed);
    if (left > 0 && !atomic_exchange_explicit(&usage->settling, true, memory_order_acquire)) {
        atomic_store_explicit(&usage->times_looks, (uint16_t) (left - 1), memory_order_relaxed);
        if (was_known ? freq_scale_add(&usage->of_looks, ns, usage->costs->rare)
                      : freq_scale_add(&usage->of_adds, ns, usage->costs->add)) {
            by_costs_now(usage);
        }
        atomic_store_explicit(&usage->settling, false, memory_order_release);
    }
}

static bool look_up(freq_usage_t *usage, const void *base, size_t size, uint32_t class,
                    freq_note_t **note)
{
    const uint64_t key = freq_usage_key(base, class);
    freq_line_t *line = &usage->line[freq_usage_home(usage, key)];
    for (uint32_t i = 0; i < FREQ_LINE_ENTRIES; ++i) {
        if (key == atomic_load_explicit(&line->entry[i].key, memory_order_relaxed)) {
            return freq_usage_use(usage, &line->entry[i], base, size, class, note);
        }
    }
    return freq_usage_look_on(usage, base, size, class, note);
}

/* Not the first after a pause, for which even the code is in no cache. */
static bool is_to_be_timed(freq_usage_t *usage)
{
    return 0 != atomic_load_explicit(&usage->times_looks, memory_order_relaxed)
           && LOOKS_APART - 1 == (load(&usage->used) + load(&usage->unknown)) % LOOKS_APART;
}

static bool look_up_timed(freq_usage_t *usage, const void *base, size_t size, uint32_t class,
                          freq_note_t **note)
{
    const uint64_t unknown = load(&usage->unknown), start = usage->now();
    const bool is_frequent = look_up(usage, base, size, class, note);
    looked(usage, start, unknown == load(&usage->unknown));
    return is_frequent;
}

bool freq_usage_find(freq_usage_t *usage, const void *base, size_t size, freq_note_t **note)
{
    const uint32_t class = freq_class_of(size);
    if (load(&usage->gate->copies) - load(&usage->settled) >= FREQ_SETTLE) {
        settle(usage);
    }
    if (FREQ_CLASSES == class || FREQ_NEVER == freq_rule_after(&usage->rule, class)
        || !freq_gate_has(atomic_load_explicit(&usage->gate->sample, memory_order_relaxed), base)) {
        return false;
    }
    if (__builtin_expect(freq_budget_is_out(&usage->budget), 0)) {
        rest(usage, class);
        return false;
    }
    const bool is_rare = freq_usage_is_rare(usage);
    freq_budget_look(&usage->budget, is_rare);
    if (__builtin_expect(atomic_load_explicit(&usage->asleep, memory_order_relaxed), 0)) {
        return freq_usage_look_asleep(usage, base, size, class, note);
    }
    return is_rare && __builtin_expect(is_to_be_timed(usage), 0)
               ? look_up_timed(usage, base, size, class, note)
               : look_up(usage, base, size, class, note);
}
