/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A link: one attempt to connect, and the queue pair that comes of it. */
#include "vb_connect.h"
#include "vb_hybrid.h"

#include <errno.h>

/* Some adapters do not say when they are done with a queue pair (siw). It is long done then. */
#define LAST_NS UINT64_C(200000000)

vb_link_t *vb_link_new(vb_port_t *port, const vb_connector_t *by)
{
    vb_link_t *link = calloc(1, sizeof(*link));
    if (NULL != link) {
        link->by = by;
        /* 31 bits, as many as a wr_id carries. */
        link->generation = ++port->generations & 0x7fffffffu;
    }
    return link;
}

void vb_peer_use(vb_peer_t *peer, const vb_link_t *link)
{
    peer->inline_max = peer->inline_put_max = NULL == link ? 0 : link->inline_max;
}

/* A device that cannot put so much into a work request refuses the queue pair. One that took that before is short of something
 * else: what was kept of another connection may need as much. */
static bool create_queue_pair(vb_link_t *link, vb_port_t *port)
{
    const uint32_t inlines[] = {port->able.inline_max, 64, 0};
    for (size_t i = 0; i < sizeof(inlines) / sizeof(*inlines); ++i) {
        struct ibv_qp_init_attr attr = {
            .qp_context = port,
            .send_cq = port->cq,
            .recv_cq = port->cq,
            .srq = port->srq,
            .cap = {.max_send_wr = port->send_depth,
                    .max_recv_wr = port->link_receives,
                    .max_send_sge = 2,
                    .max_recv_sge = 1,
                    .max_inline_data = inlines[i]},
            .qp_type = IBV_QPT_RC,
        };
        if (inlines[i] > port->able.inline_max) {
            continue;
        }
        if (link->by->create(link, &attr)) {
            link->inline_max =
                attr.cap.max_inline_data < inlines[i] ? attr.cap.max_inline_data : inlines[i];
            port->inline_max = link->inline_max;
            port->able.inline_max = inlines[i]; /* what to ask for next time */
            return true;
        }
        if (port->inline_max > 0 && inlines[i] <= port->inline_max) {
            return false;
        }
    }
    return false;
}

bool vb_link_prepare(vb_link_t *link)
{
    vb_peer_t *peer = link->peer;
    vb_port_t *port = peer->port;
    vb_sendq_init(&link->sendq, port->send_depth);
    vb_credit_init(&link->credit, vb_link_has_pair(link) && !port->able.shared_queue);
    link->requests = calloc(port->send_depth, sizeof(*link->requests));
    if (!vb_link_has_pair(link)) { /* what was kept may be longer than the adapter takes now */
        link->inline_max = NULL == peer->kept || peer->kept->stride < port->inline_max ? port->inline_max : peer->kept->stride;
    }
    if (NULL == link->requests || (vb_link_has_pair(link) && !create_queue_pair(link, port))) {
        return vb_peer_why(peer, "no queue pair of %u and %u work requests: %s", port->send_depth,
                    port->link_receives, strerror(NULL == link->requests ? ENOMEM : errno));
    }
    if (vb_port_resumes(port)) {
        link->copies = malloc((size_t) port->send_depth * link->inline_max + 1); /* never NULL for none */
        if (NULL == link->copies) {
            return vb_peer_why(peer, "out of memory");
        }
    }
    if (link->inline_max < sizeof(*link->controls)) {
        const size_t bytes = port->send_depth * sizeof(*link->controls);
        link->controls = malloc(bytes);
        link->controls_mr = NULL == link->controls ? NULL
                                                   : ibv_reg_mr(port->pd, link->controls, bytes,
                                                                IBV_ACCESS_LOCAL_WRITE);
        if (NULL == link->controls_mr) {
            return vb_peer_why(peer, "%zu bytes for control messages cannot be registered", bytes);
        }
    }
    if (!vb_link_has_pair(link)) {
        return true;
    }
    if (!vb_map_put(&port->by_qp, link->qp->qp_num, link)) {
        return vb_peer_why(peer, "out of memory");
    }
    port->links += 1;
    link->is_counted = true;
    if (!port->able.shared_queue) {
        link->rx = malloc(sizeof(*link->rx));
        if (NULL == link->rx) {
            return vb_peer_why(peer, "out of memory");
        }
        vb_rx_init(link->rx, port, &port->drains, link->generation, port->link_spare,
                   port->link_receives, port->config.window_initial, port->config.window_max,
                   spec_now());
        link->rx->qp = link->qp;
        (void) vb_rx_fill(link->rx);
        if (link->rx->posted <= link->rx->spare) {
            return vb_peer_why(peer,
                        "no receive buffers: %u bytes cannot be registered (ulimit -l?), or the "
                        "completion queue is full",
                        port->config.buffer_size);
        }
    }
    return true;
}

