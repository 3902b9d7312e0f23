/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How much each of those that send large messages at the same time may have in flight, so that all of it fits into what the port
 * buffers. A peer in the midst of a message is a sender.
 *
 * Shares that are too small cost more than waiting: a share has to hold two datagrams, and small datagrams cost as many
 * calls and checks as large ones. So only so many senders are served at a time as there are shares that hold two of the
 * largest; the others wait, with what a sender has at least, for the end of a message, or of a turn (IW_SHARE_TURN), in the order
 * in which they came. A sender that is not heard loses its turn, if another one waits, and later its share, too: it may be stopped.
 *
 * A window that was told can be used until another one is told, so a share is no larger than what all others leave of
 * the whole.
 *
 * Several senders together may have under way what the network takes, too, which may be less than the port buffers: a switch's queue
 * is filled by hundreds that have two datagrams each under way, and none of them can have fewer. What came marked, or never came,
 * shows it here, for all of them. So the space is at most `limit`, which each time that so much has come grows if none of it did
 * (by a quarter until the first did, then slowly), and else shrinks by half of the part that did. One sender alone has its own window for that
 * (iw_cc.h).
 *
 * Pure; the caller gives the time. Threads: the engine's lock. Source: receiver-driven grants, as in Homa (SIGCOMM 2018);
 * the limit as DCTCP's window (RFC 8257, 3.3), of all senders together. */
#ifndef IW_SHARE_H
#define IW_SHARE_H

#include "spec_list.h"

#include <stdbool.h>
#include <stdint.h>

#define IW_SHARE_TURN   UINT64_C(1048576) /* bytes of one sender, after which another one that waits is served */
#define IW_SHARE_SILENT UINT64_C(5000000) /* ns */
#define IW_SHARE_GONE   UINT64_C(100000000) /* ns: also where nobody waits */
#define IW_SHARE_MEMORY UINT64_C(500000000) /* ns: those that sent at the same time will do so again */

#define IW_SHARE_FIRST  UINT32_C(262144) /* bytes of several, until more is known: what one may begin with (IW_CC_INITIAL) */
#define IW_SHARE_LEAST  8u               /* times what a sender has at least; all of them have no less */

typedef enum iw_sharing {
    IW_SHARE_NONE,
    IW_SHARE_SERVED,
    IW_SHARE_WAITS,
} iw_sharing_t;

typedef struct iw_sender {
    spec_node_t link;
    iw_sharing_t state;
    uint32_t told;  /* bytes that it may have in flight, as it knows */
    uint64_t bytes; /* that came in this turn */
    uint64_t heard;
} iw_sender_t;

typedef struct iw_share {
    spec_node_t served;  /* the one heard last is the last */
    spec_node_t waiting; /* the one that waits longest is the first */
    uint32_t count;    /* of those served */
    uint32_t members;  /* of both lists */
    uint32_t most;      /* members at the same time, since `since`, */
    uint32_t most_last; /* and in the IW_SHARE_MEMORY before */
    uint64_t since;
    uint64_t told;     /* to all senders */
    uint32_t limit;    /* bytes of several that the network takes */
    bool is_met;       /* it did not take more, once */
    uint32_t bytes;    /* that came since the limit was checked, */
    uint32_t datagrams; /* in so many, and so many that never came, */
    uint32_t unfit;    /* of which so many were marked or never came */
} iw_share_t;

static inline void iw_share_init(iw_share_t *s)
{
    *s = (iw_share_t){.limit = IW_SHARE_FIRST};
    spec_list_init(&s->served);
    spec_list_init(&s->waiting);
}

/* Bytes that a sender may have in flight when so many share the space. */
static inline uint32_t iw_share_of(uint32_t space, uint32_t senders, uint32_t least)
{
    const uint32_t share = space / (senders > 0 ? senders : 1);
    return share > least ? share : least;
}

/* Bytes that all senders may have in flight together. has_network: there is one on the way; space: what the port buffers. */
static inline uint32_t iw_share_space(const iw_share_t *s, bool has_network, uint32_t space)
{
    return has_network && s->members > 1 && s->limit < space ? s->limit : space;
}

/* And what may have been told to them in all: a kernel buffers twice what it was asked for, its own data included, so that a quarter more
 * than that has room; a network has none. */
static inline uint64_t iw_share_whole(const iw_share_t *s, bool has_network, uint32_t space)
{
    const uint32_t limit = iw_share_space(s, has_network, space);
    return limit < space ? limit : (uint64_t) space + space / 4;
}

/* A datagram came by the network, of one of the peers, and so many of its that were sent before are known now to have never come. */
static inline void iw_share_came(iw_share_t *s, uint32_t bytes, bool is_marked, uint32_t lost, uint32_t space, uint32_t least)
{
    if (s->members < 2) {
        return;
    }
    s->bytes += bytes;
    s->datagrams += 1 + lost;
    s->unfit += is_marked + lost;
    if (s->bytes < s->limit) {
        return;
    }
    if (s->unfit > 0) {
        const uint32_t half = (uint32_t) ((uint64_t) s->limit * s->unfit / s->datagrams / 2);
        s->limit = s->limit - half > IW_SHARE_LEAST * least ? s->limit - half : IW_SHARE_LEAST * least;
        s->is_met = true;
    } else if (s->limit < space) {
        s->limit += s->is_met ? least : s->limit / 4;
    }
    s->bytes = s->datagrams = s->unfit = 0;
}

