/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The protocol engine: RDMAP over DDP over a reliable-datagram protocol, for one process and all
 * its peers, as a state machine.
 *
 * In go datagrams (iw_engine_input), calls of the application (iw_post_*), and time (a parameter,
 * nanoseconds of any monotonic clock); out come datagrams (iw_engine_output), completions
 * (iw_engine_poll) and the time of the next timer (iw_engine_deadline). It does no I/O, has no
 * clock and no thread; one caller at a time. iw_port.h binds it to a UDP socket.
 *
 * Words: as in verbs. A peer is another process; its connection is made when the first datagram
 * goes either way. Messages to one peer arrive in the order of the calls, a send is delivered after
 * the data of the writes before it is in place, and with IW_FENCE after the data of the reads
 * before it. Reads and atomic operations overtake writes, unless they have IW_FENCE, or something posted before them and not sent has. Writes
 * with IW_BULK are overtaken by what is posted behind them, unless it has IW_BEHIND.
 *
 * Memory: a peer is allocated when it is added, which the caller does when it first wants to talk,
 * or when `unknown` is called because the peer does; one that has talked takes IW_PEER_MEMORY at most. Nothing is allocated for
 * each message, packet or segment once the pools have grown to what is in use at a time; pools are bounded by the
 * configuration. */
#ifndef IW_ENGINE_H
#define IW_ENGINE_H

#include "iw_auth.h"
#include "iw_counters.h"
#include "iw_direct.h"
#include "iw_atomic.h"
#include "iw_memory.h"
#include "iw_wire.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define IW_PEER_MEMORY 4096 /* bytes that a peer takes beside what is under way to it and from it, at most */

#define IW_IOV_MAX    4   /* pieces of a message */
#define IW_INLINE_MAX 256 /* bytes of a message that is copied when posted */

typedef struct iw_engine iw_engine_t;
typedef struct iw_peer iw_peer_t;

typedef union iw_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} iw_address_t;

static inline socklen_t iw_address_length(const iw_address_t *a)
{
    return AF_INET6 == a->any.sa_family ? sizeof(a->v6) : sizeof(a->v4);
}

static inline bool iw_address_equal(const iw_address_t *a, const iw_address_t *b)
{
    return a->any.sa_family == b->any.sa_family
           && (AF_INET6 == a->any.sa_family
                   ? a->v6.sin6_port == b->v6.sin6_port
                         && 0 == memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr))
                   : a->v4.sin_port == b->v4.sin_port
                         && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr);
}

typedef enum iw_status {
    IW_OK,
    IW_AGAIN,    /* nothing free at the moment: poll, then try again */
    IW_TOO_LONG, /* more bytes or pieces than allowed */
    IW_NO_MEMORY,
    IW_FLUSHED,       /* given up because the connection ended */
    IW_DEAD,          /* the peer did not answer in time */
    IW_CLOSED,        /* the peer ended the connection */
    IW_RESTARTED,     /* another process has taken the peer's place */
    IW_REMOTE_ACCESS, /* the peer refused the memory access */
    IW_REMOTE_ERROR,  /* the peer refused the message */
    IW_PROTOCOL,      /* the peer sent what cannot be */
} iw_status_t;

const char *iw_status_name(iw_status_t status);

typedef struct iw_config {
    uint64_t identity;   /* this process, as its peers know it; unique in the job */
    iw_key_t key;        /* datagrams to this process are tagged with it */
    iw_auth_mode_t auth; /* the same in the whole job */
    uint64_t seed;       /* unpredictable: connection numbers and STags are made from it */
    uint64_t start; /* wall clock when the process began, ns: grows from one life of an identity
                           * to the next */
    uint16_t datagram_max;    /* largest datagram the port can send and receive */
    uint16_t datagram_min;    /* every path carries that: at least IW_DATAGRAM_LEAST */
    uint32_t receive_space;   /* bytes the port buffers for all peers together */
    uint32_t peer_space;      /* bytes a peer is taken to buffer until it says */
    uint64_t
        peer_timeout_ns; /* a peer that does not answer for so long is dead if the network says that it is gone
                               * (iw_engine_unreachable). Else it may be stopped: IW_PEER_SILENT, and it is dead */
    uint64_t silent_timeout_ns; /* after so long, or peer_timeout_ns if that is more */
    uint64_t ack_delay_ns;    /* how long an acknowledgement may wait for company */
    uint32_t quota;           /* receive buffers that one peer may hold until they are polled */
    uint32_t requests_max;    /* requests (sends, writes, reads, and reads served) at a time */
    uint32_t early_max;       /* segments kept in all that came ahead of missing ones */
    uint8_t reads;            /* RDMA Reads and atomic operations that one peer may have outstanding here, and we there */

    /* A process that was not added says hello: add it with iw_peer_add and return it, or NULL to
     * refuse. May be NULL. */
    iw_peer_t *(*unknown)(void *context, iw_engine_t *engine, uint64_t identity);
    /* The time of iw_engine_alarm has come; called by iw_engine_timers, may call iw_post_receive,
     * iw_withdraw_receive, iw_arm_limit and iw_engine_alarm. May be NULL. */
    void (*alarm)(void *context, iw_engine_t *engine, uint64_t now);
    /* The connection to a peer changes its state, for logs: names of the states, and why it has ended (IW_OK: it has not).
     * May be NULL. */
    void (*trace)(void *context, const iw_peer_t *peer, const char *from, const char *to, iw_status_t why);
    void *context;
} iw_config_t;

