/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Connecting by datagrams (vb_handshake.h, vb_cm_message_t of vb_wire.h): the bytes, each rule by itself, then two processes and the
 * state machine of connections between which every datagram may be lost, doubled and overtaken. */
#include "spec_unit.h"

#include <string.h>

#include "vb_conn.h"
#include "vb_handshake.h"

/* ---- bytes ---- */

static const vb_cm_message_t sample = {.hello = {.answer = VB_WELCOME,
                                                 .credits = 0x0102,
                                                 .buffer = 0x2040,
                                                 .name = UINT64_C(0x1112131415161718),
                                                 .key = UINT64_C(0x2122232425262728)},
                                       .number = UINT64_C(0x3132333435363738),
                                       .key = UINT64_C(0x4142434445464748),
                                       .pair = 0x515253,
                                       .psn = 0x616263,
                                       .mailbox = 0x717273,
                                       .qkey = 0x01828384,
                                       .lid = 0x0910,
                                       .mtu = 5,
                                       .resources = 16,
                                       .depth = 8,
                                       .gid = {0xfe, 0x80, [15] = 0x77}};

static void a_cm_message_has_golden_bytes(void **state)
{
    static const uint8_t golden[88] = {
        'I',  'B',  'X',  'v',  6,    1,    0x01, 0x02, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
        0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x00, 0x00, 0x20, 0x40, 0,    0,
        0,    0,    0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0x45,
        0x46, 0x47, 0x48, 0,    0x51, 0x52, 0x53, 0,    0x61, 0x62, 0x63, 0,    0x71, 0x72, 0x73,
        0x01, 0x82, 0x83, 0x84, 0x09, 0x10, 5,    16,   8,    0,    0,    0,    0xfe, 0x80, 0,
        0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0x77};
    vb_cm_wire_t wire;
    vb_cm_message_t back;
    (void) state;
    vb_cm_write(&wire, &sample);
    assert_memory_equal(&wire, golden, sizeof(golden));
    assert_true(vb_cm_read(&back, &wire, sizeof(wire)));
    assert_memory_equal(&back.gid, sample.gid, sizeof(back.gid));
    assert_true(back.number == sample.number && back.key == sample.key
                && back.hello.name == sample.hello.name);
    assert_int_equal(back.hello.answer, VB_WELCOME);
    assert_int_equal(back.pair, sample.pair);
    assert_int_equal(back.psn, sample.psn);
    assert_int_equal(back.mailbox, sample.mailbox);
    assert_int_equal(back.qkey, sample.qkey);
    assert_int_equal(back.lid, sample.lid);
    assert_int_equal(back.mtu, 5);
    assert_int_equal(back.resources, 16);
    assert_int_equal(back.depth, 8);
    assert_false(back.is_mine);
}

static bool reads(const vb_cm_message_t *message)
{
    vb_cm_wire_t wire;
    vb_cm_message_t back;
    vb_cm_write(&wire, message);
    return vb_cm_read(&back, &wire, sizeof(wire));
}

static void a_cm_message_is_refused_unless_it_can_be(void **state)
{
    uint8_t longer[sizeof(vb_cm_wire_t) + 1] = {0};
    vb_cm_wire_t wire;
    vb_cm_message_t back;
    (void) state;
    vb_cm_write(&wire, &sample);
    for (size_t size = 0; size < sizeof(wire); ++size) {
        assert_false(vb_cm_read(&back, &wire, size));
    }
    memcpy(longer, &wire, sizeof(wire));
    assert_false(vb_cm_read(&back, longer, sizeof(longer))); /* datagrams are not padded */
    wire.is_mine = 2;
    assert_false(vb_cm_read(&back, &wire, sizeof(wire)));
#define REFUSED(field, value)                                                                      \
    do {                                                                                           \
        vb_cm_message_t bad = sample;                                                              \
        bad.field = value;                                                                         \
        assert_false(reads(&bad));                                                                 \
    } while (0)
    REFUSED(number, 0);
    REFUSED(is_mine, true);        /* an answer is about the other's attempt */
    REFUSED(hello.answer, VB_ASK); /* a request about the own one */
    REFUSED(pair, 0);
    REFUSED(pair, 1);
    REFUSED(pair, 1u << 24);
    REFUSED(mailbox, 1);
    REFUSED(mailbox, 1u << 24);
    REFUSED(psn, 1u << 24);
    REFUSED(mtu, 0);
    REFUSED(mtu, 6);
    REFUSED(resources, 0);
    REFUSED(depth, 0);
    vb_cm_message_t rejection = sample; /* of it no queue pair is wanted */
    rejection.hello.answer = VB_BUSY;
    rejection.pair = rejection.psn = 0;
    rejection.mtu = rejection.resources = rejection.depth = 0;
    assert_true(reads(&rejection));
    rejection.hello.answer = VB_GONE; /* of either's attempt */
    assert_true(reads(&rejection));
    rejection.is_mine = true;
    assert_true(reads(&rejection));
    rejection.hello.answer = VB_READY; /* of the speaker's alone */
    assert_true(reads(&rejection));
    rejection.is_mine = false;
    assert_false(reads(&rejection));
}

