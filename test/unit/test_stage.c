/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Staging (core/spec_stage.h): memory within its limits, used again; and pieces as long as copies make them. */
#include "spec_unit.h"

#include "spec_stage.h"

#define KIB ((size_t) 1024)
#define MIB (1024 * KIB)

static size_t mapped; /* bytes */
static bool is_short;

static void *map(size_t size)
{
    if (is_short) {
        return NULL;
    }
    mapped += size;
    return malloc(size);
}

static void unmap(void *memory, size_t size)
{
    mapped -= size;
    free(memory);
}

static spec_stage_t stage_of(size_t most, size_t keep)
{
    spec_stage_t s;
    mapped = 0;
    is_short = false;
    spec_stage_init(&s, most, keep, map, unmap);
    return s;
}

static void what_comes_back_is_used_again(void **state)
{
    (void) state;
    spec_stage_t s = stage_of(8 * MIB, 8 * MIB);
    char *a = spec_stage_take(&s, 100 * KIB), *b = spec_stage_take(&s, 128 * KIB);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    memset(a, 1, 100 * KIB);
    memset(b, 2, 128 * KIB);
    assert_int_equal(256 * KIB, mapped);
    spec_stage_put(&s, a, 100 * KIB);
    spec_stage_put(&s, b, 128 * KIB);
    assert_int_equal(256 * KIB, mapped);
    assert_ptr_equal(b, spec_stage_take(&s, 65 * KIB)); /* the last first, of the same kind */
    assert_ptr_equal(a, spec_stage_take(&s, 128 * KIB));
    char *c = spec_stage_take(&s, 64 * KIB); /* of another */
    assert_int_equal(256 * KIB + 64 * KIB, mapped);
    spec_stage_put(&s, a, 128 * KIB);
    spec_stage_put(&s, b, 65 * KIB);
    spec_stage_put(&s, c, 64 * KIB);
    spec_stage_give_back(&s);
    assert_int_equal(0, mapped);
    assert_int_equal(0, s.kept);
    assert_int_equal(0, s.in_use);
}

static void no_more_than_the_limit_is_used(void **state)
{
    (void) state;
    spec_stage_t s = stage_of(1 * MIB, 8 * MIB);
    assert_null(spec_stage_take(&s, MIB + 1));
    assert_null(spec_stage_take(&s, SIZE_MAX));
    char *a = spec_stage_take(&s, 512 * KIB), *b = spec_stage_take(&s, 300 * KIB);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(spec_stage_take(&s, 1)); /* what is rounded up counts */
    spec_stage_put(&s, a, 512 * KIB);
    a = spec_stage_take(&s, 1);
    assert_non_null(a);
    assert_int_equal(MIB + 64 * KIB, mapped); /* what is kept is not in use */
    spec_stage_put(&s, a, 1);
    spec_stage_put(&s, b, 300 * KIB);
    spec_stage_give_back(&s);
    spec_stage_t none = stage_of(0, 0);
    assert_null(spec_stage_take(&none, 1));
}

static void not_more_than_that_is_kept(void **state)
{
    (void) state;
    spec_stage_t s = stage_of(64 * MIB, 256 * KIB);
    char *a = spec_stage_take(&s, 128 * KIB), *b = spec_stage_take(&s, 128 * KIB),
         *c = spec_stage_take(&s, 128 * KIB), *large = spec_stage_take(&s, MIB);
    spec_stage_put(&s, large, MIB);
    assert_int_equal(384 * KIB, mapped);
    spec_stage_put(&s, a, 128 * KIB);
    spec_stage_put(&s, b, 128 * KIB);
    spec_stage_put(&s, c, 128 * KIB);
    assert_int_equal(256 * KIB, mapped);
    a = spec_stage_take(&s, 128 * KIB);
    spec_stage_put(&s, a, 128 * KIB); /* there is room for it again */
    assert_int_equal(256 * KIB, mapped);
    spec_stage_give_back(&s);
    assert_int_equal(0, mapped);
}

static void no_memory_is_no_staging(void **state)
{
    (void) state;
    spec_stage_t s = stage_of(MIB, MIB);
    is_short = true;
    assert_null(spec_stage_take(&s, 64 * KIB));
    assert_int_equal(0, s.in_use);
    is_short = false;
    char *a = spec_stage_take(&s, MIB); /* all of it is there still */
    assert_non_null(a);
    spec_stage_put(&s, a, MIB);
    spec_stage_give_back(&s);
}

