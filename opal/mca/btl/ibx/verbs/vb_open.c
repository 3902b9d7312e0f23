/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A port: opening and closing it, its peers, its thread. */
#include "vb_connect.h"
#include "vb_hybrid.h"

#include "spec_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

void vb_config_default(vb_config_t *config)
{
    *config = (vb_config_t){
        .shared_queue = VB_AUTO,
        .window_initial = IBX_WINDOW_INITIAL,
        .window_max = IBX_WINDOW_MAX,
        .window_quiet_ns = UINT64_C(2000000000),
        .link_window_max = VB_LINK_WINDOW_MAX,
        .buffer_size = 8192 + sizeof(vb_hdr_t),
        .send_depth = 128,
        .entries = 8192,
        .inline_max = VB_INLINE_MAX,
        .rnr_timer = VB_RNR_TIMER,
        .ack_timeout = VB_ACK_TIMEOUT,
        .retries = VB_RETRIES,
        .rules = {.attempt_ns = UINT64_C(10000000000),
                  .backoff_ns = UINT64_C(50000000),
                  .tries = 8,
                  .word_ns = UINT64_C(100000000),
                  .words = 2, /* with the first one below VB_CONTROL_MAX */
                  .resume_ns = UINT64_C(30000000000),
                  .breaks = 8,
                  .trial_ns = UINT64_C(2000000000),
                  .return_ns = UINT64_C(4000000000)},
        .attempts = 2,
        .resuming = 8,
        .datagram = {.after = 0,
                     .max_connections = VB_CONNECTIONS_MOST,
                     .receives = 2048,
                     .auth = IW_AUTH_TAG,
                     .peer_timeout_ns = UINT64_C(30000000000)},
        .thread = true,
    };
}

/* 10 us, 20, 30, 40, 60, 80, 120, ... up to 491 ms; 0 is above them. */
uint64_t vb_rnr_ns(uint8_t timer)
{
    const uint64_t unit = UINT64_C(10000);
    return 0 == timer   ? 65536 * unit
           : 1 == timer ? unit
                        : ((2 + (timer & 1)) * unit) << ((timer - 2) / 2);
}

void vb_port_lock(vb_port_t *port)
{
    pthread_mutex_lock(&port->lock);
}

bool vb_port_trylock(vb_port_t *port)
{
    return 0 == pthread_mutex_trylock(&port->lock);
}

void vb_port_unlock(vb_port_t *port)
{
    pthread_mutex_unlock(&port->lock);
}

const vb_abilities_t *vb_port_abilities(const vb_port_t *port)
{
    return &port->able;
}

vb_counters_t *vb_port_counters(vb_port_t *port)
{
    return &port->counters;
}

uint32_t vb_port_links(const vb_port_t *port)
{
    return port->links;
}

uint32_t vb_port_wanted(const vb_port_t *port)
{
    uint32_t wanted = NULL == port->rx ? 0 : port->rx->window.current;
    for (const vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        if (NULL != peer->link && NULL != peer->link->rx) {
            wanted += peer->link->rx->window.current;
        }
    }
    return wanted;
}

uint16_t vb_port_number(const vb_port_t *port)
{
    return NULL == port->listener ? 0 : ntohs(rdma_get_src_port(port->listener));
}

struct ibv_pd *vb_port_pd(const vb_port_t *port)
{
    return port->pd;
}

static void *run(void *argument)
{
    vb_port_t *port = argument;
    spec_thread_name("ibx-verbs");
    while (!atomic_load(&port->is_closing)) {
        vb_port_events(port, -1);
    }
    return NULL;
}

static bool start_thread(vb_port_t *port)
{
    const int rc = spec_thread_create(&port->thread, run, port);
    errno = rc;
    port->has_thread = 0 == rc;
    return port->has_thread;
}

bool vb_make_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && 0 == fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static void close_notices(vb_port_t *port)
{
    if (NULL != port->notices) {
        (void) ibv_destroy_comp_channel(port->notices);
        port->notices = NULL;
    }
}

/* False: there are none, but there must be. Otherwise a process that waits polls, as over other adapters. */
static bool open_notices(vb_port_t *port)
{
    const bool must = VB_ON == port->config.notices;
    if (!must && (VB_AUTO != port->config.notices || !port->able.software)) {
        return true;
    }
    port->notices = ibv_create_comp_channel(port->context);
    if (NULL != port->notices && vb_make_nonblocking(port->notices->fd)) {
        return true;
    }
    if (!must) {
        close_notices(port);
    }
    return !must;
}

