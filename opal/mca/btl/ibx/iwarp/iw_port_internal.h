/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The UDP socket of the datagram engine (iw_port.h) from inside: what iw_port.c, iw_port_in.c and iw_port_out.c share. */
#ifndef IW_PORT_INTERNAL_H
#define IW_PORT_INTERNAL_H

#ifndef _GNU_SOURCE
#    error "the first line of the file is to define _GNU_SOURCE: struct mmsghdr"
#endif

#include "iw_intake.h"
#include "iw_poll.h"
#include "iw_port.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* In the kernel since 4.18 and 5.0; headers may be older than the kernel. */
#ifndef UDP_SEGMENT
#    define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#    define UDP_GRO 104
#endif

#define UDP_IPV4  28 /* bytes of headers */
#define UDP_IPV6  48
#define BATCH     128   /* datagrams sent with one call: two of the longest trains */
#define BRIEF     8     /* the same by a caller that may poll only once */
#define SLOTS     IW_INTAKE_SLOTS
#define SLOT      65536 /* a datagram, or a train that the kernel has put together */
#define SLOT_SKEW 20    /* the payload of a large segment, behind 44 bytes, begins a cache line */
#define SLOT_ROOM (SLOT + 64)
#define IN_SIZE   (SLOTS * SLOT_ROOM)
#define BUSY_FOR  UINT64_C(20000) /* ns: to make datagrams that are not taken costs more than to ask whether there is room */
#define REFUSED   8    /* times in a row that sendmmsg did not do what sendmsg did */
#define PEER_SOCKETS     16   /* connected sockets */

/* A connected socket, or a candidate for one. A peer has one entry, by its address. */
typedef struct peer_socket {
    iw_address_t to;
    int socket;    /* -1: none yet */
    uint32_t heat; /* datagrams to `to`, less those to others */
} peer_socket_t;

typedef union control {
    struct cmsghdr align;
    char space[2 * CMSG_SPACE(sizeof(int))]; /* a train's size, and the class */
} control_t;

struct iw_port {
    int socket;
    bool segment; /* trains can be sent */
    bool joins;   /* the kernel can make them of what comes */
    bool receives_singly;  /* recvmmsg is refused */
    unsigned send_refused; /* sendmmsg: times in a row; from REFUSED on it is not used */
    uint8_t class;  /* IP's: DSCP and ECN */
    bool hears_marks;
    bool is_direct; /* large payloads are received where they belong */
    iw_address_t address;
    uint32_t space;
    uint16_t limit; /* longest datagram of the interface, when the port was opened */
    /* These two also for iw_port_wait, which has no lock. */
    atomic_uint_least64_t busy_until; /* the kernel had no room, and is asked again then; 0: it takes datagrams, as far as is known */
    atomic_int busy; /* the socket that had none; -1: it was not the socket's */
    atomic_uint wanted; /* so many wait for the lock */
    bool gives_way;     /* to them */
    bool is_brief;      /* another thread sends what is much */
    uint64_t polled; /* when iw_port_progress was called last */
    iw_poll_t poll;
    iw_intake_t intake;
    iw_port_counters_t count;
    peer_socket_t peer_socket[PEER_SOCKETS];
    int asking; /* the socket for what a silent peer is sent: it hears what the network says; -1: none yet */

    struct mmsghdr in[SLOTS];
    struct iovec in_piece[SLOTS];
    control_t in_control[SLOTS];
    iw_direct_t direct[SLOTS];
    unsigned directs;    /* slots of the last call for which there was one */
    size_t direct_prefix; /* bytes before the payload of the last large datagram; 0: there is nothing to predict */
    struct iovec in_apart[SLOTS][3];
    uint8_t *in_buffer; /* mapped */
    bool in_touched; /* more than the first page of it */
    uint64_t in_at;  /* when a datagram came last */

    iw_port_alternate_fn_t *alternate;
    void *alternate_context;
    iw_packet_t packet[BATCH];
    struct mmsghdr out[BATCH];
    unsigned first[BATCH + 1]; /* first packet of each message */
    struct iovec out_piece[BATCH * (1 + IW_IOV_MAX)];
    control_t out_control[BATCH];
};

static inline uint8_t *iw_port_slot(const iw_port_t *p, size_t i)
{
    return p->in_buffer + i * SLOT_ROOM + SLOT_SKEW;
}

/* Asks for a socket buffer of so many bytes, with `force` first; *got: as the kernel has it. */
void iw_port_set_buffer(int s, int force, int option, uint32_t bytes, int *got);

/* Does the system not have this call, or not let us? A sandbox answers so, and a firewall for what it does not let out. */
static inline bool iw_port_is_refused(int error)
{
    return ENOSYS == error || EPERM == error || EACCES == error;
}

/* An option of IP, as it is called in either family. */
bool iw_port_set(const iw_port_t *p, int s, int v4, int v6, int value);

/* IP must not cut datagrams: their size is found by probing (RFC 8899). */
bool iw_port_set_cutting(const iw_port_t *p, int s, bool may_cut);

/* Another socket at the port's address, for what the one that receives is not to do; it has a port number of its own.
 * -1: there is none. */
int iw_port_socket_beside(const iw_port_t *p);

/* One call. Both return how many datagrams were taken. */
unsigned iw_port_receive(iw_port_t *p, iw_engine_t *e, uint64_t now);

/* Whatever is there, with as few calls as possible; a bound, so that sending has its turn. */
unsigned iw_port_receive_all(iw_port_t *p, iw_engine_t *e, uint64_t now);

/* What the engine has to send, as far as the kernel takes it. */
void iw_port_transmit(iw_port_t *p, iw_engine_t *e, uint64_t now);

#endif
