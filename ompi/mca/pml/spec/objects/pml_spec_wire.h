/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The wire format of pml/spec: every packet that two processes exchange (docs/design/protocol.md).
 *
 * Each type is an active message with a tag of its own. Numbers are in host byte order: processes
 * of another byte order or another Open MPI build are refused when they are added (add_procs).
 * Handles stand for requests (core/spec_handle.h); addresses are only ever given to the transport's
 * put and get, together with the transport's registration key where it has one. */
#ifndef PML_SPEC_WIRE_H
#define PML_SPEC_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "opal/mca/btl/btl.h"

/* Active message tags. */
enum mca_pml_spec_type {
    /* With a sequence number: they begin with the match header. */
    MCA_PML_SPEC_EAGER = MCA_BTL_TAG_PML + 1, /* small message, data behind the header */
    MCA_PML_SPEC_RTS,   /* sender first: a large (or synchronous) message wants to be fetched */
    MCA_PML_SPEC_MATCH, /* receiver first: message `seq` uses the RTR of receive R */
    /* The receiver's side of receiver first, and what answers it. */
    MCA_PML_SPEC_RTR,     /* receive R waits for a message, here is its buffer */
    MCA_PML_SPEC_REVOKE,  /* forget all RTRs of a tag */
    MCA_PML_SPEC_REVOKED, /* done; no message from sequence s on uses them */
    /* Moving data. */
    MCA_PML_SPEC_CTS,  /* the receiver's answer to RTS: put or copy this range to receive R */
    MCA_PML_SPEC_FRAG, /* a piece of data by copy */
    MCA_PML_SPEC_FIN, /* a range is complete (to the sender after a get, to the receiver after a put) */
    /* Adaptation. */
    MCA_PML_SPEC_STOP, /* no more RTRs for this envelope (an RTS says it with a flag) */
    MCA_PML_SPEC_PING, /* what does your clock show? */
    MCA_PML_SPEC_PONG, /* this */
    MCA_PML_SPEC_KEY,  /* goes ahead of an RTR: the buffer's registration with one more transport */
    MCA_PML_SPEC_HELLO,  /* this is my number of a communicator that has no common one */
    MCA_PML_SPEC_CREDIT, /* so much more may be sent that nobody has asked for */
    /* Eager data that is longer than a packet: core/spec_parts.h. The first has a sequence number, too. */
    MCA_PML_SPEC_PARTS,
    MCA_PML_SPEC_PART,
    /* An RTR whose addr is the name of a ring: objects/pml_spec_cico.h. */
    MCA_PML_SPEC_RTR_RING,
    /* An RTR whose buffer is staged: what is put there goes in pieces, each told by its FIN. */
    MCA_PML_SPEC_RTR_STAGED,
    /* An EAGER whose data lies in memory that both processes map: services/pml_spec_slots.h. */
    MCA_PML_SPEC_SLOT,
};

/* Longest registration key that travels behind a header. */
#define MCA_PML_SPEC_KEY_MAX MCA_BTL_REG_HANDLE_MAX_SIZE

typedef struct mca_pml_spec_match_hdr {
    uint8_t type;
    uint8_t epoch; /* the sender's epoch of ctx: tells incarnations of a communicator id apart */
    uint16_t ctx;  /* communicator id, as the receiver of the packet knows it */
    int32_t src;   /* the sender's rank in the communicator */
    int32_t tag;
    uint32_t seq; /* per (communicator, sender -> receiver) */
} mca_pml_spec_match_hdr_t;

/* Then: the first data. */
typedef struct mca_pml_spec_parts_hdr {
    mca_pml_spec_match_hdr_t match;
    uint32_t length; /* of the message, bytes */
    uint32_t reserved;
} mca_pml_spec_parts_hdr_t;

/* Then: data, the next of its message. */
typedef struct mca_pml_spec_part_hdr {
    uint8_t type;
    uint8_t epoch; /* these four as in the first */
    uint16_t ctx;
    int32_t src;
    uint32_t seq;
    uint32_t offset;
    uint64_t reserved;
} mca_pml_spec_part_hdr_t;

enum {
    MCA_PML_SPEC_SLOT_MESSAGE,
    MCA_PML_SPEC_SLOT_ASKS,        /* does the receiver of this reach the sender's slots? */
    MCA_PML_SPEC_SLOT_REACHED,     /* yes */
    MCA_PML_SPEC_SLOT_NOT_REACHED, /* no */
};

typedef struct mca_pml_spec_slot_hdr {
    uint8_t type;
    uint8_t what;
    uint16_t fd;     /* ASKS: the file of the slots, as it is open */
    uint32_t pid;    /* ASKS: in this process */
    uint64_t name;   /* of the process that sends this */
    uint32_t at;     /* MESSAGE: where its data begins in the slots */
    uint32_t length; /* of the data, bytes */
    mca_pml_spec_match_hdr_t match;
} mca_pml_spec_slot_hdr_t;

