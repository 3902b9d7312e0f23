/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The receiver's side (core/spec_recv.h): when to speculate, and how to take it back. */
#include "spec_unit.h"

#include "spec_recv.h"

#define ANY SPEC_ANY
#define ME  1 /* the sender that most tests are about */
#define T   7

static spec_match_t m;
static spec_recv_t r;
static spec_offer_t offer;
static spec_node_t cancelled;

static int setup(void **state)
{
    (void) state;
    spec_recv_init(&r);
    spec_list_init(&cancelled);
    offer = (spec_offer_t){0};
    return spec_match_init(&m);
}

static int teardown(void **state)
{
    (void) state;
    spec_match_fini(&m);
    return 0;
}

static void post(spec_posted_t *p, int32_t src, int32_t tag)
{
    p->src = src;
    p->tag = tag;
    assert_int_equal(spec_match_post(&m, p), 0);
}

/* Post a receive that must speculate with this k. */
static void offers(spec_posted_t *p, int32_t src, int32_t tag, uint32_t k)
{
    uint32_t no = r.ctl_no;
    post(p, src, tag);
    assert_true(spec_recv_speculate(&r, &m, p, &offer));
    assert_true(p->has_rtr);
    assert_int_equal(offer.no, no);
    assert_int_equal(r.ctl_no, (uint32_t) (no + 1));
    assert_int_equal(offer.e, r.msgs.nxt);
    assert_int_equal(offer.k, k);
}

/* Post a receive that must not. */
static void stays_silent(spec_posted_t *p, int32_t src, int32_t tag)
{
    uint32_t no = r.ctl_no;
    post(p, src, tag);
    assert_false(spec_recv_speculate(&r, &m, p, &offer));
    assert_false(p->has_rtr);
    assert_int_equal(r.ctl_no, no);
}

/* The next message is processed: it must go to this receive. */
static void message_to(spec_posted_t *expected, int32_t src, int32_t tag)
{
    ++r.msgs.nxt;
    spec_posted_t *p = spec_match_find_posted(&m, src, tag);
    assert_ptr_equal(p, expected);
    if (NULL != p) {
        spec_match_remove_posted(&m, p);
    }
}

/* A message that is none of ours goes by. */
static void message_passes(void)
{
    ++r.msgs.nxt;
}

static void asks(spec_posted_t *p, spec_revoke_t *revoke)
{
    uint32_t no = r.ctl_no;
    spec_bin_t *bin = p->bin;
    assert_int_equal(spec_recv_cancel(&r, &m, p, revoke), SPEC_CANCEL_ASK);
    assert_int_equal(revoke->no, no);
    assert_int_equal(r.ctl_no, (uint32_t) (no + 1));
    assert_ptr_equal(p->bin, bin); /* the sender may be writing: it stays where it is */
    assert_int_equal(bin->revoking, 1);
}

static void not_done(void)
{
    assert_null(spec_recv_revoke_done(&r, &m, &cancelled));
    assert_true(spec_list_is_empty(&cancelled));
}

static void done(spec_revoke_t *revoke)
{
    spec_bin_t *bin = revoke->bin;
    assert_ptr_equal(spec_recv_revoke_done(&r, &m, &cancelled), revoke);
    assert_int_equal(bin->revoking, 0);
    assert_int_equal(bin->rtr_n, 0);
}

static void next_cancelled(spec_posted_t *expected)
{
    spec_node_t *n = spec_list_pop(&cancelled);
    if (NULL == expected) {
        assert_null(n);
        return;
    }
    assert_ptr_equal(n, &expected->node);
    assert_null(expected->bin);
}

/* ---- speculating ---- */

static void k_counts_earlier_pending_receives(void **state)
{
    (void) state;
    spec_posted_t p[6] = {{.order = 0}}, other = {0};
    offers(&p[0], ME, T, 0);
    offers(&p[1], ME, T, 1);
    offers(&other, ME, T + 1, 0);
    post(&p[2], ME, T); /* a small one that does not speculate counts */
    offers(&p[3], ME, T, 3);
    message_to(&p[0], ME, T);
    message_to(&p[1], ME, T);
    offers(&p[4], ME, T, 2);
    message_to(&other, ME, T + 1);
    message_to(&p[2], ME, T);
    message_to(&p[3], ME, T);
    message_to(&p[4], ME, T);
    offers(&p[5], ME, T, 0);
    assert_int_equal(offer.e, 6);
}

