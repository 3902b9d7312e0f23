/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The state machine of a connection: a table of states and events, which returns actions. */
#include "vb_conn.h"

void vb_conn_init(vb_conn_t *conn, uint64_t me, uint64_t peer)
{
    *conn = (vb_conn_t){.state = VB_IDLE, .stands = me < peer};
}

/* The only place where the state changes. */
static unsigned enter(vb_conn_t *conn, vb_conn_state_t state, uint64_t deadline, unsigned actions)
{
    conn->state = state;
    conn->deadline = deadline;
    return actions;
}

static unsigned begin(vb_conn_t *conn, uint64_t now, const vb_conn_rules_t *rules)
{
    ++conn->tries;
    return enter(conn, VB_RESOLVING, now + rules->attempt_ns, VB_DO_RESOLVE);
}

/* An attempt of mine came to nothing. */
static unsigned again(vb_conn_t *conn, uint64_t now, const vb_conn_rules_t *rules)
{
    if (conn->tries >= rules->tries) {
        return enter(conn, VB_DEAD, 0, VB_DO_DROP | VB_DO_REPORT);
    }
    const unsigned doublings = conn->tries > 0 && conn->tries < 8 ? conn->tries - 1 : 0;
    return enter(conn, VB_WAITING, now + (rules->backoff_ns << doublings), VB_DO_DROP);
}

/* The first word, and until when something should have arrived. */
static unsigned say(vb_conn_t *conn, uint64_t now, const vb_conn_rules_t *rules, unsigned actions)
{
    const bool again = conn->words < rules->words;
    const uint64_t patience = again ? rules->word_ns << 3 * conn->words : 0;
    return enter(conn, VB_OPEN, again ? now + patience : 0, VB_DO_FIRST | actions);
}

static unsigned in_my_attempt(vb_conn_t *conn, vb_conn_event_t event, uint64_t now,
                              const vb_conn_rules_t *rules)
{
    switch (event) {
    case VB_ON_ADDRESS:
        return VB_RESOLVING == conn->state ? enter(conn, VB_ROUTING, conn->deadline, VB_DO_ROUTE)
                                           : 0;
    case VB_ON_ROUTE:
        return VB_ROUTING == conn->state ? enter(conn, VB_CONNECTING, conn->deadline, VB_DO_CONNECT)
                                         : 0;
    case VB_ON_ESTABLISHED:
        if (VB_CONNECTING != conn->state) {
            return 0;
        }
        conn->words = 0;
        return say(conn, now, rules, VB_DO_READY);
    case VB_ON_ASKED:
        return conn->stands
                   ? VB_DO_CROSSED
                   : enter(conn, VB_ACCEPTING, now + rules->attempt_ns, VB_DO_DROP | VB_DO_ACCEPT);
    case VB_ON_CROSS: /* the peer's request is on its way; if it never comes, mine is next */
        return enter(conn, VB_WAITING, now + rules->attempt_ns, VB_DO_DROP);
    case VB_ON_REJECTED:
    case VB_ON_FAILED:
    case VB_ON_TIMEOUT:
    case VB_ON_DISCONNECTED:
        return again(conn, now, rules);
    case VB_ON_REFUSED:
        return enter(conn, VB_DEAD, 0, VB_DO_DROP | VB_DO_REPORT);
    case VB_ON_CLOSE:
        return enter(conn, VB_CLOSED, 0, VB_DO_DROP);
    default:
        return 0;
    }
}

static unsigned in_accepting(vb_conn_t *conn, vb_conn_event_t event, uint64_t now,
                             const vb_conn_rules_t *rules)
{
    switch (event) {
    case VB_ON_ARRIVED:
        return enter(conn, VB_OPEN, 0, VB_DO_READY);
    case VB_ON_ESTABLISHED: /* now the side that asked sends; if it cannot, the fabric tells */
        return enter(conn, VB_ACCEPTING, 0, 0);
    case VB_ON_ASKED: /* the peer has given its earlier attempt up */
        return enter(conn, VB_ACCEPTING, now + rules->attempt_ns, VB_DO_DROP | VB_DO_ACCEPT);
    case VB_ON_FAILED:
    case VB_ON_REJECTED:
    case VB_ON_TIMEOUT:
    case VB_ON_DISCONNECTED:
        if (conn->is_wanted) {
            return enter(conn, VB_WAITING, now + rules->backoff_ns, VB_DO_DROP);
        }
        return enter(conn, VB_IDLE, 0, VB_DO_DROP);
    case VB_ON_CLOSE:
        return enter(conn, VB_CLOSED, 0, VB_DO_DROP);
    default:
        return 0;
    }
}

unsigned vb_conn_step(vb_conn_t *conn, vb_conn_event_t event, uint64_t now,
                      const vb_conn_rules_t *rules)
{
    conn->is_wanted |= VB_ON_WANTED == event;
    switch (conn->state) {
    case VB_IDLE:
    case VB_WAITING:
        switch (event) {
        case VB_ON_WANTED:
            return VB_IDLE == conn->state ? begin(conn, now, rules) : 0;
        case VB_ON_TIMEOUT:
            return VB_WAITING != conn->state    ? 0
                   : conn->tries < rules->tries ? begin(conn, now, rules)
                                                : enter(conn, VB_DEAD, 0, VB_DO_REPORT);
        case VB_ON_ASKED:
            return enter(conn, VB_ACCEPTING, now + rules->attempt_ns, VB_DO_ACCEPT);
        case VB_ON_CLOSE:
            return enter(conn, VB_CLOSED, 0, 0);
        default:
            return 0;
        }
    case VB_RESOLVING:
    case VB_ROUTING:
    case VB_CONNECTING:
        return in_my_attempt(conn, event, now, rules);
    case VB_ACCEPTING:
        return in_accepting(conn, event, now, rules);
    case VB_OPEN:
        switch (event) {
        case VB_ON_ASKED:
            return VB_DO_BUSY;
        case VB_ON_ARRIVED:
            return enter(conn, VB_OPEN, 0, 0);
        case VB_ON_TIMEOUT:
            if (0 == conn->deadline) {
                return 0;
            }
            ++conn->words;
            return say(conn, now, rules, 0);
        case VB_ON_GOODBYE:
            return enter(conn, VB_PARTED, 0, 0);
        case VB_ON_FAILED:
        case VB_ON_DISCONNECTED:
            return enter(conn, VB_DEAD, 0, VB_DO_DROP | VB_DO_REPORT);
        case VB_ON_CLOSE:
            return enter(conn, VB_CLOSED, 0, VB_DO_BYE | VB_DO_DROP);
        default:
            return 0;
        }
    case VB_PARTED:
        if (VB_ON_FAILED == event || VB_ON_DISCONNECTED == event || VB_ON_CLOSE == event) {
            return enter(conn, VB_CLOSED, 0, VB_DO_DROP);
        }
        return VB_ON_ASKED == event ? VB_DO_BUSY : 0;
    case VB_CLOSED:
    case VB_DEAD:
        return VB_ON_ASKED == event ? VB_DO_BUSY : 0;
    }
    return 0;
}

const char *vb_conn_state_name(vb_conn_state_t state)
{
    static const char *const names[] = {
#define X(name) #name,
        VB_CONN_STATES(X)
#undef X
    };
    return (unsigned) state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

const char *vb_conn_event_name(vb_conn_event_t event)
{
    static const char *const names[] = {
#define X(name) #name,
        VB_CONN_EVENTS(X)
#undef X
    };
    return (unsigned) event < sizeof(names) / sizeof(*names) ? names[event] : "?";
}
