/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The progress agent's steps (core/spec_agent.h): asleep while nothing is outstanding, at a distance while the program is inside MPI,
 * at work while it computes, and how much of a processor that takes; and the processors that no rank owns. */
#include "spec_unit.h"

#include "spec_agent.h"
#include "spec_give.h"

/* A program and its agent: what the agent sees, and what it was told last. */
static spec_agent_t agent;
static spec_agent_view_t view;
static uint64_t told; /* of a pause: how long, ns */

enum { US = 1000, MS = 1000000, EMPTY = 500 }; /* ns; EMPTY: what a poll takes that finds nothing */

static spec_agent_act_t next(void)
{
    told = 0;
    return spec_agent_next(&agent, &view, &told);
}

/* The same after so many ns, which the last call of progress took if it was told to call it. */
static spec_agent_act_t after(uint64_t ns)
{
    view.now += ns;
    view.took = ns;
    return next();
}

/* Asleep for a second, during which the program was in MPI. */
static void sleeps(spec_agent_home_t home)
{
    view = (spec_agent_view_t){.now = 1000 * MS};
    spec_agent_init(&agent, &view, home);
    view.now += 1000 * MS;
    assert_int_equal(next(), SPEC_AGENT_SLEEP);
    view.now += 1000 * MS;
    view.calls += 1000;
}

static void begins(bool is_large)
{
    view.outstanding = true;
    ++view.begun;
    view.rings += is_large;
}

static int sleeping(void **state)
{
    (void) state;
    sleeps(SPEC_AGENT_OWN);
    return 0;
}

/* Only sleep and the longest pauses are worth what it takes to end them. */
static void locks_are_offered_for_long(void **state)
{
    (void) state;
    assert_true(spec_agent_offers(0));
    assert_true(spec_agent_offers(SPEC_AGENT_PAUSE_MOST));
    assert_false(spec_agent_offers(SPEC_AGENT_PAUSE_LEAST));
    assert_false(spec_agent_offers(SPEC_AGENT_PAUSE_MOST / 2));
}

static void nothing_is_outstanding(void **state)
{
    (void) state;
    assert_int_equal(next(), SPEC_AGENT_SLEEP);
    assert_int_equal(after(1), SPEC_AGENT_SLEEP);
}

/* Polls in vain; adds up the polls and what it pauses. */
static void computes(uint64_t ns, uint64_t *polls, uint64_t *pauses, uint64_t *longest)
{
    const uint64_t end = view.now + ns;
    *polls = *pauses = *longest = 0;
    while (view.now < end) {
        switch (next()) {
        case SPEC_AGENT_RUN:
            ++*polls;
            view.now += EMPTY;
            view.took = EMPTY;
            break;
        case SPEC_AGENT_PAUSE:
            ++*pauses;
            *longest = told > *longest ? told : *longest;
            view.now += told;
            break;
        default:
            fail_msg("asleep, and a request is outstanding");
        }
    }
}

static void a_request_that_begins_ends_the_sleep(void **state)
{
    (void) state;
    begins(false);
    assert_int_equal(next(), SPEC_AGENT_RUN); /* though the program has called meanwhile */
    assert_int_equal(after(EMPTY), SPEC_AGENT_RUN);
}

/* It is over before the agent is awake: what waits for it may go on. */
static void a_request_that_ends_at_once_is_followed_up(void **state)
{
    (void) state;
    sleeps(SPEC_AGENT_SHARED);
    begins(false);
    view.outstanding = false;
    assert_int_equal(next(), SPEC_AGENT_PAUSE);
    assert_int_equal(after(told), SPEC_AGENT_RUN);
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
    assert_int_equal(after(told), SPEC_AGENT_RUN);
}