/* Everything but identity, key, seed and start. */
void iw_config_default(iw_config_t *config);

typedef enum iw_what {
    IW_SENT,          /* the peer has the message in a receive buffer, or will have it in order */
    IW_WRITTEN,       /* the data is in place at the peer */
    IW_READ,          /* the data is in place here */
    IW_ATOMIC,        /* the word was changed at the peer, and what it was is here */
    IW_RECEIVED,      /* a message is in a receive buffer */
    IW_LIMIT_REACHED, /* the shared receive queue is below its limit; one shot */
    IW_PEER_DOWN,     /* the connection has ended; status says why */
    IW_PEER_SILENT, /* it does not answer for `length` seconds, and is still asked; once until it does */
} iw_what_t;

typedef struct iw_completion {
    void *context;   /* of the request or the receive buffer */
    iw_peer_t *peer; /* NULL if it was removed meanwhile */
    uint32_t length; /* of a received message; of a silence */
    uint8_t what;    /* iw_what_t */
    uint8_t status;  /* iw_status_t */
} iw_completion_t;

/* NULL: out of memory. The configuration is copied. */
iw_engine_t *iw_engine_create(const iw_config_t *config);
/* Requests and receives not completed are forgotten. */
void iw_engine_destroy(iw_engine_t *engine);

/* Let it talk to another process: its name, address and key. user is the caller's. NULL: out of
 * memory, or it is there already. */
iw_peer_t *iw_peer_add(iw_engine_t *engine, uint64_t identity, const iw_address_t *address,
                       const iw_key_t *key, void *user);
/* End the connection, if there is one, and forget the peer; its requests complete with IW_FLUSHED.
 * The handle is not valid any more. A CLOSE leaves with the next iw_engine_output if anything was sent to it: also a peer that
 * was never heard may hear. */
void iw_peer_remove(iw_peer_t *peer);
/* End it, and keep the peer: what still comes from it is answered by a CLOSE, since the first one may get lost. */
void iw_peer_refuse(iw_peer_t *peer);
/* The same for all peers there are. */
void iw_engine_leave(iw_engine_t *engine);
/* What a round trip to it takes, ns, as far as the caller knows: taken for true until one has been measured. Without it
 * the first answer is waited for as on a path around the world (RFC 9002, 6.2.2); if it is far too short, some datagrams
 * are sent that are not needed. */
void iw_peer_expect(iw_peer_t *peer, uint64_t round_trip);
/* What is known of the way to a peer and back. */
typedef enum iw_contact {
    IW_CONTACT_NONE,     /* nothing has come from it */
    IW_CONTACT_HEARD,    /* something has, but no answer: nothing is known to have arrived there */
    IW_CONTACT_HALF,     /* it has answered, perhaps long ago, and may have given up or give up, not having heard our answer */
    IW_CONTACT_ANSWERED, /* each has answered the other: both directions work, or did */
    IW_CONTACT_FADED,    /* something had, and no answer; then nothing for IW_ASK_FADES */
    IW_CONTACT_ENDED,    /* the connection is over, and it had never answered */
    IW_CONTACT_LEFT,     /* the connection is over; it had answered */
} iw_contact_t;
iw_contact_t iw_peer_contact(const iw_peer_t *peer);
/* Asks for an answer, by a small datagram: with the next iw_engine_output, and by timer each IW_ASK_EVERY until each has answered
 * the other, or it was asked `most` times in all. */
