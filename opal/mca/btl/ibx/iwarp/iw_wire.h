/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The wire format of datagram iWARP: every field of a datagram, and nothing else. docs/design/wire.md draws it.
 * Its order is that of the structs here: the flags of the head say which blocks there are, its type what the body is.
 *
 * All fields are big-endian. Structs are made of byte arrays: no alignment, no padding, the same
 * in every build. Words: pn = packet number, ssn = segment sequence number. */
#ifndef IW_WIRE_H
#define IW_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct iw_be16 {
    uint8_t b[2];
} iw_be16_t;
typedef struct iw_be32 {
    uint8_t b[4];
} iw_be32_t;
typedef struct iw_be64 {
    uint8_t b[8];
} iw_be64_t;

static inline uint16_t iw_get16(iw_be16_t v)
{
    return (uint16_t) (v.b[0] << 8 | v.b[1]);
}
static inline uint32_t iw_get32(iw_be32_t v)
{
    return (uint32_t) v.b[0] << 24 | (uint32_t) v.b[1] << 16 | (uint32_t) v.b[2] << 8 | v.b[3];
}
static inline uint64_t iw_get64(iw_be64_t v)
{
    uint64_t n = 0;
    for (int i = 0; i < 8; ++i) {
        n = n << 8 | v.b[i];
    }
    return n;
}
static inline iw_be16_t iw_be16(uint16_t n)
{
    return (iw_be16_t){{(uint8_t) (n >> 8), (uint8_t) n}};
}
static inline iw_be32_t iw_be32(uint32_t n)
{
    return (iw_be32_t){{(uint8_t) (n >> 24), (uint8_t) (n >> 16), (uint8_t) (n >> 8), (uint8_t) n}};
}
static inline iw_be64_t iw_be64(uint64_t n)
{
    iw_be64_t v;
    for (int i = 7; i >= 0; --i, n >>= 8) {
        v.b[i] = (uint8_t) n;
    }
    return v;
}

/* ---- head: in every datagram ---- */

#define IW_VERSION 2

enum iw_type {
    IW_SEGMENT = 1,
    IW_CONTROL = 3, /* 2 was an unreliable service */
    IW_PROBE = 4,
    IW_TERMINATE = 5,
    IW_CLOSE = 6,
};

enum iw_flag {
    IW_F_HELLO = 1, /* a hello block follows */
    IW_F_ACK = 2,   /* an ack block follows */
    IW_F_RNR = 4,   /* with ACK: an rnr block follows it */
    IW_F_NOW = 8,   /* the sender waits for the acknowledgement: do not delay it */
    IW_F_SOON = 16, /* the same, but an answer may bring it: delay it until the receiver polls again */
};
#define IW_FLAGS 0x1f /* all others are zero and refused if not */

typedef struct iw_head {
    uint8_t
        version_type; /* version << 4 | type: first, so that later versions can change what follows */
    uint8_t flags;
    iw_be16_t floor; /* pn - floor is the lowest number the sender still waits for: the receiver
                      * forgets what is below, so a number that is never used again costs nothing */
    iw_be32_t
        conn; /* connection, as its receiver numbers them; 0: not known yet, hello follows. Comes
                      * again; what does not is the generation, which the tag is made with */
    iw_be64_t pn;    /* never used twice in a connection, so it says replayed from resent */
    iw_be64_t
        tag; /* over the datagram with the receiver's generation here (0 with a hello, which has it in
                      * `answers`): keyed tag, or that alone (iw_auth.h) */
} iw_head_t;

/* ---- hello: until the peer has shown that it knows the connection ---- */

typedef struct iw_hello {
    iw_be64_t identity;   /* of the sender, by the name the job gave it */
    iw_be64_t generation; /* of the sender's side; grows with each connection it ever makes, so that
                           * a restarted process is told from datagrams of its predecessor */
    iw_be64_t answers;  /* generation of the receiver's side, as far as the sender knows it, or 0 */
    iw_be32_t conn;     /* what the peer shall write into its heads */
    iw_be16_t datagram; /* largest datagram the sender can take */
    uint8_t version_max; /* highest version the sender speaks */
    uint8_t reads;       /* RDMA Read Requests the sender serves at a time (IRD) */
} iw_hello_t;

/* ---- ack ---- */

