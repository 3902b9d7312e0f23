/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Datagrams with the right key that make no sense: hellos, segments, terminates and requests that cannot be are refused, and
 * a connection that goes on is unharmed. */
#include "spec_unit.h"

#include "iw_nomem.h"


static const iw_counters_t *counters(const wicked_t *w)
{
    return iw_engine_counters(w->victim);
}

static void open_up(wicked_t *w)
{
    iw_completion_t c;
    send_part(w, 0, 1, 0, true, 1);
    assert_int_equal(iw_engine_poll(w->victim, &c, 1), 1);
    assert_int_equal(c.what, IW_RECEIVED);
}

/* The connection is as it was: the next message arrives. */
static void still_open(wicked_t *w, uint32_t ssn, uint32_t msn)
{
    iw_completion_t c;
    send_part(w, ssn, msn, 0, true, 8);
    assert_int_equal(iw_engine_poll(w->victim, &c, 1), 1);
    assert_int_equal(c.what, IW_RECEIVED);
    assert_int_equal(c.length, 8);
    assert_int_equal(w->peer->state, IW_ACTIVE);
}

static void no_such_connection(void **state)
{
    (void) state;
    wicked_t w;
    wicked_init(&w);
    open_up(&w);
    const uint32_t right = w.peer->conn;
    const uint32_t wrong[] = {right ^ 1u << 20, right ^ 1, right | 0xfffff, 0};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        uint8_t data[64];
        size_t n = start(&w, data, IW_CONTROL, 0);
        const iw_be32_t conn = iw_be32(wrong[i]);
        memcpy(data + offsetof(iw_head_t, conn), &conn, sizeof(conn));
        give(&w, data, n);
        assert_int_equal(counters(&w)->refused_connection, i + 1);
    }
    still_open(&w, 1, 2);
    wicked_fini(&w);
}

/* A hello for a connection that is over here, though the peer has never been heard: no second one begins. */
static void a_hello_after_the_end(void **state)
{
    (void) state;
    wicked_t w;
    iw_completion_t c;
    uint8_t data[256];
    struct iovec piece = {"x", 1};
    wicked_init(&w);
    assert_int_equal(iw_post_send(w.peer, &piece, 1, IW_INLINE, NULL), IW_OK);
    link_drain(&w.link);
    iw_peer_down(w.peer, IW_DEAD, NULL);
    assert_int_equal(iw_engine_poll(w.victim, &c, 1), 1);
    assert_int_equal(c.status, IW_DEAD);
    const uint32_t conn = w.peer->conn;
    w.peer->conn = 0; /* so that a hello is made */
    const size_t n = start(&w, data, IW_PROBE, 0);
    w.peer->conn = conn;
    give(&w, data, n);
    assert_int_equal(counters(&w)->refused_down, 1);
    assert_int_equal(w.peer->state, IW_DOWN);
    assert_int_equal(iw_engine_poll(w.victim, &c, 1), 1);
    assert_int_equal(c.what, IW_PEER_DOWN);
    assert_int_equal(iw_engine_poll(w.victim, &c, 1), 0);
    wicked_fini(&w);
}

static void hello_of(wicked_t *w, uint64_t generation, uint64_t answers, uint32_t conn,
                     uint16_t datagram)
{
    uint8_t data[256];
    iw_head_t h = {
        .version_type = IW_VERSION << 4 | IW_PROBE, .flags = IW_F_HELLO, .pn = iw_be64(++w->pn)};
    iw_hello_t s = {.identity = iw_be64(101),
                    .generation = iw_be64(generation),
                    .answers = iw_be64(answers),
                    .conn = iw_be32(conn),
                    .datagram = iw_be16(datagram),
                    .version_max = 1,
                    .reads = 16};
    memcpy(data, &h, sizeof(h));
    memcpy(data + sizeof(h), &s, sizeof(s));
    give(w, data, sizeof(h) + sizeof(s));
}

/* No connection comes of a hello that cannot be, nor of one for which there is no memory; the next may be better. */
static void hellos_that_make_no_connection(void **state)
{
    (void) state;
    wicked_t w;
    wicked_init(&w);
    hello_of(&w, 0, 0, 1, 9000);
    hello_of(&w, 2000, 0, 0, 9000);
    hello_of(&w, 2000, 0, 1, IW_DATAGRAM_MIN - 1);
    hello_of(&w, 2000, 7, 1, 9000); /* answers what was never said */
    assert_int_equal(counters(&w)->refused_stale, 4);
    out = (faulty_t){.skip = 1, .times = 1, .error = ENOMEM}; /* the first is the datagram's own */
    hello_of(&w, 2000, 0, 1, 9000);
    assert_int_equal(out.hits, 1);
    assert_int_equal(counters(&w)->refused_memory, 1);
    assert_int_equal(w.peer->state, IW_IDLE);
    open_up(&w);
    assert_int_equal(w.peer->state, IW_ACTIVE);
    hello_of(&w, 2000, 7, 1, 9000);
    assert_int_equal(counters(&w)->refused_stale, 5);
    still_open(&w, 1, 2);
    wicked_fini(&w);
}

