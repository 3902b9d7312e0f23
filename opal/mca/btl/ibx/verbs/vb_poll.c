/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Takes completions from an adapter: of work requests that were posted, and of messages that have arrived. */
#include "vb_connect.h"
#include "vb_hybrid.h"

static void cut(vb_link_t *link, enum ibv_wc_status status)
{
    vb_peer_t *peer = link->peer;
    if (IBV_WC_WR_FLUSH_ERR != status || '\0' == peer->why[0]) {
        (void) vb_peer_why(peer, "%s", ibv_wc_status_str(status));
    }
    link->is_final |= IBV_WC_WR_FLUSH_ERR != status && IBV_WC_RETRY_EXC_ERR != status;
    vb_peer_cut(peer);
}

/* The peer sent what cannot be: the connection ends. */
static bool refuse(vb_link_t *link, vb_rx_t *rx, uint32_t buffer, const char *why)
{
    vb_peer_t *peer = link->peer;
    vb_rx_return(rx, buffer);
    (void) vb_rx_fill(rx);
    ++peer->port->counters.bad_messages;
    (void) vb_peer_why(peer, "%s", why);
    link->is_final = true;
    vb_peer_cut(peer);
    return false;
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

/* A connection's own queue has as many buffers again as it is to have, and its peer hears of them. */
static void refill(vb_link_t *link)
{
    if (link->is_broken) {
        return; /* it takes none */
    }
    vb_credit_posted(&link->credit, vb_rx_fill(link->rx));
    if (vb_credit_is_due(&link->credit, vb_rx_given(link->rx))
        && VB_OPEN == link->peer->conn.state) {
        (void) vb_post_control(link, VB_CREDIT);
    }
}

/* Low, as the limit event of a shared queue says it. When one is taken, not when it comes back: a callback may wait for what its
 * sender has no credit for while others like it, below, have all the buffers. */
static void watch_window(vb_link_t *link)
{
    vb_rx_t *rx = link->rx;
    if (vb_rx_free(rx) >= ibx_window_limit(&rx->window) || rx->window.current >= rx->window.max) {
        return;
    }
    ++link->peer->port->counters.starved;
    vb_rx_starved(rx, spec_now());
    refill(link);
}

/* The buffer of a completion, in which a message of a link is; NULL: there is nothing to be had from it. */
static const vb_hdr_t *take_buffer(vb_port_t *port, vb_link_t *link, const struct ibv_wc *wc, vb_rx_t *rx)
{
    const uint32_t buffer = vb_wr_number(wc->wr_id);
    const bool is_known = NULL != rx && vb_wr_generation(wc->wr_id) == rx->generation;
    const vb_hdr_t *wire = is_known ? vb_rx_take(rx, buffer) : NULL;
    if (NULL == wire) {
        ++port->counters.stale;
        return NULL;
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
        return NULL;
    }
    return wire;
}

/* Is it a message of this version, and do the counts that come with it make sense? These are taken note of. */
static bool header_is_right(vb_link_t *link, uint32_t length, const void *wire, vb_hdr_t *hdr)
{
    if (length < sizeof(*hdr) || length > link->peer->port->config.buffer_size) {
        return false;
    }
    memcpy(hdr, wire, sizeof(*hdr));
    const bool is_control = VB_MESSAGE != hdr->type;
    return hdr->type >= VB_MESSAGE && hdr->type <= VB_BYE && (!is_control || length == sizeof(*hdr))
           && vb_credit_got(&link->credit, le16toh(hdr->credits), le16toh(hdr->seen), is_control);
}

vb_came_t vb_link_came(vb_link_t *link, const void *message, uint32_t length, vb_hdr_t *hdr)
{
    vb_peer_t *peer = link->peer;
    if (!header_is_right(link, length, message, hdr)) {
        return VB_CAME_BAD;
    }
    if (VB_ACCEPTING == peer->conn.state
        || (VB_OPEN == peer->conn.state && 0 != peer->conn.deadline && vb_link_has_pair(link))) {
        vb_peer_step(peer, VB_ON_ARRIVED);
    }
    if (VB_MESSAGE != hdr->type) {
        if (VB_BYE == hdr->type) {
            vb_peer_step(peer, VB_ON_GOODBYE);
            vb_hybrid_parted(peer);
            peer->port->config.ready(peer->port->config.context, peer); /* what waits is to fail */
        }
        return VB_CAME_CONTROL;
    }
    return VB_CAME_MESSAGE;
}

/* True: a message to deliver. */
static bool on_receive(vb_port_t *port, vb_link_t *link, const struct ibv_wc *wc,
                       vb_received_t *received)
{
    const uint32_t buffer = vb_wr_number(wc->wr_id);
    vb_rx_t *rx = NULL != port->rx ? port->rx : NULL == link ? NULL : link->rx;
    const vb_hdr_t *wire = take_buffer(port, link, wc, rx);
    if (NULL == wire) {
        return false;
    }
    vb_hdr_t hdr;
    vb_peer_t *peer = link->peer;
    const vb_came_t came = vb_link_came(link, wire, wc->byte_len, &hdr);
    if (VB_CAME_BAD == came) {
        return refuse(link, rx, buffer, "it sent something that is no message of this version");
    }
    if (VB_CAME_CONTROL == came) {
        control_done(rx, buffer);
        return false;
    }
    if (!vb_hybrid_takes(peer)) {
        return refuse(link, rx, buffer, "it sent a message by connection that datagrams may come before");
    }
    ++port->counters.received;
    ++peer->messages_received;
    *received = (vb_received_t){.peer = peer,
                                .data = (void *) (uintptr_t) (wire + 1),
                                .length = wc->byte_len - (uint32_t) sizeof(hdr),
                                .tag = hdr.tag,
                                .link = rx == link->rx ? link : NULL,
                                .buffer = buffer};
    if (rx == link->rx) {
        ++link->delivering;
        watch_window(link);
    }
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
            const bool is_over = peer->link->is_final && (VB_OPEN == peer->conn.state || VB_BREAKING == peer->conn.state);
            peer->is_cut = false;
            vb_peer_step(peer, is_over ? VB_ON_REFUSED : VB_ON_DISCONNECTED);
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
                port->has_cut = true; /* poll again */
            }
        }
    }
}

