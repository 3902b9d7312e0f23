/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Requests, segments, peers and the engine as its own files see them. Not for anybody else.
 *
 * Places. A request is in its peer's list `requests` from posting until it is freed; until all of
 * it has been cut into segments it is also in `sends`, `asks` or, serving a peer, in `responses`; then an atomic operation is
 * in `atomics` until it is answered.
 * A segment is in `in_flight` (sent, ordered by packet number, which is also the order of sending)
 * or in `lost` (to be sent again) until it is acknowledged, then free. A receive buffer is in the
 * shared queue, in a message under way, or in a completion. */
#ifndef IW_INTERNAL_H
#define IW_INTERNAL_H

#include "iw_cc.h"
#include "iw_engine.h"
#include "iw_frame.h"
#include "iw_memory.h"
#include "iw_path.h"
#include "iw_pool.h"
#include "iw_failover.h"
#include "iw_rtt.h"
#include "iw_seen.h"
#include "iw_share.h"
#include "spec_list.h"
#include "spec_seq.h"

#define IW_SSN_WINDOW     1024u /* segments not acknowledged, of one peer */
#define IW_REORDER_MIN    3u    /* RFC 9002, 6.1.1 */
#define IW_REORDER_MAX    64u
#define IW_OVERHEAD       512u /* bytes that a datagram costs a receiving kernel besides its own */
#define IW_ACK_PACKETS    (IW_SSN_WINDOW / 8) /* acknowledge at the latest after so many packets */
#define IW_ACK_BYTES      (256u * 1024) /* or bytes, */
#define IW_ACK_SHARE      4u /* or this part of what the port buffers */
/* ns. A program which answers at once has sent its answer by then, and the acknowledgement with it; and of a stream the next message
 * has come, so that one acknowledgement is for many. */
#define IW_ACK_SOON       3000u
#define IW_PERSIST        (10 * IW_MS) /* a peer that told to wait is asked again; RFC 9293, 3.8.6.1 */
#define IW_RNR_DELAY      (50 * IW_US)  /* first pause when the peer has no receive buffer */
#define IW_RNR_DOUBLINGS  7u
#define IW_NETWORK_MOST   9216u   /* bytes of a datagram; networks carry no larger one */
#define IW_MEMORY_PAUSE   IW_MS /* until memory for a segment is asked for again */
#define IW_DEAD_ASKED     3u /* so often at least a peer is asked before it is called dead */
#define IW_DOUBT_SHARE                                                                             \
    8u /* in this part of peer_timeout_ns begins the doubt whether a peer is there */
#define IW_FIRST_SHARE    6u /* after this part of it one that has never answered is told of */
#define IW_PERSISTENT_PTO 5u /* probe timeouts in a row that void what was known of the path */
#define IW_BLACK_HOLE     10u /* large segments lost again, and none arrived between: the path takes none */
#define IW_CACHE          (192u * 1024) /* bytes made ready to be sent at a time */
#define IW_COPIES         (IW_CACHE + IW_DATAGRAM_MAX) /* as the last of them may begin just below */
#define IW_DRAIN          44u /* packets to one peer before another one's turn; with MTU 1500, what a train has room for */
#define IW_JOIN_MAX       16384u /* payload that is sent in one piece with its headers if that is possible */
#define IW_COPY_MAX                                                                                \
    8192u /* a message up to this is copied behind its headers: one piece costs the kernel less */
#define IW_PAYLOAD_MAX    57344u /* whole pages */
#define IW_WINDOW_INITIAL (16u * 1024) /* until the peer says what it can take; RFC 9002, 7.2 */

/* ANSWER: to an atomic operation of the peer. */
enum iw_operation { IW_DO_SEND, IW_DO_WRITE, IW_DO_READ, IW_DO_RESPONSE, IW_DO_ATOMIC, IW_DO_ANSWER };

