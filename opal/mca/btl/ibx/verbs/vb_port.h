/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Reliable connections over one port of an RDMA adapter: InfiniBand, RoCE or iWARP, through
 * libibverbs and librdmacm, connected when first wanted: by rdma_cm, or by datagrams where there is no IPv4 address.
 *
 * Words
 *   port      a port of an adapter, named by an IPv4 address of it, or by device and number
 *   peer      another process, reached over one port
 *   link      one attempt to connect to a peer, or the connection that came of it (vb_internal.h)
 *   message   what vb_post_send sends; arrives with vb_port_poll
 *
 * Order: messages and writes of one peer arrive in the order of their posting; so a message posted
 * after a write is delivered when the write's data is there. A message posted after a read, with
 * VB_FENCE, leaves when the read's data is here. Writes that are under way to the same bytes by datagrams (hybrid
 * mode) may be placed in either order.
 *
 * Threads: vb_port_lock protects a port and all that belongs to it; all functions are called with it,
 * unless they say otherwise. A thread of the port's own accepts and makes connections and fills the
 * receive queue when it runs low, while the application computes. The callbacks are called with the
 * lock held, from that thread too: they may only note what happened. The lock is never held across
 * something that waits for another process.
 *
 * Ownership: memory that is posted belongs to the port until `done` or the message comes back. */
#ifndef VB_PORT_H
#define VB_PORT_H

#include "ibx_window.h"
#include "iw_memory.h"
#include "spec_now.h"
#include "vb_conn.h"
#include "vb_switch.h"
#include "vb_wire.h"

#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct vb_port vb_port_t;
typedef struct vb_peer vb_peer_t;
typedef struct vb_link vb_link_t;

typedef enum vb_status {
    VB_OK,
    VB_AGAIN, /* no room, no credits, or not connected yet: `ready` tells */
    VB_LOST,  /* the peer cannot be reached any more, or never could */
    VB_ENDED, /* the peer said goodbye, or I did */
    VB_FAULT, /* this request is impossible here */
} vb_status_t;

typedef enum vb_fabric { VB_INFINIBAND, VB_ROCE, VB_IWARP } vb_fabric_t;
const char *vb_fabric_name(vb_fabric_t fabric);

/* What the port can do and does, and why not. */
typedef struct vb_abilities {
    char device[IBV_SYSFS_NAME_MAX];
    uint8_t port;
    vb_fabric_t fabric;
    bool shared_queue;
    const char *shared_queue_why; /* not; NULL: it is used */
    bool atomics;
    bool atomics_coherent; /* with the processor's own */
    const char *atomics_why;
    char loop_why[128]; /* the port cannot connect to itself, or need not; empty: it can */
    bool fences; /* VB_FENCE means something */
    const char *fences_why;
    bool datagrams;          /* peers are talked to by datagrams first (vb_hybrid.h) */
    char datagrams_why[128]; /* not */
    bool by_datagrams;      /* it connects by datagrams (vb_connect_t) */
    char mailbox_why[128];    /* nobody can connect to it so; empty: one can */
    uint32_t inline_max;     /* bytes, as far as known before a connection */
    uint32_t queue_depth;
    uint64_t message_max; /* bytes of one write or read */
    uint32_t mbps;
    bool software; /* the adapter is a thread of the kernel, which needs a processor */
} vb_abilities_t;

typedef enum vb_choice { VB_OFF, VB_ON, VB_AUTO } vb_choice_t;

/* How connections are made. */
typedef enum vb_connect {
    VB_CONNECT_CM,        /* by rdma_cm */
    VB_CONNECT_AUTO,      /* by datagrams if that can be: not on iWARP, which has none; else by rdma_cm */
    VB_CONNECT_DATAGRAMS, /* the same, and never by rdma_cm but for iWARP */
} vb_connect_t;