/* Without a pause at first; in the end a poll in each of the longest pauses. */
static void a_program_that_computes_is_polled_for(void **state)
{
    uint64_t polls, pauses, longest;
    (void) state;
    begins(true);
    computes(SPEC_AGENT_SPIN, &polls, &pauses, &longest);
    assert_int_equal(pauses, 0);
    computes(SPEC_AGENT_LINGER - SPEC_AGENT_SPIN, &polls, &pauses, &longest);
    assert_int_equal(longest, SPEC_AGENT_PAUSE_BUSY);
    computes(10 * MS, &polls, &pauses, &longest);
    assert_int_equal(longest, SPEC_AGENT_PAUSE_MOST);
    computes(1000 * MS, &polls, &pauses, &longest);
    assert_in_range(pauses, 990, 1000);
    assert_in_range(polls, 990, 1001); /* one after each: 0.05 % of a processor */
}

static void pauses_grow_from_the_least(void **state)
{
    (void) state;
    begins(true);
    assert_int_equal(next(), SPEC_AGENT_RUN);
    view.calls = agent.seen.calls;
    assert_int_equal(after(SPEC_AGENT_LINGER),
                     SPEC_AGENT_RUN); /* the poll was long: it may have moved something */
    for (uint64_t want = SPEC_AGENT_PAUSE_LEAST; want < SPEC_AGENT_PAUSE_MOST; want *= 2) {
        assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
        assert_int_equal(told, want);
        assert_int_equal(after(told), SPEC_AGENT_RUN);
    }
}

/* A message that arrives: the agent goes on at once, and for a while. */
static void what_ends_is_followed_up(void **state)
{
    uint64_t polls, pauses, longest;
    (void) state;
    begins(true);
    computes(1000 * MS, &polls, &pauses, &longest);
    while (SPEC_AGENT_RUN != next()) {
        view.now += told;
    }
    ++view.ended;
    assert_int_equal(after(EMPTY), SPEC_AGENT_RUN);
    assert_int_equal(after(EMPTY), SPEC_AGENT_RUN);
    computes(SPEC_AGENT_SPIN - 2 * EMPTY, &polls, &pauses, &longest);
    assert_int_equal(pauses, 0);
    computes(SPEC_AGENT_PAUSE_LEAST + 2 * EMPTY, &polls, &pauses, &longest);
    assert_int_equal(longest, SPEC_AGENT_PAUSE_LEAST);
}

/* Pieces of a message: each poll takes long, and there is no pause between them; but where every poll takes long, there is. */
static void a_long_poll_is_followed_up(void **state)
{
    uint64_t from;
    unsigned runs = 0, stops = 0;
    (void) state;
    begins(true);
    for (from = view.now; view.now - from < SPEC_AGENT_TRUST; view.now += 30 * US) {
        assert_int_equal(next(), SPEC_AGENT_RUN);
        view.took = 30 * US;
    }
    for (from = view.now; view.now - from < 100 * MS;) {
        const bool runs_now = SPEC_AGENT_RUN == next();
        runs += runs_now;
        stops += !runs_now;
        if (!runs_now) {
            assert_int_equal(told, SPEC_AGENT_PAUSE_LEAST);
        }
        view.now += runs_now ? SPEC_AGENT_WORK : told;
        view.took = SPEC_AGENT_WORK;
    }
    assert_in_range(stops, runs - 1, runs + 1);
}

/* The program polls itself: the agent checks now and then. */
static void a_program_inside_mpi_is_left_alone(void **state)
{
    unsigned checks = 0;
    (void) state;
    begins(true);
    assert_int_equal(next(), SPEC_AGENT_RUN);
    const uint64_t from = view.now += EMPTY;
    while (view.now - from < 100 * MS) {
        ++view.calls;
        assert_int_equal(next(), SPEC_AGENT_PAUSE);
        view.now += told;
        ++checks;
    }
    assert_in_range(checks, 100, 110);
    assert_int_equal(next(), SPEC_AGENT_RUN); /* it has left */
}

static void what_bars_it_is_waited_for(void **state)
{
    (void) state;
    begins(true);
    view.barred = true;
    for (int i = 0; i < 10; ++i) {
        assert_int_equal(after(told), SPEC_AGENT_PAUSE);
    }
    assert_int_equal(told, SPEC_AGENT_PAUSE_MOST);
    view.barred = false;
    assert_int_equal(after(told), SPEC_AGENT_RUN);
}

