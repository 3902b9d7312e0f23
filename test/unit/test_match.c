/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Matching (core/spec_match.h): MPI's rules, and that cost does not grow with what is queued. */
#include "mpi_model.h"

#include "spec_match.h"

#define ANY  SPEC_ANY
#define MANY 100000u
/* Longest way through a hash bucket that is still taken as "does not grow". */
#define SHORT_CHAIN 12u

static spec_match_t m;

static int setup(void **state)
{
    (void) state;
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
    assert_non_null(p->bin);
}

/* A message arrives: the receive that gets it, taken out, or NULL. */
static spec_posted_t *arrive(int32_t src, int32_t tag)
{
    spec_posted_t *p = spec_match_find_posted(&m, src, tag);
    if (NULL != p) {
        spec_match_remove_posted(&m, p);
        assert_null(p->bin);
    }
    return p;
}

static void keep(spec_unexp_t *u, int32_t src, int32_t tag)
{
    u->src = src;
    u->tag = tag;
    assert_int_equal(spec_match_add_unexp(&m, u), 0);
}

/* A receive asks for a message: the one it gets, taken out, or NULL. */
static spec_unexp_t *want(int32_t src, int32_t tag)
{
    spec_unexp_t *u = spec_match_find_unexp(&m, src, tag);
    if (NULL != u) {
        spec_match_remove_unexp(&m, u);
    }
    return u;
}

static void assert_empty(void)
{
    assert_int_equal(m.posted_n, 0);
    assert_int_equal(m.wild_n, 0);
    assert_int_equal(m.unexp_n, 0);
    assert_true(spec_list_is_empty(&m.arrival));
}

static uint32_t longest_chain(void)
{
    uint32_t longest = 0, bins = 0;
    for (uint32_t i = 0; i <= m.mask; ++i) {
        uint32_t n = 0;
        for (const spec_bin_t *bin = m.bucket[i]; NULL != bin; bin = bin->chain) {
            ++n;
        }
        bins += n;
        longest = n > longest ? n : longest;
    }
    assert_int_equal(bins, m.bins);
    return longest;
}

static const struct {
    int32_t want_src, want_tag, src, tag;
    bool fits;
} patterns[] = {
    {1, 7, 1, 7, true},
    {1, 7, 1, 8, false},
    {1, 7, 2, 7, false},
    {0, 0, 0, 0, true},
    {1, ANY, 1, 7, true},
    {1, ANY, 1, 0, true},
    {1, ANY, 2, 7, false},
    {ANY, 7, 1, 7, true},
    {ANY, 7, 2, 7, true},
    {ANY, 7, 2, 8, false},
    {ANY, ANY, 1, 7, true},
    {ANY, ANY, 0, 0, true},
    {1, -20, 1, -20, true},
    {1, -20, 1, -21, false},
    {1, -20, 1, 20, false},
    {1, ANY, 1, -20, false},
    {ANY, -20, 1, -20, true},
    {ANY, ANY, 1, -20, false},
    {ANY, -20, 1, -30, false},
    {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, true},
    {1, INT32_MIN, 1, INT32_MIN, true},
    {1, ANY, 1, INT32_MIN, false},
    {1, ANY, 1, INT32_MAX, true},
};

#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

static void four_patterns_when_posted_first(void **state)
{
    (void) state;
    for (size_t i = 0; i < PATTERNS; ++i) {
        spec_posted_t p = {0};
        post(&p, patterns[i].want_src, patterns[i].want_tag);
        assert_ptr_equal(arrive(patterns[i].src, patterns[i].tag), patterns[i].fits ? &p : NULL);
        if (!patterns[i].fits) {
            spec_match_remove_posted(&m, &p);
        }
        assert_empty();
    }
}

