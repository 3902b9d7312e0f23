/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* core/spec_costs.h: where eager ends, on machines that there are and on made-up ones. */
#include "spec_costs.h"
#include "spec_unit.h"

enum { LEAST = 4080, MOST = 32752 };

/* A system call is cheap: a virtual machine on a recent processor. */
static const spec_costs_t quick = {.known = true, .call_ns = 400, .single_ps = 31, .copy_ps = 17};
/* One in a sandbox that checks every call. */
static const spec_costs_t dear = {.known = true, .call_ns = 4000, .single_ps = 31, .copy_ps = 17};
static const spec_costs_t unknown;

static void cheap_calls_leave_the_transports_limit(void **state)
{
    (void) state;
    const spec_ends_t ends = spec_costs_ends(&quick, SPEC_BY_SINGLE, true, LEAST, MOST);
    assert_int_equal(ends.alone, LEAST);
}

static void dear_calls_make_it_the_fragment(void **state)
{
    (void) state;
    const spec_ends_t ends = spec_costs_ends(&dear, SPEC_BY_SINGLE, true, LEAST, MOST);
    assert_int_equal(ends.alone, MOST);
}

static void between_them_it_follows_the_call(void **state)
{
    (void) state;
    uint64_t last = 0;
    for (uint32_t call = 400; call <= 3000; call += 100) {
        const spec_costs_t c = {.known = true, .call_ns = call, .single_ps = 31, .copy_ps = 17};
        const spec_ends_t ends = spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST);
        assert_true(ends.alone >= last && ends.alone >= LEAST && ends.alone <= MOST);
        last = ends.alone;
    }
    assert_int_equal(last, MOST);
    const spec_costs_t c = {.known = true, .call_ns = 1000, .single_ps = 31, .copy_ps = 17};
    /* (1000 + 2 * 100 - 2 * 200) ns, 2 * 3 * 17 - 31 ps */
    assert_int_equal(spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST).alone, 800000 / 71);
    /* Two parts, each of which takes so many times the call. */
    assert_int_equal(spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST).split,
                     2 * SPEC_COSTS_PARTS * 1000000 / 31);
    /* The copy takes so many times a packet and what goes with it. */
    assert_int_equal(spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST).either,
                     (SPEC_COSTS_ASK * SPEC_COSTS_ASK_NS - 1000) * 1000 / 31);
    const spec_costs_t slow = {.known = true, .call_ns = 10000, .single_ps = 31, .copy_ps = 17};
    assert_int_equal(spec_costs_ends(&slow, SPEC_BY_SINGLE, true, LEAST, MOST).either, 0);
    assert_int_equal(spec_costs_ends(&c, SPEC_BY_RDMA, true, LEAST, MOST).either, 0);
}

static void a_single_copy_that_is_slower_by_the_byte_never_pays(void **state)
{
    (void) state;
    const spec_costs_t c = {.known = true, .call_ns = 400, .single_ps = 300, .copy_ps = 17};
    assert_int_equal(spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST).alone, MOST);
}

static void dear_copies_leave_the_limit(void **state)
{
    (void) state;
    const spec_costs_t c = {.known = true, .call_ns = 400, .single_ps = 31, .copy_ps = 1000};
    const spec_ends_t ends = spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST);
    assert_int_equal(ends.alone, LEAST);
}

static void fragments_alone_take_the_fragment(void **state)
{
    (void) state;
    const spec_ends_t ends = spec_costs_ends(&unknown, SPEC_BY_FRAGMENTS, true, LEAST, MOST);
    assert_int_equal(ends.alone, MOST);
    assert_int_equal(ends.gaps, MOST);
}

static void what_is_not_known_stays(void **state)
{
    (void) state;
    spec_ends_t ends = spec_costs_ends(&unknown, SPEC_BY_SINGLE, true, LEAST, MOST);
    assert_int_equal(ends.split, SPEC_COSTS_SPLIT);
    assert_int_equal(ends.alone, LEAST);
    assert_int_equal(ends.gaps, MOST); /* fragments in any case */
    ends = spec_costs_ends(&dear, SPEC_BY_RDMA, true, LEAST, MOST);
    assert_true(LEAST == ends.alone && LEAST == ends.gaps);
    /* A transport whose fragments are no longer than its eager packets. */
    ends = spec_costs_ends(&dear, SPEC_BY_SINGLE, true, LEAST, 1024);
    assert_true(LEAST == ends.alone && LEAST == ends.gaps);
}