/* A large request begins just as the agent pauses because of an earlier call: the program has come out of MPI since. */
static void a_large_request_ends_a_pause(void **state)
{
    (void) state;
    begins(false);
    assert_int_equal(next(), SPEC_AGENT_RUN);
    ++view.calls;
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
    ++view.calls;
    begins(true);
    assert_int_equal(after(US), SPEC_AGENT_RUN);
    ++view.calls;
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
    assert_int_equal(told, SPEC_AGENT_PAUSE_LEAST);
}

/* Between two requests it pauses, so that the second need not wake it; then it sleeps. */
static void it_lingers(void **state)
{
    uint64_t pauses = 0, runs = 0;
    (void) state;
    begins(false);
    assert_int_equal(next(), SPEC_AGENT_RUN);
    const uint64_t from = view.now;
    view.outstanding = false;
    view.now += SPEC_AGENT_SPIN;
    view.took = EMPTY;
    for (spec_agent_act_t act; SPEC_AGENT_SLEEP != (act = next());) {
        pauses += SPEC_AGENT_PAUSE == act;
        runs += SPEC_AGENT_RUN == act;
        view.now += SPEC_AGENT_PAUSE == act ? told : EMPTY;
    }
    assert_in_range(view.now - from, SPEC_AGENT_LINGER, SPEC_AGENT_LINGER + SPEC_AGENT_PAUSE_MOST);
    assert_in_range(runs, pauses - 1, pauses + 1); /* a collective may go on */
    assert_in_range(pauses, SPEC_AGENT_LINGER / (SPEC_AGENT_PAUSE_BUSY + EMPTY) - 2, SPEC_AGENT_LINGER / SPEC_AGENT_PAUSE_BUSY + 2);
    begins(false);
    assert_int_equal(after(MS), SPEC_AGENT_RUN);
}

/* A short pause ends by itself, so that the program need not end it by a system call; elsewhere the program's processor would be taken
 * from it so often. */
static void pauses_stay_short_beside_a_busy_program(void **state)
{
    uint64_t polls, pauses, longest;
    (void) state;
    assert_false(spec_agent_is_woken(SPEC_AGENT_OWN, SPEC_AGENT_PAUSE_BUSY));
    assert_true(spec_agent_is_woken(SPEC_AGENT_OWN, SPEC_AGENT_PAUSE_MOST));
    assert_true(spec_agent_is_woken(SPEC_AGENT_SHARED, SPEC_AGENT_PAUSE_LEAST));
    for (int i = 0; i < 3; ++i) {
        begins(true);
        computes(SPEC_AGENT_LINGER / 2, &polls, &pauses, &longest);
        assert_int_equal(longest, SPEC_AGENT_PAUSE_BUSY);
        ++view.ended;
        computes(SPEC_AGENT_LINGER / 2, &polls, &pauses, &longest);
        assert_int_equal(longest, SPEC_AGENT_PAUSE_BUSY);
    }
    sleeps(SPEC_AGENT_SHARED);
    begins(true);
    computes(SPEC_AGENT_LINGER / 2, &polls, &pauses, &longest);
    assert_int_equal(longest, SPEC_AGENT_PAUSE_MOST);
}

/* A transport's thread says that something has arrived: one poll, and short pauses again, but not where the program polls
 * itself, nor on its processor. */
