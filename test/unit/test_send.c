/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The sender's ledger (core/spec_send.h): which RTR belongs to which send. */
#include "spec_unit.h"

#include "spec_send.h"

#define EAGER  10u
#define LARGE  1000u
#define BUFFER 4000u
#define NO_RTR SPEC_RTR_FATES
/* Of a receive; of a message of Open MPI's own. */
#define ANY_TAG (-1)
#define LIBRARY (-20)

static spec_send_t s;
static spec_ctl_t pool[SPEC_KEPT_MAX + 16];
static uint32_t pool_n;

static void open_at(uint32_t nxt)
{
    s = (spec_send_t){.nxt = nxt};
    assert_int_equal(spec_send_open_ledger(&s), 0);
    memset(pool, 0, sizeof(pool));
    pool_n = 0;
}

/* Close, and tell how many RTRs were left. */
static uint32_t close_ledger(void)
{
    spec_node_t left;
    uint32_t n = 0;
    spec_list_init(&left);
    spec_send_close_ledger(&s, &left);
    assert_null(s.ledger);
    while (NULL != spec_list_pop(&left)) {
        ++n;
    }
    return n;
}

static int setup(void **state)
{
    (void) state;
    open_at(0);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    (void) close_ledger();
    return 0;
}

static spec_ctl_t *rtr_of(int32_t tag, uint32_t e, uint32_t k)
{
    assert_true(pool_n < sizeof(pool) / sizeof(pool[0]));
    spec_ctl_t *rtr = &pool[pool_n++];
    *rtr = (spec_ctl_t){.tag = tag, .e = e, .k = k, .length = BUFFER};
    return rtr;
}

static spec_rtr_fate_t admit(int32_t tag, uint32_t e, uint32_t k)
{
    return spec_send_admit(&s, rtr_of(tag, e, k));
}

/* Admit one that must be kept. */
static spec_ctl_t *keep(int32_t tag, uint32_t e, uint32_t k)
{
    spec_ctl_t *rtr = rtr_of(tag, e, k);
    assert_int_equal(spec_send_admit(&s, rtr), SPEC_RTR_KEPT);
    return rtr;
}

/* A send of `length` bytes must meet this RTR, with this end. */
static void send_length(int32_t tag, uint64_t length, spec_ctl_t *expected, spec_rtr_fate_t end)
{
    spec_ctl_t *rtr = &pool[0];
    spec_rtr_fate_t fate = NO_RTR;
    uint32_t nxt = s.nxt;
    assert_int_equal(spec_send_has_rtr(&s, tag), NULL != expected);
    assert_int_equal(spec_send_issue(&s, tag, length, length > EAGER, &rtr, &fate), nxt);
    assert_int_equal(s.nxt, (uint32_t) (nxt + 1));
    assert_ptr_equal(rtr, expected);
    if (NULL != expected) {
        assert_int_equal(fate, end);
        assert_false(spec_node_is_queued(&expected->item.node));
    }
}

static void send_using(int32_t tag, spec_ctl_t *expected)
{
    send_length(tag, LARGE, expected, SPEC_RTR_USED);
}

static void send_without(int32_t tag)
{
    send_length(tag, LARGE, NULL, NO_RTR);
}

static uint32_t revoke(int32_t tag, uint32_t expected_n)
{
    spec_node_t dropped;
    uint32_t n = 0;
    spec_list_init(&dropped);
    uint32_t answer = spec_send_revoke(&s, tag, &dropped);
    for (spec_node_t *node; NULL != (node = spec_list_pop(&dropped)); ++n) {
        assert_int_equal(SPEC_ENTRY(node, spec_ctl_t, item.node)->tag, tag);
    }
    assert_int_equal(n, expected_n);
    assert_int_equal(answer, s.nxt);
    return answer;
}

static void without_a_ledger_only_numbers_are_given(void **state)
{
    (void) state;
    (void) close_ledger();
    s.nxt = UINT32_MAX - 1;
    for (int i = 0; i < 4; ++i) {
        send_without(1);
    }
    assert_int_equal(s.nxt, 2);
    assert_int_equal(spec_send_kept(&s), 0);
    assert_int_equal(close_ledger(), 0); /* of one that was never opened */
}

