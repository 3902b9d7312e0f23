/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The state machine of a connection: a table of states and events, which returns actions. */
#include "vb_conn.h"

#include <stddef.h>

/* Pauses between attempts to resume double so often: by default to 0.8 to 1.6 s, as the peer may be back at any time. */
#define RESUME_DOUBLINGS 4u
/* Likewise the time until the own network is tried: each trial keeps messages for up to trial_ns. */
#define RETURN_DOUBLINGS 4u

void vb_conn_init(vb_conn_t *conn, uint64_t me, uint64_t peer)
{
    /* Fibonacci hashing: the upper bits depend on all of the names. */
    const uint64_t hash = (me + 3 * peer) * UINT64_C(0x9e3779b97f4a7c15);
    *conn = (vb_conn_t){.state = VB_IDLE, .stands = me < peer, .spread = (uint8_t) (hash >> 56)};
}

/* The only place where the state changes. */
static unsigned enter(vb_conn_t *conn, vb_conn_state_t state, uint64_t deadline, unsigned actions)
{
    conn->state = state;
    conn->deadline = deadline;
    return actions;
}

/* How long an attempt may take. */
static uint64_t limit_of(const vb_conn_t *conn, const vb_conn_rules_t *rules)
{
    return conn->has_elsewhere && conn->is_again ? rules->trial_ns : rules->attempt_ns;
}

static unsigned begin(vb_conn_t *conn, uint64_t now, const vb_conn_rules_t *rules)
{
    ++conn->tries;
    conn->is_elsewhere = conn->has_elsewhere && conn->is_again && (conn->is_stranded || 1 == conn->tries % 2);
    return enter(conn, VB_RESOLVING, now + limit_of(conn, rules), VB_DO_RESOLVE);
}

/* Before the next attempt. Those to resume are spread: many connections break at once, when a network does. */
static uint64_t pause_of(const vb_conn_t *conn, unsigned doublings, const vb_conn_rules_t *rules)
{
    const uint64_t pause = rules->backoff_ns << doublings;
    return conn->is_again ? pause + pause * conn->spread / 256 : pause;
}

static bool may_try(const vb_conn_t *conn, uint64_t now, const vb_conn_rules_t *rules)
{
    return conn->is_again ? now < conn->resume_until : conn->tries < rules->tries;
}

/* An attempt of mine came to nothing. */
static unsigned again(vb_conn_t *conn, vb_conn_event_t event, uint64_t now, const vb_conn_rules_t *rules)
{
    if (!may_try(conn, now, rules)) {
        return enter(conn, VB_DEAD, 0, VB_DO_DROP | VB_DO_REPORT);
    }
    const unsigned most = conn->is_again ? RESUME_DOUBLINGS : 6, before = 0 == conn->tries ? 0 : conn->tries - 1;
    const unsigned doublings = before < most ? before : most;
    conn->tries -= conn->has_elsewhere && conn->is_again && VB_ON_REJECTED == event; /* that way works: it is taken again */
    return enter(conn, VB_WAITING, now + pause_of(conn, doublings, rules), VB_DO_DROP);
}

/* The first word, and until when something should have arrived. */
static unsigned say(vb_conn_t *conn, uint64_t now, const vb_conn_rules_t *rules, unsigned actions)
{
    const bool again = conn->words < rules->words;
    const uint64_t patience = again ? rules->word_ns << 3 * conn->words : 0;
    return enter(conn, VB_OPEN, again ? now + patience : 0, VB_DO_FIRST | actions);
}

#define IN(state) (1u << VB_##state)
#define ON(event) (1u << VB_ON_##event)
enum {
    MINE = IN(RESOLVING) | IN(ROUTING) | IN(CONNECTING), /* an attempt of mine is under way */
    FAILURES = ON(REJECTED) | ON(FAILED) | ON(TIMEOUT) | ON(DISCONNECTED)
};
typedef enum until { NONE, AS_BEFORE, ATTEMPT } until_t; /* the deadline */

