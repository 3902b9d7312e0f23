/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See iw_engine.h. Here: the engine itself, peers, the shared receive queue, completions. */
#include "iw_internal.h"
#include "iw_random.h"

#include <stdlib.h>

#define CONN_INDEX_BITS 20
#define CONN_INDEX_MASK ((1u << CONN_INDEX_BITS) - 1)

const char *iw_status_name(iw_status_t status)
{
    static const char *const names[] = {
        [IW_OK] = "ok",
        [IW_AGAIN] = "nothing free at the moment",
        [IW_TOO_LONG] = "too long",
        [IW_NO_MEMORY] = "out of memory",
        [IW_FLUSHED] = "given up because the connection ended",
        [IW_DEAD] = "the peer does not answer",
        [IW_CLOSED] = "the peer ended the connection",
        [IW_RESTARTED] = "another process has taken the peer's place",
        [IW_REMOTE_ACCESS] = "the peer refused the memory access",
        [IW_REMOTE_ERROR] = "the peer refused the message",
        [IW_PROTOCOL] = "the peer broke the protocol",
    };
    return (size_t) status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown";
}

void iw_config_default(iw_config_t *c)
{
    *c = (iw_config_t){
        .auth = IW_AUTH_TAG,
        .datagram_max = IW_DATAGRAM_MIN,
        .datagram_min = IW_DATAGRAM_MIN,
        .receive_space = 1 << 20,
        .peer_space = IW_WINDOW_INITIAL,
        .peer_timeout_ns = 30 * IW_S,
        .ack_delay_ns = 100 * IW_US,
        .quota = 1024,
        .requests_max = 65536,
        .early_max = 65536,
        .reads = 16,
    };
}

uint64_t iw_random(iw_engine_t *e)
{
    return iw_random_next(&e->random);
}

iw_engine_t *iw_engine_create(const iw_config_t *config)
{
    iw_engine_t *e = calloc(1, sizeof(*e));
    if (NULL == e) {
        return NULL;
    }
    e->config = *config;
    e->random = config->seed;
    e->last_generation = config->start;
    e->alarm = UINT64_MAX;
    iw_list_init(&e->ready);
    iw_list_init(&e->peers);
    iw_list_init(&e->rnr_peers);
    iw_pool_init(&e->requests, sizeof(iw_request_t), 64, config->requests_max);
    iw_pool_init(&e->served, sizeof(iw_request_t), 16, UINT32_MAX); /* bounded by `reads` */
    iw_pool_init(&e->segments, sizeof(iw_segment_t), 128, UINT32_MAX);
    iw_pool_init(&e->messages, sizeof(iw_message_t), 64, config->early_max);
    iw_pool_init(&e->early, sizeof(iw_early_t), 64, config->early_max);
    iw_memory_init(&e->memory, iw_random(e));
    iw_auth_init(&e->auth, config->auth, &config->key);
    if (!iw_auth_prepare(&e->auth)) {
        iw_engine_destroy(e);
        return NULL;
    }
    return e;
}

void iw_engine_destroy(iw_engine_t *e)
{
    while (!iw_list_empty(&e->peers)) {
        iw_peer_t *p = IW_ITEM(e->peers.next, iw_peer_t, known);
        p->state = IW_IDLE; /* nothing to say good-bye with */
        iw_peer_free(p);
    }
    iw_auth_fini(&e->auth);
    iw_memory_fini(&e->memory);
    iw_pool_fini(&e->requests);
    iw_pool_fini(&e->served);
    iw_pool_fini(&e->segments);
    iw_pool_fini(&e->messages);
    iw_pool_fini(&e->early);
    free(e->conn);
    free(e->known);
    free(e->heap);
    free(e->receive);
    free(e->done);
    free(e);
}

/* ---- completions ---- */

/* There is a place for every completion that can come: those there are, one for each receive buffer
 * free or in a message under way, each request, each peer's end, and the limit. Called before any
 * of these grows by one, so that completing never fails. */
