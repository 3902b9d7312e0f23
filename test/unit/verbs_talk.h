/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Two processes that talk both ways by messages, puts and gets, and check that nothing is lost, comes twice or is overtaken. */
#ifndef VERBS_TALK_H
#define VERBS_TALK_H

#include "verbs_processes.h"

#include "vb_dgram.h"

#include <stdlib.h>

#define MESSAGES 48u /* each way */
#define SLOTS    32u /* puts go here by turns */
#define WORD     8u

/* What a process of the talk has done, besides process_t. */
typedef struct {
    unsigned posted;   /* requests that somebody waits for */
    unsigned messages; /* sent */
    unsigned puts;     /* of them are to go before the message of the same number; */
    unsigned gets;
    bool atomics;
} talk_t;
static talk_t talk[FAKE_NODES + 1];

/* Where puts arrive, and where gets take from and go to. */
static inline char *place(unsigned node, unsigned n)
{
    return process[node].memory + 32768 + (n % SLOTS) * WORD;
}
static inline char *source(unsigned node)
{
    return process[node].memory + 49152;
}

static inline struct ibv_sge piece_of(unsigned node, char *at, uint32_t length)
{
    return (struct ibv_sge){
        .addr = (uintptr_t) at, .length = length, .lkey = process[node].mr->lkey};
}

/* Every third from the stack, which is used again at once. */
static inline vb_status_t post_message(unsigned from, unsigned to)
{
    process_t *p = &process[from];
    const unsigned n = talk[from].messages;
    const bool is_inline = 0 == n % 3;
    _Alignas(8) char packet[sizeof(vb_hdr_t) + 1];
    char *at = is_inline ? packet : p->memory + (n % 64) * 64;
    struct ibv_sge piece = piece_of(from, at, sizeof(packet));
    at[sizeof(vb_hdr_t)] = (char) n;
    const vb_status_t status =
        vb_post_send(p->peer[to], (vb_hdr_t *) at, 9, &piece, 1, is_inline ? VB_INLINE : VB_SIGNAL,
                     is_inline ? NULL : p);
    memset(packet, 0x77, sizeof(packet));
    talk[from].posted += VB_OK == status && !is_inline;
    return status;
}

static inline vb_status_t post_put(unsigned from, unsigned to)
{
    char *at = process[from].memory + 16384 + (talk[from].puts % 64) * WORD;
    struct ibv_sge piece = piece_of(from, at, WORD);
    memset(at, (int) (talk[from].puts + 1), WORD);
    const vb_status_t status =
        vb_post_rdma(process[from].peer[to], &piece, (uintptr_t) place(to, talk[from].puts),
                     process[to].mr->rkey, VB_SIGNAL, &process[from]);
    talk[from].posted += VB_OK == status;
    return status;
}

static inline vb_status_t post_get(unsigned from, unsigned to)
{
    struct ibv_sge piece = piece_of(from, source(from) + 64 + (talk[from].gets % 64) * WORD, WORD);
    const vb_status_t status =
        vb_post_rdma(process[from].peer[to], &piece, (uintptr_t) source(to), process[to].mr->rkey,
                     VB_SIGNAL | VB_READ, &process[from]);
    talk[from].posted += VB_OK == status;
    return status;
}

/* A put, a message behind it, and now and then a get, as far as there is room. */
static inline void speak(unsigned from, unsigned to)
{
    talk_t *t = &talk[from];
    vb_port_lock(process[from].port);
    while (t->messages < MESSAGES && t->posted - process[from].done < 16) {
        if (t->puts == t->messages) {
            if (VB_OK != post_put(from, to)) {
                break;
            }
            ++t->puts;
        }
        if (t->gets * 5 <= t->messages) {
            if (VB_OK != post_get(from, to)) {
                break;
            }
            ++t->gets;
        }
        if (VB_OK != post_message(from, to)) {
            break;
        }
        ++t->messages;
    }
    vb_port_unlock(process[from].port);
}

