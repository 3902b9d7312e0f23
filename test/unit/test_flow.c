/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Flow control for unexpected messages (core/spec_flow.h). */
#include "spec_unit.h"

#include "spec_flow.h"

enum { SIZE = 100, LIMIT = 10000 };

static spec_store_t store;
static spec_flow_in_t a, b;

static int setup(void **state)
{
    (void) state;
    store = (spec_store_t){.limit = LIMIT};
    a = b = (spec_flow_in_t){0};
    return 0;
}

/* n messages come; how many times is there something to tell? */
static uint32_t add(spec_flow_in_t *in, uint32_t *nxt, uint32_t n)
{
    uint32_t news = 0;
    for (uint32_t i = 0; i < n; ++i) {
        news += spec_flow_added(&store, in, ++*nxt, SIZE);
    }
    return news;
}

static uint32_t take(spec_flow_in_t *in, uint32_t nxt, uint32_t n)
{
    uint32_t news = 0;
    for (uint32_t i = 0; i < n; ++i) {
        news += spec_flow_taken(&store, in, nxt, SIZE);
    }
    return news;
}

static void below_the_limit_nobody_is_held(void **state)
{
    (void) state;
    uint32_t nxt = 0;
    assert_int_equal(add(&a, &nxt, LIMIT / SIZE), 0);
    assert_int_equal(store.bytes, LIMIT);
    assert_int_equal(store.senders, 1);
    assert_int_equal(take(&a, nxt, LIMIT / SIZE), 0);
    assert_int_equal(store.bytes, 0);
    assert_int_equal(store.senders, 0);
    assert_int_equal(store.most, LIMIT);
}

static void beyond_the_limit_once_until_half_is_free(void **state)
{
    (void) state;
    uint32_t nxt = UINT32_MAX - 50; /* through the wrap */
    assert_int_equal(add(&a, &nxt, 101), 1);
    assert_true(a.is_held);
    assert_int_equal(a.until, nxt + SPEC_FLOW_AHEAD);
    assert_int_equal(add(&a, &nxt, 10), 0);
    assert_true(take(&a, nxt, 60) > 0); /* 51 left: `until` moves on */
    assert_true(a.is_held);
    assert_int_equal(take(&a, nxt, 1), 1); /* half is free */
    assert_false(a.is_held);
}

static void no_limit_no_hold(void **state)
{
    (void) state;
    uint32_t nxt = 0;
    store.limit = 0;
    assert_int_equal(add(&a, &nxt, 100000), 0);
}

static void who_sends_little_is_left_alone(void **state)
{
    (void) state;
    uint32_t na = 0, nb = 0;
    assert_int_equal(add(&a, &na, 120), 1);
    assert_int_equal(add(&b, &nb, 12), 0); /* its share is an eighth of the limit: 12.5 messages */
    assert_int_equal(add(&b, &nb, 1), 1);
    /* ... and is released with little, though the other one fills the store */
    assert_int_equal(take(&b, nb, 6), 0);
    assert_int_equal(take(&b, nb, 1), 1);
    assert_false(b.is_held);
    assert_true(a.is_held);
}

static void each_that_is_taken_lets_another_one_come(void **state)
{
    (void) state;
    uint32_t nxt = 0;
    store.limit = 1000000;
    store.bytes = 10000000; /* others' */
    store.senders = 1;
    assert_int_equal(add(&a, &nxt, 5000), 1);
    a.until = a.may = nxt + SPEC_FLOW_AHEAD;
    const uint32_t until = a.until;
    assert_int_equal(take(&a, nxt, SPEC_FLOW_AHEAD / 2 - 1), 0); /* not one by one */
    assert_int_equal(take(&a, nxt, 1), 1);
    assert_int_equal(a.until, until + SPEC_FLOW_AHEAD / 2);
}

