/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The UD queue pair of a port as a datagram port: what iw_port.h is for a UDP socket, it is for an
 * adapter. Binds an engine (iw_engine.h) to it; the engine does what makes datagrams reliable.
 *
 * One queue pair serves all peers (docs/design/verbs.md, Hybrid). A datagram is copied into a registered buffer before
 * it is sent: the engine keeps no keys of its pieces, and sends again after the caller's buffer has moved.
 *
 * Threads: as the port. Memory: as vb_ud.h, and buffers of the receive window (vb_rx.h), whatever the number of peers. */
#ifndef VB_DGRAM_H
#define VB_DGRAM_H

#include "vb_address.h"
#include "vb_rx.h"
#include "vb_ud.h"

#include "iw_engine.h"

#define VB_DGRAM_MTU_MIN 1024u /* a port with less has no datagrams */

/* Its fields are those of vb_dgram.c; the hybrid mode reads mtu, and own and cq of ud. */
typedef struct vb_dgram {
    vb_port_t *port;
    iw_engine_t *engine; /* takes what arrives: to be set before anything else is called */
    vb_ud_t ud;
    bool is_broken; /* its queue pair */
    uint16_t mtu;
    vb_datagram_use_t count;
    vb_entries_t entries;
    vb_rx_t rx;
    bool has_rx;
    uint32_t drains;
    iw_packet_t packet[VB_BATCH];
} vb_dgram_t;

/* False: not possible, why says what is wrong, and it is to be closed. receives: most receive buffers. */
bool vb_dgram_open(vb_dgram_t *dgram, vb_port_t *port, uint32_t messages, uint32_t receives, char *why, size_t size);
/* Also one that is all zero. */
void vb_dgram_close(vb_dgram_t *dgram);

/* Bytes that the receive queue takes now, for iw_config_t: receive_space. */
uint32_t vb_dgram_space(const vb_dgram_t *dgram);
/* Of its use, as far as it is of datagrams: counts, the window, bytes besides that. */
vb_datagram_use_t vb_dgram_use(const vb_dgram_t *dgram);

/* Lets it send to there. *to is what iw_peer_add gets for it. False: no address handle, or it is in another subnet
 * (InfiniBand). */
bool vb_dgram_meet(vb_dgram_t *dgram, const vb_dgram_address_t *there, iw_address_t *to);
/* Not any more; for what is still to be said goodbye to there is no hurry, but it must be out. */
void vb_dgram_part(vb_dgram_t *dgram, const iw_address_t *to);

/* Take what has arrived, run timers, send what can leave. Returns how many datagrams came. */
unsigned vb_dgram_progress(vb_dgram_t *dgram, uint64_t now);
/* Send what can leave. */
void vb_dgram_flush(vb_dgram_t *dgram, uint64_t now);
/* Now and then: the window may shrink. */
void vb_dgram_check(vb_dgram_t *dgram, uint64_t now);

#endif