/* ---- rules ---- */

static vb_cm_message_t about(vb_answer_t what, uint64_t number)
{
    return (vb_cm_message_t){
        .hello = {.answer = what}, .number = number, .is_mine = VB_ASK == what || VB_READY == what};
}

static void hears(vb_handshake_t *h, vb_attempt_t *a, vb_cm_message_t message,
                  vb_verdict_t expected)
{
    assert_int_equal(vb_handshake_hear(h, a, &message), expected);
}

static void a_request_is_answered_as_often_as_it_comes(void **state)
{
    vb_handshake_t h = {0};
    vb_attempt_t none = {0}, welcomed = {.number = 10};
    (void) state;
    hears(&h, &none, about(VB_ASK, 10), VB_IS_ASKED);
    assert_int_equal(h.answer, VB_BUSY); /* if nobody decides otherwise */
    hears(&h, &none, about(VB_ASK, 10), VB_IS_REPEATED);
    assert_int_equal(h.answer, VB_BUSY);
    h.answer = VB_WELCOME;
    hears(&h, &welcomed, about(VB_ASK, 10), VB_IS_REPEATED);
    assert_int_equal(h.answer, VB_WELCOME);
    hears(&h, &none, about(VB_ASK, 10), VB_IS_REPEATED); /* what it led to has ended */
    assert_int_equal(h.answer, VB_GONE);
}

static void my_own_attempt_of_that_number_is_not_it(void **state)
{
    vb_handshake_t h = {.theirs = 10, .answer = VB_WELCOME};
    vb_attempt_t mine = {.number = 10, .is_mine = true};
    (void) state;
    hears(&h, &mine, about(VB_ASK, 10), VB_IS_REPEATED);
    assert_int_equal(h.answer, VB_GONE);
}

static void an_old_request_is_nobodys(void **state)
{
    vb_handshake_t h = {0};
    vb_attempt_t none = {0};
    (void) state;
    hears(&h, &none, about(VB_ASK, 11), VB_IS_ASKED);
    hears(&h, &none, about(VB_ASK, 10), VB_NOTHING);
    hears(&h, &none, about(VB_ASK, 12), VB_IS_ASKED);
    assert_true(12 == h.theirs);
}

static void an_answer_counts_once(void **state)
{
    vb_handshake_t h = {0};
    vb_attempt_t mine;
    (void) state;
    for (vb_answer_t answer = VB_WELCOME; answer <= VB_GONE; ++answer) {
        vb_attempt_begin(&mine, 7, true, 0);
        if (VB_WELCOME != answer) {
            hears(&h, &mine, about(answer, 6), VB_NOTHING);
        }
        hears(&h, &mine, about(answer, 7), VB_IS_ANSWERED);
        hears(&h, &mine, about(answer, 7),
              VB_GONE == answer      ? VB_IS_ENDED
              : VB_WELCOME == answer ? VB_IS_UNHEARD
                                     : VB_NOTHING);
    }
}

