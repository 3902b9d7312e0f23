/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The pure parts of the verbs transport: bytes of the wire, credits, depth of queues, states of a connection. */
#include "spec_unit.h"

#include <stdlib.h>
#include <string.h>

#include "vb_after.h"
#include "vb_conn.h"
#include "vb_credit.h"
#include "vb_map.h"
#include "vb_sendq.h"
#include "vb_wire.h"

/* ---- bytes ---- */

static void hello_has_golden_bytes(void **state)
{
    static const uint8_t golden[32] = {'I',  'B',  'X',  'v',  6,    1,    0x01, 0x02,
                                       0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
                                       0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
                                       0x00, 0x00, 0x20, 0x40, 0x31, 0x32, 1,    0};
    const vb_hello_t hello = {.answer = VB_WELCOME,
                              .credits = 0x0102,
                              .buffer = 0x2040,
                              .name = UINT64_C(0x1112131415161718),
                              .key = UINT64_C(0x2122232425262728),
                              .received = 0x3132,
                              .is_again = true};
    vb_hello_wire_t wire;
    vb_hello_t back = {.answer = VB_ASK};
    (void) state;
    vb_hello_write(&wire, &hello);
    assert_memory_equal(&wire, golden, sizeof(golden));
    assert_true(vb_hello_read(&back, &wire, sizeof(wire)));
    assert_int_equal(back.answer, hello.answer);
    assert_int_equal(back.credits, hello.credits);
    assert_int_equal(back.buffer, hello.buffer);
    assert_true(back.name == hello.name && back.key == hello.key);
    assert_true(0x3132 == back.received && back.is_again);
}

static void hello_is_refused_unless_whole_and_ours(void **state)
{
    vb_hello_wire_t wire;
    vb_hello_t back = {.answer = VB_ASK};
    (void) state;
    vb_hello_write(&wire, &(vb_hello_t){.answer = VB_ASK});
    for (size_t size = 0; size < sizeof(wire); ++size) {
        assert_false(vb_hello_read(&back, &wire, size));
    }
    assert_false(vb_hello_read(&back, NULL, 0));
    for (size_t i = 0; i < 6; ++i) { /* magic, version, answer */
        vb_hello_wire_t bad = wire;
        ((uint8_t *) &bad)[i] ^= 0x80;
        assert_false(vb_hello_read(&back, &bad, sizeof(bad)));
    }
    wire.is_again = 2;
    assert_false(vb_hello_read(&back, &wire, sizeof(wire)));
    wire.is_again = 0;
    wire.answer = VB_ANSWERS;
    assert_false(vb_hello_read(&back, &wire, sizeof(wire)));
}

static void header_has_golden_bytes(void **state)
{
    static const uint8_t golden[8] = {1, 0x41, 0x34, 0x12, 0x78, 0x56, 0, 0};
    vb_hdr_t hdr;
    (void) state;
    memset(&hdr, 0xff, sizeof(hdr));
    vb_hdr_write(&hdr, VB_MESSAGE, 0x41, 0x1234, 0x5678);
    assert_memory_equal(&hdr, golden, sizeof(golden));
}

/* ---- credits ---- */

/* Two sides with queues of their own, every choice by chance: no message may ever find no buffer, and who
 * has something to send is never stuck. The window of each changes as it likes. */
typedef struct {
    vb_credit_t credit;
    uint32_t window, posted; /* for messages */
    uint32_t spare;
    uint32_t data[256], n; /* arrived, not consumed: credits | control << 16, and seen */
    uint16_t seen[256];
} side_t;

static void side_send(side_t *from, side_t *to, bool is_control)
{
    const uint16_t told = vb_credit_tell(&from->credit);
    assert_true(to->n < 256);
    to->data[to->n] = told | (uint32_t) is_control << 16;
    to->seen[to->n++] = from->credit.control_got;
    vb_credit_sent(&from->credit, is_control);
    /* The buffer that it comes into is there. */
    if (is_control) {
        assert_true(to->spare > 0);
        --to->spare;
    } else {
        assert_true(to->posted > 0);
        --to->posted;
    }
}

static void side_consume(side_t *me, side_t *other)
{
    const bool is_control = me->data[0] >> 16;
    assert_true(vb_credit_got(&me->credit, (uint16_t) me->data[0], me->seen[0], is_control));
    --me->n;
    memmove(me->data, me->data + 1, me->n * sizeof(me->data[0]));
    memmove(me->seen, me->seen + 1, me->n * sizeof(me->seen[0]));
    if (is_control) {
        ++me->spare;
    } else {
        uint32_t n = 0;
        while (me->posted < me->window) {
            ++me->posted;
            ++n;
        }
        vb_credit_posted(&me->credit, n);
    }
    if (vb_credit_is_due(&me->credit, me->window) && vb_credit_may_control(&me->credit)) {
        side_send(me, other, true);
    }
}