/* What was put before a message is there when that comes, and is not put again after it. */
static inline void hear(unsigned node)
{
    process_t *p = &process[node];
    vb_received_t r[4];
    int events;
    vb_port_events(p->port, 0);
    vb_port_lock(p->port);
    const int n = vb_port_poll(p->port, r, 4, &events);
    for (int i = 0; i < n; ++i) {
        assert_int_equal(r[i].length, 1);
        assert_int_equal(*(uint8_t *) r[i].data, (uint8_t) p->received);
        assert_int_equal((uint8_t) *place(node, p->received), (uint8_t) (p->received + 1));
        memset(place(node, p->received), 0xee, WORD);
        ++p->received;
    }
    vb_port_return(p->port, r, n);
    vb_port_unlock(p->port);
}

static inline bool is_done(void)
{
    for (unsigned node = 1; node <= 2; ++node) {
        if (process[node].received < MESSAGES || talk[node].messages < MESSAGES
            || process[node].done < talk[node].posted) {
            return false;
        }
    }
    return true;
}

/* How the two are connected. */
typedef struct {
    bool has_srq, by_datagrams;
    uint32_t part_max; /* they go on by another port (vb_port.h); 0: not */
} kind_t;

/* Of the only registration that there is. */
static inline bool copy_registered(void *context, uint32_t rkey, uint64_t remote, void *data, uint32_t size, bool is_write)
{
    process_t *p = context;
    const uint64_t offset = remote - (uintptr_t) p->memory;
    if (p->mr->rkey != rkey || offset > sizeof(p->memory) || size > sizeof(p->memory) - offset) {
        return false;
    }
    memcpy(is_write ? p->memory + offset : data, is_write ? data : p->memory + offset, size);
    return true;
}

static inline void begin_resumable(const kind_t *kind)
{
    fake.has_srq = kind->has_srq;
    memset(talk, 0, sizeof(talk));
    for (unsigned i = 1; i <= 2; ++i) {
        vb_config_t c = config_of(&process[i]);
        c.rules.resume_ns = UINT64_C(20000000000);
        c.rules.breaks = 1000;
        c.rules.attempt_ns = UINT64_C(200000000);
        c.rules.backoff_ns = 100000;
        c.part_max = kind->part_max;
        c.copy = copy_registered;
        if (kind->part_max > 0) {
            c.rules.trial_ns = 10000000; /* on a busy machine, too, an attempt is through by then */
            c.rules.return_ns = 3000000;
        }
        c.connect = kind->by_datagrams ? VB_CONNECT_DATAGRAMS : VB_CONNECT_CM;
        assert_true(start(i, &c, NULL));
    }
    meet(1, 2);
    for (unsigned i = 1; kind->by_datagrams && i <= 2; ++i) {
        vb_dgram_address_t there;
        assert_true(vb_port_mailbox(process[3 - i].port, &there));
        vb_port_lock(process[i].port);
        assert_true(vb_peer_add_mailbox(process[i].peer[3 - i], &there));
        vb_port_unlock(process[i].port);
    }
}

/* All is said and done, and right. */
static inline void check_talk(void)
{
    for (unsigned node = 1; node <= 2; ++node) {
        assert_int_equal(process[node].received, MESSAGES);
        assert_int_equal(process[node].done, talk[node].posted);
        assert_string_equal(process[node].why, "");
        assert_int_equal(process[node].failed, 0);
        assert_int_equal(process[node].lost, 0);
        for (unsigned n = 0; n < SLOTS; ++n) {
            assert_int_equal((uint8_t) *place(node, n), 0xee);
        }
        for (unsigned n = 0; n < talk[node].gets; ++n) {
            assert_int_equal(source(node)[64 + n * WORD], 0x5a);
        }
    }
}

static inline void fill_sources(void)
{
    memset(source(1), 0x5a, WORD);
    memset(source(2), 0x5a, WORD);
}

#endif