/* An atomic operation that we ask for. */
typedef struct iw_atomic_ask {
    uint64_t operand;
    uint64_t compare;
    void *before; /* NULL: nobody wants it */
    uint8_t op;
} iw_atomic_ask_t;

typedef struct iw_request {
    spec_node_t all;
    spec_node_t queue; /* unlinked when all is cut */
    iw_peer_t *peer;
    void *context;
    uint32_t length;
    uint32_t cut;        /* bytes in segments so far */
    uint32_t out;        /* segments not acknowledged */
    uint32_t got;        /* READ: bytes that have arrived */
    uint32_t front;      /* READ: nothing has arrived from here on */
    uint32_t msn;        /* SEND, READ, ATOMIC, ANSWER */
    uint32_t stag;       /* the peer's: WRITE and ATOMIC target, READ source, RESPONSE sink */
    uint32_t local_stag; /* READ sink, RESPONSE source */
    uint64_t to;         /* with stag */
    uint64_t local_to;   /* with local_stag */
    uint8_t operation;
    uint8_t flags;
    uint8_t count;
    bool last_got; /* READ: the last segment has arrived */
    bool spoiled;  /* READ: its memory was written while it was verified there: copy */
    bool is_behind; /* READ, ATOMIC: in sends, as a fence is there */
    bool reported; /* completed; freed when no segment refers to it */
    union {
        struct iovec piece[IW_IOV_MAX];
        uint8_t data[IW_INLINE_MAX];
        iw_atomic_ask_t atomic;
    };
} iw_request_t;

/* Is it one datagram that asks the peer for something, and done when that is here? */
static inline bool iw_request_asks(const iw_request_t *r)
{
    return IW_DO_READ == r->operation || IW_DO_ATOMIC == r->operation;
}

/* Is it what the peer asked for? */
static inline bool iw_request_serves(const iw_request_t *r)
{
    return IW_DO_RESPONSE == r->operation || IW_DO_ANSWER == r->operation;
}

/* Earlier transmissions of a segment that are remembered: the first ones, which a path that is longer than was thought
 * answers first, and the last. */
#define IW_EARLIER 3

/* A transmission that another one followed. */
typedef struct iw_sent {
    uint64_t pn;
    uint64_t at;
    uint32_t recovery; /* that began, or went on, when it was declared lost; 0: it was not */
    bool overtaken;    /* declared lost by number */
} iw_sent_t;

typedef struct iw_segment {
    spec_node_t link;
    iw_peer_t *peer;
    iw_request_t *request; /* NULL: a probe */
    uint64_t pn;           /* 0: it has not left yet, or was given back */
    uint64_t sent;
    uint32_t recovery; /* these two as in iw_sent_t, of the latest transmission */
    uint32_t ssn;
    uint32_t offset;
    uint32_t cost;   /* what it counts in flight */
    uint32_t ended;  /* of a read served: uses of its memory that had ended when the peer was known to lack it, or was asked */
    uint16_t length; /* of payload */
    uint16_t wire;   /* of the datagram */
    bool last;
    bool resent;
    bool overtaken;
    bool unmade;   /* it was given back with its number (iw_engine_not_taken): as if it had not been made */
    bool lacked;   /* so the peer answered, and nothing has left since */
    uint8_t times; /* it left, and was not given back (iw_engine_unsent); no more than can be counted */
    uint8_t asked; /* of a read served, whose memory may have been given back: so often the peer was asked whether it has it, since it left last */
    uint8_t earliers;
    iw_sent_t earlier[IW_EARLIER];
} iw_segment_t;

/* Answers to this many questions that the peer lacks what cannot be sent any more: it is so, and not
 * only that the segment was overtaken. */
#define IW_ASKED_MAX 16

typedef struct iw_receive {
    void *buffer;
    void *context;
    uint32_t length;
} iw_receive_t;

/* A message of more than one segment, or one that came early. */
typedef struct iw_message {
    spec_node_t link;
    iw_receive_t receive;
    uint32_t msn;
    uint32_t got;
    uint32_t total; /* UINT32_MAX: not known yet */
} iw_message_t;

