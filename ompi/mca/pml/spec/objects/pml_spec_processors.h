/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The processors of this host that the agent's thread may have. Threads: the one that starts MPI; the last, the agent's. */
#ifndef PML_SPEC_PROCESSORS_H
#define PML_SPEC_PROCESSORS_H

#include "../core/spec_agent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MCA_PML_SPEC_PROCESSORS = 8192 }; /* as many as Linux knows of */

/* A bit for each; none: nothing is known. */
typedef struct mca_pml_spec_processors {
    uint64_t set[MCA_PML_SPEC_PROCESSORS / 64];
    bool is_alone; /* OWN: no other rank's agent is there */
} mca_pml_spec_processors_t;

/* Those that a list names, as pml_spec_progress_processors has it. Returns how many; 0: it is no list of processors. */
unsigned mca_pml_spec_processors_named(mca_pml_spec_processors_t *processors, const char *list);

/* Where the agent of this process is to run, and *processors, on which. OWN: one of the named (NULL or empty: none is), or that no
 * rank of this host owns, if there are enough for the agents of all. APART: those of other ranks, without this process's. SHARED: all that the job may use here.
 * A rank owns what its threads may run on: all of them if it is not bound. why: says in words what was found. */
spec_agent_home_t mca_pml_spec_processors_find(mca_pml_spec_processors_t *processors,
                                               const char *named, char *why, size_t size);

/* Bytes of the cache that a processor has for itself, its second; 0: not known. */
uint64_t mca_pml_spec_processors_cache(void);

/* Has the calling thread run there; nothing if none is in the set. */
void mca_pml_spec_processors_use(const mca_pml_spec_processors_t *processors);

#endif
