/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Sleeps in a long wait instead of polling, where the parameter btl_ibx_sleep_after asks for it: ibx_sleep.h decides when, this
 * sleeps on the descriptors of all modules. */
#ifndef BTL_IBX_SLEEP_H
#define BTL_IBX_SLEEP_H

#include "btl_ibx_compat.h"

#include "ibx_sleep.h"

extern ibx_sleep_t mca_btl_ibx_sleep_state;

/* microseconds: btl_ibx_sleep_after. After mca_btl_ibx_verbs_open, before the first progress. */
void mca_btl_ibx_sleep_open(int microseconds);

/* A poll was in vain, and it is time to read the clock: sleeps, if it is time for that. Returns how much came while it
 * made sure that nothing had come before. Any thread. */
int mca_btl_ibx_sleep_now(int (*poll_all)(void));

/* After each poll of all modules, which found so much. */
static inline int mca_btl_ibx_sleep(int events, int (*poll_all)(void))
{
    if (OPAL_LIKELY(0 == mca_btl_ibx_sleep_state.after)) {
        return events;
    }
    if (events > 0) {
        ibx_sleep_over(&mca_btl_ibx_sleep_state);
    } else if (ibx_sleep_checks(&mca_btl_ibx_sleep_state)) {
        events += mca_btl_ibx_sleep_now(poll_all);
    }
    return events;
}

#endif
