/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Peers: what is known of an identity, a connection's beginning and its end. */
#include "iw_internal.h"

#include <stdlib.h>

/* ---- known identities ---- */

static uint32_t known_slot(const iw_known_t *table, uint32_t size, uint64_t identity)
{
    uint64_t h = identity * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t) (h >> 32) & (size - 1);
    while (table[at].used && table[at].identity != identity) {
        at = (at + 1) & (size - 1);
    }
    return at;
}

iw_known_t *iw_known_find(iw_engine_t *e, uint64_t identity)
{
    if (0 == e->known_size) {
        return NULL;
    }
    iw_known_t *k = &e->known[known_slot(e->known, e->known_size, identity)];
    return k->used ? k : NULL;
}

static iw_known_t *known_get(iw_engine_t *e, uint64_t identity)
{
    iw_known_t *k = iw_known_find(e, identity);
    if (NULL != k) {
        return k;
    }
    if (4 * (e->known_used + 1) > 3 * e->known_size) {
        uint32_t size = 0 == e->known_size ? 16 : 2 * e->known_size;
        iw_known_t *table = calloc(size, sizeof(*table));
        if (NULL == table) {
            return NULL;
        }
        for (uint32_t i = 0; i < e->known_size; ++i) {
            if (e->known[i].used) {
                table[known_slot(table, size, e->known[i].identity)] = e->known[i];
            }
        }
        free(e->known);
        e->known = table;
        e->known_size = size;
    }
    k = &e->known[known_slot(e->known, e->known_size, identity)];
    *k = (iw_known_t){.identity = identity, .used = true};
    ++e->known_used;
    return k;
}

/* ---- peers ---- */

iw_peer_t *iw_peer_add(iw_engine_t *e, uint64_t identity, const iw_address_t *address,
                       const iw_key_t *key, void *user)
{
    iw_known_t *k = known_get(e, identity);
    if (NULL == k || NULL != k->peer) {
        return NULL;
    }
    iw_peer_t *p = calloc(1, sizeof(*p));
    if (NULL == p) {
        return NULL;
    }
    if (!iw_done_reserve(e)) {
        free(p);
        return NULL;
    }
    ++e->peer_count;
    p->engine = e;
    p->user = user;
    p->identity = identity;
    p->address = *address;
    iw_auth_init(&p->auth, e->config.auth, key);
    spec_list_init(&p->tx.requests);
    spec_list_init(&p->tx.sends);
    spec_list_init(&p->tx.asks);
    spec_list_init(&p->tx.bulk);
    spec_list_init(&p->tx.responses);
    spec_list_init(&p->tx.atomics);
    spec_list_init(&p->loss.in_flight);
    spec_list_init(&p->loss.lost);
    spec_list_init(&p->rx.messages);
    spec_list_init(&p->rx.early);
    spec_list_append(&e->peers, &p->known);
    k->peer = p;
    return p;
}

void iw_peer_expect(iw_peer_t *p, uint64_t round_trip)
{
    p->path.rtt.initial = round_trip;
}

iw_contact_t iw_peer_contact(const iw_peer_t *p)
{
    if (IW_IDLE != p->state && IW_ACTIVE != p->state) {
        return p->confirmed ? IW_CONTACT_LEFT : IW_CONTACT_ENDED;
    }
    if (p->confirmed || 0 == p->remote_generation) {
        return p->mutual ? IW_CONTACT_ANSWERED : p->confirmed ? IW_CONTACT_HALF : IW_CONTACT_NONE;
    }
    return p->engine->time - p->alive.heard > IW_ASK_FADES ? IW_CONTACT_FADED : IW_CONTACT_HEARD;
}

void iw_peer_ask(iw_peer_t *p, uint32_t most)
{
    if ((IW_IDLE == p->state || IW_ACTIVE == p->state) && !p->mutual && most > p->alive.questions_most) {
        p->alive.questions_most = most < UINT16_MAX ? (uint16_t) most : UINT16_MAX;
        iw_ready(p);
    }
}

uint32_t iw_peer_asked(const iw_peer_t *p)
{
    return p->alive.questions;
}

void iw_peer_set_alternate(iw_peer_t *p, bool has_alternate)
{
    p->failover.has_alternate = has_alternate;
    p->failover.is_alternate &= has_alternate;
}

void iw_peer_alternate_changed(iw_peer_t *p, uint64_t now)
{
    if (p->failover.is_alternate && 0 != p->alive.waiting_since) {
        p->alive.waiting_since = iw_time(p->engine, now);
    }
}

bool iw_peer_is_alternate(const iw_peer_t *p)
{
    return p->failover.is_alternate;
}

bool iw_peer_is_blocked(const iw_peer_t *p)
{
    return iw_failover_is_blocked(&p->failover);
}