static void sources_are_apart(void **state)
{
    (void) state;
    spec_posted_t a = {0}, b = {0}, c = {0};
    spec_recv_t r2;
    spec_recv_init(&r2);
    r2.msgs.nxt = 55;
    offers(&a, ME, T, 0);
    post(&b, 2, T);
    assert_true(spec_recv_speculate(&r2, &m, &b, &offer));
    assert_int_equal(offer.no, 0);
    assert_int_equal(offer.e, 55);
    assert_int_equal(offer.k, 0);
    offers(&c, ME, T, 1);
}

static const struct {
    int32_t wild_src, wild_tag, src, tag;
    bool forbids;
} wildcards[] = {
    {ME, ANY, ME, T, true},    {ANY, T, ME, T, true},      {ANY, ANY, ME, T, true},
    {ME, ANY, ME, 0, true},    {ME, ANY, 2, T, false},     {ANY, T, ME, T + 1, false},
    {2, ANY, ME, T, false},    {ANY, T + 1, ME, T, false}, {ANY, ANY, ME, -20, false},
    {ME, ANY, ME, -20, false}, {ANY, -20, ME, -20, true},  {ANY, -21, ME, -20, false},
};

static void an_earlier_wildcard_forbids(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof(wildcards) / sizeof(wildcards[0]); ++i) {
        spec_posted_t wild = {0}, p = {0}, later = {0};
        post(&wild, wildcards[i].wild_src, wildcards[i].wild_tag);
        if (wildcards[i].forbids) {
            stays_silent(&p, wildcards[i].src, wildcards[i].tag);
        } else {
            offers(&p, wildcards[i].src, wildcards[i].tag, 0);
        }
        spec_match_remove_posted(&m, &wild);
        offers(&later, wildcards[i].src, wildcards[i].tag, 1); /* p is counted either way */
        spec_match_remove_posted(&m, &later);
        spec_match_remove_posted(&m, &p);
    }
}

static void a_later_wildcard_does_not(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof(wildcards) / sizeof(wildcards[0]); ++i) {
        spec_posted_t wild = {0}, p = {0};
        offers(&p, wildcards[i].src, wildcards[i].tag, 0);
        post(&wild, wildcards[i].wild_src, wildcards[i].wild_tag);
        message_to(&p, wildcards[i].src, wildcards[i].tag);
        spec_match_remove_posted(&m, &wild);
    }
}

/* ---- taking back ---- */

static void without_an_rtr_it_is_done_at_once(void **state)
{
    (void) state;
    spec_posted_t a = {0}, b = {0}, c = {0}, wild = {0}, other = {0};
    spec_revoke_t fresh;
    post(&a, ME, T);
    post(&b, ME, T);
    post(&c, ME, T);
    post(&wild, ANY, ANY);
    spec_match_remove_posted(&m, &wild);
    offers(&other, ME, T + 1, 0); /* another tag's RTR is of no concern */
    assert_int_equal(spec_recv_cancel(&r, &m, &b, &fresh), SPEC_CANCEL_DONE);
    assert_null(b.bin);
    assert_int_equal(spec_recv_cancel(&r, &m, &b, &fresh), SPEC_CANCEL_TOO_LATE);
    message_to(&a, ME, T);
    message_to(&c, ME, T);
    assert_int_equal(spec_recv_cancel(&r, &m, &a, &fresh), SPEC_CANCEL_TOO_LATE);
    assert_true(spec_list_is_empty(&r.revokes));
}

static void wildcards_are_done_at_once(void **state)
{
    (void) state;
    const int32_t src[] = {ANY, ANY, ME}, tag[] = {ANY, T, ANY};
    spec_posted_t rtr = {0};
    offers(&rtr, ME, T, 0);
    for (int i = 0; i < 3; ++i) {
        spec_posted_t p = {0};
        spec_revoke_t fresh;
        post(&p, src[i], tag[i]);
        assert_int_equal(spec_recv_cancel(ANY == src[i] ? NULL : &r, &m, &p, &fresh),
                         SPEC_CANCEL_DONE);
        assert_null(p.bin);
    }
    assert_int_equal(m.wild_n, 0);
}

static void an_rtr_that_was_matched_is_no_obstacle(void **state)
{
    (void) state;
    spec_posted_t a = {0}, b = {0};
    spec_revoke_t fresh;
    offers(&a, ME, T, 0);
    post(&b, ME, T);
    message_to(&a, ME, T);
    assert_int_equal(spec_recv_cancel(&r, &m, &b, &fresh), SPEC_CANCEL_DONE);
}