typedef struct iw_ack {
    iw_be32_t largest; /* highest pn received, low 32 bits */
    iw_be32_t next;    /* lowest ssn not received: all before have arrived */
    iw_be32_t window;  /* bytes the receiver is ready to have in flight */
    iw_be16_t delay;   /* between receiving largest and this, in microseconds */
    uint8_t marks;     /* datagrams received that the network marked (RFC 3168), low 8 bits of the number; 0 before it knew */
    uint8_t ranges;    /* how many follow; the first has gap 0 and ends with largest */
} iw_ack_t;

/* Downwards: gap numbers not received, then run numbers received. */
typedef struct iw_range {
    iw_be16_t gap;
    iw_be16_t run;
} iw_range_t;

typedef struct iw_rnr {
    iw_be32_t refused; /* highest pn refused because there was no receive buffer, low 32 bits */
} iw_rnr_t;

#define IW_RANGES_MAX       64 /* in a datagram without a body */
#define IW_RANGES_PIGGYBACK 4  /* beside a body: more holes than that get a datagram of their own */

/* ---- body ---- */

/* Length of what follows, as MPA has it: all of the datagram, exactly. It also gives the DDP
 * header, two bytes short of a multiple of four. */
typedef struct iw_ulpdu {
    iw_be16_t length;
} iw_ulpdu_t;

typedef struct iw_seq {
    iw_be32_t ssn;
    iw_ulpdu_t ulpdu;
} iw_seq_t;

/* DDP control (RFC 5041, 4.1) and RDMAP control (RFC 5040, 4.1). */
#define IW_DDP_TAGGED     0x80
#define IW_DDP_LAST       0x40
#define IW_DDP_RESERVED   0x3c
#define IW_DDP_VERSION    0x01
#define IW_DDP_DV_MASK    0x03
#define IW_RDMAP_VERSION  0x40
#define IW_RDMAP_RV_MASK  0xc0
#define IW_RDMAP_RESERVED 0x30
#define IW_RDMAP_OPCODE   0x0f

enum iw_opcode { /* RFC 5040, figure 4 */
                 IW_OP_WRITE = 0,
                 IW_OP_READ_REQUEST = 1,
                 IW_OP_READ_RESPONSE = 2,
                 IW_OP_SEND = 3,
                 IW_OP_TERMINATE = 7,
                 IW_OP_ATOMIC_REQUEST = 10, /* these two: RFC 7306, 4 */
                 IW_OP_ATOMIC_RESPONSE = 11,
};

enum iw_queue { /* RFC 5040, 4.2 and RFC 7306, 5 */
                IW_QN_SEND = 0,
                IW_QN_READ = 1, /* requests for atomic operations, too */
                IW_QN_TERMINATE = 2,
                IW_QN_ATOMIC = 3, /* their responses */
};

typedef struct iw_tagged { /* RFC 5041, 4.2 */
    uint8_t ddp;
    uint8_t rdmap;
    iw_be32_t stag;
    iw_be64_t to;
} iw_tagged_t;

typedef struct iw_untagged { /* RFC 5041, 4.3 */
    uint8_t ddp;
    uint8_t rdmap;
    iw_be32_t ulp; /* invalidate STag: not used, zero */
    iw_be32_t qn;
    iw_be32_t msn; /* from 1, per queue */
    iw_be32_t mo;
} iw_untagged_t;

typedef struct iw_read_request { /* RFC 5040, 4.4 */
    iw_be32_t sink_stag;
    iw_be64_t sink_to;
    iw_be32_t length;
    iw_be32_t source_stag;
    iw_be64_t source_to;
} iw_read_request_t;

/* RFC 7306, 5.2, without masks; the operations from 3 on and words of 32 bits are ours. */
typedef struct iw_atomic_request {
    uint8_t reserved[2]; /* zero */
    uint8_t is_32;       /* 1: the word has 32 bits; 0: 64 */
    uint8_t op;          /* iw_atomic_op_t */
    iw_be32_t number;    /* comes back with the response */
    iw_be32_t stag;
    iw_be64_t to; /* of an aligned word */
    iw_be64_t operand;
    iw_be64_t compare; /* of compare and swap */
} iw_atomic_request_t;

typedef struct iw_atomic_response { /* RFC 7306, 5.3 */
    iw_be32_t number;
    iw_be64_t before; /* the word before the operation */
} iw_atomic_response_t;

/* RFC 5040, 4.8, without copies of headers (its M, D and R bits are zero): the segment is named by
 * its number instead, as the peer has it. */