static void an_rtr_is_used_by_the_next_send(void **state)
{
    (void) state;
    spec_ctl_t *rtr = keep(7, 0, 0);
    assert_int_equal(spec_send_kept(&s), 1);
    send_using(7, rtr);
    assert_int_equal(spec_send_kept(&s), 0);
    send_without(7);
}

static void k_sends_go_before(void **state)
{
    (void) state;
    for (uint32_t k = 0; k < 20; ++k) {
        spec_ctl_t *rtr = keep(7, s.nxt, k);
        for (uint32_t i = 0; i < k; ++i) {
            send_without(7);
            send_without(8); /* another tag does not count */
        }
        send_using(7, rtr);
        send_without(7);
        pool_n = 0;
    }
}

/* n issued since E, against k: crossing and skip. */
static void n_against_k(void **state)
{
    (void) state;
    for (uint32_t n = 0; n < 12; ++n) {
        for (uint32_t k = 0; k < 12; ++k) {
            uint32_t e = s.nxt;
            pool_n = 0;
            for (uint32_t i = 0; i < n; ++i) {
                send_without(8);
                send_without(7);
            }
            if (n > k) {
                assert_int_equal(admit(7, e, k), SPEC_RTR_CROSSED);
                assert_int_equal(spec_send_kept(&s), 0);
                send_without(7);
                continue;
            }
            spec_ctl_t *rtr = keep(7, e, k);
            for (uint32_t i = n; i < k; ++i) {
                send_without(7);
            }
            send_using(7, rtr);
            send_without(7);
        }
    }
}

static void rtrs_in_any_order(void **state)
{
    (void) state;
    enum { N = 30 };
    for (uint64_t seed = 0; seed < 100; ++seed) {
        rng_t rng = {seed};
        spec_ctl_t *rtr[N];
        uint32_t order[N], e = s.nxt;
        pool_n = 0;
        for (uint32_t i = 0; i < N; ++i) {
            order[i] = i;
        }
        rng_shuffle(&rng, order, N);
        for (uint32_t i = 0; i < N; ++i) {
            rtr[order[i]] = keep(7, e, order[i]);
        }
        for (uint32_t i = 0; i < N; ++i) {
            send_using(7, rtr[i]);
        }
        send_without(7);
    }
}

/* A receive without RTR stands between two with: its message must use none. */
static void gaps_stay_gaps(void **state)
{
    (void) state;
    spec_ctl_t *first = keep(7, 0, 0), *third = keep(7, 0, 2), *sixth = keep(7, 0, 5);
    send_using(7, first);
    send_without(7);
    send_using(7, third);
    send_without(7);
    send_without(7);
    send_using(7, sixth);
    send_without(7);
}

static void tags_are_apart(void **state)
{
    (void) state;
    enum { TAGS = 1000 };
    spec_ctl_t *rtr[TAGS];
    rng_t rng = {5};
    uint32_t order[TAGS];
    for (uint32_t i = 0; i < TAGS; ++i) {
        order[i] = i;
        rtr[i] = keep((int32_t) (i % 2 ? i : -i), 0, 0);
    }
    assert_int_equal(spec_send_kept(&s), TAGS);
    send_without(12345);
    rng_shuffle(&rng, order, TAGS);
    for (uint32_t i = 0; i < TAGS; ++i) {
        uint32_t j = order[i];
        send_using((int32_t) (j % 2 ? j : -j), rtr[j]);
    }
    assert_int_equal(spec_send_kept(&s), 0);
}

static void interleaved_tags(void **state)
{
    (void) state;
    spec_ctl_t *a1 = keep(1, 0, 1), *b0 = keep(2, 0, 0), *b2 = keep(2, 0, 2), *c3 = keep(3, 0, 3);
    send_without(1);
    send_without(3);
    send_using(2, b0);
    spec_ctl_t *a2 = keep(1, s.nxt, 1); /* a1 is pending still: k counts its receive */
    send_without(3);
    send_using(1, a1);
    send_without(2);
    send_without(3);
    send_using(3, c3);
    send_using(1, a2);
    send_using(2, b2);
    assert_int_equal(spec_send_kept(&s), 0);
}

static void an_eager_message_uses_its_rtr_up(void **state)
{
    (void) state;
    spec_ctl_t *a = keep(7, 0, 0), *b = keep(7, 0, 1), *c = keep(7, 0, 2);
    send_length(7, EAGER, a, SPEC_RTR_MISPREDICTED);
    send_using(7, b);
    send_length(7, EAGER, c, SPEC_RTR_MISPREDICTED);
    send_without(7);
}

