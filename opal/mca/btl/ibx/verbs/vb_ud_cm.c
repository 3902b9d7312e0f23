/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections made by datagrams, without rdma_cm: requests and answers through a UD queue pair of the port, its mailbox;
 * what they mean says vb_handshake.h. */
#include "vb_connect.h"
#include "vb_ud.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/* Datagrams that may wait for the thread: each process has a few requests under way at a time, and what is lost is said again. */
#define RECEIVES 512u

#define ASKED    256u /* requests that wait their turn; one that finds no room is said again */

struct vb_mailbox {
    vb_ud_t ud;
    struct ibv_comp_channel *notices;
    char *memory; /* what is received */
    struct ibv_mr *mr;
    bool is_broken;
    vb_cm_message_t asked[ASKED]; /* the oldest first, one of each process */
    uint32_t asked_n;
    uint64_t number; /* of the newest attempt of mine */
};

/* What a link has of its making. */
struct vb_setup {
    vb_attempt_t attempt;
    uint32_t psn;
    vb_cm_wire_t said; /* request or welcome: the same each time, since its credits count once */
};

enum { RECEIVE_BYTES = VB_UD_GRH + sizeof(vb_cm_wire_t) };

static char *receive_buffer(const vb_mailbox_t *m, uint32_t n)
{
    return m->memory + (size_t) n * RECEIVE_BYTES;
}

/* ---- datagrams ---- */

static bool post_receive(vb_mailbox_t *m, uint32_t n)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t) receive_buffer(m, n), .length = RECEIVE_BYTES, .lkey = m->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = vb_wr_id(true, m->ud.renewals, n), .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;
    return 0 == ibv_post_recv(m->ud.qp, &wr, &bad);
}

/* It may be lost, here as on its way. */
static void send_message(const vb_peer_t *peer, const vb_cm_wire_t *wire)
{
    vb_ud_t *ud = &peer->port->mailbox->ud;
    char *slot = vb_ud_slot(ud);
    if (NULL != slot) {
        memcpy(slot, wire, sizeof(*wire));
        (void) vb_ud_send(ud, peer->target, sizeof(*wire), true);
    }
}

/* ---- what is said ---- */

static vb_cm_message_t message_about(const vb_peer_t *peer, vb_answer_t what, uint64_t number,
                                     bool is_mine)
{
    const vb_config_t *config = &peer->port->config;
    const vb_dgram_address_t *own = &peer->port->mailbox->ud.own;
    vb_cm_message_t message = {.hello = {.answer = what,
                                         .buffer = config->buffer_size,
                                         .name = vb_peer_own_name(peer),
                                         .key = peer->key},
                               .number = number,
                               .key = config->key,
                               .mailbox = own->number,
                               .qkey = own->qkey,
                               .lid = own->lid,
                               .is_mine = is_mine};
    memcpy(message.gid, own->gid, sizeof(message.gid));
    return message;
}

/* Without a queue pair: a rejection, that an attempt is gone, that a welcome has been heard. */
static void say(const vb_peer_t *peer, vb_answer_t what, uint64_t number, bool is_mine)
{
    const vb_cm_message_t message = message_about(peer, what, number, is_mine);
    vb_cm_wire_t wire;
    vb_cm_write(&wire, &message);
    send_message(peer, &wire);
}

static void say_again(const vb_link_t *link)
{
    send_message(link->peer, &link->setup->said);
}

/* A request or a welcome. */
static void say_pair(vb_link_t *link, vb_answer_t what)
{
    const vb_port_t *port = link->peer->port;
    vb_setup_t *setup = link->setup;
    vb_cm_message_t message =
        message_about(link->peer, what, setup->attempt.number, VB_ASK == what);
    message.pair = link->qp->qp_num;
    message.psn = setup->psn;
    message.mtu = port->mailbox->ud.address.mtu;
    message.resources = port->responder_resources;
    message.depth = port->initiator_depth;
    vb_cm_write(&setup->said, &message);
    vb_hello_mine(link, what, &setup->said.hello);
    say_again(link);
}

/* ---- mailboxes of others ---- */

