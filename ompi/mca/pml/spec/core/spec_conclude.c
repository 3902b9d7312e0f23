/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The sentences at the end of the summary: what the counters of a job mean, and what to do. */
#include "spec_conclude.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static bool matters(uint64_t part, uint64_t whole)
{
    return part > 0 && part >= whole / SPEC_CONCLUDE_SHARE;
}

/* Adds a sentence, if it is one to be told. */
static __attribute__((format(printf, 4, 5))) void say(bool told, char *text, size_t *n,
                                                      const char *format, ...)
{
    va_list words;
    if (!told) {
        return;
    }
    va_start(words, format);
    const int added = vsnprintf(text + *n, SPEC_CONCLUDE_TEXT - *n, format, words);
    va_end(words);
    if (added > 0) {
        *n += (size_t) added;
    }
}

size_t spec_conclude(const spec_totals_t *t, char *text)
{
#define U(value) ((unsigned long long) (value))
    const uint64_t large = t->sent_rts + t->sent_rtr,
                   late = t->late < t->sent_rts ? t->late : t->sent_rts,
                   not_offered = t->sent_rts - late;
    size_t n = 0;
    say(0 == large, text, &n,
        "  No message was large: each of %llu went with its data at once, which needs no help.\n",
        U(t->sent_eager));
    say(t->sent_rtr > 0, text, &n,
        "  %llu of %llu large messages went into a buffer that was offered in advance: these cost the\n"
        "    receiver nothing while it computes.\n",
        U(t->sent_rtr), U(large));
    say(matters(late, large), text, &n,
        "  %llu of %llu receives were posted late, after their large message was sent: see \"late\" in\n"
        "    mca_pml_spec(7), CONCLUSIONS.\n",
        U(late), U(large));
    say(matters(not_offered, large), text, &n,
        "  %llu of %llu receives of large messages were in time, and no buffer was offered: see\n"
        "    \"not offered\" in mca_pml_spec(7); pml_spec_verbose 20 says why.\n",
        U(not_offered), U(large));
    say(matters(t->rtr_in_vain, t->rtr_sent), text, &n,
        "  %llu of %llu offers were in vain: the receive was cancelled, or larger or smaller than its\n"
        "    message; see \"in vain\" in mca_pml_spec(7).\n",
        U(t->rtr_in_vain), U(t->rtr_sent));
    say(matters(t->bytes_copied, t->bytes), text, &n,
        "  %.0f %% of the data were copied in fragments: datatypes with gaps, a transport without RDMA,\n"
        "    or shared memory; see \"copied\" in mca_pml_spec(7).\n",
        100.0 * (double) t->bytes_copied / (double) t->bytes);
    say(matters(t->queued, t->sent_eager + large), text, &n,
        "  %llu of %llu sends waited for credit: their receivers are far behind;\n"
        "    see \"queued\" in mca_pml_spec(7).\n",
        U(t->queued), U(t->sent_eager + large));
    say(t->fallbacks > 0, text, &n,
        "  %llu transfers by RDMA failed and were done by copy: is the limit of locked memory (ulimit -l)\n"
        "    too low?\n",
        U(t->fallbacks));
    say(t->refused > 0, text, &n,
        "  %llu packets made no sense and were refused: see \"packet refused\" in the troubleshooting.\n",
        U(t->refused));
    say(t->agent_lived_ns > 0, text, &n,
        "  The progress agents woke %llu times, ran for %llu ms (%.1f %% of a processor each) and\n"
        "    brought %llu nonblocking sends and receives to their end.\n",
        U(t->agent_wakes), U(t->agent_ns / 1000000),
        100.0 * (double) t->agent_ns / (double) t->agent_lived_ns, U(t->agent_ended));
#undef U
    return n;
}
