/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The timers of all peers: a binary heap on the time of each peer's next one.
 *
 * A peer whose time moves further away, as with each acknowledgement, stays where it is and is moved
 * when its old time has come: fast paths pay nothing.
 *
 * The engine has a time of its own, iw_time: the user's clock without the jumps. A process that was stopped, a virtual
 * machine that was suspended or a caller that is late shows time that no peer could use to answer; so as much of it as
 * went by after a timer should have been called is left out. When the clock goes back the engine's stands still. */
#include "iw_internal.h"

/* Later than this is no business of the machine, by share of the time that a peer may be silent. */
#define LATE_SHARE 8

uint64_t iw_time(iw_engine_t *e, uint64_t now)
{
    const uint64_t late = e->config.peer_timeout_ns / LATE_SHARE;
    uint64_t time = now + e->ahead;
    if ((int64_t) (time - e->time) < 0) {
        if (e->time - time <= late) {
            return e->time; /* of a caller that read the clock earlier, too: it catches up */
        }
        time = e->time;
    } else if (time - e->time > late && e->heap_size > 0) {
        const uint64_t due = e->due > e->time ? e->due : e->time;
        if (time > due && time - due > late) {
            time = due;
        }
    }
    e->ahead = time - now;
    return e->time = time;
}

bool iw_timer_reserve(iw_engine_t *e)
{
    /* Every peer that is active can have a timer. */
    if (e->heap_room > e->active) {
        return true;
    }
    uint32_t room = 0 == e->heap_room ? 16 : 2 * e->heap_room;
    iw_peer_t **heap = realloc(e->heap, room * sizeof(*heap));
    if (NULL == heap) {
        return false;
    }
    e->heap = heap;
    e->heap_room = room;
    return true;
}

static void put(iw_engine_t *e, uint32_t at, iw_peer_t *p)
{
    e->heap[at] = p;
    p->heap_at = at + 1;
    if (0 == at) {
        e->due = p->heap_key;
    }
}

static void sift_up(iw_engine_t *e, uint32_t at, iw_peer_t *p)
{
    while (at > 0 && e->heap[(at - 1) / 2]->heap_key > p->heap_key) {
        put(e, at, e->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(e, at, p);
}

static void sift_down(iw_engine_t *e, uint32_t at, iw_peer_t *p)
{
    for (uint32_t child; (child = 2 * at + 1) < e->heap_size; at = child) {
        if (child + 1 < e->heap_size && e->heap[child + 1]->heap_key < e->heap[child]->heap_key) {
            ++child;
        }
        if (e->heap[child]->heap_key >= p->heap_key) {
            break;
        }
        put(e, at, e->heap[child]);
    }
    put(e, at, p);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return 0 != b && b < a ? b : a;
}

uint64_t iw_peer_deadline(const iw_peer_t *p)
{
    uint64_t at = UINT64_MAX;
    if (IW_ACTIVE != p->state) {
        return at;
    }
    at = earlier(at, p->rx.ack_at);
    at = earlier(at, p->tx.pace_at);
    at = earlier(at, p->tx.rnr_until);
    at = earlier(at, iw_peer_question_at(p));
    if (!spec_list_is_empty(&p->loss.in_flight)) {
        const iw_segment_t *newest = SPEC_ENTRY(p->loss.in_flight.prev, iw_segment_t, link);
        at = earlier(at, p->loss.at);
        at = earlier(at, newest->sent
                             + iw_rtt_pto(&p->path.rtt, p->engine->config.ack_delay_ns, p->loss.ptos));
    }
    if (0 != p->alive.waiting_since) {
        uint64_t since = p->alive.heard > p->alive.waiting_since ? p->alive.heard : p->alive.waiting_since;
        uint64_t timeout = p->engine->config.peer_timeout_ns;
        if (p->alive.asked >= IW_DEAD_ASKED) {
            at = earlier(at, since + iw_peer_patience(p));
        }
        if (spec_list_is_empty(&p->loss.in_flight)) {
            at = earlier(at, (p->alive.pinged > since ? p->alive.pinged : since) + timeout / 8);
        }
    }
    return at;
}

void iw_timer_set(iw_peer_t *p)
{
    iw_engine_t *e = p->engine;
    uint64_t at = iw_peer_deadline(p);
    if (0 == p->heap_at) {
        if (UINT64_MAX != at) {
            p->heap_key = at;
            sift_up(e, e->heap_size++, p);
        }
    } else if (at < p->heap_key) {
        p->heap_key = at;
        sift_up(e, p->heap_at - 1, p);
    }
}

void iw_timer_drop(iw_peer_t *p)
{
    iw_engine_t *e = p->engine;
    if (0 == p->heap_at) {
        return;
    }
    uint32_t at = p->heap_at - 1;
    iw_peer_t *last = e->heap[--e->heap_size];
    p->heap_at = 0;
    if (0 == e->heap_size) {
        e->due = UINT64_MAX;
    }
    if (last != p) {
        if (at > 0 && e->heap[(at - 1) / 2]->heap_key > last->heap_key) {
            sift_up(e, at, last);
        } else {
            sift_down(e, at, last);
        }
    }
}

uint64_t iw_engine_deadline(const iw_engine_t *e)
{
    const uint64_t at = UINT64_MAX == e->due ? UINT64_MAX : e->due - e->ahead;
    return at < e->alarm ? at : e->alarm;
}

void iw_engine_alarm(iw_engine_t *e, uint64_t at)
{
    e->alarm = at;
}

void iw_engine_timers(iw_engine_t *e, uint64_t now)
{
    if (e->alarm <= now) {
        e->alarm = UINT64_MAX;
        if (NULL != e->config.alarm) {
            e->config.alarm(e->config.context, e, now);
        }
    }
    now = iw_time(e, now);
    while (e->due <= now) {
        iw_peer_t *p = e->heap[0];
        uint64_t at = iw_peer_deadline(p);
        if (at <= now) {
            iw_loss_timers(p, now);
            at = iw_peer_deadline(p);
            if (at <= now) {
                at = now + 1; /* a timer that is always due must not keep us here */
            }
        }
        if (UINT64_MAX == at) {
            iw_timer_drop(p);
        } else if (0 != p->heap_at) {
            p->heap_key = at;
            sift_down(e, p->heap_at - 1, p);
        }
    }
}