static void a_message_that_is_too_long_uses_its_rtr_up(void **state)
{
    (void) state;
    spec_ctl_t *a = keep(7, 0, 0), *b = keep(7, 0, 1), *c = keep(7, 0, 2), *d = keep(7, 0, 3);
    send_length(7, BUFFER + 1, a, SPEC_RTR_TOO_SHORT);
    send_length(7, BUFFER, b, SPEC_RTR_USED);
    send_length(7, UINT64_MAX, c, SPEC_RTR_TOO_SHORT);
    send_length(7, UINT64_C(1) << 32 | 1, d, SPEC_RTR_TOO_SHORT);
    send_without(7);
}

static void the_ring_reaches_this_far(void **state)
{
    (void) state;
    /* (messages since E, kept?) with none of the tag among them. */
    static const struct {
        uint32_t age;
        bool is_kept;
    } cases[] = {{0, true},
                 {1, true},
                 {SPEC_RING - 1, true},
                 {SPEC_RING, true},
                 {SPEC_RING + 1, false},
                 {2 * SPEC_RING, false},
                 {2 * SPEC_RING + 1, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        uint32_t e = s.nxt;
        pool_n = 0;
        for (uint32_t j = 0; j < cases[i].age; ++j) {
            send_without(8);
        }
        if (cases[i].is_kept) {
            send_using(7, keep(7, e, 0));
        } else {
            assert_int_equal(admit(7, e, 0), SPEC_RTR_TOO_OLD);
        }
    }
}

/* The oldest entry of the ring counts, the one before it would have been overwritten. */
static void the_oldest_in_the_ring_counts(void **state)
{
    (void) state;
    for (uint32_t rest = SPEC_RING - 2; rest <= SPEC_RING + 1; ++rest) {
        uint32_t e = s.nxt;
        pool_n = 0;
        send_without(7);
        for (uint32_t j = 0; j < rest; ++j) {
            send_without(8);
        }
        assert_int_equal(admit(7, e, 0),
                         rest + 1 <= SPEC_RING ? SPEC_RTR_CROSSED : SPEC_RTR_TOO_OLD);
        assert_int_equal(admit(7, e, 1), rest + 1 <= SPEC_RING ? SPEC_RTR_KEPT : SPEC_RTR_TOO_OLD);
        (void) revoke(7, rest + 1 <= SPEC_RING);
    }
}

static void what_was_sent_before_the_ledger_is_unknown(void **state)
{
    (void) state;
    (void) close_ledger();
    open_at(100);
    assert_int_equal(admit(7, 99, 0), SPEC_RTR_TOO_OLD);
    assert_int_equal(admit(7, 0, 50), SPEC_RTR_TOO_OLD);
    spec_ctl_t *rtr = keep(7, 100, 0);
    send_using(7, rtr);
    assert_int_equal(admit(7, 99, 1), SPEC_RTR_TOO_OLD);
    assert_int_equal(admit(7, 100, 0), SPEC_RTR_CROSSED);
}

static void nonsense_is_refused(void **state)
{
    (void) state;
    for (int i = 0; i < 10; ++i) {
        send_without(7);
    }
    assert_int_equal(admit(7, s.nxt + 1, 0), SPEC_RTR_REFUSED);
    assert_int_equal(admit(7, s.nxt + 1000, 5), SPEC_RTR_REFUSED);
    assert_int_equal(admit(7, s.nxt + INT32_MAX, 0), SPEC_RTR_REFUSED);
    assert_int_equal(spec_send_kept(&s), 0);
    /* Two RTRs for one message. */
    spec_ctl_t *rtr = keep(7, s.nxt, 2), *before = keep(7, s.nxt, 1);
    assert_int_equal(admit(7, s.nxt, 2), SPEC_RTR_REFUSED);
    assert_int_equal(admit(7, s.nxt, 1), SPEC_RTR_REFUSED);
    assert_int_equal(admit(7, s.nxt - 3, 5), SPEC_RTR_REFUSED); /* the same, said otherwise */
    assert_int_equal(spec_send_kept(&s), 2);
    send_without(7);
    assert_int_equal(admit(7, s.nxt, 0), SPEC_RTR_REFUSED);
    send_using(7, before);
    send_using(7, rtr);
    send_without(7);
}

/* A k that no receiver can mean must not stand in the way of others. */
static void a_forged_k_does_no_harm(void **state)
{
    (void) state;
    static const uint32_t forged[] = {UINT32_MAX, UINT32_MAX - 5, UINT32_C(0x80000000),
                                      UINT32_C(0x80000001), UINT32_C(0x7fffffff)};
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); ++i) {
        (void) close_ledger();
        open_at(0);
        (void) admit(7, 0, forged[i]);
        spec_ctl_t *good = keep(7, 0, 0), *next = keep(7, 0, 1);
        (void) admit(7, 0, forged[i] - 1);
        send_using(7, good);
        send_using(7, next);
        send_without(7);
        (void) admit(7, s.nxt, forged[i]);
        good = keep(7, s.nxt, 1);
        send_without(7);
        send_using(7, good);
    }
}