/* Any of n receives is cancelled, all with RTR or only some. */
static void any_position(void **state)
{
    (void) state;
    enum { N = 5 };
    for (unsigned with_rtr = 1; with_rtr < 1u << N; ++with_rtr) {
        for (unsigned victim = 0; victim < N; ++victim) {
            spec_posted_t p[N] = {{.order = 0}}, later = {0};
            spec_revoke_t revoke;
            for (unsigned i = 0; i < N; ++i) {
                if (with_rtr >> i & 1) {
                    offers(&p[i], ME, T, i);
                } else {
                    post(&p[i], ME, T);
                }
            }
            if (0 == with_rtr >> victim) { /* no offer of those behind counts it */
                assert_int_equal(spec_recv_cancel(&r, &m, &p[victim], &revoke),
                                 SPEC_CANCEL_DONE_ASK);
                assert_null(p[victim].bin);
                assert_true(spec_recv_revoked(&r, revoke.no, T, r.msgs.nxt));
                done(&revoke);
            } else {
                asks(&p[victim], &revoke);
                not_done();
                assert_true(spec_recv_revoked(&r, revoke.no, T, r.msgs.nxt));
                done(&revoke);
                next_cancelled(&p[victim]);
            }
            next_cancelled(NULL);
            not_done();
            offers(&later, ME, T, N - 1);
            for (unsigned i = 0; i < N; ++i) {
                if (i != victim) {
                    assert_false(p[i].has_rtr);
                    message_to(&p[i], ME, T);
                }
            }
            message_to(&later, ME, T);
            assert_int_equal(m.posted_n, 0);
        }
    }
}

static void meanwhile_the_bin_is_on_hold(void **state)
{
    (void) state;
    spec_posted_t a = {0}, b = {0}, c = {0}, d = {0}, other = {0}, stranger = {0};
    spec_revoke_t revoke;
    spec_recv_t r2;
    spec_recv_init(&r2);
    offers(&a, ME, T, 0);
    asks(&a, &revoke);
    stays_silent(&b, ME, T);
    offers(&other, ME, T + 1, 0);
    post(&stranger, 2, T);
    assert_true(spec_recv_speculate(&r2, &m, &stranger, &offer));
    assert_true(spec_recv_revoked(&r, revoke.no, T, 2));
    stays_silent(&c, ME, T);
    message_passes();
    not_done();
    message_passes();
    done(&revoke);
    next_cancelled(&a);
    next_cancelled(NULL);
    offers(&d, ME, T, 2);          /* behind b and c */
    assert_int_equal(offer.no, 3); /* RTR, REVOKE, RTR for another tag */
    message_to(&b, ME, T);
    message_to(&c, ME, T);
    message_to(&d, ME, T);
}

static void messages_before_s_are_awaited(void **state)
{
    (void) state;
    const uint32_t firsts[] = {0, 17, UINT32_MAX, UINT32_MAX - 3, UINT32_C(0x7ffffffe)};
    for (size_t f = 0; f < sizeof(firsts) / sizeof(firsts[0]); ++f) {
        for (uint32_t ahead = 0; ahead < 8; ++ahead) {
            spec_posted_t a = {0}, b = {0};
            spec_revoke_t revoke;
            spec_recv_init(&r);
            r.msgs.nxt = firsts[f];
            offers(&a, ME, T, 0);
            offers(&b, ME, T, 1);
            asks(&b, &revoke);
            assert_true(spec_recv_revoked(&r, revoke.no, T, r.msgs.nxt + ahead));
            for (uint32_t i = 0; i < ahead; ++i) {
                not_done();
                if (i == ahead / 2) {
                    message_to(&a, ME, T);
                } else {
                    message_passes();
                }
            }
            done(&revoke);
            next_cancelled(&b);
            next_cancelled(NULL);
            if (0 == ahead) {
                message_to(&a, ME, T);
            }
        }
    }
}

/* More may have been processed than the answer asks for. */
static void an_s_of_the_past_is_done_at_once(void **state)
{
    (void) state;
    spec_posted_t a = {0};
    spec_revoke_t revoke;
    offers(&a, ME, T, 0);
    asks(&a, &revoke);
    for (int i = 0; i < 5; ++i) {
        message_passes();
    }
    not_done();
    assert_true(spec_recv_revoked(&r, revoke.no, T, 3));
    done(&revoke);
    next_cancelled(&a);
}

