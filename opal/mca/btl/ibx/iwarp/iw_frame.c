/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Parses a datagram and checks lengths, types and flags before anything else sees it. */
#include "iw_frame.h"

/* The next length bytes, or NULL if there are not that many. */
static const void *take(const uint8_t **at, size_t *left, size_t length)
{
    if (*left < length) {
        return NULL;
    }
    const void *block = *at;
    *at += length;
    *left -= length;
    return block;
}

iw_frame_verdict_t iw_frame_check(const uint8_t *data, size_t length, iw_frame_t *f)
{
    const uint8_t *at = data;
    size_t left = length;
    *f = (iw_frame_t){0};
    if (length > IW_DATAGRAM_MAX || NULL == (f->head = take(&at, &left, sizeof(iw_head_t)))) {
        return IW_FRAME_LENGTH;
    }
    f->type = f->head->version_type & 0x0f;
    f->flags = f->head->flags;
    if (IW_VERSION != f->head->version_type >> 4 || (f->type != IW_SEGMENT && f->type < IW_CONTROL)
        || f->type > IW_CLOSE || 0 != (f->flags & ~IW_FLAGS) || IW_F_RNR == (f->flags & (IW_F_RNR | IW_F_ACK))) {
        return IW_FRAME_VERSION;
    }
    f->pn = iw_get64(f->head->pn);
    /* More than pn itself makes a floor above pn, which is refused as out of range. */
    f->floor = f->pn - iw_get16(f->head->floor);
    if ((f->flags & IW_F_HELLO) && NULL == (f->hello = take(&at, &left, sizeof(iw_hello_t)))) {
        return IW_FRAME_LENGTH;
    }
    if (f->flags & IW_F_ACK) {
        if (NULL == (f->ack = take(&at, &left, sizeof(iw_ack_t)))) {
            return IW_FRAME_LENGTH;
        }
        const unsigned ranges = f->ack->ranges;
        if (0 == ranges || ranges > IW_RANGES_MAX
            || NULL == (f->range = take(&at, &left, ranges * sizeof(iw_range_t)))) {
            return IW_FRAME_LENGTH;
        }
        if ((f->flags & IW_F_RNR) && NULL == (f->rnr = take(&at, &left, sizeof(iw_rnr_t)))) {
            return IW_FRAME_LENGTH;
        }
    }
    if (IW_SEGMENT == f->type) {
        const iw_seq_t *seq = take(&at, &left, sizeof(iw_seq_t));
        if (NULL == seq || iw_get16(seq->ulpdu.length) != left) {
            return IW_FRAME_LENGTH;
        }
        f->ssn = iw_get32(seq->ssn);
    } else if (IW_TERMINATE == f->type) {
        const iw_ulpdu_t *ulpdu = take(&at, &left, sizeof(iw_ulpdu_t));
        if (NULL == ulpdu || iw_get16(ulpdu->length) != left) {
            return IW_FRAME_LENGTH;
        }
    } else if (0 != left && IW_PROBE != f->type) {
        return IW_FRAME_LENGTH;
    }
    f->body = at;
    f->body_length = left;
    return IW_FRAME_OK;
}

static int tagged_check(const uint8_t *body, size_t length, iw_ddp_t *d)
{
    const iw_tagged_t *h = (const iw_tagged_t *) body;
    if (length < sizeof(*h)) {
        return IW_TERM_LENGTH;
    }
    d->stag = iw_get32(h->stag);
    d->to = iw_get64(h->to);
    d->payload = body + sizeof(*h);
    d->length = (uint32_t) (length - sizeof(*h));
    return IW_OP_WRITE == d->opcode || IW_OP_READ_RESPONSE == d->opcode ? IW_TERM_NONE
                                                                        : IW_TERM_OPCODE;
}

/* A message of the protocol's own, which one segment holds. */
static int whole_check(const iw_ddp_t *d, uint32_t qn, size_t length)
{
    if (qn != d->qn) {
        return IW_TERM_DDP_QN;
    }
    if (0 != d->mo || !d->last) {
        return IW_TERM_DDP_MO;
    }
    return length == d->length ? IW_TERM_NONE : IW_TERM_LENGTH;
}

static int untagged_check(const uint8_t *body, size_t length, iw_ddp_t *d)
{
    const iw_untagged_t *h = (const iw_untagged_t *) body;
    if (length < sizeof(*h)) {
        return IW_TERM_LENGTH;
    }
    d->qn = iw_get32(h->qn);
    d->msn = iw_get32(h->msn);
    d->mo = iw_get32(h->mo);
    d->payload = body + sizeof(*h);
    d->length = (uint32_t) (length - sizeof(*h));
    switch (d->opcode) {
    case IW_OP_SEND:
        return IW_QN_SEND == d->qn ? IW_TERM_NONE : IW_TERM_DDP_QN;
    case IW_OP_READ_REQUEST:
        return whole_check(d, IW_QN_READ, sizeof(iw_read_request_t));
    case IW_OP_ATOMIC_REQUEST:
        return whole_check(d, IW_QN_READ, sizeof(iw_atomic_request_t));
    case IW_OP_ATOMIC_RESPONSE:
        return whole_check(d, IW_QN_ATOMIC, sizeof(iw_atomic_response_t));
    case IW_OP_TERMINATE:
        if (IW_QN_TERMINATE != d->qn) {
            return IW_TERM_DDP_QN;
        }
        return sizeof(iw_terminate_t) == d->length ? IW_TERM_NONE : IW_TERM_LENGTH;
    default:
        return IW_TERM_OPCODE;
    }
}

int iw_ddp_check(const uint8_t *body, size_t length, iw_ddp_t *d)
{
    *d = (iw_ddp_t){0};
    if (length < 2) {
        return IW_TERM_LENGTH;
    }
    d->tagged = 0 != (body[0] & IW_DDP_TAGGED);
    d->last = 0 != (body[0] & IW_DDP_LAST);
    d->opcode = body[1] & IW_RDMAP_OPCODE;
    if (0 != (body[0] & IW_DDP_RESERVED) || IW_DDP_VERSION != (body[0] & IW_DDP_DV_MASK)) {
        return d->tagged ? IW_TERM_DDP_TAGGED_VERSION : IW_TERM_DDP_UNTAGGED_VERSION;
    }
    if (0 != (body[1] & IW_RDMAP_RESERVED) || IW_RDMAP_VERSION != (body[1] & IW_RDMAP_RV_MASK)) {
        return IW_TERM_RDMAP_VERSION;
    }
    return d->tagged ? tagged_check(body, length, d) : untagged_check(body, length, d);
}
