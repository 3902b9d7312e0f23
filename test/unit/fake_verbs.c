/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See fake_verbs.h. */
#include "fake_verbs.h"

#include "fake_cq.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_query_port

fake_t fake;

/* ---- queues of anything ---- */

typedef struct item {
    struct item *next;
} item_t;
typedef struct queue {
    item_t *first, **last;
    unsigned n;
} queue_t;

static void put(queue_t *q, item_t *i)
{
    i->next = NULL;
    if (NULL == q->first) {
        q->last = &q->first;
    }
    *q->last = i;
    q->last = &i->next;
    ++q->n;
}
static void *take(queue_t *q)
{
    item_t *i = q->first;
    if (NULL != i) {
        q->first = i->next;
        --q->n;
    }
    return i;
}
static void clear(queue_t *q)
{
    item_t *i;
    while (NULL != (i = take(q))) {
        free(i);
    }
}

/* ---- objects ---- */

typedef struct {
    item_t super;
    uint64_t wr_id;
    struct ibv_sge sge;
} receive_t;
typedef struct {
    item_t super;
    uint64_t wr_id;
    bool is_signalled;
    size_t size;
    char data[];
} sending_t;
typedef struct {
    item_t super;
    struct rdma_cm_event event;
    char private_data[256];
} cm_event_t;
typedef struct {
    item_t super;
    struct ibv_async_event event;
} async_t;

typedef struct {
    struct ibv_context context;
    struct ibv_device device;
    queue_t async;
} node_t;
typedef struct {
    struct ibv_srq srq;
    queue_t posted;
    unsigned limit, max;
    bool is_armed;
} srq_t;
typedef struct qp {
    struct ibv_qp qp;
    struct qp *other;
    queue_t posted;     /* receives */
    queue_t waiting;    /* sends without a receive over there */
    uint8_t rnr_timer;  /* told to who found no buffer here */
    uint64_t repeat_at; /* of what waits, with fake.is_timed */
    unsigned max_recv, bytes;
    bool is_broken;
    struct qp *next_ud; /* of all that no identifier of a connection has */
    uint32_t qkey;
    enum ibv_qp_state state; /* of a UD queue pair */
} qp_t;
typedef struct {
    struct rdma_event_channel channel;
    queue_t events;
} channel_t;
typedef struct id {
    struct rdma_cm_id id;
    struct id *next; /* of all */
    struct id *other;
    channel_t *channel;
    struct sockaddr_in here, there;
    bool is_listening, is_accepted;
} cm_id_t;
typedef struct mr {
    struct ibv_mr mr;
    int access;
    struct mr *next;
} mr_t;

static node_t nodes[FAKE_NODES + 1];
static cm_id_t *ids;
static mr_t *mrs;
static unsigned next_port, next_number;