void *iw_peer_user(const iw_peer_t *p)
{
    return p->user;
}

uint64_t iw_peer_identity(const iw_peer_t *p)
{
    return p->identity;
}

/* A connection number: a free index, and random bits so that an old one finds nothing. */
static bool conn_take(iw_engine_t *e, iw_peer_t *p)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < e->conns; ++i) {
        at = (e->conn_hint + i) % e->conns;
        if (NULL == e->conn[at]) {
            break;
        }
    }
    if (0 == e->conns || NULL != e->conn[at]) {
        uint32_t room = 0 == e->conns ? 16 : 2 * e->conns;
        iw_peer_t **conn =
            room > IW_CONN_INDEX_MASK ? NULL : realloc(e->conn, room * sizeof(*conn));
        if (NULL == conn) {
            return false;
        }
        for (uint32_t i = e->conns; i < room; ++i) {
            conn[i] = NULL;
        }
        at = e->conns;
        e->conn = conn;
        e->conns = room;
    }
    e->conn[at] = p;
    e->conn_hint = at + 1;
    do {
        p->conn = (uint32_t) iw_random(e) << IW_CONN_INDEX_BITS | at;
    } while (0 == p->conn);
    return true;
}

void iw_peer_set_state(iw_peer_t *p, iw_state_t state)
{
    static const char *const name[] = {
        [IW_IDLE] = "idle", [IW_ACTIVE] = "active", [IW_DOWN] = "down",
        [IW_CLOSING] = "closing", [IW_GIVEN_UP] = "given up"};
    const iw_config_t *c = &p->engine->config;
    const uint8_t from = p->state;
    p->state = (uint8_t) state;
    if (NULL != c->trace) {
        c->trace(c->context, p, name[from], name[state], IW_DOWN == state ? (iw_status_t) p->why : IW_OK);
    }
}

bool iw_peer_activate(iw_peer_t *p, uint64_t now)
{
    iw_engine_t *e = p->engine;
    if (!iw_timer_reserve(e) || !iw_auth_prepare(&p->auth) || !conn_take(e, p)) {
        return false;
    }
    ++e->active;
    iw_peer_set_state(p, IW_ACTIVE);
    p->generation = ++e->last_generation;
    p->tx.next_pn = 1; /* so that a floor below it fits */
    p->tx.next_ssn = p->tx.una_ssn = p->rx.expected = 0;
    p->tx.send_msn = p->tx.read_msn = p->tx.answer_msn = 1; /* RFC 5041, 5.2 */
    p->rx.expected_msn = p->rx.expected_read = p->rx.expected_answer = 1;
    p->tx.window = e->config.peer_space;
    p->loss.reorder = IW_REORDER_MIN;
    p->tx.peer_reads = 1;
    p->alive.heard = now;
    iw_cc_init(&p->path.cc, now);
    iw_path_init(&p->path.mtu, e->config.datagram_min, e->config.datagram_min);
    return true;
}

/* Everything of the connection goes; requests complete with an error. */
static void tear_down(iw_peer_t *p, iw_status_t why, const iw_request_t *cause)
{
    iw_engine_t *e = p->engine;
    while (!spec_list_is_empty(&p->loss.in_flight)) {
        iw_segment_free(SPEC_ENTRY(p->loss.in_flight.next, iw_segment_t, link));
    }
    while (!spec_list_is_empty(&p->loss.lost)) {
        iw_segment_free(SPEC_ENTRY(p->loss.lost.next, iw_segment_t, link));
    }
    while (!spec_list_is_empty(&p->tx.requests)) {
        iw_request_t *r = SPEC_ENTRY(p->tx.requests.next, iw_request_t, all);
        iw_request_report(r, r == cause || NULL == cause ? why : IW_FLUSHED);
        r->out = 0;
        iw_request_release(r);
    }
    while (!spec_list_is_empty(&p->rx.early)) {
        iw_early_t *early = SPEC_ENTRY(p->rx.early.next, iw_early_t, link);
        spec_list_remove(&early->link);
        iw_pool_put(&e->early, early);
    }
    while (!spec_list_is_empty(&p->rx.messages)) {
        iw_message_t *m = SPEC_ENTRY(p->rx.messages.next, iw_message_t, link);
        spec_list_remove(&m->link);
        iw_receive_put_back(e, p, &m->receive);
        iw_pool_put(&e->messages, m);
    }
    if (spec_node_is_queued(&p->rx.waiting)) {
        spec_list_remove(&p->rx.waiting);
    }
    iw_timer_drop(p);
    p->rx.rnr = p->rx.ack_now = p->tx.ping_pending = false;
    iw_receive_part(p, true, true, 0, e->time);
    p->alive.waiting_since = 0;
}

