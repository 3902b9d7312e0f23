/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Changing over from datagrams to a connection (vb_switch.h), in every order: two processes with a few messages for each other, a
 * stream of datagrams that is in order and may end, and connections that open, are asked for again and break, of which each side
 * hears at any later moment, or not at all before it uses one. All states are visited; of each is remembered a hash.
 *
 * What must be true: messages arrive once and in order; a peer is lost only if a connection broke that was in use, or if
 * the datagrams ended; then both are told; and else nothing waits for ever. */
#include "spec_unit.h"

#include "vb_switch.h"

enum { WORDS = 7 };

/* What is on its way: what * 32 + number. 0: a message, else */
enum { MESSAGE, LEAVE, ARRIVED, BROKE, RETURN, GAVE_UP };

typedef struct {
    uint8_t n, word[WORDS];
} channel_t;

/* Of a connection, at one end. */
enum { NONE, MAKING, OPEN };

typedef struct {
    vb_switch_t sw;
    channel_t datagrams, connection; /* to here */
    uint8_t sent, taken, link;
    bool wants, is_lost;
    bool is_told; /* the fabric tells it of the end of the connection */
    bool is_cut;  /* it ends the connection itself */
    bool is_deaf; /* its engine has given the peer up */
} side_t;

typedef struct {
    side_t side[2];
    uint8_t made;
    bool is_alive; /* the connection */
    bool has_broken_in_use, has_ended;
} world_t;

/* Limits of a search. */
static unsigned messages, connections;
static bool may_break, may_end;

/* ---- for people ---- */

#define DEPTH 400
static char trail[DEPTH][24];
static unsigned depth;

static void show(void)
{
    for (unsigned i = 0; i < depth; ++i) {
        print_message("  %s\n", trail[i]);
    }
}
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            show();                                                                                \
            fail_msg("%s", #condition);                                                            \
        }                                                                                          \
    } while (0)

/* ---- what happens ---- */

static void push(channel_t *c, unsigned what, unsigned number)
{
    MUST(c->n < WORDS && number < 32);
    c->word[c->n++] = (uint8_t) (what * 32 + number);
}

static unsigned pop(channel_t *c)
{
    const unsigned word = c->word[0];
    memmove(c->word, c->word + 1, WORDS - 1);
    c->word[WORDS - 1] = 0;
    --c->n;
    return word;
}

/* The connection is ended with the peer. */
static void lose(world_t *w, unsigned i)
{
    MUST(w->has_broken_in_use || w->has_ended);
    w->side[i].is_lost = true;
    w->side[i].is_cut = true;
}

static void happen(world_t *w, unsigned i, vb_switch_event_t event, unsigned round)
{
    side_t *s = &w->side[i];
    const unsigned todo = vb_switch_step(&s->sw, event, (uint16_t) round, 1, true);
    MUST(!(todo & VB_SWITCH_FAULT)); /* both are honest */
    s->wants |= 0 != (todo & VB_SWITCH_CONNECT);
    s->is_cut |= todo & VB_SWITCH_CUT && OPEN == s->link;
    if (todo & VB_SWITCH_LOSE) {
        lose(w, i);
    }
}

static bool post(world_t *w, unsigned i)
{
    side_t *s = &w->side[i], *o = &w->side[1 - i];
    if (s->is_lost || s->sent == messages) {
        return false;
    }
    if (vb_switch_is_connected(&s->sw)) {
        MUST(OPEN == s->link);
        if (s->is_cut) {
            return false;
        }
        vb_switch_used(&s->sw);
        if (w->is_alive) {
            push(&o->connection, MESSAGE, s->sent);
        } else {
            w->has_broken_in_use = true;
            s->is_told = true; /* nobody acknowledges it */
        }
        ++s->sent;
        return true;
    }
    if (!vb_switch_takes_datagrams(&s->sw) || s->is_deaf || o->datagrams.n == WORDS) {
        return false;
    }
    push(&o->datagrams, MESSAGE, s->sent++);
    happen(w, i, VB_SWITCH_ON_SENT, 0);
    return true;
}

static bool speak(world_t *w, unsigned i)
{
    side_t *s = &w->side[i], *o = &w->side[1 - i];
    uint16_t round = 0;
    const unsigned what = vb_switch_next(&s->sw, NONE != s->link, &round);
    if (0 == what || o->datagrams.n == WORDS || (s->is_deaf && s->is_lost)) {
        return false;
    }
    if (s->is_deaf) {
        lose(w, i);
        return true;
    }
    push(&o->datagrams,
         VB_SWITCH_SAY_LEAVE == what     ? LEAVE
         : VB_SWITCH_SAY_ARRIVED == what ? ARRIVED
         : VB_SWITCH_SAY_BROKE == what   ? BROKE
         : VB_SWITCH_SAY_RETURN == what  ? RETURN
                                         : GAVE_UP,
         round);
    (void) vb_switch_said(&s->sw, what);
    return true;
}