static void what_was_under_way_comes_off_first(void **state)
{
    (void) state;
    uint32_t nxt = 0;
    store.limit = 1000000;
    store.bytes = 10000000;
    store.senders = 1;
    add(&a, &nxt, 3000);
    assert_true(a.is_held);
    const uint32_t over = nxt - a.until;
    assert_true(over > 100);
    assert_int_equal(take(&a, nxt, over), 0); /* telling would change nothing */
    assert_int_equal(take(&a, nxt, 1), 1);
    assert_int_equal(a.until, nxt + 1);
}

static void a_receive_that_waits_gets_more(void **state)
{
    (void) state;
    uint32_t nxt = 0;
    assert_false(spec_flow_wanted(&a, nxt)); /* not held */
    add(&a, &nxt, 101);
    assert_false(spec_flow_wanted(&a, nxt)); /* more may come */
    uint32_t step = SPEC_FLOW_AHEAD;
    for (int i = 0; i < 20; ++i) {
        nxt = a.until;
        assert_true(spec_flow_wanted(&a, nxt));
        assert_true(a.until - nxt >= step);
        assert_true(a.until - nxt <= SPEC_FLOW_AHEAD_MAX);
        step = a.until - nxt;
        assert_false(spec_flow_wanted(&a, nxt));
    }
    assert_int_equal(step, SPEC_FLOW_AHEAD_MAX);
}

static void the_latest_counts_in_any_order(void **state)
{
    (void) state;
    spec_flow_out_t out = {0};
    uint32_t nxt = 0;
    assert_true(spec_flow_lets(&out, 4711));
    add(&a, &nxt, 101);
    const spec_flow_out_t first = spec_flow_tell(&a);
    take(&a, nxt, 101);
    const spec_flow_out_t second = spec_flow_tell(&a);
    assert_true(first.is_held && !second.is_held);
    assert_true(spec_flow_heed(&out, &second));
    assert_false(spec_flow_heed(&out, &first));
    assert_false(spec_flow_heed(&out, &second));
    assert_true(spec_flow_lets(&out, nxt + 1000));
    out = (spec_flow_out_t){0};
    assert_true(spec_flow_heed(&out, &first));
    assert_true(spec_flow_lets(&out, first.until - 1));
    assert_false(spec_flow_lets(&out, first.until));
    assert_true(spec_flow_heed(&out, &second));
}

static void a_look_now_and_then(void **state)
{
    (void) state;
    uint32_t small = 0, large = 0;
    for (uint32_t seq = 0; seq < 4096; ++seq) {
        small += spec_flow_look(seq, SPEC_FLOW_SMALL);
        large += spec_flow_look(seq, SPEC_FLOW_SMALL + 1);
    }
    assert_int_equal(small, 4096 / SPEC_FLOW_LOOK);
    assert_int_equal(large, 4096 / SPEC_FLOW_LOOK_LONG);
    assert_false(spec_flow_look(0, 0)); /* a first message pays nothing */
}

/* ---- a sender, a receiver, and channels in any order between them ---- */

enum { TAGS = 3, FLOOD = 400, CHANNEL = 2000 };

typedef struct pair {
    rng_t rng;
    spec_store_t store;
    spec_flow_in_t in;
    spec_flow_out_t out;
    uint32_t sent, wanted; /* messages issued; that the program wants to send */
    uint8_t tag[FLOOD];
    uint32_t nxt;                /* processed by the receiver; messages come in their order */
    uint32_t unexpected[TAGS];   /* waiting at the receiver */
    uint32_t left[TAGS];         /* receives that the program has still to post */
    int posted;                  /* the tag of the receive that waits, or -1 */
    spec_flow_out_t hold[CHANNEL];
    uint32_t holds;
} pair_t;

static void tells(pair_t *p)
{
    assert_true(p->holds < CHANNEL);
    p->hold[p->holds++] = spec_flow_tell(&p->in);
}