#define IW_ASK_EVERY UINT64_C(20000000)  /* ns */
#define IW_ASK_FADES UINT64_C(300000000) /* ns: a peer that asks, too, has ended that */
void iw_peer_ask(iw_peer_t *peer, uint32_t most);
/* How often it was: what the engine's time has been meanwhile, without that in which nobody called it. */
uint32_t iw_peer_asked(const iw_peer_t *peer);
/* Is there an alternate path to the peer, for datagrams with `alternate`? Not at first. It is taken while the network carries
 * nothing to the peer (iw_failover.h). */
void iw_peer_set_alternate(iw_peer_t *peer, bool has_alternate);
bool iw_peer_is_alternate(const iw_peer_t *peer);
/* From now on another transport carries what takes the alternate path: the peer has its whole time to answer again. */
void iw_peer_alternate_changed(iw_peer_t *peer, uint64_t now);
/* Is it sure that the network carries nothing to it? Else it may only be busy. */
bool iw_peer_is_blocked(const iw_peer_t *peer);
void *iw_peer_user(const iw_peer_t *peer);
uint64_t iw_peer_identity(const iw_peer_t *peer);

/* ---- requests ---- */

enum iw_post_flag {
    IW_INLINE = 1, /* copy the data (at most IW_INLINE_MAX): its memory is free after the call */
    IW_QUIET = 2,  /* no completion unless there is an error */
    IW_FENCE = 4,  /* only after all reads posted to this peer before are complete */
    IW_PROMPT = 8, /* ask the peer to acknowledge soon; of a write, which always does: at once */
    /* Before the first piece there are IW_HEADROOM_SIZE bytes for the engine's headers until completion: a
     * short message then leaves as one piece. */
    IW_HEADROOM = 16,
    /* Not together with IW_FENCE. */
    IW_BULK = 32,   /* of a write: it takes turns with what is posted later */
    IW_BEHIND = 64, /* of a send: delivered after the data of the writes with IW_BULK before it is in place */
};
#define IW_HEADROOM_SIZE 96

/* All: 0 (IW_OK) if the request will complete, otherwise the reason why not. Memory that was not
 * copied must stay until completion; it is sent again from there. What is written to it meanwhile arrives or does not. */
iw_status_t iw_post_send(iw_peer_t *peer, const struct iovec *piece, unsigned count, unsigned flags,
                         void *context);
iw_status_t iw_post_write(iw_peer_t *peer, const struct iovec *piece, unsigned count, uint32_t stag,
                          uint64_t to, unsigned flags, void *context);
iw_status_t iw_post_read(iw_peer_t *peer, void *sink, uint32_t length, uint32_t stag, uint64_t to,
                         unsigned flags, void *context);
/* An atomic operation on an aligned word of 32 or 64 bits at the peer, which does it without a call of its program (RFC 7306). What the
 * word was before is written to *before, unless that is NULL. Operations and reads to one peer happen in the order of the calls. Of the flags
 * only IW_QUIET. */
iw_status_t iw_post_atomic(iw_peer_t *peer, iw_atomic_op_t op, bool is_32, uint32_t stag, uint64_t to, uint64_t operand,
                           uint64_t compare, void *before, unsigned flags, void *context);
/* A buffer for one message of any peer. The one posted last is used first. */
iw_status_t iw_post_receive(iw_engine_t *engine, void *buffer, uint32_t length, void *context);
/* IW_LIMIT_REACHED when fewer than limit buffers are left; again after the next call. 0: never. */
void iw_arm_limit(iw_engine_t *engine, uint32_t limit);
uint32_t iw_receives_free(const iw_engine_t *engine);
/* The context of the free buffer before which `before` others will be used; NULL: there are not so many.
 * It holds nothing of any message. */
void *iw_receive_idle(const iw_engine_t *engine, uint32_t before);
/* Fewest buffers there have been since it was asked last. */
uint32_t iw_receives_lowest(iw_engine_t *engine);
/* Take back a buffer that no message uses: the one that would be used last. False: there is none. */
bool iw_withdraw_receive(iw_engine_t *engine, void **context);
/* The port buffers another number of bytes from now on (iw_config_t: receive_space). */
void iw_set_receive_space(iw_engine_t *engine, uint32_t bytes);

/* Let peers reach memory; rights and uses as in iw_memory.h. 0: no room. */
uint32_t iw_register(iw_engine_t *engine, void *base, uint64_t length, unsigned rights, const iw_uses_t *uses);
bool iw_deregister(iw_engine_t *engine, uint32_t stag);