static void side_init(side_t *s, uint32_t window)
{
    *s = (side_t){.window = window, .posted = window, .spare = VB_CONTROL_MAX};
    vb_credit_init(&s->credit, true);
}

static void credits_never_exceed_buffers_nor_get_stuck(void **state)
{
    (void) state;
    for (unsigned seed = 1; seed <= 50; ++seed) {
        side_t side[2];
        srand(seed);
        side_init(&side[0], 8);
        side_init(&side[1], 1 + (uint32_t) rand() % 16);
        vb_credit_open(&side[0].credit, true, side[1].window);
        vb_credit_open(&side[1].credit, true, side[0].window);
        for (unsigned i = 0; i < 20000; ++i) {
            const int me = rand() & 1;
            if (0 == rand() % 100) {
                side[me].window = 1 + (uint32_t) rand() % 64;
            }
            if ((rand() & 1) && vb_credit_may_send(&side[me].credit)) {
                side_send(&side[me], &side[1 - me], false);
            } else if (side[me].n > 0) {
                side_consume(&side[me], &side[1 - me]);
            }
        }
        /* One way only from here on, as much as ever: it goes on. */
        for (unsigned i = 0; i < 1000; ++i) {
            while (side[0].n > 0) {
                side_consume(&side[0], &side[1]);
            }
            while (side[1].n > 0) {
                side_consume(&side[1], &side[0]);
            }
            while (side[0].n > 0) {
                side_consume(&side[0], &side[1]);
            }
            assert_true(vb_credit_may_send(&side[0].credit));
            side_send(&side[0], &side[1], false);
        }
    }
}

static void credits_that_cannot_be_are_refused(void **state)
{
    vb_credit_t c;
    (void) state;
    vb_credit_init(&c, true);
    vb_credit_open(&c, true, 8);
    assert_true(vb_credit_got(&c, 100, 0, false));
    assert_int_equal(c.have, 108);
    assert_false(vb_credit_got(&c, (uint16_t) VB_CREDITS_MAX, 0, false));
    assert_false(vb_credit_got(&c, 0, 1, false)); /* has seen what was never sent */
    assert_int_equal(c.have, 108);
    /* Who has a shared queue gives none. */
    vb_credit_open(&c, false, 0);
    assert_true(vb_credit_got(&c, 5, 0, false));
    assert_int_equal(c.have, 0);
    assert_true(vb_credit_may_send(&c));
}

/* ---- depth ---- */

static void queues_are_never_deeper_than_they_are(void **state)
{
    vb_sendq_t q;
    vb_entries_t e = {.limit = 10};
    (void) state;
    vb_sendq_init(&q, 8);
    q.una = q.nxt = UINT32_MAX - 3; /* around the wrap */
    unsigned posted = 0;
    while (vb_sendq_has_room(&q, 1, 2)) {
        (void) vb_sendq_post(&q, vb_sendq_must_signal(&q, 2));
        ++posted;
    }
    assert_int_equal(posted, 6);
    assert_true(vb_sendq_is_outstanding(&q, UINT32_MAX - 3));
    assert_true(vb_sendq_is_outstanding(&q, 1));
    assert_false(vb_sendq_is_outstanding(&q, 2));
    assert_false(vb_sendq_is_outstanding(&q, UINT32_MAX - 4));
    assert_true(vb_entries_take(&e, 10));
    assert_false(vb_entries_take(&e, 1));
    vb_entries_give(&e, 3);
    assert_true(vb_entries_take(&e, 3));
}

static void some_requests_ask_for_a_completion(void **state)
{
    vb_sendq_t q;
    (void) state;
    vb_sendq_init(&q, 128);
    assert_int_equal(vb_sendq_interval(128, 1, 8192), 16);
    assert_int_equal(vb_sendq_interval(128, 1000, 8192),
                     1); /* or the ends of 1000 queues fill it */
    assert_int_equal(vb_sendq_interval(8, 1, 8192), 2);
    assert_int_equal(vb_sendq_interval(2, 1, 8192), 1);
    unsigned signalled = 0;
    for (unsigned i = 0; i < 64; ++i) {
        const bool signal = vb_sendq_must_signal(&q, 16);
        (void) vb_sendq_post(&q, signal);
        signalled += signal;
    }
    assert_int_equal(signalled, 4);
}

/* ---- connections ---- */

static const vb_conn_rules_t rules = {.attempt_ns = 1000, .backoff_ns = 10, .tries = 3};

