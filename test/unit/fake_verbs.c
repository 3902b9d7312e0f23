/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See fake_verbs.h. Adapters and what belongs to them but for queue pairs. */
#include "fake_cq.h"
#include "fake_objects.h"

#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>

fake_t fake;
node_t fake_nodes[FAKE_NODES + 1];
cm_id_t *fake_ids;
unsigned fake_next_port, fake_next_number;
static mr_t *mrs;

static int req_notify_cq(struct ibv_cq *cq, int solicited);

void fake_reset(void)
{
    fake = (fake_t){.has_srq = true,
                    .has_atomics = true,
                    .max_inline = 256,
                    .max_wr = 4096,
                    .max_cqe = 32768,
                    .max_sge = 4,
                    .mtu = IBV_MTU_1024,
                    .seed = 1,
                    .modifies_left = -1,
                    .registrations_left = -1,
                    .requests_left = -1,
                    .queue_pairs_left = -1};
    fake_next_port = 5000;
    fake_datagrams_reset();
    for (unsigned i = 1; i <= FAKE_NODES; ++i) {
        node_t *node = &fake_nodes[i];
        clear(&node->async);
        node->free_number = 0;
        if (0 == node->context.async_fd) {
            node->context.async_fd = eventfd(0, EFD_NONBLOCK);
            node->context.device = &node->device;
            node->context.ops.poll_cq = fake_poll_cq;
            node->context.ops.req_notify_cq = req_notify_cq;
            node->context.ops.post_send = fake_post_send;
            node->context.ops.post_recv = fake_post_recv;
            node->context.ops.post_srq_recv = fake_post_srq_recv;
            snprintf(node->device.name, sizeof(node->device.name), "fake%u", i);
        }
    }
}

struct sockaddr_in fake_address(unsigned node, unsigned port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
    a.sin_addr.s_addr = htonl(0x0a000000u + node);
    return a;
}

/* ---- devices and what belongs to them ---- */

