/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What two processes say to each other over verbs: the private data of a connection and the header of
 * a message. docs/design/verbs.md draws them. No other file defines bytes of the wire.
 *
 * Bytes are checked before they are believed: vb_hello_read refuses, it never repairs. */
#ifndef VB_WIRE_H
#define VB_WIRE_H

#include "iw_wire.h"

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- private data of a connection: at most 56 bytes travel with a request on InfiniBand ---- */

#define VB_VERSION 4

/* What an answer says; a request has VB_ASK. */
typedef enum vb_answer {
    VB_ASK,
    VB_WELCOME,
    VB_CROSSED,  /* rejected: my own request to you stands */
    VB_BUSY,     /* rejected: come again */
    VB_STRANGER, /* rejected for good: not of this job, or another version */
    VB_FULL,     /* rejected for good: enough connections; we go on with datagrams */
    VB_ANSWERS
} vb_answer_t;

/* The sender of messages need not count: their receiver has a shared queue and the fabric retries. */
#define VB_UNCOUNTED UINT16_MAX

typedef struct vb_hello_wire {
    uint8_t magic[4];
    uint8_t version;
    uint8_t answer;
    iw_be16_t credits; /* messages that may be sent to the process that says hello; VB_UNCOUNTED */
    iw_be64_t name;    /* of the process that says hello */
    iw_be64_t key;     /* of the process it is said to, from the modex: proof of being in the job */
    iw_be32_t buffer;  /* bytes of a receive buffer, header included */
    uint8_t reserved[4];
} vb_hello_wire_t;
_Static_assert(sizeof(vb_hello_wire_t) == 32, "a hello has no holes");
_Static_assert(sizeof(vb_hello_wire_t) <= 56, "fits the private data of an InfiniBand request");

typedef struct vb_hello {
    vb_answer_t answer;
    uint16_t credits;
    uint32_t buffer;
    uint64_t name;
    uint64_t key;
} vb_hello_t;

static inline void vb_hello_write(vb_hello_wire_t *wire, const vb_hello_t *hello)
{
    *wire = (vb_hello_wire_t){.magic = {'I', 'B', 'X', 'v'},
                              .version = VB_VERSION,
                              .answer = (uint8_t) hello->answer,
                              .credits = iw_be16(hello->credits),
                              .name = iw_be64(hello->name),
                              .key = iw_be64(hello->key),
                              .buffer = iw_be32(hello->buffer)};
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
        || wire.answer >= VB_ANSWERS) {
        return false;
    }
    *hello = (vb_hello_t){.answer = (vb_answer_t) wire.answer,
                          .credits = iw_get16(wire.credits),
                          .buffer = iw_get32(wire.buffer),
                          .name = iw_get64(wire.name),
                          .key = iw_get64(wire.key)};
    return true;
}

/* ---- header of a message: 8 bytes, so that what follows stays aligned; little-endian ---- */

typedef enum vb_type {
    VB_MESSAGE = 1, /* for the callback of its tag */
    VB_CREDIT,      /* only the header; also the first word of the side that connected */
    VB_BYE,         /* only the header; nothing follows, the end of the connection is no error */
    /* By datagrams only, only the header, `seen` is the round (vb_switch.h): */
    VB_LEAVE,
    VB_ARRIVED,
    VB_RETURN,
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
