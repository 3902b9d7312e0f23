/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Changing over from datagrams to a connection (vb_switch.h): each rule by itself, then two processes with two
 * channels that take any time they like, whose connection may fail at any moment. */
#include "spec_unit.h"

#include "vb_switch.h"

#define AFTER 3u

static unsigned step(vb_switch_t *sw, vb_switch_event_t event, uint16_t round)
{
    return vb_switch_step(sw, event, round, AFTER, true);
}
static void say(vb_switch_t *sw, unsigned expected, uint16_t round)
{
    uint16_t r;
    assert_int_equal(vb_switch_next(sw, true, &r), expected);
    assert_int_equal(r, round);
    vb_switch_said(sw, expected);
}
static void says_nothing(const vb_switch_t *sw)
{
    uint16_t r;
    assert_int_equal(vb_switch_next(sw, true, &r), 0);
}

static void a_peer_must_be_worth_it(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    assert_int_equal(step(&sw, VB_SWITCH_ON_SENT, 0), 0);
    assert_int_equal(step(&sw, VB_SWITCH_ON_SENT, 0), 0);
    assert_int_equal(vb_switch_step(&sw, VB_SWITCH_ON_SENT, 0, AFTER, false), 0); /* no place */
    assert_int_equal(sw.state, VB_SWITCH_DATAGRAM);
    assert_int_equal(step(&sw, VB_SWITCH_ON_SENT, 0), VB_SWITCH_CONNECT);
    assert_int_equal(step(&sw, VB_SWITCH_ON_SENT, 0), 0); /* once */
    assert_true(vb_switch_takes_datagrams(&sw));
}

static void leave_and_arrived(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    assert_int_equal(step(&sw, VB_SWITCH_ON_OPEN, 0), 0);
    assert_false(vb_switch_takes_datagrams(&sw));
    assert_false(vb_switch_is_connected(&sw));
    assert_int_equal(step(&sw, VB_SWITCH_ON_ARRIVED, 1), 0); /* to what was not said */
    say(&sw, VB_SWITCH_SAY_LEAVE, 1);
    says_nothing(&sw);
    assert_int_equal(step(&sw, VB_SWITCH_ON_ARRIVED, 0), 0); /* of another round */
    assert_int_equal(step(&sw, VB_SWITCH_ON_ARRIVED, 1), VB_SWITCH_GO);
    assert_true(vb_switch_is_connected(&sw));
    assert_int_equal(step(&sw, VB_SWITCH_ON_OPEN, 0), 0);
}

static void the_peers_leave_is_answered(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    assert_int_equal(step(&sw, VB_SWITCH_ON_LEAVE, 7), 0);
    assert_true(sw.has_left);
    says_nothing(&sw);                           /* until the connection is there at this end, too */
    assert_true(vb_switch_takes_datagrams(&sw)); /* mine is another matter */
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    say(&sw, VB_SWITCH_SAY_ARRIVED, 7);
    assert_int_equal(step(&sw, VB_SWITCH_ON_LEAVE, 8), VB_SWITCH_FAULT);
}

static void a_return_takes_leave_back(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    say(&sw, VB_SWITCH_SAY_LEAVE, 1);
    assert_int_equal(step(&sw, VB_SWITCH_ON_FAILED, 0), 0);
    assert_false(vb_switch_takes_datagrams(&sw)); /* not before the peer knows */
    assert_true(vb_switch_said(&sw, VB_SWITCH_SAY_RETURN));
    assert_true(vb_switch_takes_datagrams(&sw));
    /* It comes again, fails again, and comes again before the return is out: both are said, in order. */
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    say(&sw, VB_SWITCH_SAY_LEAVE, 2);
    (void) step(&sw, VB_SWITCH_ON_FAILED, 0);
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    say(&sw, VB_SWITCH_SAY_RETURN, 2);
    say(&sw, VB_SWITCH_SAY_LEAVE, 3);
    assert_int_equal(step(&sw, VB_SWITCH_ON_ARRIVED, 2), 0);
    assert_int_equal(step(&sw, VB_SWITCH_ON_ARRIVED, 3), VB_SWITCH_GO);
}