static unsigned on(vb_conn_t *c, vb_conn_event_t event, uint64_t now)
{
    return vb_conn_step(c, event, now, &rules);
}

static void open_mine(vb_conn_t *c)
{
    assert_int_equal(on(c, VB_ON_WANTED, 0), VB_DO_RESOLVE);
    assert_int_equal(on(c, VB_ON_ADDRESS, 1), VB_DO_ROUTE);
    assert_int_equal(on(c, VB_ON_ROUTE, 2), VB_DO_CONNECT);
    assert_int_equal(on(c, VB_ON_ESTABLISHED, 3), VB_DO_FIRST | VB_DO_READY);
    assert_int_equal(c->state, VB_OPEN);
    assert_int_equal(c->deadline, 0);
}

static void who_asks_sends_first(void **state)
{
    vb_conn_t a, b;
    (void) state;
    vb_conn_init(&a, 1, 2);
    vb_conn_init(&b, 2, 1);
    open_mine(&a);
    assert_int_equal(on(&b, VB_ON_ASKED, 2), VB_DO_ACCEPT);
    assert_int_equal(on(&b, VB_ON_ESTABLISHED, 3), 0); /* not yet */
    assert_int_equal(b.state, VB_ACCEPTING);
    assert_int_equal(b.deadline, 0);
    assert_int_equal(on(&b, VB_ON_ARRIVED, 4), VB_DO_READY);
    assert_int_equal(b.state, VB_OPEN);
}

/* It is repeated while nothing arrives, but not for ever. */
static void the_first_word_may_be_lost(void **state)
{
    static const vb_conn_rules_t repeats = {
        .attempt_ns = 1000, .backoff_ns = 10, .tries = 3, .word_ns = 100, .words = 2};
    vb_conn_t c;
    (void) state;
    for (int hears = 0; hears < 3; ++hears) {
        uint64_t now = 3, patience = repeats.word_ns;
        vb_conn_init(&c, 1, 2);
        (void) on(&c, VB_ON_WANTED, 0);
        (void) on(&c, VB_ON_ADDRESS, 1);
        (void) on(&c, VB_ON_ROUTE, 2);
        assert_int_equal(vb_conn_step(&c, VB_ON_ESTABLISHED, now, &repeats),
                         VB_DO_FIRST | VB_DO_READY);
        for (int i = 0; i < hears; ++i) {
            assert_int_equal(c.deadline, now + patience);
            now = c.deadline;
            assert_int_equal(vb_conn_step(&c, VB_ON_TIMEOUT, now, &repeats), VB_DO_FIRST);
            assert_int_equal(c.state, VB_OPEN);
            patience *= 8;
        }
        assert_int_equal(vb_conn_step(&c, VB_ON_ARRIVED, now, &repeats), 0);
        assert_int_equal(c.deadline, 0);
        assert_int_equal(vb_conn_step(&c, VB_ON_TIMEOUT, now, &repeats), 0);
    }
    vb_conn_init(&c, 1, 2);
    open_mine(&c);
    c.deadline = 9;
    c.words = repeats.words - 1;
    assert_int_equal(vb_conn_step(&c, VB_ON_TIMEOUT, 9, &repeats), VB_DO_FIRST); /* the last */
    assert_int_equal(c.deadline, 0);
}

/* Both ask; what of it is heard first, and when, is one of many orders. One connection remains. */
static void crossed_attempts_become_one(void **state)
{
    vb_conn_t a, b;
    (void) state;
    vb_conn_init(&a, 1, 2); /* stands */
    vb_conn_init(&b, 2, 1);
    for (int i = 0; i < 2; ++i) {
        vb_conn_t *c = 0 == i ? &a : &b;
        (void) on(c, VB_ON_WANTED, 0);
        (void) on(c, VB_ON_ADDRESS, 0);
        assert_int_equal(on(c, VB_ON_ROUTE, 0), VB_DO_CONNECT);
    }
    vb_conn_t b2 = b;
    /* b's request first. */
    assert_int_equal(on(&a, VB_ON_ASKED, 1), VB_DO_CROSSED);
    assert_int_equal(a.state, VB_CONNECTING);
    assert_int_equal(on(&b, VB_ON_CROSS, 2), VB_DO_DROP);
    assert_int_equal(b.state, VB_WAITING);
    assert_int_equal(on(&b, VB_ON_ASKED, 3), VB_DO_ACCEPT);
    /* a's request first. */
    assert_int_equal(on(&b2, VB_ON_ASKED, 1), VB_DO_DROP | VB_DO_ACCEPT);
    assert_int_equal(b2.state, VB_ACCEPTING);
    assert_int_equal(on(&b2, VB_ON_CROSS, 2), 0);
    /* a's never comes: b asks again. */
    vb_conn_init(&b, 2, 1);
    (void) on(&b, VB_ON_WANTED, 0);
    (void) on(&b, VB_ON_CROSS, 5);
    assert_false(vb_conn_is_late(&b, 1004));
    assert_true(vb_conn_is_late(&b, 1005));
    assert_int_equal(on(&b, VB_ON_TIMEOUT, 1005), VB_DO_RESOLVE);
}