static void arrives(pair_t *p)
{
    const int tag = p->tag[p->nxt++];
    if (tag == p->posted) {
        p->posted = -1;
        if (p->in.is_held && spec_flow_taken(&p->store, &p->in, p->nxt, 0)) {
            tells(p);
        }
    } else {
        ++p->unexpected[tag];
        if (spec_flow_added(&p->store, &p->in, p->nxt, SIZE)) {
            tells(p);
        }
    }
    if (p->posted >= 0 && spec_flow_wanted(&p->in, p->nxt)) {
        tells(p);
    }
}

static void posts(pair_t *p)
{
    int tag = (int) rng_below(&p->rng, TAGS);
    while (0 == p->left[tag]) {
        tag = (tag + 1) % TAGS;
    }
    --p->left[tag];
    if (p->unexpected[tag] > 0) {
        --p->unexpected[tag];
        if (spec_flow_taken(&p->store, &p->in, p->nxt, SIZE)) {
            tells(p);
        }
        return;
    }
    p->posted = tag;
    if (spec_flow_wanted(&p->in, p->nxt)) {
        tells(p);
    }
}

static void every_receive_gets_its_message(void **state)
{
    (void) state;
    const char *seed = getenv("SPEC_SEED");
    uint32_t held = 0;
    for (uint32_t round = 0; round < 2000; ++round) {
        pair_t p = {.rng = {.state = (NULL == seed ? 1 : strtoull(seed, NULL, 0)) * 100000 + round},
                    .store = {.limit = (1 + round % 40) * SIZE},
                    .wanted = FLOOD,
                    .posted = -1};
        for (uint32_t i = 0; i < FLOOD; ++i) {
            p.tag[i] = (uint8_t) (rng_percent(&p.rng, 80) ? 0 : rng_below(&p.rng, TAGS));
            ++p.left[p.tag[i]];
        }
        uint32_t received = 0, idle = 0;
        while (received < FLOOD) {
            bool moved = false;
            /* Everything that can happen, happens at some time; and if nothing can, it is a deadlock. */
            if (p.sent < p.wanted && spec_flow_lets(&p.out, p.sent) && rng_percent(&p.rng, 70)) {
                ++p.sent;
                moved = true;
            }
            if (p.nxt < p.sent && rng_percent(&p.rng, 50)) {
                arrives(&p);
                moved = true;
            }
            if (p.holds > 0 && rng_percent(&p.rng, 30)) {
                const uint32_t i = rng_below(&p.rng, p.holds);
                spec_flow_heed(&p.out, &p.hold[i]);
                if (rng_percent(&p.rng, 90)) { /* sometimes it comes twice */
                    p.hold[i] = p.hold[--p.holds];
                }
                moved = true;
            }
            if (p.posted < 0 && rng_percent(&p.rng, 10)) {
                posts(&p);
                moved = true;
            }
            received = 0;
            for (int t = 0; t < TAGS; ++t) {
                received += p.left[t];
            }
            received = FLOOD - received - (p.posted >= 0);
            held += p.in.is_held;
            idle = moved ? 0 : idle + 1;
            if (idle > 1000) {
                fail_msg("round %u: nothing moves after %u messages", round, received);
            }
        }
        assert_int_equal(p.store.bytes, 0);
        assert_int_equal(p.store.senders, 0);
        assert_false(p.in.is_held);
    }
    assert_true(held > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(below_the_limit_nobody_is_held, setup),
        cmocka_unit_test_setup(beyond_the_limit_once_until_half_is_free, setup),
        cmocka_unit_test_setup(no_limit_no_hold, setup),
        cmocka_unit_test_setup(who_sends_little_is_left_alone, setup),
        cmocka_unit_test_setup(each_that_is_taken_lets_another_one_come, setup),
        cmocka_unit_test_setup(what_was_under_way_comes_off_first, setup),
        cmocka_unit_test_setup(a_receive_that_waits_gets_more, setup),
        cmocka_unit_test_setup(the_latest_counts_in_any_order, setup),
        cmocka_unit_test_setup(a_look_now_and_then, setup),
        cmocka_unit_test(every_receive_gets_its_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
