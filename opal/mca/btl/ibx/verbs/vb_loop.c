/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The connection of a port to itself: one queue pair that is its own other side, and nobody is asked.
 *
 * By it a process does its adapter's atomic operations on its own memory. For all else in the port it is a connection like
 * others: the state machine opens it when it is first wanted, ends it, and says that it broke. What a connection says first, and
 * its goodbye, it says to itself. Put and get need none: the processor copies. */
#include "vb_connect.h"

#include <errno.h>

void vb_loop_examine(vb_port_t *port)
{
    vb_abilities_t *able = &port->able;
    if (!able->atomics || able->atomics_coherent || able->datagrams) {
        (void) vb_fails(able->loop_why, sizeof(able->loop_why), "no atomic operation needs it");
    } else if (vb_address_find(&port->own, port, able->loop_why, sizeof(able->loop_why))) {
        able->loop_why[0] = '\0';
    }
}

vb_peer_t *vb_peer_add_self(vb_port_t *port, void *user)
{
    vb_peer_t *peer =
        '\0' == port->able.loop_why[0] ? vb_peer_add(port, port->config.name, NULL, 0, user) : NULL;
    if (NULL != peer) {
        peer->connector = &vb_loop;
    }
    return peer;
}

static vb_progress_t resolve(vb_peer_t *peer)
{
    vb_link_t *link = vb_link_new(peer->port, &vb_loop);
    if (NULL == link) {
        (void) vb_peer_why(peer, "out of memory");
        return VB_STEP_FAILED;
    }
    vb_peer_link(peer, link);
    return VB_STEP_DONE;
}

static vb_progress_t route(vb_link_t *link)
{
    (void) link;
    return VB_STEP_DONE;
}

static bool create(vb_link_t *link, struct ibv_qp_init_attr *attr)
{
    const vb_port_t *port = link->peer->port;
    link->qp = vb_address_pair(&port->own, port, attr);
    return NULL != link->qp;
}

/* The queue pair is told that it is its own other side. False: why is set. */
static bool connect_pair(vb_link_t *link)
{
    const vb_port_t *port = link->peer->port;
    const vb_address_t *own = &port->own;
    struct ibv_ah_attr way;
    const vb_cm_message_t there = {.pair = link->qp->qp_num,
                                   .psn = link->generation & 0xffffffu,
                                   .mtu = own->mtu,
                                   .resources = port->responder_resources,
                                   .depth = port->initiator_depth};
    if (!vb_address_route(own, port, own->lid, own->gid, &way)) {
        return vb_peer_why(link->peer, "its port has no address that leads to itself");
    }
    const int rc = vb_address_connect(own, port, link->qp, there.psn, &there, &way);
    link->was_connected = true;
    return 0 == rc
           || vb_peer_why(link->peer, "the queue pair cannot be connected to itself: %s",
                          strerror(rc));
}

/* Which is the answer, too. No credits are counted: but for the first word and the goodbye nothing is said. */
static bool ask(vb_link_t *link)
{
    if (!vb_link_prepare(link) || !connect_pair(link)) {
        return false;
    }
    vb_peer_step(link->peer, VB_ON_ESTABLISHED);
    return true;
}

/* Nobody asks: a request in the name of this process is refused before. */
static bool accept_nobody(vb_peer_t *peer, const vb_asked_t *asked)
{
    (void) asked;
    return vb_peer_why(peer, "only this process connects to itself");
}

static void reject(vb_port_t *port, const vb_asked_t *asked, vb_answer_t answer)
{
    (void) port, (void) asked, (void) answer;
}

static void disconnect(vb_link_t *link)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    if (NULL != link->qp) {
        (void) ibv_modify_qp(link->qp, &error, IBV_QP_STATE);
    }
}

static void destroy(vb_link_t *link)
{
    if (NULL != link->qp) {
        (void) ibv_destroy_qp(link->qp);
    }
}

const vb_connector_t vb_loop = {
    .resolve = resolve,
    .route = route,
    .ask = ask,
    .accept = accept_nobody,
    .reject = reject,
    .create = create,
    .disconnect = disconnect,
    .destroy = destroy,
};
