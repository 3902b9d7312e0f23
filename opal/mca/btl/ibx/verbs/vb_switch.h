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
 *   broke       the other answer: the connection has ended here
 *   return      leave is taken back, because the connection broke before it was used
 *   give up     the connection broke in use: the peer is lost
 *   round       number of a leave, so that an answer to one that was taken back counts for nothing
 *
 * Only the side that left knows whether something went by a connection that breaks; so the peer says that it broke, and waits
 * for return or give up.
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
    X(BROKEN)    /* the connection broke in use: the peer is lost */

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
    X(BROKE)   /* the same: at its end the connection of that round is no more */                  \
    X(RETURN)  /* the peer takes its leave of that round back */                                   \
    X(GAVE_UP) /* for the peer I am lost */

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
    VB_SWITCH_CUT = 16,    /* the connection is of no use: end it, FAILED is next */
};

/* What is to be said by datagrams; vb_switch_said when it is posted. */
enum {
    VB_SWITCH_SAY_ARRIVED = 1,
    VB_SWITCH_SAY_RETURN = 2,
    VB_SWITCH_SAY_LEAVE = 4,
    VB_SWITCH_SAY_BROKE = 8, /* in the place of arrived */
    VB_SWITCH_SAY_GIVE_UP = 16,
};

typedef struct vb_switch {
    vb_switch_state_t state;
    bool has_left;  /* the peer's messages come by connection */
    bool is_used;   /* something went or came by the connection */
    uint8_t owes;   /* VB_SWITCH_SAY_...; ARRIVED stands for either answer */
    uint16_t round; /* of my last leave */
    uint16_t their_round;
    uint32_t sent; /* messages, puts and gets by datagrams */
} vb_switch_t;

static inline void vb_switch_init(vb_switch_t *sw)
{
    *sw = (vb_switch_t){.state = VB_SWITCH_DATAGRAM};
}

/* after: how many messages make a peer worth a connection. has_slot: one more connection is allowed.
 * round: of LEAVE, ARRIVED, RETURN and BROKE, else 0. Returns actions. */
unsigned vb_switch_step(vb_switch_t *sw, vb_switch_event_t event, uint16_t round, uint32_t after,
                     bool has_slot);

/* What to say next: one of VB_SWITCH_SAY_..., and its round; 0: nothing. has_link: a connection is there, or being made. To be
 * asked after each event, and when an attempt to connect has come to nothing. */
unsigned vb_switch_next(const vb_switch_t *sw, bool has_link, uint16_t *round);
/* It is posted. True: messages that wait may go. */
bool vb_switch_said(vb_switch_t *sw, unsigned what);

/* A message, a put or a get goes, or a message has come, by the connection. */
static inline void vb_switch_used(vb_switch_t *sw)
{
    sw->is_used = true;
}

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