static void take(world_t *w, unsigned i, unsigned number, bool by_connection)
{
    side_t *s = &w->side[i];
    if (!s->is_lost) {
        MUST(by_connection == s->sw.has_left);
        MUST(number == s->taken); /* nothing overtakes, is missing, or comes twice */
        ++s->taken;
        if (by_connection) {
            vb_switch_used(&s->sw);
        }
    }
}

static bool hear_datagram(world_t *w, unsigned i)
{
    static const vb_switch_event_t events[] = {[LEAVE] = VB_SWITCH_ON_LEAVE,
                                               [ARRIVED] = VB_SWITCH_ON_ARRIVED,
                                               [BROKE] = VB_SWITCH_ON_BROKE,
                                               [RETURN] = VB_SWITCH_ON_RETURN,
                                               [GAVE_UP] = VB_SWITCH_ON_GAVE_UP};
    side_t *s = &w->side[i];
    if (0 == s->datagrams.n || s->is_deaf) {
        return false;
    }
    const unsigned word = pop(&s->datagrams);
    if (MESSAGE == word / 32) {
        take(w, i, word % 32, false);
    } else {
        happen(w, i, events[word / 32], word % 32);
    }
    return true;
}

static bool hear_by_connection(world_t *w, unsigned i)
{
    side_t *s = &w->side[i];
    if (0 == s->connection.n || OPEN != s->link) {
        return false;
    }
    take(w, i, pop(&s->connection) % 32, true);
    return true;
}

static bool make(world_t *w)
{
    side_t *s = w->side;
    const bool is_wanted = (s[0].wants && VB_SWITCH_ASKED == s[0].sw.state)
                           || (s[1].wants && VB_SWITCH_ASKED == s[1].sw.state);
    if (!is_wanted || NONE != s[0].link || NONE != s[1].link || w->made == connections) {
        return false;
    }
    ++w->made;
    w->is_alive = true;
    for (unsigned i = 0; i < 2; ++i) {
        s[i].link = MAKING;
        s[i].is_told = s[i].is_cut = false;
        memset(&s[i].connection, 0, sizeof(s[i].connection));
    }
    return true;
}

/* One may hear that it is there when it is no more. */
static bool open_link(world_t *w, unsigned i)
{
    side_t *s = &w->side[i];
    if (MAKING != s->link) {
        return false;
    }
    s->link = OPEN;
    s->is_cut = s->is_lost;
    happen(w, i, VB_SWITCH_ON_OPEN, 0);
    return true;
}

/* What came by it is taken before. An attempt is given up for good, or (quietly) made again later. */
static bool hear_the_end(world_t *w, unsigned i, bool quietly)
{
    side_t *s = &w->side[i];
    const bool hears = OPEN == s->link ? (s->is_told || s->is_cut) && 0 == s->connection.n && !quietly
                                       : MAKING == s->link && !w->is_alive;
    if (!hears) {
        return false;
    }
    if (s->is_cut && w->is_alive) { /* then it is no more at the other end either */
        w->is_alive = false;
        w->side[1 - i].is_told = true;
    }
    s->link = NONE;
    if (!quietly) {
        happen(w, i, VB_SWITCH_ON_FAILED, 0);
    }
    return true;
}

/* how: bits, of what is on its way to one and to the other, and of who is told. Where datagrams may end, too, both are: that
 * a peer is gone altogether is not noticed without something to send to it. */
static bool break_connection(world_t *w, unsigned how)
{
    if (!may_break || !w->is_alive || (may_end && how < 12)) {
        return false;
    }
    for (unsigned i = 0; i < 2; ++i) {
        side_t *s = &w->side[i];
        if (how >> i & 1) {
            if (0 == s->connection.n) {
                return false; /* as without */
            }
            memset(&s->connection, 0, sizeof(s->connection));
            w->side[1 - i].is_told = true;
        }
        s->is_told |= how >> (2 + i) & 1;
        w->has_broken_in_use |= s->sw.is_used;
    }
    w->is_alive = false;
    return true;
}

static bool end_datagrams(world_t *w, unsigned i)
{
    side_t *s = &w->side[i];
    if (!may_end || s->is_deaf || s->is_lost) {
        return false;
    }
    w->has_ended = s->is_deaf = true;
    if (!vb_switch_is_connected(&s->sw) || !s->sw.has_left) {
        lose(w, i);
    }
    return true;
}

/* What it says is not acknowledged. */
static bool notice_the_silence(world_t *w, unsigned i)
{
    const side_t *o = &w->side[1 - i];
    return o->is_deaf && o->datagrams.n > 0 && end_datagrams(w, i);
}

