/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The sentences at the end of a summary (core/spec_conclude.h): the right one for each kind of job, none of what is no
 * matter, and no line that is too wide, however large the numbers are. */
#include "spec_unit.h"

#include "spec_conclude.h"

static char text[SPEC_CONCLUDE_TEXT];

/* The sentences about a job are these: the beginning of each, NULL behind the last. */
static void concludes(const spec_totals_t *t, ...)
{
    const char *at = text;
    va_list wanted;
    const size_t n = spec_conclude(t, text);
    assert_int_equal(n, strlen(text));
    va_start(wanted, t);
    for (const char *each; NULL != (each = va_arg(wanted, const char *));) {
        if (0 != strncmp(at, each, strlen(each))) {
            fail_msg("not '%s' but: %s", each, at);
        }
        /* Its further lines begin with more space. */
        do {
            at = strchr(at, '\n');
            assert_non_null(at);
            ++at;
        } while (0 == strncmp(at, "    ", 4));
    }
    va_end(wanted);
    if ('\0' != *at) {
        fail_msg("one too many: %s", at);
    }
}

#define ALL_IN_TIME "  200 of 200 large messages went into a buffer"

static void small_messages_need_no_help(void **state)
{
    (void) state;
    concludes(&(spec_totals_t){.sent_eager = 7, .bytes = 70}, "  No message was large: each of 7 went", NULL);
}

static void late_receives(void **state)
{
    (void) state;
    spec_totals_t t = {.sent_rts = 99, .sent_rtr = 101, .late = 99, .rtr_sent = 200, .bytes = 1 << 20};
    concludes(&t, "  101 of 200 large messages", "  99 of 200 receives were posted late", NULL);
    /* A message may be counted by the RTR that it crossed and by itself. */
    t.late = 120;
    concludes(&t, "  101 of 200 large messages", "  99 of 200 receives were posted late", NULL);
    t.late = 0;
    concludes(&t, "  101 of 200 large messages", "  99 of 200 receives of large messages were in time", NULL);
}

static void what_is_rare_is_not_told(void **state)
{
    (void) state;
    spec_totals_t t = {.sent_rtr = 200, .rtr_sent = 200, .bytes = 1000};
    concludes(&t, ALL_IN_TIME, NULL);
    t.rtr_in_vain = 200 / SPEC_CONCLUDE_SHARE - 1;
    t.bytes_copied = 1000 / SPEC_CONCLUDE_SHARE - 1;
    t.queued = t.rtr_in_vain;
    concludes(&t, ALL_IN_TIME, NULL);
    t.rtr_in_vain++, t.bytes_copied++, t.queued++;
    concludes(&t, ALL_IN_TIME, "  10 of 200 offers were in vain", "  5 % of the data were copied",
              "  10 of 200 sends waited for credit", NULL);
}

static void what_went_wrong_is_always_told(void **state)
{
    (void) state;
    concludes(&(spec_totals_t){.sent_rtr = 200, .rtr_sent = 200, .fallbacks = 1, .refused = 1}, ALL_IN_TIME,
              "  1 transfers by RDMA failed", "  1 packets made no sense", NULL);
}

static void an_agent_is_told_of(void **state)
{
    (void) state;
    spec_totals_t t = {.sent_eager = 7, .bytes = 70, .agent_wakes = 5, .agent_ended = 3, .agent_ns = 2500000};
    concludes(&t, "  No message was large", NULL); /* there was none */
    t.agent_lived_ns = 10000000;
    concludes(&t, "  No message was large",
              "  The progress agents woke 5 times, ran for 2 ms (25.0 % of a processor each)", NULL);
}

static void no_line_is_too_wide(void **state)
{
    (void) state;
    const uint64_t much = UINT64_C(99999999999);
    const spec_totals_t t = {much, much, much, much / 2, much, much, much, much, much, much, much,
                             much, much, much, much};
    spec_conclude(&t, text);
    assert_true(strlen(text) + 200 < SPEC_CONCLUDE_TEXT);
    for (const char *at = text, *end; NULL != (end = strchr(at, '\n')); at = end + 1) {
        assert_in_range(end - at, 1, SPEC_CONCLUDE_LINE + 20);
    }
    /* With a million messages they fit. */
    const uint64_t many = 1000000;
    const spec_totals_t usual = {many, many, many, many / 2, many, many, many, many, many, many, many,
                                 many, many, 3600 * 1000 * many, 3600 * 1000 * many};
    spec_conclude(&usual, text);
    for (const char *at = text, *end; NULL != (end = strchr(at, '\n')); at = end + 1) {
        assert_in_range(end - at, 1, SPEC_CONCLUDE_LINE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages_need_no_help), cmocka_unit_test(late_receives),
        cmocka_unit_test(what_is_rare_is_not_told),    cmocka_unit_test(what_went_wrong_is_always_told),
        cmocka_unit_test(an_agent_is_told_of),         cmocka_unit_test(no_line_is_too_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
