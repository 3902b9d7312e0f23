/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The text of a profile (core/spec_profile.h): what is written is read back, what is damaged is
 * refused as a whole. */
#include "spec_unit.h"

#include "spec_profile.h"

enum { RANKS = 64, STOPS = 100 };

typedef struct seen {
    spec_profile_stop_t stop[STOPS];
    size_t n;
} seen_t;

static void note(void *context, const spec_profile_stop_t *stop)
{
    seen_t *seen = context;
    assert_true(seen->n < STOPS);
    seen->stop[seen->n++] = *stop;
}

static spec_profile_stop_t any_stop(rng_t *rng)
{
    return (spec_profile_stop_t){.receiver = rng_below(rng, RANKS),
                                 .sender = rng_below(rng, RANKS),
                                 .cid = rng_below(rng, 65536),
                                 .epoch = rng_below(rng, 256),
                                 .receiver_rank = (int32_t) rng_below(rng, RANKS),
                                 .sender_rank = (int32_t) rng_below(rng, RANKS),
                                 .tag = (int32_t) rng_next(rng)};
}

static char *profile(const spec_profile_stop_t *stops, size_t n)
{
    char *text = must_alloc((n + 8) * SPEC_PROFILE_LINE);
    size_t at = spec_profile_begin(text, RANKS);
    for (size_t i = 0; i < n; ++i) {
        at += spec_profile_stop(text + at, &stops[i]);
    }
    spec_profile_end(text + at, n);
    return text;
}

static const char *read_it(const char *text, unsigned *line)
{
    seen_t seen = {.n = 0};
    return spec_profile_read(text, RANKS, line, note, &seen);
}

static void what_is_written_is_read(void **state)
{
    (void) state;
    rng_t rng = {.state = 5};
    for (size_t n = 0; n <= STOPS; n += 10) {
        spec_profile_stop_t stops[STOPS];
        seen_t seen = {.n = 0};
        unsigned line;
        for (size_t i = 0; i < n; ++i) {
            stops[i] = any_stop(&rng);
        }
        char *text = profile(stops, n);
        assert_null(spec_profile_read(text, RANKS, &line, NULL, NULL));
        assert_null(spec_profile_read(text, RANKS, &line, note, &seen));
        assert_int_equal(seen.n, n);
        assert_memory_equal(seen.stop, stops, n * sizeof(*stops));
        free(text);
    }
}

static void what_does_not_fit_is_named(void **state)
{
    (void) state;
    static const struct {
        const char *text, *wrong;
        unsigned line;
    } cases[] = {
        {"", "it is not a profile of pml/spec", 1},
        {"hello\n", "it is not a profile of pml/spec", 1},
        {"pml/spec profile 1 and more\n", "it is not a profile of pml/spec", 1},
        {"pml/spec profile 2\nranks 64\nend 0\n", "it was written by another version of pml/spec", 1},
        {"pml/spec profile 1\n", "the number of ranks is missing", 2},
        {"pml/spec profile 1\nranks 63\nend 0\n", "it was written by a job of another size", 2},
        {"pml/spec profile 1\nranks 64\n", "the end is missing (was it cut off?)", 3},
        {"pml/spec profile 1\nranks 64\nend 0", "the end is missing (was it cut off?)", 3},
        {"pml/spec profile 1\nranks 64\nend 1\n", "the number of lines is not what its end says", 3},
        {"pml/spec profile 1\nranks 64\nend 0\nend 0\n", "something follows its end", 3},
        {"pml/spec profile 1\nranks 64\nstop 1 2 3 4 5 6 7\nend 1\n", "a line cannot be understood", 3},
        {"pml/spec profile 1\nranks 64\nstop 1 2 3.4 5 6 7 8\nend 1\n", "a line cannot be understood", 3},
        {"pml/spec profile 1\nranks 64\nstop 1 2 3.4 5 6\nend 1\n", "a line cannot be understood", 3},
        {"pml/spec profile 1\nranks 64\nstop 64 2 3.4 5 6 7\nend 1\n", "a number is out of range", 3},
        {"pml/spec profile 1\nranks 64\nstop 1 2 65536.4 5 6 7\nend 1\n", "a number is out of range", 3},
        {"pml/spec profile 1\nranks 64\nstop 1 2 3.4 -5 6 7\nend 1\n", "a number is out of range", 3},
        {"pml/spec profile 1\nranks 64\n# people\nstop 1 2 3.4 5 6 -7\nend 1\n", NULL, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
        unsigned line;
        const char *wrong = read_it(cases[i].text, &line);
        if (NULL == cases[i].wrong) {
            assert_null(wrong);
            continue;
        }
        assert_non_null(wrong);
        assert_string_equal(wrong, cases[i].wrong);
        assert_int_equal(line, cases[i].line);
    }
}

/* Cut off anywhere, or with any byte changed: refused or still a valid profile, never worse. */
static void damage_does_no_harm(void **state)
{
    (void) state;
    rng_t rng = {.state = 9};
    spec_profile_stop_t stops[20];
    unsigned line;
    for (size_t i = 0; i < 20; ++i) {
        stops[i] = any_stop(&rng);
    }
    char *whole = profile(stops, 20);
    const size_t length = strlen(whole);
    for (size_t cut = 0; cut < length; ++cut) {
        char *text = must_alloc(cut + 1); /* its own block, so that reading beyond is noticed */
        memcpy(text, whole, cut);
        assert_non_null(read_it(text, &line));
        free(text);
    }
    for (int i = 0; i < 20000; ++i) {
        char *text = must_alloc(length + 1);
        memcpy(text, whole, length);
        for (uint32_t n = 1 + rng_below(&rng, 4); n > 0; --n) {
            text[rng_below(&rng, (uint32_t) length)] = (char) rng_next(&rng);
        }
        (void) read_it(text, &line);
        free(text);
    }
    char *endless = must_alloc(100000);
    memset(endless, 'x', 99999);
    assert_non_null(read_it(endless, &line));
    free(endless);
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(damage_does_no_harm),
    };
    return cmocka_run_group_tests_name("spec_profile", tests, NULL, NULL);
}