static void one_packet_or_parts_of_one_block(void **state)
{
    (void) state;
    const spec_ends_t ends = {.alone = 5000, .gaps = 8000, .parts = 20000};
    assert_true(spec_ends_fit(&ends, 10000, 5000, true));
    assert_false(spec_ends_fit(&ends, 10000, 5001, true));
    assert_true(spec_ends_fit(&ends, 10000, 8000, false));
    assert_false(spec_ends_fit(&ends, 10000, 8001, false));
    assert_true(spec_ends_fit(&ends, 10000, 20000, true));
    assert_false(spec_ends_fit(&ends, 10000, 20001, true));
    assert_false(spec_ends_fit(&ends, 10000, 10001, false));
    const spec_ends_t any = {.parts = UINT64_MAX};
    assert_false(spec_ends_fit(&any, 10000, SPEC_COSTS_IN_PARTS + 1, true));
    assert_int_equal(spec_ends_last(&ends), 20000);
    assert_int_equal(spec_ends_last(&(spec_ends_t){.alone = 5000}), 5000);
}

static void fragments_beat_single_copies_of_both_ends(void **state)
{
    (void) state;
    /* By fragments 3 * 7 + 2 * 100 / 32.752 ps, by single copies 70 / 2 ps: fragments at any size. */
    const spec_costs_t slow = {.known = true, .call_ns = 1000, .single_ps = 70, .copy_ps = 7};
    assert_true(UINT64_MAX == spec_costs_ends(&slow, SPEC_BY_SINGLE, true, LEAST, MOST).pipeline);
    /* And against 40 / 2 ps while the first lines that are waited for are less than the call. */
    const spec_costs_t even = {.known = true, .call_ns = 2000, .single_ps = 40, .copy_ps = 7};
    assert_int_equal(spec_costs_ends(&even, SPEC_BY_SINGLE, true, LEAST, MOST).pipeline,
                     (2000 - 2 * 200) * 1000 / (21 + 6 - 20));
    assert_int_equal(spec_costs_ends(&quick, SPEC_BY_SINGLE, true, LEAST, MOST).pipeline, 0);
    assert_int_equal(spec_costs_ends(&unknown, SPEC_BY_SINGLE, true, LEAST, MOST).pipeline, 0);
    assert_int_equal(spec_costs_ends(&slow, SPEC_BY_FRAGMENTS, true, LEAST, MOST).pipeline, 0);
    assert_int_equal(spec_costs_ends(&slow, SPEC_BY_RDMA, true, LEAST, MOST).pipeline, 0);
    /* A single copy of the largest packet. */
    assert_int_equal(spec_costs_ends(&slow, SPEC_BY_SINGLE, true, LEAST, MOST).patience,
                     1000 + 70 * MOST / 1000);
}

static void messages_go_in_parts_while_that_is_cheaper(void **state)
{
    (void) state;
    const uint64_t in_parts = SPEC_COSTS_IN_PARTS;
    assert_int_equal(spec_costs_ends(&unknown, SPEC_BY_FRAGMENTS, true, LEAST, MOST).parts,
                     in_parts);
    assert_int_equal(spec_costs_ends(&dear, SPEC_BY_SINGLE, true, LEAST, MOST).parts, in_parts);
    assert_int_equal(spec_costs_ends(&quick, SPEC_BY_SINGLE, true, LEAST, MOST).parts, 0);
    assert_int_equal(spec_costs_ends(&unknown, SPEC_BY_SINGLE, true, LEAST, MOST).parts, 0);
    assert_int_equal(spec_costs_ends(&dear, SPEC_BY_RDMA, true, LEAST, MOST).parts, 0);
    /* (2000 + 2 * 100 - 2 * 200 - 100) ns, 3 * 17 * 3 / 2 - 31 ps */
    const spec_costs_t c = {.known = true, .call_ns = 2000, .single_ps = 31, .copy_ps = 17};
    assert_int_equal(spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST).parts, 1700000 / 45);
    /* No longer than a packet: no parts. */
    assert_int_equal(spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, 1700000 / 45).parts, 0);
}

