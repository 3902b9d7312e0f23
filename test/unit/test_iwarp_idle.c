/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* iw_idle.h: when an application that does not call is away; and that the agent (iw_agent.h) asks. */
#define _GNU_SOURCE /* CPU_SET */
#include "spec_unit.h"

#include "iw_agent.h"
#include "iw_ends.h"
#include "iw_idle.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define US       UINT64_C(1000)
#define MS       (1000 * US)
#define PATIENCE (2 * MS)

enum { ME = 17 };

/* A caller that is ready. */
static iw_caller_t caller(uint64_t ran, uint64_t waited)
{
    return (iw_caller_t){.thread = ME, .is_ready = true, .ran_ns = ran, .waited_ns = waited};
}

static uint64_t broken(iw_idle_t *s, uint64_t now, uint64_t ran, uint64_t waited)
{
    const iw_caller_t c = caller(ran, waited);
    return iw_idle_broken(s, now, &c, PATIENCE);
}

/* Looks for this long; the application polls, and has a processor for one part in so many. Returns the last doze. */
static uint64_t poll_and_share(iw_idle_t *s, uint64_t *now, uint64_t time, unsigned processes)
{
    uint64_t doze = 0, at = *now;
    for (const uint64_t end = at + time; at < end; at += doze) {
        const uint64_t ran = MS + at / processes;
        doze = broken(s, at, ran, at + MS - ran);
    }
    *now = at;
    return doze;
}

static void alone_patience_is_as_told(void **state)
{
    (void) state;
    iw_idle_t s = {.since = 0};
    uint64_t now = MS;
    assert_int_equal(PATIENCE, broken(&s, now, MS, 0));
    assert_int_equal(PATIENCE, poll_and_share(&s, &now, 100 * MS, 1));
}

static void patience_is_in_time_of_the_application(void **state)
{
    (void) state;
    iw_idle_t s = {.since = 0};
    uint64_t now = MS;
    assert_in_range(poll_and_share(&s, &now, 1000 * MS, 4), 4 * PATIENCE * 9 / 10,
                    4 * PATIENCE * 11 / 10);
    assert_int_equal(poll_and_share(&s, &now, 3000 * MS, 1000), IW_IDLE_CHECK_MOST);
    /* And back. */
    assert_in_range(poll_and_share(&s, &now, 3000 * MS, 1), PATIENCE, PATIENCE * 101 / 100);
}

static void a_crowd_is_known(void **state)
{
    (void) state;
    iw_idle_t s = {.since = 0};
    uint64_t now = MS;
    assert_false(iw_idle_is_crowded(&s));
    (void) poll_and_share(&s, &now, 100 * MS, 1);
    assert_false(iw_idle_is_crowded(&s));
    (void) poll_and_share(&s, &now, 1000 * MS, 4);
    assert_true(iw_idle_is_crowded(&s));
    (void) poll_and_share(&s, &now, 3000 * MS, 1);
    assert_false(iw_idle_is_crowded(&s));
}

static void one_long_wait_changes_little(void **state)
{
    (void) state;
    iw_idle_t s = {.since = 0};
    (void) broken(&s, 10 * MS, MS, 0);
    assert_in_range(broken(&s, 12 * MS, 2 * MS, 2 * MS), PATIENCE, PATIENCE * 3 / 2);
}

/* Numbers that the kernel does not give, or of another thread, or more wait than time: no reason to doubt. */
static void strange_numbers_count_as_none(void **state)
{
    (void) state;
    iw_idle_t s = {.since = 0};
    (void) broken(&s, 10 * MS, MS, 50 * MS);
    assert_int_equal(PATIENCE, broken(&s, 12 * MS, MS, 0));
    const iw_caller_t other = {
        .thread = ME + 1, .is_ready = true, .ran_ns = MS, .waited_ns = 900 * MS};
    assert_int_equal(PATIENCE, iw_idle_broken(&s, 14 * MS, &other, PATIENCE));
    assert_true(iw_idle_broken(&s, 14 * MS, &other, PATIENCE)
                <= IW_IDLE_CHECK_MOST); /* no time passed */
    for (uint64_t i = 1; i < 100; ++i) {
        const iw_caller_t waits = {
            .thread = ME + 1, .is_ready = true, .ran_ns = MS, .waited_ns = i * 1000 * MS};
        assert_true(iw_idle_broken(&s, (14 + i) * MS, &waits, PATIENCE) <= IW_IDLE_CHECK_MOST);
    }
}

static void long_patience_is_kept(void **state)
{
    (void) state;
    iw_idle_t s = {.since = 0};
    const iw_caller_t c = caller(MS, 0);
    assert_int_equal(2 * IW_IDLE_CHECK_MOST,
                     iw_idle_broken(&s, MS, &c, 2 * IW_IDLE_CHECK_MOST));
}

static void who_waits_for_its_turn_is_not_away(void **state)
{
    (void) state;
    iw_idle_t s = {.since = 0};
    (void) broken(&s, 10 * MS, MS, 0);
    const iw_caller_t waits = caller(MS + IW_IDLE_TURN - 1, 0);
    assert_int_equal(PATIENCE, iw_idle_goes_on(&s, 12 * MS, &waits));
    assert_int_equal(PATIENCE, iw_idle_goes_on(&s, 14 * MS, &waits));
    assert_int_not_equal(0, iw_idle_goes_on(&s, 10 * MS + IW_IDLE_MOST - 1, &waits));
    assert_int_equal(0, iw_idle_goes_on(&s, 10 * MS + IW_IDLE_MOST, &waits));
}