typedef struct iw_terminate {
    uint8_t layer_type; /* layer << 4 | type */
    uint8_t code;
    iw_be16_t header_bits; /* zero */
    iw_be32_t ssn;
} iw_terminate_t;

/* Terminate codes in use: layer << 12 | type << 8 | code (RFC 5040, 4.8 and RFC 5041, 6.2). */
enum iw_term {
    IW_TERM_LOCAL = 0x0000,         /* local catastrophic error */
    IW_TERM_STAG = 0x0100,          /* remote protection: invalid STag */
    IW_TERM_BOUNDS = 0x0101,        /* remote protection: base or bounds violation */
    IW_TERM_RIGHTS = 0x0102,        /* remote protection: access rights violation */
    IW_TERM_RDMAP_VERSION = 0x0205, /* remote operation: invalid RDMAP version */
    IW_TERM_OPCODE = 0x0206,        /* remote operation: unexpected opcode */
    IW_TERM_DDP_TAGGED_VERSION = 0x1104,
    IW_TERM_DDP_QN = 0x1201,       /* invalid queue number */
    IW_TERM_DDP_MSN = 0x1203,      /* message number not valid */
    IW_TERM_DDP_MO = 0x1204,       /* invalid message offset */
    IW_TERM_DDP_TOO_LONG = 0x1205, /* message too long for the buffer */
    IW_TERM_DDP_UNTAGGED_VERSION = 0x1206,
    IW_TERM_READS = 0x1202,  /* no buffer available: more Read Requests than agreed */
    IW_TERM_LENGTH = 0x2000, /* LLP: a body shorter than its opcode needs */
};

#define IW_DATAGRAM_MAX 65507 /* UDP over IPv4 */
#define IW_DATAGRAM_MIN 1200  /* every path carries that (RFC 9000, 14) */

/* The smallest that a port may have in its place: the longest prefix and some payload. */
#define IW_DATAGRAM_LEAST 512

/* The longest prefix before payload: everything at once. */
#define IW_PREFIX_MAX                                                                              \
    (sizeof(iw_head_t) + sizeof(iw_hello_t) + sizeof(iw_ack_t) + sizeof(iw_rnr_t)                  \
     + IW_RANGES_MAX * sizeof(iw_range_t) + sizeof(iw_seq_t) + sizeof(iw_untagged_t)               \
     + sizeof(iw_atomic_request_t))

/* The 64-bit packet number nearest to near whose low half is low: all of one that an acknowledgement has. */
static inline uint64_t iw_pn_expand(uint64_t near, uint32_t low)
{
    return near + (uint64_t) (int64_t) (int32_t) (low - (uint32_t) near);
}

#define IW_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has changed on the wire")
#define IW_AT(type, field, offset)                                                                 \
    _Static_assert(offsetof(type, field) == (offset), #type "." #field " has moved on the wire")
IW_SIZE(iw_head_t, 24);
IW_AT(iw_head_t, floor, 2);
IW_AT(iw_head_t, conn, 4);
IW_AT(iw_head_t, pn, 8);
IW_AT(iw_head_t, tag, 16);
IW_SIZE(iw_hello_t, 32);
IW_AT(iw_hello_t, conn, 24);
IW_AT(iw_hello_t, datagram, 28);
IW_SIZE(iw_ack_t, 16);
IW_AT(iw_ack_t, delay, 12);
IW_AT(iw_ack_t, ranges, 15);
IW_SIZE(iw_range_t, 4);
IW_SIZE(iw_rnr_t, 4);
IW_SIZE(iw_seq_t, 6);
IW_SIZE(iw_ulpdu_t, 2);
IW_SIZE(iw_tagged_t, 14);
IW_AT(iw_tagged_t, to, 6);
IW_SIZE(iw_untagged_t, 18);
IW_AT(iw_untagged_t, qn, 6);
IW_SIZE(iw_read_request_t, 28);
IW_SIZE(iw_atomic_request_t, 36);
IW_AT(iw_atomic_request_t, op, 3);
IW_AT(iw_atomic_request_t, to, 12);
IW_SIZE(iw_atomic_response_t, 12);
IW_SIZE(iw_terminate_t, 8);
_Static_assert(IW_PREFIX_MAX + 64 <= IW_DATAGRAM_LEAST, "no room for payload");
#undef IW_SIZE
#undef IW_AT

#endif
