/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Yields the processor (sched_yield) with each pml_spec_yield_polls-th poll of a thread. */
#include "pml_spec_yield.h"

#include "pml_spec.h"

#include <sched.h>

static int after_poll(void)
{
    static _Thread_local int polls;
    if (SPEC_BIAS_OWNED == MCA_PML_SPEC_GLANCE(mca_pml_spec.bias.state)) {
        return 0; /* the program has no other thread, and the agent pauses */
    }
    if (OPAL_UNLIKELY(++polls >= mca_pml_spec.yield_polls)) {
        polls = 0;
        (void) sched_yield();
    }
    return 0;
}

void mca_pml_spec_yield_begin(void)
{
    if (mca_pml_spec.yield_polls > 0) {
        opal_progress_register(after_poll);
    }
}

void mca_pml_spec_yield_end(void)
{
    (void) opal_progress_unregister(after_poll);
}
