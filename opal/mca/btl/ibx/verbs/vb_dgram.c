/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends and receives the engine's datagrams through a UD queue pair, and keeps its address handles. */
#include "vb_dgram.h"
#include "vb_internal.h"

#include <errno.h>
#include <stdlib.h>

#define SLOTS 64u /* datagrams being sent */

/* What a datagram in flight counts besides its bytes, as the engine counts it. */
#define OVERHEAD 512u

/* ---- opening ---- */

static bool open_queues(vb_dgram_t *d, uint32_t receives, char *why, size_t size)
{
    vb_port_t *port = d->port;
    d->entries.limit = receives + SLOTS;
    d->cq = ibv_create_cq(port->context, (int) d->entries.limit, NULL, port->notices, 0);
    if (NULL == d->cq) {
        return vb_fails(why, size, "no completion queue of %u entries: %s", d->entries.limit,
                 strerror(errno));
    }
    d->qp = vb_address_datagrams(&d->address, port, d->cq, SLOTS, receives, d->own.qkey);
    if (NULL == d->qp) {
        return vb_fails(why, size, "no UD queue pair: %s", strerror(errno));
    }
    d->own.number = d->qp->qp_num;
    return true;
}

/* The window counts messages; here it counts the datagrams that they are. */
static bool open_buffers(vb_dgram_t *d, uint32_t messages, uint32_t receives, char *why,
                         size_t size)
{
    vb_port_t *port = d->port;
    const uint32_t each = (port->config.buffer_size + d->mtu - 1) / d->mtu + 1;
    const uint32_t initial = messages * each < receives ? messages * each : receives;
    vb_rx_init(&d->rx, port, &d->drains, 0, 0, receives, initial, receives, spec_now());
    d->rx.size = d->mtu + VB_DGRAM_GRH;
    d->rx.pool = &d->entries;
    d->rx.qp = d->qp;
    d->has_rx = true;
    vb_sendq_init(&d->sendq, SLOTS);
    d->slots = aligned_alloc(64, (size_t) SLOTS * d->mtu);
    d->slots_mr = NULL == d->slots ? NULL
                                   : ibv_reg_mr(port->pd, d->slots, (size_t) SLOTS * d->mtu,
                                                IBV_ACCESS_LOCAL_WRITE);
    return (NULL != d->slots_mr && vb_rx_fill(&d->rx) >= initial)
           || vb_fails(why, size, "%u datagrams of %u bytes cannot be registered (ulimit -l?)", initial, d->rx.size);
}

bool vb_dgram_open(vb_dgram_t *d, vb_port_t *port, uint32_t messages, uint32_t receives, char *why, size_t size)
{
    *d = (vb_dgram_t){.port = port};
    if (!vb_address_find(&d->address, port, why, size)) {
        return false;
    }
    d->own.qkey = port->config.datagram.qkey & 0x7fffffffu;
    d->own.lid = d->address.lid;
    memcpy(d->own.gid, d->address.gid, sizeof(d->own.gid));
    d->mtu = (uint16_t) vb_address_mtu(&d->address);
    return (d->mtu >= VB_DGRAM_MTU_MIN
            || vb_fails(why, size, "its datagrams have %u bytes and %u are needed", d->mtu, VB_DGRAM_MTU_MIN))
           && open_queues(d, receives, why, size) && open_buffers(d, messages, receives, why, size);
}

void vb_dgram_close(vb_dgram_t *d)
{
    if (NULL != d->qp) {
        (void) ibv_destroy_qp(d->qp);
    }
    for (uint32_t i = 0; i < d->targets; ++i) {
        if (NULL != d->target[i].ah) {
            (void) ibv_destroy_ah(d->target[i].ah);
        }
    }
    free(d->target);
    if (d->has_rx) {
        vb_rx_destroy(&d->rx);
    }
    if (NULL != d->slots_mr) {
        (void) ibv_dereg_mr(d->slots_mr);
    }
    free(d->slots);
    if (NULL != d->cq) {
        (void) ibv_destroy_cq(d->cq);
    }
}