enum iw_delivery { IW_DELIVER_NOTHING, IW_DELIVER_MESSAGE, IW_DELIVER_READ, IW_DELIVER_ATOMIC, IW_DELIVER_ANSWER };

/* What a segment says that has its turn in the order of the segments. */
typedef union iw_word {
    iw_read_request_t read;
    iw_atomic_request_t atomic;
    iw_atomic_response_t answer;
} iw_word_t;

/* What is to happen when a segment's turn comes. */
typedef struct iw_early {
    spec_node_t link;
    iw_message_t *message;
    iw_word_t word;
    uint32_t ssn;
    uint32_t msn;
    uint8_t delivery;
} iw_early_t;

/* How long a peer that should answer has not been heard. */
typedef enum iw_quiet {
    IW_HEARD,
    IW_DOUBTED, /* so long that what it is sent asks the network, too */
    IW_SILENT,  /* longer than peer_timeout_ns, or a part of it for one that never answered; the user was told */
} iw_quiet_t;

typedef enum iw_state {
    IW_IDLE,    /* added, nothing was said yet */
    IW_ACTIVE,  /* has a connection number; datagrams go */
    IW_DOWN,    /* ended; requests are refused; a Terminate may have to be repeated */
    IW_CLOSING, /* removed; a CLOSE is to be sent, then it is freed */
    IW_GIVEN_UP, /* by iw_peer_refuse; what still comes is answered by a CLOSE */
} iw_state_t;

/* Where the next segment can come from. Those that have something take turns, a segment each. */
enum { IW_QUEUE_SENDS, IW_QUEUE_BULK, IW_QUEUE_RESPONSES, IW_QUEUES };

/* What goes to the peer. RFC 793's names: una <= next, in serial order. */
typedef struct iw_peer_tx {
    uint64_t next_pn;
    uint32_t next_ssn;
    uint32_t una_ssn;
    uint32_t send_msn;
    uint32_t read_msn;
    uint32_t answer_msn;
    uint32_t window;     /* bytes the peer can take */
    uint32_t reads_out;  /* our reads and atomic operations not complete */
    uint32_t fences;     /* in sends: requests that no later one that asks may pass */
    uint8_t peer_reads;  /* of these that the peer serves at a time */
    uint8_t allowance;   /* probe packets that may leave whatever the window says */
    uint8_t rnr_count;   /* times in a row that it had no receive buffer */
    bool limited;        /* the window was what held back */
    bool large;          /* a message is longer than a datagram: larger ones would pay */
    uint8_t turn;        /* IW_QUEUE_..., from which the last segment was cut */
    bool ping_pending;
    uint8_t marks;       /* as the peer counted them last, */
    uint64_t told_pn;    /* in the datagram of this number, with the window */
    uint64_t rnr_until;  /* 0: none; these are times of the engine's */
    uint64_t rnr_pn;     /* of the datagram that said so */
    uint64_t pace_at;
    uint64_t window_at;  /* when the peer told it last */
    spec_node_t requests;
    spec_node_t sends;
    spec_node_t asks; /* reads and atomic operations, ahead of sends: no fence was in there when they came */
    spec_node_t bulk; /* writes that others may pass, and what must not pass these */
    spec_node_t responses;
    spec_node_t atomics; /* that have left and are not answered */
} iw_peer_tx_t;

/* What is in flight, and when it counts as lost. */
typedef struct iw_peer_loss {
    uint64_t largest_acked;
    uint64_t at;         /* 0: nothing can be declared lost by time */
    uint32_t resent_out; /* segments in flight for another time */
    bool acked_any;      /* largest_acked is valid */
    uint8_t ptos;        /* probe timeouts in a row */
    uint8_t large_lost;  /* large segments lost again since one arrived */
    uint8_t reorder;     /* packets by which one may be overtaken */
    spec_node_t in_flight;
    spec_node_t lost;
} iw_peer_loss_t;