static void four_patterns_when_unexpected(void **state)
{
    (void) state;
    /* Twice: before and after the indexes for wildcards exist. */
    for (size_t i = 0; i < 2 * PATTERNS; ++i) {
        size_t j = i % PATTERNS;
        spec_unexp_t u = {0};
        keep(&u, patterns[j].src, patterns[j].tag);
        assert_ptr_equal(want(patterns[j].want_src, patterns[j].want_tag),
                         patterns[j].fits ? &u : NULL);
        if (!patterns[j].fits) {
            spec_match_remove_unexp(&m, &u);
        }
        assert_empty();
    }
}

static void earliest_posted_gets_it(void **state)
{
    (void) state;
    const int32_t src[4] = {1, 1, ANY, ANY}, tag[4] = {7, ANY, 7, ANY};
    for (unsigned a = 0; a < 4 * 4 * 4 * 4; ++a) {
        /* All orders of the four patterns, some of them several times. */
        unsigned order[4] = {a & 3, a >> 2 & 3, a >> 4 & 3, a >> 6 & 3};
        spec_posted_t p[4] = {{.order = 0}};
        for (unsigned i = 0; i < 4; ++i) {
            post(&p[i], src[order[i]], tag[order[i]]);
        }
        assert_int_equal(m.posted_n, 4);
        for (unsigned i = 0; i < 4; ++i) {
            assert_ptr_equal(arrive(1, 7), &p[i]);
        }
        assert_null(arrive(1, 7));
        assert_empty();
    }
}

static void oldest_unexpected_is_taken(void **state)
{
    (void) state;
    static const struct {
        int32_t src, tag;
    } msg[] = {{1, 5}, {2, 5}, {1, 6}, {1, -9}, {2, -9}, {1, 5}, {3, 5}, {2, 6}, {2, 5}, {1, 6}};
    enum { N = sizeof(msg) / sizeof(msg[0]) };
    const int32_t srcs[] = {1, 2, 3, 4, ANY}, tags[] = {5, 6, 7, -9, ANY};
    for (int s = 0; s < 5; ++s) {
        for (int t = 0; t < 5; ++t) {
            spec_unexp_t u[N] = {{.src = 0}};
            for (int i = 0; i < N; ++i) {
                keep(&u[i], msg[i].src, msg[i].tag);
            }
            for (int i = 0; i < N; ++i) {
                if (model_fits(srcs[s], tags[t], msg[i].src, msg[i].tag)) {
                    assert_ptr_equal(want(srcs[s], tags[t]), &u[i]);
                } else {
                    spec_match_remove_unexp(&m, &u[i]);
                }
            }
            assert_null(want(srcs[s], tags[t]));
            assert_empty();
        }
    }
}

static void peeking_does_not_take(void **state)
{
    (void) state;
    spec_unexp_t u = {0};
    spec_posted_t p = {0};
    keep(&u, 1, 7);
    assert_ptr_equal(spec_match_find_unexp(&m, ANY, ANY), &u);
    assert_ptr_equal(spec_match_find_unexp(&m, ANY, 7), &u);
    assert_ptr_equal(spec_match_find_unexp(&m, 1, 7), &u);
    assert_int_equal(m.unexp_n, 1);
    spec_match_remove_unexp(&m, &u);
    post(&p, 1, 7);
    assert_ptr_equal(spec_match_find_posted(&m, 1, 7), &p);
    assert_ptr_equal(spec_match_find_posted(&m, 1, 7), &p);
    spec_match_remove_posted(&m, &p);
    assert_empty();
}

