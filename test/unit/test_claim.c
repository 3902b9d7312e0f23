/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* core/spec_claim.h: of sender and receiver one has an offered buffer; of a message that both move each takes its part. */
#include "spec_unit.h"

#include "spec_claim.h"

#include <pthread.h>
#include <sched.h>

/* The sender and the receiver in both orders, and what is none of the offer's. */
static void one_of_the_two_has_it(void **state)
{
    (void) state;
    uint64_t word = 0;
    const spec_claim_t none = {.at = NULL}, a = {.at = &word, .no = UINT32_MAX},
                       b = {.at = &word, .no = 0};
    assert_true(spec_claim_take(&none)); /* the receiver waits for REVOKED then */
    assert_false(spec_claim_withdraw(&none));
    assert_false(spec_claim_take(&a)); /* nothing is offered */
    assert_false(spec_claim_withdraw(&a));
    spec_claim_offer(&a);
    assert_false(spec_claim_take(&b));
    assert_false(spec_claim_withdraw(&b));
    assert_true(spec_claim_take(&a));
    assert_false(spec_claim_take(&a)); /* each offer is used once */
    assert_false(spec_claim_withdraw(&a));
    spec_claim_offer(&b); /* the word is used again */
    assert_false(spec_claim_take(&a));
    assert_true(spec_claim_withdraw(&b));
    assert_false(spec_claim_take(&b));
    assert_false(spec_claim_withdraw(&b));
    word = UINT64_MAX; /* a peer that writes nonsense */
    assert_false(spec_claim_withdraw(&b));
}

enum { OFFERS = 200000 };
static uint64_t raced, go;
static unsigned char taken[OFFERS], back[OFFERS];

static void await(uint64_t n)
{
    for (unsigned spin = 1; __atomic_load_n(&go, __ATOMIC_ACQUIRE) < n; ++spin) {
        if (0 == spin % 20000) {
            (void) sched_yield();
        }
    }
}

static void *takes(void *unused)
{
    for (uint32_t i = 0; i < OFFERS; ++i) {
        await(2u * i + 1);
        taken[i] = spec_claim_take(&(spec_claim_t){.at = &raced, .no = i});
        __atomic_fetch_add(&go, 1, __ATOMIC_ACQ_REL);
    }
    return unused;
}