static bool open_queues(vb_port_t *port, char *why, size_t size)
{
    if (!vb_make_nonblocking(port->context->async_fd)) {
        return vb_fails(why, size, "no events of the device: %s", strerror(errno));
    }
    port->pd = ibv_alloc_pd(port->context);
    if (NULL == port->pd) {
        return vb_fails(why, size, "no protection domain: %s", strerror(errno));
    }
    if (!open_notices(port)) {
        return vb_fails(why, size, "no channel for notices of completions: %s", strerror(errno));
    }
    port->cq = ibv_create_cq(port->context, (int) port->entries.limit, port, port->notices, 0);
    if (NULL == port->cq) {
        return vb_fails(why, size, "no completion queue of %u entries: %s (ulimit -l is too low?)",
                 port->entries.limit, strerror(errno));
    }
    if (!port->able.shared_queue) {
        return true;
    }
    struct ibv_srq_init_attr attr = {.srq_context = port,
                                     .attr = {.max_wr = port->config.window_max, .max_sge = 1}};
    port->srq = ibv_create_srq(port->pd, &attr);
    port->rx = NULL == port->srq ? NULL : malloc(sizeof(*port->rx));
    if (NULL == port->rx) {
        return vb_fails(why, size, "no shared receive queue of %u: %s", port->config.window_max,
                 strerror(errno));
    }
    vb_rx_init(port->rx, port, &port->drains, 0, 0, port->config.window_max,
               port->config.window_initial, port->config.window_max, spec_now());
    port->rx->srq = port->srq;
    return vb_rx_fill(port->rx) >= port->rx->window.current
           || vb_fails(why, size,
                       "%u receive buffers of %u bytes cannot be registered: %s (ulimit -l is too low?)",
                       port->rx->window.current, port->config.buffer_size, strerror(errno));
}

/* Without an address there is only one way to connect. */
static bool has_address(const vb_config_t *config)
{
    return AF_INET == config->address.sin_family || VB_CONNECT_CM == config->connect;
}

/* Others may connect from now on: by datagrams if the port takes them, else by rdma_cm. */
static bool open_ways(vb_port_t *port, char *why, size_t size)
{
    vb_abilities_t *able = &port->able;
    const vb_connect_t how = port->config.connect;
    if (VB_IWARP == able->fabric) {
        (void) vb_fails(able->mailbox_why, sizeof(able->mailbox_why), "iWARP adapters are connected by rdma_cm");
    } else if (VB_CONNECT_CM == how) {
        (void) vb_fails(able->mailbox_why, sizeof(able->mailbox_why), "btl_ibx_connect is cm");
    } else {
        (void) vb_mailbox_open(port, able->mailbox_why, sizeof(able->mailbox_why));
    }
    able->by_datagrams = NULL != port->mailbox;
    const bool must = !has_address(&port->config) || (VB_CONNECT_DATAGRAMS == how && VB_IWARP != able->fabric);
    return able->by_datagrams
           || (must ? vb_fails(why, size, "nobody could connect: %s", able->mailbox_why) : vb_cm_listen(port, why, size));
}

vb_port_t *vb_port_open(const vb_config_t *config, char *why, size_t size)
{
    vb_port_t *port = calloc(1, sizeof(*port));
    if (NULL == port) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    port->config = *config;
    /* A sender that found no buffer uses none before it comes again. */
    const uint64_t waits = 4 * vb_rnr_ns(config->rnr_timer);
    if (0 != config->window_quiet_ns && config->window_quiet_ns < waits) {
        port->config.window_quiet_ns = waits;
    }
    pthread_mutex_init(&port->lock, NULL);
    spec_list_init(&port->queue);
    spec_list_init(&port->broken);
    port->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* Without it nothing could end the thread. */
    bool is_good = (port->wake >= 0
                    || vb_fails(why, size, "no descriptor for events: %s (ulimit -n is too low?)", strerror(errno)))
                   && (has_address(config) ? vb_cm_open(port, why, size) : vb_device_open(port, why, size))
                   && vb_port_examine(port, NULL == port->listener ? config->port : port->listener->port_num, why, size)
                   && open_queues(port, why, size);
    if (VB_IWARP != port->able.fabric) {
        port->config.rules.words = 0; /* no other fabric forgets the first one */
    }
    if (is_good) {
        port->hybrid =
            vb_hybrid_open(port, port->able.datagrams_why, sizeof(port->able.datagrams_why));
        port->able.datagrams = NULL != port->hybrid;
        is_good = open_ways(port, why, size);
        vb_loop_examine(port);
    }
    if (VB_IWARP == port->able.fabric || NULL != port->hybrid) {
        /* A completion of iWARP does not say that the data is there (RFC 5040, 5.5); datagrams have their own rules. */
        port->config.rules.resume_ns = 0;
    }
    if (is_good) {
        vb_port_enlist(port);
        is_good = !config->thread || start_thread(port) || vb_fails(why, size, "no thread: %s", strerror(errno));
    }
    if (!is_good) {
        vb_port_quiesce(port, 0);
        vb_port_close(port);
        return NULL;
    }
    return port;
}