static void wildcard_indexes_come_with_the_first_question(void **state)
{
    (void) state;
    enum { N = 200 };
    static spec_unexp_t u[N + 10];
    memset(u, 0, sizeof(u));
    for (int i = 0; i < N; ++i) {
        keep(&u[i], i % 5, 0 == i % 7 ? -50 : i % 3);
    }
    assert_ptr_equal(want(1, 1), &u[1]);
    assert_false(m.indexed[SPEC_BY_SRC] || m.indexed[SPEC_BY_TAG] || m.indexed[SPEC_BY_ANY]);

    assert_ptr_equal(want(ANY, -50), &u[0]);
    assert_true(m.indexed[SPEC_BY_TAG]);
    assert_false(m.indexed[SPEC_BY_SRC] || m.indexed[SPEC_BY_ANY]);
    assert_ptr_equal(want(2, ANY), &u[2]);
    assert_true(m.indexed[SPEC_BY_SRC]);
    assert_false(m.indexed[SPEC_BY_ANY]);
    assert_ptr_equal(want(ANY, ANY), &u[3]);
    assert_true(m.indexed[SPEC_BY_ANY]);

    /* What comes later is found by all four as well. */
    for (int i = N; i < N + 10; ++i) {
        keep(&u[i], 77, i % 2 ? 3000 : -3000);
    }
    assert_ptr_equal(want(ANY, 3000), &u[N + 1]);
    assert_ptr_equal(want(77, ANY), &u[N + 3]);
    assert_ptr_equal(want(77, -3000), &u[N]);
    assert_ptr_equal(want(ANY, -3000), &u[N + 2]);
    assert_ptr_equal(want(77, 3000), &u[N + 5]);
    for (int i = 4; i < N; ++i) {
        if (u[i].tag >= 0) {
            assert_ptr_equal(want(ANY, ANY), &u[i]);
        }
    }
    assert_ptr_equal(want(ANY, ANY), &u[N + 7]);
    assert_ptr_equal(want(ANY, ANY), &u[N + 9]);
    assert_null(want(ANY, ANY));
    while (NULL != want(ANY, -50) || NULL != want(ANY, -3000)) {}
    assert_empty();
}

static void removal_from_anywhere(void **state)
{
    (void) state;
    enum { N = 9 };
    for (uint64_t seed = 0; seed < 200; ++seed) {
        spec_posted_t p[N] = {{.order = 0}};
        spec_unexp_t u[N] = {{.src = 0}};
        uint32_t order[N];
        rng_t rng = {seed};
        for (uint32_t i = 0; i < N; ++i) {
            order[i] = i;
            post(&p[i], 0 == i % 3 ? ANY : 4, 1 == i % 3 ? ANY : 2);
        }
        rng_shuffle(&rng, order, N);
        bool gone[N] = {false};
        for (uint32_t i = 0; i < N / 2; ++i) {
            spec_match_remove_posted(&m, &p[order[i]]);
            gone[order[i]] = true;
        }
        for (uint32_t i = 0; i < N; ++i) {
            if (!gone[i]) {
                assert_ptr_equal(arrive(4, 2), &p[i]);
            }
        }
        assert_null(arrive(4, 2));
        for (uint32_t i = 0; i < N; ++i) {
            keep(&u[i], 4, 2);
        }
        for (uint32_t i = 0; i < N / 2; ++i) {
            spec_match_remove_unexp(&m, &u[order[i]]);
        }
        for (uint32_t i = 0; i < N; ++i) {
            if (!gone[i]) {
                assert_ptr_equal(want(i % 2 ? ANY : 4, i % 3 ? ANY : 2), &u[i]);
            }
        }
        assert_null(want(ANY, ANY));
        assert_empty();
    }
}

/* When a process is lost: what it alone could end, and what it might. */
static void receives_of_a_source_are_taken(void **state)
{
    (void) state;
    static const struct {
        int32_t src, tag;
        bool taken;
    } rows[] = {{4, 1, true}, {5, 1, false}, {ANY, 1, true},  {4, ANY, true},  {5, ANY, false},
                {4, 1, true}, {4, 9, true},  {ANY, ANY, true}, {4, -3, true}, {5, 1, false}};
    enum { N = sizeof(rows) / sizeof(*rows) };
    spec_posted_t p[N];
    spec_node_t taken, *n;
    spec_list_init(&taken);
    unsigned expected = 0, got = 0;
    for (unsigned i = 0; i < N; ++i) {
        post(&p[i], rows[i].src, rows[i].tag);
        expected += rows[i].taken;
    }
    spec_match_take_source(&m, 4, &taken);
    while (NULL != (n = spec_list_pop(&taken))) {
        const spec_posted_t *q = SPEC_ENTRY(n, spec_posted_t, node);
        assert_true(rows[q - p].taken);
        assert_null(q->bin);
        ++got;
    }
    assert_int_equal(got, expected);
    assert_int_equal(m.posted_n, N - expected);
    assert_ptr_equal(arrive(5, 1), &p[1]);
    assert_ptr_equal(arrive(5, 1), &p[4]);
    assert_ptr_equal(arrive(5, 1), &p[9]);
    assert_empty();
}

