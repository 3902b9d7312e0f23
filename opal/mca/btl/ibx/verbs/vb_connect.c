/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connections: what has happened in, and what the state machine makes of it done by the connector of the peer. */
#include "vb_connect.h"
#include "vb_hybrid.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* Why a request is rejected by the fabric: nobody listens (InfiniBand specification, 12.6.7.2, invalid service ID). */
#define NO_SERVICE 8

bool vb_fails(char *why, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void) vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- actions ---- */

static vb_status_t status_of(const vb_conn_t *conn)
{
    return VB_DEAD == conn->state ? VB_LOST : VB_ENDED;
}

/* The peer's attempt from now on; asked NULL: mine. False: why is set, and it has none. */
static bool begin(vb_peer_t *peer, const vb_connector_t *by, const vb_asked_t *asked)
{
    const char *fails = "out of memory";
    vb_link_t *link = vb_link_new(peer->port, by);
    if (NULL != link) {
        vb_peer_link(peer, link);
        fails = NULL == by->begin ? NULL : by->begin(link, asked);
    }
    if (NULL == fails) {
        return true;
    }
    (void) vb_peer_why(peer, "%s: %s", fails, strerror(errno));
    peer->link = NULL;
    free(link);
    return false;
}

static vb_progress_t go_on(vb_link_t *link, vb_progress_t (*how)(vb_link_t *))
{
    return NULL == how ? VB_STEP_DONE : how(link);
}

static vb_progress_t resolve(vb_peer_t *peer)
{
    const vb_connector_t *by = peer->conn.is_elsewhere ? &vb_elsewhere : peer->connector;
    return begin(peer, by, NULL) ? go_on(peer->link, by->resolve) : VB_STEP_FAILED;
}

static bool prepare(vb_link_t *link)
{
    return (NULL == link->by->prepare || link->by->prepare(link)) && vb_link_prepare(link);
}

/* False: why is set; without a link, the request is still to be answered. */
static bool accept_asked(vb_peer_t *peer, const vb_asked_t *asked)
{
    return begin(peer, asked->by, asked) && prepare(peer->link) && vb_link_greet(peer->link, &asked->hello)
           && asked->by->welcome(peer->link, asked);
}

/* The actions that answer a request of the peer's. False: it failed. */
static bool answer_request(vb_peer_t *peer, unsigned todo, const vb_asked_t *asked)
{
    vb_port_t *port = peer->port;
    bool is_good = true;
    if (todo & VB_DO_ACCEPT) {
        is_good = accept_asked(peer, asked);
        port->counters.accepted += is_good;
        if (!is_good && NULL == peer->link) {
            asked->by->reject(port, asked, VB_BUSY);
        }
    }
    if (todo & VB_DO_CROSSED) {
        ++port->counters.crossed;
        asked->by->reject(port, asked, VB_CROSSED);
    }
    if (todo & (VB_DO_BUSY | VB_DO_REFUSE)) {
        ++port->counters.rejected;
        asked->by->reject(port, asked, todo & VB_DO_BUSY ? VB_BUSY : VB_STRANGER);
    }
    return is_good;
}

/* What was kept goes first. */
static void open_for_more(vb_peer_t *peer)
{
    if (vb_link_post_again(peer->link)) {
        peer->port->config.ready(peer->port->config.context, peer);
    } else {
        vb_peer_wait(peer);
    }
}

/* The actions that say what has become of the connection. */
static void tell_change(vb_peer_t *peer, vb_conn_event_t event, unsigned todo)
{
    vb_port_t *port = peer->port;
    if (todo & VB_DO_READY) {
        ++port->counters.connected;
        port->counters.bulk += vb_peer_is_bulk(peer);
        port->counters.resumed += peer->conn.is_resumed;
        port->counters.elsewhere += peer->conn.is_elsewhere;
        peer->why[0] = '\0'; /* of what broke */
        if (!vb_hybrid_opened(peer)) {
            vb_peer_use(peer, peer->link);
            open_for_more(peer);
        }
    }
    if (vb_conn_is_over(&peer->conn)) {
        vb_peer_fail_kept(peer, status_of(&peer->conn));
    }
    if (todo & VB_DO_REPORT && !vb_hybrid_outlives(peer)) {
        port->counters.lost += !vb_peer_is_bulk(peer); /* which ends when this is in use */
        if ('\0' == peer->why[0]) {
            (void) vb_peer_why(peer, "%s: %s", vb_conn_event_name(event), "the connection ended");
        }
        port->config.ready(port->config.context, peer); /* what waits is to fail */
        port->config.down(port->config.context, peer, peer->why);
    }
}