/* Are goodbyes still to go out? */
static bool has_links(const vb_port_t *port)
{
    const vb_peer_t *peer = port->peers;
    while (NULL != peer && (NULL == peer->link || !vb_link_has_pair(peer->link))) { /* others carry those */
        peer = peer->next;
    }
    return NULL != peer;
}

/* Poll until that is done. What still arrives is nobody's. */
static void poll_while(vb_port_t *port, bool (*is_busy)(const vb_port_t *), uint64_t wait_ns)
{
    const uint64_t end = spec_now() + wait_ns;
    vb_received_t nobodys[16];
    bool goes_on = true;
    while (goes_on) {
        int events;
        vb_port_lock(port);
        const int n = vb_port_poll(port, nobodys, 16, &events);
        vb_port_return(port, nobodys, n);
        goes_on = is_busy(port);
        vb_port_unlock(port);
        if (spec_now() >= end) {
            return;
        }
        if (goes_on && 0 == n + events) {
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        }
    }
}

void vb_port_quiesce(vb_port_t *port, uint64_t wait_ns)
{
    if (NULL != port->hybrid && NULL != port->peers) {
        poll_while(port, vb_hybrid_is_busy, wait_ns); /* what went by datagrams is acknowledged */
    }
    vb_port_lock(port);
    for (vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        vb_peer_close(peer);
    }
    vb_port_unlock(port);
    if (NULL != port->peers) {
        poll_while(port, has_links, wait_ns);
    }
    atomic_store(&port->is_closing, true);
    if (port->has_thread) {
        vb_port_wake(port);
        pthread_join(port->thread, NULL);
        port->has_thread = false;
    }
    vb_port_delist(port);
    vb_port_lock(port);
    for (vb_peer_t *peer = port->peers; NULL != peer; peer = peer->next) {
        if (NULL != peer->link) {
            vb_link_drop(peer->link, VB_ENDED);
        }
    }
    for (vb_link_t *link = port->graveyard; NULL != link; link = link->next) {
        link->delivering = 0; /* nobody delivers any more */
    }
    vb_mailbox_flush(port, UINT64_C(10000000));
    vb_port_unlock(port);
    vb_port_bury(port);
}

static void no_done(void *context, vb_peer_t *peer, void *request, vb_status_t status)
{
    (void) context, (void) peer, (void) request, (void) status;
}

static void no_ready(void *context, vb_peer_t *peer)
{
    (void) context, (void) peer;
}

static void no_down(void *context, vb_peer_t *peer, const char *why)
{
    (void) context, (void) peer, (void) why;
}

void vb_port_leave(vb_port_t *port, uint64_t wait_ns)
{
    vb_port_lock(port);
    port->config.done = no_done;
    port->config.ready = no_ready;
    port->config.down = no_down;
    port->config.stranger = NULL;
    port->config.second = NULL;
    port->config.trace = NULL;
    port->config.switch_trace = NULL;
    vb_port_unlock(port);
    vb_port_quiesce(port, wait_ns);
}

void vb_port_close(vb_port_t *port)
{
    if (NULL != port->hybrid) {
        vb_hybrid_close(port->hybrid);
    }
    vb_mailbox_close(port);
    if (NULL != port->srq) {
        (void) ibv_destroy_srq(port->srq);
    }
    if (NULL != port->rx) {
        vb_rx_destroy(port->rx);
        free(port->rx);
    }
    if (NULL != port->cq) {
        (void) ibv_destroy_cq(port->cq);
    }
    close_notices(port);
    if (NULL != port->pd) {
        (void) ibv_dealloc_pd(port->pd);
    }
    vb_cm_close(port);
    if (port->owns_context) {
        (void) ibv_close_device(port->context);
    }
    vb_failover_close(port);
    while (NULL != port->peers) {
        vb_peer_t *peer = port->peers;
        port->peers = peer->next;
        free(peer->kept);
        free(peer);
    }
    vb_map_free(&port->by_name);
    vb_map_free(&port->by_qp);
    vb_map_free(&port->by_id);
    if (port->wake >= 0) {
        close(port->wake);
    }
    pthread_mutex_destroy(&port->lock);
    free(port);
}

