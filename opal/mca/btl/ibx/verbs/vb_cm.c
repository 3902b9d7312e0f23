/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections: events of rdma_cm and of the adapter in, actions of the state machine out. */
#include "vb_internal.h"
#include "vb_hybrid.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* While a connection is being made its deadline is checked this often. */
#define TICK_MS 20

/* How long the kernel may take for an address or a route; the state machine's deadline is what counts. */
#define RESOLVE_MS 2000

bool vb_fails(char *why, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void) vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

void vb_port_wake(vb_port_t *port)
{
    const uint64_t one = 1;
    (void) !write(port->wake, &one, sizeof(one));
}

/* ---- actions ---- */

static bool do_resolve(vb_peer_t *peer)
{
    vb_port_t *port = peer->port;
    struct rdma_cm_id *id;
    struct sockaddr_in from = port->config.address;
    from.sin_port = 0;
    if (AF_INET != peer->address.sin_family) {
        return vb_peer_why(peer, "its address is not known");
    }
    if (0 != rdma_create_id(port->channel, &id, port, RDMA_PS_TCP)) {
        return vb_peer_why(peer, "rdma_create_id: %s", strerror(errno));
    }
    if (NULL == vb_link_new(port, peer, id)) {
        (void) rdma_destroy_id(id); /* has no events */
        return vb_peer_why(peer, "out of memory");
    }
    uint8_t class = port->config.traffic_class;
    if (class > 0) { /* before the path is asked for, which depends on it */
        (void) rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, sizeof(class));
    }
    ++port->counters.asked;
    return 0
               == rdma_resolve_addr(id, (struct sockaddr *) &from, (struct sockaddr *) &peer->address,
                                    RESOLVE_MS)
           || vb_peer_why(peer, "its address cannot be resolved: %s", strerror(errno));
}

static void set_ack_timeout(const vb_port_t *port, struct rdma_cm_id *id)
{
    uint8_t timeout = port->config.ack_timeout;
    if (timeout > 0) { /* a device without it keeps its own */
        (void) rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                               sizeof(timeout));
    }
}

static bool do_connect(vb_peer_t *peer)
{
    vb_port_t *port = peer->port;
    vb_hello_wire_t hello;
    set_ack_timeout(port, peer->link->id);
    if (!vb_link_prepare(peer->link)) {
        return false;
    }
    vb_hello_mine(peer->link, VB_ASK, &hello);
    struct rdma_conn_param param = {.private_data = &hello,
                                    .private_data_len = sizeof(hello),
                                    .responder_resources = port->responder_resources,
                                    .initiator_depth = port->initiator_depth,
                                    .retry_count = port->config.retries,
                                    .rnr_retry_count = 7};
    return 0 == rdma_connect(peer->link->id, &param) || vb_peer_why(peer, "rdma_connect: %s", strerror(errno));
}

/* The peer waits before it repeats a message for which there was no buffer. rdma_cm has no parameter
 * for it and leaves 655 ms. */
static void set_rnr_timer(const vb_link_t *link)
{
    struct ibv_qp_attr attr = {.min_rnr_timer = link->peer->port->config.rnr_timer};
    if (VB_IWARP != link->peer->port->able.fabric) {
        (void) ibv_modify_qp(link->qp, &attr, IBV_QP_MIN_RNR_TIMER);
    }
}

/* resources and depth are what the peer asked for. */
static bool do_accept(vb_peer_t *peer, struct rdma_cm_id *asked, const vb_hello_t *theirs,
                      uint8_t resources, uint8_t depth)
{
    vb_port_t *port = peer->port;
    vb_hello_wire_t hello;
    if (NULL == vb_link_new(port, peer, asked)) {
        return vb_peer_why(peer, "out of memory");
    }
    set_ack_timeout(port, asked);
    if (!vb_link_prepare(peer->link) || !vb_link_greet(peer->link, theirs)) {
        return false;
    }
    vb_hello_mine(peer->link, VB_WELCOME, &hello);
    struct rdma_conn_param param = {.private_data = &hello,
                                    .private_data_len = sizeof(hello),
                                    .responder_resources = (uint8_t) vb_least(port->responder_resources, depth),
                                    .initiator_depth = (uint8_t) vb_least(port->initiator_depth, resources),
                                    .rnr_retry_count = 7};
    if (0 != rdma_accept(asked, &param)) {
        return vb_peer_why(peer, "rdma_accept: %s", strerror(errno));
    }
    set_rnr_timer(peer->link);
    ++port->counters.accepted;
    return true;
}