static void ring(int fd)
{
    const uint64_t one = 1;
    (void) !write(fd, &one, sizeof(one));
}
static void silence(int fd)
{
    uint64_t n;
    (void) !read(fd, &n, sizeof(n));
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

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
                    .registrations_left = -1,
                    .queue_pairs_left = -1};
    next_port = 5000;
    for (unsigned i = 1; i <= FAKE_NODES; ++i) {
        node_t *node = &nodes[i];
        clear(&node->async);
        if (0 == node->context.async_fd) {
            node->context.async_fd = eventfd(0, EFD_NONBLOCK);
            node->context.device = &node->device;
            node->context.ops.poll_cq = poll_cq;
            node->context.ops.post_send = post_send;
            node->context.ops.post_recv = post_recv;
            node->context.ops.post_srq_recv = post_srq_recv;
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
    for (unsigned i = 0; i < FAKE_NODES; ++i) {
        list[i] = &nodes[i + 1].device;
    }
    *n = FAKE_NODES;
    return list;
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
                                 .max_cqe = fake.max_cqe,
                                 .vendor_id = fake.vendor,
                                 .max_qp_rd_atom = 16,
                                 .max_qp_init_rd_atom = 16,
                                 .atomic_cap = fake.has_atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE,
                                 .max_srq = fake.has_srq ? 8 : 0,
                                 .max_srq_wr = fake.has_srq ? fake.max_wr : 0};
    context->device->transport_type = fake.is_iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    return 0;
}
int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *where)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *) where;
    (void) context, (void) number;
    attr->state = IBV_PORT_ACTIVE;
    attr->max_msg_sz = 1u << 20;
    attr->active_mtu = fake.mtu;
    attr->gid_tbl_len = 3;
    attr->lid = fake.is_infiniband ? 7 : 0;
    attr->active_width = 2;
    attr->active_speed = 4;
    attr->link_layer = fake.is_infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
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
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t length, uint64_t iova,
                                unsigned int access)
{
    (void) iova;
    if (0 == fake.registrations_left) {
        errno = ENOMEM;
        return NULL;
    }
    fake.registrations_left -= fake.registrations_left > 0;
    mr_t *mr = calloc(1, sizeof(*mr));
    ++next_number;
    mr->mr = (struct ibv_mr){.context = pd->context,
                             .pd = pd,
                             .addr = at,
                             .length = length,
                             .lkey = next_number,
                             .rkey = next_number};
    mr->access = (int) access;
    mr->next = mrs;
    mrs = mr;
    ++fake.memory_regions;
    return &mr->mr;
}
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, at, length, (uintptr_t) at, (unsigned) access);
}
int ibv_dereg_mr(struct ibv_mr *gone)
{
    for (mr_t **at = &mrs; NULL != *at; at = &(*at)->next) {
        if (&(*at)->mr == gone) {
            mr_t *mr = *at;
            *at = mr->next;
            free(mr);
            --fake.memory_regions;
            return 0;
        }
    }
    return EINVAL;
}
static bool is_allowed(uint32_t key, uint64_t at, size_t length, int access)
{
    if (fake.hands_off) {
        return true;
    }
    for (mr_t *mr = mrs; NULL != mr; mr = mr->next) {
        if (mr->mr.lkey == key) {
            return at >= (uintptr_t) mr->mr.addr
                   && at + length <= (uintptr_t) mr->mr.addr + mr->mr.length
                   && access == (mr->access & access);
        }
    }
    return false;
}

/* What the processor moves of so many bytes, where adapters do it by themselves. */
static size_t moved(size_t size)
{
    enum { HEADER = 64 };
    return fake.hands_off && size > HEADER ? HEADER : size;
}

/* ---- completions ---- */

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int n, void *user,
                             struct ibv_comp_channel *channel, int vector)
{
    (void) user, (void) channel, (void) vector;
    if (fake.no_cq) {
        errno = ENOMEM;
        return NULL;
    }
    return &fake_cq_new(context, (unsigned) n)->cq;
}
int ibv_destroy_cq(struct ibv_cq *cq)
{
    fake_cq_free((fake_cq_t *) cq);
    return 0;
}
static void complete(struct ibv_cq *to, uint64_t wr_id, uint32_t qp_num, enum ibv_wc_status status,
                     size_t size)
{
    const struct ibv_wc wc = {
        .wr_id = wr_id, .status = status, .qp_num = qp_num, .byte_len = (uint32_t) size};
    fake.overflows += !fake_cq_put((fake_cq_t *) to, &wc);
}
static int poll_cq(struct ibv_cq *from, int most, struct ibv_wc *wc)
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
static void go_on(struct ibv_context *context);

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
    fake.overflows += q->n >= max;
    put(q, &r->super);
}
static int post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    srq_t *srq = (srq_t *) to;
    (void) bad;
    for (; NULL != wr; wr = wr->next) {
        add_receive(&srq->posted, wr, srq->max);
    }
    go_on(to->context);
    return 0;
}
static int post_recv(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    qp_t *qp = (qp_t *) to;
    (void) bad;
    for (; NULL != wr; wr = wr->next) {
        add_receive(&qp->posted, wr, qp->max_recv);
    }
    go_on(to->context);
    return 0;
}
static receive_t *take_receive(qp_t *qp)
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

/* ---- queue pairs ---- */

static void break_pair(qp_t *qp)
{
    sending_t *s;
    receive_t *r;
    if (qp->is_broken) {
        return;
    }
    qp->is_broken = true;
    while (NULL != (s = take(&qp->waiting))) {
        complete(qp->qp.send_cq, s->wr_id, qp->qp.qp_num, IBV_WC_WR_FLUSH_ERR, 0);
        free(s);
    }
    while (NULL != (r = take(&qp->posted))) {
        complete(qp->qp.recv_cq, r->wr_id, qp->qp.qp_num, IBV_WC_WR_FLUSH_ERR, 0);
        free(r);
    }
}

