/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The engine: creating and destroying it, its queue of completions. */
#include "iw_internal.h"
#include "iw_random.h"

#include <stdlib.h>

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
        .silent_timeout_ns = 0,
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
    e->alarm = e->due = UINT64_MAX;
    spec_list_init(&e->ready);
    spec_list_init(&e->peers);
    spec_list_init(&e->rnr_peers);
    iw_share_init(&e->share);
    iw_pool_init(&e->requests, sizeof(iw_request_t), 64, config->requests_max);
    iw_pool_init(&e->served, sizeof(iw_request_t), 16, UINT32_MAX); /* bounded by `reads` */
    iw_pool_init(&e->segments, sizeof(iw_segment_t), 128, UINT32_MAX);
    iw_pool_init(&e->messages, sizeof(iw_message_t), 64, config->early_max);
    iw_pool_init(&e->early, sizeof(iw_early_t), 64, config->early_max);
    iw_memory_init(&e->memory, iw_random(e));
    iw_auth_init(&e->auth, config->auth, &config->key);
    e->copies = malloc(IW_COPIES);
    if (NULL == e->copies || !iw_auth_prepare(&e->auth)) {
        iw_engine_destroy(e);
        return NULL;
    }
    return e;
}

void iw_engine_destroy(iw_engine_t *e)
{
    while (!spec_list_is_empty(&e->peers)) {
        iw_peer_free(SPEC_ENTRY(e->peers.next, iw_peer_t, known)); /* nothing to say good-bye with */
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
    free(e->copies);
    free(e);
}

/* ---- completions ---- */

/* There is room for every completion that can come: those there are, one for each receive buffer
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

void iw_complete(iw_engine_t *e, void *context, iw_peer_t *p, iw_what_t what, iw_status_t status,
                 uint32_t length)
{
    e->done[(e->done_first + e->done_count++) & (e->done_room - 1)] =
        (iw_completion_t){context, p, length, (uint8_t) what, (uint8_t) status};
}

bool iw_engine_has_completions(const iw_engine_t *e)
{
    return e->done_count > 0;
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
        if (IW_RECEIVED == c->what && NULL != c->peer) {
            --c->peer->rx.held;
            freed = true;
        }
    }
    if (freed && !spec_list_is_empty(&e->rnr_peers)) {
        iw_receive_wake(e);
    }
    return n;
}

void iw_done_forget(iw_peer_t *p)
{
    iw_engine_t *e = p->engine;
    for (uint32_t i = 0; i < e->done_count; ++i) {
        iw_completion_t *c = &e->done[(e->done_first + i) & (e->done_room - 1)];
        if (c->peer == p) {
            c->peer = NULL;
        }
    }
}

/* ---- memory ---- */

uint32_t iw_register(iw_engine_t *e, void *base, uint64_t length, unsigned rights, const iw_uses_t *uses)
{
    return iw_memory_add(&e->memory, base, length, rights, NULL, NULL, uses);
}

bool iw_deregister(iw_engine_t *e, uint32_t stag)
{
    return iw_memory_remove(&e->memory, stag);
}

bool iw_engine_is_connected(const iw_engine_t *e)
{
    return e->active > 0;
}

const iw_counters_t *iw_engine_counters(const iw_engine_t *e)
{
    return &e->count;
}

size_t iw_engine_posted(const iw_engine_t *e)
{
    return e->requests.in_use * e->requests.size;
}

size_t iw_engine_memory(const iw_engine_t *e)
{
    size_t bytes = sizeof(*e) + IW_COPIES + e->conns * sizeof(*e->conn)
                   + e->known_size * sizeof(*e->known) + e->heap_room * sizeof(*e->heap)
                   + e->receive_room * sizeof(*e->receive) + e->done_room * sizeof(*e->done)
                   + e->memory.chunks * IW_REGION_CHUNK * sizeof(iw_region_t);
    const iw_pool_t *pools[] = {&e->requests, &e->served, &e->segments, &e->messages, &e->early};
    for (unsigned i = 0; i < sizeof(pools) / sizeof(pools[0]); ++i) {
        bytes += pools[i]->made * pools[i]->size;
    }
    for (const spec_node_t *l = e->peers.next; l != &e->peers; l = l->next) {
        const iw_peer_t *p = SPEC_ENTRY(l, iw_peer_t, known);
        bytes += sizeof(*p) + iw_auth_memory(&p->auth);
    }
    return bytes;
}