static void a_welcome_to_what_was_given_up_is_in_vain(void **state)
{
    vb_handshake_t h = {0};
    vb_attempt_t none = {0}, theirs = {.number = 7}, next;
    (void) state;
    vb_attempt_begin(&next, 8, true, 0);
    hears(&h, &none, about(VB_WELCOME, 7), VB_IS_IN_VAIN);
    hears(&h, &theirs, about(VB_WELCOME, 7), VB_IS_IN_VAIN);
    hears(&h, &next, about(VB_WELCOME, 7), VB_IS_IN_VAIN);
    hears(&h, &next, about(VB_WELCOME, 8), VB_IS_ANSWERED);
}

static void that_it_is_ready_counts_once(void **state)
{
    vb_handshake_t h = {.theirs = 7, .answer = VB_WELCOME};
    vb_attempt_t theirs, none = {0}, mine;
    (void) state;
    vb_attempt_begin(&theirs, 7, false, 0);
    vb_attempt_begin(&mine, 7, true, 0);
    hears(&h, &theirs, about(VB_READY, 6), VB_IS_IN_VAIN);
    assert_false(theirs.is_answered);
    hears(&h, &theirs, about(VB_READY, 7), VB_IS_READY);
    hears(&h, &theirs, about(VB_READY, 7), VB_NOTHING);
    hears(&h, &none, about(VB_READY, 7), VB_IS_IN_VAIN);
    hears(&h, &mine, about(VB_READY, 7), VB_IS_IN_VAIN);
    assert_false(mine.is_answered);
}

static void gone_ends_what_has_its_number(void **state)
{
    vb_handshake_t h = {.theirs = 20, .answer = VB_WELCOME};
    vb_attempt_t theirs = {.number = 20},
                 mine = {.number = 5, .is_mine = true, .is_answered = true};
    vb_cm_message_t of_speaker = about(VB_GONE, 20), of_me = about(VB_GONE, 5);
    (void) state;
    of_speaker.is_mine = true;
    hears(&h, &mine, of_speaker, VB_NOTHING);
    hears(&h, &theirs, of_me, VB_NOTHING);
    hears(&h, &theirs, of_speaker, VB_IS_ENDED);
    hears(&h, &mine, of_me, VB_IS_ENDED);
    of_me.number = 20; /* numbers of two processes may be the same */
    hears(&h, &theirs, of_me, VB_NOTHING);
    mine.number = 20;
    hears(&h, &mine, of_speaker, VB_NOTHING);
}

static void gone_may_overtake_its_request(void **state)
{
    vb_handshake_t h = {0};
    vb_attempt_t none = {0};
    vb_cm_message_t gone = about(VB_GONE, 9);
    (void) state;
    hears(&h, &none, gone, VB_NOTHING); /* of mine: says nothing of theirs */
    assert_true(0 == h.theirs);
    gone.is_mine = true;
    hears(&h, &none, gone, VB_NOTHING);
    hears(&h, &none, about(VB_ASK, 9), VB_IS_REPEATED);
    assert_int_equal(h.answer, VB_GONE);
    hears(&h, &none, about(VB_ASK, 10), VB_IS_ASKED);
    hears(&h, &none, gone, VB_NOTHING); /* older than what is known */
    assert_true(10 == h.theirs);
}

static void a_request_is_said_again_ever_more_seldom(void **state)
{
    const uint64_t ms = 1000000;
    vb_attempt_t mine;
    unsigned times = 0;
    uint64_t last = 0, before = 0;
    (void) state;
    vb_attempt_begin(&mine, 1, true, 0);
    for (uint64_t now = 0; now < 10000 * ms; now += ms) {
        if (vb_attempt_is_due(&mine, now)) {
            assert_true(0 == before || now - last == 2 * before);
            before = now - last;
            last = now;
            ++times;
        }
    }
    assert_int_equal(times, 7); /* within the time of an attempt: 50 ms to 3.2 s between two */
    mine.is_answered = true;
    assert_false(vb_attempt_is_due(&mine, 100000 * ms));
    vb_attempt_t theirs; /* likewise the welcome */
    vb_attempt_begin(&theirs, 1, false, 0);
    assert_false(vb_attempt_is_due(&theirs, 49 * ms));
    assert_true(vb_attempt_is_due(&theirs, 50 * ms));
}

/* ---- two processes ---- */

enum { MOST = 64, MS = 1000000 };