/* What depends on nothing but state and event. */
static const struct transition {
    unsigned in, on;
    vb_conn_state_t to;
    until_t until;
    unsigned actions;
} transitions[] = {
    {IN(IDLE) | IN(WAITING), ON(ASKED), VB_ACCEPTING, ATTEMPT, VB_DO_ACCEPT},
    {IN(IDLE) | IN(WAITING), ON(CLOSE), VB_CLOSED, NONE, 0},
    {IN(RESOLVING), ON(ADDRESS), VB_ROUTING, AS_BEFORE, VB_DO_ROUTE},
    {IN(ROUTING), ON(ROUTE), VB_CONNECTING, AS_BEFORE, VB_DO_CONNECT},
    {MINE, ON(CROSS), VB_WAITING, ATTEMPT, VB_DO_DROP}, /* the peer's is on its way; if it never comes, mine is next */
    {MINE, ON(REFUSED), VB_DEAD, NONE, VB_DO_DROP | VB_DO_REPORT},
    /* Mine gives way; or the peer has given its earlier attempt up. */
    {MINE | IN(ACCEPTING), ON(ASKED), VB_ACCEPTING, ATTEMPT, VB_DO_DROP | VB_DO_ACCEPT},
    {IN(ACCEPTING), ON(REFUSED), VB_DEAD, NONE, VB_DO_DROP | VB_DO_REPORT}, /* what it asked for cannot be */
    {IN(ACCEPTING), ON(ARRIVED), VB_OPEN, NONE, VB_DO_READY},
    {IN(ACCEPTING), ON(ESTABLISHED), VB_ACCEPTING, NONE, 0}, /* the side that asked sends; if it cannot, the fabric tells */
    {IN(OPEN), ON(ARRIVED), VB_OPEN, NONE, 0},
    {IN(OPEN), ON(GOODBYE), VB_PARTED, NONE, 0},
    {IN(OPEN), ON(FAILED) | ON(DISCONNECTED), VB_DEAD, NONE, VB_DO_DROP | VB_DO_REPORT},
    {IN(OPEN), ON(CLOSE), VB_CLOSED, NONE, VB_DO_BYE | VB_DO_DROP},
    {IN(BREAKING), ON(GOODBYE) | ON(CLOSE), VB_CLOSED, NONE, VB_DO_DROP}, /* there is nobody to speak to */
    {IN(OPEN) | IN(BREAKING), ON(REFUSED), VB_DEAD, NONE, VB_DO_DROP | VB_DO_REPORT},
    {IN(PARTED), ON(FAILED) | ON(DISCONNECTED), VB_CLOSED, NONE, VB_DO_DROP},
    {MINE | IN(ACCEPTING) | IN(PARTED), ON(CLOSE), VB_CLOSED, NONE, VB_DO_DROP},
};

static unsigned by_table(vb_conn_t *conn, vb_conn_event_t event, uint64_t now, const vb_conn_rules_t *rules)
{
    const struct transition *t = transitions, *end = t + sizeof(transitions) / sizeof(*transitions);
    while (t < end && !(t->in & 1u << conn->state && t->on & 1u << event)) {
        ++t;
    }
    return t == end ? 0
                    : enter(conn, t->to,
                            NONE == t->until        ? 0
                            : AS_BEFORE == t->until ? conn->deadline
                                                    : now + limit_of(conn, rules),
                            t->actions);
}

/* ---- resuming ---- */