/* False: errno. A neighbour may be found only the next time. */
static bool reach(vb_peer_t *peer)
{
    errno = ENETUNREACH;
    if (0 == peer->target && 0 != peer->mailbox.number) {
        peer->target = vb_ud_meet(&peer->port->mailbox->ud, &peer->mailbox);
    }
    return 0 != peer->target;
}

static void leave(vb_peer_t *peer)
{
    if (0 != peer->target) {
        vb_ud_part(&peer->port->mailbox->ud, peer->target);
        peer->target = 0;
    }
}

static bool meet(vb_peer_t *peer, const vb_dgram_address_t *there)
{
    const vb_dgram_address_t *known = &peer->mailbox;
    if (known->number != there->number || known->qkey != there->qkey || known->lid != there->lid
        || 0 != memcmp(known->gid, there->gid, sizeof(known->gid))) {
        leave(peer);
        peer->mailbox = *there;
    }
    return reach(peer);
}

/* (One that asks, or says something late, is reached again for the answer.) */
void vb_mailbox_part(vb_peer_t *peer)
{
    if (vb_conn_is_over(&peer->conn) && NULL == peer->link) {
        leave(peer);
    }
}

bool vb_peer_add_mailbox(vb_peer_t *peer, const vb_dgram_address_t *there)
{
    if (NULL == peer->port->mailbox) {
        return false;
    }
    peer->connector = &vb_ud_cm; /* also if there is no way: an attempt says so */
    return meet(peer, there);
}

/* ---- links ---- */

static const char *begin(vb_link_t *link, const vb_asked_t *asked)
{
    vb_setup_t *setup = link->setup = calloc(1, sizeof(*link->setup));
    if (NULL == setup) {
        return "out of memory";
    }
    if (sizeof(setup->psn) != getrandom(&setup->psn, sizeof(setup->psn), 0)) {
        setup->psn = link->generation;
    }
    setup->psn &= 0xffffffu;
    if (NULL != asked) {
        vb_attempt_begin(&setup->attempt, asked->message->number, false, spec_now());
    }
    return NULL;
}

static bool create(vb_link_t *link, struct ibv_qp_init_attr *attr)
{
    const vb_port_t *port = link->peer->port;
    link->qp = vb_address_pair(&port->mailbox->ud.address, port, attr);
    return NULL != link->qp;
}

/* The queue pairs of both sides know each other. False: why is set. */
static bool connect_pair(vb_link_t *link, const vb_cm_message_t *there)
{
    return vb_link_connect(link, &link->peer->port->mailbox->ud.address, link->setup->psn, there);
}

static void disconnect(vb_link_t *link)
{
    vb_peer_t *peer = link->peer;
    const vb_attempt_t *attempt = &link->setup->attempt;
    vb_link_fail_pair(link);
    if (0 != attempt->number) {
        say(peer, VB_GONE, attempt->number, attempt->is_mine);
    }
    if (vb_conn_is_over(&peer->conn)) {
        leave(peer);
    }
}

static void destroy(vb_link_t *link)
{
    vb_link_destroy_pair(link);
    free(link->setup);
}

/* ---- asking ---- */

static vb_progress_t resolve(vb_link_t *link)
{
    vb_peer_t *peer = link->peer;
    if (!reach(peer)) {
        (void) vb_peer_why(peer, "no way to its port: %s", strerror(errno));
        return VB_STEP_FAILED;
    }
    return VB_STEP_DONE;
}

static bool ask(vb_link_t *link)
{
    vb_attempt_begin(&link->setup->attempt, ++link->peer->port->mailbox->number, true, spec_now());
    say_pair(link, VB_ASK);
    return true;
}

/* ---- answering ---- */

static bool welcome(vb_link_t *link, const vb_asked_t *asked)
{
    if (!connect_pair(link, asked->message)) {
        return false;
    }
    link->peer->handshake.answer = VB_WELCOME;
    say_pair(link, VB_WELCOME);
    return true;
}

static void reject(vb_port_t *port, const vb_asked_t *asked, vb_answer_t answer)
{
    vb_peer_t *peer = vb_map_get(&port->by_name, asked->hello.name);
    peer->handshake.answer = answer;
    say(peer, answer, asked->message->number, false);
}