/* The id is taken apart by the port's thread. */
static void reject(vb_port_t *port, struct rdma_cm_id *asked, vb_answer_t answer)
{
    vb_hello_wire_t wire;
    const vb_hello_t hello = {.answer = answer, .name = port->config.name};
    vb_hello_write(&wire, &hello);
    (void) rdma_reject(asked, &wire, sizeof(wire));
    vb_link_t *link = vb_link_new(port, NULL, asked);
    if (NULL != link) { /* else the id is lost, and only it */
        link->next = port->graveyard;
        port->graveyard = link;
    }
}

static vb_status_t status_of(const vb_conn_t *conn)
{
    return VB_DEAD == conn->state ? VB_LOST : VB_ENDED;
}

typedef struct asked {
    struct rdma_cm_id *id;
    vb_hello_t hello;
    uint8_t resources, depth;
} asked_t;

/* The actions that answer a request of the peer's. False: it failed. */
static bool answer_request(vb_peer_t *peer, unsigned todo, const asked_t *asked)
{
    vb_port_t *port = peer->port;
    bool is_good = true;
    if (todo & VB_DO_ACCEPT) {
        is_good = do_accept(peer, asked->id, &asked->hello, asked->resources, asked->depth);
        if (!is_good && NULL == peer->link) {
            reject(port, asked->id, VB_BUSY);
        }
    }
    if (todo & VB_DO_CROSSED) {
        ++port->counters.crossed;
        reject(port, asked->id, VB_CROSSED);
    }
    if (todo & VB_DO_BUSY) {
        ++port->counters.rejected;
        reject(port, asked->id, VB_BUSY);
    }
    return is_good;
}

/* The actions that say what has become of the connection. */
static void tell_change(vb_peer_t *peer, vb_conn_event_t event, unsigned todo)
{
    vb_port_t *port = peer->port;
    if (todo & VB_DO_READY) {
        ++port->counters.connected;
        if (!vb_hybrid_opened(peer)) {
            vb_peer_use(peer, peer->link);
            port->config.ready(port->config.context, peer);
        }
    }
    if (todo & VB_DO_REPORT && !vb_hybrid_outlives(peer)) {
        ++port->counters.lost;
        if ('\0' == peer->why[0]) {
            (void) vb_peer_why(peer, "%s: %s", vb_conn_event_name(event), "the connection ended");
        }
        port->config.ready(port->config.context, peer); /* what waits is to fail */
        port->config.down(port->config.context, peer, peer->why);
    }
}

static void step(vb_peer_t *peer, vb_conn_event_t event, const asked_t *asked)
{
    vb_port_t *port = peer->port;
    const bool had_deadline = 0 != peer->conn.deadline;
    const bool was_first = vb_conn_is_first_attempt(&peer->conn);
    const vb_conn_state_t from = peer->conn.state;
    const unsigned todo = vb_conn_step(&peer->conn, event, spec_now(), &port->config.rules);
    port->deadlines += (0 != peer->conn.deadline) - had_deadline;
    port->attempts += vb_conn_is_first_attempt(&peer->conn) - was_first;
    bool is_good = true;

    if (NULL != port->config.trace) {
        port->config.trace(port->config.context, peer, from, event, peer->why);
    }
    if (todo & VB_DO_BYE) { /* the link ends when all that is posted has gone out */
        peer->link->owes_bye = !vb_post_control(peer->link, VB_BYE);
        port->has_cut = true;
    }
    if (todo & VB_DO_DROP && NULL != peer->link && !(todo & VB_DO_BYE)) {
        vb_link_drop(peer->link, status_of(&peer->conn));
    }
    if (todo & VB_DO_RESOLVE) {
        is_good = do_resolve(peer);
    }
    if (todo & VB_DO_ROUTE) {
        is_good = 0 == rdma_resolve_route(peer->link->id, RESOLVE_MS)
                  || vb_peer_why(peer, "no route: %s", strerror(errno));
    }
    if (todo & VB_DO_CONNECT) {
        is_good = do_connect(peer);
    }
    is_good &= answer_request(peer, todo, asked);
    if (todo & VB_DO_FIRST) {
        if (todo & VB_DO_READY) {
            set_rnr_timer(peer->link);
        } else {
            ++port->counters.repeated;
        }
        (void) vb_post_control(peer->link, VB_CREDIT);
    }
    tell_change(peer, event, todo);
    if (!is_good) {
        step(peer, VB_ON_FAILED, NULL);
    }
    if (0 != peer->conn.deadline) {
        vb_port_wake(port);
    }
}

