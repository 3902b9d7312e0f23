/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sends and receives the engine's datagrams through a UD queue pair, and keeps its address handles. */
#include "vb_dgram.h"
#include "vb_internal.h"

#include <errno.h>
#include <stdlib.h>

/* What a datagram in flight counts besides its bytes, as the engine counts it. */
#define OVERHEAD 512u

/* ---- opening ---- */

/* The window counts messages; here it counts the datagrams that they are. */
static bool open_buffers(vb_dgram_t *d, uint32_t messages, uint32_t receives, char *why,
                         size_t size)
{
    vb_port_t *port = d->port;
    const uint32_t each = (port->config.buffer_size + d->mtu - 1) / d->mtu + 1;
    const uint32_t initial = messages * each < receives ? messages * each : receives;
    vb_rx_init(&d->rx, port, &d->drains, 0, 0, receives, initial, receives, spec_now());
    d->rx.size = d->mtu + VB_UD_GRH;
    d->entries.limit = receives + VB_UD_SLOTS;
    d->rx.pool = &d->entries;
    d->rx.qp = d->ud.qp;
    d->has_rx = true;
    return vb_rx_fill(&d->rx) >= initial
           || vb_fails(why, size, "%u datagrams of %u bytes cannot be registered (ulimit -l?)", initial, d->rx.size);
}

bool vb_dgram_open(vb_dgram_t *d, vb_port_t *port, uint32_t messages, uint32_t receives, char *why, size_t size)
{
    *d = (vb_dgram_t){.port = port};
    if (!vb_ud_find(&d->ud, port, why, size)) {
        return false;
    }
    d->mtu = (uint16_t) vb_address_mtu(&d->ud.address);
    return (d->mtu >= VB_DGRAM_MTU_MIN
            || vb_fails(why, size, "its datagrams have %u bytes and %u are needed", d->mtu, VB_DGRAM_MTU_MIN))
           && vb_ud_open(&d->ud, port->notices, port, d->mtu, receives, why, size) && open_buffers(d, messages, receives, why, size);
}

void vb_dgram_close(vb_dgram_t *d)
{
    vb_ud_close(&d->ud);
    if (d->has_rx) {
        vb_rx_destroy(&d->rx);
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
    use.memory = (size_t) VB_UD_SLOTS * d->mtu + d->ud.targets * sizeof(*d->ud.target);
    return use;
}

/* ---- addresses ---- */

/* The engine knows an address as something to give back with a packet: the number of the target. */
bool vb_dgram_meet(vb_dgram_t *d, const vb_dgram_address_t *there, iw_address_t *to)
{
    const uint32_t target = vb_ud_meet(&d->ud, there);
    memset(to, 0, sizeof(*to));
    to->v4.sin_family = AF_INET;
    to->v4.sin_addr.s_addr = target;
    return 0 != target;
}

void vb_dgram_part(vb_dgram_t *d, const iw_address_t *to)
{
    vb_ud_part(&d->ud, to->v4.sin_addr.s_addr);
}

/* ---- sending ---- */

/* There is a slot. False: not now. */
static bool send_packet(vb_dgram_t *d, const iw_packet_t *k)
{
    char *slot = vb_ud_slot(&d->ud);
    size_t length = 0;
    if (k->length > d->mtu) {
        return true; /* lost on the way, as datagrams are */
    }
    for (unsigned i = 0; i < k->count; ++i) {
        memcpy(slot + length, k->piece[i].iov_base, k->piece[i].iov_len);
        length += k->piece[i].iov_len;
    }
    if (!vb_ud_send(&d->ud, k->to.v4.sin_addr.s_addr, (uint32_t) length, vb_sendq_must_signal(&d->ud.sendq, VB_UD_SLOTS / 4))) {
        ++d->count.errors;
        return false;
    }
    ++d->count.sent;
    return true;
}

void vb_dgram_flush(vb_dgram_t *d, uint64_t now)
{
    while (iw_engine_has_output(d->engine)) {
        const uint32_t room = VB_UD_SLOTS - vb_sendq_outstanding(&d->ud.sendq);
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

/* ---- receiving ---- */

static void on_received(vb_dgram_t *d, const struct ibv_wc *wc, uint64_t now)
{
    const uint32_t buffer = vb_wr_number(wc->wr_id);
    const uint8_t *data = vb_rx_take(&d->rx, buffer);
    if (NULL == data) {
        ++d->count.errors;
        return;
    }
    d->is_broken |= IBV_WC_WR_FLUSH_ERR == wc->status;
    if (IBV_WC_SUCCESS != wc->status || wc->byte_len <= VB_UD_GRH || wc->byte_len > d->rx.size) {
        ++d->count.errors;
    } else {
        ++d->count.received;
        iw_engine_input(d->engine, now, data + VB_UD_GRH, wc->byte_len - VB_UD_GRH);
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

/* When the adapter has given back all that was posted: then nothing is left of before. The engine sends again what is lost. */
static void renew(vb_dgram_t *d)
{
    if (0 == d->rx.posted && vb_ud_renew(&d->ud)) {
        d->is_broken = false;
        (void) vb_rx_fill(&d->rx);
    }
}

/* All that is there: a window that is taken only in part seems wider than it is. */
static unsigned receive(vb_dgram_t *d, uint64_t now)
{
    struct ibv_wc wc[VB_BATCH];
    unsigned arrived = 0;
    int n;
    do {
        n = ibv_poll_cq(d->ud.cq, VB_BATCH, wc);
        for (int i = 0; i < n; ++i) {
            if (vb_wr_is_receive(wc[i].wr_id)) {
                on_received(d, &wc[i], now);
                ++arrived;
            } else {
                d->count.errors += !vb_ud_sent(&d->ud, &wc[i]);
            }
        }
    } while (VB_BATCH == n && arrived < d->rx.window.current);
    d->drains += VB_BATCH > n;
    if (d->is_broken) {
        renew(d);
    } else if (arrived > 0) {
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