typedef struct vb_config {
    struct sockaddr_in address; /* of the port; sin_port 0: any; sin_family 0: it has none, but */
    char device[IBV_SYSFS_NAME_MAX];
    uint8_t port;
    vb_connect_t connect;
    uint64_t name;              /* of this process; another peer never has the same */
    uint64_t key;               /* peers must know it */
    vb_choice_t shared_queue;
    uint32_t window_initial,
        window_max; /* receive buffers: of the port, or of a link without a shared queue */
    uint64_t window_quiet_ns; /* 0: windows never shrink; else at least four times the RNR timer */
    uint32_t link_window_max; /* receive buffers of a link without a shared queue, at most */
    uint32_t buffer_size;     /* bytes of a message, header included */
    uint32_t send_depth;      /* work requests outstanding of one peer */
    uint32_t entries;         /* of the completion queue, for sends */
    uint32_t inline_max;
    uint8_t rnr_timer;     /* encoded as ibv_modify_qp has it; 0 is 655 ms, 1 the shortest */
    uint8_t ack_timeout;   /* 4.096 us * 2^n until a packet is sent again */
    uint8_t retries;       /* 0 to 7 */
    uint8_t service_level; /* of datagrams and of connections made by them, 0 to 15 */
    uint8_t traffic_class; /* of all; rdma_cm asks for connections of this one */
    vb_conn_rules_t rules; /* of connecting */
    uint32_t attempts;     /* so many first attempts of mine at a time, at least 1; the others wait */
    uint32_t resuming;     /* likewise, in place of connections that broke, which a network that is away does to all at once */
    struct vb_datagram_config {
        uint32_t after; /* messages to a peer until it gets a connection; 0: no datagrams at all */
        uint32_t max_connections; /* then the others stay with datagrams */
        uint32_t receives;        /* most datagrams that wait to be taken */
        uint32_t qkey;            /* random */
        uint8_t key[16];          /* random: datagrams to this process are tagged with it */
        uint8_t auth;             /* iw_auth_mode_t; the same in the whole job */
        uint64_t seed;            /* random */
        uint64_t start;           /* wall clock when the process began, ns */
        uint64_t peer_timeout_ns; /* a peer that does not answer for so long is lost */
    } datagram;
    bool relaxed; /* vb_port_relaxed */
    vb_choice_t notices; /* vb_port_arm will be called; VB_AUTO: if the adapter is software, and can */
    bool thread;   /* false: vb_port_events has to be called (tests) */
    void *context; /* of the callbacks */
    /* A request posted with a context is done. */
    void (*done)(void *context, vb_peer_t *peer, void *request, vb_status_t status);
    /* Posting to the peer may go on. */
    void (*ready)(void *context, vb_peer_t *peer);
    /* The peer is lost (not: said goodbye). why lives as long as the peer. */
    void (*down)(void *context, vb_peer_t *peer, const char *why);
    /* A connection that broke may go on as parts of at most so many bytes, which the owner carries to the same port of the peer by another
     * port (vb_port_next_part); 0: not. */
    uint32_t part_max;
    /* Copies to (is_write) or from the registered memory that rkey names. False: it is not named, has not these bytes, or may not be. */
    bool (*copy)(void *context, uint32_t rkey, uint64_t remote, void *data, uint32_t size, bool is_write);
    /* NULL, or for people: a connection went from a state to another. */
    void (*trace)(void *context, const vb_peer_t *peer, vb_conn_state_t from, vb_conn_event_t event,
                  const char *why);
    void (*switch_trace)(void *context, const vb_peer_t *peer, vb_switch_state_t from,
                      vb_switch_event_t event);
    /* NULL, or: a process that was not added speaks by datagrams. To be added soon, not from here; then vb_port_hear
     * takes what it said, if that is kept till then: data may be NULL. */
    void (*stranger)(void *context, uint64_t name, const uint8_t *data, size_t length);
    /* NULL, or: a process that was added asks for a second connection, which is to be added (vb_peer_add_bulk), so that its end, and
     * that it goes on by another port, concern its user. lock is held. */
    void (*second)(void *context, vb_peer_t *first);
} vb_config_t;

/* Defaults that parameters of the component change. */
enum {
    VB_LINK_WINDOW_MAX = 512,
    VB_INLINE_MAX = 256,
    VB_RNR_TIMER = 12, /* 0.64 ms */
    VB_ACK_TIMEOUT = 17,
    VB_RETRIES = 7,
    VB_CONNECTIONS_MOST = 64,
};

void vb_config_default(vb_config_t *config);