void vb_peer_step(vb_peer_t *peer, vb_conn_event_t event)
{
    step(peer, event, NULL);
}

/* Where all talk to all at once, as many attempts as there are peers would keep the fabric's managers busy with requests
 * that have been given up and made again by the time it is their turn. */
void vb_peer_wants(vb_peer_t *peer)
{
    vb_port_t *port = peer->port;
    if (peer->conn.is_wanted || spec_node_is_queued(&peer->turn)) {
        return;
    }
    if (VB_IDLE != peer->conn.state || port->attempts < port->config.attempts) {
        step(peer, VB_ON_WANTED, NULL);
        return;
    }
    ++port->counters.queued;
    spec_list_append(&port->queue, &peer->turn);
}

/* A peer that has asked meanwhile needs no attempt of mine: that it is wanted is all there is to know. */
static void begin_queued(vb_port_t *port)
{
    while (!spec_list_is_empty(&port->queue) && port->attempts < port->config.attempts) {
        step(SPEC_ENTRY(spec_list_pop(&port->queue), vb_peer_t, turn), VB_ON_WANTED, NULL);
    }
}

/* ---- events ---- */

/* Somebody asks. The id is ours now. */
static void on_request(vb_port_t *port, const struct rdma_cm_event *event)
{
    asked_t asked = {.id = event->id,
                     .resources = event->param.conn.responder_resources,
                     .depth = event->param.conn.initiator_depth};
    if (!vb_hello_read(&asked.hello, event->param.conn.private_data,
                       event->param.conn.private_data_len)
        || VB_ASK != asked.hello.answer || asked.hello.key != port->config.key
        || asked.hello.name == port->config.name
        || asked.hello.buffer != port->config.buffer_size) {
        ++port->counters.strangers;
        reject(port, event->id, VB_STRANGER);
        return;
    }
    vb_peer_t *peer = vb_peer_add(port, asked.hello.name, NULL, 0, NULL);
    if (NULL == peer) {
        reject(port, event->id, VB_BUSY);
        return;
    }
    if (NULL != port->hybrid && !peer->is_met) {
        /* Whether it takes datagrams is not known yet, so neither is when messages may come. */
        if (NULL != port->config.stranger) {
            port->config.stranger(port->config.context, peer->name, NULL, 0);
        }
        reject(port, event->id, VB_BUSY);
        return;
    }
    if (NULL != peer->mate && !vb_hybrid_admits(peer)) {
        ++port->counters.full;
        reject(port, event->id, VB_FULL);
        return;
    }
    step(peer, VB_ON_ASKED, &asked);
}

static void on_rejected(vb_peer_t *peer, const struct rdma_cm_event *event)
{
    vb_port_t *port = peer->port;
    vb_hello_t hello;
    vb_conn_event_t what = VB_ON_REJECTED;
    if (vb_hello_read(&hello, event->param.conn.private_data, event->param.conn.private_data_len)) {
        const bool is_final = VB_STRANGER == hello.answer || VB_FULL == hello.answer;
        what = VB_CROSSED == hello.answer ? VB_ON_CROSS : is_final ? VB_ON_REFUSED : VB_ON_REJECTED;
        (void) vb_peer_why(peer, VB_FULL == hello.answer ? "it has connections enough (btl_ibx_max_rc)"
                          : VB_ON_REFUSED == what ? "it does not know this process, or its "
                                                    "btl_ibx_verbs_max_send_size or version is another"
                                                  : "it is busy");
    } else {
        (void) vb_peer_why(peer, "nobody listens there (status %d)", event->status);
    }
    port->counters.retried += VB_ON_REJECTED == what;
    step(peer, what, NULL);
}

static void on_established(vb_link_t *link, const struct rdma_cm_event *event)
{
    vb_peer_t *peer = link->peer;
    vb_hello_t hello;
    if (VB_CONNECTING == peer->conn.state
        && (!vb_hello_read(&hello, event->param.conn.private_data,
                           event->param.conn.private_data_len)
            || VB_WELCOME != hello.answer || hello.name != peer->name
            || !vb_link_greet(link, &hello))) {
        ++peer->port->counters.strangers;
        if ('\0' == peer->why[0]) {
            (void) vb_peer_why(peer, "another process answered at its address");
        }
        step(peer, VB_ON_REFUSED, NULL);
        return;
    }
    step(peer, VB_ON_ESTABLISHED, NULL);
}

