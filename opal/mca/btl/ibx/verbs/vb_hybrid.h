/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The scalable mode of a port: peers are talked to by datagrams (vb_dgram.h, made reliable by iw_engine.h)
 * until they turn out to be talked to much, then by a connection of their own (vb_switch.h, vb_conn.h).
 *
 * A message that arrived by datagrams is in a buffer that belongs to the engine until it is full and to the receiver until
 * vb_port_return.
 *
 * Threads: as the port; all with its lock. */
#ifndef VB_HYBRID_H
#define VB_HYBRID_H

#include "vb_dgram.h"
#include "vb_internal.h"
#include "vb_switch.h"

#include "iw_engine.h"

typedef struct vb_hybrid vb_hybrid_t;

/* How one peer is reached by datagrams. */
typedef struct vb_mate {
    vb_switch_t sw;
    iw_peer_t *peer;
    iw_address_t to;
    vb_status_t over; /* VB_OK: it is not */
} vb_mate_t;

/* NULL: the port goes without; why says so. */
vb_hybrid_t *vb_hybrid_open(vb_port_t *port, char *why, size_t size);
void vb_hybrid_close(vb_hybrid_t *hybrid);

/* To a peer that is reached so (vb_peer_is_by_datagrams). */
vb_status_t vb_hybrid_send(vb_peer_t *peer, vb_hdr_t *hdr, uint8_t tag, const struct ibv_sge *piece,
                           int pieces, unsigned flags, void *request);

/* Messages that came by datagrams, and other completions. */
int vb_hybrid_poll(vb_port_t *port, vb_received_t *received, int max, int *events);
void vb_hybrid_return(vb_port_t *port, const vb_received_t *received);
void vb_hybrid_check(vb_port_t *port, uint64_t now);

/* Of the port's thread, now and then: if nobody polls, acknowledge and send again. */
void vb_hybrid_tick(vb_port_t *port);
bool vb_hybrid_needs_tick(const vb_port_t *port);

/* ---- what happens to the connection ---- */

/* A peer asks for one. False: there are as many as may be. */
bool vb_hybrid_admits(vb_peer_t *peer);
/* It is there. True: messages do not take it yet, or never. */
bool vb_hybrid_opened(vb_peer_t *peer);
/* It has failed. True: the peer is not lost for that, or has been before. */
bool vb_hybrid_outlives(vb_peer_t *peer);
/* An attempt has ended; there may be another one now. */
void vb_hybrid_attempt_ended(vb_peer_t *peer);
/* The peer's goodbye came by it; the one by datagrams may be lost, and is not sent again. What waits ends. */
void vb_hybrid_parted(vb_peer_t *peer);
/* A message has come by it. False: none may. */
bool vb_hybrid_takes(vb_peer_t *peer);
/* Something goes by it. */
static inline void vb_hybrid_used(vb_peer_t *peer)
{
    if (NULL != peer->mate) {
        vb_switch_used(&peer->mate->sw);
    }
}
/* The slot of a connection is free again. */
void vb_hybrid_give_slot(vb_peer_t *peer);

/* ---- the end ---- */

/* It is lost, or has ended: what waits fails with that. Nothing if it is over. The connection to one that is lost ends. */
void vb_hybrid_lose(vb_peer_t *peer, vb_status_t how);
/* Something is not acknowledged yet, or in the middle of leaving. */
bool vb_hybrid_is_busy(const vb_port_t *port);
/* As vb_port_arm, whose channel tells. False: the adapter does not. */
bool vb_hybrid_arm(vb_port_t *port);
/* The peer is said goodbye to; requests end. */
void vb_hybrid_part(vb_peer_t *peer);

#endif