static void no_more_than_the_limit_is_kept(void **state)
{
    (void) state;
    for (uint32_t k = 0; k < SPEC_KEPT_MAX; ++k) {
        (void) keep(7, 0, k);
    }
    assert_int_equal(admit(7, 0, SPEC_KEPT_MAX), SPEC_RTR_FULL);
    assert_int_equal(admit(8, 0, 0), SPEC_RTR_FULL);
    send_without(8); /* the refused one left nothing behind */
    send_using(7, &pool[0]);
    assert_int_equal(admit(7, s.nxt, SPEC_KEPT_MAX - 1), SPEC_RTR_KEPT);
    assert_int_equal(admit(7, s.nxt, SPEC_KEPT_MAX), SPEC_RTR_FULL);
    (void) revoke(7, SPEC_KEPT_MAX);
    assert_int_equal(spec_send_kept(&s), 0);
    pool_n = 0;
    send_using(8, keep(8, s.nxt, 0));
}

static void revoke_takes_this_tag_only(void **state)
{
    (void) state;
    (void) keep(1, 0, 0);
    (void) keep(1, 0, 3);
    spec_ctl_t *b = keep(2, 0, 1);
    assert_int_equal(revoke(3, 0), 0);
    assert_int_equal(revoke(1, 2), 0);
    assert_int_equal(spec_send_kept(&s), 1);
    send_without(1);
    assert_int_equal(revoke(1, 0), 1);
    send_without(2);
    send_using(2, b);
    assert_int_equal(revoke(2, 0), 3);
    assert_int_equal(spec_send_kept(&s), 0);
    /* And the tag can be offered again. */
    spec_ctl_t *again = keep(1, s.nxt, 1);
    send_without(1);
    send_using(1, again);
}

static void sequence_numbers_wrap(void **state)
{
    (void) state;
    for (uint32_t back = 0; back <= 2 * SPEC_RING + 2; ++back) {
        (void) close_ledger();
        open_at(0u - back);
        uint32_t e = s.nxt;
        assert_int_equal(admit(7, e - 1, 0), SPEC_RTR_TOO_OLD);
        assert_int_equal(admit(7, e + 1, 0), SPEC_RTR_REFUSED);
        for (uint32_t i = 0; i < SPEC_RING; ++i) {
            send_without(i % 2 ? 7 : 8);
        }
        assert_int_equal(admit(7, e, SPEC_RING / 2 - 1), SPEC_RTR_CROSSED);
        spec_ctl_t *third = keep(7, e, SPEC_RING / 2 + 2), *first = keep(7, e, SPEC_RING / 2);
        send_using(7, first);
        assert_int_equal(admit(7, e, SPEC_RING), SPEC_RTR_TOO_OLD);
        send_without(7);
        send_using(7, third);
        for (uint32_t i = 0; i < SPEC_RING; ++i) {
            spec_ctl_t *next = keep(7, s.nxt, 1);
            send_without(7);
            send_using(7, next);
            pool_n = 0;
        }
        assert_int_equal(revoke(7, 0), s.nxt);
    }
}

