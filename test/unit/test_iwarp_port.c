/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The port (iw_port.h): two engines over real UDP sockets of the loopback interface, with and without
 * faults, and strangers who send anything to the socket. */
#define _GNU_SOURCE /* lossy.h */
#include "spec_unit.h"

#include "iw_internal.h"
#include "iw_lossy_ends.h"
#include "iw_port_internal.h"
#include "iw_memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

static void data_goes_through(void **state)
{
    (void) state;
    for (int segment = 0; segment < 2; ++segment) {
        end_t *e = ends_open(segment, 30 * S);
        transfer(e, 1000000, 20);
        for (int i = 0; i < 2; ++i) {
            const iw_counters_t *c = iw_engine_counters(e[i].engine);
            assert_int_equal(c->refused_tag + c->refused_length + c->refused_header, 0);
        }
        ends_close(e);
    }
}

/* Many small messages: the kernel gets them as trains. */
static void trains(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    uint8_t data[LENGTH] = {1};
    struct iovec piece = {data, LENGTH};
    iw_completion_t c;
    uint32_t sent = 0, got = 0;
    while (got < 5000) {
        for (; sent < 5000 && sent - got < RECEIVES; ++sent) {
            assert_int_equal(iw_post_send(e[0].peer, &piece, 1, IW_QUIET, NULL), IW_OK);
        }
        expect(e, 1, IW_RECEIVED, &c);
        assert_int_equal(iw_post_receive(e[1].engine, c.context, LENGTH, c.context), IW_OK);
        ++got;
    }
    const iw_port_counters_t *p = iw_port_counters(e[0].port);
    print_message("%lu calls for 5000 messages, %lu trains\n", (unsigned long) p->send_calls,
                  (unsigned long) p->trains);
    assert_true(p->send_calls < 5000);
    assert_true(0 == p->trains || iw_port_counters(e[1].port)->joins > 0);
    ends_close(e);
}

/* ---- what routers see ---- */

static void marking(iw_port_config_t *c)
{
    c->dscp = 10;
    c->ecn = true;
}

static int class_of(int s)
{
    int class = -1;
    socklen_t length = sizeof(class);
    assert_int_equal(getsockopt(s, IPPROTO_IP, IP_TOS, &class, &length), 0);
    return class;
}

/* A megabyte is written, and received with a call for each datagram, as it is found that comes slowly. */
static void write_slowly(end_t *e)
{
    enum { SIZE = 1000000 };
    uint8_t *memory = must_alloc(SIZE);
    const uint32_t stag = iw_register(e[1].engine, memory, SIZE, IW_REMOTE_WRITE, NULL);
    const struct iovec piece = {memory, SIZE};
    iw_completion_t c;
    assert_int_equal(iw_post_write(e[0].peer, &piece, 1, stag, 0, 0, NULL), IW_OK);
    while (0 == iw_engine_poll(e[0].engine, &c, 1)) {
        e[1].port->intake = (iw_intake_t){.slots = 1};
        progress(e);
    }
    iw_deregister(e[1].engine, stag);
    free(memory);
}

/* Marks of what is longer than a datagram are heard: they come one by one, in trains, and where they belong. */
static void marks_are_heard(void **state)
{
    (void) state;
    enum { CE = 3 };
    for (int segment = 0; segment < 2; ++segment) {
        end_tune = marking;
        end_t *e = ends_open(segment, 30 * S);
        end_tune = NULL;
        const iw_counters_t *in = iw_engine_counters(e[1].engine), *out = iw_engine_counters(e[0].engine);
        transfer(e, 1000000, 10);
        const int s = iw_port_socket_beside(e[0].port), class = 10 << 2 | CE;
        assert_int_equal(class_of(iw_port_socket(e[0].port)), 10 << 2 | 2);
        assert_int_equal(class_of(s), 10 << 2 | 2);
        close(s);
        assert_int_equal(in->marked_in, 0);
        const uint64_t window = e[0].peer->path.cc.window, segments = in->segments_in, resent = out->segments_resent;
        assert_int_equal(setsockopt(iw_port_socket(e[0].port), IPPROTO_IP, IP_TOS, &class, sizeof(class)), 0);
        for (unsigned i = 0; i < PEER_SOCKETS; ++i) {
            const int own = e[0].port->peer_socket[i].socket;
            assert_true(own < 0 || 0 == setsockopt(own, IPPROTO_IP, IP_TOS, &class, sizeof(class)));
        }
        transfer(e, 1000000, 10);
        /* Of what is written all but the first part, which may be received alone. */
        assert_true(in->marked_in >= (in->segments_in - segments) / 2);
        assert_true(out->marked_out > 0);
        assert_true(e[0].peer->path.cc.window < window);
        assert_true(out->segments_resent - resent < 20);
        const uint64_t before = in->segments_in, marked = in->marked_in;
        write_slowly(e);
        assert_true(segment || in->marked_in - marked >= (in->segments_in - before) / 2);
        ends_close(e);
    }
}