/* True: delivered, or it never will be. */
static bool deliver(qp_t *qp, sending_t *s)
{
    qp_t *to = qp->other;
    receive_t *r = take_receive(to);
    if (NULL == r && fake.is_iwarp) {
        ++fake.torn;
        complete(qp->qp.send_cq, s->wr_id, qp->qp.qp_num, IBV_WC_REM_OP_ERR, 0);
        break_pair(qp);
        break_pair(to);
        return true;
    }
    if (NULL == r) {
        return false;
    }
    const bool fits = s->size <= r->sge.length
                      && is_allowed(r->sge.lkey, r->sge.addr, s->size, IBV_ACCESS_LOCAL_WRITE);
    if (fits) {
        memcpy((void *) (uintptr_t) r->sge.addr, s->data, moved(s->size));
    }
    complete(to->qp.recv_cq, r->wr_id, to->qp.qp_num, fits ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR,
             s->size);
    free(r);
    if (s->is_signalled) {
        complete(qp->qp.send_cq, s->wr_id, qp->qp.qp_num, IBV_WC_SUCCESS, s->size);
    }
    return true;
}

/* Buffers were posted on the node: messages that wait for them are repeated. */
static void go_on(struct ibv_context *context)
{
    if (fake.is_timed) {
        return;
    }
    for (cm_id_t *id = ids; NULL != id; id = id->next) {
        qp_t *qp = (qp_t *) id->id.qp;
        while (NULL != qp && !qp->is_broken && NULL != qp->other && qp->other->qp.context == context
               && NULL != qp->waiting.first) {
            sending_t *s = (sending_t *) qp->waiting.first;
            if (!deliver(qp, s)) {
                break;
            }
            free(take(&qp->waiting));
        }
    }
}

static sending_t *gather(const struct ibv_send_wr *wr)
{
    size_t size = 0;
    for (int i = 0; i < wr->num_sge; ++i) {
        size += wr->sg_list[i].length;
    }
    sending_t *s = malloc(sizeof(*s) + moved(size));
    *s = (sending_t){.wr_id = wr->wr_id,
                     .size = size,
                     .is_signalled = 0 != (wr->send_flags & IBV_SEND_SIGNALED)};
    size = 0;
    for (int i = 0; i < wr->num_sge; ++i) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        if (!(wr->send_flags & IBV_SEND_INLINE)
            && !is_allowed(sge->lkey, sge->addr, sge->length, 0)) {
            free(s);
            return NULL;
        }
        const size_t now = moved(size + sge->length);
        if (now > size) {
            memcpy(s->data + size, (void *) (uintptr_t) sge->addr, now - size);
        }
        size += sge->length;
    }
    return s;
}

/* Write, read, atomics: now. */
/* What a torn write left out. */
typedef struct {
    item_t super;
    void *at;
    size_t size;
    char data[];
} rest_t;
static queue_t rests;

void fake_finish_writes(void)
{
    rest_t *r;
    while (NULL != (r = take(&rests))) {
        memcpy(r->at, r->data, r->size);
        free(r);
    }
}

