/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* How datagrams are taken from the kernel: for how many a call offers buffers, and whether the kernel shall join those of
 * one sender to trains (UDP_GRO).
 *
 * A datagram that comes alone is taken with the cheapest call there is, which cannot tell a train from a datagram, and its
 * message may stay where it is. So the kernel joins only while several were waiting at once: after a call that
 * offered more than one buffer and filled all, or found the next part of a message at once. Messages that merely follow
 * each other - a ping-pong, a barrier - never are. The parts of a message are sent together: after one that is not the last the next call
 * offers all buffers, and the kernel makes a train of each such message from then on: one call instead of one for each
 * part. What had been joined may still come for a while after the kernel was told to stop.
 *
 * Gain: test/bench/port-parts, part intake-one over one buffer and no trains, part intake-all over all buffers and
 * always trains.
 *
 * Pure. Threads: the port's lock. */
#ifndef IW_INTAKE_H
#define IW_INTAKE_H

#include <stdbool.h>
#include <stddef.h>

#define IW_INTAKE_SLOTS 8 /* receive buffers that one call can fill */
#define IW_INTAKE_STREAM                                                                           \
    3 /* calls in a row that found something until the next offers more buffers */
#define IW_INTAKE_IDLE  4096 /* calls in vain since the last train until trains are given up */
#define IW_INTAKE_LEAVE 64   /* and then until there cannot be one that was on its way */
#define IW_INTAKE_LARGE                                                                            \
    16384 /* bytes: of datagrams above only two stay in the cache until they are read */
#define IW_INTAKE_PLACED 4 /* of such as are not copied, but checked where they belong */

typedef struct iw_intake {
    unsigned slots; /* buffers that the next call offers */
    /* Trains: none can be there; the kernel makes them; it makes none any more, some may be there. */
    enum { IW_APART, IW_JOINED, IW_LEAVING } joining;
    unsigned streak; /* calls in a row that found something */
    unsigned idle;   /* calls that found nothing since the last train */
    bool goes_on;    /* the message of the datagram that came last */
} iw_intake_t;

/* What the kernel is to be told. */
typedef enum iw_intake_do { IW_INTAKE_NOTHING, IW_INTAKE_JOIN, IW_INTAKE_PART } iw_intake_do_t;

/* It has been told, and agreed. */
static inline void iw_intake_told(iw_intake_t *t, bool joins)
{
    t->joining = joins ? IW_JOINED : IW_LEAVING;
    t->idle = 0;
}

/* A call found nothing. */
static inline iw_intake_do_t iw_intake_empty(iw_intake_t *t)
{
    t->slots = 1;
    t->streak = 0;
    t->goes_on = false;
    if (IW_LEAVING == t->joining && ++t->idle >= IW_INTAKE_LEAVE) {
        t->joining =
            IW_APART; /* what had been joined has been taken, or was just being delivered and is there by now */
    } else if (IW_JOINED == t->joining && ++t->idle >= IW_INTAKE_IDLE) {
        return IW_INTAKE_PART;
    }
    return IW_INTAKE_NOTHING;
}

/* A call filled so many buffers, with so many datagrams and bytes; the message of the last one goes on; all were received
 * where they belong. */
static inline iw_intake_do_t iw_intake_found(iw_intake_t *t, unsigned filled, unsigned datagrams,
                                             size_t bytes, bool goes_on, bool placed)
{
    const bool is_small = bytes / filled <= IW_INTAKE_LARGE;
    const bool are_parts = t->goes_on; /* nothing but it came between: the next part was there already */
    if (datagrams > filled) {
        t->idle = 0;
    }
    t->goes_on = goes_on && is_small;
    const bool is_stream = ++t->streak >= IW_INTAKE_STREAM && filled == t->slots;
    const bool waited = (is_stream && t->slots > 1) || are_parts;
    const unsigned most = is_small ? IW_INTAKE_SLOTS : placed ? IW_INTAKE_PLACED : 2;
    if (t->goes_on) {
        t->slots = most;
    } else if (is_stream) {
        t->slots = 2 * t->slots < most ? 2 * t->slots : most;
    }
    if (!waited) {
        return IW_INTAKE_NOTHING;
    }
    t->idle = 0;
    return IW_JOINED == t->joining ? IW_INTAKE_NOTHING : IW_INTAKE_JOIN;
}

/* The caller takes everything now, with calls that offer all buffers, as the agent's thread does: the last one filled so
 * many. */
static inline iw_intake_do_t iw_intake_all(iw_intake_t *t, unsigned filled)
{
    if (filled < 2) {
        return IW_INTAKE_NOTHING;
    }
    t->idle = 0;
    return IW_JOINED == t->joining ? IW_INTAKE_NOTHING : IW_INTAKE_JOIN;
}

#endif