static void attempts_are_repeated_and_end(void **state)
{
    static const vb_conn_event_t failures[] = {VB_ON_FAILED, VB_ON_REJECTED, VB_ON_TIMEOUT};
    (void) state;
    for (size_t f = 0; f < sizeof(failures) / sizeof(*failures); ++f) {
        vb_conn_t c;
        uint64_t now = 0, last = 0;
        vb_conn_init(&c, 1, 2);
        assert_int_equal(on(&c, VB_ON_WANTED, now), VB_DO_RESOLVE);
        for (unsigned i = 1; i < rules.tries; ++i) {
            assert_int_equal(on(&c, failures[f], now), VB_DO_DROP);
            assert_int_equal(c.state, VB_WAITING);
            assert_true(c.deadline - now > last); /* longer each time */
            last = c.deadline - now;
            now = c.deadline;
            assert_true(vb_conn_is_late(&c, now));
            assert_int_equal(on(&c, VB_ON_TIMEOUT, now), VB_DO_RESOLVE);
        }
        assert_int_equal(on(&c, failures[f], now), VB_DO_DROP | VB_DO_REPORT);
        assert_int_equal(c.state, VB_DEAD);
    }
    vb_conn_t c;
    vb_conn_init(&c, 1, 2);
    (void) on(&c, VB_ON_WANTED, 0);
    assert_int_equal(on(&c, VB_ON_REFUSED, 1), VB_DO_DROP | VB_DO_REPORT);
}

static void an_end_is_an_error_unless_goodbye_was_said(void **state)
{
    vb_conn_t c;
    (void) state;
    vb_conn_init(&c, 1, 2);
    open_mine(&c);
    assert_int_equal(on(&c, VB_ON_DISCONNECTED, 5), VB_DO_DROP | VB_DO_REPORT);
    vb_conn_init(&c, 1, 2);
    open_mine(&c);
    assert_int_equal(on(&c, VB_ON_GOODBYE, 5), 0);
    assert_true(vb_conn_is_over(&c));
    assert_int_equal(on(&c, VB_ON_DISCONNECTED, 6), VB_DO_DROP);
    assert_int_equal(c.state, VB_CLOSED);
    vb_conn_init(&c, 1, 2);
    open_mine(&c);
    assert_int_equal(on(&c, VB_ON_CLOSE, 5), VB_DO_BYE | VB_DO_DROP);
    assert_int_equal(on(&c, VB_ON_DISCONNECTED, 6), 0);
}

/* ---- resuming ---- */

static const vb_conn_rules_t resumes = {.attempt_ns = 1000, .backoff_ns = 10, .tries = 3, .resume_ns = 100000, .breaks = 8};

static unsigned on_resuming(vb_conn_t *c, vb_conn_event_t event, uint64_t now)
{
    return vb_conn_step(c, event, now, &resumes);
}

/* Opened at 3. */
static void open_resumable(vb_conn_t *c)
{
    vb_conn_init(c, 1, 2);
    (void) on_resuming(c, VB_ON_WANTED, 0);
    (void) on_resuming(c, VB_ON_ADDRESS, 1);
    (void) on_resuming(c, VB_ON_ROUTE, 2);
    assert_int_equal(on_resuming(c, VB_ON_ESTABLISHED, 3), VB_DO_FIRST | VB_DO_READY);
    assert_false(c->is_resumed);
}

