/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Draws the registrations that fail on purpose from a seed, and counts them. */
#include "btl_ibx_fault.h"

#include "btl_ibx.h"
#include "iw_random.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#define MILLION 1000000u

static uint32_t rate; /* of a million; 0: none fails */
/* Several threads register at a time: each takes its step by itself. */
static _Atomic uint64_t random_state, asked, failed;

const char *mca_btl_ibx_fault_refuse(const char *text)
{
    char *end;
    const double share = strtod(text, &end);
    return end != text && '\0' == *end && share >= 0.0 && share <= 1.0 ? NULL
                                                                       : "a number from 0 to 1";
}

void mca_btl_ibx_fault_open(void)
{
    const char *text = mca_btl_ibx_component.fault_register;
    rate = NULL == text ? 0 : (uint32_t) (strtod(text, NULL) * MILLION + 0.5); /* checked */
    if (NULL == text || '\0' == *text) {
        return;
    }
    uint64_t seed = mca_btl_ibx_component.fault_seed;
    if (0 == seed) {
        (void) !getrandom(&seed, 4, 0);
    }
    seed += OPAL_PROC_MY_NAME.vpid * 1000u;
    atomic_store(&random_state, seed);
    spec_tell(0, "btl/ibx: faults on purpose, seed %llu, in registrations",
                (unsigned long long) seed);
}

bool mca_btl_ibx_fault_registration(void)
{
    if (OPAL_LIKELY(0 == rate)) {
        return false;
    }
    const uint64_t state = atomic_fetch_add(&random_state, IW_RANDOM_STEP) + IW_RANDOM_STEP;
    atomic_fetch_add(&asked, 1);
    if (iw_random_of(state) % MILLION >= rate) {
        return false;
    }
    atomic_fetch_add(&failed, 1);
    return true;
}

void mca_btl_ibx_fault_close(void)
{
    if (0 != rate) {
        spec_tell(0, "btl/ibx: faults on purpose: %llu of %llu registrations failed",
                    (unsigned long long) atomic_load(&failed),
                    (unsigned long long) atomic_load(&asked));
    }
}
