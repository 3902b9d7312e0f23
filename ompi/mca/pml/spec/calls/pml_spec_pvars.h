/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* The counters of the process, those of communicators that have ended included: as MPI_T performance variables, and as a list
 * for the summary. */
#ifndef PML_SPEC_PVARS_H
#define PML_SPEC_PVARS_H

#include "../objects/pml_spec_comm.h"

/* Register them as performance variables pml_spec_<name>. */
void mca_pml_spec_counters_register(void);

/* Take over the marks of a communicator. */
void mca_pml_spec_counters_fold(const mca_pml_spec_comm_t *comm);
/* All counters, and how many RTRs wait for their message here. sent_eager and bytes_eager of communicators that are there
 * are kept by their peers. Any thread. */
mca_pml_spec_counters_t mca_pml_spec_counters_now(uint64_t *rtr_kept);

/* Take over those of a communicator that ends. */
void mca_pml_spec_counters_fold_peers(mca_pml_spec_comm_t *comm);

/* The list at run time. */
typedef struct mca_pml_spec_counter {
    const char *name;
    const char *text;
    size_t offset; /* in mca_pml_spec_counters_t */
} mca_pml_spec_counter_t;

#define MCA_PML_SPEC_COUNTERS_N (sizeof(mca_pml_spec_counters_t) / sizeof(uint64_t))
extern const mca_pml_spec_counter_t mca_pml_spec_counter[MCA_PML_SPEC_COUNTERS_N];

/* Is it a mark, of which the job has not the sum but the most? */
static inline bool mca_pml_spec_is_mark(const mca_pml_spec_counter_t *counter)
{
    return counter->offset >= offsetof(mca_pml_spec_counters_t, posted_most);
}

#endif