bool iw_done_reserve(iw_engine_t *e)
{
    uint32_t need = e->done_count + e->receive_count + e->messages.in_use + e->requests.in_use
                    + e->peer_count + 2;
    if (need <= e->done_room) {
        return true;
    }
    uint32_t room = 0 == e->done_room ? 256 : 2 * e->done_room;
    iw_completion_t *ring = malloc(room * sizeof(*ring));
    if (NULL == ring) {
        return false;
    }
    for (uint32_t i = 0; i < e->done_count; ++i) {
        ring[i] = e->done[(e->done_first + i) & (e->done_room - 1)];
    }
    free(e->done);
    e->done = ring;
    e->done_room = room;
    e->done_first = 0;
    return true;
}

static void complete(iw_engine_t *e, const iw_completion_t *c)
{
    e->done[(e->done_first + e->done_count++) & (e->done_room - 1)] = *c;
}

void iw_complete(iw_engine_t *e, void *context, iw_peer_t *p, iw_what_t what, iw_status_t status,
                 uint32_t length)
{
    complete(e, &(iw_completion_t){context, p, NULL, length, (uint8_t) what, (uint8_t) status});
}

void iw_complete_received(iw_engine_t *e, const iw_receive_t *receive, iw_peer_t *p, void *data,
                          uint32_t length)
{
    complete(e, &(iw_completion_t){receive->context, p, data, length, IW_RECEIVED, IW_OK});
}

static bool takes_receive(const iw_completion_t *c)
{
    return IW_RECEIVED == c->what || IW_RECEIVED_UD == c->what;
}

/* Peers that were told to wait for a receive buffer can be told to go on. */
static void wake_waiting(iw_engine_t *e)
{
    for (iw_link_t *next, *l = e->rnr_peers.next; l != &e->rnr_peers && e->receive_count > 0;
         l = next) {
        iw_peer_t *p = IW_ITEM(l, iw_peer_t, waiting);
        next = l->next;
        if (p->held < e->config.quota) {
            iw_list_remove(l);
            p->rnr = false;
            p->ack_now = true;
            iw_ready(p);
        }
    }
}

unsigned iw_engine_poll(iw_engine_t *e, iw_completion_t *completion, unsigned max)
{
    unsigned n = 0;
    bool freed = false;
    for (; n < max && e->done_count > 0; ++n, --e->done_count) {
        iw_completion_t *c = &e->done[e->done_first];
        e->done_first = (e->done_first + 1) & (e->done_room - 1);
        completion[n] = *c;
        if (IW_LIMIT_REACHED == c->what) {
            e->limit_told = false;
        }
        if (takes_receive(c) && NULL != c->peer) {
            --c->peer->held;
            freed = true;
        }
    }
    if (freed && !iw_list_empty(&e->rnr_peers)) {
        wake_waiting(e);
    }
    return n;
}

/* ---- shared receive queue ---- */

/* Last in, first out: the buffer posted last is the one most likely to be in the cache, and buffers
 * that are never needed are never touched. */
static bool receive_grow(iw_engine_t *e)
{
    uint32_t room = 0 == e->receive_room ? 64 : 2 * e->receive_room;
    iw_receive_t *stack = realloc(e->receive, room * sizeof(*stack));
    if (NULL == stack) {
        return false;
    }
    e->receive = stack;
    e->receive_room = room;
    return true;
}

iw_status_t iw_post_receive(iw_engine_t *e, void *buffer, uint32_t length, void *context)
{
    /* Messages that are given up put their buffers back. */
    if ((e->receive_count + e->messages.in_use >= e->receive_room && !receive_grow(e))
        || !iw_done_reserve(e)) {
        return IW_NO_MEMORY;
    }
    e->receive[e->receive_count++] = (iw_receive_t){buffer, context, length};
    if (!iw_list_empty(&e->rnr_peers)) {
        wake_waiting(e);
    }
    return IW_OK;
}

/* At most one event is on its way. */
static void limit_check(iw_engine_t *e)
{
    if (e->receive_count < e->limit && !e->limit_told && iw_done_reserve(e)) {
        e->limit = 0;
        e->limit_told = true;
        iw_complete(e, NULL, NULL, IW_LIMIT_REACHED, IW_OK, 0);
    }
}

void iw_arm_limit(iw_engine_t *e, uint32_t limit)
{
    e->limit = limit;
    limit_check(e);
}

uint32_t iw_receives_free(const iw_engine_t *e)
{
    return e->receive_count;
}

