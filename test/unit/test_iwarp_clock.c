/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* iw_clock.h: time by the processor's counter. */
#include "iw_clock.h"
#include "spec_unit.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

/* A machine: true time, and a counter that may do anything. */
typedef struct machine {
    uint64_t ns, ticks;
    double speed; /* ticks of a ns */
    unsigned looks, reckoned;
    uint64_t told;
} machine_t;

static void passes(machine_t *m, uint64_t ns)
{
    m->ns += ns;
    m->ticks += (uint64_t) ((double) ns * m->speed);
}

/* As the port does it. A look at the clock takes 40 ns. */
static uint64_t now(iw_clock_t *c, machine_t *m)
{
    uint64_t ns;
    if (iw_clock_reckon(c, m->ticks, &ns)) {
        ++m->reckoned;
    } else {
        const uint64_t before = m->ticks;
        ++m->looks;
        passes(m, 40);
        ns = iw_clock_asked(c, before, m->ticks, m->ns);
    }
    assert_true(ns >= m->told); /* never backwards */
    m->told = ns;
    return ns;
}

static uint64_t error_of(uint64_t told, const machine_t *m)
{
    return told > m->ns ? told - m->ns : m->ns - told;
}

/* Calls, a microsecond apart; the largest error. */
static uint64_t goes_on(iw_clock_t *c, machine_t *m, unsigned calls)
{
    uint64_t worst = 0;
    for (unsigned i = 0; i < calls; ++i) {
        passes(m, 1 * US);
        const uint64_t told = now(c, m), error = error_of(told, m);
        worst = error > worst ? error : worst;
    }
    return worst;
}

static machine_t machine(double speed)
{
    return (machine_t){.ns = 1000 * MS, .ticks = UINT64_C(1) << 40, .speed = speed};
}

static void speeds_are_learned(void **state)
{
    (void) state;
    const double speeds[] = {0.025, 1, 2.096, 3.7, 100};
    for (unsigned i = 0; i < sizeof(speeds) / sizeof(*speeds); ++i) {
        iw_clock_t c = {0};
        machine_t m = machine(speeds[i]);
        assert_in_range(goes_on(&c, &m, 100000), 0, 2 * US);
        assert_in_range(m.looks, 90, 1200); /* each time at first, then once in a millisecond */
    }
}

/* With nothing known, and until a speed has been measured twice. */
static void the_clock_is_asked_at_first(void **state)
{
    (void) state;
    iw_clock_t c = {0};
    machine_t m = machine(2);
    assert_int_equal(goes_on(&c, &m, 900), 0);
    assert_int_equal(m.reckoned, 0);
    (void) goes_on(&c, &m, 300);
    assert_true(m.reckoned > 0);
}

static void who_comes_seldom_asks(void **state)
{
    (void) state;
    iw_clock_t c = {0};
    machine_t m = machine(2);
    for (unsigned i = 0; i < 100; ++i) {
        passes(&m, 3 * MS);
        assert_int_equal(error_of(now(&c, &m), &m), 0);
    }
    assert_int_equal(m.reckoned, 0);
    (void) goes_on(&c, &m, 100);
    assert_true(m.reckoned > 0); /* the speed is known */
    /* Long asleep: the machine may have been another one meanwhile. */
    passes(&m, 2 * IW_CLOCK_LOST);
    m.reckoned = 0;
    assert_int_equal(goes_on(&c, &m, 900), 0);
    assert_int_equal(m.reckoned, 0);
}

static void jumps_are_noticed(void **state)
{
    (void) state;
    static const int64_t jumps[] = {-1, -1000, -3000000, -(INT64_C(1) << 39), 1000000, 3000000, INT64_C(1) << 33, INT64_C(1) << 62};
    for (unsigned i = 0; i < sizeof(jumps) / sizeof(*jumps); ++i) {
        iw_clock_t c = {0};
        machine_t m = machine(2);
        (void) goes_on(&c, &m, 5000);
        assert_true(m.reckoned > 3000);
        m.ticks += (uint64_t) jumps[i];
        assert_in_range(goes_on(&c, &m, 1200), 0, IW_CLOCK_SPAN);
        assert_in_range(goes_on(&c, &m, 3000), 0, 2 * US); /* over */
        m.reckoned = 0;
        (void) goes_on(&c, &m, 2000);
        assert_true(m.reckoned > 1000);
    }
}

