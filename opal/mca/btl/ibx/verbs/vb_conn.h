/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The connection to one process as a state machine: states, events, and the actions that follow.
 *
 * Words
 *   attempt   one rdma_cm id on its way to be a connection; mine if I asked, the peer's if it did
 *   crossed   both asked at once. The attempt of the process with the smaller name stands: its owner
 *             rejects the other's, and the other gives its own up when it hears of that or is asked
 *   first     the side that asked sends first, on all fabrics; the other keeps its messages until something has arrived. The
 *             first word is repeated a few times while nothing arrives
 *   resume    a connection that broke in use is made again. What it has brought is taken before (BREAKING), because each side
 *             tells the other how many messages it has when it asks and when it answers (vb_sent.h)
 *   elsewhere by messages of another port that reaches the peer (vb_failover.c), while its own network carries nothing
 *
 * Pure: time is a parameter (nanoseconds), actions are returned. docs/design/verbs.md has the table, and the reasons. */
#ifndef VB_CONN_H
#define VB_CONN_H

#include <stdbool.h>
#include <stdint.h>

#define VB_CONN_STATES(X)                                                                          \
    X(IDLE)       /* no attempt */                                                                 \
    X(RESOLVING)  /* mine: address */                                                              \
    X(ROUTING)    /* mine: route */                                                                \
    X(CONNECTING) /* mine: asked */                                                                \
    X(WAITING)    /* no attempt: for the peer's, or until the next of mine */                      \
    X(ACCEPTING)  /* the peer's: accepted, nothing has arrived yet */                              \
    X(OPEN)       /* messages may go */                                                            \
    X(BREAKING)   /* it broke, or what I accepted did: what it has brought is being taken */       \
    X(PARTED)     /* the peer said goodbye */                                                      \
    X(CLOSED)     /* ended in order */                                                             \
    X(DEAD)       /* ended otherwise */

typedef enum vb_conn_state {
#define X(name) VB_##name,
    VB_CONN_STATES(X)
#undef X
} vb_conn_state_t;

#define VB_CONN_EVENTS(X)                                                                          \
    X(WANTED)       /* there is something to send */                                               \
    X(ADDRESS)      /* resolved */                                                                 \
    X(ROUTE)        /* resolved */                                                                 \
    X(ESTABLISHED)  /* by the fabric */                                                            \
    X(ARRIVED)      /* the first message */                                                        \
    X(ASKED)        /* the peer's request */                                                       \
    X(ASKED_AGAIN)  /* likewise; it had a connection, which broke */                               \
    X(ASKED_ELSEWHERE) /* likewise, by another port */                                             \
    X(CARRIED)      /* mine, by another port, whose own connection is good: the process lives */      \
    X(REJECTED)     /* mine, for now */                                                            \
    X(ABSENT)       /* mine: nobody listens there */                                               \
    X(CROSS)        /* mine, because the peer's stands */                                          \
    X(REFUSED)      /* mine, for good; or the connection cannot go on */                           \
    X(FAILED)       /* the attempt or the connection */                                            \
    X(TIMEOUT)      /* vb_conn_is_late */                                                          \
    X(DISCONNECTED) /* by the peer or the fabric */                                                \
    X(STILL)        /* nothing comes any more of the connection that broke */                      \
    X(GOODBYE)      /* the peer's last message */                                                  \
    X(CLOSE)        /* I end it */

typedef enum vb_conn_event {
#define X(name) VB_ON_##name,
    VB_CONN_EVENTS(X)
#undef X
} vb_conn_event_t;

/* Actions, to be done in this order. */
enum {
    VB_DO_BREAK = 2048,  /* disconnect, and take what has arrived; STILL follows */
    VB_DO_DROP = 1,      /* give the attempt or connection up */
    VB_DO_RESOLVE = 2,   /* begin an attempt: resolve the address */
    VB_DO_ROUTE = 4,     /* resolve the route */
    VB_DO_CONNECT = 8,   /* ask */
    VB_DO_ACCEPT = 16,   /* the peer's attempt */
    VB_DO_CROSSED = 32,  /* reject it: mine stands */
    VB_DO_BUSY = 64,     /* reject it: not now */
    VB_DO_REFUSE = 4096, /* reject it for good */
    VB_DO_FIRST = 128,   /* send the first word, perhaps again */
    VB_DO_READY = 256,   /* messages may go */
    VB_DO_BYE = 512,     /* say goodbye, then drop */
    VB_DO_REPORT = 1024, /* the peer is lost */
};

