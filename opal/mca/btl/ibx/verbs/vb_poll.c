/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Completions: what was posted is done, what was sent here has arrived. */
#include "vb_internal.h"

#include <string.h>

/* Work completions taken from the adapter at a time. */
#define BATCH 32

/* The connection is broken. Told when all that has arrived before is taken: a goodbye may be in it. */
static void cut(vb_link_t *link, enum ibv_wc_status status)
{
    vb_peer_t *peer = link->peer;
    if (IBV_WC_WR_FLUSH_ERR != status || '\0' == peer->why[0]) {
        vb_peer_why(peer, "%s", ibv_wc_status_str(status));
    }
    peer->is_cut = true;
    peer->port->has_cut = true;
}

static void break_off(vb_link_t *link, const char *why)
{
    vb_peer_t *peer = link->peer;
    ++peer->port->counters.bad_messages;
    vb_peer_why(peer, "%s", why);
    peer->is_cut = true;
    peer->port->has_cut = true;
}

/* The buffer of a control message. Of a connection's own queue it is a spare one. */
static void control_done(vb_rx_t *rx, uint32_t buffer)
{
    if (NULL != rx->qp) {
        vb_rx_repost(rx, buffer);
    } else {
        vb_rx_return(rx, buffer);
        (void) vb_rx_fill(rx);
    }
}

/* The buffer of a message, of a connection's own queue. */
static void message_done(vb_link_t *link, uint32_t buffer)
{
    vb_rx_return(link->rx, buffer);
    vb_credit_posted(&link->credit, vb_rx_fill(link->rx));
    if (vb_credit_is_due(&link->credit, link->rx->window.current)
        && VB_OPEN == link->peer->conn.state) {
        (void) vb_post_control(link, VB_CREDIT);
    }
}

/* True: a message to deliver. */
static bool on_receive(vb_port_t *port, vb_link_t *link, const struct ibv_wc *wc,
                       vb_received_t *received)
{
    const uint32_t buffer = vb_wr_number(wc->wr_id);
    vb_rx_t *rx = NULL != port->rx ? port->rx : NULL == link ? NULL : link->rx;
    if (NULL == rx || vb_wr_generation(wc->wr_id) != rx->generation) {
        ++port->counters.stale;
        return false;
    }
    const vb_hdr_t *wire = vb_rx_take(rx, buffer);
    if (NULL == wire) {
        ++port->counters.stale;
        return false;
    }
    if (IBV_WC_SUCCESS != wc->status || NULL == link) {
        vb_rx_return(rx, buffer);
        if (NULL == link || NULL != port->rx) {
            port->counters.stale += NULL == link;
            (void) vb_rx_fill(rx);
        }
        if (NULL != link) {
            cut(link, wc->status);
        }
        return false;
    }
    vb_hdr_t hdr;
    vb_peer_t *peer = link->peer;
    const bool is_whole = wc->byte_len >= sizeof(hdr) && wc->byte_len <= port->config.buffer_size;
    if (is_whole) {
        memcpy(&hdr, wire, sizeof(hdr));
    }
    const bool is_control = is_whole && VB_MESSAGE != hdr.type;
    if (!is_whole || hdr.type < VB_MESSAGE || hdr.type > VB_BYE
        || (is_control && wc->byte_len != sizeof(hdr))
        || !vb_credit_got(&link->credit, le16toh(hdr.credits), le16toh(hdr.seen), is_control)) {
        vb_rx_return(rx, buffer);
        (void) vb_rx_fill(rx);
        break_off(link, "it sent something that is no message of this version");
        return false;
    }
    if (VB_ACCEPTING == peer->conn.state) {
        vb_peer_step(peer, VB_ON_ARRIVED);
    }
    if (is_control) {
        control_done(rx, buffer);
        if (VB_BYE == hdr.type) {
            vb_peer_step(peer, VB_ON_GOODBYE);
            port->config.ready(port->config.context, peer); /* what waits is to fail */
        }
        return false;
    }
    if (!vb_hybrid_has_left(peer)) {
        vb_rx_return(rx, buffer);
        (void) vb_rx_fill(rx);
        break_off(link, "it sent a message by connection that datagrams may come before");
        return false;
    }
    ++port->counters.received;
    *received = (vb_received_t){.peer = peer,
                                .data = (void *) (uintptr_t) (wire + 1),
                                .length = wc->byte_len - (uint32_t) sizeof(hdr),
                                .tag = hdr.tag,
                                .generation = rx->generation,
                                .buffer = buffer};
    return true;
}

