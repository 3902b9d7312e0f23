/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* ibx_delivery.h: what a callback waits for is told, by a call of progress below it or by another thread, and everything is told and
 * given back once. */
#include "spec_unit.h"

#include "ibx_delivery.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { EVENTS = 400, THREADS = 3, ROUNDS = 60, NOBODY = -1 };

/* A transport that has events 0 to EVENTS - 1, and a PML. */
static struct {
    pthread_mutex_t lock; /* the transport's */
    int taken;
    int to_tell[IBX_TOLD_MOST], to_give_back[IBX_TOLD_MOST];
    atomic_int told[EVENTS], back[EVENTS];
    int waits_for[EVENTS]; /* its callback, for the callback of that one; NOBODY */
    bool polls;            /* while it waits; else only other threads do */
} world;
static ibx_told_t told;

/* As many as fit, in bursts. */
static void take(void)
{
    int n = 1 + rand() % (int) IBX_TOLD_MOST;
    const uint32_t room = ibx_told_room(&told);
    n = n < (int) room ? n : (int) room;
    ibx_told_lock(&told);
    for (; n > 0 && world.taken < EVENTS; --n) {
        const uint32_t at = ibx_told_add(&told);
        assert_true(at < IBX_TOLD_MOST);
        world.to_tell[at] = world.taken++;
    }
    ibx_told_unlock(&told);
}

static void give_back(void)
{
    int event[IBX_TOLD_MOST];
    ibx_told_lock(&told);
    const uint32_t n = ibx_told_give_back(&told);
    for (uint32_t i = 0; i < n; ++i) {
        event[i] = world.to_give_back[i];
    }
    ibx_told_unlock(&told);
    for (uint32_t i = 0; i < n; ++i) {
        assert_int_equal(0, atomic_fetch_add(&world.back[event[i]], 1));
    }
}

static void progress(void);

static void callback(int event)
{
    assert_int_equal(0, atomic_fetch_add(&world.told[event], 1));
    const int other = world.waits_for[event];
    unsigned patience = 2000000;
    while (NOBODY != other && 0 == atomic_load(&world.told[other]) && patience > 0) {
        if (world.polls) {
            progress();
            --patience;
        } else {
            sched_yield();
        }
    }
    assert_true(patience > 0);
}

static void progress(void)
{
    if (0 == pthread_mutex_trylock(&world.lock)) {
        take();
        pthread_mutex_unlock(&world.lock);
    }
    const bool tells = ibx_told_begin(&told);
    for (unsigned n = 0; tells && n < IBX_TOLD_MOST; ++n) {
        int event = NOBODY;
        ibx_told_lock(&told);
        const int next = ibx_told_next(&told);
        if (next >= 0) {
            event = world.to_tell[next];
        }
        ibx_told_unlock(&told);
        if (next < 0) {
            break;
        }
        callback(event);
        ibx_told_lock(&told);
        const int at = ibx_told_end(&told);
        if (at >= 0) {
            world.to_give_back[at] = event;
        }
        ibx_told_unlock(&told);
        if (at < 0) {
            pthread_mutex_lock(&world.lock);
            give_back();
            assert_int_equal(0, atomic_fetch_add(&world.back[event], 1));
            pthread_mutex_unlock(&world.lock);
        }
    }
    if (tells) {
        ibx_told_finish(&told);
    }
    pthread_mutex_lock(&world.lock);
    give_back();
    pthread_mutex_unlock(&world.lock);
}

static bool all_told(void)
{
    int n = 0;
    while (n < EVENTS && atomic_load(&world.told[n]) > 0) {
        ++n;
    }
    return EVENTS == n;
}

static void *run(void *unused)
{
    (void) unused;
    while (!all_told()) {
        progress();
    }
    return NULL;
}