uint32_t vb_dgram_space(const vb_dgram_t *d)
{
    return d->rx.window.current * (d->mtu + OVERHEAD);
}

vb_datagram_use_t vb_dgram_use(const vb_dgram_t *d)
{
    vb_datagram_use_t use = d->count;
    use.mtu = d->mtu;
    use.window = d->rx.window.current;
    use.memory = (size_t) SLOTS * d->mtu + d->targets * sizeof(*d->target);
    return use;
}

/* ---- addresses ---- */

/* The engine knows an address as something to give back with a packet: a number of the table. */
static void name_target(iw_address_t *to, uint32_t at)
{
    memset(to, 0, sizeof(*to));
    to->v4.sin_family = AF_INET;
    to->v4.sin_addr.s_addr = at;
}

static vb_target_t *target_of(vb_dgram_t *d, const iw_address_t *to)
{
    const uint32_t at = to->v4.sin_addr.s_addr;
    return at < d->targets && NULL != d->target[at].ah && !d->target[at].is_parted ? &d->target[at]
                                                                                   : NULL;
}

static bool free_target(vb_dgram_t *d, uint32_t *at)
{
    for (*at = 0; *at < d->targets; ++*at) {
        vb_target_t *target = &d->target[*at];
        if (target->is_parted && (int32_t) (d->sendq.una - target->until) >= 0) {
            (void) ibv_destroy_ah(target->ah);
            *target = (vb_target_t){.ah = NULL};
        }
        if (NULL == target->ah) {
            return true;
        }
    }
    const uint32_t room = 0 == d->targets ? 16 : 2 * d->targets;
    vb_target_t *table = realloc(d->target, room * sizeof(*table));
    if (NULL == table) {
        return false;
    }
    memset(table + d->targets, 0, (room - d->targets) * sizeof(*table));
    d->target = table;
    d->targets = room;
    return true;
}

bool vb_dgram_meet(vb_dgram_t *d, const vb_dgram_address_t *there, iw_address_t *to)
{
    uint32_t at;
    struct ibv_ah_attr attr;
    if (!vb_address_route(&d->address, d->port, there->lid, there->gid, &attr) || !free_target(d, &at)) {
        return false;
    }
    struct ibv_ah *ah = ibv_create_ah(d->port->pd, &attr);
    if (NULL == ah) {
        return false;
    }
    d->target[at] = (vb_target_t){.ah = ah, .number = there->number, .qkey = there->qkey};
    name_target(to, at);
    return true;
}

void vb_dgram_part(vb_dgram_t *d, const iw_address_t *to)
{
    vb_target_t *target = target_of(d, to);
    if (NULL != target) {
        target->is_parted = true;
        target->until = d->sendq.nxt;
    }
}

/* ---- sending ---- */

/* False: not now. */
static bool send_packet(vb_dgram_t *d, const iw_packet_t *k)
{
    const vb_target_t *target = target_of(d, &k->to);
    if (NULL == target || k->length > d->mtu) {
        return true; /* lost on the way, as datagrams are */
    }
    char *slot = d->slots + (size_t) (d->sendq.nxt % SLOTS) * d->mtu;
    size_t length = 0;
    for (unsigned i = 0; i < k->count; ++i) {
        memcpy(slot + length, k->piece[i].iov_base, k->piece[i].iov_len);
        length += k->piece[i].iov_len;
    }
    const bool signal = vb_sendq_must_signal(&d->sendq, SLOTS / 4);
    struct ibv_sge sge = {
        .addr = (uintptr_t) slot, .length = (uint32_t) length, .lkey = d->slots_mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = vb_wr_id(false, 0, d->sendq.nxt),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = signal ? IBV_SEND_SIGNALED : 0,
        .wr.ud = {.ah = target->ah, .remote_qpn = target->number, .remote_qkey = target->qkey}};
    struct ibv_send_wr *bad;
    if (0 != ibv_post_send(d->qp, &wr, &bad)) {
        ++d->count.errors;
        return false;
    }
    (void) vb_sendq_post(&d->sendq, signal);
    ++d->count.sent;
    return true;
}