void *iw_receive_idle(const iw_engine_t *e, uint32_t before)
{
    return before < e->receive_count ? e->receive[e->receive_count - 1 - before].context : NULL;
}

uint32_t iw_receives_lowest(iw_engine_t *e)
{
    const uint32_t lowest = e->receive_lowest;
    e->receive_lowest = e->receive_count;
    return lowest;
}

bool iw_withdraw_receive(iw_engine_t *e, void **context)
{
    if (0 == e->receive_count) {
        return false;
    }
    *context = e->receive[0].context;
    e->receive[0] = e->receive[--e->receive_count];
    if (e->receive_count < e->receive_lowest) {
        e->receive_lowest = e->receive_count;
    }
    return true;
}

void iw_set_receive_space(iw_engine_t *e, uint32_t bytes)
{
    e->config.receive_space = bytes;
}

/* False: there is none, or none to spare. A message that arrives ahead of its turn must leave one
 * for each message before it and one more: if those ahead could take all, the one whose turn it is
 * would wait for buffers that wait for it. The one whose turn it is can always be completed and
 * polled, whatever the peers hold, so its buffer comes back. */
bool iw_receive_take(iw_engine_t *e, iw_peer_t *p, uint32_t spare, iw_receive_t *receive)
{
    if (e->receive_count <= spare || p->held + spare >= e->config.quota) {
        return false;
    }
    *receive = e->receive[--e->receive_count];
    if (e->receive_count < e->receive_lowest) {
        e->receive_lowest = e->receive_count;
    }
    ++p->held;
    limit_check(e);
    return true;
}

void iw_receive_put_back(iw_engine_t *e, iw_peer_t *p, const iw_receive_t *receive)
{
    --p->held;
    e->receive[e->receive_count++] = *receive;
}

/* ---- memory ---- */

uint32_t iw_register(iw_engine_t *e, void *base, uint64_t length, unsigned rights)
{
    return iw_memory_add(&e->memory, base, length, rights, NULL, NULL);
}

bool iw_deregister(iw_engine_t *e, uint32_t stag)
{
    return iw_memory_remove(&e->memory, stag);
}

bool iw_guard(iw_engine_t *e, uint32_t stag, const atomic_uint *uses)
{
    return iw_memory_guard(&e->memory, stag, uses);
}

/* ---- known identities ---- */

static uint32_t known_place(const iw_known_t *table, uint32_t size, uint64_t identity)
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
    iw_known_t *k = &e->known[known_place(e->known, e->known_size, identity)];
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
                table[known_place(table, size, e->known[i].identity)] = e->known[i];
            }
        }
        free(e->known);
        e->known = table;
        e->known_size = size;
    }
    k = &e->known[known_place(e->known, e->known_size, identity)];
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
    iw_list_init(&p->requests);
    iw_list_init(&p->sends);
    iw_list_init(&p->asks);
    iw_list_init(&p->responses);
    iw_list_init(&p->in_flight);
    iw_list_init(&p->lost);
    iw_list_init(&p->messages);
    iw_list_init(&p->early);
    iw_list_append(&e->peers, &p->known);
    k->peer = p;
    return p;
}

void *iw_peer_user(const iw_peer_t *p)
{
    return p->user;
}

uint64_t iw_peer_identity(const iw_peer_t *p)
{
    return p->identity;
}

/* A connection number: a free place, and random bits so that an old one finds nothing. */
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
        iw_peer_t **conn = room > CONN_INDEX_MASK ? NULL : realloc(e->conn, room * sizeof(*conn));
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
        p->conn = (uint32_t) iw_random(e) << CONN_INDEX_BITS | at;
    } while (0 == p->conn);
    return true;
}

bool iw_peer_activate(iw_peer_t *p, uint64_t now)
{
    iw_engine_t *e = p->engine;
    if (!iw_timer_reserve(e) || !iw_auth_prepare(&p->auth) || !conn_take(e, p)) {
        return false;
    }
    ++e->active;
    p->state = IW_ACTIVE;
    p->generation = ++e->last_generation;
    p->next_pn = 1; /* so that a floor below it fits */
    p->next_ssn = p->una_ssn = p->expected = 0;
    p->send_msn = p->read_msn = p->expected_msn = p->expected_read = 1; /* RFC 5041, 5.2 */
    p->window = e->config.peer_space;
    p->reorder = IW_REORDER_MIN;
    p->peer_reads = 1;
    p->heard = now;
    iw_cc_init(&p->cc, now);
    iw_path_init(&p->path, e->config.datagram_min, e->config.datagram_min);
    return true;
}

