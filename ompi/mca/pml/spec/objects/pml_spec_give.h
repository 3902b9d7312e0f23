/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Gives the processor to a thread of another process that needs it (core/spec_give.h). */
#ifndef PML_SPEC_GIVE_H
#define PML_SPEC_GIVE_H

#include "../core/spec_give.h"

/* This thread polls in vain, and one of another process may need its processor: it has it, unless giving it away has cost too much
 * lately. keeps: SPEC_GIVE_AGENT or _COPIER. Any thread. */
void mca_pml_spec_give_way(uint32_t keeps);

#endif
