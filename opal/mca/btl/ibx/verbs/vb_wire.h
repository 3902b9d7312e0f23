/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What two processes say to each other over verbs: the private data of a connection, the datagram that makes
 * one without rdma_cm, and the header of a message. docs/design/verbs.md draws them. No other file defines bytes of the wire.
 *
 * Bytes are checked before they are believed: vb_hello_read and vb_cm_read refuse, they never repair. */
#ifndef VB_WIRE_H
#define VB_WIRE_H

#include "iw_wire.h"

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- private data of a connection: at most 56 bytes travel with a request on InfiniBand ---- */

#define VB_VERSION 6

/* In the name of a process, whose ranks need 31 bits of the lower half: its second connection, for large transfers (vb_bulk.h). For
 * the port it is a peer of its own. */
#define VB_BULK_NAME UINT64_C(0x80000000)

/* What an answer says; a request has VB_ASK. */
typedef enum vb_answer {
    VB_ASK,
    VB_WELCOME,
    VB_CROSSED,  /* rejected: my own request to you stands */
    VB_BUSY,     /* rejected: come again */
    VB_STRANGER, /* rejected for good: not of this job, or another version */
    VB_FULL,     /* rejected for good: enough connections; we go on with datagrams */
    VB_GONE,     /* by datagrams: the attempt is given up, or the connection has ended */
    VB_READY,    /* by datagrams: the welcome has been heard, the connection is ready to use */
    VB_ANSWERS
} vb_answer_t;

/* The sender of messages need not count: their receiver has a shared queue and the fabric retries. */
#define VB_UNCOUNTED UINT16_MAX

typedef struct vb_hello_wire {
    uint8_t magic[4];
    uint8_t version;
    uint8_t answer;
    iw_be16_t credits; /* messages that may be sent to the process that says hello; VB_UNCOUNTED */
    iw_be64_t name;    /* of the process that says hello, perhaps with VB_BULK_NAME */
    iw_be64_t key;     /* of the process it is said to, from the modex: proof of being in the job */
    iw_be32_t buffer;  /* bytes of a receive buffer, header included */
    iw_be16_t received; /* messages that the process that says hello has had from the other, modulo 2^16 */
    uint8_t is_again;   /* a request: 1 in place of a connection that broke, else 0 */
    uint8_t reserved;
} vb_hello_wire_t;
_Static_assert(sizeof(vb_hello_wire_t) == 32, "a hello has no holes");
_Static_assert(sizeof(vb_hello_wire_t) <= 56, "fits the private data of an InfiniBand request");

typedef struct vb_hello {
    vb_answer_t answer;
    uint16_t credits;
    uint32_t buffer;
    uint64_t name;
    uint64_t key;
    uint16_t received;
    bool is_again;
} vb_hello_t;

static inline void vb_hello_write(vb_hello_wire_t *wire, const vb_hello_t *hello)
{
    *wire = (vb_hello_wire_t){.magic = {'I', 'B', 'X', 'v'},
                              .version = VB_VERSION,
                              .answer = (uint8_t) hello->answer,
                              .credits = iw_be16(hello->credits),
                              .name = iw_be64(hello->name),
                              .key = iw_be64(hello->key),
                              .buffer = iw_be32(hello->buffer),
                              .received = iw_be16(hello->received),
                              .is_again = hello->is_again};
}

/* size is what arrived; fabrics pad with zeros, so there may be more. False: not a hello. */
static inline bool vb_hello_read(vb_hello_t *hello, const void *data, size_t size)
{
    vb_hello_wire_t wire;
    if (NULL == data || size < sizeof(wire)) {
        return false;
    }
    memcpy(&wire, data, sizeof(wire));
    if (0 != memcmp(wire.magic, "IBXv", 4) || VB_VERSION != wire.version
        || wire.answer >= VB_ANSWERS || wire.is_again > 1) {
        return false;
    }
    *hello = (vb_hello_t){.answer = (vb_answer_t) wire.answer,
                          .credits = iw_get16(wire.credits),
                          .buffer = iw_get32(wire.buffer),
                          .name = iw_get64(wire.name),
                          .key = iw_get64(wire.key),
                          .received = iw_get16(wire.received),
                          .is_again = 1 == wire.is_again};
    return true;
}

/* ---- a datagram about a connection (vb_ud_cm.c) ---- */

/* Big-endian as the hello in it. All that rdma_cm's messages carry besides private data (InfiniBand specification, 12.6 and
 * 12.7), and how to answer: the other side need not have read the modex of the requesting one. */