/* ---- the alternate path ---- */

static unsigned refusals;

/* To the other end, whole. */
static bool take_along(void *context, const iw_packet_t *packet)
{
    end_t *to = context;
    uint8_t flat[IW_DATAGRAM_MAX];
    size_t n = 0;
    if (refusals > 0) {
        --refusals;
        return false;
    }
    assert_ptr_equal(iw_peer_user(packet->peer), &to[-1]);
    for (unsigned i = 0; i < packet->count; ++i) {
        memcpy(flat + n, packet->piece[i].iov_base, packet->piece[i].iov_len);
        n += packet->piece[i].iov_len;
    }
    assert_int_equal(n, packet->length);
    iw_engine_input_alternate(to->engine, iw_port_now(), flat, n);
    return true;
}

/* What shall not go by the network goes otherwise, all else as ever: among datagrams that may be trains, alone, and when nobody
 * takes it. It ends because nothing is wrong with the network. */
static void what_shall_not_go_by_the_network_does_not(void **state)
{
    (void) state;
    for (unsigned round = 0; round < 3; ++round) {
        end_t *e = ends_open(true, 30 * S);
        e[0].peer->user = &e[0];
        transfer(e, 1000000, 1);
        iw_peer_set_alternate(e[0].peer, true);
        e[0].peer->failover.is_alternate = true;
        e[0].peer->failover.alternate_pn = e[0].peer->failover.first_pn = e[0].peer->tx.next_pn;
        e[0].peer->failover.try_at = iw_port_now();
        if (round > 0) {
            iw_port_set_alternate(e[0].port, take_along, &e[1]);
        }
        refusals = round > 1 ? 5 : 0;
        const iw_port_counters_t *p = iw_port_counters(e[0].port);
        const uint64_t calls = p->send_calls;
        transfer(e, 1000000, 2);
        if (0 == round) { /* it was lost until the network was tried */
            assert_true(p->alternate_full > 0 && 0 == p->alternate_out);
            assert_false(iw_peer_is_alternate(e[0].peer));
        } else {
            assert_true(p->alternate_out > 1000000 / IW_DATAGRAM_MAX);
            assert_int_equal(p->alternate_out, iw_engine_counters(e[1].engine)->alternate_in);
            assert_int_equal(p->alternate_full, round > 1 ? 5 : 0);
            assert_true(!iw_peer_is_alternate(e[0].peer) || p->send_calls <= calls + 1); /* acknowledgements, by the other end */
        }
        ends_close(e);
    }
}

/* The one that tries the network goes there, and those behind it do not. */
static void a_try_goes_by_itself(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    uint8_t *data = must_alloc(100000);
    struct iovec piece = {data, 100000};
    e[0].peer->user = &e[0];
    transfer(e, 1000000, 1);
    const iw_port_counters_t *p = iw_port_counters(e[0].port);
    const uint64_t calls = p->send_calls;
    uint32_t stag = iw_register(e[1].engine, data, 100000, IW_REMOTE_WRITE, NULL);
    iw_peer_set_alternate(e[0].peer, true);
    e[0].peer->failover.is_alternate = true;
    iw_port_set_alternate(e[0].port, take_along, &e[1]);
    assert_int_equal(iw_post_write(e[0].peer, &piece, 1, stag, 0, IW_QUIET, NULL), IW_OK);
    iw_port_flush(e[0].port, e[0].engine);
    assert_int_equal(p->send_calls, calls + 1);
    assert_true(p->alternate_out > 1);
    ends_close(e);
    free(data);
}

