/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections made by datagrams, without rdma_cm: requests and answers through a UD queue pair of the port, its mailbox;
 * what they mean says vb_handshake.h. */
#include "vb_connect.h"
#include "vb_address.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/* Datagrams that may wait for the thread: each process has a few requests under way at a time, and what is lost is said again. */
#define RECEIVES 512u
#define SLOTS    64u /* being sent */

#define ASKED    256u /* requests that wait their turn; one that finds no room is said again */

#define RENEWALS 16u /* of a queue pair that breaks; one that breaks again and again would keep the thread busy */

#define GRH 40u /* in front of what arrives (InfiniBand specification, 11.4.1.2) */

/* Another port's mailbox. */
typedef struct vb_ud_target vb_ud_target_t;
struct vb_ud_target {
    vb_ud_target_t *next; /* of all, until the port is closed: the adapter may be reading it */
    vb_dgram_address_t where;
    struct ibv_ah *ah;
};

struct vb_mailbox {
    vb_address_t address;
    vb_dgram_address_t own;
    struct ibv_comp_channel *notices;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    char *memory; /* what is received, then what is sent */
    struct ibv_mr *mr;
    vb_sendq_t sendq;
    bool is_broken;
    uint32_t renewals; /* of the queue pair, so far; in the numbers of its work requests */
    vb_ud_target_t *targets;
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

enum { RECEIVE_BYTES = GRH + sizeof(vb_cm_wire_t) };

static char *receive_buffer(const vb_mailbox_t *m, uint32_t n)
{
    return m->memory + (size_t) n * RECEIVE_BYTES;
}

static char *send_slot(const vb_mailbox_t *m, uint32_t n)
{
    return receive_buffer(m, RECEIVES) + (size_t) (n % SLOTS) * sizeof(vb_cm_wire_t);
}

/* ---- datagrams ---- */

static bool post_receive(vb_mailbox_t *m, uint32_t n)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t) receive_buffer(m, n), .length = RECEIVE_BYTES, .lkey = m->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = vb_wr_id(true, m->renewals, n), .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;
    return 0 == ibv_post_recv(m->qp, &wr, &bad);
}

/* It may be lost, here as on its way. */
static void send_message(vb_mailbox_t *m, const vb_ud_target_t *to, const vb_cm_wire_t *wire)
{
    if (NULL == to || NULL == to->ah || !vb_sendq_has_room(&m->sendq, 1, 0)) {
        return;
    }
    char *slot = send_slot(m, m->sendq.nxt);
    memcpy(slot, wire, sizeof(*wire));
    struct ibv_sge sge = {.addr = (uintptr_t) slot, .length = sizeof(*wire), .lkey = m->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = vb_wr_id(false, m->renewals, m->sendq.nxt),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = {.ah = to->ah, .remote_qpn = to->where.number, .remote_qkey = to->where.qkey}};
    struct ibv_send_wr *bad;
    if (0 == ibv_post_send(m->qp, &wr, &bad)) {
        (void) vb_sendq_post(&m->sendq, true);
    }
}

/* A local error stops the send queue: go on with it. */
static void on_sent(vb_mailbox_t *m, const struct ibv_wc *wc)
{
    if (IBV_WC_SUCCESS != wc->status) {
        struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
        (void) ibv_modify_qp(m->qp, &rts, IBV_QP_STATE);
    }
    m->sendq.una = vb_wr_number(wc->wr_id) + 1;
}

/* ---- what is said ---- */

