/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Policy: how long a nonblocking send of a large message waits for the RTR that may be on its way, before it announces the
 * message with an RTS; and a nonblocking receive for the RTS. What for: docs/design/protocol.md, "Patience".
 *
 *   an RTR crossed its RTS       the wait doubles, if it was too short (or there was none)
 *   a wait in vain, no crossing  it halves: nobody was about to come
 *
 * What it may cost is an account of time. A crossed RTR brings 1/SPEC_PATIENCE_TRY of the time that its message takes
 * to move, one that was waited for 1/SPEC_PATIENCE_GAIN of it; waiting takes what it takes, and needs a
 * balance. So where it is of no use it takes less than one in SPEC_PATIENCE_TRY of the transfers' time. The first crossing brings
 * as much as is kept, once: adaptation would have stopped the RTRs before a wait that is long enough was saved up.
 *
 * Pure; times in nanoseconds, lengths in bytes. Threads: the caller's lock. */
#ifndef SPEC_PATIENCE_H
#define SPEC_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* The first wait, the shortest that is worth it, and the longest. */
#define SPEC_PATIENCE_FIRST_NS 100000u
#define SPEC_PATIENCE_LEAST_NS 4000u
#define SPEC_PATIENCE_MOST_NS  2000000u
/* Parts of a message's time: what a crossing brings, what a wait that was of use brings, what is kept. */
#define SPEC_PATIENCE_TRY  256u
#define SPEC_PATIENCE_GAIN 8u
#define SPEC_PATIENCE_KEEP 4u
/* Shorter messages are not worth reading the clock. */
#define SPEC_PATIENCE_LEAST UINT64_C(65536)

typedef struct spec_patience {
    uint32_t wait;    /* 0: they do not cross; read without the lock, too */
    uint32_t balance; /* what may be waited */
    /* Of a transfer to or from the peer, about the fastest lately, in picoseconds; 0: none was seen. Read without the lock, too. */
    uint32_t ps_per_byte;
    bool vain;     /* the last wait was in vain, as far as is known */
    bool advanced; /* the account has had its advance */
} spec_patience_t;

/* Fields that are read without the lock, as they were a moment ago. */
static inline void spec_patience_set(uint32_t *read_unlocked, uint32_t to)
{
    __atomic_store_n(read_unlocked, to, __ATOMIC_RELAXED);
}

/* How long a message of this length moves. */
static inline uint64_t spec_patience_worth(const spec_patience_t *p, uint64_t length)
{
    const uint64_t most = UINT64_C(1) << 31; /* the length may be what a peer says */
    return (length < most ? length : most) * p->ps_per_byte / 1000;
}

/* A transfer took ns, and this processor did not do it. While others share the way, or nothing polls, it takes longer:
 * the fastest counts, and is forgotten slowly. */
static inline void spec_patience_moved(spec_patience_t *p, uint64_t length, uint64_t ns)
{
    const uint64_t ps = length < SPEC_PATIENCE_LEAST ? 0 : ns * 1000 / length;
    if (0 == ps) {
        return;
    }
    const uint32_t now = ps < UINT32_MAX ? (uint32_t) ps : UINT32_MAX;
    spec_patience_set(&p->ps_per_byte, 0 == p->ps_per_byte || now < p->ps_per_byte
                                           ? now
                                           : p->ps_per_byte + (now - p->ps_per_byte) / 32);
}

static inline void spec_patience_earn(spec_patience_t *p, uint64_t worth, uint32_t part)
{
    uint64_t keep = worth / SPEC_PATIENCE_KEEP;
    keep = keep < SPEC_PATIENCE_MOST_NS ? keep : SPEC_PATIENCE_MOST_NS;
    const uint64_t sum = p->balance + worth / part;
    p->balance = (uint32_t) (sum < keep ? sum : keep > p->balance ? keep : p->balance);
}

/* An RTR for a message of about this length crossed the RTS, or its RTS came just after the receive. */
static inline void spec_patience_crossed(spec_patience_t *p, uint64_t length)
{
    const uint64_t worth = spec_patience_worth(p, length);
    spec_patience_earn(p, worth, p->advanced ? SPEC_PATIENCE_TRY : SPEC_PATIENCE_KEEP);
    p->advanced |= worth > 0;
    if (0 == p->wait) {
        spec_patience_set(&p->wait, SPEC_PATIENCE_FIRST_NS);
    } else if (p->vain) {
        spec_patience_set(&p->wait, p->wait < SPEC_PATIENCE_MOST_NS / 2 ? 2 * p->wait
                                                                        : SPEC_PATIENCE_MOST_NS);
    }
    p->vain = false;
}

/* A message is about to be announced: how long to wait for its RTR. 0: not at all. */
static inline uint32_t spec_patience_of(spec_patience_t *p)
{
    if (p->vain) {
        p->vain = false;
        spec_patience_set(&p->wait, p->wait / 2);
    }
    if (p->wait < SPEC_PATIENCE_LEAST_NS) {
        spec_patience_set(&p->wait, 0);
    }
    const uint32_t ns = p->wait < p->balance ? p->wait : p->balance;
    return ns < SPEC_PATIENCE_LEAST_NS ? 0 : ns;
}

/* The RTR for a message of this length came, or did not, after waiting. */
static inline void spec_patience_waited(spec_patience_t *p, uint64_t length, uint64_t ns, bool came)
{
    p->balance = ns < p->balance ? p->balance - (uint32_t) ns : 0;
    p->vain = !came;
    if (came) {
        spec_patience_earn(p, spec_patience_worth(p, length), SPEC_PATIENCE_GAIN);
    }
}

#endif