/* What each counts: btl_ibx_verbs_stats.c, where people read it. */
typedef struct vb_counters {
    uint64_t connected, asked, accepted, crossed, rejected, retried, timed_out, repeated, lost,
        queued, strangers, full, bulk, asked_again, resumed, posted_again, elsewhere, parts,
        bad_parts;
    uint64_t bad_messages, stale;
    uint64_t starved, grown, shrunk, no_credit, no_room, credit_messages;
    uint64_t sent, received, written, read, atomics, inlined;
    uint64_t registered, registered_most; /* bytes of receive buffers held: now, at most */
    uint64_t switched, stayed, way_messages;
} vb_counters_t;

/* NULL: not possible; why (of size bytes) says what is wrong. Takes no lock. */
vb_port_t *vb_port_open(const vb_config_t *config, char *why, size_t size);

/* Says goodbye to all peers and waits at most wait_ns for that to go out; then nothing is posted any more
 * and no callback comes. Takes the lock itself. */
void vb_port_quiesce(vb_port_t *port, uint64_t wait_ns);

/* The same when what the callbacks work on may be gone already: none comes any more, beginning with the call. */
void vb_port_leave(vb_port_t *port, uint64_t wait_ns);

/* After vb_port_quiesce, and when no memory is registered with vb_port_pd any more. */
void vb_port_close(vb_port_t *port);

/* Messages that found no receive buffer (RNR) since the device is there, as its driver counts them: of all
 * that use it. 0 if it does not say. */
uint64_t vb_device_rnr(const vb_abilities_t *able);

/* How many RDMA devices there are. */
int vb_devices(void);

/* Can rdma_cm be used? False: its device is not there or may not be opened; errno. */
bool vb_has_rdma_cm(void);

/* A port of a device, as it is listed. */
typedef struct vb_device_port {
    char device[IBV_SYSFS_NAME_MAX];
    uint8_t port;
    bool is_iwarp;
    char interface[IF_NAMESIZE]; /* RoCE: that it belongs to; else empty */
} vb_device_port_t;
/* Ports that are up; at most `most`. Returns how many. */
int vb_device_ports(vb_device_port_t *found, int most);
/* The device and port with this address. False: none. Only device and port of able are set. */
bool vb_device_of(const struct sockaddr_in *address, vb_abilities_t *able);

void vb_port_lock(vb_port_t *port);
bool vb_port_trylock(vb_port_t *port);
void vb_port_unlock(vb_port_t *port);

const vb_abilities_t *vb_port_abilities(const vb_port_t *port);
vb_counters_t *vb_port_counters(vb_port_t *port);
/* Connections, and those on their way; receive buffers wanted by all windows. lock is held. */
uint32_t vb_port_links(const vb_port_t *port);
uint32_t vb_port_wanted(const vb_port_t *port);
uint16_t vb_port_number(const vb_port_t *port); /* that others connect to, host order */
struct ibv_pd *vb_port_pd(const vb_port_t *port);

/* Peers. The same name gives the same peer. address and key may be NULL and 0 for one that is only
 * ever asked by (vb_port_poll may deliver of such). */
vb_peer_t *vb_peer_add(vb_port_t *port, uint64_t name, const struct sockaddr_in *address,
                       uint64_t key, void *user);
void *vb_peer_user(const vb_peer_t *peer);
/* Of the process. */
uint64_t vb_peer_name(const vb_peer_t *peer);
const vb_conn_t *vb_peer_connection(const vb_peer_t *peer);
/* Nothing will ever be sent again, whichever way. */
bool vb_peer_is_over(const vb_peer_t *peer);
/* Bandwidth of a port, Mb/s, by its width and speed as verbs encode them (SDR 1 to XDR 256); what is not known counts as 1,
 * and as SDR. */
uint32_t vb_mbps(unsigned width_code, unsigned speed_code);

/* Access rights (ibv_reg_mr) for memory that nobody reads before a completion has told of what is in it: if the configuration says
 * so, the adapter may write it in any order. */
int vb_port_relaxed(const vb_port_t *port, int access);

/* Its process is lost, for whatever reason (why, kept): no goodbye, its connection ends for good, and what is posted fails. lock is
 * held. */