static void a_message_may_come_first(void **state)
{
    (void) state;
    spec_posted_t a = {0}, b = {0};
    spec_revoke_t revoke, fresh;
    offers(&a, ME, T, 0);
    asks(&a, &revoke);
    stays_silent(&b, ME, T);
    assert_true(spec_recv_revoked(&r, revoke.no, T, 1));
    message_to(&a, ME, T);
    assert_int_equal(spec_recv_cancel(&r, &m, &a, &fresh), SPEC_CANCEL_TOO_LATE);
    done(&revoke);
    next_cancelled(NULL); /* the cancel failed, as MPI allows */
    message_to(&b, ME, T);
}

static void the_hold_outlives_the_rtrs(void **state)
{
    (void) state;
    spec_posted_t a = {0}, b = {0}, c = {0};
    spec_revoke_t revoke, fresh;
    offers(&a, ME, T, 0);
    asks(&a, &revoke);
    stays_silent(&b, ME, T);
    message_to(&a, ME, T);
    assert_int_equal(b.bin->rtr_n, 0);
    stays_silent(&c, ME, T);
    /* But no offer is out that counts b. */
    assert_int_equal(spec_recv_cancel(&r, &m, &b, &fresh), SPEC_CANCEL_DONE);
    assert_true(spec_recv_revoked(&r, revoke.no, T, 1));
    done(&revoke);
    next_cancelled(NULL);
    message_to(&c, ME, T);
}

static void several_cancels_in_one_bin(void **state)
{
    (void) state;
    spec_posted_t p[5] = {{.order = 0}}, late = {0};
    spec_revoke_t revoke, fresh;
    for (uint32_t i = 0; i < 5; ++i) {
        offers(&p[i], ME, T, i);
    }
    asks(&p[3], &revoke);
    assert_int_equal(spec_recv_cancel(&r, &m, &p[1], &fresh), SPEC_CANCEL_WAIT);
    assert_int_equal(spec_recv_cancel(&r, &m, &p[1], &fresh), SPEC_CANCEL_WAIT); /* again */
    assert_int_equal(spec_recv_cancel(&r, &m, &p[3], &fresh), SPEC_CANCEL_WAIT);
    stays_silent(&late, ME, T);
    assert_int_equal(spec_recv_cancel(&r, &m, &late, &fresh), SPEC_CANCEL_DONE); /* behind all */
    assert_true(spec_recv_revoked(&r, revoke.no, T, 2));
    message_to(&p[0], ME, T);
    assert_int_equal(spec_recv_cancel(&r, &m, &p[4], &fresh), SPEC_CANCEL_WAIT);
    not_done();
    message_to(&p[1], ME, T); /* in the last moment */
    done(&revoke);
    next_cancelled(&p[3]);
    next_cancelled(&p[4]);
    next_cancelled(NULL);
    message_to(&p[2], ME, T);
    assert_int_equal(m.posted_n, 0);
}

/* ---- with words: offers that can be withdrawn ---- */

/* Five receives: which have an RTR, of which the word does not exist or was taken. Each one is cancelled in turn: it leaves
 * at once if no RTR that may be in use is its own or one behind it, and every other RTR is withdrawn. */
static void what_is_not_in_use_is_withdrawn(void **state)
{
    (void) state;
    enum { N = 5 };
    for (unsigned with_rtr = 1; with_rtr < 1u << N; ++with_rtr) {
        for (unsigned in_use = 0; in_use < 1u << N; ++in_use) {
            for (unsigned victim = 0; victim < N; ++victim) {
                spec_posted_t p[N] = {{.order = 0}};
                uint64_t word[N] = {0};
                spec_revoke_t revoke;
                const unsigned used = with_rtr & in_use;
                spec_recv_init(&r);
                for (unsigned i = 0; i < N; ++i) {
                    /* Half of those in use have no word. */
                    p[i].claim = (spec_claim_t){.at = used >> i & 1 && i & 1 ? NULL : &word[i],
                                                .no = 70 + i};
                    if (with_rtr >> i & 1) {
                        if (NULL != p[i].claim.at) {
                            spec_claim_offer(&p[i].claim);
                        }
                        offers(&p[i], ME, T, i);
                    } else {
                        post(&p[i], ME, T);
                    }
                    assert_true(!(used >> i & 1) || spec_claim_take(&p[i].claim));
                }
                const bool leaves = 0 == used >> victim;
                assert_int_equal(spec_recv_cancel(&r, &m, &p[victim], &revoke),
                                 leaves ? SPEC_CANCEL_DONE_ASK : SPEC_CANCEL_ASK);
                for (unsigned i = 0; i < N; ++i) {
                    const bool is_out = leaves && i == victim;
                    assert_int_equal(p[i].has_rtr, used >> i & 1);
                    assert_int_equal(is_out, NULL == p[i].bin);
                    if (with_rtr >> i & 1 && !(used >> i & 1)) {
                        assert_false(spec_claim_take(&p[i].claim));
                    }
                    if (!is_out) {
                        spec_match_remove_posted(&m, &p[i]);
                    }
                }
                assert_true(spec_recv_revoked(&r, revoke.no, T, 0));
                done(&revoke);
            }
        }
    }
}

