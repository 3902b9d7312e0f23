/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The UD queue pair of a port as a datagram port: what iw_port.h is for a UDP socket, it is for an
 * adapter. Binds an engine (iw_engine.h) to it; the engine does what makes datagrams reliable.
 *
 * One queue pair serves all peers. A datagram carries at most the port's MTU; what arrives begins
 * VB_DGRAM_GRH bytes later in its buffer (global routing header). It is copied into a registered buffer
 * before it is sent: the engine keeps no keys of its pieces, and sends again after the caller's buffer
 * has moved.
 *
 * Access: a sender must know the queue pair's Q_Key, which is random (the adapter drops others), and tag
 * each datagram with the process's key (iw_auth.h).
 *
 * Threads: as the port. Memory: send slots and buffers of the receive window (vb_rx.h), whatever the
 * number of peers; a peer costs an address handle. */
#ifndef VB_DGRAM_H
#define VB_DGRAM_H

#include "vb_rx.h"

#include "iw_engine.h"

#define VB_DGRAM_GRH     40u
#define VB_DGRAM_MTU_MIN 1024u /* a port with less has no datagrams */

/* Where a process takes datagrams; published. Numbers in host order. */
typedef struct vb_dgram_address {
    uint32_t number; /* of the queue pair; 0: none */
    uint32_t qkey;
    uint16_t lid; /* 0: by gid alone */
    uint8_t gid[16];
} vb_dgram_address_t;

typedef struct vb_dgram vb_dgram_t;

typedef struct vb_dgram_counters {
    uint64_t sent, received;
    uint64_t starved; /* times the receive queue ran low */
    uint64_t errors;  /* completions with an error, or without a header */
} vb_dgram_counters_t;

/* NULL: not possible, why says what is wrong. receives: most receive buffers; qkey: random, its highest
 * bit is cleared (set, it would mean another thing: InfiniBand specification, 10.2.5). */
vb_dgram_t *vb_dgram_open(vb_port_t *port, uint32_t messages, uint32_t receives, uint32_t qkey,
                          char *why, size_t size);
void vb_dgram_close(vb_dgram_t *dgram);

/* The engine that takes what arrives. Before anything else is called. */
void vb_dgram_bind(vb_dgram_t *dgram, iw_engine_t *engine);
/* As vb_port_arm, whose channel tells. False: the adapter does not. */
bool vb_dgram_arm(vb_dgram_t *dgram);

uint16_t vb_dgram_mtu(const vb_dgram_t *dgram);
const vb_dgram_address_t *vb_dgram_own(const vb_dgram_t *dgram);
/* Bytes that the receive queue takes now, for iw_config_t: receive_space. */
uint32_t vb_dgram_space(const vb_dgram_t *dgram);
const ibx_window_t *vb_dgram_window(const vb_dgram_t *dgram);
/* Bytes besides the receive window. */
size_t vb_dgram_memory(const vb_dgram_t *dgram);
const vb_dgram_counters_t *vb_dgram_counters(const vb_dgram_t *dgram);

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