typedef struct vb_cm_wire {
    vb_hello_wire_t hello;
    iw_be64_t number; /* of the attempt; counted upwards, so that an old request is known as such */
    iw_be64_t key;    /* of the process that speaks: to be said in answers */
    iw_be32_t pair;   /* queue pair of the connection; 0 where there is none */
    iw_be32_t psn;    /* number of the first packet of the speaker */
    iw_be32_t mailbox; /* UD queue pair that takes answers */
    iw_be32_t qkey;    /* of it */
    iw_be16_t lid;
    uint8_t mtu;       /* of the port of the speaker, as verbs encode it: 1 is 256 bytes, 5 is 4096 */
    uint8_t resources; /* reads and atomics that its queue pair answers at a time */
    uint8_t depth;     /* and that it asks for */
    uint8_t is_mine;   /* 1: the attempt is of the speaker; 0: of the other side */
    uint8_t reserved[2];
    uint8_t gid[16];
} vb_cm_wire_t;
_Static_assert(sizeof(vb_cm_wire_t) == 88, "a message has no holes");
_Static_assert(offsetof(vb_cm_wire_t, number) == 32 && offsetof(vb_cm_wire_t, pair) == 48
                   && offsetof(vb_cm_wire_t, lid) == 64 && offsetof(vb_cm_wire_t, gid) == 72,
               "its fields are where the drawing has them");
_Static_assert(sizeof(vb_cm_wire_t) <= 256, "fits the smallest MTU");

typedef struct vb_cm_message {
    vb_hello_t hello;
    uint64_t number, key;
    uint32_t pair, psn, mailbox, qkey;
    uint16_t lid;
    uint8_t mtu, resources, depth;
    bool is_mine;
    uint8_t gid[16];
} vb_cm_message_t;

static inline void vb_cm_write(vb_cm_wire_t *wire, const vb_cm_message_t *message)
{
    *wire = (vb_cm_wire_t){.number = iw_be64(message->number),
                             .key = iw_be64(message->key),
                             .pair = iw_be32(message->pair),
                             .psn = iw_be32(message->psn),
                             .mailbox = iw_be32(message->mailbox),
                             .qkey = iw_be32(message->qkey),
                             .lid = iw_be16(message->lid),
                             .mtu = message->mtu,
                             .resources = message->resources,
                             .depth = message->depth,
                             .is_mine = message->is_mine};
    vb_hello_write(&wire->hello, &message->hello);
    memcpy(wire->gid, message->gid, sizeof(wire->gid));
}

/* A queue pair that programs have: 24 bits, and not one of the two that are the fabric's own. */
static inline bool vb_is_pair_number(uint32_t number)
{
    return number > 1 && number < 1u << 24;
}

/* False: not a message, or not one that can be: an attempt is the speaker's in a request and when it is ready, and the other's
 * in an answer; and a request and a welcome come from a queue pair that can do reads. */
static inline bool vb_cm_read(vb_cm_message_t *message, const void *data, size_t size)
{
    vb_cm_wire_t wire;
    vb_hello_t hello;
    if (size != sizeof(wire) || !vb_hello_read(&hello, data, size)) {
        return false;
    }
    memcpy(&wire, data, sizeof(wire));
    *message = (vb_cm_message_t){.hello = hello,
                        .number = iw_get64(wire.number),
                        .key = iw_get64(wire.key),
                        .pair = iw_get32(wire.pair),
                        .psn = iw_get32(wire.psn),
                        .mailbox = iw_get32(wire.mailbox),
                        .qkey = iw_get32(wire.qkey),
                        .lid = iw_get16(wire.lid),
                        .mtu = wire.mtu,
                        .resources = wire.resources,
                        .depth = wire.depth,
                        .is_mine = 1 == wire.is_mine};
    memcpy(message->gid, wire.gid, sizeof(message->gid));
    const bool has_pair = VB_ASK == hello.answer || VB_WELCOME == hello.answer;
    const bool is_of_speaker = VB_ASK == hello.answer || VB_READY == hello.answer;
    return 0 != message->number && wire.is_mine <= 1 && (VB_GONE == hello.answer || message->is_mine == is_of_speaker)
           && vb_is_pair_number(message->mailbox)
           && (!has_pair
               || (vb_is_pair_number(message->pair) && message->psn < 1u << 24 && message->mtu >= 1 && message->mtu <= 5
                   && message->resources > 0 && message->depth > 0));
}