const vb_connector_t vb_ud_cm = {
    .begin = begin,
    .resolve = resolve,
    .ask = ask,
    .welcome = welcome,
    .reject = reject,
    .create = create,
    .disconnect = disconnect,
    .destroy = destroy,
};

/* ---- what arrives ---- */

/* The peer that speaks. A requesting side may be answered although it is not known yet. NULL: nobody that can be talked to. */
static vb_peer_t *speaker(vb_port_t *port, const vb_cm_message_t *message)
{
    vb_peer_t *peer = vb_map_get(&port->by_name, message->hello.name);
    vb_dgram_address_t there = {
        .number = message->mailbox, .qkey = message->qkey, .lid = message->lid};
    memcpy(there.gid, message->gid, sizeof(there.gid));
    if (NULL != peer && 0 != peer->target) {
        return peer;
    }
    if (VB_ASK != message->hello.answer) {
        return NULL != peer && reach(peer) ? peer : NULL;
    }
    peer = vb_peer_add(port, message->hello.name, NULL, 0, NULL);
    if (NULL == peer || !meet(peer, &there)) {
        return NULL;
    }
    peer->key = peer->is_met ? peer->key : message->key;
    return peer;
}

static void on_request(vb_peer_t *peer, const vb_cm_message_t *message)
{
    const vb_asked_t asked = {.by = &vb_ud_cm,
                              .hello = message->hello,
                              .resources = message->resources,
                              .depth = message->depth,
                              .message = message};
    if (VB_PARTED == peer->conn.state) {
        vb_connect_ended(peer, "it has begun another connection"); /* and what said so was lost */
    }
    vb_connect_asked(peer->port, &asked);
}

static void on_answer(vb_link_t *link, const vb_cm_message_t *message)
{
    if (VB_WELCOME != message->hello.answer) {
        vb_connect_rejected(link->peer, &message->hello, 0);
    } else if (vb_connect_is_welcome(link, &message->hello)) {
        const bool is_good = connect_pair(link, message);
        if (is_good) {
            say(link->peer, VB_READY, message->number, true);
        }
        vb_peer_step(link->peer, is_good ? VB_ON_ESTABLISHED : VB_ON_FAILED);
    }
}

/* What it says is done. */
static void obey(vb_peer_t *peer, const vb_cm_message_t *message)
{
    vb_attempt_t none = {.number = 0};
    vb_link_t *link = peer->link;
    vb_attempt_t *attempt = NULL == link || NULL == link->setup ? &none : &link->setup->attempt;
    switch (vb_handshake_hear(&peer->handshake, attempt, message)) {
    case VB_IS_ASKED:
        on_request(peer, message);
        break;
    case VB_IS_REPEATED:
        if (VB_WELCOME == peer->handshake.answer) {
            say_again(link);
        } else {
            say(peer, peer->handshake.answer, message->number, false);
        }
        break;
    case VB_IS_ANSWERED:
        on_answer(link, message);
        break;
    case VB_IS_UNHEARD:
        say(peer, VB_READY, message->number, true);
        break;
    case VB_IS_READY:
        vb_peer_step(peer, VB_ON_ESTABLISHED);
        break;
    case VB_IS_IN_VAIN:
        say(peer, VB_GONE, message->number, !message->is_mine);
        break;
    case VB_IS_ENDED:
        vb_connect_ended(peer, "it closed the connection");
        break;
    case VB_NOTHING:
        break;
    }
}

static void handle(vb_port_t *port, const vb_cm_message_t *message)
{
    vb_peer_t *peer = speaker(port, message);
    if (NULL == peer) {
        ++port->counters.strangers;
        return;
    }
    obey(peer, message);
    vb_mailbox_part(peer);
}

/* Requests wait until all else is heard: a queue pair for each takes long, and those behind them whose time is up, and the
 * words that end the waiting for others, would come too late where all ask all at once. */
