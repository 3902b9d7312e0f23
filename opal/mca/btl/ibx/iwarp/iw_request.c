/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Requests: posting, serving a peer, completing. */
#include "iw_internal.h"

static iw_status_t check_pieces(const struct iovec *piece, unsigned count, unsigned flags,
                                uint32_t *length)
{
    uint64_t sum = 0;
    if (count > IW_IOV_MAX) {
        return IW_TOO_LONG;
    }
    for (unsigned i = 0; i < count; ++i) {
        if (piece[i].iov_len > UINT32_MAX) {
            return IW_TOO_LONG;
        }
        sum += piece[i].iov_len;
    }
    if (sum > UINT32_MAX || ((flags & IW_INLINE) && sum > IW_INLINE_MAX)) {
        return IW_TOO_LONG;
    }
    *length = (uint32_t) sum;
    return IW_OK;
}

static iw_pool_t *pool_of(iw_engine_t *e, unsigned operation)
{
    return IW_DO_RESPONSE == operation || IW_DO_ANSWER == operation ? &e->served : &e->requests;
}

/* A request of this peer, in no queue yet. */
static iw_status_t begin(iw_peer_t *p, unsigned operation, unsigned flags, void *context,
                         iw_request_t **request)
{
    iw_engine_t *e = p->engine;
    if (IW_ACTIVE != p->state && IW_IDLE != p->state) {
        return IW_DOWN == p->state ? (iw_status_t) p->why : IW_FLUSHED;
    }
    if (!iw_done_reserve(e)) {
        return IW_NO_MEMORY;
    }
    iw_request_t *r = iw_pool_get(pool_of(e, operation));
    if (NULL == r) {
        return IW_AGAIN;
    }
    memset(r, 0, offsetof(iw_request_t, piece));
    r->peer = p;
    r->context = context;
    r->operation = (uint8_t) operation;
    r->flags = (uint8_t) flags;
    spec_list_append(&p->tx.requests, &r->all);
    *request = r;
    return IW_OK;
}

static void fill(iw_request_t *r, const struct iovec *piece, unsigned count, uint32_t length)
{
    r->length = length;
    if (r->flags & IW_INLINE) {
        uint8_t *at = r->data;
        for (unsigned i = 0; i < count; ++i) {
            if (piece[i].iov_len > 0) {
                memcpy(at, piece[i].iov_base, piece[i].iov_len);
                at += piece[i].iov_len;
            }
        }
        return;
    }
    /* Empty pieces are left out: cutting need not think of them. */
    for (unsigned i = 0; i < count; ++i) {
        if (piece[i].iov_len > 0) {
            r->piece[r->count++] = piece[i];
        }
    }
}

/* What asks is one small packet, and its answer uses the other direction: behind a large write it would not begin before
 * that has left. A fence behind which it was posted it must not overtake, which would wait for it, and
 * nothing that asks another one.
 * Segments are numbered when they are cut, and messages delivered in that order: what is behind a write in its queue, or
 * comes when that is empty, is delivered after its data. */
static void enqueue(iw_peer_t *p, iw_request_t *r)
{
    const bool is_fenced = 0 != (r->flags & IW_FENCE), asks = iw_request_asks(r);
    if (asks && !is_fenced && 0 == p->tx.fences) {
        spec_list_append(&p->tx.asks, &r->queue);
    } else {
        const bool is_bulk =
            r->flags & IW_BULK || (r->flags & IW_BEHIND && !spec_list_is_empty(&p->tx.bulk));
        r->is_behind = asks;
        p->tx.fences += is_fenced || asks;
        spec_list_append(is_bulk ? &p->tx.bulk : &p->tx.sends, &r->queue);
    }
    iw_ready(p);
}

void iw_request_dequeue(iw_request_t *r)
{
    r->peer->tx.fences -= 0 != (r->flags & IW_FENCE) || r->is_behind;
    r->is_behind = false;
    spec_list_remove(&r->queue);
}

static iw_status_t post(iw_peer_t *p, unsigned operation, const struct iovec *piece, unsigned count,
                        uint32_t stag, uint64_t to, unsigned flags, void *context)
{
    uint32_t length;
    iw_request_t *r = NULL;
    iw_status_t status = check_pieces(piece, count, flags, &length);
    if (IW_OK != status || IW_OK != (status = begin(p, operation, flags, context, &r))) {
        return status;
    }
    fill(r, piece, count, length);
    r->stag = stag;
    r->to = to;
    p->engine->count.messages_out += IW_DO_SEND == operation;
    enqueue(p, r);
    return IW_OK;
}

iw_status_t iw_post_send(iw_peer_t *p, const struct iovec *piece, unsigned count, unsigned flags,
                         void *context)
{
    return post(p, IW_DO_SEND, piece, count, 0, 0, flags, context);
}

