/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* A simulated network of engines for unit tests and fuzzing: virtual time, seeded faults, no socket.
 * Datagrams wait in a heap until their time of arrival. */
#ifndef IW_LINK_H
#define IW_LINK_H

#include "iw_engine.h"
#include "iw_fault.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef LINK_ENGINES /* more only for who needs them: a step visits all */
#define LINK_ENGINES 34
#endif

typedef struct link_packet {
    uint64_t at;
    uint64_t order; /* of equal times the first sent comes first */
    unsigned to;
    size_t length;
    uint8_t *data;
    bool waits; /* in its receiver's buffer */
    bool alternate, is_marked;
} link_packet_t;

#define LINK_COST 1024 /* bytes that a datagram takes in a buffer besides its own */

typedef struct link {
    iw_engine_t *engine[LINK_ENGINES];
    unsigned engines;
    uint64_t now;
    int64_t skew[LINK_ENGINES]; /* what this one's clock shows beyond now */
    uint64_t latency;
    uint64_t ns_for_kib; /* time on the wire */
    uint64_t free_at[LINK_ENGINES];
    uint64_t queue_ns_for_kib; /* the same of the switch's port to each, which all senders share; 0: it takes none */
    uint64_t queue_ns;         /* who would wait longer there is dropped */
    uint64_t mark_ns;          /* and so long, marked; 0: none is */
    uint64_t queue_free_at[LINK_ENGINES];
    size_t mtu;             /* longer datagrams vanish unless they may be cut */
    bool cut[LINK_ENGINES]; /* this one is not reachable */
    bool deaf[LINK_ENGINES]; /* nothing reaches it, but what it sends arrives */
    uint64_t alternate; /* latency of the alternate path, which nothing cuts */
    bool gone[LINK_ENGINES]; /* and who asks hears that it is not there */
    uint64_t asleep[LINK_ENGINES]; /* it does nothing until then, and what comes waits */
    size_t waiting[LINK_ENGINES]; /* bytes that wait, of */
    size_t space;                 /* at most; 0: any number */
    uint64_t dropped;             /* datagrams for which there was no room, here or in the switch */
    iw_fault_t fault;
    link_packet_t *heap;
    size_t count, room;
    uint64_t order;
    uint64_t sent, bytes;
    uint64_t placed; /* datagrams that came where they were guessed */
    /* Sees every datagram before it leaves; may be NULL. */
    void (*tap)(void *context, unsigned from, const uint8_t *data, size_t length);
    void *tap_context;
    /* Happens when datagrams are made and not copied yet: another thread of the program runs. May be NULL. */
    void (*meanwhile)(void *context);
    void *meanwhile_context;
    /* Happens when a payload is where it was guessed and not verified yet. May be NULL. */
    void (*spoil)(uint8_t *at, size_t length);
} link_t;

