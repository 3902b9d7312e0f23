/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sleep instead of polling in a long wait (btl_ibx_rest): the binding of ibx_sleep.h to the modules' descriptors. */
#ifndef BTL_IBX_REST_H
#define BTL_IBX_REST_H

#include "btl_ibx_compat.h"

#include "ibx_sleep.h"

extern ibx_rest_t mca_btl_ibx_rest_state;

/* btl_ibx_rest. After mca_btl_ibx_verbs_open, before the first progress. */
void mca_btl_ibx_rest_open(int microseconds);

/* A poll was in vain, and it is time to look at the clock: sleeps, if it is time for that. Returns how much came while it
 * made sure that nothing had come before. Any thread. */
int mca_btl_ibx_rest_now(int (*poll_all)(void));

/* After each poll of all modules, which found so much. */
static inline int mca_btl_ibx_rest(int events, int (*poll_all)(void))
{
    if (OPAL_LIKELY(0 == mca_btl_ibx_rest_state.after)) {
        return events;
    }
    if (events > 0) {
        ibx_rest_over(&mca_btl_ibx_rest_state);
    } else if (ibx_rest_looks(&mca_btl_ibx_rest_state)) {
        events += mca_btl_ibx_rest_now(poll_all);
    }
    return events;
}

#endif
