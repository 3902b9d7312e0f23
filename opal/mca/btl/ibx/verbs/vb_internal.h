/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Ports, peers and links of the verbs library as its own files see them. Not for anybody else. */
#ifndef VB_INTERNAL_H
#define VB_INTERNAL_H

#include "vb_address.h"
#include "vb_conn.h"
#include "vb_credit.h"
#include "vb_handshake.h"
#include "vb_map.h"
#include "vb_sent.h"
#include "vb_rx.h"

#include "spec_list.h"

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>

typedef struct vb_connector vb_connector_t; /* vb_connect.h */
typedef struct vb_mailbox vb_mailbox_t;     /* vb_ud_cm.c */
typedef struct vb_setup vb_setup_t;
typedef struct vb_failover vb_failover_t; /* vb_failover.c */
typedef struct vb_hybrid vb_hybrid_t; /* vb_hybrid.h */
typedef struct vb_mate vb_mate_t;

/* The number in a work request: which link or queue it belongs to, and which request or buffer it is.
 * Never a pointer: a completion may be left over from a link that is gone. */
static inline uint64_t vb_wr_id(bool is_receive, uint32_t generation, uint32_t number)
{
    return (uint64_t) number << 32 | (uint64_t) (generation & 0x7fffffffu) << 1 | is_receive;
}
static inline bool vb_wr_is_receive(uint64_t id)
{
    return id & 1;
}
static inline uint32_t vb_wr_generation(uint64_t id)
{
    return (uint32_t) id >> 1;
}
static inline uint32_t vb_wr_number(uint64_t id)
{
    return (uint32_t) (id >> 32);
}

/* A work request that is outstanding. */
typedef struct vb_request {
    void *user; /* NULL: nobody is told */
    vb_sent_t sent;
    bool is_signalled; /* has a completion of its own */
    bool is_done;
    /* What is needed to post it again; only where connections are resumed. */
    uint8_t flags, pieces;
    uint32_t rkey;
    uint64_t remote;
    struct ibv_sge piece[2];
} vb_request_t;

/* What a connection that broke had not been told to be there, the oldest first. */
typedef struct vb_kept {
    uint32_t n, next; /* not posted again yet: next to n - 1 */
    uint32_t stride;
    char *copies; /* of inline data, stride bytes each; behind the requests */
    vb_request_t request[];
} vb_kept_t;

/* One attempt or connection. A peer has at most one; those given up lie in the port's graveyard until
 * the port's thread takes them apart, because rdma_destroy_id waits for that thread, and until nothing
 * comes from them any more. */
struct vb_link {
    vb_link_t *next; /* in the graveyard */
    vb_peer_t *peer; /* NULL in the graveyard */
    bool was_connected; /* or is about to be, so that messages may have come: else it took no buffer out of a shared queue */
    bool has_last;   /* the adapter said that it takes no more buffers out of the shared queue for it */
    bool drains;     /* and what it took is on its way through the completion queue: */
    uint32_t drained; /* until that has been found empty so often (port->drains) */
    uint64_t last_at; /* in the graveyard: it is not waited longer for the adapter to say so */
    const vb_connector_t *by;
    struct rdma_cm_id *id; /* of rdma_cm, or */
    vb_setup_t *setup;     /* of datagrams */
    vb_failover_t *failover; /* it goes by another port, and has no queue pair; else NULL */
    struct ibv_qp *qp;
    uint32_t generation;
    uint32_t inline_max;
    vb_rx_t *rx; /* its own receive queue, or NULL */
    vb_credit_t credit;
    vb_sendq_t sendq;
    uint32_t reads;         /* outstanding */
    vb_request_t *requests; /* of the send queue, by number modulo its depth */
    char *copies;           /* of their inline data, where connections are resumed, or NULL */
    bool is_broken;         /* disconnected; what it brought is being taken */
    bool is_final;          /* it broke by a fault of one side, not of the fabric: not to be resumed */
    bool is_counted;        /* in port->links */
    bool owes_bye;          /* goodbye had no room yet */
    uint32_t delivering;    /* messages in memory of the link that are being delivered */
    vb_hdr_t *controls;     /* by number modulo depth: a device without inline data */
    struct ibv_mr *controls_mr;
};