static void queue_request(vb_mailbox_t *m, const vb_cm_message_t *request)
{
    uint32_t i = 0;
    while (i < m->asked_n && m->asked[i].hello.name != request->hello.name) {
        ++i;
    }
    if (i == m->asked_n && i < ASKED) {
        m->asked[m->asked_n++] = *request;
    } else if (i < m->asked_n && request->number > m->asked[i].number) {
        m->asked[i] = *request; /* what it asked before it has given up */
    }
}

static void drop_request(vb_mailbox_t *m, uint32_t i)
{
    --m->asked_n;
    memmove(&m->asked[i], &m->asked[i + 1], (m->asked_n - i) * sizeof(m->asked[0]));
}

/* Is it the end of a request that waits? */
static bool ends_queued(vb_mailbox_t *m, const vb_cm_message_t *message)
{
    for (uint32_t i = 0; i < m->asked_n; ++i) {
        if (m->asked[i].hello.name == message->hello.name && m->asked[i].number == message->number) {
            drop_request(m, i);
            return true;
        }
    }
    return false;
}

static void hear(vb_port_t *port, const void *data, size_t length)
{
    vb_cm_message_t message;
    if (!vb_cm_read(&message, data, length) || message.hello.key != port->config.key
        || vb_is_name_of(port, message.hello.name)) {
        ++port->counters.strangers;
    } else if (VB_ASK == message.hello.answer) {
        queue_request(port->mailbox, &message);
    } else if (VB_GONE != message.hello.answer || !message.is_mine
               || !ends_queued(port->mailbox, &message)) {
        handle(port, &message);
    }
}

static void on_received(vb_port_t *port, const struct ibv_wc *wc)
{
    vb_mailbox_t *m = port->mailbox;
    const uint32_t n = vb_wr_number(wc->wr_id);
    if (IBV_WC_SUCCESS == wc->status && wc->byte_len >= VB_UD_GRH) {
        hear(port, receive_buffer(m, n) + VB_UD_GRH, wc->byte_len - VB_UD_GRH);
    }
    if (IBV_WC_WR_FLUSH_ERR == wc->status) {
        m->is_broken = true; /* it takes no more */
    } else {
        (void) post_receive(m, n);
    }
}

/* What was under way is said again. */
static void renew(vb_mailbox_t *m)
{
    m->is_broken = false;
    for (uint32_t n = vb_ud_renew(&m->ud) ? 0 : RECEIVES; n < RECEIVES; ++n) {
        (void) post_receive(m, n);
    }
}

static void take(vb_port_t *port)
{
    struct ibv_wc wc[VB_BATCH];
    int n;
    do {
        n = ibv_poll_cq(port->mailbox->ud.cq, VB_BATCH, wc);
        for (int i = 0; i < n; ++i) {
            if (!vb_wr_is_receive(wc[i].wr_id)) {
                (void) vb_ud_sent(&port->mailbox->ud, &wc[i]);
            } else if (vb_wr_generation(wc[i].wr_id) == port->mailbox->ud.renewals) { /* else it is of before a renewal */
                on_received(port, &wc[i]);
            }
        }
    } while (VB_BATCH == n);
}

void vb_mailbox_events(vb_port_t *port)
{
    vb_mailbox_t *m = port->mailbox;
    struct ibv_cq *of;
    void *context;
    while (0 == ibv_get_cq_event(m->notices, &of, &context)) {
        ibv_ack_cq_events(of, 1); /* a queue that is not acknowledged cannot be destroyed */
    }
    vb_port_lock(port);
    (void) ibv_req_notify_cq(m->ud.cq, 0);
    take(port);
    if (m->asked_n > 0) {
        const vb_cm_message_t oldest = m->asked[0];
        drop_request(m, 0);
        handle(port, &oldest);
    }
    if (m->is_broken) {
        renew(m);
    }
    vb_port_unlock(port);
}

void vb_mailbox_repeat(vb_peer_t *peer, uint64_t now)
{
    vb_link_t *link = peer->link;
    const vb_conn_state_t state = peer->conn.state;
    if (NULL != link && NULL != link->setup && (VB_CONNECTING == state || VB_ACCEPTING == state)
        && vb_attempt_is_due(&link->setup->attempt, now)) {
        peer->port->counters.asked_again += VB_CONNECTING == state;
        say_again(link);
    }
}