/* Everything of the connection goes; requests complete with an error. */
static void tear_down(iw_peer_t *p, iw_status_t why, const iw_request_t *cause)
{
    iw_engine_t *e = p->engine;
    while (!iw_list_empty(&p->in_flight)) {
        iw_segment_free(IW_ITEM(p->in_flight.next, iw_segment_t, link));
    }
    while (!iw_list_empty(&p->lost)) {
        iw_segment_free(IW_ITEM(p->lost.next, iw_segment_t, link));
    }
    while (!iw_list_empty(&p->requests)) {
        iw_request_t *r = IW_ITEM(p->requests.next, iw_request_t, all);
        iw_request_report(r, r == cause || NULL == cause ? why : IW_FLUSHED);
        r->out = 0;
        iw_request_release(r);
    }
    while (!iw_list_empty(&p->early)) {
        iw_early_t *early = IW_ITEM(p->early.next, iw_early_t, link);
        iw_list_remove(&early->link);
        iw_pool_put(&e->early, early);
    }
    while (!iw_list_empty(&p->messages)) {
        iw_message_t *m = IW_ITEM(p->messages.next, iw_message_t, link);
        iw_list_remove(&m->link);
        iw_receive_put_back(e, p, &m->receive);
        iw_pool_put(&e->messages, m);
    }
    if (iw_linked(&p->waiting)) {
        iw_list_remove(&p->waiting);
    }
    iw_timer_drop(p);
    p->rnr = p->ack_now = p->ping_pending = false;
    p->waiting_since = 0;
}

static void conn_release(iw_peer_t *p)
{
    if (0 != p->conn) {
        p->engine->conn[p->conn & CONN_INDEX_MASK] = NULL;
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
    p->state = IW_DOWN;
    p->why = (uint8_t) why;
    tear_down(p, why, cause);
    ++e->count.peers_down;
    iw_complete(e, NULL, p, IW_PEER_DOWN, why, 0);
}

/* Completions not polled yet do not lead to it any more. */
static void forget(iw_peer_t *p)
{
    iw_engine_t *e = p->engine;
    for (uint32_t i = 0; i < e->done_count; ++i) {
        iw_completion_t *c = &e->done[(e->done_first + i) & (e->done_room - 1)];
        if (c->peer == p) {
            c->peer = NULL;
        }
    }
}

void iw_peer_free(iw_peer_t *p)
{
    tear_down(p, IW_FLUSHED, NULL);
    conn_release(p);
    if (iw_linked(&p->ready)) {
        iw_list_remove(&p->ready);
    }
    iw_list_remove(&p->known);
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
    tear_down(p, IW_FLUSHED, NULL);
    forget(p);
    --e->peer_count;
    if (IW_ACTIVE == p->state && 0 != p->remote_generation) {
        p->state = IW_CLOSING;
        iw_ready(p);
    } else {
        iw_peer_free(p);
    }
}

const iw_counters_t *iw_engine_counters(const iw_engine_t *e)
{
    return &e->count;
}

size_t iw_engine_memory(const iw_engine_t *e)
{
    size_t bytes = sizeof(*e) + e->conns * sizeof(*e->conn) + e->known_size * sizeof(*e->known)
                   + e->heap_room * sizeof(*e->heap) + e->receive_room * sizeof(*e->receive)
                   + e->done_room * sizeof(*e->done)
                   + e->memory.chunks * IW_REGION_CHUNK * sizeof(iw_region_t);
    const iw_pool_t *pools[] = {&e->requests, &e->served, &e->segments, &e->messages, &e->early};
    for (unsigned i = 0; i < sizeof(pools) / sizeof(pools[0]); ++i) {
        bytes += pools[i]->made * pools[i]->size;
    }
    for (const iw_link_t *l = e->peers.next; l != &e->peers; l = l->next) {
        const iw_peer_t *p = IW_ITEM(l, iw_peer_t, known);
        bytes += sizeof(*p) + iw_auth_memory(&p->auth);
    }
    return bytes;
}