static void two_samples_make_the_costs(void **state)
{
    (void) state;
    spec_stage_costs_t c = spec_stage_costs(8000, 14000, 60000);
    assert_true(c.known);
    assert_int_equal(8000, c.call_ns);
    assert_int_equal(100, c.ps);
    c = spec_stage_costs(500, 400, 60000); /* the clock is coarse */
    assert_int_equal(1, c.ps);
    c = spec_stage_costs(0, UINT64_MAX / 1000, 1);
    assert_int_equal(UINT32_MAX, c.ps);
}

/* What a message takes: for each piece the longer of copy and put, and a part of the shorter; the first piece's copy and the last's. */
static double takes(const spec_stage_costs_t *c, uint32_t wire_ps, size_t length, size_t piece)
{
    wire_ps = 0 == wire_ps ? c->ps : wire_ps; /* not known */
    const double copy = (double) c->call_ns * 1000 + (double) piece * c->ps;
    const double put = SPEC_STAGE_PACKET_NS * 1000.0 + (double) piece * wire_ps;
    const double longer = copy > put ? copy : put, shorter = copy > put ? put : copy;
    return (double) length / (double) piece * (longer + shorter / 4) + 2 * copy;
}

static void a_piece_loses_little(void **state)
{
    (void) state;
    static const uint64_t calls[] = {0, 50, 1000, 8000, 100000};
    static const uint32_t bytes[] = {1, 40, 100, 1000}, wires[] = {0, 80, 500, 8000};
    for (size_t i = 0; i < 5 * 4 * 4; ++i) {
        const spec_stage_costs_t c = {
            .known = true, .call_ns = calls[i % 5], .ps = bytes[i / 5 % 4]};
        const uint32_t wire = wires[i / 20];
        for (size_t length = 64 * KIB; length <= 64 * MIB; length = length * 3 + 1) {
            const size_t piece = spec_stage_piece(&c, wire, length);
            assert_true(piece > 0 && piece <= length);
            assert_true(piece >= 16 * KIB);
            for (size_t other = 16 * KIB; other < length; other *= 2) {
                assert_true(takes(&c, wire, length, piece) <= 1.1 * takes(&c, wire, length, other));
            }
        }
    }
}

static void the_slower_of_copy_and_transport_says_how_long_pieces_are(void **state)
{
    (void) state;
    const spec_stage_costs_t slow = {.known = true, .call_ns = 1000, .ps = 1000},
                             fast = {.known = true, .call_ns = 1000, .ps = 100};
    /* Copies take the time: what a piece costs the transport is lost in them. */
    assert_int_equal(128 * KIB, spec_stage_piece(&slow, 400, 4 * MIB));
    /* The transport does: each piece costs. */
    assert_int_equal(512 * KIB, spec_stage_piece(&fast, 400, 4 * MIB));
    /* What is not known is taken to be as slow as the copies, lest they wait for it. */
    assert_int_equal(spec_stage_piece(&slow, 1000, 4 * MIB), spec_stage_piece(&slow, 0, 4 * MIB));
    assert_true(spec_stage_piece(&slow, 0, 4 * MIB) > 128 * KIB);
}

static void what_costs_nothing_is_cut_small_and_what_is_dear_is_not(void **state)
{
    (void) state;
    const spec_stage_costs_t unknown = {.known = false}, free_calls = {.known = true, .ps = 100},
                             dear = {.known = true, .call_ns = 1000000, .ps = 1},
                             slow = {.known = true, .ps = UINT32_MAX},
                             usual = {.known = true, .call_ns = 8000, .ps = 100};
    assert_int_equal(256 * KIB, spec_stage_piece(&unknown, 400, 4 * MIB));
    assert_int_equal(100 * KIB, spec_stage_piece(&unknown, 400, 100 * KIB));
    assert_true(spec_stage_piece(&free_calls, 0, 4 * MIB) >= 256 * KIB); /* the packets cost */
    assert_int_equal(16 * KIB, spec_stage_piece(&slow, 0, 4 * MIB));
    assert_int_equal(4 * MIB, spec_stage_piece(&dear, 0, 4 * MIB));
    assert_true(spec_stage_piece(&usual, 0, 4 * MIB) >= 256 * KIB);
}