/* ---- the search ---- */

enum { OF_SIDES = 16, STEPS = OF_SIDES + 1, BREAKS = 16, CHANGES = STEPS + BREAKS + 2 };

/* The nth thing that can happen; those from STEPS on need not. False: not now. */
static bool change(world_t *w, unsigned n)
{
    static const char *const names[] = {"posts", "speaks", "hears a datagram", "hears a message", "opens",
                                        "hears the end", "hears it quietly", "notices the silence"};
    const unsigned i = n < OF_SIDES ? n % 2 : n - STEPS;
    const char *name = n < OF_SIDES ? names[n / 2] : n < STEPS ? "connects" : n < STEPS + BREAKS ? "breaks" : "ends";
    snprintf(trail[depth], sizeof(trail[depth]), "%u %s", i, name);
    switch (n / 2) {
    case 0:
        return post(w, i);
    case 1:
        return speak(w, i);
    case 2:
        return hear_datagram(w, i);
    case 3:
        return hear_by_connection(w, i);
    case 4:
        return open_link(w, i);
    case 5:
    case 6:
        return hear_the_end(w, i, 6 == n / 2);
    case 7:
        return notice_the_silence(w, i);
    default:
        return n < STEPS ? make(w) : n < STEPS + BREAKS ? break_connection(w, i) : end_datagrams(w, i - BREAKS);
    }
}

/* Nothing more happens by itself. */
static void check_end(const world_t *w)
{
    for (unsigned i = 0; i < 2; ++i) {
        const side_t *s = &w->side[i], *o = &w->side[1 - i];
        MUST(s->is_lost == o->is_lost || w->has_ended);
        if (!s->is_lost) {
            MUST(s->sent == messages && VB_SWITCH_LEAVING != s->sw.state && 0 == s->sw.owes);
        }
        if (!w->has_ended && !s->is_lost) {
            MUST(o->taken == messages && s->sw.has_left == (VB_SWITCH_CONNECTED == o->sw.state));
        }
    }
}

#define SEEN (1u << 24)
static uint64_t *seen;
static unsigned states, ends;

static uint64_t hash_of(const world_t *w)
{
    const uint8_t *at = (const uint8_t *) w;
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < sizeof(*w); i += sizeof(uint64_t)) {
        uint64_t part = 0;
        memcpy(&part, at + i, sizeof(*w) - i < sizeof(part) ? sizeof(*w) - i : sizeof(part));
        hash = (hash ^ part) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return 0 == hash ? 1 : hash;
}

static bool is_new(const world_t *w)
{
    const uint64_t hash = hash_of(w);
    uint32_t at = (uint32_t) (hash % SEEN);
    while (0 != seen[at] && hash != seen[at]) {
        at = (at + 1) % SEEN;
    }
    if (hash == seen[at]) {
        return false;
    }
    assert_true(++states < SEEN / 4 * 3);
    seen[at] = hash;
    return true;
}

static void visit(const world_t *w)
{
    bool is_end = true;
    MUST(depth < DEPTH - 1);
    for (unsigned n = 0; n < CHANGES; ++n) {
        world_t next;
        memcpy(&next, w, sizeof(next)); /* with its holes, which are 0 */
        if (!change(&next, n)) {
            continue;
        }
        is_end &= n >= STEPS;
        ++depth;
        if (is_new(&next)) {
            visit(&next);
        }
        --depth;
    }
    if (is_end) {
        ++ends;
        check_end(w);
    }
}

static void search(unsigned of_messages, unsigned of_connections, bool breaks, bool ends_too)
{
    world_t w;
    messages = of_messages;
    connections = of_connections;
    may_break = breaks;
    may_end = ends_too;
    seen = calloc(SEEN, sizeof(*seen));
    assert_non_null(seen);
    states = ends = depth = 0;
    memset(&w, 0, sizeof(w));
    vb_switch_init(&w.side[0].sw);
    vb_switch_init(&w.side[1].sw);
    visit(&w);
    free(seen);
    print_message("%u messages each way, %u connections: %u states, %u ends\n", messages, connections, states, ends);
    assert_true(ends > 0);
}

static void nothing_breaks(void **state)
{
    (void) state;
    search(3, 1, false, false);
}

static void a_connection_breaks(void **state)
{
    (void) state;
    search(2, 1, true, false);
}

static void another_is_made(void **state)
{
    (void) state;
    search(2, 2, true, false);
}

static void datagrams_end(void **state)
{
    (void) state;
    search(2, 1, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_breaks),
        cmocka_unit_test(a_connection_breaks),
        cmocka_unit_test(another_is_made),
        cmocka_unit_test(datagrams_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