static void waits_for_is_asked_rightly(void **state)
{
    (void) state;
    const struct {
        int32_t src, tag, whom;
        bool waits;
    } rows[] = {{4, 1, 4, true}, {4, 1, 5, false}, {4, ANY, 4, true}, {ANY, 1, 9, true}, {ANY, ANY, 0, true}, {5, -3, 5, true}};
    spec_posted_t p = {0};
    assert_false(spec_match_waits_for(&m, 4));
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
        post(&p, rows[i].src, rows[i].tag);
        assert_int_equal(spec_match_waits_for(&m, rows[i].whom), rows[i].waits);
        spec_match_remove_posted(&m, &p);
        assert_false(spec_match_waits_for(&m, rows[i].whom));
    }
}

static void wildcard_waits_is_asked_rightly(void **state)
{
    (void) state;
    spec_posted_t p = {0};
    assert_false(spec_match_wildcard_waits(&m, 1, 7));
    for (size_t i = 0; i < PATTERNS; ++i) {
        bool is_wild = ANY == patterns[i].want_src || ANY == patterns[i].want_tag;
        post(&p, patterns[i].want_src, patterns[i].want_tag);
        assert_int_equal(spec_match_wildcard_waits(&m, patterns[i].src, patterns[i].tag),
                         is_wild && patterns[i].fits);
        spec_match_remove_posted(&m, &p);
        assert_false(spec_match_wildcard_waits(&m, patterns[i].src, patterns[i].tag));
    }
}

static void longest_queues_are_remembered(void **state)
{
    (void) state;
    spec_posted_t p[5] = {{.order = 0}};
    spec_unexp_t u[4] = {{.src = 0}};
    for (int i = 0; i < 5; ++i) {
        post(&p[i], i % 2 ? ANY : 1, i);
    }
    assert_int_equal(m.posted_n, 5);
    assert_int_equal(m.wild_n, 2);
    for (int i = 0; i < 5; ++i) {
        spec_match_remove_posted(&m, &p[i]);
    }
    for (int i = 0; i < 4; ++i) {
        keep(&u[i], 1, i);
    }
    for (int i = 0; i < 4; ++i) {
        spec_match_remove_unexp(&m, &u[i]);
    }
    assert_empty();
    assert_int_equal(m.posted_max, 5);
    assert_int_equal(m.unexp_max, 4);
}

/* Collectives use a new tag each: their bins must not pile up. */
static void bins_of_old_tags_are_swept(void **state)
{
    (void) state;
    spec_posted_t p = {0}, waits = {0}, held = {0};
    spec_unexp_t u = {0};
    post(&waits, 3, -5);
    post(&held, 3, -6);
    spec_bin_t *on_hold = held.bin;
    on_hold->revoking = 1;
    spec_match_remove_posted(&m, &held);
    for (uint32_t i = 0; i < MANY; ++i) {
        post(&p, 1, (int32_t) i);
        assert_ptr_equal(arrive(1, (int32_t) i), &p);
        keep(&u, 2, (int32_t) i);
        assert_ptr_equal(want(2, (int32_t) i), &u);
    }
    assert_true(m.mask < 128);
    assert_true(m.bins <= m.mask + 1);
    assert_true(longest_chain() <= SHORT_CHAIN);
    assert_ptr_equal(spec_match_bin(&m, 3, -6), on_hold);
    on_hold->revoking = 0;
    assert_ptr_equal(arrive(3, -5), &waits);
    assert_empty();
}