static vb_cm_message_t message_about(const vb_peer_t *peer, vb_answer_t what, uint64_t number,
                                     bool is_mine)
{
    const vb_config_t *config = &peer->port->config;
    const vb_dgram_address_t *own = &peer->port->mailbox->own;
    vb_cm_message_t message = {.hello = {.answer = what,
                                         .buffer = config->buffer_size,
                                         .name = config->name,
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
    send_message(peer->port->mailbox, peer->target, &wire);
}

static void say_again(const vb_link_t *link)
{
    send_message(link->peer->port->mailbox, link->peer->target, &link->setup->said);
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
    message.mtu = port->mailbox->address.mtu;
    message.resources = port->responder_resources;
    message.depth = port->initiator_depth;
    vb_cm_write(&setup->said, &message);
    vb_hello_mine(link, what, &setup->said.hello);
    say_again(link);
}

/* ---- mailboxes of others ---- */

/* False: errno. A neighbour may be found only the next time. */
static bool make_handle(const vb_port_t *port, vb_ud_target_t *target)
{
    struct ibv_ah_attr attr;
    const vb_dgram_address_t *where = &target->where;
    if (NULL == target->ah) {
        errno = ENETUNREACH;
        target->ah = vb_address_route(&port->mailbox->address, port, where->lid, where->gid, &attr)
                         ? ibv_create_ah(port->pd, &attr)
                         : NULL;
    }
    return NULL != target->ah;
}

static bool is_there(const vb_ud_target_t *target, const vb_dgram_address_t *there)
{
    const vb_dgram_address_t *where = &target->where;
    return where->number == there->number && where->qkey == there->qkey && where->lid == there->lid
           && 0 == memcmp(where->gid, there->gid, sizeof(where->gid));
}

/* One to which no way was found is forgotten: a process that says with each request that it is somewhere else takes no memory. */
static bool meet(vb_peer_t *peer, const vb_dgram_address_t *there)
{
    vb_mailbox_t *m = peer->port->mailbox;
    if (NULL != peer->target && NULL == peer->target->ah) {
        peer->target->where = *there;
    } else if (NULL == peer->target || !is_there(peer->target, there)) {
        vb_ud_target_t *target = calloc(1, sizeof(*target));
        if (NULL == target) {
            return false;
        }
        target->where = *there;
        target->next = m->targets;
        m->targets = target;
        peer->target = target;
    }
    return make_handle(peer->port, peer->target);
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
    link->qp = vb_address_pair(&port->mailbox->address, port, attr);
    return NULL != link->qp;
}

/* The queue pairs of both sides know each other. False: why is set. */
static bool connect_pair(vb_link_t *link, const vb_cm_message_t *there)
{
    return vb_link_connect(link, &link->peer->port->mailbox->address, link->setup->psn, there);
}

static void disconnect(vb_link_t *link)
{
    vb_peer_t *peer = link->peer;
    const vb_attempt_t *attempt = &link->setup->attempt;
    vb_link_fail_pair(link);
    if (0 != attempt->number) {
        say(peer, VB_GONE, attempt->number, attempt->is_mine);
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
    if (NULL == peer->target || !make_handle(peer->port, peer->target)) {
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
    if (NULL != peer && NULL != peer->target && NULL != peer->target->ah) {
        return peer;
    }
    vb_dgram_address_t there = {
        .number = message->mailbox, .qkey = message->qkey, .lid = message->lid};
    memcpy(there.gid, message->gid, sizeof(there.gid));
    if (VB_ASK != message->hello.answer) {
        return NULL;
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

static void handle(vb_port_t *port, const vb_cm_message_t *message)
{
    vb_peer_t *peer = speaker(port, message);
    if (NULL == peer) {
        ++port->counters.strangers;
        return;
    }
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
        || message.hello.name == port->config.name) {
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
    if (IBV_WC_SUCCESS == wc->status && wc->byte_len >= GRH) {
        hear(port, receive_buffer(m, n) + GRH, wc->byte_len - GRH);
    }
    if (IBV_WC_WR_FLUSH_ERR == wc->status) {
        m->is_broken = true; /* it takes no more */
    } else {
        (void) post_receive(m, n);
    }
}

/* The queue pair broke: it begins anew, with the number that others know. What was under way is lost, and said again. */
static void renew(vb_port_t *port)
{
    vb_mailbox_t *m = port->mailbox;
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    m->is_broken = false;
    if (m->renewals >= RENEWALS || 0 != ibv_modify_qp(m->qp, &reset, IBV_QP_STATE)
        || !vb_address_ready(&m->address, port, m->qp, m->own.qkey)) {
        return;
    }
    ++m->renewals;
    vb_sendq_init(&m->sendq, SLOTS);
    for (uint32_t n = 0; n < RECEIVES; ++n) {
        (void) post_receive(m, n);
    }
}

static void take(vb_port_t *port)
{
    struct ibv_wc wc[VB_BATCH];
    int n;
    do {
        n = ibv_poll_cq(port->mailbox->cq, VB_BATCH, wc);
        for (int i = 0; i < n; ++i) {
            if (vb_wr_generation(wc[i].wr_id) != port->mailbox->renewals) {
                continue; /* of before a renewal */
            }
            if (vb_wr_is_receive(wc[i].wr_id)) {
                on_received(port, &wc[i]);
            } else {
                on_sent(port->mailbox, &wc[i]);
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
    (void) ibv_req_notify_cq(m->cq, 0);
    take(port);
    if (m->asked_n > 0) {
        const vb_cm_message_t oldest = m->asked[0];
        drop_request(m, 0);
        handle(port, &oldest);
    }
    if (m->is_broken) {
        renew(port);
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
        *own = port->mailbox->own;
    }
    return NULL != port->mailbox;
}

static bool open_queues(vb_mailbox_t *m, vb_port_t *port, char *why, size_t size)
{
    m->notices = ibv_create_comp_channel(port->context);
    if (NULL == m->notices || !vb_make_nonblocking(m->notices->fd)) {
        return vb_fails(why, size, "no channel for notices of datagrams: %s", strerror(errno));
    }
    m->cq = ibv_create_cq(port->context, RECEIVES + SLOTS, NULL, m->notices, 0);
    if (NULL == m->cq || 0 != ibv_req_notify_cq(m->cq, 0)) {
        return vb_fails(why, size, "no completion queue of %u entries that tells: %s",
                        RECEIVES + SLOTS, strerror(errno));
    }
    m->qp = vb_address_datagrams(&m->address, port, m->cq, SLOTS, RECEIVES, m->own.qkey);
    return NULL != m->qp || vb_fails(why, size, "no UD queue pair: %s", strerror(errno));
}

static bool open_buffers(vb_mailbox_t *m, vb_port_t *port, char *why, size_t size)
{
    const size_t bytes = RECEIVES * RECEIVE_BYTES + SLOTS * sizeof(vb_cm_wire_t);
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
static bool leads_home(const vb_mailbox_t *m, const vb_port_t *port, char *why, size_t size)
{
    vb_ud_target_t home = {.where = m->own};
    if (!make_handle(port, &home)) {
        return vb_fails(why, size, "no way leads to its GID (is IPv6 off on its interface?): %s",
                        strerror(errno));
    }
    (void) ibv_destroy_ah(home.ah);
    return true;
}

bool vb_mailbox_open(vb_port_t *port, char *why, size_t size)
{
    vb_mailbox_t *m = calloc(1, sizeof(*m));
    port->mailbox = m;
    if (NULL == m) {
        return vb_fails(why, size, "out of memory");
    }
    vb_sendq_init(&m->sendq, SLOTS);
    /* Above those of an earlier port of this process. */
    m->number = spec_ns(CLOCK_REALTIME);
    if (!vb_address_find(&m->address, port, why, size)) {
        vb_mailbox_close(port);
        return false;
    }
    m->own = (vb_dgram_address_t){.qkey = port->config.datagram.qkey & 0x7fffffffu,
                                  .lid = m->address.lid};
    memcpy(m->own.gid, m->address.gid, sizeof(m->own.gid));
    if (!leads_home(m, port, why, size) || !open_queues(m, port, why, size)
        || !open_buffers(m, port, why, size)) {
        vb_mailbox_close(port);
        return false;
    }
    m->own.number = m->qp->qp_num;
    return true;
}

void vb_mailbox_flush(vb_port_t *port, uint64_t wait_ns)
{
    const uint64_t end = spec_now() + wait_ns;
    vb_mailbox_t *m = port->mailbox;
    struct ibv_wc wc;
    while (NULL != m && vb_sendq_outstanding(&m->sendq) > 0 && spec_now() < end) {
        if (1 == ibv_poll_cq(m->cq, 1, &wc) && !vb_wr_is_receive(wc.wr_id)) {
            on_sent(m, &wc);
        }
    }
}

void vb_mailbox_close(vb_port_t *port)
{
    vb_mailbox_t *m = port->mailbox;
    if (NULL == m) {
        return;
    }
    if (NULL != m->qp) {
        (void) ibv_destroy_qp(m->qp);
    }
    while (NULL != m->targets) {
        vb_ud_target_t *target = m->targets;
        m->targets = target->next;
        if (NULL != target->ah) {
            (void) ibv_destroy_ah(target->ah);
        }
        free(target);
    }
    if (NULL != m->mr) {
        (void) ibv_dereg_mr(m->mr);
    }
    free(m->memory);
    if (NULL != m->cq) {
        (void) ibv_destroy_cq(m->cq);
    }
    if (NULL != m->notices) {
        (void) ibv_destroy_comp_channel(m->notices);
    }
    free(m);
    port->mailbox = NULL;
}
