/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A peer that says what no process of ours says (verbs_world.h): in private data of connections, in messages and control
 * messages, and in datagrams, whole ones and what is in them. Bytes come from the script; some have a header that is
 * right but for a few bits, so that what is behind it is reached. What arrives lies in memory of exactly its size. */
#ifndef VERBS_WICKED_H
#define VERBS_WICKED_H

#include "verbs_world.h"

/* Bytes with a few changed, at places that the script names. */
static void change(script_t *s, uint8_t *bytes, size_t size)
{
    for (unsigned n = next(s) % 4; n > 0 && size > 0; --n) {
        const size_t at = next16(s) % size;
        bytes[at] ^= (uint8_t) next(s);
    }
}

static size_t some_bytes(script_t *s, uint8_t *bytes, size_t most)
{
    const size_t size = next(s) % (most + 1);
    for (size_t i = 0; i < size; ++i) {
        bytes[i] = (uint8_t) next(s);
    }
    return size;
}

/* ---- private data ---- */

/* What the next event of a connection at this side says instead. */
typedef struct forged_hello {
    bool is_armed, is_changed;
    uint8_t mask[64]; /* changes it, or is it */
    size_t size;
    uint8_t *exact; /* of the event being handled */
} forged_hello_t;
static forged_hello_t forged[PROCESSES];
static process_t *fuzzed[PROCESSES];
static uint64_t strangers[PROCESSES], welcomed[PROCESSES]; /* by what they said */

static process_t *owner_of(const struct rdma_event_channel *channel)
{
    for (unsigned i = 0; i < PROCESSES; ++i) {
        if (NULL != fuzzed[i] && NULL != fuzzed[i]->port && fuzzed[i]->port->channel == channel) {
            return fuzzed[i];
        }
    }
    return NULL;
}

/* From the drawing in docs/design/verbs.md, byte by byte. */
static bool is_request(const process_t *p, const uint8_t *d, size_t size)
{
    uint64_t name = 0, key = 0;
    uint32_t buffer = 0;
    if (size < 32 || 0 != memcmp(d, "IBXv", 4) || 6 != d[4] || 0 != d[5] || d[30] > 1) {
        return false;
    }
    for (unsigned i = 0; i < 8; ++i) {
        name = name << 8 | d[8 + i];
        key = key << 8 | d[16 + i];
        buffer = i < 4 ? buffer << 8 | d[24 + i] : buffer;
    }
    return name != p->config.name && key == p->config.key && buffer == p->config.buffer_size;
}

int __real_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    const int rc = __real_rdma_get_cm_event(channel, event);
    process_t *p = owner_of(channel);
    if (0 != rc || NULL == p) {
        return rc;
    }
    forged_hello_t *f = &forged[p->index];
    struct rdma_conn_param *param = &(*event)->param.conn;
    size_t size = param->private_data_len;
    const bool is_request_event = RDMA_CM_EVENT_CONNECT_REQUEST == (*event)->event;
    const bool forges = f->is_armed
                        && (is_request_event || RDMA_CM_EVENT_ESTABLISHED == (*event)->event
                            || RDMA_CM_EVENT_REJECTED == (*event)->event);
    if (forges && !f->is_changed) {
        size = f->size;
    } else if (forges && f->size < 32) {
        size = f->size % 2 ? size : f->size;
    }
    f->exact = 0 == size ? NULL : malloc(size);
    MUST(NULL != f->exact || 0 == size);
    for (size_t i = 0; i < size; ++i) {
        const uint8_t before =
            i < param->private_data_len ? ((const uint8_t *) param->private_data)[i] : 0;
        const uint8_t mask = forges && i < sizeof(f->mask) ? f->mask[i] : 0;
        f->exact[i] = forges && !f->is_changed ? mask : before ^ mask;
    }
    f->is_armed &= !forges;
    param->private_data = f->exact;
    param->private_data_len = (uint8_t) size;
    if (is_request_event) {
        const bool is_good = is_request(p, f->exact, size);
        strangers[p->index] += !is_good;
        welcomed[p->index] += is_good;
    }
    return rc;
}

int __real_rdma_ack_cm_event(struct rdma_cm_event *event);
int __wrap_rdma_ack_cm_event(struct rdma_cm_event *event);
int __wrap_rdma_ack_cm_event(struct rdma_cm_event *event)
{
    for (unsigned i = 0; i < PROCESSES; ++i) {
        if (NULL != forged[i].exact && event->param.conn.private_data == forged[i].exact) {
            free(forged[i].exact);
            forged[i].exact = NULL;
        }
    }
    return __real_rdma_ack_cm_event(event);
}

static void forge_hello(process_t *p, script_t *s)
{
    forged_hello_t *f = &forged[p->index];
    const unsigned how = next(s);
    memset(f->mask, 0, sizeof(f->mask));
    f->is_armed = true;
    f->is_changed = 0 == how % 4 ? false : true;
    if (!f->is_changed) {
        f->size = some_bytes(s, f->mask, sizeof(f->mask));
        return;
    }
    f->size = 1 == how % 4 ? how >> 2 & 31 : sizeof(f->mask);
    change(s, f->mask, 32);
}