/* Thousands cancelled in any order: one REVOKE, and each leaves at once. */
static void many_are_withdrawn_once(void **state)
{
    (void) state;
    enum { N = 1000 };
    static spec_posted_t p[N];
    static uint64_t word[N];
    spec_posted_t late = {0};
    spec_revoke_t revoke, fresh;
    for (uint32_t i = 0; i < N; ++i) {
        p[i].claim = (spec_claim_t){.at = &word[i], .no = i};
        spec_claim_offer(&p[i].claim);
        offers(&p[i], ME, T, i);
    }
    for (unsigned i = 0; i < N; ++i) {
        assert_int_equal(spec_recv_cancel(&r, &m, &p[i * 7 % N], 0 == i ? &revoke : &fresh),
                         0 == i ? SPEC_CANCEL_DONE_ASK : SPEC_CANCEL_DONE);
    }
    stays_silent(&late, ME, T); /* until the sender has dropped them */
    assert_true(spec_recv_revoked(&r, revoke.no, T, 0));
    done(&revoke);
    spec_match_remove_posted(&m, &late);
    offers(&late, ME, T, 0);
    spec_match_remove_posted(&m, &late);
}

static void revokes_of_several_tags(void **state)
{
    (void) state;
    spec_posted_t a = {0}, b = {0}, c = {0};
    spec_revoke_t ra, rb, rc;
    offers(&a, ME, 1, 0);
    offers(&b, ME, 2, 0);
    offers(&c, ME, 3, 0);
    assert_false(spec_recv_awaits_several(&r));
    asks(&a, &ra);
    assert_false(spec_recv_awaits_several(&r));
    asks(&b, &rb);
    asks(&c, &rc);
    assert_true(spec_recv_awaits_several(&r));
    assert_true(spec_recv_revoked(&r, rc.no, 3, 0));
    assert_true(spec_recv_awaits_several(&r));
    assert_true(spec_recv_revoked(&r, ra.no, 1, 1));
    assert_false(spec_recv_awaits_several(&r)); /* of those that are there two have their answer */
    done(&rc);
    next_cancelled(&c);
    not_done();
    message_passes();
    done(&ra);
    next_cancelled(&a);
    not_done();
    assert_true(spec_recv_revoked(&r, rb.no, 2, 0));
    done(&rb);
    next_cancelled(&b);
    assert_true(spec_list_is_empty(&r.revokes));
}

static void again_after_it_is_done(void **state)
{
    (void) state;
    for (int i = 0; i < 10; ++i) {
        spec_posted_t a = {0}, b = {0};
        spec_revoke_t revoke;
        offers(&a, ME, T, 0);
        offers(&b, ME, T, 1);
        asks(i % 2 ? &a : &b, &revoke);
        message_to(&a, ME, T);
        message_passes();
        assert_true(spec_recv_revoked(&r, revoke.no, T, r.msgs.nxt));
        done(&revoke);
        next_cancelled(i % 2 ? NULL : &b);
        if (i % 2) {
            message_to(&b, ME, T);
        }
        assert_int_equal(m.posted_n, 0);
    }
}

