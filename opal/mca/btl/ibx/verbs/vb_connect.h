/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connecting to peers: what the state machine (vb_conn.h) wants done, and the ways of doing it.
 *
 * Words
 *   connector   a way of connecting: rdma_cm (vb_cm.c), datagrams (vb_ud_cm.c), or to oneself (vb_loop.c). An attempt, and the
 *               connection that comes of it, has one, which makes its link and takes it apart
 *   asked       a request of a peer's, until it is answered
 *
 * A connector tells what has come in by vb_connect_asked, vb_connect_is_welcome, vb_connect_rejected,
 * vb_connect_ended and vb_peer_step; these call it back for what follows.
 *
 * Threads: as the port; all with its lock, unless it says otherwise. */
#ifndef VB_CONNECT_H
#define VB_CONNECT_H

#include "vb_internal.h"

/* What has become of a step of an attempt. */
typedef enum vb_progress {
    VB_STEP_FAILED, /* the peer's `why` says how */
    VB_STEP_BEGUN,  /* its end is an event */
    VB_STEP_DONE,   /* already */
} vb_progress_t;

/* A request of a peer's. */
typedef struct vb_asked {
    const vb_connector_t *by;
    vb_hello_t hello;
    /* Responder resources and initiator depth there (InfiniBand specification, 12.7). */
    uint8_t resources, depth;
    struct rdma_cm_id *id;          /* rdma_cm's; its connector's to destroy */
    uint64_t attempt;               /* by another port */
    const vb_cm_message_t *message; /* the datagram; whose process is one of the port's peers */
} vb_asked_t;

/* begin, resolve, route and prepare may be NULL: there is nothing to be done; so may what is never called. */
struct vb_connector {
    /* The link begins: an attempt of mine, or, with `asked`, the peer's. Returns NULL; or what failed (errno), and the link has nothing. */
    const char *(*begin)(vb_link_t *link, const vb_asked_t *asked);
    /* Of an attempt of mine: find out where the peer is, and the way there. */
    vb_progress_t (*resolve)(vb_link_t *link);
    vb_progress_t (*route)(vb_link_t *link);
    /* Before vb_link_prepare. False: why is set. */
    bool (*prepare)(vb_link_t *link);
    /* Asks; or welcomes the peer, which has been greeted. The link is prepared. False: why is set. */
    bool (*ask)(vb_link_t *link);
    bool (*welcome)(vb_link_t *link, const vb_asked_t *asked);
    void (*reject)(vb_port_t *port, const vb_asked_t *asked, vb_answer_t answer);
    /* Makes the link's queue pair, and sets it; receives may be posted to it. False: errno. */
    bool (*create)(vb_link_t *link, struct ibv_qp_init_attr *attr);
    /* NULL: as it must be of links that have a queue pair. Else what is posted to a link goes on. */
    void (*pump)(vb_link_t *link);
    /* The peer gives the link up: nothing of the connector names it any more, the other side is told, and the adapter
     * ends what is posted. Nobody waits for that (siw never does). */
    void (*disconnect)(vb_link_t *link);
    /* Its queue pair goes, if there is one, and all that is left of the attempt. Waits until its events are acknowledged: not
     * with the lock. */
    void (*destroy)(vb_link_t *link);
};

/* Is it by the port's own adapter? */
static inline bool vb_link_has_pair(const vb_link_t *link)
{
    return NULL == link->by->pump;
}

extern const vb_connector_t vb_cm, vb_ud_cm, vb_loop, vb_elsewhere;

/* Is the request one of a process of this job that can be talked to? If so it is answered; else it was rejected. */
void vb_connect_asked(vb_port_t *port, const vb_asked_t *asked);
/* An answer to my request: hello, or NULL for none that can be understood. True: welcome, and the peer is greeted. */
bool vb_connect_is_welcome(vb_link_t *link, const vb_hello_t *hello);
/* My request is rejected; hello NULL: not by a process of this job. status is for people. */
void vb_connect_rejected(vb_peer_t *peer, const vb_hello_t *hello, int status);
/* The other side has ended the connection, or the attempt that I accepted; why is for people. */
void vb_connect_ended(vb_peer_t *peer, const char *why);
/* The next attempts, as far as their turn has come. */
void vb_connect_begin_queued(vb_port_t *port);
/* It is time for the next attempt to resume, which begins when it is its turn. */
void vb_connect_queue_broken(vb_peer_t *peer);

/* ---- vb_cm.c: of a port that has an IPv4 address ---- */

/* Finds the device and port of the address: port->context is set. False: why says what is wrong. */
bool vb_cm_open(vb_port_t *port, char *why, size_t size);
bool vb_cm_listen(vb_port_t *port, char *why, size_t size);
void vb_cm_close(vb_port_t *port);
/* What rdma_cm has to tell. Takes the lock itself. */
void vb_cm_events(vb_port_t *port);

/* ---- vb_ud_cm.c: of a port that takes requests in datagrams (InfiniBand and RoCE) ---- */

/* port->mailbox is set. False: why says what is missing. */
bool vb_mailbox_open(vb_port_t *port, char *why, size_t size);
/* All of these: also without one. */
void vb_mailbox_close(vb_port_t *port);
/* Waits at most so long until what was said has gone out. Nothing may be heard any more. */
void vb_mailbox_flush(vb_port_t *port, uint64_t wait_ns);
/* Readable when something has arrived; -1: none. */
int vb_mailbox_descriptor(const vb_port_t *port);
/* Do requests wait? Then it has events without a notice, too. */
bool vb_mailbox_is_asked(const vb_port_t *port);
/* Only with one: takes all that has arrived, and answers one request. Takes the lock itself. */
void vb_mailbox_events(vb_port_t *port);
/* The peer is not spoken to any more, if nothing is left of its connection. */
void vb_mailbox_part(vb_peer_t *peer);
/* Says the request to this peer again, or the welcome, if it is time. */
void vb_mailbox_repeat(vb_peer_t *peer, uint64_t now);

#endif