static void what_breaks_in_use_is_made_again(void **state)
{
    vb_conn_t c;
    (void) state;
    open_resumable(&c);
    assert_int_equal(on_resuming(&c, VB_ON_DISCONNECTED, 10), VB_DO_BREAK);
    assert_int_equal(c.state, VB_BREAKING);
    assert_int_equal(c.deadline, 0); /* as long as it takes to take what came */
    assert_false(vb_conn_is_over(&c));
    assert_int_equal(on_resuming(&c, VB_ON_DISCONNECTED, 11), 0);
    assert_int_equal(on_resuming(&c, VB_ON_ASKED_AGAIN, 12), VB_DO_BUSY);
    assert_int_equal(on_resuming(&c, VB_ON_ASKED, 12), VB_DO_BUSY);
    assert_int_equal(on_resuming(&c, VB_ON_STILL, 20), VB_DO_DROP);
    assert_int_equal(c.state, VB_WAITING);
    assert_true(c.deadline >= 30 && c.deadline < 40);
    vb_conn_t asked = c;
    assert_int_equal(on_resuming(&c, VB_ON_TIMEOUT, 40), VB_DO_RESOLVE); /* whether or not something is wanted */
    assert_int_equal(on_resuming(&asked, VB_ON_ASKED_AGAIN, 25), VB_DO_ACCEPT);
    assert_int_equal(on_resuming(&asked, VB_ON_ARRIVED, 26), VB_DO_READY);
    assert_true(asked.is_resumed);
    (void) on_resuming(&asked, VB_ON_DISCONNECTED, 40);
    asked.is_wanted = false; /* who only listens would not hear that the other is gone */
    assert_int_equal(on_resuming(&asked, VB_ON_STILL, 41), VB_DO_DROP);
    assert_int_equal(asked.state, VB_WAITING);
    assert_true(asked.deadline >= 51 && asked.deadline < 61);
}

/* As many attempts as there is time for, which an answer begins anew. */
static void silence_ends_resuming(void **state)
{
    vb_conn_t c;
    (void) state;
    for (int answers = 0; answers < 2; ++answers) {
        uint64_t now = 1000, longest = 0;
        unsigned attempts = 0;
        open_resumable(&c);
        (void) on_resuming(&c, VB_ON_FAILED, now);
        (void) on_resuming(&c, VB_ON_STILL, now);
        while (VB_WAITING == c.state && attempts < 1000) {
            const uint64_t pause = c.deadline - now;
            longest = pause > longest ? pause : longest;
            now = c.deadline;
            if (VB_DO_RESOLVE != on_resuming(&c, VB_ON_TIMEOUT, now)) {
                break;
            }
            ++attempts;
            (void) on_resuming(&c, answers ? VB_ON_REJECTED : VB_ON_FAILED, now);
        }
        assert_true(longest >= resumes.backoff_ns << 4 && longest < resumes.backoff_ns << 5);
        if (answers) {
            assert_int_equal(attempts, 1000);
        } else {
            assert_int_equal(c.state, VB_DEAD);
            assert_true(now >= 1000 + resumes.resume_ns && now < 1000 + resumes.resume_ns + 2 * longest);
        }
    }
    open_resumable(&c);
    (void) on_resuming(&c, VB_ON_FAILED, 10);
    (void) on_resuming(&c, VB_ON_STILL, 10);
    (void) on_resuming(&c, VB_ON_TIMEOUT, 20);
    assert_int_equal(on_resuming(&c, VB_ON_ABSENT, 21), VB_DO_DROP | VB_DO_REPORT); /* its end is known */
    vb_conn_init(&c, 1, 2);
    (void) on_resuming(&c, VB_ON_WANTED, 0);
    assert_int_equal(on_resuming(&c, VB_ON_ABSENT, 1), VB_DO_DROP); /* it may still be beginning */
    assert_int_equal(c.state, VB_WAITING);
}

/* A connection that breaks soon after it was made again has no more time than the first. */
static void what_breaks_again_has_broken_once(void **state)
{
    vb_conn_t c;
    (void) state;
    open_resumable(&c);
    uint64_t now = 10;
    for (unsigned i = 0; i < resumes.breaks; ++i, now += 30000) {
        assert_int_equal(on_resuming(&c, VB_ON_DISCONNECTED, now), VB_DO_BREAK);
        (void) on_resuming(&c, VB_ON_STILL, now);
        assert_int_equal(on_resuming(&c, VB_ON_TIMEOUT, c.deadline), VB_DO_RESOLVE);
        (void) on_resuming(&c, VB_ON_REJECTED, now + 20); /* it is alive: so it is in each turn */
        assert_int_equal(on_resuming(&c, VB_ON_TIMEOUT, c.deadline), VB_DO_RESOLVE);
        (void) on_resuming(&c, VB_ON_ADDRESS, now + 30);
        (void) on_resuming(&c, VB_ON_ROUTE, now + 30);
        (void) on_resuming(&c, VB_ON_ESTABLISHED, now + 30);
        assert_int_equal(c.opened_at, now + 30);
    }
    vb_conn_t asked = c;
    assert_int_equal(on_resuming(&c, VB_ON_DISCONNECTED, now), VB_DO_DROP | VB_DO_REPORT);
    assert_int_equal(c.state, VB_DEAD);
    assert_int_equal(on_resuming(&asked, VB_ON_ASKED_AGAIN, now), VB_DO_DROP | VB_DO_REPORT | VB_DO_REFUSE);
    open_resumable(&c);
    now = 10;
    for (unsigned i = 0; i < 2 * resumes.breaks; ++i, now += 200000) { /* one that lasted begins anew */
        assert_int_equal(on_resuming(&c, VB_ON_DISCONNECTED, now), VB_DO_BREAK);
        (void) on_resuming(&c, VB_ON_STILL, now);
        assert_int_equal(c.resume_until, now + resumes.resume_ns);
        assert_int_equal(on_resuming(&c, VB_ON_TIMEOUT, now + 10), VB_DO_RESOLVE);
        (void) on_resuming(&c, VB_ON_ADDRESS, now + 10);
        (void) on_resuming(&c, VB_ON_ROUTE, now + 10);
        (void) on_resuming(&c, VB_ON_ESTABLISHED, now + 10);
    }
}