/* The pieces one behind the other. */
static enum ibv_wc_status write_remote(const struct ibv_send_wr *wr)
{
    char data[65536], *at = (char *) (uintptr_t) wr->wr.rdma.remote_addr;
    size_t size = 0, now = 0;
    for (int i = 0; i < wr->num_sge; ++i) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        if (!(wr->send_flags & IBV_SEND_INLINE)
            && !is_allowed(sge->lkey, sge->addr, sge->length, 0)) {
            return IBV_WC_LOC_PROT_ERR;
        }
        if (size + sge->length > sizeof(data)) { /* large ones are of one piece */
            break;
        }
        memcpy(data + size, (void *) (uintptr_t) sge->addr, sge->length);
        size += sge->length;
    }
    if (1 == wr->num_sge) {
        memcpy(at, (void *) (uintptr_t) wr->sg_list->addr, wr->sg_list->length);
        return IBV_WC_SUCCESS;
    }
    if (!is_allowed(wr->wr.rdma.rkey, (uintptr_t) at, (uint32_t) size, IBV_ACCESS_REMOTE_WRITE)) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (fake.torn_writes) {
        now = size > 16 ? size - 16 : 0;
        rest_t *r = calloc(1, sizeof(*r) + now);
        r->at = at;
        r->size = now;
        memcpy(r->data, data, now);
        put(&rests, &r->super);
    }
    memcpy(at + now, data + now, size - now);
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status remote(const struct ibv_send_wr *wr)
{
    const struct ibv_sge *sge = wr->sg_list;
    void *local = (void *) (uintptr_t) sge->addr;
    const bool is_atomic = IBV_WR_RDMA_WRITE != wr->opcode && IBV_WR_RDMA_READ != wr->opcode;
    const uint64_t at = is_atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr;
    const uint32_t key = is_atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey;
    const int access = is_atomic                         ? IBV_ACCESS_REMOTE_ATOMIC
                       : IBV_WR_RDMA_WRITE == wr->opcode ? IBV_ACCESS_REMOTE_WRITE
                                                         : IBV_ACCESS_REMOTE_READ;
    if (!is_allowed(key, at, sge->length, access)) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (!is_allowed(sge->lkey, sge->addr, sge->length,
                    IBV_WR_RDMA_WRITE == wr->opcode ? 0 : IBV_ACCESS_LOCAL_WRITE)
        && !(wr->send_flags & IBV_SEND_INLINE)) {
        return IBV_WC_LOC_PROT_ERR;
    }
    uint64_t *word = (uint64_t *) (uintptr_t) at, before;
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
        return fake.hands_off ? IBV_WC_SUCCESS : write_remote(wr);
    case IBV_WR_RDMA_READ:
        memcpy(local, word, fake.hands_off ? 0 : sge->length);
        break;
    default:
        before = *word;
        *word = IBV_WR_ATOMIC_FETCH_AND_ADD == wr->opcode ? before + wr->wr.atomic.compare_add
                : before == wr->wr.atomic.compare_add     ? wr->wr.atomic.swap
                                                          : before;
        memcpy(local, &before, sizeof(before));
    }
    return IBV_WC_SUCCESS;
}

/* A read that is not done yet: one at a time. */
typedef struct {
    qp_t *qp;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
} late_t;
static late_t late;

void fake_finish_reads(void)
{
    late.wr.sg_list = &late.sge;
    complete(late.qp->qp.send_cq, late.wr.wr_id, late.qp->qp.qp_num, remote(&late.wr),
             late.sge.length);
}

/* There was no buffer for the first message that waits. */
static void refuse(qp_t *qp)
{
    ++fake.rnr;
    qp->repeat_at = fake.now + fake_rnr_ns(qp->other->rnr_timer);
}

void fake_repeat(void)
{
    for (cm_id_t *id = ids; NULL != id; id = id->next) {
        qp_t *qp = (qp_t *) id->id.qp;
        while (NULL != qp && !qp->is_broken && NULL != qp->other && NULL != qp->waiting.first
               && qp->repeat_at <= fake.now) {
            if (deliver(qp, (sending_t *) qp->waiting.first)) {
                free(take(&qp->waiting));
            } else {
                refuse(qp);
            }
        }
    }
}

uint64_t fake_next_repeat(void)
{
    uint64_t first = UINT64_MAX;
    for (cm_id_t *id = ids; NULL != id; id = id->next) {
        const qp_t *qp = (qp_t *) id->id.qp;
        if (NULL != qp && NULL != qp->waiting.first && qp->repeat_at < first) {
            first = qp->repeat_at;
        }
    }
    return first;
}

bool fake_is_waiting(unsigned node)
{
    for (cm_id_t *id = ids; NULL != id; id = id->next) {
        const qp_t *qp = (qp_t *) id->id.qp;
        if (id->id.verbs == &nodes[node].context && NULL != qp && NULL != qp->waiting.first) {
            return true;
        }
    }
    return false;
}