void vb_peer_lose(vb_peer_t *peer, const char *why);
/* Says goodbye; what is posted fails with VB_ENDED, what is in the queue still goes out. The peer is
 * freed by vb_port_close. */
void vb_peer_close(vb_peer_t *peer);

/* This process as a peer of itself, for atomic operations on its own memory: connected, without asking anybody, when the first is
 * posted. user: as above. lock is held. NULL: out of memory, or the port cannot do that (able.loop_why). */
vb_peer_t *vb_peer_add_self(vb_port_t *port, void *user);

/* ---- the second connection to a process (vb_bulk.h); lock is held ---- */

/* A peer of its own, reached as the first is. user: as above. NULL: out of memory, or this port has datagrams (vb_hybrid.h). */
vb_peer_t *vb_peer_add_bulk(vb_peer_t *first, void *user);
/* Has either end asked for it? */
bool vb_peer_has_second(const vb_peer_t *first);
bool vb_peer_is_bulk(const vb_peer_t *peer);
/* What this process is called in that connection. */
uint64_t vb_peer_own_name(const vb_peer_t *peer);
/* It is connected, if it is not, without something to be sent. */
void vb_peer_connect(vb_peer_t *peer);
/* Was it ever? */
bool vb_peer_was_open(const vb_peer_t *peer);

/* ---- connecting by datagrams (vb_connect_t) ---- */

struct vb_dgram_address;
/* Where this port takes requests, to be published. False: nowhere. */
bool vb_port_mailbox(const vb_port_t *port, struct vb_dgram_address *own);
/* Connections to the peer are made so from now on: it takes requests there. False: no way leads there, or this port has
 * no mailbox. */
bool vb_peer_add_mailbox(vb_peer_t *peer, const struct vb_dgram_address *there);

/* ---- connections that go on by another port (vb_failover.c); lock is held ---- */

typedef struct vb_parcel vb_parcel_t;
/* Something for the peer, to be carried by another port: in order, to vb_port_take_part there; or the peer is told by
 * vb_peer_is_not_carried. */
struct vb_parcel {
    vb_parcel_t *next;
    vb_peer_t *peer;
    uint32_t length;
    _Alignas(8) uint8_t data[];
};
/* Is there another port for the peer's connection? Only where connections are resumed, and config has part_max. */
void vb_peer_offer_elsewhere(vb_peer_t *peer, bool is_there);
bool vb_port_has_parts(const vb_port_t *port);
/* The next parcel, to be freed by the caller; NULL: there is none. */
vb_parcel_t *vb_port_next_part(vb_port_t *port);
/* From the process of this name. */
void vb_port_take_part(vb_port_t *port, uint64_t name, const void *data, size_t length);
/* A parcel is on its way, by a connection that works, or could not be carried. */
void vb_peer_is_carried(vb_peer_t *peer);
void vb_peer_is_not_carried(vb_peer_t *peer);
/* Does the peer's connection carry others? It is there, goes by its own adapter, and is not broken. One that was never made is made. */
bool vb_peer_carries(vb_peer_t *peer);

/* ---- datagrams (vb_hybrid.h); without them these do nothing ---- */

/* Where this port takes datagrams, to be published; key has 16 bytes. False: nowhere. */
bool vb_port_datagrams(const vb_port_t *port, struct vb_dgram_address *own, uint8_t *key);
/* The peer takes datagrams there. False: it is reached by connection only. */
bool vb_peer_add_datagrams(vb_peer_t *peer, const struct vb_dgram_address *there,
                           const uint8_t *key);
/* NULL: by connection only. */
const vb_switch_t *vb_peer_switch(const vb_peer_t *peer);
/* Messages go there by datagrams, or wait until they go by connection; writes and reads are to be posted with
 * vb_post_datagram_rdma at the moment. */
bool vb_peer_is_by_datagrams(const vb_peer_t *peer);
/* Names memory for peers that come by datagrams; 0: no room, or no datagrams. They do not reach it while
 * *uses has none (iw_memory_add), which lives as long as the name. */
uint32_t vb_port_expose(vb_port_t *port, void *base, uint64_t size, bool read, bool write,
                        const iw_uses_t *uses);