typedef struct {
    vb_conn_t conn;
    vb_handshake_t handshake;
    vb_attempt_t attempt;
    uint64_t count;     /* of my attempts */
    bool has_word;      /* the first word is in the peer's queue pair */
    uint64_t connected; /* number of the connection that is open */
    bool connected_mine;
    unsigned opened, lost;
    uint64_t computes; /* until then it takes nothing from its queue */
} side_t;

/* Datagrams on their way to the other side. */
static vb_cm_message_t wire[2][MOST];
static unsigned wired[2];
static unsigned lossy, doubled;
static rng_t rng = {.state = 1};

static void post(unsigned from, vb_answer_t what, uint64_t number, bool is_mine)
{
    const unsigned to = 1 - from;
    for (unsigned copies = rng_below(&rng, 100) < doubled ? 2 : 1; copies > 0; --copies) {
        if (rng_below(&rng, 100) >= lossy && wired[to] < MOST) {
            wire[to][wired[to]] = about(what, number);
            wire[to][wired[to]++].is_mine = is_mine;
        }
    }
}

static const vb_conn_rules_t rules = {
    .attempt_ns = 10000 * (uint64_t) MS, .backoff_ns = 5 * MS, .tries = 1000};

static void step_side(side_t *s, unsigned me, vb_conn_event_t event, uint64_t now, uint64_t asked)
{
    const unsigned todo = vb_conn_step(&s[me].conn, event, now, &rules);
    if (todo & VB_DO_DROP && 0 != s[me].attempt.number) {
        post(me, VB_GONE, s[me].attempt.number, s[me].attempt.is_mine);
        s[me].attempt = (vb_attempt_t){0};
        s[me].has_word = false;
    }
    s[me].lost += 0 != (todo & VB_DO_REPORT);
    if (todo & VB_DO_RESOLVE) {
        step_side(s, me, VB_ON_ADDRESS, now, 0);
        step_side(s, me, VB_ON_ROUTE, now, 0);
    }
    if (todo & VB_DO_CONNECT) {
        vb_attempt_begin(&s[me].attempt, ++s[me].count, true, now);
        post(me, VB_ASK, s[me].attempt.number, true);
    }
    if (todo & VB_DO_ACCEPT) {
        vb_attempt_begin(&s[me].attempt, asked, false, now);
        s[me].handshake.answer = VB_WELCOME;
        post(me, VB_WELCOME, asked, false);
    }
    if (todo & (VB_DO_CROSSED | VB_DO_BUSY)) {
        s[me].handshake.answer = todo & VB_DO_CROSSED ? VB_CROSSED : VB_BUSY;
        post(me, s[me].handshake.answer, asked, false);
    }
    if (todo
        & VB_DO_FIRST) { /* by the connection, which loses nothing; it finds who welcomed this attempt */
        side_t *other = &s[1 - me];
        other->has_word |= other->attempt.number == s[me].attempt.number && !other->attempt.is_mine;
    }
    if (todo & VB_DO_READY) {
        ++s[me].opened;
        s[me].connected = s[me].attempt.number;
        s[me].connected_mine = s[me].attempt.is_mine;
    }
}

static void arrives(side_t *s, unsigned me, vb_cm_message_t message, uint64_t now)
{
    side_t *p = &s[me];
    switch (vb_handshake_hear(&p->handshake, &p->attempt, &message)) {
    case VB_IS_ASKED:
        step_side(s, me, VB_ON_ASKED, now, message.number);
        break;
    case VB_IS_REPEATED:
        post(me, p->handshake.answer, message.number, false);
        break;
    case VB_IS_ANSWERED:
        if (VB_WELCOME == message.hello.answer) {
            post(me, VB_READY, message.number, true);
        }
        step_side(s, me,
                  VB_WELCOME == message.hello.answer   ? VB_ON_ESTABLISHED
                  : VB_CROSSED == message.hello.answer ? VB_ON_CROSS
                                                       : VB_ON_REJECTED,
                  now, 0);
        break;
    case VB_IS_IN_VAIN:
        post(me, VB_GONE, message.number, !message.is_mine);
        break;
    case VB_IS_UNHEARD:
        post(me, VB_READY, message.number, true);
        break;
    case VB_IS_READY:
        step_side(s, me, VB_ON_ESTABLISHED, now, 0);
        break;
    case VB_IS_ENDED:
        step_side(s, me, VB_ON_DISCONNECTED, now, 0);
        break;
    case VB_NOTHING:
        break;
    }
}

