/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Yields the processor (sched_yield) with each pml_spec_yield_polls-th poll of a thread. */
#include "pml_spec_yield.h"

#include "pml_spec_agent.h"

#include <sched.h>

/* The program has one thread, and its agent pauses: may an agent of others need this processor? For a small message a wait is
 * over before that is known; longer ones give way by themselves (pml_spec_agent.h). */
static bool is_for_nobody(void)
{
    return SPEC_BIAS_OWNED == MCA_PML_SPEC_GLANCE(mca_pml_spec.bias.state)
           && ((0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.announced)
                && 0 == MCA_PML_SPEC_GLANCE(mca_pml_spec.offers))
               || !mca_pml_spec_agent_is_up());
}

static int after_poll(void)
{
    static _Thread_local int polls;
    if (is_for_nobody()) {
        return 0;
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