struct vb_peer {
    vb_peer_t *next; /* of all */
    vb_port_t *port;
    void *user;
    uint64_t name;
    uint64_t key;
    struct sockaddr_in address; /* sin_family 0: not known */
    vb_conn_t conn;
    vb_link_t *link;
    const vb_connector_t *connector; /* of attempts of mine */
    vb_dgram_address_t mailbox;      /* where it takes requests in datagrams; number 0: not known */
    uint32_t target;                 /* the address handle (vb_ud.h); 0: none */
    vb_handshake_t handshake;        /* by these */
    uint16_t messages_sent, messages_received; /* by all its connections */
    vb_kept_t *kept;         /* NULL: nothing is to be posted again */
    size_t parcel_bytes;     /* to be carried by another port */
    uint64_t elsewhere_asked; /* number of its newest attempt by another port */
    vb_mate_t *mate;         /* NULL: it is not reached by datagrams */
    bool has_slot;          /* among the connections of a port that has datagrams */
    bool is_met;             /* was added, not only heard of */
    uint32_t inline_max;     /* of a message, the way it goes */
    uint32_t inline_put_max; /* of a write by connection, when that is the way for good */
    bool is_cut;             /* disconnected: examined when all that has arrived is taken */
    bool is_waiting;         /* a post found no room: ready is to be called; in the port's list */
    vb_peer_t *next_waiting;
    spec_node_t turn;        /* in the port's queue: to be connected when it is its turn */
    char why[160];
};

struct vb_port {
    vb_config_t config;
    vb_abilities_t able;
    vb_counters_t counters;
    pthread_mutex_t lock;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_closing;
    int wake; /* eventfd */
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener; /* NULL: it has no IPv4 address */
    vb_mailbox_t *mailbox;       /* NULL: nobody connects by datagrams */
    struct ibv_context *context;
    bool owns_context; /* opened without rdma_cm */
    struct ibv_pd *pd;
    struct ibv_comp_channel *notices; /* of all completion queues; NULL: only polling finds out */
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    vb_rx_t *rx; /* of the shared queue */
    vb_entries_t entries;
    vb_hybrid_t *hybrid; /* NULL: connections only */
    vb_address_t own; /* to connect to itself, if it can (able.loop_why) */
    uint8_t initiator_depth, responder_resources;
    uint32_t send_depth, link_receives, link_spare;
    uint32_t generations;
    vb_parcel_t *parcels, *last_parcel; /* to be carried by another port */
    size_t parcel_bytes;
    struct vb_arrival *arrivals, *last_arrival; /* messages that another port brought */
    uint32_t inline_max; /* of the last queue pair */
    vb_map_t by_name, by_qp, by_id;
    vb_peer_t *peers;
    uint32_t links;
    struct ibv_wc wc[VB_BATCH]; /* taken from the adapter, wc_at to wc_n - 1 not handled yet */
    int wc_at, wc_n;
    uint32_t drains;    /* times that the completion queue was found empty */
    uint32_t deadlines; /* peers that have one */
    uint32_t attempts;  /* of mine to connect, under way, each the first to a peer */
    uint32_t resuming;  /* likewise, in place of connections that broke */
    spec_node_t queue, broken; /* of peers whose attempt begins when another one has ended */
    bool has_cut;
    bool has_broken; /* a link whose peer is BREAKING */
    vb_peer_t *waiting;
    vb_link_t *graveyard;
    bool has_draining; /* links there that wait for the completion queue */
    spec_node_t node; /* of all that are open */
};

/* Does the port's own process say so, by whichever connection? */
static inline bool vb_is_name_of(const vb_port_t *port, uint64_t name)
{
    return (name & ~VB_BULK_NAME) == (port->config.name & ~VB_BULK_NAME);
}

static inline uint32_t vb_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* So many bytes more of receive buffers. */
static inline void vb_port_registered(vb_port_t *port, uint64_t bytes)
{
    vb_counters_t *counters = &port->counters;
    counters->registered += bytes;
    if (counters->registered > counters->registered_most) {
        counters->registered_most = counters->registered;
    }
}

/* ---- vb_connect.c ---- */