static void copies_that_turn_out_dear_end_fragments(void **state)
{
    (void) state;
    const spec_costs_t c = {.known = true, .call_ns = 1000, .single_ps = 64, .copy_ps = 11};
    const uint32_t packet = 1000 * SPEC_COSTS_PACKET_NS / MOST; /* of a byte */
    spec_far_t far = {.skipped = 0};
    for (unsigned i = 0; i < SPEC_FAR_SURE; ++i) {
        assert_true(spec_far_pipelines(&far, &c, true, MOST)); /* one copy says little */
        spec_copies_saw(&far.in, &c, 10000, 10000 * (36 - packet) / 1000);
    }
    assert_false(spec_far_pipelines(&far, &c, true, MOST)); /* 36 = 64 * 9 / 16 */
    for (unsigned i = 2; i < SPEC_FAR_TRY; ++i) {
        assert_false(spec_far_pipelines(&far, &c, true, MOST));
    }
    assert_true(spec_far_pipelines(&far, &c, true, MOST)); /* to measure */
    assert_false(spec_far_pipelines(&far, &c, true, MOST));
    spec_copies_saw(&far.in, &c, 10000, 10000 * 20 / 1000);
    assert_true(spec_far_pipelines(&far, &c, true, MOST)); /* cheaper now */
    assert_true(spec_far_pipelines(&far, &c, true, MOST));
    /* Not alone half a single copy is what it is beside. */
    spec_far_t busy = {.in = {.n = SPEC_FAR_SURE, .ps = 64 / 2 - packet - 1}};
    assert_true(spec_far_pipelines(&busy, &c, false, MOST));
    ++busy.in.ps;
    assert_false(spec_far_pipelines(&busy, &c, false, MOST));
    assert_true(spec_far_pipelines(&busy, &c, true, MOST));
    /* Nor for some time after something came the other way. */
    spec_far_exchanges(&busy);
    assert_false(spec_far_pipelines(&busy, &c, true, MOST));
    for (unsigned i = 2; i < SPEC_FAR_TRY; ++i) {
        assert_false(spec_far_pipelines(&busy, &c, true, MOST));
    }
    assert_true(spec_far_pipelines(&busy, &c, true, MOST)); /* to measure */
    assert_true(spec_far_pipelines(&busy, &c, true, MOST));
}

/* A copy that was interrupted counts for no more than twice the usual; copies that last change it. */
static void disturbed_copies_change_little(void **state)
{
    (void) state;
    const spec_costs_t c = {.known = true, .call_ns = 1000, .single_ps = 64, .copy_ps = 10};
    spec_copies_t copies = {.n = 0};
    assert_int_equal(spec_copies_ps(&copies, &c), 30); /* the usual */
    for (unsigned i = 0; i < SPEC_FAR_SURE; ++i) {
        spec_copies_saw(&copies, &c, 8192, UINT64_C(10000000000));
    }
    assert_in_range(spec_copies_ps(&copies, &c), 60, 90);
    for (unsigned i = 0; i < 16; ++i) {
        spec_copies_saw(&copies, &c, 10000, 10000 * 20 / 1000);
    }
    assert_in_range(spec_copies_ps(&copies, &c), 20, 22);
    for (unsigned i = 0; i < 64; ++i) {
        spec_copies_saw(&copies, &c, 10000, 10000 * 200 / 1000);
    }
    assert_in_range(spec_copies_ps(&copies, &c), 180, 200);
    spec_copies_t none = {.n = 0};
    for (unsigned i = 0; i < 64; ++i) {
        spec_copies_saw(&none, &unknown, 10000, 10000 * 200 / 1000); /* nothing to begin with */
    }
    assert_in_range(spec_copies_ps(&none, &unknown), 180, 200);
}

static void saw(spec_ends_t *ends, spec_far_t *far, spec_copies_t *copies, const spec_costs_t *c,
                uint64_t ps)
{
    for (unsigned i = 0; i < 64; ++i) {
        spec_copies_saw(copies, c, 10000, 10 * ps);
    }
    spec_ends_follow(ends, far, c, LEAST, MOST);
}