/* The way to the peer, as measured. */
typedef struct iw_peer_path {
    iw_path_t mtu;
    iw_rtt_t rtt;
    iw_cc_t cc;
} iw_peer_path_t;

/* Is it there? */
typedef struct iw_peer_alive {
    uint64_t waiting_since; /* an answer is due since; 0: none is */
    uint64_t heard;
    uint64_t pinged;
    uint8_t asked;    /* probe timeouts and keep-alives since it was heard */
    uint8_t quiet;    /* iw_quiet_t */
    bool unreachable; /* so the network said when the peer was asked last */
    uint16_t questions;      /* of iw_peer_ask that left, */
    uint16_t questions_most; /* and may leave, IW_ASK_EVERY after `pinged` */
} iw_peer_alive_t;

/* What comes from the peer. */
typedef struct iw_peer_rx {
    uint64_t largest_at;  /* when the highest number arrived */
    uint64_t rnr_refused; /* number refused for want of a buffer */
    uint64_t ack_at;      /* 0: no acknowledgement is due */
    uint32_t expected;    /* ssn */
    uint32_t expected_msn;
    uint32_t expected_read;
    uint32_t expected_answer;
    uint32_t unacked; /* packets to be acknowledged */
    uint32_t unacked_bytes;
    uint32_t held;    /* receive buffers taken and not polled */
    uint32_t serving; /* answers to the peer not sent yet */
    bool ack_now;
    bool rnr;
    bool is_near;  /* one came that is larger than any network's: from within the host, where there is no queue but the socket's */
    uint8_t marks; /* datagrams that came marked, as the next acknowledgement tells; */
    uint8_t marks_told; /* as the last one did: the peer knows no difference larger than UINT8_MAX */
    iw_sender_t sender; /* in the midst of a message, or not */
    spec_node_t waiting; /* in the engine's list: refused for want of a buffer */
    spec_node_t messages;
    spec_node_t early;
    iw_seen_t seen;
} iw_peer_rx_t;

/* The Terminate that ended the connection. */
typedef struct iw_peer_term {
    uint16_t code;
    bool ours; /* we ended it */
    bool pending;
    uint32_t ssn;
} iw_peer_term_t;

struct iw_peer {
    iw_engine_t *engine;
    void *user;
    uint64_t identity;
    spec_node_t ready; /* in the engine's list: something may be to send */
    spec_node_t known; /* in the engine's list of all */
    uint64_t heap_key;
    uint32_t heap_at; /* index + 1, 0: no timer */
    uint8_t state;    /* iw_state_t; changed by iw_peer_set_state alone */
    uint8_t why;      /* iw_status_t when down */
    bool confirmed;   /* the peer knows our connection number: no more hello */
    bool mutual;      /* and knows that we know its */

    uint32_t conn;
    uint32_t remote_conn; /* 0: not known */
    uint64_t generation;
    uint64_t remote_generation; /* 0: not known */

    iw_peer_tx_t tx;
    iw_peer_loss_t loss;
    iw_peer_path_t path;
    iw_failover_t failover;
    iw_peer_alive_t alive;
    iw_peer_rx_t rx;
    iw_peer_term_t term;

    iw_address_t address;
    iw_auth_t auth;
};

/* One for each identity ever connected to: knows which generation is stale. */
typedef struct iw_known {
    uint64_t identity;
    uint64_t generation; /* the highest ever of that side */
    iw_peer_t *peer;     /* NULL: removed */
    bool used;
} iw_known_t;

struct iw_engine {
    iw_config_t config;
    iw_auth_t auth; /* own key */
    iw_counters_t count;
    uint64_t last_generation;
    uint64_t random;
    spec_node_t ready;
    spec_node_t peers;
    spec_node_t rnr_peers;

    iw_peer_t **conn; /* by index */
    uint32_t conns;
    uint32_t conn_hint;
    uint32_t active; /* peers with a connection number */