static void gaps_are_staged_where_the_transport_leaves_time(void **state)
{
    (void) state;
    const uint64_t n = 1000000;
    spec_stage_gaps_t g = {.pack = 0};
    assert_true(spec_stage_gaps_pay(&g, true)); /* to find out */
    spec_stage_gaps_packed(&g, n, 100000);
    assert_false(spec_stage_gaps_pay(&g, true)); /* one is enough */
    assert_int_equal(g.pack, 100);
    spec_stage_gaps_moved(&g, n, 8000000); /* 1 Gbit/s */
    assert_true(spec_stage_gaps_pay(&g, true));
    for (unsigned i = 0; i < 40; ++i) {
        spec_stage_gaps_packed(&g, n, 1400000); /* blocks of some bytes */
    }
    assert_in_range(g.pack, 1300, 1400);
    assert_false(spec_stage_gaps_pay(&g, true));
    g.pack = 30;
    spec_stage_gaps_moved(&g, n, 700000); /* by a processor */
    assert_int_equal(g.wire, 700);
    assert_false(spec_stage_gaps_pay(&g, true));
    spec_stage_gaps_moved(&g, n, 10000000); /* it computed meanwhile */
    assert_in_range(g.wire, 700, 1000);
    assert_false(spec_stage_gaps_pay(&g, true));
    for (unsigned i = 0; i < 40; ++i) {
        spec_stage_gaps_moved(&g, n, 10000000);
    }
    assert_true(spec_stage_gaps_pay(&g, true));
    spec_stage_gaps_moved(&g, 0, 0); /* nothing is as quick as can be told, not unknown */
    assert_int_equal(g.wire, 1);
    spec_stage_gaps_moved(&g, 1, UINT64_MAX / 1000);
    assert_true(g.wire > 1);
}

static void what_disturbs_packing_ends_no_staging(void **state)
{
    (void) state;
    spec_stage_gaps_t g = {.pack = 0};
    spec_stage_gaps_packed(&g, 1000, 100000); /* pages touched first */
    assert_int_equal(g.pack, SPEC_STAGE_HAND_PS);
    g.pack = 100;
    spec_stage_gaps_moved(&g, 1000, 8000);
    spec_stage_gaps_packed(&g, 131072, 4000000); /* another process's turn */
    assert_in_range(g.pack, 100, 130);
    assert_true(spec_stage_gaps_pay(&g, true));
    /* If nothing is learned from the first, one in some tries again. */
    spec_stage_gaps_t other = {.pack = 0};
    unsigned tries = 0;
    for (unsigned i = 0; i < 4 * SPEC_STAGE_TRY + 1; ++i) {
        tries += spec_stage_gaps_pay(&other, true);
    }
    assert_int_equal(tries, 5);
    /* Receives go on until it is known that they are of no use, or that it does not pay. */
    spec_stage_gaps_t receives = {.pack = 0};
    for (unsigned i = 0; i < 3; ++i) {
        assert_true(spec_stage_gaps_pay(&receives, false));
    }
    assert_true(spec_stage_gaps_pay(&receives, true)); /* and a send finds out */
    spec_stage_gaps_useless(&receives);
    assert_false(spec_stage_gaps_pay(&receives, false));
    spec_stage_gaps_t like = {.pack = 0};
    spec_stage_gaps_like(&like, 0);
    assert_int_equal(like.wire, 0);
    spec_stage_gaps_like(&like, 300); /* others are quick */
    assert_false(spec_stage_gaps_pay(&like, false));
    assert_false(spec_stage_gaps_pay(&like, true));
    spec_stage_gaps_like(&like, 8000); /* it is known */
    assert_int_equal(like.wire, 300);
    spec_stage_gaps_moved(&g, 1000, 9000);
    const uint32_t known = g.wire;
    spec_stage_gaps_useless(&g);
    assert_int_equal(g.wire, known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_staged_where_the_transport_leaves_time),
        cmocka_unit_test(what_disturbs_packing_ends_no_staging),
        cmocka_unit_test(what_comes_back_is_used_again),
        cmocka_unit_test(no_more_than_the_limit_is_used),
        cmocka_unit_test(not_more_than_that_is_kept),
        cmocka_unit_test(no_memory_is_no_staging),
        cmocka_unit_test(two_samples_make_the_costs),
        cmocka_unit_test(a_piece_loses_little),
        cmocka_unit_test(the_slower_of_copy_and_transport_says_how_long_pieces_are),
        cmocka_unit_test(what_costs_nothing_is_cut_small_and_what_is_dear_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