/* A ledger that is older than half of the circle of numbers is as good as a new one. */
static void a_ledger_lives_long(void **state)
{
    (void) state;
    const uint32_t gone[] = {UINT32_C(0x7fffff00), UINT32_C(0x80000000), UINT32_C(0xc0000000),
                             UINT32_C(0xffffff00)};
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); ++i) {
        (void) close_ledger();
        open_at(5);
        /* The messages in between cost too much time; the latest of them fill the ring. */
        s.nxt += gone[i];
        for (uint32_t j = 0; j < 2 * SPEC_RING; ++j) {
            send_without(8);
        }
        uint32_t e = s.nxt;
        spec_ctl_t *rtr = keep(7, e, 0);
        send_using(7, rtr);
        assert_int_equal(admit(7, e, 0), SPEC_RTR_CROSSED);
        assert_int_equal(admit(7, s.nxt - SPEC_RING - 1, 0), SPEC_RTR_TOO_OLD);
        rtr = keep(7, s.nxt - SPEC_RING, 1);
        send_using(7, rtr);
    }
}

static void closing_gives_everything_back(void **state)
{
    (void) state;
    spec_stream_t *ctl = spec_send_ctl(&s);
    (void) keep(1, 0, 0);
    (void) keep(1, 0, 1);
    (void) keep(2, 0, 0);
    spec_ctl_t *early = rtr_of(3, 0, 0);
    early->item.no = 5;
    assert_true(spec_stream_keep(ctl, &early->item));
    assert_int_equal(close_ledger(), 4);
    assert_int_equal(spec_send_kept(&s), 0);
}

/* Everything at random, against a list of all messages that is counted through. */
static void against_counting(void **state)
{
    (void) state;
    enum { STEPS = 1500, TAGS = 3, OUT = 60 };
    for (uint64_t seed = 0; seed < 60; ++seed) {
        rng_t rng = {seed};
        int32_t tags[STEPS];
        uint32_t first = rng_percent(&rng, 50) ? 0u - rng_below(&rng, STEPS) : 0, sent = 0;
        struct {
            spec_ctl_t ctl;
            bool is_kept;
            uint32_t at, k; /* E and k, E counted from 0 */
        } out[OUT];
        (void) close_ledger();
        open_at(first);
        memset(out, 0, sizeof(out));
        for (uint32_t step = 0; step < STEPS; ++step) {
            int32_t tag = (int32_t) rng_below(&rng, TAGS);
            uint32_t i = rng_below(&rng, OUT);
            if (rng_percent(&rng, 45) && !out[i].is_kept) {
                uint32_t back = rng_percent(&rng, 5) ? SPEC_RING + 4 : 12;
                uint32_t k = rng_below(&rng, 8), n = 0;
                bool twice = false;
                out[i].at = sent - rng_below(&rng, sent < back ? sent + 1 : back);
                for (uint32_t j = out[i].at; j < sent; ++j) {
                    n += tags[j] == tag;
                }
                for (uint32_t j = 0; j < OUT; ++j) {
                    uint32_t m = 0;
                    for (uint32_t x = out[j].at; x < sent && out[j].is_kept; ++x) {
                        m += tags[x] == tag;
                    }
                    twice |= out[j].is_kept && out[j].ctl.tag == tag && out[j].k - m == k - n;
                }
                out[i].k = k;
                out[i].ctl =
                    (spec_ctl_t){.tag = tag, .e = first + out[i].at, .k = k, .length = BUFFER};
                spec_rtr_fate_t expected = sent - out[i].at > SPEC_RING ? SPEC_RTR_TOO_OLD
                                           : n > k                      ? SPEC_RTR_CROSSED
                                           : twice                      ? SPEC_RTR_REFUSED
                                                                        : SPEC_RTR_KEPT;
                assert_int_equal(spec_send_admit(&s, &out[i].ctl), expected);
                out[i].is_kept = SPEC_RTR_KEPT == expected;
            } else if (rng_percent(&rng, 3)) {
                uint32_t n = 0;
                for (uint32_t j = 0; j < OUT; ++j) {
                    if (out[j].is_kept && out[j].ctl.tag == tag) {
                        out[j].is_kept = false;
                        ++n;
                    }
                }
                (void) revoke(tag, n);
            } else {
                spec_ctl_t *expected = NULL;
                for (uint32_t j = 0; j < OUT; ++j) {
                    uint32_t n = 0;
                    if (!out[j].is_kept || out[j].ctl.tag != tag) {
                        continue;
                    }
                    for (uint32_t x = out[j].at; x < sent; ++x) {
                        n += tags[x] == tag;
                    }
                    if (n == out[j].k) {
                        assert_null(expected);
                        expected = &out[j].ctl;
                        out[j].is_kept = false;
                    }
                }
                bool is_eager = rng_percent(&rng, 30);
                send_length(tag, is_eager ? EAGER : LARGE, expected,
                            is_eager ? SPEC_RTR_MISPREDICTED : SPEC_RTR_USED);
                tags[sent++] = tag;
            }
            uint32_t kept = 0;
            for (uint32_t j = 0; j < OUT; ++j) {
                kept += out[j].is_kept;
            }
            assert_int_equal(spec_send_kept(&s), kept);
        }
        (void) close_ledger();
    }
}