static void begin(bool locks)
{
    pthread_mutex_init(&world.lock, NULL);
    world.taken = 0;
    world.polls = true;
    for (int i = 0; i < EVENTS; ++i) {
        atomic_store(&world.told[i], 0);
        atomic_store(&world.back[i], 0);
        world.waits_for[i] = NOBODY;
    }
    ibx_told_init(&told, locks);
}

static void end(void)
{
    give_back();
    for (int i = 0; i < EVENTS; ++i) {
        assert_int_equal(1, atomic_load(&world.told[i]));
        assert_int_equal(1, atomic_load(&world.back[i]));
    }
    assert_int_equal(0, ibx_told_waits(&told));
    assert_int_equal(0, ibx_told_ended(&told));
    assert_int_equal(IBX_TOLD_MOST, ibx_told_room(&told));
    ibx_told_fini(&told);
    pthread_mutex_destroy(&world.lock);
}

static void in_their_order(void **state)
{
    (void) state;
    begin(false);
    for (int i = 0; i < EVENTS; ++i) {
        while (0 == atomic_load(&world.told[i])) {
            progress();
        }
        assert_true(0 == i || 1 == atomic_load(&world.told[i - 1]));
    }
    end();
}

/* The deepest: each waits for the next. */
static void each_waits_for_the_next(void **state)
{
    (void) state;
    begin(false);
    for (int i = 0; i + 1 < EVENTS; ++i) {
        world.waits_for[i] = i + 1;
    }
    (void) run(NULL);
    end();
}

static void some_wait_for_later_ones(void **state)
{
    (void) state;
    srand(7);
    for (int round = 0; round < ROUNDS; ++round) {
        begin(false);
        for (int i = 0; i + 1 < EVENTS; ++i) {
            const int other = i + 1 + rand() % 50;
            world.waits_for[i] = 0 == rand() % 4 && other < EVENTS ? other : NOBODY;
        }
        (void) run(NULL);
        end();
    }
}

/* While one goes on telling, others leave it to that one. */
static void one_tells_while_it_goes_on(void **state)
{
    (void) state;
    begin(false);
    assert_true(ibx_told_begin(&told));
    for (int i = 0; i < 3; ++i) {
        (void) ibx_told_add(&told);
    }
    assert_int_equal(0, ibx_told_next(&told));
    assert_false(ibx_told_begin(&told));
    assert_int_equal(1, ibx_told_next(&told));
    assert_false(ibx_told_begin(&told));
    assert_true(ibx_told_begin(&told)); /* it is where it was */
    assert_int_equal(2, ibx_told_next(&told));
    assert_int_equal(-1, ibx_told_next(&told));
    ibx_told_finish(&told);
    ibx_told_finish(&told);
    assert_true(ibx_told_begin(&told));
    ibx_told_fini(&told);
}

static void run_threads(void)
{
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(0, pthread_create(&thread[i], NULL, run, NULL));
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(thread[i], NULL);
    }
    end();
}

static void threads_tell_each_once(void **state)
{
    (void) state;
    for (int round = 0; round < ROUNDS; ++round) {
        begin(true);
        for (int i = 0; i + 1 < EVENTS; ++i) {
            const int other = i + 1 + rand() % 50;
            world.waits_for[i] = 0 == rand() % 8 && other < EVENTS ? other : NOBODY;
        }
        run_threads();
    }
}

/* A callback waits for one of the next, and does not poll: another thread has to tell it. One less wait than there are threads. */
static void another_thread_tells(void **state)
{
    (void) state;
    for (int round = 0; round < ROUNDS; ++round) {
        begin(true);
        world.polls = false;
        for (int i = 0; i < EVENTS - 60; i += 50) {
            for (int waiter = 0; waiter < THREADS - 1; ++waiter) {
                world.waits_for[i + waiter] = i + 40;
            }
        }
        run_threads();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_their_order),           cmocka_unit_test(each_waits_for_the_next),
        cmocka_unit_test(some_wait_for_later_ones), cmocka_unit_test(threads_tell_each_once),
        cmocka_unit_test(another_thread_tells),
        cmocka_unit_test(one_tells_while_it_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