/* Connections that broke: what has not arrived by now has not arrived by them. */
static void end_broken(vb_port_t *port)
{
    port->has_broken = false;
    for (vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        if (VB_BREAKING != peer->conn.state) {
            continue;
        }
        if (!vb_link_is_drained(peer->link, port)) {
            port->has_broken = true;
        } else if (vb_link_keep(peer->link)) {
            vb_peer_step(peer, VB_ON_STILL);
        } else {
            vb_peer_step(peer, VB_ON_REFUSED);
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
        if (NULL == peer->link || vb_link_post_again(peer->link)) {
            port->config.ready(port->config.context, peer);
        } else {
            vb_peer_wait(peer);
        }
        peer = next;
    }
}

/* Completions taken from the adapter, as far as there is room for messages. */
static int take_completions(vb_port_t *port, vb_received_t *received, int max)
{
    int messages = 0;
    for (; port->wc_at < port->wc_n && messages < max; ++port->wc_at) {
        const struct ibv_wc *wc = &port->wc[port->wc_at];
        vb_link_t *link = vb_map_get(&port->by_qp, wc->qp_num);
        if (!vb_wr_is_receive(wc->wr_id)) {
            on_send(port, link, wc);
            continue;
        }
        messages += on_receive(port, link, wc, &received[messages]);
    }
    return messages;
}

int vb_port_poll(vb_port_t *port, vb_received_t *received, int max, int *events)
{
    int completions = 0, others = 0;
    /* Datagrams first: a peer that has changed over has sent them earlier. */
    int messages = NULL == port->hybrid ? 0 : vb_hybrid_poll(port, received, max, &others);
    /* And what came by another port: while some of it is left, no connection is made in the place of that (end_broken). */
    messages += __builtin_expect(NULL != port->arrivals, 0) ? vb_failover_poll(port, &received[messages], max - messages) : 0;
    const int before = messages;
    if (port->wc_at == port->wc_n) {
        port->drains += port->wc_n < VB_BATCH;
        if (__builtin_expect(port->has_draining, 0)) {
            port->has_draining = false; /* until the thread has checked */
            vb_port_wake(port);
        }
        const int n = ibv_poll_cq(port->cq, VB_BATCH, port->wc);
        port->wc_at = 0;
        port->wc_n = n > 0 ? n : 0;
        completions = port->wc_n;
    }
    messages += take_completions(port, &received[messages], max - messages);
    /* What arrived before the end comes before the end. */
    if (port->has_cut && messages < max && completions < VB_BATCH) {
        end_links(port);
    }
    if (port->has_broken && messages < max && completions < VB_BATCH) {
        end_broken(port);
    }
    if (NULL != port->waiting) {
        tell_waiting(port);
    }
    const int of_queue = messages - before;
    *events = others + (completions > of_queue ? completions - of_queue : 0);
    return messages;
}

/* The memory of a link that may be gone meanwhile. */
static void return_delivered(vb_port_t *port, const vb_received_t *received)
{
    vb_link_t *link = received->link;
    --link->delivering;
    if (NULL == link->peer) {
        if (0 == link->delivering) {
            vb_port_wake(port); /* to be buried */
        }
        return;
    }
    vb_rx_return(link->rx, received->buffer);
    refill(link);
}

void vb_port_return(vb_port_t *port, const vb_received_t *received, int n)
{
    bool refills = false;
    for (int i = 0; i < n; ++i) {
        if (received[i].in_datagram) {
            vb_hybrid_return(port, &received[i]);
        } else if (received[i].in_parts) {
            vb_failover_return(&received[i]);
        } else if (NULL != received[i].link) {
            return_delivered(port, &received[i]);
        } else {
            vb_rx_return(port->rx, received[i].buffer);
            refills = true;
        }
    }
    if (refills) {
        (void) vb_rx_fill(port->rx);
    }
}

void vb_port_check(vb_port_t *port, uint64_t now)
{
    if (NULL != port->hybrid) {
        vb_hybrid_check(port, now);
    }
    if (NULL != port->rx) {
        vb_rx_check(port->rx, now);
        return;
    }
    for (vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        if (NULL != peer->link && NULL != peer->link->rx) {
            vb_rx_check(peer->link->rx, now);
        }
    }
}

int vb_port_arm(vb_port_t *port)
{
    struct ibv_cq *of;
    void *context;
    if (NULL == port->notices || NULL != port->parcels) {
        return -1;
    }
    while (0 == ibv_get_cq_event(port->notices, &of, &context)) {
        ibv_ack_cq_events(of, 1); /* a queue that is not acknowledged cannot be destroyed */
    }
    if (0 != ibv_req_notify_cq(port->cq, 0) || (NULL != port->hybrid && !vb_hybrid_arm(port))) {
        return -1;
    }
    return port->notices->fd;
}