/* The table of the InfiniBand specification, in units of 10 us. */
uint64_t fake_rnr_ns(uint8_t code)
{
    static const uint32_t units[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                       16,    24,   32,   48,    64,    96,    128,   192,
                                       256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return units[code & 31] * UINT64_C(10000);
}

/* A model: a work request takes 64 bytes and its inline data, or the address of a datagram; a receive 16. */
static unsigned bytes_of(const struct ibv_qp_init_attr *attr)
{
    const unsigned more = IBV_QPT_UD == attr->qp_type ? 64 : attr->cap.max_inline_data;
    return attr->cap.max_send_wr * (64 + more)
           + (NULL == attr->srq ? attr->cap.max_recv_wr * 16 : 0);
}

/* ---- datagrams ---- */

typedef struct {
    item_t super;
    uint32_t from, to, qkey;
    unsigned passes; /* until so many others have overtaken it */
    size_t size;
    char data[];
} datagram_t;

static qp_t *uds;
static queue_t held_back;
static uint64_t dice;

static unsigned percent(void)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407) + fake.seed;
    return (unsigned) (dice >> 33) % 100;
}

static void arrive(const datagram_t *d)
{
    qp_t *qp = uds;
    while (NULL != qp && qp->qp.qp_num != d->to) {
        qp = qp->next_ud;
    }
    if (NULL == qp || IBV_QPS_INIT == qp->state || IBV_QPS_RESET == qp->state) {
        return;
    }
    if (d->qkey != qp->qkey) {
        ++fake.refused;
        return;
    }
    receive_t *r = take_receive(qp);
    if (NULL == r) {
        ++fake.unheard;
        return;
    }
    const bool fits = d->size + 40 <= r->sge.length
                      && is_allowed(r->sge.lkey, r->sge.addr, d->size + 40, IBV_ACCESS_LOCAL_WRITE);
    if (fits) {
        memset((void *) (uintptr_t) r->sge.addr, 0xee, 40);
        memcpy((void *) (uintptr_t) (r->sge.addr + 40), d->data, d->size);
    }
    complete(qp->qp.recv_cq, r->wr_id, qp->qp.qp_num, fits ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR,
             d->size + 40);
    free(r);
}

/* Those that enough others have passed. */
static void release_held(void)
{
    for (unsigned n = held_back.n; n > 0; --n) {
        datagram_t *d = take(&held_back);
        if (0 == d->passes || 0 == --d->passes) {
            arrive(d);
            free(d);
        } else {
            put(&held_back, &d->super);
        }
    }
}

