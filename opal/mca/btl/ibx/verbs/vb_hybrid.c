/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Datagrams first, a connection for peers that are talked to much: buffers, switching over, completions of both. */
#include "vb_hybrid.h"
#include "vb_internal.h"

#include "iw_memory.h"

#include <stdlib.h>

#define TRIP UINT64_C(10000000) /* ns: taken for a round trip until one is measured; a fabric's are far below */

struct vb_hybrid {
    vb_port_t *port;
    vb_dgram_t dgram;
    ibx_window_t window; /* of buffers */
    bool is_armed;       /* the engine tells when few buffers are free */
    uint32_t buffers;       /* with the engine or with the receiver */
    uint32_t mates;
    uint32_t met; /* peers ever */
    uint32_t slots_most;
    uint32_t slots; /* connections, and those being made */
    uint32_t outstanding;
    bool is_owing; /* something to be said found no room */
    uint64_t polls, polls_seen;
};

/* Context of control messages: nobody is told. */
static char control;

/* ---- buffers ---- */

static void free_buffer(vb_hybrid_t *h, char *buffer)
{
    free(buffer);
    --h->buffers;
    h->port->counters.registered -= h->port->config.buffer_size;
}

/* Once the queue has recovered, and while the window can grow: a limit that is below at once would be told
 * without end. */
static void arm_limit(vb_hybrid_t *h)
{
    const uint32_t limit = ibx_window_limit(&h->window);
    if (!h->is_armed && h->window.current < h->window.max && iw_receives_free(h->dgram.engine) >= limit) {
        h->is_armed = true;
        iw_arm_limit(h->dgram.engine, limit);
    }
}

static bool post_buffer(vb_hybrid_t *h, char *buffer)
{
    if (IW_OK == iw_post_receive(h->dgram.engine, buffer, h->port->config.buffer_size, buffer)) {
        return true;
    }
    free_buffer(h, buffer);
    return false;
}

static void fill_buffers(vb_hybrid_t *h)
{
    while (h->buffers < h->window.current) {
        char *buffer = malloc(h->port->config.buffer_size);
        if (NULL == buffer) {
            break;
        }
        ++h->buffers;
        vb_port_registered(h->port, h->port->config.buffer_size);
        if (!post_buffer(h, buffer)) {
            break;
        }
    }
    arm_limit(h);
}

static void return_buffer(vb_hybrid_t *h, char *buffer)
{
    if (h->buffers <= h->window.current) {
        (void) post_buffer(h, buffer);
        arm_limit(h);
    } else {
        free_buffer(h, buffer);
    }
}

void vb_hybrid_return(vb_port_t *port, const vb_received_t *received)
{
    return_buffer(port->hybrid, (char *) received->data - sizeof(vb_hdr_t));
}

/* ---- peers that are not known ---- */

/* The engine's `unknown`: not from here, where a lock is held, can a process be looked up. */
static iw_peer_t *on_unknown(void *context, iw_engine_t *engine, uint64_t name)
{
    const vb_config_t *c = &((vb_hybrid_t *) context)->port->config;
    size_t length;
    const uint8_t *data = iw_engine_hello(engine, &length);
    if (NULL != c->stranger) {
        c->stranger(c->context, name, data, length);
    }
    return NULL;
}

void vb_port_hear(vb_port_t *port, const uint8_t *data, size_t length)
{
    if (NULL != port->hybrid && NULL != data) {
        iw_engine_input(port->hybrid->dgram.engine, spec_now(), data, length);
    }
}

/* ---- opening ---- */

