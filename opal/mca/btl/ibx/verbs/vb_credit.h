/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Credits of one connection whose receive queues are its own: how much each side may send.
 *
 * Words
 *   have     messages that I may still send: receive buffers over there that nothing was sent to
 *   owed     receive buffers here that are posted and that the peer was not told about
 *   control  messages that bring credits or say goodbye; they must not wait for credits, so each side
 *            keeps VB_CONTROL_MAX buffers for them beside the window
 * After Jiuxing Liu's scheme as thesis 002 section 3.4.2.4 uses it (MaxCredit is the window,
 * CreditSyncLimit is vb_credit_is_due), with counts in place of positions, because the window changes.
 *
 * Invariant: have (here) + credits in flight + owed (there) + messages not yet consumed (there)
 * is the window there, once a change of it has gone through; and at most VB_CONTROL_MAX control
 * messages are where the receiver has not posted their buffer again: `seen` says how many it has.
 * iWARP ends a connection when a message finds no buffer, so neither count may ever be exceeded.
 *
 * Pure: no I/O, no clock. */
#ifndef VB_CREDIT_H
#define VB_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#define VB_CONTROL_MAX 4u

/* More than this nobody gives: a larger sum is a fault of the peer. */
#define VB_CREDITS_MAX 32768u

typedef struct vb_credit {
    bool is_counted;  /* what I send needs credits */
    bool is_counting; /* what I receive needs credits */
    uint32_t have;
    uint32_t owed;
    uint16_t control_sent, control_seen; /* mine; of those the peer has posted buffers again */
    uint16_t control_got;                /* the peer's, here */
} vb_credit_t;

static inline void vb_credit_init(vb_credit_t *c, bool is_counting)
{
    *c = (vb_credit_t){.is_counting = is_counting};
}

/* The peer's hello: credits are messages that I may send, or VB_UNCOUNTED (is_counted false). */
static inline void vb_credit_open(vb_credit_t *c, bool is_counted, uint32_t credits)
{
    c->is_counted = is_counted;
    c->have = is_counted ? credits : 0;
}

static inline bool vb_credit_may_send(const vb_credit_t *c)
{
    return !c->is_counted || c->have > 0;
}

static inline bool vb_credit_may_control(const vb_credit_t *c)
{
    return !c->is_counted || (uint16_t) (c->control_sent - c->control_seen) < VB_CONTROL_MAX;
}

/* What a header tells: as many credits as it holds. To be called for each header that is sent. */
static inline uint16_t vb_credit_tell(vb_credit_t *c)
{
    const uint16_t told = c->owed < UINT16_MAX ? (uint16_t) c->owed : UINT16_MAX;
    c->owed -= told;
    return told;
}

static inline void vb_credit_sent(vb_credit_t *c, bool is_control)
{
    if (is_control) {
        ++c->control_sent;
    } else if (c->is_counted) {
        --c->have;
    }
}

/* It was not sent after all: give back what vb_credit_tell took. */
static inline void vb_credit_untell(vb_credit_t *c, uint16_t told)
{
    c->owed += told;
}

/* A header arrived. False: the peer gives or has seen what cannot be. */
static inline bool vb_credit_got(vb_credit_t *c, uint16_t credits, uint16_t seen, bool is_control)
{
    if (!c->is_counted) {
        credits = 0;
    } else if (c->have + credits > VB_CREDITS_MAX
               || (uint16_t) (seen - c->control_seen)
                      > (uint16_t) (c->control_sent - c->control_seen)) {
        return false;
    }
    c->have += credits;
    c->control_seen = c->is_counted ? seen : c->control_sent;
    c->control_got = (uint16_t) (c->control_got + (is_control ? 1 : 0));
    return true;
}

/* A buffer for a message is posted (again). */
static inline void vb_credit_posted(vb_credit_t *c, uint32_t n)
{
    if (c->is_counting) {
        c->owed += n;
    }
}

/* Is it time for a control message that brings the credits? Half of the window, as far as it has buffers: by then nothing
 * that goes the other way has brought them. */
static inline bool vb_credit_is_due(const vb_credit_t *c, uint32_t window)
{
    return c->owed > 0 && c->owed >= window / 2;
}

#endif