static unsigned break_off(vb_conn_t *conn, uint64_t now, const vb_conn_rules_t *rules, unsigned actions)
{
    if (VB_OPEN == conn->state) {
        const bool lasted = now - conn->opened_at >= rules->resume_ns;
        if (!conn->is_elsewhere) {
            conn->breaks = lasted ? 1 : conn->breaks + 1;
            conn->trials = lasted ? 0 : conn->trials;
        }
        conn->is_resumed = true;
        conn->tries = 0;
        /* Else another port that breaks each time, sooner than the own network would be tried, would be all that is tried. */
        conn->goes_home = conn->is_elsewhere;
    }
    conn->is_again = true;
    if (conn->breaks > rules->breaks && !conn->has_elsewhere) {
        return enter(conn, VB_DEAD, 0, VB_DO_DROP | VB_DO_REPORT | (0 == actions ? 0 : VB_DO_REFUSE));
    }
    return enter(conn, VB_BREAKING, 0, VB_DO_BREAK | actions);
}

/* Until an attempt of mine. Elsewhere is asked for at once; a connection there is ended by the other side to try the own network: it
 * asks soon, if this carries, and else I do. */
static uint64_t pause_after_break(const vb_conn_t *conn, const vb_conn_rules_t *rules)
{
    return !conn->has_elsewhere ? pause_of(conn, 0, rules) : conn->is_elsewhere && !conn->stands ? 2 * rules->trial_ns : 0;
}

/* What is another thing where connections are resumed. False: nothing is. */
static bool resume(vb_conn_t *conn, vb_conn_event_t event, uint64_t now, const vb_conn_rules_t *rules, unsigned *todo)
{
    const unsigned in = 1u << conn->state, on = 1u << event;
    *todo = 0;
    if (conn->is_again && on & (ON(CARRIED) | ON(REJECTED) | ON(CROSS) | ON(ASKED) | ON(ASKED_AGAIN))) {
        conn->resume_until = now + rules->resume_ns; /* it is alive, and may only be computing */
    }
    if (in & IN(BREAKING) && on & ON(STILL)) {
        conn->resume_until = now + rules->resume_ns; /* until now nobody was asked */
        *todo = conn->is_resumed || conn->is_wanted
                    ? enter(conn, VB_WAITING, now + pause_after_break(conn, rules), VB_DO_DROP)
                    : enter(conn, VB_IDLE, 0, VB_DO_DROP);
        conn->tries = conn->goes_home;
        conn->goes_home = false;
    } else if (in & IN(BREAKING) && on & ON(ASKED) && !conn->is_resumed) {
        *todo = enter(conn, VB_ACCEPTING, now + limit_of(conn, rules), VB_DO_DROP | VB_DO_ACCEPT); /* it has sent nothing yet */
    } else if (in & (IN(OPEN) | IN(ACCEPTING)) && on & ON(ASKED_AGAIN)) {
        *todo = break_off(conn, now, rules, VB_DO_BUSY); /* what I know of has broken, and may have brought something */
    } else if (in & IN(OPEN) && on & ON(ARRIVED) && conn->is_elsewhere) {
        return true;
    } else if (in & IN(OPEN) && on & ON(TIMEOUT) && conn->is_elsewhere && conn->is_stranded) {
        *todo = enter(conn, VB_OPEN, 0, 0);
    } else if (in & IN(OPEN) && on & ON(TIMEOUT) && conn->is_elsewhere) {
        ++conn->trials;
        *todo = break_off(conn, now, rules, 0);
    } else if ((in & IN(OPEN) && on & (ON(FAILED) | ON(DISCONNECTED))) || (in & IN(ACCEPTING) && on & FAILURES)) {
        *todo = break_off(conn, now, rules, 0);
    } else if (conn->state >= VB_PARTED && on & ON(ASKED_AGAIN)) {
        *todo = VB_DO_REFUSE;
    } else if (in & MINE && on & ON(ABSENT) && conn->is_again) {
        *todo = enter(conn, VB_DEAD, 0, VB_DO_DROP | VB_DO_REPORT); /* it was there */
    } else {
        return false;
    }
    return true;
}

/* ---- all ---- */