/* ---- a part of a connection that goes by another port (vb_failover.c): big-endian, data behind it ---- */

typedef enum vb_part_kind {
    VB_PART_HELLO = 1, /* data: a hello, which asks, welcomes or rejects */
    VB_PART_GONE,      /* the attempt is given up, or the connection has ended */
    VB_PART_MESSAGE,   /* data: of a message with its header */
    VB_PART_WRITE,     /* data: to be written at `remote` of the memory that rkey names */
    VB_PART_READ,      /* length bytes are wanted from there */
    VB_PART_DONE,      /* the part of this number has been done; data: what was read */
    VB_PART_KINDS
} vb_part_kind_t;

typedef struct vb_part_wire {
    uint8_t kind;
    uint8_t is_mine; /* 1: the attempt is of the speaker; 0: of the other side */
    uint8_t is_last; /* of its message */
    uint8_t reserved;
    iw_be32_t number; /* of the part, from 0 for each connection and direction */
    iw_be64_t attempt;
    iw_be32_t length; /* of data, or of what is wanted */
    iw_be32_t rkey;
    iw_be64_t remote;
} vb_part_wire_t;
_Static_assert(sizeof(vb_part_wire_t) == 32, "a part has no holes");

typedef struct vb_part {
    vb_part_kind_t kind;
    bool is_mine, is_last;
    uint32_t number, length, rkey;
    uint64_t attempt, remote;
} vb_part_t;

static inline void vb_part_write(vb_part_wire_t *wire, const vb_part_t *part)
{
    *wire = (vb_part_wire_t){.kind = (uint8_t) part->kind,
                             .is_mine = part->is_mine,
                             .is_last = part->is_last,
                             .number = iw_be32(part->number),
                             .attempt = iw_be64(part->attempt),
                             .length = iw_be32(part->length),
                             .rkey = iw_be32(part->rkey),
                             .remote = iw_be64(part->remote)};
}

/* size is what arrived. False: not a part. */
static inline bool vb_part_read(vb_part_t *part, const void *data, size_t size)
{
    vb_part_wire_t wire;
    if (size < sizeof(wire)) {
        return false;
    }
    memcpy(&wire, data, sizeof(wire));
    *part = (vb_part_t){.kind = (vb_part_kind_t) wire.kind,
                        .is_mine = 1 == wire.is_mine,
                        .is_last = 1 == wire.is_last,
                        .number = iw_get32(wire.number),
                        .length = iw_get32(wire.length),
                        .rkey = iw_get32(wire.rkey),
                        .attempt = iw_get64(wire.attempt),
                        .remote = iw_get64(wire.remote)};
    const size_t behind = VB_PART_READ == part->kind ? 0 : part->length;
    return wire.kind >= VB_PART_HELLO && wire.kind < VB_PART_KINDS && wire.is_mine <= 1 && wire.is_last <= 1
           && size == sizeof(wire) + behind;
}

/* ---- header of a message: 8 bytes, so that what follows stays aligned; little-endian ---- */

typedef enum vb_type {
    VB_MESSAGE = 1, /* for the callback of its tag */
    VB_CREDIT,      /* only the header; also the first word of the side that connected */
    VB_BYE,         /* only the header; nothing follows, the end of the connection is no error */
    /* By datagrams only, only the header, `seen` is the round of the leave (vb_switch.h): */
    VB_LEAVE,
    VB_ARRIVED,
    VB_RETURN,
    VB_BROKE,
    VB_GAVE_UP,
} vb_type_t;

typedef struct vb_hdr {
    uint8_t type;
    uint8_t tag;
    uint16_t credits; /* receive buffers posted again since the last header said so */
    uint16_t seen;    /* control messages (all but VB_MESSAGE) received so far, modulo 2^16 */
    uint8_t reserved[2];
} vb_hdr_t;
_Static_assert(sizeof(vb_hdr_t) == 8, "what follows the header stays aligned");
_Static_assert(offsetof(vb_hdr_t, credits) == 2 && offsetof(vb_hdr_t, seen) == 4, "no holes");

static inline void vb_hdr_write(vb_hdr_t *hdr, vb_type_t type, uint8_t tag, uint16_t credits,
                                uint16_t seen)
{
    *hdr = (vb_hdr_t){
        .type = (uint8_t) type, .tag = tag, .credits = htole16(credits), .seen = htole16(seen)};
}

#endif
