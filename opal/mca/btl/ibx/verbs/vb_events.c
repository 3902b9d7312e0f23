/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a port's thread does: events of connections and of the adapter, deadlines, links that have ended. */
#include "vb_connect.h"
#include "vb_hybrid.h"

#include <poll.h>
#include <unistd.h>

/* While a connection is being made its deadline is checked this often. */
#define TICK_MS 20

void vb_port_wake(vb_port_t *port)
{
    const uint64_t one = 1;
    (void) !write(port->wake, &one, sizeof(one));
}

/* ---- events of the adapter ---- */

static spec_node_t ports = {&ports, &ports};                   /* that are open */
static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a port's */

void vb_port_enlist(vb_port_t *port)
{
    pthread_mutex_lock(&ports_lock);
    spec_list_append(&ports, &port->node);
    pthread_mutex_unlock(&ports_lock);
}

void vb_port_delist(vb_port_t *port)
{
    pthread_mutex_lock(&ports_lock);
    if (spec_node_is_queued(&port->node)) {
        spec_list_remove(&port->node);
    }
    pthread_mutex_unlock(&ports_lock);
}

/* A connection that goes by another port goes on there, for good: the adapter has nothing more of it. */
static void fail_all(vb_port_t *port)
{
    for (vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        peer->conn.is_stranded = true;
        if (NULL != peer->link && vb_link_has_pair(peer->link)) {
            (void) vb_peer_why(peer, "the device %s failed", port->able.device);
            peer->link->is_final = true;
            vb_peer_cut(peer);
        }
        if (NULL != peer->mate) {
            (void) vb_peer_why(peer, "the device %s failed", port->able.device);
            vb_hybrid_lose(peer, VB_LOST);
        }
    }
}

static void on_last(vb_port_t *port, const struct ibv_qp *qp)
{
    vb_link_t *link = vb_map_get(&port->by_qp, qp->qp_num);
    if (NULL == link || link->qp != qp) {
        for (link = port->graveyard; NULL != link && link->qp != qp; link = link->next) {}
    }
    if (NULL != link) {
        link->has_last = true;
        vb_port_wake(port); /* the event may have come to another port's thread */
    }
}

/* Does a link in the graveyard wait for the adapter? */
static bool waits_for_last(const vb_port_t *port)
{
    const vb_link_t *link = port->graveyard;
    while (NULL != link && (NULL == link->qp || !link->was_connected || NULL == port->srq || link->drains || link->has_last)) {
        link = link->next;
    }
    return NULL != link;
}

/* Is it of the whole device, or of a queue that all connections of the port use? (The mailbox is not: those that are there need none.) */
static bool is_for(const vb_port_t *port, const struct ibv_async_event *event)
{
    return IBV_EVENT_CQ_ERR == event->event_type    ? port == event->element.cq->cq_context
           : IBV_EVENT_SRQ_ERR == event->event_type ? port == event->element.srq->srq_context
                                                    : true;
}

static void on_async_event(vb_port_t *port, const struct ibv_async_event *event)
{
    vb_link_t *link;
    switch (event->event_type) {
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        if (event->element.srq == port->srq) {
            ++port->counters.starved;
            vb_rx_starved(port->rx, spec_now());
            (void) vb_rx_fill(port->rx);
        }
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        link = vb_map_get(&port->by_qp, event->element.qp->qp_num);
        if (NULL != link && link->qp == event->element.qp) {
            (void) vb_peer_why(link->peer, "%s", ibv_event_type_str(event->event_type));
            link->is_final |= IBV_EVENT_QP_FATAL != event->event_type; /* it was asked for what may not be */
            vb_peer_cut(link->peer);
        }
        break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        on_last(port, event->element.qp);
        break;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
        if (is_for(port, event)) {
            fail_all(port);
        }
        break;
    default: /* a port that is down may come up again: the connections' own timers decide */
        break;
    }
}

static void pass_on(const struct ibv_context *context, const struct ibv_async_event *event)
{
    pthread_mutex_lock(&ports_lock);
    SPEC_LIST_EACH (node, &ports) {
        vb_port_t *port = SPEC_ENTRY(node, vb_port_t, node);
        if (port->context == context) {
            vb_port_lock(port);
            on_async_event(port, event);
            vb_port_unlock(port);
        }
    }
    pthread_mutex_unlock(&ports_lock);
}

static void check_deadlines(vb_port_t *port)
{
    const uint64_t now = spec_now();
    for (vb_peer_t *peer = port->peers; NULL != peer && port->deadlines > 0; peer = peer->next) {
        vb_mailbox_repeat(peer, now);
        if (vb_conn_is_to_resume(&peer->conn, now)) {
            vb_connect_queue_broken(peer);
        } else if (vb_conn_is_late(&peer->conn, now)) {
            if (VB_WAITING != peer->conn.state && VB_OPEN != peer->conn.state) {
                ++port->counters.timed_out;
                (void) vb_peer_why(peer, "no answer");
            }
            vb_peer_step(peer, VB_ON_TIMEOUT);
        }
    }
}

void vb_port_bury(vb_port_t *port)
{
    vb_link_t *link = NULL;
    const bool is_closing = atomic_load(&port->is_closing);
    vb_port_lock(port);
    port->has_draining = false;
    for (vb_link_t **at = &port->graveyard; NULL != *at;) {
        vb_link_t *l = *at;
        if (l->delivering > 0 || (!is_closing && !vb_link_is_still(l, port))) {
            port->has_draining |= l->drains;
            at = &l->next;
            continue;
        }
        *at = l->next;
        l->next = link;
        link = l;
    }
    vb_port_unlock(port);
    while (NULL != link) {
        vb_link_t *next = link->next;
        link->by->destroy(link);
        vb_port_lock(port);
        vb_link_free(link);
        vb_port_unlock(port);
        link = next;
    }
}

void vb_port_events(vb_port_t *port, int timeout_ms)
{
    struct pollfd fd[] = {{.fd = port->wake, .events = POLLIN},
                          {.fd = NULL == port->channel ? -1 : port->channel->fd, .events = POLLIN},
                          {.fd = port->context->async_fd, .events = POLLIN},
                          {.fd = vb_mailbox_descriptor(port), .events = POLLIN}};
    vb_port_lock(port);
    const bool is_busy = port->deadlines > 0 || !spec_list_is_empty(&port->queue) || !spec_list_is_empty(&port->broken) || waits_for_last(port)
                         || vb_hybrid_needs_tick(port);
    const bool is_asked = vb_mailbox_is_asked(port);
    vb_port_unlock(port);
    if (is_busy && (timeout_ms < 0 || timeout_ms > TICK_MS)) {
        timeout_ms = TICK_MS;
    }
    timeout_ms = is_asked ? 0 : timeout_ms;
    if (poll(fd, sizeof(fd) / sizeof(*fd), timeout_ms) > 0) {
        if (fd[0].revents & POLLIN) {
            uint64_t n;
            (void) !read(port->wake, &n, sizeof(n));
        }
        if (fd[1].revents & POLLIN) {
            vb_cm_events(port);
        }
        struct ibv_async_event async;
        while (fd[2].revents & POLLIN && 0 == ibv_get_async_event(port->context, &async)) {
            pass_on(port->context, &async);
            ibv_ack_async_event(&async);
        }
    }
    if (is_asked || (fd[3].revents & POLLIN)) {
        vb_mailbox_events(port);
    }
    vb_port_lock(port);
    check_deadlines(port);
    vb_connect_begin_queued(port);
    if (NULL != port->hybrid) {
        vb_hybrid_tick(port);
    }
    vb_port_unlock(port);
    vb_port_bury(port);
}