static int post_datagrams(qp_t *qp, struct ibv_send_wr *wr)
{
    if (IBV_QPS_RTS != qp->state) {
        return EINVAL;
    }
    for (; NULL != wr; wr = wr->next) {
        sending_t *s = gather(wr);
        ++fake.datagrams;
        if (NULL == s) {
            complete(qp->qp.send_cq, wr->wr_id, qp->qp.qp_num, IBV_WC_LOC_PROT_ERR, 0);
            return 0;
        }
        if (s->size > 128u << fake.mtu) {
            ++fake.too_long;
        } else if (percent() >= fake.lost) {
            datagram_t *d = malloc(sizeof(*d) + s->size);
            *d = (datagram_t){.from = qp->qp.qp_num,
                              .to = wr->wr.ud.remote_qpn,
                              .qkey = wr->wr.ud.remote_qkey,
                              .size = s->size};
            memcpy(d->data, s->data, s->size);
            for (unsigned copies = percent() < fake.twice ? 2 : 1; copies > 0; --copies) {
                release_held();
                if (percent() >= fake.late) {
                    arrive(d);
                } else {
                    datagram_t *later = malloc(sizeof(*d) + s->size);
                    memcpy(later, d, sizeof(*d) + s->size);
                    later->passes = 1 + percent() % 8;
                    put(&held_back, &later->super);
                }
            }
            free(d);
        }
        if (s->is_signalled) {
            complete(qp->qp.send_cq, s->wr_id, qp->qp.qp_num, IBV_WC_SUCCESS, s->size);
        }
        free(s);
    }
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    const bool is_ud = IBV_QPT_UD == attr->qp_type;
    if (is_ud ? fake.no_datagrams : fake.no_queue_pairs) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    qp_t *qp = calloc(1, sizeof(*qp));
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .qp_context = attr->qp_context,
                             .pd = pd,
                             .send_cq = attr->send_cq,
                             .recv_cq = attr->recv_cq,
                             .srq = attr->srq,
                             .qp_type = attr->qp_type,
                             .qp_num = ++next_number};
    qp->max_recv = attr->cap.max_recv_wr;
    qp->bytes = bytes_of(attr);
    qp->next_ud = uds;
    uds = qp;
    ++fake.queue_pairs;
    fake.queue_bytes += qp->bytes;
    return &qp->qp;
}
int ibv_destroy_qp(struct ibv_qp *gone)
{
    for (qp_t **at = &uds; NULL != *at; at = &(*at)->next_ud) {
        if (&(*at)->qp == gone) {
            qp_t *qp = *at;
            *at = qp->next_ud;
            clear(&qp->posted);
            fake.queue_bytes -= qp->bytes;
            free(qp);
            --fake.queue_pairs;
            if (NULL == uds) {
                clear(&held_back);
            }
            return 0;
        }
    }
    return EINVAL;
}
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    if (!fake.is_infiniband && !attr->is_global) { /* RoCE routes by GID alone */
        errno = EINVAL;
        return NULL;
    }
    struct ibv_ah *ah = calloc(1, sizeof(*ah));
    ah->pd = pd;
    ++fake.address_handles;
    return ah;
}
int ibv_destroy_ah(struct ibv_ah *ah)
{
    free(ah);
    --fake.address_handles;
    return 0;
}
/* 0 is RoCE v1 and 1 v2 of another address, 2 is that of the node. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    const uint32_t n = (uint32_t) ((node_t *) context - nodes);
    (void) port, (void) flags, (void) size;
    memset(entry, 0, sizeof(*entry));
    if (fake.no_gid || index > 2) {
        return ENODATA;
    }
    entry->gid_type = index > 0 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
    if (fake.is_infiniband) {
        entry->gid_type = IBV_GID_TYPE_IB;
    }
    const uint32_t address = htonl(0x0a000000u + (2 == index ? n : 99));
    entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
    memcpy(entry->gid.raw + 12, &address, 4);
    return 0;
}

static int post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    qp_t *qp = (qp_t *) to;
    (void) bad;
    if (IBV_QPT_UD == to->qp_type) {
        return post_datagrams(qp, wr);
    }
    ++fake.posted;
    fake.fences += 0 != (wr->send_flags & IBV_SEND_FENCE);
    fake.inlined += 0 != (wr->send_flags & IBV_SEND_INLINE);
    fake.signalled += 0 != (wr->send_flags & IBV_SEND_SIGNALED);
    if (qp->is_broken || NULL == qp->other || qp->other->is_broken) {
        complete(to->send_cq, wr->wr_id, to->qp_num,
                 qp->is_broken ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR, 0);
        break_pair(qp);
        return 0;
    }
    if (IBV_WR_RDMA_READ == wr->opcode && fake.late_reads) {
        late = (late_t){.qp = qp, .wr = *wr, .sge = *wr->sg_list};
        return 0;
    }
    if (IBV_WR_SEND != wr->opcode) {
        const enum ibv_wc_status status = remote(wr);
        if (IBV_WC_SUCCESS != status || wr->send_flags & IBV_SEND_SIGNALED) {
            complete(to->send_cq, wr->wr_id, to->qp_num, status, wr->sg_list->length);
        }
        if (IBV_WC_SUCCESS != status) {
            break_pair(qp);
        }
        return 0;
    }
    fake_finish_writes();
    sending_t *s = gather(wr);
    if (NULL == s) {
        complete(to->send_cq, wr->wr_id, to->qp_num, IBV_WC_LOC_PROT_ERR, 0);
        break_pair(qp);
        return 0;
    }
    if (NULL == qp->waiting.first && deliver(qp, s)) {
        free(s);
    } else {
        if (NULL == qp->waiting.first) {
            refuse(qp);
        }
        put(&qp->waiting, &s->super);
    }
    return 0;
}
int ibv_modify_qp(struct ibv_qp *which, struct ibv_qp_attr *attr, int mask)
{
    qp_t *qp = (qp_t *) which;
    if (IBV_QPT_UD == which->qp_type) {
        static const int needed[] = {[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT
                                                      | IBV_QP_QKEY,
                                     [IBV_QPS_RTR] = IBV_QP_STATE,
                                     [IBV_QPS_RTS] = IBV_QP_STATE};
        if (attr->qp_state < IBV_QPS_INIT || attr->qp_state > IBV_QPS_RTS
            || needed[attr->qp_state] != (mask & needed[attr->qp_state])) {
            return EINVAL;
        }
        qp->state = attr->qp_state;
        qp->qkey = mask & IBV_QP_QKEY ? attr->qkey : qp->qkey;
        return 0;
    }
    if (IBV_QP_STATE == mask && IBV_QPS_ERR == attr->qp_state) {
        qp->is_broken = true;
        return 0;
    }
    qp->rnr_timer = attr->min_rnr_timer;
    return IBV_QP_MIN_RNR_TIMER == mask ? 0 : EINVAL;
}

/* ---- connections ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
    channel_t *c = calloc(1, sizeof(*c));
    c->channel.fd = eventfd(0, EFD_NONBLOCK);
    return &c->channel;
}
void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    clear(&((channel_t *) channel)->events);
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
    id->next = ids;
    ids = id;
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
    for (cm_id_t **at = &ids; NULL != *at; at = &(*at)->next) {
        if (&(*at)->id == gone) {
            cm_id_t *id = *at;
            *at = id->next;
            if (NULL != id->other) {
                id->other->other = NULL;
                if (!id->is_accepted
                    && !id->other->is_accepted) { /* a request that is not answered */
                    tell(id->other, RDMA_CM_EVENT_REJECTED, 28, NULL, NULL, 0);
                }
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
    const unsigned n = ntohl(here->sin_addr.s_addr) & 0xff;
    if (0x0a000000u != (ntohl(here->sin_addr.s_addr) & 0xffffff00u) || n < 1 || n > FAKE_NODES) {
        return false;
    }
    id->here = *here;
    id->id.verbs = &nodes[n].context;
    id->id.port_num = 1;
    return true;
}
int rdma_bind_addr(struct rdma_cm_id *which, struct sockaddr *address)
{
    cm_id_t *id = (cm_id_t *) which;
    if (!place(id, (struct sockaddr_in *) address)) {
        errno = ENODEV;
        return -1;
    }
    id->here.sin_port = htons((uint16_t) ++next_port);
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
    (void) id, (void) level, (void) name, (void) value, (void) size;
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
    qp_t *qp = calloc(1, sizeof(*qp));
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .qp_context = attr->qp_context,
                             .pd = pd,
                             .send_cq = attr->send_cq,
                             .recv_cq = attr->recv_cq,
                             .srq = attr->srq,
                             .qp_type = IBV_QPT_RC,
                             .qp_num = ++next_number};
    qp->max_recv = attr->cap.max_recv_wr;
    qp->bytes = bytes_of(attr);
    id->qp = &qp->qp;
    ++fake.queue_pairs;
    fake.queue_bytes += qp->bytes;
    return 0;
}
void rdma_destroy_qp(struct rdma_cm_id *id)
{
    qp_t *qp = (qp_t *) id->qp;
    clear(&qp->posted);
    clear(&qp->waiting);
    if (NULL != qp->other) {
        qp->other->other = NULL;
    }
    fake.queue_bytes -= qp->bytes;
    free(qp);
    id->qp = NULL;
    --fake.queue_pairs;
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
    for (cm_id_t *l = ids; NULL != l; l = l->next) {
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
static void disconnect(cm_id_t *id, bool tell_both)
{
    if (NULL != id->id.qp) {
        break_pair((qp_t *) id->id.qp);
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
    disconnect((cm_id_t *) id, true);
    return 0;
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
    for (cm_id_t *id = ids; NULL != id; id = id->next) {
        if (id->id.verbs == &nodes[node].context) {
            id->is_listening = false;
            disconnect(id, false);
        }
    }
}
void fake_break(unsigned node)
{
    for (cm_id_t *id = ids; NULL != id; id = id->next) {
        if (id->id.verbs == &nodes[node].context && NULL != id->id.qp) {
            ((qp_t *) id->id.qp)->is_broken = true;
        }
    }
}
void fake_device_fatal(unsigned node)
{
    async_t *a = calloc(1, sizeof(*a));
    a->event.event_type = IBV_EVENT_DEVICE_FATAL;
    put(&nodes[node].async, &a->super);
    ring(nodes[node].context.async_fd);
}
