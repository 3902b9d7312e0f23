/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* One time for the process at which it may give its processor away again. */
#include "pml_spec_give.h"

#include "pml_spec.h"

#include <sched.h>

void mca_pml_spec_give_way(uint32_t keeps)
{
    static uint64_t again; /* of the process, whoever needs the processor */
    const uint64_t before = __atomic_load_n(&again, __ATOMIC_RELAXED), now = spec_now();
    if (spec_give_may(before, now)) {
        (void) sched_yield();
        const uint64_t after = spec_give_back(before, now, spec_now(), keeps);
        if (after != before) {
            __atomic_store_n(&again, after, __ATOMIC_RELAXED);
        }
    }
}