enum {
    MCA_PML_SPEC_RTS_FLAT = 1, /* the data is one block at addr: put and get are possible */
    MCA_PML_SPEC_RTS_KEY = 2,  /* registered with the transport this came by; the key follows */
    MCA_PML_SPEC_RTS_STOP = 4, /* send no more RTRs for this envelope */
    /* The sender could not read its data: there is none, the receive ends in an error and answers nothing. */
    MCA_PML_SPEC_RTS_FAULT = 8,
    MCA_PML_SPEC_RTS_PUT =
        16, /* with FLAT: the data is not there before it is asked for, so nobody reads it */
    MCA_PML_SPEC_RTS_FRAGMENTS =
        32, /* with FLAT: FRAGs come while both ends wait: services/pml_spec_joint.h */
    MCA_PML_SPEC_RTS_RING =
        64, /* addr is the name of a ring by which the data can be had: objects/pml_spec_cico.h */
};

/* Then: key_len bytes of key, then data until the end of the packet. */
typedef struct mca_pml_spec_rts_hdr {
    mca_pml_spec_match_hdr_t match;
    uint64_t length; /* of the message, bytes */
    uint64_t s;      /* the sender's handle */
    uint64_t addr;
    uint16_t flags;
    uint16_t key_len;
    uint32_t sent_at; /* while stopped: when this was sent, core/spec_clock.h; else 0 */
} mca_pml_spec_rts_hdr_t;

typedef struct mca_pml_spec_match_notice {
    mca_pml_spec_match_hdr_t match;
    uint64_t r;      /* handle of the receive whose RTR is used */
    uint64_t length; /* of the message */
    uint64_t bytes;  /* of it, how many are in place already: a FIN in the same packet */
    uint64_t s;      /* 0, or the sender's handle: both ends move the message, */
    uint64_t addr;   /* which is here */
} mca_pml_spec_match_notice_t;

/* Then: key_len bytes of key. */
typedef struct mca_pml_spec_rtr_hdr {
    uint8_t type;
    uint8_t epoch; /* of the sender to be, as the receiver knows it */
    uint16_t ctx;
    int32_t src; /* rank of the process that sends the RTR */
    int32_t tag; /* exact */
    uint32_t no; /* number on the control stream */
    uint32_t e;  /* next sequence the receiver has not processed */
    uint32_t k;  /* receives for the same (source, tag) pending before this one */
    uint64_t r;  /* the receive's handle */
    uint64_t length;
    uint64_t addr;
    uint64_t name; /* of the process that sends the RTR */
    uint16_t key_len;
    uint16_t page_fd;  /* where the word of the offer is, among the open files of process */
    uint32_t page_pid; /* page_pid; 0: it has none (core/spec_claim.h) */
} mca_pml_spec_rtr_hdr_t;

/* Then: key_len bytes of key. */
typedef struct mca_pml_spec_key_hdr {
    uint8_t type;
    uint8_t epoch; /* as in the RTR */
    uint16_t ctx;
    int32_t src;   /* rank of the process that sends it */
    uint64_t r;    /* the receive's handle */
    uint64_t name; /* of the process that sends it */
    uint16_t key_len;
    uint16_t reserved[3];
} mca_pml_spec_key_hdr_t;

typedef struct mca_pml_spec_revoke_hdr {
    uint8_t type;
    uint8_t epoch; /* as in the RTRs it revokes */
    uint16_t ctx;
    int32_t src;
    int32_t tag;
    uint32_t no;
    uint64_t name;
    uint32_t e;         /* echoed as s by a process that keeps nothing of this communicator */
    int32_t dst;        /* rank of the process that is asked, for the answer's src */
    uint16_t back;      /* ctx of the answer, */
    uint8_t back_epoch; /* and its epoch at the process that asks */
    uint8_t reserved[5];
} mca_pml_spec_revoke_hdr_t;

typedef struct mca_pml_spec_revoked_hdr {
    uint8_t type;
    uint8_t epoch; /* of the process that asked */
    uint16_t ctx;
    int32_t src; /* rank of the process that answers */
    int32_t tag;
    uint32_t no; /* of the REVOKE */
    uint32_t s;  /* no message from this sequence on uses a revoked RTR */
} mca_pml_spec_revoked_hdr_t;

enum {
    MCA_PML_SPEC_CTS_PUT = 1,  /* write into addr with the transport this came by */
    MCA_PML_SPEC_CTS_COPY = 2, /* send FRAGs */
    MCA_PML_SPEC_CTS_JOINT =
        4, /* put pieces of it, as the receiver gets pieces: services/pml_spec_joint.h */
    MCA_PML_SPEC_CTS_NO_RING = 8, /* of an RTS: the ring that it names cannot be reached */
    MCA_PML_SPEC_CTS_STAGED = 16, /* with PUT: in pieces, each told by its FIN */
};