void vb_dgram_flush(vb_dgram_t *d, uint64_t now)
{
    while (iw_engine_has_output(d->engine)) {
        const uint32_t room = SLOTS - vb_sendq_outstanding(&d->sendq);
        const unsigned n = iw_engine_output(d->engine, now, d->packet, room < VB_BATCH ? room : VB_BATCH);
        for (unsigned i = 0; i < n; ++i) {
            if (!send_packet(d, &d->packet[i])) {
                iw_engine_not_taken(d->engine, &d->packet[i], n - i);
                return;
            }
        }
        if (0 == room) {
            return;
        }
    }
}

/* A local error stops the send queue: go on with it, what was in it is lost (and sent again). */
static void on_sent(vb_dgram_t *d, const struct ibv_wc *wc)
{
    const uint32_t number = vb_wr_number(wc->wr_id);
    if (IBV_WC_SUCCESS != wc->status) {
        struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
        ++d->count.errors;
        (void) ibv_modify_qp(d->qp, &rts, IBV_QP_STATE);
    }
    if (vb_sendq_is_outstanding(&d->sendq, number)) {
        d->sendq.una = number + 1;
    }
}

/* ---- receiving ---- */

static void on_received(vb_dgram_t *d, const struct ibv_wc *wc, uint64_t now)
{
    const uint32_t buffer = vb_wr_number(wc->wr_id);
    const uint8_t *data = vb_rx_take(&d->rx, buffer);
    if (NULL == data) {
        ++d->count.errors;
        return;
    }
    if (IBV_WC_SUCCESS != wc->status || wc->byte_len <= VB_DGRAM_GRH || wc->byte_len > d->rx.size) {
        ++d->count.errors;
    } else {
        ++d->count.received;
        iw_engine_input(d->engine, now, data + VB_DGRAM_GRH, wc->byte_len - VB_DGRAM_GRH);
    }
    vb_rx_return(&d->rx, buffer);
}

/* As the limit event of a shared queue says it: this one is watched by counting. */
static void watch_window(vb_dgram_t *d, uint64_t now)
{
    if (vb_rx_free(&d->rx) < ibx_window_limit(&d->rx.window)
        && d->rx.window.current < d->rx.window.max) {
        ++d->count.starved;
        vb_rx_starved(&d->rx, now);
        iw_set_receive_space(d->engine, vb_dgram_space(d));
    }
}

/* All that is there: a window that is taken only in part seems wider than it is. */
static unsigned receive(vb_dgram_t *d, uint64_t now)
{
    struct ibv_wc wc[VB_BATCH];
    unsigned arrived = 0;
    int n;
    do {
        n = ibv_poll_cq(d->cq, VB_BATCH, wc);
        for (int i = 0; i < n; ++i) {
            if (vb_wr_is_receive(wc[i].wr_id)) {
                on_received(d, &wc[i], now);
                ++arrived;
            } else {
                on_sent(d, &wc[i]);
            }
        }
    } while (VB_BATCH == n && arrived < d->rx.window.current);
    d->drains += VB_BATCH > n;
    if (arrived > 0) {
        watch_window(d, now);
        (void) vb_rx_fill(&d->rx);
    }
    return arrived;
}

unsigned vb_dgram_progress(vb_dgram_t *d, uint64_t now)
{
    const unsigned arrived = receive(d, now);
    if (iw_engine_deadline(d->engine) <= now) {
        iw_engine_timers(d->engine, now);
    }
    if (iw_engine_has_output(d->engine)) {
        vb_dgram_flush(d, now);
    }
    return arrived;
}

void vb_dgram_check(vb_dgram_t *d, uint64_t now)
{
    vb_rx_check(&d->rx, now);
    iw_set_receive_space(d->engine, vb_dgram_space(d));
}
