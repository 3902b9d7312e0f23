/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What MPI_Alloc_mem asks for, in words (freq_hints.h). */
#include "spec_unit.h"

#include "freq_hints.h"

static freq_hints_t parse(const char *text)
{
    freq_hints_t hints;
    assert_true(freq_hints_parse(&hints, text, "freq"));
    return hints;
}

static void words(void **state)
{
    (void) state;
    static const struct {
        const char *text;
        freq_hints_t hints;
    } cases[] = {
        {NULL, {0}},
        {"", {0}},
        {",,", {0}},
        {"mpool=freq", {.is_named = true}},
        {" MPOOL = Freq ", {.is_named = true}},
        {"mpool=freqs", {.is_other = true}},
        {"mpool=fre", {.is_other = true}},
        {"mpool=", {.is_other = true}},
        {"mpool", {.is_other = true}},
        {"mpool=hugepage,page_size=2M", {.is_other = true, .has_unknown = true}},
        {"must_be_shared", {.must_be_shared = true}},
        {"must_be_shared=", {.must_be_shared = true}},
        {"must_be_shared=yes", {.must_be_shared = true}},
        {"must_be_shared=0", {0}},
        {"must_be_shared=False", {0}},
        {"must_be_shared=no", {0}},
        {"must_be_sharedX", {.has_unknown = true}},
        {"must_be_aligned=0", {.must_be_aligned = true}},
        {"must_be_aligned=1", {.must_be_aligned = true, .alignment = 1}},
        {"must_be_aligned=4k", {.must_be_aligned = true, .alignment = 4096}},
        {"must_be_aligned=2M", {.must_be_aligned = true, .alignment = 2 << 20}},
        {"must_be_aligned= 1G ", {.must_be_aligned = true, .alignment = 1 << 30}},
        {"mpool=freq, must_be_shared ,must_be_aligned=64,what",
         {.is_named = true,
          .must_be_shared = true,
          .must_be_aligned = true,
          .alignment = 64,
          .has_unknown = true}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
        const freq_hints_t hints = parse(cases[i].text), *want = &cases[i].hints;
        assert_int_equal(hints.is_named, want->is_named);
        assert_int_equal(hints.is_other, want->is_other);
        assert_int_equal(hints.has_unknown, want->has_unknown);
        assert_int_equal(hints.must_be_shared, want->must_be_shared);
        assert_int_equal(hints.must_be_aligned, want->must_be_aligned);
        assert_int_equal(hints.alignment, want->alignment);
    }
}

static void wrong_words(void **state)
{
    (void) state;
    static const char *const wrong[] = {
        "must_be_aligned",
        "must_be_aligned=",
        "must_be_aligned=3",
        "must_be_aligned=-1",
        "must_be_aligned=64x",
        "must_be_aligned=K",
        "must_be_aligned=1T",
        "must_be_aligned=0x40",
        "must_be_aligned=2G",
        "must_be_aligned=64 K K",
        "must_be_aligned=18446744073709551616",
        "must_be_aligned=99999999999999999999999",
        "must_be_aligned=64kk",
        "must_be_aligned=12K",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); ++i) {
        freq_hints_t hints;
        if (freq_hints_parse(&hints, wrong[i], "freq")) {
            fail_msg("'%s' was accepted", wrong[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(wrong_words),
    };
    return cmocka_run_group_tests_name("freq_hints", tests, NULL, NULL);
}
