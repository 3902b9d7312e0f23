/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: is it worth it that receivers offer their buffers, for one envelope: one direction of (communicator, peer, tag)?
 * The rules are in docs/design/protocol.md, "Adaptation" (paper 001, section 3.6). Two tables of the same kind:
 *
 *   out, at the sender:  OPEN -> STOPPING -> STOPPED -> OPEN        in, at the receiver:  OPEN -> STOPPED -> OPEN
 *
 * What is not in a table is OPEN. In a full set the entry that was not touched for longest makes room, one that is OPEN first:
 * what is forgotten costs a few RTRs, never correctness, since an RTR is only a hint.
 *
 * Threads: none here; the caller's lock covers one table. */
#ifndef SPEC_ADAPT_H
#define SPEC_ADAPT_H

#include <stdbool.h>
#include <stdint.h>

#define SPEC_ADAPT_WAYS        4u
#define SPEC_ADAPT_LASTING     4u
#define SPEC_ADAPT_BACKOFF_MAX 6u

typedef struct spec_envelope {
    uint32_t ctx; /* communicator, told apart from others that had the same id */
    int32_t peer; /* rank of the other side */
    int32_t tag;
} spec_envelope_t;

typedef enum spec_adapt_state {
    SPEC_ADAPT_OPEN,
    SPEC_ADAPT_STOPPING, /* at the sender: to be told with the next message */
    SPEC_ADAPT_STOPPED,
} spec_adapt_state_t;

typedef struct spec_adapt_entry {
    spec_envelope_t envelope;
    bool in_use;
    uint8_t state;   /* spec_adapt_state_t */
    uint8_t backoff; /* in: the window is this often doubled */
    uint8_t note;    /* the caller's */
    uint32_t seen;   /* in this window: RTRs settled, or receives judged */
    uint32_t good;   /* of them: used, or in time */
    uint32_t mark;   /* out: number of the message that said STOP; in: RTRs since the resume */
    uint32_t touched;
    uint64_t cookie; /* the caller's */
} spec_adapt_entry_t;

typedef struct spec_adapt_policy {
    uint32_t window;     /* RTRs, or receives; at least 1 */
    uint32_t stop_below; /* percent of a window */
    uint32_t resume_at;  /* percent of a window */
} spec_adapt_policy_t;

typedef struct spec_adapt {
    spec_adapt_policy_t policy;
    uint32_t sets; /* a power of two */
    uint32_t clock;
    uint32_t n;       /* entries in use; read without the lock, too */
    uint32_t changes; /* of states, and entries forgotten: what was remembered before is void */
    spec_adapt_entry_t *entry; /* sets x SPEC_ADAPT_WAYS, NULL before the first */
    spec_adapt_entry_t *last;  /* found last, since a message asks several times; NULL: none yet */
} spec_adapt_t;

/* entries: the most that the table holds, rounded up to a power of two of SPEC_ADAPT_WAYS. No
 * memory is allocated yet. */
void spec_adapt_init(spec_adapt_t *a, uint32_t entries, spec_adapt_policy_t policy);
void spec_adapt_fini(spec_adapt_t *a);

/* The share of a window, in percent, from which observation resumes speculation: halfway between
 * stop_below and 100. */
static inline uint32_t spec_adapt_resume_at(uint32_t stop_below)
{
    return stop_below + (100 - stop_below) / 2;
}

static inline bool spec_envelope_is(spec_envelope_t a, spec_envelope_t b)
{
    return a.ctx == b.ctx && a.peer == b.peer && a.tag == b.tag;
}

/* Slow path of the next. */
spec_adapt_entry_t *spec_adapt_search(spec_adapt_t *a, spec_envelope_t envelope);

/* The entry, or NULL. */
static inline spec_adapt_entry_t *spec_adapt_find(spec_adapt_t *a, spec_envelope_t envelope)
{
    spec_adapt_entry_t *last = a->last;
    if ((spec_adapt_entry_t *) 0 == last || !spec_envelope_is(last->envelope, envelope)) {
        return spec_adapt_search(a, envelope);
    }
    last->touched = ++a->clock;
    return last;
}
/* The entry, created if need be; NULL when memory is out. */
spec_adapt_entry_t *spec_adapt_open(spec_adapt_t *a, spec_envelope_t envelope);

/* The latest envelope of a peer that was found STOPPED, to be spared the table. */
typedef struct spec_adapt_memo {
    uint32_t changes; /* as it was then; 0: nothing is remembered */
    int32_t tag;
} spec_adapt_memo_t;

/* Is this tag of the memo's peer STOPPED for sure? */
static inline bool spec_adapt_recalls(const spec_adapt_t *a, const spec_adapt_memo_t *memo,
                                      int32_t tag)
{
    return 0 != memo->changes && memo->changes == a->changes && memo->tag == tag;
}

static inline void spec_adapt_note(const spec_adapt_t *a, spec_adapt_memo_t *memo, int32_t tag)
{
    *memo = (spec_adapt_memo_t){.changes = a->changes, .tag = tag};
}

/* From this length on, bytes, every message of a stopped envelope is judged. */
#define SPEC_ADAPT_LONG UINT64_C(262144)

/* Of shorter ones one in four: reading the clock at both sides would take 2 % of the time of a 4 KiB
 * message over shared memory (0.2 % of the time of a long one). Both sides know the number of a message; it is
 * hashed, lest a regular pattern of tags be always missed. */
static inline bool spec_adapt_samples(uint32_t seq, uint64_t length)
{
    return length >= SPEC_ADAPT_LONG || 0 == (seq * UINT32_C(0x9e3779b1)) >> 30;
}

/* ---- at the sender ---- */

/* An RTR ended: used or dropped. True: STOP is to be said from now on. */
bool spec_adapt_out_settled(spec_adapt_t *a, spec_envelope_t envelope, bool used);
/* Message seq leaves. True: it is to say STOP (asked once per stop). */
bool spec_adapt_out_say(spec_adapt_t *a, spec_envelope_t envelope, uint32_t seq);
/* An RTR arrived that was sent when the receiver expected message e. True: it has resumed. */
bool spec_adapt_out_arrived(spec_adapt_t *a, spec_envelope_t envelope, uint32_t e);

/* As if STOP had been said long ago: any RTR means that the receiver has resumed. */
void spec_adapt_out_preset(spec_adapt_t *a, spec_envelope_t envelope);

/* ---- at the receiver ---- */

/* STOP was said. The entry if that is news, else NULL. */
spec_adapt_entry_t *spec_adapt_in_stop(spec_adapt_t *a, spec_envelope_t envelope);
/* A receive is about to speculate. False: it must not (STOPPED). */
bool spec_adapt_in_may(spec_adapt_t *a, spec_envelope_t envelope);

typedef enum spec_adapt_verdict {
    SPEC_ADAPT_GO_ON,
    SPEC_ADAPT_WINDOW, /* a window ended, still STOPPED: a good time to measure the latency again */
    SPEC_ADAPT_RESUME, /* OPEN again */
} spec_adapt_verdict_t;

/* The message of a receive came that would have sent an RTR: would that have been in time? */
spec_adapt_verdict_t spec_adapt_in_judge(spec_adapt_t *a, spec_envelope_t envelope, bool in_time);

static inline bool spec_adapt_is_stopped(spec_adapt_t *a, spec_envelope_t envelope)
{
    const spec_adapt_entry_t *entry =
        0 == a->n ? (spec_adapt_entry_t *) 0 : spec_adapt_find(a, envelope);
    return entry && SPEC_ADAPT_STOPPED == entry->state;
}

#endif
