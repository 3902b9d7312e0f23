/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See fake_verbs.h. Connections by rdma_cm. */
#include "fake_objects.h"

/* ---- connections ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
    if (fake.no_rdma_cm) {
        errno = ENODEV;
        return NULL;
    }
    channel_t *c = calloc(1, sizeof(*c));
    c->channel.fd = eventfd(0, EFD_NONBLOCK);
    return &c->channel;
}
/* A request that nobody has taken ends with the channel. */
void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    cm_event_t *e;
    while (NULL != (e = take(&((channel_t *) channel)->events))) {
        if (RDMA_CM_EVENT_CONNECT_REQUEST == e->event.event) {
            (void) rdma_destroy_id(e->event.id);
        }
        free(e);
    }
    close(channel->fd);
    free(channel);
}
static void tell(cm_id_t *id, enum rdma_cm_event_type type, int status, cm_id_t *listener,
                 const void *data, size_t size)
{
    channel_t *channel = id->channel;
    cm_event_t *e = calloc(1, sizeof(*e));
    e->event = (struct rdma_cm_event){.id = &id->id,
                                      .listen_id = NULL == listener ? NULL : &listener->id,
                                      .event = type,
                                      .status = status};
    if (size > 0) {
        memcpy(e->private_data, data, size);
    }
    e->event.param.conn.private_data = e->private_data;
    /* Fabrics pad. */
    e->event.param.conn.private_data_len = (uint8_t) (size > 0 ? 196 : 0);
    e->event.param.conn.responder_resources = 16;
    e->event.param.conn.initiator_depth = 16;
    put(&channel->events, &e->super);
    ring(channel->channel.fd);
}
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    cm_event_t *e = take(&((channel_t *) channel)->events);
    if (NULL == e) {
        silence(channel->fd);
        errno = EAGAIN;
        return -1;
    }
    *event = &e->event;
    return 0;
}
int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    free((char *) event - offsetof(cm_event_t, event));
    return 0;
}
const char *rdma_event_str(enum rdma_cm_event_type event)
{
    return RDMA_CM_EVENT_UNREACHABLE == event ? "unreachable" : "error";
}
static cm_id_t *new_id(channel_t *channel)
{
    cm_id_t *id = calloc(1, sizeof(*id));
    id->channel = channel;
    id->id.channel = &channel->channel;
    id->next = fake_ids;
    fake_ids = id;
    ++fake.ids;
    return id;
}
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space space)
{
    (void) space;
    cm_id_t *new = new_id((channel_t *) channel);
    new->id.context = context;
    *id = &new->id;
    return 0;
}
int rdma_destroy_id(struct rdma_cm_id *gone)
{
    for (cm_id_t **at = &fake_ids; NULL != *at; at = &(*at)->next) {
        if (&(*at)->id == gone) {
            cm_id_t *id = *at;
            *at = id->next;
            if (NULL != id->other) {
                const bool is_answered = id->is_accepted || id->other->is_accepted;
                id->other->other = NULL;
                tell(id->other, is_answered ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_REJECTED,
                     is_answered ? 0 : 28, NULL, NULL, 0);
            }
            free(id);
            --fake.ids;
            return 0;
        }
    }
    return EINVAL;
}
static bool place(cm_id_t *id, const struct sockaddr_in *here)
{
    const unsigned n = fake.any_address ? 1 : ntohl(here->sin_addr.s_addr) & 0xff;
    if (!fake.any_address
        && (0x0a000000u != (ntohl(here->sin_addr.s_addr) & 0xffffff00u) || n < 1 || n > FAKE_NODES)) {
        return false;
    }
    id->here = *here;
    id->id.verbs = &fake_nodes[n].context;
    id->id.port_num = 1;
    id->id.route.addr.addr.ibaddr.pkey = htons(fake.partition);
    return true;
}
int rdma_bind_addr(struct rdma_cm_id *which, struct sockaddr *address)
{
    cm_id_t *id = (cm_id_t *) which;
    if (fake.no_addresses || !place(id, (struct sockaddr_in *) address)) {
        errno = ENODEV;
        return -1;
    }
    id->here.sin_port = htons((uint16_t) ++fake_next_port);
    return 0;
}
int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    (void) backlog;
    ((cm_id_t *) id)->is_listening = !fake.no_listen;
    errno = EADDRINUSE;
    return fake.no_listen ? -1 : 0;
}
__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return ((cm_id_t *) id)->here.sin_port;
}
int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
    const bool is_resolved = 0 != ((cm_id_t *) id)->there.sin_family; /* then it would be too late */
    if (RDMA_OPTION_ID == level && RDMA_OPTION_ID_TOS == name && sizeof(uint8_t) == size && !is_resolved) {
        fake.traffic_class = *(uint8_t *) value;
    }
    return 0;
}
int rdma_resolve_addr(struct rdma_cm_id *which, struct sockaddr *from, struct sockaddr *to, int ms)
{
    cm_id_t *id = (cm_id_t *) which;
    (void) ms;
    id->there = *(struct sockaddr_in *) to;
    if (!place(id, (struct sockaddr_in *) from)) {
        errno = ENODEV;
        return -1;
    }
    tell(id, fake.no_address ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED,
         fake.no_address ? -ETIMEDOUT : 0, NULL, NULL, 0);
    return 0;
}
int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
    (void) ms;
    tell((cm_id_t *) id, fake.no_route ? RDMA_CM_EVENT_ROUTE_ERROR : RDMA_CM_EVENT_ROUTE_RESOLVED,
         fake.no_route ? -ETIMEDOUT : 0, NULL, NULL, 0);
    return 0;
}
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    if ((int) attr->cap.max_inline_data > fake.max_inline || 0 == fake.queue_pairs_left) {
        errno = 0 == fake.queue_pairs_left ? ENOMEM : EINVAL;
        return -1;
    }
    fake.queue_pairs_left -= fake.queue_pairs_left > 0;
    node_t *node = (node_t *) pd->context;
    const uint32_t number = 0 != node->free_number ? node->free_number : ++fake_next_number;
    node->free_number = 0;
    id->qp = &fake_qp_new(pd, attr, IBV_QPT_RC, number)->qp;
    return 0;
}
void rdma_destroy_qp(struct rdma_cm_id *id)
{
    ((node_t *) id->qp->context)->free_number = fake.reuses_numbers ? id->qp->qp_num : 0;
    fake_qp_free((qp_t *) id->qp);
    id->qp = NULL;
}
int rdma_connect(struct rdma_cm_id *which, struct rdma_conn_param *param)
{
    cm_id_t *id = (cm_id_t *) which;
    fake.last_private = param->private_data_len;
    if (fake.silent) {
        return 0;
    }
    if (fake.no_connect) {
        tell(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, NULL, 0);
        return 0;
    }
    for (cm_id_t *l = fake_ids; NULL != l; l = l->next) {
        if (l->is_listening && l->here.sin_addr.s_addr == id->there.sin_addr.s_addr
            && l->here.sin_port == id->there.sin_port) {
            cm_id_t *child = new_id(l->channel);
            child->id.verbs = l->id.verbs;
            child->id.port_num = 1;
            child->here = l->here;
            child->other = id;
            id->other = child;
            tell(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0, l, param->private_data,
                 param->private_data_len);
            return 0;
        }
    }
    tell(id, RDMA_CM_EVENT_REJECTED, 8, NULL, NULL, 0);
    return 0;
}
int rdma_accept(struct rdma_cm_id *which, struct rdma_conn_param *param)
{
    cm_id_t *id = (cm_id_t *) which;
    fake.last_private = param->private_data_len;
    if (NULL == id->other) { /* who asked has given up */
        errno = ENOTCONN;
        return -1;
    }
    qp_t *here = (qp_t *) id->id.qp, *there = (qp_t *) id->other->id.qp;
    here->other = there;
    there->other = here;
    id->is_accepted = id->other->is_accepted = true;
    tell(id->other, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, param->private_data,
         param->private_data_len);
    tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, NULL, 0);
    return 0;
}
int rdma_reject(struct rdma_cm_id *which, const void *data, uint8_t size)
{
    cm_id_t *id = (cm_id_t *) which;
    if (NULL != id->other) {
        tell(id->other, RDMA_CM_EVENT_REJECTED, 28, NULL, data, size);
        id->other->other = NULL;
        id->other = NULL;
    }
    return 0;
}
void fake_disconnect(cm_id_t *id, bool tell_both)
{
    if (NULL != id->id.qp) {
        fake_break_pair((qp_t *) id->id.qp);
    }
    if (NULL != id->other && id->is_accepted) {
        cm_id_t *other = id->other;
        id->other = NULL;
        other->other = NULL;
        tell(other, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, NULL, 0);
        if (tell_both) {
            tell(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, NULL, 0);
        }
    }
}
int rdma_disconnect(struct rdma_cm_id *id)
{
    fake_disconnect((cm_id_t *) id, true);
    return 0;
}
