/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which way messages take to a peer that can be reached both by datagrams and by a connection, and how
 * they change from the one to the other without overtaking (thesis 000 section 6.4.2: hybrid channel).
 *
 * Words
 *   datagrams   reliable and in order (the engine of iwarp/ over a UD queue pair): what is said there
 *               last arrives last
 *   connection  an RC queue pair (vb_conn.h), in order too; but nothing orders the two ways
 *   leave       the last thing said by datagrams before messages take the connection
 *   arrived     the answer: all that was said before leave has been taken; the connection may be used
 *   return      leave is taken back, because the connection broke before it was used
 *   round       number of a leave, so that an answer to one that was taken back counts for nothing
 *
 * The two directions of a peer change independently; each side has one vb_switch_t, for what it sends, with what it
 * knows of the other's.
 *
 * Pure: no I/O, no clock. docs/design/verbs.md, Hybrid, draws it and says the rules. */
#ifndef VB_SWITCH_H
#define VB_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#define VB_SWITCH_STATES(X)                                                                           \
    X(DATAGRAM)  /* by datagrams */                                                                \
    X(ASKED)     /* the same; a connection is being made */                                        \
    X(LEAVING)   /* the connection is there; messages wait for the peer's answer to leave */       \
    X(CONNECTED) /* by connection */                                                               \
    X(STAYING)   /* by datagrams: no connection could be had; if the peer makes one it is used */  \
    X(BROKEN)    /* the connection broke when it may have been used: the peer is lost */

typedef enum vb_switch_state {
#define X(name) VB_SWITCH_##name,
    VB_SWITCH_STATES(X)
#undef X
} vb_switch_state_t;

#define VB_SWITCH_EVENTS(X)                                                                           \
    X(SENT)    /* something given to the datagrams is with the peer */                             \
    X(OPEN)    /* the connection is there, whichever side asked for it */                                 \
    X(FAILED)  /* it could not be made, or has ended */                                            \
    X(LEAVE)   /* the peer says so, in its round */                                                \
    X(ARRIVED) /* the peer answers mine of that round */                                           \
    X(RETURN)  /* the peer takes its leave of that round back */

typedef enum vb_switch_event {
#define X(name) VB_SWITCH_ON_##name,
    VB_SWITCH_EVENTS(X)
#undef X
} vb_switch_event_t;

/* Actions. */
enum {
    VB_SWITCH_CONNECT = 1, /* ask for a connection */
    VB_SWITCH_GO = 2,      /* messages that wait may go */
    VB_SWITCH_LOSE = 4,    /* the peer is lost */
    VB_SWITCH_FAULT = 8,   /* the peer said what it cannot: it is lost */
};

/* What is to be said by datagrams, in this order; vb_switch_said when it is posted. */
enum {
    VB_SWITCH_SAY_ARRIVED = 1,
    VB_SWITCH_SAY_RETURN = 2,
    VB_SWITCH_SAY_LEAVE = 4,
};

typedef struct vb_switch {
    vb_switch_state_t state;
    bool has_left;  /* the peer's messages come by connection */
    uint8_t owes;   /* VB_SWITCH_SAY_... */
    uint16_t round; /* of my last leave */
    uint16_t their_round;
    uint32_t sent; /* messages, puts and gets by datagrams */
} vb_switch_t;

static inline void vb_switch_init(vb_switch_t *sw)
{
    *sw = (vb_switch_t){.state = VB_SWITCH_DATAGRAM};
}

/* after: how many messages make a peer worth a connection. has_slot: one more connection is allowed.
 * round: of LEAVE, ARRIVED and RETURN, else 0. Returns actions. */
unsigned vb_switch_step(vb_switch_t *sw, vb_switch_event_t event, uint16_t round, uint32_t after,
                     bool has_slot);

/* What to say next: one of VB_SWITCH_SAY_..., and its round; 0: nothing. */
unsigned vb_switch_next(const vb_switch_t *sw, uint16_t *round);
/* It is posted. True: messages that wait may go. */
bool vb_switch_said(vb_switch_t *sw, unsigned what);

static inline bool vb_switch_is_connected(const vb_switch_t *sw)
{
    return VB_SWITCH_CONNECTED == sw->state;
}

static inline bool vb_switch_is_by_datagrams(const vb_switch_t *sw)
{
    return VB_SWITCH_DATAGRAM == sw->state || VB_SWITCH_ASKED == sw->state
           || VB_SWITCH_STAYING == sw->state;
}

/* May a message go by datagrams now? Not behind leave, until that is taken back. */
static inline bool vb_switch_takes_datagrams(const vb_switch_t *sw)
{
    return vb_switch_is_by_datagrams(sw) && !(sw->owes & VB_SWITCH_SAY_RETURN);
}

const char *vb_switch_state_name(vb_switch_state_t state);
const char *vb_switch_event_name(vb_switch_event_t event);

#endif