/* Moved to a machine with another counter. */
static void another_speed_is_learned(void **state)
{
    (void) state;
    static const double speeds[] = {0.5, 1.5, 1.9, 2.1, 2.5, 4, 20};
    for (unsigned i = 0; i < sizeof(speeds) / sizeof(*speeds); ++i) {
        iw_clock_t c = {0};
        machine_t m = machine(2);
        (void) goes_on(&c, &m, 5000);
        m.speed = speeds[i];
        assert_in_range(goes_on(&c, &m, 9000), 0, 4 * IW_CLOCK_SPAN);
        m.reckoned = 0;
        assert_in_range(goes_on(&c, &m, 20000), 0, 2 * US);
        assert_true(m.reckoned > 10000);
    }
}

static void a_counter_that_stands_still_is_noticed(void **state)
{
    (void) state;
    iw_clock_t c = {0};
    machine_t m = machine(2);
    (void) goes_on(&c, &m, 5000);
    m.speed = 0;
    (void) goes_on(&c, &m, IW_CLOCK_TIMES + 1);
    assert_int_equal(goes_on(&c, &m, 20000), 0);
}

/* Two processors whose counters differ take turns. */
static void processors_that_differ(void **state)
{
    (void) state;
    iw_clock_t c = {0};
    machine_t m = machine(2);
    for (unsigned i = 0; i < 2000; ++i) {
        m.ticks += i % 2 ? 1000000 : -(uint64_t) 1000000;
        assert_in_range(goes_on(&c, &m, 100), 0, IW_CLOCK_SPAN);
    }
}

/* The process loses its processor between the counter and the clock. */
static void an_interrupted_look_tells_no_speed(void **state)
{
    (void) state;
    iw_clock_t c = {0};
    machine_t m = machine(2);
    (void) goes_on(&c, &m, 5000);
    passes(&m, 2 * MS);
    uint64_t ns;
    assert_false(iw_clock_reckon(&c, m.ticks, &ns));
    const uint64_t before = m.ticks;
    passes(&m, 50 * US);
    ns = m.ns; /* here it asked */
    passes(&m, 100 * US); /* a speed that would be believed */
    (void) iw_clock_asked(&c, before, m.ticks, ns);
    m.told = c.told;
    m.reckoned = 0;
    assert_in_range(goes_on(&c, &m, 300), 0, 2 * US);
    assert_int_equal(m.reckoned, 0);
}

static void at_random(void **state)
{
    (void) state;
    rng_t rng = {4711};
    iw_clock_t c = {0};
    machine_t m = machine(2);
    for (unsigned i = 0; i < 1000000; ++i) {
        const uint32_t what = (uint32_t) (rng_next(&rng) % 10000);
        if (0 == what) {
            m.ticks = rng_next(&rng);
        } else if (1 == what) {
            m.speed = (double) (1 + rng_next(&rng) % 10000) / 1000;
        } else if (2 == what) {
            passes(&m, rng_next(&rng) % (3 * IW_CLOCK_LOST));
        }
        passes(&m, rng_next(&rng) % (3 * US));
        /* Ten thousand times the slowest counter may take over from the fastest. */
        assert_in_range(error_of(now(&c, &m), &m), 0, 10000 * IW_CLOCK_SPAN);
    }
    assert_true(m.reckoned > 500000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speeds_are_learned),
        cmocka_unit_test(the_clock_is_asked_at_first),
        cmocka_unit_test(who_comes_seldom_asks),
        cmocka_unit_test(jumps_are_noticed),
        cmocka_unit_test(another_speed_is_learned),
        cmocka_unit_test(a_counter_that_stands_still_is_noticed),
        cmocka_unit_test(processors_that_differ),
        cmocka_unit_test(an_interrupted_look_tells_no_speed),
        cmocka_unit_test(at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
