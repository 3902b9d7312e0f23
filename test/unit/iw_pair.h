/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Two engines on a simulated network (iw_link.h) that know each other: posting, what is expected to happen, and bytes
 * that show which message they are of. */
#ifndef IW_PAIR_H
#define IW_PAIR_H

#include "spec_unit.h"

#include "iw_link.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

/* Byte `at` of message i. */
static inline uint8_t byte_of(uint32_t i, uint32_t at)
{
    return (uint8_t) (i * 7 + at * 13 + (at >> 8));
}

static inline void fill(uint8_t *buffer, uint32_t i, uint32_t length)
{
    for (uint32_t at = 0; at < length; ++at) {
        buffer[at] = byte_of(i, at);
    }
}

static inline bool filled(const uint8_t *buffer, uint32_t i, uint32_t length)
{
    for (uint32_t at = 0; at < length; ++at) {
        if (buffer[at] != byte_of(i, at)) {
            return false;
        }
    }
    return true;
}

typedef struct pair {
    link_t link;
    iw_peer_t *a, *b; /* a: engine 0's peer 1; b: engine 1's peer 0 */
} pair_t;

static inline void pair_init(pair_t *t, const iw_fault_rates_t *rates, uint64_t seed)
{
    link_init(&t->link, 2, rates, seed);
    t->a = link_peer(&t->link, 0, 1, NULL);
    t->b = link_peer(&t->link, 1, 0, NULL);
    assert_non_null(t->a);
    assert_non_null(t->b);
}

/* The next completion of an engine, if there is one by then. */
static inline bool wait_completion(link_t *l, unsigned i, iw_completion_t *c, uint64_t time)
{
    uint64_t until = l->now + time;
    while (0 == iw_engine_poll(l->engine[i], c, 1)) {
        if (!link_step(l, until)) {
            return false;
        }
    }
    return true;
}

static inline void post_one(link_t *l, unsigned i, void *buffer, uint32_t length)
{
    assert_int_equal(iw_post_receive(l->engine[i], buffer, length, buffer), IW_OK);
}

static inline iw_status_t send_bytes(iw_peer_t *p, const void *data, size_t length, unsigned flags)
{
    struct iovec piece = {(void *) (uintptr_t) data, length};
    return iw_post_send(p, &piece, 1, flags, NULL);
}

static inline void expect(link_t *l, unsigned i, iw_what_t what, iw_status_t status,
                          iw_completion_t *c)
{
    assert_true(wait_completion(l, i, c, 60 * S));
    assert_int_equal(c->what, what);
    assert_int_equal(c->status, status);
}

#endif