static bool open_engine(vb_hybrid_t *h)
{
    vb_port_t *port = h->port;
    const vb_config_t *c = &port->config;
    iw_config_t config;
    iw_config_default(&config);
    config.identity = c->name;
    memcpy(config.key.b, c->datagram.key, sizeof(config.key.b));
    config.auth = (iw_auth_mode_t) c->datagram.auth;
    config.seed = c->datagram.seed;
    config.start = c->datagram.start;
    config.datagram_max = h->dgram.mtu;
    config.datagram_min = VB_DGRAM_MTU_MIN;
    config.receive_space = config.peer_space = vb_dgram_space(&h->dgram);
    config.peer_timeout_ns = c->datagram.peer_timeout_ns;
    config.quota = c->window_max;
    config.unknown = on_unknown;
    config.context = h;
    h->dgram.engine = iw_engine_create(&config);
    return NULL != h->dgram.engine;
}

static bool open_parts(vb_hybrid_t *h, char *why, size_t size)
{
    const vb_config_t *c = &h->port->config;
    struct ibv_device_attr device;
    if (0 != ibv_query_device(h->port->context, &device)) {
        return vb_fails(why, size, "its device does not say what it can");
    }
    const uint32_t receives = vb_least(c->datagram.receives, (uint32_t) device.max_qp_wr);
    return vb_dgram_open(&h->dgram, h->port, c->window_initial, receives, why, size)
           && (open_engine(h) || vb_fails(why, size, "out of memory"));
}

vb_hybrid_t *vb_hybrid_open(vb_port_t *port, char *why, size_t size)
{
    const bool is_iwarp = VB_IWARP == port->able.fabric;
    const bool is_wanted = !is_iwarp && 0 != port->config.datagram.after;
    vb_hybrid_t *h = is_wanted ? calloc(1, sizeof(*h)) : NULL;
    if (NULL == h) {
        (void) vb_fails(why, size, is_wanted                         ? "out of memory"
                                   : 0 == port->config.datagram.after ? "switched off"
                                                                      : "iWARP adapters have no datagrams");
        return NULL;
    }
    h->port = port;
    if (!open_parts(h, why, size)) {
        vb_hybrid_close(h);
        return NULL;
    }
    ibx_window_init(&h->window, port->config.window_initial, port->config.window_max,
                    port->config.window_quiet_ns, spec_now());
    fill_buffers(h);
    return h;
}

void vb_hybrid_close(vb_hybrid_t *h)
{
    for (vb_peer_t *peer = h->port->peers; NULL != peer; peer = peer->next) {
        free(peer->mate);
        peer->mate = NULL;
    }
    if (NULL != h->dgram.engine) {
        iw_completion_t c;
        void *buffer;
        while (1 == iw_engine_poll(h->dgram.engine, &c, 1)) {
            if (IW_RECEIVED == c.what) {
                free(c.context);
            }
        }
        while (iw_withdraw_receive(h->dgram.engine, &buffer)) {
            free(buffer);
        }
        iw_engine_destroy(h->dgram.engine);
    }
    h->port->counters.registered -= (uint64_t) h->buffers * h->port->config.buffer_size;
    vb_dgram_close(&h->dgram);
    free(h);
}

/* ---- peers ---- */

bool vb_peer_add_datagrams(vb_peer_t *peer, const vb_dgram_address_t *there, const uint8_t *key)
{
    vb_hybrid_t *h = peer->port->hybrid;
    if (NULL == h || 0 == there->number || NULL != peer->mate) {
        return NULL != peer->mate;
    }
    vb_mate_t *mate = calloc(1, sizeof(*mate));
    iw_key_t theirs;
    memcpy(theirs.b, key, sizeof(theirs.b));
    if (NULL == mate || !vb_dgram_meet(&h->dgram, there, &mate->to)) {
        free(mate);
        return false;
    }
    mate->peer = iw_peer_add(h->dgram.engine, peer->name, &mate->to, &theirs, peer);
    if (NULL == mate->peer) {
        vb_dgram_part(&h->dgram, &mate->to);
        free(mate);
        return false;
    }
    iw_peer_expect(mate->peer, TRIP);
    vb_switch_init(&mate->sw);
    peer->mate = mate;
    peer->inline_max = IW_INLINE_MAX;
    ++h->mates;
    ++h->met;
    return true;
}