/* Nor does anything count that is sent before the peer has said for which connection of its own. */
static void no_data_before_a_hello(void **state)
{
    (void) state;
    wicked_t w;
    iw_completion_t c;
    wicked_init(&w);
    struct iovec piece = {"hi", 2};
    assert_int_equal(iw_post_send(w.peer, &piece, 1, IW_INLINE | IW_QUIET, NULL), IW_OK);
    link_drain(&w.link);
    assert_true(0 != w.peer->conn); /* as the victim's hello says: start() makes none */
    send_part(&w, 0, 1, 0, true, 8);
    assert_int_equal(counters(&w)->refused_stale, 1);
    assert_false(w.peer->confirmed);
    assert_int_equal(iw_engine_poll(w.victim, &c, 1), 0);
    wicked_fini(&w);
}

static void a_segment_without_sense(void **state)
{
    (void) state;
    wicked_t w;
    iw_untagged_t h = {.ddp = IW_DDP_VERSION | IW_DDP_LAST,
                       .rdmap = IW_RDMAP_VERSION | IW_OP_SEND,
                       .qn = iw_be32(7)};
    wicked_init(&w);
    segment(&w, 0, &h, sizeof(h), 8);
    expect_end(&w, IW_TERM_DDP_QN, 0);
    wicked_fini(&w);
}

/* Who says that there was no buffer for what was never sent makes nobody wait. */
static void not_ready_for_what_was_never_sent(void **state)
{
    (void) state;
    wicked_t w;
    uint8_t data[256];
    struct iovec piece = {"x", 1};
    wicked_init(&w);
    open_up(&w);
    assert_int_equal(iw_post_send(w.peer, &piece, 1, IW_INLINE, NULL), IW_OK);
    link_drain(&w.link);
    const uint64_t before = w.peer->path.cc.in_flight;
    size_t n = start(&w, data, IW_CONTROL, IW_F_ACK | IW_F_RNR);
    iw_ack_t a = {.largest = iw_be32(1), .window = iw_be32(100000), .ranges = 1};
    iw_range_t r = {iw_be16(0), iw_be16(1)};
    iw_rnr_t rnr = {.refused = iw_be32((uint32_t) w.peer->tx.next_pn + 5)};
    a.largest = iw_be32(0); /* nothing of ours has arrived */
    memcpy(data + n, &a, sizeof(a));
    memcpy(data + n + sizeof(a), &r, sizeof(r));
    memcpy(data + n + sizeof(a) + sizeof(r), &rnr, sizeof(rnr));
    give(&w, data, n + sizeof(a) + sizeof(r) + sizeof(rnr));
    assert_int_equal(counters(&w)->rnr_in, 1);
    assert_true(0 == w.peer->tx.rnr_until && before == w.peer->path.cc.in_flight);
    wicked_fini(&w);
}

/* Buffers that rest: only those that no message uses. */
static void buffers_that_rest(void **state)
{
    (void) state;
    wicked_t w;
    wicked_init(&w);
    assert_ptr_equal(iw_receive_idle(w.victim, 0), w.buffer[BUFFERS - 1]);
    open_up(&w); /* takes that one */
    assert_ptr_equal(iw_receive_idle(w.victim, 0), w.buffer[BUFFERS - 2]);
    assert_ptr_equal(iw_receive_idle(w.victim, BUFFERS - 2), w.buffer[0]);
    assert_null(iw_receive_idle(w.victim, BUFFERS - 1));
    wicked_fini(&w);
}

/* What follows is right, but its turn never comes. */
static void an_early_one_is_wrong_when_its_turn_comes(void **state)
{
    (void) state;
    wicked_t w;
    wicked_init(&w);
    read_request(&w, 1, 7, 8);
    assert_int_equal(w.peer->state, IW_ACTIVE);
    send_part(&w, 0, 1, 0, true, 8);
    expect_end(&w, IW_TERM_DDP_MSN, 1);
    wicked_fini(&w);
}

static void terminate_body(uint8_t *to, uint8_t opcode, uint16_t term)
{
    iw_untagged_t h = {.ddp = IW_DDP_VERSION | IW_DDP_LAST,
                       .rdmap = IW_RDMAP_VERSION | opcode,
                       .qn = iw_be32(IW_QN_TERMINATE),
                       .msn = iw_be32(1)};
    iw_terminate_t t = {.layer_type = (uint8_t) (term >> 8), .code = (uint8_t) term};
    memcpy(to, &h, sizeof(h));
    memcpy(to + sizeof(h), &t, sizeof(t));
}

/* A Terminate has a type of its own; as a segment it is an opcode that cannot be. */
static void a_terminate_among_the_segments(void **state)
{
    (void) state;
    wicked_t w;
    uint8_t body[sizeof(iw_untagged_t) + sizeof(iw_terminate_t)];
    wicked_init(&w);
    terminate_body(body, IW_OP_TERMINATE, IW_TERM_STAG);
    segment(&w, 0, body, sizeof(body), 0);
    expect_end(&w, IW_TERM_OPCODE, 0);
    wicked_fini(&w);
}