static void a_leave_not_said_needs_no_return(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    assert_int_equal(step(&sw, VB_SWITCH_ON_FAILED, 0), VB_SWITCH_GO);
    says_nothing(&sw);
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    say(&sw, VB_SWITCH_SAY_LEAVE, 1);
}

static void the_peers_return(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    (void) step(&sw, VB_SWITCH_ON_LEAVE, 1);
    assert_int_equal(step(&sw, VB_SWITCH_ON_RETURN, 1), 0);
    assert_false(sw.has_left);
    says_nothing(&sw); /* nobody waits for the answer */
    (void) step(&sw, VB_SWITCH_ON_LEAVE, 2);
    assert_int_equal(step(&sw, VB_SWITCH_ON_RETURN, 1), VB_SWITCH_FAULT);
}

/* Nothing was sent by it: datagrams it is, again. */
static void a_connection_not_used_is_no_loss(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    say(&sw, VB_SWITCH_SAY_LEAVE, 1);
    (void) step(&sw, VB_SWITCH_ON_ARRIVED, 1);
    assert_true(vb_switch_is_connected(&sw));
    assert_int_equal(step(&sw, VB_SWITCH_ON_FAILED, 0), 0);
    say(&sw, VB_SWITCH_SAY_RETURN, 1);
    assert_true(vb_switch_takes_datagrams(&sw));
}

/* Whether the peer sent something by it that is lost, the peer knows. */
static void the_peer_hears_that_it_broke(void **state)
{
    vb_switch_t sw;
    uint16_t r;
    (void) state;
    vb_switch_init(&sw);
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    say(&sw, VB_SWITCH_SAY_LEAVE, 1);
    (void) step(&sw, VB_SWITCH_ON_LEAVE, 7);
    say(&sw, VB_SWITCH_SAY_ARRIVED, 7);
    assert_int_equal(step(&sw, VB_SWITCH_ON_FAILED, 0), 0);
    assert_int_equal(vb_switch_next(&sw, false, &r), VB_SWITCH_SAY_BROKE);
    assert_int_equal(r, 7);
    vb_switch_said(&sw, VB_SWITCH_SAY_BROKE);
    say(&sw, VB_SWITCH_SAY_RETURN, 1);
    says_nothing(&sw);
    assert_int_equal(step(&sw, VB_SWITCH_ON_RETURN, 7), 0);
    assert_false(sw.has_left);
    /* A leave that comes when the connection is no more is answered so, too. */
    (void) step(&sw, VB_SWITCH_ON_LEAVE, 8);
    says_nothing(&sw); /* unless another one is being made */
    assert_int_equal(vb_switch_next(&sw, false, &r), VB_SWITCH_SAY_BROKE);
    assert_int_equal(r, 8);
}

static void hearing_that_it_broke(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    assert_int_equal(step(&sw, VB_SWITCH_ON_BROKE, 1), 0); /* not left yet */
    say(&sw, VB_SWITCH_SAY_LEAVE, 1);
    assert_int_equal(step(&sw, VB_SWITCH_ON_BROKE, 0), 0); /* of a former one */
    assert_int_equal(step(&sw, VB_SWITCH_ON_BROKE, 1), VB_SWITCH_CUT);
    (void) step(&sw, VB_SWITCH_ON_ARRIVED, 1);
    assert_int_equal(step(&sw, VB_SWITCH_ON_BROKE, 1), VB_SWITCH_CUT);
    (void) step(&sw, VB_SWITCH_ON_FAILED, 0);
    assert_int_equal(step(&sw, VB_SWITCH_ON_BROKE, 1), 0);
}

static void a_connection_in_use_takes_the_peer_with_it(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);
    say(&sw, VB_SWITCH_SAY_LEAVE, 1);
    (void) step(&sw, VB_SWITCH_ON_ARRIVED, 1);
    vb_switch_used(&sw);
    assert_int_equal(step(&sw, VB_SWITCH_ON_FAILED, 0), VB_SWITCH_LOSE);
    assert_int_equal(step(&sw, VB_SWITCH_ON_OPEN, 0), 0);
    say(&sw, VB_SWITCH_SAY_GIVE_UP, 1);
    says_nothing(&sw);
    vb_switch_init(&sw);
    assert_int_equal(step(&sw, VB_SWITCH_ON_GAVE_UP, 0), VB_SWITCH_LOSE);
    assert_int_equal(sw.state, VB_SWITCH_BROKEN);
    says_nothing(&sw);
}