struct ibv_device **ibv_get_device_list(int *n)
{
    struct ibv_device **list = calloc(FAKE_NODES + 1, sizeof(*list));
    *n = fake.any_address ? 1 : FAKE_NODES;
    for (int i = 0; i < *n; ++i) {
        list[i] = &fake_nodes[i + 1].device;
    }
    return list;
}
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    node_t *node = (node_t *) ((char *) device - offsetof(node_t, device));
    fake.opened += !fake.no_open;
    errno = EACCES;
    return fake.no_open ? NULL : &node->context;
}
int ibv_close_device(struct ibv_context *context)
{
    (void) context;
    --fake.opened;
    return 0;
}
void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}
const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    *attr =
        (struct ibv_device_attr){.max_qp_wr = fake.max_wr,
                                 .max_sge = fake.max_sge,
                                 .phys_port_cnt = 1,
                                 .max_cqe = fake.max_cqe,
                                 .vendor_id = fake.vendor,
                                 .max_qp_rd_atom = 16,
                                 .max_qp_init_rd_atom = 16,
                                 .atomic_cap = !fake.has_atomics   ? IBV_ATOMIC_NONE
                                               : fake.is_coherent ? IBV_ATOMIC_GLOB
                                                                  : IBV_ATOMIC_HCA,
                                 .max_srq = fake.has_srq ? 8 : 0,
                                 .max_srq_wr = fake.has_srq ? fake.max_wr : 0};
    context->device->transport_type = fake.is_iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    return 0;
}
int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *where)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *) where;
    (void) context, (void) number;
    attr->state = fake.is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    attr->max_msg_sz = 1u << 20;
    attr->active_mtu = fake.mtu;
    attr->gid_tbl_len = 3;
    attr->pkey_tbl_len = 3;
    attr->flags = fake.needs_grh ? IBV_QPF_GRH_REQUIRED : 0;
    attr->lid = fake.is_infiniband ? 7 : 0;
    attr->active_width = 2;
    attr->active_speed = 4;
    attr->link_layer = fake.is_infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    return 0;
}
/* The interfaces' partition is the last, behind a limited membership of it. */
int ibv_query_pkey(struct ibv_context *context, uint8_t number, int index, __be16 *key)
{
    (void) context, (void) number;
    if (index < 0 || index > FAKE_PARTITION) {
        return EINVAL;
    }
    const uint16_t keys[FAKE_PARTITION + 1] = {0xffff, fake.partition & 0x7fffu, fake.partition};
    *key = htons(index > 0 && fake.no_partition ? 0 : keys[index]);
    return 0;
}
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));
    pd->context = context;
    return pd;
}
int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}
/* Anywhere but in a dma-buf, device is NULL. */
static struct ibv_mr *make_mr(struct ibv_pd *pd, void *at, size_t length, int access, char *device)
{
    if (0 == fake.registrations_left) {
        errno = ENOMEM;
        return NULL;
    }
    fake.registrations_left -= fake.registrations_left > 0;
    mr_t *mr = calloc(1, sizeof(*mr));
    ++fake_next_number;
    mr->mr = (struct ibv_mr){.context = pd->context,
                             .pd = pd,
                             .addr = at,
                             .length = length,
                             .lkey = fake_next_number,
                             .rkey = fake_next_number};
    mr->access = access;
    mr->device = device;
    mr->next = mrs;
    mrs = mr;
    ++fake.memory_regions;
    return &mr->mr;
}
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t length, uint64_t iova,
                                unsigned int access)
{
    (void) iova;
    return make_mr(pd, at, length, (int) access, NULL);
}
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t length, int access)
{
    return make_mr(pd, at, length, access, NULL);
}
/* The adapter's way to the memory is a mapping of its own, whole pages of it. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int file, int access)
{
    if (0 != fake.no_dmabufs || file < 0) {
        errno = 0 != fake.no_dmabufs ? fake.no_dmabufs : EBADF;
        return NULL;
    }
    char *device = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t) offset);
    if (MAP_FAILED == device) {
        return NULL;
    }
    struct ibv_mr *mr = make_mr(pd, (void *) (uintptr_t) iova, length, access, device);
    if (NULL == mr) {
        (void) munmap(device, length);
        errno = ENOMEM;
    }
    return mr;
}
int ibv_dereg_mr(struct ibv_mr *gone)
{
    for (mr_t **at = &mrs; NULL != *at; at = &(*at)->next) {
        if (&(*at)->mr == gone) {
            mr_t *mr = *at;
            *at = mr->next;
            if (NULL != mr->device) {
                (void) munmap(mr->device, mr->mr.length);
            }
            free(mr);
            --fake.memory_regions;
            return 0;
        }
    }
    return EINVAL;
}
bool fake_is_allowed(uint32_t key, uint64_t at, size_t length, int access)
{
    if (fake.hands_off) {
        return true;
    }
    for (mr_t *mr = mrs; NULL != mr; mr = mr->next) {
        if (mr->mr.lkey == key) {
            return at >= (uintptr_t) mr->mr.addr && length <= mr->mr.length
                   && at - (uintptr_t) mr->mr.addr <= mr->mr.length - length
                   && access == (mr->access & access);
        }
    }
    return false;
}

void *fake_memory(uint32_t key, uint64_t at)
{
    for (mr_t *mr = mrs; NULL != mr; mr = mr->next) {
        if (mr->mr.lkey == key && NULL != mr->device) {
            return mr->device + (at - (uintptr_t) mr->mr.addr);
        }
    }
    return (void *) (uintptr_t) at;
}

size_t fake_moved(size_t size)
{
    enum { HEADER = 64 };
    return fake.hands_off && size > HEADER ? HEADER : size;
}

/* ---- completions ---- */

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int n, void *user,
                             struct ibv_comp_channel *channel, int vector)
{
    (void) vector;
    if (fake.no_cq) {
        errno = ENOMEM;
        return NULL;
    }
    fake_cq_t *cq = fake_cq_new(context, (unsigned) n);
    cq->cq.cq_context = user;
    cq->cq.channel = channel;
    if (NULL != channel) {
        ++channel->refcnt;
    }
    return &cq->cq;
}
int ibv_destroy_cq(struct ibv_cq *which)
{
    fake_cq_t *cq = (fake_cq_t *) which;
    fake.not_acknowledged += cq->taken - cq->acknowledged; /* the library would wait for that */
    if (NULL != which->channel) {
        --which->channel->refcnt;
    }
    fake_cq_free(cq);
    return 0;
}