/* The bin found last is searched first, and may be swept meanwhile. */
static void what_was_found_last_may_be_swept(void **state)
{
    (void) state;
    for (int32_t tag = 0; tag < 1000; ++tag) {
        spec_posted_t p = {0}, other = {0};
        if (0 == tag % 3) { /* so that it is not always the same one that makes room */
            post(&p, 2, tag);
            assert_ptr_equal(arrive(2, tag), &p);
        }
        post(&p, 1, tag);
        assert_ptr_equal(arrive(1, tag), &p);
        post(&other, 1, 5000 + tag); /* makes a bin, and may sweep the one of `tag` */
        post(&p, 1, tag);
        assert_ptr_equal(arrive(1, 5000 + tag), &other);
        assert_ptr_equal(arrive(1, tag), &p);
    }
    assert_empty();
}

static void many_tags_at_once(void **state)
{
    (void) state;
    spec_posted_t *p = must_alloc(MANY * sizeof(*p));
    spec_unexp_t *u = must_alloc(MANY * sizeof(*u));
    uint32_t *order = must_alloc(MANY * sizeof(*order));
    rng_t rng = {3};
    for (uint32_t i = 0; i < MANY; ++i) {
        order[i] = i;
    }
    for (int round = 0; round < 3; ++round) {
        for (uint32_t i = 0; i < MANY; ++i) {
            post(&p[i], 1, (int32_t) i);
        }
        assert_true(m.mask >= MANY / 2);
        assert_true(longest_chain() <= SHORT_CHAIN);
        rng_shuffle(&rng, order, MANY);
        for (uint32_t i = 0; i < MANY; ++i) {
            assert_ptr_equal(arrive(1, (int32_t) order[i]), &p[order[i]]);
        }
        assert_empty();
        for (uint32_t i = 0; i < MANY; ++i) {
            keep(&u[i], 2, (int32_t) i);
        }
        assert_true(longest_chain() <= SHORT_CHAIN);
        /* Exact, and by source alone: in order of arrival. */
        for (uint32_t i = 0; i < MANY / 2; ++i) {
            assert_ptr_equal(want(2, (int32_t) i), &u[i]);
        }
        for (uint32_t i = MANY / 2; i < MANY; ++i) {
            assert_ptr_equal(want(2, ANY), &u[i]);
        }
        assert_empty();
    }
    assert_true(m.mask < 4 * MANY);
    free(order);
    free(u);
    free(p);
}

/* Programs use regular sources and tags: neighbours, one process per node, tags by the thousand. */
static void regular_patterns_spread_over_the_table(void **state)
{
    (void) state;
    enum { N = 4096 };
    static spec_posted_t p[N];
    for (uint32_t src_step = 0; src_step <= 1u << 14; src_step = src_step ? 2 * src_step : 1) {
        for (uint32_t tag_step = 0; tag_step <= 1u << 14; tag_step = tag_step ? 2 * tag_step : 1) {
            if (0 == src_step && 0 == tag_step) {
                continue;
            }
            memset(p, 0, sizeof(p));
            assert_int_equal(spec_match_init(&m), 0);
            for (uint32_t i = 0; i < N; ++i) {
                post(&p[i], (int32_t) (i * src_step), (int32_t) (i * tag_step));
            }
            uint32_t longest = longest_chain();
            spec_match_fini(&m);
            if (longest > SHORT_CHAIN) {
                fail_msg("%u bins with sources in steps of %u, tags in steps of %u: up to %u share "
                         "a bucket",
                         (unsigned) N, src_step, tag_step, longest);
            }
        }
    }
}

