/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Many processes that take turns on few processors send to each other at once, in virtual time: what all of them may have
 * under way to one fits into its socket's buffer, however small an ordinary user's is. */
#include "iw_pair.h"

#include "iw_internal.h"

#include <inttypes.h>

enum { SPACE = 212992, SIZE = 256 << 10, PROCESSORS = 2 };
#define TURN (MS / 5)

static uint32_t space;

static void loopback(iw_config_t *c)
{
    c->datagram_max = IW_DATAGRAM_MAX;
    c->receive_space = space;
}

typedef struct crowd {
    link_t link;
    unsigned n;
    unsigned turn;
    iw_peer_t *peer[LINK_ENGINES][LINK_ENGINES];
    uint8_t *memory[LINK_ENGINES];
    uint32_t stag[LINK_ENGINES];
    unsigned left; /* writes that are not complete */
} crowd_t;

static void crowd_init(crowd_t *c, unsigned n, uint32_t bytes)
{
    *c = (crowd_t){.n = n};
    space = bytes;
    link_tune = loopback;
    link_init(&c->link, n, NULL, 1);
    link_tune = NULL;
    c->link.space = 2 * (size_t) bytes; /* so does Linux */
    for (unsigned i = 0; i < n; ++i) {
        c->memory[i] = must_alloc(SIZE);
        c->stag[i] = iw_register(c->link.engine[i], c->memory[i], SIZE, IW_REMOTE_WRITE);
        for (unsigned k = 0; k < n; ++k) {
            c->peer[i][k] = i == k ? NULL : link_peer(&c->link, i, k, NULL);
        }
        for (unsigned k = 0; k < n; ++k) {
            if (i != k) {
                iw_peer_expect(c->peer[i][k], 2 * MS);
            }
        }
    }
}

static void crowd_fini(crowd_t *c)
{
    link_fini(&c->link);
    for (unsigned i = 0; i < c->n; ++i) {
        free(c->memory[i]);
    }
}

static void take_completions(crowd_t *c)
{
    iw_completion_t done;
    for (unsigned i = 0; i < c->n; ++i) {
        while (1 == iw_engine_poll(c->link.engine[i], &done, 1)) {
            assert_int_equal(done.what, IW_WRITTEN);
            assert_int_equal(done.status, IW_OK);
            --c->left;
        }
    }
}

/* The next of them have their turn, the others sleep until theirs. */
static void next_turn(crowd_t *c)
{
    for (unsigned k = 0; k < c->n; ++k) {
        const unsigned i = (c->turn * PROCESSORS + k) % c->n;
        c->link.asleep[i] = c->link.now + k / PROCESSORS * TURN;
    }
    ++c->turn;
    link_run(&c->link, c->link.now + TURN);
    take_completions(c);
}

/* Each of `from` writes to each of the first `to`. */
static void exchange(crowd_t *c, unsigned to)
{
    for (unsigned i = 0; i < c->n; ++i) {
        for (unsigned k = 0; k < to; ++k) {
            const struct iovec piece = {c->memory[i], SIZE};
            if (i != k) {
                assert_int_equal(iw_post_write(c->peer[i][k], &piece, 1, c->stag[k], 0, 0, NULL),
                                 IW_OK);
                ++c->left;
            }
        }
    }
    const unsigned begin = c->turn;
    while (c->left > 0) {
        assert_true(c->turn - begin < 100000);
        next_turn(c);
    }
}

static uint64_t resent(const crowd_t *c)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < c->n; ++i) {
        sum += iw_engine_counters(c->link.engine[i])->segments_resent;
    }
    return sum;
}

/* Nobody has anything to say for so long. */
static void pause_for(crowd_t *c, uint64_t time)
{
    for (unsigned i = 0; i < c->n; ++i) {
        c->link.asleep[i] = 0;
    }
    link_run(&c->link, c->link.now + time);
}

static const unsigned crowds[] = {2, 3, 4, 8, 16, 32};
static const uint32_t spaces[] = {SPACE, 4 << 20};

/* Each to each, and all to one; close upon each other, and after a pause. */
static void hardly_any_is_dropped(void **state)
{
    (void) state;
    for (unsigned k = 0; k < 6 * 2; ++k) {
        crowd_t c;
        crowd_init(&c, crowds[k / 2], spaces[k % 2]);
        exchange(&c, c.n); /* also the connections, and what the paths carry */
        const uint64_t dropped = c.link.dropped, sent = c.link.sent, before = resent(&c);
        for (unsigned round = 0; round < 6; ++round) {
            exchange(&c, round % 2 ? 1 : c.n);
            if (round >= 2) {
                pause_for(&c, 20 * MS);
            }
        }
        const uint64_t later = c.link.dropped - dropped, all = c.link.sent - sent;
        print_message("%u processes, %u bytes: as they meet %" PRIu64 " of %" PRIu64
                      " datagrams dropped, later %" PRIu64 " of %" PRIu64 "\n",
                      c.n, spaces[k % 2], dropped, sent, later, all);
        assert_true(250 * later <= all);
        assert_true(250 * (resent(&c) - before) <= all);
        crowd_fini(&c);
    }
}

/* Who sends alone has all of the buffer, however many have been heard: a message of its size takes few turns. */
static void one_after_the_other_has_all(void **state)
{
    (void) state;
    crowd_t c;
    crowd_init(&c, 16, SPACE);
    exchange(&c, c.n);
    for (unsigned step = 1; step < c.n; ++step) {
        const unsigned begin = c.turn;
        for (unsigned i = 0; i < c.n; ++i) {
            const unsigned to = (i + step) % c.n;
            const struct iovec piece = {c.memory[i], SIZE};
            assert_int_equal(iw_post_write(c.peer[i][to], &piece, 1, c.stag[to], 0, 0, NULL),
                             IW_OK);
            ++c.left;
        }
        while (c.left > 0) {
            next_turn(&c);
        }
        assert_true(c.turn - begin <= 8 * c.n / PROCESSORS);
    }
    crowd_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hardly_any_is_dropped),
        cmocka_unit_test(one_after_the_other_has_all),
    };
    return cmocka_run_group_tests_name("iwarp_incast", tests, NULL, NULL);
}