/* It acknowledges, too, so that what is behind it is shorter, as the end of a train is. */
static void a_try_takes_no_other_along(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    uint8_t byte = 1;
    const struct iovec piece = {&byte, 0};
    e[0].peer->user = &e[0];
    transfer(e, 1000000, 1);
    const iw_port_counters_t *p = iw_port_counters(e[0].port);
    const uint32_t stag = iw_register(e[1].engine, &byte, 1, IW_REMOTE_WRITE, NULL);
    iw_peer_set_alternate(e[0].peer, true);
    e[0].peer->failover.is_alternate = true;
    e[0].peer->rx.ack_now = true;
    iw_port_set_alternate(e[0].port, take_along, &e[1]);
    const uint64_t calls = p->send_calls;
    assert_int_equal(iw_post_write(e[0].peer, &piece, 1, stag, 0, IW_QUIET | IW_INLINE, NULL), IW_OK);
    iw_port_flush(e[0].port, e[0].engine);
    assert_int_equal(p->send_calls, calls + 1);
    assert_int_equal(p->alternate_out, 1);
    ends_close(e);
}

/* A large datagram, and a small one behind it, which could be the end of its train: both arrive. Nothing
 * else can lose them here, so every datagram that was sent comes in. */
static void what_follows_a_large_datagram(void **state)
{
    (void) state;
    enum { SIZE = 40000, ROUNDS = 500 };
    end_t *e = ends_open(true, 30 * S);
    uint8_t *data = must_alloc(2 * SIZE);
    iw_completion_t c;
    memset(data, 0x33, 2 * SIZE);
    uint32_t stag = iw_register(e[1].engine, data + SIZE, SIZE, IW_REMOTE_WRITE, NULL);
    for (int i = 0; i < ROUNDS; ++i) {
        struct iovec large = {data, SIZE}, small = {data, 16};
        assert_int_equal(iw_post_write(e[0].peer, &large, 1, stag, 0, IW_QUIET, NULL), IW_OK);
        assert_int_equal(iw_post_send(e[0].peer, &small, 1, IW_QUIET, NULL), IW_OK);
        iw_port_flush(e[0].port, e[0].engine);
        expect(e, 1, IW_RECEIVED, &c);
        assert_int_equal(iw_post_receive(e[1].engine, c.context, LENGTH, c.context), IW_OK);
    }
    for (uint64_t until = iw_port_now() + S / 10; iw_port_now() < until;) {
        progress(e);
    }
    for (int i = 0; i < 2; ++i) {
        const iw_counters_t *from = iw_engine_counters(e[i].engine),
                            *to = iw_engine_counters(e[1 - i].engine);
        assert_int_equal(from->packets_out - from->unsent, to->packets_in);
    }
    iw_deregister(e[1].engine, stag);
    free(data);
    ends_close(e);
}

/* One message each way, so that each datagram has the blocks of a conversation. */
static void message_to(end_t *e, unsigned from, uint32_t number, uint32_t length,
                       iw_completion_t *c)
{
    static uint8_t data[2][LENGTH]; /* until it is acknowledged */
    struct iovec piece = {data[from], length};
    memset(data[from], (int) number, length);
    assert_int_equal(iw_post_send(e[from].peer, &piece, 1, IW_QUIET, NULL), IW_OK);
    iw_port_flush(e[from].port, e[from].engine);
    expect(e, 1 - from, IW_RECEIVED, c);
    assert_int_equal(c->length, length);
}

/* One that comes alone is taken with the cheapest call. */
static void a_conversation_is_not_joined(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    for (uint32_t i = 0; i < 1000; ++i) {
        for (unsigned from = 0; from < 2; ++from) {
            iw_completion_t c;
            message_to(e, from, i, 100, &c);
            assert_int_equal(iw_post_receive(e[1 - from].engine, c.context, LENGTH, c.context),
                             IW_OK);
        }
    }
    assert_int_equal(iw_port_counters(e[0].port)->joins, 0);
    assert_int_equal(iw_port_counters(e[1].port)->joins, 0);
    ends_close(e);
}