const vb_switch_t *vb_peer_switch(const vb_peer_t *peer)
{
    return NULL == peer->mate ? NULL : &peer->mate->sw;
}

bool vb_peer_is_by_datagrams(const vb_peer_t *peer)
{
    return NULL != peer->mate && !vb_switch_is_connected(&peer->mate->sw);
}

bool vb_port_datagrams(const vb_port_t *port, vb_dgram_address_t *own, uint8_t *key)
{
    if (NULL == port->hybrid) {
        return false;
    }
    *own = port->hybrid->dgram.ud.own;
    memcpy(key, port->config.datagram.key, sizeof(port->config.datagram.key));
    return true;
}

uint32_t vb_port_expose(vb_port_t *port, void *base, uint64_t size, bool read, bool write,
                        const iw_uses_t *uses)
{
    if (NULL == port->hybrid) {
        return 0;
    }
    const unsigned rights = (read ? IW_REMOTE_READ : 0u) | (write ? IW_REMOTE_WRITE : 0u);
    return iw_register(port->hybrid->dgram.engine, base, size, rights, uses);
}

void vb_port_hide(vb_port_t *port, uint32_t stag)
{
    if (NULL != port->hybrid && 0 != stag) {
        (void) iw_deregister(port->hybrid->dgram.engine, stag);
    }
}

bool vb_port_datagram_use(const vb_port_t *port, vb_datagram_use_t *use)
{
    const vb_hybrid_t *h = port->hybrid;
    if (NULL == h) {
        return false;
    }
    *use = vb_dgram_use(&h->dgram);
    use->peers = h->met;
    use->connections = h->slots;
    use->connections_most = h->slots_most;
    use->resent = iw_engine_counters(h->dgram.engine)->segments_resent;
    use->memory += sizeof(*h) + iw_engine_memory(h->dgram.engine);
    return true;
}

/* ---- the way ---- */

static vb_status_t status_of(iw_status_t status)
{
    return IW_OK == status ? VB_OK : IW_CLOSED == status ? VB_ENDED : VB_LOST;
}

static bool may_speak(const vb_mate_t *mate)
{
    return VB_OK == mate->over || mate->sw.owes & VB_SWITCH_SAY_GIVE_UP;
}

/* The engine has given it up, or heard its goodbye: there is no way back to datagrams. Of one that is lost already the caller
 * tells. */
static void cannot_speak(vb_peer_t *peer, iw_status_t status)
{
    vb_mate_t *mate = peer->mate;
    mate->sw.owes = 0;
    if (VB_SWITCH_BROKEN != mate->sw.state) {
        (void) vb_peer_why(peer, "%s", iw_status_name(status));
        vb_hybrid_lose(peer, status_of(status));
    }
}

static void say_owed(vb_peer_t *peer)
{
    static const vb_type_t types[] = {[VB_SWITCH_SAY_ARRIVED] = VB_ARRIVED,
                                      [VB_SWITCH_SAY_RETURN] = VB_RETURN,
                                      [VB_SWITCH_SAY_LEAVE] = VB_LEAVE,
                                      [VB_SWITCH_SAY_BROKE] = VB_BROKE,
                                      [VB_SWITCH_SAY_GIVE_UP] = VB_GAVE_UP};
    vb_mate_t *mate = peer->mate;
    vb_hybrid_t *h = peer->port->hybrid;
    unsigned what;
    uint16_t round;
    while (may_speak(mate) && 0 != (what = vb_switch_next(&mate->sw, NULL != peer->link, &round))) {
        vb_hdr_t hdr;
        const struct iovec piece = {.iov_base = &hdr, .iov_len = sizeof(hdr)};
        vb_hdr_write(&hdr, types[what], 0, 0, round);
        /* Leave goes behind the data of the reads, too: what is sent by connection is. */
        const unsigned flags = IW_INLINE | IW_QUIET | (VB_SWITCH_SAY_LEAVE == what ? IW_FENCE : 0);
        const iw_status_t status = iw_post_send(mate->peer, &piece, 1, flags, &control);
        if (IW_AGAIN == status || IW_NO_MEMORY == status) {
            h->is_owing = true;
            return;
        }
        if (IW_OK != status) {
            cannot_speak(peer, status);
            return;
        }
        ++peer->port->counters.way_messages;
        if (vb_switch_said(&mate->sw, what)) {
            peer->port->config.ready(peer->port->config.context, peer);
        }
    }
}