static void no_connection_to_be_had(void **state)
{
    vb_switch_t sw;
    (void) state;
    vb_switch_init(&sw);
    for (unsigned i = 0; i < AFTER; ++i) {
        (void) step(&sw, VB_SWITCH_ON_SENT, 0);
    }
    assert_int_equal(step(&sw, VB_SWITCH_ON_FAILED, 0), 0);
    assert_int_equal(sw.state, VB_SWITCH_STAYING);
    assert_int_equal(step(&sw, VB_SWITCH_ON_SENT, 0), 0); /* not again */
    (void) step(&sw, VB_SWITCH_ON_OPEN, 0);               /* the peer made one */
    assert_int_equal(sw.state, VB_SWITCH_LEAVING);
}

static void names(void **state)
{
    (void) state;
    assert_string_equal(vb_switch_state_name(VB_SWITCH_BROKEN), "BROKEN");
    assert_string_equal(vb_switch_state_name((vb_switch_state_t) 99), "?");
    assert_string_equal(vb_switch_event_name(VB_SWITCH_ON_RETURN), "RETURN");
    assert_string_equal(vb_switch_event_name((vb_switch_event_t) 99), "?");
}

/* ---- two processes ---- */

#define QUEUE 4096u

typedef struct {
    uint32_t what; /* 0: message `number`; else VB_SWITCH_SAY_... of round `number` */
    uint32_t number;
} word_t;

typedef struct {
    word_t word[QUEUE];
    uint32_t first, last;
} channel_t;

typedef struct {
    vb_switch_t sw;
    channel_t datagrams, connection; /* to here */
    uint32_t sent, acked, taken;
    bool has_link, is_open, is_wanted, is_lost;
} side_t;

static side_t side[2];

static void push(channel_t *c, uint32_t what, uint32_t number)
{
    assert_true(c->last - c->first < QUEUE);
    c->word[c->last++ % QUEUE] = (word_t){what, number};
}

static void happen(unsigned i, vb_switch_event_t event, uint16_t round)
{
    const unsigned todo = vb_switch_step(&side[i].sw, event, round, AFTER, true);
    side[i].is_wanted |= 0 != (todo & VB_SWITCH_CONNECT);
    side[i].is_lost |= 0 != (todo & VB_SWITCH_LOSE);
    assert_int_equal(todo & VB_SWITCH_FAULT, 0); /* both are honest */
}

/* The engine is reliable and in order whatever is lost: loss is time, and time is the random order. */
static void deliver(unsigned i, bool by_connection)
{
    side_t *s = &side[i];
    channel_t *c = by_connection ? &s->connection : &s->datagrams;
    if (c->first == c->last || (by_connection && !s->is_open)) {
        return;
    }
    const word_t w = c->word[c->first++ % QUEUE];
    if (0 == w.what) {
        assert_true(by_connection == s->sw.has_left);
        assert_int_equal(w.number,
                         s->taken); /* nothing overtakes, nothing is lost, nothing comes twice */
        ++s->taken;
        if (by_connection) {
            vb_switch_used(&s->sw);
        }
        return;
    }
    assert_false(by_connection);
    happen(i,
           VB_SWITCH_SAY_LEAVE == w.what     ? VB_SWITCH_ON_LEAVE
           : VB_SWITCH_SAY_ARRIVED == w.what ? VB_SWITCH_ON_ARRIVED
           : VB_SWITCH_SAY_BROKE == w.what   ? VB_SWITCH_ON_BROKE
           : VB_SWITCH_SAY_RETURN == w.what  ? VB_SWITCH_ON_RETURN
                                             : VB_SWITCH_ON_GAVE_UP,
           (uint16_t) w.number);
}

static void post(unsigned i)
{
    side_t *s = &side[i], *o = &side[1 - i];
    if (vb_switch_is_connected(&s->sw)) {
        vb_switch_used(&s->sw);
        push(&o->connection, 0, s->sent++);
    } else if (vb_switch_takes_datagrams(&s->sw)) {
        push(&o->datagrams, 0, s->sent++);
        happen(i, VB_SWITCH_ON_SENT, 0);
    }
}

