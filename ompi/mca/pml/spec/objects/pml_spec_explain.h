/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* Help texts of the component: each is told once on a host, and seen although the job ends right after. */
#ifndef PML_SPEC_EXPLAIN_H
#define PML_SPEC_EXPLAIN_H

#include "pml_spec_compat.h"

#include "opal/include/spec/explain.h"

/* topic: of help-mpi-pml-spec.txt; what follows is what its text has places for. Any thread. */
#define mca_pml_spec_explain(topic, ...)                                                           \
    spec_explain("help-mpi-pml-spec.txt", topic, "", ##__VA_ARGS__)

#endif