void vb_hybrid_lose(vb_peer_t *peer, vb_status_t how)
{
    vb_port_t *port = peer->port;
    vb_mate_t *mate = peer->mate;
    if (VB_OK != mate->over) {
        return;
    }
    mate->over = how;
    port->config.ready(port->config.context, peer); /* what waits is to fail */
    if (VB_LOST == how) {
        if (NULL != peer->link) {
            vb_peer_cut(peer);
        }
        ++port->counters.lost;
        port->config.down(port->config.context, peer, peer->why);
    }
}

static void take_slot(vb_peer_t *peer)
{
    vb_hybrid_t *h = peer->port->hybrid;
    h->slots += !peer->has_slot;
    peer->has_slot = true;
    h->slots_most = h->slots > h->slots_most ? h->slots : h->slots_most;
}

/* The one function that changes how messages go to a peer. Returns actions that are not done here. */
static unsigned step(vb_peer_t *peer, vb_switch_event_t event, uint16_t round)
{
    vb_port_t *port = peer->port;
    vb_hybrid_t *h = port->hybrid;
    vb_switch_t *sw = &peer->mate->sw;
    const vb_switch_state_t from = sw->state;
    const bool has_slot = peer->has_slot || h->slots < port->config.datagram.max_connections;
    const unsigned todo = vb_switch_step(sw, event, round, port->config.datagram.after, has_slot);
    if (from != sw->state && NULL != port->config.switch_trace) {
        port->config.switch_trace(port->config.context, peer, from, event);
    }
    if (todo & VB_SWITCH_CONNECT) {
        take_slot(peer);
        vb_peer_wants(peer);
    }
    if (0 != sw->owes) {
        say_owed(peer);
    }
    if (todo & VB_SWITCH_GO) {
        if (vb_switch_is_connected(sw) && NULL != peer->link) {
            vb_peer_use(peer, peer->link);
            ++port->counters.switched;
        }
        port->config.ready(port->config.context, peer);
    }
    if (todo & VB_SWITCH_CUT && NULL != peer->link) {
        vb_peer_cut(peer);
    }
    if (todo & VB_SWITCH_FAULT) {
        ++port->counters.bad_messages;
        (void) vb_peer_why(peer, "it left datagrams when it could not");
        vb_hybrid_lose(peer, VB_LOST);
    }
    return todo;
}

bool vb_hybrid_admits(vb_peer_t *peer)
{
    vb_hybrid_t *h = peer->port->hybrid;
    if (!peer->has_slot && h->slots >= peer->port->config.datagram.max_connections) {
        return false;
    }
    take_slot(peer);
    return true;
}

void vb_hybrid_give_slot(vb_peer_t *peer)
{
    if (peer->has_slot) {
        --peer->port->hybrid->slots;
        peer->has_slot = false;
    }
}

bool vb_hybrid_opened(vb_peer_t *peer)
{
    if (NULL != peer->mate && VB_LOST == peer->mate->over) {
        vb_peer_cut(peer);
        return true;
    }
    if (!vb_peer_is_by_datagrams(peer) || VB_OK != peer->mate->over) {
        return false;
    }
    (void) step(peer, VB_SWITCH_ON_OPEN, 0);
    vb_dgram_flush(&peer->port->hybrid->dgram, spec_now());
    return true;
}

