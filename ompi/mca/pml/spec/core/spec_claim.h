/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Whose is an offered buffer: the sender's, which is about to write into it, or the receiver's, which takes it back?
 *
 * One word for each offer, in memory that both processes reach (docs/design/protocol.md, "Taking a receive back"). The
 * receiver offers before its RTR leaves. Of the sender, which takes right before it writes, and the receiver, which
 * withdraws, only the first succeeds, and neither waits for the other. What the second does is always right: the sender
 * sends its message by RTS; the receiver gets the message that the sender is sending.
 *
 * The word tells which offer it is of, so that a late RTR takes nothing but its own. The peer can write what it likes
 * there: the receiver then takes nothing back, and waits for REVOKED.
 *
 * Threads: any, in both processes. */
#ifndef SPEC_CLAIM_H
#define SPEC_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPEC_CLAIM_OFFERED = 1, SPEC_CLAIM_TAKEN, SPEC_CLAIM_WITHDRAWN };

/* An offer and where its word is; at NULL: nowhere. */
typedef struct spec_claim {
    uint64_t *at;
    uint32_t no; /* of the offer; another one each time the word is used */
} spec_claim_t;

static inline uint64_t spec_claim_word(uint32_t no, unsigned state)
{
    return (uint64_t) no << 2 | state;
}

/* The receiver, whose word it is: nobody knows of the offer yet. */
static inline void spec_claim_offer(const spec_claim_t *claim)
{
    __atomic_store_n(claim->at, spec_claim_word(claim->no, SPEC_CLAIM_OFFERED), __ATOMIC_RELEASE);
}

static inline bool spec_claim_settle(const spec_claim_t *claim, unsigned state)
{
    uint64_t offered = spec_claim_word(claim->no, SPEC_CLAIM_OFFERED);
    return __atomic_compare_exchange_n(claim->at, &offered, spec_claim_word(claim->no, state),
                                       false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* The sender: may it write? Without a word it may, since the receiver then waits for it. */
static inline bool spec_claim_take(const spec_claim_t *claim)
{
    return NULL == claim->at || spec_claim_settle(claim, SPEC_CLAIM_TAKEN);
}

/* The receiver: is it certain that the sender never writes? Not without a word. */
static inline bool spec_claim_withdraw(const spec_claim_t *claim)
{
    return NULL != claim->at && spec_claim_settle(claim, SPEC_CLAIM_WITHDRAWN);
}

#endif
