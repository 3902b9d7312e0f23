/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See spectrum_wire.h: the verbs transport over adapters that are not there. Fragments, flags and what is done when a
 * request is complete are as in btl_ibx_verbs_message.c and btl_ibx_verbs_inplace.c. */
#include "fake_verbs.h"
#include "freq_rule.h"
#include "spectrum_wire.h"
#include "vb_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENDER = 1, RECEIVER = 2, FRAGMENTS = 256, TAG = 1 };

typedef struct fragment {
    _Alignas(64) char header[SPECTRUM_HEADER]; /* vb_hdr_t first */
    char data[FREQ_SIZE_MAX];
    /* Not of the message. */
    struct fragment *next;
    lazy_entry_t *entry; /* of what is in place */
    char *user;          /* a get: where the data is to be in the end */
    size_t size;
    freq_gate_t *gate;
} fragment_t;

static struct {
    vb_port_t *port[RECEIVER + 1];
    vb_peer_t *peer;
    fragment_t *idle;
    struct ibv_mr *fragments, *target;
    char *there; /* what puts and gets are of */
    unsigned done;
    spectrum_op_t op;
} wire;

static fragment_t *take(void)
{
    fragment_t *f = wire.idle;
    if (NULL == f) {
        fprintf(stderr, "spectrum: no fragment is idle\n");
        exit(1);
    }
    wire.idle = f->next;
    f->entry = NULL;
    f->user = NULL;
    return f;
}

static void on_done(void *context, vb_peer_t *peer, void *request, vb_status_t status)
{
    fragment_t *f = request;
    (void) context, (void) peer;
    if (VB_OK != status) {
        fprintf(stderr, "spectrum: a work request failed\n");
        exit(1);
    }
    if (NULL != f->entry) {
        spectrum_complete(f->entry);
    }
    if (NULL != f->user) {
        spectrum_copy(f->user, f->data, f->size, f->gate);
    }
    f->next = wire.idle;
    wire.idle = f;
    ++wire.done;
}

static void on_ready(void *context, vb_peer_t *peer)
{
    (void) context, (void) peer;
}

static void on_down(void *context, vb_peer_t *peer, const char *why)
{
    (void) context, (void) peer;
    fprintf(stderr, "spectrum: the connection is gone: %s\n", why);
    exit(1);
}

/* What has arrived at a process, and what is done there. */
static int progress(int which)
{
    enum { MOST = 16 };
    vb_received_t got[MOST];
    int events;
    vb_port_lock(wire.port[which]);
    const int n = vb_port_poll(wire.port[which], got, MOST, &events);
    vb_port_return(wire.port[which], got, n);
    vb_port_unlock(wire.port[which]);
    return n;
}

static void others(void)
{
    while (progress(RECEIVER) > 0) {}
}

static void post(struct ibv_sge *piece, int pieces, unsigned flags, fragment_t *f)
{
    vb_status_t status = VB_LOST;
    vb_port_lock(wire.port[SENDER]);
    switch (wire.op) {
    case SPECTRUM_SEND:
        status = vb_post_send(wire.peer, (vb_hdr_t *) f->header, TAG, piece, pieces, flags, f);
        break;
    case SPECTRUM_PUT:
        status =
            vb_post_rdma(wire.peer, piece, (uintptr_t) wire.there, wire.target->rkey, flags, f);
        break;
    case SPECTRUM_GET:
        status =
            vb_post_rdma(wire.peer, piece, (uintptr_t) wire.there, wire.target->rkey, flags | VB_READ, f);
        break;
    }
    vb_port_unlock(wire.port[SENDER]);
    if (VB_OK != status) {
        fprintf(stderr, "spectrum: posting failed (%d)\n", (int) status);
        exit(1);
    }
    (void) progress(SENDER);
}

static struct ibv_sge sge(const void *at, size_t size, const struct ibv_mr *mr)
{
    return (struct ibv_sge){.addr = (uintptr_t) at, .length = (uint32_t) size, .lkey = mr->lkey};
}

static void copied(char *buffer, size_t size, freq_gate_t *gate)
{
    fragment_t *f = take();
    const size_t before = SPECTRUM_SEND == wire.op ? SPECTRUM_HEADER : 0;
    struct ibv_sge piece = sge(f->data - before, before + size, wire.fragments);
    if (SPECTRUM_GET == wire.op) {
        f->user = buffer;
        f->size = size;
        f->gate = gate;
        post(&piece, 1, VB_SIGNAL, f);
        return;
    }
    if (before + size
        <= (SPECTRUM_SEND == wire.op ? vb_inline_max(wire.peer) : vb_inline_put_max(wire.peer))) {
        if (SPECTRUM_PUT == wire.op) {
            piece.addr = (uintptr_t) buffer;
        } else {
            memcpy(f->data, buffer, size);
        }
        post(&piece, 1, VB_INLINE | (SPECTRUM_PUT == wire.op ? VB_SIGNAL : 0), f);
        return;
    }
    spectrum_copy(f->data, buffer, size, gate);
    post(&piece, 1, SPECTRUM_SEND == wire.op ? 0 : VB_SIGNAL, f);
}

