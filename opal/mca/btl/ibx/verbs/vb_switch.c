/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The state machine that moves a peer from datagrams to a connection without reordering messages. */
#include "vb_switch.h"

#include <stddef.h>

/* The only place where the state changes. */
static unsigned enter(vb_switch_t *way, vb_switch_state_t state, unsigned actions)
{
    way->state = state;
    return actions;
}

static unsigned leave(vb_switch_t *way)
{
    ++way->round;
    way->owes |= VB_SWITCH_SAY_LEAVE;
    return enter(way, VB_SWITCH_LEAVING, 0);
}

/* The connection is no more. What I sent is safe if I had not begun to use it, what the peer sent if it
 * had not; a peer that has left may have begun. */
static unsigned fail(vb_switch_t *way)
{
    if (VB_SWITCH_CONNECTED == way->state || way->has_left) {
        return enter(way, VB_SWITCH_BROKEN, VB_SWITCH_LOSE);
    }
    if (VB_SWITCH_LEAVING == way->state) {
        if (way->owes & VB_SWITCH_SAY_LEAVE) { /* the peer knows nothing of it yet */
            way->owes &= (uint8_t) ~VB_SWITCH_SAY_LEAVE;
            --way->round;
        } else {
            way->owes |= VB_SWITCH_SAY_RETURN;
        }
        return enter(way, VB_SWITCH_STAYING, way->owes & VB_SWITCH_SAY_RETURN ? 0 : VB_SWITCH_GO);
    }
    return enter(way, VB_SWITCH_STAYING, 0);
}

unsigned vb_switch_step(vb_switch_t *way, vb_switch_event_t event, uint16_t round, uint32_t after,
                     bool has_slot)
{
    if (VB_SWITCH_BROKEN == way->state) {
        return 0;
    }
    switch (event) {
    case VB_SWITCH_ON_SENT:
        way->sent += way->sent < UINT32_MAX;
        return VB_SWITCH_DATAGRAM == way->state && way->sent >= after && has_slot
                   ? enter(way, VB_SWITCH_ASKED, VB_SWITCH_CONNECT)
                   : 0;
    case VB_SWITCH_ON_OPEN:
        return vb_switch_is_by_datagrams(way) ? leave(way) : 0;
    case VB_SWITCH_ON_FAILED:
        return fail(way);
    case VB_SWITCH_ON_LEAVE:
        if (way->has_left) {
            return enter(way, VB_SWITCH_BROKEN, VB_SWITCH_FAULT);
        }
        way->has_left = true;
        way->their_round = round;
        way->owes |= VB_SWITCH_SAY_ARRIVED;
        return 0;
    case VB_SWITCH_ON_ARRIVED:
        return VB_SWITCH_LEAVING == way->state && round == way->round
                       && !(way->owes & VB_SWITCH_SAY_LEAVE)
                   ? enter(way, VB_SWITCH_CONNECTED, VB_SWITCH_GO)
                   : 0;
    case VB_SWITCH_ON_RETURN:
        if (!way->has_left || round != way->their_round) {
            return enter(way, VB_SWITCH_BROKEN, VB_SWITCH_FAULT);
        }
        way->has_left = false;
        way->owes &= (uint8_t) ~VB_SWITCH_SAY_ARRIVED;
        return 0;
    }
    return 0;
}

unsigned vb_switch_next(const vb_switch_t *way, uint16_t *round)
{
    const unsigned what = way->owes & VB_SWITCH_SAY_ARRIVED  ? VB_SWITCH_SAY_ARRIVED
                          : way->owes & VB_SWITCH_SAY_RETURN ? VB_SWITCH_SAY_RETURN
                                                          : way->owes & VB_SWITCH_SAY_LEAVE;
    /* A return is owed for the round before, if the next leave is owed already. */
    *round = VB_SWITCH_SAY_ARRIVED == what ? way->their_round
             : VB_SWITCH_SAY_RETURN == what && way->owes & VB_SWITCH_SAY_LEAVE
                 ? (uint16_t) (way->round - 1)
                 : way->round;
    return what;
}

bool vb_switch_said(vb_switch_t *way, unsigned what)
{
    way->owes &= (uint8_t) ~what;
    return VB_SWITCH_SAY_RETURN == what && vb_switch_takes_datagrams(way);
}

const char *vb_switch_state_name(vb_switch_state_t state)
{
    static const char *const names[] = {
#define X(name) #name,
        VB_SWITCH_STATES(X)
#undef X
    };
    return (size_t) state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

const char *vb_switch_event_name(vb_switch_event_t event)
{
    static const char *const names[] = {
#define X(name) #name,
        VB_SWITCH_EVENTS(X)
#undef X
    };
    return (size_t) event < sizeof(names) / sizeof(*names) ? names[event] : "?";
}