iw_status_t iw_post_write(iw_peer_t *p, const struct iovec *piece, unsigned count, uint32_t stag,
                          uint64_t to, unsigned flags, void *context)
{
    return post(p, IW_DO_WRITE, piece, count, stag, to, flags | IW_PROMPT, context);
}

iw_status_t iw_post_read(iw_peer_t *p, void *sink, uint32_t length, uint32_t stag, uint64_t to,
                         unsigned flags, void *context)
{
    iw_request_t *r = NULL;
    iw_status_t status = begin(p, IW_DO_READ, flags & ~(unsigned) IW_INLINE, context, &r);
    if (IW_OK != status) {
        return status;
    }
    static uint8_t nowhere; /* a region needs an address even if it is empty */
    r->local_stag = iw_memory_add(&p->engine->memory, 0 == length ? &nowhere : sink, length,
                                  IW_READ_SINK, p, r, NULL);
    if (0 == r->local_stag) {
        spec_list_remove(&r->all);
        iw_pool_put(&p->engine->requests, r);
        return IW_AGAIN;
    }
    r->piece[0].iov_base = sink;
    r->length = length;
    r->stag = stag;
    r->to = to;
    enqueue(p, r);
    return IW_OK;
}

iw_status_t iw_post_atomic(iw_peer_t *p, iw_atomic_op_t op, bool is_32, uint32_t stag, uint64_t to, uint64_t operand,
                           uint64_t compare, void *before, unsigned flags, void *context)
{
    iw_request_t *r = NULL;
    const iw_status_t status = begin(p, IW_DO_ATOMIC, flags & IW_QUIET, context, &r);
    if (IW_OK == status) {
        r->length = is_32 ? sizeof(uint32_t) : sizeof(uint64_t);
        r->stag = stag;
        r->to = to;
        r->atomic = (iw_atomic_ask_t){.operand = operand, .compare = compare, .before = before, .op = (uint8_t) op};
        enqueue(p, r);
    }
    return status;
}

/* The answer to an atomic operation is short, and goes before what is read. */
static void serve(iw_peer_t *p, iw_request_t *r)
{
    spec_node_t *const all = &p->tx.responses, *at = IW_DO_ANSWER == r->operation ? all : all->prev;
    while (at->next != all && IW_DO_ANSWER == SPEC_ENTRY(at->next, iw_request_t, queue)->operation) {
        at = at->next;
    }
    spec_list_insert_after(at, &r->queue);
    ++p->rx.serving;
    iw_ready(p);
}

bool iw_request_serve(iw_peer_t *p, const iw_read_request_t *read)
{
    iw_request_t *r = NULL;
    if (IW_OK != begin(p, IW_DO_RESPONSE, IW_QUIET, NULL, &r)) {
        return false;
    }
    r->length = iw_get32(read->length);
    r->stag = iw_get32(read->sink_stag);
    r->to = iw_get64(read->sink_to);
    r->local_stag = iw_get32(read->source_stag);
    r->local_to = iw_get64(read->source_to);
    serve(p, r);
    return true;
}

bool iw_request_serve_atomic(iw_peer_t *p, const iw_atomic_request_t *ask, void *word)
{
    iw_request_t *r = NULL;
    if (IW_OK != begin(p, IW_DO_ANSWER, IW_QUIET | IW_INLINE, NULL, &r)) {
        return false;
    }
    iw_atomic_response_t *const answer = (iw_atomic_response_t *) r->data;
    answer->number = ask->number;
    answer->before = iw_be64(iw_atomic_do((iw_atomic_op_t) ask->op, 0 != ask->is_32, word, iw_get64(ask->operand),
                                           iw_get64(ask->compare)));
    r->length = sizeof(*answer);
    serve(p, r);
    return true;
}

void iw_request_report(iw_request_t *r, iw_status_t status)
{
    static const iw_what_t what[] = {[IW_DO_SEND] = IW_SENT,
                                     [IW_DO_WRITE] = IW_WRITTEN,
                                     [IW_DO_READ] = IW_READ,
                                     [IW_DO_ATOMIC] = IW_ATOMIC};
    iw_peer_t *p = r->peer;
    if (r->reported) {
        return;
    }
    r->reported = true;
    if (spec_node_is_queued(&r->queue)) {
        iw_request_dequeue(r);
    }
    if (IW_DO_READ == r->operation) {
        iw_memory_remove(&p->engine->memory, r->local_stag);
        iw_direct_forget(r);
    }
    if (!iw_request_serves(r) && (IW_OK != status || !(r->flags & IW_QUIET))) {
        iw_complete(p->engine, r->context, p, what[r->operation], status, r->length);
    }
}

void iw_request_release(iw_request_t *r)
{
    iw_peer_t *p = r->peer;
    if (!r->reported || 0 != r->out) {
        return;
    }
    spec_list_remove(&r->all);
    iw_pool_put(pool_of(p->engine, r->operation), r);
    if (spec_list_is_empty(&p->tx.requests)) {
        p->alive.waiting_since = 0;
    }
}
