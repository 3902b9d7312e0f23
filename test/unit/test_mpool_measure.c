/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Measuring costs (freq_measure.h), of a transport that writes down what it is asked. What things took is not asserted:
 * what was measured, that nothing is kept and that whatever refuses ends it. */
#include "spec_unit.h"

#include <time.h>

#include "faulty.h"
#include "freq_measure.h"

FAULTY(void *, calloc, NULL, (size_t n, size_t size), (n, size))
FAULTY(int, posix_memalign, ENOMEM, (void **to, size_t alignment, size_t size),
       (to, alignment, size))

enum { TAKES = 20000 };

/* So that all that is ever measured is, on any machine. */
#define NO_HURRY 60e9

typedef struct {
    uintptr_t base;
    size_t size;
    bool held;
} taken_t;

static struct {
    taken_t taken[TAKES];
    unsigned takes, gives, agains, held, most_held;
    unsigned held_first;                /* takes before the first was given back */
    unsigned refuse_take, refuse_again; /* the one of that number, from 1; 0: none */
    long pause_ns;
} t;

static void again_from_the_start(void)
{
    memset(&t, 0, sizeof(t));
}

static int take(void *context, void *base, size_t size, void **registration)
{
    assert_ptr_equal(context, &t);
    if (++t.takes == t.refuse_take) {
        return -1;
    }
    assert_in_range(t.takes, 1, TAKES);
    if (t.pause_ns > 0) {
        const struct timespec pause = {.tv_nsec = t.pause_ns};
        (void) nanosleep(&pause, NULL);
    }
    t.taken[t.takes - 1] = (taken_t){(uintptr_t) base, size, true};
    *registration = &t.taken[t.takes - 1];
    /* In memory, and the process'. */
    for (size_t i = 0; i < size; ++i) {
        assert_int_equal(((char *) base)[i], 1);
    }
    t.most_held = ++t.held > t.most_held ? t.held : t.most_held;
    return 0;
}

static void give(void *context, void *registration)
{
    taken_t *taken = registration;
    assert_ptr_equal(context, &t);
    assert_true(taken->held);
    taken->held = false;
    t.held_first = 0 == t.gives ? t.takes : t.held_first;
    ++t.gives;
    --t.held;
}

static bool again(void *context, void *registration, void *base, size_t size)
{
    const taken_t *taken = registration;
    assert_ptr_equal(context, &t);
    assert_true(taken->held);
    assert_int_equal(taken->base, (uintptr_t) base);
    assert_int_equal(taken->size, size);
    return ++t.agains != t.refuse_again;
}

static const freq_probe_t probe = {.take = take, .give = give, .again = again, .context = &t};

static void all_costs_are_measured(void **state)
{
    (void) state;
    freq_costs_t costs;
    again_from_the_start();
    assert_true(freq_measure(&probe, NO_HURRY, &costs));
    assert_true(freq_costs_are_sane(&costs));
    assert_true(costs.search > 0);
    assert_true(costs.v > 0);
    for (uint32_t i = 0; i < FREQ_POINTS; ++i) {
        assert_true(costs.r[i] > 0);
        assert_true(costs.c[i] > 0);
        assert_true(0 == i || costs.c[i] >= costs.c[i - 1]);
    }
    /* A use of the table for each message, and of more than one registration. */
    assert_true(t.agains >= 1000);
    assert_true(t.most_held > 1);
    assert_int_equal(t.held, 0);
    assert_int_equal(t.gives, t.takes);
}

/* R is of what the cache does not have: not even a neighbour, which it could join, or have registered with all that is in a
 * block. */
static void no_block_is_registered_twice(void **state)
{
    (void) state;
    enum { BLOCK = 65536 };
    freq_costs_t costs;
    again_from_the_start();
    assert_true(freq_measure(&probe, NO_HURRY, &costs));
    uint32_t pages = 0, blocks = 0;
    for (unsigned i = 0; i < t.takes; ++i) {
        const taken_t *a = &t.taken[i];
        assert_int_equal(a->base % 4096, 0);
        if (i < t.held_first) {
            continue; /* for V */
        }
        assert_int_equal(a->base % BLOCK, 0);
        assert_true(4096 == a->size || BLOCK == a->size);
        pages += 4096 == a->size;
        blocks += BLOCK == a->size;
        for (unsigned k = 0; k < i; ++k) {
            assert_true(a->base / BLOCK != t.taken[k].base / BLOCK);
        }
    }
    assert_in_range(pages, 2, 100);
    assert_int_equal(blocks, pages);
}

/* Without notes: each use searches the cache. */
static void without_again_it_is_taken_and_given(void **state)
{
    (void) state;
    freq_costs_t costs;
    freq_probe_t without = probe;
    without.again = NULL;
    again_from_the_start();
    assert_true(freq_measure(&without, NO_HURRY, &costs));
    assert_true(t.takes > 1000);
    assert_int_equal(t.gives, t.takes);
}

static void a_refusal_ends_it(void **state)
{
    (void) state;
    freq_costs_t costs;
    again_from_the_start();
    t.refuse_take = 1; /* nothing can be held */
    assert_false(freq_measure(&probe, NO_HURRY, &costs));
    assert_int_equal(t.takes, 1);

    again_from_the_start();
    t.refuse_take = 3; /* two are enough to hold */
    assert_true(freq_measure(&probe, NO_HURRY, &costs));
    assert_int_equal(t.most_held, 2);
    assert_int_equal(t.gives, t.takes - 1);

    again_from_the_start();
    assert_true(freq_measure(&probe, NO_HURRY, &costs));
    const unsigned all = t.takes;
    again_from_the_start();
    t.refuse_take = all - 1; /* one that R is measured with */
    assert_false(freq_measure(&probe, NO_HURRY, &costs));
    assert_int_equal(t.gives, all - 2);

    freq_probe_t without = probe;
    without.again = NULL;
    again_from_the_start();
    t.refuse_take = 100; /* a use, where it is taken anew */
    assert_false(freq_measure(&without, NO_HURRY, &costs));
    assert_int_equal(t.gives, t.takes - 1);

    again_from_the_start();
    t.refuse_again = 10;
    assert_false(freq_measure(&probe, NO_HURRY, &costs));
    assert_int_equal(t.gives, t.takes);
}

static void without_memory_nothing_is_measured(void **state)
{
    (void) state;
    freq_costs_t costs;
    again_from_the_start();
    faulty_calloc = (faulty_t){.times = 1, .error = ENOMEM};
    assert_false(freq_measure(&probe, NO_HURRY, &costs));
    faulty_posix_memalign = (faulty_t){.times = 1};
    assert_false(freq_measure(&probe, NO_HURRY, &costs));
    assert_int_equal(faulty_calloc.hits + faulty_posix_memalign.hits, 2);
    assert_int_equal(t.takes, 0);
}

/* A transport that takes 2 ms for each registration, and 1 ms to measure. */
static void what_is_too_slow_is_given_up(void **state)
{
    (void) state;
    freq_costs_t costs;
    again_from_the_start();
    t.pause_ns = 2000000;
    assert_false(freq_measure(&probe, 1e6, &costs));
    assert_in_range(t.takes, 1, 1 + 3);
    assert_int_equal(t.gives, t.takes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_costs_are_measured),
        cmocka_unit_test(no_block_is_registered_twice),
        cmocka_unit_test(without_again_it_is_taken_and_given),
        cmocka_unit_test(a_refusal_ends_it),
        cmocka_unit_test(without_memory_nothing_is_measured),
        cmocka_unit_test(what_is_too_slow_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