/* Two processors far from each other and near, as one machine has them by turns. */
static void eager_ends_where_copies_become_dear(void **state)
{
    (void) state;
    const spec_costs_t c = {.known = true, .call_ns = 1300, .single_ps = 68, .copy_ps = 17};
    spec_ends_t ends = spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST);
    spec_far_t far = {.skipped = 0};
    const spec_ends_t usual = ends;
    assert_true(ends.follows && SPEC_COSTS_IN_PARTS == ends.hope);
    saw(&ends, &far, &far.out, &c, 300); /* what is not sent says nothing of what is */
    assert_int_equal(ends.alone, usual.alone);
    saw(&ends, &far, &far.in, &c, 230);
    assert_int_equal(ends.alone, LEAST);
    assert_int_equal(ends.parts, 0);
    assert_false(spec_ends_fit(&ends, MOST, 8192, true));
    assert_true(spec_ends_fit(&ends, MOST, 8192, false)); /* gaps go by fragments in any case */
    saw(&ends, &far, &far.in, &c, 100);
    saw(&ends, &far, &far.out, &c, 25);
    assert_in_range(ends.alone, 1500000 / 61, 1500000 / 55); /* (1300 + 200) ns, 125 - 68 ps */
    assert_in_range(ends.parts, MOST + 1, 1400000 / 24);
    saw(&ends, &far, &far.in, &c, 40);
    assert_int_equal(ends.alone, MOST);
    assert_int_equal(ends.parts, SPEC_COSTS_IN_PARTS);
    assert_int_equal(spec_ends_last(&ends), SPEC_COSTS_IN_PARTS);
    /* Of a transport whose larger messages cannot go in parts none does. */
    spec_ends_t single = spec_costs_ends(&c, SPEC_BY_SINGLE, false, LEAST, MOST);
    saw(&single, &far, &far.in, &c, 40);
    assert_true(MOST == single.alone && 0 == single.parts && MOST == single.hope);
    /* What a user has set stays, and what is not known. */
    spec_ends_t set = {.alone = 5000, .parts = 0};
    saw(&set, &far, &far.in, &c, 40);
    assert_int_equal(set.alone, 5000);
    assert_false(spec_costs_ends(&unknown, SPEC_BY_SINGLE, true, LEAST, MOST).follows);
    assert_false(spec_costs_ends(&unknown, SPEC_BY_FRAGMENTS, true, LEAST, MOST).follows);
    assert_int_equal(spec_costs_ends(&unknown, SPEC_BY_FRAGMENTS, false, LEAST, MOST).parts, 0);
}

/* What goes by slots is written sooner than packets, and a long message in one piece. */
static void slots_are_measured_apart(void **state)
{
    (void) state;
    const spec_costs_t c = {.known = true, .call_ns = 1300, .single_ps = 68, .copy_ps = 17};
    spec_ends_t ends = spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST);
    spec_far_t far = {.skipped = 0};
    saw(&ends, &far, &far.slots, &c, 40);
    saw(&ends, &far, &far.out, &c, 40);
    assert_int_equal(ends.parts, SPEC_COSTS_IN_PARTS);
    saw(&ends, &far, &far.in, &c, 300); /* packets do not count while there are slots */
    assert_int_equal(ends.parts, SPEC_COSTS_IN_PARTS);
    saw(&ends, &far, &far.slots, &c, 300);
    assert_int_equal(ends.parts, 0);
    saw(&ends, &far, &far.slots, &c, 60);
    assert_in_range(ends.parts, 1500000 / 34, 1500000 / 30); /* (1300 + 200) ns, 100 - 68 ps */
}