static inline void iw_share_tell(iw_share_t *s, iw_sender_t *m, uint32_t window)
{
    s->told += window;
    s->told -= m->told;
    m->told = window;
}

static inline void iw_share_put(iw_share_t *s, iw_sender_t *m, iw_sharing_t state)
{
    if (spec_node_is_queued(&m->link)) {
        spec_list_remove(&m->link);
    }
    s->count -= IW_SHARE_SERVED == m->state;
    s->count += IW_SHARE_SERVED == state;
    s->members -= IW_SHARE_NONE != m->state;
    s->members += IW_SHARE_NONE != state;
    m->state = state;
    if (IW_SHARE_NONE != state) {
        spec_list_append(IW_SHARE_SERVED == state ? &s->served : &s->waiting, &m->link);
    }
}

/* How many may send at the same time as one that begins a message, as far as is known. */
static inline uint32_t iw_share_crowd(const iw_share_t *s)
{
    const uint32_t most = s->most > s->most_last ? s->most : s->most_last;
    return most > s->members ? most : s->members + 1;
}

static inline void iw_share_note(iw_share_t *s, uint64_t now)
{
    if (now - s->since >= IW_SHARE_MEMORY) {
        s->most_last = now - s->since < 2 * IW_SHARE_MEMORY ? s->most : 0;
        s->most = 0;
        s->since = now;
    }
    if (s->members > s->most) {
        s->most = s->members;
    }
}

/* The next one's turn, if there is room for another one; NULL: no one's. */
static inline iw_sender_t *iw_share_next(iw_share_t *s, uint32_t most, uint64_t now)
{
    if (s->count >= most || spec_list_is_empty(&s->waiting)) {
        return NULL;
    }
    iw_sender_t *m = SPEC_ENTRY(s->waiting.next, iw_sender_t, link);
    iw_share_put(s, m, IW_SHARE_SERVED);
    m->bytes = 0;
    m->heard = now;
    return m;
}

/* It sends no more, or its message is complete. Returns the one that is to be told that it is served now. */
static inline iw_sender_t *iw_share_leave(iw_share_t *s, iw_sender_t *m, uint32_t most, uint64_t now)
{
    if (IW_SHARE_NONE == m->state) {
        return NULL;
    }
    iw_share_tell(s, m, 0);
    iw_share_put(s, m, IW_SHARE_NONE);
    return iw_share_next(s, most, now);
}

/* So many bytes came of it, and there is more to come. `window`: what it was told before, perhaps; `most`: so many may be
 * served at a time. Returns the one that is to be told that it is served now, which is not the sender itself. */
static inline iw_sender_t *iw_share_heard(iw_share_t *s, iw_sender_t *m, uint32_t bytes, uint32_t window, uint32_t most,
                                          uint64_t now)
{
    m->heard = now;
    if (IW_SHARE_NONE == m->state) {
        m->bytes = 0;
        iw_share_tell(s, m, window);
        iw_share_put(s, m, s->count < most ? IW_SHARE_SERVED : IW_SHARE_WAITS);
        iw_share_note(s, now);
    } else if (IW_SHARE_SERVED == m->state) {
        iw_share_put(s, m, IW_SHARE_SERVED);
    }
    m->bytes += bytes;
    iw_sender_t *quiet = SPEC_ENTRY(s->served.next, iw_sender_t, link);
    if (spec_list_is_empty(&s->waiting)) {
        if (quiet != m && now - quiet->heard > IW_SHARE_GONE) {
            (void) iw_share_leave(s, quiet, most, now);
        }
        return NULL;
    }
    if (IW_SHARE_SERVED == m->state && m->bytes >= IW_SHARE_TURN) {
        iw_share_put(s, m, IW_SHARE_WAITS);
    }
    quiet = SPEC_ENTRY(s->served.next, iw_sender_t, link);
    if (!spec_list_is_empty(&s->served) && now - quiet->heard > IW_SHARE_SILENT) {
        iw_share_tell(s, quiet, 0);
        iw_share_put(s, quiet, IW_SHARE_WAITS);
    }
    iw_sender_t *next = iw_share_next(s, most, now);
    return next == m ? NULL : next;
}

/* What it may have in flight from now on, which it is told. `whole`: what all of them together may. */
static inline uint32_t iw_share_window(iw_share_t *s, iw_sender_t *m, uint32_t space, uint64_t whole, uint32_t least)
{
    uint32_t window = 0;
    if (IW_SHARE_SERVED == m->state) {
        const uint64_t others = s->told - m->told, left = others + least < whole ? whole - others : least;
        const uint32_t share = iw_share_of(space, s->count, least);
        window = share < left ? share : (uint32_t) left;
    }
    iw_share_tell(s, m, window);
    return window;
}

#endif