bool vb_hybrid_outlives(vb_peer_t *peer)
{
    vb_port_t *port = peer->port;
    if (NULL == peer->mate || VB_OK != peer->mate->over) {
        const bool is_told = NULL != peer->mate && VB_LOST == peer->mate->over;
        if (is_told) { /* what waited for the end of the connection is to fail, too */
            port->config.ready(port->config.context, peer);
        }
        return is_told;
    }
    if (step(peer, VB_SWITCH_ON_FAILED, 0) & VB_SWITCH_LOSE) {
        peer->mate->over = VB_LOST; /* told by the one that asks */
        return false;
    }
    peer->inline_max = IW_INLINE_MAX; /* by datagrams again */
    vb_hybrid_give_slot(peer);
    vb_conn_init(&peer->conn, port->config.name, peer->name); /* the peer may still ask */
    ++port->counters.stayed;
    return true;
}

void vb_hybrid_parted(vb_peer_t *peer)
{
    if (NULL != peer->mate && !vb_switch_is_connected(&peer->mate->sw)) {
        vb_hybrid_lose(peer, VB_ENDED);
    }
}

void vb_hybrid_attempt_ended(vb_peer_t *peer)
{
    if (NULL != peer->mate && 0 != peer->mate->sw.owes) {
        say_owed(peer);
    }
}

bool vb_hybrid_takes(vb_peer_t *peer)
{
    vb_hybrid_used(peer);
    return NULL == peer->mate || peer->mate->sw.has_left;
}

/* ---- posting ---- */

static vb_status_t may_post(const vb_peer_t *peer)
{
    const vb_mate_t *mate = peer->mate;
    return VB_OK != mate->over                  ? mate->over
           : VB_SWITCH_BROKEN == mate->sw.state   ? VB_LOST
           : vb_switch_takes_datagrams(&mate->sw) ? VB_OK
                                                : VB_AGAIN; /* until arrived is heard */
}

static vb_status_t posted(vb_peer_t *peer, iw_status_t status)
{
    vb_port_t *port = peer->port;
    switch (status) {
    case IW_OK:
        ++port->hybrid->outstanding;
        vb_dgram_flush(&port->hybrid->dgram, spec_now());
        return VB_OK;
    case IW_AGAIN:
    case IW_NO_MEMORY:
        ++port->counters.no_room;
        vb_peer_wait(peer);
        return VB_AGAIN;
    case IW_TOO_LONG:
        return VB_FAULT;
    default:
        return status_of(status);
    }
}

static unsigned flags_of(unsigned flags, size_t size)
{
    return (flags & VB_INLINE && size <= IW_INLINE_MAX ? IW_INLINE : 0u)
           | (flags & VB_FENCE ? IW_FENCE : 0u);
}

vb_status_t vb_hybrid_send(vb_peer_t *peer, vb_hdr_t *hdr, uint8_t tag, const struct ibv_sge *piece,
                           int pieces, unsigned flags, void *request)
{
    struct iovec iov[2];
    size_t size = 0;
    const vb_status_t may = may_post(peer);
    if (VB_OK != may) {
        return may;
    }
    for (int i = 0; i < pieces && i < 2; ++i) {
        iov[i] = (struct iovec){.iov_base = (void *) (uintptr_t) piece[i].addr,
                                .iov_len = piece[i].length};
        size += piece[i].length;
    }
    if (flags & VB_INLINE && size > IW_INLINE_MAX) {
        return VB_FAULT; /* its memory would be used again */
    }
    vb_hdr_write(hdr, VB_MESSAGE, tag, 0, 0);
    const vb_status_t status = posted(peer, iw_post_send(peer->mate->peer, iov, (unsigned) pieces,
                                                         flags_of(flags, size), request));
    peer->port->counters.sent += VB_OK == status;
    return status;
}