static void some_messages_find_out_that_copies_are_cheap_again(void **state)
{
    (void) state;
    const spec_costs_t c = {.known = true, .call_ns = 1300, .single_ps = 68, .copy_ps = 17};
    spec_ends_t ends = spec_costs_ends(&c, SPEC_BY_SINGLE, true, LEAST, MOST);
    spec_far_t far = {.skipped = 0};
    saw(&ends, &far, &far.in, &c, 300);
    unsigned tries = 0, messages = 0;
    while (!spec_ends_fit(&ends, MOST, 8192, true) && messages < 10000) {
        ++messages;
        if (spec_ends_tries(&ends, &far, 8192)) {
            ++tries;
            assert_true(spec_ends_samples(&ends, &far.in, MOST, 8192));
            spec_copies_saw(&far.in, &c, 8192, 8192 * 30 / 1000);
            spec_ends_follow(&ends, &far, &c, LEAST, MOST);
        }
    }
    assert_in_range(tries, 2, 8);
    assert_int_equal(messages, tries * SPEC_FAR_TRY_EAGER);
    for (unsigned i = 0; i < 2 * SPEC_FAR_TRY_EAGER;
         ++i) { /* never eager, however cheap copies are */
        assert_false(spec_ends_tries(&ends, &far, SPEC_COSTS_IN_PARTS + 1));
    }
    /* One in some of those that are eager, and all until enough is known. */
    unsigned samples = 0;
    for (unsigned i = 0; i < 10 * SPEC_FAR_EVERY; ++i) {
        samples += spec_ends_samples(&ends, &far.in, MOST, 8192);
    }
    assert_int_equal(samples, 10);
    for (unsigned i = 0; i < SPEC_FAR_SURE; ++i) {
        spec_copies_saw(&far.out, &c, 8192, 8192 * 30 / 1000);
    }
    unsigned in = 0, out = 0;
    for (unsigned i = 0; i < 10 * SPEC_FAR_EVERY; ++i) { /* by turns, as in a ping-pong */
        in += spec_ends_samples(&ends, &far.in, MOST, 8192);
        out += spec_ends_samples(&ends, &far.out, MOST, 8192);
    }
    assert_true(10 == in && 10 == out);
    far.out = (spec_copies_t){.n = 0};
    assert_true(spec_ends_samples(&ends, &far.out, MOST, 8192));
    const spec_ends_t set = {.alone = LEAST, .hope = MOST};
    assert_false(spec_ends_samples(&set, &far.out, MOST, 8192));
    far.untried = UINT32_MAX; /* the next would be one */
    assert_false(spec_ends_tries(&set, &far, 8192));
}

static void receiver_first_wins_where_it_has_better_to_do(void **state)
{
    (void) state;
    assert_true(spec_costs_offers(SPEC_BY_RDMA, true) && spec_costs_offers(SPEC_BY_RDMA, false));
    assert_true(spec_costs_offers(SPEC_BY_SINGLE, false));
    assert_false(spec_costs_offers(SPEC_BY_SINGLE, true));
    assert_true(spec_costs_offers(SPEC_BY_FRAGMENTS, false));
    assert_false(spec_costs_offers(SPEC_BY_FRAGMENTS, true));
}

static void a_byte_costs_the_difference(void **state)
{
    (void) state;
    assert_int_equal(spec_costs_ps(400, 1424, 32768), 31);
    assert_int_equal(spec_costs_ps(400, 399, 32768), 0); /* disturbed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheap_calls_leave_the_transports_limit),
        cmocka_unit_test(dear_calls_make_it_the_fragment),
        cmocka_unit_test(between_them_it_follows_the_call),
        cmocka_unit_test(a_single_copy_that_is_slower_by_the_byte_never_pays),
        cmocka_unit_test(dear_copies_leave_the_limit),
        cmocka_unit_test(fragments_alone_take_the_fragment),
        cmocka_unit_test(what_is_not_known_stays),
        cmocka_unit_test(fragments_beat_single_copies_of_both_ends),
        cmocka_unit_test(messages_go_in_parts_while_that_is_cheaper),
        cmocka_unit_test(copies_that_turn_out_dear_end_fragments),
        cmocka_unit_test(disturbed_copies_change_little),
        cmocka_unit_test(eager_ends_where_copies_become_dear),
        cmocka_unit_test(slots_are_measured_apart),
        cmocka_unit_test(some_messages_find_out_that_copies_are_cheap_again),
        cmocka_unit_test(receiver_first_wins_where_it_has_better_to_do),
        cmocka_unit_test(one_packet_or_parts_of_one_block),
        cmocka_unit_test(a_byte_costs_the_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