/* Then: key_len bytes of key. */
typedef struct mca_pml_spec_cts_hdr {
    uint8_t type;
    uint8_t flags;
    uint8_t reserved[6];
    uint64_t s;
    uint64_t r;
    uint64_t offset; /* range of the message that is asked for */
    uint64_t length;
    uint64_t addr;  /* where the range goes */
    uint64_t waive; /* bytes that will never be asked for (truncation) */
    uint16_t key_len;
    uint16_t page_fd; /* JOINT: where the word is, as in an RTR */
    uint32_t page_pid;
} mca_pml_spec_cts_hdr_t;

typedef struct mca_pml_spec_frag_hdr {
    uint8_t type;
    uint8_t reserved[7];
    uint64_t r;
    uint64_t offset;
} mca_pml_spec_frag_hdr_t;

/* A status of a FIN: the sender's communicator was revoked. It is none of Open MPI's own. */
#define MCA_PML_SPEC_ERR_REVOKED (-0x5eed)

/* To a sender whose whole message is complete it ends before `bytes`; it has an offset only to a receive, after a put. */
typedef struct mca_pml_spec_fin_hdr {
    uint8_t type;
    uint8_t to_sender; /* 1: handle is a sender's, 0: a receive's */
    uint16_t joint;    /* 1: both ends move the message */
    int32_t status;    /* 0, or a negative error of the side that moved the data */
    uint64_t handle;
    uint64_t bytes;  /* complete with this FIN, */
    uint64_t offset; /* from here on in the message */
} mca_pml_spec_fin_hdr_t;
#define MCA_PML_SPEC_FIN_WHOLE offsetof(mca_pml_spec_fin_hdr_t, bytes)
#define MCA_PML_SPEC_FIN_SUM   offsetof(mca_pml_spec_fin_hdr_t, offset)

typedef struct mca_pml_spec_ping_hdr {
    uint8_t type;
    uint8_t epoch; /* of the process that asks */
    uint16_t ctx;
    int32_t src;    /* rank of the process that asks */
    uint64_t asked; /* its clock, ns */
} mca_pml_spec_ping_hdr_t;

typedef struct mca_pml_spec_pong_hdr {
    uint8_t type;
    uint8_t epoch; /* as in the PING */
    uint16_t ctx;
    int32_t src;    /* rank of the process that answers */
    uint64_t asked; /* as in the PING */
    uint64_t clock; /* of the process that answers, ns */
} mca_pml_spec_pong_hdr_t;

typedef struct mca_pml_spec_hello_hdr {
    uint8_t type;
    uint8_t is_answer; /* else one is wanted */
    uint16_t ctx;      /* the communicator, as the process that sends this knows it */
    int32_t src;       /* its rank there */
    uint64_t name[2];  /* the communicator, as everybody knows it */
} mca_pml_spec_hello_hdr_t;

typedef struct mca_pml_spec_credit_hdr {
    uint8_t type;
    uint8_t epoch; /* of the process that gets it, as the one that gives it knows it */
    uint16_t ctx;
    int32_t src;   /* rank of the process that gives it */
    uint32_t told; /* core/spec_flow.h; the highest counts */
} mca_pml_spec_credit_hdr_t;

#define SPEC_WIRE_SIZE(type, size)                                                                 \
    _Static_assert(sizeof(mca_pml_spec_##type) == (size), #type " must not change its size")
SPEC_WIRE_SIZE(match_hdr_t, 16);
SPEC_WIRE_SIZE(parts_hdr_t, 24);
SPEC_WIRE_SIZE(part_hdr_t, 24);
SPEC_WIRE_SIZE(slot_hdr_t, 40);
SPEC_WIRE_SIZE(rts_hdr_t, 48);
SPEC_WIRE_SIZE(match_notice_t, 56);
SPEC_WIRE_SIZE(rtr_hdr_t, 64);
SPEC_WIRE_SIZE(key_hdr_t, 32);
SPEC_WIRE_SIZE(revoke_hdr_t, 40);
SPEC_WIRE_SIZE(revoked_hdr_t, 20);
SPEC_WIRE_SIZE(cts_hdr_t, 64);
SPEC_WIRE_SIZE(frag_hdr_t, 24);
SPEC_WIRE_SIZE(fin_hdr_t, 32);
SPEC_WIRE_SIZE(ping_hdr_t, 16);
SPEC_WIRE_SIZE(pong_hdr_t, 24);
SPEC_WIRE_SIZE(hello_hdr_t, 24);
SPEC_WIRE_SIZE(credit_hdr_t, 12);
#undef SPEC_WIRE_SIZE
_Static_assert(offsetof(mca_pml_spec_rts_hdr_t, length) == 16, "RTS layout");
_Static_assert(offsetof(mca_pml_spec_rtr_hdr_t, r) == 24, "RTR layout");
_Static_assert(offsetof(mca_pml_spec_rtr_hdr_t, key_len) == 56, "RTR layout");
_Static_assert(offsetof(mca_pml_spec_cts_hdr_t, s) == 8, "CTS layout");
_Static_assert(offsetof(mca_pml_spec_fin_hdr_t, handle) == 8, "FIN layout");
_Static_assert(MCA_PML_SPEC_FIN_WHOLE == 16 && MCA_PML_SPEC_FIN_SUM == 24, "FIN layout");

#endif
