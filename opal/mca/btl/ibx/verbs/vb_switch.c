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

/* Whatever else was to be said: the peer waits for nothing but this. */
static unsigned give_up(vb_switch_t *sw, unsigned actions)
{
    sw->owes = VB_SWITCH_SAY_GIVE_UP;
    return enter(sw, VB_SWITCH_BROKEN, actions);
}

/* The connection is no more. What went by it may be lost; if nothing did, leave is taken back. Whether something was on its
 * way to here only the peer knows: it is told that the connection broke. */
static unsigned fail(vb_switch_t *sw)
{
    if (sw->is_used) {
        return give_up(sw, VB_SWITCH_LOSE);
    }
    sw->owes |= sw->has_left ? VB_SWITCH_SAY_ARRIVED : 0;
    if (vb_switch_is_by_datagrams(sw)) {
        return enter(sw, VB_SWITCH_STAYING, 0);
    }
    if (sw->owes & VB_SWITCH_SAY_LEAVE) { /* the peer knows nothing of it yet */
        sw->owes &= (uint8_t) ~VB_SWITCH_SAY_LEAVE;
        --sw->round;
    } else {
        sw->owes |= VB_SWITCH_SAY_RETURN;
    }
    return enter(sw, VB_SWITCH_STAYING, sw->owes & VB_SWITCH_SAY_RETURN ? 0 : VB_SWITCH_GO);
}

/* An answer to my leave counts if it is to the last one, and that has not been taken back. */
static bool is_answer(const vb_switch_t *sw, uint16_t round)
{
    return !vb_switch_is_by_datagrams(sw) && round == sw->round && !(sw->owes & VB_SWITCH_SAY_LEAVE);
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
            return give_up(sw, VB_SWITCH_FAULT);
        }
        sw->has_left = true;
        sw->their_round = round;
        sw->owes |= VB_SWITCH_SAY_ARRIVED;
        return 0;
    case VB_SWITCH_ON_ARRIVED:
        return VB_SWITCH_LEAVING == sw->state && is_answer(sw, round)
                   ? enter(sw, VB_SWITCH_CONNECTED, VB_SWITCH_GO)
                   : 0;
    case VB_SWITCH_ON_BROKE:
        return is_answer(sw, round) ? VB_SWITCH_CUT : 0;
    case VB_SWITCH_ON_RETURN:
        if (!sw->has_left || round != sw->their_round) {
            return give_up(sw, VB_SWITCH_FAULT);
        }
        sw->has_left = false;
        sw->owes &= (uint8_t) ~VB_SWITCH_SAY_ARRIVED;
        return 0;
    case VB_SWITCH_ON_GAVE_UP:
        sw->owes = 0;
        return enter(sw, VB_SWITCH_BROKEN, VB_SWITCH_LOSE);
    }
    return 0;
}

/* Arrived once the connection is there at this end, too: it can be used then. Broke when there is none, nor one being made. */
static unsigned answer(const vb_switch_t *sw, bool has_link)
{
    const bool is_open = VB_SWITCH_LEAVING == sw->state || VB_SWITCH_CONNECTED == sw->state;
    return !(sw->owes & VB_SWITCH_SAY_ARRIVED) ? 0
           : is_open                           ? VB_SWITCH_SAY_ARRIVED
           : has_link                          ? 0
                                               : VB_SWITCH_SAY_BROKE;
}

unsigned vb_switch_next(const vb_switch_t *sw, bool has_link, uint16_t *round)
{
    const unsigned answers = answer(sw, has_link);
    const unsigned what = sw->owes & VB_SWITCH_SAY_GIVE_UP  ? VB_SWITCH_SAY_GIVE_UP
                          : 0 != answers                    ? answers
                          : sw->owes & VB_SWITCH_SAY_RETURN ? VB_SWITCH_SAY_RETURN
                                                            : sw->owes & VB_SWITCH_SAY_LEAVE;
    /* A return is owed for the round before, if the next leave is owed already. */
    *round = 0 != answers ? sw->their_round
             : VB_SWITCH_SAY_RETURN == what && sw->owes & VB_SWITCH_SAY_LEAVE
                 ? (uint16_t) (sw->round - 1)
                 : sw->round;
    return what;
}

bool vb_switch_said(vb_switch_t *sw, unsigned what)
{
    sw->owes &= (uint8_t) ~(VB_SWITCH_SAY_BROKE == what ? (unsigned) VB_SWITCH_SAY_ARRIVED : what);
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
