/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Which path datagrams to a peer take: the network, or an alternate path that the user of the stack has (another transport).
 *
 * Each end decides for what it sends. The network is left when nothing that went there is acknowledged any more, for so long
 * and so many probe timeouts in a row that it is not loss; and when the peer's datagrams come by the alternate path while
 * nothing says that the network carries ours: it may be the acknowledgements that get lost. Now and then a datagram tries
 * the network, which is taken again when that one is acknowledged, or one that left before the
 * change and after the trouble began, as when the peer was only busy (compare path validation, RFC 9000, 8.2).
 * The number says which datagram was acknowledged, whichever path the acknowledgement took, so an end learns of its own
 * direction, also where only one of the two fails.
 *
 * Pure. Threads: the engine's lock. Times in ns. */
#ifndef IW_FAILOVER_H
#define IW_FAILOVER_H

#include <stdbool.h>
#include <stdint.h>

#define IW_FAILOVER_AFTER    UINT64_C(1000000000) /* without an acknowledgement */
#define IW_FAILOVER_TIMEOUTS 5u                   /* and probe timeouts */
#define IW_FAILOVER_TRY      UINT64_C(1000000000) /* so often the network is tried */
#define IW_FAILOVER_SURE     3u                   /* tries in vain: the network fails */

/* All zero: the network, and there is no alternate path. */
typedef struct iw_failover {
    bool has_alternate;
    bool is_alternate;
    uint8_t timeouts;   /* in a row, without an acknowledgement */
    uint8_t tries;      /* of the network in vain: a later datagram was acknowledged, so the peer is there */
    bool is_overtaken;  /* so is the latest */
    uint64_t since;     /* the first of the timeouts */
    uint64_t first_pn;  /* numbers from here on went by the network since then, */
    uint64_t alternate_pn; /* up to here */
    uint64_t try_pn;    /* the latest try; 0: none */
    uint64_t try_at;
    uint64_t worked_at; /* when something that went by the network was acknowledged last */
} iw_failover_t;

static inline void iw_failover_leave(iw_failover_t *r, uint64_t next_pn)
{
    r->is_alternate = true;
    r->alternate_pn = next_pn;
    r->tries = 0;
    r->is_overtaken = false;
    r->try_pn = 0;
    r->try_at = 0;
}

/* A probe timeout; next_pn: the number of the next datagram; after: IW_FAILOVER_AFTER, or less. True: the
 * alternate path is taken from now on. */
static inline bool iw_failover_timeout(iw_failover_t *r, uint64_t next_pn, uint64_t now, uint64_t after)
{
    if (r->is_alternate) {
        return false;
    }
    if (0 == r->timeouts) {
        r->since = now;
        r->first_pn = next_pn;
    }
    r->timeouts += r->timeouts < UINT8_MAX;
    if (!r->has_alternate || r->timeouts < IW_FAILOVER_TIMEOUTS || now - r->since < after) {
        return false;
    }
    iw_failover_leave(r, next_pn);
    r->try_at = now;
    return true;
}

/* The peer is about to be given up. True: the alternate path had not been tried, and is taken from now on. */
static inline bool iw_failover_last(iw_failover_t *r, uint64_t next_pn, uint64_t now)
{
    if (!r->has_alternate || r->is_alternate) {
        return false;
    }
    r->first_pn = 0 == r->timeouts ? next_pn : r->first_pn;
    iw_failover_leave(r, next_pn);
    r->try_at = now;
    return true;
}

/* Something was acknowledged that was not before. */
static inline void iw_failover_progress(iw_failover_t *r, uint64_t now)
{
    r->timeouts = 0;
    r->worked_at = r->is_alternate ? r->worked_at : now;
}

/* These numbers are acknowledged. True: the network works again. */
static inline bool iw_failover_acknowledged(iw_failover_t *r, uint64_t low, uint64_t high, uint64_t now)
{
    const bool is_early = low < r->alternate_pn && high >= r->first_pn && r->first_pn < r->alternate_pn;
    const bool is_try = 0 != r->try_pn && low <= r->try_pn && r->try_pn <= high;
    if (!r->is_alternate || (!is_early && !is_try)) {
        r->is_overtaken |= 0 != r->try_pn && high > r->try_pn;
        return false;
    }
    r->is_alternate = false;
    r->timeouts = 0;
    r->worked_at = now;
    return true;
}

/* A datagram came by the alternate path. True: from now on answers take it, too. */
static inline bool iw_failover_came(iw_failover_t *r, uint64_t next_pn, uint64_t now)
{
    if (!r->has_alternate || r->is_alternate || now - r->worked_at < IW_FAILOVER_AFTER) {
        return false;
    }
    iw_failover_leave(r, next_pn);
    r->first_pn = next_pn;
    return true;
}

/* Is the network to be tried, by the next datagram that asks for an acknowledgement? */
static inline bool iw_failover_tries(const iw_failover_t *r, uint64_t now)
{
    return r->is_alternate && now - r->try_at >= IW_FAILOVER_TRY;
}

/* This one does. */
static inline void iw_failover_tried(iw_failover_t *r, uint64_t pn, uint64_t now)
{
    r->tries += r->is_overtaken && r->tries < UINT8_MAX;
    r->is_overtaken = false;
    r->try_pn = pn;
    r->try_at = now;
}

/* It never left. */
static inline void iw_failover_untried(iw_failover_t *r, uint64_t pn)
{
    if (0 != pn && pn == r->try_pn) {
        r->try_pn = 0;
        r->try_at = 0;
    }
}

/* Is it sure that the network fails? */
static inline bool iw_failover_is_blocked(const iw_failover_t *r)
{
    return r->is_alternate && r->tries >= IW_FAILOVER_SURE;
}

#endif