/* ---- messages ---- */

/* A work request of nobody: its completion means nothing to a port. */
static void send_raw(qp_t *from, const uint8_t *bytes, size_t size)
{
    struct ibv_send_wr *bad;
    struct ibv_sge piece = {.addr = (uintptr_t) bytes, .length = (uint32_t) size};
    struct ibv_send_wr wr = {.wr_id = vb_wr_id(false, 0x7fffffff, 0),
                             .sg_list = &piece,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_INLINE};
    (void) fake_post_send(&from->qp, &wr, &bad);
}

/* The header that is due on this link, but for what the script changes. */
static void write_header(const vb_link_t *link, script_t *s, uint8_t *bytes)
{
    vb_hdr_t hdr;
    const unsigned kind = next(s);
    vb_hdr_write(&hdr, (vb_type_t) (kind % 6), (uint8_t) (kind >> 3), (uint16_t) (kind >> 6),
                 link->credit.control_seen);
    memcpy(bytes, &hdr, sizeof(hdr));
}

/* By type and length, of what may come this way. */
static bool is_message_or_control(const process_t *p, const uint8_t *bytes, size_t size,
                                  unsigned first, unsigned last)
{
    if (size < 8 || size > p->config.buffer_size) {
        return false;
    }
    return VB_MESSAGE == bytes[0]
           || (bytes[0] >= first && bytes[0] <= last && size == 8);
}

static void forge_message(process_t *p, script_t *s)
{
    uint8_t bytes[ROOM + 64];
    vb_link_t *link = NULL == p->peer ? NULL : p->peer->link;
    qp_t *to = NULL == link ? NULL : (qp_t *) link->qp;
    qp_t *from = NULL == to ? NULL : to->other;
    size_t size = sizeof(vb_hdr_t);
    const unsigned how = next(s);
    if (NULL == from) {
        return;
    }
    memset(bytes, 0, sizeof(bytes));
    if (0 == how % 4) {
        size = some_bytes(s, bytes, 64);
    } else {
        write_header(link, s, bytes);
        if (VB_MESSAGE == bytes[0]) {
            size += next16(s) % (p->config.buffer_size + 1);
        }
        if (2 == how % 4) {
            change(s, bytes, size);
            size = how >> 2 & 1 ? size - size % 8 + (how >> 3) % 8 : size;
        }
    }
    p->has_heard_nonsense |= VB_OPEN == p->peer->conn.state && !from->is_broken && !to->is_broken
                             && !is_message_or_control(p, bytes, size, VB_MESSAGE, VB_BYE);
    send_raw(from, bytes, size < sizeof(bytes) ? size : sizeof(bytes));
}

/* ---- what is in datagrams: the engine carries it whole and in order ---- */

/* A part of a connection that goes by another port, as the other process says it: to its window, or beyond all that is registered. */
static void forge_part(process_t *p, script_t *s)
{
    struct {
        vb_part_wire_t wire;
        uint8_t data[256];
    } said;
    process_t *q = other(p);
    const unsigned what = next(s), number = next(s), length = next(s);
    if (NULL == p->port || NULL == q->port) {
        return;
    }
    const vb_link_t *link = NULL == p->peer ? NULL : p->peer->link;
    const bool goes = NULL != link && NULL != link->failover;
    /* (What is in it first: the attempt and who began it, which the other process knows.) */
    vb_part_t part = {.kind = (vb_part_kind_t) (what % (VB_PART_KINDS + 1)),
                      .is_last = what & 8,
                      .is_mine = what & 16,
                      .number = number & 64 ? number % 8 : last_part.number + number % 2,
                      .length = length,
                      .rkey = p->mr->rkey + (number & 128 ? 1 : 0),
                      .attempt = goes && number & 32 ? last_part.attempt : number,
                      .remote = (uintptr_t) window_of(p) + (number & 16 ? UINT32_MAX : next(s) % (WINDOW - 256))};
    part.is_mine = goes && number & 32 ? last_part.is_mine : part.is_mine;
    vb_part_write(&said.wire, &part);
    (void) some_bytes(s, said.data, sizeof(said.data));
    vb_port_lock(p->port);
    vb_port_take_part(p->port, q->config.name, &said,
                      what & 128 ? what : sizeof(said.wire) + (VB_PART_READ == part.kind ? 0 : length));
    vb_port_unlock(p->port);
}

static unsigned forged_messages[PROCESSES];
static uint8_t forged_bytes[PROCESSES][IW_INLINE_MAX];
static size_t forged_size[PROCESSES];

iw_status_t __real_iw_post_send(iw_peer_t *peer, const struct iovec *piece, unsigned count,
                                unsigned flags, void *context);
iw_status_t __wrap_iw_post_send(iw_peer_t *peer, const struct iovec *piece, unsigned count,
                                unsigned flags, void *context);
