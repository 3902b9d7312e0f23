/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The end of a request (core/spec_life.h) in all interleavings of what ends it, its owner, who frees it while it is active or
 * after a wait, what gives it up, and a thread that copies to the program's memory: it is completed once, returned once, and not touched
 * after; nor is the memory when it is complete. And threads that do so with what they share, under ThreadSanitizer (races). */
#include "spec_unit.h"

#include "spec_life.h"

#include <pthread.h>
#include <sched.h>

enum { ENDS, OWNER, LOSES, COPIES, ACTORS };

typedef struct {
    int32_t life;
    int completed, returned;
    bool bad;
    struct {
        int step;
        bool saw;
        int32_t before;
        bool over; /* no step is left */
    } actor[ACTORS];
} state_t;

/* What differs from run to run. */
static bool loses, early, waits, copies;
static unsigned long runs;

static void touch(state_t *s)
{
    s->bad |= s->returned > 0;
}

static int32_t set(state_t *s, int32_t bits)
{
    touch(s);
    const int32_t before = s->life;
    s->life |= bits;
    return before;
}

static void complete(state_t *s)
{
    touch(s);
    s->bad |= ++s->completed > 1;
}

static void give_back(state_t *s)
{
    s->bad |= ++s->returned > 1;
}

/* early: as below a callback, or for a buffered send: completed, unless it is lost, then DONE. */
static void step_end(state_t *s)
{
    switch (s->actor[ENDS].step++) {
    case 0:
        touch(s);
        s->actor[ENDS].saw = s->life & SPEC_LIFE_LOST;
        s->actor[ENDS].step += early ? 0 : 1 + s->actor[ENDS].saw;
        return;
    case 1:
        if (!s->actor[ENDS].saw) {
            complete(s);
        }
        ++s->actor[ENDS].step;
        return;
    case 2:
        s->actor[ENDS].before = set(s, SPEC_LIFE_DONE);
        break;
    case 3:
        s->actor[ENDS].before = set(s, SPEC_LIFE_DONE | SPEC_LIFE_OVER);
        break;
    default:
        complete(s);
        s->actor[ENDS].over = true;
        return;
    }
    const bool over = 4 == s->actor[ENDS].step;
    s->actor[ENDS].step = 4;
    switch (spec_life_ended(s->actor[ENDS].before, over)) {
    case SPEC_LIFE_RETURN:
        give_back(s);
        s->actor[ENDS].over = true;
        break;
    case SPEC_LIFE_COMPLETE:
        break;
    default:
        s->actor[ENDS].over = true;
        break;
    }
}

/* False: it can go no step. waits: frees only what it has seen complete, as after MPI_Wait. */
static bool step_owner(state_t *s)
{
    switch (s->actor[OWNER].step) {
    case 0:
        if (waits && 0 == s->completed) {
            return false;
        }
        touch(s);
        s->actor[OWNER].saw = s->completed > 0;
        break;
    case 1:
        touch(s);
        if (spec_life_is_mine(s->life, s->actor[OWNER].saw)) {
            give_back(s);
            s->actor[OWNER].over = true;
        }
        break;
    case 2:
        switch (spec_life_freed(set(s, SPEC_LIFE_FREED))) {
        case SPEC_LIFE_RETURN:
            give_back(s);
            s->actor[OWNER].over = true;
            break;
        case SPEC_LIFE_AWAIT:
            break;
        default:
            s->actor[OWNER].over = true;
            break;
        }
        break;
    default:
        if (0 == s->completed) {
            return false;
        }
        touch(s);
        give_back(s);
        s->actor[OWNER].over = true;
        break;
    }
    ++s->actor[OWNER].step;
    return true;
}

/* A user leaves, in its step `first`; the two that follow tell that the request is lost, if it is the last one. */
static void step_leave(state_t *s, int actor, int first)
{
    switch (s->actor[actor].step++ - first) {
    case 0:
        touch(s);
        s->life -= SPEC_LIFE_USER;
        s->actor[actor].over = !spec_life_is_last(s->life);
        break;
    case 1:
        complete(s);
        break;
    default:
        if (SPEC_LIFE_RETURN == spec_life_told(set(s, SPEC_LIFE_TOLD))) {
            give_back(s);
        }
        s->actor[actor].over = true;
        break;
    }
}

static void step_lose(state_t *s)
{
    switch (s->actor[LOSES].step) {
    case 0:
        touch(s);
        s->actor[LOSES].over = !spec_life_may_be_lost(s->life);
        s->life = s->actor[LOSES].over ? s->life : (s->life | SPEC_LIFE_LOST) + SPEC_LIFE_USER;
        break;
    case 1: /* it writes the status */
        s->bad |= s->completed > 0;
        break;
    default:
        step_leave(s, LOSES, 2);
        return;
    }
    ++s->actor[LOSES].step;
}

