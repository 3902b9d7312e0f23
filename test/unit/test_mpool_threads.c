/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Several threads use one table of uses of small buffers. test/unit/races runs this with ThreadSanitizer. FREQ_ROUNDS: uses
 * per thread. */
#include "spec_unit.h"

#include <pthread.h>

#include "freq_table.h"

enum { THREADS = 4, OWN = 40, SHARED = 20, AFTER = 8, TOGETHER = 500 };

enum { LINES = 256 };

static freq_gate_t gate;
static freq_line_t lines[LINES];
static freq_table_t table;
static uint32_t rounds = 200000;
static _Atomic uint32_t wrong;

static const void *own(uint32_t thread, uint32_t i)
{
    return (const void *) (uintptr_t) (UINT64_C(0x500000000000) + ((uint64_t) thread << 36)
                                       + i * 12288);
}

static const void *shared(uint32_t i)
{
    return (const void *) (uintptr_t) (UINT64_C(0x600000000000) + i * (65536 + 12288));
}

static void *use(void *context)
{
    const uint32_t thread = (uint32_t) (uintptr_t) context;
    rng_t rng = {thread + 1};
    uint32_t count[OWN] = {0};
    for (uint32_t round = 0; round < rounds; ++round) {
        const uint32_t i = rng_below(&rng, OWN);
        freq_note_t *note;
        const bool in_place = freq_table_find(&table, own(thread, i), 4096, &note);
        /* A use may be missed while another thread adds, and one of the buffer that had the entry before may be counted; no
         * more are made up. */
        wrong += in_place && ++count[i] < AFTER;
        count[i] += !in_place;
        (void) freq_table_find(&table, shared(rng_below(&rng, SHARED)), 4096, &note);
        if (rng_percent(&rng, 1)) {
            (void) freq_table_find(&table, (void *) (uintptr_t) (rng_next(&rng) >> 20), 4096,
                                   &note);
        }
        if (0 == rng_below(&rng, 1000)) {
            freq_table_refused(&table, shared(rng_below(&rng, SHARED)), 4096);
        }
        if (0 == rng_below(&rng, 20000)) {
            freq_counts_t counts;
            freq_table_count(&table, LINES, &counts);
            wrong += counts.frequent > counts.buffers || counts.buffers > counts.most;
        }
    }
    return NULL;
}

static void check_once(void)
{
    for (uint32_t l = 0; l < LINES; ++l) {
        for (uint32_t i = 0; i < FREQ_WAYS; ++i) {
            for (uint32_t j = 0; 0 != lines[l].key[i] && j < i; ++j) {
                assert_true(lines[l].key[i] != lines[l].key[j]);
            }
        }
    }
}

static void many_threads(void **state)
{
    (void) state;
    freq_table_init(&table, lines, LINES, AFTER, &gate);
    pthread_t thread[THREADS];
    for (uintptr_t t = 0; t < THREADS; ++t) {
        assert_int_equal(pthread_create(&thread[t], NULL, use, (void *) t), 0);
    }
    for (uint32_t t = 0; t < THREADS; ++t) {
        pthread_join(thread[t], NULL);
    }
    assert_int_equal(wrong, 0);
    /* In the end every buffer that is used enough goes in place. */
    for (uint32_t t = 0; t < THREADS; ++t) {
        for (uint32_t i = 0; i < OWN; ++i) {
            freq_note_t *note;
            uint32_t uses = 0;
            while (!freq_table_find(&table, own(t, i), 4096, &note)) {
                assert_in_range(++uses, 1, 100000);
            }
        }
    }
    check_once();
}

/* Two threads use the same new buffers, each at the same moment. */
static void *use_together(void *context)
{
    _Atomic uint32_t *arrived = context;
    for (uint32_t i = 0; i < TOGETHER; ++i) {
        freq_note_t *note;
        ++*arrived;
        for (uint32_t spins = 0; *arrived < 2 * (i + 1) && spins < 100000; ++spins) {}
        (void) freq_table_find(&table, shared(i), 4096, &note);
    }
    return NULL;
}

static void no_buffer_is_added_twice(void **state)
{
    (void) state;
    for (int pass = 0; pass < 20; ++pass) {
        _Atomic uint32_t arrived = 0;
        pthread_t thread;
        memset(lines, 0, sizeof(lines));
        freq_table_init(&table, lines, LINES, AFTER, &gate);
        assert_int_equal(pthread_create(&thread, NULL, use_together, &arrived), 0);
        (void) use_together(&arrived);
        pthread_join(thread, NULL);
        check_once();
    }
}

/* ---- by costs ---- */

/* As transports do: few buffers, much used, and others that are not. */
static void *send(void *context)
{
    const uint32_t thread = (uint32_t) (uintptr_t) context;
    rng_t rng = {thread + 1};
    for (uint32_t round = 0; round < rounds; ++round) {
        const void *buffer = rng_percent(&rng, 80)
                                 ? shared(rng_below(&rng, SHARED))
                                 : (const void *) (uintptr_t) (rng_next(&rng) >> 20);
        freq_note_t *note;
        if (freq_gate_passes(&gate, buffer) || !freq_table_find(&table, buffer, 4096, &note)) {
            const uint64_t start = freq_gate_copy_starts(&gate);
            freq_gate_copy_ends(&gate, start, 4096);
        } else if (NULL == atomic_exchange(note, &gate)) {
            freq_table_registered(&table, 4096, 1000);
        }
    }
    return NULL;
}

static void threads_by_costs(void **state)
{
    (void) state;
    freq_costs_t costs = {.v = 40, .search = 100};
    for (int i = 0; i < FREQ_POINTS; ++i) {
        costs.c[i] = 200;
        costs.r[i] = 2000;
    }
    gate = (freq_gate_t){.due = 0};
    memset(lines, 0, sizeof(lines));
    freq_table_init(&table, lines, LINES, FREQ_NEVER, &gate);
    freq_table_by_costs(&table, &costs, 25, 5);
    pthread_t thread[THREADS];
    for (uintptr_t t = 0; t < THREADS; ++t) {
        assert_int_equal(pthread_create(&thread[t], NULL, send, (void *) t), 0);
    }
    for (uint32_t t = 0; t < THREADS; ++t) {
        pthread_join(thread[t], NULL);
    }
    freq_counts_t counts;
    freq_table_count(&table, LINES, &counts);
    assert_in_range(counts.copies_avoided, 1, (uint64_t) THREADS * rounds);
    assert_in_range(gate.copies, 1, (uint64_t) THREADS * rounds);
    assert_int_equal(gate.bytes_copied % 4096, 0);
}

int main(void)
{
    const char *text = getenv("FREQ_ROUNDS");
    rounds = NULL == text ? rounds : (uint32_t) strtoul(text, NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_threads),
                                       cmocka_unit_test(no_buffer_is_added_twice),
                                       cmocka_unit_test(threads_by_costs)};
    return cmocka_run_group_tests_name("freq_threads", tests, NULL, NULL);
}
