/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Two engines on a simulated network (iw_link.h) that send each other messages of all lengths, both ways at once; each
 * is checked when it arrives. */
#ifndef IW_EXCHANGE_H
#define IW_EXCHANGE_H

#include "iw_pair.h"

/* How long message i is. */
static inline uint32_t length_of(uint32_t i, uint32_t max)
{
    rng_t rng = {i};
    uint32_t kind = rng_below(&rng, 4);
    return kind == 0   ? rng_below(&rng, 16)
           : kind == 1 ? rng_below(&rng, 300)
                       : rng_below(&rng, max + 1);
}

enum { BUFFER = 20000, BUFFERS = 32 };

typedef struct side {
    uint8_t receive[BUFFERS][BUFFER];
    uint8_t *send; /* of message under way, by number modulo window */
    uint32_t posted, completed, received;
    uint32_t errors;
    iw_status_t down;
} side_t;

enum { AHEAD = 24 };

static inline void post_receives(link_t *l, unsigned i, side_t *s)
{
    for (int b = 0; b < BUFFERS; ++b) {
        assert_int_equal(iw_post_receive(l->engine[i], s->receive[b], BUFFER, s->receive[b]),
                         IW_OK);
    }
}

/* Called before each step of an exchange; may be NULL. */
static void (*disturb)(link_t *l);

/* Both ends send `count` messages to each other, checked on arrival. Returns when it was done. */
static inline void exchange(link_t *l, iw_peer_t *peer[2], side_t *side[2], uint32_t count,
                            uint64_t until)
{
    while (l->now < until) {
        bool done = true;
        for (unsigned i = 0; i < 2; ++i) {
            side_t *s = side[i];
            iw_completion_t c[16];
            unsigned n;
            while ((n = iw_engine_poll(l->engine[i], c, 16)) > 0) {
                for (unsigned j = 0; j < n; ++j) {
                    assert_int_equal(c[j].status, IW_OK);
                    if (IW_SENT == c[j].what) {
                        ++s->completed;
                    } else {
                        assert_int_equal(c[j].what, IW_RECEIVED);
                        assert_int_equal(c[j].length, length_of(s->received, BUFFER));
                        assert_true(filled(c[j].context, s->received, c[j].length));
                        ++s->received;
                        assert_int_equal(
                            iw_post_receive(l->engine[i], c[j].context, BUFFER, c[j].context),
                            IW_OK);
                    }
                }
            }
            /* Completions come in any order, so the window is on all of them. */
            while (s->posted < count && s->posted - s->completed < AHEAD) {
                uint32_t length = length_of(s->posted, BUFFER);
                uint8_t *data = s->send + (size_t) s->posted * BUFFER;
                fill(data, s->posted, length);
                struct iovec piece[2] = {{data, length / 3},
                                         {data + length / 3, length - length / 3}};
                unsigned flags = length <= IW_INLINE_MAX ? IW_INLINE : 0;
                assert_int_equal(iw_post_send(peer[i], piece, 2, flags, NULL), IW_OK);
                if (flags) {
                    memset(data, 0xee, length); /* it has been copied */
                }
                ++s->posted;
            }
            done &= s->completed == count && s->received == count;
        }
        if (done) {
            return;
        }
        if (NULL != disturb) {
            disturb(l);
        }
        if (!link_step(l, until)) {
            break;
        }
    }
    fail_msg("not done in time: %u and %u of %u received", side[0]->received, side[1]->received,
             count);
}

static inline void run_exchange(const iw_fault_rates_t *rates, uint64_t seed, uint32_t count,
                                uint64_t time, link_t *l)
{
    side_t *side[2] = {must_alloc(sizeof(side_t)), must_alloc(sizeof(side_t))};
    link_init(l, 2, rates, seed);
    iw_peer_t *peer[2] = {link_peer(l, 0, 1, NULL), link_peer(l, 1, 0, NULL)};
    for (unsigned i = 0; i < 2; ++i) {
        side[i]->send = must_alloc((size_t) count * BUFFER);
        post_receives(l, i, side[i]);
    }
    exchange(l, peer, side, count, l->now + time);
    for (unsigned i = 0; i < 2; ++i) {
        assert_true(iw_engine_memory(l->engine[i]) < 600 * 1024);
        free(side[i]->send);
        free(side[i]);
    }
}

#endif
