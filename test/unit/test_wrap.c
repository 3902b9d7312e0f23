/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Messages in lines (opal/include/spec/wrap.h): no word is lost, no line is too wide, nothing is written behind the end. */
#include "spec_unit.h"

#include "wrap.h"

static void short_ones_stay(void **state)
{
    (void) state;
    char out[64];
    spec_wrap("why: a short one", out, sizeof(out));
    assert_string_equal(out, "why: a short one");
    spec_wrap("", out, sizeof(out));
    assert_string_equal(out, "");
}

static void words_and_columns(void **state)
{
    (void) state;
    rng_t rng = {.state = 7};
    for (int i = 0; i < 2000; ++i) {
        char text[SPEC_WRAP_TEXT], out[SPEC_WRAP_TEXT + 256], again[SPEC_WRAP_TEXT + 256];
        size_t n = 0;
        while (n < 600) {
            for (uint32_t letters = 1 + rng_below(&rng, 0 == rng_below(&rng, 50) ? 120 : 12); letters > 0; --letters) {
                text[n++] = 'a';
            }
            text[n++] = ' ';
        }
        text[n - 1] = '\0';
        spec_wrap(text, out, sizeof(out));
        char *to = again;
        for (const char *at = out; '\0' != *at;) {
            const size_t line = strcspn(at, "\n");
            if (line > SPEC_WRAP_COLUMNS) { /* one word, which is that long */
                assert_null(memchr(at + 4, ' ', line - 4));
            }
            memcpy(to, at, line);
            to += line;
            at += line;
            if ('\n' == *at) {
                assert_memory_equal(at, "\n    ", 5);
                at += 5;
                *to++ = ' ';
            }
        }
        *to = '\0';
        assert_string_equal(again, text);
    }
}

static void what_does_not_fit_is_cut_off(void **state)
{
    (void) state;
    char out[16] = "xxxxxxxxxxxxxxx";
    spec_wrap("one two three four", out, 10);
    assert_string_equal(out, "one two");
    assert_memory_equal(out + 10, "xxxxx", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_ones_stay),
        cmocka_unit_test(words_and_columns),
        cmocka_unit_test(what_does_not_fit_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