    iw_known_t *known; /* hash by identity */
    uint32_t known_size;
    uint32_t known_used;

    iw_peer_t **heap;
    uint64_t due; /* the time of its first; UINT64_MAX: it is empty */
    uint32_t heap_size;
    uint32_t heap_room;
    uint64_t alarm; /* of the user, in its time; UINT64_MAX: none */
    uint64_t time;  /* the engine's own, iw_time: what it was last */
    uint64_t ahead; /* of the user's clock; may be negative */

    iw_pool_t requests;
    iw_pool_t served; /* requests too: what peers asked for, which must not wait for our own */
    iw_pool_t segments;
    iw_pool_t messages;
    iw_pool_t early;
    iw_memory_t memory;

    iw_receive_t *receive; /* stack */
    uint32_t receive_room;
    uint32_t receive_count;
    uint32_t receive_lowest; /* fewest since asked last */
    uint32_t limit;
    bool limit_told; /* the event has not been polled */

    iw_completion_t *done; /* ring */
    uint32_t done_room;
    uint32_t done_first;
    uint32_t done_count;
    uint32_t peer_count;

    uint8_t *
        copies; /* payloads of the packets of one iw_engine_output; room for all that it can make */
    size_t copied; /* bytes of it */

    iw_request_t *filling;   /* the read that the next segment will probably answer, or NULL */
    uint32_t filling_length; /* and its length, if it is not the last one: the longer of the two before it */
    uint32_t filling_previous;
    const uint8_t *apart;    /* where the payload of the datagram that is coming in lies, or NULL: behind its prefix */

    const uint8_t *hello; /* the datagram whose sender is asked for, or NULL */
    size_t hello_length;
    bool by_alternate; /* the datagram that is coming in */
    bool is_marked;    /* those that come in */
    bool goes_on;  /* the message of the last datagram that came in: it was not its last */

    iw_share_t share;
};

#define IW_CONN_INDEX_BITS 20 /* of a connection's number: its index; the others are random */
#define IW_CONN_INDEX_MASK ((1u << IW_CONN_INDEX_BITS) - 1)

/* iw_engine.c */
bool iw_done_reserve(iw_engine_t *e); /* before anything that will bring a completion */
void iw_done_forget(iw_peer_t *p);    /* completions not polled yet do not lead to it any more */
void iw_complete(iw_engine_t *e, void *context, iw_peer_t *p, iw_what_t what, iw_status_t status,
                 uint32_t length);
uint64_t iw_random(iw_engine_t *e);

/* iw_receive.c */
/* A datagram has been accepted that is not marked as seen yet: what it tells of the network (iw_share_came). */
void iw_receive_came(iw_peer_t *p, const iw_frame_t *f, size_t length);
/* A segment of so many bytes has come: is it the newest of its peer, or fills it a hole? is_last: of its message. */
void iw_receive_part(iw_peer_t *p, bool is_newest, bool is_last, uint32_t bytes, uint64_t now);
bool iw_receive_take(iw_engine_t *e, iw_peer_t *p, uint32_t spare, iw_receive_t *receive);
void iw_receive_put_back(iw_engine_t *e, iw_peer_t *p, const iw_receive_t *receive);
void iw_receive_wake(
    iw_engine_t *e); /* peers that were told to wait for a buffer can be told to go on */

/* iw_peer.c */
iw_known_t *iw_known_find(iw_engine_t *e, uint64_t identity);
void iw_peer_set_state(iw_peer_t *p, iw_state_t state); /* and tells config.trace */
bool iw_peer_activate(iw_peer_t *p, uint64_t now);
void iw_peer_down(iw_peer_t *p, iw_status_t why, const iw_request_t *cause);
void iw_peer_free(iw_peer_t *p);
/* Has it been asked, and silent for so many ns, for longer than a peer is waited for? */
bool iw_peer_is_due(const iw_peer_t *p, uint64_t ns);
/* True: it is dead. */
bool iw_peer_silence(iw_peer_t *p, uint64_t ns);
/* After so many it is, as far as is known now. */
uint64_t iw_peer_patience(const iw_peer_t *p);

