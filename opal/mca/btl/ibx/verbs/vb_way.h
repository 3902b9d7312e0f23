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
 * Rules. (1) Between saying leave and hearing arrived nothing is sent but control. (2) Nothing is sent by
 * connection before arrived. (3) A message that comes by connection while the peer has not said leave
 * breaks the protocol. From these: whatever was given to the way first arrives first, data of writes and
 * reads included, if leave is said behind the reads (IW_FENCE). The two directions of a peer change
 * independently; each side has one vb_way_t, for what it sends, with what it knows of the other's.
 *
 * Pure: no I/O, no clock. docs/design/verbs.md draws it. */
#ifndef VB_WAY_H
#define VB_WAY_H

#include <stdbool.h>
#include <stdint.h>

#define VB_WAY_STATES(X)                                                                           \
    X(DATAGRAM)  /* by datagrams */                                                                \
    X(ASKED)     /* the same; a connection is being made */                                        \
    X(LEAVING)   /* the connection is there; messages wait for the peer's answer to leave */       \
    X(CONNECTED) /* by connection */                                                               \
    X(STAYING)   /* by datagrams: no connection could be had; if the peer makes one it is used */  \
    X(BROKEN)    /* the connection broke when it may have been used: the peer is lost */

typedef enum vb_way_state {
#define X(name) VB_WAY_##name,
    VB_WAY_STATES(X)
#undef X
} vb_way_state_t;

#define VB_WAY_EVENTS(X)                                                                           \
    X(SENT)    /* something given to the datagrams is with the peer */                             \
    X(OPEN)    /* the connection is there, whoever asked for it */                                 \
    X(FAILED)  /* it could not be made, or has ended */                                            \
    X(LEAVE)   /* the peer says so, in its round */                                                \
    X(ARRIVED) /* the peer answers mine of that round */                                           \
    X(RETURN)  /* the peer takes its leave of that round back */

typedef enum vb_way_event {
#define X(name) VB_WAY_ON_##name,
    VB_WAY_EVENTS(X)
#undef X
} vb_way_event_t;

/* Actions. */
enum {
    VB_WAY_CONNECT = 1, /* ask for a connection */
    VB_WAY_GO = 2,      /* messages that wait may go */
    VB_WAY_LOSE = 4,    /* the peer is lost */
    VB_WAY_FAULT = 8,   /* the peer said what it cannot: it is lost */
};

/* What is to be said by datagrams, in this order; vb_way_said when it is posted. */
enum {
    VB_WAY_SAY_ARRIVED = 1,
    VB_WAY_SAY_RETURN = 2,
    VB_WAY_SAY_LEAVE = 4,
};

typedef struct vb_way {
    vb_way_state_t state;
    bool has_left;  /* the peer's messages come by connection */
    uint8_t owes;   /* VB_WAY_SAY_... */
    uint16_t round; /* of my last leave */
    uint16_t their_round;
    uint32_t sent; /* messages, puts and gets by datagrams */
} vb_way_t;

static inline void vb_way_init(vb_way_t *way)
{
    *way = (vb_way_t){.state = VB_WAY_DATAGRAM};
}

/* after: how many messages make a peer worth a connection. has_place: one more connection is allowed.
 * round: of LEAVE, ARRIVED and RETURN, else 0. Returns actions. */
unsigned vb_way_step(vb_way_t *way, vb_way_event_t event, uint16_t round, uint32_t after,
                     bool has_place);

/* What to say next: one of VB_WAY_SAY_..., and its round; 0: nothing. */
unsigned vb_way_next(const vb_way_t *way, uint16_t *round);
/* It is posted. True: messages that wait may go. */
bool vb_way_said(vb_way_t *way, unsigned what);

static inline bool vb_way_is_connected(const vb_way_t *way)
{
    return VB_WAY_CONNECTED == way->state;
}

static inline bool vb_way_is_by_datagrams(const vb_way_t *way)
{
    return VB_WAY_DATAGRAM == way->state || VB_WAY_ASKED == way->state
           || VB_WAY_STAYING == way->state;
}

/* May a message go by datagrams now? Not behind leave, until that is taken back. */
static inline bool vb_way_takes_datagrams(const vb_way_t *way)
{
    return vb_way_is_by_datagrams(way) && !(way->owes & VB_WAY_SAY_RETURN);
}

const char *vb_way_state_name(vb_way_state_t state);
const char *vb_way_event_name(vb_way_event_t event);

#endif