void vb_port_hide(vb_port_t *port, uint32_t stag);
/* What a process said before it was known (vb_config_t: stranger). */
void vb_port_hear(vb_port_t *port, const uint8_t *data, size_t length);

typedef struct vb_datagram_use {
    uint16_t mtu;
    uint32_t peers;                         /* that were talked to, ever */
    uint32_t connections, connections_most; /* with those being made */
    uint32_t window;                        /* datagrams */
    uint64_t sent, received, resent, starved, errors;
    uint64_t memory; /* bytes besides receive buffers: peers, and what is under way */
} vb_datagram_use_t;
bool vb_port_datagram_use(const vb_port_t *port, vb_datagram_use_t *use);

/* Flags of posting. */
enum {
    VB_INLINE = 1, /* memory may be used again at once; only if it fits vb_inline_max, else VB_FAULT */
    VB_FENCE = 2,  /* not before earlier reads are done, if the port fences */
    VB_SIGNAL = 4, /* somebody waits for `done`: no delay */
    VB_READ = 8,   /* of vb_post_rdma and vb_post_datagram_rdma: from there to here */
};

/* A message: piece[0] begins with hdr, which this fills in. At most two pieces, the sum at most
 * buffer_size. request NULL: nobody is told. Takes part in credits. */
vb_status_t vb_post_send(vb_peer_t *peer, vb_hdr_t *hdr, uint8_t tag, struct ibv_sge *piece,
                         int pieces, unsigned flags, void *request);
/* A write; with VB_READ a read. */
vb_status_t vb_post_rdma(vb_peer_t *peer, struct ibv_sge *piece, uint64_t remote, uint32_t rkey,
                         unsigned flags, void *request);
/* 64 bits; the value before goes to the piece. swap NULL: add `operand`, else compare with it. */
vb_status_t vb_post_atomic(vb_peer_t *peer, struct ibv_sge *piece, uint64_t remote, uint32_t rkey,
                           uint64_t operand, const uint64_t *swap, unsigned flags, void *request);

/* offset counts from the beginning of what vb_port_expose named stag. */
vb_status_t vb_post_datagram_rdma(vb_peer_t *peer, const struct ibv_sge *piece, uint32_t stag,
                                  uint64_t offset, unsigned flags, void *request);

/* Bytes that VB_INLINE takes; 0 before the connection. May be asked without the lock, and may have changed
 * then. */
uint32_t vb_inline_max(const vb_peer_t *peer);
/* The same for a write by vb_post_rdma, as long as the peer is there: 0 while it may still be talked to by datagrams,
 * since what is posted later may find another way. */
uint32_t vb_inline_put_max(const vb_peer_t *peer);

typedef struct vb_received {
    vb_peer_t *peer;
    void *data;
    uint32_t length; /* without the header */
    uint8_t tag;
    /* For vb_port_return. */
    vb_link_t *link; /* whose memory it is; NULL: the shared queue's, or a buffer */
    bool in_datagram; /* it came by datagrams (vb_hybrid.h) */
    bool in_parts;    /* it came by another port (vb_failover.c) */
    uint32_t buffer;
} vb_received_t;

/* Completions. Returns how many messages arrived (at most max), *events how much else happened. */
int vb_port_poll(vb_port_t *port, vb_received_t *received, int max, int *events);
/* The messages' buffers are free again. */
void vb_port_return(vb_port_t *port, const vb_received_t *received, int n);
/* Instead of polling: a descriptor that becomes readable with the next completion; not with those that are there
 * already, so poll once after this. It says nothing of timers. lock is held. -1: the adapter does not
 * tell, or the port was not opened for it (vb_config_t: notices). */
int vb_port_arm(vb_port_t *port);
/* Once in a while (some 100 ms): the window may shrink. */
void vb_port_check(vb_port_t *port, uint64_t now);

/* What the port's thread does, once. Takes the lock itself. Waits at most timeout_ms. */
void vb_port_events(vb_port_t *port, int timeout_ms);

/* How long a sender waits that found no buffer: nanoseconds, of the encoded rnr_timer. */
uint64_t vb_rnr_ns(uint8_t timer);

#endif