static void a_lost_peer_holds_nothing_back(void **state)
{
    (void) state;
    spec_posted_t p[2] = {{.order = 0}}, other = {0};
    spec_revoke_t revoke[2];
    offers(&p[0], ME, T, 0);
    offers(&p[1], ME, T, 1);
    offers(&other, ME, T + 1, 0);
    asks(&p[0], &revoke[0]);
    asks(&other, &revoke[1]);
    not_done();
    assert_false(r.given_up);
    assert_true(spec_recv_answer_all(&r) > 0);
    assert_true(r.given_up); /* a MATCH that it has sent before may miss its receive */
    assert_int_equal(spec_recv_answer_all(&r), 0);
    done(&revoke[0]);
    next_cancelled(&p[0]);
    done(&revoke[1]);
    next_cancelled(&other);
    not_done();
    assert_false(p[1].has_rtr);
    spec_match_remove_posted(&m, &p[1]);
}

static void answers_nobody_waits_for_are_refused(void **state)
{
    (void) state;
    spec_posted_t a = {0}, b = {0};
    spec_revoke_t revoke;
    offers(&a, ME, T, 0);
    offers(&b, ME, T, 1);
    assert_false(spec_recv_revoked(&r, 0, T, 0)); /* an RTR's number */
    asks(&a, &revoke);
    assert_false(spec_recv_revoked(&r, revoke.no + 1, T, 0));
    assert_false(spec_recv_revoked(&r, revoke.no - 1, T, 0));
    assert_false(spec_recv_revoked(&r, revoke.no, T + 1, 0));
    assert_false(spec_recv_revoked(&r, revoke.no, ANY, 0));
    not_done();
    assert_true(spec_recv_revoked(&r, revoke.no, T, 1));
    assert_false(spec_recv_revoked(&r, revoke.no, T, 0)); /* a second one must not move S */
    not_done();
    message_passes();
    done(&revoke);
    next_cancelled(&a);
    assert_false(spec_recv_revoked(&r, revoke.no, T, 0));
    not_done();
    message_to(&b, ME, T);
}

/* ---- epochs ---- */

/* What was sent under the assumption that it is 0 must not come true for a later communicator. */
static void epoch_0_is_the_first_communicators_alone(void **state)
{
    (void) state;
    assert_int_equal(spec_recv_epoch_of(0), 0);
    for (uint32_t n = 1; n < 2000; ++n) {
        assert_int_not_equal(spec_recv_epoch_of(n), 0);
        for (uint32_t later = n + 1; later < n + 255; ++later) {
            assert_int_not_equal(spec_recv_epoch_of(n), spec_recv_epoch_of(later));
        }
    }
    assert_int_not_equal(spec_recv_epoch_of(UINT32_MAX), 0);
}

static void a_wrong_guess_starts_the_numbers_anew(void **state)
{
    (void) state;
    spec_posted_t p[4] = {{.order = 0}};
    offers(&p[0], ME, T, 0);
    offers(&p[1], ME, T, 1);
    assert_int_equal(r.ctl_no, 2);
    spec_recv_learn_epoch(&r, 3);
    assert_int_equal(r.ctl_no, 0);
    assert_int_equal(r.epoch, 3);
    offers(&p[2], ME, T, 2);
    assert_int_equal(offer.no, 0);
    spec_recv_learn_epoch(&r, 3);
    assert_int_equal(r.ctl_no, 1);
}

static void a_right_guess_does_not(void **state)
{
    (void) state;
    spec_posted_t p = {0};
    offers(&p, ME, T, 0);
    assert_false(r.epoch_is_known);
    spec_recv_learn_epoch(&r, 0);
    assert_true(r.epoch_is_known);
    assert_int_equal(r.ctl_no, 1);
}

/* One of an earlier communicator and the one that is meant have the same number. */
static void what_comes_before_the_epoch_is_known_waits_for_it(void **state)
{
    spec_recv_t r;
    spec_item_t old = {.no = 1}, meant = {.no = 1}, again = {.no = 1}, *item;
    spec_node_t left;
    (void) state;
    spec_recv_init(&r);
    assert_true(spec_recv_can_be_of(&r, 3) && spec_recv_can_be_of(&r, 4));
    assert_true(spec_recv_keep(&r, &old));
    assert_true(spec_recv_keep(&r, &meant));
    assert_true(spec_stream_is_empty(&r.msgs));
    spec_recv_learn_epoch(&r, 4);
    assert_false(spec_recv_can_be_of(&r, 3));
    assert_true(spec_recv_can_be_of(&r, 4));
    assert_ptr_equal(spec_recv_next_unsorted(&r), &old);
    item = spec_recv_next_unsorted(&r);
    assert_ptr_equal(item, &meant);
    assert_null(spec_recv_next_unsorted(&r));
    assert_true(spec_recv_keep(&r, item));
    assert_false(spec_recv_keep(&r, &again));
    assert_ptr_equal(spec_stream_find(&r.msgs, 1), &meant);
    spec_list_append(&r.unsorted, &again.node);
    spec_list_init(&left);
    spec_recv_drain(&r, &left);
    assert_ptr_equal(spec_list_pop(&left), &meant.node);
    assert_ptr_equal(spec_list_pop(&left), &again.node);
    assert_null(spec_list_pop(&left));
}