static void what_has_arrived_is_fetched(void **state)
{
    uint64_t polls, pauses, longest;
    (void) state;
    begins(true);
    computes(100 * MS, &polls, &pauses, &longest);
    while (SPEC_AGENT_PAUSE != next()) {
        view.now += view.took = EMPTY;
    }
    ++view.arrivals;
    assert_int_equal(after(US), SPEC_AGENT_RUN);
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
    assert_int_equal(told, SPEC_AGENT_PAUSE_LEAST);
    assert_int_equal(after(told), SPEC_AGENT_RUN);
    ++view.arrivals; /* while it polls: perhaps too late for that one */
    assert_int_equal(after(EMPTY), SPEC_AGENT_RUN);
    ++view.arrivals;
    ++view.calls;
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
    ++view.arrivals;
    ++view.calls;
    assert_int_equal(after(told), SPEC_AGENT_PAUSE);
    assert_int_equal(told, 2 * SPEC_AGENT_PAUSE_LEAST);
    assert_int_equal(after(told), SPEC_AGENT_RUN);
    view.barred = true;
    ++view.arrivals;
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
    ++view.arrivals;
    assert_int_equal(after(told), SPEC_AGENT_PAUSE);
    assert_true(told > SPEC_AGENT_PAUSE_LEAST);
    view.barred = false;
    sleeps(SPEC_AGENT_SHARED);
    begins(false);
    assert_int_equal(next(), SPEC_AGENT_PAUSE);
    assert_int_equal(after(told), SPEC_AGENT_RUN);
    ++view.arrivals;
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
}

/* The first step of a nonblocking collective operation may be none that is heard of here. */
static void it_stays_awake_for_collectives(void **state)
{
    uint64_t polls, pauses, longest;
    (void) state;
    begins(false);
    ++view.collectives;
    (void) next();
    view.outstanding = false;
    computes(SPEC_AGENT_LINGER_COLLECTIVE - MS, &polls, &pauses, &longest); /* fails if it sleeps */
    assert_int_equal(longest, SPEC_AGENT_PAUSE_MOST);
    view = (spec_agent_view_t){.now = view.now, .collectives = 1}; /* the request that started the thread was one */
    spec_agent_init(&agent, &view, SPEC_AGENT_OWN);
    view.now += SPEC_AGENT_LINGER;
    assert_int_not_equal(next(), SPEC_AGENT_SLEEP);
    view.now += SPEC_AGENT_LINGER_COLLECTIVE - SPEC_AGENT_LINGER - MS;
    assert_int_not_equal(next(), SPEC_AGENT_SLEEP);
    view.now += 2 * MS;
    while (SPEC_AGENT_SLEEP != next()) {
        assert_true(view.now < SPEC_AGENT_LINGER_COLLECTIVE + UINT64_C(3000) * MS);
        view.now += told > 0 ? told : EMPTY;
    }
    assert_int_equal(after(1000 * MS), SPEC_AGENT_SLEEP);
    sleeps(SPEC_AGENT_SHARED);
    begins(false);
    ++view.collectives;
    (void) next();
    view.outstanding = false;
    (void) after(SPEC_AGENT_LINGER);
    (void) after(EMPTY);
    assert_int_equal(after(EMPTY), SPEC_AGENT_SLEEP);
}

/* The machine is busy, and a pause lasts longer than the agent goes on after the last request: what that has ended for may still
 * have to begin. */
static void it_polls_before_it_sleeps(void **state)
{
    (void) state;
    sleeps(SPEC_AGENT_APART);
    begins(false);
    assert_int_equal(next(), SPEC_AGENT_RUN);
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
    view.outstanding = false; /* the program's call ended it */
    ++view.calls;
    assert_int_equal(after(2 * SPEC_AGENT_LINGER), SPEC_AGENT_PAUSE);
    assert_int_equal(after(2 * SPEC_AGENT_LINGER), SPEC_AGENT_RUN);
    assert_int_equal(after(EMPTY), SPEC_AGENT_SLEEP);
    begins(false);
    assert_int_equal(after(MS), SPEC_AGENT_RUN);
    view.outstanding = false;
    ++view.ended; /* the agent's did */
    assert_int_equal(after(2 * SPEC_AGENT_LINGER), SPEC_AGENT_RUN);
}

