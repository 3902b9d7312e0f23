/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Taking a datagram apart: all checks that need nothing but its bytes. Pure. */
#ifndef IW_FRAME_H
#define IW_FRAME_H

#include "iw_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum iw_frame_verdict {
    IW_FRAME_OK,
    IW_FRAME_LENGTH,
    IW_FRAME_VERSION,
} iw_frame_verdict_t;

/* Pointers lead into the datagram; NULL where a block is absent. */
typedef struct iw_frame {
    const iw_head_t *head;
    const iw_hello_t *hello;
    const iw_ack_t *ack;
    const iw_range_t *range; /* ack->ranges of them, 1 to IW_RANGES_MAX */
    const iw_rnr_t *rnr;
    const uint8_t *body; /* ULPDU of a SEGMENT or TERMINATE */
    size_t body_length;
    uint64_t pn;
    uint64_t floor;
    uint32_t ssn; /* of a SEGMENT */
    uint8_t type;
    uint8_t flags;
} iw_frame_t;

iw_frame_verdict_t iw_frame_check(const uint8_t *data, size_t length, iw_frame_t *frame);

/* A DDP segment with its RDMAP header. */
typedef struct iw_ddp {
    const uint8_t *payload;
    uint32_t length;
    uint8_t opcode;
    bool tagged;
    bool last;
    uint32_t stag; /* tagged */
    uint64_t to;
    uint32_t qn; /* untagged */
    uint32_t msn;
    uint32_t mo;
} iw_ddp_t;

#define IW_TERM_NONE (-1)

/* IW_TERM_NONE, or the code of the Terminate that this body deserves (enum iw_term). */
int iw_ddp_check(const uint8_t *body, size_t length, iw_ddp_t *ddp);

#endif