static void data_goes_through_faults(void **state)
{
    (void) state;
    const char *const faults[] = {
        "drop=0.1",
        "duplicate=0.2",
        "reorder=0.3,delay=0.05:2ms",
        "corrupt=0.05,truncate=0.05",
        "drop=0.05,duplicate=0.05,reorder=0.1,delay=0.05:1ms,corrupt=0.02,truncate=0.02",
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); ++i) {
        end_t *e = lossy_ends_open(faults[i]);
        transfer(e, 300000, 3);
        lossy_ends_close(e);
    }
}

/* Anything from anybody: counted, and nothing else happens. */
static void strangers(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 30 * S);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    rng_t rng = {5};
    uint8_t junk[3000];
    const iw_address_t *to = iw_port_address(e[1].port);
    transfer(e, 100000, 1);
    const iw_counters_t *c = iw_engine_counters(e[1].engine);
    uint64_t before = c->segments_in;
    uint64_t refused = 0;
    for (int i = 0; i < 3000; ++i) {
        size_t length = rng_below(&rng, sizeof(junk));
        for (size_t k = 0; k < length; ++k) {
            junk[k] = (uint8_t) rng_next(&rng);
        }
        if (i % 2) { /* more like one of ours */
            junk[0] = (uint8_t) (0x11 + i % 6);
            junk[1] = (uint8_t) (i / 2 % 16);
        }
        (void) !sendto(s, junk, length, 0, &to->any, iw_address_length(to));
        progress(e);
    }
    for (int i = 0; i < 100; ++i) {
        progress(e);
    }
    refused = c->refused_length + c->refused_version + c->refused_connection + c->refused_tag;
    assert_int_equal(refused, 3000);
    assert_int_equal(c->segments_in, before);
    transfer(e, 100000, 1); /* and the connection is as it was */
    close(s);
    ends_close(e);
}

/* One that does not call is only silent, as its socket is there: without one the host says so. */
static void a_dead_process(void **state)
{
    (void) state;
    end_t *e = ends_open(true, S / 5);
    struct iovec piece = {"x", 1};
    iw_completion_t c;
    transfer(e, 10000, 1);
    assert_int_equal(iw_post_send(e[0].peer, &piece, 1, 0, e), IW_OK);
    alone(e, &c);
    assert_int_equal(c.what, IW_PEER_SILENT);
    assert_int_equal(iw_port_counters(e[0].port)->absences, 0);
    iw_port_close(e[1].port);
    alone(e, &c);
    assert_ptr_equal(c.context, e);
    assert_int_equal(c.status, IW_DEAD);
    assert_true(iw_port_counters(e[0].port)->absences > 0);
    iw_engine_destroy(e[0].engine);
    iw_engine_destroy(e[1].engine);
    iw_port_close(e[0].port);
    free(e);
}