static inline void link_address(unsigned i, iw_address_t *a)
{
    memset(a, 0, sizeof(*a));
    a->v4.sin_family = AF_INET;
    a->v4.sin_port = htons((uint16_t) (1000 + i));
    a->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

static inline void link_key(unsigned i, iw_key_t *key)
{
    memset(key, (int) (0x11 * (i + 1)), sizeof(*key));
}

/* The engine that is called, for who asks whose memory it is (iw_counted.h). */
static unsigned link_acts;

/* Changes the configuration of every engine made from now on; may be NULL. */
static void (*link_tune)(iw_config_t *config);

static inline void link_config(unsigned i, iw_config_t *c)
{
    iw_config_default(c);
    c->identity = 100 + i;
    link_key(i, &c->key);
    c->seed = 7 * i + 1;
    c->start = 1000;
    c->datagram_max = 9000;
    c->peer_timeout_ns = UINT64_C(10000000000);
    if (NULL != link_tune) {
        link_tune(c);
    }
}

static inline iw_peer_t *link_peer(link_t *l, unsigned from, unsigned to, void *user)
{
    iw_address_t a;
    iw_key_t key;
    link_address(to, &a);
    link_key(to, &key);
    return iw_peer_add(l->engine[from], 100 + to, &a, &key, user);
}

static inline bool link_before(const link_packet_t *a, const link_packet_t *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static inline void link_insert(link_t *l, link_packet_t k)
{
    if (l->count == l->room) {
        l->room = 0 == l->room ? 64 : 2 * l->room;
        l->heap = realloc(l->heap, l->room * sizeof(*l->heap));
        if (NULL == l->heap) {
            abort();
        }
    }
    size_t i = l->count++;
    for (; i > 0 && link_before(&k, &l->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        l->heap[i] = l->heap[(i - 1) / 2];
    }
    l->heap[i] = k;
}

static inline void link_push(link_t *l, unsigned to, const uint8_t *data, size_t length,
                             uint64_t at, bool alternate, bool is_marked)
{
    link_packet_t k = {at, l->order++, to, length, malloc(length + 1), false, alternate, is_marked};
    if (NULL == k.data) {
        abort();
    }
    memcpy(k.data, data, length);
    link_insert(l, k);
}

static inline link_packet_t link_pop(link_t *l)
{
    link_packet_t top = l->heap[0], k = l->heap[--l->count];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < l->count; i = c) {
        c += c + 1 < l->count && link_before(&l->heap[c + 1], &l->heap[c]);
        if (!link_before(&l->heap[c], &k)) {
            break;
        }
        l->heap[i] = l->heap[c];
    }
    l->heap[i] = k;
    return top;
}

static inline unsigned link_target(const iw_packet_t *k)
{
    return (unsigned) (ntohs(k->to.v4.sin_port) - 1000);
}

/* Through the switch's port to there, from `at` on, which becomes the time when it leaves. False: no room. */
static inline bool link_queue(link_t *l, unsigned to, size_t length, uint64_t *at, bool *is_marked)
{
    uint64_t *free_at = &l->queue_free_at[to];
    *is_marked = false;
    if (0 == l->queue_ns_for_kib) {
        return true;
    }
    *free_at = *free_at > *at ? *free_at : *at;
    if (*free_at - *at > l->queue_ns) {
        ++l->dropped;
        return false;
    }
    *is_marked = 0 != l->mark_ns && *free_at - *at > l->mark_ns;
    *at = *free_at += length * l->queue_ns_for_kib / 1024;
    return true;
}

static inline void link_send(link_t *l, unsigned from, const iw_packet_t *k)
{
    static uint8_t flat[65536];
    size_t n = 0;
    unsigned to = link_target(k);
    for (unsigned i = 0; i < k->count; ++i) {
        memcpy(flat + n, k->piece[i].iov_base, k->piece[i].iov_len);
        n += k->piece[i].iov_len;
    }
    ++l->sent;
    l->bytes += n;
    if (NULL != l->tap) {
        l->tap(l->tap_context, from, flat, n);
    }
    if (k->alternate) {
        link_push(l, to, flat, n, l->now + l->alternate, true, false);
        return;
    }
    uint64_t start = l->free_at[from] > l->now ? l->free_at[from] : l->now;
    l->free_at[from] = start + n * l->ns_for_kib / 1024;
    if (l->gone[to] && k->asks) {
        iw_engine_unreachable(l->engine[from], &k->to);
    }
    if (l->cut[from] || l->cut[to] || l->deaf[to] || l->gone[to]
        || (0 != l->mtu && n > l->mtu && !k->may_fragment)) {
        return;
    }
    iw_fate_t fate = iw_fault_decide(&l->fault, n);
    if (fate.drop) {
        return;
    }
    if (fate.corrupt) {
        flat[fate.flip / 8] ^= (uint8_t) (1u << fate.flip % 8);
    }
    for (int copy = 0; copy < 1 + fate.twice; ++copy) {
        uint64_t at = l->free_at[from] + l->latency + fate.delay_ns;
        bool is_marked;
        if (link_queue(l, to, fate.length, &at, &is_marked)) {
            link_push(l, to, flat, fate.length, at, false, is_marked);
        }
    }
}

/* What its clock shows. */
static inline uint64_t link_clock(const link_t *l, unsigned i)
{
    return l->now + (uint64_t) l->skew[i];
}

/* When it wants to be called, in the time of the network. */
static inline uint64_t link_deadline(const link_t *l, unsigned i)
{
    const uint64_t due = iw_engine_deadline(l->engine[i]);
    const uint64_t at = due < link_clock(l, i) ? l->now : due - (uint64_t) l->skew[i];
    if (l->asleep[i] > l->now && (iw_engine_has_output(l->engine[i]) || at < l->asleep[i])) {
        return l->asleep[i];
    }
    return UINT64_MAX == due ? due : at;
}

/* Everything that wants to leave now does. */
static inline void link_drain(link_t *l)
{
    static iw_packet_t k[64];
    for (unsigned i = 0; i < l->engines; ++i) {
        while (l->asleep[i] <= l->now && iw_engine_has_output(l->engine[i])) {
            link_acts = i;
            unsigned n = iw_engine_output(l->engine[i], link_clock(l, i), k, 64);
            if (NULL != l->meanwhile) {
                l->meanwhile(l->meanwhile_context);
            }
            for (unsigned j = 0; j < n; ++j) {
                link_send(l, i, &k[j]);
            }
        }
    }
}

/* As a port that receives payloads where they probably belong: whatever the guess, and whatever comes in its place. */
static inline void link_input(link_t *l, unsigned to, const uint8_t *data, size_t length)
{
    enum { GUESSES = 3, LEAST = 44 };
    static uint8_t slot[65536 + 64];
    iw_engine_t *e = l->engine[to];
    const uint64_t now = link_clock(l, to);
    iw_direct_t guess[GUESSES];
    const size_t cut = LEAST + length % 3 * 20;
    const unsigned n = iw_engine_direct(e, guess, GUESSES);
    for (unsigned i = 0; i < n; ++i) {
        memset(guess[i].at, 0xee, guess[i].room);
    }
    if (0 == n || length <= cut) {
        iw_engine_input(e, now, data, length);
        return;
    }
    const size_t there = length - cut < guess[0].room ? length - cut : guess[0].room;
    memcpy(slot, data, cut);
    memcpy(guess[0].at, data + cut, there);
    memcpy(slot + cut + guess[0].room, data + cut + there, length - cut - there);
    const size_t prefix = iw_direct_settle(&guess[0], slot, cut, length);
    if (0 == prefix) {
        iw_engine_input(e, now, data, length);
    } else {
        ++l->placed;
        if (NULL != l->spoil) {
            l->spoil(guess[0].at, length - prefix);
        }
        iw_engine_input_placed(e, now, slot, prefix, length, guess[0].at);
    }
}

/* A datagram has come to one that sleeps. */
static inline void link_wait(link_t *l, link_packet_t k)
{
    if (!k.waits && 0 != l->space && l->waiting[k.to] + k.length + LINK_COST > l->space) {
        ++l->dropped;
        free(k.data);
        return;
    }
    l->waiting[k.to] += k.waits ? 0 : k.length + LINK_COST;
    k.waits = true;
    k.at = l->asleep[k.to];
    link_insert(l, k);
}

/* The next thing that happens. False: nothing will, or not before until. */
static inline bool link_step(link_t *l, uint64_t until)
{
    link_drain(l);
    uint64_t next = l->count > 0 ? l->heap[0].at : UINT64_MAX;
    for (unsigned i = 0; i < l->engines; ++i) {
        uint64_t at = link_deadline(l, i);
        next = at < next ? at : next;
    }
    if (UINT64_MAX == next || next > until) {
        return false;
    }
    l->now = next > l->now ? next : l->now;
    if (l->count > 0 && l->heap[0].at <= l->now) {
        link_packet_t k = link_pop(l);
        if (l->asleep[k.to] > l->now) {
            link_wait(l, k);
            return true;
        }
        l->waiting[k.to] -= k.waits ? k.length + LINK_COST : 0;
        link_acts = k.to;
        if (k.alternate) {
            iw_engine_input_alternate(l->engine[k.to], link_clock(l, k.to), k.data, k.length);
        } else {
            iw_engine_marked(l->engine[k.to], k.is_marked);
            link_input(l, k.to, k.data, k.length);
        }
        free(k.data);
        return true;
    }
    for (unsigned i = 0; i < l->engines; ++i) {
        if (l->asleep[i] <= l->now) {
            link_acts = i;
            iw_engine_timers(l->engine[i], link_clock(l, i));
        }
    }
    return true;
}

static inline void link_run(link_t *l, uint64_t until)
{
    while (link_step(l, until)) {}
    link_drain(l);
    if (l->now < until) {
        l->now = until;
    }
}

static inline void link_fini(link_t *l)
{
    for (unsigned i = 0; i < l->engines; ++i) {
        iw_engine_destroy(l->engine[i]);
    }
    while (l->count > 0) {
        free(l->heap[--l->count].data);
    }
    free(l->heap);
}

static inline void link_init(link_t *l, unsigned engines, const iw_fault_rates_t *rates,
                             uint64_t seed)
{
    static const iw_fault_rates_t none;
    *l = (link_t){.engines = engines, .now = 1000000, .latency = 5000, .ns_for_kib = 100};
    iw_fault_init(&l->fault, NULL == rates ? &none : rates, seed);
    for (unsigned i = 0; i < engines; ++i) {
        iw_config_t c;
        link_config(i, &c);
        link_acts = i;
        l->engine[i] = iw_engine_create(&c);
        if (NULL == l->engine[i]) {
            abort();
        }
    }
}

#endif
