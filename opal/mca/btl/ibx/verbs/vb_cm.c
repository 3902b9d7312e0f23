/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections by rdma_cm: what it has to tell, and what it is asked to do. */
#include "vb_connect.h"

#include <errno.h>

/* How long the kernel may take for an address or a route; the state machine's deadline is what counts. */
#define RESOLVE_MS 2000

/* ---- the port ---- */

bool vb_cm_open(vb_port_t *port, char *why, size_t size)
{
    port->channel = rdma_create_event_channel();
    if (NULL == port->channel || !vb_make_nonblocking(port->channel->fd)) {
        return vb_fails(why, size, "no channel for events of connections (is rdma_ucm loaded?): %s",
                 strerror(errno));
    }
    if (0 != rdma_create_id(port->channel, &port->listener, port, RDMA_PS_TCP)
        || 0 != rdma_bind_addr(port->listener, (struct sockaddr *) &port->config.address)) {
        return vb_fails(why, size, "its address cannot be bound: %s", strerror(errno));
    }
    port->context = port->listener->verbs;
    return NULL != port->context || vb_fails(why, size, "its address is of no RDMA device");
}

bool vb_cm_listen(vb_port_t *port, char *why, size_t size)
{
    return 0 == rdma_listen(port->listener, 128)
           || vb_fails(why, size, "nobody could connect: rdma_listen: %s", strerror(errno));
}

void vb_cm_close(vb_port_t *port)
{
    if (NULL != port->listener) {
        (void) rdma_destroy_id(port->listener);
    }
    if (NULL != port->channel) {
        rdma_destroy_event_channel(port->channel);
    }
}

/* ---- links ---- */

static const char *begin(vb_link_t *link, const vb_asked_t *asked)
{
    vb_port_t *port = link->peer->port;
    if (NULL == asked && 0 != rdma_create_id(port->channel, &link->id, port, RDMA_PS_TCP)) {
        return "rdma_create_id";
    }
    link->id = NULL == asked ? link->id : asked->id;
    if (!vb_map_put(&port->by_id, (uintptr_t) link->id, link)) {
        if (NULL == asked) {
            (void) rdma_destroy_id(link->id); /* has no events */
        }
        return "out of memory";
    }
    return NULL;
}

static bool create(vb_link_t *link, struct ibv_qp_init_attr *attr)
{
    if (0 != rdma_create_qp(link->id, link->peer->port->pd, attr)) {
        return false;
    }
    link->qp = link->id->qp;
    return true;
}

static void disconnect(vb_link_t *link)
{
    vb_map_remove(&link->peer->port->by_id, (uintptr_t) link->id);
    if (NULL != link->qp) {
        (void) rdma_disconnect(link->id);
    }
}

static void destroy(vb_link_t *link)
{
    if (NULL != link->qp) {
        rdma_destroy_qp(link->id);
    }
    (void) rdma_destroy_id(link->id);
}

/* ---- asking ---- */

static vb_progress_t resolve(vb_link_t *link)
{
    vb_peer_t *peer = link->peer;
    struct sockaddr_in from = peer->port->config.address;
    from.sin_port = 0;
    if (AF_INET != peer->address.sin_family) {
        (void) vb_peer_why(peer, "its address is not known");
        return VB_STEP_FAILED;
    }
    uint8_t class = peer->port->config.traffic_class;
    if (class > 0) { /* before the path is asked for, which depends on it */
        (void) rdma_set_option(link->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, sizeof(class));
    }
    if (0 != rdma_resolve_addr(link->id, (struct sockaddr *) &from, (struct sockaddr *) &peer->address, RESOLVE_MS)) {
        (void) vb_peer_why(peer, "its address cannot be resolved: %s", strerror(errno));
        return VB_STEP_FAILED;
    }
    return VB_STEP_BEGUN;
}

static vb_progress_t route(vb_link_t *link)
{
    if (0 != rdma_resolve_route(link->id, RESOLVE_MS)) {
        (void) vb_peer_why(link->peer, "no route: %s", strerror(errno));
        return VB_STEP_FAILED;
    }
    return VB_STEP_BEGUN;
}

static bool prepare(vb_link_t *link)
{
    const vb_port_t *port = link->peer->port;
    uint8_t timeout = port->config.ack_timeout;
    if (link->id->verbs != port->context) {
        return vb_peer_why(link->peer, "its address is reached through another device than %s", port->able.device);
    }
    if (timeout > 0) { /* a device without it keeps its own */
        (void) rdma_set_option(link->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                               sizeof(timeout));
    }
    return true;
}