typedef struct vb_conn_rules {
    uint64_t attempt_ns; /* an attempt may take this long */
    uint64_t backoff_ns; /* then the next begins after this, twice as long each time */
    uint32_t tries;      /* so many attempts of mine, at least 1 */
    uint64_t word_ns; /* the first word is said again after this, then after 8 times as long, ... */
    uint32_t words;   /* so many times */
    /* A connection that breaks in use is made again if the peer gives an answer within this; 0: the peer is lost. So it is after more
     * than `breaks` in a row that broke within this: a way that carries small things only does not keep a process for ever. */
    uint64_t resume_ns;
    uint32_t breaks;
    uint64_t trial_ns;  /* an attempt to resume may take this long where the peer is reached elsewhere, too; */
    uint64_t return_ns; /* its own network is tried after this, then after twice as long each time */
} vb_conn_rules_t;

typedef struct vb_conn {
    vb_conn_state_t state;
    bool stands;    /* my attempt, if both ask */
    bool is_wanted; /* something waits to be sent */
    uint32_t tries;
    uint32_t words;    /* said again */
    uint64_t deadline; /* 0: none */
    uint8_t spread;        /* of pauses between attempts to resume: another one for each pair, and each of its ends */
    bool is_resumed;       /* it was open once, and broke */
    bool is_again;         /* so it was, or what I accepted broke: the peer may have been open, and what is asked for goes on there */
    bool has_elsewhere;    /* another port may reach the peer: the owner's to set */
    bool is_stranded;      /* its own network is of no use any more: the owner's to set */
    bool is_elsewhere;     /* so goes the attempt or connection */
    bool asks_elsewhere;   /* so did the request come that was stepped with last */
    bool goes_home;        /* it was elsewhere, and ended: the own network is tried first */
    uint32_t trials;       /* of it, since a connection by it lasted */
    uint32_t breaks;       /* in a row, each soon after it was opened */
    uint64_t opened_at;    /* when it was opened last */
    uint64_t resume_until; /* then the peer is lost, if it gives no answer */
} vb_conn_t;

/* me and peer are names of processes, and not the same. */
void vb_conn_init(vb_conn_t *conn, uint64_t me, uint64_t peer);

/* Returns actions. */
unsigned vb_conn_step(vb_conn_t *conn, vb_conn_event_t event, uint64_t now,
                      const vb_conn_rules_t *rules);

static inline bool vb_conn_is_late(const vb_conn_t *conn, uint64_t now)
{
    return 0 != conn->deadline && now >= conn->deadline;
}

/* An attempt of mine is under way. */
static inline bool vb_conn_is_asking(const vb_conn_t *conn)
{
    return VB_RESOLVING == conn->state || VB_ROUTING == conn->state || VB_CONNECTING == conn->state;
}

/* Is it my first? A peer that does not answer to it keeps nobody waiting by its further ones. */
static inline bool vb_conn_is_first_attempt(const vb_conn_t *conn)
{
    return 1 == conn->tries && !conn->is_again && vb_conn_is_asking(conn);
}

/* Is it one to resume? */
static inline bool vb_conn_is_resuming(const vb_conn_t *conn)
{
    return conn->is_again && vb_conn_is_asking(conn);
}

/* Would the next attempt to resume begin now? If others are to be first, that time is not the peer's: it gets as much more. */
static inline bool vb_conn_is_to_resume(const vb_conn_t *conn, uint64_t now)
{
    return conn->is_again && VB_WAITING == conn->state && vb_conn_is_late(conn, now);
}

/* Nothing will ever be sent again. */
static inline bool vb_conn_is_over(const vb_conn_t *conn)
{
    return conn->state >= VB_PARTED;
}

const char *vb_conn_state_name(vb_conn_state_t state);
const char *vb_conn_event_name(vb_conn_event_t event);

#endif
