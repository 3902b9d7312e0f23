/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The shared receive queue: buffers for messages, of all peers. */
#include "iw_build.h"

#include <stdlib.h>

/* Last in, first out: the buffer posted last is the one most likely to be in the cache, and buffers
 * that are never needed are never touched. */
static bool receive_grow(iw_engine_t *e)
{
    uint32_t room = 0 == e->receive_room ? 64 : 2 * e->receive_room;
    iw_receive_t *stack = realloc(e->receive, room * sizeof(*stack));
    if (NULL == stack) {
        return false;
    }
    e->receive = stack;
    e->receive_room = room;
    return true;
}

void iw_receive_wake(iw_engine_t *e)
{
    for (spec_node_t *next, *l = e->rnr_peers.next; l != &e->rnr_peers && e->receive_count > 0;
         l = next) {
        iw_peer_t *p = SPEC_ENTRY(l, iw_peer_t, rx.waiting);
        next = l->next;
        if (p->rx.held < e->config.quota) {
            spec_list_remove(l);
            p->rx.rnr = false;
            p->rx.ack_now = true;
            iw_ready(p);
        }
    }
}

iw_status_t iw_post_receive(iw_engine_t *e, void *buffer, uint32_t length, void *context)
{
    /* Messages that are given up put their buffers back. */
    if ((e->receive_count + e->messages.in_use >= e->receive_room && !receive_grow(e))
        || !iw_done_reserve(e)) {
        return IW_NO_MEMORY;
    }
    e->receive[e->receive_count++] = (iw_receive_t){buffer, context, length};
    if (!spec_list_is_empty(&e->rnr_peers)) {
        iw_receive_wake(e);
    }
    return IW_OK;
}

/* At most one event is on its way. */
static void limit_check(iw_engine_t *e)
{
    if (e->receive_count < e->limit && !e->limit_told && iw_done_reserve(e)) {
        e->limit = 0;
        e->limit_told = true;
        iw_complete(e, NULL, NULL, IW_LIMIT_REACHED, IW_OK, 0);
    }
}

void iw_arm_limit(iw_engine_t *e, uint32_t limit)
{
    e->limit = limit;
    limit_check(e);
}

uint32_t iw_receives_free(const iw_engine_t *e)
{
    return e->receive_count;
}

void *iw_receive_idle(const iw_engine_t *e, uint32_t before)
{
    return before < e->receive_count ? e->receive[e->receive_count - 1 - before].context : NULL;
}

uint32_t iw_receives_lowest(iw_engine_t *e)
{
    const uint32_t lowest = e->receive_lowest;
    e->receive_lowest = e->receive_count;
    return lowest;
}

bool iw_withdraw_receive(iw_engine_t *e, void **context)
{
    if (0 == e->receive_count) {
        return false;
    }
    *context = e->receive[0].context;
    e->receive[0] = e->receive[--e->receive_count];
    if (e->receive_count < e->receive_lowest) {
        e->receive_lowest = e->receive_count;
    }
    return true;
}

void iw_set_receive_space(iw_engine_t *e, uint32_t bytes)
{
    e->config.receive_space = bytes;
}

/* False: there is none, or none to spare. A message that arrives ahead of its turn must leave one
 * for each message before it and one more: if those ahead could take all, the one whose turn it is
 * would wait for buffers that wait for it. The one whose turn it is can always be completed and
 * polled, whatever the peers hold, so its buffer comes back. */
bool iw_receive_take(iw_engine_t *e, iw_peer_t *p, uint32_t spare, iw_receive_t *receive)
{
    if (e->receive_count <= spare || p->rx.held + spare >= e->config.quota) {
        return false;
    }
    *receive = e->receive[--e->receive_count];
    if (e->receive_count < e->receive_lowest) {
        e->receive_lowest = e->receive_count;
    }
    ++p->rx.held;
    limit_check(e);
    return true;
}

void iw_receive_put_back(iw_engine_t *e, iw_peer_t *p, const iw_receive_t *receive)
{
    --p->rx.held;
    e->receive[e->receive_count++] = *receive;
}

/* So many may be served at a time that each can have two datagrams in flight, as large as its path carries them. */
static uint32_t most_served(const iw_peer_t *p)
{
    const uint64_t whole = iw_share_whole(&p->engine->share, !p->rx.is_near, p->engine->config.receive_space);
    const uint32_t most = (uint32_t) (whole / (2u * (p->path.mtu.size + IW_OVERHEAD)));
    return most > 1 ? most : 1;
}

void iw_receive_came(iw_peer_t *p, const iw_frame_t *f, size_t length)
{
    iw_engine_t *e = p->engine;
    p->rx.is_near |= length > IW_NETWORK_MOST;
    if (e->share.members > 1 && !p->rx.is_near) { /* else no more is to be done on the fast path */
        iw_share_came(&e->share, (uint32_t) length, e->is_marked, iw_seen_missing(&p->rx.seen, f->floor), e->config.receive_space,
                      iw_build_least(e));
    }
}

/* The newest one tells whether the peer goes on sending; what fills a hole behind it came late, and tells nothing of that. */
void iw_receive_part(iw_peer_t *p, bool is_newest, bool is_last, uint32_t bytes, uint64_t now)
{
    iw_engine_t *e = p->engine;
    iw_sender_t *const m = &p->rx.sender;
    if (IW_SHARE_NONE == m->state && (is_last || !is_newest)) {
        return;
    }
    const uint32_t space = iw_share_space(&e->share, !p->rx.is_near, e->config.receive_space);
    iw_sender_t *next = !is_last || !is_newest ? iw_share_heard(&e->share, m, bytes, iw_share_of(space, e->peer_count, iw_build_least(e)), most_served(p), now)
                             : iw_share_leave(&e->share, m, most_served(p), now);
    if (NULL != next) {
        iw_peer_t *other = SPEC_ENTRY(next, iw_peer_t, rx.sender);
        other->rx.ack_now = true;
        iw_ready(other);
    }
}