/* A program that computes takes what the connection has brought long after it broke. The time for answers begins then. */
static void a_break_that_is_taken_late_is_asked_about(void **state)
{
    vb_conn_t c;
    (void) state;
    open_resumable(&c);
    assert_int_equal(on_resuming(&c, VB_ON_FAILED, 10), VB_DO_BREAK);
    const uint64_t late = 10 + 2 * resumes.resume_ns;
    (void) on_resuming(&c, VB_ON_STILL, late);
    assert_int_equal(on_resuming(&c, VB_ON_TIMEOUT, c.deadline), VB_DO_RESOLVE);
}

/* What I have accepted may have brought messages before it broke, if the other side had it open: only then it asks again. */
static void what_was_accepted_is_taken_first(void **state)
{
    vb_conn_t c;
    (void) state;
    vb_conn_init(&c, 2, 1);
    assert_int_equal(on_resuming(&c, VB_ON_ASKED, 0), VB_DO_ACCEPT);
    vb_conn_t given_up = c, broken = c;
    assert_int_equal(on_resuming(&given_up, VB_ON_ASKED, 5), VB_DO_DROP | VB_DO_ACCEPT);
    assert_int_equal(on_resuming(&c, VB_ON_ASKED_AGAIN, 5), VB_DO_BREAK | VB_DO_BUSY);
    assert_int_equal(on_resuming(&c, VB_ON_STILL, 6), VB_DO_DROP);
    assert_int_equal(c.state, VB_IDLE);
    assert_int_equal(on_resuming(&c, VB_ON_ASKED_AGAIN, 7), VB_DO_ACCEPT);
    assert_int_equal(on_resuming(&broken, VB_ON_TIMEOUT, 1000), VB_DO_BREAK);
    vb_conn_t anew = broken;
    assert_int_equal(on_resuming(&anew, VB_ON_ASKED, 1001), VB_DO_DROP | VB_DO_ACCEPT);
    (void) on_resuming(&broken, VB_ON_WANTED, 1001);
    assert_int_equal(on_resuming(&broken, VB_ON_STILL, 1002), VB_DO_DROP);
    assert_int_equal(broken.state, VB_WAITING);
    assert_true(broken.is_again && !broken.is_resumed);
}

/* The peer may have had it open, and knows of no break: it is asked as one that had, for as long. */
static void what_was_accepted_and_broke_is_asked_for_again(void **state)
{
    (void) state;
    for (int wanted_late = 0; wanted_late < 2; ++wanted_late) {
        vb_conn_t c;
        vb_conn_init(&c, 2, 1);
        (void) on_resuming(&c, VB_ON_ASKED, 0);
        if (!wanted_late) {
            (void) on_resuming(&c, VB_ON_WANTED, 0);
        }
        uint64_t now = 5000000;
        (void) on_resuming(&c, VB_ON_FAILED, now);
        (void) on_resuming(&c, VB_ON_STILL, now);
        assert_int_equal(wanted_late ? VB_IDLE : VB_WAITING, c.state);
        now += 1000000;
        assert_int_equal(on_resuming(&c, wanted_late ? VB_ON_WANTED : VB_ON_TIMEOUT, now), VB_DO_RESOLVE);
        const uint64_t start = now;
        for (unsigned i = 0; VB_DEAD != c.state && i < 100000; ++i, ++now) {
            (void) on_resuming(&c, vb_conn_is_asking(&c) ? VB_ON_FAILED : VB_ON_TIMEOUT, c.deadline);
            now = c.deadline > now ? c.deadline : now;
        }
        assert_int_equal(c.state, VB_DEAD);
        assert_true(now > start + resumes.resume_ns - 1000 && now < start + resumes.resume_ns + 2000);
    }
}

