/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A datagram is put together, block by block (iw_wire.h). What goes in and when it leaves is decided elsewhere (iw_send.c);
 * what the blocks say is taken from the peer, which notes what has been said.
 *
 * Threads: the engine's lock. */
#ifndef IW_BUILD_H
#define IW_BUILD_H

#include "iw_internal.h"

/* The longest datagram that a segment is cut for now: the path carries it, and two fit into what the peer can take, so that
 * one is on its way while the other is acknowledged. */
uint32_t iw_build_datagram_room(const iw_peer_t *p);

/* Bytes that a peer may have in flight at least. */
uint32_t iw_build_least(const iw_engine_t *e);

/* Of the left bytes of a request, those of its next datagram. Whatever goes with it, it has that size if
 * more follow: datagrams of one size go through the kernel many at a time. */
uint32_t iw_build_payload(const iw_peer_t *p, const iw_request_t *r, uint32_t left);

/* A segment keeps the length that it was cut to, with the acknowledgement of then. Does the one that is due now fit? */
bool iw_build_ack_fits(const iw_peer_t *p, const iw_segment_t *s);

/* The head with the next packet number, and a hello until the peer has confirmed us. */
void iw_build_begin(iw_peer_t *p, iw_packet_t *k, enum iw_type type);

/* Room for the next block. */
static inline void *iw_build_put(iw_packet_t *k, size_t length)
{
    void *at = k->head + k->piece[0].iov_len;
    k->piece[0].iov_len += length;
    return at;
}

/* What has been received, in at most so many ranges; more are left for a datagram of their own. */
void iw_build_ack(iw_peer_t *p, iw_packet_t *k, unsigned max, uint64_t now);

/* The same with a body, if something is to be acknowledged. */
static inline void iw_build_piggyback(iw_peer_t *p, iw_packet_t *k, uint64_t now)
{
    if (p->rx.unacked > 0 || p->rx.ack_now) {
        iw_build_ack(p, k, IW_RANGES_PIGGYBACK, now);
    }
}

/* DDP header and payload of a segment. False: the memory it was to come from is gone. */
bool iw_build_segment(iw_packet_t *k, const iw_segment_t *s);

/* A whole Terminate: why we ended the connection. */
void iw_build_terminate(iw_peer_t *p, iw_packet_t *k);

/* Bytes so far. */
static inline uint32_t iw_build_length(const iw_packet_t *k)
{
    size_t length = 0;
    for (unsigned i = 0; i < k->count; ++i) {
        length += k->piece[i].iov_len;
    }
    return (uint32_t) length;
}

/* Headers and data in a row, if they can be: the kernel and the tag are quicker with one piece than with two. Either the
 * headers go before the data, where that has room before it (such data is in memory of the caller's own, not of the
 * program), or the data is copied behind them.
 *
 * What is apart is read twice, for the tag and by the kernel. A program may write it meanwhile, when it is a window of MPI's
 * unified memory model, and then the receiver refuses the tag. So only parts of long messages stay apart, and that only the first time: `again` says that this one was
 * sent before, and perhaps refused. A copy is what its tag says, so nothing is refused for that twice. */
void iw_build_join(iw_engine_t *e, iw_packet_t *k, const iw_request_t *r, bool again);

/* The tag: when everything else is in. */
void iw_build_finish(iw_peer_t *p, iw_packet_t *k);

#endif