/* ---- receives for any tag ---- */

static void any_tag_names_the_next_whatever_its_tag(void **state)
{
    (void) state;
    spec_ctl_t *first = keep(ANY_TAG, 0, 0), *third = keep(ANY_TAG, 0, 2);
    assert_true(spec_send_has_rtr(&s, 5));
    send_using(5, first);
    send_without(8);
    send_using(9, third);
    send_without(5);
    assert_int_equal(admit(ANY_TAG, 2, 1), SPEC_RTR_CROSSED); /* messages 2 and 3 */
    keep(ANY_TAG, 2, 2);
    assert_int_equal(revoke(5, 0), 4);
    assert_int_equal(revoke(ANY_TAG, 1), 4);
    send_without(5);
}

/* The library's own messages neither use it nor count, and have RTRs of their own. */
static void any_tag_is_for_no_tag_of_the_library(void **state)
{
    (void) state;
    send_without(LIBRARY);
    send_without(3);
    spec_ctl_t *any = keep(ANY_TAG, 0, 2), *own = keep(LIBRARY, 1, 1);
    send_without(LIBRARY);
    send_using(LIBRARY, own);
    send_without(3);
    own = keep(LIBRARY, s.nxt, 0);
    send_using(LIBRARY, own);
    send_using(7, any);
    keep(LIBRARY, s.nxt, 0);
    send_using(7, keep(7, s.nxt, 0));
    assert_int_equal(spec_send_kept(&s), 1);
}

/* No receiver has both: the one for any tag would have to be the first, and would forbid the others. */
static void any_tag_and_one_tag_contradict_each_other(void **state)
{
    (void) state;
    spec_ctl_t *one = keep(3, 0, 0);
    assert_int_equal(admit(ANY_TAG, 0, 0), SPEC_RTR_REFUSED);
    send_using(3, one);
    spec_ctl_t *any = keep(ANY_TAG, 1, 0);
    assert_int_equal(admit(3, 1, 0), SPEC_RTR_REFUSED);
    send_using(4, any);
    send_using(3, keep(3, 2, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_ledger_only_numbers_are_given, setup, teardown),
        cmocka_unit_test_setup_teardown(an_rtr_is_used_by_the_next_send, setup, teardown),
        cmocka_unit_test_setup_teardown(k_sends_go_before, setup, teardown),
        cmocka_unit_test_setup_teardown(n_against_k, setup, teardown),
        cmocka_unit_test_setup_teardown(rtrs_in_any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(gaps_stay_gaps, setup, teardown),
        cmocka_unit_test_setup_teardown(tags_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(interleaved_tags, setup, teardown),
        cmocka_unit_test_setup_teardown(an_eager_message_uses_its_rtr_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_message_that_is_too_long_uses_its_rtr_up, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_ring_reaches_this_far, setup, teardown),
        cmocka_unit_test_setup_teardown(the_oldest_in_the_ring_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_sent_before_the_ledger_is_unknown, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_forged_k_does_no_harm, setup, teardown),
        cmocka_unit_test_setup_teardown(no_more_than_the_limit_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(revoke_takes_this_tag_only, setup, teardown),
        cmocka_unit_test_setup_teardown(sequence_numbers_wrap, setup, teardown),
        cmocka_unit_test_setup_teardown(a_ledger_lives_long, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_gives_everything_back, setup, teardown),
        cmocka_unit_test_setup_teardown(against_counting, setup, teardown),
        cmocka_unit_test_setup_teardown(any_tag_names_the_next_whatever_its_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(any_tag_is_for_no_tag_of_the_library, setup, teardown),
        cmocka_unit_test_setup_teardown(any_tag_and_one_tag_contradict_each_other, setup, teardown),
    };
    return cmocka_run_group_tests_name("spec_send", tests, NULL, NULL);
}