static void what_is_asked_for_by_accepting_may_be_impossible(void **state)
{
    vb_conn_t c;
    (void) state;
    vb_conn_init(&c, 2, 1);
    (void) on_resuming(&c, VB_ON_ASKED_AGAIN, 0);
    assert_int_equal(on_resuming(&c, VB_ON_REFUSED, 1), VB_DO_DROP | VB_DO_REPORT);
    assert_int_equal(c.state, VB_DEAD);
    assert_int_equal(on_resuming(&c, VB_ON_ASKED_AGAIN, 2), VB_DO_REFUSE);
}

/* Others were to be first: that is not the peer's fault. And those that broke at once do not ask at once. */
static void attempts_to_resume_wait_and_are_spread(void **state)
{
    vb_conn_t c;
    (void) state;
    open_resumable(&c);
    (void) on_resuming(&c, VB_ON_FAILED, 10);
    (void) on_resuming(&c, VB_ON_STILL, 10);
    assert_false(vb_conn_is_to_resume(&c, c.deadline - 1));
    const uint64_t late = c.deadline + 3 * resumes.resume_ns;
    assert_true(vb_conn_is_to_resume(&c, late));
    assert_int_equal(on_resuming(&c, VB_ON_TIMEOUT, late), VB_DO_RESOLVE);
    assert_true(vb_conn_is_resuming(&c) && !vb_conn_is_first_attempt(&c));
    assert_false(vb_conn_is_to_resume(&c, UINT64_MAX));
    assert_true(c.resume_until > late && c.resume_until <= late + resumes.resume_ns);
    unsigned differ = 0;
    for (uint64_t peer = 2; peer < 66; ++peer) {
        vb_conn_t one, other;
        vb_conn_init(&one, 1, peer);
        vb_conn_init(&other, 1, peer + 1);
        differ += one.spread != other.spread;
        vb_conn_init(&other, peer, 1);
        differ += one.spread != other.spread;
    }
    assert_true(differ > 120);
}

static void what_ends_is_not_resumed(void **state)
{
    static const vb_conn_event_t ends[] = {VB_ON_GOODBYE, VB_ON_CLOSE, VB_ON_REFUSED};
    vb_conn_t c;
    (void) state;
    for (size_t e = 0; e < sizeof(ends) / sizeof(*ends); ++e) {
        const bool is_lost = VB_ON_REFUSED == ends[e];
        open_resumable(&c);
        (void) on_resuming(&c, VB_ON_FAILED, 5);
        assert_int_equal(on_resuming(&c, ends[e], 6), VB_DO_DROP | (is_lost ? VB_DO_REPORT : 0u));
        assert_int_equal(c.state, is_lost ? VB_DEAD : VB_CLOSED);
        assert_int_equal(on_resuming(&c, VB_ON_ASKED_AGAIN, 7), VB_DO_REFUSE); /* it need not come again */
        assert_int_equal(on_resuming(&c, VB_ON_ASKED, 7), VB_DO_BUSY);
    }
    open_resumable(&c);
    assert_int_equal(on_resuming(&c, VB_ON_REFUSED, 5), VB_DO_DROP | VB_DO_REPORT);
    open_resumable(&c);
    (void) on_resuming(&c, VB_ON_GOODBYE, 5);
    assert_int_equal(on_resuming(&c, VB_ON_DISCONNECTED, 6), VB_DO_DROP);
    assert_int_equal(c.state, VB_CLOSED);
}

/* Any sequence of events: never an action that the state before has nothing for, and a deadline wherever the
 * other side or the fabric could keep silent. */
static void nothing_leads_astray(void **state)
{
    (void) state;
    srand(7);
    for (unsigned run = 0; run < 4000; ++run) {
        vb_conn_t c;
        bool has_link = false;
        const vb_conn_rules_t *const by = run < 2000 ? &rules : &resumes;
        uint64_t now = 1;
        vb_conn_init(&c, run & 1, 1 - (run & 1));
        for (unsigned i = 0; i < 60; ++i) {
            const vb_conn_event_t event = (vb_conn_event_t) (rand() % (VB_ON_CLOSE + 1));
            const vb_conn_state_t before = c.state;
            const unsigned todo = vb_conn_step(&c, event, now++, by);
            if (todo & VB_DO_BREAK) {
                assert_true(has_link && by == &resumes && VB_BREAKING == c.state);
            }
            if (todo & VB_DO_DROP) {
                has_link = false;
            }
            if (todo & (VB_DO_RESOLVE | VB_DO_ACCEPT)) {
                assert_false(has_link);
                has_link = true;
            }
            if (todo & (VB_DO_ROUTE | VB_DO_CONNECT | VB_DO_FIRST | VB_DO_READY)) {
                assert_true(has_link);
            }
            if (todo & VB_DO_REPORT) {
                assert_true(before < VB_PARTED && VB_DEAD == c.state);
            }
            if (VB_RESOLVING == c.state || VB_ROUTING == c.state || VB_CONNECTING == c.state
                || VB_WAITING == c.state) {
                assert_true(0 != c.deadline);
            }
            assert_int_equal(has_link, (c.state >= VB_RESOLVING && c.state <= VB_CONNECTING)
                                           || (c.state >= VB_ACCEPTING && c.state <= VB_PARTED));
        }
    }
    assert_string_equal(vb_conn_state_name(VB_PARTED), "PARTED");
    assert_string_equal(vb_conn_event_name(VB_ON_CROSS), "CROSS");
    assert_string_equal(vb_conn_state_name((vb_conn_state_t) 99), "?");
}

