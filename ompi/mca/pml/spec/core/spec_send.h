/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The sender's side towards one receiver in one communicator: numbers messages, and finds the message that each RTR (a receiver's
 * offer of its buffer) is for, by the rule of docs/design/protocol.md, "RTR: which message it is for".
 *
 * A ring has the tags of the latest sends. Ring and tables make the ledger; it is allocated when the first RTR of this receiver
 * arrives, so that programs without receivers that come early pay one pointer per peer. Kept RTRs hang in a bin per tag,
 * sorted by `due`: the number that the send counter of the bin will have when its send is issued. So a send examines one
 * head, whatever is kept.
 *
 * Threads: none here; the caller's lock covers one spec_send_t. RTR objects are the caller's; the
 * ledger only links them. */
#ifndef SPEC_SEND_H
#define SPEC_SEND_H

#include "spec_claim.h"
#include "spec_stream.h"

/* Tags remembered: an RTR is useful if fewer messages than this were issued while it travelled.
 * (test_model_replay takes fewer, to come to the end of the ring.) */
#ifndef SPEC_RING
#    define SPEC_RING 256u
#endif
/* RTRs kept per receiver; more are dropped. Bounds what a peer can make us keep. */
#define SPEC_KEPT_MAX       1024u
#define SPEC_LEDGER_BUCKETS 256u

/* An item of a receiver's control stream: an RTR, or a REVOKE. It is in one of three: kept in the stream, kept in
 * a bin, or the caller's. */
typedef struct spec_ctl {
    spec_item_t item; /* in the stream, later in its bin */
    bool is_revoke;
    int32_t tag;
    uint32_t e, k;      /* of an RTR */
    uint32_t due;       /* of a kept RTR */
    uint64_t length;    /* of an RTR: size of the receiver's buffer in bytes */
    spec_claim_t claim; /* of an RTR: to be taken before it is used */
} spec_ctl_t;

/* What became of an RTR. */
typedef enum spec_rtr_fate {
    SPEC_RTR_KEPT,
    SPEC_RTR_USED,
    SPEC_RTR_CROSSED,      /* its message is under way by another protocol */
    SPEC_RTR_TOO_OLD,      /* E is older than the ring: cannot tell, so dropped */
    SPEC_RTR_MISPREDICTED, /* its message is not for RDMA (eager, datatype, ...) */
    SPEC_RTR_TOO_SHORT,    /* its message is longer than the receiver's buffer */
    SPEC_RTR_FULL,         /* SPEC_KEPT_MAX are kept */
    SPEC_RTR_REVOKED,      /* the receiver took it back */
    SPEC_RTR_REFUSED,      /* nonsense: E beyond what was sent, k absurd, or a duplicate */
    SPEC_RTR_FATES
} spec_rtr_fate_t;

typedef struct spec_ledger spec_ledger_t;

typedef struct spec_send {
    uint32_t nxt; /* sequence number of the next message */
    spec_ledger_t *ledger;
} spec_send_t;

/* 0, or -1 when memory is out. Call when the first RTR or REVOKE arrives. */
int spec_send_open_ledger(spec_send_t *s);

/* Free the ledger; what it still held is appended to `left` for the caller. */
void spec_send_close_ledger(spec_send_t *s, spec_node_t *left);

/* The stream of RTR and REVOKE (a ledger exists). */
spec_stream_t *spec_send_ctl(spec_send_t *s);

/* How many RTRs are kept. */
uint32_t spec_send_kept(const spec_send_t *s);

/* Is the RTR here that names the next message with this tag? Then it is about to be used: its claim word is fetched. */
bool spec_send_has_rtr(const spec_send_t *s, int32_t tag);

/* An RTR whose turn it is on the control stream. KEPT: the ledger has it; else the caller has. */
spec_rtr_fate_t spec_send_admit(spec_send_t *s, spec_ctl_t *rtr);

/* A REVOKE whose turn it is: append all kept RTRs of the tag to `dropped` (linked by item.node).
 * Returns S for the answer. */
uint32_t spec_send_revoke(spec_send_t *s, int32_t tag, spec_node_t *dropped);

/* Slow path of spec_send_issue. */
spec_ctl_t *spec_send_consult(spec_send_t *s, int32_t tag, uint64_t length, bool can_put,
                              spec_rtr_fate_t *fate);

/* Issue a message: gives it a sequence number and settles the RTR that named it.
 * length: bytes of the message; can_put: large enough for rendezvous and fit for RDMA.
 * Returns the number. *rtr is NULL, or the RTR that named this message, now the caller's: to be
 * used if *fate is SPEC_RTR_USED and then spec_send_take, else only to be counted and freed. */
static inline uint32_t spec_send_issue(spec_send_t *s, int32_t tag, uint64_t length, bool can_put,
                                       spec_ctl_t **rtr, spec_rtr_fate_t *fate)
{
    *rtr = NULL == s->ledger ? NULL : spec_send_consult(s, tag, length, can_put, fate);
    return s->nxt++;
}

/* The last thing before an RTR is used: USED, or the receiver has withdrawn it meanwhile. USED is for good. */
static inline spec_rtr_fate_t spec_send_take(const spec_ctl_t *rtr)
{
    return spec_claim_take(&rtr->claim) ? SPEC_RTR_USED : SPEC_RTR_REVOKED;
}

#endif
