/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The end of a request (core/spec_life.h) in all interleavings of what ends it, its owner, who frees it while it is active or
 * after a wait, and what gives it up: it is completed once, returned once, and not touched after. */
#include "spec_unit.h"

#include "spec_life.h"

enum { ENDS, OWNER, LOSES, ACTORS };

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
static bool loses, early, waits;
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

static void step_lose(state_t *s)
{
    switch (s->actor[LOSES].step++) {
    case 0:
        touch(s);
        s->actor[LOSES].over = !spec_life_may_be_lost(s->life);
        s->life |= s->actor[LOSES].over ? 0 : SPEC_LIFE_LOST;
        break;
    case 1:
        complete(s);
        break;
    default:
        if (SPEC_LIFE_RETURN == spec_life_told(set(s, SPEC_LIFE_TOLD))) {
            give_back(s);
        }
        s->actor[LOSES].over = true;
        break;
    }
}

static void run(state_t s)
{
    bool moved = false;
    assert_false(s.bad);
    for (int actor = 0; actor < ACTORS; ++actor) {
        /* It is lost by its handle, which is closed when its end begins, or by its owner, unless it has a callback. */
        if (s.actor[actor].over
            || (LOSES == actor && 0 == s.actor[LOSES].step && s.actor[ENDS].step > 0
                && (early || s.actor[OWNER].step > 0))) {
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
        default:
            step_lose(&next);
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
    for (int variant = 0; variant < 8; ++variant) {
        loses = variant & 1;
        early = variant & 2;
        waits = variant & 4;
        runs = 0;
        run((state_t){.actor[LOSES].over = !loses});
        assert_true(runs > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_returned_once_and_by_the_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