static void whole(wicked_t *w, enum iw_type type, const void *body, size_t length, size_t payload)
{
    uint8_t data[1024];
    size_t n = start(w, data, type, 0);
    iw_ulpdu_t ulpdu = {.length = iw_be16((uint16_t) (length + payload))};
    memcpy(data + n, &ulpdu, sizeof(ulpdu));
    n += sizeof(ulpdu);
    memcpy(data + n, body, length);
    memset(data + n + length, 0x77, payload);
    give(w, data, n + length + payload);
}

/* A Terminate that makes no sense ends nothing; one that does, ends all with its reason. */
static void terminates_that_make_no_sense(void **state)
{
    (void) state;
    wicked_t w;
    iw_completion_t c;
    uint8_t body[sizeof(iw_untagged_t) + sizeof(iw_terminate_t)];
    wicked_init(&w);
    open_up(&w);
    terminate_body(body, IW_OP_SEND, IW_TERM_STAG);
    whole(&w, IW_TERMINATE, body, sizeof(body), 0);
    terminate_body(body, IW_OP_TERMINATE, IW_TERM_STAG);
    whole(&w, IW_TERMINATE, body, sizeof(body), 1);
    whole(&w, IW_TERMINATE, body, 1, 0);
    /* A message that is one, but no Terminate. */
    terminate_body(body, IW_OP_SEND, IW_TERM_STAG);
    ((iw_untagged_t *) body)->qn = iw_be32(IW_QN_SEND);
    whole(&w, IW_TERMINATE, body, sizeof(body), 0);
    assert_int_equal(counters(&w)->refused_header, 4);
    still_open(&w, 1, 2);
    terminate_body(body, IW_OP_TERMINATE, IW_TERM_STAG);
    whole(&w, IW_TERMINATE, body, sizeof(body), 0);
    assert_int_equal(iw_engine_poll(w.victim, &c, 1), 1);
    assert_int_equal(c.what, IW_PEER_DOWN);
    assert_int_equal(c.status, IW_REMOTE_ACCESS);
    wicked_fini(&w);
}

static void requests_that_are_too_long(void **state)
{
    (void) state;
    wicked_t w;
    iw_completion_t c;
    struct iovec piece[IW_IOV_MAX + 1] = {
        {w.memory, 1}, {w.memory, 1}, {w.memory, 1}, {w.memory, 1}, {w.memory, 1}};
    wicked_init(&w);
    open_up(&w);
    assert_int_equal(iw_post_send(w.peer, piece, IW_IOV_MAX + 1, 0, NULL), IW_TOO_LONG);
    piece[1].iov_len = (size_t) UINT32_MAX + 1;
    assert_int_equal(iw_post_send(w.peer, piece, 2, 0, NULL), IW_TOO_LONG);
    piece[1].iov_len = UINT32_MAX; /* each may be, the sum not */
    assert_int_equal(iw_post_write(w.peer, piece, 2, 5, 0, 0, NULL), IW_TOO_LONG);
    piece[1].iov_len = IW_INLINE_MAX;
    assert_int_equal(iw_post_send(w.peer, piece, 2, IW_INLINE, NULL), IW_TOO_LONG);
    assert_int_equal(iw_engine_poll(w.victim, &c, 1), 0);
    assert_true(0 == w.victim->requests.in_use);
    still_open(&w, 1, 2);
    wicked_fini(&w);
}

static void every_status_has_a_name(void **state)
{
    (void) state;
    for (int i = 0; i <= IW_PROTOCOL; ++i) {
        assert_non_null(iw_status_name((iw_status_t) i));
        assert_true(strlen(iw_status_name((iw_status_t) i)) > 1);
        for (int k = 0; k < i; ++k) {
            assert_string_not_equal(iw_status_name((iw_status_t) i),
                                    iw_status_name((iw_status_t) k));
        }
    }
    assert_string_equal(iw_status_name((iw_status_t) (IW_PROTOCOL + 1)), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_such_connection),
        cmocka_unit_test(a_hello_after_the_end),
        cmocka_unit_test(hellos_that_make_no_connection),
        cmocka_unit_test(no_data_before_a_hello),
        cmocka_unit_test(a_segment_without_sense),
        cmocka_unit_test(not_ready_for_what_was_never_sent),
        cmocka_unit_test(buffers_that_rest),
        cmocka_unit_test(an_early_one_is_wrong_when_its_turn_comes),
        cmocka_unit_test(a_terminate_among_the_segments),
        cmocka_unit_test(terminates_that_make_no_sense),
        cmocka_unit_test(requests_that_are_too_long),
        cmocka_unit_test(every_status_has_a_name),
    };
    return cmocka_run_group_tests_name("iw_invalid", tests, NULL, NULL);
}