/* Where it shares the program's processor, each poll in vain is followed by a pause, and large requests do not wake it. */
static void on_the_programs_processor_it_does_not_spin(void **state)
{
    (void) state;
    sleeps(SPEC_AGENT_SHARED);
    begins(true);
    assert_int_equal(next(), SPEC_AGENT_PAUSE); /* the program may be about to wait, and needs it */
    assert_int_equal(told, SPEC_AGENT_PAUSE_LEAST);
    ++view.calls;
    assert_int_equal(after(told), SPEC_AGENT_PAUSE);
    ++view.calls;
    begins(true);
    assert_int_equal(after(US), SPEC_AGENT_PAUSE);
    assert_int_equal(told, 4 * SPEC_AGENT_PAUSE_LEAST);
    assert_int_equal(after(told), SPEC_AGENT_RUN);
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
    assert_int_equal(after(told), SPEC_AGENT_RUN);
    ++view.ended;
    assert_int_equal(after(EMPTY), SPEC_AGENT_RUN); /* what ended may have been waited for */
    assert_int_equal(after(SPEC_AGENT_WORK), SPEC_AGENT_RUN); /* and what moves, moves on */
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
}

/* Another process calls; the program has not polled since, or has: `answers`. */
static spec_agent_act_t is_called(bool answers)
{
    ++view.bells;
    view.calls += 100;
    view.then = view.calls - answers;
    return after(SPEC_AGENT_CHECK);
}

/* On others' processors it is where it is called to, and nowhere else. */
static void who_is_called_comes(void **state)
{
    uint64_t polls, pauses, longest;
    (void) state;
    sleeps(SPEC_AGENT_APART);
    begins(true);
    computes(50 * MS, &polls, &pauses, &longest);
    assert_in_range(polls, 1, pauses + 1); /* that a request began is no reason to spin */
    assert_int_equal(longest, SPEC_AGENT_PAUSE_MOST);
    assert_int_equal(is_called(false), SPEC_AGENT_RUN);
    computes(SPEC_AGENT_SPIN - EMPTY, &polls, &pauses, &longest);
    assert_int_equal(pauses, 0);
    computes(SPEC_AGENT_PAUSE_LEAST, &polls, &pauses, &longest);
    assert_int_equal(longest, SPEC_AGENT_PAUSE_LEAST);
}

static void a_program_that_answers_needs_no_agent(void **state)
{
    (void) state;
    sleeps(SPEC_AGENT_APART);
    begins(true);
    assert_int_equal(is_called(true), SPEC_AGENT_PAUSE);
    assert_int_equal(is_called(true), SPEC_AGENT_PAUSE);
    assert_int_equal(told, 2 * SPEC_AGENT_PAUSE_LEAST); /* and that is no news */
}

/* A program without nonblocking requests that lost its processor: its agent would only keep the caller from the caller's. */
static void a_call_for_nothing_is_no_news(void **state)
{
    (void) state;
    sleeps(SPEC_AGENT_APART);
    assert_int_equal(is_called(false), SPEC_AGENT_SLEEP);
    begins(false);
    assert_int_equal(next(), SPEC_AGENT_RUN);
    view.outstanding = false;
    assert_int_equal(is_called(false), SPEC_AGENT_PAUSE);
}

static void the_shared_processor_is_used_if_called(void **state)
{
    (void) state;
    sleeps(SPEC_AGENT_SHARED);
    begins(true);
    assert_int_equal(is_called(false), SPEC_AGENT_RUN);
}

/* ---- a thread that waits ---- */

static void who_waits_calls_ever_more_seldom(void **state)
{
    uint32_t calls = 0;
    (void) state;
    for (uint32_t polls = 1; polls <= SPEC_AGENT_POLLS; ++polls) {
        assert_false(spec_agent_waits(polls));
        assert_false(spec_agent_calls(polls));
    }
    assert_true(spec_agent_waits(SPEC_AGENT_POLLS + 1));
    for (uint32_t polls = SPEC_AGENT_POLLS + 1; polls <= 16 * SPEC_AGENT_POLLS + 1; ++polls) {
        calls += spec_agent_calls(polls);
    }
    assert_int_equal(calls, 5);
}

static void who_lost_its_processor_gives_no_more_for_a_while(void **state)
{
    const uint32_t keeps[] = {SPEC_GIVE_AGENT, SPEC_GIVE_COPIER};
    (void) state;
    for (size_t i = 0; i < 2; ++i) {
        uint64_t again = 0;
        assert_true(spec_give_may(again, 0));
        again = spec_give_back(again, 100, 100 + SPEC_GIVE_MOST, keeps[i]);
        assert_true(spec_give_may(again, 100 + SPEC_GIVE_MOST));
        again = spec_give_back(again, 100, 101 + SPEC_GIVE_MOST, keeps[i]);
        const uint64_t then = 101 + SPEC_GIVE_MOST + keeps[i] * (1 + SPEC_GIVE_MOST);
        assert_false(spec_give_may(again, then - 1));
        assert_true(spec_give_may(again, then));
    }
}