/* ---- any tag ---- */

static void any_tag_offers_if_it_is_the_first(void **state)
{
    (void) state;
    spec_posted_t a = {0}, b = {0}, exact = {0}, elsewhere = {0}, other = {0}, own = {0};
    post(&elsewhere, 2, T);
    offers(&a, ME, ANY, 0);
    offers(&b, ME, ANY, 1);
    stays_silent(&exact, ME, T);
    offers(&own, ME, -T, 0); /* of Open MPI's own */
    message_to(&a, ME, T + 1);
    message_to(&b, ME, T);
    stays_silent(&other, ME, ANY);
    message_to(&exact, ME, T);
    message_to(&other, ME, T);
    offers(&a, ME, ANY, 0);
    message_to(&a, ME, T);
    post(&b, ANY, T);
    stays_silent(&other, ME, ANY);
}

/* In a large table nobody searches for receives of the same source. */
static void any_tag_among_many_does_not_ask(void **state)
{
    (void) state;
    enum { FEW = 500, MANY = 3000 };
    static spec_posted_t many[MANY];
    spec_posted_t a = {0}, b = {0};
    for (int i = 0; i < MANY; ++i) {
        if (FEW == i) {
            offers(&a, ME, ANY, 0);
            message_to(&a, ME, T);
        }
        many[i] = (spec_posted_t){0};
        post(&many[i], 2, i);
    }
    stays_silent(&b, ME, ANY);
}

/* ---- receives for any source of one ---- */

static void narrowed(spec_posted_t *p, int32_t tag)
{
    p->narrowed = true;
    post(p, ME, tag);
}

static void widens(spec_widen_t expected, spec_revoke_t *revoke)
{
    assert_int_equal(spec_recv_widen(&r, &m, ME, revoke), expected);
}

/* A message of the second source. */
static void second_to(spec_posted_t *expected, int32_t tag)
{
    spec_posted_t *p = spec_match_find_posted(&m, 2, tag);
    assert_ptr_equal(p, expected);
    if (NULL != p) {
        spec_match_remove_posted(&m, p);
    }
}

static void without_rtrs_they_are_widened_at_once(void **state)
{
    (void) state;
    enum { MANY = 500 };
    static spec_posted_t many[MANY];
    spec_posted_t exact = {0}, first = {0};
    spec_revoke_t revoke;
    narrowed(&first, T);
    post(&exact, ME, T);
    for (int i = 0; i < MANY; ++i) { /* the table grows while they are moved */
        many[i] = (spec_posted_t){0};
        narrowed(&many[i], i % 3 > 0 ? T : T + 1 + i);
    }
    widens(SPEC_WIDEN_DONE, &revoke);
    assert_int_equal(m.posted_n, MANY + 2);
    assert_int_equal(m.wild_n, MANY + 1);
    assert_int_equal(exact.src, ME);
    second_to(&first, T);
    for (int i = 0; i < MANY; ++i) {
        if (i % 3 > 0) {
            second_to(&many[i], T); /* in their order */
        }
    }
    message_to(&exact, ME, T);
    widens(SPEC_WIDEN_DONE, &revoke);
}

static void only_what_they_could_take_widens_them(void **state)
{
    (void) state;
    spec_posted_t exact = {0}, one = {0}, any = {0};
    post(&exact, ME, T);
    assert_false(spec_recv_narrowed_waits(&m, ME, T));
    narrowed(&one, T + 1);
    assert_false(spec_recv_narrowed_waits(&m, ME, T));
    assert_true(spec_recv_narrowed_waits(&m, ME, T + 1));
    narrowed(&any, ANY);
    assert_true(spec_recv_narrowed_waits(&m, ME, T));
    assert_false(spec_recv_narrowed_waits(&m, ME, -T)); /* Open MPI's own */
    message_to(&exact, ME, T);
    message_to(&one, ME, T + 1);
    message_to(&any, ME, T);
    assert_false(spec_recv_narrowed_waits(&m, ME, T));
}