static void of_two_threads_too(void **state)
{
    (void) state;
    pthread_t thread;
    unsigned won = 0, delay = 0; /* so long that either may be first */
    go = 0;
    assert_int_equal(pthread_create(&thread, NULL, takes, NULL), 0);
    for (uint32_t i = 0; i < OFFERS; ++i) {
        const spec_claim_t claim = {.at = &raced, .no = i};
        spec_claim_offer(&claim);
        __atomic_fetch_add(&go, 1, __ATOMIC_ACQ_REL);
        for (unsigned spin = 0; spin < delay; ++spin) {
            (void) __atomic_load_n(&go, __ATOMIC_RELAXED);
        }
        back[i] = spec_claim_withdraw(&claim);
        delay = back[i] ? (delay + 1) % 5000 : delay - (delay > 0);
        await(2u * i + 2);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (unsigned i = 0; i < OFFERS; ++i) {
        assert_int_equal(taken[i] + back[i], 1);
        won += taken[i];
    }
    printf("# of %d offers %u were taken\n", OFFERS, won);
}

/* ---- a message that both ends move ---- */

enum { ONE = 4096, MANY = 5000 };
static const uint64_t never = UINT64_MAX; /* nothing is split, nothing is too long */

static spec_claim_t shared(uint64_t *word, uint32_t no)
{
    const spec_claim_t claim = {.at = word, .no = no};
    spec_claim_share(&claim, false, false);
    return claim;
}

static void a_piece_is_half_until_the_other_end_comes(void **state)
{
    (void) state;
    uint64_t word, at;
    spec_claim_t claim = shared(&word, 7);
    assert_int_equal(spec_claim_next(&claim, false, 16 * ONE, false, 0, never, &at), 8 * ONE);
    assert_int_equal(at, 0);
    assert_int_equal(spec_claim_next(&claim, false, 16 * ONE, false, 0, never, &at), 4 * ONE);
    assert_int_equal(at, 8 * ONE);
    /* The sender comes, and has the rest. */
    assert_int_equal(spec_claim_next(&claim, true, 16 * ONE, false, 0, never, &at), 4 * ONE);
    assert_int_equal(at, 12 * ONE);
    assert_int_equal(spec_claim_next(&claim, true, 16 * ONE, false, 0, never, &at), 0);
    assert_int_equal(spec_claim_next(&claim, false, 16 * ONE, false, 0, never, &at), 0);

    claim = shared(&word, 8);
    assert_int_equal(spec_claim_next(&claim, true, 5 * ONE - 1, false, 0, never, &at), 3 * ONE - 1);
    assert_int_equal(at, 2 * ONE);
    assert_int_equal(spec_claim_next(&claim, false, 5 * ONE - 1, false, 0, never, &at), 2 * ONE);
    assert_int_equal(at, 0);
}

static void what_is_not_worth_two_parts_is_one(void **state)
{
    (void) state;
    uint64_t word, at;
    spec_claim_t claim = shared(&word, 1);
    assert_int_equal(spec_claim_next(&claim, false, 8 * ONE, false, 8 * ONE + 1, never, &at),
                     8 * ONE);
    claim = shared(&word, 2);
    assert_int_equal(spec_claim_next(&claim, false, 8 * ONE, false, 8 * ONE, never, &at), 4 * ONE);
    assert_int_equal(spec_claim_next(&claim, false, 8 * ONE, false, 8 * ONE, never, &at), 4 * ONE);
    claim = shared(&word, 3);
    assert_int_equal(spec_claim_next(&claim, true, 8 * ONE, true, 0, never, &at),
                     8 * ONE); /* busy */
    assert_int_equal(at, 0);
}

static void the_sender_takes_fragments_from_the_back(void **state)
{
    (void) state;
    const uint64_t length = 16 * ONE + 100;
    uint64_t word, at;
    const spec_claim_t claim = shared(&word, 4), other = {.at = &word, .no = 5};
    assert_int_equal(spec_claim_last(length, 3 * ONE + 1), 2 * ONE + 100);
    assert_int_equal(spec_claim_next(&claim, true, length, true, 0, 3 * ONE + 1, &at),
                     2 * ONE + 100);
    assert_int_equal(at, 14 * ONE);
    assert_int_equal(spec_claim_next(&claim, true, length, true, 0, 3 * ONE, &at), 3 * ONE);
    assert_int_equal(at, 11 * ONE);
    assert_int_equal(spec_claim_next(&claim, true, length, true, 0, 1, &at), ONE); /* a unit */
    /* The receiver sees that the sender is there. */
    assert_int_equal(spec_claim_next(&claim, false, length, false, 0, 4 * ONE, &at), 4 * ONE);
    assert_true(spec_claim_is_left(&claim, length));
    assert_false(spec_claim_is_left(&other, length));
    assert_int_equal(spec_claim_next(&claim, false, length, false, 0, never, &at), 6 * ONE);
    assert_false(spec_claim_is_left(&claim, length));
    /* That the receiver waits is said once, and stays. */
    spec_claim_share(&claim, true, true);
    assert_true(spec_claim_sends(&claim, length));
    assert_false(spec_claim_sends(&other, length));
    assert_true(spec_claim_is_awaited(&claim, length));
    assert_false(spec_claim_is_awaited(&other, length));
    assert_int_equal(spec_claim_next(&claim, true, length, true, 0, ONE, &at), 100);
    assert_true(spec_claim_is_awaited(&claim, length));
    assert_int_equal(spec_claim_next(&claim, false, length, true, 0, never, &at), 16 * ONE);
    assert_false(spec_claim_is_awaited(&claim, length));
    spec_claim_share(&other, false, false);
    assert_false(spec_claim_sends(&other, length));
    spec_claim_send(&other);
    assert_true(spec_claim_sends(&other, length));
    assert_false(spec_claim_is_awaited(&other, length));
    spec_claim_wait(&other);
    assert_true(spec_claim_is_awaited(&other, length));
    assert_int_equal(spec_claim_next(&other, true, length, true, 0, never, &at), length);

    assert_int_equal(spec_claim_last(100, ONE), 100);
    assert_int_equal(spec_claim_last(4 * ONE, never), 4 * ONE);
    assert_int_equal(spec_claim_last(4 * ONE, 1), ONE);
}

static void only_of_an_offer_that_is_taken(void **state)
{
    (void) state;
    uint64_t word = 0, at;
    const spec_claim_t claim = {.at = &word, .no = UINT32_MAX}, later = {.at = &word, .no = 5};
    assert_int_equal(spec_claim_next(&claim, true, MANY, false, never, never, &at), 0);
    spec_claim_offer(&claim);
    assert_int_equal(spec_claim_next(&claim, true, MANY, false, never, never, &at), 0);
    assert_true(spec_claim_take(&claim));
    assert_int_equal(spec_claim_next(&later, true, MANY, false, never, never, &at), 0);
    assert_int_equal(spec_claim_next(&claim, true, MANY, false, never, never, &at), MANY);
    spec_claim_share(&later, false, false); /* the word is used again */
    assert_int_equal(spec_claim_next(&claim, true, MANY, false, never, never, &at), 0);
    assert_int_equal(spec_claim_next(&later, false, MANY, false, never, never, &at), MANY);
    word = UINT64_MAX; /* a peer that writes nonsense */
    assert_int_equal(spec_claim_next(&later, false, MANY, false, never, never, &at), 0);
    word = spec_claim_word(5, SPEC_CLAIM_TAKEN) | UINT64_MAX << SPEC_CLAIM_FRONT_AT;
    assert_int_equal(spec_claim_next(&later, true, MANY, false, never, never, &at), 0);
}

/* Every byte once, whatever the two do. */
static void all_is_moved_once(void **state)
{
    (void) state;
    static unsigned char moved[600 * ONE];
    rng_t rng = {.state = 1};
    uint64_t word;
    for (int round = 0; round < 3000; ++round) {
        const uint64_t length = 1 + rng_below(&rng, sizeof(moved)),
                       split = rng_below(&rng, (uint32_t) length);
        const spec_claim_t claim = shared(&word, (uint32_t) round);
        uint64_t at = 0, n;
        bool ended[2] = {false, false};
        memset(moved, 0, length);
        while (!ended[0] || !ended[1]) {
            const bool is_sender = rng_below(&rng, 2);
            n = spec_claim_next(&claim, is_sender, length, 0 == rng_below(&rng, 8), split,
                                rng_below(&rng, 2) ? never : rng_below(&rng, (uint32_t) length),
                                &at);
            assert_true(at < length || 0 == n);
            assert_true(0 == n || n <= length - at);
            for (uint64_t i = at; i < at + n; ++i) {
                assert_int_equal(moved[i]++, 0);
            }
            ended[is_sender] |= 0 == n;
        }
        for (uint64_t i = 0; i < length; ++i) {
            assert_int_equal(moved[i], 1);
        }
    }
}

/* The counts have room for any length. */
static void as_long_as_memory(void **state)
{
    (void) state;
    for (unsigned bits = 12; bits < 48; ++bits) {
        for (int more = -1; more < 2; ++more) {
            const uint64_t length = (UINT64_C(1) << bits) + (uint64_t) (int64_t) more;
            uint64_t word, at = 0, sum = 0, n, front = 0, back = length;
            const spec_claim_t claim = shared(&word, 1);
            for (unsigned turn = 0;
                 0 != (n = spec_claim_next(&claim, turn % 2, length, false, 0, never, &at));
                 ++turn) {
                assert_int_equal(at, turn % 2 ? back - n : front);
                front += turn % 2 ? 0 : n;
                back -= turn % 2 ? n : 0;
                sum += n;
            }
            assert_int_equal(sum, length);
        }
    }
}

enum { MESSAGES = 20000 };
static uint64_t parts[2], joint_word;

static uint64_t take_all(uint32_t no, bool is_sender, uint64_t seed)
{
    rng_t rng = {.state = seed};
    const spec_claim_t claim = {.at = &joint_word, .no = no};
    uint64_t at, n, sum = 0;
    while (0
           != (n = spec_claim_next(&claim, is_sender, 64 * ONE, 0 == rng_below(&rng, 4), ONE,
                                   is_sender ? (1 + rng_below(&rng, 9)) * ONE : never, &at))) {
        sum += n;
    }
    return sum;
}

static void *sends(void *unused)
{
    for (uint32_t i = 0; i < MESSAGES; ++i) {
        await(2u * i + 1);
        parts[1] = take_all(i, true, i + 1);
        __atomic_fetch_add(&go, 1, __ATOMIC_ACQ_REL);
    }
    return unused;
}

static void two_threads_move_all(void **state)
{
    (void) state;
    pthread_t thread;
    unsigned together = 0;
    go = 0;
    assert_int_equal(pthread_create(&thread, NULL, sends, NULL), 0);
    for (uint32_t i = 0; i < MESSAGES; ++i) {
        (void) shared(&joint_word, i);
        __atomic_fetch_add(&go, 1, __ATOMIC_ACQ_REL);
        parts[0] = take_all(i, false, i + 7);
        await(2u * i + 2);
        assert_int_equal(parts[0] + parts[1], 64 * ONE);
        together += parts[0] > 0 && parts[1] > 0;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    printf("# of %d messages %u were moved by both\n", MESSAGES, together);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_the_two_has_it),
        cmocka_unit_test(of_two_threads_too),
        cmocka_unit_test(a_piece_is_half_until_the_other_end_comes),
        cmocka_unit_test(what_is_not_worth_two_parts_is_one),
        cmocka_unit_test(the_sender_takes_fragments_from_the_back),
        cmocka_unit_test(only_of_an_offer_that_is_taken),
        cmocka_unit_test(all_is_moved_once),
        cmocka_unit_test(as_long_as_memory),
        cmocka_unit_test(two_threads_move_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