/* The one way in which a connection's state changes. */
void vb_peer_step(vb_peer_t *peer, vb_conn_event_t event);
/* Says why something fails. Returns false. */
bool vb_fails(char *why, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define vb_peer_why(peer, ...) vb_fails((peer)->why, sizeof((peer)->why), __VA_ARGS__)
void vb_peer_wants(vb_peer_t *peer);
/* Its connection is broken, which is told when all that has arrived before is taken: a goodbye may be in it. */
static inline void vb_peer_cut(vb_peer_t *peer)
{
    peer->is_cut = true;
    peer->port->has_cut = true;
}

/* ---- vb_resume.c ---- */

static inline bool vb_port_resumes(const vb_port_t *port)
{
    return 0 != port->config.rules.resume_ns;
}
/* A request that has been posted, so that it can be posted again; nothing where connections are not resumed. */
void vb_link_note(vb_link_t *link, uint32_t number, const struct ibv_send_wr *wr, unsigned flags);
/* What is outstanding belongs to the peer from now on, and is posted by the next link. False: that cannot be (atomic
 * operations may have been done, or there is no memory). */
bool vb_link_keep(vb_link_t *link);
/* The other side says how many messages it has: what is there ends well. False: it cannot have so many. */
bool vb_peer_has_received(vb_peer_t *peer, uint16_t received);
/* Has it had more than so many: did it say so before it received what is known to be there? */
bool vb_peer_had_received(const vb_peer_t *peer, uint16_t received);
/* Posts what was kept, as far as there is room. True: nothing is left. */
bool vb_link_post_again(vb_link_t *link);
/* The peer is lost, or has ended. */
void vb_peer_fail_kept(vb_peer_t *peer, vb_status_t status);
/* The one kept next is posted, with the header that a message begins with renewed (vb_post.c). */
vb_status_t vb_post_kept(vb_link_t *link, const vb_request_t *kept);

/* ---- vb_failover.c ---- */

/* Messages that came so; at most max. */
int vb_failover_poll(vb_port_t *port, vb_received_t *received, int max);
void vb_failover_return(const vb_received_t *received);
/* All that waits is freed. */
void vb_failover_close(vb_port_t *port);

/* ---- vb_poll.c ---- */

typedef enum vb_came { VB_CAME_BAD, VB_CAME_CONTROL, VB_CAME_MESSAGE } vb_came_t;
/* The header of a message that came by a link: is it one, and what it says has been done. hdr: a copy. */
vb_came_t vb_link_came(vb_link_t *link, const void *message, uint32_t length, vb_hdr_t *hdr);

/* ---- vb_events.c ---- */

/* Takes the graveyard apart, but for links with messages being delivered; not with the lock. */
void vb_port_bury(vb_port_t *port);
void vb_port_wake(vb_port_t *port);
/* Events of a device come to whichever of its ports asks first, and are passed on to those enlisted. */
void vb_port_enlist(vb_port_t *port);
void vb_port_delist(vb_port_t *port);

/* ---- vb_link.c ---- */

/* The peer is talked to by this link from now on; NULL: by none. */
void vb_peer_use(vb_peer_t *peer, const vb_link_t *link);

/* Of no peer yet. NULL: out of memory. */
vb_link_t *vb_link_new(vb_port_t *port, const vb_connector_t *by);
/* The peer's attempt from now on. */
static inline void vb_peer_link(vb_peer_t *peer, vb_link_t *link)
{
    link->peer = peer;
    peer->link = link;
}
/* Queue pair and receive buffers, if its connector has such. False: why is set. */
bool vb_link_prepare(vb_link_t *link);
/* Connected: the peer said hello. False: it said something impossible. */
bool vb_link_greet(vb_link_t *link, const vb_hello_t *hello);
/* From the peer to the graveyard; requests outstanding end with status. */
void vb_link_drop(vb_link_t *link, vb_status_t status);
/* Whether nothing comes any more of a link in the graveyard. A message in the shared queue names its queue pair and nothing
 * else: while one may be on its way through the completion queue the number must not become that of another peer, which would get
 * it. And buffers that the adapter took out of the shared queue are lost if the queue pair goes before it has given them back
 * (InfiniBand specification, affiliated asynchronous event 'Last WQE Reached'). */
bool vb_link_is_still(vb_link_t *link, vb_port_t *port);
/* The same for a link that broke, whose messages are still the peer's. */
bool vb_link_is_drained(vb_link_t *link, const vb_port_t *port);
/* Disconnects; the link stays the peer's. */
void vb_link_break(vb_link_t *link);
/* The queue pair is gone. */
void vb_link_free(vb_link_t *link);
void vb_hello_mine(const vb_link_t *link, vb_answer_t answer, vb_hello_wire_t *wire);
void vb_hello_reject(const vb_port_t *port, const vb_hello_t *asked, vb_answer_t answer,
                     vb_hello_wire_t *wire);

/* ---- vb_post.c ---- */

/* `ready` is to be called at the next poll: a post found no room. */
void vb_peer_wait(vb_peer_t *peer);

/* A control message; false: not now. */
bool vb_post_control(vb_link_t *link, vb_type_t type);
/* A request is complete, and with it the silent ones before it. */
void vb_link_retire(vb_link_t *link, uint32_t number);
/* No request will complete any more. */
void vb_link_fail(vb_link_t *link, vb_status_t status);

/* ---- vb_loop.c ---- */

/* Could the port connect to itself? Sets able.loop_why, and port->own. */
void vb_loop_examine(vb_port_t *port);

/* ---- vb_open.c ---- */

bool vb_make_nonblocking(int fd);

/* ---- vb_device.c ---- */

/* Opens the device that config names: port->context is set. False: why says what is wrong. */
bool vb_device_open(vb_port_t *port, char *why, size_t size);

/* What the port can do, into able and the limits. False: why says what is missing. */
bool vb_port_examine(vb_port_t *port, uint8_t number, char *why, size_t size);

#endif