vb_status_t vb_post_datagram_rdma(vb_peer_t *peer, const struct ibv_sge *piece, uint32_t stag,
                                  uint64_t offset, unsigned flags, void *request)
{
    const bool reads = 0 != (flags & VB_READ);
    void *data = (void *) (uintptr_t) piece->addr;
    const struct iovec iov = {.iov_base = data, .iov_len = piece->length};
    vb_counters_t *counters = &peer->port->counters;
    const vb_status_t may = may_post(peer);
    if (VB_OK != may) {
        return may;
    }
    flags = flags_of(flags & ~(unsigned) VB_INLINE, 0);
    iw_peer_t *to = peer->mate->peer;
    const vb_status_t status =
        posted(peer, reads ? iw_post_read(to, data, piece->length, stag, offset, flags, request)
                           : iw_post_write(to, &iov, 1, stag, offset, flags, request));
    *(reads ? &counters->read : &counters->written) += VB_OK == status ? piece->length : 0;
    return status;
}

/* ---- completions ---- */

static void on_control(vb_peer_t *peer, const vb_hdr_t *hdr)
{
    static const vb_switch_event_t events[] = {[VB_LEAVE] = VB_SWITCH_ON_LEAVE,
                                               [VB_ARRIVED] = VB_SWITCH_ON_ARRIVED,
                                               [VB_RETURN] = VB_SWITCH_ON_RETURN,
                                               [VB_BROKE] = VB_SWITCH_ON_BROKE,
                                               [VB_GAVE_UP] = VB_SWITCH_ON_GAVE_UP};
    if (step(peer, events[hdr->type], le16toh(hdr->seen)) & VB_SWITCH_LOSE) {
        (void) vb_peer_why(peer, "for the peer the connection to this process broke in use");
        vb_hybrid_lose(peer, VB_LOST);
    }
}

/* The header of a message, checked. False: it cannot be, and the peer is lost. True with *is_message
 * false: it was control, and is done. */
static bool on_message(vb_hybrid_t *h, vb_peer_t *peer, const iw_completion_t *c,
                       vb_received_t *received)
{
    vb_hdr_t hdr;
    char *buffer = c->context;
    const bool is_whole = c->length >= sizeof(hdr) && c->length <= h->port->config.buffer_size;
    if (is_whole) {
        memcpy(&hdr, buffer, sizeof(hdr));
    }
    if (is_whole && VB_MESSAGE == hdr.type && !peer->mate->sw.has_left) {
        ++h->port->counters.received;
        *received = (vb_received_t){.peer = peer,
                                    .data = buffer + sizeof(hdr),
                                    .length = c->length - (uint32_t) sizeof(hdr),
                                    .tag = hdr.tag,
                                    .in_datagram = true};
        return true;
    }
    return_buffer(h, buffer);
    if (is_whole && sizeof(hdr) == c->length && hdr.type >= VB_LEAVE && hdr.type <= VB_GAVE_UP) {
        on_control(peer, &hdr);
    } else {
        ++h->port->counters.bad_messages;
        (void) vb_peer_why(peer, "it sent something that is no message of this version");
        vb_hybrid_lose(peer, VB_LOST);
    }
    return false;
}

static void on_done(vb_hybrid_t *h, vb_peer_t *peer, const iw_completion_t *c)
{
    vb_port_t *port = h->port;
    if (&control == c->context) {
        return;
    }
    --h->outstanding;
    if (NULL != c->context) {
        port->config.done(port->config.context, peer, c->context, status_of(c->status));
    }
    if (NULL != peer && IW_OK == c->status && NULL != peer->mate) {
        (void) step(peer, VB_SWITCH_ON_SENT, 0);
    }
}

static void on_down(vb_peer_t *peer, iw_status_t status)
{
    vb_mate_t *mate = peer->mate;
    if (vb_switch_is_connected(&mate->sw) && mate->sw.has_left) {
        return; /* the connection tells */
    }
    (void) vb_peer_why(peer, "%s", iw_status_name(status));
    vb_hybrid_lose(peer, IW_CLOSED == status ? VB_ENDED : VB_LOST);
}