void vb_hello_mine(const vb_link_t *link, vb_answer_t answer, vb_hello_wire_t *wire)
{
    const vb_port_t *port = link->peer->port;
    const vb_hello_t hello = {.answer = answer,
                              .credits =
                                  NULL == link->rx ? VB_UNCOUNTED : (uint16_t) vb_rx_free(link->rx),
                              .buffer = port->config.buffer_size,
                              .name = vb_peer_own_name(link->peer),
                              .key = link->peer->key,
                              .received = vb_port_resumes(port) ? link->peer->messages_received : 0,
                              .is_again = VB_ASK == answer && link->peer->conn.is_again};
    vb_hello_write(wire, &hello);
}

void vb_hello_reject(const vb_port_t *port, const vb_hello_t *asked, vb_answer_t answer,
                     vb_hello_wire_t *wire)
{
    const vb_hello_t hello = {.answer = answer,
                              .name = port->config.name | (asked->name & VB_BULK_NAME)};
    vb_hello_write(wire, &hello);
}

static bool can_be(vb_link_t *link, const vb_hello_t *hello)
{
    const bool counted = VB_UNCOUNTED != hello->credits;
    if (counted && hello->credits > VB_CREDITS_MAX) {
        return vb_peer_why(link->peer, "it says that it has %u receive buffers, more than can be",
                    hello->credits);
    }
    if (hello->buffer != link->peer->port->config.buffer_size) {
        return vb_peer_why(
            link->peer,
            "its receive buffers have %u bytes and mine %u (btl_ibx_verbs_max_send_size is to be the "
            "same for all)",
            hello->buffer, link->peer->port->config.buffer_size);
    }
    /* What fills before the hello is part of it, not of the next header. */
    link->credit.owed = 0;
    vb_credit_open(&link->credit, counted, hello->credits);
    return !vb_port_resumes(link->peer->port) || vb_peer_has_received(link->peer, hello->received)
           || vb_peer_why(link->peer, "it says that it has received what cannot be");
}

/* A process that says what cannot be says it again when it is asked again. */
bool vb_link_greet(vb_link_t *link, const vb_hello_t *hello)
{
    const bool is_good = can_be(link, hello);
    link->was_connected = true;
    link->is_final |= !is_good;
    return is_good;
}

void vb_link_break(vb_link_t *link)
{
    if (!link->is_broken) {
        link->is_broken = true;
        link->last_at = spec_now() + LAST_NS;
        link->by->disconnect(link);
        link->peer->port->has_broken = true;
    }
}

void vb_link_drop(vb_link_t *link, vb_status_t status)
{
    vb_peer_t *peer = link->peer;
    vb_port_t *port = peer->port;
    vb_link_break(link);
    if (NULL != link->qp) {
        vb_map_remove(&port->by_qp, link->qp->qp_num);
        port->links -= link->is_counted;
    }
    vb_link_fail(link, status);
    peer->link = NULL;
    if (!vb_peer_is_by_datagrams(peer)) {
        vb_peer_use(peer, NULL);
    }
    if (VB_IDLE == peer->conn.state || vb_conn_is_over(&peer->conn)) {
        vb_hybrid_give_slot(peer);
    }
    peer->is_cut = false;
    link->peer = NULL;
    link->next = port->graveyard;
    port->graveyard = link;
    vb_port_wake(port);
}

bool vb_link_is_still(vb_link_t *link, vb_port_t *port)
{
    return NULL == port->srq || !link->was_connected || vb_link_is_drained(link, port);
}

/* What an adapter has acknowledged is in the completion queue before it says that it was the last, or flushes the buffers
 * behind it. */
bool vb_link_is_drained(vb_link_t *link, const vb_port_t *port)
{
    if (NULL == link->qp) {
        return true;
    }
    if (!link->drains) {
        const bool has_last = NULL == link->rx ? link->has_last : 0 == link->rx->posted;
        if (!has_last && spec_now() < link->last_at) {
            return false;
        }
        /* The first may have been found before now. */
        link->drained = port->drains + 2;
        link->drains = true;
    }
    return (int32_t) (port->drains - link->drained) >= 0;
}

void vb_link_free(vb_link_t *link)
{
    if (NULL != link->rx) {
        vb_rx_destroy(link->rx);
        free(link->rx);
    }
    if (NULL != link->controls_mr) {
        (void) ibv_dereg_mr(link->controls_mr);
    }
    free(link->controls);
    free(link->copies);
    free(link->requests);
    free(link);
}