static void counts_may_wrap_around(void **state)
{
    (void) state;
    view.calls = view.begun = view.rings = view.ended = UINT32_MAX;
    begins(false);
    assert_int_equal(next(), SPEC_AGENT_RUN);
    view.calls = 0;
    assert_int_equal(after(EMPTY), SPEC_AGENT_PAUSE);
    view.rings = 0;
    assert_int_equal(after(EMPTY), SPEC_AGENT_RUN);
}

static void processors_that_no_rank_owns(void **state)
{
    (void) state;
    uint64_t set[2] = {0xff, UINT64_C(1) << 63 | 3};
    const uint64_t owned[2] = {0x0f, 1};
    assert_int_equal(spec_agent_spare(set, owned, 2), 6);
    assert_int_equal(spec_agent_nth(set, 2, 0), 127);
    assert_int_equal(spec_agent_nth(set, 2, 1), 65);
    assert_int_equal(spec_agent_nth(set, 2, 2), 7);
    assert_int_equal(spec_agent_nth(set, 2, 5), 4);
    assert_int_equal(spec_agent_nth(set, 2, 6), -1);
    assert_int_equal(spec_agent_spare(set, set, 2), 0); /* not bound: all are owned */
    assert_int_equal(spec_agent_nth(set, 2, 0), -1);
    assert_false(spec_agent_suffice(0, 1));
    assert_true(spec_agent_suffice(1, 1));
    assert_true(spec_agent_suffice(1, 2));
    assert_false(spec_agent_suffice(1, 3));
    assert_true(spec_agent_suffice(2, 3));
}

static void processors_of_a_list(void **state)
{
    (void) state;
    uint64_t set[2] = {1, 1};
    assert_int_equal(spec_agent_parse(set, 2, "0-3,8,64-65"), 7);
    assert_int_equal(set[0], 0x10f);
    assert_int_equal(set[1], 3);
    assert_int_equal(spec_agent_parse(set, 2, "127"), 1);
    assert_int_equal(spec_agent_parse(set, 2, "5,5"), 1);
    static const char *const bad[] = {"",     ",",   "1,",  ",1",  "-1",  "5,3-1", "1-",
                                      "1--2", "all", "1 2", "128", "0x1", "9999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
        assert_int_equal(spec_agent_parse(set, 2, bad[i]), 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, sleeping)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_are_offered_for_long),
        TEST(nothing_is_outstanding),
        TEST(a_request_that_begins_ends_the_sleep),
        TEST(a_request_that_ends_at_once_is_followed_up),
        TEST(a_program_that_computes_is_polled_for),
        TEST(pauses_grow_from_the_least),
        TEST(what_ends_is_followed_up),
        TEST(a_long_poll_is_followed_up),
        TEST(a_program_inside_mpi_is_left_alone),
        TEST(what_bars_it_is_waited_for),
        TEST(a_large_request_ends_a_pause),
        TEST(it_lingers),
        TEST(pauses_stay_short_beside_a_busy_program),
        TEST(what_has_arrived_is_fetched),
        TEST(it_stays_awake_for_collectives),
        TEST(it_polls_before_it_sleeps),
        TEST(on_the_programs_processor_it_does_not_spin),
        TEST(who_is_called_comes),
        TEST(a_program_that_answers_needs_no_agent),
        TEST(a_call_for_nothing_is_no_news),
        TEST(the_shared_processor_is_used_if_called),
        TEST(who_waits_calls_ever_more_seldom),
        TEST(who_lost_its_processor_gives_no_more_for_a_while),
        TEST(counts_may_wrap_around),
        TEST(processors_that_no_rank_owns),
        TEST(processors_of_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