static void on_cm_event(vb_port_t *port, const struct rdma_cm_event *event)
{
    if (RDMA_CM_EVENT_CONNECT_REQUEST == event->event) {
        on_request(port, event);
        return;
    }
    vb_link_t *link = vb_map_get(&port->by_id, (uintptr_t) event->id);
    if (NULL == link) {
        return; /* of a link that was given up */
    }
    vb_peer_t *peer = link->peer;
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        step(peer, VB_ON_ADDRESS, NULL);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        step(peer, VB_ON_ROUTE, NULL);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        on_established(link, event);
        break;
    case RDMA_CM_EVENT_REJECTED:
        on_rejected(peer, event);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        /* Messages may have arrived before: they are taken first. */
        if ('\0' == peer->why[0]) {
            (void) vb_peer_why(peer, RDMA_CM_EVENT_DISCONNECTED == event->event
                                  ? "it closed the connection"
                                  : "the device is gone");
        }
        vb_peer_cut(peer);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        (void) vb_peer_why(peer, "%s (status %d)", rdma_event_str(event->event), event->status);
        port->counters.retried += 1;
        step(peer, VB_ON_FAILED, NULL);
        break;
    default:
        break;
    }
}

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

static void fail_all(vb_port_t *port)
{
    for (vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        if (NULL != peer->link) {
            (void) vb_peer_why(peer, "the device %s failed", port->able.device);
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
    while (NULL != link && (NULL == link->qp || NULL == port->srq || link->drains || link->has_last)) {
        link = link->next;
    }
    return NULL != link;
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
            vb_peer_cut(link->peer);
        }
        break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        on_last(port, event->element.qp);
        break;
    case IBV_EVENT_DEVICE_FATAL:
        fail_all(port);
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
        if (vb_conn_is_late(&peer->conn, now)) {
            if (VB_WAITING != peer->conn.state && VB_OPEN != peer->conn.state) {
                ++port->counters.timed_out;
                (void) vb_peer_why(peer, "no answer");
            }
            step(peer, VB_ON_TIMEOUT, NULL);
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
        struct rdma_cm_id *id = link->id;
        if (NULL != link->qp) {
            /* Waits until its events have been dealt with, by a thread that may be waiting for the lock. */
            rdma_destroy_qp(id);
        }
        vb_port_lock(port);
        vb_link_free(link);
        vb_port_unlock(port);
        (void) rdma_destroy_id(id);
        link = next;
    }
}

void vb_port_events(vb_port_t *port, int timeout_ms)
{
    struct pollfd fd[3] = {{.fd = port->wake, .events = POLLIN},
                           {.fd = port->channel->fd, .events = POLLIN},
                           {.fd = port->context->async_fd, .events = POLLIN}};
    vb_port_lock(port);
    const bool is_busy = port->deadlines > 0 || !spec_list_is_empty(&port->queue) || waits_for_last(port)
                         || vb_hybrid_needs_tick(port);
    vb_port_unlock(port);
    if (is_busy && (timeout_ms < 0 || timeout_ms > TICK_MS)) {
        timeout_ms = TICK_MS;
    }
    if (poll(fd, 3, timeout_ms) > 0) {
        if (fd[0].revents & POLLIN) {
            uint64_t n;
            (void) !read(port->wake, &n, sizeof(n));
        }
        struct rdma_cm_event *event;
        while (fd[1].revents & POLLIN && 0 == rdma_get_cm_event(port->channel, &event)) {
            vb_port_lock(port);
            on_cm_event(port, event);
            vb_port_unlock(port);
            (void) rdma_ack_cm_event(event);
        }
        struct ibv_async_event async;
        while (fd[2].revents & POLLIN && 0 == ibv_get_async_event(port->context, &async)) {
            pass_on(port->context, &async);
            ibv_ack_async_event(&async);
        }
    }
    vb_port_lock(port);
    check_deadlines(port);
    begin_queued(port);
    if (NULL != port->hybrid) {
        vb_hybrid_tick(port);
    }
    vb_port_unlock(port);
    vb_port_bury(port);
}