/* ---- notices of completions ---- */

/* What has been told and not been taken: a channel's descriptor is a pipe of pointers. */
typedef struct {
    struct ibv_comp_channel channel;
    int end; /* that is written to */
} notices_t;

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    int ends[2];
    notices_t *channel = fake.no_channel ? NULL : calloc(1, sizeof(*channel));
    if (NULL == channel || 0 != pipe(ends)) {
        free(channel);
        errno = EMFILE;
        return NULL;
    }
    channel->channel.context = context;
    channel->channel.fd = ends[0];
    channel->end = ends[1];
    return &channel->channel;
}
int ibv_destroy_comp_channel(struct ibv_comp_channel *which)
{
    notices_t *channel = (notices_t *) which;
    if (0 != which->refcnt) {
        return EBUSY;
    }
    close(which->fd);
    close(channel->end);
    free(channel);
    return 0;
}
static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void) solicited;
    ((fake_cq_t *) cq)->is_armed = !fake.no_notices;
    return fake.no_notices ? EOPNOTSUPP : 0;
}
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
    *context = NULL;
    if (1 != poll(&fd, 1, 0) || sizeof(*cq) != read(channel->fd, cq, sizeof(*cq))) {
        errno = EAGAIN;
        return -1;
    }
    ++((fake_cq_t *) *cq)->taken;
    return 0;
}
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    ((fake_cq_t *) cq)->acknowledged += n;
}
static void tell(fake_cq_t *cq)
{
    if (cq->is_armed && NULL != cq->cq.channel) {
        struct ibv_cq *const which = &cq->cq;
        cq->is_armed = false;
        (void) !write(((notices_t *) which->channel)->end, &which, sizeof(which));
    }
}

void fake_complete(struct ibv_cq *to, uint64_t wr_id, uint32_t qp_num, enum ibv_wc_status status,
                   size_t size)
{
    const struct ibv_wc wc = {
        .wr_id = wr_id, .status = status, .qp_num = qp_num, .byte_len = (uint32_t) size};
    fake.overflows += !fake_cq_put((fake_cq_t *) to, &wc);
    tell((fake_cq_t *) to);
}
int fake_poll_cq(struct ibv_cq *from, int most, struct ibv_wc *wc)
{
    return fake_cq_poll((fake_cq_t *) from, most, wc);
}
const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return IBV_WC_WR_FLUSH_ERR == status ? "flushed" : "completion error";
}

/* ---- receive queues ---- */

static void notify(srq_t *srq, enum ibv_event_type type)
{
    node_t *node = (node_t *) srq->srq.context;
    async_t *a = calloc(1, sizeof(*a));
    a->event.event_type = type;
    a->event.element.srq = &srq->srq;
    put(&node->async, &a->super);
    ring(node->context.async_fd);
}

void fake_tell_last(qp_t *qp)
{
    if (!fake.no_last) {
        node_t *node = (node_t *) qp->qp.context;
        async_t *a = calloc(1, sizeof(*a));
        a->event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
        a->event.element.qp = &qp->qp;
        put(&node->async, &a->super);
        ring(node->context.async_fd);
    }
}