static unsigned step(vb_conn_t *conn, vb_conn_event_t event, uint64_t now, const vb_conn_rules_t *rules)
{
    const bool is_mine = 0 != (MINE & 1u << conn->state), fails = 0 != (FAILURES & 1u << event);
    conn->is_wanted |= VB_ON_WANTED == event;
    const bool stands = conn->is_elsewhere == conn->asks_elsewhere ? conn->stands : conn->is_elsewhere;
    if (VB_ON_ASKED == event && (conn->state >= VB_OPEN || (is_mine && stands))) {
        return is_mine ? VB_DO_CROSSED : VB_DO_BUSY;
    }
    if (is_mine && fails) {
        return again(conn, event, now, rules);
    }
    if (VB_ACCEPTING == conn->state && fails) {
        return conn->is_wanted ? enter(conn, VB_WAITING, now + rules->backoff_ns, VB_DO_DROP)
                               : enter(conn, VB_IDLE, 0, VB_DO_DROP);
    }
    if (VB_WAITING == conn->state && VB_ON_TIMEOUT == event) {
        conn->resume_until += now - conn->deadline; /* it was not its turn */
        return may_try(conn, now, rules) ? begin(conn, now, rules)
                                         : enter(conn, VB_DEAD, 0, VB_DO_REPORT);
    }
    if (VB_IDLE == conn->state && VB_ON_WANTED == event) {
        conn->resume_until = now + rules->resume_ns; /* for what I accepted, and broke */
        return begin(conn, now, rules);
    }
    if (VB_CONNECTING == conn->state && VB_ON_ESTABLISHED == event) {
        conn->words = 0;
        return say(conn, now, rules, VB_DO_READY);
    }
    if (VB_OPEN == conn->state && VB_ON_TIMEOUT == event && 0 != conn->deadline) {
        ++conn->words;
        return say(conn, now, rules, 0);
    }
    return by_table(conn, event, now, rules);
}

/* It has changed. */
static void note_change(vb_conn_t *conn, uint64_t now, const vb_conn_rules_t *rules)
{
    if (VB_OPEN == conn->state) {
        conn->opened_at = now;
        if (conn->is_elsewhere && conn->stands && conn->breaks <= rules->breaks) {
            conn->deadline = now + (rules->return_ns << (conn->trials < RETURN_DOUBLINGS ? conn->trials : RETURN_DOUBLINGS));
        }
    }
}

unsigned vb_conn_step(vb_conn_t *conn, vb_conn_event_t event, uint64_t now, const vb_conn_rules_t *rules)
{
    const vb_conn_state_t before = conn->state;
    unsigned todo;
    conn->asks_elsewhere = VB_ON_ASKED_ELSEWHERE == event;
    event = conn->asks_elsewhere ? VB_ON_ASKED_AGAIN : event;
    if (0 == rules->resume_ns && VB_ON_ASKED_AGAIN == event) {
        return VB_DO_REFUSE;
    }
    if (0 == rules->resume_ns || !resume(conn, event, now, rules, &todo)) {
        todo = step(conn,
                    VB_ON_ASKED_AGAIN == event ? VB_ON_ASKED
                    : VB_ON_ABSENT == event    ? VB_ON_REJECTED
                                               : event,
                    now, rules);
    }
    conn->is_elsewhere = todo & VB_DO_ACCEPT ? conn->asks_elsewhere : conn->is_elsewhere;
    if (before != conn->state) {
        note_change(conn, now, rules);
    }
    return todo;
}

#define NAME(name) #name,
static const char *const states[] = {VB_CONN_STATES(NAME)};
static const char *const events[] = {VB_CONN_EVENTS(NAME)};

const char *vb_conn_state_name(vb_conn_state_t state)
{
    return (size_t) state < sizeof(states) / sizeof(*states) ? states[state] : "?";
}

const char *vb_conn_event_name(vb_conn_event_t event)
{
    return (size_t) event < sizeof(events) / sizeof(*events) ? events[event] : "?";
}
