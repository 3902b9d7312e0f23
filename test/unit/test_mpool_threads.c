/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Several threads use one table of buffer usage while memory goes away. test/unit/races runs this
 * with ThreadSanitizer. FREQ_ROUNDS: uses per thread. */
#include "spec_unit.h"

#include <pthread.h>

#include "freq_usage.h"

enum { THREADS = 4, OWN = 40, SHARED = 20, AFTER = 8 };

static freq_release_t memory_gone;
static freq_gate_t gate;
static freq_usage_t usage;
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
        const bool in_place = freq_usage_look(&usage, own(thread, i), 4096);
        /* A use may be missed while another thread adds, but none is made up. */
        wrong += in_place && ++count[i] <= AFTER;
        count[i] += !in_place;
        (void) freq_usage_look(&usage, shared(rng_below(&rng, SHARED)), 4096);
        if (rng_percent(&rng, 1)) {
            (void) freq_usage_look(&usage, (void *) (uintptr_t) (rng_next(&rng) >> 20), 4096);
        }
        if (0 == rng_below(&rng, 1000)) {
            freq_release_memory(&memory_gone, (uintptr_t) shared(rng_below(&rng, SHARED)), 4096);
        }
        if (0 == rng_below(&rng, 1000)) {
            freq_usage_refused(&usage, shared(rng_below(&rng, SHARED)), 4096);
        }
        if (0 == rng_below(&rng, 20000)) {
            freq_usage_counts_t counts;
            freq_usage_count(&usage, &counts);
            wrong += counts.frequent > counts.buffers || counts.buffers > counts.places;
        }
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void) state;
    enum { LINES = 256 };
    void *memory = aligned_alloc(64, (freq_usage_bytes(LINES) + 63) & ~(size_t) 63);
    assert_non_null(memory);
    memset(memory, 0, freq_usage_bytes(LINES));
    freq_rule_t rule;
    freq_rule_fixed(&rule, AFTER);
    freq_usage_init(&usage, memory, LINES, &rule, &memory_gone, &gate);
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
            uint32_t uses = 0;
            while (!freq_usage_look(&usage, own(t, i), 4096)) {
                assert_in_range(++uses, 1, 100000);
            }
        }
    }
    /* No buffer is there twice. */
    for (uint32_t l = 0; l < LINES; ++l) {
        for (uint32_t i = 0; i < FREQ_LINE_ENTRIES; ++i) {
            const uint64_t key = usage.line[l].entry[i].key;
            for (uint32_t m = l; 0 != key && m < l + FREQ_CHAIN_LINES; ++m) {
                for (uint32_t j = m == l ? i + 1 : 0; j < FREQ_LINE_ENTRIES; ++j) {
                    assert_true(key != usage.line[m % LINES].entry[j].key);
                }
            }
        }
    }
    free(memory);
}

/* ---- by costs ---- */

/* As transports do: few buffers, much used, and others that are not. Copies take three times what was measured. */
static void *send(void *context)
{
    const uint32_t thread = (uint32_t) (uintptr_t) context;
    rng_t rng = {thread + 1};
    for (uint32_t round = 0; round < rounds; ++round) {
        const void *buffer = rng_percent(&rng, 80)
                                 ? shared(rng_below(&rng, SHARED))
                                 : (const void *) (uintptr_t) (rng_next(&rng) >> 20);
        freq_note_t *note;
        uint64_t start;
        if (!freq_gate_passes(&gate, buffer)) {
            start = freq_gate_place_starts(&gate);
            if (freq_usage_find(&usage, buffer, 4096, &note)) {
                freq_gate_place_ends(&gate, start);
                if (NULL == atomic_exchange(note, &gate)) {
                    freq_usage_registered(&usage, 4096, 1000);
                }
                continue;
            }
        }
        start = freq_gate_copy_starts(&gate);
        freq_gate_copy_ends(&gate, 0 == start ? 0 : freq_gate_now() - 500 * (1 + round % 2), 4096);
    }
    return NULL;
}

static void threads_by_costs(void **state)
{
    (void) state;
    enum { LINES = 256 };
    void *memory = aligned_alloc(64, (freq_usage_bytes(LINES) + 63) & ~(size_t) 63);
    assert_non_null(memory);
    memset(memory, 0, freq_usage_bytes(LINES));
    freq_costs_t costs = {.v = 40, .look = 20, .rare = 40, .add = 100, .gate = 4, .clock = 20};
    for (int i = 0; i < FREQ_POINTS; ++i) {
        costs.c[i] = 200;
        costs.r[i] = 2000;
    }
    freq_rule_t rule;
    freq_rule_fixed(&rule, FREQ_NEVER);
    gate = (freq_gate_t){.sample = 0};
    freq_usage_init(&usage, memory, LINES, &rule, &memory_gone, &gate);
    freq_usage_by_costs(&usage, &costs, 25, 5);
    pthread_t thread[THREADS];
    for (uintptr_t t = 0; t < THREADS; ++t) {
        assert_int_equal(pthread_create(&thread[t], NULL, send, (void *) t), 0);
    }
    for (uint32_t t = 0; t < THREADS; ++t) {
        pthread_join(thread[t], NULL);
    }
    freq_usage_counts_t counts;
    freq_usage_count(&usage, &counts);
    assert_in_range(counts.copies_avoided, 1, (uint64_t) THREADS * rounds);
    assert_in_range(gate.copies, 1, (uint64_t) THREADS * rounds);
    assert_int_equal(gate.bytes_copied % 4096, 0);
    assert_true(freq_scale_now(&usage.of_copies) > FREQ_SCALE_ONE);
    free(memory);
}

int main(void)
{
    const char *text = getenv("FREQ_ROUNDS");
    rounds = NULL == text ? rounds : (uint32_t) strtoul(text, NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_threads),
                                       cmocka_unit_test(threads_by_costs)};
    return cmocka_run_group_tests_name("freq_threads", tests, NULL, NULL);
}
