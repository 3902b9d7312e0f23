/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The two ends of iw_ends.h with faults between them (lossy.h, which asks for GNU's functions). */
#ifndef IW_LOSSY_ENDS_H
#define IW_LOSSY_ENDS_H

#include "iw_ends.h"
#include "lossy.h"

/* Between them and the network these faults, until they are closed. */
static inline end_t *lossy_ends_open(const char *faults)
{
    iw_fault_rates_t rates;
    assert_true(iw_fault_parse(&rates, faults));
    lossy_set(&rates, 1);
    return ends_open(true, 60 * S);
}

static inline void lossy_ends_close(end_t *e)
{
    static const iw_fault_rates_t none;
    assert_int_equal(lossy.sockets, 2);
    ends_close(e);
    lossy_set(&none, 0);
}

#endif
