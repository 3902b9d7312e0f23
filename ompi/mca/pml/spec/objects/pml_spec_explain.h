/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Help texts that must be read, because the job ends for what they tell.
 *
 * mpirun gathers help texts and prints each once. A process that ends right after its text takes the
 * text with it now and then: in every sixth job that Open MPI 5.0.7 refused, in every twentieth with
 * 4.1.4, nothing said why. Here the first process of a host writes to its standard error, which is
 * read to its end; the others, and after its first few this one, leave theirs to mpirun. */
#ifndef PML_SPEC_EXPLAIN_H
#define PML_SPEC_EXPLAIN_H

/* topic: of help-mpi-pml-spec.txt; what follows is what its text has places for. Any thread. */
void mca_pml_spec_explain(const char *topic, ...);

/* The same for what only one process knows, or has the others' word for. */
void mca_pml_spec_explain_alone(const char *topic, ...);

#endif
