/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The connection of a port to itself: one queue pair that is its own other side, and nobody is asked.
 *
 * By it a process does its adapter's atomic operations on its own memory. For all else in the port it is a connection like
 * others: the state machine opens it when it is first wanted, ends it, and says that it broke. What a connection says first, and
 * its goodbye, it says to itself. Put and get need none: the processor copies. */
#include "vb_connect.h"

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

static bool create(vb_link_t *link, struct ibv_qp_init_attr *attr)
{
    const vb_port_t *port = link->peer->port;
    link->qp = vb_address_pair(&port->own, port, attr);
    return NULL != link->qp;
}

/* Which is the answer, too. No credits are counted: but for the first word and the goodbye nothing is said. */
static bool ask(vb_link_t *link)
{
    const vb_port_t *port = link->peer->port;
    const vb_address_t *own = &port->own;
    vb_cm_message_t itself = {.pair = link->qp->qp_num,
                              .psn = link->generation & 0xffffffu,
                              .mtu = own->mtu,
                              .resources = port->responder_resources,
                              .depth = port->initiator_depth,
                              .lid = own->lid};
    memcpy(itself.gid, own->gid, sizeof(itself.gid));
    if (!vb_link_connect(link, own, itself.psn, &itself)) {
        return false;
    }
    vb_peer_step(link->peer, VB_ON_ESTABLISHED);
    return true;
}

const vb_connector_t vb_loop = {
    .ask = ask,
    .create = create,
    .disconnect = vb_link_fail_pair,
    .destroy = vb_link_destroy_pair,
};