static bool ask(vb_link_t *link)
{
    const vb_port_t *port = link->peer->port;
    vb_hello_wire_t hello;
    vb_hello_mine(link, VB_ASK, &hello);
    struct rdma_conn_param param = {.private_data = &hello,
                                    .private_data_len = sizeof(hello),
                                    .responder_resources = port->responder_resources,
                                    .initiator_depth = port->initiator_depth,
                                    .retry_count = port->config.retries,
                                    .rnr_retry_count = 7};
    return 0 == rdma_connect(link->id, &param) || vb_peer_why(link->peer, "rdma_connect: %s", strerror(errno));
}

/* ---- answering ---- */

/* The peer waits before it repeats a message for which there was no buffer. rdma_cm has no parameter
 * for it and leaves 655 ms. */
static void set_rnr_timer(const vb_link_t *link)
{
    struct ibv_qp_attr attr = {.min_rnr_timer = link->peer->port->config.rnr_timer};
    if (VB_IWARP != link->peer->port->able.fabric) {
        (void) ibv_modify_qp(link->qp, &attr, IBV_QP_MIN_RNR_TIMER);
    }
}

static bool welcome(vb_link_t *link, const vb_asked_t *asked)
{
    const vb_port_t *port = link->peer->port;
    vb_hello_wire_t hello;
    vb_hello_mine(link, VB_WELCOME, &hello);
    struct rdma_conn_param param = {.private_data = &hello,
                                    .private_data_len = sizeof(hello),
                                    .responder_resources = (uint8_t) vb_least(port->responder_resources, asked->depth),
                                    .initiator_depth = (uint8_t) vb_least(port->initiator_depth, asked->resources),
                                    .rnr_retry_count = 7};
    if (0 != rdma_accept(link->id, &param)) {
        return vb_peer_why(link->peer, "rdma_accept: %s", strerror(errno));
    }
    set_rnr_timer(link);
    return true;
}

/* The id is taken apart by the port's thread. */
static void reject(vb_port_t *port, const vb_asked_t *asked, vb_answer_t answer)
{
    vb_hello_wire_t wire;
    vb_hello_reject(port, &asked->hello, answer, &wire);
    (void) rdma_reject(asked->id, &wire, sizeof(wire));
    vb_link_t *link = vb_link_new(port, &vb_cm);
    if (NULL != link) { /* else the id is lost, and only it */
        link->id = asked->id;
        link->next = port->graveyard;
        port->graveyard = link;
    }
}

const vb_connector_t vb_cm = {
    .begin = begin,
    .resolve = resolve,
    .route = route,
    .prepare = prepare,
    .ask = ask,
    .welcome = welcome,
    .reject = reject,
    .create = create,
    .disconnect = disconnect,
    .destroy = destroy,
};

/* ---- events ---- */

/* What came with the event. NULL: no hello. */
static const vb_hello_t *hello_of(const struct rdma_cm_event *event, vb_hello_t *hello)
{
    const struct rdma_conn_param *param = &event->param.conn;
    return vb_hello_read(hello, param->private_data, param->private_data_len) ? hello : NULL;
}

/* Somebody asks. The id is ours now. */
static void on_request(vb_port_t *port, const struct rdma_cm_event *event)
{
    vb_asked_t asked = {.by = &vb_cm,
                        .hello = {.answer = VB_ANSWERS},
                        .id = event->id,
                        .resources = event->param.conn.responder_resources,
                        .depth = event->param.conn.initiator_depth};
    (void) hello_of(event, &asked.hello);
    vb_connect_asked(port, &asked);
}

static void on_established(vb_link_t *link, const struct rdma_cm_event *event)
{
    vb_hello_t hello;
    if (VB_CONNECTING == link->peer->conn.state) {
        if (!vb_connect_is_welcome(link, hello_of(event, &hello))) {
            return;
        }
        set_rnr_timer(link);
    }
    vb_peer_step(link->peer, VB_ON_ESTABLISHED);
}

static void on_event(vb_port_t *port, const struct rdma_cm_event *event)
{
    vb_hello_t hello;
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
        vb_peer_step(peer, VB_ON_ADDRESS);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        vb_peer_step(peer, VB_ON_ROUTE);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        on_established(link, event);
        break;
    case RDMA_CM_EVENT_REJECTED:
        vb_connect_rejected(peer, hello_of(event, &hello), event->status);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        link->is_final |= RDMA_CM_EVENT_DEVICE_REMOVAL == event->event;
        vb_connect_ended(peer, RDMA_CM_EVENT_DISCONNECTED == event->event ? "it closed the connection"
                                                                          : "the device is gone");
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        (void) vb_peer_why(peer, "%s (status %d)", rdma_event_str(event->event), event->status);
        port->counters.retried += 1;
        vb_peer_step(peer, VB_ON_FAILED);
        break;
    default:
        break;
    }
}

void vb_cm_events(vb_port_t *port)
{
    struct rdma_cm_event *event;
    while (0 == rdma_get_cm_event(port->channel, &event)) {
        vb_port_lock(port);
        on_event(port, event);
        vb_port_unlock(port);
        (void) rdma_ack_cm_event(event);
    }
}
