/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* iw_idle.h: when an application that does not call is away; and that the agent (iw_agent.h) asks. */
#define _GNU_SOURCE /* memfd_create */
#include "spec_unit.h"

#include "iw_agent.h"
#include "iw_ends.h"
#include "iw_idle.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
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

/* Checks for this long; the application polls, and has a processor for one part in so many. Returns the last sleep. */
static uint64_t poll_and_share(iw_idle_t *s, uint64_t *now, uint64_t time, unsigned processes)
{
    uint64_t sleep_ns = 0, at = *now;
    for (const uint64_t end = at + time; at < end; at += sleep_ns) {
        const uint64_t ran = MS + at / processes;
        sleep_ns = broken(s, at, ran, at + MS - ran);
    }
    *now = at;
    return sleep_ns;
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

/* How long it waited is asked when that is due, however often it is checked, and at once of another thread. */
static void waits_are_asked_now_and_then(void **state)
{
    (void) state;
    iw_idle_t s = {.since = 0};
    assert_true(iw_idle_measures(&s, 10 * MS, ME)); /* nothing is known */
    (void) broken(&s, 10 * MS, MS, 0);
    /* Not asked: it may say nothing, or anything. */
    for (uint64_t t = 0; t < IW_IDLE_MEASURE; t += 300 * US) {
        assert_false(iw_idle_measures(&s, 10 * MS + t, ME));
        assert_int_equal(PATIENCE, broken(&s, 10 * MS + t, MS + t, 0 == t ? 0 : 900 * MS));
    }
    assert_false(iw_idle_measures(&s, 10 * MS + IW_IDLE_MEASURE - 1, ME));
    assert_true(iw_idle_measures(&s, 10 * MS + IW_IDLE_MEASURE, ME));
    /* 1 ms of the 2 since it was asked, not since the check before: 512 beside 3 times 1024. */
    assert_int_equal(PATIENCE * IW_IDLE_ALL / 896, broken(&s, 12 * MS, 12 * MS, MS));
    /* Its turns are those of each check. */
    (void) broken(&s, 12 * MS + 300 * US, 20 * MS, MS);
    const iw_caller_t same = caller(20 * MS, 0);
    assert_int_not_equal(0, iw_idle_goes_on(&s, 12 * MS + 300 * US + IW_IDLE_MOST - 1, &same));
    /* Another thread: what it has waited before is no wait now. */
    iw_caller_t other = caller(MS, 900 * MS);
    other.thread = ME + 1;
    assert_true(iw_idle_measures(&s, 12 * MS + 600 * US, ME + 1));
    assert_int_equal(PATIENCE * IW_IDLE_ALL / 896,
                     iw_idle_broken(&s, 12 * MS + 600 * US, &other, PATIENCE));
    assert_false(iw_idle_measures(&s, 12 * MS + 900 * US, ME + 1));
    other.waited_ns = 901 * MS;
    assert_int_equal(PATIENCE * IW_IDLE_ALL / 800,
                     iw_idle_broken(&s, 14 * MS + 600 * US, &other, PATIENCE));
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

/* ---- the agent, in virtual time, with what the kernel would say of the thread that called last ---- */

static _Atomic uint64_t at = 1000 * S; /* what the clock shows */
static atomic_char state_of_caller = 'R';
static atomic_uint asked; /* how often the agent has read that */
static atomic_uint measured; /* and how long that thread had waited */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

/* No thread has run since its clock was last read, which is below zero. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    const uint64_t now = CLOCK_MONOTONIC == clock ? atomic_load(&at) : MS;
    if (CLOCK_MONOTONIC != clock && clock >= 0) {
        return __real_clock_gettime(clock, time);
    }
    *time = (struct timespec){.tv_sec = (time_t) (now / S), .tv_nsec = (long) (now % S)};
    return 0;
}

int __wrap_open(const char *path, int flags, ...)
{
    const bool is_state = 0 == strncmp(path, "/proc/self/task/", 16) && NULL != strstr(path, "/stat");
    if (!is_state) {
        atomic_fetch_add(&measured, NULL != strstr(path, "/schedstat"));
        return __real_open(path, flags, 0);
    }
    const char text[] = {'1', ' ', '(', 'x', ')', ' ', atomic_load(&state_of_caller), '\n'};
    const int fd = memfd_create("stat", 0);
    assert_int_equal(sizeof(text), write(fd, text, sizeof(text)));
    assert_int_equal(0, lseek(fd, 0, SEEK_SET));
    atomic_fetch_add(&asked, 1);
    return fd;
}

static void call(iw_agent_t *a)
{
    while (!iw_agent_enter(a)) {}
    iw_agent_flush(a); /* an agent in charge would sleep on */
    iw_agent_unlock(a);
}

/* A bound against hanging, not a measure. */
static void await_takeover(const iw_agent_t *a, uint64_t number)
{
    for (int i = 0; i < 60000 && iw_agent_takeovers(a) < number; ++i) {
        usleep(1000);
    }
    assert_int_equal(number, iw_agent_takeovers(a));
}

/* Two checks: one of them began after what was done before. */
static void await_checks(void)
{
    const unsigned before = atomic_load(&asked);
    for (int i = 0; i < 60000 && atomic_load(&asked) - before < 2; ++i) {
        usleep(1000);
    }
    assert_true(atomic_load(&asked) - before >= 2);
}

static void agent_measures_now_and_then(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    iw_agent_config_t c;
    iw_agent_config_default(&c);
    iw_agent_t *a = iw_agent_create(&c, e[0].port, e[0].engine);
    atomic_store(&state_of_caller, 'R');
    atomic_store(&measured, 0);
    assert_true(NULL != a && iw_agent_start(a));
    await_takeover(a, 1);
    for (int i = 0; i < 5; ++i) { /* the clock stands still */
        call(a);
        await_checks();
    }
    assert_int_equal(1, atomic_load(&measured));
    atomic_fetch_add(&at, IW_IDLE_MEASURE);
    call(a);
    await_checks();
    assert_int_equal(2, atomic_load(&measured));
    iw_agent_destroy(a);
    ends_close(e);
}

static void agent_lets_wait(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    iw_agent_config_t c;
    iw_agent_config_default(&c);
    iw_agent_t *a = iw_agent_create(&c, e[0].port, e[0].engine);
    assert_true(NULL != a && iw_agent_start(a));
    await_takeover(a, 1); /* nobody has ever called */
    call(a);
    atomic_store(&asked, 0);
    for (int i = 0; i < 60000 && atomic_load(&asked) < 5 && 1 == iw_agent_takeovers(a); ++i) {
        usleep(1000);
    }
    assert_true(atomic_load(&asked) >= 5);
    assert_int_equal(1, iw_agent_takeovers(a)); /* it is ready to run and had no turn */
    atomic_fetch_add(&at, IW_IDLE_MOST);
    await_takeover(a, 2); /* whatever the reason */
    atomic_store(&state_of_caller, 'S');
    call(a);
    await_takeover(a, 3); /* it sleeps */
    iw_agent_destroy(a);
    ends_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_patience_is_as_told),
        cmocka_unit_test(patience_is_in_time_of_the_application),
        cmocka_unit_test(a_crowd_is_known),
        cmocka_unit_test(one_long_wait_changes_little),
        cmocka_unit_test(strange_numbers_count_as_none),
        cmocka_unit_test(waits_are_asked_now_and_then),
        cmocka_unit_test(long_patience_is_kept),
        cmocka_unit_test(who_waits_for_its_turn_is_not_away),
        cmocka_unit_test(who_computes_or_sleeps_is_away),
        cmocka_unit_test(agent_lets_wait),
        cmocka_unit_test(agent_measures_now_and_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