static void one_schedule(unsigned loss, unsigned twice, bool both, uint64_t computes)
{
    side_t s[2] = {{.count = rng_below(&rng, 1000), .computes = computes},
                   {.count = rng_below(&rng, 1000), .computes = computes}};
    lossy = loss;
    doubled = twice;
    wired[0] = wired[1] = 0;
    vb_conn_init(&s[0].conn, 1, 2);
    vb_conn_init(&s[1].conn, 2, 1);
    uint64_t now = 0;
    step_side(s, 0, VB_ON_WANTED, now, 0);
    for (unsigned rounds = 0; rounds < 200000; ++rounds) {
        if (both && VB_IDLE == s[1].conn.state && 0 == rng_below(&rng, 8)) {
            step_side(s, 1, VB_ON_WANTED, now, 0);
        }
        const unsigned me = rng_below(&rng, 2);
        if (wired[me] > 0 && 0 != rng_below(&rng, 3)) { /* any of them: they overtake each other */
            const unsigned i = rng_below(&rng, wired[me]);
            const vb_cm_message_t message = wire[me][i];
            wire[me][i] = wire[me][--wired[me]];
            arrives(s, me, message, now);
        } else {
            now += MS;
        }
        for (unsigned i = 0; i < 2; ++i) {
            if (vb_conn_is_late(&s[i].conn, now)) {
                step_side(s, i, VB_ON_TIMEOUT, now, 0);
            }
            const bool accepts = VB_ACCEPTING == s[i].conn.state;
            if ((accepts || VB_CONNECTING == s[i].conn.state)
                && vb_attempt_is_due(&s[i].attempt, now)) {
                post(i, accepts ? VB_WELCOME : VB_ASK, s[i].attempt.number, !accepts);
            }
            if (s[i].has_word && accepts && now >= s[i].computes) {
                step_side(s, i, VB_ON_ARRIVED, now, 0);
            }
        }
        if (VB_OPEN == s[0].conn.state && VB_OPEN == s[1].conn.state && 0 == wired[0] + wired[1]) {
            break;
        }
    }
    assert_int_equal(s[0].conn.state, VB_OPEN);
    assert_int_equal(s[1].conn.state, VB_OPEN);
    assert_true(s[0].connected == s[1].connected && s[0].connected_mine != s[1].connected_mine);
    assert_int_equal(s[0].opened, 1);
    assert_int_equal(s[1].opened, 1);
    assert_int_equal(s[0].lost + s[1].lost, 0);
}

static void whatever_happens_to_datagrams(void **state)
{
    (void) state;
    for (unsigned i = 0; i < 20000; ++i) {
        one_schedule(i % 3 * 25, i % 4 * 25, i % 2, 0);
    }
}

/* For longer than an attempt may take. */
static void however_long_a_process_computes(void **state)
{
    (void) state;
    for (unsigned i = 0; i < 500; ++i) {
        one_schedule(i % 3 * 5, i % 4 * 25, i % 2, (11000 + i * 10) * (uint64_t) MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cm_message_has_golden_bytes),
        cmocka_unit_test(a_cm_message_is_refused_unless_it_can_be),
        cmocka_unit_test(a_request_is_answered_as_often_as_it_comes),
        cmocka_unit_test(my_own_attempt_of_that_number_is_not_it),
        cmocka_unit_test(an_old_request_is_nobodys),
        cmocka_unit_test(an_answer_counts_once),
        cmocka_unit_test(a_welcome_to_what_was_given_up_is_in_vain),
        cmocka_unit_test(that_it_is_ready_counts_once),
        cmocka_unit_test(gone_ends_what_has_its_number),
        cmocka_unit_test(gone_may_overtake_its_request),
        cmocka_unit_test(a_request_is_said_again_ever_more_seldom),
        cmocka_unit_test(whatever_happens_to_datagrams),
        cmocka_unit_test(however_long_a_process_computes),
    };
    return cmocka_run_group_tests_name("verbs_handshake", tests, NULL, NULL);
}