/* ---- the table ---- */

static void map_finds_what_is_there_and_nothing_else(void **state)
{
    vb_map_t map = {.slot = NULL};
    static bool there[500];
    (void) state;
    srand(3);
    memset(there, 0, sizeof(there));
    assert_null(vb_map_get(&map, 1));
    for (unsigned i = 0; i < 20000; ++i) {
        const unsigned k = (unsigned) rand() % 500;
        if (rand() & 1) {
            assert_true(vb_map_put(&map, k * 64, &there[k]));
            there[k] = true;
        } else {
            vb_map_remove(&map, k * 64);
            there[k] = false;
        }
        const unsigned other = (unsigned) rand() % 500;
        assert_ptr_equal(vb_map_get(&map, other * 64),
                         there[other] ? (void *) &there[other] : NULL);
    }
    vb_map_free(&map);
}

/* ---- datagrams first, or connections ---- */

static void large_jobs_begin_with_datagrams(void **state)
{
    (void) state;
    assert_int_equal(vb_after_of_job(0), 0); /* not known */
    assert_int_equal(vb_after_of_job(1), 0);
    assert_int_equal(vb_after_of_job(64), 0);
    assert_int_equal(vb_after_of_job(513), 0); /* 512 connections are 128 MB */
    assert_int_equal(vb_after_of_job(514), VB_AFTER_LARGE);
    assert_int_equal(vb_after_of_job(UINT32_MAX), VB_AFTER_LARGE);
}

static void after_is_a_number_or_auto(void **state)
{
    static const char *const refused[] = {"", "automatic", "-1", " 5", "+5", "5 ", "5x", "4294967296", "99999999999999999999"};
    uint32_t after = 9;
    (void) state;
    assert_true(vb_after_read("auto", 64, &after));
    assert_int_equal(after, 0);
    assert_true(vb_after_read("auto", 4096, &after));
    assert_int_equal(after, VB_AFTER_LARGE);
    assert_true(vb_after_read("0", 4096, &after));
    assert_int_equal(after, 0);
    assert_true(vb_after_read("4294967295", 2, &after));
    assert_int_equal(after, UINT32_MAX);
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); ++i) {
        assert_false(vb_after_read(refused[i], 64, &after));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_has_golden_bytes),
        cmocka_unit_test(hello_is_refused_unless_whole_and_ours),
        cmocka_unit_test(header_has_golden_bytes),
        cmocka_unit_test(credits_never_exceed_buffers_nor_get_stuck),
        cmocka_unit_test(credits_that_cannot_be_are_refused),
        cmocka_unit_test(queues_are_never_deeper_than_they_are),
        cmocka_unit_test(some_requests_ask_for_a_completion),
        cmocka_unit_test(who_asks_sends_first),
        cmocka_unit_test(the_first_word_may_be_lost),
        cmocka_unit_test(crossed_attempts_become_one),
        cmocka_unit_test(attempts_are_repeated_and_end),
        cmocka_unit_test(an_end_is_an_error_unless_goodbye_was_said),
        cmocka_unit_test(what_breaks_in_use_is_made_again),
        cmocka_unit_test(silence_ends_resuming),
        cmocka_unit_test(what_breaks_again_has_broken_once),
        cmocka_unit_test(a_break_that_is_taken_late_is_asked_about),
        cmocka_unit_test(what_was_accepted_is_taken_first),
        cmocka_unit_test(what_was_accepted_and_broke_is_asked_for_again),
        cmocka_unit_test(what_is_asked_for_by_accepting_may_be_impossible),
        cmocka_unit_test(attempts_to_resume_wait_and_are_spread),
        cmocka_unit_test(what_ends_is_not_resumed),
        cmocka_unit_test(nothing_leads_astray),
        cmocka_unit_test(large_jobs_begin_with_datagrams),
        cmocka_unit_test(after_is_a_number_or_auto),
        cmocka_unit_test(map_finds_what_is_there_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