/* Everything at random, compared with the plain model. */
typedef struct rcv {
    spec_posted_t posted;
    bool is_queued;
} rcv_t;

typedef struct msg {
    spec_unexp_t unexp;
    bool is_queued;
} msg_t;

static void against_the_model(void **state)
{
    (void) state;
    enum { POOL = 64, STEPS = 20000 };
    static const int32_t tags[] = {0, 1, 2, -12, -13};
    for (uint64_t seed = 0; seed < 20; ++seed) {
        static rcv_t r[POOL];
        static msg_t msgs[POOL];
        rng_t rng = {seed};
        model_t model = {0};
        uint32_t bias = rng_below(&rng, 100);
        memset(r, 0, sizeof(r));
        memset(msgs, 0, sizeof(msgs));
        assert_int_equal(spec_match_init(&m), 0);
        for (int step = 0; step < STEPS; ++step) {
            uint32_t i = rng_below(&rng, POOL);
            int32_t src = (int32_t) rng_below(&rng, 4), tag = tags[rng_below(&rng, 5)];
            uint32_t op = rng_below(&rng, 100);
            if (op < 10) { /* cancel, or a matched probe */
                if (op < 5 && r[i].is_queued) {
                    spec_match_remove_posted(&m, &r[i].posted);
                    assert_true(model_remove(&model.receives, &r[i]));
                    r[i].is_queued = false;
                } else if (op >= 5 && msgs[i].is_queued) {
                    spec_match_remove_unexp(&m, &msgs[i].unexp);
                    assert_true(model_remove(&model.messages, &msgs[i]));
                    msgs[i].is_queued = false;
                }
            } else if (rng_percent(&rng, bias)) {
                if (r[i].is_queued) {
                    continue;
                }
                src = rng_percent(&rng, 25) ? ANY : src;
                tag = rng_percent(&rng, 25) ? ANY : tag;
                msg_t *expected = model_post(&model, src, tag, &r[i]);
                spec_unexp_t *u = want(src, tag);
                assert_ptr_equal(u, NULL == expected ? NULL : &expected->unexp);
                if (NULL == u) {
                    post(&r[i].posted, src, tag);
                    r[i].is_queued = true;
                } else {
                    expected->is_queued = false;
                }
            } else {
                if (msgs[i].is_queued) {
                    continue;
                }
                rcv_t *expected = model_arrive(&model, src, tag, &msgs[i]);
                spec_posted_t *p = arrive(src, tag);
                assert_ptr_equal(p, NULL == expected ? NULL : &expected->posted);
                if (NULL == p) {
                    keep(&msgs[i].unexp, src, tag);
                    msgs[i].is_queued = true;
                } else {
                    expected->is_queued = false;
                }
            }
            assert_int_equal(m.posted_n, model.receives.n);
            assert_int_equal(m.unexp_n, model.messages.n);
        }
        model_fini(&model);
        spec_match_fini(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(four_patterns_when_posted_first, setup, teardown),
        cmocka_unit_test_setup_teardown(four_patterns_when_unexpected, setup, teardown),
        cmocka_unit_test_setup_teardown(earliest_posted_gets_it, setup, teardown),
        cmocka_unit_test_setup_teardown(oldest_unexpected_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(peeking_does_not_take, setup, teardown),
        cmocka_unit_test_setup_teardown(wildcard_indexes_come_with_the_first_question, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(removal_from_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(receives_of_a_source_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(wildcard_waits_is_asked_rightly, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_for_is_asked_rightly, setup, teardown),
        cmocka_unit_test_setup_teardown(longest_queues_are_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(bins_of_old_tags_are_swept, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_found_last_may_be_swept, setup, teardown),
        cmocka_unit_test_setup_teardown(many_tags_at_once, setup, teardown),
        cmocka_unit_test(regular_patterns_spread_over_the_table),
        cmocka_unit_test(against_the_model),
    };
    return cmocka_run_group_tests_name("spec_match", tests, NULL, NULL);
}
