/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The UDP port: binds an engine to a socket and the clock.
 *
 * One socket receives from all peers. Sending to an address that a socket is connected to saves the
 * kernel a search for each datagram, so the few peers most talked to get a connected socket each, for
 * sending only; it is a cache, and bounded. Sends many datagrams with one system call, and runs of datagrams of one
 * size to one peer as a single one that the kernel or the adapter cuts (UDP_SEGMENT); takes what the
 * kernel has put together again (UDP_GRO). Never blocks, except in iw_port_wait.
 *
 * Data that arrives is verified in the port's own buffers and then copied to where it belongs. The large payloads that
 * answer a read the kernel writes there at once, where they are verified (iw_direct.h).
 *
 * Gain: test/bench/port-parts, part connected.
 *
 * Threads: one caller at a time, the same as for the engine. */
#ifndef IW_PORT_H
#define IW_PORT_H

#include "iw_engine.h"

#include <poll.h>

typedef struct iw_port iw_port_t;

typedef struct iw_port_config {
    iw_address_t address; /* to be bound to; port 0: any */
    uint32_t ports;       /* so many from that one on will do, the first that is free; 0: only that one */
    uint32_t buffer;      /* bytes the kernel shall buffer in each direction; it may give less */
    bool segment;         /* use UDP_SEGMENT and UDP_GRO if the kernel has them */
    uint8_t dscp;         /* of all datagrams: 0 to 63, RFC 2474 */
    bool ecn;             /* asks the network to mark instead of drop, and tells the engine of marks */
    bool direct;          /* large payloads are received where they probably belong (iw_direct.h) */
} iw_port_config_t;

typedef struct iw_port_counters {
    uint64_t receive_calls, receive_empty; /* system calls, and those that found nothing */
    uint64_t receive_errors;               /* those that failed for another reason */
    uint64_t placed;    /* datagrams whose payload was received where it belongs */
    uint64_t misplaced; /* calls of which one was received where it does not */
    uint64_t joins; /* times the kernel was asked to join datagrams to trains */
    uint64_t send_calls;
    uint64_t trains;  /* messages to the kernel that were several datagrams */
    uint64_t too_big; /* datagrams larger than the interface takes */
    uint64_t busy;    /* times the kernel had no room */
    uint64_t reports; /* times a connected socket told of an earlier datagram instead of sending */
    uint64_t absences; /* times the network said that a silent peer is not there */
    uint64_t errors;  /* other errors of sending */
    uint64_t alternate_out; /* datagrams of the alternate path, */
    uint64_t alternate_full; /* and those for which that had no room */
} iw_port_counters_t;

void iw_port_config_default(iw_port_config_t *config);

/* NULL: errno says why; EADDRINUSE: all ports are taken. Also when the system refuses to send or to receive, as a sandbox may;
 * without calls that do so for many datagrams at a time it goes on without. */
iw_port_t *iw_port_open(const iw_port_config_t *config);
void iw_port_close(iw_port_t *port);

int iw_port_socket(const iw_port_t *port);
const iw_address_t *iw_port_address(const iw_port_t *port);
/* For iw_config_t: datagram_min. An interface of a small MTU carries less in one piece than every path is said to. */
uint16_t iw_port_least(const iw_port_t *port);
/* For iw_config_t: receive_space. */
uint32_t iw_port_space(const iw_port_t *port);
const iw_port_counters_t *iw_port_counters(const iw_port_t *port);

/* Nanoseconds of the monotonic clock. */
uint64_t iw_port_now(void);
/* The same, as of the latest iw_port_progress: free, where a little late does not matter. */
uint64_t iw_port_polled_at(const iw_port_t *port);

/* Is it time to poll? A caller of iw_port_progress that polls all the time may ask this first, and leave the kernel
 * alone while it is not (iw_poll.h). Any thread, without the lock. */
bool iw_port_is_due(const iw_port_t *port);

/* Takes datagrams of the alternate path (iw_packet_t: alternate), whole before it returns; false: it has no room. Until
 * this is called they are lost. */
typedef bool iw_port_alternate_fn_t(void *context, const iw_packet_t *packet);
void iw_port_set_alternate(iw_port_t *port, iw_port_alternate_fn_t *take, void *context);

/* Send what can leave, and nothing else: right after posting. */
void iw_port_flush(iw_port_t *port, iw_engine_t *engine);

/* What was posted may wait for more: the next flush sends it, or the next progress, which is due at once. */
void iw_port_gather(iw_port_t *port);

/* Receive what is there, run timers, send what can leave. Returns how many datagrams came. */
unsigned iw_port_progress(iw_port_t *port, iw_engine_t *engine);
/* The same for a caller that comes seldom and finds much: takes all there is with few calls, and acknowledges it once. */
unsigned iw_port_drain(iw_port_t *port, iw_engine_t *engine);

/* Somebody waits for whoever is in the port, or no longer. Any thread, without the lock. */
void iw_port_want(iw_port_t *port, bool begins);
bool iw_port_is_wanted(const iw_port_t *port);
/* From now on, or no more: progress that sends much ends after its next call of the kernel where somebody waits. For a caller that comes
 * back at once. */
void iw_port_give_way(iw_port_t *port, bool begins);
/* The same: progress sends no more than a few datagrams. For a caller that may poll only once, beside
 * another thread that sends. Was it so before? */
bool iw_port_be_brief(iw_port_t *port, bool begins);

/* Sleep until a datagram comes, a timer is due, the kernel has room again for what it did not take, `wake` (a file descriptor, or -1) becomes readable
 * or timeout_ns has passed. True: `wake` is readable. */
bool iw_port_wait(iw_port_t *port, uint64_t deadline, int wake, uint64_t timeout_ns);
/* Sleep until one of these is ready, for at most time_ns. True: one is. Where the system refuses to wait for descriptors
 * a part of the time passes. */
bool iw_port_sleep(struct pollfd *fd, unsigned count, uint64_t time_ns);
/* When iw_port_progress must be called again if nothing comes, UINT64_MAX for never. */
uint64_t iw_port_deadline(const iw_engine_t *engine);

#endif