/* ---- the port ---- */

int vb_mailbox_descriptor(const vb_port_t *port)
{
    return NULL == port->mailbox ? -1 : port->mailbox->notices->fd;
}

bool vb_mailbox_is_asked(const vb_port_t *port)
{
    return NULL != port->mailbox && port->mailbox->asked_n > 0;
}

bool vb_port_mailbox(const vb_port_t *port, vb_dgram_address_t *own)
{
    if (NULL != port->mailbox) {
        *own = port->mailbox->ud.own;
    }
    return NULL != port->mailbox;
}

static bool open_queues(vb_mailbox_t *m, vb_port_t *port, char *why, size_t size)
{
    m->notices = ibv_create_comp_channel(port->context);
    if (NULL == m->notices || !vb_make_nonblocking(m->notices->fd)) {
        return vb_fails(why, size, "no channel for notices of datagrams: %s", strerror(errno));
    }
    if (!vb_ud_open(&m->ud, m->notices, NULL, sizeof(vb_cm_wire_t), RECEIVES, why, size)) {
        return false;
    }
    return 0 == ibv_req_notify_cq(m->ud.cq, 0) || vb_fails(why, size, "no completion queue that tells: %s", strerror(errno));
}

static bool open_buffers(vb_mailbox_t *m, vb_port_t *port, char *why, size_t size)
{
    const size_t bytes = RECEIVES * RECEIVE_BYTES;
    m->memory = malloc(bytes);
    m->mr =
        NULL == m->memory ? NULL : ibv_reg_mr(port->pd, m->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (NULL == m->mr) {
        return vb_fails(why, size, "%zu bytes for datagrams cannot be registered (ulimit -l?)",
                        bytes);
    }
    for (uint32_t n = 0; n < RECEIVES; ++n) {
        if (!post_receive(m, n)) {
            return vb_fails(why, size, "no receive buffers for datagrams");
        }
    }
    return true;
}

/* Does the kernel know a way to the port's own GID? Not if it has no address of that kind: the GID of a
 * link is there even where IPv6 is off. */
static bool leads_home(vb_mailbox_t *m, char *why, size_t size)
{
    const uint32_t home = vb_ud_meet(&m->ud, &m->ud.own);
    vb_ud_part(&m->ud, home);
    return 0 != home
           || vb_fails(why, size, "no way leads to its GID (is IPv6 off on its interface?): %s", strerror(errno));
}

bool vb_mailbox_open(vb_port_t *port, char *why, size_t size)
{
    vb_mailbox_t *m = calloc(1, sizeof(*m));
    port->mailbox = m;
    if (NULL == m) {
        return vb_fails(why, size, "out of memory");
    }
    /* Above those of an earlier port of this process. */
    m->number = spec_ns(CLOCK_REALTIME);
    if (!vb_ud_find(&m->ud, port, why, size) || !leads_home(m, why, size) || !open_queues(m, port, why, size)
        || !open_buffers(m, port, why, size)) {
        vb_mailbox_close(port);
        return false;
    }
    return true;
}

void vb_mailbox_flush(vb_port_t *port, uint64_t wait_ns)
{
    const uint64_t end = spec_now() + wait_ns;
    vb_mailbox_t *m = port->mailbox;
    struct ibv_wc wc;
    while (NULL != m && vb_sendq_outstanding(&m->ud.sendq) > 0 && spec_now() < end) {
        if (1 == ibv_poll_cq(m->ud.cq, 1, &wc) && !vb_wr_is_receive(wc.wr_id)) {
            (void) vb_ud_sent(&m->ud, &wc);
        }
    }
}

void vb_mailbox_close(vb_port_t *port)
{
    vb_mailbox_t *m = port->mailbox;
    if (NULL == m) {
        return;
    }
    vb_ud_close(&m->ud);
    if (NULL != m->mr) {
        (void) ibv_dereg_mr(m->mr);
    }
    free(m->memory);
    if (NULL != m->notices) {
        (void) ibv_destroy_comp_channel(m->notices);
    }
    free(m);
    port->mailbox = NULL;
}