static void conn_release(iw_peer_t *p)
{
    if (0 != p->conn) {
        p->engine->conn[p->conn & IW_CONN_INDEX_MASK] = NULL;
        p->conn = 0;
        --p->engine->active;
    }
}

void iw_peer_down(iw_peer_t *p, iw_status_t why, const iw_request_t *cause)
{
    iw_engine_t *e = p->engine;
    if (IW_ACTIVE != p->state && IW_IDLE != p->state) {
        return;
    }
    p->why = (uint8_t) why;
    iw_peer_set_state(p, IW_DOWN);
    tear_down(p, why, cause);
    e->count.peers_down += IW_CLOSED != why; /* a goodbye is none */
    iw_complete(e, NULL, p, IW_PEER_DOWN, why, 0);
}

/* Nothing says that it is not there, so it is waited for longer. */
static bool may_be_stopped(const iw_peer_t *p)
{
    const iw_config_t *c = &p->engine->config;
    return !p->alive.unreachable && c->silent_timeout_ns > c->peer_timeout_ns;
}

uint64_t iw_peer_patience(const iw_peer_t *p)
{
    const iw_config_t *c = &p->engine->config;
    return !may_be_stopped(p)            ? c->peer_timeout_ns
           : IW_SILENT == p->alive.quiet ? c->silent_timeout_ns
           : p->confirmed                ? c->peer_timeout_ns
                                         : c->peer_timeout_ns / IW_FIRST_SHARE;
}

bool iw_peer_is_due(const iw_peer_t *p, uint64_t ns)
{
    /* If it was not asked, time may have passed while nobody called us. */
    return ns >= iw_peer_patience(p) && p->alive.asked >= IW_DEAD_ASKED;
}

bool iw_peer_silence(iw_peer_t *p, uint64_t ns)
{
    iw_engine_t *e = p->engine;
    if (ns >= e->config.peer_timeout_ns / IW_DOUBT_SHARE && IW_HEARD == p->alive.quiet) {
        p->alive.quiet = IW_DOUBTED;
    }
    if (!iw_peer_is_due(p, ns)) {
        return false;
    }
    if (may_be_stopped(p) && IW_SILENT != p->alive.quiet) {
        p->alive.quiet = IW_SILENT;
        ++e->count.peers_silent;
        if (iw_done_reserve(e)) {
            iw_complete(e, NULL, p, IW_PEER_SILENT, IW_OK, (uint32_t) (ns / IW_S));
        }
        return false;
    }
    iw_peer_down(p, IW_DEAD, NULL);
    return true;
}

void iw_engine_unreachable(iw_engine_t *e, const iw_address_t *address)
{
    for (spec_node_t *l = e->peers.next; l != &e->peers; l = l->next) {
        iw_peer_t *p = SPEC_ENTRY(l, iw_peer_t, known);
        if (IW_ACTIVE == p->state && IW_HEARD != p->alive.quiet
            && iw_address_equal(&p->address, address)) {
            p->alive.unreachable = true;
            iw_timer_set(p);
        }
    }
}

void iw_peer_free(iw_peer_t *p)
{
    tear_down(p, IW_FLUSHED, NULL);
    conn_release(p);
    if (spec_node_is_queued(&p->ready)) {
        spec_list_remove(&p->ready);
    }
    spec_list_remove(&p->known);
    iw_auth_fini(&p->auth);
    free(p);
}

void iw_peer_remove(iw_peer_t *p)
{
    iw_engine_t *e = p->engine;
    iw_known_t *k = iw_known_find(e, p->identity);
    if (NULL != k && k->peer == p) {
        k->peer = NULL;
    }
    /* What the peer sent has not failed because its acknowledgement was lost, or was not due yet. */
    const bool took_all = spec_list_is_empty(&p->rx.early) && spec_list_is_empty(&p->rx.messages);
    tear_down(p, IW_FLUSHED, NULL);
    iw_done_forget(p);
    --e->peer_count;
    if (IW_ACTIVE == p->state) {
        iw_peer_set_state(p, IW_CLOSING);
        p->rx.ack_now = took_all && 0 != p->remote_generation;
        iw_ready(p);
    } else {
        iw_peer_free(p);
    }
}

void iw_peer_refuse(iw_peer_t *p)
{
    if (IW_ACTIVE == p->state) {
        tear_down(p, IW_FLUSHED, NULL);
        iw_peer_set_state(p, IW_GIVEN_UP);
        iw_ready(p);
    }
}

void iw_engine_leave(iw_engine_t *e)
{
    for (spec_node_t *next, *l = e->peers.next; l != &e->peers; l = next) {
        iw_peer_t *p = SPEC_ENTRY(l, iw_peer_t, known);
        next = l->next;
        if (IW_CLOSING != p->state) {
            iw_peer_remove(p);
        }
    }
}