static void step(vb_peer_t *peer, vb_conn_event_t event, const vb_asked_t *asked)
{
    vb_port_t *port = peer->port;
    const bool had_deadline = 0 != peer->conn.deadline;
    const bool was_first = vb_conn_is_first_attempt(&peer->conn), was_resuming = vb_conn_is_resuming(&peer->conn);
    const vb_conn_state_t from = peer->conn.state;
    const unsigned todo = vb_conn_step(&peer->conn, event, spec_now(), &port->config.rules);
    port->deadlines += (0 != peer->conn.deadline) - had_deadline;
    port->attempts += vb_conn_is_first_attempt(&peer->conn) - was_first;
    port->resuming += vb_conn_is_resuming(&peer->conn) - was_resuming;
    vb_progress_t progress = VB_STEP_BEGUN;

    if (NULL != port->config.trace) {
        port->config.trace(port->config.context, peer, from, event, peer->why);
    }
    if (todo & VB_DO_BYE) { /* the link ends when all that is posted has gone out */
        peer->link->owes_bye = !vb_post_control(peer->link, VB_BYE);
        port->has_cut = true;
    }
    if (todo & VB_DO_BREAK && NULL != peer->link) {
        vb_peer_use(peer, NULL);
        vb_link_break(peer->link);
    }
    if (todo & VB_DO_DROP && NULL != peer->link && !(todo & VB_DO_BYE)) {
        vb_link_drop(peer->link, status_of(&peer->conn));
    }
    if (todo & VB_DO_RESOLVE) {
        ++port->counters.asked;
        progress = resolve(peer);
    }
    if (todo & VB_DO_ROUTE) {
        progress = go_on(peer->link, peer->link->by->route);
    }
    if ((todo & VB_DO_CONNECT && !(prepare(peer->link) && peer->link->by->ask(peer->link))) || !answer_request(peer, todo, asked)) {
        progress = VB_STEP_FAILED;
    }
    if (todo & VB_DO_FIRST) {
        port->counters.repeated += !(todo & VB_DO_READY);
        (void) vb_post_control(peer->link, VB_CREDIT);
    }
    tell_change(peer, event, todo);
    if (todo & VB_DO_DROP) {
        vb_hybrid_attempt_ended(peer);
    }
    if (todo & VB_DO_BREAK && NULL == peer->link) {
        step(peer, VB_ON_STILL, NULL);
    } else if (VB_STEP_FAILED == progress) {
        step(peer, NULL != peer->link && peer->link->is_final ? VB_ON_REFUSED : VB_ON_FAILED, NULL);
    } else if (VB_STEP_DONE == progress) {
        step(peer, todo & VB_DO_RESOLVE ? VB_ON_ADDRESS : VB_ON_ROUTE, NULL);
    }
    if (0 != peer->conn.deadline) {
        vb_port_wake(port);
    }
}

void vb_peer_step(vb_peer_t *peer, vb_conn_event_t event)
{
    step(peer, event, NULL);
}

/* Where all talk to all at once, as many attempts as there are peers would keep the fabric's managers busy with requests
 * that have been given up and made again by the time it is their turn. */
void vb_peer_wants(vb_peer_t *peer)
{
    vb_port_t *port = peer->port;
    if (peer->conn.is_wanted || spec_node_is_queued(&peer->turn)) {
        return;
    }
    if (VB_IDLE != peer->conn.state || port->attempts < port->config.attempts) {
        step(peer, VB_ON_WANTED, NULL);
        return;
    }
    ++port->counters.queued;
    spec_list_append(&port->queue, &peer->turn);
}

/* A peer that has asked meanwhile needs no attempt of mine: that it is wanted is all there is to know. */
void vb_connect_begin_queued(vb_port_t *port)
{
    while (!spec_list_is_empty(&port->queue) && port->attempts < port->config.attempts) {
        step(SPEC_ENTRY(spec_list_pop(&port->queue), vb_peer_t, turn), VB_ON_WANTED, NULL);
    }
    while (!spec_list_is_empty(&port->broken) && port->resuming < port->config.resuming) {
        vb_peer_t *peer = SPEC_ENTRY(spec_list_pop(&port->broken), vb_peer_t, turn);
        if (vb_conn_is_to_resume(&peer->conn, spec_now())) { /* it has not asked meanwhile */
            step(peer, VB_ON_TIMEOUT, NULL);
        }
    }
}

