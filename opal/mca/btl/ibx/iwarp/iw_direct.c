/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Predicts where the next answers to RDMA Reads belong, so that the port can receive them there (iw_direct.h). */
#include "iw_internal.h"

#define SEARCH 8 /* requests behind a read, among which the next read is searched for */

/* Reads are answered in the order in which they were posted. */
static iw_request_t *read_after(const iw_request_t *r)
{
    const spec_node_t *l = r->all.next;
    for (unsigned i = 0; i < SEARCH && l != &r->peer->tx.requests; ++i, l = l->next) {
        iw_request_t *next = SPEC_ENTRY(l, iw_request_t, all);
        if (IW_DO_READ == next->operation && !next->reported && !next->spoiled) {
            return next;
        }
    }
    return NULL;
}

void iw_direct_note(iw_engine_t *e, iw_request_t *r, const iw_ddp_t *d)
{
    const uint32_t end = (uint32_t) d->to + d->length;
    if (end <= r->front) {
        return; /* late: what comes next is behind the front all the same */
    }
    r->front = end;
    e->filling = end < r->length && !r->spoiled ? r : read_after(r);
    if (!d->last) { /* one with an acknowledgement has less room */
        e->filling_length = d->length > e->filling_previous ? d->length : e->filling_previous;
        e->filling_previous = d->length;
    }
}

void iw_direct_forget(const iw_request_t *r)
{
    iw_engine_t *e = r->peer->engine;
    if (r == e->filling) {
        e->filling = NULL;
    }
}

/* Most likely the program writes the memory that it reads to. It must not, but it must not keep us busy for ever, either:
 * what is copied there was verified before. */
void iw_direct_spoiled(iw_engine_t *e, const iw_peer_t *p, const uint8_t *data, size_t prefix)
{
    const iw_tagged_t *tagged = iw_direct_response(data, prefix);
    const iw_region_t *region;
    uint8_t *at;
    if (NULL != tagged
        && IW_ACCESS_OK
               == iw_memory_check(&e->memory, iw_get32(tagged->stag), p, IW_READ_SINK,
                                  iw_get64(tagged->to), 0, &at, &region)) {
        iw_request_t *r = region->owner;
        r->spoiled = true;
        iw_direct_forget(r);
    }
}

unsigned iw_engine_direct(const iw_engine_t *e, iw_direct_t *direct, unsigned most)
{
    const iw_request_t *r = e->filling;
    unsigned n = 0;
    for (uint32_t at = NULL == r ? 0 : r->front; n < most && NULL != r;) {
        const uint32_t left = r->length - at;
        const uint32_t length = e->filling_length < IW_DIRECT_MOST ? e->filling_length : IW_DIRECT_MOST;
        const uint32_t room = left < length ? left : length;
        if (0 == room) {
            break; /* of no length known */
        }
        direct[n++] = (iw_direct_t){(uint8_t *) r->piece[0].iov_base + at, room, r->local_stag, at};
        at += room;
        if (at == r->length) {
            r = read_after(r);
            at = NULL == r ? 0 : r->front;
        }
    }
    return n;
}
