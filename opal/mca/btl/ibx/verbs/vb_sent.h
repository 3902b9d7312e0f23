/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What is to be posted again when a connection has broken in use and another has been made in its place.
 *
 * A work request that the adapter has not called complete may have arrived or not. Only the other side knows: each says, when the
 * new connection is made, how many messages it has had from the other (vb_hello_t: received), after it has taken all that the
 * old one brought. A queue pair does its work requests in their order, so with a message everything before it is there.
 *
 *   message     is there if it is among those that the other side has had: nothing is sent twice
 *   write       is there if a message behind it is; else it is done again, perhaps for the second time, before anybody was
 *               told that it is there
 *   read        is done again: that its answer was sent does not mean that it came
 *   atomic      cannot be done twice: with one outstanding the peer is lost
 *   control     belongs to the connection that broke
 *
 * Counts are of 16 bits: no more messages than a send queue holds are ever without an answer.
 *
 * Pure. */
#ifndef VB_SENT_H
#define VB_SENT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum vb_sent_kind {
    VB_SENT_CONTROL,
    VB_SENT_MESSAGE,
    VB_SENT_WRITE,
    VB_SENT_READ,
    VB_SENT_ATOMIC
} vb_sent_kind_t;

typedef struct vb_sent {
    uint8_t kind;  /* vb_sent_kind_t */
    uint16_t mark; /* it is there when the other side has had so many messages */
} vb_sent_t;

/* Posted after so many messages. */
static inline vb_sent_t vb_sent(vb_sent_kind_t kind, uint16_t messages)
{
    return (vb_sent_t){.kind = (uint8_t) kind, .mark = (uint16_t) (messages + 1)};
}

/* Is it there, if the other side has had so many messages? */
static inline bool vb_sent_has_arrived(vb_sent_t sent, uint16_t received)
{
    return (VB_SENT_MESSAGE == sent.kind || VB_SENT_WRITE == sent.kind)
           && (uint16_t) (received - sent.mark) <= INT16_MAX;
}

/* Can it have had so many, if `unknown` of those sent have no answer? */
static inline bool vb_sent_is_possible(uint16_t received, uint16_t sent, uint32_t unknown)
{
    return (uint16_t) (sent - received) <= unknown;
}

#endif