/* Up to max completions, in no order between peers and kinds. Returns how many. */
unsigned iw_engine_poll(iw_engine_t *engine, iw_completion_t *completion, unsigned max);

/* Would it find any? */
bool iw_engine_has_completions(const iw_engine_t *engine);

/* ---- the port's side ---- */

typedef struct iw_packet {
    iw_address_t to;
    iw_peer_t *peer; /* these two for iw_engine_unsent */
    void *segment;
    uint32_t length; /* in all */
    uint8_t count;   /* of piece */
    bool had_ack;
    bool
        may_fragment; /* larger than what the path is known to carry, as it did once: let IP cut it */
    bool probe;        /* larger than what the path is known to carry: IP must not cut it */
    bool asks;         /* the peer has been silent for long: what does the network say of it? */
    bool alternate;       /* by the alternate path, not by the network */
    struct iovec piece[1 + IW_IOV_MAX]; /* the head first, then the user's memory */
    uint8_t head[IW_PREFIX_MAX + IW_INLINE_MAX]; /* data that was copied when posted is here too */
} iw_packet_t;

/* Whether the network marked those that come in from now on: Congestion Experienced, RFC 3168. */
void iw_engine_marked(iw_engine_t *engine, bool is_marked);
/* One datagram, exactly as it came. The buffer is the caller's. */
void iw_engine_input(iw_engine_t *engine, uint64_t now, const uint8_t *data, size_t length);
/* The same for one that came by the alternate path. */
void iw_engine_input_alternate(iw_engine_t *engine, uint64_t now, const uint8_t *data, size_t length);
/* Where the payload of the next datagrams probably belongs (iw_direct.h): up to `most` of them, in their order. Good until
 * anything else is called. Returns how many. */
unsigned iw_engine_direct(const iw_engine_t *engine, iw_direct_t *direct, unsigned most);
/* A datagram of `length` bytes of which `prefix` are at data and the others where iw_engine_direct says that they belong. */
void iw_engine_input_placed(iw_engine_t *engine, uint64_t now, const uint8_t *data, size_t prefix, size_t length,
                            const uint8_t *at);
/* Within `unknown`: the datagram that says hello, which can be given to iw_engine_input again when its sender is known. NULL:
 * it cannot. */
const uint8_t *iw_engine_hello(const iw_engine_t *engine, size_t *length);
/* Was the last datagram that came in a part of a message, and not the last one? What was sent along with it is there
 * already, or about to be. */
bool iw_engine_goes_on(const iw_engine_t *engine);

/* Is there a connection to any peer? */
bool iw_engine_is_connected(const iw_engine_t *engine);

/* Up to max datagrams to be sent before anything else is called (what they point to can go away
 * then). Packets to one peer follow each other, those of one size too. Of large ones only as many as
 * stay in a processor's cache between here, where the tag is made of them, and the kernel, which
 * copies them. Returns how many. */
unsigned iw_engine_output(iw_engine_t *engine, uint64_t now, iw_packet_t *packet, unsigned max);
bool iw_engine_has_output(const iw_engine_t *engine);

/* These could not be sent for now. */
void iw_engine_unsent(iw_engine_t *engine, const iw_packet_t *packet, unsigned count);
/* The same of the last ones of an iw_engine_output, of which it is certain that nothing has left: their numbers are given to others, as if
 * they had not been made. */
void iw_engine_not_taken(iw_engine_t *engine, const iw_packet_t *packet, unsigned count);
/* The local interface does not take a datagram as large as this one, but one of limit bytes; 0: it does not say. */
void iw_engine_too_big(iw_engine_t *engine, const iw_packet_t *packet, uint16_t limit);

/* The network says that there is nobody at this address: nothing that it says is believed of a peer that answers. */
void iw_engine_unreachable(iw_engine_t *engine, const iw_address_t *address);

/* When iw_engine_timers must be called, UINT64_MAX for never. */
uint64_t iw_engine_deadline(const iw_engine_t *engine);
void iw_engine_timers(iw_engine_t *engine, uint64_t now);
/* Call `alarm` then, once; UINT64_MAX: never. */
void iw_engine_alarm(iw_engine_t *engine, uint64_t at);

const iw_counters_t *iw_engine_counters(const iw_engine_t *engine);
/* Bytes of requests that are not complete, with what was copied when they were posted. */
size_t iw_engine_posted(const iw_engine_t *engine);
/* Bytes allocated for all purposes; what one peer costs, without and with having talked. */
size_t iw_engine_memory(const iw_engine_t *engine);

#endif