static void step_copy(state_t *s)
{
    switch (s->actor[COPIES].step) {
    case 0:
        touch(s);
        s->actor[COPIES].over = !spec_life_may_use(s->life);
        s->life += s->actor[COPIES].over ? 0 : SPEC_LIFE_USER;
        break;
    case 1: /* to memory that must not be the program's */
        touch(s);
        s->bad |= s->completed > 0;
        break;
    default:
        step_leave(s, COPIES, 2);
        return;
    }
    ++s->actor[COPIES].step;
}

/* May it go a step? What copies has bytes to account for, so that the end does not begin before that. It is lost by its handle, which is
 * closed when its end begins, or by its owner, unless it has a callback. */
static bool may_step(const state_t *s, int actor)
{
    if (s->actor[actor].over || (ENDS == actor && !s->actor[COPIES].over)) {
        return false;
    }
    return !(LOSES == actor && 0 == s->actor[LOSES].step && s->actor[ENDS].step > 0
             && (early || s->actor[OWNER].step > 0));
}

static void run(state_t s)
{
    bool moved = false;
    assert_false(s.bad);
    for (int actor = 0; actor < ACTORS; ++actor) {
        if (!may_step(&s, actor)) {
            continue;
        }
        state_t next = s;
        switch (actor) {
        case ENDS:
            step_end(&next);
            break;
        case OWNER:
            if (!step_owner(&next)) {
                continue;
            }
            break;
        case LOSES:
            step_lose(&next);
            break;
        default:
            step_copy(&next);
            break;
        }
        moved = true;
        run(next);
    }
    if (!moved) {
        ++runs;
        assert_int_equal(s.returned, 1);
        assert_true(s.actor[ENDS].over && s.actor[OWNER].over);
    }
}

static void it_is_returned_once_and_by_the_last(void **state)
{
    (void) state;
    for (int variant = 0; variant < 16; ++variant) {
        loses = variant & 1;
        early = variant & 2;
        waits = variant & 4;
        copies = variant & 8;
        runs = 0;
        run((state_t){.actor[LOSES].over = !loses, .actor[COPIES].over = !copies});
        assert_true(runs > 0);
    }
}

/* ---- threads ---- */

enum { COPIERS = 3, BYTES = 64 };

static volatile int32_t life;
static char memory[BYTES];      /* the program's */
static int32_t complete_for[2]; /* how often: by copiers, by what gives it up */
static int32_t ready;

static void tell_lost(int by)
{
    (void) __atomic_fetch_or(&life, SPEC_LIFE_TOLD, __ATOMIC_ACQ_REL);
    (void) __atomic_add_fetch(&complete_for[by], 1, __ATOMIC_RELEASE);
}

static void begin_together(void)
{
    (void) __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < COPIERS + 1) {
        (void) sched_yield();
    }
}

/* Each has its own bytes, as parts of a message have. */
static void *copier(void *arg)
{
    const size_t part = BYTES / COPIERS, at = (size_t) (intptr_t) arg * part;
    begin_together();
    while (spec_life_use(&life)) {
        memset(memory + at, 'x', part);
        if (spec_life_leave(&life)) {
            tell_lost(0);
            break;
        }
    }
    return NULL;
}

static int32_t completions(void)
{
    return __atomic_load_n(&complete_for[0], __ATOMIC_ACQUIRE)
           + __atomic_load_n(&complete_for[1], __ATOMIC_ACQUIRE);
}

static void nobody_is_at_memory_that_was_given_back(void **state)
{
    (void) state;
    for (int round = 0; round < 300; ++round) {
        pthread_t thread[COPIERS];
        life = 0;
        ready = 0;
        complete_for[0] = complete_for[1] = 0;
        for (intptr_t i = 0; i < COPIERS; ++i) {
            assert_int_equal(pthread_create(&thread[i], NULL, copier, (void *) i), 0);
        }
        begin_together();
        assert_true(spec_life_lose(&life));
        assert_false(spec_life_lose(&life));
        if (spec_life_leave(&life)) {
            tell_lost(1);
        }
        while (0 == completions()) {
            (void) sched_yield();
        }
        memset(memory, 'p', sizeof(memory)); /* the program has it back */
        for (int i = 0; i < COPIERS; ++i) {
            assert_int_equal(pthread_join(thread[i], NULL), 0);
        }
        assert_int_equal(completions(), 1);
        for (int i = 0; i < BYTES; ++i) {
            assert_int_equal(memory[i], 'p');
        }
        assert_int_equal(life, SPEC_LIFE_LOST | SPEC_LIFE_TOLD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_returned_once_and_by_the_last),
        cmocka_unit_test(nobody_is_at_memory_that_was_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