/* More peers than connected sockets. */
static void many_peers(void **state)
{
    (void) state;
    enum { PEERS = 40 };
    end_t *e = must_alloc(PEERS * sizeof(*e));
    iw_peer_t *to[PEERS];
    iw_completion_t c;
    for (unsigned i = 0; i < PEERS; ++i) {
        end_open(&e[i], i, true, 30 * S);
    }
    for (unsigned i = 1; i < PEERS; ++i) {
        to[i] = iw_peer_add(e[0].engine, i, iw_port_address(e[i].port), &e[i].key, NULL);
        e[i].peer = iw_peer_add(e[i].engine, 0, iw_port_address(e[0].port), &e[0].key, NULL);
    }
    for (unsigned round = 0; round < 200; ++round) {
        for (unsigned i = 1; i < PEERS; ++i) {
            struct iovec piece = {&round, sizeof(round)};
            assert_int_equal(iw_post_send(to[i], &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
        }
        iw_port_flush(e[0].port, e[0].engine);
        for (unsigned i = 1; i < PEERS; ++i) {
            uint64_t until = iw_port_now() + 60 * S;
            while (0 == iw_engine_poll(e[i].engine, &c, 1)) {
                assert_true(iw_port_now() < until);
                iw_port_progress(e[i].port, e[i].engine);
                iw_port_progress(e[0].port, e[0].engine);
            }
            assert_int_equal(c.what, IW_RECEIVED);
            assert_memory_equal(c.context, &round, sizeof(round));
            iw_post_receive(e[i].engine, c.context, LENGTH, c.context);
        }
    }
    for (unsigned i = 0; i < PEERS; ++i) {
        iw_engine_destroy(e[i].engine);
        iw_port_close(e[i].port);
    }
    free(e);
}

/* Messages that may wait for others are not forgotten: the poll after them is due at once, and sends them. */
static void what_waits_leaves_with_the_next_poll(void **state)
{
    (void) state;
    end_t *e = ends_open(true, 60 * S);
    iw_completion_t c;
    uint32_t number;
    struct iovec piece = {&number, sizeof(number)};
    const uint64_t until = iw_port_now() + 60 * S;
    do { /* nothing has come for so long that polls are rare */
        assert_true(iw_port_now() < until);
        iw_port_progress(e[0].port, e[0].engine);
    } while (iw_port_is_due(e[0].port));
    for (number = 0; number < 20; ++number) {
        assert_int_equal(iw_post_send(e[0].peer, &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
        iw_port_gather(e[0].port);
    }
    assert_true(iw_port_is_due(e[0].port));
    assert_int_equal(iw_port_counters(e[0].port)->send_calls, 0);
    iw_port_progress(e[0].port, e[0].engine);
    for (uint32_t i = 0; i < number; ++i) {
        expect(e, 1, IW_RECEIVED, &c);
        assert_memory_equal(c.context, &i, sizeof(i));
    }
    ends_close(e);
}

/* Ends with a window, so that what is posted can leave. */
static end_t *ends_with_window(void)
{
    end_t *e = ends_open(true, 60 * S);
    transfer(e, 1000000, 20);
    return e;
}

/* So many datagrams leave by one progress, of more that are waiting. */
static uint64_t sent_by_progress(end_t *e, unsigned posted)
{
    uint8_t data[16] = {1};
    struct iovec piece = {data, sizeof(data)};
    const uint64_t *out = &iw_engine_counters(e[0].engine)->packets_out;
    for (unsigned i = 0; i < posted; ++i) {
        assert_int_equal(iw_post_send(e[0].peer, &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
    }
    const uint64_t before = *out;
    iw_port_progress(e[0].port, e[0].engine);
    assert_true(*out > before);
    return *out - before;
}

/* What sends much ends after one call of the kernel where another thread waits for the port. */
static void a_waiting_caller_waits_for_one_call(void **state)
{
    (void) state;
    end_t *e = ends_with_window();
    for (int wanted = 1; wanted >= 0; --wanted) {
        iw_port_want(e[0].port, true);
        iw_port_give_way(e[0].port, wanted); /* without it the caller may not come back */
        assert_int_equal(sent_by_progress(e, 4 * BATCH) <= BATCH, wanted);
        iw_port_give_way(e[0].port, false);
        iw_port_want(e[0].port, false);
        iw_port_flush(e[0].port, e[0].engine);
    }
    ends_close(e);
}

/* Progress beside a thread that sends is soon over. */
static void a_caller_that_polls_once_sends_little(void **state)
{
    (void) state;
    end_t *e = ends_with_window();
    for (int brief = 1; brief >= 0; --brief) {
        assert_false(iw_port_be_brief(e[0].port, brief));
        assert_int_equal(sent_by_progress(e, 2 * BATCH) <= BRIEF, brief);
        assert_int_equal(iw_port_be_brief(e[0].port, false), brief);
        iw_port_flush(e[0].port, e[0].engine);
    }
    ends_close(e);
}

static bool is_direct;

static uint64_t misplaced(const end_t *e)
{
    return iw_port_counters(e[0].port)->misplaced + iw_port_counters(e[1].port)->misplaced;
}

static void tune_places(iw_port_config_t *config)
{
    config->direct = is_direct;
}

/* Large reads in both directions, so that acknowledgements come with payloads, and messages and writes between. */
static void payloads_are_received_in_place(void **state)
{
    (void) state;
    enum { SIZE = 400000, AT_ONCE = 4, ROUNDS = 30, MOST = 300 };
    uint8_t *from[2], *to[2][AT_ONCE], *written[2];
    uint32_t stag[2], target[2];
    iw_completion_t c;
    for (int on = 0; on < 2; ++on) {
        is_direct = 0 != on;
        end_tune = tune_places;
        end_t *e = ends_open(true, 60 * S);
        end_tune = NULL;
        for (unsigned i = 0; i < 2; ++i) {
            rng_t rng = {i};
            from[i] = must_alloc(SIZE);
            written[i] = must_alloc(SIZE);
            for (unsigned k = 0; k < SIZE; ++k) {
                from[i][k] = (uint8_t) rng_next(&rng);
            }
            for (unsigned k = 0; k < AT_ONCE; ++k) {
                to[i][k] = must_alloc(SIZE);
            }
            stag[i] = iw_register(e[i].engine, from[i], SIZE, IW_REMOTE_READ, NULL);
            target[i] = iw_register(e[i].engine, written[i], SIZE, IW_REMOTE_WRITE, NULL);
        }
        /* Until a guess was wrong, too, which is a matter of timing. */
        for (unsigned round = 0; round < ROUNDS || (is_direct && 0 == misplaced(e) && round < MOST); ++round) {
            unsigned left = 0;
            for (unsigned i = 0; i < 2; ++i) {
                struct iovec piece = {&round, sizeof(round)};
                for (unsigned k = 0; k < AT_ONCE; ++k) {
                    memset(to[i][k], 0, SIZE);
                    assert_int_equal(iw_post_read(e[i].peer, to[i][k], SIZE, stag[1 - i], 0, 0, NULL), IW_OK);
                    assert_int_equal(iw_post_send(e[i].peer, &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
                    left += 2;
                }
                piece = (struct iovec){from[i], SIZE};
                assert_int_equal(iw_post_write(e[i].peer, &piece, 1, target[1 - i], 0, 0, NULL), IW_OK);
                ++left;
                iw_port_flush(e[i].port, e[i].engine);
            }
            const uint64_t until = iw_port_now() + 120 * S;
            while (left > 0) {
                progress(e);
                assert_true(iw_port_now() < until);
                for (unsigned i = 0; i < 2; ++i) {
                    while (1 == iw_engine_poll(e[i].engine, &c, 1)) {
                        if (IW_LIMIT_REACHED == c.what) {
                            continue;
                        }
                        assert_int_equal(c.status, IW_OK);
                        --left;
                        if (IW_RECEIVED == c.what) {
                            iw_post_receive(e[i].engine, c.context, LENGTH, c.context);
                        }
                    }
                }
            }
            for (unsigned i = 0; i < 2; ++i) {
                for (unsigned k = 0; k < AT_ONCE; ++k) {
                    assert_memory_equal(to[i][k], from[1 - i], SIZE);
                }
                assert_memory_equal(written[i], from[1 - i], SIZE);
            }
        }
        for (unsigned i = 0; i < 2; ++i) {
            const iw_port_counters_t *count = iw_port_counters(e[i].port);
            assert_int_equal(iw_engine_counters(e[i].engine)->refused_tag, 0);
            if (is_direct) {
                assert_true(count->placed > 0);
            } else {
                assert_true(0 == count->placed && 0 == count->misplaced);
            }
            free(from[i]);
            free(written[i]);
            for (unsigned k = 0; k < AT_ONCE; ++k) {
                free(to[i][k]);
            }
        }
        ends_close(e);
    }
}

/* ---- which port ---- */

static iw_port_t *open_from(const char *host, uint16_t first, uint32_t ports)
{
    iw_port_config_t c;
    iw_port_config_default(&c);
    memset(&c.address, 0, sizeof(c.address));
    if (NULL != strchr(host, ':')) {
        c.address.v6.sin6_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, host, &c.address.v6.sin6_addr), 1);
        c.address.v6.sin6_port = htons(first);
    } else {
        c.address.v4.sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, host, &c.address.v4.sin_addr), 1);
        c.address.v4.sin_port = htons(first);
    }
    c.ports = ports;
    return iw_port_open(&c);
}

static uint16_t port_of(const iw_port_t *p)
{
    return NULL == p ? 0 : ntohs(iw_port_address(p)->v4.sin_port); /* at the same place in both families */
}

/* So many free ports in a row, somewhere. */
static uint16_t free_row(const char *host, unsigned n)
{
    for (uint16_t first = 20000; first < 60000; first = (uint16_t) (first + n)) {
        iw_port_t *p[8];
        unsigned got = 0;
        while (got < n && NULL != (p[got] = open_from(host, (uint16_t) (first + got), 0))) {
            ++got;
        }
        const bool all = got == n;
        while (got > 0) {
            iw_port_close(p[--got]);
        }
        if (all) {
            return first;
        }
    }
    fail_msg("no %u free ports in a row", n);
    return 0;
}

/* A firewall's ports: each the first that is free, an error when none is, and each address has its own. */
static void ports_of_a_range(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "::1"};
    (void) state;
    for (unsigned h = 0; h < 2; ++h) {
        iw_port_t *any = open_from(hosts[h], 0, 0);
        if (NULL == any && 1 == h) {
            print_message("SKIP: no IPv6 here\n");
            continue;
        }
        iw_port_close(any);
        const uint16_t first = free_row(hosts[h], 4);
        iw_port_t *p[3];
        for (unsigned i = 0; i < 3; ++i) {
            p[i] = open_from(hosts[h], first, 3);
            assert_int_equal(port_of(p[i]), first + i);
        }
        errno = 0;
        assert_null(open_from(hosts[h], first, 3));
        assert_int_equal(errno, EADDRINUSE);
        assert_null(open_from(hosts[h], first, 0)); /* that one and no other */
        assert_int_equal(errno, EADDRINUSE);
        iw_port_t *next = open_from(hosts[h], first, 4);
        assert_int_equal(port_of(next), first + 3);
        iw_port_close(p[1]); /* what is free again is taken again */
        p[1] = open_from(hosts[h], first, 3);
        assert_int_equal(port_of(p[1]), first + 1);
        if (0 == h) { /* another interface */
            iw_port_t *other = open_from("127.0.0.2", first, 3);
            assert_int_equal(port_of(other), first);
            iw_port_close(other);
        }
        iw_port_close(next);
        for (unsigned i = 0; i < 3; ++i) {
            iw_port_close(p[i]);
        }
    }
    /* There is none behind the last. */
    iw_port_t *last = open_from("127.0.0.1", 65535, 10);
    assert_null(NULL == last ? NULL : open_from("127.0.0.1", 65535, 10));
    assert_int_equal(errno, EADDRINUSE);
    if (NULL != last) {
        assert_int_equal(port_of(last), 65535);
        iw_port_close(last);
    }
    /* Other errors are not tried elsewhere: this is no address of ours. */
    assert_null(open_from("192.0.2.254", 20000, 40000));
    assert_int_equal(errno, EADDRNOTAVAIL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_goes_through),
        cmocka_unit_test(trains),
        cmocka_unit_test(marks_are_heard),
        cmocka_unit_test(what_shall_not_go_by_the_network_does_not),
        cmocka_unit_test(a_try_goes_by_itself),
        cmocka_unit_test(a_try_takes_no_other_along),
        cmocka_unit_test(what_follows_a_large_datagram),
        cmocka_unit_test(a_conversation_is_not_joined),
        cmocka_unit_test(data_goes_through_faults),
        cmocka_unit_test(strangers),
        cmocka_unit_test(a_dead_process),
        cmocka_unit_test(many_peers),
        cmocka_unit_test(what_waits_leaves_with_the_next_poll),
        cmocka_unit_test(a_waiting_caller_waits_for_one_call),
        cmocka_unit_test(a_caller_that_polls_once_sends_little),
        cmocka_unit_test(payloads_are_received_in_place),
        cmocka_unit_test(ports_of_a_range),
    };
    return cmocka_run_group_tests_name("iw_port", tests, NULL, NULL);
}
