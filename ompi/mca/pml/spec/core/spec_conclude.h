/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What the counters of a job mean, in sentences: the end of the summary. Each sentence has a figure, the whole that it is a
 * part of, and what to do, or where to read it (mca_pml_spec(7), CONCLUSIONS). What concerns fewer than one of
 * SPEC_CONCLUDE_SHARE is not worth a sentence, but for what went wrong.
 *
 * Threads: pure functions. */
#ifndef SPEC_CONCLUDE_H
#define SPEC_CONCLUDE_H

#include <stddef.h>
#include <stdint.h>

enum {
    SPEC_CONCLUDE_SHARE = 20,  /* one of so many is worth a sentence */
    SPEC_CONCLUDE_LINE = 100,  /* columns at most */
    SPEC_CONCLUDE_TEXT = 2048, /* bytes for all sentences, at most */
};

/* Sums over the job, of counters of the same names unless it says more. */
typedef struct spec_totals {
    uint64_t sent_eager, sent_rts, sent_rtr;
    uint64_t late; /* announced messages that arrived before their receive, or crossed its RTR */
    uint64_t rtr_sent;
    uint64_t rtr_in_vain; /* RTRs that met a message which was small, too long or not fit, or were revoked */
    uint64_t bytes, bytes_copied; /* of all data, and of what went in fragments */
    uint64_t queued, fallbacks, refused;
    uint64_t agent_wakes, agent_ended, agent_ns, agent_lived_ns; /* lived 0: there was no agent */
} spec_totals_t;

/* Writes the sentences into text (SPEC_CONCLUDE_TEXT bytes), each on lines of its own, and returns their length. There is
 * at least one. */
size_t spec_conclude(const spec_totals_t *t, char *text);

#endif