/* In turns: those that break first, and fail, would keep the others from trying at all. */
void vb_connect_queue_broken(vb_peer_t *peer)
{
    if (!spec_node_is_queued(&peer->turn)) {
        spec_list_append(&peer->port->broken, &peer->turn);
    }
}

/* ---- what connectors tell ---- */

/* One that asks for a second connection. */
static void tell_second(vb_peer_t *peer)
{
    vb_port_t *port = peer->port;
    if (vb_peer_is_bulk(peer) && NULL == peer->user && NULL != port->config.second) {
        vb_peer_t *first = vb_map_get(&port->by_name, peer->name & ~VB_BULK_NAME);
        if (NULL != first && NULL != first->user) {
            port->config.second(port->config.context, first);
        }
    }
}

void vb_connect_asked(vb_port_t *port, const vb_asked_t *asked)
{
    const vb_hello_t *hello = &asked->hello;
    if (VB_ASK != hello->answer || hello->key != port->config.key
        || vb_is_name_of(port, hello->name)
        || (NULL != port->hybrid && 0 != (hello->name & VB_BULK_NAME))
        || hello->buffer != port->config.buffer_size) {
        ++port->counters.strangers;
        asked->by->reject(port, asked, VB_STRANGER);
        return;
    }
    /* One that wants to go on with a connection is not met anew. */
    vb_peer_t *peer = hello->is_again ? vb_map_get(&port->by_name, hello->name)
                                      : vb_peer_add(port, hello->name, NULL, 0, NULL);
    if (NULL == peer) {
        asked->by->reject(port, asked, hello->is_again ? VB_STRANGER : VB_BUSY);
        return;
    }
    tell_second(peer);
    if (NULL != port->hybrid && !peer->is_met) {
        /* Whether it takes datagrams is not known yet, so neither is when messages may come. */
        if (NULL != port->config.stranger) {
            port->config.stranger(port->config.context, peer->name, NULL, 0);
        }
        asked->by->reject(port, asked, VB_BUSY);
        return;
    }
    if (NULL != peer->mate && !vb_hybrid_admits(peer)) {
        ++port->counters.full;
        asked->by->reject(port, asked, VB_FULL);
        return;
    }
    step(peer, asked->by == &vb_elsewhere ? VB_ON_ASKED_ELSEWHERE : hello->is_again ? VB_ON_ASKED_AGAIN : VB_ON_ASKED, asked);
}

bool vb_connect_is_welcome(vb_link_t *link, const vb_hello_t *hello)
{
    vb_peer_t *peer = link->peer;
    if (NULL != hello && VB_WELCOME == hello->answer && hello->name == peer->name && vb_link_greet(link, hello)) {
        return true;
    }
    ++peer->port->counters.strangers;
    if ('\0' == peer->why[0]) {
        (void) vb_peer_why(peer, "another process answered at its address");
    }
    step(peer, VB_ON_REFUSED, NULL);
    return false;
}

void vb_connect_rejected(vb_peer_t *peer, const vb_hello_t *hello, int status)
{
    vb_conn_event_t what = VB_ON_REJECTED;
    if (NULL != hello) {
        const bool is_final = VB_STRANGER == hello->answer || VB_FULL == hello->answer;
        what = VB_CROSSED == hello->answer ? VB_ON_CROSS : is_final ? VB_ON_REFUSED : VB_ON_REJECTED;
        (void) vb_peer_why(peer, VB_FULL == hello->answer ? "it has connections enough (btl_ibx_max_rc)"
                          : VB_ON_REFUSED == what ? "it does not know this process or has given it up, or its "
                                                    "btl_ibx_verbs_max_send_size, btl_ibx_verbs_resume_timeout or version is another"
                                                  : "it is busy");
    } else {
        (void) vb_peer_why(peer, "nobody listens there (status %d)", status);
        what = NO_SERVICE == status ? VB_ON_ABSENT : what;
    }
    peer->port->counters.retried += VB_ON_REJECTED == what || VB_ON_ABSENT == what;
    step(peer, what, NULL);
}

/* Messages may have arrived before: they are taken first. */
void vb_connect_ended(vb_peer_t *peer, const char *why)
{
    if ('\0' == peer->why[0]) {
        (void) vb_peer_why(peer, "%s", why);
    }
    vb_peer_cut(peer);
}