iw_status_t __wrap_iw_post_send(iw_peer_t *peer, const struct iovec *piece, unsigned count,
                                unsigned flags, void *context)
{
    for (unsigned i = 0; i < PROCESSES; ++i) {
        const vb_peer_t *known = NULL == fuzzed[i] ? NULL : fuzzed[i]->peer;
        if (forged_messages[i] > 0 && NULL != known && NULL != known->mate
            && known->mate->peer == peer) {
            --forged_messages[i];
            const struct iovec other_piece = {forged_bytes[i], forged_size[i]};
            const iw_status_t status =
                __real_iw_post_send(peer, &other_piece, 1, flags | IW_INLINE, context);
            process_t *to = other(fuzzed[i]);
            to->has_heard_nonsense |=
                IW_OK == status && IW_ACTIVE == peer->state
                && !is_message_or_control(to, forged_bytes[i], forged_size[i], VB_LEAVE, VB_GAVE_UP);
            return status;
        }
    }
    return __real_iw_post_send(peer, piece, count, flags, context);
}

static void forge_in_datagrams(process_t *p, script_t *s)
{
    const unsigned i = p->index, kind = next(s);
    forged_messages[i] = 1 + (kind >> 6);
    if (0 == kind % 4) {
        forged_size[i] = some_bytes(s, forged_bytes[i], 64);
        return;
    }
    vb_hdr_t hdr;
    vb_hdr_write(&hdr, (vb_type_t) (kind >> 2 & 15), (uint8_t) kind, 0, (uint16_t) (next(s) % 4));
    memcpy(forged_bytes[i], &hdr, sizeof(hdr));
    forged_size[i] = sizeof(hdr) + (3 == kind % 4 ? next(s) % 64 : 0);
}

/* ---- datagrams ---- */

/* The last one that each side sent, and a queue pair that belongs to nobody. */
static uint8_t last_datagram[PROCESSES][4096];
static size_t last_size[PROCESSES];
static struct {
    struct ibv_cq *cq;
    struct ibv_pd *pd;
    struct ibv_qp *qp;
} nobody;

static int watch_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if (IBV_QPT_UD == qp->qp_type && qp != nobody.qp) {
        const unsigned i = (unsigned) ((node_t *) qp->context - fake_nodes) - 1;
        const struct ibv_sge *piece = wr->sg_list;
        if (i < PROCESSES && 1 == wr->num_sge && piece->length <= sizeof(last_datagram[i])) {
            memcpy(last_datagram[i], (void *) (uintptr_t) piece->addr, piece->length);
            last_size[i] = piece->length;
        }
    }
    return fake_post_send(qp, wr, bad);
}

static void be_nobody(void)
{
    struct ibv_context *context = &fake_nodes[FAKE_NODES].context;
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD};
    struct ibv_qp_attr state = {.qp_state = IBV_QPS_RTS};
    nobody.pd = ibv_alloc_pd(context);
    nobody.cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    attr.send_cq = attr.recv_cq = nobody.cq;
    nobody.qp = ibv_create_qp(nobody.pd, &attr);
    MUST(NULL != nobody.qp && 0 == ibv_modify_qp(nobody.qp, &state, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void forge_datagram(process_t *p, script_t *s)
{
    uint8_t bytes[4096 + 64], key[16];
    vb_dgram_address_t there;
    struct ibv_send_wr *bad;
    size_t size;
    const unsigned how = next(s), from = how & 4 ? p->index : other(p)->index;
    if (!vb_port_datagrams(p->port, &there, key)) {
        return;
    }
    if (0 == how % 4) {
        size = some_bytes(s, bytes, 255);
    } else {
        size = last_size[from];
        memcpy(bytes, last_datagram[from], size);
        change(s, bytes, size);
        if (3 == how % 4) {
            size = size > 0 ? next16(s) % size : 0;
        }
    }
    if (NULL == nobody.qp) {
        be_nobody();
    }
    struct ibv_sge piece = {.addr = (uintptr_t) bytes, .length = (uint32_t) size};
    struct ibv_send_wr wr = {
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_INLINE,
        .wr.ud = {.remote_qpn = there.number, .remote_qkey = there.qkey + (how >> 7)}};
    (void) fake_post_send(nobody.qp, &wr, &bad);
}

/* ---- beginning and end ---- */

static void wicked_begin(world_t *w)
{
    memset(forged, 0, sizeof(forged));
    memset(strangers, 0, sizeof(strangers));
    memset(welcomed, 0, sizeof(welcomed));
    memset(forged_messages, 0, sizeof(forged_messages));
    memset(last_size, 0, sizeof(last_size));
    for (unsigned i = 0; i < PROCESSES; ++i) {
        fuzzed[i] = &w->process[i];
        fake_nodes[i + 1].context.ops.post_send = watch_send;
    }
}

static void wicked_end(void)
{
    if (NULL != nobody.qp) {
        (void) ibv_destroy_qp(nobody.qp);
        (void) ibv_destroy_cq(nobody.cq);
        (void) ibv_dealloc_pd(nobody.pd);
        nobody.qp = NULL;
    }
    memset(fuzzed, 0, sizeof(fuzzed));
}

#endif