static void on_send(vb_port_t *port, vb_link_t *link, const struct ibv_wc *wc)
{
    const uint32_t number = vb_wr_number(wc->wr_id);
    if (NULL == link || vb_wr_generation(wc->wr_id) != link->generation
        || !vb_sendq_is_outstanding(&link->sendq, number)) {
        port->counters.stale += NULL == link;
        return;
    }
    if (IBV_WC_SUCCESS == wc->status) {
        vb_link_retire(link, number);
        return;
    }
    /* It and what is outstanding fail when the end of the connection is told. */
    cut(link, wc->status);
}

/* Links that end: broken ones, those that said goodbye and have nothing outstanding. */
static void end_links(vb_port_t *port)
{
    port->has_cut = false;
    for (vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        if (NULL == peer->link) {
            continue;
        }
        if (peer->is_cut) {
            peer->is_cut = false;
            vb_peer_step(peer, VB_ON_DISCONNECTED);
            if (VB_CLOSED == peer->conn.state && NULL != peer->link) {
                vb_link_drop(peer->link, VB_ENDED);
            }
        } else if (VB_CLOSED == peer->conn.state) {
            if (peer->link->owes_bye && vb_post_control(peer->link, VB_BYE)) {
                peer->link->owes_bye = false;
            }
            if (!peer->link->owes_bye && 0 == vb_sendq_outstanding(&peer->link->sendq)) {
                vb_link_drop(peer->link, VB_ENDED);
            } else {
                port->has_cut = true; /* look again */
            }
        }
    }
}

static void tell_waiting(vb_port_t *port)
{
    vb_peer_t *peer = port->waiting;
    port->waiting = NULL;
    while (NULL != peer) {
        vb_peer_t *next = peer->next_waiting;
        peer->is_waiting = false;
        port->config.ready(port->config.context, peer);
        peer = next;
    }
}

int vb_port_poll(vb_port_t *port, vb_received_t *received, int max, int *events)
{
    struct ibv_wc wc[BATCH];
    int others = 0;
    /* Datagrams first: a peer that has changed over has sent them earlier. */
    int messages = NULL == port->hybrid ? 0 : vb_hybrid_poll(port, received, max, &others);
    const int by_datagram = messages;
    const int batch = max - messages < BATCH ? max - messages : BATCH;
    const int n = batch > 0 ? ibv_poll_cq(port->cq, batch, wc) : 0;
    for (int i = 0; i < n; ++i) {
        vb_link_t *link = vb_map_get(&port->by_qp, wc[i].qp_num);
        if (vb_wr_is_receive(wc[i].wr_id)) {
            messages += on_receive(port, link, &wc[i], &received[messages]);
        } else {
            on_send(port, link, &wc[i]);
        }
    }
    if (n < batch && port->has_cut) { /* all that has arrived is taken */
        end_links(port);
    }
    if (NULL != port->waiting) {
        tell_waiting(port);
    }
    *events = others + (n > 0 ? n - (messages - by_datagram) : 0);
    return messages;
}

void vb_port_return(vb_port_t *port, const vb_received_t *received, int n)
{
    if (NULL != port->rx) {
        for (int i = 0; i < n; ++i) {
            if (VB_BY_DATAGRAM == received[i].generation) {
                vb_hybrid_return(port, &received[i]);
            } else {
                vb_rx_return(port->rx, received[i].buffer);
            }
        }
        (void) vb_rx_fill(port->rx);
        return;
    }
    for (int i = 0; i < n; ++i) {
        if (VB_BY_DATAGRAM == received[i].generation) {
            vb_hybrid_return(port, &received[i]);
            continue;
        }
        vb_link_t *link = received[i].peer->link;
        if (NULL == link || link->generation != received[i].generation) {
            continue; /* went with its link */
        }
        /* Low, as the limit event of a shared queue says it. */
        if (vb_rx_free(link->rx) < ibx_window_limit(&link->rx->window)
            && link->rx->window.current < link->rx->window.max) {
            ++port->counters.starved;
            vb_rx_starved(link->rx, vb_now());
        }
        message_done(link, received[i].buffer);
    }
}

void vb_port_look(vb_port_t *port, uint64_t now)
{
    if (NULL != port->hybrid) {
        vb_hybrid_look(port, now);
    }
    if (NULL != port->rx) {
        vb_rx_look(port->rx, now);
        return;
    }
    for (vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        if (NULL != peer->link && NULL != peer->link->rx) {
            vb_rx_look(peer->link->rx, now);
        }
    }
}
