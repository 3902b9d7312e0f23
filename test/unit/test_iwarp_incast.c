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
    unsigned messages; /* that have arrived */
    unsigned stopped;  /* this one has no turns; n: all have */
} crowd_t;

static void crowd_init_with(crowd_t *c, unsigned n, uint32_t bytes, const iw_fault_rates_t *rates)
{
    *c = (crowd_t){.n = n, .stopped = n};
    space = bytes;
    link_tune = loopback;
    link_init(&c->link, n, rates, 1);
    link_tune = NULL;
    c->link.space = 2 * (size_t) bytes; /* so does Linux */
    for (unsigned i = 0; i < n; ++i) {
        c->memory[i] = must_alloc(SIZE);
        c->stag[i] = iw_register(c->link.engine[i], c->memory[i], SIZE, IW_REMOTE_WRITE, NULL);
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

static void crowd_init(crowd_t *c, unsigned n, uint32_t bytes)
{
    crowd_init_with(c, n, bytes, NULL);
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
            assert_int_equal(done.status, IW_OK);
            c->left -= IW_WRITTEN == done.what;
            c->messages += IW_RECEIVED == done.what;
        }
    }
}

/* The next of them have their turn, the others sleep until theirs. */
static void next_turn(crowd_t *c)
{
    for (unsigned k = 0; k < c->n; ++k) {
        const unsigned i = (c->turn * PROCESSORS + k) % c->n;
        c->link.asleep[i] = i == c->stopped ? UINT64_MAX : c->link.now + k / PROCESSORS * TURN;
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
        const unsigned begin = c.turn;
        for (unsigned round = 0; round < 6; ++round) {
            exchange(&c, round % 2 ? 1 : c.n);
            if (round >= 2) {
                pause_for(&c, 20 * MS);
            }
        }
        const uint64_t later = c.link.dropped - dropped, all = c.link.sent - sent;
        print_message("%u processes, %u bytes: as they meet %" PRIu64 " of %" PRIu64
                      " datagrams dropped, later %" PRIu64 " of %" PRIu64 ", in %u turns\n",
                      c.n, spaces[k % 2], dropped, sent, later, all, c.turn - begin);
        if (c.n <= 16) {
            assert_true(10 * dropped <= sent); /* until they know of each other */
            assert_true(c.turn - begin <= 5 * c.n * c.n);
            assert_true(all <= (uint64_t) (20 * 6 * c.n * c.n)); /* and few small ones */
        }
        if (spaces[k % 2] > SPACE && c.n >= 8 && c.n <= 16) {
            assert_true(c.turn - begin <= 7 * c.n); /* no network is between them that would take less than the socket */
        }
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

/* All write to the first one, and go on so; each then has a word to say. */
static void begin_to_write(crowd_t *c, unsigned writes)
{
    crowd_init(c, 8, SPACE);
    exchange(c, c->n);
    for (unsigned i = 1; i < c->n; ++i) {
        const struct iovec piece = {c->memory[i], SIZE};
        for (unsigned k = 0; k < writes; ++k) {
            assert_int_equal(iw_post_write(c->peer[i][0], &piece, 1, c->stag[0], 0, IW_BULK, NULL),
                             IW_OK);
            ++c->left;
        }
    }
    for (unsigned i = 0; i < 2 * c->n; ++i) {
        next_turn(c);
    }
}

/* A sender that waits for its share has small messages, too. */
static void small_ones_do_not_wait(void **state)
{
    (void) state;
    crowd_t c;
    uint8_t buffer[8][64];
    begin_to_write(&c, 8);
    for (unsigned i = 1; i < c.n; ++i) {
        const struct iovec piece = {c.memory[i], 64};
        assert_int_equal(iw_post_receive(c.link.engine[0], buffer[i], sizeof(buffer[i]), NULL), IW_OK);
        assert_int_equal(iw_post_send(c.peer[i][0], &piece, 1, 0, NULL), IW_OK);
    }
    for (unsigned i = 0; i < 2 * c.n; ++i) {
        next_turn(&c);
    }
    assert_int_equal(c.messages, c.n - 1);
    assert_true(c.left > 4 * c.n);
    crowd_fini(&c);
}

/* Nor does a small message cost a sender its place, whether it is served or waits. */
static void small_ones_leave_the_order(void **state)
{
    (void) state;
    crowd_t c;
    uint8_t buffer[8][64];
    unsigned known = 0;
    begin_to_write(&c, 8);
    for (unsigned i = 1; i < c.n; ++i) {
        const struct iovec piece = {c.memory[i], 64};
        const iw_peer_t *p = c.peer[0][i];
        if (IW_SHARE_NONE == p->rx.sender.state) {
            continue;
        }
        const unsigned before = c.messages;
        assert_int_equal(iw_post_receive(c.link.engine[0], buffer[i], sizeof(buffer[i]), NULL), IW_OK);
        assert_int_equal(iw_post_send(c.peer[i][0], &piece, 1, 0, NULL), IW_OK);
        for (unsigned turns = 0; before == c.messages; ++turns) {
            assert_true(turns < 2 * c.n);
            next_turn(&c);
            assert_int_not_equal(p->rx.sender.state, IW_SHARE_NONE);
        }
        ++known;
    }
    assert_true(known > 2);
    crowd_fini(&c);
}

/* The word that it is somebody's turn can be lost. */
static void turns_survive_loss(void **state)
{
    (void) state;
    const iw_fault_rates_t rates = {.drop = 100000};
    crowd_t c;
    crowd_init_with(&c, 8, SPACE, &rates);
    for (unsigned round = 0; round < 8; ++round) {
        exchange(&c, round % 2 ? 1 : c.n);
    }
    crowd_fini(&c);
}

/* A process that is stopped in the midst of its message keeps nobody else waiting. */
static void a_stopped_one_is_left_out(void **state)
{
    (void) state;
    crowd_t c;
    begin_to_write(&c, 4);
    iw_engine_t *e = c.link.engine[0];
    assert_false(spec_list_is_empty(&e->share.served));
    c.stopped = (unsigned) (iw_peer_identity(SPEC_ENTRY(e->share.served.next, iw_peer_t, rx.sender.link)) - 100);
    const unsigned begin = c.turn;
    while (c.left > 4) {
        assert_true(c.turn - begin < 2000);
        next_turn(&c);
    }
    c.stopped = c.n;
    while (c.left > 0) {
        assert_true(c.turn - begin < 100000);
        next_turn(&c);
    }
    crowd_fini(&c);
}

/* Large datagrams of engine 1, of which one is lost. */
typedef struct loss {
    link_t *link;
    unsigned large, lost;
} loss_t;

static void lose_one(void *context, unsigned from, const uint8_t *data, size_t length)
{
    loss_t *l = context;
    (void) data;
    if (1 == from) {
        l->large += length > 4096;
        l->link->cut[1] = length > 4096 && l->large == l->lost;
    }
}

/* Its last segment overtakes one that is lost and comes later: it is not in the midst of a message then, and does not take from what
 * others may have under way. */
static void a_late_segment_begins_nothing(void **state)
{
    (void) state;
    link_t link;
    loss_t loss = {.link = &link};
    uint8_t *memory = must_alloc(SIZE);
    link_init(&link, 3, NULL, 1);
    link.tap = lose_one;
    link.tap_context = &loss;
    iw_engine_t *e = link.engine[0];
    const uint32_t stag = iw_register(e, memory, SIZE, IW_REMOTE_WRITE, NULL);
    iw_peer_t *sender[2];
    for (unsigned i = 0; i < 2; ++i) {
        sender[i] = link_peer(&link, 1 + i, 0, NULL);
        (void) link_peer(&link, 0, 1 + i, NULL);
    }
    const struct iovec piece = {memory, SIZE};
    iw_completion_t c;
    unsigned each = 0;
    for (unsigned round = 0; round < 4; ++round) {
        loss.large = 0;
        loss.lost = 3 == round ? each - 1 : 0; /* the last but one */
        assert_int_equal(iw_post_write(sender[0], &piece, 1, stag, 0, 0, NULL), IW_OK);
        expect(&link, 1, IW_WRITTEN, IW_OK, &c);
        each = loss.large;
        assert_int_equal(e->share.members, 0);
        link_run(&link, link.now + S); /* nobody remembers who sent at the same time */
    }
    assert_true(iw_engine_counters(e)->segments_early > 0);
    uint32_t most = 0;
    assert_int_equal(iw_post_write(sender[1], &piece, 1, stag, 0, 0, NULL), IW_OK);
    while (0 == iw_engine_poll(link.engine[2], &c, 1)) {
        assert_true(link_step(&link, link.now + S));
        most = sender[1]->tx.window > most ? sender[1]->tx.window : most;
    }
    assert_int_equal(most, e->config.receive_space);
    assert_int_equal(e->share.members, 0);
    link_fini(&link);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones_do_not_wait),
        cmocka_unit_test(small_ones_leave_the_order),
        cmocka_unit_test(turns_survive_loss),
        cmocka_unit_test(a_stopped_one_is_left_out),
        cmocka_unit_test(a_late_segment_begins_nothing),
        cmocka_unit_test(hardly_any_is_dropped),
        cmocka_unit_test(one_after_the_other_has_all),
    };
    return cmocka_run_group_tests_name("iwarp_incast", tests, NULL, NULL);
}