static void who_computes_or_sleeps_is_away(void **state)
{
    (void) state;
    iw_idle_t s = {.since = 0};
    const iw_caller_t waits = caller(MS, 0);
    assert_int_equal(0, iw_idle_goes_on(&s, 9 * MS, &waits)); /* it has never called */
    (void) broken(&s, 10 * MS, MS, 0);
    const iw_caller_t computes = caller(MS + IW_IDLE_TURN, 0), gone = caller(0, 0);
    iw_caller_t sleeps = waits, other = waits;
    sleeps.is_ready = false;
    other.thread = ME + 1;
    assert_int_not_equal(0, iw_idle_goes_on(&s, 12 * MS, &waits));
    assert_int_equal(0, iw_idle_goes_on(&s, 12 * MS, &computes));
    assert_int_equal(0, iw_idle_goes_on(&s, 12 * MS, &sleeps));
    assert_int_equal(0, iw_idle_goes_on(&s, 12 * MS, &gone));
    assert_int_equal(0, iw_idle_goes_on(&s, 12 * MS, &other));
    /* The kernel did not say how long it had run. */
    (void) broken(&s, 13 * MS, 0, 0);
    assert_int_equal(0, iw_idle_goes_on(&s, 15 * MS, &waits));
}

/* ---- the agent ---- */

static void stay_on(void *context)
{
    (void) sched_setaffinity(0, sizeof(cpu_set_t), context);
}

/* In a process of its own, as it may not take back how it is scheduled: calls the agent all the time, but has a processor only
 * when the one that computes there has had more than enough. Exit code 0: good, 1: bad, 2: too few waits to tell. */
static int call_when_there_is_a_processor(void)
{
    cpu_set_t all, one, others;
    int at = 0;
    (void) sched_getaffinity(0, sizeof(all), &all);
    while (!CPU_ISSET(at, &all)) {
        ++at;
    }
    CPU_ZERO(&one);
    CPU_SET(at, &one);
    others = all;
    CPU_CLR(at, &others);
    (void) sched_setaffinity(0, sizeof(one), &one);
    end_t *e = ends_open(true, 30 * S);
    iw_agent_config_t c;
    iw_agent_config_default(&c);
    c.started = stay_on;
    c.context = &others;
    iw_agent_t *a = iw_agent_create(&c, e[0].port, e[0].engine);
    assert_true(NULL != a && iw_agent_start(a));
    const pid_t computes = fork();
    if (0 == computes) {
        const uint64_t end = iw_port_now() + 12 * S;
        while (iw_port_now() < end) {}
        _exit(0);
    }
    (void) !nice(10);
    unsigned waits = 0, long_waits = 0;
    const uint64_t end = iw_port_now() + 10 * S;
    (void) agent_progress(a, &e[0]);
    while (0 == iw_agent_takeovers(a) && iw_port_now() < end) { /* the first is of who has never called */
        usleep(100);
    }
    uint64_t before = iw_port_now();
    const uint64_t takeovers = iw_agent_takeovers(a);
    for (uint64_t now = before; now < end && waits < 20; now = iw_port_now()) {
        waits += now - before > 2 * c.patience_ns;
        long_waits += now - before > IW_IDLE_MOST - 10 * MS;
        before = now;
        if (iw_agent_enter(a)) {
            iw_agent_flush(a); /* or the agent, once in charge, could sleep through the rest */
            iw_agent_unlock(a);
        }
    }
    const uint64_t more = iw_agent_takeovers(a) - takeovers;
    (void) kill(computes, SIGKILL);
    (void) waitpid(computes, NULL, 0);
    iw_agent_destroy(a);
    ends_close(e);
    if (waits - long_waits < 5) { /* never, or on a busy machine each time for long */
        return 2;
    }
    /* A virtual machine whose own processor is taken away looks to its kernel as if the thread ran. */
    const bool bad = more > long_waits + waits / 4;
    if (bad) {
        print_error("%u waits, %u long ones, and the agent took over %llu times\n", waits,
                    long_waits, (unsigned long long) more);
    }
    return bad ? 1 : 0;
}

static void agent_lets_wait(void **state)
{
    (void) state;
    cpu_set_t all;
    (void) sched_getaffinity(0, sizeof(all), &all);
    if (CPU_COUNT(&all) < 2 || 0 != access("/proc/self/schedstat", R_OK)) {
        print_message("SKIP: this needs two processors and /proc/self/schedstat\n");
        skip();
    }
    (void) fflush(NULL);
    const pid_t child = fork();
    if (0 == child) {
        _exit(call_when_there_is_a_processor());
    }
    int status;
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_true(WIFEXITED(status));
    if (2 == WEXITSTATUS(status)) {
        print_message("SKIP: nobody had to wait for a processor here\n");
        skip();
    }
    assert_int_equal(0, WEXITSTATUS(status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_patience_is_as_told),
        cmocka_unit_test(patience_is_in_time_of_the_application),
        cmocka_unit_test(a_crowd_is_known),
        cmocka_unit_test(one_long_wait_changes_little),
        cmocka_unit_test(strange_numbers_count_as_none),
        cmocka_unit_test(long_patience_is_kept),
        cmocka_unit_test(who_waits_for_its_turn_is_not_away),
        cmocka_unit_test(who_computes_or_sleeps_is_away),
        cmocka_unit_test(agent_lets_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
