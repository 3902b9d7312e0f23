/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Memory of kept packets: slabs (core/spec_slab.h) that come from the system and go back to it.
 *
 * Slabs without a packet are given back when no packet was kept for MCA_PML_SPEC_SLABS_QUIET to twice that. That is checked by a
 * callback of opal_progress of the kind that it calls seldom; it is registered only from when a slab becomes unused until it
 * was given back. (A timer would be simpler, but some builds of Open MPI have libevent inside, with names of its own.)
 *
 * Threads: any; a lock of its own, since memory comes and goes under it. */
#ifndef PML_SPEC_SLABS_H
#define PML_SPEC_SLABS_H

#include "pml_spec.h"

#define MCA_PML_SPEC_SLABS_QUIET UINT64_C(100000000) /* ns */

void mca_pml_spec_slabs_init(void);

/* As spec_slab_take and spec_slab_put. */
void *mca_pml_spec_slabs_take(size_t size);
void mca_pml_spec_slabs_put(void *memory, size_t size);

/* A packet that is still kept, as a matched probe of which nobody received the message, stays where it is. */
void mca_pml_spec_slabs_fini(void);

#endif
