/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The state machine that moves a peer from datagrams to a connection without reordering messages. */
#include "vb_switch.h"

#include <stddef.h>

/* The only place where the state changes. */
static unsigned enter(vb_switch_t *sw, vb_switch_state_t state, unsigned actions)
{
    sw->state = state;
    return actions;
}

static unsigned leave(vb_switch_t *sw)
{
    ++sw->round;
    sw->owes |= VB_SWITCH_SAY_LEAVE;
    return enter(sw, VB_SWITCH_LEAVING, 0);
}

/* The connection is no more. What I sent is safe if I had not begun to use it, what the peer sent if it
 * had not; a peer that has left may have begun. */
static unsigned fail(vb_switch_t *sw)
{
    if (VB_SWITCH_CONNECTED == sw->state || sw->has_left) {
        return enter(sw, VB_SWITCH_BROKEN, VB_SWITCH_LOSE);
    }
    if (VB_SWITCH_LEAVING == sw->state) {
        if (sw->owes & VB_SWITCH_SAY_LEAVE) { /* the peer knows nothing of it yet */
            sw->owes &= (uint8_t) ~VB_SWITCH_SAY_LEAVE;
            --sw->round;
        } else {
            sw->owes |= VB_SWITCH_SAY_RETURN;
        }
        return enter(sw, VB_SWITCH_STAYING, sw->owes & VB_SWITCH_SAY_RETURN ? 0 : VB_SWITCH_GO);
    }
    return enter(sw, VB_SWITCH_STAYING, 0);
}

unsigned vb_switch_step(vb_switch_t *sw, vb_switch_event_t event, uint16_t round, uint32_t after,
                     bool has_slot)
{
    if (VB_SWITCH_BROKEN == sw->state) {
        return 0;
    }
    switch (event) {
    case VB_SWITCH_ON_SENT:
        sw->sent += sw->sent < UINT32_MAX;
        return VB_SWITCH_DATAGRAM == sw->state && sw->sent >= after && has_slot
                   ? enter(sw, VB_SWITCH_ASKED, VB_SWITCH_CONNECT)
                   : 0;
    case VB_SWITCH_ON_OPEN:
        return vb_switch_is_by_datagrams(sw) ? leave(sw) : 0;
    case VB_SWITCH_ON_FAILED:
        return fail(sw);
    case VB_SWITCH_ON_LEAVE:
        if (sw->has_left) {
            return enter(sw, VB_SWITCH_BROKEN, VB_SWITCH_FAULT);
        }
        sw->has_left = true;
        sw->their_round = round;
        sw->owes |= VB_SWITCH_SAY_ARRIVED;
        return 0;
    case VB_SWITCH_ON_ARRIVED:
        return VB_SWITCH_LEAVING == sw->state && round == sw->round
                       && !(sw->owes & VB_SWITCH_SAY_LEAVE)
                   ? enter(sw, VB_SWITCH_CONNECTED, VB_SWITCH_GO)
                   : 0;
    case VB_SWITCH_ON_RETURN:
        if (!sw->has_left || round != sw->their_round) {
            return enter(sw, VB_SWITCH_BROKEN, VB_SWITCH_FAULT);
        }
        sw->has_left = false;
        sw->owes &= (uint8_t) ~VB_SWITCH_SAY_ARRIVED;
        return 0;
    }
    return 0;
}

unsigned vb_switch_next(const vb_switch_t *sw, uint16_t *round)
{
    const unsigned what = sw->owes & VB_SWITCH_SAY_ARRIVED  ? VB_SWITCH_SAY_ARRIVED
                          : sw->owes & VB_SWITCH_SAY_RETURN ? VB_SWITCH_SAY_RETURN
                                                          : sw->owes & VB_SWITCH_SAY_LEAVE;
    /* A return is owed for the round before, if the next leave is owed already. */
    *round = VB_SWITCH_SAY_ARRIVED == what ? sw->their_round
             : VB_SWITCH_SAY_RETURN == what && sw->owes & VB_SWITCH_SAY_LEAVE
                 ? (uint16_t) (sw->round - 1)
                 : sw->round;
    return what;
}

bool vb_switch_said(vb_switch_t *sw, unsigned what)
{
    sw->owes &= (uint8_t) ~what;
    return VB_SWITCH_SAY_RETURN == what && vb_switch_takes_datagrams(sw);
}

#define NAME(name) #name,
static const char *const states[] = {VB_SWITCH_STATES(NAME)};
static const char *const events[] = {VB_SWITCH_EVENTS(NAME)};

const char *vb_switch_state_name(vb_switch_state_t state)
{
    return (size_t) state < sizeof(states) / sizeof(*states) ? states[state] : "?";
}

const char *vb_switch_event_name(vb_switch_event_t event)
{
    return (size_t) event < sizeof(events) / sizeof(*events) ? events[event] : "?";
}