/* Those at or before the last that may be written to wait for REVOKED; others do not. */
static void those_with_rtrs_are_widened_when_no_rtr_is_used(void **state)
{
    (void) state;
    spec_posted_t p[4] = {{.order = 0}}, later = {0};
    spec_revoke_t revoke, unused;
    narrowed(&p[0], T);
    p[1].narrowed = true;
    offers(&p[1], ME, T, 1);
    narrowed(&p[2], T);
    narrowed(&p[3], ANY);
    widens(SPEC_WIDEN_ASK, &revoke);
    assert_ptr_equal(revoke.bin, p[1].bin);
    assert_int_equal(p[1].bin->revoking, 1);
    widens(SPEC_WIDEN_WAIT, &unused);
    assert_int_equal(p[0].src, ME);
    assert_int_equal(p[1].src, ME);
    assert_int_equal(p[2].src, ANY);
    assert_int_equal(p[3].src, ANY);
    post(&later, ANY, T);
    message_to(&p[0], ME, T);
    assert_true(spec_recv_revoked(&r, revoke.no, T, 1));
    done(&revoke);
    widens(SPEC_WIDEN_DONE, &unused);
    second_to(&p[1], T);
    second_to(&p[2], T);
    second_to(&p[3], T);
    second_to(&later, T);
    assert_int_equal(m.posted_n, 0);
    assert_int_equal(m.wild_n, 0);
}

/* One whose offer could be withdrawn is widened at once, and its bin waits for REVOKED. */
static void a_withdrawn_one_is_widened_at_once(void **state)
{
    (void) state;
    spec_posted_t p = {0}, next = {0};
    spec_revoke_t revoke, unused;
    uint64_t word = 0;
    p.narrowed = true;
    p.claim = (spec_claim_t){.at = &word, .no = 1};
    spec_claim_offer(&p.claim);
    offers(&p, ME, T, 0);
    widens(SPEC_WIDEN_ASK, &revoke);
    widens(SPEC_WIDEN_DONE, &unused);
    second_to(&p, T);
    stays_silent(&next, ME, T);
    assert_true(spec_recv_revoked(&r, revoke.no, T, 0));
    done(&revoke);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(k_counts_earlier_pending_receives, setup, teardown),
        cmocka_unit_test_setup_teardown(sources_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(an_earlier_wildcard_forbids, setup, teardown),
        cmocka_unit_test_setup_teardown(a_later_wildcard_does_not, setup, teardown),
        cmocka_unit_test_setup_teardown(without_an_rtr_it_is_done_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(wildcards_are_done_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(an_rtr_that_was_matched_is_no_obstacle, setup, teardown),
        cmocka_unit_test_setup_teardown(any_position, setup, teardown),
        cmocka_unit_test_setup_teardown(meanwhile_the_bin_is_on_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(messages_before_s_are_awaited, setup, teardown),
        cmocka_unit_test_setup_teardown(an_s_of_the_past_is_done_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_message_may_come_first, setup, teardown),
        cmocka_unit_test_setup_teardown(the_hold_outlives_the_rtrs, setup, teardown),
        cmocka_unit_test_setup_teardown(several_cancels_in_one_bin, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_in_use_is_withdrawn, setup, teardown),
        cmocka_unit_test_setup_teardown(many_are_withdrawn_once, setup, teardown),
        cmocka_unit_test_setup_teardown(revokes_of_several_tags, setup, teardown),
        cmocka_unit_test_setup_teardown(again_after_it_is_done, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_peer_holds_nothing_back, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_nobody_waits_for_are_refused, setup, teardown),
        cmocka_unit_test(what_comes_before_the_epoch_is_known_waits_for_it),
        cmocka_unit_test_setup_teardown(epoch_0_is_the_first_communicators_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wrong_guess_starts_the_numbers_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(a_right_guess_does_not, setup, teardown),
        cmocka_unit_test_setup_teardown(any_tag_offers_if_it_is_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(any_tag_among_many_does_not_ask, setup, teardown),
        cmocka_unit_test_setup_teardown(without_rtrs_they_are_widened_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(only_what_they_could_take_widens_them, setup, teardown),
        cmocka_unit_test_setup_teardown(those_with_rtrs_are_widened_when_no_rtr_is_used, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_withdrawn_one_is_widened_at_once, setup, teardown),
    };
    return cmocka_run_group_tests_name("spec_recv", tests, NULL, NULL);
}
