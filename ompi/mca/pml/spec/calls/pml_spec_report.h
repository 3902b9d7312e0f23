/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What a job tells when it ends: the summary (pml_spec_summary) and the profile (pml_spec_profile).
 *
 * Both are made for the job as a whole, which takes communication; so they are made while
 * MPI_Finalize deletes the attributes of MPI_COMM_SELF, when MPI still works as always. */
#ifndef PML_SPEC_REPORT_H
#define PML_SPEC_REPORT_H

#include "../objects/pml_spec.h"

/* MPI_COMM_SELF exists: arrange for the report, if one is wanted, and for waiting for what must have come before the end. */
void mca_pml_spec_report_arm(void);

/* Read the profile, if there is one, into the tables of adaptation. */
void mca_pml_spec_profile_load(void);

#endif