/* iw_request.c */
/* False: no memory, and nothing was done. */
bool iw_request_serve(iw_peer_t *p, const iw_read_request_t *read);
bool iw_request_serve_atomic(iw_peer_t *p, const iw_atomic_request_t *ask, void *word); /* does it */
void iw_request_dequeue(iw_request_t *r); /* out of the queue it is in */
void iw_request_report(iw_request_t *r, iw_status_t status);
void iw_request_release(iw_request_t *r); /* frees it if reported and no segment refers to it */

/* iw_direct.c */
void iw_direct_note(iw_engine_t *e, iw_request_t *r, const iw_ddp_t *d); /* a segment of a read is in its place */
void iw_direct_forget(const iw_request_t *r);            /* its memory is not ours any more */
/* A datagram with this prefix was received where it belongs, and its tag is wrong there. */
void iw_direct_spoiled(iw_engine_t *e, const iw_peer_t *p, const uint8_t *data, size_t prefix);

/* iw_send.c */
static inline void iw_ready(iw_peer_t *p)
{
    if (!spec_node_is_queued(&p->ready)) {
        spec_list_append(&p->engine->ready, &p->ready);
    }
}
/* When it is to be asked again (iw_peer_ask); 0: it was not asked yet; UINT64_MAX: it is asked no more. */
static inline uint64_t iw_peer_question_at(const iw_peer_t *p)
{
    if (p->mutual || p->alive.questions >= p->alive.questions_most) {
        return UINT64_MAX;
    }
    return 0 == p->alive.questions ? 0 : p->alive.pinged + IW_ASK_EVERY;
}
/* Is there anything that it would send if it may? */
static inline bool iw_wants_out(const iw_peer_t *p)
{
    return !spec_list_is_empty(&p->tx.sends) || !spec_list_is_empty(&p->loss.lost) || !spec_list_is_empty(&p->tx.asks)
           || !spec_list_is_empty(&p->tx.bulk) || !spec_list_is_empty(&p->tx.responses) || p->rx.ack_now || p->tx.ping_pending || p->tx.large;
}
void iw_segment_free(iw_segment_t *s);
/* Of a read that we serve: is its memory there, as far as the caller has told? */
bool iw_segment_has_memory(const iw_segment_t *s);

/* iw_loss.c */
bool iw_loss_ack(iw_peer_t *p, const iw_frame_t *f, uint64_t now); /* false: refused */
void iw_loss_timers(iw_peer_t *p, uint64_t now); /* of an active peer */
void iw_loss_take_back(iw_peer_t *p, iw_segment_t *s); /* to be sent again, without blame */

/* iw_rdmap.c: what a verified segment does. */
typedef enum iw_verdict {
    IW_ACCEPTED,
    IW_REFUSED,    /* as if it had been lost */
    IW_NOT_READY,  /* no receive buffer */
    IW_TERMINATED, /* the connection has ended over it */
} iw_verdict_t;
iw_verdict_t iw_rdmap_segment(iw_peer_t *p, const iw_frame_t *f);
void iw_rdmap_terminated(iw_peer_t *p, const iw_frame_t *f);
void iw_rdmap_terminate(iw_peer_t *p, int term, uint32_t ssn);

/* iw_timer.c */
bool iw_timer_reserve(iw_engine_t *e); /* room for one more active peer */
void iw_timer_set(iw_peer_t *p);       /* after anything that can change a time of p */
void iw_timer_drop(iw_peer_t *p);
uint64_t iw_peer_deadline(const iw_peer_t *p);
/* The engine's time when the user's clock shows now. */
uint64_t iw_time(iw_engine_t *e, uint64_t now);

#endif