/* ---- peers ---- */

vb_peer_t *vb_peer_add(vb_port_t *port, uint64_t name, const struct sockaddr_in *address,
                       uint64_t key, void *user)
{
    vb_peer_t *peer = vb_map_get(&port->by_name, name);
    if (NULL == peer) {
        peer = calloc(1, sizeof(*peer));
        if (NULL == peer || !vb_map_put(&port->by_name, name, peer)) {
            free(peer);
            return NULL;
        }
        peer->port = port;
        peer->name = name;
        peer->connector = &vb_cm;
        vb_conn_init(&peer->conn, vb_peer_own_name(peer), name);
        peer->next = port->peers;
        port->peers = peer;
    }
    if (VB_CLOSED == peer->conn.state && NULL == peer->link) { /* met again */
        vb_conn_init(&peer->conn, vb_peer_own_name(peer), name);
        peer->messages_sent = peer->messages_received = 0;
        peer->elsewhere_asked = 0;
        peer->why[0] = '\0';
    }
    if (NULL != address) {
        peer->address = *address;
        peer->key = key;
        peer->is_met = true;
    }
    if (NULL != user) {
        peer->user = user;
    }
    return peer;
}

void *vb_peer_user(const vb_peer_t *peer)
{
    return peer->user;
}

uint64_t vb_peer_name(const vb_peer_t *peer)
{
    return peer->name & ~VB_BULK_NAME;
}

/* ---- the second connection to a process ---- */

vb_peer_t *vb_peer_add_bulk(vb_peer_t *first, void *user)
{
    if (NULL != first->port->hybrid || vb_is_name_of(first->port, first->name)
        || 0 != (first->port->config.name & VB_BULK_NAME) || 0 != (first->name & VB_BULK_NAME)) {
        return NULL;
    }
    vb_peer_t *peer =
        vb_peer_add(first->port, first->name | VB_BULK_NAME, &first->address, first->key, user);
    if (NULL != peer && 0 != first->mailbox.number) {
        (void) vb_peer_add_mailbox(peer, &first->mailbox);
    }
    return peer;
}

bool vb_peer_has_second(const vb_peer_t *first)
{
    return NULL != vb_map_get(&first->port->by_name, first->name | VB_BULK_NAME);
}

bool vb_peer_is_bulk(const vb_peer_t *peer)
{
    return 0 != (peer->name & VB_BULK_NAME);
}

uint64_t vb_peer_own_name(const vb_peer_t *peer)
{
    return peer->port->config.name | (peer->name & VB_BULK_NAME);
}

void vb_peer_connect(vb_peer_t *peer)
{
    if (VB_OPEN != peer->conn.state && !vb_conn_is_over(&peer->conn)) {
        vb_peer_wants(peer);
    }
}

bool vb_peer_was_open(const vb_peer_t *peer)
{
    return 0 != peer->conn.opened_at;
}

const vb_conn_t *vb_peer_connection(const vb_peer_t *peer)
{
    return &peer->conn;
}

uint32_t vb_inline_max(const vb_peer_t *peer)
{
    return peer->inline_max;
}

uint32_t vb_inline_put_max(const vb_peer_t *peer)
{
    return peer->inline_put_max;
}

bool vb_peer_is_over(const vb_peer_t *peer)
{
    return vb_conn_is_over(&peer->conn) || (NULL != peer->mate && VB_OK != peer->mate->over);
}

void vb_peer_lose(vb_peer_t *peer, const char *why)
{
    if (!vb_conn_is_over(&peer->conn) && '\0' == peer->why[0]) {
        (void) vb_peer_why(peer, "%s", why);
    }
    if (!vb_conn_is_over(&peer->conn)) {
        vb_peer_step(peer, VB_ON_REFUSED);
    }
    if (!vb_conn_is_over(&peer->conn)) { /* nobody has been asked, or is */
        vb_peer_step(peer, VB_ON_CLOSE);
    }
}

void vb_peer_close(vb_peer_t *peer)
{
    vb_peer_step(peer, VB_ON_CLOSE);
    if (NULL != peer->port->hybrid) {
        vb_hybrid_part(peer);
    }
    vb_mailbox_part(peer);
    peer->user = NULL;
}