static void speak(unsigned i)
{
    uint16_t round;
    const unsigned what = vb_switch_next(&side[i].sw, side[i].has_link, &round);
    if (0 != what) {
        push(&side[1 - i].datagrams, what, round);
        vb_switch_said(&side[i].sw, what);
    }
}

/* The fabric: one side hears of a connection before the other, and of its end. */
static void open_or_fail(unsigned i, uint32_t dice, unsigned *connection, bool may_fail)
{
    side_t *s = &side[i];
    const bool is_wanted = side[0].is_wanted || side[1].is_wanted;
    if (0 == *connection && is_wanted && !side[0].is_open && !side[1].is_open) {
        *connection = 1; /* it is there */
        side[0].has_link = side[1].has_link = true;
    }
    if (1 == *connection && !s->is_open) {
        s->is_open = true;
        happen(i, VB_SWITCH_ON_OPEN, 0);
    } else if (may_fail && *connection > 0 && 0 == dice % 40) {
        *connection = 2; /* it ends: what is under way in it is gone */
    }
    if (2 == *connection && s->is_open) {
        s->is_open = s->has_link = false;
        s->connection.first = s->connection.last;
        happen(i, VB_SWITCH_ON_FAILED, 0);
    }
    if (2 == *connection && !side[0].is_open && !side[1].is_open) {
        *connection = 0;
        for (unsigned k = 0; k < 2; ++k) {
            side[k].has_link = false;
            side[k].connection.first = side[k].connection.last;
        }
    }
}

static void run(uint64_t seed, unsigned failures)
{
    rng_t rng = {seed};
    unsigned connection = 0;
    memset(side, 0, sizeof(side));
    vb_switch_init(&side[0].sw);
    vb_switch_init(&side[1].sw);
    for (unsigned n = 0; n < 600 && !side[0].is_lost && !side[1].is_lost; ++n) {
        const unsigned i = rng_below(&rng, 2);
        switch (rng_below(&rng, 6)) {
        case 0:
        case 1:
            post(i);
            break;
        case 2:
            deliver(i, false);
            break;
        case 3:
            deliver(i, true);
            break;
        case 4:
            speak(i);
            break;
        default:
            open_or_fail(i, rng_below(&rng, 1000), &connection, failures > 0);
        }
    }
    if (side[0].is_lost || side[1].is_lost) {
        assert_true(failures > 0);
        return;
    }
    /* Then all is quiet: whatever is left arrives, and both have what was sent. */
    for (unsigned n = 0; n < 20000; ++n) {
        const unsigned i = rng_below(&rng, 2);
        speak(i);
        deliver(i, rng_percent(&rng, 50));
        if (2 == connection || 1 == connection) {
            open_or_fail(i, 1, &connection, false);
        }
        if (side[0].is_lost || side[1].is_lost) {
            return;
        }
    }
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(side[i].taken, side[1 - i].sent);
        assert_true(VB_SWITCH_LEAVING != side[i].sw.state);
        assert_int_equal(side[i].sw.owes, 0);
        if (1 == connection) {
            assert_int_equal(side[i].sw.state, VB_SWITCH_CONNECTED);
        }
    }
}

static void nothing_overtakes(void **state)
{
    const char *from = getenv("SPEC_SEED");
    const uint64_t seed = NULL == from ? 1 : strtoull(from, NULL, 10);
    (void) state;
    for (uint64_t i = 0; i < 3000; ++i) {
        run(seed * 1000003 + i, 0);
        run(seed * 2000003 + i, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_must_be_worth_it),
        cmocka_unit_test(leave_and_arrived),
        cmocka_unit_test(the_peers_leave_is_answered),
        cmocka_unit_test(a_return_takes_leave_back),
        cmocka_unit_test(a_leave_not_said_needs_no_return),
        cmocka_unit_test(the_peers_return),
        cmocka_unit_test(a_connection_not_used_is_no_loss),
        cmocka_unit_test(the_peer_hears_that_it_broke),
        cmocka_unit_test(hearing_that_it_broke),
        cmocka_unit_test(a_connection_in_use_takes_the_peer_with_it),
        cmocka_unit_test(no_connection_to_be_had),
        cmocka_unit_test(names),
        cmocka_unit_test(nothing_overtakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