/* True: a message to deliver. */
static bool on_completion(vb_hybrid_t *h, const iw_completion_t *c, vb_received_t *received)
{
    vb_peer_t *peer = NULL == c->peer ? NULL : iw_peer_user(c->peer);
    switch (c->what) {
    case IW_RECEIVED:
        if (NULL == peer || NULL == peer->mate || VB_LOST == peer->mate->over) { /* what came before a goodbye is delivered */
            return_buffer(h, c->context);
            return false;
        }
        return on_message(h, peer, c, received);
    case IW_LIMIT_REACHED:
        h->is_armed = false;
        (void) ibx_window_limit_reached(&h->window, spec_now());
        ++h->port->counters.starved;
        fill_buffers(h);
        return false;
    case IW_PEER_DOWN:
        if (NULL != peer && NULL != peer->mate) {
            on_down(peer, (iw_status_t) c->status);
        }
        return false;
    default:
        on_done(h, peer, c);
        return false;
    }
}

int vb_hybrid_poll(vb_port_t *port, vb_received_t *received, int max, int *events)
{
    vb_hybrid_t *h = port->hybrid;
    iw_completion_t c[VB_BATCH];
    int messages = 0;
    unsigned n;
    const uint64_t now = spec_now();
    ++h->polls;
    *events = (int) vb_dgram_progress(&h->dgram, now);
    if (h->is_owing) {
        h->is_owing = false;
        for (vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
            if (NULL != peer->mate && 0 != peer->mate->sw.owes) {
                say_owed(peer);
            }
        }
    }
    do {
        const unsigned room = (unsigned) (max - messages);
        n = iw_engine_poll(h->dgram.engine, c, vb_least(room, VB_BATCH));
        for (unsigned i = 0; i < n; ++i) {
            messages += on_completion(h, &c[i], &received[messages]);
        }
        *events += (int) n;
    } while (n > 0 && messages < max);
    if (iw_engine_has_output(h->dgram.engine)) {
        vb_dgram_flush(&h->dgram, now);
    }
    return messages;
}

void vb_hybrid_check(vb_port_t *port, uint64_t now)
{
    vb_hybrid_t *h = port->hybrid;
    const uint32_t limit = ibx_window_limit(&h->window);
    vb_dgram_check(&h->dgram, now);
    (void) ibx_window_check(&h->window, iw_receives_lowest(h->dgram.engine), now);
    if (limit != ibx_window_limit(&h->window)) {
        void *buffer;
        while (h->buffers > h->window.current && iw_withdraw_receive(h->dgram.engine, &buffer)) {
            free_buffer(h, buffer);
        }
        h->is_armed = false; /* for the former limit */
        arm_limit(h);
    }
}

bool vb_hybrid_needs_tick(const vb_port_t *port)
{
    return NULL != port->hybrid && port->hybrid->mates > 0;
}

void vb_hybrid_tick(vb_port_t *port)
{
    vb_hybrid_t *h = port->hybrid;
    if (h->polls == h->polls_seen) {
        (void) vb_dgram_progress(&h->dgram, spec_now());
    }
    h->polls_seen = h->polls;
}

/* ---- the end ---- */

bool vb_hybrid_is_busy(const vb_port_t *port)
{
    bool is_busy = port->hybrid->outstanding > 0;
    for (const vb_peer_t *peer = port->peers; NULL != peer && !is_busy; peer = peer->next) {
        is_busy = NULL != peer->mate && VB_OK == peer->mate->over
                  && (0 != peer->mate->sw.owes || VB_SWITCH_LEAVING == peer->mate->sw.state);
    }
    return is_busy;
}

bool vb_hybrid_arm(vb_port_t *port)
{
    return 0 == ibv_req_notify_cq(port->hybrid->dgram.ud.cq, 0);
}

void vb_hybrid_part(vb_peer_t *peer)
{
    vb_hybrid_t *h = peer->port->hybrid;
    vb_mate_t *mate = peer->mate;
    if (NULL == mate) {
        return;
    }
    iw_peer_remove(mate->peer);
    vb_dgram_flush(&h->dgram, spec_now());
    vb_dgram_part(&h->dgram, &mate->to);
    free(mate);
    peer->mate = NULL;
    vb_peer_use(peer, peer->link);
    --h->mates;
}
