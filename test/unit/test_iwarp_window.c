/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The receive window (ibx_window.h) on an engine's receive queue, in virtual time: it grows with what
 * comes, and gives back what it held when nothing comes any more. */
#include "spec_unit.h"

#include "ibx_window.h"
#include "iw_link.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

enum { INITIAL = 8, MOST = 256, SIZE = 64 };
#define QUIET (2 * S)

typedef struct ring {
    link_t link;
    ibx_window_t window;
    uint32_t buffers; /* allocated */
    unsigned alarms;
} ring_t;

static void fill_ring(ring_t *r)
{
    iw_engine_t *e = r->link.engine[1];
    while (iw_receives_free(e) < r->window.current) {
        void *buffer = malloc(SIZE);
        assert_non_null(buffer);
        assert_int_equal(iw_post_receive(e, buffer, SIZE, buffer), IW_OK);
        ++r->buffers;
    }
    iw_arm_limit(e, ibx_window_limit(&r->window));
}

static void give_up(ring_t *r, void *buffer)
{
    free(buffer);
    --r->buffers;
}

static void alarm_rings(void *context, iw_engine_t *e, uint64_t now)
{
    ring_t *r = context;
    void *buffer;
    ++r->alarms;
    uint32_t window = ibx_window_check(&r->window, iw_receives_lowest(e), now);
    while (iw_receives_free(e) > window && iw_withdraw_receive(e, &buffer)) {
        give_up(r, buffer);
    }
    iw_arm_limit(e, ibx_window_limit(&r->window));
    iw_engine_alarm(e, ibx_window_check_at(&r->window));
}

static void take_all(ring_t *r)
{
    iw_completion_t c;
    while (1 == iw_engine_poll(r->link.engine[1], &c, 1)) {
        if (IW_LIMIT_REACHED == c.what) {
            ibx_window_limit_reached(&r->window, r->link.now);
            fill_ring(r);
            (void) iw_receives_lowest(r->link.engine[1]);
            iw_engine_alarm(r->link.engine[1], ibx_window_check_at(&r->window));
        } else if (IW_RECEIVED == c.what) {
            if (iw_receives_free(r->link.engine[1]) >= r->window.current) {
                give_up(r, c.context);
            } else {
                assert_int_equal(iw_post_receive(r->link.engine[1], c.context, SIZE, c.context),
                                 IW_OK);
            }
        }
    }
}

/* Bursts of so many messages, each taken only when all are there. */
static void bursts(ring_t *r, iw_peer_t *to, unsigned many, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        for (unsigned k = 0; k < many; ++k) {
            struct iovec piece = {"x", 1};
            assert_int_equal(iw_post_send(to, &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
        }
        link_run(&r->link, r->link.now + 20 * MS);
        take_all(r);
    }
}

static iw_peer_t *ring_init(ring_t *r)
{
    *r = (ring_t){.buffers = 0};
    link_init(&r->link, 2, NULL, 3);
    iw_config_t c;
    iw_engine_destroy(r->link.engine[1]);
    link_config(1, &c);
    c.alarm = alarm_rings;
    c.context = r;
    r->link.engine[1] = iw_engine_create(&c);
    assert_non_null(r->link.engine[1]);
    ibx_window_init(&r->window, INITIAL, MOST, QUIET, r->link.now);
    fill_ring(r);
    iw_peer_t *to = link_peer(&r->link, 0, 1, NULL);
    assert_non_null(link_peer(&r->link, 1, 0, NULL));
    return to;
}

static void ring_fini(ring_t *r)
{
    void *buffer;
    take_all(r);
    while (iw_withdraw_receive(r->link.engine[1], &buffer)) {
        give_up(r, buffer);
    }
    assert_int_equal(r->buffers, 0); /* each was in one place */
    link_fini(&r->link);
}

static void shrinks_although_nothing_comes(void **state)
{
    (void) state;
    ring_t r;
    iw_peer_t *to = ring_init(&r);
    for (int again = 0; again < 2; ++again) {
        bursts(&r, to, 100, 20);
        const uint32_t grown = r.window.current;
        assert_in_range(grown, 64, MOST);
        assert_int_equal(iw_receives_free(r.link.engine[1]), grown);
        /* The first alarm sees the bursts, and gives back what they did not use. Then one halving in each quiet time, of the
         * buffers too. */
        const uint64_t end = r.link.now;
        assert_true(UINT64_MAX != iw_engine_deadline(r.link.engine[1]));
        link_run(&r.link, iw_engine_deadline(r.link.engine[1]));
        assert_true(r.link.now <= end + QUIET);
        assert_in_range(r.window.current, grown / 2, grown);
        for (uint32_t window = r.window.current; window > INITIAL;) {
            link_run(&r.link, r.link.now + QUIET);
            window = window / 2 > INITIAL ? window / 2 : INITIAL;
            assert_int_equal(r.window.current, window);
            assert_int_equal(iw_receives_free(r.link.engine[1]), window);
            assert_int_equal(r.buffers, window);
        }
        /* Nothing to give back: nobody is woken for it. */
        assert_int_equal(iw_engine_deadline(r.link.engine[1]), UINT64_MAX);
        const unsigned alarms = r.alarms;
        link_run(&r.link, r.link.now + 100 * QUIET);
        assert_int_equal(r.alarms, alarms);
    }
    ring_fini(&r);
}

static void stays_while_it_is_needed(void **state)
{
    (void) state;
    ring_t r;
    iw_peer_t *to = ring_init(&r);
    bursts(&r, to, 100, 20);
    const uint32_t grown = r.window.current, needed = grown / 2 - 1;
    const uint64_t times = r.window.grown;
    for (int i = 0; i < 20; ++i) { /* seldom */
        bursts(&r, to, needed, 1);
        link_run(&r.link, r.link.now + QUIET / 2);
        assert_in_range(r.window.current, needed + 1, grown);
    }
    assert_in_range(r.window.current, needed + 1, needed + needed / 8 + 1);
    assert_int_equal(r.window.grown, times);
    assert_true(r.alarms > 0);
    ring_fini(&r);
}

static void only_what_is_free_is_withdrawn(void **state)
{
    (void) state;
    ring_t r;
    void *buffer;
    iw_peer_t *to = ring_init(&r);
    struct iovec piece = {"x", 1};
    assert_int_equal(iw_post_send(to, &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
    link_run(&r.link, r.link.now + 20 * MS);
    for (int i = 0; i < INITIAL - 1; ++i) {
        assert_true(iw_withdraw_receive(r.link.engine[1], &buffer));
        give_up(&r, buffer);
    }
    assert_false(iw_withdraw_receive(r.link.engine[1], &buffer)); /* a message is in the last one */
    assert_int_equal(iw_receives_lowest(r.link.engine[1]), 0);
    take_all(&r);
    ring_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shrinks_although_nothing_comes),
        cmocka_unit_test(stays_while_it_is_needed),
        cmocka_unit_test(only_what_is_free_is_withdrawn),
    };
    return cmocka_run_group_tests_name("iw_window", tests, NULL, NULL);
}