static void in_place(char *buffer, size_t size, lazy_entry_t *e)
{
    fragment_t *f = take();
    const struct ibv_mr *mr = *(struct ibv_mr **) e->data;
    struct ibv_sge piece[2] = {sge(f->header, SPECTRUM_HEADER, wire.fragments),
                               sge(buffer, size, mr)};
    f->entry = e;
    post(SPECTRUM_SEND == wire.op ? piece : piece + 1, 2, VB_SIGNAL, f);
}

static size_t inline_max(void)
{
    return SPECTRUM_SEND == wire.op  ? vb_inline_max(wire.peer) - SPECTRUM_HEADER
           : SPECTRUM_PUT == wire.op ? vb_inline_put_max(wire.peer)
                                     : 0;
}

static bool enter(lazy_entry_t *e)
{
    struct ibv_mr *mr = ibv_reg_mr(vb_port_pd(wire.port[SENDER]), (void *) lazy_base(e),
                                   lazy_size(e), IBV_ACCESS_LOCAL_WRITE);
    *(struct ibv_mr **) e->data = mr;
    return NULL != mr;
}

static void leave(lazy_entry_t *e)
{
    (void) ibv_dereg_mr(*(struct ibv_mr **) e->data);
}

static const char *start(unsigned node)
{
    static char why[256];
    vb_config_t c;
    vb_config_default(&c);
    c.address = fake_address(node, 0);
    c.name = node;
    c.key = 1000 + node;
    c.window_initial = 4 * SPECTRUM_BATCH;
    c.buffer_size = SPECTRUM_HEADER + FREQ_SIZE_MAX;
    c.thread = false;
    c.done = on_done;
    c.ready = on_ready;
    c.down = on_down;
    wire.port[node] = vb_port_open(&c, why, sizeof(why));
    return NULL == wire.port[node] ? why : NULL;
}

static const char *open_wire(spectrum_op_t op)
{
    const char *why;
    fake_reset();
    fake.hands_off = true;
    if (NULL != (why = start(SENDER)) || NULL != (why = start(RECEIVER))) {
        return why;
    }
    fragment_t *f;
    if (0 != posix_memalign((void **) &f, 4096, FRAGMENTS * sizeof(*f))
        || 0 != posix_memalign((void **) &wire.there, 4096, FREQ_SIZE_MAX)) {
        return "no memory";
    }
    memset(f, 1, FRAGMENTS * sizeof(*f));
    memset(wire.there, 1, FREQ_SIZE_MAX);
    for (int i = 0; i < FRAGMENTS; ++i) {
        f[i].next = wire.idle;
        wire.idle = &f[i];
    }
    wire.fragments = ibv_reg_mr(vb_port_pd(wire.port[SENDER]), f, FRAGMENTS * sizeof(*f),
                                IBV_ACCESS_LOCAL_WRITE);
    wire.target =
        ibv_reg_mr(vb_port_pd(wire.port[RECEIVER]), wire.there, FREQ_SIZE_MAX,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    const struct sockaddr_in there = fake_address(RECEIVER, vb_port_number(wire.port[RECEIVER]));
    wire.peer = vb_peer_add(wire.port[SENDER], RECEIVER, &there, 1000 + RECEIVER, NULL);
    /* The first message makes the connection. */
    fragment_t *first = take();
    struct ibv_sge piece = sge(first->header, SPECTRUM_HEADER, wire.fragments);
    for (int i = 0;
         VB_AGAIN
         == vb_post_send(wire.peer, (vb_hdr_t *) first->header, TAG, &piece, 1, VB_SIGNAL, first);
         ++i) {
        if (i > 100) {
            return "no connection was made";
        }
        vb_port_events(wire.port[SENDER], 0);
        vb_port_events(wire.port[RECEIVER], 0);
        (void) progress(RECEIVER);
        (void) progress(SENDER);
    }
    others();
    (void) progress(SENDER);
    wire.op = op;
    return 1 == wire.done ? NULL : "the first message was not done";
}

const spectrum_wire_t spectrum_verbs = {.name = "verbs",
                                        .open = open_wire,
                                        .enter = enter,
                                        .leave = leave,
                                        .inline_max = inline_max,
                                        .copied = copied,
                                        .in_place = in_place,
                                        .others = others};
