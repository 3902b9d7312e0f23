/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* See vb_way.h. */
#include "vb_way.h"

#include <stddef.h>

/* The only place where the state changes. */
static unsigned enter(vb_way_t *way, vb_way_state_t state, unsigned actions)
{
    way->state = state;
    return actions;
}

static unsigned leave(vb_way_t *way)
{
    ++way->round;
    way->owes |= VB_WAY_SAY_LEAVE;
    return enter(way, VB_WAY_LEAVING, 0);
}

/* The connection is no more. What I sent is safe if I had not begun to use it, what the peer sent if it
 * had not; a peer that has left may have begun. */
static unsigned fail(vb_way_t *way)
{
    if (VB_WAY_CONNECTED == way->state || way->has_left) {
        return enter(way, VB_WAY_BROKEN, VB_WAY_LOSE);
    }
    if (VB_WAY_LEAVING == way->state) {
        if (way->owes & VB_WAY_SAY_LEAVE) { /* the peer knows nothing of it yet */
            way->owes &= (uint8_t) ~VB_WAY_SAY_LEAVE;
            --way->round;
        } else {
            way->owes |= VB_WAY_SAY_RETURN;
        }
        return enter(way, VB_WAY_STAYING, way->owes & VB_WAY_SAY_RETURN ? 0 : VB_WAY_GO);
    }
    return enter(way, VB_WAY_STAYING, 0);
}

unsigned vb_way_step(vb_way_t *way, vb_way_event_t event, uint16_t round, uint32_t after,
                     bool has_place)
{
    if (VB_WAY_BROKEN == way->state) {
        return 0;
    }
    switch (event) {
    case VB_WAY_ON_SENT:
        way->sent += way->sent < UINT32_MAX;
        return VB_WAY_DATAGRAM == way->state && way->sent >= after && has_place
                   ? enter(way, VB_WAY_ASKED, VB_WAY_CONNECT)
                   : 0;
    case VB_WAY_ON_OPEN:
        return vb_way_is_by_datagrams(way) ? leave(way) : 0;
    case VB_WAY_ON_FAILED:
        return fail(way);
    case VB_WAY_ON_LEAVE:
        if (way->has_left) {
            return enter(way, VB_WAY_BROKEN, VB_WAY_FAULT);
        }
        way->has_left = true;
        way->their_round = round;
        way->owes |= VB_WAY_SAY_ARRIVED;
        return 0;
    case VB_WAY_ON_ARRIVED:
        return VB_WAY_LEAVING == way->state && round == way->round
                       && !(way->owes & VB_WAY_SAY_LEAVE)
                   ? enter(way, VB_WAY_CONNECTED, VB_WAY_GO)
                   : 0;
    case VB_WAY_ON_RETURN:
        if (!way->has_left || round != way->their_round) {
            return enter(way, VB_WAY_BROKEN, VB_WAY_FAULT);
        }
        way->has_left = false;
        way->owes &= (uint8_t) ~VB_WAY_SAY_ARRIVED;
        return 0;
    }
    return 0;
}

unsigned vb_way_next(const vb_way_t *way, uint16_t *round)
{
    const unsigned what = way->owes & VB_WAY_SAY_ARRIVED  ? VB_WAY_SAY_ARRIVED
                          : way->owes & VB_WAY_SAY_RETURN ? VB_WAY_SAY_RETURN
                                                          : way->owes & VB_WAY_SAY_LEAVE;
    /* A return is owed for the round before, if the next leave is owed already. */
    *round = VB_WAY_SAY_ARRIVED == what ? way->their_round
             : VB_WAY_SAY_RETURN == what && way->owes & VB_WAY_SAY_LEAVE
                 ? (uint16_t) (way->round - 1)
                 : way->round;
    return what;
}

bool vb_way_said(vb_way_t *way, unsigned what)
{
    way->owes &= (uint8_t) ~what;
    return VB_WAY_SAY_RETURN == what && vb_way_takes_datagrams(way);
}

const char *vb_way_state_name(vb_way_state_t state)
{
    static const char *const names[] = {
#define X(name) #name,
        VB_WAY_STATES(X)
#undef X
    };
    return (size_t) state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

const char *vb_way_event_name(vb_way_event_t event)
{
    static const char *const names[] = {
#define X(name) #name,
        VB_WAY_EVENTS(X)
#undef X
    };
    return (size_t) event < sizeof(names) / sizeof(*names) ? names[event] : "?";
}