/* What nobody has asked for goes with its queue pair. */
void fake_forget_events(const qp_t *qp)
{
    queue_t *async = &((node_t *) qp->qp.context)->async;
    for (unsigned n = async->n; n > 0; --n) {
        async_t *a = take(async);
        if (IBV_EVENT_QP_LAST_WQE_REACHED == a->event.event_type && a->event.element.qp == &qp->qp) {
            free(a);
        } else {
            put(async, &a->super);
        }
    }
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    srq_t *srq = calloc(1, sizeof(*srq));
    srq->srq.context = pd->context;
    srq->srq.srq_context = attr->srq_context;
    srq->max = attr->attr.max_wr;
    return &srq->srq;
}
int ibv_modify_srq(struct ibv_srq *which, struct ibv_srq_attr *attr, int mask)
{
    srq_t *srq = (srq_t *) which;
    if (mask & IBV_SRQ_LIMIT) {
        srq->limit = attr->srq_limit;
        srq->is_armed = true;
    }
    return 0;
}
int ibv_destroy_srq(struct ibv_srq *srq)
{
    clear(&((srq_t *) srq)->posted);
    free(srq);
    return 0;
}
static void add_receive(queue_t *q, const struct ibv_recv_wr *wr, unsigned max)
{
    receive_t *r = calloc(1, sizeof(*r));
    r->wr_id = wr->wr_id;
    r->sge = wr->sg_list[0];
    guard(&r->sge, r->sge.length);
    fake.overflows += q->n >= max;
    put(q, &r->super);
}
int fake_post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    srq_t *srq = (srq_t *) to;
    (void) bad;
    for (; NULL != wr; wr = wr->next) {
        add_receive(&srq->posted, wr, srq->max);
    }
    fake_go_on(to->context);
    return 0;
}
int fake_post_recv(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    qp_t *qp = (qp_t *) to;
    (void) bad;
    for (; NULL != wr; wr = wr->next) {
        if (qp->is_broken) {
            fake_complete(to->recv_cq, wr->wr_id, to->qp_num, IBV_WC_WR_FLUSH_ERR, 0);
        } else {
            add_receive(&qp->posted, wr, qp->max_recv);
        }
    }
    fake_go_on(to->context);
    return 0;
}
receive_t *fake_take_receive(qp_t *qp)
{
    if (NULL == qp->qp.srq) {
        return take(&qp->posted);
    }
    srq_t *srq = (srq_t *) qp->qp.srq;
    receive_t *r = take(&srq->posted);
    if (srq->is_armed && srq->posted.n < srq->limit) {
        srq->is_armed = false;
        ++fake.limits;
        notify(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
    }
    return r;
}

/* ---- events of adapters ---- */

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    async_t *a = take(&((node_t *) context)->async);
    if (NULL == a) {
        silence(context->async_fd);
        errno = EAGAIN;
        return -1;
    }
    *event = a->event;
    free(a);
    return 0;
}
void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void) event;
}
const char *ibv_event_type_str(enum ibv_event_type type)
{
    (void) type;
    return "event of the adapter";
}

/* ---- what tests do ---- */

void fake_kill(unsigned node)
{
    for (cm_id_t *id = fake_ids; NULL != id; id = id->next) {
        if (id->id.verbs == &fake_nodes[node].context) {
            id->is_listening = false;
            fake_disconnect(id, false);
        }
    }
}
void fake_break(unsigned node)
{
    for (qp_t *qp = fake_qps; NULL != qp; qp = qp->next) {
        qp->is_broken |= IBV_QPT_RC == qp->qp.qp_type && qp->qp.context == &fake_nodes[node].context;
    }
}
void fake_device_fatal(unsigned node)
{
    async_t *a = calloc(1, sizeof(*a));
    a->event.event_type = IBV_EVENT_DEVICE_FATAL;
    put(&fake_nodes[node].async, &a->super);
    ring(fake_nodes[node].context.async_fd);
}
